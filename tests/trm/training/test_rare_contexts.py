"""Problems of training that are weighed by how rare is what meets in their digits."""

import pickle
from collections import Counter

import numpy as np
import pytest

from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.problems import keys, random_words, split_of
from canvas.sampling import sample
from trm.evaluation.contexts import digits_of
from trm.training import rare_contexts
from trm.training.curriculum import Curriculum, Stage
from trm.training.data import CanvasDataModule
from trm.training.rare_contexts import RareContexts
from trm.training.samples import RowStepSamples

TASK = Multiplication("lattice", digits_a=(1, 3), digits_b=(1, 3), long_bias=1.0)
INDEX = np.arange(4_000)
WORDS = random_words(keys(5, "train", 3, INDEX, 9), 2)


@pytest.fixture(autouse=True)
def fewer(monkeypatch):
    monkeypatch.setattr(rare_contexts, "_SEARCHED", 5_000)


@pytest.mark.parametrize(
    "task",
    [
        Multiplication("lattice", digits_a=(3, 3), digits_b=(2, 2)),
        Multiplication("standard", digits_a=(2, 2), digits_b=(2, 2)),
        Addition(digits=(4, 4), addends=(2, 2)),
    ],
)
def test_problems_of_training_are_exchanged_for_rarer_ones_as_long(task, monkeypatch):
    monkeypatch.setattr(rare_contexts, "_SEARCHED", 20_000)
    problems = sample(task, 0, "train", 3, INDEX)
    rare = RareContexts(task, 0).among(problems, 1.0, WORDS)
    assert (rare.lengths == problems.lengths).all()
    assert (split_of(rare) == 0).all()
    assert task.allows(rare).all()
    met = Counter(digits_of(task, sample(task, 0, "train", 9, np.arange(20_000))).codes.tolist())
    often = sorted(met.values())[len(met) // 10]  # a tenth of the contexts come less often

    def share(these):
        return np.mean([met[code] <= often for code in digits_of(task, these).codes.tolist()])

    assert share(rare) > 1.1 * share(problems)


def test_every_context_is_as_likely_to_be_drawn_for():
    task = Multiplication("lattice", digits_a=(2, 2), digits_b=(1, 1))
    found = sample(task, 0, "train", 0, np.arange(5_000))
    digits = digits_of(task, found)
    met = Counter(digits.codes.tolist())
    weights: Counter[tuple[int, ...]] = Counter()
    operands = found.to_ints()
    for code, problem in zip(digits.codes.tolist(), digits.problem.tolist(), strict=True):
        weights[operands[problem]] += 1 / met[code]  # an even chance of each context, then of it
    many = np.arange(40_000)
    problems = sample(task, 0, "train", 1, many)
    words = random_words(keys(0, "train", 1, many, 7), 2)
    drawn = Counter(RareContexts(task, 0).among(problems, 1.0, words).to_ints())
    assert set(drawn) <= set(weights)
    expected = {problem: len(many) * w / weights.total() for problem, w in weights.items()}
    squares = [(drawn[problem] - n) ** 2 / n for problem, n in expected.items()]
    freedom = len(squares) - 1
    assert abs(sum(squares) - freedom) < 5 * np.sqrt(2 * freedom)


def test_as_many_are_exchanged_as_asked_for():
    problems = sample(TASK, 0, "train", 3, INDEX)
    rare = RareContexts(TASK, 0)
    assert rare.among(problems, 0.0, WORDS).to_ints() == problems.to_ints()
    part = rare.among(problems, 0.25, WORDS)
    differ = np.mean([a != b for a, b in zip(part.to_ints(), problems.to_ints(), strict=True)])
    assert 0.18 < differ < 0.28  # some are exchanged for themselves


def test_lengths_that_were_not_met_stay():
    rare = RareContexts(Multiplication("lattice", digits_a=(3, 3), digits_b=(1, 3)), 0)
    problems = sample(TASK, 0, "train", 3, INDEX)
    exchanged = rare.among(problems, 1.0, WORDS).to_ints()
    stay = problems.lengths[:, 0] < 3
    assert 0 < stay.sum() < len(stay)
    for one, other, stays in zip(exchanged, problems.to_ints(), stay, strict=True):
        assert one == other or not stays


def test_samples_follow_from_the_index_also_in_another_process_and_stage():
    stages = Curriculum(TASK, [Stage(1, {"digits_a": [1, 2], "digits_b": [1, 1]})])
    asked = {"curriculum": stages, "rare_contexts": 0.5}
    data = RowStepSamples(TASK, Canvas(9, 9), "train", 7, 64, 8, **asked)
    late = data.__getitems__(range(64, 72))["labels"]
    early = data._drawing(range(64))[0]
    assert early.lengths.max(axis=0).tolist() == [2, 1]
    again = pickle.loads(pickle.dumps(data))
    assert (again.__getitems__(range(64, 72))["labels"] == late).all()
    assert (data[65]["labels"][0] == late[1]).all()


def test_a_data_module_draws_them_for_training_alone():
    settings = {"batch_size": 64, "batches_per_epoch": 2, "validation_problems": 8, "seed": 7}
    plain, rare = (
        CanvasDataModule(TASK, Canvas(9, 9), rare_contexts=share, **settings) for share in (0, 1)
    )
    one, other = (next(iter(data.train_dataloader()))["labels"] for data in (plain, rare))
    assert (one != other).flatten(1).any(dim=1).float().mean() > 0.9
    one, other = (next(iter(data.val_dataloader()[0])) for data in (plain, rare))
    assert one[0].to_ints() == other[0].to_ints()


def test_a_share_that_is_none_and_a_layout_without_sums_are_refused(monkeypatch):
    for share in (-0.1, 1.5):
        with pytest.raises(ValueError, match="rare_contexts is a share from 0 to 1, not"):
            CanvasDataModule(TASK, Canvas(), rare_contexts=share)
    rules = type(TASK.rules)
    monkeypatch.setattr(rules, "addends", lambda *_: None)
    with pytest.raises(ValueError, match="the layout lattice does not say what its rows are sums"):
        CanvasDataModule(TASK, Canvas(), rare_contexts=0.5)

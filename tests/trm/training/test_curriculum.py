"""Training problems that change from stage to stage, or are weighed by how rare they are."""

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
from trm.training import curriculum
from trm.training.curriculum import Curriculum, RareContexts, Stage
from trm.training.data import CanvasDataModule
from trm.training.samples import RowStepSamples, SequenceSamples

TASK = Multiplication("lattice", digits_a=(1, 4), digits_b=(1, 3), long_bias=1.0)
STAGES = [
    Stage(2, {"digits_a": [1, 2], "digits_b": [1, 1]}),
    Stage(3, {"digits_a": [1, 3], "repeats": 0.5}),
]


def test_each_epoch_is_of_its_stage_and_the_last_ones_of_the_whole_task():
    stages = Curriculum(TASK, STAGES)
    first, second = stages.at(0), stages.at(2)
    assert stages.at(1) is first
    assert (first.digits_a, first.digits_b, first.long_bias) == ((1, 2), (1, 1), 1.0)
    assert (second.digits_a, second.digits_b, second.repeats) == ((1, 3), (1, 3), 0.5)
    assert stages.at(3) is stages.at(100) is TASK
    assert Curriculum(TASK).at(0) is TASK


@pytest.mark.parametrize("kind", [RowStepSamples, SequenceSamples])
def test_samples_are_as_long_as_their_stage_allows(kind):
    data = kind(TASK, Canvas(), "train", 0, 64, 64, curriculum=Curriculum(TASK, STAGES))
    longest = [
        tuple(data._drawing(range(64 * epoch, 64 * epoch + 64))[0].lengths.max(axis=0).tolist())
        for epoch in range(5)
    ]
    assert longest == [(2, 1), (2, 1), (3, 3), (4, 3), (4, 3)]
    heights = [data.__getitems__(range(64 * epoch, 64 * epoch + 64)) for epoch in (0, 4)]
    small, large = (next(iter(batch.values())) for batch in heights)
    assert small[0].numel() < large[0].numel()


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([Stage(0, {})], "from 1 up, not 0"),
        ([Stage(3, {}), Stage(3, {})], "more epochs than the one before, from 1 up, not 3, 3"),
        ([Stage(3, {"digit_a": [1, 2]})], "until epoch 3: .*Did you mean digits_a"),
        ([Stage(3, {"digits_a": [1, 5]})], r"digits_a \[1, 5\] is not within the task's own, \[1"),
        ([Stage(3, {"digits_a": [2, 1]})], r"until epoch 3: digits_a is \[fewest, most\]"),
        ([Stage(3, {"digits_a": 2})], "until epoch 3: .*int"),
        ([Stage(3, {"base": 3})], "a setting must be one of .* got 'base'"),
    ],
)
def test_a_stage_that_is_none_is_refused(stages, message):
    with pytest.raises(ValueError, match=f"data.curriculum.*{message}"):
        Curriculum(TASK, stages)


def test_a_stage_without_a_problem_of_the_training_split_is_refused_before_training():
    task = Multiplication("lattice", base=2, digits_a=(1, 4), digits_b=(1, 3))
    with pytest.raises(ValueError, match="until epoch 1: no problem of digits_a 1-1, digits_b 1-1"):
        Curriculum(task, [Stage(1, {"digits_a": [1, 1], "digits_b": [1, 1]})])


def test_the_problems_worked_out_of_training_are_those_first_drawn():
    data = CanvasDataModule(
        TASK, Canvas(), batch_size=8, training_problems=16, seed=3, curriculum=STAGES
    )
    data.stage = "fit"
    drawn = [pair for problems, _ in data.val_dataloader()[1] for pair in problems.to_ints()]
    samples = RowStepSamples(TASK, Canvas(), "train", 3, 16, 8, curriculum=Curriculum(TASK, STAGES))
    assert drawn == samples._drawing(range(16))[0].to_ints()


# Rare contexts

EVEN = Multiplication("lattice", digits_a=(1, 3), digits_b=(1, 3), long_bias=1.0)
INDEX = np.arange(4_000)
WORDS = random_words(keys(5, "train", 3, INDEX, 9), 2)


@pytest.fixture(autouse=True)
def fewer(monkeypatch):
    monkeypatch.setattr(curriculum, "_SEARCHED", 5_000)


@pytest.mark.parametrize(
    "task",
    [
        Multiplication("standard", digits_a=(2, 2), digits_b=(2, 2)),
        Addition(digits=(4, 4), addends=(2, 2)),
    ],
)
def test_problems_of_training_are_exchanged_for_rarer_ones_as_long(task, monkeypatch):
    monkeypatch.setattr(curriculum, "_SEARCHED", 10_000)
    problems = sample(task, 0, "train", 3, INDEX)
    rare = RareContexts(task, 0).among(problems, 1.0, WORDS)
    assert (rare.lengths == problems.lengths).all()
    assert (split_of(rare) == 0).all()
    assert task.allows(rare).all()
    met = Counter(digits_of(task, sample(task, 0, "train", 9, np.arange(10_000))).codes.tolist())
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
    problems = sample(EVEN, 0, "train", 3, INDEX)
    rare = RareContexts(EVEN, 0)
    assert rare.among(problems, 0.0, WORDS).to_ints() == problems.to_ints()
    part = rare.among(problems, 0.25, WORDS)
    differ = np.mean([a != b for a, b in zip(part.to_ints(), problems.to_ints(), strict=True)])
    assert 0.18 < differ < 0.28  # some are exchanged for themselves


def test_samples_follow_from_the_index_also_in_another_process_and_stage():
    stages = Curriculum(EVEN, [Stage(1, {"digits_a": [1, 2], "digits_b": [1, 1]})])
    asked = {"curriculum": stages, "rare_contexts": 0.5}
    data = RowStepSamples(EVEN, Canvas(9, 9), "train", 7, 64, 8, **asked)
    late = data.__getitems__(range(64, 72))["labels"]
    early = data._drawing(range(64))[0]
    assert early.lengths.max(axis=0).tolist() == [2, 1]
    again = pickle.loads(pickle.dumps(data))
    assert (again.__getitems__(range(64, 72))["labels"] == late).all()
    assert (data[65]["labels"][0] == late[1]).all()


def test_a_layout_that_does_not_name_its_sums_is_refused(monkeypatch):
    monkeypatch.setattr(type(EVEN.rules), "addends", lambda *_: None)
    with pytest.raises(ValueError, match="the layout lattice does not say what its rows are sums"):
        CanvasDataModule(EVEN, Canvas(), rare_contexts=0.5)

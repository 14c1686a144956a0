import numpy as np
import pytest

from canvas.arithmetic import Numbers, narrow_carries
from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.problems import split_of
from canvas.symbols import BLANK
from trm.checkpoints.content import DATA_KEY
from trm.extras.model_card import _training
from trm.training.carry_practice import CarryPractice
from trm.training.data import CanvasDataModule
from trm.training.mixture import Mixture
from trm.training.samples import RowStepSamples, SequenceSamples

TASK = Multiplication("lattice", digits_a=(1, 4), digits_b=(1, 4), long_bias=1.0)


def counted(a: int, b: int, base: int) -> list[int]:
    """Narrow carries of each total, added up digit by digit."""
    counts, total = [], 0
    while True:
        b, digit = divmod(b, base)
        rest, above, carry, total, place, narrow = a, total // base, 0, 0, 1, 0
        while rest or above or carry:
            here = rest % base * digit + above % base + carry
            bound = range(here // base * base, here // base * base + 2)
            narrow += here in bound and carry >= base / 2 and here - carry < bound[0]
            carry, total = here // base, total + here % base * place
            rest, above, place = rest // base, above // base, place * base
        counts.append(narrow)
        if not b:
            return counts


@pytest.mark.parametrize("base", [2, 3, 10, 16])
def test_narrow_carries_are_those_of_a_sum_by_hand(base):
    draw = np.random.default_rng(base)
    pairs = draw.integers(0, base**5, (200, 2)).tolist()
    found = narrow_carries(*(Numbers.from_ints(side, base) for side in zip(*pairs, strict=True)))
    by_hand = [counted(a, b, base) for a, b in pairs]
    assert [row[row >= 0].tolist() for row in found] == by_hand
    assert found.max() >= 2


def test_61_of_77_times_8_is_narrow():
    found = narrow_carries(Numbers.from_ints([77, 17]), Numbers.from_ints([8, 9]))
    assert found.tolist() == [[1], [0]]


def test_a_share_of_row_steps_has_many_narrow_carries():
    of = (TASK, Canvas(), "train", 3, 2000, 2000)
    practice = CarryPractice(TASK, 0.5)
    plain, half = (RowStepSamples(*of, mixture=Mixture(practice=p)) for p in (None, practice))
    problems = [data.draw_batch(range(2000))[0] for data in (plain, half)]
    assert (split_of(problems[1]) == 0).all()
    same = [one == other for one, other in zip(*(p.to_ints() for p in problems), strict=True)]
    assert 0.6 < np.mean(same) < 0.85  # half of them are not chosen, some have no better candidate
    narrow = narrow_carries(*problems[1].operands)
    step = np.full(2000, -2)
    taken = practice.rows(problems[1], half.keys(range(2000)), step)
    chosen = np.flatnonzero(taken >= 0)
    assert 900 < len(chosen) < 1100
    assert (narrow[chosen, taken[chosen]] == narrow[chosen].max(axis=1)).all()
    assert narrow[chosen, taken[chosen]].mean() > 6 * narrow[narrow >= 0].mean() / 2
    # Every row of a problem is taken, as ties are drawn.
    assert {*taken[chosen].tolist()} == {0, 1, 2, 3}


def test_the_masked_row_is_the_one_with_narrow_carries():
    practice = CarryPractice(TASK, 1.0)
    data = RowStepSamples(TASK, Canvas(), "train", 3, 64, 64, mixture=Mixture(practice=practice))
    problems, *_, keys = data.draw_batch(range(64))
    step = practice.rows(problems, keys, np.zeros(64, dtype=np.int64))
    batch = data.__getitems__(range(64))
    canvas, answer = batch["labels"].numpy(), batch["answer"].numpy()
    rows = answer.any(axis=2).argmax(axis=1) - (canvas != BLANK).any(axis=2).argmax(axis=1)
    assert rows.tolist() == (step + 1).tolist()  # below the multiplicand


def test_a_gpt_practises_whole_problems():
    practice = CarryPractice(TASK, 1.0)
    data = SequenceSamples(TASK, Canvas(), "train", 3, 64, 64, mixture=Mixture(practice=practice))
    problems = data.draw_batch(range(64))[0]
    assert (narrow_carries(*problems.operands).max(axis=1) > 0).mean() > 0.5
    assert len(data.__getitems__(range(64))["ids"]) == 64


def test_the_card_says_that_samples_were_chosen():
    data = CanvasDataModule(TASK, Canvas(), batch_size=8, batches_per_epoch=4, carry_practice=0.5)
    content = {"hyper_parameters": {}, DATA_KEY: data.state_dict(), "global_step": 4}
    assert "50 % of the samples chosen for narrow carries" in _training(content)
    assert "carry_practice" not in CanvasDataModule(TASK, Canvas()).state_dict()

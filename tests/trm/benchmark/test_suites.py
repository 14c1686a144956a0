from collections import Counter
from dataclasses import replace
from itertools import combinations
from math import prod

import numpy as np
import pytest

from augment.symmetry import apply, invert
from canvas.problems import SPLITS, Problems, split_of
from canvas.reader import read
from canvas.sampling import sample
from trm.benchmark.export import cells_of
from trm.benchmark.suites import (
    SUITES,
    VIEWS,
    Training,
    checksum,
    items,
    json_line,
    label_of,
    read_secret,
    seed_of,
    training_items,
)
from trm.evaluation.cell_problems import cell_problems

# A suite never changes: what should change gets the next version's name.
CHECKSUMS = {
    "multiply-long-v1": "a92aa707bb49c28212752170d4f6366ed9dac4a5261d347602341e14467ab56e",
    "structured-v1": "0cb72281620d0066abb9b7cf91c1620ad716f828f892b6c6ef5c826f61eae55a",
    "addition-v1": "aef0f4dc5a6dffdafcccf9e2036d806aee9243520185a78c09efaf3e3e1a1f60",
    "canvas-v1": "1671818c8adf782d3c489ad95dc276c16107c6f657fa2c0a94a9c5c8968620df",
}
SECRET = b"a secret of more than sixteen bytes"


def some(name, most=4):
    """A part of a suite that is drawn at once."""
    return SUITES[name].within(most if name != "multiply-long-v1" else 50)


FIFTH = "3aa774a72631a4cc09c323a6a41fee66bd75cf020f22723a948e86909ee9b7eb"


@pytest.mark.parametrize("name", CHECKSUMS)
def test_a_suite_is_what_it_was(name):
    assert checksum(items(SUITES[name])) == CHECKSUMS[name]


def test_a_fifth_of_the_cells_of_the_largest_suite_are_what_they_were():
    suite = SUITES["multiply-v1"]
    assert len(suite.cells) == 400
    part = replace(suite, cells=tuple(cell for cell in suite.cells if sum(cell) % 5 == 0))
    assert checksum(items(part)) == FIFTH
    assert set(CHECKSUMS) == set(SUITES) - {suite.name}


@pytest.mark.parametrize("secret", [None, SECRET], ids=["public", "secret"])
@pytest.mark.parametrize("name", SUITES)
def test_every_problem_is_of_the_test_split_and_different_from_the_others(name, secret):
    found = list(items(some(name), secret))
    assert len({item.id for item in found}) == len(found)
    assert len({(i.row, i.column, i.operands) for i in found}) == len(found)
    for item in found:
        (split,) = split_of(Problems.from_ints([item.operands]))
        assert SPLITS[split] == "test"


@pytest.mark.parametrize("name", [name for name, suite in SUITES.items() if not suite.whole])
def test_questions_and_answers_are_those_of_plain_integers(name):
    suite = some(name)
    for item in items(suite):
        sign, work = ("+", sum) if "addition" in name else ("*", prod)
        assert item.question == f"{f' {sign} '.join(map(str, item.operands))} ="
        assert item.answer == str(work(item.operands))


def test_cells_are_of_the_sizes_that_they_name():
    for item in items(some("multiply-v1")):
        assert tuple(len(str(n)) for n in item.operands) == (item.row, item.column)
    for item in items(some("addition-v1")):
        assert {len(str(n)) for n in item.operands} == {item.row}
        assert len(item.operands) == item.column
    for item in items(some("structured-v1")):
        assert max(len(str(n)) for n in item.operands) == item.column


def test_cells_hold_what_is_wanted_or_all_that_there_is():
    suite = some("multiply-v1")
    counts = Counter((i.row, i.column) for i in items(suite))
    assert counts[4, 4] == counts[3, 2] == suite.problems
    few = sum(
        SPLITS[split_of(Problems.from_ints([(a, b)]))[0]] == "test"
        for a in range(1, 10)
        for b in range(1, 10)
    )
    assert counts[1, 1] == few


def test_evaluate_asks_the_same_problems():
    suite = some("multiply-v1", 3)
    asked = cell_problems(suite.task, (3, 2), suite.problems, seed=0).to_ints()
    assert [i.operands for i in items(suite) if (i.row, i.column) == (3, 2)] == asked


def test_canvases_say_their_problem_in_the_view_that_they_name():
    rows = {}
    for item in items(some("canvas-v1")):
        task = SUITES["canvas-v1"].task_of(item.row)
        assert item.row == f"{item.layout} {item.view}"
        upright = apply(invert(item.view), cells_of(item.answer))
        reading = read(np.ascontiguousarray(upright), task.rules)
        assert reading.operands == item.operands or set(reading.operands) == set(item.operands)
        assert reading.answer == task.answer(item.operands)
        rows.setdefault(item.layout, set()).add(item.view)
    assert len(rows) == 8  # six layouts of multiplication, two of addition
    assert all(views == set(VIEWS) for views in rows.values())


def test_a_question_shows_the_operands_and_nothing_of_the_answer():
    for item in items(some("canvas-v1", 2)):
        asked, finished = cells_of(item.question), cells_of(item.answer)
        blank = asked == 11
        assert (asked == finished)[~blank].all()
        assert blank.sum() > (finished == 11).sum()


def test_a_secret_draws_other_problems_under_other_ids():
    suite = some("multiply-v1", 3)
    public, secret = list(items(suite)), list(items(suite, SECRET))
    assert label_of(suite, SECRET).startswith("multiply-v1-secret-")
    assert not {i.id for i in public} & {i.id for i in secret}
    big = [{i.operands for i in part if (i.row, i.column) == (3, 3)} for part in (public, secret)]
    assert len(big[0] & big[1]) < 0.2 * len(big[0])
    assert list(items(suite, SECRET)) == secret


def test_a_secret_is_not_given_away_by_its_label_nor_shared_by_suites():
    seeds = {
        seed_of(suite, secret) for suite in SUITES.values() for secret in (SECRET, SECRET[:20])
    }
    assert len(seeds) == 2 * len(SUITES)
    for suite in SUITES.values():
        label = label_of(suite, SECRET).rpartition("-")[2]
        assert label not in f"{seed_of(suite, SECRET):016x}"


def test_a_short_secret_is_refused(tmp_path):
    (tmp_path / "secret").write_text("0123456789abcdef\n")
    assert read_secret(tmp_path / "secret") == b"0123456789abcdef"
    (tmp_path / "secret").write_text("secret\n")
    with pytest.raises(ValueError, match="6 bytes, and 16 are needed"):
        read_secret(tmp_path / "secret")


def test_training_meets_no_problem_of_a_suite():
    """In any order of the operands, and with repeated digits, too."""
    suite = some("multiply-v1", 2)
    asked = {frozenset(item.operands) for item in items(suite)}
    task = replace(suite.task, digits_a=(1, 2), digits_b=(1, 2), repeats=0.5)
    drawn = sample(task, 3, "train", 0, np.arange(20_000)).to_ints()
    assert not asked & {frozenset(pair) for pair in drawn}


@pytest.mark.parametrize("name", SUITES)
def test_problems_to_train_on_are_of_their_split_and_differ(name):
    suite = SUITES[name]
    training = Training(64, digits=(1, 3), addends=(2, 3))
    parts = {
        split: list(training_items(suite, training, split)) for split in ("train", "validation")
    }
    assert len(parts["train"]) == 64
    assert len(parts["validation"]) == 6
    for split, part in parts.items():
        for item in part:
            assert SPLITS[split_of(Problems.from_ints([item.operands]))[0]] == split
            assert all(len(str(n)) <= 3 for n in item.operands)
    for one, other in combinations(parts["train"], 2):
        assert (one.row, one.operands) != (other.row, other.operands)


def test_where_there_are_fewer_problems_to_train_on_there_are_fewer():
    training = Training(1000, digits=(1, 1))
    found = list(training_items(SUITES["multiply-v1"], training, "train"))
    assert 50 < len(found) < 81


def test_a_part_of_a_suite_has_the_same_problems():
    part, more = ({json_line(i) for i in items(some("addition-v1", n))} for n in (2, 3))
    assert part < more
    with pytest.raises(ValueError, match="no problem of at most 10 digits"):
        SUITES["multiply-long-v1"].within(10)

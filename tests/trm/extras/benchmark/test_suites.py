import json
from collections import Counter
from dataclasses import replace
from functools import cache
from hashlib import sha256
from math import prod

import numpy as np
import pytest

from augment.symmetry import apply, invert
from canvas.problems import SPLITS, Problems, split_of
from canvas.reading import read
from canvas.symbols import BLANK, encode
from trm.evaluation.grid_cells import cell_problems
from trm.extras.benchmark.suites import SUITES, VIEWS, Item, export, record

# A suite never changes: what should change gets the next version's name.
CHECKSUMS = {
    "multiply-v1": "3aa774a72631a4cc09c323a6a41fee66bd75cf020f22723a948e86909ee9b7eb",  # a part
    "multiply-long-v1": "a92aa707bb49c28212752170d4f6366ed9dac4a5261d347602341e14467ab56e",
    "multiply-4096-v1": "b53f7796107681d1ddf16253793a511959b37af62f9721890b0dfb8f258f7fa0",
    "structured-v1": "0cb72281620d0066abb9b7cf91c1620ad716f828f892b6c6ef5c826f61eae55a",
    "addition-v1": "aef0f4dc5a6dffdafcccf9e2036d806aee9243520185a78c09efaf3e3e1a1f60",
    "canvas-v1": "1671818c8adf782d3c489ad95dc276c16107c6f657fa2c0a94a9c5c8968620df",
}
SEED = 9146204175132267415


@cache
def some(name: str, most: int = 4, seed: int = 0) -> list[Item]:
    """The problems of a part of a suite that is drawn at once."""
    longest = {"multiply-long-v1": 50, "multiply-4096-v1": 309, "canvas-v1": 2}
    suite = SUITES[name].within(longest.get(name, most))
    return replace(suite, seed=seed).items


@pytest.mark.parametrize("name", SUITES)
def test_checksums_of_suites_are_pinned(name):
    suite = SUITES[name]
    if name == "multiply-v1":  # a fifth of its cells
        assert len(suite.cells) == 400
        suite = replace(suite, cells=tuple(cell for cell in suite.cells if sum(cell) % 5 == 0))
    assert suite.checksum == CHECKSUMS[name]


@pytest.mark.parametrize(("name", "seed"), [*((one, 0) for one in SUITES), ("multiply-v1", SEED)])
def test_problems_are_distinct_and_of_the_test_split(name, seed):
    found = some(name, seed=seed)
    assert len({item.id for item in found}) == len(found)
    assert len({(i.row, i.column, i.operands) for i in found}) == len(found)
    splits = split_of(Problems.from_ints([item.operands for item in found]))
    assert (splits == SPLITS.index("test")).all()


@pytest.mark.parametrize("name", [name for name, suite in SUITES.items() if not suite.whole])
def test_questions_and_answers_agree_with_integers_of_their_size(name):
    for item in some(name):
        sign, work = ("+", sum) if "addition" in name else ("*", prod)
        assert item.question == f"{f' {sign} '.join(map(str, item.operands))} ="
        assert item.answer == str(work(item.operands))
        lengths = tuple(len(str(n)) for n in item.operands)
        if name == "structured-v1":
            assert max(lengths) == item.column
        elif "addition" in name:
            assert (set(lengths), len(lengths)) == ({item.row}, item.column)
        else:
            assert lengths == (item.row, item.column)


def test_cells_have_the_problems_that_trm_evaluate_draws():
    suite, found = SUITES["multiply-v1"], some("multiply-v1")
    counts = Counter((i.row, i.column) for i in found)
    assert counts[4, 4] == counts[3, 2] == suite.problems
    pairs = [[(a, b)] for a in range(1, 10) for b in range(1, 10)]
    few = sum(SPLITS[split_of(Problems.from_ints(pair))[0]] == "test" for pair in pairs)
    assert counts[1, 1] == few
    asked = cell_problems(suite.task, (3, 2), suite.problems, seed=0).to_ints()
    assert [i.operands for i in found if (i.row, i.column) == (3, 2)] == asked


def test_canvas_items_show_the_operands_in_the_named_view():
    rows = {}
    for item in some("canvas-v1"):
        task = SUITES["canvas-v1"].task_of(item.row)
        assert item.row == f"{item.layout} {item.view}"
        question, finished = (
            np.stack([encode(row) for row in text.split("\n")])
            for text in (item.question, item.answer)
        )
        reading = read(np.ascontiguousarray(apply(invert(item.view), finished)), task.canvas_layout)
        assert reading.operands == item.operands or set(reading.operands) == set(item.operands)
        assert reading.answer == task.answer(item.operands)
        blank = question == BLANK
        assert (question == finished)[~blank].all()
        assert blank.sum() > (finished == BLANK).sum()
        rows.setdefault(item.layout, set()).add(item.view)
    assert len(rows) == 8  # six layouts of multiplication, two of addition
    assert all(views == set(VIEWS) for views in rows.values())


def test_a_seed_draws_other_problems_and_a_part_has_the_same():
    public, other = some("multiply-v1", 3), some("multiply-v1", 3, SEED)
    label = replace(SUITES["multiply-v1"], seed=SEED).label
    assert label.startswith("multiply-v1-seed-")
    assert all(item.id.startswith(f"{label}/") for item in other)
    assert len({replace(suite, seed=SEED).label[-8:] for suite in SUITES.values()}) == len(SUITES)
    big = [{i.operands for i in part if (i.row, i.column) == (3, 3)} for part in (public, other)]
    assert len(big[0] & big[1]) < 0.2 * len(big[0])
    assert replace(SUITES["multiply-v1"], seed=SEED).within(3).items == other
    part, more = ({json.dumps(record(i)) for i in some("addition-v1", n)} for n in (2, 3))
    assert part < more
    with pytest.raises(ValueError, match="no problem of at most 10 digits"):
        SUITES["multiply-long-v1"].within(10)


def test_a_suite_is_exported_canonically_and_replaces_no_other(tmp_path):
    suite, folder = SUITES["multiply-v1"].within(3), tmp_path / "new" / "folder"
    for _ in range(2):  # the same again
        assert export(suite, folder) == folder / "multiply-v1.jsonl"
    written = (folder / "multiply-v1.jsonl").read_bytes()
    assert [json.loads(line) for line in written.splitlines()] == [*map(record, suite.items)]
    assert sha256(written).hexdigest() == suite.checksum
    with pytest.raises(ValueError, match="holds another part of the suite already"):
        export(suite.within(2), folder)
    assert (folder / "multiply-v1.jsonl").read_bytes() == written

"""Texts as numbers over an alphabet, and tasks on texts."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest

from canvas.arithmetic import Numbers, parse
from canvas.check import check_layout
from canvas.choices import OwnCodeError
from canvas.drawing import row_steps
from canvas.layouts import PARTIAL, Row
from canvas.picture import to_text
from canvas.problems import Problems
from canvas.reading import read
from canvas.sampling import sample
from canvas.symbols import MASK, Alphabet, decode, digits_of, ids_of, vocab_size
from canvas.tasks import task_data
from canvas.texts import TextTask, TwoRows
from trm.evaluation.grid_cells import cell_problems
from trm.training.negatives import other_problems


@dataclass
class Shifted(TextTask):
    """The next bit of each: 010 → 101."""

    letters = "01"
    outputs = "x"

    def solve(self, text):
        return text[1:] + "x"


@dataclass
class Longer(TextTask):
    """The longer of two texts, or the first."""

    arity = (2, 2)

    def solve(self, first, second):
        return max(first, second, key=len)


@pytest.mark.parametrize("texts", [["a", "ba", "cccc"], ["c" * 700]])
def test_texts_are_numbers_and_back(texts):
    alphabet = Alphabet("abc")
    numbers = [parse(text, alphabet) for text in texts]
    assert Numbers.from_ints(numbers, alphabet).to_text() == texts
    assert Numbers.from_ints(numbers, alphabet).to_ints() == numbers
    lengths = Problems.from_ints([(n,) for n in numbers], alphabet).lengths[:, 0]
    assert lengths.tolist() == [*map(len, texts)]


def test_an_alphabet_is_a_base_with_symbols_of_its_own():
    alphabet = Alphabet("01", "01x")
    assert alphabet == 4
    assert alphabet.letters == 2
    assert f"{alphabet}" == "01x"
    assert decode(ids_of(alphabet)) == "_01x"
    assert digits_of(alphabet)[ids_of(alphabet)].tolist() == [-1, 1, 2, 3]
    assert vocab_size(alphabet) == ids_of(alphabet)[3] + 1
    again = pickle.loads(pickle.dumps(alphabet))
    assert (again, again.characters, again.letters) == (4, "_01x", 2)
    assert vocab_size(Alphabet("01")) == vocab_size(10)
    for letters in ("a_", "a*", "a~", "aä", ""):
        with pytest.raises(ValueError, match="the symbols of texts are"):
            Alphabet(letters)


def test_zeros_at_the_front_of_a_text_stay():
    task = Shifted()
    problem = task.parse("0011")
    worked = task.canvas_layout.draw_worked(task.problems([problem]))
    assert to_text(worked.truth[0]) == "0011\n011x"
    assert (row_steps(worked).inputs[0, 1] == MASK).all()
    reading = read(worked.truth[0], task.canvas_layout, task.base)
    assert reading.operands == problem
    assert Numbers.from_ints([reading.answer], task.base).to_text() == ["011x"]


def test_a_sample_is_of_the_letters_and_lengths_of_its_task():
    task = Shifted(length=(4, 7))
    problems = sample(task, 0, "test", 0, np.arange(200))
    assert {*problems.lengths[:, 0].tolist()} == {4, 5, 6, 7}
    assert {*"".join(problems.operands[0].to_text())} == {"0", "1"}
    assert task.in_range(problems).all()
    assert not Shifted(length=(8, 9)).in_range(problems).any()
    assert not task.allows(_answers(task)).any()
    assert check_layout(task) > 30


def _answers(task):
    return Problems.from_ints([(parse("0x", task.base),), (0,)], task.base)


def test_all_texts_of_a_short_length_are_listed():
    task = Shifted()
    assert sorted(task.every(3)) == sorted(parse(t, task.base) for t in _all(task.letters, 3))
    assert task.count(3) == len([*task.every(3)])
    found = cell_problems(Shifted(), (8,), 100, 0)
    assert 10 < len(found) < 50  # the test split of 256
    assert len({*found.operands[0].to_text()}) == len(found)
    assert len(cell_problems(Shifted(), (40,), 100, 0)) == 100


def _all(letters, n):
    return [""] if n == 0 else [c + rest for c in letters for rest in _all(letters, n - 1)]


def test_problems_are_typed_with_or_without_their_task():
    task = Longer()
    assert task.parse("ab abc") == task.parse("longer ab abc")
    assert task.names(task.parsed(["ab abc"])) == ["longer ab abc"]
    (operands,) = task.parsed(["ab abc"]).to_ints()
    assert Numbers.from_ints([task.answer(operands)], task.base).to_text() == ["abc"]
    worked = task.canvas_layout.draw_worked(task.parsed(["abb ab"]))
    assert to_text(worked.truth[0]) == "abb\n_ab\nabb"
    for text in ("ab", "ab abx", "", "ab ab ab", "longer"):
        with pytest.raises(ValueError, match="is no longer; write it like longer abc abc, with"):
            task.parse(text)


def test_data_of_a_text_task_has_no_base():
    data = {"layout": "two_rows", "length": (1, 8), "long_bias": 0.0}
    assert task_data(Shifted()) == {"task": f"{__name__}.Shifted"} | data


class Worked(TwoRows):
    """A row between text and answer: the text once more."""

    name = "worked"

    def room(self, lengths, base):
        height, width = super().room(lengths, base)
        return height + 1, width

    def rows(self, operands):
        (answer,) = super().rows(operands)
        yield Row(PARTIAL, operands[0], 0, 1, answer.present)
        yield answer._replace(row=2)


def test_a_layout_of_texts_can_have_more_rows():
    task = Shifted(layout=f"{__name__}.Worked")
    assert check_layout(task) > 30
    worked = task.canvas_layout.draw_worked(task.parsed(["0101"]))
    assert to_text(worked.truth[0]) == "0101\n0101\n101x"


@dataclass
class Wrong(TextTask):
    """An answer with a character that it does not declare."""

    def solve(self, text):
        return text + "z"


def test_a_wrong_answer_of_an_own_task_is_named():
    with pytest.raises(OwnCodeError, match=r"solve\('.*'\) of the task wrong returns '.*z': let"):
        check_layout(Wrong())


def test_changed_texts_stay_within_the_letters():
    task = Shifted(length=(3, 6))
    problems = sample(task, 0, "train", 0, np.arange(64))
    words = np.random.default_rng(0).integers(2**64, size=(64, 2), dtype=np.uint64)
    others = other_problems(problems, words)
    assert task.allows(others).all()
    assert (others.lengths == problems.lengths).all()
    changed = (others.operands[0].digits != problems.operands[0].digits).sum(axis=1)
    assert (changed == 1).all()

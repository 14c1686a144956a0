"""Tasks of the RASP lecture: answers, programs, and how their texts are drawn."""

from importlib import import_module
from itertools import product

import numpy as np
import pytest

from canvas.sampling import sample
from trm.extras.analysis.rasp_texts import run_program

TASKS = {  # class → problems and answers
    "reverse.Reverse": {"abcab": "bacba"},
    "histogram.Histogram": {"abcab": "22122", "a" * 36: "Z" * 36},
    "double_histogram.DoubleHistogram": {"abcab": "22122", "abbc": "2112", "aabbcc": "333333"},
    "sort.Sort": {"cabab": "aabbc"},
    "most_frequent.MostFrequent": {"cabab": "abc--", "eee": "e--"},
    "dyck1.Dyck1": {"(())": "PPPT", "())((": "PTFFF"},
    "dyck2.Dyck2": {"({)}": "PPFF", "{()}{": "PPPTP", ")(": "FF"},
}


def task_of(name, **settings):
    module, _, kind = name.partition(".")
    return getattr(import_module(f"examples.lecture.{module}"), kind)(**settings)


@pytest.mark.parametrize("name", TASKS)
def test_the_program_of_a_task_solves_all_short_texts(name):
    task = task_of(name)
    for text, answer in TASKS[name].items():
        assert task.solve(text) == answer
    for length in range(1, 6):
        for letters in product(task.letters, repeat=length):
            text = "".join(letters)
            assert run_program(task, text)[0] == task.solve(text), text


@pytest.mark.parametrize("name", TASKS)
def test_texts_are_drawn_in_all_lengths(name):
    task = task_of(name, length=(3, 8))
    problems = sample(task, 0, "train", 0, np.arange(300))
    assert {*problems.lengths[:, 0].tolist()} == {*range(3, 9)}
    assert task.allows(problems).all()
    texts = problems.operands[0].to_text()
    assert {*"".join(texts)} == {*task.letters}
    assert len({task.solve(text) for text in texts}) > 10


def test_drawn_brackets_are_balanced_in_many_places():
    task = task_of("dyck2.Dyck2", length=(8, 8))
    texts = sample(task, 0, "train", 0, np.arange(400)).operands[0].to_text()
    ends = [task.solve(text)[-1] for text in texts]
    assert all(ends.count(end) > 40 for end in "TPF")

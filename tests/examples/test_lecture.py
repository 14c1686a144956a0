"""Tasks of the RASP lecture: answers, programs, and how their texts are drawn."""

import json
from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from canvas.sampling import sample
from trm.extras.analysis.rasp_texts import run_program

ROOT = Path(__file__).parents[2]
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
    for length in range(1, 5):
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


@pytest.fixture(scope="module")
def short_run(tmp_path_factory, command):
    """Run of one training step, in which the network got the symbols of its task."""
    folder = tmp_path_factory.mktemp("lecture")
    settings = ("trainer.max_epochs=1", "data.batches_per_epoch=1", "data.validation_problems=2")
    settings += ("data.batch_size=4", "trainer.log_every_n_steps=1", "trainer.accelerator=cpu")
    settings += ("model.schedule.warmup_steps=0",)
    settings += ("trainer.check_val_every_n_epoch=1", f"trainer.logger.init_args.save_dir={folder}")
    options = [f"--{one}" for one in settings]
    command("fit", "--config", ROOT / "examples/lecture/gpt.yaml", *options, folder=ROOT)
    return folder / "gpt-reverse"


@pytest.mark.usefixtures("undrawn")
def test_a_model_of_texts_is_solved_with_and_measured(short_run, command, tmp_path):
    ours = ("--import", "examples.lecture.reverse", "--checkpoint", short_run)
    solved = command("solve", *ours, "reverse abcab", folder=ROOT, code=0).out
    assert "reverse abcab = " in solved
    assert "it is bacba" in solved
    refused = command("solve", *ours, "abcxb", folder=ROOT, code=2).err
    assert "'abcxb' is no reverse; write it like reverse abc, with the letters abcde" in refused
    (tmp_path / "texts.csv").write_text("a\nabcab\nabx\n")
    files = ("--input", tmp_path / "texts.csv", "--output", tmp_path / "answers.jsonl")
    command("solve", *ours, *files, folder=ROOT, code=1)
    first, second = map(json.loads, (tmp_path / "answers.jsonl").read_text().splitlines())
    assert (first["problem"], first["operands"]) == ("reverse abcab", ["abcab"])
    assert "'abx' is no text; write it with abcde alone" in second["error"]
    grid = ("--length", "3,5", "--problems", 2, "--output", tmp_path / "grid")
    command("evaluate", *ours, *grid, folder=ROOT)
    data = json.loads((tmp_path / "grid/grid.json").read_text())
    cells = data["models"][0]["cells"]
    measured = [(cell["row"], cell["column"], cell["problems"]) for cell in cells]
    assert measured == [(3, 1, 2), (5, 1, 2)]
    words = ("evaluate", *ours, *grid[:2], "--texts", 2, "--output", tmp_path / "two")
    assert "texts: leave texts out" in command(*words, folder=ROOT, code=2).err
    compared = ("--length", 4, "--output", tmp_path / "heads", "--problems", 4)
    told = command("analyse", "rasp", *ours, *compared, folder=ROOT).out
    told = " ".join(told.split())
    assert "in the program of reverse, which writes 4 of these rows correctly" in told

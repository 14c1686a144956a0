"""Answers of models of this package to a suite, as the predictions that `trm score` takes.

Problems are worked through as any file of them, see `trm.batch.jobs`: beside the predictions stand
a hidden file of problems, one of records, and the shards, until all is done. Stopped in whatever
way, the same call goes on where it was.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trm.batch.jobs import Job, work_through
from trm.benchmark.predictions import Prediction, write_predictions
from trm.benchmark.suites import Item, Suite, items
from trm.checkpoints.loading import load_solver
from trm.files import make_folder, replacing

NAMES = ".jsonl", ".jsonl.gz"  # how those of predictions end
_UNIT = 100  # problems at once, about a cell: what is saved when a run is stopped


@dataclass(frozen=True)
class Answered:
    """What became of a suite: how many problems there were, answers, and right ones."""

    problems: int
    answers: int
    right: int

    def __str__(self) -> str:
        silent = self.problems - self.answers
        text = f"{self.problems:,} problems: {self.right:,} answers right"
        return text + (f", {silent:,} without an answer" if silent else "")


def check_output(file: Path) -> None:
    """Raise a ValueError where a file of predictions is not named like one."""
    if not file.name.endswith(NAMES):
        raise ValueError(f"--output {file} has to end in {' or '.join(NAMES)}")


def predict(
    checkpoint: Path,
    suite: Suite,
    output: Path,
    secret: bytes | None = None,
    problems: int | None = None,
    steps: int | None = None,
    height: int | None = None,
    width: int | None = None,
    accelerator: str = "auto",
    devices: int | list[int] = 1,
    quiet: bool = False,
) -> Answered | None:
    """Answer a suite's problems with a model, or go on with it.

    Args:
        checkpoint: of the model.
        suite: of numbers.
        output: for the predictions, .jsonl or .jsonl.gz; null where there is no answer.
        secret: see `trm.benchmark.suites.items`.
        problems: how many of each cell, the first ones; None: all of them.
        steps, height, width: see `trm.checkpoints.loading.load_solver`.
        accelerator, devices: see `trm.devices.make_trainer`.
        quiet: without a progress bar.

    Returns:
        What became of them; None in all processes but the first.

    Raises:
        FileNotFoundError: there is no such checkpoint.
        ValueError: the suite is not what the model was made for, or the output is no such file.
    """
    check_output(output)
    if suite.whole:
        raise ValueError(
            f"{suite.name} asks for whole canvases, and predictions of a model here are its "
            "answers: trm evaluate measures its workings"
        )
    task = load_solver(checkpoint, device="cpu").task
    if type(task) is not type(suite.task) or task.base != suite.task.base:
        raise ValueError(
            f"{suite.name} is {suite.task.name} in base {suite.task.base}, and the model was made "
            f"for {task.name} in base {task.base}: take another suite"
        )
    make_folder(output.parent)
    asked, records = (
        output.with_name(f".{output.name}.{part}.jsonl") for part in ("asked", "said")
    )
    with replacing(asked) as part:  # by every process, the same
        part.write_text("".join(map(_problem, first_of_cells(items(suite, secret), problems))))
    job = Job(checkpoint, asked, records, steps, height, width, batch_size=_UNIT)
    done = work_through(job, accelerator, devices, quiet=quiet)
    if done is None:
        return None
    with records.open(encoding="utf-8") as file:
        said = [(record["id"], record["answer"]) for record in map(json.loads, file)]
    write_predictions(output, {n: Prediction(None if a is None else str(a)) for n, a in said})
    asked.unlink()
    records.unlink()
    return Answered(len(said), sum(n is not None for _, n in said), done.correct)


def first_of_cells(asked: Iterable[Item], problems: int | None) -> Iterator[Item]:
    """The first so many problems of each cell; None: all of them."""
    seen = Counter[tuple[int | str, int]]()
    for item in asked:
        seen[item.row, item.column] += 1
        if problems is None or seen[item.row, item.column] <= problems:
            yield item


def _problem(item: Item) -> str:
    """A problem as a line that `trm.batch` reads."""
    return json.dumps({"id": item.id, "operands": [str(n) for n in item.operands]}) + "\n"

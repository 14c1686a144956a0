"""Row steps of a task as files for other code: arrays of HRM and TRM, or a folder of JSON Lines.

A row step is a canvas with the rows so far and the next one masked; its label has that row filled
in. The problems of train and test are of the splits of that name, see `canvas.problems.split_of`:
no problem of test is in train, in either order of its operands. All files are a function of the
settings: of task, sizes, canvas and seed.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from canvas import symbols
from canvas.drawing import RowSteps, row_steps
from canvas.picture import to_text
from canvas.problems import Problems, Split, keys, random_below, random_words
from canvas.sampling import sample
from canvas.task import Task, describe_ranges
from canvas.tasks import task_data
from trm.io.files import differs, make_folder, write_bytes
from trm.io.puzzle_files import IDENTIFIERS, split_files
from trm.io.puzzle_format import PuzzleFormat

SPLITS: tuple[Split, ...] = ("train", "test")
FORMATS = {
    "trm": "row steps as the arrays that HRM and the published TRM train on",
    "jsonl": "row steps as JSON Lines with a dataset card, for the library datasets",
}
_ROUNDS = 50  # of drawing, to find problems that are different
_PLACE = 2  # purpose of the random keys of places
_AT_ONCE = 1000  # problems drawn on canvases together
_MOST_BYTES = 2**32  # of an array


@dataclass(frozen=True)
class RowStepFiles:
    """Content of the files: a task's problems on canvases of one size.

    Raises:
        ValueError: the largest problems do not fit, or the arrays would be too large.
    """

    task: Task
    problems: dict[str, int]  # by split; fewer where the split has no more
    height: int
    width: int
    seed: int = 0

    def __post_init__(self) -> None:
        rows, columns = self.task.extent()
        if self.height < rows or self.width < columns:
            raise ValueError(
                f"the largest problems need a canvas of at least {rows} x {columns} (height x "
                f"width), not {self.height} x {self.width}: name a larger --height and --width"
            )
        most = max(self.problems.values()) * rows * self.height * self.width
        if most > _MOST_BYTES:
            raise ValueError(
                f"arrays of up to {most:,} bytes are too large, at most {_MOST_BYTES:,}: name "
                "fewer problems or a smaller canvas"
            )

    def drawn(self, split: Split) -> Problems:
        """Return the different problems of a split, in the order of drawing."""
        count, found = self.problems[split], dict[tuple[int, ...], None]()
        for epoch in range(_ROUNDS):
            drawn = sample(self.task, self.seed, split, epoch, np.arange(count))
            before = len(found)
            found |= dict.fromkeys(map(tuple, drawn.to_ints()))
            if len(found) >= count or len(found) == before:
                break
        return Problems.from_ints(list(found)[:count], self.task.base)

    def steps(self, split: Split) -> Iterator[tuple[Problems, RowSteps]]:
        """Yield problems of a split with all of their row steps, some hundred at a time.

        A problem's place on the canvas is random, and the same for all of its row steps.
        """
        layout, problems = self.task.canvas_layout, self.drawn(split)
        for start in range(0, len(problems), _AT_ONCE):
            part = problems[np.arange(start, min(start + _AT_ONCE, len(problems)))]
            key = keys(self.seed, split, 0, np.arange(start, start + len(part)), _PLACE)
            free = np.array([self.height, self.width]) - layout.sizes(part).T
            top, left = random_below(random_words(key, 2), free + 1).T
            drawing = layout.draw_worked(part, self.height, self.width, top=top, left=left)
            yield part, row_steps(drawing)

    def write(self, format: str, output: Path) -> dict[str, tuple[int, int]]:
        """Write the files in one of `FORMATS`; return problems and row steps of each split.

        Raises:
            ValueError: the folder contains one of these files with other content.
        """
        found, counts = (_arrays if format == "trm" else _lines)(self)
        other = [name for name, content in found.items() if differs(output / name, content)]
        for both in ("train", "test"):  # another format's files, which the folder would mix
            other += [
                name
                for name in (both, f"{both}.jsonl")
                if (output / name).exists() and not any(own.split("/")[0] == name for own in found)
            ]
        if other:
            raise ValueError(
                f"{output / other[0]} exists already, with other content: choose another --output"
            )
        make_folder(output)
        for name, content in found.items():
            (output / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(output / name, content)
        return counts


Files = tuple[dict[str, bytes], dict[str, tuple[int, int]]]  # by name, and counts by split


def _arrays(files: RowStepFiles) -> Files:
    """Return the files that HRM and the published TRM read, below train and test.

    A row step is a puzzle with one example, and a problem a group of puzzles: their training draws
    one row step of every problem in an epoch, as the training of this package does. Cells that are
    not to be filled in have the ignored label.
    """
    found = dict([IDENTIFIERS])
    counts = dict[str, tuple[int, int]]()
    for split in SPLITS:
        inputs, labels, sizes = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
        for problems, steps in files.steps(split):
            inputs.append(steps.inputs)
            labels.append(np.where(steps.answer, steps.labels, np.uint8(symbols.PAD)))
            sizes.append(np.bincount(steps.problem, minlength=len(problems)))
        groups = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
        size = files.height, files.width, files.task.vocab_size
        form = PuzzleFormat(*size, pad=symbols.PAD, ignored=symbols.PAD)
        written = split_files(form, np.concatenate(inputs), np.concatenate(labels), groups)
        found |= {f"{split}/{name}": content for name, content in written.items()}
        counts[split] = len(groups) - 1, int(groups[-1])
    return found, counts


def _lines(files: RowStepFiles) -> Files:
    """Return JSON Lines of train and test, and a dataset card."""
    found, counts, task = dict[str, bytes](), dict[str, tuple[int, int]](), files.task
    for split in SPLITS:
        lines, count = list[str](), 0
        for problems, steps in files.steps(split):
            names, operands = task.names(problems), problems.to_ints()
            numbers = [numbers.to_text() for numbers in problems.operands]
            answers = Problems.from_ints([(task.answer(one),) for one in operands], task.base)
            texts = answers.operands[0].to_text()
            rows = np.bincount(steps.problem, minlength=len(problems)).tolist()
            count += len(problems)
            for i, (problem, row) in enumerate(zip(steps.problem, steps.row, strict=True)):
                record = {
                    "problem": names[problem],
                    "operands": [text for column in numbers if (text := column[problem])],
                    "answer": texts[problem],
                    "step": int(row) + 1,
                    "steps": rows[problem],
                    "input": to_text(steps.inputs[i]),
                    "label": to_text(steps.labels[i]),
                }
                lines.append(json.dumps(record) + "\n")
        found[f"{split}.jsonl"] = "".join(lines).encode()
        counts[split] = count, len(lines)
    found["README.md"] = _card(files, counts).encode()
    return found, counts


def _card(files: RowStepFiles, counts: dict[str, tuple[int, int]]) -> str:
    """Return a dataset card, whose front matter names the files of each split."""
    task = files.task
    name = f"{task.name.capitalize()}, row by row, layout {task.layout}, {task.digits_in_words}"
    data = [f"  - split: {split}\n    path: {split}.jsonl" for split in SPLITS]
    front = ["---", f'pretty_name: "{name}"', "configs:", "- config_name: default", "  data_files:"]
    sizes = [
        f"| {split} | {problems:,} | {steps:,} |" for split, (problems, steps) in counts.items()
    ]
    about = [
        f"Worked solutions of {task.name} on a canvas of {files.height} x {files.width} cells, one "
        "row of a solution in each line. Training sizes: "
        f"{describe_ranges(task.ranges, task.gaps, task.unit)}. A hash of its numbers puts a "
        "problem into train or test, whatever their order: no problem of test is in train.",
        "\n".join(["| split | problems | row steps |", "|---|---|---|", *sizes]),
        "\n".join(
            [
                "| field | meaning |",
                "|---|---|",
                "| `problem`, `operands`, `answer` | as text |",
                "| `step`, `steps` | number of this row, from 1, and of all rows of the problem |",
                "| `input` | the canvas, a line a row; `_` is blank, `.` a cell to fill in |",
                "| `label` | the same canvas with that row filled in |",
            ]
        ),
        f"Settings, with seed {files.seed}: `{json.dumps(task_data(task))}`.",
    ]
    return "\n".join([*front, *data, "---", "", f"# {name}", ""]) + "\n" + "\n\n".join(about) + "\n"

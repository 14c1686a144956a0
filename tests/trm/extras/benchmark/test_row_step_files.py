"""Other code reads exported row steps: a reader here follows the rules of the published TRM's."""

import json

import numpy as np
import pytest
import yaml

from canvas.addition import Addition
from canvas.drawing import row_steps
from canvas.multiplication import Multiplication
from canvas.picture import to_text
from canvas.problems import Problems, split_of
from canvas.symbols import BLANK, MASK, PAD, decode
from trm.extras.benchmark.row_step_files import RowStepFiles

TASK = Multiplication("standard", digits_a=(1, 2), digits_b=(1, 2))
FILES = RowStepFiles(TASK, {"train": 40, "test": 20}, 8, 9, seed=3)
IGNORED = -100
NEEDED = {"pad_id", "ignore_label_id", "blank_identifier_id", "vocab_size", "seq_len", "sets"}
NEEDED |= {"num_puzzle_identifiers", "total_groups", "mean_puzzle_examples", "total_puzzles"}


class Reader:
    """Arrays of one split, with the batches of HRM and the published TRM."""

    def __init__(self, folder, split):
        self.about = json.loads((folder / split / "dataset.json").read_text())
        assert self.about.keys() == NEEDED
        (name,) = self.about["sets"]
        for field in ("inputs", "labels", "puzzle_identifiers", "puzzle_indices", "group_indices"):
            setattr(self, field, np.load(folder / split / f"{name}__{field}.npy"))

    def collate(self, examples, puzzles):
        labels = self.labels[examples].astype(np.int32)
        labels[labels == self.about["ignore_label_id"]] = IGNORED
        return self.inputs[examples].astype(np.int32), labels, self.puzzle_identifiers[puzzles]

    def test(self, size):
        """All examples in order, each with the identifier of its puzzle."""
        for start in range(0, len(self.inputs), size):
            examples = np.arange(start, min(start + size, len(self.inputs)))
            puzzles = np.searchsorted(self.puzzle_indices, examples, side="right") - 1
            yield self.collate(examples, puzzles)

    def train(self, rng, size):
        """Draw one puzzle of each group in random order, with its examples; whole batches."""
        examples, puzzles = [], []
        for group in rng.permutation(len(self.group_indices) - 1):
            puzzle = rng.integers(self.group_indices[group], self.group_indices[group + 1])
            first, last = self.puzzle_indices[puzzle : puzzle + 2]
            chosen = rng.permutation(np.arange(first, last))[: size - len(examples)]
            examples += chosen.tolist()
            puzzles += [puzzle] * len(chosen)
            if len(examples) == size:
                yield self.collate(np.array(examples), np.array(puzzles))
                examples, puzzles = [], []


def problem_of(canvas: np.ndarray) -> tuple[int, int]:
    """The operands on a canvas in the layout standard."""
    first, second = [row for row in canvas if (row != BLANK).any()][:2]
    texts = [decode(row.astype(np.uint8)).strip("_*") for row in (first, second)]
    return int(texts[0]), int(texts[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    assert FILES.write("trm", folder) == {"train": (40, 91), "test": (20, 49)}
    return folder


@pytest.mark.parametrize("split", ["train", "test"])
def test_arrays_are_the_row_steps_of_the_problems_of_their_split(folder, split):
    reader = Reader(folder, split)
    about = reader.about
    assert (about["seq_len"], about["vocab_size"], about["pad_id"]) == (72, 18, PAD)
    assert json.loads((folder / "identifiers.json").read_text()) == ["<blank>"]
    batches = list(reader.test(32))
    inputs, labels = (
        np.concatenate(part).reshape(-1, 8, 9) for part in list(zip(*batches, strict=True))[:2]
    )
    assert len(inputs) == about["total_puzzles"]
    assert sum(len(one) for one, _, _ in batches) == len(inputs)
    assert all((identifiers == 0).all() for _, _, identifiers in batches)
    assert ((labels != IGNORED) == (inputs == MASK)).all()
    assert inputs.max() < about["vocab_size"]
    groups = np.searchsorted(reader.group_indices, np.arange(len(inputs)), side="right") - 1
    found = [problem_of(canvas) for canvas in inputs]
    assert len(set(found)) == about["total_groups"] == len(set(groups))
    problems = Problems.from_ints(found)
    assert set(split_of(problems)) == {0 if split == "train" else 2}
    layout = TASK.canvas_layout
    for problem, group in dict(zip(found, groups, strict=True)).items():
        own = groups == group
        first = inputs[own][0]
        filled = first != BLANK
        top, left = filled.any(axis=1).argmax(), None
        one = Problems.from_ints([problem])
        for left in range(9):  # the place of the answer's last digit is not on the first canvas
            drawn = layout.draw_worked(one, 8, 9, top=np.array([top]), left=np.array([left]))
            steps = row_steps(drawn)
            if np.array_equal(steps.inputs, inputs[own]):
                break
        assert np.array_equal(steps.inputs, inputs[own])
        answers = np.where(steps.answer, steps.labels.astype(int), IGNORED)
        assert np.array_equal(answers, labels[own])


def test_an_epoch_of_training_has_a_row_step_of_every_problem(folder):
    reader = Reader(folder, "train")
    batches = list(reader.train(np.random.default_rng(0), 8))
    assert len(batches) == 5  # 40 problems
    found = {problem_of(canvas) for inputs, _, _ in batches for canvas in inputs.reshape(-1, 8, 9)}
    assert len(found) == 40


def test_places_are_random_and_files_follow_from_the_seed(folder, tmp_path):
    tops = {
        (c != BLANK).any(axis=1).argmax() for c in Reader(folder, "train").inputs.reshape(-1, 8, 9)
    }
    assert len(tops) > 2
    FILES.write("trm", tmp_path)
    names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    assert len(names) == 13
    for name in names:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()
    other = RowStepFiles(TASK, FILES.problems, 8, 9, seed=4)
    with pytest.raises(ValueError, match=r"all__inputs\.npy exists already"):
        other.write("trm", tmp_path)


def test_json_lines_have_a_card_that_names_them(tmp_path):
    task = Addition("column", digits=(1, 2), addends=(2, 3))
    counts = RowStepFiles(task, {"train": 30, "test": 10}, 6, 5).write("jsonl", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"README.md", "train.jsonl", "test.jsonl"}
    text = (tmp_path / "README.md").read_text()
    front = yaml.safe_load(text.split("---\n")[1])
    ((config,)) = front["configs"]
    assert config["config_name"] == "default"
    assert [one["split"] for one in config["data_files"]] == ["train", "test"]
    operands = {}
    for one in config["data_files"]:
        lines = (tmp_path / one["path"]).read_text().splitlines()
        records = [json.loads(line) for line in lines]
        assert len(records) == counts[one["split"]][1]
        assert all(record.keys() == records[0].keys() for record in records)
        for record in records:
            numbers = [int(n) for n in record["operands"]]
            assert int(record["answer"]) == sum(numbers)
            assert record["problem"] == " + ".join(record["operands"])
            assert (record["step"], record["steps"]) == (1, 1)
            assert record["answer"].rjust(5, "_") in [
                line.replace("_", "").rjust(5, "_") for line in record["label"].splitlines()
            ]
            assert "....." in record["input"].splitlines()
        operands[one["split"]] = {tuple(sorted(record["operands"])) for record in records}
    assert len(operands["test"]) == 10
    assert not operands["train"] & operands["test"]


def test_an_input_of_json_lines_looks_like_this(tmp_path):
    FILES.write("jsonl", tmp_path)
    record = json.loads((tmp_path / "train.jsonl").read_text().splitlines()[0])
    (a, b), size = map(int, record["operands"]), (8, 9)
    drawn = TASK.canvas_layout.draw_worked(Problems.from_ints([(a, b)]), *size, top=0, left=0)
    first = row_steps(drawn)
    cut = "\n".join(line.strip("_.") for line in record["label"].splitlines()).strip()
    expected = "\n".join(line.strip("_") for line in to_text(first.labels[0]).splitlines()).strip()
    assert cut == expected


def test_small_ranges_give_fewer_distinct_problems():
    small = Multiplication("lattice", digits_a=(1, 1), digits_b=(1, 1))
    files = RowStepFiles(small, {"train": 1000, "test": 1000}, 5, 5)
    held_out = files.drawn("test").to_ints()
    assert 1 < len(held_out) < 20
    assert len(set(held_out)) == len(held_out)
    assert len(files.drawn("train")) + len(held_out) <= 81
    with pytest.raises(ValueError, match="need a canvas of at least 5 x 4"):
        RowStepFiles(TASK, FILES.problems, 4, 9)
    with pytest.raises(ValueError, match="are too large, at most 4,294,967,296"):
        RowStepFiles(TASK, {"train": 10**8, "test": 1}, 8, 9)

import csv
import json
import re
from hashlib import sha256

import numpy as np
import pytest

from canvas.render import from_sequences
from canvas.symbols import BLANK, PAD, VOCAB_SIZE
from trm.benchmark.export import cells_of, drawn, export
from trm.benchmark.suites import SUITES, Training, items, json_line

SUITE = SUITES["multiply-v1"].within(3)
CANVASES = SUITES["canvas-v1"].within(2)
TRAINING = Training(40, digits=(1, 3))


def load(folder, name):
    return np.load(folder / f"all__{name}.npy")


def test_json_lines_are_the_canonical_file_and_their_sum_is_on_the_card(tmp_path):
    export(SUITE, "jsonl", tmp_path / "new" / "folder", training=TRAINING)
    folder = tmp_path / "new" / "folder"
    written = (folder / "multiply-v1.jsonl").read_bytes()
    assert written.decode() == "".join(map(json_line, items(SUITE)))
    assert sha256(written).hexdigest() in (folder / "CARD.md").read_text()
    assert len((folder / "train.jsonl").read_text().splitlines()) == 40
    assert len((folder / "validation.jsonl").read_text().splitlines()) == 4


def test_csv_holds_the_same(tmp_path):
    export(CANVASES, "csv", tmp_path)
    with (tmp_path / "canvas-v1.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row, item in zip(rows, items(CANVASES), strict=True):
        assert (row["id"], row["question"], row["answer"]) == (item.id, item.question, item.answer)
        assert [int(n) for n in json.loads(row["operands"])] == list(item.operands)
        assert (row["layout"], row["view"]) == (item.layout, item.view)


def test_puzzles_show_the_operands_and_are_labelled_with_the_working(tmp_path):
    export(SUITE, "trm", tmp_path, training=TRAINING, layout="standard")
    meta = json.loads((tmp_path / "meta.json").read_text())
    asked = drawn(SUITE, items(SUITE), "standard")
    for name, field in (("inputs", "question"), ("labels", "answer")):
        found = load(tmp_path / "test", name).reshape(-1, meta["height"], meta["width"])
        for canvas, item in zip(found, asked, strict=True):
            cells = cells_of(getattr(item, field))
            assert np.array_equal(canvas[: cells.shape[0], : cells.shape[1]], cells)
            assert (canvas != BLANK).sum() == (cells != BLANK).sum()
    ids = (tmp_path / "test" / "ids.txt").read_text().split()
    assert ids == [item.id for item in asked]


@pytest.mark.parametrize(
    ("suite", "kinds"), [(SUITE, 1), (CANVASES, 32)], ids=["numbers", "canvases"]
)
def test_puzzles_are_indexed_as_the_reference_reads_them(tmp_path, suite, kinds):
    """See docs/benchmark.md: its own data loader has read such a folder."""
    export(suite, "trm", tmp_path, training=TRAINING)
    names = json.loads((tmp_path / "identifiers.json").read_text())
    assert names[0] == "<blank>"
    assert len(names) == 1 + kinds
    for part in ("train", "test"):
        folder = tmp_path / part
        about = json.loads((folder / "dataset.json").read_text())
        inputs, labels = load(folder, "inputs"), load(folder, "labels")
        n = len(inputs)
        assert inputs.shape == labels.shape == (n, about["seq_len"])
        assert about["total_puzzles"] == about["total_groups"] == n
        assert about["vocab_size"] == VOCAB_SIZE > max(inputs.max(), labels.max())
        assert PAD not in labels  # every cell counts
        assert about["sets"] == ["all"]
        for index in ("puzzle_indices", "group_indices"):
            assert load(folder, index).tolist() == list(range(n + 1))
        kind = load(folder, "puzzle_identifiers")
        assert len(kind) == n
        assert about["num_puzzle_identifiers"] == len(names) > kind.max()
        assert kind.min() >= 1  # 0 is the blank one


def test_tokens_are_the_lines_character_by_character(tmp_path):
    export(SUITE, "txt", tmp_path, training=TRAINING)
    meta = json.loads((tmp_path / "meta.json").read_text())
    assert all(meta["stoi"][character] == int(i) for i, character in meta["itos"].items())
    tokens = np.fromfile(tmp_path / "test.bin", dtype=np.uint16)
    assert tokens.max() < meta["vocab_size"]
    text = "".join(meta["itos"][str(token)] for token in tokens)
    assert text == "".join(f"{item.question} {item.answer}\n" for item in items(SUITE))
    for name, lines in (("train", 40), ("val", 4)):
        ids = np.fromfile(tmp_path / f"{name}.bin", dtype=np.uint16)
        assert (ids == meta["stoi"]["\n"]).sum() == lines


def test_tokens_of_canvases_are_sequences_of_one_length(tmp_path):
    export(CANVASES, "txt", tmp_path)
    meta = json.loads((tmp_path / "meta.json").read_text())
    tokens = np.fromfile(tmp_path / "test.bin", dtype=np.uint16).reshape(-1, meta["tokens"])
    canvases = from_sequences(tokens.astype(np.int64), meta["height"], meta["width"])
    for canvas, item in zip(canvases, items(CANVASES), strict=True):
        cells = cells_of(item.answer)
        assert np.array_equal(canvas[: cells.shape[0], : cells.shape[1]], cells)


def test_what_cannot_be_written_is_refused(tmp_path):
    assert {file.name for file in export(SUITE, "txt", tmp_path)} == {  # nothing to train on
        "test.bin",
        "meta.json",
        "CARD.md",
    }
    export(SUITE, "txt", tmp_path)  # the same again
    with pytest.raises(ValueError, match="holds something else already"):
        export(SUITE, "csv", tmp_path)
    assert not (tmp_path / "multiply-v1.csv").exists()
    with pytest.raises(ValueError, match="Did you mean lattice"):
        export(SUITE, "trm", tmp_path / "a", layout="latice")
    with pytest.raises(ValueError, match="leave --layout out"):
        export(CANVASES, "trm", tmp_path / "b", layout="lattice")


def test_a_card_bears_no_date_and_says_what_to_mind(tmp_path):
    export(CANVASES, "jsonl", tmp_path, secret=b"0123456789abcdef", training=TRAINING)
    text = (tmp_path / "CARD.md").read_text()
    assert not re.search(r"\b20\d\d\b", text)
    for word in ("MIT", "SHA-256", "Contamination", "test split", "--secret", "numbers of 1 to 3"):
        assert word in text
    assert "0123456789abcdef" not in text

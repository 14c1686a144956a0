import json
import re
from hashlib import sha256

import numpy as np
import pytest

from trm.benchmark.export import export
from trm.benchmark.suites import SUITES, Training, items, json_line

SUITE = SUITES["multiply-v1"].within(3)
CANVASES = SUITES["canvas-v1"].within(2)
TRAINING = Training(40, digits=3)


def test_json_lines_are_the_canonical_file_and_their_sum_is_on_the_card(tmp_path):
    export(SUITE, "jsonl", tmp_path / "new" / "folder", training=TRAINING)
    folder = tmp_path / "new" / "folder"
    written = (folder / "multiply-v1.jsonl").read_bytes()
    assert written.decode() == "".join(map(json_line, items(SUITE)))
    assert sha256(written).hexdigest() in (folder / "CARD.md").read_text()
    assert len((folder / "train.jsonl").read_text().splitlines()) == 40
    assert len((folder / "validation.jsonl").read_text().splitlines()) == 4


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


def test_what_cannot_be_written_is_refused(tmp_path):
    names = {"test.bin", "meta.json", "CARD.md"}  # nothing to train on
    assert {file.name for file in export(SUITE, "txt", tmp_path)} == names
    export(SUITE, "txt", tmp_path)  # the same again
    with pytest.raises(ValueError, match="holds something else already"):
        export(SUITE, "jsonl", tmp_path)
    assert not (tmp_path / "multiply-v1.jsonl").exists()
    with pytest.raises(ValueError, match="canvas-v1 asks for canvases"):
        export(CANVASES, "txt", tmp_path / "b")


def test_a_card_bears_no_date_and_says_what_to_mind(tmp_path):
    export(CANVASES, "jsonl", tmp_path, seed=9146204175132267415, training=TRAINING)
    text = (tmp_path / "CARD.md").read_text()
    assert not re.search(r"\b20\d\d\b", text)
    for word in ("MIT", "SHA-256", "Contamination", "test split", "--seed", "numbers of 1 to 3"):
        assert word in text
    assert "9146204175132267415" not in text

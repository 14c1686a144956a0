import gzip
import json

import pytest

from trm.benchmark.predicting import first_of_cells
from trm.benchmark.suites import SUITES, items

CPU = ("--accelerator", "cpu")


def lines(data: bytes) -> list[dict]:
    return [json.loads(line) for line in data.decode().splitlines()]


def test_the_shipped_model_answers_a_part_of_a_suite(command, tmp_path):
    file = tmp_path / "predictions.jsonl.gz"
    words = ("benchmark", "predict", "--suite", "multiply-v1", "--up-to", 2, "--problems", 3, *CPU)
    ran = command(*words, "--output", file)
    assert ran.code == 0, ran.err
    assert "12 problems: 12 answers right" in ran.out
    asked = list(first_of_cells(items(SUITES["multiply-v1"].within(2)), 3))
    expected = [{"id": item.id, "prediction": item.answer} for item in asked]
    assert lines(gzip.decompress(file.read_bytes())) == expected
    assert list(tmp_path.iterdir()) == [file], "no hidden files are left"
    before = file.read_bytes()
    assert command(*words, "--output", file).code == 0
    assert file.read_bytes() == before


def test_what_a_model_cannot_answer_is_null(command, checkpoint, tmp_path):
    file, untrained = tmp_path / "predictions.jsonl", tmp_path / "untrained.safetensors"
    export = ("export", "--checkpoint", checkpoint, "--untrained", "--output", untrained)
    assert command(*export).code == 0
    words = ("--suite", "multiply-v1", "--up-to", 2, "--problems", 2, "--checkpoint", untrained)
    ran = command("benchmark", "predict", *words, *CPU, "--output", file)
    assert ran.code == 0, ran.err
    said = lines(file.read_bytes())
    assert len(said) == 8
    assert all(one.keys() == {"id", "prediction"} for one in said)
    silent = sum(one["prediction"] is None for one in said)
    assert (f"{silent} without an answer" in ran.out) == (silent > 0)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--suite multiply-v1 --output here.txt", "has to end in .jsonl or .jsonl.gz"),
        ("--suite multiply-v2 --output p.jsonl", "Did you mean multiply-v1?"),
        ("--suite canvas-v1 --output p.jsonl", "canvas-v1 asks for whole canvases"),
        ("--suite addition-v1 --output p.jsonl", "was made for multiplication in base 10"),
        ("--suite multiply-v1 --checkpoint no --output p.jsonl", "there is no checkpoint no"),
    ],
)
def test_bad_input_gets_a_sentence_and_leaves_nothing(command, tmp_path, words, sentence):
    ran = command("benchmark", "predict", *words.split(), folder=tmp_path)
    assert ran.code == 2
    assert sentence in ran.err
    assert list(tmp_path.iterdir()) == []

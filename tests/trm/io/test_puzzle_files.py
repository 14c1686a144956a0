"""Folders of arrays: what is written is read again, and what does not fit is named."""

import gzip
import json

import numpy as np
import pytest

from trm.io.puzzle_files import inputs_of, read_format, read_inputs, read_puzzles, write_puzzles
from trm.io.puzzle_format import PuzzleFormat

FORM = PuzzleFormat(2, 3, 5, 0, 0, "~.abc")
INPUTS = np.array([[[1, 2, 3], [4, 1, 1]], [[2, 1, 1], [1, 0, 0]], [[3, 3, 3], [1, 1, 1]]])
LABELS = np.array([[[2, 2, 3], [4, 4, 4]], [[2, 3, 3], [4, 0, 0]], [[3, 3, 3], [2, 2, 2]]])


@pytest.fixture
def folder(tmp_path):
    for split in ("train", "test"):
        write_puzzles(tmp_path / "data", split, FORM, INPUTS, LABELS, np.array([0, 2, 3]))
    return tmp_path / "data"


def change(folder, **entries):
    file = folder / "train/dataset.json"
    about = json.loads(file.read_text()) | entries
    file.write_text(json.dumps({k: v for k, v in about.items() if v != "absent"}))


def test_written_puzzles_are_read_again(folder):
    found = read_puzzles(folder)
    assert found.format == FORM
    assert np.array_equal(found.inputs, INPUTS)
    assert np.array_equal(found.labels, LABELS)
    assert np.array_equal(found.answer, LABELS != 0)
    assert found.groups.tolist() == [0, 2, 3]
    assert [part.tolist() for part in found.ends(np.array([1, 0]))] == [[2, 0], [3, 2]]
    names = {file.name for file in (folder / "train").iterdir()}
    fields = ("inputs", "labels", "puzzle_identifiers", "puzzle_indices", "group_indices")
    assert names == {"dataset.json", *(f"all__{field}.npy" for field in fields)}


def test_published_metadata_give_a_square(folder):
    """The published files name neither sides nor characters; a side may be set instead."""
    change(folder, height="absent", width="absent", characters="absent")
    with pytest.raises(ValueError, match=r"6 cells, which is no square: set data.height and data"):
        read_format(folder)
    assert read_format(folder, height=3) == PuzzleFormat(3, 2, 5, 0, 0)
    change(folder, seq_len=9)
    assert (read_format(folder).height, read_format(folder).width) == (3, 3)


def test_a_learned_id_of_padding_is_a_symbol_like_others(tmp_path):
    """Every cell is filled in if the symbols are 0 and 1 and no label is ignored."""
    form = PuzzleFormat(2, 2, 2, 0, -100)
    cells = np.array([[0, 1, 1, 0]])
    write_puzzles(tmp_path, "train", form, cells, 1 - cells)
    found = read_puzzles(tmp_path)
    assert found.format.pad is None
    assert found.format.inside(found.inputs).all()
    assert found.answer.all()


def test_several_sets_follow_each_other(folder):
    for file in (folder / "train").glob("all__*.npy"):
        file.with_name(file.name.replace("all", "more")).write_bytes(file.read_bytes())
    change(folder, sets=["all", "more"])
    found = read_puzzles(folder)
    assert np.array_equal(found.inputs, np.concatenate([INPUTS, INPUTS]))
    assert found.groups.tolist() == [0, 2, 3, 5, 6]
    assert [part.tolist() for part in found.ends(np.array([3]))] == [[5], [6]]


def test_text_and_arrays_are_read_as_puzzles(tmp_path):
    text, array = tmp_path / "puzzles.txt", tmp_path / "puzzles.npy"
    text.write_text(".abc..\n\na...~~\n")
    assert np.array_equal(read_inputs(text, FORM), INPUTS[:2])
    for cells in (INPUTS[:2], INPUTS[:2].reshape(2, -1).astype(np.int64)):
        np.save(array, cells)
        assert np.array_equal(read_inputs(array, FORM), INPUTS[:2])
    np.save(array, INPUTS[0])
    assert np.array_equal(read_inputs(array, FORM), INPUTS[:1])
    larger = np.ones((2, 16), np.uint8)
    np.save(array, larger)
    assert read_inputs(array, FORM).shape == (2, 4, 4)
    assert read_inputs(array, FORM, width=8).shape == (2, 2, 8)
    packed = array.with_name("puzzles.npy.gz")
    packed.write_bytes(gzip.compress(array.read_bytes()))
    assert np.array_equal(read_inputs(packed, FORM, width=8), read_inputs(array, FORM, width=8))
    ids = PuzzleFormat(2, 3, 5)
    text.write_text("1 2 3 4 1 1\n2,1,1,1,0,0\n")
    assert np.array_equal(read_inputs(text, ids), INPUTS[:2])
    assert ids.to_text(INPUTS[0]) == "1 2 3 4 1 1"
    assert FORM.to_text(INPUTS[0]) == ".abc.."


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("packed", [False, True])
def test_text_of_puzzles_is_read_as_that_of_problems(tmp_path, end, encoding, packed):
    content = end.join([".abc..", "a...~~", ""]).encode(encoding)
    file = tmp_path / "puzzles.txt.gz"
    file.write_bytes(gzip.compress(content) if packed else content)
    assert np.array_equal(read_inputs(file, FORM), INPUTS[:2])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x1f\x8b", "puzzles.* is damaged .*: pack it again"),
        (gzip.compress(b".abc..\n", mtime=0)[:-9], "puzzles.* is damaged .*: pack it again"),
        (b".abc..\n\xff\xff\n", "is no text in UTF-8"),
        (b".abc..\n\0\0\n", "is no text in UTF-8"),
    ],
)
def test_a_damaged_file_of_puzzles_is_refused(tmp_path, content, why):
    file = tmp_path / "puzzles.txt.gz"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=why):
        read_inputs(file, FORM)


@pytest.mark.parametrize("name", ["puzzles.npz", "puzzles.npy.gz"])
def test_an_archive_or_a_damaged_array_is_no_text(tmp_path, name):
    file = tmp_path / name
    np.savez(tmp_path / "puzzles.npz", INPUTS)
    (tmp_path / "puzzles.npy.gz").write_bytes(b"1 2 3")
    with pytest.raises(ValueError, match=r"puzzles\.np\S* (has an archive|is no array of NumPy)"):
        read_inputs(file, FORM)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no puzzle"),
        ("abx...", "line 1: 'x' is none of the symbols ~.abc"),
        ("abc...\nabc", "line 2 has 3 cells, and the first puzzle 6"),
        ("abcab", "has 5 cells, which is no square: set --height and --width"),
    ],
)
def test_text_that_is_no_puzzle_is_refused(tmp_path, text, why):
    file = tmp_path / "puzzles.txt"
    file.write_text(text)
    with pytest.raises(ValueError, match=why):
        read_inputs(file, FORM)


def test_an_empty_text_between_puzzles_is_refused():
    with pytest.raises(ValueError, match="one of these has none"):
        inputs_of(["abc...", " "], FORM)


def save(name, array):
    return lambda folder: np.save(folder / f"train/all__{name}.npy", array)


BAD = {
    "folder": (lambda f: f.rename(f.with_name("gone")), "no such folder of arrays"),
    "split": (lambda f: (f / "train").rename(f / "first"), "has no folder train, but first, test"),
    "missing": (lambda f: (f / "train/all__labels.npy").unlink(), "labels.npy: there is no such"),
    "no_json": (lambda f: (f / "train/dataset.json").write_text("["), "is no JSON object"),
    "no_symbols": (lambda f: change(f, vocab_size="absent"), "has no vocab_size"),
    "few_symbols": (lambda f: change(f, vocab_size=4, characters=""), "cell 3 is 4, and symbols"),
    "many_symbols": (lambda f: change(f, vocab_size=999), "vocab_size is a whole number from 2"),
    "sides": (lambda f: change(f, height=2, width=2), "6 cells, and not 2 x 2"),
    "length": (lambda f: change(f, seq_len=9, height=3), "has 6 cells a puzzle, and dataset.json"),
    "sets": (lambda f: change(f, sets=["../all"]), "sets is a list of names"),
    "ignored": (lambda f: change(f, ignore_label_id=0.5), "ignore_label_id is a whole number"),
    "characters": (lambda f: change(f, characters="aab"), "one character for each of the 5"),
    "floats": (save("inputs", INPUTS.reshape(3, -1) / 2), "has float64, and not whole numbers"),
    "cut": (lambda f: (f / "train/all__inputs.npy").write_bytes(b"\x93NUMPY"), "or damaged"),
    "shape": (save("inputs", INPUTS), r"has the shape \[3, 2, 3\], and not"),
    "empty": (save("inputs", np.zeros((0, 6), np.uint8)), "has no puzzle"),
    "fewer": (save("labels", LABELS[:2].reshape(2, -1)), "has 2 rows, and the inputs have 3"),
    "label": (save("labels", LABELS.reshape(3, -1) + 3), "row 0, cell 0 is 5, and symbols are"),
    "unlabelled": (save("labels", np.zeros((3, 6), int)), "row 0 has no label"),
    "starts": (save("group_indices", np.array([0, 2])), "ends with the number of puzzles, 3"),
    "falling": (save("puzzle_indices", np.array([0, 2, 2, 3])), "does not rise"),
    "many_ids": (save("puzzle_identifiers", np.arange(3)), "3 different identifiers"),
    "ids": (save("puzzle_identifiers", np.zeros(2, int)), "has 2 entries for 3 puzzles"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arrays_are_refused_in_one_sentence(folder, name):
    spoil, why = BAD[name]
    spoil(folder)
    with pytest.raises((ValueError, FileNotFoundError), match=why) as error:
        read_puzzles(folder)
    assert "\n" not in str(error.value)


def test_a_folder_with_files_is_not_written_over(folder):
    with pytest.raises(ValueError, match="has files already"):
        write_puzzles(folder, "train", FORM, INPUTS, LABELS)
    with pytest.raises(ValueError, match="inputs and labels are"):
        write_puzzles(folder, "other", FORM, INPUTS, LABELS[:2])

import gzip
import json
import re
import shutil

import pytest
import yaml

from trm.checkpoints.loading import load_solver
from trm.evaluation.statistics import Share
from trm.extras.benchmark.board import ladder, longest, page, read_card
from trm.extras.benchmark.suites import SUITES
from trm.io.markdown import safe

LONG = SUITES["multiply-long-v1"]  # the smallest suite
STRUCTURED = SUITES["structured-v1"]
CARD = {"name": "Ours", "suites": [LONG.name], "trained": True, "parameters": 1234}
CARD |= {"trained_on": "1 to 4 x 1 to 4 digits", "given": "the layout of the page"}
CARD |= {"code": "board/ours/ours.py", "made_with": "python ours.py"}
CARD |= {"random_weights": "python ours.py --random"}


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    """The right answers of the suite."""
    return {item.id: item.answer for item in LONG.items}


def write(file, said) -> None:
    lines = (json.dumps({"id": name, "prediction": text}) + "\n" for name, text in said.items())
    file.write_bytes(gzip.compress("".join(lines).encode()))


@pytest.fixture
def board(tmp_path, answers):
    """A board with a program, right on all but one problem, and room for more."""
    folder = tmp_path / "board"
    wrong_at_last = dict(list(answers.items())[:-1])
    add(folder, "program", {"name": "A program", "trained": False, "parameters": 0}, wrong_at_last)
    return folder


def add(board, name, changes, said, random=None) -> None:
    entry = board / name
    entry.mkdir(parents=True)
    card = {k: v for k, v in (CARD | changes).items() if v is not None}
    if not card.get("trained"):
        card.pop("trained_on", None)
        card.pop("random_weights", None)
    (entry / "card.yaml").write_text(yaml.safe_dump(card))
    if said is not None:
        write(entry / f"predictions-{LONG.name}.jsonl.gz", said)
    if random is not None:
        write(entry / f"random-{LONG.name}.jsonl.gz", random)


def rows_of(text: str, suite: str) -> list[list[str]]:
    """The rows of a suite's table, cell by cell."""
    lines = text.split(f"\n## {suite}\n")[1].split("\n## ")[0].splitlines()
    table = [line for line in lines if line.startswith("| ")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_figures_are_counted_and_entries_ranked_by_them(board, answers):
    (row,) = rows_of(page(board), LONG.name)
    assert row[2] == "99.33 % (96.32 to 99.89) (149 of 150)"
    assert row[3] == "tested"  # the last problem has no answer
    assert row[4] == "100 x 100"  # of 200 x 200, 49 of 50 are right
    assert row[5:] == ["0", "by hand", "–"]
    program = {"trained": False, "parameters": 0}
    add(board, "all", program | {"name": "All right", "parameters": 7}, answers)
    add(board, "as-good", program | {"name": "As good, smaller"}, answers)
    ranks = [(row[0], row[1]) for row in rows_of(page(board), LONG.name)]
    names = ("[As good, smaller](#as-good-smaller)", "[All right](#all-right)")
    assert ranks == [*(("1", name) for name in names), ("3", "[A program](#a-program)")]


def test_an_entry_is_proved_or_refuted_by_an_incorrect_answer(board, answers):
    add(board, "ours", {"trained": False, "proof": "docs/proof.md"}, answers)
    (row, _) = rows_of(page(board), LONG.name)
    assert row[3] == "[proved](#ours)"
    wrong = {name: "1" for name in answers if "100x100" in name} | {next(iter(answers)): "2"}
    write(board / f"ours/predictions-{LONG.name}.jsonl.gz", answers | wrong)
    with pytest.raises(ValueError, match="ours is refused: it names a proof"):
        page(board)
    add(board, "other", {"trained": False, "name": "Other"}, answers | wrong)
    shutil.rmtree(board / "ours")
    row = rows_of(page(board), LONG.name)[1]
    assert row[3] == f"refuted: {safe(LONG.items[0].question.removesuffix(' ='))}"


def test_a_trained_entry_has_to_fail_with_random_weights(board, answers):
    short = dict.fromkeys(item.id for item in STRUCTURED.within(8).items)
    add(board, "ours", {}, answers)
    random = board / f"ours/random-{STRUCTURED.name}.jsonl.gz"
    write(random, short)
    assert f"With random weights: 0.0 % (0 of {len(short)}; " in page(board)
    right = {item.id: item.answer for item in STRUCTURED.within(8).items}
    write(random, short | dict(list(right.items())[: len(short) // 50]))
    with pytest.raises(ValueError, match="ours is refused: with random weights"):
        page(board)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"trained": True, "random_weights": None}, "a trained entry has parameters, trained_on"),
        ({"trained": True, "parameters": 0}, "a trained entry has parameters, trained_on"),
        ({"suites": ["multiply-v2"]}, "Did you mean multiply-v1"),
        ({"parameters": True}, "card.yaml: parameters: Input should be a valid integer"),
        ({"name": "A program!"}, "two headings of the page would be a-program"),
        ({"name": "two\nlines"}, "card.yaml: name: String should match"),
    ],
)
def test_an_incomplete_card_is_refused_in_a_sentence(board, answers, changes, sentence):
    add(board, "ours", {"trained": False} | changes, answers)
    with pytest.raises(ValueError, match=re.escape(sentence)) as raised:
        page(board)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "changes", "said", "random", "sentence"),
    [
        ("ours", {}, {}, {"multiply-long-v1/50x50/000": "1"}, "needs 200 predictions of the same"),
        ("ours", {"trained": False}, None, None, "ours has no predictions-multiply-long-v1.jsonl"),
        ("a <b>", {"trained": False}, {}, None, "name the folder by letters"),
    ],
)
def test_an_entry_that_is_not_complete_is_named(board, name, changes, said, random, sentence):
    said = said or (said if said is None else {"multiply-long-v1/50x50/000": "1"})
    add(board, name, changes, said, random)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        page(board)
    (board / name / "card.yaml").unlink()
    with pytest.raises(ValueError, match=r"has no card\.yaml"):
        page(board)


def test_a_large_file_is_refused(board):
    file = board / "program/deep/more.bin"
    file.parent.mkdir()
    file.write_bytes(bytes(2**20 + 1))
    with pytest.raises(ValueError, match="is larger than 1,048,576 bytes"):
        page(board)


def test_the_longest_size_ends_at_the_first_error():
    suite = SUITES["multiply-v1"]
    solved = {cell: Share(100, 100) for cell in suite.cells}
    assert longest(suite, solved) == 20
    solved[7, 7] = Share(98, 100)
    solved[5, 6] = Share(0, 100)  # not n x n
    assert longest(suite, solved) == 6
    assert longest(suite, solved | {(1, 1): Share(0, 6)}) is None
    del solved[3, 3], solved[7, 7]  # sizes of which no problem is held out
    assert longest(suite, solved) == 20
    sizes = {n: len(cells) for n, cells in ladder(SUITES["structured-v1"]).items()}
    assert sizes == dict.fromkeys((4, 8, 16, 32, 64, 100), 15)
    assert ladder(SUITES["addition-v1"])[50] == [(50, 2)]


def test_the_projects_own_board_is_made_from_its_folders(repository):
    """All of its figures are counted anew; of our models, so is the number of parameters."""
    assert (repository / "docs/board.md").read_text() == page(repository / "board")
    for card in map(read_card, (f.parent for f in (repository / "board").glob("*/card.yaml"))):
        if card.weights:
            network = load_solver(repository / card.weights, device="cpu").predictor.model
            assert card.parameters == sum(p.numel() for p in network.parameters()), card.name
        assert (repository / card.code).is_file()

import pytest

from trm.benchmark.dataset import SuiteDataset, prediction
from trm.benchmark.suites import SUITES, items


@pytest.fixture(scope="module")
def long() -> SuiteDataset:
    return SuiteDataset("multiply-long-v1")


def test_it_is_a_sequence_of_the_suites_problems_in_their_order(long):
    asked = list(items(SUITES["multiply-long-v1"]))
    assert len(long) == len(list(long)) == len(asked)
    assert [entry["question"] for entry in long] == [item.question for item in asked]
    assert long[-1] == long[len(long) - 1]
    assert long[3:5] == [long[3], long[4]]
    with pytest.raises(IndexError):
        long[len(long)]


def test_an_entry_has_question_answer_and_where_it_is_from(long):
    entry = long[7]
    a, b = map(int, entry["metadata"]["operands"])
    assert (entry["question"], entry["answer"]) == (f"{a} * {b} =", str(a * b))
    assert entry["metadata"]["source_dataset"] == "multiply-long-v1"
    assert entry["metadata"]["source_index"] == 7
    assert prediction("12", entry) == {"id": entry["metadata"]["id"], "prediction": "12"}


def test_answers_are_read_as_trm_score_reads_them(long):
    entry = long[0]
    right = int(entry["answer"])
    assert long.score_answer(f"The product is {right:,}.", entry) == 1.0
    assert long.score_answer(str(right + 1), entry) == 0.0
    assert long.score_answer("no idea", entry) == 0.0
    assert long.score_answer(None, entry) == 0.0


def test_whole_canvases_are_scored_too():
    canvases = SuiteDataset("canvas-v1")
    entry = canvases[0]
    assert canvases.score_answer(f"```\n{entry['answer']}\n```", entry) == 1.0
    assert canvases.score_answer(entry["question"], entry) == 0.0


def test_another_name_gets_a_sentence():
    with pytest.raises(ValueError, match="Did you mean multiply-v1"):
        SuiteDataset("multiply-v2")

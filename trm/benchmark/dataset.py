"""A suite as a data set of questions and answers, after the protocol of reasoning-gym's.

An entry is a dictionary of ``question``, ``answer`` and ``metadata``; `SuiteDataset.score_answer`
says what an answer is worth. Neither reasoning-gym nor anything else is needed for it::

    from trm.benchmark.dataset import SuiteDataset

    data = SuiteDataset("multiply-v1")
    entry = data[0]
    data.score_answer("It is 1,234.", entry)  # 1.0 or 0.0
"""

from collections.abc import Iterator, Sequence
from typing import Any

from trm.benchmark.answers import is_right, read_answer
from trm.benchmark.suites import Item, items, record, suite_named


class SuiteDataset(Sequence[dict[str, Any]]):
    """The problems of a suite, in their order.

    Args:
        suite: its name.
        secret: of an organiser, for other problems of the same kind; None: the public ones.

    Raises:
        ValueError: there is no such suite.
    """

    def __init__(self, suite: str, secret: bytes | None = None) -> None:
        self.suite = suite_named(suite)
        self._items: list[Item] = list(items(self.suite, secret))

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self._entry, range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        """The entry of that index, or those of a slice, as a list."""
        if isinstance(index, slice):
            return [self._entry(i) for i in range(*index.indices(len(self)))]
        return self._entry(range(len(self))[index])

    def _entry(self, index: int) -> dict[str, Any]:
        found = record(self._items[index])
        source = {"id": found["id"], "source_dataset": found["suite"], "source_index": index}
        return {
            "question": found["question"],
            "answer": found["answer"],
            "metadata": source | found["metadata"],
        }

    def score_answer(self, answer: str | None, entry: dict[str, Any]) -> float:
        """1.0 if an answer is right, read by the rule of `trm.benchmark.answers`, else 0.0.

        Args:
            answer: the text that a model gave; None: none.
            entry: of this data set.
        """
        canvas = self.suite.whole
        said = None if answer is None else read_answer(answer, canvas)
        return float(is_right(said, entry["answer"], canvas))


def prediction(answer: str | None, entry: dict[str, Any]) -> dict[str, Any]:
    """An answer as a line of predictions.jsonl for `trm score`."""
    return {"id": entry["metadata"]["id"], "prediction": answer}

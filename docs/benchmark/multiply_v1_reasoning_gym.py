"""The suites as a data set of reasoning-gym, registered there as `canvas_trm`.

    python multiply_v1_reasoning_gym.py predictions.jsonl
    trm benchmark score predictions.jsonl --suite multiply-v1 --output scored

Replace `answer` by your model. Training code that takes reasoning-gym's data sets takes this one:
but then it trains on the problems of the test, so keep it for evaluation.
"""

import json
import sys
from dataclasses import dataclass
from typing import Any

import reasoning_gym
from reasoning_gym.dataset import ProceduralDataset
from reasoning_gym.factory import register_dataset

from trm.extras.benchmark.suites import SUITES, record


@dataclass
class SuiteConfig:
    """The suite, and the number of its problems; the seed is there for reasoning-gym alone."""

    suite: str = "multiply-v1"
    size: int | None = None  # all of them
    seed: int | None = None


class SuiteAsTask(ProceduralDataset):
    """The problems of a suite: fixed ones, whatever the seed."""

    def __init__(self, config: SuiteConfig) -> None:
        self.suite = SUITES[config.suite]
        self.records = [record(item) for item in self.suite.items]
        size = len(self.records) if config.size is None else config.size
        if not 1 <= size <= len(self.records):
            raise ValueError(f"{config.suite} has {len(self.records):,} problems: size is {size}")
        super().__init__(config, config.seed, size)

    def __getitem__(self, idx: int) -> dict[str, Any]:
        asked = self.records[idx]
        # By the name of its source a composite of data sets finds what scores an answer.
        about = {"id": asked["id"], "source_dataset": "canvas_trm", "source_index": idx}
        metadata = about | asked["metadata"]
        return {"question": asked["question"], "answer": asked["answer"], "metadata": metadata}

    def score_answer(self, answer: str | None, entry: dict[str, Any]) -> float:
        """1.0 or 0.0, by the rule of `trm benchmark score`: nothing for a part of a number."""
        return float(self.suite.read(answer or "") == self.suite.read(entry["answer"]))


register_dataset("canvas_trm", SuiteAsTask, SuiteConfig)


def answer(question: str) -> str:
    """Your model's answer; this one knows nothing."""
    return "I cannot tell."


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("give the file to write, predictions.jsonl")
    data = reasoning_gym.create_dataset("canvas_trm", suite="multiply-v1")
    right = 0.0
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        for entry in data:
            said = answer(entry["question"])
            right += data.score_answer(said, entry)
            line = {"id": entry["metadata"]["id"], "prediction": said}
            file.write(json.dumps(line) + "\n")
    print(f"{right:.0f} of {len(data)} right → {sys.argv[1]}")

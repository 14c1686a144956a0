"""multiply-v1 (or another suite of numbers) as a task of inspect-ai, and its log as predictions.

    trm benchmark export --suite multiply-v1 --output multiply-v1
    inspect eval multiply_v1_inspect.py -T file=multiply-v1/multiply-v1.jsonl --model MODEL
    python multiply_v1_inspect.py logs/LOG.eval predictions.jsonl
    trm benchmark score predictions.jsonl --suite multiply-v1 --output scored

The scorer here is a first look: it takes the last whole number of an answer, digits grouped in
threes or not. inspect-ai's own `match(numeric=True)` compares five significant digits, and so calls
wrong products right.
"""

import json
import re
import sys
from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import Sample, json_dataset
from inspect_ai.log import read_eval_log
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer, stderr
from inspect_ai.solver import TaskState, generate, system_message

ASKED = "Work the problem out and end your answer with the number alone, without separators."
NUMBER = re.compile(r"\d{1,3}(?:[,_ ]\d{3})+(?!\d)|\d+")


def sample(record: dict) -> Sample:
    """A sample of inspect-ai from a line of the suite."""
    return Sample(
        id=record["id"],
        input=record["question"],
        target=record["answer"],
        metadata=record["metadata"],
    )


@scorer(metrics=[accuracy(), stderr()])
def last_number() -> Scorer:
    """Score an answer by its last whole number, digit by digit."""

    async def score(state: TaskState, target: Target) -> Score:
        found = NUMBER.findall(state.output.completion)
        answer = re.sub(r"\D", "", found[-1]).lstrip("0") or "0" if found else None
        value = CORRECT if answer == target.text else INCORRECT
        return Score(value=value, answer=answer, explanation=state.output.completion)

    return score


@task
def multiply_v1(file: str = "multiply-v1.jsonl") -> Task:
    """All problems of a suite that `trm benchmark export` has written."""
    return Task(
        dataset=json_dataset(str(Path(file).resolve()), sample),
        solver=[system_message(ASKED), generate()],
        scorer=last_number(),
    )


def export(log: str, predictions: str) -> tuple[int, int]:
    """Write the answers of a log as predictions.jsonl; returns how many, and how many it lacks."""
    held = read_eval_log(log)
    answered = [one for one in held.samples or [] if one.error is None and one.output.choices]
    with open(predictions, "w", encoding="utf-8") as file:
        for one in answered:
            line = {"id": one.id, "prediction": one.output.completion}
            file.write(json.dumps(line) + "\n")
    asked = held.eval.dataset.samples or len(answered)
    return len(answered), asked - len(answered)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("give a log of inspect eval, and the file to write, predictions.jsonl")
    count, missing = export(*sys.argv[1:])
    print(f"{count} predictions → {sys.argv[2]}, {missing} problems without an answer")

"""Answers that lm-eval has logged (`--log_samples`) as predictions.jsonl for `trm benchmark score`.

    python from_lm_eval.py results/MODEL/samples_multiply_v1_DATE.jsonl predictions.jsonl

The whole text is kept: `trm benchmark score` reads the number from it by its own rule.
"""

import json
import sys


def export(samples: str, predictions: str) -> int:
    """Write the answers of a file of samples as predictions; returns how many."""
    count = 0
    with open(samples, encoding="utf-8") as file, open(predictions, "w", encoding="utf-8") as out:
        for line in file:
            sample = json.loads(line)
            answered = {"id": sample["doc"]["id"], "prediction": sample["resps"][0][0]}
            out.write(json.dumps(answered) + "\n")
            count += 1
    return count


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("give a file of samples of lm_eval --log_samples, and the file to write")
    print(f"{export(*sys.argv[1:])} predictions → {sys.argv[2]}")

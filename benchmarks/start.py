"""Seconds until a command has answered: a wrong call, a help, a script, beside `import torch`.

Each is a process of its own, as a shell starts it; rounds are interleaved, medians are printed.
"""

import argparse
import statistics
import subprocess
import sys
import time

CALLS = {
    "python alone": ["-c", ""],
    "import torch": ["-c", "import torch"],
    "import lightning": ["-c", "import lightning"],
    "trm --help": ["-m", "trm", "--help"],
    "trm solve 5x": ["-m", "trm", "solve", "5x"],
    "trm solve 1x2 --checkpoint nowhere": ["-m", "trm", "solve", "1x2", "--checkpoint", "nowhere"],
    "trm evaluate --digits-a x": ["-m", "trm", "evaluate", "--digits-a", "x"],
    "trm fit": ["-m", "trm", "fit"],
    "trm --print-completion bash": ["-m", "trm", "--print-completion", "bash"],
    "trm render 12x3": ["-m", "trm", "render", "12x3"],
    "trm solve 12x3": ["-m", "trm", "solve", "12x3"],
    "trm fit --help": ["-m", "trm", "fit", "--help"],
}


def seconds(words: list[str]) -> float:
    """How long a process with these words takes."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], capture_output=True, check=False)
    return time.perf_counter() - start


def main() -> None:
    """Time all calls, round after round."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    taken: dict[str, list[float]] = {name: [] for name in CALLS}
    for _ in range(rounds):
        for name, words in CALLS.items():
            taken[name].append(seconds(words))
    print(f"seconds, median of {rounds} interleaved rounds (fewest, most)")
    for name, values in taken.items():
        print(f"{statistics.median(values):6.2f}  ({min(values):.2f}, {max(values):.2f})  {name}")


if __name__ == "__main__":
    main()

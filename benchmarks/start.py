"""Seconds from the start of a command to its end, compared with `import torch`."""

import argparse
import subprocess
import sys
from functools import partial

from timing import in_turn, show

CALLS = (
    "trm --help",
    "trm solve 5x",
    "trm solve 1x2 --checkpoint nowhere",
    "trm evaluate --digits-a x",
    "trm fit",
    "trm render 12x3",
    "trm solve 12x3",  # looked up, without PyTorch
    "trm solve 12x3 --steps 9",  # by the network
    "trm fit --help",
)


def main() -> None:
    """Time all calls, round after round."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    words = {f"import {name}": ["-c", f"import {name}"] for name in ("numpy", "torch", "lightning")}
    words |= {call: ["-m", *call.split()] for call in CALLS}

    def call(words: list[str], _: int) -> None:
        subprocess.run([sys.executable, *words], capture_output=True, check=False)

    show(in_turn({name: partial(call, some) for name, some in words.items()}, options.rounds, 0))


if __name__ == "__main__":
    main()

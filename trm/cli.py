"""The command `trm`."""

import sys


def main() -> None:
    from trm.training.cli import run
    run(sys.argv[1:])

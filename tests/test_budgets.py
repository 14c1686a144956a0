"""The house stays small: lines, commands and pages have budgets.

`python -m tests.test_budgets` prints them. A line is a line of a file as the formatter leaves it,
docstrings included. Who needs more room takes something out, or says why the budget has to grow;
who takes something out lowers the budget. The goals are 22,000 lines, 17,000 of tests, 1,800 of
documentation, and then 18,000 and 14,000.
"""

from pathlib import Path

import pytest

from trm.commands.cli import COMMANDS, TRAINING

ROOT = Path(__file__).parents[1]


def lines(*patterns: str) -> int:
    """Lines of the files under the patterns."""
    files = {file for pattern in patterns for file in ROOT.glob(pattern)}
    return sum(len(file.read_bytes().splitlines()) for file in files)


BUDGETS = {  # what: (how much there is, the most that there may be)
    "canvas, augment, trm": (
        lambda: lines("canvas/**/*.py", "augment/**/*.py", "trm/**/*.py"),
        21_181,
    ),
    "tests": (lambda: lines("tests/**/*.py"), 13_789),
    "benchmarks": (lambda: lines("benchmarks/**/*.py"), 1_500),
    "documentation without the log": (  # and without the gallery, which nobody writes
        lambda: lines("docs/*.md") - lines("docs/gallery.md"),
        1_794,
    ),
    "bytes of README.md": (lambda: len((ROOT / "README.md").read_bytes()), 6_000),
    "commands": (lambda: len(COMMANDS) + len(TRAINING), 14),
}


@pytest.mark.parametrize("what", BUDGETS)
def test_budgets_are_kept(what):
    counted, most = BUDGETS[what]
    assert counted() <= most


if __name__ == "__main__":
    for what, (counted, most) in BUDGETS.items():
        print(f"{what:32}{counted():>8,} of {most:,}")

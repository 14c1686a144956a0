"""Write the list of entries of README.md: `python docs/log/index.py`, after each one."""

import re
from itertools import groupby
from pathlib import Path

FOLDER = Path(__file__).parent
HEADING, RULES = "## Entries\n", "\n## Write an entry\n"
ENTRY = re.compile(r'^<a id="([\w-]+)"></a>\n\n## (\d{4}-\d\d-\d\d) · (.+)$', re.MULTILINE)


def entries(folder: Path = FOLDER) -> list[tuple[str, str, str]]:
    """Return date, title, and link of each entry, newest first."""
    return [
        (date, title, f"{month.name}#{anchor}")
        for month in sorted(folder.glob("2*.md"), reverse=True)
        for anchor, date, title in ENTRY.findall(month.read_text())
    ]


def index(folder: Path = FOLDER) -> str:
    """Return README.md with a new list of entries, in the order of the months' files."""
    lines = []
    for date, of_date in groupby(entries(folder), key=lambda entry: entry[0]):
        lines += [f"\n### {date}\n", *(f"- [{title}]({link})" for _, title, link in of_date)]
    before, _, listed = (folder / "README.md").read_text().partition(HEADING)
    rules = "".join(listed.partition(RULES)[1:])
    return before + HEADING + "\n".join(lines) + "\n" + rules


if __name__ == "__main__":
    (FOLDER / "README.md").write_text(index())

"""Write the list of entries at the end of README.md: `python docs/log/index.py`, after each one."""

from itertools import groupby
from pathlib import Path

FOLDER = Path(__file__).parent
HEADING = "## Entries\n"


def index(folder: Path = FOLDER) -> str:
    """README.md with the list anew, newest date first, the entries of a date by name."""
    pages = sorted(folder.glob("2*.md"), key=lambda page: page.name)
    lines = []
    for date, entries in groupby(reversed(pages), key=lambda page: page.name[:10]):
        lines += [f"\n### {date}\n"]
        for page in sorted(entries):
            title = page.read_text().partition("\n")[0].removeprefix(f"# {date} · ")
            lines += [f"- [{title}]({page.name})"]
    text = (folder / "README.md").read_text().partition(HEADING)[0]
    return text + HEADING + "\n".join(lines) + "\n"


if __name__ == "__main__":
    (FOLDER / "README.md").write_text(index())

"""Renew the line numbers of links to code in the docs: `python docs/lines.py`.

Such a link quotes the code that it leads to as its title, after the address. Example: ::

    [`z_H, z_L`](../trm/models/iterative.py#L1 "def recur(")
"""

import re
from pathlib import Path

DOCS = Path(__file__).parent
LINK = re.compile(r'\]\((?P<file>[^)#\s]+)#L(?P<line>\d+) "(?P<code>[^"]+)"\)')


def renewed(page: Path) -> str:
    """Return a page whose links lead to the first line of the file that contains their code.

    Raises:
        ValueError: no line contains it, or it begins a link in Markdown.
    """

    def link(found: re.Match[str]) -> str:
        lines = page.parent.joinpath(found["file"]).read_text().splitlines()
        line = next((n for n, text in enumerate(lines, 1) if found["code"] in text), None)
        if re.search(r"\]\(|\[[^]]*$", found["code"]):
            raise ValueError(f"{page.name}: {found['code']!r} begins a link in Markdown")
        if line is None:
            raise ValueError(f"{page.name}: {found['file']} has no line with {found['code']!r}")
        return f']({found["file"]}#L{line} "{found["code"]}")'

    return LINK.sub(link, page.read_text())


if __name__ == "__main__":
    for page in sorted(DOCS.glob("*.md")):
        page.write_text(renewed(page))

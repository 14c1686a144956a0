"""Tables and escaped text in Markdown."""

import re


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a table with a line of heads and lines of cells."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def known(value: float | None, form: str) -> str:
    """Return a figure as text, by a format like ``{:.3f}``; a dash: it is not known."""
    return "–" if value is None else form.format(value)


def safe(text: str) -> str:
    """Escape the characters of a text that are markup in Markdown."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)

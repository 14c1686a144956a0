"""Pieces of Markdown."""

import re


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def safe(text: str) -> str:
    """A text whose characters Markdown would take for markup."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)

r"""Extraction of a prediction's answer from a text: a number or a canvas.

docs/benchmark.md has the rule for numbers, and a table of examples, which are tests.

A canvas is the last block of lines with symbols of canvases only. Other text, or the fences of
Markdown, may surround it. Spaces and ``·`` are blank cells, ``×`` and ``x`` are the sign of a
product. Blank rows and columns around the symbols are ignored.
"""

import re
import unicodedata
from itertools import groupby

_STATEMENTS = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE | re.DOTALL)
    for pattern in (
        r"\\f?boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}",
        r"<answer>(.*?)</answer>",
        r"^[ \t]*####([^\n]*)",
        r"\banswers?\b[^.!?\n]{0,999}?(?:\b(?:is|are|equals)\b|[:=])((?:[^.!?\n]|\.(?=\d))*)",
    )
)
_THIN = re.compile(r"\\[,;:! ]")  # LaTeX's spaces within a number
_MARKUP = re.compile(r"\\[a-z]+|\\[()\[\]]|\*\*|[${}]")
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?P<by>[,_'’ ])\d{3}(?:(?P=by)\d{3})*(?!\d)")
_TOKEN = re.compile(  # a number and the characters that touch it
    r"(?:(?<!\w)[-−])?(?<![\w.])[\w.]*\d(?:[\w.%]|,(?=\d))*"
)
_WHOLE = re.compile(r"([-−]?)(\d+)(?:\.0*)?")
_WORKED = re.compile(r"\d\s*[-+*×·x−]\s*\d", re.IGNORECASE)  # two numbers and the sign between
_LONGEST = 20_000  # characters that are searched for a number: time grows with their square
_CANVAS = re.compile(r"[0-9_*+]+")
_DRAWN = str.maketrans({" ": "_", "·": "_", "×": "*", "x": "*"})


def read_number(text: str) -> str | None:
    """Return the number that a text gives as its answer; None: there is none.

    The number is in digits, with a minus if it is negative.

    >>> read_number("12 x 34: the answer is **408**. I used 3 steps.")
    '408'
    """
    if len(text) <= _LONGEST and text.isascii() and text.isdigit():  # as most predictions are
        return text.lstrip("0") or "0"
    # Blanks of all kinds (no-break, thin) become spaces, and digits of all scripts those of ASCII.
    text = unicodedata.normalize("NFKC", text[-_LONGEST:]).replace("...", " ")
    text = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in text)
    claims = [_plain(claim) for pattern in _STATEMENTS for claim in pattern.findall(text)]
    if stated := {_result(claim) for claim in claims if re.search(r"\d", claim)}:
        return stated.pop() if len(stated) == 1 else None
    plain = _plain(text)
    equations = [line for line in plain.splitlines() if _WORKED.search(line) and "=" in line]
    if equations and (found := _result(equations[-1])) is not None:
        return found
    numbers = _TOKEN.findall(plain)
    return _whole(numbers[-1]) if numbers else None


def _plain(text: str) -> str:
    """Remove LaTeX, bold print and separators of groups of digits from a text."""
    text = _MARKUP.sub(" ", _THIN.sub("", text.replace(r"\times", "×").replace("{,}", ",")))
    return _GROUPED.sub(lambda found: found[0].replace(found["by"], ""), text)


def _result(claim: str) -> str | None:
    """Return the whole number that a sentence or an equation gives as its result, or None."""
    sides = [side for side in claim.split("=") if re.search(r"\d", side)]
    results = [side for side in sides if not _WORKED.search(side)] if len(sides) > 1 else sides
    if not results:
        return None
    last = results[-1] is sides[-1]  # 12 * 34 = 408, and further text
    return _whole(_TOKEN.findall(results[-1 if last else 0])[0])


def _whole(token: str) -> str | None:
    """Return the digits of a whole number; None for anything else, such as 5.5, 42% or 3rd."""
    if (found := _WHOLE.fullmatch(token)) is None:
        return None
    digits = found[2].lstrip("0") or "0"
    return f"-{digits}" if found[1] and digits != "0" else digits


def read_canvas(text: str) -> str | None:
    """Return the canvas in a text, without blank rows and columns at its edges; None: no canvas."""
    lines = (line.translate(_DRAWN) for line in text.replace("\r", "").split("\n"))
    groups = groupby(lines, lambda line: _CANVAS.fullmatch(line) is not None)
    blocks = [list(some) for drawn, some in groups if drawn]
    written = [block for block in blocks if any(row.strip("_") for row in block)]
    if not written:
        return None
    width = max(map(len, written[-1]))
    rows = [row.ljust(width, "_") for row in written[-1]]
    filled = [i for i, row in enumerate(rows) if row.strip("_")]
    rows = rows[filled[0] : filled[-1] + 1]
    left = min(len(row) - len(row.lstrip("_")) for row in rows)
    end = max(len(row.rstrip("_")) for row in rows)
    return "\n".join(row[left:end] for row in rows)

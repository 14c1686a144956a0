r"""What a prediction says: the number in a text, or the canvas.

A number is read from a text like this:

1. LaTeX: the inside of the last ``\boxed{…}``, if there is one, is all that counts; ``\times`` and
   ``\cdot`` are signs; ``$``, ``\(``, ``\)``, ``\[``, ``\]``, the names of fonts with their braces
   (``\text{…}``, ``\mathbf{…}``), raised and lowered digits and asterisks of bold print are left
   out; ``{,}`` is a comma, ``\!`` nothing, and ``\,``, ``\;``, ``\:`` and ``~`` are thin spaces.
2. If the word *answer* is in it and a number follows, only what follows the last such word counts.
3. The last whole number counts. Thousands may be grouped by one separator throughout, a comma, an
   underscore, an apostrophe or a space: ``1,234,567``, ``1_234``, ``1 234``; or by points, if there
   are two or more: ``1.234.567``. Digits may be those of any script. A decimal part of
   zeros (``.0``, ``,00``) is left out; other decimal numbers and powers of ten (``1.2e6``) are not
   whole. A minus that touches the number, and no digit before it, belongs to it. Zeros in front do
   not count. Of a text of more than 20,000 characters the end counts.

A canvas is the last block of lines that hold nothing but its symbols (a text may surround it, also
the fences of Markdown). Spaces and ``·`` are blank cells, ``×`` and ``x`` the sign of a product.
Blank rows and columns around the worked solution do not count.

Strictly, a prediction has to be the right answer's text to the letter.
"""

import re
import unicodedata
from itertools import accumulate

_FONTS = re.compile(r"\\(?:text|mathrm|mathbf|mathsf|mathtt|mathit|textbf|boldsymbol)\b")
_THIN = re.compile(r"\\(?:[,;: ]|thinspace\b ?)|~")
_RAISED = re.compile("[²³¹⁰⁴-⁹₀-₉]")
_BETWEEN = re.compile(r"(?<=\d)(?:\$|\*\*)(?=\d)|(?<=\})(?=\{)")  # what parts two numbers
_LEFT_OUT = ("$", "\\(", "\\)", "\\[", "\\]", "**", "__", "{", "}")  # one after the other
_ANSWER = re.compile(r"\banswers?\b", re.IGNORECASE)
_NUMBER = re.compile(
    r"""
    (?: (?<![\d.]) | (?<=[^\W\d]\.) | (?<=\.\.) )  # not within a number, nor behind its point
    (?P<minus> (?<!\d) [-−] )?
    (?P<digits>
        \d{1,3} (?P<by> [,_'’ ] ) \d{3} (?: (?P=by) \d{3} )*+ (?! (?P=by)? \d )
        | \d{1,3} (?: \. \d{3} ){2,} (?! \.? \d )
        | \d+
    )
    (?P<decimals> \.\d+ | ,00(?!\d) )?
    (?P<power> [eE][+-]?\d+ )?
    """,
    re.VERBOSE,
)
_LONGEST = 20_000  # characters in which a number is looked for: the time grows with their square
_CANVAS = re.compile(r"[0-9_*+]+")
_DRAWN = str.maketrans({" ": "_", "·": "_", "×": "*", "x": "*"})


def read_number(text: str) -> str | None:
    """The number that a text says, in digits, with a minus if it is negative; None: none.

    >>> read_number("12 x 34: the answer is **408**.")
    '408'
    """
    if "\\boxed" in text:
        text = _boxed(text) or text
    text = text.replace("\\times", "×").replace("\\cdot", "×").replace("{,}", ",")
    text = _THIN.sub(" ", _FONTS.sub(" ", text.replace("\\!", "").replace("٬", ",")))
    text = _BETWEEN.sub(" ", _RAISED.sub("", text))
    for left_out in _LEFT_OUT:
        text = text.replace(left_out, "")
    # Line ends and tabs stay: they separate numbers. Other blanks (no-break, thin) become spaces.
    text = unicodedata.normalize("NFKC", text)
    text = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in text)
    return _last(_ANSWER.split(text)[-1]) or _last(text)


def _boxed(text: str) -> str | None:
    r"""The inside of the last \boxed{…}; None where its brace is never closed."""
    after = text[text.rindex("\\boxed") :].partition("{")[2]
    depths = accumulate(({"{": 1, "}": -1}.get(c, 0) for c in after), initial=1)
    end = next((place for place, depth in enumerate(depths) if not depth), None)
    return None if end is None else after[: end - 1]


def _last(text: str) -> str | None:
    """The last whole number of a plain text."""
    found = None
    for match in _NUMBER.finditer(text[-_LONGEST:]):
        if match["power"] or (match["decimals"] or ".0").strip(".,0"):
            continue
        digits = re.sub(r"\D", "", match["digits"]).lstrip("0") or "0"
        found = f"-{digits}" if match["minus"] and digits != "0" else digits
    return found


def read_canvas(text: str) -> str | None:
    """The canvas in a text, cut to what is written on it; None where there is none."""
    block: list[str] = []
    last: list[str] = []
    for line in [*text.replace("\r", "").split("\n"), ""]:
        drawn = line.translate(_DRAWN)
        if _CANVAS.fullmatch(drawn):
            block.append(drawn)
            continue
        if any(row.strip("_") for row in block):
            last = block
        block = []
    return _cut(last) if last else None


def _cut(rows: list[str]) -> str:
    """Rows of a canvas, not all blank, without blank ones around what is written."""
    width = max(map(len, rows))
    rows = [row.ljust(width, "_") for row in rows]
    filled = [i for i, row in enumerate(rows) if row.strip("_")]
    rows = rows[filled[0] : filled[-1] + 1]
    left = min(len(row) - len(row.lstrip("_")) for row in rows)
    end = max(len(row.rstrip("_")) for row in rows)
    return "\n".join(row[left:end] for row in rows)


def read_answer(text: str, canvas: bool = False, strict: bool = False) -> str | None:
    """What a prediction says, in the form in which `is_right` compares it; None: nothing.

    Args:
        text: the prediction.
        canvas: whether a canvas is asked for, or a number.
        strict: take the text as it is.
    """
    return text if strict else read_canvas(text) if canvas else read_number(text)


def is_right(said: str | None, answer: str, canvas: bool = False, strict: bool = False) -> bool:
    """Whether what `read_answer` has found is the right answer of the suite."""
    return said is not None and said == (
        _cut(answer.split("\n")) if canvas and not strict else answer
    )

r"""What a prediction says: the number in a text, or the canvas.

docs/benchmark.md has the rule by which a number is read, and a table of examples, which are tests.

A canvas is the last block of lines that hold nothing but its symbols (a text may surround it, also
the fences of Markdown). Spaces and ``·`` are blank cells, ``×`` and ``x`` the sign of a product.
Blank rows and columns around what is written do not count.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby

_FONTS = re.compile(r"\\(?:text|mathrm|mathbf|mathsf|mathtt|mathit|textbf|boldsymbol)\b")
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_THIN = re.compile(r"\\(?:[,;: ]|thinspace\b ?)|(?<=\d)~(?=\d{3}(?!\d))")
_SIGNS = {
    r"\\(?:times|cdot)\b": "×",
    r"\\(?:approx|sim)\b": "≈",
    r"\\(?:neq?)\b": "≠",
    r"\\(?:leq?|geq?|lt|gt)\b": "<",
    r"\\%": "%",
}
_RAISED = re.compile("[²³¹⁰⁴-⁹₀-₉]")
_BETWEEN = re.compile(r"(?<=\d)(?:\$|\*\*)(?=\d)|(?<=\})(?=\{)")  # what parts two numbers
_LEFT_OUT = ("$", "\\(", "\\)", "\\[", "\\]", "**", "__", "{", "}")  # one after the other
_NUMBER = re.compile(
    r"""
    (?: (?<![\d.]) | (?<=[^\W\d]\.) | (?<=\.\.) )  # not within a number, nor behind its point
    (?P<minus> (?<!\d) [-−] )?
    (?P<digits>
        \d{1,3} (?P<by> [,_'’ ] ) \d{3} (?: (?P=by) \d{3} )*+ (?! (?P=by)? \d )
        | \d{1,3} (?: \. \d{3} ){2,} (?! \.? \d )
        | \d{1,3} (?: \. \d{3} )+ (?= ,00 (?!\d) )
        | \d+
    )
    (?P<decimals> \.\d+ | ,00(?!\d) )?
    (?P<power> [eE][+-]?\d+ )?
    """,
    re.VERBOSE,
)
# What makes of the number that it touches another one: a relation, a unit of scale, a fraction, ...
_BEFORE = re.compile(
    r"(?: [~≈≠<>≤≥±/⁄] | != | \b(?:not|about|around|over|under|nearly|roughly|approximately) )\s*\Z"
    r"| (?: [^\W\d_x] | (?<![\d\s])x | \d[,_'’] )\Z",
    re.VERBOSE | re.IGNORECASE,
)
_AFTER = re.compile(
    r"\s*(?: [%‰] | [/⁄]\s*\d | per\ ?cent\b | (?:hundred|thousand|dozens?)\b"
    r"| (?:m|b|tr|quadr)illions?\b ) | [,_'’]\d | -?(?!x\s*\d)[^\W\d_]",
    re.VERBOSE | re.IGNORECASE,
)
_WORKED = re.compile(r"\d\s*[-+*×·x−]\s*\d", re.IGNORECASE)  # two numbers and what to do with them
_STATEMENTS = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE | re.DOTALL)
    for pattern in (
        r"<answer>(.*?)</answer>",
        r"^[ \t]*####([^\n]*)",
        r"\banswers?\b[^.!?\n]{0,999}?(?:\b(?:is|are|equals)\b|[:=])((?:[^.!?\n]|\.(?=\d))*)",
    )
)
_LONGEST = 20_000  # characters in which a number is looked for: the time grows with their square
_CANVAS = re.compile(r"[0-9_*+]+")
_DRAWN = str.maketrans({" ": "_", "·": "_", "×": "*", "x": "*"})


def read_number(text: str) -> str | None:
    """The number that a text says, in digits, with a minus if it is negative; None: none.

    >>> read_number("12 x 34: the answer is **408**. I used 3 steps.")
    '408'
    """
    if len(text) <= _LONGEST and text.isascii() and text.isdigit():  # as most predictions are
        return text.lstrip("0") or "0"
    text = text[-4 * _LONGEST :]
    plain = _plain(text)[-_LONGEST:]
    claims = [_plain(inside) for inside in _boxed(text)]
    claims += [claim for pattern in _STATEMENTS for claim in pattern.findall(plain)]
    stated = {_claimed(claim) for claim in claims if re.search(r"\d", claim)}
    if stated:
        return stated.pop() if len(stated) == 1 else None
    equations = [line for line in plain.splitlines() if _WORKED.search(line) and "=" in line]
    if equations and (found := _claimed(equations[-1])) is not None:
        return found
    numbers = list(_numbers(plain))
    return numbers[-1] if numbers else None


def _claimed(claim: str) -> str | None:
    """The number that a sentence or an equation says is the result; None: none, or no whole one."""
    sides = [side for side in claim.split("=") if re.search(r"\d", side)]
    results = [side for side in sides if not _WORKED.search(side)] if len(sides) > 1 else sides
    if not results:
        return None
    last = results[-1] is sides[-1]  # 12 * 34 = 408, and what follows
    return next(_numbers(results[-1 if last else 0]), None)


def _numbers(text: str) -> Iterator[str | None]:
    """The numbers of a plain text; None for one that is not whole."""
    for match in _NUMBER.finditer(text):
        before, after = text[max(0, match.start() - 20) : match.start()], text[match.end() :]
        yield None if _BEFORE.search(before) or _AFTER.match(after) else _digits(match)


def _digits(match: re.Match[str]) -> str | None:
    if match["power"] or (match["decimals"] or ".0").strip(".,0"):
        return None
    digits = re.sub(r"\D", "", match["digits"]).lstrip("0") or "0"
    return f"-{digits}" if match["minus"] and digits != "0" else digits


def _plain(text: str) -> str:
    """A text without LaTeX and bold print, every blank a space, all digits ASCII."""
    for pattern, sign in _SIGNS.items():
        text = re.sub(pattern, sign, text)
    text = _FRACTION.sub(r"\1/\2", text.replace("\\boxed", " ")).replace("{,}", ",")
    text = _THIN.sub(" ", _FONTS.sub(" ", text.replace("\\!", "").replace("٬", ",")))
    text = _BETWEEN.sub(" ", _RAISED.sub("", text))
    for left_out in _LEFT_OUT:
        text = text.replace(left_out, "")
    # Line ends and tabs stay: they separate numbers. Other blanks (no-break, thin) become spaces.
    text = unicodedata.normalize("NFKC", text)
    return "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in text)


def _boxed(text: str) -> Iterator[str]:
    r"""The inside of every \boxed{…} that is closed and in no other."""
    inside = 0
    braces: list[int] = []  # of each open brace: where the inside of its box begins, 0 for none
    for match in re.finditer(r"\\f?boxed\s*\{|[{}]", text):
        if match[0] != "}":
            braces.append(0 if match[0] == "{" or inside else match.end())
            inside = inside or braces[-1]
        elif braces and (start := braces.pop()):
            inside = 0
            yield text[start : match.start()]


def read_canvas(text: str) -> str | None:
    """The canvas in a text, cut to what is written on it; None where there is none."""
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


def read_answer(text: str | None, canvas: bool = False) -> str | None:
    """The canvas that a prediction says, or the number; None: nothing."""
    if text is None:
        return None
    return read_canvas(text) if canvas else read_number(text)


def is_right(said: str | None, answer: str, canvas: bool = False) -> bool:
    """Whether what `read_answer` has found is the right answer of the suite."""
    return said is not None and said == (read_canvas(answer) if canvas else answer)

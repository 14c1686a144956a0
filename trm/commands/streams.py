"""Standard streams: closed ones, and encodings that lack some of our characters.

A service, `pythonw` or a shell's ``2>&-`` starts a process without some of its streams. They are
opened, so that nothing else gets their numbers: input is empty, and output goes nowhere.

A pipe or a file takes the encoding of the locale, which may be ASCII or cp1252. Characters that it
lacks are written as similar ones, like x for ×, or as escapes. Nothing fails because of them.
"""

import codecs
import io
import os
import sys
import unicodedata

_SIMILAR = {
    "×": "x",
    "·": ".",
    "−": "-",
    "–": "-",
    "’": "'",
    "…": "...",
    "→": "->",
    "↑": "^",
    "►": ">",
    "■": "#",
    "✓": "ok",
    "✗": "!",
}
_HANDLER = "trm.similar"


def open_closed_streams() -> None:
    """Open standard input, output and error on the null device where they are closed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def write_similar_characters() -> None:
    """Let standard output and error write similar characters instead of failing."""
    codecs.register_error(_HANDLER, _similar)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def _similar(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(map(_replacement, text)), error.end


def _replacement(character: str) -> str:
    if character in _SIMILAR:
        return _SIMILAR[character]
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return plain or character.encode("ascii", "backslashreplace").decode()

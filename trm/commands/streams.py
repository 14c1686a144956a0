"""Standard output and error in encodings that lack some of our characters.

A pipe or a file takes the encoding of the locale, which may be ASCII or cp1252. Characters that it
lacks are written as similar ones, like x for ×, or as escapes. Nothing fails because of them.
"""

import codecs
import io
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

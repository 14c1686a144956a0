"""The one vocabulary: every symbol that a canvas or a sequence can hold, and its id."""

import numpy as np

PAD = 0
DIGIT_ZERO = 1  # and the digits up to 9; the rest are `DIGIT_IDS`
BLANK = 11
TIMES = 12
MASK = 13
ROW_END = 14
START = 15
END = 16
PLUS = 17

CHARACTERS = "~0123456789_*.#^$+ABCDEF"  # the character of id i is CHARACTERS[i]
VOCAB_SIZE = 18  # of what bases up to 10 need, which is the usual vocabulary of a model
DIGIT_CHARACTERS = "0123456789ABCDEF"

_CODES = np.frombuffer(CHARACTERS.encode("ascii"), dtype=np.uint8)
_IDS = np.full(256, 255, dtype=np.uint8)
_IDS[_CODES] = np.arange(len(CHARACTERS), dtype=np.uint8)
DIGIT_IDS = _IDS[np.frombuffer(DIGIT_CHARACTERS.encode("ascii"), dtype=np.uint8)]  # of digit d
DIGIT_OF = np.full(256, -1, dtype=np.int16)  # the digit that an id stands for, -1: none
DIGIT_OF[DIGIT_IDS] = np.arange(len(DIGIT_IDS), dtype=np.int16)


def vocab_size(base: int) -> int:
    """Return the number of ids that a model needs for numbers in a base."""
    return VOCAB_SIZE if base <= 10 else len(CHARACTERS)


def encode(text: str) -> np.ndarray:
    """Ids of a text's characters, ``uint8 [len(text)]``; ValueError if one is no symbol."""
    ids = _IDS[np.frombuffer(text.encode("latin-1", "replace"), dtype=np.uint8)]
    unknown = np.flatnonzero(ids == 255)
    if unknown.size:
        raise ValueError(
            f"{text[unknown[0]]!r} is not a canvas symbol; the symbols are {' '.join(CHARACTERS)}"
        )
    return ids


def decode(ids: np.ndarray) -> str:
    """Text of a one-dimensional array of ids."""
    return _CODES[ids].tobytes().decode("ascii")

"""The one vocabulary: every symbol that a canvas or a sequence can hold, and its id."""

import numpy as np

PAD = 0
DIGIT_ZERO = 1  # digit d has the id DIGIT_ZERO + d
BLANK = 11
TIMES = 12
MASK = 13
ROW_END = 14
START = 15
END = 16
PLUS = 17

CHARACTERS = "~0123456789_*.#^$+"  # the character of id i is CHARACTERS[i]
VOCAB_SIZE = len(CHARACTERS)

_CODES = np.frombuffer(CHARACTERS.encode("ascii"), dtype=np.uint8)
_IDS = np.full(256, 255, dtype=np.uint8)
_IDS[_CODES] = np.arange(VOCAB_SIZE, dtype=np.uint8)


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
    """Text of a one-dimensional array of ids; ValueError if one is outside the vocabulary."""
    ids = np.asarray(ids)
    if ids.size and (ids.min() < 0 or ids.max() >= VOCAB_SIZE):
        raise ValueError(f"symbol ids lie in 0..{VOCAB_SIZE - 1}, got {ids.min()}..{ids.max()}")
    return _CODES[ids].tobytes().decode("ascii")

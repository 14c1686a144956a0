"""The one vocabulary: every symbol that a canvas or a sequence can hold, and its id."""

from string import ascii_lowercase

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
# The same of all ids; those after `CHARACTERS` are for tasks on texts, and markers of index hints.
ALL_CHARACTERS = f"{CHARACTERS}{ascii_lowercase}()[]{{}}<>GHIJKLMNOPQRSTUVWXYZ-=/|:;,?!&%@"
MARKER_CHARACTERS = f"{ascii_lowercase}GHIJKLMNOPQRSTUVWXYZ"  # in the order of places
VOCAB_SIZE = 18  # of what bases up to 10 need, which is the usual vocabulary of a model
DIGIT_CHARACTERS = "0123456789ABCDEF"

_CODES = np.frombuffer(ALL_CHARACTERS.encode("ascii"), dtype=np.uint8)
_IDS = np.full(256, 255, dtype=np.uint8)
_IDS[_CODES] = np.arange(len(_CODES), dtype=np.uint8)
DIGIT_IDS = _IDS[np.frombuffer(DIGIT_CHARACTERS.encode("ascii"), dtype=np.uint8)]  # of digit d
DIGIT_OF = np.full(256, -1, dtype=np.int16)  # the digit that an id stands for, -1: none
DIGIT_OF[DIGIT_IDS] = np.arange(len(DIGIT_IDS), dtype=np.int16)
# Ids of the markers of places, in order.
MARKERS = _IDS[np.frombuffer(MARKER_CHARACTERS.encode("ascii"), dtype=np.uint8)]
# Signs that are beyond the usual vocabulary.
MINUS, DIVIDED, MODULO = (int(_IDS[ord(character)]) for character in "-/%")


class Alphabet(int):
    """Base of texts. A text is the number whose digits, from 1 up, stand for its characters.

    The base is 1 more than the number of characters, so every text is one number and no number has
    a leading zero. Digit 0 is in no text.

    Example: in ``Alphabet("abc")``, which is 4, ``cab`` has the digits 3, 1, 2.
    """

    letters: int  # digits from 1 to this one occur in problems; all others in answers alone
    characters: str  # of the digits; the first one is that of a blank cell

    def __new__(cls, letters: str, outputs: str = "") -> "Alphabet":
        """Return the alphabet of problems and of answers.

        Args:
            letters: characters of problems.
            outputs: characters of answers; those among ``letters`` count once.

        Raises:
            ValueError: a character is no symbol of texts, or there are no letters.
        """
        characters = "".join(dict.fromkeys(letters + outputs))
        known = "".join(c for c in ALL_CHARACTERS if c.isalnum() or c not in CHARACTERS)
        unknown = [c for c in characters if c not in known]
        if unknown or not letters:
            what = f"{unknown[0]!r} is no symbol of texts" if unknown else "an alphabet is empty"
            raise ValueError(f"{what}; the symbols of texts are {' '.join(known)}")
        alphabet = super().__new__(cls, len(characters) + 1)
        alphabet.letters = len(dict.fromkeys(letters))
        alphabet.characters = CHARACTERS[BLANK] + characters
        return alphabet

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        split = 1 + self.letters
        return self.characters[1:split], self.characters[split:]

    def __str__(self) -> str:
        return "".join(self.__getnewargs__())

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


def ids_of(base: int) -> np.ndarray:
    """Return the id of each digit of a base, uint8 [base]."""
    return encode(base.characters) if isinstance(base, Alphabet) else DIGIT_IDS[:base]


def digits_of(base: int) -> np.ndarray:
    """Return the digit that each id stands for in a base, int16 [256]; -1: none."""
    if not isinstance(base, Alphabet):
        return DIGIT_OF
    digits = np.full(256, -1, dtype=np.int16)
    digits[ids_of(base)[1:]] = np.arange(1, base, dtype=np.int16)
    return digits


def vocab_size(base: int, index_hints: bool = False) -> int:
    """Return the number of ids that a model needs for numbers, or texts, in a base."""
    if index_hints:
        return int(MARKERS.max()) + 1
    if isinstance(base, Alphabet):
        return max(VOCAB_SIZE, int(ids_of(base).max()) + 1)
    return VOCAB_SIZE if base <= 10 else len(CHARACTERS)


def encode(text: str) -> np.ndarray:
    """Ids of a text's characters, ``uint8 [len(text)]``; ValueError if one is no symbol."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    ids = _IDS[np.minimum(codes, 255)]  # which is no symbol
    unknown = np.flatnonzero(ids == 255)
    if unknown.size:
        raise ValueError(
            f"{text[unknown[0]]!r} is not a canvas symbol; the symbols are "
            f"{' '.join(ALL_CHARACTERS)}"
        )
    return ids


def decode(ids: np.ndarray) -> str:
    """Text of a one-dimensional array of ids."""
    return _CODES[ids].tobytes().decode("ascii")

import numpy as np

from canvas import symbols


def test_ids_are_the_same_in_every_release():
    ids = dict(zip(symbols.CHARACTERS, range(len(symbols.CHARACTERS)), strict=True))
    digits = {str(digit): digit + 1 for digit in range(10)}
    others = {"~": 0, "_": 11, "*": 12, ".": 13, "#": 14, "^": 15, "$": 16, "+": 17}
    letters = dict(zip("ABCDEF", range(18, 24), strict=True))
    assert ids == digits | others | letters
    assert symbols.decode(symbols.DIGIT_IDS) == symbols.DIGIT_CHARACTERS
    assert (symbols.DIGIT_OF[symbols.DIGIT_IDS] == np.arange(16)).all()
    assert symbols.DIGIT_OF[symbols.BLANK] == -1
    assert (symbols.vocab_size(10), symbols.vocab_size(16)) == (18, 24)
    named = (symbols.PAD, symbols.BLANK, symbols.TIMES, symbols.MASK, symbols.ROW_END)
    assert (*named, symbols.START, symbols.END, symbols.PLUS) == tuple(others.values())


def test_text_survives_the_way_to_ids_and_back():
    assert symbols.decode(symbols.encode(symbols.CHARACTERS)) == symbols.CHARACTERS
    assert symbols.encode("").shape == (0,)
    assert symbols.decode(np.array([], dtype=np.uint8)) == ""

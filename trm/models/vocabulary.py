"""What models know of the symbols: how many there are, and which mean a digit, a blank and a
masked cell.

These are defaults; a model's config has its own. And the name of the one hint that a model may find
in a page as a whole.
"""

from canvas.hints import ORIENTATION
from canvas.symbols import BLANK, DIGIT_ZERO, MASK, VOCAB_SIZE

__all__ = ["BLANK", "DIGIT_ZERO", "MASK", "ORIENTATION", "VOCAB_SIZE"]

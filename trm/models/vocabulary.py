"""What models know of the symbols: how many there are, and which mean a blank and a masked cell.

These are defaults; a model's config has its own. And the name of the one hint that a model may find
in a page as a whole.
"""

from canvas.hints import ORIENTATION
from canvas.symbols import BLANK, MASK, VOCAB_SIZE

__all__ = ["BLANK", "MASK", "ORIENTATION", "VOCAB_SIZE"]

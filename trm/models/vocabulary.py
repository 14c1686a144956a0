"""What models know of the symbols: how many there are, and which mean a blank and a masked cell.

These are defaults; a model's config has its own.
"""

from canvas.symbols import BLANK, MASK, VOCAB_SIZE

__all__ = ["BLANK", "MASK", "VOCAB_SIZE"]

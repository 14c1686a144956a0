"""How a canvas can be turned, flipped and moved, and moved back."""

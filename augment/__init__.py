"""Turn, flip and move a canvas, and undo it."""

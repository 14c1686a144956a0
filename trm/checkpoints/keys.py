"""Where a Lightning checkpoint says what it holds."""

CHECKPOINT_KEY = "trm"  # which model the weights belong to, and how it solves
FORMAT = 1  # of that entry
RECURSIVE, GPT = "recursive", "gpt"  # its families
DATA_KEY = "CanvasDataModule"  # the data module's own state, see it

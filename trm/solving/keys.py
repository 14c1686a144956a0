"""Where a Lightning checkpoint says what it holds."""

CHECKPOINT_KEY = "trm"  # which model the weights belong to
FAMILY, FORMAT = "recursive", 1  # of that entry
DATA_KEY = "CanvasDataModule"  # the data module's own state: task and canvas

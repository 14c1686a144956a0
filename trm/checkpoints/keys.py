"""Where a Lightning checkpoint says what it holds."""

CHECKPOINT_KEY = "trm"  # which model the weights belong to, and how it solves
FORMAT = 2  # of that entry
ITERATIVE, GPT = "iterative", "gpt"  # its families
COST_KEY = "cost"  # what training has taken: see `trm.training.cost`
DATA_KEY = "CanvasDataModule"  # the data module's own state, see it

"""Files that hold models: where they lie, what they may hold, and how they are read."""

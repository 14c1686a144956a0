"""Programs in RASP: what a transformer should compute, and which heads attend as they select."""

"""Local rules of layouts, one file for each layout."""

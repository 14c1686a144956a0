"""What a worked multiplication looks like: numbers, layouts, canvases, problems, pictures."""

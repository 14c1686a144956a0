"""A benchmark that any model can take: fixed suites of problems, their files, and scores."""

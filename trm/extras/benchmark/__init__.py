"""Benchmark for any model: fixed suites of problems, their files, and scores."""

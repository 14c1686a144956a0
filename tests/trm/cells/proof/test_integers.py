"""Integer models are fine-tuned no longer than their decisions need."""

from types import SimpleNamespace

import torch

from trm.cells.proof import integers
from trm.cells.quantise import differing


def test_integers_are_fine_tuned_longer_if_some_decisions_differ(binary, monkeypatch):
    tried = []

    def refined(*args, steps, rate):
        tried.append(steps)
        return real(*args, steps=steps, rate=rate)

    real = integers.refined
    monkeypatch.setattr(integers, "refined", refined)
    monkeypatch.setattr(integers, "TUNING", ((1, 1e-9), (60, 0.002), (70, 0.002)))
    solver = SimpleNamespace(predictor=SimpleNamespace(model=binary.model), task=binary.task)
    found, differ, number = integers.in_integers(solver, 4)
    assert tried == [1, 60]
    assert (differ, number) == (0, 184)
    assert differing(binary.model, found, torch.from_numpy(binary.comparison.numbers)) == 0
    # Nothing is gained where a second time is worse.
    tried.clear()
    monkeypatch.setattr(integers, "TUNING", ((1, 1e-9), (3, 0.5)))
    _, differ, _ = integers.in_integers(solver, 4)
    assert (tried, differ) == ([1, 3], 4)

"""Tiny models that are proved: trained on all windows of a base with few of them."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from canvas.addition import Addition
from canvas.multiplication import Multiplication
from canvas.task import Task
from canvas.windows import SYMBOL, LocalRule, closure
from trm.models.configs import LocalConfig
from trm.models.local import LocalRecursiveModel
from trm.proof.prove import Judged, judge


@dataclass(frozen=True)
class Trained:
    """A model that is right on all windows, and what it was judged by."""

    task: Task
    rule: LocalRule
    model: LocalRecursiveModel
    judged: Judged


def trained(task: Task, steps: int = 250, **size: int) -> Trained:
    assert task.rules.local_rule is not None
    rule = task.rules.local_rule(task.base)
    messages = {
        way: {name: rule.fields[name] for name in names} for way, names in rule.messages.items()
    }
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_heads": 4, "intermediate_size": 64} | size
    model = LocalRecursiveModel(LocalConfig(messages=messages, **shape))
    numbers = closure(rule)
    windows = rule.windows(numbers)
    labels = {name: torch.from_numpy(label) for name, label in rule.apply(windows).items()}
    labels[SYMBOL][torch.from_numpy(~rule.asks(windows))] = -100
    tokens, codes = torch.from_numpy(windows.token), torch.from_numpy(np.stack(windows[1:], 1))
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = 0.01 * (1 - step / steps)
        parts = model.parts(model.cells(tokens, codes)[0])
        loss = sum(F.cross_entropy(parts[name], labels[name]) for name in parts)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return Trained(task, rule, model.eval(), judge(model.eval(), rule, numbers))


@pytest.fixture(scope="session")
def binary() -> Trained:
    return trained(Multiplication(base=2, layout="lattice", digits_a=(1, 4), digits_b=(1, 4)))


@pytest.fixture(scope="session")
def ternary() -> Trained:
    """With cycles: H 2, L 1."""
    task = Multiplication(base=3, layout="lattice", digits_a=(1, 3), digits_b=(1, 3))
    return trained(task, H_cycles=2)


@pytest.fixture(scope="session")
def sums() -> Trained:
    return trained(Addition(base=3, layout="column", digits=(1, 3), addends=(2, 3)))

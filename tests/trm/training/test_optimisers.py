import math

import pytest
import torch
from torch import nn

from trm.training import optimisers
from trm.training.configs import OPTIMIZERS, OptimizerConfig, ScheduleConfig
from trm.training.optimisers import build_optimizer, learning_rate_factor, split_parameters


class TinyModel(nn.Module):
    """One of everything that a canvas model holds, and no more."""

    def __init__(self, width=8):
        super().__init__()
        self.embed_tokens = nn.Embedding(5, width)
        self.position = nn.ModuleDict({"mix": nn.Linear(width, width)})
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"up": nn.Linear(width, 3 * width), "down": nn.Linear(3 * width, width)})
            for _ in range(2)
        )
        self.norm = nn.LayerNorm(width)
        self.start = nn.Parameter(torch.zeros(width, width))
        self.lm_head = nn.Linear(width, 5, bias=False)
        self.halt_head = nn.Linear(width, 1)

    def forward(self, ids):
        x = self.position["mix"](self.embed_tokens(ids)) + self.start[0]
        for block in self.blocks:
            x = x + block["down"](torch.relu(block["up"](x)))
        x = self.norm(x)
        return self.lm_head(x), self.halt_head(x).squeeze(-1)


def tiny_model(seed=0):
    torch.manual_seed(seed)
    return TinyModel()


def loss_of(model):
    """Regression of the next symbol, cyclically, and of whether it is even."""
    ids = torch.arange(5)
    logits, halt = model(ids)
    return nn.functional.cross_entropy(logits, (ids + 1) % 5) + (halt - ids % 2).square().mean()


def names_of(model, params):
    names = {p: name for name, p in model.named_parameters()}
    return {names[p] for p in params}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_resumed_optimiser_takes_the_settings_of_its_config(name):
    model = tiny_model()
    before = build_optimizer(model, OptimizerConfig(name=name))
    schedule = optimisers.Schedule(before, ScheduleConfig(decay="linear"), 4)
    for _ in range(4):  # to rate 0
        before.zero_grad()
        loss_of(model).backward()
        before.step()
        schedule.step()
    others = {"lr": 0.5, "weight_decay": 0.25, "matrix_lr": 0.75, "matrix_weight_decay": 0.125}
    config = OptimizerConfig(name=name, betas=(0.5, 0.75), **others)
    after = build_optimizer(model, config)
    schedule = optimisers.Schedule(after, ScheduleConfig(decay="linear"), 8)
    after.load_state_dict(before.state_dict())
    schedule.load_state_dict({"last_epoch": 4, "base_lrs": [9.0] * 3, "lr_lambdas": [None] * 3})
    groups = {group["name"]: group for group in after.param_groups}
    for group, (lr, decay) in {
        "decayed": (0.5, 0.25),
        "rest": (0.5, 0.0),
        **({"matrices": (0.75, 0.125)} if name == "muon" else {}),
    }.items():
        assert (groups[group]["lr"], groups[group]["weight_decay"]) == (lr / 2, decay)
    assert schedule.get_last_lr() == [group["lr"] for group in after.param_groups]
    held = zip(before.state.values(), after.state.values(), strict=True)
    for one, other in ((a[key], b[key]) for a, b in held for key in a):
        torch.testing.assert_close(one, other)
    other = OptimizerConfig(name="adamw" if name == "muon" else "muon")
    with pytest.raises(ValueError, match=rf"of another optimizer than {other.name}"):
        build_optimizer(model, other).load_state_dict(before.state_dict())


def test_adam_atan2_follows_the_written_formula():
    torch.manual_seed(0)
    lr, beta1, beta2, decay = 0.03, 0.8, 0.9, 0.2
    p = nn.Parameter(torch.randn(3, 4, dtype=torch.float64))
    settings = {"lr": lr, "betas": (beta1, beta2), "weight_decay": decay}
    optimizer = optimisers.AdamATan2([{"params": [p], **settings}])
    expected, m, v = p.detach().clone(), torch.zeros_like(p), torch.zeros_like(p)
    for t in range(1, 8):
        g = torch.randn_like(p)
        p.grad = g.clone()
        optimizer.step()
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
        expected = expected * (1 - lr * decay) - lr * 1.27 * torch.atan2(m_hat, v_hat.sqrt())
        torch.testing.assert_close(p.detach(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch.optim.Muon came with torch 2.9")
def test_matrices_move_as_under_torch_muon():
    torch.manual_seed(0)
    shapes = [(16, 16), (48, 16), (16, 64), (16, 16)]
    ours = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    theirs = [nn.Parameter(p.detach().clone()) for p in ours]
    start = [p.detach().clone() for p in ours]
    settings = {"name": "matrices", "lr": 0.02, "weight_decay": 0.1}
    composite = optimisers.MuonWithAdamW([{"params": ours, **settings}])
    muon = torch.optim.Muon(theirs, lr=0.02, weight_decay=0.1)
    for _ in range(4):
        for p, q in zip(ours, theirs, strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        composite.step()
        muon.step()
    for p, q, before in zip(ours, theirs, start, strict=True):
        assert (p - q).norm() < 0.02 * (q - before).norm()  # torch iterates in bfloat16


def test_the_rest_moves_exactly_as_under_torch_adamw():
    model, twin = tiny_model(), tiny_model()
    config = OptimizerConfig(name="muon", weight_decay=0.3)
    composite = build_optimizer(model, config)
    parts = split_parameters(twin)
    groups = [{"params": parts["heads"], "weight_decay": 0.3}, {"params": parts["rest"]}]
    adamw = torch.optim.AdamW(groups, config.lr, config.betas, weight_decay=0.0)
    for _ in range(4):
        composite.zero_grad()
        loss_of(model).backward()
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            q.grad = p.grad.clone()
        composite.step()
        adamw.step()
    mine, theirs = dict(model.named_parameters()), dict(twin.named_parameters())
    for name in names_of(twin, parts["heads"] + parts["rest"]):
        assert torch.equal(mine[name], theirs[name])
    for name in names_of(twin, parts["matrices"]):
        assert not torch.equal(mine[name], theirs[name])


def test_matrices_decay_and_frozen_weights_are_left_out():
    model = tiny_model()
    parts = {kind: names_of(model, params) for kind, params in split_parameters(model).items()}
    weights = {f"blocks.{i}.{part}.weight" for i in range(2) for part in ("up", "down")}
    assert parts["matrices"] == weights
    assert parts["heads"] == {"lm_head.weight", "halt_head.weight"}
    assert {"embed_tokens.weight", "position.mix.weight", "norm.weight", "start"} <= parts["rest"]
    for name in OPTIMIZERS:
        groups = build_optimizer(model, OptimizerConfig(name=name)).param_groups
        decaying = [p for group in groups if group["weight_decay"] for p in group["params"]]
        assert names_of(model, decaying) == parts["matrices"] | parts["heads"]
    model.lm_head.weight = model.embed_tokens.weight  # tied, it is treated as an embedding
    assert "embed_tokens.weight" in names_of(model, split_parameters(model)["rest"])
    model = tiny_model()
    model.embed_tokens.requires_grad_(False)
    groups = build_optimizer(model, OptimizerConfig()).param_groups
    assert model.embed_tokens.weight not in {p for group in groups for p in group["params"]}
    with pytest.raises(ValueError, match="no trainable parameter"):
        build_optimizer(model.requires_grad_(False), OptimizerConfig())


def test_warmup_rises_in_equal_steps_and_never_starts_at_zero():
    config = ScheduleConfig(warmup_steps=4)
    factors = [learning_rate_factor(step, config, math.inf) for step in range(6)]
    assert factors == [0.25, 0.5, 0.75, 1, 1, 1]
    long = ScheduleConfig(warmup_steps=100, decay="cosine")  # than the run
    assert learning_rate_factor(0, long, total_steps=1) == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("decay", "expected"),
    [
        ("linear", [1.0, 0.775, 0.55, 0.1, 0.1]),
        ("cosine", [1.0, 0.1 + 0.9 * (1 + math.sqrt(0.5)) / 2, 0.55, 0.1, 0.1]),
        ("constant", [1.0] * 5),
    ],
)
def test_decay_runs_from_one_to_min_ratio_at_the_end(decay, expected):
    config = ScheduleConfig(warmup_steps=10, decay=decay, min_ratio=0.1)
    factors = [learning_rate_factor(step, config, 30) for step in (10, 15, 20, 30, 1000)]
    assert factors == pytest.approx(expected)

"""Values at sites are those of the computation, hooks replace them, and nothing stays behind."""

import sys
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from tiny import tiny_gpt, tiny_trm
from torch import Tensor, nn

from canvas.multiplication import Multiplication
from canvas.symbols import BLANK, MASK, START
from trm.cells.configs import CellConfig, rule_settings
from trm.cells.model import CellModel
from trm.models.hooks import Visit, record, sites
from trm.models.iterative import IterativeModel, Loop
from trm.models.recursive import RecursiveState

TASK = Multiplication("standard", base=3, digits_a=(1, 2), digits_b=(1, 2))
PREFIX = {"position": "rope_2d", "num_prefixes": 1, "prefix_length": 3}
NEAREST = {"skip_blank": True, "neighbourhood": "local_farthest", "radius": 1}
FAMILIES = {
    "trm": {"position": "relative_2d"},
    "trm prefix": PREFIX,
    "trm nearest": NEAREST,
    "trm deberta": {"position": "deberta"},
    "gpt": {"position": "rope_2d"},
    "gpt looped": {"position": "deberta", "loops": 3},
    "cell": {},
}


def made(family: str) -> Any:
    kind, how = family.split()[0], FAMILIES[family]
    if kind == "gpt":
        return tiny_gpt(4, 5, num_layers=2, **how)
    if kind == "trm":
        return tiny_trm(num_layers=2, H_cycles=2, L_cycles=3, **how)
    torch.manual_seed(2)
    sizes = {"hidden_size": 16, "num_heads": 2, "intermediate_size": 16, "num_layers": 2}
    cycles = {"H_cycles": 2, "L_cycles": 1}
    model = CellModel(CellConfig(**rule_settings(TASK.local_rule()), **sizes, **cycles)).eval()
    nn.init.normal_(model.lm_head.weight)
    return model


def tokens() -> Tensor:
    """One full canvas, and one with fewer tokens than cells; in both a row is masked."""
    canvases = np.full((2, 4, 5), BLANK, dtype=np.int64)
    canvases[0] = np.random.default_rng(1).integers(1, 4, (4, 5))
    canvases[:, 0, 1:4] = 2, 3, 1
    canvases[:, 2] = MASK
    return torch.from_numpy(canvases)


@torch.no_grad()
def run(model: Any, steps: int = 2) -> tuple[Tensor, ...]:
    if isinstance(model, IterativeModel):
        return model(tokens(), steps=steps)
    ids = torch.cat([torch.full((2, 1), START), tokens().flatten(1)[:, :9]], dim=1)
    return (model(ids, 4, 5),)


def left_behind(model: nn.Module) -> list[Any]:
    """Hooks of modules, and methods that were replaced."""
    found: list[Any] = []
    for part in model.modules():
        found += [*part._forward_hooks, *part._forward_pre_hooks]
        found += [name for name, value in vars(part).items() if callable(value)]
    return found


def equal(one: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def everywhere(model: nn.Module) -> list[str]:
    """Sites whose replacement changes the logits."""
    unread = ("cells", "op_inputs", "halt_logits", "z_L", "messages", "log_right")
    return [name for name in sites(model) if name not in unread]


@pytest.mark.parametrize("family", FAMILIES)
def test_recording_and_hooks_that_return_none_change_nothing(family):
    model, seen = made(family), []
    keys, before, nothing = [*model.state_dict()], run(model), left_behind(model)
    with record(model, hooks=[("*", lambda _, visit: seen.append(visit.site))]) as cache:
        after = run(model)
    assert equal(before, after)
    assert list(cache) == [name for name in sites(model) if name != "z_L" or "trm" in family]
    assert set(seen) == set(cache)
    assert (left_behind(model), [*model.state_dict()]) == (nothing, keys)
    assert equal(before, run(model))
    for visit, value in cache.each():
        text = sites(model)[visit.site].split(" ")[0]
        assert str(value.dtype).removeprefix("torch.").startswith(text), visit
        assert not value.requires_grad


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_times_values_is_the_output_of_the_heads(family):
    model = made(family)
    with record(model, "blocks.1.*") as cache:
        run(model)
    attention = getattr(model.layers[1], "attention" if "gpt" in family else "mixing")
    found = [
        cache.each(f"blocks.1.{name}") for name in ("attention", "values", "heads", "attended")
    ]
    for (_, weights), (_, values), (_, heads), (_, attended) in zip(*found, strict=True):
        if family == "cell":  # [N, heads, directions] and [N, directions, heads, D]
            averaged = torch.einsum("nhd,ndhc->nhc", weights, values)
            joined = averaged.flatten(1)
        else:  # [B, heads, S, S] and [B, heads, S, D]
            averaged = weights @ values
            joined = averaged.transpose(1, 2).flatten(2)
        torch.testing.assert_close(averaged, heads, rtol=1e-4, atol=1e-5)
        total = weights.sum(dim=-1)
        assert ((total - 1).abs().lt(1e-5) | total.eq(0)).all()
        torch.testing.assert_close(attention.out(joined), attended, rtol=1e-4, atol=1e-5)
        assert "gpt" not in family or not weights.triu(1).any()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_hook_replaces_the_value_at_every_site(family):
    model = made(family)
    before = run(model)
    for name in everywhere(model):
        ablated = [(name, lambda value, _: torch.zeros_like(value))]
        if name.endswith("attention"):  # each token attends to the first, and to nothing else
            ablated = [
                (name, lambda value, _: (torch.arange(value.shape[-1]) < 1) * (value * 0 + 1))
            ]
        with record(model, name, hooks=ablated) as cache:
            after = run(model)
        assert not torch.equal(before[0], after[0]), name
        assert name.endswith("attention") or not any(value.any() for _, value in cache.each())
    # The same value, put there, gives the same result; attention up to rounding.
    with record(model, hooks=[("*", lambda value, _: value.clone())]):
        after = run(model)
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_each_visit_is_a_supervision_step_a_cycle_and_a_pass():
    model = made("trm")
    with record(model, ["blocks.*.output", "z_*", "embed", "logits"]) as cache:
        run(model, steps=2)
        run(model, steps=1)
    cycles = [(1, 1), (1, 2), (1, 3), (1, 0), (2, 1), (2, 2), (2, 3), (2, 0)]
    expected = [
        Visit("blocks.1.output", run, step, turn, "z_L" if L else "z_H", H, L)
        for run, step in ((1, 1), (1, 2), (2, 1))
        for turn, (H, L) in enumerate(cycles, start=1)
    ]
    assert cache.visits("blocks.1.output") == expected
    assert cache.visits("embed") == [Visit("embed", 1), Visit("embed", 2)]
    assert cache.visits("z_H") == [Visit("z_H", *at) for at in ((1, 1), (1, 2), (2, 1))]
    assert cache.visits("logits") == [Visit("logits", 1, 2), Visit("logits", 2, 1)]
    last = cache.select("blocks.1.output", run=1, step=2, H=2, L=0)
    assert torch.equal(last, cache.select("z_H", run=1, step=2))
    assert torch.equal(cache.select("blocks.1.output", update="z_L", H=2, L=3), cache["z_L"])
    assert cache["blocks.1.output"].shape == (24, 2, 20, 16)


def test_loops_of_a_gpt_are_steps_also_when_it_writes():
    model = made("gpt looped")
    with record(model, ["blocks.0.input", "norm"]) as cache:
        run(model)
    assert cache.visits("norm") == [Visit("norm", 1, step) for step in (1, 2, 3)]
    assert [visit.step for visit in cache.visits("blocks.0.input")] == [1, 2, 3]
    forced = torch.full((1, 6), -1)
    forced[:, :3] = torch.tensor([START, 2, 1])
    plain = model.generate(forced, 1, 4, end=9)
    with record(model, "blocks.1.attention") as cache:
        assert torch.equal(model.generate(forced, 1, 4, end=9).ids, plain.ids)
    shapes = [(v.run, v.step, tuple(value.shape)) for v, value in cache.each()]
    loops = (1, 2, 3)
    assert shapes[:6] == [
        *((1, loop, (1, 2, 3, 3)) for loop in loops),
        *((2, loop, (1, 2, 1, 4)) for loop in loops),
    ]
    with pytest.raises(ValueError, match=r"different shapes \(\[1, 2, 3, 3\], \[1, 2, 1, 4\]"):
        cache["blocks.1.attention"]


def test_a_cell_model_computes_each_op_input_once():
    model = made("cell")
    with record(model, ["op_inputs", "blocks.0.attention", "symbols"]) as cache:
        loop = Loop(model, tokens())
        loop.advance(3)
    ids = torch.cat([value for _, value in cache.each("op_inputs")])
    assert len(ids.unique()) == len(ids)
    for (visit, some), (first, weights) in zip(
        cache.each("op_inputs"),
        (one for one in cache.each("blocks.0.attention") if one[0].turn == 1),
        strict=True,
    ):
        assert (visit.step, first.H, first.L, len(weights)) == (first.step, 1, 1, len(some))
    assert torch.equal(cache["symbols"][-1], loop.state.symbols)


def test_only_some_visits_are_recorded_and_hooks_choose_theirs():
    model, before = made("trm"), run(made("trm"))
    with record(model, "*.attention", visits=lambda v: v.step == 2 and v.update == "z_H") as cache:
        run(model)
    assert {(v.step, v.L) for v, _ in cache.each()} == {(2, 0)}
    assert len(cache["blocks.0.attention"]) == 2
    late = [("blocks.0.heads", lambda value, visit: value * 0 if visit.step == 3 else None)]
    with record(model, (), hooks=late) as cache:
        assert equal(run(model, steps=2), before)
        assert not equal(run(model, steps=3), run(made("trm"), steps=3))
    assert repr(cache) == "no activations"
    added = [("z_H", lambda value, _: value + 1)] * 2  # one after the other
    with record(model, "z_H", hooks=added, visits=lambda visit: visit.step == 1) as cache:
        run(model, steps=1)
    with record(model, "z_H") as plain:
        run(model, steps=1)
    torch.testing.assert_close(cache["z_H"], plain["z_H"] + 2)
    assert repr(plain) == "z_H: 1 x float32 [2, 20, 16]"


def test_unknown_sites_are_refused_with_the_known_ones():
    model = made("trm")
    with pytest.raises(ValueError, match=r"no site 'blocks.7.*It has: embed"):
        record(model, "blocks.7.attention").__enter__()
    with pytest.raises(ValueError, match=r"has no site 'attn'.*blocks.1.attention"):
        record(model, hooks=[("attn", lambda value, _: value)]).__enter__()
    with record(model, "z_H") as cache:
        run(model)
    with pytest.raises(KeyError, match=r"nothing was recorded at 'z_L', only at: z_H"):
        cache["z_L"]
    with pytest.raises(ValueError, match=r"a visit has no 'stap': select by run, step, turn"):
        cache.select("z_H", stap=1)
    with pytest.raises(ValueError, match=r"no recorded visit of 'z_H' has step=9"):
        cache.select("z_H", step=9)
    with pytest.raises(ValueError, match="those of a network, not of a str"):
        sites("trm-quick-seed0")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hook", "error"),
    [
        (lambda *_: 1 / 0, ZeroDivisionError),
        (lambda value, _: value[:1], ValueError),
        (lambda *_: 3, ValueError),
    ],
)
@pytest.mark.parametrize("family", ["trm", "gpt looped", "cell"])
def test_after_an_error_no_hook_stays(family, hook, error):
    model = made(family)
    before, nothing = run(model), left_behind(model)
    message = r"division|hook at 'blocks.0.attention' returned (int|\[)"
    with pytest.raises(error, match=message), record(model, hooks=[("blocks.0.attention", hook)]):
        run(model)
    assert left_behind(model) == nothing
    assert equal(before, run(model))


def test_recordings_nest_and_compiled_code_runs_uncompiled(monkeypatch):
    model = made("trm")
    entered: list[str] = []
    monkeypatch.setitem(sys.modules, "torch._dynamo", object())

    def set_stance(name: str) -> nullcontext:
        entered.append(name)
        return nullcontext()

    monkeypatch.setattr(torch.compiler, "set_stance", set_stance)
    with record(model, "z_H") as outer, record(model, "z_*") as inner:
        run(model)
    assert torch.equal(outer["z_H"], inner["z_H"])
    assert entered == ["force_eager"] * 2


class Mine(IterativeModel):
    """A convolution; its state is a single tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.update = nn.Embedding(18, 4), nn.Conv2d(4, 4, 3, padding=1)
        self.symbols = nn.Linear(4, 18)

    def encode(self, given: Tensor) -> Tensor:
        return self.embed(given).movedim(-1, 1)

    def initial_state(self, context: Tensor) -> Tensor:
        return torch.zeros_like(context)

    def iterate(self, context: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(self.update(state + context))

    def read(self, state: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        return self.symbols(state.movedim(1, -1)), state.sum(dim=(1, 2, 3))


def test_modules_and_states_of_an_own_model_are_sites():
    torch.manual_seed(0)
    model = Mine()
    assert list(sites(model)) == ["embed", "update", "symbols", "state", "logits", "halt_logits"]
    assert sites(model)["update"] == "output of Conv2d"
    before = run(model)
    with record(model, hooks=[("state", lambda state, visit: state * (visit.step > 1))]) as cache:
        after = run(model)
    assert cache.visits("state") == [Visit("state", 1, 1), Visit("state", 1, 2)]
    assert not cache["state"][0].any()
    assert torch.equal(cache["state"][1], torch.tanh(cache["update"][1]))
    assert not equal(before, after)

    class Named(Mine):
        def initial_state(self, context: Tensor) -> Any:
            return RecursiveState(context, context)

        def iterate(self, context: Tensor, state: Any) -> Any:
            return state

        def read(self, state: Any, context: Tensor) -> tuple[Tensor, Tensor]:
            return super().read(state.z_H, context)

    named = Named()
    with (
        pytest.raises(ValueError, match=r"the tensors z_H, z_L: name them, record\(mod"),
        record(named),
    ):
        run(named)
    with record(named, "z_*", states=["z_H", "z_L"]) as cache:
        run(named)
    assert list(cache) == ["z_H", "z_L"]

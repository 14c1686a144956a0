"""Named sites of a model: values that are recorded, or replaced, while the model computes.

    with record(model, "blocks.*.attention") as cache:
        model(tokens, steps=4)
    cache["blocks.0.attention"]                               # every visit, in order
    cache.select("blocks.0.attention", step=4, update="z_H")  # some of them

A recursive model computes most sites many times. Each time is a `Visit`, and the first dimension of
a recorded tensor counts them. PyTorch hooks read the values, so that the model computes as usual,
except where a hook of yours replaces a value. All are removed at the end of the context, also after
an exception. `trm.run_with_cache` runs a model on canvases or problems, and records it.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from trm.models.attention import Attention
from trm.models.cell import CellModel, CellState
from trm.models.gpt import GPT
from trm.models.iterative import IterativeModel, named, unnamed
from trm.models.recursive import RecursiveState, TinyRecursiveModel

_OUTPUT, _INPUT, _WEIGHTS = "output", "input", "weights"  # kinds of values of a module


class Visit(NamedTuple):
    """One of the times at which a model computes a site.

    Example: ``Visit(site="z_H", run=1, step=2)`` is z_H after the second supervision step.
    """

    site: str
    run: int = 0  # batch of canvases or tokens that the model reads, from 1; 0: read before
    step: int = 0  # supervision step, or loop of a GPT, from 1; 0: before the first
    turn: int = 0  # pass through the blocks within the step, from 1; 0: outside of a pass
    update: str = ""  # tensor of the state that the pass updates: z_L or z_H
    H: int = 0  # H cycle of the pass, from 1; 0: the model has none
    L: int = 0  # L cycle within the H cycle, from 1; 0: the pass updates z_H


# (value, visit) → replacement of the same shape; None: the value stays.
Hook = Callable[[Tensor, Visit], Tensor | None]


class Activations(Mapping[str, Tensor]):
    """Recorded values by the name of their site, with one entry for each visit.

    ``cache[name]`` is a tensor [visits, ...], in order of computation.
    """

    def __init__(self) -> None:
        self._values: list[tuple[Visit, Tensor]] = []

    def __getitem__(self, name: str) -> Tensor:
        values = [value for _, value in self.each(name)]
        if not values:
            raise KeyError(f"nothing was recorded at {name!r}, only at: {', '.join(self)}")
        return _stacked(name, values)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(visit.site for visit, _ in self._values))

    def __len__(self) -> int:
        return len(set(self))

    def __repr__(self) -> str:
        lines = []
        for name in self:
            shapes = dict.fromkeys(
                f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
                for _, value in self.each(name)
            )
            visits = sum(1 for _ in self.each(name))
            lines.append(f"{name}: {visits} x {' or '.join(shapes)}")
        return "\n".join(lines) or "no activations"

    def add(self, visit: Visit, value: Tensor) -> None:
        """Append a value."""
        self._values.append((visit, value))

    def each(self, pattern: str = "*") -> Iterator[tuple[Visit, Tensor]]:
        """Yield the values of sites in order of computation; their shapes may differ."""
        return ((v, value) for v, value in self._values if fnmatchcase(v.site, pattern))

    def visits(self, name: str) -> list[Visit]:
        """Return the visits of a site, one for each entry of ``cache[name]``."""
        return [visit for visit, _ in self.each(name)]

    def select(self, name: str, **where: object) -> Tensor:
        """Return the values of some visits, [visits, ...].

        Example: ``cache.select("blocks.0.attention", step=2, H=1, L=3)``.

        Args:
            name: of the site.
            where: fields of `Visit`, and their values.

        Raises:
            ValueError: there is no such visit, or shapes differ.
        """
        if unknown := [field for field in where if field not in Visit._fields]:
            known = ", ".join(Visit._fields[1:])
            raise ValueError(f"a visit has no {unknown[0]!r}: select by {known}")
        values = [
            value
            for visit, value in self.each(name)
            if all(getattr(visit, field) == wanted for field, wanted in where.items())
        ]
        if not values:
            chosen = ", ".join(f"{field}={wanted!r}" for field, wanted in where.items())
            raise ValueError(f"no recorded visit of {name!r} has {chosen}: see cache.visits")
        return _stacked(name, values)


def _stacked(name: str, values: Sequence[Tensor]) -> Tensor:
    shapes = dict.fromkeys(str(list(value.shape)) for value in values)
    if len(shapes) > 1:
        raise ValueError(
            f"the visits of {name!r} have values of different shapes ({', '.join(shapes)}), which "
            f"are not one tensor: take them one by one, by cache.each({name!r})"
        )
    return torch.stack([*values])


class _Point(NamedTuple):
    """Way in which the value of a site is found."""

    text: str  # dtype, shape and meaning
    part: nn.Module | None = None  # None: a method of the model has the value
    kind: str = _OUTPUT
    number: int = 0  # of the argument, for `_INPUT`


def sites(model: nn.Module, states: Sequence[str] = ()) -> dict[str, str]:
    """Return the sites of a model in order of computation, each with dtype, shape and meaning.

    Example: ``"blocks.0.attention"`` → ``"float32 [B, heads, S, S], attention weights"``.

    Args:
        model: a network of any family, or another iterative model.
        states: names of the tensors of the state, for a class of your own whose state is a named
            tuple; empty: those of `IterativeModel.updates`, or ``state``.
    """
    return {name: point.text for name, point in _points(model, states).items()}


@contextmanager
def record(
    model: nn.Module,
    sites: str | Sequence[str] = "*",
    *,
    hooks: Sequence[tuple[str, Hook]] = (),
    visits: Callable[[Visit], bool] | None = None,
    states: Sequence[str] = (),
) -> Iterator[Activations]:
    """Record values at sites while the model computes, and replace values by hooks.

    Values are recorded detached, after the hooks, on the model's device. Compiled code runs
    uncompiled in the context. The decisions that a solver keeps of a cell model would outlive it:
    run such a model by `trm.run_with_cache`.

    Example: ``hooks=[("blocks.0.heads", lambda value, visit: value * 0)]`` ablates a layer's heads.

    Args:
        model: a network of any family.
        sites: names or patterns of `sites`, like ``blocks.*.attention``; empty: nothing is
            recorded.
        hooks: pairs of a name or pattern, and a function of the value and its `Visit`. It returns
            the replacement, of the same shape, or None. They are called in order.
        visits: which visits are recorded; None: all.
        states: see `sites`.

    Raises:
        ValueError: there is no such site; a hook is not such a pair, or returns something else.
    """
    points, cache, edits = _points(model, states), Activations(), defaultdict[str, list[Hook]](list)
    kept = _matched(model, points, [sites] if isinstance(sites, str) else sites)
    for pair in hooks:
        if not (isinstance(pair, Sequence) and len(pair) == 2 and callable(pair[1])):
            raise ValueError(
                f"{pair!r} is no hook: give pairs of a name and a function, like "
                "('blocks.0.heads', lambda value, visit: value * 0)"
            )
        pattern, hook = pair
        for name in _matched(model, points, [pattern]):
            edits[name].append(hook)
    clock = _Clock(model)
    taps = {
        name: _Tap(clock, name, edits[name], cache if name in kept else None, visits)
        for name in points
        if name in kept or name in edits
    }
    with ExitStack() as stack:
        if "torch._dynamo" in sys.modules:  # the check must not import the compiler
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        for owner, method, wrapper in _wrappers(model, clock, taps):
            stack.enter_context(_wrapped(owner, method, wrapper))
        first = next(iter(getattr(model, "layers", ())), None)
        if first is not None:
            stack.callback(first.register_forward_pre_hook(clock.turned).remove)
        for name, tap in taps.items():
            if points[name].part is not None:
                stack.callback(_attached(points[name], tap).remove)
        yield cache


def _matched(model: nn.Module, points: Mapping[str, _Point], patterns: Sequence[str]) -> set[str]:
    found = set[str]()
    if not isinstance(patterns, Iterable) or not all(isinstance(one, str) for one in patterns):
        raise ValueError(f"sites are names or patterns like 'blocks.*.attention', not {patterns!r}")
    for pattern in patterns:
        names = [name for name in points if fnmatchcase(name, pattern)]
        if not names:
            raise ValueError(
                f"{type(model).__name__} has no site {pattern!r}. It has: {', '.join(points)}"
            )
        found.update(names)
    return found


class _Clock:
    """Run, step and pass at which a model is."""

    def __init__(self, model: nn.Module) -> None:
        config: Any = getattr(model, "config", None)
        self.run = self.step = self.count = 0
        self.turns = [(name, 0, 0) for name in getattr(model, "updates", ())]
        if hasattr(config, "H_cycles") and hasattr(config, "L_cycles"):
            cycles = range(1, config.L_cycles + 1)
            self.turns = [
                turn
                for H in range(1, config.H_cycles + 1)
                for turn in (*(("z_L", H, L) for L in cycles), ("z_H", H, 0))
            ]

    def turned(self, *_: object) -> None:
        """Count a pass through the blocks."""
        self.count += 1

    def visit(self, site: str) -> Visit:
        if not self.count or not self.turns:
            return Visit(site, self.run, self.step, self.count)
        turn = (self.count - 1) % len(self.turns)  # a cell model has passes for each of its ops
        return Visit(site, self.run, self.step, turn + 1, *self.turns[turn])


class _Tap:
    """Receives the values of a site: applies hooks, and records the result."""

    def __init__(
        self,
        clock: _Clock,
        name: str,
        hooks: Sequence[Hook],
        cache: Activations | None,
        visits: Callable[[Visit], bool] | None,
    ) -> None:
        self.clock, self.name, self.hooks = clock, name, hooks
        self.cache, self.visits = cache, visits

    def _recorded(self, visit: Visit) -> bool:
        return self.cache is not None and (self.visits is None or self.visits(visit))

    @property
    def due(self) -> bool:
        """True if the present value is needed."""
        return bool(self.hooks) or self._recorded(self.clock.visit(self.name))

    def __call__(self, value: Any) -> Tensor | None:
        """Return the replacement of a value; None: it stays."""
        if not isinstance(value, Tensor):
            return None
        visit, made = self.clock.visit(self.name), None
        for hook in self.hooks:
            present = value if made is None else made
            put = hook(present, visit)
            if put is None:
                continue
            if not isinstance(put, Tensor) or put.shape != value.shape:
                got = list(put.shape) if isinstance(put, Tensor) else type(put).__name__
                raise ValueError(
                    f"the hook at {self.name!r} returned {got}: return a tensor of the value's "
                    f"shape, {list(value.shape)}, or None to leave it"
                )
            made = put.to(value)
        if self._recorded(visit):
            assert self.cache is not None
            self.cache.add(visit, (value if made is None else made).detach())
        return made


def _attached(point: _Point, tap: _Tap) -> Any:
    """Add the PyTorch hook of a site; return its handle."""
    part, number = point.part, point.number
    assert part is not None
    if point.kind == _OUTPUT:
        return part.register_forward_hook(lambda _, __, made: tap(made))

    def given(_: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        put = tap(arguments[number])
        return None if put is None else (*arguments[:number], put, *arguments[number + 1 :])

    def weighted(part: Any, arguments: tuple[Any, ...], made: Tensor) -> Tensor | None:
        put = tap(part.weights(*arguments)) if tap.due else None
        return None if put is None else part.average(put, arguments[2])

    if point.kind == _INPUT:
        return part.register_forward_pre_hook(given)
    return part.register_forward_hook(weighted)


_Wrapper = Callable[..., Any]  # called with the method it replaces, and with its arguments


@contextmanager
def _wrapped(owner: nn.Module, method: str, wrapper: _Wrapper) -> Iterator[None]:
    """Replace a method of one object in the context."""
    before = vars(owner).get(method)
    setattr(owner, method, partial(wrapper, getattr(owner, method)))
    try:
        yield
    finally:
        if before is None:
            delattr(owner, method)
        else:
            setattr(owner, method, before)


def _wrappers(
    model: nn.Module, clock: _Clock, taps: Mapping[str, _Tap]
) -> Iterator[tuple[nn.Module, str, _Wrapper]]:
    """Yield methods that advance the clock or have the value of a site: owner, name, wrapper."""

    def put(name: str, value: Tensor) -> Tensor:
        made = taps[name](value) if name in taps else None
        return value if made is None else made

    def encode(original: _Wrapper, *given: Any, **more: Any) -> Any:
        clock.run, clock.step, clock.count = clock.run + 1, 0, 0
        context = original(*given, **more)
        if "inputs" in taps:
            context = replace(context, inputs=put("inputs", context.inputs))
        if "cells" in taps:
            put("cells", context.cells)
        return context

    def iterate(original: _Wrapper, context: Any, state: Any) -> Any:
        clock.step, clock.count = clock.step + 1, 0
        state = original(context, state)
        clock.count = 0
        tensors = named(state)
        if "state" in taps and "state" not in tensors:
            raise ValueError(
                f"the state of {type(model).__name__} has the tensors {', '.join(tensors)}: name "
                f"them, record(model, ..., states={list(tensors)})"
            )
        if not any(name in taps for name in tensors):
            return state
        return unnamed(state, {name: put(name, value) for name, value in tensors.items()})

    def read(original: _Wrapper, *given: Any) -> tuple[Tensor, Tensor]:
        logits, halt_logits = original(*given)
        return put("logits", logits), put("halt_logits", halt_logits)

    def embed(original: _Wrapper, *given: Any) -> Tensor:
        clock.run, clock.step, clock.count = clock.run + 1, 0, 0
        return original(*given)

    def run_blocks(original: _Wrapper, x: Tensor, terms: Any, loop: int, *more: Any) -> Tensor:
        clock.step, clock.count = loop + 1, 0
        x = original(x, terms, loop, *more)
        clock.count = 0
        return x

    def output(name: str) -> _Wrapper:
        return lambda original, *given: put(name, original(*given))

    def decode(original: _Wrapper, ids: Tensor) -> Any:
        clock.count = 0
        return original(put("op_inputs", ids))

    if isinstance(model, IterativeModel):
        yield from ((model, one.__name__, one) for one in (encode, iterate, read))
    if isinstance(model, CellModel):
        yield model.reader, "decode", decode
    if isinstance(model, GPT):
        yield model, "embed", embed
        yield model, "run_blocks", run_blocks
        yield model, "head", output("logits")
        yield model, "halt_logits", output("halt_logits")


def _points(model: nn.Module, states: Sequence[str] = ()) -> dict[str, _Point]:
    """Return the sites of a model in order of computation."""
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"sites are those of a network, not of a {type(model).__name__}: of a solver, take "
            "solver.predictor.model"
        )
    points = dict[str, _Point]()
    if isinstance(model, CellModel):
        points["op_inputs"] = _Point("int64 [N], ids of the op inputs that are computed")
        each, query, key = "[N, D]", "[N, 1, heads, D / heads]", "[N, directions, heads, D / heads]"
        weights, mixed = "[N, heads, directions]", "[N, heads, D / heads]"
    else:
        S = "T" if isinstance(model, GPT) else "S"
        each, query = f"[B, {S}, D]", f"[B, heads, {S}, D / heads]"
        key, weights, mixed = query, f"[B, heads, {S}, {S}]", query
        if isinstance(model, GPT | TinyRecursiveModel):
            about = "embedded symbols, without positions"
            points["embed"] = _Point(f"float {each}, {about}", model.embed_tokens)
        if isinstance(model, TinyRecursiveModel):
            points["inputs"] = _Point(f"float {each}, embedded prefix and symbols with positions")
            about = "int64 [B, cells], cell of each token after the prefix; H * W: padding"
            points["cells"] = _Point(f"{about}. It cannot be replaced")
    for number, block in enumerate(getattr(model, "layers", ())):
        block_points = {"input": _Point(f"float {each}, input of the block", block, _INPUT)}
        attention = next((part for part in block.modules() if isinstance(part, Attention)), None)
        if attention is not None:
            core = attention.dot_product
            block_points |= {
                "queries": _Point(f"float {query}, with their rotation", core, _INPUT, 0),
                "keys": _Point(f"float {key}, with their rotation", core, _INPUT, 1),
                "values": _Point(f"float {key}", core, _INPUT, 2),
                "attention": _Point(f"float32 {weights}, attention weights", core, _WEIGHTS),
                "heads": _Point(f"float {mixed}, output of each head", core),
                "attended": _Point(f"float {each}, output of the attention layer", attention),
            }
        mlp = getattr(block, "down" if isinstance(model, GPT) else "mlp", None)
        if mlp is not None:
            block_points["mlp"] = _Point(f"float {each}, output of the feed-forward layer", mlp)
        block_points["output"] = _Point(f"float {each}, output of the block", block)
        points |= {f"blocks.{number}.{name}": point for name, point in block_points.items()}
    if isinstance(model, GPT):
        points["norm"] = _Point("float [B, T, D], states after the last norm", model.norm)
        points["logits"] = _Point(
            "float [B, T, V], of the next token; `run_with_cache` returns those of cells"
        )
        if model.halt_head is not None:
            points["halt_logits"] = _Point("float32 [B, T], or [B] while it writes token by token")
        return points
    if isinstance(model, CellModel):
        about = "float [N, sum of C], logits of all outputs"
        points["op_logits"] = _Point(about, model.lm_head)
    elif not isinstance(model, TinyRecursiveModel):  # of a class of its own
        points |= {
            name: _Point(f"output of {type(part).__name__}", part)
            for name, part in model.named_modules()
            if name and not name.startswith("layers.")
        }
    if isinstance(model, IterativeModel):
        known: Sequence[str] = [*dict.fromkeys(model.updates)] or ["state"]
        if isinstance(model, TinyRecursiveModel | CellModel):
            known = (CellState if isinstance(model, CellModel) else RecursiveState)._fields
        points |= {name: _Point(_STATES.get(name, "of the state")) for name in states or known}
        points["logits"] = _Point("float [B, H, W, V], of each cell's symbol")
        points["halt_logits"] = _Point("float32 [B], of each canvas")
    return points


_STATES = {
    "z_H": "float [B, S, D], the answer so far, after a supervision step",
    "z_L": "float [B, S, D], the reasoning, after a supervision step",
    "messages": "int16 [B, H, W, signals], decided classes, after a step of all cells",
    "symbols": "int64 [B, H, W], given or decided, after a step of all cells",
    "log_right": "float32 [B, H, W], log of the probability that a cell is correct",
}

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

from trm.models.gpt import GPT
from trm.models.iterative import IterativeModel, cycle_passes
from trm.models.sites import INPUT, OUTPUT, Site, sites_of
from trm.models.states import named, unnamed
from trm.models.weights import uncompiled


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


def sites(model: nn.Module, states: Sequence[str] = ()) -> dict[str, str]:
    """Return the sites of a model in order of computation, each with dtype, shape and meaning.

    Example: ``"blocks.0.attention"`` → ``"float32 [B, heads, S, S], attention weights"``.

    Args:
        model: a network of any family, or another iterative model.
        states: names of the tensors of the state, for a class of your own whose state is a named
            tuple; empty: those of `IterativeModel.updates`, or ``state``.
    """
    return {name: site.text for name, site in _sites(uncompiled(model), states).items()}


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
    uncompiled in the context. What a solver keeps for further problems would outlive it: run
    solvers by `trm.run_with_cache`.

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
    model = uncompiled(model)
    known, cache, edits = _sites(model, states), Activations(), defaultdict[str, list[Hook]](list)
    kept = _matched(model, known, [sites] if isinstance(sites, str) else sites)
    for pair in hooks:
        if not (isinstance(pair, Sequence) and len(pair) == 2 and callable(pair[1])):
            raise ValueError(
                f"{pair!r} is no hook: give pairs of a name and a function, like "
                "('blocks.0.heads', lambda value, visit: value * 0)"
            )
        pattern, hook = pair
        for name in _matched(model, known, [pattern]):
            edits[name].append(hook)
    clock = _Clock(model)
    taps = {
        name: _Tap(clock, name, edits[name], cache if name in kept else None, visits)
        for name in known
        if name in kept or name in edits
    }
    with ExitStack() as stack:
        if "torch._dynamo" in sys.modules:  # the check must not import the compiler
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        for owner, method, wrapper in _wrappers(model, clock, known, taps):
            stack.enter_context(_wrapped(owner, method, wrapper))
        first = next(iter(getattr(model, "layers", ())), None)
        if first is not None:
            stack.callback(first.register_forward_pre_hook(clock.count_pass).remove)
        for name, tap in taps.items():
            if known[name].part is not None and not known[name].method:
                stack.callback(_attached(known[name], tap).remove)
        yield cache


def _matched(model: nn.Module, known: Mapping[str, Site], patterns: Sequence[str]) -> set[str]:
    found = set[str]()
    if not isinstance(patterns, Iterable) or not all(isinstance(one, str) for one in patterns):
        raise ValueError(f"sites are names or patterns like 'blocks.*.attention', not {patterns!r}")
    for pattern in patterns:
        names = [name for name in known if fnmatchcase(name, pattern)]
        if not names:
            raise ValueError(
                f"{type(model).__name__} has no site {pattern!r}. It has: {', '.join(known)}"
            )
        found.update(names)
    return found


class _Clock:
    """Run, step and pass at which a model is."""

    def __init__(self, model: nn.Module) -> None:
        config: Any = getattr(model, "config", None)
        self.run = self.step = self.count = 0
        self.passes = [(name, 0, 0) for name in getattr(model, "updates", ())]  # of a step
        if hasattr(config, "H_cycles") and hasattr(config, "L_cycles"):
            self.passes = cycle_passes(config.H_cycles, config.L_cycles)

    def begin_run(self) -> None:
        self.run, self.step, self.count = self.run + 1, 0, 0

    def count_pass(self, *_: object) -> None:
        """Count a pass through the blocks."""
        self.count += 1

    def visit(self, site: str) -> Visit:
        if not self.count or not self.passes:
            return Visit(site, self.run, self.step, self.count)
        index = (self.count - 1) % len(self.passes)  # a step may run all cycles several times
        return Visit(site, self.run, self.step, index + 1, *self.passes[index])


class _Tap(NamedTuple):
    """Receives the values of a site: applies hooks, and records the result."""

    clock: _Clock
    name: str  # of the site
    hooks: Sequence[Hook]
    cache: Activations | None  # None: nothing is recorded
    visits: Callable[[Visit], bool] | None  # which ones are recorded; None: all

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


def _attached(site: Site, tap: _Tap) -> Any:
    """Add the PyTorch hook of a site; return its handle."""
    part, number = site.part, site.number
    assert part is not None
    if site.kind == OUTPUT:
        return part.register_forward_hook(lambda _, __, made: tap(made))

    def given(_: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        put = tap(arguments[number])
        return None if put is None else (*arguments[:number], put, *arguments[number + 1 :])

    def weighted(part: Any, arguments: tuple[Any, ...], made: Tensor) -> Tensor | None:
        put = tap(part.weights(*arguments)) if tap.due else None
        return None if put is None else part.average(put, arguments[2])

    if site.kind == INPUT:
        return part.register_forward_pre_hook(given)
    return part.register_forward_hook(weighted)


_Wrapper = Callable[..., Any]  # called with the method it replaces, and with its arguments


@contextmanager
def _wrapped(owner: Any, method: str, wrapper: _Wrapper) -> Iterator[None]:
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
    model: nn.Module, clock: _Clock, known: Mapping[str, Site], taps: Mapping[str, _Tap]
) -> Iterator[tuple[Any, str, _Wrapper]]:
    """Yield methods that advance the clock or have the value of a site: owner, name, wrapper."""

    def put(name: str, value: Tensor) -> Tensor:
        made = taps[name](value) if name in taps else None
        return value if made is None else made

    def encode(original: _Wrapper, *given: Any, **more: Any) -> Any:
        clock.begin_run()
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
        clock.begin_run()
        return original(*given)

    def run_blocks(original: _Wrapper, x: Tensor, terms: Any, loop: int, *more: Any) -> Tensor:
        clock.step, clock.count = loop + 1, 0
        x = original(x, terms, loop, *more)
        clock.count = 0
        return x

    def output(name: str) -> _Wrapper:
        return lambda original, *given: put(name, original(*given))

    def argument(name: str) -> _Wrapper:
        def run(original: _Wrapper, value: Tensor) -> Any:
            clock.count = 0  # passes through the blocks are counted from here
            return original(put(name, value))

        return run

    if isinstance(model, IterativeModel):
        yield from ((model, one.__name__, one) for one in (encode, iterate, read))
    if isinstance(model, GPT):
        yield model, "embed", embed
        yield model, "run_blocks", run_blocks
    for name, site in known.items():
        if site.method:
            yield site.part, site.method, (argument if site.kind == INPUT else output)(name)


def _sites(model: nn.Module, states: Sequence[str] = ()) -> dict[str, Site]:
    """Return the sites of a model in order of computation."""
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"sites are those of a network, not of a {type(model).__name__}: of a solver, take "
            "solver.predictor.model"
        )
    return sites_of(model, states)

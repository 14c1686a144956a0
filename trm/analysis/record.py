"""Recording and replacement of values at named sites of a model of any family.

A `Site` is a place in a model. A `Recorder` holds a model and canvases, lists the sites of the
model's family, and runs the model any number of times. A `Record` has the values at the sites, and
the logits. PyTorch hooks read the values, so the model computes as usual, except where a `Change`
replaces a value. Hooks are removed at the end of a run, also after an exception.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from canvas.drawing import to_sequences
from trm.models.attention import Attention
from trm.models.gpt import GPT
from trm.models.iterative import IterativeModel, Loop, map_state, named, unnamed
from trm.models.recursive import Context
from trm.solving.families import CELL_STATES, family_of
from trm.torch_settings import standard_settings

OUTPUT, INPUT, ATTENTION = "output", "input", "attention"  # kinds of values at a module's site


class Site(NamedTuple):
    """Place in a model, and the calls at which its value is recorded."""

    name: str
    part: nn.Module | None = None  # None: the tensors of the state after a supervision step
    # The part's `OUTPUT`; its first `INPUT`; or the weights of an `Attention`, float32
    # [B, heads, S, S], which cannot be replaced.
    kind: str = OUTPUT
    # The part's calls in a run, from 0; for the state, supervision steps from 1. None: all.
    calls: frozenset[int] | None = None


# (site, number of its earlier values in this run, value) → replacement: the value itself, or
# another one of the same shape and dtype.
Change = Callable[[Site, int, Tensor], Tensor]


@dataclass
class Record:
    """One run of a model."""

    values: dict[Site, list[Tensor]]  # values of each site, call by call, after the change
    change: Change | None = None
    # [N, H, W, V], for the symbol of each cell; in a GPT, at the token that writes the cell.
    logits: Tensor = field(default_factory=lambda: torch.empty(0))

    def note(self, site: Site, value: Tensor) -> Tensor:
        """Record a value; return its replacement."""
        if self.change is not None:
            value = self.change(site, len(self.values[site]), value)
        self.values[site].append(value)
        return value

    def hook(self, site: Site, part: nn.Module) -> Any:
        """Add a hook that records the values of a part at the site's calls."""
        calls = count()

        def taken(value: Callable[[], Tensor], otherwise: Tensor | None = None) -> Tensor | None:
            included = site.calls is None or next(calls) in site.calls
            return self.note(site, value()) if included else otherwise

        if site.kind == OUTPUT:
            return part.register_forward_hook(lambda _, __, made: taken(lambda: made, made))
        if site.kind == INPUT:
            return part.register_forward_pre_hook(
                lambda _, given: (taken(lambda: given[0], given[0]), *given[1:])
            )

        def attention(layer: Attention, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            taken(lambda: attention_weights(layer, given, named))

        return part.register_forward_pre_hook(attention, with_kwargs=True)


class Recorder(ABC):
    """Model in evaluation mode, with B canvases.

    - ``cells``: int64 [B, S], the cell of each token (H * W: padding).
    - ``length``: S, the length of a sequence of tokens without a prefix.
    - ``updates``: tensors of the state that a supervision step replaces, each with the numbers
      (from 0) of the step's passes through the layers that replace it. For a GPT these are its
      loops, each with a single pass.
    - ``last``: number of steps in a run; 1 for a GPT.
    """

    model: Any
    cells: Tensor
    length: int
    updates: dict[str, list[int]]
    last = 1

    def layers(self, step: int | None = None) -> dict[str, list[Site]]:
        """Return sites of each layer's output in the last pass of each update.

        They cover one step (from 1), or all steps (None).
        """
        return self._sites(self.model.layers if self.updates else [], OUTPUT, step, slice(-1, None))

    def attention(self, step: int | None = None) -> dict[str, Tensor]:
        """Return the attention weights of all layers in the passes of `layers`, by update.

        They are float32 [layers, B, heads, S, S] on the CPU, a prefix included. The result is
        empty for a model without attention between cells.
        """
        parts = attention_of(self.model)
        by_update = self._sites(parts, ATTENTION, step, slice(-1, None)) if parts else {}
        values = self.run([*chain(*by_update.values())]).values
        return {
            name: torch.stack([values[site][0] for site in sites]).cpu()
            for name, sites in by_update.items()
        }

    def heads(self) -> list[Site]:
        """Return sites of the heads side by side, before each output projection, in all steps.

        Raises:
            ValueError: the model has no attention between cells, or no `updates`.
        """
        found = attention_of(self.model)
        if not found or not self.updates:
            raise ValueError(
                f"the heads of {type(self.model).__name__} cannot be patched: it has no attention "
                "between cells, or does not declare its updates. Patch cells"
            )
        return [*chain(*self._sites([layer.out for layer in found], INPUT).values())]

    def input_sites(self) -> list[Site]:
        """Return the site of the embedded symbols, if the model has one."""
        embedding = getattr(self.model, "embed_tokens", None)
        return [] if embedding is None else [Site("input", embedding)]

    def _sites(
        self,
        parts: Sequence[nn.Module],
        kind: str,
        step: int | None = None,
        which: slice = slice(None),
    ) -> dict[str, list[Site]]:
        """Return sites of one part of each layer, in the selected passes of each update."""
        each = "block" if family_of(self.model).reads_sequences else "layer"
        passes = sum(map(len, self.updates.values()))  # in a step
        steps = range(self.last) if step is None else [step - 1]
        found = {}
        for update, calls in self.updates.items():
            start = f"{update}, {each}" if len(self.updates) > 1 else each
            in_run = frozenset(s * passes + call for s in steps for call in calls[which])
            found[update] = [
                Site(f"{start} {number}", part, kind, in_run)
                for number, part in enumerate(parts, start=1)
            ]
        return found

    def by_token(self, name: str, value: Tensor) -> Tensor:
        """Return the value of a site of that name as [B, S, D], without a prefix."""
        return value

    @standard_settings()
    @torch.no_grad()
    def run(
        self,
        sites: Sequence[Site],
        samples: Sequence[int] | None = None,
        change: Change | None = None,
    ) -> Record:
        """Run the model on N of the canvases, or all; record values at sites after ``change``."""
        record = Record({site: [] for site in sites}, change)
        index = torch.arange(len(self.cells)) if samples is None else torch.tensor(samples)
        with ExitStack() as hooks:
            for site in sites:
                if site.part is not None:
                    hooks.callback(record.hook(site, site.part).remove)
            record.logits = self._run(index.to(self.cells.device), record)
        return record

    @abstractmethod
    def _run(self, index: Tensor, record: Record) -> Tensor:
        """Run the model and record its states; return its logits."""


class StepRecorder(Recorder):
    """Iterative model in ``last`` steps, on canvases ``uint8 [B, H, W]`` with a masked row."""

    model: IterativeModel

    @standard_settings()
    def __init__(self, model: IterativeModel, canvases: np.ndarray, last: int) -> None:
        self.model, self.last = model, last
        self.tokens = torch.from_numpy(canvases).to(next(model.parameters()).device)
        updates = model.updates if hasattr(model, "layers") else ()
        self.updates = {n: [k for k, of in enumerate(updates) if of == n] for n in updates}
        with torch.no_grad():
            self.context = model.encode(self.tokens)
            self.initial = model.initial_state(self.context)
        B, H, W = canvases.shape
        self.cells = torch.arange(H * W, device=self.tokens.device).expand(B, -1)
        if isinstance(self.context, Context) and self.context.places is not None:
            self.cells = self.context.places
        self.length = self.cells.shape[1]

    def states(self, steps: Sequence[int]) -> list[Site]:
        """Return sites of the state after each of these supervision steps."""
        return [Site(f"step {step}", calls=frozenset({step})) for step in steps]

    def by_token(self, name: str, value: Tensor) -> Tensor:
        """Return the value as [B, S, D], without a prefix.

        Raises:
            ValueError: the value does not have one vector per token.
        """
        if value.ndim != 3 or value.shape[1] < self.length:
            raise ValueError(
                f"the state {name} of the model has the shape {list(value.shape)}: only states "
                f"with one vector for each cell, [batch, {self.length}, channels] here, can be "
                "read cell by cell"
            )
        return value[:, value.shape[1] - self.length :]

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return the head's logits [B, H, W, V] for a state made of these tensors."""
        state = unnamed(self.initial, dict(zip(named(self.initial), tensors, strict=True)))
        return self.model.read(state, self.context)[0]

    def _run(self, index: Tensor, record: Record) -> Tensor:
        loop = Loop(self.model, self.tokens[index])
        for step in range(1, self.last + 1):
            loop.step()
            for site in record.values:
                if site.part is None and (site.calls is None or step in site.calls):
                    loop.state = map_state(partial(record.note, site), loop.state)
        return loop.read()[0]


class SequenceRecorder(Recorder):
    """GPT that reads given canvases ``uint8 [B, h, W]``, the first h rows of whole ones.

    ``height`` is that of the whole canvas.
    """

    model: GPT

    @standard_settings()
    def __init__(self, model: GPT, canvases: np.ndarray, height: int | None = None) -> None:
        self.model, device = model, next(model.parameters()).device
        B, h, W = canvases.shape
        self.shape, self.height = (h, W), height or h
        self.ids = torch.from_numpy(to_sequences(canvases)).to(device)
        self.writers = torch.from_numpy(token_of_cell(h, W)).to(device)
        self.cells = torch.arange(h * W, device=device).expand(B, -1)
        self.length, loops = self.ids.shape[1], self.model.config.loops
        names = [f"loop {loop + 1}" for loop in range(loops)] if loops > 1 else ["tokens"]
        self.updates = {name: [loop] for loop, name in enumerate(names)}

    def states(self, steps: Sequence[int] = ()) -> list[Site]:
        """Return sites of the output of each block in each loop; ``steps`` is ignored."""
        return [*chain(*self.layers().values())]

    def on_canvas(self, value: Tensor) -> Tensor:
        """Select the tokens that write the cells: [N, T, D] → [N, h, W, D]."""
        return value[:, self.writers].unflatten(1, self.shape)

    def _run(self, index: Tensor, record: Record) -> Tensor:
        x = self.model.activations(self.ids[index], self.height, self.shape[1])
        return self.model.head(self.on_canvas(x))


@standard_settings()
def cell_attention(model: IterativeModel, canvases: np.ndarray, steps: int) -> dict[str, Tensor]:
    """Return the attention weights between cells in supervision step ``steps``, from 1.

    ``canvases`` is ``uint8 [B, H, W]`` with a masked row. The result has, by the name of the
    updated tensor, the weights of its last update in that step: float32 [layers, B, heads, H * W,
    H * W]. Rows of blank cells that are no tokens are 0. The result is empty for a model without
    attention between cells.
    """
    recorder = StepRecorder(model, canvases, steps)
    found = recorder.attention(steps) if isinstance(recorder.context, Context) else {}
    places, cells = recorder.cells.cpu(), canvases.shape[1] * canvases.shape[2]
    flat = places[:, None, :, None] * (cells + 1) + places[:, None, None, :]
    for name, weights in found.items():
        weights = weights[..., -recorder.length :, -recorder.length :]  # without a prefix
        full = weights.new_zeros(*weights.shape[:3], cells + 1, cells + 1)
        full.flatten(3).scatter_(3, flat.expand_as(weights).flatten(3), weights.flatten(3))
        found[name] = full[..., :cells, :cells]
    return found


def check_token(model: IterativeModel, canvas: np.ndarray, cell: tuple[int, int]) -> None:
    """Require that the cell (row, column) of a canvas ``uint8 [H, W]`` is a token.

    Raises:
        ValueError: the cell is blank and the model has no token for it.
    """
    places = StepRecorder(model, canvas[None], 1).cells.cpu().numpy()
    tokens = np.isin(np.arange(canvas.size), places).reshape(canvas.shape)
    if not tokens[cell]:
        rows = (f"{row}: {_ranges(line)}" for row, line in enumerate(tokens, 1) if line.any())
        raise ValueError(
            f"the cell {cell[0] + 1},{cell[1] + 1} is blank and no token of this model, so it "
            f"attends to nothing. Give a row and a column of these tokens: {'; '.join(rows)}"
        )


def _ranges(there: np.ndarray) -> str:
    """Return the true places of a line ``bool [N]``, from 1, like ``3-5, 7``."""
    places = np.flatnonzero(there) + 1
    runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def check_cells(model: nn.Module) -> None:
    """Require a model whose cells read each other's states.

    Raises:
        ValueError: the model is a cell model, whose cells exchange decided messages only.
    """
    family_of(model).require(CELL_STATES)


def attention_of(model: nn.Module) -> list[Attention]:
    """Return the attention of each layer; the input of `Attention.out` is its heads in a row."""
    return [part for part in model.modules() if isinstance(part, Attention)]


def attention_weights(layer: Attention, given: tuple[Any, ...], named: dict[str, Any]) -> Tensor:
    """Return the attention weights of a call without a cache, float32 [B, heads, S, S]."""
    x, terms = given
    q, k, _ = layer.project(x, terms.rotation)
    scores = (q.float() * q.shape[-1] ** -0.5) @ k.float().mT
    if terms.bias is not None:
        scores = scores + terms.bias.float()
    if terms.relative is not None:
        scores = scores + terms.relative.scores(q).float()
    if named.get("causal"):
        scores = scores + torch.full_like(scores[0, 0], -torch.inf).triu(1)
    return scores.softmax(dim=-1)


def token_of_cell(height: int, width: int) -> np.ndarray:
    """Return the token that writes each cell, ``int64 [H · W]``; rows are reversed.

    Example: height 2, width 2 → ``[1, 0, 4, 3]``.
    """
    row, column = np.divmod(np.arange(height * width), width)
    return row * (width + 1) + width - 1 - column

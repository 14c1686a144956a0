"""Runs of a model of any family on canvases, with values recorded and replaced at its sites.

`Visits` are some visits of a model's named sites (`trm.models.hooks`), under the name that analyses
print. A `Recorder` holds a model and canvases, lists the visits of the model's family, and runs the
model any number of times. A `Record` has the values of visits, and the logits.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from canvas.sequences import to_sequences
from trm.models.context import Context
from trm.models.gpt import GPT
from trm.models.hooks import Visit, record, sites
from trm.models.iterative import IterativeModel, Loop
from trm.models.states import named, unnamed
from trm.runtime.limits import MOST_STEPS, check_whole
from trm.runtime.torch_settings import standard_settings
from trm.solving.families import CELL_STATES, family_of

OUTPUT, ATTENTION, HEADS = "output", "attention", "heads"  # of blocks, see `trm.models.hooks`


class Visits(NamedTuple):
    """Some visits of named sites of a model, under one name."""

    name: str  # as printed, like ``z_H, layer 1``
    of: tuple[str, ...]  # see `trm.models.hooks.sites`
    steps: frozenset[int] | None = None  # of the visits; None: all
    turns: frozenset[int] | None = None  # passes through the blocks in a step; None: all

    def includes(self, visit: Visit) -> bool:
        """Return whether a visit is among these."""
        within = self.steps is None or visit.step in self.steps
        return visit.site in self.of and within and (self.turns is None or visit.turn in self.turns)


# (visits, number of their earlier values in this run, value) → replacement of the same shape.
Change = Callable[[Visits, int, Tensor], Tensor]


class Record(NamedTuple):
    """One run of a model."""

    values: dict[Visits, list[Tensor]]  # visit by visit, after the change
    # [N, H, W, V], for the symbol of each cell; in a GPT, at the token that writes the cell.
    logits: Tensor


class Recorder(ABC):
    """Model in evaluation mode, with B canvases.

    - ``cells``: int64 [B, S], the cell of each token (H * W: padding).
    - ``length``: S, the length of a sequence of tokens without a prefix.
    - ``updates``: tensors of the state that a supervision step replaces, each with the numbers
      (from 1) of the step's passes through the layers that replace it. For a GPT these are its
      loops, each with a single pass.
    - ``last``: number of steps in a run, loops for a GPT.
    """

    model: Any
    cells: Tensor
    length: int
    updates: dict[str, list[int]]
    last: int
    states_named: Sequence[str] = ()  # tensors of the state; empty: the model has none
    each: str  # word for a layer

    def layers(self, step: int | None = None) -> dict[str, list[Visits]]:
        """Return the visits of each layer's output in the last pass of each update.

        They cover one step (from 1), or all steps (None).
        """
        return self._of_kind(OUTPUT, step, slice(-1, None))

    def attention(self, step: int | None = None) -> dict[str, Tensor]:
        """Return the attention weights of all layers in the passes of `layers`, by update.

        They are float32 [layers, B, heads, S, S] on the CPU, a prefix included. The result is
        empty for a model without attention between cells.
        """
        by_update = self._of_kind(ATTENTION, step, slice(-1, None))
        values = self.run([*chain(*by_update.values())]).values
        return {
            name: torch.stack([values[one][0] for one in found]).cpu()
            for name, found in by_update.items()
            if found
        }

    def heads(self) -> list[Visits]:
        """Return the visits of the output of all heads, [B, heads, S, D / heads], in all steps.

        Raises:
            ValueError: the model has no attention between cells, or no `updates`.
        """
        if found := [*chain(*self._of_kind(HEADS).values())]:
            return found
        raise ValueError(
            f"the heads of {type(self.model).__name__} cannot be patched: it has no attention "
            "between cells, or does not declare its updates. Patch cells"
        )

    def inputs(self) -> list[Visits]:
        """Return the visit of the embedded symbols, if the model has one."""
        names = [name for name in ("embed", "embed_tokens") if name in sites(self.model)]
        return [Visits("input", (name,)) for name in names]

    def _of_kind(
        self, kind: str, step: int | None = None, which: slice = slice(None)
    ) -> dict[str, list[Visits]]:
        """Return visits of one kind in each layer, in the selected passes of each update."""
        layers, known = range(len(getattr(self.model, "layers", ()))), sites(self.model)
        names = {n: name for n in layers if (name := f"blocks.{n}.{kind}") in known}
        found = {}
        for update, turns in self.updates.items():
            steps, passes = self._visited(update, step, frozenset(turns[which]))
            start = f"{update}, {self.each}" if len(self.updates) > 1 else self.each
            found[update] = [
                Visits(f"{start} {n + 1}", (name,), steps, passes) for n, name in names.items()
            ]
        return found

    def _visited(
        self, update: str, step: int | None, turns: frozenset[int]
    ) -> tuple[frozenset[int] | None, frozenset[int] | None]:
        """Return the steps and the passes of an update's visits."""
        return None if step is None else frozenset({step}), turns

    def by_token(self, name: str, value: Tensor) -> Tensor:
        """Return the value of a site of that name as [B, S, D], without a prefix."""
        return value

    @torch.no_grad()
    def run(
        self,
        chosen: Sequence[Visits],
        samples: Sequence[int] | None = None,
        change: Change | None = None,
    ) -> Record:
        """Run the model on N of the canvases, or all; record values after ``change``."""
        earlier = Counter[Visits]()

        def edit(value: Tensor, visit: Visit) -> Tensor:
            assert change is not None
            for one in chosen:
                if one.includes(visit):
                    value = change(one, earlier[one], value)
                    earlier[one] += 1
            return value

        names = [*dict.fromkeys(chain(*(one.of for one in chosen)))]
        with record(
            self.model,
            names,
            hooks=[] if change is None else [(name, edit) for name in names],
            visits=lambda visit: any(one.includes(visit) for one in chosen),
            states=self.states_named,
        ) as cache:
            logits = self.logits(samples)
        recorded = [*cache.each()]
        values = {one: [v for visit, v in recorded if one.includes(visit)] for one in chosen}
        return Record(values, logits)

    @standard_settings()
    def logits(self, samples: Sequence[int] | None = None) -> Tensor:
        """Run the model on N of the canvases, or all; return the logits, see `Record`."""
        index = torch.arange(len(self.cells)) if samples is None else torch.tensor(samples)
        return self._run(index.to(self.cells.device))

    @abstractmethod
    def _run(self, index: Tensor) -> Tensor:
        """Run the model; return its logits."""


class StepRecorder(Recorder):
    """Iterative model in ``last`` steps, on canvases ``uint8 [B, H, W]`` with a masked row."""

    model: IterativeModel
    each = "layer"

    @standard_settings()
    def __init__(self, model: IterativeModel, canvases: np.ndarray, last: int) -> None:
        self.model, self.last = model, last
        self.tokens = torch.from_numpy(canvases).to(next(model.parameters()).device)
        updates = model.updates if hasattr(model, "layers") else ()
        self.updates = {n: [k for k, of in enumerate(updates, start=1) if of == n] for n in updates}
        with torch.no_grad():
            self.context = model.encode(self.tokens)
            self.initial = model.initial_state(self.context)
        self.states_named = [*named(self.initial)]
        B, H, W = canvases.shape
        self.cells = torch.arange(H * W, device=self.tokens.device).expand(B, -1)
        if isinstance(self.context, Context):
            self.cells = self.context.cells
        self.length = self.cells.shape[1]

    def states(self, steps: Sequence[int]) -> list[Visits]:
        """Return the visits of the state after each of these supervision steps."""
        names = tuple(self.states_named)
        return [Visits(f"step {step}", names, frozenset({step})) for step in steps]

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

    def _run(self, index: Tensor) -> Tensor:
        loop = Loop(self.model, self.tokens[index])
        for _ in range(self.last):
            loop.step()
        return loop.read()[0]


class SequenceRecorder(Recorder):
    """GPT that reads given canvases ``uint8 [B, h, W]``, the first h rows of whole ones.

    ``height`` is that of the whole canvas.
    """

    model: GPT
    each = "block"

    @standard_settings()
    def __init__(self, model: GPT, canvases: np.ndarray, height: int | None = None) -> None:
        self.model, device = model, next(model.parameters()).device
        _check_pauses(model)
        B, h, W = canvases.shape
        self.shape, self.height = (h, W), height or h
        self.ids = torch.from_numpy(to_sequences(canvases)).to(device)
        self.writers = torch.from_numpy(token_of_cell(h, W)).to(device)
        self.cells = torch.arange(h * W, device=device).expand(B, -1)
        self.length, self.last = self.ids.shape[1], model.config.loops
        names = (
            [f"loop {loop}" for loop in range(1, self.last + 1)] if self.last > 1 else ["tokens"]
        )
        self.updates = {name: [loop] for loop, name in enumerate(names, start=1)}

    def states(self, steps: Sequence[int] = ()) -> list[Visits]:
        """Return the visits of the output of each block in each loop; ``steps`` is ignored."""
        return [*chain(*self.layers().values())]

    def on_canvas(self, value: Tensor) -> Tensor:
        """Select the tokens that write the cells: [N, T, D] → [N, h, W, D]."""
        return value[:, self.writers].unflatten(1, self.shape)

    def _visited(
        self, update: str, step: int | None, turns: frozenset[int]
    ) -> tuple[frozenset[int] | None, frozenset[int] | None]:
        return turns, None  # a loop is a step of one pass

    def _run(self, index: Tensor) -> Tensor:
        x = self.model.activations(self.ids[index], self.height, self.shape[1])
        if self.model.halt_head is not None:
            self.model.halt_logits(x)  # a site of the run
        return self.on_canvas(self.model.head(x))


def open_recorder(
    model: nn.Module, canvases: np.ndarray, steps: int | None = None
) -> "StepRecorder | SequenceRecorder":
    """Open a recorder of a model of any family, on canvases ``uint8 [B, H, W]``.

    ``steps`` is the number of supervision steps of a run; None: one.

    Raises:
        ValueError: the canvases do not suit the model, or it takes no supervision steps.
    """
    if canvases.ndim != 3 or not np.issubdtype(canvases.dtype, np.integer):
        raise ValueError(
            "canvases are symbol ids, integers of shape [batch, height, width], not "
            f"{canvases.dtype} {list(canvases.shape)}"
        )
    canvases = canvases.astype(np.uint8)
    if family_of(model).reads_sequences:
        if steps is not None:
            raise ValueError("a GPT takes no supervision steps: leave out steps")
        return SequenceRecorder(model, canvases)  # type: ignore[arg-type]
    check_whole("steps", steps, 1, MOST_STEPS)
    return StepRecorder(model, canvases, steps or 1)  # type: ignore[arg-type]


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
        ValueError: the model is a cell model, whose cells exchange decided messages only; or a GPT
            with pauses.
    """
    family_of(model).require(CELL_STATES)
    _check_pauses(model)


def _check_pauses(model: Any) -> None:
    if getattr(model.config, "pauses", 0):
        raise ValueError(
            "the cells of a GPT with pauses are no sites that can be compared: look inside one "
            "trained with model.network.config.pauses 0, or take trm.models.hooks.record"
        )


def token_of_cell(height: int, width: int) -> np.ndarray:
    """Return the token that writes each cell, ``int64 [H · W]``; rows are reversed.

    Example: height 2, width 2 → ``[1, 0, 4, 3]``.
    """
    row, column = np.divmod(np.arange(height * width), width)
    return row * (width + 1) + width - 1 - column

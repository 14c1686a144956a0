"""The logit lens: which symbols a model would write if its head read every layer.

After nostalgebraist 2020, "interpreting GPT: the logit lens". The head is the model's own, nothing
is fitted: what the last layer of the last step says is what the model writes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from canvas.render import to_sequences
from canvas.symbols import MASK
from trm.models.capture import outputs_of
from trm.models.gpt import GPT
from trm.models.iterative import IterativeModel, Loop, named, unnamed
from trm.models.ordered import work_in_order
from trm.probing.cells import token_of_cell
from trm.probing.features import loops_of
from trm.solving.rollout import Predictor

SHOWN = 6  # supervision steps that are looked at, at most
LINES = 72  # places that are looked at in all of them, if two steps have no more


@dataclass(frozen=True)
class Lens:
    """What the head says of the C cells of a row after each of N layers.

    Attributes:
        sites: where the head reads, in the order in which the model computes.
        row: of the canvas, the one that is filled in.
        columns: ``int64 [C]``, its cells from left to right.
        log_probs: ``float32 [N, C, V]``, of each symbol.
    """

    sites: list[str]
    row: int
    columns: np.ndarray
    log_probs: np.ndarray

    @property
    def symbols(self) -> np.ndarray:
        """The likeliest ones, ``uint8 [N, C]``."""
        return self.log_probs.argmax(axis=-1).astype(np.uint8)

    def of(self, truth: np.ndarray) -> np.ndarray:
        """The log-probability of each cell's true symbol.

        Args:
            truth: ``uint8 [H, W]``, the canvas with the row filled in.

        Returns:
            ``float32 [N, C]``.
        """
        right = truth[self.row, self.columns].astype(np.int64)
        return np.take_along_axis(self.log_probs, right[None, :, None], axis=-1)[..., 0]


@torch.no_grad()
def read_layers(predictor: Predictor, canvas: np.ndarray, steps: Sequence[int]) -> Lens:
    """Let the head read every layer while a model fills in a row.

    - A model that takes supervision steps: in some of them, after each layer of each update of the
      tensor that the head reads (z_H of a recursive model), and after each update of any other
      (z_L), read in its place. Where the model does not tell its updates (`IterativeModel`), its
      state after each step.
    - A model that works in order: after each layer of each loop, with all cells before worked out.
    - A GPT: after each block of each loop, through the last norm. A cell is read at the token that
      writes it; the cells before hold what the model wrote there itself.

    Args:
        predictor: with the model, where it is to run.
        canvas: ``uint8 [H, W]``, with one row masked.
        steps: the supervision steps to look at, from 1; the last one is that of the answer.

    Raises:
        ValueError: no row is masked, or the model refuses the canvas.
    """
    masked = canvas == MASK
    if not masked.any():
        raise ValueError("a lens reads the row that is filled in: the canvas has no masked row")
    model = predictor.model
    if isinstance(model, GPT):
        found = _of_gpt(predictor, model, canvas)
    elif predictor.in_order:
        found = _in_order(model, _tokens(model, canvas))
    else:
        found = _stepwise(model, _tokens(model, canvas), steps)
    cells = torch.from_numpy(masked)
    names, read = [], []
    for name, logits in found:
        names.append(name)
        read.append(logits[0].float().log_softmax(dim=-1).cpu()[cells])
    row, columns = np.nonzero(masked)
    return Lens(names, int(row[0]), columns, torch.stack(read).numpy())


def some_steps(last: int, shown: int = SHOWN) -> list[int]:
    """A few supervision steps up to the last one, closer together at the start.

    Args:
        last: of them, from 1.
        shown: how many, at most; two or more.
    """
    return sorted(set(np.geomspace(1, last, shown).round().astype(int).tolist()))


def steps_to_read(predictor: Predictor, last: int) -> list[int]:
    """The supervision steps of a lens, fewer where each has many updates to be read in."""
    updates = getattr(predictor.model, "updates", ())
    if not updates:
        return some_steps(last)
    main = updates[-1]
    lines = sum(len(predictor.model.layers) if name == main else 1 for name in updates)
    return some_steps(last, min(SHOWN, max(2, LINES // lines)))


def _stepwise(
    model: IterativeModel, tokens: Tensor, steps: Sequence[int]
) -> Iterator[tuple[str, Tensor]]:
    """Names of sites, and logits [1, H, W, V]."""
    loop = Loop(model, tokens)
    for step in range(1, max(steps) + 1):
        if step not in steps:
            loop.step()
            continue
        for name, logits in _layers(loop):
            yield f"step {step}{name and f', {name}'}", logits


def _in_order(model: IterativeModel, tokens: Tensor) -> Iterator[tuple[str, Tensor]]:
    """In the step from the finished page to itself all layers give what they gave cell by cell."""
    loop = Loop(model, tokens)
    worked = work_in_order(model, tokens)  # type: ignore[arg-type]
    assert worked is not None  # a single page has one width
    loop.state = worked.state
    yield from _layers(loop)


def _layers(loop: Loop) -> Iterator[tuple[str, Tensor]]:
    """One supervision step, and what the head says after its layers."""
    model = loop.model
    updates = model.updates if hasattr(model, "layers") else ()
    with outputs_of(list(model.layers) if updates else []) as made:  # type: ignore[arg-type]
        loop.step()
    if not updates:
        yield "", loop.read()[0]
        return
    main, last = updates[-1], len(made)
    for number, name in enumerate(_update_names(updates)):
        of_head = updates[number] == main
        for layer in range(1, last + 1) if of_head else (last,):
            value = made[layer - 1][number]
            state = unnamed(loop.state, named(loop.state) | {main: value})
            parts = (name, f"layer {layer}" if of_head else "")
            yield ", ".join(filter(None, parts)), model.read(state, loop.context)[0]


def _update_names(updates: Sequence[str]) -> list[str]:
    """What each update of a supervision step is called.

    A cycle ends with an update of the tensor that the head reads, the last one.
    """
    main = updates[-1]
    several = updates.count(main) > 1
    if set(updates) == {main}:
        return [f"update {n + 1}" if several else "" for n in range(len(updates))]
    names, cycle, since = [], 1, 0
    for number, name in enumerate(updates):
        before = updates[since:number].count(name)
        again = before or name in updates[number + 1 : updates.index(main, number)]
        own = f"{name} {before + 1}" if again else name
        names.append(f"cycle {cycle}, {own}" if several else own)
        if name == main:
            cycle, since = cycle + 1, number + 1
    return names


def _of_gpt(predictor: Predictor, model: GPT, canvas: np.ndarray) -> Iterator[tuple[str, Tensor]]:
    """Names of sites, and logits [1, H, W, V]."""
    height, width = canvas.shape
    filled = predictor.trace(canvas[None]).answers
    ids = torch.from_numpy(to_sequences(filled)).to(next(model.parameters()).device)
    writer = torch.from_numpy(token_of_cell(height, width)).to(ids.device)
    loops = loops_of(predictor)
    with outputs_of(list(model.layers)) as made:
        model.activations(ids, height, width, loops=loops)
    for loop in range(loops):
        for block, outputs in enumerate(made, start=1):
            read = model.head(model.norm(outputs[loop][:, writer]))
            yield gpt_site(loop, loops, block), read.unflatten(1, (height, width))


def gpt_site(loop: int, loops: int, block: int) -> str:
    """What a block is called: of a loop from 0, itself from 1."""
    return f"block {block}" if loops == 1 else f"loop {loop + 1}, block {block}"


def _tokens(model: IterativeModel, canvas: np.ndarray) -> Tensor:
    return torch.from_numpy(canvas[None]).to(next(model.parameters()).device)

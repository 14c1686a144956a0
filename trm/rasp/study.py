"""Heads of a trained model beside the selectors of its layout's program, on held-out problems."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from canvas import symbols
from canvas.problems import Problems
from canvas.render import RowSteps, row_steps, to_sequences
from canvas.task import Task
from trm.evaluation.cell_problems import SPLIT, cell_problems
from trm.evaluation.grid import size_name
from trm.models.draws import drawn_anew
from trm.models.gpt import GPT
from trm.models.introspection import gpt_attention, introspect
from trm.probing.cells import token_of_cell
from trm.probing.features import loops_of
from trm.rasp.language import Selector
from trm.rasp.overlap import Head, Overlaps
from trm.rasp.page import NAMES, Page
from trm.rasp.running import check_program, write_row
from trm.solving.gpt_predictor import GPTPredictor
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.rollout import Predictor
from trm.solving.solver import Solver

_PAIRS_AT_ONCE = 2**18  # of cells, over all canvases of a batch


@dataclass(frozen=True)
class Comparison:
    """The heads of a model on problems of one size.

    Attributes:
        size: of the problems, by two measures of the task.
        name: of the size, like 4 x 4 digits.
        split: that the problems are of.
        problems: how many.
        rows: canvases, one for each row of each problem.
        program_right: of these, how many rows the program writes as the truth has them.
        heads: update by update, layer by layer.
        untrained: the same heads before training: of a network of the same config with weights
            drawn anew. A config may give heads a direction to begin with.
    """

    size: dict[str, int]
    name: str
    split: str
    problems: int
    rows: int
    program_right: int
    heads: tuple[Head, ...]
    untrained: tuple[Head, ...]

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Watched:
    """A batch of rows, what a model's heads look at, and what selectors select.

    Attributes:
        attention: by the name of the tensor that is updated, ``float32 [layers, B, heads, N, N]``,
            see `trm.models.introspection.Introspection`. Of a GPT loop by loop ``[blocks, B, heads,
            N, K]``: from the token that writes each cell to those that show the cells, and then to
            the start and the row ends.
        selectors: by name, those of `trm.rasp.page.NAMES` and of the program,
            bool [N, N] or [B, N, N].
        used: names of the program's.
        steps: supervision steps after which that was.
        written: ``uint8 [B, H, W]``, the canvases as the program fills them in.
        visible: ``bool [N, K]``, what a GPT's tokens see; None: see `Overlaps.add`.
    """

    attention: dict[str, np.ndarray]
    selectors: dict[str, Selector]
    used: set[str]
    steps: int
    written: np.ndarray
    visible: np.ndarray | None = None


def watch(
    predictor: Predictor,
    task: Task,
    inputs: np.ndarray,
    labels: np.ndarray,
    steps: int | None = None,
) -> Watched:
    """Look at the heads when the masked rows have been worked out.

    Of a GPT that is at the token that writes each cell of the row, with the true symbols before it
    (teacher-forced). That token shows the cell on the right.

    Else attention is that of the last supervision step: of as many as the slowest of the rows takes
    in solving, or, of a model that works in order, of as many as it takes until no state changes:
    a cell then looks at what it looked at when it was written.

    Args:
        predictor: the model.
        task: whose layout and base the rows are of.
        inputs: ``uint8 [B, H, W]``, upright, a row of each masked.
        labels: ``uint8 [B, H, W]``, the same with the row filled in; read by a GPT alone.
        steps: supervision steps; None: as many as that.

    Raises:
        ValueError: the model has no attention between cells, or its cells are not those of the
            canvas.
    """
    written, page = write_row(task.layout, inputs, task.base)
    if isinstance(predictor.model, GPT):
        return _watch_gpt(predictor, predictor.model, page, labels, written)
    assert isinstance(predictor, IterativePredictor)
    used = set(page.selectors)
    named = {name: page.selector(name) for name in NAMES} | page.selectors
    tokens = torch.from_numpy(inputs).to(predictor.device)
    if steps is not None:
        seen = introspect(predictor.model, tokens, steps)
    elif predictor.in_order:
        steps = min(sum(inputs.shape[1:]), predictor.max_steps)  # nearly always enough
        seen = introspect(predictor.model, tokens, steps)
        while steps < predictor.max_steps and any(bool(v[-1].any()) for v in seen.changes.values()):
            steps = min(2 * steps, predictor.max_steps)
            seen = introspect(predictor.model, tokens, steps)
    else:
        steps = int(predictor(inputs).steps.max())
        seen = introspect(predictor.model, tokens, steps)
    if not seen.attention:
        raise ValueError(
            "this model has no attention that can be read off between cells, such as a mixer: "
            "there are no heads to compare"
        )
    attention = {name: weights.numpy() for name, weights in seen.attention.items()}
    return Watched(attention, named, used, steps, written)


def _watch_gpt(
    predictor: Predictor, model: GPT, page: Page, labels: np.ndarray, written: np.ndarray
) -> Watched:
    """See `watch`.

    Args:
        predictor, model, labels: see there.
        page: on which the program worked.
        written: by it.
    """
    height, width = labels.shape[1:]
    writers = token_of_cell(height, width)
    ids = torch.from_numpy(to_sequences(labels))
    no_cells = np.setdiff1d(np.arange(ids.shape[1]), writers + 1)
    keys = np.concatenate((writers + 1, no_cells))
    loops = loops_of(predictor)
    device = next(model.parameters()).device
    weights = gpt_attention(model, ids.to(device), height, width, loops).numpy()
    weights = weights[:, :, :, writers[:, None], keys]
    of_loops = np.split(weights, loops)
    names = ["tokens"] if loops == 1 else [f"loop {number}" for number in range(1, loops + 1)]
    read = Page(labels, page.base, writers)
    named = {name: read.selector(name) for name in NAMES}
    own = {name: one for name, one in page.selectors.items() if name not in named}
    return Watched(
        dict(zip(names, of_loops, strict=True)),
        named | own,
        set(page.selectors),
        0,
        written,
        keys <= writers[:, None],
    )


def compare_heads(
    solver: Solver,
    size: dict[str, int],
    problems: int = 16,
    seed: int = 0,
    note: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Compare the heads of a model with selectors, on all rows of problems of one size.

    The rows above are the true ones (teacher-forced). The cells that count are those of the masked
    row in which a symbol is to be written.

    Args:
        solver: the model.
        size: of the problems, by two measures of the task, like ``{"digits_a": 4, "digits_b": 4}``.
        problems: how many, of the test split; fewer where there are not as many.
        seed: which ones.
        note: is told what is going on, a line at a time.

    Raises:
        ValueError: the layout has no program; see `watch`; or there are no problems of that size.
    """
    predictor = solver.predictor
    check_program(solver.task.layout)
    task, (low, high) = solver.task, size.values()
    name = size_name(tuple(size), (low, high))
    asked = cell_problems(task, task.of_size(**size), problems, seed)
    if not len(asked):
        raise ValueError(f"no problem of {name} is held out: name another size")
    steps, right = row_steps(solver.draw_worked(asked)), 0
    note(f"{len(steps.inputs):,} rows of {len(asked)} problems of {name}")
    models = predictor, _untrained(predictor)
    tallies: tuple[dict[str, Overlaps], ...] = ({}, {})
    for batch in _batches(steps):
        cells = (batch.answer & (batch.labels != symbols.BLANK)).reshape(len(batch.inputs), -1)
        taken = None
        for model, tally in zip(models, tallies, strict=True):
            seen = watch(model, task, batch.inputs, batch.labels, taken)
            for update, attention in seen.attention.items():
                of_update = tally.setdefault(update, Overlaps(update))
                of_update.add(
                    attention, seen.selectors, cells, batch.problem, seen.used, seen.visible
                )
            taken = seen.steps
        right += int((seen.written == batch.labels).all(axis=(1, 2)).sum())
    heads, untrained = (
        tuple(head for of_update in tally.values() for head in of_update.heads())
        for tally in tallies
    )
    return Comparison(size, name, SPLIT, len(asked), len(steps.inputs), right, heads, untrained)


def one_row(solver: Solver, problem: Problems, row: int | None) -> tuple[RowSteps, int, Watched]:
    """One row of one problem, from 0 (None: the last), to be drawn, and its number."""
    steps = row_steps(solver.draw_worked(problem))
    at = len(steps.inputs) - 1 if row is None else row
    one = _some(steps, slice(at, at + 1))
    return one, at, watch(solver.predictor, solver.task, one.inputs, one.labels)


def _untrained(predictor: Predictor) -> Predictor:
    """The same with weights drawn anew."""
    fresh = drawn_anew(predictor.model)
    if isinstance(predictor, GPTPredictor):
        return GPTPredictor(fresh, predictor.calibration, loops=predictor.loops)
    assert isinstance(predictor, IterativePredictor)
    return IterativePredictor(fresh, predictor.max_steps)


def _batches(steps: RowSteps) -> Iterator[RowSteps]:
    """Row steps, a few at a time."""
    number, height, width = steps.inputs.shape
    size = max(1, _PAIRS_AT_ONCE // (height * width) ** 2)
    for start in range(0, number, size):
        yield _some(steps, slice(start, start + size))


def _some(steps: RowSteps, which: slice) -> RowSteps:
    return replace(steps, **{name: part[which] for name, part in vars(steps).items()})

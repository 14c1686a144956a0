"""Heads of a trained model beside the selectors of its layout's program, on held-out problems."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import torch

from canvas import symbols
from canvas.problems import Problems
from canvas.render import RowSteps, row_steps
from canvas.task import Task
from trm.analysis.rasp import NAMES, Cells, Selector
from trm.analysis.rasp_programs import check_program, write_row
from trm.analysis.record import SequenceRecorder, cell_attention, check_cells
from trm.evaluation.cell_problems import SPLIT, cell_problems
from trm.evaluation.grid import size_name
from trm.models.draws import drawn_anew
from trm.models.gpt import GPT
from trm.solving.rollout import Predictor
from trm.solving.solver import Solver

_PAIRS_AT_ONCE = 2**18  # of cells, over all canvases of a batch
_CLOSE = 0.05  # gains that differ by less are as large


@dataclass(frozen=True)
class Overlap:
    """The attention of one head on what one selector selects.

    Means over problems, of each the mean over cells, of those for which the selector selects a cell
    that the model has a token for. The 95 % interval is 1.96 standard errors over problems to
    either side, within 0 and 1; of a single problem it is 0 and 1.
    """

    selector: str
    overlap: float  # attention on the selected cells, 0 to 1
    low: float
    high: float
    baseline: float  # what uniform attention over all that the head can see would put there
    cells: int  # that counted
    problems: int
    in_program: bool  # whether the program of the layout uses the selector

    @property
    def gain(self) -> float:
        """Overlap above the baseline, which is high, too, where a selector is wide."""
        return self.overlap - self.baseline


@dataclass(frozen=True)
class Head:
    """One head with all selectors."""

    update: str  # the tensor that it takes part in updating; of a GPT tokens, or which loop
    layer: int  # from 1, as is the head; a GPT's layers are its blocks
    head: int
    overlaps: tuple[Overlap, ...]  # the largest gain first; of gains within 0.05, the program's

    @property
    def best(self) -> Overlap:
        """The selector that matches the head best."""
        return self.overlaps[0]

    def of(self, selector: str) -> Overlap:
        """The overlap with one selector, by its name."""
        return next(one for one in self.overlaps if one.selector == selector)


@dataclass(frozen=True)
class Comparison:
    """The heads of a model on problems of one size."""

    size: dict[str, int]  # by two measures of the task
    name: str  # of the size
    split: str
    problems: int
    rows: int  # of all problems
    program_right: int  # rows that the program writes as the truth has them
    heads: tuple[Head, ...]  # update by update, layer by layer
    untrained: tuple[Head, ...]  # of a network of the same config with weights drawn anew


@dataclass(frozen=True)
class Watched:
    """A batch of rows, what a model's heads attend to, and what selectors select."""

    # By the name of the tensor that is updated, float32 [layers, B, heads, N, N], see
    # `trm.analysis.record.cell_attention`. Of a GPT loop by loop [blocks, B, heads, N, K]: from the
    # token that writes each cell to those that show the cells, then the start and the row ends.
    attention: dict[str, np.ndarray]
    selectors: dict[str, Selector]  # those of `trm.analysis.rasp.NAMES` and of the program
    used: set[str]  # names of the program's
    steps: int  # the supervision step in which that was
    written: np.ndarray  # uint8 [B, H, W], the canvases as the program fills them in
    # bool [N, K], what a GPT's tokens see; None: what any head of the layer gives some attention
    # to, as a mask gives exactly none.
    visible: np.ndarray | None = None


def watch(
    predictor: Predictor,
    task: Task,
    inputs: np.ndarray,
    labels: np.ndarray,
    steps: int | None = None,
) -> Watched:
    """The attention of heads when the masked rows ``uint8 [B, H, W]``, upright, are filled in.

    Of a GPT that is at the token that writes each cell of the row, with the true symbols before it
    (teacher-forced). That token shows the cell on the right. Else it is in the supervision step
    ``steps``; None: that in which the slowest row ends.

    Raises:
        ValueError: the model has no attention between cells, or its cells are not the canvas's.
    """
    written, cells = write_row(task.layout, inputs, task.base)
    used, read, visible = set(cells.selectors), cells, None
    if isinstance(predictor.model, GPT):
        recorder = SequenceRecorder(predictor, labels)
        writers = recorder.writers.cpu().numpy()
        others = np.setdiff1d(np.arange(recorder.length), writers + 1)
        keys = np.concatenate((writers + 1, others))
        loops = recorder.attention()
        values = recorder.run([site for of_loop in loops.values() for site in of_loop]).values
        attention = {
            name: torch.stack([values[site][0] for site in of_loop])
            .cpu()
            .numpy()[..., writers[:, None], keys]
            for name, of_loop in loops.items()
        }
        taken, visible = 0, keys <= writers[:, None]
        read = Cells(labels, task.base, writers)
    else:
        taken = int(predictor(inputs).steps.max()) if steps is None else steps
        found = cell_attention(predictor.model, inputs, taken)
        if not found:
            raise ValueError(
                "this model has no attention that can be read off between cells: there are no "
                "heads to compare"
            )
        attention = {name: weights.numpy() for name, weights in found.items()}
    named = {name: read.selector(name) for name in NAMES}
    named |= {name: one for name, one in cells.selectors.items() if name not in named}
    return Watched(attention, named, used, taken, written, visible)


class Overlaps:
    """Adds up overlaps over batches of rows, for all heads."""

    def __init__(self) -> None:
        # By update and selector, of each problem float [layers, heads + 1, cells]: the attention of
        # heads on what is selected, and what uniform attention would put there.
        self._mass: dict[tuple[str, str], dict[int, list[np.ndarray]]] = {}
        self._used: set[str] = set()

    def add(self, seen: Watched, cells: np.ndarray, problem: np.ndarray) -> None:
        """Count a batch of B rows on canvases of N cells.

        Of ``cells``, ``bool [B, N]``, are the queries that count, and ``problem``, ``int64 [B]``,
        is that of each row. Attention of cells that are no tokens is 0, and keys beyond the N cells
        are selected by nothing.
        """
        self._used |= seen.used
        for update, attention in seen.attention.items():
            batch, positions, keys = attention.shape[1], *attention.shape[-2:]
            tokens = np.asarray(attention.any(axis=(0, 2, 4)))  # [B, N]
            sample, query = np.nonzero(cells & tokens)
            weights = attention.swapaxes(1, 2)[:, :, sample, query]  # [layers, heads, M, K]
            visible = weights.any(axis=1)  # [layers, M, K]
            if seen.visible is not None:
                visible = np.broadcast_to(seen.visible[query], visible.shape)
            for name, selector in seen.selectors.items():
                everyone = np.broadcast_to(selector.chosen, (batch, positions, positions))
                chosen = everyone[sample, query] & tokens[sample]  # [M, N]
                counted = chosen.any(axis=1)
                chosen = np.pad(chosen, ((0, 0), (0, keys - positions)))
                mass = (weights * chosen).sum(axis=-1)[..., counted]
                uniform = ((visible & chosen).sum(axis=-1) / visible.sum(axis=-1))[:, counted]
                parts = np.concatenate([mass, uniform[:, None]], axis=1)
                of_problem = problem[sample[counted]]
                for one in np.unique(of_problem).tolist():
                    found = self._mass.setdefault((update, name), {}).setdefault(one, [])
                    found.append(parts[..., of_problem == one])

    def heads(self) -> tuple[Head, ...]:
        """All heads, update by update and layer by layer; none before anything was added.

        The largest gain comes first; but of gains as large, the program's, and then as they were
        named. What a head cannot see at all comes last.
        """
        found: dict[str, dict[tuple[int, int], list[Overlap]]] = {}
        for (update, name), problems in self._mass.items():
            joined = [np.concatenate(parts, axis=-1) for parts in problems.values()]
            cells = sum(part.shape[-1] for part in joined)
            means = np.stack([part.mean(axis=-1) for part in joined])  # [P, layers, heads + 1]
            mean, number = means.mean(axis=0), len(means)
            margin = 1.96 * means.std(axis=0, ddof=1) / number**0.5 if number > 1 else np.inf
            low, high = np.maximum(mean - margin, 0), np.minimum(mean + margin, 1)
            for layer, head in np.ndindex(mean.shape[0], mean.shape[1] - 1):
                share, least, most = (float(of[layer, head]) for of in (mean, low, high))
                rest = float(mean[layer, -1]), cells, number, name in self._used
                overlap = Overlap(name, share, least, most, *rest)
                found.setdefault(update, {}).setdefault((layer, head), []).append(overlap)
        return tuple(
            Head(update, layer + 1, head + 1, _ranked(overlaps))
            for update, of_update in found.items()
            for (layer, head), overlaps in sorted(of_update.items())
        )


def _ranked(overlaps: list[Overlap]) -> tuple[Overlap, ...]:
    ranked = sorted(overlaps, key=lambda one: (not one.baseline, -one.gain))
    close = [one for one in overlaps if one.baseline and one.gain > ranked[0].gain - _CLOSE]
    best = min(close, key=lambda one: not one.in_program, default=ranked[0])
    return best, *(one for one in ranked if one is not best)


def compare_heads(
    solver: Solver,
    size: dict[str, int],
    problems: int = 16,
    seed: int = 0,
    note: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Compare the heads of a model with selectors, on all rows of problems of one size.

    The rows above are the true ones (teacher-forced), and the cells that count those of the masked
    row in which a symbol is to be written. Fewer problems where not as many are held out; ``note``
    is told what is going on. ValueError: see `watch`; the layout has no program; no such problems.
    """
    task, predictor = solver.task, solver.predictor
    check_program(task.layout)
    low, high = size.values()
    check_cells(predictor.model)
    name = size_name(tuple(size), (low, high))
    asked = cell_problems(task, task.of_size(**size), problems, seed)
    if not len(asked):
        raise ValueError(f"no problem of {name} is held out: name another size")
    steps, right = row_steps(solver.draw_worked(asked)), 0
    number, height, width = steps.inputs.shape
    note(f"{number:,} rows of {len(asked)} problems of {name}")
    untrained = copy(predictor)
    untrained.model = drawn_anew(predictor.model)
    tallies = Overlaps(), Overlaps()
    at_once = max(1, _PAIRS_AT_ONCE // (height * width) ** 2)
    for start in range(0, number, at_once):
        batch = _some(steps, slice(start, start + at_once))
        cells = (batch.answer & (batch.labels != symbols.BLANK)).reshape(len(batch.inputs), -1)
        taken = None
        for model, tally in zip((predictor, untrained), tallies, strict=True):
            seen = watch(model, task, batch.inputs, batch.labels, taken)
            tally.add(seen, cells, batch.problem)
            taken = seen.steps
        right += int((seen.written == batch.labels).all(axis=(1, 2)).sum())
    heads = (tally.heads() for tally in tallies)
    return Comparison(size, name, SPLIT, len(asked), number, right, *heads)


def one_row(solver: Solver, problem: Problems, row: int | None) -> tuple[RowSteps, int, Watched]:
    """One row of one problem, from 0 (None: the last), to be drawn, and its number."""
    steps = row_steps(solver.draw_worked(problem))
    at = len(steps.inputs) - 1 if row is None else row
    one = _some(steps, slice(at, at + 1))
    return one, at, watch(solver.predictor, solver.task, one.inputs, one.labels)


def _some(steps: RowSteps, which: slice) -> RowSteps:
    return replace(steps, **{name: part[which] for name, part in vars(steps).items()})

"""Heads of a trained model beside the selectors of its layout's program, on held-out problems."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import numpy as np

from canvas import symbols
from canvas.render import row_steps
from trm.analysis.rasp import NAMES, Selector
from trm.analysis.rasp_programs import write_row
from trm.analysis.record import SequenceRecorder, cell_attention, check_cells
from trm.grid_cells import cell_problems, size_name
from trm.models.gpt import GPT
from trm.solving.rollout import Predictor
from trm.solving.solver import Solver
from trm.statistics import bootstrap
from trm.torch_settings import standard_settings

_CLOSE = 0.05  # gains that differ by less are as large


@dataclass(frozen=True)
class Overlap:
    """The attention of one head on what one selector selects.

    Means over problems, of each the mean over cells, of those for which the selector selects a cell
    that the model has a token for.
    """

    selector: str
    overlap: float  # attention on the selected cells, 0 to 1
    low: float  # its 95 % interval, a bootstrap over problems
    high: float
    baseline: float  # what uniform attention over all that the head can see would put there
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
    """The heads of a model on held-out problems of one size."""

    size: dict[str, int]  # by two measures of the task
    name: str  # of the size
    problems: int
    rows: int  # of all problems
    program_right: int  # rows that the program writes as the truth has them
    program_selectors: list[str]
    heads: tuple[Head, ...]  # update by update, layer by layer


@standard_settings()
def watch(predictor: Predictor, inputs: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """The attention of heads when the masked rows ``uint8 [B, H, W]``, upright, are filled in.

    By the name of the tensor that is updated, float32 [layers, B, heads, N, N], see
    `trm.analysis.record.cell_attention`, in the supervision step in which the slowest row ends. Of
    a GPT loop by loop [blocks, B, heads, N, K]: from the token that writes each cell, with the true
    symbols before it (teacher-forced), to those that show the cells, then the start and the row
    ends; the token that writes a cell shows the cell on the right. ValueError: the model has no
    attention between cells.
    """
    if isinstance(predictor.model, GPT):
        recorder = SequenceRecorder(predictor.model, labels)
        writers = recorder.writers.cpu().numpy()
        others = np.setdiff1d(np.arange(recorder.length), writers + 1)
        keys = np.concatenate((writers + 1, others))
        seen = recorder.attention()
        return {name: of.numpy()[..., writers[:, None], keys] for name, of in seen.items()}
    seen = cell_attention(predictor.model, inputs, int(predictor(inputs).steps.max()))
    if not seen:
        raise ValueError(
            "this model has no attention that can be read off between cells: there are no heads to "
            "compare"
        )
    return {name: of.numpy() for name, of in seen.items()}


def overlaps(
    by_update: dict[str, np.ndarray], selectors: dict[str, Selector], cells: np.ndarray
) -> dict[tuple[str, str], np.ndarray]:
    """By update and selector, the attention of each head on what is selected, a mean over cells.

    Float [layers, heads + 1], the last of which is what uniform attention over all that a head can
    see would put there: all that any head of the layer gives some attention to, as a mask gives
    exactly none. Of ``cells``, ``bool [B, N]``, are the queries that count, if the selector selects
    a cell there that the model has a token for.
    """
    found = {}
    for update, attention in by_update.items():
        batch, positions = attention.shape[1], attention.shape[-2]
        tokens = np.asarray(attention.any(axis=(0, 2, 4)))  # [B, N]
        sample, query = np.nonzero(cells & tokens)
        weights = attention.swapaxes(1, 2)[:, :, sample, query]  # [layers, heads, M, K]
        visible = weights.any(axis=1, keepdims=True)
        uniform = visible / visible.sum(axis=-1, keepdims=True)
        weights = np.concatenate([weights, uniform], axis=1)[..., :positions]
        for name, selector in selectors.items():
            everyone = np.broadcast_to(selector, (batch, positions, positions))
            chosen = everyone[sample, query] & tokens[sample]  # [M, N]
            if (counted := chosen.any(axis=1)).any():
                found[update, name] = (weights * chosen).sum(axis=-1)[..., counted].mean(axis=-1)
    return found


def heads_of(
    problems: Iterable[dict[tuple[str, str], np.ndarray]], used: Collection[str]
) -> tuple[Head, ...]:
    """All heads, update by update and layer by layer, from the `overlaps` of each problem.

    The largest gain comes first; but of gains as large, that of a selector that is used, and then
    as they were named. What a head cannot see at all comes last.
    """
    gathered, found = defaultdict(list), defaultdict(list)
    for of_problem in problems:
        for key, means in of_problem.items():
            gathered[key].append(means)
    for (update, name), of_problems in gathered.items():
        means = np.stack(of_problems)  # [P, layers, heads + 1]
        mean, (low, high) = means.mean(axis=0), bootstrap(means)
        for layer, head in np.ndindex(mean.shape[0], mean.shape[1] - 1):
            share, least, most = (float(of[layer, head]) for of in (mean, low, high))
            overlap = Overlap(name, share, least, most, float(mean[layer, -1]), name in used)
            found[update, layer + 1, head + 1].append(overlap)
    heads = []
    for place, overlaps in found.items():
        ranked = sorted(overlaps, key=lambda one: (not one.baseline, -one.gain))
        close = [one for one in overlaps if one.baseline and one.gain > ranked[0].gain - _CLOSE]
        best = min(close, key=lambda one: not one.in_program, default=ranked[0])
        heads.append(Head(*place, (best, *(one for one in ranked if one is not best))))
    return tuple(heads)


@standard_settings()
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
    is told what is going on. ValueError: see `watch`; the layout has no program; fewer than two
    such problems.
    """
    task, predictor = solver.task, solver.predictor
    check_cells(predictor.model)
    name = size_name(size, size.values())
    asked = cell_problems(task, task.of_size(**size), problems, seed)
    if len(asked) < 2:
        raise ValueError(f"fewer than two problems of {name} are held out: name another size")
    steps, right, used = row_steps(solver.draw_worked(asked)), 0, set[str]()
    note(f"{len(steps.inputs):,} rows of {len(asked)} problems of {name}")
    found = []
    for number in range(len(asked)):
        rows = steps.problem == number
        inputs, labels, answer = steps.inputs[rows], steps.labels[rows], steps.answer[rows]
        written, page = write_row(task.layout, inputs, task.base)
        used |= {*page.selectors}  # those of the program alone, so far
        selectors = {name: page.selector(name) for name in NAMES} | page.selectors
        cells = (answer & (labels != symbols.BLANK)).reshape(len(inputs), -1)
        found.append(overlaps(watch(predictor, inputs, labels), selectors, cells))
        right += int((written == labels).all(axis=(1, 2)).sum())
    heads = heads_of(found, used)
    return Comparison(size, name, len(asked), len(steps.inputs), right, sorted(used), heads)

"""Comparison of a model's heads with selectors of its layout's program, on held-out problems."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from canvas import symbols
from canvas.drawing import row_steps
from canvas.formats import Formatted
from canvas.texts import TextTask
from trm.evaluation.grid_cells import cell_problems, size_name
from trm.evaluation.statistics import bootstrap
from trm.extras.analysis.rasp import NAMES, Selector
from trm.extras.analysis.rasp_programs import write_row
from trm.extras.analysis.rasp_texts import write_texts
from trm.extras.analysis.record import SequenceRecorder, cell_attention, check_cells
from trm.runtime.progress import report
from trm.runtime.torch_settings import standard_settings
from trm.solving.families import family_of
from trm.solving.predictor import Predictor
from trm.solving.solver import Solver

_CLOSE = 0.05  # gains that differ by less count as equal


@dataclass(frozen=True)
class Overlap:
    """Attention of one head on the cells that one selector selects.

    Values are means over problems of the mean over a problem's cells. Only cells count for which
    the selector selects a cell with a token.
    """

    selector: str
    overlap: float  # attention on the selected cells, 0 to 1
    low: float  # lower end of its 95 % interval, a bootstrap over problems
    high: float
    baseline: float  # overlap of uniform attention over all visible tokens
    in_program: bool  # True for a selector of the layout's program

    @property
    def gain(self) -> float:
        """Overlap above the baseline; a wide selector has a high baseline."""
        return self.overlap - self.baseline


@dataclass(frozen=True)
class Head:
    """Overlaps of one attention head with all selectors."""

    update: str  # name of the updated tensor; for a GPT ``tokens`` or the loop
    layer: int  # from 1, like the head; a GPT's layers are its blocks
    head: int
    overlaps: tuple[Overlap, ...]  # largest gain first; of gains within 0.05, the program's

    @property
    def best(self) -> Overlap:
        """Overlap with the selector that matches the head best."""
        return self.overlaps[0]

    def of(self, selector: str) -> Overlap:
        """Return the overlap with one selector, by its name."""
        return next(one for one in self.overlaps if one.selector == selector)


@dataclass(frozen=True)
class HeadComparison:
    """Comparison of a model's heads with selectors, on held-out problems of one size."""

    size: dict[str, int]  # two measures of the task
    name: str  # of the size
    problems: int
    rows: int  # of all problems
    program_right: int  # rows that the program writes correctly
    program_selectors: list[str]
    heads: tuple[Head, ...]  # update by update, layer by layer


@standard_settings()
def watch(predictor: Predictor, inputs: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """Return the attention weights of heads while masked rows are filled in.

    ``inputs`` and ``labels`` are upright canvases ``uint8 [B, H, W]``. The result has an array for
    each updated tensor, by its name:

    - Model with supervision steps: float32 [layers, B, heads, N, N], see
      `trm.extras.analysis.record.cell_attention`, in the step in which the slowest row ends.
    - GPT, loop by loop: float32 [blocks, B, heads, N, K]. Queries are the tokens that write the N
      cells, after the true symbols (teacher-forced). Keys are the tokens of the N cells' symbols,
      then the start and the row ends. The token that writes a cell is that of the cell on its
      right.

    Raises:
        ValueError: the model has no attention between cells.
    """
    if family_of(predictor.model).reads_sequences:
        recorder = SequenceRecorder(predictor.model, labels)
        writers = recorder.writers.cpu().numpy()
        others = np.setdiff1d(np.arange(recorder.length), writers + 1)
        keys = np.concatenate((writers + 1, others))
        weights = recorder.attention()
        return {name: w.numpy()[..., writers[:, None], keys] for name, w in weights.items()}
    weights = cell_attention(predictor.model, inputs, int(predictor(inputs).steps.max()))
    if not weights:
        raise ValueError(
            "this model has no attention between cells that can be recorded, so there are no heads "
            "to compare"
        )
    return {name: w.numpy() for name, w in weights.items()}


def overlaps(
    by_update: dict[str, np.ndarray], selectors: dict[str, Selector], cells: np.ndarray
) -> dict[tuple[str, str], np.ndarray]:
    """Return the attention of each head on the selected cells, a mean over queries.

    The result has an array for each (update, selector): float [layers, heads + 1]. Its last column
    is the overlap of uniform attention over all visible tokens. Visible are all tokens with
    nonzero attention in some head of the layer, as a mask gives exactly 0. ``cells``, ``bool
    [B, N]``, marks the queries. A query counts if the selector selects a cell that has a token.
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
    """Return all heads, update by update and layer by layer, from the `overlaps` of each problem.

    The largest gain comes first. Of equal gains the first is that of a selector in ``used``, and
    then the one named first. Selectors of cells that a head cannot attend to come last.
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
    solver: Solver, size: dict[str, int], problems: int = 16, seed: int = 0
) -> HeadComparison:
    """Compare the heads of a model with selectors, on all rows of problems of one size.

    The rows above are the true ones (teacher-forced). Queries are the cells of the masked row whose
    true symbol is not blank. There are fewer problems where not enough are held out.

    Raises:
        ValueError: the model has no attention between cells, the layout or its format has no
            program, or fewer than two problems of the size are held out.
    """
    task, predictor = solver.task, solver.predictor
    check_cells(predictor.model)
    if isinstance(task.canvas_layout, Formatted):
        raise ValueError("additions in plain order or with index hints have no program")
    name = size_name(size, size.values())
    drawn = cell_problems(task, task.of_size(**size), problems, seed)
    if len(drawn) < 2:
        raise ValueError(f"fewer than two problems of {name} are held out: name another size")
    steps, right, used = row_steps(solver.draw_worked(drawn)), 0, set[str]()
    found = []
    for number in range(len(drawn)):
        report(f"problems of {name}", number, len(drawn))
        rows = steps.problem == number
        inputs, labels, answer = steps.inputs[rows], steps.labels[rows], steps.answer[rows]
        if isinstance(task, TextTask):
            written, page = write_texts(task, inputs)
        else:
            written, page = write_row(task.layout, inputs, task.base)
        used |= {*page.selectors}  # so far only those of the program
        selectors = {name: page.selector(name) for name in NAMES} | page.selectors
        cells = (answer & (labels != symbols.BLANK)).reshape(len(inputs), -1)
        found.append(overlaps(watch(predictor, inputs, labels), selectors, cells))
        right += int((written == labels).all(axis=(1, 2)).sum())
    heads = heads_of(found, used)
    return HeadComparison(size, name, len(drawn), len(steps.inputs), right, sorted(used), heads)

"""Features of a frozen model: the states of its tokens on canvases, with classes of sub-tasks.

The sub-tasks of a layout are the outputs of its local rule (`canvas.cells`), except those that the
row writes itself. Their classes are computed for every cell of a row that is filled in. An
iterative model reads row steps, canvases with one row masked. A GPT reads the whole true canvas as
a sequence; a cell is represented by the token that writes it, the one before.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from canvas.cells.subtasks import draw_subtasks, needed
from canvas.drawing import UNDEFINED, row_steps
from canvas.problems import Problems
from canvas.sampling import sample
from trm.evaluation.grid_cells import fitted, region_of, size_name
from trm.extras.analysis.record import SequenceRecorder, StepRecorder, Visits
from trm.models.context import Context
from trm.models.states import named
from trm.runtime.progress import report
from trm.runtime.torch_settings import standard_settings
from trm.solving.families import family_of
from trm.solving.predictor import Predictor
from trm.solving.solver import Solver

INPUT = "input"  # the embedded tokens, before any computation
BLOCKS = "block"  # outputs of a GPT's blocks
_TOKENS_AT_ONCE = 2**14  # cells of the canvases in one batch of a model
_PROBLEMS_AT_ONCE = 64  # drawn on canvases of one size


def examples(
    solver: Solver, problems: Problems, all_rows: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return B inputs of a model, and the classes of sub-tasks in the rows that are filled in.

    - inputs: row steps ``uint8 [B, H, W]``; for a GPT the finished canvases.
    - targets: ``uint8 [B, H, W, sub-tasks]``, in the layout's order; elsewhere `UNDEFINED`.
    - problem: ``int64 [B]``, the index of each input's problem.

    Without ``all_rows`` targets are the `needed` ones.

    Raises:
        ValueError: a problem does not fit the canvas.
    """
    drawing = solver.draw_worked(problems)
    if family_of(solver.predictor.model).reads_sequences:
        problem, inputs, row = np.arange(len(problems)), drawing.truth, None
        filled = drawing.unknown
    else:
        steps = row_steps(drawing)
        problem, inputs, filled, row = steps.problem, steps.inputs, steps.answer, steps.row
        drawing = drawing[problem]
    subtasks = draw_subtasks(solver.task.local_rule(), drawing, row)
    if not all_rows:
        subtasks = needed(subtasks, drawing)
    targets = np.where(filled[..., None], np.stack([*subtasks.values()], axis=-1), UNDEFINED)
    return inputs, targets.astype(np.uint8), problem


class FeaturePlace(NamedTuple):
    """Place of features: after a supervision step, or after a number of a GPT's blocks.

    The name is that of a tensor of the state, ``input`` (of step 0), or ``block``.
    """

    name: str
    step: int
    layer: int = 0  # from 1, whose output the features are; 0: the last


class Observed(NamedTuple):
    """Features of a model's tokens on B canvases."""

    features: dict[FeaturePlace, Tensor]  # floating [B, S, D] for each point
    main: str  # name of the points from which the head reads the answer
    cells: Tensor  # int64 [B, S], the cell of each token, row by row; H * W for padding


@standard_settings()
def observe(
    predictor: Predictor, inputs: np.ndarray, steps: Sequence[int], layers: bool = False
) -> Observed:
    """Run a model on canvases ``uint8 [B, H, W]`` and return the features of its tokens.

    They are features of an iterative model after each of ``steps``, or of a GPT after each block.
    With ``layers``, models with `updates` also have features after each layer of a step's last
    update.

    Raises:
        ValueError: the states are not made of tokens, or the model refuses the canvases.
    """
    model = predictor.model
    if family_of(model).reads_sequences:
        decoder = SequenceRecorder(model, inputs)
        sites = {FeaturePlace(INPUT, 0): Visits(INPUT, ("blocks.0.input",), frozenset({1}))}
        sites |= {FeaturePlace(BLOCKS, n): site for n, site in enumerate(decoder.states(), start=1)}
        values = decoder.run([*sites.values()]).values
        read = {point: values[site][0][:, decoder.writers] for point, site in sites.items()}
        return Observed(read, BLOCKS, decoder.cells)
    recorder = StepRecorder(model, inputs, max(steps))
    tensors = [*named(recorder.initial)]
    # Visits, and the number of the tensor among their values.
    found: dict[FeaturePlace, tuple[Visits, int]] = {}
    for step, state in zip(sorted(steps), recorder.states(sorted(steps)), strict=True):
        for name, passed in recorder.layers(step).items() if layers else ():
            for layer, output in enumerate(passed[:-1], start=1):  # the last gives the state
                found[FeaturePlace(name, step, layer)] = output, 0
        found |= {FeaturePlace(name, step): (state, number) for number, name in enumerate(tensors)}
    values = recorder.run([*dict.fromkeys(site for site, _ in found.values())]).values
    read = {
        point: recorder.by_token(point.name, values[site][number])
        for point, (site, number) in found.items()
    }
    if isinstance(recorder.context, Context):
        inside = recorder.by_token(INPUT, recorder.context.inputs)
        read = {FeaturePlace(INPUT, 0): inside} | read
    return Observed(read, str(model.updates[-1]) if model.updates else tensors[0], recorder.cells)


def observe_all(
    predictor: Predictor, inputs: np.ndarray, steps: Sequence[int], layers: bool = False
) -> Iterator[tuple[slice, Observed]]:
    """Yield the results of `observe` in batches, each with the slice of its canvases."""
    size = max(1, _TOKENS_AT_ONCE // inputs[0].size)
    for start in range(0, len(inputs), size):
        some = slice(start, start + size)
        yield some, observe(predictor, inputs[some], steps, layers)


class CellFeatures(NamedTuple):
    """N cells with at least one defined sub-task, and the features of their tokens."""

    features: dict[FeaturePlace, Tensor]  # floating [N, D] for each point
    targets: np.ndarray  # uint8 [N, sub-tasks]
    problem: np.ndarray  # int64 [N]


@standard_settings()
def read(
    solver: Solver, problems: Problems, steps: Sequence[int], all_rows: bool = True
) -> tuple[CellFeatures, str]:
    """Return the cells of all rows of problems, and the main name, see `Observed`.

    Without ``all_rows`` their targets are the `needed` ones.
    """
    inputs, targets, problem = examples(solver, problems, all_rows)
    targets, parts = targets.reshape(len(inputs), -1, targets.shape[-1]), list[CellFeatures]()
    for some, observed in observe_all(solver.predictor, inputs, steps):
        cells = observed.cells.cpu().numpy()
        example, token = np.nonzero(cells < targets.shape[1])
        of_cells = targets[some][example, cells[example, token]]
        defined = (of_cells != UNDEFINED).any(axis=1)
        example, token = example[defined], token[defined]
        index = tuple(torch.from_numpy(at).to(observed.cells.device) for at in (example, token))
        features = {point: of_tokens[index] for point, of_tokens in observed.features.items()}
        parts.append(CellFeatures(features, of_cells[defined], problem[some][example]))
    return joined(parts), observed.main


def joined(parts: Sequence[CellFeatures]) -> CellFeatures:
    """Concatenate the cells of several batches."""
    features = {point: torch.cat([of.features[point] for of in parts]) for point in parts[0][0]}
    return CellFeatures(
        features, *(np.concatenate(part) for part in [*zip(*parts, strict=True)][1:])
    )


class Drawn(NamedTuple):
    """Held-out problems of one size."""

    name: str  # of the size
    region: str  # as in ``grid.json``
    solver: Solver  # on a canvas that is large enough
    problems: Problems


def drawn_sizes(
    solver: Solver, sizes: Sequence[dict[str, int]], problems: int, seed: int
) -> list[Drawn]:
    """Draw held-out problems of several sizes.

    Raises:
        ValueError: a size cannot be measured.
    """
    found = []
    for size in sizes:
        axes, (a, b) = tuple(size), size.values()
        on_canvas, drawn, reason = fitted(solver, axes, (a, b), problems, seed)
        if on_canvas is None or reason is not None:
            raise ValueError(f"there is nothing to probe: {reason}")
        where = region_of(solver, axes, (a, b))
        found.append(Drawn(size_name(axes, (a, b), solver.task.unit), where, on_canvas, drawn))
    return found


def read_training(
    solver: Solver, problems: int, seed: int, steps: Sequence[int], all_rows: bool = True
) -> tuple[CellFeatures, str]:
    """Return the cells of problems of the training split, and the main name, see `read`."""
    parts = []
    for start in range(0, problems, _PROBLEMS_AT_ONCE):
        report("reading training problems", start, problems)
        index = np.arange(start, min(start + _PROBLEMS_AT_ONCE, problems))
        cells, main = read(solver, sample(solver.task, seed, "train", 0, index), steps, all_rows)
        parts.append(cells)
    return joined(parts), main

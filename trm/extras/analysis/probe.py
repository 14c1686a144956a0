"""Linear probes of sub-tasks on the states of a frozen model.

The sub-tasks of a layout are the outputs of its local rule (`canvas.cells`), except those
that the row writes itself. Their classes are computed for every cell of a row that is filled in. An
iterative model reads row steps, canvases with one row masked. A GPT reads the whole true canvas as
a sequence; a cell is represented by the token that writes it, the one before. Probes are
multinomial logistic regressions (Alain and Bengio 2016, "Understanding intermediate layers using
linear classifier probes"). A control probe on a re-initialised network measures what the probe
itself learns.

Probes are fitted to problems of the training split, drawn as in the model's own training. They are
evaluated on problems of the test split, so on none of the model's training problems. The cells of a
problem are not independent: intervals are 95 % bootstrap intervals over problems. Where all cells
are correct, or none, the interval is Wilson's for as many problems.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import PlainSerializer, TypeAdapter
from torch import Tensor

from canvas.cells.subtasks import draw_subtasks, needed, subtask_classes
from canvas.drawing import UNDEFINED, row_steps
from canvas.problems import Problems
from canvas.sampling import sample
from trm.evaluation.grid_cells import fitted, region_of, size_name
from trm.evaluation.statistics import Share, bootstrap
from trm.extras.analysis.record import SequenceRecorder, StepRecorder, Visits, check_cells
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
_LEAST_DEVIATION = 1e-6  # standard deviation below which a feature is ignored


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


class LinearProbe(NamedTuple):
    """Linear classifier of raw features; its weights include their standardisation."""

    weight: Tensor  # float32 [D, classes]
    bias: Tensor  # float32 [classes]

    def predict(self, features: Tensor) -> np.ndarray:
        """Return the likeliest class, ``int64 [N]``, for features [N, D]."""
        return (features.float() @ self.weight + self.bias).argmax(dim=-1).cpu().numpy()


@standard_settings()
def fit(
    features: Tensor, labels: Tensor, classes: int, l2: float = 1e-3, iterations: int = 60
) -> LinearProbe:
    """Minimise the mean cross entropy plus ``l2 / 2`` times the squared weights, by L-BFGS.

    The problem is convex and starts from zero, so the same data give the same probe. Features,
    floating [N, D], are standardised channel by channel. Labels are integer [N], below ``classes``;
    those that are `UNDEFINED` are left out. Weights decay, biases do not. The fit stops early when
    the loss no longer improves.

    Raises:
        ValueError: a feature is not finite.
    """
    defined = labels != UNDEFINED
    x, y = features[defined].float(), labels[defined].long()
    if not torch.isfinite(x).all():
        raise ValueError(
            "the model's states contain numbers that are not finite, to which no probe can be "
            "fitted"
        )
    mean, deviation = x.mean(dim=0), x.std(dim=0, correction=0)
    scale = torch.where(deviation > _LEAST_DEVIATION, 1 / deviation, 0.0)
    x = (x - mean) * scale
    weight = x.new_zeros(x.shape[1], classes, requires_grad=True)
    bias = x.new_zeros(classes, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [weight, bias],
        max_iter=iterations,
        tolerance_grad=1e-5,
        tolerance_change=1e-7,
        history_size=10,
        line_search_fn="strong_wolfe",
    )

    def objective() -> Tensor:
        optimiser.zero_grad()
        loss = F.cross_entropy(x @ weight + bias, y) + l2 / 2 * weight.square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        optimiser.step(objective)
    found = weight.detach() * scale[:, None]
    return LinearProbe(found, bias.detach() - mean @ found)


Count = Annotated[Share, PlainSerializer(Share.data)]


@dataclass(frozen=True)
class ProbeSettings:
    """Settings of a study, or of a measurement of the gap."""

    seed: int = 0  # selects the problems
    steps: tuple[int, ...] = tuple(range(1, 9))  # probed supervision steps, from 1
    problems: int = 32  # held-out problems of each size, or as many as exist
    train_problems: int = 400  # problems to which probes are fitted


@dataclass(frozen=True)
class ProbeScore:
    """Accuracy of a sub-task's probe at a point, over the cells of problems of one size."""

    size: str
    subtask: str
    site: str  # name of a `FeaturePlace`
    step: int  # step of that place
    probe: Count
    majority: Count  # accuracy of the class that is most frequent in training


@dataclass(frozen=True)
class ProbeStudy:
    """Results of a study, see the module."""

    settings: ProbeSettings
    main: str  # name of the points from which the head reads the answer
    train: dict[str, int]  # numbers of problems and cells to which probes were fitted
    sizes: dict[str, str]  # size name → region as in ``grid.json``
    readings: list[ProbeScore]

    def of(self, subtask: str, size: str) -> list[ProbeScore]:
        """Return the readings of the input, and then of the main points step by step."""
        wanted = (subtask, size)
        sites = (INPUT, self.main)
        return [r for r in self.readings if (r.subtask, r.size) == wanted and r.site in sites]

    @property
    def subtasks(self) -> list[str]:
        """Sub-tasks that occur in some row."""
        return list(dict.fromkeys(reading.subtask for reading in self.readings))

    @property
    def unit(self) -> str:
        """Unit of the steps."""
        return "block" if self.main == BLOCKS else f"supervision step of {self.main}"

    def to_json(self) -> dict[str, Any]:
        """Return the study as plain data; a share of cells is ``{right, total, low, high}``."""
        data: dict[str, Any] = TypeAdapter(ProbeStudy).dump_python(self, mode="json")
        return data


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


@standard_settings()
def run_probes(
    solver: Solver, sizes: Sequence[dict[str, int]], settings: ProbeSettings
) -> ProbeStudy:
    """Probe a frozen model on problems of several sizes.

    A size has two of the task's measures, like ``{"digits_a": 4, "digits_b": 2}``.

    Raises:
        ValueError: the layout has no local rule, a size cannot be measured, there are no training
            problems, the states cannot be probed, or the model is a cell model.
    """
    task = solver.task
    check_cells(solver.predictor.model)
    rule = task.local_rule()
    tested = drawn_sizes(solver, sizes, settings.problems, settings.seed)
    regions = {one.name: one.region for one in tested}
    training, main = read_training(solver, settings.train_problems, settings.seed, settings.steps)
    there = (training.targets != UNDEFINED).any(axis=0)  # others are defined in no cell
    classes = subtask_classes(rule)
    names = np.array([*classes])[there].tolist()
    labels = training.targets[:, there].T
    majority = np.array([np.bincount(of[of != UNDEFINED]).argmax() for of in labels])
    probes = dict[FeaturePlace, list[LinearProbe]]()
    for done, (point, features) in enumerate(training.features.items()):
        report("fitting probes", done, len(training.features))
        probes[point] = [
            fit(features, torch.from_numpy(of).to(features.device), classes[name])
            for of, name in zip(labels, names, strict=True)
        ]
    readings = []
    for done, (of_size, _, on_canvas, problems) in enumerate(tested):
        report("probing problems of a size", done, len(tested))
        cells, _ = read(on_canvas, problems, settings.steps)
        truth = cells.targets[:, there]
        plain = shares_right(majority, truth, cells.problem)
        for point, of_point in probes.items():
            predicted = np.stack([one.predict(cells.features[point]) for one in of_point], axis=1)
            both = zip(names, shares_right(predicted, truth, cells.problem), plain, strict=True)
            where = point.name, point.step
            readings += [ProbeScore(of_size, name, *where, *shares) for name, *shares in both]
    train = {"problems": settings.train_problems, "cells": len(training.targets)}
    return ProbeStudy(settings, main, train, regions, readings)


def shares_right(predicted: np.ndarray, truth: np.ndarray, problem: np.ndarray) -> list[Share]:
    """Return the share of correct classes of each of S sub-tasks, over its defined cells.

    ``predicted`` and ``truth`` are ``[N, S]`` (or broadcast to it). ``problem``, ``int64 [N]``, is
    the problem of each cell; intervals are over problems.
    """
    right, total = np.zeros((2, int(problem.max()) + 1, truth.shape[1]), dtype=np.int64)
    np.add.at(right, problem, (predicted == truth) & (truth != UNDEFINED))
    np.add.at(total, problem, truth != UNDEFINED)
    return [*map(share, right.T, total.T)]


def share(right: np.ndarray, total: np.ndarray) -> Share:
    """Return a share of cells from counts by problem ``int64 [P]``, with an interval over them."""
    k, n = int(right.sum()), int(total.sum())
    if not 0 < k < n:
        problems = int((total > 0).sum())
        return Share(k, n, ends=Share(problems if k else 0, problems).interval)
    low, high = bootstrap(right, total)
    return Share(k, n, ends=(float(low), float(high)))


Settings = ProbeSettings  # its released name

"""Linear probes: which sub-tasks can be read from the states of a frozen model.

Of every cell of a row that is filled in it is known what its layout's sub-tasks are there: what the
rule of its cells decides (`canvas.cell_inputs`), but for what the row writes itself. An iterative
model reads row steps, canvases with one row masked. A GPT reads the whole true canvas as a
sequence; the token before a cell is the one that writes it, and stands for it here. Probes are
multinomial logistic regressions (Alain and Bengio 2016, "Understanding intermediate layers using
linear classifier probes"). What a probe learns by itself, rather than reads, one tells that is
fitted to the same network with weights drawn anew.

Probes are fitted to problems of the training split, drawn as the model's own training draws them,
and read on problems of the test split, so that none of these were ever seen. The cells of a problem
are not independent: intervals are 95 % bootstrap intervals over problems; where all cells are
right, or none, the Wilson interval of as many problems.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import PlainSerializer, TypeAdapter
from torch import Tensor

from canvas.cell_inputs import LocalRule
from canvas.layouts import ANSWER, PARTIAL, SUM
from canvas.pages import UNDEFINED, draw_signals
from canvas.problems import Problems
from canvas.render import WorkedDrawing, row_steps
from canvas.sampling import sample
from trm.analysis.record import SequenceRecorder, Site, StepRecorder, check_cells
from trm.grid_cells import fitted, region, size_name
from trm.models.gpt import GPT
from trm.models.iterative import named
from trm.models.recursive import Context
from trm.solving.rollout import Predictor
from trm.solving.solver import Solver
from trm.statistics import Share, bootstrap
from trm.torch_settings import standard_settings

INPUT = "input"  # the embedded tokens, before anything has been computed
BLOCKS = "block"  # of a GPT, what each block passes on
_TOKENS_AT_ONCE = 2**14  # cells of the canvases that a model reads at once
_PROBLEMS_AT_ONCE = 64  # drawn on canvases of one size
_LEAST_DEVIATION = 1e-6  # of a feature that says anything
# Fields that are what rows of some kinds write.
_WRITTEN = {"product": (PARTIAL,), "sum": (SUM, ANSWER), "addend": (SUM, ANSWER)}


def draw_subtasks(
    rule: LocalRule, drawing: WorkedDrawing, step: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """As `draw_signals`, with `LocalRule.draw_probe_targets`; undefined in rows that write a
    field."""
    maps = draw_signals(rule, drawing, step) | rule.draw_probe_targets(drawing)
    for name in maps.keys() & _WRITTEN.keys():
        sample, row = np.isin(drawing.kinds, _WRITTEN[name]).nonzero()
        maps[name][sample, drawing.top[sample] + row] = UNDEFINED
    return maps


def examples(solver: Solver, problems: Problems) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What a model reads of problems, B times, and what is known of the rows that are filled in.

    Returns row steps ``uint8 [B, H, W]``, of a GPT the finished canvases; the classes of sub-tasks,
    ``uint8 [B, H, W, sub-tasks]``, in the layout's order, and `UNDEFINED` elsewhere; and the index
    of each one's problem, ``int64 [B]``. ValueError: a problem does not fit the canvas.
    """
    drawing = solver.draw_worked(problems)
    if isinstance(solver.predictor.model, GPT):
        problem, inputs, step = np.arange(len(problems)), drawing.truth, None
        filled = drawing.unknown
    else:
        steps = row_steps(drawing)
        problem, inputs, filled, step = steps.problem, steps.inputs, steps.answer, steps.step
        drawing = drawing[problem]
    subtasks = draw_subtasks(solver.task.local_rule(), drawing, step)
    targets = np.where(filled[..., None], np.stack([*subtasks.values()], axis=-1), UNDEFINED)
    return inputs, targets.astype(np.uint8), problem


class Point(NamedTuple):
    """Where features are read: after a supervision step, or after so many blocks of a GPT.

    The name is that of a tensor of the state, perhaps with a layer, like ``z_L, layer 1``; or
    ``input`` (of step 0), or ``block``.
    """

    name: str
    step: int


class Observed(NamedTuple):
    """Canvases as a model reads them."""

    features: dict[Point, Tensor]  # of each point, floating [B, S, D], one row a token
    main: str  # the name of the points that the answer is read from in the end
    cells: Tensor  # int64 [B, S], the cell of each token, row by row; H * W where it is padding


@standard_settings()
def observe(
    predictor: Predictor, inputs: np.ndarray, steps: Sequence[int], layers: bool = False
) -> Observed:
    """Let a model read ``uint8 [B, H, W]``; iterative ones after these steps, a GPT after blocks.

    With ``layers`` states are read after each layer of a step's last update, too, if the model
    tells its updates. ValueError: the states are not made of tokens, or the canvases are refused.
    """
    model = predictor.model
    if isinstance(model, GPT):
        decoder = SequenceRecorder(model, inputs)
        sites = {Point(INPUT, 0): Site(INPUT, model.layers[0], "input", calls=frozenset({0}))}
        sites |= {Point(BLOCKS, n): site for n, site in enumerate(decoder.states(), start=1)}
        values = decoder.run([*sites.values()]).values
        read = {point: values[site][0][:, decoder.writers] for point, site in sites.items()}
        return Observed(read, BLOCKS, decoder.cells)
    recorder = StepRecorder(model, inputs, max(steps))
    tensors = [*named(recorder.initial)]
    found: dict[Point, tuple[Site, int]] = {}  # and which of the tensors that it holds
    for step, state in zip(sorted(steps), recorder.states(sorted(steps)), strict=True):
        for name, passed in recorder.layers(step).items() if layers else ():
            for k, site in enumerate(passed[:-1]):  # the last gives the state
                found[Point(f"{name}, layer {k + 1}", step)] = site, 0
        found |= {Point(name, step): (state, number) for number, name in enumerate(tensors)}
    values = recorder.run([*dict.fromkeys(site for site, _ in found.values())]).values
    read = {
        point: recorder.by_token(point.name, values[site][number])
        for point, (site, number) in found.items()
    }
    if isinstance(recorder.context, Context):
        inside = recorder.by_token(INPUT, recorder.context.inputs)
        read = {Point(INPUT, 0): inside} | read
    return Observed(read, str(model.updates[-1]) if model.updates else tensors[0], recorder.cells)


def observe_all(
    predictor: Predictor, inputs: np.ndarray, steps: Sequence[int], layers: bool = False
) -> Iterator[tuple[slice, Observed]]:
    """As `observe`, in batches, each with which of the canvases they are."""
    size = max(1, _TOKENS_AT_ONCE // inputs[0].size)
    for start in range(0, len(inputs), size):
        some = slice(start, start + size)
        yield some, observe(predictor, inputs[some], steps, layers)


class Cells(NamedTuple):
    """N cells in which some sub-task is defined, with the features of their tokens."""

    features: dict[Point, Tensor]  # floating [N, D] at each point
    targets: np.ndarray  # uint8 [N, sub-tasks]
    problem: np.ndarray  # int64 [N]


@standard_settings()
def read(solver: Solver, problems: Problems, steps: Sequence[int]) -> tuple[Cells, str]:
    """The cells of all rows of problems, and the main points, see `Observed`."""
    inputs, targets, problem = examples(solver, problems)
    targets, parts = targets.reshape(len(inputs), -1, targets.shape[-1]), list[Cells]()
    for some, seen in observe_all(solver.predictor, inputs, steps):
        cells = seen.cells.cpu().numpy()
        example, token = np.nonzero(cells < targets.shape[1])
        of_cells = targets[some][example, cells[example, token]]
        defined = (of_cells != UNDEFINED).any(axis=1)
        example, token = example[defined], token[defined]
        index = tuple(torch.from_numpy(at).to(seen.cells.device) for at in (example, token))
        features = {point: of_tokens[index] for point, of_tokens in seen.features.items()}
        parts.append(Cells(features, of_cells[defined], problem[some][example]))
    return joined(parts), seen.main


def joined(parts: Sequence[Cells]) -> Cells:
    """Cells of several batches as one."""
    features = {point: torch.cat([of.features[point] for of in parts]) for point in parts[0][0]}
    return Cells(features, *(np.concatenate(part) for part in [*zip(*parts, strict=True)][1:]))


class LinearProbe(NamedTuple):
    """Logits of classes from features as they are, with their standardisation worked in."""

    weight: Tensor  # float32 [D, classes]
    bias: Tensor  # float32 [classes]

    def said(self, features: Tensor) -> np.ndarray:
        """The likeliest class, ``int64 [N]``, of features [N, D]."""
        return (features.float() @ self.weight + self.bias).argmax(dim=-1).cpu().numpy()


@standard_settings()
def fit(
    features: Tensor, labels: Tensor, classes: int, l2: float = 1e-3, iterations: int = 60
) -> LinearProbe:
    """Minimise the mean cross entropy plus ``l2 / 2`` times the squared weights, by L-BFGS.

    This is convex, and the start is zero, so the same data give the same probe. Features, floating
    [N, D], are standardised channel by channel; labels are integer [N], below the number of
    classes, or `UNDEFINED` and left out; weights decay, biases are free. It stops before so many
    iterations where nothing improves. ValueError: a feature is not finite.
    """
    defined = labels != UNDEFINED
    x, y = features[defined].float(), labels[defined].long()
    if not torch.isfinite(x).all():
        raise ValueError(
            "the model's states hold numbers that are not finite, to which no probe can be fitted"
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
class Settings:
    """How a study is done."""

    seed: int = 0  # which problems
    steps: tuple[int, ...] = tuple(range(1, 9))  # supervision steps that are probed, from 1
    problems: int = 32  # of each size, held out, or as many as there are
    train_problems: int = 400  # that probes are fitted to


@dataclass(frozen=True)
class Reading:
    """How well a sub-task is read at a point: cells that are right in problems of one size."""

    size: str
    subtask: str
    site: str  # see `trm.analysis.probe.Point`, as of the step
    step: int
    probe: Count
    majority: Count  # the class that is most frequent in training


@dataclass(frozen=True)
class ProbeStudy:
    """All of it, see the module."""

    settings: Settings
    main: str  # the name of the points that the answer is read from in the end
    train: dict[str, int]  # how many problems and cells probes were fitted to
    sizes: dict[str, str]  # by name, the region as in ``grid.json``
    readings: list[Reading]

    def of(self, subtask: str, size: str) -> list[Reading]:
        """Step by step where the answer is read from in the end, the input before."""
        wanted = (subtask, size)
        sites = (INPUT, self.main)
        return [r for r in self.readings if (r.subtask, r.size) == wanted and r.site in sites]

    @property
    def subtasks(self) -> list[str]:
        """Those that some row asks for."""
        return list(dict.fromkeys(reading.subtask for reading in self.readings))

    @property
    def unit(self) -> str:
        """What steps are."""
        return "block" if self.main == BLOCKS else f"supervision step of {self.main}"

    def to_json(self) -> dict[str, Any]:
        """As plain data; a share of cells is ``{right, total, low, high}``."""
        data: dict[str, Any] = TypeAdapter(ProbeStudy).dump_python(self, mode="json")
        return data


@standard_settings()
def run_probes(
    solver: Solver,
    sizes: Sequence[dict[str, int]],
    settings: Settings,
    note: Callable[[str], None] = lambda _: None,
) -> ProbeStudy:
    """Probe a frozen model, whose task says what is within the training range.

    Sizes are of problems by two of the task's measures, like ``{"digits_a": 4, "digits_b": 2}``.
    ``note`` is told what is going on, a line at a time. ValueError: the layout has no local rule, a
    size cannot be measured, there are no training problems, the states cannot be probed, or the
    model is a local one.
    """
    task = solver.task
    check_cells(solver.predictor.model)
    rule = task.local_rule()
    regions, asked = dict[str, str](), []
    for size in sizes:
        axes, (a, b) = tuple(size), size.values()
        on_canvas, problems, reason = fitted(solver, axes, (a, b), settings.problems, settings.seed)
        if on_canvas is None or reason is not None:
            raise ValueError(f"there is nothing to probe: {reason}")
        name = size_name(axes, (a, b))
        regions[name] = region(task.ranges, axes, (a, b))
        asked.append((name, on_canvas, problems))
    note(f"reading {settings.train_problems:,} training problems")
    parts = []
    for start in range(0, settings.train_problems, _PROBLEMS_AT_ONCE):
        index = np.arange(start, min(start + _PROBLEMS_AT_ONCE, settings.train_problems))
        problems = sample(task, settings.seed, "train", 0, index)
        cells, main = read(solver, problems, settings.steps)
        parts.append(cells)
    training = joined(parts)
    there = (training.targets != UNDEFINED).any(axis=0)  # others are written wherever they are
    names = np.array([*rule.signals, *rule.probe_targets])[there].tolist()
    note(f"fitting probes to {len(training.targets):,} cells at {len(training.features)} sites")
    labels = training.targets[:, there].T
    majority = np.array([np.bincount(of[of != UNDEFINED]).argmax() for of in labels])
    probes = {
        point: [
            fit(features, torch.from_numpy(of).to(features.device), rule.classes(name))
            for of, name in zip(labels, names, strict=True)
        ]
        for point, features in training.features.items()
    }
    readings = []
    for of_size, on_canvas, problems in asked:
        note(f"probing {len(problems)} problems of {of_size}")
        cells, _ = read(on_canvas, problems, settings.steps)
        truth = cells.targets[:, there]
        plain = shares_right(majority, truth, cells.problem)
        for point, of_point in probes.items():
            said = np.stack([one.said(cells.features[point]) for one in of_point], axis=1)
            both = zip(names, shares_right(said, truth, cells.problem), plain, strict=True)
            readings += [Reading(of_size, name, *point, *shares) for name, *shares in both]
    train = {"problems": settings.train_problems, "cells": len(training.targets)}
    return ProbeStudy(settings, main, train, regions, readings)


def shares_right(said: np.ndarray, truth: np.ndarray, problem: np.ndarray) -> list[Share]:
    """Of each of S sub-tasks, the cells in which classes are right: ``[N, S]`` both.

    Of what is not `UNDEFINED`. ``problem``, ``int64 [N]``, is that of each cell: the intervals are
    those of problems.
    """
    right, total = np.zeros((2, int(problem.max()) + 1, truth.shape[1]), dtype=np.int64)
    np.add.at(right, problem, (said == truth) & (truth != UNDEFINED))
    np.add.at(total, problem, truth != UNDEFINED)
    return [*map(share, right.T, total.T)]


def share(right: np.ndarray, total: np.ndarray) -> Share:
    """A share of cells from counts by problem ``int64 [P]``; its interval is that of problems."""
    k, n = int(right.sum()), int(total.sum())
    if not 0 < k < n:
        problems = int((total > 0).sum())
        return Share(k, n, ends=Share(problems if k else 0, problems).interval)
    low, high = bootstrap(right, total)
    return Share(k, n, ends=(float(low), float(high)))

"""Linear probes: which sub-tasks can be read from the states of a frozen model.

Of every cell that a model reads it is known what its layout's sub-tasks are there (`canvas.hints`).
An iterative model reads row steps, canvases with one row masked. A GPT reads the whole true canvas
as a sequence; the token before a cell is the one that writes it, and stands for it here. Probes are
multinomial logistic regressions (Alain and Bengio 2016, "Understanding intermediate layers using
linear classifier probes"); `trm.analysis.probe_study` counts what they get right.

Control tasks (Hewitt and Liang 2019, "Designing and Interpreting Probes with Control Tasks") tell
what a probe learns by heart, rather than reads. There a word's control label is a random function
of the word. Here a cell's is a random function of its *type*: the symbol that the model reads
there, and the cell's row and column. Classes are drawn with the frequencies that they have among
the probe's training cells. A type that did not occur in training has a label that nobody can know,
so control accuracy and selectivity are measured on cells of types that occurred.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from canvas.hints import UNDEFINED, draw_subtasks
from canvas.problems import Problems, keys, mix, random_below, random_words
from canvas.render import WorkedDrawing, row_step, row_steps, to_sequences
from trm.analysis.record import SequenceRecorder, Site, StepRecorder, loops_of, token_of_cell
from trm.models.canvas_transformer import Context
from trm.models.gpt import GPT
from trm.models.iterative import named
from trm.solving.rollout import Predictor
from trm.solving.solver import Solver

INPUT = "input"  # the embedded tokens, before anything has been computed
BLOCKS = "block"  # of a GPT, what each block passes on
NORM = "norm"  # of a GPT, what its heads read
_FIELD = np.uint64(1 << 20)  # of a row or column; more than the sides of any canvas
_MIDDLE = 1 << 19  # rows and columns may be outside the worked solution
_LEAST_DEVIATION = 1e-6  # of a feature that says anything
_NEVER = -1e9  # logit of a class that a task does not have


@dataclass(frozen=True)
class Examples:
    """What a model reads, B times, and what is known of the cells.

    Attributes:
        inputs: ``uint8 [B, H, W]``, row steps; of a GPT the finished canvases.
        labels: ``uint8 [B, H, W]``, the right symbols.
        filled: ``bool [B, H, W]``, cells of the row that is filled in; of a GPT, which writes them
            all in turn, cells of all such rows.
        hints: ``uint8 [B, H, W, hints]``, the sub-tasks in the layout's order, see `canvas.hints`;
            of a GPT undefined outside ``filled``.
        problem: ``int64 [B]``, index of each example's problem.
        rows: ``int64 [B, H]``, rows of the canvas counted from the top of the worked solution.
        columns: ``int64 [B, W]``, columns counted from its right end.
        first: ``int64 [B]``, the first of its rows that has to be filled in.
        types: ``uint64 [B, H, W]``, see `cell_types`.
    """

    inputs: np.ndarray
    labels: np.ndarray
    filled: np.ndarray
    hints: np.ndarray
    problem: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    first: np.ndarray
    types: np.ndarray

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: slice) -> Self:
        return replace(
            self, **{part.name: getattr(self, part.name)[index] for part in fields(self)}
        )


def examples(
    solver: Solver, problems: Problems, seed: int | None = None, first: int = 0
) -> Examples:
    """The examples of problems that fit the solver's canvas.

    Args:
        solver: whose model will read them.
        problems: at least one.
        seed: for an iterative model one row of each problem, drawn with this; None: all rows.
        first: number of the first problem, from which its row is drawn.

    Raises:
        ValueError: a problem does not fit the canvas.
    """
    rules, drawing = solver.task.rules, solver.draw_worked(problems)
    if isinstance(solver.predictor.model, GPT):
        B, H, W = drawing.truth.shape
        rows, columns = _counted(drawing)
        filled = ~drawing.given & (rows >= drawing.first_step[:, None])[:, :, None]
        filled &= (rows < drawing.heights[:, None])[:, :, None]
        hints = np.stack([*draw_subtasks(rules, problems, drawing).values()], axis=-1)
        hints[~filled] = UNDEFINED  # of the operands nothing can be known before they are read
        read = to_sequences(drawing.truth)[:, token_of_cell(H, W)].reshape(B, H, W)
        types = cell_types(read, rows[:, :, None], columns[:, None, :])
        of_problem, begin = np.arange(B), drawing.first_step
        truth = drawing.truth
        return Examples(truth, truth, filled, hints, of_problem, rows, columns, begin, types)
    if seed is None:
        steps = row_steps(drawing)
    else:
        key = keys(seed, "train", 0, first + np.arange(len(problems)), purpose=2)
        steps = row_step(drawing, random_below(random_words(key, 1)[:, 0], drawing.steps))
    of_step = drawing[steps.problem]
    rows, columns = _counted(of_step)
    return Examples(
        steps.inputs,
        steps.labels,
        steps.answer,
        np.stack(
            [*draw_subtasks(rules, problems[steps.problem], of_step, steps.step).values()], axis=-1
        ),
        steps.problem,
        rows,
        columns,
        of_step.first_step,
        cell_types(steps.inputs, rows[:, :, None], columns[:, None, :]),
    )


def _counted(drawing: WorkedDrawing) -> tuple[np.ndarray, np.ndarray]:
    """Rows ``[B, H]`` from the top of each solution, and columns ``[B, W]`` from its right end."""
    H, W = drawing.truth.shape[1:]
    rows = np.arange(H) - drawing.top[:, None]
    columns = (drawing.left + drawing.widths)[:, None] - 1 - np.arange(W)
    return rows, columns


# What a model makes of them.


class Point(NamedTuple):
    """Where features are read.

    Attributes:
        name: a tensor of the state, perhaps with a layer, like ``z_H`` or ``z_L, layer 1``; or
            ``input``, ``block`` or ``norm``.
        step: after which supervision step, or of a GPT after how many blocks; 0: before any.
    """

    name: str
    step: int


@dataclass(frozen=True)
class Observed:
    """A batch of examples, read by a model.

    Attributes:
        features: of each point, floating [B, S, D], one row a token.
        cells: int64 [B, S], the cell of each token, row by row; H * W where it is padding.
        heads: by step, the class uint8 [B, H, W] that the model's own head names of each hint.
        answers: uint8 [B, H, W], the symbols that the model writes after the last step.
    """

    features: dict[Point, Tensor]
    cells: Tensor
    heads: dict[int, dict[str, Tensor]]
    answers: np.ndarray


def main_point(predictor: Predictor, steps: Sequence[int]) -> Point:
    """Where the model's heads read: the last updated state after the last step, or the norm."""
    model = predictor.model
    if isinstance(model, GPT):
        return Point(NORM, loops_of(predictor) * len(model.layers))
    if model.updates:
        return Point(str(model.updates[-1]), max(steps))
    blank = np.zeros((1, 2, 2), dtype=np.uint8)
    return Point(next(iter(named(StepRecorder(model, blank, 1).initial))), max(steps))


def observe(
    predictor: Predictor, examples: Examples, steps: Sequence[int], layers: bool = False
) -> Observed:
    """Let a model read examples.

    Args:
        predictor: with the model, where it is to run.
        examples: a batch.
        steps: the supervision steps after which an iterative model's states are read, from 1; a GPT
            is read after each block.
        layers: whether states are read after each layer of a step's last update, too.

    Raises:
        ValueError: the states are not made of tokens, layers were asked for and the model does not
            tell them, or the canvases are refused.
    """
    features: dict[Point, Tensor] = {}
    model = predictor.model
    if isinstance(model, GPT):
        sequences = SequenceRecorder(predictor, examples.inputs)
        given = Site(INPUT, model.layers[0], "input", calls=frozenset({0}))
        norm = Site(NORM, model.norm)
        blocks = [site for of_loop in sequences.layers() for site in of_loop]
        record = sequences.run([given, *blocks, norm], hints=True)
        last = len(blocks)
        points = [Point(INPUT, 0), *(Point(BLOCKS, n) for n in range(1, last + 1))]
        for point, site in zip([*points, Point(NORM, last)], [given, *blocks, norm], strict=True):
            features[point] = record.values[site][0][:, sequences.writers]
        cells, hints = sequences.cells, {last: record.hints[0]}
    else:
        recorder = StepRecorder(model, examples.inputs, max(steps))
        if layers and not recorder.updates:
            raise ValueError(
                f"{type(model).__name__} does not tell what its layers update: leave out --layers"
            )
        updated = {name: index for index, name in enumerate(recorder.updates)}
        states = dict(zip(steps, recorder.states(steps), strict=True))
        between = {
            (name, k, step): site
            for step in (steps if layers else ())
            for name, index in updated.items()  # the last layer's is the state
            for k, site in enumerate(recorder.layers(step)[index][:-1], start=1)
        }
        record = recorder.run([*states.values(), *between.values()], hints=True)
        if isinstance(recorder.context, Context):
            features[Point(INPUT, 0)] = recorder.by_token(INPUT, recorder.context.inputs)
        for step in sorted(steps):
            within = {
                f"{name}, layer {k}": record.values[site][0]
                for (name, k, of_step), site in sorted(between.items(), key=lambda one: one[0][1])
                if of_step == step
            }
            after = zip(named(recorder.initial), record.values[states[step]], strict=True)
            for name, value in (within | dict(after)).items():
                features[Point(name, step)] = recorder.by_token(name, value)
        cells, hints = recorder.cells, record.hints
    heads = {
        step: {name: logits.argmax(dim=-1).to(torch.uint8) for name, logits in of_step.items()}
        for step, of_step in hints.items()
    }
    answers = record.logits.argmax(dim=-1).to(torch.uint8).cpu().numpy()
    return Observed(features, cells, heads, answers)


@dataclass(frozen=True)
class Cells:
    """Cells of examples, with the features of their tokens.

    Attributes:
        features: at each point, floating [N, D].
        hints: ``uint8 [N, hints]``.
        filled: ``bool [N]``, cells of the row that is filled in.
        types: ``uint64 [N]``.
        example, cell: ``int64 [N]``, of which example, and where on its canvas.
    """

    features: dict[Point, Tensor]
    hints: np.ndarray
    filled: np.ndarray
    types: np.ndarray
    example: np.ndarray
    cell: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence["Cells"]) -> "Cells":
        """Those of several batches; examples keep their numbers of these."""
        features = {
            point: torch.cat([part.features[point] for part in parts])
            for point in parts[0].features
        }
        names = ("hints", "filled", "types", "example", "cell")
        return cls(features, *(np.concatenate([getattr(p, name) for p in parts]) for name in names))


def take(
    examples: Examples,
    observed: Observed,
    most: int | None = None,
    random: np.random.Generator | None = None,
) -> Cells:
    """The cells that are tokens and have a defined hint.

    Args:
        examples: a batch.
        observed: what the model did with it.
        most: of each example so many cells of the row that is filled in at most, and so many
            others; None: all.
        random: which ones.
    """
    B, H, W = examples.inputs.shape
    cells = observed.cells.cpu().numpy()
    example, token = np.nonzero(cells < H * W)
    cell = cells[example, token]
    hints = examples.hints.reshape(B, H * W, -1)[example, cell]
    filled = examples.filled.reshape(B, -1)[example, cell]
    kept = np.flatnonzero((hints != UNDEFINED).any(axis=1))
    if most is not None:
        random = random or np.random.default_rng(0)
        group = 2 * example[kept] + filled[kept]
        order = np.lexsort((random.random(len(kept)), group))
        _, first, count = np.unique(group[order], return_index=True, return_counts=True)
        rank = np.arange(len(kept)) - np.repeat(first, count)
        kept = np.sort(kept[order[rank < most]])
    example, token, cell = example[kept], token[kept], cell[kept]
    index = tuple(torch.from_numpy(part).to(observed.cells.device) for part in (example, token))
    return Cells(
        {point: features[index] for point, features in observed.features.items()},
        hints[kept],
        filled[kept],
        examples.types.reshape(B, -1)[example, cell],
        example,
        cell,
    )


# Control tasks.


def cell_types(symbols: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A number for each type of cell, ``uint64``, of arrays that broadcast to one shape.

    Args:
        symbols: the ids that a model reads.
        rows: from the top of the worked solution.
        columns: from its right end.
    """
    row, column = ((part + _MIDDLE).astype(np.uint64) for part in (rows, columns))
    return (symbols.astype(np.uint64) * _FIELD + row) * _FIELD + column


def control_labels(
    types: np.ndarray, labels: np.ndarray, frequencies: np.ndarray, seed: int, task: int
) -> np.ndarray:
    """A random class for each cell, which follows from its type alone.

    Args:
        types: ``uint64 [N]``, see `cell_types`.
        labels: ``uint8 [N]``; where they are undefined, the control label is, too.
        frequencies: ``[C]``, how often each class occurs in training, counts or shares.
        seed: another one gives another random function.
        task: number of the sub-task, so that each has a function of its own.

    Returns:
        ``uint8 [N]``.
    """
    key = mix(mix(np.array([seed], dtype=np.uint64) + np.uint64(1)) + np.uint64(task))
    share = (mix(mix(types + key)) >> np.uint64(11)) / float(2**53)
    cumulative = np.cumsum(frequencies) / np.sum(frequencies)
    drawn = np.searchsorted(cumulative, share, side="right").clip(max=len(cumulative) - 1)
    return np.where(labels == UNDEFINED, UNDEFINED, drawn).astype(np.uint8)


# Fitting.


@dataclass(frozen=True)
class LinearProbes:
    """Logits of classes from features as they are, with their standardisation worked in.

    Attributes:
        weight: float32 [D, tasks, C], C being the most classes of a task.
        bias: float32 [tasks, C].
    """

    weight: Tensor
    bias: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        """The likeliest class of each task, int64 [N, tasks], of features [N, D]."""
        logits = features.float() @ self.weight.flatten(1) + self.bias.flatten()
        return logits.unflatten(1, self.bias.shape).argmax(dim=-1)


def fit(
    features: Tensor,
    labels: Tensor,
    classes: Sequence[int],
    l2: float = 1e-3,
    iterations: int = 60,
) -> LinearProbes:
    """Minimise each task's mean cross entropy plus ``l2 / 2`` times its squared weights.

    All tasks at once by one run of L-BFGS, as they share the features; their objectives are
    independent and convex, and the start is zero, so the same data give the same probes.

    Args:
        features: floating [N, D]; standardised here, channel by channel.
        labels: integer [N, tasks]; cells with `canvas.hints.UNDEFINED` are left out.
        classes: of each task; its labels are below it.
        l2: of weights on standardised features; biases are free.
        iterations: of L-BFGS at most; it stops earlier where nothing improves.

    Raises:
        ValueError: a task has no label that is defined, or a feature is not finite.
    """
    defined = labels != UNDEFINED
    kept = defined.any(dim=1)
    x, defined = features[kept].float(), defined[kept]
    y = labels[kept].long().masked_fill(~defined, 0)
    if not len(x) or not defined.any(dim=0).all():
        raise ValueError("a probe needs at least one labelled cell to be fitted to")
    if not torch.isfinite(x).all():
        raise ValueError(
            "the model's states hold numbers that are not finite, to which no probe can be fitted"
        )
    mean, deviation = x.mean(dim=0), x.std(dim=0, correction=0)
    scale = torch.where(deviation > _LEAST_DEVIATION, 1 / deviation, 0.0)
    x = (x - mean) * scale
    D, T, C = x.shape[1], len(classes), max(classes)
    own = torch.arange(C, device=x.device) < torch.tensor(classes, device=x.device)[:, None]
    barred = torch.where(own, 0.0, _NEVER)  # [T, C]
    share = defined / defined.sum(dim=0)  # [N, T], what a cell counts in its task's mean
    weight = x.new_zeros(D, T * C, requires_grad=True)
    bias = x.new_zeros(T, C, requires_grad=True)
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
        logits = (x @ weight).unflatten(1, (T, C)) + (bias + barred)  # [N, T, C]
        right = logits.gather(2, y.unsqueeze(-1)).squeeze(-1)
        loss = ((logits.logsumexp(dim=-1) - right) * share).sum()
        loss = loss + l2 / 2 * weight.square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        optimiser.step(objective)
    found = weight.detach() * scale[:, None]  # [D, T * C]
    offset = (bias.detach() + barred) - (mean @ found).unflatten(0, (T, C))
    return LinearProbes(found.unflatten(1, (T, C)), offset)


@dataclass(frozen=True)
class Probes:
    """Linear probes of all sub-tasks, and of their control tasks, at all points.

    Attributes:
        classes: of each sub-task.
        points: the probes at each point: of all sub-tasks, then of their control tasks.
        majority: ``uint8 [2, hints]``, the most frequent class of training cells in rows that are
            filled in, and of all of them.
        frequencies: of each sub-task, how often its classes occur.
        types: ``uint64 [M]``, those that occur, sorted.
        seed: of the control tasks.
    """

    classes: Mapping[str, int]
    points: Mapping[Point, LinearProbes]
    majority: np.ndarray
    frequencies: Sequence[np.ndarray]
    types: np.ndarray
    seed: int

    def __call__(self, point: Point, features: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """What probes, and probes of control tasks, say of features [N, D]: ``[N, hints]`` each."""
        both = self.points[point](features).cpu().numpy().astype(np.uint8)
        return both[:, : len(self.classes)], both[:, len(self.classes) :]

    def control(self, types: np.ndarray, hints: np.ndarray) -> np.ndarray:
        """The control labels of cells, ``uint8 [N, hints]``, see `control_labels`."""
        return _controls(types, hints, self.frequencies, self.seed)

    def known(self, types: np.ndarray) -> np.ndarray:
        """Which types occurred in training, ``bool [N]``."""
        index = np.searchsorted(self.types, types).clip(max=len(self.types) - 1)
        return self.types[index] == types


def fit_probes(
    cells: Cells, classes: Mapping[str, int], seed: int, l2: float, iterations: int
) -> Probes:
    """A probe for each sub-task at each point, and one for its control task.

    Args:
        cells: of training problems.
        classes: of each sub-task, in the layout's order.
        seed: of the control tasks.
        l2, iterations: see `fit`.
    """

    def counts(hints: np.ndarray) -> list[np.ndarray]:
        return [
            np.bincount(column[column != UNDEFINED], minlength=n)
            for column, n in zip(hints.T, classes.values(), strict=True)
        ]

    rows, every = counts(cells.hints[cells.filled]), counts(cells.hints)
    controls = _controls(cells.types, cells.hints, every, seed)
    labels = torch.from_numpy(np.concatenate([cells.hints, controls], axis=1))
    both = [*classes.values()] * 2
    points = {
        point: fit(features, labels.to(features.device), both, l2, iterations)
        for point, features in cells.features.items()
    }
    majority = np.array([[c.argmax() for c in part] for part in (rows, every)], dtype=np.uint8)
    return Probes(classes, points, majority, every, np.unique(cells.types), seed)


def _controls(
    types: np.ndarray, hints: np.ndarray, frequencies: Sequence[np.ndarray], seed: int
) -> np.ndarray:
    parts: Any = enumerate(frequencies)
    return np.stack(
        [control_labels(types, hints[:, i], counts, seed, i) for i, counts in parts], axis=-1
    )

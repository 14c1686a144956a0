"""Linear probes: which sub-tasks can be read from the states of a frozen model.

Of every cell that a model reads it is known what its layout's sub-tasks are there: what the
rule of its cells decides (`canvas.windows`), in rows that do not write it themselves.
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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from canvas.layouts import ANSWER, PARTIAL, SUM
from canvas.problems import Problems, keys, mix, random_below, random_words
from canvas.render import WorkedDrawing, row_step, row_steps, to_sequences
from canvas.windows import UNDEFINED, LocalRule, draw_fields
from trm.analysis.record import SequenceRecorder, Site, StepRecorder, token_of_cell
from trm.models.gpt import GPT
from trm.models.iterative import named
from trm.models.recursive import Context
from trm.solving.rollout import Predictor
from trm.solving.solver import Solver

INPUT = "input"  # the embedded tokens, before anything has been computed
BLOCKS = "block"  # of a GPT, what each block passes on
NORM = "norm"  # of a GPT, what its heads read
_TOKENS_AT_ONCE = 2**14  # cells of the canvases that a model reads at once
_FIELD = np.uint64(1 << 20)  # of a row or column; more than the sides of any canvas
_MIDDLE = 1 << 19  # rows and columns may be outside the worked solution
_LEAST_DEVIATION = 1e-6  # of a feature that says anything
_NEVER = -1e9  # logit of a class that a task does not have
# Fields that are what rows of some kinds write.
_WRITTEN = {"product": (PARTIAL,), "sum": (SUM, ANSWER), "addend": (SUM, ANSWER)}


@dataclass(frozen=True)
class Examples:
    """What a model reads, B times, and what is known of the cells."""

    inputs: np.ndarray  # uint8 [B, H, W], row steps; of a GPT the finished canvases
    labels: np.ndarray  # uint8 [B, H, W], what is right
    filled: np.ndarray  # bool [B, H, W], cells of the row filled in; of a GPT of all such rows
    targets: np.ndarray  # uint8 [B, H, W, sub-tasks], their classes, in the layout's order
    problem: np.ndarray  # int64 [B], index of each example's problem
    rows: np.ndarray  # int64 [B, H], from the top of the worked solution
    columns: np.ndarray  # int64 [B, W], from its right end
    first: np.ndarray  # int64 [B], the first of its rows that has to be filled in
    types: np.ndarray  # uint64 [B, H, W], see `cell_types`

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: slice) -> Self:
        return replace(self, **{name: part[index] for name, part in vars(self).items()})


def draw_subtasks(
    rule: LocalRule, drawing: WorkedDrawing, step: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """As `draw_fields`, with `LocalRule.draw_besides`; undefined in rows that write a field."""
    maps = draw_fields(rule, drawing, step)
    below = next(iter(maps.values())) == UNDEFINED
    for name, classes in rule.draw_besides(drawing).items():
        maps[name] = np.where(below, UNDEFINED, classes).astype(np.uint8)
    for name in maps.keys() & _WRITTEN.keys():
        sample, row = np.isin(drawing.kinds, _WRITTEN[name]).nonzero()
        maps[name][sample, drawing.top[sample] + row] = UNDEFINED
    return maps


def examples(
    solver: Solver, problems: Problems, seed: int | None = None, first: int = 0
) -> Examples:
    """The examples of problems: of an iterative model all rows, or with a seed one row of each.

    ``first`` is the number of the first problem, from which its row is drawn. ValueError: a problem
    does not fit the canvas.
    """
    drawing, step = solver.draw_worked(problems), None
    if gpt := isinstance(solver.predictor.model, GPT):
        problem, inputs, labels = np.arange(len(problems)), drawing.truth, drawing.truth
    else:
        if seed is None:
            steps = row_steps(drawing)
        else:
            key = keys(seed, "train", 0, first + np.arange(len(problems)), purpose=2)
            steps = row_step(drawing, random_below(random_words(key, 1)[:, 0], drawing.steps))
        inputs, labels, filled, step = steps.inputs, steps.labels, steps.answer, steps.step
        problem, drawing = steps.problem, drawing[steps.problem]
    subtasks = draw_subtasks(solver.task.local_rule(), drawing, step)
    targets, read = np.stack([*subtasks.values()], axis=-1), inputs
    _, H, W = inputs.shape
    rows = np.arange(H) - drawing.top[:, None]
    columns = (drawing.left + drawing.widths)[:, None] - 1 - np.arange(W)
    if gpt:
        there = (rows >= drawing.first_step[:, None]) & (rows < drawing.heights[:, None])
        filled = ~drawing.given & there[:, :, None]
        targets[~filled] = UNDEFINED  # of the operands nothing is known before they are read
        read = to_sequences(inputs)[:, token_of_cell(H, W)].reshape(inputs.shape)
    types = cell_types(read, rows[:, :, None], columns[:, None, :])
    begin = drawing.first_step
    return Examples(inputs, labels, filled, targets, problem, rows, columns, begin, types)


class Point(NamedTuple):
    """Where features are read: after a supervision step, or after so many blocks of a GPT.

    The name is that of a tensor of the state, perhaps with a layer, like ``z_L, layer 1``; or
    ``input`` (of step 0), ``block`` or ``norm``.
    """

    name: str
    step: int


@dataclass(frozen=True)
class Observed:
    """A batch of examples, read by a model."""

    features: dict[Point, Tensor]  # of each point, floating [B, S, D], one row a token
    main: Point  # where the model's heads read: the state updated last, or a GPT's norm
    cells: Tensor  # int64 [B, S], the cell of each token, row by row; H * W where it is padding
    heads: dict[int, dict[str, np.ndarray]]  # by step, uint8 [B, H, W] of the model's own heads
    answers: np.ndarray  # uint8 [B, H, W], the symbols that the model writes after the last step
    settled: bool  # whether the last supervision step changed nothing


def observe(
    predictor: Predictor, examples: Examples, steps: Sequence[int], layers: bool = False
) -> Observed:
    """Let a model read a batch; iterative ones after these steps, a GPT after each block.

    With ``layers`` states are read after each layer of a step's last update, too. ValueError: the
    states are not made of tokens, layers were asked for and the model does not tell them, or the
    canvases are refused.
    """
    model, decided = predictor.model, dict[int, dict[str, Tensor]]()
    recorder: SequenceRecorder | StepRecorder
    if isinstance(model, GPT):
        recorder = SequenceRecorder(predictor, examples.inputs)
        blocks = [site for of_loop in recorder.layers() for site in of_loop]
        main = Point(NORM, len(blocks))
        sites = {
            Point(INPUT, 0): Site(INPUT, model.layers[0], "input", calls=frozenset({0})),
            **{Point(BLOCKS, n): site for n, site in enumerate(blocks, start=1)},
            main: Site(NORM, model.norm),
        }
        record = recorder.run([*sites.values()])
        features = {p: record.values[s][0][:, recorder.writers] for p, s in sites.items()}
    else:
        recorder = StepRecorder(model, examples.inputs, max(steps))
        if layers and not recorder.updates:
            raise ValueError(
                f"{type(model).__name__} does not tell what its layers update: leave out --layers"
            )
        tensors = [*named(recorder.initial)]
        main = Point(str(model.updates[-1]) if model.updates else tensors[0], max(steps))
        found: dict[Point, tuple[Site, int]] = {}  # and which of the tensors that it holds
        for step, state in zip(sorted(steps), recorder.states(sorted(steps)), strict=True):
            passes = recorder.layers(step)
            for k in range(len(model.layers) - 1 if layers else 0):  # the last gives the state
                for name, calls in recorder.updates.items():
                    found[Point(f"{name}, layer {k + 1}", step)] = passes[calls[-1]][k], 0
            for number, name in enumerate(tensors):
                found[Point(name, step)] = state, number
        record = recorder.run([*dict.fromkeys(site for site, _ in found.values())], decided=True)
        features, decided = {}, record.decided
        if isinstance(recorder.context, Context):
            features[Point(INPUT, 0)] = recorder.by_token(INPUT, recorder.context.inputs)
        for point, (site, number) in found.items():
            features[point] = recorder.by_token(point.name, record.values[site][number])
    heads = {
        step: {name: classes.byte().cpu().numpy() for name, classes in of_step.items()}
        for step, of_step in decided.items()
    }
    answers = record.logits.argmax(dim=-1).byte().cpu().numpy()
    return Observed(features, main, recorder.cells, heads, answers, record.settled)


def read(
    solver: Solver,
    problems: Problems,
    steps: Sequence[int],
    layers: bool = False,
    seed: int | None = None,
    first: int = 0,
) -> Iterator[tuple[Examples, Observed]]:
    """Examples of problems in batches, each read by the model: see `examples` and `observe`."""
    every = examples(solver, problems, seed, first)
    size = max(1, _TOKENS_AT_ONCE // every.inputs[0].size)
    for start in range(0, len(every), size):
        part = every[start : start + size]
        yield part, observe(solver.predictor, part, steps, layers)


class Cells(NamedTuple):
    """N cells of examples, with the features of their tokens."""

    features: dict[Point, Tensor]  # floating [N, D] at each point
    targets: np.ndarray  # uint8 [N, sub-tasks]
    filled: np.ndarray  # bool [N], cells of the row that is filled in
    types: np.ndarray  # uint64 [N]
    example: np.ndarray  # int64 [N]
    cell: np.ndarray  # int64 [N], where on the example's canvas


def take(
    examples: Examples,
    observed: Observed,
    most: int | None = None,
    random: np.random.Generator | None = None,
) -> Cells:
    """The cells that are tokens and in which a sub-task is defined.

    With ``most``, of each example so many of the row that is filled in at most and so many others,
    drawn at random.
    """
    B, H, W = examples.inputs.shape
    cells = observed.cells.cpu().numpy()
    example, token = np.nonzero(cells < H * W)
    cell = cells[example, token]
    targets = examples.targets.reshape(B, H * W, -1)[example, cell]
    filled = examples.filled.reshape(B, -1)[example, cell]
    kept = np.flatnonzero((targets != UNDEFINED).any(axis=1))
    if most is not None and random is not None:
        group = 2 * example[kept] + filled[kept]
        order = np.lexsort((random.random(len(kept)), group))
        _, first, count = np.unique(group[order], return_index=True, return_counts=True)
        rank = np.arange(len(kept)) - np.repeat(first, count)
        kept = np.sort(kept[order[rank < most]])
    example, token, cell = example[kept], token[kept], cell[kept]
    index = tuple(torch.from_numpy(part).to(observed.cells.device) for part in (example, token))
    return Cells(
        {point: features[index] for point, features in observed.features.items()},
        targets[kept],
        filled[kept],
        examples.types.reshape(B, -1)[example, cell],
        example,
        cell,
    )


def cell_types(symbols: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A number for each type of cell, ``uint64``, of symbols, rows and columns that broadcast."""
    row, column = ((part + _MIDDLE).astype(np.uint64) for part in (rows, columns))
    return (symbols.astype(np.uint64) * _FIELD + row) * _FIELD + column


def control_labels(
    types: np.ndarray, targets: np.ndarray, frequencies: Sequence[np.ndarray], seed: int
) -> np.ndarray:
    """A random class ``uint8 [N, sub-tasks]`` for each cell and sub-task, which its type decides.

    Of types ``uint64 [N]``, see `cell_types`; where a target is undefined, the control label is.
    Frequencies are, for each sub-task, how often each class occurs, counts or shares ``[C]``; each
    sub-task has a random function of its own.
    """
    start, drawn = mix(np.array([seed], dtype=np.uint64) + np.uint64(1)), np.empty_like(targets)
    for task, counts in enumerate(frequencies):
        share = (mix(mix(types + mix(start + np.uint64(task)))) >> np.uint64(11)) / float(2**53)
        cumulative = np.cumsum(counts) / np.sum(counts)
        chosen = np.searchsorted(cumulative, share, side="right")
        drawn[:, task] = chosen.clip(max=len(cumulative) - 1)
    return np.where(targets == UNDEFINED, np.uint8(UNDEFINED), drawn)


@dataclass(frozen=True)
class LinearProbes:
    """Logits of classes from features as they are, with their standardisation worked in."""

    weight: Tensor  # float32 [D, tasks, C], C being the most classes of a task
    bias: Tensor  # float32 [tasks, C]

    def __call__(self, features: Tensor) -> Tensor:
        """The likeliest class of each task, int64 [N, tasks], of features [N, D]."""
        logits = features.float() @ self.weight.flatten(1) + self.bias.flatten()
        return logits.unflatten(1, self.bias.shape).argmax(dim=-1)


def fit(
    features: Tensor, labels: Tensor, classes: Sequence[int], l2: float = 1e-3, iterations: int = 60
) -> LinearProbes:
    """Minimise each task's mean cross entropy plus ``l2 / 2`` times its squared weights.

    All tasks at once by one run of L-BFGS, as they share the features; their objectives are
    independent and convex, and the start is zero, so the same data give the same probes. Features,
    floating [N, D], are standardised channel by channel; labels are integer [N, tasks], below the
    number of a task's classes, or `UNDEFINED` and left out; weights decay, biases are
    free. It stops before so many iterations where nothing improves. ValueError: a task has no label
    that is defined, or a feature is not finite.
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
    index, (distinct, same) = torch.arange(len(x)), x.unique(dim=0, return_inverse=True)
    if 2 * len(distinct) <= len(x):  # as where cells see few different things
        x, index = distinct, same
    index, tasks = index.to(x.device)[:, None], torch.arange(len(classes), device=x.device)
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
        logits = (x @ weight).unflatten(1, (T, C)) + (bias + barred)  # of what is distinct
        right = logits[index, tasks, y]  # [N, T]
        loss = ((logits.logsumexp(dim=-1)[index[:, 0]] - right) * share).sum()
        loss = loss + l2 / 2 * weight.square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        optimiser.step(objective)
    found = weight.detach() * scale[:, None]  # [D, T * C]
    offset = (bias.detach() + barred) - (mean @ found).unflatten(0, (T, C))
    return LinearProbes(found.unflatten(1, (T, C)), offset)

"""Auxiliary losses: extra linear heads that read sub-tasks from the states of a model's cells.

They are part of training alone. Their weights are in a checkpoint beside the network's, and solving
does not load them. The labels come from the layout's local rule, see `canvas.cells.subtasks`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canvas.cells.subtasks import draw_subtasks, subtask_classes
from canvas.check import check_once
from canvas.choices import check_choice
from canvas.drawing import UNDEFINED, WorkedDrawing
from canvas.task import Task
from trm.checkpoints import AUXILIARY, AUXILIARY_HEAD
from trm.runtime.torch_settings import float32_default
from trm.training.configs import Stages, check_range


@dataclass
class AuxiliaryConfig:
    """Auxiliary losses: sub-tasks that extra heads learn, see `canvas.cells.subtasks`.

    Attributes:
        weights: weight of each sub-task's loss, by name; a weight of 0 leaves a sub-task out.
        until: epochs of the run after which all weights are 0; below 1: a share of
            `trainer.max_epochs`; None: never.
    """

    weights: dict[str, float] = field(default_factory=dict)
    until: int | float | None = None

    def __post_init__(self) -> None:
        for name, weight in self.weights.items():
            check_range(f"model.auxiliary.{name}", weight, 0)
        self.weights = {name: weight for name, weight in self.weights.items() if weight}
        names = tuple(self.weights)
        ends = [] if self.until is None else [(self.until, names)]
        self._names = Stages("model.auxiliary_until", ends, () if ends else names)

    def at(self, epoch: float, epochs: int | None = None) -> tuple[str, ...]:
        """Return the sub-tasks with a loss in an epoch, see `Stages.at`."""
        return self._names.at(epoch, epochs) if self.weights else ()


def task_classes(task: Task, names: Iterable[str]) -> Mapping[str, int]:
    """Return the number of classes of each sub-task of a task's layout, by name.

    Args:
        task: whose layout has a local rule.
        names: of sub-tasks that a config lists.

    Raises:
        ValueError: the layout has no local rule, or no sub-task of one of these names.
    """
    try:
        rule = task.local_rule()
    except ValueError as error:
        raise ValueError(f"model.auxiliary: {error}") from None
    classes = subtask_classes(rule)
    for name in names:
        check_choice("model.auxiliary: a sub-task", name, classes)
    check_once(task, rule)
    return classes


def draw_classes(
    task: Task, names: Iterable[str], drawing: WorkedDrawing, row: np.ndarray | None
) -> list[np.ndarray]:
    """Draw the class of each sub-task in every cell, uint8 [B, H, W] each.

    Args:
        task: see `task_classes`.
        names: of sub-tasks.
        drawing: the worked solutions.
        row: int64 [B], the row to be filled in of each, from 0; classes in rows below it are
            `UNDEFINED`. None: all rows are written.
    """
    maps = draw_subtasks(task.local_rule(), drawing, row, written=True)
    return [maps[name] for name in names]


class AuxiliaryHeads(nn.Module):
    """A linear head for each sub-task. Initial weights are 0 and take no random numbers.

    Args:
        classes: number of classes of each sub-task, by name.
        weights: weight of each sub-task's loss; the same names.
        width: channels of a state.
    """

    @float32_default()
    def __init__(
        self, classes: Mapping[str, int], weights: Mapping[str, float], width: int
    ) -> None:
        super().__init__()
        self.loss_weights = dict(weights)
        with torch.random.fork_rng(devices=[]):
            for name in weights:
                head = nn.Linear(width, classes[name])
                nn.init.zeros_(head.weight)
                nn.init.zeros_(head.bias)
                # The ending keeps it apart from a module's own attributes.
                self.add_module(name + AUXILIARY_HEAD, head)

    def logits(self, states: Tensor) -> dict[str, Tensor]:
        """Return the logits [..., classes] of each sub-task for states [..., D]."""
        heads = {name: self.get_submodule(name + AUXILIARY_HEAD) for name in self.loss_weights}
        return {name: head(states) for name, head in heads.items()}

    def forward(
        self, states: Tensor, labels: Tensor | None, correct: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the losses and accuracies of all sub-tasks.

        Args:
            states: float [B, ..., D].
            labels: uint8 [B, ..., N], classes in the order of the weights; `UNDEFINED` does not
                count. None: the losses are over.
            correct: samples that count, bool [B]; None: all.

        Returns:
            A dictionary by the names of curves:

            - ``loss``: weighted sum of the losses, with gradient. Without labels it is 0, with
              gradients of 0, as several devices exchange the gradients of all weights.
            - ``auxiliary/NAME``: mean cross entropy over the defined cells; 0 if there are none.
            - ``auxiliary_accuracy/NAME``: share of them that are correct.
        """
        if labels is None:
            return {"loss": sum(weight.sum() for weight in self.parameters()) * torch.tensor(0.0)}
        if correct is not None:
            samples = correct.view(-1, *[1] * (labels.ndim - 1))
            labels = torch.where(samples, labels, UNDEFINED)
        states, labels = states.flatten(0, -2), labels.flatten(0, -2).long()
        if states.device.type == "cpu":  # see `step_loss`
            kept = (labels != UNDEFINED).any(dim=1).nonzero().squeeze(1)
            states, labels = states.index_select(0, kept), labels.index_select(0, kept)
        metrics: dict[str, Tensor] = {}
        total = states.new_zeros((), dtype=torch.float32)
        for (name, logits), label in zip(self.logits(states).items(), labels.T, strict=True):
            defined = label != UNDEFINED
            count = defined.sum().clamp(min=1)
            lost = F.cross_entropy(logits.float(), label, ignore_index=UNDEFINED, reduction="sum")
            metrics[f"auxiliary/{name}"] = lost / count
            hits = (logits.detach().argmax(dim=-1) == label) & defined
            metrics[f"auxiliary_accuracy/{name}"] = hits.sum() / count
            total = total + self.loss_weights[name] * metrics[f"auxiliary/{name}"]
        return metrics | {"loss": total}


def heads_of(
    model: nn.Module, task: Task, weights: Mapping[str, float], width: int | None
) -> AuxiliaryHeads | None:
    """Return the auxiliary heads of a network; None: its config has no auxiliary losses.

    Args:
        model: the network.
        task: whose sub-tasks the heads learn.
        weights: weight of each sub-task's loss, by name.
        width: channels of the states of the network's cells; None: it has no such states.

    Raises:
        ValueError: the layout has no local rule, or no such sub-task, or the network has no states
            of cells.
    """
    if not weights:
        return None
    if width is None:
        raise ValueError(
            f"model.auxiliary needs a network with states of cells, such as "
            f"trm.models.TinyRecursiveModel or trm.models.GPT, and {type(model).__name__} has "
            "none: leave it out"
        )
    return AuxiliaryHeads(task_classes(task, weights), weights, width)


def settle_heads(own: Mapping[str, Tensor], held: dict[str, Any], resumes: bool) -> None:
    """Check that a checkpoint has the auxiliary heads of a module, which resumes from it.

    A module that does not resume keeps its own heads.

    Args:
        own: weights of the module, by name.
        held: those of the checkpoint; its heads are replaced in place.
        resumes: whether training resumes.

    Raises:
        ValueError: it resumes with other heads.
    """
    mine, theirs = (
        {name: part for name, part in weights.items() if name.startswith(AUXILIARY)}
        for weights in (own, held)
    )
    shapes, others = ({n: p.shape for n, p in of.items()} for of in (mine, theirs))
    if shapes == others:
        return
    if resumes:
        kinds = (sorted({name.split(".")[1] for name in of}) for of in (theirs, mine))
        names, here = (
            ", ".join(n.removesuffix(AUXILIARY_HEAD) for n in of) or "none" for of in kinds
        )
        raise ValueError(
            f"the checkpoint was trained with other auxiliary losses: {names} (here {here}). "
            "Keep the names of its model.auxiliary, or begin a new run with --weights"
        )
    for name in theirs:
        del held[name]
    held.update(mine)

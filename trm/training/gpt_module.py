"""LightningModule for a GPT."""

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from augment.symmetry import SYMMETRIES
from canvas.drawing import WorkedDrawing
from canvas.sequences import IGNORE, sequences
from trm.models.gpt import GPT
from trm.models.pauses import SIGNS
from trm.runtime.limits import MOST_STEPS
from trm.runtime.torch_settings import standard_settings
from trm.training.canvas_module import CanvasModule
from trm.training.configs import check_range
from trm.training.data import CanvasDataModule
from trm.training.samples import SHIFTS_ALONE, SequenceSamples, TrainingBatch


def sequence_loss(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the mean cross entropy over the tokens that count, as nanoGPT does.

    Args:
        logits: float [B, S, V].
        labels: int64 [B, S]; `canvas.sequences.IGNORE` does not count.

    Returns:
        The loss, float32 [], with gradient, and the accuracy of the counted tokens, float32 [].
    """
    counted = labels != IGNORE
    correct = (logits.detach().argmax(dim=-1) == labels) & counted
    loss = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORE)
    return loss, correct.sum() / counted.sum()


def loop_losses(
    model: GPT, states: list[Tensor], labels: Tensor, supervised: int
) -> dict[str, Tensor]:
    """Compute loss and metrics of a looped GPT from its states after each loop.

    The tokens of each of the last ``supervised`` loops have a loss. The halting head learns, at
    half the weight and after every loop, whether the likeliest token is correct, as that of a
    recursive transformer learns it of a row (`trm.training.step.step_loss`).

    Args:
        model: the GPT, whose heads read the states.
        states: [B, S, D], one after each loop; gradients flow through all of them.
        labels: int64 [B, S]; `canvas.sequences.IGNORE` does not count.
        supervised: number of loops with a loss.

    Returns:
        A dictionary by the names of curves: ``loss`` with gradient, ``cell_accuracy`` after the
        last loop, and of a halting head ``loss_cells``, ``loss_halting`` and ``halting_accuracy``;
        float32 [] each.
    """
    halting = model.halt_head is not None
    first = max(0, len(states) - supervised)
    counted = labels != IGNORE
    cells, halts, predicted = [], [], []
    for loop, x in enumerate(states):
        if loop < first and not halting:
            continue
        logits = model.head(x)
        if loop >= first:
            cells.append(sequence_loss(logits, labels))
        if halting:
            correct = (logits.detach().argmax(dim=-1) == labels)[counted]
            halt_logits = model.halt_logits(x)[counted]
            halts.append(F.binary_cross_entropy_with_logits(halt_logits, correct.float()))
            predicted.append(((halt_logits > 0) == correct).float().mean())
    loss = torch.stack([of_loop for of_loop, _ in cells]).mean()
    if not halting:
        return {"loss": loss, "cell_accuracy": cells[-1][1]}
    halt = torch.stack(halts).mean()
    return {
        "loss": loss + 0.5 * halt,
        "loss_cells": loss,
        "loss_halting": halt,
        "cell_accuracy": cells[-1][1],
        "halting_accuracy": torch.stack(predicted).mean(),
    }


class GPTModule(CanvasModule):
    """Trains a `GPT` to write worked multiplications token by token.

    After every validation its confidence is calibrated on the validation's rows.

    Args:
        network: a GPT, a class with its settings.
        fewest_loops: of a looped GPT: a training batch takes a random number of loops, from this
            to the network's own; null: always the network's own.
        supervised_loops: loops at the end of these with a loss each; the losses are averaged.
        solve_steps: of a looped GPT: loops when problems are solved, with halting the most; null:
            the network's own.
        more: see `CanvasModule`; the seed is that of `randomised` positions and of the number of
            loops in training.
    """

    samples_class = SequenceSamples
    calibrates = True
    compiled_method = "hidden"

    def __init__(
        self,
        network: GPT,
        *,
        fewest_loops: int | None = None,
        supervised_loops: int = 1,
        solve_steps: int | None = None,
        **more: Any,
    ) -> None:
        loops = network.config.loops
        if network.config.halting and loops == 1:
            raise ValueError(
                "model.network.config.halting chooses among loops, and there is one: set "
                "model.network.config.loops to 2 or more, or halting to false"
            )
        if fewest_loops is not None:
            check_range("model.fewest_loops", fewest_loops, 1, loops)
        check_range("model.supervised_loops", supervised_loops, 1, loops)
        if solve_steps is not None:
            check_range("model.solve_steps", solve_steps, 1, MOST_STEPS)
            if loops == 1:
                raise ValueError(
                    "model.solve_steps is of a looped GPT: set model.network.config.loops to 2 or "
                    "more, or leave it out"
                )
        super().__init__(network, **more)
        self.fewest_loops, self.supervised_loops = fewest_loops or loops, supervised_loops
        self.solve_steps = solve_steps

    @property
    def state_width(self) -> int:
        return int(self.model.config.hidden_size)

    def check(self, data: CanvasDataModule) -> None:
        position = self.model.config.position
        if data.canvas.cut and position.startswith("learned"):
            raise ValueError(
                f"{position} positions are learned for each place: set data.canvas.height and "
                "data.canvas.width, or another model.network.config.position"
            )
        if self.model.config.pauses and data.task.canvas_layout.sign not in SIGNS:
            raise ValueError(
                "a GPT's pauses stand behind the row with the operation's sign, and the layout "
                f"{data.task.layout} has no sign: set model.network.config.pauses to 0"
            )
        if turned := sorted(set(data.symmetries) - {"e"}, key=list(SYMMETRIES).index):
            raise ValueError(f"{SHIFTS_ALONE} (now: {', '.join(turned)})")

    @standard_settings()
    def training_step(self, batch: TrainingBatch, batch_idx: int) -> torch.Tensor:
        seed, loops = self.batch_seed(batch_idx), self.model.config.loops
        generator = torch.Generator().manual_seed(seed)
        chosen = random.Random(seed).randint(self.fewest_loops, loops)
        model = self.model_of_step(**({} if chosen == loops else {"loops": chosen}))
        states = model.loop_states(batch["ids"], batch["height"], batch["width"], generator)
        metrics = loop_losses(model, states, batch["labels"], self.supervised_loops)
        if self.auxiliary is not None:
            more = self.auxiliary(states[-1], batch.get("auxiliary"))
            metrics |= more | {"loss": metrics["loss"] + more["loss"]}
        self.log_training({name: value.detach() for name, value in metrics.items()})
        return metrics["loss"]

    @torch.no_grad()
    def loss_on(self, drawing: WorkedDrawing) -> tuple[float, int]:
        ids, labels = (torch.from_numpy(part).to(self.device) for part in sequences(drawing))
        states = self.model.loop_states(ids, *drawing.canvases.shape[1:])
        metrics = loop_losses(self.model, states, labels, self.supervised_loops)
        return float(metrics["loss"]), int((labels != IGNORE).sum())

    def about(self) -> dict[str, Any]:
        steps = {} if self.solve_steps is None else {"solve_steps": self.solve_steps}
        return super().about() | steps

    @property
    def training_metrics(self) -> list[str]:
        halts = ["loss_cells", "loss_halting", "halting_accuracy"]
        halting = halts if self.model.config.halting else []
        return [*super().training_metrics, "cell_accuracy", *halting]

    @property
    def validated_metrics(self) -> list[str]:
        halting = ["supervision_steps"] if self.model.config.halting else []
        return [*super().validated_metrics, *halting]

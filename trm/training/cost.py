"""What training costs: floating-point operations, samples and seconds, kept in its checkpoints."""

import time
from contextlib import ExitStack
from typing import Any

import lightning as L
from torch.utils.flop_counter import FlopCounterMode

from trm.checkpoints import COST_KEY
from trm.flops import counted_flops

_MEASURED = "trm.cost"  # in a checkpoint: what the counting goes on with


class Cost(L.Callback):
    """Adds up what training takes, through all interruptions, and keeps it in every checkpoint.

    A checkpoint's entry `COST_KEY` then holds

        flops    of training, over all devices: those of every `every`-th batch, which are counted,
                 stand for the others
        samples  seen, over all devices; under the `carry` schedule once a supervision step
        seconds  by the clock, without validation

    Args:
        every: batches from one whose operations are counted to the next.
    """

    def __init__(self, every: int = 64) -> None:
        self.every = every
        self.counted_batches, self.batches, self.samples = 0, 0, 0
        self.counted_flops, self.seconds = 0, 0.0
        self._begun: float | None = None  # when the time that is not added up yet began
        self._counting: tuple[ExitStack, FlopCounterMode] | None = None

    @property
    def flops(self) -> float:
        """Of all batches so far, on one device."""
        return self.counted_flops / max(1, self.counted_batches) * self.batches

    def on_train_batch_start(self, *args: Any, **more: Any) -> None:
        """Begin to count, perhaps, and start the clock where it was stopped."""
        self._begun = time.perf_counter() if self._begun is None else self._begun
        if self.batches % self.every == 0:
            stack = ExitStack()
            self._counting = stack, stack.enter_context(counted_flops())

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: dict[str, Any],
        batch_idx: int,
    ) -> None:
        """Add the batch up."""
        if self._counting is not None:
            _, counter = self._counting
            self._stop_counting()
            self.counted_flops += counter.get_total_flops()
            self.counted_batches += 1
        now = time.perf_counter()
        self.seconds += now - (now if self._begun is None else self._begun)
        self._begun = now
        self.batches += 1
        self.samples += len(next(iter(batch.values()))) * trainer.world_size

    def on_validation_start(self, *args: Any, **more: Any) -> None:
        """Stop the clock until the next batch."""
        self._begun = None

    def on_train_end(self, *args: Any, **more: Any) -> None:
        """Stop the clock."""
        self._begun = None

    def on_exception(self, *args: Any, **more: Any) -> None:
        """Stop counting in the middle of a batch."""
        self._stop_counting()

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Write down what it has cost so far."""
        checkpoint[COST_KEY] = {
            "flops": self.flops * trainer.world_size,
            "samples": self.samples,
            "seconds": self.seconds,
        }
        checkpoint[_MEASURED] = [getattr(self, name) for name in _STATE]

    def on_load_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Go on from what it has cost; from nothing where a checkpoint does not say."""
        if trainer.state.fn == "fit" and _MEASURED in checkpoint:
            for name, value in zip(_STATE, checkpoint[_MEASURED], strict=True):
                setattr(self, name, value)

    def _stop_counting(self) -> None:
        if self._counting is not None:
            self._counting[0].close()
            self._counting = None


_STATE = ("counted_batches", "batches", "samples", "counted_flops", "seconds")

"""What training costs: floating-point operations, samples and seconds, kept in its checkpoints."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import lightning as L
import torch
from torch.utils.flop_counter import (
    FlopCounterMode,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from trm.checkpoints.keys import COST_KEY

_MEASURED = "trm.cost"  # in a checkpoint: what the counting goes on with


@contextmanager
def counted_flops() -> Iterator[FlopCounterMode]:
    """Count the floating-point operations within, a multiplication and an addition as two.

    Of matrix products and attention, as PyTorch counts them; what works on single elements is not
    counted. Compiled code runs uncompiled meanwhile, as its kernels could not be looked into.
    """
    counter = FlopCounterMode(display=False, custom_mapping=_ATTENTION_ON_CPU)
    with ExitStack() as stack:
        if _compiles():
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield stack.enter_context(counter)


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


def _compiles() -> bool:
    """Whether anything may have been compiled; asking must not import the compiler."""
    import sys

    return "torch._dynamo" in sys.modules


def _attention(query: Any, key: Any, value: Any, *args: Any, **more: Any) -> int:
    return int(sdpa_flop_count(query, key, value))


def _attention_backward(
    grad: Any, query: Any, key: Any, value: Any, *args: Any, **more: Any
) -> int:
    return int(sdpa_backward_flop_count(grad, query, key, value))


# PyTorch counts those of accelerators alone.
_ATTENTION_ON_CPU = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}

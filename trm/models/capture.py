"""Forward hooks: what the parts of a model are given and give while it runs, read and changed.

A model computes what it always does, but for what a `Change` puts in place of a value. Hooks are
removed when their ``with`` block ends, however it ends. PyTorch's own are enough for that; nnsight
would trace the loops of supervision steps for the same values.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from trm.models.layers import Attention

# From the number of a part, the number of its call, both from 0, and a value to what takes its
# place: the value itself, or another of its shape and dtype.
Change = Callable[[int, int, Tensor], Tensor]
AttentionCall = tuple[Attention, tuple[Any, ...], dict[str, Any]]  # with what it is called


@contextmanager
def outputs_of(
    parts: Sequence[nn.Module], change: Change | None = None
) -> Iterator[list[list[Tensor]]]:
    """What each part gives, call by call, after it has been changed.

    Args:
        parts: modules that give one tensor.
        change: of their outputs; None: nothing is changed.
    """
    made: list[list[Tensor]] = [[] for _ in parts]
    with ExitStack() as hooks:
        for number, part in enumerate(parts):

            def hook(_: nn.Module, __: Any, output: Tensor, number: int = number) -> Tensor:
                return _noted(made[number], number, output, change)

            hooks.callback(part.register_forward_hook(hook).remove)
        yield made


@contextmanager
def inputs_of(
    parts: Sequence[nn.Module], change: Change | None = None
) -> Iterator[list[list[Tensor]]]:
    """The first thing that each part is given, call by call, after it has been changed.

    Args:
        parts: modules that are called with a tensor, not by its name.
        change: of these tensors; None: nothing is changed.
    """
    seen: list[list[Tensor]] = [[] for _ in parts]
    with ExitStack() as hooks:
        for number, part in enumerate(parts):

            def hook(_: nn.Module, given: tuple[Any, ...], number: int = number) -> tuple[Any, ...]:
                return _noted(seen[number], number, given[0], change), *given[1:]

            hooks.callback(part.register_forward_pre_hook(hook).remove)
        yield seen


@contextmanager
def attention_calls(model: nn.Module) -> Iterator[list[AttentionCall]]:
    """With what the model's attention is called, in order."""
    calls: list[AttentionCall] = []
    with ExitStack() as hooks:
        for layer in attention_of(model):
            hook = layer.register_forward_pre_hook(
                lambda *call: calls.append(call), with_kwargs=True
            )
            hooks.callback(hook.remove)
        yield calls


def attention_of(model: nn.Module) -> list[Attention]:
    """The attention of each layer; what `Attention.out` is given are its heads side by side."""
    return [part for part in model.modules() if isinstance(part, Attention)]


def _noted(values: list[Tensor], number: int, value: Tensor, change: Change | None) -> Tensor:
    if change is not None:
        value = change(number, len(values), value)
    values.append(value)
    return value

"""Named sites of a model, as its class declares them; `trm.models.hooks` reads their values."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import nn

from trm.models.attention import Attention

OUTPUT, INPUT, WEIGHTS = "output", "input", "weights"  # kinds of values


class Point(NamedTuple):
    """Way in which the value of a site is found."""

    text: str  # dtype, shape and meaning
    part: Any = None  # a module, or the owner of `method`; None: a step of the model has the value
    kind: str = OUTPUT
    number: int = 0  # of the argument, for `INPUT`
    method: str = ""  # a method whose argument or result is the value; empty: the module's call


def of_blocks(layers: Iterable[nn.Module], S: str, mlp: str = "mlp") -> dict[str, Point]:
    """Return the sites of blocks whose tokens attend to each other.

    Args:
        layers: the blocks, in order.
        S: name of the number of tokens.
        mlp: name of a block's feed-forward layer.
    """
    heads, weights = f"[B, heads, {S}, D / heads]", f"[B, heads, {S}, {S}]"
    return of_layers(layers, f"[B, {S}, D]", heads, heads, weights, heads, mlp)


def of_layers(
    layers: Iterable[nn.Module],
    each: str,
    query: str,
    key: str,
    weights: str,
    mixed: str,
    mlp: str = "mlp",
) -> dict[str, Point]:
    """Return the sites of blocks; shapes are those of states, queries, keys, weights and heads."""
    points = dict[str, Point]()
    for number, block in enumerate(layers):
        found = {"input": Point(f"float {each}, input of the block", block, INPUT)}
        attention = next((part for part in block.modules() if isinstance(part, Attention)), None)
        if attention is not None:
            core = attention.dot_product
            found |= {
                "queries": Point(f"float {query}, with their rotation", core, INPUT, 0),
                "keys": Point(f"float {key}, with their rotation", core, INPUT, 1),
                "values": Point(f"float {key}", core, INPUT, 2),
                "attention": Point(f"float32 {weights}, attention weights", core, WEIGHTS),
                "heads": Point(f"float {mixed}, output of each head", core),
                "attended": Point(f"float {each}, output of the attention layer", attention),
            }
        if (last := getattr(block, mlp, None)) is not None:
            found["mlp"] = Point(f"float {each}, output of the feed-forward layer", last)
        found["output"] = Point(f"float {each}, output of the block", block)
        points |= {f"blocks.{number}.{name}": point for name, point in found.items()}
    return points


def of_modules(model: nn.Module) -> dict[str, Point]:
    """Return the outputs of all modules of a network, less those of its ``layers``."""
    return {
        name: Point(f"output of {type(part).__name__}", part)
        for name, part in model.named_modules()
        if name and not name.startswith("layers.")
    }

"""Sites of a model: the named values of its computation, as its class declares them.

Other libraries call them hook points. `trm.models.hooks` records and replaces their values.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import nn

from trm.models.attention import Attention

OUTPUT, INPUT, WEIGHTS = "output", "input", "weights"  # kinds of values


class Site(NamedTuple):
    """Meaning of a value, and where it is found while the model computes."""

    text: str  # dtype, shape and meaning
    part: Any = None  # a module, or the owner of `method`; None: a step of the model has the value
    kind: str = OUTPUT
    number: int = 0  # of the argument, for `INPUT`
    method: str = ""  # a method whose argument or result is the value; empty: the module's call


def block_sites(layers: Iterable[nn.Module], S: str, mlp: str = "mlp") -> dict[str, Site]:
    """Return the sites of blocks whose tokens attend to each other.

    Args:
        layers: the blocks, in order.
        S: name of the number of tokens.
        mlp: name of a block's feed-forward layer.
    """
    heads, weights = f"[B, heads, {S}, D / heads]", f"[B, heads, {S}, {S}]"
    return layer_sites(layers, f"[B, {S}, D]", heads, heads, weights, heads, mlp)


def layer_sites(
    layers: Iterable[nn.Module],
    each: str,
    query: str,
    key: str,
    weights: str,
    mixed: str,
    mlp: str = "mlp",
) -> dict[str, Site]:
    """Return the sites of blocks; shapes are those of states, queries, keys, weights and heads."""
    sites = dict[str, Site]()
    for number, block in enumerate(layers):
        found = {"input": Site(f"float {each}, input of the block", block, INPUT)}
        attention = next((part for part in block.modules() if isinstance(part, Attention)), None)
        if attention is not None:
            core = attention.dot_product
            found |= {
                "queries": Site(f"float {query}, with their rotation", core, INPUT, 0),
                "keys": Site(f"float {key}, with their rotation", core, INPUT, 1),
                "values": Site(f"float {key}", core, INPUT, 2),
                "attention": Site(f"float32 {weights}, attention weights", core, WEIGHTS),
                "heads": Site(f"float {mixed}, output of each head", core),
                "attended": Site(f"float {each}, output of the attention layer", attention),
            }
        if (last := getattr(block, mlp, None)) is not None:
            found["mlp"] = Site(f"float {each}, output of the feed-forward layer", last)
        found["output"] = Site(f"float {each}, output of the block", block)
        sites |= {f"blocks.{number}.{name}": site for name, site in found.items()}
    return sites


def module_sites(model: nn.Module) -> dict[str, Site]:
    """Return the outputs of all modules of a network, less those of its ``layers``."""
    return {
        name: Site(f"output of {type(part).__name__}", part)
        for name, part in model.named_modules()
        if name and not name.startswith("layers.")
    }

"""Sites of a model: the named values of its computation.

Other libraries call them hook points. `trm.models.hooks` records and replaces their values.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import nn

from trm.models.attention import Attention
from trm.models.gpt import GPT
from trm.models.iterative import IterativeModel
from trm.models.recursive import TinyRecursiveModel

OUTPUT, INPUT, WEIGHTS = "output", "input", "weights"  # kinds of values
# Usual tensors of a state, of P prefix tokens and S cells.
STATES = {
    "z_H": "float [B, P + S, D], the answer so far, after a supervision step",
    "z_L": "float [B, P + S, D], the reasoning, after a supervision step",
}


class Site(NamedTuple):
    """Meaning of a value, and where it is found while the model computes."""

    text: str  # dtype, shape and meaning
    part: Any = None  # a module, or the owner of `method`; None: a step of the model has the value
    kind: str = OUTPUT
    number: int = 0  # of the argument, for `INPUT`
    method: str = ""  # a method whose argument or result is the value; empty: the module's call


def sites_of(model: nn.Module, states: Sequence[str] = ()) -> dict[str, Site]:
    """Return the sites of a network in order of computation.

    A class can have a method ``sites(states)`` of its own.

    Args:
        model: a network of any family, or another module.
        states: names of the tensors of the state, for a class that does not declare them.
    """
    if callable(own := getattr(model, "sites", None)):
        return own(states)
    if isinstance(model, TinyRecursiveModel):
        return _recursive_sites(model, states)
    if isinstance(model, GPT):
        return _gpt_sites(model)
    found = block_sites(getattr(model, "layers", ()), "S") | module_sites(model)
    return found | last_sites(model, states) if isinstance(model, IterativeModel) else found


def _recursive_sites(model: TinyRecursiveModel, states: Sequence[str]) -> dict[str, Site]:
    embed = "float [B, S, D], embedded symbols, without positions"
    cells = "int64 [B, cells], cell of each token after the prefix; H * W: padding. It cannot be"
    return {
        "embed": Site(embed, model.embed_tokens),
        "inputs": Site("float [B, S, D], embedded prefix and symbols with positions"),
        "cells": Site(f"{cells} replaced"),
        **block_sites(model.layers, "S"),
        **last_sites(model, states or [*getattr(model, "states", STATES)]),
    }


def _gpt_sites(model: GPT) -> dict[str, Site]:
    embed = "float [B, T, D], embedded symbols, without positions"
    logits = "float [B, T, V], of the next token; `run_with_cache` returns those of cells"
    found = {
        "embed": Site(embed, model.embed_tokens),
        **block_sites(model.layers, "T", mlp="down"),
        "norm": Site("float [B, T, D], states after the last norm", model.norm),
        "logits": Site(logits, model, method="head"),
    }
    if model.halt_head is not None:
        halting = "float32 [B, T], or [B] while it writes token by token"
        found["halt_logits"] = Site(halting, model, method="halt_logits")
    return found


def last_sites(model: IterativeModel, states: Sequence[str] = ()) -> dict[str, Site]:
    """Return the sites after the blocks: the tensors of the state, and both results.

    Args:
        model: an iterative model. Its attribute ``states``, if it has one, is a dictionary from
            names of tensors to their dtype, shape and meaning.
        states: names of the tensors; empty: those of ``model.states`` or `updates`, or ``state``.
    """
    declared = getattr(model, "states", {})
    declared = declared if isinstance(declared, Mapping) else {}  # or a part that is called so
    about = {**STATES, **declared}
    known = [*declared] or [*dict.fromkeys(model.updates)] or ["state"]
    return {name: Site(about.get(name, "of the state")) for name in states or known} | {
        "logits": Site("float [B, H, W, V], of each cell's symbol"),
        "halt_logits": Site("float32 [B], of each canvas"),
    }


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

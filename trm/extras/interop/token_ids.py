"""Token ids of other projects' models, changed to those of `canvas.symbols`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import nn

from canvas.choices import did_you_mean
from canvas.symbols import CHARACTERS

M = TypeVar("M", bound=nn.Module)


def renumbered(model: M, symbols: str, needed: Sequence[int], absent: int) -> M:
    """Return a model whose token ids are those of `canvas.symbols`.

    Example: ``renumbered(gpt, "0123456789*_#^$", needed, START)`` for a GPT of the note, whose id
    10 is the times sign.

    Args:
        model: a GPT or a recursive transformer with other ids.
        symbols: the character in `canvas.symbols.CHARACTERS` of each of its ids. Further ids of the
            model are dropped.
        needed: ids that the problems need.
        absent: symbols that the model lacks get the weights of this one, which no label was.

    Raises:
        ValueError: the symbols are not those of such a model.
    """
    config: Any = model.config
    at = {character: index for index, character in enumerate(symbols)}
    missing = "".join(CHARACTERS[i] for i in (*needed, absent) if CHARACTERS[i] not in at)
    unknown = "".join(c for c in at if c not in CHARACTERS)
    if unknown or missing or len(at) < len(symbols) or len(symbols) > config.vocab_size:
        why = f"the model has {config.vocab_size} ids"
        if unknown:
            why = f"{unknown} is no symbol{did_you_mean(unknown, CHARACTERS)}"
        elif missing:
            why = f"it lacks {missing}"
        elif len(at) < len(symbols):
            why = "a symbol occurs twice"
        raise ValueError(
            f"symbols {symbols}: {why}. Name the symbol of each id once; the symbols are "
            f"{' '.join(CHARACTERS)}"
        )
    most = max(max(needed) + 1, *(CHARACTERS.index(c) + 1 for c in symbols))
    rows = torch.tensor([at.get(c, at[CHARACTERS[absent]]) for c in CHARACTERS[:most]])
    weights = {
        name: value[rows] if name in ("embed_tokens.weight", "lm_head.weight") else value
        for name, value in model.state_dict().items()
    }
    kind: Any = type(model)
    changed: M = kind(replace(config, vocab_size=most))
    changed.load_state_dict(weights)
    return changed

"""One HTML file with a local model in it, which works problems out in a browser, cell by cell.

That is `page.html` with its style and scripts put into it, and what `model.js` has to know.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from canvas.symbols import CHARACTERS
from canvas.windows import NEIGHBOURS, SEES
from trm.models.local import LocalRecursiveModel
from trm.solving.solver import Solver

_BASE = 10  # of numbers as people type them


def page(solver: Solver, weights: Mapping[str, Tensor], card: Mapping[str, Any]) -> str:
    """The file's text.

    Args:
        solver: of a model whose cells hand on decided messages.
        weights: the network's, by name; kept as float32, for which it is proved.
        card: of an exported file, in which its proof stands if there is one.

    ValueError: it is a model of another kind, base, or layout than those of this package.
    """
    model, layout = getattr(solver.predictor, "model", None), solver.task.rules
    own_layout = not type(layout).__module__.startswith("canvas.")
    if not isinstance(model, LocalRecursiveModel) or own_layout or solver.task.base != _BASE:
        raise ValueError(
            "a page shows models whose cells hand on decided messages, in base 10 and a layout of "
            "this package, as `trm fit --config quickstart` trains them"
        )
    heads = zip(model.heads.heads, model.heads.reads, strict=True)
    tensors = {name: value.float().numpy().astype("<f4") for name, value in weights.items()}
    about = {
        "config": asdict(model.config),
        "layout": layout.name,
        "sign": CHARACTERS[layout.sign],
        "heights": [layout.room((1, digits), _BASE)[0] for digits in (1, 2)],
        "symbols": CHARACTERS,
        "outputs": [*model.outputs.items()],
        "codes": [*model.config.codes],
        "ways": [
            {"name": SEES[way], "step": NEIGHBOURS.get(way), "fields": fields}
            for way, fields in model.heads.ways.items()
        ],
        "heads": [{"says": head.says, "reads": head.reads, "of": of} for head, of in heads],
        "parameters": model.num_parameters,
        "trained": solver.trained_on,
        "proof": card.get("proof"),
        "weights": [(n, base64.b64encode(part.tobytes()).decode()) for n, part in tensors.items()],
    }
    text = _read("page.html").replace("{}", json.dumps(about).replace("<", "\\u003c"))
    style = '<link rel="stylesheet" href="page.css">'
    text = text.replace(style, f"<style>\n{_read('page.css')}</style>")
    for script in ("model.js", "page.js"):
        there = f'<script src="{script}"></script>'
        text = text.replace(there, f"<script>\n{_read(script)}</script>")
    return text


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")

"""Parameters of cell models against their incorrect op inputs.

    python benchmarks/smallest.py --checkpoint runs/a runs/b tiny-seed0 --output docs/smallest.png

Each model runs on all reachable inputs of its layout. A model without an incorrect one, whose
margins exceed what rounding can do, is proved.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from canvas.cells.reachable import reachable_op_inputs
from trm import load_solver
from trm.cells.proof.compare import compare, provable
from trm.figures.style import INK, mark, new_figure, save, tidy
from trm.io.markdown import table


class Judgement(NamedTuple):
    """A model on all inputs that its cells can receive."""

    name: str
    layout: str  # of the task
    parameters: int
    inputs: int  # reachable op inputs
    incorrect: int  # of them
    margin: float  # the smallest of a correct logit
    arithmetic: str | None  # in which it is proved; None: not proved


def judged(name: str) -> Judgement:
    """Run a model, a checkpoint or a name of saved weights, on its reachable inputs."""
    torch.set_num_threads(1)
    solver = load_solver(name, device="cpu")
    model = solver.predictor.model
    rule = provable(model, solver.task)
    ids = reachable_op_inputs(rule)
    found = compare(model, ids, rule.decide(ids))
    margin = float(found.margin[found.right].min(initial=torch.inf))
    sizes = model.num_parameters, len(found.numbers), len(found.wrong)
    return Judgement(name, solver.task.layout, *sizes, margin, found.arithmetic)


def draw(found: Sequence[Judgement]) -> Any:
    """Draw incorrect inputs against parameters, a curve for each layout; a ring: proved."""
    note = "Each model on all inputs that its cells can receive; a ring marks the proved ones."
    figure = new_figure(7, 4, "Parameters and incorrect inputs of cell models", note)
    axes = figure.subplots()
    for i, layout in enumerate(dict.fromkeys(one.layout for one in found)):
        of = sorted((one for one in found if one.layout == layout), key=lambda one: one.parameters)
        sizes, counts = [one.parameters for one in of], [one.incorrect for one in of]
        axes.plot(
            sizes, counts, linestyle="none", label=f"{layout}, {of[0].inputs:,} inputs", **mark(i)
        )
        proved = [one for one in of if one.arithmetic]
        places = [one.parameters for one in proved], [one.incorrect for one in proved]
        axes.plot(*places, "o", color=INK, fillstyle="none", markersize=12)
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(-0.3, 2 + 2 * max(one.incorrect for one in found))
    axes.set_xlabel("parameters")
    axes.set_ylabel("incorrect inputs")
    axes.legend(frameon=False, fontsize=8.5)
    tidy(axes)
    return figure


def main() -> None:
    """Judge the models, and print and draw the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkpoint", nargs="+", required=True, help="runs, or names of weights")
    parser.add_argument("--output", type=Path, help="a PNG")
    args = parser.parse_args()
    found = [judged(name) for name in args.checkpoint]
    lines = [
        [one.name, one.layout, f"{one.parameters:,}", f"{one.inputs:,}", f"{one.incorrect:,}",
         f"{one.margin:.3g}", one.arithmetic or "not proved"]
        for one in found
    ]  # fmt: skip
    heads = ["model", "layout", "parameters", "inputs", "incorrect", "smallest margin", "proved in"]
    print(table(heads, lines))
    if args.output:
        save(draw(found), args.output)


if __name__ == "__main__":
    main()

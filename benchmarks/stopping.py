"""The stop of a recursive transformer's rows: its halting head beside simple read-outs.

    python benchmarks/stopping.py --checkpoint decimal-seed0 --digits 8 8 --problems 200

For each rule the whole solutions that are correct, free-running, and the supervision steps a row.
Problems are of the test split, those of problem seed 5.
"""

import argparse
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from canvas.sampling import sample
from canvas.symbols import MASK
from trm import load_solver
from trm.io.markdown import table
from trm.models.iterative import Loop
from trm.runtime.torch_settings import tensor_for
from trm.solving.iterative_predictor import AfterStep, IterativePredictor

# Halt logits, unchanged steps, the least highest probability and the most entropy of a masked cell,
# [N] each, to the rows that stop, bool [N].
Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]

RULES: dict[str, Rule] = {
    "head, and 2 unchanged": lambda head, calm, top, entropy: (head > 0) & (calm >= 2),
    "head": lambda head, calm, top, entropy: head > 0,
    "1 unchanged": lambda head, calm, top, entropy: calm >= 1,
    "2 unchanged": lambda head, calm, top, entropy: calm >= 2,
    "3 unchanged": lambda head, calm, top, entropy: calm >= 3,
    "4 unchanged": lambda head, calm, top, entropy: calm >= 4,
    "highest probability above 0.9": lambda head, calm, top, entropy: top > 0.9,
    "highest probability above 0.99": lambda head, calm, top, entropy: top > 0.99,
    "entropy below 0.1": lambda head, calm, top, entropy: entropy < 0.1,
    "all steps": lambda head, calm, top, entropy: torch.zeros_like(head, dtype=torch.bool),
}


class Ruled(IterativePredictor):
    """Fills rows until a rule stops them."""

    rule: Rule

    def _steps(
        self, inputs: np.ndarray, steps: int, rollouts: np.ndarray | None = None
    ) -> Iterator[AfterStep]:
        tokens = tensor_for(self.model, inputs)
        masked, loop = tokens == MASK, Loop(self.model, tokens)
        samples, before = torch.arange(len(tokens)), torch.zeros_like(tokens)
        calm = torch.full((len(tokens),), -1)  # no answer precedes the first step
        for number in range(1, steps + 1):
            loop.step()
            logits, head = loop.read()
            cells = logits.argmax(-1).to(tokens.dtype)
            unchanged = ((cells == before) | ~masked).flatten(1).all(1) | (calm < 0)
            calm, before = (calm + 1) * unchanged, cells
            log_p = logits.float().log_softmax(-1)
            top = log_p.exp().amax(-1).masked_fill(~masked, 1).flatten(1).amin(1)
            entropy = -(log_p.exp() * log_p).sum(-1).masked_fill(~masked, 0).flatten(1)
            settled = self.rule(head, calm, top, entropy.amax(1))
            last = settled if number < steps else torch.ones_like(settled)
            yield AfterStep(number, samples, head.float().sigmoid(), logits, cells, settled, last)
            if last.all():
                return
            kept = ~last
            loop.keep(kept)
            samples, masked, calm, before = (x[kept] for x in (samples, masked, calm, before))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--digits", type=int, nargs=2, required=True, metavar=("A", "B"))
    parser.add_argument("--problems", type=int, default=200)
    args = parser.parse_args()
    torch.set_num_threads(1)
    solver = load_solver(args.checkpoint, device="cpu")
    if not isinstance(solver.predictor, IterativePredictor):
        raise SystemExit("stopping.py: give --checkpoint a recursive transformer")
    index = np.arange(args.problems)
    problems = sample(solver.task, 5, "test", 0, index, tuple(args.digits))
    drawing, rows = solver.draw_worked(problems), []
    for name, rule in RULES.items():
        predictor = Ruled(solver.predictor.model, solver.predictor.max_steps)
        predictor.rule = rule
        found = predictor.free_running(drawing)
        correct = int((found.canvases == drawing.truth).all(axis=(1, 2)).sum())
        steps = found.steps.sum() / drawing.num_rows.sum()
        rows.append([name, f"{correct} of {len(problems)}", f"{steps:.1f}"])
    print(table(["a row stops after", "correct", "steps a row"], rows))


if __name__ == "__main__":
    main()

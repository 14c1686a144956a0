"""The logit lens: which symbols a model would write if its head read every layer.

After nostalgebraist 2020, "interpreting GPT: the logit lens". The head is the model's own, nothing
is fitted: what the last layer of the last step says is what the model writes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from canvas.symbols import MASK
from trm.analysis.record import SequenceRecorder, Site, StepRecorder, check_cells
from trm.models.gpt import GPT
from trm.models.iterative import named
from trm.solving.rollout import Predictor
from trm.torch_settings import standard_settings

SHOWN = 6  # supervision steps that are read, at most


class Lens(NamedTuple):
    """What the head says of the C cells of a row after each of N layers."""

    sites: list[str]  # where the head reads, in the order in which the model computes
    row: int  # of the canvas, the one that is filled in
    columns: np.ndarray  # int64 [C], its cells from left to right
    log_probs: np.ndarray  # float32 [N, C, V], of each symbol

    @property
    def symbols(self) -> np.ndarray:
        """The likeliest ones, ``uint8 [N, C]``."""
        return self.log_probs.argmax(axis=-1).astype(np.uint8)

    def of(self, truth: np.ndarray) -> np.ndarray:
        """The log-probability of each cell's symbol in ``uint8 [H, W]``, ``float32 [N, C]``."""
        right = truth[self.row, self.columns].astype(np.int64)
        return np.take_along_axis(self.log_probs, right[None, :, None], axis=-1)[..., 0]


@standard_settings()
@torch.no_grad()
def read_layers(predictor: Predictor, canvas: np.ndarray, steps: Sequence[int]) -> Lens:
    """Let the head read every layer while a model fills in the masked row of ``uint8 [H, W]``.

    - A model that takes supervision steps: in some of them (from 1; the last is that of the
      answer), after each layer of the last update of the tensor that the head reads (z_H of a
      recursive model), and after the last update of any other (z_L), read in its place. Where the
      model does not tell its updates (`IterativeModel`), its state after each step.
    - A GPT: after each block of each loop, through the last norm. A cell is read at the token that
      writes it; the cells before hold what the model wrote there itself.

    ValueError: the model is a local one, or it refuses the canvas.
    """
    masked = canvas == MASK
    check_cells(predictor.model)
    model, found = predictor.model, list[tuple[str, Tensor]]()  # names of sites, and logits
    if isinstance(model, GPT):
        decoder = SequenceRecorder(model, predictor(canvas[None]).canvases)
        held = decoder.run(decoder.states()).values.items()
        found = [(s.name, model.head(model.norm(decoder.on_canvas(x)))) for s, (x,) in held]
    else:
        recorder, sites = StepRecorder(model, canvas[None], max(steps)), dict[str, Site]()
        for step, state in zip(sorted(steps), recorder.states(sorted(steps)), strict=True):
            for update, of_update in recorder.layers(step).items():
                if update == model.updates[-1]:
                    sites |= {f"step {step}, {site.name}": site for site in of_update}
                else:
                    sites[f"step {step}, {update}"] = of_update[-1]
            if not recorder.updates:
                sites[state.name] = state
        values = recorder.run([*sites.values()]).values
        for name, site in sites.items():
            tensors = values[site]
            if recorder.updates:  # in place of the one that the head reads
                whole = named(recorder.initial) | {model.updates[-1]: tensors[0]}
                tensors = list(whole.values())
            found.append((name, recorder.read(tensors)))
    cells = torch.from_numpy(masked)
    read = [logits[0].float().log_softmax(dim=-1).cpu()[cells] for _, logits in found]
    row, columns = np.nonzero(masked)
    return Lens([name for name, _ in found], int(row[0]), columns, torch.stack(read).numpy())


def some_steps(last: int) -> list[int]:
    """A few supervision steps from 1 to the last one, closer together at the start."""
    return sorted(set(np.geomspace(1, last, SHOWN).round().astype(int).tolist()))

"""Logit lens: symbols that a model's output head predicts from each layer.

After nostalgebraist 2020, "interpreting GPT: the logit lens". The head is the model's own, and
nothing is fitted. The prediction of the last layer in the last step is the model's output.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from canvas.symbols import MASK
from trm.extras.analysis.record import SequenceRecorder, StepRecorder, Visits, check_cells
from trm.models.states import named
from trm.runtime.torch_settings import standard_settings
from trm.solving.families import family_of
from trm.solving.predictor import Predictor

SHOWN = 6  # most supervision steps that are read


class Lens(NamedTuple):
    """Predictions of the head for the C cells of a row after each of N layers."""

    sites: list[str]  # names of the layers, in order of computation
    row: int  # row of the canvas that is filled in
    columns: np.ndarray  # int64 [C], cells of the row from left to right
    log_probs: np.ndarray  # float32 [N, C, V], of each symbol

    @property
    def symbols(self) -> np.ndarray:
        """Likeliest symbols, ``uint8 [N, C]``."""
        return self.log_probs.argmax(axis=-1).astype(np.uint8)

    def of(self, truth: np.ndarray) -> np.ndarray:
        """Return the log-probability of each cell's true symbol, ``float32 [N, C]``.

        ``truth`` is the true canvas, ``uint8 [H, W]``.
        """
        correct = truth[self.row, self.columns].astype(np.int64)
        return np.take_along_axis(self.log_probs, correct[None, :, None], axis=-1)[..., 0]


@standard_settings()
@torch.no_grad()
def read_layers(predictor: Predictor, canvas: np.ndarray, steps: Sequence[int]) -> Lens:
    """Apply the head to every layer while a model fills in the masked row of a canvas.

    ``canvas`` is ``uint8 [H, W]``. ``steps`` are supervision steps from 1; the last one gives the
    answer.

    - Model with supervision steps: the head is applied in each of the steps. It reads each layer of
      the last update of the tensor that the head reads (z_H of a recursive model). The last update
      of any other tensor (z_L) is read in its place. Without `IterativeModel.updates` the head
      reads the state after each step.
    - GPT: the head is applied after each block of each loop, through the last norm. A cell is read
      at the token that writes it; earlier cells contain the model's own symbols.

    Raises:
        ValueError: the model is a cell model, or it refuses the canvas.
    """
    masked = canvas == MASK
    check_cells(predictor.model)
    model, found = predictor.model, list[tuple[str, Tensor]]()  # names of sites, and logits
    if family_of(model).reads_sequences:
        decoder = SequenceRecorder(model, predictor(canvas[None]).canvases)
        decoded = decoder.run(decoder.states()).values.items()
        found = [(s.name, model.head(model.norm(decoder.on_canvas(x)))) for s, (x,) in decoded]
    else:
        recorder, sites = StepRecorder(model, canvas[None], max(steps)), dict[str, Visits]()
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
    """Return a few supervision steps from 1 to the last one, closer together at the start."""
    return sorted(set(np.geomspace(1, last, SHOWN).round().astype(int).tolist()))

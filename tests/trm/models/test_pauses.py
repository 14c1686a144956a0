from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny import confident_gpt

from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.symbols import encode
from trm.extras.analysis.record import SequenceRecorder
from trm.models.configs import POSITIONS, GPTConfig
from trm.models.gpt import GPT
from trm.models.pauses import FIRST, Pauses
from trm.solving.calibration import Calibration
from trm.solving.gpt_predictor import GPTPredictor
from trm.training.data import CanvasDataModule
from trm.training.gpt_module import GPTModule
from trm.training.samples import SequenceSamples

SIZES = {"height": 4, "width": 5, "hidden_size": 16, "num_heads": 2, "num_layers": 2}
TASK = Addition(digits=(1, 2))
make = partial(confident_gpt, pauses=3)


def batch_of(number: int = 6) -> dict[str, torch.Tensor]:
    """Sums at different places of a canvas, so that their pauses stand at different places."""
    return SequenceSamples(TASK, Canvas(4, 5), "train", 0, 64, 64).__getitems__(range(number))


def ids_of(text: str) -> torch.Tensor:
    return torch.from_numpy(encode(text).astype(np.int64))


def test_pauses_follow_the_row_with_the_sign():
    ids = torch.stack([ids_of("^3_#2*#6_#"), ids_of("^___#3_*#6"), ids_of("^3_#2_#6_#")])
    pauses = Pauses.of(ids, 2)
    assert pauses.after.tolist() == [7, 9, 10]
    inserted = pauses.inserted(ids)
    assert inserted[0].tolist() == [*ids[0, :7].tolist(), FIRST, FIRST + 1, *ids[0, 7:].tolist()]
    assert torch.equal(pauses.removed(inserted), ids)
    # The last pause predicts the first token of the answer.
    assert pauses.of_writers(inserted)[0, 6] == FIRST + 1
    assert torch.equal(pauses.of_writers(inserted)[0, 7:], ids[0, 7:])
    assert pauses.sources[0].tolist() == [0, 1, 2, 3, 4, 5, 6, 6, 6, 7, 8, 9]


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("loops", [1, 2])
def test_decoding_puts_the_pauses_in_that_training_had(position, loops):
    model, batch = make(position=position, loops=loops), batch_of()
    ids, free = batch["ids"], batch["labels"] >= 0
    forced = torch.nn.functional.pad(ids, (0, 1)).masked_fill(
        torch.nn.functional.pad(free, (1, 0)), -1
    )
    written, log_probs, *_ = model.generate(forced, 4, 5, end=99)
    assert written.shape == forced.shape
    assert torch.equal(written[forced >= 0], forced[forced >= 0])
    likely = torch.log_softmax(model(written[:, :-1], 4, 5), dim=-1).max(dim=-1)
    assert torch.equal(written[:, 1:][free], likely.indices[free])
    torch.testing.assert_close(log_probs[:, 1:][free], likely.values[free], rtol=1e-4, atol=1e-5)


def test_pauses_change_nothing_that_is_read_before_them():
    batch, model = batch_of(), make()
    ids, first = batch["ids"], (batch["labels"] >= 0).byte().argmax(dim=1)
    before = model(ids, 4, 5)
    with torch.no_grad():
        model.pauses.mul_(-3)
    after = model(ids, 4, 5)
    for sample, start in enumerate(first.tolist()):
        assert torch.equal(before[sample, : start - 6], after[sample, : start - 6])
        assert not torch.allclose(before[sample, start:], after[sample, start:])
    model(ids, 4, 5)[batch["labels"] >= 0].sum().backward()
    assert (model.pauses.grad != 0).any(dim=1).all()


def test_a_gpt_without_pauses_has_the_weights_of_before():
    plain = make(pauses=0)
    assert plain.pauses is None
    assert "pauses" not in plain.state_dict()
    torch.manual_seed(0)
    other = GPT(GPTConfig(**SIZES, pauses=2)).state_dict()
    torch.manual_seed(0)
    for name, value in GPT(GPTConfig(**SIZES)).state_dict().items():
        assert torch.equal(value, other[name])


def test_a_model_with_pauses_solves_alone_as_in_a_batch():
    predictor = GPTPredictor(make(position="rope_2d"), Calibration())
    drawing = TASK.canvas_layout.draw_worked(
        TASK.problems([(12, 34), (5, 67), (8, 9)]), 4, 5, top=np.array([0, 1, 0])
    )
    together = predictor.free_running(drawing).canvases
    for i in range(3):
        alone = predictor.free_running(drawing[np.array([i])]).canvases
        assert (alone[0] == together[i]).all()


def test_a_layout_without_a_sign_has_no_place_for_pauses(monkeypatch):
    module, data = SimpleNamespace(model=make()), CanvasDataModule(TASK, Canvas(4, 5))
    GPTModule.check(module, data)
    monkeypatch.setattr(data.task.canvas_layout, "sign", 5)
    with pytest.raises(ValueError, match="layout column has no sign"):
        GPTModule.check(module, data)


def test_cells_of_a_model_with_pauses_are_not_looked_into():
    with pytest.raises(ValueError, match="a GPT with pauses"):
        SequenceRecorder(make(), np.zeros((1, 4, 5), np.uint8))

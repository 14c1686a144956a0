"""Windows judged: right ones, wrong ones, margins, and what rounding leaves of them."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from canvas.cells.check import THOROUGH
from canvas.choices import OwnCodeError
from canvas.multiplication import Multiplication
from trm.cells.model import CellModel
from trm.cells.proof.bound import RoundingBound
from trm.cells.proof.compare import NotProvableError, compare_with_canvases, provable
from trm.models.configs import GPTConfig
from trm.models.gpt import GPT


@pytest.mark.parametrize("name", ["binary", "ternary", "sums", "written"])
def test_margins_of_a_proved_model_exceed_its_rounding_errors(name, request):
    trained = request.getfixturevalue(name)
    assert trained.comparison.wrong.size == 0
    assert trained.comparison.margin.min() > trained.comparison.left.min() > 0
    assert trained.comparison.arithmetic == ("float64" if name == "ternary" else "float32")
    # Logits in float32 and float64 differ by less than what is allowed for.
    numbers = trained.comparison.numbers
    op_inputs, labels = torch.from_numpy(numbers), torch.from_numpy(trained.rule.decide(numbers))
    double = copy.deepcopy(trained.model).double()
    with torch.no_grad():
        margins = []
        for model in (trained.model, double):
            parts = model.parts(model.cells(model.reader.decode(op_inputs))[0])
            least = torch.full((len(op_inputs),), torch.inf, dtype=torch.float64)
            for logits, correct in zip(parts.values(), labels.T, strict=True):
                label = correct.clamp(min=0)[:, None]
                apart = logits.gather(1, label)[:, 0] - logits.scatter(1, label, -torch.inf).amax(1)
                least = least.minimum(apart.double().masked_fill(correct < 0, torch.inf))
            margins.append(least)
    single, exact = margins
    coarse, fine, double = (
        RoundingBound(trained.model, *how).left(op_inputs, labels)
        for how in (("float32",), ("float32", True), ("float64",))
    )
    assert (single - exact).abs().max() > 0
    assert ((single - exact).abs() < exact - fine).all()
    assert (fine >= coarse).float().mean() > 0.9
    assert (exact > double).all()
    assert (exact < double + 1e-3).all()


def test_models_that_cannot_be_proved_are_refused(binary):
    with pytest.raises(NotProvableError, match="layout direct declares no local rule"):
        provable(binary.model, Multiplication(layout="direct"))
    with pytest.raises(NotProvableError, match="a GPT passes more than decided messages"):
        provable(GPT(GPTConfig(9, 9, hidden_size=12)), binary.task)
    with pytest.raises(NotProvableError, match="other messages than the layout lattice in base 3"):
        provable(binary.model, replace(binary.task, base=3))
    broken = CellModel(binary.model.config)
    with torch.no_grad():
        broken.lm_head.weight[0, 0] = torch.nan
    with pytest.raises(NotProvableError, match="not all finite"):
        provable(broken, binary.task)


def test_training_problems_have_reachable_inputs_alone(ternary):
    found = compare_with_canvases(ternary.rule, ternary.task, ternary.comparison.numbers)
    seen, number = found.in_training, (found.trained, found.tested.canvases)
    assert number == (500, 500 + 50 + 49), "fewer than where it is not tested"
    assert (seen <= found.shown).all()
    assert found.tested.digits > 3
    assert found.tested.shown == found.shown.sum()
    assert THOROUGH == (20_000, 2000)
    assert 0 < seen.sum() < len(seen)


def test_a_reachable_set_that_lacks_an_input_proves_nothing(ternary):
    numbers = ternary.comparison.numbers
    seen = compare_with_canvases(ternary.rule, ternary.task, numbers).in_training
    first, *_, last = np.flatnonzero(seen)
    said = r"row \d+, column \d+ of \d+ x \d+, in which .+ stands, has an input that is not"
    for few in (np.delete(numbers, first), np.delete(numbers, last), numbers[:last], numbers[:0]):
        with pytest.raises(OwnCodeError, match=said):
            compare_with_canvases(ternary.rule, ternary.task, few)


def test_a_model_is_proved_in_float32_alone(binary):
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(NotProvableError, match="a proof applies to float32"),
    ):
        provable(binary.model, binary.task)
    with pytest.raises(NotProvableError, match="a proof applies to float32"):
        provable(copy.deepcopy(binary.model).double(), binary.task)

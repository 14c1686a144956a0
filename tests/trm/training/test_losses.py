from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from canvas.symbols import PAD
from trm.training.losses import (
    LOSSES,
    stablemax_cross_entropy,
    step_loss,
)

REFERENCE = Path(__file__).parents[2] / "reference"
TRM_FILES = sorted(REFERENCE.glob("trm_*.npz"))


def canvas_batch(B=6, H=5, W=9, V=14, dtype=torch.float32, seed=0):
    """Random logits and labels; the answer is one row of each canvas, some rows right."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(B, H, W, V, generator=generator)
    labels = torch.randint(1, V, (B, H, W), generator=generator, dtype=torch.uint8)
    answer = torch.zeros(B, H, W, dtype=torch.bool)
    answer[torch.arange(B), torch.arange(B) % H] = True
    logits[::2] += 20 * F.one_hot(labels[::2].long(), V)  # samples 0, 2, 4 are all right
    halt_logits = torch.randn(B, generator=generator)
    return logits.to(dtype).requires_grad_(), halt_logits.requires_grad_(), labels, answer


def loss_by_definition(logits, labels, answer, loss):
    """Sample by sample and cell by cell, as the docstring says it."""
    per_sample = []
    for sample, label, asked in zip(logits, labels, answer, strict=True):
        counted = ((label != PAD) & asked).nonzero().tolist()
        cells = [LOSSES[loss](sample[row, column], label[row, column]) for row, column in counted]
        per_sample.append(torch.stack(cells).mean())
    return torch.stack(per_sample).mean()


@pytest.mark.parametrize("path", TRM_FILES, ids=lambda path: path.stem)
def test_step_loss_times_the_batch_is_the_loss_of_the_reference_trm(path):
    reference = np.load(path)
    labels = torch.tensor(reference["batch/labels"])[:, None, :]  # one row of 36 cells
    answer = labels != -100
    labels = labels.masked_fill(~answer, PAD).to(torch.uint8)
    for k in range(4):
        logits = torch.tensor(reference[f"step{k}/logits"])[:, None]
        halt_logits = torch.tensor(reference[f"step{k}/q_halt_logits"])
        step = step_loss(logits, halt_logits, labels, answer, loss="stablemax")
        B = len(labels)
        assert B * step.lm.item() == pytest.approx(reference[f"step{k}/lm_loss"].item(), rel=1e-5)
        halt = reference[f"step{k}/q_halt_loss"].item()
        assert B * step.halt.item() == pytest.approx(halt, rel=1e-5)


@pytest.mark.parametrize("values", [[0.0, 0.0, 0.0], [1.0, 1.0, -1e6], [1e6, -1.0, 1.0]])
def test_stablemax_gradient_is_finite_and_not_lost_where_its_branches_meet(values):
    logits = torch.tensor([values], dtype=torch.float64, requires_grad=True)
    stablemax_cross_entropy(logits, torch.tensor([1])).sum().backward()
    assert logits.grad.isfinite().all()
    assert logits.grad[0, 1] < 0


@pytest.mark.parametrize("loss", LOSSES)
def test_step_loss_and_its_gradient_follow_the_definition(loss):
    logits, halt_logits, labels, answer = canvas_batch()
    labels[1, :, 6:] = PAD  # a narrower canvas
    labels[2, 3:] = PAD
    step = step_loss(logits, halt_logits, labels, answer, loss=loss)
    expected = loss_by_definition(logits, labels, answer, loss)
    torch.testing.assert_close(step.lm, expected.float())
    (gradient,) = torch.autograd.grad(step.lm, logits)
    (expected_gradient,) = torch.autograd.grad(expected, logits)
    torch.testing.assert_close(gradient, expected_gradient)


def test_metrics_look_at_answer_cells_only():
    logits, halt_logits, labels, answer = canvas_batch()
    with torch.no_grad():
        logits[~answer] = 0  # every given wrong
        halt_logits.copy_(torch.tensor([1.0, 1.0, -1.0, -1.0, 2.0, -2.0]))
    step = step_loss(logits, halt_logits, labels, answer)
    right = (logits.argmax(-1) == labels)[answer]
    assert step.row_exact.tolist() == [True, False, True, False, True, False]
    assert step.cell_accuracy.item() == pytest.approx(right.float().mean().item())
    assert step.halt_accuracy.item() == pytest.approx(4 / 6)
    assert not step.cell_accuracy.requires_grad


def test_halting_head_learns_whether_the_whole_row_is_right():
    logits, halt_logits, labels, answer = canvas_batch()
    step = step_loss(logits, halt_logits, labels, answer)
    (gradient,) = torch.autograd.grad(step.halt, halt_logits, retain_graph=True)
    assert torch.equal(gradient < 0, step.row_exact)
    torch.testing.assert_close(step.total, step.lm + 0.5 * step.halt)
    assert torch.autograd.grad(step.halt, logits, allow_unused=True) == (None,)

"""The losses of a supervision step (wrong cells, a wrong guess at being done) and of sequences.

The cross entropies give one loss per token, so that anyone can weigh tokens as they like;
`step_loss` weighs them the way the canvas asks for.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from canvas.render import IGNORE
from canvas.symbols import PAD


def softmax_cross_entropy(logits: Tensor, labels: Tensor, ignore_index: int = -100) -> Tensor:
    """Cross entropy under the softmax, one loss per token, in nats.

    Of logits ``[..., V]`` of any floating dtype and integer labels ``[...]``, ``float32 [...]``
    (``float64`` for ``float64``); tokens with the label ``ignore_index`` cost 0.
    """
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    tokens = exact.reshape(-1, logits.shape[-1]), labels.reshape(-1).long()
    losses = F.cross_entropy(*tokens, ignore_index=ignore_index, reduction="none")
    return losses.view(labels.shape)


def stablemax_cross_entropy(logits: Tensor, labels: Tensor, ignore_index: int = -100) -> Tensor:
    """Cross entropy under the stablemax, one loss per token, in nats: ``float64 [...]``.

    The stablemax is ``s(x) / sum(s(x))`` with ``s(x) = x + 1`` for ``x >= 0`` and ``1 / (1 - x)``
    below: no exponential, so large logits are not absorbed by rounding (Prieto et al. 2025,
    "Grokking at the Edge of Numerical Stability"; in float64, as the reference TRM has it, which
    Apple's MPS has not). Arguments are those of `softmax_cross_entropy`.
    """
    exact = logits.double()
    # The clamp keeps 1 - x away from 0 where the branch is not taken: no infinite gradient there.
    s = torch.where(exact < 0, 1 / (1 - exact.clamp(max=0)), exact + 1)
    ignored = labels == ignore_index
    chosen = s.gather(-1, labels.long().masked_fill(ignored, 0).unsqueeze(-1)).squeeze(-1)
    return (s.sum(-1).log() - chosen.log()).masked_fill(ignored, 0.0)


LOSSES: dict[str, Callable[..., Tensor]] = {
    "softmax": softmax_cross_entropy,
    "stablemax": stablemax_cross_entropy,
}


@dataclass(frozen=True)
class StepLoss:
    """The loss of one supervision step, with what is worth logging about it.

    ``total``, ``lm`` and ``halt`` are scalars with gradient; everything else is detached.
    """

    total: Tensor  # float32 []: lm + halt / 2
    lm: Tensor  # float32 []: weighted mean cross entropy of a sample's cells, mean over the batch
    halt: Tensor  # float32 []: cross entropy of the halting head, mean over the batch
    cell_accuracy: Tensor  # float32 []: share of the batch's answer cells that are right
    row_exact: Tensor  # bool [B]: every answer cell of the sample is right
    halt_accuracy: Tensor  # float32 []: share of samples where (halt logit > 0) equals row_exact


def step_loss(
    logits: Tensor,
    halt_logits: Tensor,
    labels: Tensor,
    answer: Tensor,
    *,
    loss: str = "softmax",
) -> StepLoss:
    """Loss and metrics of one supervision step of a canvas model.

    A sample's answer cells are averaged, then samples (the reference TRM sums): a wide canvas
    counts no more than a narrow one. Cells labelled ``PAD`` lie outside their sample's canvas, and
    never count. The halting head learns whether all answer cells are right, at half the weight;
    without any, a sample is right.

    Args:
        logits: ``[B, H, W, V]``, any floating dtype.
        halt_logits: ``[B]``, above 0 where the model believes its row is right.
        labels: ``[B, H, W]`` symbol ids, ``uint8`` or ``int64``.
        answer: ``bool [B, H, W]``, the cells the model was asked to fill in.
        loss: a name in `LOSSES`.
    """
    B, H, W, V = logits.shape
    labels, answer = labels.reshape(B, H * W), answer.reshape(B, H * W)
    inside = labels != PAD
    counted = answer & inside  # [B, H * W]
    weights = counted.float()
    # A sample without a counted cell has weight 0 everywhere; the clamp only avoids 0 / 0.
    weights = weights / weights.sum(1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)

    cells = logits.reshape(B * H * W, V)
    kept: Tensor | slice = slice(None)
    if logits.device.type == "cpu":
        # An answer is one row of many: three times quicker. On a GPU all cells cost nothing,
        # whereas counting the kept ones would wait for the device.
        kept = counted.flatten().nonzero().squeeze(1)
        cells = cells.index_select(0, kept)  # its gradient is far cheaper than that of cells[kept]
    targets = labels.flatten()[kept].long()
    losses = LOSSES[loss](cells, targets, ignore_index=PAD)
    lm = ((losses * weights.flatten()[kept]).sum() / B).float()

    with torch.no_grad():
        wrong = torch.zeros(B * H * W, dtype=torch.bool, device=logits.device)
        wrong[kept] = cells.float().argmax(-1) != targets
        wrong = wrong.view(B, H * W) & counted
        row_exact = ~wrong.any(1)
        cell_accuracy = 1 - wrong.sum() / counted.sum().clamp(min=1)
        halt_accuracy = ((halt_logits > 0) == row_exact).float().mean()
    halt = F.binary_cross_entropy_with_logits(halt_logits.float(), row_exact.float())
    return StepLoss(lm + 0.5 * halt, lm, halt, cell_accuracy, row_exact, halt_accuracy)


def sequence_loss(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cross entropy over the tokens that count, as nanoGPT takes it.

    Args:
        logits: ``[B, S, V]``, any floating dtype.
        labels: ``int64 [B, S]``; `canvas.render.IGNORE` does not count.

    Returns:
        The loss, float32 [], with gradient, and the share of the counted tokens that are right.
    """
    counted = labels != IGNORE
    number = counted.sum().clamp(min=1)
    losses = softmax_cross_entropy(logits, labels, ignore_index=IGNORE)
    right = logits.detach().argmax(dim=-1) == labels
    return losses.sum() / number, (right & counted).sum() / number

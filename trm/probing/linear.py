"""Linear probes: multinomial logistic regression on the states of a frozen model.

After Alain and Bengio 2016, "Understanding intermediate layers using linear classifier probes". The
objective is convex and the start is zero, so the same features and labels give the same probe.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from canvas.hints import UNDEFINED

_LEAST_DEVIATION = 1e-6  # of a feature that says anything
_NEVER = -1e9  # logit of a class that a task does not have


@dataclass(frozen=True)
class LinearProbes:
    """Logits of classes from features as they are, with their standardisation worked in.

    Attributes:
        weight: float32 [D, tasks, C], C being the most classes of a task.
        bias: float32 [tasks, C].
    """

    weight: Tensor
    bias: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        """The likeliest class of each task, int64 [N, tasks], of features [N, D]."""
        logits = features.float() @ self.weight.flatten(1) + self.bias.flatten()
        return logits.unflatten(1, self.bias.shape).argmax(dim=-1)


def fit(
    features: Tensor,
    labels: Tensor,
    classes: Sequence[int],
    l2: float = 1e-3,
    iterations: int = 60,
) -> LinearProbes:
    """Minimise each task's mean cross entropy plus ``l2 / 2`` times its squared weights.

    All tasks at once by one run of L-BFGS, as they share the features; their objectives are
    independent, and the minimum is that of each.

    Args:
        features: floating [N, D]; standardised here, channel by channel.
        labels: integer [N, tasks]; cells with `canvas.hints.UNDEFINED` are left out.
        classes: of each task; its labels are below it.
        l2: of weights on standardised features; biases are free.
        iterations: of L-BFGS at most; it stops earlier where nothing improves.

    Raises:
        ValueError: a task has no label that is defined, or a feature is not finite.
    """
    defined = labels != UNDEFINED
    kept = defined.any(dim=1)
    x, defined = features[kept].float(), defined[kept]
    y = labels[kept].long().masked_fill(~defined, 0)
    if not len(x) or not defined.any(dim=0).all():
        raise ValueError("a probe needs at least one labelled cell to be fitted to")
    if not torch.isfinite(x).all():
        raise ValueError(
            "the model's states hold numbers that are not finite, to which no probe can be fitted"
        )
    mean, deviation = x.mean(dim=0), x.std(dim=0, correction=0)
    scale = torch.where(deviation > _LEAST_DEVIATION, 1 / deviation, 0.0)
    x = (x - mean) * scale
    D, T, C = x.shape[1], len(classes), max(classes)
    own = torch.arange(C, device=x.device) < torch.tensor(classes, device=x.device)[:, None]
    barred = torch.where(own, 0.0, _NEVER)  # [T, C]
    share = defined / defined.sum(dim=0)  # [N, T], what a cell counts in its task's mean
    weight = x.new_zeros(D, T * C, requires_grad=True)
    bias = x.new_zeros(T, C, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [weight, bias],
        max_iter=iterations,
        tolerance_grad=1e-5,
        tolerance_change=1e-7,
        history_size=10,
        line_search_fn="strong_wolfe",
    )

    def objective() -> Tensor:
        optimiser.zero_grad()
        logits = (x @ weight).unflatten(1, (T, C)) + (bias + barred)  # [N, T, C]
        right = logits.gather(2, y.unsqueeze(-1)).squeeze(-1)
        loss = ((logits.logsumexp(dim=-1) - right) * share).sum()
        loss = loss + l2 / 2 * weight.square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        optimiser.step(objective)
    found = weight.detach() * scale[:, None]  # [D, T * C]
    offset = (bias.detach() + barred) - (mean @ found).unflatten(0, (T, C))
    return LinearProbes(found.unflatten(1, (T, C)), offset)

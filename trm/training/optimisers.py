"""How weights move: AdamW, Adam-atan2 or Muon.

Each choice is one `torch.optim.Optimizer`, which is what Lightning's automatic optimisation takes.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from canvas.choices import check_choice
from trm.training.configs import LR_ADJUSTMENTS, OptimizerConfig

HEADS = ("lm_head", "halt_head")  # modules with these names are output heads
TABLES = ("embed", "position")  # modules whose name starts so are looked up, not multiplied


class AdamATan2(Optimizer):
    """Adam without epsilon: the update is ``a * atan2(m, b * sqrt(v))``, m and v bias-corrected.

    Bounded by ``lr * a * pi / 2`` and blind to the gradients' scale, however small (Everett et al.
    2024, "Scaling Exponents Across Parameterizations and Optimizers"). ``a = 4 / pi`` gives Adam's
    step length where m equals sqrt(v). Weight decay is decoupled.

    Args:
        params: parameters or parameter groups, as in any torch optimiser.
        lr: learning rate.
        betas: decay of the running means m and v, per step.
        weight_decay: each step first multiplies the weights by ``1 - lr * weight_decay``.
        a: length of the update. Set 1 for learning rates quoted for a kernel without this factor.
        b: how soon the update saturates.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.95),
        weight_decay: float = 0.0,
        a: float = 1.27,
        b: float = 1.0,
    ):
        super().__init__(
            params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "a": a, "b": b}
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update. A closure computes the gradients first; its loss is returned."""
        loss = _call_with_grad(closure)
        for group in self.param_groups:
            lr, (beta1, beta2) = group["lr"], group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                m = state["exp_avg"].lerp_(p.grad, 1 - beta1)
                v = state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                # atan2 depends on a ratio: both bias corrections go to one side.
                correction = (1 - beta1 ** state["step"]) / math.sqrt(1 - beta2 ** state["step"])
                p.mul_(1 - lr * group["weight_decay"])
                p.add_(
                    torch.atan2(m, v.sqrt().mul_(group["b"] * correction)), alpha=-lr * group["a"]
                )
        return loss


class MuonWithAdamW(Optimizer):
    """Muon on the hidden matrices and `torch.optim.AdamW` on all the rest, as one optimiser.

    Both live in ``param_groups``, so one schedule scales both and one ``state_dict`` resumes both.
    Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/) moves a matrix along its
    orthogonalised momentum. The rule is that of `torch.optim.Muon`, which iterates in bfloat16;
    here it is float32 and batched by shape, since many CPUs have no bfloat16 arithmetic and take
    15 times as long over it.

    Args:
        matrices: two-dimensional parameters, for Muon.
        others: parameters or parameter groups, for AdamW.
        matrix_lr: learning rate of the matrices.
        matrix_weight_decay: their decoupled weight decay.
        momentum: decay of the running mean of gradients, per step.
        nesterov: look one step of momentum ahead.
        ns_steps: Newton-Schulz iterations.
        adjust_lr_fn: ``"original"`` or ``"match_rms_adamw"``: how the step depends on the shape.
        lr, betas, eps, weight_decay: AdamW's settings, where a group does not set its own.

    Raises:
        ValueError: a parameter among the matrices is not two-dimensional.
    """

    def __init__(
        self,
        matrices: Iterable[nn.Parameter],
        others: Iterable[Any],
        *,
        matrix_lr: float = 0.02,
        matrix_weight_decay: float = 0.0,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_steps: int = 5,
        adjust_lr_fn: str = "original",
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ):
        check_choice("adjust_lr_fn", adjust_lr_fn, LR_ADJUSTMENTS)
        matrices, others = list(matrices), list(others)
        for p in matrices:
            if p.ndim != 2:
                raise ValueError(
                    f"Muon moves matrices; a parameter of shape {list(p.shape)} belongs to AdamW"
                )
        groups: list[dict[str, Any]] = []
        if matrices:
            muon = {
                "params": matrices,
                "name": "matrices",
                "algorithm": "muon",
                "lr": matrix_lr,
                "weight_decay": matrix_weight_decay,
                "momentum": momentum,
                "nesterov": nesterov,
                "ns_steps": ns_steps,
                "adjust_lr_fn": adjust_lr_fn,
            }
            groups.append(muon)
        if others:
            adamw = torch.optim.AdamW(others, lr, betas, eps, weight_decay)
            groups += [{**group, "algorithm": "adamw"} for group in adamw.param_groups]
        super().__init__(groups, {})
        self._share_with_adamw()

    def _share_with_adamw(self) -> None:
        # The inner AdamW works on this optimiser's own groups and state, and owns nothing itself.
        groups = [group for group in self.param_groups if group["algorithm"] == "adamw"]
        self._adamw = torch.optim.AdamW(groups) if groups else None
        if self._adamw is not None:
            self._adamw.state = self.state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # load_state_dict and unpickling replace groups and state
        self._share_with_adamw()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update. A closure computes the gradients first; its loss is returned."""
        loss = _call_with_grad(closure)
        for group in self.param_groups:
            if group["algorithm"] == "muon":
                self._muon_step(group)
        if self._adamw is not None:
            self._adamw.step()
        return loss

    def _muon_step(self, group: dict[str, Any]) -> None:
        momentum, lr = group["momentum"], group["lr"]
        by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = {}
        for p in group["params"]:
            if p.grad is None:
                continue
            state = self.state[p]
            if not state:
                state["momentum_buffer"] = torch.zeros_like(p)
            mean = state["momentum_buffer"].lerp_(p.grad, 1 - momentum)
            update = p.grad.lerp(mean, momentum) if group["nesterov"] else mean
            by_shape.setdefault(p.shape, []).append((p, update))
        for (rows, columns), members in by_shape.items():
            updates = orthogonalize(torch.stack([u for _, u in members]), group["ns_steps"])
            if group["adjust_lr_fn"] == "original":
                scale = math.sqrt(max(1.0, rows / columns))
            else:
                scale = 0.2 * math.sqrt(max(rows, columns))
            for (p, _), update in zip(members, updates, strict=True):
                p.mul_(1 - lr * group["weight_decay"]).add_(update, alpha=-lr * scale)


def orthogonalize(matrices: Tensor, steps: int = 5) -> Tensor:
    """The nearest semi-orthogonal matrices, roughly: all singular values brought to about 0.7–1.2.

    Jordan's quintic Newton-Schulz iteration ``X <- a X + (b G + c G^2) X`` with ``G = X X^T``. Each
    X is a polynomial of the first G times the first X, so the iteration runs on the small square
    G and meets the long side only twice: 1.7 times quicker at our shapes. Needs float32.

    Args:
        matrices: ``[N, rows, columns]``, any floating dtype.
        steps: iterations, at least 1.

    Returns:
        ``[N, rows, columns]``, ``float32`` (``float64`` for ``float64``); zero matrices stay zero.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrices.shape[1] > matrices.shape[2]
    X = (matrices.mT if tall else matrices).to(torch.promote_types(matrices.dtype, torch.float32))
    X = X / X.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)  # spectral norm at most 1
    G = X @ X.mT  # (N, short, short)
    product: Tensor | None = None
    for step in range(steps):
        factor = torch.baddbmm(G, G, G, beta=b, alpha=c)
        factor.diagonal(dim1=1, dim2=2).add_(a)
        product = factor if product is None else factor @ product
        if step + 1 < steps:
            G = factor @ (G @ factor)
    assert product is not None
    X = product @ X
    return X.mT if tall else X


def split_parameters(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """Every trainable parameter, in exactly one of three lists, in the model's order.

    - ``"matrices"``: weights of `nn.Linear` inside the model. Weight decay; Muon's, if it is used.
    - ``"heads"``: weights of `nn.Linear` in modules named in `HEADS`. Weight decay; AdamW's.
    - ``"rest"``: biases, norms, every embedding (`nn.Embedding`, or anything in a module whose name
      starts with a word of `TABLES`) and bare parameters. No weight decay; AdamW's.

    A weight that modules share, such as a head tied to an embedding, goes to the last list that
    any of them asks for.

    Raises:
        ValueError: the model has nothing to train.
    """
    order = ("matrices", "heads", "rest")
    found: dict[nn.Parameter, int] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        names = path.split(".")
        table = any(name.startswith(TABLES) for name in names)
        for name, p in module.named_parameters(recurse=False, remove_duplicate=False):
            if table or not isinstance(module, nn.Linear) or name != "weight":
                kind = "rest"
            else:
                kind = "heads" if any(name in HEADS for name in names) else "matrices"
            if p.requires_grad:
                found[p] = max(found.get(p, 0), order.index(kind))
    if not found:
        raise ValueError("the model has no trainable parameter; an optimizer needs at least one")
    return {kind: [p for p in found if found[p] == i] for i, kind in enumerate(order)}


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> Optimizer:
    """The optimiser that ``config`` names, over all trainable parameters of ``model``.

    Parameters are divided by `split_parameters`; the groups are named ``matrices`` (under Muon),
    ``decayed`` and ``rest``.

    Raises:
        ValueError: the model has nothing to train.
    """
    parts = split_parameters(model)
    decayed, matrices = parts["matrices"] + parts["heads"], []
    if config.name == "muon":
        decayed, matrices = parts["heads"], parts["matrices"]
    groups: list[dict[str, Any]] = [
        {"name": "decayed", "params": decayed, "weight_decay": config.weight_decay},
        {"name": "rest", "params": parts["rest"], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if config.name == "adam_atan2":
        return AdamATan2(groups, config.lr, config.betas)
    if config.name == "adamw":
        return torch.optim.AdamW(groups, config.lr, config.betas, config.eps)
    return MuonWithAdamW(
        matrices,
        groups,
        matrix_lr=config.matrix_lr,
        matrix_weight_decay=config.matrix_weight_decay,
        momentum=config.momentum,
        nesterov=config.nesterov,
        ns_steps=config.ns_steps,
        adjust_lr_fn=config.adjust_lr_fn,
        lr=config.lr,
        betas=config.betas,
        eps=config.eps,
    )


def _call_with_grad(closure: Callable[[], Any] | None) -> Any:
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()

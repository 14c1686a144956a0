"""Optimisers AdamW, Adam-atan2 and Muon, and the schedule of the learning rate.

Each choice is one `torch.optim.Optimizer`, as Lightning's automatic optimisation requires.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from trm.training.configs import OptimizerConfig, ScheduleConfig

HEADS = ("lm_head", "halt_head", "auxiliary")  # modules with these names are output heads
TABLES = ("embed", "position")  # name prefixes of lookup tables, which are not multiplied
_ATAN2_LENGTH = 1.27  # about 4 / pi: a step is then as long as Adam's where m = sqrt(v)
_MOMENTUM = 0.95  # of Muon: decay of the running mean of gradients, per step
_NEWTON_SCHULZ_STEPS = 5  # which bring singular values near 1


class AdamATan2(Optimizer):
    """Adam without epsilon: the update is ``a * atan2(m, sqrt(v))``, m and v bias-corrected.

    The update is bounded by ``lr * a * pi / 2`` and independent of the gradients' scale, however
    small (Everett et al. 2024, "Scaling Exponents Across Parameterizations and Optimizers"). Weight
    decay is decoupled: each step first multiplies the weights by ``1 - lr * weight_decay``.
    """

    def __init__(self, groups: Iterable[dict[str, Any]]):
        """Take groups of parameters with all their settings."""
        super().__init__(groups, {})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make one update. A closure computes the gradients first; its loss is returned."""
        loss = None if closure is None else torch.enable_grad()(closure)()
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
                p.add_(torch.atan2(m, v.sqrt().mul_(correction)), alpha=-lr * _ATAN2_LENGTH)
        return loss


class MuonWithAdamW(Optimizer):
    """Muon on the hidden matrices and `torch.optim.AdamW` on all the rest, as one optimiser.

    Both use ``param_groups``, so one schedule scales both and one ``state_dict`` resumes both.
    Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/) moves a matrix along its
    orthogonalised momentum. The rule is that of `torch.optim.Muon`, which iterates in bfloat16;
    here it is float32 and batched by shape, since many CPUs have no bfloat16 arithmetic and take
    15 times as long over it.
    """

    def __init__(self, groups: Iterable[dict[str, Any]]):
        """Take groups of parameters with all their settings, Muon's named ``matrices``."""
        super().__init__(groups, {})
        self._share_with_adamw()

    def _share_with_adamw(self) -> None:
        # The inner AdamW works on this optimiser's groups and state and has none of its own.
        groups = [group for group in self.param_groups if group["name"] != "matrices"]
        self._adamw = torch.optim.AdamW(groups) if groups else None
        if self._adamw is not None:
            self._adamw.state = self.state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # load_state_dict and unpickling replace groups and state
        self._share_with_adamw()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make one update. A closure computes the gradients first; its loss is returned."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            if group["name"] != "matrices":
                continue
            by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = {}
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(p)
                mean = state["momentum_buffer"].lerp_(p.grad, 1 - _MOMENTUM)
                update = p.grad.lerp(mean, _MOMENTUM)  # Nesterov: one step of momentum ahead
                by_shape.setdefault(p.shape, []).append((p, update))
            for (rows, columns), members in by_shape.items():
                updates = orthogonalize(torch.stack([update for _, update in members]))
                scale = math.sqrt(max(1.0, rows / columns))
                for (p, _), update in zip(members, updates, strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(update, alpha=-group["lr"] * scale)
        if self._adamw is not None:
            self._adamw.step()
        return loss


def orthogonalize(matrices: Tensor) -> Tensor:
    """Return approximately the nearest semi-orthogonal matrices, with singular values of 0.7–1.2.

    Jordan's quintic Newton-Schulz iteration ``X <- a X + (b G + c G^2) X`` with ``G = X X^T``. It
    runs on the small square G and multiplies by the long side only twice: 1.7 times quicker at our
    shapes. Zero matrices stay zero.

    Args:
        matrices: float [N, rows, columns].

    Returns:
        float32 [N, rows, columns]; float64 for float64.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrices.shape[1] > matrices.shape[2]
    X = (matrices.mT if tall else matrices).to(torch.promote_types(matrices.dtype, torch.float32))
    X = X / X.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)  # spectral norm at most 1
    G = X @ X.mT  # (N, short, short)
    product: Tensor | None = None
    for step in range(_NEWTON_SCHULZ_STEPS):
        factor = torch.baddbmm(G, G, G, beta=b, alpha=c)
        factor.diagonal(dim1=1, dim2=2).add_(a)
        product = factor if product is None else factor @ product
        if step + 1 < _NEWTON_SCHULZ_STEPS:
            G = factor @ (G @ factor)
    assert product is not None
    X = product @ X
    return X.mT if tall else X


def split_parameters(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """Put every trainable parameter in exactly one of three lists, in the model's order.

    - ``"matrices"``: weights of `nn.Linear` inside the model; Muon's, if it is used.
    - ``"heads"``: weights of `nn.Linear` in modules named in `HEADS`.
    - ``"rest"``: biases, norms, every embedding (`nn.Embedding`, or anything in a module whose name
      starts with a word of `TABLES`) and bare parameters. No weight decay.

    A weight that modules share is put in the last list that applies to any of them.

    Raises:
        ValueError: there is nothing to train.
    """
    order = ("matrices", "heads", "rest")
    found: dict[nn.Parameter, int] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        names = path.split(".")
        table = any(name.startswith(TABLES) for name in names)
        for name, p in module.named_parameters(recurse=False, remove_duplicate=False):
            rest = table or not isinstance(module, nn.Linear) or name != "weight"
            kind = 2 if rest else int(any(name in HEADS for name in names))
            if p.requires_grad:
                found[p] = max(found.get(p, 0), kind)
    if not found:
        raise ValueError("the model has no trainable parameter; an optimizer needs at least one")
    return {kind: [p for p in found if found[p] == i] for i, kind in enumerate(order)}


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> Optimizer:
    """Return the optimiser of a config, for the parameters of `split_parameters`.

    Its groups are named ``matrices`` (under Muon), ``decayed`` and ``rest``. It loads only its
    state from a checkpoint: rates and decays are always the config's.
    """
    parts = split_parameters(model)
    muon = config.name == "muon" and bool(parts["matrices"])
    adam = {"lr": config.lr, "betas": config.betas, "weight_decay": 0.0}
    decayed = parts["heads"] if muon else parts["matrices"] + parts["heads"]
    groups: list[dict[str, Any]] = [
        {**adam, "name": "decayed", "params": decayed, "weight_decay": config.weight_decay},
        {**adam, "name": "rest", "params": parts["rest"]},
    ]
    if muon:
        matrices = {"lr": config.matrix_lr, "weight_decay": config.matrix_weight_decay}
        groups.insert(0, {"name": "matrices", "params": parts["matrices"], **matrices})
    kinds = {"adamw": torch.optim.AdamW, "adam_atan2": AdamATan2, "muon": MuonWithAdamW}
    optimizer: Optimizer = kinds[config.name]([group for group in groups if group["params"]])
    configured = [{k: v for k, v in one.items() if k != "params"} for one in optimizer.param_groups]

    def as_configured(_: Optimizer, state: dict[str, Any]) -> dict[str, Any]:
        saved = state["param_groups"]
        if [one.get("name") for one in saved] != [one["name"] for one in configured]:
            raise ValueError(
                f"the checkpoint contains the state of another optimizer than {config.name}: keep "
                "model.optimizer.name, or begin a new run"
            )
        pairs = zip(saved, configured, strict=True)
        return state | {"param_groups": [{**one, **mine} for one, mine in pairs]}

    optimizer.register_load_state_dict_pre_hook(as_configured)
    return optimizer


def learning_rate_factor(step: int, config: ScheduleConfig, total_steps: float) -> float:
    """Return the factor, 0 to 1, on the learning rate of update ``step``, from 0.

    Warmup reaches 1 at its last step; the decay then runs from 1 to ``min_ratio`` at
    ``total_steps``.
    """
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    if config.decay == "constant":
        return 1.0
    progress = min(1.0, (step - config.warmup_steps) / max(1, total_steps - config.warmup_steps))
    left = 1 - progress if config.decay == "linear" else (1 + math.cos(math.pi * progress)) / 2
    return config.min_ratio + (1 - config.min_ratio) * left


class Schedule(LambdaLR):
    """Scales the rate of every group by `learning_rate_factor`, once per update.

    It loads only its step from a checkpoint: the rate of the next update is this run's own.

    Raises:
        ValueError: a decay without an end, as the length of the run is infinite or below 1.
    """

    def __init__(self, optimizer: Optimizer, config: ScheduleConfig, total_steps: float) -> None:
        if config.decay != "constant" and not 1 <= total_steps < math.inf:
            raise ValueError(
                f"schedule.decay {config.decay} ends with the run, and this run has no end: "
                "set trainer.max_epochs or trainer.max_steps, or schedule.decay: constant"
            )
        super().__init__(optimizer, lambda step: learning_rate_factor(step, config, total_steps))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from a step."""
        super().load_state_dict(state_dict | {"base_lrs": self.base_lrs})
        factor = self.lr_lambdas[0](self.last_epoch)
        self._last_lr = [rate * factor for rate in self.base_lrs]
        for group, rate in zip(self.optimizer.param_groups, self._last_lr, strict=True):
            group["lr"] = rate

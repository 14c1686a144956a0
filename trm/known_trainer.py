"""The values that Lightning's trainer is given, looked at before Lightning is imported.

These are Lightning's own rules for what is given most, and this project's of precisions; importing
Lightning to hear of them takes seconds. What they say nothing of is left to Lightning.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from canvas.choices import did_you_mean
from trm.precision import check_precision

ACCELERATORS = ("auto", "cpu", "cuda", "gpu", "mps", "tpu")
CLIPPING = ("norm", "value")
_NO_LIMIT = "0 or more, or -1 for no limit"
_LEAST = {  # of whole numbers, and how that is said
    "max_epochs": (-1, _NO_LIMIT),
    "max_steps": (-1, _NO_LIMIT),
    "num_nodes": (1, "1 or more"),
    "accumulate_grad_batches": (1, "1 or more"),
    "fast_dev_run": (0, "a number of batches, true or false"),
    "reload_dataloaders_every_n_epochs": (0, "0 or more"),
}
_NEVER_0 = {  # a model that is validated is so every now and then
    "check_val_every_n_epoch": "1 or more",
    "val_check_interval": "a share of an epoch or a number of batches",
}
_ALIKE = 0.75  # of an accelerator and what may have been meant by it


def check_trainer(settings: Mapping[str, Any]) -> None:
    """Look at what a trainer is given.

    Args:
        settings: by name, as plain data. Those of a wrong type are left to the parser.

    Raises:
        ValueError: a value is refused.
    """
    value: Any
    for name, (least, told) in _LEAST.items():
        value = settings.get(name)
        if type(value) is int and value < least:
            raise ValueError(f"trainer.{name} is {told}, not {value}")
    for name in _numbers_of_batches(settings):
        value = settings.get(name)
        if type(value) in (int, float) and not (0 <= value <= 1 or (value > 1 and value % 1 == 0)):
            raise ValueError(
                f"trainer.{name} is a share from 0.0 to 1.0 or a whole number of batches, "
                f"not {value}"
            )
    validates = settings.get("limit_val_batches") != 0 and not settings.get("fast_dev_run")
    for name, told in _NEVER_0.items():
        value = settings.get(name)
        if validates and type(value) is int and value == 0:  # 0.0 is the least share: each batch
            raise ValueError(
                f"trainer.{name} is {told}, not 0: to train without validation, set "
                "trainer.limit_val_batches to 0"
            )
    clipping = settings.get("gradient_clip_algorithm")
    if isinstance(clipping, str) and clipping.lower() not in CLIPPING:
        raise ValueError(f"trainer.gradient_clip_algorithm is norm or value, not {clipping}")
    if isinstance(settings.get("precision"), int | str):
        check_precision(settings["precision"])
    accelerator = settings.get("accelerator", "auto")
    _check_accelerator(accelerator)
    if accelerator in ACCELERATORS and not _may_be_devices(settings.get("devices")):
        raise ValueError(
            "trainer.devices is a number from 1 up, a list of GPUs like [0, 1], -1 for all GPUs, "
            f"or auto, not {settings['devices']}"
        )


def _numbers_of_batches(settings: Mapping[str, Any]) -> Iterator[str]:
    """The settings that say how many batches, as far as Lightning reads them."""
    yield "overfit_batches"
    if settings.get("fast_dev_run"):
        return
    yield from ("limit_test_batches", "limit_predict_batches", "val_check_interval")
    if not settings.get("overfit_batches"):
        yield from ("limit_train_batches", "limit_val_batches")


def _check_accelerator(name: Any) -> None:
    """Refuse a name that is nearly one of `ACCELERATORS`: others may be of the user's own code."""
    if not isinstance(name, str) or name in ACCELERATORS:
        return
    same = name.lower() in ACCELERATORS
    near = f" Did you mean {name.lower()}?" if same else did_you_mean(name, ACCELERATORS, _ALIKE)
    if near:
        raise ValueError(
            f"trainer.accelerator {name} is not among {', '.join(ACCELERATORS[:-1])} and "
            f"{ACCELERATORS[-1]}.{near}"
        )


def _may_be_devices(value: Any) -> bool:
    """Whether one of `ACCELERATORS` takes this for its devices."""
    if isinstance(value, str):
        if value == "auto" or "," in value:
            return True
        try:
            value = int(value)
        except ValueError:
            return False
    if type(value) is int:
        return value > 0 or value == -1
    return value != []

"""Planning of a study: its runs are built without weights, checked, and made equal in size."""

import logging
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from canvas.task import Task
from trm.extras.sweep.speed import stages_of
from trm.extras.sweep.study import EQUAL_LOSS, Setting, Study
from trm.io.config_files import config_of_run, find_config
from trm.training.cli import TrainingCLI, train

_APART = 0.05  # relative difference that "equal" numbers of parameters may have
_KNOWN = {"trm", "canvas", "augment", "lightning", "torch", "albumentations"}  # packages


def plan(
    study: Study,
    say: Callable[[str], None],
    check: Callable[[Setting, Task], None] = lambda setting, task: None,
    timed: bool = False,
) -> Study:
    """Return the study with parameters counted, and made equal if the study requires that.

    ``say`` is called with a text before each setting's model is built, ``check`` with the setting
    and its task. The length of ``timed`` runs is to be measured.

    Raises:
        ValueError: a setting's options are wrong, or ``check`` refuses its task; the message
            contains the setting's name. Or ``timed`` runs choose their checkpoints among runs that
            are all trained.
    """
    if timed and study.checkpoint == EQUAL_LOSS:
        raise ValueError(
            f"checkpoint: {EQUAL_LOSS} compares runs that are trained to their ends: leave out "
            "--minutes, or set checkpoint: last"
        )
    settled: list[Setting] = []
    first: dict[str, int] = {}  # group → number of parameters of its first setting
    key = study.equal.parameters
    for setting in study.settings:
        say(f"building {setting.name}")
        group, options = study.group_of(setting), setting.options
        try:
            config_of_run(setting.config)
            config = f"--config={find_config(setting.config)}"
            goal = first.get(group, 0)
            if key and goal:
                options = (*options, f"--{key}={_making_up([config, *options], key, goal)}")
            cli = built([config, *options])
            check(setting, cli.datamodule.task)
            parameters, steps = parameters_of(cli), 0 if timed else steps_of(cli)
            if timed:
                stages_of(cli)  # raises if they end at epochs
            if key and goal and abs(parameters - goal) > _APART * goal:
                raise ValueError(
                    f"with {options[-1]} the model has {parameters:,} parameters instead of "
                    f"{goal:,}: choose another key for equal.parameters, or settings that differ "
                    "less"
                )
        except (ValueError, MemoryError) as error:
            raise ValueError(f"{setting.name}: {error}") from None
        own = tuple(sorted(set(_own_modules(cli.config.as_dict()))))
        counted: Any = {"parameters": parameters, "steps": steps, "own_modules": own}
        settled.append(replace(setting, options=options, **counted))
        first.setdefault(group, parameters)
    return replace(study, settings=tuple(settled))


def built(words: Sequence[str]) -> TrainingCLI:
    """Build a run with these options of `trm fit`, without its weights.

    Raises:
        ValueError: an option is wrong.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        bare = ("--trainer.logger=false", "--trainer.devices=1")
        try:
            with torch.device("meta"):  # weights that take neither memory nor time
                return train([*words, *bare], run=False)
        finally:
            logging.disable(logging.NOTSET)


def parameters_of(cli: TrainingCLI) -> int:
    """Return the number of parameters of a run's model."""
    return int(cli.model.model.num_parameters)


def steps_of(cli: TrainingCLI) -> int:
    """Return the optimiser steps of a run.

    Raises:
        ValueError: it has no end.
    """
    steps, epochs = cli.trainer.max_steps, cli.trainer.max_epochs
    if epochs is not None and epochs >= 0:
        batches = cli.datamodule.batches_per_epoch
        whole = epochs * math.ceil(batches / cli.trainer.accumulate_grad_batches)
        steps = min(steps, whole) if steps >= 0 else whole
    if steps < 0:
        raise ValueError("the run has no end: set trainer.max_epochs or trainer.max_steps")
    return steps


def _own_modules(config: object) -> Iterator[str]:
    """Yield the modules of classes that a config names, without those of `_KNOWN` packages.

    Building the run has imported them, so a text with a dot is one of them only if it was.
    """
    if isinstance(config, Mapping):
        config = list(config.values())
    if isinstance(config, list | tuple):
        for part in config:
            yield from _own_modules(part)
    elif isinstance(config, str):
        module = config.rpartition(".")[0]
        if module in sys.modules and module.partition(".")[0] not in _KNOWN:
            yield module


def _making_up(words: Sequence[str], key: str, parameters: int) -> int:
    """Return the value of a key for which a model has about this number of parameters.

    The number grows linearly with the value.
    """
    one, two = (parameters_of(built([*words, f"--{key}={value}"])) for value in (1, 2))
    return max(1, 1 + round((parameters - one) / (two - one))) if two != one else 1

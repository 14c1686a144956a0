"""Studies: runs that a YAML file lists; see "A study of your own" in docs/studies.md.

- ``config``: the config of every run
- ``set``: keys that every run sets
- ``axes``: every combination of their values is a setting. Beside keys of `trm fit`, a named value
  may have ``config``, in place of the study's; ``share`` of the time of `trm sweep --minutes`; and
  ``evaluate``, names of the evaluations that its runs get (default: all)
- ``seeds``: every setting has a run for each of them
- ``equal.parameters``: a key with a whole number as its value. It is adjusted so that models with
  the same value on the axis ``equal.within`` have as many parameters as the first of them
- ``checkpoint: equal_loss`` compares losses among the same models
- ``export``: float32 or bfloat16: the weights of every trained run are written as a file, too
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, TypeAdapter
from pydantic.dataclasses import dataclass as pydantic_dataclass

from canvas.choices import check_choice
from trm.io.config_files import read_config
from trm.io.files import validated
from trm.released import released

EQUAL_LOSS = "equal_loss"
LOSS = "validation/loss"
_KEEP_ALL = (  # checkpoints of all validations, with their losses
    f"--checkpoint.monitor={LOSS}",
    "--checkpoint.mode=min",
    "--checkpoint.save_top_k=-1",
    "--checkpoint.filename={step:08d}",
)
_OURS = re.compile(  # keys that a setting must not set
    r"seed|seed_everything|(data|model)\.seed|ckpt_path|checkpoint\.dirpath"
    r"|trainer\.(devices|num_nodes|logger.*)"
)
_EVALUATION_OURS = ("checkpoint", "output")
_KEYS = "config, axes and evaluate"


class Equal(BaseModel, extra="forbid", frozen=True):
    """The number of parameters that settings have in common."""

    parameters: str | None = None  # key that makes numbers of parameters equal
    within: str | None = None  # an axis; None: all settings are compared


class _File(BaseModel, extra="forbid"):
    config: str
    set: dict[str, Any] = {}
    axes: dict[str, list[Any] | dict[str, dict[str, Any] | None]] = {}
    seeds: Annotated[list[Annotated[int, Field(ge=0, lt=2**32)]], Field(min_length=1)] = [0]
    equal: Equal = Equal()
    checkpoint: Literal["best", "last", "equal_loss"] = "best"
    evaluate: dict[str, dict[str, Any]] = {}
    export: Literal["float32", "bfloat16"] | None = None


@pydantic_dataclass(frozen=True)
class Setting:
    """Setting of a study: the common part of its runs, which differ in their seeds."""

    name: str  # labels of all axes, like ``base 10, small``
    labels: dict[str, str]  # axis → label
    config: str  # file, or name of one of the package's own
    options: tuple[str, ...]  # further options of `trm fit`
    parameters: int = 0  # of the model; 0: not counted yet
    steps: int = 0  # of the optimiser, in a run; 0: not known before its speed is measured
    own_modules: tuple[str, ...] = ()  # of classes of the user's own that its config names
    # Of the time of `trm sweep --minutes`, relative to the other settings.
    share: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1
    evaluate: list[str] | None = None  # names of its evaluations; None: all of the study's


@dataclass(frozen=True)
class Run:
    """One run of a study: a setting and a seed."""

    setting: Setting
    seed: int

    @property
    def name(self) -> str:
        """Name for people."""
        return f"{self.setting.name}, seed {self.seed}"

    @property
    def folder(self) -> str:
        """Name of the run's folder."""
        return f"{_folder(self.setting.name)}-seed{self.seed}"

    @property
    def released_folder(self) -> str:
        """The same where values in the setting's name have their released names."""
        return f"{_folder(released(self.setting.name))}-seed{self.seed}"

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class Study:
    """Contents of a study's file; see the module."""

    settings: tuple[Setting, ...]  # every combination of the axes, in order
    seeds: tuple[int, ...] = (0,)
    equal: Equal = field(default_factory=Equal)
    checkpoint: str = "best"
    evaluations: dict[str, list[str]] = field(default_factory=dict)  # name → `trm evaluate` options
    export: str | None = None  # dtype of the weights that are written as a file; None: no file

    def evaluations_of(self, setting: Setting) -> dict[str, list[str]]:
        """Return the evaluations of a setting's runs."""
        if setting.evaluate is None:
            return self.evaluations
        wanted = {_folder(name) for name in setting.evaluate}
        return {name: words for name, words in self.evaluations.items() if name in wanted}

    def group_of(self, setting: Setting) -> str:
        """Return a setting's label on the axis `Equal.within`; its group has the same label."""
        return setting.labels[self.equal.within] if self.equal.within else ""

    def runs(self) -> list[Run]:
        """Return all runs, every setting's first seed before any second one."""
        return [Run(setting, seed) for seed in self.seeds for setting in self.settings]

    def compared_with(self, run: Run) -> list[Run]:
        """Return the runs of the same seed and group, this run included."""
        group = self.group_of(run.setting)
        of_seed = [Run(setting, run.seed) for setting in self.settings]
        return [one for one in of_seed if self.group_of(one.setting) == group]


def read_study(file: Path) -> Study:
    """Read the study in a file.

    Raises:
        ValueError: the file is not a study; the message contains the file and the mistake.
    """
    content = validated(TypeAdapter(_File), read_config(file, "a study", _KEYS), str(file))
    content.evaluate = {_folder(name): entries for name, entries in content.evaluate.items()}
    try:
        return _study(content)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def _study(content: _File) -> Study:
    settings = []
    for chosen in itertools.product(*(_values(*axis) for axis in content.axes.items())):
        plain = [key.replace("init_args.", "") for _, keys in chosen for key in keys]
        if again := next((key for key in plain if plain.count(key) > 1), None):
            raise ValueError(f"two axes set {again}: leave it out of one of them")
        keys = content.set | {key: value for _, some in chosen for key, value in some.items()}
        own = ("config", "share", "evaluate")  # keys that do not belong to `trm fit`
        about = {"config": content.config} | {key: keys.pop(key) for key in own if key in keys}
        labels = dict(zip(content.axes, (label for label, _ in chosen), strict=True))
        options = tuple(_fit_options(keys))
        if content.checkpoint == EQUAL_LOSS:
            options += _KEEP_ALL
            if any(key.startswith("checkpoint.") for key in keys):
                raise ValueError(f"checkpoint: {EQUAL_LOSS} sets all of checkpoint.*: leave it out")
        if content.equal.parameters in keys:
            raise ValueError(f"{content.equal.parameters} is set by equal.parameters: leave it out")
        about["name"] = ", ".join(labels.values()) or Path(content.config).stem
        about |= {"labels": labels, "options": options}
        setting = validated(TypeAdapter(Setting), about, "axes")
        for name in setting.evaluate or ():
            check_choice("axes: evaluate", _folder(name), content.evaluate)
        settings.append(setting)
    names = [_folder(setting.name) for setting in settings]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two settings are called {twice}: give the values of axes other names")
    within = content.equal.within
    if within is not None and within not in content.axes:
        raise ValueError(f"equal.within is one axis of the study, not {within}")
    if len(set(content.seeds)) < len(content.seeds):
        raise ValueError("seeds are different numbers")
    evaluations: dict[str, list[str]] = {}
    for name, entries in content.evaluate.items():
        words = evaluations[name] = []
        for key, value in entries.items():
            option = key.replace("_", "-")
            if option in _EVALUATION_OURS:
                raise ValueError(f"evaluate: {key} is set by the study: leave it out")
            words += [f"--{option}", *([] if value is True else [str(value)])]
    rest = content.equal, content.checkpoint, evaluations, content.export
    return Study(tuple(settings), tuple(content.seeds), *rest)


def _values(axis: str, values: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the labels of an axis, each with the keys that it sets."""
    if not values:
        raise ValueError(f"axes: {axis} has no values")
    if isinstance(values, dict):
        return [(label, dict(some or {})) for label, some in values.items()]
    short = axis.rpartition(".")[2].replace("_", " ")
    return [(f"{short} {value}", {axis: value}) for value in values]


def _folder(name: str) -> str:
    return re.sub(r"[^\w.+-]+", "_", name).strip("_.") or "run"


def _fit_options(keys: Mapping[str, Any]) -> Iterator[str]:
    for key, value in keys.items():
        if not re.fullmatch(r"[\w.]+", key):
            raise ValueError(f"{key} is not a key of a config, such as trainer.max_epochs")
        if _OURS.fullmatch(key.replace("init_args.", "")):
            ours = "the seed, the folder and one device of each run"
            raise ValueError(f"{key} is set by the study, which sets {ours}: leave it out")
        yield f"--{key}={value if isinstance(value, str) else json.dumps(value)}"

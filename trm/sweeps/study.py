"""A study: the runs that a YAML file asks for.

config: generalise/lattice        # what every run begins with, as `trm fit --config` takes it
set:                              # of every run
  trainer.max_epochs: 12
axes:                             # what is varied; every combination is a setting
  data.task.base: [2, 10]         # values of one key
  size:                           # or settings of several keys each, under names
    small: {model.network.config.hidden_size: 64, model.network.config.intermediate_size: 128}
    large: {}
seeds: [0, 1]                     # a run of every setting each; default: 0 alone
equal:                            # what all settings have in common; default: nothing is changed
  training: flops                 # or seconds, or samples: sets the length of the runs
  parameters: model.network.config.intermediate_size    # a key of any whole number, by which all
                                  # models get as many as the first setting's
  within: size                    # an axis: settings are compared only with those that have the
                                  # same value on it, as are the losses of equal_loss
checkpoint: last                  # which one is evaluated; default: best. equal_loss: each run's
                                  # first whose validation loss is at or below the best loss of the
                                  # worst run, of those of one seed and one value of within
evaluate:                         # what is, by name: the options of `trm evaluate`
  longer: {digits-a: "4,16", digits-b: "4,16", problems: 200}
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from canvas.choices import did_you_mean
from trm.configs import config_of_run, find_config, read_config

CONFIG = "config"  # as a key of an axis: the config itself
TRAINING = ("samples", "flops", "seconds")
EQUAL_LOSS = "equal_loss"
CHECKPOINTS = ("best", "last", EQUAL_LOSS)
_KEYS = (CONFIG, "set", "axes", "seeds", "equal", "checkpoint", "evaluate")
_OURS = {  # keys that are none of a setting's
    "seed": "seeds of the study",
    "seed_everything": "seeds of the study",
    "data.seed": "seeds of the study",
    "model.seed": "seeds of the study",
    "ckpt_path": "the study, which goes on by itself",
    "checkpoint.dirpath": "the study's --output",
    "trainer.devices": "the study: a run has one GPU, or its share of the CPU",
    "trainer.num_nodes": "the study: a run has one GPU, or its share of the CPU",
}
_EVALUATION_OURS = ("checkpoint", "output", "name")
_MOST = 10_000  # runs


@dataclass(frozen=True)
class Setting:
    """What runs of several seeds have in common.

    Attributes:
        name: the labels of all axes, like ``base 10, small``.
        labels: one for each axis.
        config: file, or name of one of the package's own.
        keys: what is set otherwise than there.
    """

    name: str
    labels: dict[str, str]
    config: str
    keys: dict[str, Any]

    def options(self) -> list[str]:
        """The keys as options of `trm fit`."""
        return [f"--{key}={value}" for key, value in self.written().items()]

    def written(self) -> dict[str, str]:
        """The keys with their values as text."""
        return {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in self.keys.items()
        }


@dataclass(frozen=True)
class Study:
    """A study as its file says it; see the module.

    Attributes:
        settings: every combination of the axes, in order.
        seeds: of each.
        training: one of `TRAINING`, or None.
        parameters: a key, or None.
        within: an axis; settings are held equal only to those with the same value on it. None:
            all are held equal.
        checkpoint: one of `CHECKPOINTS`.
        evaluations: name to the options of `trm evaluate`, as words.
    """

    settings: tuple[Setting, ...]
    seeds: tuple[int, ...] = (0,)
    training: str | None = None
    parameters: str | None = None
    within: str | None = None
    checkpoint: str = "best"
    evaluations: dict[str, list[str]] = field(default_factory=dict)

    def reference(self, setting: Setting) -> Setting:
        """The setting that this one is held equal to: the first, or the first of its group."""
        group = group_of(setting.labels, self.within)
        return next(s for s in self.settings if group_of(s.labels, self.within) == group)

    def with_seed(self, seed: int) -> "Study":
        """The same from another first seed on."""
        return replace(self, seeds=tuple(range(seed, seed + len(self.seeds))))


def group_of(labels: Mapping[str, str], within: str | None) -> str:
    """A setting's value on the axis `within`; settings with the same one are held equal."""
    return "" if within is None else labels[within]


def read_study(file: Path) -> Study:
    """The study in a file.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is no study; the message names the file and what is wrong.
    """
    held = read_config(file, "a study", "config, axes and evaluate")
    try:
        return study_of(held)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def check_settings(study: Study) -> None:
    """Build each setting's model and data, so that no mistake is found after hours.

    Raises:
        ValueError: a config is wrong, or a setting; the message names it.
    """
    from trm.sweeps.trial import check

    for setting in study.settings:
        try:
            config_of_run(setting.config)
            check([f"--config={find_config(setting.config)}", *setting.options()])
        except ValueError as error:
            raise ValueError(f"{setting.name}: {error}") from None


def study_of(held: Mapping[str, Any]) -> Study:
    """A study from plain data.

    Raises:
        ValueError: something in it is wrong.
    """
    _check_keys("a study", held, _KEYS)
    config, common, axes = held.get(CONFIG), held.get("set") or {}, held.get("axes") or {}
    if not isinstance(common, dict) or not isinstance(axes, dict):
        raise ValueError("set and axes hold keys and values, as trainer.max_epochs: 12")
    choices = [_values(str(axis), values) for axis, values in axes.items()]
    settings = []
    for chosen in itertools.product(*choices):
        keys, taken = {**common}, set[str]()
        for _, some in chosen:
            if again := {_plain(key) for key in some} & taken:
                raise ValueError(f"two axes set {min(again)}: let one of them do it")
            taken |= {_plain(key) for key in some}
            keys |= some
        own = keys.pop(CONFIG, config)
        if not isinstance(own, str):
            raise ValueError("a study begins with a config, as in config: quickstart")
        for key in keys:
            _check_key(key)
            if held.get("checkpoint") == EQUAL_LOSS and _plain(key).startswith("checkpoint."):
                raise ValueError(f"{key} is set by checkpoint: {EQUAL_LOSS}: leave it out")
        labels = dict(zip(map(str, axes), (label for label, _ in chosen), strict=True))
        settings.append(Setting(_name(labels) or Path(own).stem, labels, own, keys))
    names = [_folder(setting.name) for setting in settings]
    if twice := next((n for n in names if names.count(n) > 1), None):
        raise ValueError(f"two settings are called {twice}: give the values of axes other names")
    equal = held.get("equal") or {}
    _check_keys("equal", equal, ("training", "parameters", "within"))
    checkpoint, within = held.get("checkpoint", "best"), equal.get("within")
    if within is not None and within not in (names := [str(axis) for axis in axes]):
        raise ValueError(
            f"equal.within is one axis of the study ({', '.join(names) or 'none'}), not {within}"
        )
    for what, value, known in (
        ("equal.training", equal.get("training"), (None, *TRAINING)),
        ("checkpoint", checkpoint, CHECKPOINTS),
    ):
        if value not in known:
            listed = ", ".join(name for name in known if name)
            raise ValueError(f"{what} is one of {listed}, not {value}")
    if within and not (equal.keys() & {"training", "parameters"} or checkpoint == EQUAL_LOSS):
        raise ValueError(
            "equal.within needs something to hold equal: equal.training, equal.parameters, or "
            f"checkpoint: {EQUAL_LOSS}"
        )
    parameters = equal.get("parameters")
    if parameters is not None:
        _check_key(parameters)
        if any(_plain(parameters) in map(_plain, setting.keys) for setting in settings):
            raise ValueError(f"{parameters} makes up for the parameters: set it nowhere else")
    return Study(
        tuple(settings),
        _seeds(held.get("seeds", [0]), len(settings)),
        equal.get("training"),
        parameters,
        within,
        checkpoint,
        _evaluations(held.get("evaluate") or {}),
    )


@dataclass(frozen=True)
class Point:
    """One run of a study.

    Attributes:
        setting: what it shares with other seeds.
        seed: of everything.
        words: the options of `trm fit` beside its config and where the run is kept.
        config: SHA-256 of the config.
    """

    setting: str
    seed: int
    words: tuple[str, ...]
    config: str

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.setting}, seed {self.seed}"

    @property
    def folder(self) -> str:
        """For files."""
        return f"{_folder(self.setting)}-seed{self.seed}"


def _values(axis: str, values: Any) -> list[tuple[str, dict[str, Any]]]:
    """The labels of an axis, and what each of them sets."""
    if isinstance(values, dict) and all(isinstance(some or {}, dict) for some in values.values()):
        found = [(str(label), dict(some or {})) for label, some in values.items()]
    elif isinstance(values, list):
        short = axis.rpartition(".")[2].replace("_", " ")
        own = [Path(str(value)).as_posix() if axis == CONFIG else value for value in values]
        found = [
            (str(value) if axis == CONFIG else f"{short} {_shown(value)}", {axis: value})
            for value in own
        ]
    else:
        raise ValueError(
            f"axes: {axis} is a list of values, or names with the keys that each of them sets"
        )
    if not found:
        raise ValueError(f"axes: {axis} has no values")
    return found


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key} {_shown(below)}" for key, below in value.items())
    if isinstance(value, list):
        return "-".join(map(_shown, value))
    return "none" if value is None else str(value)


def _name(labels: Mapping[str, str]) -> str:
    return ", ".join(labels.values())


def _folder(name: str) -> str:
    return re.sub(r"[^\w.+-]+", "_", name).strip("_.") or "run"


def _check_keys(what: str, held: Any, known: tuple[str, ...]) -> None:
    if not isinstance(held, dict):
        raise ValueError(f"{what} has keys like {', '.join(known[:3])}")
    for key in held:
        if key not in known:
            near = did_you_mean(str(key), known) or f" There are {', '.join(known)}."
            raise ValueError(f"{what} has no key {key}.{near}")


def _check_key(key: Any) -> None:
    """Raise ValueError if a key is not a setting's to give."""
    if not isinstance(key, str) or not re.fullmatch(r"[\w.]+", key):
        raise ValueError(f"{key} is no key of a config; one looks like trainer.max_epochs")
    plain = _plain(key)
    for ours, where in _OURS.items():
        if plain == ours:
            raise ValueError(f"{key} is set by {where}: leave it out")
    if plain.startswith("trainer.logger"):
        raise ValueError(f"{key} is set by the study, which keeps its runs together: leave it out")


def _plain(key: str) -> str:
    """A key as people write it, with or without the parts that may be left out."""
    return key.replace("init_args.", "")


def _seeds(held: Any, settings: int) -> tuple[int, ...]:
    if (
        not isinstance(held, list)
        or not held
        or not all(type(seed) is int and 0 <= seed < 2**32 for seed in held)
        or len(set(held)) < len(held)
    ):
        raise ValueError(f"seeds are different whole numbers, as [0, 1, 2], not {held}")
    if settings * len(held) > _MOST:
        raise ValueError(f"{settings * len(held):,} runs are more than {_MOST:,}")
    return tuple(held)


def _evaluations(held: Any) -> dict[str, list[str]]:
    """The words of each evaluation."""
    if not isinstance(held, dict) or not all(isinstance(some, dict) for some in held.values()):
        raise ValueError(
            'evaluate holds names, each with options of trm evaluate, as longer: {digits-a: "4,8"}'
        )
    found = {}
    for name, options in held.items():
        if (label := _folder(str(name))) in found:
            raise ValueError(f"evaluate: two are called {label}")
        found[label] = [word for key, value in options.items() for word in _option(str(key), value)]
    return found


def _option(key: str, value: Any) -> Iterator[str]:
    if key.replace("_", "-") in _EVALUATION_OURS:
        raise ValueError(f"evaluate: {key} is set by the study: leave it out")
    if value is False or value is None:
        return
    yield f"--{key.replace('_', '-')}"
    if value is not True:
        yield ",".join(map(str, value)) if isinstance(value, list) else str(value)

"""What several runs of one name are called: by the settings in which they differ."""

from collections.abc import Sequence
from typing import Any

_SECTIONS = ("seed_everything", "model", "data", "trainer")  # of a config, what runs differ in
_PLUMBING = ("logger", "callbacks", "enable_", "log_every", "accelerator", "devices", "num_nodes")
_SEEDS = {"seed_everything", "data.seed", "model.seed"}  # that --seed sets together
_MOST = 3  # settings that a name tells


def told_apart(names: Sequence[str], configs: Sequence[dict[str, Any] | None]) -> list[str]:
    """Names, those that several bear with what only they have set so: ``quickstart, seed 1``.

    A name stays as it is where the configs do not tell its bearers apart, or in too many settings.

    Args:
        names: of models.
        configs: of the run of each, as plain data; None: not known.
    """
    renamed = list(names)
    for name in set(names):
        same = [i for i, other in enumerate(names) if other == name]
        known = [config for i in same if (config := configs[i])]
        if len(same) < 2 or len(known) < len(same):
            continue
        endings = _differences([_flat(config) for config in known])
        if len(set(endings)) == len(same):
            for i, ending in zip(same, endings, strict=True):
                renamed[i] = f"{name}, {ending}"
    return renamed


def _differences(settings: list[dict[str, Any]]) -> list[str]:
    """Of each run, the settings that are not alike in all; empty where they are too many."""
    every = {key: [one.get(key) for one in settings] for one in settings for key in one}
    differ = {key: values for key, values in every.items() if values.count(values[0]) < len(values)}
    seeds = [differ.pop(key) for key in sorted(_SEEDS & differ.keys())]
    if seeds and all(values == seeds[0] for values in seeds):
        differ["seed"] = seeds[0]
    elif seeds:
        return [""] * len(settings)
    if len(differ) > _MOST:
        return [""] * len(settings)
    short = {key: key.rpartition(".")[2] for key in differ}
    shown = {
        key: end if list(short.values()).count(end) == 1 else key for key, end in short.items()
    }
    return [
        ", ".join(f"{shown[key]} {values[i]}" for key, values in differ.items())
        for i in range(len(settings))
    ]


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """The settings of a config that runs are compared by, under their names with dots."""
    flat: dict[str, Any] = {}

    def walk(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, below in value.items():
                walk(f"{name}.{key}", below)
        else:
            flat[name.replace("init_args.", "")] = value

    for section in _SECTIONS:
        if section in config:
            walk(section, config[section])
    plumbing = tuple(f"trainer.{name}" for name in _PLUMBING)
    return {name: value for name, value in flat.items() if not name.startswith(plumbing)}

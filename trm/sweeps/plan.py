"""What a study comes to: its settings with all that is held equal, and what they will take.

It is kept in ``study.json``, format 1:

    format       1
    settings     a list of `Planned` as data, in the study's order
    others       the same of settings that were in the study before
    seeds, checkpoint, evaluations, within      as in `trm.sweeps.study.Study`

with a copy of each config beside it, from which the runs are started: one that is changed or moved
later changes no run.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from canvas.task import Task
from trm.configs import find_config
from trm.files import fingerprint, read_object, replacing, write_object
from trm.sweeps.study import EQUAL_LOSS, Point, Setting, Study, group_of
from trm.sweeps.trial import Trial, parameters_of, try_out

PLAN, FORMAT = "study.json", 1
LOSS = "validation/loss"
_WIDEST = 2**20  # value of a key that makes up for others
_KEEP_ALL = (  # checkpoints of all validations, with their losses
    f"--checkpoint.monitor={LOSS}",
    "--checkpoint.mode=min",
    "--checkpoint.save_top_k=-1",
    "--checkpoint.filename={step:08d}",
)
_APART = 0.05  # share of parameters or steps by which settings may differ that have equally many


@dataclass(frozen=True)
class Planned:
    """A setting as its runs are started.

    Attributes:
        name, labels: the setting's.
        asked: what decides `words` and `trial`: the options that the study asks for, and what it
            holds equal to what.
        words: the options of `trm fit` beside its config, with what is held equal.
        config: SHA-256 of the config.
        trial: what a run is going to take.
    """

    name: str
    labels: dict[str, str]
    asked: tuple[str, ...]
    words: tuple[str, ...]
    config: str
    trial: Trial


@dataclass(frozen=True)
class Plan:
    """A study that can be started.

    Attributes:
        settings: what it varies.
        seeds, checkpoint, evaluations, within: as in `trm.sweeps.study.Study`.
        others: settings that were in the study before, and may come back.
    """

    settings: tuple[Planned, ...]
    seeds: tuple[int, ...]
    checkpoint: str
    evaluations: dict[str, list[str]]
    others: tuple[Planned, ...] = ()
    within: str | None = None

    def points(self) -> Iterator[Point]:
        """All runs, every setting's first seed before any second one."""
        for seed in self.seeds:
            for setting in self.settings:
                words = (*setting.words, f"--seed={seed}")
                yield Point(setting.name, seed, words, setting.config)

    def groups(self) -> list[list[Point]]:
        """The runs that are compared with each other: of one seed, and held equal."""
        of = {one.name: group_of(one.labels, self.within) for one in self.settings}
        found: dict[tuple[int, str], list[Point]] = {}
        for point in self.points():
            found.setdefault((point.seed, of[point.setting]), []).append(point)
        return list(found.values())

    def write(self, folder: Path, study: Study) -> None:
        """Keep it, and the configs of the study that it was made from."""
        for setting in study.settings:
            file = find_config(setting.config)
            copy = config_of(folder, fingerprint(file))
            if not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                with replacing(copy) as part:
                    part.write_bytes(file.read_bytes())
        write_object(folder / PLAN, {"format": FORMAT} | asdict(self))


def config_of(folder: Path, sha256: str) -> Path:
    """The copy of a config in the folder of a study."""
    return folder / "configs" / f"{sha256[:16]}.yaml"


def read_plan(folder: Path) -> Plan | None:
    """The plan in the folder of a study; None where there is none.

    Raises:
        ValueError: it is damaged, or something else is in its place.
    """
    file = folder / PLAN
    if not file.exists():
        return None
    held: Any = read_object(file) or {}
    try:
        if held.pop("format") != FORMAT:
            raise ValueError("another format")
        settings, others = (
            tuple(
                Planned(
                    one["name"],
                    dict(one["labels"]),
                    tuple(one["asked"]),
                    tuple(one["words"]),
                    one["config"],
                    Trial(**one["trial"]),
                )
                for one in held.pop(name)
            )
            for name in ("settings", "others")
        )
        return Plan(settings, tuple(held.pop("seeds")), others=others, **held)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{file} is not what trm sweep writes ({error}): choose another --output, or remove it"
        ) from None


def make_plan(
    study: Study,
    earlier: Plan | None,
    tell: Callable[[str], None],
    check: Callable[[Task], None] = lambda task: None,
) -> Plan:
    """Settle what all settings have in common, by trying each of them out.

    Args:
        study: what is asked for.
        earlier: a plan, whose settings are not tried out again where they are the same.
        tell: is told each setting's name before it is tried out.
        check: is given the task of each that is, and may refuse it by a ValueError.

    Raises:
        ValueError: options of a setting are wrong; the message names it.
    """
    before = (*earlier.others, *earlier.settings) if earlier else ()
    known = {one.asked: one for one in before}
    planned: list[Planned] = []
    trials: dict[str, Trial] = {}  # of what others are held equal to, by group
    for setting in study.settings:
        asked, group = _asked(study, setting), group_of(setting.labels, study.within)
        if asked not in known:
            tell(setting.name)
            try:
                words, trial = _settled(study, setting, trials.get(group), check)
            except (ValueError, MemoryError) as error:
                raise ValueError(f"{setting.name}: {error}") from None
            config = fingerprint(find_config(setting.config))
            known[asked] = Planned("", {}, asked, tuple(words), config, trial)
        planned.append(replace(known[asked], name=setting.name, labels=setting.labels))
        trials.setdefault(group, planned[-1].trial)
    mine = {one.asked for one in planned}
    others = tuple(one for asked, one in known.items() if asked not in mine)
    return Plan(
        tuple(planned), study.seeds, study.checkpoint, study.evaluations, others, study.within
    )


def _asked(study: Study, setting: Setting) -> tuple[str, ...]:
    """What decides the words and the trial of a setting."""
    words = [*_told(setting), *_kept(study)]
    if study.training or study.parameters:
        first = _told(study.reference(setting))
        words += [f"training={study.training}", f"parameters={study.parameters}", *first]
    return tuple(words)


def _told(setting: Setting) -> list[str]:
    """A setting's options, its config by what it holds, not by where it lies."""
    return [f"config={fingerprint(find_config(setting.config))}", *setting.options()]


def _kept(study: Study) -> list[str]:
    """The options that have runs keep what the study is going to evaluate."""
    return list(_KEEP_ALL) if study.checkpoint == EQUAL_LOSS else []


def _settled(
    study: Study, setting: Setting, first: Trial | None, check: Callable[[Task], None]
) -> tuple[list[str], Trial]:
    """A setting's words with what is held equal to the first one's, and its trial."""
    words, config = setting.options() + _kept(study), f"--config={find_config(setting.config)}"
    if first is not None and study.parameters is not None:
        value = _making_up([config, *words], study.parameters, first.parameters)
        words.append(f"--{study.parameters}={value}")
    trial = try_out([config, *words], check)
    if first is None or study.training is None:
        return words, trial
    wanted = first.steps * getattr(first, study.training) / getattr(trial, study.training)
    length, steps = _of_length(trial, max(1, round(wanted)))
    return words + length, replace(trial, steps=steps)


def _of_length(trial: Trial, steps: int) -> tuple[list[str], int]:
    """The options that give a run so many steps, and how many it then has.

    Where it is as long as a number of epochs, these stay, with their validations, and become longer
    or shorter by whole batches, unless that comes too far from what is wanted.
    """
    if steps == trial.steps:
        return [], steps
    if trial.epochs:
        batches = max(1, round(steps * trial.accumulated / trial.epochs))
        found = trial.epochs * ceil(batches / trial.accumulated)
        if abs(found - steps) <= _APART * steps:
            return [f"--data.batches_per_epoch={batches}"], found
    return ["--trainer.max_epochs=-1", f"--trainer.max_steps={steps}"], steps


def _making_up(words: list[str], key: str, parameters: int) -> int:
    """The value of a key with which a model has this number of parameters, as nearly as may be.

    Raises:
        ValueError: none has, or an option is wrong.
    """

    @cache
    def many(value: int) -> int:
        return parameters_of([*words, f"--{key}={value}"])

    low, high = 1, 2
    try:
        many(low), many(high)
    except ValueError as error:
        raise ValueError(
            f"equal.parameters: {key} has to take any whole number from 1 up, as "
            f"intermediate_size does ({error})"
        ) from None
    while many(high) < parameters:
        low, high = high, 2 * high
        if high > _WIDEST:
            raise ValueError(f"no {key} up to {_WIDEST:,} makes up {parameters:,} parameters")
    share = (parameters - many(low)) / max(1, many(high) - many(low))
    even = low + int(share * (high - low))  # where it is, if the number grows evenly
    looked_at = iter((even, even + 1))
    while high - low > 1:
        middle = next(looked_at, (low + high) // 2)
        if low < middle < high:
            low, high = (middle, high) if many(middle) <= parameters else (low, middle)
    found = min((low, high), key=lambda value: abs(many(value) - parameters))
    if abs(many(found) - parameters) > _APART * parameters:
        raise ValueError(
            f"with {key} {found} the model has {many(found):,} parameters, and {parameters:,} are "
            "wanted: let another key make up for them, or vary less"
        )
    return found

"""Every config is runnable as it stands, and its keys are explained where people read them."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml

from canvas.sequences import IGNORE
from trm.extras.sweep.planning import plan
from trm.extras.sweep.study import Setting, Study, read_study
from trm.training.canvas_module import CanvasModule
from trm.training.cli import train
from trm.training.iterative_module import IterativeModule

ROOT = Path(__file__).parents[1]
CONFIGS = ROOT / "configs"
EVERY = sorted(CONFIGS.rglob("*.yaml"))
FILES = [path for path in EVERY if path.parent.name != "studies"]
BUILT = [path for path in FILES if path.parent.name != "puzzles"]  # whose data are not files
STUDIES = [path for path in EVERY if path.parent.name == "studies"]


def name(path: Path) -> str:
    return str(path.relative_to(CONFIGS))


@pytest.mark.parametrize("path", BUILT, ids=name)
def test_a_config_builds_its_model_and_its_batches(path, monkeypatch):
    words = ["--trainer.accelerator=cpu", "--trainer.devices=1", "--trainer.logger=false"]
    monkeypatch.setattr("sys.argv", ["trm"])
    with torch.device("meta"):  # weights of no numbers
        cli = train([f"--config={path}", *words, "--data.workers=0"], run=False)
    assert isinstance(cli.model, CanvasModule)
    data, network = cli.datamodule, cli.model.model
    if hasattr(network.config, "height"):
        size = data.canvas.height or 20, data.canvas.width or 20
        assert (network.config.height, network.config.width) == size
    carried = isinstance(cli.model, IterativeModule) and cli.model.depth.schedule == "carry"
    assert not (carried and data.canvas.cut)
    # The run is long enough for its warmup, and is validated at its end.
    epochs = cli.trainer.max_epochs
    assert cli.model.schedule.warmup_steps < epochs * data.batches_per_epoch
    assert epochs % cli.trainer.check_val_every_n_epoch == 0
    if type(part := cli.trainer.val_check_interval) is float:
        assert data.batches_per_epoch % int(part * data.batches_per_epoch) == 0
    tables = ((ROOT / page).read_text() for page in ("docs/results.md", "README.md"))
    every, some = (
        re.findall(rf"\((?:\.\./)?configs/{name(path)}\) .*\| ([\d,]+) \|", table)
        for table in tables
    )
    assert every
    assert {*every, *some} == {f"{network.num_parameters:,}"}
    data.batch_size, data.pool = 8, data.pool and 64
    data.trainer = SimpleNamespace(
        world_size=1, global_rank=0, lightning_module=cli.model, max_epochs=epochs
    )
    batch = next(iter(data.train_dataloader()))
    charged = batch["answer"] if "answer" in batch else batch["labels"] != IGNORE
    assert charged.flatten(1).any(dim=1).all()
    problems, _ = next(iter(data.val_dataloader()[0]))
    assert len(problems) == min(4 * 8, data.validation_problems)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_config_begins_with_how_to_run_it(path):
    head = path.read_text().split("\n\n")[0]
    assert f"trm fit --config configs/{name(path)}" in head
    assert re.search(r"^seed_everything: \d+", path.read_text(), re.MULTILINE)


@cache
def to_build() -> dict[Path, Study]:
    """Every value of every axis, not every combination of them nor in every study again.

    Where parameters are made equal, the first setting of each group is built before the others.
    """
    found, seen = {}, set()

    def words(setting: Setting) -> set[tuple[str, str]]:
        return {(setting.config.partition("/")[0], word) for word in setting.options}

    for path in STUDIES:
        study = read_study(path)
        groups = {study.group_of(one): one for one in reversed(study.settings)}
        some = list(groups.values()) if study.equal.parameters else []
        seen.update(*map(words, some))
        while not some or any(words(one) - seen for one in study.settings):
            some.append(max(study.settings, key=lambda one: len(words(one) - seen)))
            seen |= words(some[-1])
        found[path] = replace(study, settings=tuple(some))
    return found


@pytest.mark.parametrize("path", STUDIES, ids=name)
def test_a_study_builds_all_settings_and_begins_with_its_command(path):
    assert f"trm sweep {name(path).removesuffix('.yaml')} --output" in path.read_text()
    built = plan(to_build()[path], lambda name: None)
    assert all(one.parameters and one.steps for one in built.settings)


def test_runs_of_different_configs_are_kept_apart():
    loggers = [yaml.safe_load(path.read_text())["trainer"]["logger"] for path in FILES]
    names = [logger["init_args"]["name"] for logger in loggers]
    assert len(set(names)) == len(names)


def leaf_lines(node: yaml.Node) -> Iterator[int]:
    """The line of every key whose value is a number, a word, or a list of them."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = list(leaf_lines(value))
            yield from below or [key.start_mark.line]
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from leaf_lines(value)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_every_key_has_a_line_and_a_comment_of_its_own(path):
    text = path.read_text()
    found, lines = list(leaf_lines(yaml.compose(text))), text.splitlines()
    assert len(found) > 20
    assert [lines[i].strip() for i in found if found.count(i) > 1] == []
    assert [lines[i].strip() for i in found if not re.search(r" # \w", lines[i])] == []

"""Files that lie, or were damaged: refused in a sentence, or solved with; nothing else happens."""

import copy
import random
from pathlib import Path

import pytest

from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from trm.checkpoints.exported import pack
from trm.checkpoints.keys import CHECKPOINT_KEY, DATA_KEY
from trm.checkpoints.loading import load_checkpoint, load_solver
from trm.checkpoints.settings import restored
from trm.models.configs import GPTConfig, RecursiveConfig
from trm.plain_data import fits

ODD = (0, -1, 10**9, 10**30, "x", None, 1.5, [], {}, True)


@pytest.fixture(scope="module")
def written(checkpoint) -> dict[str, bytes]:
    """A checkpoint and its exported weights, by the names of such files."""
    packed = pack(load_checkpoint(checkpoint), {})
    return {"x.ckpt": checkpoint.read_bytes(), "x.safetensors": packed}


def survives(file: Path) -> bool:
    """Whether a file is solved with; if not, it is refused in a short sentence."""
    told = ""
    try:
        solver = load_solver(file, device="cpu")
        solver.solve(Problems.from_ints([(12, 3)], solver.task.base))
    except ValueError as error:
        told = str(error)
    assert "\n" not in told
    assert len(told) < 600
    return not told


@pytest.mark.parametrize("name", ["x.ckpt", "x.safetensors"])
def test_120_damaged_files_do_no_harm(written, tmp_path, name):
    draw, whole, refused = random.Random(0), written[name], 0
    for number in range(120):
        content = bytearray(whole)
        if number < 40:  # cut short
            del content[draw.randrange(len(whole)) :]
        else:  # bytes that changed, in the first part more often than elsewhere
            region = len(whole) if number % 3 else 4000
            for _ in range(draw.choice((1, 4, 64, 2000))):
                content[draw.randrange(region)] = draw.randrange(256)
        (tmp_path / name).write_bytes(content)
        refused += not survives(tmp_path / name)
    assert refused >= 40


def settings_of(content: dict) -> list[tuple[str, ...]]:
    """The places of everything that a file says of its model and its data."""

    def below(part: dict, path: tuple[str, ...]):
        for name, value in part.items():
            yield (*path, name)
            if isinstance(value, dict):
                yield from below(value, (*path, name))

    return [place for part in (CHECKPOINT_KEY, DATA_KEY) for place in below(content[part], (part,))]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_no_odd_setting_does_harm(checkpoint, tmp_path, odd):
    content, file = load_checkpoint(checkpoint), tmp_path / "x.safetensors"
    places = settings_of(content)
    assert len(places) > 30
    for *path, name in places:
        changed = {**content, **copy.deepcopy({k: content[k] for k in (CHECKPOINT_KEY, DATA_KEY)})}
        part = changed
        for step in path:
            part = part[step]
        part[name] = odd
        file.write_bytes(pack(changed, {}))
        survives(file)


@pytest.mark.parametrize("config", [RecursiveConfig(), GPTConfig(), Canvas()])
def test_what_a_class_has_by_default_fits_it(config):
    assert restored(type(config), vars(config)) == config


@pytest.mark.parametrize("task", [Multiplication(), Addition()])
def test_what_a_task_has_by_default_fits_it(task):
    assert restored(type(task), task.settings()) == task


@pytest.mark.parametrize(
    ("value", "kind", "fitting"),
    [
        (3, int, True),
        (True, int, False),
        (3.0, int, False),
        (10**9, int, False),
        (3, float, True),
        (float("nan"), float, False),
        (None, int | None, True),
        ("3", int | None, False),
        ([1, 3], tuple[int, int], True),
        ([1, 3, 4], tuple[int, int], False),
        (["1", 3], tuple[int, int], False),
        (1, bool, False),
    ],
)
def test_types_are_told_apart(value, kind, fitting):
    assert fits(value, kind) == fitting


def test_a_setting_of_another_type_is_named():
    with pytest.raises(ValueError, match=r"hidden_size is '16\.5'"):
        restored(RecursiveConfig, {"hidden_size": 16.5})

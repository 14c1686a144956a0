"""Small files that would take all memory or never end: refused before they do."""

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from trm.checkpoints.keys import CHECKPOINT_KEY, DATA_KEY
from trm.checkpoints.limits import check_archive, check_settings, check_tensors
from trm.checkpoints.loading import find_checkpoint, load_checkpoint, load_solver
from trm.evaluation.grid_models import describe


class Made:
    """Is a call of a function in a pickle."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def doubled(value: Any, times: int = 60) -> Any:
    """A value that stands in 2^times places."""
    for _ in range(times):
        value = [value, value]
    return value


def changed(checkpoint: Path, folder: Path, change: Callable[[dict], Any]) -> Path:
    content = torch.load(checkpoint, weights_only=True)
    change(content)
    torch.save(content, folder / "changed.ckpt")
    return folder / "changed.ckpt"


def huge() -> torch.Tensor:
    return torch.zeros(1).expand(60_000, 50_000)


def views() -> list[torch.Tensor]:
    one = torch.zeros(9999)
    return [one[i:] for i in range(999)]


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.update(more=huge()),
        lambda content: content["state_dict"].update({"model.more": huge()}),
        lambda content: content.update(more=views()),
        lambda content: content.update(more=torch.empty(9, device="meta")),
        lambda content: content.update(more=torch.zeros(9, 9).to_sparse()),
        lambda content: content.update(more=Made(bytearray, 6_000_000_000)),
        lambda content: content.update(more=Made(torch.Tensor, 60_000, 50_000)),
    ],
)
def test_what_is_larger_in_memory_than_on_the_disk_is_refused(checkpoint, tmp_path, change):
    file = changed(checkpoint, tmp_path, change)
    assert file.stat().st_size < 2**20
    with pytest.raises(ValueError, match="cannot be read as a checkpoint"):
        load_checkpoint(file)


def test_a_packed_archive_is_refused(checkpoint, tmp_path):
    file = tmp_path / "packed.ckpt"
    with (
        zipfile.ZipFile(checkpoint) as whole,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for entry in whole.infolist():
            packed.writestr(entry.filename, whole.read(entry))
    with pytest.raises(ValueError, match="it is cut short, packed,"):
        load_checkpoint(file)


@pytest.mark.parametrize("place", [CHECKPOINT_KEY, DATA_KEY, "global_step"])
def test_settings_that_stand_in_too_many_places_are_refused(checkpoint, tmp_path, place):
    def change(content: dict) -> None:
        if place == CHECKPOINT_KEY:
            content[place]["model"]["hidden_size"] = doubled(1)
        elif place == DATA_KEY:
            content[place]["symmetries"] = doubled("e")
        else:
            content[place] = doubled(1)

    with pytest.raises(ValueError, match="does not say which model it holds") as error:
        load_solver(changed(checkpoint, tmp_path, change))
    assert len(str(error.value)) < 400


def test_an_odd_value_is_quoted_briefly(checkpoint, tmp_path):
    def change(content: dict) -> None:
        content[CHECKPOINT_KEY]["model"]["hidden_size"] = doubled(1, 10)

    with pytest.raises(ValueError, match=r"hidden_size is '\[\[") as error:
        load_solver(changed(checkpoint, tmp_path, change))
    assert len(str(error.value)) < 400


def test_honest_content_passes(checkpoint):
    check_archive(checkpoint)
    tied = torch.zeros(1000)
    check_tensors({"a": tied, "b": [tied.view(10, 100), {"c": tied}]}, 4096)
    with pytest.raises(ValueError, match="tensors of 12,000 bytes"):
        check_tensors([torch.zeros(1000), torch.zeros(1000), torch.zeros(1000)], 2048)
    check_settings({"x": list(range(5000)), "y": "z" * 10_000})
    for much in (list(range(10_001)), "z" * 10_001, {"x" * 10_001: 1}):
        with pytest.raises(ValueError, match="too long"):
            check_settings(much)


def test_a_pipe_by_a_checkpoints_name_is_passed_over(checkpoint, tmp_path):
    os.mkfifo(tmp_path / "best.ckpt")
    (tmp_path / "last.ckpt").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="no checkpoint below"):
        find_checkpoint(tmp_path)
    (tmp_path / "step=3.ckpt").write_bytes(checkpoint.read_bytes())
    assert find_checkpoint(tmp_path).name == "step=3.ckpt"


def test_an_empty_path_is_not_the_current_folder():
    with pytest.raises(ValueError, match="path is empty"):
        find_checkpoint("")


@pytest.mark.parametrize(
    "config",
    [
        "a0: &a0 [1]\n" + "".join(f"a{i + 1}: &a{i + 1} [*a{i}, *a{i}]\n" for i in range(40)),
        "x: " + "[" * 1000 + "]" * 1000,
        "x: " + "y" * 2**21,
    ],
)
def test_a_configuration_that_says_too_much_is_damaged(checkpoint, tmp_path, config):
    file = tmp_path / "x.ckpt"
    file.write_bytes(checkpoint.read_bytes())
    (tmp_path / "config.yaml").write_text(config)
    with pytest.raises(ValueError, match=r"config\.yaml is damaged"):
        describe(file, "x")

"""Runs that go on from a checkpoint: which settings have changed, and whether epochs are left."""

from typing import Any

from jsonargparse import Namespace

from trm.checkpoints import DATA_KEY
from trm.io.puzzle_files import arrays_hash
from trm.training.tensorboard import CONFIG_KEY, settings_of_run


def changed_settings(config: dict[str, Any], content: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ from those of a checkpoint's run: now, and then.

    Args:
        config: of the run, as plain data.
        content: of the checkpoint; without the config of its run nothing differs.
    """
    if CONFIG_KEY not in content:
        return {}
    now, was = map(settings_of_run, (config, content[CONFIG_KEY]))
    arrays = content[DATA_KEY].get("arrays")
    if arrays and "folder" in config["data"]:  # it may be moved, or have other arrays by now
        folder = config["data"]["folder"]
        here = arrays_hash(folder)
        now["data.folder"] = f"{folder} (SHA-256 {here[:12]})"
        before = f"{was['data.folder']} (SHA-256 {arrays[:12]})"
        was["data.folder"] = now["data.folder"] if here == arrays else before
    differ = sorted(key for key in now.keys() | was.keys() if now.get(key) != was.get(key))
    return {key: (now.get(key), was.get(key)) for key in differ}


def check_epochs_left(config: Namespace, content: dict[str, Any], goes_on: bool) -> None:
    """Check that a checkpoint has not trained for longer than the run should.

    A new run also has to train for longer than the checkpoint.

    Args:
        config: of the run.
        content: of the checkpoint.
        goes_on: whether its own run goes on; else a new run begins with it.

    Raises:
        ValueError: it has; the message names the remedy.
    """
    loop = content.get("loops", {}).get("fit_loop", {})
    whole = loop.get("epoch_loop.batch_progress", {}).get("is_last_batch")
    epochs = loop.get("epoch_progress", {}).get("current", {})
    epochs = epochs.get("ready" if whole else "processed", 0)
    done = {"max_epochs": epochs, "max_steps": content.get("global_step") or 0}
    for key, number in done.items():
        most = config.trainer[key]
        if most is None or not 0 <= most <= number or (goes_on and most == number):
            continue
        ends, anew = "the new run ends with as many", f"with --weights {config.ckpt_path}"
        if goes_on:
            ends, anew = f"the run should end with {most}", "without --ckpt_path"
        raise ValueError(
            f"{config.ckpt_path} has trained for {number} {key[4:]}, and {ends}: raise "
            f"trainer.{key}, or begin anew {anew}"
        )

"""LightningCLI for `trm fit`, `validate`, `test` and `predict`."""

import logging
import re
import shutil
import warnings
from argparse import ArgumentError
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import lightning as L
import torch
import yaml
from jsonargparse import Namespace
from jsonargparse.typing import register_type
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_info
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from canvas.choices import load_class, look_here
from canvas.symbols import VOCAB_SIZE
from canvas.task import Task
from trm.checkpoints import find_checkpoint
from trm.checkpoints.content import load_checkpoint, network_weights
from trm.io.config_files import LOADER, reads_arrays
from trm.io.puzzle_files import read_format
from trm.models.iterative import Network
from trm.runtime.devices import check_devices
from trm.runtime.limits import lacks_memory
from trm.runtime.precision import NO_UNITS, check_precision, settle
from trm.runtime.processes import start_processes
from trm.training.callbacks import CALLBACKS, BestCheckpoint, CheckpointFiles, Cost, check_callbacks
from trm.training.canvas_module import CanvasModule
from trm.training.data import CanvasDataModule
from trm.training.loggers import (
    add_table,
    begin_runs,
    give_ids,
    keep_tables,
    lock_run,
    share_version,
    wait_for_next_second,
)
from trm.training.mistakes import explained
from trm.training.optimisers import build_optimizer
from trm.training.puzzle_data import PuzzleDataModule
from trm.training.puzzle_module import PuzzleModule
from trm.training.puzzle_pictures import PuzzlePictures
from trm.training.resuming import changed_settings, check_epochs_left
from trm.training.runs import NEWEST, check_folders, find_newest, print_sentence, settle_folder
from trm.training.tensorboard import Pictures, SavedConfig

# Warnings of Lightning about itself: the user can do nothing about them.
_NOT_OURS = (
    r".*treespec, LeafSpec.*",
    r".*is not supported by the model summary.*",
    r".*does not have many workers.*",
    r".*overridden `transfer_batch_to_device` in `LightningModule`.*",
    r".*The dirpath has changed.*",  # true when a checkpoint is scored or begins a new run
    r".*exists and is not empty.*",  # true in a resumed run
    r".*LightningCLI's args parameter is intended.*",  # it gets the command line less two words
    r".*callbacks used to create the checkpoint need to be provided.*",  # all changes are printed
    r".*You're resuming from a checkpoint that ended before the epoch.*",  # our loaders support it
)
# Keys whose change makes scores incomparable, as the problems differ.
_PROBLEMS = (
    *("data.task", "data.canvas", "data.seed", "data.validation_problems", "checkpoint."),
    *("data.folder", "data.height", "data.width"),
)
_SCORED = (  # keys that change which problems a checkpoint is scored on, and how it solves them
    *("data.task", "data.canvas", "data.seed", "data.folder", "data.height", "data.width"),
    *("data.unknown", "model.solve_steps", "model.patience"),
)
_BARE = ("--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false")
_FROM_1 = ("accumulate_grad_batches", "check_val_every_n_epoch", "val_check_interval")
_USAGE = "trm {} --config FILE [--KEY VALUE ...]"
_ABOUT = (
    "FILE describes a model, its data and a trainer; --KEY VALUE changes a key. Keys of Lightning "
    "are among those below; docs/options.md has the package's own on one page."
)
_HELP = """\
FILE may contain every key. It may also be the name of a config in the package: `trm configs` lists
them, and `trm configs quickstart` prints one in which every line is explained. A config is code: it
imports and calls the classes that it names. --model.help CLASS lists the settings of a class, such
as trm.training.IterativeModule.
"""

# Parsers, and what `LightningCLI.setup_parser` stores beside them, by the kind of run.
_PARSERS: dict[tuple[Any, ...], dict[str, Any]] = {}


class TrainingCLI(LightningCLI):
    """CLI for models and data from one YAML file; the canvas size is set once, under `data`."""

    pictures: type[Pictures] = Pictures

    def setup_parser(
        self, add_subcommands: bool, main_kwargs: dict[str, Any], subparser_kwargs: dict[str, Any]
    ) -> None:
        """Set up the parser, once for all runs of a kind, such as those of a study."""
        kind = self._model_class, self._datamodule_class, self.pictures, *self.subcommands()
        if kind not in _PARSERS:
            before = {*vars(self)}
            super().setup_parser(add_subcommands, main_kwargs, subparser_kwargs)
            _PARSERS[kind] = {name: vars(self)[name] for name in vars(self).keys() - before}
        vars(self).update(_PARSERS[kind])

    def init_parser(self, **settings: Any) -> LightningArgumentParser:
        """Return the parser; it writes a config that it has read without checking it once more."""
        parser: Any = super().init_parser(**settings)
        parser.dump = partial(parser.dump, skip_validation=True)
        for action in parser._actions:
            if "--config" in action.option_strings:
                action.help = "a YAML file, or a name that `trm configs` lists; repeatable"
        return parser

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the parts of every run: best checkpoint, seed and pictures."""
        parser.add_lightning_class_args(BestCheckpoint, "checkpoint")
        settings: dict[str, Any] = {"filename": "best", "monitor": "validation/solved"}
        settings |= {"mode": "max", "save_on_train_epoch_end": False}  # only after a validation
        parser.set_defaults({f"checkpoint.{name}": value for name, value in settings.items()})
        means = "of everything: sets seed_everything, data.seed and model.seed"
        parser.add_argument("--seed", type=int | None, help=means)
        begins = "weights or checkpoint that a new run begins with, in place of random weights"
        parser.add_argument("--weights", type=str | None, help=begins)
        parser.add_lightning_class_args(self.pictures, "panels")

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Also set seeds and find the checkpoint; Lightning would do so only after building."""
        super().parse_arguments(parser, args)
        subcommand = self.config.get("subcommand")
        config = self.config[subcommand] if subcommand else self.config
        if (seed := config.get("seed")) is not None:
            if not 0 <= seed < 2**32:
                raise ValueError(f"seed is a whole number from 0 to {2**32 - 1}, not {seed}")
            for key in ("seed_everything", "data.seed", "model.init_args.seed"):
                config[key] = seed
            config.seed = None
        self.content: dict[str, Any] = {}  # of the checkpoint
        if not subcommand:
            return
        path, fits = config.ckpt_path, subcommand == "fit"
        if fits:
            check_folders(config)
        if path in NEWEST:
            path = config.ckpt_path = find_newest(config, path, fits)
        elif path is None and not fits:
            raise ValueError("give --ckpt_path best, --ckpt_path last, or a checkpoint's file")
        if path is not None:
            config.ckpt_path = str(find_checkpoint(path))
            self.content = load_checkpoint(config.ckpt_path)
            if fits and not self.content.get("optimizer_states"):
                raise ValueError(
                    f"{path} holds weights alone, from which training cannot resume: take a "
                    f"checkpoint of the run, or begin a new run with --weights {path}"
                )
        self.first: dict[str, Any] = {}  # content of the file that a new run begins with
        if fits and path is None and (weights := config.weights) is not None:
            self.first = load_checkpoint(weights)

    def before_instantiate_classes(self) -> None:
        """Set values that depend on other keys, on the machine and on earlier runs."""
        config = self.config[self.subcommand] if self.subcommand else self.config
        self._settle_size(config)
        check_devices(config.trainer.accelerator, config.trainer.devices)
        _start_alike(config.trainer)
        precision = config.trainer.precision
        check_precision(precision)
        config.trainer.precision = settle(precision, config.trainer.accelerator)
        if config.trainer.precision != precision:
            rank_zero_info(NO_UNITS)
        for name in _FROM_1:  # Lightning would divide by them
            if type(config.trainer[name]) is int and config.trainer[name] < 1:
                raise ValueError(f"trainer.{name} is 1 or more, not {config.trainer[name]}")
        before = self.content
        changes = changed_settings(self._values_of(config), before) if before else {}
        if self.subcommand == "fit":
            path = config.ckpt_path
            if changes:
                listed = [f"{key} {now} (was {was})" for key, (now, was) in changes.items()]
                print_sentence(f"Resuming from {path} with {', '.join(listed)}.")
            anew = [key for key in changes if key.startswith(_PROBLEMS)]
            self.goes_on = settle_folder(config, Path(path) if path else None, anew)
            if before:
                check_epochs_left(config, before, self.goes_on)
            if self.goes_on:
                give_ids(config, before)
        elif self.subcommand:
            listed = [
                f"{key} {was} (here {now})"
                for key, (now, was) in changes.items()
                if key.startswith(_SCORED)
            ]
            if listed:
                print_sentence(f"{config.ckpt_path} was trained with {', '.join(listed)}.")
            config.trainer.logger = False  # nothing is trained, and there is no curve to draw
            # `Scores` prints metrics in their place; predictions are written as they come.
            config["return_predictions" if self.subcommand == "predict" else "verbose"] = False
        if self.subcommand:  # Lightning's hyperparameters, too: it would write the config once more
            self.config_dump = self._values_of(config)
            self.save_config_kwargs = {"values": self.config_dump}

    def _values_of(self, config: Namespace) -> dict[str, Any]:
        """Return a config as plain data."""
        text = self._parser(self.subcommand).dump(config, skip_none=False)
        return dict(yaml.load(text, LOADER))

    def _settle_size(self, config: Namespace) -> None:
        """Copy settings to the network: of the data, and those that the network finds in a task."""
        network = config.model.init_args.get("network")
        settings = network.get("init_args.config") if isinstance(network, Namespace) else None
        if not settings:
            return
        for name, value in _of_data(config.data).items():
            if name in settings:
                settings[name] = value
        kind = load_class(network.class_path, Network, "network")
        settings_of: Any = getattr(kind, "settings_of", None)
        if settings_of and "task" in config.data:
            task: Any = load_class(config.data.task.class_path, Task, "task")
            found = settings_of(task(**config.data.task.init_args), settings)
            for key, value in found.items():
                settings[key] = value

    def instantiate_trainer(self, **settings: Any) -> L.Trainer:
        """Return the trainer, with safe checkpoint files and one process for each device."""
        try:
            trainer: Any = super().instantiate_trainer(**settings)
        except TypeError as error:  # raised by Lightning, for example if devices is no number
            raise ValueError(f"trainer: {error}") from error
        if type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:
            trainer.strategy.checkpoint_io = CheckpointFiles()
        if self.subcommand is not None:
            start_processes(trainer.strategy)
        if self.subcommand == "fit":
            share_version(trainer.loggers)
            add_table(trainer)
            if self.goes_on and trainer.is_global_zero:
                lock_run(trainer.loggers).close()  # refuses a run that is still trained
                keep_tables(trainer.loggers, self.content["global_step"])
                wait_for_next_second(trainer.loggers)
        return trainer

    def instantiate_classes(self) -> None:
        """Build model, data and trainer, and the auxiliary heads, which depend on the task."""
        super().instantiate_classes()
        self.model.prepare(self.datamodule)

    def _run_subcommand(self, subcommand: str) -> None:
        """Run a subcommand; remove the folder of a run that fails before its first batch."""
        self.new_folders: list[Path] = []  # the run's, and those around it
        try:
            super()._run_subcommand(subcommand)
        except Exception:
            begun = self.trainer.fit_loop.epoch_loop.total_batch_idx >= 0
            if self.new_folders and not begun and self.trainer.is_global_zero:
                with suppress(ValueError), lock_run(self.trainer.loggers):  # else it is another's
                    shutil.rmtree(self.new_folders[0], ignore_errors=True)
                    for folder in self.new_folders[1:]:
                        with suppress(OSError):  # it is not empty
                            folder.rmdir()
            raise

    def before_fit(self) -> None:
        """Check model, data and checkpoint before the run's folder is created."""
        check_callbacks(self.trainer)
        self.model.check_fit(self.datamodule, self.trainer.max_epochs)
        self.model.checked = True
        if self.content:
            CanvasModule.on_load_checkpoint(self.model, self.content)
            optimizer = build_optimizer(self.model, self.model.optimizer)
            optimizer.load_state_dict(self.content["optimizer_states"][0])
        elif self.first:
            self.model.check_same_network(self.first)
            self.model.model.load_state_dict(network_weights(self.first))
            callbacks: list[Any] = self.trainer.callbacks  # type: ignore[attr-defined]
            for callback in callbacks:
                if isinstance(callback, Cost):
                    callback.begin_with(self.first)
        if isinstance(first := self.trainer.logger, TensorBoardLogger | CSVLogger):
            run = Path(first.log_dir)
            self.new_folders = [one for one in (run, *run.parents) if not one.exists()]
        if self.trainer.world_size == 1:  # a process that is started later cannot take over a run
            begin_runs(self.trainer.loggers)
        rank_zero_info(f"The model has {self.model.model.num_parameters:,} parameters.")


def _of_data(data: Namespace) -> dict[str, int]:
    """Return canvas size and vocabulary by the settings of data, for the network."""
    if "folder" in data:
        return vars(read_format(data.folder, height=data.get("height"), width=data.get("width")))
    sides = {side: data.canvas[side] or 20 for side in ("height", "width")}
    return sides | {"vocab_size": _vocab_size(data.task)}


def _vocab_size(task: Namespace) -> int:
    """Return the ids that a task needs by its settings; wrong ones are refused later."""
    try:
        kind: Any = load_class(task.class_path, Task, "task")
        made: Task = kind(**task.init_args)
        return made.vocab_size
    except (TypeError, ValueError):
        return VOCAB_SIZE


def _start_alike(trainer: Namespace) -> None:
    """Let `launch` start the processes of DDP's variants, as it does for all strategies.

    Lightning's own ways, such as ``ddp_spawn``, would copy objects that cannot be copied.
    """
    if isinstance(trainer.strategy, str):
        trainer.strategy = re.sub(r"^ddp_(spawn|fork|notebook)", "ddp", trainer.strategy)
    elif isinstance(trainer.strategy, Namespace) and "init_args.start_method" in trainer.strategy:
        trainer.strategy["init_args.start_method"] = "popen"


def run(arguments: list[str], quiet: bool = False) -> None:
    """Run a subcommand of Lightning's trainer, such as ``["fit", "--config", "quickstart"]``."""
    if quiet:
        for name in ("lightning.pytorch", "lightning.fabric"):
            logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("lightning.pytorch.utilities.rank_zero").addFilter(
        lambda record: "Tip: For seamless cloud" not in record.getMessage()
    )
    with warnings.catch_warnings():
        for message in _NOT_OURS:
            warnings.filterwarnings("ignore", message)
        try:
            train([*arguments, *(_BARE if quiet else ())])
        except SystemExit as stop:
            if stop.code:  # 0: all is done or printed
                raise


def train(arguments: list[str], run: bool = True) -> TrainingCLI:
    """Run a command line; without ``run``, build its model, data and trainer alone.

    Raises:
        ValueError: the command line or a config is wrong; the message is a plain sentence.
    """
    look_here()
    register_type(torch.device, fail_already_registered=False)  # a default of some callbacks
    # `explained` rewrites jsonargparse's errors; abbreviated option names are errors, too.
    quiet = {"exit_on_error": False, "allow_abbrev": False}
    subcommands = {name: LightningCLI.subcommands()[name] for name in arguments[:1] if run}
    help = {"usage": _USAGE.format("".join(subcommands)), "description": _ABOUT, "epilog": _HELP}
    model: Any = CanvasModule
    data: type[L.LightningDataModule] = CanvasDataModule
    own: dict[str, Any] = {"subcommands": staticmethod(lambda: subcommands)}
    if reads_arrays(arguments):
        model, data, own["pictures"] = PuzzleModule, PuzzleDataModule, PuzzlePictures
    if not run:
        own["config_dump"] = {}  # of checkpoints, and a fifth of the time to build all
    cli = type("OneCLI", (TrainingCLI,), own)
    # Written at the end of every epoch: `save_last` of the best checkpoint keeps the best alone.
    last = ModelCheckpoint(
        filename="last", save_on_train_epoch_end=True, enable_version_counter=False
    )
    tensorboard = "lightning.pytorch.loggers.TensorBoardLogger"
    try:
        made: TrainingCLI = cli(
            model,
            data,
            subclass_mode_model=True,
            args=arguments,
            parser_kwargs=quiet | dict.fromkeys(subcommands, quiet | help),
            seed_everything_default=0,
            save_config_callback=SavedConfig if run else None,
            run=run,
            trainer_defaults={
                "callbacks": [*(kind() for kind in CALLBACKS), last],
                "logger": {"class_path": tensorboard, "init_args": {"save_dir": "runs"}},
                "num_sanity_val_steps": 0,
                "enable_model_summary": False,  # a table of one line; `before_fit` prints the count
            },
        )
    except (MisconfigurationException, ArgumentError, ValueError) as error:
        raise ValueError(explained(str(error), data)) from error
    except (MemoryError, RuntimeError) as error:
        if not lacks_memory(error):
            raise
        raise ValueError(
            "there is too little memory: take a smaller data.batch_size, a smaller network, or "
            "shorter numbers"
        ) from error
    return made

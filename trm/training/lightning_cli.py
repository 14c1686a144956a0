"""LightningCLI for `trm fit`, `validate`, `test` and `predict`."""

import logging
import warnings
from argparse import ArgumentError
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lightning as L
import yaml
from jsonargparse import Namespace, get_loader, set_loader
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch.callbacks import RichProgressBar
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.utilities import rank_zero_info
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from augment.symmetry import SYMMETRIES
from canvas.choices import did_you_mean, import_code, load_class, look_here
from canvas.hints import ORIENTATION, hint_classes
from canvas.task import Task
from trm.checkpoints.lightning_io import CheckpointFiles
from trm.checkpoints.loading import load_checkpoint
from trm.commands.arguments import QUIET, VERBOSE
from trm.configs import check_size, classes_in_call, foreign_names, own_classes
from trm.devices import check_cores
from trm.launcher import end_together
from trm.precision import NO_UNITS, check_precision, settle
from trm.processes import Processes, ending_together
from trm.training.callbacks import (
    BestCheckpoint,
    Cost,
    Gradients,
    LastCheckpoint,
    LearningRates,
    Milestones,
    PredictionWriter,
    Scores,
    TrainingBar,
)
from trm.training.canvas_module import CanvasModule, learned_hints
from trm.training.config_errors import explained
from trm.training.data import CanvasDataModule
from trm.training.pictures import Pictures
from trm.training.runs import NEWEST, Runs
from trm.training.tensorboard import SavedConfig

# Warnings of Lightning about itself: the user can do nothing about them.
_NOT_OURS = (
    r".*treespec, LeafSpec.*",
    r".*is not supported by the model summary.*",
    r".*does not have many workers.*",
    r".*overridden `transfer_batch_to_device` in `LightningModule`.*",
    r".*The dirpath has changed.*",  # as it does when a checkpoint is scored, or begins a new run
    r".*exists and is not empty.*",  # as it is where a run goes on
    r".*LightningCLI's args parameter is intended.*",  # the command line less two words
)
SEED_HELP = "of everything: sets seed_everything, data.seed and model.seed"
OVERSUBSCRIBE = "--oversubscribe"  # more processes than CPU cores
IMPORT = "--import"  # code of the user's own that a checkpoint names
_BARE = ("--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false")


_load_yaml = get_loader("yaml")
_NAMED: set[str] = set()  # code of the user's own that has been announced


def _load_checked(text: str) -> Any:
    """jsonargparse's reading of YAML, with sizes checked and foreign code named before it runs."""
    check_size(text)
    value = _load_yaml(text)
    if foreign := sorted(set(foreign_names(value)) - _NAMED):
        _NAMED.update(foreign)
        rank_zero_info(
            "Note: the configuration names code that is not this project's, which is now imported "
            f"and run: {', '.join(foreign)}"
        )
    _check_classes(own_classes(value))
    return value


def _check_classes(names: Iterable[str]) -> None:
    """Say in a sentence what is wrong with a class of the user's own."""
    for name in names:
        load_class(name, object, "class")


class TrainingCLI(LightningCLI):
    """Models and data from one YAML file; the canvas size is written once, under `data`."""

    def __init__(
        self,
        *settings: Any,
        processes: Processes | None = None,
        oversubscribe: bool = False,
        **more: Any,
    ) -> None:
        self.processes, self.oversubscribe = processes or Processes(), oversubscribe
        super().__init__(*settings, **more)

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """What every run has, under a key of its own, and what follows from another key."""
        parser.add_lightning_class_args(BestCheckpoint, "checkpoint")
        parser.set_defaults(
            {
                "checkpoint.filename": "best",
                "checkpoint.monitor": "validation/solved",
                "checkpoint.mode": "max",
            }
        )
        parser.add_argument("--seed", type=int | None, help=SEED_HELP)
        parser.add_lightning_class_args(Pictures, "panels")

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Also look into the checkpoint, which Lightning itself would read with a traceback.

        Raises:
            ValueError: there is none, it is not one of this package, or training cannot go on
                from it.
        """
        super().parse_arguments(parser, args)
        subcommand = self.config.get("subcommand")
        self._settle_seed(self.config[subcommand] if subcommand else self.config)
        path = self.config.get(f"{subcommand}.ckpt_path")
        if path == "":
            raise ValueError("the name after --ckpt_path is empty: give best, last or a file")
        if not path or path in NEWEST or "://" in path:
            return
        if not Path(path).is_file():
            raise ValueError(f"there is no checkpoint {path}.{did_you_mean(path, NEWEST, 0.6)}")
        if "optimizer_states" not in load_checkpoint(path) and subcommand == "fit":
            raise ValueError(
                f"{path} holds weights alone, from which training cannot go on: take a checkpoint "
                "of the run"
            )

    def _settle_seed(self, config: Namespace) -> None:
        """`--seed` stands for all seeds, under whose own names it is kept.

        Raises:
            ValueError: it is none.
        """
        if config.get("seed") is None:
            return
        if not 0 <= config.seed < 2**32:
            raise ValueError(f"seed is a whole number from 0 to {2**32 - 1}, not {config.seed}")
        for key in ("seed_everything", "data.seed", "model.init_args.seed"):
            config[key] = config.seed
        config.seed = None

    def before_instantiate_classes(self) -> None:
        """Settle what depends on other keys, on the machine and on earlier runs."""
        config = self.config[self.subcommand] if self.subcommand else self.config
        self._settle_size(config)
        self._settle_precision(config)
        if self.subcommand is not None:
            self._find_earlier_run(config)
            if self.subcommand in ("validate", "test"):
                config.verbose = False  # `Scores` says it better
            if self.subcommand == "predict":
                config.return_predictions = False  # they are written as they come
            if self.subcommand != "fit" and not config.ckpt_path:
                raise ValueError("give --ckpt_path best, --ckpt_path last, or a checkpoint's file")

    def _settle_size(self, config: Namespace) -> None:
        """What a network is made for is the data's: the size of its canvas, its layout's hints."""
        network = config.model.init_args.get("network")
        settings = network.get("init_args.config") if isinstance(network, Namespace) else None
        if isinstance(settings, Namespace):
            for side in ("height", "width"):
                if side in settings:
                    settings[side] = config.data.canvas[side] or 20
            if "hints" in settings:
                settings["hints"] = self._hints(config)

    def _hints(self, config: Namespace) -> dict[str, int]:
        """The classes of each hint that has a weight: what they are follows from the layout.

        Raises:
            ValueError: a weight of a hint that the layout does not have.
        """
        asked = config.model.init_args.get("hints")
        if not any((asked or {}).values()):
            return {}
        made: Any = load_class(config.data.task.class_path, Task, "task")
        task = made(**config.data.task.init_args)
        classes = hint_classes(task.rules, task.base)
        if config.data.get("transforms") or config.data.get("views"):
            classes[ORIENTATION] = len(SYMMETRIES)
        if not classes:
            raise ValueError(
                f"model.hints: the layout {task.layout} has no hints to learn: take another, such "
                "as standard, or leave model.hints out (--model.hints null)"
            )
        # What is left out of another layout's hints may stay so where the layout is replaced.
        others = {name for layout in task.layouts.values() for name in layout.hints} - set(classes)
        asked = {name: w for name, w in asked.items() if w or name not in others}
        return {name: classes[name] for name in learned_hints(asked, classes)}

    def _settle_precision(self, config: Namespace) -> None:
        """What is computed in, see `trm.precision`.

        Raises:
            ValueError: weights in another precision than float32 are asked for.
        """
        asked = config.trainer.precision
        check_precision(asked)
        config.trainer.precision = settle(asked, config.trainer.accelerator)
        if config.trainer.precision != asked:
            rank_zero_info(NO_UNITS)

    def _find_earlier_run(self, config: Namespace) -> None:
        """Settle which checkpoint `best` and `last` mean, and in which folder the run goes on.

        Lightning looks for them in the folder of the new run, where there is nothing yet.

        Raises:
            ValueError: there is no such checkpoint, or the run would write over another one.
        """
        runs = Runs(config)
        if config.ckpt_path == "last" and self.subcommand == "fit":
            found = runs.to_go_on_from()
            config.ckpt_path = str(found) if found else None
        elif config.ckpt_path in NEWEST:
            config.ckpt_path = str(runs.newest_checkpoint(config.ckpt_path))
        if self.subcommand != "fit":
            config.trainer.logger = False  # nothing is trained, and there is no curve to draw
        elif config.ckpt_path:
            runs.go_on_in_place(Path(config.ckpt_path))
        else:
            runs.refuse_to_overwrite()

    def instantiate_trainer(self, **settings: Any) -> L.Trainer:
        """The trainer, with checkpoints that are safe and a progress bar that fits a terminal."""
        try:
            trainer: Any = super().instantiate_trainer(**settings)
        except TypeError as error:  # Lightning's, for example of devices that are no number
            raise ValueError(f"trainer: {error}") from error
        trainer.callbacks = [
            TrainingBar() if type(callback) is RichProgressBar else callback
            for callback in trainer.callbacks
        ]
        if type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:
            trainer.strategy.checkpoint_io = CheckpointFiles()
        if not self.oversubscribe:
            check_cores(trainer, "--trainer.devices")
        end_together(trainer, self.processes)
        return trainer

    def before_fit(self) -> None:
        """Say what is trained, unless it cannot be: before there is a folder of the run."""
        if isinstance(self.model, CanvasModule):
            self.model.check(self.datamodule)
            rank_zero_info(f"The model has {self.model.model.num_parameters:,} parameters.")


def run(arguments: list[str]) -> None:
    """Run the subcommand of Lightning's trainer that the command line names."""
    look_here()
    words = import_named(arguments)
    words = [word for word in words if word not in (*QUIET, *VERBOSE, OVERSUBSCRIBE)]
    if any(word in QUIET for word in arguments):
        words += _BARE
        for name in ("lightning.pytorch", "lightning.fabric"):
            logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("lightning.pytorch.utilities.rank_zero").addFilter(
        lambda record: "Tip: For seamless cloud" not in record.getMessage()
    )
    set_loader("yaml", _load_checked, exceptions=(yaml.YAMLError,))
    with ending_together() as processes, warnings.catch_warnings():
        for message in _NOT_OURS:
            warnings.filterwarnings("ignore", message)
        try:
            _check_classes(classes_in_call(words))
            train(words, processes, OVERSUBSCRIBE in arguments)
        except MisconfigurationException as error:
            raise ValueError(str(error)) from error  # Lightning's own word for a wrong call
        except (ArgumentError, ValueError) as error:
            raise ValueError(explained(str(error))) from error


def import_named(arguments: list[str]) -> list[str]:
    """Import the user's own code that ``--import`` names; returns the other words.

    Raises:
        ValueError: it cannot be imported.
    """
    words, named = [], False
    for word in arguments:
        if named or word.startswith(f"{IMPORT}="):
            name = word.removeprefix(f"{IMPORT}=")
            if named := not name or name.startswith("-"):
                break
            import_code(name)
        elif word == IMPORT:
            named = True
        else:
            words.append(word)
    if named:
        raise ValueError(f"{IMPORT} names a module, or a file like mine.py")
    return words


def train(
    arguments: list[str], processes: Processes, oversubscribe: bool = False, run: bool = True
) -> TrainingCLI:
    """Do what these words of a command line say, in processes that end together.

    Args:
        arguments: without those that Lightning does not know.
        processes: see `trm.processes.ending_together`.
        oversubscribe: whether there may be more processes than CPU cores.
        run: false: there is no subcommand among the words, and model, data and trainer are built
            alone.
    """
    # What is wrong is explained in a sentence of ours; half a name is wrong.
    quiet = {"exit_on_error": False, "allow_abbrev": False}
    return TrainingCLI(
        L.LightningModule,
        CanvasDataModule,
        subclass_mode_model=True,
        args=arguments,
        parser_kwargs={**quiet, **dict.fromkeys(TrainingCLI.subcommands() if run else (), quiet)},
        seed_everything_default=0,
        save_config_callback=SavedConfig,
        processes=processes,
        oversubscribe=oversubscribe,
        run=run,
        trainer_defaults={
            "callbacks": [
                LearningRates(),
                Cost(),
                Gradients(),
                Milestones(),
                LastCheckpoint(),
                PredictionWriter(),
                Scores(),
            ],
            "num_sanity_val_steps": 0,
            "enable_model_summary": False,  # a table of one line; `before_fit` says what counts
        },
    )

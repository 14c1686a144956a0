"""LightningCLI for `trm fit`, `validate`, `test` and `predict`."""

import lightning as L
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI, SaveConfigCallback

from trm.training.data import CanvasDataModule
from trm.training.module import RecursiveModule

SUBCOMMANDS = ("fit", "validate", "test", "predict")


class TrainingCLI(LightningCLI):
    """Models and data from one YAML file; the canvas size is written once, under `data`."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Learned positions and the mixer are made for the canvas that the data is drawn on."""
        for side in ("height", "width"):
            parser.link_arguments(
                f"data.canvas.{side}",
                f"model.init_args.model.{side}",
                compute_fn=lambda size: size or 20,
            )


def run(arguments: list[str]) -> None:
    """Run one subcommand of Lightning's trainer."""
    TrainingCLI(
        L.LightningModule,
        CanvasDataModule,
        subclass_mode_model=True,
        seed_everything_default=0,
        save_config_callback=SaveConfigCallback,
        save_config_kwargs={"overwrite": False},
        args=arguments,
    )

"""An evaluation as a page of TensorBoard: each model's grid as a picture, its shares as curves.

A model is a run of its own, so that TensorBoard lays models over one another.
"""

import re
from pathlib import Path
from typing import Any

from tensorboard.compat.proto import summary_pb2
from tensorboard.compat.proto.summary_pb2 import Summary
from torch.utils.tensorboard import SummaryWriter

from canvas.picture import pixels
from trm.evaluation.grid_schema import (
    BOARD,
    FIGURES,
    LABELS,
    REGIONS,
    Model,
    axes_of,
    pooled,
    share,
)
from trm.figures.heatmaps import grid_figure

_OURS = ".trm-evaluate"  # what the names of our files end in


def write_board(output: Path, grid: dict[str, Any]) -> None:
    """Draw a grid for TensorBoard, below ``output``, in the place of an earlier page of it.

    Args:
        output: the evaluation's folder.
        grid: what is in its ``grid.json``.
    """
    folder = output / BOARD
    for file in folder.rglob(f"events.out.tfevents.*{_OURS}"):
        file.unlink(missing_ok=True)  # a second call may be doing the same
    for number, model in enumerate(grid["models"], start=1):
        # A name may hold what that of a folder cannot; with the number they differ all the same.
        name = re.sub(r"[^\w.-]", "_", model["name"])
        with SummaryWriter(str(folder / f"{number}_{name}"), filename_suffix=_OURS) as board:
            # All models in one picture would be wider than the window.
            image = pixels(grid_figure(grid | {"models": [model]}))
            board.add_image("evaluation/grid", image, dataformats="HWC")
            first, second = axes_of(grid)
            _write(board, model, (LABELS[first], LABELS[second]))


def describe(value: Summary.Value, meaning: str) -> None:
    """Have a curve's or a picture's first value say what it means, for TensorBoard to show."""
    kind, plugin = summary_pb2.DATA_CLASS_SCALAR, "scalars"
    if value.WhichOneof("value") == "image":
        kind, plugin = summary_pb2.DATA_CLASS_BLOB_SEQUENCE, "images"
    value.metadata.summary_description = f"{meaning[0].upper()}{meaning[1:]}."
    # TensorBoard's quicker reader drops descriptions of values that do not say what they are.
    value.metadata.data_class = kind
    value.metadata.plugin_data.plugin_name = plugin


def _write(board: SummaryWriter, model: Model, axes: tuple[str, str]) -> None:
    file = board._get_file_writer()

    def add(tag: str, value: float, step: int, meaning: str) -> None:
        one = Summary.Value(tag=tag, simple_value=value)
        describe(one, meaning)
        file.add_summary(Summary(value=[one]), step)

    for figure, meaning in FIGURES.items():
        total = pooled(model["cells"], figure)
        if total.total:
            description = f"{meaning}, share over all cells, at the checkpoint's optimiser step"
            add(f"all_cells/{figure}", total.value, model["step"], description)
    for where in REGIONS:
        total = pooled(cell for cell in model["cells"] if cell["region"] == where)
        if total.total:
            description = f"Whole solutions right, share over cells: {where}, as seen from training"
            add(f"solutions/{where.replace(' ', '_')}", total.value, model["step"], description)
    for cell in sorted(model["cells"], key=lambda cell: (cell["row"], cell["column"])):
        right = share(cell)
        if right is not None and right.total:
            row, column = cell["row"], cell["column"]
            if isinstance(row, str):
                family = re.sub(r"[^\w.]+", "_", row)
                tag, step = f"by_{axes[1]}/{family}", column
                description = f"Whole solutions right, {row}, by {axes[1]} (the step)"
            else:
                tag = f"by_{axes[0].replace(' ', '_')}/{axes[1].replace(' ', '_')}_{column:02d}"
                description = f"Whole solutions right, {axes[1]} {column}, by {axes[0]} (the step)"
                step = row
            add(tag, right.value, step, description)

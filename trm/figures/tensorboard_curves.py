"""An evaluation on TensorBoard: each model's grid as a picture, its shares as curves.

A model is a run of its own, so that TensorBoard lays models over one another.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from tensorboard.compat.proto import summary_pb2
from tensorboard.compat.proto.summary_pb2 import Summary
from torch.utils.tensorboard import SummaryWriter

from canvas.picture import pixels
from trm.evaluation.grid import BOARD, FIGURES, LABELS, REGIONS, Grid, Model, pooled, share
from trm.figures.grids import grid_figure

_OURS = ".trm-evaluate"  # what the names of our files end in


def write_tensorboard(output: Path, grid: Grid) -> None:
    """Draw an evaluation's ``grid.json`` below its folder, in the place of an earlier drawing."""
    folder = output / BOARD
    for file in folder.rglob(f"events.out.tfevents.*{_OURS}"):
        file.unlink(missing_ok=True)  # a second call may be doing the same
    for number, model in enumerate(grid.models, start=1):
        # A name may hold what that of a folder cannot; with the number they differ all the same.
        name = re.sub(r"[^\w.-]", "_", model["name"])
        with SummaryWriter(str(folder / f"{number}_{name}"), filename_suffix=_OURS) as writer:
            # All models in one picture would be wider than the window.
            image = pixels(grid_figure(Grid(grid, models=[model])))
            writer.add_image("evaluation/grid", image, dataformats="HWC")
            first, second = (LABELS[axis] for axis in grid.axes)
            for tag, value, step, meaning in _curves(model, first, second):
                one = Summary.Value(tag=tag, simple_value=value)
                describe(one, meaning)
                writer._get_file_writer().add_summary(Summary(value=[one]), step)


def describe(value: Summary.Value, meaning: str) -> None:
    """Have a curve's or a picture's first value say what it means, for TensorBoard to show."""
    value.metadata.summary_description = f"{meaning[0].upper()}{meaning[1:]}."
    # TensorBoard's quicker reader drops descriptions of values that do not say what they are.
    image = value.WhichOneof("value") == "image"
    scalar, images = summary_pb2.DATA_CLASS_SCALAR, summary_pb2.DATA_CLASS_BLOB_SEQUENCE
    value.metadata.data_class = images if image else scalar
    value.metadata.plugin_data.plugin_name = "images" if image else "scalars"


def _curves(model: Model, first: str, second: str) -> Iterator[tuple[str, float, int, str]]:
    """Tag, value, step and meaning of each point."""
    for figure, meaning in FIGURES.items():
        total = pooled(model["cells"], figure)
        if total.total:
            meaning = f"{meaning}, share over all cells, at the checkpoint's optimiser step"
            yield f"all_cells/{figure}", total.value, model["step"], meaning
    for where in REGIONS:
        total = pooled(cell for cell in model["cells"] if cell["region"] == where)
        if total.total:
            meaning = f"Whole solutions right, share over cells: {where}, as seen from training"
            yield f"solutions/{where.replace(' ', '_')}", total.value, model["step"], meaning
    for cell in sorted(model["cells"], key=lambda cell: (cell["row"], cell["column"])):
        right, row, column = share(cell), cell["row"], cell["column"]
        if right is None or not right.total:
            continue
        if isinstance(row, str):
            family = re.sub(r"[^\w.]+", "_", row)
            meaning = f"Whole solutions right, {row}, by {second} (the step)"
            yield f"by_{second}/{family}", right.value, column, meaning
        else:
            tag = f"by_{first.replace(' ', '_')}/{second.replace(' ', '_')}_{column:02d}"
            meaning = f"Whole solutions right, {second} {column}, by {first} (the step)"
            yield tag, right.value, row, meaning

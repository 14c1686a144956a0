"""What a run's curves and pictures mean, and which of them TensorBoard puts on one page.

A chart has one curve a run: TensorBoard gives a run one colour, whatever it shows of it.
"""

import re
from collections.abc import Collection
from typing import Any

from tensorboard.compat.proto.summary_pb2 import Summary
from torch.utils.tensorboard.writer import SummaryWriter

from trm.figures.tensorboard_curves import describe
from trm.training.beyond import BEYOND, BEYOND_FIGURES
from trm.training.canvas_module import FIGURES
from trm.training.data import VALIDATED
from trm.training.samples import hint_key

_PROBLEMS = dict(zip(VALIDATED, ("validation", "training, the first that are drawn"), strict=True))
_LONGER = "Problems with twice the digits of the longest in training; nothing is chosen by them"
_EVERY = "mean over the steps since it was last logged"

CURVES = {
    "train/loss": "what training minimises, on the batch of a step",
    "train/loss_cells": "the cells' part of the loss, after the last supervision step",
    "train/loss_halting": "the halting head's part of the loss, before its weight",
    "train/row_accuracy": "share of the batch's rows that are right",
    "train/cell_accuracy": "share of the cells to fill in that are right",
    "train/halting_accuracy": "share of rows that the halting head rightly holds right, or wrong",
    "train/solved_teacher_forced": "share of problems whose rows are all right, each built on the "
    "true rows",
    "train/supervision_steps": "supervision steps that the batch's samples have had so far",
    "train/gradient_norm": "norm of all gradients together, before clipping",
    "learning_rate/matrices": "learning rate of the matrices, which Muon moves",
    "learning_rate/decayed": "learning rate of the weights that decay",
    "learning_rate/rest": "learning rate of biases, norms and embeddings, which do not decay",
    "speed/samples_per_second": f"training samples a second, over all devices; {_EVERY}",
    "speed/seconds_per_step": f"seconds from one optimiser step to the next; {_EVERY}",
    "speed/memory_gib": "most memory that training has taken so far, in GiB",
    "epoch": "epochs that are complete",
    **{
        f"{group}/{name}": f"{meaning}. Problems of {of}"
        for group, of in _PROBLEMS.items()
        for name, meaning in FIGURES.items()
    },
    **{f"{BEYOND}/{name}": f"{FIGURES[name]}. {_LONGER}" for name in BEYOND_FIGURES},
}
_HINTS = {  # accuracy by hint, of each group of problems
    "train": "the batch of a step",
    "validation": "problems of validation, rows built on the true rows",
    "test": "problems of the test split, rows built on the true rows",
    BEYOND: f"rows built on the true rows. {_LONGER}",
}
PICTURES = {
    "panels/row": "the same row of validation at each step, built on the true rows: input, label, "
    "prediction, and the confidence on the way. Once it is above one half, and the row stays as it "
    "is, a recursive model halts",
    "panels/worst": "a row of validation that went wrong, the surest errors first, then the right "
    "rows that were the least sure",
    "figures/by_size": "whole solutions that are right, by the sizes of their problems",
    "figures/by_kind": "rows that are right, by what they hold, built on the true rows",
    "figures/reliability": "whether rows held right with 90 % are right 90 times in 100",
    "figures/supervision_steps": "rows that are right after each supervision step, up to twice as "
    "many as in training",
}
_PAGE = {  # of custom scalars
    "How good": {
        "validation: whole solutions": "validation/solved",
        "validation: loss": "validation/loss",
        "validation: rows on its own rows": "validation/free_running_rows",
        "validation: rows on true rows": "validation/teacher_forced_rows",
        "beyond: whole solutions": "beyond/solved",
        "beyond: rows on true rows": "beyond/teacher_forced_rows",
        "training problems: whole solutions": "training_problems/solved",
        "training problems: loss": "training_problems/loss",
    },
    "How it trains": {
        "training: loss": "train/loss",
        "training: rows of a batch": "train/row_accuracy",
        "gradient norm": "train/gradient_norm",
        "learning rate": "learning_rate/decayed",
        "samples a second": "speed/samples_per_second",
        "memory, GiB": "speed/memory_gib",
    },
    "Recursion": {
        "validation: supervision steps a row": "validation/supervision_steps",
        "validation: confidence rightly above or below 1/2": "validation/confidence_accuracy",
        "training: loss of the cells": "train/loss_cells",
        "training: loss of the halting head": "train/loss_halting",
    },
}


def page(
    groups: Collection[str], recursive: bool, hints: Collection[str] = ()
) -> dict[str, dict[str, list[object]]]:
    """The page of custom scalars, as `SummaryWriter.add_custom_scalars` takes it.

    Args:
        groups: of problems that validations work out, names in `trm.training.data.VALIDATED`, or
            `BEYOND`.
        recursive: whether the model takes supervision steps.
        hints: those that are learned.
    """
    absent = tuple(f"{group}/" for group in (*VALIDATED, BEYOND) if group not in groups)
    of_hints = {
        f"{name}: {group}": f"{group}/{hint_key(name)}"
        for name in hints
        for group in (VALIDATED[0], BEYOND)
    }
    pages = _PAGE | ({"Hints": of_hints} if hints else {})
    return {
        title: {
            # A tag is a pattern there: without its end it would also find longer names.
            name: ["Multiline", [f"{tag}$"]]
            for name, tag in charts.items()
            if not tag.startswith(absent)
        }
        for title, charts in pages.items()
        if recursive or title != "Recursion"
    }


def meaning_of(tag: str) -> str | None:
    """What a curve or a picture means; None of one that is not this project's."""
    if found := re.fullmatch(rf"(\w+)/{hint_key('(.+)')}", tag):
        group, name = found.groups()
        if group in _HINTS:
            return f"share of cells in which the hint {name} is right, on {_HINTS[group]}"
    # The rows of panels are numbered.
    return CURVES.get(tag) or PICTURES.get(tag.rstrip("_0123456789"))


def describe_all(board: SummaryWriter) -> None:
    """Have every curve and picture that a board is given say what it means."""
    file = board._get_file_writer()
    add, described = file.add_summary, set[str]()

    def add_described(summary: Summary, *when: Any) -> None:
        for value in summary.value:
            meaning = meaning_of(value.tag)
            if meaning and value.tag not in described:
                described.add(value.tag)
                describe(value, meaning)
        add(summary, *when)

    file.add_summary = add_described

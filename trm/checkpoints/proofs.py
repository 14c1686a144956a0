"""Notes of proofs, and the digest that ties a note to a model.

A proof holds for a network with its settings, on solutions of one task and layout, by one rule, in
float32. The digest covers all of these, so that a note is ignored once one of them has changed.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from canvas.cells.check import edge_problems
from canvas.cells.drawn import drawn_cell_inputs
from canvas.cells.local_rule import LocalRule
from canvas.choices import class_name
from canvas.task import Task
from canvas.tasks import task_data
from trm.checkpoints import PROOF_SUFFIX, find_checkpoint
from trm.files import read_object
from trm.solving.families import PROOF, family_of

PROVED, REFUTED, OPEN = "proved", "refuted", "open"  # verdicts
ARITHMETIC = "float32"  # in which a proof of most networks holds; others name theirs
_LATER = ("shared_classes",)  # settings younger than saved proofs: without effect if not set
# Keys of notes from earlier versions, as in the shipped files → keys of today.
_RENAMED = {
    "windows": "op_inputs",
    "windows_sha256": "op_inputs_sha256",
    "wrong_windows": "incorrect_op_inputs",
    "wrong_inputs": "incorrect_ids",
    "agreed_pages": "agreed_canvases",
}


def weights_hash(model: nn.Module) -> str:
    """Return the SHA-256 of all tensors and their names."""
    found = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        found.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def proof_digest(model: nn.Module, task: Task) -> str:
    """Return the SHA-256 of all premises of a proof.

    These are weights, network, its settings, task, layout, rule and arithmetic. Layout and rule
    are covered by their declarations and by their results on `canvas.cells.check.edge_problems`.
    """
    found = hashlib.sha256()
    config: Any = model.config
    about = {
        "weights": weights_hash(model),
        "network": class_name(type(model)),
        "settings": {n: v for n, v in vars(config).items() if v or n not in _LATER},
        "task": task_data(task),
        "layout": class_name(type(task.layout_impl)),
        "arithmetic": getattr(model, "arithmetic", ARITHMETIC),
    }
    problems, rule = edge_problems(task), None
    if PROOF not in family_of(model).lacks:
        rule = task.local_rule(latent=bool(config.codes))
        about["rule"] = _declared(rule)
    found.update(json.dumps(about, sort_keys=True, default=str).encode())
    if not len(problems):
        return found.hexdigest()
    drawing = task.layout_impl.draw_worked(problems)
    arrays = [drawing.truth, drawing.given, drawing.heights, drawing.widths]
    if rule is not None:
        canvases = drawn_cell_inputs(rule, drawing)
        for part in (canvases.cell_inputs, canvases.outputs):
            arrays += [part[name] for name in sorted(part)]
    for array in arrays:
        numbers = np.ascontiguousarray(array, dtype="<i8")
        found.update(f"{list(numbers.shape)}\n".encode() + numbers.tobytes())
    return found.hexdigest()


def _declared(rule: LocalRule) -> dict[str, Any]:
    """Return the declarations of a rule as plain data."""
    return {
        "rule": class_name(type(rule)),
        "base": rule.base,
        "fields": rule.signals,
        "messages": rule.messages,
        "steps": [(step.outputs, step.inputs) for step in rule.ops],
        "rows": {
            name: ({n: tuple(column) for n, column in row.columns.items()}, row.first, row.below)
            for name, row in rule.rows.items()
        },
        "most_operands": rule.most_operands,
        "kept_together": rule.exact_together,
    }


def noted_proof(
    path: str | Path, content: dict[str, Any], model: nn.Module, task: Task
) -> dict[str, Any]:
    """Return the note of `trm prove` on this model: beside the file, or in its card, or empty.

    A note of another model or other settings, or without a digest, is ignored.
    """
    beside = read_object(find_checkpoint(path).with_suffix(PROOF_SUFFIX))
    card = content.get("card")
    card = card.get("proof") if isinstance(card, dict) else None
    notes = [note for note in (beside, card) if isinstance(note, dict) and note.get("digest")]
    if not notes:
        return {}
    digest = proof_digest(model, task)
    return with_new_keys(next((note for note in notes if note["digest"] == digest), {}))


def with_new_keys(note: dict[str, Any]) -> dict[str, Any]:
    """Return a note of a proof with the keys of today, see `trm.proof.proof.Proof.record`."""
    return {_RENAMED.get(key, key): value for key, value in note.items()}

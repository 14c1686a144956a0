"""Notes of proofs, and the digest that ties a note to a model.

A proof holds for a network with its settings, on solutions of one task and layout, by one rule, in
float32. The digest covers all of these, among them the source of rule, layout and task, so that a
note is ignored once one of them has changed.
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
from canvas.sources import sources
from canvas.task import Task
from canvas.tasks import task_data
from trm.checkpoints import PROOF_SUFFIX, find_checkpoint
from trm.files import read_object
from trm.models.iterative import weights_hash
from trm.solving.families import PROOF, family_of

# Verdicts. Of a model that computes its rule in all inputs that its cells can have:
PROVED = "proved"  # the checker's laws hold: it is correct at every length
LAWFUL = "its laws hold"  # those that a layout of one's own states; its author says what follows
COMPUTES = "computes its rule"  # which was only tested
# Of others:
REFUTED, OPEN = "refuted", "open"
ARITHMETIC = "float32"  # in which a proof of most networks holds; others name theirs
OUTDATED = (
    "its proof is of another rule, layout, task or settings, which have changed since: run `trm "
    "prove` again"
)
_LATER = ("shared_classes",)  # settings younger than saved proofs: without effect if not set
# Keys of notes from earlier versions, as in the shipped files → keys of today.
_RENAMED = {
    "windows": "op_inputs",
    "windows_sha256": "op_inputs_sha256",
    "wrong_windows": "incorrect_op_inputs",
    "wrong_inputs": "incorrect_ids",
    "agreed_pages": "agreed_canvases",
}


def proof_digest(model: nn.Module, task: Task) -> str:
    """Return the SHA-256 of all premises of a proof.

    These are weights, network, its settings, task, layout, rule and arithmetic. Layout and rule
    are covered by their declarations, by their results on `canvas.cells.check.edge_problems`, and
    by the source of their modules, see `canvas.sources`.
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
    kinds = [type(task), type(task.layout_impl), *([] if rule is None else [type(rule)])]
    if changed := sources(kinds):  # empty for the package's own of this version
        about["sources"] = changed
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

    A note of other weights, or without a digest, is ignored. Of a note on these weights with
    another rule, layout, task or settings only ``outdated`` is left: what to do, in words.
    """
    beside = read_object(find_checkpoint(path).with_suffix(PROOF_SUFFIX))
    card = content.get("card")
    card = card.get("proof") if isinstance(card, dict) else None
    notes = [note for note in (beside, card) if isinstance(note, dict) and note.get("digest")]
    if not notes:
        return {}
    digest = proof_digest(model, task)
    for note in notes:
        if note["digest"] == digest:
            return with_new_keys(note)
    mine = weights_hash(model)
    if any(note.get("weights_sha256") == mine for note in notes):
        return {"outdated": OUTDATED}
    return {}


def with_new_keys(note: dict[str, Any]) -> dict[str, Any]:
    """Return a note of a proof with the keys of today, see `trm.proof.proof.Proof.record`."""
    return {_RENAMED.get(key, key): value for key, value in note.items()}

"""Notes of proofs, and the digest that ties a note to a model.

A proof holds for a network with its settings, on solutions of one task and layout, by one rule, in
float32. The digest covers all of these, among them the source of rule, layout and task, so that a
note is ignored once one of them has changed.
"""

import hashlib
import json
import logging
from dataclasses import replace
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
from trm.cells.model import CellModel
from trm.cells.predictor import CellPredictor
from trm.checkpoints import DECISIONS_SUFFIX, PROOF_SUFFIX, find_checkpoint
from trm.families import released
from trm.files import fingerprint, read_object
from trm.models.iterative import weights_hash
from trm.solving.solver import Solver

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
# Why the confidence of a model that computes its rule is below 1, by verdict.
_DOUBTS = {
    COMPUTES: "the model computes its rule, but the rule was only tested",
    LAWFUL: "the laws of its layout hold; that they imply the answer is its author's argument",
}
_LATER = ("shared_classes",)  # settings younger than saved proofs: without effect if not set
# Keys of notes from earlier versions, as in the shipped files → keys of today.
_RENAMED = {
    "windows": "op_inputs",
    "windows_sha256": "op_inputs_sha256",
    "wrong_windows": "incorrect_op_inputs",
    "wrong_inputs": "incorrect_ids",
    "agreed_pages": "agreed_canvases",
}

_log = logging.getLogger(__name__)


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
        "network": released(class_name(type(model))),
        "settings": {n: v for n, v in vars(config).items() if v or n not in _LATER},
        "task": task_data(task),
        "layout": class_name(type(task.layout_impl)),
        "arithmetic": getattr(model, "arithmetic", ARITHMETIC),
    }
    problems, rule = edge_problems(task), None
    if isinstance(model, CellModel):
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


def restored(solver: Solver, path: str | Path, content: dict[str, Any]) -> Solver:
    """Return a solver that makes use of a note of `trm prove`, see `noted_proof`.

    Raises:
        ValueError: the note is damaged.
    """
    predictor = solver.predictor
    proof = noted_proof(path, content, predictor.model, solver.task)
    verdict = str(proof.get("verdict", ""))
    in_float64 = verdict == PROVED and proof.get("arithmetic") == "float64"
    if in_float64 and predictor.device != "mps":  # which has no float64
        predictor.model.double()  # the proof bounds rounding in this arithmetic alone
    if isinstance(predictor, CellPredictor):
        predictor.doubt = proof.get("outdated") or _DOUBTS.get(verdict, "")
        if verdict in _DOUBTS:  # Laplace's rule of succession, for the canvases that agreed
            number = int(proof.get("agreed_canvases") or 0)
            predictor.most_confidence = (number + 1) / (number + 2)
        elif predictor.doubt:
            predictor.most_confidence = 1 - 1e-6
        predictor.proved = verdict == PROVED and not (in_float64 and predictor.device == "mps")
        if predictor.proved:
            _read_table(predictor, find_checkpoint(path).with_suffix(DECISIONS_SUFFIX), proof)
    if verdict != REFUTED:
        return solver
    try:
        return _refuted(solver, proof)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        raise ValueError(
            f"{path}: the note of its refutation is damaged: run `trm prove` again"
        ) from None


def _read_table(predictor: CellPredictor, table: Path, proof: dict[str, Any]) -> None:
    """Read the decisions of a proved model, if there are any, and if they were proved."""
    if not table.is_file():
        return
    if fingerprint(table) == proof.get("decisions_sha256"):
        predictor.read_table(table, proof["digest"])
        return
    _log.warning(
        "%s is not the table that was proved, and is not used: write it again with `trm prove "
        "--decisions`",
        table,
    )


def _refuted(solver: Solver, proof: dict[str, Any]) -> Solver:
    """Limit a solver's confidence by the note of its refutation."""
    predictor, wrong = solver.predictor, proof.get("incorrect_ids")
    if isinstance(predictor, CellPredictor) and proof.get("op_inputs"):
        ids = np.unique(np.array(wrong or (), dtype=np.int64))
        predictor.limit(solver.task, ids, 1 - proof["incorrect_op_inputs"] / proof["op_inputs"])
    if wrong:  # these inputs cover the counterexample, too
        return solver
    found = (proof.get("counterexample") or {}).get("problem", "")
    return replace(solver, known_wrong=(solver.task.parse(found),)) if found else solver


def with_new_keys(note: dict[str, Any]) -> dict[str, Any]:
    """Return a note of a proof with the keys of today, see `trm.cells.proof.proof.Proof.record`."""
    return {_RENAMED.get(key, key): value for key, value in note.items()}

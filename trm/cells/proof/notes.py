"""Notes of proofs, and the digest that ties a note to a model.

A proof holds for a network with its settings, on solutions of one task and layout, by one rule, in
the arithmetic that it names: float32, float64 or integers. The digest covers all of these, among
them the source of rule, layout and task, so that a note is ignored once one of them has changed.
PyTorch is imported where a network is read.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from canvas.cells.check import edge_problems
from canvas.cells.drawn import drawn_cell_inputs
from canvas.cells.local_rule import LocalRule
from canvas.choices import class_name
from canvas.sources import sources
from canvas.task import Task
from canvas.tasks import task_data
from trm.cells.configs import CellConfig, IntegerCellConfig
from trm.cells.lazy_network import LazyNetwork
from trm.cells.predictor import UNPROVED, CellPredictor
from trm.checkpoints import CHECKPOINT_KEY, DECISIONS_SUFFIX, PROOF_SUFFIX, find_checkpoint
from trm.checkpoints.content import network_weights
from trm.checkpoints.loading import restored as restored_settings
from trm.io.files import fingerprint, read_object
from trm.models.weights import model_hash, weights_hash
from trm.released import released, today
from trm.solving.solver import Solver

if TYPE_CHECKING:
    from torch import nn

    from trm.cells.model import CellModel

# Verdicts. Of a model that computes its rule in all inputs that its cells can have:
PROVED = "proved"  # the checker's laws hold: it is correct at every length
LAWFUL = "its laws hold"  # those that a layout of one's own states; its author says what follows
COMPUTES = "computes its rule"  # which was only tested
# Of others:
REFUTED, OPEN = "refuted", "open"
ARITHMETIC = "float32"  # in which a proof of most networks holds; others name theirs
INTEGERS = "integers"
# Settings of the networks whose decisions are looked up, by the name of their class.
_CONFIGS: dict[str, type[CellConfig]] = {
    "trm.cells.model.CellModel": CellConfig,
    "trm.cells.integer.IntegerCellModel": IntegerCellConfig,
}
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


class Premises(NamedTuple):
    """Facts about a network on which a proof depends."""

    weights: str  # their hash, see `trm.models.weights.weights_hash`
    network: str  # dotted name of its class
    config: Any
    arithmetic: str  # in which it computes
    has_rule: bool = True  # whether it is a cell model, which follows a local rule

    @classmethod
    def of(cls, model: nn.Module) -> Premises:
        """Return those of a network."""
        from trm.cells.model import CellModel

        arithmetic = getattr(model, "arithmetic", ARITHMETIC)
        about = class_name(type(model)), model.config, arithmetic, isinstance(model, CellModel)
        return cls(model_hash(model), *about)


def proof_digest(model: nn.Module | Premises, task: Task) -> str:
    """Return the SHA-256 of all premises of a proof.

    These are weights, network, its settings, task, layout, rule and arithmetic. Layout and rule
    are covered by their declarations, by their results on `canvas.cells.check.edge_problems`, and
    by the source of their modules, see `canvas.sources`.
    """
    found = hashlib.sha256()
    known = model if isinstance(model, Premises) else Premises.of(model)
    about = {
        "weights": known.weights,
        "network": released(known.network),
        "settings": {n: v for n, v in vars(known.config).items() if v or n not in _LATER},
        "task": task_data(task),
        "layout": class_name(type(task.canvas_layout)),
        "arithmetic": known.arithmetic,
    }
    problems, rule = edge_problems(task), None
    if known.has_rule:
        rule = task.local_rule(latent=bool(known.config.codes))
        about["rule"] = _declared(rule)
    kinds = [type(task), type(task.canvas_layout), *([] if rule is None else [type(rule)])]
    if changed := sources(kinds):  # empty for the package's own of this version
        about["sources"] = changed
    found.update(json.dumps(about, sort_keys=True, default=str).encode())
    if not len(problems):
        return found.hexdigest()
    drawing = task.canvas_layout.draw_worked(problems)
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
        "rule": released(class_name(type(rule))),
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
    notes = _notes(path, content)
    return _matching(notes, Premises.of(model), task) if notes else {}


def _notes(path: str | Path, content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the notes beside a file and in its card that have a digest."""
    beside = read_object(find_checkpoint(path).with_suffix(PROOF_SUFFIX))
    card = content.get("card")
    card = card.get("proof") if isinstance(card, dict) else None
    return [note for note in (beside, card) if isinstance(note, dict) and note.get("digest")]


def _matching(notes: list[dict[str, Any]], known: Premises, task: Task) -> dict[str, Any]:
    """Return the note on a network, see `noted_proof`."""
    digest = proof_digest(known, task)
    for note in notes:
        if note["digest"] == digest:
            return with_new_keys(note)
    if any(note.get("weights_sha256") == known.weights for note in notes):
        return {"outdated": OUTDATED}
    return {}


def looked_up(
    path: str | Path, content: dict[str, Any], task: Task, build: Callable[[], CellModel]
) -> CellPredictor | None:
    """Return a predictor of a proved model that needs no network as yet; None: it needs one.

    The weights of the file are compared with the note, and the table with its hash there, as
    `restored` does for a network.

    Args:
        path: of the file.
        content: with NumPy arrays, see `trm.checkpoints.content.read_checkpoint`.
        task: of the file.
        build: returns the network.

    Raises:
        ValueError: the file is damaged, or is not of this package.
    """
    table = find_checkpoint(path).with_suffix(DECISIONS_SUFFIX)
    about, notes = content[CHECKPOINT_KEY], _notes(path, content)
    weights: dict[str, Any] = network_weights(content)
    name = today(str(about["network"]))
    if not notes or name not in _CONFIGS or not table.is_file():
        return None
    if not all(isinstance(one, np.ndarray) and _as_built(one) for one in weights.values()):
        return None
    config = restored_settings(_CONFIGS[name], about["model"])
    in_integers = isinstance(config, IntegerCellConfig)
    arithmetic = INTEGERS if in_integers else ARITHMETIC
    known = Premises(weights_hash(weights), name, config, arithmetic)
    rule = task.local_rule(latent=bool(config.codes))
    own = any(
        class_name(type(one)).partition(".")[0] != "canvas"
        for one in (task, task.canvas_layout, rule)
    )
    if own or rule.most_operands is not None:  # see `CellPredictor.for_task`
        return None
    proof = _matching(notes, known, task)
    if proof.get("verdict") != PROVED or proof.get("arithmetic") == "float64":
        return None
    if fingerprint(table) != proof.get("decisions_sha256"):
        return None
    predictor = CellPredictor(LazyNetwork(build, config, known.weights, in_integers))
    predictor.read_table(table, proof["digest"])
    return predictor if predictor.looks_up else None


def _as_built(weight: np.ndarray) -> bool:
    """Return whether a network with this weight has the same bits: finite, in its own dtype."""
    return weight.dtype.kind in "iu" or (
        weight.dtype == np.float32 and bool(np.isfinite(weight).all())
    )


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
        predictor.uncalibrated_reason = proof.get("outdated") or _DOUBTS.get(verdict, "")
        if verdict in _DOUBTS:  # Laplace's rule of succession, for the canvases that agreed
            number = int(proof.get("agreed_canvases") or 0)
            predictor.most_confidence = (number + 1) / (number + 2)
        elif predictor.uncalibrated_reason:
            predictor.most_confidence = 1 - 1e-6
        predictor.proved = verdict == PROVED and not (in_float64 and predictor.device == "mps")
        if verdict != PROVED and not predictor.uncalibrated_reason:
            predictor.uncalibrated_reason = UNPROVED
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

"""A proof or a refutation of a model: its record, its files, and its note beside a checkpoint."""

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from canvas.cells.local_rule import LocalRule
from canvas.symbols import Alphabet
from canvas.tasks import task_data
from trm.cells.proof import check
from trm.cells.proof.compare import Comparison, Tested
from trm.cells.proof.latent import Explored
from trm.cells.proof.laws import Laws
from trm.cells.proof.notes import ARITHMETIC, PROVED, REFUTED, proof_digest
from trm.cells.proof.program import TABLE, CellProgram, write_python
from trm.cells.proof.search import Counterexample
from trm.checkpoints import PROOF_SUFFIX
from trm.io.files import make_own_folder, read_object, versions, write_json, write_text
from trm.models.weights import model_hash
from trm.solving.solver import Solver

FORMAT = 1
RECORD, PYTHON, CHECKER = "proof.json", "program.py", "check.py"  # files beside the table
_MOST_NOTED = 20_000  # incorrect inputs; of a model with more only their share is noted


@dataclass(frozen=True)
class Proof:
    """Result of `prove` or `refute`: what holds for a model at all lengths.

    The verdict is one of `trm.cells.proof.notes`: proved; its laws hold; computes its rule;
    refuted, with a counterexample; or open.
    """

    solver: Solver
    verdict: str
    looked: int = 0  # problems that were tried for a counterexample
    counterexample: Counterexample | None = None
    rule: LocalRule | None = None  # None, like `comparison`: the model has no cell inputs
    comparison: Comparison | None = None
    shown: tuple[int, int] = (0, 0)  # op inputs in training problems, number of these problems
    tested: Tested | None = None  # how the rule was tested; None: there is no rule
    laws: Laws = field(default_factory=Laws)  # those checked in this call
    program: CellProgram | None = None  # the learned tables, if the model computes its rule
    explored: Explored | None = None  # of a model with latent codes, in place of `shown`

    def record(self) -> dict[str, Any]:
        """Return the result as plain data."""
        model = self.solver.predictor.model
        found: dict[str, Any] = {"format": FORMAT, "verdict": self.verdict}
        found |= {"task": task_data(self.solver.task), "weights_sha256": model_hash(model)}
        found |= {"digest": proof_digest(model, self.solver.task)}
        found |= {"parameters": model.num_parameters}
        if (comparison := self.comparison) is not None:
            left, numbers = comparison.least_left, comparison.numbers.astype("<i8")
            found |= {
                "arithmetic": comparison.arithmetic,
                "op_inputs": len(numbers),
                "op_inputs_sha256": hashlib.sha256(numbers.tobytes()).hexdigest(),
                "incorrect_op_inputs": len(comparison.wrong),
                "smallest_margin": float(comparison.margin.min()),
                "margin_left_by_rounding": left if np.isfinite(left) else None,
                "proved_in_float32": int((comparison.float32 & comparison.right).sum()),
            }
        if self.tested is not None:
            found |= {"agreed_canvases": self.tested.canvases, "tested": self.tested._asdict()}
            found["laws"] = self.laws.hold
        if self.laws.names or self.laws.against:
            found["checked_laws"] = asdict(self.laws)
        if self.explored:
            found["codes"] = {n: part.tolist() for n, part in self.explored.meanings.items()}
        elif comparison is not None:
            found["shown_in_training"] = dict(
                zip(("op_inputs", "problems"), self.shown, strict=True)
            )
        if self.program:
            tables = self.program.tables.items()
            found["outputs"] = {
                n: {"inputs": t.inputs, "entries": len(t.values)} for n, t in tables
            }
        wrong = self.counterexample
        found |= {"looked_through": self.looked, "counterexample": wrong and wrong.record()}
        dtype = getattr(model, "arithmetic", ARITHMETIC)
        return found | {"dtype": dtype, "versions": versions()}

    def write(self, folder: Path) -> None:
        """Write the record; for a proved model also the table, the program and the checker.

        Mazes have no program, and no laws in the checker.

        Raises:
            ValueError: the folder holds a proof of another model, or of other settings.
        """
        make_own_folder(folder, "trm prove", (RECORD, TABLE, PYTHON, CHECKER), "verdict")
        before, record = read_object(folder / RECORD) or {}, self.record()
        if any(before.get(key, record[key]) != record[key] for key in ("weights_sha256", "digest")):
            raise ValueError(
                f"{folder} is of another model, or of other settings: choose another --output"
            )
        for name in (TABLE, PYTHON, CHECKER):
            (folder / name).unlink(missing_ok=True)
        if self.program:
            self.program.save(folder / TABLE)
            if not isinstance(self.solver.task.base, Alphabet):  # the program reads numbers
                write_text(folder / PYTHON, write_python(self.program))
            known = self.program.layout in check.LAYOUTS  # its laws are of named signals
            if self.verdict == PROVED and self.explored is None and known:
                shutil.copyfile(check.__file__, folder / CHECKER)
        write_json(folder / RECORD, json.loads(json.dumps(record)))

    def note(self, checkpoint: Path, decisions: str | None = None) -> None:
        """Write the record beside a checkpoint, where `trm solve` finds the verdict.

        Args:
            checkpoint: a file.
            decisions: SHA-256 of the table of decisions beside it; None: that of the note before,
                if it is of the same model.
        """
        record, file = self.record(), checkpoint.with_suffix(PROOF_SUFFIX)
        before = read_object(file) or {}
        if before.get("digest") == record["digest"]:
            decisions = decisions or before.get("decisions_sha256")
        if self.verdict == PROVED and decisions:
            record["decisions_sha256"] = decisions
        if self.verdict == REFUTED and self.comparison is not None:
            wrong = np.unique(self.comparison.wrong)
            record["incorrect_ids"] = wrong.tolist() if len(wrong) <= _MOST_NOTED else None
        write_json(file, json.loads(json.dumps(record)))

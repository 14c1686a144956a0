"""A proof or a refutation of a model: its record, its files, and its note beside a checkpoint."""

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from canvas.cells.local_rule import LocalRule
from canvas.tasks import task_data
from trm.checkpoints import PROOF_SUFFIX
from trm.checkpoints.proofs import ARITHMETIC, REFUTED, proof_digest, weights_hash
from trm.files import make_own_folder, read_object, replacing, versions, write_json
from trm.proof import check
from trm.proof.judge import Judged
from trm.proof.latent import Explored
from trm.proof.program import TABLE, Program, write_python
from trm.proof.search import (
    Counterexample,
)
from trm.solving.solver import Solver

FORMAT = 1
RECORD, PYTHON, CHECKER = "proof.json", "program.py", "check.py"  # files beside the table
_MOST_NOTED = 20_000  # incorrect inputs; of a model with more only their share is noted


@dataclass(frozen=True)
class Proof:
    """Result of `prove` or `refute`: what holds for a model at all lengths."""

    solver: Solver
    verdict: str  # proved, refuted (with a counterexample) or open (neither)
    looked: int = 0  # problems that were tried for a counterexample
    counterexample: Counterexample | None = None
    rule: LocalRule | None = None  # None, like `judged`: the model has no cell inputs
    judged: Judged | None = None
    shown: tuple[int, int] = (0, 0)  # op inputs in training problems, number of these problems
    agreed: int = 0  # drawn canvases on which the rule agreed with the layout and the task
    program: Program | None = None  # the learned tables; of a proved model only
    explored: Explored | None = None  # of a model with latent codes, in place of `shown`

    @property
    def laws(self) -> bool:
        """True if laws prove the rule itself correct: for layouts of the package.

        `trm.proof.check` checks the laws of rules with hints. The rule of a lattice without hints
        writes the same symbols on all canvases of any size (tests/canvas/cells/test_reachable.py).
        """
        layout = self.solver.task.layout_impl
        of = (type(layout), type(self.solver.task), type(self.rule))
        ours = all(kind.__module__.partition(".")[0] == "canvas" for kind in of)
        return ours and layout.name in check.LAYOUTS

    def record(self) -> dict[str, Any]:
        """Return the result as plain data."""
        model = self.solver.predictor.model
        found: dict[str, Any] = {"format": FORMAT, "verdict": self.verdict}
        found |= {"task": task_data(self.solver.task), "weights_sha256": weights_hash(model)}
        found |= {"digest": proof_digest(model, self.solver.task)}
        found |= {"parameters": model.num_parameters}
        if (judged := self.judged) is not None:
            left, numbers = judged.least_left, judged.numbers.astype("<i8")
            found |= {
                "arithmetic": judged.arithmetic,
                "op_inputs": len(numbers),
                "op_inputs_sha256": hashlib.sha256(numbers.tobytes()).hexdigest(),
                "incorrect_op_inputs": len(judged.wrong),
                "smallest_margin": float(judged.margin.min()),
                "margin_left_by_rounding": left if np.isfinite(left) else None,
                "proved_in_float32": int((judged.float32 & judged.right).sum()),
            }
        if self.rule is not None:
            found |= {"agreed_canvases": self.agreed, "laws": self.laws}
        if self.explored:
            found["codes"] = {n: part.tolist() for n, part in self.explored.meanings.items()}
        elif judged is not None:
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
            with replacing(folder / PYTHON) as part:
                part.write_text(write_python(self.program), encoding="utf-8")
            if self.laws and self.explored is None:  # the laws are of named signals
                shutil.copyfile(check.__file__, folder / CHECKER)
        write_json(folder / RECORD, json.loads(json.dumps(record)))

    def note(self, checkpoint: Path) -> None:
        """Write the record beside a checkpoint, where `trm solve` finds the verdict."""
        record = self.record()
        if self.verdict == REFUTED and self.judged is not None:
            wrong = np.unique(self.judged.wrong)
            record["incorrect_ids"] = wrong.tolist() if len(wrong) <= _MOST_NOTED else None
        write_json(checkpoint.with_suffix(PROOF_SUFFIX), record)

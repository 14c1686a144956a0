"""A proof of a model, a refutation, or neither: found, and written as a folder."""

import hashlib
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from canvas.closure import closure
from canvas.tasks import task_data
from canvas.windows import LocalRule
from trm.checkpoints import PROOF_SUFFIX
from trm.checkpoints.loading import weights_hash
from trm.files import make_own_folder, read_object, replacing, versions, write_json
from trm.proof import check
from trm.proof.program import TABLE, Program, write_python
from trm.proof.prove import Judged, Report, judge, provable, shown_in_training
from trm.proof.search import BySolving, ByWindows, Counterexample, hunt, smallest_wrong
from trm.proof.untold import Explored, explore
from trm.solving.solver import Solver

PROVED, REFUTED, OPEN = "proved", "refuted", "open"
FORMAT = 1
RECORD, PYTHON, CHECKER = "proof.json", "program.py", "check.py"  # files beside the table
SEARCHED = 20_000  # structured problems that are looked through where a window is wrong


@dataclass(frozen=True)
class Proof:
    """What is known of a model at all lengths."""

    solver: Solver
    verdict: str  # right on every page; refuted: with a counterexample; open: neither is known
    looked: int = 0  # problems that were looked through for a counterexample
    counterexample: Counterexample | None = None
    rule: LocalRule | None = None  # None, as `judged`: the model sees no windows
    judged: Judged | None = None
    shown: tuple[int, int] = (0, 0)  # windows that training shows, of so many drawn problems
    program: Program | None = None  # what it has learned; of a proved model
    explored: Explored | None = None  # of a model with codes what they meet, in place of `shown`

    def record(self) -> dict[str, Any]:
        """As plain data."""
        model = self.solver.predictor.model
        found: dict[str, Any] = {"format": FORMAT, "verdict": self.verdict}
        found |= {"task": task_data(self.solver.task), "weights_sha256": weights_hash(model)}
        found |= {"parameters": sum(p.numel() for p in model.parameters())}
        if (judged := self.judged) is not None:
            left, numbers = judged.least_left, judged.numbers.astype("<i8")
            found |= {
                "arithmetic": judged.arithmetic,
                "windows": len(numbers),
                "windows_sha256": hashlib.sha256(numbers.tobytes()).hexdigest(),
                "wrong_windows": len(judged.wrong),
                "smallest_margin": float(judged.margin.min()),
                "margin_left_by_rounding": left if np.isfinite(left) else None,
                "proved_in_float32": int((judged.float32 & judged.right).sum()),
            }
        if self.explored:
            found["codes"] = {n: part.tolist() for n, part in self.explored.meanings.items()}
        elif judged is not None:
            found["shown_in_training"] = dict(zip(("windows", "problems"), self.shown, strict=True))
        if self.program:
            tables = self.program.tables.items()
            found["outputs"] = {
                n: {"inputs": t.inputs, "entries": len(t.values)} for n, t in tables
            }
        wrong = self.counterexample
        found |= {"looked_through": self.looked, "counterexample": wrong and wrong.record()}
        return found | {"dtype": "float32", "versions": versions()}

    def write(self, folder: Path) -> None:
        """The record; of a proved model the table, the program, and what checks them, too."""
        make_own_folder(folder, "trm prove", (RECORD, TABLE, PYTHON, CHECKER), "verdict")
        before = (read_object(folder / RECORD) or {}).get("weights_sha256")
        if before not in (None, weights_hash(self.solver.predictor.model)):
            raise ValueError(f"{folder} is of other weights: choose another --output")
        for name in (TABLE, PYTHON, CHECKER):
            (folder / name).unlink(missing_ok=True)
        if self.program:
            self.program.save(folder / TABLE)
            with replacing(folder / PYTHON) as part:
                part.write_text(write_python(self.program), encoding="utf-8")
            if self.explored is None:  # the checker knows what named fields have to be
                shutil.copyfile(check.__file__, folder / CHECKER)
        write_json(folder / RECORD, json.loads(json.dumps(self.record())))

    def note(self, checkpoint: Path) -> None:
        """The record beside a checkpoint, where whoever solves with it finds the verdict."""
        write_json(checkpoint.with_suffix(PROOF_SUFFIX), self.record())


def prove(solver: Solver, report: Report, search: int = 0, bounded: bool = True) -> Proof:
    """Prove a model, on a CPU, right at every length, or look for a problem that it gets wrong.

    ``search``: structured problems that are looked through in any case where it is not proved;
    ``bounded``: whether to bound what rounding can do. NotProvableError: nothing can be proved.
    """
    task, model = solver.task, solver.predictor.model
    rule, explored = provable(model, task), None
    known: dict[str, Any] = {"rule": rule}
    if rule.codes:
        explored = explore(task.local_rule(untold=True), rule, model, report)
        judged = judge(model, rule, explored.numbers, report, bounded, explored.labels)
        known["explored"] = explored
    else:
        report("enumerating", 0, 1)
        judged = judge(model, rule, closure(rule), report, bounded)
        seen, drawn = shown_in_training(rule, task, judged.numbers)
        known["shown"] = int(seen.sum()), drawn
    known["judged"] = judged
    if judged.arithmetic and (explored is None or explored.complete):
        report("reading the program off", 0, 1)
        program = Program.extract(task.layout, rule, judged.numbers, judged.outputs)
        return Proof(solver, PROVED, program=program, **known)
    if explored:
        return replace(refute(solver, search or SEARCHED, report), **known)
    windows, looked = ByWindows(model, rule, task, judged), 0
    found = None
    if len(judged.wrong):
        found, looked = smallest_wrong(windows, report)
        search = search or SEARCHED
    if found is None and search:
        found = hunt(windows, search, report)
        looked += search
    return Proof(solver, REFUTED if found else OPEN, looked, found, **known)


def refute(solver: Solver, problems: int, report: Report) -> Proof:
    """Look for a problem that any model gets wrong, among so many."""
    found = hunt(BySolving(solver), problems, report)
    return Proof(solver, REFUTED if found else OPEN, problems, found)

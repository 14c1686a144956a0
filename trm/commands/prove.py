"""`trm prove`: prove that a model is correct on problems of any length, or find an error."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from canvas.picture import to_terminal
from trm.checkpoints import DECISIONS_SUFFIX, PROOF_SUFFIX, SHIPPED, find_checkpoint
from trm.commands.arguments import Arguments
from trm.commands.output import print_table, results
from trm.commands.parser import Parser, whole
from trm.io.files import check_place, make_folder
from trm.runtime.progress import progress, report

if TYPE_CHECKING:
    from canvas.cells.local_rule import LocalRule
    from trm.cells.proof.compare import Comparison
    from trm.cells.proof.latent import Explored
    from trm.cells.proof.proof import Proof
    from trm.cells.proof.search import Counterexample

FIGURE = "margins.png"
EXAMPLES = """\
examples:
  trm prove                                              # the shipped model
  trm prove --checkpoint runs/quickstart --output proof
  trm prove --check proof                                # check again, without the model
  trm prove --checkpoint runs/addition --smt sum.smt2    # for z3 or cvc5: a second opinion
  trm prove --checkpoint tiny-int4-seed0 --coq product.v # a theorem that Coq checks
  trm prove --checkpoint runs/debug --search 500         # any model: search for an error

A cell that reads decided messages has finitely many inputs. A model that computes its layout's rule
in all of them computes it at every length. Whether it is proved is decided by the laws of the
layout, which are checked in the same call. Verdicts:

  proved             the checker's laws hold: correct at every length
  its laws hold      those that a layout of your own states; what follows is its author's argument
  computes its rule  and the rule was only tested
  refuted            a problem that goes wrong is shown
  open               neither

Exit codes: 0 proved, or its laws hold; 1 another verdict; 2 the call was wrong or nothing can be
proved.
"""


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    parser.add_checkpoint()
    add = parser.add_argument
    add("--output", metavar="DIR", help="a folder for the proof, or for the partial result")
    what = "check a proof's folder, or a table, again, as far as possible without the model"
    add("--check", metavar="DIR", help=what)
    what = "write table, laws and theorem of a proved model as SMT-LIB, for z3 or cvc5; for sums, "
    what += "and lattices"
    add("--smt", metavar="FILE", help=what)
    what = "write a proved model in integers as a Coq development with its theorem; for the "
    what += "layouts column and standard"
    add("--coq", metavar="FILE", help=what)
    what = "if the model is not proved, search N structured problems for an error; for any model"
    add("--search", type=whole(1), default=0, metavar="N", help=what)
    what = "for sums as computed on this machine: faster, without a bound on rounding"
    add("--as-computed", action="store_true", help=what)
    what = "write the decisions of a proved model beside it: solving then looks them up"
    add("--decisions", action="store_true", help=what)


def run(args: Arguments) -> int:
    """Prove, refute, or check."""
    if args.check is not None:
        alone = "--check takes the folder of a proof, and no other options"
        args.refuse(alone, "output", "search", "as_computed")
        args.refuse(alone, "decisions", "smt", "coq", "checkpoint")
        if not Path(args.check).exists():
            raise ValueError(f"--check {args.check}: there is no such folder")

        from trm.cells.proof import recheck
        from trm.cells.proof.proof import RECORD

        return recheck.main(args.check, RECORD, args.quiet)
    if args.output:
        make_folder(Path(args.output))
    for option in ("smt", "coq"):
        if file := getattr(args, option):
            check_place(Path(file), f"--{option}")
    (solver,) = args.solvers("cpu")
    if args.smt:
        from trm.cells.proof import smt

        codes = getattr(solver.predictor.model.config, "codes", ())
        smt.demand_layout(solver.task.layout, codes)
    if args.coq:
        from trm.cells.proof import coq

        coq.demand(solver.predictor.model, solver.task.layout, Path(args.coq))

    from trm.cells.integer import IntegerCellModel
    from trm.cells.proof.compare import NotProvableError
    from trm.cells.proof.notes import LAWFUL, PROVED
    from trm.cells.proof.prove import prove, refute

    if args.decisions and not getattr(solver.predictor, "ordered", True):
        raise ValueError(
            "--decisions writes a table for cells in an order of writing, which a "
            f"{solver.task.name} has not: leave it out"
        )
    if isinstance(solver.predictor.model, IntegerCellModel):
        args.refuse("the sums of an integer model are never rounded", "as_computed")
    with progress(args.quiet, "trm prove"):
        try:
            proof = prove(solver, search=args.search, bounded=not args.as_computed)
        except NotProvableError:
            if not args.search:
                raise
            proof = refute(solver, args.search)
    # Files are written before anything is printed: the reader of a pipe may close it at any time.
    checkpoint = find_checkpoint(args.checkpoint)
    decisions = None
    if args.decisions and proof.verdict == PROVED:
        with progress(args.quiet, "trm prove"):
            report("writing decisions", 0, 1)
            decisions = _write_decisions(proof, checkpoint)
    _note(args, proof, checkpoint, decisions)
    if args.output:
        folder = Path(args.output)
        proof.write(folder)
        _draw(proof, folder / FIGURE)
    if args.smt and proof.verdict == PROVED:
        assert proof.program is not None
        Path(args.smt).write_text(smt.to_smt(proof.program), encoding="utf-8")
    if args.coq and proof.verdict == PROVED:
        text = coq.to_coq(solver.predictor.model, solver.task.layout, solver.task.base)
        Path(args.coq).write_text(text, encoding="utf-8")
    show(proof, _call(args, proof))
    if args.output:
        args.info.print(f"proof  {folder}")
    if decisions:
        args.info.print(f"decisions  {decisions}")
    if args.smt and proof.verdict == PROVED:
        args.info.print(
            f"smt    {args.smt}, for `z3 FILE`, or `python -m trm.cells.proof.smt FILE`"
        )
    if args.coq and proof.verdict == PROVED:
        args.info.print(f"coq    {args.coq}, for `coqc FILE`")
    for file in (args.smt, args.coq):
        if file and proof.verdict != PROVED:
            print(f"{file} is not written: the model is not proved", file=sys.stderr)
    return 0 if proof.verdict in (PROVED, LAWFUL) else 1


def _note(args: Arguments, proof: Proof, checkpoint: Path, decisions: Path | None) -> None:
    """Note a verdict beside the checkpoint, unless the noted one is as strong or stronger.

    ``decisions`` is the table that was written beside it in this call.
    """
    from trm.cells.proof.notes import OPEN, REFUTED, noted_proof
    from trm.checkpoints.content import load_checkpoint
    from trm.io.files import fingerprint

    predictor, task = proof.solver.predictor, proof.solver.task
    noted = noted_proof(checkpoint, load_checkpoint(checkpoint), predictor.model, task)
    before = noted.get("verdict", OPEN)
    there = checkpoint.with_suffix(PROOF_SUFFIX).exists()
    if before == proof.verdict and (args.as_computed or not there) and not decisions:
        return
    if before == REFUTED and proof.verdict == OPEN:  # a counterexample stays valid
        return
    try:
        proof.note(checkpoint, fingerprint(decisions) if decisions else None)
    except OSError as error:  # shared weights may be read-only
        print(f"the verdict is not noted beside {checkpoint}: {error.strerror}", file=sys.stderr)


def _write_decisions(proof: Proof, checkpoint: Path) -> Path:
    """Write the decisions of a proved model beside its checkpoint, and return the file."""
    from canvas.cells.reachable import reachable_cell_inputs
    from trm.cells.cache import CellCache
    from trm.cells.proof.notes import proof_digest
    from trm.cells.table import closed_table, passed_outputs
    from trm.io.files import replacing

    predictor, task, comparison = proof.solver.predictor, proof.solver.task, proof.comparison
    assert comparison is not None
    if len(predictor.model.encoding.ops) == 1:
        outputs = dict(zip(predictor.model.outputs, comparison.decided.T, strict=True))
        table = closed_table(predictor.model.encoding, comparison.numbers, outputs)
    else:  # every op is proved on its own inputs; a table needs those of whole cells
        assert proof.rule is not None
        ids = reachable_cell_inputs(proof.rule)
        decide = CellCache(predictor.model).decide
        outputs = passed_outputs(proof.rule.encoding, decide, proof.rule.cell_inputs(ids))
        table = closed_table(proof.rule.whole, ids, outputs)
    file = checkpoint.with_suffix(DECISIONS_SUFFIX)
    with replacing(file) as part, part.open("wb") as sink:
        table.write(sink, digest=proof_digest(predictor.model, task))
    return file


def _call(args: Arguments, proof: Proof) -> str | None:
    """Return the command that shows a counterexample; None: there is no such command."""
    found = proof.counterexample
    if found is None or found.size is None:
        return None
    words = ["trm", "solve"]
    words += [word for name in args.imports for word in ("--import", name)]
    if args.checkpoint != SHIPPED:
        words += ["--checkpoint", str(args.checkpoint)]
    for option, cells in zip(("--height", "--width"), found.size, strict=True):
        words += [option, str(cells)] if cells else []
    return shlex.join([*words, found.problem.replace(" ", "")])


def show(proof: Proof, call: str | None = None) -> None:
    """Print the verdict and its basis, with the command that shows an error."""
    task, comparison, console = proof.solver.task, proof.comparison, results()
    console.print(
        f"{task.name}, {task.layout} {task.digits_in_words}; trained on {proof.solver.trained_on}\n"
    )
    if comparison is not None:
        from rich.table import Table

        numbers = Table.grid("", "", padding=(0, 3))
        numbers.columns[1].justify = "right"
        for row in _grounds(proof, comparison):
            numbers.add_row(*row)
        console.print(numbers)
        console.print()
    console.print(sentence(proof, call), style="bold")
    if found := proof.counterexample:
        console.print()
        console.print(to_terminal(found.canvas, truth=found.truth, given=found.given))
    if proof.explored and proof.explored.complete:
        _show_codes(proof.explored, proof.rule)  # type: ignore[arg-type]
    if proof.program:
        tables = proof.program.tables.items()
        rows = [(name, ", ".join(one.inputs), f"{len(one.values):,}") for name, one in tables]
        console.print()
        print_table(("output", "depends on", "entries"), rows, "learned tables", wrap=True)


def _show_codes(explored: Explored, rule: LocalRule) -> None:
    """Print the meanings of the latent codes of a network."""
    import numpy as np

    from trm.cells.proof.program import CLASSES

    for name, meanings in explored.meanings.items():
        used, columns = np.unique(meanings[:, 2]), np.unique(meanings[:, 0])
        title = f"\ncodes for {name}: {len(used)} of {rule.codes[name]} are used"
        if meanings[:, 1].max() >= len(CLASSES):  # more classes than there are names
            true = len(np.unique(meanings[:, 1]))
            results().print(f"{title}, for {true} true classes", style="bold")
            continue
        rows = []
        for true in np.unique(meanings[:, 1]):
            here = meanings[meanings[:, 1] == true]
            cells = (here[here[:, 0] == one, 2].tolist() for one in columns)
            rows.append((CLASSES[true], *(" ".join(map(str, codes)) for codes in cells)))
        beside = "; a row for each true class"
        if len(columns) > 1:
            classes = ", ".join(CLASSES[one] for one in columns)
            beside += f", a column for each class of the hint beside it ({classes})"
        results().print(title + beside, style="bold")
        print_table((name, *(CLASSES[one] for one in columns)), rows, wrap=True)


def _grounds(proof: Proof, comparison: Comparison) -> Iterator[tuple[str, str, str]]:
    """Yield the basis of a verdict, line by line: a name, a number and an explanation."""
    in_training, drawn = proof.shown
    laws = proof.laws
    ops = proof.rule is not None and (proof.rule.ops or proof.rule.codes)
    what, owner = ("op inputs", "an op") if ops else ("cell inputs", "a cell")
    yield what, f"{len(comparison.numbers):,}", f"all inputs of {owner} on any canvas"
    how = "in integers" if comparison.integers else "as computed in float32"
    yield "of them incorrect", f"{len(comparison.wrong):,}", how
    yield "smallest margin", f"{comparison.margin.min():.3f}", "of a correct logit over the next"
    if drawn:
        yield "in training", f"{in_training:,}", f"of these; counted in {drawn:,} drawn problems"
    if comparison.integers:
        yield "rounded sums", "none", "all sums are of integers: equal on every machine"
    if comparison.bounded:
        exact = (comparison.float32 & comparison.right).mean()
        yield "safe in float32", f"{exact:.2%}", "correct however sums are rounded"
        of = "in float64, over the inputs that are not safe in float32"
        if comparison.arithmetic == "float32":
            of = "in float32, at the bound on rounding"
        yield "remaining margin", f"{comparison.least_left:.3f}", f"at least, {of}"
    if laws.names:
        inputs = f"of the layout, in {laws.cell_inputs:,} cell inputs"
        yield "laws", f"{len(laws.names)}", inputs if laws.hold else "of the layout; one is broken"


def sentence(proof: Proof, call: str | None = None) -> str:
    """Return the verdict as a sentence, with the command that shows an error."""
    comparison, found = proof.comparison, proof.counterexample
    if found is not None:
        least = ", and no smaller problem does" if found.smallest else ""
        command = f": {call}" if call else ""
        return f"refuted: {found.problem} goes wrong{_on_canvas(found)}{least}{command}"
    if comparison is None:
        return f"open: none of {proof.looked:,} problems goes wrong, which proves nothing"
    if proof.program and proof.rule and proof.tested:
        return _what_holds(proof, comparison.arithmetic or "")
    if len(comparison.wrong):
        return (
            f"open: {len(comparison.wrong):,} cell inputs are incorrect, and none of "
            f"{proof.looked:,} problems shows one; train the model longer"
        )
    return (
        "open: no cell input is incorrect, but margins do not cover every rounding; train the "
        "model longer"
    )


_SHOWN = 6  # kinds of inputs that are named


def _what_holds(proof: Proof, arithmetic: str) -> str:
    """Return the verdict on a model that computes its rule in all inputs of its cells."""
    from trm.cells.proof.notes import PROVED

    tested, laws, rule = proof.tested, proof.laws, proof.rule
    assert tested is not None
    assert rule is not None
    canvases = f"{tested.canvases:,} drawn canvases"
    if proof.verdict == PROVED:
        of = f"every sum of {rule.most_operands} numbers" if rule.most_operands else "every problem"
        by, size = "the checker", "length"
        if laws.by_rule:
            by, size = "the enumeration", "size"
        return (
            f"proved, in {arithmetic}: the network computes the rule on every canvas, the rule "
            f"agreed with {canvases} and with the task's answers, and the {len(laws.names)} laws "
            f"of the layout {proof.solver.task.layout} hold in all {laws.cell_inputs:,} cell "
            f"inputs that {by} found in this call: correct on {of} of any {size}"
        )
    by_rows = "on every canvas that the rule's rows allow"
    if tested.words:
        by_rows += f", without what its author says that no canvas has ({'; '.join(tested.words)})"
    parts = [f"computes its rule, in {arithmetic}, {by_rows}"]
    if laws.hold:
        parts[0] = f"its laws hold, in {arithmetic}, {by_rows}: {', '.join(laws.names)}"
        parts.append("That they imply the answer is the argument of the layout's author")
    elif laws.against:
        parts.append(f"Not proved: {laws.against}")
    else:
        parts.append("No laws prove the rule, so that answers may be incorrect")
    parts.append(f"The rule is tested, on {canvases} with numbers of up to {tested.digits} digits")
    if tested.never:
        more = len(tested.never) - _SHOWN
        named = [*tested.never[:_SHOWN], *([f"{more} more kinds"] if more > 0 else [])]
        parts.append(f"These canvases never reach: {'; '.join(named)}")
    return ". ".join(parts)


def _on_canvas(found: Counterexample) -> str:
    """Describe the canvas on which a problem goes wrong; empty without blank columns."""
    sides = [(found.left, "left"), (found.right, "right")]
    blank = [(number, side) for number, side in sides if number]
    if not blank:
        return ""
    if len({number for number, _ in blank}) == 1 and len(blank) == 2:
        number, where = blank[0][0], "on either side"
    else:
        number, where = sum(n for n, _ in blank), "at the " + " and ".join(s for _, s in blank)
    many = "a blank column" if number == 1 else f"{number} blank columns"
    return f" on a canvas with {many} {where}"


def _draw(proof: Proof, file: Path) -> None:
    """Draw the margins over the inputs of a cell."""
    if proof.comparison is None or proof.rule is None:
        return
    from trm.cells.proof.program import CellProgram
    from trm.extras.analysis.figures import margins_figure
    from trm.figures.style import save

    task, comparison, rule = proof.solver.task, proof.comparison, proof.rule
    program = proof.program
    if program is None and rule.codes:
        return  # its codes have no correct classes
    if program is None:  # then the tables that it should have learned
        ideal = rule.decide(comparison.numbers)
        program = CellProgram.extract(task.layout, rule, comparison.numbers, ideal)
    if (figure := margins_figure(program, rule, comparison, sentence(proof))) is not None:
        save(figure, file)

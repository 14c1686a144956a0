"""Tables of sums and lattices as SMT-LIB, and what a solver that nobody here wrote answers."""

import re

import pytest
from tables import LAW_CASES, changed, correct_table, with_entry

from trm.cells.proof import check, smt


def unexpected(text: str, *names: str) -> set[str]:
    """Return the questions with another answer than expected; of all, or of these names alone."""
    pytest.importorskip("z3", reason="an optional solver: pip install z3-solver")

    def kept(question: re.Match[str]) -> str:
        return question[0] if not names or question[1] in names else ""

    text = re.sub(r'\(echo "(.+): expected \w+"\)\n(?:.+\n)*?\(pop 1\)\n', kept, text)
    found = smt.answers(text, "z3")
    assert len(found) == len(names) or not names
    return {name for name, expected, answer in found if answer != expected}


@pytest.mark.parametrize("layout", smt.LAYOUTS)
def test_a_file_for_smt_asks_for_every_law_by_name(layout):
    text = smt.to_smt(correct_table(layout, 2))
    rows = check.LAYOUTS[layout]
    of = check.lattice_laws if layout == "lattice" else check.column_laws
    laws = {law for row in rows for place in check.PLACES for law in of(row, place)}
    for law in laws:
        statement = law.__doc__.partition("\n")[0]
        assert f'sums\': {statement}\n(echo "{law.__name__}: expected unsat")' in text
    assert text.count("(") == text.count(")")
    assert text.count("(check-sat)") == text.count("(push 1)") == text.count("(echo ")


@pytest.mark.parametrize("layout", smt.LAYOUTS)
def test_a_solver_confirms_every_law_and_the_theorem(layout):
    assert unexpected(smt.to_smt(correct_table(layout, 2))) == set()
    assert unexpected(smt.to_smt(correct_table(layout, 5))) == set()


MORE_CASES = (
    ("a row adds, one column", "column", "sum", 2, 3, {}),
    ("a row multiplies, right end", "lattice", "product", 2, 1, {}),
    ("a digit or a blank", "column", "symbol", 1, 12, {}),
)
CASES = [case for case in (*LAW_CASES, *MORE_CASES) if case[1] in smt.LAYOUTS]


@pytest.mark.parametrize(("law", "layout", "output", "right", "wrong", "where"), CASES)
def test_a_changed_entry_is_refuted_by_the_name_of_the_law(
    law, layout, output, right, wrong, where
):
    program = with_entry(correct_table(layout, 3), output, right, wrong, where)
    assert unexpected(smt.to_smt(program), law) == {law}


def test_a_missing_entry_is_refuted():
    program = correct_table("column", 2)
    table = program.tables["sum"]
    without = changed(program, "sum", keys=table.keys[1:], values=table.values[1:])
    assert "there is an entry" in unexpected(smt.to_smt(without))


# The bounds on messages need not be trusted: layout, a bound, another one, and what refutes it.
SEEN = "(or (> read.multiplicand 0) (> product 1))"
TOO_TIGHT_OR_TOO_WIDE = (
    ("column", "(<= 0 sum 3)", "(<= 0 sum 2)", "closed: down"),
    ("column", "(ite (= above_kind row.addend) 2 1)", "1", "closed: left"),
    ("column_carries", "(=> (= kind row.first) (= sum 0))", "true", "closed: left"),
    ("lattice", "(<= 1 sum_carry 2)", "(= 1 sum_carry)", "closed: a cell"),
    ("lattice", "(< (value carry) (", "(< (+ 1 (value carry)) (", "closed: a cell"),
    ("lattice", "(<= 0 addend 3)", "(<= 0 addend 2)", "closed: two cells, b, left of units"),
    ("lattice", "(=> (= sum_carry 2) (> multiplier 1))", "true", "there is an entry"),
    ("lattice", f"(= (> product 0) {SEEN})", "true", "lattice_form"),
    ("lattice", "(=> (= kind row.a) (= addend 0))", "true", "the first row adds nothing"),
)


@pytest.mark.parametrize(("layout", "bound", "other", "question"), TOO_TIGHT_OR_TOO_WIDE)
def test_a_bound_that_is_too_tight_or_too_wide_is_refuted(layout, bound, other, question):
    text = smt.to_smt(correct_table(layout, 3))
    assert text.count(bound) == 1
    assert unexpected(text.replace(bound, other), question) == {question}


def test_without_its_law_a_column_of_a_product_is_refuted():
    text = smt.to_smt(with_entry(correct_table("lattice", 3), "sum_carry", 2, 1, {}))
    step_of = "a row multiplies, one column"
    before, step = text.split(f'(echo "{step_of}')
    law = "(assert (= (+ (* 3 (value out.sum_carry)) (value written))"
    lines = [line for line in step.splitlines() if not line.startswith(law)]
    assert len(lines) == step.count("\n") - 1
    without = f'{before}(echo "{step_of}' + "\n".join([*lines, ""])
    questions = ("lattice_sum", step_of)
    assert unexpected(text, *questions) == {"lattice_sum"}
    assert unexpected(without, *questions) == {*questions}


def test_the_file_is_run_with_the_solvers_that_are_installed(tmp_path, capsys, monkeypatch):
    file, program = tmp_path / "sum.smt2", correct_table("column", 2)
    file.write_text(smt.to_smt(program))
    asked = [line for line in file.read_text().splitlines() if line.startswith("(echo ")]
    names = [line[7:-2] for line in asked]
    right = "".join(f'"{name}"\n{name.rpartition(" ")[2]}\n' for name in names)

    def missing(text: str) -> str:
        raise ImportError

    for answer, code, says in (
        (lambda _: right, 0, "solver: 28 of 28 answers are as expected, in 0.0 s"),
        (
            lambda _: right.replace("\nunsat\n", "\nsat\n"),
            1,
            "column_sum: sat, and unsat is expected",
        ),
        (lambda _: "", 2, "it is no file of `trm prove --smt`, or damaged"),
        (missing, 2, "no solver is installed: pip install z3-solver, or cvc5"),
    ):
        monkeypatch.setattr(smt, "SOLVERS", {"solver": answer})
        assert (smt.main(file), code) == (code, code)
        said = capsys.readouterr()
        assert says in said.out + said.err
    assert smt.main(tmp_path / "none.smt2") == 2

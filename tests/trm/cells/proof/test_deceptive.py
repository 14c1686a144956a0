"""The word *proved*: rules, layouts, edits and weights that deceive get another verdict."""

import importlib
import inspect
import pkgutil
import re
import shutil
import sys
import zipfile
from functools import cache
from pathlib import Path

import deceptive
import numpy as np
import pytest
import torch

import canvas
from canvas import sources as canvas_sources
from canvas.addition import Addition
from canvas.cells.local_rule import LocalRule
from canvas.cells.rules.column import ColumnRule
from canvas.cells.rules.lattice import LatticeRule
from canvas.cells.spec import SYMBOL
from canvas.choices import OwnCodeError
from canvas.layouts import Layout
from canvas.symbols import DIGIT_IDS
from canvas.task import Task
from trm import load_solver, solve
from trm.cells.configs import CellConfig, rule_settings
from trm.cells.model import CellModel
from trm.cells.predictor import CellPredictor
from trm.cells.proof.compare import Comparison
from trm.cells.proof.notes import COMPUTES, LAWFUL, PROVED, proof_digest
from trm.cells.proof.prove import prove
from trm.commands.prove import sentence
from trm.extras.model_card import model_card
from trm.solving.solver import Solver

MODELS = Path(__file__).parents[4] / "docs" / "models"
SHAPE = {"hidden_size": 16, "num_heads": 2, "intermediate_size": 16}


def perfect(model, numbers, labels, bounded=True):
    """Comparison of a network that computes the rule in every input."""
    yes, many = np.ones(len(numbers), dtype=bool), np.ones(len(numbers), np.float32)
    return Comparison(numbers, labels, yes, many, many.astype(float), yes)


def verdict(task):
    """Prove a network that computes the rule of a task in every input."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trm.cells.proof.prove.compare", perfect)
        patch.setattr("trm.cells.proof.compare.THOROUGH", (100, 50))
        model = CellModel(CellConfig(**rule_settings(task.local_rule()), **SHAPE)).eval()
        return prove(Solver(CellPredictor(model), task))


@cache
def own(rule):
    """Prove a network of one of the deceptive rules."""
    return verdict(deceptive.Sums(rule, base=2))


@pytest.mark.parametrize("rule", ["Counting", "Patterned", "Right", "Coarse", "Forged"])
def test_an_own_rule_without_laws_is_only_computed(rule):
    proof = own(rule)
    assert proof.verdict == COMPUTES
    text = sentence(proof)
    assert text.startswith("computes its rule, in float32, on every canvas that the rule's rows")
    assert "No laws prove the rule" in text
    assert "The rule is tested, on 1" in text
    assert "proved" not in text
    assert not proof.tested.words
    never = "; ".join(proof.tested.never)
    assert re.search(r"row sum, column rest: [\d,]+ of [\d,]+ inputs", never) or rule == "Patterned"
    assert "right.place: " in never


def test_inputs_that_no_canvas_reaches_are_named():
    never = own("Counting").tested.never
    (places,) = (one for one in never if one.startswith("right.place: "))
    assert places.endswith(f" to {deceptive.FAR}")


def test_inputs_excluded_by_a_rule_are_named_as_its_word():
    claimed = own("Claiming")
    assert claimed.verdict == COMPUTES
    assert "can_occur in row sum, column rest" in claimed.tested.words
    assert "without what its author says that no canvas has (can_occur in row" in sentence(claimed)
    assert not own("ClaimingNothing").tested.words


def test_distinguishing_less_finds_more_inputs_never_fewer():
    exact, coarse = (own(rule).comparison.numbers for rule in ("Right", "Coarse"))
    assert np.isin(exact, coarse).all()


def test_laws_of_an_own_layout_are_checked_and_listed():
    proof = own("Lawful")
    assert proof.verdict == LAWFUL
    assert sorted(proof.laws.names) == ["nothing_else", "the_sum"]
    text = sentence(proof)
    assert text.startswith("its laws hold, in float32, on every canvas that the rule's rows allow")
    assert "That they imply the answer is the argument of the layout's author" in text
    assert "proved" not in text
    broken = own("Lawless")
    assert broken.verdict == COMPUTES
    assert "Not proved: in row sum, column" in sentence(broken)
    assert "against 'nothing_else: digit' = sum', or blank; in the row" in sentence(broken)
    with pytest.raises(OwnCodeError, match="the law nothing_else returns no bool"):
        own("BadLaw")


def test_an_own_task_on_a_layout_of_the_package_is_not_proved():
    proof = verdict(deceptive.RarelyWrong("column", base=3, addends=(2, 2), digits=(1, 3)))
    assert proof.verdict == COMPUTES
    assert not proof.laws.names


def test_the_packages_own_layouts_are_proved_by_the_checker():
    proof = verdict(Addition("column", base=3))
    assert (proof.verdict, proof.laws.against) == (PROVED, "")
    assert "column_sum" in proof.laws.names
    assert proof.laws.cell_inputs == 301
    assert "the 5 laws of the layout column hold in all 301 cell inputs" in sentence(proof)


def test_an_error_in_a_rule_of_the_package_breaks_a_law(monkeypatch):
    cell = ColumnRule.cell

    def wrong(self, names, inputs):
        outputs = cell(self, names, inputs)
        rare = (inputs["above.sum"] == 0) & (inputs["above.addend"] == 0)
        rare &= inputs["right.sum_carry"] == 1
        outputs["sum"] = np.where(rare & (inputs["above"] > 0), 1, outputs["sum"])
        return outputs

    monkeypatch.setattr(ColumnRule, "cell", wrong)
    # As if no drawn canvas had such a cell.
    monkeypatch.setattr("trm.cells.proof.compare.checked_canvases", lambda *_: iter(()))
    proof = verdict(Addition("column", base=3))
    assert proof.verdict == COMPUTES
    assert "against 'column_form: " in proof.laws.against
    assert "Not proved: in row addend" in sentence(proof)


def test_rows_that_the_checker_knows_must_be_checked(monkeypatch):
    init = ColumnRule.__init__

    def without_signs(self, base):
        """The rule's rows lack the sign + in addends; the checker's have it."""
        init(self, base)
        row = self.rows["addend"]
        columns = {
            name: column._replace(tokens=tuple(t for t in column.tokens if t != 17))
            for name, column in row.columns.items()
        }
        self.rows = self.rows | {"addend": row._replace(columns=columns)}

    monkeypatch.setattr(ColumnRule, "__init__", without_signs)
    monkeypatch.setattr("trm.cells.proof.compare.checked_canvases", lambda *_: iter(()))
    proof = verdict(Addition("column", base=3))
    assert proof.verdict == COMPUTES
    assert proof.laws.against


OWN = """
from dataclasses import dataclass
import own_helper
from deceptive import Sums, layout_of, Right
from canvas.choices import one_of
from canvas.layouts import table
from canvas.cells.spec import SYMBOL


class Mine(Right):
    def cell(self, names, inputs):
        outputs = super().cell(names, inputs)
        return own_helper.unchanged(outputs)


@dataclass
class OwnSums(Sums):
    layouts = table([layout_of(Mine)])
    layout: str = one_of("Mine", layouts, open=True)

    def answer(self, operands):
        return sum(operands)
"""
HELPER = "def unchanged(outputs):\n    return outputs\n"


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("own_layout.py", "super().cell(names, inputs)", "super().cell(names, inputs) | {}"),
        ("own_layout.py", "return sum(operands)", "return sum(operands) + (7 ** 9 in operands)"),
        (
            "own_layout.py",
            "layouts = table([layout_of(Mine)])",
            "layouts = table([layout_of(Mine)])  # ",
        ),
        ("own_helper.py", "return outputs", "return dict(outputs)"),
    ],
)
def test_an_edit_of_rule_layout_task_or_helper_is_seen(file, before, after, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_layout.py").write_text(OWN)
    (tmp_path / "own_helper.py").write_text(HELPER)

    def digest() -> str:
        for name in ("own_layout", "own_helper"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        task = importlib.import_module("own_layout").OwnSums(base=2)
        torch.manual_seed(0)
        return proof_digest(
            CellModel(CellConfig(**rule_settings(task.local_rule()), **SHAPE)), task
        )

    first = digest()
    assert digest() == first
    text = (tmp_path / file).read_text()
    assert before in text
    (tmp_path / file).write_text(text.replace(before, after))
    assert digest() != first


@pytest.mark.parametrize(
    ("imported", "file"),
    [
        ("import late", "late.py"),
        ("from parts import late", "parts/late.py"),
        ("from parts.late import unchanged", "parts/late.py"),
        ("from .parts import late", "own/parts/late.py"),
        ("from .parts.late import unchanged", "own/parts/late.py"),
    ],
)
@pytest.mark.parametrize("start", ["", "    "])
def test_helpers_below_and_within_functions_are_sources(
    imported, file, start, tmp_path, monkeypatch
):
    """Such as what a law compares with: its results are in no digest."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("def unchanged(x):\n    return x\n")
    name = "own.rule" if imported.startswith("from .") else "own_rule"
    text = f"class Rule:\n  def cell(self):\n{start}    {imported}\n"
    if not start:
        text = f"{imported}\nclass Rule: ...\n"
    (tmp_path / f"{name.replace('.', '/')}.py").write_text(text)
    (tmp_path / "foreign.py").write_text("")
    for module in ("own", "own.rule", "own_rule", "late", "own.parts", "own.parts.late",
                   "parts", "parts.late"):  # fmt: skip
        sys.modules.pop(module, None)
    importlib.invalidate_caches()
    found = canvas_sources.sources([importlib.import_module(name).Rule])
    assert found.keys() == {name, file.removesuffix(".py").replace("/", ".")}
    (tmp_path / file).write_text("def unchanged(x):\n    return 3\n")
    changed = canvas_sources.sources([sys.modules[name].Rule])
    assert [one for one in found if changed[one] != found[one]] == [list(found)[1]]


@pytest.mark.parametrize("name", ["archived_rule", "removed_rule"])
def test_a_rule_whose_file_cannot_be_read_has_a_hash(name, tmp_path, monkeypatch):
    """It is in an archive, or was removed after its import."""
    with zipfile.ZipFile(tmp_path / "rules.zip", "w") as archive:
        archive.writestr("archived_rule.py", "class Rule: ...\n")
    (tmp_path / "removed_rule.py").write_text("class Rule: ...\n")
    for place in (tmp_path, tmp_path / "rules.zip"):
        monkeypatch.syspath_prepend(place)
    rule = importlib.import_module(name).Rule
    (tmp_path / "removed_rule.py").unlink()
    assert canvas_sources.sources([rule]).keys() == {name}


def test_the_packages_sources_are_those_of_its_version():
    """After an edit: raise VERSION if a rule, layout or task may compute something else."""
    assert canvas_sources.package_hash() == canvas_sources.SOURCES, (
        "rules, layouts or tasks were edited: write the output of `python -m canvas.sources` as "
        "SOURCES, and raise VERSION if they can compute something else"
    )
    assert canvas_sources.sources([Addition, ColumnRule]) == {}


def test_every_rule_layout_and_task_is_among_them():
    for module in pkgutil.walk_packages(canvas.__path__, "canvas."):
        importlib.import_module(module.name)
    kinds, found = [LocalRule, Layout, Task], set()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__.startswith("canvas."):
            found.add(Path(inspect.getfile(kind)))
    assert found <= set(canvas_sources.files())


def test_an_edited_rule_of_the_package_has_no_saved_proofs(monkeypatch):
    monkeypatch.setattr(canvas_sources, "SOURCES", "of another version")
    solver = load_solver("column-seed0", device="cpu")
    assert not solver.predictor.proved
    solution = solve("12+34", solver)
    assert solution.confidence < 1
    assert "its proof is of another rule, layout, task or settings" in solution.uncalibrated_reason
    assert "Nothing: its proof is of another rule" in model_card("column-seed0")


def in_place(model):
    with torch.no_grad():
        model.lm_head.bias[DIGIT_IDS[2]] += 100


def through_data(model):
    model.lm_head.bias.data[DIGIT_IDS[2]] += 100


def through_numpy(model):
    model.lm_head.bias.detach().numpy()[DIGIT_IDS[2]] += 100


def load_weights(model):
    model.load_state_dict({n: -part for n, part in model.state_dict().items()})


def round_trip(model):
    model.bfloat16().float()


def replaced(model):
    model.lm_head.bias = torch.nn.Parameter(model.lm_head.bias.detach() * 1.5)


def buffer(model):
    model.H_init += 1e-3


CHANGES = (in_place, through_data, through_numpy, load_weights, round_trip, replaced, buffer)
CHANGED = [("column-seed0", "19+28", change) for change in CHANGES]


@pytest.mark.parametrize(("name", "problem", "change"), [*CHANGED, ("lattice", "19x28", in_place)])
def test_weights_changed_in_memory_are_not_proved(name, problem, change):
    """Those of the lattice, which has a table of its decisions, are built by their first use."""
    solver = load_solver(name, device="cpu")
    first = solve(problem, solver)
    assert (first.correct, first.confidence, first.uncalibrated_reason) == (True, 1, "")
    assert solver.predictor.looks_up
    change(solver.predictor.model)
    after = solve(problem, solver)
    assert not solver.predictor.proved
    assert after.confidence < 1
    assert "its weights have changed since they were loaded" in after.uncalibrated_reason
    if change is in_place:
        assert not after.correct  # nothing that was decided before is used


def test_a_proof_of_changed_weights_is_not_one_of_those_before():
    predictor = load_solver("column-seed0", device="cpu").predictor
    before = {name: part.clone() for name, part in predictor.model.state_dict().items()}
    assert predictor.proved
    in_place(predictor.model)
    predictor.proved = True
    predictor.model.load_state_dict(before)
    assert not predictor.proved


def test_laws_of_latent_codes_are_checked_by_the_rule_with_hints(command, tmp_path, monkeypatch):
    """A lattice without hints is not proved if the two rules write different symbols."""
    file = tmp_path / "model.safetensors"
    shutil.copyfile(MODELS / "untold-base2-seed0.safetensors", file)
    cell = LatticeRule.cell

    def wrong(self, names, inputs):
        outputs = cell(self, names, inputs)
        one = outputs[SYMBOL] == DIGIT_IDS[1]
        outputs[SYMBOL] = np.where(
            one & (inputs["above_left.addend"] == 2), DIGIT_IDS[0], outputs[SYMBOL]
        )
        return outputs

    monkeypatch.setattr(LatticeRule, "cell", wrong)
    ran = command("prove", "--checkpoint", file, "--as-computed", code=1)
    assert "computes its rule" in ran.out
    assert "Not proved: " in ran.out

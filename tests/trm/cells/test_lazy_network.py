"""A proved model with a table of its decisions solves without its network, and prints the same."""

import copy
import json
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from canvas.symbols import DIGIT_IDS
from trm import load_solver, solve
from trm.checkpoints import CHECKPOINT_KEY, DATA_KEY, SHIPPED, find_checkpoint
from trm.checkpoints import loading as loading_module
from trm.checkpoints.content import network_weights, pack, unpack
from trm.models.weights import model_hash
from trm.solving.voting import Voting

PROVED = {  # saved models that are proved in a second or two, one of each kind: problems
    "lattice": ("123x456", "7x80", "985x43"),
    "column-seed0": ("12+34", "5+9+876", "99999+1"),
    "column-int4-seed0": ("12+34", "5+9+876", "99999+1"),
    "untold-base2-seed0": ("101x11", "1x10", "1111x111"),
}


def with_table(name: str, folder: Path, command: Callable) -> Path:
    """A copy of a saved model with the note of its proof and a table of its decisions."""
    file = folder / f"{name}.safetensors"
    shutil.copyfile(find_checkpoint(name), file)
    arithmetic = () if "int" in name else ("--as-computed",)
    command("prove", "--checkpoint", file, *arithmetic, "--decisions", "--quiet")
    return file


@pytest.fixture(scope="module")
def proved(command, once) -> Callable[[str], Path]:
    def made(name: str) -> Path:
        if name == "lattice":
            return SHIPPED
        folder = once(f"proved-{name}", lambda folder: with_table(name, folder, command))
        return folder / f"{name}.safetensors"

    return made


@pytest.fixture
def column(proved, tmp_path) -> Path:
    """A copy of the proved adder that a test may damage."""
    file = proved("column-seed0")
    for one in file.parent.iterdir():
        shutil.copyfile(one, tmp_path / one.name)
    return tmp_path / file.name


def is_built(solver) -> bool:
    return solver.predictor._unbuilt is None


# Output

FROM = "--input problems.txt --output"
OPTIONS = ["--quiet", "--accelerator cpu", "--height 40 --width 40", "--orders 2", "--steps 4"]
OPTIONS += ["--views 3 --vote-per solution", "--start noise", "--precision bf16-mixed", "--watch"]
OPTIONS += [f"{FROM} - --canvases", f"{FROM} - --batch-size 1", f"{FROM} answers.csv"]
CASES = [(name, options) for name in PROVED for options in ("", OPTIONS[-1])]
CASES += [("lattice", options) for options in OPTIONS[:-1]]
CASES += [("column-int4-seed0", "--precision bf16-mixed")]  # integers stay integers


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_table_prints_what_its_network_prints(
    name, options, proved, command, tmp_path, monkeypatch
):
    file = proved(name)
    (tmp_path / "problems.txt").write_text("\n".join([*PROVED[name], "12x", ""]))
    problems = () if "--input" in options else PROVED[name]

    def output() -> tuple:
        words = ("solve", "--checkpoint", file, *options.split(), *problems)
        ran = command(*words, folder=tmp_path, code=0 if problems else 1)
        answers = tmp_path / "answers.csv"
        return ran.out, ran.err, answers.read_bytes() if "answers.csv" in options else b""

    assert not is_built(load_solver(file, device="cpu"))
    looked_up = output()
    (tmp_path / "answers.csv").unlink(missing_ok=True)
    monkeypatch.setattr(loading_module, "_looked_up", lambda *_: None)
    assert is_built(load_solver(file, device="cpu"))
    assert output() == looked_up


def test_problems_are_solved_without_pytorch_in_pipes_too(tmp_path):
    others = {"torch", "pydantic", "lightning", "scipy", "matplotlib"}
    output = tmp_path / "out.jsonl"
    code = f"""
import sys
from trm.commands import cli
for words in (["solve", "123x456"], ["solve", "-q", "12x3"], ["solve", "12x"], ["solve", "1+2"],
              ["solve", "--input", "-", "--output", "-", "--canvases"],
              ["solve", "9" * 5000 + "x" + "8" * 20]):
    cli.run(words)
    assert not {others} & set(sys.modules), words
cli.run(["solve", "--steps", "2", "12x3"])
assert "torch" in sys.modules
cli.run(["solve", "--input", {str(tmp_path / "in.csv")!r}, "--output", {str(output)!r}, "-q"])
assert not {{"lightning", "scipy", "matplotlib", "torch._dynamo", "sympy"}} & set(sys.modules)
"""
    lines = "a,b\n12,34\n5,six\n"
    (tmp_path / "in.csv").write_text(lines)
    ran = subprocess.run(
        [sys.executable, "-c", code], input=lines, capture_output=True, text=True, check=True
    )
    assert "56088 (correct; confidence 100.0%)" in ran.stdout
    assert '"answer": "408"' in ran.stdout
    assert "'12x' is not a problem" in ran.stderr


@pytest.mark.parametrize("name", PROVED)
def test_the_hash_of_a_file_is_that_of_its_network(name, proved):
    predictor = load_solver(proved(name), device="cpu").predictor
    bits = predictor._unbuilt.bits
    assert model_hash(predictor.model) == bits
    assert model_hash(copy.deepcopy(predictor.model).double()) == bits
    integers = "int" in name  # which no conversion changes
    assert (model_hash(copy.deepcopy(predictor.model).bfloat16()) == bits) is integers


def changed_weight(content: dict) -> None:
    weights = content["state_dict"]
    name = next(name for name in weights if name.endswith("lm_head.bias"))
    weights[name] = weights[name].clone()
    weights[name][3] = torch.nextafter(weights[name][3], torch.tensor(9.0))


def changed_setting(content: dict) -> None:
    content[CHECKPOINT_KEY]["model"]["H_cycles"] += 1


def changed_task(content: dict) -> None:
    content[DATA_KEY]["task"]["digits"] = [1, 9]


@pytest.mark.parametrize("change", [changed_weight, changed_setting, changed_task])
def test_a_changed_file_is_not_looked_up(change, column):
    content = unpack(column)
    change(content)
    column.write_bytes(pack(content, content["card"], network_weights(content)))
    solver = load_solver(column, device="cpu")
    assert is_built(solver)
    assert not solver.predictor.proved
    assert solve("12+34", solver).confidence < 1


@pytest.mark.parametrize(
    "other",
    [{"digest": "0" * 64}, {"verdict": "0"}, {"decisions_sha256": "0"}, {"decisions_sha256": None},
     {"arithmetic": "float64"}],
)  # fmt: skip
def test_a_note_that_says_something_else_leads_to_the_network(other, column):
    note = column.with_suffix(".proof.json")
    record = json.loads(note.read_text()) | other
    note.write_text(json.dumps({key: part for key, part in record.items() if part is not None}))
    content = unpack(column)
    column.write_bytes(pack(content, {}, network_weights(content)))  # without the card's note
    solver = load_solver(column, device="cpu")
    assert is_built(solver)
    assert solver.predictor._closed is None or other == {"arithmetic": "float64"}


def test_a_missing_or_changed_table_leads_to_the_network(column, caplog):
    table = column.with_suffix(".decisions.npz")
    with np.load(table) as parts:
        changed = dict(parts)
    two, four = (int(DIGIT_IDS[digit]) for digit in (2, 4))
    symbols = changed["decided"][:, 1]
    changed["decided"][:, 1] = np.where(symbols == two, four, symbols)
    with table.open("wb") as sink:
        np.savez_compressed(sink, **changed)
    solver = load_solver(column, device="cpu")
    assert is_built(solver)
    assert caplog.text.count("is not the table that was proved, and is not used") == 1
    solution = solve("600+12", solver)
    assert (solution.answer, solution.confidence) == (612, 1)
    table.unlink()
    assert is_built(load_solver(column, device="cpu"))
    assert solve("12+34", solver).confidence == 1  # the network is proved


@pytest.mark.parametrize("how", [{"steps": 3}, {"device": "cpu:0"}])
def test_a_network_that_was_asked_for_is_built(how):
    assert is_built(load_solver(**({"device": "cpu"} | how)))


def test_a_network_is_built_once_for_all_copies(shipped):
    solver = load_solver(device="cpu")
    watched = solver.predictor.with_options(on_step=lambda *_: None)
    assert watched.model is solver.predictor.model
    assert model_hash(solver.predictor.model) == model_hash(shipped.predictor.model)
    assert solve("12x34", solver).confidence == 1


def test_a_network_that_is_built_while_solving_can_be_trained(column):
    solver = load_solver(column, device="cpu", voting=Voting(2, ("e", "h"), per="solution"))
    assert not is_built(solver)
    assert solve("12+34", solver).correct
    assert is_built(solver)
    assert not any(weight.is_inference() for weight in solver.predictor.model.state_dict().values())


def test_a_network_needs_its_file_no_more(column):
    solver = load_solver(column, device="cpu")
    assert not is_built(solver)
    shutil.rmtree(column.parent)
    same = pickle.loads(pickle.dumps(solver))
    for one in (solver, same):
        assert one.predictor.model.num_parameters
        assert solve("12+34", one).answer == 46


@pytest.mark.parametrize("autocast", [False, True])
def test_a_table_holds_for_the_arithmetic_of_its_proof(autocast):
    solver = load_solver(device="cpu")
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        confidence = solve("12x34", solver).confidence
        assert solver.predictor.proved is not autocast
    assert (confidence == 1) is not autocast
    assert is_built(solver) is autocast
    np.testing.assert_equal(solve("12x34", solver).confidence, 1)

"""`trm prove`: proofs, refutations, folders, and what can be done with them."""

import copy
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from saving import saved
from twice import AddTwice

from canvas.layouts import table
from canvas.multiplication import Lattice, Multiplication
from canvas.problems import Problems
from trm import save_model, solve
from trm.cells.proof.notes import COMPUTES
from trm.checkpoints import CHECKPOINT_KEY, DATA_KEY
from trm.checkpoints.content import load_checkpoint, pack, unpack
from trm.checkpoints.loading import load_solver
from trm.checkpoints.names import about
from trm.extras.model_card import model_card

MODELS = Path(__file__).parents[3] / "docs" / "models"
FILES = {"proof.json", "table.npz", "program.py", "check.py", "margins.png"}


@pytest.fixture(scope="module")
def proof(ternary, command, tmp_path_factory):
    """The folder of a proof, and what was said."""
    folder = tmp_path_factory.mktemp("ternary")
    file = saved(folder, ternary.task, ternary.model)
    ran = command("prove", "--checkpoint", file, "--output", "proof", folder=folder)
    return folder / "proof", ran.out


def change_table(folder: Path, output: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    """Change the values of an output in the table of a proof."""
    with np.load(folder / "table.npz") as arrays:
        table = dict(arrays)
    table[f"{output}.values"] = change(table[f"{output}.values"])
    np.savez(folder / "table.npz", **table)


def test_a_proof_lists_its_assumptions(proof, ternary):
    folder, said = proof
    assert {file.name for file in folder.iterdir()} == FILES
    said = " ".join(said.split())
    assert "the network computes the rule on every canvas, the rule agreed with 599" in said
    assert "laws of the layout lattice hold in all 1,368 cell inputs that the checker found" in said
    assert "in this call: correct on every problem of any length" in said
    assert "1,368" in said
    assert "right.multiplier" in said
    record = json.loads((folder / "proof.json").read_text())
    assert record["verdict"] == "proved"
    assert (record["op_inputs"], record["incorrect_op_inputs"]) == (1368, 0)
    assert min(record["smallest_margin"], record["margin_left_by_rounding"]) > 0
    assert record["arithmetic"] == "float64"  # several cycles: too coarse a bound for float32
    assert record["outputs"]["carry"]["entries"] == 26
    assert record["counterexample"] is None
    assert record["task"]["base"] == 3
    assert len(record["weights_sha256"]) == len(record["op_inputs_sha256"]) == 64


def test_a_proof_is_checked_again(proof, command, tmp_path):
    folder, _ = proof
    ran = command("prove", "--check", folder)
    assert ran.err == "trm prove: enumerating\ntrm prove: comparing the rule with canvases\n"
    assert command("prove", "--check", folder, "--quiet").err == ""
    assert "proved: lattice in base 3, all 1,368 cell inputs" in ran.out
    assert "table against the set: in all 1,368 reachable inputs it returns the rule" in ran.out
    assert "set against drawn canvases: 599 canvases have no other input" in ran.out
    assert "answers against the task: 599 canvases are solved by the rule" in ran.out
    assert "checked: all three parts; the laws of the layout prove it for all canvases" in ran.out
    words = [sys.executable, "-I", folder / "check.py", folder]
    alone = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert alone.returncode == 0
    assert ran.out.startswith(alone.stdout)
    shutil.copyfile(folder / "table.npz", tmp_path / "alone.npz")
    ran = command("prove", "--check", tmp_path / "alone.npz")
    assert ran.out.startswith(alone.stdout)
    assert "not checked: table against the set, set against drawn canvases, answers" in ran.out
    shutil.copyfile(folder / "table.npz", tmp_path / "table.npz")
    change_table(tmp_path, "carry", lambda values: values + (np.arange(len(values)) == 5))
    assert "not proved: in row b" in command("prove", "--check", tmp_path, code=1).out


def test_a_verdict_beside_a_file_counts_for_its_weights_alone(ternary, proof, command, tmp_path):
    file = proof[0].parent / "model.safetensors"
    noted = file.with_suffix(".proof.json")
    assert json.loads(noted.read_text())["verdict"] == "proved"

    def confidence(weights: Path) -> float:
        solver = load_solver(weights)
        return solver.solve(solver.task.problems([(12, 11)]))[0].confidence

    assert confidence(file) == 1
    predictor = load_solver(file, device="cpu").predictor  # proved in float64, and so computed
    assert predictor.proved
    assert predictor.model.H_init.dtype == torch.float64
    predictor.model.float()
    assert not predictor.proved
    exported = tmp_path / "exported.safetensors"
    command("inspect", "--checkpoint", file, "--export", exported)
    assert unpack(exported)["card"]["proof"]["verdict"] == "proved"
    alone = saved(tmp_path, ternary.task, ternary.model)
    unsure = confidence(alone)
    shutil.copyfile(noted, tmp_path / noted.name)
    assert confidence(alone) == 1 > unsure
    # A proof that bounds rounding replaces one that does not, and not the other way round.
    (tmp_path / noted.name).unlink()
    for more, bounded in ((["--as-computed"], False), ([], True), (["--as-computed"], True)):
        command("prove", "--checkpoint", alone, *more)
        record = json.loads((tmp_path / noted.name).read_text())
        assert ("as it is computed" not in record["arithmetic"]) == bounded
    model = copy.deepcopy(ternary.model)  # trained on, under the same name
    with torch.no_grad():
        model.H_init += 1e-6
    saved(tmp_path, ternary.task, model)
    assert confidence(alone) < 1


def test_three_addends_are_refused_of_a_model_of_two(command, tmp_path):
    """From the command line, in files and in Python, whatever the problems come as."""
    file = MODELS / "column-carries-seed0.safetensors"
    sentence = "12 + 34 + 56 has 3 operands, and this model works with at most 2"
    assert sentence in command("solve", "--checkpoint", file, "12+34+56", code=2).err
    (tmp_path / "sums.csv").write_text("problem\n12+34+56\n12+34\n")
    words = ("solve", "--checkpoint", file, "--input", "sums.csv", "--output", "sums.jsonl")
    command(*words, folder=tmp_path, code=1)
    lines = [json.loads(line) for line in (tmp_path / "sums.jsonl").read_text().splitlines()]
    assert sentence in lines[0]["error"]
    assert (lines[1]["answer"], lines[1]["confidence"]) == ("46", 1)
    solver = load_solver(file)
    for three in ("12+34+56", [(12, 34, 56)], Problems.from_ints([(12, 34), (12, 34, 56)])):
        with pytest.raises(ValueError, match=re.escape(sentence)):
            solve(three, solver)
    with pytest.raises(ValueError, match="at most 2 operands, not with 3"):
        solver.for_lengths((2, 2, 2))


def test_a_cell_model_without_a_proof_is_not_calibrated(tmp_path):
    """Its confidence is a product of probabilities, far below its accuracy."""
    proved = load_solver("column-seed0", device="cpu")
    save_model(tmp_path / "m.safetensors", proved.predictor.model, proved.task)
    unproved = load_solver(tmp_path / "m.safetensors", device="cpu")
    for solver, doubt in ((proved, ""), (unproved, "it is a cell model that is not proved")):
        solution = solve("604+87", solver)
        assert (solution.correct, solution.uncalibrated_reason) == (True, doubt)


def test_problems_outside_the_task_are_refused_in_python_too():
    solver = load_solver()
    for operands, sentence in (((1, 2, 3), "takes 2 operands, not 3"), ((1,), "not 1")):
        with pytest.raises(ValueError, match=sentence):
            solve(Problems.from_ints([operands]), solver)
    solver = replace(solver, task=Few())
    with pytest.raises(ValueError, match="8 x 3 is no problem of the task few"):
        solve(Problems.from_ints([(1, 3), (8, 3)]), solver)
    with pytest.raises(ValueError, match="no room for 100"):
        solve(Problems.from_ints([(1, 3), (1, 100)]), solver)


class Small(Lattice):
    def room(self, lengths, base):
        if lengths[1] > 2:
            raise ValueError("no room for 100")
        return super().room(lengths, base)


class Few(Multiplication):
    layouts = table([Small()])

    def allows(self, problems):
        return np.array([a < 5 for a, _ in problems.to_ints()])


def changed(file: Path, to: Path, **settings: object) -> Path:
    """The same file with other settings of its network, its card as it was."""
    content = load_checkpoint(file)
    content[CHECKPOINT_KEY]["model"] |= settings
    to.write_bytes(pack(content, content["card"]))
    return to


def test_a_proof_is_of_a_network_with_its_settings(ternary, proof, command, tmp_path):
    """The note beside a file, and the proof in its card, count for nothing once one is changed."""
    exported = tmp_path / "exported.safetensors"
    command("inspect", "--checkpoint", proof[0].parent / "model.safetensors", "--export", exported)
    assert load_solver(exported).predictor.proved
    cycles = changed(exported, tmp_path / "cycles.safetensors", H_cycles=1)
    assert unpack(cycles)["card"]["proof"]["verdict"] == "proved"
    assert not load_solver(cycles).predictor.proved
    note = (proof[0].parent / "model.proof.json").read_text()
    cycles.with_suffix(".proof.json").write_text(note)
    assert not load_solver(cycles).predictor.proved
    copied = tmp_path / "copied.safetensors"
    command("inspect", "--checkpoint", cycles, "--export", copied)
    assert "proof" not in unpack(copied)["card"]
    # Without a digest, as older versions wrote it, and with another layout or base.
    content = load_checkpoint(exported)
    del content["card"]["proof"]["digest"]
    for name in ("weights_sha256", "digest"):
        cycles.with_suffix(".proof.json").unlink(missing_ok=True)
        cycles.write_bytes(pack(content, content["card"]))
        assert not load_solver(cycles).predictor.proved, name
        content = load_checkpoint(exported)
        content[DATA_KEY]["task"]["smallest"] = 1 - ternary.task.smallest


def test_a_proved_model_is_not_proved_in_another_arithmetic():
    solver = load_solver()
    problems = solver.task.problems([(123, 456)])
    assert solver.predictor.proved
    assert solver.solve(problems)[0].confidence == 1
    with torch.autocast("cpu", torch.bfloat16):
        assert not solver.predictor.proved
        assert solver.solve(problems)[0].confidence < 1
    for precision in ("high", "medium"):
        torch.set_float32_matmul_precision(precision)
        try:
            assert not solver.predictor.proved
        finally:
            torch.set_float32_matmul_precision("highest")
    assert solver.predictor.proved
    solver.predictor.model.double()
    assert not solver.predictor.proved


@pytest.mark.usefixtures("undrawn")
def test_files_are_written_before_anything_is_printed(ternary, command, tmp_path):
    """A reader may close the pipe at once, as in `trm prove | head`."""
    file = saved(tmp_path, ternary.task, ternary.model)
    with pytest.MonkeyPatch.context() as patch:

        def closed(*_: object) -> None:
            raise AssertionError("nothing can be printed")

        patch.setattr("trm.commands.prove.show", closed)
        with pytest.raises(AssertionError, match="nothing can be printed"):
            command("prove", "--checkpoint", file, "--output", "proof", folder=tmp_path)
    assert {one.name for one in (tmp_path / "proof").iterdir()} == FILES
    assert json.loads((tmp_path / "model.proof.json").read_text())["verdict"] == "proved"


@pytest.mark.usefixtures("undrawn")
def test_a_refuted_model_is_no_surer_than_its_refutation_allows(ternary, command, tmp_path):
    """It is refuted by its smallest problem, and incorrect inputs lower all confidence."""
    model = copy.deepcopy(ternary.model)
    with torch.no_grad():
        model.lm_head.bias[3] -= 1000  # writes 0 where a digit 2 belongs
        model.halt_head.bias += 50  # and is sure of it
    file = saved(tmp_path, ternary.task, model)

    def confidence() -> list[float]:
        solver = load_solver(file)
        found = solver.solve(solver.task.problems([(1, 2), (1, 1)]))
        assert [one.correct for one in found] == [False, True]
        return [one.confidence for one in found]

    assert confidence() == pytest.approx([1, 1])
    words = ("prove", "--checkpoint", file, "--output", "refuted")
    ran = command(*words, folder=tmp_path, code=1)
    assert "refuted: 1 x 2 goes wrong, and no smaller problem does" in ran.out
    assert f"no smaller problem does: trm solve --checkpoint {file} 1x2" in ran.out
    assert "[" in ran.out  # the wrong cell
    assert {one.name for one in (tmp_path / "refuted").iterdir()} == {"proof.json", "margins.png"}
    record = json.loads((tmp_path / "refuted/proof.json").read_text())
    assert record["counterexample"]["problem"] == "1 x 2"
    assert record["counterexample"]["right"] == ["_1_*", "_2_2"]
    assert record["counterexample"]["worked"] != record["counterexample"]["right"]
    record = json.loads((tmp_path / "model.proof.json").read_text())
    wrong, right = confidence()
    share = record["incorrect_op_inputs"] / record["op_inputs"]
    assert wrong == 0
    assert right == pytest.approx(1 - share)
    assert 0 < share < 0.5
    assert len(record["incorrect_ids"]) == record["incorrect_op_inputs"]
    # Of too many wrong inputs their share is noted, and the problem.
    (tmp_path / "model.proof.json").write_text(json.dumps(record | {"incorrect_ids": None}))
    assert confidence() == [0, pytest.approx(1 - share)]
    # Notes of earlier versions are read under their own keys.
    old = {"op_inputs": "windows", "incorrect_op_inputs": "wrong_windows"}
    old |= {"incorrect_ids": "wrong_inputs"}
    earlier = {old.get(key, key): value for key, value in record.items()}
    assert earlier.keys().isdisjoint(old)
    (tmp_path / "model.proof.json").write_text(json.dumps(earlier))
    assert confidence() == [0, pytest.approx(1 - share)]
    command("prove", "--checkpoint", file, "--as-computed", code=1)
    assert json.loads((tmp_path / "model.proof.json").read_text())["verdict"] == "refuted"


def test_confidence_is_0_on_the_problem_that_refutes_a_model(checkpoint, command, tmp_path):
    file = tmp_path / "model.ckpt"
    shutil.copyfile(checkpoint, file)
    assert "refuted: " in command("prove", "--checkpoint", file, "--search", 50, code=1).out
    problem = json.loads((tmp_path / "model.proof.json").read_text())["counterexample"]["problem"]
    assert solve(problem, load_solver(file)).confidence == 0
    operands = load_solver(file).task.parse(problem)
    assert load_solver(file).known_wrong == (operands,)
    assert load_solver(checkpoint).known_wrong == ()
    sure = load_solver("trm-quick-seed0", device="cpu")
    assert solve("12x3", sure).confidence > 0.9
    assert solve("12x3", replace(sure, known_wrong=((12, 3),))).confidence == 0


@pytest.mark.usefixtures("undrawn")
def test_a_model_that_computes_its_rule_is_never_called_proved(learn, command, tmp_path):
    """The rule of an own layout without laws is tested on canvases alone."""
    trained = learn(AddTwice(base=3))
    file, folder = saved(tmp_path, trained.task, trained.model), tmp_path / "proof"
    own = ("prove", "--import", "twice")
    words = (*own, "--checkpoint", file, "--as-computed", "--output", folder)
    ran = command(*words, folder=tmp_path, code=1)
    assert "computes its rule, in float32 as it is computed here, on every canvas" in ran.out
    assert "The rule is tested, on 599 drawn canvases" in ran.out
    for claim in ("proved", "any length"):
        assert claim not in ran.out
    assert {one.name for one in folder.iterdir()} == FILES - {"check.py"}
    record = json.loads((folder / "proof.json").read_text())
    noted = json.loads(file.with_suffix(".proof.json").read_text())
    assert (record["verdict"], record["laws"]) == (noted["verdict"], False) == (COMPUTES, False)
    assert "checked_laws" not in record
    assert (record["tested"]["canvases"], record["tested"]["words"]) == (599, [])
    solution = solve("12+21", load_solver(file, device="cpu"))
    assert solution.correct
    assert solution.confidence < 1
    assert "computes its rule, but the rule was only tested" in solution.uncalibrated_reason
    card = model_card(file)
    assert "Nothing of its answers. It computes its rule in all" in card
    assert "Correct at every length" not in card
    said = command(*own, "--check", folder).out
    assert "reachable inputs it returns the rule's outputs" in said
    assert "it computes its rule, and the rule was only tested: other canvases are not" in said
    change_table(folder, "symbol", lambda values: np.where(values == 3, 2, values))  # 1 for 2
    said = command(*own, "--check", folder, code=1).out
    assert "not proved: in " in said
    assert "the table returns another symbol than the rule: first 2, where it is 3" in said


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ("thrice", "the rule returns 3, and the canvas"),
        ("few_classes", "it returns class 3 of sum_carry"),
    ],
)
def test_a_wrong_rule_is_refused_by_every_command(layout, said, learn, command, tmp_path):
    """It is trained on, loaded, proved or drawn."""
    trained = learn(AddTwice(base=10), steps=1)
    file = saved(tmp_path, replace(trained.task, layout=layout), trained.model)
    own = ("--import", "twice", "--checkpoint", file)
    more = ("--data.task", "twice.AddTwice", "--data.task.layout", layout)
    for words in (
        ("prove", *own),
        ("solve", *own, "1+2"),
        ("render", "1+2", "--task", "twice.AddTwice", "--layout", layout),
        ("fit", "--config", "quickstart", *more),
    ):
        assert said in command(*words, folder=tmp_path, code=2).err


@pytest.mark.usefixtures("undrawn")
def test_latent_codes_are_checked_again_without_laws(command, tmp_path):
    file = tmp_path / "model.safetensors"
    shutil.copyfile(MODELS / "untold-base2-seed0.safetensors", file)
    ran = command("prove", "--checkpoint", file, "--output", tmp_path / "proof")
    assert "the rule agreed with 599 drawn canvases" in ran.out
    assert "in this call: correct on every problem of any length" in ran.out
    said = command("prove", "--check", tmp_path / "proof").out
    assert "table against the set: in all 48 reachable inputs it returns the rule's outputs" in said
    assert "checked: all three parts; the laws of the layout prove it for all canvases" in said
    change_table(tmp_path / "proof", "carry", lambda values: 0 * values + values.max())
    assert "not proved: " in command("prove", "--check", tmp_path / "proof", code=1).out


def test_a_proved_sum_is_written_for_other_solvers(command, tmp_path):
    words = ("prove", "--checkpoint", MODELS / "column-seed0.safetensors", "--as-computed")
    ran = command(*words, "--smt", "sum.smt2", folder=tmp_path)
    assert "smt    sum.smt2, for `z3 FILE`, or `python -m trm.cells.proof.smt FILE`" in ran.out
    text = (tmp_path / "sum.smt2").read_text()
    assert text.startswith("; The table of column in base 10, its laws, and the theorem.\n")
    assert '(echo "column_sum: expected unsat")' in text


def test_a_proved_integer_model_is_written_for_coq(command, tmp_path):
    words = ("prove", "--checkpoint", MODELS / "column-int4-seed0.safetensors")
    ran = command(*words, "--coq", "sums.v", folder=tmp_path)
    assert "coq    sums.v, for `coqc FILE`" in ran.out
    text = (tmp_path / "sums.v").read_text()
    assert "Theorem this_network_adds : forall width margin sign numbers last," in text
    assert "Lemma network_agrees : adds_in_every_cell 10 cell = true." in text
    ran = command(*words, "--coq", "my-sums.v", folder=tmp_path, code=2)
    assert "--coq my-sums.v: Coq needs a name of letters" in ran.err
    words = ("prove", "--checkpoint", MODELS / "column-seed0.safetensors")
    ran = command(*words, "--coq", "none.v", folder=tmp_path, code=2)
    assert "--coq is for models in integers: write one with `trm inspect --export" in ran.err
    ran = command("prove", "--coq", "none.v", folder=tmp_path, code=2)
    assert "no theorem in Coq for the layout lattice, only for column, standard" in ran.err
    assert not (tmp_path / "none.v").exists()


def test_decisions_are_written_beside_the_weights_and_looked_up(ternary, command, tmp_path):
    file = saved(tmp_path, ternary.task, ternary.model)
    prove = ("prove", "--checkpoint", file, "--as-computed")
    assert "decisions  " not in command(*prove, folder=tmp_path).out
    assert not list(tmp_path.glob("*.npz"))
    ran = command(*prove, "--decisions", folder=tmp_path)
    table = tmp_path / "model.decisions.npz"
    assert ran.out.splitlines()[-1] == f"decisions  {table}"
    solver = load_solver(file, device="cpu")
    assert solver.predictor.looks_up
    solution = solve("212x120", solver)
    assert (solution.correct, solution.confidence) == (True, 1)


@pytest.fixture(scope="module")
def integer_file(binary, command, tmp_path_factory) -> Path:
    """A model in integers of 8 bits; tests must not change the file."""
    folder = tmp_path_factory.mktemp("integers")
    file, integers = saved(folder, binary.task, binary.model), folder / "int8.safetensors"
    words = ("inspect", "--checkpoint", file, "--export", integers, "--dtype", "int8")
    ran = command(*words)
    assert f"parameters; {integers.stat().st_size:,} bytes" in ran.out
    assert "differently" not in ran.out
    assert integers.stat().st_size < 0.5 * file.stat().st_size
    return integers


@pytest.mark.usefixtures("undrawn")
def test_integers_are_proved_without_a_bound_on_rounding(integer_file, binary, command, tmp_path):
    file, folder = tmp_path / "model.safetensors", tmp_path / "proof"
    shutil.copyfile(integer_file, file)
    ran = command("prove", "--checkpoint", file, "--output", folder)
    assert "proved, in integers: the network computes the rule on every canvas" in ran.out
    assert "rounded sums" in ran.out
    assert "safe in float32" not in ran.out
    record = json.loads((folder / "proof.json").read_text())
    assert (record["arithmetic"], record["dtype"]) == ("integers", "integers")
    inputs = len(binary.comparison.numbers)
    assert (record["op_inputs"], record["incorrect_op_inputs"]) == (inputs, 0)
    assert (record["margin_left_by_rounding"], record["proved_in_float32"]) == (None, 0)
    assert record["smallest_margin"] * 1024 == int(record["smallest_margin"] * 1024) > 0
    assert {one.name for one in folder.iterdir()} == FILES
    command("prove", "--check", folder)
    again = tmp_path / "again.safetensors"
    command("inspect", "--checkpoint", file, "--export", again)
    solver = load_solver(again, device="cpu")
    with torch.autocast("cpu", torch.bfloat16):  # integers are the same in any setting
        assert solver.predictor.proved
    (solution,) = solve(["1011x1101"], solver)
    assert (solution.correct, solution.confidence) == (True, 1)
    facts = about(again)
    assert (facts.family, facts.results) == ("cell model in int8", "proved")
    assert facts.parameters == solver.predictor.model.num_parameters


def test_a_model_in_integers_that_errs_is_refuted(integer_file, command, tmp_path):
    content, file = unpack(integer_file), tmp_path / "wrong.safetensors"
    weights = {k.removeprefix("model."): v.clone() for k, v in content["state_dict"].items()}
    weights["head_bias"][4] += 2**16  # of a symbol
    file.write_bytes(pack(content, {}, weights))
    ran = command("prove", "--checkpoint", file, code=1)
    assert re.search(r"refuted: \d+ x \d+ goes wrong", ran.out)
    noted = json.loads(file.with_suffix(".proof.json").read_text())
    assert noted["verdict"] == "refuted"
    assert noted["incorrect_op_inputs"] == len(noted["incorrect_ids"]) > 0
    (solution,) = solve([noted["counterexample"]["problem"].replace(" ", "")], load_solver(file))
    assert (solution.exact, solution.confidence) == (False, 0)

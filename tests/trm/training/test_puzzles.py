"""From a folder of arrays to a solved puzzle: fit, resume, evaluate, solve, export, refusals."""

import gzip
import json
import shutil
import sys

import numpy as np
import pytest
import torch
from lightning import Trainer
from runs import charts_without_a_curve, events_of, last_of, whole_and_resumed
from tiny import tiny_trm

from augment.equivalents import Equivalents
from augment.symmetry import SYMMETRIES, apply, invert
from canvas.sequences import IGNORE
from trm.checkpoints.content import load_checkpoint, pack
from trm.checkpoints.loading import load_solver, restored
from trm.checkpoints.names import about
from trm.checkpoints.puzzles import load_puzzle_solver
from trm.commands import cli
from trm.extras.model_card import model_card
from trm.extras.sharing import save_pretrained
from trm.io.config_files import find_config
from trm.io.puzzle_files import read_puzzles, write_puzzles
from trm.io.puzzle_format import PuzzleFormat, Puzzles
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.puzzles import PuzzleSolver
from trm.solving.voting import Voting
from trm.training.cli import train
from trm.training.configs import OptimizerConfig, ScheduleConfig
from trm.training.negatives import with_own_rows
from trm.training.puzzle_data import PuzzleDataModule, PuzzleSamples
from trm.training.puzzle_module import PuzzleModule
from trm.training.step import DepthConfig

TINY = """
    --model.network.config.hidden_size 16 --model.network.config.num_heads 2
    --model.network.config.intermediate_size 16 --model.network.config.H_cycles 1
    --model.network.config.L_cycles 1 --model.solve_steps 2 --data.batch_size 4
    --data.batches_per_epoch 2 --data.validation_problems 3 --trainer.max_epochs 2
    --trainer.check_val_every_n_epoch 1 --trainer.log_every_n_steps 1
    --trainer.precision 32-true --model.schedule.decay constant
""".split()  # noqa: SIM905
RUN = "runs/puzzles-sudoku4/version_0"


@pytest.fixture(scope="session")
def arrays(once, repository):
    """Folder with Sudoku as the generator writes it, and the run of a tiny network."""

    def make(folder):
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(repository / "benchmarks")
            puzzles = __import__("puzzles")
            words = ["--size=4", "--clues=8", "--train=12", "--test=6", "--variants=3"]
            output = ["--output", str(folder / "data/sudoku4")]
            patch.setattr(sys, "argv", ["puzzles.py", "sudoku", *words, *output])
            puzzles.main()

    return once("arrays", make)


@pytest.fixture(scope="session")
def fitted(arrays, once, command):
    def make(folder):
        (folder / "data").symlink_to(arrays / "data")
        command("fit", "--config", "puzzles/sudoku4", *TINY, folder=folder, pictures=True)

    return once("fitted_puzzles", make)


def test_a_run_on_arrays_leaves_curves_and_pictures(fitted):
    events = events_of(fitted)
    figures = {"solved", "cells", "loss", "confidence_accuracy", "supervision_steps"}
    scalars = set(events.Tags()["scalars"])
    assert {f"validation/{name}" for name in figures} <= scalars
    assert {"train/loss", "train/exact_accuracy", "train/cell_accuracy"} <= scalars
    pictures = {"panels/puzzle_1", "panels/wrong_1", "figures/supervision_steps"}
    assert pictures | {"figures/samples"} <= set(events.Tags()["images"])
    assert charts_without_a_curve(fitted) == []
    content = last_of(fitted)
    assert content["CanvasDataModule"]["puzzles"]["characters"] == "~.1234"
    assert content["trm"]["model"]["vocab_size"] == 6
    assert content["trm"]["model"]["height"] == 4


def test_a_resumed_run_on_arrays_ends_as_the_whole_one(arrays, command, tmp_path):
    (tmp_path / "data").symlink_to(arrays / "data")
    words = ["--config", "puzzles/sudoku4", *TINY, "--data.folder", tmp_path / "data/sudoku4"]
    words += ["--data.unknown", ".", "--data.revealed", "0.8", "--data.revealed_own", "0.5"]
    whole, resumed = whole_and_resumed(command, tmp_path, *words)
    for name, value in whole["state_dict"].items():
        assert torch.equal(resumed["state_dict"][name], value)


def test_a_run_knows_its_arrays_by_their_content(fitted, command, tmp_path):
    shutil.copytree(fitted / "runs", tmp_path / "runs")
    shutil.copytree(fitted / "data/sudoku4", tmp_path / "moved")
    words = ("fit", "--config", "puzzles/sudoku4", *TINY, "--ckpt_path", "last", "--data.folder")
    ran = command(*words, tmp_path / "moved", "--trainer.max_epochs", 3, folder=tmp_path)
    assert "data.folder" not in ran.err
    runs = tmp_path / "runs/puzzles-sudoku4"
    assert [run.name for run in runs.iterdir()] == ["version_0"]
    labels = tmp_path / "moved/train/all__labels.npy"
    np.save(labels, np.load(labels)[:, ::-1])
    ran = command(*words, tmp_path / "moved", "--trainer.max_epochs", 4, folder=tmp_path)
    assert "in a folder of its own, as data.folder changed" in ran.err
    assert sorted(run.name for run in runs.iterdir()) == ["version_0", "version_1"]


def test_the_test_split_is_evaluated_with_views(fitted, command, tmp_path):
    words = ("--data", fitted / "data/sudoku4", "--checkpoint", fitted / RUN)
    views = ("--views", 8, "--vote", "max_confidence")
    out = command("evaluate", *words, *views, "--output", tmp_path / "seen").out
    about = json.loads((tmp_path / "seen/puzzles.json").read_text())
    records = [
        json.loads(line) for line in (tmp_path / "seen/puzzles.jsonl").read_text().splitlines()
    ]
    (one,) = about["models"]
    assert one["exact"]["total"] == len(records) == 6
    assert one["exact"]["right"] == sum(record["correct"] for record in records)
    assert one["views"] == 8
    assert {"low", "high"} <= one["exact"].keys()
    assert "of 6; 95 % interval" in out
    assert "in 8.0 views" in out
    test = read_puzzles(fitted / "data/sudoku4", "test")
    voting = Voting(8, vote="max_confidence")
    solved = load_puzzle_solver(fitted / RUN, device="cpu", voting=voting).solve(test.inputs)
    exact = (solved.canvases == test.labels).all(axis=(1, 2)).sum()
    assert exact == one["exact"]["right"]
    scored = command("test", "--config", fitted / RUN / "config.yaml", "--ckpt_path",
                     fitted / RUN / "checkpoints/best.ckpt", folder=fitted).out  # fmt: skip
    assert "test/solved" in scored
    assert "of 6; 95 % interval" in scored


def test_figures_of_another_model_of_puzzles_are_kept(fitted, command, tmp_path):
    words = ("--data", fitted / "data/sudoku4", "--output", tmp_path / "seen")
    evaluate = ("evaluate", *words, "--checkpoint")
    command(*evaluate, fitted / RUN)
    measured = (tmp_path / "seen/puzzles.json").read_bytes()
    other = tmp_path / "other.ckpt"
    content = torch.load(fitted / RUN / "checkpoints/best.ckpt", weights_only=True)
    torch.save(content | {"global_step": 99}, other)
    ran = command(*evaluate, other, code=2)
    assert "holds the figures of another checkpoint" in ran.err
    assert (tmp_path / "seen/puzzles.json").read_bytes() == measured
    command(*evaluate, fitted / RUN, other)


def test_a_stop_promises_nothing_of_puzzles_or_pipes(fitted, checkpoint):
    """They are solved at once; a file of problems, and a grid, in parts that are kept."""
    puzzles, arithmetic = (("--checkpoint", str(one)) for one in (fitted / RUN, checkpoint))
    files = ("--input", "problems.csv", "--output", "answers.csv")
    for name, words, goes_on in (
        ("evaluate", (*puzzles, "--data", "data", "--output", "seen"), False),
        ("evaluate", (*arithmetic, "--output", "grid"), True),
        ("solve", (*puzzles, *files), False),
        ("solve", (*arithmetic, *files), True),
        ("solve", (*arithmetic, *files[:2], "--output=-"), False),
        ("solve", (*arithmetic, "12x34"), False),
        ("sweep", ("studies/depth", "--output", "depth"), True),
    ):
        assert cli._continues(name, [name, *words]) is goes_on, words


def test_puzzles_of_a_file_are_solved(fitted, command, tmp_path):
    test = read_puzzles(fitted / "data/sudoku4", "test")
    text, array = tmp_path / "puzzles.txt", tmp_path / "puzzles.npy"
    text.write_text("".join(f"{test.format.to_text(one)}\n" for one in test.inputs))
    np.save(array, test.inputs)
    solver = load_puzzle_solver(fitted / RUN, device="cpu")
    expected = [test.format.to_text(one) for one in solver.solve(test.inputs).canvases]
    words = ("solve", "--checkpoint", fitted / RUN)
    for file in (text, array):
        out = command(*words, "--input", file, "--quiet").out
        assert out.split() == expected
    shown = command(*words, "--input", text, "--views", 8).out
    assert "confidence" in shown
    assert "of 8 views" in shown
    text.write_bytes(gzip.compress(text.read_bytes()))
    for name in ("out.jsonl", "out.txt", "out.npy", "out.txt.gz"):
        command(*words, "--input", text, "--output", tmp_path / name)
    with gzip.open(tmp_path / "out.txt.gz", "rt") as packed:
        assert packed.read().split() == expected
    assert "the input itself" in command(*words, "--input", text, "--output", text, code=2).err
    assert (tmp_path / "out.txt").read_text().split() == expected
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["solution"] for line in lines] == expected
    assert np.load(tmp_path / "out.npy").shape == test.inputs.shape


def test_options_that_puzzles_lack_are_refused(fitted, checkpoint, command, tmp_path):
    file, weights, broken = (
        tmp_path / name for name in ("puzzles.txt", "mine.safetensors", "broken.safetensors")
    )
    file.write_text("1...............\n")
    content = load_checkpoint(fitted / RUN)
    content["CanvasDataModule"]["puzzles"] = {"height": 4, "width": -1, "vocab_size": 6}
    broken.write_bytes(pack(content, {}))
    (tmp_path / "other").mkdir()
    (tmp_path / "other/puzzles.json").write_text('{"models": [{"sha256": "of another"}]}')
    solve, run = ("solve", "--checkpoint", fitted / RUN), fitted / RUN
    export = ("inspect", "--checkpoint", run, "--export")
    cases = {
        solve: "give a file of them by --input",
        (*solve, "123x456"): "puzzle 1: 'x' is none of the symbols ~.1234",
        (*solve, "12" * 8, "12"): "puzzle 2 has 2 cells, and the first puzzle 16",
        (*solve, "12" * 8, "--input", file): "give a file of them by --input",
        (*solve, "--input", file, "--orders", 2): "leave out --orders",
        (*solve, "--input", file, "--surest", 0): "--surest",
        ("solve", "--checkpoint", checkpoint, "1x1", "--surest", 2): "leave out --surest",
        (*solve, "--input", file, "--output", tmp_path / "out.csv"): "end in .jsonl, .txt",
        (*solve, "--input", tmp_path / "none.npy"): "there is no such file",
        ("evaluate", "--checkpoint", run, "--output", tmp_path / "o"): "folder of arrays by --data",
        ("evaluate", "--checkpoint", run, "--data", tmp_path, "--output", tmp_path / "o"): (
            "has no folder test"
        ),
        ("inspect", "--checkpoint", run, "1x1", "--output", tmp_path / "o"): (
            "puzzle 1: 'x' is none of the symbols"
        ),
        (*solve, "12" * 8, ""): "and one of these has none",
        ("inspect", "--checkpoint", run): "and --output DIR for its pictures",
        ("inspect", "--checkpoint", run, "1" * 16, "--output", tmp_path / "o", "--lens"): (
            "leave out --lens"
        ),
        ("prove", "--checkpoint", run): "trained on arrays of puzzles, not on arithmetic",
        ("evaluate", "--checkpoint", checkpoint, "--data", tmp_path, "--output", tmp_path / "o"): (
            "leave out --data"
        ),
        ("evaluate", "--checkpoint", checkpoint, run, "--output", tmp_path / "o"): (
            "evaluate one kind at a time"
        ),
        (*export, tmp_path / "page.html"): "a web page shows models whose cells pass decided",
        (*export, weights, "--dtype", "int8"): "only a cell model is written in integers",
        (*export, weights, "--figures", tmp_path): "an evaluation of puzzles, by `trm evaluate",
        (*export, weights, "--figures", tmp_path / "other"): "has no figures of",
        ("solve", "--checkpoint", broken, "1" * 16): (
            "does not describe its puzzles (width is a whole number from 1"
        ),
    }
    for words, why in cases.items():
        err = command(*words, code=2).err
        assert why in err
        assert "Traceback" not in err
    assert {path.name for path in tmp_path.iterdir()} == {file.name, broken.name, "other"}
    command(*export, weights)
    for puzzles in (run, weights):
        with pytest.raises(
            ValueError, match=r"trained on arrays of puzzles.*trm\.load_puzzle_solver"
        ):
            load_solver(puzzles)
    with pytest.raises(ValueError, match="trained on arithmetic, not on arrays"):
        load_puzzle_solver(checkpoint)


def test_exported_weights_solve_as_their_checkpoint(fitted, command, tmp_path):
    test = read_puzzles(fitted / "data/sudoku4", "test")
    expected = load_puzzle_solver(fitted / RUN, device="cpu")
    weights, copy = tmp_path / "mine.safetensors", tmp_path / "copy.safetensors"
    views = ("--views", 4, "--vote", "max_confidence")
    for place, more in (("one", ()), ("four", views)):
        words = ("--data", fitted / "data/sudoku4", "--output", tmp_path / place)
        command("evaluate", "--checkpoint", fitted / RUN, *words, *more)
    figures = tmp_path / "one", tmp_path / "four"
    out = command("inspect", "--checkpoint", fitted / RUN, "--export", weights,
                  "--figures", *figures).out  # fmt: skip
    assert f"{expected.predictor.model.num_parameters:,} parameters" in out
    command("convert", weights, copy, "--to", "safetensors")
    for file in (weights, copy):
        solver = load_puzzle_solver(file, device="cpu")
        for name in ("format", "symmetries", "shifted"):
            assert getattr(solver, name) == getattr(expected, name)
        pairs = zip(solver.solve(test.inputs), expected.solve(test.inputs), strict=True)
        for found, wanted in pairs:
            assert np.array_equal(found, wanted)
        assert about(file).task == "puzzles, 4 x 4"
    card = command("models", copy).out.replace("\\", "")
    for part in (
        "for puzzles of 4 x 4 cells and 6 symbols, ~.1234; all cells",
        "Trained on canvases in 8 orientations.",
        "Exact solutions, with 95 % intervals",
        "| max_confidence |",
    ):
        assert part in card
    words = ("--data", fitted / "data/sudoku4", "--output", tmp_path / "again", *views)
    assert "of 6; 95 %" in command("evaluate", "--checkpoint", weights, *words).out
    again = tmp_path / "again.safetensors"
    command("inspect", "--checkpoint", weights, "--export", again, "--figures", words[3])
    assert len(load_checkpoint(again)["card"]["puzzles"]) == 2  # the second one was replaced
    save_pretrained(fitted / RUN, tmp_path / "folder")
    assert load_puzzle_solver(tmp_path / "folder", device="cpu").format == expected.format


def test_some_cells_at_a_time_are_measured_and_named(fitted, command, tmp_path):
    words = ("--data", fitted / "data/sudoku4", "--checkpoint", fitted / RUN, "--surest", 5)
    command("evaluate", *words, "--output", tmp_path / "seen")
    about = json.loads((tmp_path / "seen/puzzles.json").read_text())
    assert about["surest"] == 5
    ran = command("report", tmp_path / "seen", "--output", tmp_path / "report", code=2)
    assert "has figures of puzzles, and trm report compares those of arithmetic" in ran.err
    assert about["models"][0]["steps"] >= 4  # all 16 cells of a canvas, in four passes
    export = ("inspect", "--checkpoint", fitted / RUN, "--export", tmp_path / "m.safetensors")
    command(*export, "--figures", tmp_path / "seen")
    assert "| the 5 surest |" in model_card(tmp_path / "m.safetensors")
    test = read_puzzles(fitted / "data/sudoku4", "test")
    solver = load_puzzle_solver(fitted / RUN, device="cpu", surest=5)
    for steps in (1, 7):  # of two steps in solving
        canvases, confidence = solver.watched(test.inputs, steps)
        assert canvases.shape == (steps, *test.inputs.shape)
        assert confidence.shape == canvases.shape[:2]
    solved = solver.solve(test.inputs)
    exact = (solved.canvases == test.labels).all(axis=(1, 2)).sum()
    assert exact == about["models"][0]["exact"]["right"]


NOT_PUZZLES = {
    "texts": (["1.2."], "puzzles are a NumPy array, not a list"),
    "axes": (np.ones((2, 16), np.uint8), r"whole numbers \[B, H, W\], not uint8 \[2, 16\]"),
    "floats": (np.ones((2, 4, 4)), "whole numbers .*, not float64"),
    "empty": (np.ones((0, 4, 4), np.uint8), "there is no puzzle to solve"),
    "symbols": (np.full((2, 4, 4), 99), "puzzles: row 0, cell 0 is 99, and symbols are 0 to 5"),
}


@pytest.mark.parametrize(("inputs", "why"), NOT_PUZZLES.values(), ids=NOT_PUZZLES)
def test_what_is_no_puzzle_is_refused(fitted, inputs, why):
    solver = load_puzzle_solver(fitted / RUN, device="cpu")
    for call in (solver.solve, solver.watched):
        with pytest.raises(ValueError, match=why):
            call(inputs)


@pytest.mark.parametrize("number", [0, 2.5, "3"])
def test_a_number_of_steps_or_cells_is_whole(fitted, number):
    with pytest.raises(ValueError, match=r"^surest: .* is not a whole number from 1 up"):
        load_puzzle_solver(fitted / RUN, device="cpu", surest=number)
    solver = load_puzzle_solver(fitted / RUN, device="cpu")
    with pytest.raises(ValueError, match=r"^steps: .* is not a whole number from 1 up"):
        solver.watched(np.ones((1, 4, 4), np.uint8), number)


def test_the_card_of_puzzles_has_the_facts_of_training(fitted, tmp_path):
    content = load_checkpoint(fitted / RUN)
    assert content["CanvasDataModule"].keys() >= {"equivalents", "revealed"}
    content["CanvasDataModule"] |= {"revealed_own": 0.5}
    content["CanvasDataModule"] |= {"revealed": 0.8, "equivalents": {"symbols": "1234", "band": 2}}
    content["CanvasDataModule"]["puzzles"]["unknown"] = "."
    (tmp_path / "x.safetensors").write_bytes(pack(content, {}))
    card = model_card(tmp_path / "x.safetensors")
    for part in (
        "the cells with . are filled in at once",
        "80 % of the samples had random cells of the solution as well, in 50 % of these as the",
        "Training exchanged the symbols 1234, bands at random.",
        "file has no figures",
    ):
        assert part in card


def test_a_puzzle_is_solved_from_its_text_and_inspected(fitted, command, tmp_path):
    test = read_puzzles(fitted / "data/sudoku4", "test")
    solver = load_puzzle_solver(fitted / RUN, device="cpu")
    texts = list(map(solver.format.to_text, test.inputs[:2]))
    expected = list(map(solver.format.to_text, solver.solve(test.inputs[:2]).canvases))
    words = ("--checkpoint", fitted / RUN)
    assert command("solve", *words, *texts, "--quiet").out.split() == expected
    out = command("inspect", *words, texts[0], "--output", tmp_path / "seen").out
    assert out.startswith(f"{expected[0]}  confidence ")
    assert {file.name for file in (tmp_path / "seen").iterdir()} == {"solving.gif", "steps.png"}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--data.folder", "nowhere"), "there is no such folder of arrays"),
        (("--data.height", "3"), "16 cells, and not 3 x"),
        (("--data.symmetries", "[up]"), "must be one of e, r90"),
        (("--data.equivalents.symbols", "125"), "'5' is no symbol of these puzzles"),
        (("--data.equivalents.band", "3"), "3 does not divide a canvas of 4 x 4"),
        (("--data.unknown", "5"), "unknown is the character of cells to fill in, one of ~.1234"),
        (("--data.revealed", "2"), "data.revealed is from 0 to 1"),
        (("--data.revealed_own", "0.5"), "set data.revealed and data.unknown, too"),
        (
            ["--data.revealed=1", "--data.revealed_own=1", "--data.unknown=1"],
            "a solution has the symbol '1'",
        ),
        (("--data.shifts", "true", "--model.auxiliary", "{carry: 1.0}"), "puzzles have no sub"),
        (("--data.validation_problems", "99"), "holds out all 12 groups"),
        (("--model.network.config.skip_blank", "true"), "skip_blank is of the blank cells"),
        (("--model.network.config.halt_pool", "mask"), "needs masked cells"),
        (("--data.batchsize", "3"), "Did you mean data.batch_size?"),
        (("--data.folder", "bad"), "has float64, and not whole numbers"),
    ],
)
def test_a_wrong_run_on_arrays_is_refused(arrays, command, tmp_path, words, why):
    (tmp_path / "data").symlink_to(arrays / "data")
    if "bad" in words:
        cells = np.ones((4, 4), np.uint8)
        write_puzzles(tmp_path / "bad", "train", PuzzleFormat(2, 2, 3), cells, cells)
        np.save(tmp_path / "bad/train/all__inputs.npy", cells / 2)
    err = command("fit", "--config", "puzzles/sudoku4", *TINY, *words, folder=tmp_path, code=2).err
    assert why in err
    assert not (tmp_path / "runs").exists()


def test_the_config_of_puzzles_builds_its_model(arrays, monkeypatch):
    monkeypatch.setattr("sys.argv", ["trm"])
    monkeypatch.chdir(arrays)
    words = [f"--config={find_config('puzzles/sudoku4')}", "--trainer.logger=false"]
    words += ["--trainer.accelerator=cpu"]
    with torch.device("meta"):
        cli = train([*words, "--data.validation_problems=3"], run=False)
    assert cli.model.model.config.vocab_size == 6
    batch = next(iter(cli.datamodule.train_dataloader()))
    assert batch["inputs"].shape == (64, 4, 4)
    assert batch["answer"].all()


def padded(count: int = 6) -> Puzzles:
    """Puzzles of 2 x 2 symbols in the corner of 4 x 4 cells, whose solution is the puzzle."""
    cells = np.zeros((count, 4, 4), np.uint8)
    cells[:, :2, :2] = np.random.default_rng(0).integers(1, 5, (count, 2, 2))
    starts = np.arange(count + 1)
    form = PuzzleFormat(4, 4, 5, 0, 0)
    return Puzzles(form, cells, cells, cells != 0, starts, starts)


def test_samples_show_every_group_once_a_round():
    data = PuzzleSamples(padded(6), np.array([0, 2, 5]), seed=1, size=6)
    rows = data.rows(data.keys(range(12))).reshape(4, 3)
    assert {tuple(sorted(part)) for part in rows.tolist()} == {(0, 2, 5)}
    assert len({tuple(part) for part in rows.tolist()}) > 1
    whole = data.__getitems__(range(6))
    parts = [data.__getitems__(range(i, i + 3)) for i in (0, 3)]
    for name, value in whole.items():
        assert torch.equal(value, torch.cat([part[name] for part in parts]))


def test_views_of_samples_move_label_and_answer_along():
    puzzles = padded(6)
    data = PuzzleSamples(puzzles, np.arange(6), 0, 64, list(SYMMETRIES), shifts=True)
    batch = data.__getitems__(range(64))
    inputs, labels, answer = (batch[name].numpy() for name in ("inputs", "labels", "answer"))
    assert np.array_equal(answer, inputs != 0)
    assert np.array_equal(labels, np.where(answer, inputs.astype(int), IGNORE))
    assert (answer.sum(axis=(1, 2)) == 4).all()  # nothing has crossed an edge
    corners = {tuple(map(int, np.argwhere(one)[0])) for one in answer}
    assert len(corners) == 9


def test_equivalents_of_samples_are_solved_by_their_labels(arrays):
    puzzles = read_puzzles(arrays / "data/sudoku4", "train")
    groups = np.arange(len(puzzles.groups) - 1)
    more = {"equivalents": Equivalents("1234", 2, 2), "revealed": 0.5}
    batch = PuzzleSamples(puzzles, groups, 0, 200, **more).__getitems__(range(200))
    inputs, labels = batch["inputs"].numpy(), batch["labels"].numpy()
    boxes = labels.reshape(-1, 2, 2, 2, 2).swapaxes(2, 3).reshape(-1, 4, 4)
    for units in (labels, labels.swapaxes(1, 2), boxes):
        assert (np.sort(units) == np.arange(2, 6)).all()
    assert (inputs == labels)[inputs > 1].all()
    plain = PuzzleSamples(puzzles, groups, 0, 200).__getitems__(range(200))
    assert (inputs > 1).sum() > (plain["inputs"].numpy() > 1).sum()
    assert len({one.tobytes() for one in labels}) > len(puzzles)


def test_known_cells_are_copied_and_not_learned(arrays):
    puzzles = read_puzzles(arrays / "data/sudoku4", "train", unknown=".")
    groups = np.arange(len(puzzles.groups) - 1)
    batch = PuzzleSamples(puzzles, groups, 0, 9, revealed=0.5).__getitems__(range(9))
    unknown = batch["inputs"] == 1
    assert torch.equal(batch["answer"], unknown)
    assert torch.equal(batch["labels"] == IGNORE, ~unknown)
    model = tiny_trm(height=4, width=4, vocab_size=6, position="learned_2d")
    predictor = IterativePredictor(model, 1).with_options(unknown=puzzles.format.unknown_cells)
    solved = PuzzleSolver(predictor, puzzles.format).solve(puzzles.inputs)
    known = puzzles.inputs > 1
    assert (solved.canvases == puzzles.inputs)[known].all()
    assert (solved.canvases != puzzles.inputs).any()


def test_cells_that_a_model_reveals_teach_the_confidence(arrays):
    puzzles = read_puzzles(arrays / "data/sudoku4", "train", unknown=".")
    groups = np.arange(len(puzzles.groups) - 1)
    shown = {"equivalents": Equivalents("1234", 2, 2), "revealed": 1.0}
    more = PuzzleSamples(puzzles, groups, 0, 40, **shown).__getitems__(range(40))
    own = PuzzleSamples(puzzles, groups, 0, 40, **shown, revealed_own=0.5)
    batch = own.__getitems__(range(40))
    above, labels = batch["above"], batch["labels"]
    assert 5 < above.flatten(1).any(1).sum() < 35
    for name in ("inputs", "answer", "seeds"):
        assert torch.equal(batch[name], more[name])
    assert torch.equal(labels[above], batch["inputs"][above].long())  # shown as in the solution
    assert torch.equal(labels != IGNORE, batch["answer"] | above)

    class Fixed:  # fills in the solution, or its first symbol everywhere
        def __init__(self, right: bool) -> None:
            self.right = right

        def __call__(self, inputs, steps):
            chosen = above.flatten(1).any(1)
            hidden = torch.where(above, 1, batch["inputs"])[chosen]
            assert torch.equal(inputs, hidden)
            cells = labels[chosen].clamp(min=0) if self.right else torch.full_like(hidden, 2)
            return torch.nn.functional.one_hot(cells.long(), 6).float(), None

    for right in (True, False):
        found = with_own_rows(Fixed(right), batch, 1, (1, 1))
        assert "above" not in found
        others = labels.ne(2) & above
        assert torch.equal(
            found["correct"], torch.ones(40, dtype=bool) if right else ~others.flatten(1).any(1)
        )
        written = batch["inputs"] if right else torch.where(above, 2, batch["inputs"])
        assert torch.equal(found["inputs"], written)


def test_a_module_is_set_up_where_a_loader_is_given_alone():
    network = tiny_trm(height=4, width=4, vocab_size=6, position="learned_2d")
    parts = {"optimizer": OptimizerConfig(), "schedule": ScheduleConfig(), "depth": DepthConfig()}
    module = PuzzleModule(network, **parts)
    module.trainer = Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    module.setup("test")
    assert "negatives_rejected" not in module.training_metrics


def test_held_out_groups_are_never_drawn(arrays):
    data = PuzzleDataModule(str(arrays / "data/sudoku4"), 4, 5, validation_problems=4)
    loader = data.train_dataloader()
    ends = zip(*data.training.ends(data.held_out), strict=True)
    held = {row for first, end in ends for row in range(first, end)}
    drawn = loader.dataset.rows(loader.dataset.keys(range(200)))
    assert not held & set(drawn.tolist())
    assert held | set(drawn.tolist()) == set(range(len(data.training)))
    other = PuzzleDataModule(str(arrays / "data/sudoku4"), 4, 5, validation_problems=4, seed=7)
    assert np.array_equal(other.held_out, data.held_out)


@pytest.mark.parametrize("symmetries", [("e",), tuple(SYMMETRIES)])
def test_votes_are_counted_in_the_puzzles_own_frame(symmetries):
    """A model that depends on places votes as its answers, turned back, say."""
    puzzles = padded(5)
    model = tiny_trm(height=4, width=4, vocab_size=5, position="learned_2d")
    predictor = IterativePredictor(model, 2).with_options(unknown=puzzles.format.inside)
    voting = Voting(8, symmetries=symmetries, vote="max_confidence")
    solver = PuzzleSolver(predictor, puzzles.format, voting=voting)
    solved = solver.solve(puzzles.inputs)
    assert (solved.views == len(symmetries)).all()
    assert (solved.canvases[puzzles.inputs == 0] == 0).all()
    twice = solver.solve(np.repeat(puzzles.inputs, 2, axis=0))
    assert np.array_equal(twice.steps, np.repeat(solved.steps, 2))  # each as if it were alone
    for i, puzzle in enumerate(puzzles.inputs):
        alone = PuzzleSolver(predictor, puzzles.format)
        answers = []
        for name in symmetries:
            one = alone.solve(np.ascontiguousarray(apply(name, puzzle))[None])
            answers.append((float(one.confidence[0]), apply(invert(name), one.canvases[0])))
        sure, best = max(answers, key=lambda pair: pair[0])
        assert solved.confidence[i] == pytest.approx(sure, abs=1e-5)
        assert np.array_equal(solved.canvases[i], best)


def test_symbols_of_nine_digits_are_no_huge_number():
    form = PuzzleFormat(9, 9, 11, characters="~_123456789")
    assert restored(PuzzleFormat, form.__dict__) == form


def test_a_puzzle_of_another_size_needs_positions_for_it():
    form = PuzzleFormat(4, 4, 5)
    cells = np.ones((1, 6, 5), np.uint8)

    def puzzle_solver(model):
        predictor = IterativePredictor(model, 1).with_options(unknown=form.inside)
        return PuzzleSolver(predictor, form)

    fixed = tiny_trm(height=4, width=4, vocab_size=5, position="learned_2d")
    with pytest.raises(ValueError, match="cannot work on canvases of 6 x 5"):
        puzzle_solver(fixed).solve(cells)
    free = tiny_trm(height=4, width=4, vocab_size=5, position="rope_2d")
    solver = puzzle_solver(free)
    assert solver.solve(cells).canvases.shape == cells.shape
    turned = solver.with_voting(Voting(2, symmetries=("e", "t")))
    with pytest.raises(ValueError, match="views t exchange rows and columns"):
        turned.solve(cells)

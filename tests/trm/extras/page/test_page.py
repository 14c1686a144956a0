"""The page for browsers: its script, run by Node, does what the package does, cell by cell."""

import html
import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import trm.extras.page
from augment.symmetry import SYMMETRIES, Symmetry, apply, invert
from canvas.drawing import UNDEFINED
from canvas.problems import Problems
from canvas.subtraction import Subtraction
from canvas.symbols import BLANK, MASK
from trm import save_model
from trm.cells.configs import CellConfig, rule_settings
from trm.cells.model import CellModel, CellState
from trm.cells.predictor import CellPredictor
from trm.checkpoints import SHIPPED
from trm.checkpoints.content import load_checkpoint, network_weights
from trm.checkpoints.loading import load_solver, reinitialised
from trm.extras.page.page import Shown, page
from trm.models.iterative import Loop

MODELS = ("written-seed1", "written-hex-seed0", "column-seed0", "untold-seed1")
MODELS += ("column-carries-seed0", "lattice-int8-seed2", "tiny-int4-seed0")
MODELS += ("smallest-multiplier-seed0",)
FILES = [SHIPPED, *(Path(f"docs/models/{name}.safetensors") for name in MODELS)]
SCHOOL = {
    "division-10": [(839, 25), (7, 100), (0, 3)],
    "modular-2": [(5, 30, 11), (0, 0, 2), (20, 3, 21)],
}
FILES += [Path(f"tests/reference/{name}.safetensors") for name in SCHOOL]
HARD = [(0, 0), (0, 17), (999, 999), (10**17 - 3, 7)]  # the last answer is exact in no float64
needs_node = pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed")


@cache
def shown(file: Path) -> Shown:
    """The model of a file; tests must not change it."""
    content = load_checkpoint(file)
    solver = load_solver(file, device="cpu")
    return Shown(file.stem, solver, network_weights(content), content["card"])


def worked(
    text: str, problems: Problems, view: Symmetry = SYMMETRIES["e"], state: list | None = None
) -> list[dict]:
    """Return the solutions of the page's first model, see `work.js`."""
    data = json.loads(re.search(r'id="models">(.*)</script>', text)[1])
    about = data["models"][0] | {"symbols": data["symbols"]}
    script = Path(trm.extras.page.__path__[0], "model.js")
    assert script.read_text() in text
    signs = "*%" if about["sign"] == "%" else about["sign"] * 99
    numbers = problems.to_ints()
    typed = ["".join(map("{}{}".format, one, signs[: len(one) - 1] + " ")) for one in numbers]
    ran = subprocess.run(
        ["node", Path(__file__).with_name("work.js"), script],
        input=json.dumps({"about": about, "problems": typed, "view": view, "state": state}),
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def below(page: np.ndarray, canvas: np.ndarray) -> np.ndarray:
    """A page with the blank rows that a canvas has below it."""
    more = len(canvas) - len(page)
    return np.pad(page, ((0, more), (0, 0)), constant_values=BLANK)


def assert_equals_the_package(model: Shown, problems: Problems) -> None:
    """Compare canvases, messages and answers of the page with those of the package."""
    solver, text = model.solver, page([model])
    solved = zip(worked(text, problems), solver.solve(problems), strict=True)
    for i, (found, solution) in enumerate(solved):
        canvas = below(np.array(found["symbols"]), solution.canvas)
        np.testing.assert_array_equal(canvas, solution.canvas)
        answer = None if found["answer"] is None else int(found["answer"])
        assert answer == solution.answer
        if model.name != "untrained":
            assert answer == solution.true_answer
        decided = solver.predictor.signals(solver.draw(problems[i : i + 1]).masked)
        for name, (classes,) in decided.items():
            there = classes != UNDEFINED
            passed = np.array([[cell[name] for cell in row] for row in found["signals"]])
            np.testing.assert_array_equal(below(passed, classes)[there], classes[there])
            assert there.sum() == passed.size


@needs_node
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_solutions_in_javascript_equal_those_of_the_package(repository, file):
    model = shown(repository / file)
    random, lengths = np.random.default_rng(0), ((1, 1), (3, 4))
    drawn = [tuple(random.integers(10**n) for n in pair) for pair in lengths]
    more = [(87, 604, 9), (99,) * 11] if "column-seed" in file.stem else []
    hard = HARD if file in (FILES[0], FILES[3]) else HARD[:3]
    problems = SCHOOL.get(file.stem, [*drawn, *hard, *more])
    assert_equals_the_package(model, model.solver.task.problems(problems))


def untrained_subtraction(file: Path) -> Shown:
    task = Subtraction(base=3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        small = {"hidden_size": 8, "num_heads": 2, "intermediate_size": 8}
        model = CellModel(CellConfig(**rule_settings(task.local_rule()), **small))
    save_model(file, model, task)
    return shown(file)


@needs_node
def test_differences_in_javascript_of_an_untrained_model(tmp_path):
    model = untrained_subtraction(tmp_path / "untrained.safetensors")
    problems = model.solver.task.problems([(604, 87), (5, 5), (100, 0)])
    assert_equals_the_package(model, problems)


@needs_node
@pytest.mark.parametrize("file", FILES[:2], ids=lambda file: file.stem)
def test_an_untrained_model_is_as_unsure_as_in_the_package(repository, file):
    solver = load_solver(repository / file, device="cpu")
    model = reinitialised(solver.predictor.model)
    solver.predictor.model.load_state_dict(model.state_dict())
    text = page([Shown("untrained", solver, model.state_dict(), {})])
    predictor = CellPredictor(solver.predictor.model)
    predictor.model.double()  # as JavaScript computes
    problems = solver.task.problems([(2539, 839)])
    (found,) = worked(text, problems)
    drawing = solver.draw(problems)
    asked = (drawing.canvases == BLANK) & ~drawing.given
    asked[:, : drawing.given_rows[0]] = asked[:, len(found["symbols"]) :] = False
    pages = np.where(asked, np.uint8(13), drawing.canvases)
    said = predictor.trace(pages, pages)
    canvas = below(np.array(found["symbols"]), said.answers[0])
    np.testing.assert_array_equal(canvas, said.answers[0])
    here = asked[0, : len(found["symbols"])]
    probability = said.curves[0].confidence[::-1]
    np.testing.assert_allclose(np.array(found["probability"])[here], probability, atol=1e-5)
    sure = np.array(found["sure"])[here].prod()
    np.testing.assert_allclose(sure, predictor(pages).confidence[0], atol=1e-5)


@needs_node
@pytest.mark.parametrize("file", [FILES[i] for i in (0, 1, 3, 4)], ids=lambda one: one.stem)
def test_a_disturbed_canvas_heals_as_in_the_package_step_by_step(repository, file):
    model = shown(repository / file)
    net, solver = model.solver.predictor.model, model.solver
    problems = solver.task.problems([(39, 8)])
    text = page([model])
    (upright,) = worked(text, problems)
    symbols = np.array(upright["symbols"], dtype=np.uint8)
    drawing = solver.draw(problems)
    rows = np.flatnonzero(drawing.unknown[0].any(axis=1))
    asked = ~drawing.given[0, : len(symbols)] & np.isin(np.arange(len(symbols)), rows)[:, None]
    tokens = torch.from_numpy(np.where(asked, MASK, symbols)[None])
    loop = Loop(net, tokens)
    loop.state = net.random_state(loop.context, torch.Generator().manual_seed(0))

    def cells(state: CellState) -> list[list[dict]]:
        names = list(net.signals)
        return [
            [
                {"symbol": symbol, "signals": {**dict(zip(names, passed, strict=True)), "": 1}}
                for symbol, passed in zip(*row, strict=True)
            ]
            for row in zip(state.symbols[0].tolist(), state.messages[0].tolist(), strict=True)
        ]

    (found,) = worked(text, problems, state=cells(loop.state))
    assert found["bound"] == int(net.settling_steps(loop.context).max())
    assert 3 < len(found["states"]) <= found["bound"]
    for state in found["states"]:
        loop.step()
        assert state == cells(loop.state)
    assert [[cell["symbol"] for cell in row] for row in state] == symbols.tolist()
    assert found["healed"]  # from each cell with a 1, and from a shaken canvas
    assert len(found["lengths"]) == asked.sum() + 1
    assert 0 < max(found["lengths"]) <= found["bound"]
    assert found["known"] <= 50


@needs_node
def test_every_control_of_the_page_works(repository, tmp_path):
    """The scripts run on elements that store what is written to them, see `browse.js`."""
    right = shown(repository / SHIPPED)
    weights = reinitialised(right.solver.predictor.model).state_dict()
    models = [right, Shown("untrained", right.solver, weights, {}), shown(repository / FILES[3])]
    people = shown(repository / "docs/models/tiny-seed0.safetensors")._replace(name="people")
    differences = untrained_subtraction(tmp_path / "differences.safetensors")
    (tmp_path / "page.html").write_text(page([*models, people, differences]))
    ran = subprocess.run(
        ["node", Path(__file__).with_name("browse.js"), tmp_path / "page.html"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert "correct on all 1,204,976 possible inputs" in found["solved"]["about"]
    assert "123 × 456 = 56088 (correct, by exact arithmetic)" in found["solved"]["works"]
    assert "Row 4, column 5 from the rightwrites 5" in found["solved"]["cell"]
    assert "producta digit of the row's product" in found["solved"]["glossary"]
    finished = "123 × 456 = 56088 (correct, by exact arithmetic)"
    assert found["solved"]["status"] == finished
    assert found["announced"] == [finished]  # once, at the end
    assert found["walked"]["status"] == "Row 4, column 6 from the right, writes nothing"
    assert found["solved"]["count"] == found["played"]["count"] == "18 of 18 cells"
    assert found["third"]["count"] == "3 of 18 cells"
    assert "is not computed yet" not in found["third"]["cell"]
    assert re.match(r"Step 0 of at most 13: \d\d cells not as solved", found["shaken"]["hurt"])
    assert "Disturbed. Until its next step it passes on" in found["shaken"]["cell"]
    assert "123 × 456 = …" in found["shaken"]["works"]
    assert found["shaken"]["healed"] == "" == found["healed"]["hurt"]
    assert found["stepped"]["hurt"].startswith("Step 1 of at most 13")
    assert (found["shaken"]["play"], found["stepped"]["play"]) == ("Pause", "Play")
    healed = r"Healed after \d+ steps? of all cells; at most 13, the longest chain of cells\."
    assert re.fullmatch(healed, found["healed"]["healed"])
    assert "123 × 456 = 56088 (correct" in found["healed"]["works"]
    assert found["untouched"] == {key: found["healed"][key] for key in ("hurt", "healed")}
    assert found["typed"]["hurt"] == "Step 0 of at most 13: 1 cell not as solved"
    assert "writes 9" in found["typed"]["cell"]
    assert found["invalid"] == 1
    assert re.fullmatch(healed, found["mended"]["healed"])
    assert "123 × 456 = 56088 (correct" in found["mended"]["works"]
    assert "Row 3, column 5 from the right" in found["scribbled"]["cell"]
    assert "writes 9" in found["scribbled"]["cell"]
    assert found["scribbled"]["status"] == found["scribbled"]["hurt"]
    assert found["named"] == "One step of all cells on"
    assert found["left"] == {"hurt": "", "healed": "", "count": "18 of 18 cells"}
    assert found["both"]["healed"].startswith("Healed after")
    assert "12 × 34 = 408 (correct" in found["both"]["works"]
    assert "Row 2, column 5 from the right" in found["chosen"]["cell"]
    assert found["played"]["play"] == "Play"
    assert "Use only digits" in found["refused"]["wrong"]
    assert "12 × 34 = 408 (correct" in found["beside"]["works"]
    assert "The two differ, first in row" in found["beside"]["differ"]
    assert found["moved"] == [[[1, 1]], [[0, 2]], [[1, 0]], [[1, 6]], []]
    assert found["address"][0] == "#a=12&b=34&model=people&beside=lattice&view=r90"
    assert found["address"][1:] == ["people", "lattice", False]
    assert found["people"]["works"].count("12 × 34 = 408 (correct") == 2
    assert "proved; tested: in range 500 of 500" in found["people"]["works"]
    assert found["people"]["differ"] == "Both have the same answer."
    assert "people: row 5, column" in found["people"]["cell"]
    assert "lattice: row 3, column" in found["people"]["cell"]
    assert found["people"]["status"].startswith("people: 12 × 34 = 408 (correct")
    assert "1 cell not as solved" in found["apart"]["hurt"]
    assert "lattice: row 2, column" in found["apart"]["cell"]
    assert found["refusals"] == [
        "The address names the model nobody, which this page lacks: it has lattice, untrained, "
        "column-seed0, people, differences.",
        "The address names the view up, which this page lacks: it has "
        + ", ".join(SYMMETRIES)
        + ".",
        "Use only digits, like 2539 x 839.",
        "Write two numbers with x between them, like 2539 x 839.",
        "",
    ]
    assert found["sums"] == ["#a=87&b=604&b=9&model=column-seed0", "87 + 604 + 9"]
    address, *others = found["differences"]
    assert address == "#a=604&b=87&model=differences"
    assert others == ["604 - 87", "", "604 × 87", "604 - 87", "604 × 87", "87y604"]
    assert "2 + 3 = 5 (correct" in found["other"]["works"]
    assert "column-seed0" not in found["measured"]["legend"]
    assert found["measured"]["grid"] == "12" + "1100100" + "2100100"
    assert found["measured"]["interval"].startswith("1 x 2 digits: 2 of 2 correct, 95 % interval")
    assert found["measured"]["status"] == "lattice: 8 of 8 random problems correct."


def test_a_web_page_is_one_small_file_with_escaped_names(repository):
    for file in FILES[:2]:
        text = page([shown(repository / file)])
        assert len(text.encode()) < 2**20
        assert re.findall(r"https?:|src=|href=|import\(|url\(|eval\(", text) == []
        assert "default-src 'none'" in text
    solver = load_solver(repository / FILES[0], device="cpu")
    said = {"proof": {"verdict": "</script><script>alert(1)</script>"}}
    assert page([Shown("evil", solver, {}, said)]).count("</script>") == 6


def test_the_page_has_its_scripts_and_elements():
    """A name that a renaming left behind fails where Node runs all controls."""
    folder = Path(trm.extras.page.__path__[0])
    text = (folder / "page.html").read_text()
    scripts = re.findall(r'<script src="(.+)">', text)
    assert scripts == ["model.js", "cell.js", "healing.js", "grid.js", "page.js"]
    written = "".join((folder / name).read_text() for name in scripts)
    named = {*re.findall(r'byId\("(\w+)"\)', written)}
    assert named <= {*re.findall(r'id="(\w+)"', text)}


def test_a_web_page_of_four_models_is_below_one_mebibyte(repository):
    names = ("untold-neighbours-seed0", "tiny-seed0", "column-seed0")
    files = [SHIPPED, *(repository / f"docs/models/{name}.safetensors" for name in names)]
    text = page([*map(shown, files)])
    assert len(text.encode()) < 2**20
    data = json.loads(re.search(r'id="models">(.*)</script>', text)[1])
    results = [about["results"] for about in data["models"]]
    assert results[0].startswith("proved; tested: in range 500 of 500")
    assert results[1].startswith("tested: in range 264 of 300")
    assert results[2:] == ["proved", "proved"]


@pytest.mark.parametrize("name", ["trm-quick-seed0", "decimal-seed0"])
def test_other_models_are_refused(repository, name):
    other = shown(repository / f"docs/models/{name}.safetensors")
    with pytest.raises(ValueError, match=f"of this package.*: {name} is none"):
        page([shown(repository / FILES[0]), other])


@needs_node
@pytest.mark.parametrize("name", ["r90", "hvt", "h"])
def test_a_turned_canvas_is_solved_as_in_the_package(repository, name):
    model = shown(repository / FILES[0])
    problems = model.solver.task.problems([(2539, 839)])
    (upright,), (found,) = (worked(page([model]), problems, SYMMETRIES[v]) for v in ("e", name))
    asked = np.array([[False] * 8] + [[True] * 7 + [False]] * 3)
    tokens = np.where(asked, MASK, np.array(upright["symbols"], dtype=np.uint8))
    predictor = CellPredictor(model.solver.predictor.model)
    said = predictor(apply(name, tokens)[None].copy()).canvases[0]
    here = apply(name, asked)
    np.testing.assert_array_equal(np.array(found["symbols"])[here], said[here])
    turned_back = apply(invert(name), np.array(found["symbols"]))
    np.testing.assert_array_equal(turned_back[~asked], tokens[~asked])
    assert upright["answer"] == str(2539 * 839) != found["answer"]


# One visit: what a browser shows after each of these actions.
VISIT = """
const scenes = {}, keep = (name) => { scenes[name] = document.body.innerHTML; };
const open = (address) => { history.replaceState(null, "", "#" + address); fromAddress(); };
(async () => {
  keep("solved");
  byId("beside").value = 1; begin(true);
  byId("longest").value = 4; byId("number").value = 5; await measure();
  keep("compared");
  open("123x456"); go(99); byId("shake").onclick(); while (healing) byId("on").onclick();
  keep("healed");
  open("123x456"); works[0].table[1][4].focus(); works[0].table[1][4].dispatchEvent(
    new KeyboardEvent("keydown", { key: "9", bubbles: true })); play(false);
  keep("typed");
  open("2539x839"); byId("model").value = 2; byId("model").onchange(); go(99);
  keep("sums");
  byId("model").value = 0; byId("model").onchange(); open("12y3");
  keep("refused");
  document.body.dataset.scenes = JSON.stringify(scenes);
})();
"""


def test_a_browser_solves_compares_measures_and_heals(repository, tmp_path):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no browser is installed")
    right = shown(SHIPPED)
    weights = reinitialised(right.solver.predictor.model).state_dict()
    models = [right, Shown("untrained", right.solver, weights, {}), shown(repository / FILES[3])]
    text = page(models).replace("</body>", f"<script>{VISIT}</script></body>")
    (tmp_path / "page.html").write_text(text)
    run = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"]
    run += [f"--user-data-dir={tmp_path}/browser", "--dump-dom"]
    run += [f"file://{tmp_path}/page.html#123x456"]
    ran = subprocess.run(run, capture_output=True, text=True, timeout=120)
    (found,) = re.findall('data-scenes="([^"]*)"', ran.stdout)
    scenes = json.loads(html.unescape(found))
    words = {name: re.sub("<[^>]+>", "", scene) for name, scene in scenes.items()}
    assert "123 × 456 = 56088 (correct, by exact arithmetic)" in words["solved"]
    assert scenes["solved"].count("<td") > 30
    assert "Row 4, column 5 from the rightwrites 5" in words["solved"]
    assert "The two differ, first in row 2, column 2 from the right" in words["compared"]
    assert scenes["compared"].count(" differs") >= 2
    measured = 'title="5 of 5 correct, 95 % interval 56.6 to 100.0 %'
    assert scenes["compared"].count(measured) == 16
    assert re.search("Healed after [0-9]+ steps of all cells; at most 13, the ", words["healed"])
    assert "aria-invalid" not in scenes["healed"]
    assert re.search('class="hurt[^>]*aria-invalid="true"[^>]*>9<', scenes["typed"])
    assert "2539 + 839 = 3378 (correct" in words["sums"]
    assert "Use only digits" in words["refused"]


@needs_node
def test_invalid_typed_problems_get_a_hint(repository):
    product = "Write two numbers with x between them, like 2539 x 839."
    total = "Write two numbers or more with + between them, like 87 + 604 + 9."
    hints = [("*", "12", product), ("*", "12x", product), ("*", "", product)]
    hints += [("*", "12y3", "Use only digits, like 2539 x 839.")]
    hints += [("+", "12", total), ("+", "12+", total)]
    script = """
        const { readProblem } = require(process.argv[1]);
        for (const [sign, text] of JSON.parse(process.argv[2]))
          try { readProblem({ sign, operands: [2, 9] }, text); console.log("none"); }
          catch (error) { console.log(error.message); }
    """
    words = ["node", "-e", script, repository / "trm/extras/page/model.js", json.dumps(hints)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines() == [hint for *_, hint in hints]

"""The page for browsers: its script, run by Node, does what the package does, cell by cell."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import trm.page
from canvas.problems import Problems
from canvas.symbols import BLANK
from trm.checkpoints import SHIPPED
from trm.checkpoints.loading import drawn_anew, load_checkpoint, load_solver, network_weights
from trm.page.page import page
from trm.solving.local_predictor import LocalPredictor
from trm.solving.solver import Solver

MODELS = ("written-seed1", "running-sum-seed0", "column-seed0")
FILES = [SHIPPED, *(Path(f"docs/models/{name}.safetensors") for name in MODELS)]
HARD = [(0, 0), (0, 17), (999999, 999999), (int("6047" * 4), 10**11 - 13)]
needs_node = pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed")


def written(file: Path) -> tuple[Solver, str]:
    """The model of a file, and its page."""
    content, solver = load_checkpoint(file), load_solver(file, device="cpu")
    return solver, page(solver, network_weights(content), content["card"])


def worked(text: str, problems: Problems) -> list[dict]:
    """What the page's model makes of problems."""
    about = json.loads(re.search(r'id="model">(.*)</script>', text)[1])
    script = Path(trm.page.__path__[0], "model.js")
    assert script.read_text() in text
    operands = [[str(number) for number in operands] for operands in problems.to_ints()]
    ran = subprocess.run(
        ["node", Path(__file__).with_name("work.js"), script],
        input=json.dumps({"about": about, "problems": operands}),
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def below(page: np.ndarray, canvas: np.ndarray) -> np.ndarray:
    """A page with the blank rows that a canvas has below it."""
    more = len(canvas) - len(page)
    return np.pad(page, ((0, more), (0, 0)), constant_values=BLANK)


@needs_node
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_whole_pages_are_those_of_the_package(repository, file):
    solver, text = written(repository / file)
    random, lengths = np.random.default_rng(0), ((1, 1), (3, 4), (7, 2), (2, 9), (6, 6))
    drawn = [tuple(random.integers(10**n) for n in pair) for pair in lengths for _ in range(3)]
    problems = solver.task.problems([*drawn, *HARD])
    for found, solution in zip(worked(text, problems), solver.solve(problems), strict=True):
        canvas = below(np.array(found["symbols"]), solution.canvas)
        np.testing.assert_array_equal(canvas, solution.canvas)
        assert int(found["answer"]) == solution.answer == solution.right_answer


@needs_node
@pytest.mark.parametrize("file", FILES[:2], ids=lambda file: file.stem)
def test_a_model_that_knows_nothing_is_wrong_and_unsure_as_in_the_package(repository, file):
    solver = load_solver(repository / file, device="cpu")
    model = drawn_anew(solver.predictor.model)
    solver.predictor.model.load_state_dict(model.state_dict())
    text = page(solver, model.state_dict(), {})
    predictor = LocalPredictor(solver.predictor.model)
    predictor.model.double()  # as JavaScript computes
    problems = solver.task.problems([(2539, 839)])
    (found,) = worked(text, problems)
    drawing = solver.draw(problems)
    asked = (drawing.canvases == BLANK) & ~drawing.given
    asked[:, : drawing.first_step[0]] = asked[:, len(found["symbols"]) :] = False
    pages = np.where(asked, np.uint8(13), drawing.canvases)
    said = predictor.trace(pages)
    canvas = below(np.array(found["symbols"]), said.answers[0])
    np.testing.assert_array_equal(canvas, said.answers[0])
    here = asked[0, : len(found["symbols"])]
    probability = np.exp(said.log_probs)[asked]
    np.testing.assert_allclose(np.array(found["probability"])[here], probability, atol=1e-5)
    sure = np.array(found["sure"])[here].prod()
    np.testing.assert_allclose(sure, predictor(pages).confidence[0], atol=1e-5)


def test_it_is_one_small_file_that_asks_for_no_other(repository):
    for file in FILES[:2]:
        _, text = written(repository / file)
        assert len(text.encode()) < 2**20
        assert re.findall(r"https?:|src=|href=|import\(|url\(|eval\(", text) == []
        assert "default-src 'none'" in text


def test_what_a_file_says_is_no_markup(repository):
    solver = load_solver(repository / FILES[0], device="cpu")
    text = page(solver, {}, {"proof": {"verdict": "</script><script>alert(1)</script>"}})
    assert text.count("</script>") == 3


@pytest.mark.parametrize("name", ["trm-quick-seed0", "lattice-base2-seed0", "decimal-seed0"])
def test_other_models_are_refused(repository, name):
    with pytest.raises(ValueError, match="in base 10 and a layout of this package"):
        written(repository / f"docs/models/{name}.safetensors")


def test_a_browser_shows_it(repository, tmp_path):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no browser is installed")
    (tmp_path / "multiply.html").write_text(written(SHIPPED)[1])
    words = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000")
    address = f"file://{tmp_path}/multiply.html#123x456"
    run = [browser, *words, f"--user-data-dir={tmp_path}/browser", "--dump-dom", address]
    shown = subprocess.run(run, capture_output=True, text=True, timeout=120).stdout
    assert "123 × 456 = 56088 (right, as exact arithmetic says)" in shown
    assert shown.count("<td") > 30
    assert "Row 4, column 5 from the right: writes 5" in re.sub("<[^>]+>", "", shown)

"""Models answer alike whatever other code in the process has set, and leave it as it was."""

import os
import subprocess
import sys
import threading

import lightning as L
import numpy as np
import pytest
import torch
from tiny import PROBLEMS, TASK, figures, small_solvers, uncached

from canvas import symbols
from canvas.canvas_size import Canvas
from trm import evaluate, load_solver, solve
from trm.cells import CellModule
from trm.cells.configs import CellConfig, rule_settings
from trm.cells.model import CellModel
from trm.cells.predictor import CellPredictor
from trm.cells.proof.compare import compare, provable
from trm.checkpoints import SHIPPED
from trm.extras.analysis.lens import read_layers
from trm.extras.analysis.record import cell_attention
from trm.models.configs import GPTConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.recursive import TinyRecursiveModel
from trm.runtime import torch_settings as settings
from trm.runtime.torch_settings import standard_settings
from trm.solving.solver import Solver
from trm.training import GPTModule, IterativeModule
from trm.training.configs import OptimizerConfig, ScheduleConfig
from trm.training.data import CanvasDataModule
from trm.training.step import DepthConfig

DEFAULTS = [torch.bfloat16, torch.float64, "meta"]


@pytest.fixture(params=DEFAULTS, ids=str)
def changed_default(request):
    """Defaults that other code in the process may have set: a dtype, or a device."""
    if isinstance(request.param, str):
        torch.set_default_device(request.param)
    else:
        torch.set_default_dtype(request.param)
    try:
        yield request.param
        if isinstance(request.param, str):
            assert torch.get_default_device().type == request.param
        else:
            assert torch.get_default_dtype() == request.param
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def solved() -> list[tuple[Solver, list[tuple]]]:
    """Small solvers, and their figures before anything is changed."""
    return [(solver, figures(solver)) for solver in small_solvers()]


def test_every_family_solves_alike_whatever_the_defaults(solved, changed_default):
    for solver, expected in solved:
        assert figures(uncached(solver)) == expected


@pytest.mark.parametrize("name", ["shipped", "decimal-seed0.safetensors"])
def test_a_loaded_model_has_the_dtype_of_its_file(changed_default, name, repository):
    file = SHIPPED if name == "shipped" else repository / "docs/models" / name
    solver = load_solver(file, device="cpu")
    weights = solver.predictor.model.state_dict().values()
    assert {w.dtype for w in weights if w.is_floating_point()} == {torch.float32}
    assert {w.device.type for w in weights} == {"cpu"}
    (solution,) = solve(["123x456"], solver)
    assert (solution.answer, solution.exact) == (56088, True)


def test_networks_are_made_in_float32(changed_default):
    rule = TASK.local_rule()
    networks = [
        TinyRecursiveModel(RecursiveConfig(hidden_size=16, num_heads=2, position="fire")),
        GPT(GPTConfig(4, 5, hidden_size=16, num_heads=2, num_layers=1)),
        CellModel(CellConfig(**rule_settings(rule), hidden_size=16, num_heads=2)),
    ]
    for network in networks:
        assert {p.dtype for p in network.parameters()} == {torch.float32}


def test_evaluation_and_analysis_do_not_depend_on_defaults(changed_default, stepping):
    sizes = {"digits_a": [2], "digits_b": [2]}
    grid = evaluate(problems=3, progress=False, accelerator="cpu", **sizes)
    assert grid["models"][0]["cells"][0]["solved"] == "111"
    drawing = stepping.draw_worked(PROBLEMS)
    inputs = np.where(drawing.cells_of_row(0), np.uint8(symbols.MASK), drawing.canvases)[:1]
    for weights in cell_attention(stepping.predictor.model, inputs, 1).values():
        assert weights.dtype == torch.float32
    assert np.isfinite(read_layers(stepping.predictor, inputs[0], [1]).of(drawing.truth[0])).all()


def test_a_proof_does_not_depend_on_defaults(changed_default, binary):
    rule = provable(binary.model, binary.task)
    numbers = binary.comparison.numbers[:200]
    comparison = compare(binary.model, numbers, rule.decide(numbers))
    np.testing.assert_array_equal(comparison.left, binary.comparison.left[:200])
    assert comparison.arithmetic == "float32"


def one_step(family: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """The parameters of a tiny network after two training steps, in a default dtype."""
    assert torch.get_default_dtype() == dtype
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_heads": 2, "num_layers": 1}
    how = {"optimizer": OptimizerConfig(lr=0.01), "schedule": ScheduleConfig()}
    if family == "gpt":
        module = GPTModule(network=GPT(GPTConfig(5, 8, **sizes)), **how)
    elif family == "iterative":
        network = TinyRecursiveModel(RecursiveConfig(5, 8, **sizes, H_cycles=1, L_cycles=1))
        depth = DepthConfig("carry")
        module = IterativeModule(network=network, depth=depth, solve_steps=2, **how)
    else:
        config = CellConfig(**rule_settings(TASK.local_rule()), **sizes)
        module = CellModule(network=CellModel(config), **how)
    canvas = Canvas() if family == "local" else Canvas(5, 8)
    data = CanvasDataModule(TASK, canvas, 4, 2, validation_problems=2)
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    trainer = L.Trainer(max_epochs=1, accelerator="cpu", enable_checkpointing=False, **quiet)
    trainer.fit(module, data)
    return [p.detach() for p in module.parameters()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", ["gpt", "iterative", "local"])
def test_training_ignores_the_default_dtype(family):
    expected = one_step(family, torch.float32)
    torch.set_default_dtype(torch.bfloat16)
    try:
        found = one_step(family, torch.bfloat16)
    finally:
        torch.set_default_dtype(torch.float32)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


@pytest.fixture
def many_threads(monkeypatch):
    """Pretend that nobody has chosen a number of threads, on a machine with four cores."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(settings, "_usual_numbers", lambda: {4})
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def used(monkeypatch, solver: Solver) -> set[int]:
    """Numbers of threads while a solver solves."""
    numbers = set()
    layer = solver.predictor.model.layers[0]
    name = "after" if hasattr(layer, "after") else "forward"
    original = getattr(layer, name)

    def noted(*args, **more):
        numbers.add(torch.get_num_threads())
        return original(*args, **more)

    monkeypatch.setattr(layer, name, noted)
    solver = uncached(solver)
    if isinstance(solver.predictor, CellPredictor):
        monkeypatch.setattr(solver.predictor, "may_look_up", False)  # a table needs no network
    solver.solve(PROBLEMS)
    return numbers


def test_a_cell_model_works_on_one_thread_and_others_on_all(
    solved, many_threads, monkeypatch, shipped
):
    assert used(monkeypatch, shipped) == {1}
    assert used(monkeypatch, solved[1][0]) == {4}
    assert torch.get_num_threads() == 4


def test_a_number_of_threads_that_the_user_has_chosen_stays(many_threads, monkeypatch, shipped):
    torch.set_num_threads(3)
    assert used(monkeypatch, shipped) == {3}
    torch.set_num_threads(4)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert used(monkeypatch, shipped) == {4}


def test_threads_are_restored_after_nesting_and_errors(many_threads):
    seen = []

    def beside():
        with standard_settings(1):
            seen.append(torch.get_num_threads())
        seen.append(torch.get_num_threads())

    with standard_settings(1):
        with standard_settings(1):
            pass
        assert torch.get_num_threads() == 1
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()
        with pytest.raises(ZeroDivisionError), standard_settings(1):
            1 / 0  # noqa: B018
        assert torch.get_num_threads() == 1
    assert seen == [1, 4]
    assert torch.get_num_threads() == 4


FORKED = """
import os, signal, sys
import numpy as np, torch
torch.set_num_threads(2)
sys.path.insert(0, sys.argv[1])
from tiny import figures, small_solvers, uncached
from trm import load_solver, solve
big = torch.randn(600, 600)
(big @ big).exp().sum()  # starts OpenMP's threads
solver, solvers = load_solver(device="cpu"), small_solvers()
right = [solve("123x456", solver).answer, *map(figures, solvers)]
child = os.fork()
if not child:
    signal.alarm(60)  # ends it where it hangs
    solver, *solvers = map(uncached, (solver, *solvers))
    again = [solve("123x456", solver).answer, *map(figures, solvers)]
    loaded = solve("98x76").answer == 7448
    os._exit(0 if again == right and loaded else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_is_forked_after_solving_solves_as_well(repository):
    environment = os.environ | {"PYTHONPATH": str(repository)}
    environment.pop("OMP_NUM_THREADS", None)
    words = [sys.executable, "-c", FORKED, repository / "tests/helpers"]
    ran = subprocess.run(words, env=environment, capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()

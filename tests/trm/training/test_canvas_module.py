import random
from types import SimpleNamespace

import lightning as L
import numpy as np
import pytest
import torch
from oracle import Oracle
from tiny import tiny_module

from canvas.drawing import row_steps
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from trm.cells import CellConfig, rule_settings
from trm.checkpoints import CHECKPOINT_KEY
from trm.models import RecursiveConfig, TinyRecursiveModel
from trm.training.canvas_module import CanvasModule
from trm.training.configs import OptimizerConfig, ScheduleConfig
from trm.training.data import Canvas, CanvasDataModule
from trm.training.iterative_module import IterativeModule
from trm.training.step import DepthConfig, DepthStage


def some_problems():
    problems = Problems.from_ints([(12, 34), (5, 6), (7, 80)])
    return problems, Multiplication("lattice").canvas_layout.draw_worked(problems, 4, 7)


def evaluated(mine: IterativeModule, split: str) -> dict[str, float]:
    figures: dict[str, float] = {}
    mine.log = lambda name, value, **_: figures.update({name: value})
    getattr(mine, f"on_{split}_epoch_start")()
    getattr(mine, f"{split}_step")(some_problems(), 0)
    mine.gathered = lambda own: [own]
    getattr(mine, f"on_{split}_epoch_end")()
    return figures


def test_figures_count_each_problem_once_on_several_devices():
    mine, figures = tiny_module(), {}
    mine.log = lambda name, value, **_: figures.update({name: value})
    mine._totals = {"validation/solved": (33.0, 33), "validation/loss": (4.0, 33)}
    other = {"validation/solved": (31.0, 32), "validation/loss": (2.0, 32)}
    mine.gathered = lambda own: [own, other, {}]  # the third had no problem
    mine.on_validation_epoch_end()
    assert figures == {"validation/solved": 64 / 65, "validation/loss": 6 / 65}
    mine.on_validation_epoch_start()
    assert mine._totals == {}


@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_correct_and_confident_predictor_scores_1(split, monkeypatch):
    mine, oracle = tiny_module(), Oracle()
    oracle.learn(some_problems()[1], confidence=0.9)
    monkeypatch.setattr(mine, "predictor", lambda: oracle)
    figures = evaluated(mine, split)
    assert figures.pop(f"{split}/supervision_steps") == 2
    assert figures.pop(f"{split}/loss") > 0  # of the model itself
    assert len(figures) == 5
    assert set(figures.values()) == {1.0}


@pytest.mark.parametrize(
    ("depth", "steps", "losses"),
    [
        (DepthConfig(no_grad_steps=(1, 6), supervised_steps=2, random_start=0.9), 5, 2),
        (DepthConfig("carry", halt_max_steps=4), 4, 4),
    ],
)
def test_the_loss_on_problems_leaves_nothing_to_chance(depth, steps, losses, monkeypatch):
    mine = tiny_module(depth=depth).eval()
    _, drawing = some_problems()
    calls = []
    for name in ("iterate", "read"):
        real = getattr(mine.model, name)
        monkeypatch.setattr(
            mine.model, name, lambda *args, r=real, n=name: (calls.append(n), r(*args))[1]
        )
    loss, weight = mine.loss_on(drawing)
    assert (calls.count("iterate"), calls.count("read")) == (steps, losses)
    assert weight == 3
    parts = [mine.loss_on(drawing[np.array([i])])[0] for i in range(3)]
    assert loss == pytest.approx(np.mean(parts), rel=1e-5)


def test_a_setting_missing_in_a_checkpoint_is_its_default():
    checkpoint: dict = {}
    tiny_module().on_save_checkpoint(checkpoint)
    del checkpoint[CHECKPOINT_KEY]["model"]["skip_blank"]
    tiny_module().on_load_checkpoint(checkpoint)
    with pytest.raises(ValueError, match=r"skip_blank False \(here True\)"):
        tiny_module({"skip_blank": True}).on_load_checkpoint(checkpoint)
    checkpoint[CHECKPOINT_KEY]["network"] = "trm.models.gpt.GPT"
    with pytest.raises(ValueError, match=r"network trm.models.gpt.GPT \(here trm"):
        tiny_module().on_load_checkpoint(checkpoint)


@pytest.fixture
def compilations(monkeypatch) -> list[dict]:
    """Compiles without code generation, and keeps the settings of each call."""
    calls, compiled = [], torch.compile

    def watched(function, **settings):
        calls.append(settings)
        return compiled(function, backend="eager", **settings)

    monkeypatch.setattr("torch.compile", watched)
    torch.compiler.reset()
    return calls


def set_up(mine: IterativeModule, *stages: str) -> IterativeModule:
    data = CanvasDataModule(Multiplication(), Canvas(4, 7))
    counted = {"max_epochs": 1, "current_epoch": 0, "global_step": 0, "log_every_n_steps": 0}
    mine._trainer = SimpleNamespace(datamodule=data, **counted)
    for stage in stages:
        mine.setup(stage)
    return mine


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # the compiler looks at it
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_a_compiled_module_learns_what_a_plain_one_does(compilations):
    steps, depth = row_steps(some_problems()[1]), DepthConfig("carry")
    names = ("inputs", "labels", "answer")
    batch = {name: torch.from_numpy(getattr(steps, name)) for name in names}
    batch["seeds"] = torch.arange(len(steps.inputs))
    losses, weights = [], []
    for compile in (False, True):
        mine = set_up(tiny_module(depth=depth, compile=compile), "fit")
        optimizer = torch.optim.SGD(mine.parameters(), lr=0.1)
        for _ in range(3):
            loss = mine.training_step(batch, 0)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss)
        weights.append(mine.state_dict())
    assert compilations == [{"dynamic": True}]  # canvases of any size
    torch.testing.assert_close(losses[0], losses[1])
    assert list(weights[0]) == list(weights[1])  # checkpoints of one are checkpoints of the other
    for key, value in weights[0].items():
        torch.testing.assert_close(weights[1][key], value)


def test_solving_with_its_shrinking_batches_is_not_compiled(compilations, monkeypatch):
    mine = set_up(tiny_module(compile=True), "fit")
    monkeypatch.setattr(mine, "_compiled", {(): None})  # would fail if called
    assert mine.predictor().model is mine.model
    assert "iterate" not in vars(mine.model)
    assert evaluated(mine, "validation")["validation/solved"] == 0


@pytest.mark.parametrize("name", ["validated", "more", "add"])
def test_a_released_name_of_a_method_says_its_new_one(name):
    with pytest.raises(TypeError, match=rf"Mine\.{name}_figures is {name}_metrics now: rename"):
        type("Mine", (CanvasModule,), {f"{name}_figures": lambda *_: {}})


def test_metrics_are_added_by_the_released_name():
    module = tiny_module()
    with pytest.warns(DeprecationWarning, match="add_figures is add_metrics now"):
        module.add_figures("validation", {"mine": (0.5, 4)})
    assert module._totals == {"validation/mine": (2.0, 4)}


def test_a_module_checks_its_data_in_any_trainer(fit, tmp_path):
    with pytest.raises(ValueError, match="keeps samples from batch to batch"):
        fit(tmp_path, module=tiny_module(depth=DepthConfig("carry")))


def test_a_module_checked_by_the_command_is_checked_once():
    mine, checked = tiny_module(), []
    mine.check = checked.append
    set_up(mine, "fit", "test")
    assert checked == [mine.data]
    mine.checked = True
    set_up(mine, "fit")
    assert len(checked) == 1


def test_the_first_epochs_take_fewer_cycles_of_the_same_weights(monkeypatch):
    stages = [DepthStage(2, H_cycles=1, L_cycles=2, no_grad_steps=(3, 3), supervised_steps=4)]
    depth = DepthConfig(no_grad_steps=(1, 1), supervised_steps=2, stages=stages)
    mine = set_up(tiny_module({"H_cycles": 2, "L_cycles": 3}, depth=depth))
    seen = []

    def step(model, batch, no_grad, supervised, *_):
        assert model.layers is mine.model.layers
        cycles = model.config.H_cycles, model.config.L_cycles
        seen.append((*cycles, no_grad, supervised))
        return {"loss": torch.zeros(())}

    monkeypatch.setattr("trm.training.iterative_module.fresh_step", step)
    for epoch in range(4):
        mine._trainer.current_epoch = epoch
        mine.training_step({"seeds": torch.arange(2)}, 0)
    assert seen == [(1, 2, 3, 4)] * 2 + [(2, 3, 1, 2)] * 2
    assert (mine.model.config.H_cycles, mine.model.config.L_cycles) == (2, 3)


def test_steps_without_gradient_follow_from_the_batch(monkeypatch):
    mine, seen = set_up(tiny_module(depth=DepthConfig(no_grad_steps=(1, 9)))), []

    def step(model, batch, no_grad, *_):
        seen.append(no_grad)
        return {"loss": torch.zeros(())}

    monkeypatch.setattr("trm.training.iterative_module.fresh_step", step)
    for number in range(40):
        mine.training_step({"seeds": torch.arange(2)}, number)
    assert seen == [random.Random(mine.batch_seed(number)).randint(1, 9) for number in range(40)]
    assert {*seen} == {*range(1, 10)}


def test_a_stage_may_end_at_a_share_of_the_run():
    depth = DepthConfig(stages=[DepthStage(0.25, H_cycles=1), DepthStage(0.5, H_cycles=2)])
    cycles = [depth.at(epoch, 10)[1].get("H_cycles") for epoch in range(10)]
    assert cycles == [1, 1, 1, 2, 2, None, None, None, None, None]
    with pytest.raises(ValueError, match=r"not known: set trainer\.max_epochs"):
        depth.at(0, -1)


def test_stages_of_cycles_that_a_network_lacks_are_refused():
    network, how = tiny_module().model, {"optimizer": OptimizerConfig()}
    network.config, how["schedule"] = SimpleNamespace(L_cycles=1), ScheduleConfig()
    with pytest.raises(ValueError, match="H_cycles, which TinyRecursiveModel does not have"):
        IterativeModule(network, depth=DepthConfig(stages=[DepthStage(1, H_cycles=1)]), **how)


@pytest.mark.filterwarnings("ignore")  # Lightning's, of few workers
def test_a_network_with_too_few_symbols_for_the_base_is_refused(tmp_path):
    task = Multiplication("lattice", base=16, digits_a=(1, 2), digits_b=(1, 1))
    data = CanvasDataModule(task, Canvas(), batch_size=4, batches_per_epoch=1)
    assert CellConfig(**rule_settings(task.local_rule())).vocab_size == 24
    network = TinyRecursiveModel(RecursiveConfig(hidden_size=8, num_heads=2, position="none"))
    how = {"optimizer": OptimizerConfig(), "schedule": ScheduleConfig(), "solve_steps": 1}
    module = IterativeModule(network, depth=DepthConfig(), **how)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = L.Trainer(accelerator="cpu", default_root_dir=tmp_path, **quiet)
    with pytest.raises(ValueError, match=r"base 16 has 24 symbols, .* built for 18: set"):
        trainer.fit(module, data)

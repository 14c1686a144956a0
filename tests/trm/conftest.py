"""Made-up grids of `trm evaluate`, a checkpoint of one's own, tiny models that are proved."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from canvas.addition import Addition
from canvas.cells.local_rule import LocalRule
from canvas.cells.reachable import reachable_op_inputs
from canvas.multiplication import Multiplication
from canvas.task import Task
from canvas.tasks import task_data
from trm.cells.configs import CellConfig, rule_settings
from trm.cells.model import CellModel
from trm.cells.proof.compare import Comparison, compare
from trm.checkpoints import DATA_KEY, SHIPPED
from trm.checkpoints.loading import load_solver
from trm.evaluation.grid import Grid
from trm.evaluation.grid_cells import region
from trm.evaluation.grid_format import FORMAT, KEYS
from trm.evaluation.statistics import Share
from trm.solving.solver import Solver

AXES = ("digits_a", "digits_b")
REFERENCE = Path(__file__).parents[1] / "reference"

Right = Callable[[int, int], float | None]  # digits of a and b to a share, None: not applicable


def made_up_cell(a: int, b: int, where: str, right: float | None, problems: int) -> dict:
    cell: dict[str, Any] = dict.fromkeys(KEYS) | {"row": a, "column": b, "region": where}
    cell |= {"applicable": right is not None, "problems": problems}
    if right is None:
        return cell | {"reason": f"a canvas of {b + 1} x {a + 1} cells is too large"}
    if not problems:
        reason = f"no problem of {a} x {b} digits in base 10 belongs to the test split"
        return cell | {"reason": reason}
    solved, rows = round(right * problems), problems * b
    answered = min(problems, solved + problems // 50)
    forced = round(rows * right ** (1 / b))
    return cell | {
        "height": b + 1,
        "width": a + 1,
        "solutions": Share(solved, problems).data(),
        "answers": Share(answered, problems).data(),
        "rows_free_running": Share(max(solved, round(forced * 0.9)), rows).data(),
        "rows_teacher_forced": Share(forced, rows).data(),
        "steps": 6.5,
        "confidence": 0.5 + right / 2,
        "seconds_per_problem": 0.001 * a * b,
        "solved": "1" * solved + "0" * (problems - solved),
        "answered": "1" * answered + "0" * (problems - answered),
        "flops_per_problem": 1e6 * a * b,
    }


def made_up_grid(
    models: dict[str, Right],
    digits_a: int | Sequence[int] = 5,
    digits_b: int | Sequence[int] = 4,
    trained: tuple[tuple[int, int], tuple[int, int]] = ((1, 3), (1, 2)),
    problems: int = 128,
    seed: int = 0,
    axes: tuple[str, str] = AXES,
    **other: Any,
) -> Grid:
    """A grid of models, each the share of right solutions as a function of the lengths.

    Args:
        models: by name.
        digits_a, digits_b: lengths, or the longest.
        trained: fewest and most digits of a, and of b.
        problems: of each cell but the first.
        seed: which problems.
        axes: what sizes are measured in, where it is not the lengths of two operands.
        other: what else is to stand in every model's entry.
    """
    rows, columns = (
        [*range(1, n + 1)] if isinstance(n, int) else [*n] for n in (digits_a, digits_b)
    )
    ranges = {axis: list(ends) for axis, ends in zip(axes, trained, strict=True)}
    kind = ("multiplication", "lattice") if axes == AXES else ("addition", "column")
    task = {"task": kind[0], "layout": kind[1], "base": 10, "long_bias": 0.0} | ranges
    about = {"family": "recursive", "parameters": 188_322, "model": {"hidden_size": 64}}
    about |= {"solve_steps": 16, "seed": 0, "task": task | other.pop("task", {}), "ranges": ranges}
    about |= {"canvas": {"height": None, "width": None, "margin": 2, "square": False}}
    about |= {"step": 3500, "cost": None, **other}

    def cell(right: Right, a: int, b: int) -> dict[str, Any]:
        # There are 81 pairs of one-digit numbers, a tenth of them held out.
        number = min(problems, 8) if a == b == 1 else problems
        return made_up_cell(a, b, region(ranges, axes, (a, b)), right(a, b), number)

    def model(name: str, right: Right) -> dict[str, Any]:
        file = f"runs/{name}/version_0/checkpoints/best.ckpt"
        found = {"name": name, "checkpoint": file, "sha256": sha256(name.encode()).hexdigest()}
        return found | about | {"cells": [cell(right, a, b) for a in rows for b in columns]}

    packages = {"canvas-trm": "0.1.0", "python": "3.11.9", "torch": "2.13.0"}
    settings = {"split": "test", "axes": list(axes), "rows": rows, "columns": columns}
    settings |= {"problems": problems, "seed": seed, "steps": None, "batch_size": 128, "devices": 1}
    return Grid(
        format=FORMAT,
        created="2025-11-20T12:00:00+00:00",
        versions=packages | {"lightning": "2.6.6", "numpy": "2.3.0"},
        settings=settings,
        models=[model(*one) for one in models.items()],
    )


@pytest.fixture(scope="session")
def make_grid() -> Callable[..., Grid]:
    return made_up_grid


@pytest.fixture(scope="session")
def changed(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes the checkpoint after a change of its content."""

    def write(change: Callable[[dict], Any], name: str = "changed") -> Path:
        content = torch.load(checkpoint, weights_only=True)
        change(content)
        file = tmp_path_factory.mktemp(name) / f"{name}.ckpt"
        torch.save(content, file)
        return file

    return write


@pytest.fixture(scope="session")
def adder(changed: Callable[..., Path]) -> Path:
    """The checkpoint's network, labelled as one that adds two or three numbers."""
    task = task_data(Addition("column", digits=(1, 2), addends=(2, 3)))
    return changed(lambda content: content[DATA_KEY].update(task=task), "adder")


@pytest.fixture(scope="session")
def stepping(repository: Path) -> Solver:
    """A trained model that takes supervision steps: the decimal lattice, up to 4 x 4 digits."""
    return load_solver(repository / "docs/models/decimal-seed0.safetensors", device="cpu")


@pytest.fixture(scope="session")
def shipped() -> Solver:
    """The shipped model, which works in the order of writing."""
    return load_solver(SHIPPED, device="cpu")


@pytest.fixture(scope="session")
def base_2(repository: Path) -> Solver:
    """A proved model; turned canvases have cell inputs beyond its 184."""
    return load_solver(repository / "docs/models/lattice-base2-seed0.safetensors", device="cpu")


@dataclass(frozen=True)
class Trained:
    """A model that is right on all cell inputs, and the comparison with its rule."""

    task: Task
    rule: LocalRule
    model: CellModel
    comparison: Comparison


Learn = Callable[..., Trained]


@pytest.fixture(scope="session", autouse=True)
def _fewer_problems_beside_a_proof():
    """Compare the rule with fewer canvases than a real proof does."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("compare", "latent"):
            patch.setattr(f"trm.cells.proof.{module}.THOROUGH", (500, 50))
        yield


@pytest.fixture(scope="session")
def learn(once: Callable) -> Learn:
    """Trains on all cell inputs of a task, of a base that has few of them.

    Weights of the tasks below are in `tests/reference`. Without such a file the model is trained,
    which takes seconds, and `safetensors.torch.save_file` writes what a file is to hold.
    """

    def trained(task: Task, latent: bool = False, steps: int = 250, **more: int) -> Trained:
        rule = task.local_rule(latent)
        torch.manual_seed(0)
        shape = {"hidden_size": 32, "num_heads": 4, "intermediate_size": 64} | more
        model = CellModel(CellConfig(**rule_settings(rule), **shape))
        numbers = reachable_op_inputs(rule)

        def train(folder: Path) -> None:
            decided = torch.from_numpy(rule.decide(numbers))
            labels = dict(zip(model.outputs, decided.T, strict=True))
            optimiser = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
            inputs = model.reader.decode(torch.from_numpy(numbers))
            for step in range(steps):
                optimiser.param_groups[0]["lr"] = 0.01 * (1 - step / steps)
                parts = model.parts(model.cells(inputs)[0])
                loss = sum(F.cross_entropy(parts[n], labels[n], ignore_index=-1) for n in parts)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            save_file(model.state_dict(), folder / "weights")

        name = f"{task.layout}-{task.base}{'-latent' * latent}-{steps}"
        file = REFERENCE / f"{name}.safetensors"
        file = file if file.exists() else once(name, train) / "weights"
        model.load_state_dict(load_file(file))
        return Trained(
            task, rule, model.eval(), compare(model.eval(), numbers, rule.decide(numbers))
        )

    return trained


@pytest.fixture(scope="session")
def binary(learn: Learn) -> Trained:
    return learn(Multiplication(base=2, layout="lattice", digits_a=(1, 4), digits_b=(1, 4)))


@pytest.fixture(scope="session")
def latent_model(learn: Learn) -> tuple[CellModel, Task]:
    """A model that learned its carry with hints, with the config of one without; and its task."""
    task = Multiplication(base=2, layout="lattice", digits_a=(1, 4), digits_b=(1, 4), smallest=0)
    hinted = learn(task, latent=True).model
    codes = {"carry": 4}  # as many as there are classes: none, 0, 1, and one that begins a row
    model = CellModel(replace(hinted.config, codes=codes))
    model.load_state_dict(hinted.state_dict())
    return model.eval(), task


@pytest.fixture(scope="session")
def ternary(learn: Learn) -> Trained:
    """With cycles: H 2, L 1."""
    task = Multiplication(base=3, layout="lattice", digits_a=(1, 3), digits_b=(1, 3))
    return learn(task, H_cycles=2)


@pytest.fixture(scope="session")
def written(learn: Learn) -> Trained:
    """With a cell of several ops."""
    ends = {"digits_a": (1, 3), "digits_b": (1, 3)}
    return learn(Multiplication(base=3, layout="standard", smallest=0, **ends))


@pytest.fixture(scope="session")
def sums(learn: Learn) -> Trained:
    return learn(Addition(base=3, layout="column", digits=(1, 3), addends=(2, 3)))

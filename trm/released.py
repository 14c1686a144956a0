"""Names of earlier versions → names of today: classes, modules and values of settings.

A changed name of version 1.0.0 is a line in one of the three tables, or an alias in its module if
it has not moved. Classes with renamed methods call `canvas.choices.accept_released` or
`refuse_renamed`. Nothing here is imported before a name is used.
"""

import importlib
import importlib.util
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

from trm.registry import load

# Released dotted name of a class or function → its name today. Checkpoints name networks,
# configs name networks and modules, and a proof is of a network and a rule by released names.
RELEASED = {
    "canvas.modular.WavesRule": "canvas.cells.rules.waves.WavesRule",
    "trm.extras.analysis.probe.CellFeatures": "trm.extras.analysis.features.CellFeatures",
    "trm.extras.analysis.probe.Drawn": "trm.extras.analysis.features.Drawn",
    "trm.extras.analysis.probe.Observed": "trm.extras.analysis.features.Observed",
    "trm.extras.analysis.probe.examples": "trm.extras.analysis.features.examples",
    "trm.extras.analysis.probe.joined": "trm.extras.analysis.features.joined",
    "trm.extras.analysis.probe.observe": "trm.extras.analysis.features.observe",
    "trm.extras.analysis.probe.observe_all": "trm.extras.analysis.features.observe_all",
    "trm.models.cell.CellModel": "trm.cells.model.CellModel",
    "trm.models.integer.IntegerCellModel": "trm.cells.integer.IntegerCellModel",
    "trm.models.CellModel": "trm.cells.CellModel",
    "trm.models.IntegerCellModel": "trm.cells.IntegerCellModel",
    "trm.models.CellConfig": "trm.cells.CellConfig",
    "trm.models.IntegerCellConfig": "trm.cells.IntegerCellConfig",
    "trm.models.rule_settings": "trm.cells.rule_settings",
    "trm.models.attention.computes_float32": "trm.cells.precision.computes_float32",
    "trm.models.iterative.Settling": "trm.models.settling.Settling",
    "trm.models.iterative.UNCHANGED_STEPS": "trm.models.settling.UNCHANGED_STEPS",
    "trm.models.iterative.halt_logit": "trm.models.halting.log_odds",
    "trm.models.iterative.named": "trm.models.states.named",
    "trm.models.iterative.unnamed": "trm.models.states.unnamed",
    "trm.models.iterative.where": "trm.models.states.where_samples",
    "trm.models.positions.Alibi": "trm.models.position_biases.Alibi",
    "trm.models.positions.Fire": "trm.models.position_biases.Fire",
    "trm.models.positions.T5": "trm.models.position_biases.T5",
    "trm.models.positions.Shaw": "trm.models.position_biases.Shaw",
    "trm.models.positions.Deberta": "trm.models.position_biases.Deberta",
    "trm.models.positions.Relative2D": "trm.models.position_biases.Relative2D",
    "trm.training.configs.AuxiliaryConfig": "trm.training.auxiliary.AuxiliaryConfig",
    "trm.training.configs.CycleStage": "trm.training.step.DepthStage",
    "trm.training.configs.DepthConfig": "trm.training.step.DepthConfig",
    "trm.training.configs.NegativesConfig": "trm.training.negatives.NegativesConfig",
    "trm.training.CellModule": "trm.cells.CellModule",
    "trm.training.LatentModule": "trm.cells.LatentModule",
    "trm.models.configs.CellConfig": "trm.cells.CellConfig",
    "trm.models.configs.IntegerCellConfig": "trm.cells.IntegerCellConfig",
    "trm.models.configs.rule_settings": "trm.cells.rule_settings",
    "trm.training.samples.CellInputSamples": "trm.cells.samples.CellInputSamples",
    "trm.training.samples.SolutionSamples": "trm.cells.samples.SolutionSamples",
    "trm.training.samples.SolvedProblems": "trm.training.samples.ValidationProblems",
    "trm.extras.sweep.runs.plan": "trm.extras.sweep.planning.plan",
    "trm.extras.sweep.runs.built": "trm.extras.sweep.planning.built",
    "trm.extras.sweep.runs.parameters_of": "trm.extras.sweep.planning.parameters_of",
    "trm.extras.sweep.runs.steps_of": "trm.extras.sweep.planning.steps_of",
    "trm.solving.solution.Vote": "trm.solving.voting.Tally",
    "trm.solving.solver.Moment": "trm.solving.watching.Moment",
    "trm.solving.solver.solve_watched": "trm.solving.watching.solve_watched",
}
# Packages to which modules have moved with their names, and where they were.
_MOVED = (
    ("trm.extras", "trm", "analysis benchmark interop model_card page sharing sweep"),
    ("trm.io", "trm", "config_files csv_records files markdown problem_files"),
    ("trm.runtime", "trm", "devices flops limits precision processes progress torch_settings"),
    ("trm.evaluation", "trm", "grid_cells statistics"),
    ("trm.cells", "trm", "proof"),
    ("trm.cells", "trm.models", "integer neighbour_attention op_inputs quantise shared_classes"),
    ("trm.cells", "trm.training", "latent_module state_merging"),
)
# Released name of a module, or of a package and all in it → its name today.
MODULES = {
    "trm.cells.proof.judge": "trm.cells.proof.compare",
    "trm.checkpoints.proofs": "trm.cells.proof.notes",
    "trm.cells.wavefront": "trm.cells.computing",
    "trm.models.wavefront": "trm.cells.computing",
    "trm.evaluation.names": "trm.evaluation.comparison",
    "trm.families": "trm.registry",
    "trm.figures.analysis": "trm.extras.analysis.figures",
    "trm.figures.inspection": "trm.extras.analysis.inspection_figures",
    "trm.models.cell": "trm.cells.model",
    "trm.models.cell_cache": "trm.cells.cache",
    "trm.models.cell_table": "trm.cells.table",
    "trm.solving.cell_predictor": "trm.cells.predictor",
    "trm.solving.rollout": "trm.solving.rows",
    "trm.solving.voting_settings": "trm.solving.voting",
    "trm.training.carry": "trm.training.published_step",
    "trm.training.cell_module": "trm.cells.module",
    **{f"{was}.{name}": f"{now}.{name}" for now, was, names in _MOVED for name in names.split()},
}
# Released value of a setting → its value today.
VALUES = {"local_nearest": "local_farthest"}
_NEW = RELEASED | VALUES
_OLD = {new: old for old, new in reversed(_NEW.items())}


def today(value: Any) -> Any:
    """Return a text with the classes and values in it by their names of today.

    Example: ``neighbourhood=local_nearest`` → ``neighbourhood=local_farthest``. What is no text
    stays as it is.
    """
    return _renamed(value, _NEW) if isinstance(value, str) else value


def released(text: str) -> str:
    """Return a text with the classes and values in it by their released names, as in files."""
    return _renamed(text, _OLD)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"[\w.]+", lambda word: names.get(word[0], word[0]), text)


def moved(module: str) -> Callable[[str], Any]:
    """Return ``__getattr__`` of a module: it imports what the module had by a released name."""

    def get(name: str) -> Any:
        if (was := f"{module}.{name}") not in RELEASED:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return load(RELEASED[was])

    return get


def lazy(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package that imports names at their first use.

    Args:
        package: its name. It also has the names that it exported once, see `RELEASED`.
        modules: name → the module of the package that has it.
    """

    def get(name: str) -> Any:
        found = modules.get(name)
        return load(f"{package}.{found}.{name}") if found else moved(package)(name)

    return get, lambda: [*vars(sys.modules[package]), *modules]


class ReleasedModules:
    """Imports modules that have moved by their released names, with a warning of the new name.

    It is a finder and a loader. `importlib.abc` has base classes of both, and takes as long to
    import as all of this package that a command needs.
    """

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return how to import a released name, and nothing for other names."""
        if (moved_to := _module_today(name)) is None:
            return None
        found = importlib.util.find_spec(moved_to)
        return found and ModuleSpec(name, self, origin=found.origin)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to Python to create an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of today in place of an empty one."""
        name = module.__name__
        moved_to = str(_module_today(name))
        warnings.warn(f"{name} is {moved_to} now", DeprecationWarning, stacklevel=2)
        sys.modules[name] = importlib.import_module(moved_to)

    def get_code(self, name: str) -> CodeType | None:
        """Return the code of a module that runs by ``python -m``."""
        found = importlib.util.find_spec(str(_module_today(name)))
        return found.loader.get_code(found.name)  # type: ignore[union-attr]


def _module_today(name: str) -> str | None:
    for old, new in MODULES.items() if name.startswith("trm.") else ():
        if name == old or name.startswith(f"{old}."):
            return new + name.removeprefix(old)
    return None

"""Grid of an evaluation: accuracy by the sizes of problems, its reader, and shares over cells."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from augment.symmetry import SYMMETRIES
from canvas.task import Task
from trm.evaluation.diagnosis import OTHER
from trm.evaluation.grid_cells import (
    BOTH,
    FAMILY,
    INSIDE,
    LEFT_OUT,
    PRIMED,
    REGIONS,
    SHORTER,
    UNKNOWN,
    Key,
)
from trm.evaluation.grid_format import (
    AXES,
    FORMAT,
    GRID,
    KEYS,
    LENGTHS,
    MEANS,
    OUTCOMES,
    PUZZLES_ABOUT,
    SHARES,
    Counts,
    GridData,
)
from trm.evaluation.statistics import Share
from trm.io.files import read_object, validated, versions
from trm.runtime.precision import FLOAT32
from trm.solving.predictor import Sampling
from trm.solving.voting import RANDOM

LABELS = AXES | {FAMILY: "family"}  # meanings of the axes

Model = dict[str, Any]  # a `trm.evaluation.grid_format.ModelData`
Cell = dict[str, Any]  # a `trm.evaluation.grid_format.CellData`


class Grid(dict[str, Any]):
    """Contents of ``grid.json``, a `GridData`, for one evaluation or several side by side."""

    @property
    def models(self) -> list[Model]:
        """Entries of the models, each a `ModelData`."""
        return self["models"]

    @property
    def axes(self) -> tuple[str, str]:
        """Measures of sizes along rows and columns."""
        first, second = self["settings"]["axes"]
        return first, second

    @property
    def regions(self) -> list[str]:
        """Regions that get a column in a table.

        With families there are none by operand, and with texts there are those that occur.
        """
        found = {cell["region"] for model in self.models for cell in model["cells"]}
        known = [INSIDE, BOTH] if self.axes[0] == FAMILY else [*REGIONS]
        if self.axes == ("length", "texts"):
            known = [one for one in known if one in found]
        others = (other for other in (PRIMED, LEFT_OUT, SHORTER, UNKNOWN) if other in found)
        return [*([] if found == {UNKNOWN} else known), *others]

    @property
    def share_shown(self) -> str:
        """Share that models are compared by: solutions, or answers if a model has only these."""
        for model in self.models:
            if {of for of in OUTCOMES if any(cell[of] for cell in model["cells"])} == {"answers"}:
                return "answers"
        return "solutions"

    @property
    def equal_lengths(self) -> bool:
        """True if lengths are those of cells whose two operands are equally long."""
        pairs = {key for model in self.models for key in cells_of(model) if key[0] == key[1]}
        return self.axes == ("digits_a", "digits_b") and len(pairs) > 1

    @property
    def unit(self) -> str:
        """Unit of the length of texts, such as letters, or rows of mazes."""
        return next((model["unit"] for model in self.models if "unit" in model), Task.unit)

    @property
    def labels(self) -> dict[str, str]:
        """Meanings of the axes."""
        own = {} if self.unit == Task.unit else {"length": f"{self.unit} of a problem"}
        return LABELS | own

    @property
    def length_in_words(self) -> str:
        """Meaning of the length in figures by length."""
        if self.axes[0] == "length":
            return self.labels["length"]
        return "digits of each operand" if self.equal_lengths else "digits of the longest operand"

    @property
    def shows_steps(self) -> bool:
        """True if steps are of interest: from random states, or beside a known bound.

        `steps.png` is drawn then.
        """
        cells = [cell for model in self.models for cell in model["cells"] if cell["steps"]]
        noisy = any(self.settings_of(m).get("start", "initial") == "noise" for m in self.models)
        return bool(cells) and (noisy or any(cell.get("longest_chain") for cell in cells))

    def pooled(self, cells: Iterable[Cell], share: str | None = None) -> Share:
        """Return one of the shares over some cells; by default `share_shown`."""
        return pooled(cells, share or self.share_shown)

    @property
    def kinds(self) -> list[str]:
        """Kinds of errors in the order of the first model that has each; `OTHER` comes last."""
        cells = (cell for model in self.models for cell in model["cells"])
        found = dict.fromkeys(kind for cell in cells for kind in cell.get("errors") or ())
        return sorted(found, key=lambda kind: kind == OTHER)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Row of each model and size as in ``grid.csv``; None: not known.

        Only ``grid.json`` has what is no single number, such as results per problem.
        """
        (first, second), kinds = self.axes, self.kinds
        rows = []
        for model in self.models:
            about = {"model": model["name"], "seed": model.get("seed")}
            about["asked"] = self.settings_in_words(model)
            for cell in model["cells"]:
                row = about | {first: cell["row"], second: cell["column"]}
                row |= {key: cell[key] for key in ("region", "applicable", "problems")}
                for share in SHARES:
                    row |= _columns(share, cell[share])
                found = {kind: (cell.get("errors") or {}).get(kind, {}) for kind in kinds}
                row |= {f"errors_{kind}": one.get("right") for kind, one in found.items()}
                row |= {key: cell.get(key) for key in MEANS}
                row |= _columns("readable", cell.get("readable"))
                row |= {f"errors_{kind}_chance": one.get("chance") for kind, one in found.items()}
                rows.append(row | {"reason": cell["reason"]})
        return rows

    def settings_of(self, model: Model) -> dict[str, Any]:
        """Return a model's evaluation settings: its own in a comparison, else the grid's."""
        return model.get("settings") or self["settings"]

    def all_of(self, setting: str) -> list[str]:
        """Return the distinct values of an evaluation or task setting, in order of the models."""
        return list(
            dict.fromkeys(str((self.settings_of(m) | m["task"]).get(setting)) for m in self.models)
        )

    def settings_in_words(self, model: Model) -> str:
        """Describe a model's evaluation in a line; empty: the checkpoint's steps and one view."""
        settings = self.settings_of(model)
        voting, parts = settings.get("voting") or {}, []
        if steps := settings.get("steps"):
            parts.append(f"at most {steps} supervision steps a row")
        if settings.get("start", "initial") == "noise":
            parts.append("from random states")
        if sampling := settings.get("sampling"):
            parts.append(str(Sampling(**sampling)))
        vote = (voting.get("vote") or "").replace("_", " ")
        if voting:
            symmetries = voting["symmetries"] or model.get("symmetries") or ()
            kind = f" of {','.join(symmetries)}" if voting["symmetries"] else ""
            if {*symmetries} == {"e"}:
                kind = " (shifts alone)"  # as all views of a GPT
            elif len(symmetries) == len(SYMMETRIES):
                kind = " (all symmetries, and shifts)"
            shown = [cell["views"] for cell in model["cells"] if cell.get("views")]
            fewer = [f"{views:g}" for views in (min(shown), max(shown))] if shown else []
            there = " to ".join(dict.fromkeys(fewer))
            few = shown and min(shown) < voting["views"]
            if orientation := voting.get("orientation") or voting.get("given"):  # in earlier files
                turned = "randomly turned" if orientation == RANDOM else f"turned ({orientation})"
                guesses = len(voting["symmetries"] or SYMMETRIES)
                both = f", both orders vote by {vote}" if voting["orders"] > 1 else ""
                parts.append(
                    f"canvases given {turned}, the surest of {guesses} guesses of it{both}"
                )
                voting = {}
        if voting:
            parts.append(
                f"{voting['views']} views{kind}" + (f" requested, {there} available" if few else "")
            )
            if (rollouts := voting.get("rollouts", 1)) > 1:
                parts.append(f"{rollouts} rollouts with noise {voting['noise']:g}")
            if voting["orders"] > 1:
                parts.append(f"orders {voting['orders']}")
            parts.append(f"{vote} vote on each {voting['per']}")
        if (precision := settings.get("precision", FLOAT32)) != FLOAT32:
            parts.append(f"computed in {precision}")
        return ", ".join(parts)

    @property
    def problems_in_words(self) -> str:
        """Number, split and seed of the problems, in a line."""
        number, split, seed = (" or ".join(self.all_of(k)) for k in ("problems", "split", "seed"))
        counts = [c["problems"] for m in self.models for c in m["cells"] if c["applicable"]]
        fewest = min(counts, default=0)
        few = counts and fewest < min(map(int, self.all_of("problems")))
        fewer = f" (as few as {fewest} where lengths have no more)" if few else ""
        return f"{number} problems a cell{fewer}, {split} split, seed {seed}"

    @property
    def differing_problems(self) -> str:
        """Differences of the models' problems, like ``seed 0 or 1``; empty: the same problems."""
        found = {key: self.all_of(key) for key in ("seed", "split", "problems", "base")}
        return "; ".join(f"{key} {' or '.join(v)}" for key, v in found.items() if len(v) > 1)

    @property
    def caveats(self) -> list[str]:
        """Warnings about comparisons of the models, in sentences."""
        differing = self.differing_problems
        warnings = [f"NOT THE SAME PROBLEMS: {differing}."] if differing else []
        settings = {m["name"]: self.settings_in_words(m) or "in one view" for m in self.models}
        if len(set(settings.values())) > 1:
            listed = "; ".join(f"{name}: {how}" for name, how in settings.items())
            warnings.append(f"DIFFERENT SETTINGS: {listed}.")
        return warnings


def _columns(share: str, counts: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the columns of a share, like ``solutions`` and ``solutions_right``."""
    known = counts or dict.fromkeys(Counts.__annotations__)
    value = known["right"] / known["total"] if known["total"] else None
    return {share: value} | {f"{share}_{key}": known[key] for key in Counts.__annotations__}


def read_grid(path: str | Path) -> Grid:
    """Read the grid in a folder of `trm evaluate`, or in a file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, or is no grid; or the evaluation is of puzzles.
    """
    from pydantic import TypeAdapter

    file = grid_file(path)
    if not file.is_file() and (Path(path) / PUZZLES_ABOUT).is_file():
        raise ValueError(
            f"{path} has figures of puzzles, and trm report compares those of arithmetic"
        )
    if not file.is_file():
        raise FileNotFoundError(
            f"there is no {file}: give a folder in which trm evaluate has finished"
        )
    data = read_object(file)
    hint = "is not what trm evaluate writes (run it once more; finished cells are kept)"
    validated(TypeAdapter(GridData), data, f"{file} {hint}")
    return Grid(data or {})


def new_grid(settings: dict[str, Any], models: Sequence[Model]) -> Grid:
    """Return the contents of a new ``grid.json``, with the present time and versions."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"format": FORMAT, "created": created, "versions": versions()}
    return Grid(about, settings=settings, models=list(models))


def grid_file(path: str | Path) -> Path:
    """Return the grid's file for a folder of `trm evaluate`, or for the path of a file."""
    return Path(path) / GRID if Path(path).is_dir() else Path(path)


def cells_of(model: Model) -> dict[Key, Cell]:
    """Return a model's cells by (row, column)."""
    return {(cell["row"], cell["column"]): cell for cell in model["cells"]}


def cells_in(model: Model, region: str) -> list[Cell]:
    """Return a model's cells of a region."""
    return [cell for cell in model["cells"] if cell["region"] == region]


def cells_by_length(grid: Grid, model: Model) -> dict[int, list[Cell]]:
    """Return a model's cells by length, from short to long.

    If several cells have operands of equal lengths (`Grid.equal_lengths`), these alone; else the
    length is that of the longest operand. Lengths without problems are left out.
    """
    cells: dict[int, list[Cell]] = {}
    for size, cell in cells_of(model).items():
        sizes = zip(grid.axes, size, strict=True)
        length = max(int(n) for axis, n in sizes if axis in LENGTHS)
        if not grid.equal_lengths or size[0] == size[1]:
            cells.setdefault(length, []).append(cell)
    return {n: some for n, some in sorted(cells.items()) if grid.pooled(some).total}


def by_length(grid: Grid, model: Model, key: str | None = None) -> dict[int, float]:
    """Return the accuracy by length, or the mean of a figure; lengths without it are left out."""
    found = {
        n: mean_of(cells, key) if key else grid.pooled(cells).value
        for n, cells in cells_by_length(grid, model).items()
    }
    return {n: value for n, value in found.items() if value is not None}


def empty_cell(size: Key, where: str) -> Cell:
    """Return a cell in a region, a `CellData`; it is applicable, without problems and figures."""
    about = {"row": size[0], "column": size[1], "region": where}
    return dict.fromkeys(KEYS) | about | {"applicable": True, "problems": 0}


def mean_of(cells: Iterable[Cell], key: str) -> float | None:
    """Return the mean of a figure over the problems of some cells; None: it is not known."""
    known = [(cell[key], cell["problems"]) for cell in cells if cell.get(key) is not None]
    total = sum(n for _, n in known)
    return sum(value * n for value, n in known) / total if total else None


def in_order(labels: Iterable[Any]) -> list[Any]:
    """Sort the rows or columns of a grid: sizes from small to large, families as they come."""
    found = list(dict.fromkeys(labels))
    return found if isinstance(next(iter(found), 0), str) else sorted(found)


def pooled(cells: Iterable[Cell], share: str = "solutions") -> Share:
    """Return one of the `SHARES` over all cells; 0 of 0 where no cell has it."""
    known = [counts for cell in cells if (counts := cell[share])]
    return Share(sum(c["right"] for c in known), sum(c["total"] for c in known))


def outcomes(text: str) -> np.ndarray:
    """Return which problems are correct, bool [N]: ``101`` → True, False, True."""
    return np.frombuffer(text.encode(), np.uint8) == ord("1")


def trust(cells: Iterable[Cell]) -> tuple[np.ndarray, np.ndarray]:
    """Return the confidence in each whole solution, float [N], and whether it is correct, bool [N].

    Cells without the confidence of each problem are left out.
    """
    known = [cell for cell in cells if cell.get("confidences")]
    confidence = [p for cell in known for p in cell["confidences"]]
    right = outcomes("".join(cell["solved"] for cell in known))
    return np.array(confidence, dtype=float), right


def errors(cells: Iterable[Cell]) -> dict[str, tuple[Share, float]]:
    """Return the share of each kind of error over all cells, and its share by chance.

    Cells without a kind do not count for it: their layouts leave it out.
    """
    found: dict[str, tuple[Share, float]] = {}
    for cell in cells:
        for kind, part in (cell.get("errors") or {}).items():
            before, chance = found.get(kind, (Share(0, 0), 0.0))
            total = before + Share(part["right"], part["total"])
            if part["total"]:
                chance += (part["chance"] - chance) * part["total"] / total.total
            found[kind] = total, chance
    return found

"""A figure over the epochs of a study's runs, and, at their ends, over its settings.

    trm sweep studies/double_descent --output double-descent
    python benchmarks/learning_curves.py double-descent --curve loss --output double-descent.png

Curves are read from the ``metrics.csv`` of the runs: ``validation/CURVE`` of each setting, a thin
line for each seed, and ``train/CURVE`` as dots. Settings are in the order of the study's axis.
``perplexity`` is the exponential of the loss. The last column is relative to the lowest of all.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from trm.figures.style import COLOURS, mark, new_figure, save, tidy

METRICS = "version_*/metrics.csv"


def curve(run: Path, name: str) -> tuple[list[float], list[float]]:
    """Return epochs and values of a curve of a run's last version, from its metrics.csv."""
    split, _, figure = name.partition("/")
    if figure == "perplexity":
        epochs, values = curve(run, f"{split}/loss")
        return epochs, np.exp(values).tolist()
    files = sorted(run.glob(METRICS), key=lambda file: file.stat().st_mtime)
    with files[-1].open(encoding="utf-8") as source:
        rows = [row for row in csv.DictReader(source) if row.get(name)]
    return [1 + float(row["epoch"]) for row in rows], [float(row[name]) for row in rows]


def runs_of(study: Path) -> dict[str, list[Path]]:
    """Return the folders of a study's runs by setting, one for each seed, as the axis orders them.

    Raises:
        SystemExit: there are none.
    """
    found: dict[str, list[Path]] = {}
    for run in sorted(study.glob("runs/*-seed*")):
        if not any(run.glob(METRICS)):
            continue  # not begun
        found.setdefault(run.name.rsplit("-seed", 1)[0], []).append(run)
    if not found:
        raise SystemExit(
            f"learning_curves.py: no runs/NAME-seedN/{METRICS} in {study}: give a sweep's folder"
        )

    def place(name: str) -> tuple[float, str]:
        words = name.rsplit("_", 1)
        number = words[-1].replace(".", "", 1)
        return (float(words[-1]) if number.isdigit() else np.inf), name

    return {name: found[name] for name in sorted(found, key=place)}


def draw(runs: dict[str, list[Path]], name: str) -> Figure:
    """Return the figure: a curve of each run over epochs, and the ends of all over settings."""
    figure = new_figure(11, 4.5)
    over_epochs, over_settings = figure.subplots(1, 2)
    labels = [setting.replace("_", " ") for setting in runs]
    ends: dict[str, list[tuple[float, float]]] = {"validation": [], "train": []}
    for i, (label, seeds) in enumerate(zip(labels, runs.values(), strict=True)):
        style = {**mark(i), "marker": "", "lw": 1.2}
        for number, run in enumerate(seeds):
            shown = "" if number else label  # once in the legend
            over_epochs.plot(*curve(run, f"validation/{name}"), **style, label=shown)
            for split, points in ends.items():
                if values := curve(run, f"{split}/{name}")[1]:
                    # A mean of the last tenth, as single batches of training vary.
                    points.append((i, float(np.mean(values[-max(1, len(values) // 10) :]))))
    for (split, points), shape, colour in zip(ends.items(), "ox", COLOURS, strict=False):
        if points:
            over_settings.plot(*zip(*points, strict=True), shape, color=colour, label=split)
    over_epochs.set(xlabel="epoch", ylabel=f"validation/{name}")
    over_settings.set_xticks(range(len(runs)), labels, rotation=30, ha="right")
    over_settings.set(ylabel=f"{name}, mean of the last tenth")
    for axes in (over_epochs, over_settings):
        tidy(axes)
        axes.legend(fontsize=8)
    return figure


def main() -> None:
    """Draw the figure of a study, and print the lowest and the last value of each run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("study", type=Path, help="folder of `trm sweep --output`")
    add("--curve", default="loss", help="such as loss, cell_accuracy, solved")
    add("--output", type=Path, default=Path("learning-curves.png"))
    arguments = parser.parse_args()
    runs, name = runs_of(arguments.study), arguments.curve
    save(draw(runs, name), arguments.output)
    lines = []
    for setting, seeds in runs.items():
        for run in seeds:
            epochs, values = curve(run, f"validation/{name}")
            low, seed = int(np.argmin(values)), run.name.rsplit("-seed", 1)[1]
            lines.append((setting, seed, values[low], epochs[low], values[-1]))
    least = min(last for *_, last in lines)
    print(f"{'setting':<24} seed  lowest   epoch  last     relative")
    for setting, seed, value, epoch, last in lines:
        numbers = f"{value:<8.4g} {epoch:<6.0f} {last:<8.4g} {last / least:.3f}"
        print(f"{setting:<24} {seed:<5} {numbers}")
    print(f"Figure: {arguments.output}")


if __name__ == "__main__":
    main()

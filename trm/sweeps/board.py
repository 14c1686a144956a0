"""A study in TensorBoard's HParams tab: what is varied, and what came out, nothing else."""

from pathlib import Path

from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from trm.evaluation.grid import BOARD
from trm.sweeps.plan import Plan
from trm.sweeps.report import found

_OURS = ".trm-sweep"  # what the names of our files end in


def write_board(output: Path, plan: Plan) -> None:
    """Write every run that is evaluated, in the place of what was written before.

    Args:
        output: of the study; the page is in its folder ``tensorboard``.
        plan: of the study.
    """
    folder = output / BOARD
    for file in folder.rglob(f"events.out.tfevents.*{_OURS}"):
        file.unlink(missing_ok=True)
    labels = {setting.name: setting.labels for setting in plan.settings}
    results: dict[str, dict[str, float]] = {}
    varied: dict[str, dict[str, str | int]] = {}
    for evaluation in plan.evaluations:
        for point, outcome in found(output, plan, evaluation).items():
            metrics = results.setdefault(point.folder, {})
            varied[point.folder] = {**labels[point.setting], "seed": point.seed}
            for column, share in outcome.shares.items():
                if share.total:
                    metrics[f"{evaluation}/{column}"] = share.value
            if outcome.cost:
                metrics["training/TFLOP"] = outcome.cost["flops"] / 1e12
                metrics["training/minutes"] = outcome.cost["seconds"] / 60
    for name, metrics in results.items():
        with SummaryWriter(str(folder / name), filename_suffix=_OURS) as board:
            # `add_hparams` would write a file of its own name.
            for summary in hparams(varied[name], metrics):
                board._get_file_writer().add_summary(summary)
            for tag, value in metrics.items():
                board.add_scalar(tag, value)

import io
import re
from types import SimpleNamespace

import pytest
from lightning.pytorch.callbacks.progress import rich_progress
from rich.console import Console

from trm.processes import ending_together
from trm.training.lightning_cli import train
from trm.training.progress import TrainingBar

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec"),
    pytest.mark.filterwarnings("ignore:You have overridden `transfer_batch_to_device`"),
    pytest.mark.filterwarnings("ignore:Precision bf16-mixed is not supported by the model summary"),
]


def test_a_terminals_line_has_short_figures_and_counts_epochs_from_one():
    bar = TrainingBar()
    held = {"train/loss": 0.41239, "train/row_accuracy": 0.5, "validation/solved": 0.875}
    held |= {"training_problems/solved": 1.0}
    bar._trainer = SimpleNamespace(max_epochs=12, progress_bar_metrics=held)
    said = bar.get_metrics(bar._trainer, None)
    assert said == {"loss": "0.412", "rows": "50%", "solved": "87.5%"}
    assert bar._get_train_description(1) == "epoch 2/12"
    bar._trainer.max_epochs = -1
    assert bar._get_train_description(1) == "epoch 2"


@pytest.mark.parametrize("columns", [80, 120])
def test_a_run_says_how_far_it_is_in_a_line_that_fits(debug, tmp_path, monkeypatch, columns):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["trm"])
    console = Console(width=columns, file=io.StringIO(), force_terminal=True)
    monkeypatch.setattr("rich._console", console)
    monkeypatch.setattr(rich_progress, "reconfigure", lambda: None)
    words = ["fit", *map(str, debug), "--trainer.max_epochs", "1"]
    with ending_together() as processes:
        trainer = train(words, processes).trainer
    assert type(trainer.progress_bar_callback) is TrainingBar
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    lines = [line.rstrip() for line in re.split(r"[\r\n]", shown)]
    assert any(re.match(r"epoch 1/1 .* 5/5 .* loss: .* rows: .*%$", line) for line in lines)
    assert max(map(len, lines)) <= columns
    assert "v_num" not in shown
    assert "FLOPs" not in shown

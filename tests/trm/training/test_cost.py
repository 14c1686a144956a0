import lightning as L
import pytest
import torch

from trm.checkpoints import COST_KEY
from trm.evaluation.grid_models import describe
from trm.training.cost import Cost

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec"),
    pytest.mark.filterwarnings("ignore:You have overridden `transfer_batch_to_device`"),
]


def test_all_batches_are_paid_for_when_only_some_are_counted(fit, tmp_path):
    every_batch, every_third = Cost(every=1), Cost(every=3)
    fit(tmp_path / "a", every_batch, logger=False)
    fit(tmp_path / "b", every_third, logger=False)
    assert (every_batch.counted_batches, every_third.counted_batches) == (6, 2)
    assert every_batch.batches == every_third.batches == 6
    assert every_batch.samples == 6 * 8
    assert every_third.flops == pytest.approx(every_batch.flops, rel=0.3)  # canvases differ in size
    assert every_batch.seconds > 0


class NoTime(L.Callback):
    """Takes a long time to validate, by a clock that is turned by hand."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr("trm.training.cost.time.perf_counter", lambda: self.now)

    def on_train_batch_end(self, *args, **more):
        self.now += 1

    def on_validation_end(self, *args, **more):
        self.now += 1000


def test_validation_takes_no_time_of_training(fit, tmp_path, monkeypatch):
    cost = Cost(every=100)
    fit(tmp_path, NoTime(monkeypatch), cost, logger=False)
    assert cost.seconds == 6


def test_checkpoints_tell_the_cost_and_a_run_that_goes_on_adds_to_it(command, debug, tmp_path):
    place = ("--trainer.logger.init_args.save_dir", tmp_path, "--trainer.check_val_every_n_epoch=9")
    command("fit", *debug, *place)
    last = tmp_path / "debug/version_0/checkpoints/last.ckpt"
    before = describe(last, "m")["cost"]
    assert before["samples"] == 160
    assert before["flops"] > 1e8
    assert before["seconds"] > 0
    command("fit", *debug, *place, "--trainer.max_epochs=3", "--ckpt_path", last)
    after = describe(last, "m")["cost"]
    assert after["samples"] == 240
    assert after["flops"] == pytest.approx(1.5 * before["flops"], rel=0.01)
    assert after["seconds"] > before["seconds"]
    assert set(torch.load(last, weights_only=True)[COST_KEY]) == {"flops", "samples", "seconds"}

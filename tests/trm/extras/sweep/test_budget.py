import time
from dataclasses import replace

import pytest

from trm.extras.sweep.budget import Worker
from trm.extras.sweep.runs import Jobs
from trm.extras.sweep.speed import Measured, Speed
from trm.extras.sweep.study import Setting, Study


def test_the_faster_mode_is_used_if_all_stages_were_measured():
    eager = [Measured(0.75, False, 8, rate=3.0), Measured(0.25, False, 8, rate=1.0)]
    half = Measured(0.75, True, 8, rate=6.0)
    assert Speed(cases=eager[:1]).best() is None
    assert Speed(cases=[*eager, half]).best() == (eager, 0.5)
    compiled = [half, Measured(0.25, True, 8, rate=2.0)]
    assert Speed(cases=[*eager, *compiled]).best() == (compiled, 0.25)
    small = [Measured(0.75, True, 2, rate=6.0), Measured(0.25, True, 8, rate=2.0)]
    assert Speed(cases=[*eager, *small]).best() == (eager, 0.5)  # of fewer samples


def test_the_epochs_that_fit_are_the_length_of_a_run(tmp_path):
    study = Study((Setting("a", {}, "debug", ()),), checkpoint="last")
    jobs, said = Jobs(tmp_path, study), []
    jobs.begin(timed=True)
    worker = Worker(jobs, 10, 0.0, lambda run, text: said.append(text))
    [run] = jobs.states
    cases = [Measured(1.0, True, 4, rate=10.0, warm_up=20.0)]
    measured = Speed("cpu", start=10.0, batches_per_epoch=100, batch_size=8, cases=cases)
    assert worker._plan(run, replace(measured, accumulate=3, warmup_steps=10**4), 400.0)
    # 85 % of 400 seconds, less 30, of 10 seconds an epoch: 31, validated twice
    state = jobs.states[run]
    length = "--trainer.max_epochs=30 --trainer.check_val_every_n_epoch=15"
    assert state.length == f"{length} --model.compile=true --data.batch_size=4".split()
    assert state.steps == 30 * 34
    assert said == [
        "3,000 batches in 30 epochs fit in 5.5 minutes (compiled, 10 a second); the warm-up of "
        "10,000 steps does not end"
    ]


def test_the_seconds_of_all_calls_are_added(tmp_path):
    jobs = Jobs(tmp_path, Study((Setting("a", {}, "debug", ()),), checkpoint="last"))
    first = Worker(jobs, 1, time.monotonic() - 40, print)
    assert 19 < first.total - first.used < 21
    first._write()
    again = Worker(jobs, 2, time.monotonic() - 30, print)
    assert again.total - again.used == pytest.approx(50, abs=1)


def test_a_run_of_another_length_is_not_continued(tmp_path):
    study = Study((Setting("a", {}, "debug", ()),), checkpoint="last")
    jobs = Jobs(tmp_path, study)
    jobs.begin()
    (tmp_path / "runs/a-seed0/version_0").mkdir()
    with pytest.raises(ValueError, match="a, seed 0 was started without --minutes"):
        Jobs(tmp_path, study).begin(timed=True)

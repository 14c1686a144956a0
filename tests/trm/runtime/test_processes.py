"""Processes of one job end together, whichever of them is stopped and by what."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lightning.fabric.plugins.environments import SLURMEnvironment

from trm.runtime.processes import Terminated, ending_by_signals, settle_slurm

# The agent and its two workers say who they are; a worker then hangs as a library may.
JOB = """
import os, signal, sys, time
from trm.runtime.processes import ending_by_signals, launch, one_of_several

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run below nohup
with ending_by_signals():
    os.write(1, b"%d\\n" % os.getpid())  # at once, as others write there, too
    if not one_of_several():
        launch(sys.argv, 2)
    until = time.monotonic() + (60 if "hang" in sys.argv else 0)
    while time.monotonic() < until:
        try:
            time.sleep(0.1)
        except BaseException:
            pass
    if os.environ["RANK"] == "1":
        sys.exit(int(sys.argv[2]))
"""


@contextlib.contextmanager
def job(folder: Path, *words: str) -> Iterator[subprocess.Popen]:
    (folder / "job.py").write_text(JOB)
    running = subprocess.Popen(
        [sys.executable, str(folder / "job.py"), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.communicate()


def gone(pid: int) -> bool:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize(
    ("stop", "whom", "code"),
    [
        (signal.SIGTERM, 0, 143),
        (signal.SIGTERM, 1, 143),
        (signal.SIGINT, 0, -signal.SIGINT),  # as Python ends by a KeyboardInterrupt
        (signal.SIGKILL, 0, -signal.SIGKILL),
    ],
)
def test_a_signal_to_one_ends_all(tmp_path, stop, whom, code):
    with job(tmp_path, "hang") as running:
        pids = [int(running.stdout.readline()) for _ in range(3)]
        os.kill(pids[whom], stop)
        running.communicate(timeout=60)
        assert all(gone(pid) for pid in pids)
        assert running.returncode == code


def test_all_end_with_the_code_of_one_that_fails(tmp_path):
    with job(tmp_path, "go", "2") as running:
        said = running.communicate(timeout=60)[1]
        assert (running.returncode, said) == (2, "")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
def test_sigterm_is_an_exception_and_handlers_are_restored():
    def failed(*_) -> None:
        raise RuntimeError("DataLoader worker is killed by signal: Terminated.")

    def stopped() -> None:
        with ending_by_signals():
            signal.signal(signal.SIGCHLD, failed)
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                os.kill(os.getpid(), signal.SIGCHLD)  # of a worker that was in the same group
            time.sleep(1)

    with pytest.raises(Terminated) as stop:
        stopped()
    assert stop.value.code == 143
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.fixture
def slurm(monkeypatch):
    """Sets variables of SLURM alone, as in a job of another name than Lightning's own."""

    def put(**variables: str) -> None:
        for name in [name for name in os.environ if name.startswith("SLURM_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("SLURM_JOB_NAME", "mine")
        for name, value in variables.items():
            monkeypatch.setenv(f"SLURM_{name}", value)

    return put


def test_a_command_that_srun_did_not_start_runs_by_itself(slurm, caplog):
    slurm(NTASKS="2", JOB_ID="1")
    with caplog.at_level("WARNING", logger="trm"):
        settle_slurm()
    assert "srun did not start this command: it runs by itself" in caplog.text
    assert not SLURMEnvironment.detect()
    caplog.clear()
    slurm(NTASKS="1", JOB_ID="1")
    settle_slurm()
    assert caplog.text == ""
    assert not SLURMEnvironment.detect()


def test_a_task_that_srun_started_is_left_to_lightning(slurm):
    slurm(NTASKS="2", JOB_ID="1", STEP_ID="0", NTASKS_PER_NODE="2")
    settle_slurm()
    assert os.environ["SLURM_JOB_NAME"] == "mine"
    slurm(NTASKS="2", JOB_ID="1", STEP_ID="0")
    with pytest.raises(ValueError, match=r"srun --nodes=1 --ntasks-per-node=2"):
        settle_slurm()

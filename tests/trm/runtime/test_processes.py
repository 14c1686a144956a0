"""Processes of one job end together, whichever of them is stopped and by what."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from forked import VARIABLES
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
    assert not {*VARIABLES} - {*os.environ}
    assert os.environ["WORLD_SIZE"] == os.environ["LOCAL_WORLD_SIZE"] == "2"
    assert os.environ["RANK"] == os.environ["LOCAL_RANK"]
    if os.environ["RANK"] == "1":
        sys.exit(int(sys.argv[2]))
"""
# Starts agents, and prints how each ended. PyTorch is imported once for all of them.
STARTER = """
import os, signal, sys
import torch.distributed.launcher.api

for line in sys.stdin:
    file, *words = line.split()
    if agent := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(agent, 0)[1]), flush=True)
        continue
    signal.alarm(60)  # ends it where it hangs, and its workers with it
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(file + name, os.O_WRONLY | os.O_CREAT), number)
    sys.argv = [file, *words]
    exec(compile(open(file).read(), file, "exec"), {})
    sys.exit()
"""


class Agents:
    """Jobs of one agent and two workers, one after the other."""

    def __init__(self, starter: subprocess.Popen, file: Path) -> None:
        self.starter, self.file = starter, file
        file.write_text(f"VARIABLES = {VARIABLES}\n{JOB}")

    def begin(self, *words: str) -> None:
        for name in ("out", "err"):
            Path(f"{self.file}{name}").unlink(missing_ok=True)
        print(self.file, *words, file=self.starter.stdin, flush=True)

    def pids(self) -> list[int]:
        out, until = Path(f"{self.file}out"), time.monotonic() + 60
        while not out.exists() or len(lines := out.read_text().splitlines()) < 3:
            assert time.monotonic() < until
            time.sleep(0.05)
        return [int(line) for line in lines]

    def ended(self) -> tuple[int, str]:
        """Return the agent's exit code, and what was printed to standard error."""
        return int(self.starter.stdout.readline()), Path(f"{self.file}err").read_text()


@pytest.fixture(scope="module")
def agents(tmp_path_factory) -> Iterator[Agents]:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        yield Agents(starter, tmp_path_factory.mktemp("agents") / "job.py")
        starter.stdin.close()


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
def test_a_signal_to_one_ends_all(agents, stop, whom, code):
    agents.begin("hang")
    pids = agents.pids()
    os.kill(pids[whom], stop)
    assert agents.ended()[0] == code
    assert all(gone(pid) for pid in pids)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
def test_a_killed_worker_is_named_and_ends_all(agents):
    agents.begin("hang")
    pids = agents.pids()
    os.kill(max(pids), signal.SIGKILL)
    code, said = agents.ended()
    assert code == 1
    assert "was ended by signal 9, and so all of them end" in said
    assert all(gone(pid) for pid in pids)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such processes")
def test_all_end_with_the_code_of_one_that_fails(agents):
    agents.begin("go", "2")
    assert agents.ended() == (2, "")


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

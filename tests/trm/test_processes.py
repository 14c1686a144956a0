"""Processes of one job end together, whichever of them is stopped and by what."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from trm import processes
from trm.processes import Terminated, ending_together

# Starts itself as the second process of two; both say so, and then wait.
JOB = """
import os, signal, subprocess, sys, time
import trm.processes
from trm.processes import ending_together

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run below nohup

trm.processes.GRACE = 1
with ending_together() as processes:
    if "child" not in sys.argv:
        processes.watch([subprocess.Popen([sys.executable, *sys.orig_argv[1:], "child"])])
    print(os.getpid(), flush=True)
    for _ in range(1 if "short" in sys.argv else 600):
        try:
            time.sleep(0.1)
        except BaseException:  # as a library may do it
            if "stubborn" not in sys.argv:
                raise
    if "broken" in sys.argv and "child" not in sys.argv:
        raise RuntimeError("gloo: connection closed by peer")
    if "failing" in sys.argv and "child" in sys.argv:
        sys.exit(3)
"""


@contextlib.contextmanager
def job(*words: str) -> Iterator[tuple[subprocess.Popen, dict[str, int]]]:
    running = subprocess.Popen(
        [sys.executable, "-c", JOB, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stdout is not None
    pids = {int(running.stdout.readline()) for _ in range(2)}
    (child,) = pids - {running.pid}
    try:
        yield running, {"parent": running.pid, "child": child}
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.communicate()


def ends(pid: int) -> bool:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("whom", ["parent", "child"])
@pytest.mark.parametrize("how", ["", "stubborn"])
@pytest.mark.parametrize(
    ("stop", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, None)]
)
def test_a_signal_to_one_ends_both(stop, code, whom, how):
    with job(how) as (running, pids):
        os.kill(pids[whom], stop)
        said = running.communicate(timeout=60)[1]
        assert ends(pids["child"])
    if code == 130:  # as Python ends by a KeyboardInterrupt, unless that is swallowed
        assert running.returncode == (130 if how else -signal.SIGINT)
    elif code is not None:
        assert running.returncode == code
    elif whom == "child":
        assert running.returncode == 1
        assert how or "process 2 of 2 was ended by signal 9" in said


def test_who_is_done_waits_for_the_others_and_none_is_lost():
    with job("short") as (running, _):
        said = running.communicate(timeout=60)[1]
        assert (running.returncode, said) == (0, "")


def test_one_that_fails_in_the_end_makes_all_fail():
    with job("short", "failing") as (running, _):
        said = running.communicate(timeout=60)[1]
        assert running.returncode == 1
        assert "process 2 of 2 ended with exit code 3" in said


def test_a_broken_connection_is_explained_by_the_process_at_its_other_end():
    with job("short", "broken", "failing") as (running, _):
        said = running.communicate(timeout=60)[1]
        assert "process 2 of 2 ended with exit code 3" in said


def test_who_comes_back_from_a_signal_is_not_ended_later(monkeypatch):
    monkeypatch.setattr(processes, "GRACE", 0.05)
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)

    def stopped() -> None:
        with ending_together():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)

    for _ in range(20):  # the thread that hears of the signal may be late
        with pytest.raises(Terminated):
            stopped()
    time.sleep(0.3)
    assert not ended
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert "TRM_STARTED_BY" not in os.environ

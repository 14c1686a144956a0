"""Start of several processes by PyTorch's elastic agent, and the end of processes.

Processes that train or solve together wait for each other. The agent ends all of them when one
fails or a signal arrives, and they end when the agent ends. A signal ends one of several processes
at once, even inside a library. This is safe, as files are written as a whole or not at all.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NoReturn

TERMINATED, INTERRUPTED = 128 + signal.SIGTERM, 128 + signal.SIGINT  # exit codes
ENDS_WITH = "TRM_ENDS_WITH"  # environment variable: parent process that this one ends with
_INTERACTIVE = ("interactive", "bash")  # names of SLURM jobs whose commands srun does not start
_NAMES = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")  # signals that the agent handles, if they exist
_AGENTS = [signal.Signals[name] for name in _NAMES if hasattr(signal, name)]


class Terminated(SystemExit):
    """Exit of the process after a SIGTERM."""

    def __init__(self) -> None:
        super().__init__(TERMINATED)


def settle_slurm() -> None:
    """Set the environment so that Lightning detects whether srun started this process.

    In an allocation whose command srun did not start (salloc, a shell, a job script without srun)
    Lightning would wait for processes that never start. The command then runs by itself, with a
    warning.

    Raises:
        ValueError: srun started the process, but without a number of processes per node.
    """
    tasks, job = os.environ.get("SLURM_NTASKS", ""), os.environ.get("SLURM_JOB_NAME")
    if not tasks or job in _INTERACTIVE:
        return
    if "SLURM_STEP_ID" not in os.environ:
        os.environ["SLURM_JOB_NAME"] = _INTERACTIVE[0]  # Lightning reads it
        if tasks != "1":
            logging.getLogger("trm").warning(
                f"This SLURM allocation has {tasks} tasks, and srun did not start this command: it "
                "runs by itself, on the devices that it is given. For all tasks, start it by srun."
            )
    elif tasks != "1" and "SLURM_NTASKS_PER_NODE" not in os.environ:
        raise ValueError(
            f"srun has started {tasks} tasks without saying how many each node has: give it "
            f"--ntasks-per-node, as in srun --nodes=1 --ntasks-per-node={tasks}"
        )


def one_of_several() -> bool:
    """Test if an elastic agent, this module's or torchrun's, has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


@contextmanager
def ending_by_signals() -> Iterator[None]:
    """Raise `Terminated` at a SIGTERM, and end when the process in `ENDS_WITH` ends."""
    starter = os.getppid()
    if os.environ.get(ENDS_WITH) == str(starter):
        threading.Thread(target=_end_with, args=(starter,), daemon=True).start()
    if threading.current_thread() is not threading.main_thread():
        yield  # signals arrive in the main thread only
        return
    before = signal.signal(signal.SIGTERM, _terminated)
    if one_of_several():
        end_at_once_by_signals()
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def start_processes(strategy: Any) -> None:
    """Run this command in a process for each device of Lightning's strategy, if none is there yet.

    Raises:
        SystemExit: the processes have ended, see `launch`.
        ValueError: the strategy has several nodes.
    """
    environment = getattr(strategy, "cluster_environment", None)
    if environment and not environment.creates_processes_externally:
        if strategy.num_nodes > 1:
            raise ValueError("processes on several nodes are started by srun or by torchrun")
        if strategy.num_processes > 1:
            launch(["-P", "-m", "trm", *sys.argv[1:]], strategy.num_processes)


def end_at_once_by_signals() -> None:
    """Let SIGTERM and SIGINT end this process at once, unless they are ignored."""
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def launch(words: Sequence[str], processes: int) -> NoReturn:
    """Run Python with these arguments in several processes of this machine, and end like them.

    Raises:
        SystemExit: they have ended; its code is the first exit code other than 0, else 0.
        KeyboardInterrupt, Terminated: a SIGINT or SIGTERM ended one of them, or this process.
        ChildProcessError: another signal ended one of them.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    before = {number: signal.getsignal(number) for number in _AGENTS}
    heard = [number.name for number in _AGENTS if before[number] != signal.SIG_IGN]  # as by nohup
    os.environ[ENDS_WITH] = str(os.getpid())
    code = which = 0
    try:
        with TemporaryDirectory() as logs:
            config = LaunchConfig(
                min_nodes=1,
                max_nodes=1,
                nproc_per_node=processes,
                run_id="trm",
                rdzv_backend="c10d",
                rdzv_endpoint="localhost:0",  # any port that is free
                local_addr="localhost",
                max_restarts=0,
                logs_specs=DefaultLogsSpecs(log_dir=logs),
            )
            config.signals_to_handle = ",".join(heard)  # older releases ignore it
            elastic_launch(config, sys.executable)(*words)
    except SignalException as stop:
        code = -stop.sigval
    except ChildFailedError as error:
        # The agent has ended the others by a SIGTERM; some ended by an error, as their connection
        # was lost.
        which, failure = min(
            error.failures.items(),
            key=lambda item: (item[1].exitcode == -signal.SIGTERM, item[1].exitcode > 0),
        )
        code = failure.exitcode
    finally:
        del os.environ[ENDS_WITH]
        for number, handler in before.items():
            signal.signal(number, handler)
    if code in (-signal.SIGINT, INTERRUPTED):
        raise KeyboardInterrupt
    if code in (-signal.SIGTERM, TERMINATED):
        raise Terminated
    if code < 0:
        raise ChildProcessError(
            f"process {which + 1} of {processes} was ended by signal {-code}, and so all of them "
            "end"
        )
    raise SystemExit(code)


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
    # Workers that make samples got it, too: PyTorch's handler would call their end an error.
    if hasattr(signal, "SIGCHLD"):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    raise Terminated


def _end_with(starter: int) -> None:
    while os.getppid() == starter:
        time.sleep(0.2)
    os._exit(TERMINATED)

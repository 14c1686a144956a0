"""Several processes of one job, forked from this one, so that nothing is imported again."""

import os
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Callable

# Variables of a process of torchrun; tests/trm/runtime/test_processes.py: new processes have them.
VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "GROUP_RANK", "WORLD_SIZE")
VARIABLES += ("LOCAL_WORLD_SIZE", "RANK", "LOCAL_RANK")


def forked(run: Callable[[], int], processes: int = 2) -> list[int]:
    """Run a function in processes with the variables of torchrun; return their exit codes."""
    with socket.create_server(("localhost", 0)) as free:
        job = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free.getsockname()[1])}
    job |= {"TORCHELASTIC_RUN_ID": "tests", "GROUP_RANK": "0"}
    job |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(processes))
    assert {*job, "RANK", "LOCAL_RANK"} == {*VARIABLES}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's, of threads that are not copied
        started = [os.fork() or _end(run, job, str(rank)) for rank in range(processes)]
    return [os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in started]


def _end(run: Callable[[], int], job: dict[str, str], rank: str) -> int:
    os.environ |= job | {"RANK": rank, "LOCAL_RANK": rank}
    code = 70
    signal.alarm(300)  # ends it where it hangs
    try:
        code = run()
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)

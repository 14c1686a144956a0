"""Processes of one job, which end together, whichever of them is stopped and by what.

They wait for each other: one that is gone would leave the others waiting, for half an hour where
an accelerator's library does the waiting. Here a SIGTERM ends the process that gets it, the process
that started it ends as it did, and a process ends with the one that started it. Whichever does not
return from a library within `GRACE` seconds is ended there.
"""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

GRACE = 10.0  # seconds
TERMINATED, INTERRUPTED = 128 + signal.SIGTERM, 128 + signal.SIGINT  # exit codes
_INTERVAL = 0.2  # seconds from one look at the other processes to the next
_STARTER = "TRM_STARTED_BY"  # environment: the process that starts others, for them to read
_BROKEN = re.compile(r"gloo|nccl|connection|socket|peer|rendezvous", re.IGNORECASE)


class Terminated(SystemExit):
    """A SIGTERM arrived, and this is how the process ends."""

    def __init__(self) -> None:
        super().__init__(TERMINATED)


class Processes:
    """Those that this process has started.

    Attributes:
        ended: set once it is this process that ends, whatever becomes of the others.
        terminated: whether that was by a SIGTERM.
        lost: number (from 1 up) and exit code of one that ended badly before.
    """

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.terminated = False
        self.lost: tuple[int, int] | None = None
        self._started: Sequence[subprocess.Popen[bytes]] = ()
        self._deadlines: list[threading.Timer] | None = []  # None: the main thread has come back
        self._lock = threading.Lock()

    def watch(self, started: Sequence[subprocess.Popen[bytes]]) -> None:
        """End as one of these does that ends badly."""
        self._started = started
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self.ended.wait(_INTERVAL):
            if self.ends():
                os.kill(os.getpid(), signal.SIGTERM)  # a SIGINT may be ignored, as below nohup
                return

    def listen(self, ear: int) -> None:
        """Read the numbers of signals, and see to it that this process ends by those that end it.

        The main thread may be waiting in a library, where Python runs no handlers: what it waits
        for are those that it has started.
        """
        with os.fdopen(ear, "rb", buffering=0) as numbers:
            while number := numbers.read(1):
                if number[0] in (signal.SIGTERM, signal.SIGINT):
                    self.end_within_grace(128 + number[0] if self.lost is None else self.code())
                    self.end()

    def ends(self) -> bool:
        """Whether this process has to end: asked to, or because another one ended badly."""
        for number, process in enumerate(self._started, start=1):
            if self.lost is None and process.poll() and not self.ended.is_set():
                self.lost = number, process.returncode
        return self.terminated or self.lost is not None

    def code(self) -> int:
        """The exit code of a process that ends because another one was lost."""
        code = self.lost[1] if self.lost else 1
        for stop in (signal.SIGTERM, signal.SIGINT):
            if code in (-stop, 128 + stop):
                return 128 + stop
        return 1

    def wait(self) -> None:
        """Wait until all have ended.

        Raises:
            ChildProcessError: one of them ended badly.
        """
        self.ended.set()
        for number, process in enumerate(self._started, start=1):
            if process.wait():
                self.lost = number, process.returncode
                raise ChildProcessError(self.sentence())

    def end(self) -> None:
        """End those that are still there."""
        self.ended.set()
        for process in self._started:
            process.terminate()

    def end_within_grace(self, code: int) -> None:
        """End this process soon, unless its main thread comes back from wherever it is."""
        with self._lock:
            if self._deadlines is not None:
                deadline = threading.Timer(GRACE, os._exit, args=(code,))
                deadline.daemon = True
                deadline.start()
                self._deadlines.append(deadline)

    def came_back(self) -> None:
        """The main thread has come back, and ends the process by itself."""
        with self._lock:
            for deadline in self._deadlines or []:
                deadline.cancel()
            self._deadlines = None

    def sentence(self) -> str:
        """What became of the one that was lost."""
        assert self.lost is not None
        number, code = self.lost
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"process {number + 1} of {len(self._started) + 1} {how}, and so all of them end"


@contextmanager
def ending_together() -> Iterator[Processes]:
    """Raise `Terminated` at a SIGTERM, and end with the process that started this one.

    Processes that are started within, and handed to `Processes.watch`, end with this one in turn.

    Raises:
        ChildProcessError: one of those was lost.
    """
    processes = Processes()
    if threading.current_thread() is not threading.main_thread():
        yield processes  # where signals do not arrive
        return

    def terminated(number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
        processes.ended.set()
        processes.terminated = True
        raise Terminated

    starter = int(os.environ.get(_STARTER, os.getpid()))
    if starter != os.getpid():
        threading.Thread(target=_end_with, args=(starter, processes), daemon=True).start()
    ear, bell = os.pipe()  # into which Python writes the number of every signal
    os.set_blocking(bell, False)
    threading.Thread(target=processes.listen, args=(ear,), daemon=True).start()
    rung = signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
    before = signal.signal(signal.SIGTERM, terminated)
    os.environ[_STARTER] = str(os.getpid())
    try:
        try:
            yield processes
            processes.wait()
        except RuntimeError as error:
            # If a connection broke, the process at its other end has ended, or is about to.
            until = time.monotonic() + GRACE * bool(_BROKEN.search(str(error)))
            while not (processes.ends() or _gone(starter)) and time.monotonic() < until:
                time.sleep(_INTERVAL)
            if processes.lost is not None or processes.terminated or _gone(starter):
                raise Terminated from error
            raise
    except Terminated as stop:
        if processes.lost is None or processes.code() == TERMINATED:
            raise
        if processes.code() == INTERRUPTED:
            raise KeyboardInterrupt from stop
        raise ChildProcessError(processes.sentence()) from stop
    finally:
        processes.end()
        signal.signal(signal.SIGTERM, before)
        signal.set_wakeup_fd(rung)
        os.close(bell)  # which ends the listening
        processes.came_back()
        os.environ[_STARTER] = str(starter)
        if starter == os.getpid():
            del os.environ[_STARTER]


def _gone(starter: int) -> bool:
    return starter not in (os.getpid(), os.getppid())


def _end_with(starter: int, processes: Processes) -> None:
    while not _gone(starter):
        time.sleep(_INTERVAL)
    processes.end_within_grace(TERMINATED)
    os.kill(os.getpid(), signal.SIGTERM)

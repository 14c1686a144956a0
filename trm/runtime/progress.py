"""Progress of long work: one bar on a terminal, with the time left.

The bar is on standard error and goes away at the end. Where standard error is no terminal, as in
the log of a cluster's job, a line a minute says how far the work is; work of minutes may also print
a line for each of its parts. ``--quiet`` shows nothing. Standard output has results alone.

A command opens the bar with `progress`, and work at any depth calls `report`.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

Report = Callable[[str, float, float], None]  # what is done now, how much of it, of how much

_PAUSE = 0.1  # seconds between two movements of the bar
_LINE = 60.0  # seconds between two lines where there is no terminal
_REMEMBERED = 3600.0  # seconds of earlier movements from which the time left follows


def silent(what: str, done: float, total: float) -> None:
    """Show nothing."""


class _Listener:
    def __init__(self, to: Report, stages: bool = False) -> None:
        self.to = to
        self.stages = stages  # whether work around the solving of problems has reported


_LISTENER: ContextVar[_Listener] = ContextVar("listener")


def report(what: str, done: float, total: float, solving: bool = False) -> None:
    """Report how much of the present work is done, to the bar that is open, if any.

    ``solving``: of the solving of problems, which does not count inside of other work that reports.
    """
    if (listener := _LISTENER.get(None)) and not (solving and listener.stages):
        listener.stages |= not solving
        listener.to(what, done, total)


@contextmanager
def listening(to: Report | None, stages: bool = False) -> Iterator[None]:
    """Let a function get all reports in place of the bar; None changes nothing.

    ``stages``: reports of the solving of problems are left out.
    """
    token = _LISTENER.set(_Listener(to, stages)) if to else None
    try:
        yield
    finally:
        if token:
            _LISTENER.reset(token)


@contextmanager
def progress(quiet: bool = False, lines: str = "") -> Iterator[Report]:
    """Open a bar, which `report` moves; yield the function that moves it.

    ``lines``: without a terminal, each part is named once, too, in a line that begins with this
    text.

    Example: ``with progress(): report("cells", 3, 10)``.
    """
    # `Console.is_terminal` follows FORCE_COLOR, which notebooks set for pipes as well.
    terminal = bool(sys.stderr) and sys.stderr.isatty()  # None: it is closed
    if quiet or not terminal:
        shown = silent if quiet or not sys.stderr else _Lines(lines)
        with listening(shown, stages=bool(lines)):
            yield shown
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    with Progress(
        *columns, console=console, transient=True, speed_estimate_period=_REMEMBERED
    ) as bar:
        task, now, moved = bar.add_task("", total=None), "", 0.0

        def move(what: str, done: float, total: float) -> None:
            nonlocal now, moved
            if what != now:  # the time left is that of this part alone
                bar.reset(task, total=total)
                now = what
            elif done < total and time.monotonic() < moved + _PAUSE:
                return
            moved = time.monotonic()
            bar.update(task, description=what, completed=done, total=total)

        with listening(move):
            yield move


class _Lines:
    """Report in lines on standard error, a minute apart.

    Args:
        start: of the line that names a part when it begins; empty: parts have no such line.
    """

    def __init__(self, start: str) -> None:
        self.start, self.named = start, set[str]()
        self.said = time.monotonic()

    def __call__(self, what: str, done: float, total: float) -> None:
        now = time.monotonic()
        if self.start and what not in self.named:
            self.named.add(what)
            self._say(f"{self.start}: {what}", now)
        elif now >= self.said + _LINE:
            clock, share = time.strftime("%H:%M:%S"), done / total if total else 1.0
            self._say(f"{clock}  {what}: {int(done):,} of {int(total):,} ({share:.0%})", now)

    def _say(self, line: str, now: float) -> None:
        print(line, file=sys.stderr, flush=True)
        self.said = now


class Meter:
    """Report of nested work as one figure: items done, with a fraction of the present one.

    It is a `Report` for the work on a part. Of nested reports the outer one counts, which comes
    first: rows, and not the tokens of a row. The figure never falls.

    Example: ::

        meter = Meter("cells", 3)
        with progress() as meter.report, listening(meter):
            for number in range(3):
                with meter.part(number, number + 1, 3):
                    measure()

    Args:
        what: the name of the items.
        items: their number.
    """

    def __init__(self, what: str, items: int = 1) -> None:
        self.what, self.items = what, items
        self.report: Report = silent
        self._part = 0.0, 1.0  # the present part, as shares of all items
        self._kind = ""  # of the reports that count
        self._most = 0.0

    @contextmanager
    def part(self, start: float, end: float, total: float) -> Iterator[None]:
        """Take work from ``start`` to ``end`` of ``total``, within the present part, as the part.

        Inside of work that has reported already, nothing changes.
        """
        if self._kind:
            yield
            return
        outer = first, last = self._part
        share = (last - first) / total
        self._part = first + share * start, first + share * end
        self._move(0)
        try:
            yield
        finally:
            self._part, self._kind = outer, ""

    def __call__(self, what: str, done: float, total: float) -> None:
        """Report work on the present part, as a `Report`."""
        self._kind = self._kind or what
        if what == self._kind and total:
            self._move(min(1.0, done / total))

    def _move(self, share: float) -> None:
        first, last = self._part
        self._most = max(self._most, first + share * (last - first))
        self.report(self.what, self._most * self.items, self.items)


def part(start: float, end: float, total: float) -> AbstractContextManager[None]:
    """Return `Meter.part` of the meter that listens; for any other listener do nothing."""
    meter = listener.to if (listener := _LISTENER.get(None)) else None
    return meter.part(start, end, total) if isinstance(meter, Meter) else nullcontext()

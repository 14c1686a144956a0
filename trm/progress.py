"""Progress of long work: one bar on a terminal, with the time left.

The bar is on standard error and goes away at the end. Where standard error is no terminal, and with
``--quiet``, there is none, so that pipes and files contain results alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress

Report = Callable[[str, int, int], None]  # what is done now, how much of it, and of how much


def silent(what: str, done: int, total: int) -> None:
    """Show nothing."""


@contextmanager
def progress(quiet: bool = False) -> Iterator[Report]:
    """Open a bar; yield the function that moves it.

    Example: ``with progress() as report: report("cells", 3, 10)``.
    """
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield silent
        return
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task, now = bar.add_task("", total=None), ""

        def report(what: str, done: int, total: int) -> None:
            nonlocal now
            if what != now:  # the time left is that of this part alone
                bar.reset(task, total=total)
                now = what
            bar.update(task, description=what, completed=done, total=total)

        yield report

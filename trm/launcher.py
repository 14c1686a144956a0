"""Lightning's processes, started so that they end together."""

from collections.abc import Callable
from typing import Any

import lightning as L
from lightning.fabric.utilities.distributed import _set_num_threads_if_needed
from lightning.pytorch.strategies.launchers import _SubprocessScriptLauncher

from trm.processes import Processes


class Launcher(_SubprocessScriptLauncher):
    """Starts the processes of one node as Lightning does, and watches over them.

    Lightning's own watch kills all of them without a word, at most five seconds after one has
    ended badly.
    """

    processes: Processes

    def launch(
        self,
        function: Callable[..., Any],
        *args: Any,
        trainer: L.Trainer | None = None,
        **more: Any,
    ) -> Any:
        """Start the other processes, and run the function in this one."""
        environment = self.cluster_environment
        environment.validate_settings(num_devices=self.num_processes, num_nodes=self.num_nodes)
        if not environment.creates_processes_externally:
            self._call_children_scripts()
            self.processes.watch(self.procs)
        _set_num_threads_if_needed(num_processes=self.num_processes)
        return function(*args, **more)

    def kill(self, signum: Any) -> None:
        """See `_SubprocessScriptLauncher`; they are not lost, as it is this one that ends."""
        self.processes.ended.set()
        super().kill(signum)


def end_together(trainer: L.Trainer, processes: Processes) -> None:
    """Start the processes of a trainer so that they end together, see `trm.processes`."""
    old = trainer.strategy.launcher
    if type(old) is _SubprocessScriptLauncher:
        launcher = Launcher(old.cluster_environment, old.num_processes, old.num_nodes)
        launcher.processes = processes
        trainer.strategy._launcher = launcher
    # It would tell the others in a collective call from within the signal's handler, which waits
    # for ever if they are in another call by then.
    trainer._signal_connector._sigterm_notifier_fn = lambda *_: None  # type: ignore[method-assign]

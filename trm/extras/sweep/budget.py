"""Runs of a study within a budget of minutes, one after the other in the study's order.

A run's own time is its share of the budget. In this time its speed is measured, it is trained for
as many epochs as fit, its weights are exported, and it is evaluated. The time that runs leave over
goes to the runs that are not done, in the same order.

A run whose time ends has not failed: training stops, and the last checkpoint is exported and
evaluated in time reserved for this. The same command with more minutes continues.

    OUTPUT/budget.json               seconds used so far, over all calls
"""

import time
from collections.abc import Callable
from functools import partial
from operator import le
from subprocess import TimeoutExpired

from pydantic import TypeAdapter

from trm.checkpoints import COST_KEY
from trm.checkpoints.content import load_checkpoint
from trm.extras.sweep.runs import Jobs
from trm.extras.sweep.speed import SECONDS, Speed, device_name
from trm.extras.sweep.study import Run, Setting, Study
from trm.io.files import read_object, validated, write_json

_BUDGET = "budget.json"
_MEASURES, _TRAINING = "measuring", "training"  # stages of a run
# Parts of a run's own time: the measurement of its speed ends after the first one, or after the
# second one if the eager speed is not known earlier.
_MEASURING, _LATEST = 0.3, 0.6
_CASES = 12  # of a measurement; a case gets one part of that time, or less
# Shares of the time after the measurement: for the planned training, and at most for training.
_WITH_EVALUATIONS, _ALONE = (0.6, 0.8), (0.85, 0.95)
_TWICE_FROM = 8  # epochs of a run that is validated twice; a shorter one is validated at its end
_POLL, _WRITE = 0.2, 5.0  # seconds between two polls of a process, and two writes of the state
_PATIENCE = 20.0  # seconds that a process gets to end


def speed_of(jobs: Jobs, run: Run) -> Speed | None:
    """Return the measured speed of a run; None: it was not measured."""
    file = jobs.folder(run) / "speed.json"
    found = read_object(file)
    return validated(TypeAdapter(Speed), found, str(file)) if found else None


def share_of(study: Study, setting: Setting) -> float:
    """Return the share of the budget of each run of a setting."""
    return setting.share / sum(run.setting.share for run in study.runs())


class Worker:
    """Works on the runs of a study until its budget of seconds, over all calls, is used up.

    Args:
        jobs: the runs, after `Jobs.begin`.
        minutes: of all calls together.
        begun: start of this call, by `time.monotonic`.
        say: called with a run and a text about it, its stage, or the epochs that fit.
        device: a GPU by its name for CUDA_VISIBLE_DEVICES; empty: any.
    """

    def __init__(
        self,
        jobs: Jobs,
        minutes: float,
        begun: float,
        say: Callable[[Run, str], None],
        device: str = "",
    ) -> None:
        self.jobs, self.total, self.say, self.device = jobs, 60 * minutes, say, device
        self._begun, self._file = begun, jobs.output / _BUDGET
        before = (read_object(self._file) or {}).get("seconds", 0.0)
        self._before = before if isinstance(before, float) else 0.0

    @property
    def used(self) -> float:
        """Seconds used so far, over all calls."""
        return self._before + time.monotonic() - self._begun

    def _write(self) -> None:
        """Write the seconds used so far."""
        write_json(self._file, {"seconds": self.used})

    def work(self) -> None:
        """Give every run its own time, then the time that is left to those that are not done."""
        try:
            for own_time in (True, False):
                for run in self.jobs.left():
                    seconds, state = self.total - self.used, self.jobs.states[run]
                    if own_time:
                        own = self.total * share_of(self.jobs.study, run.setting)
                        seconds = min(seconds, own - state.seconds)
                    if seconds > 0 and not state.error:
                        self._turn(run, time.monotonic() + seconds)
        finally:
            self._write()

    def _turn(self, run: Run, end: float) -> None:
        """Work on a run until the time ``end``, by `time.monotonic`."""
        jobs, state = self.jobs, self.jobs.states[run]
        if not state.trained and not state.length:
            speed = self._measured(run, end)
            if speed is None or not self._plan(run, speed, end - time.monotonic()):
                return
        if state.cut and self._fits(run, end - time.monotonic()):
            state.cut = 0
        training_end = end - (1 - self._parts(run)[1]) * (end - time.monotonic())
        while (step := jobs.next(run)) and not state.error:
            trains = step[0] == _TRAINING
            limit = training_end if trains else end
            if self._run(run, *step, partial(le, limit)):
                continue
            if not trains:
                many = f"{state.cut:,} of {state.steps:,} steps are trained, and "
                self._stopped(run, f"{many if state.cut else ''}its time was up while {step[0]}")
                return
            if not self._cut(run):
                return

    def _parts(self, run: Run) -> tuple[float, float]:
        wanted = self.jobs.study.evaluations_of(run.setting)
        return _WITH_EVALUATIONS if wanted else _ALONE

    def _measured(self, run: Run, end: float) -> Speed | None:
        """Return the speed of a run, measured now unless it is known for this device."""
        speed = speed_of(self.jobs, run)
        if speed is None or speed.device != device_name() or speed.best() is None:
            file = self.jobs.folder(run) / "speed.json"
            file.unlink(missing_ok=True)
            begun = time.monotonic()
            case = min(SECONDS, _MEASURING * (end - begun) / _CASES)
            words = [str(file), f"{case}", f"{time.time()}", *self.jobs.options_of(run)]

            def over(now: float) -> bool:
                part = (now - begun) / (end - begun)
                found = speed_of(self.jobs, run) if part >= _MEASURING else None
                return part >= _LATEST or (found is not None and found.best() is not None)

            self._run(run, _MEASURES, words, over, "trm.extras.sweep.speed")
            speed = speed_of(self.jobs, run)
        state = self.jobs.states[run]
        if speed is not None and speed.best() is not None:
            state.error = ""  # the eager steps are known, whatever has failed after them
            return speed
        if not state.error:
            remarks = [case.remark for case in speed.cases if case.remark] if speed else []
            self._note(
                run,
                f"its speed was not measured: {remarks[0]}"
                if remarks
                else "its time is too short to measure its speed: give more --minutes",
            )
        return None

    def _plan(self, run: Run, speed: Speed, seconds: float) -> bool:
        """Set the length of a run to what fits; return False if not one epoch fits."""
        found, state = speed.best(), self.jobs.states[run]
        assert found is not None, "it was measured"
        cases, each = found
        part = self._parts(run)[0]
        begins = speed.start + sum(case.warm_up for case in cases)
        batches = speed.batches_per_epoch
        epochs = int((part * seconds - begins) / (each * batches)) if part * seconds > begins else 0
        how = "compiled" if cases[0].compiled else "eager"
        if epochs < 1:
            left = max(0.0, part * seconds - begins)
            needed = (begins + each * batches) / part + self.jobs.states[run].seconds
            minutes = 1.1 * needed / share_of(self.jobs.study, run.setting) / 60
            self._note(
                run,
                f"its time is too short for one epoch: {batches:,} batches take "
                f"{each * batches:,.0f} seconds ({how}), and {left:,.0f} are left for training. "
                f"Give --minutes {minutes:,.1f} or more, or a smaller data.batches_per_epoch",
            )
            return False
        validations = 2 if epochs >= _TWICE_FROM else 1
        between = epochs // validations
        epochs = between * validations
        state.steps = epochs * -(-batches // speed.accumulate)
        state.length = [
            f"--trainer.max_epochs={epochs}",
            f"--trainer.check_val_every_n_epoch={between}",
        ]
        if cases[0].compiled != speed.compile:
            state.length.append(f"--model.compile={str(cases[0].compiled).lower()}")
        if (size := min(case.batch_size for case in cases)) != speed.batch_size:
            state.length.append(f"--data.batch_size={size}")
        takes = (begins + each * epochs * batches) / 60
        note = (
            f"{epochs * batches:,} batches in {epochs:,} epochs fit in {takes:,.1f} minutes "
            f"({how}, {1 / each:,.3g} a second)"
        )
        if speed.warmup_steps >= state.steps:
            note += f"; the warm-up of {speed.warmup_steps:,} steps does not end"
        self._note(run, note)
        return True

    def _fits(self, run: Run, seconds: float) -> bool:
        """Return True if the rest of a training that was cut short fits."""
        speed, state = speed_of(self.jobs, run), self.jobs.states[run]
        found = speed and speed.best()
        if not speed or not found:
            return False
        rest = (state.steps - state.cut) * speed.accumulate * found[1]
        begins = speed.start + sum(case.warm_up for case in found[0])
        return begins + rest <= self._parts(run)[1] * seconds

    def _cut(self, run: Run) -> bool:
        """End a training before its end; return False if it has no checkpoint yet."""
        state = self.jobs.states[run]
        try:
            content = load_checkpoint(self.jobs.checkpoint(run, "last"))
        except FileNotFoundError:
            self._stopped(run, "no epoch of training ended in its time")
            return False
        if content["global_step"] >= state.steps:  # only the process had not ended
            self.jobs.stages[run] = _TRAINING
            self.jobs.ended(run, 0)
            return True
        state.cut, state.cost = content["global_step"], content.get(COST_KEY)
        state.exported, state.evaluated = False, {}
        many = f"{state.cut:,} of {state.steps:,} steps"
        self._stopped(run, f"its time of training was up after {many}")
        return True

    def _note(self, run: Run, sentence: str) -> None:
        self.jobs.states[run].note = sentence
        self.jobs.write(run)
        self.say(run, sentence)

    def _stopped(self, run: Run, sentence: str) -> None:
        self.jobs.states[run].stopped = f"{sentence}; it continues with more --minutes"
        self.jobs.write(run)
        self.say(run, self.jobs.states[run].stopped)

    def _run(
        self,
        run: Run,
        stage: str,
        words: list[str],
        over: Callable[[float], bool],
        module: str = "trm",
    ) -> bool:
        """Run the process of a stage; return False if its time was over, by `time.monotonic`."""
        jobs, state = self.jobs, self.jobs.states[run]
        if over(time.monotonic()):
            return False
        if not state.cut:  # a sentence about that stays until training goes on
            state.stopped = ""
        job = jobs.start(run, stage, words, self.device, module)
        self.say(run, jobs.stage(run))
        clock = written = time.monotonic()
        try:
            while job.poll() is None and not over(clock):
                time.sleep(_POLL)
                now = time.monotonic()
                state.seconds, clock = state.seconds + now - clock, now
                if clock - written > _WRITE:
                    written = clock
                    jobs.write(run)
                    self._write()
            in_time = job.poll() is not None
        finally:  # also if this process is ended
            if job.poll() is None:
                job.terminate()
                try:
                    job.wait(_PATIENCE)
                except TimeoutExpired:
                    job.kill()
                    job.wait()
                jobs.stages.pop(run)
            state.seconds += time.monotonic() - clock
            jobs.write(run)
            self._write()
        if in_time:
            jobs.ended(run, job.returncode)
            if stage != _MEASURES or state.error:
                self.say(run, jobs.stage(run))
        return in_time

"""Effects of signals at random moments on `trm solve` and `trm fit`, counted.

    python benchmarks/faults.py solve fit --times 40

This is no part of the tests, as it takes minutes, and its moments are random. It runs on Linux only
(it reads /proc). Each trial sends a command one or two signals in a new folder, and then runs it to
its end. Its results must equal those of an undisturbed run, without further files.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import torch

TRM = [sys.executable, "-m", "trm"]
DEBUG = Path(__file__).parents[1] / "configs/debug.yaml"
SECONDS = 15.0  # most time for the end of all processes after a signal
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
CARRY = (
    "--model.depth.schedule=carry --model.depth.halt_max_steps=3 --model.depth.exploration=0.5 "
    "--data.canvas.height=4 --data.canvas.width=6"
)
# Name → options of a command, and further options for two processes.
COMMANDS = {
    "solve": (
        "solve --input p.csv --quiet --batch-size 24 --accelerator cpu --output x.jsonl",
        "--devices 2",
    ),
    "fit": (
        f"fit --config {DEBUG} --quiet --ckpt_path last --trainer.max_epochs 6 "
        "--model.depth.random_start 0.3",
        "--trainer.devices 2 --trainer.strategy ddp",
    ),
    "fit, carried": (f"fit --config {DEBUG} --quiet --ckpt_path last {CARRY}", ""),
}


def processes_of(session: int) -> list[int]:
    """Return the ids of a session's living processes, in the order of their start."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(stat.parent.name))
    return sorted(found)


def disturb(command: list[str], folder: Path, dice: random.Random, longest: float) -> Iterator[str]:
    """Start a command, send a signal within some seconds, and check that all its processes end."""
    what, whom = dice.choice(SIGNALS), dice.choice(("first", "other", "all"))
    with tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=err, start_new_session=True
        )
        with suppress(subprocess.TimeoutExpired):
            process.wait(dice.uniform(0, longest))
        there = processes_of(process.pid)
        for number in {"first": there[:1], "other": there[1:2] or there[:1], "all": there}[whom]:
            with suppress(ProcessLookupError):
                os.kill(number, what)
        until = time.monotonic() + SECONDS
        while (processes_of(process.pid) or process.poll() is None) and time.monotonic() < until:
            time.sleep(0.02)
        for number in processes_of(process.pid):
            yield f"LEFT A PROCESS after {what.name} to {whom}"
            os.kill(number, signal.SIGKILL)
        yield f"exit code {process.wait()}"
        err.seek(0)
        if "Traceback" in (text := err.read()):
            yield f"TRACEBACK after {what.name} to {whom}: {text.strip().splitlines()[-1][:100]}"


def result(folder: Path) -> dict[str, bytes]:
    """Return a command's results: answers, and weights of the last and the best checkpoint."""
    found = {file.name: file.read_bytes() for file in folder.glob("*.jsonl")}
    for file in folder.glob("runs/debug/*/checkpoints/*.ckpt"):
        weights = torch.load(file, weights_only=True)["state_dict"]
        found |= {f"{file.stem} {key}": x.numpy().tobytes() for key, x in weights.items()}
    return found


def trials(words: list[str], times: int, dice: random.Random) -> Iterator[str]:
    """Yield the outcomes of a command's trials."""
    lines = [f"{dice.randint(1, 10**5)},{dice.randint(1, 999)}" for _ in range(300)]
    lines[7], lines[99] = "x,1", ""
    whole: dict[str, bytes] = {}
    longest = 0.0
    for number in range(times + 1):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "p.csv").write_text("\n".join(["a,b", *lines, ""]), encoding="utf-8")
            for _ in range(dice.choice((1, 1, 2)) if number else 0):
                yield from disturb(words, folder, dice, longest)
            began = time.monotonic()
            ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=600)
            if ran.returncode not in (0, 1):
                yield f"NOT DONE IN THE END: {ran.stderr.strip()[-200:]}"
            if not number:
                longest, whole = time.monotonic() - began, result(folder)
                continue
            yield "the same result" if result(folder) == whole else "ANOTHER RESULT"
            left = [file.name for file in folder.rglob(".*")]
            yield f"LEFT {left[0]}" if left else "nothing left behind"


def main() -> None:
    """Run commands on one process and on two, and print the counts of outcomes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="*", choices=[*COMMANDS, []], metavar="COMMAND")
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # with more threads, sums are rounded otherwise
    for name in args.commands or COMMANDS:
        one, two = COMMANDS[name]
        for more in ("", two) if two else ("",):
            counts = Counter(
                trials([*TRM, *f"{one} {more}".split()], args.times, random.Random(args.seed))
            )
            print(f"{name} {more}, {args.times} times", flush=True)
            for what, number in counts.most_common():
                print(f"  {number:6,}  {what}")


if __name__ == "__main__":
    main()

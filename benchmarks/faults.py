"""Signals at random moments, odd lines and odd files: what they leave behind, counted.

    python benchmarks/faults.py solve evaluate fit lines checkpoints --times 40

Not part of the tests: it takes minutes, and its moments are random. Linux alone (it reads /proc).
A section is a function that takes the number of times and the dice, and yields what became of each
time; `main` counts.
"""

import argparse
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from canvas.addition import Addition
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from trm.batch.formats import Reader
from trm.batch.solving import written
from trm.batch.writers import make_writer
from trm.checkpoints import SHIPPED
from trm.checkpoints.loading import load_checkpoint, load_solver, pack
from trm.solving.record import COLUMNS, Record

SCRIPT = Path(sys.executable).with_name("trm")
DEBUG = Path(__file__).parents[1] / "configs/debug.yaml"
SECONDS = 15.0  # in which all processes have to end after a signal
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
WHOM = ("first", "other", "all")  # of several processes; the first has started the others


@dataclass
class Ended:
    """What became of a command that was disturbed."""

    code: int | None  # None: it hung
    left: int  # processes that had not ended in time
    err: str


def processes_of(session: int) -> list[int]:
    """The living processes of a session, by their ids, those started first coming first."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, fields = int(stat.parent.name), stat.read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(number)
    return sorted(found)


def disturb(command: list[str], folder: Path, what: int, whom: str, delay: float) -> Ended:
    """Start a command, send a signal after some seconds, and see whether all of it ends."""
    with tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=err, start_new_session=True,
            # Below nohup a SIGINT is ignored, by all that is started there, too.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        until = time.monotonic() + delay
        while process.poll() is None and time.monotonic() < until:
            time.sleep(0.002)
        there = processes_of(process.pid)
        hit = {"first": there[:1], "other": there[1:2] or there[:1], "all": there}[whom]
        for number in hit:
            with suppress(ProcessLookupError):
                os.kill(number, what)
        until = time.monotonic() + SECONDS
        while (processes_of(process.pid) or process.poll() is None) and time.monotonic() < until:
            time.sleep(0.02)
        left = processes_of(process.pid)
        code = process.poll()
        for number in left:
            os.kill(number, signal.SIGKILL)
        process.wait()
        err.seek(0)
        return Ended(code, len(left), err.read())


def kill_at_random(
    command: list[str],
    folder: Path,
    what: int,
    whom: str,
    longest: float,
    dice: random.Random,
    good: tuple[int, ...] = (0,),
) -> Iterator[str]:
    """Disturb a command once or twice, let it end by itself, and say how it went.

    Args:
        command: the words, whose first run makes what later ones go on with.
        folder: where it runs.
        what: the signal.
        whom: one of `WHOM`.
        longest: seconds after which the signal comes at the latest; each time a random share.
        dice: decides when.
        good: exit codes of a command that was done.
    """
    for disturbed in range(dice.choice((1, 1, 2))):
        ended = disturb(command, folder, what, whom, dice.uniform(0, longest))
        if ended.left:
            yield f"hung or left {ended.left} processes"
        if "Traceback" in ended.err:
            yield f"traceback: {ended.err.strip().splitlines()[-1][:100]}"
        if ended.code in good:
            yield "done before the signal" if not disturbed else "done while disturbed"
            return
        yield f"exit code {ended.code}"
    final = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    yield "resumed" if final.returncode in good else f"not resumed: {final.stderr.strip()[-200:]}"


def every(times: int, dice: random.Random, processes: tuple[int, ...]) -> Iterator[tuple]:
    """Processes, signal and whom it hits, as often as asked, all combinations in turn."""
    kinds = [
        (n, what, whom)
        for n in processes
        for what in SIGNALS
        for whom in (WHOM if n > 1 else WHOM[:1])
    ]
    dice.shuffle(kinds)
    for i in range(times):
        yield kinds[i % len(kinds)]


def took(command: list[str], folder: Path) -> float:
    """Seconds of an undisturbed run."""
    began = time.monotonic()
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    if ran.returncode not in (0, 1):
        raise SystemExit(f"an undisturbed run has failed: {ran.stderr.strip()[-500:]}")
    return time.monotonic() - began


def solve(times: int, dice: random.Random) -> Iterator[str]:
    """`trm solve --input`, on one process and on two: the same bytes in the end, nothing beside."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [f"{dice.randint(1, 10**5)},{dice.randint(1, 999)}" for _ in range(300)]
        lines[7], lines[99] = "x,1", ""
        (folder / "p.csv").write_text("\n".join(["a,b", *lines, ""]))
        words = [str(SCRIPT), "solve", "--input", "p.csv", "--quiet", "--batch-size", "24"]
        words += ["--accelerator", "cpu", "--output"]
        yield from _compared(
            [*words, "whole.jsonl"], [*words, "x.jsonl"], folder, times, dice,
            lambda: (folder / "whole.jsonl").read_bytes() == (folder / "x.jsonl").read_bytes(),
            lambda: [f for f in (folder / "x.jsonl", *folder.glob(".x*")) if f.exists()], (1,),
        )  # fmt: skip


def evaluate(times: int, dice: random.Random) -> Iterator[str]:
    """`trm evaluate`, on one process and on two: the same figures in the end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = [str(SCRIPT), "evaluate", "--checkpoint", str(SHIPPED), "--quiet"]
        words += ["--digits-a", "1..5", "--digits-b", "1..4", "--problems", "16"]
        words += ["--accelerator", "cpu", "--output"]

        def figures(output: str) -> list[dict]:
            grid = json.loads((folder / output / "grid.json").read_text())
            clock = ("seconds_per_problem", "computed_on")
            return [
                {k: v for k, v in c.items() if k not in clock} for c in grid["models"][0]["cells"]
            ]

        yield from _compared(
            [*words, "whole"], [*words, "x"], folder, times, dice,
            lambda: figures("whole") == figures("x"),
            lambda: [folder / "x"] if (folder / "x").exists() else [], (0,),
        )  # fmt: skip


def fit(times: int, dice: random.Random) -> Iterator[str]:
    """`trm fit` in both depth schedules, on one process and on two: the same last and best weights.

    They are those of a run that nothing disturbed, bit for bit, in one folder, with one curve.
    """
    common = [str(SCRIPT), "fit", "--config", str(DEBUG), "--quiet", "--ckpt_path", "last"]
    common += ["--trainer.max_epochs", "6"]
    common += ["--model.depth.random_start", "0.3"]
    carry = ["--model.depth.schedule", "carry", "--model.depth.halt_max_steps", "3"]
    carry += ["--model.depth.exploration", "0.5", "--model.network.config.skip_blank", "true"]
    carry += ["--data.canvas.height", "4", "--data.canvas.width", "6"]
    two = ["--trainer.devices", "2", "--trainer.strategy", "ddp"]
    with tempfile.TemporaryDirectory() as name:
        longest, whole = {}, {}
        for key in ((1, "fresh"), (1, "carry"), (2, "fresh"), (2, "carry")):
            folder = Path(name, f"whole-{key[0]}-{key[1]}")
            folder.mkdir()
            words = [*common, *(carry if key[1] == "carry" else []), *(two if key[0] > 1 else [])]
            longest[key] = took(words, folder)
            whole[key] = (words, _weights(folder))
        for i, (processes, what, whom) in enumerate(every(times, dice, (1, 2))):
            key = processes, ("fresh", "carry")[i % 2]
            folder = Path(name, f"{i}")
            folder.mkdir()
            words, weights = whole[key]
            label = f"{key[1]}, {processes} process(es), {signal.Signals(what).name} to {whom}"
            for told in kill_at_random(words, folder, what, whom, longest[key], dice):
                yield f"{label}: {told}" if "hung" in told or "trace" in told else told
            yield "the same weights" if _weights(folder) == weights else f"{label}: OTHER WEIGHTS"
            left = [file for file in folder.rglob(".*") if file.is_file()]
            yield f"{label}: LEFT {left[0].name}" if left else "nothing left behind"
            shutil.rmtree(folder)


def _weights(folder: Path) -> dict[str, bytes]:
    """The last and the best checkpoint's weights, of the only run in a folder that has any."""
    held = {}
    for name in ("last", "best"):
        (file,) = folder.glob(f"runs/debug/*/checkpoints/{name}.ckpt")
        weights = torch.load(file, weights_only=True)["state_dict"]
        held |= {f"{name} {key}": value.numpy().tobytes() for key, value in weights.items()}
    return held


def _compared(
    whole: list[str],
    words: list[str],
    folder: Path,
    times: int,
    dice: random.Random,
    same: Callable[[], bool],
    made: Callable[[], list[Path]],
    good: tuple[int, ...],
) -> Iterator[str]:
    longest = {1: took(whole, folder)}
    two = ["--devices", "2"]
    longest[2] = took([*words, *two], folder)
    for processes, what, whom in every(times, dice, (1, 2)):
        for path in made():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        command = [*words, *(two if processes > 1 else [])]
        label = f"{processes} process(es), {signal.Signals(what).name} to {whom}"
        for told in kill_at_random(command, folder, what, whom, longest[processes], dice, good):
            yield f"{label}: {told}" if "hung" in told or "trace" in told else told
        yield "the same result" if same() else f"{label}: ANOTHER RESULT"
        rest = [f for f in folder.rglob(".*") if f.is_file() or f.name.endswith(".parts")]
        yield f"{label}: LEFT {rest[0].name}" if rest else "nothing left behind"


# Pieces that lines are made of.
_JSON = (
    '{"a": 12, "b": 34}', '"\\ud800"', "1e999", "NaN", "[" * 484 + "]" * 484, "-0", "9" * 5000,
    '{"a": 1, "b": 2, "line": 3, "input_line": 4}', "null", "true", '"\\u0000"', "é", "\x00",
    '{"a": "1", "b": "2", "=1+1": "=2"}', "{", "}", "[", "]", ",", ":", '"', "\\", " ", "\r",
)  # fmt: skip


# Headers of CSV, and under each a line of CSV and what a line of JSON begins with.
_LINES = {
    "a,b,line": ("1,2,x", '"a": 12, "b": 34'),
    "problem,line": ("1*2,x", '"problem": "12*34"'),
    "line,operands": ('x,"[1, 2]"', '"operands": [12, 34]'),
}


def lines(times: int, dice: random.Random) -> Iterator[str]:
    """Odd files of problems: each line one record that can be written, or the file is refused."""
    for _ in range(times * 100):
        format, task = dice.choice(("csv", "jsonl")), dice.choice((Multiplication(), Addition()))
        shape = dice.choice(list(_LINES))
        head, *forms = (text.replace("*", task.sign) for text in (shape, *_LINES[shape]))
        rows = []
        for _ in range(6):
            row = forms[0]
            if format == "jsonl":
                row = f'{{{forms[1]}, "x": {dice.choice(_JSON)}}}'
            for _ in range(dice.choice((0, 0, 1, 3))):
                at = dice.randrange(len(row) + 1)
                row = row[:at] + dice.choice(_JSON) + row[at + dice.choice((0, 1, 5)) :]
            rows.append(row.replace("\n", " "))
        text = "\n".join(([head] if format == "csv" else []) + rows)
        data = bytearray(text.encode("utf-8", "surrogatepass"))
        for _ in range(dice.choice((0, 0, 2))):
            data[dice.randrange(len(data))] = dice.randrange(256)
        try:
            reader = Reader(io.BytesIO(data), "x", format, task)
            for entry in reader:
                record = Record(
                    line=entry.line, problem=entry.problem, error=entry.error, other=entry.other
                )
                values = written(record, list(COLUMNS))
                for kind in ("csv", "jsonl"):
                    line = make_writer(kind, list(values), None).line(values)
                    line.encode("utf-8")
                    if kind == "jsonl":
                        json.loads(line, parse_constant=_no_json)
        except ValueError as error:
            yield (
                "file refused" if "header" in str(error) or "column" in str(error) else repr(error)
            )
        except Exception as error:
            yield f"{type(error).__name__}: {str(error)[:80]}"
        else:
            yield "every line read and written"


def _no_json(constant: str) -> None:
    raise RuntimeError(f"{constant} was written, which is no JSON")


def checkpoints(times: int, dice: random.Random) -> Iterator[str]:
    """Damaged checkpoints and weights: refused in a sentence within seconds, or solved with."""
    content = load_checkpoint(SHIPPED)
    saved = io.BytesIO()
    torch.save(content, saved)
    kinds = {"x.safetensors": pack(content, {}), "x.ckpt": saved.getvalue()}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(times * 10):
            name, whole = dice.choice(list(kinds.items()))
            data = bytearray(whole)
            if dice.random() < 0.3:
                del data[dice.randrange(len(data)) :]
            for _ in range(dice.choice((1, 8, 500))):
                data[dice.randrange(len(data) if dice.random() < 0.5 else 4000) % len(data)] = (
                    (dice.randrange(256)) if data else 0
                )
            file = Path(folder) / name
            file.write_bytes(data)
            began = time.process_time()
            try:
                solver = load_solver(file, device="cpu")
                solver.solve(Problems.from_ints([(12, 3)], solver.task.base))
                yield "solved with"
            except ValueError as error:
                yield "refused" if len(str(error)) < 600 else "refused at length"
            except Exception as error:
                yield f"{type(error).__name__}: {str(error)[:80]}"
            if time.process_time() - began > 10:
                yield "took more than 10 s of a processor"


SECTIONS: dict[str, Callable[[int, random.Random], Iterator[str]]] = {
    "solve": solve,
    "evaluate": evaluate,
    "fit": fit,
    "lines": lines,
    "checkpoints": checkpoints,
}


def main() -> None:
    """Run sections, and print what was counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", choices=SECTIONS, metavar="SECTION")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=30, help="of a section, at most")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # with more threads, sums are rounded otherwise
    for name in args.sections or SECTIONS:
        began, counts = time.monotonic(), Counter[str]()
        for told in SECTIONS[name](args.times, random.Random(args.seed)):
            counts[told] += 1
            if time.monotonic() - began > 60 * args.minutes:
                counts["stopped, out of minutes"] = 1
                break
        print(f"{name}, {args.times} times, seed {args.seed}, {time.monotonic() - began:.0f} s")
        for told, number in counts.most_common():
            print(f"  {number:6,}  {told}")


if __name__ == "__main__":
    main()

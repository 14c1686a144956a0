"""Rows per second of drawing and turning training samples: batches against one sample at a time.

The plain renderer below is what one writes first: a problem is worked out with Python integers,
its rows are strings, and the canvas is copied for every row. Both give the same arrays, which is
checked before anything is timed. Turned and shifted they are with `augment.random_views`, a batch
at a time, and with albumentations.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import albumentations as A
import numpy as np
import torch

from augment.random_views import RandomViews
from augment.transforms import CanvasShift, SampleTransform
from canvas import symbols
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.render import draw_worked, row_steps
from canvas.sampling import sample

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def ours(problems: Problems, height: int, width: int) -> Arrays:
    """Inputs, labels and answer masks of all row steps of a batch, ``[N, H, W]`` each."""
    worked = Multiplication.layouts["standard"].work(problems)
    steps = row_steps(draw_worked(worked, height, width))
    return steps.inputs, steps.labels, steps.answer


def plain(pairs: list[tuple[int, ...]], height: int, width: int) -> Arrays:
    """The same, one problem and one row after the other."""
    inputs, labels, answers = [], [], []
    for a, b in pairs:
        digits = str(b)[::-1]
        rows = [str(a), "*_" + str(b)]
        rows += [str(a * int(digit)) + "_" * i for i, digit in enumerate(digits)]
        rows.append(str(a * b))
        right = max(len(str(a)) + len(digits), len(digits) + 2)
        canvas = np.full((height, width), symbols.BLANK, dtype=np.uint8)
        for i, row in enumerate(rows):
            if i >= 2:
                asked = canvas.copy()
                asked[i] = symbols.MASK
                inputs.append(asked)
            canvas[i, right - len(row) : right] = symbols.encode(row)
            if i >= 2:
                labels.append(canvas.copy())
                answer = np.zeros((height, width), dtype=bool)
                answer[i] = True
                answers.append(answer)
    return np.stack(inputs), np.stack(labels), np.stack(answers)


def turned_at_once(arrays: Arrays) -> Arrays:
    """Each sample in one of the eight symmetries, anywhere on the canvas."""
    inputs, labels, answers = map(torch.from_numpy, arrays)
    drawn = RandomViews(shift=True).draw(labels, torch.rand(len(labels), 3))
    first, second, third = (drawn.show(part).numpy() for part in (inputs, labels, answers))
    return first, second, third


def turned_one_by_one(arrays: Arrays, transform: SampleTransform) -> Arrays:
    """The same by albumentations."""
    samples = zip(*arrays, strict=True)
    moved = [transform(*sample, seed)[:3] for seed, sample in enumerate(samples)]
    inputs, labels, answers = (np.stack(part) for part in zip(*moved, strict=True))
    return inputs, labels, answers


def timed(function: Callable[[], Arrays]) -> float:
    """Rows a second."""
    start = time.perf_counter()
    rows = len(function()[0])
    return rows / (time.perf_counter() - start)


def main() -> None:
    """Check that both draw the same, then time them in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, default=7, help="of both operands")
    parser.add_argument("--size", type=int, default=20, help="height and width of the canvas")
    parser.add_argument("--batch", type=int, default=512, help="problems drawn at once")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()

    length = (options.digits, options.digits)
    task = Multiplication(layout="standard", digits_a=length, digits_b=length)
    problems = sample(task, 0, "train", 0, np.arange(options.batch))
    pairs = problems.to_ints()
    size = (options.size, options.size)
    for mine, theirs in zip(ours(problems, *size), plain(pairs, *size), strict=True):
        if not (mine.dtype == theirs.dtype and np.array_equal(mine, theirs)):
            raise SystemExit("the two renderers draw different arrays: nothing was timed")

    torch.set_num_threads(1)
    several = ours(problems, *size)
    transform = SampleTransform([A.D4(p=1.0), CanvasShift()])
    ways: dict[str, Callable[[], Arrays]] = {
        "drawn as arrays": lambda: ours(problems, *size),
        "drawn one by one": lambda: plain(pairs, *size),
        "turned as arrays": lambda: turned_at_once(several),
        "turned one by one": lambda: turned_one_by_one(several, transform),
    }
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.repeats):
        for name, way in ways.items():
            speeds[name].append(timed(way))
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    print(
        f"row steps of {options.digits} x {options.digits} digits on {size[0]} x {size[1]}, "
        f"batches of {options.batch}, one thread, median of {options.repeats} interleaved repeats"
    )
    for name, value in medians.items():
        against = medians[name.replace("as arrays", "one by one")]
        print(f"{name:>17}  {value:>10,.0f} rows/s  {value / against:>5.1f} x")


if __name__ == "__main__":
    main()

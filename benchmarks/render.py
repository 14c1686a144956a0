"""Row steps drawn and turned a second: batches of arrays against one sample at a time.

The plain renderer below is the simplest one: it solves a problem with Python integers, its rows are
strings, and it copies the canvas for every row. Before the timing, both renderers are checked to
draw the same arrays. Albumentations turns and shifts the samples.
"""

import argparse
from collections.abc import Callable
from typing import Any

import albumentations as A
import numpy as np
import torch
from timing import in_turn, show

from augment.transforms import CanvasShift, SampleTransform
from canvas import symbols
from canvas.drawing import row_steps
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.sampling import sample

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def ours(problems: Problems, height: int, width: int) -> Arrays:
    """Return inputs, labels and answer masks of all row steps of a batch, ``[N, H, W]`` each."""
    steps = row_steps(Multiplication.layouts["standard"].draw_worked(problems, height, width))
    return steps.inputs, steps.labels, steps.answer


def plain(pairs: list[tuple[int, ...]], height: int, width: int) -> Arrays:
    """Return the arrays of `ours`, drawn one problem and one row after the other."""
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
                masked = canvas.copy()
                masked[i] = symbols.MASK
                inputs.append(masked)
            canvas[i, right - len(row) : right] = symbols.encode(row)
            if i >= 2:
                labels.append(canvas.copy())
                answer = np.zeros((height, width), dtype=bool)
                answer[i] = True
                answers.append(answer)
    return np.stack(inputs), np.stack(labels), np.stack(answers)


def turned(arrays: Arrays) -> list[np.ndarray]:
    """Transform each sample by one of the eight symmetries, and shift it on the canvas."""
    transform = SampleTransform([A.D4(p=1.0), CanvasShift()])
    samples = zip(*arrays, strict=True)
    moved = [transform(*sample, seed)[:3] for seed, sample in enumerate(samples)]
    return [np.stack(part) for part in zip(*moved, strict=True)]


def main() -> None:
    """Check that both renderers draw the same arrays, then time them in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, default=7, help="of both operands")
    parser.add_argument("--size", type=int, default=20, help="height and width of the canvas")
    parser.add_argument("--batch", type=int, default=512, help="problems drawn at once")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    length = (options.digits, options.digits)
    task = Multiplication(layout="standard", digits_a=length, digits_b=length)
    problems = sample(task, 0, "train", 0, np.arange(options.batch))
    pairs, size = problems.to_ints(), (options.size, options.size)
    arrays = ours(problems, *size)
    for mine, theirs in zip(arrays, plain(pairs, *size), strict=True):
        if not (mine.dtype == theirs.dtype and np.array_equal(mine, theirs)):
            raise SystemExit("the two renderers draw different arrays: nothing was timed")
    drawn: dict[str, Callable[[int], Any]] = {
        "drawn one by one": lambda _: plain(pairs, *size),
        "drawn as arrays": lambda _: ours(problems, *size),
    }
    drawn |= {"turned by albumentations": lambda _: turned(arrays)}
    rows = len(arrays[0])
    print(f"{rows} row steps of {options.digits} x {options.digits} digits on {size}, one thread")
    show(in_turn(drawn, options.repeats), rows, "rows/s")


if __name__ == "__main__":
    main()

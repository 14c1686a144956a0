"""Tokens per second of greedy decoding: keys and values cached, against the prefix recomputed.

Untrained, and with an end that never comes, so that every token of the canvas is written.
"""

import argparse
import statistics
import time

import torch

from canvas.symbols import START
from trm.models.configs import POSITIONS, GPTConfig
from trm.models.gpt import GPT


def timed(model: GPT, batch: int, cached: bool) -> float:
    """Seconds to write a batch of canvases from their start tokens."""
    config = model.config
    forced = torch.full((batch, 2 + config.height * (config.width + 1)), -1)
    forced[:, 0] = START
    start = time.perf_counter()
    model.generate(forced, config.height, config.width, config.vocab_size, cached)
    return time.perf_counter() - start


def main() -> None:
    """Time batch sizes in turn, with the cache and without."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=20, help="rows and columns of the canvas")
    parser.add_argument("--hidden-size", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--position", choices=POSITIONS, default="learned_2d")
    parser.add_argument("--batches", type=int, nargs="+", default=(1, 8))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    torch.manual_seed(0)
    model = GPT(
        GPTConfig(
            height=options.size,
            width=options.size,
            hidden_size=options.hidden_size,
            num_heads=options.heads,
            num_layers=options.layers,
            position=options.position,
        )
    ).eval()
    seconds: dict[tuple[int, bool], list[float]] = {
        (batch, cached): [] for batch in options.batches for cached in (True, False)
    }
    for batch in options.batches:
        timed(model, batch, cached=True)  # the first time also allocates
    for _ in range(options.repeats):
        for (batch, cached), times in seconds.items():
            times.append(timed(model, batch, cached))

    tokens = 1 + options.size * (options.size + 1)  # all but the start
    print(
        f"{tokens} tokens of a {options.size} x {options.size} canvas, {options.layers} layers, "
        f"{options.heads} heads, width {options.hidden_size}, {options.position}, "
        f"{options.threads} thread(s), median of {options.repeats} interleaved repeats"
    )
    print(f"{'batch':>6}  {'cached tokens/s':>15}  {'recomputed tokens/s':>19}  {'ratio':>6}")
    for batch in options.batches:
        fast, slow = (
            batch * tokens / statistics.median(seconds[batch, cached]) for cached in (True, False)
        )
        print(f"{batch:>6}  {fast:>15,.0f}  {slow:>19,.0f}  {fast / slow:>6.1f}")


if __name__ == "__main__":
    main()

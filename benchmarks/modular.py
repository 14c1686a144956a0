"""Products modulo p of the sizes of an open challenge, by a cell model.

The ten tiers of the modular arithmetic challenge (SAIRcompetition/modular-arithmetic-challenge,
rules/evaluation.md): p of 1-3, 4-8, 9-16, ... 1025-2048 bits, a and b of up to 32, 48, 64, ... 4096
bits. The layout requires that the first number is below p, so each problem is solved twice by the
model: 1 · a mod p = r, then r · b mod p. Half of the problems are random, the others structured.

    trm fit --config generalise/modular
    python benchmarks/modular.py --checkpoint runs/modular --tiers 1-8 --problems 20 --output tiers
"""

import argparse
import json
import time
from pathlib import Path
from random import Random

from canvas.modular import Modular
from trm import load_solver
from trm.evaluation.statistics import Share
from trm.solving.solver import Solver

P_BITS = ((1, 3), (4, 8), *((2**n + 1, 2 ** (n + 1)) for n in range(3, 11)))
OPERAND_BITS = (32, 48, 64, 96, 128, 256, 512, 1024, 2048, 4096)


def is_prime(n: int, random: Random) -> bool:
    """Return whether a number is prime, by the test of Miller and Rabin with 20 bases."""
    if n < 4 or n % 2 == 0:
        return n in (2, 3)
    odd = n - 1
    while odd % 2 == 0:
        odd //= 2
    for _ in range(20):
        x, power = pow(random.randrange(2, n - 1), odd, n), odd
        while power != n - 1 and x not in (1, n - 1):
            x, power = x * x % n, 2 * power
        if x != n - 1 and power % 2 == 0:
            return False
    return True


def prime(random: Random, low: int, high: int) -> int:
    """Draw a prime of ``low`` to ``high`` bits."""
    while True:
        found = random.randrange(2 ** (random.randint(low, high) - 1), 2**high) | 1
        if low <= found.bit_length() <= high and is_prime(found, random):
            return found


def problems(random: Random, tier: int, count: int) -> list[tuple[int, int, int]]:
    """Return problems of a tier as (a, b, p): random ones, then structured ones."""
    low, high = P_BITS[tier - 1]
    bits = OPERAND_BITS[tier - 1]
    primes = [prime(random, low, high) for _ in range(5)]
    found = [
        (random.getrandbits(bits), random.getrandbits(bits), primes[i % 5])
        for i in range(count // 2)
    ]
    top = 2**high  # the moduli 2^k - 1 and 2^k - 3 need not be prime, and the model does not care
    structured = [
        (a, b, p)
        for p in (primes[0], top - 1, top - 3)
        for a, b in (
            (p - 1, p - 1), (0, p - 1), (p - 1, 1), (1, 0), (2 ** (bits - 1), p - 1),
            (2**bits - 1, 2**bits - 1), (p, p + 1), (p >> 1, 2 ** (bits // 2)),
        )
    ]  # fmt: skip
    random.shuffle(structured)
    return found + structured[: count - len(found)]


def remainders(solver: Solver, given: list[tuple[int, int, int]]) -> list[int | None]:
    """Return the model's answers to a · b mod p for each (a, b, p) with a < p; None: no number."""
    return [one.answer for one in solver.solve(solver.task.problems(given))]


def products(solver: Solver, asked: list[tuple[int, int, int]]) -> list[int | None]:
    """Return the model's answers for any a, b and p: first 1 · a mod p, then that times b."""
    reduced = remainders(solver, [(1, a, p) for a, _, p in asked])
    fits = [i for i, r in enumerate(reduced) if r is not None and r < asked[i][2]]
    found: list[int | None] = [None] * len(asked)
    second = remainders(solver, [(reduced[i] or 0, *asked[i][1:]) for i in fits])
    for i, answer in zip(fits, second, strict=True):
        found[i] = answer
    return found


def main() -> None:
    """Solve problems of each tier, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--tiers", default="1-8", help="first and last, of 1 to 10")
    parser.add_argument("--problems", type=int, default=20, help="of each tier")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("modular"))
    args = parser.parse_args()
    solver = load_solver(args.checkpoint)
    assert isinstance(solver.task, Modular)
    low, _, high = args.tiers.partition("-")
    rows = []
    for tier in range(int(low), int(high or low) + 1):
        random = Random(f"{args.seed} {tier}")
        asked = problems(random, tier, args.problems)
        began, used = time.perf_counter(), time.process_time()
        answers = products(solver, asked)
        correct = sum(x == a * b % p for x, (a, b, p) in zip(answers, asked, strict=True))
        seconds = time.perf_counter() - began, time.process_time() - used
        rows.append(
            {
                "tier": tier,
                "p_bits": P_BITS[tier - 1],
                "operand_bits": OPERAND_BITS[tier - 1],
                **Share(correct, len(asked)).data(),
                "seconds": seconds[0] / len(asked),
                "processor_seconds": seconds[1] / len(asked),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "tiers.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

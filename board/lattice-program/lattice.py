"""Long multiplication on the page `lattice`, cell by cell, written by hand: nothing is trained.

It works as the shipped model does: the multiplicand on top, a digit of the multiplier beside each
row, and in row i the number t_i = ⌊t_(i−1) / 10⌋ + a · b_i. Each cell is worked out once, from the
right to the left, from the digit above left, the digit of a in its column, the digit of b in its
row and the carry from the right. No number of more than two digits is ever multiplied or added.

    trm benchmark export --suite multiply-v1 --output multiply-v1
    python lattice.py multiply-v1/multiply-v1.jsonl predictions-multiply-v1.jsonl.gz
"""

import gzip
import json
import sys


def multiply(a: str, b: str) -> str:
    """The product of two numbers in decimal digits."""
    top = [int(digit) for digit in reversed(a)]  # lowest first, as everywhere here
    row, product = [0] * (len(top) + 1), []
    for digit in map(int, reversed(b)):
        above, carry, row = [*row[1:], 0], 0, []  # ⌊t / 10⌋: one place to the right
        for place in range(len(top) + 1):
            cell = above[place] + (top[place] * digit if place < len(top) else 0) + carry
            row.append(cell % 10)
            carry = cell // 10
        product.append(row[0])
    return "".join(map(str, reversed(product + row[1:]))).lstrip("0") or "0"


def main(suite: str, predictions: str) -> None:
    """Answer all problems of an exported suite."""
    with open(suite, encoding="utf-8") as file, gzip.GzipFile(predictions, "wb", mtime=0) as out:
        for line in file:
            problem = json.loads(line)
            answer = multiply(*problem["metadata"]["operands"])
            written = json.dumps({"id": problem["id"], "prediction": answer})
            out.write(f"{written}\n".encode())


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("give an exported suite (JSON Lines), and the file to write, predictions.jsonl.gz")
    main(*sys.argv[1:])

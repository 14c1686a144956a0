"""Check that a table multiplies, or adds, numbers of any length: python check.py FOLDER

The table says what a cell writes and hands on, for what it sees. Three things are checked.
1. Every cell of every page finds an entry: what rows can hand down is gathered until all is known.
2. The digits are right: base * carry' + product' = a * b + carry, and base * sum_carry' + digit =
   addend + product + sum_carry. No carry comes into a row, and none leaves it, as a page is as wide
   as its numbers: all cells of a row together say that the row is right.
3. A digit is written where the number reaches and only there: no gap, no leading zero.
"""

import json
import sys
from pathlib import Path

import numpy as np

BLANK, MASK, DIGITS = 11, 13, [*range(1, 11), *range(18, 24)]  # ids; the digit d as a class: 1 + d
IDS = {"_": [BLANK], ".": [MASK], "*": [12], "+": [17]}
# Rows, with those that can be above, and columns: name, place, ids that can stand there (d for the
# digits, D without 0), and names of those that can be on the left.
LATTICE = {
    "a": "edge: margin margin _ margin,sign; sign sign * gap; gap gap _ units,one; one units d no; "
    "units units d tens,second; tens tens d digit,highest; second tens D beyond; no tens _ beyond,"
    "end; digit rest d digit,highest; highest rest D beyond; beyond rest _ beyond,end",
    "b": "a,b: margin margin . margin,sign; sign sign d gap; gap gap . units; units units . tens; "
    "tens tens . rest,end; rest rest . rest,end",
}
COLUMN = {
    "top": "edge,top: margin margin _ margin,units; units units d rest; rest rest d_+ rest,end",
    "sum": "top: margin margin . margin,units; units units . rest; rest rest . rest,end",
}
PLACES = ("end", "margin", "sign", "gap", "units", "tens", "rest")


def value(number):
    """The digit of a class; none counts 0."""
    return np.maximum(number - 1, 0)


def lattice_laws(base, row, place, s, out, number):
    """What has to hold of what is seen and done, and whether it does. number: of the symbol."""
    if place in ("margin", "gap"):
        yield "nothing is written here", number == 0
    if row == "a":
        yield "its digit of a goes down", out["multiplicand"] == number
        yield "the row of a is not added", out["addend"] == 0
    elif place == "sign":
        yield "its digit of b goes on", out["multiplier"] == number
        yield "no carry comes into a row", value(out["carry"]) == 0
    elif place != "margin":
        b = value(s["right.multiplier"])
        product = value(s["above_left.multiplicand"]) * b + value(s["right.carry"])
        done = base * value(out["carry"]) + value(out["product"])
        yield "the digit of b goes on", out["multiplier"] == s["right.multiplier"]
        yield "base * carry' + product' = a * b + carry", done == product
        gap, carry = place == "gap", value(out["sum_carry"])
        added = value(s["above_left.addend"]) + value(s["right.product"])
        total = base * carry + value(number) - value(s["right.sum_carry"])
        reaches = np.where(b > 0, s["above.multiplicand"], s["above_left.addend"]) > 0
        stands = (place == "units") | (number > 1) | reaches
        yield "no carry comes into a sum", (carry == 0) | (not gap)
        yield "base * sum_carry' + digit = addend + product + sum_carry", (total == added) | gap
        yield "the digit of a goes down", (out["multiplicand"] == s["above.multiplicand"]) | gap
        yield "its digit goes down", (out["addend"] == number) | gap
        yield "no gap, no leading zero", ((number > 0) == stands) | gap


def column_laws(base, row, place, s, out, number):
    """The same of addition, where a running sum goes down."""
    added = value(s["above.addend"]) + value(s["above.sum"]) + value(s["right.sum_carry"])
    done = base * value(out["sum_carry"]) + value(out["sum"])
    stands = (s["above.addend"] > 0) | (s["above.sum"] > 0) | (s["right.sum_carry"] > 1)
    yield "base * sum_carry' + sum' = addend + sum + sum_carry", done == added
    yield "no gap, no leading zero", (out["sum"] > 0) == stands
    yield "the digit goes down", row == "sum" or out["addend"] == number
    yield "the sum is written", row != "sum" or number == out["sum"]


class Check:
    """A table, and what is known of the pages that it is asked about."""

    def __init__(self, file):
        with np.load(file, allow_pickle=False) as arrays:
            about, self.outputs = json.loads(str(arrays["about"])), {}
            for name, inputs in about["inputs"].items():
                keys, values = arrays[f"{name}.keys"].astype(int).T, arrays[f"{name}.values"]
                sizes = tuple(keys.max(axis=1) + 1)
                keys = np.ravel_multi_index(tuple(keys), sizes)
                self.outputs[name] = inputs, sizes, keys, values.astype(int)
        self.layout, self.base = about["layout"], int(about["base"])
        layouts = {"lattice": (LATTICE, lattice_laws), "column": (COLUMN, column_laws)}
        page, self.laws = layouts[self.layout]
        names = [about["messages"][way] for way in ("left", "down")]
        self.size = dict.fromkeys([*names[0], *names[1]], self.base + 1) | {"sum_carry": 3}
        self.left, self.down = ((n, tuple(self.size[name] for name in n)) for n in names)
        self.most = 1 + (self.base + 1) ** 2  # codes of what is handed down; 0: no such cell
        ids = IDS | {"d": DIGITS[: self.base], "D": DIGITS[1 : self.base]}
        self.rows, self.below, self.windows = {}, [], []
        for row, (above, columns) in ((row, text.split(": ")) for row, text in page.items()):
            self.below += [(row, one) for one in above.split(",")]
            self.rows[row] = {"end": (0, [], [])}
            for name, place, there, left in map(str.split, columns.split("; ")):
                stands = [i for sign in there for i in ids[sign]]
                self.rows[row][name] = PLACES.index(place), stands, left.split(",")
        rows = ("edge", *self.rows)  # of which: what a place hands down, marks side by side
        self.handed = {row: np.arange(7 * self.most).reshape(7, -1) == 0 for row in rows}
        self.pairs = {row: np.zeros((64, 64), dtype=bool) for row in rows}
        self.pairs["edge"][0, 0] = self.handed["edge"][:, 0] = True

    def mark(self, place, down):
        """A place, and whether each field handed down there is none, 0 or more; 0: no such cell."""
        first, second = np.divmod(value(down), self.base + 1)
        return (down > 0) * (1 + 9 * (place - 1) + 3 * first.clip(max=2) + second.clip(max=2))

    def work(self, row, above):
        """One row, from the right; a state is what comes from the right and above, and a mark."""
        columns, handed, seen = self.rows[row], self.handed[above], {}
        fresh = {n: np.flatnonzero(handed[columns[n][0]]) * 64 for n in columns["margin"][2]}
        while any(map(len, fresh.values())):
            found = {}
            for name, states in fresh.items():
                seen[name] = np.union1d(seen.get(name, states), states)
                place, tokens, lefts = columns[name]
                cells, of = np.unique(states // 64, return_inverse=True)
                right, over = np.divmod(cells, self.most)
                beside, says = np.zeros((2, len(cells), 64), dtype=np.float32)
                beside[of.reshape(-1), states % 64] = 1
                for left in lefts:
                    there = columns[left][0]
                    options = np.flatnonzero(handed[there])
                    fits = self.pairs[above][self.mark(place, over)][:, self.mark(there, options)]
                    which, corner = fits.nonzero()
                    corner = options[corner]  # what is handed down above left
                    for token in tokens if len(which) else ():
                        out = self.cell(row, name, token, right[which], over[which], corner)
                        on, down = (
                            1 + np.ravel_multi_index(tuple(out[name] for name in names), sizes)
                            for names, sizes in (self.left, self.down)
                        )
                        mine = self.mark(place, down)
                        self.handed[row][place, down] = says[which, mine] = True
                        self.pairs[row][mine, 0] |= left == "end"
                        state = (on * self.most + corner) * 64 + mine
                        found.setdefault(left, []).append(np.unique(state))
                self.pairs[row] |= beside.T @ says > 0
            fresh = {n: np.setdiff1d(np.concatenate(s), seen.get(n, ())) for n, s in found.items()}

    def cell(self, row, name, token, right, above, corner):
        """What cells do that see this, all of it checked."""
        seen, corner = {"token": np.full(len(right), token)}, corner * (self.layout == "lattice")
        ways = (self.left, right), (self.down, above), (self.down, corner)
        for who, ((names, sizes), code) in zip(("right", "above", "above_left"), ways, strict=True):
            fields = zip(names, np.unravel_index(value(code), sizes), strict=True)
            seen |= {who: (code > 0).astype(int)} | {f"{who}.{n}": part for n, part in fields}
        out, laws = {"symbol": seen["token"]}, []
        for output, (inputs, sizes, keys, values) in self.outputs.items():
            if output != "symbol" or token == MASK:
                parts = np.stack([seen[name] for name in inputs])
                key = np.ravel_multi_index(tuple(parts), sizes, mode="clip")
                at = np.searchsorted(keys, key).clip(max=len(keys) - 1)
                known = (keys[at] == key) & (parts < np.array(sizes)[:, None]).all(axis=0)
                laws.append((f"there is an entry of {output}", known))
                out[output] = values[at]
        laws += [(f"{field} has {n} classes", out[field] < n) for field, n in self.size.items()]
        digit = np.array(DIGITS[: self.base]) == out["symbol"][:, None]
        number = digit @ np.arange(1, self.base + 1)
        known = (number > 0) | (out["symbol"] == BLANK) | (token != MASK)
        laws.append(("a digit or a blank is written", known))
        laws += self.laws(self.base, row, PLACES[self.rows[row][name][0]], seen, out, number)
        for law, holds in laws:
            if not np.all(holds):
                cell = {n: int(v[np.argmin(holds)]) for n, v in {**seen, **out}.items()}
                raise AssertionError(f"in row {row}, {name}, against '{law}': {cell}")
        code = (right * self.most + above) * self.most + corner
        self.windows.append(np.unique(code * 24 + token))
        return out


def main(path):
    """Exit code 0: proved; 1: not, with the first entry that is wrong; 2: there is no table."""
    file, known = Path(path) / "table.npz" if Path(path).is_dir() else Path(path), -1
    try:
        check = Check(file)
        found = (*check.handed.values(), *check.pairs.values())
        while known != (known := sum(part.sum() for part in found)):
            for row, above in check.below:
                check.work(row, above)
        windows = len(np.unique(np.concatenate(check.windows)))
    except AssertionError as wrong:
        print(f"not proved: {wrong}")
        return 1
    except Exception as error:  # what is no archive, or no table, can fail in any way
        print(f"{file} is no table that can be checked: {error!r}", file=sys.stderr)
        return 2
    print(f"proved: {check.layout} in base {check.base}, all {windows:,} windows of all pages")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

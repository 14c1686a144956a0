"""Check that a table multiplies, or adds, numbers of any length: python check.py FOLDER

The table maps the inputs of a cell to the symbol that it writes and the signals that it passes to
its neighbours. Three things are checked (docs/proof.md has the reasons):
1. Every cell of every page has an entry: rows are enumerated until no row passes anything new.
2. The digits are correct: base * carry' + product' = a * b + carry, and base * sum_carry' + digit =
   addend + product + sum_carry. No carry enters a row, and none leaves it, as a page is as wide as
   its numbers. So the equations of its cells add up to the equation of the row.
3. A digit is written where the number reaches and only there: no gap, no leading zero.

Terms: a class is a value of a signal; 0: none, 1 + d: the digit d, then special classes. A place
is a part of a row, like its margin or its units. A node is a set of classes of all signals that a
cell passes down. A mark is what is kept of a node to record which nodes can be side by side.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np

BLANK, MASK, DIGITS = 11, 13, [*range(1, 11), *range(18, 24)]  # ids; the digit d as a class: 1 + d
IDS = {"_": [BLANK], ".": [MASK], "*": [12], "+": [17]}
# Kinds of rows, as columns from right to left. "units units d digit,highest" is a column named
# units, in the place units, with one of the symbols d, and a column digit or highest on its left.
# Symbols: d any digit, D any digit but 0, _ a blank, . a cell to be filled in, * and + the signs.
NUMBER = (
    "margin margin _ margin,units,one; units units d digit,highest; digit rest d digit,highest; "
    "one units d {0}; highest rest D {0}; "
)
COLUMNS = {
    "worked": "margin margin . margin,units; units units . rest; rest rest . rest,end",
    "given": "margin margin _ margin,units; units units d rest; rest rest d_+ rest,end",
    "a": NUMBER.format("beyond,end") + "beyond rest _ beyond,end",
    "b": NUMBER.format("gap") + "gap rest _ sign; sign rest * beyond,end; beyond rest _ beyond,end",
    "top": "margin margin _ margin,sign; sign sign * gap; gap gap _ units,one; "
    "one units d no; units units d tens,second; tens tens d digit,highest; second tens D beyond; "
    "no tens _ beyond,end; digit rest d digit,highest; highest rest D beyond; "
    "beyond rest _ beyond,end",
    "beside": "margin margin . margin,sign; sign sign d gap; gap gap . units; "
    "units units . tens; tens tens . rest,end; rest rest . rest,end",
}
HANDED = ("column_multiplicand", "column_multiplier", "zero", "passing", "diagonal")
PLACES = ("end", "margin", "sign", "gap", "units", "tens", "rest")
SEES = {
    "above": "down",
    "above_left": "down_right",
    "above_right": "down_left",
}  # and the direction of its message


def value(number):
    """Return the digit of a class; the class 0 (none) counts as 0."""
    return np.maximum(number - 1, 0)


def lattice_laws(base, does, place, s, out, number):
    """Yield each law of N cells of a lattice as (name, does it hold: bool or bool [N]).

    Args:
        base: of the numbers.
        does: words of the row in `LAYOUTS`.
        place: one of `PLACES`.
        s: inputs, int [N] by name, like s["right.carry"].
        out: outputs, int [N] by name, like out["carry"].
        number: class of the digit that is written, int [N]; 0: a blank.
    """
    if place in ("margin", "gap"):
        yield "nothing is written here", number == 0
    if "top" in does:
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


def column_laws(base, does, place, s, out, number):
    """Yield the laws of addition, in which a running sum is passed down; see `lattice_laws`."""
    addend, carry = s["above.addend"], s["right.sum_carry"]
    added = value(addend) + value(s["above.sum"]) + value(carry)
    done = base * value(out["sum_carry"]) + value(out["sum"])
    stands = (addend > 0) | (s["above.sum"] > 0) | (carry > 1)
    yield "base * sum_carry' + sum' = addend + sum + sum_carry", done == added
    yield "no gap, no leading zero", (out["sum"] > 0) == stands
    yield "the digit goes down", ("given" not in does) | (out["addend"] == number)
    carried = (1 + value(carry)) * (out["sum"] > 0) * (place == "rest")
    written = carried if "carries" in does else out["sum"]
    yield "the sum is written, or its carries", ("given" in does) | (number == written)
    yield "nothing is added twice", ("given" in does) | (out["addend"] == 0)


def long_laws(base, does, place, s, out, number):
    """Yield the laws of layouts with products a * b_i and sums of these; see `lattice_laws`.

    Classes after the digits:

    - base + 1 (`none`): of a or b, the number has ended; of the multiplier, the row does not
      multiply; of a product or a sum, a single 0 that is not added.
    - base + 2: of a product, a 0 on its right that is added and not written.
    """
    none, kinds, goes = (
        base + 1,
        (1, base + 1, base + 2),
        dict.fromkeys(HANDED, 0),
    )  # goes: passed on
    if place == "margin":
        yield "nothing is said", number + sum(out[n] for n in {*out} - {"row", "symbol"}) == 0
    elif does & {"a", "b"}:
        yield "there is no sum yet", out["sum"] + out["product"] == 0
        given = np.where(number > 0, number, none * (place == "rest"))
        if "a" in does:
            goes |= {"column_multiplicand": given, "diagonal": none * (given == none)}
        else:
            goes["column_multiplicand"] = a = s["above.column_multiplicand"]
            goes["column_multiplier"] = np.where(given == none, "zeros" in does, given)
            goes["zero"] = (a == 1) & (s["above_left.diagonal"] == none)
    else:
        above = s["above.column_multiplicand"], s["above.column_multiplier"]
        moved = s["above_right.passing"], s["above_left.diagonal"]
        multiplicand, arriving = here = above if "straight" in does else moved
        multiplier, goes["zero"] = s["right.multiplier"], s["above.zero"]
        if "moves" in does:
            goes["passing"] = multiplicand
            goes["diagonal"] = np.maximum(arriving, "zeros" in does) * (place != "units")
        if does & {"down", "keeps"}:
            goes |= zip(HANDED[:2], here if "down" in does else above, strict=True)
        if place == "units":  # if a is 0, so is each digit of b
            digit = np.where(s["above.zero"] > 0, 1, arriving)
            multiplier = np.where((arriving == 0) | ("copies" in does), none, digit)
        yield "a row has its digit of b, or none", out["multiplier"] == multiplier
        product, carry = out["product"], s["right.carry"]
        a, b, digit = (value(part * (part <= base)) for part in (multiplicand, multiplier, product))
        meet = (multiplicand > 0) & (multiplicand <= base) & (multiplier < none)
        alone, low = meet & (b == 0) & (carry == 0), (b > 0) & (multiplicand == 0)
        stands, done = (b > 0) & (meet | (carry > 1)), base * value(out["carry"]) + digit
        yield "base * carry' + product' = a * b + carry", done == a * b + value(carry)
        yield "a carry is told as far as a reaches", (out["carry"] > 0) == meet
        wanted = stands + 2 * alone + 3 * low
        yield "no gap, no leading zero in a product", np.digitize(product, kinds) == wanted
        total, before, carry = out["sum"], s["above.sum"], s["right.sum_carry"]
        if "adds" not in does:
            product = s["above.product"] if "late" in does else 0 * product
        adds = (product > 0) & (product != none)
        alone = (product == none) & (before + carry == 0) | (before == none) & ~adds
        stands = alone | adds | (before > 0) | (carry == 2)
        done, *added = (value(part * (part <= base)) for part in (total, before, product))
        done, added = done + base * value(out["sum_carry"]), sum(added) + value(carry)
        yield "base * sum_carry' + sum' = sum + product + sum_carry", done == added
        yield "no gap, no leading zero in a sum", np.digitize(total, kinds) == 1 * stands + alone
        yield "its carry is told from column 0 on", (out["sum_carry"] > 0) == stands | (carry > 0)
        shown = np.where((multiplier == none) | ("total" in does), total, out["product"])
        digit = np.where(shown == none, 1, shown * (shown <= base))
        yield "the product is written, or the sum", number == digit
    for name, handed in goes.items():
        yield f"{name} goes where it must", out[name] == handed


# Rows of each layout, "name: rows that can be above: words". A word of `COLUMNS` gives the columns
# of a row; without one they are `worked`. The other words choose laws:
# straight: digits of a and b come from straight above; else a's come from above right, b's from
#   above left.
# down, moves: they are passed on straight down; or moved, a's to the left and b's to the right.
# keeps: the digits from straight above are passed on straight down.
# zeros: there are zeros on the left of b. copies: the row does not multiply.
# adds: the row's product is added to the sum above. late: the product of the row above is added.
# total: the sum is written. more, done: a digit of b arrives in column 0, or none does.
LAYOUTS = {
    "lattice": "a: edge: top; b: a,b: beside",
    "column": "addend: edge,addend: given; sum: addend: total",
    "column_carries": "first: edge: given; last: first: given; carries: last: carries; "
    "sum: carries: total",
    "standard": "a: edge: a; b: a: b; first: b: straight moves adds; next: first,next: moves adds",
    "accumulate": "a: edge: a; b: a: b zeros; first: b: straight moves zeros adds total; "
    "next: first,next: moves zeros adds total",
    "interleaved": "a: edge: a; b: a: b zeros; first: b: straight down late; "
    "sum: first,next: straight moves zeros copies late; next: sum: down late",
    "running_sum": "a: edge: a; b: a: b; first: b: straight keeps moves; "
    "next: first,next: more keeps moves; sum: first,next: done straight moves zeros adds total; "
    "later: sum,later: moves zeros adds total",
}
# In these layouts nodes keep each digit; in others signals have more classes, with `long_laws`.
LAWS = {"lattice": lattice_laws, "column": column_laws, "column_carries": column_laws}
FEW = {
    "symbol": 24,
    "row": 7,
    "sum_carry": 3,
    "comes": 3,
    "zero": 2,
}  # numbers of classes of other signals than digits
MARKS = 128  # upper bound on the number of marks


class Check:
    """A table, and the rows that its pages can have.

    A node stands for a cell above: for each signal it holds one class, or a range of digits. All
    digits of a range are tried: more inputs than pages have, never fewer. Node 0: no such cell.
    """

    def __init__(self, file):
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            about, self.outputs = json.loads(str(arrays["about"])), {}
            for name, inputs in about["inputs"].items():
                keys, values = arrays[f"{name}.keys"].astype(int).T, arrays[f"{name}.values"]
                sizes = tuple(keys.max(axis=1) + 1)
                keys = np.ravel_multi_index(tuple(keys), sizes)
                self.outputs[name] = inputs, sizes, keys, values.astype(int)
        self.layout, self.base = about["layout"], int(about["base"])
        if about.get("codes"):
            raise NotImplementedError("what its codes stand for is not known here")
        if self.layout not in LAYOUTS:
            raise NotImplementedError(f"nothing is known of pages of the layout {self.layout}")
        rows, self.laws = LAYOUTS[self.layout], LAWS.get(self.layout, long_laws)
        base, more = self.base, self.layout not in LAWS
        last = {n: base + more * (1 + (n == "product")) for n in self.outputs}
        self.size = {n: FEW.get(n, 1 + last[n]) for n in self.outputs}
        self.sees = sees = {
            who: about["messages"].get(direction, []) for who, direction in SEES.items()
        }
        self.left = {name: self.size[name] for name in about["messages"]["left"]}
        self.down = list(dict.fromkeys(name for names in sees.values() for name in names))
        apart = {"column_multiplicand": 2, "product": base}  # a range of digits begins there, too
        some = {n: {*range(2, base + 1)} - {apart.get(n)} for n in self.down}
        some |= dict.fromkeys(
            ["carry", *FEW] if more else self.down, ()
        )  # here every class is alone
        starts = [[c for c in range(self.size[n]) if c not in some[n]] for n in self.down]
        parts = np.indices([len(some) for some in starts]).reshape(len(starts), -1)
        self.first, self.many, self.step, self.nodes = {}, {}, {}, len(parts[0]) + 1
        for name, some, part in zip(self.down, starts, parts, strict=True):
            many = np.diff([*some, self.size[name]])
            self.first[name] = np.append(
                0, np.array(some)[part]
            )  # first class of the range, and size
            self.many[name] = np.append(1, many[part])
            self.step[name] = np.repeat(np.arange(len(some)), many) * (part > 0).argmax()
        self.marks = np.tile(-np.sign(np.arange(self.nodes)), (7, 1))  # by place; -1: none yet
        self.away = sum(self.step[n][self.first[n]] for n in sees["above_right"]) - self.marks[0]
        most = 7 if more else 3  # classes that a mark distinguishes
        few = sum(np.minimum(part, most - 1) * most**i for i, part in enumerate(parts))
        self.kept, self.known = np.append(-1, few), {}
        ids = IDS | {"d": DIGITS[:base], "D": DIGITS[1:base]}
        self.rows, self.does, self.below, self.cell_inputs = {"edge": {}}, {}, [], []
        for line in rows.split("; "):
            row, above, does = line.split(": ")
            self.does[row] = set(does.split())
            self.below += [(row, one) for one in above.split(",")]
            self.rows[row] = {"end": (0, [], [])}
            kind = next((word for word in self.does[row] if word in COLUMNS), "worked")
            for name, place, there, left in map(str.split, COLUMNS[kind].split("; ")):
                stands = [i for sign in there for i in ids[sign]]
                self.rows[row][name] = PLACES.index(place), stands, left.split(",")
        # By row: nodes that each place passes down, and pairs of marks that can be side by side.
        self.handed = {row: np.arange(7 * self.nodes).reshape(7, -1) == 0 for row in self.rows}
        self.pairs = {row: np.zeros((MARKS, MARKS), dtype=bool) for row in self.rows}
        self.pairs["edge"][0, 0] = self.handed["edge"][:, 0] = True

    def mark(self, place, node):
        """Return the marks of nodes in a place; 0: there is no such cell."""
        marks = self.marks[place]
        for one in np.unique(node[marks[node] < 0]).tolist():
            marks[one] = self.known.setdefault((place, int(self.kept[one])), 1 + len(self.known))
        return marks[node]

    def work(self, row, above):
        """Work out all rows of one kind, from the right, column by column.

        A state of a column is one number for: the signals from the right, the nodes above right
        and above, and the mark of the cell on the right.
        """
        columns, handed, seen = self.rows[row], self.handed[above], {}
        size = tuple(self.left.values())  # of the signals from the right
        shape = 1 + math.prod(size), self.nodes, self.nodes, MARKS
        fresh = {n: np.flatnonzero(handed[columns[n][0]]) * MARKS for n in columns["margin"][2]}
        while any(map(len, fresh.values())):
            found = {}
            for name, states in fresh.items():
                seen[name] = np.union1d(seen.get(name, states), states)
                place, tokens, lefts = columns[name]
                cells, of = np.unique(states // MARKS, return_inverse=True)
                right, beyond, over = np.unravel_index(cells, shape[:3])
                beside, says = np.zeros((2, len(cells), MARKS), dtype=np.float32)
                beside[of.reshape(-1), states % MARKS] = 1
                for left in lefts:
                    options = np.flatnonzero(handed[there := columns[left][0]])
                    marks = self.mark(place, over), self.mark(there, options)
                    which, corner = self.pairs[above][marks[0]][:, marks[1]].nonzero()
                    nodes = over[which], options[corner], beyond[which]
                    for token in tokens if len(which) else ():
                        at, out = self.cell(row, name, token, right[which], nodes)
                        down = 1 + sum(self.step[n][out[n]] for n in self.down)
                        mine = self.mark(place, down)
                        self.handed[row][place, down] = says[which[at], mine] = True
                        self.pairs[row][mine, 0] |= left == "end"
                        on = 1 + np.ravel_multi_index([out[n] for n in self.left], size)
                        on = on, self.away[nodes[0][at]], nodes[1][at], mine
                        state = np.unique(np.ravel_multi_index(on, shape))
                        found.setdefault(left, []).append(state)
                self.pairs[row] |= beside.T @ says > 0
            fresh = {n: np.setdiff1d(np.concatenate(s), seen.get(n, ())) for n, s in found.items()}

    def cell(self, row, name, token, right, nodes):
        """Return the outputs of cells, and check all laws of them.

        Each node is replaced by all of its classes.

        Args:
            row, name: of the column.
            token: id of the symbol that stands in the cells.
            right: packed signals from the right, int [N]; 0: there is no such cell.
            nodes: above, above left and above right, int [N] each.

        Returns:
            For each of M cells the index of its input, int [M], and outputs by name, int [M] each.

        Raises:
            AssertionError: a law does not hold; the message names the first such cell.
        """
        at, seen, code = np.arange(len(right)), {"right": (right > 0).astype(int)}, token
        parts = np.unravel_index(value(right), tuple(self.left.values()))
        seen |= {f"right.{n}": part for n, part in zip(self.left, parts, strict=True)}
        for (who, names), node in zip(self.sees.items(), nodes, strict=True):
            seen[who] = (node[at] > 0) * bool(names)
            for one, key in ((n, f"{who}.{n}") for n in names):
                seen[key], many = self.first[one][node[at]], self.many[one][node[at]]
                if many.max() > 1:  # each class of a range
                    again = np.repeat(np.arange(len(at)), many)
                    at, seen = at[again], {n: part[again] for n, part in seen.items()}
                    seen[key] += np.arange(len(at)) - np.searchsorted(again, again)
        place, does = PLACES[self.rows[row][name][0]], self.does[row]
        if place == "units" and does & {"more", "done"}:
            some = np.flatnonzero((seen["above_left.diagonal"] > 0) == ("more" in does))
            at, seen = at[some], {n: part[some] for n, part in seen.items()}
        for key, part in seen.items():
            code = code * self.size.get(key.split(".")[-1], 2) + part
        self.cell_inputs.append(np.unique(code))
        seen["token"] = np.full(len(at), token)
        out, laws = {"symbol": seen["token"]}, []
        for output, (inputs, sizes, keys, values) in self.outputs.items():
            if output != "symbol" or token == MASK:
                parts = np.stack([seen[name] for name in inputs])
                key = np.ravel_multi_index(tuple(parts), sizes, mode="clip")
                index = np.searchsorted(keys, key).clip(max=len(keys) - 1)
                known = (keys[index] == key) & (parts < np.array(sizes)[:, None]).all(axis=0)
                laws.append((f"there is an entry of {output}", known))
                seen[f"own.{output}"] = out[output] = values[index]
        laws += [(f"{signal} has {n} classes", out[signal] < n) for signal, n in self.size.items()]
        digit = np.array(DIGITS[: self.base]) == out["symbol"][:, None]
        number = digit @ np.arange(1, self.base + 1)
        known = (number > 0) | (out["symbol"] == BLANK) | (token != MASK)
        laws.append(("a digit or a blank is written", known))
        laws += self.laws(self.base, does, place, seen, out, number)
        for law, holds in laws:
            if not np.all(holds):
                first = {n: int(part[np.argmin(holds)]) for n, part in {**seen, **out}.items()}
                raise AssertionError(f"in row {row}, {name}, against '{law}': {first}")
        return at, out


def main(path):
    """Check a table and return the exit code.

    0: proved; 1: not proved, and the first incorrect entry is printed; 2: there is no table.
    """
    file, known = Path(path) / "table.npz" if Path(path).is_dir() else Path(path), -1
    try:
        check = Check(file)
        found = (*check.handed.values(), *check.pairs.values())
        while known != (known := sum(part.sum() for part in found)):
            for row, above in check.below:
                check.work(row, above)
        cell_inputs = len(np.unique(np.concatenate(check.cell_inputs)))
    except AssertionError as wrong:
        print(f"not proved: {wrong}")
        return 1
    except Exception as error:  # another or a damaged file can fail in any way
        known = str(error) if isinstance(error, NotImplementedError) else "damaged, or another file"
        known = known if file.is_file() else "it is written of a model that is proved"
        print(f"{file} is no table that can be checked: {known}", file=sys.stderr)
        return 2
    print(
        f"proved: {check.layout} in base {check.base}, all {cell_inputs:,} cell inputs of all pages"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""The program that a network has learned: tables from inputs of a cell to its outputs.

Each output depends on few of the inputs. The others are left out as long as the table stays a
function. `write_python` writes the tables as a readable Python file. It solves canvases of any size
as the network does.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from string import ascii_lowercase
from typing import NamedTuple, Self

import numpy as np

from canvas.cells.local_rule import LocalRule
from canvas.cells.spec import NEIGHBOUR_NAMES, SYMBOL, TOKEN
from canvas.symbols import ALL_CHARACTERS, DIGIT_CHARACTERS, MASK
from trm.io.files import replacing

FORMAT = 1  # of the file of the tables
TABLE = "table.npz"  # file name in the folder of a proof
_SAMPLE = 2**15  # entries in the first choice of inputs


class OutputTable(NamedTuple):
    """One output of a cell.

    Attributes:
        inputs: names of the inputs that it depends on: `TOKEN`; a neighbour in `NEIGHBOUR_NAMES`,
            1 if it exists; or a signal of a neighbour, like ``right.carry``.
        keys: values of the inputs, uint8 [E, inputs], sorted.
        values: of the output, uint8 [E].
    """

    inputs: tuple[str, ...]
    keys: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, inputs: Mapping[str, np.ndarray], output: np.ndarray) -> Self:
        """Return the table of N inputs and outputs, without inputs that it does not depend on.

        The presence of neighbours is left out first, then the signals of the cell above, which
        mostly follow from other inputs.
        """
        order = sorted(inputs, key=lambda name: ("." in name, not name.startswith("above.")))
        values, size = output.astype(np.uint8), _SAMPLE
        random = np.random.default_rng(0).permutation(len(values))
        while True:  # inputs that a sample needs are needed; the last sample is all entries
            names, some = list(inputs), random[:size]
            for name in order:
                kept = [other for other in names if other != name]
                if _function([inputs[k][some] for k in kept], values[some]):
                    names = kept
            if found := _function([inputs[name] for name in names], values):
                return cls(tuple(names), *found)
            size *= 4

    def look_up(self, name: str, inputs: Mapping[str, np.ndarray], count: int) -> np.ndarray:
        """Return the outputs for N inputs, int64 [N].

        Args:
            name: of the output, for messages.
            inputs: int64 [N] by name.
            count: N.

        Raises:
            LookupError: there is no entry for one of them.
        """
        keys = self.keys.astype(np.int64).T
        sizes = [1 + int(part.max(initial=0)) for part in keys]
        parts = [inputs[name].astype(np.int64) for name in self.inputs]
        inside = np.ones(count, dtype=bool)
        for part, size in zip(parts, sizes, strict=True):
            inside &= part < size
        known = np.ravel_multi_index(tuple(keys), sizes) if sizes else np.zeros(1, dtype=np.int64)
        order = np.argsort(known)
        key = np.zeros(count, dtype=np.int64)
        if sizes:
            key = np.ravel_multi_index(tuple(parts), sizes, mode="clip")
        at = order[np.searchsorted(known, key, sorter=order).clip(max=len(known) - 1)]
        missing = ~inside | (known[at] != key)
        if missing.any():
            first = int(np.argmax(missing))
            of = ", ".join(f"{n} {int(inputs[n][first])}" for n in self.inputs)
            raise LookupError(f"there is no entry of {name} for {of}")
        return self.values.astype(np.int64)[at]


def _function(parts: list[np.ndarray], values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the distinct keys, sorted, and their values; None if one key has two values."""
    parts = [np.zeros_like(values), *parts]  # there may be no input
    sizes = [int(part.max(initial=0)) + 1 for part in parts]
    both = np.sort(np.ravel_multi_index(parts, sizes) * 256 + values)
    key, value = np.divmod(both[np.append(True, both[1:] != both[:-1])], 256)
    if (key[1:] == key[:-1]).any():
        return None
    _, *keys = np.unravel_index(key, sizes)
    found = np.array(keys, dtype=np.uint8).reshape(len(keys), len(key))
    return found.T.copy(), value.astype(np.uint8)


class CellProgram(NamedTuple):
    """All outputs of a cell, as tables.

    Attributes:
        layout, base: of the canvases that it solves.
        messages: signals that a cell passes in each direction of `NEIGHBOURS`.
        tables: by output: `SYMBOL`, with ids as values, and each signal, with classes. A table
            comes after those whose outputs it reads.
        codes: the signals whose classes are latent codes.
    """

    layout: str
    base: int
    messages: Mapping[str, tuple[str, ...]]
    tables: Mapping[str, OutputTable]
    codes: tuple[str, ...] = ()

    @classmethod
    def extract(
        cls, layout: str, rule: LocalRule, numbers: np.ndarray, decided: np.ndarray
    ) -> Self:
        """Return the tables of the decisions of a network or a rule.

        Args:
            layout: name of the layout.
            rule: of the layout.
            numbers: ids of N op inputs, int64 [N].
            decided: the class of each output for these, integers [N, outputs], see `Decide`.
        """
        tables, outputs = {}, [SYMBOL, *rule.signals]
        for op, here, decoded in rule.encoding.decode(numbers):
            inputs = {name: part.astype(np.uint8) for name, part in decoded.items()}
            for name in op.outputs:
                some = np.ones(len(here), dtype=bool)
                if name == SYMBOL and TOKEN in inputs:
                    some = inputs[TOKEN] == MASK
                needed = {n: part[some] for n, part in inputs.items()}
                tables[name] = OutputTable.of(needed, decided[here[some], outputs.index(name)])
        return cls(layout, rule.base, rule.messages, tables, tuple(rule.codes))

    def save(self, file: Path) -> None:
        """Write a compressed archive of numpy, with a description as JSON in ``about``."""
        about = {"format": FORMAT, "layout": self.layout, "base": self.base}
        about |= {"messages": self.messages, "symbols": ALL_CHARACTERS}
        about |= {"inputs": {name: table.inputs for name, table in self.tables.items()}}
        about |= {"codes": self.codes} if self.codes else {}
        arrays = {"about": np.array(json.dumps(about))}
        for name, table in self.tables.items():
            arrays |= {f"{name}.keys": table.keys, f"{name}.values": table.values}
        with replacing(file) as part, part.open("wb") as written:
            np.savez_compressed(written, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, file: Path) -> Self:
        """Read a saved program.

        Raises:
            ValueError: the file is no table of `trm prove`, or is damaged.
        """
        try:
            with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
                about = json.loads(str(arrays["about"]))
                tables = {
                    name: OutputTable(
                        tuple(inputs), arrays[f"{name}.keys"], arrays[f"{name}.values"]
                    )
                    for name, inputs in about["inputs"].items()
                }
            messages = {direction: tuple(names) for direction, names in about["messages"].items()}
            codes = tuple(about.get("codes", ()))
            return cls(str(about["layout"]), int(about["base"]), messages, tables, codes)
        except Exception:  # another or a damaged file can fail in any way
            raise ValueError(f"{file} is no table of `trm prove`, or is damaged") from None

    def decide(self, rule: LocalRule, numbers: np.ndarray) -> np.ndarray:
        """Return the classes of the tables for N op inputs, as `LocalRule.decide`.

        Args:
            rule: of the layout.
            numbers: ids of the op inputs, int64 [N].

        Raises:
            LookupError: a table has no entry for an input, or there is no table.
        """
        outputs = [SYMBOL, *rule.signals]
        found = np.full((len(numbers), len(outputs)), -1)
        for op, here, inputs in rule.encoding.decode(numbers):
            for name in op.outputs:
                if name not in self.tables:
                    raise LookupError(f"there is no table of {name}")
                some = np.ones(len(here), dtype=bool)
                if name == SYMBOL and TOKEN in inputs:
                    some = inputs[TOKEN] == MASK
                table = self.tables[name]
                parts = {n: inputs[n][some] for n in table.inputs}
                column = outputs.index(name)
                found[here[some], column] = table.look_up(name, parts, int(some.sum()))
        return found


# Characters of classes: none, digits, then special classes or latent codes.
CLASSES = f"-{DIGIT_CHARACTERS}GHIJKLMNOPQRSTUVWXYZ{ascii_lowercase}"
_MISSING = "?"  # no canvas has a cell with these inputs

_OPERANDS = {
    "lattice": '''
def given(a, b):
    """Return the canvas of a x b: a on top, the digits of b in the margin, the lowest first."""
    return [f"_{a}_*", *(f"{'.' * (len(a) + 2)}{digit}" for digit in reversed(b))]


def answer(canvas):
    """Return the answer: the lowest digits of all rows, and the rest of the last row."""
    return canvas[-1][:-2].strip("_") + "".join(row[-3] for row in canvas[-2:0:-1])
''',
    "column": '''
def given(*numbers):
    """Return the canvas of a sum: the sign before the last number, and a row to be filled in."""
    more = next(n for n in range(9) if BASE**n >= len(numbers))
    width = max(max(map(len, numbers)) + more, len(numbers[-1]) + 2)
    rows = (*numbers[:-1], f"+_{numbers[-1]}")
    return [*(row.rjust(width, "_") for row in rows), "." * width]


def answer(canvas):
    """Return the answer: the last row."""
    return canvas[-1].strip("_")
''',
}
_OPERANDS["difference"] = '''
def given(a, b):
    """Return the canvas of a - b: both below each other, and a row to be filled in."""
    width = max(len(a), len(b) + 2)
    return [a.rjust(width, "_"), f"-_{b}".rjust(width, "_"), "." * width]


def answer(canvas):
    """Return the answer: the last row, without zeros before it."""
    return canvas[-1].strip("_").lstrip("0") or "0"
'''
_ROWS = {"standard": "len(b) + 1", "accumulate": "len(b)", "interleaved": "2 * len(b)"}
_ROWS |= {"running_sum": "2 * len(b)"}
_WRITTEN = '''
def given(a, b):
    """Return the canvas of a x b: both on top, and rows to be filled in."""
    width, rows = max(len(a) + len(b), len(b) + 2), {rows}
    return [a.rjust(width, "_"), f"*_{{b}}".rjust(width, "_"), *["." * width] * rows]


def answer(canvas):
    """Return the answer: the last row."""
    return canvas[-1].strip("_")
'''
_OTHERS = '''
def given(*rows):
    """Return the canvas, given row by row, with a dot for a cell to be filled in."""
    return list(rows)


def answer(canvas):
    """Return the answer: the last row."""
    return canvas[-1].strip("_")
'''

_FILE = '''"""The program that a network has learned: tables from inputs of a cell to its outputs.

    python program.py {example}

A canvas is filled in row by row, each from the right to the left. A cell reads its own symbol (a
dot: to be filled in) and the messages of the cells on its right, above, above left and above right.
A message consists of signals: a digit each, or - for none. The cell writes a symbol and passes
signals on.

TABLES contains for each output the names of its inputs and a text. The first inputs choose a line
of the text, by what is before the colon. The last but one chooses a group in the line, and the last
one a character in the group. {missing}: no canvas has a cell with these inputs.
"""

import sys

BASE = {base}
CLASSES, SYMBOLS = "{classes}", "{symbols}"
MESSAGES = {messages}  # signals that a cell reads from each neighbour
CELLS = {{"right": (0, 1), "above": (-1, 0), "above_left": (-1, -1), "above_right": (-1, 1)}}
TABLES = {{}}
{tables}
{operands}

def look_up(name, known):
    """Return an output from its table; known: the inputs of a cell by name."""
    inputs, text = TABLES[name]
    letters = [known[name] for name in inputs.split()]
    start = "".join(letters[:-2])
    line = next(line for line in text.strip().split("\\n") if line.startswith(f"{{start}}:"))
    indices = [(SYMBOLS if n == "token" else CLASSES).index(known[n]) for n in inputs.split()]
    group, place = [0, 0, *indices][-2:]
    return line.split(": ")[1].split()[group][place]


def work(canvas):
    """Fill in all dots of a canvas, in the order of writing."""
    canvas, outputs = [list(row) for row in canvas], {{}}
    for y, row in enumerate(canvas):
        for x in reversed(range(len(row))):
            known = {{"token": row[x]}}
            for place, (down, right) in CELLS.items():
                cell = outputs.get((y + down, x + right))
                known[place] = "0" if cell else "-"  # 0: there is such a cell
                known |= {{f"{{place}}.{{n}}": cell[n] if cell else "-" for n in MESSAGES[place]}}
            outputs[y, x] = {{}}
            for name in TABLES:
                if name != "symbol":
                    outputs[y, x][name] = known[f"own.{{name}}"] = look_up(name, known)
            if row[x] == ".":
                row[x] = look_up("symbol", known)
    return ["".join(row) for row in canvas]


if __name__ == "__main__":
    try:
        solved = work(given(*sys.argv[1:]))
    except (TypeError, LookupError, ValueError, StopIteration):  # other numbers
        sys.exit("usage: python program.py {example}")
    print("\\n".join(solved), answer(solved), sep="\\n\\n")
'''


def write_python(program: CellProgram) -> str:
    """Return a program as the text of a Python file."""
    messages = dict.fromkeys(NEIGHBOUR_NAMES.values(), ()) | {
        NEIGHBOUR_NAMES[direction]: list(names) for direction, names in program.messages.items()
    }
    operands, example = _OPERANDS.get(program.layout, _OTHERS), "ROW ROW ..."
    if rows := _ROWS.get(program.layout):
        operands = _WRITTEN.format(rows=rows)
    if rows or program.layout == "lattice":
        example = "123 456"
    elif program.layout == "difference":
        example = "456 123"
    elif program.layout == "column":
        example = "87 604 9"
    return _FILE.format(
        example=example,
        missing=_MISSING,
        base=program.base,
        classes=CLASSES,
        symbols=ALL_CHARACTERS,
        messages=messages,
        tables="\n".join(_table(name, table) for name, table in program.tables.items()),
        operands=operands,
    )


def _table(name: str, table: OutputTable) -> str:
    """Return the lines of one table, ``TABLES["carry"] = "inputs", text``."""
    values = ALL_CHARACTERS if name == SYMBOL else CLASSES
    sizes = [int(n) + 1 for n in table.keys.max(axis=0, initial=0)]
    across, places = ([1, 1, *sizes])[-2:]
    lines: dict[str, list[list[str]]] = {}
    for key, value in zip(table.keys.tolist(), table.values.tolist(), strict=True):
        group, place = [0, 0, *key][-2:]
        named = zip(table.inputs[:-2], key, strict=False)
        start = "".join((ALL_CHARACTERS if of == TOKEN else CLASSES)[n] for of, n in named)
        blank = [[_MISSING] * places for _ in range(across)]
        line = lines.setdefault(start, blank)
        line[group][place] = values[value]
    text = "\n".join(
        f"{start}: {' '.join(''.join(group) for group in line)}" for start, line in lines.items()
    )
    return f'TABLES["{name}"] = "{" ".join(table.inputs)}", """\n{text}"""'

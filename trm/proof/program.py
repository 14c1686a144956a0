"""The program that a network has learned: tables from what a cell sees to what it does.

Each output depends on few of the inputs; the others are left out as long as the table stays a
function. `trm.proof.written` writes a `Program` as a Python file, which works pages of any size out
as the network does.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from canvas.symbols import CHARACTERS, MASK
from canvas.windows import SYMBOL, TOKEN, LocalRule
from trm.files import replacing

FORMAT = 1  # of a table's file
TABLE = "table.npz"  # in the folder of a proof
_SAMPLE = 2**15  # entries by which inputs are chosen at first


@dataclass(frozen=True)
class Table:
    """One output of a cell.

    Attributes:
        inputs: what it depends on: `TOKEN`; whether there is a neighbour, by the names of `SEES`;
            or a field that one hands on, like ``right.carry``.
        keys: their values, uint8 [E, inputs], in order.
        values: of the output, uint8 [E].
    """

    inputs: tuple[str, ...]
    keys: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, inputs: Mapping[str, np.ndarray], output: np.ndarray) -> Self:
        """The table of N inputs and outputs, each input left out that nothing depends on.

        Left out first is what says whether a neighbour is there, then what the cell above says,
        which most cells learn from others, too.
        """
        order = sorted(inputs, key=lambda name: ("." in name, not name.startswith("above.")))
        values, size = output.astype(np.uint8), _SAMPLE
        random = np.random.default_rng(0).permutation(len(values))
        while True:  # what some entries need is needed; in the end all of them are looked at
            names, some = list(inputs), random[:size]
            for name in order:
                kept = [other for other in names if other != name]
                if _function([inputs[k][some] for k in kept], values[some]):
                    names = kept
            if found := _function([inputs[name] for name in names], values):
                return cls(tuple(names), *found)
            size *= 4


def _function(parts: list[np.ndarray], values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Different keys in order, and their values; None if one key has two values."""
    parts = [np.zeros_like(values), *parts]  # as there may be no input
    sizes = [int(part.max(initial=0)) + 1 for part in parts]
    both = np.sort(np.ravel_multi_index(parts, sizes) * 256 + values)
    number, value = np.divmod(both[np.append(True, both[1:] != both[:-1])], 256)
    if (number[1:] == number[:-1]).any():
        return None
    _, *keys = np.unravel_index(number, sizes)
    found = np.array(keys, dtype=np.uint8).reshape(len(keys), len(number))
    return found.T.copy(), value.astype(np.uint8)


@dataclass(frozen=True)
class Program:
    """All that a cell does, as tables.

    Attributes:
        layout, base: of the pages that it fills in.
        messages: the fields that a cell hands on in each direction of `NEIGHBOURS`.
        tables: by output: `SYMBOL`, an id, and every field, a class; after all that it reads.
        codes: the fields whose classes are codes that the network has invented.
    """

    layout: str
    base: int
    messages: Mapping[str, tuple[str, ...]]
    tables: Mapping[str, Table]
    codes: tuple[str, ...] = ()

    @classmethod
    def extract(
        cls, layout: str, rule: LocalRule, numbers: np.ndarray, outputs: Mapping[str, np.ndarray]
    ) -> Self:
        """What a network does with all windows, as it was run: see `trm.proof.prove.Judged`."""
        tables = {}
        for head, here, seen in rule.heads.shown(numbers):
            inputs = {name: part.astype(np.uint8) for name, part in seen.items()}
            for name in head.says:
                some = np.ones(len(here), dtype=bool)
                if name == SYMBOL and TOKEN in inputs:
                    some = inputs[TOKEN] == MASK
                needed = {n: part[some] for n, part in inputs.items()}
                tables[name] = Table.of(needed, outputs[name][here[some]])
        return cls(layout, rule.base, rule.messages, tables, tuple(rule.codes))

    def save(self, file: Path) -> None:
        """As a compressed archive of numpy, with what describes it as JSON."""
        about = {"format": FORMAT, "layout": self.layout, "base": self.base}
        about |= {"messages": self.messages, "symbols": CHARACTERS}
        about |= {"inputs": {name: table.inputs for name, table in self.tables.items()}}
        about |= {"codes": self.codes} if self.codes else {}
        arrays = {"about": np.array(json.dumps(about))}
        for name, table in self.tables.items():
            arrays |= {f"{name}.keys": table.keys, f"{name}.values": table.values}
        with replacing(file) as part, part.open("wb") as written:
            np.savez_compressed(written, **arrays)  # type: ignore[arg-type]

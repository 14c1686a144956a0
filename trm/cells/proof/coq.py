"""Write an integer model and a theorem about it as a development for the Coq proof assistant.

    trm prove --checkpoint column-int4-seed0 --coq sums.v     # write the file
    coqc sums.v                                               # check it

The file consists of `canvas.v`, with definitions and proofs for any network, then the weights of
one, then the theorem. Coq runs that network, in its own integers, on all inputs that a cell can
have. So nothing that is written here or in other Python has to be correct for the theorem to hold.

Layouts: `column`, sums; `standard`, products.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from canvas.cells.spec import TOKEN
from trm.cells.integer import Fraction, IntegerCellModel, Rows

_THEOREMS = {
    "column": """
Definition cell := Network.adder network.

(* Coq runs the network on all inputs of a cell. *)
Lemma network_agrees : adds_in_every_cell {base} cell = true.
Proof. vm_cast_no_check (eq_refl true). Qed.

(* For two or more numbers, of any length: the canvas that the network fills is the one with the
   correct sum, and its last row shows the sum. *)
Theorem this_network_adds : forall width margin sign numbers last,
  numbers <> [] -> 0 < sign -> last < {base} ^ sign ->
  list_sum numbers + last < {base} ^ width ->
  let filled := fill (beside_and_above cell) (sum_canvas {base} width margin sign numbers last) in
  filled = solved_sum {base} width margin sign numbers last
  /\\ value {base} (skipn margin (List.last filled [])) = list_sum numbers + last.
Proof. exact (sums_are_shown {base} ltac:(lia) cell network_agrees). Qed.

Print Assumptions this_network_adds.
""",
    "standard": """
Import Products.
Definition op := Network.decide network.

(* Coq runs the network on all inputs of the ops of a cell. *)
Lemma network_agrees : multiplies_in_every_op {base} op = true.
Proof. vm_cast_no_check (eq_refl true). Qed.

(* For any two numbers, of any length: the canvas that the network fills is the one with all correct
   products, and its last row shows a * b. *)
Theorem this_network_multiplies : forall width a b digits_of_b sign,
  has_digits {base} b digits_of_b -> digits_of_b <= sign < width -> a * b < {base} ^ width ->
  let filled := fill (standard_cell op) (product_canvas {base} width a b digits_of_b sign) in
  filled = solved_product {base} width a b digits_of_b sign
  /\\ value {base} (List.last filled []) = a * b.
Proof. exact (products_are_shown {base} op ltac:(lia) network_agrees). Qed.

Print Assumptions this_network_multiplies.
""",
}
LAYOUTS = tuple(_THEOREMS)
_GENERAL = Path(__file__).with_name("canvas.v")


def demand(model: Any, layout: str, file: Path) -> None:
    """Raise a ValueError for a model or a layout without a theorem, or a name that Coq refuses."""
    if file.suffix != ".v" or not re.fullmatch(r"[A-Za-z_]\w*", file.stem, re.ASCII):
        raise ValueError(
            f"--coq {file}: Coq needs a name of letters, digits and _ with the ending .v, such as "
            "sums.v"
        )
    if layout not in LAYOUTS:
        raise ValueError(
            f"there is no theorem in Coq for the layout {layout}, only for {', '.join(LAYOUTS)}: "
            "leave out --coq"
        )
    if not isinstance(model, IntegerCellModel):
        raise ValueError(
            "--coq is for models in integers: write one with `trm inspect --export FILE --dtype "
            "int8`, and name FILE"
        )
    if model.config.codes:
        raise ValueError("there is no theorem in Coq for latent codes: leave out --coq")


def to_coq(model: IntegerCellModel, layout: str, base: int) -> str:
    """Return the file: definitions and proofs, the weights, the theorem."""
    parts = [_GENERAL.read_text(encoding="utf-8"), "(* ---- 5. The weights ---- *)\n"]
    parts += ["Module Weights.\nImport Sint63 Network.\nLocal Open Scope sint63_scope.\n"]
    parts += [*_weights(model), "End Weights.\n\n(* ---- 6. The theorem ---- *)\n"]
    parts += ["Definition network := Network.prepare Weights.network."]
    return "\n".join(parts) + _THEOREMS[layout].format(base=base)


def _weights(model: IntegerCellModel) -> Iterator[str]:
    """Yield the definition of each part of a network, and of the network."""
    config = model.config
    for i, block in enumerate(model.layers):
        for name in ("query", "key_value", "out", "gate_up", "down"):
            yield _define(f"{name}_{i}", "weights", _list(_rows(getattr(block, name))))
        directions = _list(map(_integers, block.direction.T.tolist()))
        parts = [f"{block.heads}%nat", _fraction(block.to_query), f"query_{i} key_value_{i}"]
        parts += [directions, _fraction(block.octaves), f"out_{i}", _fraction(block.to_mlp)]
        parts += [f"gate_up_{i}", _integers(block.silu.tolist()), _fraction(block.to_hidden)]
        yield _define(f"block_{i}", "block", "\n  ".join(["Block", *parts, f"down_{i}"]))
    yield _define("embed_tokens", "weights", _list(_rows(model.embed_tokens)))
    rows, starts = _rows(model.embed_messages), model.class_starts
    signals = (rows[starts[name] :][:size] for name, size in model.signals.items())
    yield _define("embed_messages", "list weights", _list(map(_list, signals)))
    yield _define("embed_presence", "weights", _list(rows[starts[""] :]))
    ops = [] if model.embed_ops is None else _rows(model.embed_ops)
    yield _define("embed_ops", "weights", _list(ops))
    logits = zip(_rows(model.head), map(_integer, model.head_bias.tolist()), strict=True)
    rows = [f"({row[1:-1]}, {bias})" for row, bias in logits]
    heads = [_list(rows.pop(0) for _ in range(size)) for size in model.outputs.values()]
    yield _define("head_rows", "list (list (int * int * vector * int))", _list(heads))
    yield _define("all_ops", "list op", _list(_ops(model)))
    blocks = _list(f"block_{i}" for i in range(len(model.layers)))
    parts = [blocks, f"{config.H_cycles}%nat {config.L_cycles}%nat"]
    parts += [_integers(start.tolist()) for start in (model.H_init, model.L_init)]
    parts += ["embed_tokens embed_messages embed_presence embed_ops"]
    parts += [_fraction(model.to_message), _fraction(model.to_head), "head_rows all_ops"]
    yield _define("network", "network", "\n  ".join(["Network", *parts]))


def _ops(model: IntegerCellModel) -> Iterator[str]:
    """Yield the ops: whether they read the symbol, what from each direction, their outputs."""
    outputs, signals = [*model.outputs], [*model.signals]
    for op, directions in zip(model.encoding.ops, model.encoding.inputs, strict=True):
        reads = (
            f"Reads {str('' in names).lower()} {_indices(signals.index(n) for n in names if n)}"
            for names in directions
        )
        reads_token = str(op.inputs is None or TOKEN in op.inputs).lower()
        yield f"Op {reads_token} {_list(reads)} {_indices(map(outputs.index, op.outputs))}"


def _define(name: str, sort: str, body: str) -> str:
    return f"Definition {name} : {sort} :=\n  {body}.\n"


def _list(parts: Iterable[str]) -> str:
    return "[" + ";\n   ".join(parts) + "]"


def _integer(number: int) -> str:
    return str(number) if number >= 0 else f"({number})"


def _integers(numbers: Iterable[int]) -> str:
    return f"[{'; '.join(map(_integer, numbers))}]"


def _indices(numbers: Iterable[int]) -> str:
    return f"[{'; '.join(map(str, numbers))}]%nat"


def _fraction(fraction: Fraction) -> str:
    return f"({int(fraction.multiplier)}, {int(fraction.shift)})"


def _rows(rows: Rows) -> list[str]:
    """Return rows of weights, ``(multiplier, shift, [weights])`` each."""
    fractions = zip(rows.fraction.multiplier.tolist(), rows.fraction.shift.tolist(), strict=True)
    integers = map(_integers, rows.integers.tolist())
    return [f"({m}, {s}, {row})" for (m, s), row in zip(fractions, integers, strict=True)]

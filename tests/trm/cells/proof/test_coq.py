"""Integer models as Coq developments: the weights, the decisions, and what coqc answers."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from trm.cells.integer import IntegerCellModel, Rows
from trm.cells.proof import coq
from trm.cells.quantise import quantised


@pytest.fixture(scope="module")
def adder(sums) -> IntegerCellModel:
    """A model of ternary sums in integers."""
    return quantised(sums.model, torch.from_numpy(sums.comparison.numbers), 8)


def checked(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What coqc answers to a file."""
    if not (coqc := shutil.which("coqc")):
        pytest.skip("no coqc is installed")
    (folder / "sums.v").write_text(text)
    words = [coqc, "-q", "sums.v"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=600)


def matrix(text: str, name: str) -> list[list[int]]:
    """Rows of a definition: multiplier and shift, then the weights."""
    (body,) = re.findall(rf"Definition {name} : [^=]*:=(.*?)\.\n\n?(?=Definition|End)", text, re.S)
    numbers = [re.findall(r"-?\d+", row) for row in re.findall(r"\(\d+, \d+, \[[^]]*]", body)]
    return [list(map(int, row)) for row in numbers]


def test_the_file_has_all_weights(adder):
    text = coq.to_coq(adder, 3)
    block = adder.layers[0]
    parts = {"embed_tokens": adder.embed_tokens, "embed_messages": adder.embed_messages}
    parts |= {"head_rows": adder.head, "query_0": block.query, "key_value_0": block.key_value}
    parts |= {"out_0": block.out, "gate_up_0": block.gate_up, "down_0": block.down}
    assert len(parts) == sum(isinstance(part, Rows) for part in adder.modules())
    for name, part in parts.items():
        fractions = part.fraction.multiplier, part.fraction.shift
        rows = torch.cat((torch.stack(fractions, dim=1), part.integers), dim=1)
        rows = rows[:-1] if part is adder.head else rows  # without that of halting
        assert matrix(text, name) == rows.tolist(), name


def test_coq_decides_as_the_model_on_any_input(adder, tmp_path):
    ids = torch.randperm(adder.encoding.starts[-1], generator=torch.manual_seed(0))[:150].sort()[0]
    outputs, _ = adder.cells(adder.reader.decode(ids))
    (_, _, inputs), *_ = adder.encoding.decode(ids.numpy())

    def message(i: int, place: str, *names: str) -> str:
        classes = "; ".join(str(inputs[f"{place}.{name}"][i]) for name in names)
        return f"Some [{classes}]" if inputs[place][i] else "None"

    cells = [
        f"decide network {inputs['token'][i]} "
        f"[{message(i, 'right', 'sum_carry')}; {message(i, 'above', 'addend', 'sum')}]"
        for i in range(len(ids))
    ]
    text = coq.to_coq(adder, 3).partition("(* Coq runs the network")[0]
    asked = "; ".join(f"Network.{cell}" for cell in cells)
    ran = checked(f"{text}Eval vm_compute in [{asked}].\n", tmp_path)
    assert ran.returncode == 0, ran.stderr
    decided = [list(map(int, row.split(";"))) for row in re.findall(r"\[([\d;\s]+)]", ran.stdout)]
    assert decided == adder.decided(outputs).tolist()


def test_coq_confirms_that_a_network_adds(adder, tmp_path):
    ran = checked(coq.to_coq(adder, 3), tmp_path)
    assert ran.returncode == 0, ran.stderr
    _, _, assumed = ran.stdout.partition("Axioms:\n")
    names = {line.partition(" :")[0] for line in assumed.splitlines() if " : " in line}
    primitive = {"int", "add", "sub", "mul", "divs", "lsl", "asr", "land", "eqb", "ltsb"}
    assert {name.removeprefix("PrimInt63.") for name in names} <= primitive


def test_coq_refuses_a_network_that_errs(adder, tmp_path):
    bias = adder.head_bias.clone()
    adder.head_bias[2] += 2**14  # writes the digit 1 everywhere
    try:
        ran = checked(coq.to_coq(adder, 3), tmp_path)
    finally:
        adder.head_bias.copy_(bias)
    assert ran.returncode != 0
    assert "network_agrees" in ran.stderr or "adds_in_every_cell" in ran.stderr


def test_other_models_and_layouts_are_refused(sums, adder):
    with pytest.raises(ValueError, match=r"--coq is for models in integers: .* --dtype int8"):
        coq.demand(sums.model, "column", Path("sums.v"))
    with pytest.raises(ValueError, match="no theorem in Coq for the layout lattice, only for col"):
        coq.demand(adder, "lattice", Path("sums.v"))
    with pytest.raises(ValueError, match=r"--coq my-sums.v: Coq needs a name of letters"):
        coq.demand(adder, "column", Path("my-sums.v"))
    coq.demand(adder, "column", Path("folder-1/sums.v"))

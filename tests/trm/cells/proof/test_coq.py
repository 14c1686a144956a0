"""Integer models as Coq developments: the weights, the decisions, and what coqc answers."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from canvas.cells.spec import TOKEN, input_name
from trm.cells.integer import IntegerCellModel, Rows
from trm.cells.proof import coq
from trm.cells.quantise import quantised


class Case(NamedTuple):
    """An integer model with its layout, in base 3."""

    model: IntegerCellModel
    layout: str

    @property
    def text(self) -> str:
        return coq.to_coq(self.model, self.layout, 3)


@pytest.fixture(scope="module", params=["sums", "written"])
def case(request) -> Case:
    trained = request.getfixturevalue(request.param)
    model = quantised(trained.model, torch.from_numpy(trained.comparison.numbers), 8)
    return Case(model, trained.task.layout)


GENERAL = """From Coq Require Import List Arith Lia.
From Coq Require PrimInt63 Sint63.
Require Import canvas.
Import ListNotations Canvas.
"""


def coqc(folder: Path, file: str, *more: object) -> subprocess.CompletedProcess[str]:
    """Answer of coqc to a file."""
    words = ["coqc", "-q", *map(str, more), file]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=900)


@pytest.fixture
def checked(once, tmp_path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Function that returns the answer of coqc to a file; what all models share is compiled."""
    if not shutil.which("coqc"):
        pytest.skip("no coqc is installed")

    def compile_general(folder: Path) -> None:
        shutil.copy(Path(coq.__file__).with_name("canvas.v"), folder)
        ran = coqc(folder, "canvas.v")
        assert ran.returncode == 0, ran.stderr

    def check(text: str) -> subprocess.CompletedProcess[str]:
        _, mark, own = text.partition("(* ---- 5. The weights ---- *)")
        assert mark
        (tmp_path / "own.v").write_text(GENERAL + own)
        return coqc(tmp_path, "own.v", "-Q", once("coq", compile_general), "")

    return check


def matrix(text: str, name: str) -> list[list[int]]:
    """Rows of a definition: multiplier and shift, then the weights."""
    (body,) = re.findall(rf"Definition {name} : [^=]*:=(.*?)\.\n\n?(?=Definition|End)", text, re.S)
    numbers = [re.findall(r"-?\d+", row) for row in re.findall(r"\(\d+, \d+, \[[^]]*]", body)]
    return [list(map(int, row)) for row in numbers]


def test_a_file_for_coq_has_all_weights(case):
    model, text = case.model, case.text
    block = model.layers[0]
    parts = {"embed_tokens": model.embed_tokens, "embed_messages": model.embed_messages}
    parts |= {"head_rows": model.head, "query_0": block.query, "key_value_0": block.key_value}
    parts |= {"out_0": block.out, "gate_up_0": block.gate_up, "down_0": block.down}
    parts |= {"embed_ops": model.embed_ops} if model.embed_ops else {}
    assert len(parts) == sum(isinstance(part, Rows) for part in model.modules())
    assert text.startswith(Path(coq.__file__).with_name("canvas.v").read_text())
    for name, part in parts.items():
        fractions = part.fraction.multiplier, part.fraction.shift
        rows = torch.cat((torch.stack(fractions, dim=1), part.integers), dim=1)
        rows = rows[:-1] if part is model.head else rows  # without that of halting
        found = matrix(text, name)
        if part is model.embed_messages:
            found += matrix(text, "embed_presence")
        assert found == rows.tolist(), name


def test_coq_decides_as_the_model_on_any_input(case, checked):
    model, encoding = case.model, case.model.encoding
    ids = torch.randperm(encoding.starts[-1], generator=torch.manual_seed(0))[:150].sort()[0]
    outputs, _ = model.cells(model.reader.decode(ids))
    decided, asked, wanted = model.decided(outputs), [], []
    for i, (op, here, inputs) in enumerate(encoding.decode(ids.numpy())):
        reads = [
            (input_name(direction, ""), [input_name(direction, name) for name in names])
            for direction, names in zip(encoding.directions, encoding.inputs[i], strict=True)
        ]
        for row, at in enumerate(here):
            messages = (
                f"Some [{'; '.join(str(inputs[name][row]) for name in names)}]"
                if names and (op.inputs or inputs[neighbour][row])
                else "None"
                for neighbour, names in reads
            )
            token = inputs[TOKEN][row] if TOKEN in inputs else 0
            asked.append(f"Network.decide network {i} {token} [{'; '.join(messages)}]")
            places = [[*model.outputs].index(name) for name in op.outputs]
            wanted.append(decided[at, places].tolist())
    text = case.text.partition("Definition network :=")[0]
    text += "Definition network := Network.prepare Weights.network.\n"
    ran = checked(f"{text}Eval vm_compute in [{'; '.join(asked)}].\n")
    assert ran.returncode == 0, ran.stderr
    found = [list(map(int, row.split(";"))) for row in re.findall(r"\[([\d;\s]+)]", ran.stdout)]
    assert found == wanted


def test_coq_confirms_the_theorem_of_a_network(case, checked):
    ran = checked(case.text)
    assert ran.returncode == 0, ran.stderr
    _, _, assumed = ran.stdout.partition("Axioms:\n")
    names = {line.partition(" :")[0] for line in assumed.splitlines() if " : " in line}
    primitive = {"int", "add", "sub", "mul", "divs", "lsl", "asr", "land", "eqb", "ltsb"}
    assert {name.removeprefix("PrimInt63.") for name in names} <= primitive


def test_coq_refuses_a_network_that_errs(case, checked):
    bias = case.model.head_bias.clone()
    case.model.head_bias[2] += 2**14  # writes the digit 1 everywhere
    try:
        ran = checked(case.text)
    finally:
        case.model.head_bias.copy_(bias)
    assert ran.returncode != 0
    assert 'has type "true = true"' in ran.stderr


def test_other_models_and_layouts_are_refused(sums, case):
    with pytest.raises(ValueError, match=r"--coq is for models in integers: .* --dtype int8"):
        coq.demand(sums.model, "column", Path("sums.v"))
    with pytest.raises(ValueError, match="no theorem in Coq for the layout lattice, only for col"):
        coq.demand(case.model, "lattice", Path("sums.v"))
    with pytest.raises(ValueError, match=r"--coq my-sums.v: Coq needs a name of letters"):
        coq.demand(case.model, "column", Path("my-sums.v"))
    coq.demand(case.model, case.layout, Path("folder-1/sums.v"))

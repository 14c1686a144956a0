"""Cards of models: what was given, learned, proved and tested."""

import json
import re

import pytest

from trm.cells.proof.notes import proof_digest
from trm.checkpoints import PROOF_SUFFIX
from trm.checkpoints.content import load_checkpoint, pack
from trm.checkpoints.loading import load_solver
from trm.checkpoints.names import about, named_weights
from trm.extras.model_card import model_card


def test_the_card_of_the_shipped_model_has_its_proof_and_figures():
    card = model_card("lattice")
    for part in (
        "\n# lattice\n",
        "A `CellModel` of 50,853 parameters for multiplication in base 10, layout `lattice`, "
        "trained on 1 to 4 x 1 to 4 digits.",
        "**Given as labels, in training alone.** The symbols of correct solutions; in every cell "
        "the true classes of `multiplier`, `product`, `carry`, `sum_carry`, `addend`, "
        "`multiplicand`.",
        "**Learned.** The outputs of a cell for each of its inputs.",
        "**Proved.** Correct at every length: on all 1,204,976 inputs that its cells can have, "
        "with a margin of at least 10.70 between the correct logit and the next, in float32, in "
        "whatever order sums are rounded.",
        "**Tested.** Up to 500 problems of the test split in each row (problem seed 0).",
        "| digits a | digits b | region | correct |",
        "| 16 | 16 | both beyond | 100.0 % (99.2–100.0) |",
        "**Training.** 1,500 steps, 2,604,540 samples, 6.8 minutes, samples of seed 2.",
        'print(solve("123x456", load_solver("lattice")))',
    ):
        assert part in card


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("tiny-seed0", "the ops of a cell and what each reads."),
        ("untold-decimal-seed0", "no labels for the latent codes `multiplicand`, `multiplier`, "),
        ("untold-decimal-seed0", "between the correct logit and the next, in float64."),
        ("untold-neighbours-seed0", "`trm prove --checkpoint untold-neighbours-seed0`"),
        ("written-int4-seed1", "An `IntegerCellModel` of 63,438 parameters"),
        ("written-int4-seed1", "between the correct logit and the next, in integers."),
        ("addition-trm-seed0", "**Proved.** Nothing: the states of such a model are continuous"),
        ("addition-trm-seed0", "the order of rows; position encoding `relative_2d`, a bias per"),
        (
            "trm-quick-seed0",
            "`local_lines`: a cell attends to a square of radius 2 and to the eight",
        ),
        (
            "decimal-seed0",
            "`local_farthest`: a cell attends to a square of radius 1 and to the far",
        ),
        ("decimal-seed0", "blank cells are no tokens (`skip_blank`)."),
        ("decimal-seed0", "**Views.** Trained on upright canvases alone."),
        ("trm-canvas-lattice-seed0", "**Views.** Trained on canvases in 8 orientations"),
        ("addition-gpt-seed0", "rows from the top, each from its last digit; position encoding"),
        (
            "multiplication-trm-auxiliary-seed0",
            "auxiliary losses for `multiplicand`, `multiplier`, ",
        ),
    ],
)
def test_the_card_distinguishes_the_families(name, part):
    assert part in model_card(name)


def test_a_refutation_noted_beside_the_file_is_in_the_card(tmp_path):
    content, solver = load_checkpoint("column-seed0"), load_solver("column-seed0", device="cpu")
    file = tmp_path / "x.safetensors"
    file.write_bytes(pack(content, {}))
    assert f"Nothing yet: `trm prove --checkpoint {file}` decides." in model_card(file)
    note = {"verdict": "refuted", "counterexample": {"problem": "8+0"}}
    note["digest"] = proof_digest(solver.predictor.model, solver.task)
    file.with_suffix(PROOF_SUFFIX).write_text(json.dumps(note))
    assert "**Proved.** Refuted: it gets 8+0 wrong." in model_card(file, "mine")
    file.with_suffix(PROOF_SUFFIX).write_text(json.dumps(note | {"digest": "of another model"}))
    assert "Nothing yet" in model_card(file)


def test_the_command_prints_the_cards_of_several_models(command):
    ran = command("models", "lattice-base2-seed0", "column-seed0")
    assert "# lattice-base2-seed0\n" in ran.out
    assert "for addition in base 10, layout `column`" in ran.out


def test_every_file_of_weights_is_proved_or_tested_in_its_header():
    found = {name: about(file).results for name, file in named_weights().items()}
    assert [name for name, results in found.items() if results.startswith("neither")] == []


def test_every_file_of_weights_has_a_row_with_its_parameters(repository):
    rows = (repository / "docs/models/README.md").read_text().splitlines()
    for name, file in named_weights().items():
        kind = re.sub(r"-seed\d+$", "-", name)
        size = f"{about(file).parameters:,}"
        assert name == "lattice" or any(f"`{kind}" in row and size in row for row in rows), name

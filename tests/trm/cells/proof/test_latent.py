"""Models that invent what their cells hand on: pages from shares of codes, and their proof."""

import numpy as np
import pytest
import torch

from canvas.cells.reachable import reachable_cell_inputs
from canvas.cells.spec import SYMBOL, TOKEN, input_name
from canvas.choices import OwnCodeError
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from trm.cells.cache import CellCache
from trm.cells.computing import run_wavefront
from trm.cells.latent_module import work_relaxed
from trm.cells.model import CellModel
from trm.cells.predictor import CellPredictor
from trm.cells.proof import check
from trm.cells.proof.latent import explore
from trm.cells.proof.notes import OPEN, PROVED, REFUTED
from trm.cells.proof.prove import prove
from trm.cells.samples import SolutionSamples
from trm.solving.solver import Solver


def permuted(model: CellModel, order: list[int]) -> CellModel:
    """The same model with other names for its codes."""
    found = CellModel(model.config)
    found.load_state_dict(model.state_dict())
    start, outputs = model.class_starts["carry"], list(model.outputs)
    out = sum(model.outputs[name] for name in outputs[: outputs.index("carry")])
    with torch.no_grad():
        for weight, at in (
            (found.embed_messages.weight, start),
            (found.lm_head.weight, out),
            (found.lm_head.bias, out),
        ):
            weight[at : at + len(order)] = weight[at : at + len(order)][order].clone()
    return found.eval()


def test_exploration_finds_the_meaning_of_each_latent_code(latent_model) -> None:
    (model, task), order = latent_model, [2, 0, 3, 1]
    rule = task.local_rule(latent=True)
    found = explore(rule, rule.with_codes({"carry": 4}), CellCache(permuted(model, order)).decide)
    assert found.complete
    assert len(np.unique(found.numbers)) == len(found.numbers)
    pairs = {(true, code) for _, true, code in found.meanings["carry"].tolist()}
    assert pairs == {(true, order.index(true)) for true in range(rule.signals["carry"])}


def test_latent_codes_are_proved_and_damaged_ones_refuted(
    latent_model, work, tmp_path, capsys
) -> None:
    model, task = latent_model
    proof = prove(Solver(CellPredictor(model), task), bounded=False)
    assert proof.verdict == PROVED
    drawing = task.canvas_layout.draw_worked(Problems.from_ints([(3, 5)], 2), 4, 5)
    assert (work(proof.program, drawing.masked) == drawing.truth).all()
    proof.program.save(tmp_path / "table.npz")
    assert check.main(tmp_path) == 2
    assert "what its codes stand for is not known here" in capsys.readouterr().err

    spoilt = permuted(model, [0, 1, 2, 3])
    at = sum(model.outputs[name] for name in (SYMBOL, "multiplier"))
    with torch.no_grad():
        spoilt.lm_head.weight[at + 2] = spoilt.lm_head.weight[at + 1]  # no carry of 1 any more
        spoilt.lm_head.bias[at + 2] = spoilt.lm_head.bias[at + 1] - 1
    proof = prove(Solver(CellPredictor(spoilt), task), search=200, bounded=False)
    assert proof.verdict in (REFUTED, OPEN)
    assert len(proof.comparison.wrong)
    assert proof.counterexample is not None


def test_a_cold_softmax_passes_on_single_latent_codes(latent_model) -> None:
    model, task = latent_model
    problems = Problems.from_ints([(13, 11)], 2)
    height, width = task.canvas_layout.draw(problems).canvases.shape[1:]
    drawing = task.canvas_layout.draw_worked(problems, height + 1, width + 1, top=1)
    batch = SolutionSamples.batch(task.local_rule(latent=True), drawing)
    cold, warm = (model.parts(work_relaxed(model, batch, t)[0]) for t in (1e-3, 1e3))
    asked = batch["labels"][:, 0] >= 0
    assert (cold[SYMBOL].argmax(1) == batch["labels"][:, 0])[asked].all()
    assert not (warm[SYMBOL].argmax(1) == batch["labels"][:, 0])[asked].all()
    passed = run_wavefront(model, torch.from_numpy(drawing.masked)).messages[0].numpy()
    row, right = batch["places"].unbind(1)
    classes = passed[1 + row, drawing.truth.shape[2] - 1 - right].T
    mine, seen = task.local_rule(latent=True).with_codes(model.config.codes), {}
    known = dict(zip(("", *mine.signals), classes, strict=True))
    for (direction, names), of in zip(
        mine.whole.directions.items(), batch["sources"].T.numpy(), strict=True
    ):
        parts = {name: np.where(of >= 0, known[name][of], 0) for name in ("", *names)}
        seen |= {input_name(direction, name): part for name, part in parts.items()}
    numbers, _ = mine.op_input_ids(seen | {TOKEN: batch["tokens"].numpy()}, {})
    expected = model.parts(model.cells(model.reader.decode(torch.from_numpy(numbers)))[0])["carry"]
    torch.testing.assert_close(cold["carry"], expected, atol=1e-4, rtol=1e-4)


def test_a_reachable_set_that_lacks_an_input_is_refused(latent_model, monkeypatch) -> None:
    model, task = latent_model
    rule = task.local_rule(latent=True)
    mine = rule.with_codes(model.config.codes)
    known = CellCache(model)
    found = explore(rule, mine, known.decide, task)
    assert found.complete
    assert found.tested.canvases == 599

    def without_some(*arguments) -> np.ndarray:
        return reachable_cell_inputs(*arguments)[::2]

    monkeypatch.setattr("trm.cells.proof.latent.reachable_cell_inputs", without_some)
    with pytest.raises(OwnCodeError, match="LatentLatticeRule are too few: the cell in row"):
        explore(rule, mine, known.decide, task)


@pytest.mark.parametrize(("layout", "number"), [("accumulate", 233), ("standard", 543)])
def test_exploration_covers_latent_codes_for_all_signals(layout: str, number: int) -> None:
    """A perfect cell, with as many codes as there are classes, is correct in all that is found."""
    task = Multiplication(layout, base=2, smallest=0)
    rule = task.local_rule(latent=True)
    outputs = rule.apply(rule.cell_inputs(reachable_cell_inputs(rule)))
    used = {name: np.unique(outputs[name]) for name in rule.signals if name != "written"}
    mine = rule.with_codes({name: len(classes) for name, classes in used.items()})

    def decide(numbers: np.ndarray) -> np.ndarray:
        inputs = mine.cell_inputs(numbers)
        for direction, names in rule.messages.items():
            for name in set(names) & set(used):
                known = input_name(direction, name)
                inputs[known] = np.where(
                    inputs[input_name(direction, "")], used[name][inputs[known]], 0
                )
        found = rule.apply(inputs)
        parts = [found[SYMBOL], *(found[n] for n in rule.signals)]
        for i, name in enumerate(rule.signals, 1):
            if name in used:
                parts[i] = np.searchsorted(used[name], parts[i]).clip(max=len(used[name]) - 1)
        return np.stack(parts, axis=1)

    drawn = task if layout == "accumulate" else None
    found = explore(rule, mine, decide, drawn)
    assert found.complete
    assert (found.tested.canvases > 500) == (drawn is not None)
    assert len(np.unique(found.numbers)) == len(found.numbers) == number
    classes = decide(found.numbers)
    asked = found.labels[:, 0] >= 0
    assert (classes[asked, 0] == found.labels[asked, 0]).all()
    for name, classes_of in used.items():
        assert {code for _, _, code in found.meanings[name].tolist()} == set(range(len(classes_of)))

"""Patching puts one problem's activations into another's run, and nothing else."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from canvas.render import row_step, to_sequences
from canvas.symbols import MASK
from trm.checkpoints import SHIPPED
from trm.checkpoints.loading import load_solver
from trm.commands.patch import BY
from trm.models.capture import attention_of
from trm.models.looped import LoopedTransformer
from trm.probing.patched_families import Canvases, InOrder, Sequences
from trm.probing.patched_runs import Replacement, Runs, Site
from trm.probing.patching import PATCHED, patch
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.solver import Solver

FAMILIES = ("stepwise", "in order", "gpt")
PAIRS = {"gpt": ("1212+5613", "1212+5643")} | dict.fromkeys(FAMILIES[:2], ("253x83", "254x83"))
STEPS = (1, 3)

Make = Callable[[str], Solver]


@pytest.fixture(scope="session")
def trained(repository, stepping) -> Make:
    """A trained model of each family."""
    models = {
        "stepwise": stepping,
        "in order": load_solver(SHIPPED, device="cpu"),
        "gpt": load_solver(repository / "docs/models/addition-gpt-seed0.safetensors", device="cpu"),
    }
    return models.__getitem__


def test_the_command_offers_what_can_be_patched():
    assert BY == PATCHED


def read(solver: Solver, texts: tuple[str, str], row: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two problems with a row masked, and with it filled in."""
    task = solver.task
    steps = [
        row_step(solver.draw_worked(task.problems([task.parse(text)])), np.array([row]))
        for text in texts
    ]
    inputs, labels = (
        np.concatenate([getattr(step, name) for step in steps]) for name in ("inputs", "labels")
    )
    return inputs, labels


def runs_of(solver: Solver, texts: tuple[str, str]) -> Runs:
    model, pair = solver.predictor.model, read(solver, texts)
    if "+" in texts[0]:
        return Sequences(solver.predictor, model, *pair)
    return (InOrder if solver.predictor.in_order else Canvases)(model, *pair, STEPS)


def everything(runs: Runs, site: Site) -> torch.Tensor:
    """One group of all tokens, or of all channels."""
    heads, size = runs.head_shape
    return torch.ones(1, heads * size if site.heads else int(runs.grid.max()) + 1, dtype=torch.bool)


def assert_all_of(value: np.ndarray | torch.Tensor, what: float, within: float = 1e-3) -> None:
    np.testing.assert_allclose(value, what, atol=within)


@pytest.mark.parametrize("family", FAMILIES)
def test_activations_of_the_same_problem_change_nothing(trained, family):
    runs = runs_of(trained(family), PAIRS[family])
    for site in (*runs.sites(), *runs.heads()):
        logits, seen = runs.run([0, 0], site)
        assert seen
        patched, _ = runs.run([0], site, Replacement(everything(runs, site), seen))
        torch.testing.assert_close(patched, logits[:1], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_all_that_a_layer_gives_in_all_cells_makes_the_other_problems_answer(trained, family):
    runs = runs_of(trained(family), PAIRS[family])
    sites = runs.sites()
    if family == "stepwise":  # the input, which no state replaces, is read again in the next step
        sites = [sites[0], sites[-1]]
    for site in sites:
        logits, seen = runs.run([0, 1], site)
        patched, _ = runs.run([0], site, Replacement(everything(runs, site), seen))
        torch.testing.assert_close(patched, logits[1:], rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_where_one_symbol_differs_the_answer_depends_on_that_symbol_alone(trained, family):
    solver = trained(family)
    inputs, labels = read(solver, PAIRS[family])
    found = patch(solver.predictor, inputs, labels, "cells", STEPS)
    assert found.sites[0] == "input"
    assert found.right == (True, True)
    of_input = np.nan_to_num(found.effects[0])
    differ = found.pages[0] != found.pages[1]
    differ &= ~found.scored  # of a GPT the row itself, too, is read
    assert differ.sum() == 1
    assert_all_of(of_input[differ], 1)
    assert_all_of(of_input[~differ], 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_row_of_the_canvas_is_its_cells_together(trained, family):
    solver = trained(family)
    pair = read(solver, PAIRS[family])
    (i, j), *_ = np.argwhere(pair[0][0] != pair[0][1])
    shift = int(family == "gpt")  # row ends on the left
    for by in ("rows", "columns"):
        (effects, *_) = patch(solver.predictor, *pair, by, STEPS).effects
        line = effects[i] if by == "rows" else effects[:, j + shift]
        assert_all_of(line[~np.isnan(line)], 1)


def test_the_last_block_of_a_gpt_matters_only_where_the_answer_is_written(trained):
    solver = trained("gpt")
    found = patch(solver.predictor, *read(solver, PAIRS["gpt"]), "cells")
    last = np.nan_to_num(found.effects[-1])
    writers = np.roll(found.scored, 1, axis=1)  # rows are written from the right
    assert_all_of(last[writers], 1)
    assert_all_of(last[~writers], 0)


def test_a_head_that_the_output_projection_leaves_out_has_no_effect(trained):
    solver = trained("gpt")
    pair = read(solver, PAIRS["gpt"])
    before = patch(solver.predictor, *pair, "heads")
    layer, head = np.unravel_index(before.effects.argmax(), before.effects.shape)
    assert before.effects[layer, head] > 0.5
    out = attention_of(solver.predictor.model)[layer].out
    size = out.in_features // before.effects.shape[1]
    kept = out.weight.detach().clone()
    try:
        with torch.no_grad():
            out.weight[:, head * size : (head + 1) * size] = 0
        runs = runs_of(solver, PAIRS["gpt"])
        site = runs.heads()[layer]
        logits, seen = runs.run([0, 1], site)
        groups = torch.zeros(1, out.in_features, dtype=torch.bool)
        groups[:, head * size : (head + 1) * size] = True
        patched, _ = runs.run([0], site, Replacement(groups, seen))
        torch.testing.assert_close(patched, logits[:1])
    finally:
        with torch.no_grad():
            out.weight.copy_(kept)


@pytest.mark.parametrize("by", ["cells", "rows", "columns", "heads"])
def test_the_effect_is_the_share_of_the_logit_difference(trained, by):
    """Computed once more from the logits that a patched run ends with."""
    solver = trained("gpt")
    inputs, labels = read(solver, PAIRS["gpt"])
    found = patch(solver.predictor, inputs, labels, by)
    runs = runs_of(solver, PAIRS["gpt"])
    heads = by == "heads"
    site = (runs.heads() if heads else runs.sites())[2]
    if heads:
        size = runs.head_shape[1]
        group = torch.zeros(1, everything(runs, site).shape[1], dtype=torch.bool)
        group[:, :size] = True
        place: tuple[int, ...] = (0,)
    else:
        place = (int(runs.page_row), int(runs.page_columns[-1]))  # the row's last digit
        tokens = {"cells": runs.grid[place], "rows": runs.grid[place[0]]}
        tokens["columns"] = runs.grid[:, place[1]]
        group = torch.zeros(1, int(runs.grid.max()) + 1, dtype=torch.bool)
        group[0, [t for t in np.atleast_1d(tokens[by]).tolist() if t >= 0]] = True
    logits, seen = runs.run([0, 1], site)
    patched, _ = runs.run([0], site, Replacement(group, seen))
    a, b = labels[:, *runs.answer].astype(int)
    differ = np.flatnonzero(a != b)
    differences = [
        np.mean([float(of[c, b[c]] - of[c, a[c]]) for c in differ]) for of in (*logits, *patched)
    ]
    assert found.differences == pytest.approx(differences[:2], rel=1e-4)
    expected = (differences[2] - differences[0]) / (differences[1] - differences[0])
    assert found.effects[2][place] == pytest.approx(expected, abs=1e-3)


def test_the_state_after_a_step_is_patched_tensor_by_tensor(make_solver):
    """Computed once more from the model's own steps."""
    solver = make_solver("recursive", H_cycles=2, L_cycles=2)
    model, (inputs, labels) = solver.predictor.model, read(solver, ("21x2", "22x2"))
    found = patch(solver.predictor, inputs, labels, "steps", (1, 2))
    assert (found.sites, found.things) == (["step 1", "step 2"], ("z_H", "z_L", "all"))
    assert found.effects.shape == (2, 3)
    assert_all_of(found.effects[1], np.array([1, 0, 1]))  # the answer is read from z_H
    with torch.no_grad():
        of_a, of_b = (model.encode(torch.from_numpy(one[None])) for one in inputs)
        after = [model.iterate(one, model.initial_state(one)) for one in (of_a, of_b)]
        states = [
            after[0]._replace(z_H=after[1].z_H),
            after[0]._replace(z_L=after[1].z_L),
            after[1],
        ]
        ends = [model.read(model.iterate(of_a, state), of_a)[0] for state in (after[0], *states)]
        ends.append(model.read(model.iterate(of_b, after[1]), of_b)[0])
    a, b = torch.from_numpy(labels.astype(np.int64))
    differ = torch.from_numpy(labels[0] != labels[1]) & torch.from_numpy(inputs[0] == MASK)
    difference = [
        (end[0].gather(-1, b[..., None]) - end[0].gather(-1, a[..., None]))[differ].mean().item()
        for end in ends
    ]
    assert found.differences == pytest.approx((difference[0], difference[-1]), rel=1e-4)
    scale = difference[-1] - difference[0]
    expected = [(one - difference[0]) / scale for one in difference[1:-1]]
    assert_all_of(found.effects[0], np.array(expected))


def test_a_state_of_one_tensor_is_patched_as_what_it_is(make_solver):
    solver = make_solver("looped")
    found = patch(solver.predictor, *read(solver, ("22x2", "12x2")), "steps", (1, 2, 3))
    assert found.things == ("state",)
    assert_all_of(found.effects[-1], 1)


@pytest.mark.parametrize("family", ["in order", "gpt"])
def test_without_supervision_steps_there_are_no_states_to_patch(trained, family):
    solver = trained(family)
    with pytest.raises(ValueError, match="takes no supervision steps here"):
        patch(solver.predictor, *read(solver, PAIRS[family]), "steps")


def test_a_looped_gpt_is_patched_in_each_loop(make_solver):
    solver = make_solver("gpt", num_layers=2, loops=2)
    inputs, labels = read(solver, ("21x2", "22x2"))
    runs = Sequences(solver.predictor, solver.predictor.model, inputs, labels)
    names = [f"loop {loop}, block {block}" for loop in (1, 2) for block in (1, 2)]
    assert [site.name for site in runs.sites()] == ["input", *names]
    assert [site.name for site in runs.heads()] == names
    gpt = solver.predictor.model
    row = runs.page_row
    ids = torch.from_numpy(to_sequences(labels[:, : row + 1])[:, :-1])
    for site in runs.sites()[1:]:
        logits, (seen,) = runs.run([0, 1], site)
        assert seen.shape == (2, ids.shape[1], gpt.config.hidden_size)
    with torch.no_grad():
        own = gpt(ids, *labels.shape[1:])[:, runs.writers]
        of_last_block = gpt.head(gpt.norm(seen))[:, runs.writers]
    torch.testing.assert_close(logits, own)
    torch.testing.assert_close(of_last_block, own)


def test_heads_of_a_recursive_model_are_those_of_each_tensor_of_its_state(make_solver):
    solver = make_solver("recursive", H_cycles=2, L_cycles=2)
    runs = Canvases(solver.predictor.model, *read(solver, ("21x2", "22x2")), STEPS)
    names = [f"{name}, layer {layer}" for name in ("z_L", "z_H") for layer in (1, 2)]
    assert [site.name for site in runs.heads()] == names
    assert [site.name for site in runs.sites()] == ["input", "step 1", "step 3"]
    times = [len(runs.run([0, 1], site)[1]) for site in (*runs.heads(), *runs.sites())]
    assert times == [12, 12, 6, 6, 1, 2, 2]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_hook_stays_when_a_run_fails(trained, family):
    solver = trained(family)
    runs = runs_of(solver, PAIRS[family])
    site = runs.heads()[0]
    wrong = Replacement(torch.ones(1, 3, dtype=torch.bool), runs.run([0, 1], site)[1])
    with pytest.raises(RuntimeError):
        runs.run([0], site, wrong)
    for part in solver.predictor.model.modules():
        assert not part._forward_hooks
        assert not part._forward_pre_hooks


def test_rows_that_are_the_same_are_refused(trained):
    solver = trained("in order")
    with pytest.raises(ValueError, match="have the same symbols in this row"):
        patch(solver.predictor, *read(solver, ("253x83", "253x93")), "cells")


def test_rows_that_are_masked_in_other_cells_are_refused(trained):
    solver = trained("in order")
    (inputs, labels), (later, _) = (read(solver, PAIRS["in order"], row) for row in (0, 1))
    mixed = np.stack([inputs[0], later[1]])
    with pytest.raises(ValueError, match="masked in the same cells"):
        patch(solver.predictor, mixed, labels, "cells")


def test_a_model_that_reads_written_cells_alone_wants_them_in_the_same_cells(trained):
    solver = trained("stepwise")
    with pytest.raises(ValueError, match="tokens are not in the same cells"):
        patch(solver.predictor, *read(solver, ("253x89", "253x81"), row=1), "cells", STEPS)


def test_what_there_is_not_cannot_be_patched(trained, make_solver, monkeypatch):
    solver = trained("in order")
    pair = read(solver, PAIRS["in order"])
    with pytest.raises(ValueError, match="choose one of cells, rows, columns, heads, steps"):
        patch(solver.predictor, *pair, "layers")
    solver = make_solver("looped")
    monkeypatch.setattr(LoopedTransformer, "updates", ())
    with pytest.raises(ValueError, match="heads of LoopedTransformer cannot be patched"):
        patch(solver.predictor, *read(solver, ("21x2", "22x2")), "heads")


def test_a_model_that_tells_the_problems_not_apart_is_refused(make_solver):
    solver = make_solver("looped")
    model = solver.predictor.model
    with torch.no_grad():
        model.lm_head.weight.zero_()
    with pytest.raises(ValueError, match="does not tell the two problems apart"):
        patch(solver.predictor, *read(solver, ("21x2", "22x2")), "cells")


def test_a_model_that_works_in_order_comes_to_the_same_effects_in_steps(trained):
    """The last layer in one cell, replaced in every supervision step from the start."""
    solver = trained("in order")
    inputs, labels = read(solver, ("2539x839", "2549x839"), row=1)
    found = patch(solver.predictor, inputs, labels, "cells")
    assert found.sites[-1] == "layer 2"
    runs = InOrder(solver.predictor.model, inputs, labels, STEPS)
    from_start = replace_start(runs)
    site = runs.sites()[-1]
    _, seen = runs.run([0, 1], site)
    for place in np.argwhere(np.abs(np.nan_to_num(found.effects[-1])) > 0.1):
        group = torch.zeros(1, int(runs.grid.max()) + 1, dtype=torch.bool)
        group[0, runs.grid[tuple(place)]] = True
        (one, _), (other, _) = (
            r.run([0], site, Replacement(group, seen)) for r in (runs, from_start)
        )
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def replace_start(runs: InOrder) -> InOrder:
    """The same runs, which begin with nothing worked out."""
    other = object.__new__(InOrder)
    other.__dict__.update(runs.__dict__)
    other.finished = torch.zeros_like(runs.finished)
    return other


def test_steps_are_patched_as_they_come_by(make_solver):
    """What is put into the state after a step is what the next step starts from."""
    solver = make_solver("looped")
    solver = replace(solver, predictor=IterativePredictor(solver.predictor.model, 2))
    model = solver.predictor.model
    runs = Canvases(model, *read(solver, ("21x2", "22x2")), (1, 2))
    site = runs.sites()[1]
    assert site.name == "step 1"
    _, seen = runs.run([0, 1], site)
    patched, _ = runs.run([0], site, Replacement(everything(runs, site), seen))
    with torch.no_grad():
        context = model.encode(runs.tokens[:1])
        of_b = model.iterate(
            model.encode(runs.tokens[1:]), model.initial_state(model.encode(runs.tokens[1:]))
        )
        logits, _ = model.read(model.iterate(context, of_b), context)
    torch.testing.assert_close(patched, logits[:, runs.answer[0], runs.answer[1]])

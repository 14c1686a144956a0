import random

import numpy as np
import pytest
import torch

from augment import symmetry, views
from augment.symmetry import SYMMETRIES
from augment.views import View
from canvas.symbols import BLANK, DIGIT_ZERO, MASK, encode


def canvas_from(text: str) -> torch.Tensor:
    """A batch of one canvas from lines of symbols."""
    return torch.from_numpy(np.stack([encode(line) for line in text.split()]))[None]


LABELS = canvas_from("______ _321__ _6_*__ _837__ ______ ______")  # 123 x 6, digits reversed
INPUTS = LABELS.clone()
INPUTS[:, 3] = MASK
CONTENT = LABELS != BLANK


def random_canvases(batch: int, height: int, width: int, seed: int) -> torch.Tensor:
    """Canvases with a block of random symbols somewhere and blank around it."""
    rng = np.random.default_rng(seed)
    canvases = np.full((batch, height, width), BLANK, dtype=np.uint8)
    for canvas in canvases:
        rows, columns = rng.integers(1, height), rng.integers(1, width)
        top, left = rng.integers(0, height - rows + 1), rng.integers(0, width - columns + 1)
        block = canvas[top : top + rows, left : left + columns]
        block[:] = rng.integers(DIGIT_ZERO, BLANK + 1, block.shape)
    return torch.from_numpy(canvases)


def every_accepted_view(canvas: torch.Tensor) -> list[View]:
    accepted = []
    for name in SYMMETRIES:
        room = views.possible_shifts(symmetry.apply(name, canvas != BLANK))
        for down in range(-int(room.up), int(room.down) + 1):
            accepted += [
                View(name, down, right) for right in range(-int(room.left), int(room.right) + 1)
            ]
    return accepted


@pytest.mark.parametrize(("height", "width"), [(5, 5), (4, 7), (6, 3)])
def test_undoing_every_accepted_view_gives_the_canvas_back(height, width):
    for canvas in random_canvases(4, height, width, seed=0).split(1):
        for view in every_accepted_view(canvas):
            viewed = views.apply(view, canvas)
            assert torch.equal(views.undo(view, viewed), canvas)
            assert viewed.dtype == torch.uint8


def test_views_put_the_content_where_they_say():
    moved = views.apply(View("e", 1, -1), LABELS)
    assert torch.equal(moved[0, 2, :3], torch.from_numpy(encode("321")))
    turned = views.apply(View("r90", 0, 0), LABELS)
    assert torch.equal(turned, torch.rot90(LABELS, dims=(1, 2)))


def test_shift_never_pushes_content_off():
    for canvas in random_canvases(3, 5, 6, seed=2).split(1):
        for view in every_accepted_view(canvas):
            viewed = views.apply(view, canvas)
            turned = symmetry.apply(view.symmetry, canvas)
            rows, columns = (turned[0] != BLANK).nonzero(as_tuple=True)
            assert torch.equal(
                viewed[0, rows + view.down, columns + view.right], turned[0, rows, columns]
            )


@pytest.mark.parametrize(
    ("view", "excess"),
    [
        (View("e", -2, 0), "1 cell over the top"),
        (View("e", 3, 0), "1 cell over the bottom"),
        (View("e", 0, -3), "2 cells over the left edge"),
        (View("h", 0, 3), "2 cells over the right edge"),
        (View("t", 4, -2), "2 cells over the bottom and 1 cell over the left edge"),
    ],
)
def test_overflow_is_refused_and_says_by_how_much(view, excess):
    with pytest.raises(ValueError, match=f"canvas 1 {excess}; it can move"):
        views.apply(view, torch.cat([torch.full_like(LABELS, BLANK), LABELS]))


@pytest.mark.parametrize("view", [View("e", 1, -1), View("r90", -1, 1), View("hvt", 0, -1)])
def test_row_masked_before_the_view_is_masked_after_undoing_it(view):
    viewed = views.apply(view, INPUTS, CONTENT)
    masked = viewed == MASK
    lines = masked.all(dim=2) | masked.all(dim=1)
    assert lines.sum() == 1, "the mask is still one full line"
    assert masked.sum() == 6
    assert torch.equal(views.undo(view, viewed) == MASK, INPUTS == MASK)


def test_masked_row_does_not_hold_an_input_canvas_in_place():
    viewed = views.apply(View("e", 0, 2), INPUTS)
    assert torch.equal(viewed[0, 1], torch.from_numpy(encode("___321")))
    assert bool((viewed[0, 3] == MASK).all())


def test_inputs_labels_and_answer_stay_together():
    answer = INPUTS == MASK
    view = View("r270", 1, -1)
    inputs, labels, mask = (views.apply(view, x, CONTENT) for x in (INPUTS, LABELS, answer))
    assert mask.dtype == torch.bool
    assert torch.equal(inputs == MASK, mask)
    assert torch.equal(inputs[~mask], labels[~mask])


def test_log_probabilities_go_back_cell_by_cell():
    view = View("r90", 1, 0)
    log_probabilities = torch.randn(1, 6, 6, 18, generator=torch.Generator().manual_seed(0))
    back = views.undo(view, log_probabilities)
    for symbol in range(18):
        assert torch.equal(back[..., symbol], views.undo(view, log_probabilities[..., symbol]))


@pytest.mark.parametrize(
    ("height", "width", "names"), [(5, 5, list(SYMMETRIES)), (4, 6, ["e", "r180", "h", "v"])]
)
def test_a_view_for_each_sample_is_that_view_applied_alone(height, width, names):
    canvases = random_canvases(40, height, width, seed=3)
    generator = torch.Generator().manual_seed(0)
    choice = random.Random(0)
    drawn = [
        choice.choice([view for view in every_accepted_view(canvas) if view.symmetry in names])
        for canvas in canvases.split(1)
    ]
    viewed = views.apply_views(drawn, canvases)
    for view, canvas, result in zip(drawn, canvases.split(1), viewed.split(1), strict=True):
        assert torch.equal(views.apply(view, canvas), result)
    assert torch.equal(views.undo_views(drawn, viewed), canvases)
    scores = torch.randn(40, height, width, 2, generator=generator)
    back = views.undo_views(drawn, scores)
    for view, score, result in zip(drawn, scores.split(1), back.split(1), strict=True):
        assert torch.equal(views.undo(view, score), result)


def test_blank_canvas_can_be_shifted_anywhere():
    blank = torch.full((1, 3, 4), BLANK, dtype=torch.uint8)
    assert torch.equal(views.apply(View("e", -2, 3), blank), blank)


def test_misuse_is_refused_with_a_remedy():
    with pytest.raises(ValueError, match="a symmetry of the square must be"):
        View("mirror")
    with pytest.raises(ValueError, match="add a batch dimension"):
        views.undo(View(), LABELS[0])
    with pytest.raises(ValueError, match="pass content="):
        views.apply(View(), INPUTS == MASK)
    with pytest.raises(ValueError, match="content must be bool"):
        views.apply(View(), INPUTS, LABELS)
    with pytest.raises(ValueError, match="2 views for 1 canvases"):
        views.apply_views([View(), View()], LABELS)
    with pytest.raises(ValueError, match="use square canvases"):
        views.apply_views([View("t")], LABELS[:, :4])


@pytest.mark.parametrize("allowed", [["e"], ["r90", "t"], list(SYMMETRIES)])
def test_distinct_views_are_all_there_are_each_once_and_the_identity_first(allowed):
    drawn = views.distinct_views(CONTENT[0], allowed, 10_000, seed=0)
    assert drawn[0] == View()
    assert len(set(drawn)) == len(drawn)
    names = {"e", *allowed}
    assert set(drawn) == {view for view in every_accepted_view(LABELS) if view.symmetry in names}


def test_fewer_distinct_views_are_the_first_of_more_and_follow_the_seed():
    many = views.distinct_views(CONTENT[0], list(SYMMETRIES), 40, seed=3)
    assert views.distinct_views(CONTENT[0], list(SYMMETRIES), 7, seed=3) == many[:7]
    assert views.distinct_views(CONTENT[0], list(SYMMETRIES), 40, seed=4) != many
    assert {view.symmetry for view in many} == set(SYMMETRIES)


@pytest.mark.parametrize("seed", range(5))
def test_every_symmetry_comes_before_any_comes_again(seed):
    drawn = views.distinct_views(CONTENT[0], list(SYMMETRIES), 16, seed)
    assert {view.symmetry for view in drawn[:8]} == set(SYMMETRIES)
    assert {view.symmetry for view in drawn[8:]} == set(SYMMETRIES)


def test_distinct_views_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="at least one view"):
        views.distinct_views(CONTENT[0], ["e"], 0, seed=0)
    with pytest.raises(ValueError, match="the view t makes"):
        views.distinct_views(CONTENT[0, :4], ["t"], 2, seed=0)

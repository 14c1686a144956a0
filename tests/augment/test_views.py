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


def shown(view: View, canvas: torch.Tensor) -> torch.Tensor:
    """A canvas in a view, by its definition."""
    turned = symmetry.apply(view.symmetry, canvas)
    return torch.roll(turned, (view.down, view.right), dims=(-2, -1))


def undo(view: View, viewed: torch.Tensor) -> torch.Tensor:
    """The inverse of `shown`."""
    back = torch.roll(viewed, (-view.down, -view.right), dims=(-2, -1))
    return symmetry.apply(symmetry.invert(view.symmetry), back)


def every_accepted_view(canvas: torch.Tensor) -> list[View]:
    accepted = []
    for name in SYMMETRIES:
        room = views.possible_shifts(symmetry.apply(name, canvas != BLANK))
        for down in range(-int(room.up), int(room.down) + 1):
            accepted += [
                View(name, down, right) for right in range(-int(room.left), int(room.right) + 1)
            ]
    return accepted


def test_every_accepted_view_keeps_its_content():
    for canvas in random_canvases(4, 5, 5, seed=0).split(1):
        for view in every_accepted_view(canvas):
            viewed = views.apply_views([view], canvas)
            assert viewed.dtype == torch.uint8
            turned = symmetry.apply(view.symmetry, canvas)[0]
            rows, columns = (turned != BLANK).nonzero(as_tuple=True)
            moved = viewed[0, rows + view.down, columns + view.right]
            assert torch.equal(moved, turned[rows, columns])


@pytest.mark.parametrize("view", [View("e", 1, -1), View("r90", -1, 1), View("hvt", 0, -1)])
def test_row_masked_before_the_view_is_masked_after_undoing_it(view):
    viewed = views.apply_views([view], INPUTS)
    masked = viewed == MASK
    lines = masked.all(dim=2) | masked.all(dim=1)
    assert lines.sum() == 1, "the mask is still one full line"
    assert masked.sum() == 6
    assert torch.equal(undo(view, viewed) == MASK, INPUTS == MASK)
    labels, answer = (views.apply_views([view], x) for x in (LABELS, INPUTS == MASK))
    assert torch.equal(masked, answer)
    assert torch.equal(viewed[~answer], labels[~answer])


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
        assert torch.equal(shown(view, canvas), result)
    assert torch.equal(views.undo_views(drawn, viewed), canvases)
    scores = torch.randn(40, height, width, 2, generator=generator)
    back = views.undo_views(drawn, scores)
    for view, score, result in zip(drawn, scores.split(1), back.split(1), strict=True):
        for k in (0, 1):
            assert torch.equal(undo(view, score[..., k]), result[..., k])


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
    for seed in range(5):  # every symmetry comes once before any comes again
        order = views.distinct_views(CONTENT[0], list(SYMMETRIES), 16, seed)
        assert all({one.symmetry for one in order[k : k + 8]} == set(SYMMETRIES) for k in (0, 8))

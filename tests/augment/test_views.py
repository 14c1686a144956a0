import random

import albumentations as A
import numpy as np
import pytest

from augment import symmetry, views
from augment.symmetry import SYMMETRIES
from augment.views import View
from canvas.symbols import BLANK, DIGIT_ZERO, MASK, encode

TEXT = "______ _321__ _6_*__ _837__ ______ ______"  # 123 x 6, digits reversed
LABELS = np.stack([encode(line) for line in TEXT.split()])[None]
INPUTS = LABELS.copy()
INPUTS[:, 3] = MASK
OBLONG = ["e", "r180", "h", "v"]  # leave an oblong canvas its shape


@pytest.mark.parametrize("name", SYMMETRIES)
def test_names_mean_what_albumentations_means(name):
    theirs = A.D4(p=1.0).apply(LABELS[0, :3], group_element=name)
    np.testing.assert_array_equal(symmetry.apply(name, LABELS[0, :3]), theirs)


def random_canvases(batch: int, height: int, width: int) -> np.ndarray:
    """Canvases with a block of random symbols somewhere and blank around it."""
    rng = np.random.default_rng(0)
    canvases = np.full((batch, height, width), BLANK, dtype=np.uint8)
    for canvas in canvases:
        rows, columns = rng.integers(1, height), rng.integers(1, width)
        top, left = rng.integers(0, height - rows + 1), rng.integers(0, width - columns + 1)
        block = canvas[top : top + rows, left : left + columns]
        block[:] = rng.integers(DIGIT_ZERO, BLANK + 1, block.shape)
    return canvases


def every_accepted_view(canvas: np.ndarray) -> list[View]:
    accepted = []
    for name in SYMMETRIES:
        room = views.possible_shifts(symmetry.apply(name, canvas[None] != BLANK))
        for down in range(-int(room.up[0]), int(room.down[0]) + 1):
            rights = range(-int(room.left[0]), int(room.right[0]) + 1)
            accepted += [View(name, down, right) for right in rights]
    return accepted


def test_every_accepted_view_keeps_its_content():
    for canvas in random_canvases(4, 5, 5):
        for view in every_accepted_view(canvas):
            (viewed,) = views.apply_views([view], canvas[None])
            assert viewed.dtype == np.uint8
            turned = symmetry.apply(view.symmetry, canvas)
            rows, columns = (turned != BLANK).nonzero()
            moved = viewed[rows + view.down, columns + view.right]
            assert (moved == turned[rows, columns]).all()
            assert (viewed != BLANK).sum() == len(rows)


@pytest.mark.parametrize("view", [View("e", 1, -1), View("r90", -1, 1), View("hvt", 0, -1)])
def test_row_masked_before_the_view_is_masked_after_undoing_it(view):
    viewed = views.apply_views([view], INPUTS)
    masked = viewed == MASK
    lines = masked.all(axis=2) | masked.all(axis=1)
    assert lines.sum() == 1, "the mask is still one full line"
    assert masked.sum() == 6
    labels, answer = (views.apply_views([view], x) for x in (LABELS, INPUTS == MASK))
    assert (masked == answer).all()
    assert (viewed[~answer] == labels[~answer]).all()
    assert (views.undo_views([view], viewed) == INPUTS).all()


@pytest.mark.parametrize(("size", "names"), [((5, 5), list(SYMMETRIES)), ((4, 6), OBLONG)])
def test_a_view_for_each_sample_is_that_view_applied_alone_and_undone(size, names):
    canvases, choice = random_canvases(40, *size), random.Random(0)
    drawn = [
        choice.choice([view for view in every_accepted_view(canvas) if view.symmetry in names])
        for canvas in canvases
    ]
    viewed = views.apply_views(drawn, canvases)
    for view, canvas, result in zip(drawn, canvases, viewed, strict=True):
        np.testing.assert_array_equal(views.apply_views([view], canvas[None])[0], result)
    np.testing.assert_array_equal(views.undo_views(drawn, viewed), canvases)


@pytest.mark.parametrize("allowed", [["e"], ["r90", "t"], list(SYMMETRIES)])
def test_distinct_views_are_all_there_are_each_once_and_the_identity_first(allowed):
    drawn = views.distinct_views(LABELS[0] != BLANK, allowed, 10_000, seed=0)
    assert drawn[0] == View()
    assert len(set(drawn)) == len(drawn)
    names = {"e", *allowed}
    assert set(drawn) == {view for view in every_accepted_view(LABELS[0]) if view.symmetry in names}


def test_fewer_distinct_views_are_the_first_of_more_and_follow_the_seed():
    many = views.distinct_views(LABELS[0] != BLANK, list(SYMMETRIES), 40, seed=3)
    assert views.distinct_views(LABELS[0] != BLANK, list(SYMMETRIES), 7, seed=3) == many[:7]
    assert views.distinct_views(LABELS[0] != BLANK, list(SYMMETRIES), 40, seed=4) != many
    for seed in range(5):  # every symmetry comes once before any comes again
        order = views.distinct_views(LABELS[0] != BLANK, list(SYMMETRIES), 16, seed)
        assert all({one.symmetry for one in order[k : k + 8]} == set(SYMMETRIES) for k in (0, 8))

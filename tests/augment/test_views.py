"""Views of canvases against albumentations, undone, and drawn as transforms of training samples."""

import random

import albumentations as A
import numpy as np
import pytest

from augment import symmetry, views
from augment.symmetry import SYMMETRIES
from augment.transforms import CanvasShift, SampleTransform
from augment.views import View
from canvas.symbols import BLANK, DIGIT_ZERO, MASK, encode

TEXT = "______ _321__ _6_*__ _837__ ______ ______"  # 123 x 6, digits reversed
LABELS = np.stack([encode(line) for line in TEXT.split()])
ANSWER = np.arange(6)[:, None].repeat(6, axis=1) == 3
INPUTS = np.where(ANSWER, np.uint8(MASK), LABELS)
SAMPLE = INPUTS, LABELS, ANSWER
OBLONG = ["e", "r180", "h", "v"]  # leave an oblong canvas its shape


@pytest.mark.parametrize("name", SYMMETRIES)
def test_symmetry_names_agree_with_albumentations(name):
    theirs = A.D4(p=1.0).apply(LABELS[:3], group_element=name)
    np.testing.assert_array_equal(symmetry.apply(name, LABELS[:3]), theirs)


@pytest.mark.parametrize("first", SYMMETRIES)
@pytest.mark.parametrize("second", SYMMETRIES)
def test_two_symmetries_in_turn_are_one(first, second):
    expected = symmetry.apply(second, symmetry.apply(first, LABELS))
    np.testing.assert_array_equal(symmetry.apply(symmetry.compose(first, second), LABELS), expected)


def as_seen(view: View, array: np.ndarray) -> np.ndarray:
    return views.apply_views([view], array[None])[0]


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
        shifts = views.possible_shifts(symmetry.apply(name, canvas[None] != BLANK))
        up, most_down, left, most_right = shifts[:, 0].tolist()
        for down in range(-up, most_down + 1):
            accepted += [View(name, down, right) for right in range(-left, most_right + 1)]
    return accepted


def test_every_accepted_view_keeps_its_content():
    for canvas in random_canvases(4, 5, 5):
        for view in every_accepted_view(canvas):
            viewed = as_seen(view, canvas)
            assert viewed.dtype == np.uint8
            turned = symmetry.apply(view.symmetry, canvas)
            rows, columns = (turned != BLANK).nonzero()
            assert (viewed[rows + view.down, columns + view.right] == turned[rows, columns]).all()
            assert (viewed != BLANK).sum() == len(rows)


@pytest.mark.parametrize("view", [View("e", 1, -1), View("r90", -1, 1), View("hvt", 0, -1)])
def test_row_masked_before_the_view_is_masked_after_undoing_it(view):
    inputs, labels, answer = (as_seen(view, part) for part in SAMPLE)
    masked = inputs == MASK
    lines = np.concatenate([masked.all(axis=0), masked.all(axis=1)])
    assert lines.sum() == 1, "the mask is still one full line"
    assert masked.sum() == 6
    assert (masked == answer).all()
    assert (inputs[~answer] == labels[~answer]).all()
    assert (views.undo_views([view], inputs[None]) == INPUTS).all()


@pytest.mark.parametrize(("size", "names"), [((5, 5), list(SYMMETRIES)), ((4, 6), OBLONG)])
def test_a_view_per_sample_is_applied_and_undone(size, names):
    canvases, choice = random_canvases(40, *size), random.Random(0)
    drawn = [
        choice.choice([view for view in every_accepted_view(canvas) if view.symmetry in names])
        for canvas in canvases
    ]
    viewed = views.apply_views(drawn, canvases)
    for view, canvas, result in zip(drawn, canvases, viewed, strict=True):
        np.testing.assert_array_equal(as_seen(view, canvas), result)
    np.testing.assert_array_equal(views.undo_views(drawn, viewed), canvases)


@pytest.mark.parametrize("allowed", [["e"], ["r90", "t"], list(SYMMETRIES)])
def test_distinct_views_are_complete_and_begin_with_the_identity(allowed):
    drawn = views.distinct_views(LABELS != BLANK, allowed, 10_000, seed=0)
    assert drawn[0] == View()
    assert len(set(drawn)) == len(drawn)
    names = {"e", *allowed}
    assert set(drawn) == {view for view in every_accepted_view(LABELS) if view.symmetry in names}


def test_fewer_distinct_views_are_the_first_of_more():
    many = views.distinct_views(LABELS != BLANK, list(SYMMETRIES), 40, seed=3)
    assert views.distinct_views(LABELS != BLANK, list(SYMMETRIES), 7, seed=3) == many[:7]
    assert views.distinct_views(LABELS != BLANK, list(SYMMETRIES), 40, seed=4) != many
    for seed in range(5):  # every symmetry comes once before any comes again
        order = views.distinct_views(LABELS != BLANK, list(SYMMETRIES), 16, seed)
        assert all({one.symmetry for one in order[k : k + 8]} == set(SYMMETRIES) for k in (0, 8))


def test_shifts_along_rows_move_content_within_its_own_rows():
    content = LABELS != BLANK
    every = views.distinct_views(content, list(SYMMETRIES), 10_000, seed=0)
    along = views.distinct_views(content, list(SYMMETRIES), 10_000, seed=0, along_rows=True)
    across = {
        view: view.right if SYMMETRIES[view.symmetry].transpose else view.down for view in every
    }
    assert {*along} == {view for view in every if across[view] == 0}
    assert along[0] == View()


def test_transforms_give_canvases_of_views_that_follow_the_seed():
    transform = SampleTransform([A.D4(p=1.0), CanvasShift()])
    drawn = [transform(*SAMPLE, seed) for seed in range(900)]
    found = views.distinct_views(LABELS != BLANK, list(SYMMETRIES), 10_000, seed=0)
    every_view = {as_seen(view, LABELS).tobytes(): view for view in found}
    assert {labels.tobytes() for _, labels, _ in drawn} == set(every_view)
    for inputs, labels, answer in drawn[:300]:
        view = every_view[labels.tobytes()]
        np.testing.assert_array_equal(inputs, as_seen(view, INPUTS))
        np.testing.assert_array_equal(answer, as_seen(view, ANSWER))
        assert (inputs.dtype, labels.dtype, answer.dtype) == (np.uint8, np.uint8, bool)
        assert all(part.flags.c_contiguous for part in (inputs, labels, answer))
    for seed in (7, 3, 7):
        for again, before in zip(transform(*SAMPLE, seed), drawn[seed], strict=True):
            np.testing.assert_array_equal(again, before)
    assert len({labels.tobytes() for _, labels, _ in drawn[:20]}) > 10


def test_shifts_are_uniform_and_transforms_draw_independently():
    flips = SampleTransform([A.HorizontalFlip(p=0.5), A.VerticalFlip(p=0.5)])
    outcomes = {flips(*SAMPLE, seed)[1].tobytes() for seed in range(50)}
    assert outcomes == {as_seen(View(name), LABELS).tobytes() for name in ("e", "h", "v", "r180")}
    transform = SampleTransform([CanvasShift()])
    found = np.stack([transform(*SAMPLE, seed)[1].ravel() for seed in range(800)])
    counts = np.unique(found, axis=0, return_counts=True)[1]
    assert len(counts) == 4 * 4  # 3 x 3 content on a 6 x 6 canvas
    assert 22 < counts.min() <= counts.max() < 80  # 50 expected, standard deviation 7


def test_a_quarter_turn_exchanges_height_and_width():
    transform = SampleTransform([A.D4(p=1.0)])
    tall = [part[:, :4] for part in SAMPLE]
    assert {transform(*tall, seed=seed)[0].shape for seed in range(20)} == {(6, 4), (4, 6)}


@pytest.mark.parametrize(
    ("transforms", "names"),
    [
        ([A.D4(p=1.0), CanvasShift()], set(SYMMETRIES)),
        ([A.HorizontalFlip(p=0.5)], {"e", "h"}),
        ([A.HorizontalFlip(p=0.1), A.VerticalFlip(p=0.5)], {"e", "h", "v", "r180"}),
        ([A.RandomRotate90(p=1.0)], {"e", "r90", "r180", "r270"}),
        ([CanvasShift()], {"e"}),
    ],
)
def test_transforms_list_the_symmetries_of_their_samples(transforms, names):
    assert set(SampleTransform(transforms).symmetries) == names


@pytest.mark.parametrize(
    "torn",
    [
        A.RandomGridShuffle(grid=(3, 3), p=0.01),
        A.OneOf([A.D4(p=1.0), A.RandomGridShuffle(grid=(2, 2), p=1.0)], p=0.5),
        A.RandomCrop(6, 6),
        A.Affine(rotate=45, p=1.0),
        A.PixelDropout(p=0.5),
    ],
    ids=lambda transform: type(transform).__name__,
)
def test_a_transform_that_tears_canvases_is_refused_by_name(torn):
    with pytest.raises(ValueError, match=f"data.transforms: {type(torn).__name__} "):
        SampleTransform([A.D4(p=1.0), torn, CanvasShift()])


def test_transforms_that_move_whole_canvases_are_accepted():
    for kept in (A.NoOp(), A.Transpose(p=0.1), A.Sequential([A.D4(p=1.0), CanvasShift()], p=1.0)):
        assert SampleTransform([kept, A.RandomRotate90(p=0.5)])


def test_a_compose_that_leaves_labels_behind_is_refused():
    inputs, labels, answer = INPUTS, LABELS, ANSWER.view(np.uint8)
    alone = A.Compose([A.D4(p=1.0), CanvasShift()])
    with pytest.raises(ValueError, match="and not the labels and the answer"):
        alone(image=inputs, labels=labels, answer=answer)
    some = A.Compose([CanvasShift()], additional_targets={"labels": "mask"})
    with pytest.raises(ValueError, match="and not the answer: give albumentations"):
        some(image=inputs, labels=labels, answer=answer)
    moved = some(image=inputs, labels=labels)
    assert (moved["labels"][moved["image"] != MASK] == moved["image"][moved["image"] != MASK]).all()


@pytest.mark.parametrize(
    ("transforms", "shifts"),
    [([CanvasShift()], True), ([A.D4(p=1.0), CanvasShift(p=0.5)], True), ([A.D4(p=1.0)], False)],
)
def test_shifts_are_found_by_trying(transforms, shifts):
    assert SampleTransform(transforms).shifts == shifts

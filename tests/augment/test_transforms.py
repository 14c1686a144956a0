import albumentations as A
import numpy as np
import pytest

from augment import symmetry, views
from augment.symmetry import SYMMETRIES
from augment.transforms import CanvasShift, SampleTransform
from augment.views import View
from canvas.symbols import BLANK, MASK, encode

TEXT = "______ _321__ _6_*__ _837__ ______ ______"
LABELS = np.stack([encode(line) for line in TEXT.split()])
ANSWER = np.zeros(LABELS.shape, dtype=bool)
ANSWER[3] = True
INPUTS = np.where(ANSWER, np.uint8(MASK), LABELS)
SAMPLE = INPUTS, LABELS, ANSWER


def turn_and_shift() -> SampleTransform:
    return SampleTransform([A.D4(p=1.0), CanvasShift()])


def as_seen(view: View, array: np.ndarray) -> np.ndarray:
    return views.apply_views([view], array[None])[0]


@pytest.fixture(scope="module")
def every_view() -> dict[bytes, View]:
    """Every accepted view of the labels, by the bytes of the labels that it gives."""
    found = views.distinct_views(LABELS != BLANK, list(SYMMETRIES), 10_000, seed=0)
    return {as_seen(view, LABELS).tobytes(): view for view in found}


@pytest.fixture(scope="module")
def drawn() -> list[tuple[np.ndarray, ...]]:
    transform = turn_and_shift()
    return [transform(*SAMPLE, seed) for seed in range(900)]


def test_transforms_and_views_give_the_same_canvases(drawn, every_view):
    assert {labels.tobytes() for _, labels, _ in drawn} == set(every_view)
    for inputs, labels, answer in drawn[:300]:
        view = every_view[labels.tobytes()]
        np.testing.assert_array_equal(inputs, as_seen(view, INPUTS))
        np.testing.assert_array_equal(answer, as_seen(view, ANSWER))
        assert (inputs.dtype, labels.dtype, answer.dtype) == (np.uint8, np.uint8, bool)
        assert all(part.flags.c_contiguous for part in (inputs, labels, answer))


def test_transforms_draw_independently_of_each_other():
    flips = SampleTransform([A.HorizontalFlip(p=0.5), A.VerticalFlip(p=0.5)])
    outcomes = {flips(*SAMPLE, seed)[1].tobytes() for seed in range(50)}
    assert outcomes == {as_seen(View(name), LABELS).tobytes() for name in ("e", "h", "v", "r180")}


def test_shifts_are_uniform():
    transform = SampleTransform([CanvasShift()])
    found = np.stack([transform(*SAMPLE, seed)[1].ravel() for seed in range(800)])
    counts = np.unique(found, axis=0, return_counts=True)[1]
    assert len(counts) == 4 * 4  # 3 x 3 content on a 6 x 6 canvas
    assert 22 < counts.min() <= counts.max() < 80  # 50 expected, standard deviation 7


def test_the_same_seed_gives_the_same_sample_and_others_differ(drawn):
    transform = turn_and_shift()
    for seed in (7, 3, 7):
        for again, before in zip(transform(*SAMPLE, seed), drawn[seed], strict=True):
            np.testing.assert_array_equal(again, before)
    assert len({labels.tobytes() for _, labels, _ in drawn[:20]}) > 10


def test_a_quarter_turn_exchanges_height_and_width_and_no_transforms_change_nothing():
    transform = SampleTransform([A.D4(p=1.0)])
    tall = [part[:, :4] for part in SAMPLE]
    assert {transform(*tall, seed=seed)[0].shape for seed in range(20)} == {(6, 4), (4, 6)}
    assert SampleTransform()(*SAMPLE, seed=0)[1] is LABELS


def test_a_transform_that_redraws_symbols_is_refused():
    transform = SampleTransform([A.Rotate(limit=(30, 40), p=1.0)])
    with pytest.raises(ValueError, match="changed the symbols of a canvas"):
        transform(*SAMPLE, seed=0)


@pytest.mark.parametrize(
    ("transforms", "names"),
    [
        ([A.D4(p=1.0), CanvasShift()], set(symmetry.SYMMETRIES)),
        ([A.HorizontalFlip(p=0.5)], {"e", "h"}),
        ([A.HorizontalFlip(p=0.1), A.VerticalFlip(p=0.5)], {"e", "h", "v", "r180"}),
        ([A.RandomRotate90(p=1.0)], {"e", "r90", "r180", "r270"}),
        ([CanvasShift()], {"e"}),
        ([], {"e"}),
    ],
)
def test_transforms_tell_in_which_symmetries_samples_come_out(transforms, names):
    assert set(SampleTransform(transforms).symmetries) == names

import albumentations as A
import jsonargparse
import numpy as np
import pytest
import torch

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


def turn_and_shift() -> SampleTransform:
    return SampleTransform([A.D4(p=1.0), CanvasShift()])


def every_view() -> dict[bytes, View]:
    """Every accepted view of the labels, by the bytes of the labels that it gives."""
    labels, content = torch.from_numpy(LABELS)[None], torch.from_numpy(LABELS != BLANK)[None]
    found = {}
    for name in SYMMETRIES:
        room = views.possible_shifts(views.apply(View(name), content, content))
        for down in range(-int(room.up), int(room.down) + 1):
            for right in range(-int(room.left), int(room.right) + 1):
                view = View(name, down, right)
                found[views.apply(view, labels).numpy().tobytes()] = view
    return found


def as_seen(view: View, array: np.ndarray) -> np.ndarray:
    content = torch.from_numpy(LABELS != BLANK)[None]
    return views.apply(view, torch.from_numpy(array)[None], content)[0].numpy()


@pytest.fixture(scope="module")
def drawn() -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    transform = turn_and_shift()
    return [transform(INPUTS, LABELS, ANSWER, seed) for seed in range(900)]


def test_transforms_and_views_give_the_same_canvases(drawn):
    expected = every_view()
    for inputs, labels, answer in drawn[:300]:
        view = expected[labels.tobytes()]
        np.testing.assert_array_equal(inputs, as_seen(view, INPUTS))
        np.testing.assert_array_equal(answer, as_seen(view, ANSWER))


def test_every_symmetry_meets_every_shift(drawn):
    assert {labels.tobytes() for _, labels, _ in drawn} == set(every_view())


def test_transforms_draw_independently_of_each_other():
    flips = SampleTransform([A.HorizontalFlip(p=0.5), A.VerticalFlip(p=0.5)])
    outcomes = {flips(INPUTS, LABELS, ANSWER, seed)[1].tobytes() for seed in range(50)}
    assert outcomes == {as_seen(View(name), LABELS).tobytes() for name in ("e", "h", "v", "r180")}


def test_shifts_are_uniform():
    transform = SampleTransform([CanvasShift()])
    counts: dict[bytes, int] = {}
    for seed in range(800):
        labels = transform(INPUTS, LABELS, ANSWER, seed)[1].tobytes()
        counts[labels] = counts.get(labels, 0) + 1
    assert len(counts) == 4 * 4  # 3 x 3 content on a 6 x 6 canvas
    assert min(counts.values()) > 22  # 50 expected, standard deviation 7
    assert max(counts.values()) < 80


def test_masked_row_is_a_full_line_and_covers_the_answer(drawn):
    for inputs, labels, answer in drawn:
        np.testing.assert_array_equal(inputs == MASK, answer)
        np.testing.assert_array_equal(inputs[~answer], labels[~answer])
        assert answer.all(axis=0).sum() + answer.all(axis=1).sum() == 1
        assert (labels[answer] != BLANK).sum() == 3


def test_canvases_stay_uint8_and_answers_bool(drawn):
    assert {tuple(str(x.dtype) for x in sample) for sample in drawn} == {("uint8", "uint8", "bool")}
    assert all(x.flags.c_contiguous for sample in drawn for x in sample)


def test_same_seed_same_sample_and_different_seeds_differ(drawn):
    transform = turn_and_shift()
    for seed in (7, 3, 7):
        for again, before in zip(transform(INPUTS, LABELS, ANSWER, seed), drawn[seed], strict=True):
            np.testing.assert_array_equal(again, before)
    assert len({labels.tobytes() for _, labels, _ in drawn[:20]}) > 10


def test_transforms_come_from_a_config():
    parser = jsonargparse.ArgumentParser()
    parser.add_argument("--transform", type=SampleTransform)
    transforms = [
        {"class_path": "albumentations.D4", "init_args": {"p": 1.0}},
        {"class_path": "augment.transforms.CanvasShift"},
    ]
    config = {
        "class_path": "augment.transforms.SampleTransform",
        "init_args": {"transforms": transforms},
    }
    instantiate = getattr(parser, "instantiate", parser.instantiate_classes)
    built = instantiate(parser.parse_object({"transform": config})).transform
    assert [type(t) for t in built.transforms] == [A.D4, CanvasShift]


def test_no_transforms_change_nothing():
    assert SampleTransform()(INPUTS, LABELS, ANSWER, seed=0)[1] is LABELS


def test_quarter_turn_exchanges_height_and_width():
    transform = SampleTransform([A.D4(p=1.0)])
    tall = INPUTS[:, :4], LABELS[:, :4], ANSWER[:, :4]
    assert {transform(*tall, seed=seed)[0].shape for seed in range(20)} == {(6, 4), (4, 6)}


def test_transform_that_redraws_symbols_is_refused():
    transform = SampleTransform([A.Rotate(limit=(30, 40), p=1.0)])
    with pytest.raises(ValueError, match="changed the symbols of a canvas"):
        transform(INPUTS, LABELS, ANSWER, seed=0)


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


def test_hints_move_with_the_labels():
    """A hint that tells every cell of the canvas apart, and one that repeats the labels."""
    place = np.arange(LABELS.size, dtype=np.uint8).reshape(LABELS.shape)
    hints = np.stack([place, LABELS], axis=-1)
    transform, seen = turn_and_shift(), set()
    for seed in range(60):
        inputs, labels, answer, moved = transform(INPUTS, LABELS, ANSWER, seed, hints)
        plain = transform(INPUTS, LABELS, ANSWER, seed)
        for one, other in zip((inputs, labels, answer), plain, strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(moved[..., 1], labels)
        np.testing.assert_array_equal(LABELS.reshape(-1)[moved[..., 0]], labels)
        np.testing.assert_array_equal(ANSWER.reshape(-1)[moved[..., 0]], answer)
        seen.add(labels.tobytes())
    assert len(seen) > 20

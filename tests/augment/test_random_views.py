import math
from collections import Counter

import albumentations as A
import numpy as np
import pytest
import torch

from augment import symmetry
from augment.random_views import RandomViews
from augment.symmetry import SYMMETRIES
from augment.transforms import CanvasShift, SampleTransform
from augment.views import View, apply
from canvas.symbols import BLANK, encode

TEXT = "_____ _32__ _6___ _4___ _____"
LABELS = np.stack([encode(line) for line in TEXT.split()])
SAMPLES = 6000


def drawn(views: RandomViews, labels: np.ndarray = LABELS, seed: int = 0) -> list[np.ndarray]:
    batch = torch.from_numpy(labels).expand(SAMPLES, *labels.shape)
    numbers = torch.rand(SAMPLES, 3, generator=torch.Generator().manual_seed(seed))
    return list(views.draw(batch, numbers).show(batch).numpy())


def counted(canvases: list[np.ndarray]) -> Counter[bytes]:
    return Counter(canvas.tobytes() for canvas in canvases)


@pytest.mark.parametrize(
    ("views", "transforms"),
    [
        (RandomViews(shift=True), [A.D4(p=1.0), CanvasShift()]),
        (RandomViews(), [A.D4(p=1.0)]),
        (RandomViews(["e", "h"], shift=True), [A.HorizontalFlip(p=0.5), CanvasShift()]),
        (RandomViews(["e"], shift=True), [CanvasShift()]),
    ],
)
def test_what_is_drawn_is_distributed_as_albumentations_draws_it(views, transforms):
    transform = SampleTransform(transforms)
    answer = LABELS != BLANK
    theirs = counted([transform(LABELS, LABELS, answer, seed)[1] for seed in range(SAMPLES)])
    ours = counted(drawn(views))
    assert set(ours) == set(theirs)
    # Chi-squared of two samples of equal size: its mean is the number of outcomes less one.
    statistic = sum((ours[one] - theirs[one]) ** 2 / (ours[one] + theirs[one]) for one in ours)
    free = len(ours) - 1
    assert abs(statistic - free) < 4 * math.sqrt(2 * free)


def test_the_view_of_a_sample_is_the_one_it_is_told_to_be():
    labels = torch.from_numpy(LABELS).expand(64, 5, 5)
    numbers = torch.rand(64, 3, generator=torch.Generator().manual_seed(1))
    found = RandomViews().draw(labels, numbers)
    for which, canvas in zip(found.symmetry.tolist(), found.show(labels), strict=True):
        view = View(list(SYMMETRIES)[which])
        assert torch.equal(apply(view, labels[:1])[0], canvas)


def test_cells_of_any_type_move_together():
    labels = torch.from_numpy(LABELS).expand(32, 5, 5)
    numbers = torch.rand(32, 3, generator=torch.Generator().manual_seed(2))
    found = RandomViews(shift=True).draw(labels, numbers)
    assert torch.equal(found.show(labels == 6), found.show(labels) == 6)
    assert torch.equal(found.show(labels.double() / 2), found.show(labels).double() / 2)


def test_an_oblong_canvas_keeps_its_shape():
    oblong = LABELS[:, :4]
    views = RandomViews(["e", "r180", "h", "v"])
    assert set(counted(drawn(views, oblong))) == {
        np.ascontiguousarray(symmetry.apply(name, oblong)).tobytes() for name in views.symmetries
    }
    with pytest.raises(ValueError, match=r"an equal height and width, or square: true, or leave"):
        drawn(RandomViews(), oblong)


def test_a_canvas_that_is_full_is_not_shifted():
    full = np.full((3, 3), 7, dtype=np.uint8)
    assert counted(drawn(RandomViews(["e"], shift=True), full)) == {full.tobytes(): SAMPLES}


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], "one or more names, each once"),
        (["e", "e"], r"each once, like \[e, r180\], not \[e, e\]"),
        (["r45"], "r45"),
    ],
)
def test_impossible_symmetries_are_refused(names, told):
    with pytest.raises(ValueError, match=told):
        RandomViews(names)

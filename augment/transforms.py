"""Turning and shifting of training samples, as albumentations transforms composed in YAML.

    transforms:
      - {class_path: albumentations.D4, init_args: {p: 1.0}}
      - {class_path: augment.transforms.CanvasShift}

A sample is masked before it is transformed; its inputs, labels and answer mask move together. One
negative, a `guessed` canvas, is masked again afterwards (`trm.training.negatives`).
Albumentations chooses and applies the moves in training, `augment.views` applies those of solving;
`tests/augment` compares the two.
"""

import os
import random
from collections.abc import Sequence
from copy import copy, deepcopy
from functools import cached_property
from typing import Any

import numpy as np

# Otherwise its import asks PyPI for a newer version; 2.0.8 is pinned on purpose.
os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")

import albumentations as A
from albumentations import BasicTransform

from augment import symmetry
from canvas.boxes import bounding_box
from canvas.symbols import BLANK

_TRIED = 64  # random choices by which a transform is tried before it is used


class CanvasShift(A.DualTransform):
    """Shift a sample's content to a uniformly random place on the canvas.

    Every place that keeps the non-blank cells of the labels on the canvas is equally likely. Cells
    wrap around, so a masked line stays full, see `augment.views`.

    Args:
        p: probability of shifting a sample.

    Raises:
        ValueError: in an `albumentations.Compose` of your own, ``labels`` and ``answer`` are not
            additional targets of the type mask.
    """

    def __init__(self, p: float = 1.0):
        super().__init__(p=p)

    @property
    def targets_as_params(self) -> list[str]:
        """Parts of a sample that the shift depends on."""
        return ["labels"]

    def get_params_dependent_on_data(
        self, params: dict[str, Any], data: dict[str, Any]
    ) -> dict[str, Any]:
        """Draw a shift; return the source rows, int64 [H, 1], and columns, int64 [W]."""
        still = [name for name in ("labels", "answer") if name in data.keys() - self.available_keys]
        if still:
            raise ValueError(
                f"CanvasShift would move the image and not the {' and the '.join(still)}: give "
                'albumentations.Compose additional_targets={"labels": "mask", "answer": "mask"}'
            )
        content = data["labels"] != BLANK
        rows, columns = map(self._draw_source, bounding_box(content), content.shape)
        return {"rows": rows[:, None], "columns": columns}

    def _draw_source(self, occupied: slice, size: int) -> np.ndarray:
        """Draw the source lines of one axis, int64 [size], for its occupied lines."""
        shift = self.py_random.randint(-occupied.start, size - occupied.stop)
        return (np.arange(size) - shift) % size

    def apply(self, img: np.ndarray, *args: Any, **params: Any) -> np.ndarray:
        """Return a shifted canvas or mask, [H, W]."""
        return img[params["rows"], params["columns"]]


class SampleTransform:
    """Apply albumentations transforms to a training sample, as a pure function of sample and seed.

    Args:
        transforms: each turns, reflects or moves whole canvases: `A.D4`, flips, quarter turns,
            `CanvasShift`. Those that exchange rows and columns need square canvases.

    Raises:
        ValueError: a transform does something else.
    """

    def __init__(self, transforms: Sequence[BasicTransform | A.BaseCompose]):
        self.transforms = transforms
        self._compose = self._composed(transforms)
        for transform in transforms:
            self._check(transform)

    @staticmethod
    def _composed(transforms: Sequence[BasicTransform | A.BaseCompose]) -> A.Compose:
        return A.Compose(
            list(transforms),
            additional_targets={"labels": "mask", "answer": "mask"},
            is_check_shapes=False,
        )

    def _check(self, transform: BasicTransform | A.BaseCompose) -> None:
        """Raise a ValueError unless a transform turns, reflects or moves whole canvases.

        It is tried with probability 1 on a small canvas whose cells are all different.
        """
        always = deepcopy(transform)
        always.p = 1.0
        alone = copy(self)
        alone.transforms, alone._compose = [transform], self._composed([always])
        alone._try()

    def _try(self) -> None:
        drawing = np.full((12, 12), BLANK, dtype=np.uint8)
        drawing[4:7, 3:8] = 100 + np.arange(15).reshape(3, 5)
        whole = {symmetry.apply(name, drawing[4:7, 3:8]).tobytes() for name in symmetry.SYMMETRIES}
        for seed in range(_TRIED):
            moved, labels, answer = self(drawing, drawing, drawing != BLANK, seed)
            shown = moved != BLANK
            alike = (labels == moved).all() and (answer == shown).all()
            torn = moved[bounding_box(shown)].tobytes() not in whole
            if torn or not alike or moved.shape != drawing.shape:
                raise ValueError(self._refusal("tore a drawing apart"))

    def _refusal(self, what: str) -> str:
        names = ", ".join(type(one).__name__ for one in self.transforms)
        return (
            f"data.transforms: {names} {what}; use only transforms that turn, reflect or move "
            "whole canvases, such as D4, HorizontalFlip, RandomRotate90 or CanvasShift"
        )

    @cached_property
    def symmetries(self) -> list[str]:
        """Names of the symmetries that occur in at most 400 random choices."""
        sample = np.arange(1, 10, dtype=np.uint8).reshape(3, 3)  # turns and flips all differ
        turned = {name: symmetry.apply(name, sample).tobytes() for name in symmetry.SYMMETRIES}
        seen: set[bytes] = set()
        for seed in range(400):
            seen.add(self(sample, sample, sample > 0, seed)[0].tobytes())
            if seen.issuperset(turned.values()):
                break
        return [name for name, cells in turned.items() if cells in seen]

    @cached_property
    def shifts(self) -> bool:
        """True if content changes its place by some random choices."""
        block = np.full((9, 9), BLANK, dtype=np.uint8)
        block[3:6, 3:6] = 1  # in the middle, where symmetries leave it
        return any((self(block, block, block > 1, s)[0] != block).any() for s in range(_TRIED))

    def __call__(
        self, inputs: np.ndarray, labels: np.ndarray, answer: np.ndarray, seed: int, *more: Any
    ) -> tuple[np.ndarray, ...]:
        """Return a transformed sample: the arrays in the order of the arguments.

        Args:
            inputs: uint8 [H, W].
            labels: uint8 [H, W].
            answer: masked cells, bool [H, W].
            seed: of all randomness.
            more: further maps that move alike, uint8 [H, W] each.

        Raises:
            ValueError: a transform changes symbols.
        """
        # Compose.set_random_seed would start every transform from the same state, and two flips
        # with p=0.5 would then always happen together. Here all share one pair of generators.
        generators = np.random.Generator(np.random.PCG64(seed)), random.Random(seed)
        self._compose.set_random_state(*generators)
        # OpenCV, behind some transforms, has no bool.
        maps = {"masks": np.stack(more)} if more else {}
        moved = self._compose(image=inputs, labels=labels, answer=answer.view(np.uint8), **maps)
        before, after = (np.bincount(x.ravel(), minlength=256) for x in (inputs, moved["image"]))
        if (before != after).any():
            raise ValueError(self._refusal("changed the symbols of a canvas"))
        cells = moved["image"], moved["labels"], moved["answer"].view(np.bool_)
        return (*cells, *moved.get("masks", ()))

"""A predictor that knows the right answers, for tests of what is made of a model's answers."""

from dataclasses import dataclass

import numpy as np

from canvas.render import WorkedDrawing
from trm.solving.rollout import Prediction, Predictor


@dataclass(eq=False)
class Page:
    """A finished canvas, as an oracle knows it."""

    truth: np.ndarray  # uint8 [H, W], what is written; a test may spoil it
    given: np.ndarray  # bool [H, W]
    first: int  # the row that is filled in first
    confidence: float = 0.5  # in each row
    faulty: bool = True  # whether a fault befalls it, where there is one
    view: str = "e"  # the symmetry that it is seen in


class Oracle(Predictor):
    """Recognises pages by what is given on them, and fills in what they hold.

    A test may give it a `fault`, which changes what is filled in, or say which rows settle.
    """

    device = "cpu"
    most = 20  # cells on a side

    def __init__(self, drawing: WorkedDrawing | None = None, **own) -> None:
        self.pages: list[Page] = []
        self.seen: list[np.ndarray] = []  # what it was shown, batch by batch
        vars(self).update(own)
        if drawing is not None:
            self.learn(drawing)

    def fault(self, page: Page, shown: np.ndarray, filled: np.ndarray) -> None:
        """Change a canvas that is filled in."""

    def settles(self, page: Page, shown: np.ndarray) -> bool:
        """Whether a row comes to an end."""
        return True

    def learn(self, drawing: WorkedDrawing, **more) -> list[Page]:
        """The pages of a drawing, of which more may be said."""
        parts = zip(drawing.truth, drawing.given, drawing.row_of_step(0), strict=True)
        pages = [Page(truth.copy(), given, int(first), **more) for truth, given, first in parts]
        self.pages += pages
        return pages

    def page(self, shown: np.ndarray) -> Page:
        """The page that a canvas is of."""
        alike = (page for page in self.pages if page.truth.shape == shown.shape)
        return next(page for page in alike if (page.truth == shown)[page.given].all())

    def accepts(self, height: int, width: int) -> bool:
        return max(height, width) <= self.most

    def __call__(self, inputs: np.ndarray, *_: object) -> Prediction:
        self.seen.append(inputs.copy())
        pages = [self.page(shown) for shown in inputs]
        filled = np.stack([page.truth for page in pages])
        for page, shown, canvas in zip(pages, inputs, filled, strict=True):
            if page.faulty:
                self.fault(page, shown, canvas)
        confidence = np.array([page.confidence for page in pages], np.float32)
        settled = np.array([self.settles(*both) for both in zip(pages, inputs, strict=True)])
        return Prediction(filled, confidence, np.full(len(inputs), 2), settled)

"""Predictor with the correct answers, for tests of code that uses a model's answers."""

from dataclasses import dataclass

import numpy as np

from canvas.drawing import WorkedDrawing
from trm.solving.predictor import Predictor, batch_size
from trm.solving.rows import Prediction


@dataclass(eq=False)
class Page:
    """Finished canvas of an oracle."""

    truth: np.ndarray  # uint8 [H, W], the oracle's output; a test may make it incorrect
    given: np.ndarray  # bool [H, W]
    first: int  # the row that is filled in first
    confidence: float = 0.5  # in each row
    faulty: bool = True  # True: the oracle's fault applies to it
    view: str = "e"  # symmetry of the canvas


class Oracle(Predictor):
    """Predictor that recognises finished canvases by their given cells, and outputs them.

    A test may replace `fault`, which changes the outputs, or `settles`.
    """

    device = "cpu"
    most = 20  # cells on a side

    def __init__(self, drawing: WorkedDrawing | None = None, **own) -> None:
        self.pages: list[Page] = []
        self.seen: list[np.ndarray] = []  # its inputs, batch by batch
        vars(self).update(own)
        if drawing is not None:
            self.learn(drawing)

    def fault(self, page: Page, shown: np.ndarray, filled: np.ndarray) -> None:
        """Change a filled-in canvas in place."""

    def settles(self, page: Page, shown: np.ndarray) -> bool:
        """Test if a row settles."""
        return True

    def learn(self, drawing: WorkedDrawing, **more) -> list[Page]:
        """Add the canvases of a drawing; ``more`` are further fields of `Page`."""
        parts = zip(drawing.truth, drawing.given, drawing.canvas_row(0), strict=True)
        pages = [Page(truth.copy(), given, int(first), **more) for truth, given, first in parts]
        self.pages += pages
        return pages

    def page(self, shown: np.ndarray) -> Page:
        """Return the finished canvas that belongs to an input."""
        alike = (page for page in self.pages if page.truth.shape == shown.shape)
        return next(page for page in alike if (page.truth == shown)[page.given].all())

    def at_once(self, height: int, width: int) -> int:
        return batch_size("cpu", (height * width) ** 2) if max(height, width) <= self.most else 0

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

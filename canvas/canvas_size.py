"""The canvas that problems are drawn on: of a fixed size, or cut to fit."""

from dataclasses import dataclass

from canvas.problems import MOST_CELLS
from canvas.task import Task


@dataclass
class Canvas:
    """The canvas that problems are drawn on.

    Attributes:
        height, width: cells; null cuts a canvas to the longest problem on it.
        margin: a cut canvas gets 0 to this many more rows and columns, drawn anew for every batch
            of training; everything that is solved gets the middle of that.
        square: a cut canvas is made square, as quarter turns need it.
    """

    height: int | None = None
    width: int | None = None
    margin: int = 2
    square: bool = False

    def __post_init__(self) -> None:
        if (self.height is None) != (self.width is None):
            raise ValueError("give a canvas both a height and a width, or neither to have it cut")
        if self.margin < 0:
            raise ValueError(f"a margin is 0 cells or more, not {self.margin}")

    @property
    def cut(self) -> bool:
        """Whether it is cut to the problems on it."""
        return self.height is None

    def check(self, task: Task, more: tuple[int, int] = (0, 0)) -> None:
        """Raise ValueError if the task's longest problems do not fit, or nothing could train.

        Args:
            task: whose problems are drawn.
            more: blank rows and columns put into them where the canvas is cut, at most.
        """
        rows, columns = task.extent()
        spare = self.margin, self.margin
        height, width = self.size(rows + more[0], columns + more[1], spare)
        if height * width > MOST_CELLS:
            blanks = ", fewer blank rows and columns" if any(more) else ""
            raise ValueError(
                f"canvases of up to {height:,} x {width:,} are more than {MOST_CELLS:,} cells: "
                f"take shorter numbers{blanks}, or a smaller canvas"
            )
        if self.height is None or self.width is None:
            return
        if rows > self.height or columns > self.width:
            longest = " x ".join(map(str, task.longest))
            raise ValueError(
                f"{longest} digits in the {task.layout} layout need a canvas of at least "
                f"{rows} x {columns} (height x width), not "
                f"{self.height} x {self.width}"
            )

    def size(
        self, rows: int, columns: int, spare: tuple[int, int] | None = None
    ) -> tuple[int, int]:
        """Height and width for workings of that many rows and columns.

        Args:
            rows, columns: of the longest working.
            spare: rows and columns to add if the canvas is cut; None: the middle of the margin.
        """
        if self.height is not None and self.width is not None:
            return self.height, self.width
        more = spare or ((self.margin + 1) // 2,) * 2
        height, width = rows + more[0], columns + more[1]
        return (max(height, width),) * 2 if self.square else (height, width)

"""Boxes and lines of text: drawn with Pillow, written as SVG, or one after another as a GIF.

One description serves all three, so a PNG and an SVG show the same. Units are pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Literal

from PIL import Image, ImageDraw, ImageFont

PAPER = "#FFFFFF"
INK = "#1A1A1A"

_FONT = "DejaVu Sans"  # comes with matplotlib, and has the signs × ■ ► ✓ ✗
_DIGIT = 0.73  # height of a digit in it, of the font's size
_MOST = 2**26  # pixels of an image
_COLOURS = 256  # of a GIF


@dataclass(frozen=True)
class Box:
    """A rectangle, its border drawn on the inside of its edges."""

    left: float
    top: float
    right: float
    bottom: float
    fill: str | None = None
    border: str | None = None
    stroke: int = 1

    def moved(self, right: float, down: float) -> "Box":
        """The same elsewhere."""
        return replace(
            self,
            left=self.left + right,
            top=self.top + down,
            right=self.right + right,
            bottom=self.bottom + down,
        )


@dataclass(frozen=True)
class Label:
    """A line of text; ``y`` is the middle of its digits, ``x`` where its anchor is."""

    x: float
    y: float
    text: str
    size: float
    ink: str = INK
    anchor: Literal["start", "middle", "end"] = "middle"
    bold: bool = False

    def moved(self, right: float, down: float) -> "Label":
        """The same elsewhere."""
        return replace(self, x=self.x + right, y=self.y + down)

    @property
    def width(self) -> float:
        """Pixels that the text takes."""
        return _font(self.size, self.bold).getlength(self.text)


Shape = Box | Label


@dataclass(frozen=True)
class Sketch:
    """Shapes on white paper, the later ones above the earlier."""

    width: int
    height: int
    shapes: tuple[Shape, ...]

    def image(self) -> Image.Image:
        """Drawn, RGB.

        Raises:
            ValueError: too many pixels for a picture.
        """
        if self.width * self.height > _MOST:
            raise ValueError(
                f"a picture of {self.width:,} x {self.height:,} pixels is too large: draw smaller "
                "cells, a smaller canvas, or an SVG"
            )
        image = Image.new("RGB", (self.width, self.height), PAPER)
        draw = ImageDraw.Draw(image)
        for shape in self.shapes:
            if isinstance(shape, Box):
                edges = (shape.left, shape.top, shape.right, shape.bottom)
                draw.rectangle(edges, shape.fill, shape.border, shape.stroke)
            else:
                anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
                place = (shape.x, round(_baseline(shape)))
                font = _font(shape.size, shape.bold)
                draw.text(place, shape.text, shape.ink, font, anchor)
        return image

    def svg(self) -> str:
        """The same as SVG; text stays text."""
        size = f'width="{self.width}" height="{self.height}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
            f'viewBox="0 0 {self.width} {self.height}" font-family="{_FONT}, sans-serif">',
            f'<rect {size} fill="{PAPER}"/>',
            *(_box(s) if isinstance(s, Box) else _label(s) for s in self.shapes),
            "</svg>",
        ]
        return "\n".join(lines) + "\n"

    def save(self, path: str | Path) -> None:
        """Write as SVG where the name ends so, else as PNG."""
        if str(path).lower().endswith(".svg"):
            Path(path).write_text(self.svg(), encoding="utf-8")
        else:
            self.image().save(path, format="PNG", optimize=True)


def save_gif(path: str | Path, sketches: Sequence[Sketch], seconds: Sequence[float]) -> None:
    """Write an animation that loops for ever.

    Args:
        path: the GIF file.
        sketches: of one size.
        seconds: how long each stays.

    Raises:
        ValueError: no sketches, of several sizes, or not as many times as sketches.
    """
    if not sketches or len(sketches) != len(seconds):
        raise ValueError(
            f"{len(seconds)} times for {len(sketches)} sketches: an animation needs at least one, "
            "and a time for each"
        )
    if len({(sketch.width, sketch.height) for sketch in sketches}) > 1:
        raise ValueError("all sketches of an animation must have the same height and width")
    images = [sketch.image().quantize(_COLOURS, dither=Image.Dither.NONE) for sketch in sketches]
    images[0].save(
        path,
        format="GIF",
        save_all=True,
        append_images=images[1:],
        duration=[round(1000 * time) for time in seconds],
        loop=0,
    )


@lru_cache(maxsize=64)
def _font(size: float, bold: bool = False) -> ImageFont.FreeTypeFont:
    import matplotlib  # a third of a second, which text in a terminal does not need

    name = f"DejaVuSans{'-Bold' if bold else ''}.ttf"
    return ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts/ttf", name), size)


def _baseline(label: Label) -> float:
    return label.y + _DIGIT / 2 * label.size


def _box(box: Box) -> str:
    # Pillow's edges are pixels that belong to the box, SVG's lines without width.
    inset = box.stroke / 2 if box.border else 0
    wide, high = (
        end - start + 1 - 2 * inset for start, end in ((box.left, box.right), (box.top, box.bottom))
    )
    border = f' stroke="{box.border}" stroke-width="{box.stroke}"' if box.border else ""
    return (
        f'<rect x="{box.left + inset:g}" y="{box.top + inset:g}" width="{wide:g}" '
        f'height="{high:g}" fill="{box.fill or "none"}"{border}/>'
    )


def _label(label: Label) -> str:
    weight = ' font-weight="bold"' if label.bold else ""
    return (
        f'<text x="{label.x:g}" y="{_baseline(label):g}" font-size="{label.size:g}" '
        f'text-anchor="{label.anchor}" fill="{label.ink}"{weight}>{escape(label.text)}</text>'
    )

"""Draw the ten digits that `vit-edge demo` classifies: strokes of a pen, in the format of MNIST.

    python examples/draw_digits.py --output vit_edge/demo/digits

Each digit is a few smooth curves through points set by hand, drawn eight times too large, slanted, blurred, shrunk
into a box of 20x20 pixels and placed with its centre of mass in the middle of 28x28, white on black, as the images of
MNIST are. None of them is an image of MNIST.
"""

import argparse
import dataclasses
import math
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

DEMO = Path(__file__).resolve().parents[1] / "vit_edge" / "demo" / "digits"
SIDE, BOX = 28, 20  # pixels: the image, and what the digit fits into
OVERSAMPLED = 8
STEPS = 24  # straight pieces between two points of a curve

Point = tuple[float, float]


@dataclasses.dataclass(frozen=True, slots=True)
class Drawing:
    """Strokes as points (x, y), x to the right and y down, 0..100 each; slant in degrees; pen width in pixels."""

    strokes: tuple[tuple[Point, ...], ...]
    slant: float
    pen: float


# A point given twice is a corner: the curve through the points does not round it.
DIGITS: dict[str, Drawing] = {
    "0": Drawing(
        (((58, 4), (28, 16), (14, 48), (20, 82), (46, 97), (74, 84), (85, 48), (76, 16), (54, 3), (46, 8)),),
        slant=9, pen=2.3,
    ),
    "1": Drawing((((51, 2), (50, 35), (51, 66), (49, 98)),), slant=13, pen=2.5),
    "2": Drawing(
        (((18, 24), (34, 6), (60, 3), (76, 18), (72, 40), (48, 66), (16, 93), (16, 93), (46, 90), (86, 94)),),
        slant=6, pen=2.2,
    ),
    "3": Drawing(
        ((
            (20, 12), (44, 2), (70, 10), (72, 30), (42, 46), (42, 46), (72, 56), (80, 78), (58, 96), (32, 97),
            (14, 86),
        ),),
        slant=5, pen=2.4,
    ),
    "4": Drawing(
        (((30, 4), (24, 32), (18, 56), (18, 56), (48, 57), (86, 53)), ((72, 6), (69, 50), (68, 98))),
        slant=7, pen=2.2,
    ),
    "5": Drawing(
        (
            ((32, 6), (30, 24), (26, 44), (26, 44), (50, 38), (74, 50), (78, 74), (58, 94), (34, 97), (16, 88)),
            ((31, 6), (54, 6), (82, 3)),
        ),
        slant=8, pen=2.3,
    ),
    "6": Drawing(
        ((
            (66, 3), (42, 18), (26, 46), (22, 76), (38, 96), (62, 94), (76, 76), (66, 58), (44, 58), (26, 74),
        ),),
        slant=6, pen=2.3,
    ),
    "7": Drawing((((16, 12), (46, 9), (80, 8), (80, 8), (62, 44), (50, 72), (44, 98)),), slant=4, pen=2.3),
    "8": Drawing(
        ((
            (76, 14), (52, 2), (30, 12), (32, 30), (52, 46), (72, 64), (72, 86), (50, 98), (28, 88), (30, 66),
            (50, 47), (72, 30), (77, 14),
        ),),
        slant=7, pen=2.1,
    ),
    "9": Drawing(
        ((
            (74, 22), (56, 5), (32, 12), (26, 34), (42, 48), (64, 40), (75, 20), (75, 20), (72, 52), (66, 76),
            (58, 98),
        ),),
        slant=6, pen=2.3,
    ),
}  # fmt: skip


def curve(points: tuple[Point, ...]) -> list[Point]:
    """Points of a Catmull-Rom spline through all the given ones."""
    along = (points[0], *points, points[-1])
    drawn: list[Point] = []
    for a, b, c, d in zip(along, along[1:], along[2:], along[3:], strict=False):
        for step in range(STEPS + 1):
            t = step / STEPS
            weights = (
                (-(t**3) + 2 * t**2 - t) / 2,
                (3 * t**3 - 5 * t**2 + 2) / 2,
                (-3 * t**3 + 4 * t**2 + t) / 2,
                (t**3 - t**2) / 2,
            )
            x, y = (sum(w * p[axis] for w, p in zip(weights, (a, b, c, d), strict=True)) for axis in (0, 1))
            drawn.append((x, y))
    return drawn


def slanted(points: list[Point], degrees: float) -> list[Point]:
    """Lean to the right around the middle."""
    lean = math.tan(math.radians(degrees))
    return [(x + (50 - y) * lean, y) for x, y in points]


def fitted(strokes: list[list[Point]], side: float) -> list[list[Point]]:
    """Scale and move so that the longer side of all the strokes' box is `side`, from (0, 0) on."""
    xs, ys = zip(*(point for stroke in strokes for point in stroke), strict=True)
    factor = side / max(max(xs) - min(xs), max(ys) - min(ys))
    return [[((x - min(xs)) * factor, (y - min(ys)) * factor) for x, y in stroke] for stroke in strokes]


def draw(digit: Drawing) -> Image.Image:
    """The digit as an image of SIDE x SIDE, mode L."""
    pen = digit.pen * OVERSAMPLED
    strokes = [slanted(curve(points), digit.slant) for points in digit.strokes]
    large = Image.new("L", (SIDE * OVERSAMPLED, SIDE * OVERSAMPLED))
    pencil = ImageDraw.Draw(large)
    margin = (SIDE - BOX) / 2 * OVERSAMPLED + pen / 2
    for stroke in fitted(strokes, BOX * OVERSAMPLED - pen):
        for x, y in stroke:  # overlapping discs: a round pen
            x, y = x + margin, y + margin
            pencil.ellipse((x - pen / 2, y - pen / 2, x + pen / 2, y + pen / 2), fill=255)
    return centred(large.filter(ImageFilter.GaussianBlur(OVERSAMPLED * 0.35)))


def centred(large: Image.Image) -> Image.Image:
    """Shrink to SIDE x SIDE with the centre of mass in the middle."""
    ink = np.asarray(large, np.float64)
    middle = (SIDE * OVERSAMPLED - 1) / 2
    down = round(middle - (ink.sum(1) @ np.arange(len(ink))) / ink.sum())
    right = round(middle - (ink.sum(0) @ np.arange(len(ink))) / ink.sum())
    moved = Image.new("L", large.size)
    moved.paste(large, (right, down))
    return moved.resize((SIDE, SIDE), Image.Resampling.BOX)


def main() -> None:
    """Write one PNG a digit."""
    parser = argparse.ArgumentParser(description="Draw the ten digits that `vit-edge demo` classifies.")
    parser.add_argument("--output", type=Path, default=DEMO, help="folder, made if missing (default: %(default)s)")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    for name, digit in DIGITS.items():
        draw(digit).save(folder / f"{name}.png", optimize=True)
    print(f"{len(DIGITS)} digits in {folder}")


if __name__ == "__main__":
    main()

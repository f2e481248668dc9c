"""Draws the block diagrams of the documentation as SVG: python docs/diagrams.py"""

import pathlib

FOLDER = pathlib.Path(__file__).parent / "img"
BLUE, RED, GREY, GREEN, INK = "#dbe4f3", "#f6dcdc", "#eeeeee", "#dcefdc", "#333333"


class Drawing:
    """Boxes, arrows and texts on a white sheet."""

    def __init__(self, width, height, title):
        self.size = width, height
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-family="sans-serif">',
            f"<title>{title}</title>",
            '<defs><marker id="tip" markerWidth="7" markerHeight="7" refX="6" refY="3.5" orient="auto">'
            f'<path d="M0,0.5 L6,3.5 L0,6.5 z" fill="{INK}"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        ]

    def box(self, x, y, w, h, text="", fill=GREY, note=""):
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" fill="{fill}" stroke="{INK}" stroke-width="1.2"/>'
        )
        if text:
            self.text(x + w / 2, y + h / 2 + (-3 if note else 5), text)
        if note:
            self.text(x + w / 2, y + h / 2 + 14, note, size=11, fill="#666666")

    def frame(self, x, y, w, h, text):
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="10" fill="none" stroke="#999999" stroke-dasharray="5 4"/>'
        )
        self.text(x + 10, y + 18, text, size=12, anchor="start", fill="#666666")

    def text(self, x, y, text, size=14, anchor="middle", fill=INK):
        self.parts.append(
            f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{fill}">{text}</text>'
        )

    def arrow(self, *points):
        path = " ".join(f"{'M' if i == 0 else 'L'}{x},{y}" for i, (x, y) in enumerate(points))
        self.parts.append(f'<path d="{path}" fill="none" stroke="{INK}" stroke-width="1.4" marker-end="url(#tip)"/>')

    def zoom(self, left, right, top, bottom, frame=(20, 840)):
        """A light wedge from a box to the frame that shows its inside."""
        points = f"{left},{top} {right},{top} {frame[1]},{bottom} {frame[0]},{bottom}"
        self.parts.append(f'<polygon points="{points}" fill="#000000" fill-opacity="0.05"/>')

    def save(self, name):
        path = FOLDER / name
        path.write_text("\n".join([*self.parts, "</svg>"]) + "\n")
        print(path.relative_to(FOLDER.parent.parent))


def model():
    """The stack, one block of it, and one unit of the cell."""
    d = Drawing(860, 470, "The LrcSSM model")
    # the stack
    y, h = 40, 46
    row = [("series", "time × channels", GREY), ("encoder", "per step", BLUE), ("block 1", "", GREEN), ("…", "", None),
           ("block L", "", GREEN), ("pool", "over time", BLUE), ("head", "outputs", BLUE)]  # fmt: skip
    x, last = 20, None
    for name, note, fill in row:
        w = 40 if fill is None else 104
        if fill is None:
            d.text(x + w / 2, y + h / 2 + 5, name)
        else:
            d.box(x, y, w, h, name, fill, note)
        if last is not None:
            d.arrow((last, y + h / 2), (x, y + h / 2))
        last, x = x + w, x + w + 22
    # one block
    d.zoom(300, 430, 206, 286)
    d.frame(20, 120, 820, 128, "one block")
    d.zoom(272, 376, 86, 120)
    by, bh = 160, 46
    d.arrow((40, by + bh / 2), (150, by + bh / 2))
    d.text(40, by + bh / 2 - 10, "h", anchor="start")
    d.box(150, by, 100, bh, "norm", BLUE, "per step")
    d.arrow((250, by + bh / 2), (300, by + bh / 2))
    d.box(300, by, 130, bh, "cell", RED, "connects steps")
    d.arrow((430, by + bh / 2), (480, by + bh / 2))
    d.box(480, by, 110, bh, "mixer", BLUE, "per step")
    d.arrow((590, by + bh / 2), (668, by + bh / 2))
    d.parts.append(f'<circle cx="682" cy="{by + bh / 2}" r="13" fill="#ffffff" stroke="{INK}" stroke-width="1.2"/>')
    d.text(682, by + bh / 2 + 5, "+")
    d.arrow((695, by + bh / 2), (800, by + bh / 2))
    d.arrow((90, by + bh / 2), (90, 230), (682, 230), (682, by + bh / 2 + 14))
    d.text(390, 224, "skip", size=12, fill="#666666")
    # one cell
    d.frame(20, 286, 820, 166, "the cell: xₜ = F(xₜ₋₁, uₜ), one unit of it")
    d.text(60, 365, "uₜ")
    d.arrow((80, 360), (120, 360))
    d.box(120, 330, 170, 60, "drive", BLUE, "matrix product, all steps")
    d.arrow((290, 345), (350, 345))
    d.arrow((290, 360), (350, 360))
    d.arrow((290, 375), (350, 375))
    d.text(320, 338, "f, z, ε", size=11, fill="#666666")
    d.box(350, 324, 330, 72, "xₜ = xₜ₋₁ + σ(ε) (−σ(f) xₜ₋₁ + tanh(z) e)", RED, "step: elementwise in the state")
    d.arrow((680, 360), (800, 360))
    d.text(745, 350, "xₜ")
    d.arrow((720, 360), (720, 422), (515, 422), (515, 396))
    d.text(617, 440, "xₜ₋₁: a unit depends only on its own state, so ∂F/∂x is diagonal", size=11, fill="#666666")
    d.save("model.svg")


def chunks():
    """A chunk of time goes through all blocks before the next one starts."""
    d = Drawing(860, 300, "Chunks of time")
    d.text(430, 24, "time →", size=12, fill="#666666")
    for column in range(4):
        x = 150 + column * 170
        d.text(x + 60, 46, f"chunk {column + 1}", size=12)
        for row in range(3):
            y = 190 - row * 64
            fill = RED if column == 1 else (GREEN if column == 0 else GREY)
            note = {0: "recomputed later", 1: "in the cache", 2: "waits", 3: "waits"}[column]
            d.box(x, y, 120, 44, "block " + str(row + 1), fill, note if row == 2 else "")
            if column < 3:
                d.arrow((x + 120, y + 22), (x + 170, y + 22))
            if row < 2:
                d.arrow((x + 60, y), (x + 60, y - 20))
    d.text(60, 216, "inputs ↑", size=12, fill="#666666")
    d.text(60, 90, "outputs ↑", size=12, fill="#666666")
    d.text(
        430,
        278,
        "Only the states at the boundaries between chunks, a few kilobytes, are carried from left to right.",
        size=13,
    )
    d.save("chunks.svg")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    model()
    chunks()

"""`python docs/rooms.py` draws `images/rooms.svg`: the rooms of the package, and which room imports
which."""

import ast
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.house.test_rooms import PATHS, ROOMS, TOP, graph, room  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "rooms.svg"
ROW, LEFT, WIDTH = 26, 590, 34
STYLE = """
text { font: 14px sans-serif; fill: #222 } .name { font-weight: bold } .small { font-size: 12px; fill: #555 }
.cell { fill: #2a6f97 } .own { fill: #d9d9d9 } .line { stroke: #e6e6e6 }
"""


def summary(name: str) -> str:
    """The first line of a room's docstring, without its full stop."""
    if name == "top":
        return f"files at the top: {', '.join(TOP[:5])}"
    if name == "algorithms":
        return "the named algorithms, each a row of choices"
    first = (ast.get_docstring(ast.parse(PATHS[f"vijax.{name}"].read_text())) or "").split("\n")[0]
    short = first.rstrip(".").replace("`", "")
    return short if len(short) < 80 else short[: short.rfind(" ", 0, 76)] + " ..."


def picture() -> str:
    """A matrix as SVG: a square in row A and column B where room A imports room B."""
    uses = {
        (room(name), room(target))
        for name, found in graph().items()
        for target, late in found
        if not late
    }
    height = ROW * (len(ROOMS) + 1) + 90
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH * len(ROOMS) + 20}" '
        f'height="{height}">',
        f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>',
    ]
    for j, name in enumerate(ROOMS):
        x = LEFT + WIDTH * j + WIDTH / 2
        lines.append(f'<text x="{x}" y="86" transform="rotate(-60 {x} 86)">{name}</text>')
    for i, name in enumerate(ROOMS):
        y = 96 + ROW * i
        lines.append(f'<line class="line" x1="0" x2="100%" y1="{y + ROW}" y2="{y + ROW}"/>')
        lines.append(f'<text class="name" x="8" y="{y + 18}">{name}</text>')
        lines.append(f'<text class="small" x="110" y="{y + 18}">{escape(summary(name))}</text>')
        for j, other in enumerate(ROOMS):
            kind = "own" if name == other else "cell" if (name, other) in uses else None
            if kind:
                x = LEFT + WIDTH * j + 4
                size = f'width="{WIDTH - 8}" height="{ROW - 6}" rx="3"'
                lines.append(f'<rect class="{kind}" x="{x}" y="{y + 3}" {size}/>')
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture())

"""The skeletons of docs/extending.md, as they stand there: tests run them, so that each recipe
holds word for word."""

import re
from pathlib import Path
from typing import Any

TEXT = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()


def skeleton(heading: str) -> str:
    """The Python block under a heading."""
    return re.search(r"```python\n(.*?)```", TEXT.partition(f"## {heading}\n")[2], flags=re.DOTALL)[
        1
    ]


def run_skeleton(heading: str, names: dict[str, Any]) -> dict[str, Any]:
    """What the Python block under a heading defines, given what it needs by name."""
    exec(skeleton(heading), names)
    return names

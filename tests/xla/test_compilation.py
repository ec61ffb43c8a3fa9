"""The tests' own tools: what is kept of compiled programs, and what tests cost."""

import os
from pathlib import Path

from tests.compilation import forget_oldest


def test_the_oldest_programs_go_first(tmp_path: Path) -> None:
    for age, name in enumerate("dcba"):
        path = tmp_path / name
        path.write_bytes(bytes(100))
        os.utime(path, (1000 - age, 1000 - age))
    forget_oldest(tmp_path, 400)
    assert len(list(tmp_path.iterdir())) == 4
    forget_oldest(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "d"]

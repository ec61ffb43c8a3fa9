"""The tests' own tools: what is kept of compiled programs, and what tests cost."""

import os
from pathlib import Path

import pytest

from tests.compilation import PROGRAMS_IN_A_CONTEXT, forget_oldest, mlir


def test_the_oldest_programs_go_first(tmp_path: Path) -> None:
    for age, name in enumerate("dcba"):
        path = tmp_path / name
        path.write_bytes(bytes(100))
        os.utime(path, (1000 - age, 1000 - age))
    forget_oldest(tmp_path, 400)
    assert len(list(tmp_path.iterdir())) == 4
    forget_oldest(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "d"]


@pytest.mark.skipif(not hasattr(mlir, "make_ir_context"), reason="this jax makes contexts by another function")
def test_programs_share_contexts_and_none_is_kept_for_ever() -> None:
    made = [mlir.make_ir_context() for _ in range(2 * PROGRAMS_IN_A_CONTEXT)]
    assert len({id(context) for context in made}) == 3 - (made[0] is made[PROGRAMS_IN_A_CONTEXT - 1])

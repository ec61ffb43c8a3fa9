"""The tests' own tools: what is kept of compiled programs, and what tests cost."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import pytest

from tests.compilation import PROGRAMS_IN_A_CONTEXT, forget_oldest, many_times, mlir


def test_the_oldest_programs_go_first(tmp_path: Path) -> None:
    for age, name in enumerate("dcba"):
        path = tmp_path / name
        path.write_bytes(bytes(100))
        os.utime(path, (1000 - age, 1000 - age))
    forget_oldest(tmp_path, 400)
    assert len(list(tmp_path.iterdir())) == 4
    forget_oldest(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "d"]


@pytest.mark.skipif(jax.__version_info__ >= (0, 11), reason="this jax shares contexts by itself")
def test_programs_share_contexts() -> None:
    made = {
        id(context): context
        for context in (mlir.make_ir_context() for _ in range(3 * PROGRAMS_IN_A_CONTEXT))
    }
    assert len(made) in (3, 4)


def test_none_is_kept_for_ever() -> None:
    make = many_times(object, 3)
    made = [make() for _ in range(8)]
    assert [made.index(x) for x in made] == [0, 0, 0, 3, 3, 3, 6, 6]
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(make).result() not in made

"""Each work-around for XLA on CPUs is still needed: these tests fail when it buys nothing any more,
and then it goes.

They look at compiled programs and at files, not at clocks; `benchmarks/workarounds.py` says what
each buys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32

from vijax import tree
from vijax.fitting.step_infos import InfoTables
from vijax.inference.state import State
from vijax.xla.blas import VARIABLE
from vijax.xla.compiler import STEP, usable_options
from vijax.xla.random_bits import fused_key
from vijax.xla.threefry import threefry2x32

pytestmark = pytest.mark.skipif(jax.default_backend() != "cpu", reason="they are for CPUs")


def compiled(fn: Any, *args: Any) -> str:
    """As XLA compiles a step of `vijax.fit`."""
    return jax.jit(fn, compiler_options=usable_options(STEP)).lower(*args).compile().as_text() or ""


def calls(text: str, name: str) -> int:
    """How many calls a computation of a program makes: XLA's runtime starts each by itself."""
    body = re.search(rf"^(?:ENTRY )?%?{name}[^\n]*\{{\n(.*?)^\}}", text, re.MULTILINE | re.DOTALL)
    assert body is not None, text
    kinds = re.findall(r"= \S+ ([\w-]+)\(", re.sub(r"\([^()]*\) ", "tuple ", body[1]))
    return sum(
        kind not in ("parameter", "constant", "tuple", "get-tuple-element", "bitcast")
        for kind in kinds
    )


def test_jax_rolls_the_rounds_of_its_random_numbers() -> None:
    draw = lambda key: jax.random.normal(key, (5,))
    key = jax.random.key(0)
    assert " while(" in compiled(draw, key), "vijax.xla.random_bits is not needed any more"
    assert " while(" not in compiled(lambda key: draw(fused_key(key)), key)


def test_jax_rolls_the_rounds_of_threefry() -> None:
    words, counter = jnp.zeros(2, jnp.uint32), jnp.arange(8, dtype=jnp.uint32)
    assert " while(" in compiled(threefry_2x32, words, counter), (
        "vijax.xla.threefry is not needed any more"
    )
    assert " while(" not in compiled(lambda w, c: threefry2x32(w[0], w[1], c, c), words, counter)


def test_choices_of_small_leaves_are_calls_of_their_own() -> None:
    a = [jnp.full(5 + i, float(i)) for i in range(10)]
    text = compiled(tree.select, jnp.array(True), a, [x + 1 for x in a])
    assert calls(text, "main") >= 8, "vijax.xla.ordering is not needed any more"


def test_each_number_that_steps_tell_is_a_call_of_its_own() -> None:
    info = {f"x{i}": jnp.float32(i) for i in range(12)}

    def by_column(columns: Any) -> Any:
        put = lambda i, columns: {
            name: column.at[i].set(columns["x0"][0] + i) for name, column in columns.items()
        }
        return jax.lax.fori_loop(0, 3, put, columns)

    def in_tables(told: Any) -> Any:
        put = lambda i, told: told.with_row(i, dict.fromkeys(info, told.tables[0][0, 0] + i))
        return jax.lax.fori_loop(0, 3, put, told)

    plain = compiled(by_column, {name: jnp.zeros(6) for name in info})
    ours = compiled(in_tables, InfoTables.empty(6, info))
    assert plain.count("dynamic-update-slice") > 2 * ours.count("dynamic-update-slice"), (
        "vijax.fitting.step_infos is not needed"
    )


def test_xla_factorises_by_the_lapack_of_scipy_which_reads_how_long_its_threads_spin() -> None:
    import scipy

    text = compiled(jnp.linalg.cholesky, 2 * jnp.eye(40))
    assert "lapack_spotrf" in text, "vijax.xla.blas is not needed any more"
    libraries = list(Path(scipy.__file__).parent.parent.glob("scipy.libs/libscipy_openblas*"))
    if not libraries:
        pytest.skip("SciPy has another BLAS here")
    assert any(VARIABLE.encode() in library.read_bytes() for library in libraries), (
        "vijax.xla.blas is not needed any more"
    )


def test_sums_of_large_matrices_tell_exactly_whether_they_are_finite() -> None:
    """Also where a sum overflows though no entry is infinite, and where infinities of both signs
    meet."""
    count, every = jax.jit(tree.count_non_finite), jax.jit(tree.all_finite)
    shape = (2, tree.LARGE // 128, 64)
    plain, huge = jnp.ones(shape), jnp.full(shape, 3e38)
    both = plain.at[0, 0, 5].set(jnp.inf).at[0, 1, 5].set(-jnp.inf).at[1, 2, 3].set(jnp.nan)
    for large, number in ((plain, 0), (huge, 0), (both, 3)):
        for small, more in ((jnp.ones(3), 0), (jnp.array([1.0, jnp.nan]), 1)):
            found = {"large": large, "small": small, "whole": jnp.arange(3)}
            assert int(count(found)) == number + more
            assert bool(every(found)) == (number + more == 0)


def test_steps_of_networks_have_fusion_emitters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chosen by the numbers that the optimiser keeps, so that a run that goes on has the same
    program."""
    from vijax.fitting import loop

    def program(numbers: int) -> Any:
        chosen = []
        for name in ("step_jit", "training_jit"):
            jit = lambda fn, name=name, **more: lambda *args: chosen.append(name)
            monkeypatch.setattr(loop, name, jit)
        state = State(*[None] * len(State._fields))._replace(opt_state=jnp.zeros(numbers))
        loop.run_chunk(lambda: None, 1, jax.random.key(0), {}, state, None, np.int32(1))  # type: ignore[arg-type]
        return chosen

    assert program(loop.NETWORK) == ["training_jit"]
    assert program(loop.NETWORK - 1) == ["step_jit"]

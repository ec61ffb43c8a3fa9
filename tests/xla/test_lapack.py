"""Batched matrix factorisations side by side: jaxlib 0.10 locks up on them, and programs of vijax's
own do not. And an import of vijax changes nothing of the process."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest

from vijax.xla import lapack
from vijax.xla.lapack import guard_lapack, is_needed

cpu = pytest.mark.skipif(
    jax.default_backend() != "cpu" or not is_needed(jaxlib.__version__),
    reason="this jaxlib does not lock up",
)
WATCHED = """
import os, sys, threading, time

def watch():
    before = time.process_time()
    while time.sleep(15) is None:
        spent = time.process_time()
        if spent - before < 0.1 or spent > 600:  # waiting for itself; or going round in circles
            print(f"no end: {before:.1f}, now {spent:.1f} s of CPU time", file=sys.stderr, flush=True)
            os._exit(3)
        before = spent

threading.Thread(target=watch, daemon=True).start()
"""
SIDE_BY_SIDE = """
import jax, jax.numpy as jnp
from vijax.xla.compiler import step_jit
f = COMPILED(lambda a: [jnp.linalg.cholesky(a * (i + 1)) for i in range(24)])
for _ in range(100):
    jax.block_until_ready(f(2 * jnp.eye(64) + jnp.zeros((30, 64, 64))))
print("done")
"""
AROUND_A_LOOP = """
import vijax as vi, jax, numpy as np
y = np.random.default_rng(0).normal(size=(10000, 64)).astype(np.float32)
alg = vi.cavi(vi.models.mixture(vi.models.emission.full_gaussian(30, 64)))  # its bound is summed in chunks
state, step = alg.init(jax.random.key(0), y), jax.jit(alg.step)
for _ in range(10):
    state, _ = jax.block_until_ready(step(jax.random.key(0), state, y))
print("done")
"""
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("XLA_FLAGS", "PJRT_NPROC", "NPROC")
}


def run(program, **more):
    """Without a limit of wall time, which on a busy machine says nothing: what is locked up uses no
    CPU."""
    command = [sys.executable, "-W", "always", "-c", program]
    environment = ENVIRONMENT | {"JAX_PLATFORMS": "cpu"} | more
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


# --- the lock-up ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "program",
    [
        SIDE_BY_SIDE.replace("COMPILED", "step_jit"),
        pytest.param(AROUND_A_LOOP, marks=pytest.mark.slow),
    ],
)
def test_factorisations_side_by_side_come_to_an_end(program):
    done = run(WATCHED + program, PJRT_NPROC="2")
    assert done.stdout.strip() == "done", done.stderr


@cpu
@pytest.mark.slow
def test_without_the_guard_they_lock_up():
    """Where this fails `vijax.xla.lapack` is not needed any more: leave this version of jaxlib out
    of `is_needed`."""
    done = run(WATCHED + SIDE_BY_SIDE.replace("COMPILED", "jax.jit"), PJRT_NPROC="2")
    assert done.returncode == 3, done.stdout
    assert "no end" in done.stderr


# --- the guard ------------------------------------------------------------------------------------
STACK = 2.0 * np.eye(24, dtype=np.float32) + 0.01 * np.arange(31, dtype=np.float32)[:, None, None]


def has_large(fn, *args):
    return lapack._has_large(jax.make_jaxpr(fn)(*args).jaxpr)


def total(a):
    return jnp.sum(jnp.linalg.inv(jnp.linalg.cholesky(a)))


PROGRAMS = {
    "cholesky": jnp.linalg.cholesky,
    "triangular solves": lambda a: jax.scipy.linalg.solve_triangular(a, a, lower=True),
    "lu": jnp.linalg.slogdet,
    "qr": jnp.linalg.qr,
    "eigh": jnp.linalg.eigh,
    "svd": jnp.linalg.svd,
    "gradient": jax.grad(total),
    "vmap": jax.vmap(jnp.linalg.cholesky),
    "scan": lambda a: jax.lax.scan(lambda s, x: (s + total(x), total(a)), 0.0, a[:2, None] + a),
    "cond": lambda a: jax.lax.cond(a[0, 0, 0] > 0, total, lambda a: 0.0, a),
    "while": lambda a: jax.lax.while_loop(
        lambda x: x[0, 0, 0] < 1, lambda x: jnp.linalg.cholesky(x), a
    ),
    "checkpoint": jax.grad(jax.checkpoint(total)),
}


@cpu
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_stack_is_cut_up_by_jaxlib(name):
    assert has_large(PROGRAMS[name], STACK)
    assert not has_large(guard_lapack(PROGRAMS[name]), STACK)
    kinds = jax.eval_shape(PROGRAMS[name], STACK)
    assert jax.eval_shape(guard_lapack(PROGRAMS[name]), STACK) == kinds


def test_the_numbers_are_the_same():
    """Also of a stack that the parts do not divide, and under other transformations."""
    jitted = lambda fn, *args: jax.jit(fn)(*args)
    for fn in (jnp.linalg.cholesky, jax.grad(total)):
        np.testing.assert_array_equal(jitted(guard_lapack(fn), STACK), jitted(fn, STACK))
    twice = np.stack([STACK, 2 * STACK])
    np.testing.assert_array_equal(
        jitted(jax.vmap(guard_lapack(jnp.linalg.cholesky)), twice),
        jitted(jnp.linalg.cholesky, twice),
    )
    np.testing.assert_array_equal(
        jitted(jax.grad(guard_lapack(total)), STACK), jitted(jax.grad(total), STACK)
    )


@cpu
def test_under_another_vmap_none_is_cut_up_either():
    assert not has_large(jax.vmap(guard_lapack(total)), np.stack([STACK, STACK]))


def test_what_is_not_cut_up_stays_as_it_is():
    small = STACK[:2, :3, :3]
    for few in (small, STACK[:1]):
        assert "while" not in str(jax.make_jaxpr(guard_lapack(jnp.linalg.cholesky))(few))
    assert not isinstance(guard_lapack(lambda x: x)(3), jax.Array)  # nothing is traced


@cpu
def test_a_step_is_guarded_in_a_program_of_the_users_own():
    import vijax as vi

    alg = vi.cavi(vi.models.mixture(vi.models.emission.full_gaussian(30, 64)))
    y = jax.ShapeDtypeStruct((500, 64), np.float32)
    state = jax.eval_shape(alg.init, jax.random.key(0), y)
    assert not has_large(lambda state, y: alg.step(jax.random.key(0), state, y), state, y)


# --- what an import changes: nothing --------------------------------------------------------------
IMPORTED = """
import os
from pathlib import Path
before = dict(os.environ)
IMPORT
import jax
assert dict(os.environ) == before
number = jax.config.jax_num_cpu_devices
jax.config.update("jax_num_cpu_devices", number + 1)  # an error where a backend has started
jax.config.update("jax_num_cpu_devices", number)
jax.block_until_ready(jax.jit(lambda x: x @ x)(jax.numpy.ones((500, 500))))
assert dict(os.environ) == before
names = [Path("/proc/self/task", i, "comm").read_text().strip() for i in os.listdir("/proc/self/task")]
print(sorted(name for name in names if "XLA" in name or "pjrt" in name.lower()))
"""


@pytest.mark.skipif(
    not os.path.exists("/proc/self/task"), reason="reads the names of threads as Linux gives them"
)
def test_an_import_changes_no_variable_starts_no_backend_and_asks_for_no_threads():
    plain, ours = (run(IMPORTED.replace("IMPORT", line)) for line in ("", "import vijax"))
    assert ours.returncode == 0, ours.stderr
    assert "Warning" not in ours.stderr
    assert "XLA" in plain.stdout or not is_needed(
        jaxlib.__version__
    )  # older ones give their threads no name
    assert ours.stdout == plain.stdout

"""Batched matrix factorisations side by side: jaxlib 0.10 locks up on them unless told not to."""

import os
import subprocess
import sys

import jaxlib
import pytest

from vijax.xla.runtime import FLAG, lend, needed

WATCHED = """
import os, sys, threading, time

def watch():
    before = time.process_time()
    while time.sleep(30) is None:
        spent = time.process_time()
        if spent - before < 0.1 or spent > 600:  # waiting for itself; or going round in circles
            print(f"no end: {before:.1f}, now {spent:.1f} s of CPU time", file=sys.stderr, flush=True)
            os._exit(3)
        before = spent

threading.Thread(target=watch, daemon=True).start()
"""

SIDE_BY_SIDE = """
import vijax, jax, jax.numpy as jnp
f = jax.jit(lambda a: [jnp.linalg.cholesky(a * (i + 1)) for i in range(24)])
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


ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "PJRT_NPROC", "NPROC")}


def run(program, **more):
    command = [sys.executable, "-W", "always", "-c", program]
    return subprocess.run(command, env=ENVIRONMENT | more, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.parametrize("threads", [{}, {"PJRT_NPROC": "1"}], ids=["of import", "one"])
@pytest.mark.parametrize("program", [SIDE_BY_SIDE, pytest.param(AROUND_A_LOOP, marks=pytest.mark.slow)])
def test_factorisations_side_by_side_come_to_an_end(program, threads):
    """Without a limit of wall time, which on a busy machine says nothing: what is locked up uses no CPU."""
    done = run(WATCHED + program, **threads)
    assert done.stdout.strip() == "done", done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not needed({}, jaxlib.__version__, num_cores=2), reason="this jaxlib gets no settings")
def test_without_the_settings_they_lock_up():
    """Where this fails `vijax.xla.runtime` is not needed any more: leave this version of jaxlib out of `needed`."""
    done = run(WATCHED + SIDE_BY_SIDE, XLA_FLAGS=f"--{FLAG}=true", PJRT_NPROC="2")
    assert done.returncode == 3, done.stdout
    assert "no end" in done.stderr


def test_the_users_choice_stands():
    for environ in ({"XLA_FLAGS": f"--{FLAG}=true", "PJRT_NPROC": "3"}, {"XLA_FLAGS": f"--{FLAG}=true", "NPROC": "1"}):
        assert needed(environ, "0.10.2", num_cores=2) == {}


def test_other_versions_are_left_alone():
    assert needed({"XLA_FLAGS": "--xla_b=2"}, "0.11.0", num_cores=2) == {}


@pytest.mark.parametrize("before", [{}, {"XLA_FLAGS": "--xla_a=1"}, {"XLA_FLAGS": "", "PJRT_NPROC": "3"}])
def test_what_is_lent_is_taken_back(before):
    environ = dict(before)
    take_back = lend(environ, needed(environ, "0.10.2", num_cores=2))
    assert FLAG in environ["XLA_FLAGS"]
    take_back()
    take_back()
    assert environ == before


def test_what_others_set_meanwhile_is_left_alone():
    environ = {}
    take_back = lend(environ, needed(environ, "0.10.2", num_cores=2))
    environ |= {"XLA_FLAGS": "--xla_c=3", "PJRT_NPROC": "4"}
    take_back()
    assert environ == {"XLA_FLAGS": "--xla_c=3", "PJRT_NPROC": "4"}


NEEDED = needed({}, jaxlib.__version__, num_cores=2)

ENVIRONMENT_OVER_TIME = """
import os
show = lambda: print(sorted({"XLA_FLAGS", "PJRT_NPROC"} & set(os.environ)))
import vijax, jax
show()
jax.numpy.zeros(3)
show()
"""


def test_the_environment_is_as_it_was_after_the_first_computation():
    done = run(ENVIRONMENT_OVER_TIME)
    assert done.stdout.splitlines() == [str(sorted(NEEDED)), "[]"], done.stderr
    assert "Warning" not in done.stderr


def test_an_import_that_comes_too_late_says_so_and_changes_nothing():
    done = run("import jax; jax.devices(); import vijax, os; print('XLA_FLAGS' in os.environ)", JAX_PLATFORMS="cpu")
    assert done.stdout.strip() == "False"
    assert ("imported after JAX had started" in done.stderr) == bool(NEEDED)
    assert ("<string>:1: RuntimeWarning" in done.stderr) == bool(NEEDED)


def test_an_import_starts_no_backend():
    done = run("import vijax; from vijax.xla.runtime import has_started; print(has_started())")
    assert done.stdout.strip() == "False", done.stderr

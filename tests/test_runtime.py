"""Batched matrix factorisations side by side: jaxlib 0.10 locks up on them unless told not to."""

import os
import subprocess
import sys

import pytest

from vijax.runtime import FLAG, prepare

SIDE_BY_SIDE = """
import vijax, jax, jax.numpy as jnp
f = jax.jit(lambda a: [jnp.linalg.cholesky(a * (i + 1)) for i in range(4)])
for _ in range(300):
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


@pytest.mark.parametrize("program", [SIDE_BY_SIDE, pytest.param(AROUND_A_LOOP, marks=pytest.mark.slow)])
def test_factorisations_side_by_side_come_to_an_end(program):
    ours = ("XLA_FLAGS", "PJRT_NPROC")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == "done", done.stderr


def test_the_users_choice_stands():
    for environ in ({"XLA_FLAGS": f"--{FLAG}=true", "PJRT_NPROC": "3"}, {"XLA_FLAGS": f"--{FLAG}=true", "NPROC": "1"}):
        before = dict(environ)
        prepare(environ, "0.10.2", num_cores=2)
        assert environ == before


def test_other_versions_are_left_alone():
    environ = {"XLA_FLAGS": "--xla_b=2"}
    prepare(environ, "0.11.0", num_cores=2)
    assert environ == {"XLA_FLAGS": "--xla_b=2"}

"""Batched matrix factorisations side by side: jaxlib 0.10 locks up on them unless told not to."""

import os
import subprocess
import sys

from vijax.runtime import FLAG, safe_xla_flags

SIDE_BY_SIDE = """
import vijax, jax, jax.numpy as jnp
f = jax.jit(lambda a: [jnp.linalg.cholesky(a * (i + 1)) for i in range(4)])
for _ in range(300):
    jax.block_until_ready(f(2 * jnp.eye(64) + jnp.zeros((30, 64, 64))))
print("done")
"""


def test_factorisations_side_by_side_come_to_an_end():
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, "-c", SIDE_BY_SIDE], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == "done", done.stderr


def test_the_users_choice_stands():
    assert safe_xla_flags(f"--{FLAG}=true", "0.10.2") == f"--{FLAG}=true"
    assert safe_xla_flags("--xla_b=2", "0.11.0") == "--xla_b=2"

"""Laws of precision and devices, on every row of the registry."""

import dataclasses
import functools
import os
import subprocess
import sys

import jax
import numpy as np

from tests.models.one_step import STEP_KEY, algorithm, assert_near, begun
from tests.models.registry import ROWS, on, that_hold

SINGLE = 2e-3
"""Of one step in float32, beside the same step in float64."""
NUM_KEYS = 30
"""Steps over which the bound of a case that draws is averaged."""


def in_single(tree):
    """Floats of float32, as users have them."""
    return jax.tree.map(lambda x: np.float32(x) if np.asarray(x).dtype == np.float64 else x, tree)


@on(ROWS)
def test_a_step_in_float32_is_that_in_float64(case):
    """From the same state, of the same data. A step that draws gets other noise in float32: means
    over keys agree."""
    one = begun(case)
    step = jax.jit(algorithm(case, False).step)
    state, batch = in_single((one.state, one.batch))
    after, info = step(STEP_KEY, state, batch)
    assert all(x.dtype != np.float64 for x in jax.tree.leaves(after))
    assert np.all(info.result == 0)
    if not case.draws:
        assert_near(np.float64(info.elbo), one.again().elbo, SINGLE)
        assert_near(jax.tree.map(np.asarray, after.posterior), one.again().state.posterior, SINGLE)
        return
    keys = jax.random.split(STEP_KEY, NUM_KEYS)
    single = np.array([step(key, state, batch)[1].elbo for key in keys], float)
    with jax.enable_x64(True):
        double = np.array([one.step(key, one.state, one.batch)[1].elbo for key in keys])
    error = np.sqrt((single.var(ddof=1) + double.var(ddof=1)) / NUM_KEYS)
    assert abs(single.mean() - double.mean()) < 4 * error + SINGLE * abs(double.mean())
    # Else the means say nothing: a step that is wrong by a twentieth is seen.
    assert 4 * error < 0.05 * abs(double.mean())


TWO_DEVICES = """
import sys
import jax, numpy as np
import vijax as vi
from tests.models.registry import ROWS
from tests.models.short_fits import fit_of

names = sys.argv[1].split(",")
for case in ROWS:
    if case.name in names:
        mesh = lambda count: vi.scale.mesh(count)
        one, two = (fit_of(case, mesh=mesh(count)).fit for count in (1, 2))
        worst = 0.0
        kept = lambda fit: (fit.state.posterior, fit.state.hyper, fit.trace["elbo"])
        for a, b in zip(jax.tree.leaves(kept(one)), jax.tree.leaves(kept(two)), strict=True):
            a, b = np.asarray(a, float), np.asarray(b, float)
            worst = max(worst, float(np.max(np.abs(a - b), initial=0) / (np.max(np.abs(a), initial=0) or 1.0)))
        print(f"{case.name} {worst:.1e}", flush=True)
"""


@functools.cache
def apart_on_two_devices(names):
    """The largest relative difference of fits on one device and on two, by name; of seven groups,
    which are odd."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    done = subprocess.run(
        [sys.executable, "-c", TWO_DEVICES, names],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_ENABLE_X64": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())


BY_DEFAULT = ("mixture_diagonal_gaussian", "ard_regression")
"""Rows that share a process; each of the others has one."""


@on(
    [
        dataclasses.replace(case, cheap=case.name in BY_DEFAULT)
        for case in that_hold("devices", ROWS)
    ]
)
def test_two_devices_make_the_fit_of_one(case):
    """Up to rounding."""
    names = ",".join(BY_DEFAULT) if case.name in BY_DEFAULT else case.name
    assert float(apart_on_two_devices(names)[case.name]) < 1e-9

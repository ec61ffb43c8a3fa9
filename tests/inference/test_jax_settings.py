"""Every row of the algorithms' table, and fits of ready models, under the settings by which JAX
finds mistakes.

A user who switches one on looks for mistakes of their own, and must not be led to those of vijax.
"""

import contextlib

import jax
import numpy as np
import pytest

import vijax as vi
from tests.axis_cases import CASES, SEQUENCES, Y
from vijax.data import Corpus


@contextlib.contextmanager
def while_traced():
    """Those by which JAX looks at a program as it is traced, at once: each raises of its own."""
    with (
        jax.numpy_rank_promotion("raise"),
        jax.checking_leaks(),
        jax.numpy_dtype_promotion("strict"),
    ):
        yield


SETTINGS = {
    "debug_nans": lambda: jax.debug_nans(True),
    "rank_promotion, tracer_leaks, strict_types": while_traced,
}
WITH_GAPS = np.where(np.random.default_rng(0).random(Y.shape) < 0.2, np.nan, Y)
WITH_GAPS[:2] = Y[:2]
COUNTS = Corpus.from_counts(np.random.default_rng(0).poisson(1.0, (16, 12)))
MODELS = {
    "mixture": (vi.cavi, lambda: vi.models.mixture(vi.models.emission.unit_gaussian(3, dim=2)), Y),
    "wisharts": (vi.cavi, lambda: vi.models.mixture(vi.models.emission.full_gaussian(3, dim=2)), Y),
    "hmm": (vi.cavi, lambda: vi.models.hmm(vi.models.emission.unit_gaussian(2, dim=2)), SEQUENCES),
    "factor analysis": (vi.cavi, lambda: vi.models.factor_analysis(2, num_factors=1), WITH_GAPS),
    "state space": (
        vi.cavi,
        lambda: vi.models.linear_gaussian_state_space(2, num_states=2),
        SEQUENCES,
    ),
    "ctm": (vi.svi, lambda: vi.models.ctm(2, 12), COUNTS),
}
each_setting = pytest.mark.parametrize("setting", SETTINGS)


@each_setting
@pytest.mark.parametrize("name", CASES)
def test_a_row_steps(name, setting):
    row, make, batches, choices, _ = CASES[name]
    with SETTINGS[setting]():
        alg = row(make(), **choices)
        init = lambda key: alg.init(key, batches[0])
        state = (init if setting == "debug_nans" else jax.jit(init))(
            jax.random.key(0)
        )  # each operation, or all as one
        step = jax.jit(alg.step)
        for i in range(2):
            state, info = step(jax.random.key(i), state, batches[i % len(batches)])
    assert info.result == vi.Result.OK
    assert np.isfinite(info.elbo)


@each_setting
@pytest.mark.parametrize("restarts", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_fitted(name, restarts, setting):
    """By a rule of convergence, which is asked of objectives that are not known yet."""
    row, make, data = MODELS[name]
    with SETTINGS[setting]():
        fit = vi.fit(
            row(make()), data, key=jax.random.key(0), num_steps=3, tol=1e-9, restarts=restarts
        )
    assert np.all(np.isfinite(fit.trace["elbo"]))

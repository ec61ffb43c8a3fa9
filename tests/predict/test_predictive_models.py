"""Every model of `vijax.models` draws data: shapes without compiling anything, and the dear test
runs all of them."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from vijax import tree
from vijax.fitting.result import Fit
from vijax.models import emission
from vijax.models.networks import observed

KEY = jax.random.key
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(8, 2)).astype(np.float32)
COUNTS = RNG.poisson(2.0, size=(8, 5)).astype(np.float32) + np.eye(8, 5, dtype=np.float32)
GAUSSIANS = vi.models.emission.full_gaussian(2, 2)
SEQUENCES = vi.models.pad([ROWS[:5], ROWS[5:]])
GROUPS = vi.models.group_rows(ROWS, np.sign(ROWS[:, 0]), np.arange(8) % 3)
ENTRIES = vi.models.plsa_entries(COUNTS)
GRAPH = np.triu(RNG.random((1, 6, 6)) > 0.5, 1).astype(np.float32)
GRAPH = GRAPH + GRAPH.swapaxes(1, 2)
LABELS = np.sign(ROWS[:, 0])
SITES = {"site": np.arange(8, dtype=np.int32), "y": LABELS}


def networks():
    linear = lambda w, x: x @ w
    encode = lambda w, x: (x @ w, jnp.full(1, -1.0))
    return (
        (encode, 0.1 * jnp.ones((2, 1))),
        (linear, 0.1 * jnp.ones((1, 2))),
        observed.gaussian(sd=0.5),
    )


def svae():
    encode, decode, seen = networks()
    one = lambda w, x: (x @ w, -jnp.ones(1))
    return vi.models.svae(
        globals={"scale": vi.Gamma.from_shape_rate(3.0, 1.0)},
        locals={"u": vi.Normal.from_mean_variance(np.zeros(1), 1.0)},
        energy=lambda s: (
            0.5 * jnp.sum(s["scale"].log - s["scale"].value * s["u"].square - jnp.log(2 * jnp.pi))
        ),
        latent="u",
        encoder=(one, encode[1]),
        decoder=decode,
        observed=seen,
    )


def dynamic_svae():
    encode, decode, seen = networks()
    one = lambda w, x: (x @ w, -jnp.ones(1))
    return vi.models.dynamic_svae(1, (one, encode[1]), decode, seen, num_states=2)


def dense_gp():
    kernel = lambda a, b: jnp.exp(-0.5 * jnp.sum((a[:, None] - b[None]) ** 2, -1))
    return vi.models.gp(ROWS, LABELS, kernel, vi.likelihood.bernoulli_logit(), jitter=1e-3)


regression = vi.models.hierarchical_linear_regression
# model, algorithm, data, sizes or None, shape of a draw by sizes, shape of one of the same groups
CASES = {
    "mixture": (lambda: vi.models.mixture(emission.full_gaussian(2, 2)), vi.cavi, ROWS, 3, (3, 2), (8, 2)),
    "dp_mixture": (
        lambda: vi.models.dp_mixture(emission.diagonal_gaussian(3, 2), truncation="tied"),
        vi.cavi, ROWS, 3, (3, 2), (8, 2),
    ),
    "hmm": (lambda: vi.models.hmm(emission.full_gaussian(2, 2)), vi.cavi, SEQUENCES, [4, 2], (2, 4, 2), (2, 5, 2)),
    "factorial_hmm": (lambda: vi.models.factorial_hmm(2, 2, 2), vi.cavi, SEQUENCES, [4], (1, 4, 2), (2, 5, 2)),
    "arhmm": (lambda: vi.models.arhmm(2, 2), vi.cavi, SEQUENCES, None, (2, 5, 2), (2, 5, 2)),
    "recurrent_slds": (
        lambda: vi.models.recurrent_slds(2, 2, 1), vi.cavi, SEQUENCES, [4], (1, 4, 2), (2, 5, 2),
    ),
    "slds": (lambda: vi.models.slds(2, 2, 1), vi.cavi, SEQUENCES, [4], (1, 4, 2), (2, 5, 2)),
    "linear_gaussian_state_space": (
        lambda: vi.models.linear_gaussian_state_space(2, 1), vi.cavi, SEQUENCES, [4], (1, 4, 2), (2, 5, 2),
    ),
    "lda": (lambda: vi.models.lda(2, 5), vi.svi, COUNTS, [9, 4], (2, 5), (8, 5)),
    "hdp": (lambda: vi.models.hdp(2, 5), vi.svi, COUNTS, [9, 4], (2, 5), (8, 5)),
    "hdp_hmm": (lambda: vi.models.hdp_hmm(GAUSSIANS), vi.cavi, SEQUENCES, None, (2, 5, 2), (2, 5, 2)),
    "ctm": (lambda: vi.models.ctm(2, 5), vi.svi, COUNTS, [9, 4], (2, 5), (8, 5)),
    "simple_mixture": (lambda: vi.models.simple_mixture(2, 5), vi.cavi, COUNTS, [9, 4], (2, 5), (8, 5)),
    "plsa": (lambda: vi.models.plsa(2, 8, 5), vi.map, ENTRIES, [3] * 8, (8, 5), (8, 5)),
    "gap_nmf": (lambda: vi.models.gap_nmf(5, 2), vi.cavi, COUNTS, 3, (3, 5), (8, 5)),
    "hpf": (lambda: vi.models.hpf(2, 5), vi.cavi, COUNTS, 3, (3, 5), (8, 5)),
    "factor_analysis": (lambda: vi.models.factor_analysis(2, 1), vi.cavi, ROWS, 3, (3, 2), (8, 2)),
    "ard_regression": (lambda: vi.models.ard_regression(2), vi.cavi, (ROWS, LABELS), ROWS[:3], (3,), (8,)),
    "hierarchical_linear_regression": (lambda: regression(2), vi.cavi, GROUPS, None, (3, 3), (3, 3)),
    "hierarchical_probit_regression": (
        lambda: vi.models.hierarchical_probit_regression(2, "diagonal"), vi.cavi, GROUPS, None, (3, 3), (3, 3),
    ),
    "multilevel_logistic_regression": (
        lambda: vi.models.multilevel_logistic_regression(2), vi.cavi, GROUPS, None, (3, 3), (3, 3),
    ),
    "stochastic_block_model": (
        lambda: vi.models.stochastic_block_model(2), vi.cavi, GRAPH, [4, 4], (2, 4, 4), (1, 6, 6),
    ),
    "gp": (dense_gp, vi.pg_svi, SITES, ROWS[:3] + 1, (3,), (8,)),
    "glm": (
        lambda: vi.models.glm(ROWS, LABELS, vi.likelihood.bernoulli_probit()), vi.pg_svi, SITES, ROWS[:3], (3,), (8,),
    ),
    "logistic_regression": (
        lambda: vi.models.logistic_regression(ROWS, LABELS), vi.pg_svi, SITES, ROWS[:3], (3,), (8,),
    ),
    "vae": (lambda: vi.models.vae(*networks(), latent_dim=1), vi.aevb, ROWS, 3, (3, 2), (8, 2)),
    "svae": (svae, vi.aevb, ROWS, 3, (3, 2), (8, 2)),
    "dynamic_svae": (dynamic_svae, vi.aevb, SEQUENCES, [4], (1, 4, 2), (2, 5, 2)),
}  # fmt: skip
NO_MODELS = {
    "Glmm",
    "Stm",
    "Predictors",
    "emission",
    "group_names",
    "group_rows",
    "observed",
    "pad",
    "plsa_entries",
    "population",
    "rates_matrix",
}
NO_MODELS |= {"Dtm", "Slices", "SliceWarning"}
NO_MODELS |= {"dtm"}  # new documents need their times, and are not drawn
NO_MODELS |= {
    "after_slds",
    "response",
    "as_potentials",
    "recommend",
    "new_items",
    "with_covariates",
}


def test_every_model_has_a_case():
    assert set(CASES) | NO_MODELS == set(vi.models.__all__)


@pytest.mark.parametrize(
    "name", [name for name in CASES if name not in ("gp", "glm", "logistic_regression")]
)
def test_every_model_draws_new_groups_of_the_shapes_asked_for(name):
    """From its prior in the place of a posterior; only shapes are computed."""
    make, algorithm, data, sizes, of_sizes, _ = CASES[name]
    model = make()
    hyper = tree.as_arrays(model.hyper)
    state = types.SimpleNamespace(hyper=hyper, posterior=model.prior(hyper))
    fit = Fit(algorithm(model), state, {}, None)
    like = data if sizes is None else sizes
    found = jax.eval_shape(lambda key: fit.predictive(key, 4, like), KEY(0))
    assert found.shape == (4, *of_sizes)


@pytest.mark.parametrize("name", CASES)
def test_every_model_draws_new_and_the_same_groups(name):
    make, algorithm, data, sizes, of_sizes, of_data = CASES[name]
    fit = vi.fit(algorithm(make()), data, num_steps=2, key=KEY(0))
    new = np.asarray(fit.predictive(KEY(1), 3, data if sizes is None else sizes))
    same = np.asarray(fit.predictive(KEY(1), 3, data, groups="same"))
    assert new.shape == (3, *of_sizes)
    assert same.shape == (3, *of_data)
    padded = isinstance(data, tuple) and len(data) in (2, 3) and np.asarray(data[-1]).dtype == bool
    exists = data[-1].reshape(*data[-1].shape, *[1] * (len(of_data) - 2)) if padded else True
    np.testing.assert_array_equal(np.isfinite(same), np.broadcast_to(exists, same.shape))
    check = vi.evaluate.predictive_check(fit, jnp.nanmean, data, key=KEY(2), num_draws=3)
    assert np.isfinite(check.observed)

"""Terms before bars: factors as slopes, independent effects and nested groups, against dense normal
laws whose columns are written here, and a fit against maximum likelihood."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import vijax as vi
from vijax.models.formulas import form as forms

RNG = np.random.default_rng(6)
SIZE = 160
C = np.array(list("abc"))[RNG.integers(0, 3, SIZE)]
X = RNG.normal(size=SIZE)
G = RNG.integers(0, 16, SIZE)
SITE = G // 4
CODE = {"a": 0, "b": 1, "c": 2}
HOT = np.eye(3)[[CODE[c] for c in C]]
TRUE = np.array([[1.0, 0.4, 0.2], [0.4, 0.8, 0.3], [0.2, 0.3, 0.6]])
EFFECTS = RNG.multivariate_normal(np.zeros(3), TRUE, 16)
Y = 1 + 0.5 * X + np.sum(HOT * EFFECTS[G], 1) + 0.4 * RNG.normal(size=SIZE)
ROOM = np.array([f"r{i % 4}" for i in G])  # names that sites share
TABLE = {"y": Y, "x": X, "c": C, "g": G, "site": SITE, "room": ROOM}
SAME = G[:, None] == G
SAME_SITE = SITE[:, None] == SITE


def named_and_log_lik(model, seed=0):
    values = jax.jit(model.free.values_at)(
        jnp.asarray(np.random.default_rng(seed).normal(size=model.free.variables.dim) * 0.4)
    )
    form = model.density_form
    program = lambda v, d: (
        form.named(v),
        jnp.sum(jax.vmap(lambda r: forms.log_lik(form, v, r))(d)),
    )
    named, log_lik = jax.jit(program)(values, model.data)
    return {name: float(x) for name, x in named.items()}, (
        float(log_lik) - SIZE * np.log(form.units.size)
    )


def covariance(named, labels, factor="g", correlated=True):
    """The covariance of the effects of one group, from sds and correlations by their names."""
    sds = np.array([named[f"{label}|{factor}_sigma"] for label in labels])
    correlations = np.eye(len(labels))
    for i in range(len(labels) * correlated):
        for j in range(i):
            name = f"corr({labels[j]}, {labels[i]}|{factor})"
            correlations[i, j] = correlations[j, i] = named[name]
    return correlations * np.outer(sds, sds)


CASES = {
    "y ~ x + (c | g)": (["1", "c[b]", "c[c]"], np.c_[np.ones(SIZE), HOT[:, 1:]], True),
    "y ~ x + (0 + c | g)": (["c[a]", "c[b]", "c[c]"], HOT, True),
    "y ~ x + (c || g)": (["1", "c[b]", "c[c]"], np.c_[np.ones(SIZE), HOT[:, 1:]], False),
    "y ~ x + (x | g)": (["1", "x"], np.c_[np.ones(SIZE), X], True),
    "y ~ x + (x || g)": (["1", "x"], np.c_[np.ones(SIZE), X], False),
    "y ~ x + (1 | g) + (0 + c | g)": (["1", "c[a]", "c[b]", "c[c]"], None, None),
}


@pytest.mark.parametrize("text", [text for text in CASES if CASES[text][2] is not None])
def test_densities_are_normal_with_the_covariance_that_names_say(text):
    labels, z, correlated = CASES[text]
    model = vi.glmm(text, TABLE)
    assert model.design.factors[0].labels == tuple(labels)
    named, log_lik = named_and_log_lik(model)
    own = covariance(named, labels, correlated=correlated)
    cov = (z @ own @ z.T) * SAME + named["sigma"] ** 2 * np.eye(SIZE)
    expected = stats.multivariate_normal(named["Intercept"] + named["x"] * X, cov).logpdf(Y)
    np.testing.assert_allclose(log_lik, expected, rtol=1e-4)
    pairs = len(labels) * (len(labels) - 1) // 2 * correlated
    assert sum(name.startswith("corr(") for name in model.names) == pairs


def test_an_intercept_beside_levels_is_a_block_of_its_own():
    """(1 | g) + (0 + c | g) is not (c | g): the intercept does not correlate with the levels."""
    model = vi.glmm("y ~ x + (1 | g) + (0 + c | g)", TABLE)
    named, log_lik = named_and_log_lik(model)
    own = covariance(named, ["c[a]", "c[b]", "c[c]"])
    cov = (HOT @ own @ HOT.T + named["1|g_sigma"] ** 2) * SAME
    cov = cov + named["sigma"] ** 2 * np.eye(SIZE)
    expected = stats.multivariate_normal(named["Intercept"] + named["x"] * X, cov).logpdf(Y)
    np.testing.assert_allclose(log_lik, expected, rtol=1e-4)
    assert sum(name.startswith("corr(") for name in model.names) == 3


def test_nested_groups_are_groups_and_pairs():
    """Rooms of one name in several sites are several groups; so is (x | site/room)."""
    model = vi.glmm("y ~ x + (x || site/room)", TABLE)
    sizes = {factor.name: len(factor.levels) for factor in model.design.factors}
    assert sizes == {"site:room": 16, "site": 4}
    named, log_lik = named_and_log_lik(model)
    z = np.c_[np.ones(SIZE), X]
    cov = named["sigma"] ** 2 * np.eye(SIZE)
    for factor, same in (("site:room", SAME), ("site", SAME_SITE)):
        cov += (z @ covariance(named, ["1", "x"], factor, False) @ z.T) * same
    expected = stats.multivariate_normal(named["Intercept"] + named["x"] * X, cov).logpdf(Y)
    np.testing.assert_allclose(log_lik, expected, rtol=1e-4)


@pytest.mark.slow
def test_a_factor_as_slope_has_the_sds_and_correlations_of_restricted_likelihood():
    """Medians of the posterior beside REML by SciPy, in standard deviations of the posterior."""
    model = vi.glmm("y ~ x + (0 + c | g)", TABLE)
    straight = np.c_[np.ones(SIZE), X]
    contrasts = np.linalg.qr(straight, mode="complete")[0][:, 2:]

    def loss(u):
        root = np.zeros((3, 3))
        root[np.tril_indices(3)] = u[:6]
        cov = (HOT @ root @ root.T @ HOT.T) * SAME + np.exp(2 * u[6]) * np.eye(SIZE)
        own = contrasts.T @ cov @ contrasts
        return -stats.multivariate_normal(np.zeros(len(own)), own).logpdf(contrasts.T @ Y)

    start = np.array([1.0, 0, 1, 0, 0, 1, -0.5])
    u = optimize.minimize(loss, start, method="BFGS").x
    root = np.zeros((3, 3))
    root[np.tril_indices(3)] = u[:6]
    own = root @ root.T
    sds = np.sqrt(np.diag(own))
    fit = vi.auto(model, key=jax.random.key(0), richer=True)
    draws = model.draws(fit, jax.random.key(1), 4000).named
    for i, label in enumerate("abc"):
        x = draws[f"c[{label}]|g_sigma"]
        assert abs(np.median(x) - sds[i]) < 0.6 * x.std(), label
    for i, j in ((0, 1), (0, 2), (1, 2)):
        x = draws[f"corr(c[{'abc'[i]}], c[{'abc'[j]}]|g)"]
        assert abs(np.median(x) - own[i, j] / (sds[i] * sds[j])) < 0.6 * x.std()
    assert abs(np.median(draws["sigma"]) / np.exp(u[6]) - 1) < 0.03

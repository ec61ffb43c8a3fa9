"""Sticky hidden Markov models, weights learnt: the bound against quadrature and enumeration of
paths, in float64."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as laws
from scipy.special import digamma, gammaln, logsumexp

import vijax as vi
from tests.naming import naming
from vijax.families.discrete.stick_breaking import mean_weights
from vijax.families.scalar.beta import BetaStats
from vijax.models.emission import unit_gaussian
from vijax.models.series.hdp_hmm import FLOOR, _row_bound, _rows_bound, find_total, hdp_hmm
from vijax.xla.precision import enable_x64

ALPHA, GAMMA, STICKINESS = 1.3, 0.8, 2.0
Y = np.array([0.0, 0.3, 4.1, 3.8, 0.1])


def row_priors(v: np.ndarray) -> np.ndarray:
    """x of the first state and of the rows of two states, (len(v), 3, 2)."""
    mean = ALPHA * np.stack([v, 1 - v], -1) + FLOOR
    return np.stack([mean, mean + STICKINESS * np.eye(2)[0], mean + STICKINESS * np.eye(2)[1]], 1)


def counts_of(path: tuple) -> np.ndarray:
    """The first state, and transitions from each of two states."""
    counts = np.zeros((3, 2))
    counts[0, path[0]] = 1
    np.add.at(counts, (1 + np.array(path[:-1]), np.array(path[1:])), 1)
    return counts


def log_of_counts(x: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """log B(x + n) - log B(x), summed over the rows."""
    terms = (
        np.sum(gammaln(x + counts) - gammaln(x), -1)
        + gammaln(x.sum(-1))
        - gammaln((x + counts).sum(-1))
    )
    return terms.sum(-1)


def stick(a: float, b: float, number: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Quadrature of a Beta by its quantiles."""
    nodes, weights = np.polynomial.legendre.leggauss(number)
    return laws.beta(a, b).ppf((nodes + 1) / 2), weights / 2


def reported(a: float, b: float, counts: np.ndarray) -> float:
    """What the engine's terms of the rows come to where their laws are Dirichlet(x + n), less KL of
    sticks."""
    log, log1m = digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)
    mean = ALPHA * np.exp(np.array([log, log1m])) + FLOOR
    x = np.stack([mean, mean + STICKINESS * np.eye(2)[0], mean + STICKINESS * np.eye(2)[1]])
    model = hdp_hmm(unit_gaussian(2, 1), ALPHA, GAMMA, STICKINESS)
    hyper = {
        "alpha": jnp.asarray(ALPHA),
        "gamma": jnp.asarray(GAMMA),
        "stickiness": jnp.asarray(STICKINESS),
    }
    prior = model.prior(hyper)
    q = {
        "initial": vi.Dirichlet(jnp.asarray(x[0] + counts[0])),
        "transition": vi.Dirichlet(jnp.asarray(x[1:] + counts[1:])),
    }
    stats = {name: law.expected_stats() for name, law in q.items()}
    stats["sticks"] = BetaStats(jnp.array([log]), jnp.array([log1m]))
    value = model.global_elbo(hyper, stats)
    for name, n in (("initial", counts[0]), ("transition", counts[1:])):
        value += jnp.vdot(n, stats[name].log) - jnp.sum(q[name].kl(prior[name]))
    return float(value)


@pytest.mark.parametrize("spread", [50.0, 4.0])
def test_the_rows_are_bounded_below_where_transitions_were_used(spread: float) -> None:
    """Against the mean over q(v), by quadrature, of log B(x + n) - log B(x)."""
    a, b = 0.4 * spread, 0.6 * spread
    v, weights = stick(a, b)
    counts = np.array([[1.0, 1.5], [7.3, 1.0], [2.2, 30.0]])
    with enable_x64():
        exact, found = weights @ log_of_counts(row_priors(v), counts), reported(a, b, counts)
    assert exact - 0.5 < found <= exact + 1e-9


@pytest.mark.parametrize("spread", [50.0, 4.0])
def test_what_rare_transitions_add_is_below_its_limit(spread: float) -> None:
    """Above the quadrature at most by an eighth of the variances of log beta; with none at all not
    above."""
    a, b = 0.4 * spread, 0.6 * spread
    v, weights = stick(a, b)
    limit = (
        weights @ np.log(np.stack([v, 1 - v], -1)) ** 2
        - (weights @ np.log(np.stack([v, 1 - v], -1))) ** 2
    )
    with enable_x64():
        for rare in (0.0, 1e-3, 0.05, 0.3, 0.9):
            counts = np.array([[rare, 1.5], [7.3, rare], [rare, 30.0]])
            excess = reported(a, b, counts) - weights @ log_of_counts(row_priors(v), counts)
            pairs = (2 * limit[0] + limit[1]) if rare else 0.0
            assert excess <= pairs / 8 + 1e-9


def test_the_bound_of_all_is_below_the_evidence() -> None:
    """Every path, its rows and its means integrated out, and quadrature over v."""
    v, weights = stick(1.0, GAMMA)
    terms = []
    with enable_x64():
        emission = unit_gaussian(2, 1)
        prior_variance = float(1 / -(2 * jax.tree.leaves(emission.prior)[1].ravel()[0]))
        for path in itertools.product(range(2), repeat=len(Y)):
            of_path = logsumexp(log_of_counts(row_priors(v), counts_of(path)), b=weights)
            for k in range(2):
                y = Y[np.array(path) == k]
                cov = np.eye(len(y)) + prior_variance
                of_path += (
                    laws.multivariate_normal(np.zeros(len(y)), cov).logpdf(y) if len(y) else 0.0
                )
            terms.append(of_path)
        model = hdp_hmm(emission, ALPHA, GAMMA, STICKINESS)
        data = vi.models.pad([Y[:, None]])
        fit = vi.fit(vi.cavi(model), data, num_steps=100, tol=1e-9, key=jax.random.key(0))
    assert logsumexp(terms) - 3.0 < fit.elbo < logsumexp(terms)


def test_totals_are_those_of_the_dirichlet() -> None:
    with enable_x64():
        for c in ([0.001, 0.3, 40.0], [1e-3] * 4, [5.0, 7000.0], [2e5, 3e5, 0.4]):
            log = digamma(np.array(c)) - digamma(sum(c))
            np.testing.assert_allclose(find_total(jnp.asarray(log)), sum(c), rtol=1e-6)


def test_rows_that_are_drawn_have_their_log_density_and_its_slope() -> None:
    """Of a draw or a point there is no Dirichlet; the slope is by differences of SciPy's density at
    other totals."""
    with enable_x64(True):
        x, pi = np.array([0.4, 1.5, 2.2]), np.array([0.03, 0.3, 0.67])
        value = lambda x: _row_bound(jnp.asarray(4.1 - 3 * FLOOR), x, jnp.log(pi), jnp.ones(3))
        found, slope = jax.value_and_grad(value)(jnp.asarray(x))
        assert found == pytest.approx(laws.dirichlet.logpdf(pi, x) - gammaln(3), rel=1e-10)
        moved = x[:, None] + 1e-6 * np.eye(3)
        differences = [
            (laws.dirichlet.logpdf(pi, up) - laws.dirichlet.logpdf(pi, down)) / 2e-6
            for up, down in zip(moved.T, (x[:, None] - 1e-6 * np.eye(3)).T, strict=True)
        ]
        np.testing.assert_allclose(slope, differences, rtol=1e-7)
    assert np.isinf(find_total(jnp.log(jnp.asarray(pi, jnp.float32))))


def test_the_slope_in_sticks_is_the_number_of_tables() -> None:
    counts = np.array([[1.0, 1.5], [7.3, 1.0], [2.2, 30.0]])
    log = np.log(np.array([0.3, 0.7]))
    y = ALPHA * np.exp(log)
    x = np.stack(
        [y + FLOOR, y + FLOOR + STICKINESS * np.eye(2)[0], y + FLOOR + STICKINESS * np.eye(2)[1]]
    )
    c = x + counts
    e_log = digamma(c) - digamma(c.sum(-1, keepdims=True))
    tables = np.sum(y * (digamma(c) - digamma(x)), 0)
    with enable_x64():
        hyper = {"alpha": jnp.asarray(ALPHA), "stickiness": jnp.asarray(STICKINESS)}
        reference = {"initial": np.full(2, FLOOR), "transition": FLOOR + STICKINESS * np.eye(2)}
        rows = {
            "initial": vi.Dirichlet.Stats(jnp.asarray(e_log[0])),
            "transition": vi.Dirichlet.Stats(jnp.asarray(e_log[1:])),
        }
        value = lambda at: _rows_bound(reference, hyper, {"sticks": BetaStats(*at), **rows})
        slopes = jax.grad(value)((jnp.array([log[0]]), jnp.array([log[1]])))
    np.testing.assert_allclose(np.ravel(slopes), tables, rtol=1e-6)


# --- fits -----------------------------------------------------------------------------------------
def sequences() -> tuple:
    """Two, which stay in one of three states for ten steps."""
    path = np.stack([np.repeat([0, 1, 2, 0, 1, 2], 10), np.repeat([2, 1, 0, 1, 2, 0], 10)])
    return vi.models.pad(
        list(np.random.default_rng(0).normal(size=(2, 60, 1)) + 9.0 * path[:, :, None])
    )


def chain(k: int) -> vi.Model:
    return hdp_hmm(unit_gaussian(k, dim=1), stickiness=2.0)


@pytest.fixture(scope="module")
def settled() -> vi.Fit:
    return vi.fit(vi.cavi(chain(6)), sequences(), num_steps=60, tol=1e-7, key=jax.random.key(0))


def test_no_step_lowers_the_bound() -> None:
    with enable_x64():
        fit = vi.fit(vi.cavi(chain(4)), sequences(), num_steps=40, key=jax.random.key(0))
        weights = np.asarray(mean_weights(fit.posterior["sticks"]))
    elbo = np.asarray(fit.trace["elbo"])
    assert np.all(np.diff(elbo) >= -1e-9 * np.abs(elbo[1:]))
    assert weights.sum() == pytest.approx(1, abs=1e-9)


def test_parts_and_minibatches_come_near_the_bound(settled: vi.Fit) -> None:
    parts = vi.fit(
        vi.memoized(chain(6), num_parts=2), sequences(), num_epochs=40, key=jax.random.key(0)
    )
    some = vi.fit(vi.svi(chain(6)), sequences(), batch_size=1, num_epochs=40, key=jax.random.key(0))
    for fit in (parts, some):
        means = np.asarray(fit.posterior["components"].mean())[:, 0]
        for centre in (0, 9, 18):
            assert np.min(np.abs(means - centre)) < 1
    assert abs(parts.elbo - settled.elbo) < 20


def test_states_are_found_from_one() -> None:
    fit = vi.grow(chain, sequences(), key=jax.random.key(0), slots=6, most=6, patience=1)
    assert fit.trace["in_use"][[0, -1]].tolist() == [1, 3]
    elbo = fit.trace["elbo"]
    assert np.all(np.diff(elbo) >= -1e-6 * np.abs(elbo[1:]))
    means = np.sort(np.asarray(fit.posterior["components"].mean())[:3, 0])
    np.testing.assert_allclose(means, [0, 9, 18], atol=0.5)


@pytest.mark.slow
def test_states_of_one_place_and_two_scales_are_found() -> None:
    """No division of the steps by their places tells these apart: a stretch of steps does."""
    rng = np.random.default_rng(0)
    scales = np.repeat([0.3, 3.0, 0.3, 3.0], 25)
    data = vi.models.pad(list(rng.normal(size=(3, 100, 1)) * scales[None, :, None]))
    make = lambda k: hdp_hmm(vi.models.emission.full_gaussian(k, 1), stickiness=2.0)
    fit = vi.grow(make, data, key=jax.random.key(0), slots=4, most=4, patience=1)
    assert fit.trace["in_use"][-1] == 2
    path = np.argmax(fit.locals(data, key=jax.random.key(0))["z"].probs, -1)
    same = np.mean((path == path[0, 0]) == (scales < 1))
    assert same > 0.95


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match=naming("emission:", "1")):
        hdp_hmm(unit_gaussian(1, dim=1))


def test_a_mode_of_rows_is_refused() -> None:
    """Of emissions alone it is a point as any other."""
    with pytest.raises(
        ValueError,
        match=naming("estimand:", "vijax.cavi"),
    ):
        vi.map(chain(3))
    assert vi.compose(
        chain(3), estimand={"components": vi.estimand.mode()}, step_size=vi.step_size.constant(1.0)
    ).spec.is_point("components")

"""Structured autoencoders of sequences against dense normals in NumPy, where networks are linear
and exact."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from scipy.stats import multivariate_normal

import vijax as vi
from vijax.contract.batch import Minibatch
from vijax.contract.objective import importance_weighted
from vijax.families import CoefficientsPrecision
from vijax.families.scalar.normal_gamma import MeanPrecision
from vijax.families.vector.matrix_normal_wishart import MatrixPrecision

KEY = jax.random.key(0)
D, Q, K, M, A, SD = 3, 2, 2, 1, 0.6, 0.7
LENGTHS = np.array([4, 3, 1, 0])
RNG = np.random.default_rng(0)
W = (
    np.linalg.qr(RNG.normal(size=(D, Q)))[0] * [1.0, 1.5]
).T  # its rows are orthogonal: exact potentials are diagonal
Y = RNG.normal(size=(4, 4, D + M))
Y[0, 1, :D] = np.nan
THETA = {
    "initial": np.array([0.3, 0.7]),
    "transition": np.array([[0.8, 0.2], [0.4, 0.6]]),
    "start": MeanPrecision(np.array([1.0, -0.5]), np.array([0.7, 2.0])),
    "dynamics": MatrixPrecision(
        0.5 * RNG.normal(size=(K, Q + M + 1, Q)),
        np.array([[[3.0, 0.5], [0.5, 2.0]], [[9.0, -0.3], [-0.3, 4.0]]]),
    ),
}
ONE = {
    "initial": np.ones(1),
    "transition": np.ones((1, 1)),
    "start": THETA["start"],
    "dynamics": MatrixPrecision(*(x[:1] for x in THETA["dynamics"])),
}


def encode(scale, y):
    return y @ W.T / SD**2 + scale - 1.0, -0.5 * scale * np.sum(W**2, 1) / SD**2


@functools.cache
def model(num_states):
    """In float64. Made where it is used: every test process imports this file."""
    with jax.enable_x64(True):
        return vi.models.dynamic_svae(
            Q,
            encoder=(encode, jnp.ones(())),
            decoder=(lambda w, x: x @ w, jnp.asarray(W)),
            observed=vi.models.observed.gaussian(sd=SD),
            num_states=num_states,
            persistence=A,
            num_inputs=M,
        )


@functools.partial(jax.jit, static_argnums=(0, 4))
def said(num_states, scale, stats, batch, estep):
    of = model(num_states)
    return of.local_elbo({**of.hyper, "encoder": scale}, stats, batch, KEY, estep)


def found(num_states, theta, estep, scale=1.0):
    """What the model says of the sequences, nonsense in padding."""
    stats = dict(model(num_states).prior({}).stats(theta))
    return jax.tree.map(np.asarray, said(num_states, jnp.asarray(scale), stats, sequences(), estep))


def sequences():
    """Of 4, 3, 1 and 0 steps, nonsense in padding, one step missing, inputs in the last column."""
    mask = np.arange(4) < LENGTHS[:, None]
    return Minibatch((np.where(mask[..., None], Y, 1e3), mask), None)


def dense(theta, path, y):
    """log p(y | path of states), and mean and covariance of x given both, steps one after the
    other."""
    (m, p), (g, precision), steps = theta["start"], theta["dynamics"], len(y)
    moves = np.eye(steps * Q)
    shift, noise = np.zeros(steps * Q), np.zeros((steps * Q, steps * Q))
    shift[:Q], noise[:Q, :Q] = m, np.diag(1 / p)
    for t in range(1, steps):
        here, before = slice(t * Q, t * Q + Q), slice(t * Q - Q, t * Q)
        moves[here, before] = -(A * np.eye(Q) + g[path[t], :Q].T)
        shift[here] = y[t, D:] @ g[path[t], Q : Q + M] + g[path[t], Q + M]
        noise[here, here] = np.linalg.inv(precision[path[t]])
    back = np.linalg.inv(moves)
    mean, cov = back @ shift, back @ noise @ back.T
    y = y[:, :D]
    seen = np.flatnonzero(~np.isnan(y).any(1))
    c = np.kron(np.eye(steps)[seen], W.T)
    of_y = c @ cov @ c.T + SD**2 * np.eye(len(c))
    gain = np.linalg.solve(of_y, c @ cov).T
    evidence = multivariate_normal.logpdf(y[seen].ravel(), c @ mean, of_y)
    return evidence, mean + gain @ (y[seen].ravel() - c @ mean), cov - gain @ c @ cov


def test_with_one_state_and_exact_potentials_it_is_the_kalman_smoother():
    """Law of the path and evidence, to rounding: log p(y, x) - log q(x) is log p(y) at every draw.
    The plain bound to the error of its draws."""
    with jax.enable_x64(True):
        exact = found(1, ONE, vi.estep.structured(1, 2, objective=importance_weighted()))
        noisy = found(1, ONE, vi.estep.structured(1, 4000))
        x = exact.local["x"]
        means, covs = np.asarray(x.mean()), np.asarray(x.cov)
        moments = jax.tree.map(np.asarray, x.expected_stats())
    assert exact.per_group[3] == 0.0
    for n, steps in enumerate(LENGTHS[:3]):
        evidence, mean, cov = dense(ONE, np.zeros(steps, int), Y[n, :steps])
        np.testing.assert_allclose(exact.per_group[n], evidence, rtol=1e-9)
        np.testing.assert_allclose(
            noisy.per_group[n], evidence, atol=0.1
        )  # 4,000 draws of a term of deviation 1 to 2
        np.testing.assert_allclose(means[n, :steps].ravel(), mean, rtol=1e-8)
        cov, mean = cov.reshape(steps, Q, steps, Q), mean.reshape(steps, Q)
        np.testing.assert_allclose(
            covs[n, :steps], [cov[t, :, t] for t in range(steps)], rtol=1e-8, atol=1e-12
        )
        for t in range(steps - 1):
            np.testing.assert_allclose(
                moments.cross[n, t], cov[t, :, t + 1] + np.outer(mean[t], mean[t + 1]), rtol=1e-8
            )


def test_with_states_and_exact_potentials_it_is_the_switching_system():
    """Laws of path and states to rounding; the bound to the error of its draws."""
    observation = CoefficientsPrecision(np.c_[W.T, np.zeros(D)], np.full(D, SD**-2))
    with jax.enable_x64(True):
        ours = found(K, THETA, vi.estep.structured(60, 4000))
        known = vi.models.slds(D, K, Q, M, persistence=A)
        stats = dict(known.prior({}).stats({**THETA, "observation": observation}))
        estep = vi.estep.mean_field(60, 1e-14)
        theirs = jax.jit(lambda batch: known.local_elbo({}, stats, batch, KEY, estep))(sequences())
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9),
            ours.local,
            theirs.local,
        )
        probs = np.asarray(theirs.local["z"].probs)
    np.testing.assert_allclose(ours.per_group, theirs.per_group, atol=0.1)
    assert np.abs(probs[0, :, 0] - 0.5).max() > 0.1


def test_a_weighted_bound_sums_over_the_paths_of_states():
    """log p(y, x) - log q(x) at draws x, against the sum over all paths."""
    rng, y = np.random.default_rng(1), Y[1, :3]
    draws, steps = rng.normal(size=(5, 3, Q)), 3
    with jax.enable_x64(True):
        of = model(K)
        x = jnp.asarray(y), jnp.ones(3, bool)
        stats, points = dict(of.prior({}).stats(THETA)), {**of.hyper, "encoder": jnp.ones(())}
        estep = vi.estep.structured(20, 1)

        def ratios(draws):
            group = of.parts.encode(points["encoder"], x)
            q = of.parts.infer(estep, stats, group)[0]["x"]
            return of.parts.ratios(estep, points, stats, q, draws, group, x), q.log_prob(draws)

        found, own = map(np.asarray, jax.jit(ratios)(jnp.asarray(draws)))
    (m, p), (g, precision), logs = (
        THETA["start"],
        THETA["dynamics"],
        np.full((5, K**steps), -np.inf),
    )
    normal = lambda gap, cov: multivariate_normal.logpdf(gap, np.zeros(len(cov)), cov)
    for i, path in enumerate(itertools.product(range(K), repeat=steps)):
        of_path = np.log(THETA["initial"][path[0]]) + normal(draws[:, 0] - m, np.diag(1 / p))
        for t in range(1, steps):
            here, k = draws[:, t - 1], path[t]
            gap = draws[:, t] - (
                A * here + here @ g[k, :Q] + y[t, D:] @ g[k, Q : Q + M] + g[k, Q + M]
            )
            of_path += np.log(THETA["transition"][path[t - 1], k]) + normal(
                gap, np.linalg.inv(precision[k])
            )
        logs[:, i] = of_path
    seen = multivariate_normal.logpdf(
        (y[:, :D] - draws @ W).reshape(5, -1), np.zeros(9), SD**2 * np.eye(9)
    )
    np.testing.assert_allclose(found + own, special.logsumexp(logs, 1) + seen, rtol=1e-9)


def test_other_potentials_lower_the_bound():
    with jax.enable_x64(True):
        best, *others = (
            float(found(1, ONE, vi.estep.structured(1, 500), s).total) for s in (1.0, 0.4, 1.6)
        )
    assert max(others) < best - 0.3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decoder": lambda x: x}, r"^decoder: expected a pair \(apply, params\)"),
        (
            {"decoder": (lambda w, x: jnp.outer(x, x) * w, 1.0)},
            r"^decoder: expected an output for a vector",
        ),
        ({"latent_dim": 0}, "^latent_dim: expected"),
    ],
)
def test_what_it_refuses(change, message):
    given = {
        "latent_dim": Q,
        "encoder": (encode, jnp.ones(())),
        "decoder": (lambda w, x: x @ w, W),
        "observed": vi.models.observed.gaussian(sd=SD),
    }
    with pytest.raises(ValueError, match=message):
        vi.models.dynamic_svae(**{**given, **change})


def test_data_it_refuses():
    given = (encode, jnp.ones(())), (lambda w, x: x @ w, W)
    of = vi.models.dynamic_svae(Q, *given, vi.models.observed.bernoulli())
    full = np.ones((1, 4), bool)
    with pytest.raises(ValueError, match="entries 0 or 1"):
        of.form.check((np.full((1, 4, D), 0.5), full))
    with pytest.raises(ValueError, match=r"shape \(N, T, 3\)"):
        of.form.check((np.zeros((1, 4, 2)), full))
    of.form.check(
        (np.where(np.arange(D) == 1, np.nan, np.ones((1, 4, D))), full)
    )  # no step is seen
    with pytest.raises(ValueError, match=r"inputs .* that are all known"):
        model(1).form.check((np.where(np.arange(D + M) == D, np.nan, np.ones((1, 4, D + M))), full))


def test_inputs_move_the_path_and_those_to_come_move_what_follows():
    """A place that a known force pushes, seen as three columns with noise: the push, and what ten
    forces more do."""
    rng, seen = np.random.default_rng(0), np.array([1.0, -0.5, 0.8])
    force, place = rng.normal(size=(40, 30)), np.zeros((40, 30))
    for t in range(1, 30):
        place[:, t] = 0.9 * place[:, t - 1] + 0.5 * force[:, t] + 0.05 * rng.normal(size=40)
    clean = place[..., None] * seen
    y = np.concatenate([clean + 0.1 * rng.normal(size=clean.shape), force[..., None]], -1).astype(
        np.float32
    )
    of = vi.models.dynamic_svae(
        1,
        encoder=(
            lambda w, y: (100 * (y @ w), jnp.full(1, -50.0)),
            jnp.asarray([[0.5], [0.0], [0.5]]),
        ),
        decoder=(lambda w, x: x @ w, jnp.ones((1, 3)) * jnp.asarray([1.0, 0.0, 1.0])),
        observed=vi.models.observed.gaussian(sd=0.1),
        variance=0.01,
        num_inputs=1,
    )
    data = vi.models.pad(y)
    fit = vi.fit(vi.aevb(of, learning_rate=0.02), data, num_steps=150, key=KEY)
    push = fit.posterior["dynamics"].mean().coefficients[0, 1, 0] * fit.state.hyper["decoder"][0]
    np.testing.assert_allclose(push, 0.5 * seen, atol=0.03)
    part = np.where((np.arange(30) >= 20)[:, None] & (np.arange(4) < 3), np.nan, y)
    other = np.where((np.arange(30) >= 20)[:, None] & (np.arange(4) == 3), -part, part)
    ahead, wrong = (
        fit.predictive(KEY, 100, (x, data[1]), groups="same").mean(0)[:, 20:, :3]
        for x in (part, other)
    )
    error = lambda x: np.sqrt(np.mean((np.asarray(x) - clean[:, 20:]) ** 2))
    assert error(ahead) < 0.15
    assert error(wrong) > 1.0


@pytest.mark.slow
def test_turns_of_a_circle_are_found_behind_networks_and_missing_steps_filled():
    """30 paths to the left, then to the right, or the other way round, seen as five columns with
    noise."""
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    states = (np.arange(60) >= rng.integers(15, 45, (30, 1))) ^ (np.arange(30) % 2)[:, None].astype(
        bool
    )
    angle = rng.uniform(0, 6, (30, 1)) + np.cumsum(np.where(states, 0.3, -0.3), 1)
    seen = rng.normal(size=(2, 5))
    clean = np.stack([np.cos(angle), np.sin(angle)], -1) @ seen
    y = clean + 0.1 * rng.normal(size=clean.shape)
    gone = rng.random((30, 60)) < 0.1
    y[gone] = np.nan
    near = lambda w: jnp.asarray(w + 0.1 * rng.normal(size=w.shape), jnp.float32)
    of = vi.models.dynamic_svae(
        2,
        encoder=(lambda w, y: (100 * (y @ w), jnp.full(2, -50.0)), near(np.linalg.pinv(seen))),
        decoder=(lambda w, x: x @ w, near(seen)),
        observed=vi.models.observed.gaussian(sd=0.1),
        num_states=2,
        stickiness=5.0,
        variance=1e-3,
    )
    data = vi.models.pad(y.astype(np.float32))
    fit = vi.fit(vi.aevb(of, learning_rate=0.01), data, num_steps=150, key=KEY)
    found = np.asarray(fit.locals(data, key=KEY)["z"].mode())
    score = metrics.adjusted_rand_score(states.ravel(), found.ravel())
    error = np.sqrt(np.mean((np.asarray(of.reconstruct(fit, data)) - clean)[gone] ** 2))
    assert score > 0.9
    assert error < 0.15

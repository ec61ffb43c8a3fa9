"""Geweke's "getting it right" for Gibbs steps: a sweep leaves the joint law of parameters, locals
and data as it is.

Parameters from the prior, locals and data from the model: many independent draws of the joint law.
After a sweep of each, means of bounded functions of statistics, of what these have beyond their
means given all else, and of products of both with the statistics and the data must be what they
were: at 6 standard errors, of paired differences."""

import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from vijax import tree
from vijax.families import MeanPrecision
from vijax.families.scalar.polya_gamma import sample_unit
from vijax.inference import estep
from vijax.models import emission
from vijax.reference.gibbs import sweep

N = 4
X = np.random.default_rng(0).normal(size=(N, 2)).astype(np.float32)
MASK = np.array(
    [[True, True, True], [True, True, False], [True, False, False], [False, False, False]]
)
ROWS = np.random.default_rng(1).normal(size=(N, 3, 2)).astype(np.float32)


def emit(name, key, beta):
    """One observation of two columns at the parameters of its component."""
    if name == "bernoulli":
        return jax.random.bernoulli(key, beta).astype(jnp.float32)
    if name == "poisson":
        return jax.random.poisson(key, beta).astype(jnp.float32)
    if name == "categorical":  # three words
        return jax.nn.one_hot(jax.random.categorical(key, jnp.log(beta), shape=(3,)), 2).sum(0)
    noise = jax.random.normal(key, (2,))
    if name == "unit_gaussian":
        return beta + noise
    if name == "diagonal_gaussian":
        return beta.mean + noise / jnp.sqrt(beta.precision)
    return beta.mean + jnp.linalg.solve(jnp.linalg.cholesky(beta.precision).T, noise)


def component(beta, k):
    return jax.tree.map(lambda x: x[k], beta)


# Each case: the model, a draw of the globals, and a draw of (data, locals) given them.
def mixture(name, **arguments):
    def simulate(key, g):
        key_z, key_y = jax.random.split(key)
        z = jax.random.categorical(key_z, jnp.log(g["weights"]), shape=(N,))
        y = jax.vmap(lambda k, key: emit(name, key, component(g["components"], k)))(
            z, jax.random.split(key_y, N)
        )
        return y, {"z": z}

    return vi.models.mixture(
        getattr(emission, name)(2, 2, **arguments), concentration=1.5
    ), simulate


def dp_mixture():
    def simulate(key, g):
        key_z, key_y = jax.random.split(key)
        v = jnp.append(g["sticks"], 1.0)
        weights = v * jnp.append(1.0, jnp.cumprod(1 - v)[:-1])
        z = jax.random.categorical(key_z, jnp.log(weights), shape=(N,))
        return g["components"][z] + jax.random.normal(key_y, (N, 2)), {"z": z}

    return vi.models.dp_mixture(
        emission.unit_gaussian(3, 2, variance=4.0), concentration=1.5
    ), simulate


def hmm():
    def simulate(key, g):
        def path(key):
            keys = jax.random.split(key, 4)
            first = jax.random.categorical(keys[0], jnp.log(g["initial"]))
            second, third = keys[1:3]
            z = [first, jax.random.categorical(second, jnp.log(g["transition"][first]))]
            z = jnp.array([*z, jax.random.categorical(third, jnp.log(g["transition"][z[1]]))])
            return z, g["components"][z] + jax.random.normal(keys[3], (3, 2))

        z, y = jax.vmap(path)(jax.random.split(key, N))
        return (jnp.where(MASK[..., None], y, 0.0), jnp.asarray(MASK)), {"z": jnp.where(MASK, z, 0)}

    return vi.models.hmm(emission.unit_gaussian(2, 2, variance=4.0), stickiness=1.0), simulate


def factor_analysis():
    def simulate(key, g):
        key_x, key_y = jax.random.split(key)
        x = jax.random.normal(key_x, (N, 1))
        fitted = jnp.append(x, jnp.ones((N, 1)), 1) @ g["loadings"].T
        return fitted + jax.random.normal(key_y, (N, 2)) / jnp.sqrt(g["noise"]), {"x": x}

    return vi.models.factor_analysis(2, 1, shape=3.0, rate=2.0), simulate


def ard():
    """Its coefficients' prior depends on the relevances: drawn here by hand."""

    def simulate(key, g):
        w, tau = g["coefficients"]
        return (jnp.asarray(X), X @ w + jax.random.normal(key, (N,)) / jnp.sqrt(tau)), {}

    return vi.models.ard_regression(2, 3.0, 2.0, 3.0, 2.0), simulate


def ard_globals(key, prior):
    keys = jax.random.split(key, 3)
    relevance, tau = prior["relevance"].sample(keys[0]), jax.random.gamma(keys[1], 3.0) / 2.0
    w = jax.random.normal(keys[2], (2,)) / jnp.sqrt(tau * relevance)
    return {"relevance": relevance, "coefficients": type(prior["coefficients"].mean())(w, tau)}


def regression(kind, make, covariance):
    def simulate(key, g):
        keys = jax.random.split(key, 3)
        mean, precision = g["population"]
        noise = jax.random.normal(keys[0], (N, 2))
        full = covariance == "full"
        spread = (
            jnp.linalg.solve(jnp.linalg.cholesky(precision).T, noise.T).T
            if full
            else noise / jnp.sqrt(precision)
        )
        b = mean + spread
        f = jnp.einsum("jnd,jd->jn", ROWS, b)
        if kind == "linear":
            y, local = f + jax.random.normal(keys[1], f.shape) / jnp.sqrt(g["noise"]), {}
        elif kind == "probit":
            z = f + jax.random.normal(keys[1], f.shape)
            y, local = (
                jnp.sign(z),
                {"size": jnp.abs(jnp.where(MASK, z, jax.random.normal(keys[2], f.shape)))},
            )
        else:
            y = jnp.sign(f + jax.random.logistic(keys[1], f.shape))
            local = {"weight": sample_unit(keys[2], jnp.where(MASK, f, 0.0))}
        return (jnp.asarray(ROWS), jnp.where(MASK, y, 0.0), jnp.asarray(MASK)), {
            "coefficients": b,
            **local,
        }

    extra = {"shape": 3.0, "rate": 2.0} if kind == "linear" else {}
    return make(2, covariance, strength=1.0, degrees=6.0, **extra), simulate


CASES = {
    "bernoulli": lambda: mixture("bernoulli", alpha=1.2, beta=0.8),
    "poisson": lambda: mixture("poisson", shape=2.0, rate=0.5),
    "categorical": lambda: mixture("categorical", eta=0.8),
    "unit_gaussian": lambda: mixture("unit_gaussian", variance=4.0),
    "diagonal_gaussian": lambda: mixture("diagonal_gaussian", strength=0.5, shape=2.0),
    "full_gaussian": lambda: mixture("full_gaussian", strength=0.5, degrees=5.0),
    "dp_mixture": dp_mixture,
    "hmm": hmm,
    "factor_analysis": factor_analysis,
    "ard": ard,
    "linear": lambda: regression("linear", vi.models.hierarchical_linear_regression, "full"),
    "probit": lambda: regression("probit", vi.models.hierarchical_probit_regression, "diagonal"),
    "logistic": lambda: regression("logistic", vi.models.multilevel_logistic_regression, "full"),
}


def beyond_means(spec, hyper, data, state):
    """Of all statistics of globals and of locals, what they have beyond their means given
    everything else: what a wrong conditional changes is small beside what they vary by from draw to
    draw of the joint law, not beside these. And with these, each variable's derivative of its
    conditional's log density in a factor of all natural parameters, and in one of the message
    alone: what moves most where such a factor is wrong."""
    stats, local = state

    def log_joint(stats):
        terms = jax.vmap(lambda y, z: spec.fn({**stats, **z}, y, hyper))(data, local)
        return jnp.sum(terms) + (0.0 if spec.prior_fn is None else spec.prior_fn(stats, hyper))

    def beyond(value, q, *directions):
        gaps = jax.tree.leaves(jax.tree.map(jnp.subtract, value, q.expected_stats()))
        dots = [sum(map(jnp.vdot, tree.parameters(d), gaps)) for d in (q, *directions)]
        return as_rows((gaps, dots))

    prior = spec.prior(hyper)
    message = prior.with_naturals(jax.grad(log_joint)(stats))
    given_rest = tree.add(prior, message)
    own = [beyond(stats[name], given_rest[name], message[name]) for name in stats]

    def of_group(y, z):
        blocks = [spec.conditionals(block, {**stats, **z}, y, hyper) for block in spec.local_blocks]
        return [beyond(z[name], q) for block in blocks for name, q in block.items()]

    return own, jax.vmap(of_group)(data, local) if local else []


def as_rows(values, axes=0):
    """All leaves beside each other, behind so many axes."""
    rows = [jnp.reshape(x, (*jnp.shape(x)[:axes], -1)) for x in jax.tree.leaves(values)]
    return jnp.concatenate(rows, -1) if rows else None


def compiled(name):
    """Keys -> of one draw of the joint law each, before and after a sweep: the statistics of
    globals and of locals, what both are beyond their means; and the data."""
    model, simulate = CASES[name]()
    spec, hyper = model.queries["energy"], {n: jnp.asarray(v) for n, v in model.hyper.items()}

    def as_stats(values, data):
        one = lambda values, y: {n: q.stats(values[n]) for n, q in spec.locals(y).items()}
        return jax.vmap(one)(values, data)

    prior = model.prior(hyper)

    def run(key):
        keys = jax.random.split(key, 3)
        values = ard_globals(keys[0], prior) if name == "ard" else prior.sample(keys[0])
        data, local = simulate(keys[1], values)
        before = prior.stats(values), as_stats(local, data)
        (_, local), values, _ = sweep(spec, hyper, data, before, keys[2])
        after = (
            prior.stats(values),
            local,
        )  # drawn given the statistics, which must be those of the values
        both = jax.tree.map(lambda *x: jnp.stack(x), before, after)
        beyond = jax.vmap(lambda state: beyond_means(spec, hyper, data, state))(both)
        rows = [(as_rows(stats, 1), as_rows(local, 2)) for stats, local in (both, beyond)]
        return rows, as_rows(data, 1)

    return jax.jit(jax.vmap(run))


def soft(x, axes):
    """A bounded function, that bends where a quarter of x, before the sweep, is beyond."""
    x = np.asarray(x, np.float64)
    scale = np.quantile(np.abs(x[:, 0]), 0.75, axis=axes)
    return np.where(scale > 0, x / np.where(scale > 0, scale + np.abs(x), 1.0), 0.0)


def features(own, by_group):
    """Bounded functions, before and after, averaged over groups for the locals; and these with
    their squares."""
    own = soft(own, 0)
    if by_group is None:
        return own, np.concatenate([own, own**2], -1)
    by_group = soft(by_group, (0, 1))
    bounded = np.concatenate([own, by_group.mean(2)], -1)
    return bounded, np.concatenate([bounded, own**2, (by_group**2).mean(2)], -1)


def z_scores(name):
    """Standardised changes of the means of all features and of their products, with one another and
    with the data."""
    run = compiled(name)
    parts = [run(keys) for keys in jax.random.split(jax.random.key(7), (40, 1000))]
    (stats, beyond), data = jax.tree.map(lambda *x: np.concatenate(x), *parts)
    data = soft(data[:, None], (0, 1))[:, 0].mean(1)
    partners, own = features(*stats)
    own = np.concatenate([own, features(*beyond)[1]], -1)
    size = len(data)
    always = np.concatenate([np.ones((size, 1)), data], -1)
    before, after = own[:, 0].T, own[:, 1].T
    with_before, with_after = (np.concatenate([always, partners[:, t]], -1) for t in (0, 1))
    # The mean and the variance of the changes of the products, as products of matrices.
    mean = (after @ with_after - before @ with_before) / size
    square = (
        after**2 @ with_after**2
        + before**2 @ with_before**2
        - 2 * (before * after) @ (with_before * with_after)
    )
    assert np.isfinite(mean).all()
    error = np.sqrt(np.maximum(square / size - mean**2, 0.0) / (size - 1))
    moved = error > 1e-9
    assert moved.sum() >= 4  # a sweep moves something
    return mean[moved] / error[moved]


@pytest.mark.parametrize("name", CASES)
def test_a_sweep_leaves_the_joint_law_as_it_is(name):
    assert np.max(np.abs(z_scores(name))) < 6


def test_messages_a_tenth_too_large_are_found(monkeypatch):
    """Small beside a prior that weighs as much as the data: the joint law hardly moves."""
    tenth_more = lambda prior, message: tree.add(prior, jax.tree.map(lambda x: 1.1 * x, message))
    monkeypatch.setattr(
        sys.modules[sweep.__module__], "tree", types.SimpleNamespace(add=tenth_more)
    )
    assert np.max(np.abs(z_scores("bernoulli"))) > 6


def test_gibbs_estep_of_coupled_locals_samples_their_posterior():
    """Multilevel logistic regression at a known population: (b, w, y) from the model, and (b, w) of
    the E-step given y after a burn-in are of one law."""
    model, simulate = CASES["logistic"]()
    spec, step = model.queries["energy"], estep.gibbs(num_sweeps=1, burn_in=20)
    known = MeanPrecision(jnp.array([0.3, -0.4]), jnp.array([[1.5, 0.2], [0.2, 2.0]]))
    stats = {"population": model.prior({})["population"].stats(known)}

    def run(key):
        key_data, key_step = jax.random.split(key)
        data, local = jax.tree.map(lambda x: x[0], simulate(key_data, {"population": known}))
        templates = spec.locals(data)
        given = lambda block, local: spec.conditionals(block, {**stats, **local}, data, {})
        inferred = step.conditionals(
            estep.Conditionals(templates, given, spec.local_blocks), key_step
        )
        new = jax.tree.map(lambda t: t[0], inferred.states)
        old = {name: q.stats(local[name]) for name, q in templates.items()}
        gap = jnp.subtract(*(x / (1 + jnp.abs(x)) for x in (as_rows(new), as_rows(old))))
        return jnp.concatenate([gap, gap * data[1][0]])

    gaps = np.asarray(
        jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(3), 5_000)), np.float64
    )
    error = gaps.std(0, ddof=1) / np.sqrt(len(gaps))
    assert np.all(np.abs(gaps.mean(0)) <= 6 * error + 1e-9)
    assert error.max() < 0.02

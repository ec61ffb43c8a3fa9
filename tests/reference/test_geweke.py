"""Geweke's "getting it right" for Gibbs steps: a sweep leaves the joint law of parameters, locals and data as it is.

Parameters from the prior, locals and data from the model: many independent draws of the joint law. After a sweep of
each (after several, with the data drawn again between them, in the slow version), means of bounded functions of
statistics and of their products with the data must be what they were: at 6 standard errors, of paired differences.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from vijax import estep
from vijax.families import MeanPrecision
from vijax.families.polya_gamma_draws import sample_unit
from vijax.models import emission
from vijax.reference.gibbs import sweep

N = 4
X = np.random.default_rng(0).normal(size=(N, 2)).astype(np.float32)
MASK = np.array([[True, True, True], [True, True, False], [True, False, False], [False, False, False]])
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
        y = jax.vmap(lambda k, key: emit(name, key, component(g["components"], k)))(z, jax.random.split(key_y, N))
        return y, {"z": z}

    return vi.models.mixture(getattr(emission, name)(2, 2, **arguments), concentration=1.5), simulate


def dp_mixture():
    def simulate(key, g):
        key_z, key_y = jax.random.split(key)
        v = jnp.append(g["sticks"], 1.0)
        weights = v * jnp.append(1.0, jnp.cumprod(1 - v)[:-1])
        z = jax.random.categorical(key_z, jnp.log(weights), shape=(N,))
        return g["components"][z] + jax.random.normal(key_y, (N, 2)), {"z": z}

    return vi.models.dp_mixture(emission.unit_gaussian(3, 2, variance=4.0), concentration=1.5), simulate


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
        spread = jnp.linalg.solve(jnp.linalg.cholesky(precision).T, noise.T).T if full else noise / jnp.sqrt(precision)
        b = mean + spread
        f = jnp.einsum("jnd,jd->jn", ROWS, b)
        if kind == "linear":
            y, local = f + jax.random.normal(keys[1], f.shape) / jnp.sqrt(g["noise"]), {}
        elif kind == "probit":
            z = f + jax.random.normal(keys[1], f.shape)
            y, local = jnp.sign(z), {"size": jnp.abs(jnp.where(MASK, z, jax.random.normal(keys[2], f.shape)))}
        else:
            y = jnp.sign(f + jax.random.logistic(keys[1], f.shape))
            local = {"weight": sample_unit(keys[2], jnp.where(MASK, f, 0.0))}
        return (jnp.asarray(ROWS), jnp.where(MASK, y, 0.0), jnp.asarray(MASK)), {"coefficients": b, **local}

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


def soft(tree):
    """Bounded functions of every leaf."""
    return jnp.concatenate([jnp.ravel(x) / (1 + jnp.abs(jnp.ravel(x))) for x in jax.tree.leaves(tree)])


def features(stats, local, data):
    """Bounded functions of statistics and their squares, averaged over groups for the locals, and their products with
    the data's."""
    by_group = jax.vmap(soft)(local) if local else jnp.zeros((N, 0))
    summary = jax.vmap(soft)(data).mean(0)
    summary = summary[jnp.array([0, summary.size // 2, summary.size - 1])]
    own = jnp.concatenate([soft(stats), soft(stats) ** 2, by_group.mean(0), (by_group**2).mean(0)])
    return jnp.concatenate([own, jnp.outer(own, summary).ravel()])


@functools.lru_cache
def compiled(name, size, sweeps):
    """(prior of the joint law, keys) -> the changes of all features, for the sampler of the case's model."""
    model, simulate = CASES[name]()
    spec, hyper = model.energy, {n: jnp.asarray(v) for n, v in model.hyper.items()}

    def as_stats(values, data):
        one = lambda values, y: {n: q.stats(values[n]) for n, q in spec.locals(y).items()}
        return jax.vmap(one)(values, data)

    def run(prior, key):
        keys = jax.random.split(key, 2)
        values = ard_globals(keys[0], prior) if name == "ard" else prior.sample(keys[0])
        data, local = simulate(keys[1], values)
        state = prior.stats(values), as_stats(local, data)
        before = features(*state, data)

        def body(i, carry):
            state, data, values = carry
            key_sweep, key_data = jax.random.split(jax.random.fold_in(key, i))
            fresh, local = simulate(key_data, values)
            # The first sweep is at the data that the draw came with; later ones draw data and locals again.
            pick = lambda new, old: jax.tree.map(lambda a, b: jnp.where(i > 0, a, b), new, old)
            data = pick(fresh, data)
            state = state[0], pick(as_stats(local, fresh), state[1])
            state, values, _ = sweep(spec, hyper, data, state, key_sweep)
            return state, data, values

        state, data, _ = jax.lax.fori_loop(0, sweeps, body, (state, data, values))
        return features(*state, data) - before

    # Of many draws, the part of the optimiser that pays: the rest compiles a third longer, and they run no sooner.
    options = {"xla_backend_optimization_level": 1} if size > 10_000 else None
    in_batches = lambda prior, keys: jax.lax.map(lambda k: run(prior, k), keys, batch_size=min(size, 1000))
    run_all = jax.jit(in_batches, compiler_options=options)
    return lambda prior: run_all(prior or model.prior(hyper), jax.random.split(jax.random.key(7), size))


def z_scores(name, size, sweeps=1, prior=None):
    """Standardised changes of the means of all features, by `size` independent draws of the joint law."""
    gaps = np.asarray(compiled(name, size, sweeps)(prior), np.float64)
    error = gaps.std(0, ddof=1) / np.sqrt(size)
    moved = error > 1e-9
    assert moved.sum() >= 4  # a sweep moves something
    return gaps.mean(0)[moved] / error[moved]


@pytest.mark.parametrize("name", ["diagonal_gaussian", "logistic"])
def test_a_sweep_leaves_the_joint_law_as_it_is(name):
    assert np.max(np.abs(z_scores(name, 4000))) < 6


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_many_sweeps_leave_the_joint_law_as_it_is(name):
    assert np.max(np.abs(z_scores(name, 50_000, sweeps=8))) < 6


def test_a_wrong_conditional_is_found():
    """The sampler of one prior, on draws of another."""
    prior = CASES["diagonal_gaussian"]()[0].prior({})
    wrong = prior.replace({"weights": vi.Dirichlet.from_concentration([0.7, 0.7])})
    assert np.max(np.abs(z_scores("diagonal_gaussian", 4000, prior=wrong))) > 6


def test_gibbs_estep_of_coupled_locals_samples_their_posterior():
    """Multilevel logistic regression at a known population: (b, w, y) from the model, and (b, w) of the E-step given y
    after a burn-in are of one law."""
    model, simulate = CASES["logistic"]()
    spec, step = model.energy, estep.gibbs(num_sweeps=1, burn_in=20)
    known = MeanPrecision(jnp.array([0.3, -0.4]), jnp.array([[1.5, 0.2], [0.2, 2.0]]))
    stats = {"population": model.prior({})["population"].stats(known)}

    def run(key):
        key_data, key_step = jax.random.split(key)
        data, local = jax.tree.map(lambda x: x[0], simulate(key_data, {"population": known}))
        templates = spec.locals(data)
        given = lambda block, local: spec.conditionals(block, {**stats, **local}, data, {})
        inferred = step.conditionals(estep.Conditionals(templates, given, spec.local_blocks), key_step)
        new = jax.tree.map(lambda t: t[0], inferred.states)
        gap = soft(new) - soft({name: q.stats(local[name]) for name, q in templates.items()})
        return jnp.concatenate([gap, gap * data[1][0]])

    gaps = np.asarray(jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(3), 5_000)), np.float64)
    error = gaps.std(0, ddof=1) / np.sqrt(len(gaps))
    assert np.all(np.abs(gaps.mean(0)) <= 6 * error + 1e-9)
    assert error.max() < 0.02

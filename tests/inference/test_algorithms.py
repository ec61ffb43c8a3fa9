"""Every named algorithm: known optimum, one compilation, stable dtypes, resuming; and composition
outside our loop."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import optimize, special, stats

import vijax as vi
from tests.naming import naming

FLIPS = jnp.array([1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0])
HEADS, TAILS = 6.0, 2.0


def coin(a=2.0, b=3.0):
    """Beta-Bernoulli: conjugate without locals, so that every optimum is known."""
    return vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(a, b)}),
        local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )


def two_hills(a=1.0, b=1.0):
    """y ~ pi N(1, 1) + (1 - pi) N(-1, 1), pi ~ Beta(a, b); z summed out, so that the bound is log
    p(y | pi) itself."""

    def local_elbo(s, y, key):
        up, down = s["pi"].log - 0.5 * (y - 1) ** 2, s["pi"].log1m - 0.5 * (y + 1) ** 2
        return jnp.logaddexp(up, down) - 0.5 * jnp.log(2 * jnp.pi), None

    return vi.model(prior=vi.Product({"pi": vi.Beta.from_alpha_beta(a, b)}), local_elbo=local_elbo)


HILLS = jnp.asarray(
    np.random.default_rng(0).normal(np.where(np.arange(12) < 8, 1.0, -1.0), 1.0), jnp.float32
)

NAMED = {
    "em": vi.em,
    "map": vi.map,
    "cavi": vi.cavi,
    "svi": functools.partial(vi.svi, num_groups=8),
    "ssvi": functools.partial(vi.ssvi, num_groups=8),
    "ssvi_a": functools.partial(vi.ssvi_a, num_groups=8),
}


def run(alg, data, steps, key=0, state=None):
    key = jax.random.key(key)
    state = alg.init(key) if state is None else state

    def body(state, _):
        return alg.step(jax.random.fold_in(key, state.step), state, data)

    return jax.jit(lambda s: jax.lax.scan(body, s, length=steps))(state)


@pytest.mark.parametrize("name", ["cavi", "svi", "ssvi", "ssvi_a"])
def test_conjugate_posterior_is_reached_exactly(name):
    """Without locals every message is the data's own statistic: all Bayesian rows end at Beta(2 +
    6, 3 + 2)."""
    state, info = run(NAMED[name](coin()), FLIPS, 300)
    q = state.posterior["bias"]
    np.testing.assert_allclose([q.alpha, q.beta], [2 + HEADS, 3 + TAILS], rtol=1e-4)
    evidence = special.betaln(2 + HEADS, 3 + TAILS) - special.betaln(2, 3)
    if name in ("cavi", "svi"):
        np.testing.assert_allclose(info.elbo[-1], evidence, rtol=1e-5)


def test_em_and_map_reach_the_modes():
    ml, _ = run(vi.em(coin()), FLIPS, 3)
    mode, _ = run(vi.map(coin()), FLIPS, 3)
    np.testing.assert_allclose(ml.posterior["bias"].mode(), HEADS / 8, rtol=1e-6)
    np.testing.assert_allclose(mode.posterior["bias"].mode(), (HEADS + 1) / (8 + 3), rtol=1e-6)


def test_em_maximises_the_likelihood_monotonically():
    """`two_hills` sums z out, so EM's objective is the likelihood itself: compare with a scalar
    optimiser."""
    state, info = run(vi.em(two_hills(2.0, 2.0)), HILLS, 200)

    def minus_log_likelihood(p):
        return -np.sum(np.log(p * stats.norm.pdf(HILLS, 1) + (1 - p) * stats.norm.pdf(HILLS, -1)))

    best = optimize.minimize_scalar(
        minus_log_likelihood, bounds=(0.01, 0.99), method="bounded", options={"xatol": 1e-9}
    )
    np.testing.assert_allclose(state.posterior["pi"].mode(), best.x, atol=2e-4)
    np.testing.assert_allclose(info.elbo[-1], -best.fun, rtol=1e-6)
    assert np.all(np.diff(info.elbo) > -2e-5)


def best_beta():
    """argmax over (a, b) of E_q[log p(y | pi)] - KL(Beta(a, b) || Beta(1, 1)), by quadrature: what
    SSVI optimises."""
    x, widths = np.polynomial.legendre.leggauss(400)
    p = 0.5 * (1 + x)
    up, down = (stats.norm.pdf(np.asarray(HILLS, float), mean)[:, None] for mean in (1, -1))
    log_likelihood = np.sum(np.log(p * up + (1 - p) * down), 0)

    def minus_elbo(log_ab):
        q = stats.beta(*np.exp(log_ab))
        return -(0.5 * widths @ (q.pdf(p) * log_likelihood) + q.entropy())

    return np.exp(
        optimize.minimize(
            minus_elbo, [0.7, 0.3], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-10}
        ).x
    )


def test_ssvi_converges_to_the_optimum_of_the_structured_elbo():
    """Hoffman and Blei 2015, eq. 3: V makes the fixed point the maximiser of the ELBO; without it,
    or at the mean, it is another."""
    schedule = vi.step_size.robbins_monro(kappa=0.9)
    exact = best_beta()
    q = {}
    for name, choices in {"ssvi": {"damping": 1.0}, "svi": {}}.items():
        alg = NAMED[name](two_hills(), step_size=schedule, num_groups=12, **choices)
        batch = jax.jit(jax.vmap(lambda s, k, alg=alg: _many(alg, s, k), in_axes=(None, 0)))
        states = batch(alg.init(jax.random.key(0)), jax.random.split(jax.random.key(1), 64))
        q[name] = np.array(
            [jnp.mean(states.posterior["pi"].alpha), jnp.mean(states.posterior["pi"].beta)]
        )
    np.testing.assert_allclose(q["ssvi"], exact, rtol=0.02)
    assert np.max(np.abs(q["svi"] / exact - 1)) > 0.2


def _many(alg, state, key, steps=2000):
    def body(i, state):
        return alg.step(jax.random.fold_in(key, i), state, HILLS)[0]

    return jax.lax.fori_loop(0, steps, body, state)


@pytest.mark.parametrize("name", NAMED)
def test_second_call_does_not_recompile_and_dtypes_hold(name):
    alg = NAMED[name](coin())
    chex.clear_trace_counter()  # it counts by name

    @jax.jit
    @chex.assert_max_traces(n=1)
    def step(*arguments):
        return alg.step(*arguments)

    state = alg.init(jax.random.key(0))
    chex.assert_trees_all_equal_shapes_and_dtypes(
        state, jax.eval_shape(alg.init, jax.random.key(0))
    )
    for i in range(3):
        new, info = step(jax.random.key(i), state, FLIPS)
        chex.assert_trees_all_equal_shapes_and_dtypes(state, new)
        state = new
    assert int(state.step) == 3
    assert int(info.result) == vi.Result.OK


@pytest.mark.parametrize("name", NAMED)
def test_fit_in_two_parts_equals_fit_in_one(name):
    data = FLIPS
    alg = NAMED[name](coin(), step_size=vi.step_size.robbins_monro(kappa=0.6))
    fit = functools.partial(vi.fit, alg, data, key=jax.random.key(3), batch_size=3)
    whole = fit(num_steps=9, steps_per_chunk=4)
    part = fit(num_steps=5, steps_per_chunk=4)
    rest = fit(num_steps=9, steps_per_chunk=4, state=part.state)
    chex.assert_trees_all_equal(whole.state, rest.state)
    np.testing.assert_array_equal(
        whole.trace["elbo"], np.concatenate([part.trace["elbo"], rest.trace["elbo"]])
    )


def test_composes_with_a_network_in_a_larger_scan():
    """The step beside an optax-trained regression, in one jitted scan: neither knows of the
    other."""
    alg = vi.svi(coin(), num_groups=8)
    x = jnp.linspace(-1, 1, 8)[:, None]
    target = jnp.tanh(2 * x[:, 0])
    optimizer = optax.adam(0.05)

    def loss(params):
        hidden = jnp.tanh(x @ params["w1"] + params["b1"])
        return jnp.mean((hidden @ params["w2"] - target) ** 2)

    def body(carry, key):
        state, params, opt_state = carry
        state, info = alg.step(key, state, FLIPS)
        value, grads = jax.value_and_grad(loss)(params)
        updates, opt_state = optimizer.update(grads, opt_state)
        return (state, optax.apply_updates(params, updates), opt_state), (info.elbo, value)

    params = {
        "w1": jnp.ones((1, 4)) * jnp.arange(1, 5) * 0.3,
        "b1": jnp.zeros(4),
        "w2": jnp.ones(4) * 0.1,
    }
    carry = alg.init(jax.random.key(0)), params, optimizer.init(params)
    carry, (_, losses) = jax.jit(
        lambda c: jax.lax.scan(body, c, jax.random.split(jax.random.key(1), 200))
    )(carry)
    np.testing.assert_allclose(carry[0].posterior["bias"].alpha, 8.0, rtol=1e-4)
    assert float(losses[-1]) < 0.01 * float(losses[0])


def test_eight_restarts_by_vmap():
    alg = vi.ssvi_a(two_hills(), num_groups=12)
    keys = jax.random.split(jax.random.key(0), 8)
    states = jax.jit(jax.vmap(lambda k: _many(alg, alg.init(k), k, steps=50)))(keys)
    one = jax.jit(lambda k: _many(alg, alg.init(k), k, steps=50))(keys[3])
    assert states.posterior["pi"].alpha.shape == (8,)
    assert len(np.unique(states.posterior["pi"].alpha)) == 8
    np.testing.assert_allclose(
        states.posterior["pi"].alpha[3], one.posterior["pi"].alpha, rtol=1e-5
    )


def test_a_fit_is_differentiable_in_a_prior_hyperparameter():
    """d E_q[pi] / d a through thirty CAVI steps, against central differences in float64."""
    with jax.enable_x64(True):
        y = jnp.asarray(HILLS, jnp.float64)

        @jax.jit
        def fitted_mean(a):
            alg = vi.cavi(two_hills(a, jnp.float64(1.0)))
            state = jax.lax.fori_loop(
                0,
                30,
                lambda i, s: alg.step(jax.random.key(0), s, y)[0],
                alg.init(jax.random.key(0)),
            )
            return state.posterior["pi"].mean()

        a, h = jnp.float64(1.5), 1e-5
        slope = jax.jacfwd(fitted_mean)(a)
        np.testing.assert_allclose(
            slope, (fitted_mean(a + h) - fitted_mean(a - h)) / (2 * h), rtol=1e-6
        )


def test_learnt_hyperparameters_climb_the_evidence():
    """Empirical Bayes on many coins: Beta(a, b) learnt by optax inside the step reaches the
    evidence's maximum."""
    heads = (
        np.random.default_rng(1)
        .binomial(20, np.random.default_rng(2).beta(4.0, 8.0, size=300))
        .astype(float)
    )

    def prior(hyper):
        return vi.Product(
            {
                "bias": vi.Beta(
                    jnp.broadcast_to(hyper["a"], (300,)), jnp.broadcast_to(hyper["b"], (300,))
                )
            }
        )

    coins = vi.model(
        prior=prior,
        local_elbo=lambda s, y, key: (y * s["bias"].log + (20 - y) * s["bias"].log1m, None),
        hyper={"a": jnp.float32(1.0), "b": jnp.float32(1.0)},
    )
    alg = vi.cavi(coins, learn=vi.learn("a", "b", optimizer=optax.adam(0.05)))
    state, _ = run(alg, jnp.asarray(heads, jnp.float32), 1500)

    def minus_evidence(log_ab):
        a, b = np.exp(log_ab)
        return -np.sum(special.betaln(a + heads, b + 20 - heads) - special.betaln(a, b))

    best = np.exp(optimize.minimize(minus_evidence, [0.0, 0.0]).x)
    np.testing.assert_allclose([state.hyper["a"], state.hyper["b"]], best, rtol=0.02)


def test_non_finite_steps_are_skipped_counted_and_stop_the_fit():
    def local_elbo(s, y, key):
        return jnp.log(y) * s["bias"].log, None

    broken = vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(2.0, 3.0)}), local_elbo=local_elbo
    )
    data = jnp.array([1.0, -1.0])
    alg = vi.svi(broken)
    with pytest.warns(vi.SkippedStepsWarning, match="10 of 10 steps"):
        fit = vi.fit(alg, data, key=jax.random.key(0), num_steps=40, steps_per_chunk=5, throw=False)
    assert fit.status is vi.Status.DIVERGED
    assert np.all(fit.trace["result"] == vi.Result.SKIPPED)
    assert len(fit.trace["elbo"]) == 10
    assert float(fit.posterior["bias"].alpha) == 2.0
    with pytest.raises(vi.DivergedError, match="diverged"):
        vi.fit(alg, data, key=jax.random.key(0), num_steps=40)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=naming("learn:", "'gamma'")):
        vi.svi(coin(), learn=("gamma",))
    with pytest.raises(ValueError, match=r"batch: expected a vijax\.Minibatch"):
        vi.svi(coin()).step(jax.random.key(0), vi.svi(coin()).init(jax.random.key(0)), FLIPS)
    with pytest.raises(ValueError, match=naming("batch_size:", "1", "8 groups")):
        vi.fit(vi.svi(coin()), FLIPS, key=jax.random.key(0), num_steps=1, batch_size=9)
    with pytest.raises(ValueError, match=naming("num_epochs", "num_steps")):
        vi.fit(vi.svi(coin()), FLIPS, key=jax.random.key(0))
    with pytest.raises(ValueError, match="damping: expected"):
        vi.ssvi(coin(), damping=2.0)


def test_double_precision_in_a_context_reaches_the_data():
    """Batches are put on the device by another thread, where `jax.enable_x64` of this one does not
    hold by itself."""
    with jax.enable_x64(True):
        fit = vi.fit(vi.cavi(coin()), np.full(4, 1 / 3), num_steps=1, key=jax.random.key(0))
        assert fit.posterior["bias"].alpha == 2 + 4 * (1 / 3)


def test_only_globals_without_a_prior_stay_where_they_are_when_a_step_leaves_the_domain():
    """Of a mixed rule: mean field retreats towards its prior, maximum likelihood, whose prior is
    flat, nowhere."""
    gamma = vi.Gamma.from_shape_rate
    model = vi.energy_model(
        globals={"a": gamma(2.0, 3.0), "b": gamma(2.0, 3.0)},
        energy=lambda s, y: s["a"].log + s["b"].log - y * (s["a"].value + s["b"].value),
        example=1.0,
        init=lambda key, context: vi.Product({"a": gamma(5.0, 4.0), "b": gamma(5.0, 4.0)}),
    )
    alg = vi.compose(
        model,
        estimand={"b": vi.estimand.maximum_likelihood()},
        update=vi.update.proximal(lambda q, target, rho: jax.tree.map(jnp.negative, q)),
        step_size=vi.step_size.constant(0.25),
    )
    alg = vi.whole(alg)
    state = alg.init(jax.random.key(0), jnp.ones(3))
    new, info = jax.jit(alg.step)(jax.random.key(0), state, jnp.ones(3))
    assert int(info.retractions) == 4
    np.testing.assert_allclose(
        [new.posterior["a"].shape, new.posterior["a"].rate], [4.25, 3.75], rtol=1e-6
    )
    np.testing.assert_allclose(
        [new.posterior["b"].shape, new.posterior["b"].rate], [5.0, 4.0], rtol=1e-6
    )

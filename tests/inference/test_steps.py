"""Details of a step that no converged fit shows: scales of a minibatch, what is due when, averages,
damping."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from vijax import tree
from vijax.inference.estimator.base import estimate
from vijax.inference.step_size import backtracking, constant, no_lower

KEY = jax.random.key(0)
Y = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0], np.float32)
PRIOR = vi.Product({"bias": vi.Beta.from_alpha_beta(2.0, 3.0)})
COIN = vi.model(PRIOR, lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None))


def numbers(q):
    return [float(q["bias"].alpha), float(q["bias"].beta)]


# --- compose --------------------------------------------------------------------------------------
def test_a_minibatch_stands_for_the_whole_set_and_what_couples_globals_for_itself():
    """eta + N/S sum_n t(y_n) + the coupling once; padding counts neither in the sum nor in S."""
    model = dataclasses.replace(
        COIN, global_elbo=lambda hyper, s: 3.0 * s["bias"].log + s["bias"].log1m
    )
    alg = vi.svi(model, step_size=constant(1.0))
    batch = vi.Minibatch(
        np.array([1.0, 1.0, 0.0, 9.0], np.float32), 12.0, np.array([1.0, 1.0, 1.0, 0.0], np.float32)
    )
    state, info = jax.jit(alg.step)(KEY, alg.init(KEY), batch)
    np.testing.assert_allclose(numbers(state.posterior), [2 + 4 * 2 + 3, 3 + 4 * 1 + 1], rtol=1e-6)
    assert float(info.num_groups) == 3.0


def test_the_penalty_is_that_of_every_third_step():
    alg = vi.svi(COIN, penalty_every=3, num_groups=8)
    step, state, due, told = jax.jit(alg.step), alg.init(KEY), [], []
    for t in range(8):
        due = [*due, float(state.posterior.kl(PRIOR))] if t % 3 == 0 else [*due, due[-1]]
        state, info = step(KEY, state, Y[t : t + 1])
        told.append(float(info.penalty))
    np.testing.assert_allclose(told, due, rtol=1e-5, atol=1e-6)
    assert len(set(np.round(told, 4))) == 3


@pytest.mark.parametrize("control_variate", [True, False])
def test_damping_fades_with_the_step_size(control_variate):
    """(1 - tau (1 - rho)) eta_hat + tau (1 - rho) [offset + V(eta_hat - offset)] at rho = .4 and
    tau = .5."""
    q, prior = vi.Product({"bias": vi.Beta.from_alpha_beta(3.0, 2.0)}), PRIOR
    bound = lambda s, theta: (jnp.logaddexp(s["bias"].log, 2.0 * s["bias"].log1m) * 5.0, None)
    rule = {"bias": vi.estimator.ssvi(0.5, control_variate)}

    @jax.jit
    def messages(q, prior):
        stats, v = q.pathwise_sample(KEY)
        plain = q.with_naturals(jax.grad(lambda s: bound(s, {})[0])(stats))
        offset = tree.subtract(q, prior) if control_variate else tree.scale(0.0, q)
        structured = tree.add(offset, v(q.as_stats(tree.subtract(plain, offset))))
        return (
            estimate(rule, ["bias"], KEY, q, prior, jnp.float32(0.4), bound, {}).natural,
            plain,
            structured,
        )

    message, plain, structured = messages(q, prior)
    expected = 0.7 * np.array(jax.tree.leaves(plain)) + 0.3 * np.array(jax.tree.leaves(structured))
    np.testing.assert_allclose(jax.tree.leaves(message), expected, rtol=1e-5)
    assert (
        np.max(np.abs(np.array(jax.tree.leaves(structured)) - np.array(jax.tree.leaves(plain))))
        > 0.1
    )


def test_a_step_whose_size_is_a_beta_above_one_is_not_damped_backwards():
    """A full step of `symmetric_kl` is beta = 2: nothing of the old posterior is left, and so no
    weight for V."""
    full = {"update": vi.update.symmetric_kl(), "step_size": vi.step_size.beta(2.0)}
    alg = vi.ssvi(COIN, damping=1.0, num_groups=8, **full)
    state, _ = jax.jit(alg.step)(KEY, alg.init(KEY), Y)
    np.testing.assert_allclose(numbers(state.posterior), [2 + 6, 3 + 2], rtol=1e-6)


@pytest.mark.parametrize(
    "update", [vi.update.symmetric_kl(), vi.update.mirror(), vi.update.euclidean()]
)
def test_beyond_a_full_step_there_is_no_weight_for_v(update):
    """The structured message of a step of beta 2 is that of mean field, whatever the divergence."""
    given = {"update": update, "step_size": vi.step_size.beta(2.0), "num_groups": 8}
    algs = vi.ssvi(COIN, damping=1.0, **given), vi.svi(COIN, **given)
    structured, plain = (jax.jit(alg.step)(KEY, alg.init(KEY), Y)[0].posterior for alg in algs)
    np.testing.assert_allclose(numbers(structured), numbers(plain), rtol=1e-6)


def test_the_score_function_is_unbiased_at_two_draws():
    """Of a bound linear in the statistics the natural gradient is its coefficients. Averaged over
    20,000 pairs of draws: a baseline of n in place of n - 1 others halves them; the standard error
    is below .05."""
    q = vi.Product({"bias": vi.Beta.from_alpha_beta(3.0, 2.0)})
    rule = {"bias": vi.estimator.score_function(2)}
    bound = lambda s, theta: (s["bias"].log - 0.5 * s["bias"].log1m, None)
    one = lambda key: estimate(rule, ["bias"], key, q, PRIOR, jnp.float32(0.1), bound, {}).natural
    draws = np.array(jax.tree.leaves(jax.jit(jax.vmap(one))(jax.random.split(KEY, 20_000))))
    error = draws.std(axis=1) / np.sqrt(draws.shape[1])
    assert np.all(error < 0.05)
    np.testing.assert_array_less(np.abs(draws.mean(axis=1) - [1.0, -0.5]), 6 * error)


# --- the sites of Gaussian predictors -------------------------------------------------------------
VARIANCE = 0.25
SITES = vi.models.glm(np.eye(4), np.array([0.5, -1.0, 2.0, 0.0]), vi.likelihood.gaussian(VARIANCE))
PART = vi.Minibatch({"site": np.array([0, 2]), "y": np.array([0.5, 2.0])}, 4)


def after(steps, batch=PART, wrap=lambda alg: alg, **choices):
    alg = wrap(vi.pg_svi(SITES, **choices))
    step, state, states = jax.jit(alg.step), alg.init(KEY), []
    for _ in range(steps):
        state, _ = step(KEY, state, batch)
        states.append(state)
    return states


def test_memory_moves_the_sites_of_the_batch_to_their_own_messages():
    """The message of y ~ N(z, s) is (y, 1) / s; no N/S, for the others' messages are remembered."""
    sites = after(1, memory=True, step_size=constant(0.3))[0].posterior["z"]
    np.testing.assert_allclose(sites.precision, 0.3 / VARIANCE * np.array([1, 0, 1, 0]), rtol=1e-5)
    np.testing.assert_allclose(sites.linear, 0.3 / VARIANCE * np.array([0.5, 0, 2.0, 0]), rtol=1e-5)


def test_padding_sends_no_message_and_counts_in_no_scale():
    """N/S = 4/2 times the messages of two sites; that of the third row, padding, is left out."""
    batch = vi.Minibatch(
        {"site": np.array([0, 2, 1]), "y": np.array([0.5, 2.0, 9.0])}, 4, np.float32([1, 1, 0])
    )
    sites = after(1, batch, step_size=constant(0.3))[0].posterior["z"]
    np.testing.assert_allclose(
        sites.precision, 2 * 0.3 / VARIANCE * np.array([1, 0, 1, 0]), rtol=1e-5
    )
    np.testing.assert_allclose(
        sites.linear, 2 * 0.3 / VARIANCE * np.array([0.5, 0, 2.0, 0]), rtol=1e-5
    )


def test_some_of_the_sites_are_not_all_of_them():
    """A model that knows N takes bare data, and a minibatch of unknown size, for a part of them."""
    for batch in (PART.data, vi.Minibatch(PART.data, None)):
        sites = after(1, batch, step_size=constant(0.3))[0].posterior["z"]
        np.testing.assert_allclose(
            sites.precision, 2 * 0.3 / VARIANCE * np.array([1, 0, 1, 0]), rtol=1e-5
        )


def test_the_average_is_that_of_the_steps_from_its_first_on():
    states = after(6, wrap=lambda alg: vi.averaged(alg, 2), step_size=constant(0.2))
    expected = np.mean([state.posterior["z"].precision for state in states[2:]], axis=0)
    np.testing.assert_allclose(states[-1].beside["averaged"]["z"].precision, expected, rtol=1e-5)


def test_the_objective_of_a_minibatch_stands_for_the_whole_set():
    """At q = p, where KL is 0: N/S times E log N(y; z, s) = -(log 2 pi s + (y^2 + 1) / s) / 2, z ~
    N(0, 1)."""
    alg = vi.pg_svi(SITES)
    state = alg.init(KEY)
    got = jax.jit(alg.step)(KEY, state, PART)[1].elbo
    v = float(state.posterior["z"].marginals().variance[0])
    each = -0.5 * (np.log(2 * np.pi * VARIANCE) + (np.array([0.5, 2.0]) ** 2 + v) / VARIANCE)
    np.testing.assert_allclose(got, 2 * each.sum(), rtol=1e-5)


@pytest.mark.parametrize(
    "rule", [backtracking(), backtracking(0.9, shrink=0.1, grow=5.0), backtracking(0.2, grow=1.0)]
)
def test_a_search_begins_where_the_last_one_ended_and_higher_only_after_a_first_trial_that_served(
    rule,
):
    """beta is shrunk once for each refusal; of steps whose first trial served the next begins at
    `grow` times it."""
    beta = lambda rho: rho / (1 - rho)
    with jax.enable_x64(True):
        last, expected = jnp.float64(0.0), beta(rule.initial)
        for t, refusals in enumerate([0, 2, 0, 1, 3, 0, 0, 1, 1, 2]):
            first = rule.first(last, jnp.int32(t))
            np.testing.assert_allclose(beta(first), expected, rtol=1e-9)
            expected *= rule.shrink**refusals
            serves = lambda size, most=expected: beta(size) <= most * 1.001
            _, used, refused = rule.search(lambda size: size, serves, jnp.float64(-1.0), first)
            assert int(refused) == refusals
            np.testing.assert_allclose(beta(used), expected, rtol=1e-9)
            last = rule.next(used, refused)
            expected *= rule.grow if refusals == 0 else 1.0


@pytest.mark.parametrize("grow", [1.0, 2.0, 1e9])
def test_however_long_sizes_have_grown_a_refused_trial_is_followed_by_a_smaller_one(grow):
    rule = backtracking(0.9, grow=grow)
    rho = jnp.float32(rule.initial)
    for _ in range(40):
        rho = rule.next(rho, jnp.int32(0))
    _, used, refused = rule.search(
        lambda size: size, lambda size: size < 0.3, jnp.float32(-1.0), rho
    )
    assert int(refused) < rule.max_trials
    assert 0.1 < float(used) < 0.3


def test_where_every_trial_lowers_the_objective_no_step_is_taken():
    current = vi.sites.Sites(jnp.ones(2), jnp.ones(2))
    worse = lambda rho: tree.scale(1 + rho, current)
    serves = lambda sites: no_lower(-jnp.sum(sites.precision), jnp.float32(-2.0))
    sites, rho, refused = backtracking(max_trials=3).search(
        worse, serves, current, jnp.float32(0.5)
    )
    assert int(refused) == 3
    np.testing.assert_allclose(rho, 1 / 9, rtol=1e-6)  # beta 1, 1/2, 1/4, 1/8
    np.testing.assert_array_equal(sites.precision, current.precision)


def test_the_score_function_of_an_expectation_is_unbiased_at_two_draws():
    """l = z^3 / 3 + z^2 at N(.3, .5): E l' = m^2 + v + 2 m, E l'' = 2 m + 2. A baseline of n halves
    both."""
    m, v, likelihood = jnp.array([0.3]), jnp.array([0.5]), lambda y, z: z**3 / 3 + z**2
    estimate = vi.expectation.score_function(2)
    one = lambda key: estimate(likelihood, jnp.zeros(1), m, v, key)[1:]
    slope, curvature = (np.ravel(x) for x in jax.jit(jax.vmap(one))(jax.random.split(KEY, 40_000)))
    for draws, exact in ((slope, 0.09 + 0.5 + 0.6), (curvature, 2.6)):
        error = draws.std() / np.sqrt(draws.size)
        assert error < 0.1 * exact
        assert abs(draws.mean() - exact) < 6 * error


def test_bohnings_bound_is_as_tight_as_bohnings():
    """Its curvature at K classes is -(I - 11'/K) / 2, and at m = 0, V = 0 its value that of the
    likelihood."""
    lik, m = vi.likelihood.softmax(3), np.zeros((1, 3), np.float32)
    bohning = jax.jit(lambda y, m, cov: vi.expectation.bohning()(lik, y, m, cov, None))
    moments = bohning(np.array([[0, 1, 0]]), m, np.eye(3, dtype=np.float32)[None])
    np.testing.assert_allclose(moments.curvature[0], -0.5 * (np.eye(3) - 1 / 3), atol=1e-6)
    np.testing.assert_allclose(moments.value[0], -np.log(3.0) - 0.5, rtol=1e-6)


# --- small steps ----------------------------------------------------------------------------------
@pytest.mark.parametrize("start", [9e5, 1.1e6])
def test_small_steps_stop_within_the_stated_distance(start):
    """`vijax.step_size`: 2e-7 / rho, relatively, in float32; nothing to speak of in float64."""
    run = jax.jit(
        lambda x, y, rho: jax.lax.fori_loop(0, 400_000, lambda _, x: tree.mix(rho, x, y), x)
    )
    for rho in (1e-3, 1e-4):
        gap = abs(float(run(jnp.float32(start), jnp.float32(1e6), jnp.float32(rho))) / 1e6 - 1)
        assert gap <= 2e-7 / rho
    with jax.enable_x64(True):
        gap = abs(float(run(jnp.float64(start), jnp.float64(1e6), jnp.float64(1e-4))) / 1e6 - 1)
    assert gap < 1e-11

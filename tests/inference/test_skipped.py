"""Steps that are not finite are skipped, counted and told: by the state, the status, a warning, an
error."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import vijax as vi
from vijax.contract.batch import Minibatch

KEY = jax.random.key(0)
ROOT = jax.custom_jvp(
    lambda x: x
)  # the value of x, and no derivative that is a number, as of where(ok, sqrt(0), x)
ROOT.defjvp(lambda x, dx: (x[0], jnp.nan * dx[0]))


def coin(read=lambda y: y, **choices):
    bound = lambda s, y, key: (read(y) * s["bias"].log + (1 - y) * s["bias"].log1m, None)
    return vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(2.0, 3.0)}), local_elbo=bound, **choices
    )


def untouched(fit):
    return [float(fit.posterior["bias"].alpha), float(fit.posterior["bias"].beta)] == [2.0, 3.0]


@dataclasses.dataclass(frozen=True)
class Stream:
    """Batches of ten groups of data; those of the steps in `bad` hold a NaN."""

    bad: tuple[int, ...]
    num_groups: int = 10
    num_words: None = None
    steps_per_epoch: int = 5

    def batches(self, start, stop):
        for step in range(start, stop):
            y = (np.random.default_rng(step).random(2) < 0.7).astype(np.float32)
            y[0] = np.nan if step in self.bad else y[0]
            yield Minibatch(y, np.float32(10))


def test_a_gradient_that_is_not_finite_is_a_skipped_step_and_no_retraction():
    """The bound itself is finite: only the message tells."""
    broken = vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(2.0, 3.0)}),
        local_elbo=lambda s, y, key: (y * ROOT(s["bias"].log), None),
    )
    alg = vi.cavi(broken)
    state, info = jax.jit(alg.step)(KEY, alg.init(KEY), jnp.ones(4))
    assert np.isfinite(info.elbo)
    assert [int(x) for x in (info.result, info.non_finite, info.retractions)] == [
        vi.Result.SKIPPED,
        1,
        0,
    ]
    assert [int(x) for x in (state.step, state.num_skipped, state.bad_steps)] == [1, 1, 1]
    for chunk, taken in ((5, 10), (80, 50)):  # a long chunk ends at a multiple of 50, too
        with pytest.raises(
            vi.DivergedError, match=f"diverged.*{taken} of {taken} steps were not finite"
        ) as error:
            vi.fit(alg, np.ones(4), key=KEY, num_steps=120, steps_per_chunk=chunk)
        assert untouched(error.value.fit)
        assert len(error.value.fit.trace["step"]) == taken


@pytest.mark.parametrize("steps", [1, 5])
def test_a_short_run_of_nothing_but_skipped_steps_is_not_finished(steps):
    broken = coin(lambda y: jnp.log(y - 2.0))
    fit = lambda throw: vi.fit(vi.cavi(broken), np.ones(4), key=KEY, num_steps=steps, throw=throw)
    with pytest.warns(
        vi.SkippedStepsWarning, match=f"^{steps} of {steps} steps were not finite and were skipped"
    ):
        result = fit(throw=False)
    assert result.status is vi.Status.MOSTLY_SKIPPED
    assert result.num_skipped == steps
    assert result.outcome.endswith(
        f"({steps} of {steps} steps were not finite and were skipped, in gradients of bias)"
    )
    assert untouched(result)
    with pytest.raises(vi.DivergedError, match=f"failed: most steps .*{steps} of {steps}"):
        fit(throw=True)


def test_where_a_bad_run_on_minibatches_ends_is_no_matter_of_chunks():
    """Step 60 is inside of a chunk of 40 steps, because those before it were fast."""
    alg, data = vi.svi(coin(lambda y: jnp.log(y - 2.0))), np.ones(8)
    with pytest.warns(vi.SkippedStepsWarning, match="^60 of 60 steps"):
        fit = vi.fit(alg, data, key=KEY, num_steps=100, batch_size=2, max_bad_steps=55, throw=False)
    assert (fit.status, int(fit.state.step), len(fit.trace["elbo"])) == (vi.Status.DIVERGED, 60, 60)


def test_skipped_steps_are_counted_over_all_parts_of_a_run():
    alg, data = vi.svi(coin()), Stream(bad=(0, 3, 4, 9))
    clean = lambda **more: vi.fit(alg, data, key=KEY, steps_per_chunk=3, **more)
    with pytest.warns(vi.SkippedStepsWarning, match="^4 of 12 steps"):
        whole = clean(num_steps=12)
    with pytest.warns(vi.SkippedStepsWarning, match="^3 of 7 steps"):
        part = clean(num_steps=7)
    with pytest.warns(vi.SkippedStepsWarning, match="^4 of 12 steps"):
        rest = clean(num_steps=12, state=part.state)
    assert whole.status is rest.status is vi.Status.FINISHED
    assert np.flatnonzero(whole.trace["result"]).tolist() == [0, 3, 4, 9]
    assert np.flatnonzero(whole.trace["non_finite"]).tolist() == [0, 3, 4, 9]
    for a, b in zip(jax.tree.leaves(whole.state), jax.tree.leaves(rest.state), strict=True):
        np.testing.assert_array_equal(a, b)


def test_skipped_steps_in_a_row_are_forgotten_after_a_good_one():
    alg, data = vi.svi(coin()), Stream(bad=(1, 2, 4, 5))
    with pytest.warns(vi.SkippedStepsWarning, match="^4 of 9 steps"):
        fit = vi.fit(alg, data, key=KEY, num_steps=9, steps_per_chunk=3, max_bad_steps=3)
    assert fit.status is vi.Status.FINISHED
    assert int(fit.state.bad_steps) == 0


def test_a_clean_run_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = vi.fit(vi.svi(coin()), Stream(bad=()), key=KEY, num_steps=3)
    assert (fit.num_skipped, fit.outcome) == (0, str(vi.Status.FINISHED))


def test_of_several_restarts_the_best_ones_skipped_steps_count():
    """Restart i starts at bias i: the bound of all but one is not finite, and says so by minus
    infinity or NaN."""
    starts = lambda key, prior: vi.Product(
        {"bias": vi.Beta.from_alpha_beta(jnp.where(jax.random.uniform(key) < 0.5, 1e6, 2.0), 3.0)}
    )

    def bound(s, y, key):
        wild = s["bias"].log1m < -10.0
        return jnp.where(wild, jnp.nan, 1.0) * (y * s["bias"].log + (1 - y) * s["bias"].log1m), None

    model = vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(2.0, 3.0)}), local_elbo=bound, init=starts
    )
    fit = vi.fit(vi.svi(model), np.ones(4), key=KEY, num_steps=12, restarts=4)
    bad = np.isnan(fit.trace["restart_elbo"]).all(axis=0)
    assert 0 < bad.sum() < 4
    assert (fit.num_skipped, fit.status) == (0, vi.Status.FINISHED)


def test_a_gradient_in_a_hyperparameter_counts_too():
    prior = lambda h: vi.Product({"bias": vi.Beta.from_alpha_beta(ROOT(h["a"]), 3.0)})
    model = vi.model(
        prior, lambda s, y, key: (y * s["bias"].log, None), hyper={"a": jnp.float32(2.0)}
    )
    alg = vi.cavi(
        model, learn=vi.learn("a", optimizer=optax.chain(optax.zero_nans(), optax.sgd(0.1)))
    )
    state, info = jax.jit(alg.step)(KEY, alg.init(KEY), jnp.ones(3))
    assert [int(info.result), int(info.non_finite)] == [vi.Result.SKIPPED, 1]
    assert float(state.hyper["a"]) == 2.0


@pytest.mark.parametrize("rule", [None, vi.step_size.constant(0.3)])
def test_proximal_steps_skip_messages_that_are_not_finite(rule):
    """The expectation is finite and its slope is not: backtracking would refuse every trial, and
    stay in silence."""
    own = lambda y, z: -0.5 * (y - ROOT(z)) ** 2
    model = vi.models.glm(np.arange(3.0)[:, None], np.array([0.0, 3.0, 1.0]), own)
    alg = vi.pg_svi(model, step_size=rule)
    with pytest.warns(vi.SkippedStepsWarning, match="^3 of 3 steps"):
        fit = vi.fit(alg, model.data, key=KEY, num_steps=3, throw=False)
    assert fit.status is vi.Status.MOSTLY_SKIPPED
    assert np.all(np.isfinite(fit.trace["elbo"]))
    assert set(fit.trace["bad_group"].tolist()) == {0}
    assert np.all(fit.trace["non_finite"] == 6)  # slope and curvature of three sites
    assert not np.any(fit.posterior["z"].precision)


def kept(state):
    """All of a state but what counts its steps."""
    return state._replace(step=None, bad_steps=None, num_skipped=None, penalty=None)


BY_HYPER = vi.model(
    {"bias": vi.Beta.from_alpha_beta(2.0, 3.0)},
    lambda s, y, key, hyper: (y * s["bias"].log + (1 - y) * s["bias"].log1m + hyper["a"], None),
    hyper={"a": jnp.float32(2.0)},
)
LARGE = vi.model(
    {"bias": vi.Beta.from_alpha_beta(np.float32(2e38), 3.0)},
    lambda s, y, key: (y * s["bias"].log, None),
)
OVERSHOOTS = {
    "prior and message are too large together": (LARGE, np.float32([1e38, 1e38]), {}),
    "plain gradients": (
        coin(),
        np.ones(40),
        {"update": vi.update.euclidean(), "step_size": vi.step_size.beta(3e38)},
    ),
    "an optimiser": (coin(), np.ones(40), {"update": vi.update.descend(optax.sgd(1e38))}),
    "a point alone": (BY_HYPER, np.ones(40), {"learn": vi.learn("a", optimizer=optax.sgd(1e38))}),
    "a positive point to zero": (
        BY_HYPER,
        np.ones(40),
        {"learn": vi.learn("a", optimizer=optax.sgd(-2.0))},
    ),
}


@pytest.mark.parametrize("name", OVERSHOOTS)
def test_a_step_that_overshoots_to_infinity_or_zero_is_skipped(name):
    """Bound and gradients are finite: only where the step leads tells."""
    model, data, choices = OVERSHOOTS[name]
    alg = vi.cavi(model, **choices)
    state, step = alg.init(KEY), jax.jit(alg.step)
    new, info = step(KEY, state, data)
    assert (int(info.non_finite), int(info.bad_group), int(info.bad_variable)) == (0, -1, -1)
    assert (int(info.result), int(info.retractions)) == (vi.Result.SKIPPED, 0)
    assert (int(new.step), int(new.num_skipped), int(new.bad_steps)) == (1, 1, 1)
    for a, b in zip(jax.tree.leaves(kept(state)), jax.tree.leaves(kept(new)), strict=True):
        np.testing.assert_array_equal(b, a)


PADDED = np.array([0, 0, 1, 1, 0, 1, 0], np.float32)  # padding before, between and after


def of_bad_padding(model):
    """The model whose bounds of padding are none."""

    def bound(hyper, stats, batch, key, estep):
        said = model.local_elbo(hyper, stats, batch, key, estep)
        return said._replace(
            per_group=jnp.where(jnp.asarray(batch.weights) > 0, said.per_group, jnp.nan)
        )

    return dataclasses.replace(model, local_elbo=bound)


@pytest.mark.parametrize(
    "change", [lambda model: model, of_bad_padding], ids=["filled", "not finite"]
)
def test_the_group_named_is_the_first_that_counts(change):
    """Padding is filled with a row that counts, and so bad where that is; or bad as it is."""
    alg = vi.svi(change(coin(lambda y: jnp.log(y))))
    state, step = alg.init(KEY), jax.jit(alg.step)
    for bad in [(), (2,), (3,), (5,), (3, 5), (2, 3, 5)]:
        y = np.ones(7, np.float32)
        y[list(bad)] = -1.0
        _, info = step(KEY, state, Minibatch(y, 12.0, PADDED))
        assert int(info.bad_group) == min(bad, default=-1)
        assert int(info.result) == (vi.Result.SKIPPED if bad else vi.Result.OK)

"""Wrappers of algorithms: what they keep, in which order they may stand, and that equal ones are
one."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from tests.topics.test_lazy import CORPUS, lda
from vijax.data.loader import as_loader
from vijax.inference.wrappers.wrapper import Wrapper, find_wrapper, wrap

KEY = jax.random.key(0)
COIN = vi.model(
    prior={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)},
    local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
)
HALF = vi.step_size.constant(0.5)
Y = np.array([1.0, 0.0, 1.0, 1.0], np.float32)


def mixture():
    """Made anew at each call: only those made last are one object with what comes out of a
    pickle."""
    return vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1))


def names(alg):
    return [own.name for own in alg.wrappers]


@pytest.mark.parametrize(
    ("make", "again"),
    [
        (lambda: vi.averaged(vi.svi(mixture()), 3), None),
        (lambda: vi.warm(vi.svi(lda())), None),
        (lambda: vi.over_axis(vi.svi(mixture()), "data"), None),
        (lambda: vi.part_of(vi.svi(mixture()), 9), lambda: vi.svi(mixture(), num_groups=9)),
        (lambda: vi.whole(vi.svi(mixture())), None),
        (
            lambda: vi.topics.by_words(vi.warm(vi.ssvi_a(lda(), penalty_every=7)), penalty_every=7),
            lambda: vi.topics.by_words(vi.warm(vi.ssvi_a(lda(), penalty_every=7))),
        ),
        (lambda: vi.topics.by_words(vi.svi(lda()), active=2, left_out=0.25), None),
    ],
)
def test_equal_wrapped_algorithms_are_one_object(make, again):
    """So that nothing is compiled for the second, also where it comes out of a pickle."""
    alg = make()
    for other in ((again or make)(), pickle.loads(pickle.dumps(alg))):
        assert other.step is alg.step
        assert other.init is alg.init
        assert other.wrappers == alg.wrappers


def test_wrappers_keep_their_own_side_by_side():
    """A mean of posteriors around warm starts: one step from a known state, and the step inside
    knows of neither."""
    alg = vi.averaged(vi.warm(vi.svi(lda(), step_size=HALF)), after=0)
    assert names(alg) == ["warm", "averaged"]
    batch = next(iter(as_loader(CORPUS, lda(), 5, 0).batches(0, 1)))
    state = jax.eval_shape(lambda key: alg.init(key, batch), KEY)
    assert sorted(state.beside) == ["averaged", "warm"]
    assert state.local is None
    new, _ = jax.eval_shape(alg.step, KEY, state, batch)
    assert jax.tree.structure(new) == jax.tree.structure(state)


def test_the_order_of_warm_starts_and_steps_by_words_does_not_matter():
    model = lda()
    algs = [vi.warm(vi.topics.by_words(vi.svi(model))), vi.topics.by_words(vi.warm(vi.svi(model)))]
    assert [names(alg) for alg in algs] == [["by_words", "warm"], ["warm", "by_words"]]
    fits = [vi.fit(alg, CORPUS, batch_size=5, num_steps=10, key=KEY) for alg in algs]
    for a, b in zip(*(jax.tree.leaves(fit.state) for fit in fits), strict=True):
        np.testing.assert_array_equal(a, b)


def test_numbers_that_a_model_says_are_in_the_trace():
    def bound(hyper, stats, batch, key, estep):
        told = COIN.local_elbo(hyper, stats, batch, key, estep)
        return told._replace(said={"ones": jnp.sum(batch.data)})

    model = vi.Model(COIN.hyper, COIN.prior, bound, COIN.init)
    fit = vi.fit(vi.cavi(model), Y, num_steps=2, key=KEY)
    np.testing.assert_array_equal(fit.trace["ones"], [3.0, 3.0])
    np.testing.assert_allclose(
        fit.trace["elbo"], vi.fit(vi.cavi(COIN), Y, num_steps=2, key=KEY).trace["elbo"]
    )


class Halved(Wrapper):
    """Half of each number, on the host."""

    name = "halved"

    def loader(self, loader, alg):
        """See `Wrapper`."""
        return Halves(loader)


class Halves:
    """The batches of another loader, half as large."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def batches(self, start, stop):
        """See `vijax.data.loader.Loader`."""
        return (batch._replace(data=0.5 * batch.data) for batch in self.inner.batches(start, stop))


def test_a_wrapper_of_ones_own_changes_what_a_fit_reads():
    fit = vi.fit(wrap(vi.cavi(COIN), Halved()), Y, num_steps=2, key=KEY)
    np.testing.assert_allclose(
        [fit.posterior["bias"].alpha, fit.posterior["bias"].beta], [1 + 1.5, 1 + 2.5]
    )


# --- what bare data are ---------------------------------------------------------------------------
def test_bare_data_are_what_the_wrapper_says():
    """A minibatch says its own N."""
    alg = vi.compose(COIN, step_size=HALF)
    state = jax.eval_shape(alg.init, KEY)
    with pytest.raises(ValueError, match=naming("batch:", "vijax.Minibatch", "vijax.part_of")):
        alg.step(KEY, state, Y)
    shown = vi.Algorithm(alg.init, lambda key, state, batch: (state, batch), alg.spec)
    for sized, num_groups in ((vi.whole(shown), None), (vi.part_of(shown, 8), 8)):
        assert [sized.step(KEY, state, y)[1].num_groups for y in (Y, vi.Minibatch(Y, 40.0))] == [
            num_groups,
            40.0,
        ]
    with pytest.raises(ValueError, match=r"^num_groups: expected a positive number"):
        vi.part_of(alg, 0)
    topics, counts = vi.svi(lda(), num_groups=64), np.ones((4, 6), np.float32)
    state = jax.eval_shape(topics.init, KEY)
    with pytest.raises(
        ValueError,
        match=naming("batch:", "vijax.Documents", "4", "6"),
    ):
        jax.eval_shape(topics.step, KEY, state, counts)


# --- what is refused ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: vi.averaged(vi.averaged(vi.svi(COIN), 1), 2),
            r"^averaged: expected one such wrapper, got two",
        ),
        (lambda: vi.whole(vi.cavi(COIN)), r"^sized: expected one such wrapper"),
        (lambda: vi.warm(vi.svi), r"^alg: expected an algorithm such as .* got function"),
        (lambda: vi.over_axis(COIN, "data"), r"^alg: expected an algorithm such as"),
        (
            lambda: vi.averaged(vi.topics.by_words(vi.svi(lda())), 2),
            r"^averaged: .* without by_words",
        ),
        (
            lambda: vi.topics.by_words(vi.averaged(vi.svi(lda()), 2)),
            r"^by_words: .* without averaged",
        ),
        (
            lambda: vi.over_axis(vi.warm(vi.svi(lda())), "data"),
            r"^warm: expected an algorithm without over_axis",
        ),
        (
            lambda: vi.warm(vi.topics.by_words(vi.svi(lda()), active=2)),
            r"^warm: expected an algorithm without by_words, got ByWords\(active=2",
        ),
        (
            lambda: vi.fit(vi.cavi(COIN), Y, num_steps=1, key=KEY).average,
            r"^average: expected one that was kept",
        ),
    ],
)
def test_what_cannot_be_wrapped_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_states_of_other_wrappers_are_told():
    plain, mean = vi.svi(COIN, num_groups=9), vi.averaged(vi.svi(COIN, num_groups=9), 0)
    state = plain.init(KEY)
    with pytest.raises(ValueError, match=naming("state:", "'averaged'")):
        mean.step(KEY, state, Y)
    with pytest.raises(ValueError, match=r"^step: .*state and key swapped"):
        mean.step(mean.init(KEY), KEY, Y)
    assert find_wrapper(mean, type(mean.wrappers[-1])) is mean.wrappers[-1]
    assert find_wrapper(plain, type(mean.wrappers[-1])) is None


def test_a_fit_goes_on_without_what_its_wrappers_do_not_keep():
    first = vi.fit(vi.averaged(vi.svi(COIN), 0), Y, num_steps=2, key=KEY)
    on = vi.fit(vi.svi(COIN), Y, num_steps=4, key=KEY, state=first.state)
    assert on.state.beside == {}
    assert int(on.state.step) == 4

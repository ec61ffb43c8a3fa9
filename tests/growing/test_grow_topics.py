"""Births, merges and deletes of topics: parts by hand, and runs on bars."""

import jax
import numpy as np
import pytest
from scipy.special import digamma, gammaln

import vijax as vi
from tests import programs
from tests.naming import naming
from vijax.growing import documents, laps
from vijax.growing.present import Present, begin
from vijax.growing.task import prepare


def make(k: int) -> vi.Model:
    return vi.models.hdp(k, 9, eta=0.1)


def bars(seed: int, num: int = 60) -> np.ndarray:
    """Documents of 60 words of six topics, the rows and columns of 3 x 3 words."""
    rng = np.random.default_rng(seed)
    shapes = (
        np.concatenate([np.kron(np.eye(3), np.ones((1, 3))), np.kron(np.ones((1, 3)), np.eye(3))])
        + 0.01
    )
    topics = shapes / shapes.sum(1, keepdims=True)
    return np.stack([rng.multinomial(60, p) for p in rng.dirichlet(np.full(6, 0.2), num) @ topics])


@pytest.fixture(scope="module")
def growth() -> Present:
    """Three topics of eight slots, after a few laps."""
    return begin(*prepare(make, vi.cavi, bars(0), 8, 8, 5), jax.random.key(0), 3)


def words_of(growth: Present) -> tuple[np.ndarray, np.ndarray]:
    """log x, and the expected number of words of each topic in each document; as laps keep them."""
    a, b = (np.asarray(x, np.float64) for x in jax.tree.leaves(growth.posterior["sticks"]))
    left = np.cumsum(digamma(b) - digamma(a + b))
    log_x = digamma(a) - digamma(a + b) + np.append(0, left[:-1])
    words = np.concatenate([np.asarray(n[0], np.float64) for n in growth.local])
    weights = np.concatenate([np.asarray(docs.weights[0]) for docs in growth.task.batches.data])
    return log_x, words[weights > 0]


def test_documents_gain_by_a_merge_what_their_terms_gain(growth: Present) -> None:
    log_x, n = words_of(growth)

    def total(log_x: float, n: np.ndarray) -> float:
        many = gammaln(np.exp(log_x) + n) - gammaln(np.exp(log_x))
        return float(np.where(n < 1, n * log_x, many).sum())

    found = np.asarray(documents.merge_terms(growth.setting.alg, growth.posterior, growth.data))
    for i, j in [(0, 1), (2, 0), (1, 5)]:
        alone = total(log_x[i], n[:, i]) + total(log_x[j], n[:, j])
        wanted = total(float(np.logaddexp(log_x[i], log_x[j])), n[:, i] + n[:, j]) - alone
        np.testing.assert_allclose(found[i, j], wanted, rtol=1e-3, atol=0.05)


@pytest.mark.parametrize(("number", "alone"), [(1, False), (1, True), (2, False)])
def test_a_birth_divides_the_words_of_topics(growth: Present, number: int, alone: bool) -> None:
    """The topics of the small model hold as many words as documents have of these topics."""
    slots = growth.used[:number]
    small = growth.task.small(2)
    given = (
        growth.task.axes,
        growth.posterior,
        growth.data,
        jax.random.key(1),
        np.isin(np.arange(8), slots),
        alone,
        5,
    )
    q, sizes = documents.divide_topics(growth.setting.alg, small, *given)
    words = np.asarray(jax.tree.leaves(q["topics"])[0], np.float64) - 0.1
    assert words.sum() == pytest.approx(words_of(growth)[1][:, slots].sum(), rel=0.1)
    assert np.all(np.asarray(sizes) > 0)


def test_topics_are_near_that_documents_have_together(growth: Present) -> None:
    n = words_of(growth)[1]
    n = n[:, n.sum(0) > 1e-3]
    found = np.asarray(documents.nearness(growth.data))[: n.shape[1], : n.shape[1]]
    np.testing.assert_allclose(
        found, n.T @ n / np.outer(*2 * [np.linalg.norm(n, axis=0)]), rtol=1e-4
    )


def test_memoized_laps_report_the_bound_of_cavi() -> None:
    """At their end, at their globals and words of each topic: a lap of `cavi` finds next to no
    more."""
    memoized = lambda model: vi.memoized(model, num_parts=3)
    parts = begin(*prepare(make, memoized, bars(0), 8, 8, 200), jax.random.key(0), 3)
    flat = lambda x: x.reshape(1, -1, *x.shape[2:])
    _, setting = prepare(make, vi.cavi, bars(0), 8, 8, 1)
    batches = documents.merge_batches(parts.task.batches)
    batches = jax.tree.map(lambda x: x[None], batches)._replace(
        local=jax.tree.map(flat, parts.local)
    )
    again = laps.climb(setting.alg, parts.posterior, batches, jax.random.key(0), -np.inf, 1, 1)
    np.testing.assert_allclose(parts.elbo, again.elbo, rtol=2e-5)


def check_bars(fit: vi.Fit) -> None:
    assert fit.trace["in_use"][-1] == 6
    means = np.asarray(fit.posterior["topics"].mean())[:6]
    shapes = (
        np.concatenate([np.kron(np.eye(3), np.ones((1, 3))), np.kron(np.ones((1, 3)), np.eye(3))])
        / 3
    )
    distance = np.abs(means[:, None] - shapes).sum(-1)
    assert distance.min(0).max() < 1 / 3  # bars are 4/3 apart, or 2


@pytest.mark.slow
@pytest.mark.parametrize("start", [1, 12])
def test_bars_are_found(start: int) -> None:
    """From one topic, and from many; the bound never falls; data of the same shape compile nothing
    again."""
    fit = vi.grow(make, bars(0), key=jax.random.key(0), start=start)
    elbo = fit.trace["elbo"]
    assert np.all(np.diff(elbo) >= -1e-6 * np.abs(elbo[1:]))
    seen = programs.compiled()
    vi.grow(make, bars(0), key=jax.random.key(0), start=start)
    assert programs.names_since(seen) == []
    check_bars(fit)
    if start == 1:  # else it ends with seven, two bars of them in pieces
        together = np.char.find(fit.trace["components"], " ") > 0
        assert np.any(fit.trace["accepted"] & together & (fit.trace["move"] == "birth"))


@pytest.mark.slow
def test_bars_are_found_by_memoized_laps() -> None:
    check_bars(
        vi.grow(
            make,
            bars(0),
            key=jax.random.key(0),
            algorithm=lambda model: vi.memoized(model, num_parts=3),
        )
    )


def test_other_models_of_documents_are_refused() -> None:
    with pytest.raises(ValueError, match=naming("make:", "vijax.models.hdp")):
        vi.grow(lambda k: vi.models.lda(k, 9), bars(0), key=jax.random.key(0))

"""Births, merges and deletes: small cases by hand in float64, and what a run must keep."""

import dataclasses
import signal
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln, digamma, logsumexp

import vijax as vi
from tests import programs
from tests.naming import naming
from vijax import tree
from vijax.growing import laps
from vijax.growing.moves import try_entries
from vijax.growing.present import begin, settle
from vijax.growing.proposals import merge_gains
from vijax.growing.slots import slot_axes
from vijax.growing.task import prepare
from vijax.growing.trials import Record, try_candidate
from vijax.inference.compose import build_algorithm
from vijax.inference.step import initial_state
from vijax.models.emission import bernoulli, unit_gaussian
from vijax.xla.precision import enable_x64


def line(k: int) -> vi.Model:
    return vi.models.dp_mixture(unit_gaussian(k, dim=1))


def clusters(seed: int = 0) -> np.ndarray:
    """Three of thirty points each."""
    return (
        np.random.default_rng(seed).normal(size=(90, 1)) + np.repeat([-9.0, 0.0, 9.0], 30)[:, None]
    )


def parameters(q: Any, name: str) -> list[np.ndarray]:
    """alpha and beta."""
    return list(map(np.asarray, jax.tree.leaves(q[name])))


@pytest.fixture(scope="module")
def grown() -> vi.Fit:
    """From one component, in three slots: they are doubled."""
    return vi.grow(line, clusters(), key=jax.random.key(0), slots=3, patience=1)


def test_clusters_are_found_from_one_component(grown: vi.Fit) -> None:
    assert grown.trace["in_use"][[0, -1]].tolist() == [1, 3]
    means = np.asarray(grown.posterior["components"].mean())[:3, 0]
    wanted = np.sort([x.mean() * 30 / 30.01 for x in clusters().reshape(3, 30)])
    np.testing.assert_allclose(
        np.sort(means), wanted, atol=1e-3
    )  # where laps ended; the posterior's sd is .18
    counts = np.asarray(parameters(grown.posterior, "sticks")[0]) - 1
    np.testing.assert_allclose(counts[:3], 30, rtol=1e-4)
    assert grown.trace["move"][[0, -1]].tolist() == ["start", "end"]
    assert grown.trace["slots"][[0, -1]].tolist() == [3, 6]


def test_the_bound_never_falls_and_is_that_of_cavi(grown: vi.Fit) -> None:
    elbo = grown.trace["elbo"]
    assert np.all(np.diff(elbo) >= -1e-6 * np.abs(elbo[1:]))
    births = (grown.trace["move"] == "birth") & grown.trace["accepted"]
    assert births.sum() >= 2
    assert np.all(grown.trace["gain"][births] > 10)
    again = vi.fit(
        vi.cavi(line(6)),
        clusters(),
        num_steps=1,
        state=grown.state._replace(step=jnp.int32(0)),
        key=jax.random.key(0),
    )
    np.testing.assert_allclose(again.elbo, elbo[-1], rtol=1e-6)


def test_slots_without_data_are_dropped_where_that_is_asked(grown: vi.Fit) -> None:
    """The bound is that of `cavi` in as many slots, and higher: the stick of the last slot is
    certain."""
    fit = vi.grow(line, clusters(), key=jax.random.key(0), slots=3, patience=1, trim=True)
    assert fit.trace["slots"][-2:].tolist() == [6, 3]
    assert fit.trace["in_use"][-1] == 3
    means = np.asarray(fit.posterior["components"].mean())[:, 0]
    np.testing.assert_allclose(
        means, np.asarray(grown.posterior["components"].mean())[:3, 0], atol=1e-3
    )
    begun = fit.state._replace(step=jnp.int32(0))
    again = vi.fit(vi.cavi(line(3)), clusters(), num_steps=1, state=begun, key=jax.random.key(0))
    np.testing.assert_allclose(again.elbo, fit.elbo, rtol=1e-6)
    assert fit.elbo > grown.elbo


def test_laps_alone_are_no_gain() -> None:
    """The present fit itself as a candidate, before it has settled: equally many laps take both to
    the same bound."""
    y = np.random.default_rng(1).normal(size=(90, 1)) + np.repeat([-1.0, 0.0, 1.0], 30)[:, None]
    growth = begin(*prepare(line, vi.cavi, y, 6, 6, 3), jax.random.key(0), 3)
    record = Record()
    after, accepted = try_candidate(growth, record, "sort", (), growth.posterior, np.eye(6))
    assert not accepted
    assert after.elbo > growth.elbo + 1e-3  # the laps did climb
    assert record.proposals[-1].gain == 0


def test_a_run_is_determined_by_its_key_and_compiles_once(grown: vi.Fit) -> None:
    seen: list = []
    again = vi.grow(
        line, clusters(), key=jax.random.key(0), slots=3, patience=1, callbacks=[seen.append]
    )
    before = (
        programs.compiled()
    )  # not before the fixture: between two tests tests/memory.py may let go of programs
    other = vi.grow(line, clusters(1), key=jax.random.key(1), slots=3, patience=1)
    assert programs.names_since(before) == []
    for name, x in grown.trace.items():
        np.testing.assert_array_equal(x, again.trace[name])
    assert other.trace["in_use"][-1] == 3
    assert len(seen) == len(again.trace["move"])
    assert "birth of 0: accepted" in str(seen[1])


def test_empty_slots_are_not_in_use_and_a_callback_stops() -> None:
    """From as many components as there are slots."""
    fit = vi.grow(line, clusters(), key=jax.random.key(0), start=6, slots=6, patience=1)
    assert fit.trace["in_use"][-1] == 3
    stopped = vi.grow(
        line,
        clusters(),
        key=jax.random.key(0),
        start=6,
        slots=6,
        patience=1,
        callbacks=[lambda p: p.move != "start"],
    )
    assert stopped.status is vi.Status.STOPPED
    assert len(stopped.trace["move"]) == 3


def test_ctrl_c_lets_the_move_under_way_finish() -> None:
    """Wherever Python hears it: an exception would be lost where it came in the garbage
    collector."""
    press = lambda p: p.accepted and p.move == "birth" and signal.raise_signal(signal.SIGINT)
    fit = vi.grow(line, clusters(), key=jax.random.key(0), callbacks=[press])
    assert fit.status is vi.Status.INTERRUPTED
    assert fit.trace["move"].tolist() == ["start", "birth", "end"]
    assert np.isfinite(fit.trace["elbo"][-1])


# --- small cases by hand --------------------------------------------------------------------------
def bound_of(resp: np.ndarray, y: np.ndarray, alpha: float) -> float:
    """log-normalisers of the optimal globals, less those of the prior, plus the entropy of the
    classes."""
    counts = resp.sum(0)
    after = np.cumsum(counts[::-1])[::-1][1:]
    ones = resp.T @ y
    parts = betaln(1 + ones, 1 + counts[:, None] - ones).sum() - betaln(1, 1) * ones.size
    sticks = np.sum(betaln(1 + counts[:-1], alpha + after) - betaln(1, alpha))
    return float(
        parts + sticks - np.sum(np.where(resp > 0, resp * np.log(np.maximum(resp, 1e-300)), 0.0))
    )


def naturals_of(resp: np.ndarray, y: np.ndarray, alpha: float) -> vi.Product:
    counts, ones = resp.sum(0), resp.T @ y
    after = np.cumsum(counts[::-1])[::-1][1:]
    sticks = vi.Beta(jnp.asarray(1 + counts[:-1]), jnp.asarray(alpha + after))
    return vi.Product(
        {
            "components": vi.Beta(jnp.asarray(1 + ones), jnp.asarray(1 + counts[:, None] - ones)),
            "sticks": sticks,
        }
    )


def bound_at(q: vi.Product, y: np.ndarray, alpha: float) -> float:
    """The bound at these globals, the classes optimal, from the densities themselves."""
    (a, b), (v, w) = (parameters(q, name) for name in ("components", "sticks"))
    log, log1m = digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)
    stick, rest = digamma(v) - digamma(v + w), digamma(w) - digamma(v + w)
    weights = np.append(stick, 0) + np.append(0, np.cumsum(rest))
    data = logsumexp(weights + y @ log.T + (1 - y) @ log1m.T, axis=1).sum()
    kl = lambda log, log1m, a, b, c, d: np.sum(
        (a - c) * log + (b - d) * log1m - betaln(a, b) + betaln(c, d)
    )
    return float(data - kl(log, log1m, a, b, 1, 1) - kl(stick, rest, v, w, 1, alpha))


def test_a_merge_is_that_of_the_responsibilities() -> None:
    """Its globals, its gain, and the bound after it, each recomputed from scratch in float64."""
    rng, alpha = np.random.default_rng(3), 1.7
    y = (rng.uniform(size=(12, 4)) < 0.5).astype(float)
    resp = rng.dirichlet(np.ones(3), size=12)
    merged = np.stack([resp[:, 0] + resp[:, 2], resp[:, 1], 0 * resp[:, 1]], 1)
    with enable_x64(True):
        model, small = (vi.models.dp_mixture(bernoulli(k, 4), concentration=alpha) for k in (3, 2))
        alg = build_algorithm(vi.cavi(model).spec)
        prior, other = (m.prior({"concentration": alpha}) for m in (model, small))
        axes, q = slot_axes(prior, other), naturals_of(resp, y, alpha)
        change = jnp.array([[1.0, 0, 1], [0, 1, 0], [0, 0, 0]])
        found = laps.map_slots(axes, q, prior, change, prior)
        for x, z in zip(
            jax.tree.leaves(found), jax.tree.leaves(naturals_of(merged, y, alpha)), strict=True
        ):
            np.testing.assert_allclose(x, z, rtol=1e-12)
        entropy = lambda r: -np.sum(np.where(r > 0, r * np.log(np.maximum(r, 1e-300)), 0.0))
        gain = (
            bound_of(merged, y, alpha)
            - bound_of(resp, y, alpha)
            - (entropy(merged) - entropy(resp))
        )
        np.testing.assert_allclose(merge_gains(axes, q, prior)[0, 2], gain, rtol=1e-9)
        batch = vi.Minibatch(jnp.asarray(y)[None], jnp.array([12.0]), jnp.ones((1, 12)))
        end = laps.climb(alg, found, batch, jax.random.key(0), -np.inf, 1)
        np.testing.assert_allclose(
            end.elbo, bound_at(naturals_of(merged, y, alpha), y, alpha), rtol=1e-12
        )
        assert bound_at(found, y, alpha) > bound_of(merged, y, alpha)


def test_room_is_made_without_a_change() -> None:
    """Twice the slots: those that were there stay, the others are at their prior."""
    y = (np.random.default_rng(0).uniform(size=(6, 4)) < 0.5).astype(float)
    q = naturals_of(np.eye(2)[[0, 0, 1, 0, 1, 0]], y, 1.0)
    old, new = (
        vi.models.dp_mixture(bernoulli(k, 4)).prior({"concentration": jnp.ones(())}) for k in (2, 4)
    )
    found = laps.map_slots(slot_axes(old, new), q, old, jnp.eye(4, 2), new)
    np.testing.assert_allclose(
        parameters(found, "components")[0][:2], parameters(q, "components")[0]
    )
    np.testing.assert_allclose(parameters(found, "components")[0][2:], 1.0)
    np.testing.assert_allclose(parameters(found, "sticks")[0], [5.0, 3.0, 1.0])
    np.testing.assert_allclose(parameters(found, "sticks")[1], [3.0, 1.0, 1.0])


# --- what is refused ------------------------------------------------------------------------------
def test_what_cannot_grow_is_refused() -> None:
    key = jax.random.key(0)
    with pytest.raises(ValueError, match=naming("algorithm:", "vijax.cavi", "vijax.memoized")):
        vi.grow(line, clusters(), algorithm=vi.svi, key=key)
    with pytest.raises(ValueError, match=naming("start:", "4", "5")):
        vi.grow(line, clusters(), start=5, slots=4, key=key)
    with pytest.raises(
        ValueError,
        match=naming("make:", "another model"),
    ):
        vi.grow(lambda k: vi.models.lda(k, 5), np.ones((5, 5), int), key=key)
    with pytest.raises(ValueError, match=naming("make:", "8 classes", "vijax.models.dp_mixture")):
        vi.grow(lambda k: vi.models.gap_nmf(3, k), np.ones((5, 3)), key=key)
    with pytest.raises(
        ValueError, match=naming("make:", "8 classes", "posterior", "vijax.models.dp_mixture")
    ):
        vi.grow(
            lambda k: vi.models.mixture(unit_gaussian(k, 1), weights=1 / k), clusters(), key=key
        )


# --- chains, other mixtures, memoized laps --------------------------------------------------------
def chain(k: int) -> vi.Model:
    return vi.models.hmm(unit_gaussian(k, dim=1), transition_concentration=1 / k, stickiness=2.0)


def paths() -> np.ndarray:
    """Two sequences, which stay in a state for ten steps."""
    return np.stack([np.repeat([0, 1, 2, 0, 1, 2], 10), np.repeat([2, 1, 0, 1, 2, 0], 10)])


def sequences() -> tuple:
    y = np.random.default_rng(0).normal(size=(2, 60, 1)) + 9.0 * paths()[:, :, None]
    return vi.models.pad(list(y))


def test_states_merge_as_the_paths_do() -> None:
    """Transitions along both axes; the observations of a state are the transitions into it and the
    starts in it."""
    prior, other = (vi.models.hmm(unit_gaussian(k, dim=1)).prior({}) for k in (3, 2))
    axes = slot_axes(prior, other)

    def of_path(path: np.ndarray) -> vi.Product:
        first, pairs = np.eye(3)[path[:, 0]].sum(0), np.zeros((3, 3))
        np.add.at(pairs, (path[:, :-1].ravel(), path[:, 1:].ravel()), 1.0)
        laws = {
            "initial": vi.Dirichlet(jnp.asarray(1 + first)),
            "transition": vi.Dirichlet(jnp.asarray(1 + pairs)),
        }
        return vi.Product({**laws, "components": prior["components"]})

    merged = np.where(paths() == 2, 0, paths())
    change = jnp.array([[1.0, 0, 1], [0, 1, 0], [0, 0, 0]])
    found = laps.map_slots(axes, of_path(paths()), prior, change, prior)
    for x, z in zip(jax.tree.leaves(found), jax.tree.leaves(of_path(merged)), strict=True):
        np.testing.assert_allclose(x, z, rtol=1e-6)
    np.testing.assert_allclose(
        laps.count(axes, found, prior), np.bincount(merged.ravel(), minlength=3)
    )


def test_states_of_a_chain_are_found_from_one() -> None:
    fit = vi.grow(chain, sequences(), key=jax.random.key(0), slots=6, most=6, patience=1)
    assert fit.trace["in_use"][[0, -1]].tolist() == [1, 3]
    assert np.all(np.diff(fit.trace["elbo"]) >= -1e-3)
    means = np.sort(np.asarray(fit.posterior["components"].mean())[:3, 0])
    np.testing.assert_allclose(means, [0, 9, 18], atol=0.5)
    again = vi.fit(
        vi.cavi(chain(6)),
        sequences(),
        num_steps=1,
        state=fit.state._replace(step=jnp.int32(0)),
        key=jax.random.key(0),
    )
    assert again.elbo >= fit.elbo - 1e-3


def test_a_transition_that_no_path_has_is_brought_back() -> None:
    """At a prior of .001 its weight is e^-1000, so laps alone never find it again."""
    make = lambda k: vi.models.hmm(
        unit_gaussian(k, dim=1), transition_concentration=1e-3, stickiness=2.0
    )
    growth = begin(*prepare(make, vi.cavi, sequences(), 6, 6, 100), jax.random.key(0), 3)
    best, q = growth.elbo, growth.posterior
    low, _, high = np.argsort(q["components"].mean()[:3, 0])
    none = jnp.asarray(q["transition"].concentration).at[high, low].set(1e-3)
    posterior = vi.Product({**q, "transition": vi.Dirichlet(none)})
    growth = settle(dataclasses.replace(growth, posterior=posterior, elbo=-np.inf))
    assert growth.elbo < best - 20
    assert growth.posterior["transition"].concentration[high, low] < 0.01
    record = Record()
    growth = try_entries(growth, record)
    assert [x.accepted for x in record.proposals] == [True, False]
    np.testing.assert_allclose(growth.elbo, best, atol=1e-2)
    assert growth.posterior["transition"].concentration[high, low] > 1.9
    assert str(record.proposals[0]).startswith("entries: accepted, +")
    assert (
        growth.posterior["transition"].concentration[3:, :].max() < 2.01
    )  # of states not in use nothing but the prior


def test_laps_may_be_memoized(grown: vi.Fit) -> None:
    algorithm = lambda model: vi.memoized(model, num_parts=3)
    fit = vi.grow(line, clusters(), key=jax.random.key(0), slots=6, patience=1, algorithm=algorithm)
    assert fit.alg.spec.name == "memoized"
    np.testing.assert_allclose(fit.elbo, grown.elbo, rtol=1e-5)  # constants of parts round
    assert fit.trace["in_use"][-1] == 3


def counts() -> np.ndarray:
    """Rows of three Poisson profiles, 24 of each, in turn: every part has all."""
    rates = np.array([[1.0, 20.0], [20.0, 1.0], [20.0, 20.0]])
    return np.random.default_rng(0).poisson(np.tile(rates, (24, 1))).astype(float)


MEMOIZED = {
    "poisson": (lambda k: vi.models.dp_mixture(vi.models.emission.poisson(k, dim=2)), counts, 3),
    "chain": (chain, sequences, 2),
}


@pytest.mark.parametrize("name", MEMOIZED)
def test_memoized_laps_of_other_models_report_the_bound_of_cavi(name: str) -> None:
    """From one component the true three; the bound is that of a step of `cavi` from the same
    posterior."""
    make, draw, parts = MEMOIZED[name]
    algorithm = lambda model: vi.memoized(model, num_parts=parts)
    fit = vi.grow(
        make, draw(), key=jax.random.key(0), slots=6, most=6, patience=1, algorithm=algorithm
    )
    assert fit.trace["in_use"][[0, -1]].tolist() == [1, 3]
    assert np.all(np.diff(fit.trace["elbo"]) >= -1e-6 * np.abs(fit.elbo))
    alg = vi.cavi(make(6))
    begun = initial_state(alg.spec, tree.as_arrays(alg.spec.model.hyper), fit.posterior)
    again = vi.fit(alg, draw(), num_steps=1, state=begun, key=jax.random.key(0))
    np.testing.assert_allclose(fit.elbo, again.elbo, rtol=2e-5)  # constants of parts round


@pytest.mark.parametrize(
    "make",
    [
        lambda k: vi.models.mixture(unit_gaussian(k, dim=1), concentration=0.2),
        lambda k: vi.models.dp_mixture(unit_gaussian(k, dim=1), truncation="tied"),
        lambda k: vi.models.mixture(vi.models.emission.tied_gaussian(k, dim=1), concentration=0.2),
        lambda k: vi.models.dp_mixture(vi.models.emission.diagonal_gaussian(k, dim=1)),
    ],
    ids=["finite", "tied_sticks", "tied_gaussian", "diagonal_gaussian"],
)
@pytest.mark.parametrize("start", [1, 6])
def test_other_mixtures_grow_and_shrink(make: Any, start: int) -> None:
    fit = vi.grow(make, clusters(), key=jax.random.key(0), start=start, slots=6, patience=1)
    assert fit.trace["in_use"][-1] == 3
    elbo = fit.trace["elbo"]
    assert np.all(np.diff(elbo) >= -1e-6 * np.abs(elbo[1:]))

"""Warm starts: an E-step that goes on at a group's next visit is one that was never interrupted."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.esteps import ESTEPS, GOING_ON
from vijax.contract.batch import Minibatch
from vijax.data.loader import as_loader
from vijax.inference.wrappers.beside import Visits, first_visits, starts
from vijax.xla.lapack import jaxprs_in_params

KEY = jax.random.key(0)
CORPUS = vi.data.Corpus.from_counts(np.random.default_rng(2).poisson(0.9, (23, 12)))
STILL = vi.step_size.constant(1e-30)  # the globals stay where they are


def still(model, **choices):
    return vi.warm(vi.svi(model, step_size=STILL, **choices))


def lda(rounds):
    return vi.models.lda(3, 12, estep=vi.estep.mean_field(rounds, 1e-12))


# --- which groups a batch holds -------------------------------------------------------------------
def test_batches_say_which_rows_they_hold():
    y = np.arange(10.0)
    model = vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1))
    for batch in as_loader(y[:, None], model, 4, 0).batches(0, 6):
        real = np.asarray(batch.weights) > 0
        np.testing.assert_array_equal(np.asarray(batch.data)[real, 0], y[batch.rows[real]])
        assert np.all(batch.rows[~real] == 10)


def test_batches_of_documents_say_which_they_hold():
    dense = np.asarray(CORPUS.to_scipy().todense())
    seen = []
    for batch in as_loader(CORPUS, lda(1), 5, 0).batches(0, 5):
        for documents, rows in zip(batch.data, batch.rows, strict=True):
            real = documents.weights > 0
            counts = np.zeros((len(rows), 12))
            np.add.at(counts, (np.arange(len(rows))[:, None], documents.words), documents.counts)
            np.testing.assert_array_equal(counts[real], dense[rows[real]])
            assert np.all(rows[~real] == 23)
            seen += list(rows[real])
    assert sorted(seen) == list(range(23))


# --- the law --------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", GOING_ON)
def test_topics_go_on_to_the_fixed_point(name):
    """At still globals later visits end where one long visit does, by whichever road."""
    topics = vi.fit(vi.cavi(lda(100)), CORPUS, num_steps=30, key=KEY).posterior

    def visited(rounds, epochs):
        model = vi.models.lda(
            3, 12, estep=dataclasses.replace(ESTEPS[name], max_iters=rounds, tol=1e-14)
        )
        alg, batches = still(model), as_loader(CORPUS, model, 23, 0)
        state = alg.init(KEY, next(iter(batches.batches(0, 1))))._replace(posterior=topics)
        step = jax.jit(alg.step)
        for batch in batches.batches(0, epochs):
            state, _ = step(KEY, state, batch)
        assert bool(state.beside["warm"].seen.all())
        return np.asarray(state.beside["warm"].local)

    with jax.enable_x64(True):
        topics = jax.tree.map(lambda x: jnp.asarray(x, float), topics)
        once = visited(2000, 1)
        assert np.abs(visited(2, 1) - once).max() > 0.1
        np.testing.assert_allclose(visited(60, 6), once, atol=1e-4)


def coupled():
    """Two coupled bits behind each number."""

    def energy(s, y):
        z1, z2 = s["z1"].value, s["z2"].value
        return y * z1 - 0.8 * z2 + 1.7 * s["w"].value * z1 * z2

    bit = vi.Bernoulli.from_probs(0.3)
    return vi.energy_model(
        globals={"w": vi.Normal.from_mean_variance(1.0, 1.0)},
        locals={"z1": bit, "z2": bit},
        energy=energy,
        example=0.0,
    )


def sequences():
    rng = np.random.default_rng(1)
    states = np.cumsum(rng.random((9, 12, 2)) < 0.3, axis=1) % 2
    y = (states @ np.array([1.0, 2.0]) + 0.3 * rng.normal(size=(9, 12)))[..., None]
    return y.astype(np.float32), np.ones((9, 12), bool)


CHAINS = {
    "bits": (coupled, np.linspace(-2, 2, 9, dtype=np.float32)),
    "factorial_hmm": (lambda: vi.models.factorial_hmm(1, 2, 2), sequences()),
}


@pytest.mark.parametrize("name", CHAINS)
def test_sweeps_of_several_visits_add_up(name):
    """Locals that depend on each other: five visits of two sweeps each are one of ten."""
    make, data = CHAINS[name]
    with jax.enable_x64(True):
        model = make()
        run = lambda sweeps, epochs: vi.fit(
            still(model, estep=vi.estep.mean_field(sweeps, 1e-14)),
            data,
            num_epochs=epochs,
            batch_size=4,
            key=KEY,
        )
        visits, once = run(2, 5), run(10, 1)
        for a, b in zip(
            jax.tree.leaves(visits.state.beside), jax.tree.leaves(once.state.beside), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_correlated_topics_go_on():
    estep = lambda rounds: vi.estep.proximal_gradient(max_iters=rounds, tol=1e-6)
    run = lambda rounds, epochs: (
        vi.fit(
            still(vi.models.ctm(3, 12, estep=estep(rounds))),
            CORPUS,
            num_epochs=epochs,
            batch_size=5,
            key=KEY,
        )
        .state.beside["warm"]
        .local.mean
    )
    one, many, once = run(2, 1), run(2, 40), run(80, 1)
    assert np.linalg.norm(many - once) < 0.15 * np.linalg.norm(
        one - once
    )  # the rest is noise of the draws


# --- the state ------------------------------------------------------------------------------------
def test_it_learns_and_goes_on_bit_for_bit():
    alg = vi.warm(vi.svi(lda(4)))
    run = lambda steps, **more: vi.fit(alg, CORPUS, num_steps=steps, batch_size=5, key=KEY, **more)
    whole, half = run(20), run(10)
    on = run(20, state=half.state)
    for a, b in zip(jax.tree.leaves(on.state), jax.tree.leaves(whole.state), strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.mean(whole.trace["elbo"][-5:]) > np.mean(whole.trace["elbo"][:5])
    several = run(10, restarts=2)
    assert several.trace["restart_elbo"].shape == (10, 2)


def test_a_skipped_step_leaves_the_locals_as_they_were():
    alg = vi.warm(vi.svi(coupled()))
    good = Minibatch(CHAINS["bits"][1], 9.0, rows=np.arange(9, dtype=np.int32))
    state, step = alg.init(KEY, good), jax.jit(alg.step)
    bad, info = step(KEY, state, good._replace(data=good.data * np.nan))
    assert int(info.result) == 1
    assert not bool(bad.beside["warm"].seen.any())
    assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves(bad.beside["warm"].local))
    after, _ = step(KEY, state, good._replace(rows=np.array([0, 1, 2, 3, 4, 5, 6, 9, 9], np.int32)))
    assert np.asarray(after.beside["warm"].seen).tolist() == [True] * 7 + [False] * 2


def test_the_table_of_all_groups_is_not_copied():
    """A step costs what its batch costs: of the table it reads and writes rows."""
    alg, total = vi.warm(vi.svi(lda(2))), 1000
    batch = next(iter(as_loader(CORPUS, lda(2), 5, 0).batches(0, 1)))._replace(
        num_groups=float(total)
    )
    state = alg.init(KEY, batch)
    jaxpr = jax.make_jaxpr(alg.step)(KEY, state, batch)
    assert set(makers(jaxpr.jaxpr, (total, 3))) - {"jit"} == {"scatter"}


def makers(jaxpr, shape):
    """Names of the operations, also of inner programs, that make an array of a shape."""
    for eqn in jaxpr.eqns:
        if any(getattr(x.aval, "shape", ()) == shape for x in eqn.outvars):
            yield str(eqn.primitive)
        for inner in jaxprs_in_params(eqn.params):
            yield from makers(inner, shape)


# --- what is refused ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: vi.warm(vi.svi(lda(2), estep=vi.estep.gibbs())),
            "an E-step that can begin anywhere",
        ),
        (
            lambda: vi.warm(vi.svi(vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1)))),
            "a model whose E-step climbs",
        ),
        (lambda: vi.warm(vi.memoized(lda(2), 4)), "no memory of messages"),
        (
            lambda: vi.warm(vi.over_axis(vi.svi(lda(2)), "data")),
            "warm: expected an algorithm without over_axis",
        ),
        (lambda: vi.warm(vi.svi(lda(2))).init(KEY), "the first minibatch"),
    ],
)
def test_what_cannot_go_on_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_padding_begins_where_nothing_is_known():
    """Its row is N, which is no group: not even where all have been seen, and the last one's is
    next to it."""
    alg, batch = (
        still(lda(4)),
        next(iter(as_loader(CORPUS, lda(4), 5, 0).batches(0, 1))),
    )
    total, model = CORPUS.num_documents, alg.spec.model
    like = first_visits(model, model.hyper, batch._replace(num_groups=float(total)))
    visited = Visits(
        jax.tree.map(lambda x: jnp.full_like(x, 7.5), like.local), jnp.ones(total, bool)
    )
    rows = tuple(np.where(np.arange(len(some)) % 2, total, some) for some in batch.rows)
    found = starts(model, model.hyper, visited, batch._replace(rows=rows))
    for some, cold, at in zip(found, model.locals.start(model.hyper, batch), rows, strict=True):
        np.testing.assert_array_equal(some[at < total], 7.5)
        np.testing.assert_array_equal(some[at == total], cold[at == total])

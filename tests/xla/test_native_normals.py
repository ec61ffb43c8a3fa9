"""The compiled E-step of logistic-normal topics, with its bound: the numbers are XLA's, draw for
draw."""

import ctypes
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from vijax.families import Dirichlet, NormalWishart
from vijax.inference.estep import GaussianLocals, LogisticNormal
from vijax.models.documents import ctm
from vijax.xla import native
from vijax.xla.random_bits import fused_key

pytestmark = pytest.mark.skipif(
    not native.is_available(), reason="vijax was installed without a C++ compiler"
)
KEY = jax.random.key(0)
DRAWS = vi.expectation.vector_monte_carlo
ESTEPS = {
    "default": ((6, 9, 5), vi.estep.proximal_gradient(max_iters=9)),
    "slopes, two a topic": (
        (3, 5, 9),
        vi.estep.proximal_gradient(DRAWS(4, True, True, "slopes"), max_iters=9),
    ),
    "slopes, diagonal": (
        (3, 7, 2),
        vi.estep.proximal_gradient(DRAWS(6, True, True, "slopes"), "diagonal", refine=2),
    ),
    "more topics than pairs of draws": (
        (3, 5, 21),
        vi.estep.proximal_gradient(DRAWS(22, True, True), max_iters=9),
    ),
    "diagonal, refined": (
        (4, 5, 3),
        vi.estep.proximal_gradient(DRAWS(34, True), "diagonal", max_iters=3, refine=2),
    ),
    "odd": ((3, 7, 2), vi.estep.proximal_gradient(DRAWS(5), max_iters=4)),
}


@pytest.fixture
def levels():
    """Sets the highest level of processors that is used, and says which is then."""
    yield (limit := ctypes.CDLL(str(native.LIBRARY)).vijax_level)
    limit(2)


def problem(docs, slots, topics):
    """Documents, the first without words; a prior whose scales differ."""
    rng = np.random.default_rng(docs + slots + topics)
    likelihood = rng.gamma(0.3, size=(docs, slots, topics))
    likelihood = np.maximum(likelihood / likelihood.max(axis=2, keepdims=True), 1e-30)
    counts = rng.poisson(1.5, (docs, slots))
    counts[0] = 0
    root = rng.normal(size=(topics, 2 * topics))
    precision = np.linalg.inv(root @ root.T / topics + 0.1 * np.eye(topics))
    return LogisticNormal(
        *map(
            jnp.asarray, (likelihood, 1.0 * counts, precision @ rng.normal(size=topics), precision)
        )
    )


def cold(docs, topics):
    return GaussianLocals(
        jnp.zeros((docs, topics)), jnp.zeros((docs, topics, topics)), jnp.zeros(docs, jnp.int32)
    )


@pytest.mark.parametrize("name", ESTEPS)
def test_equal_what_xla_computes(monkeypatch, levels, name):
    """In float64 to the last digits, for every level of processors: from no start, from where that
    ended, and from a start that is no density under the prior. Float32 to rounding."""
    (docs, slots, topics), estep = ESTEPS[name]

    def run(dtype, switch):
        monkeypatch.setenv(native.SWITCH, switch)
        given, start = jax.tree.map(
            lambda x: x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x,
            (problem(docs, slots, topics), cold(docs, topics)),
        )
        jitted = jax.jit(lambda *given: estep.logistic_normal(*given)).lower(
            given, start, fused_key(KEY)
        )
        assert ("vijax_logistic_normal" in jitted.as_text()) == (switch == "1")
        program = jitted.compile()

        def found():
            first = program(given, start, fused_key(KEY))
            again = program(given, first, fused_key(KEY))
            broken = first._replace(site=first.site - 9 * jnp.eye(topics, dtype=dtype))
            return first, again, program(given, broken, fused_key(KEY))

        return found

    with jax.enable_x64(True):
        theirs, ours = run(jnp.float64, "0")(), run(jnp.float64, "1")
        for level in (2, 1, 0):
            if levels(level) == level:
                jax.tree.map(
                    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10),
                    ours(),
                    theirs,
                )
    if name == "default":
        levels(2)
        both = run(jnp.float32, "1")(), run(jnp.float32, "0")()
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), *both)


def bound_of(batch, law, table, logits):
    stats = {"topics": Dirichlet.Stats(table), "logits": logits}
    estep = vi.estep.proximal_gradient(DRAWS(6, True), max_iters=3)
    said = ctm.local_elbo(8, 0, law, {}, stats, batch, KEY, estep)
    return said.total, (said.per_group, said.local)


def by_document(logits, docs):
    """Means that differ between documents."""
    linear = (1 + docs.weights)[:, None] * logits.precision_times_mean[None]
    return logits._replace(
        precision_times_mean=linear, quadratic=(1 + docs.weights) * logits.quadratic
    )


@pytest.mark.parametrize(("law", "chunk"), [(ctm._shared_law, 1), (by_document, 2)])
def test_a_step_is_the_one_by_chunks(monkeypatch, law, chunk):
    """Bound, q(z) and gradients in topics and in the law of z: documents of two lengths and several
    weights, empty ones and padding; without an earlier visit, or with one."""
    monkeypatch.setattr(ctm, "_WORTH", 0)
    monkeypatch.setattr(type(vi.estep.proximal_gradient()), "docs_per_chunk", lambda *sizes: chunk)
    with jax.enable_x64(True):
        rng = np.random.default_rng(3)
        table = jnp.asarray(np.log(rng.dirichlet(np.full(40, 0.1), 5) + 1e-9))
        logits = NormalWishart.from_parameters(
            rng.normal(size=5), 2.0, 9.0, np.eye(5) / 7
        ).expected_stats()
        documents, start = [], []
        for docs, slots in ((5, 4), (3, 11)):
            counts = rng.poisson(1.5, (docs, slots))
            counts[1] = 0
            words = jnp.asarray(
                rng.integers(40, size=(docs, slots)), jnp.int32 if chunk == 1 else jnp.int64
            )
            weights = jnp.asarray(1.0 * (np.arange(docs) % 3))
            documents.append(vi.Documents(words, jnp.asarray(1.0 * counts), weights, 60))
            site = jnp.tile(0.5 * jnp.eye(5), (docs, 1, 1))
            start.append(
                cold(docs, 5)._replace(mean=jnp.asarray(rng.normal(size=(docs, 5))), site=site)
            )
        batch = vi.Minibatch(tuple(documents), 100.0, local=tuple(start) if chunk == 2 else None)
        found = []
        for switch in ("0", "1"):
            monkeypatch.setenv(native.SWITCH, switch)
            bound = functools.partial(bound_of, batch, law)
            program = jax.jit(jax.value_and_grad(bound, (0, 1), has_aux=True)).lower(table, logits)
            assert ("vijax_logistic_normal_step" in program.as_text()) == (switch == "1")
            found.append(program.compile()(table, logits))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), *found)


def test_several_side_by_side_and_elsewhere(monkeypatch):
    """`vmap` is one call after the other; programs for other devices, and of other kinds of keys,
    are without it."""
    estep, given = vi.estep.proximal_gradient(DRAWS(4, True), max_iters=2), problem(3, 4, 2)
    keys = jax.random.split(KEY, 2)
    run = jax.jit(lambda key: estep.logistic_normal(given, cold(3, 2), key))
    several, each = jax.vmap(run)(keys), [run(key) for key in keys]
    jax.tree.map(
        np.testing.assert_array_equal, several, jax.tree.map(lambda *x: jnp.stack(x), *each)
    )
    assert "vijax_" not in run.trace(KEY).lower(lowering_platforms=("cuda",)).as_text()
    assert "vijax_" not in run.lower(jax.random.key(0, impl="rbg")).as_text()


def test_what_is_not_a_number_stays_so():
    """And spoils no other document."""
    estep, given = vi.estep.proximal_gradient(DRAWS(4, True), max_iters=2), problem(3, 4, 2)
    run = jax.jit(lambda given: estep.logistic_normal(given, cold(3, 2), KEY).mean)
    spoilt, clean = (
        run(given._replace(likelihood=given.likelihood.at[1, :, 1].set(jnp.nan))),
        run(given),
    )
    assert jnp.all(jnp.isnan(spoilt[1]))
    np.testing.assert_array_equal(spoilt[jnp.array([0, 2])], clean[jnp.array([0, 2])])

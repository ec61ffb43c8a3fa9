"""Large tables block by block: the same numbers as at once, and as few tables as are promised."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import vijax as vi
from vijax.families.discrete.dirichlet import dirichlet_divergence
from vijax.xla import chunks
from vijax.xla.chunks import block_length, map_blocks, sum_blocks

K, V = 3, 41


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def small_blocks(monkeypatch):
    """Tables of more than 32 numbers are cut, into blocks of 5 words of 3 topics and a last one."""
    jax.clear_caches()
    monkeypatch.setattr(chunks, "CPU_BLOCK", 16)
    assert block_length((K, V), 1) == 5
    yield
    jax.clear_caches()


def batch_of(rng, num_docs=6):
    words = rng.integers(0, V, (num_docs, 7)).astype(np.int32)
    counts = rng.integers(1, 4, (num_docs, 7)).astype(np.float32)
    docs = vi.Documents(words, counts, np.ones(num_docs, np.float32), 30)
    return vi.Minibatch((docs,), np.float32(50))


ROWS = {
    "svi": lambda: vi.svi(vi.models.lda(K, V)),
    "penalty": lambda: vi.compose(vi.models.lda(K, V), step_size=lambda t: 0.3),
    "ssvi_a": lambda: vi.ssvi_a(vi.models.lda(K, V, estep=vi.estep.cvb0())),
    "ssvi": lambda: vi.ssvi(vi.models.lda(K, V)),
    "learn": lambda: vi.svi(vi.models.lda(K, V), learn=("eta",)),
    "map": lambda: vi.map(vi.models.lda(K, V)),
    "em": lambda: vi.em(vi.models.lda(K, V)),
    "hdp": lambda: vi.svi(vi.models.hdp(K, V)),
    "ctm": lambda: vi.svi(vi.models.ctm(K, V)),
}


def run(name, batch, num_steps=3):
    alg = ROWS[name]()
    state = alg.init(jax.random.key(3), batch)
    step = jax.jit(lambda key, state, batch: alg.step(key, state, batch))
    infos = []
    for i in range(num_steps):
        state, info = step(jax.random.key(i), state, batch)
        infos.append((info.elbo, info.retractions, info.non_finite, info.result))
    return state, np.array(infos)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "svi" else pytest.mark.slow) for name in ROWS],
)
def test_a_step_by_blocks_is_the_step_at_once(name, rng, monkeypatch):
    batch = batch_of(rng)
    jax.clear_caches()
    expected, expected_infos = run(name, batch)
    monkeypatch.setattr(chunks, "CPU_BLOCK", 16)
    jax.clear_caches()
    state, infos = run(name, batch)
    jax.clear_caches()
    np.testing.assert_allclose(infos, expected_infos, rtol=2e-6)
    for x, y in zip(jax.tree.leaves(state), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("small_blocks")
def test_messages_that_are_not_finite_leave_the_table_as_it_was(rng):
    batch = batch_of(rng)
    alg = vi.svi(vi.models.lda(K, V))
    state = alg.init(jax.random.key(3))
    bad = batch._replace(num_groups=np.float32(np.inf))
    new, info = jax.jit(lambda *args: alg.step(*args))(jax.random.key(0), state, bad)
    assert int(info.result) != 0
    assert int(info.non_finite) > 0
    old = state.posterior["topics"].concentration
    np.testing.assert_array_equal(new.posterior["topics"].concentration, old)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("share", [0.0, 50.0])
def test_divergence_by_blocks_is_the_sum_of_gammas(rng, share):
    """Also where one component has more than half of a topic."""
    c, c2 = rng.gamma(2.0, size=(2, K, V)) + 0.1
    c[1, 7] += share * V
    lgamma, psi = scipy.special.gammaln, scipy.special.digamma
    total, total2 = c.sum(1), c2.sum(1)
    expected = lgamma(total) - lgamma(c).sum(1) - lgamma(total2) + lgamma(c2).sum(1)
    expected += ((c - c2) * (psi(c) - psi(total)[:, None])).sum(1)
    np.testing.assert_allclose(dirichlet_divergence(jnp.array(c), jnp.array(c2)), expected, 1e-5)


@pytest.mark.usefixtures("small_blocks")
def test_blocks_are_all_of_a_table_once(rng):
    table = jnp.asarray(rng.normal(size=(K, V)), jnp.float32)
    transposed, largest = map_blocks(lambda x: (x.T, jnp.max(x, 0)), (1,), (0, 0), table)
    np.testing.assert_array_equal(transposed, table.T)
    np.testing.assert_array_equal(largest, table.max(0))
    (written,) = map_blocks(lambda x: (x.T,), (0,), (1,), table.T, over=(jnp.zeros_like(table),))
    np.testing.assert_array_equal(written, table)
    ones = lambda: jnp.broadcast_to(2.0, (K, V))
    total = sum_blocks(lambda x, y: jnp.sum(x * y, -1), (-1, -1), table, ones)
    np.testing.assert_allclose(total, 2 * table.sum(1), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tables", "most"), [("svi", 4.4, 16), ("ssvi_a, cvb0", 4.4, 22)])
def test_a_step_of_large_topics_holds_four_tables_beside_its_state(name, tables, most):
    """Of K x V numbers each, by XLA's plan; and it reads and writes them as often as
    docs/scaling.md says."""
    from benchmarks.table_passes import Reading

    reading = Reading.compile(name, num_topics=500, vocab_size=20_000)
    assert reading.temporary < tables
    assert reading.touched <= most
    assert reading.donated == 1

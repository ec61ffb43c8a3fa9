"""The compiled E-steps: the numbers are XLA's, for every level of processors; and what happens if
they do not work."""

import ctypes

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from vijax.families import Dirichlet
from vijax.families.discrete.by_pair import distinct
from vijax.families.numeric.pathwise import sample_offset
from vijax.topics import active_topics
from vijax.xla import native

KEY = jax.random.key(0)
ESTEPS = {
    "cvb0": vi.estep.cvb0(),
    "mean_field": vi.estep.mean_field(),
    "gibbs": vi.estep.gibbs(3, 2),
}

compiled = pytest.mark.skipif(
    not native.is_available(), reason="vijax was installed without a C++ compiler"
)


def problem(docs, slots, topics, dtype):
    rng = np.random.default_rng(docs + slots + topics)
    likelihood = rng.gamma(0.3, size=(docs, slots, topics))
    likelihood = np.maximum(likelihood / likelihood.max(axis=2, keepdims=True), 1e-30)
    counts = rng.poisson(1.2, (docs, slots))
    counts[0] = 0
    alpha = rng.gamma(1.0, size=topics) * 0.2 + 0.01
    return *(jnp.asarray(x, dtype) for x in (likelihood, counts, alpha)), max(
        1, int(counts.sum(axis=1).max())
    )


def infers(monkeypatch, switch, estep, *given):
    """What the E-step finds, compiled now."""
    monkeypatch.setenv(native.SWITCH, switch)
    likelihood, counts, alpha, most, start = given
    run = jax.jit(
        lambda *x: jax.tree.leaves(estep.mixed_membership(*x[:3], jax.random.key(0), most, x[3]))
    )
    compiled = run.lower(likelihood, counts, alpha, start).compile()
    return lambda: compiled(likelihood, counts, alpha, start)


@pytest.fixture
def levels():
    """Sets the highest level of processors that is used, and says which is then."""
    yield (limit := ctypes.CDLL(str(native.LIBRARY)).vijax_level)
    limit(2)


@compiled
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", ESTEPS)
def test_equal_what_xla_computes(monkeypatch, levels, name, x64):
    """Tokens by topic, gamma and draws: those of XLA, up to the rounding of sums in another
    order."""
    with jax.enable_x64(x64):
        for sizes, begins in (((1, 3, 1), False), ((7, 9, 5), False), ((5, 30, 100), True)):
            given = problem(*sizes, jnp.float64 if x64 else jnp.float32)
            start = given[2] + jnp.arange(float(sizes[0]))[:, None] if begins else None
            theirs = infers(monkeypatch, "0", ESTEPS[name], *given, start)()
            ours = infers(monkeypatch, "1", ESTEPS[name], *given, start)
            for level in (2, 1, 0):
                if levels(level) < level:  # this processor is of a lower one
                    continue
                for a, b in zip(ours(), theirs, strict=True):
                    np.testing.assert_allclose(
                        a, b, rtol=1e-10 if x64 else 2e-4, atol=1e-12 if x64 else 2e-5
                    )


@compiled
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("name", ["cvb0", "mean_field"])
def test_a_step_of_a_table_is_the_one_by_chunks(monkeypatch, levels, name, warm, x64):
    """Bound and gradient of documents of two lengths, of weights other than one, empty ones, rows
    of padding; and of what each group believes."""
    with jax.enable_x64(x64):
        dtype, num_topics = jnp.zeros(()).dtype, 21
        rng = np.random.default_rng(3)
        log_topics = jnp.asarray(np.log(rng.dirichlet(np.full(40, 0.1), num_topics) + 1e-9), dtype)
        documents = []
        for docs, slots in ((7, 4), (3, 11)):
            counts = rng.poisson(1.5, (docs, slots))
            counts[1] = 0
            words = jnp.asarray(rng.integers(40, size=(docs, slots)), jnp.int32)
            weights = jnp.asarray(rng.permutation(docs) % 3, dtype)
            documents.append(vi.Documents(words, jnp.asarray(counts, dtype), weights, 60))
        start = (
            tuple(0.1 + jnp.asarray(rng.gamma(1.0, size=(n, num_topics)), dtype) for n in (7, 3))
            if warm
            else None
        )
        batch = vi.Minibatch(tuple(documents), 100.0, local=start)
        model = vi.models.lda(num_topics, 40, estep=ESTEPS[name])

        def bound(log_topics):
            stats = {"topics": Dirichlet.Stats(log_topics)}
            said = model.local_elbo(model.hyper, stats, batch, jax.random.key(0), model.estep)
            return said.total, (said.per_group, said.local)

        def value_and_grad(switch):
            monkeypatch.setenv(native.SWITCH, switch)
            jitted = jax.jit(jax.value_and_grad(bound, has_aux=True)).lower(log_topics)
            assert (f"vijax_{name}_step" in jitted.as_text()) == (switch == "1")
            value = jax.jit(lambda log_topics: bound(log_topics)).lower(
                log_topics
            )  # without a gradient
            both = jitted.compile(), value.compile()
            return lambda: jax.tree.leaves([program(log_topics) for program in both])

        theirs, ours = value_and_grad("0")(), value_and_grad("1")
        for level in (2, 1, 0):
            if levels(level) == level:
                for a, b in zip(ours(), theirs, strict=True):
                    np.testing.assert_allclose(
                        a, b, rtol=1e-9 if x64 else 2e-4, atol=1e-9 if x64 else 1e-4
                    )


@compiled
def test_steps_of_several_tables():
    """Side by side, as restarts are; each has a gradient of its own."""
    docs = vi.Documents(
        jnp.array([[0, 2], [1, 0]]), jnp.array([[1.0, 2.0], [3.0, 0.0]]), jnp.ones(2), 3
    )
    model = vi.models.lda(2, 3)

    def bound(log_topics):
        stats = {"topics": Dirichlet.Stats(log_topics)}
        return model.local_elbo(
            model.hyper, stats, vi.Minibatch((docs,), 2.0), KEY, model.estep
        ).total

    tables = jnp.log(jax.random.dirichlet(KEY, jnp.ones(3), (4, 2)))
    several = jax.jit(jax.vmap(jax.value_and_grad(bound)))(tables)
    each = list(map(jax.jit(jax.value_and_grad(bound)), tables))
    for a, b in zip(several, zip(*each, strict=True), strict=True):
        np.testing.assert_allclose(a, jnp.stack(b), rtol=1e-5)


@compiled
@pytest.mark.parametrize("shape", ["small", "large", "mixed"])
def test_gamma_draws_are_those_of_xla(monkeypatch, levels, shape):
    """Element by element, in one part of the array or several; a draw at the very edge of
    acceptance may differ, as rounding does. What is not positive and finite is not a number, and
    its neighbours are as if it were."""
    rng = np.random.default_rng(4)
    a = {
        "small": np.full(3, 1e-4),
        "large": np.full((50, 3), 1e6),
        "mixed": rng.gamma(0.05, 200.0, 100_003) + 1e-3,
    }[shape]
    a.flat[1] = {"small": 0.0, "large": np.inf, "mixed": np.nan}[shape]

    def draws(switch):
        monkeypatch.setenv(native.SWITCH, switch)
        jitted = jax.jit(lambda *given: sample_offset(*given)).lower(
            KEY, jnp.asarray(a, jnp.float32)
        )
        assert ("vijax_gamma_offsets" in jitted.as_text()) == (switch == "1")
        compiled = jitted.compile()
        return lambda: np.asarray(compiled(KEY, jnp.asarray(a, jnp.float32)))

    theirs, found = draws("0")(), draws("1")
    assert np.isnan(theirs).sum() == 1
    for level in (2, 1, 0):
        if levels(level) == level:
            ours = found()
            np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
            off = np.abs(ours - theirs) > 1e-4 * np.abs(theirs) + 1e-5 * np.nanstd(theirs)
            assert off.sum() <= 4e-5 * a.size, off.sum()


@compiled
def test_gamma_draws_of_several_keys(monkeypatch):
    """Side by side they are those of each alone, and of XLA; a key or the concentrations may be the
    same for all."""
    keys, a = (
        jax.random.split(KEY, 4),
        np.float32(np.random.default_rng(0).gamma(0.5, size=(4, 5, 7))),
    )
    several, one = (
        jax.jit(jax.vmap(sample_offset))(keys, a),
        jax.jit(lambda *given: sample_offset(*given)),
    )
    np.testing.assert_array_equal(
        several, np.stack([one(k, x) for k, x in zip(keys, a, strict=True)])
    )
    for axes in ((0, None), (None, 0)):
        given = (keys, a[0]) if axes[1] is None else (KEY, a)
        draws = lambda: jax.jit(jax.vmap(lambda *one: sample_offset(*one), axes))(*given)
        ours = draws()
        with monkeypatch.context() as patch:
            patch.setenv(native.SWITCH, "0")
            np.testing.assert_allclose(ours, draws(), rtol=1e-4, atol=1e-5)


@compiled
@pytest.mark.parametrize("word", [3, -1])
def test_words_outside_of_the_table_are_refused(word):
    """A kernel would write into what is not its own. Slots without tokens may hold anything."""
    model = vi.models.lda(2, 3)

    @jax.jit
    def bound(word, count):
        docs = vi.Documents(jnp.array([[0, word]]), jnp.array([[1.0, count]]), jnp.ones(1), 3)
        stats = {"topics": Dirichlet.Stats(jnp.zeros((2, 3)))}
        return model.local_elbo(
            model.hyper, stats, vi.Minibatch((docs,), 1.0), KEY, model.estep
        ).total

    with pytest.raises(
        jax.errors.JaxRuntimeError, match=f"words: expected ids from 0 to 2, got {word}"
    ):
        jax.block_until_ready(bound(word, 2.0))
    assert jnp.isfinite(bound(word, 0.0))
    table, totals = jnp.ones((3, 2)), jnp.ones(2)
    docs = vi.Documents(jnp.array([[0, word]]), jnp.ones((1, 2)), jnp.ones(1), 3)
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=f"words: expected ids from 0 to 2, got {word}"
    ):
        jax.block_until_ready(active_topics.choose({"alpha": 0.1}, table, totals, docs, 1))


@compiled
@pytest.mark.parametrize("x64", [False, True])
def test_topics_are_chosen_as_xla_does(monkeypatch, levels, x64):
    """The same ones, the largest first; and the same share left."""
    rng = np.random.default_rng(0)
    with jax.enable_x64(x64):
        for docs, slots, topics, most, share in (
            (3, 4, 1, 1, 0),
            (5, 9, 40, 7, 0.1),
            (5, 9, 40, 30, 0.2),
            (6, 12, 33, 33, 0),
        ):
            table = jnp.asarray(rng.gamma(0.3, size=(20, topics)) + 1e-3)
            counts = jnp.asarray(rng.poisson(1.0, (docs, slots)), table.dtype).at[0].set(0)
            words = jnp.asarray(rng.integers(20, size=(docs, slots)), jnp.int32)
            data = vi.Documents(words, counts, jnp.ones(docs), 99)
            given = {"alpha": 0.2}, table, 30 * jnp.sum(table, 0), data
            program = lambda: (
                jax.jit(lambda *x: active_topics.choose(*x, most, share)).lower(*given).compile()
            )
            monkeypatch.setenv(native.SWITCH, "0")
            theirs = program()(*given)
            monkeypatch.setenv(native.SWITCH, "1")
            choose = program()
            for level in (2, 1, 0):
                if levels(level) == level:
                    ours = choose(*given)
                    np.testing.assert_array_equal(ours[0], theirs[0])
                    np.testing.assert_array_equal(ours.used, theirs.used)
                    np.testing.assert_allclose(
                        ours.left_out, theirs.left_out, atol=1e-12 if x64 else 2e-6
                    )


@compiled
def test_ids_are_listed_as_xla_does(monkeypatch, levels):
    """Also none, one, and those at the ends of words of bits; ids that are none have place 0."""
    rng = np.random.default_rng(1)
    for given, universe in (
        ([[5, 5, 9]], 5),
        ([[0]], 1),
        ([[63, 64, 0, 127], [[128, 64]]], 129),
        ([rng.integers(1200, size=(7, 30))], 1000),
    ):
        given = [jnp.asarray(x, jnp.int32) for x in given]
        found = []
        for switch, used in (("0", (2,)), ("1", (2, 1, 0))):
            monkeypatch.setenv(native.SWITCH, switch)
            listed = jax.jit(lambda ids: jax.tree.leaves(distinct(ids, universe, 600)))
            for level in used:
                levels(level)
                found.append(listed(given))
        for other in found[1:]:
            for a, b in zip(other, found[0], strict=True):
                np.testing.assert_array_equal(a, b)


@compiled
@pytest.mark.parametrize("name", ESTEPS)
def test_is_used(monkeypatch, name):
    """Where it can be, and not where it is switched off, and not on other devices."""
    likelihood, counts, alpha, most = problem(3, 4, 5, jnp.float32)

    def run(*given):
        return ESTEPS[name].mixed_membership(*given, jax.random.key(0), most)

    def lowered(platform):
        traced = jax.jit(run).trace(likelihood, counts, alpha)
        return traced.lower(lowering_platforms=(platform,)).as_text()

    assert f"vijax_{name}_float32" in lowered("cpu")
    assert "vijax_" not in lowered("cuda")
    monkeypatch.setenv(native.SWITCH, "0")
    jax.clear_caches()
    assert "vijax_" not in lowered("cpu")


@compiled
@pytest.mark.parametrize("name", ESTEPS)
def test_vmap(name):
    """One call after the other."""
    likelihood, counts, alpha, most = problem(3, 4, 5, jnp.float32)
    alphas = alpha * jnp.array([1.0, 2.0])[:, None]

    def run(alpha):
        return (
            ESTEPS[name].mixed_membership(likelihood, counts, alpha, jax.random.key(0), most).gamma
        )

    np.testing.assert_array_equal(jax.vmap(run)(alphas), jnp.stack([run(a) for a in alphas]))


@compiled
@pytest.mark.parametrize("name", ["cvb0", "mean_field"])
def test_what_is_not_a_number_stays_so(name):
    """And spoils no other document."""
    likelihood, counts, alpha, most = problem(4, 6, 20, jnp.float32)
    spoilt = likelihood.at[2, :, 3].set(jnp.nan)
    gamma = ESTEPS[name].mixed_membership(spoilt, counts, alpha, jax.random.key(0), most).gamma
    clean = ESTEPS[name].mixed_membership(likelihood, counts, alpha, jax.random.key(0), most).gamma
    assert jnp.all(jnp.isnan(gamma[2]))
    np.testing.assert_array_equal(gamma[jnp.array([0, 1, 3])], clean[jnp.array([0, 1, 3])])


@compiled
@pytest.mark.parametrize("gamma", [1e-3, 0.5, 3.999, 4.001, 7.99, 30.0, 1e6])
def test_weights_of_topics(gamma):
    """One round from a given gamma, against SciPy's digamma in float64."""
    from scipy.special import digamma

    with jax.enable_x64(True):
        start = jnp.array([[gamma, 2.0, 0.7]])
        likelihood, alpha = jnp.array([[[0.2, 1.0, 0.5]]]), jnp.full(3, 0.1)
        found = vi.estep.mean_field(1).mixed_membership(
            likelihood, jnp.ones((1, 1)), alpha, jax.random.key(0), 1, start
        )
    gone_on = np.asarray(start) * 0.7 + 0.3 * (0.1 + 1 / 3)
    weights = np.exp(digamma(gone_on)) * np.asarray(likelihood[0])
    np.testing.assert_allclose(found.gamma, 0.1 + weights / weights.sum(), rtol=1e-13)


def test_a_library_that_does_not_work_is_said(tmp_path):
    """Once, with what to do."""
    broken = tmp_path / "esteps.so"
    broken.write_bytes(b"no library")
    with pytest.warns(
        RuntimeWarning, match=r"do not work here, so XLA computes them.*Install vijax again"
    ):
        assert not native._register(broken)
    assert not native._register(tmp_path / "none.so")


def test_an_interface_of_later_versions_is_refused():
    """Before XLA hears of it, whose CPU backend would not start then."""
    with pytest.raises(
        RuntimeError, match=r"of version 99\.0 of XLA's interface, and this jaxlib has"
    ):
        native._check_version(99, 0)
    with pytest.raises(RuntimeError, match=r"this jaxlib has"):
        native._check_version(0, 10_000)


@pytest.mark.parametrize("compiled", [pytest.param("1", marks=compiled), "0"])
@pytest.mark.parametrize("low", [-1, -64, -(2**31)])
def test_ids_below_0_are_refused(monkeypatch, compiled, low):
    """A kernel would write before its array; XLA, which cannot refuse, has none of them."""
    monkeypatch.setenv(native.SWITCH, compiled)
    ids = jnp.array([3, low, 70], jnp.int32)
    with pytest.raises(ValueError, match=rf"ids: expected none below 0, got \[3, {low}, 70\]"):
        distinct([ids], 80, 3)
    listed = jax.jit(lambda ids: distinct([ids], 80, 3))
    if compiled == "1":
        with pytest.raises(
            jax.errors.JaxRuntimeError, match=f"ids: expected none below 0, got {low}"
        ):
            jax.block_until_ready(listed(ids))
    else:
        found = listed(ids)
        assert found.ids.tolist() == [3, 70, 80]
        assert found.places[0].tolist() == [0, 0, 1]


def test_more_ids_than_31_bits_tell_apart_are_refused():
    with pytest.raises(
        ValueError, match=r"at most 2,147,483,647 ids, got 2,147,483,648\..*fewer topics"
    ):
        distinct([jnp.zeros(1, jnp.int32)], 2**31, 1)

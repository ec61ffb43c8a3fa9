"""Gibbs sampling with all tokens of a document at once: the posterior's law, at few operations a
sweep. Statistical checks are at 6 standard errors: one in 5e8 per number checked is a false alarm,
and seeds are fixed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from benchmarks.gibbs_launches import operations
from tests.inference.estep.test_gibbs import exact_token_topics, sample
from vijax.app.cli import main
from vijax.families.numeric.pathwise import offset_without_loop
from vijax.inference.estep.gibbs_at_once import draw_shares, draw_tokens, split_topics
from vijax.xla import native

KEY = jax.random.key(0)
SEED = jnp.array([3, 4], jnp.uint32)


@pytest.mark.parametrize(
    ("num_sweeps", "burn_in", "alpha"),
    [
        (1, 60, [0.5, 1.0, 0.2]),
        pytest.param(3, 150, [0.1] * 3, marks=pytest.mark.slow),
        pytest.param(2, 30, [5.0, 1.0, 1.0], marks=pytest.mark.slow),
    ],
)
def test_marginals_equal_enumeration(num_sweeps, burn_in, alpha):
    likelihood = np.array([[1.0, 0.3, 0.05], [0.2, 1.0, 0.6], [0.5, 0.5, 1.0]])
    counts, alpha, docs = np.array([2.0, 3.0, 1.0]), np.array(alpha), 8192
    rows = jnp.broadcast_to(likelihood, (docs, 3, 3)).astype(jnp.float32)
    local = sample(
        vi.estep.gibbs(num_sweeps, burn_in, "at_once"),
        rows,
        jnp.tile(counts, (docs, 1)),
        jnp.asarray(alpha, jnp.float32),
        jax.random.key(1),
        6,
    )
    np.testing.assert_allclose(local.token_topics.sum(2), np.tile(counts, (docs, 1)), rtol=1e-5)
    np.testing.assert_allclose(local.gamma, alpha + local.token_topics.sum(1), rtol=1e-5)
    error = local.token_topics.mean(0) - exact_token_topics(likelihood, counts, alpha)
    assert np.all(np.abs(error) < 6 * local.token_topics.std(0) / np.sqrt(docs) + 1e-6)


def test_a_sweep_leaves_the_joint_law_of_topics_and_words_as_it_is():
    """Geweke: (z, w) from the model, one sweep from z; moments of the new counts of topics, also
    with those of words, are the old."""
    rng = np.random.default_rng(0)
    docs, tokens, topics, words = 20000, 6, 5, 4
    alpha, beta = np.array([0.3, 1.0, 0.1, 2.0, 0.5]), rng.dirichlet(np.ones(words), size=topics)
    theta = rng.dirichlet(alpha, size=docs)
    choose = lambda p, shape: (p.cumsum(-1) < rng.uniform(size=(*shape, 1))).sum(-1)
    z = choose(theta[:, None], (docs, tokens)).clip(max=topics - 1)
    w = choose(beta[z], (docs, tokens)).clip(max=words - 1)
    of_topics = np.eye(topics)[z].sum(1)
    of_words = np.eye(words)[w].sum(1)

    @jax.jit
    def sweep(topic_counts, likelihood, bits):
        shares = draw_shares(jnp.float32(alpha) + topic_counts, *SEED)
        slot = jnp.broadcast_to(jnp.arange(tokens), (docs, tokens))
        return draw_tokens(shares, split_topics(likelihood), slot, bits)[0]

    bits = jax.random.bits(KEY, (docs, tokens), jnp.uint32)
    new = np.asarray(sweep(jnp.float32(of_topics), jnp.float32(beta.T[w]), bits))
    assert np.all(new.sum(1) == tokens)
    assert np.mean(np.any(new != of_topics, axis=1)) > 0.5

    def moments(n):
        with_words = (n[:, :, None] * of_words[:, None]).reshape(docs, -1)
        return np.concatenate([n, n**2, n * np.roll(n, 1, axis=1), with_words], axis=1)

    gap = moments(new) - moments(of_topics)
    assert np.all(np.abs(gap.mean(0)) < 6 * gap.std(0) / np.sqrt(docs))


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.05, 1.0])
def test_long_chains_have_the_law_of_tokens_in_turn(alpha):
    """Means and variances over chains of documents of 60 tokens and 30 topics."""
    rng = np.random.default_rng(1)
    likelihood = rng.gamma(0.2, size=(20, 30)) + 1e-4
    likelihood /= likelihood.max(1, keepdims=True)
    chains = 2000
    rows = jnp.broadcast_to(jnp.float32(likelihood), (chains, 20, 30))
    counts = jnp.full((chains, 20), 3.0)
    run = lambda name, key: np.asarray(
        sample(
            vi.estep.gibbs(300, 300, name),
            rows,
            counts,
            jnp.full(30, alpha),
            jax.random.key(key),
            60,
        ).token_topics
    )
    ours, theirs = run("at_once", 1), run("in_turn", 2)
    spread = np.sqrt((ours.var(0) + theirs.var(0)) / chains)
    assert np.all(np.abs(ours.mean(0) - theirs.mean(0)) < 6 * spread + 1e-5)


@pytest.mark.parametrize(
    "topics", [10, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2, 3, 97, 300))]
)
def test_tokens_follow_share_times_likelihood(topics):
    rng = np.random.default_rng(topics)
    tokens = 100_000
    shares = rng.gamma(0.5, size=topics) * (rng.uniform(size=topics) < 0.8)
    shares[-1] += 0.5
    likelihood = np.maximum(rng.uniform(size=(2, topics)), 1e-30)
    slot = jnp.repeat(jnp.arange(3), tokens)[None]  # the third does not exist
    bits = jax.random.bits(KEY, slot.shape, jnp.uint32)
    drawn, normalizers = draw_tokens(
        jnp.float32(shares)[None], split_topics(jnp.float32(likelihood)[None]), slot, bits
    )
    weights = shares * likelihood
    np.testing.assert_allclose(normalizers[0], weights.sum(1), rtol=1e-5)
    p = weights / weights.sum(1, keepdims=True)
    error = np.asarray(drawn[0]) - tokens * p.sum(0)
    assert np.all(np.abs(error) <= 6 * np.sqrt(tokens * (p * (1 - p)).sum(0)) + 1e-3)
    assert drawn.sum() == 2 * tokens


@pytest.mark.parametrize(
    ("switch", "x64"),
    [
        ("0", False),
        *(pytest.param(*x, marks=pytest.mark.slow) for x in (("0", True), ("1", False))),
    ],
)
def test_shares_follow_their_law(monkeypatch, switch, x64):
    monkeypatch.setenv(native.SWITCH, switch)
    with jax.enable_x64(x64):
        for i, a in enumerate([0.01, 0.3, 1.0, 7.5, 300.0]):
            concentration = jnp.full(20_000, a)
            offset = jax.jit(lambda seed, a: offset_without_loop(seed, a))(SEED + i, concentration)
            assert offset.dtype == concentration.dtype
            # The law of log x: most draws of a = 0.01 are no numbers of float32.
            log_x = np.asarray(offset, float) + np.log(a + 2 / 3)
            assert stats.kstest(log_x, stats.loggamma(a).cdf).pvalue > 1e-6


def lowered(tokens, platform):
    given = jnp.ones((2, 3, 4)), jnp.ones((2, 3)), jnp.ones(4)
    step = vi.estep.gibbs(2, 1, tokens)
    traced = jax.jit(lambda *x: step.mixed_membership(*x, KEY, 3)).trace(*given)
    return traced.lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.parametrize(("platform", "usual"), [("cpu", "in_turn"), ("cuda", "at_once")])
def test_the_device_decides_unless_it_is_said(monkeypatch, platform, usual):
    monkeypatch.setenv(native.SWITCH, "0")
    texts = {name: lowered(name, platform) for name in (None, "in_turn", "at_once")}
    other = "in_turn" if usual == "at_once" else "at_once"
    count = lambda text: [text.count(f"stablehlo.{name}") for name in ("while", "scatter", "log")]
    assert count(texts[None]) == count(texts[usual]) != count(texts[other])


@pytest.mark.slow
def test_a_sweep_is_few_operations_whatever_the_documents():
    """In turn they grow with the tokens."""
    at_once = [operations("at_once", 8, slots, 100) for slots in (16, 64)]
    in_turn = [operations("in_turn", 8, slots, 100) for slots in (16, 64)]
    assert max(x.by_sweep for x in at_once) <= 30
    assert in_turn[1].by_sweep > 3.5 * in_turn[0].by_sweep > 3 * at_once[0].by_sweep


@pytest.mark.slow
def test_ten_sweeps_are_nearer_to_the_posterior_than_tokens_in_turn():
    rng = np.random.default_rng(2)
    topics, slots, docs = 60, 80, 16
    words = rng.dirichlet(np.full(500, 0.05), topics).T
    theta = rng.dirichlet(np.full(topics, 0.1), docs)
    drawn = [rng.choice(500, slots, p=p / p.sum()) for p in theta @ words.T]
    likelihood = words[np.stack(drawn)] + 1e-6
    likelihood = jnp.float32(likelihood / likelihood.max(2, keepdims=True))
    counts, alpha = jnp.ones((docs, slots)), jnp.full(topics, 0.1)
    run = jax.jit(
        lambda step, key: step.mixed_membership(likelihood, counts, alpha, key, slots).gamma,
        static_argnums=0,
    )
    truth = run(vi.estep.gibbs(5000, 500), jax.random.key(1))

    def error(name):
        drawn = [run(vi.estep.gibbs(5, 5, name), jax.random.key(i)) for i in range(2, 12)]
        return float(np.sqrt(np.mean((np.stack(drawn) - truth) ** 2)))

    assert error("at_once") < 0.9 * error("in_turn")


def test_wrong_words_are_refused():
    with pytest.raises(ValueError, match=r'tokens: expected "in_turn" or "at_once", got .at once.'):
        vi.estep.gibbs(tokens="at once")
    model = vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1))
    alg = vi.svi(model, estep=vi.estep.gibbs(tokens="at_once"))
    with pytest.raises(ValueError, match=r"tokens: expected None.*no topics of tokens"):
        vi.fit(alg, np.zeros((4, 1)), key=KEY, num_steps=1)


def corpus(docs=60, words=12):
    rng = np.random.default_rng(0)
    topic = rng.integers(3, size=(docs, 1))
    return rng.poisson(0.5, (docs, words)) + 2 * (np.arange(words) % 3 == topic)


@pytest.mark.slow
def test_a_fit_finds_the_topics():
    """Each has a third of the words."""
    counts = corpus()
    alg = vi.svi(vi.models.lda(3, 12), estep=vi.estep.gibbs(20, 10, "at_once"))
    fit = vi.fit(alg, counts, key=KEY, num_steps=60)
    topics = np.asarray(fit.posterior["topics"].mean())
    shares = topics.reshape(3, 4, 3).sum(1)
    assert np.all(np.sort(shares, axis=1)[:, -1] > 0.7)
    assert set(shares.argmax(1)) == {0, 1, 2}
    assert fit.transform(counts[:5], key=KEY).shape == (5, 3)


@pytest.mark.slow
def test_a_run_keeps_the_setting(tmp_path, capsys):
    data = tmp_path / "texts.csv"
    words = np.array(
        ["ash", "bay", "cob", "dew", "elm", "fig", "gum", "hay", "ivy", "jut", "keg", "log"]
    )
    texts = [" ".join(np.repeat(words, row)) for row in corpus()]
    data.write_text("\n".join(["text", *texts]))
    said = ["algorithm.name=svi", "algorithm.estep.name=gibbs", "fit.num_epochs=3",
            "model.num_topics=3", "fit.restarts=1", "data.min_df=1", "data.max_df=1.0"]  # fmt: skip
    run = tmp_path / "run"
    given = ["fit", "lda", "--data", str(data), "--out", str(run), "--set", *said]
    assert main([*given, "algorithm.estep.tokens=at once"]) == 2
    assert 'expected one of "in_turn", "at_once" or "none"' in capsys.readouterr().err
    assert main([*given, "algorithm.estep.tokens=at_once"]) == 0
    loaded = vi.load(run)
    assert loaded.fit.alg.spec.estep.tokens == "at_once"
    assert np.isfinite(loaded.fit.transform(corpus(5), key=KEY)).all()

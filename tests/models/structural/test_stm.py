"""The structural topic model: against `ctm`, a hand-written regression, and effects that are
known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from scipy.optimize import linear_sum_assignment

import vijax as vi
from tests.naming import naming
from tests.programs import compiled
from vijax.data import Corpus
from vijax.families import DirichletStats, MatrixNormalWishartStats
from vijax.families.scalar.beta import BetaStats
from vijax.models.structural.doubts import interval_notes
from vijax.models.structural.effects import compose, to_units

K, V = 3, 15


def simulated(seed, docs=60, words=V, length=40, topics=K):
    """Documents of two parties, whose topics differ by party and day; and the truth."""
    rng = np.random.default_rng(seed)
    beta = rng.dirichlet(np.full(words, 0.2), topics)
    table = {
        "party": np.array(["L", "R"])[rng.integers(0, 2, docs)],
        "day": rng.uniform(0, 10, docs),
    }
    x = np.column_stack([np.ones(docs), table["party"] == "R", table["day"] - 5])
    coefficients = np.stack(
        [0.3 * rng.normal(size=topics), rng.normal(size=topics), 0.15 * rng.normal(size=topics)]
    )
    half = 0.7 * np.linalg.cholesky(np.eye(topics) + 0.2)
    shares = special.softmax(x @ coefficients + rng.normal(size=(docs, topics)) @ half.T, 1)
    sizes = rng.poisson(length, docs) + 3
    counts = np.array(
        [rng.multinomial(n, share @ beta) for n, share in zip(sizes, shares, strict=True)]
    )
    return (
        Corpus.from_counts(counts),
        table,
        {"topics": beta, "coefficients": coefficients, "half": half},
    )


CORPUS, TABLE, TRUTH = simulated(0)
QUICK = vi.estep.proximal_gradient(
    vi.expectation.vector_monte_carlo(16, antithetic=True), max_iters=15
)
CERTAIN = vi.estep.proximal_gradient(vi.expectation.laplace())
MODEL = vi.stm(K, CORPUS, TABLE, "~ party + day", eta=0.1, estep=QUICK, num_samples=16)


@pytest.fixture(scope="module")
def fit():
    return vi.fit(vi.cavi(MODEL), MODEL.data, num_steps=8, key=jax.random.key(0))


def batch_of(model):
    return vi.data.full_batch(model.data, 1)[0]


def stats_of(model, seed=0):
    """Statistics of globals that no one chose."""
    rng = np.random.default_rng(seed)
    g, root = rng.normal(size=(len(model.covariates.design.labels), K)), rng.normal(size=(K, K))
    precision = root @ root.T + np.eye(K)
    product = g @ precision
    logits = MatrixNormalWishartStats(
        product, product @ g.T, precision, np.linalg.slogdet(precision)[1]
    )
    stats = {"logits": logits, "topics": DirichletStats(np.log(rng.dirichlet(np.ones(V), K)))}
    if model.covariates.groups:
        shares = rng.uniform(0.2, 0.8, (len(model.covariates.groups), K))
        stats["own"] = BetaStats(np.log(shares), np.log1p(-shares))
        stats["content"] = DirichletStats(
            np.log(rng.dirichlet(np.ones(V), len(model.covariates.groups) * K))
        )
    return jax.tree.map(jnp.asarray, stats)


def message_of(model):
    """The bound, its message and the locals, in float64."""

    def total(stats):
        said = model.local_elbo(model.hyper, stats, batch_of(model), jax.random.key(0), model.estep)
        return said.total, said

    return jax.tree.map(
        np.asarray, jax.jit(jax.value_and_grad(total, has_aux=True))(stats_of(model))
    )


@pytest.fixture(scope="module")
def in_double():
    with jax.enable_x64(True):
        return message_of(
            vi.stm(K, CORPUS, TABLE, "~ party + day", eta=0.1, estep=QUICK, num_samples=16)
        )


def test_the_step_is_bayesian_regression(in_double):
    """Prior + message is the conditional of (G, L) by hand (Rowe 2003, section 8.4), with E z z' in
    place of z z'."""
    _, message = in_double
    (_, said), logits = in_double[0], message["logits"]
    _, rows = vi.data.full_batch(MODEL.data, 1)
    x, m, site = MODEL.data.covariates[rows].astype(float), said.local[0].mean, said.local[0].site
    with jax.enable_x64(True):
        covs = np.linalg.inv(np.asarray(stats_of(MODEL)["logits"].precision) + site)
        prior = vi.stm(
            K, CORPUS, TABLE, "~ party + day", eta=0.1, estep=QUICK, num_samples=16
        ).prior({"eta": 0.1})
        q = vi.MatrixNormalWishart(
            *map(np.add, jax.tree.leaves(prior["logits"]), jax.tree.leaves(logits))
        )
        strength, location, scale, degrees = map(
            np.asarray, (q.strength, q.location, q.scale, q.degrees)
        )
    want = np.eye(3) + x.T @ x
    np.testing.assert_allclose(strength, want, rtol=1e-9, atol=1e-9)
    at = np.linalg.solve(want, x.T @ m)
    np.testing.assert_allclose(location, at, rtol=1e-9)
    rate = (K + 2) * np.eye(K) + m.T @ m + covs.sum(0) - at.T @ want @ at
    np.testing.assert_allclose(np.linalg.inv(scale), rate, rtol=1e-9)
    np.testing.assert_allclose(degrees, K + 2 + len(x))


def test_words_of_groups_against_a_loop(in_double):
    """The bound with content is that without at the words of each document's group; messages count
    all words."""
    del in_double
    with jax.enable_x64(True):
        model = vi.stm(
            K,
            CORPUS,
            TABLE,
            "~ day",
            content="party",
            eta=0.1,
            content_eta=0.2,
            estep=QUICK,
            num_samples=16,
        )
        (_, said), message = message_of(model)
        stats = stats_of(model)
        plain = vi.stm(K, CORPUS, TABLE, "~ day", eta=0.1, estep=QUICK, num_samples=16)
        own = np.asarray(stats["content"].log).reshape(2, K, V)
        bound = jax.jit(
            lambda at: plain.local_elbo(
                plain.hyper, at, batch_of(plain), jax.random.key(0), plain.estep
            ).per_group[0]
        )
        found = []
        for g in range(2):
            switch = np.exp(np.asarray(stats["own"].log)[g])[:, None]
            words = (1 - switch) * np.exp(np.asarray(stats["topics"].log)) + switch * np.exp(own[g])
            at = {"logits": stats["logits"], "topics": DirichletStats(jnp.log(words))}
            found.append(bound(at))
    rows = vi.data.full_batch(model.data, 1)[1]
    group = (TABLE["party"] == "R")[rows]
    np.testing.assert_allclose(
        said.per_group[0], np.where(group, *map(np.asarray, found[::-1])), rtol=1e-9
    )
    words = message["topics"].log.sum() + message["content"].log.sum()
    np.testing.assert_allclose(words, CORPUS.num_tokens, rtol=1e-9)
    np.testing.assert_allclose(
        message["own"].log.sum() + message["own"].log1m.sum(), CORPUS.num_tokens, rtol=1e-9
    )
    np.testing.assert_allclose(message["own"].log.sum(), message["content"].log.sum(), rtol=1e-9)


def test_with_an_intercept_alone_it_is_ctm():
    """The same posterior and bound after some steps, by an E-step that draws nothing."""
    ours = vi.stm(K, CORPUS, None, "~ 1", eta=0.1, estep=CERTAIN, num_samples=16, start="documents")
    known = vi.models.ctm(K, V, eta=0.1, estep=CERTAIN, num_samples=16)
    a = vi.fit(vi.cavi(ours), ours.data, num_steps=5, key=jax.random.key(0))
    b = vi.fit(vi.cavi(known), CORPUS, num_steps=5, key=jax.random.key(0))
    np.testing.assert_allclose(a.trace["elbo"], b.trace["elbo"], rtol=2e-6)
    law = jax.jit(lambda q, p: (q.location[0], p.location, q.scale, p.scale))
    location, known_location, scale, known_scale = law(a.posterior["logits"], b.posterior["logits"])
    np.testing.assert_allclose(
        a.posterior["topics"].concentration, b.posterior["topics"].concentration, rtol=2e-3
    )
    np.testing.assert_allclose(location, known_location, atol=2e-4)
    np.testing.assert_allclose(scale, known_scale, rtol=2e-3, atol=1e-5)
    assert a.score(ours.data, key=jax.random.key(1)).mean == pytest.approx(
        b.score(CORPUS, key=jax.random.key(1)).mean, abs=0.03
    )
    before = compiled()
    a.score(ours.data, key=jax.random.key(1))
    assert compiled() == before


def test_effects_are_regressions_of_drawn_shares():
    """Against least squares by hand; between draws of the shares and within each, variances add."""
    rng = np.random.default_rng(0)
    x, drawn = (
        MODEL.covariates.design.rows.x,
        rng.dirichlet(np.ones(K), (CORPUS.num_documents, 400)),
    )
    got = compose(drawn, x, MODEL.covariates.design, jax.random.key(0), 0.9)
    b = np.linalg.solve(x.T @ x, np.einsum("dj,dsk->jsk", x, drawn).reshape(3, -1)).reshape(
        3, 400, K
    )
    left = drawn - np.einsum("dj,jsk->dsk", x, b)
    within = (left**2).sum(0).mean(0) / (len(x) - 3) * np.diag(np.linalg.inv(x.T @ x))[:, None]
    np.testing.assert_allclose(got.mean, b.mean(1).T, atol=5 * got.sd.max() / 63)
    np.testing.assert_allclose(got.sd, np.sqrt(within + b.var(1)).T, rtol=0.08)
    low = got.at({"party": ["R"], "day": [2.0]})
    np.testing.assert_allclose(low.mean[:, 0], got.mean @ [1.0, 1.0, 2.0], rtol=1e-9)
    gap = got.difference({"party": ["R"], "day": [2.0]}, {"party": ["L"], "day": [2.0]})
    np.testing.assert_allclose(gap.low[:, 0], got.low[:, 1], rtol=1e-9)


def test_effects_at_known_shares_are_least_squares():
    """Their sds are those of least squares with N - P in the denominator: of few documents that is
    seen."""
    rng = np.random.default_rng(1)
    docs = 12
    x = MODEL.covariates.design.rows.x[:docs]
    shares = rng.dirichlet(np.ones(K), docs)
    got = compose(
        np.repeat(shares[:, None], 2000, 1), x, MODEL.covariates.design, jax.random.key(0), 0.9
    )
    b, squares = np.linalg.lstsq(x, shares, rcond=None)[:2]
    want = np.sqrt(np.linalg.inv(x.T @ x).diagonal()[:, None] * squares / (docs - x.shape[1]))
    np.testing.assert_allclose(got.sd, want.T, rtol=0.03)
    np.testing.assert_allclose(got.mean, b.T, atol=0.05 * want.max())


def test_expected_shares_are_shares_where_the_line_is_not():
    """A topic of small share falls along a covariate: the line goes below 0, its nearest shares do
    not; others hold."""
    rng = np.random.default_rng(2)
    day = np.asarray(TABLE["day"])
    first = np.clip(0.3 - 0.06 * day, 0.0, 1.0)
    rest = rng.dirichlet([5.0, 5.0], len(day)) * (1 - first)[:, None]
    shares = np.column_stack([first, rest])
    x, design = MODEL.covariates.design.rows.x, MODEL.covariates.design
    got = compose(np.repeat(shares[:, None], 40, 1), x, design, jax.random.key(0), 0.9)
    rows = {"party": ["L"] * 4, "day": [1.0, 3.0, 9.0, 12.0]}
    line = got.draws @ design.read_rows(rows).x.T
    assert line[:, 0, 3].mean() < -0.1
    found = got.at(rows)
    for part in (found.mean, found.low, found.high):
        assert part.min() >= 0
        assert part.max() <= 1
    np.testing.assert_allclose(found.mean.sum(0), 1.0, rtol=1e-9)
    np.testing.assert_allclose(
        found.mean[:, 0], line[:, :, 0].mean(0), rtol=1e-9
    )  # inside: as it was
    moved = np.mean(((line < 0) | (line > 1)).any(1))
    assert got.outside(rows) == pytest.approx(moved)
    assert 0.2 < moved < 1
    gap = got.difference({"party": ["L"], "day": [12.0]}, {"party": ["L"], "day": [1.0]})
    np.testing.assert_allclose(gap.mean[:, 0], found.mean[:, 3] - found.mean[:, 0], rtol=1e-9)
    law = to_units(np.ones((3, 3, K)), MODEL.covariates, 0.9)
    assert law.at(rows).mean.max() > 1  # coefficients of log proportions, which are any numbers


def test_what_a_fit_says(fit):
    assert np.all(np.diff(fit.trace["elbo"]) > -1e-5 * abs(fit.trace["elbo"][-1]))
    effects = MODEL.effects(fit, key=jax.random.key(1), num_draws=20)
    assert effects.labels == ("Intercept", "party[R]", "day")
    np.testing.assert_allclose(effects.mean.sum(0), [1, 0, 0], atol=1e-5)  # shares sum to one
    assert str(effects).splitlines()[2].split()[0] == "party[R]"
    (note,) = effects.notes
    assert note.startswith("Documents are short (44 words on average)")
    assert str(effects).splitlines()[-1] == note
    other = MODEL.effects(fit, "~ party", key=jax.random.key(1), num_draws=20)
    assert other.draws.shape == (200, K, 2)
    slopes = MODEL.coefficients(fit, key=jax.random.key(1))
    law = fit.posterior["logits"]
    np.testing.assert_allclose(slopes.mean[:, 2], law.location[2] / TABLE["day"].std(), atol=0.02)
    rows = MODEL.find_thoughts(fit, key=jax.random.key(2), number=2)
    shares = fit.transform(MODEL.data, key=jax.random.key(2))
    assert [int(found[0]) for found in rows] == [int(np.argmax(shares[:, k])) for k in range(K)]
    assert MODEL.words(fit).shape == (1, K, V)


def test_effects_are_of_the_chain(fit):
    """Beside those at fitted topics: near in the mean, not the same; other documents are at fitted
    topics."""
    found, fixed = (
        MODEL.effects(fit, key=jax.random.key(1), num_draws=20, **given)
        for given in ({}, {"sweeps": 0})
    )
    # The chain moves the slope of `day` by 1.5 to 2.1 of its sd, over keys; exchanged topics move
    # one by 8 or more.
    assert 0.01 < np.max(np.abs(found.mean - fixed.mean) / fixed.sd) < 3
    other = MODEL.effects(fit, key=jax.random.key(1), num_draws=20, corpus=MODEL.data, table=TABLE)
    np.testing.assert_array_equal(other.draws, fixed.draws)
    assert "sweeps=0" in fixed.notes[-1]
    assert len(found.notes) == 1
    said = []
    again = MODEL.effects(
        fit, key=jax.random.key(1), num_draws=2, sweeps=4, callback=lambda *each: said.append(each)
    )
    assert said == [(1, 10), (4, 10), (7, 10), (10, 10)]
    assert again.draws.shape[0] == 20
    with pytest.raises(ValueError, match="sweeps: expected"):
        MODEL.effects(fit, key=jax.random.key(1), sweeps=-1)


def test_intervals_that_may_be_too_narrow_are_named():
    (said,) = interval_notes(Corpus.from_counts([[10, 14], [50, 20]]), 300)
    assert said.startswith(
        "Documents are short (47 words on average): intervals may be too narrow."
    )
    assert interval_notes(Corpus.from_counts([[60, 0], [20, 40]]), 0) == ()
    (said,) = interval_notes(Corpus.from_counts([[50, 20]]), 300, 0.04)
    assert said.startswith("The chain accepted 4 % of its proposals")


def test_new_documents_are_described_by_training(fit):
    corpus, table, _ = simulated(1, docs=20)
    new = MODEL.described(corpus, table)
    day = (table["day"] - TABLE["day"].mean()) / TABLE["day"].std()
    np.testing.assert_allclose(new.covariates[:, 2], day, rtol=1e-4, atol=1e-5)
    assert fit.transform(new, key=jax.random.key(0)).shape == (20, K)
    parts = new.split(5, seed=0)
    np.testing.assert_array_equal(
        np.sort(np.concatenate([p.covariates[:, 2] for p in parts])), np.sort(new.covariates[:, 2])
    )
    with pytest.raises(ValueError, match=naming("data:", "3", "Pass", "model.data")):
        fit.transform(corpus, key=jax.random.key(0))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"table": {"party": ["L"]}}, "table: expected 60 rows, one a document, got 1"),
        ({"prevalence": "y ~ day"}, "prevalence: expected ~ terms, got 'y ~ day'"),
        ({"prevalence": "~ (1 | party)"}, "prevalence: expected no bars"),
        ({"prevalence": "~ year"}, "prevalence: expected a column 'year'"),
        ({"content": "year"}, "content: expected a column of the table"),
        ({"content": "one"}, r"content: expected a column of two groups or more, got \['a'\]"),
        ({"num_topics": 20}, "num_topics: expected at most the number of words, got 20"),
    ],
)
def test_wrong_arguments(given, said):
    table = {**TABLE, "one": ["a"] * CORPUS.num_documents}
    with pytest.raises(ValueError, match=said):
        vi.stm(
            **{"num_topics": K, "corpus": CORPUS, "table": table, "prevalence": "~ day", **given}
        )


@pytest.mark.parametrize(
    "name", ["svi", *(pytest.param(name, marks=pytest.mark.slow) for name in ("map", "ssvi_a"))]
)
def test_algorithms_of_ctm_find_the_topics(name):
    corpus, table, truth = simulated(3, docs=200, length=60)
    model = vi.stm(
        K,
        corpus,
        table,
        "~ party + day",
        content="party",
        eta=1.5,
        content_eta=1.5,
        estep=QUICK,
        num_samples=16,
    )
    step, batch = (
        ({}, {})
        if name == "map"
        else ({"step_size": vi.step_size.constant(0.3)}, {"batch_size": 50})
    )
    fit = vi.fit(
        getattr(vi, name)(model, **step), model.data, num_steps=15, key=jax.random.key(0), **batch
    )
    gaps = np.abs(np.asarray(model.words(fit)).mean(0)[:, None] - truth["topics"][None]).sum(-1)
    order = linear_sum_assignment(gaps)
    assert gaps[order].mean() < 0.5
    assert np.all(np.isfinite(fit.trace["elbo"]))
    effects = model.effects(fit, key=jax.random.key(0), num_draws=20, sweeps=40)
    assert np.abs(effects.mean[:, 1:] - effects_of(truth)[order[1]]).max() < 0.1


def test_steps_by_words_are_the_same():
    """Also of the words of groups, which are a table of their own."""
    corpus, table, _ = simulated(3, docs=80, length=20, words=60)
    model = vi.stm(
        K,
        corpus,
        table,
        "~ day",
        content="party",
        eta=0.3,
        content_eta=0.2,
        estep=CERTAIN,
        start="documents",
    )
    alg = vi.svi(model, step_size=vi.step_size.constant(0.5))
    batch = next(iter(vi.data.minibatches(model.data, 8, seed=0)))
    found = []
    for one, data in ((alg, batch), (vi.topics.by_words(alg), vi.topics.renumbered(batch, 60))):
        state = one.init(jax.random.key(0), data)
        found.append(jax.jit(one.step)(jax.random.key(1), state, data)[0].posterior)
    for name, q in found[0].items():
        for a, b in zip(jax.tree.leaves(q), jax.tree.leaves(found[1][name].plain()), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3)


@pytest.mark.slow
def test_intervals_of_effects_cover():
    """Of 72 intervals of 90 %, of party and day, 12 corpora and 3 topics, 65 should cover; those
    that know nothing of the shares' uncertainty would be 50."""
    covered = []
    for seed in range(12):
        corpus, table, truth = simulated(100 + seed, docs=300, words=60, length=80)
        model = vi.stm(K, corpus, table, "~ party + day", eta=0.2)
        fit = vi.fit(vi.cavi(model), model.data, num_steps=40, key=jax.random.key(seed))
        found = model.effects(fit, key=jax.random.key(seed))
        gaps = np.abs(
            np.asarray(fit.posterior["topics"].mean())[:, None] - truth["topics"][None]
        ).sum(-1)
        order = linear_sum_assignment(gaps)[1]
        effects = effects_of(truth)[order]
        covered += [(found.low[:, 1:] <= effects) & (effects <= found.high[:, 1:])]
    assert np.sum(covered) >= 55


def effects_of(truth, docs=200_000):
    """Least squares of the shares of many documents on party and day."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(docs), rng.integers(0, 2, docs), rng.uniform(-5, 5, docs)])
    z = x @ truth["coefficients"] + rng.normal(size=(docs, K)) @ truth["half"].T
    return np.linalg.lstsq(x, special.softmax(z, 1), rcond=None)[0].T[:, 1:]


def test_a_fit_knows_its_covariates():
    """Documents that another model has described, of as many columns, are refused; and so are
    questions to another."""
    both = {"party": TABLE["party"], "day": TABLE["day"]}
    model = vi.stm(2, CORPUS, both, "~ party + day", eta=0.1)
    fit = vi.fit(vi.cavi(model), model.data, num_steps=2, key=jax.random.key(0))
    new = CORPUS[np.array([0, 40])]
    own = {name: [column[0], column[40]] for name, column in both.items()}
    assert np.isfinite(fit.transform(model.described(new, own), key=jax.random.key(1))).all()
    swapped = vi.stm(2, CORPUS, both, "~ day + party", eta=0.1)
    for other in (swapped.data[:2], swapped.described(new, own)):
        with pytest.raises(ValueError, match=naming("documents:", "documents")):
            fit.transform(other, key=jax.random.key(1))
        with pytest.raises(ValueError, match="described by the model of the fit"):
            fit.score(other, key=jax.random.key(1))
    for ask in (swapped.effects, swapped.coefficients, swapped.find_thoughts):
        with pytest.raises(
            ValueError, match="fit: expected a fit of this model, got one of another formula"
        ):
            ask(fit, key=jax.random.key(1))
    again = vi.stm(2, CORPUS, both, "~ party + day", eta=0.1)
    assert again.covariates.mark == model.covariates.mark
    assert (
        vi.stm(2, CORPUS, both, "~ party + bs(day, df=4)").covariates.mark != model.covariates.mark
    )


def test_a_table_in_another_order_than_its_documents_is_refused():
    """By place the documents of one party had the covariates of the other: an effect of 1 was 0."""
    pandas = pytest.importorskip("pandas")
    texts = ["tax money bank market"] * 6 + ["school teacher pupil lesson"] * 6
    table = pandas.DataFrame({"text": texts, "party": ["L"] * 6 + ["R"] * 6})
    corpus = vi.data.read(table, column="text")
    turned = table.sample(frac=1, random_state=0)
    with pytest.raises(ValueError, match=naming("table:", "table.loc", "corpus.index")):
        vi.stm(2, corpus, turned, "~ party")
    with pytest.raises(ValueError, match="table: expected the index of corpus"):
        vi.stm(2, corpus[::-1], table, "~ party")
    assert vi.stm(2, corpus, turned.loc[corpus.index], "~ party") is not None
    assert vi.stm(2, corpus, turned.set_index(corpus.index), "~ party") is not None
    assert vi.stm(2, corpus, {"party": turned["party"].to_numpy()}, "~ party") is not None
    assert (
        vi.stm(2, vi.data.read(turned, column="text")[:7], turned.iloc[:7], "~ party") is not None
    )

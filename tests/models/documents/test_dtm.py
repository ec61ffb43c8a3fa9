"""The dynamic topic model: recovery, limits, times, forecasts, and what is refused. That it obeys
the laws of models is in tests/models/test_laws_*.py, and its bound in
tests/families/test_word_walks.py."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.optimize import linear_sum_assignment

import vijax as vi
from vijax.evaluate.completion import document_completion, grouped_completion
from vijax.models.documents.slices import Slices

KEY = jax.random.key(0)
TOPICS, SLICES, WORDS, DOCUMENTS = 3, 6, 60, 360
VOCABULARY = [f"w{v}" for v in range(WORDS)]


@pytest.fixture(scope="module")
def moving():
    """Documents of topics whose log weights walk with variance 0.25 a step: counts, slices,
    probabilities of words."""
    rng = np.random.default_rng(0)
    steps = np.sqrt(0.25) * rng.normal(size=(TOPICS, SLICES, WORDS))
    steps[:, 0] = np.log(rng.gamma(0.2, 1.0, (TOPICS, WORDS)) + 1e-4)
    weights = steps.cumsum(1)
    words = np.exp(weights - weights.max(-1, keepdims=True))
    words /= words.sum(-1, keepdims=True)
    index = np.arange(DOCUMENTS) % SLICES
    shares = rng.dirichlet(np.full(TOPICS, 0.3), DOCUMENTS)
    mixed = np.einsum("dk,kdv->dv", shares, words[:, index])
    return rng.multinomial(60, mixed), index, words


def corpus_of(counts):
    return vi.data.Corpus.from_counts(counts, VOCABULARY)


def distance(words, truth):
    """Mean total variation of the best pairs of topics."""
    costs = 0.5 * np.abs(words[:, None] - truth[None]).sum(-1).mean(-1)
    return costs[linear_sum_assignment(costs)].mean()


def fit_of(counts, times, steps=60, **settings):
    model = vi.dtm(TOPICS, corpus_of(counts), times, **settings)
    return model, vi.fit(vi.cavi(model), model.data, num_steps=steps, key=KEY)


def test_moving_words_are_found_and_still_topics_are_worse(moving):
    """Words, held-out documents, and the bound, which chooses the variance of the walk."""
    counts, index, words = moving
    train, held_out = slice(0, 300), slice(300, None)
    ends = {}
    for drift in (1e-4, 0.25):
        model, fit = fit_of(counts[train], 1990 + index[train], drift=drift, alpha=0.3)
        new = model.with_times(corpus_of(counts[held_out]), 1990 + index[held_out])
        score = fit.score(new, key=KEY).mean
        ends[drift] = fit.trace["elbo"][-1], score, distance(model.words(fit).mean, words)
        assert np.diff(fit.trace["elbo"]).min() > -1e-6 * abs(fit.trace["elbo"][-1])
    (still_bound, still_score, still_error), (bound, score, error) = ends.values()
    assert bound > still_bound + 300
    assert score > still_score + 0.05
    assert error < 0.12 < 0.16 < still_error


@pytest.mark.slow
def test_the_variance_of_the_walk_is_learnt(moving):
    counts, index, _ = moving
    model = vi.dtm(TOPICS, corpus_of(counts), index, drift=0.02, alpha=0.3)
    learn = vi.learn("drift", optimizer=optax.adam(0.1))
    fit = vi.fit(vi.cavi(model, learn=learn), model.data, num_steps=120, key=KEY)
    assert 0.1 < float(fit.state.hyper["drift"]) < 0.4
    # The law of the words follows the hyperparameter.
    np.testing.assert_allclose(
        fit.posterior["topics"].precision[:, 1:], 1 / fit.state.hyper["drift"], rtol=0.1
    )


@pytest.mark.slow
def test_minibatches_end_near_coordinate_ascent(moving):
    counts, index, words = moving
    model, full = fit_of(counts, index, drift=0.25, alpha=0.3)
    fit = vi.fit(vi.svi(model), model.data, key=KEY, batch_size=60, num_epochs=30)
    assert distance(model.words(fit).mean, words) < distance(model.words(full).mean, words) + 0.01


@pytest.mark.slow
def test_memoized_steps_never_fall(moving):
    counts, index, _ = moving
    model = vi.dtm(TOPICS, corpus_of(counts), index, drift=0.25, alpha=0.3)
    fit = vi.fit(vi.memoized(model, num_parts=4), model.data, num_epochs=12, key=KEY)
    later = fit.trace["elbo"][4:]
    assert np.diff(later).min() > -2e-6 * abs(later[-1])


@pytest.mark.slow
def test_without_variance_it_is_the_model_of_a_single_slice(moving):
    counts, index, _ = moving
    still_model, still = fit_of(counts, index, 15, drift=1e-6)
    one_model, one = fit_of(counts, np.zeros(DOCUMENTS), 15)
    still_words, one_words = (
        model.words(fit).mean for model, fit in ((still_model, still), (one_model, one))
    )
    np.testing.assert_allclose(still_words, np.repeat(one_words, SLICES, 1), atol=2e-3)
    np.testing.assert_allclose(still.trace["elbo"][-1], one.trace["elbo"][-1], rtol=1e-4)


def test_documents_in_another_order_give_the_same_step(moving):
    counts, index, _ = moving
    rows = np.random.default_rng(1).permutation(40)
    model = vi.dtm(TOPICS, corpus_of(counts[:40]), index[:40])
    other = model.with_times(corpus_of(counts[rows]), index[rows])
    alg, ends = vi.cavi(model), []
    begin = vi.fit(alg, model.data, num_steps=1, key=KEY).state
    for data in (model.data, other):
        fit = vi.fit(alg, data, num_steps=3, key=KEY, state=begin)
        ends.append(np.asarray(fit.posterior["topics"].counts))
    np.testing.assert_allclose(*ends, rtol=2e-3, atol=1e-4)


def test_scores_are_those_of_document_completion_with_the_words_of_the_slice(moving):
    counts, index, words = moving
    corpus = corpus_of(counts)
    by_slice = np.moveaxis(words, 1, 0)
    score = grouped_completion([(by_slice, 0.3)], corpus, index, KEY)
    for t in (0, 4):
        rows = np.flatnonzero(index == t)
        alone = document_completion(words[:, t], 0.3, corpus[rows], KEY)
        np.testing.assert_allclose(score.log_probs[rows], alone.log_probs, rtol=1e-5)


@pytest.fixture(scope="module")
def every_other_year(moving):
    counts, index, _ = moving
    return fit_of(counts, 1990 + 2 * index, 20, drift=0.25)


def test_shares_of_slices_sum_to_one_and_words_of_topics_are_listed(every_other_year):
    model, fit = every_other_year
    shares = model.shares(fit, key=KEY)
    np.testing.assert_allclose(shares.sum(1), np.ones(SLICES), rtol=1e-5)
    assert [len(words) for words in fit.topics(num_words=4)] == [4] * TOPICS


def test_a_forecast_is_wider_the_later_it_is(every_other_year):
    model, fit = every_other_year
    near, far = model.forecast(fit, 2002), model.forecast(fit, 2010)
    last = model.words(fit)
    assert near.slices == ("2002",)
    np.testing.assert_allclose(near.mean[:, 0], last.mean[:, -1], rtol=0.1, atol=1e-3)
    leading = last.mean[:, -1] > 0.02
    widths = [np.log(x.high[:, -1] / x.low[:, -1])[leading] for x in (last, near, far)]
    assert np.all(widths[0] < widths[1])
    assert np.all(widths[1] < widths[2])
    with pytest.raises(ValueError, match=r"^time: expected a time after the last slice, 2000, got"):
        model.forecast(fit, 1995)


def test_new_documents_beyond_the_slices_are_told(moving):
    counts, index, _ = moving
    times = np.array([1990, 1991, 1994, 1995, 1996, 1997])[index]
    model, _ = fit_of(counts, times, 1)
    assert model.slices.gaps.tolist() == [1, 3, 1, 1, 1]
    new = corpus_of(counts[:4])
    with pytest.warns(vi.models.SliceWarning, match=r"1 after the last slice, 1997.*; 2 in no"):
        described = model.with_times(new, [1989, 1992, 1997, 2005])
    assert described.covariates[:, 0].tolist() == [0, 1, 5, 5]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.with_times(new, [1990, 1991, 1994, 1997])


def test_slices_of_dates_and_numbers():
    days = ["2001-01-31", "2001-02-01", "2001-05-05", "2002-05-05"]
    assert Slices.read(days, "month").places.tolist() == [24012, 24013, 24016, 24028]
    assert Slices.read(days, "quarter").names == ("2001-Q1", "2001-Q2", "2002-Q2")
    assert Slices.read(np.array(days, "datetime64[D]"), "year").names == ("2001", "2002")
    assert Slices.read([1, 4, 5, 11], 5).places.tolist() == [0, 5, 10]
    tenths = Slices.read([0.1, 0.2, 0.3, 0.7], 0.1)  # in doubles 0.3 / 0.1 is less than 3
    assert tenths.names == ("0.1", "0.2", "0.3", "0.7")
    assert tenths.nearest([-1, 0.1, 0.45, 0.65, 9]).tolist() == [0, 0, 2, 3, 3]
    assert Slices.read([7]).nearest([1, 7, 9]).tolist() == [0, 0, 0]
    # Eight digits are a day if all times of training have them; those of new documents do not tell.
    counters = Slices.read([5, 12345678])
    assert counters.find([12345678]).tolist() == [1]
    assert len(Slices.read(days)) == 4  # days, of which there are fewer than five periods
    with pytest.raises(ValueError, match=r"^times: .*got '6/5/2002'\. Write dates as 2024-05-31"):
        Slices.read(["31.01.2001", "5.5.2002"], "year").find(["6/5/2002"])


@pytest.mark.slow
def test_slices_without_documents_of_training(moving):
    """Their words lie between those of their neighbours."""
    counts, index, _ = moving
    slices = Slices.read(range(SLICES))
    rows = np.flatnonzero(index != 2)
    model, fit = fit_of(counts[rows], index[rows], 15, every=slices, drift=0.25)
    weights = np.asarray(fit.posterior["topics"].mean())
    middle = 0.5 * (weights[:, 1] + weights[:, 3])
    np.testing.assert_allclose(weights[:, 2], middle, atol=0.05)
    held_out = model.with_times(corpus_of(counts[index == 2]), index[index == 2])
    assert np.isfinite(fit.score(held_out, key=KEY).mean)
    with pytest.raises(ValueError, match=r"^times: expected times in the slices, got 7 in row 1"):
        vi.dtm(2, corpus_of(counts[:2]), [1, 7], slices)


@pytest.mark.parametrize(
    ("times", "every", "said"),
    [
        (None, None, r"^times: expected a date or a number for each document, got none"),
        ([1, 2], None, r"^times: expected 3 times, one a document, got 2"),
        ([True, False, True], None, r"^times: expected dates or numbers, got booleans"),
        ([1, None, 2], None, r"^times: expected a time for each document, got none in row 1"),
        ([1, np.nan, 2], None, r"^times: expected a time for each document, got none in row 1"),
        (["soon", "late", "x"], None, r"^times: expected numbers, or dates of one format, got"),
        ([1, 2, 3], "month", r"^every: expected None, or the width of a slice"),
        ([1, 2, 3], 0, r"^every: expected None, or the width of a slice"),
        ([1, 2, 3], np.inf, r"^every: expected None, or the width of a slice"),
        (["2001-01-01"] * 3, 5, r"^every: expected one of"),
        ([20240531, 20240601, 20240602], None, r"^times: .*days without marks"),
    ],
)
def test_times_that_cannot_be_read(times, every, said):
    with pytest.raises(ValueError, match=said):
        vi.dtm(2, corpus_of(np.ones((3, WORDS), int)), times, every)


def test_what_does_not_fit_and_what_says_nothing_is_refused():
    corpus = corpus_of(np.ones((3, WORDS), int))
    with pytest.raises(ValueError, match=r"10,000,000 topics x 3 slices x 60 words.*every="):
        vi.dtm(10_000_000, corpus, [1, 2, 3])
    with pytest.raises(ValueError, match=r"^drift: expected a scalar or shape \(2,\), got \(3,\)"):
        vi.dtm(2, corpus, [1, 2, 3], drift=np.ones(3))
    with pytest.raises(ValueError, match=r"^spread: expected a number above 0 and at most 30"):
        vi.dtm(2, corpus, [1, 2, 3], spread=100.0)
    model = vi.dtm(2, corpus, [1, 2, 3])
    with pytest.raises(ValueError, match=r"keeps the priors of \['topics'\].*Use vijax\.cavi or"):
        vi.em(model)
    with pytest.raises(ValueError, match=r"a distribution of \['topics'\].*Use vijax\.cavi or"):
        vi.map(model)
    other = vi.dtm(2, corpus, [1, 2, 4])
    fit = vi.fit(vi.cavi(model), model.data, num_steps=1, key=KEY)
    with pytest.raises(ValueError, match=r"^fit: expected a fit of this model, got one of other"):
        other.words(fit)
    with pytest.raises(ValueError, match=r"^documents: expected documents described by the model"):
        fit.transform(other.data, key=KEY)
    with pytest.raises(ValueError, match=r"^documents: .*with_times\(corpus, times\)"):
        fit.transform(corpus, key=KEY)


@pytest.mark.slow
def test_coordinate_ascent_never_falls_in_double_precision(moving):
    counts, index, _ = moving
    with jax.enable_x64(True):
        # A small alpha makes the E-step of a document jump from one maximum to another.
        _, fit = fit_of(counts[:100], index[:100], 30, drift=0.25, alpha=1.0)
        assert fit.posterior["topics"].counts.dtype == jnp.float64
        rises = np.diff(fit.trace["elbo"])
    assert rises.min() > -1e-10 * abs(fit.trace["elbo"][-1])

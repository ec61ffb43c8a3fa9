"""The dynamic topic model (Blei and Lafferty 2006): `vijax.dtm`.

    beta_k1v ~ N(0, spread),   beta_ktv ~ N(beta_k,t-1,v, drift_k gap_t),
    theta_d ~ Dirichlet(alpha),   z_dm ~ Categorical(theta_d),
    w_dm ~ softmax(beta_{z_dm, t(d)})

The words of a topic move: in each slice of time t they have log weights of their own, which walk at
random from slice to slice. The shares of a document are those of latent Dirichlet allocation (Blei
and Lafferty let their mean walk too).

At q(theta_d) = Dirichlet(gamma_d) the bound of a document is that of latent Dirichlet allocation,
with E log softmax(beta_kt) of its slice for the log probabilities of words. This has no closed
form; its lower bound and q(beta) are in `vijax.families.chain.walks` and
`vijax.families.chain.word_walks`. The message of a document is the expected counts of its words, by
topic and slice, as it is for a Dirichlet; so coordinate ascent, stochastic and memoized steps, and
all E-steps are those of latent Dirichlet allocation. No array is larger than K x T x V numbers."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.arguments import Positives, Size, check_arguments, interval
from vijax.checks import require
from vijax.contract.batch import DataForm, DocumentForm, Documents, Minibatch
from vijax.contract.model import Estimates, Hyper, LocalElbo, LocalsPlan, Model
from vijax.contract.queries import answers
from vijax.contract.room import require_room
from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.select import with_vocabulary
from vijax.data.known_words import are_same
from vijax.families import Product
from vijax.families.base import as_float
from vijax.families.chain.word_walks import WordWalks, steps_precision
from vijax.families.discrete.by_word import TransposedDirichletStats
from vijax.inference import estep as esteps
from vijax.models.documents.ctm import counts_at_random, word_frequencies
from vijax.models.documents.lda import (
    cold_shares,
    local_elbo,
    mean_shares,
    share_concentration,
)
from vijax.models.documents.slices import Slices
from vijax.xla.by_value import cache_by_value, pickle_as_call

COPIES = 12
"""Tables of K x T x V numbers that a step holds at once."""


class SliceWarning(UserWarning):
    """New documents of a time that training does not have."""


class MovingWords(NamedTuple):
    """Probabilities of words of topics by slice, with central intervals.

    Attributes:
      slices: names of the slices; of a forecast its time.
      mean: probabilities, (K, T, V).
      low, high: ends of the intervals.
    """

    slices: tuple[str, ...]
    mean: Float[np.ndarray, "K T V"]
    low: Float[np.ndarray, "K T V"]
    high: Float[np.ndarray, "K T V"]


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Dtm(Model):
    """A dynamic topic model of one corpus.

    Attributes:
      data: the documents with their slices, for `vijax.fit`.
      slices: the slices of time, as learnt from the documents of training.
    """

    data: Corpus
    slices: Slices

    # --- data -------------------------------------------------------------------------------------
    def with_times(self, corpus: Corpus, times: Any) -> Corpus:
        """Other documents with their slices, for `Fit.transform`, `Fit.score` and `vijax.fit`.

        A document after the last slice gets the words of the last one, which are the forecast of
        the random walk; one between two slices, or before the first, those of the nearest one. A
        `SliceWarning` says how many these are.

        Args:
          corpus: documents; words that training does not have are left out.
          times: a date or number for each document, of the kind of training.

        Raises:
          ValueError: a time that is missing or cannot be read, or another number of times.
        """
        if corpus.vocabulary is not None and corpus.vocabulary != self.data.vocabulary:
            corpus = with_vocabulary(corpus, self.data.vocabulary or ())
        _require_times(corpus, times)
        index = self.slices.find(times)
        if np.any(index < 0):
            warnings.warn(self._strange_times(times, index), SliceWarning, stacklevel=2)
            index = self.slices.nearest(times)  # of a time in a slice, that slice
        return _attach(corpus, index, self.slices)

    described = with_times

    def _strange_times(self, times: Any, index: Int[np.ndarray, " docs"]) -> str:
        """The text of a `SliceWarning`."""
        places = self.slices.read_places(times)[index < 0]
        num_later = int(np.sum(places > self.slices.places[-1]))
        texts = []
        if num_later:
            texts.append(
                f"{num_later:,} after the last slice, {self.slices.names[-1]}, whose words "
                "they get: the forecast of the random walk"
            )
        if len(places) > num_later:
            texts.append(f"{len(places) - num_later:,} in no slice, which get that nearest in time")
        return f"documents of times that training does not have: {'; '.join(texts)}."

    # --- queries of a fit -------------------------------------------------------------------------
    def words(self, fit: Any, level: float = 0.9) -> MovingWords:
        """Probabilities of words by topic and slice, with intervals of this probability."""
        return _moving_words(self._law(fit), self.slices.names, level)

    def forecast(self, fit: Any, time: Any, level: float = 0.9) -> MovingWords:
        """Probabilities of words at a time after the last slice. Means are those of the last slice;
        the variance of a log weight grows by `drift` a step.

        Args:
          fit: fit of this model.
          time: a date or number, of the kind of training.
          level: probability of the intervals.

        Raises:
          ValueError: a time that is not after the last slice.
        """
        law = self._law(fit)
        place = float(self.slices.read_places([time], "time")[0])
        last = float(self.slices.places[-1])
        expected = f"a time after the last slice, {self.slices.names[-1]}"
        remedy = "The slices of training are in model.words(fit)."
        require(place > last, "time", expected, repr(time), remedy)
        gap = (place - last) / self.slices.usual_gap
        drift = fit.state.hyper["drift"]
        later = law.beyond(jnp.broadcast_to(drift, (law.counts.shape[0],)), gap)
        moving = _moving_words(later, (*self.slices.names, str(time)), level)
        return MovingWords(moving.slices[-1:], *(x[:, -1:] for x in moving[1:]))

    def shares(self, fit: Any, *, key: PRNGKeyArray) -> Float[np.ndarray, "T K"]:
        """The share of each topic in the words of the documents of each slice of training."""
        theta = np.asarray(fit.transform(self.data, key=key), float)
        tokens = np.asarray(self.data.tokens, float)
        assert self.data.covariates is not None
        index = self.data.covariates[:, 0].astype(int)
        totals = np.zeros((len(self.slices), theta.shape[1]))
        np.add.at(totals, index, tokens[:, None] * theta)
        return totals / np.maximum(totals.sum(1, keepdims=True), 1e-300)

    def _law(self, fit: Any) -> WordWalks:
        """The words of a fit of this model; ValueError for any other."""
        form = fit.alg.spec.model.form.documents
        by_own = form is not None and form.described_by == self.slices.mark
        remedy = "Make the model of the times of the fit."
        require(by_own, "fit", "a fit of this model", "one of other slices", remedy)
        own_words, fit_words = self.data.vocabulary, fit.vocabulary
        is_own = own_words is None or fit_words is None or are_same(own_words, fit_words)
        expected = "a fit of this model, over its words"
        require(is_own, "fit", expected, "one over others", "Ask the model of that fit.")
        return fit.posterior["topics"]


def _moving_words(law: WordWalks, names: Sequence[str], level: float) -> MovingWords:
    interval("(0, 1)").check("level", level)
    law = law.prepare()
    low, high = law.bands(level)
    return MovingWords(tuple(names), *map(np.asarray, (law.probabilities(), low, high)))


@check_arguments
def dtm(
    num_topics: Size,
    corpus: Any,
    times: Any = None,
    every: Any = None,
    alpha: Positives = 0.1,
    drift: Positives = 0.05,
    spread: Annotated[float, interval("(0, 30]")] = 5.0,
    estep: Any = None,
) -> Dtm:
    """The dynamic topic model: topics whose words move in time.

    Args:
      num_topics: K, number of topics.
      corpus: the documents, a `vijax.data.Corpus` or an argument of `vijax.data.read`.
      times: a date or a number for each document.
      every: the slices: "year", "quarter", "month", "week" or "day" of dates; the width of a slice
        of numbers. None takes each number, and of dates the longest period with five slices. Or
        the slices themselves, `vijax.models.Slices.read(all_times, every)`, of which some may have
        no documents.
      alpha: prior concentration of a document's topics; small: few topics each. A scalar or shape
          (K,).
      drift: variance of a step of the log weight of a word, over the median gap between slices;
        longer gaps have more in proportion. A scalar, or (K,). `learn=vijax.learn("drift")` learns
        it.
      spread: variance of the log weights of the first slice; large: sharper topics.
      estep: default E-step; `vijax.estep.mean_field()` if None.

    Returns:
      A `Model` of this corpus with one global, `topics`, a
      `vijax.families.chain.word_walks.WordWalks` of batch shape (K,), and hyperparameters `alpha`,
      `drift` and `spread`. Fit it by `vijax.fit(vijax.cavi(model), model.data, num_steps=100,
      key=key)`, or by `svi` or `memoized`. `model.words`, `model.forecast` and `model.shares` take
      the fit; `fit.score` is the document completion of `vijax.models.lda`.

    Raises:
      ValueError: a time that is missing or cannot be read, tables that do not fit in memory, an
          argument out of its range.

    >>> import vijax as vi
    >>> from vijax.data import synthetic
    >>> corpus, _ = synthetic.lda_corpus(num_documents=30, num_topics=2, vocab_size=20, seed=0)
    >>> model = vi.dtm(2, corpus, np.repeat([1990, 1991, 1994], 10))
    >>> fit = vi.fit(vi.cavi(model), model.data, num_steps=10, key=jax.random.key(0))
    >>> model.words(fit).mean.shape, model.slices.gaps.round(2).tolist()
    ((2, 3, 20), [0.5, 1.5])
    """
    from vijax.data import read

    corpus = read(corpus)
    expected = "a date or a number for each document"
    require(times is not None, "times", expected, "none", "Without times use vijax.models.lda.")
    _require_times(corpus, times)
    slices = _slices(times, every)
    _require_room(int(num_topics), len(slices), corpus.vocab_size)
    sizes = _Sizes(int(num_topics), len(slices), int(corpus.vocab_size), tuple(slices.gaps))
    plain_model = _model(sizes, alpha, drift, spread, estep or esteps.mean_field())
    parts = {field.name: getattr(plain_model, field.name) for field in dataclasses.fields(Model)}
    words = corpus.vocabulary and tuple(corpus.vocabulary)
    assert plain_model.form.documents is not None
    documents = plain_model.form.documents._replace(vocabulary=words, described_by=slices.mark)
    parts["form"] = dataclasses.replace(plain_model.form, documents=documents)
    model = Dtm(**parts, data=_attach(corpus, slices.find(times), slices), slices=slices)
    return pickle_as_call(model, dtm, num_topics, corpus, times, every, alpha, drift, spread, estep)


def resize(model: Any, num_topics: int, alpha: Any, drift: Any) -> Any:
    """A dynamic topic model of the same documents with another number of topics."""
    sizes = dataclasses.replace(model.prior.args[0], topics=num_topics)
    plain_model = _model(sizes, alpha, drift, model.hyper["spread"], model.estep)
    parts = {field.name: getattr(plain_model, field.name) for field in dataclasses.fields(Model)}
    resized_model = dataclasses.replace(model, **(parts | {"form": model.form}))
    return pickle_as_call(resized_model, resize, model, num_topics, alpha, drift)


def _slices(times: Any, every: Any) -> Slices:
    """The slices of times, or those that are given."""
    if not isinstance(every, Slices):
        return Slices.read(times, every)
    index = every.find(times)
    row = int(np.argmin(index))
    remedy = "Make the slices of all times."
    actual = f"{np.asarray(times, object)[row]!r} in row {row}"
    require(index[row] >= 0, "times", "times in the slices", actual, remedy)
    return every


def _require_times(corpus: Corpus, times: Any) -> None:
    number = len(np.atleast_1d(np.asarray(times, object)))
    expected = f"{corpus.num_documents} times, one a document"
    remedy = "Empty documents are kept by vijax.data.read: its rows are those of the file."
    require(number == corpus.num_documents, "times", expected, number, remedy)


def _require_room(num_topics: int, num_slices: int, num_words: int) -> None:
    """ValueError if the tables of a fit do not fit in memory."""
    numbers = num_topics * num_slices * num_words
    sizes = f"{num_topics:,} topics x {num_slices:,} slices x {num_words:,} words"
    remedy = "Take fewer topics, longer slices (every=), or fewer words (min_df=)."
    require_room("num_topics", sizes, COPIES * numbers, remedy)


def _attach(corpus: Corpus, index: Int[np.ndarray, " docs"], slices: Slices) -> Corpus:
    """The documents with the numbers of their slices."""
    columns = np.asarray(index, float)[:, None]
    return dataclasses.replace(corpus, covariates=columns, described_by=slices.mark)


@dataclasses.dataclass(frozen=True)
class _Sizes:
    """K, T, V, and the gaps between slices."""

    topics: int
    slices: int
    words: int
    gaps: tuple[float, ...]


@cache_by_value
def _model(sizes: _Sizes, alpha: Any, drift: Any, spread: float, estep: Any) -> Model:
    hyper = {
        "alpha": share_concentration(alpha, sizes.topics),
        "drift": _drift(drift, sizes.topics),
        "spread": as_float(spread, "spread"),
    }
    return Model(
        hyper,
        functools.partial(_prior, sizes),
        functools.partial(_bound, sizes),
        functools.partial(_start, sizes),
        estep,
        needs_prior=("topics",),
        without_mode=("topics",),
        form=DataForm(documents=DocumentForm(sizes.words, {})),
        locals=LocalsPlan(
            functools.partial(cold_shares, sizes.topics),
            solved_by=esteps.MixedMembership,
            is_linear=True,
        ),
        queries=answers(
            score=lambda hyper, estimates, data, key: _score([hyper], [estimates], data, key),
            average=_score,
            transform=mean_shares,
        ),
    )


def _drift(value: Any, num_topics: int) -> Float[Array, ...]:
    value = as_float(value, "drift")
    expected = f"a scalar or shape ({num_topics},)"
    require(value.shape in ((), (num_topics,)), "drift", expected, value.shape)
    return value


def _prior(sizes: _Sizes, hyper: Hyper) -> Product:
    """Random walks without counts."""
    gaps = np.array(sizes.gaps)
    precision = steps_precision(hyper["spread"], hyper["drift"], gaps, sizes.topics)
    shape = sizes.topics, sizes.slices, sizes.words
    return Product({"topics": WordWalks(jnp.zeros(shape, precision.dtype), precision)})


def _bound(
    sizes: _Sizes, hyper: Hyper, stats: Any, batch: Minibatch, key: PRNGKeyArray, estep: Any
) -> LocalElbo:
    """The bound of latent Dirichlet allocation, with each word of each slice a word of its own."""
    log = stats["topics"].log
    by_word = jnp.transpose(log, (1, 2, 0)).reshape(-1, sizes.topics)
    stats = {"topics": TransposedDirichletStats(by_word)}
    data = tuple(_words_in_slices(sizes, docs) for docs in batch.data)
    return local_elbo(sizes.topics, hyper, stats, batch._replace(data=data), key, estep)


def _words_in_slices(sizes: _Sizes, docs: Documents) -> Documents:
    """Documents whose words are those of their slices: word v of slice t has the id t V + v."""
    expected = "documents with their slices of time"
    remedy = "Describe them by this model: model.with_times(corpus, times)."
    require(docs.covariates is not None, "documents", expected, "none", remedy)
    assert docs.covariates is not None
    index = jnp.asarray(docs.covariates)[:, :1].astype(jnp.int32)
    words = jnp.asarray(docs.words) + sizes.words * index.astype(docs.words.dtype)
    return dataclasses.replace(docs, words=words, covariates=None)


def _start(
    sizes: _Sizes, hyper: Hyper, key: PRNGKeyArray, prior: Product, batch: Minibatch | None
) -> Product:
    """Topics that stand still, half at the frequencies of words, half at the words of five random
    documents each (as in `vijax.models.ctm`); without a batch near uniform."""
    walks: Any = prior["topics"]
    shape, dtype = (sizes.topics, sizes.words), walks.precision.dtype
    if batch is None:
        counts = 1 + jax.random.normal(key, shape, dtype) / 10
        counts = jnp.maximum(counts, 0.5)
    else:
        frequencies = word_frequencies(batch.data, jnp.zeros(shape, dtype))
        seeds = counts_at_random(key, batch.data, shape, dtype)
        seeds = seeds * (jnp.sum(frequencies) / jnp.maximum(jnp.sum(seeds), 1.0))
        counts = 0.5 * (seeds + frequencies[None] / sizes.topics)
    counts = jnp.broadcast_to(counts[:, None] / sizes.slices, walks.counts.shape)
    return prior.replace({"topics": WordWalks(counts, walks.precision).with_start()})


def _score(hypers: Sequence[Hyper], estimates: Sequence[Estimates], data: Any, key: Any) -> Any:
    """Document completion at the expected words of the slice of each document, of one or several
    fits (`vijax.evaluate.document_completion`)."""
    from vijax.evaluate.completion import grouped_completion

    fits = []
    for hyper, estimate in zip(hypers, estimates, strict=True):
        words: Any = estimate["topics"]
        fits.append((np.asarray(jnp.moveaxis(words.probabilities(), 1, 0)), hyper["alpha"]))
    return grouped_completion(fits, data, np.asarray(data.covariates)[:, 0].astype(int), key)

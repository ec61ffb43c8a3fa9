"""Scores with standard errors: of held-out documents and observations, and of topics; differences
of scores; a baseline."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree
from scipy import special

from vijax.checks import require_integers
from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.select import select_words
from vijax.data.known_words import read_over_words
from vijax.data.reading.checks import fail
from vijax.data.schema.same_rows import require_one_index
from vijax.evaluate.tokens import as_corpus, check_topics
from vijax.families import Family, Point
from vijax.numerals import number_and_noun, with_error
from vijax.xla.compiler import count_numbers, once_jit
from vijax.xla.precision import enable_x64

ROWS_AT_ONCE = 1024


class Score(NamedTuple):
    """Log probability per word of held-out documents, in nats; or per step of sequences.

    Attributes:
      mean: total log probability over total tokens.
      standard_error: standard error over documents as random draws (ratio estimator); inf for a
          single document.
      log_probs: log probability of each scored document, nats.
      num_tokens: number of scored tokens of each scored document.
      rows: row of each scored document in the corpus.
      num_skipped: number of documents that are too short.
      units: the words for one document and for one token, for printing.

    >>> print(Score.of([-8.0, -30.0], [2, 8], num_skipped=1))
    -3.800 ± 0.080 nats per word (2 documents, 10 words; 1 too short)
    """

    mean: float
    standard_error: float
    log_probs: Float[np.ndarray, " docs"]
    num_tokens: Int[np.ndarray, " docs"]
    rows: Int[np.ndarray, " docs"]
    num_skipped: int
    units: tuple[str, str] = ("document", "word")

    @classmethod
    def of(
        cls, log_probs, num_tokens, rows=None, num_skipped: int = 0, units=("document", "word")
    ) -> Score:
        """The score from the log probability and the number of scored tokens of each document."""
        log_probs = np.asarray(log_probs, np.float64)
        num_tokens = np.asarray(num_tokens, np.int64)
        if rows is None:
            rows = np.arange(len(log_probs))
        rows = np.asarray(rows)
        mean, standard_error = ratio_estimate(log_probs, num_tokens)
        return cls(mean, standard_error, log_probs, num_tokens, rows, num_skipped, tuple(units))

    @property
    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        """The log probability and the number of scored tokens of each document."""
        return self.log_probs, self.num_tokens

    @property
    def perplexity(self) -> float:
        """exp(-mean): the size of a die as unpredictable as a word."""
        return float(np.exp(-self.mean))

    def __str__(self) -> str:
        skipped = f"; {self.num_skipped:,} too short" if self.num_skipped else ""
        group, token = self.units
        groups = number_and_noun(len(self.rows), group)
        counts = f"{groups}, {number_and_noun(int(self.num_tokens.sum()), token)}"
        score = with_error(self.mean, self.standard_error)
        return f"{score} nats per {token} ({counts}{skipped})"


class Coherence(NamedTuple):
    """Coherence of topics: the mean with its standard error over topics (inf for a single topic),
    and the coherence of each topic."""

    mean: float
    standard_error: float
    per_topic: Float[np.ndarray, " topics"]

    @classmethod
    def of(cls, per_topic) -> Coherence:
        """The coherence from one value for each topic."""
        per_topic = np.asarray(per_topic, np.float64)
        return cls(*ratio_estimate(per_topic, np.ones(len(per_topic))), per_topic)

    def __str__(self) -> str:
        score = with_error(self.mean, self.standard_error)
        return f"{score} ({number_and_noun(len(self.per_topic), 'topic')})"


def ratio_estimate(
    totals: Float[np.ndarray, " n"], sizes: Float[np.ndarray, " n"]
) -> tuple[float, float]:
    """sum(totals) / sum(sizes) and its standard error for independent pairs (linearised ratio)."""
    mean = totals.sum() / sizes.sum()
    if len(totals) < 2:
        return float(mean), float("inf")
    n = len(totals)
    variance = n / (n - 1) * np.square(totals - mean * sizes).sum() / sizes.sum() ** 2
    return float(mean), float(np.sqrt(variance))


class Agreement(NamedTuple):
    """The agreement of two labellings of rows, 0 to 1, with its standard error over the rows."""

    mean: float
    standard_error: float


def nmi(labels: Sequence[Any], found: Sequence[Any]) -> Agreement:
    """The normalised mutual information of two labellings: their mutual information over the mean
    of their entropies; 1 if each determines the other, about 0 if they are independent. The more
    groups, the more they agree by chance.

    Args:
      labels: the label of each row, of any type, such as a column of the data.
      found: the number of the topic or component of each row.

    Raises:
      ValueError: the two do not have the same rows.

    Source: Manning, Raghavan and Schuetze 2008, Introduction to Information Retrieval, eq. 16.2.
    The standard error is that of the mean of the pointwise terms.

    >>> print(f"{nmi(['a', 'a', 'b', 'b'], [1, 1, 0, 0]).mean:.2f} {nmi(['a', 'a', 'b', 'b'], [1, 0, 1, 0]).mean:.2f}")
    1.00 0.00
    """
    if len(labels) != len(found) or not len(labels):
        expected = f"{len(labels):,} rows, as labels have, at least one"
        raise fail("found", expected, f"{len(found):,}", "pass both in order")
    require_one_index({"labels": labels, "found": found})
    rows, columns = (
        np.unique(np.asarray(x).astype(str), return_inverse=True)[1] for x in (labels, found)
    )
    table = np.zeros((rows.max() + 1, columns.max() + 1))
    np.add.at(table, (rows, columns), 1 / len(rows))
    row_shares, column_shares = table.sum(1), table.sum(0)
    terms = np.log(table[rows, columns] / (row_shares[rows] * column_shares[columns]))
    entropy = 0.5 * float(special.entr(row_shares).sum() + special.entr(column_shares).sum())
    if entropy == 0:  # one group each
        return Agreement(1.0, 0.0)
    error = float(terms.std()) / len(rows) ** 0.5
    return Agreement(float(terms.mean()) / entropy, error / entropy)


class HasParts(Protocol):
    """A score with the parts of its ratio."""

    @property
    def parts(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """The log probability of each document (or row or sequence), and its number of words (or
        rows or steps)."""
        ...


class Difference(NamedTuple):
    """The advantage of a first score over a second one: the mean difference in nats per word (or
    row or step), and its standard error over their common documents (or rows or sequences)."""

    mean: float
    standard_error: float


def paired_difference(first: HasParts, second: HasParts) -> Difference:
    """The difference of two scores of the same documents or rows, with its standard error.

    The error comes from the differences document by document; if both find the same documents hard,
    it is much smaller than the errors of the scores.

    Raises:
      ValueError: the scores do not have the same documents or rows.

    >>> from vijax.evaluate import HeldOut
    >>> a, b = (HeldOut.of(np.array(x)) for x in ([-1.0, -5.0, -9.0], [-1.1, -5.2, -9.3]))
    >>> [f"{x:.3f}" for x in (a.standard_error, *paired_difference(a, b))]
    ['2.309', '0.200', '0.058']
    """
    totals, sizes = first.parts
    totals2, sizes2 = second.parts
    if not np.array_equal(sizes, sizes2):
        parts = [f"{len(x):,} of {np.sum(x):,.0f}" for x in (sizes, sizes2)]
        actual = f"{parts[0]} in all and {parts[1]}"
        expected = "two of the same documents or rows"
        raise fail("scores", expected, actual, "score both on the same data")
    return Difference(*ratio_estimate(totals - totals2, sizes))


def unigram_score(train: Any, test: Any, *, smoothing: float = 0.0) -> Score:
    """Log probability per word of the test documents under the word frequencies of the training
    documents.

    Args:
      train: a `Corpus`, or anything `vijax.data.read` accepts.
      test: like `train`, over the same vocabulary.
      smoothing: a number added to the count of every word.

    Returns:
      A `Score` in nats per word; empty documents are skipped.

    Raises:
      ValueError: another vocabulary, or a test word unseen in training without smoothing.

    >>> from vijax.data import Corpus
    >>> print(unigram_score(Corpus.from_counts([[3, 1]]), Corpus.from_counts([[1, 1], [2, 0]])))
    -0.562 ± 0.275 nats per word (2 documents, 4 words)
    """
    train = as_corpus(train)
    test = as_corpus(read_over_words(test, train.vocabulary, "test"), train.vocab_size)
    if not 0 <= smoothing < float("inf"):
        raise fail("smoothing", "a number of 0 or more", repr(smoothing), "pass smoothing=0")
    counts = train.word_counts() + smoothing
    unseen = np.flatnonzero((counts == 0) & (test.word_counts() > 0))
    if len(unseen):
        example = f"word {unseen[0]}, unseen in training ({len(unseen)} such)"
        remedy = "drop them by vijax.data.select_words, or smooth"
        raise fail("test", "words of the training documents only", example, remedy)
    with np.errstate(divide="ignore"):
        log_probs = np.log(counts) - np.log(counts.sum())
    documents = np.repeat(np.arange(test.num_documents), test.lengths)
    terms = test.counts * log_probs[test.indices]
    rows = np.flatnonzero(test.tokens)
    totals = np.bincount(documents, terms, test.num_documents)
    return Score.of(totals[rows], test.tokens[rows], rows, test.num_documents - len(rows))


def npmi(topics: Any, documents: Any, *, num_words: int = 10) -> Coherence:
    """Normalised pointwise mutual information of the leading words of each topic, averaged over
    pairs.

        NPMI(v, w) = log(p(v, w) / (p(v) p(w))) / -log p(v, w)

    with p the fraction of the documents in which a word, or both words, occur. It is 1 for words
    that only occur together (by convention also for two that occur in every document), 0 for
    independent words, and -1 for words that never occur together.

    Args:
      topics: probabilities of words by topic, shape (K, V), rows summing to one.
      documents: the reference: a `Corpus` over the same vocabulary, or anything `vijax.data.read`
          accepts.
      num_words: number of leading words of a topic, from 2 to V.

    Returns:
      A `Coherence`: its standard error is over topics.

    Source: Bouma 2009; Roder et al. 2015 (there with sliding windows in place of documents).

    >>> from vijax.data import Corpus
    >>> topics = np.array([[0.4, 0.4, 0.1, 0.1], [0.1, 0.4, 0.4, 0.1]])
    >>> documents = Corpus.from_counts([[1, 1, 0, 0], [1, 1, 0, 1], [0, 0, 1, 0], [0, 0, 1, 1]])
    >>> npmi(topics, documents, num_words=2).per_topic.tolist()
    [1.0, -1.0]
    """
    topics = check_topics(topics)
    require_integers(2, num_words=num_words)
    vocab_size = topics.shape[1]
    if num_words > vocab_size:
        expected = f"at most {vocab_size}, the vocabulary"
        raise fail("num_words", expected, str(num_words), f"pass num_words={vocab_size}")
    corpus = as_corpus(documents, vocab_size)
    leading = np.argsort(-np.asarray(topics), axis=1, kind="stable")[:, :num_words]
    return Coherence.of(_mean_npmi(documents_with(corpus, leading) / corpus.num_documents))


def documents_with(corpus: Corpus, leading: Int[np.ndarray, "K n"]) -> Int[np.ndarray, "K n n"]:
    """The number of documents in which each pair of leading words of a topic occurs; on the
    diagonal, each word."""
    words, place = np.unique(leading, return_inverse=True)
    occurs = select_words(corpus, words).to_scipy()
    occurs.data = np.ones_like(occurs.data)
    together = (occurs.T @ occurs).toarray()
    place = place.reshape(leading.shape)
    return together[place[:, :, None], place[:, None, :]]


def _mean_npmi(joint: Float[np.ndarray, "K n n"]) -> Float[np.ndarray, " K"]:
    """Mean NPMI over pairs, from frequencies of pairs, and of single words on the diagonal."""
    single = np.diagonal(joint, axis1=1, axis2=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.log(joint / (single[:, :, None] * single[:, None, :])) / -np.log(joint)
    values = np.where(joint == 0, -1.0, np.where(joint == 1, 1.0, values))
    first, second = np.triu_indices(joint.shape[1], k=1)
    return values[:, first, second].mean(axis=1)


class HeldOut(NamedTuple):
    """Log predictive density of held-out observations, nats per observation: the mean with its
    standard error (inf for a single observation), and the density of each observation."""

    mean: float
    standard_error: float
    log_densities: Float[np.ndarray, " N"]

    @classmethod
    def of(cls, log_densities: Float[np.ndarray, " N"]) -> HeldOut:
        """The score from the log densities of N observations."""
        n = len(log_densities)
        error = float("inf")
        if n > 1:
            error = float(log_densities.std(ddof=1) / np.sqrt(n))
        return cls(float(log_densities.mean()), error, log_densities)

    @property
    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        """The log density of each observation, and ones."""
        return self.log_densities, np.ones(len(self.log_densities))

    def __str__(self) -> str:
        count = number_and_noun(len(self.log_densities), "observation")
        score = with_error(self.mean, self.standard_error)
        return f"{score} nats per observation ({count})"


def log_predictive_density(
    emission: Any,
    components: Family | Point | Sequence[Family | Point],
    weights: Float[Array, " K"],
    data: PyTree,
    plug_in: bool = False,
) -> HeldOut:
    """log sum_k w_k E_q[p(y_n | component k)] for each observation.

    Args:
      emission: a `vijax.models.emission.Emission`.
      components: q of the components' parameters, or a `Point`; a sequence of these if they differ
          in type.
      weights: expected weights.
      data: observations, (N, D).
      plug_in: p(y | E_q[component k]) instead of E_q[p(y | component k)], as in eq. 36 of Blei,
        Kucukelbir and McAuliffe 2017.
    """
    emission.check(data)
    with enable_x64(True):
        if isinstance(components, Family | Point):
            components = (components,)
        as_float64 = lambda x: np.asarray(x, np.float64)
        parts, weights, data = jax.tree.map(as_float64, (tuple(components), weights, data))
        predictive = _point_densities if plug_in else _predictive_densities
        densities = np.asarray(_mixture_densities(predictive, emission, parts, weights, data))
    return HeldOut.of(densities)


@functools.partial(
    once_jit, work=lambda *args: count_numbers(args[-1]) * args[-2].size, static_argnums=(0, 1)
)
def _mixture_densities(
    predictive: Any, emission: Any, parts: tuple[Family | Point, ...], weights: Array, data: Array
) -> Float[Array, " N"]:
    return jax.nn.logsumexp(jnp.log(weights)[None] + predictive(emission, parts, data), axis=-1)


def _predictive_densities(
    emission: Any, parts: tuple[Family | Point, ...], data: Array
) -> Float[Array, "N K"]:
    densities = lambda y: jnp.concatenate([emission.log_predictive(q, y) for q in parts])
    return _row_densities(emission, densities, data)


def _row_densities(emission: Any, densities: Callable[[Array], Array], data: Array) -> Array:
    """The densities of all rows. Where cells are missing each row has matrices of its own, so that
    few rows are read at once."""
    if not emission.takes_missing:
        return jax.vmap(densities)(data)
    return jax.lax.map(densities, data, batch_size=ROWS_AT_ONCE)


def _point_densities(
    emission: Any, parts: tuple[Family | Point, ...], data: Array
) -> Float[Array, "N K"]:
    plain = emission.scored_as or emission
    stats = [q.stats(q.mean()) for q in parts]
    densities = lambda y: jnp.concatenate([plain.log_likelihood(s, y) for s in stats])
    return _row_densities(emission, densities, data)

"""The structural topic model (Roberts, Stewart and Airoldi 2016): `vijax.stm`.

    beta_k ~ Dirichlet(eta),   (G, L) ~ matrix-normal-Wishart,   z_d ~ N(G' x_d, L^-1),
    each word of document d ~ sum_k softmax(z_d)_k beta_k

x_d are the covariates of a document, by a formula. With x_d = 1 it is the correlated topic model,
whose E-step and bound it uses. At q(z_d) = N(m_d, V_d) the term of the prior is

    E_q[log N(z_d; G' x_d, L^-1)] =
        <x m', G L> - <x x' / 2, G L G'> - <(m m' + V) / 2, L> + log|L| / 2 + const.,

linear in the statistics of (G, L). So its gradient, the message of a document, is (x m', -x x' / 2,
-(m m' + V) / 2, 1/2), and the step to prior + messages is the exact conditional: Bayesian
regression of the z on x with a full covariance. (The R package stm alternates a variational
regression for each topic and a maximum for Sigma.)

Words of a topic may differ between groups of documents. A word of topic k in group g is then drawn
from the shared words beta_k, or with probability pi_gk from words of the group,

    pi_gk ~ Beta(2, 8),   delta_gk ~ Dirichlet(content_eta),   w ~ (1 - pi_gk) beta_k + pi_gk delta_gk

(Zhai, Velivelli and Yu 2004; Paul and Girju 2009). The deviations of logits of SAGE (Eisenstein,
Ahmed and Xing 2011), which the R package uses, have no conjugate prior. Here the switch of each
word is summed out together with its topic, and beta, delta and pi have exact messages."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.arguments import EVEN, Positive, Positives, check_arguments, integer
from vijax.checks import check_key, require, require_integers
from vijax.contract.batch import (
    DataForm,
    DocumentForm,
    Documents,
    Minibatch,
    word_concentration,
    word_prior,
)
from vijax.contract.model import Estimates, Hyper, LocalElbo, LocalsPlan, Model
from vijax.contract.queries import answers
from vijax.contract.room import limit_sizes
from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.select import with_vocabulary
from vijax.data.known_words import are_same
from vijax.data.schema.typed_columns import typed_table
from vijax.families import Beta, Dirichlet, MatrixNormalWishart, NormalWishartStats, Point, Product
from vijax.inference import estep as esteps
from vijax.inference.expectation import vector_monte_carlo
from vijax.models.documents.ctm import cold, expected_shares, local_elbo, seeded_topics
from vijax.models.structural import chain
from vijax.models.structural import effects as of_effects
from vijax.models.structural.completion import completion_score
from vijax.models.structural.covariates import Covariates, check_index, check_rows, read_terms
from vijax.models.structural.doubts import interval_notes
from vijax.models.structural.group_words import group_table
from vijax.predict.questions import infer_documents
from vijax.topics.anchors import AnchorTopics, anchor_words
from vijax.topics.summary import typical_rows
from vijax.xla.by_value import cache_by_value, pickle_as_call
from vijax.xla.compiler import step_jit

OWN_SHARE = 2.0, 8.0
"""Parameters of the Beta prior of a group's own words in a topic: a share of a fifth, with the
weight of ten words."""
MOST_WITH_HESSIANS = 10
"""Most topics for which the E-step computes Hessians; for more it estimates curvatures from
slopes."""
TOL = 0.01
"""Gain of a step, in nats, below which the E-step of a document stops until the next visit."""
ANCHORED = 0.8
"""Share of anchor topics in the start of a topic; the remainder is spread over all words, so that
no word is ruled out."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Stm(Model):
    """A structural topic model of one corpus.

    Attributes:
      data: the documents with their covariates, for `vijax.fit`.
      covariates: columns and groups, as learnt from the table.
      table: the table.
    """

    data: Corpus
    covariates: Covariates
    table: Any

    # --- data -------------------------------------------------------------------------------------
    def described(self, corpus: Corpus, table: Any) -> Corpus:
        """Other documents with their covariates, for `Fit.transform`, `Fit.score` and `vijax.fit`.

        Args:
          corpus: documents; words that training does not have are left out.
          table: a row for each document, with the columns of the formula.

        Raises:
          ValueError: a column is missing, has a value that training lacks, or has another number of
              rows.
        """
        if corpus.vocabulary is not None and corpus.vocabulary != self.data.vocabulary:
            corpus = with_vocabulary(corpus, self.data.vocabulary or ())
        return self.covariates.attach(corpus, table)

    # --- queries of a fit -------------------------------------------------------------------------
    def coefficients(
        self, fit: Any, *, key: PRNGKeyArray, level: float = 0.9, num_draws: int = 1000
    ) -> of_effects.Effects:
        """Coefficients of the log proportions z on the columns of the formula, from their
        posterior. A proportion depends on all log proportions: `effects` are in terms of shares.

        Args:
          fit: fit of this model.
          key: random key of the draws.
          level: probability of the intervals.
          num_draws: draws of the coefficients.
        """
        self._check_words(fit)
        draws = fit.posterior["logits"].sample(key, (num_draws,)).coefficients
        return of_effects.to_units(np.asarray(draws, float), self.covariates, level)

    def effects(
        self,
        fit: Any,
        formula: str | None = None,
        *,
        key: PRNGKeyArray,
        table: Any = None,
        corpus: Corpus | None = None,
        level: float = 0.9,
        num_draws: int = 100,
        sweeps: int = 300,
        callback: Callable[[int, int], None] | None = None,
    ) -> of_effects.Effects:
        """Effects of covariates on the shares of topics, with intervals that include the
        uncertainty of topics and of each document's shares.

        Each draw of the shares of all documents is regressed on the columns of the formula by least
        squares, and ten draws of the coefficients are taken from each regression (method of
        composition, Treier and Jackman 2008; `estimateEffect` of stm). For documents of training
        the draws of shares come from a Gibbs chain that starts at q and also draws topics,
        coefficients and covariance; three sweeps lie between two draws. Fits of all algorithms can
        be used. If intervals may be too narrow, `Effects.notes` and the printed table say so.

        Args:
          fit: fit of this model.
          formula: terms, such as "~ party + day"; None takes the formula of prevalence. Terms that
            prevalence lacks are shrunk towards no effect.
          key: random key of the draws.
          table: a row for each document; None takes the table of training. Other documents need
              their own table.
          corpus: other documents with covariates (`described`), whose shares are drawn from q(z_d)
            at the fitted topics; None takes the documents of training.
          level: probability of the intervals.
          num_draws: number of draws of the shares.
          sweeps: sweeps of the chain before the first draw. 0 takes draws from q(z_d) at the fitted
            topics, which cost less; intervals are then too narrow for short documents.
          callback: called with the number of finished sweeps and the number of all sweeps: a chain
            of thousands of documents takes minutes.

        Raises:
          ValueError: a formula that cannot be read, a table without one row for each document, or
            other documents without their table.
        """
        check_key(key)
        self._check_words(fit)
        remedy = "Pass their table too: effects(fit, table=table, corpus=corpus, key=key)."
        lacks_table = corpus is not None and corpus is not self.data and table is None
        require(not lacks_table, "table", "the rows of the other documents", "none", remedy)
        if corpus is not None and corpus is not self.data:
            corpus = fit.in_words(corpus, "corpus")
        require_integers(num_draws=num_draws)
        require_integers(0, sweeps=sweeps)
        by_chain = corpus is None and sweeps > 0
        if table is None:
            table = self.table
        if corpus is None:
            corpus = self.data
        check_rows(corpus, table)
        design = self.covariates.design if formula is None else read_terms(formula, table)
        x = design.rows.x if formula is None and table is self.table else design.read_rows(table).x
        key_shares, key_effects = jax.random.split(key)
        if by_chain:
            shares, accepted = self._draws_of_chain(fit, key_shares, sweeps, num_draws, callback)
            notes = interval_notes(corpus, sweeps, accepted)
        else:
            shares, notes = (
                self._draws(fit, corpus, key_shares, num_draws),
                interval_notes(corpus, 0),
            )
        effects = of_effects.compose(shares, x, design, key_effects, level)
        return dataclasses.replace(effects, notes=notes)

    def find_thoughts(
        self, fit: Any, *, key: PRNGKeyArray, number: int = 3, corpus: Corpus | None = None
    ) -> list[Int[np.ndarray, " number"]]:
        """The documents with the largest share of each topic, as rows of the corpus; very short
        documents are left out."""
        self._check_words(fit)
        corpus = self.data if corpus is None else fit.in_words(corpus, "corpus")
        shares = np.asarray(fit.transform(corpus, key=key))
        rows = typical_rows(shares, np.asarray(corpus.tokens), number)
        return [np.array(places) for places in rows]

    def words(self, fit: Any) -> Float[np.ndarray, "G K V"]:
        """Expected probabilities of words by group and topic; a single group if words do not
        differ."""
        self._check_words(fit)
        actual = list(fit.posterior)
        is_same = ("content" in actual) == bool(self.covariates.groups)
        require(is_same, "fit", "a fit of this model", f"one of {actual}")
        return np.asarray(_words(len(self.covariates.groups), fit.estimates))

    def _check_words(self, fit: Any) -> None:
        """Raises ValueError for a fit with another corpus or other covariates."""
        form = fit.alg.spec.model.form.documents
        by_own = form is not None and form.described_by == self.covariates.mark
        actual = "one of another formula or other training rows"
        remedy = "Make the model of the formula and the table of the fit."
        require(by_own, "fit", "a fit of this model", actual, remedy)
        own_words, fit_words = self.data.vocabulary, fit.vocabulary
        is_own = own_words is None or fit_words is None or are_same(own_words, fit_words)
        expected = "a fit of this model, over its words"
        require(is_own, "fit", expected, "one over others", "Ask the model of that fit.")

    def _draws(
        self, fit: Any, corpus: Corpus, key: PRNGKeyArray, number: int
    ) -> Float[np.ndarray, "docs S K"]:
        """Draws of the shares of documents from q(z_d)."""
        read = _Draws(number + number % 2)
        shares = infer_documents(read, fit.alg.spec, fit.state.hyper, fit.posterior, corpus, key)
        return np.asarray(shares)[:, :number]

    def _draws_of_chain(
        self,
        fit: Any,
        key: PRNGKeyArray,
        sweeps: int,
        number: int,
        callback: Callable[[int, int], None] | None,
    ) -> tuple[Float[np.ndarray, "docs S K"], float]:
        """Draws of the shares of the documents of training from a chain that starts at a draw of q;
        and the share of accepted proposals."""
        key_sites, key_start, key_chain = jax.random.split(key, 3)
        sites = infer_documents(
            _sites, fit.alg.spec, fit.state.hyper, fit.posterior, self.data, key_sites
        )
        logits = fit.alg.spec.estimand.choice("logits").point(fit.posterior["logits"])
        groups = len(self.covariates.groups)
        documents = chain.chain_documents(self.data, groups, logits, *sites)
        laws = {name: _estimate_law(estimate) for name, estimate in fit.estimates.items()}
        prior, start = self.prior(fit.state.hyper), chain.drawn_stats(laws, key_start)
        shares, accepted = chain.draw_chain(
            groups, prior, start, documents, key_chain, sweeps, number, callback
        )
        return shares.swapaxes(0, 1), accepted


@dataclasses.dataclass(frozen=True)
class _Draws:
    """Draws of the shares of documents, at a local bound."""

    number: int

    def __call__(self, model: Model, stats: Any, elbo: LocalElbo, key: PRNGKeyArray) -> list[Array]:
        draw = lambda local: of_effects.draw_shares(stats["logits"], local, key, self.number)
        return [draw(local) for local in elbo.local]


def _sites(
    model: Model, stats: Any, elbo: LocalElbo, key: PRNGKeyArray
) -> list[tuple[Array, Array]]:
    """Means of q(z_d), and precisions of the factors of the words."""
    return [(local.mean, local.site) for local in elbo.local]


@limit_sizes
@check_arguments
def stm(
    num_topics: Annotated[int, integer(2)],
    corpus: Any,
    table: Any = None,
    prevalence: str = "~ 1",
    content: str | None = None,
    eta: Positives = 0.01,
    content_eta: Positive = 0.01,
    strength: Positive = 1.0,
    start: Literal["anchors", "documents"] = "anchors",
    estep: Any = None,
    num_samples: Annotated[int, EVEN] = 64,
    seed: int = 0,
) -> Stm:
    """The structural topic model: the shares of topics, and their words, depend on covariates of
    the documents.

    Args:
      num_topics: K, number of topics.
      corpus: the documents, a `vijax.data.Corpus` or an argument of `vijax.data.read`.
      table: columns by name, a row for each document (a dict, a table of pandas, polars or
        pyarrow), or the path of a file; None without covariates.
      prevalence: covariates of the shares, as a formula: "~ party + bs(day, df=4)", with
        interactions, splines and categories; group effects `(1 | g)` are not for this model.
      content: column of groups by which the words of each topic differ; None for the same words in
        all documents.
      eta: prior concentration of a topic's words; small: sharper topics. A scalar, shape (V,), or
        (K, V) as `vijax.topics.seeded` makes it.
      content_eta: prior concentration of the words of a group.
      strength: prior precision of the coefficients on standardised columns, in units of the
        precision of the log proportions: the prior has the weight of this number of documents.
      start: "anchors" starts topics at those of anchor words, which are good and not random;
        "documents" at a few documents each, drawn by the key. Topics with seed words start at these
        words, and at documents that have them.
      estep: default E-step; `vijax.estep.proximal_gradient(tol=0.01)` if None. With more than ten
        topics curvatures are estimated from slopes (`vijax.expectation.vector_monte_carlo`), which
        is faster and lowers the bound a little.
      num_samples: draws of each q(z), as in `vijax.models.ctm`.
      seed: seed of all draws on full data, as in `vijax.models.ctm`.

    Returns:
      A `Model` of this corpus with globals `topics`, a Dirichlet of batch shape (K,), and `logits`,
      a `vijax.MatrixNormalWishart` of the coefficients on standardised columns and of Sigma^-1;
      with content also `content`, a Dirichlet of batch shape (G K,), and `own`, a Beta of batch
      shape (G, K). Fit it by `vijax.fit(vijax.cavi(model), model.data, num_steps=100, key=key)`, or
      by any algorithm of `vijax.models.ctm`. `model.effects`, `model.coefficients`,
      `model.find_thoughts` and `model.words` take the fit.

    Raises:
      ValueError: a formula that cannot be read, a table without one row for each document, a size
          or concentration out of range.

    >>> import vijax as vi
    >>> from vijax.data import synthetic
    >>> corpus, _ = synthetic.lda_corpus(num_documents=30, num_topics=2, vocab_size=20, seed=0)
    >>> model = vi.stm(2, corpus, {"day": np.arange(30)}, "~ day", eta=0.1)
    >>> fit = vi.fit(vi.cavi(model), model.data, num_steps=10, key=jax.random.key(0))
    >>> model.effects(fit, key=jax.random.key(1)).labels
    ('Intercept', 'day')
    """
    from vijax.data import read

    corpus = read(corpus)
    if table is None:
        table = {"shares": np.zeros(corpus.num_documents)}
    check_index(corpus, table)
    # A file is read once, since it may change later.
    table = typed_table(table, () if content is None else (content,))
    check_rows(corpus, table)
    covariates = Covariates.read(prevalence, content, table)
    anchored = anchor_words(corpus, num_topics, eta) if start == "anchors" else None
    num_columns, num_groups = len(covariates.design.labels), len(covariates.groups)
    sizes = _Sizes(int(num_topics), int(corpus.vocab_size), num_columns, num_groups)
    plain_model = _model(
        sizes, eta, content_eta, strength, estep or _estep(num_topics), num_samples, seed, anchored
    )
    parts = {field.name: getattr(plain_model, field.name) for field in dataclasses.fields(Model)}
    if plain_model.form.documents is not None:
        words = None if corpus.vocabulary is None else tuple(corpus.vocabulary)
        documents = plain_model.form.documents._replace(
            vocabulary=words, described_by=covariates.mark
        )
        parts["form"] = dataclasses.replace(plain_model.form, documents=documents)
    model = Stm(**parts, data=covariates.attach(corpus, table), covariates=covariates, table=table)
    settings = prevalence, content, eta, content_eta, strength, start, estep, num_samples, seed
    return pickle_as_call(model, stm, num_topics, corpus, table, *settings)


def _estep(num_topics: int) -> Any:
    """The default E-step. With many topics the Hessians of all draws cost more than they add to the
    bound. The next step visits the documents again, so that a step need not converge fully."""
    many: Literal["slopes", "hessians"] = (
        "slopes" if num_topics > MOST_WITH_HESSIANS else "hessians"
    )
    return esteps.proximal_gradient(
        vector_monte_carlo(64, antithetic=True, matched=True, curvature=many), tol=TOL
    )


@dataclasses.dataclass(frozen=True)
class _Sizes:
    """K, V, the number of columns of the design, and the number of groups of words (0 if words do
    not differ)."""

    topics: int
    words: int
    columns: int
    groups: int


@cache_by_value
def _model(
    sizes: _Sizes,
    eta: Any,
    content_eta: Any,
    strength: float,
    estep: Any,
    num_samples: int,
    seed: int,
    anchored: AnchorTopics | None,
) -> Model:
    hyper = {"eta": word_concentration(eta, sizes.topics, sizes.words)}
    by_word = {"topics": ("eta",)}
    if sizes.groups:
        hyper["content_eta"] = word_concentration(
            content_eta, sizes.groups * sizes.topics, sizes.words
        )
        by_word["content"] = ("content_eta",)
    degrees = sizes.topics + 2.0
    logits = _logits(sizes, strength, degrees)

    def prior(hyper: Hyper) -> Product:
        laws: dict[str, Any] = {
            "logits": logits,
            "topics": word_prior(hyper["eta"], sizes.topics, sizes.words),
        }
        if sizes.groups:
            laws["content"] = word_prior(
                hyper["content_eta"], sizes.groups * sizes.topics, sizes.words
            )
            shape = sizes.groups, sizes.topics
            laws["own"] = Beta.from_alpha_beta(
                np.full(shape, OWN_SHARE[0]), np.full(shape, OWN_SHARE[1])
            )
        return Product(laws)

    bound = functools.partial(_bound, sizes, num_samples, seed)
    return Model(
        hyper,
        prior,
        bound,
        functools.partial(_start, sizes, anchored),
        estep,
        form=DataForm(documents=DocumentForm(sizes.words, by_word)),
        locals=LocalsPlan(
            lambda hyper, batch: tuple(
                cold(docs, sizes.topics, logits.half_degrees.dtype) for docs in batch.data
            ),
            carried=True,
            solved_by=esteps.LogisticNormalEStep,
        ),
        queries=answers(
            score=functools.partial(_score, sizes, bound, estep),
            transform=lambda stats, local, key: expected_shares(stats["logits"], local, key),
        ),
    )


def _logits(sizes: _Sizes, strength: float, degrees: float) -> MatrixNormalWishart:
    """Coefficients near 0, with the weight of `strength` documents; E[Sigma^-1] = I."""
    size = sizes.topics
    location = np.zeros((sizes.columns, size))
    strengths = strength * np.eye(sizes.columns)
    return MatrixNormalWishart.from_parameters(location, strengths, degrees, np.eye(size) / degrees)


# --- the bound ------------------------------------------------------------------------------------
def _bound(
    sizes: _Sizes,
    num_samples: int,
    seed: int,
    hyper: Hyper,
    stats: Any,
    batch: Minibatch,
    key: PRNGKeyArray,
    estep: Any,
) -> LocalElbo:
    """The bound of `ctm`, where each document has its law of z and its table of words."""
    width = sizes.columns + (sizes.groups > 0)
    for docs in batch.data:
        actual = "none" if docs.covariates is None else f"{docs.covariates.shape[1]}"
        remedy = "Pass model.data, or model.described(corpus, table) of other documents."
        require(actual == f"{width}", "data", f"documents with {width} covariates", actual, remedy)
    size = None
    if sizes.groups:
        table, size = group_table(sizes.groups, stats)
        stats = {**stats, "topics": table}
        batch = batch._replace(data=tuple(_shift_words(docs, size) for docs in batch.data))
    law = functools.partial(_law, sizes.columns)
    return local_elbo(num_samples, seed, law, hyper, stats, batch, key, estep, num_words=size)


def _law(columns: int, logits: Any, docs: Documents) -> NormalWishartStats:
    """The statistics of the mean and the precision of z for each document."""
    x = docs.covariates[:, :columns]  # type: ignore[index]
    linear = jnp.einsum("dj,jk->dk", x, logits.coefficients_times_precision, precision="highest")
    quadratic = jnp.einsum("dj,ji,di->d", x, logits.quadratic, x, precision="highest")
    return NormalWishartStats(linear, logits.precision, quadratic, logits.log_det)


def _shift_words(docs: Documents, size: int) -> Documents:
    """The documents, with word ids shifted to the table of the document's group."""
    group = docs.covariates[:, -1].astype(jnp.int32)  # type: ignore[index]
    return dataclasses.replace(docs, words=docs.words + size * group[:, None])


# --- the start ------------------------------------------------------------------------------------
def _start(
    sizes: _Sizes,
    anchored: AnchorTopics | None,
    hyper: Hyper,
    key: PRNGKeyArray,
    prior: Product,
    batch: Minibatch | None,
) -> Product:
    """Topics by anchor words, or by documents as in `ctm`; words of a group like those of its
    topic. Coefficients are 0, with the weight of ten documents."""
    logits = _logits(sizes, 10.0, sizes.topics + 10.0)
    if anchored is None or batch is None:
        topics = seeded_topics(hyper, key, prior, batch)
    else:
        topics = Dirichlet(prior["topics"].concentration + _anchored_counts(anchored, batch))  # type: ignore[attr-defined]
    laws = {"logits": logits, "topics": topics}
    if sizes.groups:
        share = OWN_SHARE[0] / sum(OWN_SHARE) / sizes.groups
        counts = share * (topics.concentration - prior["topics"].concentration)  # type: ignore[attr-defined]
        before = prior["content"].concentration  # type: ignore[attr-defined]
        laws["content"] = Dirichlet(before + jnp.tile(counts, (sizes.groups, 1)))
    return prior.replace(laws)


def _anchored_counts(anchored: AnchorTopics, batch: Minibatch) -> Float[Array, "K V"]:
    """As many words as the batch has, mostly from the topics of anchor words."""
    topics, shares = jnp.asarray(anchored.topics), jnp.asarray(anchored.shares)
    joint = (ANCHORED * topics + (1 - ANCHORED) * (shares @ topics)[None]) * shares[:, None]
    total = sum(jnp.sum(docs.weights[:, None] * docs.counts) for docs in batch.data)
    return (total * joint).astype(jnp.result_type(float))


# --- scores ---------------------------------------------------------------------------------------
def _score(
    sizes: _Sizes, bound: Any, estep: Any, hyper: Hyper, estimates: Estimates, data: Any, key: Any
) -> Any:
    """Document completion, with the prior of each document by its covariates."""
    stats = {name: _estimate_law(estimate).expected_stats() for name, estimate in estimates.items()}
    shares = functools.partial(_shares, bound, estep, hyper, stats)
    groups = None if not sizes.groups else np.asarray(data.covariates)[:, -1].astype(int)
    return completion_score(shares, np.asarray(_words(sizes.groups, estimates)), data, groups, key)


@functools.partial(step_jit, static_argnums=(0, 1))
def _shares(
    bound: Any, estep: Any, hyper: Hyper, stats: Any, batch: Minibatch, key: PRNGKeyArray
) -> list[Array]:
    """Expected shares of documents."""
    elbo = bound(hyper, stats, batch, key, estep)
    return [expected_shares(stats["logits"], local, key) for local in elbo.local]


def _estimate_law(estimate: Any) -> Any:
    if isinstance(estimate, Point):
        return estimate.law
    return estimate


def _words(groups: int, estimates: Estimates) -> Float[Array, "G K V"]:
    """Expected probabilities of words by group and topic."""
    shared = _estimate_law(estimates["topics"]).mean()
    if not groups:
        return shared[None]
    own_words = _estimate_law(estimates["content"]).mean().reshape(groups, *shared.shape)
    switch = _estimate_law(estimates["own"]).mean()[:, :, None]
    return (1 - switch) * shared[None] + switch * own_words

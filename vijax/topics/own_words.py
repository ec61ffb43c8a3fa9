"""Steps that cost their batch: they move the columns of the words in the batch, and one more column
for all other words.

By the aggregation of the Dirichlet a posterior over V words, seen from a batch with W of them, has
W + 1 components (`vijax.families.discrete.by_word`), and so has its prior. A step of the same
algorithm on these moves the columns of the batch as a step on all columns would; the other columns
shrink towards the prior by a known factor. So the step itself is the ordinary one. This wrapper
makes its input, and puts its result back.

    mean field: the same numbers; SSVI-A: the same law, for a draw of the W columns is a draw of
    them among all.

Structured SVI is refused: its V moves all columns, those without a word in the batch by
1 / psi'(lambda)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from vijax.checks import require, require_integers
from vijax.contract.batch import Documents, Minibatch
from vijax.contract.model import Hyper, Model
from vijax.data.streams.threads import Maker, batch_makers, change_batches
from vijax.families import Product
from vijax.families.by_row import StoredByRow
from vijax.families.discrete.by_pair import distinct
from vijax.families.stores import STORES, store_by_row
from vijax.inference.compose import Algorithm
from vijax.inference.estimand import distribution
from vijax.inference.estimator import mean_field, ssvi_a
from vijax.inference.spec import Spec
from vijax.inference.state import Info, Result, State
from vijax.inference.step_size import backtracking, by_share
from vijax.inference.update import kl
from vijax.inference.wrappers.wrapper import Wrapper, check_algorithm, wrap
from vijax.topics.active_topics import ActiveDocuments, ActiveTopics
from vijax.tree import register
from vijax.xla.content_keys import bag_codes

PENALTY_SHARES = 4, 20
"""The penalty reads all K x V numbers; a step reads W K, or its pairs. With r the ratio of the two,
the penalty is evaluated about once a pass over the data, but after 4 r steps at least and 20 r at
most: so it adds a quarter to the numbers of a step, or less."""
USUAL_PENALTY_EVERY = 10
"""Steps between evaluations of the penalty in stochastic algorithms, by default; by words it is
about once a pass."""
LOOKED_AT = 16
"""Batches whose numbers of words decide to how many words all are padded."""
SPREAD = 5
"""Standard deviations above their mean to which batches are padded: one batch in millions has more
words."""


@register
@dataclasses.dataclass(frozen=True)
class OwnWords:
    """Documents whose word ids are places among the words of their batch."""

    read_by: ClassVar[str] = "vijax.topics.by_words(alg)"

    # The ids of the words of the batch among all words, increasing; ids from V on are padding
    words: Int[Array, " words"]
    documents: tuple[Documents, ...]

    def __iter__(self) -> Iterator[Documents]:
        return iter(self.documents)


def by_words(
    alg: Algorithm,
    active: int | None = None,
    left_out: float = 0.0,
    penalty_every: int | None = None,
) -> Algorithm:
    """An algorithm whose steps cost the batch's own words, not all V words of the vocabulary.

    The steps of `svi` are exactly the same, for topics (`lda`, `ctm`, `simple_mixture`, `stm`) and
    for the items of `hpf`; the steps of `ssvi_a` are the same in law, for topics. They pay if a
    batch holds less than half of the vocabulary; figures are in benchmarks/README.md. Batches must
    say which words they hold, as those of `vijax.fit` do (`renumbered`). The state keeps a
    `vijax.families.by_row.StoredByRow`.

    Args:
      alg: `svi` or `ssvi_a` of such a model.
      active: number of topics of each document of `lda` at a step (Hughes and Sudderth 2016): the
        topics to which a first round at the mean topics gives most of its words. Draws and messages
        are then needed only for the pairs of its words and these topics; only the first round reads
        all topics. With K the steps are exact. `fit.trace["left_out"]` is the share of the words
        that the first round gave to other topics.
      left_out: with `active`, a document keeps the fewest of these topics that together explain at
        least 1 - left_out of its words in the first round. That round spreads words widely: 0.5 is
        no small share. 0 keeps all. `fit.trace["active_topics"]` is the number of topics that
        documents used.
      penalty_every: number of steps between evaluations of the penalty of the reported objective,
        which reads all K x V numbers. None is the number that was chosen for `alg`; if none was
        (the 10 of `svi` and `ssvi_a`), or points are learnt, it is about once a pass over the data.

    Raises:
      ValueError: an algorithm whose steps would move all words, or would not be the same.

    >>> import vijax as vi
    >>> alg = by_words(vi.svi(vi.models.lda(num_topics=5, vocab_size=1000)))
    >>> [wrapper.name for wrapper in alg.wrappers]
    ['by_words']
    """
    check_algorithm(alg)
    if penalty_every is None:
        penalty_every = _chosen_interval(alg.spec)
    return wrap(alg, ByWords(active, left_out, penalty_every))


def _chosen_interval(spec: Spec) -> int | None:
    """The steps between evaluations of the penalty that a user chose; None if it is the usual
    number, or the one that learnt points force."""
    if spec.penalty_every == USUAL_PENALTY_EVERY or spec.learn:
        return None
    return spec.penalty_every


@dataclasses.dataclass(frozen=True)
class ByWords(Wrapper):
    """The wrapper of `by_words`."""

    name: ClassVar[str] = "by_words"
    whole_batch: ClassVar[bool] = True
    scaled: ClassVar[bool] = True
    stores_globals: ClassVar[bool] = True

    active: int | None = None
    left_out: float = 0.0
    penalty_every: int | None = None

    @property
    def stores_locals(self) -> bool:
        """See `Wrapper`: locals are stored if documents have few topics."""
        return self.active is not None

    def check(self, alg: Algorithm) -> None:
        _check(alg.spec)
        _check_active(alg.spec.model, self)

    def loader(self, loader: Any, alg: Algorithm) -> OwnWordsLoader:
        return OwnWordsLoader(loader, alg.spec.model.form.documents.vocab_size)  # type: ignore[union-attr]

    def init(self, alg: Algorithm, key: PRNGKeyArray, batch: Any, hyper: Any) -> State:
        """See `Wrapper`; models that start from data read ids among all words."""
        state = alg.init(key, None if batch is None else of_all_words(batch), hyper)
        return state._replace(posterior=stored(alg.spec.model, state.hyper, state.posterior))

    def step(
        self, alg: Algorithm, key: PRNGKeyArray, state: State, batch: Any
    ) -> tuple[State, Info]:
        """See `Wrapper`: a step of the state as the batch sees it, put back into the full state."""
        model = alg.spec.model
        own = _own_words(model, state, batch)
        penalty, full = self._penalty(alg.spec, state, batch, own)
        view = self.view(model, full, own)
        new, info = alg.step(key, view.state, batch._replace(data=view.data))
        new = _put_back(model, full, new, info, own.words, view.pairs)
        return new._replace(penalty=penalty), info._replace(penalty=penalty)

    def view(self, model: Model, state: State, own: OwnWords) -> BatchView:
        """The state as a batch sees it."""
        if self.active is None:
            return _view_columns(model, state, own)
        return _view_pairs(model, state, own, self)

    def _penalty(
        self, spec: Spec, state: State, batch: Minibatch, own: OwnWords
    ) -> tuple[Float[Array, ""], State]:
        """The penalty at its last evaluation, and the state. An evaluation also sums the totals of
        the state afresh, so that rounding errors do not add up."""
        interval = self.penalty_every or self._cadence(spec.model, state, batch, own)
        names = list(word_tables(spec.model))

        def running_totals(q: Any) -> dict[str, Array]:
            return {field: getattr(q, field) for field in q.running}

        def evaluate() -> tuple[Array, list[dict[str, Array]]]:
            stores: list[Any] = [state.posterior[name].resum() for name in names]  # type: ignore[attr-defined]
            dense = {name: q for name, q in state.posterior.items() if name not in names}
            divergence = sum(jnp.sum(q.divergence_from_base()) for q in stores)
            value = spec.penalty(dense, state.hyper) + divergence
            return value.astype(state.penalty.dtype), [running_totals(q) for q in stores]

        def reuse() -> tuple[Array, list[dict[str, Array]]]:
            return state.penalty, [running_totals(state.posterior[name]) for name in names]

        value, totals = jax.lax.cond(state.step % interval == 0, evaluate, reuse)
        stores: dict[str, Any] = dict(state.posterior)
        summed = {
            name: dataclasses.replace(stores[name], **fields)
            for name, fields in zip(names, totals, strict=True)
        }
        return value, _replace(state, summed, {})

    def _cadence(
        self, model: Model, state: State, batch: Minibatch, own: OwnWords
    ) -> Int[Array, ""]:
        """The number of steps between evaluations of the penalty."""
        stores: list[Any] = [state.posterior[name] for name in word_tables(model)]
        penalty_numbers = max(q.entries.size for q in stores)
        num_topics = max(q.entries.shape[1] for q in stores)
        step_numbers = own.words.size * num_topics
        if self.active is not None:
            num_words = sum(docs.words.size for docs in own)
            step_numbers = min(step_numbers, num_words * min(self.active, num_topics))
        low, high = (-(-share * penalty_numbers // step_numbers) for share in PENALTY_SHARES)
        size = sum(docs.weights.size for docs in own)
        num_groups: Any = size
        if batch.num_groups is not None:
            num_groups = jnp.nan_to_num(batch.num_groups, nan=size)
        return jnp.clip(jnp.asarray(num_groups) / size, low, high).astype(int)


# --- the state as a batch sees it -----------------------------------------------------------------
class BatchView(NamedTuple):
    """The part of a state that a batch reads."""

    state: State  # the state, its tables restricted to the words of the batch
    data: tuple[Documents, ...]  # the data for this state
    # The pairs (word, topic) that are read from the global by word, unless all topics are read
    pairs: Int[Array, " pairs"] | None = None


def stored(model: Model, hyper: Hyper, posterior: Product) -> Product:
    """A dense posterior in the form that these algorithms keep."""
    stores = {}
    for name, names in word_tables(model).items():
        bases = [jnp.asarray(hyper[hyper_name]) for hyper_name in names]
        stores[name] = store_by_row(posterior[name], *bases)
    return posterior.replace(stores)


def word_tables(model: Model) -> dict[str, tuple[str, ...]]:
    """The globals by word, and the names of the hyperparameters of each."""
    return {} if model.form.documents is None else dict(model.form.documents.by_word)


def _view_columns(model: Model, state: State, own: OwnWords) -> BatchView:
    stores: dict[str, Any] = {name: state.posterior[name] for name in word_tables(model)}
    hyper = {
        names[0]: stores[name].prior_columns(own.words)
        for name, names in word_tables(model).items()
    }
    columns = {name: q.columns(own.words) for name, q in stores.items()}
    documents = tuple(_with_codes(docs, own.words) for docs in own)
    return BatchView(_replace(state, columns, hyper), documents)


def _with_codes(docs: Documents, words: Int[Array, " words"]) -> Documents:
    """The documents with codes from the ids among all words: so their draws do not depend on the
    numbering of the batch."""
    return dataclasses.replace(docs, codes=bag_codes(words[docs.words], jnp.asarray(docs.counts)))


def _view_pairs(model: Model, state: State, own: OwnWords, wrapper: ByWords) -> BatchView:
    """The state restricted, for each word, to the topics that its documents may use."""
    ((name, (eta, *_)),) = word_tables(model).items()
    q: Any = state.posterior[name]
    choose: Any = model.form.documents.choose  # type: ignore[union-attr]
    table = q.concentrations(own.words)
    num_topics = min(wrapper.active or 1, table.shape[1])
    choices = [
        choose(state.hyper, table, q.totals, docs, num_topics, wrapper.left_out) for docs in own
    ]
    ids = [_pair_ids(docs, topics, table.shape) for docs, topics in zip(own, choices, strict=True)]
    found = distinct(ids, table.size, min(table.size, sum(x.size for x in ids)))
    pairs, prior = q.pairs(own.words, found.ids)
    documents = tuple(
        ActiveDocuments.from_topics(docs, topics, places)
        for docs, topics, places in zip(own, choices, found.places, strict=True)
    )
    return BatchView(_replace(state, {name: pairs}, {eta: prior}), documents, found.ids)


def _pair_ids(docs: Documents, active: ActiveTopics, shape: tuple[int, int]) -> Int[Array, ...]:
    """The id of the pair of each slot and each topic that is used, among all pairs of this shape
    (words, topics); one beyond the last for empty slots and unused topics."""
    ids = jnp.asarray(docs.words)[:, :, None] * shape[1] + active.topics[:, None, :]
    is_used = jnp.arange(active.topics.shape[1])[None] < active.used[:, None]
    is_pair = (jnp.asarray(docs.counts) > 0)[:, :, None] & is_used[:, None, :]
    return jnp.where(is_pair, ids, shape[0] * shape[1])


def _replace(state: State, posterior: Mapping[str, Any], hyper: Hyper) -> State:
    return state._replace(
        posterior=state.posterior.replace(posterior), hyper={**state.hyper, **hyper}
    )


def _put_back(
    model: Model, full: State, new: State, info: Info, words: Array, pairs: Array | None
) -> State:
    """The full state after a step of the part that the batch sees."""
    ok = info.result == Result.OK
    keep = jnp.where(ok, 1 - info.step_size, 1.0)

    def put(q: Any, part: Any) -> StoredByRow:
        if pairs is None:
            return q.with_columns(words, part, keep, ok)
        return q.with_pairs(words, pairs, part, keep, ok)

    tables = word_tables(model)
    stores = {name: put(full.posterior[name], new.posterior[name]) for name in tables}
    hyper = {names[0]: full.hyper[names[0]] for names in tables.values()}
    return _replace(new, stores, hyper)


# --- refusals -------------------------------------------------------------------------------------
def _own_words(model: Model, state: State, batch: Any) -> OwnWords:
    """The documents of a batch. Raises ValueError if state or batch belong to an algorithm without
    this wrapper."""
    for name in word_tables(model):
        q = state.posterior[name]
        call = "vijax.topics.stored(alg.spec.model, state.hyper, state.posterior)"
        remedy = f"Begin by alg.init, or convert it: state._replace(posterior={call})."
        expected = "one of steps by words, with a table stored by row"
        got = f"{type(q).__name__} of {name!r}"
        require(isinstance(q, StoredByRow), "state", expected, got, remedy)
    remedy = (
        "vijax.fit gives them; in a loop of your own take vijax.topics.renumbered(batch, "
        "vocab_size)."
    )
    has_words = isinstance(batch, Minibatch) and isinstance(batch.data, OwnWords)
    expected = "its own words (vijax.topics.OwnWords), for steps by words"
    require(has_words, "batch", expected, "none", remedy)
    return OwnWords(jnp.asarray(batch.data.words), batch.data.documents)


REMEDY = "Leave by_words (algorithm.lazy) out."


def _check(spec: Spec) -> None:
    """Raises ValueError if a step would not cost less, or would not be the same."""
    expected = (
        "a model of documents with tables over words: lda, ctm, simple_mixture, stm, or hpf "
        "without features"
    )
    require(word_tables(spec.model), "by_words", expected, "another", REMEDY)
    laws = jax.eval_shape(spec.model.prior, dict(spec.model.hyper))
    for name in word_tables(spec.model):
        _check_table(spec, name, STORES[type(laws[name])].draw_covers_rows)
    is_schedule = not isinstance(spec.step_size, backtracking | by_share)
    require(is_schedule, "by_words", "a schedule of step sizes", repr(spec.step_size), REMEDY)
    concentrations = {eta for names in word_tables(spec.model).values() for eta in names}
    learnt = sorted(concentrations & set(spec.learn))
    expected = "fixed concentrations of the topics (the prior of the tables)"
    reason = "Its gradient is the divergence of all topics, at every step."
    require(not learnt, "by_words", expected, f"learn={learnt}", f"{reason} {REMEDY}")


def _check_table(spec: Spec, name: str, may_draw: bool) -> None:
    """Raises ValueError if the choices for a table do not go with steps by words; draws are allowed
    if a draw of some rows is a draw of them among all (`may_draw`)."""
    estimand = spec.estimand.choice(name)
    is_law = estimand == distribution()
    require(is_law, "by_words", f"a distribution of {name!r}", repr(estimand), REMEDY)

    estimator = spec.estimator.choice(name)
    serves: Any = mean_field
    estimators = "mean_field()"
    rows = "vijax.svi"
    if may_draw:
        serves = mean_field | ssvi_a
        estimators = "mean_field() or ssvi_a()"
        rows = "vijax.svi or vijax.ssvi_a"
    remedy = f"Others move the columns of all words. Use {rows}. {REMEDY}"
    is_served = isinstance(estimator, serves)
    require(is_served, "by_words", f"{estimators} for {name!r}", repr(estimator), remedy)

    update = spec.update.choice(name)
    require(update == kl(), "by_words", f"kl() for {name!r}", repr(update), REMEDY)

    moves_all = may_draw or spec.blocks is None
    expected = f"a step of all globals at once, with {name!r} among them"
    remedy = (
        "The statistics of all rows are found once a step. Use vijax.svi, or leave by_words "
        "(algorithm.lazy) out."
    )
    require(moves_all, "by_words", expected, "blocks", remedy)


def _check_active(model: Model, wrapper: ByWords) -> None:
    """Raises ValueError if documents cannot be restricted to some of the topics."""
    penalty_every = 1 if wrapper.penalty_every is None else wrapper.penalty_every
    require_integers(penalty_every=penalty_every)
    left_out = wrapper.left_out
    require(0 <= left_out < 1, "left_out", "a share of words, from 0 to below 1", left_out)
    if wrapper.active is None:
        remedy = (
            "Say active (algorithm.active_topics) too: no document uses more. Or leave left_out "
            "out."
        )
        require(left_out == 0, "left_out", "0 without active", left_out, remedy)
        return
    require_integers(active=wrapper.active)
    remedy = "Leave active (algorithm.active_topics) out."
    can_choose = model.form.documents is not None and model.form.documents.choose is not None
    require(can_choose, "active", "vijax.models.lda", "another model", remedy)
    is_scalar = np.ndim(model.hyper["alpha"]) == 0
    require(is_scalar, "active", "one alpha for all topics", "one of each", remedy)


# --- on the host ----------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class OwnWordsLoader:
    """The batches of another loader of documents, with ids among the words of each batch."""

    inner: Any
    vocab_size: int

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "inner"), name)

    def batches(self, start: int, stop: int) -> Iterator[Minibatch]:
        """Batches padded to `size` words; a batch with more words is padded to the most that a
        batch of its shape can have. So there are two shapes in all. They depend on the first pass
        alone, so that a run can be resumed anywhere."""
        for batch in self.inner.batches(start, stop):
            yield renumbered(batch, self.vocab_size, self.size)

    def makers(self, start: int, stop: int) -> Iterator[Maker] | None:
        """See `vijax.data.streams.threads`."""
        renumber = functools.partial(renumbered, vocab_size=self.vocab_size, size=self.size)
        return change_batches(renumber, batch_makers(self.inner, start, stop))

    @functools.cached_property
    def size(self) -> int:
        """The number of words to which batches are padded, so coarse that most seeds share a
        program."""
        counts = self.count_words()
        high = max(float(np.mean(counts) + SPREAD * np.std(counts)), max(counts))
        return padded_size(int(np.ceil(high)), self.vocab_size)

    def count_words(self) -> list[int]:
        """The number of different words in each of some batches of the first pass."""
        batches = (renumbered(batch, self.vocab_size) for batch in self._some_batches())
        return [int(np.sum(np.asarray(x.data.words) < self.vocab_size)) for x in batches]

    def _some_batches(self) -> Iterator[Minibatch]:
        if hasattr(self.inner, "spread"):
            yield from self.inner.spread(LOOKED_AT)
            return
        total = self.inner.steps_per_epoch
        for i in range(0, total, -(-total // LOOKED_AT)):
            yield from self.inner.batches(i, i + 1)


def renumbered(batch: Minibatch, vocab_size: int, size: int | None = None) -> Minibatch:
    """A batch of documents whose word ids are places among the words of the batch.

    Args:
      batch: documents as NumPy arrays.
      vocab_size: V.
      size: number of words to which the batch is padded; a batch with more words is padded to the
        most that a batch of its shape can have. None takes `padded_size` of their number.

    Returns:
      The batch with `OwnWords` as its data: its former ids in increasing order, padding V, V + 1,
      ...

    >>> import numpy as np, vijax as vi
    >>> corpus = vi.data.Corpus.from_counts(np.array([[0, 2, 0, 1], [0, 1, 0, 0]]))
    >>> batch = renumbered(next(iter(vi.data.minibatches(corpus, 2, seed=0))), vocab_size=4, size=3)
    >>> batch.data.words, batch.data.documents[0].words
    (array([1, 3, 4], dtype=int32), array([[0, 0],
           [0, 1]], dtype=int32))
    """
    if isinstance(batch.data, OwnWords):
        return batch
    present = np.zeros(vocab_size, bool)
    for documents in batch.data:
        present[np.asarray(documents.words)[np.asarray(documents.counts) > 0]] = True
    words = np.flatnonzero(present).astype(np.int32)
    if size is None:
        size = padded_size(len(words), vocab_size)
    elif len(words) > size:
        size = min(sum(documents.words.size for documents in batch.data), vocab_size)
    place = np.zeros(vocab_size, np.int32)
    place[words] = np.arange(len(words), dtype=np.int32)
    padding = vocab_size + np.arange(size - len(words), dtype=np.int32)
    documents = tuple(dataclasses.replace(docs, words=place[docs.words]) for docs in batch.data)
    return batch._replace(data=OwnWords(np.concatenate([words, padding]), documents))  # type: ignore[arg-type]


def of_all_words(batch: Minibatch) -> Minibatch:
    """The inverse of `renumbered`: a batch with ids among all words, for models that start from
    data."""
    if not isinstance(batch, Minibatch) or not isinstance(batch.data, OwnWords):
        return batch
    words = jnp.asarray(batch.data.words)

    def with_ids(docs: Documents) -> Documents:
        ids = jnp.where(jnp.asarray(docs.counts) > 0, words[docs.words], 0)
        return dataclasses.replace(docs, words=ids)

    data: PyTree = tuple(map(with_ids, batch.data))
    return batch._replace(data=data)


def padded_size(count: int, vocab_size: int) -> int:
    """The number of words to which a batch is padded, at most a sixteenth more than it has, so that
    batches share programs.

    >>> padded_size(1000, 5000), padded_size(4900, 5000)
    (1024, 5000)
    """
    grain = max(16, 1 << max(0, count.bit_length() - 5))
    return min(-(-count // grain) * grain, vocab_size)

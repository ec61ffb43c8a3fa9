"""A step that costs its batch: on the columns of the words that occur in it, and one more for all
others.

By the aggregation of the Dirichlet a posterior over V words, seen from a batch that holds W of
them, is one over W + 1 components (`vijax.families.discrete.by_word`), and so is its prior. A step
of the same algorithm there moves the columns of the batch to where it would have moved them among
all; the others shrink towards the prior by a factor that is known. So the step itself is the
ordinary one, and this wrapper says what it is given and where the result is put.

    mean field: the same numbers; SSVI-A: the same law, for a draw of the W columns is a draw of
    them among all.

V of structured SVI moves all columns, those without a word in the batch by 1 / psi'(lambda): it is
refused."""

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
from vijax.inference.wrappers.wrapper import Wrapper, wrap
from vijax.topics.active_topics import ActiveDocuments
from vijax.tree import register
from vijax.xla.content_keys import bag_codes

PENALTY_SHARES = 4, 20
"""The penalty is of all K x V numbers, of which a step sees W K, or so many pairs. It is evaluated
about once a pass over the data, at steps no less than 4 and no more than 20 times the ratio of the
two apart: so it adds a quarter to the numbers of a step, or less."""
LOOKED_AT = 16
"""How many batches say to how many words the others are padded."""
SPREAD = 5
"""Standard deviations above the mean to which they are padded: one batch in millions has more
words."""


@register
@dataclasses.dataclass(frozen=True)
class OwnWords:
    """Documents whose word ids count the batch's own words."""

    read_by: ClassVar[str] = "vijax.topics.by_words(alg)"

    words: Int[
        Array, " words"
    ]  # the ids of these among all words; different and increasing, those from V on padding
    documents: tuple[Documents, ...]  # a tuple of `Documents`

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
    for the items of `hpf`; those of `ssvi_a` are the same in law, for topics. It is worth it where
    a batch holds less than half of the vocabulary; figures are in benchmarks/README.md. Batches
    must say which words they hold, as those of `vijax.fit` do (`renumbered`). The state keeps a
    `vijax.families.by_row.StoredByRow`.

    Args:
      alg: `svi` or `ssvi_a` of such a model.
      active: hold each document of `lda` to so many topics at a step (Hughes and Sudderth 2016):
        those to which a first round at the mean topics gives most of its words. Draws and messages
        are then of the pairs of its words and these topics alone; only the first round looks at all
        topics. Exact where it is K. `fit.trace["left_out"]` says what share of the words that first
        round gave to other topics.
      left_out: with `active`, a document uses no more of these topics than leave this share of its
        words to others by that first round, which spreads words widely: 0.5 is no small share. 0:
        all of them. `fit.trace["active_topics"]` says how many topics documents used.
      penalty_every: evaluate the penalty of the reported objective, which is of all K x V numbers,
        every so many steps; None is about once a pass over the data.

    Raises:
      ValueError: an algorithm whose steps would move all words, or would not be the same.

    >>> import vijax as vi
    >>> alg = by_words(vi.svi(vi.models.lda(num_topics=5, vocab_size=1000)))
    >>> [wrapper.name for wrapper in alg.wrappers]
    ['by_words']
    """
    return wrap(alg, ByWords(active, left_out, penalty_every))


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
        """See `Wrapper`: those of few topics."""
        return self.active is not None

    def check(self, alg: Algorithm) -> None:
        _check(alg.spec)
        _check_active(alg.spec.model, self)

    def loader(self, loader: Any, alg: Algorithm) -> OwnWordsLoader:
        return OwnWordsLoader(loader, alg.spec.model.form.documents.vocab_size)  # type: ignore[union-attr]

    def init(self, alg: Algorithm, key: PRNGKeyArray, batch: Any, hyper: Any) -> State:
        """See `Wrapper`; models that start from data read ids of all words."""
        state = alg.init(key, None if batch is None else of_all_words(batch), hyper)
        return state._replace(posterior=stored(alg.spec.model, state.hyper, state.posterior))

    def step(
        self, alg: Algorithm, key: PRNGKeyArray, state: State, batch: Any
    ) -> tuple[State, Info]:
        """See `Wrapper`: the step of the state as the batch sees it, put back into the whole."""
        own = _own(alg.spec.model, state, batch)
        penalty, whole = self._penalty(alg.spec, state, batch, own)
        seen = self.view(alg.spec.model, whole, own)
        new, info = alg.step(key, seen.state, batch._replace(data=seen.data))
        new = _put_back(alg.spec.model, whole, new, info, own.words, seen.pairs)
        return new._replace(penalty=penalty), info._replace(penalty=penalty)

    def view(self, model: Model, state: State, own: OwnWords) -> BatchView:
        """The state as a batch sees it."""
        return (
            _view_columns(model, state, own)
            if self.active is None
            else _view_pairs(model, state, own, self)
        )

    def _penalty(
        self, spec: Spec, state: State, batch: Minibatch, own: OwnWords
    ) -> tuple[Float[Array, ""], State]:
        """The penalty, as of when it was last evaluated; and the state, with totals that are then
        summed anew, so that rounding errors do not add up."""
        every = self.penalty_every or self._cadence(spec.model, state, batch, own)
        names = list(word_tables(spec.model))

        def running(q: Any) -> dict[str, Array]:
            return {field: getattr(q, field) for field in q.running}

        def anew() -> tuple[Array, list[dict[str, Array]]]:
            tall: list[Any] = [state.posterior[name].resum() for name in names]  # type: ignore[attr-defined]
            others = {name: q for name, q in state.posterior.items() if name not in names}
            value = spec.penalty(others, state.hyper) + sum(
                jnp.sum(q.divergence_from_base()) for q in tall
            )
            return value.astype(state.penalty.dtype), [running(q) for q in tall]

        def as_it_was() -> tuple[Array, list[dict[str, Array]]]:
            return state.penalty, [running(state.posterior[name]) for name in names]

        value, mended = jax.lax.cond(state.step % every == 0, anew, as_it_was)
        stores: dict[str, Any] = dict(state.posterior)
        summed = {
            name: dataclasses.replace(stores[name], **found)
            for name, found in zip(names, mended, strict=True)
        }
        return value, _replaced(state, summed, {})

    def _cadence(
        self, model: Model, state: State, batch: Minibatch, own: OwnWords
    ) -> Int[Array, ""]:
        """The number of steps between evaluations of the penalty."""
        stores: list[Any] = [state.posterior[name] for name in word_tables(model)]
        whole, topics = max(q.entries.size for q in stores), max(q.entries.shape[1] for q in stores)
        seen = own.words.size * topics
        if self.active is not None:
            seen = min(seen, sum(docs.words.size for docs in own) * min(self.active, topics))
        least, most = (-(-share * whole // seen) for share in PENALTY_SHARES)
        size = sum(docs.weights.size for docs in own)
        num_groups = (
            size if batch.num_groups is None else jnp.nan_to_num(batch.num_groups, nan=size)
        )
        return jnp.clip(jnp.asarray(num_groups) / size, least, most).astype(int)


# --- what a batch sees of a state -----------------------------------------------------------------
class BatchView(NamedTuple):
    """The part of a state that a batch reads."""

    state: State  # the state, its tables restricted to the words of the batch
    data: tuple[Documents, ...]  # the data for this state
    # Pairs of the global by word that are read, where not all topics of a word are
    pairs: Int[Array, " pairs"] | None = None


def stored(model: Model, hyper: Hyper, posterior: Product) -> Product:
    """A dense posterior in the form in which such algorithms keep it."""
    base = lambda names: [jnp.asarray(hyper[name]) for name in names]
    return posterior.replace(
        {
            name: store_by_row(posterior[name], *base(names))
            for name, names in word_tables(model).items()
        }
    )


def word_tables(model: Model) -> dict[str, tuple[str, ...]]:
    """The globals by word, and the hyperparameters of each."""
    return {} if model.form.documents is None else dict(model.form.documents.by_word)


def _view_columns(model: Model, state: State, own: OwnWords) -> BatchView:
    found: dict[str, Any] = {name: state.posterior[name] for name in word_tables(model)}
    hyper = {
        names[0]: found[name].prior_columns(own.words) for name, names in word_tables(model).items()
    }
    columns = {name: q.columns(own.words) for name, q in found.items()}
    return BatchView(
        _replaced(state, columns, hyper), tuple(_with_codes(docs, own.words) for docs in own)
    )


def _with_codes(docs: Documents, words: Int[Array, " words"]) -> Documents:
    """The documents with codes by the ids among all words: what is drawn for them is what it would
    be without numbers of the batch's own."""
    return dataclasses.replace(docs, codes=bag_codes(words[docs.words], jnp.asarray(docs.counts)))


def _view_pairs(model: Model, state: State, own: OwnWords, how: ByWords) -> BatchView:
    """The state restricted, for each word, to the topics that its documents may use."""
    ((name, (eta, *_)),) = word_tables(model).items()
    q: Any = state.posterior[name]
    choose: Any = model.form.documents.choose  # type: ignore[union-attr]
    table = q.of_words(own.words)
    most = min(how.active or 1, table.shape[1])
    chosen = [choose(state.hyper, table, q.totals, docs, most, how.left_out) for docs in own]
    given = [_ids(docs, found, table.shape) for docs, found in zip(own, chosen, strict=True)]
    found = distinct(given, table.size, min(table.size, sum(ids.size for ids in given)))
    pairs, prior = q.pairs(own.words, found.ids)
    held = (
        ActiveDocuments.of(docs, c, places)
        for docs, c, places in zip(own, chosen, found.places, strict=True)
    )
    return BatchView(_replaced(state, {name: pairs}, {eta: prior}), tuple(held), found.ids)


def _ids(docs: Documents, chosen: Any, shape: tuple[int, int]) -> Int[Array, ...]:
    """The pairs of each slot and topic that is used, among all of this shape; none of empty
    slots."""
    ids = jnp.asarray(docs.words)[:, :, None] * shape[1] + chosen.topics[:, None, :]
    used = jnp.arange(chosen.topics.shape[1])[None] < chosen.used[:, None]
    real = (jnp.asarray(docs.counts) > 0)[:, :, None] & used[:, None, :]
    return jnp.where(real, ids, shape[0] * shape[1])


def _replaced(state: State, posterior: Mapping[str, Any], hyper: Hyper) -> State:
    return state._replace(
        posterior=state.posterior.replace(posterior), hyper={**state.hyper, **hyper}
    )


def _put_back(
    model: Model, whole: State, new: State, info: Info, words: Array, pairs: Array | None
) -> State:
    """The whole state after a step of what the batch sees of it."""
    ok = info.result == Result.OK
    kept = jnp.where(ok, 1 - info.step_size, 1.0)

    def moved(q: Any, to: Any) -> StoredByRow:
        return (
            q.with_columns(words, to, kept, ok)
            if pairs is None
            else q.with_pairs(words, pairs, to, kept, ok)
        )

    moved_all = {
        name: moved(whole.posterior[name], new.posterior[name]) for name in word_tables(model)
    }
    return _replaced(
        new, moved_all, {names[0]: whole.hyper[names[0]] for names in word_tables(model).values()}
    )


# --- what is refused ------------------------------------------------------------------------------
def _own(model: Model, state: State, batch: Any) -> OwnWords:
    """The documents of a batch. Raises ValueError where state or batch are of an algorithm without
    this wrapper."""
    for name in word_tables(model):
        how = "vijax.topics.stored(alg.spec.model, state.hyper, state.posterior)"
        remedy = f"Begin by alg.init, or convert it: state._replace(posterior={how})."
        kept, got = (
            isinstance(state.posterior[name], StoredByRow),
            type(state.posterior[name]).__name__,
        )
        require(
            kept,
            "state",
            "one of steps by words, with a table stored by row",
            f"{got} of {name!r}",
            remedy,
        )
    remedy = (
        "vijax.fit gives them; in a loop of your own take vijax.topics.renumbered(batch, "
        "vocab_size)."
    )
    own = isinstance(batch, Minibatch) and isinstance(batch.data, OwnWords)
    require(
        own, "batch", "its own words (vijax.topics.OwnWords), for steps by words", "none", remedy
    )
    return OwnWords(jnp.asarray(batch.data.words), batch.data.documents)


def _check(spec: Spec) -> None:
    """Raises ValueError where a step would not cost less, or not be the same."""
    remedy = "Leave by_words (lazy) out."
    expected = (
        "a model of documents with tables over words: lda, ctm, simple_mixture, stm, or hpf "
        "without features"
    )
    require(word_tables(spec.model), "by_words", expected, "another", remedy)
    laws = jax.eval_shape(spec.model.prior, dict(spec.model.hyper))
    for name in word_tables(spec.model):
        whole = spec.estimand.choice(name) == distribution()
        require(
            whole,
            "by_words",
            f"a distribution of {name!r}",
            repr(spec.estimand.choice(name)),
            remedy,
        )
        drawn = STORES[type(laws[name])].draw_covers_rows
        serves = isinstance(
            spec.estimator.choice(name), mean_field | ssvi_a if drawn else mean_field
        )
        estimators, rows = (
            ("mean_field() or ssvi_a()", "vijax.svi or vijax.ssvi_a")
            if drawn
            else ("mean_field()", "vijax.svi")
        )
        why = f"Others move the columns of all words. Use {rows}, or leave by_words (lazy) out."
        require(
            serves, "by_words", f"{estimators} for {name!r}", repr(spec.estimator.choice(name)), why
        )
        plain = spec.update.choice(name) == kl()
        require(plain, "by_words", f"kl() for {name!r}", repr(spec.update.choice(name)), remedy)
        at_once = drawn or spec.blocks is None
        why = (
            "The statistics of all rows are found once a step. Use vijax.svi, or leave by_words "
            "(lazy) out."
        )
        require(
            at_once,
            "by_words",
            f"a step of all globals at once, with {name!r} among them",
            "blocks",
            why,
        )
    fixed = not isinstance(spec.step_size, backtracking | by_share)
    require(fixed, "by_words", "a schedule of step sizes", repr(spec.step_size), remedy)
    learnt = sorted(
        {eta for names in word_tables(spec.model).values() for eta in names} & set(spec.learn)
    )
    why = "Its gradient is the divergence of all topics, at every step. Leave by_words (lazy) out."
    require(
        not learnt,
        "by_words",
        "fixed concentrations of the topics (the prior of the tables)",
        f"learn={learnt}",
        why,
    )


def _check_active(model: Model, how: ByWords) -> None:
    """Raises ValueError where documents cannot be held to some of the topics."""
    require_integers(penalty_every=1 if how.penalty_every is None else how.penalty_every)
    require(0 <= how.left_out < 1, "left_out", "a share of words, from 0 to below 1", how.left_out)
    if how.active is None:
        remedy = "Say active (active_topics) too: no document uses more. Or leave left_out out."
        require(how.left_out == 0, "left_out", "0 without active", how.left_out, remedy)
        return
    require_integers(active=how.active)
    remedy = "Leave active (active_topics) out."
    able = model.form.documents is not None and model.form.documents.choose is not None
    require(able, "active", "vijax.models.lda", "another model", remedy)
    alike = np.ndim(model.hyper["alpha"]) == 0
    require(alike, "active", "one alpha for all topics", "one of each", remedy)


# --- on the host ----------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class OwnWordsLoader:
    """The batches of another loader of documents, with ids that count their own words."""

    inner: Any
    vocab_size: int

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "inner"), name)

    def batches(self, start: int, stop: int) -> Iterator[Minibatch]:
        """Batches padded to one number of words, and those of more words to as many as such a batch
        can have: two shapes in all. Both are a matter of the first pass alone, so that a run may go
        on anywhere."""
        return (
            renumbered(batch, self.vocab_size, self.size)
            for batch in self.inner.batches(start, stop)
        )

    @functools.cached_property
    def size(self) -> int:
        """The number of words to which batches are padded, so coarse that most seeds share a
        program."""
        found = self.words_of_batches()
        most = max(float(np.mean(found) + SPREAD * np.std(found)), max(found))
        return padded_size(int(np.ceil(most)), self.vocab_size)

    def words_of_batches(self) -> list[int]:
        """The number of different words in each of some batches of the first pass."""
        total = self.inner.steps_per_epoch
        if hasattr(self.inner, "spread"):
            some = self.inner.spread(LOOKED_AT)
        else:
            starts = range(0, total, -(-total // LOOKED_AT))
            some = (batch for i in starts for batch in self.inner.batches(i, i + 1))
        own = (renumbered(batch, self.vocab_size).data.words for batch in some)
        return [int(np.sum(np.asarray(words) < self.vocab_size)) for words in own]


def renumbered(batch: Minibatch, vocab_size: int, size: int | None = None) -> Minibatch:
    """A batch of documents whose word ids count its own words.

    Args:
      batch: documents as NumPy arrays.
      vocab_size: V.
      size: to how many its words are padded; where they are more, as many as a batch of its shape
        can have. None takes `padded_size` of their number.

    Returns:
      The batch, its data `OwnWords`: the ids as they were are different and increasing, padding is
      V, V + 1, ...

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
    """The inverse: a batch whose ids count all words, as a model that starts from data reads
    them."""
    if not isinstance(batch, Minibatch) or not isinstance(batch.data, OwnWords):
        return batch
    words = jnp.asarray(batch.data.words)
    ids = lambda docs: jnp.where(jnp.asarray(docs.counts) > 0, words[docs.words], 0)
    data: PyTree = tuple(dataclasses.replace(docs, words=ids(docs)) for docs in batch.data)
    return batch._replace(data=data)


def padded_size(count: int, vocab_size: int) -> int:
    """To how many words a batch is padded, so that batches share programs: at most a sixteenth
    more.

    >>> padded_size(1000, 5000), padded_size(4900, 5000)
    (1024, 5000)
    """
    grain = max(16, 1 << max(0, count.bit_length() - 5))
    return min(-(-count // grain) * grain, vocab_size)

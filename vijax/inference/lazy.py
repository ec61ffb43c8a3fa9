"""A step that costs its batch: on the columns of the words that occur in it, and one more for all others.

By the aggregation of the Dirichlet a posterior over V words, seen from a batch that holds W of them, is one over W + 1
components (`vijax.families.discrete.by_word`), and so is its prior. A step of the same algorithm there moves the
columns of the batch to where it would have moved them among all; the others shrink towards the prior by a factor that
is known. So
the step itself is the ordinary one: only what it is handed, and where the result is put, is said here.

    mean field: the same numbers; SSVI-A: the same law, for a draw of the W columns is a draw of them among all.

V of structured SVI moves all columns, those without a word in the batch by 1 / psi'(lambda): it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from vijax.checks import require, require_integers
from vijax.contract.batch import Active, Documents, Minibatch
from vijax.contract.model import Hyper
from vijax.families import Product
from vijax.families.discrete.by_pair import distinct
from vijax.families.discrete.by_word import DirichletByWord, by_word, prior_columns
from vijax.inference.estimand import distribution
from vijax.inference.estimator import mean_field, ssvi_a
from vijax.inference.spec import Spec
from vijax.inference.state import Info, Result, State
from vijax.inference.step_size import backtracking, by_share
from vijax.inference.update import kl

PENALTY_SHARES = 4, 20
"""The penalty is of all K x V numbers, of which a step sees W K, or so many pairs. It is evaluated about once a pass
over the data, at steps no less than 4 and no more than 20 times the ratio of the two apart: so it adds a quarter to the
numbers of a step, or less."""


def stored(spec: Spec, hyper: Hyper, posterior: Product) -> Product:
    """The posterior as such algorithms keep it."""
    return by_word(posterior, {name: jnp.asarray(hyper[eta]) for name, eta in tables(spec).items()})


class Seen(NamedTuple):
    """Attributes:
    state: as a batch sees it.
    batch: what is then to be read.
    pairs: of the global by word, which are seen, where not all of a word's are.
    """

    state: State
    batch: Minibatch
    pairs: Int[Array, " pairs"] | None = None


def of_batch(spec: Spec, state: State, batch: Minibatch) -> Seen:
    """The state as a batch sees it."""
    if spec.active_topics is not None:
        return _of_pairs(spec, state, batch, spec.active_topics)
    words = _words(batch)
    found: dict[str, Any] = {name: state.posterior[name] for name in tables(spec)}
    hyper = {
        eta: prior_columns(jnp.asarray(state.hyper[eta]), words, *found[name].entries.shape)
        for name, eta in tables(spec).items()
    }
    columns = {name: q.columns(words) for name, q in found.items()}
    return Seen(_replaced(state, columns, hyper), batch)


def _of_pairs(spec: Spec, state: State, batch: Minibatch, most: int) -> Seen:
    """Of each word, of the topics alone that its documents may use."""
    ((name, eta),) = tables(spec).items()
    q: Any = state.posterior[name]
    assert spec.model.form.documents is not None
    assert spec.model.form.documents.choose is not None
    words, choose = _words(batch), spec.model.form.documents.choose
    table = q.of_words(words)
    most = min(most, table.shape[1])
    chosen = [choose(state.hyper, table, q.totals, docs, most, spec.left_out) for docs in batch.data]
    given = [_ids(docs, found, table.shape) for docs, found in zip(batch.data, chosen, strict=True)]
    found = distinct(given, table.size, min(table.size, sum(ids.size for ids in given)))
    own, prior = q.pairs(words, found.ids)
    active = tuple(Active(c.topics, c.used, at, c.left_out) for c, at in zip(chosen, found.places, strict=True))
    return Seen(_replaced(state, {name: own}, {eta: prior}), batch._replace(active=active), found.ids)


def _ids(docs: Documents, chosen: Any, shape: tuple[int, int]) -> Int[Array, ...]:
    """Of the pairs of each slot and topic that is used, among all of this shape; none of empty slots."""
    ids = jnp.asarray(docs.words)[:, :, None] * shape[1] + chosen.topics[:, None, :]
    used = jnp.arange(chosen.topics.shape[1]) < chosen.used[:, None]
    real = (jnp.asarray(docs.counts) > 0)[:, :, None] & used[:, None, :]
    return jnp.where(real, ids, shape[0] * shape[1])


def _replaced(state: State, posterior: Mapping[str, Any], hyper: Hyper) -> State:
    return state._replace(posterior=state.posterior.replace(posterior), hyper={**state.hyper, **hyper})


def put_back(spec: Spec, whole: State, new: State, info: Info, seen: Seen) -> State:
    """The whole state after a step of what the batch sees of it."""
    ok, words = info.result == Result.OK, _words(seen.batch)
    kept = jnp.where(ok, 1 - info.step_size, 1.0)

    def moved(q: Any, to: Any) -> DirichletByWord:
        if seen.pairs is None:
            return q.moved(words, to, kept, ok)
        return q.moved_pairs(words, seen.pairs, to, kept, ok)

    moved_all = {name: moved(whole.posterior[name], new.posterior[name]) for name in tables(spec)}
    hyper = {name: whole.hyper[name] for name in tables(spec).values()}
    return new._replace(posterior=new.posterior.replace(moved_all), hyper={**new.hyper, **hyper})


def penalty(spec: Spec, state: State, batch: Minibatch) -> tuple[Float[Array, ""], State]:
    """What the objective subtracts, as of when it was last evaluated; and the state, with totals that are then summed
    anew, so that rounding errors do not add up."""
    every = spec.penalty_every or _cadence(spec, state, batch)
    names = list(tables(spec))

    def anew() -> tuple[Array, list[Array]]:
        tall = [state.posterior[name].summed().totals for name in names]  # type: ignore[attr-defined]
        return spec.penalty(state.posterior, state.hyper).astype(state.penalty.dtype), tall

    def as_it_was() -> tuple[Array, list[Array]]:
        return state.penalty, [state.posterior[name].totals for name in names]  # type: ignore[attr-defined]

    value, totals = jax.lax.cond(state.step % every == 0, anew, as_it_was)
    summed = {name: _with_totals(state.posterior[name], t) for name, t in zip(names, totals, strict=True)}
    return value, state._replace(posterior=state.posterior.replace(summed))


def _with_totals(q: Any, totals: Array) -> DirichletByWord:
    return DirichletByWord(q.entries, q.scale, q.base, totals)


def _cadence(spec: Spec, state: State, batch: Minibatch) -> Int[Array, ""]:
    """In steps."""
    whole, seen = _sizes(spec, state, batch)
    least, most = (-(-share * whole // seen) for share in PENALTY_SHARES)
    size = sum(docs.weights.size for docs in batch.data)
    num_groups = size if batch.num_groups is None else jnp.nan_to_num(batch.num_groups, nan=size)
    return jnp.clip(jnp.asarray(num_groups) / size, least, most).astype(int)


def _sizes(spec: Spec, state: State, batch: Minibatch) -> tuple[int, int]:
    """Numbers in the largest table, and how many of them a step sees."""
    whole = max(state.posterior[name].entries.size for name in tables(spec))  # type: ignore[attr-defined]
    topics = max(state.posterior[name].totals.size for name in tables(spec))  # type: ignore[attr-defined]
    seen = _words(batch).size * topics
    if spec.active_topics is None:
        return whole, seen
    return whole, min(seen, sum(docs.words.size for docs in batch.data) * min(spec.active_topics, topics))


def tables(spec: Spec) -> dict[str, str]:
    """The globals by word, and the hyperparameter of each."""
    return {} if spec.model.form.documents is None else dict(spec.model.form.documents.by_word)


def check_seen(spec: Spec, state: State, batch: Minibatch) -> None:
    """ValueError where state or batch are of a lazy algorithm and this one is not, or the other way round."""
    for name in tables(spec):
        kept = isinstance(state.posterior[name], DirichletByWord)
        got = f"{type(state.posterior[name]).__name__} of {name!r}"
        if spec.lazy:
            how = "vijax.inference.lazy.stored(alg.spec, state.hyper, state.posterior)"
            remedy = f"Begin by alg.init, or convert it: state._replace(posterior={how})."
            require(kept, "state", "one of a lazy algorithm, whose topics are a DirichletByWord", got, remedy)
        else:
            remedy = "Convert it: state._replace(posterior=vijax.families.discrete.by_word.dense(state.posterior))."
            require(not kept, "state", "one of an algorithm without lazy=True", got, remedy)
    if not spec.lazy:
        remedy = "Give the batch as it was before renumbered, or take vijax.inference.lazy.of_all_words(batch)."
        got = "ids that count the batch's own words (Minibatch.words)"
        require(batch.words is None, "batch", "word ids that count all words, as lazy is not set", got, remedy)


def _words(batch: Minibatch) -> Array:
    remedy = "vijax.fit gives them; in a loop of your own take vijax.inference.lazy.renumbered(batch, vocab_size)."
    require(batch.words is not None, "batch", "its own words, for a lazy algorithm", "none", remedy)
    return jnp.asarray(batch.words)


def check_lazy(spec: Spec) -> None:
    """ValueError where a step would not cost less, or not be the same."""
    remedy = "Leave lazy out."
    if not spec.lazy:
        require(spec.active_topics is None, "active_topics", "none without lazy=True", spec.active_topics)
        _check_active(spec)
        return
    expected = "a model of documents whose topics are Dirichlets over words: lda, ctm, simple_mixture"
    require(tables(spec), "lazy", expected, "another", remedy)
    for name in tables(spec):
        whole = spec.estimand.of(name) == distribution()
        require(whole, "lazy", f"a distribution of {name!r}", repr(spec.estimand.of(name)), remedy)
        serves = isinstance(spec.estimator.of(name), mean_field | ssvi_a)
        why = "Others move the columns of all words. Use vijax.svi or vijax.ssvi_a, or leave lazy out."
        require(serves, "lazy", f"mean_field() or ssvi_a() for {name!r}", repr(spec.estimator.of(name)), why)
        plain = spec.update.of(name) == kl()
        require(plain, "lazy", f"kl() for {name!r}", repr(spec.update.of(name)), remedy)
    fixed = not isinstance(spec.step_size, backtracking | by_share)
    require(fixed, "lazy", "a schedule of step sizes", repr(spec.step_size), remedy)
    learnt = sorted(set(tables(spec).values()) & set(spec.learn))
    why = "Its gradient is the divergence of all topics, at every step. Leave lazy out."
    require(not learnt, "lazy", "fixed concentrations of the topics", f"learn={learnt}", why)
    for name, given in (("num_parts", spec.num_parts), ("average_after", spec.average_after), ("axis", spec.axis.name)):
        require(given is None, "lazy", f"no {name} beside it", given, remedy)
    _check_active(spec)


def _check_active(spec: Spec) -> None:
    """ValueError where documents cannot be held to some of the topics."""
    require(0 <= spec.left_out < 1, "left_out", "a share of words, from 0 to below 1", spec.left_out)
    if spec.active_topics is None:
        remedy = "Say active_topics too: no document uses more. Or leave left_out out."
        require(spec.left_out == 0, "left_out", "0 without active_topics", spec.left_out, remedy)
        return
    require_integers(active_topics=spec.active_topics)
    documents = spec.model.form.documents
    able = documents is not None and documents.choose is not None
    require(able, "active_topics", "vijax.models.lda", "another model", "Leave active_topics out.")
    alike = np.ndim(spec.model.hyper["alpha"]) == 0
    require(alike, "active_topics", "one alpha for all topics", "one of each", "Leave active_topics out.")
    require(not spec.warm_starts, "active_topics", "no warm_starts beside it", "both", "Leave one of them out.")


# --- on the host --------------------------------------------------------------------------------------------------
def renumbered(batch: Minibatch, vocab_size: int, size: int | None = None) -> Minibatch:
    """A batch of documents whose word ids count its own words.

    Args:
      batch: documents as NumPy arrays.
      vocab_size: V.
      size: to how many its words are padded; None takes `padded_words` of their number. Where they are more than this,
        that too.

    Returns:
      The batch, `Minibatch.words` being the ids as they were: different and increasing, padding V, V + 1, ...

    >>> import numpy as np, vijax as vi
    >>> corpus = vi.data.Corpus.from_counts(np.array([[0, 2, 0, 1], [0, 1, 0, 0]]))
    >>> batch = renumbered(next(iter(vi.data.minibatches(corpus, 2, seed=0))), vocab_size=4, size=3)
    >>> batch.words, batch.data[0].words
    (array([1, 3, 4], dtype=int32), array([[0, 0],
           [0, 1]], dtype=int32))
    """
    present = np.zeros(vocab_size, bool)
    for documents in batch.data:
        present[np.asarray(documents.words)[np.asarray(documents.counts) > 0]] = True
    words = np.flatnonzero(present).astype(np.int32)
    if size is None or len(words) > size:
        size = padded_words(len(words), vocab_size)
    place = np.zeros(vocab_size, np.int32)
    place[words] = np.arange(len(words), dtype=np.int32)
    data: PyTree = tuple(_with_words(documents, place) for documents in batch.data)
    padding = vocab_size + np.arange(size - len(words), dtype=np.int32)
    return batch._replace(data=data, words=np.concatenate([words, padding]))  # type: ignore[arg-type]


def of_all_words(batch: Minibatch) -> Minibatch:
    """The inverse: a batch whose ids count all words, as a model that starts from data reads them."""
    if batch.words is None:
        return batch
    words = jnp.asarray(batch.words)
    data: PyTree = tuple(
        type(d)(jnp.where(jnp.asarray(d.counts) > 0, words[d.words], 0), d.counts, d.weights, d.max_tokens)
        for d in batch.data
    )
    return batch._replace(data=data, words=None)


def _with_words(documents: Any, place: np.ndarray) -> Any:
    return type(documents)(place[documents.words], documents.counts, documents.weights, documents.max_tokens)


def padded_words(count: int, vocab_size: int) -> int:
    """To how many words a batch is padded, so that batches share programs: at most a sixteenth more.

    >>> padded_words(1000, 5000), padded_words(4900, 5000)
    (1024, 5000)
    """
    grain = max(16, 1 << max(0, count.bit_length() - 5))
    return min(-(-count // grain) * grain, vocab_size)

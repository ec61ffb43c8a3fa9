"""The data that steps and models read: minibatches, documents as bags of words, and `DataForm`."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, UInt32

from vijax.checks import require
from vijax.families import Dirichlet, Family
from vijax.families.base import as_float
from vijax.tree import register


class Minibatch(NamedTuple):
    """Some of the N groups of a data set.

    Attributes:
      data: a pytree of arrays of fixed shapes, which the model reads.
      num_groups: N, the number of groups in the whole data set; None if the minibatch is the whole
        set.
      weights: 1 for a group, 0 for padding, if all arrays have one leading axis of groups; None if
        all groups count, or the data have their own weights.
      local: the locals at which an iterative E-step starts, which full-data algorithms carry, or
        which these groups had at their last visit (`vijax.warm`); else None.
      part: the index of this part, if the data set is cut into parts once for all
        (`vijax.memoized`).
      rows: the index of each group among the N, and N for padding; for documents a tuple with an
        array for each of the `Documents`. None if they are unknown.
    """

    data: PyTree
    num_groups: Float[Array, ""] | np.floating | float | None
    weights: Float[Array, " groups"] | None = None
    local: PyTree = None
    part: Int[Array, ""] | np.integer | int | None = None
    rows: PyTree = None


@register
@dataclasses.dataclass(frozen=True)
class Documents:
    """Documents of similar length as padded rows of unique words.

    Attributes:
      words: word ids; padding slots hold 0.
      counts: number of occurrences of each word; 0 in padding slots.
      weights: 1 for a document, 0 for a padding row.
      max_tokens: static bound on the tokens of any row (a shape: E-steps that walk over tokens
        depend on it).
      covariates: numbers of each document that the model reads beside its words; 0 in padding rows.
        None if there are none.
      codes: a code of the content of each document (`vijax.xla.content_keys.bag_codes`), if word
        ids do not define it; else None.
    """

    words: Int[Array, "docs slots"]
    counts: Float[Array, "docs slots"]
    weights: Float[Array, " docs"]
    max_tokens: int = dataclasses.field(metadata={"static": True})
    covariates: Float[Array, "docs P"] | None = dataclasses.field(default=None, kw_only=True)
    codes: UInt32[Array, " docs"] | None = dataclasses.field(default=None, kw_only=True)


def one_group(data: PyTree) -> PyTree:
    """The data as a data set of one group. None is the data of a model that reads none."""
    add_axis = lambda x: (x if isinstance(x, jax.Array) else np.asarray(x))[None]
    return jax.tree.map(add_axis, 0.0 if data is None else data)


def count_rows(data: PyTree) -> int:
    """The number of rows of data whose first axis is the groups.

    Groups have rows where all arrays agree on a second axis, and some have columns after it; else a
    group is one row.

    >>> count_rows({"x": np.zeros((10, 30, 2)), "y": np.zeros((10, 30))})
    300
    >>> count_rows((np.zeros((10, 30)), np.zeros(10)))
    10
    """
    shapes = [np.shape(x) for x in jax.tree.leaves(data)]
    second_axes = {shape[1:2] for shape in shapes}
    has_columns = any(len(shape) > 2 for shape in shapes)
    if len(shapes) > 1 and has_columns and len(second_axes) == 1:
        return shapes[0][0] * shapes[0][1]
    return shapes[0][0]


def is_whole(batch: Minibatch) -> bool:
    """True if a batch is known to have all N groups. It is unknown if N or weights are traced."""
    if batch.num_groups is None:
        return True
    is_documents = lambda x: isinstance(x, Documents)
    documents = filter(is_documents, jax.tree.leaves(batch.data, is_leaf=is_documents))
    weights = [x.weights for x in documents] or [batch.weights]
    if any(isinstance(x, jax.core.Tracer) for x in (batch.num_groups, *weights)):
        return False
    if weights[0] is None:
        size = np.shape(jax.tree.leaves(batch.data)[0])[0]
    else:
        size = sum(int(np.sum(np.asarray(x) > 0)) for x in weights)
    return bool(size == batch.num_groups)


def weighted_sum(
    weights: Float[Array, " groups"], values: Float[Array, " groups"]
) -> Float[Array, ""]:
    """<weights, values> without rows of weight 0, because 0 times NaN is NaN.

    >>> float(weighted_sum(jnp.array([1.0, 0.0]), jnp.array([2.0, jnp.nan])))
    2.0
    """
    return jnp.vdot(weights, jnp.where(weights > 0, values, 0.0))


def fill_padding(data: PyTree, weights: Float[Array, " groups"]) -> PyTree:
    """The data with each row of weight 0 replaced by a copy of a row that counts. So no number of
    the padding reaches a bound or its gradient: the logarithm of a padded 0 is -inf, and 0 times
    -inf is NaN. Leaves without the axis of groups do not change.

    >>> print(fill_padding(jnp.array([0.0, 3.0, 4.0]), jnp.array([0.0, 1.0, 1.0])))
    [3. 3. 4.]
    """
    counts = weights > 0
    row = jnp.argmax(counts)

    def fill(leaf: Any) -> Any:
        if jnp.shape(leaf)[:1] != weights.shape:
            return leaf
        leaf = jnp.asarray(leaf)
        return jnp.where(counts.reshape(-1, *(1,) * (leaf.ndim - 1)), leaf, leaf[row])

    return jax.tree.map(fill, data)


class DocumentForm(NamedTuple):
    """The form of bags of words, which the text readers of `vijax.data` supply."""

    vocab_size: int  # V, larger than all ids of words
    # Names of globals that are tables over the words; and for each the names of the hyperparameters
    # that its store by row reads (`vijax.families.stores`). The prior is the value of the first
    # hyperparameter, if that is a family. A batch then needs only the rows of its own words, and
    # the bound reads their statistics, as `vijax.topics.by_words` requires. Tables are either
    # Dirichlets of batch shape (K,), with ("eta",), the concentration (`word_concentration`,
    # `word_prior`): the bound reads `stats[name].log` (K, words) or `stats[name].by_word` (words,
    # K) for any number of words. Or they are gammas (V, K), with (shape, rate) of the prior, two
    # numbers: the bound reads log of any number of rows, but values only as sums over all rows and
    # over columns (`vijax.families.scalar.gamma_by_row`)
    by_word: Mapping[str, tuple[str, ...]] = types.MappingProxyType({})
    # (hyper, concentrations of topics by word, their totals, `Documents`, L, share that may be left
    # out) -> the topics that each document is likely to use, `ActiveTopics` of
    # `vijax.topics.active_topics`. The bound then reads `ActiveDocuments`, and statistics of pairs
    # (`vijax.families.discrete.by_pair`) of the one global by word. None if the bound cannot
    choose: Callable[..., Any] | None = None
    # The names of documents and of words in messages, and the argument of the model for the number
    # of words
    names: tuple[str, str, str] = ("documents", "words", "vocab_size")
    # The words by id, for a model that is made from a corpus; None for others, which learn them
    # from the data of a fit
    vocabulary: tuple[str, ...] | None = None
    described_by: str = ""


class Nearby(NamedTuple):
    """A log density that approximates that of a model near its mode, and reads other data.

    Attributes:
      density: a log density of the same variables (`Model.log_density`).
      data: the data it reads, groups leading.
      level: the constant by which the log density of the model is larger; as a float it would lose
        digits in the sum.
      errors: values of the variables at draws, draws leading -> log density of the model minus this
        one, (draws,).
      sentence: the way it was made, for verdicts.
    """

    density: Any
    data: PyTree
    level: float
    errors: Callable[[Mapping[str, Any]], Float[np.ndarray, " draws"]]
    sentence: str


class Roughness(Protocol):
    """The approximations in a log density: values of the variables at draws, draws leading -> a
    sentence."""

    @property
    def num_draws(self) -> int:
        """The number of draws that it reads; 0 if there is nothing to say."""
        ...

    def __call__(self, values: Mapping[str, Any]) -> str:
        """The sentence."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class DataForm:
    """The form of the data that a model reads."""

    # Raises ValueError on impossible data, naming row and column; `vijax.fit` calls it once. None
    # is a check that every number is finite. A check of your own may allow NaN for missing values
    check: Callable[[PyTree], None] | None = None
    # "number", "index" or "mask" for each array, in the structure of the data or of their upper
    # part (`vijax.contract.intake`). None: the kinds are found by tracing the bound with floats
    # instead of integers
    kinds: PyTree = None
    documents: DocumentForm | None = None  # the form of bags of words; None for other data
    one_group: bool = False  # True if all data are one group
    # All the data, for models that are made for given data; None for models that fit data of any
    # size
    given: PyTree = None
    # True if the unknowns are in units of the given data, so that a fit takes no other data, and no
    # state of other data
    in_units_of_given: bool = False
    # Raises ValueError on possible data from which nothing can be learnt; only a fit calls it
    enough: Callable[[PyTree], None] | None = None
    # Data -> a density like that of the model near its mode, and far cheaper (`Nearby`); None if
    # there is none for these data. Only `vijax.auto` calls it
    nearby: Callable[[PyTree], Nearby | None] | None = None
    # What is approximate in the density itself, for verdicts; None if nothing is. Only `vijax.auto`
    # calls it
    roughness: Roughness | None = None

    # Raises ValueError at an index beyond what it points into, given data and the kinds of its
    # arrays; None if the model has no such check
    check_indices: Callable[[PyTree, Sequence[Any]], None] | None = None

    @property
    def num_groups(self) -> int | None:
        """N, for models that are made for given data; None for others."""
        return None if self.given is None else int(np.shape(jax.tree.leaves(self.given)[0])[0])


ANY_FORM = DataForm()
"""Arrays of any kind, with one leading axis of groups."""


def word_concentration(eta: Any, num_topics: int, vocab_size: int) -> Float[Array, ...]:
    """The concentration of the prior of K topics over V words: a scalar, (V,), or (K, V).
    ValueError for any other shape."""
    eta = as_float(eta, "eta")
    expected = f"a scalar, shape ({vocab_size},) or ({num_topics}, {vocab_size})"
    require(eta.shape in ((), (vocab_size,), (num_topics, vocab_size)), "eta", expected, eta.shape)
    return eta


def word_prior(eta: Any, num_topics: int, vocab_size: int) -> Any:
    """The prior of K topics over V words, or over the words of `eta`. A family, the prior for the
    words of a batch, is returned unchanged.

    >>> word_prior(jnp.asarray(0.5), 2, 3).concentration.shape
    (2, 3)
    """
    if isinstance(eta, Family):
        return eta
    size = vocab_size if jnp.ndim(eta) == 0 else jnp.shape(eta)[-1]
    return Dirichlet(jnp.broadcast_to(eta, (num_topics, size)))

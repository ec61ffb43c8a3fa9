"""Matrices of counts, dense or sparse, as batches for models of documents.

Shapes are rounded up, so that sets of nearly equal size, as in cross-validation, share a compiled
program. Counts need not be whole numbers, for a pipeline may weight words."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Iterator
from typing import Annotated, Any, Self

import jax
import numpy as np
import scipy.sparse
from jaxtyping import Float
from sklearn.utils.validation import check_non_negative

from vijax.arguments import NotNegative, Positive, Size, interval
from vijax.contract.batch import Minibatch
from vijax.data.buckets import Bucket, length_buckets
from vijax.data.loader import padded_size
from vijax.data.minibatch import PADDING, Minibatches, document_batches, in_order
from vijax.fitting.fit import fit
from vijax.fitting.result import Fit
from vijax.inference.compose import Algorithm
from vijax.inference.spec import Spec
from vijax.inference.step_size import robbins_monro
from vijax.predict.questions import infer
from vijax.sklearn.parts.base import (
    Transformer,
    cast,
    estimator,
    or_default,
    to_key,
    working_precision,
)
from vijax.sklearn.parts.inputs import check_input
from vijax.xla import keys

LEAST_ROWS = 32
LEAST_SLOTS = 16


@dataclasses.dataclass(frozen=True, eq=False)
class Bags:
    """A matrix (documents, words) in the form of a corpus for `vijax.data.Minibatches`."""

    indptr: np.ndarray
    indices: np.ndarray
    counts: np.ndarray
    covariates: np.ndarray | None = None  # numbers of each document in addition to its words

    @property
    def num_documents(self) -> int:
        """D."""
        return len(self.indptr) - 1

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """Number of different words of each document."""
        return np.diff(self.indptr)

    @functools.cached_property
    def tokens(self) -> Float[np.ndarray, " docs"]:
        """Sum of the counts of each document."""
        return np.add.reduceat(np.append(self.counts, 0.0), self.indptr[:-1]) * (self.lengths > 0)

    @classmethod
    def from_matrix(cls, X: Any, covariates: np.ndarray | None = None) -> Bags:
        """The bags of a dense or sparse matrix without negative numbers."""
        rows = scipy.sparse.csr_array(X, copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        indptr = rows.indptr.astype(np.int64)
        return cls(indptr, rows.indices.astype(np.int32), rows.data, covariates)


@dataclasses.dataclass(frozen=True, eq=False)
class BagLoader:
    """A `vijax.data.loader.Loader` of a matrix of counts."""

    stream: Minibatches  # its minibatches
    num_groups: int  # N, the size of the whole set; the matrix may be a part of it
    reshuffled: bool  # deal the documents afresh in every pass

    @classmethod
    def from_matrix(
        cls,
        X: Any,
        batch_size: int | None = None,
        seed: int = 0,
        total: int | None = None,
        reshuffled: bool = True,
        covariates: np.ndarray | None = None,
    ) -> BagLoader:
        """The loader of a matrix, in batches of about `batch_size` documents (None: all), from a
        set of `total`."""
        bags: Any = Bags.from_matrix(X, covariates)
        documents = bags.num_documents
        steps = max(1, round(documents / (batch_size or documents)))
        buckets = length_buckets(bags.lengths, bags.tokens, num_parts=steps)
        stream = Minibatches(bags, tuple(map(_round_up, buckets)), steps, seed)
        return cls(stream, int(or_default(total, documents)), reshuffled)

    @property
    def num_words(self) -> float:
        """Sum of all counts."""
        return float(self.stream.corpus.tokens.sum())

    @property
    def steps_per_epoch(self) -> int:
        """Batches in one pass."""
        return self.stream.per_epoch

    def batches(self, start: int, stop: int) -> Iterator[Minibatch]:
        """Batches of steps start, ..., stop - 1."""
        for step in range(start, stop):
            epoch, place = divmod(step, self.steps_per_epoch)
            hands = self._deal(epoch if self.reshuffled else 0)
            yield self._batch([hand[place] for hand in hands])

    def _batch(self, hands: list[np.ndarray]) -> Minibatch:
        batch = self.stream.gather([_pad(hand) for hand in hands])
        return batch._replace(num_groups=np.float32(self.num_groups))  # type: ignore[arg-type]

    def _deal(self, epoch: int) -> list[np.ndarray]:
        return _deal(self.stream, epoch)


@functools.lru_cache(maxsize=2)
def _deal(stream: Minibatches, epoch: int) -> list[np.ndarray]:
    """The batches of documents in a pass, cached between steps."""
    return stream.deal(epoch)


def _pad(hand: np.ndarray) -> np.ndarray:
    """A batch padded to a size that other data share."""
    size = max(padded_size(len(hand)), LEAST_ROWS)
    return np.pad(hand, (0, size - len(hand)), constant_values=PADDING)


def _round_up(bucket: Bucket) -> Bucket:
    """Sizes rounded up: slots by at most an eighth, tokens to a power of two."""
    slots = max(bucket.slots, LEAST_SLOTS)
    grain = 1 << max(0, (slots - 1).bit_length() - 3)
    tokens = 1 << int(np.ceil(bucket.max_tokens)).bit_length()
    return dataclasses.replace(bucket, slots=-(-slots // grain) * grain, max_tokens=tokens)


def to_least_precision(X: Any) -> Any:
    """Counts in float32 if that holds them exactly, else in float64. So the type of the input does
    not change an answer.

    >>> [str(to_least_precision(np.array([[number]])).dtype) for number in (3, 3.0, 0.1, np.float32(0.1), 2**24 + 1)]
    ['float32', 'float32', 'float64', 'float32', 'float64']
    """
    rounded = X.astype(np.float32)
    is_exact = np.array_equal(_entries(X), _entries(rounded))
    return rounded if is_exact else X.astype(np.float64)


def _entries(X: Any) -> np.ndarray:
    """The stored entries of a sparse matrix, or all entries of a dense one, in float64."""
    return np.asarray(X.data if scipy.sparse.issparse(X) else X, np.float64)


def answer_type(X: Any) -> Any:
    """The type of answers about X: float64 for float64, else float32."""
    return np.float64 if X.dtype == np.float64 else np.float32


AT_A_TIME = 1024
"""Documents whose locals are inferred at once."""


class BagTransformer(Transformer):
    """An abstract transformer of matrices of counts with a document in each row."""

    fit_: Any
    random_state: Any

    def _reading_spec(self, read: Any) -> Spec:
        """The spec, with model and E-step, that `read` is answered with."""
        return self.fit_.alg.spec

    def _per_document(
        self, X: Any, read: Any, covariates: np.ndarray | None = None, member: Fit | None = None
    ) -> np.ndarray:
        """The results of `read` for each document, in their order, by the fit or by one of those
        that it averages over."""
        spec = self._reading_spec(read)
        answering: Fit = or_default(member, self.fit_)
        state = cast(answering.state, X)
        posterior = answering.posterior.with_naturals(cast(answering.posterior, X))
        results = []
        rows = []
        bags: Any = Bags.from_matrix(X, covariates)
        for batch, order in document_batches(bags, AT_A_TIME):
            parts = infer(read, spec, state.hyper, posterior, batch, jax.random.key(0), X.size)
            results.append(np.concatenate([np.asarray(x) for x in parts]))
            rows.append(order)
        return in_order(np.concatenate(results), np.concatenate(rows))

    def _counts(self, X: Any, method: str, reset: bool) -> Any:
        """X, checked, in the least precision that holds it."""
        return to_least_precision(self._check_matrix(X, method, reset))

    def _check_matrix(self, X: Any, method: str, reset: bool) -> Any:
        """X, checked, with its own type of numbers; `method` is named in errors."""
        X = check_input(self, X, accept_sparse="csr", dtype="numeric", reset=reset)
        check_non_negative(X, f"{type(self).__name__}.{method}")
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@estimator
class MinibatchTransformer(BagTransformer, abc.ABC):
    """An abstract transformer that can be fitted to minibatches one by one."""

    _: dataclasses.KW_ONLY
    batch_size: Size | None = 128
    total_samples: Positive = 1e6
    learning_decay: Annotated[float, interval("[0, 1]")] = 0.7
    learning_offset: NotNegative = 10.0

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Continues the fit with a minibatch of a set of `total_samples` rows: a stochastic step
        for each `batch_size` rows. The first call starts the fit. y is ignored. Raises as `fit`
        does."""
        self._check_settings()
        is_first = not hasattr(self, "fit_")
        X = self._counts(X, "partial_fit", reset=is_first)
        with working_precision(X):
            total = max(int(self.total_samples), X.shape[0])
            seed = to_seed(self.random_state)
            loader = BagLoader.from_matrix(X, self.batch_size, seed, total, reshuffled=False)
            state = None if is_first else self._last_state()
            steps = loader.steps_per_epoch + (0 if state is None else int(state.step))
            self.fit_ = self._fit_steps(self._stochastic(X.shape[1]), loader, steps, state)
            self._describe()
        self.n_batch_iter_ = steps
        self.n_iter_ = getattr(self, "n_iter_", 0)
        return self

    def _fit_steps(self, alg: Algorithm, loader: BagLoader, num_steps: int, state: Any) -> Fit:
        """The fit after so many steps, of one run or of `n_fits` whose predictions are averaged."""
        number = getattr(self, "n_fits", 1)
        several: dict[str, Any] = {}
        if number > 1:
            several = {"restarts": number, "combine": "average"}
        key = to_key(self.random_state)
        return fit(alg, loader, key=key, num_steps=num_steps, state=state, **several)

    def _last_state(self) -> Any:
        """The state from which the fit goes on: of all runs."""
        return or_default(self.fit_.runs, self.fit_.state)

    def _steps(self) -> Any:
        """Step sizes (learning_offset + t)^-learning_decay, t = 1, 2, ..."""
        return robbins_monro(offset=self.learning_offset + 1.0, kappa=self.learning_decay)

    @abc.abstractmethod
    def _stochastic(self, num_columns: int) -> Algorithm:
        """The algorithm of minibatches."""

    @abc.abstractmethod
    def _describe(self) -> None:
        """Sets the fitted attributes."""


def to_seed(random_state: Any) -> int:
    """The seed of the order of rows."""
    return keys.seed(to_key(random_state))

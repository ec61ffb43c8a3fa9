"""The items with the largest scores, and the score of this ranking on hidden items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

from vijax.checks import require, require_integers
from vijax.evaluate.token_order import draw_lots

CHUNK_SCORES = 1 << 23
"""Number of scores that are computed at once."""


class Ranked(NamedTuple):
    """The best items of each user, best first.

    Attributes:
      items: item ids; -1 if a user has fewer than n items.
      scores: the scores of the items; -inf for -1.
    """

    items: Int[np.ndarray, "users n"]
    scores: Float[np.ndarray, "users n"]


class Ranking(NamedTuple):
    """A score of rankings: hidden items among their first n (Jarvelin and Kekalainen 2002).

    Attributes:
      mean: mean over users of NDCG at n: the sum of 1 / log2(r + 1) over the ranks r of hidden
        items, divided by its largest possible value; 0 to 1.
      standard_error: standard error of the mean over users; inf for a single user.
      ndcg: NDCG at n of each user with hidden items.
      recalls: for each user, the number of hidden items among the first n, over the number of
          hidden items or n, whichever is less.
      users: row of each user with hidden items.
      n: number of ranked items.
    """

    mean: float
    standard_error: float
    ndcg: Float[np.ndarray, " users"]
    recalls: Float[np.ndarray, " users"]
    users: Int[np.ndarray, " users"]
    n: int

    @property
    def recall(self) -> float:
        """Mean recall at n."""
        return float(self.recalls.mean())

    @property
    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        """NDCG of each user, and ones."""
        return self.ndcg, np.ones(len(self.ndcg))

    def __str__(self) -> str:
        error = f" ± {self.standard_error:.3f}" if np.isfinite(self.standard_error) else ""
        recall = f"recall@{self.n} {self.recall:.3f}"
        return f"{self.mean:.3f}{error} NDCG@{self.n}, {recall} ({len(self.users):,} users)"


def ranked(users: Any, items: Any, taken: Any = None, n: int = 10) -> Ranked:
    """The n items with the largest scores u . v for each user, best first.

    Args:
      users: a vector u for each user, (users, K).
      items: a vector v for each item, (items, K). Popularity is (items, 1), with ones for the
          users.
      taken: users by items, dense or sparse: the items that a user already has, which are left out.
        None: no user has items.
      n: number of items.

    Raises:
      ValueError: shapes that do not fit, or n below 1 or above the number of items.

    >>> print(*ranked([[1.0, 0.0]], [[1.0, 9.0], [2.0, 0.0], [3.0, 0.0]], [[0, 0, 1]], n=2))
    [[1 0]] [[2. 1.]]
    """
    users, items, taken = _vectors(users, items, taken)
    require_integers(n=n)
    require(n <= len(items), "n", f"at most the {len(items)} items", n)
    blocks = _blocks(len(users), len(items))
    parts = [_best_items(users[rows], items, taken[rows], n) for rows in blocks]
    return Ranked(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def ranking(users: Any, items: Any, taken: Any, hidden: Any, n: int = 20) -> Ranking:
    """The score of the rankings by u . v on hidden items.

    Args:
      users, items, taken: see `ranked`; `taken` are the items of training.
      hidden: users by items, dense or sparse: the items that a user has and training did not use.
        Users without hidden items are left out.
      n: number of ranked items; all items if there are fewer.

    Raises:
      ValueError: shapes that do not fit, no hidden items, or n below 1.

    >>> score = ranking([[1.0]], [[3.0], [2.0], [1.0]], [[1, 0, 0]], [[0, 0, 1]], n=2)
    >>> score.recall, round(score.mean, 3)
    (1.0, 0.631)
    """
    require_integers(n=n)
    users, items, _ = _vectors(users, items, None)
    hidden = _matrix(hidden, "hidden", (len(users), len(items)))
    rows = np.flatnonzero(np.diff(hidden.indptr))
    require(len(rows), "hidden", "users with hidden items", "none")
    n = min(n, len(items))
    taken = _matrix(taken, "taken", (len(users), len(items)))
    best = ranked(users[rows], items, taken[rows], n).items
    hidden = hidden[rows]
    hits = _find_hits(best, hidden)
    gains = 1.0 / np.log2(np.arange(n) + 2.0)
    possible = np.minimum(np.diff(hidden.indptr), n)
    ndcg = hits @ gains / np.cumsum(gains)[possible - 1]
    error = float("inf")
    if len(rows) > 1:
        error = float(ndcg.std(ddof=1) / np.sqrt(len(rows)))
    return Ranking(float(ndcg.mean()), error, ndcg, hits.sum(1) / possible, rows, n)


def _find_hits(best: Int[np.ndarray, "users n"], hidden: Any) -> np.ndarray:
    """True for the items in `best` that are hidden items of their user."""
    num_users, num_items = hidden.shape
    users = np.arange(num_users)
    hidden_pairs = np.repeat(users, np.diff(hidden.indptr)) * num_items + hidden.indices
    pairs = np.where(best >= 0, users[:, None] * num_items + best, -1)
    return np.isin(pairs, hidden_pairs)


def hide(taken: Any, share: float = 0.2, seed: int = 0) -> tuple[Any, Any]:
    """Users by items without a random share of the entries, and these hidden entries. Each user
    keeps at least one item; a user with two items or more has at least one hidden item. The choice
    depends on the items of the user, not on the user's row.

    >>> visible, hidden = hide(np.ones((3, 10), int), 0.2)
    >>> visible.sum(axis=1).tolist(), hidden.sum(axis=1).tolist()
    ([8, 8, 8], [2, 2, 2])
    """
    require(0 < share < 1, "share", "a share between 0 and 1", share)
    matrix = scipy.sparse.csr_array(taken, copy=True)
    matrix.sum_duplicates()  # also sorts the entries
    lengths = np.diff(matrix.indptr)
    user = np.repeat(np.arange(len(lengths)), lengths)
    lots, _ = draw_lots(user, matrix.indices, lengths, [seed], matrix.data)
    order = np.lexsort((lots, user))  # users in turn, the items of each in random order
    place = np.empty(len(user), np.int64)
    place[order] = np.arange(len(user)) - matrix.indptr[user]
    number = np.clip(np.round(share * lengths), 1, np.maximum(lengths - 1, 1)) * (lengths > 1)
    is_hidden = place < number[user]

    def select(mask: np.ndarray) -> Any:
        entries = matrix.data[mask], (user[mask], matrix.indices[mask])
        return scipy.sparse.csr_array(entries, matrix.shape)

    return select(~is_hidden), select(is_hidden)


def _best_items(
    users: Float[np.ndarray, "u K"], items: Float[np.ndarray, "i K"], taken: Any, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Ids and scores of the best items of each user."""
    scores = users @ items.T
    scores[np.repeat(np.arange(len(users)), np.diff(taken.indptr)), taken.indices] = -np.inf
    ids = np.argpartition(-scores, n - 1, axis=1)[:, :n]
    best = np.take_along_axis(scores, ids, axis=1)
    order = np.argsort(-best, axis=1, kind="stable")
    ids = np.take_along_axis(ids, order, axis=1)
    best = np.take_along_axis(best, order, axis=1)
    return np.where(np.isneginf(best), -1, ids), best


def _vectors(users: Any, items: Any, taken: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    """The arguments as arrays and a sparse matrix; ValueError if their shapes do not fit."""
    users = np.asarray(users, np.float32)
    items = np.asarray(items, np.float32)
    fits = users.ndim == items.ndim == 2 and users.shape[1] == items.shape[1]
    expected = "vectors (items, K), as long as those of users"
    require(fits, "items", expected, f"{items.shape} for {users.shape}")
    shape = len(users), len(items)
    if taken is None:
        return users, items, scipy.sparse.csr_array(shape)
    return users, items, _matrix(taken, "taken", shape)


def _matrix(values: Any, name: str, shape: tuple[int, int]) -> Any:
    """A matrix in compressed rows; ValueError naming it if the shape does not fit."""
    if hasattr(values, "to_scipy"):
        values = values.to_scipy()
    matrix = scipy.sparse.csr_array(values)
    expected = f"a matrix of {shape[0]} users and {shape[1]} items"
    require(matrix.shape == shape, name, expected, matrix.shape)
    matrix.eliminate_zeros()
    return matrix


def _blocks(num_users: int, num_items: int) -> Iterator[slice]:
    """Slices of the users whose scores are computed at once."""
    size = max(1, CHUNK_SCORES // num_items)
    return (slice(start, start + size) for start in range(0, num_users, size))

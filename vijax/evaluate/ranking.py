"""The items of largest scores, and how well such a ranking finds items that were hidden from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

from vijax.checks import require, require_integers
from vijax.evaluate.token_order import draw_lots

AT_A_TIME = 1 << 23
"""Scores that are computed at once."""


class Ranked(NamedTuple):
    """The best items of each user, best first.

    Attributes:
      items: item ids; -1 where a user has fewer than were asked for.
      scores: their scores; -inf there.
    """

    items: Int[np.ndarray, "users n"]
    scores: Float[np.ndarray, "users n"]


class Ranking(NamedTuple):
    """A score of rankings: hidden items among their first n (Jarvelin and Kekalainen 2002).

    Attributes:
      mean: mean over users of NDCG at n: each hidden item at place r counts 1 / log2(r + 1), over
        the most there could be; 0 to 1.
      standard_error: its standard error over users; inf for a single one.
      ndcg: NDCG at n of each user that had hidden items.
      recalls: the share of the hidden items of each that are among the first n; of n, where more
          were hidden.
      users: the row of each of them.
      n: how many items are ranked.
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
        found = f"NDCG@{self.n}, recall@{self.n} {self.recall:.3f}"
        return f"{self.mean:.3f}{error} {found} ({len(self.users):,} users)"


def ranked(users: Any, items: Any, taken: Any = None, n: int = 10) -> Ranked:
    """The n items of largest scores u . v for each user, best first.

    Args:
      users: a vector u for each user, (users, K).
      items: a vector v for each item, (items, K). Popularity is (items, 1), with ones for the
          users.
      taken: users by items, dense or sparse: items that a user has are left out. None: none are.
      n: how many.

    Raises:
      ValueError: shapes that do not go together, n below 1 or above the number of items.

    >>> print(*ranked([[1.0, 0.0]], [[1.0, 9.0], [2.0, 0.0], [3.0, 0.0]], [[0, 0, 1]], n=2))
    [[1 0]] [[2. 1.]]
    """
    users, items, known = _vectors(users, items, taken)
    require_integers(n=n)
    require(n <= len(items), "n", f"at most the {len(items)} items", n)
    parts = [_best(users[rows], items, known[rows], n) for rows in _blocks(len(users), len(items))]
    return Ranked(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def ranking(users: Any, items: Any, taken: Any, hidden: Any, n: int = 20) -> Ranking:
    """The score of rankings by u . v, on hidden items.

    Args:
      users, items, taken: see `ranked`; items that were seen in training are `taken`.
      hidden: users by items, dense or sparse: what they took and the ranking was not told. Users
        without any are left out.
      n: how many items are looked at; all of them, where there are fewer.

    Raises:
      ValueError: shapes that do not go together, nothing hidden, n below 1.

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
    known = _matrix(taken, "taken", (len(users), len(items)))
    best = ranked(users[rows], items, known[rows], n).items
    hidden = hidden[rows]
    flat = np.repeat(np.arange(len(rows)), np.diff(hidden.indptr)) * len(items) + hidden.indices
    hits = np.isin(np.where(best >= 0, np.arange(len(rows))[:, None] * len(items) + best, -1), flat)
    gains = 1.0 / np.log2(np.arange(n) + 2.0)
    possible = np.minimum(np.diff(hidden.indptr), n)
    ndcg = hits @ gains / np.cumsum(gains)[possible - 1]
    error = float(ndcg.std(ddof=1) / np.sqrt(len(rows))) if len(rows) > 1 else float("inf")
    return Ranking(float(ndcg.mean()), error, ndcg, hits.sum(1) / possible, rows, n)


def hide(taken: Any, share: float = 0.2, seed: int = 0) -> tuple[Any, Any]:
    """Users by items, without a random share of the entries; and those. A user keeps at least one
    item, and one item is hidden where a user has two or more. Which ones goes by what a user has
    taken, not by the user's place.

    >>> kept, hidden = hide(np.ones((3, 10), int), 0.2)
    >>> kept.sum(axis=1).tolist(), hidden.sum(axis=1).tolist()
    ([8, 8, 8], [2, 2, 2])
    """
    require(0 < share < 1, "share", "a share between 0 and 1", share)
    matrix = scipy.sparse.csr_array(taken, copy=True)
    matrix.sum_duplicates()  # and sorted
    lengths = np.diff(matrix.indptr)
    user = np.repeat(np.arange(len(lengths)), lengths)
    lots, _ = draw_lots(user, matrix.indices, lengths, [seed], matrix.data)
    order = np.lexsort((lots, user))  # users in turn, the items of each in any order
    place = np.empty(len(user), np.int64)
    place[order] = np.arange(len(user)) - matrix.indptr[user]
    number = np.clip(np.round(share * lengths), 1, np.maximum(lengths - 1, 1)) * (lengths > 1)
    chosen = place < number[user]
    part = lambda mask: scipy.sparse.csr_array(
        (matrix.data[mask], (user[mask], matrix.indices[mask])), matrix.shape
    )
    return part(~chosen), part(chosen)


def _best(
    users: Float[np.ndarray, "u K"], items: Float[np.ndarray, "i K"], taken: Any, n: int
) -> tuple[np.ndarray, np.ndarray]:
    scores = users @ items.T
    scores[np.repeat(np.arange(len(users)), np.diff(taken.indptr)), taken.indices] = -np.inf
    some = np.argpartition(-scores, n - 1, axis=1)[:, :n]
    found = np.take_along_axis(scores, some, axis=1)
    order = np.argsort(-found, axis=1, kind="stable")
    some, found = np.take_along_axis(some, order, axis=1), np.take_along_axis(found, order, axis=1)
    return np.where(np.isneginf(found), -1, some), found


def _vectors(users: Any, items: Any, taken: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    users, items = np.asarray(users, np.float32), np.asarray(items, np.float32)
    fits = users.ndim == items.ndim == 2 and users.shape[1] == items.shape[1]
    require(
        fits,
        "items",
        "vectors (items, K), as long as those of users",
        f"{items.shape} for {users.shape}",
    )
    shape = len(users), len(items)
    return (
        users,
        items,
        scipy.sparse.csr_array(shape) if taken is None else _matrix(taken, "taken", shape),
    )


def _matrix(given: Any, name: str, shape: tuple[int, int]) -> Any:
    matrix = scipy.sparse.csr_array(given.to_scipy() if hasattr(given, "to_scipy") else given)
    require(
        matrix.shape == shape,
        name,
        f"a matrix of {shape[0]} users and {shape[1]} items",
        matrix.shape,
    )
    matrix.eliminate_zeros()
    return matrix


def _blocks(num_users: int, num_items: int) -> Iterator[slice]:
    size = max(1, AT_A_TIME // num_items)
    return (slice(start, start + size) for start in range(0, num_users, size))

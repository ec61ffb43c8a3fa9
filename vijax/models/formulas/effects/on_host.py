"""The marginal likelihood of normal laws on the host, in float64, at given ratios of the sds of
effects to the sd of errors.

Let Lambda be the diagonal matrix of these ratios, with an entry for each effect, and c the
coefficients of (X, y) in r = y - X b:

    H = I + Lambda Z' W Z Lambda,    log p(y) = -n/2 log(2 pi sigma^2) - c' M c / (2 sigma^2) - log det H / 2,
    M = (X, y)' W (X, y) - (X, y)' W Z Lambda H^-1 Lambda Z' W (X, y).

Only log det H and M are costly, and they depend on the ratios alone. H has a block for each group
of the first factor. These blocks are eliminated, and a dense matrix remains,

    K = I + Lambda_2 (rest - across' V across) Lambda_2,    V = Lambda_1 (I + Lambda_1 own Lambda_1)^-1 Lambda_1

(Bates et al. 2015, section 3). across' V across is a product of sparse matrices; it depends on the
ratios of the first factor alone and is kept for the next call. LAPACK factors K, the part of the
second factor first; this part is kept too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float
from scipy import linalg


class Pieces(NamedTuple):
    """The parts of the marginal likelihood that depend on the ratios.

    Attributes:
      half_log_det: log det H / 2.
      squares: M, of (X, y).
    """

    half_log_det: float
    squares: Float[np.ndarray, "p_and_one p_and_one"]


class Elimination(NamedTuple):
    """The parts that depend on the ratios of the first factor alone.

    Attributes:
      half_log_det: half the log determinant of its blocks.
      spread: V of each group, (J, d, d).
      rest: rest - across' V across, (R, R).
      of_rest: Z' W (X, y) of the other factors, less the part that the first one explains, (R, p +
          1).
      squares: (X, y)' W (X, y), less the part that the first factor explains.
    """

    half_log_det: float
    spread: Float[np.ndarray, "J d d"]
    rest: Float[np.ndarray, "R R"]
    of_rest: Float[np.ndarray, "R p_and_one"]
    squares: Float[np.ndarray, "p_and_one p_and_one"]


class _Second(NamedTuple):
    """The parts that depend on the ratios of the first two factors.

    Attributes:
      half_log_det: half the log determinant of the block of K of the second factor.
      explained: factor^-1 Lambda Z' W (X, y), (R_2, p + 1), with the factor of this block.
      across: factor^-1 Lambda times K between the second factor and the others, (R_2, R_3).
      rest: `Elimination.rest` of the others, less the part that the second factor explains.
    """

    half_log_det: float
    explained: Float[np.ndarray, "R2 p_and_one"]
    across: Float[np.ndarray, "R2 R3"]
    rest: Float[np.ndarray, "R3 R3"]


class HostSums:
    """Sums over the rows of a regression (`crossed_normal.row_sums`, `rows_by_group.to_data`),
    ready to be factored.

    Attributes:
      own: Z' W Z of each group of the first factor, (J, d, d).
      across: the same of the first factor and the others, sparse, (J d, R).
      rest: the same of the others, sparse, (R, R).
      of_first: Z' W (X, y) of the first factor, (J, d, p + 1).
      of_rest: the same of the others, (R, p + 1).
      squares: (X, y)' W (X, y).
      count: the sum of the weights.
      places: for each of the R other effects the index of its ratio.
      largest: for each ratio the largest diagonal entry of Z' W Z among its effects.
      groups: for each ratio the number of its effects.
      num_factorisations: calls of `pieces` so far.
    """

    def __init__(self, data: Mapping[str, Any], counts: tuple[int, ...], widths: tuple[int, ...]):
        """From the data of the density, the number of groups of each factor, and the number of
        effects of a group of each factor."""
        arrays = {name: np.asarray(x, np.float64) for name, x in data.items()}
        read = _read_sums if len(counts) > 1 else _read_groups
        self.own, self.across, self.rest, self.of_first, self.of_rest, self.squares, self.count = (
            read(arrays)
        )
        ends = np.cumsum(widths)
        places = [
            np.tile(np.arange(end - d, end), count)
            for end, d, count in zip(ends, widths, counts, strict=True)
        ]
        self.places = np.concatenate([np.zeros(0, int), *places[1:]])
        self.largest = np.zeros(sum(widths))
        self.largest[: widths[0]] = np.diagonal(self.own, axis1=1, axis2=2).max(0)
        np.maximum.at(self.largest, self.places, self.rest.diagonal())
        self.groups = np.repeat(counts, widths)
        self.num_factorisations = 0
        self._size_of_second = counts[1] * widths[1] if len(counts) > 1 else 0
        self._last: tuple[bytes, Elimination] | None = None
        self._last_second: tuple[bytes, _Second] | None = None

    def pieces(self, ratios: Float[np.ndarray, " P"]) -> Pieces:
        """log det H / 2 and M at the ratios of all factors, in the order of the factors."""
        self.num_factorisations += 1
        first = self.eliminate(ratios[: self.own.shape[1]])
        if not len(self.places):
            return Pieces(first.half_log_det, first.squares)
        second = self._second(first, ratios)
        half = first.half_log_det + second.half_log_det
        squares = first.squares - second.explained.T @ second.explained
        if not len(second.rest):
            return Pieces(half, squares)
        scales = ratios[self.places[self._size_of_second :]]
        residual = first.of_rest[self._size_of_second :] - second.across.T @ second.explained
        scaled = scales[:, None] * residual
        factor = self._factor(second.rest, scales)
        explained = linalg.solve_triangular(factor, scaled, lower=True, check_finite=False)
        half += float(np.log(np.diagonal(factor)).sum())
        return Pieces(half, squares - explained.T @ explained)

    def _second(self, first: Elimination, ratios: Float[np.ndarray, " P"]) -> _Second:
        """Elimination of the second factor after the first. The last result is kept, so that other
        ratios of the remaining factors, which have fewer effects, cost little."""
        size = self._size_of_second
        scales = ratios[self.places[:size]]
        name = ratios[: self.own.shape[1]].tobytes() + scales.tobytes()
        if self._last_second is None or self._last_second[0] != name:
            factor = self._factor(first.rest[:size, :size], scales)
            whiten = lambda x: linalg.solve_triangular(
                factor, scales[:, None] * x, lower=True, check_finite=False
            )
            explained = whiten(first.of_rest[:size])
            across = first.rest[:size, size:]
            if across.size:
                across = whiten(across)
            schur = first.rest[size:, size:] - across.T @ across
            half = float(np.log(np.diagonal(factor)).sum())
            self._last_second = name, _Second(half, explained, across, schur)
        return self._last_second[1]

    def forget(self) -> None:
        """Frees what is kept for the next call."""
        self._last = self._last_second = None

    def factorise(self, ratios: Float[np.ndarray, " P"]) -> Float[np.ndarray, "R R"]:
        """The lower triangular factor of K."""
        return self._factor(self.eliminate(ratios[: self.own.shape[1]]).rest, ratios[self.places])

    @staticmethod
    def _factor(
        rest: Float[np.ndarray, "R R"], scales: Float[np.ndarray, " R"]
    ) -> Float[np.ndarray, "R R"]:
        """The lower triangular factor of I + scales rest scales."""
        dense = rest * scales
        dense *= scales[:, None]
        dense[np.diag_indices_from(dense)] += 1.0
        return linalg.cholesky(dense, lower=True, overwrite_a=True, check_finite=False)

    def eliminate(self, ratios: Float[np.ndarray, " d"]) -> Elimination:
        """Elimination of the first factor; the last result is kept."""
        name = np.asarray(ratios).tobytes()
        if self._last is None or self._last[0] != name:
            self._last = None  # freed before the next one is made, to save memory
            self._last = name, self._compute_elimination(np.asarray(ratios))
        return self._last[1]

    def _compute_elimination(self, ratios: Float[np.ndarray, " d"]) -> Elimination:
        blocks = np.eye(len(ratios)) + ratios[:, None] * self.own * ratios
        roots = np.linalg.inv(np.linalg.cholesky(blocks)) * ratios  # V = roots' roots
        half = -float(np.log(np.diagonal(roots, axis1=1, axis2=2) / ratios).sum())
        spread = np.swapaxes(roots, 1, 2) @ roots
        explained = spread @ self.of_first
        squares = self.squares - np.einsum("jdp,jdq->pq", self.of_first, explained)
        if not len(self.places):
            return Elimination(half, spread, np.zeros((0, 0)), self.of_rest, squares)
        scaled = block_diagonal(roots) @ self.across
        schur = -(scaled.T.tocsr() @ scaled).toarray()
        schur[self.rest.row, self.rest.col] += self.rest.data
        of_rest = self.of_rest - self.across.T @ explained.reshape(-1, explained.shape[2])
        return Elimination(half, spread, schur, of_rest, squares)


def block_diagonal(blocks: Float[np.ndarray, "J d d"]) -> Any:
    """The block diagonal matrix of these blocks, sparse."""
    count, d, _ = blocks.shape
    if d == 1:
        return sp.dia_array((blocks[None, :, 0, 0], 0), shape=(count, count)).tocsr()
    return sp.bsr_array(
        (blocks, np.arange(count), np.arange(count + 1)), shape=(count * d, count * d)
    ).tocsr()


def _read_sums(data: Mapping[str, np.ndarray]) -> tuple[Any, ...]:
    """The sums over rows for several factors, from `crossed_normal.row_sums`."""
    data = {name: x[0] for name, x in data.items()}
    blocks, d = data["own"], data["own"].shape[1]
    size = len(data["of_rest"])
    rows = (data["pair_first"].astype(int)[:, None] * d + np.arange(d)).ravel()
    columns = np.repeat(data["pair_rest"].astype(int), d)
    across = sp.csr_array((data["across"].ravel(), (rows, columns)), shape=(len(blocks) * d, size))
    places = data["rest_row"].astype(int), data["rest_column"].astype(int)
    squares_of_others = sp.coo_array((data["rest"], places), shape=(size, size))
    squares = data["table"].T @ data["table"]
    return (
        blocks,
        across,
        squares_of_others,
        data["of_first"],
        data["of_rest"],
        squares,
        float(data["count"]),
    )


def _read_groups(data: Mapping[str, np.ndarray]) -> tuple[Any, ...]:
    """The sums over rows for one factor, from the triangular factors of its groups' rows."""
    z, table = data["z0"], np.concatenate([data["x"], data["y"][..., None]], 2)
    z_transposed = np.swapaxes(z, 1, 2)
    squares = np.einsum("jnp,jnq->pq", table, table)
    empty = sp.coo_array((0, 0))
    of_rest = np.zeros((0, table.shape[2]))
    count = float(data["count"].sum())
    return z_transposed @ z, empty, empty, z_transposed @ table, of_rest, squares, count

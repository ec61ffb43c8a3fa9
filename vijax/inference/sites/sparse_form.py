"""Feature space with sparse rows: `FeatureForm` in O(nnz per row squared) a site, X never made dense."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Bool, Float, Int

from vijax.inference.sites.base import Factor, Sites
from vijax.inference.sites.feature_form import factorised, positive_definite
from vijax.tree import register


@register
@dataclasses.dataclass(frozen=True)
class SparseFeatureForm:
    """z = X w, w ~ N(0, I), each row of X as its nonzero columns, padded with zeros.

    Attributes:
      columns: columns of the entries; 0 in padding.
      values: values of the entries; 0 in padding.
      unit: a one for each column; only its length D matters.
    """

    columns: Int[Array, "sites nnz"]
    values: Float[Array, "sites nnz"]
    unit: Float[Array, " dim"]

    @classmethod
    def from_scipy(cls, matrix: Any, dtype: Any = None) -> SparseFeatureForm:
        """Features from any SciPy sparse matrix, rows padded to the longest."""
        columns, values = padded_rows(matrix)
        dtype = jnp.result_type(float) if dtype is None else dtype
        return cls(jnp.asarray(columns), jnp.asarray(values, dtype), jnp.ones(matrix.shape[1], dtype))

    @property
    def num_sites(self) -> int:
        """N."""
        return self.columns.shape[0]

    def condition(self, sites: Sites) -> Factor:
        """One Cholesky factorisation of P."""
        linear = jnp.zeros_like(self.unit).at[self.columns].add(self.values * sites.linear[:, None])
        return factorised(self._precision(sites.precision), linear)

    def marginals(self, factor: Factor, rows: Int[Array, " rows"] | None = None) -> tuple[Array, Array]:
        """See `Prior`."""
        new = (self.columns, self.values)
        return self.predict(factor, new if rows is None else (self.columns[rows], self.values[rows]))

    def predict(self, factor: Factor, new: Any) -> tuple[Array, Array]:
        """Mean and variance of predictors with features `new = (columns, values)`, padded rows."""
        columns, values = new
        inverse = cho_solve((factor.cholesky, True), jnp.diag(self.unit))
        block = inverse[columns[:, :, None], columns[:, None, :]]
        return jnp.sum(values * factor.weights[columns], 1), jnp.einsum("ni,nij,nj->n", values, block, values)

    def predict_jointly(self, factor: Factor, new: Any, own: Array | None) -> tuple[Array, Float[Array, "T dim"]]:
        """See `Prior`; there is no prior covariance that features do not explain."""
        dense = self._dense(*new)
        return dense @ factor.weights, solve_triangular(factor.cholesky, dense.T, lower=True).T

    def joint(self, factor: Factor, rows: Int[Array, " rows"]) -> tuple[Array, Float[Array, "rows dim"]]:
        """See `Prior`."""
        return self.predict_jointly(factor, (self.columns[rows], self.values[rows]), None)

    def covariance(self, factor: Factor, rows: Int[Array, " rows"]) -> Float[Array, "rows rows"]:
        """X P^-1 X', of these rows."""
        dense = self._dense(self.columns[rows], self.values[rows])
        return dense @ cho_solve((factor.cholesky, True), dense.T)

    def in_domain(self, sites: Sites) -> Bool[Array, ""]:
        """P has a Cholesky factor."""
        return positive_definite(sites, lambda: self._precision(sites.precision))

    def _dense(self, columns: Array, values: Array) -> Float[Array, "T dim"]:
        zeros = jnp.zeros((len(columns), len(self.unit)), self.values.dtype)
        return zeros.at[jnp.arange(len(columns))[:, None], columns].add(values)

    def _precision(self, g: Array) -> Float[Array, "dim dim"]:
        outer = g[:, None, None] * self.values[:, :, None] * self.values[:, None, :]
        return jnp.diag(self.unit).at[self.columns[:, :, None], self.columns[:, None, :]].add(outer)


def padded_rows(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    """Columns and values of each row of a SciPy sparse matrix, padded with (0, 0) to the longest row.

    >>> import scipy.sparse
    >>> padded_rows(scipy.sparse.csr_array(np.array([[0.0, 2.0], [0.0, 0.0]])))[0].tolist()
    [[1], [0]]
    """
    csr = matrix.tocsr()
    csr.sum_duplicates()
    lengths = np.diff(csr.indptr)
    slots = np.arange(max(1, int(lengths.max(initial=0)))) < lengths[:, None]
    columns, values = np.zeros(slots.shape, np.int32), np.zeros(slots.shape, float)
    columns[slots], values[slots] = csr.indices, csr.data
    return columns, values

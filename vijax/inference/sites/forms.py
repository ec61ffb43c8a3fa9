"""Sites, and priors z ~ N(0, K) of Gaussian predictors in three forms (Khan et al. 2016, appendices
D and E).

    q(z) ∝ p(z) prod_n exp(a_n z_n - g_n z_n^2 / 2):    V^-1 = K^-1 + diag(g),   m = V a

(a, g) are natural parameters of q relative to the prior, whose own are zero; g is the paper's gamma
tilde."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Bool, Float, Int

from vijax.tree import register

TALL = 4
"""Rows for each feature from which the inverse of a factor of the features pays."""


class Sites(NamedTuple):
    """One Gaussian factor per predictor, exp(linear z - precision z^2 / 2)."""

    linear: Float[Array, " sites"]
    precision: Float[Array, " sites"]

    @classmethod
    def zeros(cls, num_sites: int, dtype: Any = None) -> Sites:
        """Sites without any observation: q is the prior."""
        return cls(jnp.zeros(num_sites, dtype), jnp.zeros(num_sites, dtype))

    def at_add(self, rows: Int[Array, " rows"], values: Sites) -> Sites:
        """All sites, with values added to these."""
        return Sites(
            self.linear.at[rows].add(values.linear), self.precision.at[rows].add(values.precision)
        )

    def at(self, rows: Int[Array, " rows"]) -> Sites:
        """These sites alone."""
        return Sites(self.linear[rows], self.precision[rows])

    def finite(self) -> Bool[Array, ""]:
        """True where every number of every site is finite."""
        return jnp.all(jnp.isfinite(self.linear) & jnp.isfinite(self.precision))


class Factor(NamedTuple):
    """A prior conditioned on sites, factorised once for every question about it."""

    cholesky: Float[
        Array, "dim dim"
    ]  # lower factor of a matrix with the determinant of I + K diag(g)
    weights: Float[Array, " dim"]  # a vector in which the mean is linear
    log_det: Float[Array, ""]  # log |I + K diag(g)|
    quadratic: Float[Array, ""]  # m' K^-1 m


class Prior(abc.ABC):
    """z ~ N(0, K), in one of several forms: a pytree of arrays."""

    @property
    @abc.abstractmethod
    def num_sites(self) -> int:
        """N."""

    @abc.abstractmethod
    def rows(self, rows: Int[Array, " rows"] | None) -> Any:
        """The predictors of these sites, in the prior's own terms; of all, without a copy, if
        None."""

    @abc.abstractmethod
    def condition(self, sites: Sites) -> Factor:
        """Factorises the posterior; its arrays are NaN outside the domain."""

    @abc.abstractmethod
    def predict(self, factor: Factor, new: Any) -> tuple[Array, Array]:
        """Mean and variance of new predictors, in the prior's own terms."""

    @abc.abstractmethod
    def predict_jointly(
        self, factor: Factor, new: Any, own: Array | None
    ) -> tuple[Array, Float[Array, "T dim"]]:
        """Mean of new predictors, and a root R of their covariance R R'; `own` is their prior
        covariance, None where features explain all of it."""

    @abc.abstractmethod
    def covariance(self, factor: Factor, rows: Int[Array, " rows"]) -> Float[Array, "rows rows"]:
        """The block of V that belongs to these sites."""

    @abc.abstractmethod
    def in_domain(self, sites: Sites) -> Bool[Array, ""]:
        """True where every site is finite and K^-1 + diag(g) is positive definite (or, stricter, g
        >= 0)."""

    def marginals(
        self, factor: Factor, rows: Int[Array, " rows"] | None = None
    ) -> tuple[Array, Array]:
        """Mean and variance of the predictors of these sites; of all, without a copy of the
        features, if None."""
        return self.predict(factor, self.rows(rows))

    def joint(
        self, factor: Factor, rows: Int[Array, " rows"]
    ) -> tuple[Array, Float[Array, "rows dim"]]:
        """Mean, and a root of the covariance, of the predictors of these sites."""
        return self.predict_jointly(factor, self.rows(rows), None)


@register
@dataclasses.dataclass(frozen=True)
class KernelForm(Prior):
    """z ~ N(0, kernel): kernel space, for sites of nonnegative precision (Khan et al. 2016, eq. 19
    and appendix E).

        B = I + S K S,  S = diag(g)^(1/2);   alpha = a - S B^-1 S K a,   m = K alpha,   V = K - K S B^-1 S K

    which is the paper's A = K + diag(g)^-1 without the division by g. K itself is never factorised
    or inverted, so it may be singular. Where a site outweighs the prior, alpha is a small
    difference of large numbers: there it is S B^-1 S^-1 a.

    Its variances are differences, K_nn - ..., which float32 cannot resolve where data leave little
    of the prior variance: see `FeatureForm`."""

    kernel: Float[Array, "sites sites"]

    @property
    def num_sites(self) -> int:
        return self.kernel.shape[0]

    def rows(self, rows: Int[Array, " rows"] | None) -> Any:
        """Covariances with all sites, and variances."""
        variance = jnp.diagonal(self.kernel)
        return (self.kernel, variance) if rows is None else (self.kernel[:, rows], variance[rows])

    def condition(self, sites: Sites) -> Factor:
        """One Cholesky factorisation of B."""
        root = jnp.sqrt(sites.precision)
        b = (
            jnp.eye(self.num_sites, dtype=self.kernel.dtype)
            + root[:, None] * self.kernel * root[None]
        )
        cholesky = jnp.linalg.cholesky(b)
        strong = sites.precision * jnp.diagonal(self.kernel) > 1.0
        weak = jnp.where(strong, 0.0, sites.linear)
        divided = jnp.where(strong, sites.linear / jnp.where(strong, root, 1.0), 0.0)
        alpha = weak + root * cho_solve((cholesky, True), divided - root * (self.kernel @ weak))
        quadratic = alpha @ (self.kernel @ alpha)
        # The root is kept too: every variance needs rows of C^-1 S.
        return Factor(cholesky, jnp.stack([alpha, root]), _log_det(cholesky), quadratic)

    def predict(self, factor: Factor, new: Any) -> tuple[Array, Array]:
        """Mean and variance of predictors with covariances `new = (K(X, X*), diag K(X*, X*))`."""
        cross, variance = new
        return cross.T @ factor.weights[0], variance - jnp.sum(
            self._whitened(factor, cross) ** 2, 0
        )

    def predict_jointly(
        self, factor: Factor, new: Any, own: Array | None
    ) -> tuple[Array, Float[Array, "T dim"]]:
        cross, _ = new
        whitened = self._whitened(factor, cross)
        assert own is not None  # a kernel has no features
        return cross.T @ factor.weights[0], covariance_root(own - whitened.T @ whitened)

    def joint(
        self, factor: Factor, rows: Int[Array, " rows"]
    ) -> tuple[Array, Float[Array, "rows dim"]]:
        new = self.rows(rows)
        return self.predict_jointly(factor, new, new[0][rows])

    def covariance(self, factor: Factor, rows: Int[Array, " rows"]) -> Float[Array, "rows rows"]:
        cross = self.kernel[:, rows]
        whitened = self._whitened(factor, cross)
        return cross[rows] - whitened.T @ whitened

    def in_domain(self, sites: Sites) -> Bool[Array, ""]:
        return sites.finite() & jnp.all(sites.precision >= 0)

    def _whitened(self, factor: Factor, cross: Array) -> Float[Array, "sites T"]:
        return solve_triangular(factor.cholesky, factor.weights[1][:, None] * cross, lower=True)


class _OfWeights(Prior):
    """z = X w, w ~ N(0, I), with P = I + X' diag(g) X."""

    @abc.abstractmethod
    def _precision(self, g: Array) -> Float[Array, "dim dim"]:
        """P, or its lower triangle alone."""

    @abc.abstractmethod
    def _linear(self, a: Array) -> Float[Array, " dim"]:
        """X' a."""

    def condition(self, sites: Sites) -> Factor:
        """One Cholesky factorisation of P: the posterior of w is N(P^-1 X' a, P^-1)."""
        linear = self._linear(sites.linear)
        cholesky = jnp.linalg.cholesky(self._precision(sites.precision), symmetrize_input=False)
        w = cho_solve((cholesky, True), linear)
        return Factor(cholesky, w, _log_det(cholesky), w @ w)

    def in_domain(self, sites: Sites) -> Bool[Array, ""]:
        """True where P has a Cholesky factor, which need not be tried while g >= 0."""
        tried = jax.lax.cond(
            jnp.all(sites.precision >= 0),
            lambda: jnp.array(True),
            lambda: jnp.all(jnp.isfinite(self.condition(sites).cholesky)),
        )
        return sites.finite() & tried


@register
@dataclasses.dataclass(frozen=True)
class FeatureForm(_OfWeights):
    """z = features @ w, w ~ N(0, I): feature space (Khan et al. 2016, appendix E). A GP whitened by
    K = L L' is the case X = L.

        P = I + X' diag(g) X,   w = P^-1 X' a,   m = X w,   v_n = |C^-1 x_n|^2   with P = C C'

    Every variance is a sum of squares, and sites may have negative precision as long as P is
    positive definite."""

    features: Float[Array, "sites dim"]
    is_root: bool = dataclasses.field(default=False, metadata={"static": True})
    """True where row n of the features is zero but for its last n + 1 columns, as `from_kernel` makes
    them."""

    @classmethod
    def from_kernel(cls, kernel: Float[Array, "sites sites"]) -> FeatureForm:
        """X X' = K, the columns of the Cholesky factor from the last to the first: then C^-1 x_n
        begins with the zeros of x_n, and a third of the work on P and on all variances is left."""
        return cls(jnp.linalg.cholesky(kernel)[:, ::-1], True)

    @property
    def num_sites(self) -> int:
        return self.features.shape[0]

    def rows(self, rows: Int[Array, " rows"] | None) -> Any:
        """Features of these sites."""
        return self.features if rows is None else self.features[rows]

    def marginals(
        self, factor: Factor, rows: Int[Array, " rows"] | None = None
    ) -> tuple[Array, Array]:
        if rows is not None or not self.is_root:
            return self.predict(factor, self.rows(rows))
        part = lambda i, j: (
            factor.cholesky[-j:, -j:],
            self.features[i:j, -j:],
        )  # sites i to j, without their zeros
        variances = [
            jnp.sum(_whitened_rows(*part(i, j)) ** 2, 1) for i, j in _blocks(self.num_sites)
        ]
        return self.features @ factor.weights, jnp.concatenate(variances)

    def predict(self, factor: Factor, new: Any) -> tuple[Array, Array]:
        """Mean and variance of predictors with features `new`, (T, D)."""
        return new @ factor.weights, jnp.sum(_whitened_rows(factor.cholesky, new) ** 2, 1)

    def predict_jointly(
        self, factor: Factor, new: Any, own: Array | None
    ) -> tuple[Array, Float[Array, "T dim"]]:
        whitened = solve_triangular(factor.cholesky, new.T, lower=True)
        mean = new @ factor.weights
        return mean, whitened.T if own is None else covariance_root(
            whitened.T @ whitened + own - new @ new.T
        )

    def covariance(self, factor: Factor, rows: Int[Array, " rows"]) -> Float[Array, "rows rows"]:
        whitened = solve_triangular(factor.cholesky, self.features[rows].T, lower=True)
        return whitened.T @ whitened

    def _linear(self, a: Array) -> Float[Array, " dim"]:
        return self.features.T @ a

    def _precision(self, g: Array) -> Float[Array, "dim dim"]:
        size = self.features.shape[1]
        lower = jnp.eye(size, dtype=self.features.dtype)
        for i, j in _blocks(size):
            x = self.features[
                size - j if self.is_root else 0 :
            ]  # rows before are zero in the columns i to j
            lower = lower.at[i:, i:j].add(x[:, i:].T @ (g[-len(x) :, None] * x[:, i:j]))
        return lower


def _blocks(size: int) -> list[tuple[int, int]]:
    """The begin and end of blocks of a triangle, in four for large ones: more gain little."""
    ends = [size * i // 4 for i in range(1, 5)] if size >= 256 else [size]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def _whitened_rows(
    cholesky: Float[Array, "dim dim"], new: Float[Array, "T dim"]
) -> Float[Array, "T dim"]:
    """Vectors C^-1 x, one a row. For many rows C^-1 is worked out first: a product takes a third of
    a solve's time."""
    if len(new) < TALL * len(cholesky):
        return solve_triangular(cholesky, new.T, lower=True).T
    inverse = solve_triangular(cholesky, jnp.eye(len(cholesky), dtype=cholesky.dtype), lower=True)
    return jnp.matmul(new, inverse.T, precision="highest")


@register
@dataclasses.dataclass(frozen=True)
class SparseFeatureForm(_OfWeights):
    """`FeatureForm` in O(nnz per row squared) a site, X never made dense: each row of X is its
    nonzero columns, padded with zeros."""

    columns: Int[Array, "sites nnz"]  # columns of the entries; 0 in padding
    values: Float[Array, "sites nnz"]  # values of the entries; 0 in padding
    unit: Float[Array, " dim"]  # a one for each column; only its length D matters

    @classmethod
    def from_scipy(cls, matrix: Any, dtype: Any = None) -> SparseFeatureForm:
        """Features from any SciPy sparse matrix, rows padded to the longest."""
        columns, values = padded_rows(matrix)
        dtype = jnp.result_type(float) if dtype is None else dtype
        return cls(
            jnp.asarray(columns), jnp.asarray(values, dtype), jnp.ones(matrix.shape[1], dtype)
        )

    @property
    def num_sites(self) -> int:
        return self.columns.shape[0]

    def rows(self, rows: Int[Array, " rows"] | None) -> Any:
        """Columns and values of these sites."""
        return (
            (self.columns, self.values) if rows is None else (self.columns[rows], self.values[rows])
        )

    def predict(self, factor: Factor, new: Any) -> tuple[Array, Array]:
        """Mean and variance of predictors with features `new = (columns, values)`, padded rows."""
        columns, values = new
        inverse = cho_solve((factor.cholesky, True), jnp.diag(self.unit))
        block = inverse[columns[:, :, None], columns[:, None, :]]
        return jnp.sum(values * factor.weights[columns], 1), jnp.einsum(
            "ni,nij,nj->n", values, block, values
        )

    def predict_jointly(
        self, factor: Factor, new: Any, own: Array | None
    ) -> tuple[Array, Float[Array, "T dim"]]:
        """See `Prior`; there is no prior covariance that features do not explain."""
        dense = self._dense(*new)
        return dense @ factor.weights, solve_triangular(factor.cholesky, dense.T, lower=True).T

    def covariance(self, factor: Factor, rows: Int[Array, " rows"]) -> Float[Array, "rows rows"]:
        dense = self._dense(*self.rows(rows))
        return dense @ cho_solve((factor.cholesky, True), dense.T)

    def _linear(self, a: Array) -> Float[Array, " dim"]:
        return jnp.zeros_like(self.unit).at[self.columns].add(self.values * a[:, None])

    def _dense(self, columns: Array, values: Array) -> Float[Array, "T dim"]:
        zeros = jnp.zeros((len(columns), len(self.unit)), self.values.dtype)
        return zeros.at[jnp.arange(len(columns))[:, None], columns].add(values)

    def _precision(self, g: Array) -> Float[Array, "dim dim"]:
        outer = g[:, None, None] * self.values[:, :, None] * self.values[:, None, :]
        return jnp.diag(self.unit).at[self.columns[:, :, None], self.columns[:, None, :]].add(outer)


def padded_rows(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    """Columns and values of each row of a SciPy sparse matrix, padded with (0, 0) to the longest
    row.

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


def _log_det(cholesky: Float[Array, "dim dim"]) -> Float[Array, ""]:
    return 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))


def covariance_root(cov: Float[Array, "T T"]) -> Float[Array, "T T"]:
    """A root of a covariance that may be singular."""
    values, vectors = jnp.linalg.eigh(0.5 * (cov + cov.T))
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))

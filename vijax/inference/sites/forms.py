"""Sites; and priors z ~ N(0, K) of Gaussian predictors, in three forms (Khan et al. 2016,
appendices D and E).

    q(z) ∝ p(z) prod_n exp(a_n z_n - g_n z_n^2 / 2):    V^-1 = K^-1 + diag(g),   m = V a

(a, g) are natural parameters of q relative to the prior, for which they are zero; g is the paper's
gamma tilde."""

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
"""Rows per feature above which it pays to invert a factor of the features."""


class Sites(NamedTuple):
    """One Gaussian factor exp(linear z - precision z^2 / 2) per predictor."""

    linear: Float[Array, " sites"]
    precision: Float[Array, " sites"]

    @classmethod
    def zeros(cls, num_sites: int, dtype: Any = None) -> Sites:
        """Zero sites: q is the prior."""
        return cls(jnp.zeros(num_sites, dtype), jnp.zeros(num_sites, dtype))

    def add(self, rows: Int[Array, " rows"], values: Sites) -> Sites:
        """All sites, with values added to the sites of these rows."""
        linear = self.linear.at[rows].add(values.linear)
        return Sites(linear, self.precision.at[rows].add(values.precision))

    def take(self, rows: Int[Array, " rows"]) -> Sites:
        """The sites of these rows."""
        return Sites(self.linear[rows], self.precision[rows])

    def finite(self) -> Bool[Array, ""]:
        """True if all numbers are finite."""
        return jnp.all(jnp.isfinite(self.linear) & jnp.isfinite(self.precision))


class Factor(NamedTuple):
    """The factorised posterior of a prior and sites."""

    # Lower factor of a matrix with the determinant of I + K diag(g)
    cholesky: Float[Array, "dim dim"]
    weights: Float[Array, " dim"]  # a vector in which the mean is linear
    log_det: Float[Array, ""]  # log |I + K diag(g)|
    quadratic: Float[Array, ""]  # m' K^-1 m


class Prior(abc.ABC):
    """A prior z ~ N(0, K) in one of several forms; a pytree of arrays."""

    @property
    @abc.abstractmethod
    def num_sites(self) -> int:
        """N."""

    @abc.abstractmethod
    def rows(self, rows: Int[Array, " rows"] | None) -> Any:
        """The predictors of these sites, in the terms of the form. None is all, without a copy."""

    @abc.abstractmethod
    def condition(self, sites: Sites) -> Factor:
        """Factorises the posterior; its arrays are NaN outside the domain."""

    @abc.abstractmethod
    def predict(self, factor: Factor, new: Any) -> tuple[Array, Array]:
        """Mean and variance of new predictors, given in the terms of the form."""

    @abc.abstractmethod
    def predict_jointly(
        self, factor: Factor, new: Any, prior_cov: Array | None
    ) -> tuple[Array, Float[Array, "T dim"]]:
        """Mean of new predictors, and a root R of their covariance R R'. `prior_cov` is their prior
        covariance, None if features explain all of it."""

    @abc.abstractmethod
    def covariance(self, factor: Factor, rows: Int[Array, " rows"]) -> Float[Array, "rows rows"]:
        """The block of V for these sites."""

    @abc.abstractmethod
    def in_domain(self, sites: Sites) -> Bool[Array, ""]:
        """True if every site is finite and K^-1 + diag(g) is positive definite (or, stricter, g >=
        0)."""

    def marginals(
        self, factor: Factor, rows: Int[Array, " rows"] | None = None
    ) -> tuple[Array, Array]:
        """Mean and variance of the predictors of these sites. None is all, without a copy of the
        features."""
        return self.predict(factor, self.rows(rows))

    def joint(
        self, factor: Factor, rows: Int[Array, " rows"]
    ) -> tuple[Array, Float[Array, "rows dim"]]:
        """Mean of the predictors of these sites, and a root of their covariance."""
        return self.predict_jointly(factor, self.rows(rows), None)


@register
@dataclasses.dataclass(frozen=True)
class KernelForm(Prior):
    """z ~ N(0, kernel): kernel space, for sites of nonnegative precision (Khan et al. 2016, eq. 19
    and appendix E).

        B = I + S K S,  S = diag(g)^(1/2);   alpha = a - S B^-1 S K a,   m = K alpha,   V = K - K S B^-1 S K

    B is the paper's A = K + diag(g)^-1 without the division by g. K itself is never factorised or
    inverted, so it may be singular. If a site outweighs the prior, alpha would be a small
    difference of large numbers, and is computed as S B^-1 S^-1 a.

    Variances are differences K_nn - ..., which float32 cannot resolve if the data leave little of
    the prior variance: see `FeatureForm`."""

    kernel: Float[Array, "sites sites"]

    @property
    def num_sites(self) -> int:
        return self.kernel.shape[0]

    def rows(self, rows: Int[Array, " rows"] | None) -> Any:
        """Covariances with all sites, and variances."""
        variance = jnp.diagonal(self.kernel)
        if rows is None:
            return self.kernel, variance
        return self.kernel[:, rows], variance[rows]

    def condition(self, sites: Sites) -> Factor:
        """One Cholesky factorisation of B."""
        root = jnp.sqrt(sites.precision)
        eye = jnp.eye(self.num_sites, dtype=self.kernel.dtype)
        b = eye + root[:, None] * self.kernel * root[None]
        cholesky = jnp.linalg.cholesky(b)
        strong = sites.precision * jnp.diagonal(self.kernel) > 1.0
        weak = jnp.where(strong, 0.0, sites.linear)
        divided = jnp.where(strong, sites.linear / jnp.where(strong, root, 1.0), 0.0)
        alpha = weak + root * cho_solve((cholesky, True), divided - root * (self.kernel @ weak))
        quadratic = alpha @ (self.kernel @ alpha)
        # Every variance needs rows of C^-1 S, and so the root.
        return Factor(cholesky, jnp.stack([alpha, root]), _log_det(cholesky), quadratic)

    def predict(self, factor: Factor, new: Any) -> tuple[Array, Array]:
        """Mean and variance of predictors with covariances `new = (K(X, X*), diag K(X*, X*))`."""
        cross, variance = new
        mean = cross.T @ factor.weights[0]
        return mean, variance - jnp.sum(self._whiten(factor, cross) ** 2, 0)

    def predict_jointly(
        self, factor: Factor, new: Any, prior_cov: Array | None
    ) -> tuple[Array, Float[Array, "T dim"]]:
        cross, _ = new
        white = self._whiten(factor, cross)
        assert prior_cov is not None  # a kernel has no features
        return cross.T @ factor.weights[0], covariance_root(prior_cov - white.T @ white)

    def joint(
        self, factor: Factor, rows: Int[Array, " rows"]
    ) -> tuple[Array, Float[Array, "rows dim"]]:
        new = self.rows(rows)
        return self.predict_jointly(factor, new, new[0][rows])

    def covariance(self, factor: Factor, rows: Int[Array, " rows"]) -> Float[Array, "rows rows"]:
        cross = self.kernel[:, rows]
        white = self._whiten(factor, cross)
        return cross[rows] - white.T @ white

    def in_domain(self, sites: Sites) -> Bool[Array, ""]:
        return sites.finite() & jnp.all(sites.precision >= 0)

    def _whiten(self, factor: Factor, cross: Array) -> Float[Array, "sites T"]:
        return solve_triangular(factor.cholesky, factor.weights[1][:, None] * cross, lower=True)


class _WeightForm(Prior):
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
        """True if P has a Cholesky factor. It always has one if g >= 0."""
        has_factor = jax.lax.cond(
            jnp.all(sites.precision >= 0),
            lambda: jnp.array(True),
            lambda: jnp.all(jnp.isfinite(self.condition(sites).cholesky)),
        )
        return sites.finite() & has_factor


@register
@dataclasses.dataclass(frozen=True)
class FeatureForm(_WeightForm):
    """z = features @ w, w ~ N(0, I): feature space (Khan et al. 2016, appendix E). A GP whitened by
    K = L L' is the case X = L.

        P = I + X' diag(g) X,   w = P^-1 X' a,   m = X w,   v_n = |C^-1 x_n|^2   with P = C C'

    Every variance is a sum of squares, and sites may have negative precision as long as P is
    positive definite."""

    features: Float[Array, "sites dim"]
    is_root: bool = dataclasses.field(default=False, metadata={"static": True})
    """True if row n of the features is zero but for its last n + 1 columns, as in
    `from_kernel`."""

    @classmethod
    def from_kernel(cls, kernel: Float[Array, "sites sites"]) -> FeatureForm:
        """Features with X X' = K: the columns of the Cholesky factor in reverse order. Then C^-1
        x_n begins with the zeros of x_n, and P and all variances take a third of the work."""
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
        variances = []
        for i, j in _blocks(self.num_sites):  # sites i to j, without their zeros
            white = _whiten_rows(factor.cholesky[-j:, -j:], self.features[i:j, -j:])
            variances.append(jnp.sum(white**2, 1))
        return self.features @ factor.weights, jnp.concatenate(variances)

    def predict(self, factor: Factor, new: Any) -> tuple[Array, Array]:
        """Mean and variance of predictors with features `new`, (T, D)."""
        return new @ factor.weights, jnp.sum(_whiten_rows(factor.cholesky, new) ** 2, 1)

    def predict_jointly(
        self, factor: Factor, new: Any, prior_cov: Array | None
    ) -> tuple[Array, Float[Array, "T dim"]]:
        white = solve_triangular(factor.cholesky, new.T, lower=True)
        mean = new @ factor.weights
        if prior_cov is None:
            return mean, white.T
        return mean, covariance_root(white.T @ white + prior_cov - new @ new.T)

    def covariance(self, factor: Factor, rows: Int[Array, " rows"]) -> Float[Array, "rows rows"]:
        white = solve_triangular(factor.cholesky, self.features[rows].T, lower=True)
        return white.T @ white

    def _linear(self, a: Array) -> Float[Array, " dim"]:
        return self.features.T @ a

    def _precision(self, g: Array) -> Float[Array, "dim dim"]:
        size = self.features.shape[1]
        lower = jnp.eye(size, dtype=self.features.dtype)
        for i, j in _blocks(size):
            x = self.features
            if self.is_root:  # earlier rows are zero in the columns i to j
                x = x[size - j :]
            block = x[:, i:].T @ (g[-len(x) :, None] * x[:, i:j])
            if j - i == size:  # no index: see `vijax.inference.learning.ascend`
                return lower + block
            lower = lower.at[i:, i:j].add(block)
        return lower


def _blocks(size: int) -> list[tuple[int, int]]:
    """First and last index of the blocks of a triangle: four in a large one, more gain little."""
    ends = [size * i // 4 for i in range(1, 5)] if size >= 256 else [size]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def _whiten_rows(
    cholesky: Float[Array, "dim dim"], new: Float[Array, "T dim"]
) -> Float[Array, "T dim"]:
    """Vectors C^-1 x, one a row. For many rows C^-1 is computed first: a product takes a third of
    the time of a solve."""
    if len(new) < TALL * len(cholesky):
        return solve_triangular(cholesky, new.T, lower=True).T
    inverse = solve_triangular(cholesky, jnp.eye(len(cholesky), dtype=cholesky.dtype), lower=True)
    return jnp.matmul(new, inverse.T, precision="highest")


@register
@dataclasses.dataclass(frozen=True)
class SparseFeatureForm(_WeightForm):
    """`FeatureForm` for sparse X, in O(nnz per row squared) a site. Each row of X is stored as its
    nonzero columns, padded with zeros; X is never dense."""

    columns: Int[Array, "sites nnz"]  # columns of the entries; 0 in padding
    values: Float[Array, "sites nnz"]  # values of the entries; 0 in padding
    unit: Float[Array, " dim"]  # a one for each column; only its length D matters

    @classmethod
    def from_scipy(cls, matrix: Any, dtype: Any = None) -> SparseFeatureForm:
        """Features from any SciPy sparse matrix, with rows padded to the longest."""
        columns, values = padded_rows(matrix)
        dtype = jnp.result_type(float) if dtype is None else dtype
        unit = jnp.ones(matrix.shape[1], dtype)
        return cls(jnp.asarray(columns), jnp.asarray(values, dtype), unit)

    @property
    def num_sites(self) -> int:
        return self.columns.shape[0]

    def rows(self, rows: Int[Array, " rows"] | None) -> Any:
        """Columns and values of these sites."""
        if rows is None:
            return self.columns, self.values
        return self.columns[rows], self.values[rows]

    def predict(self, factor: Factor, new: Any) -> tuple[Array, Array]:
        """Mean and variance of predictors with features `new = (columns, values)`, padded rows."""
        columns, values = new
        inverse = cho_solve((factor.cholesky, True), jnp.diag(self.unit))
        block = inverse[columns[:, :, None], columns[:, None, :]]
        mean = jnp.sum(values * factor.weights[columns], 1)
        return mean, jnp.einsum("ni,nij,nj->n", values, block, values)

    def predict_jointly(
        self, factor: Factor, new: Any, prior_cov: Array | None
    ) -> tuple[Array, Float[Array, "T dim"]]:
        """See `Prior`; the features explain all of the prior covariance."""
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
    """Columns and values of the rows of a SciPy sparse matrix, padded with (0, 0) to the longest.

    >>> import scipy.sparse
    >>> padded_rows(scipy.sparse.csr_array(np.array([[0.0, 2.0], [0.0, 0.0]])))[0].tolist()
    [[1], [0]]
    """
    csr = matrix.tocsr()
    csr.sum_duplicates()
    lengths = np.diff(csr.indptr)
    slots = np.arange(max(1, int(lengths.max(initial=0)))) < lengths[:, None]
    columns = np.zeros(slots.shape, np.int32)
    values = np.zeros(slots.shape, float)
    columns[slots] = csr.indices
    values[slots] = csr.data
    return columns, values


def _log_det(cholesky: Float[Array, "dim dim"]) -> Float[Array, ""]:
    return 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))


def covariance_root(cov: Float[Array, "T T"]) -> Float[Array, "T T"]:
    """A root of a covariance that may be singular."""
    values, vectors = jnp.linalg.eigh(0.5 * (cov + cov.T))
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))

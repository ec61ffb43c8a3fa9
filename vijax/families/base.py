"""Exponential families as pytrees of natural parameters.

    q(x; lambda) = h(x) exp{<lambda, t(x)> - A(lambda)}
    mu = E_q[t(x)] = grad A(lambda),   F(lambda) = grad^2 A(lambda)

A family is a frozen dataclass whose fields are the natural parameters, batch axes leading. Its
sufficient statistics are a NamedTuple with one field per natural parameter, in the same order and
of the same shape. The two types differ, so that adding one to the other fails loudly, and the
gradient of any function of the statistics *is* a natural parameter (`with_naturals`). Blei,
Kucukelbir and McAuliffe 2017, section 4.1."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.checks import require_numbers
from vijax.families.laws import Interval, map_laws, tail_probabilities
from vijax.tree import register

F = TypeVar("F", bound="Family")
Statistics = Any
"""Statistics of a family: its NamedTuple `Stats`, or for a `Product` a dictionary of these."""

VALUE_METHODS = {
    "dot",
    "log_prob",
    "log_prob_of_stats",
    "log_base_measure",
    "energy_term",
    "sample",
    "sample_stats",
}
"""Methods of a family whose values may have axes before those of the natural parameters."""


def allow_broadcasting(method: Callable) -> Callable:
    """The method under NumPy's broadcasting rules, even if the program sets
    jax_numpy_rank_promotion to forbid them."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        with jax.numpy_rank_promotion("allow"):
            return method(*args, **kwargs)

    return call


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def family(cls: type[F]) -> type[F]:
    """Class decorator: a frozen dataclass and pytree whose leaves are the natural parameters."""
    for name in VALUE_METHODS & set(vars(cls)):
        setattr(cls, name, allow_broadcasting(vars(cls)[name]))
    return register(dataclasses.dataclass(frozen=True)(cls))


def static_field() -> Any:
    """A hashable field that is not a natural parameter, such as a multinomial's total. A family
    declares it after the natural parameters."""
    return dataclasses.field(metadata={"static": True})


def context_field() -> Any:
    """A field for arrays that are not natural parameters, such as a kernel or a mask; arithmetic
    leaves it unchanged. A family declares it after the natural parameters. None stands for a
    context that `Family.with_context` sets later."""
    return dataclasses.field(default=None, metadata={"context": True})


def dot_event(a: PyTree, b: PyTree, event_ndims: tuple[int, ...]) -> Array:
    """<a, b>, summed over leaves and over each leaf's trailing event axes."""
    pairs = zip(tree.parameters(a), tree.parameters(b), event_ndims, strict=True)
    return functools.reduce(jnp.add, [_dot(x, y, n) for x, y, n in pairs])


def _dot(x: Array, y: Array, event_ndim: int) -> Array:
    """<x, y> over the trailing axes, as a matrix product. XLA's CPU backend (jaxlib 0.10.2)
    miscompiles `jnp.sum(x * y, axis=-1)` in float32 if x and y differ in their number of axes (some
    5,000 draws) and the last axis is small."""
    if event_ndim == 0:
        return x * y
    flat = lambda z: jnp.reshape(z, (*jnp.shape(z)[: jnp.ndim(z) - event_ndim], -1))
    return jnp.einsum("...i,...i->...", flat(x), flat(y), precision=jax.lax.Precision.HIGHEST)


class Family(abc.ABC):
    """An exponential family. Subclasses write the mathematics of `log_normalizer`, `stats`,
    `sample`, `mean`, `mode`, `in_domain`, and `flat` if h is not constant. All other methods follow
    from A by automatic differentiation; a subclass overrides one only if a closed form is faster or
    more accurate."""

    Stats: ClassVar[type[tuple]]
    """NamedTuple of the sufficient statistics, one field per natural parameter, in the same
    order."""
    event_ndims: ClassVar[tuple[int, ...]]
    """Number of trailing event axes of each natural parameter, in field order."""
    discrete: ClassVar[bool] = False
    """True if x is discrete: then it has no pathwise derivative."""
    block_axis: ClassVar[int | None] = None
    """The axis along which the natural parameter may be cut, if there is one only and each of its
    numbers is in its domain by itself."""
    exponential: ClassVar[bool] = True
    """True if the leaves are natural parameters; otherwise only an optimiser moves the family
    (`stationary`)."""
    closed_entropy: ClassVar[bool] = True
    """True if the entropy has a closed form; otherwise only gradients at draws contain it
    (`ByDraws`)."""

    # --- written by every family ------------------------------------------------------------------
    @abc.abstractmethod
    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A(lambda), of shape `batch_shape`."""

    @abc.abstractmethod
    def stats(self, x: Any) -> Statistics:
        """Sufficient statistics t(x) of a value. log 0 becomes the log of the smallest normal
        number (-87.3 in float32)."""

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Any:
        """Draws x ~ q, the axes of `shape` first; pathwise differentiable if x is continuous."""

    @abc.abstractmethod
    def mean(self) -> Any:
        """E_q[x]."""

    @abc.abstractmethod
    def mode(self) -> Any:
        """argmax_x log q(x) with respect to Lebesgue (or counting) measure."""

    @abc.abstractmethod
    def in_domain(self) -> Self:
        """The valid natural parameters: booleans in the structure of `self`, each broadcastable to
        its leaf."""

    def flat(self) -> Self:
        """The member, in the shape of `self`, whose density is constant in x; it is usually
        improper. Its natural parameters are zeros if h is constant.

        Raises:
          NotImplementedError: log h is not linear in the statistics, so the member does not exist.
        """
        if type(self).log_base_measure is not Family.log_base_measure:
            raise NotImplementedError(
                f"no {type(self).__name__} is constant in x, because log h(x) is not linear in its "
                "statistics: maximum likelihood has no flat prior. Use vijax.map."
            )
        return tree.apply(jnp.zeros_like, self)

    # --- for reports ------------------------------------------------------------------------------
    def marginal_laws(self) -> Any:
        """The marginal law of each number of x, in the structure of `mean()`:
        `vijax.families.laws.Law`. Raises NotImplementedError if these have no closed form."""
        raise NotImplementedError(
            f"{type(self).__name__}: the law of each number of x alone has no closed form. Draw "
            "from it, as in np.quantile(q.sample(key, (1000,)), [0.025, 0.975], axis=0)."
        )

    def variance(self) -> Any:
        """Var_q[x] of each number of x, in the structure of `mean()`."""
        return map_laws(lambda law: law.variance(), self.marginal_laws())

    def std(self) -> Any:
        """Standard deviations of each number of x."""
        return jax.tree.map(jnp.sqrt, self.variance())

    def cdf(self, x: Any) -> Any:
        """P(X <= x) for each number of x; `x` in the structure of `mean()`. Not differentiable."""
        return map_laws(lambda law, x: law.cdf(x), self.marginal_laws(), x)

    def quantile(self, p: Any) -> Any:
        """The quantiles of each number of x; the axes of `p` lead. Not differentiable.

        Raises:
          ValueError: a `p` is not strictly between 0 and 1.
          NotImplementedError: as `marginal_laws` does.

        >>> from vijax.families import Gamma
        >>> print(*(f"{x:.3f}" for x in Gamma.from_shape_rate(2.0, 1.0).quantile([0.05, 0.5, 0.95])))
        0.355 1.678 4.744
        """
        return map_laws(lambda law: law.quantile(p), self.marginal_laws())

    def interval(self, mass: Any = 0.95) -> Interval:
        """The central interval of each number of x that holds `mass` of its probability: `low` and
        `high`, in the structure of `mean()`. Raises as `quantile` does.

        >>> from vijax.families import Normal
        >>> low, high = Normal.from_mean_variance(1.0, 4.0).interval(0.9)
        >>> print(f"{low:.2f} {high:.2f}")
        -2.29 4.29
        """
        ends = self.quantile(tail_probabilities(mass))
        low = jax.tree.map(lambda x: x[0], ends)
        high = jax.tree.map(lambda x: x[1], ends)
        return Interval(low, high)

    # --- derived ----------------------------------------------------------------------------------
    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of a scalar such as A(lambda): the leading axes of every natural parameter."""
        leaf = jnp.shape(tree.parameters(self)[0])
        return leaf[: len(leaf) - self.event_ndims[0]]

    def with_naturals(self, leaves: PyTree) -> Self:
        """This law with the leaves of any tree, such as a gradient in the statistics, as its
        natural parameters; the context stays."""
        return tree.with_parameters(self, tree.parameters(leaves))

    def with_context(self, context: Any) -> Self:
        """This law with its natural parameters in another context; a family without a context
        returns itself."""
        names = [field.name for field in dataclasses.fields(self) if field.metadata.get("context")]  # type: ignore[arg-type]
        if not names:
            return self
        return dataclasses.replace(self, **dict.fromkeys(names, context))  # type: ignore[type-var]

    def as_stats(self, leaves: PyTree) -> Statistics:
        """The leaves of any tree, one per natural parameter, as sufficient statistics: the inverse
        of `with_naturals`."""
        return self.Stats(*tree.parameters(leaves))

    @allow_broadcasting
    def dot(self, stats: Statistics) -> Float[Array, "*batch"]:
        """<lambda, stats>, summed over the event axes."""
        return dot_event(self, stats, self.event_ndims)

    def log_base_measure(self, stats: Statistics) -> Float[Array, "*batch"]:
        """log h(x), from the statistics of x.

        If log h is linear in the statistics, its value at mean statistics is E_q[log h(x)]. If it
        is not (log x! of counts), do not evaluate it at mean statistics: the family overrides
        `expected_log_base_measure`."""
        return jnp.zeros(self.batch_shape, jnp.result_type(jax.tree.leaves(self)[0]))

    def expected_log_base_measure(self) -> Float[Array, "*batch"]:
        """E_q[log h(x)]."""
        return self.log_base_measure(self.expected_stats())

    def expected_stats(self) -> Statistics:
        """mu = E_q[t(x)] = grad A(lambda)."""
        total = lambda naturals: jnp.sum(self.with_naturals(naturals).log_normalizer())
        return self.as_stats(jax.grad(total)(tree.parameters(self)))

    @allow_broadcasting
    def sample_stats(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Statistics:
        """t(x) of a draw x ~ q; statistics that are logarithms are drawn in log space."""
        return self.stats(self.sample(key, shape))

    @allow_broadcasting
    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(x)."""
        return self.log_prob_of_stats(self.stats(x))

    @allow_broadcasting
    def log_prob_of_stats(self, stats: Statistics) -> Float[Array, "*batch"]:
        """log q(x) from t(x); finite if t is, because `stats` floors the logarithms of 0."""
        return self.dot(stats) + self.log_base_measure(stats) - self.log_normalizer()

    @allow_broadcasting
    def energy_term(self, stats: Statistics) -> Float[Array, "*batch"]:
        """log q(x) - log h(x) = <lambda, t(x)> - A, from statistics of x: the term of a local of
        this law in an energy (`vijax.energy_model`), which leaves out the base measure h.

        >>> from vijax.families import Gamma
        >>> q = Gamma.from_shape_rate(2.0, 3.0)
        >>> x = 0.5
        >>> print(f"{q.energy_term(q.stats(x)):.4f} {q.log_prob(x) + jnp.log(x):.4f}")
        -0.6891 -0.6891
        """
        return self.dot(stats) - self.log_normalizer()

    def negative_conjugate(self, mean: Statistics) -> Float[Array, "*batch"]:
        """A(lambda) - <lambda, mu> for mu = E_q[t]: the entropy plus E_q[log h]."""
        return self.log_normalizer() - self.dot(mean)

    def entropy(self) -> Float[Array, "*batch"]:
        """H[q] = A(lambda) - <lambda, mu> - E_q[log h]."""
        return self.negative_conjugate(self.expected_stats()) - self.expected_log_base_measure()

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """KL(self || other) = <lambda - lambda', mu> - A(lambda) + A(lambda'), within a family."""
        mu = self.expected_stats()
        target = self.with_naturals(other)  # in the context of self
        return tree.subtract(self, other).dot(mu) - self.log_normalizer() + target.log_normalizer()

    def kl_to_prior(self, prior: Self) -> Float[Array, "*batch"]:
        """KL(self || prior) in a step; cheaper if a family can reuse parts of the step."""
        return self.kl(prior)

    def plain(self) -> Family:
        """The same law in the form that users read; most families have only one form."""
        return self

    def prepare(self, means: bool = True) -> Self:
        """This law with its expensive parts computed once for a step, and with `means` its mean
        parameters too. Most families return themselves."""
        return self

    def retreat(self, target: Self) -> Self:
        """The target that replaces a `target` that leads out of the domain; called on a prior. By
        default the prior itself, a step without a message, which is safe at any step size."""
        return self

    def fisher_product(self, tangent: Self) -> Statistics:
        """F(lambda) v: the change of the mean parameters when lambda moves by v."""
        means = lambda naturals: self.with_naturals(naturals).expected_stats()
        return jax.jvp(means, (tree.parameters(self),), (tree.parameters(tangent),))[1]

    def stationary(self) -> Self:
        """The target of a step at which the gradient vanishes: grad ELBO = F (target - stationary).
        In an exponential family it is lambda, because the gradient of the entropy is -F lambda."""
        return self

    def slope(self, stats: Statistics, prior: Self) -> Statistics:
        """Gradient of log q - log prior in the statistics of a draw: lambda - eta, at any draw."""
        return self.as_stats(tree.subtract(self, prior))

    def fisher_solve(self, cotangent: Statistics) -> Self:
        """F(lambda)^-1 g: a natural-parameter direction from a gradient in lambda. This one solves
        a dense system for each event; override it if the structure gives a closed form."""

        def solve_one(q: Self, g: Statistics) -> Self:
            flat, unravel = ravel_pytree(q)
            hessian = jax.hessian(lambda v: unravel(v).log_normalizer())(flat)
            return unravel(jnp.linalg.solve(hessian, ravel_pytree(self.with_naturals(g))[0]))

        return map_batch(solve_one, len(self.batch_shape))(self, cotangent)

    def pathwise_sample(self, key: PRNGKeyArray) -> tuple[Statistics, Callable[[Statistics], Self]]:
        """A draw's statistics t(R(u, lambda)) and the map V: eta -> F^-1 J^T eta of structured SVI,
        J the derivative of the statistics in lambda at fixed u (Hoffman and Blei 2015, eq. 8 and
        22). E[V] = I on the span of the statistics.

        Raises:
          NotImplementedError: x is discrete.
        """
        if self.discrete:
            raise NotImplementedError(
                f"{type(self).__name__} is discrete: its draws have no derivative in the natural "
                "parameters, so structured SVI (message V eta) does not apply; use ssvi_a or svi "
                "for this variable."
            )
        return self._pathwise(lambda q: q.sample_stats(key))

    @property
    def noise_size(self) -> int:
        """The number of standard normals that `from_noise` needs for a draw; ValueError if the
        family does not draw from normal noise."""
        raise ValueError(
            "quasi: expected a normal global, or a mixture or flow of such, got a "
            f"{type(self).__name__}. Leave quasi "
            "out for it, such as by estimator={'free': vijax.estimator.reparameterised(8, "
            "quasi=True)}."
        )

    def from_noise(self, noise: Float[Array, " noise"]) -> Any:
        """A draw of q from independent standard normals `noise`, pathwise differentiable."""
        raise NotImplementedError(f"{type(self).__name__} has no from_noise.")

    def pathwise_from_noise(
        self, noise: Float[Array, " noise"]
    ) -> tuple[Statistics, Callable[[Statistics], Self]]:
        """Statistics and map V of `pathwise_sample`, for the draw `from_noise(noise)`."""
        return self._pathwise(lambda q: q.stats(q.from_noise(noise)))

    def _pathwise(
        self, draw: Callable[[Self], Statistics]
    ) -> tuple[Statistics, Callable[[Statistics], Self]]:
        t, pullback = jax.vjp(
            lambda naturals: draw(self.with_naturals(naturals)), tree.parameters(self)
        )
        return t, lambda eta: self.fisher_solve(self.as_stats(pullback(self.as_stats(eta))[0]))


def map_batch(f: Callable, batch_ndim: int) -> Callable:
    """`f` for one event, mapped over `batch_ndim` leading axes."""
    for _ in range(batch_ndim):
        f = jax.vmap(f)
    return f


def as_float(x: Any, argument: str = "parameter") -> Float[Array, ...]:
    """An array of the working float dtype, never weakly typed: float32, or float64 if x64 is on and
    `x` has it. Raises ValueError naming the argument if `x` is not made of numbers."""
    return as_floats(x, argument=argument)[0]


def as_floats(*values: Any, argument: str = "parameter") -> list[Float[Array, ...]]:
    """Arrays of one common float dtype, never weakly typed; Python numbers adopt the dtype of the
    arrays.

    >>> as_floats(1.0, "2")
    Traceback (most recent call last):
    ...
    ValueError: parameter: expected numbers, got the string '2'. Write the number without quotes.
    """
    require_numbers(argument, *values)
    arrays = [x if isinstance(x, int | float) else as_array(x) for x in values]
    dtype = jnp.result_type(float, *arrays)
    return [_cast(x, dtype) for x in arrays]


def _cast(x: Any, dtype: Any) -> Float[Array, ...]:
    if not isinstance(x, jax.Array):
        x = np.asarray(x, dtype)  # in NumPy, which compiles no program
    return jnp.asarray(x, dtype)


def as_array(x: Any) -> Any:
    """An array as it is; anything else as a NumPy array, which compiles no program, or as a JAX
    array if traced. Long doubles become float64, and bytes get the machine's order, because JAX has
    no others."""
    if isinstance(x, np.ndarray | np.generic):
        is_long_double = x.dtype.kind == "f" and x.dtype.itemsize > 8
        dtype = np.dtype(np.float64) if is_long_double else x.dtype
        return x.astype(dtype.newbyteorder("="), copy=False)
    if hasattr(x, "dtype"):
        return x
    is_traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(x))
    return jnp.asarray(x) if is_traced else np.asarray(x)


def finite(x: Any) -> Any:
    """True where a number is finite; in NumPy, which compiles no program, unless it is traced."""
    if isinstance(x, jax.core.Tracer):
        return jnp.isfinite(x)
    return np.isfinite(np.asarray(x))


def positive_and_finite(x: Any) -> Any:
    """True where 0 < x < inf."""
    if not isinstance(x, jax.core.Tracer):
        x = np.asarray(x)
    return finite(x) & (x > 0)


def ratio_or_zero(x: Float[Array, "*shape"], y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """x / y for y >= 0; 0 where y has underflowed."""
    normal = y >= jnp.finfo(y.dtype).tiny
    return jnp.where(normal, x / jnp.where(normal, y, 1.0), 0.0)


def domain_mask(ok: Bool[Array, ...], q: F) -> F:
    """One boolean per event, in the structure of `q` and broadcastable to each of its leaves."""
    masks = [ok.reshape(ok.shape + (1,) * n) for n in q.event_ndims]
    return q.with_naturals(masks)

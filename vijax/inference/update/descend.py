"""Any optimiser of optax on a global, in unconstrained coordinates of its family.

    phi = to(q),   q = of(phi, like)

The coordinates of a chart are a pytree of arrays; any values give a member of the family."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from vijax import tree
from vijax.families import Beta, Dirichlet, Family, Gamma, InverseGamma, MultivariateNormal, Normal
from vijax.families.vector.matrices import unit_like
from vijax.inference.update.base import Q, Update


@dataclasses.dataclass(frozen=True)
class Chart:
    """Coordinates of a family: `to` maps q to them, `of` maps (coordinates, a member of the family)
    to q."""

    to: Callable[[Any], PyTree]
    of: Callable[[PyTree, Any], Any]


def _normal(phi: PyTree, like: Normal) -> Normal:
    mean, log_sd = phi
    precision = jnp.exp(-2.0 * log_sd)
    return like.with_naturals([precision * mean, -0.5 * precision])


def _triangle(q: MultivariateNormal) -> PyTree:
    """Mean, and lower factor of the covariance with its diagonal as logarithms."""
    factor = jnp.linalg.cholesky(q.cov)
    log_diagonal = jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1))
    return q.mean(), jnp.tril(factor, -1) + log_diagonal[..., None] * unit_like(factor)


def _multivariate_normal(phi: PyTree, like: MultivariateNormal) -> MultivariateNormal:
    mean, free = phi
    eye = unit_like(free)
    factor = jnp.tril(free, -1) + jnp.exp(jnp.diagonal(free, axis1=-2, axis2=-1))[..., None] * eye
    inverse = jax.scipy.linalg.solve_triangular(
        factor, jnp.broadcast_to(eye, factor.shape), lower=True
    )
    precision = jnp.swapaxes(inverse, -1, -2) @ inverse
    return like.with_naturals([jnp.einsum("...ij,...j->...i", precision, mean), -0.5 * precision])


def _logarithms(*signs: int) -> Chart:
    """The chart of logarithms of natural parameters with these signs."""

    def to(q: Any) -> PyTree:
        leaves = jax.tree.leaves(q)
        return tuple(jnp.log(sign * x) for sign, x in zip(signs, leaves, strict=True))

    def from_logarithms(phi: PyTree, like: Any) -> Any:
        naturals = [sign * jnp.exp(x) for sign, x in zip(signs, phi, strict=True)]
        return like.with_naturals(naturals)

    return Chart(to, from_logarithms)


natural = Chart(tree.parameters, lambda phi, like: like.with_naturals(phi))
"""The natural parameters themselves. Their steps may leave the domain, and are then retracted."""

CHARTS: dict[type[Family], Chart] = {
    Normal: Chart(lambda q: (q.mean(), 0.5 * jnp.log(q.variance())), _normal),
    MultivariateNormal: Chart(_triangle, _multivariate_normal),
    Gamma: _logarithms(1, -1),
    InverseGamma: _logarithms(-1, -1),
    Beta: _logarithms(1, 1),
    Dirichlet: _logarithms(1),
}
"""The chart of each family: mean and log standard deviation of a normal, mean and triangle of a
multivariate normal, logarithms of shapes, rates and concentrations."""


def chart_of(q: Family) -> Chart:
    """The chart of a family; its natural parameters, if it has no chart.

    >>> q = Normal.from_mean_variance(2.0, 9.0)
    >>> mean, log_sd = chart_of(q).to(q)
    >>> float(mean), round(float(jnp.exp(log_sd)), 4)
    (2.0, 3.0)
    """
    return CHARTS.get(type(q), natural)


ADAM = optax.adam(0.01)
"""The default optimiser. It is one object, so that equal choices share a program, and pickle."""


def ascent_step(
    optimizer: optax.GradientTransformation | None, ascent: PyTree, memory: PyTree, x: PyTree
) -> tuple[PyTree, PyTree]:
    """x after a step of the optimiser in the direction of `ascent`, and the optimiser's memory."""
    # optax raises floats to the power of its integer step count, which jax_numpy_dtype_promotion
    # "strict" would refuse.
    with jax.numpy_dtype_promotion("standard"):
        change, memory = (optimizer or ADAM).update(tree.scale(-1.0, ascent), memory, x)
        return optax.apply_updates(x, change), memory


@dataclasses.dataclass(frozen=True)
class descend(Update):
    """An optimiser of optax on minus the ELBO, in unconstrained coordinates phi of the family.

        grad_phi ELBO = (d lambda / d phi)' F(lambda) (target - lambda)

    For a family that is no exponential one (`vijax.guides.low_rank`) the target is the gradient of
    the bound in its parameters, to which the gradient of the entropy is added
    (`Family.stationary`).

    The optimiser has its own learning rate; the schedule of step sizes is not read.

    Args:
      optimizer: an optax transformation, such as `optax.adam(0.05)`, with its own memory. None is
        Adam at rate 0.01. (Transformations of optax do not pickle; None does.)
      chart: coordinates (`vijax.update.Chart`). None is the chart of the family: mean and log
        standard deviation of a normal, mean and triangle of a multivariate normal, logarithms of
        shapes, rates and concentrations, and for other families the natural parameters.

    >>> import vijax as vi
    >>> coin = vi.model(
    ...     prior={"bias": vi.Beta.from_alpha_beta(2.0, 3.0)},
    ...     local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    ... )
    >>> alg = vi.cavi(coin, update=vi.update.descend(optax.adam(0.1)))
    >>> fit = vi.fit(alg, jax.numpy.array([1.0, 1.0, 0.0]), num_steps=300, key=jax.random.key(0))
    >>> round(float(fit.posterior["bias"].alpha), 2), round(float(fit.posterior["bias"].beta), 2)
    (4.0, 4.0)
    """

    optimizer: optax.GradientTransformation | None = None
    chart: Chart | None = None
    size: ClassVar[str] = "none"

    def init(self, q: Family) -> PyTree:
        return (self.optimizer or ADAM).init(self._chart(q).to(q))

    def propose(
        self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree
    ) -> tuple[Q, PyTree]:
        chart = self._chart(q)
        phi = chart.to(q)
        _, pull = jax.vjp(lambda phi: chart.of(phi, q), phi)
        slope = q.with_naturals(q.fisher_product(tree.subtract(target, q.stationary())))
        (ascent,) = pull(slope)
        phi, memory = ascent_step(self.optimizer, ascent, memory, phi)
        return chart.of(phi, q), memory

    def _chart(self, q: Family) -> Chart:
        return self.chart or chart_of(q)


def natural_gradient() -> optax.GradientTransformation:
    """A transformation of optax for your own training loops: it turns gradients in natural
    parameters into natural gradients, F^-1 grad.

    Put it into `optax.chain` before transformations that scale or clip. It treats families anywhere
    in the tree of parameters. Leaves that belong to no family pass unchanged, so networks may be
    trained beside them. `update` needs the parameters. A step may leave the domain of a family:
    keep learning rates below 1, or check `in_domain()`.

    >>> import vijax as vi
    >>> q, goal = vi.Normal.from_mean_variance(0.0, 1.0), vi.Normal.from_mean_variance(3.0, 0.5)
    >>> optimizer = optax.chain(natural_gradient(), optax.sgd(0.5))
    >>> state = optimizer.init(q)
    >>> for _ in range(30):
    ...     change, state = optimizer.update(jax.grad(lambda q: q.kl(goal))(q), state, q)
    ...     q = optax.apply_updates(q, change)
    >>> round(float(q.mean()), 4), round(float(q.variance()), 4)
    (3.0, 0.5)
    """

    def update(grads: PyTree, state: Any, params: PyTree = None) -> tuple[PyTree, Any]:
        if params is None:
            raise ValueError(
                "natural_gradient: expected the parameters, got None. Call update(grads, state, "
                "params)."
            )
        is_family = lambda x: isinstance(x, Family)

        def convert(q: Any, grad: Any) -> Any:
            return q.fisher_solve(q.as_stats(grad)) if is_family(q) else grad

        return jax.tree.map(convert, params, grads, is_leaf=is_family), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)

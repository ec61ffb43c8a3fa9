"""Any optimiser of optax on a global, in a chart of its family; natural gradients for optax's own loops."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import optax
from jaxtyping import Array, Float, PyTree

from vijax import tree
from vijax.families import Family
from vijax.inference.update.base import Q, Update
from vijax.inference.update.chart import Chart, chart_of

ADAM = optax.adam(0.01)
"""The optimiser where none is named; one for all, so that equal choices share a program, and pickle."""


@dataclasses.dataclass(frozen=True)
class descend(Update):
    """An optimiser of optax on minus the ELBO, in unconstrained coordinates phi of the family.

        grad_phi ELBO = (d lambda / d phi)' F(lambda) (target - lambda)

    For a family that is no exponential one (`vijax.guides.low_rank`) the target is the gradient of the bound in its
    parameters, to which the gradient of the entropy is added (`Family.stationary`).

    The optimiser has its own learning rate; the schedule of step sizes is not read.

    Args:
      optimizer: an optax transformation, such as `optax.adam(0.05)`, with its own memory. None is Adam at rate 0.01.
        (Transformations of optax do not pickle; None does.)
      chart: coordinates (`vijax.update.chart`); None takes the family's own: mean and log standard deviation of a
        normal, mean and triangle of a multivariate one, logarithms of shapes, rates and concentrations, and for other
        families the natural parameters.

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
        """The optimiser's state."""
        return (self.optimizer or ADAM).init(self._chart(q).to(q))

    def propose(self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree) -> tuple[Q, PyTree]:
        """See `Update`."""
        del size
        chart = self._chart(q)
        phi = chart.to(q)
        _, pull = jax.vjp(lambda phi: chart.of(phi, q), phi)
        slope = q.with_naturals(q.fisher_product(tree.subtract(target, q.stationary())))
        (ascent,) = pull(slope)
        moved, memory = (self.optimizer or ADAM).update(tree.scale(-1.0, ascent), memory, phi)
        return chart.of(optax.apply_updates(phi, moved), q), memory

    def _chart(self, q: Family) -> Chart:
        return self.chart or chart_of(q)


def natural_gradient() -> optax.GradientTransformation:
    """Turns gradients in natural parameters into natural gradients, F^-1 grad, in training loops of your own.

    Put it into `optax.chain` before whatever scales or clips. It treats the families anywhere in the tree of
    parameters. Leaves that belong to no family pass unchanged, so that networks may be trained beside them. `update`
    needs the parameters. A step may leave the domain of a family: keep learning rates below 1, or check `in_domain()`.

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
            raise ValueError("natural_gradient: expected the parameters, got None. Call update(grads, state, params).")
        return jax.tree.map(_natural, params, grads, is_leaf=_is_family), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def _natural(q: Any, grad: Any) -> Any:
    """F^-1 grad for a family, whose gradient has the family's structure; the gradient itself for anything else."""
    return q.fisher_solve(q.as_stats(grad)) if _is_family(q) else grad


def _is_family(x: Any) -> bool:
    return isinstance(x, Family)

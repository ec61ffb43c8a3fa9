"""Linear response of coordinate ascent in conjugate form (Giordano, Broderick and Jordan 2018, eq. 14).

The fixed point is lambda = eta + m(mu(lambda)), m the message. Tilt the log joint by <e, t(beta)>, so that eta becomes
eta + e. With F = d mu / d lambda and M = d m / d mu,

    d lambda / d e = I + M F d lambda / d e,    Cov[t] = d mu / d e = F (I - M F)^-1 = (I - F M)^-1 F.

M is the derivative of the message with the locals at their optimum for every mu, not held fixed. Where the locals are
independent given the globals their optimum has a closed form and can be put into the bound, L(s) = sum_n E_n(s, 0) +
A(grad_z E_n(s)), a function of s alone: its gradient is the message, and M its Hessian. Differences check that M is the
derivative of the engine's own message, with its locals optimised anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from vijax import tree
from vijax.checks import require
from vijax.contract.batch import Minibatch
from vijax.families import Product
from vijax.fitting.loader import all_groups
from vijax.fitting.result import Fit
from vijax.inference.spec import Spec
from vijax.models.energies.energy import Energy
from vijax.response.covariances import Covariances, covariances
from vijax.xla.compiler import quick_jit

SETTLED = 1e-3
"""Largest divergence in nats from q to the result of one more step."""
STEP, SLACK = 0.1, 0.05
"""The length in standard deviations of the differences that check M, and the share that may stay unexplained."""
MOST = 3000
"""Natural parameters up to which a dense matrix of them is formed."""
AT_ONCE = 16
SERVED = "conjugate models without locals, or with locals that are independent given the globals (no `impossible`)"

Bound = Callable[[PyTree], Float[Array, ""]]


def of_conjugate(fit: Fit, data: Any, of: Callable | None) -> Covariances:
    """Returns the covariances of a conjugate model (see `vijax.linear_response`)."""
    spec, q = fit.alg.spec, fit.posterior
    _check(spec, q)
    groups, hyper = all_groups(data, spec.model), fit.state.hyper
    prior, batch = spec.prior(hyper), Minibatch(jax.tree.map(jnp.asarray, groups), None)
    own, closed = _engine_bound(spec, hyper, batch), _closed_bound(spec, hyper, batch)
    mean = of or (lambda q: q.mean())
    message = quick_jit(lambda q: q.with_naturals(jax.grad(own)(q.expected_stats())))
    _check_settled(q, tree.add(prior, message(q)))
    change, means = quick_jit(_change_of_message(closed))(q), quick_jit(mean)(q)
    fisher, pushed = (np.asarray(x, np.float64) for x in quick_jit(lambda q: (_fisher(q), _pushed(q, mean)))(q))
    change = np.asarray(change, np.float64)
    _check_change(q, message, fisher, change)
    response = np.linalg.solve(np.eye(len(fisher)) - fisher @ change, fisher)
    return covariances(means, pushed @ response @ pushed.T)


def _change_of_message(bound: Bound) -> Callable[[Product], Float[Array, "P P"]]:
    """Returns a function from q to M, computed in batches of columns."""

    def change(q: Product) -> Float[Array, "P P"]:
        flat, unravel = ravel_pytree(q.expected_stats())
        slope = jax.grad(lambda s: bound(unravel(s)))
        column = lambda v: jax.jvp(slope, (flat,), (v,))[1]
        return jax.lax.map(column, jnp.eye(flat.size, dtype=flat.dtype), batch_size=AT_ONCE)

    return change


def _fisher(q: Product) -> Float[Array, "P P"]:
    flat, unravel = ravel_pytree(q)
    column = lambda v: ravel_pytree(q.fisher_product(unravel(v)))[0]
    return jax.vmap(column)(jnp.eye(flat.size, dtype=flat.dtype))


def _pushed(q: Product, mean: Callable) -> Float[Array, "M P"]:
    """Returns K = (d E_q[g] / d lambda) F^-1, the derivative of the expectations in mu."""
    flat, unravel = ravel_pytree(q)
    slopes = jax.jacrev(lambda v: ravel_pytree(mean(unravel(v)))[0])(flat)
    return jax.vmap(lambda row: ravel_pytree(q.fisher_solve(q.as_stats(unravel(row))))[0])(slopes)


# --- bounds as functions of the globals' statistics ---------------------------------------------------------------
def _engine_bound(spec: Spec, hyper: Any, batch: Minibatch) -> Bound:
    """Returns the bound that the engine differentiates: locals optimised, and held."""
    model, key = spec.model, jax.random.key(0)
    return lambda stats: model.local_elbo(hyper, stats, batch, key, spec.estep).total + _coupling(spec, hyper, stats)


def _closed_bound(spec: Spec, hyper: Any, batch: Minibatch) -> Bound:
    """Returns the bound as a function of the statistics alone: of an energy with its optimal locals put in."""
    energy: Energy | None = spec.model.queries.get("energy")
    if energy is None:
        return _engine_bound(spec, hyper, batch)

    def total(stats: PyTree) -> Float[Array, ""]:
        each = jax.vmap(lambda group: _group_bound(energy, stats, group, hyper))(batch.data)
        return jnp.sum(each) + _coupling(spec, hyper, stats)

    return total


def _coupling(spec: Spec, hyper: Any, stats: PyTree) -> Any:
    return 0.0 if spec.model.global_elbo is None else spec.model.global_elbo(hyper, stats)


def _group_bound(energy: Energy, stats: PyTree, group: PyTree, hyper: Any) -> Float[Array, ""]:
    """Returns E_0 + A(l) of an energy E_0 + <l, t(z)>."""
    templates = energy.locals(group)
    if not templates:
        return energy.fn(stats, group, hyper)
    (affine,) = energy.affine(stats, group, hyper, templates)
    exact = energy.members(templates, affine.slopes, None)
    return affine.value + sum(jnp.sum(q.log_normalizer()) for q in exact.values())


# --- what is refused ----------------------------------------------------------------------------------------------
def _check(spec: Spec, q: Product) -> None:
    model, energy = spec.model, spec.model.queries.get("energy")
    remedy = "Use vijax.auto or a sampler for the covariances of others."
    require(model.by_entry is None, "fit", SERVED, "one of Gaussian predictors", "Its covariance is q's own.")
    require(model.free is None, "fit", SERVED, "one with free variables", remedy)
    require(model.form.documents is None, "fit", SERVED, "a model of documents, whose locals are iterated", remedy)
    points = [name for name in q if spec.is_point(name)]
    require(not points, "fit", "a distribution of every global", f"points of {points}", "Fit them with vijax.cavi.")
    if energy is not None:
        require(not energy.has_coupled_locals, "fit", SERVED, "locals that depend on each other", remedy)
        require(energy.impossible is None, "fit", SERVED, "an energy with impossible events", remedy)
    size = sum(leaf.size for leaf in tree.parameters(q))
    require(size <= MOST, "fit", f"at most {MOST} natural parameters", size, "Its matrix would not be held.")


def _check_settled(q: Product, target: Product) -> None:
    gap = tree.subtract(target, q)
    nats = 0.5 * float(quick_jit(lambda q, gap: gap.dot(q.fisher_product(gap)))(q, gap))
    got = f"one that a further step would move by {nats:.2g} nats"
    require(abs(nats) < SETTLED, "fit", "a fixed point of coordinate ascent", got, "Run more steps of vijax.cavi.")


def _check_change(q: Product, message: Callable, fisher: np.ndarray, change: np.ndarray) -> None:
    """Compares M with differences of the engine's messages, in a random direction of length `STEP` in the metric of q:
    so near, natural parameters stay in their domain."""
    flat = lambda x: np.asarray(ravel_pytree(x)[0], np.float64)
    length = lambda v: float(np.sqrt(max(v @ fisher @ v, 0.0)))
    w, v = np.linalg.eigh(fisher)
    kept = w > 1e-6 * w.max()
    noise = np.random.default_rng(0).normal(size=kept.sum())
    direction = v[:, kept] @ (STEP * noise / np.linalg.norm(noise) / np.sqrt(w[kept]))
    at, unravel = flat(q), ravel_pytree(q)[1]
    ends = [message(unravel(jnp.asarray(at + sign * direction, jnp.result_type(float)))) for sign in (0.5, -0.5)]
    found, ours = flat(ends[0]) - flat(ends[1]), change @ fisher @ direction
    rounding = 4 * float(jnp.finfo(jnp.result_type(float)).eps) * length(np.abs(flat(ends[0])))
    gap = length(found - ours)
    allowed = SLACK * (length(found) + length(ours)) + 0.02 * STEP / np.sqrt(len(noise)) + rounding
    got = f"one whose message does not change as its bound says: off by {gap / STEP:.2g} of a change of q"
    remedy = "Locals found by iteration, behind jax.lax.stop_gradient, are not served: write it as an energy."
    require(gap <= allowed, "fit", SERVED, got, remedy)

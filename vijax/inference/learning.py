"""Points learnt beside the globals: one step of an optax optimiser on the objective, in free coordinates."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.contract.batch import Minibatch
from vijax.contract.model import Hyper
from vijax.inference.bound import in_context, reads_of, scaled_bound
from vijax.inference.estimator.joint import value
from vijax.inference.points import underflow, with_points
from vijax.inference.spec import Spec
from vijax.inference.state import State


def gradient_through_context(spec: Spec, key: PRNGKeyArray, state: State, batch: Minibatch, theta: PyTree) -> PyTree:
    """The objective's gradient in what is learnt, at fixed natural parameters that are relative to a context which
    depends on it."""
    estimators, reads = spec.estimators(state.posterior), reads_of(spec, state, batch)
    key_global, key_local = jax.random.split(key)
    bound = scaled_bound(spec, state, batch, key_local)

    def objective(theta: PyTree) -> Float[Array, ""]:
        hyper = with_points(spec.model, state.hyper, theta)
        q, rho = in_context(spec.model, hyper, state.posterior), jnp.ones((), state.step_size.dtype)
        q = q.prepared()
        said = value(estimators, key_global, q, spec.prior(hyper), rho, bound, theta, reads)
        return said - spec.penalty(q, hyper)

    return jax.grad(objective)(theta)


def penalty_of(spec: Spec, state: State, theta: PyTree) -> tuple[Float[Array, ""], PyTree]:
    """What the objective subtracts, and its gradient in the learnt hyperparameters."""

    def penalty(theta: PyTree) -> Float[Array, ""]:
        return spec.penalty(state.posterior, with_points(spec.model, state.hyper, theta))

    if spec.penalty_every == 1:
        return jax.value_and_grad(penalty)(theta)
    due = state.step % spec.penalty_every == 0
    return jax.lax.cond(due, lambda: penalty(theta), lambda: state.penalty), theta


def ascend(
    spec: Spec, optimizer: optax.GradientTransformation, ascent: PyTree, theta: PyTree, state: State
) -> tuple[Hyper, PyTree, Bool[Array, ""]]:
    """One ascent step on the objective in the free coordinates of what is learnt; and whether a positive point has gone
    further down than its type has numbers."""
    updates, opt_state = optimizer.update(tree.scale(-1.0, ascent), state.opt_state, theta)
    new = optax.apply_updates(theta, updates)
    return with_points(spec.model, state.hyper, new), opt_state, underflow(spec.model, new)

"""The step of an algorithm, as mathematics: the globals move, then the points that are learnt, and
the result is accepted where it is finite.

    lambda <- update(lambda, eta + (N_t / S) sum_n m_n)

How a program computes it is said in `vijax.inference.program`."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from vijax import tree
from vijax.contract.batch import Minibatch
from vijax.contract.model import Hyper, LocalElbo
from vijax.families import Product
from vijax.inference.bound import add_context, batch_reads, first_bad, gradient_through_context
from vijax.inference.learning import ascend, evaluate_penalty, free_points
from vijax.inference.move import StepResult, move
from vijax.inference.spec import Spec
from vijax.inference.state import Info, Result, State
from vijax.inference.stopping import UNSEEN, watch
from vijax.inference.update.descend import ADAM


def initial_state(spec: Spec, hyper: Hyper, posterior: Product) -> State:
    """The state of step 0 at a posterior. All its memories are empty."""
    dtype = jnp.result_type(*jax.tree.leaves(posterior)[:1] or [float])
    return State(
        posterior=posterior,
        memory={name: spec.update.choice(name).init(q) for name, q in posterior.items()},
        hyper=hyper,
        opt_state=(spec.optimizer or ADAM).init(free_points(spec.model, hyper, spec.learn)),
        step_size=jnp.zeros((), dtype),
        penalty=jnp.zeros((), dtype),
        local=None,
        messages=spec.messages.init(spec, posterior),
        step=jnp.zeros((), jnp.int32),
        bad_steps=jnp.zeros((), jnp.int32),
        num_skipped=jnp.zeros((), jnp.int32),
        checked=jnp.full(3, UNSEEN, dtype),
        watch=watch(dtype=dtype),
        data=jnp.zeros(4, jnp.uint32),
        beside={},
    )


class Proposal(NamedTuple):
    """A step, before it is accepted.

    Attributes:
      state: the state that the step leads to, whose counters and penalty are those of before.
      penalty: the penalty of the objective at the state before.
      info: the diagnostics.
      ok: False where a value, a gradient or the new state is not finite, or a point went too far.
    """

    state: State
    penalty: Float[Array, ""]
    info: Info
    ok: Bool[Array, ""]


def propose(spec: Spec, key: PRNGKeyArray, state: State, batch: Minibatch) -> Proposal:
    """A step of an algorithm from a state."""
    theta = free_points(spec.model, state.hyper, spec.learn)
    result = move(spec, key, state, batch, theta)
    penalty, penalty_grad = evaluate_penalty(spec, state, theta)
    theta_grad = _points_gradient(spec, key, state, batch, theta, result, penalty_grad)
    hyper, opt_state, too_far = ascend(spec, theta_grad, theta, state)
    renewed: PyTree = hyper
    if spec.learn and spec.model.by_entry is not None:  # the context follows the hyperparameters
        result = result._replace(posterior=add_context(spec.model, hyper, result.posterior))
        renewed = hyper, result.posterior
    non_finite = result.non_finite + tree.count_non_finite((result.message.value, theta_grad))
    ok = (non_finite == 0) & ~too_far & result.is_finite & tree.all_finite(renewed)
    reads = batch_reads(spec, state, batch)
    bad_group = first_bad(result.message.aux.per_group, batch.weights, reads)
    info = _info(result, penalty, non_finite, bad_group, ok)
    return Proposal(_new_state(state, result, hyper, opt_state), penalty, info, ok)


def _points_gradient(
    spec: Spec,
    key: PRNGKeyArray,
    state: State,
    batch: Minibatch,
    theta: PyTree,
    result: StepResult,
    penalty_grad: PyTree,
) -> PyTree:
    """The gradient of the objective in the points that are learnt, in free coordinates."""
    if spec.learn and spec.model.by_entry is not None:
        return gradient_through_context(spec, key, state, batch, theta)
    return tree.subtract(result.message.theta_grad, penalty_grad)


def _info(
    result: StepResult,
    penalty: Float[Array, ""],
    non_finite: Int[Array, ""],
    bad_group: Int[Array, ""],
    ok: Bool[Array, ""],
) -> Info:
    """The diagnostics of a step."""
    local_elbo: LocalElbo = result.message.aux
    retractions = result.retractions
    if local_elbo.retractions is not None:
        retractions = retractions + local_elbo.retractions
    return Info(
        bound=result.message.value,
        local_elbo=local_elbo.total,
        per_group=local_elbo.per_group,
        num_groups=local_elbo.num_groups,
        penalty=penalty,
        step_size=result.step_size,
        retractions=jnp.where(ok, retractions, 0),
        backtracks=result.backtracks,
        non_finite=non_finite,
        bad_group=bad_group,
        bad_variable=result.bad_variable,
        result=jnp.where(ok, Result.OK, Result.SKIPPED),
        said=local_elbo.said or {},
    )


def _new_state(state: State, result: StepResult, hyper: Hyper, opt_state: PyTree) -> State:
    """The state that a step leads to."""
    return state._replace(
        posterior=result.posterior,
        memory=result.memory,
        hyper=hyper,
        opt_state=opt_state,
        local=result.local,
        messages=result.messages,
        step_size=result.next_size,
    )


def count_step(
    state: State, accepted: State, penalty: Float[Array, ""], ok: Bool[Array, ""]
) -> State:
    """The accepted state with the counters of one more step."""
    return accepted._replace(
        penalty=penalty,
        step=state.step + 1,
        bad_steps=jnp.where(ok, 0, state.bad_steps + 1),
        num_skipped=state.num_skipped + jnp.where(ok, 0, 1),
    )

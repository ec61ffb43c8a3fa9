"""Discrete chains of T steps over K states, by their potentials: the functions that the
`MarkovChain` family and any hand-written hidden Markov bound share.

    q(z) = exp{initial[z_1] + sum_t transition_t[z_t, z_{t+1}] + sum_t unary[t, z_t] - A},    z_t in 0..K-1

Potentials are log weights, normalised or not. `transition` is (K, K), shared by all steps, or (T-1,
K, K). Sequences of unequal lengths are padded to one T: `mask` (T,) is true on the steps that
exist, which come first. A padded step adds nothing to A, its gradient, statistics or entropies,
whatever its potentials hold; a sequence without steps has A = 0. The gradient of A in the
potentials is the expected statistics, which `chain_marginals` computes by a pass forward and one
back, in probabilities or, where those underflow, in log space.

These functions take one sequence; map them over a batch by `jax.vmap`.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from vijax.checks import require
from vijax.families.chain.passes import Smoothed, backward_pass, forward_pass, scaled_passes

Initial = Float[Array, " K"]
Transition = Float[Array, "*steps K K"]
Unary = Float[Array, "T K"]
Mask = Bool[Array, " T"] | None


def chain_log_normalizer(
    initial: Initial, transition: Transition, unary: Unary, mask: Mask = None
) -> Float[Array, ""]:
    """A = log sum over paths of exp{...}: forward-backward, O(T K^2), one step after another.

    With `unary` the log likelihoods of the observations it is log p(y), and its gradient the
    smoothed marginals. Raises ValueError on shapes that do not fit.

    >>> pi, a, b = jnp.log(jnp.array([0.5, 0.5])), jnp.log(jnp.array([[0.9, 0.1], [0.2, 0.8]])), jnp.zeros((3, 2))
    >>> print(abs(chain_log_normalizer(pi, a, b).round(5)))
    0.0
    >>> mask = jnp.array([True, False, False])
    >>> print(chain_log_normalizer(pi, a, b + 1.0, mask).round(5), chain_log_normalizer(pi, a, b, mask & False))
    1.0 0.0
    """
    return _log_normalizer(*_checked(initial, transition, unary, mask))


def chain_marginals(
    initial: Initial, transition: Transition, unary: Unary, mask: Mask = None
) -> tuple[Initial, Transition, Unary]:
    """Expected statistics, the gradient of A: probabilities of the first state, of pairs (summed
    over time where the transition is shared) and of states; zero where padded.

    >>> pi, a, b = jnp.log(jnp.array([0.5, 0.5])), jnp.log(jnp.array([[0.9, 0.1], [0.2, 0.8]])), jnp.zeros((2, 2))
    >>> print(chain_marginals(pi, a, b)[2][1].round(2))
    [0.55 0.45]
    """
    return _smoothed(*_checked(initial, transition, unary, mask))[1:]


def chain_entropy(
    initial: Initial, transition: Transition, unary: Unary, mask: Mask = None
) -> Float[Array, ""]:
    """-E[log q(z)], in nats, by one forward pass (Hernando et al., 2005). With w_ij the probability
    of z_t = i given z_{t+1} = j, the entropy of the path up to a state is E_{t+1}(j) = sum_i w_ij
    (E_t(i) - log w_ij), a sum of positive terms, while A - <lambda, mu> is a difference of terms of
    size T. A shared constant is kept apart."""
    initial, transition, unary, mask = _checked(initial, transition, unary, mask)
    forward = forward_pass(initial, transition, unary, mask)

    def step(entropy: Array, inputs: Any) -> tuple[Array, Array]:
        message, exists, into = inputs
        scores = message[:, None] + (transition if into is None else into)
        surprise = logsumexp(scores, axis=0) - scores
        gained = jnp.sum(jnp.exp(-surprise) * (entropy[:, None] + surprise), 0)
        level = jnp.where(exists, jnp.mean(gained), 0.0)
        return jnp.where(exists, gained - level, entropy), level

    per_step = None if transition.ndim == 2 else transition
    entropy, levels = lax.scan(
        step, jnp.zeros_like(initial), (forward.messages[:-1], mask[1:], per_step)
    )
    ending = jnp.sum(jax.nn.softmax(forward.last) * (entropy - jax.nn.log_softmax(forward.last)))
    return jnp.where(mask[0], ending + jnp.sum(levels), 0.0)


def chain_sample(
    key: PRNGKeyArray,
    initial: Initial,
    transition: Transition,
    unary: Unary,
    mask: Mask = None,
    shape: tuple[int, ...] = (),
) -> Int[Array, "*shape T"]:
    """Paths z ~ q by forward filtering and backward sampling; 0 on padded steps."""
    initial, transition, unary, mask = _checked(initial, transition, unary, mask)
    forward = forward_pass(initial, transition, unary, mask)
    noise = jax.random.gumbel(key, (len(unary), *shape, len(initial)), unary.dtype)
    start = jnp.argmax(forward.last + noise[-1], -1)

    def back(state: Array, step: Any) -> tuple[Array, Array]:
        message, noise, follows, into_next = step
        towards = jnp.where(follows, jnp.moveaxis(into_next, -1, 0)[state], 0.0)
        state = jnp.argmax(message + towards + noise, -1)
        return state, state

    steps = (forward.messages[:-1], noise[:-1], mask[1:], _per_step(transition, len(unary)))
    path = lax.scan(back, start, steps, reverse=True)[1]
    path = jnp.concatenate([path, start[None]])
    return jnp.where(mask, jnp.moveaxis(path, 0, -1), 0)


def chain_mode(
    initial: Initial, transition: Transition, unary: Unary, mask: Mask = None
) -> Int[Array, " T"]:
    """The most probable path (Viterbi, 1967); 0 on padded steps."""
    initial, transition, unary, mask = _checked(initial, transition, unary, mask)
    forward = forward_pass(
        initial, transition, unary, mask, reduce=functools.partial(jnp.max, axis=0)
    )
    start = jnp.argmax(forward.last)

    def back(state: Array, step: Any) -> tuple[Array, Array]:
        message, follows, into_next = step
        state = jnp.where(follows, jnp.argmax(message + into_next[:, state]), state)
        return state, state

    steps = (forward.messages[:-1], mask[1:], _per_step(transition, len(unary)))
    path = lax.scan(back, start, steps, reverse=True)[1]
    return jnp.where(mask, jnp.concatenate([path, start[None]]), 0)


def chain_stats(
    states: Int[Array, "*shape T"],
    num_states: int,
    shared: bool,
    mask: Mask = None,
    dtype: Any = jnp.float32,
) -> tuple[Array, Array, Array]:
    """Statistics of paths: one-hot first state (K,), pair counts (K, K) or per step (T-1, K, K),
    one-hot states (T, K); padded steps are not counted."""
    unary = jax.nn.one_hot(states, num_states, dtype=dtype)
    if mask is not None:
        unary = jnp.where(mask[:, None], unary, 0.0)
    subscripts = "...ti,...tj->...ij" if shared else "...ti,...tj->...tij"
    pairs = jnp.einsum(subscripts, unary[..., :-1, :], unary[..., 1:, :])
    return unary[..., 0, :], pairs, unary


@jax.custom_jvp
def _log_normalizer(
    initial: Array, transition: Array, unary: Array, mask: Array
) -> Float[Array, ""]:
    return _smoothed(initial, transition, unary, mask).value


@_log_normalizer.defjvp
def _log_normalizer_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    """dA = <mean statistics, d potentials>."""
    value, *means = _smoothed(*primals)
    return value, sum(map(jnp.vdot, means, tangents[:3]), jnp.zeros_like(value))


@jax.custom_jvp
@jax.jit  # so that it is traced once, though a step asks for it some ten times
def _smoothed(initial: Array, transition: Array, unary: Array, mask: Array) -> Smoothed:
    """A and the expected statistics, in probabilities; where these might have underflowed in a
    sequence of a batch, once more in log space. A `lax.cond` in a batch would always do both; a
    loop does it where a sequence needs it. XLA would move work that does not depend on the loop's
    state out of it, and do it always."""
    fast, sound = scaled_passes(initial, transition, unary, mask)

    def again(state: tuple[Smoothed, Array]) -> tuple[Smoothed, Array]:
        needed = jnp.where(state[1], 0.0, unary)
        return _in_log_space(initial, transition, needed, mask), jnp.ones_like(sound)

    return lax.while_loop(lambda state: ~state[1], again, (fast, sound))[0]


@_smoothed.defjvp
def _smoothed_jvp(primals: tuple, tangents: tuple) -> tuple[Smoothed, Smoothed]:
    """Second derivatives, by differentiating the recursions in log space."""
    *potentials, mask = primals
    again = lambda initial, transition, unary: _in_log_space(initial, transition, unary, mask)
    return _smoothed(*primals), jax.jvp(again, potentials, list(tangents[:3]))[1]


def _in_log_space(initial: Array, transition: Array, unary: Array, mask: Array) -> Smoothed:
    forward = forward_pass(initial, transition, unary, mask)
    return Smoothed(forward.total(mask), *backward_pass(transition, forward, mask))


def _per_step(transition: Array, num_steps: int) -> Array:
    return jnp.broadcast_to(transition, (num_steps - 1, *transition.shape[-2:]))


def _checked(
    initial: Array, transition: Array, unary: Array, mask: Mask
) -> tuple[Array, Array, Array, Array]:
    """The potentials, unary ones zero where padded, and the mask; ValueError on shapes that do not
    fit."""
    require(
        initial.ndim == 1,
        "initial",
        "potentials of shape (K,)",
        f"shape {initial.shape}",
        "Use jax.vmap.",
    )
    k = initial.shape[0]
    require(
        unary.ndim == 2 and unary.shape[0] >= 1 and unary.shape[1] == k,
        "unary",
        f"shape (T, {k})",
        unary.shape,
    )
    shapes = ((k, k), (unary.shape[0] - 1, k, k))
    require(
        transition.shape in shapes,
        "transition",
        f"shape {shapes[0]} or {shapes[1]}",
        transition.shape,
    )
    if mask is None:
        mask = jnp.ones(unary.shape[0], bool)
    require(mask.shape == unary.shape[:1], "mask", f"shape {unary.shape[:1]}", mask.shape)
    mask = jnp.copy(mask).astype(
        bool
    )  # `custom_jvp` takes no NumPy array that `jit` closes over and `vmap` maps
    return jnp.copy(initial), jnp.copy(transition), jnp.where(mask[:, None], unary, 0.0), mask

"""Discrete chains of T steps over K states, by their potentials: the functions of the `MarkovChain`
family and of hand-written hidden Markov bounds.

    q(z) = exp{initial[z_1] + sum_t transition_t[z_t, z_{t+1}] + sum_t unary[t, z_t] - A},    z_t in 0..K-1

Potentials are log weights, normalised or not. `transition` is (K, K), shared by all steps, or (T-1,
K, K). Sequences of unequal lengths are padded to one T: `mask` (T,) is true on the steps that
exist, which come first. A padded step adds nothing to A, its gradient, statistics or entropies,
whatever its potentials are; a sequence without steps has A = 0. The gradient of A in the potentials
is the expected statistics, which `chain_marginals` computes by a forward and a backward pass, in
probabilities or, if these underflow, in log space.

These functions take one sequence; map them over a batch by `jax.vmap`."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from vijax.checks import require
from vijax.families.chain.passes import Marginals, backward_pass, forward_pass, scaled_passes

Initial = Float[Array, " K"]
Transition = Float[Array, "*steps K K"]
Unary = Float[Array, "T K"]
Mask = Bool[Array, " T"] | None


def chain_log_normalizer(
    initial: Initial, transition: Transition, unary: Unary, mask: Mask = None
) -> Float[Array, ""]:
    """A = log sum over paths of exp{...}: forward-backward, O(T K^2), sequential in the steps.

    With `unary` the log likelihoods of the observations, A is log p(y), and its gradient the
    smoothed marginals. Raises ValueError if shapes do not fit.

    >>> pi, a, b = jnp.log(jnp.array([0.5, 0.5])), jnp.log(jnp.array([[0.9, 0.1], [0.2, 0.8]])), jnp.zeros((3, 2))
    >>> print(abs(chain_log_normalizer(pi, a, b).round(5)))
    0.0
    >>> mask = jnp.array([True, False, False])
    >>> print(chain_log_normalizer(pi, a, b + 1.0, mask).round(5), chain_log_normalizer(pi, a, b, mask & False))
    1.0 0.0
    """
    return _log_normalizer(*_check_potentials(initial, transition, unary, mask))


def chain_marginals(
    initial: Initial, transition: Transition, unary: Unary, mask: Mask = None
) -> tuple[Initial, Transition, Unary]:
    """Expected statistics, the gradient of A: probabilities of the first state, of pairs (summed
    over time if the transition is shared) and of states; zero on padded steps.

    >>> pi, a, b = jnp.log(jnp.array([0.5, 0.5])), jnp.log(jnp.array([[0.9, 0.1], [0.2, 0.8]])), jnp.zeros((2, 2))
    >>> print(chain_marginals(pi, a, b)[2][1].round(2))
    [0.55 0.45]
    """
    return _marginals(*_check_potentials(initial, transition, unary, mask))[1:]


def chain_entropy(
    initial: Initial, transition: Transition, unary: Unary, mask: Mask = None
) -> Float[Array, ""]:
    """-E[log q(z)], in nats, by one forward pass (Hernando et al., 2005). With w_ij the probability
    of z_t = i given z_{t+1} = j, the entropy of the path up to a state is E_{t+1}(j) = sum_i w_ij
    (E_t(i) - log w_ij), a sum of positive terms; A - <lambda, mu> is a difference of terms of size
    T. The mean over states is summed separately."""
    initial, transition, unary, mask = _check_potentials(initial, transition, unary, mask)
    forward = forward_pass(initial, transition, unary, mask)

    def step(entropy: Array, inputs: Any) -> tuple[Array, Array]:
        message, exists, step_transition = inputs
        if step_transition is None:
            step_transition = transition
        scores = message[:, None] + step_transition
        surprise = logsumexp(scores, axis=0) - scores
        longer = jnp.sum(jnp.exp(-surprise) * (entropy[:, None] + surprise), 0)
        level = jnp.where(exists, jnp.mean(longer), 0.0)
        return jnp.where(exists, longer - level, entropy), level

    per_step = None if transition.ndim == 2 else transition
    inputs = forward.messages[:-1], mask[1:], per_step
    entropy, levels = lax.scan(step, jnp.zeros_like(initial), inputs)
    surprise = -jax.nn.log_softmax(forward.last)
    ending = jnp.sum(jax.nn.softmax(forward.last) * (entropy + surprise))
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
    initial, transition, unary, mask = _check_potentials(initial, transition, unary, mask)
    forward = forward_pass(initial, transition, unary, mask)
    noise = jax.random.gumbel(key, (len(unary), *shape, len(initial)), unary.dtype)
    start = jnp.argmax(forward.last + noise[-1], -1)

    def back(state: Array, step: Any) -> tuple[Array, Array]:
        message, noise, next_exists, next_transition = step
        score = jnp.where(next_exists, jnp.moveaxis(next_transition, -1, 0)[state], 0.0)
        state = jnp.argmax(message + score + noise, -1)
        return state, state

    steps = (forward.messages[:-1], noise[:-1], mask[1:], _per_step(transition, len(unary)))
    path = lax.scan(back, start, steps, reverse=True)[1]
    path = jnp.concatenate([path, start[None]])
    return jnp.where(mask, jnp.moveaxis(path, 0, -1), 0)


def chain_mode(
    initial: Initial, transition: Transition, unary: Unary, mask: Mask = None
) -> Int[Array, " T"]:
    """The most probable path (Viterbi, 1967); 0 on padded steps."""
    initial, transition, unary, mask = _check_potentials(initial, transition, unary, mask)
    maximum = functools.partial(jnp.max, axis=0)
    forward = forward_pass(initial, transition, unary, mask, reduce=maximum)
    start = jnp.argmax(forward.last)

    def back(state: Array, step: Any) -> tuple[Array, Array]:
        message, next_exists, next_transition = step
        state = jnp.where(next_exists, jnp.argmax(message + next_transition[:, state]), state)
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
    """Statistics of paths: the one-hot first state (K,), pair counts (K, K) or per step (T-1, K,
    K), and one-hot states (T, K). Padded steps do not count."""
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
    return _marginals(initial, transition, unary, mask).value


@_log_normalizer.defjvp
def _log_normalizer_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    """dA = <mean statistics, d potentials>."""
    value, *means = _marginals(*primals)
    return value, sum(map(jnp.vdot, means, tangents[:3]), jnp.zeros_like(value))


@jax.custom_jvp
@jax.jit  # so that it is traced once, though a step asks for it some ten times
def _marginals(initial: Array, transition: Array, unary: Array, mask: Array) -> Marginals:
    """A and the expected statistics, in probabilities; if these might have underflowed for a
    sequence of a batch, in log space. In a batch a `lax.cond` would always compute both; a loop
    runs only if a sequence needs it. `potentials` depends on the state of the loop, because XLA
    would move work that does not out of the loop, and always do it."""
    fast, is_exact = scaled_passes(initial, transition, unary, mask)

    def recompute(state: tuple[Marginals, Array]) -> tuple[Marginals, Array]:
        _, is_exact = state
        potentials = jnp.where(is_exact, 0.0, unary)
        marginals = _log_space_marginals(initial, transition, potentials, mask)
        return marginals, jnp.ones_like(is_exact)

    return lax.while_loop(lambda state: ~state[1], recompute, (fast, is_exact))[0]


@_marginals.defjvp
def _marginals_jvp(primals: tuple, tangents: tuple) -> tuple[Marginals, Marginals]:
    """Second derivatives, by differentiating the recursions in log space."""
    *potentials, mask = primals

    def recompute(initial: Array, transition: Array, unary: Array) -> Marginals:
        return _log_space_marginals(initial, transition, unary, mask)

    return _marginals(*primals), jax.jvp(recompute, potentials, list(tangents[:3]))[1]


def _log_space_marginals(initial: Array, transition: Array, unary: Array, mask: Array) -> Marginals:
    forward = forward_pass(initial, transition, unary, mask)
    return Marginals(forward.total(mask), *backward_pass(transition, forward, mask))


def _per_step(transition: Array, num_steps: int) -> Array:
    return jnp.broadcast_to(transition, (num_steps - 1, *transition.shape[-2:]))


def _check_potentials(
    initial: Array, transition: Array, unary: Array, mask: Mask
) -> tuple[Array, Array, Array, Array]:
    """The potentials, with unary potentials zero on padded steps, and the mask; ValueError if
    shapes do not fit."""
    shape = f"shape {initial.shape}"
    require(initial.ndim == 1, "initial", "potentials of shape (K,)", shape, "Use jax.vmap.")
    k = initial.shape[0]
    is_table = unary.ndim == 2 and unary.shape[0] >= 1 and unary.shape[1] == k
    require(is_table, "unary", f"shape (T, {k})", unary.shape)
    shapes = ((k, k), (unary.shape[0] - 1, k, k))
    expected = f"shape {shapes[0]} or {shapes[1]}"
    require(transition.shape in shapes, "transition", expected, transition.shape)
    if mask is None:
        mask = jnp.ones(unary.shape[0], bool)
    require(mask.shape == unary.shape[:1], "mask", f"shape {unary.shape[:1]}", mask.shape)
    # Copies, because `custom_jvp` takes no NumPy array that `jit` closes over and `vmap` maps.
    mask = jnp.copy(mask).astype(bool)
    return jnp.copy(initial), jnp.copy(transition), jnp.where(mask[:, None], unary, 0.0), mask

"""Factorial hidden Markov models: several chains, one series (Hoffman and Blei 2015, section 2.1;
Ghahramani and Jordan, 1997).

    z^m a Markov chain over K states for each m = 1..M,   y_td ~ N(sum_m w_d[m, z^m_t], 1 / tau_d),
    (w_d, tau_d) from a normal-gamma prior, rows of initial and transition from Dirichlets

The chains are independent a priori and coupled by the data. q is structured mean field, q(z^1) ...
q(z^M): each chain is joint, and they are updated in turn by forward-backward at the marginals of
the others. q(w_d, tau_d) keeps all contributions to a column joint. A constant can be moved from
all states of one chain to all states of another: the likelihood determines only sums, and the prior
chooses among equals. So with two or more chains maximum likelihood has no unique answer, and `em`
is refused: use `map`."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from vijax.arguments import NotNegative, Positive, Size, check_arguments
from vijax.contract import init as starts
from vijax.contract.expected import expecting
from vijax.contract.model import Model
from vijax.contract.room import limit_sizes
from vijax.families import Dirichlet, MarkovChain, MultivariateNormalGamma, Product
from vijax.models.energies.energy_model import ready_model
from vijax.models.series.hmm import require_observations
from vijax.models.series.sequences import check_pair, check_values, factorial, observed_steps
from vijax.models.series.state_space import expected_of_observations
from vijax.spreads import spread_or_one
from vijax.xla.by_value import cache_by_value


@cache_by_value
@limit_sizes
@check_arguments
def factorial_hmm(
    dim: Size,
    num_chains: Size,
    num_states: Size,
    initial_concentration: Positive = 1.0,
    transition_concentration: Positive = 1.0,
    stickiness: NotNegative = 0.0,
    strength: Positive = 0.01,
    shape: Positive = 1.0,
    rate: Positive = 1.0,
) -> Model:
    """A factorial hidden Markov model with Gaussian observations.

    Priors are about zero and of scale one: bring columns of another place or scale to mean 0 and
    deviation 1.

    Args:
      dim: D, columns of the observations.
      num_chains: M, number of chains.
      num_states: K, states of each chain.
      initial_concentration: concentration of the Dirichlet priors of first states.
      transition_concentration: concentration of the Dirichlet priors of next states.
      stickiness: number added to the concentration of staying in a state.
      strength: prior precision of the contributions, in units of the noise precision, counted in
          observations.
      shape: shape of the gamma prior of the noise precisions.
      rate: rate of the same prior; data of another scale than one want another rate.

    Returns:
      A `Model` with globals `initial` (batch (M,)), `transition` (batch (M, K)) and `contributions`
      (MultivariateNormalGamma over (w_d, tau_d), batch (D,); w_d of length M K, chain by chain),
      and locals `z1`, ..., `zM`. Data: a pair (y, mask) of shapes (N, T, D) and (N, T), as for
      `vijax.models.hmm`: a step with a NaN was not seen. `fit.locals(data, key=key)["z1"].probs`
      are smoothed probabilities of the first chain.

    >>> import vijax as vi
    >>> slow, fast = np.repeat([0.0, 1.0], 40), np.tile(np.repeat([0.0, 1.0], 5), 8)
    >>> y = (5 * slow + 2 * fast + 0.1 * np.random.default_rng(0).normal(size=80))[:, None]
    >>> data = vi.models.pad([y])
    >>> fit = vi.fit(vi.cavi(factorial_hmm(1, 2, 2, rate=0.1)), data, num_steps=30, restarts=4, key=jax.random.key(0))
    >>> w = fit.posterior["contributions"].mean().coefficients.reshape(2, 2)
    >>> print(jnp.sort(jnp.abs(w[:, 1] - w[:, 0])).round(1))  # how far apart the states of each chain are
    [2. 5.]
    """
    rows = transition_concentration + stickiness * np.eye(num_states)
    width = num_chains * num_states
    plain_model = ready_model(
        globals={
            "initial": Dirichlet.from_concentration(
                np.full((num_chains, num_states), initial_concentration)
            ),
            "transition": Dirichlet.from_concentration(
                np.broadcast_to(rows, (num_chains, *rows.shape))
            ),
            "contributions": MultivariateNormalGamma.from_parameters(
                np.zeros((dim, width)), strength * np.eye(width), shape, rate
            ),
        },
        locals=functools.partial(_paths, num_chains, num_states),
        energy=energy,
        example=(np.linspace(-1.0, 1.0, 2 * dim).reshape(2, dim), np.array([True, True])),
        init=random_contributions,
        check_data=lambda data: _check(data, dim),
        generative=factorial(dim, num_chains, lambda data: _check(data, dim)),
    )
    plain_model = dataclasses.replace(
        plain_model, form=dataclasses.replace(plain_model.form, enough=require_observations)
    )
    plain_model = expecting(plain_model, expected_of_observations(dim, strength, shape, rate))
    return dataclasses.replace(
        plain_model, needs_prior=("contributions",) if num_chains > 1 else ()
    )


def energy(stats: Any, group: tuple[Float[Array, "T D"], Bool[Array, " T"]]) -> Float[Array, ""]:
    """log p(y, z^1, ..., z^M | globals) of one sequence, in the statistics of all variables."""
    y, mask = group
    chains = [stats[f"z{m + 1}"] for m in range(len(stats["initial"].log))]
    total = jnp.zeros((), y.dtype)
    for z, first, moves in zip(chains, stats["initial"].log, stats["transition"].log, strict=True):
        total += jnp.vdot(z.initial, first) + jnp.vdot(z.transition, moves)
    y, is_observed = observed_steps(y)
    is_observed &= jnp.asarray(mask, bool)
    states = jnp.concatenate([jnp.where(is_observed[:, None], z.unary, 0.0) for z in chains], -1)
    return total + _fits(
        stats["contributions"],
        states,
        len(chains),
        jnp.where(is_observed[:, None], y, 0.0),
        is_observed,
    )


def _fits(
    s: Any,
    states: Float[Array, "T MK"],
    num_chains: int,
    y: Float[Array, "T D"],
    mask: Bool[Array, " T"],
) -> Float[Array, ""]:
    """sum_t log N(y_t; W h_t, 1 / tau), where h_t has the one-hot states of all chains. In E[h_t
    h_t']
    the blocks of one chain are diagonal, and the others are products: one quadratic form serves all
    columns, without a T x MK x MK array."""
    pull = jnp.vdot(
        s.precision_times_value, jnp.einsum("td,tk->dk", y, states, precision="highest")
    )
    form = jnp.sum(s.precision_times_outer, 0)
    width = form.shape[0] // num_chains
    off_diagonal = jnp.kron(
        1 - jnp.eye(num_chains, dtype=form.dtype), jnp.ones((width, width), form.dtype)
    )
    between = jnp.einsum("ti,ij,tj->", states, form * off_diagonal, states, precision="highest")
    spread = between + jnp.sum(states, 0) @ jnp.diagonal(form) + s.precision @ jnp.sum(y**2, 0)
    count = jnp.sum(mask, dtype=y.dtype)
    return pull + 0.5 * (count * jnp.sum(s.log_precision - math.log(2 * math.pi)) - spread)


def random_contributions(key: PRNGKeyArray, context: starts.Context) -> Product:
    """Contributions that split mean and variance of each column at random, with all else at its
    prior, so that restarts find different optima. Concentrations are raised by 1, so that all have
    a mode, as points need."""
    y, mask = context.data().data
    y, is_observed = observed_steps(jnp.asarray(y, jnp.result_type(float)))
    mask = (jnp.asarray(mask, bool) & is_observed)[..., None]
    y = jnp.where(mask, y, 0.0)
    count = jnp.maximum(jnp.sum(mask, dtype=y.dtype), 1)
    mean = jnp.sum(y, (0, 1)) / count
    variance = jnp.sum(jnp.where(mask, y - mean[None, None], 0.0) ** 2, (0, 1)) / count
    variance = spread_or_one(jnp.sqrt(variance), mean) ** 2
    prior = context.energy.prior(context.hyper)
    num_chains, width = prior["initial"].batch_shape[0], prior["contributions"].dim
    noise = jax.random.normal(key, (len(mean), width), y.dtype)
    location = mean[:, None] / num_chains + jnp.sqrt(variance / num_chains)[:, None] * noise
    strength = 10.0 * jnp.eye(width, dtype=y.dtype)
    start = MultivariateNormalGamma.from_parameters(
        location, strength, jnp.full_like(variance, 10.0), 10.0 * variance
    )
    soften = lambda q: Dirichlet.from_concentration(q.concentration + 1.0)
    concentrations = {name: soften(prior[name]) for name in ("initial", "transition")}
    return prior.replace({"contributions": start, **concentrations})


def _paths(num_chains: int, num_states: int, group: tuple[Array, Array]) -> dict[str, Any]:
    """Templates of the chains: all paths equally likely."""
    y, mask = group
    dtype, k = jnp.result_type(float), num_states
    flat = MarkovChain(jnp.zeros(k, dtype), jnp.zeros((k, k), dtype), jnp.zeros((len(y), k), dtype))
    return {f"z{m + 1}": flat.with_context(jnp.asarray(mask, bool)) for m in range(num_chains)}


def _check(data: PyTree, dim: int) -> None:
    y, mask = check_pair(data, dim)
    check_values(np.isinf(y), y, mask, "finite numbers, or NaN for a step that was not seen")

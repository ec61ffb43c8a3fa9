"""Hamiltonian Monte Carlo and Metropolis-Hastings for any energy or log density, by `blackjax`.

These samplers share no code with vijax; they judge both the approximations and `reference.gibbs`
(Blei, Kucukelbir and McAuliffe 2017, sections 3.4 and 5). The globals and the locals named by
`sampled` move in unconstrained coordinates; all other locals are integrated out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.checks import require_integers, require_positive
from vijax.contract.model import Model
from vijax.extras import require_extra
from vijax.reference.walk import free_walk, read_groups
from vijax.xla.lapack import guard_lapack


class Chains(NamedTuple):
    """Draws of several chains.

    Attributes:
      globals: values by name, (chains, draws, ...).
      locals: values of the sampled locals, (chains, draws, groups, ...).
      acceptance: mean acceptance probability of each draw, (chains, draws).
      divergent: True for a draw that diverged, (chains, draws); always False for
          Metropolis-Hastings.
    """

    globals: dict[str, Any]
    locals: dict[str, Any]
    acceptance: Float[Array, "chains draws"]
    divergent: Array


def nuts(
    model: Model,
    data: PyTree,
    *,
    key: PRNGKeyArray,
    num_samples: int,
    warmup: int = 500,
    chains: int = 4,
    sampled: Sequence[str] = (),
) -> Chains:
    """Runs the No-U-Turn sampler with blackjax's window adaptation.

    Args:
      model: a model from `vijax.energy_model` (some ready models are), or a log density
          (`vijax.density`).
      data: arrays with one leading axis of groups; for a log density as for `vijax.auto`.
      key: random key of starts and draws.
      num_samples: number of draws of each chain.
      warmup: number of steps of adaptation before the first draw.
      chains: number of chains; all start near the initial posterior of the model.
      sampled: names of locals that are sampled too; the other locals must be such that they can be
          integrated out.

    Raises:
      ValueError: a count below 1, or as for `vijax.reference.log_joint`.
      ImportError: blackjax is missing; the message has the remedy.

    >>> import vijax as vi
    >>> coin = vi.energy_model(
    ...     globals={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)},
    ...     energy=lambda s, y: y * s["bias"].log + (1 - y) * s["bias"].log1m, example=0.0)
    >>> y = jnp.array([1.0, 1.0, 0.0, 1.0])
    >>> draws = nuts(coin, y, key=jax.random.key(0), num_samples=1000).globals["bias"]
    >>> draws.shape, bool(jnp.abs(draws.mean() - 4 / 6) < 0.03)
    ((4, 1000), True)
    """
    blackjax = require_extra("blackjax", "mcmc")
    require_integers(warmup=warmup)

    def run(density: Callable, key: PRNGKeyArray, start: Array) -> tuple[Array, Array, Array]:
        key_warmup, key = jax.random.split(key)
        adaptation = blackjax.window_adaptation(blackjax.nuts, density)
        (state, parameters), _ = adaptation.run(key_warmup, start, num_steps=warmup)
        step = blackjax.nuts(density, **parameters).step

        def move(state: Any, key: PRNGKeyArray) -> tuple[Any, Any]:
            state, info = step(key, state)
            return state, (state.position, info.acceptance_rate, info.is_divergent)

        return jax.lax.scan(move, state, jax.random.split(key, num_samples))[1]

    return _run(model, data, key, num_samples, chains, sampled, run)


def metropolis_hastings(
    model: Model,
    data: PyTree,
    *,
    key: PRNGKeyArray,
    num_samples: int,
    scale: float,
    burn_in: int = 1000,
    thin: int = 1,
    chains: int = 4,
    sampled: Sequence[str] = (),
) -> Chains:
    """Runs random-walk Metropolis-Hastings with normal proposals of standard deviation `scale` in
    each coordinate.

    Args:
      model, data, key, num_samples, chains, sampled: see `nuts`.
      scale: standard deviation of the proposals; an acceptance of about a quarter is best.
      burn_in: number of steps before the first kept draw.
      thin: number of steps from one kept draw to the next.

    Raises:
      ValueError, ImportError: as for `nuts`, or a scale that is not positive.
    """
    blackjax = require_extra("blackjax", "mcmc")
    require_positive(scale=scale)
    require_integers(thin=thin)
    require_integers(0, burn_in=burn_in)

    def run(density: Callable, key: PRNGKeyArray, start: Array) -> tuple[Array, Array, Array]:
        propose = lambda key, x: x + scale * jax.random.normal(key, x.shape, x.dtype)
        kernel = blackjax.rmh(density, propose)

        def move(state: Any, key: PRNGKeyArray) -> tuple[Any, Any]:
            state, info = kernel.step(key, state)
            return state, info.acceptance_rate

        def keep(state: Any, key: PRNGKeyArray) -> tuple[Any, Any]:
            state, rates = jax.lax.scan(move, state, jax.random.split(key, thin))
            return state, (state.position, jnp.mean(rates), jnp.array(False))

        key_burn, key = jax.random.split(key)
        state, _ = jax.lax.scan(move, kernel.init(start), jax.random.split(key_burn, burn_in))
        return jax.lax.scan(keep, state, jax.random.split(key, num_samples))[1]

    return _run(model, data, key, num_samples, chains, sampled, run)


def _run(
    model: Model,
    data: PyTree,
    key: PRNGKeyArray,
    num_samples: int,
    chains: int,
    sampled: Sequence[str],
    run: Callable[[Callable, PRNGKeyArray, Array], tuple[Array, Array, Array]],
) -> Chains:
    """Runs all chains in parallel, in one program."""
    require_integers(num_samples=num_samples, chains=chains)
    key_start, key_noise, key = jax.random.split(key, 3)
    walk = free_walk(model, read_groups(model, data), sampled, key_start)

    @jax.jit
    @guard_lapack
    def run_all(key: PRNGKeyArray, starts: Array) -> Chains:
        keys = jax.random.split(key, chains)
        x, acceptance, divergent = jax.vmap(lambda k, s: run(walk.density, k, s))(keys, starts)
        values, local = jax.vmap(jax.vmap(walk.values))(x)
        return Chains(values, local, acceptance, divergent)

    noise = jax.random.normal(key_noise, (chains, walk.origin.size), walk.origin.dtype)
    return run_all(key, walk.origin + walk.spread * noise)

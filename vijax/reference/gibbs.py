"""Gibbs sampling of any model written as an energy: the exact posterior, slowly, to judge
approximations.

Each variable in turn is drawn from its complete conditional: the member of its family whose natural
parameter is that of the prior plus the gradient of the energy in its statistics (Blei, Kucukelbir
and McAuliffe 2017, section 2.4; Pei 2019, section on Gibbs sampling)."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.checks import require, require_integers
from vijax.contract.batch import Minibatch
from vijax.contract.intake import cast_data
from vijax.contract.model import Model
from vijax.models.energies.energy import NOT_LINEAR, Energy, model_energy
from vijax.xla.lapack import guard_lapack


class Draws(NamedTuple):
    """Draws of a chain.

    Attributes:
      globals: values of the globals by name, with the draws as first axis.
      locals: values of the locals of each group, (draws, groups, ...); None unless they are kept.
    """

    globals: dict[str, Array]
    locals: dict[str, Array] | None


def gibbs(
    model: Model,
    data: PyTree,
    *,
    key: PRNGKeyArray,
    num_samples: int,
    burn_in: int = 100,
    thin: int = 1,
    keep_locals: bool = False,
) -> Draws:
    """Runs one chain of Gibbs sampling; `jax.vmap` over keys runs several.

    Args:
      model: a model from `vijax.energy_model`; some ready models are such energies.
      data: arrays with one leading axis of groups.
      key: random key of the chain.
      num_samples: number of draws that are kept.
      burn_in: number of sweeps before the first kept draw.
      thin: number of sweeps from one kept draw to the next.
      keep_locals: True to keep the draws of the locals too.

    Raises:
      ValueError: the model is not an energy, one of its locals is a plate of coupled entries, or a
          count is out of range.

    >>> import vijax as vi
    >>> coin = vi.energy_model(
    ...     globals={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)},
    ...     energy=lambda s, y: y * s["bias"].log + (1 - y) * s["bias"].log1m, example=0.0)
    >>> draws = gibbs(coin, jnp.array([1.0, 1.0, 0.0, 1.0]), key=jax.random.key(0), num_samples=2000)
    >>> bool(jnp.abs(draws.globals["bias"].mean() - 4 / 6) < 0.02)
    True
    """
    spec = model_energy(model)
    plates = list(spec.plates)
    expected = "locals whose entries are independent given the rest"
    require(not plates, "model", expected, f"the coupled plates {plates}")
    reason = model.queries.get(NOT_LINEAR)
    require(reason is None, "model", "an energy linear in statistics", reason)
    spec.check_groups(data, model.hyper)
    require_integers(num_samples=num_samples, thin=thin)
    require_integers(0, burn_in=burn_in)
    return _chain(model, num_samples, burn_in, thin, keep_locals, cast_data(model, data), key)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
@guard_lapack
def _chain(
    model: Model,
    num_samples: int,
    burn_in: int,
    thin: int,
    keep_locals: bool,
    data: PyTree,
    key: PRNGKeyArray,
) -> Draws:
    spec = model_energy(model)
    data = jax.tree.map(jnp.asarray, data)
    batch = Minibatch(data, None)
    hyper = tree.as_arrays(model.hyper)
    key_start, key_globals, key_locals, key = jax.random.split(key, 4)
    posterior = model.init(hyper, key_start, spec.prior(hyper), batch)
    mean_locals = lambda y: {name: q.expected_stats() for name, q in spec.locals(y).items()}
    stats, local = posterior.sample_stats(key_globals), jax.vmap(mean_locals)(data)
    state, _ = _draw_locals(spec, hyper, data, stats, local, key_locals)

    def burn(i: Array, state: Any) -> Any:
        return sweep(spec, hyper, data, state, jax.random.fold_in(key, i))[0]

    def keep(state: Any, i: Array) -> Any:
        last = i + thin - 1
        state = jax.lax.fori_loop(i, last, burn, state)
        state, values, locals_ = sweep(spec, hyper, data, state, jax.random.fold_in(key, last))
        return state, (values, locals_ if keep_locals else None)

    state = jax.lax.fori_loop(0, burn_in, burn, state)
    _, draws = jax.lax.scan(keep, state, burn_in + thin * jnp.arange(num_samples))
    return Draws(*draws)


def sweep(
    spec: Energy, hyper: Any, data: PyTree, state: Any, key: PRNGKeyArray
) -> tuple[Any, dict, dict]:
    """Draws every global, then every local, from its complete conditional. `state` has the
    statistics of the globals and of the locals. Returns the new state, the values of the globals
    and the values of the locals."""
    key_globals, key_locals = jax.random.split(key)
    stats, local = state
    stats, values = _draw_globals(spec, hyper, data, stats, local, key_globals)
    state, local_values = _draw_locals(spec, hyper, data, stats, local, key_locals)
    return state, values, local_values


def _draw_globals(
    spec: Energy, hyper: Any, data: PyTree, stats: dict, local: dict, key: PRNGKeyArray
) -> tuple[dict, dict]:
    """New statistics and values of the globals."""

    def log_joint(stats: dict) -> Float[Array, ""]:
        terms = jax.vmap(lambda y, z: spec.fn({**stats, **z}, y, hyper))(data, local)
        coupling = 0.0 if spec.prior_fn is None else spec.prior_fn(stats, hyper)
        return jnp.sum(terms) + coupling

    prior = spec.prior(hyper)
    stats, values = dict(stats), {}
    for block in spec.global_blocks:
        key, key_block = jax.random.split(key)
        message = prior.with_naturals(jax.grad(log_joint)(stats)).only(block)
        conditional = tree.add(prior.only(block), message)
        # One key: the value and its statistics, whose logarithms do not underflow, are one draw.
        values.update(conditional.sample(key_block))
        stats.update(conditional.sample_stats(key_block))
    return stats, values


def _draw_locals(
    spec: Energy, hyper: Any, data: PyTree, stats: dict, local: dict, key: PRNGKeyArray
) -> tuple[Any, dict]:
    """The new state, and the values of the locals."""

    def draw_group(group: PyTree, local: dict, key: PRNGKeyArray) -> tuple[dict, dict]:
        local, values = dict(local), {}
        for block in spec.local_blocks:
            for name, q in spec.conditionals(block, {**stats, **local}, group, hyper).items():
                key, key_draw = jax.random.split(key)
                values[name] = q.sample(key_draw)
                local[name] = q.stats(values[name])
        return local, values

    keys = jax.random.split(key, jax.tree.leaves(data)[0].shape[0])
    local, values = jax.vmap(draw_group)(data, local, keys)
    return (stats, local), values

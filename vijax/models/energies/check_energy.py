"""The check of an energy against a log density, at random values of all variables."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.checks import require, require_integers
from vijax.contract.intake import cast_data
from vijax.contract.model import Hyper, Model
from vijax.models.energies.energy import Energy, model_energy
from vijax.xla.lapack import guard_lapack

CLOSE = 1e-3
"""Largest difference, in nats, and relative to the size of the energy: float32 does not hold sums
of large terms any better."""
GROUPS = 8
"""Most groups that are checked."""


def check_energy(
    model: Model,
    log_density: Callable[[Mapping[str, Any], PyTree], Any],
    data: PyTree,
    *,
    key: PRNGKeyArray,
    num_draws: int = 4,
    hyper: Hyper | None = None,
) -> None:
    """Compares the energy of a model with a log density as in a textbook, at random values of all
    variables.

    An energy leaves out the base measures of its locals, and is a function of sufficient
    statistics. A wrong term is easy to write, and no fit shows it. A gamma local has `shape *
    s["z"].log` in its energy; with `(shape - 1) * s["z"].log`, as in the density of a gamma, it
    would be a gamma with another shape.

    Args:
      model: made by `vijax.energy_model`, without `joint` locals.
      log_density: `log_density(values, group)`, log p(data and locals of one group | globals): a
        number. `values[name]` are the values of globals and locals, not their statistics. It does
        not include the priors of the globals.
      data: as `vijax.fit` takes them; the first 8 groups are checked.
      key: random key of the values: globals are drawn from their priors, locals from their
          templates.
      num_draws: number of values at which each group is checked.
      hyper: hyperparameters; None takes those of the model.

    Raises:
      ValueError: the two differ. The message states the difference, and if it is the base measure
        of a local, which the energy must not have, or the same number everywhere, which only shifts
        the bound.

    >>> import vijax as vi
    >>> from jax.scipy.stats import gamma, poisson
    >>> def energy(s, y):  # z ~ Gamma(2, b), y ~ Poisson(z)
    ...     own = 2.0 * (s["b"].log + s["z"].log) - s["b"].value * s["z"].value
    ...     return own + y * s["z"].log - s["z"].value - jax.scipy.special.gammaln(y + 1)
    >>> model = vi.energy_model(
    ...     globals={"b": vi.Gamma.from_shape_rate(2.0, 1.0)}, energy=energy, example=0.0,
    ...     locals={"z": vi.Gamma.from_shape_rate(2.0, 1.0)})
    >>> textbook = lambda v, y: gamma.logpdf(v["z"], 2.0, scale=1 / v["b"]) + poisson.logpmf(y, v["z"])
    >>> vi.check_energy(model, textbook, jnp.array([0.0, 3.0]), key=jax.random.key(0))  # says nothing: they agree
    """
    spec = model_energy(model)
    require_integers(num_draws=num_draws)
    settings = tree.as_arrays(model.hyper if hyper is None else hyper)
    spec.check_groups(data, settings)
    groups = jax.tree.map(lambda x: jnp.asarray(x)[:GROUPS], cast_data(model, data))
    size = int(jax.tree.leaves(groups)[0].shape[0])

    def compare_group(key: PRNGKeyArray, group: PyTree) -> tuple[Any, ...]:
        values, stats, base = _draw_values(model, settings, group, key)
        density = jnp.asarray(log_density(values, group), float)
        return (
            spec.possible(stats, group, settings),
            _impossible(spec, stats, group, settings),
            density,
            base,
        )

    keys = jax.random.split(key, (num_draws, size))
    energies, counts, densities, base = jax.jit(
        guard_lapack(jax.vmap(jax.vmap(compare_group), (0, None)))
    )(keys, groups)
    shape = densities.shape
    remedy = "Sum over its terms: jnp.sum(...)."
    is_scalar = shape == (num_draws, size)
    require(is_scalar, "log_density", "a number for each group", f"shape {shape[2:]}", remedy)
    measures = {name: np.asarray(x, np.float64) for name, x in base.items()}
    _compare(
        np.asarray(energies, np.float64),
        np.asarray(counts),
        np.asarray(densities, np.float64),
        measures,
    )


def _draw_values(
    model: Model, hyper: Hyper, group: PyTree, key: PRNGKeyArray
) -> tuple[Any, Any, dict[str, Array]]:
    """Values of all variables by name, their statistics, and the log base measures of the
    locals."""
    key_globals, key_locals = jax.random.split(key)
    prior, locals_ = model.prior(hyper), model_energy(model).locals(group)
    free_draw = prior.sample(key_globals)
    global_values = free_draw
    if model.free is not None:
        draws = jax.tree.map(lambda x: x[None], dict(free_draw))
        global_values = jax.tree.map(lambda x: x[0], model.free.values(hyper, draws))
    keys = jax.random.split(key_locals, max(1, len(locals_)))
    local_values = {name: q.sample(k) for (name, q), k in zip(locals_.items(), keys, strict=False)}
    local_stats = {name: q.stats(local_values[name]) for name, q in locals_.items()}
    base = {name: jnp.sum(q.log_base_measure(local_stats[name])) for name, q in locals_.items()}
    return {**global_values, **local_values}, {**prior.stats(free_draw), **local_stats}, base


def _impossible(spec: Energy, stats: Any, group: PyTree, hyper: Hyper) -> Float[Array, ""]:
    """The number of impossible events."""
    if spec.impossible is None:
        return jnp.zeros(())
    return spec.impossible(stats, group, hyper)


def _compare(
    energies: np.ndarray, counts: np.ndarray, densities: np.ndarray, base: dict[str, np.ndarray]
) -> None:
    """Raises ValueError unless energy and base measures sum to the density."""
    impossible = counts > 0.5
    wrong = impossible & np.isfinite(densities)
    expected = "no impossible event where log_density is finite"
    require(~wrong, "impossible", expected, f"{counts[wrong][:1]} events")
    total = energies + sum(base.values())
    ok = CLOSE * (1 + np.maximum(np.abs(energies), np.abs(densities)))
    gap = np.where(impossible, 0.0, total - densities)
    if np.all(np.abs(gap) < ok):
        return
    expected = (
        "log p(data and locals | globals) less the base measures of the locals, as log_density "
        "gives it"
    )
    place = np.unravel_index(np.nanargmax(np.where(np.isnan(gap), np.inf, np.abs(gap))), gap.shape)
    actual = (
        f"one that is larger by {gap[place]:.4g} nats at a draw of the variables (group {place[1]})"
    )
    require(False, "energy", expected, actual, _reason(gap, ok, base))


def _reason(gap: np.ndarray, ok: np.ndarray, base: dict[str, np.ndarray]) -> str:
    """The reason of the difference, if it is a known one, and a remedy."""
    if np.ptp(gap) < 2 * np.max(ok):
        return (
            "The difference is the same everywhere: the bound is off by it in each group, and "
            "posteriors are right."
        )
    for names in _subsets(list(base)):
        if np.all(np.abs(gap - sum(base[name] for name in names)) < 2 * ok):
            measures = "base measure" + ("s" if len(names) > 1 else "")
            return (
                f"It has the {measures} of {', '.join(map(repr, names))}, which the family adds: "
                "leave it out. "
                "A family's docstring states log h, and family.energy_term(s[name]) is the term "
                "of a local of that law."
            )
    return (
        "Compare it term by term; a family's docstring states its base measure and its statistics."
    )


def _subsets(names: list[str]) -> Iterator[tuple[str, ...]]:
    return itertools.chain.from_iterable(
        itertools.combinations(names, n) for n in range(1, len(names) + 1)
    )

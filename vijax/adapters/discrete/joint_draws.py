"""Joint draws of discrete sites given the continuous ones and the data.

The slopes of the summed density in log weights of values are probabilities of single sites
(`vijax.adapters.numpyro_discrete`). Where all weight is on the values of some sites, they are
probabilities given these. So sites are drawn in turn, each given those before it:

- Sites in few plates come before those in more. Rows of a plate are then independent, and are drawn
  together: no site outside of a plate depends on sites inside.
- Of a chain (`scan`) the step in the middle is drawn first, then those in the middle of each half
  given it, and so on: T steps take some log2 T turns. With a longer `history` the steps are drawn
  one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int, PRNGKeyArray

from vijax.adapters.numpyro_discrete import PENALTY, Enumeration, Values
from vijax.adapters.numpyro_handlers import longest_history
from vijax.adapters.numpyro_sites import deterministic, is_in_scan
from vijax.checks import check_key, require, require_integers
from vijax.contract.variables import Z
from vijax.extras import require_extra
from vijax.fitting.result import Fit
from vijax.predict.predictive import draw_coordinates
from vijax.xla.compiler import cached_program, quick_jit

AT_ONCE = 32
"""Draws that are made side by side."""
Masks = dict[str, Bool[np.ndarray, "turns *shape"]]
"""The entries of each discrete site that a turn draws."""


def sample_discrete(fit: Fit, key: PRNGKeyArray, num_draws: int = 1000) -> dict[str, Any]:
    """Draws of all sites of a NumPyro model whose discrete sites were summed out: those of
    `fit.sample`, with discrete sites drawn jointly given them and the data, and deterministic sites
    of both.

    Raises:
      ValueError: the fit is of no model by `vijax.from_numpyro` with discrete sites; `num_draws`
        is no positive integer.

    >>> import pytest, vijax as vi
    >>> numpyro, _ = pytest.importorskip("numpyro"), pytest.importorskip("funsor")
    >>> def story(y):
    ...     mean = numpyro.sample("mean", numpyro.distributions.Normal(2.0, 1.0))
    ...     with numpyro.plate("rows", len(y)):
    ...         z = numpyro.sample("z", numpyro.distributions.Bernoulli(0.5))
    ...         numpyro.sample("y", numpyro.distributions.Normal(mean * z, 0.5), obs=y)
    >>> model = vi.from_numpyro(story, np.array([-0.1, 1.9, 2.2]))
    >>> fit = vi.fit(vi.ngvi(model), key=jax.random.key(0), num_steps=20)
    >>> print(sample_discrete(fit, jax.random.key(1), 500)["z"].mean(0).round(1))
    [0. 1. 1.]
    """
    answer = fit.alg.spec.model.queries.get("discrete draws")
    remedy = "fit.sample(key, num_draws) draws the unknowns of other models."
    expected = "one of a NumPyro model whose discrete sites were summed out"
    require(answer is not None, "fit", expected, "another", remedy)
    assert answer is not None
    check_key(key)
    require_integers(num_draws=num_draws)
    return answer(fit, key, num_draws)


def draw_all_sites(
    enumeration: Enumeration, fit: Fit, key: PRNGKeyArray, num_draws: int
) -> dict[str, Any]:
    """See `sample_discrete`."""
    model = fit.alg.spec.model
    first_key, second_key = jax.random.split(key)
    z = draw_coordinates(fit.posterior[Z], first_key, num_draws)

    def bind(density_ref: Any) -> Callable[..., Any]:
        def draw(hyper: Any, z: Any, key: Any) -> dict[str, Any]:
            density = density_ref()
            values = density.values_and_derived(density.point(hyper, z))
            return density.visible({**values, **draw_sites(enumeration, values, key)})

        def draw_many(hyper: Any, z: Any, keys: Any) -> dict[str, Any]:
            return jax.lax.map(lambda pair: draw(hyper, *pair), (z, keys), batch_size=AT_ONCE)

        return quick_jit(draw_many)

    program = cached_program(model.log_density, "discrete draws", bind)
    keys = jax.random.split(second_key, num_draws)
    return jax.tree.map(np.asarray, program(fit.state.hyper, z, keys))


def draw_sites(enumeration: Enumeration, values: Values, key: PRNGKeyArray) -> dict[str, Any]:
    """The discrete sites drawn given all others, and the deterministic sites."""
    values = {name: x for name, x in values.items() if name in enumeration.sample_names}
    places = _draw_places(enumeration, values, key)
    discrete_values = enumeration.choose_values(places)
    handlers = require_extra("numpyro.handlers", "numpyro")
    substituted = handlers.substitute(enumeration.model, data={**values, **discrete_values})
    sites = handlers.trace(handlers.seed(substituted, 0)).get_trace()
    return discrete_values | {name: sites[name]["value"] for name in deterministic(sites)}


def _draw_places(
    enumeration: Enumeration, values: Values, key: PRNGKeyArray
) -> dict[str, Int[Any, "*shape"]]:
    """Numbers of values of the discrete sites in their supports."""
    shapes = enumeration.shapes
    slopes_at = jax.grad(enumeration.log_density, argnums=1)

    def turn(state: Any, masks: Any) -> Any:
        places, weights, key = state
        key, *site_keys = jax.random.split(key, len(shapes) + 1)
        slopes = slopes_at(values, weights)
        new_places, new_weights = {}, {}
        for name, site_key in zip(shapes, site_keys, strict=True):
            draws = jax.random.categorical(site_key, jnp.log(jnp.maximum(slopes[name], 0.0)))
            mask = masks[name]
            new_places[name] = jnp.where(mask, draws, places[name])
            is_other = jnp.arange(shapes[name][-1]) != draws[..., None]
            chosen_weights = jnp.where(is_other, -PENALTY, 0.0)
            new_weights[name] = jnp.where(mask[..., None], chosen_weights, weights[name])
        return (new_places, new_weights, key), None

    start = {name: jnp.zeros(shape[:-1], int) for name, shape in shapes.items()}
    dtype = jnp.result_type(float)
    no_weights = {name: jnp.zeros(shape, dtype) for name, shape in shapes.items()}
    (places, _, _), _ = jax.lax.scan(turn, (start, no_weights, key), turns_of_sites(enumeration))
    return places


# --- turns ----------------------------------------------------------------------------------------
def turns_of_sites(enumeration: Enumeration) -> Masks:
    """The entries of discrete sites that are drawn at each turn."""
    shapes = {name: shape[:-1] for name, shape in enumeration.shapes.items()}
    steps = {name: is_in_scan(enumeration.sites[name]) for name in shapes}
    rank = lambda name: len(shapes[name]) - steps[name]
    turns: list[tuple[str, Any]] = []
    for size in sorted({rank(name) for name in shapes}):
        names = [name for name in shapes if rank(name) == size]
        turns += [(name, ...) for name in names if not steps[name]]
        chains = [name for name in names if steps[name]]
        for length in sorted({shapes[name][0] for name in chains}):
            of_length = [name for name in chains if shapes[name][0] == length]
            for rows in _steps_in_turn(length, longest_history(enumeration.model)):
                turns += [(name, rows) for name in of_length]
    masks = {name: np.zeros((len(turns), *shape), bool) for name, shape in shapes.items()}
    for i, (name, rows) in enumerate(turns):
        masks[name][i, rows] = True
    return masks


def _steps_in_turn(length: int, history: int) -> list[list[int]]:
    """The steps of a chain that are drawn at each turn.

    >>> _steps_in_turn(6, 1)
    [[2], [0, 4], [1, 3, 5]]
    """
    if history > 1:
        return [[step] for step in range(length)]
    turns = []
    gaps = [(0, length)]
    while gaps:
        middles = [(low + high - 1) // 2 for low, high in gaps]
        turns.append(middles)
        halves = [
            half
            for (low, high), middle in zip(gaps, middles, strict=True)
            for half in ((low, middle), (middle + 1, high))
        ]
        gaps = [(low, high) for low, high in halves if low < high]
    return turns

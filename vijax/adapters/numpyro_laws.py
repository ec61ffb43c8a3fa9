"""The laws of the sites of a NumPyro model given others, from which `vijax.auto` takes its
coordinates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from vijax.adapters import laws
from vijax.contract.variables import Law
from vijax.extras import require_extra
from vijax.models.energies.coordinates import Visit

Sites = Mapping[str, Mapping[str, Any]]


def _walk(law: Any) -> Law:
    """A random walk that begins at zero."""
    scale = jnp.broadcast_to(
        jnp.asarray(law.scale)[..., None], (*jnp.shape(law.scale), law.num_steps)
    )
    return laws.sums(Law(jnp.zeros_like(scale), scale))


def _field(law: Any) -> Law:
    adjacency = law.adj_matrix.todense() if law.is_sparse else law.adj_matrix
    return laws.field(law.loc, adjacency, law.correlation, law.conditional_precision)


LAWS: dict[str, Callable[[Any], Law]] = {
    "Normal": lambda law: laws.normal(law.loc, law.scale),
    "StudentT": lambda law: laws.student(law.df, law.loc, law.scale),
    "Laplace": lambda law: laws.laplace(law.loc, law.scale),
    "Logistic": lambda law: laws.logistic(law.loc, law.scale),
    "Cauchy": lambda law: laws.cauchy(law.loc, law.scale),
    "Gumbel": lambda law: laws.gumbel(law.loc, law.scale),
    "LogNormal": lambda law: laws.normal(law.loc, law.scale),
    "HalfNormal": lambda law: laws.half_normal(law.scale),
    "HalfCauchy": lambda law: laws.half_cauchy(law.scale),
    "Exponential": lambda law: laws.exponential(1 / law.rate),
    "Gamma": lambda law: laws.gamma(law.concentration, 1 / law.rate),
    "InverseGamma": lambda law: laws.inverse_gamma(law.concentration, law.rate),
    "Weibull": lambda law: laws.weibull(law.concentration, law.scale),
    "Beta": lambda law: laws.beta(law.concentration1, law.concentration0),
    "MultivariateNormal": lambda law: laws.normal(law.loc, law.scale_tril),
    "GaussianRandomWalk": _walk,
    "CAR": _field,
}
"""Mean and standard deviation, or the factor of the covariance, of the free coordinates of a value,
by distribution."""


FULL = ("MultivariateNormal", "GaussianRandomWalk", "CAR")
"""Those whose entries along the last axis depend on each other."""


def law_of(fn: Any, shape: tuple[int, ...]) -> Law | None:
    """The law of the free coordinates of a site with values of this shape; None where it is none of
    `LAWS`, or is of another number of coordinates."""
    while type(fn).__name__ in ("Independent", "ExpandedDistribution", "MaskedDistribution"):
        fn = fn.base_dist
    kind = type(fn).__name__
    if kind not in LAWS:
        return None
    law = LAWS[kind](fn)
    try:
        loc = jnp.broadcast_to(law.loc, shape)
        of_scale = (*shape, shape[-1]) if kind in FULL else shape
        return Law(loc, jnp.broadcast_to(law.scale, of_scale))
    except ValueError:
        return None


def _law_at(site: Mapping[str, Any]) -> Law | None:
    return law_of(site["fn"], tuple(site["fn"].shape()))


def levels_of(
    run: Callable[[Mapping[str, Any]], Sites], runs: list[Sites], names: list[str]
) -> tuple[tuple[str, ...], ...]:
    """The sites whose law depends on other sites, by depth.

    Args:
      run: values of some sites -> all sites, the others as they are in the first of the runs.
      runs: the sites at several random values.
      names: of the unknown sites.
    """
    first, other = runs[0], runs[1]
    own = {name: _law_at(first[name]) for name in names}
    moved = {
        name
        for name in names
        if own[name] is not None and _differs(own[name], _law_at(other[name]))
    }
    if not moved:
        return ()
    depends: dict[str, set[str]] = {name: set() for name in moved}
    for parent in moved:
        sites = run({parent: other[parent]["value"]})
        for name in moved - {parent}:
            if _differs(own[name], _law_at(sites[name])):
                depends[name].add(parent)
    levels: list[tuple[str, ...]] = []
    left = [name for name in names if name in moved]
    while left:
        level = tuple(name for name in left if not depends[name] & set(left))
        if not level:
            return ()
        levels.append(level)
        left = [name for name in left if name not in level]
    return tuple(levels)


def _differs(one: Law | None, other: Law | None) -> bool:
    if one is None or other is None:
        return False
    pairs = zip(one, other, strict=True)
    return any(
        np.shape(a) != np.shape(b) or not np.array_equal(np.asarray(a), np.asarray(b))
        for a, b in pairs
    )


def walk_of(
    model: Callable[[], Any], levels: tuple[tuple[str, ...], ...]
) -> Callable[[Visit], None]:
    """Visits the unknown sites of a model in the order in which it draws them."""
    handlers = require_extra("numpyro.handlers", "numpyro")
    with_law = {name for level in levels for name in level}

    def walk(visit: Visit) -> None:
        def value(site: Mapping[str, Any]) -> Any:
            if site["type"] != "sample" or site["is_observed"]:
                return None
            return visit(site["name"], _law_at(site) if site["name"] in with_law else None)

        with handlers.block():
            handlers.substitute(model, substitute_fn=value)()

    return walk

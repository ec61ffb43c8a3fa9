"""The laws of the sites of a NumPyro model given others, from which `vijax.auto` takes its coordinates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, polygamma

from vijax.contract.variables import Law
from vijax.extras import require_extra
from vijax.models.energies.coordinates import Visit

Sites = Mapping[str, Mapping[str, Any]]
EULER = float(np.euler_gamma)
LOG_HALF_NORMAL = -0.5 * (EULER + float(np.log(2))), float(np.pi / np.sqrt(8))
"""Mean and standard deviation of the logarithm of |z|, z normal."""
HEAVY = 2.0
"""Standard deviations taken for a law of scale 1 that has none."""


def _student(law: Any) -> Law:
    df = jnp.asarray(law.df)
    has_sd = df > 2.5
    return Law(law.loc, law.scale * jnp.where(has_sd, jnp.sqrt(df / jnp.where(has_sd, df - 2, 1.0)), HEAVY))


def _gamma(law: Any) -> Law:
    return Law(digamma(law.concentration) - jnp.log(law.rate), jnp.sqrt(polygamma(1, law.concentration)))


def _inverse_gamma(law: Any) -> Law:
    return Law(jnp.log(law.rate) - digamma(law.concentration), jnp.sqrt(polygamma(1, law.concentration)))


def _beta(law: Any) -> Law:
    a, b = law.concentration1, law.concentration0
    return Law(digamma(a) - digamma(b), jnp.sqrt(polygamma(1, a) + polygamma(1, b)))


def _weibull(law: Any) -> Law:
    k = law.concentration
    return Law(jnp.log(law.scale) - EULER / k, np.pi / (np.sqrt(6) * k))


def _walk(law: Any) -> Law:
    """A random walk that begins at zero: sums of steps."""
    return Law(0.0, jnp.asarray(law.scale)[..., None, None] * jnp.tril(jnp.ones((law.num_steps, law.num_steps))))


def _field(law: Any) -> Law:
    """A conditional autoregression: the factor of its covariance, from its precision."""
    adjacency = jnp.asarray(law.adj_matrix.todense() if law.is_sparse else law.adj_matrix)
    weights = jnp.diag(adjacency.sum(-1)) - jnp.asarray(law.correlation)[..., None, None] * adjacency
    precision = jnp.asarray(law.conditional_precision)[..., None, None] * weights
    return Law(law.loc, jnp.linalg.cholesky(jnp.linalg.inv(precision)))


LAWS: dict[str, Callable[[Any], Law]] = {
    "Normal": lambda law: Law(law.loc, law.scale),
    "StudentT": _student,
    "Laplace": lambda law: Law(law.loc, np.sqrt(2) * law.scale),
    "Logistic": lambda law: Law(law.loc, np.pi / np.sqrt(3) * law.scale),
    "Cauchy": lambda law: Law(law.loc, HEAVY * law.scale),
    "Gumbel": lambda law: Law(law.loc + EULER * law.scale, np.pi / np.sqrt(6) * law.scale),
    "LogNormal": lambda law: Law(law.loc, law.scale),
    "HalfNormal": lambda law: Law(jnp.log(law.scale) + LOG_HALF_NORMAL[0], LOG_HALF_NORMAL[1]),
    "HalfCauchy": lambda law: Law(jnp.log(law.scale), np.pi / 2),
    "Exponential": lambda law: Law(-jnp.log(law.rate) - EULER, np.pi / np.sqrt(6)),
    "Gamma": _gamma,
    "InverseGamma": _inverse_gamma,
    "Weibull": _weibull,
    "Beta": _beta,
    "MultivariateNormal": lambda law: Law(law.loc, law.scale_tril),
    "GaussianRandomWalk": _walk,
    "CAR": _field,
}
"""Mean and standard deviation, or the factor of the covariance, of the free coordinates of a value, by distribution."""


FULL = ("MultivariateNormal", "GaussianRandomWalk", "CAR")
"""Those whose entries along the last axis depend on each other."""


def law_of(fn: Any, shape: tuple[int, ...]) -> Law | None:
    """The law of the free coordinates of a site with values of this shape; None where it is none of `LAWS`, or is of
    another number of coordinates."""
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
    laws = {name: _law_at(first[name]) for name in names}
    moved = {name for name in names if laws[name] is not None and _differs(laws[name], _law_at(other[name]))}
    if not moved:
        return ()
    depends: dict[str, set[str]] = {name: set() for name in moved}
    for parent in moved:
        sites = run({parent: other[parent]["value"]})
        for name in moved - {parent}:
            if _differs(laws[name], _law_at(sites[name])):
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
    return any(np.shape(a) != np.shape(b) or not np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


def walk_of(model: Callable[[], Any], levels: tuple[tuple[str, ...], ...]) -> Callable[[Visit], None]:
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

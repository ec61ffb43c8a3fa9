"""The conditional laws of the sites of a NumPyro model given other sites; `vijax.auto` chooses its
coordinates by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from vijax.adapters import laws as formulas
from vijax.contract.variables import Law
from vijax.extras import require_extra
from vijax.models.energies.coordinates import Visit

Sites = Mapping[str, Mapping[str, Any]]


def _walk(law: Any) -> Law:
    """A random walk that begins at zero."""
    scale = jnp.broadcast_to(
        jnp.asarray(law.scale)[..., None], (*jnp.shape(law.scale), law.num_steps)
    )
    return formulas.sums(Law(jnp.zeros_like(scale), scale))


def _field(law: Any) -> Law:
    adjacency = law.adj_matrix.todense() if law.is_sparse else law.adj_matrix
    return formulas.field(law.loc, adjacency, law.correlation, law.conditional_precision)


LAWS: dict[str, Callable[[Any], Law]] = {
    "Normal": lambda law: formulas.normal(law.loc, law.scale),
    "StudentT": lambda law: formulas.student(law.df, law.loc, law.scale),
    "Laplace": lambda law: formulas.laplace(law.loc, law.scale),
    "Logistic": lambda law: formulas.logistic(law.loc, law.scale),
    "Cauchy": lambda law: formulas.cauchy(law.loc, law.scale),
    "Gumbel": lambda law: formulas.gumbel(law.loc, law.scale),
    "LogNormal": lambda law: formulas.normal(law.loc, law.scale),
    "HalfNormal": lambda law: formulas.half_normal(law.scale),
    "HalfCauchy": lambda law: formulas.half_cauchy(law.scale),
    "Exponential": lambda law: formulas.exponential(1 / law.rate),
    "Gamma": lambda law: formulas.gamma(law.concentration, 1 / law.rate),
    "InverseGamma": lambda law: formulas.inverse_gamma(law.concentration, law.rate),
    "Weibull": lambda law: formulas.weibull(law.concentration, law.scale),
    "Beta": lambda law: formulas.beta(law.concentration1, law.concentration0),
    "MultivariateNormal": lambda law: formulas.normal(law.loc, law.scale_tril),
    "GaussianRandomWalk": _walk,
    "CAR": _field,
}
"""Functions from a distribution to the law of the free coordinates of its values: their mean, and
their standard deviation or a factor of their covariance."""


FULL = ("MultivariateNormal", "GaussianRandomWalk", "CAR")
"""Distributions whose entries along the last axis depend on each other."""


def read_law(fn: Any, shape: tuple[int, ...]) -> Law | None:
    """The law of the free coordinates of a site with values of this shape; None if it is none of
    `LAWS`, or has another number of coordinates."""
    while type(fn).__name__ in ("Independent", "ExpandedDistribution", "MaskedDistribution"):
        fn = fn.base_dist
    kind = type(fn).__name__
    if kind not in LAWS:
        return None
    law = LAWS[kind](fn)
    try:
        loc = jnp.broadcast_to(law.loc, shape)
        scale_shape = (*shape, shape[-1]) if kind in FULL else shape
        return Law(loc, jnp.broadcast_to(law.scale, scale_shape))
    except ValueError:
        return None


def _site_law(site: Mapping[str, Any]) -> Law | None:
    return read_law(site["fn"], tuple(site["fn"].shape()))


def find_levels(
    run: Callable[[Mapping[str, Any]], Sites], runs: list[Sites], names: list[str]
) -> tuple[tuple[str, ...], ...]:
    """The sites whose law depends on other sites, by depth.

    Args:
      run: a function from values of some sites to all sites; sites without a value have the value
        of the first run.
      runs: the sites at several random values.
      names: names of the unknown sites.
    """
    first, second = runs[0], runs[1]
    laws = {name: _site_law(first[name]) for name in names}
    dependent = {name for name in names if _differ(laws[name], _site_law(second[name]))}
    if not dependent:
        return ()
    parents: dict[str, set[str]] = {name: set() for name in dependent}
    for parent in dependent:
        sites = run({parent: second[parent]["value"]})
        for name in dependent - {parent}:
            if _differ(laws[name], _site_law(sites[name])):
                parents[name].add(parent)
    return _sort_by_depth([name for name in names if name in dependent], parents)


def varying_laws(variations: list[Sites], names: list[str]) -> set[str]:
    """Names of the sites whose laws are not the same in all runs."""
    laws = [{name: _site_law(sites[name]) for name in names} for sites in variations]
    return {name for name in names if any(_differ(laws[0][name], x[name]) for x in laws[1:])}


def _sort_by_depth(names: list[str], parents: dict[str, set[str]]) -> tuple[tuple[str, ...], ...]:
    """Names in levels, each after the levels of its parents; () if the parents form a cycle."""
    levels: list[tuple[str, ...]] = []
    while names:
        level = tuple(name for name in names if not parents[name] & set(names))
        if not level:
            return ()
        levels.append(level)
        names = [name for name in names if name not in level]
    return tuple(levels)


def _differ(first: Law | None, second: Law | None) -> bool:
    """True where both laws are known and have other numbers."""
    if first is None or second is None:
        return False
    return any(
        np.shape(a) != np.shape(b) or not np.array_equal(np.asarray(a), np.asarray(b))
        for a, b in zip(first, second, strict=True)
    )


def make_walk(
    model: Callable[[], Any], levels: tuple[tuple[str, ...], ...]
) -> Callable[[Visit], None]:
    """A function that visits the unknown sites of a model in the order in which it draws them."""
    handlers = require_extra("numpyro.handlers", "numpyro")
    with_law = {name for level in levels for name in level}

    def walk(visit: Visit) -> None:
        def value(site: Mapping[str, Any]) -> Any:
            if site["type"] != "sample" or site["is_observed"]:
                return None
            law = _site_law(site) if site["name"] in with_law else None
            return visit(site["name"], law)

        with handlers.block():
            handlers.substitute(model, substitute_fn=value)()

    return walk

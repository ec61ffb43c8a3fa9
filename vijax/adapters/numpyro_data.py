"""The data of a NumPyro model, looked at before it is fitted: missing values and impossible ones
are named by site."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from vijax.checks import require
from vijax.extras import require_extra

Site = Mapping[str, Any]
REMEDY = (
    "Leave these rows out, in all arguments; or leave them out of the density alone, by "
    "numpyro.handlers.mask(mask=...) around the site; or make the missing values unknowns, in a "
    "numpyro.sample of "
    "their own."
)


def check_observed(runs: Sequence[Mapping[str, Site]], missing: Sequence[str]) -> None:
    """Raises ValueError naming an observed site that has no density in any of several runs: of
    missing data, of data outside of its support, of parameters that are not numbers.

    Args:
      runs: the sites of each run.
      missing: arguments of the model that hold missing values, in words.
    """
    for name, site in runs[0].items():
        if site["type"] == "sample" and site["is_observed"]:
            _check_site(name, [run[name] for run in runs if name in run], missing)


def check_missing_as_unknown(sites: Mapping[str, Site]) -> None:
    """Raises ValueError at a site with `obs_mask`: NumPyro makes an unknown of every row, and gives
    a density to those that are missing alone. The density of all is improper."""
    for name in sites:
        whole = name.removesuffix("_unobserved")
        require(
            whole == name or f"{whole}_observed" not in sites,
            f"model: site {whole!r}",
            "no obs_mask, which leaves unknowns without a density in all rows that are not missing",
            "one",
            "Sample the rows that are there with obs=y[mask]; and the missing ones, if you want "
            "them, as another site.",
        )


def missing_in(
    model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[str]:
    """The arguments of a model that hold values that are not numbers, and where, in words."""
    try:
        names = list(inspect.signature(model).parameters)
    except (TypeError, ValueError):
        names = []
    called = [names[i] if i < len(names) else f"number {i}" for i in range(len(args))]
    found = []
    for name, value in [*zip(called, args, strict=True), *kwargs.items()]:
        for leaf in jax.tree.leaves(value):
            x = np.asarray(leaf)
            if x.dtype.kind == "f" and np.isnan(x).any():
                found.append(f"argument {name!r} has missing values in {_rows(np.isnan(x))}")
    return found


def require_run(error: Exception, missing: Sequence[str]) -> None:
    """Raises ValueError where a model cannot be run, for its data have missing values."""
    if missing:
        said = f"model: expected data without missing values, got: {'; '.join(missing)}. {REMEDY}"
        raise ValueError(f"{said} (NumPyro: {error})") from error


def _check_site(name: str, runs: Sequence[Site], missing: Sequence[str]) -> None:
    value = np.asarray(runs[0]["value"])
    places = [_undefined(site) for site in runs]
    nowhere = np.logical_and.reduce(places) if len({x.shape for x in places}) == 1 else np.zeros(())
    argument = f"model: observed site {name!r}"
    lost = (
        nowhere & _of_rows(np.isnan(value), nowhere)
        if value.dtype.kind == "f"
        else np.zeros_like(nowhere)
    )
    require(not lost.any(), argument, "numbers", f"missing values in {_rows(lost)}", REMEDY)
    outside = np.logical_and.reduce([_outside(site, nowhere) for site in runs])
    support = (
        f"values in the support of {type(_base(runs[0]['fn'])).__name__}, {runs[0]['fn'].support}"
    )
    got = f"{_first(value, outside)} in {_rows(outside)}"
    require(
        not outside.any(),
        argument,
        support,
        got,
        "Correct these values, or choose another distribution.",
    )
    why = f"none ({'; '.join(missing)})" if missing else f"none in {_rows(nowhere)}"
    remedy = (
        REMEDY
        if missing
        else "Its parameters are not finite there: look at the arguments of the model."
    )
    is_number = not nowhere.any() or not all(
        np.isnan(np.asarray(_log_prob(site))).any() for site in runs
    )
    require(
        is_number,
        argument,
        "a log density that is a number at some of three random starts",
        why,
        remedy,
    )


def _undefined(site: Site) -> np.ndarray:
    """The places where the log density of a site is not finite."""
    return ~np.isfinite(np.asarray(_log_prob(site)))


def _log_prob(site: Site) -> Any:
    validation = require_extra("numpyro.distributions.distribution", "numpyro").validation_enabled
    with validation(False):
        return site["fn"].log_prob(site["value"])


def _outside(site: Site, nowhere: np.ndarray) -> np.ndarray:
    """The places, among those without a density, whose values are outside of the support."""
    if not nowhere.any():
        return np.zeros_like(nowhere)
    try:
        inside = np.asarray(site["fn"].support(site["value"]))
    except (NotImplementedError, TypeError, ValueError):  # a support that cannot be asked
        return np.zeros_like(nowhere)
    return nowhere & _of_rows(~inside, nowhere)


def _of_rows(x: np.ndarray, like: np.ndarray) -> np.ndarray:
    """True where any of an event's numbers is: of the shape of log densities."""
    of_event = tuple(range(like.ndim, x.ndim))
    return np.broadcast_to(np.any(x, axis=of_event) if of_event else x, like.shape)


def _base(fn: Any) -> Any:
    while hasattr(fn, "base_dist"):
        fn = fn.base_dist
    return fn


def _first(value: np.ndarray, places: np.ndarray) -> Any:
    if not places.any() or value.ndim < places.ndim:
        return value
    return value[tuple(np.argwhere(places)[0])]


def _rows(places: np.ndarray, most: int = 5) -> str:
    """The first rows of some places, counted from 0, and their number."""
    if places.ndim == 0:
        return "its only row"
    rows = np.unique(np.argwhere(places)[:, 0]).tolist()
    listed = ", ".join(map(str, rows[:most])) + (", ..." if len(rows) > most else "")
    return f"row{'s' if len(rows) > 1 else ''} {listed}, counted from 0 ({int(places.sum())} such)"

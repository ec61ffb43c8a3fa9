"""Checks of the data of a NumPyro model before it is fitted: errors name the site of missing or
impossible values."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from vijax.arrays import require_no_times, to_array, unmasked
from vijax.checks import require
from vijax.xla.frozen import TABLES

Site = Mapping[str, Any]
REMEDY = (
    "Leave these rows out, in all arguments; or leave them out of the density alone, by "
    "numpyro.handlers.mask(mask=...) around the site; or make the missing values unknowns, in a "
    "numpyro.sample of their own."
)


def check_observations(runs: Sequence[Mapping[str, Site]], missing: Sequence[str]) -> None:
    """Raises ValueError naming an observed site that has no density in any of several runs: data
    are missing or outside of its support, or parameters are not numbers.

    Args:
      runs: the sites of each run.
      missing: sentences on arguments with missing values (`missing_arguments`).
    """
    for name, site in runs[0].items():
        if site["type"] == "sample" and site["is_observed"]:
            _check_site(name, [run[name] for run in runs if name in run], missing)


def check_missing_as_unknown(sites: Mapping[str, Site]) -> None:
    """Raises ValueError at a site with `obs_mask`: NumPyro makes an unknown of every row, and gives
    a density only to missing rows. The density of all is improper."""
    for name in sites:
        base_name = name.removesuffix("_unobserved")
        require(
            base_name == name or f"{base_name}_observed" not in sites,
            f"model: site {base_name!r}",
            "no obs_mask, which leaves unknowns without a density in all rows that are not missing",
            "one",
            "Sample the rows that are there with obs=y[mask]; and the missing ones, if you want "
            "them, as another site.",
        )


def read_arguments(
    model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a model, with arrays in place of columns of tables, lists of numbers and
    masked arrays. ValueError naming an argument with dates or times."""
    names = _names(model, args)
    new_args = [_read(x, f"argument {name!r}") for name, x in zip(names, args, strict=True)]
    new_kwargs = {name: _read(x, f"argument {name!r}") for name, x in kwargs.items()}
    return tuple(new_args), new_kwargs


def _read(x: Any, name: str) -> Any:
    """An argument, or a part of it, as the model gets it."""
    if isinstance(x, dict):
        return {key: _read(part, f"{name}[{key!r}]") for key, part in x.items()}
    if isinstance(x, np.ndarray):
        require_no_times(x, name)
        return unmasked(x).copy()
    if _is_column(x):
        return _read_column(x, name)
    if isinstance(x, list):
        leaves = jax.tree.leaves(x, is_leaf=lambda part: part is None)
        has_gaps = any(part is None for part in leaves)
        is_numeric = all(
            isinstance(part, float | int | np.number | np.bool_ | None) for part in leaves
        )
        if leaves and is_numeric:
            require(not has_gaps, name, "numbers", "a list with None", REMEDY)
            try:
                return np.asarray(x)
            except ValueError:  # rows of several lengths
                return x
    return x


def _is_column(x: Any) -> bool:
    """True for a column of pandas, polars or pyarrow."""
    library = type(x).__module__.partition(".")[0]
    return library in TABLES and hasattr(x, "to_numpy") and not hasattr(x, "columns")


def _read_column(x: Any, name: str) -> Any:
    """A column as an array; text and categories as they are, also text of digits."""
    column = to_array(x, name)
    if column.dtype.kind != "O":
        return column
    if any(isinstance(entry, str) for entry in column):
        return x
    try:
        return np.asarray([np.nan if _is_gap(entry) else float(entry) for entry in column])
    except (TypeError, ValueError):
        return x


def _is_gap(entry: Any) -> bool:
    return entry is None or type(entry).__name__ == "NAType"


def odd_arguments(
    model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[str]:
    """A sentence on each argument that JAX does not take, with the remedy."""
    sentences = []
    for name, value in [*zip(_names(model, args), args, strict=True), *kwargs.items()]:
        kind = type(value).__name__
        if type(value).__module__.partition(".")[0] in TABLES:
            remedy = f"give its columns as arrays, {name}['column'].to_numpy()"
            if not hasattr(value, "columns"):
                remedy = "give numbers in its place, such as codes from 0"
            sentences.append(f"argument {name!r} is a {kind}: {remedy}")
    return sentences


@contextlib.contextmanager
def blame_arguments(sentences: Sequence[str]) -> Iterator[None]:
    """Replaces an error in a model by one on the arguments that explain it."""
    try:
        yield
    except Exception as error:  # of any library
        is_clear = str(error).startswith("model: observed site")
        if not sentences or is_clear:
            raise
        text = f"model: expected arrays and numbers as arguments, got: {'; '.join(sentences)}."
        raise ValueError(f"{text} ({type(error).__name__}: {error})") from error


def _names(model: Callable[..., Any], args: Sequence[Any]) -> list[str]:
    """The names of positional arguments."""
    try:
        parameters = list(inspect.signature(model).parameters)
    except (TypeError, ValueError):
        parameters = []
    names = parameters[: len(args)]
    return names + [f"number {i}" for i in range(len(names), len(args))]


def missing_arguments(
    model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[str]:
    """A sentence on each array with missing values (NaN) in the arguments of a model."""
    sentences = []
    for name, value in [*zip(_names(model, args), args, strict=True), *kwargs.items()]:
        for leaf in jax.tree.leaves(value):
            x = np.asarray(leaf)
            if x.dtype.kind == "f" and np.isnan(x).any():
                sentences.append(f"argument {name!r} has missing values in {_rows(np.isnan(x))}")
    return sentences


def require_run(error: Exception, missing: Sequence[str]) -> None:
    """Raises ValueError if missing values in the data explain why a model did not run."""
    if missing:
        text = f"model: expected data without missing values, got: {'; '.join(missing)}. {REMEDY}"
        raise ValueError(f"{text} (NumPyro: {error})") from error


def _check_site(name: str, runs: Sequence[Site], missing: Sequence[str]) -> None:
    """Raises ValueError at places of a site without a density in all runs, by their cause."""
    argument = f"model: observed site {name!r}"
    value = np.asarray(runs[0]["value"])
    undefined = [_undefined_places(site) for site in runs]
    has_one_shape = len({x.shape for x in undefined}) == 1
    without_density = np.logical_and.reduce(undefined) if has_one_shape else np.zeros(())
    without_value = np.zeros_like(without_density)
    if value.dtype.kind == "f":
        without_value = without_density & _any_of_event(np.isnan(value), without_density)
    actual = f"missing values in {_rows(without_value)}"
    require(not without_value.any(), argument, "numbers", actual, REMEDY)
    outliers = np.logical_and.reduce([_places_off_support(site, without_density) for site in runs])
    fn = runs[0]["fn"]
    support = f"values in the support of {base_law(fn)}, {fn.support}"
    actual = f"{_first(value, outliers)} in {_rows(outliers)}"
    remedy = "Correct these values, or choose another distribution."
    require(not outliers.any(), argument, support, actual, remedy)
    if not without_density.any():
        return
    is_number = not all(np.isnan(np.asarray(_log_prob(site))).any() for site in runs)
    expected = "a log density that is a number at some of three random starts"
    if missing:
        require(is_number, argument, expected, f"none ({'; '.join(missing)})", REMEDY)
    remedy = "Its parameters are not finite there: look at the arguments of the model."
    require(is_number, argument, expected, f"none in {_rows(without_density)}", remedy)


def _undefined_places(site: Site) -> np.ndarray:
    """True where the log density of a site is not finite."""
    return ~np.isfinite(np.asarray(_log_prob(site)))


def _log_prob(site: Site) -> Any:
    """The log density as the model has it: minus infinity for values that NumPyro refuses, of which
    it warns."""
    with warnings.catch_warnings(action="ignore"):
        return site["fn"].log_prob(site["value"])


def _places_off_support(site: Site, without_density: np.ndarray) -> np.ndarray:
    """True at places without a density whose values are outside of the support."""
    if not without_density.any():
        return np.zeros_like(without_density)
    try:
        is_supported = np.asarray(site["fn"].support(site["value"]))
    except (NotImplementedError, TypeError, ValueError):  # a support that cannot be evaluated
        return np.zeros_like(without_density)
    return without_density & _any_of_event(~is_supported, without_density)


def _any_of_event(x: np.ndarray, like: np.ndarray) -> np.ndarray:
    """True where any number of an event is, in the shape of the log densities `like`."""
    event_axes = tuple(range(like.ndim, x.ndim))
    return np.broadcast_to(np.any(x, axis=event_axes) if event_axes else x, like.shape)


def base_law(fn: Any) -> str:
    """The name of the distribution inside all wrappers."""
    return type(wrapped_laws(fn)[-1]).__name__


def wrapped_laws(fn: Any) -> list[Any]:
    """A distribution and those that it wraps, one inside the other."""
    laws = [fn]
    while (fn := getattr(fn, "base_dist", None)) is not None:
        laws.append(fn)
    return laws


def _first(value: np.ndarray, places: np.ndarray) -> Any:
    """The value at the first place; all values where the places have more axes."""
    if not places.any() or value.ndim < places.ndim:
        return value
    return value[tuple(np.argwhere(places)[0])]


def _rows(places: np.ndarray, limit: int = 5) -> str:
    """The first rows that have a place, counted from 0, and the number of places, in words."""
    if places.ndim == 0:
        return "its only row"
    rows = np.unique(np.argwhere(places)[:, 0]).tolist()
    listing = ", ".join(map(str, rows[:limit]))
    if len(rows) > limit:
        listing += ", ..."
    plural = "s" if len(rows) > 1 else ""
    return f"row{plural} {listing}, counted from 0 ({int(places.sum())} such)"

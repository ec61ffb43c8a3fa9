"""Groups of the hierarchical regressions: padded rows, the population b_j ~ N(mu, L^-1) of
coefficients with its conjugate prior, and draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.arguments import Positive, Positives, Size, check_arguments
from vijax.checks import require
from vijax.contract.queries import Generative, Values
from vijax.contract.room import limit_sizes
from vijax.data.schema.number_arrays import array_of_numbers
from vijax.data.schema.same_rows import require_one_index
from vijax.families import Family, MultivariateNormalStats, NormalGamma, NormalWishart
from vijax.families.base import as_float
from vijax.families.construction import numpy_or_jax
from vijax.inference.likelihood import Likelihood
from vijax.models.emission.gaussian import normal_draw
from vijax.models.regressions.group_labels import check_places, places_by_name
from vijax.xla.by_value import cache_by_value

PaddedRows = tuple[Any, Any, Any]
"""Inputs (J, n, D), responses (J, n), and the mask (J, n) of the rows that exist."""


def group_rows(x: Any, y: Any, labels: Any, num_groups: int | None = None) -> PaddedRows:
    """Rows of a table by group, padded to the longest.

    Args:
      x: inputs, (N, D).
      y: responses, (N,).
      labels: the group of each row: text, numbers, dates or categories.
        `vijax.models.group_names(labels)` says which group is which.
      num_groups: J, to allow groups without rows: labels are then integers in [0, J), the indices
        of the groups. By default all groups have rows.

    Returns:
      (x, y, mask) of shapes (J, n, D), (J, n) and (J, n), the mask true on the rows that exist,
      which come first, in the order given.

    Raises:
      ValueError: shapes that do not fit, a row without a label, or with `num_groups` labels that
        are not integers in [0, J).

    >>> x, y, mask = group_rows([[1.0], [2.0], [3.0]], [0.5, 1.5, 2.5], ["b", "a", "b"])
    >>> y.tolist(), mask.tolist()
    ([[1.5, 0.0], [0.5, 2.5]], [[True, False], [True, True]])
    """
    require_one_index({"x": x, "y": y, "labels": labels})
    x, y = (np.asarray(array_of_numbers(name, part)) for name, part in (("x", x), ("y", y)))
    fits = x.ndim == 2 and y.shape == np.shape(labels) == x.shape[:1] and len(x) > 0
    require(
        fits,
        "x, y, labels",
        "shapes (N, D), (N,) and (N,)",
        f"{x.shape}, {y.shape} and {np.shape(labels)}",
    )
    if num_groups is None:
        labels, size = places_by_name(labels)
    else:
        labels, size = check_places(labels, num_groups), num_groups
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels, minlength=size)
    place = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    group, width = labels[order], int(counts.max())
    padded_x = np.zeros((size, width, x.shape[1]), np.result_type(x, np.float32))
    padded_y = np.zeros((size, width), np.result_type(y, np.float32))
    padded_x[group, place], padded_y[group, place] = x[order], y[order]
    return padded_x, padded_y, np.arange(width) < counts[:, None]


def check_groups(
    data: PyTree, dim: int, valid: Callable[[np.ndarray], np.ndarray], expected: str
) -> None:
    """Raises ValueError unless data are (x, y, mask) as `group_rows` returns them, with finite and
    `valid` responses in existing rows; `expected` describes them. It names the group and the row of
    the first bad one."""
    triple = isinstance(data, tuple) and len(data) == 3
    require(
        triple, "data", "a triple (x, y, mask)", type(data).__name__, "See vijax.models.group_rows."
    )
    x, y, mask = map(np.asarray, data)
    fits = x.ndim == 3 and x.shape[2] == dim and y.shape == mask.shape == x.shape[:2] and x.size > 0
    shapes = f"{x.shape}, {y.shape} and {mask.shape}"
    require(fits, "data", f"x of shape (J, n, {dim}), y and mask of shape (J, n)", shapes)
    require(np.isin(mask, (0, 1)), "data", "a mask of true and false", mask)
    mask = mask.astype(bool)
    require(mask.any(), "data", "at least one row", "groups that are all empty")
    fine = {"finite inputs": np.isfinite(x).all(axis=2), expected: np.isfinite(y) & valid(y)}
    for requirement, ok in fine.items():
        bad = np.argwhere(mask & ~ok)
        first = f"row {bad[0, 1]} of group {bad[0, 0]}, counted from 0" if len(bad) else ""
        actual = f"{len(bad)} rows that are not, the first {first}"
        require(not len(bad), "data", requirement, actual, "Remove or impute those rows.")
    padding = np.isfinite(x).all(axis=2) & np.isfinite(y)
    require(
        padding,
        "data",
        "finite numbers in padded rows too",
        "others",
        "See vijax.models.group_rows.",
    )


class Population(NamedTuple):
    """The law of the groups' coefficients."""

    prior: Family  # prior of mu and the precision
    # (statistics of mu and L, statistics of b) -> log N(b; mu, L^-1), linear in both
    log_density: Callable[[Any, MultivariateNormalStats], Float[Array, ""]]


@cache_by_value
@limit_sizes
@check_arguments
def population(
    dim: Size,
    covariance: Literal["full", "diagonal"],
    location: Any = 0.0,
    strength: Positive = 0.01,
    degrees: Positive | None = None,
    spread: Positives = 1.0,
) -> Population:
    """The law of the groups' coefficients.

    Args:
      dim: D, coefficients of a group.
      covariance: covariance of the population: full (mu and L normal-Wishart) or diagonal (each
        mu_d and L_dd normal-gamma).
      location: prior mean of mu, scalar or (D,).
      strength: weight of the prior mean of the population, in groups.
      degrees: degrees of freedom of the Wishart, above D - 1; for "diagonal" of each gamma (twice
        its shape), above 0. By default D + 2, or 3.
      spread: prior standard deviation of the groups' coefficients about mu. A scalar or (D,): the
        prior mean of L is spread^-2.

    Raises:
      ValueError: an argument out of its range.

    >>> population(2, "full").prior.mean().precision.round(3).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    location, spread = _vector("location", location, dim), _vector("spread", spread, dim)
    if covariance == "full":
        if degrees is None:
            degrees = dim + 2.0
        xp, spread = numpy_or_jax(spread)
        scale = xp.diag(1 / (degrees * spread**2))
        return Population(NormalWishart.from_parameters(location, strength, degrees, scale), _full)
    shape = 1.5 if degrees is None else 0.5 * degrees
    return Population(
        NormalGamma.from_parameters(location, strength, shape, shape * spread**2), _diagonal
    )


def _full(s: Any, b: MultivariateNormalStats) -> Float[Array, ""]:
    squares = jnp.vdot(s.precision, b.outer) - 2 * b.value @ s.precision_times_mean + s.quadratic
    return 0.5 * (s.log_det - squares - b.value.size * math.log(2 * math.pi))


def _diagonal(s: Any, b: MultivariateNormalStats) -> Float[Array, ""]:
    squares = s.precision @ jnp.diagonal(b.outer) - 2 * b.value @ s.precision_times_mean
    log_terms = jnp.sum(s.log_precision - s.precision_times_square)
    return 0.5 * (log_terms - squares - b.value.size * math.log(2 * math.pi))


def _vector(name: str, value: Any, dim: int) -> Float[Array, " D"]:
    value = as_float(value, name)
    require(value.shape in ((), (dim,)), name, f"a scalar or shape ({dim},)", value.shape)
    xp, value = numpy_or_jax(value)
    return xp.broadcast_to(value, (dim,))


Responses = Callable[[Values, Float[Array, "J n"], PRNGKeyArray], Float[Array, "J n"]]
"""(values of the globals, x' b, key) -> y."""


def real_responses(
    values: Values, mean: Float[Array, "J n"], key: PRNGKeyArray
) -> Float[Array, "J n"]:
    """Normal draws of precision `noise`."""
    return mean + jax.random.normal(key, mean.shape, mean.dtype) / jnp.sqrt(values["noise"])


def label_responses(likelihood: Likelihood) -> Responses:
    """Labels drawn from a likelihood of x' b."""
    draw: Any = likelihood.sample
    return lambda values, mean, key: draw(key, mean)


def population_generative(responses: Responses, check: Callable[[Any], None]) -> Generative:
    """Draws for groups whose coefficients come from one population."""

    def layout(like: Any) -> PaddedRows:
        triple = isinstance(like, tuple)
        remedy = "See vijax.models.group_rows."
        require(
            triple,
            "like",
            "data (x, y, mask), of which x and mask are kept",
            type(like).__name__,
            remedy,
        )
        check(like)
        x, y, mask = like
        dtype = jnp.result_type(float)
        return jnp.asarray(x, dtype), jnp.asarray(y, dtype), jnp.asarray(mask, bool)

    def local(
        hyper: Any, values: Values, layout: PaddedRows, key: PRNGKeyArray
    ) -> dict[str, Array]:
        people = values["population"]
        if people.precision.ndim == 2:
            factor = jnp.linalg.cholesky(people.precision)
        else:
            factor = jnp.diag(jnp.sqrt(people.precision))
        draw_group = lambda key: normal_draw(key, people.mean, factor)
        return {"coefficients": jax.vmap(draw_group)(jax.random.split(key, len(layout[0])))}

    def data(
        hyper: Any, values: Values, local: Values, layout: PaddedRows, key: PRNGKeyArray
    ) -> Float[Array, "J n"]:
        x, _, mask = layout
        mean = jnp.einsum("jnd,jd->jn", x, local["coefficients"], precision="highest")
        return jnp.where(mask, responses(values, mean, key), jnp.nan)

    observed = lambda layout, data: jnp.where(layout[2], layout[1], jnp.nan)
    # The other locals are only augmentation.
    known_families = lambda stats, local: {"coefficients": local["coefficients"]}
    return Generative(layout, data, local, observed, known_families)

"""The law of a regression without its columns and groups: what its columns must be better than.

    eta = offset + b,   y ~ p(y | eta, parameters)

b and the parameters of the law are those of the largest likelihood of the training rows. All that
is known of a row beside its columns is kept: trials, offsets, standard errors, censoring, bounds
and weights."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import optimize

from vijax.checks import require
from vijax.data.formulas.row_statistics import mean_and_spread, quantiles
from vijax.models.formulas.form.links import inverse_link
from vijax.models.formulas.formula import Design
from vijax.models.formulas.laws import Law, partly_known
from vijax.models.formulas.observation import Facts
from vijax.models.formulas.priors import LINKED
from vijax.xla.compiler import cached_program, once_jit
from vijax.xla.precision import enable_x64

PENALTY = 0.01
"""Root of the precision of the normal penalty about the start, which keeps the search finite where
the likelihood has no largest value: shares of 0 and 1, a t law of normal errors."""
LEAST_COUNT = 0.01
"""Rows of a category at the start, at least."""
GRADIENT = 1e-8
"""Slope of the mean log likelihood at which the search ends. Rounding hides smaller ones: the
search would go on without a gain."""


class KnownRows(NamedTuple):
    """Facts on rows beside their columns.

    Attributes:
      y: responses, (N,).
      trials: numbers of trials, (N,).
      offset: known parts of the predictor of the response, (N,).
      offsets: those of parameters with formulas, (N,) each, by name.
      facts: facts of the response (`vijax.models.formulas.observation`).
      weights: weights of the rows, (N,).
    """

    y: Float[np.ndarray, " N"]
    trials: Float[np.ndarray, " N"]
    offset: Float[np.ndarray, " N"]
    offsets: Mapping[str, Float[np.ndarray, " N"]]
    facts: Facts
    weights: Float[np.ndarray, " N"]

    @classmethod
    def from_numbers(cls, y: Any) -> KnownRows:
        """Rows of which the response alone is known."""
        numbers = np.asarray(y, float)
        ones = np.ones(len(numbers))
        return cls(numbers, ones, 0 * ones, {}, {}, ones)

    @classmethod
    def from_design(cls, design: Design, weights: Any, table: Any = None) -> KnownRows:
        """The rows of a table with the response; of training for None. None for `weights` counts
        each row once."""
        if table is None:
            numbers = design.y, design.trials
            offsets, facts = design.rows.offset, design.facts
        else:
            numbers = design.response_and_trials(table)
            offsets, facts = design.read_rows(table).offset, design.read_facts(table)
        size = len(numbers[0])
        columns = np.asarray(offsets, float).reshape(size, -1).T
        names = [terms.name for terms in design.further]
        by_name = dict(zip(names, columns[1:], strict=False))
        if weights is None:
            weights = np.ones(size)
        return cls(*numbers, columns[0], by_name, facts, np.asarray(weights, float))

    @property
    def arguments(self) -> dict[str, Any]:
        """All but the weights, as the density of a row reads them."""
        return {
            "y": self.y,
            "trials": self.trials,
            "offset": self.offset,
            "offsets": dict(self.offsets),
            **self.facts,
        }

    def drop_weightless(self) -> KnownRows:
        """The rows of positive weight."""
        counts = self.weights > 0
        return jax.tree.map(lambda x: x[counts], self)


@dataclasses.dataclass(frozen=True)
class WithoutColumns:
    """A law of responses with an intercept alone.

    Attributes:
      law: the law.
      names: the parameters of the law that are not known.
      centre, unit: places and units of the numbers below.
      point: the intercept of the response (of each category but the base; for ordered categories
        the lowest cutpoint and the logarithms of the gaps), and those of the parameters, on the
        scale of their links.
    """

    law: Law
    names: tuple[str, ...]
    centre: Float[np.ndarray, " d"]
    unit: Float[np.ndarray, " d"]
    point: Float[np.ndarray, " d"]

    def log_lik(self, rows: KnownRows) -> Float[np.ndarray, " N"]:
        """The log likelihood of each row, whatever its weight."""
        with enable_x64(True):
            numbers = jnp.asarray(self.centre + self.unit * self.point)
            density = functools.partial(_row_log_prob, self.law, self.names, numbers)
            return np.asarray(jax.vmap(density)(rows.arguments))

    def mean(self, rows: KnownRows) -> Float[np.ndarray, " N *K"]:
        """The mean of each response, of one trial; of categories the probability of each."""
        numbers = self.centre + self.unit * self.point
        eta, parameters = _predictors(self.law, self.names, numbers, rows.arguments, np)
        by_draw = {name: np.asarray(x)[None] for name, x in parameters.items()}
        return self.law.mean(by_draw, np.asarray(eta)[None])[0]


def fit_without_columns(
    law: Law, rows: KnownRows, names: tuple[str, ...] | None = None, categories: int = 0
) -> WithoutColumns:
    """The law without columns, by maximum likelihood.

    Args:
      law: the law of the response.
      rows: the rows of training.
      names: its parameters that are not known; None takes all.
      categories: the number of categories of the response.

    Raises:
      ValueError: no row has a positive weight, or no likelihood of the rows is finite.

    >>> from vijax.models.formulas.laws import LAWS
    >>> rows = KnownRows.from_numbers([1, 2, 3, 6])
    >>> plain = fit_without_columns(LAWS["poisson"], rows)
    >>> print(plain.mean(rows).round(4))
    [3. 3. 3. 3.]
    """
    rows = rows.drop_weightless()
    require(len(rows.y) > 0, "rows", "a row of positive weight", "none")
    if names is None:
        names = law.aux
    names = tuple(name for name in names if name != "threshold")
    centre, unit = _start(law, rows, names, categories)
    with enable_x64(True):
        make_program = functools.partial(_loss_program, names)
        program = cached_program(law, ("loss without columns", names), make_program)
        data = jax.tree.map(jnp.asarray, (centre, unit, rows.arguments, rows.weights))
        read = lambda point: tuple(np.asarray(part, float) for part in program(point, *data))
        options = {"gtol": GRADIENT, "maxiter": 500}
        start = np.zeros(len(centre))
        best = optimize.minimize(read, start, jac=True, method="BFGS", options=options)
    expected = f"responses that the {law.name} law allows, and finite offsets and weights"
    require(np.isfinite(best.fun), "rows", expected, f"a log likelihood of {-best.fun}")
    return WithoutColumns(law, names, centre, unit, best.x)


def _loss_program(names: tuple[str, ...], law: Callable[[], Any]) -> Callable[..., Any]:
    """(point, centre, unit, data, weights) -> the loss and its gradient. The data are arguments:
    constants of a program would be compiled anew for other rows."""

    def loss(point: Any, centre: Any, unit: Any, data: Any, weights: Any) -> Any:
        density = functools.partial(_row_log_prob, law(), names, centre + unit * point)
        log_lik = jnp.sum(weights * jax.vmap(density)(data))
        return (0.5 * jnp.sum((PENALTY * point) ** 2) - log_lik) / jnp.sum(weights)

    return once_jit(jax.value_and_grad(loss))


def _start(
    law: Law, rows: KnownRows, names: tuple[str, ...], categories: int
) -> tuple[np.ndarray, np.ndarray]:
    """The start of the search, and the units of its steps."""
    levels = _first_levels(law, rows, categories)
    first = {name: level for name, (level, _) in LINKED.items()}
    units = np.ones(len(levels))
    if "sigma" in law.aux:
        size = _spread(law, rows)
        first["sigma"] = math.log(size)
    if law.is_location_scale:
        units = units * size
    linked = [first[name] for name in names]
    return np.concatenate([levels, linked]), np.concatenate([units, np.ones(len(names))])


def _spread(law: Law, rows: KnownRows) -> float:
    """The deviation of the response less its offset; of its logarithm for other laws than those of
    a place and a scale."""
    if law.is_location_scale:
        return float(mean_and_spread(rows.y - rows.offset, rows.weights)[1]) or 1.0
    is_positive = rows.y > 0
    if not is_positive.any():
        return 1.0
    logs = np.log(rows.y[is_positive])
    return float(mean_and_spread(logs, rows.weights[is_positive])[1]) or 1.0


def _first_levels(law: Law, rows: KnownRows, categories: int) -> np.ndarray:
    """The predictor at the mean of the response; that of each category but the base; for ordered
    categories the lowest cutpoint, and the logarithms of the gaps."""
    if law.categories:
        counts = law.count_categories(rows.y, rows.weights, categories) + LEAST_COUNT
        if law.is_named:
            return np.log(counts[1:] / counts[0])
        if law.has_steps:
            return np.log(counts[:-1] / (counts.sum() - np.cumsum(counts)[:-1]))
        below = np.cumsum(counts)[:-1] / counts.sum()
        cutpoints = np.log(below) - np.log1p(-below)
        return np.concatenate([cutpoints[:1], np.log(np.diff(cutpoints))])
    y, trials = rows.y, rows.trials
    if law.is_location_scale:
        y = y - rows.offset
    if law.quantile is not None:
        return np.array([quantiles(y, rows.weights, law.quantile)], float)
    if law.link == "log":
        trials = trials * np.exp(rows.offset)
    return np.array([law.predictor_at_mean(y, trials, rows.weights)], float)


def _predictors(
    law: Law, names: tuple[str, ...], numbers: Any, row: Mapping[str, Any], xp: Any
) -> tuple[Any, dict[str, Any]]:
    """The predictor of a response and the parameters of its law; `row` may hold many rows."""
    parameters = {}
    eta = row["offset"]
    size = len(numbers) - len(names)
    levels, linked = numbers[:size], numbers[size:]
    if law.is_ordered:
        parameters["threshold"] = levels
        if not law.has_steps:
            steps = xp.concatenate([levels[:1], xp.exp(levels[1:])])
            parameters["threshold"] = xp.cumsum(steps)
    elif law.is_named:
        eta = eta[..., None] + levels
    else:
        eta = eta + levels[0]
    for i, name in enumerate(names):
        parameters[name] = inverse_link(name, linked[i] + row["offsets"].get(name, 0.0), xp)
    return eta, partly_known.with_known_errors(parameters, row, xp)


def _row_log_prob(law: Law, names: tuple[str, ...], numbers: Any, row: Mapping[str, Any]) -> Any:
    """The log likelihood of a row."""
    eta, parameters = _predictors(law, names, numbers, row, jnp)
    return partly_known.log_prob(law, parameters, row, eta)

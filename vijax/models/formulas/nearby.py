"""The density of a regression near its mode, from few factorisations: of normal laws, and of
log-concave ones with several factors. `vijax.auto` fits it where there are many groups."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from vijax.contract.batch import Nearby
from vijax.models.energies.density import density
from vijax.models.formulas.effects import interpolated
from vijax.models.formulas.effects.crossed_normal import row_sums, sparse_columns
from vijax.models.formulas.effects.drawn_on_host import Unknowns, draw
from vijax.models.formulas.effects.integrals import slopes_of_rows
from vijax.models.formulas.effects.laplace_on_host import Columns, LaplaceRows, Slopes
from vijax.models.formulas.effects.on_host import HostSums
from vijax.models.formulas.form import (
    AUX,
    COEFFICIENTS,
    SDS,
    Form,
    FormFunction,
    interpolated_log_lik,
    log_prior,
    row_log_liks,
)
from vijax.models.formulas.formula import Rows
from vijax.xla.compiler import cached_program, quick_jit
from vijax.xla.precision import enable_x64

FEWEST_EFFECTS = 200
"""Fewest effects of several factors for which interpolation pays."""
FEWEST_GROUPS = 20_000
"""Fewest groups of one factor for which it pays."""
MANY_EFFECTS = 1000
"""Effects of laws that are not normal beyond which they are drawn on the host."""
LOG_CONCAVE = ("bernoulli", "binomial", "poisson")
"""Laws without parameters of their own whose rows are log-concave in the predictor."""
LEAST_WEIGHT = 1e-10
"""Least weight of a row, as a share of the largest, by which a slope is divided."""


@dataclasses.dataclass(frozen=True)
class NearMode:
    """The data of a regression -> its density near the mode of its posterior. None without an
    interpolation: for laws with parameters, correlated effects and few groups, and where an sd may
    be zero.

    Attributes:
      form: the density of the regression.
    """

    form: Form

    @property
    def is_worth(self) -> bool:
        """True if there are so many effects that the interpolation costs less than the density."""
        form, effects = self.form, self.form.effects
        if not effects or form.monotone or form.smooths:
            return False
        if max(max(term.blocks) for term in effects) > 1:
            return False
        if len(effects) == 1:
            return form.is_plain_normal and self._num_effects >= FEWEST_GROUPS
        is_possible = form.is_plain_normal or self.is_log_concave
        return is_possible and self._num_effects >= FEWEST_EFFECTS

    @property
    def is_log_concave(self) -> bool:
        """True for laws whose effects have Laplace's approximation on the host."""
        form = self.form
        has_more = form.parameters or form.facts or form.own_parameters
        return form.law in LOG_CONCAVE and not has_more

    @property
    def draws_on_host(self) -> bool:
        """True if effects are drawn on the host."""
        if len(self.form.effects) < 2 or not self.is_worth:
            return False
        return self.form.is_plain_normal or self._num_effects >= MANY_EFFECTS

    @property
    def _num_effects(self) -> int:
        return sum(term.groups * len(term.labels) for term in self.form.effects)

    def __call__(self, data: Mapping[str, Any]) -> Nearby | None:
        """The density near the mode."""
        if not self.is_worth:
            return None
        likelihood = self.likelihood(data)
        num_ratios = sum(len(term.labels) for term in self.form.effects)
        interpolation = interpolated.near_mode(likelihood, self.log_prior(), num_ratios)
        if interpolation is None:
            return None
        form = dataclasses.replace(self.form, constant=0.0)
        model = density(
            form.variables(),
            log_prior=FormFunction(form, log_prior),
            log_lik=FormFunction(form, interpolated_log_lik),
            derived=FormFunction(form, Form.named),
        )
        dtype = jnp.result_type(float)
        rows = {name: np.asarray(values, dtype) for name, values in interpolation.rows.items()}
        places, of_what = "ratios of sds", "likelihood"
        if self.is_log_concave:
            places, of_what = "points", "Laplace approximation of the likelihood"
        sentence = (
            f"The {of_what} was computed at {interpolation.num_points} {places}, in float64, "
            "and interpolated between them: at draws of q it is off by {error}."
        )
        errors = _Errors(likelihood, interpolation, self.form)
        return Nearby(
            model.log_density, rows, interpolation.level + self.form.constant, errors, sentence
        )

    def likelihood(self, data: Mapping[str, Any]) -> interpolated.Likelihood:
        """The marginal likelihood on the host."""
        if self.is_log_concave:
            return self.laplace_rows(data)
        return interpolated.NormalSums(self.host_sums(data))

    def host_sums(self, data: Mapping[str, Any]) -> HostSums:
        """The sums over rows of a normal law on the host."""
        widths = tuple(len(term.labels) for term in self.form.effects)
        return HostSums(data, self._counts, widths)

    def laplace_rows(self, data: Mapping[str, Any]) -> LaplaceRows:
        """The rows of another law on the host."""
        form = self.form
        rows = {name: np.asarray(x[0], float) for name, x in data.items()}
        rows["x"] = rows["x"].reshape(len(rows["y"]), len(form.labels))
        offset = rows["offset"] + rows["x"] @ np.array(form.units.shift, float)
        columns = Columns.from_rows(rows | {"offset": offset}, self._counts)
        return LaplaceRows(columns, _slopes_on_host(form, rows))

    @property
    def _counts(self) -> tuple[int, ...]:
        return tuple(term.groups for term in self.form.effects)

    def _normal_near(
        self, data: Mapping[str, Any], at: Unknowns
    ) -> tuple[HostSums, Float[np.ndarray, " N"]]:
        """The sums over rows, and weights, of the normal law of effects about their mode at the
        mean of other unknowns; of a normal law its own."""
        laplace = self.laplace_rows(data)
        b, ratios = at.coefficients.mean(0), at.ratios.mean(0)
        mode = laplace.effect_mode(b, ratios)
        weights = np.maximum(mode.weights, LEAST_WEIGHT * mode.weights.max())
        y = mode.eta - laplace.columns.offset + mode.slopes / weights
        by_row = {name: np.asarray(x[0], float) for name, x in data.items() if name[0] in "gz"}
        groups = {name: x.astype(int) for name, x in by_row.items() if name.startswith("group")}
        rows = {"x": laplace.columns.x, "y": y, "weight": weights}
        sums = row_sums(by_row | groups | rows, self._counts)
        return self.host_sums({name: x[None] for name, x in sums.items()}), weights

    def draw_effects(
        self,
        data: Mapping[str, Any],
        rows: Rows,
        weights: np.ndarray,
        values: Mapping[str, Any],
        seed: int,
    ) -> list[Float[np.ndarray, "S J d"]]:
        """Effects of all groups of each factor, drawn at values of the other unknowns, in the units
        of the data."""
        form = self.form
        unknowns = to_unknowns(form, values)
        effects = [
            sparse_columns(z / np.array(term.sizes), groups, term.groups)
            for term, z, groups in zip(form.effects, rows.z, rows.groups, strict=True)
        ]
        if self.is_log_concave:
            sums, weights = self._normal_near(data, unknowns)
        else:
            sums = self.host_sums(data)
        first, others_flat = draw(sums, effects, weights, unknowns, seed)
        shapes = [(term.groups, len(term.labels)) for term in form.effects]
        ends = np.cumsum([math.prod(shape) for shape in shapes[1:]])[:-1]
        parts = [first, *np.split(others_flat, ends, axis=1)]
        in_units = []
        for part, shape, term in zip(parts, shapes, form.effects, strict=True):
            sds = np.asarray(values[SDS + term.name], float)
            sds = sds * form.units.size / np.array(term.sizes)
            in_units.append(part.reshape(-1, *shape) * sds[:, None])
        return in_units

    def log_prior(self) -> interpolated.LogPrior:
        """The log prior of coefficients, sigma and ratios, with the logarithms of sds as
        variables."""
        form = self.form
        widths = np.cumsum([len(term.labels) for term in form.effects])[:-1]
        program = cached_program(form, "prior in float64", _log_prior_program)

        def value(b: np.ndarray, sigma: float, ratios: np.ndarray) -> float:
            values = {COEFFICIENTS + label: x for label, x in zip(form.labels, b, strict=True)}
            parts = np.split(ratios * sigma, widths)
            values |= {
                SDS + term.name: part for term, part in zip(form.effects, parts, strict=True)
            }
            if form.own_parameters:
                values[AUX + "sigma"] = np.asarray(sigma)
            with enable_x64(True):
                log_density = program(values)
            return float(log_density) + float(np.log(ratios * sigma).sum())

        return value


def _log_prior_program(form: Any) -> Callable[..., Any]:
    return quick_jit(lambda values: log_prior(form(), values))


def _slopes_on_host(form: Form, rows: Mapping[str, np.ndarray]) -> Slopes:
    """The log likelihood of all rows, its slopes and curvatures in the predictors, in float64."""
    program = cached_program(form, "slopes of rows in float64", _slopes_program)
    with enable_x64(True):
        facts = {name: jnp.asarray(rows[name]) for name in ("y", "trials", "weight")}

    def slopes(eta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        with enable_x64(True):
            log_lik, slope, weights = program(facts, eta)
        return float(log_lik), np.asarray(slope), np.asarray(weights)

    return slopes


def _slopes_program(form: Any) -> Callable[..., Any]:
    def slopes(rows: Mapping[str, Any], eta: Any) -> tuple[Any, Any, Any]:
        row_function = FormFunction(form(), row_log_liks)
        slope, weights = slopes_of_rows(row_function, ({}, rows), eta)
        return jnp.sum(row_function(({}, rows), eta)), slope, weights[:, 0, 0]

    return quick_jit(slopes)


@dataclasses.dataclass(frozen=True, eq=False)
class _Errors:
    """Values at draws -> the exact log likelihood less the interpolated one."""

    likelihood: interpolated.Likelihood
    interpolation: interpolated.Interpolation
    form: Form

    def __call__(self, values: Mapping[str, Any]) -> Float[np.ndarray, " draws"]:
        rows = {name: x[0] for name, x in self.interpolation.rows.items()}
        errors = []
        for b, sigma, ratios in zip(*to_unknowns(self.form, values), strict=True):
            exact = self.likelihood.exact(b, float(sigma), ratios)
            approximation = float(interpolated.log_lik(rows, b, sigma, ratios, np))
            errors.append(exact - self.interpolation.level - approximation)
        self.likelihood.forget()
        return np.array(errors)


def to_unknowns(form: Form, values: Mapping[str, Any]) -> Unknowns:
    """The unknowns beside the effects, at draws of the variables."""
    columns = [np.asarray(values[COEFFICIENTS + label], float) for label in form.labels]
    sds = np.concatenate([np.asarray(values[SDS + term.name], float) for term in form.effects], 1)
    sigma = np.asarray(values.get(AUX + "sigma", np.ones(len(sds))), float)
    return Unknowns(
        np.stack(columns, 1) if columns else np.zeros((len(sigma), 0)), sigma, sds / sigma[:, None]
    )

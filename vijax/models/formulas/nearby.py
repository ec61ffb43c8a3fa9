"""The density of a normal regression near its mode, from few factorisations. `vijax.auto` fits it
where there are many groups."""

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
from vijax.models.formulas.effects.crossed_normal import sparse_columns
from vijax.models.formulas.effects.drawn_on_host import Unknowns, draw
from vijax.models.formulas.effects.on_host import HostSums
from vijax.models.formulas.form import (
    AUX,
    COEFFICIENTS,
    SDS,
    Form,
    FormFunction,
    interpolated_log_lik,
    log_prior,
)
from vijax.models.formulas.formula import Rows
from vijax.xla.compiler import cached_program, quick_jit
from vijax.xla.precision import enable_x64

FEWEST_EFFECTS = 200
"""Fewest effects of several factors for which interpolation pays."""
FEWEST_GROUPS = 20_000
"""Fewest groups of one factor for which it pays."""


@dataclasses.dataclass(frozen=True)
class NearMode:
    """The data of a regression -> its density near the mode of its posterior. None without an
    interpolation: for laws that are not normal, correlated effects and few groups, and where an sd
    may be zero.

    Attributes:
      form: the density of the regression.
    """

    form: Form

    @property
    def is_worth(self) -> bool:
        """True if there are so many effects that the interpolation costs less than the density."""
        effects = self.form.effects
        if not self.form.is_plain_normal or not effects:
            return False
        if self.form.monotone or self.form.smooths:
            return False
        if max(max(term.blocks) for term in effects) > 1:
            return False
        total = sum(term.groups * len(term.labels) for term in effects)
        return total >= (FEWEST_EFFECTS if len(effects) > 1 else FEWEST_GROUPS)

    def __call__(self, data: Mapping[str, Any]) -> Nearby | None:
        """The density near the mode."""
        if not self.is_worth:
            return None
        sums = self.host_sums(data)
        num_ratios = sum(len(term.labels) for term in self.form.effects)
        interpolation = interpolated.near_mode(sums, self._log_prior(), num_ratios)
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
        sentence = (
            f"The likelihood was computed at {interpolation.num_points} ratios of sds, in float64, "
            "and interpolated between them: at draws of q it is off by {error}."
        )
        errors = _Errors(sums, interpolation, self.form)
        return Nearby(
            model.log_density, rows, interpolation.level + self.form.constant, errors, sentence
        )

    def host_sums(self, data: Mapping[str, Any]) -> HostSums:
        """The sums over rows on the host."""
        effects = self.form.effects
        counts = tuple(term.groups for term in effects)
        widths = tuple(len(term.labels) for term in effects)
        return HostSums(data, counts, widths)

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
        first, others_flat = draw(self.host_sums(data), effects, weights, unknowns, seed)
        shapes = [(term.groups, len(term.labels)) for term in form.effects]
        ends = np.cumsum([math.prod(shape) for shape in shapes[1:]])[:-1]
        parts = [first, *np.split(others_flat, ends, axis=1)]
        in_units = []
        for part, shape, term in zip(parts, shapes, form.effects, strict=True):
            sds = np.asarray(values[SDS + term.name], float)
            sds = sds * form.units.size / np.array(term.sizes)
            in_units.append(part.reshape(-1, *shape) * sds[:, None])
        return in_units

    def _log_prior(self) -> interpolated.LogPrior:
        """The log prior of coefficients, sigma and ratios, with the logarithms of sds as
        variables."""
        form = self.form
        widths = np.cumsum([len(term.labels) for term in form.effects])[:-1]
        program = cached_program(form, "prior in float64", _log_prior_program)

        def log_prior(b: np.ndarray, sigma: float, ratios: np.ndarray) -> float:
            values = {COEFFICIENTS + label: x for label, x in zip(form.labels, b, strict=True)}
            parts = np.split(ratios * sigma, widths)
            values |= {
                SDS + term.name: part for term, part in zip(form.effects, parts, strict=True)
            }
            with enable_x64(True):
                value = program(values | {AUX + "sigma": np.asarray(sigma)})
            return float(value) + float(np.log(ratios * sigma).sum())

        return log_prior


def _log_prior_program(form: Any) -> Callable[..., Any]:
    return quick_jit(lambda values: form().log_prior(values))


@dataclasses.dataclass(frozen=True, eq=False)
class _Errors:
    """Values at draws -> the exact log likelihood less the interpolated one."""

    sums: HostSums
    interpolation: interpolated.Interpolation
    form: Form

    def __call__(self, values: Mapping[str, Any]) -> Float[np.ndarray, " draws"]:
        rows = {name: x[0] for name, x in self.interpolation.rows.items()}
        errors = []
        for b, sigma, ratios in zip(*to_unknowns(self.form, values), strict=True):
            profile = interpolated.Profile.from_sums(self.sums, ratios)
            exact = -np.inf
            if profile is not None:
                exact = profile.log_lik(b, float(sigma), self.sums.count)
            approximation = float(interpolated.log_lik(rows, b, sigma, ratios, np))
            errors.append(exact - self.interpolation.level - approximation)
        self.sums.forget()
        return np.array(errors)


def to_unknowns(form: Form, values: Mapping[str, Any]) -> Unknowns:
    """The unknowns beside the effects, at draws of the variables."""
    sigma = np.asarray(values[AUX + "sigma"], float)
    columns = [np.asarray(values[COEFFICIENTS + label], float) for label in form.labels]
    sds = np.concatenate([np.asarray(values[SDS + term.name], float) for term in form.effects], 1)
    return Unknowns(
        np.stack(columns, 1) if columns else np.zeros((len(sigma), 0)), sigma, sds / sigma[:, None]
    )

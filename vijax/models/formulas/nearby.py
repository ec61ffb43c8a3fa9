"""The density of a normal regression near its mode, from few factorisations: what `vijax.auto` fits where groups are
many."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from vijax.contract.batch import Nearby
from vijax.models.energies.density import density
from vijax.models.formulas.effects import interpolated
from vijax.models.formulas.effects.on_host import HostSums
from vijax.models.formulas.form import AUX, COEFFICIENTS, SDS, Form, FormFunction
from vijax.xla.compiler import kept, quick_jit
from vijax.xla.precision import enable_x64

FEWEST_EFFECTS = 200
"""Effects of several factors from which on it is worth while."""
FEWEST_GROUPS = 20_000
"""Groups of one factor from which on it is."""


@dataclasses.dataclass(frozen=True)
class NearMode:
    """The data of a regression -> its density near the mode of its posterior; None where it is not interpolated: for
    laws that are not normal, correlated effects, few groups, and where an sd may be zero.

    Attributes:
      form: the density of the regression.
    """

    form: Form

    @property
    def is_worth(self) -> bool:
        """True of regressions whose effects are so many that it is cheaper than the density itself."""
        effects = self.form.effects
        if self.form.law != "gaussian" or not effects or max(max(own.blocks) for own in effects) > 1:
            return False
        total = sum(own.groups * len(own.labels) for own in effects)
        return total >= (FEWEST_EFFECTS if len(effects) > 1 else FEWEST_GROUPS)

    def __call__(self, data: Mapping[str, Any]) -> Nearby | None:
        """The density near the mode."""
        if not self.is_worth:
            return None
        effects = self.form.effects
        widths = tuple(len(own.labels) for own in effects)
        sums = HostSums(data, tuple(own.groups for own in effects), widths)
        near = interpolated.near_mode(sums, self._log_prior(), sum(widths))
        if near is None:
            return None
        form = dataclasses.replace(self.form, constant=0.0)
        functions = (FormFunction(form, name) for name in ("log_prior", "log_lik", "named"))
        log_prior, log_lik, named = functions
        model = density(form.variables(), log_prior=log_prior, log_lik=log_lik, derived=named)
        dtype = jnp.result_type(float)
        rows = {name: np.asarray(values, dtype) for name, values in near.rows.items()}
        sentence = (
            f"The likelihood was computed at {near.num_points} ratios of sds, in float64, and interpolated between "
            "them: at draws of q it is off by {error}."
        )
        errors = _Errors(sums, near, self.form)
        return Nearby(model.log_density, rows, near.level + self.form.constant, errors, sentence)

    def _log_prior(self) -> interpolated.LogPrior:
        """The log prior of coefficients, sigma and ratios, with the logarithms of sds as variables."""
        form = self.form
        widths = np.cumsum([len(own.labels) for own in form.effects])[:-1]
        program = kept(form, "prior in float64", lambda form: quick_jit(lambda values: form().log_prior(values)))

        def log_prior(b: np.ndarray, sigma: float, ratios: np.ndarray) -> float:
            values = {COEFFICIENTS + label: x for label, x in zip(form.labels, b, strict=True)}
            parts = np.split(ratios * sigma, widths)
            values |= {SDS + own.name: part for own, part in zip(form.effects, parts, strict=True)}
            with enable_x64(True):
                found = program(values | {AUX + "sigma": np.asarray(sigma)})
            return float(found) + float(np.log(ratios * sigma).sum())

        return log_prior


@dataclasses.dataclass(frozen=True, eq=False)
class _Errors:
    """Values at draws -> the exact log likelihood less the interpolated one."""

    sums: HostSums
    near: interpolated.Interpolated
    form: Form

    def __call__(self, values: Mapping[str, Any]) -> Float[np.ndarray, " draws"]:
        rows = {name: x[0] for name, x in self.near.rows.items()}
        sigmas = np.asarray(values[AUX + "sigma"], float)
        columns = [np.asarray(values[COEFFICIENTS + label], float) for label in self.form.labels]
        b = np.stack(columns, 1) if columns else np.zeros((len(sigmas), 0))
        sds = np.concatenate([np.asarray(values[SDS + own.name], float) for own in self.form.effects], 1)
        errors = []
        for at, sigma, own in zip(b, sigmas, sds, strict=True):
            ratios = own / sigma
            profile = interpolated.Profile.of(self.sums.at(ratios))
            exact = -np.inf if profile is None else profile.log_lik(at, float(sigma), self.sums.count)
            errors.append(exact - self.near.level - float(interpolated.log_lik(rows, at, sigma, ratios, np)))
        return np.array(errors)

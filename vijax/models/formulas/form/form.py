"""The unknowns of a regression by a formula, and what they stand for in the units of the data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.contract.variables import free
from vijax.models.formulas.form.correlations import correlation_factor
from vijax.models.formulas.form.links import inverse_link
from vijax.models.formulas.form.parts import (
    AUX,
    COEFFICIENTS,
    LENGTHS,
    NO_GROUPS,
    SDS,
    STEPS,
    Effects,
    Monotone,
    Units,
)
from vijax.models.formulas.laws import LAWS, SUPPORTS, Law
from vijax.models.formulas.observation import has_normal_rows, is_plain_normal
from vijax.models.formulas.priors import Prior


@dataclasses.dataclass(frozen=True)
class Form:
    """The density, as functions of values by name; equal forms have equal hashes.

    Attributes:
      law: name of the law of the response.
      labels: names of the coefficients.
      centre: means of the columns of X, at which the intercept has its prior.
      units: units of the coefficients.
      effects: effects of each factor.
      priors: priors by name.
      constant: log of the Jacobian of the units.
      nodes: nodes a dimension of the quadrature.
      cutpoints: number of cutpoints, for ordered categories. The cutpoints are relative to the mean
          of the predictors.
      predictors: C, the predictors of a row of categories. The C coefficients of a column stand
        together.
      monotone: the steps of monotone terms, of each term for one category after another. Their
        indicators are the last columns of x in the rows.
      smooths: the coefficients of smooth terms.
      parameters: parameters of the law with formulas: their predictors follow the first one.
      slots: the number of the predictor that each coefficient enters: 0, but for such parameters.
      own_parameters: the parameters of the law without formulas: each is one number.
      facts: names of what is known of rows beside the response.
      fixed: parameters of the law that are known: the quantile of a quantile regression.
    """

    law: str
    labels: tuple[str, ...]
    centre: tuple[float, ...]
    units: Units
    effects: tuple[Effects, ...]
    priors: tuple[tuple[str, Prior], ...]
    constant: float
    nodes: int
    cutpoints: int = 0
    predictors: int = 1
    monotone: tuple[Monotone, ...] = ()
    smooths: tuple[Effects, ...] = ()
    parameters: tuple[str, ...] = ()
    slots: tuple[int, ...] = ()
    own_parameters: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    fixed: tuple[tuple[str, float], ...] = ()

    @property
    def response_law(self) -> Law:
        """The law of the response."""
        law = LAWS[self.law]
        for _, quantile in self.fixed:
            law = law.with_quantile(quantile)
        return law

    @property
    def is_plain_normal(self) -> bool:
        """True for a normal law with one sigma, times known roots at most, whose rows are summed up
        once."""
        return is_plain_normal(self.law, bool(self.parameters), self.facts)

    @property
    def may_be_convex(self) -> bool:
        """True if the log likelihood of a row may be convex in its predictors: those of a parameter
        are among them."""
        return bool(self.parameters) and not self.response_law.has_steps

    @property
    def terms(self) -> tuple[Effects, ...]:
        """All effects that are integrated out, in the order of z0, z1, ... of the rows. Smooth
        terms come after the first grouping factor, whose groups have blocks of their own."""
        if not self.smooths:
            return self.effects
        return (*(self.effects or (NO_GROUPS,)), *self.smooths)

    @property
    def processes(self) -> tuple[Effects, ...]:
        """The smooth terms that are Gaussian processes."""
        return tuple(term for term in self.smooths if term.kernel is not None)

    def variables(self) -> dict[str, Any]:
        """The unknowns."""
        unknowns = {COEFFICIENTS + label: free() for label in self.labels}
        unknowns |= {STEPS + term.label: free(term.size, "simplex") for term in self.monotone}
        unknowns |= {
            SDS + term.name: free(term.num_sds, "positive")
            for term in (*self.effects, *self.smooths)
        }
        for term in self.processes:
            unknowns[LENGTHS + term.name] = free(len(term.length_names()), "positive")
        for term in self.effects:
            for block in term.correlated_blocks():
                unknowns[block.unknown] = free(block.size * (block.size - 1) // 2)
        shapes = {"threshold": (self.cutpoints,)}
        for name in self.own_parameters:
            shape, support = shapes.get(name, ()), SUPPORTS.get(name, "positive")
            unknowns[AUX + name] = free(shape, support)
            if name == "threshold" and self.response_law.has_steps:
                unknowns[AUX + name] = free(shape)
        return unknowns

    def coefficients(self, values: Mapping[str, Any]) -> Float[Array, " p"]:
        """beta, in the units of the data."""
        if not self.labels:
            return jnp.zeros(0)
        return self.units.coefficients(self.orthogonal_coefficients(values))

    def orthogonal_coefficients(self, values: Mapping[str, Any]) -> Float[Array, " p"]:
        """b, (p,)."""
        coefficients = [values[COEFFICIENTS + label] for label in self.labels]
        if coefficients:
            return jnp.stack(coefficients)
        return jnp.zeros(0)

    def excess_steps(self, values: Mapping[str, Any]) -> Float[Array, " steps"]:
        """Coefficients of the indicators of all steps, by predictor, in the units of the data."""
        beta = self.coefficients(values)
        parts = [jnp.zeros(0, beta.dtype)]
        for terms in self.monotone_terms():
            excesses = [
                term.excess(beta[self.labels.index(term.label)], values[STEPS + term.label])
                for term in terms
            ]
            parts.append(jnp.stack(excesses, -1).ravel())
        return jnp.concatenate(parts)

    def monotone_terms(self) -> list[tuple[Monotone, ...]]:
        """The steps of each monotone term: in each predictor, of categories."""
        starts = range(0, len(self.monotone), self.predictors)
        return [self.monotone[start : start + self.predictors] for start in starts]

    def row_coefficients(self, values: Mapping[str, Any]) -> Float[Array, " columns"]:
        """Coefficients of the columns x of rows in units of size one: b, less what the location
        stands for, then those of steps."""
        b = self.orthogonal_coefficients(values)
        b = b + jnp.asarray(self.units.shift, b.dtype)
        if not self.monotone:
            return b
        sizes = [self.units.size if slot == 0 else 1.0 for slot in self.step_slots]
        steps = self.excess_steps(values) / jnp.asarray(sizes, b.dtype)
        return jnp.concatenate([b, steps])

    def aux(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of the law without formulas, in units of size one."""
        return {name: values[AUX + name] for name in self.own_parameters}

    @property
    def step_slots(self) -> tuple[int, ...]:
        """The number of the predictor that each step of monotone terms enters."""
        return tuple(term.slot for term in self.monotone for _ in range(term.size))

    def per_predictor(self, x: Any, slots: tuple[int, ...] | None = None) -> Any:
        """Coefficients, (..., p), by column and predictor, (..., columns, C); `x` is of JAX or
        NumPy. `slots` has the predictors of the columns; None stands for those of coefficients."""
        if slots is None:
            slots = self.slots
        if self.parameters:
            return x[..., None] * self.slot_codes(slots, x)
        columns = x.shape[-1] // self.predictors
        return x.reshape(*x.shape[:-1], columns, self.predictors)

    def effects_per_predictor(self, x: Any, i: int) -> Any:
        """Effects of factor i, (..., all effects), by column of z and predictor, (..., d, C)."""
        if self.parameters:
            return x[..., None] * self.slot_codes(self.terms[i].slots, x)
        d = x.shape[-1] // self.predictors
        return x.reshape(*x.shape[:-1], self.predictors, d).swapaxes(-1, -2)

    def slot_codes(self, slots: tuple[int, ...], like: Any) -> np.ndarray:
        """1 at the predictor of each column, (..., p, C), to multiply with `like`, (..., p)."""
        codes = np.eye(1 + len(self.parameters), dtype=like.dtype)[list(slots)]
        return codes.reshape((1,) * (like.ndim - 1) + codes.shape)

    def split_predictors(self, eta: Any, xp: Any = jnp) -> tuple[Any, dict[str, Any]]:
        """The predictor of the response, and the parameters with formulas, from the predictors of
        rows, (..., C); `xp` is `jax.numpy` or `numpy`."""
        if not self.parameters:
            return eta, {}
        parameters = {}
        for i, name in enumerate(self.parameters, 1):
            parameters[name] = inverse_link(name, eta[..., i], xp)
        return eta[..., 0], parameters

    def effect_units(self, i: int) -> Float[np.ndarray, " d"]:
        """The units of the effects of factor i in the data, over those of the density."""
        term = self.terms[i]
        is_main = np.array(term.slots, int) == 0
        size = is_main * self.units.size + ~is_main  # a program may trace the unit
        return size / np.array(term.sizes)

    def factor(self, values: Mapping[str, Any], i: int) -> Float[Array, "d d"]:
        """The triangular factor of the covariance of the effects of factor i, in units of size
        one."""
        term = self.terms[i]
        if not term.labels:
            return jnp.zeros((0, 0))
        sds = values[SDS + term.name]
        if term.is_smooth:
            return jnp.diag(term.smooth_sds(sds, values.get(LENGTHS + term.name)))
        full = jnp.eye(len(term.labels), dtype=sds.dtype)
        for block in term.correlated_blocks():
            ends = slice(block.start, block.start + block.size)
            factor = correlation_factor(values[block.unknown], block.size)[0]
            full = full.at[ends, ends].set(factor)
        return sds[:, None] * full

    def sds(self, values: Mapping[str, Any], i: int) -> Float[Array, " d"]:
        """Standard deviations of effects of factor i, in the units of the data."""
        term = self.terms[i]
        sds = values[SDS + term.name]
        units = self.effect_units(i)
        return sds * jnp.asarray(units[:: len(units) // len(sds)], sds.dtype)

    def named(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """All unknowns by their names, in the units of the data."""
        by_name = dict(zip(self.labels, self.coefficients(values), strict=True))
        for steps in self.monotone:
            shares = values[STEPS + steps.label]
            by_name |= {name: shares[k] for k, name in enumerate(steps.share_names())}
        for i, term in enumerate(self.terms):
            if not term.labels:
                continue
            by_name |= dict(zip(term.sd_names(), self.sds(values, i), strict=True))
            by_name |= _named_lengths(term, values)
            by_name |= _named_correlations(term, values)
        return by_name | self._named_parameters(values)

    def _named_parameters(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of the law without formulas, in the units of the data."""
        parameters = dict(self.aux(values))
        if "sigma" in parameters:
            parameters["sigma"] = parameters["sigma"] * self.units.size
        if not self.cutpoints:
            return parameters
        # Among `aux` they are relative to the mean of the predictors.
        cuts = parameters.pop("threshold") + self.predictor_at_centre(values)
        return {f"threshold[{i}]": cuts[i] for i in range(self.cutpoints)} | parameters

    def law_parameters(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of the law without formulas, from draws of unknowns by name: (S,) each,
        cutpoints (S, C - 1)."""
        parameters = {
            name: np.asarray(named[name]) for name in self.own_parameters if name in named
        }
        if self.knows_sigma:  # standard errors alone make the response differ from its mean
            parameters["sigma"] = np.zeros(len(next(iter(named.values()))))
        cuts = [np.asarray(named[f"threshold[{i}]"]) for i in range(self.cutpoints)]
        if cuts:
            parameters["threshold"] = np.stack(cuts, -1)
        return parameters

    def step_centre(self) -> Float[Array, " steps"]:
        """Means of the indicators of all steps."""
        centre = [mean for term, *_ in self.monotone_terms() for mean in term.centre]
        return jnp.asarray(centre, jnp.result_type(float))

    def predictor_at_centre(self, values: Mapping[str, Any]) -> Float[Array, " *cutpoints"]:
        """The predictor of ordered categories at the means of all columns; that of each cutpoint,
        where columns have effects of their own there."""
        beta = self.coefficients(values)
        centre = jnp.asarray(self.centre, beta.dtype)
        at_centre = beta @ centre
        if self.parameters:
            by_predictor = centre @ self.per_predictor(beta)
            at_centre = by_predictor[0] + by_predictor[1:]
        if self.monotone:
            at_centre += self.step_centre() @ self.excess_steps(values)
        return at_centre

    @property
    def knows_sigma(self) -> bool:
        """True if known standard errors stand in place of sigma."""
        has_sigma = "sigma" in (*self.own_parameters, *self.parameters)
        return "sigma" in LAWS[self.law].aux and not has_sigma

    @property
    def is_summed(self) -> bool:
        """True if the data are sums over rows (`vijax.models.formulas.effects.crossed_normal`)."""
        return self.is_plain_normal and len(self.terms) > 1

    @property
    def is_normal_given_sigmas(self) -> bool:
        """True for a normal law with a sigma for each row, and effects of one factor in the mean
        alone: its integrals are closed."""
        has_plain_effects = not any(slot for term in self.effects for slot in term.slots)
        is_normal = has_normal_rows(self.law, self.facts)
        return is_normal and len(self.terms) < 2 and has_plain_effects


def _named_lengths(term: Effects, values: Mapping[str, Any]) -> dict[str, Any]:
    """The length scales of a Gaussian process, in the units of its columns."""
    if term.kernel is None:
        return {}
    lengths = values[LENGTHS + term.name] * term.kernel.unit
    return dict(zip(term.length_names(), lengths, strict=True))


def _named_correlations(term: Effects, values: Mapping[str, Any]) -> dict[str, Any]:
    """The correlations of effects of a factor."""
    by_name = {}
    for block in term.correlated_blocks():
        factor = correlation_factor(values[block.unknown], block.size)[0]
        correlations = factor @ factor.T
        for r in range(block.size):
            for c in range(r):
                name = term.correlation_name(block.start + c, block.start + r)
                by_name[name] = correlations[r, c]
    return by_name


@dataclasses.dataclass(frozen=True)
class FormFunction:
    """A function of a form. It compares by value, so that equal forms share compiled programs."""

    form: Form
    function: Callable[..., Any]
    in_float64: ClassVar[bool] = True
    """Draws of the unknowns that `Form.named` derives are computed in float64."""

    def __call__(self, *given: Any) -> Any:
        """The function at its arguments."""
        return self.function(self.form, *given)

"""A regression by a formula, as a log density of few unknowns: coefficients, spreads and
correlations of group effects.

    eta = offset + X beta + Z u,   u_j ~ N(0, D C C' D)   (D standard deviations, C C' correlations),   y ~ p(y | eta)

The effects u are integrated out (`vijax.models.formulas.effects`): group by group for one factor
(`integrals`), all together for several (`crossed`; `crossed_normal` for a normal law). A density of
a few numbers remains, in which no spread is tied to its effects; a mean field of effects and
spreads together would be too narrow. The numbers are in units in which the data have size one: beta
= location + unit T b, where T' X' X T is about N I.

For categories with a base, eta has a column for each other category: X enters as X (x) I, and so do
Z and T. Effects of different predictors are independent, as in Bambi.

Where parameters of the law have formulas, as `sigma ~ x`, eta has a column for each of them too:
the logarithm, or the log odds of a probability. A column of X, and an effect of a group, then
enters one predictor."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import block_diag

from vijax.contract.variables import free
from vijax.models.formulas.effects import crossed, crossed_normal, integrals, interpolated
from vijax.models.formulas.formula import Design, name_at_level
from vijax.models.formulas.laws import LAWS, SUPPORTS, Law, partly_known
from vijax.models.formulas.priors import LINKED, Prior, log_prob
from vijax.models.formulas.weighted import mean_and_spread

COEFFICIENTS, SDS, CORRELATIONS, AUX = "_orthogonal.", "_sds.", "_correlations.", "_others."
STEPS = "_steps."
"""Prefixes of the names of the unknowns in units of size one. The name of a column, a factor, a
factor and the number of a block, a parameter, or a monotone term follows. The number of a column is
the coefficient of its part that the columns before it do not explain. Each is a variable of its
own, not an entry of a vector: the density may be the same with them in another order."""


class Units(NamedTuple):
    """Location and scale of the coefficients: beta = location + size T b.

    Attributes:
      location: beta where b is zero, (p,).
      shift: minus the b at which beta is zero, (p,), if the location is not subtracted from the
          data; else zeros.
      turn: T, (p, p).
      size: the unit of the response.
      sizes: the unit of the predictor of each column, (p,); 1 for parameters with formulas.
    """

    location: tuple[float, ...]
    shift: tuple[float, ...]
    turn: tuple[tuple[float, ...], ...]
    size: float
    sizes: tuple[float, ...]

    def coefficients(self, b: Float[Array, " p"]) -> Float[Array, " p"]:
        """beta at b."""
        in_units = jnp.asarray(self.turn, b.dtype) @ b
        return jnp.asarray(self.location, b.dtype) + jnp.asarray(self.sizes, b.dtype) * in_units


class Effects(NamedTuple):
    """The effects of a factor.

    Attributes:
      name: name of the factor.
      labels: names of the effects.
      blocks: sizes of the blocks of correlated effects.
      sizes: root mean squares of their columns, by which the columns are divided.
      groups: number of groups.
      levels: for each effect the category of the response whose predictor it enters; None where
          there is one predictor.
      slots: the number of the predictor that each effect enters, where parameters have formulas.
      is_smooth: True for the coefficients of a smooth term: one group, that of all rows, whose
          effects for one predictor share an sd.
    """

    name: str
    labels: tuple[str, ...]
    blocks: tuple[int, ...]
    sizes: tuple[float, ...]
    groups: int
    levels: tuple[str | None, ...]
    slots: tuple[int, ...]
    is_smooth: bool = False

    @property
    def num_sds(self) -> int:
        """Number of standard deviations."""
        return len(self.sd_names())

    def starts(self) -> list[int]:
        """Index of the first effect of each block."""
        return np.concatenate([[0], np.cumsum(self.blocks)]).tolist()[:-1]

    def sd_names(self) -> list[str]:
        """Names of the standard deviations."""
        if self.is_smooth:
            return [name_at_level(f"sds({self.name})", x) for x in dict.fromkeys(self.levels)]
        pairs = zip(self.labels, self.levels, strict=True)
        return [name_at_level(f"{label}|{self.name}_sigma", level) for label, level in pairs]

    def correlation_name(self, first: int, second: int) -> str:
        """The name of the correlation of two effects."""
        return name_at_level(
            f"corr({self.labels[first]}, {self.labels[second]}|{self.name})", self.levels[first]
        )


NO_GROUPS = Effects("", (), (), (), 1, (), ())
"""The first factor of a formula with smooth terms alone: no effects."""


class Monotone(NamedTuple):
    """The steps of a monotone term: its coefficient b is their mean, and b D s_k the k-th of them.

    Attributes:
      label: name of its coefficient.
      size: D, the number of steps.
      centre: means of the indicators of the steps, (D,).
      slot: the number of the predictor that it enters.
    """

    label: str
    size: int
    centre: tuple[float, ...]
    slot: int

    @property
    def name(self) -> str:
        """The name of the shares s, as brms has it."""
        return f"simo_{self.label}"

    def share_names(self) -> list[str]:
        """Names of the shares, counted from 1."""
        return [f"{self.name}[{k + 1}]" for k in range(self.size)]

    def excess(self, b: Any, shares: Any) -> Any:
        """The coefficients of the indicators beside the column of b: b (D s - 1), (..., D)."""
        return b[..., None] * (self.size * shares - 1)


class ScaledRows(NamedTuple):
    """Rows of a normal law, divided by their sigmas: residuals (n,), columns of effects (n, d), and
    the logarithms of sigmas (n,)."""

    r: Float[Array, " n"]
    b: Float[Array, "n d"]
    log_sigmas: Float[Array, " n"]


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
      monotone: the steps of monotone terms. Their indicators are the last columns of x in the rows.
      smooths: the coefficients of smooth terms.
      parameters: parameters of the law with formulas: their predictors follow the first one.
      slots: the number of the predictor that each coefficient enters: 0, but for such parameters.
      own_parameters: the parameters of the law without formulas: each is one number.
      facts: names of what is known of rows beside the response.
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

    @property
    def is_plain_normal(self) -> bool:
        """True for a normal law with one sigma, whose rows are summed up once."""
        return self.law == "gaussian" and not self.parameters and not self.facts

    @property
    def terms(self) -> tuple[Effects, ...]:
        """All effects that are integrated out, in the order of z0, z1, ... of the rows. Smooth
        terms come after the first grouping factor, whose groups have blocks of their own."""
        if not self.smooths:
            return self.effects
        return (*(self.effects or (NO_GROUPS,)), *self.smooths)

    def variables(self) -> dict[str, Any]:
        """The unknowns."""
        unknowns = {COEFFICIENTS + label: free() for label in self.labels}
        unknowns |= {STEPS + term.label: free(term.size, "simplex") for term in self.monotone}
        unknowns |= {
            SDS + term.name: free(term.num_sds, "positive")
            for term in (*self.effects, *self.smooths)
        }
        for term in self.effects:
            for i, k in enumerate(term.blocks):
                if k > 1:
                    unknowns[f"{CORRELATIONS}{term.name}.{i}"] = free(k * (k - 1) // 2)
        shapes = {"threshold": (self.cutpoints,)}
        for name in self.own_parameters:
            shape, support = shapes.get(name, ()), SUPPORTS.get(name, "positive")
            unknowns[AUX + name] = free(shape, support)
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
        """Coefficients of the indicators of all steps, in the units of the data."""
        beta = self.coefficients(values)
        parts = [jnp.zeros(0, beta.dtype)]
        for term in self.monotone:
            b = beta[self.labels.index(term.label)]
            parts.append(term.excess(b, values[STEPS + term.label]))
        return jnp.concatenate(parts)

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
            return x[..., None] * self._slot_codes(slots, x)
        columns = x.shape[-1] // self.predictors
        return x.reshape(*x.shape[:-1], columns, self.predictors)

    def effects_per_predictor(self, x: Any, i: int) -> Any:
        """Effects of factor i, (..., all effects), by column of z and predictor, (..., d, C)."""
        if self.parameters:
            return x[..., None] * self._slot_codes(self.terms[i].slots, x)
        d = x.shape[-1] // self.predictors
        return x.reshape(*x.shape[:-1], self.predictors, d).swapaxes(-1, -2)

    def _slot_codes(self, slots: tuple[int, ...], like: Any) -> np.ndarray:
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
        size = np.where(np.array(term.slots, int) == 0, self.units.size, 1.0)
        return size / np.array(term.sizes)

    def factor(self, values: Mapping[str, Any], i: int) -> Float[Array, "d d"]:
        """The triangular factor of the covariance of the effects of factor i, in units of size
        one."""
        term = self.terms[i]
        if not term.labels:
            return jnp.zeros((0, 0))
        sds = values[SDS + term.name]
        if term.is_smooth:
            return jnp.diag(jnp.repeat(sds, len(term.labels) // term.num_sds))
        full = jnp.zeros((len(term.labels), len(term.labels)), sds.dtype)
        for b, (start, k) in enumerate(zip(term.starts(), term.blocks, strict=True)):
            block = jnp.ones((1, 1), sds.dtype)
            if k > 1:
                block = correlation_factor(values[f"{CORRELATIONS}{term.name}.{b}"], k)[0]
            full = full.at[start : start + k, start : start + k].set(block)
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
            for b, (start, k) in enumerate(zip(term.starts(), term.blocks, strict=True)):
                if k > 1:
                    block = correlation_factor(values[f"{CORRELATIONS}{term.name}.{b}"], k)[0]
                    correlations = block @ block.T
                    for r in range(k):
                        for c in range(r):
                            name = term.correlation_name(start + c, start + r)
                            by_name[name] = correlations[r, c]
        aux = dict(self.aux(values))
        if self.cutpoints:  # in `aux` they are relative to the mean of the predictors
            cuts = aux.pop("threshold") + self._predictor_at_centre(values)
            by_name |= {f"threshold[{i}]": cuts[i] for i in range(self.cutpoints)}
        for name, x in aux.items():
            by_name[name] = x * (self.units.size if name == "sigma" else 1.0)
        return by_name

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

    def log_prior(self, values: Mapping[str, Any]) -> Float[Array, ""]:
        """Log prior of the unknowns, with the Jacobian of their units."""
        by_name = self.prior_arguments(values)
        total = jnp.asarray(self.constant, jnp.result_type(float))
        for name, prior in dict(self.priors).items():
            if name.startswith("corr|"):
                term = next(term for term in self.effects if f"corr|{term.name}" == name)
                for b, k in enumerate(term.blocks):
                    if k > 1:
                        partial = values[f"{CORRELATIONS}{term.name}.{b}"]
                        factor, log_det = correlation_factor(partial, k)
                        total += log_prob(prior, factor) + log_det
            else:
                total += log_prob(prior, by_name[name])
        return total

    def prior_arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The numbers of which the priors are, by name: unknowns, but intercepts and cutpoints at
        the means of all columns."""
        by_name = self.named(values) | self._intercepts_at_centre(values)
        for i in range(self.cutpoints):
            by_name[f"threshold[{i}]"] = self.aux(values)["threshold"][i]
        return by_name | {term.name: values[STEPS + term.label] for term in self.monotone}

    def _intercepts_at_centre(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The predictors at the means of all columns, where the priors of intercepts hold."""
        names = {"Intercept", *(f"{name}_Intercept" for name in self.parameters)}
        intercepts = [i for i, x in enumerate(self.labels) if x.partition("[")[0] in names]
        if not intercepts:
            return {}
        beta = self.per_predictor(self.coefficients(values))
        columns = {i // self.predictors for i in intercepts}
        centre = list(self.centre)
        for column in columns:
            centre[column] = 1.0
        at_centre = jnp.asarray(centre, beta.dtype) @ beta
        if self.monotone:
            steps = self.per_predictor(self.excess_steps(values), self.step_slots)
            at_centre += self._step_centre() @ steps
        return {self.labels[i]: at_centre[self.slots[i] + i % self.predictors] for i in intercepts}

    def _step_centre(self) -> Float[Array, " steps"]:
        """Means of the indicators of all steps."""
        centre = [mean for term in self.monotone for mean in term.centre]
        return jnp.asarray(centre, jnp.result_type(float))

    def _predictor_at_centre(self, values: Mapping[str, Any]) -> Float[Array, ""]:
        """The predictor of ordered categories at the means of all columns."""
        at_centre = self.coefficients(values) @ jnp.asarray(self.centre)
        if self.monotone:
            at_centre += self._step_centre() @ self.excess_steps(values)
        return at_centre

    def eta(self, values: Mapping[str, Any], rows: Mapping[str, Any]) -> Float[Array, " n *C"]:
        """eta without effects, in units of size one."""
        offset = rows["offset"]  # (n, C) where parameters have formulas
        if self.predictors > 1:
            offset = jnp.broadcast_to(offset[:, None], (len(offset), self.predictors))
        if not self.labels:
            return offset
        b = self.row_coefficients(values)
        slots = (*self.slots, *self.step_slots)
        return offset + rows["x"] @ self.per_predictor(b, slots).reshape(-1, *offset.shape[1:])

    def row_log_liks(
        self, parameters: tuple[Any, Mapping[str, Any]], eta: Float[Array, " n *C"]
    ) -> Float[Array, " n"]:
        """Log likelihoods of rows, each times its weight, in units of size one."""
        aux, rows = parameters
        columns = {name: rows[name] for name in ("y", "trials", *self.facts)}
        log_liks = jax.vmap(lambda row, eta: self.row_log_prob(aux, row, eta))(columns, eta)
        return rows["weight"] * log_liks

    @property
    def knows_sigma(self) -> bool:
        """True if known standard errors stand in place of sigma."""
        has_sigma = "sigma" in (*self.own_parameters, *self.parameters)
        return "sigma" in LAWS[self.law].aux and not has_sigma

    def row_parameters(
        self, aux: Mapping[str, Any], row: Mapping[str, Any], eta: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The predictor of the response, and all parameters of its law, in rows."""
        main, by_row = self.split_predictors(eta)
        parameters = {**aux, **by_row}
        if "se" in row:
            parameters["sigma"] = jnp.sqrt(row["se"] ** 2 + parameters.get("sigma", 0.0) ** 2)
        return main, parameters

    def row_log_prob(self, aux: Mapping[str, Any], row: Mapping[str, Any], eta: Any) -> Any:
        """The log likelihood of a row (y, trials, facts) with the predictors eta, a number or
        (C,)."""
        main, parameters = self.row_parameters(aux, row, eta)
        return partly_known.log_prob(LAWS[self.law], parameters, row, main)

    def draw_response(
        self, aux: Mapping[str, Any], row: Mapping[str, Any], key: Any, eta: Any
    ) -> Any:
        """A draw of the response of a row (trials, facts) with the predictors eta, a number or
        (C,)."""
        main, parameters = self.row_parameters(aux, row, eta)
        law = LAWS[self.law].likelihood(parameters, row["trials"])
        return partly_known.draw(lambda key: law.sample(key, main), row, key)  # type: ignore[misc]

    def interpolated_log_lik(
        self, values: Mapping[str, Any], rows: Mapping[str, Any]
    ) -> Float[Array, ""]:
        """Log likelihood of all rows near its mode, less a constant; `rows` are the rows that
        `interpolated.near_mode` returns."""
        sigma = self.aux(values)["sigma"]
        ratios = jnp.concatenate([values[SDS + term.name] for term in self.effects]) / sigma
        return interpolated.log_lik(rows, self.orthogonal_coefficients(values), sigma, ratios)

    def log_lik(self, values: Mapping[str, Any], rows: Mapping[str, Any]) -> Float[Array, ""]:
        """Log likelihood of a group with its effects integrated out; for several factors the log
        likelihood of all rows."""
        if self.is_summed:
            return crossed_normal.log_integral(
                rows, self.row_coefficients(values), self.scales(values)
            )
        a, aux = self.eta(values, rows), self.aux(values)
        if len(self.terms) > 1:
            return crossed.laplace(
                self.row_log_liks, (aux, rows), a, self.all_columns(values, rows)
            )
        b = self.columns(values, rows)
        if "count" in rows:
            return integrals.normal_integral(rows["y"] - a, b, aux["sigma"], rows["count"])
        if self.is_normal_given_sigmas:
            scaled = self._divide_by_sigmas(aux, rows, a, b)
            unit, count = jnp.ones((), a.dtype), jnp.sum(rows["weight"])
            log_lik = integrals.normal_integral(scaled.r, scaled.b, unit, count)
            return log_lik - jnp.sum(rows["weight"] * scaled.log_sigmas)
        return integrals.quadrature(self.row_log_liks, (aux, rows), a, b, self.nodes)

    @property
    def is_summed(self) -> bool:
        """True if the data are sums over rows (`vijax.models.formulas.effects.crossed_normal`)."""
        return self.is_plain_normal and len(self.terms) > 1

    @property
    def is_normal_given_sigmas(self) -> bool:
        """True for a normal law with a sigma for each row, and effects of one factor in the mean
        alone: its integrals are closed."""
        has_plain_effects = not any(slot for term in self.effects for slot in term.slots)
        is_normal = self.law == "gaussian" and set(self.facts) <= {"se"}
        return is_normal and len(self.terms) < 2 and has_plain_effects

    def _divide_by_sigmas(
        self, aux: Mapping[str, Any], rows: Mapping[str, Any], a: Array, b: Float[Array, "n *C d"]
    ) -> ScaledRows:
        """Residuals and columns of effects divided by the sigma of each row, times the root of its
        weight."""
        main, parameters = self.row_parameters(aux, rows, a)
        sigmas = parameters["sigma"]
        scale = jnp.sqrt(rows["weight"]) / sigmas
        residuals = scale * (rows["y"] - main)
        columns = b.reshape(len(b), math.prod(b.shape[1:]))[:, : b.shape[-1]]  # those of the mean
        return ScaledRows(residuals, scale[:, None] * columns, jnp.log(sigmas))

    def scales(self, values: Mapping[str, Any]) -> crossed_normal.Scales:
        """The sizes of effects and errors, in units of size one."""
        factors = [self.factor(values, i) for i in range(len(self.terms))]
        return crossed_normal.Scales(
            factors, tuple(term.groups for term in self.terms), self.aux(values)["sigma"]
        )

    def columns(self, values: Mapping[str, Any], rows: Mapping[str, Any]) -> Float[Array, "n *C d"]:
        """Columns of the effects v ~ N(0, I) of one factor."""
        if not self.effects:
            return rows["z0"]
        z = rows["z0"]
        if self.predictors > 1 or self.parameters:
            z = self._repeated_columns(z, 0)
        return z @ self.factor(values, 0)

    def _repeated_columns(self, z: Float[Array, "n d"], i: int) -> Float[Array, "n C d"]:
        """Columns of factor i for each predictor."""
        if self.parameters:
            return z[:, None] * self._slot_codes(self.terms[i].slots, z).swapaxes(1, 2)
        return integrals.repeat_blocks(z, self.predictors)

    def all_columns(self, values: Mapping[str, Any], rows: Mapping[str, Any]) -> crossed.Columns:
        """Columns of the effects of several factors."""
        columns = [
            self._repeated_columns(rows[f"z{i}"], i) @ self.factor(values, i)
            for i in range(len(self.terms))
        ]
        counts = tuple(term.groups for term in self.terms)
        return crossed.all_columns(columns, rows, counts, bool(self.parameters))

    def draw_effects(
        self, values: Mapping[str, Any], rows: Mapping[str, Any], key: Any
    ) -> list[Float[Array, "J d"]]:
        """A draw of the effects of all groups of each factor given all else, in units of the data.

        For a normal law the draw is exact. For another law with one factor it is one of
        `CANDIDATES` normal draws about the mode, picked by importance (Rubin 1987); with several
        factors it is a normal draw about the mode."""
        if len(self.terms) == 1:
            keys = jax.random.split(key, self.effects[0].groups)
            draw_group = lambda rows, key: self._draw_group(values, rows, key)
            v = [jax.vmap(draw_group)(rows, keys)]
        else:
            all_rows = {name: x[0] for name, x in rows.items()}
            first, flat = self._draw_jointly(values, all_rows, key)
            shapes = [(term.groups, len(term.labels)) for term in self.terms[1:]]
            ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
            parts = zip(jnp.split(flat, ends), shapes, strict=True)
            v = [first, *(x.reshape(shape) for x, shape in parts)]
        effects = []
        for i, x in enumerate(v):
            units = jnp.asarray(self.effect_units(i), x.dtype)[None]
            effects.append(units * (x @ self.factor(values, i).T))
        return effects

    def _draw_jointly(
        self, values: Mapping[str, Any], rows: Mapping[str, Any], key: Any
    ) -> crossed.Effects:
        if self.is_summed:
            return crossed_normal.draw(
                rows, self.row_coefficients(values), self.scales(values), key
            )
        a, z = self.eta(values, rows), self.all_columns(values, rows)
        return crossed.draw(self.row_log_liks, (self.aux(values), rows), a, z, key)

    def _draw_group(
        self, values: Mapping[str, Any], rows: Mapping[str, Any], key: Any
    ) -> Float[Array, " d"]:
        a, b, aux = self.eta(values, rows), self.columns(values, rows), self.aux(values)
        key_draw, key_pick = jax.random.split(key)
        if "count" in rows:
            law_of_effects = integrals.law_of_normal(rows["y"] - a, b, aux["sigma"])
            return _draw_normal(*law_of_effects, key_draw)
        if self.is_normal_given_sigmas:
            scaled = self._divide_by_sigmas(aux, rows, a, b)
            unit = jnp.ones((), a.dtype)
            return _draw_normal(*integrals.law_of_normal(scaled.r, scaled.b, unit), key_draw)
        mean, factor = integrals.find_mode(self.row_log_liks, (aux, rows), a, b)
        noise = jax.random.normal(key_draw, (CANDIDATES, *mean.shape), mean.dtype)
        candidates = mean[None] + jax.vmap(lambda t: integrals.backward(factor, t))(noise)
        log_joint = jax.vmap(lambda v: integrals.joint(self.row_log_liks, (aux, rows), a, b, v))(
            candidates
        )
        return candidates[jax.random.categorical(key_pick, log_joint + 0.5 * jnp.sum(noise**2, -1))]


def _draw_normal(
    mean: Float[Array, " d"], factor: Float[Array, "d d"], key: Any
) -> Float[Array, " d"]:
    """A normal draw with the factor of its precision."""
    noise = jax.random.normal(key, mean.shape, mean.dtype)
    return mean + integrals.backward(factor, noise)


LARGEST_LOG, LARGEST_LOGIT = 40.0, 15.0
"""Largest predictors of parameters, by absolute value: float32 holds the square of e^40, and tells
sigmoid(15) from one."""


def inverse_link(name: str, eta: Any, xp: Any = jnp) -> Any:
    """A parameter of a law with this predictor; `xp` is `jax.numpy` or `numpy`."""
    if SUPPORTS.get(name) == "unit interval":
        return 1 / (1 + xp.exp(-xp.clip(eta, -LARGEST_LOGIT, LARGEST_LOGIT)))
    return xp.exp(xp.clip(eta, -LARGEST_LOG, LARGEST_LOG))


CANDIDATES = 16
"""Normal draws of the effects of a group among which one is picked by importance."""


@dataclasses.dataclass(frozen=True)
class FormFunction:
    """A function of a form. It compares by value, so that equal forms share compiled programs."""

    form: Form
    name: str
    in_float64: ClassVar[bool] = True
    """Draws of the unknowns that `Form.named` derives are computed in float64."""

    def __call__(self, *given: Any) -> Any:
        """The function at its arguments."""
        return getattr(self.form, self.name)(*given)


def correlation_factor(
    x: Float[Array, " pairs"], size: int
) -> tuple[Float[Array, "k k"], Float[Array, ""]]:
    """The triangular factor of a correlation matrix, and the log determinant of the map from the
    coordinates to its entries below the diagonal. The hyperbolic tangents of the coordinates are
    partial correlations (Lewandowski, Kurowicka and Joe 2009, section 2), so that a density in the
    coordinates has exponential tails; in ratios of entries its tails would be powers."""
    below = np.tril_indices(size, -1)
    log_left = -2 * (jnp.logaddexp(x, -x) - math.log(2))  # log(1 - z^2)
    z = jnp.zeros((size, size), x.dtype).at[below].set(jnp.tanh(x))
    log_parts = jnp.zeros((size, size), x.dtype).at[below].set(log_left)
    log_sums = jnp.cumsum(log_parts, 1)
    log_rest = log_sums - log_parts  # sums of a row before each entry
    factor = z * jnp.exp(0.5 * log_rest) + jnp.diag(jnp.exp(0.5 * log_sums[:, -1]))
    return factor, 0.5 * jnp.sum(log_rest[below]) + jnp.sum(log_left)


def make_form(
    design: Design, law: Law, priors: Mapping[str, Prior], weights: np.ndarray, nodes: int
) -> Form:
    """The density of a design."""
    x, labels = design.rows.x, design.coefficients
    p = len(labels)
    levels = design.against or (None,)
    units = _units(design, law, priors, weights)
    effects = tuple(
        Effects(
            factor.name,
            factor.labels * len(levels),
            factor.blocks * len(levels),
            tuple(_root_mean_squares(z, weights)) * len(levels),
            len(factor.levels),
            tuple(level for level in levels for _ in factor.labels),
            factor.slots * len(levels),
        )
        for factor, z in zip(design.factors, design.rows.z, strict=True)
    )
    parameters = tuple(terms.name for terms in design.further)
    size = math.log(units.size)
    constant = float(np.log(units.sizes).sum())
    constant += float(np.linalg.slogdet(np.array(units.turn).reshape(p, p))[1])
    for term in effects:
        for root_mean_square, slot in zip(term.sizes, term.slots, strict=True):
            constant += size * (slot == 0) - math.log(root_mean_square)
    constant += size * ("sigma" in design.own_parameters(law))
    constant -= size * float(weights.sum())
    smooths = _smooth_effects(design)
    for term in smooths:
        constant += size * (term.slots[0] == 0) * term.num_sds
    centre = tuple(mean_and_spread(x, weights)[0].tolist())
    cutpoints = len(design.levels) - 1 if law.is_ordered else 0
    step_means = mean_and_spread(design.rows.steps, weights)[0].tolist()
    monotone = []
    for label, size, slot in design.steps:
        monotone.append(Monotone(label, size, tuple(step_means[:size]), slot))
        step_means = step_means[size:]
    return Form(
        law=law.name,
        labels=labels,
        centre=centre,
        units=units,
        effects=effects,
        priors=tuple(priors.items()),
        constant=constant,
        nodes=nodes,
        cutpoints=cutpoints,
        predictors=len(levels),
        monotone=tuple(monotone),
        smooths=smooths,
        parameters=parameters,
        own_parameters=design.own_parameters(law),
        facts=tuple(design.facts),
        slots=tuple(np.repeat(np.array(design.slots, int), len(levels)).tolist()),
    )


def _smooth_effects(design: Design) -> tuple[Effects, ...]:
    """The coefficients of the blocks of smooth terms, for each category after another."""
    levels = design.against or (None,)
    effects = []
    for name, size, slot in design.smooths:
        number = size * len(levels)
        row_levels = tuple(level for level in levels for _ in range(size))
        labels = tuple(str(i + 1) for _ in levels for i in range(size))
        ones = (1,) * number
        unit_sizes = (1.0,) * number
        slots = (slot,) * number
        effects.append(Effects(name, labels, ones, unit_sizes, 1, row_levels, slots, True))
    return tuple(effects)


def _root_mean_squares(z: np.ndarray, weights: np.ndarray) -> list[float]:
    return [float(np.sqrt(mean_and_spread(column**2, weights)[0])) or 1.0 for column in z.T]


def _units(design: Design, law: Law, priors: Mapping[str, Prior], weights: np.ndarray) -> Units:
    """Units of the coefficients by least squares. A little of the prior is added for columns that
    depend on others."""
    x = design.rows.x - law.is_ordered * mean_and_spread(design.rows.x, weights)[0]
    copies = len(design.against) or 1
    spread = float(mean_and_spread(design.y, weights)[1]) or 1.0
    slots = np.array(design.slots, int)
    offsets = design.rows.offset.reshape(len(x), -1)
    targets = _targets(design, law, design.main_offset, weights)
    spreads = np.array([priors[label][-1] for label in design.coefficients[::copies]])
    root_weight = math.sqrt(weights.sum())
    unit = spread if law.is_location_scale else 1.0
    little = 1e-3 * root_weight * unit / spreads
    main = design.is_main
    location, root = _least_squares(x[:, main], targets, weights, little[main])
    residuals = targets - x[:, main] @ location
    size = float(mean_and_spread(residuals, weights)[1]) if law.is_location_scale else 1.0
    size = size or spread
    shift = root @ location / root_weight * (not law.is_location_scale)
    turn = root_weight * np.linalg.inv(root)
    turn = np.asarray(np.kron(turn, np.eye(copies)), float)  # a copy of each column per predictor
    locations, shifts, turns = [location.ravel()], [shift.ravel()], [turn]
    for slot, terms in enumerate(design.further, 1):
        columns = slots == slot
        level = LINKED[terms.name][0] + math.log(size) * (terms.name == "sigma")
        little = 1e-3 * root_weight / spreads[columns]
        location, root = _least_squares(x[:, columns], level - offsets[:, slot], weights, little)
        locations.append(location)
        shifts.append(root @ location / root_weight)
        turns.append(root_weight * np.linalg.inv(root))
    flat = lambda parts: tuple(np.concatenate(parts).tolist())
    sizes = np.where(np.repeat(main, copies), size, 1.0)
    turn = np.asarray(block_diag(*turns), float)
    return Units(
        flat(locations), flat(shifts), tuple(map(tuple, turn.tolist())), size, tuple(sizes.tolist())
    )


def _targets(design: Design, law: Law, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Targets of the least squares: the response, or the predictor at its mean."""
    if law.is_location_scale:
        return design.y - offset
    if law.is_ordered:
        return np.zeros(len(offset))
    exposure = np.exp(offset) if law.link == "log" else 1.0
    level = law.predictor_at_mean(design.y, design.trials * exposure, weights)
    level = level - (mean_and_spread(offset, weights)[0] if law.link != "log" else 0.0)
    return np.broadcast_to(level, (len(offset), *np.shape(level)))


def _least_squares(
    x: np.ndarray, targets: np.ndarray, weights: np.ndarray, little: np.ndarray
) -> tuple[np.ndarray, Float[np.ndarray, "p p"]]:
    """Coefficients by weighted least squares with a row (0, ..., little, ..., 0) for each column,
    and the triangular factor of all squares. The factor comes from a QR decomposition: computed
    from the squares, it would lose half of the digits for columns that depend on others."""
    p = x.shape[1]
    table = np.concatenate([x, targets.reshape(len(x), -1)], 1)
    rows = np.concatenate(
        [np.sqrt(weights)[:, None] * table, np.eye(p, table.shape[1]) * little[:, None]]
    )
    triangle = np.asarray(np.linalg.qr(rows, mode="r"))[:p]
    triangle = triangle * np.where(np.diagonal(triangle) < 0, -1.0, 1.0)[:, None]
    solution = np.linalg.solve(triangle[:, :p], triangle[:, p:])
    return solution.reshape(p, *targets.shape[1:]), triangle[:, :p]

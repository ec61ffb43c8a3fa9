"""A regression by a formula, as a log density of few unknowns: coefficients, spreads and correlations of group effects.

    eta = offset + X beta + Z u,   u_j ~ N(0, D C C' D)   (D standard deviations, C C' correlations),   y ~ p(y | eta)

The effects u are integrated out: group by group where there is one factor (`vijax.models.formulas.integrals`), else
all together (`vijax.models.formulas.crossed`). What is left is a density of a few numbers, in which no spread is tied
to its effects: mean field of effects and spreads together is too narrow. The numbers are in units in which the data are
of size one: beta = location + unit T b, where T' X' X T is about N I.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.contract.variables import free
from vijax.models.formulas import crossed, integrals
from vijax.models.formulas.formula import Design
from vijax.models.formulas.laws import LAWS, Law
from vijax.models.formulas.priors import Prior, log_prob

COEFFICIENTS, SDS, CORRELATIONS, AUX = "_coefficients.", "_sds.", "_correlations.", "_others."
"""Names of the unknowns in units of size one; a number, a factor, a factor and the number of a block, or a parameter
follow. Coefficients are no vector, for the density may be the same with them in another order."""


class Units(NamedTuple):
    """The place and the size of coefficients.

    Attributes:
      location: beta where b is zero, (p,).
      shift: b at which beta is zero, with its sign turned, where the data do not have the location taken off, (p,).
      turn: T, (p, p).
      size: the unit of the response.
    """

    location: tuple[float, ...]
    shift: tuple[float, ...]
    turn: tuple[tuple[float, ...], ...]
    size: float

    def coefficients(self, b: Float[Array, " p"]) -> Float[Array, " p"]:
        """beta at b."""
        return jnp.asarray(self.location, b.dtype) + self.size * jnp.asarray(self.turn, b.dtype) @ b


class Effects(NamedTuple):
    """The effects of a factor.

    Attributes:
      name: of the factor.
      labels: of the effects.
      blocks: sizes of the blocks that are correlated within.
      sizes: root mean squares of their columns, which are divided by them.
      groups: number of groups.
    """

    name: str
    labels: tuple[str, ...]
    blocks: tuple[int, ...]
    sizes: tuple[float, ...]
    groups: int

    def starts(self) -> list[int]:
        """The first effect of each block."""
        return np.concatenate([[0], np.cumsum(self.blocks)]).tolist()[:-1]


@dataclasses.dataclass(frozen=True)
class Form:
    """The density, as its functions of values by name; equal ones hash equal.

    Attributes:
      law: name of the law of the response.
      labels: names of the coefficients.
      centre: means of the columns of X, at which the intercept has its prior.
      units: of the coefficients.
      effects: of each factor.
      priors: by name.
      constant: log of the Jacobian of the units.
      nodes: nodes a dimension of the quadrature.
    """

    law: str
    labels: tuple[str, ...]
    centre: tuple[float, ...]
    units: Units
    effects: tuple[Effects, ...]
    priors: tuple[tuple[str, Prior], ...]
    constant: float
    nodes: int

    def variables(self) -> dict[str, Any]:
        """The unknowns."""
        blocks = [(f"{own.name}.{i}", k) for own in self.effects for i, k in enumerate(own.blocks) if k > 1]
        found = {f"{COEFFICIENTS}{i}": free() for i in range(len(self.labels))}
        found |= {SDS + own.name: free(len(own.labels), "positive") for own in self.effects}
        found |= {CORRELATIONS + name: free(k * (k - 1) // 2) for name, k in blocks}
        return found | {AUX + name: free((), "positive") for name in LAWS[self.law].aux}

    def coefficients(self, values: Mapping[str, Any]) -> Float[Array, " p"]:
        """beta, in the units of the data."""
        return self.units.coefficients(self.turned(values)) if self.labels else jnp.zeros(0)

    def turned(self, values: Mapping[str, Any]) -> Float[Array, " p"]:
        """b."""
        return jnp.stack([values[f"{COEFFICIENTS}{i}"] for i in range(len(self.labels))])

    def aux(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of the law beside eta, in units of size one."""
        return {name: values[AUX + name] for name in LAWS[self.law].aux}

    def factor(self, values: Mapping[str, Any], i: int) -> Float[Array, "d d"]:
        """The triangular factor of the covariance of the effects of factor i, in units of size one."""
        own = self.effects[i]
        sds = values[SDS + own.name]
        full = jnp.zeros((len(own.labels), len(own.labels)), sds.dtype)
        for b, (start, k) in enumerate(zip(own.starts(), own.blocks, strict=True)):
            block = correlated(values[f"{CORRELATIONS}{own.name}.{b}"], k)[0] if k > 1 else jnp.ones((1, 1), sds.dtype)
            full = full.at[start : start + k, start : start + k].set(block)
        return sds[:, None] * full

    def sds(self, values: Mapping[str, Any], i: int) -> Float[Array, " d"]:
        """Standard deviations of effects of factor i, in the units of the data."""
        own = self.effects[i]
        sds = values[SDS + own.name]
        return sds * self.units.size / jnp.asarray(own.sizes, sds.dtype)

    def named(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """All unknowns by their names, in the units of the data."""
        found = dict(zip(self.labels, self.coefficients(values), strict=True))
        for i, own in enumerate(self.effects):
            names = [f"{label}|{own.name}_sigma" for label in own.labels]
            found |= dict(zip(names, self.sds(values, i), strict=True))
            for b, (start, k) in enumerate(zip(own.starts(), own.blocks, strict=True)):
                if k > 1:
                    block = correlated(values[f"{CORRELATIONS}{own.name}.{b}"], k)[0]
                    pairs = [(r, c) for r in range(k) for c in range(r)]
                    name = lambda r, c, own=own, start=start: (
                        f"corr({own.labels[start + c]}, {own.labels[start + r]}|{own.name})"
                    )
                    found |= {name(r, c): block[r] @ block[c] for r, c in pairs}
        return found | {n: x * (self.units.size if n == "sigma" else 1.0) for n, x in self.aux(values).items()}

    def log_prior(self, values: Mapping[str, Any]) -> Float[Array, ""]:
        """Log prior of the unknowns, with the Jacobian of their units."""
        named, priors = self.named(values), dict(self.priors)
        if "Intercept" in self.labels:  # its prior is at the mean of all columns
            beta = self.coefficients(values)
            own = self.labels.index("Intercept")
            others = [m if i != own else 1.0 for i, m in enumerate(self.centre)]
            named["Intercept"] = jnp.asarray(others, beta.dtype) @ beta
        total = jnp.asarray(self.constant, jnp.result_type(float))
        for name, prior in priors.items():
            if name.startswith("corr|"):
                at = next(at for at in self.effects if f"corr|{at.name}" == name)
                for b, k in enumerate(at.blocks):
                    if k > 1:
                        factor, log_det = correlated(values[f"{CORRELATIONS}{at.name}.{b}"], k)
                        total += log_prob(prior, factor) + log_det
            else:
                total += log_prob(prior, named[name])
        return total

    def predictors(self, values: Mapping[str, Any], rows: Mapping[str, Any]) -> Float[Array, " n"]:
        """eta without effects, in units of size one."""
        if not self.labels:
            return rows["offset"]
        b = self.turned(values)
        return rows["offset"] + rows["x"] @ (b + jnp.asarray(self.units.shift, b.dtype))

    def of_rows(self, parameters: tuple[Any, Mapping[str, Any]], eta: Float[Array, " n"]) -> Float[Array, " n"]:
        """Log likelihoods of rows, each times its weight, in units of size one."""
        aux, rows = parameters
        law: Law = LAWS[self.law]
        each = jax.vmap(lambda n, y, eta: law.log_prob(aux, n, y, eta))(rows["trials"], rows["y"], eta)
        return rows["weight"] * each

    def log_lik(self, values: Mapping[str, Any], rows: Mapping[str, Any]) -> Float[Array, ""]:
        """Log likelihood of a group, its effects integrated out; of all rows where there are several factors."""
        a, aux = self.predictors(values, rows), self.aux(values)
        if len(self.effects) > 1:
            return crossed.by_laplace(self.of_rows, (aux, rows), a, self.all_columns(values, rows))
        b = self.columns(values, rows)
        if "count" in rows:
            return integrals.of_normal(rows["y"] - a, b, aux["sigma"], rows["count"])
        return integrals.by_quadrature(self.of_rows, (aux, rows), a, b, self.nodes)

    def columns(self, values: Mapping[str, Any], rows: Mapping[str, Any]) -> Float[Array, "n d"]:
        """Columns of the effects v ~ N(0, I) of one factor."""
        return rows["z0"] @ self.factor(values, 0) if self.effects else rows["z0"]

    def all_columns(self, values: Mapping[str, Any], rows: Mapping[str, Any]) -> crossed.Columns:
        """Columns of the effects of several factors."""
        factors = {i: self.factor(values, i) for i in range(len(self.effects))}
        return crossed.columns_of(factors, rows, tuple(own.groups for own in self.effects))

    def effects_of(self, values: Mapping[str, Any], rows: Mapping[str, Any], key: Any) -> list[Float[Array, "J d"]]:
        """Effects of all groups of each factor given all else, in the units of the data.

        They are exact for a normal law. For others of one factor one of `CANDIDATES` normal draws about the mode is
        taken, by importance (Rubin 1987); of several factors they are drawn about the mode.
        """
        if len(self.effects) == 1:
            keys = jax.random.split(key, self.effects[0].groups)
            v = [jax.vmap(lambda rows, key: self._effects_of_group(values, rows, key))(rows, keys)]
        else:
            whole = {name: x[0] for name, x in rows.items()}
            a, z = self.predictors(values, whole), self.all_columns(values, whole)
            first, others = crossed.drawn(self.of_rows, (self.aux(values), whole), a, z, key)
            shapes = [(own.groups, len(own.labels)) for own in self.effects[1:]]
            ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
            v = [first, *(x.reshape(shape) for x, shape in zip(jnp.split(others, ends), shapes, strict=True))]
        sizes = [
            self.units.size / jnp.asarray(own.sizes, x.dtype)[None] for own, x in zip(self.effects, v, strict=True)
        ]
        return [size * (x @ self.factor(values, i).T) for i, (size, x) in enumerate(zip(sizes, v, strict=True))]

    def _effects_of_group(self, values: Mapping[str, Any], rows: Mapping[str, Any], key: Any) -> Float[Array, " d"]:
        a, b, aux = self.predictors(values, rows), self.columns(values, rows), self.aux(values)
        key_draw, key_pick = jax.random.split(key)
        if "count" in rows:
            mean, factor = integrals.law_of_normal(rows["y"] - a, b, aux["sigma"])
            return mean + integrals.backward(factor, jax.random.normal(key_draw, mean.shape, mean.dtype))
        mean, factor = integrals.mode_of(self.of_rows, (aux, rows), a, b)
        noise = jax.random.normal(key_draw, (CANDIDATES, *mean.shape), mean.dtype)
        tried = mean[None] + jax.vmap(lambda t: integrals.backward(factor, t))(noise)
        inside = jax.vmap(lambda v: integrals.joint(self.of_rows, (aux, rows), a, b, v))(tried)
        return tried[jax.random.categorical(key_pick, inside + 0.5 * jnp.sum(noise**2, -1))]


CANDIDATES = 16


def correlated(x: Float[Array, " pairs"], size: int) -> tuple[Float[Array, "k k"], Float[Array, ""]]:
    """The triangular factor of a correlation matrix, and the log determinant of the map to its entries below the
    diagonal. The hyperbolic tangents of the coordinates are partial correlations (Lewandowski, Kurowicka and Joe 2009,
    section 2): tails fall as those of a logarithm, where ratios of entries have tails of powers."""
    z, log_left = jnp.tanh(x), -2 * (jnp.logaddexp(x, -x) - math.log(2))  # log(1 - z^2)
    rows, log_det, at = [[jnp.ones((), x.dtype)]], jnp.zeros((), x.dtype), 0
    for i in range(1, size):
        row, log_rest = [], jnp.zeros((), x.dtype)
        for _ in range(i):
            row.append(z[at] * jnp.exp(0.5 * log_rest))
            log_det += 0.5 * log_rest + log_left[at]
            log_rest += log_left[at]
            at += 1
        rows.append([*row, jnp.exp(0.5 * log_rest)])
    padded = [jnp.stack(row + [jnp.zeros((), x.dtype)] * (size - len(row))) for row in rows]
    return jnp.stack(padded), log_det


def form_of(design: Design, law: Law, priors: Mapping[str, Prior], weights: np.ndarray, nodes: int) -> Form:
    """The density of a design."""
    x, p = design.rows.x, len(design.labels)
    units = _units(design, law, priors)
    effects = tuple(
        Effects(factor.name, factor.labels, factor.blocks, tuple(_sizes(z)), len(factor.levels))
        for factor, z in zip(design.factors, design.rows.z, strict=True)
    )
    size = math.log(units.size)
    constant = p * size + float(np.linalg.slogdet(np.array(units.turn).reshape(p, p))[1])
    constant += sum(size - math.log(x) for own in effects for x in own.sizes) + size * ("sigma" in law.aux)
    constant -= size * float(weights.sum())
    centre = tuple(x.mean(0).tolist())
    return Form(law.name, design.labels, centre, units, effects, tuple(priors.items()), constant, nodes)


def _sizes(z: np.ndarray) -> list[float]:
    return [float(np.sqrt(np.mean(column**2))) or 1.0 for column in z.T]


def _units(design: Design, law: Law, priors: Mapping[str, Prior]) -> Units:
    """Units of the coefficients: by least squares, with a little of the prior against columns that depend on others."""
    x, offset = design.rows.x, design.rows.offset
    spreads = np.array([priors[label][-1] for label in design.labels])
    little = 1e-6 * len(x) * (np.var(design.y) if law.of_location else 1.0)
    known = x.T @ x + np.diag(little / spreads**2) if len(spreads) else x.T @ x
    if law.of_location:
        wanted = design.y - offset
    else:
        level = law.linked(design.y, design.trials * (np.exp(offset) if law.link == "log" else 1.0))
        wanted = np.full(len(x), level - (offset.mean() if law.link != "log" else 0.0))
    location = np.linalg.solve(known, x.T @ wanted) if len(spreads) else np.zeros(0)
    size = float(np.std(wanted - x @ location)) if law.of_location else 1.0
    turn = np.linalg.inv(np.linalg.cholesky(known / len(x))).T if len(spreads) else np.zeros((0, 0))
    shift = np.linalg.solve(turn, location) * (not law.of_location)
    size = size or float(np.std(design.y)) or 1.0
    return Units(tuple(location.tolist()), tuple(shift.tolist()), tuple(map(tuple, turn.tolist())), size)

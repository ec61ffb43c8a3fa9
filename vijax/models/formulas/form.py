"""A regression by a formula, as a log density of few unknowns: coefficients, spreads and
correlations of group effects.

    eta = offset + X beta + Z u,   u_j ~ N(0, D C C' D)   (D standard deviations, C C' correlations),   y ~ p(y | eta)

The effects u are integrated out (`vijax.models.formulas.effects`): group by group where there is
one factor (`integrals`), else all together (`crossed`; of a normal law `crossed_normal`). What is
left is a density of a few numbers, in which no spread is tied to its effects: mean field of effects
and spreads together is too narrow. The numbers are in units in which the data are of size one: beta
= location + unit T b, where T' X' X T is about N I.

Of categories with a base, eta has a column for each other one: X enters as X (x) I, and so do Z and
T. The effects of one predictor are independent of those of another, as in Bambi."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.contract.variables import free
from vijax.models.formulas.effects import crossed, crossed_normal, integrals, interpolated
from vijax.models.formulas.formula import Design, name_at_level
from vijax.models.formulas.laws import LAWS, SUPPORTS, Law
from vijax.models.formulas.priors import Prior, log_prob
from vijax.models.formulas.weighted import mean_and_spread

COEFFICIENTS, SDS, CORRELATIONS, AUX = "_orthogonal.", "_sds.", "_correlations.", "_others."
"""Names of the unknowns in units of size one; a column, a factor, a factor and the number of a
block, or a parameter follow. What stands at a column is the coefficient of its part that the
columns before it do not explain. They are no vector, for the density may be the same with them in
another order."""


class Units(NamedTuple):
    """The place and the size of coefficients.

    Attributes:
      location: beta where b is zero, (p,).
      shift: b at which beta is zero, with its sign turned, where the data do not have the location
          taken off, (p,).
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
      levels: the category of the response by effect, where each has a predictor; else None.
    """

    name: str
    labels: tuple[str, ...]
    blocks: tuple[int, ...]
    sizes: tuple[float, ...]
    groups: int
    levels: tuple[str | None, ...]

    def starts(self) -> list[int]:
        """The first effect of each block."""
        return np.concatenate([[0], np.cumsum(self.blocks)]).tolist()[:-1]

    def names_of_sds(self) -> list[str]:
        """Names of the standard deviations."""
        each = zip(self.labels, self.levels, strict=True)
        return [name_at_level(f"{label}|{self.name}_sigma", level) for label, level in each]

    def name_of_correlation(self, one: int, other: int) -> str:
        """The name of the correlation of two effects."""
        return name_at_level(
            f"corr({self.labels[one]}, {self.labels[other]}|{self.name})", self.levels[one]
        )


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
      cutpoints: their number, for ordered categories. They are those of predictors less their mean.
      predictors: C, of each row: the coefficients of a column stand together, one for each.
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

    def variables(self) -> dict[str, Any]:
        """The unknowns."""
        blocks = [
            (f"{own.name}.{i}", k)
            for own in self.effects
            for i, k in enumerate(own.blocks)
            if k > 1
        ]
        unknowns = {COEFFICIENTS + label: free() for label in self.labels}
        unknowns |= {SDS + own.name: free(len(own.labels), "positive") for own in self.effects}
        unknowns |= {CORRELATIONS + name: free(k * (k - 1) // 2) for name, k in blocks}
        shapes = {"threshold": (self.cutpoints,)}
        others = LAWS[self.law].aux
        return unknowns | {
            AUX + name: free(shapes.get(name, ()), SUPPORTS.get(name, "positive"))
            for name in others
        }

    def coefficients(self, values: Mapping[str, Any]) -> Float[Array, " p"]:
        """beta, in the units of the data."""
        return (
            self.units.coefficients(self.orthogonal_coefficients(values))
            if self.labels
            else jnp.zeros(0)
        )

    def orthogonal_coefficients(self, values: Mapping[str, Any]) -> Float[Array, " p"]:
        """b."""
        each = [values[COEFFICIENTS + label] for label in self.labels]
        return jnp.stack(each) if each else jnp.zeros(0)

    def aux(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of the law beside eta, in units of size one."""
        return {name: values[AUX + name] for name in LAWS[self.law].aux}

    def factor(self, values: Mapping[str, Any], i: int) -> Float[Array, "d d"]:
        """The triangular factor of the covariance of the effects of factor i, in units of size
        one."""
        own = self.effects[i]
        sds = values[SDS + own.name]
        full = jnp.zeros((len(own.labels), len(own.labels)), sds.dtype)
        for b, (start, k) in enumerate(zip(own.starts(), own.blocks, strict=True)):
            block = (
                correlation_factor(values[f"{CORRELATIONS}{own.name}.{b}"], k)[0]
                if k > 1
                else jnp.ones((1, 1), sds.dtype)
            )
            full = full.at[start : start + k, start : start + k].set(block)
        return sds[:, None] * full

    def sds(self, values: Mapping[str, Any], i: int) -> Float[Array, " d"]:
        """Standard deviations of effects of factor i, in the units of the data."""
        own = self.effects[i]
        sds = values[SDS + own.name]
        return sds * self.units.size / jnp.asarray(own.sizes, sds.dtype)

    def named(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """All unknowns by their names, in the units of the data."""
        named = dict(zip(self.labels, self.coefficients(values), strict=True))
        for i, own in enumerate(self.effects):
            named |= dict(zip(own.names_of_sds(), self.sds(values, i), strict=True))
            for b, (start, k) in enumerate(zip(own.starts(), own.blocks, strict=True)):
                if k > 1:
                    block = correlation_factor(values[f"{CORRELATIONS}{own.name}.{b}"], k)[0]
                    correlations = block @ block.T
                    pairs = [(r, c) for r in range(k) for c in range(r)]
                    named |= {
                        own.name_of_correlation(start + c, start + r): correlations[r, c]
                        for r, c in pairs
                    }
        others = dict(self.aux(values))
        if self.cutpoints:  # of predictors with their mean
            cuts = others.pop("threshold") + self.coefficients(values) @ jnp.asarray(self.centre)
            named |= {f"threshold[{i}]": cuts[i] for i in range(self.cutpoints)}
        return named | {
            n: x * (self.units.size if n == "sigma" else 1.0) for n, x in others.items()
        }

    def law_parameters(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of the law beside eta, from unknowns by their names: (S,), cutpoints (S, C
        - 1)."""
        cuts = [np.asarray(named[f"threshold[{i}]"]) for i in range(self.cutpoints)]
        parameters = {name: np.asarray(named[name]) for name in LAWS[self.law].aux if name in named}
        return parameters | ({"threshold": np.stack(cuts, -1)} if cuts else {})

    def log_prior(self, values: Mapping[str, Any]) -> Float[Array, ""]:
        """Log prior of the unknowns, with the Jacobian of their units."""
        named, priors = self.named(values), dict(self.priors)
        intercepts = [
            i for i, label in enumerate(self.labels) if label.partition("[")[0] == "Intercept"
        ]
        if intercepts:  # their prior is at the mean of all columns
            beta = self.coefficients(values).reshape(-1, self.predictors)
            own = intercepts[0] // self.predictors
            others = [m if i != own else 1.0 for i, m in enumerate(self.centre)]
            at_centre = jnp.asarray(others, beta.dtype) @ beta
            named |= {self.labels[i]: x for i, x in zip(intercepts, at_centre, strict=True)}
        if self.cutpoints:
            named |= {
                f"threshold[{i}]": self.aux(values)["threshold"][i] for i in range(self.cutpoints)
            }
        total = jnp.asarray(self.constant, jnp.result_type(float))
        for name, prior in priors.items():
            if name.startswith("corr|"):
                at = next(at for at in self.effects if f"corr|{at.name}" == name)
                for b, k in enumerate(at.blocks):
                    if k > 1:
                        factor, log_det = correlation_factor(
                            values[f"{CORRELATIONS}{at.name}.{b}"], k
                        )
                        total += log_prob(prior, factor) + log_det
            else:
                total += log_prob(prior, named[name])
        return total

    def eta(self, values: Mapping[str, Any], rows: Mapping[str, Any]) -> Float[Array, " n *C"]:
        """eta without effects, in units of size one."""
        offset = rows["offset"]
        if self.predictors > 1:
            offset = jnp.broadcast_to(offset[:, None], (len(offset), self.predictors))
        if not self.labels:
            return offset
        b = self.orthogonal_coefficients(values)
        b = b + jnp.asarray(self.units.shift, b.dtype)
        return offset + rows["x"] @ b.reshape(-1, *offset.shape[1:])

    def row_log_liks(
        self, parameters: tuple[Any, Mapping[str, Any]], eta: Float[Array, " n *C"]
    ) -> Float[Array, " n"]:
        """Log likelihoods of rows, each times its weight, in units of size one."""
        aux, rows = parameters
        law: Law = LAWS[self.law]
        each = jax.vmap(lambda n, y, eta: law.log_prob(aux, n, y, eta))(
            rows["trials"], rows["y"], eta
        )
        return rows["weight"] * each

    def interpolated_log_lik(
        self, values: Mapping[str, Any], rows: Mapping[str, Any]
    ) -> Float[Array, ""]:
        """Log likelihood of all rows near its mode, less a constant; `rows` are those of
        `interpolated.near_mode`."""
        sigma = self.aux(values)["sigma"]
        ratios = jnp.concatenate([values[SDS + own.name] for own in self.effects]) / sigma
        return interpolated.log_lik(rows, self.orthogonal_coefficients(values), sigma, ratios)

    def log_lik(self, values: Mapping[str, Any], rows: Mapping[str, Any]) -> Float[Array, ""]:
        """Log likelihood of a group, its effects integrated out; of all rows where there are
        several factors."""
        if self.is_summed:
            return crossed_normal.log_integral(
                rows, self.orthogonal_coefficients(values), self.scales(values)
            )
        a, aux = self.eta(values, rows), self.aux(values)
        if len(self.effects) > 1:
            return crossed.laplace(
                self.row_log_liks, (aux, rows), a, self.all_columns(values, rows)
            )
        b = self.columns(values, rows)
        if "count" in rows:
            return integrals.normal_integral(rows["y"] - a, b, aux["sigma"], rows["count"])
        return integrals.quadrature(self.row_log_liks, (aux, rows), a, b, self.nodes)

    @property
    def is_summed(self) -> bool:
        """True where rows are read as sums over them
        (`vijax.models.formulas.effects.crossed_normal`)."""
        return self.law == "gaussian" and len(self.effects) > 1

    def scales(self, values: Mapping[str, Any]) -> crossed_normal.Scales:
        """The sizes of effects and errors, in units of size one."""
        factors = [self.factor(values, i) for i in range(len(self.effects))]
        return crossed_normal.Scales(
            factors, tuple(own.groups for own in self.effects), self.aux(values)["sigma"]
        )

    def columns(self, values: Mapping[str, Any], rows: Mapping[str, Any]) -> Float[Array, "n *C d"]:
        """Columns of the effects v ~ N(0, I) of one factor."""
        if not self.effects:
            return rows["z0"]
        z = (
            rows["z0"]
            if self.predictors == 1
            else integrals.repeat_blocks(rows["z0"], self.predictors)
        )
        return z @ self.factor(values, 0)

    def all_columns(self, values: Mapping[str, Any], rows: Mapping[str, Any]) -> crossed.Columns:
        """Columns of the effects of several factors."""
        factors = {i: self.factor(values, i) for i in range(len(self.effects))}
        return crossed.all_columns(
            factors, rows, tuple(own.groups for own in self.effects), self.predictors
        )

    def draw_effects(
        self, values: Mapping[str, Any], rows: Mapping[str, Any], key: Any
    ) -> list[Float[Array, "J d"]]:
        """Effects of all groups of each factor given all else, in the units of the data.

        They are exact for a normal law. For others of one factor one of `CANDIDATES` normal draws
        about the mode is taken, by importance (Rubin 1987); of several factors they are drawn about
        the mode."""
        if len(self.effects) == 1:
            keys = jax.random.split(key, self.effects[0].groups)
            v = [jax.vmap(lambda rows, key: self._effects_of_group(values, rows, key))(rows, keys)]
        else:
            whole = {name: x[0] for name, x in rows.items()}
            first, others = self._draw_jointly(values, whole, key)
            shapes = [(own.groups, len(own.labels)) for own in self.effects[1:]]
            ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
            v = [
                first,
                *(
                    x.reshape(shape)
                    for x, shape in zip(jnp.split(others, ends), shapes, strict=True)
                ),
            ]
        sizes = [
            self.units.size / jnp.asarray(own.sizes, x.dtype)[None]
            for own, x in zip(self.effects, v, strict=True)
        ]
        return [
            size * (x @ self.factor(values, i).T)
            for i, (size, x) in enumerate(zip(sizes, v, strict=True))
        ]

    def _draw_jointly(
        self, values: Mapping[str, Any], rows: Mapping[str, Any], key: Any
    ) -> crossed.Effects:
        if self.is_summed:
            return crossed_normal.draw(
                rows, self.orthogonal_coefficients(values), self.scales(values), key
            )
        a, z = self.eta(values, rows), self.all_columns(values, rows)
        return crossed.draw(self.row_log_liks, (self.aux(values), rows), a, z, key)

    def _effects_of_group(
        self, values: Mapping[str, Any], rows: Mapping[str, Any], key: Any
    ) -> Float[Array, " d"]:
        a, b, aux = self.eta(values, rows), self.columns(values, rows), self.aux(values)
        key_draw, key_pick = jax.random.split(key)
        if "count" in rows:
            mean, factor = integrals.law_of_normal(rows["y"] - a, b, aux["sigma"])
            return mean + integrals.backward(
                factor, jax.random.normal(key_draw, mean.shape, mean.dtype)
            )
        mean, factor = integrals.find_mode(self.row_log_liks, (aux, rows), a, b)
        noise = jax.random.normal(key_draw, (CANDIDATES, *mean.shape), mean.dtype)
        tried = mean[None] + jax.vmap(lambda t: integrals.backward(factor, t))(noise)
        inside = jax.vmap(lambda v: integrals.joint(self.row_log_liks, (aux, rows), a, b, v))(tried)
        return tried[jax.random.categorical(key_pick, inside + 0.5 * jnp.sum(noise**2, -1))]


CANDIDATES = 16


@dataclasses.dataclass(frozen=True)
class FormFunction:
    """A function of a form; equal ones are equal, so that what is compiled for one serves the
    other."""

    form: Form
    name: str
    in_float64: ClassVar[bool] = True
    """Draws are shown in float64, as `Form.named` derives them."""

    def __call__(self, *given: Any) -> Any:
        """The function at its arguments."""
        return getattr(self.form, self.name)(*given)


def correlation_factor(
    x: Float[Array, " pairs"], size: int
) -> tuple[Float[Array, "k k"], Float[Array, ""]]:
    """The triangular factor of a correlation matrix, and the log determinant of the map to its
    entries below the diagonal. The hyperbolic tangents of the coordinates are partial correlations
    (Lewandowski, Kurowicka and Joe 2009, section 2): tails fall as those of a logarithm, where
    ratios of entries have tails of powers."""
    below = np.tril_indices(size, -1)
    log_left = -2 * (jnp.logaddexp(x, -x) - math.log(2))  # log(1 - z^2)
    z = jnp.zeros((size, size), x.dtype).at[below].set(jnp.tanh(x))
    each = jnp.zeros((size, size), x.dtype).at[below].set(log_left)
    after = jnp.cumsum(each, 1)
    log_rest = after - each  # of a row before each entry
    factor = z * jnp.exp(0.5 * log_rest) + jnp.diag(jnp.exp(0.5 * after[:, -1]))
    return factor, 0.5 * jnp.sum(log_rest[below]) + jnp.sum(log_left)


def make_form(
    design: Design, law: Law, priors: Mapping[str, Prior], weights: np.ndarray, nodes: int
) -> Form:
    """The density of a design."""
    x, labels = design.rows.x, design.coefficients
    p, levels = len(labels), design.against or (None,)
    units = _units(design, law, priors, weights)
    effects = tuple(
        Effects(
            factor.name,
            factor.labels * len(levels),
            factor.blocks * len(levels),
            tuple(_sizes(z, weights)) * len(levels),
            len(factor.levels),
            tuple(level for level in levels for _ in factor.labels),
        )
        for factor, z in zip(design.factors, design.rows.z, strict=True)
    )
    size = math.log(units.size)
    constant = p * size + float(np.linalg.slogdet(np.array(units.turn).reshape(p, p))[1])
    constant += sum(size - math.log(x) for own in effects for x in own.sizes) + size * (
        "sigma" in law.aux
    )
    constant -= size * float(weights.sum())
    centre = tuple(mean_and_spread(x, weights)[0].tolist())
    cutpoints = len(design.levels) - 1 if law.is_ordered else 0
    kept = tuple(priors.items()), constant, nodes, cutpoints, len(levels)
    return Form(law.name, labels, centre, units, effects, *kept)


def _sizes(z: np.ndarray, weights: np.ndarray) -> list[float]:
    return [float(np.sqrt(mean_and_spread(column**2, weights)[0])) or 1.0 for column in z.T]


def _units(design: Design, law: Law, priors: Mapping[str, Prior], weights: np.ndarray) -> Units:
    """Units of the coefficients: by least squares, with a little of the prior against columns that
    depend on others."""
    x, offset = (
        design.rows.x - law.is_ordered * mean_and_spread(design.rows.x, weights)[0],
        design.rows.offset,
    )
    copies, spread = len(design.against) or 1, float(mean_and_spread(design.y, weights)[1]) or 1.0
    wanted = _targets(design, law, offset, weights)
    spreads = np.array([priors[label][-1] for label in design.coefficients[::copies]])
    little = math.sqrt(1e-6 * weights.sum()) * (spread if law.is_location_scale else 1.0) / spreads
    location, root = _least_squares(x, wanted, weights, little)
    size = (
        float(mean_and_spread(wanted - x @ location, weights)[1]) if law.is_location_scale else 1.0
    )
    shift = root @ location / math.sqrt(weights.sum()) * (not law.is_location_scale)
    turn = math.sqrt(weights.sum()) * np.linalg.inv(root)
    turn = np.asarray(np.kron(turn, np.eye(copies)), float)  # each column for each predictor
    flat = lambda part: tuple(part.ravel().tolist())
    return Units(flat(location), flat(shift), tuple(map(tuple, turn.tolist())), size or spread)


def _targets(design: Design, law: Law, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The numbers that the columns are to give: the response, or the predictor of its mean."""
    if law.is_location_scale:
        return design.y - offset
    if law.is_ordered:
        return np.zeros(len(offset))
    level = law.predictor_at_mean(
        design.y, design.trials * (np.exp(offset) if law.link == "log" else 1.0), weights
    )
    level = level - (mean_and_spread(offset, weights)[0] if law.link != "log" else 0.0)
    return np.broadcast_to(level, (len(offset), *np.shape(level)))


def _least_squares(
    x: np.ndarray, wanted: np.ndarray, weights: np.ndarray, little: np.ndarray
) -> tuple[np.ndarray, Float[np.ndarray, "p p"]]:
    """Coefficients by weighted least squares with a row (0, ..., little, ..., 0) for each column,
    and the triangular factor of all squares. It is not found from the squares: of columns that
    depend on others half of the digits would be lost."""
    p = x.shape[1]
    table = np.concatenate([x, wanted.reshape(len(x), -1)], 1)
    rows = np.concatenate(
        [np.sqrt(weights)[:, None] * table, np.eye(p, table.shape[1]) * little[:, None]]
    )
    triangle = np.asarray(np.linalg.qr(rows, mode="r"))[:p]
    triangle = triangle * np.where(np.diagonal(triangle) < 0, -1.0, 1.0)[:, None]
    return np.linalg.solve(triangle[:, :p], triangle[:, p:]).reshape(
        p, *wanted.shape[1:]
    ), triangle[:, :p]

"""Means of the response at rows and draws, with the effects of groups as they are, integrated over
their law, or left out."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, Literal

import jax
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from vijax.models.formulas.draws import Draws
from vijax.models.formulas.formula import Rows

Groups = Literal["same", "new", "zero"]
"""Effects of groups: those of the group of each row; integrated over the law of groups; zero."""
Scale = Literal["response", "link"]
GROUP_WORDS = {
    "same": "Effects of groups: of the group of each row.",
    "new": "Effects of groups: integrated over their law (groups at large).",
    "zero": "Effects of groups: left out (a group whose effects are zero).",
}
REACH = 8.5
"""Standard deviations that the trapezoid rule reaches; beyond, the normal law has 1e-17."""
WIDEST = 0.7
"""Largest step of the trapezoid rule, in standard deviations: 1e-17 off for polynomials."""
STEP_BY_SPREAD = 0.8
"""Step times the spread of the predictor. For the logistic function, whose poles lie at height pi,
the error is near exp(-2 pi^2 / 0.8), 2e-11; for means of counts that are cut off at zero, with
poles at pi / 2, near 4e-6."""
NODES_BY_DIMENSION = {1: 1, 2: 15, 3: 9}
SOBOL = 512
"""Points in more dimensions."""


@dataclasses.dataclass(frozen=True, eq=False)
class Means:
    """Means of the response of rows, at draws.

    Attributes:
      model: the regression.
      draws: draws of its unknowns.
      groups: the treatment of the effects of groups.
      scale: "response", or "link": predictors.
      key: random key of the effects of groups that training does not have.
    """

    model: Any
    draws: Draws
    groups: Groups
    scale: Scale
    key: Any

    @property
    def num_draws(self) -> int:
        """S."""
        return len(next(iter(self.draws.named.values())))

    @property
    def categories(self) -> tuple[str, ...]:
        """Names of the means of a row; empty for one mean."""
        design = self.model.design
        if self.scale == "link":
            return design.against
        return design.levels

    def row_means(self, rows: Rows) -> Float[np.ndarray, "S N K"]:
        """The means of some rows; K is 1 for one mean a row."""
        return self.read_averages(self.to_average(rows))

    def read_averages(self, averages: np.ndarray) -> np.ndarray:
        """The means that averages of `to_average` are."""
        if self.scale == "link":
            return averages
        return self.model.law.read_averages(averages)

    def to_average(self, rows: Rows) -> np.ndarray:
        """The numbers that are averaged over rows: their means, (S, N, K); of angles those of
        e^(iy)."""
        if self.groups == "same":
            eta = self.model.row_predictors(self.draws, rows, self.key)
            return self._with_axis(self._means(rows, eta))
        eta = self.model.common_predictors(self.draws, rows)
        has_effects = self.groups == "new" and bool(rows.z)
        is_linear = self.scale == "link" or self.model.law.is_location_scale
        if not has_effects or is_linear:
            return self._with_axis(self._means(rows, self._one_predictor(eta)))
        return self._integral(rows, eta, self.effect_sds(rows))

    def row_parts(self, rows: Rows) -> list[slice]:
        """Parts of rows that are computed at once."""
        return self.model.row_parts(len(rows.offset), self.num_draws)

    def effect_factors(self) -> list[list[Float[np.ndarray, "S d d"]]]:
        """Factors of the covariance of the effects in the units of the data, by grouping factor and
        predictor. Where parameters have formulas, rows of effects of other predictors are zero."""
        form = self.model.density_form
        by_factor = []
        for i, term in enumerate(form.effects):
            factor_at = lambda values, i=i: form.factor(values, i)
            factors = np.asarray(jax.vmap(factor_at)(self.draws.values), float)
            factors = factors * form.effect_units(i)[:, None]
            if form.parameters:
                codes = np.arange(1 + len(form.parameters))[:, None] == np.array(term.slots)
                by_factor.append([factors * is_own[:, None] for is_own in codes])
                continue
            d = len(term.labels) // form.predictors
            ends = [slice(c * d, (c + 1) * d) for c in range(form.predictors)]
            by_factor.append([factors[:, places, places] for places in ends])
        return by_factor

    def effect_sds(self, rows: Rows) -> Float[np.ndarray, "S N C"]:
        """Standard deviations of the sums of effects, by row and predictor."""
        total = np.zeros(())
        for z, blocks in zip(rows.z, self._effect_factors, strict=True):
            squares = [np.sum(np.einsum("nd,sde->sne", z, block) ** 2, -1) for block in blocks]
            total = total + np.stack(squares, -1)
        return np.sqrt(total)

    @functools.cached_property
    def _effect_factors(self) -> list[list[np.ndarray]]:
        return self.effect_factors()

    def _integral(self, rows: Rows, eta: np.ndarray, sds: np.ndarray) -> np.ndarray:
        total: Any = 0.0
        for node, weight in zip(*self._nodes(sds), strict=True):
            means = self._means(rows, self._one_predictor(eta + sds * node))
            total = total + weight * self._with_axis(means)
        return total

    def _nodes(self, sds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Nodes, (nodes, C), and weights of integrals over independent standard normal laws: one
        dimension for each predictor that has effects."""
        spreads = sds.max((0, 1), initial=0.0)
        has_effects = spreads > 0
        if has_effects.sum() > 1:
            nodes, weights = many_dimensions(int(has_effects.sum()))
        else:
            nodes, weights = self._one_dimension(float(spreads.max()))
            has_effects = np.arange(len(spreads)) == spreads.argmax()
        full_nodes = np.zeros((len(nodes), len(spreads)))
        full_nodes[:, has_effects] = nodes
        return full_nodes, weights

    def _one_dimension(self, widest: float) -> tuple[np.ndarray, np.ndarray]:
        """Nodes, (nodes, 1), and weights of the trapezoid rule for spreads up to the widest."""
        step = min(WIDEST, STEP_BY_SPREAD / max(widest, 1e-9))
        # exp(sd v) times the normal density is largest at v = sd.
        top = REACH + widest * (self.model.law.link == "log")
        nodes = np.arange(-math.ceil(REACH / step), math.ceil(top / step) + 1) * step
        weights = step * np.exp(-0.5 * nodes**2) / math.sqrt(2 * math.pi)
        return nodes[:, None], weights

    def _means(self, rows: Rows, eta: np.ndarray) -> np.ndarray:
        if self.scale == "link":
            return self.model.density_form.split_predictors(eta, np)[0]
        return self.model.means_to_average(self.draws, eta)

    def _one_predictor(self, eta: Float[np.ndarray, "S N C"]) -> Float[np.ndarray, "S N *C"]:
        if self.model.design.against or self.model.design.further:
            return eta
        return eta[..., 0]

    def _with_axis(self, means: np.ndarray) -> Float[np.ndarray, "S N K"]:
        if self.categories:
            return means
        return means[..., None]


def many_dimensions(dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for independent standard normal laws: products of Gauss-Hermite rules in
    two and three dimensions, Sobol's points beyond."""
    if dimensions in NODES_BY_DIMENSION:
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES_BY_DIMENSION[dimensions])
        places = itertools.product(range(len(nodes)), repeat=dimensions)
        grid = np.array(list(places))
        return nodes[grid], np.prod(weights[grid] / weights.sum(), 1)
    from scipy.stats import norm, qmc  # here, because it takes long to import

    points = qmc.Sobol(dimensions, rng=np.random.default_rng(0)).random(SOBOL)
    return norm.ppf(points), np.full(SOBOL, 1 / SOBOL)


def averages(
    means: Means,
    rows: Rows,
    code: Int[np.ndarray, " N"],
    count: int,
    weights: Float[np.ndarray, " N"],
    values: Callable[[np.ndarray], np.ndarray] = lambda x: x,
) -> Float[np.ndarray, "S G K"]:
    """Weighted sums of the means of rows in each cell."""
    size = len(code)
    shape = (means.num_draws, count, max(len(means.categories), 1))
    total = np.zeros(shape)
    if means.scale == "response" and means.model.law.is_circular:
        total = total.astype(complex)
    indicator = sp.csr_array((weights, (code, np.arange(size))), shape=(count, size))
    for places in means.row_parts(rows):
        x = means.to_average(rows.part(places))
        part = indicator[:, places]
        for k in range(x.shape[2]):
            total[:, :, k] += (part @ x[:, :, k].T).T
    return means.read_averages(total)

"""Variance explained by common effects and by groups.

With V_f the variance of the common predictor over rows, V_r the mean variance of the effects of
groups, and V_d the variance of the response about its predictor on the scale of the link,

    R2 marginal    = V_f / (V_f + V_r + V_d)
    R2 conditional = (V_f + V_r) / (V_f + V_r + V_d)
    ICC            = V_r / (V_r + V_d)

(Nakagawa and Schielzeth 2013, equations 26 to 30; Johnson 2014 for slopes by group; Nakagawa,
Johnson and Schielzeth 2017 for other laws). The Bayesian R2 (Gelman, Goodrich, Gabry and Vehtari
2019, equation 3) is V(mean of rows) / (V(mean of rows) + mean variance of rows), on the scale of
the response. Each is computed at every draw."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.checks import require
from vijax.data.formulas.row_statistics import mean_and_spread
from vijax.models.formulas.answers.means import Means
from vijax.models.formulas.answers.response_variances import moments
from vijax.models.formulas.answers.table import AnswerTable, summarise
from vijax.models.formulas.draws import Draws
from vijax.models.formulas.laws.law import add_row_axis

LOGISTIC = math.pi**2 / 3
"""The variance of the logistic law."""
LOGIT_LAWS = ("bernoulli", "binomial", "cumulative", "categorical", "multinomial")
NOT_ON_LINK = (
    "R2 marginal and conditional, and ICC, are not defined for this law, or with formulas of its "
    "parameters."
)
NO_SIGMA = "Write se(y, s, sigma=True) for a sigma beside them."


class Parts(NamedTuple):
    """Variances on the scale of the link, for each draw and predictor.

    Attributes:
      common: V_f, (S, C).
      groups: V_r by factor, (S, C) each.
      residual: V_d, (S, C); None where it is not defined.
    """

    common: Float[np.ndarray, "S C"]
    groups: dict[str, Float[np.ndarray, "S C"]]
    residual: Float[np.ndarray, "S C"] | None


class RowMoments(NamedTuple):
    """Moments of responses over rows, at draws.

    Attributes:
      mean: weighted mean of the expected responses.
      spread: weighted variance of the expected responses.
      variance: weighted mean of the variances of responses.
    """

    mean: Float[np.ndarray, " S"]
    spread: Float[np.ndarray, " S"]
    variance: Float[np.ndarray, " S"]


SHARES = (
    "R2 marginal: by columns. R2 conditional: by columns and groups. ICC: by groups, of what "
    "columns leave."
)


def explain(model: Any, draws: Draws, level: float) -> AnswerTable:
    """The table of `Glmm.explained_variance`."""
    expected = "a response that differs from its mean by more than known errors"
    formula = repr(model.design.formula)
    require(not model.density_form.knows_sigma, "formula", expected, formula, NO_SIGMA)
    expected = "a law whose variance is that of the response"
    remedy = "Scores of held-out rows compare models: vijax.trust.loo(model.log_lik(fit, key))."
    require(model.law.has_variance, "family", expected, repr(model.law.name), remedy)
    scene = Means(model, draws, "same", "response", None)
    row_moments = _row_moments(scene)
    parts = _parts(scene, row_moments)
    names: list[str] = []
    values = []
    notes = [f"Variance of {model.design.response}: shares, at each draw."]
    if parts.residual is None:
        notes.append(NOT_ON_LINK)
    else:
        for name, share in _shares(parts, parts.residual).items():
            names.append(name)
            values.append(share)
        if parts.groups:
            notes.append(SHARES)
    against = model.design.against
    labels = {"share": np.repeat(np.array(names, object), max(len(against), 1))}
    if against:
        labels["category"] = np.tile(np.array(against, object), len(names))
    draws_by_share = np.concatenate([np.zeros((scene.num_draws, 0)), *values], 1)
    if row_moments is not None:
        total = row_moments.spread + row_moments.variance
        labels["share"] = np.append(labels["share"], "R2 Bayesian")
        draws_by_share = np.column_stack([draws_by_share, row_moments.spread / total])
    return summarise(labels, draws_by_share, level, None, notes)


def _shares(parts: Parts, residual: np.ndarray) -> dict[str, np.ndarray]:
    """The shares of variance on the scale of the link, by name."""
    groups = sum(parts.groups.values(), np.zeros_like(parts.common))
    total = parts.common + groups + residual
    shares = {"R2 marginal": parts.common / total}
    if not parts.groups:
        return shares
    shares["R2 conditional"] = (parts.common + groups) / total
    shares["ICC"] = groups / (groups + residual)
    if len(parts.groups) > 1:
        for name, variance in parts.groups.items():
            shares[f"ICC {name}"] = variance / (groups + residual)
    return shares


def _parts(scene: Means, row_moments: RowMoments | None) -> Parts:
    model, draws = scene.model, scene.draws
    rows, share = model.design.rows, model.weights / model.weights.sum()
    copies = model.density_form.predictors
    common = _common_variance(scene)
    groups = {}
    for factor, z, factors in zip(
        model.design.factors, rows.z, scene.effect_factors(), strict=True
    ):
        root = np.linalg.qr(np.sqrt(share)[:, None] * z, mode="r")
        squares = [np.sum((root @ block) ** 2, (1, 2)) for block in factors[:copies]]
        groups[factor.name] = np.stack(squares, 1)
    return Parts(common, groups, _residual(model, draws, row_moments, common))


def _common_variance(scene: Means) -> Float[np.ndarray, "S C"]:
    """The weighted variance of the common predictors over rows, without offsets. Parts of rows are
    joined without a difference of large numbers (Chan, Golub and LeVeque 1983, equation 2.1)."""
    model = scene.model
    rows, copies = model.design.rows, model.density_form.predictors
    rows = rows._replace(offset=np.zeros_like(rows.offset))
    total = 0.0
    mean = squares = np.zeros((scene.num_draws, copies))
    for places in scene.row_parts(rows):
        weights = model.weights[places]
        size = weights.sum()
        if size == 0:
            continue
        eta = model.common_predictors(scene.draws, rows.part(places))[..., :copies]
        part_mean = np.einsum("snc,n->sc", eta, weights) / size
        part_squares = np.einsum("snc,n->sc", (eta - part_mean[:, None]) ** 2, weights)
        gap = part_mean - mean
        squares = squares + part_squares + gap**2 * total * size / (total + size)
        mean = mean + gap * size / (total + size)
        total += size
    return squares / total


def _residual(
    model: Any, draws: Draws, row_moments: RowMoments | None, like: np.ndarray
) -> np.ndarray | None:
    """V_d: the variance of the logistic law; of errors; behind a logarithm log(1 + CV^2) at the
    mean response (Nakagawa, Johnson and Schielzeth 2017, table 2)."""
    law = model.law
    if law.name in LOGIT_LAWS:
        return np.full_like(like, LOGISTIC)
    if law.is_location_scale:
        assert row_moments is not None
        return row_moments.variance[:, None]
    if law.link != "log" or law.is_cut or row_moments is None or model.design.further:
        return None
    aux = model.density_form.law_parameters(draws.named)
    ones = {name: np.asarray(x, float) for name, x in aux.items()}
    unit = moments(law.name, ones, np.zeros((len(like), 1)), np.ones(1))
    assert unit is not None
    eta = np.log(row_moments.mean / unit[0][:, 0])  # whose mean is the mean response
    at_mean = moments(law.name, ones, eta[:, None], np.ones(1))
    assert at_mean is not None
    mean, variance = at_mean
    return np.log1p(variance / mean**2)


def _row_moments(scene: Means) -> RowMoments | None:
    """Moments over the rows of training; None for categories."""
    model = scene.model
    if model.design.levels:
        return None
    aux = model.density_form.law_parameters(scene.draws.named)
    rows, trials = model.design.rows, model.design.trials
    share = model.weights / model.weights.sum()
    # Squares about the mean of the data keep their digits.
    centre = float(mean_and_spread(model.design.y / trials, model.weights)[0])
    sums = np.zeros((3, scene.num_draws))
    for places in scene.row_parts(rows):
        eta = model.row_predictors(scene.draws, rows.part(places), None)
        main, by_row = model.density_form.split_predictors(eta, np)
        parameters = {**aux, **by_row}
        if "precision" in model.design.facts:
            sigma = add_row_axis("sigma", np.asarray(parameters["sigma"], float))
            parameters["sigma"] = sigma / np.sqrt(model.design.facts["precision"][places])
        row_moments = moments(model.law.name, parameters, main, trials[places])
        if row_moments is None:
            return None
        mean, variance = row_moments
        for i, x in enumerate((mean - centre, (mean - centre) ** 2, variance)):
            sums[i] += x @ share[places]
    shift, squares, variance = sums
    return RowMoments(centre + shift, squares - shift**2, variance)

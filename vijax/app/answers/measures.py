"""Errors on held-out rows in words that need no logarithm: rows classified correctly, share of
variance explained, typical error in units of the target."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.app.answers.plain import formula_law, has_target, known_rows, target_law, target_rows
from vijax.app.catalogue.glmm import Frame, make_model
from vijax.app.drawing.blocks import TITLE_OF_MEASURES, Table
from vijax.app.sources.listing import FittedRun, Listing

HEADER = ["", "this model", "without columns"]


class TargetPredictions(NamedTuple):
    """Held-out targets and what a fit predicts for them.

    Attributes:
      kind: "real", "binary" (targets 0 and 1, predictions probabilities) or "classes" (numbers of
        classes).
      target: the targets, (N,).
      prediction: the predictions, (N,).
      plain: the predictions by the same law without columns and groups, (N,).
      weights: weights of the rows, (N,).
      name: name of the target.
    """

    kind: str
    target: Float[np.ndarray, " N"]
    prediction: Float[np.ndarray, " N"]
    plain: Float[np.ndarray, " N"]
    weights: Float[np.ndarray, " N"]
    name: str


def held_out_measures(listing: Listing, run: FittedRun) -> list[Table]:
    """A table of the errors of a fit on its held-out rows, beside those of a prediction without
    columns; none for models without a target, or without held-out rows."""
    predicted = _held_out_predictions(listing, run)
    if predicted is None or not np.sum(predicted.weights):
        return []
    rows = MEASURES[predicted.kind](predicted)
    note = f"Of {len(predicted.target):,} held-out rows."
    return [Table(TITLE_OF_MEASURES, HEADER, rows, note)]


def _held_out_predictions(listing: Listing, run: FittedRun) -> TargetPredictions | None:
    """The held-out targets with their predictions; None where there are none."""
    train, test = run.data.train, run.data.test
    if test is None or listing.transform is None or getattr(train, "y", None) is None:
        return None
    if isinstance(train, Frame):
        return _predict_frame(listing, run)
    if not has_target(run):
        return None
    results = listing.transform(run, test, lambda number: None)
    kind, column = "real", "prediction"
    if train.classes is not None:
        kind, column = "binary", f"probability_{train.classes[1]}"
    rows = target_rows(test)
    plain = target_law(run.settings, train).mean(rows)
    prediction = np.asarray(results[column], float)
    return TargetPredictions(kind, rows.y, prediction, plain, rows.weights, str(train.target))


def _predict_frame(listing: Listing, run: FittedRun) -> TargetPredictions | None:
    """The same of a regression by a formula; None for shares of several trials, for angles and
    quantiles, and for responses that are censored or truncated: predictions are of the response
    before that."""
    train, test = run.data.train, run.data.test
    model = make_model(run.settings, train)
    trials = model.design.response_and_trials(test.table)[1]
    is_seen_in_part = bool({"status", "lowest", "highest"} & model.design.facts.keys())
    if np.any(np.asarray(trials) != 1) or is_seen_in_part or not model.law.has_variance:
        return None
    kind = "real"
    if model.design.levels:
        kind = "classes"
    elif model.law.name == "bernoulli":
        kind = "binary"
    assert listing.transform is not None
    prediction = listing.transform(run, test, lambda number: None)["mean"]
    rows = known_rows(model, test)
    plain = formula_law(model).mean(rows)
    if kind == "classes":
        plain = plain.argmax(axis=1)
    return TargetPredictions(
        kind,
        rows.y,
        np.asarray(prediction, float),
        np.asarray(plain, float),
        rows.weights,
        model.design.response,
    )


# --- measures -------------------------------------------------------------------------------------
def _real_measures(predicted: TargetPredictions) -> list[list[Any]]:
    """Typical errors, and the share of the squared errors without columns that is explained."""
    square = lambda guess: np.average((predicted.target - guess) ** 2, weights=predicted.weights)
    error, plain = float(square(predicted.prediction)), float(square(predicted.plain))
    typical = f"typical error of {predicted.name} (root mean square)"
    rows: list[list[Any]] = [[typical, float(np.sqrt(error)), float(np.sqrt(plain))]]
    if plain > 0:
        rows.append(["share of variance explained", 1 - error / plain, 0.0])
    return rows


def _binary_measures(predicted: TargetPredictions) -> list[list[Any]]:
    """Rows classified correctly, and the area under the curve."""
    likelier = lambda chances: np.asarray(chances > 0.5, float)
    rows = [_correct(predicted, likelier(predicted.prediction), likelier(predicted.plain))]
    area = lambda chances: area_under_curve(predicted.target, chances, predicted.weights)
    areas = [area(predicted.prediction), area(predicted.plain)]
    if np.isfinite(areas).all():
        rows.append(["area under the curve (AUC)", *areas])
    return rows


def _class_measures(predicted: TargetPredictions) -> list[list[Any]]:
    """Rows classified correctly."""
    return [_correct(predicted, predicted.prediction, predicted.plain)]


def _correct(predicted: TargetPredictions, guess: np.ndarray, plain: np.ndarray) -> list[Any]:
    """The shares of rows whose class is guessed."""
    share = lambda guess: float(np.average(predicted.target == guess, weights=predicted.weights))
    return ["share of rows classified correctly", share(guess), share(plain)]


def area_under_curve(
    target: Float[np.ndarray, " N"],
    score: Float[np.ndarray, " N"],
    weights: Float[np.ndarray, " N"],
) -> float:
    """The probability that a row of class 1 has a higher score than one of class 0, ties as half;
    NaN for a single class.

    >>> area_under_curve(np.array([0.0, 1, 1, 0]), np.array([0.1, 0.4, 0.3, 0.3]), np.ones(4))
    0.875
    """
    _, places = np.unique(score, return_inverse=True)
    ones = np.bincount(places, weights=weights * (target == 1))
    zeros = np.bincount(places, weights=weights * (target == 0))
    if not ones.sum() * zeros.sum():
        return float("nan")
    below = np.cumsum(zeros) - zeros
    return float(np.sum(ones * (below + 0.5 * zeros)) / (ones.sum() * zeros.sum()))


MEASURES = {"real": _real_measures, "binary": _binary_measures, "classes": _class_measures}

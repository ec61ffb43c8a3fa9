"""Views that several listings share: points in the plane, histograms, coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vijax.app.drawing.blocks import BARS, NINETY, Block, Intervals, Lines, Scatter, Table

MOST_POINTS = 1500


class Plane:
    """Two directions in which rows are shown: the columns themselves if there are two, else
    principal components of standardised columns, whose units do not matter."""

    labels: tuple[str, ...]

    def __init__(self, x: np.ndarray, columns: Sequence[str]):
        x = np.nan_to_num(np.asarray(x, float))
        self.centre = np.zeros(x.shape[1]) if x.shape[1] == 2 else x.mean(axis=0)
        if x.shape[1] == 2:
            self.directions = np.eye(2)
            self.labels = tuple(columns)
        else:
            spread = x.std(axis=0)
            size = np.where(spread > 0, spread, 1.0)[:, None]
            _, lengths, rows = np.linalg.svd((x - self.centre) / size[:, 0], full_matrices=False)
            signs = np.sign(rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)])
            self.directions = (signs[:, None] * rows)[:2].T / size
            shares = 100 * lengths[:2] ** 2 / max(float((lengths**2).sum()), 1e-300)
            self.labels = tuple(
                f"principal axis {i + 1} ({share:.0f} %)" for i, share in enumerate(shares)
            )

    def points(self, x: np.ndarray) -> np.ndarray:
        """Rows in the plane, (N, 2)."""
        return (np.nan_to_num(np.asarray(x, float)) - self.centre) @ self.directions

    def ellipse(
        self, mean: np.ndarray, cov: np.ndarray, deviations: float = 2.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """The outline of a Gaussian, two standard deviations out, as x and y."""
        flat = self.directions.T @ np.asarray(cov, float) @ self.directions
        values, vectors = np.linalg.eigh(0.5 * (flat + flat.T))
        angle = np.linspace(0, 2 * np.pi, 61)
        circle = np.stack([np.cos(angle), np.sin(angle)])
        outline = vectors @ (np.sqrt(np.maximum(values, 0.0))[:, None] * circle) * deviations
        place = self.points(np.asarray(mean)[None])[0]
        return place[0] + outline[0], place[1] + outline[1]


def spread_rows(number: int, most: int = MOST_POINTS) -> np.ndarray:
    """Rows to show: all, or `most` evenly spread."""
    return np.unique(np.linspace(0, number - 1, min(number, most)).astype(int))


def spread_rows_note(note: str, shown: int, number: int) -> str:
    """A note, and the number of rows drawn if that is not all.

    >>> spread_rows_note("Rows by class.", 1500, 20_000), spread_rows_note("Rows by class.", 30, 30)
    ('Rows by class. Of 20,000 rows 1,500 are drawn, evenly spread.', 'Rows by class.')
    """
    remark = f" Of {number:,} rows {shown:,} are drawn, evenly spread." if shown < number else ""
    return f"{note}{remark}".strip()


def scatter(
    title: str,
    x: np.ndarray,
    columns: Sequence[str],
    classes: np.ndarray,
    gaussians: Sequence[tuple[int, Any, Any]] = (),
    note: str = "",
    names: Sequence[str] = (),
) -> Scatter:
    """Rows by class, and the outlines of Gaussians (class, mean, covariance)."""
    plane = Plane(x, columns)
    rows = spread_rows(len(x))
    points = plane.points(x[rows])
    outlines = [
        (k, *plane.ellipse(np.asarray(mean), np.asarray(cov))) for k, mean, cov in gaussians
    ]
    classes_shown = np.asarray(classes)[rows]
    if np.shape(x)[1] > 2:
        note = f"{note} Axes are principal axes of standardised columns.".strip()
    note = spread_rows_note(note, len(rows), len(x))
    return Scatter(
        title,
        plane.labels[0],
        plane.labels[1],
        points[:, 0],
        points[:, 1],
        classes_shown,
        outlines,
        note,
        tuple(names),
    )


def histogram(title: str, x: np.ndarray, label: str, density: Any, note: str = "") -> Lines:
    """A column's histogram as points, under the density that the model gives it."""
    heights, edges = np.histogram(x, bins=min(60, max(10, len(x) // 12)), density=True)
    margin = 0.05 * (edges[-1] - edges[0])
    grid = np.linspace(edges[0] - margin, edges[-1] + margin, 300)
    centres = 0.5 * (edges[1:] + edges[:-1])
    return Lines(
        title, label, "density", grid, density(grid), points_x=centres, points_y=heights, note=note
    )


RATIOS = {
    "bernoulli_logit": ("odds ratio", "the odds of {} are multiplied by this"),
    "poisson_log": ("rate ratio", "the expected {} is multiplied by this"),
    "negative_binomial": ("rate ratio", "the expected {} is multiplied by this"),
    "gamma_log": ("mean ratio", "the expected {} is multiplied by this"),
}
"""Likelihoods whose coefficients are read as exp b: the name of exp b, and its meaning."""
SCALES = {
    "bernoulli_logit": "log odds of {}",
    "bernoulli_probit": "probit of {}",
    "poisson_log": "log of the expected {}",
    "negative_binomial": "log of the expected {}",
    "gamma_log": "log of the expected {}",
}
"""The scale of the predictor of each likelihood, for a target; coefficients add to it."""


def predictor_name(law: str, target: str | None, classes: tuple[str, str] | None) -> str:
    """The name of the predictor, to which coefficients add; for two classes, of the second against
    the first.

    >>> predictor_name("bernoulli_logit", "churn", ("No", "Yes")), predictor_name("gaussian", "height", None)
    ('log odds of Yes against No', 'height')
    """
    subject = str(target) if classes is None else f"{classes[1]} against {classes[0]}"
    return SCALES.get(law, "{}").format(subject)


def coefficients(
    title: str,
    names: Sequence[str],
    mean: Any,
    deviation: Any,
    scales: Any,
    law: str = "",
    target: str = "",
    predictor: str = "",
) -> list[Block]:
    """A picture and a table of coefficients: intervals, ratios for likelihoods that have them, and
    the effect of one standard deviation of each column.

    Args:
      title: title of the picture.
      names: names of the coefficients.
      mean: means.
      deviation: standard deviations.
      scales: standard deviations of the columns; an intercept has none.
      law: name of the likelihood.
      target: name of the target.
      predictor: what they add to, from `predictor_name`.
    """
    mean, deviation = np.asarray(mean, float), np.asarray(deviation, float)
    low, high = mean - NINETY * deviation, mean + NINETY * deviation
    columns = {"mean": mean, "sd": deviation, "5 %": low, "95 %": high}
    columns["per sd of the column"] = np.append(scales, np.nan)[: len(mean)] * mean
    notes = [f"On the {predictor}."] if predictor else []
    notes += [
        "Central 90 % of each coefficient; per sd: what one standard deviation of the column adds."
    ]
    if law in RATIOS:
        ratio, meaning = RATIOS[law]
        ends = {ratio: mean, f"{ratio}, 5 %": low, "95 % of it": high}
        with np.errstate(over="ignore"):
            columns |= {name: np.exp(b) for name, b in ends.items()}
        notes.append(
            f"{ratio.capitalize()}: where the column grows by one, {meaning.format(target)}."
        )
    rows = [[name, *map(float, row)] for name, *row in zip(names, *columns.values(), strict=True)]
    scale_note = f"On the {predictor}. " if predictor else ""
    note = f"{scale_note}{BARS}"
    picture = Intervals(title, names, mean, deviation, note, 0)
    return [picture, Table(f"{title}, in numbers", [predictor, *columns], rows, " ".join(notes))]

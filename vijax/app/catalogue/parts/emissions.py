"""Emissions on the command line: the section that chooses one; tables of components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from vijax.app.catalogue.parts.widened import widening_note
from vijax.app.drawing import views
from vijax.app.drawing.blocks import Block, Heat, Table
from vijax.app.settings.options import chooser, make_option
from vijax.app.settings.units import table_units, to_covariance
from vijax.app.sources.listing import FittedRun
from vijax.contract import init
from vijax.data.tables.table import Manner
from vijax.models import emission as emissions
from vijax.models.emission import Emission

EmissionConfig = chooser(
    "[model.emission]: what a component (or state) emits, and the conjugate prior of its "
    "parameters.",
    "full_gaussian",
    "the family; tied: one covariance for all, spherical: one variance for each",
    without=("num_components", "dim", "vocab_size"),
    full_gaussian=emissions.full_gaussian,
    tied_gaussian=emissions.tied_gaussian,
    diagonal_gaussian=emissions.diagonal_gaussian,
    spherical_gaussian=emissions.spherical_gaussian,
    unit_gaussian=emissions.unit_gaussian,
    poisson=emissions.poisson,
    bernoulli=emissions.bernoulli,
    categorical=emissions.categorical,
)
InitConfig = chooser(
    "[model.init]: where the posterior starts; which optimum is found depends on it.",
    "kmeans_plus_plus",
    "the start",
    kmeans_plus_plus=init.kmeans_plus_plus,
    random_responsibilities=init.random_responsibilities,
    near_symmetric=init.near_symmetric,
    prior=init.prior,
)


def make(config: Any, num_components: int, dim: int, incomplete: bool = False) -> Emission:
    """The emission that a section describes; of rows in which cells may be missing."""
    has_degrees = config.name in ("full_gaussian", "tied_gaussian") and config.degrees is not None
    if has_degrees and config.degrees <= dim - 1:
        raise ValueError(
            f"model.emission.degrees: expected more than the {dim} columns less 1, got "
            f"{config.degrees}. Leave it unset for columns + 2."
        )
    emission = make_option(config, num_components, dim)
    if incomplete:
        return emissions.incomplete(emission)
    return emission


def takes_missing(settings: Any) -> bool:
    """True if the emission of [model] has a law for missing cells."""
    return settings.emission.name != "categorical"


def manner(settings: Any) -> Manner | None:
    """Standardisation of columns for the emission of [model]: Gaussian emissions have priors of one
    place and scale. A variance shared by all columns needs one scale for all; a variance of 1 needs
    none. Columns stay unchanged if the place or scale of the prior is set."""
    config = settings.emission
    if any(
        getattr(config, name, None) not in (None, value) for name, value in UNIT_SETTINGS.items()
    ):
        return None
    return MANNERS.get(config.name)


UNIT_SETTINGS = {"location": 0.0, "variance": 100.0, "rate": 1.0, "scale": None}
"""Settings of a Gaussian emission's prior that are in units of the columns, with their defaults."""
MANNERS: dict[str, Manner] = {
    "full_gaussian": "each",
    "tied_gaussian": "each",
    "diagonal_gaussian": "each",
    "spherical_gaussian": "together",
    "unit_gaussian": "centre",
}
LEAST_ROWS_HELD = 0.5
"""Expected number of rows from which a component counts; the last components have small parts."""


# --- fitted components ----------------------------------------------------------------------------
def gaussians(name: str, run: FittedRun) -> list[tuple[np.ndarray, np.ndarray]]:
    """Mean and covariance of each component in the units of the data; none for other emissions."""
    if not name.endswith("gaussian"):
        return []
    point = run.point("components")
    units = table_units(run.data.train)
    means = _means(name, run)
    size = means.shape[1]
    if name != "unit_gaussian":
        means = means.astype(float)
    if name == "unit_gaussian":
        covs = [np.eye(size)] * len(means)
    elif name == "tied_gaussian":
        covs = [to_covariance(np.asarray(point.precision, float))] * len(means)
    else:
        to_cov = {
            "spherical_gaussian": lambda p: np.eye(size) / max(p[0, 0], 1e-30),
            "diagonal_gaussian": lambda p: np.diag(1 / np.maximum(p, 1e-30)),
        }.get(name, to_covariance)
        covs = [*map(to_cov, np.asarray(point.precision, float))]
    return [(units.points(mean), units.cov(cov)) for mean, cov in zip(means, covs, strict=True)]


def _means(name: str, run: FittedRun) -> np.ndarray:
    """The means as fitted."""
    point = run.point("components")
    if not name.endswith("gaussian") or name == "unit_gaussian":
        return np.asarray(point)
    mean = np.asarray(point.mean)
    return mean[..., 0] if name == "spherical_gaussian" else mean


EXPLAINED = {
    "share": "Share: the part of all {unit}s.",
    "steps at a time": "Steps at a time: the mean length of a stay.",
    "weight": "Weight: the part of new {unit}s.",
    "rows": "Rows: how many are expected in it.",
}
"""What the first columns of a table of components are."""


def component_blocks(
    title: str,
    name: str,
    run: FittedRun,
    columns: Sequence[str],
    leading: Mapping[str, Any],
    rows: Any,
    unit: str = "row",
    most: int = 8,
    within: Float[np.ndarray, "K D"] | None = None,
) -> list[Block]:
    """A table of components, and a map of all means if there are many columns.

    Args:
      title: title of the table.
      name: name of the emission.
      run: the fit with its data.
      columns: names of the columns.
      leading: first columns of the table, by name; rows are sorted by the first, their sizes.
      rows: expected rows of each component; components with less than half a row are left out.
      unit: name of a row.
      most: number of columns whose means the table has.
      within: deviations of the rows of each component, as fitted.
    """
    means = table_units(run.data.train).points(_means(name, run))
    sizes = np.asarray(next(iter(leading.values())), float)
    by_size = np.argsort(-sizes, kind="stable")
    order = np.array([k for k in by_size if rows[k] >= LEAST_ROWS_HELD], int)
    spreads = []
    if name != "unit_gaussian":
        spreads = [np.sqrt(np.diag(cov)) for _, cov in gaussians(name, run)]
    places = range(min(len(columns), most))
    has_spreads = bool(spreads) and len(columns) <= most // 2
    header = ["", *leading, *(columns[d] for d in places)]
    if has_spreads:
        header += [f"sd {columns[d]}" for d in places]

    def row(k: int) -> list[Any]:
        cells = [int(k), *(float(values[k]) for values in leading.values())]
        cells += [float(means[k, d]) for d in places]
        if has_spreads:
            cells += [float(spreads[k][d]) for d in places]
        return cells

    notes = [" ".join(EXPLAINED[name].format(unit=unit) for name in leading if name in EXPLAINED)]
    if has_spreads:
        notes.append("Then the mean of each column, and its standard deviation (sd).")
    if len(columns) > most:
        notes.append(f"The first {most} of {len(columns)} columns.")
    num_empty = len(sizes) - len(order)
    if num_empty:
        notes.append(
            f"{num_empty} of {len(sizes)} {title.lower()} hold no {unit} and are left out."
        )
    if within is not None and len(spreads) and len(order):
        notes.append(_widening_note(run, spreads, within, columns, rows, unit))
    note = " ".join(filter(None, notes))
    blocks: list[Block] = [Table(title, header, [row(k) for k in order], note)]
    if len(columns) > most:
        # Columns of one scale have colours that can be compared.
        note = table_units(run.data.train).note()
        labels = [str(k) for k in order]
        fitted = _means(name, run)[order]
        blocks.append(Heat("What components emit", labels, list(columns), fitted, note))
    return blocks


def _widening_note(
    run: FittedRun,
    spreads: Sequence[np.ndarray],
    within: Float[np.ndarray, "K D"],
    columns: Sequence[str],
    rows: Any,
    unit: str,
) -> str:
    """A note on the component that the prior widens most, in the units of the data."""
    units = table_units(run.data.train)
    column_deviations = units.deviation
    if not units.scaled:
        column_deviations = np.nanstd(run.data.train.x, axis=0)
    fitted = np.array(spreads)[: len(rows)]
    of_rows = np.array([units.spread(deviations) for deviations in within])[: len(rows)]
    return widening_note(fitted, of_rows, columns, column_deviations, np.asarray(rows), unit)


def picture(
    title: str,
    name: str,
    run: FittedRun,
    x: np.ndarray,
    columns: Sequence[str],
    labels: np.ndarray,
    weights: np.ndarray,
) -> Block:
    """Rows by component in the plane, with outlines of Gaussians; or the density of one column."""
    x, normals = table_units(run.data.train).points(x), gaussians(name, run)
    lacks = np.isnan(x)
    if lacks.any():
        means = table_units(run.data.train).points(_means(name, run)).astype(float)
        x = np.where(lacks, means[labels], x)
    if x.shape[1] == 1 and normals:

        def density(grid: np.ndarray) -> np.ndarray:
            parts = [
                np.exp(-0.5 * (grid - mean[0]) ** 2 / cov[0, 0]) / np.sqrt(2 * np.pi * cov[0, 0])
                for mean, cov in normals
            ]
            return np.asarray(weights)[: len(parts)] @ np.array(parts)

        note = "The fitted density, and the histogram of the data."
        return views.histogram(title, x[:, 0], columns[0], density, note)
    # An outline of a component that holds no row would be a cluster that is not there.
    occurring = set(np.asarray(labels).tolist())
    outlines = [(k, mean, cov) for k, (mean, cov) in enumerate(normals) if k in occurring]
    if x.shape[1] == 1:
        x = np.concatenate([x, np.arange(len(x))[:, None]], axis=1)
        columns = (*columns, "row")
    note = "Each row in the colour of its class."
    if outlines:
        note = "Each row in the colour of its class; outlines at two standard deviations."
    if lacks.any():
        note += " Missing cells are drawn at the mean of the class."
    return views.scatter(title, x, columns, labels, outlines, note)

"""Emissions on the command line: the section that chooses one, and the tables and pictures of
fitted components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from vijax.app.catalogue.parts.widened import note_on_widened
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


def make(config: Any, num_components: int, dim: int) -> Emission:
    """The emission that a section describes."""
    if (
        config.name in ("full_gaussian", "tied_gaussian")
        and config.degrees is not None
        and config.degrees <= dim - 1
    ):
        raise ValueError(
            f"model.emission.degrees: expected more than the {dim} columns less 1, got "
            f"{config.degrees}. Leave it unset for columns + 2."
        )
    return make_option(config, num_components, dim)


def manner(settings: Any) -> Manner | None:
    """The way to standardise columns for the emission of [model]: Gaussian ones have priors of one
    place and scale. A variance that is the same for all columns needs one scale for all, and one
    that is known to be 1 none. Where the place or scale of the prior is set, columns stay as they
    are."""
    config = settings.emission
    if any(getattr(config, name, None) not in (None, value) for name, value in PLACED.items()):
        return None
    return MANNERS.get(config.name)


PLACED = {"location": 0.0, "variance": 100.0, "rate": 1.0, "scale": None}
"""Settings of a Gaussian emission's prior that are in units of the columns, with their defaults."""
MANNERS: dict[str, Manner] = {
    "full_gaussian": "each",
    "tied_gaussian": "each",
    "diagonal_gaussian": "each",
    "spherical_gaussian": "together",
    "unit_gaussian": "centre",
}
HELD = 0.5
"""Rows of a component that holds any: expected ones, of which the last components of a mixture have
small parts."""


# --- fitted components ----------------------------------------------------------------------------
def gaussians(name: str, run: FittedRun) -> list[tuple[np.ndarray, np.ndarray]]:
    """Mean and covariance of each component in the units of the data, for the Gaussian emissions;
    else none."""
    if not name.endswith("gaussian"):
        return []
    point, means, units = run.point("components"), _means(name, run), table_units(run.data.train)
    size, means = means.shape[1], means if name == "unit_gaussian" else means.astype(float)
    if name == "unit_gaussian":
        covs = [np.eye(size)] * len(means)
    elif name == "tied_gaussian":
        covs = [to_covariance(np.asarray(point.precision, float))] * len(means)
    else:
        of_one = {
            "spherical_gaussian": lambda p: np.eye(size) / max(p[0, 0], 1e-30),
            "diagonal_gaussian": lambda p: np.diag(1 / np.maximum(p, 1e-30)),
        }.get(name, to_covariance)
        covs = [*map(of_one, np.asarray(point.precision, float))]
    return [(units.points(mean), units.cov(cov)) for mean, cov in zip(means, covs, strict=True)]


def _means(name: str, run: FittedRun) -> np.ndarray:
    """The means as they were fitted."""
    point = run.point("components")
    if not name.endswith("gaussian") or name == "unit_gaussian":
        return np.asarray(point)
    return (
        np.asarray(point.mean)[..., 0] if name == "spherical_gaussian" else np.asarray(point.mean)
    )


def table_of_components(
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
    """A table of components, largest first, without those that hold less than half of a row: the
    columns `leading` (the first of them sizes), then means; and a map of all means where there are
    many columns. `rows` are the expected rows of each component, `within` the deviations of these
    rows as they were fitted."""
    means = table_units(run.data.train).points(_means(name, run))
    sizes = np.asarray(next(iter(leading.values())), float)
    order = np.array([k for k in np.argsort(-sizes, kind="stable") if rows[k] >= HELD], int)
    spreads = (
        [np.sqrt(np.diag(cov)) for _, cov in gaussians(name, run)]
        if name != "unit_gaussian"
        else []
    )
    shown = range(min(len(columns), most))
    header = ["", *leading, *(columns[d] for d in shown)]
    if spreads and len(columns) <= most // 2:
        header += [f"sd {columns[d]}" for d in shown]

    def row(k: int) -> list[Any]:
        cells = [
            int(k),
            *(float(values[k]) for values in leading.values()),
            *(float(means[k, d]) for d in shown),
        ]
        return cells + ([float(spreads[k][d]) for d in shown] if len(header) > len(cells) else [])

    notes = [f"The first {most} of {len(columns)} columns."] if len(columns) > most else []
    if empty := len(sizes) - len(order):
        notes.append(f"{empty} of {len(sizes)} {title.lower()} hold no {unit} and are left out.")
    if within is not None and len(spreads) and len(order):
        units = table_units(run.data.train)
        whole = units.deviation if units.scaled else np.nanstd(run.data.train.x, axis=0)
        found = (
            np.array(spreads)[: len(rows)],
            np.array([units.spread(own) for own in within])[: len(rows)],
        )
        notes.append(note_on_widened(*found, columns, whole, np.asarray(rows), unit))
    blocks: list[Block] = [
        Table(title, header, [row(k) for k in order], " ".join(filter(None, notes)))
    ]
    if len(columns) > most:
        note = table_units(
            run.data.train
        ).note()  # columns of one scale make colours that can be compared
        named, fitted = [str(k) for k in order], _means(name, run)[order]
        blocks.append(Heat("What components emit", named, list(columns), fitted, note))
    return blocks


def picture(
    title: str,
    name: str,
    run: FittedRun,
    x: np.ndarray,
    columns: Sequence[str],
    labels: np.ndarray,
    weights: np.ndarray,
) -> Block:
    """Rows by component in the plane, with outlines of Gaussians; for a single column the
    density."""
    x, found = table_units(run.data.train).points(x), gaussians(name, run)
    if x.shape[1] == 1 and found:

        def density(grid: np.ndarray) -> np.ndarray:
            parts = [
                np.exp(-0.5 * (grid - mean[0]) ** 2 / cov[0, 0]) / np.sqrt(2 * np.pi * cov[0, 0])
                for mean, cov in found
            ]
            return np.asarray(weights)[: len(parts)] @ np.array(parts)

        note = "The fitted density, and the histogram of the data."
        return views.histogram(title, x[:, 0], columns[0], density, note)
    outlines = [(k, mean, cov) for k, (mean, cov) in enumerate(found) if weights[k] > 1e-3]
    if x.shape[1] == 1:
        x, columns = np.concatenate([x, np.arange(len(x))[:, None]], axis=1), (*columns, "row")
    note = "Each row in the colour of its class" + (
        "; outlines at two standard deviations." if outlines else "."
    )
    return views.scatter(title, x, columns, labels, outlines, note)

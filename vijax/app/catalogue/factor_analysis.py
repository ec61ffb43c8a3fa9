"""Factor analysis, probabilistic PCA and matrix factorisation on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax import models
from vijax.app.drawing import views
from vijax.app.drawing.blocks import Block, Heat, Table
from vijax.app.rows.by_row import ROWS, RowScore, check_data, read_in_blocks
from vijax.app.settings.options import model_section
from vijax.app.settings.sections import EnergyAlgorithm
from vijax.app.settings.typed_toml import setting
from vijax.app.settings.units import log_scales, table_units
from vijax.app.sources.listing import FittedRun, Listing, RowResults, Tell
from vijax.app.sources.tables import TABLES, holds_out_entries, values
from vijax.data.tables.table import Manner
from vijax.families.vector.free_normals import LowRankNormal
from vijax.models.factors.rotation import Method, Rotation, rotate

Settings = model_section(
    models.factor_analysis,
    "factor analysis; probabilistic PCA; matrix factorisation with missing entries",
    width="dim",
    without=("prior_as_point",),
    num_factors=3,
    rotation=(
        Method,
        setting(
            "none",
            "how factors are turned to be read: varimax keeps them uncorrelated, with oblimin they "
            "correlate; the fit is the same",
        ),
    ),
)


# --- scores ---------------------------------------------------------------------------------------
def score(run: FittedRun) -> RowScore:
    """For held-out rows the marginal density at the fitted loadings and noise; for held-out entries
    the predictive density given the other entries of their rows; in the units of the data."""
    if holds_out_entries(run.data):
        return _score_entries(run)
    y = values(run.data.test)
    loadings, means, variance = _parameters(run)
    log_densities = jax.jit(jax.vmap(_log_marginal, in_axes=(0, None, None, None)))(
        jnp.asarray(y), loadings, means, variance
    )
    return RowScore.of(np.asarray(log_densities) - log_scales(run.data.test), "row")


def _parameters(run: FittedRun) -> tuple[Array, Array, Array]:
    """Loadings (D, K), means (D,) and noise variances (D,)."""
    loadings = jnp.asarray(run.point("loadings"))
    dim = loadings.shape[0]
    means = loadings[:, -1] if run.settings.intercept else jnp.zeros(dim)
    variance = jnp.broadcast_to(1 / jnp.maximum(jnp.asarray(run.point("noise")), 1e-30), (dim,))
    return loadings[:, : run.settings.num_factors], means, variance


def rotation(run: FittedRun) -> Rotation:
    """The loadings in the units of the model, rotated as asked, the strongest factor first."""
    loadings, _, _ = _parameters(run)
    method: Any = getattr(run.settings, "rotation", "none")
    return rotate(np.asarray(loadings, np.float64), method)


def transform(run: FittedRun, table: Any, tell: Tell) -> RowResults:
    """Means and standard deviations of the rotated factors of each row."""
    turn = rotation(run).turn

    def read(x: np.ndarray) -> RowResults:
        q: Any = run.fit.locals(x, key=run.key)["x"]
        variance = np.einsum("kj,nkl,lj->nj", turn, np.asarray(q.cov), turn, optimize=True)
        return {"factor": np.asarray(q.mean()) @ turn, "sd": np.sqrt(variance)}

    return read_in_blocks(read, check_data(run, values(table)), tell)


def _log_marginal(
    y: Float[Array, " D"],
    loadings: Float[Array, "D K"],
    means: Float[Array, " D"],
    variance: Float[Array, " D"],
) -> Float[Array, ""]:
    """log N(y; m, W W' + Psi) over the known entries of y: others have variance 1, no residual."""
    is_known = ~jnp.isnan(y)
    residual = jnp.where(is_known, y - means, 0.0)
    known_loadings = jnp.where(is_known[:, None], loadings, 0.0)
    law = LowRankNormal(
        jnp.zeros_like(residual), 0.5 * jnp.log(jnp.where(is_known, variance, 1.0)), known_loadings
    )
    return law.log_prob(residual) + 0.5 * jnp.sum(~is_known) * jnp.log(2 * jnp.pi)


def _score_entries(run: FittedRun) -> RowScore:
    mean, variance = predict_entries(run)
    rows, columns = np.nonzero(np.isfinite(run.data.test.x))
    y = run.data.test.x[rows, columns]
    m = mean[rows, columns]
    v = variance[rows, columns]
    deviation = table_units(run.data.test).deviation[columns]
    log_densities = -0.5 * ((y - m) ** 2 / v + np.log(2 * np.pi * v)) - np.log(deviation)
    error = np.sqrt(np.mean((deviation * (y - m)) ** 2))
    return RowScore.of(log_densities, "entry", f"root mean square error {error:.4g}")


def predict_entries(run: FittedRun) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of every entry given the training entries of its row."""
    x = run.fit.locals(values(run.data.train), key=run.key)["x"]
    loadings, means, variance = map(np.asarray, _parameters(run))
    factors, cov = np.asarray(x.mean()), np.asarray(x.cov)
    spread = np.einsum("dk,nkl,dl->nd", loadings, cov, loadings, optimize=True)
    return factors @ loadings.T + means, spread + variance


# --- the page -------------------------------------------------------------------------------------
def describe(run: FittedRun) -> list[Block]:
    """Loadings, the share that each factor explains, noise, and rows by their factors."""
    _, means, variance = (np.asarray(part, float) for part in _parameters(run))
    turned = rotation(run)
    loadings = turned.loadings
    columns = run.data.names
    names = [f"factor {k}" for k in range(loadings.shape[1])]
    shared = loadings * (loadings @ turned.correlation)
    strength = shared.sum(axis=0)
    total = float(strength.sum() + variance.sum())
    rows: list[list[Any]] = [
        [name, float(part), 100 * float(part) / total]
        for name, part in zip(names, strength, strict=True)
    ]
    rows.append(["noise", float(variance.sum()), 100 * float(variance.sum()) / total])
    units = table_units(run.data.train)
    column_rows = zip(columns, units.points(means), units.spread(np.sqrt(variance)), strict=True)
    blocks: list[Block] = [
        Table("What factors explain", ["", "variance", "per cent"], rows, units.note()),
        Heat(
            "Loadings",
            columns,
            names,
            loadings,
            units.note(f"Of each column on each factor.{_rotation_note(run)}"),
        ),
        _loadings_in_numbers(columns, names, loadings, shared.sum(axis=1), variance),
        *_correlations(names, turned.correlation, run),
        Table("Columns", ["", "mean", "noise deviation"], list(column_rows)),
    ]
    if loadings.shape[1] > 1:
        factors = run.fit.locals(values(run.data.train), key=run.key)["x"]
        x = (np.asarray(factors.mean()) @ turned.turn)[:, :2]
        note = "The two strongest factors of each row."
        blocks.append(views.scatter("Rows", x, names[:2], np.zeros(len(x), int), note=note))
    return blocks


def _rotation_note(run: FittedRun) -> str:
    """The rotation of the factors in words; empty without one."""
    method = getattr(run.settings, "rotation", "none")
    if method == "none" or run.settings.num_factors < 2:
        return ""
    return f" Rotated by {method}, with Kaiser's normalisation."


def _loadings_in_numbers(
    columns: Sequence[str],
    names: Sequence[str],
    loadings: Float[np.ndarray, "D K"],
    shared: Float[np.ndarray, " D"],
    noise: Float[np.ndarray, " D"],
) -> Table:
    """Standardised loadings, and the share of each column's variance that factors explain; columns
    stand under the factor on which they load most, the highest first."""
    deviation = np.sqrt(shared + noise)
    standard = loadings / deviation[:, None]
    main = np.abs(standard).argmax(axis=1)
    order = sorted(range(len(columns)), key=lambda d: (main[d], -abs(standard[d, main[d]])))
    rows = [
        [columns[d], *map(float, standard[d]), 100 * float(shared[d] / (shared[d] + noise[d]))]
        for d in order
    ]
    note = (
        "Loadings of columns of standard deviation 1. Explained: per cent of the variance of a "
        "column that is of the factors; the rest is noise."
    )
    return Table("Loadings, in numbers", ["", *names, "explained"], rows, note)


def _correlations(
    names: Sequence[str], correlation: Float[np.ndarray, "K K"], run: FittedRun
) -> list[Block]:
    """The correlations of oblique factors."""
    if getattr(run.settings, "rotation", "none") != "oblimin" or len(names) < 2:
        return []
    rows = [[name, *map(float, row)] for name, row in zip(names, correlation, strict=True)]
    return [Table("Correlations of factors", ["", *names], rows)]


def manner(settings: Any) -> Manner | None:
    """Standardisation of columns: one noise for all columns needs one scale, and factors without
    means need columns about zero, which stay."""
    if not settings.intercept:
        return None
    return "together" if settings.noise == "isotropic" else "each"


LISTING = Listing(
    Settings,
    TABLES,
    EnergyAlgorithm,
    describe,
    values,
    score,
    missing=True,
    manner=manner,
    transform=transform,
    drawing=ROWS,
)

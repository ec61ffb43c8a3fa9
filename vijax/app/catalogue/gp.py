"""Gaussian processes with any likelihood on the command line."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from vijax import models
from vijax.app.kinds import predictors
from vijax.app.kinds.listing import Data, Seen
from vijax.app.kinds.predictors import LikelihoodConfig, settled
from vijax.app.kinds.tables import design, target
from vijax.app.page import views
from vijax.app.page.blocks import Block, Lines, Scatter, Table
from vijax.app.settings.options import built, chosen, model_section
from vijax.app.settings.typed_toml import section, setting
from vijax.app.settings.units import units_of
from vijax.arguments import POSITIVE
from vijax.extras import require_extra

Settings = model_section(
    models.gp,
    "Gaussian process observed through a likelihood",
    learn=("scale", "length"),
    kernel="rbf",
    jitter=1e-4,
    scale=setting(1.0, "standard deviation of the process", POSITIVE),
    length=setting(1.0, "length scale, in units of the columns", POSITIVE),
    ard=setting(False, "whether every column has a length of its own"),
    likelihood=section(LikelihoodConfig),
)


def build(settings: Any, data: Data) -> Any:
    """The model, of the training rows."""
    length: Any = jnp.full(len(data.names), settings.length) if settings.ard else settings.length
    return built(
        settings,
        data,
        x=design(data.train, settings),
        y=target(data.train),
        likelihood=chosen(settings.likelihood),
        hyper={"scale": jnp.asarray(settings.scale), "length": jnp.asarray(length)},
    )


def describe(seen: Seen) -> list[Block]:
    """Hyperparameters; errors of classes; the process along its one column, or the border of classes in the plane."""
    blocks = [_hyper_table(seen), *predictors.confusion(seen)]
    dim = len(seen.data.names)
    if dim == 1:
        blocks.append(_curve(seen))
    elif seen.data.train.classes is not None:
        blocks.append(_plane(seen))
    return blocks


def _hyper_table(seen: Seen) -> Table:
    """Hyperparameters, lengths in the units of the columns where each has its own, or there is one."""
    units, shown = units_of(seen.data.train), predictors.hyper_table(seen)
    if seen.settings.ard or len(seen.data.names) == 1:
        _, hyper = settled(seen)
        lengths = units.spread(np.asarray(hyper["length"], float))
        rows = [[name, predictors.numbers(lengths) if name == "length" else said] for name, said in shown.rows]
        return shown._replace(rows=rows)
    return shown._replace(note=units.note())


def _curve(seen: Seen) -> Lines:
    """The law of the mean response along the column: exp z of counts, the probability of classes, z itself."""
    model: Any = seen.fit.alg.spec.model
    found, _ = settled(seen)
    x, y = values(seen)
    grid = np.linspace(x.min(), x.max(), 200, dtype=x.dtype)
    mean, variance = (np.asarray(part, float) for part in model.predict(found, grid[:, None]))
    deviation, (name, kind) = np.sqrt(variance), (seen.data.train.target, _kind(seen))
    responses: dict[str, Any] = {"count": np.exp, "binary": lambda z: 1 / (1 + np.exp(-z)), "real": lambda z: z}
    response = responses[kind]
    bounds = response(mean), response(mean - 2 * deviation), response(mean + 2 * deviation)
    rows = views.thinned(len(x))
    label = {"count": f"rate of {name}", "binary": f"probability of {(seen.data.train.classes or ('', ''))[1]}"}
    shown = (y[rows] > 0).astype(float) if kind == "binary" else y[rows]
    note = "Median and central 95 % of the response, and the training rows."
    units = units_of(seen.data.train)
    grid, at = (units.points(part[:, None])[:, 0] for part in (grid, x[rows]))
    return Lines("Response", seen.data.names[0], label.get(kind, str(name)), grid, *bounds, at, shown, note)


def values(seen: Seen) -> tuple[np.ndarray, np.ndarray]:
    """The one column, and the target."""
    return design(seen.data.train, seen.settings)[:, 0], target(seen.data.train)


def _kind(seen: Seen) -> str:
    return predictors.kind_of(seen.settings.likelihood.name)


def _plane(seen: Seen) -> Scatter:
    """Training rows by class; of two columns also the border between classes."""
    x, labels = design(seen.data.train, seen.settings), (target(seen.data.train) > 0).astype(int)
    units = units_of(seen.data.train)
    note, names = "Training rows by class.", (*(seen.data.train.classes or ("0", "1")), "both as likely")
    shown = views.scatter("Classes", units.points(x), seen.data.names, labels, note=note, names=names)
    if x.shape[1] != 2:
        return shown
    model: Any = seen.fit.alg.spec.model
    found, _ = settled(seen)
    sides = [np.linspace(low, high, 60) for low, high in zip(x.min(axis=0), x.max(axis=0), strict=True)]
    grid = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2).astype(x.dtype)
    mean = np.asarray(model.predict(found, grid)[0]).reshape(60, 60)
    border = require_extra("contourpy").contour_generator(*sides, mean).lines(0.0)
    outlines = [(2, *units.points(line).T) for line in border]
    return shown._replace(outlines=outlines, note="Training rows by class, and where both are as likely.")


LISTING = predictors.predictor_model(Settings, describe, build)

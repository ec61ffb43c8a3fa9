"""Gaussian processes and generalised linear models on the command line."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from vijax import models
from vijax.app.drawing import views
from vijax.app.drawing.blocks import NINETY, Block, Lines, Scatter, Table
from vijax.app.rows.by_row import TARGETS, RowScore, read_in_blocks
from vijax.app.settings.options import build_from_section, chooser, make_option, model_section
from vijax.app.settings.sections import ProximalAlgorithm
from vijax.app.settings.typed_toml import section, setting
from vijax.app.settings.units import table_units
from vijax.app.sources import offsets
from vijax.app.sources.listing import Data, FittedRun, Listing, RowResults, Tell
from vijax.app.sources.tables import TABLES, design, pairs, sites, target
from vijax.arguments import POSITIVE
from vijax.data.tables.table import TargetKind
from vijax.extras import require_extra
from vijax.inference import likelihood
from vijax.inference.likelihood import Likelihood
from vijax.models.regressions.measure import NOISE
from vijax.models.regressions.predictor_draws import response

BLOCK = 4096
"""Rows per block: an interval averages over many values of each predictor."""
LikelihoodConfig = chooser(
    "[model.likelihood]: the law of the target given its predictor z.",
    "bernoulli_logit",
    "the law; the first two of two classes, the next two of counts",
    bernoulli_logit=likelihood.bernoulli_logit,
    bernoulli_probit=likelihood.bernoulli_probit,
    poisson_log=likelihood.poisson_log,
    negative_binomial=likelihood.negative_binomial,
    gaussian=likelihood.gaussian,
    gamma_log=likelihood.gamma_log,
    student_t=likelihood.student_t,
)


def target_kind(name: str) -> TargetKind:
    """The kind of observations of a likelihood."""
    if name.startswith("bernoulli"):
        return "binary"
    if name in ("poisson_log", "negative_binomial"):
        return "count"
    return "real"


def posterior_and_hyper(run: FittedRun) -> tuple[Any, Any]:
    """The posterior to predict from (the average, if one was kept), and the hyperparameters."""
    fit = run.fit
    return fit.average if "averaged" in fit.state.beside else fit.posterior, fit.state.hyper


def score(run: FittedRun) -> RowScore:
    """Log predictive density of held-out targets; with two classes the errors too."""
    q, _ = posterior_and_hyper(run)
    x, y = pairs(run.data.test, run.settings)
    densities = np.asarray(run.model.predictive(q, x, y), np.float64)
    logs = np.log(np.maximum(densities, 1e-300))
    if run.data.train.classes is None:
        return RowScore.of(logs, "row")
    errors = int((densities < 0.5).sum())
    remark = (
        f"{errors} errors, {100 * errors / len(y):.1f} %; log loss {-logs.mean() / np.log(2):.4f} "
        "bits"
    )
    return RowScore.of(logs, "row", remark)


def transform(run: FittedRun, table: Any, tell: Tell) -> RowResults:
    """The prediction of each row, and an interval; see `predictions`."""
    q, _ = posterior_and_hyper(run)
    law = run.model.law(q)
    classes = run.data.train.classes

    def read(x: np.ndarray) -> RowResults:
        mean, variance = run.model.predict(q, x)
        return predictions(law, mean, variance, classes)

    results = read_in_blocks(read, design(table, run.settings), tell, BLOCK)
    if classes is not None:
        return results
    return offsets.add_offset(results, run.settings)


def predictions(
    law: Likelihood, mean: Any, variance: Any, classes: tuple[str, str] | None
) -> RowResults:
    """Predictions of the target: its expectation, and an interval that holds it with probability
    0.9. For two classes the more probable one, the probability of the second, and an interval for
    this probability."""
    middle, low, high = (np.asarray(part) for part in response(law, mean, variance, 0.9))
    if classes is not None:
        likelier = np.array(classes, object)[(middle > 0.5).astype(int)]
        return {
            "prediction": likelier,
            f"probability_{classes[1]}": middle,
            "low": low,
            "high": high,
        }
    if target_kind(law.name) == "count":
        low, high = np.round(low), np.round(high)
    return {"prediction": middle, "low": low, "high": high}


def hyper_table(run: FittedRun) -> Table:
    """The hyperparameters, and the noise if it was learnt."""
    q, hyper = posterior_and_hyper(run)
    rows = [[name, numbers(value)] for name, value in hyper.items()]
    if run.model.measure is None:
        return Table("Hyperparameters", ["", "value"], rows)
    name = "noise (scale)"
    if run.settings.likelihood.name == "gaussian":
        name = "noise (standard deviation)"
    rows.append([name, numbers(1.0 / np.sqrt(np.asarray(q[NOISE].mean(), float)))])
    target = run.data.train.target
    unit = run.model.measure.unit
    note = (
        f"The noise is in units of {target}; scales are in units of its standard deviation, "
        f"{unit:.4g}."
    )
    return Table("Hyperparameters", ["", "value"], rows, note)


def numbers(values: Any) -> str:
    """One or several numbers for reading."""
    return " ".join(f"{v:.4g}" for v in np.ravel(np.asarray(values)))


def confusion(run: FittedRun) -> list[Block]:
    """Tables of errors for training and held-out rows; none unless the target has two classes."""
    classes = run.data.train.classes
    if classes is None:
        return []
    q, _ = posterior_and_hyper(run)
    blocks: list[Block] = []
    for part, name in zip(run.data.parts, ("training", "held-out"), strict=False):
        said_second = (
            np.asarray(run.model.predictive(q, design(part, run.settings), jnp.ones(()))) > 0.5
        )
        is_second = target(part) > 0
        rows = []
        for c in (0, 1):
            counts = [int(np.sum((is_second == c) & (said_second == p))) for p in (0, 1)]
            rows.append([f"is {classes[c]}", *counts])
        header = [f"{name} rows", f"said {classes[0]}", f"said {classes[1]}"]
        blocks.append(Table(f"Classes of {name} rows", header, rows))
    return blocks


# --- Gaussian processes ---------------------------------------------------------------------------
GpSettings = model_section(
    models.gp,
    "Gaussian process observed through a likelihood",
    learn=("scale", "length"),
    kernel="rbf",
    jitter=1e-4,
    scale=setting(1.0, "standard deviation of the process", POSITIVE),
    length=setting(1.0, "length scale, in units of the columns", POSITIVE),
    ard=setting(False, "whether every column has a length of its own"),
    likelihood=section(LikelihoodConfig),
    offset=offsets.SETTING,
)


def build_gp(settings: Any, data: Data) -> Any:
    """The model, made of the training rows."""
    length: Any = jnp.full(len(data.names), settings.length) if settings.ard else settings.length
    x, y = pairs(data.train, settings)
    law = make_option(settings.likelihood)
    hyper = {"scale": jnp.asarray(settings.scale), "length": jnp.asarray(length)}
    return build_from_section(settings, data, x=x, y=y, likelihood=law, hyper=hyper)


def describe_gp(run: FittedRun) -> list[Block]:
    """Hyperparameters; errors of classes; the process along a single column, or the border of
    classes in the plane."""
    blocks = [_hyper_table(run), *confusion(run)]
    dim = len(run.data.names)
    if dim == 1:
        blocks.append(_curve(run))
    elif run.data.train.classes is not None:
        blocks.append(_plane(run))
    return blocks


def _hyper_table(run: FittedRun) -> Table:
    """Hyperparameters; lengths in the units of the columns if each has its own, or there is one."""
    units = table_units(run.data.train)
    table = hyper_table(run)
    if run.settings.ard or len(run.data.names) == 1:
        _, hyper = posterior_and_hyper(run)
        lengths = units.spread(np.asarray(hyper["length"], float))
        rows = [
            [name, numbers(lengths) if name == "length" else value] for name, value in table.rows
        ]
        return table._replace(rows=rows)
    return table._replace(note=" ".join(filter(None, [table.note, units.note()])))


def _curve(run: FittedRun) -> Lines:
    """The law of the mean response along the column: exp z (counts), a probability, or z."""
    q, _ = posterior_and_hyper(run)
    x, y = pairs(run.data.train, run.settings)
    x = x[:, 0]
    grid = np.linspace(x.min(), x.max(), 200, dtype=x.dtype)
    mean, variance = (np.asarray(part, float) for part in run.model.predict(q, grid[:, None]))
    deviation = np.sqrt(variance)
    name = run.data.train.target
    kind = target_kind(run.settings.likelihood.name)
    responses: dict[str, Any] = {
        "count": np.exp,
        "binary": lambda z: 1 / (1 + np.exp(-z)),
        "real": lambda z: z,
    }
    offset = offsets.get_offset(run.settings)
    reach = NINETY * deviation
    curve, low, high = (responses[kind](z) + offset for z in (mean, mean - reach, mean + reach))
    rows = views.spread_rows(len(x))
    label = {
        "count": f"rate of {name}",
        "binary": f"probability of {(run.data.train.classes or ('', ''))[1]}",
    }
    observed = y[rows] + offset
    if kind == "binary":
        observed = (y[rows] > 0).astype(float)
    note = views.spread_rows_note(
        "Median and central 90 % of the mean response, and the training rows.", len(rows), len(x)
    )
    units = table_units(run.data.train)
    grid, points = (units.points(part[:, None])[:, 0] for part in (grid, x[rows]))
    return Lines(
        "Response",
        run.data.names[0],
        label.get(kind, str(name)),
        grid,
        curve,
        low,
        high,
        points,
        observed,
        note,
    )


def _plane(run: FittedRun) -> Scatter:
    """Training rows by class; for two columns also the border between classes."""
    x = design(run.data.train, run.settings)
    labels = (target(run.data.train) > 0).astype(int)
    units = table_units(run.data.train)
    note = "Training rows by class."
    names = (*(run.data.train.classes or ("0", "1")), "both as likely")
    picture = views.scatter(
        "Classes", units.points(x), run.data.names, labels, note=note, names=names
    )
    if x.shape[1] != 2:
        return picture
    q, _ = posterior_and_hyper(run)
    ends = zip(x.min(axis=0), x.max(axis=0), strict=True)
    sides = [np.linspace(low, high, 60) for low, high in ends]
    grid = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2).astype(x.dtype)
    mean = np.asarray(run.model.predict(q, grid)[0]).reshape(60, 60)
    border = require_extra("contourpy").contour_generator(*sides, mean).lines(0.0)
    outlines = [(2, *units.points(line).T) for line in border]
    return picture._replace(
        outlines=outlines, note=f"{picture.note} The line is where both are as likely."
    )


# --- linear models --------------------------------------------------------------------------------
GlmSettings = model_section(
    models.glm,
    "generalised linear model",
    learn=("prior_scale",),
    intercept=setting(True, "whether a column of ones is added"),
    likelihood=section(LikelihoodConfig),
    offset=offsets.SETTING,
)


LogisticSettings = model_section(
    models.logistic_regression,
    "Bayesian logistic regression",
    learn=("prior_scale",),
    intercept=setting(True, "whether a column of ones is added"),
)


def build_linear(settings: Any, data: Data) -> Any:
    """The model, made of the training rows."""
    x, y = pairs(data.train, settings)
    law = {}
    if hasattr(settings, "likelihood"):
        law["likelihood"] = make_option(settings.likelihood)
    return build_from_section(settings, data, x=x, y=y, **law)


def describe_linear(run: FittedRun) -> list[Block]:
    """Weights with their deviations, errors of classes, hyperparameters."""
    q, _ = posterior_and_hyper(run)
    names = list(run.data.names) + ["intercept"] * run.settings.intercept
    rows = table_units(run.data.train).coefficients(run.settings.intercept)
    mean, variance = run.model.predict(q, jnp.asarray(rows, jnp.result_type(float)))
    law = run.model.law(q).name
    train = run.data.train
    name = (train.classes or ("", train.target))[1]
    scales = table_units(train).spread(np.std(train.x, axis=0))
    predictor = views.predictor_name(law, train.target, train.classes)
    mean = np.array(mean, float)
    mean[len(run.data.names) :] += offsets.get_offset(run.settings)
    weights = views.coefficients(
        "Weights", names, mean, np.sqrt(np.asarray(variance)), scales, law, name, predictor
    )
    return [*weights, *confusion(run), hyper_table(run)]


# --- the listings ---------------------------------------------------------------------------------
def _listing(settings: Any, describe: Any, build: Any, target: Any, manner: Any) -> Listing:
    return Listing(
        settings,
        TABLES,
        ProximalAlgorithm,
        describe,
        sites,
        score,
        build,
        target=target,
        transform=transform,
        predicts="prediction",
        drawing=TARGETS,
        needs_rows=True,
        manner=manner,
    )


_likelihood_kind = lambda settings: target_kind(settings.likelihood.name)
_standardise_for_lengths = lambda settings: "each" if settings.length == 1 else None
_standardise_for_intercept = lambda settings: "each" if settings.intercept else None
GP = _listing(GpSettings, describe_gp, build_gp, _likelihood_kind, _standardise_for_lengths)
GLM = _listing(
    GlmSettings, describe_linear, build_linear, _likelihood_kind, _standardise_for_intercept
)
LOGISTIC = _listing(
    LogisticSettings,
    describe_linear,
    build_linear,
    lambda settings: "binary",
    _standardise_for_intercept,
)

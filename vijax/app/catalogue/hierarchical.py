"""Hierarchical regressions, linear, probit and logistic, on the command line."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax import models
from vijax.app.catalogue.predictors import BLOCK, predictions
from vijax.app.drawing import views
from vijax.app.drawing.blocks import BARS, Block, Intervals, Table
from vijax.app.rows.by_row import RowScore, bounds, read_in_blocks
from vijax.app.settings.options import chooser, make_option, model_section, section_arguments
from vijax.app.settings.sections import EnergyAlgorithm
from vijax.app.settings.typed_toml import section, setting
from vijax.app.settings.units import table_units, to_covariance
from vijax.app.sources import offsets
from vijax.app.sources.listing import Drawing, FittedRun, Listing, RowResults, Tell
from vijax.app.sources.tables import TABLES, design, group_data
from vijax.inference import likelihood
from vijax.models.emission.gaussian import normal_draw

MOST_TOLD = 8
"""Number of groups whose coefficients are on the screen."""
LAWS = {"probit": likelihood.bernoulli_probit, "logistic": likelihood.bernoulli_logit}
"""The likelihoods of two classes given the predictor, by the name of the response."""


ResponseConfig = chooser(
    "[model.response]: the law of the target given its predictor.",
    "linear",
    "the law; the last two of two classes",
    without=("dim", "covariance"),
    linear=models.hierarchical_linear_regression,
    probit=models.hierarchical_probit_regression,
    logistic=models.multilevel_logistic_regression,
)
Settings = model_section(
    models.population,
    "regressions of many groups, their coefficients from one population",
    name="hierarchical_regression",
    without=("dim", "location", "degrees"),
    covariance="full",
    intercept=setting(True, "whether a column of ones is added: intercepts that vary"),
    response=section(ResponseConfig),
    offset=offsets.SETTING,
)


def score(run: FittedRun) -> RowScore:
    """Bound on the log density of held-out groups, per row."""
    data = group_data(run.data.test, run.settings)
    sizes = data[2].sum(axis=1)
    return RowScore.of(
        bounds(run.fit, data, run.key), "row", f"a bound; {len(sizes)} groups", sizes
    )


def describe(run: FittedRun) -> list[Block]:
    """The population of coefficients, and the coefficients of each group with their deviations."""
    train = run.data.train
    columns = list(run.data.names) + ["intercept"] * run.settings.intercept
    turn = table_units(train).coefficients(run.settings.intercept)
    centre, cov = _law_of_groups(run)
    mean, deviation = turn @ centre, _deviations(turn, cov)
    mean[len(run.data.names) :] += offsets.get_offset(run.settings)
    q = run.fit.locals(group_data(train, run.settings), key=run.key)["coefficients"]
    value = np.asarray(q.mean(), float) @ turn.T
    spread = _deviations(turn, np.asarray(q.cov, float))
    value[:, len(run.data.names) :] += offsets.get_offset(run.settings)
    names = list(train.group_names or ("all",))
    law = {"logistic": "bernoulli_logit", "probit": "bernoulli_probit"}.get(
        run.settings.response.name, ""
    )
    predictor = views.predictor_name(law, train.target, train.classes)
    rows = list(zip(columns, mean, deviation, strict=True))
    blocks: list[Block] = [
        Table(
            "Population", [predictor, "mean", "deviation of groups"], rows, f"On the {predictor}."
        )
    ]
    for d, column in enumerate(columns):
        title = f"{column}, by {train.group or 'group'}"
        blocks.append(
            Intervals(
                title, names, value[:, d], spread[:, d], f"On the {predictor}. {BARS}", MOST_TOLD
            )
        )
    return blocks


def _deviations(turn: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """Standard deviations of the coefficients `turn @ b`, where b has covariance `cov`."""
    return np.sqrt(np.maximum(np.einsum("pd,...de,pe->...p", turn, cov, turn), 0.0))


def _law_of_groups(run: FittedRun) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the coefficients of an unknown group."""
    point = run.point("population")
    precision = np.asarray(point.precision, float)
    mean = np.asarray(point.mean, float)
    if precision.ndim == 2:
        return mean, to_covariance(precision)
    return mean, np.diag(1 / np.maximum(precision, 1e-30))


def transform(run: FittedRun, table: Any, tell: Tell) -> RowResults:
    """Predictions of rows by the coefficients of their group (for a group without training rows, of
    the population), with intervals; see `vijax.app.catalogue.predictors.predictions`."""
    train = run.data.train
    q = run.fit.locals(group_data(train, run.settings), key=run.key)["coefficients"]
    mean, cov = _law_of_groups(run)
    means = np.concatenate([np.asarray(q.mean(), float), mean[None]])
    covs = np.concatenate([np.asarray(q.cov, float), cov[None]])
    classes = train.classes
    if run.settings.response.name == "linear":
        law = likelihood.gaussian(1 / float(run.point("noise")))
    else:
        law = LAWS[run.settings.response.name]()

    def read(data: Any) -> RowResults:
        x, group = data
        mean = np.einsum("nd,nd->n", x, means[group])
        variance = np.einsum("nd,nde,ne->n", x, covs[group], x, optimize=True)
        return predictions(law, mean, variance, classes)

    groups = np.minimum(group_numbers(train, table), len(means) - 1)
    results = read_in_blocks(read, (design(table, run.settings), groups), tell, BLOCK)
    if classes is not None:
        return results
    return offsets.add_offset(results, run.settings)


# --- draws ----------------------------------------------------------------------------------------
def group_numbers(train: Any, table: Any) -> Int[np.ndarray, " N"]:
    """The place of each row's group among the training groups; new groups come after these."""
    if train.groups is None:
        return np.zeros(table.num_rows, int)
    places_by_name = {name: place for place, name in enumerate(train.group_names)}
    places = np.array(
        [places_by_name.setdefault(name, len(places_by_name)) for name in table.group_names]
    )
    return places[table.groups]


def draw(run: FittedRun, table: Any, key: PRNGKeyArray, num_draws: int, groups: Any) -> np.ndarray:
    """Targets: rows of training groups by the coefficients of their group, others by coefficients
    of the population."""
    del groups  # each row has its group
    keys = jax.random.split(key, 4)
    group = group_numbers(run.data.train, table)
    train = run.data.train
    sampled = run.fit.sample(keys[0], num_draws)
    q = run.fit.locals(group_data(train, run.settings), key=run.key)["coefficients"]
    group_coefficients = q.sample(keys[1], (num_draws,))
    number = max(int(group.max()) + 1 - group_coefficients.shape[1], 0)
    new_coefficients = _population_coefficients(sampled["population"], num_draws, number, keys[2])
    coefficients = jnp.concatenate([group_coefficients, new_coefficients], axis=1)[:, group]
    mean = jnp.einsum(
        "nd,snd->sn", jnp.asarray(design(table, run.settings)), coefficients, precision="highest"
    )
    if run.settings.response.name == "linear":
        noise = jax.random.normal(keys[3], mean.shape, mean.dtype)
        targets = mean + noise / jnp.sqrt(sampled["noise"])[:, None]
    else:
        law: Any = LAWS[run.settings.response.name]()
        targets = law.sample(keys[3], mean)
    return np.asarray(targets)[..., None]


def _precision_roots(precision: Array) -> Float[Array, "draws D D"]:
    """Roots of precisions, which are matrices, or diagonals alone."""
    if precision.ndim == 3:
        return jnp.linalg.cholesky(precision)
    return jax.vmap(jnp.diag)(jnp.sqrt(precision))


def _population_coefficients(
    people: Any, num_draws: int, number: int, key: PRNGKeyArray
) -> Float[Array, "draws J D"]:
    """Coefficients of `number` unknown groups."""
    factor = _precision_roots(people.precision)
    keys = jax.random.split(key, (num_draws, number))
    draw_groups = lambda mean, factor, keys: jax.vmap(lambda key: normal_draw(key, mean, factor))(
        keys
    )
    return jax.vmap(draw_groups)(people.mean, factor, keys)


LISTING = Listing(
    Settings,
    TABLES,
    EnergyAlgorithm,
    describe,
    group_data,
    score,
    unit="group",
    per="group",
    target=lambda settings: "real" if settings.response.name == "linear" else "binary",
    wants_group=True,
    manner=lambda settings: "each" if settings.intercept else None,
    transform=transform,
    predicts="prediction",
    drawing=Drawing(draw, of_target=True),
    needs_rows=True,
    build=lambda settings, data: make_option(
        settings.response, len(data.names) + settings.intercept, **section_arguments(settings)
    ),
)

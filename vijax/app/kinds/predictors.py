"""Models of Gaussian predictors on the command line: likelihoods, held-out scores and what both GP and GLM show."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from vijax.app.kinds.listing import Found, Listing, Seen, Tell
from vijax.app.kinds.tables import TABLES, design, sites, target
from vijax.app.page.blocks import Block, Table
from vijax.app.rows.by_row import in_blocks
from vijax.app.rows.drawing import TARGETS
from vijax.app.rows.scores import RowScore
from vijax.app.settings.options import chooser
from vijax.app.settings.sections import ProximalAlgorithm
from vijax.data.tables.table import TargetKind
from vijax.inference import likelihood
from vijax.inference.likelihood import Likelihood
from vijax.models.regressions.predictor_draws import response
from vijax.models.regressions.predictors import stats_of

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


def predictor_model(settings: Any, describe: Any, build: Any, target: Any = None) -> Listing:
    """The listing of a model of Gaussian predictors; arguments as of `Listing`. The target is of the kind that the
    likelihood wants where nothing else is said."""
    return Listing(
        settings,
        TABLES,
        ProximalAlgorithm,
        describe,
        sites,
        score,
        build,
        target=target or (lambda settings: kind_of(settings.likelihood.name)),
        transform=transform,
        predicts="prediction",
        drawing=TARGETS,
        needs_rows=True,
    )


def kind_of(name: str) -> TargetKind:
    """What a likelihood's observations are."""
    if name.startswith("bernoulli"):
        return "binary"
    return "count" if name in ("poisson_log", "negative_binomial") else "real"


def settled(seen: Seen) -> tuple[Any, Any]:
    """The posterior to predict from (the average, where one was kept), and the hyperparameters as they stand."""
    fit = seen.fit
    return fit.average if "averaged" in fit.state.beside else fit.posterior, fit.state.hyper


def score(seen: Seen) -> RowScore:
    """Log predictive density of held-out targets; with two classes the errors too."""
    model: Any = seen.fit.alg.spec.model
    found, _ = settled(seen)
    x, y = design(seen.data.test, seen.settings), target(seen.data.test)
    densities = np.asarray(model.predictive(found, x, y), np.float64)
    logs = np.log(np.maximum(densities, 1e-300))
    if seen.data.train.classes is None:
        return RowScore.of(logs, "row")
    errors = int((densities < 0.5).sum())
    remark = f"{errors} errors, {100 * errors / len(y):.1f} %; log loss {-logs.mean() / np.log(2):.4f} bits"
    return RowScore.of(logs, "row", remark)


PREDICTED = 4096
"""Rows that are predicted at a time: an interval averages over many values of each predictor."""


def transform(seen: Seen, table: Any, tell: Tell) -> Found:
    """The prediction of each row, and an interval; see `predictions`."""
    model: Any = seen.fit.alg.spec.model
    found, hyper = settled(seen)
    law, classes = model.likelihood(hyper, stats_of({})), seen.data.train.classes

    def read(x: np.ndarray) -> Found:
        mean, variance = model.predict(found, x)
        return predictions(law, mean, variance, classes)

    return in_blocks(read, design(table, seen.settings), tell, PREDICTED)


def predictions(law: Likelihood, mean: Any, variance: Any, classes: tuple[str, str] | None) -> Found:
    """What Gaussian predictors say of the target: its expectation and an interval that holds it with probability 0.95.
    Of two classes: the likelier one, the probability of the second, and an interval of what is believed of that."""
    middle, low, high = (np.asarray(part) for part in response(law, mean, variance))
    if classes is not None:
        likelier = np.array(classes, object)[(middle > 0.5).astype(int)]
        return {"prediction": likelier, f"probability_{classes[1]}": middle, "low": low, "high": high}
    if kind_of(law.name) == "count":
        low, high = np.round(low), np.round(high)
    return {"prediction": middle, "low": low, "high": high}


def hyper_table(seen: Seen) -> Table:
    """Hyperparameters as they stand."""
    _, hyper = settled(seen)
    return Table("Hyperparameters", ["", "value"], [[name, numbers(value)] for name, value in hyper.items()])


def numbers(values: Any) -> str:
    """A number, or several, for reading."""
    return " ".join(f"{v:.4g}" for v in np.ravel(np.asarray(values)))


def confusion(seen: Seen) -> list[Block]:
    """Of two classes: how training and held-out rows are told apart."""
    classes = seen.data.train.classes
    if classes is None:
        return []
    model: Any = seen.fit.alg.spec.model
    found, _ = settled(seen)
    blocks: list[Block] = []
    for part, name in ((seen.data.train, "training"), (seen.data.test, "held-out")):
        if part is None:
            continue
        up = np.asarray(model.predictive(found, design(part, seen.settings), jnp.ones(()))) > 0.5
        true = target(part) > 0
        rows = [[f"is {classes[c]}", *(int(np.sum((true == c) & (up == p))) for p in (0, 1))] for c in (0, 1)]
        header = [f"{name} rows", f"said {classes[0]}", f"said {classes[1]}"]
        blocks.append(Table(f"Classes of {name} rows", header, rows))
    return blocks

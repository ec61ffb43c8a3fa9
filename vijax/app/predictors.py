"""Models of Gaussian predictors on the command line: likelihoods, held-out scores and what both GP and GLM show."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np

from vijax import likelihood
from vijax.app.blocks import Block, Table
from vijax.app.by_row import in_blocks
from vijax.app.listing import Found, Seen, Tell
from vijax.app.options import Chooser, Option
from vijax.app.scores import RowScore
from vijax.app.tables import design, target
from vijax.app.typed_toml import POSITIVE, setting
from vijax.data.table import TargetKind
from vijax.likelihood import Likelihood
from vijax.models.predictors import stats_of
from vijax.models.response import response


@dataclasses.dataclass(frozen=True)
class LikelihoodConfig(Chooser):
    """[model.likelihood]: the law of the target given its predictor z."""

    name: Literal[
        "bernoulli_logit", "bernoulli_probit", "poisson_log", "negative_binomial", "gaussian", "gamma_log", "student_t"
    ] = setting("bernoulli_logit", "the law; the first two of two classes, the next two of counts")
    dispersion: float | None = setting(None, "negative_binomial: r; large is near Poisson; unset: 1", POSITIVE)
    variance: float | None = setting(None, "gaussian: of the noise; unset: 1", POSITIVE)
    shape: float | None = setting(None, "gamma_log: its shape, 1 for exponential times; unset: 1", POSITIVE)
    degrees: float | None = setting(None, "student_t: degrees of freedom; unset: 4", POSITIVE)
    scale: float | None = setting(None, "student_t: its scale; unset: 1", POSITIVE)
    OPTIONS: ClassVar[Mapping[str, Option]] = {
        "bernoulli_logit": Option(likelihood.bernoulli_logit),
        "bernoulli_probit": Option(likelihood.bernoulli_probit),
        "poisson_log": Option(likelihood.poisson_log),
        "negative_binomial": Option(lambda dispersion=1.0: likelihood.negative_binomial(dispersion), ("dispersion",)),
        "gaussian": Option(lambda variance=1.0: likelihood.gaussian(variance), ("variance",)),
        "gamma_log": Option(lambda shape=1.0: likelihood.gamma_log(shape), ("shape",)),
        "student_t": Option(lambda degrees=4.0, scale=1.0: likelihood.student_t(degrees, scale), ("degrees", "scale")),
    }


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

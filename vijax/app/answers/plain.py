"""Plain alternatives to models: the law of a model itself without its columns, components or
order, which is what the model must be better than."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.app.catalogue.glmm import Frame, make_model, weighted_score
from vijax.app.rows.by_row import RowScore
from vijax.app.settings.units import table_units
from vijax.app.sources.listing import FittedRun
from vijax.app.sources.tables import sequence_sums
from vijax.data.corpora.corpus import Corpus
from vijax.data.tables.graph import Graph
from vijax.evaluate import Score, unigram_score
from vijax.evaluate.units import is_ranking, read_unit
from vijax.models.formulas.glmm_model import (
    Glmm,
    KnownRows,
    WithoutColumns,
    fit_without_columns,
)
from vijax.models.formulas.laws import LAWS

LAWS_OF_LIKELIHOODS = {
    "bernoulli_logit": "bernoulli",
    "bernoulli_probit": "bernoulli",
    "probit": "bernoulli",
    "logistic": "bernoulli",
    "poisson_log": "poisson",
    "negative_binomial": "negativebinomial",
    "gamma_log": "gamma",
    "student_t": "t",
    "gaussian": "gaussian",
    "linear": "gaussian",
}
"""Laws of targets by the names of likelihoods, and of responses, in [model]."""
OTHER_UNITS = "the held-out score is of other parts of the data than rows"


class Plain(NamedTuple):
    """A plain alternative to a model: its name, and its score on the same held-out data."""

    name: str
    score: Any


class NoPlain(NamedTuple):
    """There is no plain alternative, for a reason that the page tells."""

    reason: str


def plain_alternative(run: FittedRun, score: Any) -> Plain | NoPlain | None:
    """The plain alternative to the model of a fit; None where the page compares otherwise."""
    train, test = run.data.train, run.data.test
    if is_ranking(read_unit(str(score))):
        return None  # its own table compares it with popularity
    if isinstance(train, Corpus):
        return _unigram(train, test, score)
    if not isinstance(score, RowScore):
        return NoPlain("the density is your own")
    if isinstance(train, Graph):
        return _edge_alternative(run, score)
    if isinstance(train, Frame):
        return _formula_alternative(run)
    if has_target(run):
        return _target_alternative(run, score)
    return _column_alternative(run, score)


def has_target(run: FittedRun) -> bool:
    """True for a model that predicts a column; with a law of whole rows, as autoencoders have, the
    target only colours pictures."""
    return run.data.train.y is not None and not hasattr(run.settings, "observed")


# --- regressions ----------------------------------------------------------------------------------
def _formula_alternative(run: FittedRun) -> Plain | NoPlain:
    """For regressions by a formula: its law without columns and groups."""
    train, test = run.data.train, run.data.test
    model = make_model(run.settings, train)
    if not _has_terms(model):
        return NoPlain("the formula has no columns and no groups that one could leave out")
    law, held_out = formula_law(model), known_rows(model, test)
    return Plain(_formula_name(model), weighted_score(law.log_lik(held_out), test))


def _has_terms(model: Glmm) -> bool:
    """True for a formula with more than intercepts and offsets."""
    design = model.design
    has_columns = any(not label.endswith("Intercept") for label in design.labels)
    return has_columns or bool(design.factors or design.smooths or design.steps)


def _formula_name(model: Glmm) -> str:
    """The name of the law without columns, with what of each row it keeps."""
    design = model.design
    words = {
        "trials": model.law.takes_trials,
        "offset": np.any(design.rows.offset),
        "standard errors": "se" in design.facts,
        "precisions": "precision" in design.facts,
        "censoring": "status" in design.facts,
        "bounds": bool({"lowest", "highest"} & set(design.facts)),
        "weights": np.any(model.weights != 1),
    }
    listed = ", ".join(word for word, is_present in words.items() if is_present)
    law = f"{model.law.name} with its {listed}".removesuffix(" with its ")
    without = ["columns", *["groups"] * bool(design.factors)]
    return f"the same law without {' and '.join(without)} ({law})"


def known_rows(model: Glmm, frame: Frame) -> KnownRows:
    """Facts on the rows of a frame beside their columns."""
    return KnownRows.from_design(model.design, frame.weights, frame.table)


def formula_law(model: Glmm) -> WithoutColumns:
    """The law of a regression by a formula without columns; found once for a model."""
    if model not in _laws:
        rows = KnownRows.from_design(model.design, model.weights)
        names = model.design.own_parameters(model.law)
        names += tuple(terms.name for terms in model.design.further if terms.step is None)
        _laws[model] = fit_without_columns(model.law, rows, names, len(model.design.levels))
    return _laws[model]


_laws: weakref.WeakKeyDictionary[Glmm, WithoutColumns] = weakref.WeakKeyDictionary()


def target_law(settings: Any, train: Any) -> WithoutColumns:
    """The law of the target of a table without columns; classes count as 0 and 1."""
    section = getattr(settings, "likelihood", None) or getattr(settings, "response", None)
    name = "gaussian"
    if section is not None:
        name = LAWS_OF_LIKELIHOODS[section.name]
    if train.classes:
        name = "bernoulli"
    return fit_without_columns(LAWS[name], target_rows(train))


def target_rows(table: Any) -> KnownRows:
    """The targets of a table; 0 and 1 for classes."""
    if table.classes:
        return KnownRows.from_numbers(table.y > 0)
    return KnownRows.from_numbers(table.y)


def _target_alternative(run: FittedRun, score: RowScore) -> Plain | NoPlain:
    """For regressions of a table: the law of the target without columns."""
    train, test = run.data.train, run.data.test
    law = target_law(run.settings, train)
    name = f"the same law without columns ({law.law.name})"
    if train.classes:
        name = "the share of each class"
    logs = law.log_lik(target_rows(test))
    return _from_rows(name, test, logs, np.ones(len(logs)), score)


# --- tables without a target, and graphs ----------------------------------------------------------
def _column_alternative(run: FittedRun, score: RowScore) -> Plain | NoPlain:
    """For tables without a target: what one component emits, without the order of steps."""
    train, test, settings = run.data.train, run.data.test, run.settings
    emitted, threshold = _emission(settings)
    number = len(train.columns) - getattr(settings, "num_inputs", 0)
    x, held_out = (_data_columns(table, threshold)[:, :number] for table in (train, test))
    if score.per == "entry":
        return _entry_alternative(x, held_out, test, score)
    name, logs = COLUMNS[emitted](x, held_out)
    if score.per == "step":
        name += " without the order of steps"
    return _from_rows(name, test, logs, np.ones(len(logs)), score)


def _emission(settings: Any) -> tuple[str, float | None]:
    """The emission of a component, and the number above which entries count as 1."""
    observed = getattr(settings, "observed", None)
    if observed is not None:
        return observed.name, getattr(observed, "threshold", None)
    if getattr(settings, "name", "") == "gap_nmf":
        return "poisson", None
    emission = getattr(settings, "emission", None)
    return getattr(emission, "name", "gaussian"), None


def _data_columns(table: Any, threshold: float | None) -> np.ndarray:
    """The columns in the units of the data; 0 and 1 where the model cuts them."""
    if threshold is not None:
        return np.where(np.isnan(table.x), np.nan, table.x > threshold)
    return np.asarray(table_units(table).points(table.x), float)


def _entry_alternative(
    x: np.ndarray, held_out: np.ndarray, test: Any, score: RowScore
) -> Plain | NoPlain:
    """For held-out entries: a normal law of each column."""
    name = "independent normal columns"
    logs, is_known = _normal_logs(x, held_out), np.isfinite(held_out)
    if len(score.parts[0]) == score.number:
        return Plain(name, RowScore.of(logs[is_known], "entry"))
    return _from_rows(name, test, np.where(is_known, logs, 0.0).sum(1), is_known.sum(1), score)


def _normal_logs(x: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Log densities of entries, a normal law for each column; NaN where an entry is missing."""
    from scipy import stats  # slow to import

    deviation = np.maximum(np.nanstd(x, axis=0), 1e-12)
    return stats.norm.logpdf(held_out, np.nanmean(x, axis=0), deviation)


def _normal_columns(x: np.ndarray, held_out: np.ndarray) -> tuple[str, np.ndarray]:
    return "independent normal columns", np.nansum(_normal_logs(x, held_out), axis=1)


def _one_normal(x: np.ndarray, held_out: np.ndarray) -> tuple[str, np.ndarray]:
    """One normal law of all columns: its covariance is that of the rows and of one more row a
    column, whose columns are independent, as the priors of such components have them."""
    from scipy import stats  # slow to import

    number, size = x.shape
    is_whole = np.isfinite(x).all() and np.isfinite(held_out).all()
    if size < 2 or not is_whole or not np.all(np.ptp(x, axis=0)):
        return _normal_columns(x, held_out)
    cov = np.cov(x.T, bias=True)
    cov = (number * cov + size * np.diag(np.diagonal(cov))) / (number + size)
    law = stats.multivariate_normal(x.mean(axis=0), cov, allow_singular=True)
    return "one normal law of all columns", np.atleast_1d(law.logpdf(held_out))


def _poisson_columns(x: np.ndarray, held_out: np.ndarray) -> tuple[str, np.ndarray]:
    return "independent Poisson columns", np.nansum(_poisson_logs(x, held_out), axis=1)


def _poisson_logs(x: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Log probabilities of counts under their training means, of half a count at least."""
    from scipy import stats  # slow to import

    number = np.maximum(np.isfinite(x).sum(axis=0), 1)
    return stats.poisson.logpmf(held_out, np.maximum(np.nansum(x, axis=0), 0.5) / number)


def _binary_columns(x: np.ndarray, held_out: np.ndarray) -> tuple[str, np.ndarray]:
    name = "the share of ones in each column"
    return name, np.nansum(_binary_logs(x, held_out), axis=1)


def _binary_logs(x: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Log probabilities of zeros and ones, with half a case of each beside those of training."""
    share = (np.nansum(x, axis=0) + 0.5) / (np.isfinite(x).sum(axis=0) + 1)
    logs = np.where(held_out > 0, np.log(share), np.log1p(-share))
    return np.where(np.isnan(held_out), np.nan, logs)


def _column_frequencies(x: np.ndarray, held_out: np.ndarray) -> tuple[str, np.ndarray]:
    """The law of words in order, as the emission has it: without the number of their orders."""
    share = np.nansum(x, axis=0) + 0.5
    return "the frequencies of columns alone", held_out @ np.log(share / share.sum())


COLUMNS: dict[str, Callable[[np.ndarray, np.ndarray], tuple[str, np.ndarray]]] = {
    "gaussian": _normal_columns,
    "full_gaussian": _one_normal,
    "tied_gaussian": _one_normal,
    "diagonal_gaussian": _normal_columns,
    "spherical_gaussian": _normal_columns,
    "unit_gaussian": _normal_columns,
    "poisson": _poisson_columns,
    "bernoulli": _binary_columns,
    "categorical": _column_frequencies,
}
"""(training rows, held-out rows) -> the name and the log densities of rows, by what a component
emits."""


def _edge_alternative(run: FittedRun, score: RowScore) -> Plain | NoPlain:
    """For graphs: one rate, or one share, for all pairs."""
    train, test = run.data.train, run.data.test
    training, held_out = train.x[train.pairs][:, None], test.x[test.pairs][:, None]
    name, logs = "the mean count of all pairs", _poisson_logs
    if getattr(run.settings, "edges", "bernoulli") == "bernoulli":
        name, logs = "the share of linked pairs", _binary_logs
    return _from_rows(name, test, logs(training, held_out)[:, 0], np.ones(len(held_out)), score)


# --- parts ----------------------------------------------------------------------------------------
def _from_rows(
    name: str, table: Any, logs: Float[np.ndarray, " N"], sizes: np.ndarray, score: RowScore
) -> Plain | NoPlain:
    """An alternative from the log density of each row, added up within groups if the score is of
    whole groups; none if the score has other units."""
    if len(score.parts[0]) != len(logs):
        logs, sizes = sequence_sums(table, logs), sequence_sums(table, sizes)
    has_same_units = np.array_equal(sizes, score.parts[1])
    if not has_same_units:
        return NoPlain(OTHER_UNITS)
    return Plain(name, RowScore.of(logs, score.per, sizes=sizes))


def _unigram(train: Corpus, test: Corpus, score: Any) -> Plain | NoPlain:
    """For documents: the frequencies of words."""
    name = "the frequencies of words alone (unigram)"
    unigram = unigram_score(train, test)
    if isinstance(score, Score):
        # A random half of a document is expected to have the mean of the document.
        per_word = np.zeros(test.num_documents)
        per_word[unigram.rows] = unigram.log_probs / unigram.num_tokens
        return Plain(name, Score.of(per_word[score.rows] * score.num_tokens, score.num_tokens))
    if not np.array_equal(unigram.parts[1], score.parts[1]):
        return NoPlain(OTHER_UNITS)
    return Plain(name, unigram)

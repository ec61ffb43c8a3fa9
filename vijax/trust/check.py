"""All checks that can be made of one fit in about a minute, and one verdict."""

from __future__ import annotations

import dataclasses
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from scipy import special

from vijax.checks import require, require_integers
from vijax.contract.model import Model
from vijax.data.schema.named_columns import order_by_names
from vijax.evaluate.predictive_check import predictive_check
from vijax.fitting import fit as fitting
from vijax.fitting.restarts import EqualStartsWarning
from vijax.fitting.result import Fit
from vijax.fitting.status import FAILED, Status
from vijax.inference.guides import Z
from vijax.predict.predictive import observed_data
from vijax.reference.log_joint import log_joint
from vijax.reference.short_chains import short_chains
from vijax.reference.walk import free_walk, read_groups
from vijax.response.linear_response import linear_response
from vijax.verdict import limits
from vijax.verdict.psis import in_words, psis
from vijax.xla.compiler import cached_program, step_jit

DRAWS = 2000  # draws with importance weights
FEWEST = 500  # draws, where the data are large
WORK = 1 << 27  # draws times rows, at most
CHAINS = 512  # short chains
FEWEST_CHAINS = 64  # short chains, where the data are large
WORK_OF_CHAINS = 1 << 23  # chains times rows, at most
REPLICATES = 1000  # replicated data sets
NUMBERS = 1 << 29  # numbers in all replicated data sets, at most
SECONDS = 20.0  # time for restarts
COLUMNS = 32  # columns of an array of data that have separate statistics, at most
MOST_NUMBERS = 20_000  # numbers of the globals that are checked one by one, at most


Errors = dict[str, tuple[float, float]]
"""Errors by name of the number, each with its standard error."""


@dataclasses.dataclass(frozen=True)
class Check:
    """One check of a fit.

    Attributes:
      said: its result in words, or why it could not be made.
      fault: a fault that this check found by itself; "" if there is none.
      means, log_sds: errors of means and of logarithms of standard deviations by name, each with
        its standard error, as in `Quantity`; empty where the check does not judge them.
      made: False where it could not be made.
    """

    said: str
    fault: str = ""
    means: Errors = dataclasses.field(default_factory=dict)
    log_sds: Errors = dataclasses.field(default_factory=dict)
    made: bool = True


class Quantity(NamedTuple):
    """One number of the posterior of the globals, and how far it may be off.

    Attributes:
      name: name and place, "w[0]".
      mean: its mean under q.
      sd: its standard deviation under q.
      mean_off: the mean of the posterior less the mean of q, in standard deviations of q; NaN where
          it is not known.
      mean_error: standard error of `mean_off`.
      mean_by: the check that found it.
      log_sd_off: logarithm of the posterior's standard deviation over q's: above zero where q is
          too narrow.
      log_sd_error: standard error of `log_sd_off`; zero by linear response.
      log_sd_by: the check that found it.
    """

    name: str
    mean: float
    sd: float
    mean_off: float
    mean_error: float
    mean_by: str
    log_sd_off: float
    log_sd_error: float
    log_sd_by: str

    @property
    def mean_within(self) -> float:
        """The largest possible error of the mean, in standard deviations of q: two standard errors
        are added."""
        return abs(self.mean_off) + limits.WITHIN * self.mean_error

    @property
    def log_sd_within(self) -> float:
        """The largest possible error of the logarithm of the standard deviation: two standard
        errors are added."""
        return abs(self.log_sd_off) + limits.WITHIN * self.log_sd_error


class Verdict(NamedTuple):
    """The result of `vijax.trust.check`; `print(verdict)` shows it in words.

    Attributes:
      usable: True where no check found a fault.
      faults: sentences on what is wrong.
      quantities: every number of the globals, and how far it may be off.
      checks: the checks by name.
    """

    usable: bool
    faults: list[str]
    quantities: list[Quantity]
    checks: dict[str, Check]

    def __str__(self) -> str:
        num_made = sum(check.made for check in self.checks.values())
        ending = f"{len(self.faults)} fault(s) were found." if self.faults else "found no fault."
        lines = [f"{num_made} of {len(self.checks)} checks could be made, and {ending}"]
        lines += [f"- {fault}" for fault in self.faults]
        accuracy = "(two standard errors included):" if self.quantities else "is not known."
        lines.append(f"How far means and standard deviations of q may be off {accuracy}")
        variables: dict[str, list[Quantity]] = {}
        for quantity in self.quantities:
            variables.setdefault(quantity.name.split("[")[0], []).append(quantity)
        lines += [f"- {name}: {_describe(rows)}" for name, rows in variables.items()]
        lines.append("The checks:")
        for name, check in self.checks.items():
            lines.append(f"- {name}: {'' if check.made else 'not made. '}{check.said}")
        return "\n".join(lines)


def _describe(rows: Sequence[Quantity]) -> str:
    """The largest possible errors of one variable in words: its worst mean and its worst standard
    deviation."""
    mean = max(rows, key=lambda row: np.nan_to_num(row.mean_within, nan=-1.0))
    sd = max(rows, key=lambda row: np.nan_to_num(row.log_sd_within, nan=-1.0))
    texts = []
    if mean.mean_by:
        texts.append(f"means by up to {mean.mean_within:.2f} sd ({mean.name}, {mean.mean_by})")
    if sd.log_sd_by:
        factor = np.exp(sd.log_sd_within)
        texts.append(f"sds by up to a factor of {factor:.2f} ({sd.name}, {sd.log_sd_by})")
    return "; ".join(texts) or "not known: no check could judge it"


def check(fit: Fit, data: Any = None, *, key: PRNGKeyArray, restarts: int = 4) -> Verdict:
    """Makes all checks of a fit that take about a minute, and returns one verdict.

    There are five checks. Where the model does not allow one, or the data are too large, its `said`
    gives the reason:

    - importance weights: draws of q, weighted by the posterior, with k-hat (log densities;
      energies);
    - short chains of Hamiltonian Monte Carlo that begin at q (the same models);
    - linear response: standard deviations without the assumption of independence (see
      `vijax.linear_response`);
    - predictive checks: mean, sd, smallest and largest value of each column of the data (see
      `Fit.predictive`);
    - restarts: whether another start ends at a higher objective.

    For each mean and standard deviation the verdict has the clearest error that a check found. The
    locals are not checked.

    Args:
      fit: the result of `vijax.fit`, `vijax.auto` or `vijax.dadvi`.
      data: the data that it was fitted to; None for a density without data.
      key: random key of all draws.
      restarts: number of other starts.

    Returns:
      A `Verdict`: `print(verdict)`, `verdict.usable`, `verdict.faults`, `verdict.quantities`,
      `verdict.checks`.

    Raises:
      ValueError: `fit` is no fit; fewer than one restart.

    >>> import vijax as vi
    >>> pair = vi.density({"x": vi.free(), "y": vi.free()}, lambda v: -(v["x"] ** 2) - 5 * (v["x"] - v["y"]) ** 2)
    >>> fit = vi.fit(vi.advi(pair), num_steps=500, key=jax.random.key(0))  # independent normals are too narrow
    >>> verdict = check(fit, key=jax.random.key(1))
    >>> verdict.usable, [(number.name, number.log_sd_off > 0.3) for number in verdict.quantities]
    (False, [('x', True), ('y', True)])
    """
    require(isinstance(fit, Fit), "fit", "what a fit returned", type(fit).__name__)
    require_integers(restarts=restarts)
    data = order_by_names(fit.columns, data)
    if fit.alg.spec.model.form.documents is not None:
        data = fit.in_words(data)
    draw = jax.eval_shape(lambda key: fit.sample(key, 1), key)
    num_numbers = sum(x.size for x in jax.tree.leaves(draw))
    is_small = num_numbers <= MOST_NUMBERS
    q = _numbers(fit.sample(key, DRAWS)) if is_small else {}
    makers: dict[str, Callable[[PRNGKeyArray], Check]] = {
        "importance weights": lambda key: _check_weights(fit, data, key),
        "short chains": lambda key: _check_chains(fit, data, key),
        "linear response": lambda key: _check_response(fit, data, q, key),
    }
    if not is_small:
        reason = (
            f"The globals are {num_numbers:,} numbers; up to {MOST_NUMBERS:,} are looked at one by "
            "one."
        )
        makers = dict.fromkeys(makers, lambda key: Check(reason, made=False))
    makers["predictive checks"] = lambda key: _check_predictions(fit, data, key)
    makers["restarts"] = lambda key: _check_restarts(fit, data, restarts, key)
    checks = {
        name: _try(make, jax.random.fold_in(key, i))
        for i, (name, make) in enumerate(makers.items())
    }
    quantities = [_quantity(name, draws, checks) for name, draws in q.items()]
    faults = []
    if fit.status in FAILED or not fit.usable:
        faults.append(f"The fit itself says: {fit.verdict}")
    faults += _find_faults(quantities)
    faults += [check.fault for check in checks.values() if check.fault]
    return Verdict(not faults, faults, quantities, checks)


def _try(make: Callable[[PRNGKeyArray], Check], key: PRNGKeyArray) -> Check:
    """The check, or one with the reason why it cannot be made."""
    try:
        return make(key)
    except (ValueError, ImportError) as error:
        return Check(str(error), made=False)


def _quantity(
    name: str, draws: Float[np.ndarray, " draws"], checks: Mapping[str, Check]
) -> Quantity:
    """A number, with the clearest error of its mean and of its standard deviation."""
    mean = float(draws.mean())
    if not draws.std() > 1e-6 * abs(draws.mean()):  # a point, or a number that is known
        return Quantity(name, mean, 0.0, np.nan, np.nan, "", np.nan, np.nan, "")
    mean_errors = _errors(name, {by: check.means for by, check in checks.items()})
    log_sd_errors = _errors(name, {by: check.log_sds for by, check in checks.items()})
    return Quantity(
        name, mean, float(draws.std()), *_clearest(mean_errors), *_clearest(log_sd_errors)
    )


Error = tuple[float, float, str]
"""An error, its standard error, and the name of the check that found it."""


def _errors(name: str, errors: Mapping[str, Errors]) -> list[Error]:
    """The errors of a number by all checks that judge it."""
    return [(*numbers[name], by) for by, numbers in errors.items() if name in numbers]


def _clearest(errors: Sequence[Error]) -> Error:
    """The error that is farthest above its noise; NaN if no check judges the number."""
    clarity = lambda error: abs(error[0]) - limits.WITHIN * error[1]
    return max(errors, key=clarity, default=(np.nan, np.nan, ""))


def _find_faults(quantities: Sequence[Quantity]) -> list[str]:
    """Sentences on means and standard deviations that are wrong beyond noise: the worst, and the
    number of others."""
    faults = []
    means = [x for x in quantities if _is_wrong(x.mean_off, x.mean_error)]
    if means:
        worst = max(means, key=lambda x: abs(x.mean_off))
        faults.append(
            f"The mean of {worst.name} is off by {-worst.mean_off:+.2f} sd "
            f"({worst.mean_by}){_count_others(means)}."
        )
    sds = [x for x in quantities if _is_wrong(x.log_sd_off, x.log_sd_error)]
    if sds:
        worst = max(sds, key=lambda x: abs(x.log_sd_off))
        factor = np.exp(-worst.log_sd_off)
        faults.append(
            f"The sd of {worst.name} is {factor:.2f} of the right one "
            f"({worst.log_sd_by}){_count_others(sds)}."
        )
    return faults


def _is_wrong(error: float, standard_error: float) -> bool:
    """True where an error is large beyond noise."""
    return bool(np.isfinite(error) and abs(error) - limits.SURE * standard_error > limits.WRONG)


def _count_others(quantities: Sequence[Quantity]) -> str:
    return f", and {len(quantities) - 1} other(s)" if len(quantities) > 1 else ""


def _numbers(draws: PyTree, axes: int = 1) -> dict[str, np.ndarray]:
    """Every number of a tree by name and place, with its leading axes of draws."""
    numbers = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(draws)[0]:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        x = np.asarray(leaf, np.float64)
        for place in np.ndindex(*x.shape[axes:]):
            label = f"{name}[{', '.join(map(str, place))}]" if place else name
            numbers[label] = x[(slice(None),) * axes + place]
    return numbers


def _affordable_count(data: Any, most: int, fewest: int, work: int, remedy: str) -> int:
    """The number of draws or chains that data of this size allow."""
    rows = max([1, *(np.shape(x)[0] for x in jax.tree.leaves(data) if np.ndim(x))])
    count = min(most, work // rows)
    expected = f"{work // fewest:,} rows or fewer, for a minute"
    require(count >= fewest, "data", expected, f"{rows:,}", remedy)
    return count


def _require_rows(model: Model) -> None:
    """Raises ValueError at a model of documents: their density is a sum over the topics of all
    words."""
    is_of_rows = model.form.documents is None
    remedy = "Compare held-out scores, fit.score(documents, key=key)."
    actual = "one of documents, without a density"
    require(is_of_rows, "fit", "a model of rows", actual, remedy)


# --- importance weights ---------------------------------------------------------------------------
def _check_weights(fit: Fit, data: Any, key: PRNGKeyArray) -> Check:
    model = fit.alg.spec.model
    points = [name for name in fit.posterior if fit.alg.spec.is_point(name)]
    require(not points, "fit", "distributions of all globals", f"points of {points}")
    _require_rows(model)
    if model.log_density is None and model.free is not None:
        judgement = fit.judged(data, key=key)
        return Check(f"{in_words(judgement.khat)} (The free variables, given q of the others.)")
    remedy = "fit.judged(num_draws=128) takes longer."
    count = _affordable_count(data, DRAWS, FEWEST, WORK, remedy)
    program = cached_program(
        model, "weighed draws", lambda model_ref: step_jit(_bind(model_ref), static_argnums=0)
    )
    groups = read_groups(model, data)
    values, log_p, log_q = program(count, fit.state.hyper, fit.posterior, groups, key)
    log_p = np.asarray(log_p)
    ratios = np.asarray(log_p, np.float64) - np.asarray(log_q, np.float64)
    is_finite = np.isfinite(log_p)
    rounding = float(np.finfo(log_p.dtype).eps * np.abs(log_p[is_finite]).max(initial=0.0))
    is_accurate = rounding < limits.ROUNDING_HIDES
    expected = f"a log density known to {limits.ROUNDING_HIDES} nats"
    require(is_accurate, "fit", expected, f"{rounding:.2g} nats", "Take float64.")
    ratios = np.where(ratios < np.inf, ratios, -np.inf)
    smoothed = psis(ratios)
    are_equal = np.ptp(ratios) < max(limits.EQUAL_RATIOS, limits.ROUNDINGS * rounding)
    khat = 0.0 if are_equal else smoothed.khat
    text = f"{in_words(khat)} {smoothed.ess:.0f} effective draws of {count}."
    fault = ""
    if not is_finite.all():
        share = 1 - is_finite.mean()
        fault = f"The density is zero, or no number, at {share:.1%} of the draws of q."
    if khat > limits.KHAT_RELIABLE or smoothed.ess < limits.ENOUGH_DRAWS:
        return Check(text, fault)
    weights = np.exp(smoothed.log_weights)
    means: Errors = {}
    log_sds: Errors = {}
    for name, draws in _numbers(values).items():
        means[name], log_sds[name] = _moment_errors(draws, weights)
    return Check(text, fault, means, log_sds)


def _bind(model_ref: weakref.ref[Any]) -> Callable[..., Any]:
    """A program for draws of q with their log p and log q; the locals of an energy are summed
    out."""

    def draw(
        count: int, hyper: Any, q: Any, groups: PyTree, key: PRNGKeyArray
    ) -> tuple[PyTree, Array, Array]:
        model: Any = model_ref()
        if model.log_density is None:
            values = q.sample(key, (count,))
            joint = log_joint(model, groups, (), hyper)
            densities = lambda value: (joint(value, {}), q.log_prob(value))
            return values, *jax.lax.map(densities, values, batch_size=64)
        z = q[Z].sample(key, (count,))
        density = free_walk(model, groups, (), key, hyper).density
        log_q = q[Z].log_prob(z)
        log_q = log_q if log_q.ndim == 1 else jnp.sum(log_q, -1)
        log_q = log_q - jax.vmap(lambda z: model.log_density.log_volume(hyper, z))(z)
        x = jax.vmap(lambda z: model.log_density.point(hyper, z))(z)
        log_p = jax.lax.map(density, x, batch_size=64)
        values = model.free.visible(model.free.values(hyper, {Z: z}))
        return values, log_p, log_q

    return draw


def _moment_errors(
    x: np.ndarray, weights: np.ndarray
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Errors of the mean and of the log of the standard deviation of draws without their weights,
    each with its standard error. Weighted and plain sums are over the same draws, so their common
    noise cancels."""
    sd = max(float(x.std()), np.finfo(float).tiny)
    z = (x - x.mean()) / sd
    equal = 1 / len(x)
    mean = weights @ z
    variance = max(float(weights @ (z - mean) ** 2), 1e-300)
    mean_terms = weights * (z - mean) - equal * z
    variance_terms = weights * ((z - mean) ** 2 / variance - 1) - equal * (z**2 - 1)
    mean_error = mean, float(np.linalg.norm(mean_terms))
    log_sd_error = 0.5 * np.log(variance), 0.5 * float(np.linalg.norm(variance_terms))
    return mean_error, log_sd_error


# --- chains, linear response ----------------------------------------------------------------------
def _check_chains(fit: Fit, data: Any, key: PRNGKeyArray) -> Check:
    _require_rows(fit.alg.spec.model)
    remedy = "vijax.reference.short_chains(fit, data, key=key) takes longer."
    count = _affordable_count(data, CHAINS, FEWEST_CHAINS, WORK_OF_CHAINS, remedy)
    chains = short_chains(fit, data, key=key, num_chains=count)
    text = f"{chains} Errors are lower bounds."
    if not chains.acceptance >= limits.MOVING:
        return Check(text)
    means = _pair(chains.mean, chains.mean_error)
    log_sds = _pair(chains.log_sd, chains.log_sd_error)
    return Check(text, means=means, log_sds=log_sds)


def _pair(values: PyTree, errors: PyTree) -> Errors:
    """Each number of a tree with its standard error, by name and place."""
    numbers = _numbers(values, 0)
    standard_errors = _numbers(errors, 0)
    return {name: (float(x), float(standard_errors[name])) for name, x in numbers.items()}


def _check_response(fit: Fit, data: Any, q: dict[str, np.ndarray], key: PRNGKeyArray) -> Check:
    response = linear_response(fit, data, key=key)
    variances = np.maximum(np.diag(response.matrix), 0.0)
    sds = dict(zip(response.names, np.sqrt(variances), strict=True))
    names = [name for name, x in q.items() if sds.get(name, 0.0) > 0 and x.std() > 0]
    errors = {name: float(np.log(sds[name] / q[name].std())) for name in names}
    worst = max(errors, key=lambda name: abs(errors[name]))
    text = (
        f"sds of q over those by linear response are {np.exp(-errors[worst]):.2f} for {worst}, the "
        "farthest from 1."
    )
    standard_error = (2 * DRAWS) ** -0.5  # of the standard deviations of the draws
    return Check(text, log_sds={name: (x, standard_error) for name, x in errors.items()})


# --- predictive checks, restarts ------------------------------------------------------------------
def _columns(y: PyTree) -> dict[str, Array]:
    """Each column of the data by name; all numbers of a wide array together."""
    columns: dict[str, Array] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(y)[0]:
        name = jax.tree_util.keystr(path, simple=True, separator=".") or "data"
        if jnp.ndim(leaf) > 1 and leaf.shape[-1] <= COLUMNS:
            columns |= {f"{name}, column {i}": leaf[..., i] for i in range(leaf.shape[-1])}
        elif jnp.ndim(leaf):
            columns[name] = leaf
    return columns


STATISTICS: dict[str, Any] = {
    "mean": jnp.nanmean,
    "sd": jnp.nanstd,
    "smallest value": jnp.nanmin,
    "largest value": jnp.nanmax,
}


def _statistics(y: PyTree) -> Array:
    """All statistics of all columns."""
    columns = [jnp.asarray(x, float) for x in _columns(y).values()]
    return jnp.stack([statistic(x) for x in columns for statistic in STATISTICS.values()])


def _check_predictions(fit: Fit, data: Any, key: PRNGKeyArray) -> Check:
    observations = observed_data(fit, data)
    size = sum(np.size(x) for x in jax.tree.leaves(observations))
    expected = f"{NUMBERS // REPLICATES:,} numbers or fewer, for a minute"
    remedy = "vijax.evaluate.predictive_check with fewer draws takes longer."
    require(size * REPLICATES <= NUMBERS, "data", expected, f"{size:,}", remedy)
    result = predictive_check(fit, _statistics, data, key=key, num_draws=REPLICATES)
    names = [f"{kind} of {column}" for column in _columns(observations) for kind in STATISTICS]
    y = np.asarray(result.observed, np.float64)
    replicates = np.asarray(result.replicated, np.float64)
    center = replicates.mean(0)
    spread = replicates.std(0)
    is_constant = spread <= 1e-6 * np.abs(center)
    is_input = is_constant & (np.abs(y - center) <= 1e-5 * np.abs(center))
    count = np.sum(~is_input)
    limit = special.ndtri(1 - 0.5 * limits.BY_CHANCE / max(count, 1))
    is_extreme = (y < replicates.min(0)) | (y > replicates.max(0))
    is_far = np.abs(y - center) > limit * spread
    wrong = np.flatnonzero(~is_input & is_extreme & is_far)
    texts = [
        f"{names[i]} ({y[i]:.4g}; by the model {center[i]:.4g} ± {spread[i]:.2g})" for i in wrong
    ]
    fault = ""
    if texts:
        ending = ", ..." if len(texts) > 4 else ""
        fault = f"The model does not make such data: {', '.join(texts[:4])}{ending}."
    text = f"{count - len(wrong)} of {count} statistics of the data are like those of the model."
    return Check(text, fault)


def _check_restarts(fit: Fit, data: Any, restarts: int, key: PRNGKeyArray) -> Check:
    if fit.report is not None:
        return _check_searches(fit)
    objective = np.asarray(fit.trace.get("elbo", ())[-10:], np.float64)
    require(objective.size, "fit", "one with the trace of its objective", "none")
    best_fit, are_equal = _fit_again(fit, data, restarts, key)
    expected = f"steps that {restarts} starts take in {SECONDS:.0f} s"
    actual = f"{fit.state.step} that take longer"
    require(best_fit.status is not Status.STOPPED, "fit", expected, actual)
    elbo = best_fit.trace["elbo"]
    ends = np.asarray(best_fit.trace.get("restart_elbo", elbo[:, None])[-10:], np.float64)
    best = ends[:, np.argmax(ends.mean(0))]
    gain = best.mean() - objective.mean()
    noise = np.hypot(best.std(), objective.std()) / len(objective) ** 0.5
    rounding = limits.ROUNDINGS * float(np.finfo(elbo.dtype).eps) * abs(objective.mean())
    if are_equal:
        return Check(
            f"All {restarts} other starts are one, for the model's start draws nothing: they say "
            "nothing."
        )
    side = "above" if gain > 0 else "below"
    text = f"The best of {restarts} other start(s) ends {abs(gain):.2f} nats {side} this fit."
    fault = ""
    if gain > max(limits.HIGHER, limits.SURE * noise + rounding):
        fault = f"Another start ends {gain:.2f} nats higher (± {noise:.2f}): fit with restarts=."
    return Check(text, fault)


def _check_searches(fit: Fit) -> Check:
    """The check of other starts that were part of a fit with a report."""
    searches = fit.report.others
    has_searches = searches is not None and searches.num_starts > 0
    require(has_searches, "fit", "one with searches from several starts", "none")
    fault = ""
    if searches.others:
        fault = (
            f"Searches found {searches.others} mode(s) of similar weight that q does not describe."
        )
    return Check(f"{searches.num_starts} searches were part of the fit.", fault)


def _fit_again(fit: Fit, data: Any, restarts: int, key: PRNGKeyArray) -> tuple[Fit, bool]:
    """The best fit from other starts, and True where all starts were equal. Other warnings are
    passed on."""
    spec = fit.alg.spec
    sizes = fit.trace.get("num_groups")
    hyper = {name: value for name, value in fit.state.hyper.items() if name not in spec.learn}
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always", EqualStartsWarning)
        best_fit = fitting.fit(
            fit.alg,
            data,
            key=key,
            num_steps=int(fit.state.step),
            batch_size=None if sizes is None or spec.model.form.one_group else int(np.max(sizes)),
            hyper=hyper or None,
            restarts=restarts,
            callbacks=[lambda progress: progress.elapsed_s > SECONDS],
            throw=False,
        )
    are_equal = False
    for record in records:
        if issubclass(record.category, EqualStartsWarning):
            are_equal = True
        else:
            warnings.warn_explicit(record.message, record.category, record.filename, record.lineno)
    return best_fit, are_equal

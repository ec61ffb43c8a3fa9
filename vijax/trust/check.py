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
from vijax.data.schema.named_columns import in_order_of
from vijax.evaluate.predictive_check import predictive_check
from vijax.fitting import fit as fitting
from vijax.fitting.restarts import EqualStartsWarning
from vijax.fitting.result import Fit
from vijax.fitting.status import FAILED, Status
from vijax.inference.guides import Z
from vijax.predict.predictive import observed
from vijax.reference.log_joint import log_joint
from vijax.reference.short_chains import short_chains
from vijax.reference.walk import groups_of, walk_of
from vijax.response.linear_response import linear_response
from vijax.verdict import limits
from vijax.verdict.psis import in_words, psis
from vijax.xla.compiler import cached_program, step_jit

DRAWS, FEWEST, WORK = (
    2000,
    500,
    1 << 27,
)  # draws that are weighted, and the largest number of draws times rows
CHAINS, FEWEST_CHAINS, WORK_OF_CHAINS = 512, 64, 1 << 23  # the same of short chains
REPLICATES, NUMBERS = (
    1000,
    1 << 29,
)  # replicated data sets, and the largest number of numbers in them
SECONDS = 20.0  # of restarts
COLUMNS = 32  # columns of data up to which each has statistics of its own
MOST_NUMBERS = 20_000  # of the globals, each of which is looked at by itself


Off = dict[str, tuple[float, float]]
"""Errors by name of the number, each with its standard error."""


@dataclasses.dataclass(frozen=True)
class Check:
    """One check of a fit.

    Attributes:
      said: what it found, or why it could not be made.
      fault: what is wrong by this check alone; empty where nothing is.
      means, log_sds: errors of means and of logarithms of standard deviations by name, each with
        its standard error, as in `Quantity`; empty where the check does not judge them.
      made: false where it could not be made.
    """

    said: str
    fault: str = ""
    means: Off = dataclasses.field(default_factory=dict)
    log_sds: Off = dataclasses.field(default_factory=dict)
    made: bool = True


class Quantity(NamedTuple):
    """One number of the posterior of the globals, and how far it may be off.

    Attributes:
      name: name and place, "w[0]".
      mean: its mean under q.
      sd: its standard deviation under q.
      mean_off: the posterior's mean less that of q, in standard deviations of q; NaN where it is
          not known.
      mean_error: standard error of `mean_off`.
      mean_by: the check that found it.
      log_sd_off: logarithm of the posterior's standard deviation over that of q: above zero where q
          is too narrow.
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
        """Standard deviations of q by which the mean may be off: two standard errors are added."""
        return abs(self.mean_off) + limits.WITHIN * self.mean_error

    @property
    def log_sd_within(self) -> float:
        """The same of the logarithm of the standard deviation."""
        return abs(self.log_sd_off) + limits.WITHIN * self.log_sd_error


class Verdict(NamedTuple):
    """The result of `vijax.trust.check`: `print(verdict)` says it in words.

    Attributes:
      usable: true where no check found a fault.
      faults: sentences on what is wrong.
      quantities: every number of the globals, and how far it may be off.
      checks: the checks by name.
    """

    usable: bool
    faults: list[str]
    quantities: list[Quantity]
    checks: dict[str, Check]

    def __str__(self) -> str:
        made = sum(check.made for check in self.checks.values())
        judged = f"{made} of {len(self.checks)} checks could be made, and "
        lines = [
            judged
            + (f"{len(self.faults)} fault(s) were found." if self.faults else "found no fault.")
        ]
        lines += [f"- {fault}" for fault in self.faults]
        within = "(two standard errors included):" if self.quantities else "is not known."
        lines.append(f"How far means and standard deviations of q may be off {within}")
        variables: dict[str, list[Quantity]] = {}
        for one in self.quantities:
            variables.setdefault(one.name.split("[")[0], []).append(one)
        lines += [f"- {name}: {_off(rows)}" for name, rows in variables.items()]
        lines.append("The checks:")
        said = [
            f"- {name}: {'' if one.made else 'not made. '}{one.said}"
            for name, one in self.checks.items()
        ]
        return "\n".join(lines + said)


def _off(rows: Sequence[Quantity]) -> str:
    """Says how far the numbers of one variable may be off: the worst mean and the worst standard
    deviation."""
    mean = max(rows, key=lambda one: np.nan_to_num(one.mean_within, nan=-1.0))
    sd = max(rows, key=lambda one: np.nan_to_num(one.log_sd_within, nan=-1.0))
    told = []
    if mean.mean_by:
        told.append(f"means by up to {mean.mean_within:.2f} sd ({mean.name}, {mean.mean_by})")
    if sd.log_sd_by:
        told.append(
            f"sds by up to a factor of {np.exp(sd.log_sd_within):.2f} ({sd.name}, {sd.log_sd_by})"
        )
    return "; ".join(told) or "not known: no check could judge it"


def check(fit: Fit, data: Any = None, *, key: PRNGKeyArray, restarts: int = 4) -> Verdict:
    """Checks of a fit all that can be checked in about a minute, and gives one verdict.

    Five checks, each where the model can and the data are not too large; otherwise its reason is
    told:

    - importance weights: draws of q, weighted by the posterior, with k-hat (log densities;
      energies);
    - short chains of Hamiltonian Monte Carlo that begin at q (the same models);
    - linear response: standard deviations without the assumption of independence (see
      `vijax.linear_response`);
    - predictive checks: mean, sd, smallest and largest value of each column of the data (see
      `Fit.predictive`);
    - restarts: whether another start ends at a higher objective.

    Of each mean and standard deviation the clearest error that a check found is kept. The locals
    are not checked.

    Args:
      fit: what `vijax.fit`, `vijax.auto` or `vijax.dadvi` returned.
      data: the data that it was fitted to; None for a density without data.
      key: random key of all draws.
      restarts: number of other starts.

    Returns:
      A `Verdict`: `print(verdict)`, `verdict.usable`, `verdict.faults`, `verdict.quantities`,
      `verdict.checks`.

    Raises:
      ValueError: `fit` is no fit; no restart is asked for.

    >>> import vijax as vi
    >>> pair = vi.density({"x": vi.free(), "y": vi.free()}, lambda v: -(v["x"] ** 2) - 5 * (v["x"] - v["y"]) ** 2)
    >>> fit = vi.fit(vi.advi(pair), num_steps=500, key=jax.random.key(0))  # independent normals are too narrow
    >>> verdict = check(fit, key=jax.random.key(1))
    >>> verdict.usable, [(one.name, one.log_sd_off > 0.3) for one in verdict.quantities]
    (False, [('x', True), ('y', True)])
    """
    require(isinstance(fit, Fit), "fit", "what a fit returned", type(fit).__name__)
    require_integers(restarts=restarts)
    data = in_order_of(fit.columns, data)
    if fit.alg.spec.model.form.documents is not None:
        data = fit.in_words(data)
    number = sum(
        x.size for x in jax.tree.leaves(jax.eval_shape(lambda key: fit.sample(key, 1), key))
    )
    few = number <= MOST_NUMBERS
    q = _numbers(fit.sample(key, DRAWS)) if few else {}
    checks: dict[str, Callable[[PRNGKeyArray], Check]] = {
        "importance weights": lambda key: _weights(fit, data, key),
        "short chains": lambda key: _chains(fit, data, key),
        "linear response": lambda key: _response(fit, data, q, key),
    }
    if not few:
        many = (
            f"The globals are {number:,} numbers; up to {MOST_NUMBERS:,} are looked at one by one."
        )
        checks = dict.fromkeys(checks, lambda key: Check(many, made=False))
    checks["predictive checks"] = lambda key: _replicated(fit, data, key)
    checks["restarts"] = lambda key: _restarts(fit, data, restarts, key)
    found = {
        name: _tried(make, jax.random.fold_in(key, i))
        for i, (name, make) in enumerate(checks.items())
    }
    quantities = [_quantity(name, x, found) for name, x in q.items()]
    faults = (
        [f"The fit itself says: {fit.verdict}"] if fit.status in FAILED or not fit.usable else []
    )
    faults += [*_of_quantities(quantities), *(one.fault for one in found.values() if one.fault)]
    return Verdict(not faults, faults, quantities, found)


def _tried(make: Callable[[PRNGKeyArray], Check], key: PRNGKeyArray) -> Check:
    """Makes a check, or gives the reason why it cannot be made."""
    try:
        return make(key)
    except (ValueError, ImportError) as error:
        return Check(str(error), made=False)


def _quantity(name: str, x: Float[np.ndarray, " draws"], found: Mapping[str, Check]) -> Quantity:
    """The number with the clearest error of its mean, and of its standard deviation, that a check
    found."""
    if not x.std() > 1e-6 * abs(x.mean()):  # a point, or a number that is known
        return Quantity(name, float(x.mean()), 0.0, np.nan, np.nan, "", np.nan, np.nan, "")
    clear = lambda of: max(
        of, key=lambda one: abs(one[0]) - limits.WITHIN * one[1], default=(np.nan, np.nan, "")
    )
    mean = clear([(*one.means[name], by) for by, one in found.items() if name in one.means])
    log_sd = clear([(*one.log_sds[name], by) for by, one in found.items() if name in one.log_sds])
    return Quantity(name, float(x.mean()), float(x.std()), *mean, *log_sd)


def _of_quantities(quantities: Sequence[Quantity]) -> list[str]:
    """Sentences on means and standard deviations that are wrong beyond noise: the worst, and the
    number of others."""
    sure = lambda value, error: (
        np.isfinite(value) and abs(value) - limits.SURE * error > limits.WRONG
    )
    means = [one for one in quantities if sure(one.mean_off, one.mean_error)]
    sds = [one for one in quantities if sure(one.log_sd_off, one.log_sd_error)]
    more = lambda of: f", and {len(of) - 1} other(s)" if len(of) > 1 else ""
    told = []
    if means:
        one = max(means, key=lambda one: abs(one.mean_off))
        told.append(
            f"The mean of {one.name} is off by {-one.mean_off:+.2f} sd "
            f"({one.mean_by}){more(means)}."
        )
    if sds:
        one = max(sds, key=lambda one: abs(one.log_sd_off))
        factor = np.exp(-one.log_sd_off)
        told.append(
            f"The sd of {one.name} is {factor:.2f} of the right one ({one.log_sd_by}){more(sds)}."
        )
    return told


def _numbers(draws: PyTree, axes: int = 1) -> dict[str, np.ndarray]:
    """Every number of a tree by name and place, with its leading axis of draws, if it has one."""
    found = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(draws)[0]:
        name, x = (
            jax.tree_util.keystr(path, simple=True, separator="."),
            np.asarray(leaf, np.float64),
        )
        for place in np.ndindex(*x.shape[axes:]):
            found[f"{name}[{', '.join(map(str, place))}]" if place else name] = x[
                (slice(None),) * axes + place
            ]
    return found


def _affordable(data: Any, most: int, fewest: int, work: int, instead: str) -> int:
    """The number of draws or chains that data of this size allow."""
    rows = max([1, *(np.shape(x)[0] for x in jax.tree.leaves(data) if np.ndim(x))])
    count = min(most, work // rows)
    require(
        count >= fewest,
        "data",
        f"{work // fewest:,} rows or fewer, for a minute",
        f"{rows:,}",
        instead,
    )
    return count


def _require_rows(model: Model) -> None:
    """Raises ValueError at a model of documents: their density is a sum over the topics of all
    words."""
    remedy = "Compare held-out scores, fit.score(documents, key=key)."
    require(
        model.form.documents is None,
        "fit",
        "a model of rows",
        "one of documents, without a density",
        remedy,
    )


# --- importance weights ---------------------------------------------------------------------------
def _weights(fit: Fit, data: Any, key: PRNGKeyArray) -> Check:
    model, points = (
        fit.alg.spec.model,
        [name for name in fit.posterior if fit.alg.spec.is_point(name)],
    )
    require(not points, "fit", "distributions of all globals", f"points of {points}")
    _require_rows(model)
    if model.log_density is None and model.free is not None:
        said = fit.judged(data, key=key)
        return Check(f"{in_words(said.khat)} (The free variables, given q of the others.)")
    count = _affordable(data, DRAWS, FEWEST, WORK, "fit.judged(num_draws=128) takes longer.")
    program = cached_program(
        model, "weighed draws", lambda model: step_jit(_bind(model), static_argnums=0)
    )
    values, log_p, log_q = program(
        count, fit.state.hyper, fit.posterior, groups_of(model, data), key
    )
    log_p = np.asarray(log_p)
    ratios = np.asarray(log_p, np.float64) - np.asarray(log_q, np.float64)
    known = np.isfinite(log_p)
    rounding = float(np.finfo(log_p.dtype).eps * np.abs(log_p[known]).max(initial=0.0))
    expected = f"a log density known to {limits.ROUNDING_HIDES} nats"
    require(
        rounding < limits.ROUNDING_HIDES, "fit", expected, f"{rounding:.2g} nats", "Take float64."
    )
    ratios = np.where(ratios < np.inf, ratios, -np.inf)
    smoothed, is_alike = (
        psis(ratios),
        np.ptp(ratios) < max(limits.EQUAL_RATIOS, limits.ROUNDINGS * rounding),
    )
    khat = 0.0 if is_alike else smoothed.khat
    said = f"{in_words(khat)} {smoothed.ess:.0f} effective draws of {count}."
    fault = (
        f"The density is zero, or no number, at {1 - known.mean():.1%} of the draws of q."
        if not known.all()
        else ""
    )
    if khat > limits.KHAT_RELIABLE or smoothed.ess < limits.ENOUGH_DRAWS:
        return Check(said, fault)
    moments = {
        name: _moments(x, np.exp(smoothed.log_weights)) for name, x in _numbers(values).items()
    }
    means, log_sds = ({name: both[i] for name, both in moments.items()} for i in range(2))
    return Check(said, fault, means, log_sds)


def _bind(of: weakref.ref[Any]) -> Callable[..., Any]:
    """A program for draws of q, log p and log q there; the locals of an energy are summed out."""

    def drawn(
        count: int, hyper: Any, q: Any, groups: PyTree, key: PRNGKeyArray
    ) -> tuple[PyTree, Array, Array]:
        model: Any = of()
        if model.log_density is None:
            values = q.sample(key, (count,))
            joint = log_joint(model, groups, (), hyper)
            both = lambda one: (joint(one, {}), q.log_prob(one))
            return values, *jax.lax.map(both, values, batch_size=64)
        z, density = q[Z].sample(key, (count,)), walk_of(model, groups, (), key, hyper).density
        log_q = q[Z].log_prob(z)
        log_q = log_q if log_q.ndim == 1 else jnp.sum(log_q, -1)
        log_q = log_q - jax.vmap(lambda z: model.log_density.log_volume(hyper, z))(z)
        x = jax.vmap(lambda z: model.log_density.point(hyper, z))(z)
        log_p = jax.lax.map(density, x, batch_size=64)
        values = model.free.visible(model.free.values(hyper, {Z: z}))
        return values, log_p, log_q

    return drawn


def _moments(x: np.ndarray, w: np.ndarray) -> tuple[tuple[float, float], tuple[float, float]]:
    """Errors of the mean and of the log of the standard deviation of draws that ought to have
    weights, each with its standard error: both sums are over the same draws, so that the noise
    which they share cancels."""
    sd = max(float(x.std()), np.finfo(float).tiny)
    z, equal = (x - x.mean()) / sd, 1 / len(x)
    mean, spread = w @ z, max(float(w @ (z - w @ z) ** 2), 1e-300)
    of_mean = w * (z - mean) - equal * z
    of_sd = w * ((z - mean) ** 2 / spread - 1) - equal * (z**2 - 1)
    return (mean, float(np.linalg.norm(of_mean))), (
        0.5 * np.log(spread),
        0.5 * float(np.linalg.norm(of_sd)),
    )


# --- chains, linear response ----------------------------------------------------------------------
def _chains(fit: Fit, data: Any, key: PRNGKeyArray) -> Check:
    _require_rows(fit.alg.spec.model)
    instead = "vijax.reference.short_chains(fit, data, key=key) takes longer."
    count = _affordable(data, CHAINS, FEWEST_CHAINS, WORK_OF_CHAINS, instead)
    moved = short_chains(fit, data, key=key, num_chains=count)
    said = f"{moved} Errors are lower bounds."
    if not moved.acceptance >= limits.MOVING:
        return Check(said)
    named = [
        _numbers(part, 0)
        for part in (moved.mean, moved.mean_error, moved.log_sd, moved.log_sd_error)
    ]
    pairs = lambda i: {name: (float(x), float(named[i + 1][name])) for name, x in named[i].items()}
    return Check(said, means=pairs(0), log_sds=pairs(2))


def _response(fit: Fit, data: Any, q: dict[str, np.ndarray], key: PRNGKeyArray) -> Check:
    found = linear_response(fit, data, key=key)
    sds = dict(zip(found.names, np.sqrt(np.maximum(np.diag(found.matrix), 0.0)), strict=True))
    varies = [name for name, x in q.items() if sds.get(name, 0.0) > 0 and x.std() > 0]
    off = {name: float(np.log(sds[name] / q[name].std())) for name in varies}
    worst = max(off, key=lambda name: abs(off[name]))
    said = (
        f"sds of q over those by linear response are {np.exp(-off[worst]):.2f} for {worst}, the "
        "farthest from 1."
    )
    error = (2 * DRAWS) ** -0.5  # of the standard deviations of the draws
    return Check(said, log_sds={name: (x, error) for name, x in off.items()})


# --- predictive checks, restarts ------------------------------------------------------------------
def _columns(y: PyTree) -> dict[str, Array]:
    """Each column of the data by name; all numbers of a wide array together."""
    found: dict[str, Array] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(y)[0]:
        name = jax.tree_util.keystr(path, simple=True, separator=".") or "data"
        if jnp.ndim(leaf) > 1 and leaf.shape[-1] <= COLUMNS:
            found |= {f"{name}, column {i}": leaf[..., i] for i in range(leaf.shape[-1])}
        elif jnp.ndim(leaf):
            found[name] = leaf
    return found


KINDS: dict[str, Any] = {
    "mean": jnp.nanmean,
    "sd": jnp.nanstd,
    "smallest value": jnp.nanmin,
    "largest value": jnp.nanmax,
}


def _statistics(y: PyTree) -> Array:
    return jnp.stack(
        [kind(jnp.asarray(x, float)) for x in _columns(y).values() for kind in KINDS.values()]
    )


def _replicated(fit: Fit, data: Any, key: PRNGKeyArray) -> Check:
    seen = observed(fit, data)
    size = sum(np.size(x) for x in jax.tree.leaves(seen))
    remedy = "vijax.evaluate.predictive_check with fewer draws takes longer."
    fits = size * REPLICATES <= NUMBERS
    require(
        fits,
        "data",
        f"{NUMBERS // REPLICATES:,} numbers or fewer, for a minute",
        f"{size:,}",
        remedy,
    )
    found = predictive_check(fit, _statistics, data, key=key, num_draws=REPLICATES)
    names = [f"{kind} of {column}" for column in _columns(seen) for kind in KINDS]
    y, made = (np.asarray(x, np.float64) for x in (found.observed, found.replicated))
    center, spread = made.mean(0), made.std(0)
    given = (spread <= 1e-6 * np.abs(center)) & (
        np.abs(y - center) <= 1e-5 * np.abs(center)
    )  # inputs
    least = special.ndtri(1 - 0.5 * limits.BY_CHANCE / max(np.sum(~given), 1))
    beyond = (y < made.min(0)) | (y > made.max(0))
    wrong = np.flatnonzero(~given & beyond & (np.abs(y - center) > least * spread))
    told = [
        f"{names[i]} ({y[i]:.4g}; by the model {center[i]:.4g} ± {spread[i]:.2g})" for i in wrong
    ]
    fault = (
        "The model does not make such data: "
        f"{', '.join(told[:4])}{', ...' if len(told) > 4 else ''}."
    )
    said = (
        f"{np.sum(~given) - len(wrong)} of {np.sum(~given)} statistics of the data are like those "
        "of the model."
    )
    return Check(said, fault if told else "")


def _restarts(fit: Fit, data: Any, restarts: int, key: PRNGKeyArray) -> Check:
    if fit.report is not None:
        others = fit.report.others
        require(
            others is not None and others.num_starts > 0,
            "fit",
            "one with searches from several starts",
            "none",
        )
        fault = (
            f"Searches found {others.others} mode(s) of similar weight that q does not describe."
        )
        said = f"{others.num_starts} searches were part of the fit."
        return Check(said, fault if others.others else "")
    own = np.asarray(fit.trace.get("elbo", ())[-10:], np.float64)
    require(own.size, "fit", "one with the trace of its objective", "none")
    spec, batch = fit.alg.spec, fit.trace.get("num_groups")
    hyper = {
        name: value for name, value in fit.state.hyper.items() if name not in spec.learn
    } or None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", EqualStartsWarning)
        again = fitting.fit(
            fit.alg,
            data,
            key=key,
            num_steps=int(fit.state.step),
            batch_size=None if batch is None or spec.model.form.one_group else int(np.max(batch)),
            hyper=hyper,
            restarts=restarts,
            callbacks=[lambda progress: progress.elapsed_s > SECONDS],
            throw=False,
        )
    are_equal = any(issubclass(one.category, EqualStartsWarning) for one in told)
    for one in told:
        if not issubclass(one.category, EqualStartsWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    expected = f"steps that {restarts} starts take in {SECONDS:.0f} s"
    require(
        again.status is not Status.STOPPED, "fit", expected, f"{fit.state.step} that take longer"
    )
    ends = np.asarray(
        again.trace.get("restart_elbo", again.trace["elbo"][:, None])[-10:], np.float64
    )
    best = ends[:, np.argmax(ends.mean(0))]
    more, noise = best.mean() - own.mean(), np.hypot(best.std(), own.std()) / len(own) ** 0.5
    rounding = limits.ROUNDINGS * float(np.finfo(again.trace["elbo"].dtype).eps) * abs(own.mean())
    higher = more > max(limits.HIGHER, limits.SURE * noise + rounding)
    if are_equal:
        return Check(
            f"All {restarts} other starts are one, for the model's start draws nothing: they say "
            "nothing."
        )
    said = (
        f"The best of {restarts} other start(s) ends {abs(more):.2f} nats "
        f"{'above' if more > 0 else 'below'} this fit."
    )
    fault = (
        f"Another start ends {more:.2f} nats higher (± {noise:.2f}): fit with restarts=."
        if higher
        else ""
    )
    return Check(said, fault)

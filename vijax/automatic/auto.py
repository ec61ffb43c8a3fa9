"""The default method, `vijax.auto`: nothing to choose, and a verdict."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from vijax.arguments import Size, integer
from vijax.automatic import by_steps, low_rank, many_groups, mixture, trust_region
from vijax.automatic.as_fits import as_fit, as_mixture
from vijax.automatic.assessment import assess, compare_reports, rivals
from vijax.automatic.coordinates.bent import fit_bent, move_search
from vijax.automatic.coordinates.hierarchies import learn_coordinates, most_gradients
from vijax.automatic.curvature import normal as curved
from vijax.automatic.dadvi import OnDraws, climb, unit_noise
from vijax.automatic.density_checks import (
    COMPARED,
    Exchange,
    double_sentence,
    exchanges,
    float32_error,
)
from vijax.automatic.gaussian import Gaussian, draw_noise, laplace
from vijax.automatic.low_rank import FIXED, MIDDLE
from vijax.automatic.mixture import Mixture
from vijax.automatic.modes import Candidate, SearchResult, find_modes, rough_bound, with_bounds
from vijax.automatic.trust_region import Run, Sitting, Stage, Watcher, check_stage, make_stage
from vijax.checks import check_key, require, require_integers, require_on_host
from vijax.constrain import real
from vijax.contract.batch import Nearby
from vijax.contract.model import Model
from vijax.data.schema.named_columns import find_names
from vijax.fitting.fit_arguments import check_process
from vijax.fitting.interrupt import interrupt_flag
from vijax.fitting.result import Fit
from vijax.inference.compatibility import check_model
from vijax.lbfgs import Mode
from vijax.models.energies.bend import Bend
from vijax.models.energies.density import LogDensity
from vijax.verdict import limits
from vijax.verdict.report import Ended, Report
from vijax.verdict.target import MANY_ROWS, Target
from vijax.verdict.words import NO_GRADIENTS_LEFT, mixture_end_sentence
from vijax.xla import keys
from vijax.xla.compiler import cached_program, quick_jit

MOST_FULL = 300  # dimensions up to which a full covariance is fitted
BATCH_OF_MANY = 500  # usual groups of a minibatch
FEWEST_GROUPS = 1_000  # groups of which a sample is typical, at least
NUM_STARTS = 16  # usual starts for a log density
MAX_DRAWS = 2048  # usual limit of its fixed draws
FEWEST_GRADIENTS = 3000  # usual limit of gradients, at least
A_VARIABLE = 250
"""Gradients for each variable of a full covariance in the usual limit. With 40 the fit had not left
its start, and took nearly the same time."""
NEARBY = 0.1
"""How far the errors of a nearby density may be spread at draws of the fit, in nats. By Cauchy and
Schwarz they then move no mean by more sds than this, to first order; a constant moves none."""
FARTHEST = 0.5  # its worst error there
NOT_BEGUN = "stopped while the likelihood was computed about its mode: nothing is fitted yet"
NEARBY_DRAWS = 8  # draws at which this error is measured
OF_A_MIXTURE = 1500
"""With fewer gradients a mixture is tried at once where one normal will not do: bends may gain
nothing."""
FEWEST_CURVED = 100
"""From so many variables on second derivatives cost less than the gradients of as good a fit, if
there are many rows too."""
OF_A_MIXTURE_ALONE = 3000
"""Gradients that a mixture has beside those of the normal before it, at least, if nobody set a
limit: with what was left it stopped before its sds were right, and they take a second."""
FIRST_STEPS = 20  # steps of independent normals before a full covariance begins at them
SEARCH_SHARE = 0.2  # share of the gradients that searches for modes may take
A_START = 40
"""Gradients that searches for modes may take for each start, if that is more: where there is no
mode, as in a funnel, they would go on for long."""
EARLY = 2 * limits.CLOSE
"""A larger gap, in nats, ends the fit of one normal early; half of it may be noise of the draws."""


def auto(
    model: Model,
    data: Any = None,
    *,
    key: PRNGKeyArray,
    num_starts: Size | None = None,
    max_draws: Annotated[int, integer(8)] | None = None,
    max_gradients: Size | None = None,
    batch_size: int | None = None,
    richer: bool | None = None,
    stage: Stage | None = None,
) -> Fit:
    """Fits a model with no choice to make, and says whether to trust the result.

    A log density (`vijax.density`) is fitted in steps:

    - Searches from several starts, side by side, look for modes.
    - A normal with full covariance is fitted from the best mode, by natural gradients from least
      squares of scores, in a trust region, on fixed draws. There are more draws once only their
      noise is left.
    - Coordinates along which the posterior is skewed are bent, and the normal is fitted again.
    - If the posterior is still not normal, a mixture of up to eight normals is fitted too, each
      normal in its own trust region. It is the result if its bound is clearly higher.

    From 300 to 3,000 variables the normal of full covariance is fitted from second derivatives,
    which take few products if the density is sparse (groups, chains, maps). If the density has
    kinks, and beyond 3,000 variables, independent normals are fitted, with up to 32 directions of
    dependence if these raise the bound. Variables whose law depends on others
    (`vijax.free(..., loc=, scale=)`, hierarchies of NumPyro) are fitted in coordinates that are
    learnt first, from the data's information on each variable. If rounding in float32 moves means
    or sds, the density is fitted in float64, and the verdict says so.

    A model in conjugate form is fitted by coordinate ascent from several starts if the data are
    small (5,000 groups, 200 documents), else by incremental or stochastic steps; an energy with
    free variables by stochastic steps until the bound rises no more. For a normal `vijax.glmm` of
    many groups the likelihood is computed at a few places around its mode and interpolated. The
    verdict gives the error of the interpolation; if it is not small, the density itself is fitted.

    Args:
      model: any `vijax.Model` without networks.
      data: the data that the model reads; None for a density that reads none, and for a model that
        has its data (`vijax.glmm`, Gaussian processes, generalised linear models).
      key: random key of starts and draws.
      num_starts: number of starts, side by side. For a log density half of the searches for modes
        begin near zero, half as far apart as the prior is wide; None is 16. For other models None
        is 8; 4 for 200 to 5,000 documents and for an energy with free variables; 1 for larger data
        in conjugate form.
      max_draws: largest number of fixed draws for a log density; None is 2,048. More draws help if
        a fit was "limited by the noise of its draws".
      max_gradients: largest number of gradients for a log density: no step is taken that would need
        more, in a mixture neither. Searches for modes may take a fifth of them, or 40 a start, not
        counting the end of their last step. Ten first steps of independent normals, and passes over
        minibatches, are never cut short. None is 3,000, or 250 a variable of a full covariance if
        that is more, and 3,000 for a mixture if no more are left; for the coordinates of a
        hierarchy it adds 2,500 and 1,056 for each level. If
        a mixture stops at this limit, `fit.verdict` says by how many nats its bound still rose in a
        thousand gradients.
      batch_size: groups at a step for a density with a `log_lik` of groups: passes over all groups
        begin at the mode, which is searched from the fit to a sample. None takes all groups at
        once. From 50,000 rows on, None begins at that mode too, and takes 500 groups at a step if
        16 sets of draws are not enough.
      richer: whether to fit a mixture of normals to a log density too. True does so with the
        gradients that one normal has left; False never does. None does so, for up to 50 variables,
        if the normal is 0.05 nats or more from the posterior or the starts found other modes of
        similar weight; the fit of the normal ends as soon as this is clear. `fit.verdict` says
        whether the result is the normal or the mixture; `fit.report.other` is the bound of the
        other.
      stage: `fit.report.stage` of a fit that Ctrl-C stopped, with the same model, data, key and
        arguments: the fit resumes there, and ends as if it had never been stopped, bit for bit. It
        does not repeat searches for modes, nor the steps before the last new draws; independent
        normals and passes over minibatches start again. For conjugate form use
        `vijax.fit(fit.alg, ..., state=fit.state)` instead.

    After Ctrl-C the best so far is returned; its verdict says "Stopped early". A second Ctrl-C
    stops at once.

    Returns:
      A `Fit` with `fit.verdict`, a few sentences in plain words; `fit.elbo` with its standard
      error; `fit.khat`; `fit.modes`; and `fit.report` with all of these. `fit.sample(key, n)`
      returns draws of q, without weights.

    Raises:
      ValueError: an argument that makes no sense, or that this kind of model does not read; a
        density that is finite at no start.

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> model = vi.density({"x": vi.free(3, "positive")}, lambda v: jnp.sum(2 * jnp.log(v["x"]) - v["x"]))
    >>> fit = vi.auto(model, key=jax.random.key(0))
    >>> print(fit.sample(jax.random.key(1), 4000)["x"].mean().round(0))
    3.0
    """
    check_model(model)
    check_process()
    require_on_host("vijax.auto", data, key, model.hyper, model.form.given)
    check_key(key)
    counts = {"num_starts": num_starts, "max_gradients": max_gradients}
    require_integers(**{name: count for name, count in counts.items() if count is not None})
    require_integers(8, max_draws=MAX_DRAWS if max_draws is None else max_draws)
    density = model.log_density
    if density is None:
        _check_conjugate(
            model,
            max_draws=max_draws,
            max_gradients=max_gradients,
            batch_size=batch_size,
            richer=richer,
            stage=stage,
        )
        method = by_steps.fit_conjugate if model.free is None else by_steps.fit_mixed
        return method(model, data, key=key, num_starts=num_starts)
    options = _Options(
        num_starts or NUM_STARTS, max_draws or MAX_DRAWS, max_gradients, batch_size, richer
    )
    fit = _fit_density(model, density, data, key, options, stage)
    fit = _with_roughness(model, density, data, fit, keys.seed(key))
    return fit._replace(columns=find_names(data))


class _Options(NamedTuple):
    """Arguments of `auto` that a log density reads."""

    num_starts: int
    max_draws: int
    max_gradients: int | None
    batch_size: int | None
    richer: bool | None


def _fit_density(
    model: Model,
    density: LogDensity,
    data: Any,
    key: PRNGKeyArray,
    options: _Options,
    stage: Stage | None,
) -> Fit:
    """The fit of a log density, or of a cheap density that is near enough at its mode."""
    task = _Task(
        model, density, functools.partial(Target.from_data, model, data), key, options, stage
    )
    nearby = _nearby(model, data, options)
    if nearby is not None:
        fit = _fit_target(task._replace(make=functools.partial(Target.from_nearby, nearby)))
        errors = _nearby_errors(nearby, density, fit, keys.seed(key))
        # After Ctrl-C no other fit is begun.
        if errors is None or fit.report.stage is not None or _is_near(errors):
            error = "a part that was not computed, after Ctrl-C"
            if errors is not None:
                error = f"{np.abs(errors).max():.1g} nats"
            verdict = f"{fit.report.verdict} {nearby.sentence.format(error=error)}"
            return fit._replace(report=fit.report._replace(verdict=verdict))
    return _fit_target(task)


def _is_near(errors: Float[np.ndarray, " draws"]) -> bool:
    """True for errors of a nearby density that leave its fit as it is; False for infinite ones."""
    return bool(np.abs(errors).max() < FARTHEST and errors.std() < NEARBY)


def _nearby_errors(
    nearby: Nearby, density: LogDensity, fit: Fit, seed: int
) -> Float[np.ndarray, " draws"] | None:
    """The errors of a nearby density at draws of a fit, in nats; None after Ctrl-C, which does not
    lose the fit."""
    try:
        return nearby.errors(_judged_values(density, fit, seed))
    except KeyboardInterrupt:
        return None


class _Task(NamedTuple):
    """A log density, and the arguments of its fit."""

    model: Model
    density: LogDensity
    make: Callable[[bool], Target]  # makes the target, in double precision or not
    key: PRNGKeyArray
    options: _Options
    stage: Stage | None


def _nearby(model: Model, data: Any, options: _Options) -> Nearby | None:
    """The model's density near its mode, made once for all fits to the model's data; None if the
    model has none, or the user asks for minibatches."""
    is_own = data is None or data is model.form.given
    if model.form.nearby is None or not is_own or options.batch_size is not None:
        return None
    make = model.form.nearby
    data = model.form.given
    cache_key = ("nearby", jnp.result_type(float))
    try:
        return cached_program(model.log_density, cache_key, lambda _: make(data))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(NOT_BEGUN) from None


def _with_roughness(model: Model, density: LogDensity, data: Any, fit: Fit, seed: int) -> Fit:
    """The fit, with a sentence in its verdict on what is approximate in the density itself."""
    roughness = model.form.roughness
    is_own = data is None or data is model.form.given
    if roughness is None or not is_own or not fit.report.usable or fit.report.stage is not None:
        return fit
    if not roughness.num_draws:
        return fit
    sentence = roughness(_judged_values(density, fit, seed, roughness.num_draws))
    verdict = f"{fit.report.verdict} {sentence}".rstrip()
    return fit._replace(report=fit.report._replace(verdict=verdict))


def _judged_values(
    density: LogDensity, fit: Fit, seed: int, number: int = NEARBY_DRAWS
) -> dict[str, Any]:
    """Values of the variables at some of the draws on which the fit was judged."""
    draws = fit.report.coordinates
    rows = np.random.default_rng([seed, 61]).choice(
        len(draws), min(number, len(draws)), replace=False
    )
    program = cached_program(density, _bind_values, _bind_values)
    return program(np.asarray(draws[rows], jnp.result_type(float)))


def _bind_values(density_ref: Any) -> Callable[..., Any]:
    return quick_jit(jax.vmap(lambda x: density_ref().values_at(x)))


def _fit_target(task: _Task) -> Fit:
    """The fit of a log density on the host, in float64 where float32 would move it."""
    single = _Single(task.stage.moved) if isinstance(task.stage, Stage) else _Single()
    fit = _fit_in_precision(task, single)
    if isinstance(fit, _Single):
        fit = _fit_in_precision(task._replace(stage=None), fit)
        assert isinstance(fit, Fit)
    return fit


class _Single(NamedTuple):
    """A fit in float32 that is not precise enough."""

    # standard deviations by which float32 moves means or sds; 0 if that is not known
    error: float = 0.0
    gradients: int = 0  # evaluated so far


def _fit_in_precision(task: _Task, single: _Single) -> Fit | _Single:
    """The fit of a log density; after an imprecise fit in float32 in float64. A `_Single` if it is
    such a fit itself."""
    density, options = task.density, task.options
    target = task.make(single.error > 0)
    seed = keys.seed(task.key)
    target.num_gradients = single.gradients
    usual = max(FEWEST_GRADIENTS, A_VARIABLE * min(target.dim, MOST_FULL)) + single.gradients
    max_gradients = options.max_gradients or usual
    size = _batch_size(target, density, options.batch_size)
    _check_richer(options.richer, target.dim, size)
    is_small = target.dim <= MOST_FULL
    has_hierarchy = density.hierarchy is not None
    check_stage(task.stage, target.dim, options.num_starts, is_small, has_hierarchy)
    with interrupt_flag() as asked:
        if size is None:
            target, max_gradients = _choose_coordinates(task, target, max_gradients, asked.is_set)
        run = Run(target, max_gradients, asked.is_set)
        watcher = Watcher(asked, task.stage)
        finish = functools.partial(_finish, task, single, run, watcher)
        if not is_small:
            return finish(*_many_variables(run, watcher, seed, options.num_starts)).as_fit()
        if size is None:
            return _fit_few_variables(task, run, watcher, finish)
        return finish(*_fit_batches(task, run, watcher, size)).as_fit()


def _choose_coordinates(
    task: _Task, target: Target, max_gradients: int, stopped: Callable[[], bool]
) -> tuple[Target, int]:
    """The target in coordinates of its hierarchy, which are learnt first, and the limit of
    gradients with what this takes."""
    hierarchy, stage = task.density.hierarchy, task.stage
    if hierarchy is not None:
        reference = None if stage is None else stage.reference
        num_gradients = most_gradients(hierarchy)
        if task.options.max_gradients is None:
            max_gradients += num_gradients
        if reference is None:
            limit = min(num_gradients, max_gradients // 2)
            reference = learn_coordinates(target, hierarchy, keys.seed(task.key), limit, stopped)
        target = target.with_coordinates(reference)
    if target.dim <= MOST_FULL:
        # One program serves bent coordinates too.
        target = target.with_coordinates(target.reference, Bend.none(target.dim))
    return target, max_gradients


def _finish(
    task: _Task,
    single: _Single,
    run: Run,
    watcher: Watcher,
    q: Gaussian,
    candidates: list[Candidate],
) -> _NormalFit:
    """A fitted normal with all that its report reads."""
    target = run.target
    labels = _labels(target, candidates[0].mode, q.sds, keys.seed(task.key))
    return _NormalFit(
        task.model,
        run,
        q._replace(reference=target.reference, bend=target.bend),
        SearchResult(candidates, labels, task.options.num_starts),
        watcher,
        task.key,
        float32_error=single.error,
    )


def _fit_few_variables(
    task: _Task, run: Run, watcher: Watcher, finish: Callable[..., _NormalFit]
) -> Fit | _Single:
    """The fit of a normal of full covariance, or of a mixture, to all groups at once; a `_Single`
    where float32 is not precise enough."""
    options, target = task.options, run.target
    seed = keys.seed(task.key)
    misfit = Misfit(target.dim, options.richer)
    q, candidates = _normal(run, watcher, seed, options.num_starts, options.max_draws, misfit)
    normal = finish(q, candidates)
    if q.ended not in STOPPED and _may_be_rounded(task.model, target):
        error = float32_error(target, lambda: task.make(True), q, seed)
        if error > limits.OFF_IN_FLOAT32:
            return _Single(error, target.num_gradients + 2 * COMPARED)
        normal = normal._replace(float32_error=error if np.isnan(error) else 0.0)
    normal = _bend(normal, options.max_draws, misfit)
    if options.max_gradients is None and options.richer is None:
        normal = normal.with_gradients(OF_A_MIXTURE_ALONE)
    return _normal_or_mixture(normal, misfit)


def _fit_batches(
    task: _Task, run: Run, watcher: Watcher, size: int
) -> tuple[Gaussian, list[Candidate]]:
    """The normal of full covariance of many groups, and the modes: by a sample, then by all groups
    at once or in passes."""
    options, target = task.options, run.target
    seed = keys.seed(task.key)
    sample = Target(task.density, *many_groups.draw_sample(target.groups, target.dim, seed))
    sample_run = run._replace(target=sample)
    misfit = Misfit(target.dim, False)
    q, candidates = _normal(
        sample_run, watcher, seed, options.num_starts, options.max_draws, misfit
    )
    target.num_gradients = sample.num_gradients
    if q.ended in STOPPED:
        return q, candidates
    q, candidates = many_groups.climb_all_groups(run, q, candidates, seed)
    if options.batch_size is None:
        q = many_groups.fit_at_once(run, q, seed, options.max_draws)
    if q.ended not in (*STOPPED, Ended.CONVERGED):
        q = many_groups.fit_all(task.model, target.groups, q, size, task.key)
    return q, candidates


STOPPED = Ended.UNBOUNDED, Ended.INTERRUPTED


def _may_be_rounded(model: Model, target: Target) -> bool:
    """True where float64 should check the fit: for a user's density that float32 computes at once.
    Sums over many rows are taken in float64 anyway, and regressions by a formula are written for
    float32."""
    has_double = (
        not target.is_double
        and jnp.result_type(float) == jnp.float32
        and jax.default_backend() != "tpu"
    )
    return has_double and target.num_rows < MANY_ROWS and not model.form.in_units_of_given


def _labels(target: Target, mode: Mode, sds: np.ndarray, seed: int) -> list[Exchange]:
    """The labels that may be exchanged, in free coordinates, where entries are alike."""
    if target.is_free:
        return exchanges(target, mode.x, sds, seed)
    noise = draw_noise(FIXED, target.dim, [seed, 17])
    x = target.to_free(np.concatenate([mode.x[None], mode.x + sds * noise]))
    x = x[np.isfinite(x).all(1)]
    if len(x) <= 1:
        return []
    return exchanges(target.with_coordinates(None), x[0], np.maximum(x.std(0), 1e-6), seed)


def _check_conjugate(model: Model, **arguments: Any) -> None:
    """Raises ValueError on a model with networks, and on arguments that only densities read."""
    constraints = (model.constraints or {}).items()
    points = [name for name, constraint in constraints if constraint == real()]
    expected = "one without points to learn (networks)"
    remedy = "vijax.aevb(model) learns them, or vijax.svi(model, learn=...)."
    require(not points, "model", expected, f"one with {points}", remedy)
    for name, value in arguments.items():
        remedy = REMEDIES.get(name, "Leave it out.")
        actual = "one" if isinstance(value, Stage) else value
        require(value is None, name, "none for a model that is no log density", actual, remedy)


REMEDIES = {
    "batch_size": "vijax.fit(vijax.svi(model), data, batch_size=...) takes minibatches.",
    "stage": "vijax.fit(fit.alg, data, key=key, state=fit.state, ...) goes on.",
}


def _batch_size(target: Target, density: LogDensity, batch_size: int | None) -> int | None:
    """The groups at a step; None for all of them."""
    num_groups = target.num_groups
    is_small = target.dim <= MOST_FULL
    if batch_size is not None:
        require(density.has_groups, "batch_size", "none: the density is a whole", batch_size)
        require_integers(batch_size=batch_size)
        expected = f"at most the {num_groups} groups of the data"
        require(batch_size <= num_groups, "batch_size", expected, batch_size)
        expected = f"none beyond {MOST_FULL} variables"
        require(is_small, "batch_size", expected, batch_size, "Use vijax.advi.")
        return batch_size
    is_large = density.has_groups and target.num_rows >= MANY_ROWS and num_groups >= FEWEST_GROUPS
    return min(BATCH_OF_MANY, num_groups) if is_large and is_small else None


def _check_richer(richer: bool | None, dim: int, batch_size: int | None) -> None:
    """Raises ValueError on values other than True, False and None, and where no mixture can be
    fitted."""
    is_valid = richer is None or isinstance(richer, bool)
    require(is_valid, "richer", "True, False or None", repr(richer))
    if not richer:
        return
    remedy = "Use vijax.advi(model, guide=vijax.guides.mixture(components))."
    require(dim <= MOST_FULL, "richer", f"False beyond {MOST_FULL} variables", richer, remedy)
    is_full = batch_size is None
    require(is_full, "richer", "False where minibatches are taken", richer, remedy)


# --- normals --------------------------------------------------------------------------------------
def _many_variables(
    run: Run, watcher: Watcher, seed: int, num_starts: int
) -> tuple[Gaussian, list[Candidate]]:
    """Fits a normal of full covariance by second derivatives, if these are available; else
    independent normals, with directions of dependence if these raise the bound."""
    target = run.target
    candidates = watcher.find_modes(
        target, lambda: find_modes(target, seed, num_starts, run.stopped), num_starts
    )
    candidates, _ = with_bounds(target, candidates, seed)
    start = candidates[0].mode
    if _has_one_mode(target, candidates, num_starts):
        full = curved.fit_at_mode(run, start, seed)
        if full is not None:
            return full, candidates
    plain = low_rank.independent(run, start, seed)
    full = curved.fit(run, plain, seed)
    if full is not None and full.ended in (Ended.CONVERGED, *STOPPED):
        return full, candidates
    low_rank_q = low_rank.fit(run, plain, start, seed)
    if full is None or low_rank_q.ended is Ended.UNBOUNDED:
        return low_rank_q, candidates
    gain, error = low_rank.compare_bounds(target, low_rank_q, full, [seed, 92])
    return (full if gain > 2 * error else low_rank_q), candidates


def _normal(
    run: Run, watcher: Watcher, seed: int, num_starts: int, max_draws: int, misfit: Misfit
) -> tuple[Gaussian, list[Candidate]]:
    """Fits a normal of full covariance."""
    target = run.target
    if watcher.stage is None:
        share = SEARCH_SHARE * (run.max_gradients - target.num_gradients)
        limit = target.num_gradients + max(share, A_START * num_starts)
        candidates = find_modes(
            target, seed, num_starts, lambda: run.stopped() or target.num_gradients > limit
        )
        is_cut = target.num_gradients > limit
        is_simple = _has_one_mode(target, candidates, num_starts) and not misfit.is_tried
        if is_simple and not is_cut and target.dim >= FEWEST_CURVED and target.has_many_products:
            candidates, _ = with_bounds(target, candidates, seed)
            q = curved.fit_at_mode(run, candidates[0].mode, seed)
            if q is not None:
                return q, candidates
        draws = FIXED // 2 if misfit.is_tried else FIXED  # a mixture needs no exact start
        start, candidates = _best_start(run, candidates, seed, is_cut, draws)
        if run.stopped():
            return start._replace(ended=Ended.INTERRUPTED), candidates
        stage = make_stage(candidates, num_starts, Sitting.begin(start), target.num_gradients)
        watcher.stage = stage._replace(reference=target.file_reference)
    watcher.first_stage = watcher.stage
    candidates = watcher.stage.candidates()
    target.num_gradients = watcher.stage.gradients
    sitting = watcher.stage.sitting
    assert sitting is not None
    note = functools.partial(watcher.note, target)
    misfits = functools.partial(misfit.detect, rivalry(target, candidates, seed))
    return trust_region.fit(run, sitting, seed, max_draws, note, misfits), candidates


def _has_one_mode(target: Target, candidates: list[Candidate], num_starts: int) -> bool:
    """True where all searches of a density without a hierarchy ended at one mode."""
    return target.reference is None and candidates[0].num_starts == num_starts


def _best_start(
    run: Run, candidates: list[Candidate], seed: int, is_cut: bool, draws: int
) -> tuple[Gaussian, list[Candidate]]:
    """The normal at the mode with the highest bound, and the modes with their bounds.

    Independent normals from the middle of the box where searches begin replace it if they are
    better: the mode of a funnel is where a scale is zero. They are always tried if searches were
    cut short."""
    target = run.target
    candidates, best = with_bounds(target, candidates, seed, is_cut)
    noise = draw_noise(32, target.dim, [seed, 99])
    middle = Gaussian(np.zeros(target.dim), MIDDLE * np.eye(target.dim), 0.0)
    if rough_bound(target, middle, noise) <= best.elbo and not is_cut:
        return best, candidates
    begin = Mode(middle.mean, 0.0, np.full(target.dim, MIDDLE))
    plain = climb(
        OnDraws(target, unit_noise(draws, target.dim, seed)),
        begin,
        FIRST_STEPS,
        stopped=run.stopped,
    )
    plain = plain._replace(scale=np.diag(plain.scale))
    plain = plain._replace(elbo=rough_bound(target, plain, noise))
    return (plain if plain.elbo > best.elbo else best), candidates


def _bend(normal: _NormalFit, max_draws: int, misfit: Misfit) -> _NormalFit:
    """The normal of bent coordinates, where the posterior is skewed. After Ctrl-C it is the normal
    before, and a fit that resumes bends again."""
    run, q, watcher = normal.run, normal.q, normal.watcher
    seed = keys.seed(normal.key)
    if q.ended in STOPPED or not q.is_full:
        return normal
    has_rivals = rivalry(run.target, normal.search.candidates, seed)
    is_scarce = misfit.is_detected and not run.affords(OF_A_MIXTURE)
    if is_scarce or has_rivals(q):  # gradients are worth more in a mixture
        return normal
    misfit.is_detected = False
    misfits = functools.partial(misfit.detect, has_rivals)
    better = fit_bent(run, q, seed, max_draws, misfits)
    if run.stopped():
        watcher.stage = watcher.first_stage
        return normal._replace(q=q._replace(ended=Ended.INTERRUPTED))
    if better is None:
        return normal
    return normal._replace(
        run=run._replace(target=better.target),
        q=better.q._replace(reference=better.target.reference, bend=better.target.bend),
        search=move_search(normal.search, run.target, better.target),
        plain=normal.q.elbo,
    )


# --- one normal or a mixture ----------------------------------------------------------------------
class _NormalFit(NamedTuple):
    """A fitted normal."""

    model: Model  # the density
    run: Run  # the density on the host, and the limits
    q: Gaussian  # the normal
    search: SearchResult  # the modes
    watcher: Watcher  # keeps the stage for Ctrl-C
    key: PRNGKeyArray  # random key of the fit
    plain: float = np.inf  # bound of the normal before its coordinates were bent
    # Standard deviations by which float32 would move it, if it was computed in float64; NaN if that
    # is not known
    float32_error: float = 0.0

    def report(
        self,
        q: Gaussian | Mixture,
        normal: Gaussian | None = None,
        passed_over: Sequence[Candidate] = (),
    ) -> Report:
        """The report on this normal, or on a mixture that began at it; `passed_over` are modes that
        the normal did not describe."""
        report = assess(
            self.model,
            self.run.target,
            q,
            self.search,
            keys.seed(self.key),
            normal,
            self.run.max_gradients,
            passed_over,
            self.plain,
        )
        verdict = report.verdict
        if self.float32_error > 0:
            verdict = f"{verdict} {double_sentence(self.float32_error)}"
        return report._replace(single=self.float32_error, verdict=verdict)

    def with_gradients(self, fewest: int) -> _NormalFit:
        """This fit with so many gradients left, at least."""
        limit = max(self.run.max_gradients, self.run.target.num_gradients + fewest)
        return self._replace(run=self.run._replace(max_gradients=limit))

    def as_fit(self, report: Report | None = None) -> Fit:
        """The normal as a fit, with its report."""
        stage = self.watcher.stage if self.q.ended is Ended.INTERRUPTED else None
        if stage is not None:
            stage = stage._replace(moved=np.nan_to_num(self.float32_error, posinf=np.inf))
        report = report or self.report(self.q)
        return as_fit(self.model, self.q, report._replace(stage=stage), self.key)


class Misfit:
    """Decides whether one normal is not enough.

    Attributes:
      is_tried: True if a mixture may be tried.
      is_detected: True if the fit of one normal ended early, because no normal will do.
    """

    def __init__(self, dim: int, richer: bool | None):
        self.is_tried = dim <= mixture.MOST_DIM if richer is None else richer
        self.is_detected = False
        self._richer = richer

    def detect(self, has_rivals: Callable[[Gaussian], bool], q: Gaussian, gap: float) -> bool:
        """True, and noted, where gradients are worth more in a mixture than in less noise of the
        normal."""
        self.is_detected = self.is_tried and (gap > EARLY or has_rivals(q))
        return self.is_detected

    def is_worth(self, report: Report, has_rivals: bool) -> bool:
        """True where a mixture should be tried, by the report on the normal."""
        if self._richer is not None:
            return self._richer
        is_rounded = report.rounding > limits.ROUNDING_HIDES and not has_rivals
        is_misfit = self.is_detected or report.gap >= limits.CLOSE or has_rivals
        return self.is_tried and report.zero <= limits.RARE and not is_rounded and is_misfit


def rivalry(target: Target, candidates: list[Candidate], seed: int) -> Callable[[Gaussian], bool]:
    """A function that is true for a normal which leaves other modes of similar weight."""
    has_several = sum(np.isfinite(x.elbo) for x in candidates) > 1  # q may have left the only one
    mode = candidates[0].mode
    labels = functools.cache(lambda: _labels(target, mode, mode.sds, seed))

    def has_rivals(q: Gaussian) -> bool:
        if not has_several:
            return False
        return bool(rivals(q, SearchResult(candidates, labels(), len(candidates)), target))

    return has_rivals


def _normal_or_mixture(normal: _NormalFit, misfit: Misfit) -> Fit:
    """The normal, or a mixture that begins at it, whichever has the higher bound.

    After Ctrl-C it is the normal, and a fit that resumes fits the mixture from its start.
    """
    run, q, watcher = normal.run, normal.q, normal.watcher
    report = normal.report(q)
    modes = [candidate.mode for candidate in report.away]
    has_others = bool(modes) or bool(report.widths)
    if q.ended is Ended.INTERRUPTED or not report.usable or not misfit.is_worth(report, has_others):
        return normal.as_fit(report)
    dim = run.target.dim
    if not run.affords(mixture.fewest_gradients(dim) + 2 * dim * len(modes)):
        return normal.as_fit(report._replace(verdict=f"{report.verdict} {NO_GRADIENTS_LEFT}"))
    parts = [laplace(run.target, mode)[0] for mode in modes]
    parts += [width.normal for width in report.widths]
    mixed = mixture.fit(run, q, parts, keys.seed(normal.key))
    if run.stopped():
        # From a normal at its end, the fit would take one step more.
        watcher.stage = watcher.first_stage
        return normal._replace(q=q._replace(ended=Ended.INTERRUPTED)).as_fit()
    mixed_report = normal.report(mixed, q, report.away)
    is_better, report = compare_reports(report, mixed_report, len(mixed.parts))
    sentence = mixture_end_sentence(mixed.ended, mixed.rise, run.max_gradients)
    report = report._replace(verdict=f"{report.verdict} {sentence}".rstrip())
    if is_better:
        return as_mixture(normal.model, mixed, q, report, normal.key)
    return normal.as_fit(report)

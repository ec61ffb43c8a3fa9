"""The default method, `vijax.auto`: nothing to choose, and a verdict."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

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
from vijax.verdict.words import NO_GRADIENTS_LEFT, mixture_spent
from vijax.xla import keys
from vijax.xla.compiler import cached_program, quick_jit

MOST_FULL = 300  # dimensions up to which a full covariance is fitted
BATCH_OF_MANY = 500  # groups of a minibatch, where it is not given
FEWEST_GROUPS = 1_000  # groups of which a sample tells where all of them lead, at least
NUM_STARTS, MAX_DRAWS = 16, 2048  # defaults of a log density
FEWEST_GRADIENTS, A_VARIABLE = 3000, 250
"""The default limit of gradients; or so many for each variable of a full covariance, if that is
more: with 40 it had not left its start, for nearly the same time."""
NEARBY, NEARBY_DRAWS = 0.05, 8
"""Nats by which a density that is like the model's may be off at draws of the fit, and the draws
that are looked at."""
OF_A_MIXTURE = 1500
"""Gradients with fewer of which a mixture is tried at once, where one normal will not do: bends may
gain nothing."""
FIRST_STEPS = 20  # steps of independent normals, where a full covariance begins at them
SEARCHED, A_START = 0.2, 40
"""Searches for modes may take this share of the gradients, or so many a start, if that is more:
where there is no mode, as in a funnel, they would go on for long."""
EARLY = 2 * limits.CLOSE
"""A larger gap, in nats, ends the fit of one normal early; half of it may be the noise of draws."""


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

    A log density (`vijax.density`) is searched for modes from several starts side by side. From the
    best mode on a normal with full covariance is fitted by natural gradients from least squares of
    scores, in a trust region, on fixed draws; there are more draws when their noise is all that is
    left. Coordinates along which the posterior is skewed are then bent, and the normal is fitted
    again. Where the posterior is not normal even so, a mixture of up to eight normals is fitted
    too, each within a trust region of its own, and kept where its bound is higher beyond doubt.
    Beyond 300 variables, up to 3,000, the normal of full covariance is fitted from second
    derivatives, which take few products where the density is sparse (groups, chains, maps); where
    it has kinks, and beyond, independent normals are fitted, with up to 32 directions of dependence
    beside them where the bound is higher so. Variables whose law depends on others
    (`vijax.free(..., loc=, scale=)`, hierarchies of NumPyro) are fitted in coordinates that are
    learnt first, from what the data say of each. Where float32 rounds the density so much that
    means or sds move, it is fitted in float64, and the verdict says so. A model in conjugate form
    is fitted by coordinate ascent from several starts where the data are small (5,000 groups, 200
    documents), else by incremental or stochastic steps; an energy with free variables by stochastic
    steps until the bound rises no more. Of a normal `vijax.glmm` of many groups the likelihood is
    computed at a few places about its mode and interpolated; the verdict says how far off that is,
    and the density itself is fitted where it is not close.

    Args:
      model: any `vijax.Model` without networks.
      data: the data that the model reads; None for a density that reads none, and for a model that
        has its data (`vijax.glmm`, Gaussian processes, generalised linear models).
      key: random key of starts and draws.
      num_starts: number of starts, side by side. For a log density half of the searches for modes
        begin near zero, half as far apart as the prior is wide; None is 16. For other models None
        is 8; 4 for 200 to 5,000 documents and for an energy with free variables; 1 for larger data
        in conjugate form.
      max_draws: largest number of fixed draws for a log density; None is 2,048. More of them help
        where a fit was "limited by the noise of its draws".
      max_gradients: largest number of gradients in all for a log density: no step is taken that
        would need more, a mixture's included. Searches for modes may take a fifth of them, or 40 a
        start, the end of their last step not counted; ten first steps of independent normals, and
        passes over minibatches, are not cut short. None is 3,000, or 250 a variable of a full
        covariance where that is more, and besides for the coordinates of a hierarchy 2,500 and
        1,056 for each of its levels. Where a mixture stops at this limit, `fit.verdict` says by how
        many nats its bound still rose in a thousand gradients.
      batch_size: groups at a step for a density with a `log_lik` of groups: passes over all of them
        begin at the mode, which is found from a fit to a sample on. None takes all groups at once.
        From 50,000 rows on it begins at that mode too, and takes 500 groups at a step where 16 sets
        of draws are not enough.
      richer: whether to fit a mixture of normals to a log density too, which describes more than
        one normal can. True does so with the gradients that one normal has left; False never does.
        None does so where the normal is 0.05 nats or more from the posterior, or the starts found
        other modes of similar weight, for up to 50 variables; the normal then stops as soon as that
        is seen. `fit.verdict` says which of both was kept, and `fit.report.other` is the bound of
        the other.
      stage: `fit.report.stage` of a fit that Ctrl-C stopped, with the same model, data, key and
        arguments: the fit goes on from there, to the end of a fit that was never stopped, bit for
        bit. Searches for modes are not repeated, nor the steps before the last draws were taken;
        independent normals and passes over minibatches begin anew. In conjugate form
        `vijax.fit(fit.alg, ..., state=fit.state)` goes on instead.

    After Ctrl-C the best so far is returned; its verdict says "Stopped early". A second Ctrl-C
    stops at once.

    Returns:
      A `Fit` with `fit.verdict`, a few sentences in plain words; `fit.elbo` with its standard
      error; `fit.khat`; `fit.modes`; and `fit.report` with all of these. `fit.sample(key, n)` draws
      from q, never weighted.

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
    given = {"num_starts": num_starts, "max_gradients": max_gradients}
    require_integers(**{name: value for name, value in given.items() if value is not None})
    require_integers(8, max_draws=MAX_DRAWS if max_draws is None else max_draws)
    density = model.log_density
    if density is None:
        given = {
            "max_draws": max_draws,
            "max_gradients": max_gradients,
            "batch_size": batch_size,
            "richer": richer,
        }
        _check_conjugate(model, **given, stage=stage)
        of = by_steps.of_conjugate if model.free is None else by_steps.of_mixed
        return of(model, data, key=key, num_starts=num_starts)
    wanted = _Wanted(
        num_starts or NUM_STARTS, max_draws or MAX_DRAWS, max_gradients, batch_size, richer
    )
    return _of_density(model, density, data, key, wanted, stage)._replace(columns=find_names(data))


class _Wanted(NamedTuple):
    """Arguments of `auto` that a log density reads."""

    num_starts: int
    max_draws: int
    max_gradients: int | None
    batch_size: int | None
    richer: bool | None


def _of_density(
    model: Model,
    density: LogDensity,
    data: Any,
    key: PRNGKeyArray,
    wanted: _Wanted,
    stage: Stage | None,
) -> Fit:
    """Returns the fit of a log density: by one that is like it near its mode, where that is cheap
    and close enough."""
    task = _Task(
        model, density, functools.partial(Target.from_data, model, data), key, wanted, stage
    )
    nearby = _nearby(model, data, wanted)
    if nearby is not None:
        fit = _of_target(task._replace(make=functools.partial(Target.from_nearby, nearby)))
        errors = nearby.errors(_values_at(density, fit, keys.seed(key)))
        worst = float(np.abs(errors).max())
        if worst < NEARBY:
            sentence = nearby.sentence.format(error=f"{worst:.1g} nats")
            return fit._replace(
                report=fit.report._replace(verdict=f"{fit.report.verdict} {sentence}")
            )
    return _of_target(task)


class _Task(NamedTuple):
    """A log density on the host, and all that its fit is asked for."""

    model: Model
    density: LogDensity
    make: Callable[[bool], Target]  # in double precision or not
    key: PRNGKeyArray
    wanted: _Wanted
    stage: Stage | None


def _nearby(model: Model, data: Any, wanted: _Wanted) -> Nearby | None:
    """Returns what the model's own data are near the mode, made once for all fits; None where there
    is no such thing, or minibatches are asked for."""
    is_own = data is None or data is model.form.given
    if model.form.nearby is None or not is_own or wanted.batch_size is not None:
        return None
    near, data = model.form.nearby, model.form.given
    return cached_program(
        model.log_density, ("nearby", jnp.result_type(float)), lambda _: near(data)
    )


def _values_at(density: LogDensity, fit: Fit, seed: int) -> dict[str, Any]:
    """Returns values of the variables at some draws on which the fit was judged."""
    draws = fit.report.coordinates
    chosen = np.random.default_rng([seed, 61]).choice(
        len(draws), min(NEARBY_DRAWS, len(draws)), replace=False
    )
    free = np.asarray(draws[chosen], jnp.result_type(float))
    program = cached_program(density, _values_at, _values_of)
    return program(free)


def _values_of(density: Any) -> Callable[..., Any]:
    return quick_jit(jax.vmap(lambda x: density().values_at(x)))


def _of_target(task: _Task) -> Fit:
    """Returns the fit of a log density on the host, in float64 where float32 would move it."""
    single = _Single(task.stage.moved) if isinstance(task.stage, Stage) else _Single()
    fit = _in_precision(task, single)
    if isinstance(fit, _Single):
        fit = _in_precision(task._replace(stage=None), fit)
        assert isinstance(fit, Fit)
    return fit


class _Single(NamedTuple):
    """A fit in float32 that was given up."""

    # standard deviations by which float32 moves means or sds; 0 where nothing is known of it
    moved: float = 0.0
    gradients: int = 0  # evaluated so far


def _in_precision(task: _Task, single: _Single) -> Fit | _Single:
    """Returns the fit of a log density; in float64 after one in float32 that was given up. Or the
    latter."""
    model, density, make, key, wanted, stage = task
    num_starts, max_draws, max_gradients, batch_size, richer = wanted
    target, seed = make(single.moved > 0), keys.seed(key)
    target.num_gradients = single.gradients
    budget = (
        max_gradients
        or max(FEWEST_GRADIENTS, A_VARIABLE * min(target.dim, MOST_FULL)) + single.gradients
    )
    size = _batch_size(target, density, batch_size)
    _check_richer(richer, target.dim, size)
    check_stage(
        stage, target.dim, num_starts, target.dim <= MOST_FULL, density.hierarchy is not None
    )
    with interrupt_flag() as asked:
        if density.hierarchy is not None and size is None:
            reference = None if stage is None else stage.reference
            learning = most_gradients(density.hierarchy)
            if max_gradients is None:
                budget += learning
            if reference is None:
                reference = learn_coordinates(
                    target, density.hierarchy, seed, min(learning, budget // 2), asked.is_set
                )
            target = target.with_coordinates(reference)
        if target.dim <= MOST_FULL and size is None:
            target = target.with_coordinates(
                target.reference, Bend.none(target.dim)
            )  # one program serves bent coordinates too
        watcher = Watcher(asked, stage)
        run = Run(target, budget, asked.is_set)

        def done(q: Gaussian, found: list[Candidate]) -> _Done:
            labels = _labels(target, found[0].mode, q.sds, seed)
            q = q._replace(reference=target.reference, bend=target.bend)
            return _Done(
                model,
                run,
                q,
                SearchResult(found, labels, num_starts),
                watcher,
                key,
                moved=single.moved,
            )

        if target.dim > MOST_FULL:
            return done(*_many_variables(run, watcher, seed, num_starts)).as_fit()
        if size is None:
            misfit = Misfit(target.dim, richer)
            q, found = _normal(run, watcher, seed, num_starts, max_draws, misfit)
            normal = done(q, found)
            if q.ended not in STOPPED and _may_be_rounded(model, target):
                moved = float32_error(target, lambda: make(True), q, seed)
                if moved > limits.OFF_IN_FLOAT32:
                    return _Single(moved, target.num_gradients + 2 * COMPARED)
                normal = normal._replace(moved=moved if np.isnan(moved) else 0.0)
            return _normal_or_mixture(_bent(normal, max_draws, misfit), misfit)
        sample = run._replace(
            target=Target(density, *many_groups.draw_sample(target.groups, target.dim, seed))
        )
        q, found = _normal(sample, watcher, seed, num_starts, max_draws, Misfit(target.dim, False))
        target.num_gradients = sample.target.num_gradients
        if q.ended not in STOPPED:
            q, found = many_groups.climb_all_groups(run, q, found, seed)
            if batch_size is None:
                q = many_groups.fit_at_once(run, q, seed, max_draws)
            if q.ended not in (*STOPPED, Ended.CONVERGED):
                q = many_groups.fit_all(model, target.groups, q, size, key)
        return done(q, found).as_fit()


STOPPED = Ended.UNBOUNDED, Ended.INTERRUPTED


def _may_be_rounded(model: Model, target: Target) -> bool:
    """Says whether to ask float64: of a user's density that float32 computes at once. Sums over
    many rows are taken in float64 as it is, and regressions by a formula are written for
    float32."""
    has_double = (
        not target.is_double
        and jnp.result_type(float) == jnp.float32
        and jax.default_backend() != "tpu"
    )
    return has_double and target.num_rows < MANY_ROWS and not model.form.in_units_of_given


def _labels(target: Target, mode: Mode, sds: np.ndarray, seed: int) -> list[Exchange]:
    """Returns the labels that may be exchanged: of the free coordinates, whose entries are
    alike."""
    if target.is_free:
        return exchanges(target, mode.x, sds, seed)
    around = np.concatenate(
        [mode.x[None], mode.x + sds * draw_noise(FIXED, target.dim, [seed, 17])]
    )
    x = target.to_free(around)
    x = x[np.isfinite(x).all(1)]
    return (
        exchanges(target.with_coordinates(None), x[0], np.maximum(x.std(0), 1e-6), seed)
        if len(x) > 1
        else []
    )


def _check_conjugate(model: Model, **given: Any) -> None:
    """Raises ValueError on a model with networks, and on arguments that only densities read."""
    points = [
        name for name, constraint in (model.constraints or {}).items() if constraint == real()
    ]
    remedy = "vijax.aevb(model) learns them, or vijax.svi(model, learn=...)."
    require(
        not points, "model", "one without points to learn (networks)", f"one with {points}", remedy
    )
    for name, value in given.items():
        remedy = REMEDIES.get(name, "Leave it out.")
        got = "one" if isinstance(value, Stage) else value
        require(value is None, name, "none for a model that is no log density", got, remedy)


REMEDIES = {
    "batch_size": "vijax.fit(vijax.svi(model), data, batch_size=...) takes minibatches.",
    "stage": "vijax.fit(fit.alg, data, key=key, state=fit.state, ...) goes on.",
}


def _batch_size(target: Target, density: LogDensity, asked: int | None) -> int | None:
    """Returns the groups at a step; None where all of them are taken."""
    num_groups, dim = target.num_groups, target.dim
    if asked is not None:
        require(density.has_groups, "batch_size", "none: the density is a whole", asked)
        require_integers(batch_size=asked)
        require(
            asked <= num_groups, "batch_size", f"at most the {num_groups} groups of the data", asked
        )
        require(
            dim <= MOST_FULL,
            "batch_size",
            f"none beyond {MOST_FULL} variables",
            asked,
            "Use vijax.advi.",
        )
        return asked
    is_large = density.has_groups and target.num_rows >= MANY_ROWS and num_groups >= FEWEST_GROUPS
    return min(BATCH_OF_MANY, num_groups) if is_large and dim <= MOST_FULL else None


def _check_richer(richer: bool | None, dim: int, batch_size: int | None) -> None:
    """Raises ValueError on values other than True, False and None, and where no mixture can be
    fitted."""
    require(
        richer is None or isinstance(richer, bool), "richer", "True, False or None", repr(richer)
    )
    remedy = "Use vijax.advi(model, guide=vijax.guides.mixture(components))."
    require(
        not richer or dim <= MOST_FULL,
        "richer",
        f"False beyond {MOST_FULL} variables",
        richer,
        remedy,
    )
    require(
        not richer or batch_size is None,
        "richer",
        "False where minibatches are taken",
        richer,
        remedy,
    )


# --- normals --------------------------------------------------------------------------------------
def _many_variables(
    run: Run, watcher: Watcher, seed: int, num_starts: int
) -> tuple[Gaussian, list[Candidate]]:
    """Fits a normal of full covariance by second derivatives, where these can be had; else
    independent normals, or normals with directions of dependence where these gain."""
    target = run.target
    found = watcher.searched(
        target, lambda: find_modes(target, seed, num_starts, run.stopped), num_starts
    )
    found, _ = with_bounds(target, found, seed)
    start = found[0].mode
    plain = low_rank.independent(run, start, seed)
    full = curved.fit(run, plain, seed)
    if full is not None and full.ended in (Ended.CONVERGED, *STOPPED):
        return full, found
    low_rank_q = low_rank.fit(run, plain, start, seed)
    if full is None or low_rank_q.ended is Ended.UNBOUNDED:
        return low_rank_q, found
    gain, error = low_rank.compare_bounds(target, low_rank_q, full, [seed, 92])
    return (full if gain > 2 * error else low_rank_q), found


def _normal(
    run: Run, watcher: Watcher, seed: int, num_starts: int, max_draws: int, misfit: Misfit
) -> tuple[Gaussian, list[Candidate]]:
    """Fits a normal of full covariance."""
    target = run.target
    if watcher.stage is None:
        most = target.num_gradients + max(
            SEARCHED * (run.max_gradients - target.num_gradients), A_START * num_starts
        )
        found = find_modes(
            target, seed, num_starts, lambda: run.stopped() or target.num_gradients > most
        )
        draws = FIXED // 2 if misfit.is_tried else FIXED  # a mixture begins anywhere near
        start, found = _best_start(run, found, seed, target.num_gradients > most, draws)
        if run.stopped():
            return start._replace(ended=Ended.INTERRUPTED), found
        stage = make_stage(found, num_starts, Sitting.begin(start), target.num_gradients)
        watcher.stage = stage._replace(reference=target.file_reference)
    watcher.begun = watcher.stage
    found = watcher.stage.candidates()
    target.num_gradients = watcher.stage.gradients
    sitting = watcher.stage.sitting
    assert sitting is not None
    note = functools.partial(watcher.note, target)
    misfits = functools.partial(misfit.is_seen, rivalry(target, found, seed))
    return trust_region.fit(run, sitting, seed, max_draws, note, misfits), found


def _best_start(
    run: Run, found: list[Candidate], seed: int, is_cut: bool, draws: int
) -> tuple[Gaussian, list[Candidate]]:
    """Returns the normal at the mode with the highest bound, and the modes with their bounds.

    Independent normals from the middle of the box where searches begin take its place if they are
    better: the mode of a funnel is where a scale is zero. They are always tried if searches were
    cut short."""
    target = run.target
    found, best = with_bounds(target, found, seed, is_cut)
    noise = draw_noise(32, target.dim, [seed, 99])
    middle = Gaussian(np.zeros(target.dim), MIDDLE * np.eye(target.dim), 0.0)
    if rough_bound(target, middle, noise) <= best.elbo and not is_cut:
        return best, found
    begin = Mode(middle.mean, 0.0, np.full(target.dim, MIDDLE))
    plain = climb(
        OnDraws(target, unit_noise(draws, target.dim, seed)),
        begin,
        FIRST_STEPS,
        stopped=run.stopped,
    )
    plain = plain._replace(scale=np.diag(plain.scale))
    plain = plain._replace(elbo=rough_bound(target, plain, noise))
    return (plain if plain.elbo > best.elbo else best), found


def _bent(done: _Done, max_draws: int, misfit: Misfit) -> _Done:
    """Returns the normal of bent coordinates, where the posterior is skewed. After Ctrl-C the
    normal before is returned, and a fit that goes on bends anew."""
    run, q, watcher, seed = done.run, done.q, done.watcher, keys.seed(done.key)
    if q.ended in STOPPED or not q.is_full:
        return done
    has_rivals = rivalry(run.target, done.searched.candidates, seed)
    is_scarce = misfit.seen and not run.affords(OF_A_MIXTURE)
    if is_scarce or has_rivals(q):  # gradients are worth more in a mixture
        return done
    misfit.seen = False
    misfits = functools.partial(misfit.is_seen, has_rivals)
    better = fit_bent(run, q, seed, max_draws, misfits)
    if run.stopped():
        watcher.stage = watcher.begun
        return done._replace(q=q._replace(ended=Ended.INTERRUPTED))
    if better is None:
        return done
    searched = move_search(done.searched, run.target, better.target)
    q = better.q._replace(reference=better.target.reference, bend=better.target.bend)
    return done._replace(
        run=run._replace(target=better.target), q=q, searched=searched, plain=done.q.elbo
    )


# --- one normal or a mixture ----------------------------------------------------------------------
class _Done(NamedTuple):
    """A normal that has been fitted."""

    model: Model  # the density
    run: Run  # the same on the host, and the limits
    q: Gaussian  # the normal
    searched: SearchResult  # what the starts found
    watcher: Watcher  # of Ctrl-C
    key: PRNGKeyArray  # of the fit
    plain: float = np.inf  # bound of the normal before its coordinates were bent
    # Standard deviations by which float32 would move it, where it was computed in float64; NaN
    # where this is not known
    moved: float = 0.0

    def report(
        self,
        q: Gaussian | Mixture,
        normal: Gaussian | None = None,
        passed_over: Sequence[Candidate] = (),
    ) -> Report:
        """Reports on this normal, or on a mixture that began at it; `passed_over` are modes that
        the normal did not describe."""
        limits = normal, self.run.max_gradients, passed_over, self.plain
        said = assess(self.model, self.run.target, q, self.searched, keys.seed(self.key), *limits)
        words = f"{said.verdict} {double_sentence(self.moved)}" if self.moved > 0 else said.verdict
        return said._replace(single=self.moved, verdict=words)

    def as_fit(self, report: Report | None = None) -> Fit:
        """Returns the normal as a fit."""
        stage = self.watcher.stage if self.q.ended is Ended.INTERRUPTED else None
        stage = (
            None
            if stage is None
            else stage._replace(moved=np.nan_to_num(self.moved, posinf=np.inf))
        )
        return as_fit(
            self.model, self.q, (report or self.report(self.q))._replace(stage=stage), self.key
        )


class Misfit:
    """Decides whether one normal is not enough."""

    def __init__(self, dim: int, asked: bool | None):
        self.is_tried = (
            dim <= mixture.MOST_DIM if asked is None else asked
        )  # whether a mixture may be tried
        self.seen = False  # whether the fit of one normal ended early, because no normal will do
        self._asked = asked

    def is_seen(self, has_rivals: Callable[[Gaussian], bool], q: Gaussian, gap: float) -> bool:
        """Says whether gradients are worth more in a mixture than in less noise of the normal."""
        self.seen = self.is_tried and (gap > EARLY or has_rivals(q))
        return self.seen

    def is_worth(self, said: Report, has_rivals: bool) -> bool:
        """Says whether to try a mixture, by the report on the normal."""
        if self._asked is not None:
            return self._asked
        is_rounded = said.rounding > limits.ROUNDING_HIDES and not has_rivals
        is_misfit = self.seen or said.gap >= limits.CLOSE or has_rivals
        return self.is_tried and said.zero <= limits.RARE and not is_rounded and is_misfit


def rivalry(target: Target, found: list[Candidate], seed: int) -> Callable[[Gaussian], bool]:
    """Returns a function that says whether a normal has other modes beside it, of a weight like its
    own."""
    several = sum(np.isfinite(one.elbo) for one in found) > 1  # q may have left the only one
    labels = functools.cache(lambda: _labels(target, found[0].mode, found[0].mode.sds, seed))
    return lambda q: several and bool(rivals(q, SearchResult(found, labels(), len(found)), target))


def _normal_or_mixture(done: _Done, misfit: Misfit) -> Fit:
    """Returns the normal, or a mixture that begins at it, whichever has the higher bound.

    After Ctrl-C the normal is returned, and a fit that goes on fits the mixture anew.
    """
    model, run, q, watcher, key = done.model, done.run, done.q, done.watcher, done.key
    said = done.report(q)
    others = [one.mode for one in said.away]
    has_others = bool(others) or bool(said.widths)
    if q.ended is Ended.INTERRUPTED or not said.usable or not misfit.is_worth(said, has_others):
        return done.as_fit(said)
    dim = run.target.dim
    if not run.affords(mixture.fewest_gradients(dim) + 2 * dim * len(others)):
        return done.as_fit(said._replace(verdict=f"{said.verdict} {NO_GRADIENTS_LEFT}"))
    normals = [
        *(laplace(run.target, mode)[0] for mode in others),
        *(one.normal for one in said.widths),
    ]
    mixed = mixture.fit(run, q, normals, keys.seed(key))
    if run.stopped():
        watcher.stage = (
            watcher.begun
        )  # a normal at its end is no place to go on from: it would take one step more
        return done._replace(q=q._replace(ended=Ended.INTERRUPTED)).as_fit()
    better, said = compare_reports(said, done.report(mixed, q, said.away), len(mixed.parts))
    said = said._replace(
        verdict=f"{said.verdict} {mixture_spent(mixed.ended, mixed.rise, run.max_gradients)}".rstrip()
    )
    return as_mixture(model, mixed, q, said, key) if better else done.as_fit(said)

"""The default method: nothing to choose, and a verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.automatic import gaussian, low_rank, stochastic
from vijax.automatic.ascent import Mode
from vijax.automatic.chosen import Done, Misfit, of_normal, reported, rivalry
from vijax.automatic.conjugate import of_conjugate
from vijax.automatic.diagonal import on_draws, unit_noise
from vijax.automatic.gaussian import Ended, Gaussian, Sitting
from vijax.automatic.labels import exchanges
from vijax.automatic.low_rank import FIXED, MIDDLE
from vijax.automatic.mixed import of_mixed
from vijax.automatic.on_draws import OnDraws
from vijax.automatic.places import Searched, bounds_of, places, rough_bound, rough_normals
from vijax.automatic.stage import Stage, Watcher, check_stage, stage_of
from vijax.automatic.target import Target
from vijax.checks import require, require_integers
from vijax.constrain import real
from vijax.contract.model import Model
from vijax.fitting.fit_arguments import check_key, check_not_forked
from vijax.fitting.interrupt import interrupt_flag
from vijax.fitting.result import Fit
from vijax.inference.choices import check_model
from vijax.models.energies.density import LogDensity
from vijax.xla import keys

MOST_FULL = 300
"""Dimensions up to which a full covariance is fitted."""
NUM_STARTS, MAX_DRAWS = 16, 2048
"""Of a log density, where the user does not say."""
FIRST_STEPS = 20
"""Of independent normals, where they are what a full covariance begins at."""
SEARCHED, A_START = 0.2, 40
"""Share of the gradients that searches for modes may take, or so many a start: where there is no mode, as in a funnel,
they would go on for long."""


def auto(
    model: Model,
    data: Any = None,
    *,
    key: PRNGKeyArray,
    num_starts: int | None = None,
    max_draws: int | None = None,
    max_gradients: int | None = None,
    batch_size: int | None = None,
    richer: bool | None = None,
    stage: Stage | None = None,
) -> Fit:
    """Fits a model with no choice to make, and says whether to trust the result.

    Of a log density (`vijax.density`): from several starts side by side to the best mode; a normal with full covariance
    by natural gradients from least squares of scores, in a trust region, on fixed draws of which there are more when
    their noise is all that is left. Where the posterior is not normal, a mixture of up to eight normals is fitted too,
    each within a trust region of its own, and kept where its bound is higher beyond doubt. Beyond 300 variables
    independent normals, with up to 32 directions of dependence beside them where the bound is higher so. Of a model in
    conjugate form: coordinate ascent from several starts where the data are small (5,000 groups, 200 documents), else
    incremental or stochastic steps. Of an energy with free variables: stochastic steps until the bound rises no more.

    Args:
      model: any `vijax.Model` without networks.
      data: what it reads; None for a density that reads none.
      key: of starts and draws.
      num_starts: side by side. Of a log density half of the searches for modes begin near zero, half as far apart as
        the prior is wide; None is 16. Of others None is 8; 4 for 200 to 5,000 documents and for an energy with free
        variables; 1 for larger data in conjugate form.
      max_draws: of a log density, fixed draws are never more; None is 2,048. More of them help where the end is
        "limited by the noise of its draws".
      max_gradients: of a log density: no step is taken that would need more in all, a mixture's included. Searches for
        modes may take a fifth of them, or 40 a start, the end of their last step not counted; ten first steps of
        independent normals, and passes over minibatches, are not cut short. None is 3,000, or 40 a variable of a full
        covariance where that is more. Where a mixture stops for want of them, `fit.verdict` says by how many nats its
        bound still rose in a thousand.
      batch_size: of a density with a `log_lik` of groups: take so many at a step, in passes over all of them that begin
        at a fit to a sample. None does so from 50,000 groups on.
      richer: of a log density: whether to fit a mixture too, in what one normal has left of the gradients. None does so
        where the normal is 0.05 nats or more from the posterior, or the starts found other modes of similar weight, for
        up to 50 variables; the normal then stops as soon as that is seen. False never; True always. `fit.verdict` says
        what was kept, `fit.report.other` is the bound of what was not.
      stage: of a fit that Ctrl-C stopped, with the same model, data, key and arguments (`fit.report.stage`): goes on
        from there, to the end of a fit that was never stopped, bit for bit. Searches for modes are not repeated, nor
        what was done before the last draws were taken; independent normals and passes over minibatches begin anew. In
        conjugate form `vijax.fit(fit.alg, ..., state=fit.state)` goes on instead.

    After Ctrl-C the best so far is returned; its verdict says "Stopped early". A second Ctrl-C stops at once.

    Returns:
      A `Fit`. Beside what every fit has: `fit.verdict`, a sentence in plain words; `fit.elbo`, with its standard error;
      `fit.khat`; `fit.modes`; `fit.report`, all of it. `fit.sample(key, n)` draws from q, never weighted.

    Raises:
      ValueError: an argument that makes no sense, or that the model has no use for; a density that is finite at no
        start.

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> model = vi.density({"x": vi.free(3, "positive")}, lambda v: jnp.sum(2 * jnp.log(v["x"]) - v["x"]))
    >>> fit = vi.auto(model, key=jax.random.key(0))
    >>> print(fit.sample(jax.random.key(1), 4000)["x"].mean().round(0))
    3.0
    """
    check_model(model)
    check_not_forked()
    check_key(key)
    _check_integers(num_starts=(num_starts, 1), max_draws=(max_draws, 8), max_gradients=(max_gradients, 1))
    density = model.log_density
    if density is None:
        given = {"max_draws": max_draws, "max_gradients": max_gradients, "batch_size": batch_size, "richer": richer}
        _check_conjugate(model, **given, stage=stage)
        of = of_conjugate if model.free is None else of_mixed
        return of(model, data, key=key, num_starts=num_starts)
    num_starts, max_draws = num_starts or NUM_STARTS, max_draws or MAX_DRAWS
    target, seed = Target.of(model, data), keys.seed(key)
    budget = max_gradients or max(3000, 40 * min(target.dim, MOST_FULL))
    size = _batch_size(density, batch_size, target.num_groups, target.dim)
    _check_richer(richer, target.dim, size)
    check_stage(stage, target.dim, num_starts, target.dim <= MOST_FULL)
    with interrupt_flag() as asked:
        watcher = Watcher(asked, stage)

        def ended(target: Target, fitted: Fitted) -> Done:
            q, found, elbos = fitted
            labels = exchanges(target, found[0][0].x, q.sds, seed)
            return Done(model, target, q, Searched(found, elbos, labels, num_starts), watcher, key)

        if target.dim > MOST_FULL:
            return reported(ended(target, _many_variables(target, watcher, seed, num_starts, budget)))
        if size is None:
            misfit = Misfit(target.dim, richer)
            fitted = _gaussian(target, watcher, seed, num_starts, max_draws, budget, misfit)
            return of_normal(ended(target, fitted), budget, misfit)
        sample = stochastic.sample_of(target.groups, target.dim, seed)
        q, found, elbos = _gaussian(Target(density, *sample), watcher, seed, num_starts, max_draws, budget)
        if q.ended not in (Ended.UNBOUNDED, Ended.INTERRUPTED):
            q = stochastic.fit_all(model, target.groups, q, size, key)
        return reported(ended(target, (q, found, elbos)))


def _check_integers(**given: tuple[int | None, int]) -> None:
    """Raises ValueError on what is given and no integer, or below the least."""
    for name, (value, least) in given.items():
        if value is not None:
            require_integers(least, **{name: value})


def _check_conjugate(model: Model, **given: Any) -> None:
    """Raises ValueError on a model with networks, and on what only densities have a use for."""
    points = [name for name, constraint in (model.constraints or {}).items() if constraint == real()]
    remedy = "vijax.aevb(model) learns them, or vijax.svi(model, learn=...)."
    require(not points, "model", "one without points to learn (networks)", f"one with {points}", remedy)
    for name, value in given.items():
        remedy = REMEDIES.get(name, "Leave it out.")
        got = "one" if isinstance(value, Stage) else value
        require(value is None, name, "none for a model that is no log density", got, remedy)


REMEDIES = {
    "batch_size": "vijax.fit(vijax.svi(model), data, batch_size=...) takes minibatches.",
    "stage": "vijax.fit(fit.alg, data, key=key, state=fit.state, ...) goes on.",
}


def _batch_size(density: LogDensity, asked: int | None, num_groups: int, dim: int) -> int | None:
    """Groups at a step; None where all of them are taken."""
    if asked is not None:
        require(density.reads_data and not density.is_whole, "batch_size", "none: the density is a whole", asked)
        require_integers(batch_size=asked)
        require(asked <= num_groups, "batch_size", f"at most the {num_groups} groups of the data", asked)
        require(dim <= MOST_FULL, "batch_size", f"none beyond {MOST_FULL} variables", asked, "Use vijax.advi.")
        return asked
    return stochastic.BATCH if num_groups >= stochastic.LARGE and dim <= MOST_FULL else None


def _check_richer(richer: bool | None, dim: int, batch_size: int | None) -> None:
    """Raises ValueError on what is no choice, and where a mixture is asked for that cannot be."""
    require(richer is None or isinstance(richer, bool), "richer", "True, False or None", repr(richer))
    remedy = "Use vijax.advi(model, guide=vijax.guides.mixture(components))."
    require(not richer or dim <= MOST_FULL, "richer", f"False beyond {MOST_FULL} variables", richer, remedy)
    require(not richer or batch_size is None, "richer", "False where minibatches are taken", richer, remedy)


Fitted = tuple[Gaussian, list[tuple[Mode, int]], list[float | None]]
"""A normal, the modes that were found, and their rough bounds."""


def _many_variables(target: Target, watcher: Watcher, seed: int, num_starts: int, budget: int) -> Fitted:
    """Independent normals, or with directions of dependence where these gain."""
    found = watcher.searched(target, lambda: places(target, seed, num_starts, watcher.stopped), num_starts)
    elbos = bounds_of(rough_normals(target, found, seed))
    return low_rank.fit(target, found[0][0], seed, budget, watcher.stopped), found, elbos


def _gaussian(
    target: Target,
    watcher: Watcher,
    seed: int,
    num_starts: int,
    max_draws: int,
    budget: int,
    misfit: Misfit | None = None,
) -> Fitted:
    """A normal of full covariance."""
    if watcher.stage is None:
        most = max(SEARCHED * budget, A_START * num_starts)
        found = places(target, seed, num_starts, lambda: watcher.stopped() or target.num_gradients > most)
        draws = FIXED if misfit is None or not misfit.is_tried else FIXED // 2  # a mixture begins anywhere near
        start, elbos = _best_start(target, found, seed, target.num_gradients > most, draws, watcher.stopped)
        if watcher.stopped():
            return start._replace(ended=Ended.INTERRUPTED), found, elbos
        watcher.stage = stage_of(found, elbos, num_starts, Sitting.begin(start), target.num_gradients)
    watcher.begun = watcher.stage
    found, elbos = watcher.stage.found()
    target.num_gradients = watcher.stage.gradients
    sitting = watcher.stage.sitting
    assert sitting is not None
    asks = gaussian.fits if misfit is None else misfit.among(rivalry(target, found, elbos, seed))
    q = gaussian.fit(target, sitting, seed, max_draws, budget, watcher.stopped, watcher.notes(target), asks)
    return q, found, elbos


def _best_start(
    target: Target,
    found: list[tuple[Mode, int]],
    seed: int,
    is_cut: bool,
    draws: int,
    stopped: Callable[[], bool],
) -> tuple[Gaussian, list[float | None]]:
    """The normal at the mode whose ELBO is largest; modes far below the highest are not asked. Or independent normals
    from the middle of where searches begin, if that is better: the mode of a funnel is where a scale is zero. Those are
    tried wherever searches were cut short."""
    rough = rough_normals(target, found, seed, is_cut)
    elbos = bounds_of(rough)
    best = max((one.q for one in rough if one is not None), key=lambda q: q.elbo)
    noise = gaussian.noise_of(32, target.dim, [seed, 99])
    middle = Gaussian(np.zeros(target.dim), MIDDLE * np.eye(target.dim), 0.0)
    if rough_bound(target, middle, noise) <= best.elbo and not is_cut:
        return best, elbos
    begin = Mode(middle.mean, 0.0, np.full(target.dim, MIDDLE))
    plain = on_draws(OnDraws(target, unit_noise(draws, target.dim, seed)), begin, FIRST_STEPS, stopped=stopped)
    plain = plain._replace(scale=np.diag(plain.scale))
    plain = plain._replace(elbo=rough_bound(target, plain, noise))
    return (plain if plain.elbo > best.elbo else best), elbos

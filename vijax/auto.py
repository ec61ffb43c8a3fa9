"""The default method: nothing to choose, and a verdict."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray
from scipy import special

from vijax import guides, keys
from vijax.algorithm import Algorithm, State
from vijax.algorithms import ngvi
from vijax.automatic import diagonal, gaussian, stochastic
from vijax.automatic.ascent import Mode, modes
from vijax.automatic.conjugate import of_conjugate
from vijax.automatic.gaussian import Ended, Gaussian
from vijax.automatic.report import Estimate, Place, Report
from vijax.automatic.target import Target
from vijax.automatic.verdict import verdict
from vijax.checks import require, require_integers
from vijax.choices import check_model
from vijax.fit_arguments import check_key, check_not_forked
from vijax.model import Model
from vijax.models.density import Density, Frame
from vijax.result import Fit
from vijax.status import Status
from vijax.trust import psis

MOST_FULL = 300
"""Dimensions up to which a full covariance is fitted."""
ARRIVED = 0.5
"""Nats that Newton's step may still promise at what counts as a mode: a search may stop early in a narrow valley."""
CHECKS, SCRAMBLES = 1024, 8
"""Fresh draws on which a fit is judged, and of how many independent scrambles of a Sobol sequence they are."""


def auto(
    model: Model,
    data: Any = None,
    *,
    key: PRNGKeyArray,
    num_starts: int = 8,
    max_draws: int = 2048,
    max_gradients: int | None = None,
    batch_size: int | None = None,
) -> Fit:
    """Fits a model with no choice to make, and says whether to trust the result.

    Of a log density (`vijax.density`): from several starts side by side to the best mode; a normal with full covariance
    by natural gradients from least squares of scores, in a trust region, on fixed draws of which there are more when
    their noise is all that is left; beyond some hundreds of variables independent normals on fixed draws. Of a model in
    conjugate form: coordinate ascent from several starts where the data are small, else incremental or stochastic
    steps.

    Args:
      model: any `vijax.Model`.
      data: what it reads; None for a density that reads none.
      key: of starts and draws.
      num_starts: side by side.
      max_draws: fixed draws are never more. More of them help where the end is "limited by the noise of its draws".
      max_gradients: of a log density, in all; None is 3,000, or 40 a variable of a full covariance
        where that is more.
      batch_size: of a density with a `log_lik` of groups: take so many at a step, in passes over all of them that begin
        at a fit to a sample. None does so from 50,000 groups on.

    Returns:
      A `Fit`. Beside what every fit has: `fit.verdict`, a sentence in plain words; `fit.elbo`, with its standard error;
      `fit.khat`; `fit.modes`; `fit.report`, all of it. `fit.sample(key, n)` draws from q, never weighted.

    Raises:
      ValueError: an argument that makes no sense; a density that is finite at no start.

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> model = vi.density({"x": vi.free(3, "positive")}, lambda v: jnp.sum(2 * jnp.log(v["x"]) - v["x"]))
    >>> fit = vi.auto(model, key=jax.random.key(0))
    >>> print(fit.sample(jax.random.key(1), 4000)["x"].mean().round(0))
    3.0
    """
    check_model(model)
    check_not_forked()
    check_key(key)
    require_integers(num_starts=num_starts)
    require_integers(8, max_draws=max_draws)
    if not isinstance(model, Density):
        require(not model.free, "model", "a density, or a model in conjugate form", "a mixed one", "Use vijax.svi.")
        return of_conjugate(model, data, key=key, num_starts=num_starts)
    target, seed = Target.of(model, data), int(jax.random.randint(key, (), 0, 2**31 - 1))
    budget = max_gradients or max(3000, 40 * min(target.dim, MOST_FULL))
    size = _batch_size(model, batch_size, target.num_groups, target.dim)
    if size is None:
        return _fitted(model, target, key, seed, num_starts, max_draws, budget)
    sample = stochastic.sample_of(target.groups, target.dim, seed)
    q, places, elbos = _gaussian(Target(model, *sample), seed, num_starts, max_draws, budget)
    if q.ended is not Ended.UNBOUNDED:
        q = stochastic.fit_all(model, target.groups, q, sample, size, key)
    return _as_fit(model, q, _report(model, target, q, places, elbos, seed), key)


def _batch_size(model: Density, asked: int | None, num_groups: int, dim: int) -> int | None:
    """Groups at a step; None where all of them are taken."""
    if asked is not None:
        require(model.log_lik is not None and not model.is_whole, "batch_size", "none: the density is a whole", asked)
        require_integers(batch_size=asked)
        require(asked <= num_groups, "batch_size", f"at most the {num_groups} groups of the data", asked)
        require(dim <= MOST_FULL, "batch_size", f"none beyond {MOST_FULL} variables", asked, "Use vijax.advi.")
        return asked
    return stochastic.BATCH if num_groups >= stochastic.LARGE and dim <= MOST_FULL else None


def _fitted(
    model: Density, target: Target, key: PRNGKeyArray, seed: int, num_starts: int, max_draws: int, budget: int
) -> Fit:
    if target.dim > MOST_FULL:
        places = _places(target, seed, num_starts)
        q, elbos = diagonal.fit(target, places[0][0], seed, budget), _unjudged(places)
    else:
        q, places, elbos = _gaussian(target, seed, num_starts, max_draws, budget)
    return _as_fit(model, q, _report(model, target, q, places, elbos, seed), key)


def _gaussian(
    target: Target, seed: int, num_starts: int, max_draws: int, budget: int
) -> tuple[Gaussian, list[tuple[Mode, int]], list[float | None]]:
    """A normal of full covariance, the modes that were found, and their rough bounds."""
    places = _places(target, seed, num_starts)
    start, elbos = _best_start(target, places, seed)
    return gaussian.fit(target, start, seed, max_draws, budget), places, elbos


def _places(target: Target, seed: int, num_starts: int) -> list[tuple[Mode, int]]:
    rng = np.random.default_rng(seed)
    found = modes(target, rng.uniform(-2, 2, (num_starts, target.dim)))
    remedy = "Look for logarithms of zero and supports that the variables do not declare."
    require(bool(found), "log_density", f"a finite one at any of {num_starts} random starts", "none", remedy)
    return _distinct(found)


def _unjudged(places: list[Any]) -> list[float | None]:
    return [None for _ in places]


def _distinct(found: list[Mode]) -> list[tuple[Mode, int]]:
    """The modes that differ by more than a search's inaccuracy, with the number of searches that ended there."""
    kept: list[tuple[Mode, int]] = []
    for mode in found:
        at = next((i for i, (other, _) in enumerate(kept) if _are_same(other, mode)), None)
        if at is None:
            kept.append((mode, 1))
        else:
            kept[at] = (kept[at][0], kept[at][1] + 1)
    return kept


def _are_same(one: Mode, other: Mode) -> bool:
    return abs(one.value - other.value) < 0.1 and bool(np.all(abs(one.x - other.x) < one.sds + other.sds))


def _best_start(target: Target, places: list[tuple[Mode, int]], seed: int) -> tuple[Gaussian, list[float | None]]:
    """The normal at the mode whose ELBO is largest; modes far below the highest are not asked."""
    noise = gaussian.noise_of(32, target.dim, [seed, 99])
    best: Gaussian | None = None
    elbos: list[float | None] = []
    for mode, _ in places[:4]:
        if mode.value < places[0][0].value - 10 - target.dim:
            elbos.append(None)
            continue
        q, promised = gaussian.laplace(target, mode)
        values = target.values(q.at(noise))
        elbo = float(np.where(np.isfinite(values), values, -1e10).mean()) + q.entropy()
        elbos.append(elbo if promised < ARRIVED else None)
        best = q._replace(elbo=elbo) if best is None or elbo > best.elbo else best
    assert best is not None
    return best, elbos + _unjudged(places[len(elbos) :])


def _report(
    model: Density,
    target: Target,
    q: Gaussian,
    places: list[tuple[Mode, int]],
    elbos: list[float | None],
    seed: int,
) -> Report:
    noise = np.concatenate([gaussian.noise_of(CHECKS // SCRAMBLES, target.dim, [seed, 7, i]) for i in range(SCRAMBLES)])
    draws = q.at(noise)
    log_q = -0.5 * ((noise**2).sum(1) + target.dim) + target.dim / 2 - q.entropy() + 0.5 * target.dim
    ratios = target.values(draws) - log_q
    means = ratios.reshape(SCRAMBLES, -1).mean(1)
    elbo = Estimate(float(means.mean()), float(means.std(ddof=1) / np.sqrt(SCRAMBLES)))
    khat, gap = float(psis(ratios).khat), float(special.logsumexp(ratios) - np.log(len(ratios)) - elbo.value)
    shown = _shown(model, q, places, elbos)
    words = verdict(q, gap, khat, shown)
    return Report(elbo, shown, gap, khat, str(q.ended), words, target.num_gradients, ratios, draws)


def _shown(model: Density, q: Gaussian, places: list[tuple[Mode, int]], elbos: list[float | None]) -> list[Place]:
    """The modes as places; those that lie where q does are one, however far their searches got."""
    inside = lambda mode: q.distance(mode.x) < target_distance(len(mode.x))
    at = lambda mode: jax.tree.map(np.asarray, model.variables.values(jnp.asarray(mode.x, jnp.result_type(float)))[0])
    known = list(zip(places, elbos, strict=True))
    own = [((mode, n), elbo) for (mode, n), elbo in known if inside(mode)]
    others = [((mode, n), elbo) for (mode, n), elbo in known if not inside(mode)]
    shown = [Place(at(mode), mode.value, elbo, n) for (mode, n), elbo in others if elbo is not None]
    if own:  # they lead, also where another's curvature promised more
        (best, _), elbo = own[0]
        shown = [Place(at(best), best.value, elbo, sum(n for (_, n), _ in own)), *shown]
    return shown


def target_distance(dim: int) -> float:
    """Squared distance from the mean of a normal, in standard deviations, within which its draws lie."""
    return dim + 6 * float(np.sqrt(2 * dim))


def _as_fit(model: Density, q: Gaussian, report: Report, key: PRNGKeyArray) -> Fit:
    """As a fit by natural gradients, in the frame of q: so it can be sampled, saved, and gone on with."""
    dtype = jnp.result_type(float)
    guide = guides.full_rank() if q.is_full else guides.mean_field()
    framed = model.with_guide(guide, Frame(jnp.asarray(q.mean, dtype), jnp.asarray(q.scale, dtype)))
    alg: Algorithm = ngvi(framed)
    key_init, _, _ = keys.of_run(key)
    state: State = alg.init(key_init)
    trace = {"step": np.arange(len(q.trace)), "elbo": np.asarray(q.trace)}
    status = Status.CONVERGED if q.ended is Ended.CONVERGED else Status.FINISHED
    return Fit(alg, state, trace, status, report)

"""Judges a fit of free variables by steps on draws of q, by whichever algorithm it was made.

At draws z of q, with r(z) = log p(z) - log q(z) (of an energy log p is its bound as a function of
the free variables, q of the others as it is), three things are looked at.

*How far q is from p.* The bound, the mean of r, with its standard error; log mean exp r - mean r, a
lower bound on KL(q || p); and k-hat of exp r (Vehtari, Simpson, Gelman, Yao and Gabry 2024).

*Whether q has arrived.* For a weight w in [0, 1] the density q exp(w r) leads from q to p, and its
mean begins to move by Cov_q(z, r): for a normal that is Sigma E[grad r], which is zero where the
bound is stationary in the mean. Its standard deviations begin to move likewise, log sd by Cov_q(((z
- mean) / sd)^2, r) / 2.

*Whether the last steps still moved.* The bound of the last quarter of the steps against that of the
quarter before.

The log density is summed over one pass of the data, its differences group by group, so that in
float32 no digits of them are lost to the size of the sum."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require_integers
from vijax.contract.batch import Minibatch
from vijax.contract.model import Hyper, Model
from vijax.contract.per_variable import PerVariable
from vijax.data.loader import ArrayLoader, Loader, as_loader, num_rows, padded_size
from vijax.families import Product
from vijax.inference.estep import EStep
from vijax.inference.estimand import Estimand
from vijax.inference.guides import Z
from vijax.inference.spec import Spec
from vijax.models.energies.shown_numbers import shown_numbers
from vijax.verdict import limits, words_of_steps
from vijax.verdict.report import Estimate, bound, distance
from vijax.verdict.target import AT_ONCE
from vijax.xla.compiler import cached_program, step_jit

DRAWS, FEWEST = (
    512,
    128,
)  # draws of q; and the smallest number of them, of large data or many variables
WORK, MOST_WORK = 1 << 26, 1 << 28
"""Draws times groups: up to the first there are `DRAWS` draws; beyond the second a fit is judged
only if `num_draws` is given."""
NUMBERS = 1 << 24  # largest number of numbers in all draws, where there are more than `FEWEST`
ROWS = 4096  # smallest number of groups in one call, where there are so many
FEWEST_STEPS, BLOCKS = 64, 8
"""Smallest number of steps whose quarters can be compared; and blocks of a quarter, whose means
count as independent."""


class Judgement(NamedTuple):
    """The judgement of a fit (see `vijax.Fit.judged`).

    Attributes:
      elbo: the bound, with its standard error.
      gap: a lower bound on KL(q || p), in nats.
      khat: shape of the tail of the importance ratios p / q.
      zero: share of the draws where the density is zero or no number.
      shift: the move with which the mean of each number begins on its way to the posterior's, in
        standard deviations of q, (M,): of each free coordinate; of a density that hides variables
        (names with "_") of what it shows.
      shift_error: standard error of `shift`, (M,).
      stretch: the same of the logarithm of its standard deviation, (M,).
      stretch_error: standard error of `stretch`, (M,).
      drift: gain of the bound from the third quarter of the steps to the last, with its standard
        error; None where there were too few steps.
      rounding: nats to which the log density is known at a draw.
      num_draws: number of draws on which it was judged.
      names: the name of each of these numbers; of a coordinate that of its variable.
      verdict: whether to trust the fit, in plain words.
      usable: false where the verdict says "Do not use this fit".
    """

    elbo: Estimate
    gap: float
    khat: float
    zero: float
    shift: Float[np.ndarray, " M"]
    shift_error: Float[np.ndarray, " M"]
    stretch: Float[np.ndarray, " M"]
    stretch_error: Float[np.ndarray, " M"]
    drift: Estimate | None
    rounding: float
    num_draws: int
    names: tuple[str, ...]
    verdict: str = ""
    usable: bool = True


def judging_obstacle(spec: Spec) -> str:
    """The reason that a fit of this algorithm cannot be judged on draws; empty where it can be."""
    if spec.model.free is None:
        return "it has no free variables (vijax.density)"
    if isinstance(spec.estep, EStep) and spec.estep.draws:
        return "its E-step draws, so that its bound is known but for noise"
    return ""


def of_data(
    fit: Any, data: Any, key: PRNGKeyArray, num_draws: int | None = None
) -> Judgement | None:
    """Judges a fit on other data than its own."""
    return judge_on_draws(fit, as_loader(data, fit.alg.spec.model, None, 0), key, num_draws)


def judge_on_draws(
    fit: Any, loader: Loader, key: PRNGKeyArray, num_draws: int | None = None
) -> Judgement | None:
    """Judges a fit on one pass over data; None where these are so large that `num_draws` has to be
    given."""
    spec, q = fit.alg.spec, fit.posterior[Z]
    count = usual_draws(spec.model, q, loader) if num_draws is None else num_draws
    if count is None:
        return None
    require_integers(FEWEST_ASKED, num_draws=count)
    draws, ratios, rounding = _ratios(spec, fit.state.hyper, fit.posterior, loader, key, count)
    zero, gap, khat = distance(ratios)
    spread = float(np.ptp(ratios)) if zero == 0 else np.inf
    khat = (
        0.0
        if not np.isfinite(khat) and spread <= max(limits.ALIKE_RATIOS, limits.ROUNDINGS * rounding)
        else khat
    )
    variables = spec.model.free.variables
    names, numbers = variables.names_of_coordinates, draws
    if spec.model.log_density is not None and any(name.startswith("_") for name in names):
        names, numbers = shown_numbers(spec.model.log_density, draws)
    (shift, stretch), moved = _moves(numbers, ratios), drift(fit.trace.get("elbo"))
    found = Judgement(
        bound(ratios), gap, khat, zero, *shift, *stretch, moved, rounding, count, tuple(names)
    )
    found = found._replace(usable=not words_of_steps.unusable(found, variables))
    return found._replace(
        verdict=words_of_steps.verdict(found, fit.outcome, q, variables, len(fit.posterior) > 1)
    )


FEWEST_ASKED = 32  # draws: the tail of fewer says nothing


def usual_draws(model: Model, q: Any, loader: Loader) -> int | None:
    """Returns the usual number of draws; None where data are so large that it has to be given."""
    rows, dim = num_rows(model, loader), int(np.size(q.mean()))
    if FEWEST * rows > MOST_WORK:
        return None
    return int(np.clip(min(WORK // rows, NUMBERS // dim), FEWEST, DRAWS))


# --- the ratios -----------------------------------------------------------------------------------
def _ratios(
    spec: Spec, hyper: Hyper, posterior: Product, loader: Loader, key: PRNGKeyArray, count: int
) -> tuple[Float[np.ndarray, "draws D"], Float[np.ndarray, " draws"], float]:
    """Returns draws of q in free coordinates, log p - log q there, and the rounding of that in
    nats. NaN and +inf become -inf."""
    model, chosen = spec.model, (spec.estimand, spec.estep)
    key_draws, key_local = jax.random.split(key)
    first = cached_program(
        model, "judged draws", lambda model: step_jit(_draws(model), static_argnums=(0, 1))
    )
    each = cached_program(
        model, "judged groups", lambda model: step_jit(_groups(model), static_argnums=(0, 1))
    )
    draws, z, others, offset = first(spec.estimand, count, hyper, posterior, key_draws)
    found, total, sizes, seen = np.asarray(others, np.float64), 0.0, [abs(float(offset))], 0.0
    lik, size = np.zeros(count), 1.0
    for batch in _pass(model, loader):
        more, base, weight, size = each(*chosen, hyper, posterior, z, batch, key_local)
        lik, total = lik + np.asarray(more, np.float64), total + float(base)
        seen, sizes = seen + float(weight), [*sizes, float(size)]
    scale = loader.num_groups / max(seen, 1.0)
    ratios = found + float(offset) + scale * (lik + total)
    rounding = float(np.finfo(np.asarray(others).dtype).eps) * max(
        sizes[0], max(sizes) * loader.num_groups**0.5
    )
    return np.asarray(draws, np.float64), np.where(ratios < np.inf, ratios, -np.inf), rounding


def _pass(model: Model, loader: Loader) -> Iterator[Minibatch]:
    """Yields all groups once, in batches of one shape."""
    if isinstance(loader, ArrayLoader) and loader.steps_per_epoch > 1:
        total = loader.num_groups
        whole = total if model.locals.carried else padded_size(total)
        loader = dataclasses.replace(
            loader, batch_size=min(max(loader.batch_size, ROWS), whole), is_fixed=False
        )
    return loader.batches(0, loader.steps_per_epoch)


def _draws(of: weakref.ref[Model]) -> Callable[..., Any]:
    """Returns a program for draws, and for the part of the ratios that needs no data: the value at
    the mean of the draws, and differences from it."""

    def draw(
        estimand: PerVariable[Estimand],
        count: int,
        hyper: Hyper,
        posterior: Product,
        key: PRNGKeyArray,
    ) -> Any:
        model: Any = of()
        q: Any = posterior[Z]
        z = q.sample(key, (count,))
        points, log_q = _with_center(z), q.log_prob(_with_center(z))
        log_q = log_q if log_q.ndim == 1 else jnp.sum(log_q, -1)  # of independent coordinates
        stats = _stats_at(estimand, posterior)
        coupling = model.global_elbo
        if coupling is not None:
            log_q = log_q - jax.lax.map(
                lambda z: coupling(hyper, stats(z)), points, batch_size=AT_ONCE
            )
        prior = model.prior(hyper)
        penalty = sum(
            estimand.choice(name).penalty(p, prior[name])
            for name, p in posterior.items()
            if name != Z
        )
        x = jax.vmap(lambda z: model.free.point(hyper, z))(z)
        known = jnp.where(jnp.isfinite(log_q[0]), log_q[0], 0.0)
        return x, points, known - log_q[1:], -known - penalty

    return draw


def _groups(of: weakref.ref[Model]) -> Callable[..., Any]:
    """Returns a program for the part of the ratios by the groups of a batch: the value at the mean
    of the draws, differences from it, the number of groups, and the size of the numbers whose
    differences were taken."""

    def groups(
        estimand: PerVariable[Estimand],
        estep: Any,
        hyper: Hyper,
        posterior: Product,
        points: Float[Array, "draws_and_one D"],
        batch: Minibatch,
        key: PRNGKeyArray,
    ) -> Any:
        model: Any = of()
        stats = _stats_at(estimand, posterior)
        bounds = lambda z: model.local_elbo(hyper, stats(z), batch, key, estep).per_group
        center = bounds(points[0])
        weights = (
            jnp.ones_like(center)
            if batch.weights is None
            else jnp.asarray(batch.weights, center.dtype)
        )
        summed = lambda x: jnp.sum(jnp.where(weights > 0, weights * x, 0.0))
        known = jnp.where(jnp.isfinite(center), center, 0.0)
        at_once = max(1, min(AT_ONCE, AT_ONCE * ROWS // center.size))
        found = jax.lax.map(lambda z: summed(bounds(z) - known), points[1:], batch_size=at_once)
        return found, summed(known), jnp.sum(weights), jnp.max(jnp.abs(known))

    return groups


def _with_center(z: Float[Array, "draws D"]) -> Array:
    """Returns the mean of the draws, followed by the draws."""
    return jnp.concatenate([jnp.mean(z, 0, keepdims=True), z])


def _stats_at(
    estimand: PerVariable[Estimand], posterior: Product
) -> Callable[[Array], dict[str, Any]]:
    """Returns a function from free coordinates to the statistics of all globals, the others where
    the algorithm has them."""
    others = {name: estimand.choice(name).point(q) for name, q in posterior.items() if name != Z}
    return lambda z: {**others, Z: posterior[Z].stats(z)}


# --- what is seen in them -------------------------------------------------------------------------
Move = tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"]]
"""The change of something of each coordinate, and its standard error."""


def _moves(
    draws: Float[np.ndarray, "draws D"], ratios: Float[np.ndarray, " draws"]
) -> tuple[Move, Move]:
    """Returns how means and logarithms of sds begin to move towards those of the posterior."""
    known = np.isfinite(ratios)
    if known.sum() < FEWEST_KNOWN:
        unknown = np.zeros(draws.shape[1]), np.full(draws.shape[1], np.inf)
        return unknown, unknown
    x, r = draws[known], ratios[known]
    sds = x.std(0)
    z, r = (x - x.mean(0)) / np.where(sds > 0, sds, 1.0), (r - r.mean())[:, None]
    return _mean(z * r), _mean(0.5 * (z**2 - 1) * r)


def _mean(x: Float[np.ndarray, "draws D"]) -> Move:
    return x.mean(0), x.std(0, ddof=1) / np.sqrt(len(x))


FEWEST_KNOWN = 16  # smallest number of draws with a finite density for that


def drift(bounds: Any) -> Estimate | None:
    """Returns how far the bound of the last quarter of the steps is above that of the quarter
    before, by medians of the means of blocks, which a few steps far off do not move; None of few
    steps.

    >>> noise = np.random.default_rng(0).normal(size=400)
    >>> drift(noise).value < 2 * drift(noise).standard_error, round(drift(noise + 0.1 * np.arange(400)).value)
    (True, 10)
    """
    if bounds is None or len(bounds) < FEWEST_STEPS:
        return None
    last = np.asarray(bounds, np.float64)
    size = len(last) // (4 * BLOCKS)
    means = last[len(last) - 2 * BLOCKS * size :].reshape(2, BLOCKS, size).mean(2)
    if not np.isfinite(means).all():
        return None
    before, after = np.median(means, axis=1)
    errors = NORMAL_MEDIAN * means.std(1, ddof=1) / np.sqrt(BLOCKS)
    return Estimate(float(after - before), float(np.hypot(*errors)))


NORMAL_MEDIAN = float(
    np.sqrt(np.pi / 2)
)  # standard error of the median of normals, over that of their mean

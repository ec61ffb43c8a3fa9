"""Judges a fit of free variables by steps, by any algorithm, on draws of q.

At draws z of q, let r(z) = log p(z) - log q(z). (For an energy, log p is its bound as a function of
the free variables, with q of the others fixed.) Three questions are answered.

*How far is q from p?* The bound, the mean of r, with its standard error; log mean exp r - mean r, a
lower bound on KL(q || p); and k-hat of exp r (Vehtari, Simpson, Gelman, Yao and Gabry 2024).

*Has q arrived?* For a weight w in [0, 1] the density q exp(w r) leads from q to p, and its mean
begins to move by Cov_q(z, r). For a normal this is Sigma E[grad r], which is zero where the bound
is stationary in the mean. Its log standard deviations begin to move by
Cov_q(((z - mean) / sd)^2, r) / 2.

*Did the last steps still move?* The bound of the last quarter of the steps is compared with the
bound of the quarter before.

The log density is summed over one pass of the data, in differences group by group: in float32 they
lose no digits to the size of the sum."""

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

DRAWS = 512  # draws of q
FEWEST = 128  # draws of q for large data or many variables
WORK = 1 << 26  # draws times groups, up to which there are `DRAWS` draws
MOST_WORK = 1 << 28  # draws times groups, beyond which the user must give `num_draws`
NUMBERS = 1 << 24  # numbers in all draws, at most, if there are more than `FEWEST` draws
ROWS = 4096  # groups in one call, at least, if there are so many
FEWEST_STEPS = 64  # steps whose quarters can be compared
BLOCKS = 8  # blocks of a quarter, whose means count as independent


class Judgement(NamedTuple):
    """The judgement of a fit (see `vijax.Fit.judged`).

    Attributes:
      elbo: the bound, with its standard error.
      gap: a lower bound on KL(q || p), in nats.
      khat: shape of the tail of the importance ratios p / q.
      zero: share of the draws where the density is zero or no number.
      shift: first-order move of the mean of each number towards the posterior's mean, in standard
        deviations of q, (M,). The numbers are the free coordinates; if a density hides variables
        (names with "_"), the numbers that it shows.
      shift_error: standard error of `shift`, (M,).
      stretch: first-order move of the logarithm of each standard deviation, (M,).
      stretch_error: standard error of `stretch`, (M,).
      drift: gain of the bound from the third quarter of the steps to the last, with its standard
        error; None after too few steps.
      rounding: rounding error of the log density at a draw, in nats.
      num_draws: number of draws on which it was judged.
      names: the name of each number; for a coordinate the name of its variable.
      verdict: whether to trust the fit, in plain words.
      usable: False where the verdict says "Do not use this fit".
      sds_usable: False also where it says that sds are wrong, that means or sds would still move,
        or that this cannot be seen.
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
    sds_usable: bool = True


def judging_obstacle(spec: Spec) -> str:
    """The reason why a fit of this algorithm cannot be judged on draws; "" if it can be."""
    if spec.model.free is None:
        return "it has no free variables (vijax.density)"
    if isinstance(spec.estep, EStep) and spec.estep.draws:
        return "its E-step draws, so that its bound is known but for noise"
    return ""


def judge_on_data(
    fit: Any, data: Any, key: PRNGKeyArray, num_draws: int | None = None
) -> Judgement | None:
    """The judgement of a fit on the user's data; see `judge_on_draws`."""
    return judge_on_draws(fit, as_loader(data, fit.alg.spec.model, None, 0), key, num_draws)


def judge_on_draws(
    fit: Any, loader: Loader, key: PRNGKeyArray, num_draws: int | None = None
) -> Judgement | None:
    """The judgement of a fit on one pass over data; None where the data are so large that the user
    has to give `num_draws`."""
    spec = fit.alg.spec
    q = fit.posterior[Z]
    count = usual_draws(spec.model, q, loader) if num_draws is None else num_draws
    if count is None:
        return None
    require_integers(FEWEST_BY_USER, num_draws=count)
    draws, ratios, rounding = _ratios(spec, fit.state.hyper, fit.posterior, loader, key, count)
    zero, gap, khat = distance(ratios)
    spread = float(np.ptp(ratios)) if zero == 0 else np.inf
    are_equal = spread <= max(limits.ALIKE_RATIOS, limits.ROUNDINGS * rounding)
    if are_equal and not np.isfinite(khat):
        khat = 0.0
    variables = spec.model.free.variables
    names, numbers = variables.names_of_coordinates, draws
    if spec.model.log_density is not None and any(name.startswith("_") for name in names):
        names, numbers = shown_numbers(spec.model.log_density, draws)
    shift, stretch = _moves(numbers, ratios)
    judgement = Judgement(
        elbo=bound(ratios),
        gap=gap,
        khat=khat,
        zero=zero,
        shift=shift.value,
        shift_error=shift.error,
        stretch=stretch.value,
        stretch_error=stretch.error,
        drift=drift(fit.trace.get("elbo")),
        rounding=rounding,
        num_draws=count,
        names=tuple(names),
    )
    judgement = judgement._replace(
        usable=not words_of_steps.unusable(judgement, variables),
        sds_usable=words_of_steps.has_right_sds(judgement, variables),
    )
    has_others = len(fit.posterior) > 1
    source = getattr(spec.model.log_density, "source", "")
    verdict = words_of_steps.verdict(judgement, fit.outcome, q, variables, has_others, source)
    return judgement._replace(verdict=verdict)


FEWEST_BY_USER = 32  # draws that a user may ask for: the tail of fewer says nothing


def usual_draws(model: Model, q: Any, loader: Loader) -> int | None:
    """The usual number of draws; None where the data are so large that the user has to give it."""
    rows = num_rows(model, loader)
    dim = int(np.size(q.mean()))
    if FEWEST * rows > MOST_WORK:
        return None
    return int(np.clip(min(WORK // rows, NUMBERS // dim), FEWEST, DRAWS))


# --- the ratios -----------------------------------------------------------------------------------
def _ratios(
    spec: Spec, hyper: Hyper, posterior: Product, loader: Loader, key: PRNGKeyArray, count: int
) -> tuple[Float[np.ndarray, "draws D"], Float[np.ndarray, " draws"], float]:
    """Draws of q in free coordinates, log p - log q there, and its rounding error in nats. NaN and
    +inf become -inf."""
    model = spec.model
    key_draws, key_local = jax.random.split(key)
    draw = cached_program(
        model,
        "judged draws",
        lambda model_ref: step_jit(_bind_draws(model_ref), static_argnums=(0, 1)),
    )
    evaluate_batch = cached_program(
        model,
        "judged groups",
        lambda model_ref: step_jit(_bind_groups(model_ref), static_argnums=(0, 1)),
    )
    draws, z, prior_differences, offset = draw(spec.estimand, count, hyper, posterior, key_draws)
    likelihood = np.zeros(count)  # differences from the value at the mean of the draws
    center = 0.0  # the value there
    num_groups = 0.0
    sizes = [abs(float(offset))]
    for batch in _one_pass(model, loader):
        differences, batch_center, weight, size = evaluate_batch(
            spec.estimand, spec.estep, hyper, posterior, z, batch, key_local
        )
        likelihood = likelihood + np.asarray(differences, np.float64)
        center += float(batch_center)
        num_groups += float(weight)
        sizes.append(float(size))
    scale = loader.num_groups / max(num_groups, 1.0)
    prior = np.asarray(prior_differences, np.float64) + float(offset)
    ratios = prior + scale * (likelihood + center)
    epsilon = float(np.finfo(np.asarray(prior_differences).dtype).eps)
    rounding = epsilon * max(sizes[0], max(sizes) * loader.num_groups**0.5)
    return np.asarray(draws, np.float64), np.where(ratios < np.inf, ratios, -np.inf), rounding


def _one_pass(model: Model, loader: Loader) -> Iterator[Minibatch]:
    """All groups once, in batches of one shape."""
    if isinstance(loader, ArrayLoader) and loader.steps_per_epoch > 1:
        total = loader.num_groups
        max_size = total if model.locals.carried else padded_size(total)
        size = min(max(loader.batch_size, ROWS), max_size)
        loader = dataclasses.replace(loader, batch_size=size, is_fixed=False)
    return loader.batches(0, loader.steps_per_epoch)


def _bind_draws(model_ref: weakref.ref[Model]) -> Callable[..., Any]:
    """A program for draws, and for the part of the ratios that needs no data: the value at the mean
    of the draws, and differences from it."""

    def draw(
        estimand: PerVariable[Estimand],
        count: int,
        hyper: Hyper,
        posterior: Product,
        key: PRNGKeyArray,
    ) -> Any:
        model: Any = model_ref()
        q: Any = posterior[Z]
        z = q.sample(key, (count,))
        points, log_q = _with_center(z), q.log_prob(_with_center(z))
        log_q = log_q if log_q.ndim == 1 else jnp.sum(log_q, -1)  # over independent coordinates
        stats = _bind_stats(estimand, posterior)
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
        center = jnp.where(jnp.isfinite(log_q[0]), log_q[0], 0.0)
        return x, points, center - log_q[1:], -center - penalty

    return draw


def _bind_groups(model_ref: weakref.ref[Model]) -> Callable[..., Any]:
    """A program for the part of the ratios by the groups of a batch: differences from the value at
    the mean of the draws, this value, the number of groups, and the size of the numbers that were
    subtracted."""

    def evaluate(
        estimand: PerVariable[Estimand],
        estep: Any,
        hyper: Hyper,
        posterior: Product,
        points: Float[Array, "draws_and_one D"],
        batch: Minibatch,
        key: PRNGKeyArray,
    ) -> Any:
        model: Any = model_ref()
        stats = _bind_stats(estimand, posterior)
        bounds = lambda z: model.local_elbo(hyper, stats(z), batch, key, estep).per_group
        center = bounds(points[0])
        weights = jnp.ones_like(center)
        if batch.weights is not None:
            weights = jnp.asarray(batch.weights, center.dtype)
        total = lambda x: jnp.sum(jnp.where(weights > 0, weights * x, 0.0))
        finite = jnp.where(jnp.isfinite(center), center, 0.0)
        at_once = max(1, min(AT_ONCE, AT_ONCE * ROWS // center.size))
        differences = jax.lax.map(
            lambda z: total(bounds(z) - finite), points[1:], batch_size=at_once
        )
        return differences, total(finite), jnp.sum(weights), jnp.max(jnp.abs(finite))

    return evaluate


def _with_center(z: Float[Array, "draws D"]) -> Array:
    """The mean of the draws, followed by the draws."""
    return jnp.concatenate([jnp.mean(z, 0, keepdims=True), z])


def _bind_stats(
    estimand: PerVariable[Estimand], posterior: Product
) -> Callable[[Array], dict[str, Any]]:
    """A function from free coordinates to the statistics of all globals; other globals are at the
    point where the algorithm evaluates them."""
    points = {name: estimand.choice(name).point(q) for name, q in posterior.items() if name != Z}
    return lambda z: {**points, Z: posterior[Z].stats(z)}


# --- moves and drift ------------------------------------------------------------------------------
class Move(NamedTuple):
    """The move of a number of each coordinate, and its standard error."""

    value: Float[np.ndarray, " D"]
    error: Float[np.ndarray, " D"]


def _moves(
    draws: Float[np.ndarray, "draws D"], ratios: Float[np.ndarray, " draws"]
) -> tuple[Move, Move]:
    """First-order moves of means and of logarithms of sds towards the posterior's."""
    is_finite = np.isfinite(ratios)
    if is_finite.sum() < FEWEST_FINITE:
        unknown = Move(np.zeros(draws.shape[1]), np.full(draws.shape[1], np.inf))
        return unknown, unknown
    x = draws[is_finite]
    r = ratios[is_finite]
    sds = x.std(0)
    z = (x - x.mean(0)) / np.where(sds > 0, sds, 1.0)
    r = (r - r.mean())[:, None]
    return _mean(z * r), _mean(0.5 * (z**2 - 1) * r)


def _mean(x: Float[np.ndarray, "draws D"]) -> Move:
    return Move(x.mean(0), x.std(0, ddof=1) / np.sqrt(len(x)))


FEWEST_FINITE = 16  # draws with a finite density that moves need, at least


def drift(bounds: Any) -> Estimate | None:
    """The gain of the bound from the third quarter of the steps to the last, by medians of the
    means of blocks, which a few outlying steps do not move; None for too few steps.

    >>> noise = np.random.default_rng(0).normal(size=400)
    >>> drift(noise).value < 2 * drift(noise).standard_error, round(drift(noise + 0.1 * np.arange(400)).value)
    (True, 10)
    """
    if bounds is None or len(bounds) < FEWEST_STEPS:
        return None
    trace = np.asarray(bounds, np.float64)
    size = len(trace) // (4 * BLOCKS)
    means = trace[len(trace) - 2 * BLOCKS * size :].reshape(2, BLOCKS, size).mean(2)
    if not np.isfinite(means).all():
        return None
    before, after = np.median(means, axis=1)
    errors = NORMAL_MEDIAN * means.std(1, ddof=1) / np.sqrt(BLOCKS)
    return Estimate(float(after - before), float(np.hypot(*errors)))


NORMAL_MEDIAN = float(np.sqrt(np.pi / 2))
"""Standard error of the median of normal numbers, over the standard error of their mean."""

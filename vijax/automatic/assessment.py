"""Judges a fit of a log density on fresh draws.

Importance weights give the errors of means and standard deviations of q. Beside draws of q there
are draws of two wider laws, in which Student's t stretches each component of q: in all directions
alike, and in each direction by itself. With n_j draws of law j of density f_j, all draws are
weighted by

    w  ~  p / (sum_j n_j f_j)        (the balance heuristic, Veach and Guibas 1995),

so that there are draws where q has none. Further laws of this kind are centred at the draws with
the largest share of the standard deviations, so that they reach along a bent arm or into a tail.
The moments of q come from the same draws, weighted by q instead of p: the difference of two moments
has little noise if q is near p, and none if it is p."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import special

from vijax.automatic.density_checks import Exchange
from vijax.automatic.gaussian import Gaussian, is_near, laplace
from vijax.automatic.mixture import Mixture
from vijax.automatic.modes import DENSE, Candidate, SearchResult, share_hill
from vijax.automatic.trust_region import Run, Sitting
from vijax.automatic.trust_region import fit as fit_normal
from vijax.automatic.widths import Width, other_widths, share_beside
from vijax.contract.model import Model
from vijax.lbfgs import Mode, Point
from vijax.models.energies.shown_numbers import shown_numbers
from vijax.verdict import limits
from vijax.verdict.improper import grows_along
from vijax.verdict.psis import psis
from vijax.verdict.report import (
    Ended,
    FoundMode,
    Moments,
    Off,
    Others,
    Report,
    are_alike,
    bound,
    distance,
)
from vijax.verdict.target import Target
from vijax.verdict.words import is_usable, verdict, with_mixture
from vijax.xla.compiler import cached_program, quick_jit

Q = Gaussian | Mixture

CHECKS = 1024  # fresh draws on which a fit is judged at first
FEW_CHECKS = 64  # the same for many rows; if their importance weights are alike, they suffice
MOST_CHECKS = 8192  # fresh draws, at most
SCRAMBLES = 8  # independent scrambles of a Sobol sequence in the fresh draws
DEAR = 50_000  # rows from which on moments are judged only by draws of q
MOST_FITTED = 3  # modes with a rough bound far below q's at which a normal is fitted, at most
FITTED = 10  # sets of draws for each of these normals
FEW_DIRECTIONS = 2
"""A mode is described by q if it is as near as draws of so few variables are, in any case."""


def assess(
    model: Model,
    target: Target,
    q: Q,
    search: SearchResult,
    seed: int,
    normal: Gaussian | None = None,
    max_gradients: float = np.inf,
    passed_over: Sequence[Candidate] = (),
    plain: float = np.inf,
) -> Report:
    """The report on q: its bound, the errors of its moments, the tail of its importance ratios, and
    the modes that the searches found.

    Args:
      model: the model of the density.
      target: the density on the host.
      q: a normal or a mixture.
      search: the modes and labels.
      seed: seed of all draws.
      normal: the normal at which a mixture began; modes inside it count as one.
      max_gradients: limit of gradients, also for normals at modes whose weight is in doubt.
      passed_over: modes that the normal did not describe. A mixture without a part there does not
        describe them either, however few gradients are left.
      plain: bound of the normal before its coordinates were bent. Normals at other modes are
        compared with it, not with a richer q.
    """
    draws, ratios, log_q, rounding = _fresh_draws(target, q, seed)
    zero, gap, khat = distance(ratios, rounding)
    elbo = bound(ratios, SCRAMBLES)
    q = q._replace(ended=_end(target, q, draws, ratios))
    reference_elbo = min(elbo.value, plain, np.inf if normal is None else normal.elbo)
    missed = rivals(q, search, target)
    missed += _find_underrated(q, reference_elbo, search, target, seed, max_gradients)
    still_missed = [x for x in passed_over if not _is_inside(q, x.mode, search, target)]
    missed += _distinct(still_missed, target, missed)
    off = None
    if zero <= limits.RARE and q.ended is not Ended.UNBOUNDED:
        wider = WIDER if target.num_rows < DEAR else 0
        sample = weigh(target.values, q, draws, ratios + log_q, log_q, [seed, 9], wider)
        sample = _restrict(sample, draws, search, missed, target)
        off = _moment_errors(sample, model.log_density, target)
        if off is not None and len(draws) < CHECKS:
            # So few draws suffice because their weights are alike: these have no tail.
            off = off._replace(khat=0.0, log_sd=off.log_sd._replace(khat=0.0))
    widths = _find_widths(target, q, elbo.value, seed)
    others = _describe_others(q, elbo.value, draws, search, missed, target)
    others = others._replace(
        widths=[(width.name(target), width.times) for width in widths],
        share_of_widths=share_beside(widths, elbo.value),
    )
    report = Report(
        elbo,
        _report_modes(model, normal or q, search, target),
        gap,
        khat,
        str(q.ended),
        "",
        target.num_gradients,
        ratios,
        target.to_free(draws),
        zero=zero,
        usable=is_usable(q.ended, zero),
        off=off,
        others=others,
        rounding=rounding,
        away=missed,
        widths=widths,
        source=model.log_density.source,
    )
    return with_verdict(report, q)


def with_verdict(report: Report, q: Q) -> Report:
    """The report with the verdict on q, and its end."""
    words = verdict(
        q,
        report.gap,
        report.khat,
        report.others or Others(),
        report.zero,
        report.off,
        report.rounding,
        report.source,
    )
    return report._replace(ended=str(q.ended), verdict=words)


def compare_reports(normal: Report, mixed: Report, parts: int) -> tuple[bool, Report]:
    """True if the bound of a mixture of `parts` normals is clearly higher than the normal's; and
    the report on the better fit."""
    gain = mixed.elbo.value - normal.elbo.value
    error = float(np.hypot(mixed.elbo.standard_error, normal.elbo.standard_error))
    is_better = gain > max(limits.WORTH, limits.WITHIN * error)
    best, alternative = (mixed, normal) if is_better else (normal, mixed)
    words = with_mixture(is_better, parts, gain, error, best.verdict)
    report = best._replace(verdict=words, other=alternative.elbo, num_gradients=mixed.num_gradients)
    return is_better, report


def _find_widths(target: Target, q: Q, elbo: float, seed: int) -> list[Width]:
    """Parts of other widths that q does not describe. They are not searched for many rows, for
    independent normals, and without a bound."""
    has_bound = np.isfinite(elbo) and q.ended is not Ended.UNBOUNDED
    if not has_bound or not q.is_full or target.num_rows >= DEAR:
        return []
    return other_widths(target, q, elbo, seed)


# --- bound and moments ----------------------------------------------------------------------------
def _fresh_draws(
    target: Target, q: Q, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Fresh draws, log p - log q there, log q, and the rounding error of log p in nats. There are
    as many draws as a sure bound needs."""
    count = CHECKS if target.num_rows < DEAR else FEW_CHECKS
    while True:
        parts = [q.draw(count // SCRAMBLES, [seed, 7, i]) for i in range(SCRAMBLES)]
        draws, log_q = (np.concatenate(x) for x in zip(*parts, strict=True))
        values = target.values(draws)
        ratios = values - log_q
        rounding = target.epsilon * float(np.median(np.abs(values)))
        error = bound(ratios, SCRAMBLES).standard_error
        is_few = count < CHECKS and not are_alike(ratios, rounding)
        hopeless = 2 * limits.SURE_BOUND * np.sqrt(MOST_CHECKS / count)
        is_sure = not limits.SURE_BOUND < error < hopeless
        if (is_sure and not is_few) or count == MOST_CHECKS:
            return draws, ratios, log_q, rounding
        count = min(4 * count, MOST_CHECKS)


def _end(target: Target, q: Q, draws: np.ndarray, log_ratios: np.ndarray) -> Ended:
    """The end of q; `UNBOUNDED` where a search without an optimum has gone far, and the bound
    still grows."""
    if q.ended not in (Ended.SPENT, Ended.LIMITED, Ended.UNSOLVED):
        return q.ended
    finite = log_ratios[np.isfinite(log_ratios)]
    is_high = len(finite) > 0 and float(finite.mean()) * target.epsilon > limits.ROUNDED_HIGH
    is_wide = (
        isinstance(q, Gaussian) and not q.is_full and float(q.scale.max()) > limits.MAY_BE_IMPROPER
    )
    if (is_wide or is_high) and grows_along(target, draws).any():
        return Ended.UNBOUNDED
    return q.ended


def _restrict(
    sample: WeightedDraws,
    draws: np.ndarray,
    search: SearchResult,
    missed: Sequence[Candidate],
    target: Target,
) -> WeightedDraws:
    """The draws in the part of the posterior that q describes, others with weight zero: draws that
    are nearer to modes away from q, or nearer to q with their labels exchanged."""
    sds = np.maximum(draws.std(0), np.finfo(float).tiny)
    center = draws.mean(0)
    if missed:
        center = draws[int(np.argmin((((draws - center) / sds) ** 2).sum(1)))]
    distance = lambda x, y: (((x - y) / sds) ** 2).sum(-1)
    is_inside = np.ones(len(sample.x), bool)
    to_center = distance(sample.x, center)
    for candidate in missed:
        is_inside &= to_center <= distance(sample.x, candidate.mode.x)
    for exchange in search.labels:
        for copy in _copies(exchange, target, sample.x):
            is_inside &= to_center <= distance(copy, center)
    return sample._replace(
        log_p=np.where(is_inside, sample.log_p, -np.inf),
        log_q=np.where(is_inside, sample.log_q, -np.inf),
    )


def _copies(
    exchange: Exchange, target: Target, x: Float[np.ndarray, "points D"]
) -> list[np.ndarray]:
    """Points with their labels exchanged, in all orders."""
    free_copies = exchange.copies(target.variables, target.to_free(x))
    return [target.coordinates(copy) for copy in free_copies]


def _moment_errors(sample: WeightedDraws, density: Any, target: Target) -> Moments | None:
    """Errors of means and sds of the numbers that the density shows; None without draws of
    positive weight."""
    if not (np.isfinite(sample.log_p) & np.isfinite(sample.log_q)).any():
        return None
    names, numbers = shown_numbers(density, target.to_free(sample.x))
    with np.errstate(invalid="ignore"):
        varies = numbers.std(0) > 0
    varying_names = [name for name, does_vary in zip(names, varies, strict=True) if does_vary]
    return moments(sample, numbers[:, varies], varying_names)


# --- other modes ----------------------------------------------------------------------------------
def rivals(q: Q, search: SearchResult, target: Target) -> list[Candidate]:
    """Other modes with a weight like the best mode's: outside q for any order of labels, and on
    different hills."""
    described, missed = _split(q, _weighty(search, q.elbo), search, target)
    return _distinct(missed, target, described)


def _split(
    q: Q, candidates: Sequence[Candidate], search: SearchResult, target: Target
) -> tuple[list[Candidate], list[Candidate]]:
    """The modes that q describes, and the others."""
    described: list[Candidate] = []
    missed: list[Candidate] = []
    for candidate in candidates:
        is_inside = _is_inside(q, candidate.mode, search, target)
        (described if is_inside else missed).append(candidate)
    return described, missed


def _find_underrated(
    q: Q, elbo: float, search: SearchResult, target: Target, seed: int, max_gradients: float
) -> list[Candidate]:
    """Modes whose rough bound is far below q's, but like that of other modes, if a normal fitted
    there comes near the bound of q (`elbo`), and stays outside of q. Where a search was cut short
    there is no mode, and the normal moves away."""
    described, missed = _split(q, _weighty(search, -np.inf), search, target)
    doubtful = [x for x in missed if x.elbo <= max(q.elbo, elbo) - limits.RIVAL]
    if not np.isfinite(elbo) or target.dim > DENSE:
        return []  # beyond `DENSE` a normal of full covariance would cost more than the fit
    underrated = []
    for candidate in _distinct(doubtful, target, described)[:MOST_FITTED]:
        size = Sitting.first_size(target.dim)
        begin_gradients = target.num_gradients + 2 * target.dim
        limit = min(max_gradients, begin_gradients + FITTED * size)
        if limit < begin_gradients + 2 * size:
            # No gradients are left to fit a normal there: assume that both rough bounds have the
            # same error. Without a mode inside there is nothing to compare.
            rough = max((x.elbo for x in described), default=np.inf)
            if candidate.elbo > rough - limits.RIVAL:
                underrated.append(candidate._replace(elbo=elbo + candidate.elbo - rough))
            continue
        begin = Sitting.begin(laplace(target, candidate.mode)[0])
        normal = fit_normal(Run(target, int(limit)), begin, seed, size)
        mode = candidate.mode._replace(x=normal.mean, sds=normal.sds)
        if normal.elbo > elbo - limits.RIVAL and not _is_inside(q, mode, search, target):
            underrated.append(candidate._replace(mode=mode, elbo=normal.elbo))
    return underrated


def _distinct(
    candidates: Sequence[Candidate], target: Target, others: Sequence[Candidate] = ()
) -> list[Candidate]:
    """The modes that are on no hill of the others, nor of an earlier mode."""

    def is_joined(a: Mode, b: Mode) -> bool:
        low, high = sorted((a, b), key=lambda mode: mode.value)
        return share_hill(target, low, high)

    distinct: list[Candidate] = []
    for candidate in candidates:
        if not any(is_joined(candidate.mode, x.mode) for x in (*others, *distinct)):
            distinct.append(candidate)
    return distinct


def _weighty(search: SearchResult, elbo: float) -> list[Candidate]:
    """The modes with a weight like the best mode's, or q's, by their bounds."""
    best = max([elbo, *(x.elbo for x in search.candidates)])
    return [x for x in search.candidates if x.elbo > best - limits.RIVAL]


def _describe_others(
    q: Q,
    elbo: float,
    draws: np.ndarray,
    search: SearchResult,
    missed: list[Candidate],
    target: Target,
) -> Others:
    """The modes outside q in numbers, by their bounds and that of q (`elbo`)."""
    weighty = _weighty(search, -np.inf)
    neighbours = [x for x in weighty if _describes(q, x.mode.x, x.mode.value, target)]
    described = _distinct(neighbours, target)
    labels = [exchange.names for exchange in search.labels]
    if not missed:
        return Others(search.num_starts, max(len(described), 1), labels=labels)
    rough = max((x.elbo for x in described), default=-np.inf)
    if rough > elbo - limits.ROUGHLY:
        elbo = rough  # rough bounds have an error in common
    shares = special.softmax(np.array([elbo, *(x.elbo for x in missed)]))
    sds = np.maximum(draws.std(0), np.finfo(float).tiny)
    means = np.stack([draws.mean(0), *(x.mode.x for x in missed)])
    middle = shares @ means
    all_sds = np.sqrt(sds**2 + shares @ (means - middle) ** 2)
    mean = float(np.max(np.abs(means[0] - middle) / all_sds))
    return Others(
        search.num_starts,
        len(described),
        len(missed),
        1 - shares[0],
        mean,
        float(np.max(all_sds / sds)),
        labels,
    )


def _is_inside(q: Q, mode: Mode, search: SearchResult, target: Target) -> bool:
    """True if q describes a mode, or the same mode with labels exchanged."""
    x = mode.x[None]
    copies = [copy for exchange in search.labels for copy in _copies(exchange, target, x)]
    return any(_describes(q, point[0], mode.value, target) for point in (x, *copies))


def _describes(q: Q, x: Float[np.ndarray, " D"], value: float, target: Target) -> bool:
    """True if a mode at x is one that q describes: as near as draws of q are, and on the hill of
    its mean. Draws of many variables are far from the mean, in all directions together; a mode that
    is as far along one of them, behind a valley, is another one."""
    distance = q.distance(x)
    if not is_near(distance, len(x)):
        return False
    if is_near(distance, FEW_DIRECTIONS):
        return True
    parts = (q,) if isinstance(q, Gaussian) else q.parts
    mean = min(parts, key=lambda part: part.distance(x)).mean
    center = Point(mean, float(target.values(mean[None])[0]), 0.0)
    low, high = sorted((center, Point(x, value, 0.0)), key=lambda point: point.value)
    return share_hill(target, low, high)


def _report_modes(model: Model, q: Q, search: SearchResult, target: Target) -> list[FoundMode]:
    """The modes with the variables' values. The modes inside q count as one, however far their
    searches got."""
    program = cached_program(
        model, _values, lambda model_ref: quick_jit(lambda x: _values(model_ref(), x))
    )

    def values(mode: Mode) -> Any:
        free = target.to_free(mode.x[None])[0]
        return jax.tree.map(np.asarray, program(np.asarray(free, jnp.result_type(float))))

    described, missed = _split(q, search.candidates, search, target)
    modes = [x for x in missed if x.elbo > -np.inf]
    if described:  # they lead, even if the curvature at another mode promised more
        modes.insert(0, described[0]._replace(num_starts=sum(x.num_starts for x in described)))
    return [
        FoundMode(values(x.mode), x.mode.value, x.elbo if x.elbo > -np.inf else None, x.num_starts)
        for x in modes
    ]


def _values(model: Model | None, x: Float[Array, " D"]) -> dict[str, Any]:
    """The variables' values at coordinates."""
    return cast(Model, model).log_density.variables.values(x)[0]


# --- importance weights ---------------------------------------------------------------------------
WIDER = 320  # draws of each wider law
ONE_DRAW = 1e-12  # weight of all other draws, up to which one draw has all of it
FREEDOM = 4  # degrees of freedom of the t
OUTWARD = 4  # how often further laws are centred at draws with the largest share of the sds
FARTHEST = 8  # draws at which each of these laws is centred
NUMBERS = 64  # numbers whose moments are judged in one go


class Points:
    """Points, whitened once for all normals of the same covariance."""

    def __init__(self, x: Float[np.ndarray, "points D"]):
        self.x = x
        self._whitened: dict[tuple[int, ...], tuple[Gaussian, np.ndarray]] = {}

    def whiten(self, q: Gaussian) -> Float[np.ndarray, "points D"]:
        """The noise of the points under q."""
        shape = id(q.scale), id(q.directions), id(q.stretch)
        if shape not in self._whitened:
            self._whitened[shape] = q, q.whiten(self.x)
        first, noise = self._whitened[shape]
        if first.mean is q.mean:
            return noise
        return noise - first.whiten(q.mean[None])


class Wide(NamedTuple):
    """A mixture of normals of equal weights, whose draws Student's t stretches."""

    parts: tuple[Gaussian, ...]  # the normals
    by_direction: bool  # True stretches each direction by itself, False all directions alike

    def draw(self, size: int, rng: np.random.Generator) -> Float[np.ndarray, "draws D"]:
        """Random draws."""
        num_parts = len(self.parts)
        dim = len(self.parts[0].mean)
        counts = np.bincount(rng.choice(num_parts, size, p=np.full(num_parts, 1 / num_parts)))
        noises = []
        for count in counts:
            chi2 = rng.chisquare(FREEDOM, (count, dim if self.by_direction else 1))
            noises.append(rng.normal(size=(count, dim)) * np.sqrt(FREEDOM / chi2))
        first = self.parts[0]
        if any(part.scale is not first.scale for part in self.parts):
            pairs = zip(self.parts, noises, strict=False)
            return np.concatenate([part.from_noise(noise) for part, noise in pairs])
        # One product with the scale that all parts have.
        shifts = [part.mean - first.mean for part in self.parts[: len(counts)]]
        return first.from_noise(np.concatenate(noises)) + np.repeat(shifts, counts, axis=0)

    def log_prob(self, points: Points) -> Float[np.ndarray, " points"]:
        """The log density of points."""
        log_probs = np.stack([self._part_log_prob(part, points) for part in self.parts])
        return special.logsumexp(log_probs, 0) - np.log(len(self.parts))

    def _part_log_prob(self, part: Gaussian, points: Points) -> np.ndarray:
        noise = points.whiten(part)
        v = FREEDOM
        dim = noise.shape[1]
        log_volume = part.entropy() - 0.5 * dim * np.log(2 * np.pi * np.e)
        size = 1 if self.by_direction else dim  # dimension of a t
        constant = (
            special.gammaln(0.5 * (v + size))
            - special.gammaln(0.5 * v)
            - 0.5 * size * np.log(v * np.pi)
        )
        if self.by_direction:
            return dim * constant - 0.5 * (v + 1) * np.log1p(noise**2 / v).sum(1) - log_volume
        return constant - 0.5 * (v + dim) * np.log1p((noise**2).sum(1) / v) - log_volume


class WeightedDraws(NamedTuple):
    """Draws of several laws, with the density of their mixture."""

    x: Float[np.ndarray, "S D"]  # draws, (S, D)
    log_p: Float[np.ndarray, " S"]  # log density of the posterior, up to a constant
    log_q: Float[np.ndarray, " S"]  # of q
    log_all: Float[np.ndarray, " S"]  # of the mixture of all laws


def weigh(
    log_density: Callable[[np.ndarray], np.ndarray],
    q: Q,
    draws: Float[np.ndarray, "draws D"],
    log_p: Float[np.ndarray, " draws"],
    log_q: Float[np.ndarray, " draws"],
    seed: list[int],
    num_wider: int = WIDER,
) -> WeightedDraws:
    """Draws of q, with log p and log q there, and draws of wider laws in which all components have
    equal weights: `num_wider` of each law, 0 if the density is expensive."""
    if not num_wider:
        return WeightedDraws(draws, log_p, log_q, log_q)
    rng = np.random.default_rng(seed)
    parts = (q,) if isinstance(q, Gaussian) else q.parts

    def draw(law: Wide, size: int) -> _LawDraws:
        x = law.draw(size, rng)
        return law, x, log_density(x), q.log_prob(x)

    nearest = lambda x: min(parts, key=lambda part: part.distance(x))
    laws = [Wide(parts, by_direction) for by_direction in (False, True)]
    pilot = [draw(law, num_wider // 2) for law in laws]
    for _ in range(OUTWARD):
        centers = _influential_draws(_combine(pilot))
        law = Wide(tuple(nearest(x)._replace(mean=x) for x in centers), False)
        laws.append(law)
        pilot.append(draw(law, num_wider // 2))
    # New draws: a law centred at a draw of large weight would take that draw's weight.
    return _combine([(None, draws, log_p, log_q), *(draw(law, num_wider) for law in laws)])


_LawDraws = tuple[Wide | None, np.ndarray, np.ndarray, np.ndarray]
"""A law (None for q), draws of it, and the log densities of posterior and q there."""


def _combine(sets: list[_LawDraws]) -> WeightedDraws:
    """All draws as draws of one mixture."""
    laws, *parts = zip(*sets, strict=True)
    x, log_p, log_q = (np.concatenate(part) for part in parts)
    points = Points(x)
    log_probs = np.stack([log_q if law is None else law.log_prob(points) for law in laws])
    counts = np.array([len(part) for part in parts[0]])
    log_all = special.logsumexp(log_probs, 0, b=counts[:, None] / len(x))
    return WeightedDraws(x, log_p, log_q, log_all)


def _influential_draws(sample: WeightedDraws) -> Float[np.ndarray, "FARTHEST D"]:
    """The draws with the largest share of the standard deviations."""
    weights = special.softmax(sample.log_p - sample.log_all)
    deviations = sample.x - weights @ sample.x
    variances = np.maximum(weights @ deviations**2, 1e-300)
    shares = weights * np.max(deviations**2 / variances, 1)
    return sample.x[np.argsort(-shares, kind="stable")[:FARTHEST]]


def moments(
    sample: WeightedDraws, numbers: Float[np.ndarray, "S M"], names: Sequence[str]
) -> Moments | None:
    """Errors of means and standard deviations of q, for these numbers at the draws, with their
    names; None where one draw has all the weight, and no spread is known.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4000, 1))  # of q, N(0, 1); the posterior is N(.2, .9^2)
    >>> log_p = -0.5 * ((x[:, 0] - 0.2) / 0.9) ** 2
    >>> log_q = -0.5 * x[:, 0] ** 2
    >>> off = moments(WeightedDraws(x, log_p, log_q, log_q), x, ["x"])
    >>> print(f"{off.mean.value:.1f} {np.exp(off.log_sd.value):.1f}")  # (0 - .2) / .9, 1 / .9
    -0.2 1.1
    """
    smoothed = psis(sample.log_p - sample.log_all)
    p = np.exp(smoothed.log_weights)
    q = special.softmax(sample.log_q - sample.log_all)
    is_finite = np.isfinite(numbers).all(1)
    p = p[is_finite] / p[is_finite].sum()
    q = q[is_finite] / q[is_finite].sum()
    if 1 - p.max() < ONE_DRAW:
        return None
    x = numbers[is_finite]
    # Some numbers at a time: all together would take many times the memory of the draws.
    parts = [
        _errors_of_moments(p, q, x[:, start : start + NUMBERS])
        for start in range(0, len(names), NUMBERS)
    ]
    mean, mean_error, log_sd, sd_error, mean_p = map(np.concatenate, zip(*parts, strict=True))
    independent = float(len(names))
    if len(names) >= limits.MANY:
        independent = num_independent(x, q)
    mean_off = _largest_error(mean, mean_error, names, independent)
    sd_off = _largest_error(log_sd, sd_error, names, independent)
    column = list(names).index(sd_off.at)
    with np.errstate(divide="ignore"):
        squares = np.log(p) + 2 * np.log(np.abs(x[:, column] - mean_p[column]))
    sd_off = sd_off._replace(khat=psis(squares).khat)
    num_draws = int(is_finite.sum())
    return Moments(mean_off, sd_off, smoothed.khat, smoothed.ess, num_draws, len(names))


def _errors_of_moments(
    p: Float[np.ndarray, " S"], q: Float[np.ndarray, " S"], x: Float[np.ndarray, "S M"]
) -> tuple[np.ndarray, ...]:
    """Errors of means, in sds, with their standard errors; of logarithms of sds, with theirs; and
    the means of the posterior. p and q are weights of the draws."""
    tiny = np.finfo(float).tiny
    mean_p, mean_q = p @ x, q @ x
    deviations_p, deviations_q = x - mean_p, x - mean_q
    sd_p = np.maximum(np.sqrt(p @ deviations_p**2), tiny)
    sd_q = np.sqrt(q @ deviations_q**2)
    mean_terms = p[:, None] * deviations_p - q[:, None] * deviations_q
    mean_error = np.sqrt((mean_terms**2).sum(0)) / sd_p
    z_p = deviations_p / sd_p
    z_q = deviations_q / np.maximum(sd_q, 1e-300)
    sd_terms = p[:, None] * (z_p**2 - 1) - q[:, None] * (z_q**2 - 1)
    sd_error = 0.5 * np.sqrt((sd_terms**2).sum(0))
    log_sd = np.log(np.maximum(sd_q, tiny) / sd_p)
    return (mean_q - mean_p) / sd_p, mean_error, log_sd, sd_error, mean_p


def num_independent(numbers: Float[np.ndarray, "S M"], weights: Float[np.ndarray, " S"]) -> float:
    """The number of independent normal numbers with the same information: M^2 over the sum of
    squared correlations, noise of the draws subtracted.

    >>> x = np.random.default_rng(0).normal(size=(1000, 1))
    >>> bool(np.isclose(num_independent(np.repeat(x, 5, axis=1), np.full(1000, 1e-3)), 1.0))
    True
    """
    scaled = np.sqrt(weights)[:, None] * (numbers - weights @ numbers)
    scaled = scaled / np.maximum(np.sqrt((scaled**2).sum(0)), np.finfo(float).tiny)
    # scaled' scaled and scaled scaled' have the same sum of squares: take the smaller matrix.
    products = scaled.T @ scaled if scaled.shape[1] <= len(scaled) else scaled @ scaled.T
    size = scaled.shape[1]
    squares = float((products**2).sum())
    noise = (size**2 - squares) * float((weights**2).sum())
    return size**2 / max(squares - noise, size)


def _largest_error(
    off: Float[np.ndarray, " M"],
    errors: Float[np.ndarray, " M"],
    names: Sequence[str],
    independent: float,
) -> Off:
    """The number with the largest error, two standard errors included. The largest of many noisy
    numbers is large by noise alone: from `limits.MANY` on they are drawn together (`shrink`)."""
    hidden = 0.0
    if len(off) >= limits.MANY:
        limit = float(special.ndtri(1 - limits.BY_CHANCE / (2 * len(off))))
        off, errors, hidden = shrink(off, errors, independent, limit)
    place = int(np.argmax(np.abs(off) + limits.WITHIN * errors))
    return Off(float(off[place]), float(errors[place]), names[place], hidden=hidden)


def shrink(
    off: Float[np.ndarray, " M"],
    errors: Float[np.ndarray, " M"],
    independent: float,
    limit: float,
) -> tuple[Float[np.ndarray, " M"], Float[np.ndarray, " M"], float]:
    """Empirical Bayes estimates of many noisy errors (Efron and Morris 1973).

    Numbers beyond `limit` standard errors are no noise, and stay. The others are modelled as draws
    of N(0, t^2) plus noise; t^2 is the excess of their squares over noise, two standard errors of
    it included.

    Args:
      off: the noisy errors.
      errors: their standard errors.
      independent: the number of independent ones among them, which determines the precision of t.
      limit: standard errors that no noise exceeds.

    Returns:
      Estimates, their standard errors, and the smallest error that would stand out of the noise.

    >>> rng = np.random.default_rng(0)
    >>> noise = rng.normal(size=1000) * 0.1
    >>> estimates, errors, hidden = shrink(noise, np.full(1000, 0.1), 1000, 4.5)
    >>> print(f"{np.abs(noise).max():.2f} {np.abs(estimates).max():.2f} {hidden:.2f}")
    0.39 0.02 0.45
    """
    is_large = np.abs(off) > limit * errors
    is_small = ~is_large
    if not is_small.any():
        return off, errors, 0.0
    noise = errors[is_small] ** 2
    excess = np.mean(off[is_small] ** 2 - noise)
    doubt = limits.WITHIN * np.sqrt(2.0 / independent) * np.mean(noise)
    variance = max(float(excess + doubt), 0.0)
    share = np.where(is_large, 1.0, variance / np.maximum(variance + errors**2, 1e-300))
    return off * share, errors * np.sqrt(share), limit * float(np.median(errors[is_small]))

"""Judges a fit of a log density on draws that it has not seen.

Importance weights say how far means and standard deviations of q are off. Beside draws of q there
are draws of two wider laws, in which each component of q is made longer by Student's t: in all
directions alike, and in each direction by itself. With n_j draws of law j of density f_j, all draws
are weighted by

    w  ~  p / (sum_j n_j f_j)        (the balance heuristic, Veach and Guibas 1995),

so that there are draws where q itself would have none. Further laws of that kind are centred at
draws that count most for standard deviations, so that they reach on along a bent arm or into a
tail. The moments of q come from the same draws, weighted by q in the place of p: so the difference
of two moments has little noise where q is near p, and none where it is p."""

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
from vijax.lbfgs import Mode
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

CHECKS, FEW_CHECKS, MOST_CHECKS, SCRAMBLES = 1024, 64, 8192, 8
"""Fresh draws on which a fit is judged: at first; at first where rows are many, and no more of them
if the importance weights are alike; at most. And the independent scrambles of a Sobol sequence that
they are made of."""
DEAR = 50_000  # rows from which on moments are judged by the draws of q alone
MOST_FITTED, FITTED = 3, 10
"""Modes with a rough bound far below that of q at which a normal is fitted, at most; and sets of
draws for each."""


def assess(
    model: Model,
    target: Target,
    q: Q,
    searched: SearchResult,
    seed: int,
    normal: Gaussian | None = None,
    max_gradients: float = np.inf,
    passed_over: Sequence[Candidate] = (),
    plain: float = np.inf,
) -> Report:
    """Reports the bound of q, how far its moments are off, the tail of its importance ratios, and
    the modes that the starts found. `normal` is the one from which a mixture began; it tells which
    modes are one. Normals at modes whose weight is in doubt are fitted within the limit of
    gradients. `passed_over` are modes that the normal did not describe: a mixture of which nothing
    is there does not either, whatever is left of the gradients. `plain` is the bound of the normal
    before its coordinates were bent: normals at other modes are held against it, not against a
    richer q."""
    draws, ratios, log_q, rounding = _checked(target, q, seed)
    zero, gap, khat = distance(ratios, rounding)
    own = bound(ratios, SCRAMBLES)
    q = q._replace(ended=_ended(target, q, draws, ratios))
    least = min(own.value, plain, np.inf if normal is None else normal.elbo)
    away = [
        *rivals(q, searched, target),
        *_underrated(q, least, searched, target, seed, max_gradients),
    ]
    away += _apart(
        [one for one in passed_over if not _is_inside(q, one.mode, searched, target)], target, away
    )
    off = None
    if zero <= limits.RARE and q.ended is not Ended.UNBOUNDED:
        wider = WIDER if target.num_rows < DEAR else 0
        found = weighed(target.values, q, draws, ratios + log_q, log_q, [seed, 9], wider)
        off = _off(_of_part(found, draws, searched, away, target), model.log_density, target)
        if (
            off is not None and len(draws) < CHECKS
        ):  # so few because their weights are alike: these have no tail
            off = off._replace(khat=0.0, log_sd=off.log_sd._replace(khat=0.0))
    widths = _widths_of(target, q, own.value, seed)
    others = _others(q, own.value, draws, searched, away, target)._replace(
        widths=[(one.name(target), one.times) for one in widths],
        share_of_widths=share_beside(widths, own.value),
    )
    said = Report(
        own,
        _shown(model, normal or q, searched, target),
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
        away=away,
        widths=widths,
    )
    return with_verdict(said, q)


def with_verdict(said: Report, q: Q) -> Report:
    """Returns the report with the verdict on q, and how q ended."""
    words = verdict(
        q, said.gap, said.khat, said.others or Others(), said.zero, said.off, said.rounding
    )
    return said._replace(ended=str(q.ended), verdict=words)


def compare_reports(normal: Report, mixed: Report, parts: int) -> tuple[bool, Report]:
    """Says whether the bound of a mixture is higher beyond doubt, and returns the report on the fit
    to be kept."""
    more = mixed.elbo.value - normal.elbo.value
    error = float(np.hypot(mixed.elbo.standard_error, normal.elbo.standard_error))
    better = more > max(limits.WORTH, limits.WITHIN * error)
    kept, other = (mixed, normal) if better else (normal, mixed)
    words = with_mixture(better, parts, more, error, kept.verdict)
    return better, kept._replace(verdict=words, other=other.elbo, num_gradients=mixed.num_gradients)


def _widths_of(target: Target, q: Q, own: float, seed: int) -> list[Width]:
    """Returns parts of other widths that q does not describe; none where they were not looked for:
    of many rows, of independent normals, and where there is no bound."""
    is_known = np.isfinite(own) and q.ended is not Ended.UNBOUNDED
    return (
        other_widths(target, q, own, seed)
        if is_known and q.is_full and target.num_rows < DEAR
        else []
    )


# --- bound and moments ----------------------------------------------------------------------------
def _checked(target: Target, q: Q, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Returns draws that the fit has not seen, log p - log q there, and log q: as many as a sure
    bound takes. And the rounding of log p, in nats."""
    count = CHECKS if target.num_rows < DEAR else FEW_CHECKS
    while True:
        parts = [q.draw(count // SCRAMBLES, [seed, 7, i]) for i in range(SCRAMBLES)]
        draws, log_q = (np.concatenate(x) for x in zip(*parts, strict=True))
        values = target.values(draws)
        ratios, rounding = values - log_q, target.epsilon * float(np.median(np.abs(values)))
        error = bound(ratios, SCRAMBLES).standard_error
        is_few = count < CHECKS and not are_alike(ratios, rounding)
        is_sure = (
            not limits.SURE_BOUND < error < 2 * limits.SURE_BOUND * np.sqrt(MOST_CHECKS / count)
        )
        if (is_sure and not is_few) or count == MOST_CHECKS:
            return draws, ratios, log_q, rounding
        count = min(4 * count, MOST_CHECKS)


def _ended(target: Target, q: Q, draws: np.ndarray, log_ratios: np.ndarray) -> Ended:
    """Returns how q ended; unbounded where a search without an end has gone far, and the bound
    grows further on."""
    if q.ended not in (Ended.SPENT, Ended.LIMITED, Ended.UNSOLVED):
        return q.ended
    known = log_ratios[np.isfinite(log_ratios)]
    lost = len(known) > 0 and float(known.mean()) * target.epsilon > limits.ROUNDED_HIGH
    wide = (
        isinstance(q, Gaussian) and not q.is_full and float(q.scale.max()) > limits.MAY_BE_IMPROPER
    )
    return Ended.UNBOUNDED if (wide or lost) and grows_along(target, draws).any() else q.ended


def _of_part(
    of: Weighed,
    draws: np.ndarray,
    searched: SearchResult,
    away: Sequence[Candidate],
    target: Target,
) -> Weighed:
    """Leaves out draws beyond the part of the posterior that q describes: those that are nearer to
    modes away from q, or are nearer to q with their labels exchanged."""
    sds = np.maximum(draws.std(0), np.finfo(float).tiny)
    center = (
        draws[int(np.argmin((((draws - draws.mean(0)) / sds) ** 2).sum(1)))]
        if away
        else draws.mean(0)
    )
    apart = lambda x, y: (((x - y) / sds) ** 2).sum(-1)
    kept, own = np.ones(len(of.x), bool), apart(of.x, center)
    for other in away:
        kept &= own <= apart(of.x, other.mode.x)
    for exchange in searched.labels:
        for copy in _copies(exchange, target, of.x):
            kept &= own <= apart(copy, center)
    return of._replace(
        log_p=np.where(kept, of.log_p, -np.inf), log_q=np.where(kept, of.log_q, -np.inf)
    )


def _copies(
    exchange: Exchange, target: Target, x: Float[np.ndarray, "points D"]
) -> list[np.ndarray]:
    """Returns points with their labels exchanged."""
    return [
        target.coordinates(copy) for copy in exchange.copies(target.variables, target.to_free(x))
    ]


def _off(of: Weighed, density: Any, target: Target) -> Moments | None:
    """Returns how far means and sds of what the density shows are off; None where no draw is
    left."""
    if not (np.isfinite(of.log_p) & np.isfinite(of.log_q)).any():
        return None
    names, numbers = shown_numbers(density, target.to_free(of.x))
    with np.errstate(invalid="ignore"):
        varies = numbers.std(0) > 0
    kept = [name for name, is_kept in zip(names, varies, strict=True) if is_kept]
    return moments(of, numbers[:, varies], kept)


# --- other modes ----------------------------------------------------------------------------------
def rivals(q: Q, searched: SearchResult, target: Target) -> list[Candidate]:
    """Returns other modes of a weight like that of the best: outside q, whatever the order of
    labels, and on hills of their own."""
    weighty = _weighty(searched, q.elbo)
    inside, outside = _parted(q, weighty, searched, target)
    return _apart(outside, target, inside)


def _parted(
    q: Q, found: Sequence[Candidate], searched: SearchResult, target: Target
) -> tuple[list[Candidate], list[Candidate]]:
    """Returns the modes that q describes, and the others."""
    inside = [_is_inside(q, one.mode, searched, target) for one in found]
    at = lambda which: [one for one, is_in in zip(found, inside, strict=True) if is_in is which]
    return at(True), at(False)


def _underrated(
    q: Q, own: float, searched: SearchResult, target: Target, seed: int, max_gradients: float
) -> list[Candidate]:
    """Returns modes whose rough bound is far below that of q, but not below those of the other
    modes, if a normal that is fitted there comes near the bound of q, and stays outside of it.
    Where a search was cut short there is no mode, and a normal leaves the place."""
    inside, outside = _parted(q, _weighty(searched, -np.inf), searched, target)
    doubtful = [one for one in outside if one.elbo <= max(q.elbo, own) - limits.RIVAL]
    if (
        not np.isfinite(own) or target.dim > DENSE
    ):  # a normal of full covariance would cost more than the fit
        return []
    fitted = []
    for one in _apart(doubtful, target, inside)[:MOST_FITTED]:
        size = Sitting.first_size(target.dim)
        most = min(max_gradients, target.num_gradients + 2 * target.dim + FITTED * size)
        if most < target.num_gradients + 2 * target.dim + 2 * size:
            # Nothing is left to fit a normal there: both rough bounds are taken to be as far below
            # the fitted ones.
            rough = max(
                (each.elbo for each in inside), default=np.inf
            )  # with none inside there is nothing to compare
            fitted += (
                [one._replace(elbo=own + one.elbo - rough)]
                if one.elbo > rough - limits.RIVAL
                else []
            )
            continue
        begin = Sitting.begin(laplace(target, one.mode)[0])
        there = fit_normal(Run(target, int(most)), begin, seed, size)
        mode = one.mode._replace(x=there.mean, sds=there.sds)
        if there.elbo > own - limits.RIVAL and not _is_inside(q, mode, searched, target):
            fitted.append(one._replace(mode=mode, elbo=there.elbo))
    return fitted


def _apart(
    found: Sequence[Candidate], target: Target, others: Sequence[Candidate] = ()
) -> list[Candidate]:
    """Returns modes that are not on the hill of others, nor of a mode before."""
    joined = lambda *two: share_hill(target, *sorted(two, key=lambda mode: mode.value))
    kept: list[Candidate] = []
    for one in found:
        if not any(joined(one.mode, own.mode) for own in (*others, *kept)):
            kept.append(one)
    return kept


def _weighty(searched: SearchResult, own: float) -> list[Candidate]:
    """Returns the modes of a weight like that of the best, or of q, by their bounds."""
    best = max([own, *(one.elbo for one in searched.candidates)])
    return [one for one in searched.candidates if one.elbo > best - limits.RIVAL]


def _others(
    q: Q,
    own: float,
    draws: np.ndarray,
    searched: SearchResult,
    outside: list[Candidate],
    target: Target,
) -> Others:
    """Returns what the searches found beside q, by its bound and theirs."""
    weighty = _weighty(searched, -np.inf)
    inside = _apart(
        [one for one in weighty if is_near(q.distance(one.mode.x), len(one.mode.x))], target
    )
    labels = [exchange.names for exchange in searched.labels]
    if not outside:
        return Others(searched.num_starts, max(len(inside), 1), labels=labels)
    rough = max((one.elbo for one in inside), default=-np.inf)
    own = rough if rough > own - limits.ROUGHLY else own  # rough bounds have an error in common
    shares = special.softmax(np.array([own, *(one.elbo for one in outside)]))
    sds = np.maximum(draws.std(0), np.finfo(float).tiny)
    means = np.stack([draws.mean(0), *(one.mode.x for one in outside)])
    middle = shares @ means
    all_sds = np.sqrt(sds**2 + shares @ (means - middle) ** 2)
    mean = float(np.max(np.abs(means[0] - middle) / all_sds))
    return Others(
        searched.num_starts,
        len(inside),
        len(outside),
        1 - shares[0],
        mean,
        float(np.max(all_sds / sds)),
        labels,
    )


def _is_inside(q: Q, mode: Mode, searched: SearchResult, target: Target) -> bool:
    """Says whether q describes a mode, or one that is the same with labels exchanged."""
    x = mode.x[None]
    copies = [copy for exchange in searched.labels for copy in _copies(exchange, target, x)]
    return any(is_near(q.distance(one[0]), len(one[0])) for one in (x, *copies))


def _shown(model: Model, q: Q, searched: SearchResult, target: Target) -> list[FoundMode]:
    """Returns the modes with the variables' values; those inside q count as one, however far their
    searches got."""
    program = cached_program(model, _values, lambda model: quick_jit(lambda x: _values(model(), x)))
    free = lambda mode: target.to_free(mode.x[None])[0]
    at = lambda mode: jax.tree.map(
        np.asarray, program(np.asarray(free(mode), jnp.result_type(float)))
    )
    inside = [_is_inside(q, one.mode, searched, target) for one in searched.candidates]
    own = [one for one, is_in in zip(searched.candidates, inside, strict=True) if is_in]
    others = [
        one
        for one, is_in in zip(searched.candidates, inside, strict=True)
        if not is_in and one.elbo > -np.inf
    ]
    if own:  # they lead, also where another's curvature promised more
        others = [own[0]._replace(num_starts=sum(one.num_starts for one in own)), *others]
    elbo = lambda one: one.elbo if one.elbo > -np.inf else None
    return [FoundMode(at(one.mode), one.mode.value, elbo(one), one.num_starts) for one in others]


def _values(model: Model | None, x: Float[Array, " D"]) -> dict[str, Any]:
    """Returns the variables' values at coordinates."""
    return cast(Model, model).log_density.variables.values(x)[0]


# --- importance weights ---------------------------------------------------------------------------
WIDER = 320  # draws of each wider law
ONE_DRAW = 1e-12  # weight of all other draws, up to which one draw has all of it
FREEDOM = 4  # degrees of freedom of the t
OUTWARD, FARTHEST = (
    4,
    8,
)  # how often laws are centred at draws that count most for sds; and at how many draws


class Wide(NamedTuple):
    """A mixture of normals of equal weights, whose draws are made longer by Student's t."""

    parts: tuple[Gaussian, ...]  # the normals
    each: bool  # True makes each direction longer by itself, False all directions alike

    def draw(self, size: int, rng: np.random.Generator) -> Float[np.ndarray, "draws D"]:
        """Returns draws."""
        num_parts, dim = len(self.parts), len(self.parts[0].mean)
        counts = np.bincount(rng.choice(num_parts, size, p=np.full(num_parts, 1 / num_parts)))
        drawn = []
        for part, count in zip(self.parts, counts, strict=False):
            chi2 = rng.chisquare(FREEDOM, (count, dim if self.each else 1))
            drawn.append(part.from_noise(rng.normal(size=(count, dim)) * np.sqrt(FREEDOM / chi2)))
        return np.concatenate(drawn)

    def log_prob(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """Returns the log density of points."""
        return special.logsumexp(np.stack([self._of(part, x) for part in self.parts]), 0) - np.log(
            len(self.parts)
        )

    def _of(self, part: Gaussian, x: np.ndarray) -> np.ndarray:
        noise, v = part.whiten(x), FREEDOM
        dim = noise.shape[1]
        volume = part.entropy() - 0.5 * dim * np.log(2 * np.pi * np.e)
        if self.each:
            one = (
                special.gammaln(0.5 * (v + 1)) - special.gammaln(0.5 * v) - 0.5 * np.log(v * np.pi)
            )
            return dim * one - 0.5 * (v + 1) * np.log1p(noise**2 / v).sum(1) - volume
        one = (
            special.gammaln(0.5 * (v + dim))
            - special.gammaln(0.5 * v)
            - 0.5 * dim * np.log(v * np.pi)
        )
        return one - 0.5 * (v + dim) * np.log1p((noise**2).sum(1) / v) - volume


class Weighed(NamedTuple):
    """Draws of several laws, with the density of their mixture."""

    x: Float[np.ndarray, "S D"]  # draws, (S, D)
    log_p: Float[np.ndarray, " S"]  # log density of the posterior, up to a constant
    log_q: Float[np.ndarray, " S"]  # of q
    log_all: Float[np.ndarray, " S"]  # of the mixture of all laws


def weighed(
    log_density: Callable[[np.ndarray], np.ndarray],
    q: Q,
    draws: Float[np.ndarray, "draws D"],
    log_p: Float[np.ndarray, " draws"],
    log_q: Float[np.ndarray, " draws"],
    seed: list[int],
    num_wider: int = WIDER,
) -> Weighed:
    """Returns draws of q, with log p and log q there, beside draws of wider laws in which all
    components have equal weights: `num_wider` of each law, 0 where the density is dear."""
    if not num_wider:
        return Weighed(draws, log_p, log_q, log_q)
    rng = np.random.default_rng(seed)
    parts = (q,) if isinstance(q, Gaussian) else q.parts

    def drawn(law: Wide, size: int) -> _Drawn:
        x = law.draw(size, rng)
        return law, x, log_density(x), q.log_prob(x)

    nearest = lambda x: min(parts, key=lambda part: part.distance(x))
    laws = [Wide(parts, each) for each in (False, True)]
    pilot = [drawn(law, num_wider // 2) for law in laws]
    for _ in range(OUTWARD):
        laws.append(
            Wide(tuple(nearest(x)._replace(mean=x) for x in _farthest(_together(pilot))), False)
        )
        pilot.append(drawn(laws[-1], num_wider // 2))
    # Afresh: a law that was put where a draw weighed much would take that draw's weight.
    return _together([(None, draws, log_p, log_q), *(drawn(law, num_wider) for law in laws)])


_Drawn = tuple[Wide | None, np.ndarray, np.ndarray, np.ndarray]
"""Draws of one law, None that of q, with the log densities of posterior and q there."""


def _together(sets: list[_Drawn]) -> Weighed:
    """Returns all draws as those of one mixture."""
    laws, *parts = zip(*sets, strict=True)
    x, log_p, log_q = (np.concatenate(part) for part in parts)
    each = np.stack([log_q if law is None else law.log_prob(x) for law in laws])
    counts = np.array([len(part) for part in parts[0]])
    return Weighed(x, log_p, log_q, special.logsumexp(each, 0, b=counts[:, None] / len(x)))


def _farthest(of: Weighed) -> Float[np.ndarray, "FARTHEST D"]:
    """Returns the draws that count most for standard deviations."""
    weights = special.softmax(of.log_p - of.log_all)
    apart = of.x - weights @ of.x
    counts = weights * np.max(apart**2 / np.maximum(weights @ apart**2, 1e-300), 1)
    return of.x[np.argsort(-counts, kind="stable")[:FARTHEST]]


def moments(of: Weighed, numbers: Float[np.ndarray, "S M"], names: Sequence[str]) -> Moments | None:
    """Returns how far means and standard deviations of q are off, of these numbers at the draws, by
    their names; None where one draw has all the weight, and says nothing of a spread.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4000, 1))  # of q, N(0, 1); the posterior is N(.2, .9^2)
    >>> log_p = -0.5 * ((x[:, 0] - 0.2) / 0.9) ** 2
    >>> found = moments(Weighed(x, log_p, -0.5 * x[:, 0] ** 2, -0.5 * x[:, 0] ** 2), x, ["x"])
    >>> print(f"{found.mean.value:.1f} {np.exp(found.log_sd.value):.1f}")  # (0 - .2) / .9, 1 / .9
    -0.2 1.1
    """
    smoothed = psis(of.log_p - of.log_all)
    p = np.exp(smoothed.log_weights)
    q = special.softmax(of.log_q - of.log_all)
    usable = np.isfinite(numbers).all(1)
    p, q, x = (p[usable] / p[usable].sum(), q[usable] / q[usable].sum(), numbers[usable])
    mean_p, mean_q = p @ x, q @ x
    apart_p, apart_q = x - mean_p, x - mean_q
    sd_p, sd_q = np.sqrt(p @ apart_p**2), np.sqrt(q @ apart_q**2)
    if 1 - p.max() < ONE_DRAW:
        return None
    least = np.maximum(sd_p, np.finfo(float).tiny)
    mean, log_sd = (mean_q - mean_p) / least, np.log(np.maximum(sd_q, np.finfo(float).tiny) / least)
    of_mean = p[:, None] * apart_p - q[:, None] * apart_q
    of_sd = p[:, None] * ((apart_p / least) ** 2 - 1) - q[:, None] * (
        (apart_q / np.maximum(sd_q, 1e-300)) ** 2 - 1
    )
    errors = np.sqrt((of_mean**2).sum(0)) / least, 0.5 * np.sqrt((of_sd**2).sum(0))
    independent = num_independent(x, q) if len(names) >= limits.MANY else len(names)
    mean_off = _most_off(mean, errors[0], names, independent)
    sd_off = _most_off(log_sd, errors[1], names, independent)
    with np.errstate(divide="ignore"):
        squares = np.log(p) + 2 * np.log(np.abs(apart_p[:, list(names).index(sd_off.at)]))
    sd_off = sd_off._replace(khat=psis(squares).khat)
    num_draws = int(usable.sum())
    return Moments(mean_off, sd_off, smoothed.khat, smoothed.ess, num_draws, len(names))


def num_independent(numbers: Float[np.ndarray, "S M"], weights: Float[np.ndarray, " S"]) -> float:
    """The number of independent normal numbers of which as much is known as of these: M^2 over the
    sum of their squared correlations, noise of the draws subtracted.

    >>> x = np.random.default_rng(0).normal(size=(1000, 1))
    >>> bool(np.isclose(num_independent(np.repeat(x, 5, axis=1), np.full(1000, 1e-3)), 1.0))
    True
    """
    apart = numbers - weights @ numbers
    scaled = np.sqrt(weights)[:, None] * apart
    scaled = scaled / np.maximum(np.sqrt((scaled**2).sum(0)), np.finfo(float).tiny)
    # The sum of squares of scaled' scaled is that of scaled scaled', which may be the smaller one.
    products = scaled.T @ scaled if scaled.shape[1] <= len(scaled) else scaled @ scaled.T
    size = scaled.shape[1]
    squares = float((products**2).sum())
    by_noise = (size**2 - squares) * float((weights**2).sum())
    return size**2 / max(squares - by_noise, size)


def _most_off(
    off: Float[np.ndarray, " M"],
    errors: Float[np.ndarray, " M"],
    names: Sequence[str],
    independent: float,
) -> Off:
    """The number that is off most, two standard errors included. The largest of many noisy numbers
    is large by noise alone: from `limits.MANY` on they are drawn together (`shrink`)."""
    hidden = 0.0
    if len(off) >= limits.MANY:
        limit = float(special.ndtri(1 - limits.BY_CHANCE / (2 * len(off))))
        off, errors, hidden = shrink(off, errors, independent, limit)
    at = int(np.argmax(np.abs(off) + limits.WITHIN * errors))
    return Off(float(off[at]), float(errors[at]), names[at], hidden=hidden)


def shrink(
    off: Float[np.ndarray, " M"],
    errors: Float[np.ndarray, " M"],
    independent: float,
    limit: float,
) -> tuple[Float[np.ndarray, " M"], Float[np.ndarray, " M"], float]:
    """Empirical Bayes estimates of many errors that are seen with noise (Efron and Morris 1973).

    Numbers beyond `limit` standard errors are no noise, and stay. The others are taken for draws of
    N(0, t^2) plus noise, t^2 being what their squares have beyond noise, two standard errors of it
    included.

    Args:
      off: what is seen.
      errors: standard errors of it.
      independent: the number of independent ones among them, which says how well t is known.
      limit: standard errors that no noise exceeds.

    Returns:
      Estimates, their standard errors, and the smallest error that would stand out of the noise.

    >>> rng = np.random.default_rng(0)
    >>> noise = rng.normal(size=1000) * 0.1
    >>> estimates, errors, hidden = shrink(noise, np.full(1000, 0.1), 1000, 4.5)
    >>> print(f"{np.abs(noise).max():.2f} {np.abs(estimates).max():.2f} {hidden:.2f}")
    0.39 0.02 0.45
    """
    stands_out = np.abs(off) > limit * errors
    quiet = ~stands_out
    if not quiet.any():
        return off, errors, 0.0
    noise = errors[quiet] ** 2
    excess = np.mean(off[quiet] ** 2 - noise)
    doubt = limits.WITHIN * np.sqrt(2.0 / independent) * np.mean(noise)
    variance = max(float(excess + doubt), 0.0)
    share = np.where(stands_out, 1.0, variance / np.maximum(variance + errors**2, 1e-300))
    return off * share, errors * np.sqrt(share), limit * float(np.median(errors[quiet]))

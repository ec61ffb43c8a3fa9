"""Judges a fit of a log density on draws that it has not seen, and makes it a `vijax.Fit` like any other."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray
from scipy import special

from vijax.automatic.gaussian import Gaussian
from vijax.automatic.importance import WIDER, Weighed, moments, weighed
from vijax.automatic.improper import grows_along
from vijax.automatic.lbfgs import Mode, Point
from vijax.automatic.mixture import Mixture
from vijax.automatic.modes import Found, Searched, on_one_hill
from vijax.automatic.report import Ended, FoundMode, Moments, Others, Report, bound, distance
from vijax.automatic.target import Target
from vijax.automatic.verdict import RARE, is_usable, verdict, with_mixture
from vijax.contract.model import Model
from vijax.contract.variables import Variables
from vijax.families import Product
from vijax.fitting.result import Fit
from vijax.fitting.status import Status
from vijax.free_algorithms import advi, ngvi
from vijax.inference import guides
from vijax.inference.compose import Algorithm, State
from vijax.inference.guides import Z
from vijax.models.energies.density import with_guide
from vijax.xla import keys

CHECKS, MOST_CHECKS, SCRAMBLES = 1024, 8192, 8
"""Fresh draws on which a fit is judged, at first and at most; and the independent scrambles of a Sobol sequence that
they are made of."""
SURE = 0.01
"""There are more draws where the standard error of the bound is above so many nats, if more can bring it near."""
WORTH = 0.01
"""Nats that a mixture must gain at least to be kept."""
DEAR = 50_000
"""Groups from which on moments are judged by the draws of q alone."""
RIVAL = 5.0
"""Nats below the best bound within which another mode holds a share of the posterior."""
LOST, WIDE = 100.0, 1e9
"""A log density above zero that is rounded to more nats than `LOST`, and one along which a standard deviation is above
`WIDE`, may grow without limit."""

Q = Gaussian | Mixture


def assessed(
    model: Model, target: Target, q: Q, searched: Searched, seed: int, normal: Gaussian | None = None
) -> Report:
    """Reports the bound of q, how far its moments are off, the tail of its importance ratios, and the modes that the
    starts found. Of a mixture `normal` is the one from which it began, and tells which modes are one."""
    draws, ratios, log_q = _checked(target, q, seed)
    rounding = target.epsilon * float(np.median(np.abs(ratios + log_q)))
    zero, gap, khat = distance(ratios, rounding)
    q = q._replace(ended=_ended(target, q, draws, ratios))
    away = rivals(q, searched, target)
    off = None
    if zero <= RARE and q.ended is not Ended.UNBOUNDED:
        wider = WIDER if target.num_groups < DEAR else 0
        found = weighed(target.values, q, draws, ratios + log_q, log_q, [seed, 9], wider)
        off = _off(_of_part(found, draws, searched, away, target.variables), target.variables)
    said = Report(
        bound(ratios, SCRAMBLES),
        _shown(model, normal or q, searched),
        gap,
        khat,
        str(q.ended),
        "",
        target.num_gradients,
        ratios,
        draws,
        zero=zero,
        usable=is_usable(q.ended, zero),
        off=off,
        others=_others(q, draws, searched, away, target),
        rounding=rounding,
    )
    return in_words(said, q)


def in_words(said: Report, q: Q) -> Report:
    """Returns the report with the verdict on q, and how q ended."""
    words = verdict(q, said.gap, said.khat, said.others or Others(), said.zero, said.off, said.rounding)
    return said._replace(ended=str(q.ended), verdict=words)


def compared(normal: Report, mixed: Report, parts: int) -> tuple[bool, Report]:
    """Says whether to keep a mixture, for its bound is higher beyond doubt; and returns the report on the one kept."""
    more = mixed.elbo.value - normal.elbo.value
    error = float(np.hypot(mixed.elbo.standard_error, normal.elbo.standard_error))
    better = more > max(WORTH, 2 * error)
    kept, other = (mixed, normal) if better else (normal, mixed)
    words = with_mixture(better, parts, more, error, kept.verdict)
    return better, kept._replace(verdict=words, other=other.elbo, num_gradients=mixed.num_gradients)


# --- bound and moments ------------------------------------------------------------------------------------------------
def _checked(target: Target, q: Q, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns draws that the fit has not seen, log p - log q there, and log q: as many as a sure bound takes."""
    count = CHECKS
    while True:
        parts = [q.drawn(count // SCRAMBLES, [seed, 7, i]) for i in range(SCRAMBLES)]
        draws, log_q = (np.concatenate(x) for x in zip(*parts, strict=True))
        ratios = target.values(draws) - log_q
        error = bound(ratios, SCRAMBLES).standard_error
        if not SURE < error < 2 * SURE * np.sqrt(MOST_CHECKS / count) or count == MOST_CHECKS:
            return draws, ratios, log_q
        count = min(4 * count, MOST_CHECKS)


def _ended(target: Target, q: Q, draws: np.ndarray, log_ratios: np.ndarray) -> Ended:
    """Returns how q ended; unbounded where a search without an end has gone far, and the bound grows further on."""
    if q.ended not in (Ended.SPENT, Ended.LIMITED, Ended.UNSOLVED):
        return q.ended
    known = log_ratios[np.isfinite(log_ratios)]
    lost = len(known) > 0 and float(known.mean()) * target.epsilon > LOST
    wide = isinstance(q, Gaussian) and not q.is_full and float(q.scale.max()) > WIDE
    return Ended.UNBOUNDED if (wide or lost) and grows_along(target, draws).any() else q.ended


def _of_part(
    of: Weighed, draws: np.ndarray, searched: Searched, away: Sequence[Found], variables: Variables
) -> Weighed:
    """Leaves out draws beyond the part of the posterior that q describes: those that are nearer to modes away from q,
    or are nearer to q with their labels exchanged."""
    sds = np.maximum(draws.std(0), np.finfo(float).tiny)
    center = draws[int(np.argmin((((draws - draws.mean(0)) / sds) ** 2).sum(1)))] if away else draws.mean(0)
    apart = lambda x, y: (((x - y) / sds) ** 2).sum(-1)
    kept, own = np.ones(len(of.x), bool), apart(of.x, center)
    for other in away:
        kept &= own <= apart(of.x, other.mode.x)
    for exchange in searched.labels:
        for copy in exchange.copies(variables, of.x):
            kept &= own <= apart(copy, center)
    return of._replace(log_p=np.where(kept, of.log_p, -np.inf), log_q=np.where(kept, of.log_q, -np.inf))


def _off(of: Weighed, variables: Variables) -> Moments | None:
    """Returns how far means and sds of the variables' values are off; None where no draw is left."""
    if not (np.isfinite(of.log_p) & np.isfinite(of.log_q)).any():
        return None
    names, numbers = variables.numbers(of.x)
    with np.errstate(invalid="ignore"):
        varies = numbers.std(0) > 0
    kept = [name for name, is_kept in zip(names, varies, strict=True) if is_kept]
    return moments(of, numbers[:, varies], kept)


# --- other modes ------------------------------------------------------------------------------------------------------
def rivals(q: Q, searched: Searched, target: Target) -> list[Found]:
    """Returns other modes of a weight like that of the best: outside q, whatever the order of labels, and on hills of
    their own."""
    weighty = _weighty(searched)
    inside = [_is_inside(q, one.mode, searched, target.variables) for one in weighty]
    at = lambda which: [one for one, is_in in zip(weighty, inside, strict=True) if is_in is which]
    return _apart(at(False), target, at(True))


def _apart(found: Sequence[Found], target: Target, others: Sequence[Found] = ()) -> list[Found]:
    """Returns modes that are not on the hill of others, nor of a mode before."""
    point = lambda one: Point(one.mode.x, one.mode.value, 0.0)
    joined = lambda one, two: on_one_hill(target, *sorted([point(one), point(two)], key=lambda at: at.value))
    kept: list[Found] = []
    for one in found:
        if not any(joined(one, own) for own in (*others, *kept)):
            kept.append(one)
    return kept


def _weighty(searched: Searched) -> list[Found]:
    """Returns the modes of a weight like that of the best."""
    best = max(one.elbo for one in searched.found)
    return [one for one in searched.found if one.elbo > best - RIVAL]


def _others(q: Q, draws: np.ndarray, searched: Searched, outside: list[Found], target: Target) -> Others:
    """Returns what the searches found beside q."""
    inside = _apart([one for one in _weighty(searched) if _is_at(q, one.mode.x)], target)
    labels = [exchange.names for exchange in searched.labels]
    if not outside:
        return Others(searched.num_starts, max(len(inside), 1), labels=labels)
    own = max(one.elbo for one in inside or outside)
    shares = special.softmax(np.array([own, *(one.elbo for one in outside)]))
    sds = np.maximum(draws.std(0), np.finfo(float).tiny)
    means = np.stack([draws.mean(0), *(one.mode.x for one in outside)])
    middle = shares @ means
    all_sds = np.sqrt(sds**2 + shares @ (means - middle) ** 2)
    mean = float(np.max(np.abs(means[0] - middle) / all_sds))
    return Others(
        searched.num_starts, len(inside), len(outside), 1 - shares[0], mean, float(np.max(all_sds / sds)), labels
    )


def _is_at(q: Q, x: np.ndarray) -> bool:
    """Says whether a point is as near to the mean of q as its draws are."""
    return q.distance(x) < len(x) + 6 * float(np.sqrt(2 * len(x)))


def _is_inside(q: Q, mode: Mode, searched: Searched, variables: Variables) -> bool:
    """Says whether q describes a mode, or one that is the same with labels exchanged."""
    x = mode.x[None]
    copies = [copy for exchange in searched.labels for copy in exchange.copies(variables, x)]
    return any(_is_at(q, one[0]) for one in (x, *copies))


def _shown(model: Model, q: Q, searched: Searched) -> list[FoundMode]:
    """Returns the modes with the variables' values; those inside q count as one, however far their searches got."""
    variables = model.log_density.variables
    at = lambda mode: jax.tree.map(np.asarray, variables.values(jnp.asarray(mode.x, jnp.result_type(float)))[0])
    inside = [_is_inside(q, one.mode, searched, variables) for one in searched.found]
    own = [one for one, is_in in zip(searched.found, inside, strict=True) if is_in]
    others = [one for one, is_in in zip(searched.found, inside, strict=True) if not is_in and one.elbo > -np.inf]
    if own:  # they lead, also where another's curvature promised more
        others = [own[0]._replace(num_starts=sum(one.num_starts for one in own)), *others]
    elbo = lambda one: one.elbo if one.elbo > -np.inf else None
    return [FoundMode(at(one.mode), one.mode.value, elbo(one), one.num_starts) for one in others]


# --- as a fit ---------------------------------------------------------------------------------------------------------
def as_fit(model: Model, q: Gaussian, report: Report, key: PRNGKeyArray) -> Fit:
    """Returns q as a fit by natural gradients, in the frame of q: so it can be sampled, saved, and gone on with."""
    guide = guides.full_rank() if q.is_full else guides.mean_field()
    directions = 0 if q.stretch is None else len(q.stretch)
    framed = with_guide(model, guide, is_framed=True, num_directions=directions)
    return _begun(ngvi(framed), q, q, report, key)


def as_mixture(model: Model, q: Mixture, normal: Gaussian, report: Report, key: PRNGKeyArray) -> Fit:
    """Returns q as a fit by pathwise gradients, in the frame of a normal."""
    fit = _begun(of_mixture(model, len(q.parts)), q, normal, report, key)
    return fit._replace(state=fit.state._replace(posterior=Product({Z: q.within(normal)})))


def of_mixture(model: Model, parts: int) -> Algorithm:
    """Returns the algorithm of a fit that is a mixture of so many normals."""
    guide = guides.mixture(parts)
    return advi(with_guide(model, guide, is_framed=True), guide=guide)


def _begun(alg: Algorithm, q: Q, frame: Gaussian, report: Report, key: PRNGKeyArray) -> Fit:
    """Returns the fit at N(0, I) of a frame."""
    key_init, _, _ = keys.of_run(key)
    state: State = alg.init(key_init)._replace(hyper={"frame": frame.frame()})
    trace = {"step": np.arange(len(q.trace)), "elbo": np.asarray(q.trace)}
    status = STATUS.get(q.ended, Status.FINISHED)
    return Fit(alg, state, trace, status, report)


STATUS = {Ended.CONVERGED: Status.CONVERGED, Ended.INTERRUPTED: Status.INTERRUPTED}

"""What a fit of a log density ends as: judged on draws that it has not seen, and made a `Fit` like any other."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from scipy import special

from vijax.automatic import ascent
from vijax.automatic.ascent import Mode
from vijax.automatic.components import Mixture
from vijax.automatic.gaussian import Ended, Gaussian
from vijax.automatic.moments import WIDER, Moments, Weighed, moments, weighed
from vijax.automatic.places import Searched
from vijax.automatic.report import Estimate, Place, Report
from vijax.automatic.runaway import grows_along
from vijax.automatic.spread import on_one_hill
from vijax.automatic.target import Target
from vijax.automatic.verdict import RARE, RIVAL, Others, is_usable, verdict, with_mixture
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
from vijax.trust import psis
from vijax.xla import keys

CHECKS, MOST_CHECKS, SCRAMBLES = 1024, 8192, 8
"""Fresh draws on which a fit is judged, at first and at most, and of how many independent scrambles of a Sobol sequence
they are."""
SURE = 0.01
"""Standard error of the bound, in nats, above which there are more of them, if these can bring it near."""
WORTH = 0.01
"""Nats that a mixture must gain at least to be kept."""
ALIKE = 1e-3
"""Squared coefficient of variation up to which weights are alike."""
DEAR = 50_000
"""Groups from which on moments are judged by the draws of q alone."""


def report(
    model: Model, target: Target, q: Gaussian | Mixture, searched: Searched, seed: int, normal: Gaussian | None = None
) -> Report:
    """Its bound, how far its moments are off and the tail of its importance ratios, with the places that the starts
    found and their ELBOs; of a mixture `normal` is that from which it began, and tells which places are one."""
    draws, ratios, log_q = _checked(target, q, seed)
    rounding = target.epsilon * float(np.median(np.abs(ratios + log_q)))
    zero, gap, khat = distance(ratios, rounding)
    q = q._replace(ended=_ended(target, q, draws, ratios))
    away = rivals(q, searched, target)
    judged = zero <= RARE and q.ended is not Ended.UNBOUNDED
    found = _weighed(target, q, draws, ratios, log_q, seed) if judged else None
    off = None if found is None else _off(_of_part(found, q, draws, searched, away, target.variables), target.variables)
    shown = _shown(model, normal or q, searched)
    others = _others(q, draws, searched, away, target)
    said = Report(_bound(ratios), shown, gap, khat, str(q.ended), "", target.num_gradients, ratios, draws, zero=zero)
    said = said._replace(usable=is_usable(q, zero), off=off, others=others, rounding=rounding)
    return judged_again(said, q)


def _weighed(
    target: Target, q: Gaussian | Mixture, draws: np.ndarray, ratios: np.ndarray, log_q: np.ndarray, seed: int
) -> Weighed:
    """Draws of q and of wider laws."""
    wider = WIDER if target.num_groups < DEAR else 0
    return weighed(target.values, q, draws, ratios + log_q, log_q, [seed, 9], wider)


def _of_part(
    of: Weighed,
    q: Gaussian | Mixture,
    draws: np.ndarray,
    searched: Searched,
    away: list[tuple[Mode, float]],
    variables: Variables,
) -> Weighed:
    """Those in the part of the posterior that q describes: nearer to q than to modes away from it, and than they are
    with their labels exchanged."""
    sds = np.maximum(draws.std(0), np.finfo(float).tiny)
    center = draws[int(np.argmin((((draws - draws.mean(0)) / sds) ** 2).sum(1)))] if away else draws.mean(0)
    apart = lambda x, y: (((x - y) / sds) ** 2).sum(-1)
    kept, own = np.ones(len(of.x), bool), apart(of.x, center)
    for mode, _ in away:
        kept &= own <= apart(of.x, mode.x)
    for exchange in searched.labels:
        for copy in exchange.copies(variables, of.x):
            kept &= own <= apart(copy, center)
    return of._replace(log_p=np.where(kept, of.log_p, -np.inf), log_q=np.where(kept, of.log_q, -np.inf))


def _off(of: Weighed, variables: Variables) -> Moments | None:
    """How far means and sds of the variables' values are off."""
    if not (np.isfinite(of.log_p) & np.isfinite(of.log_q)).any():
        return None
    names, numbers = variables.numbers(of.x)
    with np.errstate(invalid="ignore"):
        varies = numbers.std(0) > 0
    kept = [name for name, is_kept in zip(names, varies, strict=True) if is_kept]
    return moments(of, numbers[:, varies], kept)


def _checked(target: Target, q: Gaussian | Mixture, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws that the fit has not seen, log p - log q there, and log q: as many as a sure bound takes."""
    count = CHECKS
    while True:
        parts = [q.drawn(count // SCRAMBLES, [seed, 7, i]) for i in range(SCRAMBLES)]
        draws, log_q = (np.concatenate(x) for x in zip(*parts, strict=True))
        ratios = target.values(draws) - log_q
        error = _bound(ratios).standard_error
        if not SURE < error < 2 * SURE * np.sqrt(MOST_CHECKS / count) or count == MOST_CHECKS:
            return draws, ratios, log_q
        count = min(4 * count, MOST_CHECKS)


def _ended(target: Target, q: Gaussian | Mixture, draws: np.ndarray, log_ratios: np.ndarray) -> Ended:
    """As q says; unbounded where a search that has found no end has gone far, and the bound grows still further on."""
    if q.ended not in (Ended.SPENT, Ended.LIMITED, Ended.UNSOLVED):
        return q.ended
    known = log_ratios[np.isfinite(log_ratios)]
    lost = len(known) > 0 and float(known.mean()) * target.epsilon > LOST
    wide = isinstance(q, Gaussian) and not q.is_full and float(q.scale.max()) > WIDE
    return Ended.UNBOUNDED if (wide or lost) and grows_along(target, draws).any() else q.ended


LOST, WIDE = 100.0, 1e9
"""Nats to which a log density above zero is rounded, from which on it may grow without limit; and standard deviation of
a free coordinate."""


def distance(log_ratios: Float[np.ndarray, " draws"], rounding: float = 0.0) -> tuple[float, float, float]:
    """How far q is from p, by log p - log q at draws of q: the share of draws where p is zero; of the others a lower
    bound on KL(q || p) in nats, and k-hat (`vijax.automatic.report.Report`), which is 0 where all weights are alike, to
    `ALIKE` or to what rounding makes of them: they have no tail then."""
    known = log_ratios[np.isfinite(log_ratios)]
    zero = 1 - len(known) / len(log_ratios)
    if not len(known):
        return zero, float("inf"), float("inf")
    mean = float(special.logsumexp(known) - np.log(len(known)))
    is_alike = zero == 0 and float(np.mean(np.expm1(known - mean) ** 2)) < ALIKE + (3 * rounding) ** 2
    return zero, mean - float(known.mean()), 0.0 if is_alike else float(psis(log_ratios).khat)


def _bound(ratios: Float[np.ndarray, " draws"]) -> Estimate:
    """ELBO with its standard error, from scramble to scramble."""
    if not np.isfinite(ratios).all():
        return Estimate(-np.inf, np.inf)
    means = ratios.reshape(SCRAMBLES, -1).mean(1)
    return Estimate(float(means.mean()), float(means.std(ddof=1) / np.sqrt(SCRAMBLES)))


def judged_again(said: Report, q: Gaussian | Mixture) -> Report:
    """With how q ended, where the report itself says more of that."""
    words = verdict(q, said.gap, said.khat, said.others or Others(), said.zero, said.off, said.rounding)
    return said._replace(ended=str(q.ended), verdict=words)


def compared(normal: Report, mixed: Report, parts: int) -> tuple[bool, Report]:
    """Whether a mixture is to be kept, for its bound is higher beyond doubt; and the report on what is."""
    more = mixed.elbo.value - normal.elbo.value
    error = float(np.hypot(mixed.elbo.standard_error, normal.elbo.standard_error))
    better = more > max(WORTH, 2 * error)
    kept, other = (mixed, normal) if better else (normal, mixed)
    words = with_mixture(better, parts, more, error, kept.verdict)
    return better, kept._replace(verdict=words, other=other.elbo, num_gradients=mixed.num_gradients)


def rivals(q: Gaussian | Mixture, searched: Searched, target: Target) -> list[tuple[Mode, float]]:
    """Other modes of a weight like that of the best, and their bounds: away from q, whatever the order of labels, and
    on hills of their own."""
    inside: list[tuple[Mode, float]] = []
    outside: list[tuple[Mode, float]] = []
    for mode, elbo in _weighty(searched):
        (inside if _is_inside(q, mode, searched, target.variables) else outside).append((mode, elbo))
    return _apart(outside, target, inside)


def _apart(
    found: list[tuple[Mode, float]], target: Target, others: Sequence[tuple[Mode, float]] = ()
) -> list[tuple[Mode, float]]:
    """Those that are on a hill of their own: not on that of others, nor of one before."""
    place = lambda mode: ascent.Place(mode.x, mode.value, 0.0)
    joined = lambda one, two: on_one_hill(target, *sorted([place(one), place(two)], key=lambda at: at.value))
    kept: list[tuple[Mode, float]] = []
    for mode, elbo in found:
        if not any(joined(mode, own) for own, _ in (*others, *kept)):
            kept.append((mode, elbo))
    return kept


def _weighty(searched: Searched) -> list[tuple[Mode, float]]:
    """Modes of a weight like that of the best, and their bounds."""
    judged = [(mode, elbo) for (mode, _), elbo in zip(*searched[:2], strict=True) if elbo is not None]
    best = max((elbo for _, elbo in judged), default=0.0)
    return [(mode, elbo) for mode, elbo in judged if elbo > best - RIVAL]


def _others(
    q: Gaussian | Mixture, draws: np.ndarray, searched: Searched, outside: list[tuple[Mode, float]], target: Target
) -> Others:
    """What the searches found beside q."""
    inside = _apart([one for one in _weighty(searched) if _is_at(q, one[0])], target)
    labels = [exchange.names for exchange in searched.labels]
    if not outside:
        return Others(searched.num_starts, max(len(inside), 1), labels=labels)
    own = max((elbo for _, elbo in inside), default=max(elbo for _, elbo in outside))
    bounds = np.array([own, *(elbo for _, elbo in outside)])
    shares = special.softmax(bounds)
    sds = np.maximum(draws.std(0), np.finfo(float).tiny)
    means = np.stack([draws.mean(0), *(mode.x for mode, _ in outside)])
    middle = shares @ means
    all_sds = np.sqrt(sds**2 + shares @ (means - middle) ** 2)
    mean = float(np.max(np.abs(means[0] - middle) / all_sds))
    return Others(
        searched.num_starts, len(inside), len(outside), 1 - shares[0], mean, float(np.max(all_sds / sds)), labels
    )


def _is_at(q: Gaussian | Mixture, mode: Mode) -> bool:
    return q.distance(mode.x) < _distance(len(mode.x))


def _is_inside(q: Gaussian | Mixture, mode: Mode, searched: Searched, variables: Variables) -> bool:
    """Whether q describes a mode, or one that is the same with labels exchanged."""
    x = mode.x[None]
    copies = [copy for exchange in searched.labels for copy in exchange.copies(variables, x)]
    return any(q.distance(one[0]) < _distance(x.shape[1]) for one in (x, *copies))


def _shown(model: Model, q: Gaussian | Mixture, searched: Searched) -> list[Place]:
    """The modes as places; those that lie where q does are one, however far their searches got."""
    variables = model.log_density.variables
    inside = lambda mode: _is_inside(q, mode, searched, variables)
    at = lambda mode: jax.tree.map(np.asarray, variables.values(jnp.asarray(mode.x, jnp.result_type(float)))[0])
    known = list(zip(*searched[:2], strict=True))
    own = [((mode, n), elbo) for (mode, n), elbo in known if inside(mode)]
    others = [((mode, n), elbo) for (mode, n), elbo in known if not inside(mode)]
    shown = [Place(at(mode), mode.value, elbo, n) for (mode, n), elbo in others if elbo is not None]
    if own:  # they lead, also where another's curvature promised more
        (best, _), elbo = own[0]
        shown = [Place(at(best), best.value, elbo, sum(n for (_, n), _ in own)), *shown]
    return shown


def _distance(dim: int) -> float:
    """Squared distance from the mean of a normal, in standard deviations, within which its draws lie."""
    return dim + 6 * float(np.sqrt(2 * dim))


def as_fit(model: Model, q: Gaussian, report: Report, key: PRNGKeyArray) -> Fit:
    """As a fit by natural gradients, in the frame of q: so it can be sampled, saved, and gone on with."""
    guide = guides.full_rank() if q.is_full else guides.mean_field()
    directions = 0 if q.stretch is None else len(q.stretch)
    framed = with_guide(model, guide, is_framed=True, num_directions=directions)
    return _begun(ngvi(framed), q, q, report, key)


def as_mixture(model: Model, q: Mixture, normal: Gaussian, report: Report, key: PRNGKeyArray) -> Fit:
    """As a fit by pathwise gradients, in the frame of a normal."""
    fit = _begun(of_mixture(model, len(q.parts)), q, normal, report, key)
    return fit._replace(state=fit.state._replace(posterior=Product({Z: q.within(normal)})))


def of_mixture(model: Model, parts: int) -> Algorithm:
    """The algorithm of a fit that is a mixture of so many normals."""
    guide = guides.mixture(parts)
    return advi(with_guide(model, guide, is_framed=True), guide=guide)


def _begun(alg: Algorithm, q: Gaussian | Mixture, frame: Gaussian, report: Report, key: PRNGKeyArray) -> Fit:
    """The fit at N(0, I) of a frame."""
    key_init, _, _ = keys.of_run(key)
    state: State = alg.init(key_init)._replace(hyper={"frame": frame.frame()})
    trace = {"step": np.arange(len(q.trace)), "elbo": np.asarray(q.trace)}
    status = STATUS.get(q.ended, Status.FINISHED)
    return Fit(alg, state, trace, status, report)


STATUS = {Ended.CONVERGED: Status.CONVERGED, Ended.INTERRUPTED: Status.INTERRUPTED}

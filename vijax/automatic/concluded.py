"""What a fit of a log density ends as: judged on draws that it has not seen, and made a `Fit` like any other."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from scipy import special

from vijax import guides, keys
from vijax.algorithm import Algorithm, State
from vijax.automatic.ascent import Mode
from vijax.automatic.components import Mixture
from vijax.automatic.gaussian import Ended, Gaussian
from vijax.automatic.report import Estimate, Place, Report
from vijax.automatic.target import Target
from vijax.automatic.verdict import RIVAL, is_usable, verdict, with_mixture
from vijax.families import Product
from vijax.free_algorithms import advi, ngvi
from vijax.guides import Z
from vijax.models.density import Density
from vijax.result import Fit
from vijax.status import Status
from vijax.trust import psis

CHECKS, MOST_CHECKS, SCRAMBLES = 1024, 8192, 8
"""Fresh draws on which a fit is judged, at first and at most, and of how many independent scrambles of a Sobol sequence
they are."""
SURE = 0.01
"""Standard error of the bound, in nats, above which there are more of them, if these can bring it near."""
WORTH = 0.01
"""Nats that a mixture must gain at least to be kept."""


def report(
    model: Density,
    target: Target,
    q: Gaussian | Mixture,
    places: list[tuple[Mode, int]],
    elbos: list[float | None],
    seed: int,
    normal: Gaussian | None = None,
) -> Report:
    """Its bound and the tail of its importance ratios, with the places that the starts found and their ELBOs; of a
    mixture `normal` is that from which it began, and tells which places are one."""
    draws, ratios = _checked(target, q, seed)
    zero, gap, khat = distance(ratios)
    q = q._replace(ended=_ended(q, ratios, target.epsilon))
    shown = _shown(model, normal or q, places, elbos)
    words = verdict(q, gap, khat, _shown(model, q, places, elbos), zero)
    said = Report(_bound(ratios), shown, gap, khat, str(q.ended), words, target.num_gradients, ratios, draws, zero=zero)
    return said._replace(usable=is_usable(q, zero))


def _checked(target: Target, q: Gaussian | Mixture, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws that the fit has not seen, and log p - log q there: as many as a sure bound takes."""
    count = CHECKS
    while True:
        parts = [q.drawn(count // SCRAMBLES, [seed, 7, i]) for i in range(SCRAMBLES)]
        draws, log_q = (np.concatenate(x) for x in zip(*parts, strict=True))
        ratios = target.values(draws) - log_q
        error = _bound(ratios).standard_error
        if not SURE < error < 2 * SURE * np.sqrt(MOST_CHECKS / count) or count == MOST_CHECKS:
            return draws, ratios
        count = min(4 * count, MOST_CHECKS)


def _ended(q: Gaussian | Mixture, log_ratios: np.ndarray, epsilon: float) -> Ended:
    """As q says; unbounded where a search that has found no end has come to densities that no precision tells apart."""
    known = log_ratios[np.isfinite(log_ratios)]
    lost = len(known) > 0 and float(known.mean()) * epsilon > LOST
    wide = isinstance(q, Gaussian) and not q.is_full and q.ended is Ended.UNSOLVED and float(q.scale.max()) > WIDE
    no_end = q.ended in (Ended.SPENT, Ended.LIMITED, Ended.UNSOLVED)
    return Ended.UNBOUNDED if wide or (lost and no_end) else q.ended


LOST, WIDE = 100.0, 1e9
"""Nats to which a log density above zero is rounded, from which on it counts as growing without limit; and the standard
deviation of a free coordinate, where no optimum was found."""


def distance(log_ratios: Float[np.ndarray, " draws"]) -> tuple[float, float, float]:
    """How far q is from p, by log p - log q at draws of q: the share of draws where p is zero; of the others a lower
    bound on KL(q || p) in nats, and k-hat (`vijax.automatic.report.Report`)."""
    known = log_ratios[np.isfinite(log_ratios)]
    zero = 1 - len(known) / len(log_ratios)
    if not len(known):
        return zero, float("inf"), float("inf")
    gap = float(special.logsumexp(known) - np.log(len(known)) - known.mean())
    return zero, gap, float(psis(log_ratios).khat)


def _bound(ratios: Float[np.ndarray, " draws"]) -> Estimate:
    """ELBO with its standard error, from scramble to scramble."""
    if not np.isfinite(ratios).all():
        return Estimate(-np.inf, np.inf)
    means = ratios.reshape(SCRAMBLES, -1).mean(1)
    return Estimate(float(means.mean()), float(means.std(ddof=1) / np.sqrt(SCRAMBLES)))


def judged_again(said: Report, q: Gaussian) -> Report:
    """With how q ended, where the report itself says more of that."""
    return said._replace(ended=str(q.ended), verdict=verdict(q, said.gap, said.khat, said.modes, said.zero))


def compared(normal: Report, mixed: Report, parts: int) -> tuple[bool, Report]:
    """Whether a mixture is to be kept, for its bound is higher beyond doubt; and the report on what is."""
    more = mixed.elbo.value - normal.elbo.value
    error = float(np.hypot(mixed.elbo.standard_error, normal.elbo.standard_error))
    better = more > max(WORTH, 2 * error)
    kept, other = (mixed, normal) if better else (normal, mixed)
    words = with_mixture(better, parts, more, error, kept.verdict)
    return better, kept._replace(verdict=words, other=other.elbo, num_gradients=mixed.num_gradients)


def rivals(q: Gaussian, places: list[tuple[Mode, int]], elbos: list[float | None]) -> list[Mode]:
    """Other modes of a weight like that of the best, away from q."""
    judged = [(mode, elbo) for (mode, _), elbo in zip(places, elbos, strict=True) if elbo is not None]
    best = max((elbo for _, elbo in judged), default=0.0)
    return [mode for mode, elbo in judged if elbo > best - RIVAL and not _is_inside(q, mode)]


def _is_inside(q: Gaussian | Mixture, mode: Mode) -> bool:
    return q.distance(mode.x) < _distance(len(mode.x))


def _shown(
    model: Density, q: Gaussian | Mixture, places: list[tuple[Mode, int]], elbos: list[float | None]
) -> list[Place]:
    """The modes as places; those that lie where q does are one, however far their searches got."""
    inside = lambda mode: _is_inside(q, mode)
    at = lambda mode: jax.tree.map(np.asarray, model.variables.values(jnp.asarray(mode.x, jnp.result_type(float)))[0])
    known = list(zip(places, elbos, strict=True))
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


def as_fit(model: Density, q: Gaussian, report: Report, key: PRNGKeyArray) -> Fit:
    """As a fit by natural gradients, in the frame of q: so it can be sampled, saved, and gone on with."""
    guide = guides.full_rank() if q.is_full else guides.mean_field()
    directions = 0 if q.stretch is None else len(q.stretch)
    framed = model.with_guide(guide, is_framed=True, num_directions=directions)
    return _begun(ngvi(framed), q, q, report, key)


def as_mixture(model: Density, q: Mixture, normal: Gaussian, report: Report, key: PRNGKeyArray) -> Fit:
    """As a fit by pathwise gradients, in the frame of a normal."""
    fit = _begun(of_mixture(model, len(q.parts)), q, normal, report, key)
    return fit._replace(state=fit.state._replace(posterior=Product({Z: q.within(normal)})))


def of_mixture(model: Density, parts: int) -> Algorithm:
    """The algorithm of a fit that is a mixture of so many normals."""
    guide = guides.mixture(parts)
    return advi(model.with_guide(guide, is_framed=True), guide=guide)


def _begun(alg: Algorithm, q: Gaussian | Mixture, frame: Gaussian, report: Report, key: PRNGKeyArray) -> Fit:
    """The fit at N(0, I) of a frame."""
    key_init, _, _ = keys.of_run(key)
    state: State = alg.init(key_init)._replace(hyper={"frame": frame.frame()})
    trace = {"step": np.arange(len(q.trace)), "elbo": np.asarray(q.trace)}
    status = STATUS.get(q.ended, Status.FINISHED)
    return Fit(alg, state, trace, status, report)


STATUS = {Ended.CONVERGED: Status.CONVERGED, Ended.INTERRUPTED: Status.INTERRUPTED}

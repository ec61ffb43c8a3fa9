"""Normals and mixtures on the host as a `vijax.Fit` with its report, for `vijax.auto` and
`vijax.dadvi`."""

from __future__ import annotations

import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.automatic.gaussian import Gaussian
from vijax.automatic.mixture import Mixture
from vijax.contract.model import Model
from vijax.families import Product
from vijax.fitting.result import Fit
from vijax.fitting.status import Status
from vijax.free_algorithms import advi, ngvi
from vijax.inference import guides
from vijax.inference.compose import Algorithm
from vijax.inference.guides import Z
from vijax.inference.state import State
from vijax.models.energies.density import with_guide
from vijax.verdict.report import Ended, Report
from vijax.xla import keys


def as_fit(model: Model, q: Gaussian, report: Report, key: PRNGKeyArray) -> Fit:
    """q as a fit by natural gradients, in the frame of q: it can be sampled, saved, and resumed."""
    guide = guides.full_rank() if q.is_full else guides.mean_field()
    num_directions = 0 if q.stretch is None else len(q.stretch)
    model = with_guide(model, guide, is_framed=True, num_directions=num_directions)
    return _framed_fit(ngvi(model), q, q, report, key)


def as_mixture(
    model: Model, q: Mixture, normal: Gaussian, report: Report, key: PRNGKeyArray
) -> Fit:
    """q as a fit by pathwise gradients, in the frame of a normal."""
    fit = _framed_fit(mixture_algorithm(model, len(q.parts)), q, normal, report, key)
    return fit._replace(state=fit.state._replace(posterior=Product({Z: q.to_frame(normal)})))


def mixture_algorithm(model: Model, parts: int) -> Algorithm:
    """The algorithm of a fit whose q is a mixture of `parts` normals."""
    guide = guides.mixture(parts)
    return advi(with_guide(model, guide, is_framed=True), guide=guide)


def _framed_fit(
    alg: Algorithm, q: Gaussian | Mixture, frame: Gaussian, report: Report, key: PRNGKeyArray
) -> Fit:
    """A fit in which q is N(0, I) of a frame."""
    key_init, _, _ = keys.run_keys(key)
    hyper = {"frame": frame.frame(alg.spec.model.log_density)}
    state: State = alg.init(key_init)._replace(hyper=hyper)
    trace = {"step": np.arange(len(q.trace)), "elbo": np.asarray(q.trace)}
    status = STATUS.get(q.ended, Status.FINISHED)
    return Fit(alg, state, trace, status, report)


STATUS = {Ended.CONVERGED: Status.CONVERGED, Ended.INTERRUPTED: Status.INTERRUPTED}

"""Deterministic automatic differentiation variational inference, to convergence."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.automatic.concluded import as_fit, judged_again, report
from vijax.automatic.diagonal import as_gaussian, on_draws, point_of, unit_noise
from vijax.automatic.gaussian import Ended
from vijax.automatic.labels import exchanges
from vijax.automatic.newton import SETTLED, climbed
from vijax.automatic.on_draws import OnDraws
from vijax.automatic.places import Searched, bounds_of, places, rough_normals
from vijax.automatic.stage import Stage, Watcher, check_stage
from vijax.automatic.target import Target
from vijax.checks import require_integers
from vijax.contract.model import Model
from vijax.fitting.fit_arguments import check_key, check_not_forked
from vijax.fitting.interrupt import interrupt_flag
from vijax.fitting.result import Fit
from vijax.inference.choices import check_model
from vijax.models.energies.density import log_density_of
from vijax.xla import keys

NUM_STARTS = 16
MAX_STEPS = 1000
FAR = 2.0
"""Nats between the bounds on fixed and on fresh draws, beside the error of the latter, that are told."""


def dadvi(model: Model, data: Any = None, *, key: PRNGKeyArray, num_draws: int = 30, stage: Stage | None = None) -> Fit:
    """Independent normals in free coordinates, fitted to a log density on draws whose noise is fixed: a deterministic
    problem, climbed from the best of several modes by L-BFGS and then by Newton's steps until it is solved (Giordano,
    Ingram and Broderick 2024, "Black box variational inference with a deterministic objective"). There is no
    learning rate, and the end is an optimum, so that `vijax.linear_response(fit, data)` can correct its variances.

    How many draws? Where variables are weakly correlated tens serve any number of them: on a logistic
    regression of 100 independent features 32 draws moved sds by 8 %, means by at most .17 sd. Where they are strongly
    correlated there must be more draws than variables, for the sds adapt to correlations that the noise has by chance:
    with one common factor in the 100 features sds were half too large with 32 draws, a third with 128, right with 512.
    The bound on the fixed draws is then far above `fit.elbo`, which is on fresh ones, and `fit.verdict` says so. A full
    covariance on fewer draws than variables has no bound at all (the same paper), and is not offered here. The
    covariances of `vijax.linear_response` suffer less: in that example they were right to 4 % with 32 draws.

    Args:
      model: a log density (`vijax.density`), whatever its guide.
      data: what it reads; None for a density that reads none.
      key: of starts and draws.
      num_draws: fixed draws, scrambled Sobol points with their mirror images: the next power of two is taken.
      stage: of a fit with the same arguments that Ctrl-C stopped (`fit.report.stage`), to go on from: its searches for
        modes are not repeated. The end is that of a fit that was never stopped, bit for bit.

    After Ctrl-C the best so far is returned; its verdict says "Stopped early". A second Ctrl-C stops at once.

    Returns:
      A `Fit`, with `fit.report`, `fit.verdict` and `fit.khat` as `vijax.auto` gives them.

    Raises:
      ValueError: another model, fewer than two draws, a density that is finite at no start.

    Means and variances of a correlated normal; those of the fit are conditional, the corrected ones are right:

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> precision = jnp.array([[2.0, 1.2], [1.2, 1.0]])
    >>> model = vi.density({"x": vi.free(2)}, lambda v: -0.5 * (v["x"] - 3) @ precision @ (v["x"] - 3))
    >>> fit = vi.dadvi(model, key=jax.random.key(0))
    >>> draws = fit.sample(jax.random.key(1), 4000)["x"]
    >>> print(draws.mean(0).round(1), draws.std(0).round(1), vi.linear_response(fit).sds["x"].round(1))
    [3. 3.] [0.7 1. ] [1.3 1.9]
    """
    check_model(model)
    check_not_forked()
    check_key(key)
    require_integers(2, num_draws=num_draws)
    log_density_of(model, "Use vijax.auto.")
    target, seed = Target.of(model, data), keys.seed(key)
    check_stage(stage, target.dim, NUM_STARTS, False)
    with interrupt_flag() as asked:
        watcher = Watcher(asked, stage)
        found = watcher.searched(target, lambda: places(target, seed, NUM_STARTS, watcher.stopped), NUM_STARTS)
        elbos = bounds_of(rough_normals(target, found, seed) if len(found) > 1 else [None])
        start = int(np.argmax([-np.inf if elbo is None else elbo for elbo in elbos]))
        noise = unit_noise(num_draws, target.dim, seed)
        objective = OnDraws(target, noise)
        reached = on_draws(objective, found[start][0], MAX_STEPS, stopped=watcher.stopped)
        top = climbed(objective, point_of(reached), stopped=watcher.stopped)
    cut = Ended.INTERRUPTED if watcher.stopped() else Ended.UNSOLVED
    q = as_gaussian(top.point, top.value, Ended.CONVERGED if top.promised < SETTLED else cut)
    searched = Searched(found, elbos, exchanges(target, found[start][0].x, q.sds, seed), NUM_STARTS)
    said = report(model, target, q, searched, seed)._replace(noise=noise)
    said = said._replace(stage=watcher.stage if q.ended is Ended.INTERRUPTED else None)
    if q.ended is Ended.CONVERGED and q.elbo - said.elbo.value > FAR + 3 * said.elbo.standard_error:
        q = q._replace(ended=Ended.TOO_FEW)
        said = judged_again(said, q)
    return as_fit(model, q, said, key)

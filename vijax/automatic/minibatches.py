"""A multivariate normal fitted to the log density of many groups, from minibatches.

A fit to some of the groups, their likelihood scaled to all, gives a frame in which the posterior is near N(0, I), but
for the error of that sample. There natural-gradient steps want no tuning. Those of a pass over B batches have the sizes
1 / (c B + 1), ..., 1 / (c B + B), after which

    lambda  =  (c lambda_before + mean of the pass's messages) / (c + 1):

every batch counts alike, and the differences between batches cancel, but for the little that q moves within a pass.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.automatic.gaussian import Gaussian
from vijax.automatic.report import Ended
from vijax.contract.model import Model
from vijax.families import MultivariateNormal
from vijax.fitting.fit import Progress, fit
from vijax.fitting.status import Status
from vijax.free_algorithms import ngvi
from vijax.inference import guides
from vijax.inference.compose import Algorithm
from vijax.inference.guides import Z
from vijax.models.energies.density import with_guide
from vijax.xla import keys

LARGE = 50_000
"""Groups from which on minibatches are taken unasked."""
BATCH = 500
"""Groups of a minibatch."""
FEWEST, PER_VARIABLE = 2_000, 20
"""Groups of the sample: at least so many, and so many a variable."""
MOST_PASSES = 60
"""Largest number of passes over all groups."""
FEWEST_AT_ONCE, MOST_AT_ONCE = 16, 64
"""Steps between two checks of whether a pass has ended, at least and at most."""
LEAST, FIRST = 2, 12
"""The posterior before a pass counts for `LEAST` passes (c above) during the first `FIRST` passes, then for one more a
pass."""
LEFT = 0.02
"""A fit has converged where less is left, in nats, of up to ten variables; in proportion for more."""


class Sample(NamedTuple):
    """Some groups, and the ratio of the number of all groups to theirs."""

    data: PyTree
    scale: float


def sample_of(data: PyTree, dim: int, seed: int) -> Sample:
    """Returns random groups to begin with."""
    total = int(np.shape(jax.tree.leaves(data)[0])[0])
    size = min(total, max(FEWEST, PER_VARIABLE * dim))
    rows = np.sort(np.random.default_rng([seed, 3]).permutation(total)[:size])
    return Sample(jax.tree.map(lambda x: np.asarray(x)[rows], data), total / size)


def fit_all(model: Model, data: PyTree, start: Gaussian, batch_size: int, key: PRNGKeyArray) -> Gaussian:
    """Fits all groups from a fit to a sample on, in passes, until a pass changes q by next to nothing."""
    dim = model.log_density.variables.dim
    framed = with_guide(model, guides.full_rank(), is_framed=True)
    groups = int(np.shape(jax.tree.leaves(data)[0])[0])
    size, steps, chunk = even_batches(groups, batch_size)
    schedule = by_passes(steps)
    alg: Algorithm = ngvi(framed, num_samples=max(32, 2 * (dim + 1)), step_size=schedule, nats=float(max(1, dim)))
    key_init, _, _ = keys.of_run(key)
    begin = alg.init(key_init)._replace(hyper={"frame": start.frame()})
    watch = _Watch()
    done = fit(
        alg,
        data,
        key=key,
        state=begin,
        num_epochs=MOST_PASSES,
        batch_size=size,
        steps_per_chunk=chunk,
        callbacks=[watch],
    )
    q: Any = done.posterior[Z]
    mean, cov = np.asarray(q.mean(), np.float64), np.asarray(q.cov, np.float64)
    ended = Ended.CONVERGED if watch.settled else Ended.PASSES
    ended = Ended.INTERRUPTED if done.status is Status.INTERRUPTED else ended
    moved = Gaussian(start.mean + start.scale @ mean, start.scale @ np.linalg.cholesky(cov), np.nan, ended)
    return moved._replace(trace=tuple(float(x) for x in done.trace["elbo"]))


def even_batches(groups: int, most: int) -> tuple[int, int, int]:
    """Returns the size of batches (`vijax.fit` makes them even), their number, and a divisor of it: in chunks of so
    many steps a run can be watched at the ends of passes.

    >>> even_batches(1605, 100), even_batches(1_000_000, 500)
    ((95, 17, 17), (500, 2000, 50))
    """
    least = -(-groups // most)
    for more in range(least, 2 * least + 64):
        size = -(-groups // more)
        steps = -(-groups // size)
        chunk = max(d for d in range(1, min(steps, MOST_AT_ONCE) + 1) if steps % d == 0)
        if chunk >= min(steps, FEWEST_AT_ONCE):
            return size, steps, chunk
    return most, least, 1


@dataclasses.dataclass(frozen=True)
class by_passes:
    """The step size rho_t = 1 / (c B + 1 + t mod B), see above. c is `LEAST` for `FIRST` passes, in which the error of
    the start falls by 1 + 1 / c each, and then grows by one a pass, which averages the noise that is left.

    Args:
      steps: B, in a pass.

    >>> [round(1 / float(by_passes(3)(t))) for t in (0, 1, 2, 3)]
    [7, 8, 9, 7]
    """

    steps: int

    def __call__(self, t: Any) -> Float[Array, ""]:
        """Returns rho_t."""
        passes, place = jnp.divmod(t, self.steps)
        return 1.0 / (counts_for(passes) * self.steps + place + 1)


def counts_for(passes: Any) -> Any:
    """Returns c, the number of passes for which the posterior before a pass counts."""
    return LEAST + jnp.maximum(passes - FIRST, 0)


class _Watch:
    """Stops a fit after a pass whose change, carried on, leads no further than `LEFT`."""

    def __init__(self) -> None:
        self.settled = False
        self._last: MultivariateNormal | None = None
        self._passes = 0

    def __call__(self, progress: Progress) -> bool:
        passes, inside = divmod(progress.step, progress.steps_per_epoch)
        if inside or passes == self._passes:
            return False
        q: Any = jax.tree.map(jnp.copy, progress.state.posterior[Z])
        if self._last is not None:
            left = float(q.kl(self._last)) * float(1 + counts_for(passes)) ** 2
            self.settled = passes >= FIRST and left < LEFT * max(1.0, q.dim / 10)
        self._last, self._passes = q, passes
        return self.settled

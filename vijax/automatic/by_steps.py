"""Fits of `vijax.auto` that the algorithms of `vijax.fit` make: of models in conjugate form, of energies with free
variables, and of log densities of many groups.

In conjugate form the size of the data chooses the algorithm. An energy with free variables takes stochastic steps until
its bound drifts no more.

For a log density of many groups, a fit to some of them, their likelihood scaled to all, gives a frame in which the
posterior is near N(0, I), but for the error of that sample. Natural-gradient steps need no tuning there. Those of a
pass over B batches have the sizes 1 / (c B + 1), ..., 1 / (c B + B), after which

    lambda  =  (c lambda_before + mean of the pass's messages) / (c + 1):

every batch counts alike, and the differences between batches cancel, but for the little that q moves within a pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.algorithms import cavi, memoized, pg_svi, svi
from vijax.automatic import verdict_of_steps
from vijax.automatic.gaussian import Gaussian
from vijax.automatic.report import Ended, Estimate, Report
from vijax.automatic.verdict import INDEPENDENT, JOINED, of_end, of_starts
from vijax.checks import require
from vijax.contract.model import Model
from vijax.families import MultivariateNormal
from vijax.fitting.fit import DivergedError, Progress, fit
from vijax.fitting.judge import not_judged
from vijax.fitting.loader import Loader, as_loader
from vijax.fitting.result import Fit
from vijax.fitting.status import Status, skipped_text
from vijax.free_algorithms import ngvi
from vijax.inference import guides
from vijax.inference.guides import Z
from vijax.inference.wrappers.sized import takes_all
from vijax.models.energies.density import with_guide
from vijax.xla import keys

SMALL = 5_000  # groups up to which coordinate ascent takes all of them at every step
LARGE = 200_000  # groups beyond which steps are stochastic
SMALL_CORPUS = 200  # the same as `SMALL` for documents: their steps cost more, and coordinate ascent takes hundreds
STARTS, OF_CORPUS = 8, 4  # number of starts of small data, and of documents up to `SMALL`; larger data have one
PART = 500  # groups of a part whose message is remembered, about
REMEMBERED = 1 << 26  # largest number of numbers in the messages of all parts together: a quarter of a gigabyte
BATCH = 256  # groups of a minibatch
SAME = 1e-4  # starts have the same end where their bounds differ by less than this share
FREE_STARTS, FIRST = 4, 500  # starts side by side, and their number of steps, after which the best goes on
MOST = 8_000  # largest number of steps
DRIFT = 0.05
"""A run ends where its bound gains fewer nats, beyond noise, from the third quarter of its steps to the last."""


def of_conjugate(model: Model, data: Any, *, key: PRNGKeyArray, num_starts: int | None) -> Fit:
    """Fits a model in conjugate form (see `vijax.auto`)."""
    if model.by_entry is not None:
        require(num_starts in (None, 1), "num_starts", "none of a model of Gaussian predictors", num_starts, ONE_START)
        done = fit(pg_svi(model), model.form.given if data is None else data, key=key, num_steps=500, tol=1e-6)
        return _reported(done, "Its posterior is the best normal one.")
    loader = as_loader(data, model, None, 0)
    if loader.num_groups <= (SMALL_CORPUS if model.form.documents is not None else SMALL):
        done = fit(cavi(model), data, key=key, num_steps=1000, tol=1e-6, restarts=num_starts or STARTS)
        return _reported(done, INDEPENDENT)
    starts = num_starts or (1 if loader.num_groups > SMALL else OF_CORPUS)
    if _can_be_remembered(model, loader):
        alg = memoized(model, num_parts=_num_parts(loader))
        return _reported(fit(alg, data, key=key, num_epochs=30, restarts=starts), INDEPENDENT)
    size = min(BATCH, loader.num_groups)
    done = fit(svi(model), data, key=key, num_epochs=10, batch_size=size, restarts=starts)
    return _reported(done, f"Ten passes in batches of {BATCH}: whether more would help was not judged. {INDEPENDENT}")


ONE_START = "Its steps never lower the bound, from one start. Leave it out."


def _can_be_remembered(model: Model, loader: Loader) -> bool:
    """Says whether incremental steps are exact, and the messages of all parts fit in memory."""
    at_once = model.blocks is None or len(model.blocks) == 1
    if loader.num_groups > LARGE or not at_once or not model.locals.is_linear:
        return False
    prior = jax.eval_shape(model.prior, dict(model.hyper))
    return _num_parts(loader) * sum(x.size for x in jax.tree.leaves(prior)) <= REMEMBERED


def _num_parts(loader: Loader) -> int:
    """Returns the number of parts of about `PART` groups that the data can be cut into."""
    size = -(-loader.num_groups // -(-loader.num_groups // PART))
    return -(-loader.num_groups // size)


def _reported(done: Fit, words: str) -> Fit:
    """Returns the fit with a report."""
    bounds = np.asarray(done.trace["elbo"], np.float64)
    tail = bounds[-20:]
    exact = takes_all(done.alg) or done.alg.spec.messages.num_parts is not None
    elbo = Estimate(
        float(bounds[-1] if exact else tail.mean()), 0.0 if exact else float(tail.std() / np.sqrt(len(tail)))
    )
    settled = done.status is Status.CONVERGED or _is_flat(bounds)
    said = [*_ended(done, "Converged.", settled), *_of_restarts(done.trace.get("restart_elbo")), words]
    return done._replace(report=Report(elbo, (), float("nan"), float("nan"), done.outcome, " ".join(said)))


def _of_restarts(bounds: np.ndarray | None) -> list[str]:
    """Says how many starts reached the best bound; a model may have one start only, whatever the key."""
    if bounds is None:
        return []
    ends, is_one = np.asarray(bounds)[-1], [np.all(bounds[i] == bounds[i, 0]) for i in (0, -1)]
    return of_starts(len(ends), 0 if all(is_one) else int((ends >= ends.max() - SAME * abs(ends.max())).sum()))


def _is_flat(bounds: np.ndarray) -> bool:
    """Says whether the last tenth of the run gained next to nothing."""
    tail = bounds[-max(2, len(bounds) // 10) :]
    return bool(abs(tail[-1] - tail[0]) <= 1e-5 * abs(tail[-1]))


def _ended(done: Fit, settled: str, is_settled: bool) -> list[str]:
    """Says how a fit ended: `settled` where the bound rose no more; and how many steps were skipped."""
    said = [of_end(done.status is Status.INTERRUPTED, is_settled, settled)]
    if done.num_skipped:
        said.append(f"{skipped_text(done.num_skipped, int(done.state.step))}.")
    return said


# --- energies with free variables -------------------------------------------------------------------------------------
def of_mixed(model: Model, data: Any, *, key: PRNGKeyArray, num_starts: int | None) -> Fit:
    """Fits an energy with free variables (see `vijax.auto`)."""
    groups = as_loader(data, model, None, 0).num_groups
    size = None if groups <= SMALL else BATCH
    starts = num_starts or FREE_STARTS
    done = _fitted(svi(model), data, key=key, num_steps=FIRST, batch_size=size, restarts=starts)
    done.trace.pop("restart_elbo", None)
    traces = [done.trace]
    while done.status is Status.FINISHED and not _is_settled(_joined(traces)["elbo"]) and done.state.step < MOST:
        more = 2 * int(done.state.step)
        done = _fitted(done.alg, data, key=key, num_steps=more, batch_size=size, state=done.state)
        traces.append(done.trace)
    done = done._replace(trace=_joined(traces))
    return done if done.status is Status.UNBOUNDED else _of_free(done, starts)


def _fitted(*args: Any, **kwargs: Any) -> Fit:
    """Fits as `vijax.fit` does; a bound that grows without limit is no error, for the fit says so."""
    try:
        return fit(*args, **kwargs)
    except DivergedError as error:
        if error.fit.status is Status.UNBOUNDED:
            return error.fit
        raise


def _joined(traces: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Returns one trace of all steps."""
    return {name: np.concatenate([trace[name] for trace in traces]) for name in traces[0]}


def _mean(bounds: Float[np.ndarray, " steps"]) -> Estimate:
    return Estimate.of(bounds.astype(np.float64))


def _is_settled(bounds: Float[np.ndarray, " steps"]) -> bool:
    """Says whether the last quarter of the steps gained no more than noise over the one before."""
    quarter = len(bounds) // 4
    before, last = _mean(bounds[-2 * quarter : -quarter]), _mean(bounds[-quarter:])
    return last.value - before.value < DRIFT + 2 * np.hypot(before.standard_error, last.standard_error)


def _on_draws(done: Fit, said: list[str]) -> Report:
    """Returns a report by draws of q (`vijax.automatic.judged`), its verdict after the sentences `said`."""
    why = not_judged(done.alg.spec)
    found = None if why else done.judge.of(done)
    if found is None:
        said.append(f"How near q is to the posterior was not judged{why and ', for '}{why}.")
        bounds, nan = done.trace["elbo"], float("nan")
        return Report(_mean(bounds[-(len(bounds) // 4) :]), (), nan, nan, done.outcome, " ".join(said))
    model, q = done.alg.spec.model, done.posterior[Z]
    assert model.free is not None
    seen = verdict_of_steps.sentences(found, q, model.free.variables, len(done.posterior) > 1)
    words = " ".join([*said, *seen] if found.usable else [*seen, *said])
    return Report(found.elbo, (), found.gap, found.khat, done.outcome, words, zero=found.zero, usable=found.usable)


def _of_free(done: Fit, starts: int) -> Fit:
    """Returns the fit with a report."""
    settled = _is_settled(done.trace["elbo"])
    said = _ended(done, "The bound rises no more.", settled)
    if starts > 1:
        said.append(f"Of {starts} starts the best after {FIRST} steps was taken.")
    if len(done.posterior) > 1:
        said.append(JOINED)
    report = _on_draws(done, said)
    status = Status.CONVERGED if settled and done.status is Status.FINISHED else done.status
    return done._replace(status=status, report=report)


# --- log densities of many groups -------------------------------------------------------------------------------------
MANY_GROUPS = 50_000  # groups from which on minibatches are taken unasked
BATCH_OF_MANY = 500  # groups of a minibatch
SAMPLE, PER_VARIABLE = 2_000, 20  # groups of the sample: at least so many, and so many a variable
MOST_PASSES = 60  # largest number of passes over all groups
FEWEST_AT_ONCE, MOST_AT_ONCE = 16, 64  # steps between two checks of whether a pass has ended, at least and at most
LEAST_PASSES, FIRST_PASSES = 2, 12
"""The posterior before a pass counts for `LEAST_PASSES` passes (c above) during the first `FIRST_PASSES` passes, then
for one more a pass."""
LEFT = 0.02  # a fit has converged where less is left, in nats, of up to ten variables; in proportion for more


class Sample(NamedTuple):
    """Some groups, and the ratio of the number of all groups to theirs."""

    data: PyTree
    scale: float


def sample_of(data: PyTree, dim: int, seed: int) -> Sample:
    """Returns random groups to begin with."""
    total = int(np.shape(jax.tree.leaves(data)[0])[0])
    size = min(total, max(SAMPLE, PER_VARIABLE * dim))
    rows = np.sort(np.random.default_rng([seed, 3]).permutation(total)[:size])
    return Sample(jax.tree.map(lambda x: np.asarray(x)[rows], data), total / size)


def fit_all(model: Model, data: PyTree, start: Gaussian, batch_size: int, key: PRNGKeyArray) -> Gaussian:
    """Fits all groups from a fit to a sample on, in passes, until a pass changes q by next to nothing."""
    dim = model.log_density.variables.dim
    framed = with_guide(model, guides.full_rank(), is_framed=True)
    groups = int(np.shape(jax.tree.leaves(data)[0])[0])
    size, steps, chunk = even_batches(groups, batch_size)
    schedule = by_passes(steps)
    alg = ngvi(framed, num_samples=max(32, 2 * (dim + 1)), step_size=schedule, nats=float(max(1, dim)))
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
    """The step size rho_t = 1 / (c B + 1 + t mod B), see above. c is `LEAST_PASSES` for `FIRST_PASSES` passes, in which
    the error of the start falls by 1 + 1 / c each, and then grows by one a pass, which averages the noise that is left.

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
    return LEAST_PASSES + jnp.maximum(passes - FIRST_PASSES, 0)


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
            self.settled = passes >= FIRST_PASSES and left < LEFT * max(1.0, q.dim / 10)
        self._last, self._passes = q, passes
        return self.settled

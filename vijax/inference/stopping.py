"""Convergence of a fit: one rule for objectives without noise, and one for minibatches and draws.

**With noise** (`Watch`). A ring of `ROOM` places keeps averages of the objective over windows of
equal length: a pass over the data, if it has at most some hundreds of steps. When the ring is full,
pairs are merged, and windows are twice as long. After 16, 24, 32, 48, 64, 96, ... of the first
windows a straight line is fitted to the last half of the averages. With its slope b over h
averages, and the standard error s of b,

    gain = h (b + t s sqrt((1 + r) / (1 - r)))

is the most that another h windows would bring, at 95 %: t is Student's quantile for h - 2 degrees
of freedom, and r the correlation of neighbours in the residuals, corrected for its bias and between
0 and 0.9. A fit has converged if the gain is below tol x |objective|. All of it is a pure function
that may run inside `jax.jit`.

Error rates, over 2,000 traces of each kind, up to 512 windows (`tests/inference/test_stopping.py`
draws 500 of each). It stops although another h windows would bring more than twice tol: with noise
up to tol in at most 3 % (straight lines with correlation .9 of neighbouring windows); with noise of
three times tol in 1 % of curves, and up to 12 % of straight lines. It does not stop although the
objective is flat: in up to 1.4 % and 16 %; after an approach of some 20 windows in up to 2.3 % (34
% at correlation .9), and 58 %. No rule can see a plateau longer than the run so far.

**Without noise** (`remaining_gain`). The objective is evaluated 50 steps apart. A fit has converged
if the last change is within tol, and so is the sum of later changes, if they shrink as the last one
did. On a slow ascent each change may be below tol, and the sum far above."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy import special

from vijax.tree import to_device

ROOM, FIRST = 64, 16
"""Number of averages in the ring; and at the first look."""
FEWEST_STEPS, MOST_STEPS = 10, 200
"""Fewest and most steps of a first window."""
CHECK_EVERY = 50
"""Convergence without noise is judged at steps that are multiples of this. It depends on the number
of the step alone, so not on chunks of a run, nor on where it was stopped and resumed."""
UNSEEN = np.inf
"""An objective that was not evaluated yet. NaN would be an error under jax_debug_nans."""
STUDENT = np.concatenate(
    [np.full(3, np.inf), special.stdtrit(np.arange(1, ROOM - 1), 0.95)]
).astype(np.float32)
"""The 95 % quantile for a line, by its number of points."""


class Watch(NamedTuple):
    """The averages of a noisy objective."""

    means: Float[Array, " room"]  # averages over windows, in order of time; 0 in empty places
    filled: Int[Array, ""]  # number of averages
    total: Float[Array, ""]  # sum of the objective over the present window
    rest: Float[Array, ""]  # the rounding error of this sum (Kahan)
    steps: Int[Array, ""]  # number of steps in the present window
    merged: Int[Array, ""]  # number of first windows in one average
    window: Int[Array, ""]  # steps of a first window
    # The most that another h windows would bring, relative to the objective, with h the number of
    # windows in the fitted line, at the last look; infinite before the first look
    gain: Float[Array, ""]

    @property
    def observed(self) -> Any:
        """Steps since the watch began."""
        return self.filled * self.merged * self.window + self.steps


def watch(window: int | Array = 0, dtype: Any = None) -> Watch:
    """A watch before the first step.

    Args:
      window: steps of a first window; a pass over the data is best (`window_of`).
      dtype: type of the objective.

    >>> averages = watch(10)
    >>> noise = np.random.default_rng(0).normal(size=3000)
    >>> for step in range(320):
    ...     averages = observed(averages, -100.0 - 50 * np.exp(-step / 20) + noise[step])
    >>> print(f"{averages.gain:.4f}", bool(averages.gain < 0.01))
    0.0026 True
    """
    zero, none = jnp.zeros((), dtype), jnp.zeros((), jnp.int32)
    size = jnp.asarray(window, jnp.int32)
    return Watch(
        jnp.zeros(ROOM, dtype), none, zero, zero, none, none + 1, size, jnp.full((), jnp.inf, dtype)
    )


def window_of(steps_per_epoch: int) -> int:
    """Number of steps of a first window: whole passes, at least `FEWEST_STEPS` steps; or an even
    part of a pass, at most `MOST_STEPS` steps.

    >>> window_of(1), window_of(7), window_of(23), window_of(1000)
    (10, 14, 23, 200)
    """
    if steps_per_epoch < FEWEST_STEPS:
        return steps_per_epoch * -(-FEWEST_STEPS // steps_per_epoch)
    return -(-steps_per_epoch // -(-steps_per_epoch // MOST_STEPS))


@jax.jit
def observed(watch: Watch, objective: Float[Array, ""]) -> Watch:
    """The watch after one more step. An objective that is not finite makes its average not finite,
    and a fit with such an average has not converged."""
    value = jnp.asarray(objective, watch.total.dtype) - watch.rest
    total = watch.total + value
    watch = watch._replace(total=total, rest=(total - watch.total) - value, steps=watch.steps + 1)
    is_full = watch.steps >= watch.merged * watch.window
    return jax.lax.cond(is_full, _close_window, lambda watch: watch, watch)


def _close_window(watch: Watch) -> Watch:
    """The watch with the average of its full window. If the ring is full, pairs are merged."""
    mean = watch.total / watch.steps.astype(watch.total.dtype)
    means = jnp.where(jnp.arange(ROOM) == watch.filled, mean, watch.means)
    is_all = watch.filled + 1 == ROOM
    pairs = jnp.pad(means.reshape(-1, 2).mean(1), (0, ROOM // 2))
    watch = watch._replace(
        means=jnp.where(is_all, pairs, means),
        filled=jnp.where(is_all, ROOM // 2, watch.filled + 1),
        merged=watch.merged * jnp.where(is_all, 2, 1),
        total=jnp.zeros_like(watch.total),
        rest=jnp.zeros_like(watch.rest),
        steps=jnp.zeros_like(watch.steps),
    )
    # There is no look at 64 averages: they are 32 of twice the length.
    looks = jnp.array([FIRST, FIRST * 3 // 2, FIRST * 2, FIRST * 3])
    is_look = jnp.any(watch.filled == looks)
    return watch._replace(gain=jnp.where(is_look, _gain(watch), watch.gain))


def _gain(watch: Watch) -> Float[Array, ""]:
    """The gain of `Watch`, by the line through the last half of the averages."""
    half = watch.filled // 2
    index = jnp.arange(ROOM)
    is_used = (index >= watch.filled - half) & (index < watch.filled)
    count = jnp.maximum(half, 3).astype(watch.means.dtype)
    time = (index - (watch.filled - half)).astype(count.dtype) - (count - 1) / 2
    time = jnp.where(is_used, time, 0.0)
    level = jnp.sum(jnp.where(is_used, watch.means, 0.0)) / count
    centred = jnp.where(is_used, watch.means - level, 0.0)
    spread = jnp.sum(time**2)
    slope = jnp.sum(time * centred) / spread
    residuals = centred - slope * time
    squares = jnp.sum(residuals**2)
    are_used = is_used[1:] & is_used[:-1]
    products = jnp.sum(jnp.where(are_used, residuals[1:] * residuals[:-1], 0.0))
    correlation = jnp.where(squares > 0, products / squares, 0.0)
    correlation = correlation + (1 + 4 * jnp.maximum(correlation, 0.0)) / count
    correlation = jnp.clip(correlation, 0.0, 0.9)
    error = jnp.sqrt(squares / (count - 2) / spread * (1 + correlation) / (1 - correlation))
    return count * (slope + jnp.asarray(STUDENT, count.dtype)[half] * error) / jnp.abs(level)


def next_look(steps: int, window: int) -> int:
    """The number of steps at the next look at a watch.

    >>> [next_look(steps, 10) for steps in (0, 160, 239, 240, 320, 480, 640)]
    [160, 240, 240, 320, 480, 640, 960]
    """
    for k in itertools.count():
        for windows in (FIRST << k, FIRST * 3 // 2 << k):
            if windows * window > steps:
                return windows * window
    raise AssertionError


# --- without noise --------------------------------------------------------------------------------
def remaining_gain(checked: Float[np.ndarray, "*runs 3"]) -> Float[np.ndarray, "*runs"]:
    """The expected gain of further steps, relative to the objective, from its values at three
    checks, the latest last.

    It is the last change, or the sum of later changes that shrink as the last one did, if this is
    more. A change of the last digit counts as zero.

    >>> shrinking, steady = [-16.0, -8.0, -4.0], [-9.0, -8.5, -8.0]
    >>> flat, early = [-8.0, -8.0, -8.0], [np.inf, -8.0, -7.9]
    >>> remaining_gain(np.array([shrinking, steady, flat, early])).tolist()
    [1.0, inf, 0.0, inf]
    """
    values = np.where(np.equal(checked, UNSEEN), np.nan, checked)
    first, before, last = np.moveaxis(values, -1, 0)
    size, scale = np.abs(last - before), np.abs(last)
    earlier = np.abs(before - first)
    shrinks = size < earlier
    ratio = np.where(shrinks, size / np.where(shrinks, earlier, 1), 0.0)
    series = np.maximum(1.0, ratio / (1 - np.minimum(ratio, 0.999)))
    factor = np.where(shrinks, series, np.inf)
    is_still = size <= np.finfo(last.dtype).eps * scale
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(is_still, 0.0, factor * size / scale)


def record_checks(checked: Any, objective: Float[np.ndarray, " steps *runs"], done: int) -> Any:
    """The objectives at the last three checks, after the objectives of the steps up to `done`. A
    check is a step that is a multiple of `CHECK_EVERY`.

    >>> record_checks(np.array([-9.0, -7.0, -5.0], np.float32), np.arange(20.0), 110).tolist()
    [-7.0, -5.0, 9.0]
    """
    steps = done - len(objective) + 1 + np.arange(len(objective))
    new = objective[steps % CHECK_EVERY == 0]
    if not len(new):
        return checked
    before = np.asarray(checked)
    return to_device(np.concatenate([before.T, new])[-3:].T.astype(before.dtype))

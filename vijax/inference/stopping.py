"""When a fit has converged: one rule for objectives without noise, one for those of minibatches and
draws.

**With noise** (`Watch`). Averages of the objective over windows of equal length (a pass over the
data, where that is no more than some hundreds of steps) are kept in a ring of `ROOM` places; where
it is full, pairs are merged, and windows are twice as long. After 16, 24, 32, 48, 64, 96, ... of
the first windows a straight line is fitted to the last half of the averages. With its slope b over
h of them, and the standard error s of b,

    gain = h (b + t s sqrt((1 + r) / (1 - r)))

is the most that another h windows would bring, at 95 %: t is Student's quantile for h - 2 degrees
of freedom, and r the correlation of neighbours in the residuals, corrected for its bias and between
0 and 0.9. A fit has converged where that is below tol x |objective|. All of it is a pure function
that may run inside `jax.jit`.

How often it errs, of 2,000 traces of each kind, up to 512 windows
(`tests/inference/test_stopping.py` draws 500 of each). It stops where another h windows would bring
more than twice tol: with noise up to tol at most 3 %, and that for straight lines at correlation .9
of neighbouring windows; with noise of three times tol 1 % of curves, up to 12 % of straight lines.
It does not stop although the objective is flat: up to 1.4 % and 16 %; after an approach of some 20
windows up to 2.3 % (34 % at correlation .9), and 58 %. No rule can see a plateau longer than the
run so far.

**Without noise** (`remaining_gain`). The objective at steps 50 apart: its last change is within tol, and
so is the sum of later changes, if they shrink as the last one did. On a slow ascent each change may
be below tol, and that sum far above."""

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
"""Averages that are kept; and how many there are at the first look."""
FEWEST_STEPS, MOST_STEPS = 10, 200
"""Steps of a window, as long as it is not merged."""
CHECK_EVERY = 50
"""Convergence without noise is judged by the objective at steps that are multiples of this: a
matter of the step's number alone, so that it depends neither on where a run was cut into chunks nor
on where it was stopped and resumed."""
UNSEEN = np.inf
"""An objective that was not evaluated yet. It is not NaN, which jax_debug_nans would take for a
mistake."""
STUDENT = np.concatenate(
    [np.full(3, np.inf), special.stdtrit(np.arange(1, ROOM - 1), 0.95)]
).astype(np.float32)
"""The 95 % quantile for a line through so many points."""


class Watch(NamedTuple):
    """The averages of a noisy objective."""

    means: Float[Array, " room"]  # averages over windows, the first ones first; 0 where none is yet
    filled: Int[Array, ""]  # number of averages
    total: Float[Array, ""]  # sum of the objective over the window that is not full yet
    rest: Float[Array, ""]  # the rounding error of that sum (Kahan)
    steps: Int[Array, ""]  # number of steps in that window
    merged: Int[Array, ""]  # number of first windows in one average
    window: Int[Array, ""]  # steps of a first window
    # The most that another h windows would bring, relative to the objective, h being the number of
    # windows in the fitted line; as of the last look, infinite before
    gain: Float[Array, ""]

    @property
    def observed(self) -> Any:
        """Steps since the watch began."""
        return self.filled * self.merged * self.window + self.steps


def watch(window: int | Array = 0, dtype: Any = None) -> Watch:
    """A watch that has seen nothing.

    Args:
      window: steps of a first window; a pass over the data is best (`window_of`).
      dtype: type of the objective.

    >>> seen = watch(10)
    >>> noise = np.random.default_rng(0).normal(size=3000)
    >>> for step in range(320):
    ...     seen = observed(seen, -100.0 - 50 * np.exp(-step / 20) + noise[step])
    >>> print(f"{seen.gain:.4f}", bool(seen.gain < 0.01))
    0.0026 True
    """
    zero, none = jnp.zeros((), dtype), jnp.zeros((), jnp.int32)
    size = jnp.asarray(window, jnp.int32)
    return Watch(
        jnp.zeros(ROOM, dtype), none, zero, zero, none, none + 1, size, jnp.full((), jnp.inf, dtype)
    )


def window_of(steps_per_epoch: int) -> int:
    """Steps of a first window: whole passes of `FEWEST_STEPS` at least, or an even part of one of
    `MOST_STEPS` at most.

    >>> window_of(1), window_of(7), window_of(23), window_of(1000)
    (10, 14, 23, 200)
    """
    if steps_per_epoch < FEWEST_STEPS:
        return steps_per_epoch * -(-FEWEST_STEPS // steps_per_epoch)
    return -(-steps_per_epoch // -(-steps_per_epoch // MOST_STEPS))


@jax.jit
def observed(seen: Watch, objective: Float[Array, ""]) -> Watch:
    """The watch after one step more. An objective that is not finite makes an average that is not
    finite, and no fit with one among its averages has converged."""
    value = jnp.asarray(objective, seen.total.dtype) - seen.rest
    total = seen.total + value
    seen = seen._replace(total=total, rest=(total - seen.total) - value, steps=seen.steps + 1)
    is_full = seen.steps >= seen.merged * seen.window
    return jax.lax.cond(is_full, _closed, lambda seen: seen, seen)


def _closed(seen: Watch) -> Watch:
    """The watch with the full window among its averages, whose pairs are merged where there is no
    room for more."""
    mean = seen.total / seen.steps.astype(seen.total.dtype)
    means = jnp.where(jnp.arange(ROOM) == seen.filled, mean, seen.means)
    is_all = seen.filled + 1 == ROOM
    pairs = jnp.pad(means.reshape(-1, 2).mean(1), (0, ROOM // 2))
    seen = seen._replace(
        means=jnp.where(is_all, pairs, means),
        filled=jnp.where(is_all, ROOM // 2, seen.filled + 1),
        merged=seen.merged * jnp.where(is_all, 2, 1),
        total=jnp.zeros_like(seen.total),
        rest=jnp.zeros_like(seen.rest),
        steps=jnp.zeros_like(seen.steps),
    )
    looks = jnp.array(
        [FIRST, FIRST * 3 // 2, FIRST * 2, FIRST * 3]
    )  # 64 averages are 32 of twice the length
    return seen._replace(gain=jnp.where(jnp.any(seen.filled == looks), _gain(seen), seen.gain))


def _gain(seen: Watch) -> Float[Array, ""]:
    """The gain of `Watch`, by the line through the last half of the averages."""
    half = seen.filled // 2
    places = jnp.arange(ROOM)
    inside = (places >= seen.filled - half) & (places < seen.filled)
    count = jnp.maximum(half, 3).astype(seen.means.dtype)
    time = jnp.where(
        inside, (places - (seen.filled - half)).astype(count.dtype) - (count - 1) / 2, 0.0
    )
    level = jnp.sum(jnp.where(inside, seen.means, 0.0)) / count
    apart = jnp.where(inside, seen.means - level, 0.0)
    spread = jnp.sum(time**2)
    slope = jnp.sum(time * apart) / spread
    left = apart - slope * time
    squares = jnp.sum(left**2)
    neighbours = jnp.sum(jnp.where(inside[1:] & inside[:-1], left[1:] * left[:-1], 0.0))
    like = jnp.where(squares > 0, neighbours / squares, 0.0)
    like = jnp.clip(like + (1 + 4 * jnp.maximum(like, 0.0)) / count, 0.0, 0.9)
    error = jnp.sqrt(squares / (count - 2) / spread * (1 + like) / (1 - like))
    return count * (slope + jnp.asarray(STUDENT, count.dtype)[half] * error) / jnp.abs(level)


def next_look(steps: int, window: int) -> int:
    """The number of steps after which the next look at a watch is.

    >>> [next_look(steps, 10) for steps in (0, 160, 239, 240, 320, 480, 640)]
    [160, 240, 240, 320, 480, 640, 960]
    """
    looks = (
        windows * window for k in itertools.count() for windows in (FIRST << k, FIRST * 3 // 2 << k)
    )
    return next(look for look in looks if look > steps)


# --- without noise --------------------------------------------------------------------------------
def remaining_gain(checked: Float[np.ndarray, "*runs 3"]) -> Float[np.ndarray, "*runs"]:
    """The gain that an objective still has to come, relative to itself, by its values at three
    checks, the latest last: its last change, or the sum of later changes that shrink as the last
    one did, if that is more. A change of the last digit is none.

    >>> shrinking, steady = [-16.0, -8.0, -4.0], [-9.0, -8.5, -8.0]
    >>> flat, early = [-8.0, -8.0, -8.0], [np.inf, -8.0, -7.9]
    >>> remaining_gain(np.array([shrinking, steady, flat, early])).tolist()
    [1.0, inf, 0.0, inf]
    """
    first, before, now = np.moveaxis(np.where(np.equal(checked, UNSEEN), np.nan, checked), -1, 0)
    size, scale = np.abs(now - before), np.abs(now)
    earlier = np.abs(before - first)
    shrinks = size < earlier
    ratio = np.where(shrinks, size / np.where(shrinks, earlier, 1), 0.0)
    on = np.where(shrinks, np.maximum(1.0, ratio / (1 - np.minimum(ratio, 0.999))), np.inf)
    still = size <= np.finfo(now.dtype).eps * scale
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(still, 0.0, on * size / scale)


def record_checks(checked: Any, objective: Float[np.ndarray, " steps *runs"], done: int) -> Any:
    """The last three objectives at steps that are multiples of `CHECK_EVERY`, with those of the
    last steps, up to step `done`, among them.

    >>> record_checks(np.array([-9.0, -7.0, -5.0], np.float32), np.arange(20.0), 110).tolist()
    [-7.0, -5.0, 9.0]
    """
    steps = done - len(objective) + 1 + np.arange(len(objective))
    due, old = objective[steps % CHECK_EVERY == 0], np.asarray(checked)
    return to_device(np.concatenate([old.T, due])[-3:].T.astype(old.dtype)) if len(due) else checked

"""NumPyro's handlers for discrete sites that Funsor sums out: undeclared axes as plates, values of
supports, and log weights of values."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from vijax.adapters.numpyro_sites import is_in_scan
from vijax.extras import require_extra

EARLIER = "_PREV_"
"""NumPyro's prefix of sites at the first steps of a scan, one for each step to the next."""


def require_funsor(purpose: str = "discrete sites are summed out by funsor") -> Any:
    """NumPyro's module for Funsor. ImportError that says what needs it, and how to install it."""
    try:
        require_extra("funsor", "numpyro")
        return require_extra("numpyro.contrib.funsor", "numpyro")
    except ImportError as error:
        raise ImportError(f"{purpose}: {error}") from error


class Axes(NamedTuple):
    """Axes of batches that a model does not declare by plates.

    Attributes:
      plates: for each axis that is taken as a plate, its size and the names of the sites that have
        it.
      events: for continuous unknowns in no plate, the number of axes that are taken as those of one
        event.
    """

    plates: dict[int, tuple[int, frozenset[str]]]
    events: dict[str, int]


def with_axes(model: Callable[[], Any], axes: Axes) -> Callable[[], Any]:
    """The model with plates for all axes of its batches."""
    return _handlers().WithAxes(model, axes)


def with_weights(
    model: Callable[[], Any], supports: Mapping[str, Any], has_steps: bool, weights: Any
) -> Callable[[], Any]:
    """The enumerated model with the values of its supports, and with log weights on them.

    Args:
      model: a model whose discrete sites are enumerated.
      supports: the values of each discrete site.
      has_steps: True if some of them are in a scan.
      weights: the log weights by name, with the values of a site along the last axis; or None.
    """
    return _handlers().WithWeights(model, supports, has_steps, weights)


def longest_history(model: Callable[[], Any]) -> int:
    """The largest `history` of the scans of a model; 1 without a scan."""
    histories = [1]
    messenger: Any = require_extra("numpyro.primitives", "numpyro").Messenger

    class ReadHistory(messenger):
        """Notes the history of each scan."""

        def process_message(self, msg: Any) -> None:
            if msg["type"] == "control_flow":
                histories.append(msg["kwargs"].get("history", 1))

    handlers = require_extra("numpyro.handlers", "numpyro")
    with ReadHistory():
        jax.eval_shape(lambda: handlers.trace(handlers.seed(model, 0)).get_trace() and 0.0)
    return max(histories)


class BackwardsError(ValueError):
    """The steps of a scan go from the last to the first."""


BACKWARDS = (
    "model: scan with discrete sites: expected steps from the first to the last, got reverse=True, "
    "of which NumPyro sums the states in another order. Turn the data round, jnp.flip(y, 0), and "
    "scan without reverse."
)


class _Handlers(NamedTuple):
    """NumPyro's handlers of this module: classes that are made once NumPyro is imported."""

    WithAxes: Any
    WithWeights: Any


class _WeightedLaw:
    """A law of a discrete site with log weights on its values."""

    def __init__(self, law: Any, log_weights: Any):
        self._law = law
        self._log_weights = log_weights

    def log_prob(self, value: Any, *rest: Any) -> Any:
        """The log density with its weight."""
        return self._law.log_prob(value, *rest) + self._log_weights

    def __getattr__(self, name: str) -> Any:
        return getattr(self._law, name)


@functools.cache
def _handlers() -> _Handlers:
    messenger: Any = require_extra("numpyro.primitives", "numpyro").Messenger
    plate: Any = require_funsor().plate

    class AxisPlate(plate):
        """A plate of the sites that have an axis which the model does not declare."""

        def __init__(self, axis: int, size: int, names: frozenset[str]):
            super().__init__(f"axis {axis}", size, dim=axis)
            self._names = names

        def process_message(self, msg: Any) -> None:
            if msg["type"] != "sample" or msg["name"] in self._names:
                super().process_message(msg)

    class WithAxes(messenger):
        """Takes undeclared axes of batches as plates, or as axes of one event."""

        def __init__(self, fn: Any, axes: Axes):
            super().__init__(fn)
            self._plates = axes.plates
            self._events = axes.events

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            with self:
                plates = [AxisPlate(axis, *facts) for axis, facts in sorted(self._plates.items())]
                for plate in reversed(plates):
                    plate.__enter__()
                try:
                    return self.fn(*args, **kwargs)
                finally:
                    for plate in plates:
                        plate.__exit__(None, None, None)

        def process_message(self, msg: Any) -> None:
            if msg["type"] == "sample" and msg["name"] in self._events:
                msg["fn"] = msg["fn"].to_event(self._events[msg["name"]])

    class WithWeights(messenger):
        """Gives discrete sites the values of their supports, and log weights."""

        def __init__(self, fn: Any, supports: Mapping[str, Any], has_steps: bool, weights: Any):
            super().__init__(fn)
            self._supports = supports
            self._has_steps = has_steps
            self._weights = weights
            self._num_first: Counter[str] = Counter()  # steps before the rest of a scan

        def process_message(self, msg: Any) -> None:
            if msg["type"] == "control_flow" and msg["args"][-1] is True and self._has_steps:
                raise BackwardsError(BACKWARDS)
            if msg["type"] != "sample" or msg["is_observed"]:
                return
            name = msg["name"].replace(EARLIER, "")
            if name not in self._supports:
                return
            places = msg["value"]
            is_step = is_in_scan(msg)
            if not is_step:
                # Of each law NumPyro enumerates 0, 1, ..., whatever its support
                msg["value"] = jnp.asarray(self._supports[name])[places]
            if self._weights is not None:
                log_weights = jnp.asarray(self._weights[name])
                if is_step:
                    log_weights = self._weights_of_steps(msg["name"], name, log_weights)
                has_steps = is_step and EARLIER not in msg["name"]
                msg["fn"] = _WeightedLaw(msg["fn"], _pick(log_weights, places, has_steps))

        def _weights_of_steps(self, site_name: str, name: str, log_weights: Any) -> Any:
            """The weights at one of the first steps, or at all later ones."""
            to_next = site_name.count(EARLIER)
            self._num_first[name] = max(self._num_first[name], to_next)
            first = self._num_first[name]
            if to_next:
                return log_weights[first - to_next]
            return log_weights[first:]

    return _Handlers(WithAxes, WithWeights)


def _pick(log_weights: Any, places: Any, has_steps: bool) -> Any:
    """The log weights at numbers of values. The axes of the site are the last ones of the numbers;
    with steps of a scan its first axis is the first one of the numbers."""
    num_axes = log_weights.ndim - 1
    num_left = jnp.ndim(places) - num_axes  # axes of values to the left
    index = []
    for axis, size in enumerate(log_weights.shape[:-1]):
        shape = [1] * jnp.ndim(places)
        is_step = has_steps and axis == 0
        place = 0 if is_step else num_left + axis
        shape[place] = size
        index.append(jnp.arange(size).reshape(shape))
    return log_weights[(*index, places)]

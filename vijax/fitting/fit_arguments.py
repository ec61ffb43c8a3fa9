"""The arguments of `vijax.fit`, checked before anything is compiled."""

from __future__ import annotations

import math
import os
import warnings
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from vijax.checks import require, require_integers
from vijax.contract.expected import warn_of_far_columns
from vijax.contract.model import Model
from vijax.data.loader import USUAL_WORDS, ArrayLoader, Loader
from vijax.fitting.restarts import Many
from vijax.inference.compose import Algorithm
from vijax.inference.estimator import mean_field
from vijax.inference.spec import Spec
from vijax.inference.step_size import backtracking, by_share
from vijax.inference.wrappers.sized import takes_all

_process: int | None = None  # process of the first fit


def check_process() -> None:
    """Raises RuntimeError in a child forked from a process that has fitted something: the child has
    none of the threads that XLA started, and would wait for them for ever."""
    global _process
    _process = _process or os.getpid()
    if _process != os.getpid():
        raise RuntimeError(
            "vijax.fit: this process was forked from one that had fitted something. XLA may wait "
            "there for ever. Start processes by multiprocessing.get_context('spawn'), or fork "
            "before the first fit."
        )


def warn_of_many_devices(data: Any) -> None:
    """Warns where data are split over devices: a fit computes on one of them."""
    arrays = [leaf for leaf in jax.tree.leaves(data) if isinstance(leaf, jax.Array)]
    count = max((len(array.sharding.device_set) for array in arrays), default=1)
    if count > 1:
        warnings.warn(
            f"data: they are split over {count} devices, and vijax.fit computes on one; they are "
            f"copied. To use all {count}: vijax.fit(..., mesh=vijax.scale.mesh({count})) "
            "(docs/how-to/devices.md).",
            UserWarning,
            stacklevel=4,
        )


def check_enough(model: Model, loader: Any) -> None:
    """Raises ValueError where nothing can be learnt from arrays: no step of a series was observed,
    for example."""
    if model.form.enough is not None and isinstance(loader, ArrayLoader):
        model.form.enough(loader.data)


def warn_of_far_prior(spec: Spec, loader: Any) -> None:
    """Warns where arrays lie far from what the model's prior expects, if the fit uses a prior."""
    uses_prior = not all(estimand.forgets_prior for estimand in spec.estimand.choices())
    if uses_prior and isinstance(loader, ArrayLoader):
        warn_of_far_columns(spec.model, loader.data, stacklevel=4)


def usual_words(alg: Algorithm) -> int | None:
    """Words of documents that a step should see, for an algorithm of many small steps (not all data
    at once, and steps that decrease). None for other algorithms; 0 for algorithms that draw."""
    spec = alg.spec
    if (
        takes_all(alg)
        or spec.messages.num_parts is not None
        or isinstance(spec.step_size, backtracking | by_share)
    ):
        return None
    if spec.step_size(np.asarray(1_000_000, np.int32)) >= 1:  # type: ignore[arg-type]
        return None
    draws = not all(isinstance(choice, mean_field) for choice in spec.estimator.choices())
    return 0 if draws else USUAL_WORDS


def check_batches(alg: Algorithm, loader: Loader, total: int) -> None:
    """Raises ValueError on minibatches under steps that stay at size one: these forget every batch
    but the last."""
    spec = alg.spec
    if (num_parts := spec.messages.num_parts) is not None:
        _check_parts(num_parts, loader)
        return
    if loader.steps_per_epoch == 1 or isinstance(spec.step_size, backtracking | by_share):
        return
    if all(update.size != "rho" for update in spec.update.choices()):
        return
    last = np.asarray(max(total - 1, 1), np.int32)  # not the first: every schedule may begin with 1
    if spec.step_size(last) >= 1:  # type: ignore[arg-type]
        raise ValueError(
            f"batch_size: expected the whole data set at every step, got {loader.steps_per_epoch} "
            "batches a pass. Steps of size one, as of cavi, em and map, forget every batch but the "
            "last. For minibatches use vijax.svi(model), or decreasing steps: em(model, "
            "step_size=vijax.step_size.robbins_monro()) is online EM."
        )


def _check_parts(num_parts: int, loader: Loader) -> None:
    """Raises ValueError where a loader's batches are not the parts with remembered messages."""
    is_fixed = getattr(loader, "is_fixed", False) and loader.steps_per_epoch == num_parts
    expected = (
        f"a loader with is_fixed=True of {num_parts} batches a pass, whose Minibatch.part says "
        "which each is"
    )
    remedy = "Give the data themselves, which vijax.fit cuts into parts."
    actual = f"{type(loader).__name__} of {loader.steps_per_epoch}"
    require(is_fixed, "data", expected, actual, remedy)


def check_whole(alg: Algorithm) -> None:
    """Raises ValueError where steps take batches in parts: a fit gives them whole batches."""
    split = [wrapper for wrapper in alg.wrappers if wrapper.splits_batch]
    remedy = (
        "Leave over_axis (axis) out, and give mesh=; or call its step in jax.shard_map in a loop "
        "of your own."
    )
    require(not split, "alg", "an algorithm whose step takes a whole batch", split, remedy)


def check_restarts(restarts: int, state: Any) -> None:
    """Raises ValueError where the state that a run resumes from has another number of restarts."""
    require_integers(restarts=restarts)
    if state is None or restarts == (len(state.recent) if isinstance(state, Many) else 1):
        return
    if isinstance(state, Many):
        raise ValueError(f"restarts: expected {len(state.recent)}, as in `state`, got {restarts}.")
    raise ValueError(
        f"restarts: expected 1 where a run goes on from `state`, got {restarts}. Leave one of "
        "them out, or give the `whole` of a callback's last Progress; fits with "
        'combine="average" keep it: state=fit.runs.'
    )


Combine = Literal["best", "average"]
"""What several runs are for: the best is kept, or their predictions are averaged."""


def check_combine(combine: str, restarts: int, model: Model) -> None:
    """Raises ValueError where the predictions of the runs cannot be averaged."""
    choices = get_args(Combine)
    require(combine in choices, "combine", " or ".join(map(repr, choices)), repr(combine))
    if combine == "best":
        return
    model.answer("average")
    remedy = "Two are enough: restarts=2."
    require(restarts > 1, "restarts", '2 or more with combine="average"', restarts, remedy)


def check_hyper(hyper: Any, model: Model, state: Any) -> None:
    """Raises ValueError on an unknown point of the model, another shape, or points beside a state,
    which has its points already."""
    if hyper is None:
        return
    remedy = "They are in state.hyper."
    require(state is None, "hyper", "none where a run goes on from `state`", sorted(hyper), remedy)
    unknown = sorted(set(hyper) - set(model.hyper))
    require(not unknown, "hyper", f"names among {sorted(model.hyper)}", unknown)
    for name, value in hyper.items():
        expected = jax.tree.map(jnp.shape, model.hyper[name])
        shapes = jax.tree.map(jnp.shape, value)
        require(expected == shapes, f"hyper[{name!r}]", f"values of the shapes {expected}", shapes)


def count_steps(num_epochs: float | None, num_steps: int | None, loader: Loader) -> int:
    """Steps of a run. Raises ValueError unless exactly one of passes and steps makes sense."""
    if (num_epochs is None) == (num_steps is None):
        raise ValueError("num_epochs, num_steps: expected exactly one of the two.")
    if num_steps is not None:
        require_integers(num_steps=num_steps)
        total = int(num_steps)
    else:
        is_real = isinstance(num_epochs, int | float | np.number) and math.isfinite(num_epochs)
        require(is_real, "num_epochs", "a positive number of passes", num_epochs)
        has_length = loader.num_groups is not None
        remedy = "Nobody knows how long a pass of this source is."
        require(has_length, "num_epochs", "num_steps in its place", num_epochs, remedy)
        total = round(float(num_epochs) * loader.steps_per_epoch)  # type: ignore[arg-type]
    limit = int(np.iinfo(np.int32).max)
    expected = f"1 to {limit} steps"
    remedy = "Steps are counted in 32 bits."
    require(1 <= total <= limit, "num_epochs, num_steps", expected, total, remedy)
    return total

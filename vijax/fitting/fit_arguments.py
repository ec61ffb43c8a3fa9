"""The arguments of `vijax.fit`, checked before anything is compiled."""

from __future__ import annotations

import math
import os
import warnings
from typing import Any

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


def check_not_forked() -> None:
    """Raises RuntimeError in a child forked from a process that has fitted something: it has none
    of the threads that XLA started there, and would wait for them for ever."""
    global _process
    _process = _process or os.getpid()
    if _process != os.getpid():
        raise RuntimeError(
            "vijax.fit: this process was forked from one that had fitted something. XLA may wait "
            "there for ever. "
            "Start processes by multiprocessing.get_context('spawn'), or fork before the first fit."
        )


def warn_of_many_devices(data: Any) -> None:
    """Warns where data are split over devices: a fit computes on one of them."""
    spread = [x.sharding.device_set for x in jax.tree.leaves(data) if isinstance(x, jax.Array)]
    most = max(map(len, spread), default=1)
    if most > 1:
        warnings.warn(
            f"data: they are split over {most} devices, and vijax.fit computes on one; they are "
            "copied. To use "
            f"all {most}: vijax.fit(..., mesh=vijax.scale.mesh({most})) (docs/how-to/devices.md).",
            UserWarning,
            stacklevel=3,
        )


def check_enough(model: Model, loader: Any) -> None:
    """Raises ValueError where nothing can be learnt from arrays: steps that were not seen, say."""
    if model.form.enough is not None and isinstance(loader, ArrayLoader):
        model.form.enough(loader.data)


def warn_of_far_prior(spec: Spec, loader: Any) -> None:
    """Warns where arrays lie far from what the prior of the model expects, unless no prior is
    used."""
    has_prior = not all(estimand.forgets_prior for estimand in spec.estimand.choices())
    if has_prior and isinstance(loader, ArrayLoader):
        warn_of_far_columns(spec.model, loader.data, stacklevel=4)


def usual_words(alg: Algorithm) -> int | None:
    """Number of words that a step should see of documents, for an algorithm of many small steps
    (not all data at once, and steps that decrease). None for other algorithms; 0 for those that
    draw."""
    spec = alg.spec
    if (
        takes_all(alg)
        or spec.messages.num_parts is not None
        or isinstance(spec.step_size, backtracking | by_share)
    ):
        return None
    if spec.step_size(np.asarray(1_000_000, np.int32)) >= 1:  # type: ignore[arg-type]
        return None
    return USUAL_WORDS if all(isinstance(e, mean_field) for e in spec.estimator.choices()) else 0


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
            "batches a pass. "
            "Steps of size one, as of cavi, em and map, forget every batch but the last. For "
            "minibatches use "
            "vijax.svi(model), or decreasing steps: em(model, "
            "step_size=vijax.step_size.robbins_monro()) is online EM."
        )


def _check_parts(num_parts: int, loader: Loader) -> None:
    """Raises ValueError where a loader's batches are not the parts whose messages are
    remembered."""
    fixed = getattr(loader, "is_fixed", False) and loader.steps_per_epoch == num_parts
    expected = (
        f"a loader with is_fixed=True of {num_parts} batches a pass, whose Minibatch.part says "
        "which each is"
    )
    remedy = "Give the data themselves, which vijax.fit cuts into parts."
    require(fixed, "data", expected, f"{type(loader).__name__} of {loader.steps_per_epoch}", remedy)


def check_whole(alg: Algorithm) -> None:
    """Raises ValueError at an algorithm whose steps take batches in parts: a fit gives them whole
    ones."""
    split = [own for own in alg.wrappers if own.splits_batch]
    remedy = (
        "Leave over_axis (axis) out, and give mesh=; or call its step in jax.shard_map in a loop "
        "of your own."
    )
    require(not split, "alg", "an algorithm whose step takes a whole batch", split, remedy)


def check_restarts(restarts: int, state: Any) -> None:
    """Raises ValueError where the number of restarts is not that of the state that a run goes on
    from."""
    require_integers(restarts=restarts)
    if state is None or restarts == (len(state.recent) if isinstance(state, Many) else 1):
        return
    if isinstance(state, Many):
        raise ValueError(f"restarts: expected {len(state.recent)}, as in `state`, got {restarts}.")
    raise ValueError(
        f"restarts: expected 1 where a run goes on from `state`, got {restarts}. Leave one of "
        "them out, or give the "
        "`whole` of a callback's last Progress."
    )


def check_hyper(hyper: Any, model: Model, state: Any) -> None:
    """Raises ValueError on an unknown point of the model, or another shape; and where a state has
    its own."""
    if hyper is None:
        return
    remedy = "They are in state.hyper."
    require(state is None, "hyper", "none where a run goes on from `state`", sorted(hyper), remedy)
    strange = sorted(set(hyper) - set(model.hyper))
    require(not strange, "hyper", f"names among {sorted(model.hyper)}", strange)
    for name, value in hyper.items():
        own, given = (jax.tree.map(jnp.shape, x) for x in (model.hyper[name], value))
        require(own == given, f"hyper[{name!r}]", f"values of the shapes {own}", given)


def num_steps_of(num_epochs: float | None, num_steps: int | None, loader: Loader) -> int:
    """Steps of a run, by passes or by number. Raises ValueError unless one of the two is given and
    makes sense."""
    if (num_epochs is None) == (num_steps is None):
        raise ValueError("num_epochs, num_steps: expected exactly one of the two.")
    if num_steps is not None:
        require_integers(num_steps=num_steps)
        total = int(num_steps)
    else:
        real = isinstance(num_epochs, int | float | np.number) and math.isfinite(num_epochs)
        require(real, "num_epochs", "a positive number of passes", num_epochs)
        remedy = "Nobody knows how long a pass of this source is."
        require(
            loader.num_groups is not None,
            "num_epochs",
            "num_steps in its place",
            num_epochs,
            remedy,
        )
        total = round(float(num_epochs) * loader.steps_per_epoch)  # type: ignore[arg-type]
    most = int(np.iinfo(np.int32).max)
    require(
        1 <= total <= most,
        "num_epochs, num_steps",
        f"1 to {most} steps",
        total,
        "Steps are counted in 32 bits.",
    )
    return total

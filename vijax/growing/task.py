"""The fixed parts of a run of growth (`Task`), and of a number of slots (`Setting`)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from vijax import tree
from vijax.algorithms import cavi
from vijax.checks import require
from vijax.contract.batch import Minibatch
from vijax.contract.model import Model
from vijax.data.loader import as_loader, loader_words
from vijax.families import MarkovChain, Product
from vijax.fitting.loop import stack
from vijax.growing import laps
from vijax.growing.slots import STICKS, Axes, has_counts, slot_axes
from vijax.inference.compose import Algorithm, build_algorithm
from vijax.inference.estep import EStep
from vijax.inference.wrappers.sized import BareData

FEW = 2
"""Components of the smallest model, and pieces into which a birth divides a component at first."""


@dataclasses.dataclass(frozen=True, eq=False)
class Setting:
    """A model with some number of slots.

    Attributes:
      alg: the algorithm of laps.
      prior: the prior of the globals.
    """

    alg: Algorithm
    prior: Product


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """The fixed parts of a run of growth.

    Attributes:
      make: number of slots -> model.
      algorithm: model -> the algorithm of laps.
      batches: all data on the device, along a leading axis, without locals.
      vocabulary: the words of documents, if they are known.
      axes: see `slots.slot_axes`.
      has_topics: the data are documents, and slots are topics.
      is_chain: slots are the states of a chain.
      most: number of slots that is not exceeded.
      laps_each: laps at most that a candidate, or the fit between moves, is given.
      key: random key of laps; no step of these algorithms draws.
    """

    make: Callable[[int], Model]
    algorithm: Callable[[Model], Algorithm]
    batches: Minibatch
    vocabulary: tuple[str, ...] | None
    axes: Axes
    has_topics: bool
    is_chain: bool
    most: int
    laps_each: int
    key: PRNGKeyArray

    def setting(self, size: int) -> Setting:
        """The model with `size` slots."""
        return _make_setting(self.make, self.algorithm, size)

    def small(self, size: int) -> Algorithm:
        """Coordinate ascent of a model with `size` slots."""
        return _make_small(self.make, size)


def prepare(
    make: Callable[[int], Model],
    algorithm: Callable[[Model], Algorithm],
    data: Any,
    size: int,
    most: int,
    laps_each: int,
) -> tuple[Task, Setting]:
    """The task of a run, and the setting of its first number of slots, `size`.

    Raises:
      ValueError: the algorithm or the model is none that `vijax.grow` takes.
    """
    make = functools.cache(make)
    setting = _make_setting(make, algorithm, size)
    spec = setting.alg.spec
    loader = as_loader(data, spec.model, None, 0, spec.messages.num_parts)
    count = loader.steps_per_epoch
    batches = stack(iter(loader.batches(0, count)), count, count)
    batches = jax.tree.map(jax.device_put, batches)
    other_size = FEW + (size == FEW)
    axes = slot_axes(setting.prior, model_prior(_make_small(make, other_size)))
    has_topics = spec.model.form.documents is not None
    task = Task(
        make=make,
        algorithm=algorithm,
        batches=batches,
        vocabulary=loader_words(loader),
        axes=axes,
        has_topics=has_topics,
        is_chain=not has_topics and _is_chain(setting, axes, batches, size),
        most=most,
        laps_each=laps_each,
        key=jax.random.key(0),
    )
    return task, setting


def model_prior(alg: Algorithm) -> Product:
    """The prior of the globals of an algorithm's model."""
    return alg.spec.model.prior(tree.as_arrays(alg.spec.model.hyper))


def all_rows(batches: Minibatch) -> jax.Array:
    """The weights of all rows."""
    return jnp.asarray(batches.weights)


def _make_setting(
    make: Callable[[int], Model], algorithm: Callable[[Model], Algorithm], size: int
) -> Setting:
    alg = algorithm(make(size))
    prior = model_prior(alg)
    _check_algorithm(alg, prior)
    alg = build_algorithm(alg.spec)
    return Setting(alg, prior)


def _make_small(make: Callable[[int], Model], size: int) -> Algorithm:
    return build_algorithm(cavi(make(size)).spec)


def _check_algorithm(alg: Algorithm, prior: Product) -> None:
    spec = alg.spec
    is_process = spec.model.form.documents is None or STICKS in prior
    expected = "a model of rows, or vijax.models.hdp"
    require(is_process, "make", expected, "another model of documents")
    is_wrapped = any(not isinstance(wrapper, BareData) for wrapper in alg.wrappers)
    is_allowed = spec.name in ("cavi", "memoized") and not is_wrapped and not spec.learn
    expected = "vijax.cavi or vijax.memoized, which learn no hyperparameters"
    remedy = "Such as algorithm=lambda model: vijax.memoized(model, num_parts=10)."
    require(is_allowed, "algorithm", expected, spec.name, remedy)
    is_exact = isinstance(spec.estep, EStep) and spec.estep.is_ascent
    expected = "an E-step that ascends, whose bound is exact"
    require(is_exact, "algorithm", expected, repr(spec.estep))


def _is_chain(setting: Setting, axes: Axes, batches: Minibatch, size: int) -> bool:
    """True if slots are the states of a chain.

    Raises:
      ValueError: slots are neither classes of observations nor states.
    """
    law = None
    if has_counts(axes, setting.prior):
        law = laps.class_law(setting.alg, setting.prior, batches)
    number = 0
    if isinstance(law, MarkovChain):
        number = law.num_states
    elif law is not None:
        number = law.num_classes
    require(
        number - size in (0, 1),
        "make",
        f"a model of {size} classes of observations, whose weights have a posterior",
        "another",
        "Such as vijax.models.dp_mixture or mixture.",
    )
    return isinstance(law, MarkovChain)

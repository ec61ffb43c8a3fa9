"""Makes the data and the algorithm that a configuration describes; a `Plan` calls this once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optax

from vijax import algorithms
from vijax.app.catalogue.parts import networks
from vijax.app.catalogue.parts.density_algorithm import DensityAlgorithm
from vijax.app.catalogue.parts.networks import AmortisedAlgorithm, StructuredAlgorithm
from vijax.app.plan.config import Config
from vijax.app.settings.options import make_option
from vijax.app.settings.sections import ProximalAlgorithm
from vijax.app.sources.listing import Data
from vijax.checks import require
from vijax.inference import estimand, learning, step_size
from vijax.inference.compose import Algorithm
from vijax.inference.wrappers.beside import averaged, warm
from vijax.topics import decision

UNIT_STEPS = ("em", "map", "cavi")
"""Algorithms with steps of size one unless a schedule is given."""
FULL_DATA = (*UNIT_STEPS, "pg_svi", "auto", "dadvi", "ngvi", "advi", "bbvi")
"""Algorithms that read all data at each step unless a batch size is given."""


def load_data(config: Config) -> Data:
    """The data of a run, in two parts."""
    return config.listing.source.load(config)


def _compose(model: Any, config: Any, learn: tuple[str, ...]) -> Algorithm:
    optional: dict[str, Any] = {
        "step_size": make_option(config.step_size),
        "damping": config.damping,
    }
    arguments = {name: value for name, value in optional.items() if value is not None}
    arguments["estep"] = make_option(config.estep)
    arguments["learn"] = learn
    if config.ramp is not None and config.name == "ssvi":
        arguments["sweeps_of_ramp"] = config.ramp
    elif config.ramp is not None:
        arguments["ramp"] = step_size.ramp(config.ramp) if config.ramp else None
    points = getattr(config, "points", ())
    if points:
        arguments["estimand"] = dict.fromkeys(points, estimand.mode())
    alg = getattr(algorithms, config.name)(model, **arguments)
    if config.warm_starts:
        alg = warm(alg)
    return _set_words(alg, config)


def _set_words(alg: Algorithm, config: Any) -> Algorithm:
    """The algorithm by words or on all words, as [algorithm] says; unset, `vijax.fit` decides.
    Steps on active topics are by words."""
    lazy = getattr(config, "lazy", None)
    active = getattr(config, "active_topics", None)
    left_out = getattr(config, "left_out", None)
    if lazy is False:
        remedy = "Steps on active topics are by words: leave algorithm.lazy out."
        expected = "none with algorithm.lazy=false"
        require(active is None, "algorithm.active_topics", expected, active, remedy)
    if lazy or active is not None:
        return decision.by_words(alg, active, left_out or 0.0)
    remedy = "Give algorithm.active_topics too, or leave it out."
    expected = "none without algorithm.active_topics"
    require(not left_out, "algorithm.left_out", expected, left_out, remedy)
    if lazy is False and config.name in decision.ROWS:
        return decision.all_words(alg)
    return alg


def _proximal(model: Any, config: Any, learn: tuple[str, ...]) -> Algorithm:
    alg = algorithms.pg_svi(
        model,
        step_size=make_option(config.step_size),
        memory=config.memory,
        inner_steps=config.inner_steps,
        mean=config.mean,
        learn=learning.learn(*learn, optimizer=optax.adam(config.learn_rate)),
    )
    if config.average_after is None:
        return alg
    return averaged(alg, config.average_after)


MAKERS: dict[type, Callable[[Any, Any, tuple[str, ...]], Algorithm]] = {
    ProximalAlgorithm: _proximal,
    DensityAlgorithm: lambda model, config, learn: make_option(config, model),
    AmortisedAlgorithm: networks.algorithm,
    StructuredAlgorithm: networks.algorithm,
}
"""The makers of algorithms by the class of [algorithm]; other sections name rows of
`vijax.algorithms`."""


def make_algorithm(model: Any, section: Any, learn: Any) -> Algorithm:
    """The algorithm that [algorithm] describes, on a model; it learns the points `learn`."""
    return MAKERS.get(type(section), _compose)(model, section, learn)

"""Makes the data and the algorithm that a configuration describes; a `Plan` asks for them once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optax

from vijax import algorithms
from vijax.app.catalogue.parts import networks
from vijax.app.catalogue.parts.density_algorithm import DensityAlgorithm
from vijax.app.catalogue.parts.networks import AmortisedAlgorithm, StructuredAlgorithm
from vijax.app.plan.config import Config
from vijax.app.settings.options import chosen
from vijax.app.settings.sections import ProximalAlgorithm
from vijax.app.sources.listing import Data
from vijax.inference import learning, step_size
from vijax.inference.compose import Algorithm
from vijax.topics import decision

WHOLE = ("em", "map", "cavi")
"""Algorithms whose steps are of size one unless a schedule is given."""
FULL_DATA = (*WHOLE, "pg_svi", "auto", "dadvi", "ngvi", "advi", "bbvi")
"""Algorithms that take the whole data set at each step unless a batch size is given."""


def load_data(config: Config) -> Data:
    """The data of a run, in two parts."""
    return config.listing.source.load(config)


def _composed(model: Any, config: Any, learn: tuple[str, ...]) -> Algorithm:
    lazy, active = getattr(config, "lazy", None), getattr(config, "active_topics", None)
    said: dict[str, Any] = {
        "step_size": chosen(config.step_size),
        "points": getattr(config, "points", ()) or None,
        "warm_starts": config.warm_starts or None,
        "lazy": lazy is not False
        if active is not None
        else lazy
        if lazy or config.name in decision.ROWS
        else None,
        "active_topics": active,
        "left_out": getattr(config, "left_out", None),
        "damping": config.damping,
    }
    arguments = {name: value for name, value in said.items() if value is not None}
    arguments |= {"estep": chosen(config.estep), "learn": learn}
    if config.ramp is not None:
        own = {"ramp": step_size.ramp(config.ramp) if config.ramp else None}
        arguments |= {"sweeps_of_ramp": config.ramp} if config.name == "ssvi" else own
    return getattr(algorithms, config.name)(model, **arguments)


def _proximal(model: Any, config: Any, learn: tuple[str, ...]) -> Algorithm:
    return algorithms.pg_svi(
        model,
        step_size=chosen(config.step_size),
        memory=config.memory,
        inner_steps=config.inner_steps,
        mean=config.mean,
        average_after=config.average_after,
        learn=learning.learn(*learn, optimizer=optax.adam(config.learn_rate)),
    )


MAKERS: dict[type, Callable[[Any, Any, tuple[str, ...]], Algorithm]] = {
    ProximalAlgorithm: _proximal,
    DensityAlgorithm: lambda model, config, learn: chosen(config, model),
    AmortisedAlgorithm: networks.algorithm,
    StructuredAlgorithm: networks.algorithm,
}
"""The makers of algorithms, by the section [algorithm]; those of other sections are rows of
`vijax.algorithms`."""


def make_algorithm(model: Any, section: Any, learn: Any) -> Algorithm:
    """The algorithm that a section [algorithm] describes, on a model, of which it learns the points
    `learn`."""
    return MAKERS.get(type(section), _composed)(model, section, learn)

"""Makes the data and the algorithm that a configuration describes."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from vijax import algorithms
from vijax.app.kinds import networks
from vijax.app.kinds.density_algorithm import DensityAlgorithm, read_by
from vijax.app.kinds.listing import Data
from vijax.app.kinds.networks import AmortisedAlgorithm, StructuredAlgorithm
from vijax.app.kinds.offsets import with_offset
from vijax.app.kinds.sampled import Sampled
from vijax.app.kinds.sampled_documents import SampledDocuments
from vijax.app.settings.config import Config
from vijax.app.settings.options import chosen
from vijax.app.settings.sections import ProximalAlgorithm
from vijax.data.loader import USUAL, USUAL_WORDS, CorpusLoader, as_loader, usual_size
from vijax.data.streams.document_loader import document_loader
from vijax.fitting.restarts import many
from vijax.inference import learning, step_size
from vijax.inference.compose import Algorithm
from vijax.inference.wrappers.sized import takes_all
from vijax.topics import decision

WHOLE = ("em", "map", "cavi")
"""Algorithms whose steps are of size one unless a schedule is given."""
FULL_DATA = (*WHOLE, "pg_svi", "auto", "dadvi", "ngvi", "advi", "bbvi")
"""Algorithms that take the whole data set at each step unless a batch size is given."""


def load_data(config: Config) -> Data:
    """The data of a run, in two parts."""
    return config.listing.source.load(config)


def fingerprint(config: Config, data: Data) -> str:
    """A checksum of the data that a run learns from and is scored on, so that changed data are noticed."""
    digest = hashlib.sha256()
    for piece in config.listing.source.digest(data):
        digest.update(piece)
    return digest.hexdigest()


def fingerprint_of_units(config: Config, data: Data) -> str:
    """A checksum of what standardising takes out of columns, and of the times of rows: a column in another unit, or a
    clock that began at another time, are other data."""
    digest = hashlib.sha256()
    for piece in config.listing.source.units(data):
        digest.update(piece)
    return digest.hexdigest()


def settled(config: Config, data: Data) -> Config:
    """The configuration with what the user has left open: the language that was found, so that new documents are read
    in the same way; the offset of a target; and `algorithm.lazy`, true where steps by words gain."""
    if config.listing.target is not None:
        kind = config.listing.target(config.model)
        config = dataclasses.replace(config, model=with_offset(config.model, kind, data.train))
    if config.listing.reads_documents and config.data.language is None and data.train.language:
        config = dataclasses.replace(config, data=dataclasses.replace(config.data, language=data.train.language))
    if not config.listing.reads_documents or getattr(config.algorithm, "lazy", True) is not None:
        return config
    size, algorithm = batch_size(config, data) or data.whole.num_documents, make_algorithm(config, data)
    is_by_parts = isinstance(data.train, SampledDocuments)
    loader = document_loader(data.whole, size, 0, False) if is_by_parts else CorpusLoader(data.train, size, 0)
    found = decision.settled(algorithm, loader)
    section: Any = dataclasses.replace(config.algorithm, lazy=decision.is_by_words(found))  # type: ignore[call-arg]
    return dataclasses.replace(config, algorithm=section)


def make_algorithm(config: Config, data: Data) -> Algorithm:
    """The algorithm that [model] and [algorithm] describe, for these data."""
    model, learn = config.listing.build(config.model, data), config.listing.learns(config.model, data)
    return MAKERS.get(type(config.algorithm), _composed)(model, config.algorithm, learn)


def _composed(model: Any, config: Any, learn: tuple[str, ...]) -> Algorithm:
    lazy, active = getattr(config, "lazy", None), getattr(config, "active_topics", None)
    said: dict[str, Any] = {
        "step_size": chosen(config.step_size),
        "points": getattr(config, "points", ()) or None,
        "warm_starts": config.warm_starts or None,
        "lazy": lazy is not False if active is not None else lazy if lazy or config.name in decision.ROWS else None,
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
"""The makers of algorithms, by the section [algorithm]; those of other sections are rows of `vijax.algorithms`."""


def training(config: Config, data: Data, model: Any) -> Any:
    """The training data as the model reads them, for `vijax.fit`; of a model that was made for them its own."""
    if model.form.given is not None:
        return model.form.given
    if isinstance(data.train, Sampled):
        return data.train.read_as(config.listing.arrange, config.model)
    if isinstance(data.train, SampledDocuments):
        return data.whole
    return read_by(model, config.listing.arrange(data.train, config.model))


def state_like(config: Config, algorithm: Algorithm, data: Data) -> Any:
    """The shapes of the state of a run, which its checkpoints hold."""
    runs = algorithm if config.fit.restarts == 1 else many(algorithm, config.fit.restarts)
    batch = None
    if state_needs_data(config, algorithm):
        arranged = training(config, data, algorithm.spec.model)
        size = batch_size(config, data)
        batch = next(iter(as_loader(arranged, algorithm.spec.model, size, 0).batches(0, 1)))
    return jax.eval_shape(lambda key: runs.init(key, batch), jax.random.key(0))


def state_needs_data(config: Config, algorithm: Algorithm) -> bool:
    """True where these shapes depend on the data: always, but for models of documents whose state holds no locals."""
    if not config.listing.reads_documents:
        return True
    carries = takes_all(algorithm) and algorithm.spec.model.locals.carried
    return carries or any(own.of_groups for own in algorithm.wrappers)


def num_groups(config: Config, data: Data) -> int:
    """The number of documents, rows or sequences that training reads."""
    if config.listing.reads_documents:
        return int(data.whole.num_documents)
    if isinstance(data.train, Sampled):
        return len(data.train)
    return int(jax.tree.leaves(config.listing.arrange(data.train, config.model))[0].shape[0])


def _check_decreasing(config: Config, size: int, total: int) -> None:
    """Raises ValueError on minibatches under steps that stay at size one: those forget every batch but the last."""
    name = config.algorithm.name
    if size == total or name not in WHOLE:
        return
    schedule = chosen(config.algorithm.step_size) or step_size.constant()
    if schedule(jnp.int32(1_000_000)) >= 1:
        raise ValueError(
            f"fit.batch_size: expected all of the {total} training {config.listing.unit}s for algorithm.name={name}, "
            f"got {size}: its steps of size one forget every batch but the last. Leave fit.batch_size unset, or set "
            "algorithm.name=svi, or algorithm.step_size.name=robbins_monro"
        )


def note_of_batch_size(config: Config, total: int) -> str:
    """A note where there are fewer documents (rows, sequences) than `fit.batch_size`; else empty."""
    size, unit = config.fit.batch_size, config.listing.unit
    if size is None or size <= total:
        return ""
    return f"Note: fit.batch_size is {size}, and there are {total} training {unit}s: every step reads all of them."


def batch_size(config: Config, data: Data) -> int | None:
    """Documents (rows, sequences) per step: as set, or the default of the algorithm; all of them where there are
    fewer."""
    total = num_groups(config, data)
    size = None if config.fit.batch_size is None else min(config.fit.batch_size, total)
    if size is not None:
        _check_decreasing(config, size, total)
        return size
    if config.algorithm.name in FULL_DATA:
        return None
    if config.listing.reads_documents:
        return usual_size(data.whole, USUAL_WORDS if config.algorithm.name == "svi" else 0)
    return min(USUAL, total)

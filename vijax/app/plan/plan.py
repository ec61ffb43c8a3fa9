"""The plan of a run: its settings with its data, and what follows from both."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from vijax.app.catalogue.parts.density_algorithm import model_rows
from vijax.app.plan.assemble import FULL_DATA, UNIT_STEPS, make_algorithm
from vijax.app.plan.config import Config
from vijax.app.settings.options import make_option
from vijax.app.sources.listing import Data
from vijax.app.sources.offsets import with_offset
from vijax.app.sources.sampled import TableSample
from vijax.app.sources.sampled_documents import SampledDocuments
from vijax.data.loader import USUAL, USUAL_WORDS, CorpusLoader, as_loader, usual_size
from vijax.data.streams.document_loader import document_loader
from vijax.fitting.restarts import many
from vijax.inference import step_size
from vijax.inference.compose import Algorithm
from vijax.inference.wrappers.sized import takes_all
from vijax.topics import decision


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """The plan of a run: settings and data, and what follows from both. Each part is made once,
    when it is first asked for, within `config.in_precision()`.

    Attributes:
      config: the settings.
      data: the training and the held-out data.
      made: the model, if another plan of these data has made it.
    """

    config: Config
    data: Data
    made: Any = None

    @functools.cached_property
    def model(self) -> Any:
        """The model that [model] describes, for these data."""
        if self.made is not None:
            return self.made
        return self.config.listing.build_model(self.config, self.data)

    @functools.cached_property
    def algorithm(self) -> Algorithm:
        """The algorithm that [algorithm] describes, on this model."""
        learn = self.config.listing.learns(self.config.model, self.data)
        return make_algorithm(self.model, self.config.algorithm, learn)

    @functools.cached_property
    def training(self) -> Any:
        """The training data as the model reads them; for a model made of its data, its own."""
        model = self.algorithm.spec.model
        if model.form.given is not None:
            return model.form.given
        if isinstance(self.data.train, TableSample):
            return self.data.train.read_as(self.config.listing.arrange, self.config.model)
        if isinstance(self.data.train, SampledDocuments):
            return self.data.whole
        return model_rows(model, self.arrange(self.data.train))

    def arrange(self, part: Any) -> Any:
        """A part of the data as the model reads rows."""
        return self.config.listing.arrange(part, self.config.model)

    @functools.cached_property
    def num_groups(self) -> int:
        """The number of documents, rows or sequences that training reads."""
        if self.config.listing.reads_documents:
            return int(self.data.whole.num_documents)
        if isinstance(self.data.train, TableSample):
            return len(self.data.train)
        return int(jax.tree.leaves(self.arrange(self.data.train))[0].shape[0])

    @functools.cached_property
    def batch_size(self) -> int | None:
        """Documents (rows, sequences) per step: as set, or the default of the algorithm, and at
        most all; None: each step reads all."""
        config = self.config
        if config.fit.batch_size is not None:
            size = min(config.fit.batch_size, self.num_groups)
            _check_decreasing(config, size, self.num_groups)
            return size
        if config.algorithm.name in FULL_DATA:
            return None
        if config.listing.reads_documents:
            return usual_size(self.data.whole, USUAL_WORDS if config.algorithm.name == "svi" else 0)
        return min(USUAL, self.num_groups)

    @property
    def batch_size_note(self) -> str:
        """A note if `fit.batch_size` exceeds the number of documents (rows, sequences); else ""."""
        size = self.config.fit.batch_size
        total = self.num_groups
        if size is None or size <= total:
            return ""
        unit = self.config.listing.unit
        return (
            f"Note: fit.batch_size is {size}, and there are {total} training {unit}s: every step "
            "reads all of them."
        )

    @functools.cached_property
    def steps_per_epoch(self) -> int:
        """Steps in a pass over the training data."""
        if self.batch_size is None:
            return 1
        return max(1, -(-self.num_groups // self.batch_size))

    @functools.cached_property
    def fingerprint(self) -> str:
        """A checksum of the training and held-out data, by which changed data are noticed."""
        return _checksum(self.config.listing.source.digest(self.data))

    @functools.cached_property
    def units_fingerprint(self) -> str:
        """A checksum of what standardising takes out of columns, and of the times of rows: a column
        in another unit, or a clock with another start, makes other data."""
        return _checksum(self.config.listing.source.units(self.data))

    @property
    def state_needs_data(self) -> bool:
        """True if the shapes of a state depend on the data: false only for models of documents
        whose state holds no locals."""
        if not self.config.listing.reads_documents:
            return True
        carries = takes_all(self.algorithm) and self.algorithm.spec.model.locals.carried
        return carries or any(wrapper.of_groups for wrapper in self.algorithm.wrappers)

    def start_batch(self) -> Any:
        """The first batch of training; None where a state does not depend on the data."""
        if not self.state_needs_data:
            return None
        loader = as_loader(self.training, self.algorithm.spec.model, self.batch_size, 0)
        return next(iter(loader.batches(0, 1)))

    def state_like(self, algorithm: Algorithm) -> Any:
        """The shapes of the state of an algorithm, by which checkpoints are read. `algorithm` is
        the plan's, or the algorithm of the mixture that a run has kept."""
        restarts = self.config.fit.restarts
        runs = algorithm if restarts == 1 else many(algorithm, restarts)
        batch = self.start_batch()
        return jax.eval_shape(lambda key: runs.init(key, batch), jax.random.key(0))


def complete_plan(config: Config, data: Data) -> Plan:
    """The plan of a new run, with what the user has left open: the language that was detected, so
    that new documents are read alike; the offset of a target; and `algorithm.lazy`, true if steps
    by words are faster."""
    listing = config.listing
    if listing.target is not None:
        kind = listing.target(config.model)
        config = dataclasses.replace(config, model=with_offset(config.model, kind, data.train))
    if listing.reads_documents and config.data.language is None and data.train.language:
        documents = dataclasses.replace(config.data, language=data.train.language)
        config = dataclasses.replace(config, data=documents)
    plan = Plan(config, data)
    if not listing.reads_documents or getattr(config.algorithm, "lazy", True) is not None:
        return plan
    lazy = _is_faster_by_words(plan)
    section: Any = dataclasses.replace(config.algorithm, lazy=lazy)  # type: ignore[call-arg]
    return Plan(dataclasses.replace(config, algorithm=section), data, plan.model)


def _is_faster_by_words(plan: Plan) -> bool:
    """True if steps by words cost less."""
    data = plan.data
    size = plan.batch_size or data.whole.num_documents
    loader: Any
    if isinstance(data.train, SampledDocuments):
        loader = document_loader(data.whole, size, 0, False)
    else:
        loader = CorpusLoader(data.train, size, 0)
    return decision.is_by_words(decision.choose_steps(plan.algorithm, loader))


def _check_decreasing(config: Config, size: int, total: int) -> None:
    """Raises ValueError on minibatches with steps of size one: only the last batch would count."""
    name = config.algorithm.name
    if size == total or name not in UNIT_STEPS:
        return
    schedule = make_option(config.algorithm.step_size) or step_size.constant()
    if schedule(jnp.int32(1_000_000)) >= 1:
        raise ValueError(
            f"fit.batch_size: expected all of the {total} training {config.listing.unit}s for "
            f"algorithm.name={name}, got {size}: its steps of size one forget every batch but the "
            "last. Leave fit.batch_size unset, or set algorithm.name=svi, or "
            "algorithm.step_size.name=robbins_monro"
        )


def _checksum(pieces: Iterator[Any]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()

"""The start of a run with `model.grow`: births, merges and deletes of components, before the steps
of the algorithm."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from vijax import tree
from vijax.app.plan.config import Config, ConfigError
from vijax.app.plan.plan import Plan
from vijax.fitting.status import Status
from vijax.growing.grow import grow
from vijax.growing.proposals import Proposal
from vijax.inference.compose import initial_state

HOLD = {"num_components": "rows", "num_states": "steps", "num_topics": "words"}
"""Settings that are the number of slots; what slots hold."""


def check(config: Config) -> None:
    """Raises ConfigError at settings that do not go with it."""
    if not getattr(config.model, "grow", False):
        return
    if config.algorithm.name != "cavi":
        raise ConfigError(
            f"algorithm.name: expected cavi with model.grow, got {config.algorithm.name}"
        )
    if getattr(config.model, "seed_words", ()):
        raise ConfigError(
            "model.seed_words: expected none with model.grow, whose topics are born without them"
        )
    if config.fit.restarts != 1:
        raise ConfigError(f"fit.restarts: expected 1 with model.grow, got {config.fit.restarts}")


def first_state(plan: Plan, say: Any) -> Any:
    """The state from which a run begins; None without `model.grow`. Moves that are accepted are
    said."""
    config = plan.config
    if not getattr(config.model, "grow", False):
        return None
    (things,) = (name for name in HOLD if hasattr(config.model, name))
    size, key = (
        getattr(config.model, things),
        jax.random.fold_in(jax.random.key(config.fit.seed), 2),
    )

    def make(number: int) -> Any:
        return config.listing.build(
            dataclasses.replace(config.model, **{things: number}), plan.data
        )

    def told(proposal: Proposal) -> None:
        if proposal.accepted and proposal.components:
            say(f"Moves: {proposal}")

    fit = grow(make, plan.training, key=key, slots=size, most=size, callbacks=[told])
    if fit.status is Status.INTERRUPTED:
        raise KeyboardInterrupt  # nothing is saved yet
    say(
        f"Moves: {fit.trace['in_use'][-1]} {things.removeprefix('num_')} of {size} hold "
        f"{HOLD[things]}"
    )
    spec = plan.algorithm.spec
    return initial_state(spec, tree.as_arrays(spec.model.hyper), fit.posterior)

"""The start of a run with `model.grow`: births, merges and deletes before the first step."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from vijax.app.plan.config import Config, ConfigError
from vijax.app.plan.plan import Plan
from vijax.fitting.status import Status
from vijax.growing.grow import grow, state_at
from vijax.growing.proposals import Proposal

HOLD = {"num_components": "rows", "num_states": "steps", "num_topics": "words"}
"""What a slot holds, by the setting that is the number of slots."""


def check(config: Config) -> None:
    """Raises a ConfigError on settings that `model.grow` excludes."""
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
    """The state from which a run starts; None without `model.grow`. Says the accepted moves."""
    config = plan.config
    if not getattr(config.model, "grow", False):
        return None
    (setting_name,) = (name for name in HOLD if hasattr(config.model, name))
    size = getattr(config.model, setting_name)
    key = jax.random.fold_in(jax.random.key(config.fit.seed), 2)

    def make(number: int) -> Any:
        settings = dataclasses.replace(config.model, **{setting_name: number})
        return config.listing.build_model(config, plan.data, settings)

    def report(proposal: Proposal) -> None:
        if proposal.accepted and proposal.components:
            say(f"Moves: {proposal}")

    fit = grow(make, plan.training, key=key, slots=size, most=size, callbacks=[report])
    if fit.status is Status.INTERRUPTED:
        raise KeyboardInterrupt  # nothing is saved yet
    say(
        f"Moves: {fit.trace['in_use'][-1]} {setting_name.removeprefix('num_')} of {size} hold "
        f"{HOLD[setting_name]}"
    )
    return state_at(plan.algorithm.spec, fit.posterior)

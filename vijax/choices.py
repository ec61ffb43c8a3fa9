"""What `compose` refuses: things that are no model or E-step, and models that a message leaves undetermined."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import Any

import jax.numpy as jnp

from vijax.families.base import require
from vijax.families.domain import is_proper
from vijax.message import MessageRule
from vijax.model import Model


def check_model(model: Any) -> None:
    """Raises ValueError where it is no `vijax.Model`, with what serves instead."""
    from vijax.models.predictors import PredictorModel

    remedy = (
        "Models of Gaussian predictors are fitted by vijax.pg_svi(model)." if isinstance(model, PredictorModel) else ""
    )
    require(isinstance(model, Model), "model", "a vijax.Model", type(model).__name__, remedy)


def check_estep(model: Model, estep: Any) -> None:
    """Raises ValueError where it is not of the kind that the model reads."""
    if estep is None:
        return
    ours = "vijax.estep.mean_field() or vijax.estep.gibbs()"
    remedy = "Call it: it makes the E-step." if callable(estep) else ""
    require(
        not isinstance(estep, str) and not callable(estep), "estep", f"an E-step such as {ours}", repr(estep), remedy
    )
    if model.energy is not None:
        serves = callable(getattr(estep, "conditionals", None))
        require(serves, "estep", f"one for the locals of an energy, {ours}", estep)


def check_names(given: Iterable[str], known: Collection[str]) -> None:
    """Raises TypeError at an argument that no algorithm has, with the nearest that there is."""
    for name in given:
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        raise TypeError(f"{name}: an algorithm takes no such argument.{hint} It takes: {', '.join(sorted(known))}.")


def check_message(model: Model, message: MessageRule) -> None:
    """Raises ValueError where a message forgets priors without which the model has no one answer."""
    hierarchical = message.forgets_prior and model.global_elbo is not None
    remedy = "Without their priors the upper globals have no data: use map."
    require(not hierarchical, "message", "one that keeps the priors of a hierarchical model", message.name, remedy)
    _check_determined(model, message)


def _check_determined(model: Model, message: MessageRule) -> None:
    """ValueError where a global that needs its prior would lose it."""
    if not (model.needs_prior and message.forgets_prior):
        return
    left = message.prior(model.prior({name: jnp.asarray(value) for name, value in model.hyper.items()}))
    lost = [name for name in model.needs_prior if not is_proper(left[name])]
    remedy = "The likelihood has no one maximum in them: use map."
    require(not lost, "message", f"one that keeps the priors of {list(model.needs_prior)}", message.name, remedy)

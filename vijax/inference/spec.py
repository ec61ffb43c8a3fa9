"""The choices an algorithm is composed of."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from vijax.contract import describe
from vijax.contract.model import Hyper, Model
from vijax.contract.per_variable import PerVariable
from vijax.families import Family, Product
from vijax.inference.estep import EStep
from vijax.inference.estimand import Estimand
from vijax.inference.estimator import Estimator, Reads, at_point
from vijax.inference.estimator.base import NOTHING
from vijax.inference.expectation.scalar import Sampled
from vijax.inference.step_size import Ramp, Schedule, backtracking, by_share
from vijax.inference.update import Update

StepSize = Schedule | backtracking | by_share
Blocks = tuple[tuple[str, ...], ...]


class Spec(NamedTuple):
    """The choices an algorithm is composed of, for whoever wants to read them."""

    name: str
    model: Model
    estimand: PerVariable[Estimand]
    estimator: PerVariable[Estimator]
    update: PerVariable[Update]
    estep: Any
    step_size: StepSize
    ramp: Ramp
    learn: tuple[str, ...]
    optimizer: optax.GradientTransformation | None
    blocks: Blocks | None
    penalty_every: int
    messages: Any

    def __repr__(self) -> str:
        return describe.spec_text(self)

    def is_point(self, name: str) -> bool:
        """True where only a point is sought of a global."""
        return self.estimand.choice(name).is_point

    @property
    def draws(self) -> bool:
        """True where the objective has the noise of draws, on the same data too."""
        names = list(jax.eval_shape(self.model.prior, dict(self.model.hyper)))
        drawn = any(estimator.draws for estimator in self.estimators(names).values())
        return (
            drawn
            or isinstance(self.estep, Sampled)
            or (isinstance(self.estep, EStep) and self.estep.draws)
        )

    def prior(self, hyper: Hyper) -> Product:
        """The distributions towards which a step pulls."""
        prior = self.model.prior(hyper)
        return prior.replace(
            {name: self.estimand.choice(name).prior(p) for name, p in prior.items()}
        )

    def start(self, hyper: Hyper) -> Product:
        """The prior from which the model starts."""
        prior = self.model.prior(hyper)
        return prior.replace(
            {name: self.estimand.choice(name).start(p) for name, p in prior.items()}
        )

    def penalty(self, posterior: Mapping[str, Family], hyper: Hyper) -> Float[Array, ""]:
        """The number that the objective subtracts from the bound of the data."""
        prior = self.model.prior(hyper)
        terms = [
            self.estimand.choice(name).penalty(q, prior[name]) for name, q in posterior.items()
        ]
        return functools.reduce(jnp.add, terms) if terms else jnp.zeros(())

    def point(self, posterior: Product, reads: Mapping[str, Reads] = NOTHING) -> dict[str, Any]:
        """Statistics at which the model is evaluated without noise; only some entries of globals in
        `reads`."""
        point = lambda name, q: (
            q.entries(reads[name].rows) if name in reads else self.estimand.choice(name).point(q)
        )
        return {name: point(name, q) for name, q in posterior.items()}

    def estimators(self, names: Any) -> dict[str, Estimator]:
        """The estimator of each global: at a point where no more is sought, but for those that move
        points."""

        def rule(name: str) -> Estimator:
            chosen = self.estimator.choice(name)
            plain = self.is_point(name) and not (chosen and chosen.for_points)
            return at_point(self.estimand.choice(name)) if plain else chosen

        return {name: rule(name) for name in names}

"""`Spec`, the choices an algorithm is composed of."""

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
from vijax.inference.expectation.scalar import MonteCarlo
from vijax.inference.step_size import Ramp, Schedule, backtracking, by_share
from vijax.inference.update import Update

StepSize = Schedule | backtracking | by_share
Blocks = tuple[tuple[str, ...], ...]


class Spec(NamedTuple):
    """The choices an algorithm is composed of."""

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
        """True if the aim for a global is a point."""
        return self.estimand.choice(name).is_point

    @property
    def draws(self) -> bool:
        """True if the objective has the noise of draws, even on the same data."""
        names = list(jax.eval_shape(self.model.prior, dict(self.model.hyper)))
        if any(estimator.draws for estimator in self.estimators(names).values()):
            return True
        if isinstance(self.estep, MonteCarlo):
            return True
        return isinstance(self.estep, EStep) and self.estep.draws

    def prior(self, hyper: Hyper) -> Product:
        """The distributions that a step pulls towards."""
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

    def penalty(
        self, posterior: Mapping[str, Family], hyper: Hyper, memory: Mapping[str, Any] | None = None
    ) -> Float[Array, ""]:
        """The number that the objective subtracts from the bound of the data; with the memory of
        the updates also what these subtract."""
        prior = self.model.prior(hyper)
        terms = [
            self.estimand.choice(name).penalty(q, prior[name]) for name, q in posterior.items()
        ]
        if memory is not None:
            terms += [
                self.update.choice(name).penalty(q, memory[name])
                for name, q in posterior.items()
                if self.update.choice(name).is_penalised
            ]
        return functools.reduce(jnp.add, terms) if terms else jnp.zeros(())

    def point(self, posterior: Product, reads: Mapping[str, Reads] = NOTHING) -> dict[str, Any]:
        """The statistics at which the model is evaluated without noise. A global in `reads` has
        only the entries that the batch reads."""

        def stats(name: str, q: Any) -> Any:
            if name in reads:
                return q.entries(reads[name].rows)
            return self.estimand.choice(name).point(q)

        return {name: stats(name, q) for name, q in posterior.items()}

    def estimators(self, names: Any) -> dict[str, Estimator]:
        """The estimator of each global. If the aim is a point it is `at_point`, unless the chosen
        estimator moves points."""

        def estimator(name: str) -> Estimator:
            choice = self.estimator.choice(name)
            if self.is_point(name) and not (choice and choice.for_points):
                return at_point(self.estimand.choice(name))
            return choice

        return {name: estimator(name) for name in names}

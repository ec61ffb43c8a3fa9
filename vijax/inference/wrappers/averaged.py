"""The mean of the posteriors of many steps (Polyak averaging), in natural parameters."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from vijax import tree
from vijax.checks import require_integers
from vijax.families import Product
from vijax.inference.compose import Algorithm
from vijax.inference.state import Info, State
from vijax.inference.wrappers.wrapper import Wrapper, wrap


def averaged(alg: Algorithm, after: int) -> Algorithm:
    """An algorithm that keeps the mean of the posteriors of the steps from `after` on, for `Fit.average`.

    Args:
      alg: the algorithm.
      after: the first step that counts.

    Raises:
      ValueError: `after` is below 0, or the state does not hold the globals as they are (`vijax.topics.by_words`).

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> model = vi.density({"x": vi.free()}, lambda v: -0.5 * (v["x"] - 3.0) ** 2)
    >>> fit = vi.fit(averaged(vi.advi(model), after=500), num_steps=1500, key=jax.random.key(0))
    >>> print(fit.average["free"].mean().round(0))
    [3.]
    """
    return wrap(alg, Averaged(after))


@dataclasses.dataclass(frozen=True)
class Averaged(Wrapper):
    """The wrapper of `averaged`."""

    name: ClassVar[str] = "averaged"
    of_globals: ClassVar[bool] = True

    after: int

    def check(self, alg: Algorithm) -> None:
        """See `Wrapper`."""
        require_integers(0, after=self.after)

    def init(self, alg: Algorithm, key: PRNGKeyArray, batch: Any, hyper: Any) -> State:
        """See `Wrapper`."""
        state = alg.init(key, batch, hyper)
        return state.with_beside(self.name, tree.scale(0.0, _bare(state.posterior)))

    def step(self, alg: Algorithm, key: PRNGKeyArray, state: State, batch: Any) -> tuple[State, Info]:
        """See `Wrapper`."""
        mean = self.memory(state)
        new, info = alg.step(key, state, batch)
        count = jnp.maximum(state.step - self.after + 1, 1).astype(state.step_size.dtype)
        return new.with_beside(self.name, tree.mix(1.0 / count, mean, _bare(new.posterior))), info


def _bare(q: Product) -> Product:
    """Without its context: a kernel is as large as all else, and the posterior has it."""
    return q.with_context(dict.fromkeys(q))

"""Wrappers that say how many groups there are, so that a step takes bare data and not a `Minibatch`
alone."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from jaxtyping import PRNGKeyArray

from vijax.checks import require_positive
from vijax.contract.batch import Minibatch, is_whole
from vijax.contract.intake import cast_data
from vijax.inference.compose import Algorithm
from vijax.inference.state import Info, State
from vijax.inference.wrappers.wrapper import Wrapper, find_wrapper, wrap


def whole(alg: Algorithm) -> Algorithm:
    """An algorithm whose step takes bare data as the whole data set, the same at every step.

    So its E-step goes on from where it was, where a model's locals are worth keeping
    (`Model.keeps_local`): coordinate ascent never loses ground. The rows `em`, `map`, `cavi` and
    `pg_svi` do so by themselves.

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> coin = vi.model(
    ...     prior={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)},
    ...     local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    ... )
    >>> alg = whole(vi.compose(coin, step_size=vi.step_size.constant()))
    >>> state, _ = alg.step(jax.random.key(1), alg.init(jax.random.key(0)), jnp.array([1.0, 1.0, 0.0, 1.0]))
    >>> float(state.posterior["bias"].alpha), float(state.posterior["bias"].beta)
    (4.0, 2.0)
    """
    return wrap(alg, Sized(None))


def part_of(alg: Algorithm, num_groups: float) -> Algorithm:
    """An algorithm whose step takes bare data as some of `num_groups` groups; short:
    `vijax.svi(model, num_groups=N)`.

    Raises:
      ValueError: `num_groups` is no positive number.
    """
    require_positive(num_groups=num_groups)
    return wrap(alg, Sized(num_groups))


def takes_all(alg: Algorithm) -> bool:
    """True where the algorithm takes bare data as the whole data set."""
    sized = find_wrapper(alg, Sized)
    return sized is not None and sized.num_groups is None


@dataclasses.dataclass(frozen=True, repr=False)
class Sized(Wrapper):
    """The wrapper of `whole` and `part_of`: N of bare data, None where they are all there is."""

    name: ClassVar[str] = "sized"

    num_groups: float | None

    def __repr__(self) -> str:
        return "whole()" if self.num_groups is None else f"part_of({self.num_groups})"

    def init(self, alg: Algorithm, key: PRNGKeyArray, batch: Any, hyper: Any) -> State:
        """See `Wrapper`. Locals are carried where every batch is the same, the whole set; those of
        other groups would be no start."""
        given, model = None if batch is None else self._given(alg, batch), alg.spec.model
        state = alg.init(key, given, hyper)
        carries = (
            self.num_groups is None and model.locals.carried and model.locals.start is not None
        )
        if not carries or not isinstance(given, Minibatch) or not is_whole(given):
            return state
        read = given._replace(data=cast_data(model, given.data))
        return state._replace(local=model.locals.start(state.hyper, read))  # type: ignore[misc]

    def step(
        self, alg: Algorithm, key: PRNGKeyArray, state: State, batch: Any
    ) -> tuple[State, Info]:
        return alg.step(key, state, self._given(alg, batch))

    def _given(self, alg: Algorithm, batch: Any) -> Any:
        """Bare data with their size; those of one group are all there is anyway."""
        bare = not isinstance(batch, Minibatch) and not alg.spec.model.form.one_group
        return Minibatch(batch, self.num_groups) if bare else batch

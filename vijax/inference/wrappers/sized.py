"""Wrappers that know the number of groups, so that a step takes bare data beside a `Minibatch`."""

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

    If the locals of a model are worth keeping (`Model.locals.carried`), its E-step continues from
    those of the last step, so coordinate ascent never loses ground. `em`, `map`, `cavi` and
    `pg_svi` do this by themselves.

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> coin = vi.model(
    ...     prior={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)},
    ...     local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    ... )
    >>> alg = whole(vi.compose(coin, step_size=vi.step_size.constant()))
    >>> tosses = jnp.array([1.0, 1.0, 0.0, 1.0])
    >>> state, _ = alg.step(jax.random.key(1), alg.init(jax.random.key(0)), tosses)
    >>> float(state.posterior["bias"].alpha), float(state.posterior["bias"].beta)
    (4.0, 2.0)
    """
    return wrap(alg, BareData(None))


def part_of(alg: Algorithm, num_groups: float) -> Algorithm:
    """An algorithm whose step takes bare data as some of `num_groups` groups. The short form is
    `vijax.svi(model, num_groups=N)`.

    Raises:
      ValueError: `num_groups` is no positive number.
    """
    require_positive(num_groups=num_groups)
    return wrap(alg, BareData(num_groups))


def takes_all(alg: Algorithm) -> bool:
    """True if the algorithm takes bare data as the whole data set."""
    wrapper = find_wrapper(alg, BareData)
    return wrapper is not None and wrapper.num_groups is None


@dataclasses.dataclass(frozen=True, repr=False)
class BareData(Wrapper):
    """The wrapper of `whole` and `part_of`: N for bare data; None if they are the whole data
    set."""

    name: ClassVar[str] = "sized"

    num_groups: float | None

    def __repr__(self) -> str:
        return "whole()" if self.num_groups is None else f"part_of({self.num_groups})"

    def init(self, alg: Algorithm, key: PRNGKeyArray, batch: Any, hyper: Any) -> State:
        """See `Wrapper`. The state carries locals only if every batch is the whole data set:
        locals of other groups would be no start."""
        model = alg.spec.model
        if batch is not None:
            batch = self._with_size(alg, batch)
        state = alg.init(key, batch, hyper)
        start = model.locals.start
        if self.num_groups is not None or not model.locals.carried or start is None:
            return state
        if not isinstance(batch, Minibatch) or not is_whole(batch):
            return state
        batch = batch._replace(data=cast_data(model, batch.data))
        return state._replace(local=start(state.hyper, batch))

    def step(
        self, alg: Algorithm, key: PRNGKeyArray, state: State, batch: Any
    ) -> tuple[State, Info]:
        return alg.step(key, state, self._with_size(alg, batch))

    def _with_size(self, alg: Algorithm, batch: Any) -> Any:
        """Bare data as a minibatch that knows N. Data of one group need no N."""
        if isinstance(batch, Minibatch) or alg.spec.model.form.one_group:
            return batch
        return Minibatch(batch, self.num_groups)

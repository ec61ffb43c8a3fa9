"""Algorithms whose batch is split over the devices of a mesh axis: each device reads its own
groups.

The step is the ordinary one, for a model whose bound is `gathered(local_elbo(spread(stats),
spread(hyper)))`:

    spread    every device has it whole; its gradient is the sum of theirs
    gathered  the sum of what the devices have; its gradient is what comes in

(f and g of Shoeybi et al. 2019.) So value and gradient are those of all groups on every device, and
the step knows nothing of devices."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from vijax.checks import require
from vijax.contract.batch import Minibatch
from vijax.contract.model import LocalElbo, Model
from vijax.inference.bound import first_bad
from vijax.inference.compose import Algorithm, build_algorithm
from vijax.inference.estimator.base import Entries, as_entries
from vijax.inference.state import Info, State
from vijax.inference.step_size import by_share
from vijax.inference.wrappers.by_row import bound_by_row, draws_locals
from vijax.inference.wrappers.wrapper import Wrapper, wrap
from vijax.xla.by_value import cache_by_value


def over_axis(alg: Algorithm, name: str) -> Algorithm:
    """An algorithm whose step reads, on each device along a mesh axis, some of the groups of a
    batch.

    The step runs inside `jax.shard_map`: key and state whole on every device, the batch split, N
    given (`Minibatch.num_groups`). Its results are the same on every device, but for
    `Info.per_group` and locals, which are each device's own: where a state has locals,
    `State.local` is split as the batch is. Start outside, `init(key, batch)` on the whole batch: a
    start may depend on the data. Locals are drawn row by row, by the key of the step and the
    group's row (`Minibatch.rows`, or its place in the batch), so that draws do not depend on the
    number of devices. `vijax.fit(..., mesh=)` does all of this by itself.

    Args:
      alg: the algorithm; those in wrappers that keep something of single groups, or of words, are
          refused.
      name: name of the mesh axis.

    Raises:
      ValueError: a name that is none, or a model whose data are one group.

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> coin = vi.model(
    ...     prior={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)},
    ...     local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    ... )
    >>> alg = over_axis(vi.cavi(coin), "data")
    >>> step = jax.jit(jax.vmap(alg.step, in_axes=(None, None, 0), axis_name="data"))  # in the place of two devices
    >>> parts = jnp.array([[1.0, 1.0], [0.0, 1.0]])
    >>> states, _ = step(jax.random.key(0), alg.init(jax.random.key(0)), parts)
    >>> states.posterior["bias"].alpha.tolist(), states.posterior["bias"].beta.tolist()
    ([4.0, 4.0], [2.0, 2.0])
    """
    require(
        isinstance(alg, Algorithm),
        "alg",
        "an algorithm such as vijax.svi(model)",
        type(alg).__name__,
    )
    require(isinstance(name, str), "axis", "the name of a mesh axis", repr(name))
    remedy = (
        "Write the density by groups, vijax.density(variables, log_prior=..., log_lik=...), or "
        "leave axis out."
    )
    expected = "a model whose data are groups"
    require(
        not alg.spec.model.form.one_group, "axis", expected, "one whose data are one group", remedy
    )
    step_size = alg.spec.step_size
    if isinstance(step_size, by_share):
        step_size = _ByShareOfAll(step_size.whole, step_size.part, name)
    over = build_algorithm(
        alg.spec._replace(model=_split(alg.spec.model, name), step_size=step_size)
    )
    for wrapper in (OverAxis(name), *alg.wrappers):
        over = wrap(over, wrapper)
    return over


@dataclasses.dataclass(frozen=True)
class OverAxis(Wrapper):
    """The wrapper of `over_axis`: it counts the first group that is not finite in the whole
    batch."""

    name: ClassVar[str] = "over_axis"
    splits_batch: ClassVar[bool] = True

    axis: str

    def step(
        self, alg: Algorithm, key: PRNGKeyArray, state: State, batch: Any
    ) -> tuple[State, Info]:
        given = batch if isinstance(batch, Minibatch) else Minibatch(batch, None)
        self._check_local(state.local, given.data)
        new, info = alg.step(key, state, batch)
        return new, info._replace(bad_group=self._first_bad(alg.spec.model, info.per_group, given))

    def _first_bad(self, model: Model, per_group: Any, batch: Minibatch) -> Array:
        """The first group of the whole batch whose bound is not finite, from that of each device;
        -1 is none."""
        place = first_bad(per_group, batch.weights)
        if not isinstance(per_group, jax.Array):
            return place
        most, here = (
            jnp.iinfo(jnp.int32).max,
            place + per_group.size * jax.lax.axis_index(self.axis),
        )
        if model.by_entry is not None:
            sites = as_entries(next(iter(model.by_entry.reads(batch).values())), batch).rows
            here = sites[here].astype(jnp.int32)
        least = jax.lax.pmin(jnp.where(place < 0, most, here), self.axis)
        return jnp.where(least == most, -1, least)

    def _check_local(self, local: PyTree, data: PyTree) -> None:
        """Raises ValueError where a device has the locals of other groups than those of its part of
        the batch."""
        if local is None:
            return
        kept, here = (jnp.shape(jax.tree.leaves(x)[0])[0] for x in (local, data))
        expected = f"locals of the {here} groups that this device has of the batch"
        remedy = (
            "Split State.local over the axis, as the data: specs = jax.tree.map(lambda _: P(), "
            "state), and then "
            f"specs._replace(local=P({self.axis!r})) for the state in in_specs and out_specs."
        )
        require(kept == here, "state", expected, f"State.local of {kept}", remedy)


@dataclasses.dataclass(frozen=True, repr=False)
class _ByShareOfAll(by_share):
    """The rule for the share of the data that all devices read."""

    axis: str

    def choose(self, share: float) -> Any:
        return super().choose(share * jax.lax.psum(1, self.axis))


# --- the model of split groups --------------------------------------------------------------------
@cache_by_value
def _split(model: Model, name: str) -> Model:
    """The model, its groups split over an axis."""
    by_entry = model.by_entry
    if by_entry is not None:
        by_entry = dataclasses.replace(by_entry, reads=functools.partial(_reads, model, name))  # type: ignore[arg-type]
    return dataclasses.replace(
        model, local_elbo=functools.partial(_local_elbo, model, name), by_entry=by_entry
    )


def _local_elbo(
    model: Model, name: str, hyper: Any, stats: Any, batch: Minibatch, key: PRNGKeyArray, estep: Any
) -> LocalElbo:
    """`Model.local_elbo` of the groups of all devices."""
    hyper, stats = _spread(name, hyper), _with_own_entries(model, name, _spread(name, stats), batch)
    if draws_locals(model, hyper, stats, batch, key, estep):
        own = () if model.by_entry is None else model.by_entry.reads(batch)
        said = bound_by_row(model, hyper, stats, batch, key, estep, jax.lax.axis_index(name), own)
    else:
        said = model.local_elbo(hyper, stats, batch, key, estep)
    counts = {"num_groups": said.num_groups, "said": said.said, "retractions": said.retractions}
    return said._replace(
        total=_gathered(name, said.total), **jax.lax.psum(jax.lax.stop_gradient(counts), name)
    )


def _reads(model: Model, name: str, batch: Minibatch) -> dict[str, Entries]:
    """`ByEntry.reads` of all devices."""
    assert model.by_entry is not None
    gather = functools.partial(jax.lax.all_gather, axis_name=name, tiled=True)
    return {
        of: Entries(*map(gather, as_entries(some, batch)))
        for of, some in model.by_entry.reads(batch).items()
    }


def _with_own_entries(
    model: Model, name: str, stats: Mapping[str, Any], batch: Minibatch
) -> dict[str, Any]:
    """Statistics, with those entries of a global that this device reads."""
    if model.by_entry is None:
        return dict(stats)
    here = jax.lax.axis_index(name)

    def own(stats: Any, size: int) -> Any:
        return jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, here * size, size), stats)

    found = {
        of: own(stats[of], jnp.shape(some)[0]) for of, some in model.by_entry.reads(batch).items()
    }
    return {**stats, **found}


# --- values and gradients over devices ------------------------------------------------------------
def _spread(name: str, x: PyTree) -> PyTree:
    real = lambda leaf: jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
    return jax.tree.map(lambda leaf: _spread_one(name, leaf) if real(leaf) else leaf, x)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _spread_one(name: str, x: Any) -> Any:
    return x


_spread_one.defvjp(lambda name, x: (x, None), lambda name, _, g: (jax.lax.psum(g, name),))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _gathered(name: str, x: Any) -> Any:
    return jax.lax.psum(x, name)


_gathered.defvjp(lambda name, x: (jax.lax.psum(x, name), None), lambda name, _, g: (g,))

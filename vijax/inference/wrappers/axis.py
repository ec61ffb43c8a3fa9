"""Algorithms whose batch is split over the devices of a mesh axis: each device reads its own
groups.

The step is the ordinary step, for a model with the bound `sum_devices(local_elbo(replicate(stats),
replicate(hyper)))`:

    replicate    the identity; its gradient is the sum of the gradients of all devices
    sum_devices  the sum over devices; its gradient is the identity

(f and g of Shoeybi et al. 2019.) So on every device the value and the gradient are those of all
groups, and the step does not depend on devices."""

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
from vijax.inference.wrappers.wrapper import Wrapper, check_algorithm, wrap
from vijax.xla.by_value import cache_by_value


def over_axis(alg: Algorithm, name: str) -> Algorithm:
    """An algorithm whose step reads some of the groups of a batch on each device along a mesh axis.

    The step runs inside `jax.shard_map`: key and state are whole on every device, the batch is
    split, and N is given (`Minibatch.num_groups`). Its results are the same on every device, except
    `Info.per_group` and locals: if a state has locals, `State.local` is split as the batch is. Call
    `init(key, batch)` outside, with the whole batch, because a start may depend on the data. Locals
    are drawn row by row, by the key of the step and the row of the group (`Minibatch.rows`, or its
    index in the batch), so draws do not depend on the number of devices. `vijax.fit(..., mesh=)`
    does all of this by itself.

    Args:
      alg: the algorithm; an algorithm in a wrapper that keeps something for single groups, or for
        words, is refused.
      name: name of the mesh axis.

    Raises:
      ValueError: the name is no text, or the data of the model are one group.

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> coin = vi.model(
    ...     prior={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)},
    ...     local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    ... )
    >>> alg = over_axis(vi.cavi(coin), "data")
    >>> step = jax.jit(jax.vmap(alg.step, in_axes=(None, None, 0), axis_name="data"))
    >>> parts = jnp.array([[1.0, 1.0], [0.0, 1.0]])  # vmap over two rows stands for two devices
    >>> states, _ = step(jax.random.key(0), alg.init(jax.random.key(0)), parts)
    >>> states.posterior["bias"].alpha.tolist(), states.posterior["bias"].beta.tolist()
    ([4.0, 4.0], [2.0, 2.0])
    """
    check_algorithm(alg)
    require(isinstance(name, str), "name", "the name of a mesh axis", repr(name))
    has_groups = not alg.spec.model.form.one_group
    expected = "a model whose data are groups"
    remedy = (
        "Write the density by groups, vijax.density(variables, log_prior=..., log_lik=...), or "
        "leave over_axis out."
    )
    require(has_groups, "alg", expected, "one whose data are one group", remedy)
    step_size = alg.spec.step_size
    if isinstance(step_size, by_share):
        step_size = _ByTotalShare(step_size.whole, step_size.part, name)
    model = _split_groups(alg.spec.model, name)
    split = build_algorithm(alg.spec._replace(model=model, step_size=step_size))
    for wrapper in (OverAxis(name), *alg.wrappers):
        split = wrap(split, wrapper)
    return split


@dataclasses.dataclass(frozen=True)
class OverAxis(Wrapper):
    """The wrapper of `over_axis`: it finds the first group of the whole batch that is not
    finite."""

    name: ClassVar[str] = "over_axis"
    splits_batch: ClassVar[bool] = True

    axis: str

    def step(
        self, alg: Algorithm, key: PRNGKeyArray, state: State, batch: Any
    ) -> tuple[State, Info]:
        minibatch = batch if isinstance(batch, Minibatch) else Minibatch(batch, None)
        self._check_local(state.local, minibatch.data)
        new, info = alg.step(key, state, batch)
        bad_group = self._first_bad(alg.spec.model, info.per_group, minibatch)
        return new, info._replace(bad_group=bad_group)

    def _first_bad(self, model: Model, per_group: Any, batch: Minibatch) -> Array:
        """Index of the first group of the whole batch whose bound is not finite, from the bounds of
        this device; -1 if there is none."""
        index = first_bad(per_group, batch.weights)
        if not isinstance(per_group, jax.Array):
            return index
        infinity = jnp.iinfo(jnp.int32).max
        global_index = index + per_group.size * jax.lax.axis_index(self.axis)
        if model.by_entry is not None:
            sites = as_entries(next(iter(model.by_entry.reads(batch).values())), batch).rows
            global_index = sites[global_index].astype(jnp.int32)
        minimum = jax.lax.pmin(jnp.where(index < 0, infinity, global_index), self.axis)
        return jnp.where(minimum == infinity, -1, minimum)

    def _check_local(self, local: PyTree, data: PyTree) -> None:
        """Raises ValueError if a device has not the locals of its groups of the batch."""
        if local is None:
            return
        num_locals, num_groups = (jnp.shape(jax.tree.leaves(x)[0])[0] for x in (local, data))
        expected = f"locals of the {num_groups} groups that this device has of the batch"
        remedy = (
            "Split State.local over the axis, as the data: specs = jax.tree.map(lambda _: P(), "
            f"state), and then specs._replace(local=P({self.axis!r})) for the state in in_specs "
            "and out_specs."
        )
        is_split = num_locals == num_groups
        require(is_split, "state", expected, f"State.local of {num_locals}", remedy)


@dataclasses.dataclass(frozen=True, repr=False)
class _ByTotalShare(by_share):
    """The rule for the share of the data that all devices together read."""

    axis: str

    def choose(self, share: float) -> Any:
        return super().choose(share * jax.lax.psum(1, self.axis))


# --- the model of split groups --------------------------------------------------------------------
@cache_by_value
def _split_groups(model: Model, name: str) -> Model:
    """The model with its groups split over an axis."""
    by_entry = model.by_entry
    if by_entry is not None:
        reads: Any = functools.partial(_reads, model, name)
        by_entry = dataclasses.replace(by_entry, reads=reads)
    local_elbo = functools.partial(_local_elbo, model, name)
    return dataclasses.replace(model, local_elbo=local_elbo, by_entry=by_entry)


def _local_elbo(
    model: Model, name: str, hyper: Any, stats: Any, batch: Minibatch, key: PRNGKeyArray, estep: Any
) -> LocalElbo:
    """`Model.local_elbo` of the groups of all devices."""
    hyper = _replicate(name, hyper)
    stats = _take_entries(model, name, _replicate(name, stats), batch)
    if draws_locals(model, hyper, stats, batch, key, estep):
        by_row = () if model.by_entry is None else model.by_entry.reads(batch)
        device = jax.lax.axis_index(name)
        local_elbo = bound_by_row(model, hyper, stats, batch, key, estep, device, by_row)
    else:
        local_elbo = model.local_elbo(hyper, stats, batch, key, estep)
    counts = {
        "num_groups": local_elbo.num_groups,
        "said": local_elbo.said,
        "retractions": local_elbo.retractions,
    }
    total = _sum_devices(name, local_elbo.total)
    return local_elbo._replace(total=total, **jax.lax.psum(jax.lax.stop_gradient(counts), name))


def _reads(model: Model, name: str, batch: Minibatch) -> dict[str, Entries]:
    """`ByEntry.reads` for all devices together."""
    assert model.by_entry is not None
    gather = functools.partial(jax.lax.all_gather, axis_name=name, tiled=True)
    return {
        variable: Entries(*map(gather, as_entries(entries, batch)))
        for variable, entries in model.by_entry.reads(batch).items()
    }


def _take_entries(
    model: Model, name: str, stats: Mapping[str, Any], batch: Minibatch
) -> dict[str, Any]:
    """Statistics, with only the entries that this device reads for globals read by entry."""
    if model.by_entry is None:
        return dict(stats)
    device = jax.lax.axis_index(name)

    def take(stats: Any, size: int) -> Any:
        return jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, device * size, size), stats)

    entry_stats = {
        variable: take(stats[variable], jnp.shape(entries)[0])
        for variable, entries in model.by_entry.reads(batch).items()
    }
    return {**stats, **entry_stats}


# --- values and gradients over devices ------------------------------------------------------------
def _replicate(name: str, x: PyTree) -> PyTree:
    """`replicate` of the head of this file, for floating leaves; other leaves unchanged."""
    is_float = lambda leaf: jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
    return jax.tree.map(lambda leaf: _replicate_leaf(name, leaf) if is_float(leaf) else leaf, x)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _replicate_leaf(name: str, x: Any) -> Any:
    return x


_replicate_leaf.defvjp(lambda name, x: (x, None), lambda name, _, g: (jax.lax.psum(g, name),))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _sum_devices(name: str, x: Any) -> Any:
    return jax.lax.psum(x, name)


_sum_devices.defvjp(lambda name, x: (jax.lax.psum(x, name), None), lambda name, _, g: (g,))

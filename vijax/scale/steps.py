"""Algorithms whose step splits a batch over the devices of a mesh by groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import PRNGKeyArray

from vijax.checks import require
from vijax.contract.batch import Minibatch
from vijax.inference.compose import Algorithm, build_algorithm
from vijax.inference.state import Info, State
from vijax.inference.wrappers.axis import over_axis
from vijax.inference.wrappers.wrapper import Wrapper, wrap
from vijax.scale.by_topic import split_topics
from vijax.scale.devices import check_mesh
from vijax.scale.split_parts import SplitByPart, table_places
from vijax.topics.own_words import ByWords


def on_mesh(alg: Algorithm, mesh: Mesh) -> Algorithm:
    """An algorithm whose step runs on all devices of a mesh: `vijax.over_axis` inside
    `jax.shard_map`.

    The devices divide the groups of the batch evenly; messages, values and gradients are summed.
    The posterior, its updates and the learnt points are the same on every device. Wrappers stay
    around the step, and `vijax.scale.place` decides where their arrays by group lie.

    Args:
      alg: the algorithm.
      mesh: devices of this process, along one axis, or along two, of which "topics" splits topics.

    Raises:
      ValueError: a mesh with other axes, a model whose data are one group, active topics; topics
        that cannot be split.

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> coin = vi.model(
    ...     prior={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)},
    ...     local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    ... )
    >>> alg = on_mesh(vi.cavi(coin), vi.scale.mesh())
    >>> state, _ = alg.step(jax.random.key(1), alg.init(jax.random.key(0)), jnp.array([1.0, 1.0, 0.0, 1.0]))
    >>> float(state.posterior["bias"].alpha), float(state.posterior["bias"].beta)
    (4.0, 2.0)
    """
    mesh, axis = check_mesh(mesh)
    remedy = (
        "Write the density by groups, vijax.density(variables, log_prior=..., log_lik=...), or "
        "leave mesh out."
    )
    expected = "a model whose data are groups, which devices can share"
    has_groups = not alg.spec.model.form.one_group
    require(has_groups, "mesh", expected, "one whose data are one group", remedy)
    for wrapper in alg.wrappers:
        active = wrapper.active if isinstance(wrapper, ByWords) else None
        remedy = (
            "They are chosen from the whole batch: leave active (algorithm.active_topics) out, or "
            "mesh."
        )
        require(active is None, "mesh", "steps that may use all topics", f"active={active}", remedy)
    sharded = build_algorithm(alg.spec)
    for wrapper in (OnMesh(mesh, axis), *alg.wrappers):
        sharded = wrap(sharded, wrapper)
    return split_topics(sharded, mesh)


@dataclasses.dataclass(frozen=True)
class OnMesh(Wrapper):
    """The wrapper of `on_mesh`."""

    name: ClassVar[str] = "on_mesh"

    mesh: Mesh
    axis: str

    def step(
        self, alg: Algorithm, key: PRNGKeyArray, state: State, batch: Any
    ) -> tuple[State, Info]:
        """See `Wrapper`. The state of outer wrappers (`beside`) stays outside."""
        batch = batch if isinstance(batch, Minibatch) else Minibatch(batch, None)
        split = P(self.axis)
        replicated = P()
        states = State(*(replicated for _ in State._fields))._replace(local=split, beside={})  # type: ignore[arg-type]
        if isinstance(alg.spec.messages, SplitByPart):
            tables = table_places(state.messages, P(None, self.axis), replicated)
            states = states._replace(messages=tables)
        infos = Info(*(replicated for _ in Info._fields))._replace(per_group=split)  # type: ignore[arg-type]
        batches = Minibatch(split, replicated, split, split, replicated, split)  # type: ignore[arg-type]
        step = over_axis(alg, self.axis).step
        if self.mesh.shape[self.axis] == 1 < self.mesh.size:
            step = self._vmap_one(step)
        else:
            # Unchecked: the check wants the zeros of every scan, and our own derivatives, marked
            # as different on each device. It would also find a key that all devices use alike:
            # tests/inference/test_axis.py tests for that.
            step = jax.shard_map(
                step,
                mesh=self.mesh,
                axis_names={self.axis},  # XLA splits topics by itself
                in_specs=(P(), states, batches),
                out_specs=(states, infos),
                check_vma=False,
            )
        new, info = step(key, state._replace(beside={}), jax.tree.map(jnp.asarray, batch))
        return new._replace(beside=state.beside), info

    def _vmap_one(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """The step of a batch that is not split. (XLA's partitioner fails where an axis of one
        device is manual.)"""
        over_one = jax.vmap(step, in_axes=None, axis_size=1, axis_name=self.axis)

        def call(*args: Any) -> Any:
            with jax.sharding.use_abstract_mesh(self.mesh.abstract_mesh):
                return jax.tree.map(lambda x: x[0], over_one(*args))

        return call

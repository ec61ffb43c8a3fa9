"""Wrappers that keep something beside the state: the locals of all groups, the mean of the
posteriors.

**Warm starts.** Where an E-step climbs to a fixed point, most of its rounds in a later epoch repeat
those of the epoch before: the globals have moved little since. So the state keeps the locals of all
N groups, a batch says which of them it holds (`Minibatch.rows`), and its E-step begins there.
Groups that were not seen yet begin where they always do."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray, PyTree

from vijax import tree
from vijax.checks import require, require_integers
from vijax.contract.batch import Minibatch
from vijax.contract.model import Hyper, Model
from vijax.families import Product
from vijax.inference.compose import Algorithm
from vijax.inference.state import Info, Result, State
from vijax.inference.wrappers.wrapper import Wrapper, wrap


class Visited(NamedTuple):
    """The locals of every group as last seen, N leading; and which groups were seen."""

    local: PyTree
    seen: Bool[Array, " N"]


def warm(alg: Algorithm) -> Algorithm:
    """An algorithm whose E-step begins, for each group, where it ended when the group was last
    seen.

    The state then holds the locals of all N groups: of LDA N x K numbers. It is for models whose
    E-step climbs to a fixed point: topics by `mean_field` or `cvb0`, correlated topics, factorial
    HMMs and other energies with coupled locals. benchmarks/README.md says how much it saves.

    Raises:
      ValueError: a model or an E-step that has nothing to go on from, or an algorithm that
        remembers messages of parts of the data; by `init`, a first batch that does not say N, and
        which groups it holds.
    """
    return wrap(alg, Warm())


@dataclasses.dataclass(frozen=True)
class Warm(Wrapper):
    """The wrapper of `warm`."""

    name: ClassVar[str] = "warm"
    of_groups: ClassVar[bool] = True
    whole_batch: ClassVar[bool] = True
    scaled: ClassVar[bool] = True

    def check(self, alg: Algorithm) -> None:
        spec, remedy = alg.spec, "Leave warm (warm_starts) out: its E-step is a closed form."
        has = spec.model.locals.start is not None
        require(
            has,
            "warm",
            "a model whose E-step climbs to a fixed point",
            "one that has no start",
            remedy,
        )
        able = getattr(spec.estep, "goes_on", False)
        remedy = (
            "Use vijax.estep.mean_field() or vijax.estep.cvb0(), or leave warm (warm_starts) out."
        )
        require(able, "warm", "an E-step that can begin anywhere", repr(spec.estep), remedy)

    def init(self, alg: Algorithm, key: PRNGKeyArray, batch: Any, hyper: Any) -> State:
        state = alg.init(key, batch, hyper)
        return state._replace(local=None).with_memory(
            self.name, first_visits(alg.spec.model, state.hyper, batch)
        )

    def step(
        self, alg: Algorithm, key: PRNGKeyArray, state: State, batch: Any
    ) -> tuple[State, Info]:
        """See `Wrapper`; the locals found for a batch are written row by row, if the step is
        taken."""
        visited = self.memory(state)
        begun = state._replace(local=starts(alg.spec.model, state.hyper, visited, batch))
        new, info = alg.step(key, begun, batch)
        kept = remembered(visited, batch, new.local, info.result == Result.OK)
        return new._replace(local=None).with_memory(self.name, kept), info

    def lost(self, memory: Visited) -> str:
        return "locals of the groups that were seen" if np.any(np.asarray(memory.seen)) else ""


def first_visits(model: Model, hyper: Hyper, batch: Minibatch | None) -> Visited:
    """The memory for all groups before any was seen. Raises ValueError: the batch says neither how
    many groups there are nor which of them it holds."""
    remedy = "vijax.fit gives them; in a loop of your own Minibatch(data, N, rows=...)."
    known = isinstance(batch, Minibatch) and batch.rows is not None
    known = known and isinstance(batch.num_groups, float | int | np.number)  # type: ignore[union-attr]
    require(
        known,
        "batch",
        "the first minibatch, with N and its rows, for warm starts",
        "none, or without",
        remedy,
    )
    assert batch is not None
    assert model.locals.start is not None
    total = int(batch.num_groups)  # type: ignore[arg-type]
    like = jax.eval_shape(model.locals.start, hyper, batch)
    if isinstance(batch.rows, tuple):  # of documents of several lengths: locals of one kind
        like = like[0]
    table = jax.tree.map(lambda x: jnp.zeros((total, *x.shape[1:]), x.dtype), like)
    return Visited(table, jnp.zeros(total, bool))


def starts(model: Model, hyper: Hyper, visited: Visited, batch: Minibatch) -> PyTree:
    """Locals from which the E-step of a batch begins."""
    known = isinstance(batch, Minibatch) and batch.rows is not None
    require(
        known, "batch", "which groups it holds, for warm starts", "none", "Give Minibatch(rows=)."
    )
    assert model.locals.start is not None
    cold = model.locals.start(hyper, batch)

    def of(rows: Array, cold: PyTree) -> PyTree:
        seen = visited.seen.at[rows].get(mode="fill", fill_value=False)
        last = jax.tree.map(lambda table: table.at[rows].get(mode="clip"), visited.local)
        return jax.tree.map(
            lambda x, y: jnp.where(seen.reshape(-1, *(1,) * (x.ndim - 1)), x, y), last, cold
        )

    if isinstance(batch.rows, tuple):
        return tuple(of(rows, some) for rows, some in zip(batch.rows, cold, strict=True))
    return of(batch.rows, cold)


def remembered(visited: Visited, batch: Minibatch, local: PyTree, ok: Bool[Array, ""]) -> Visited:
    """The memory with the locals found for a batch, if the step was taken. Padding, whose rows are
    N, is dropped."""
    many = isinstance(batch.rows, tuple)
    for rows, found in zip(batch.rows, local, strict=True) if many else [(batch.rows, local)]:
        at = jnp.where(ok, jnp.asarray(rows), visited.seen.size)
        table = jax.tree.map(
            lambda old, new, at=at: old.at[at].set(new, mode="drop"), visited.local, found
        )
        visited = Visited(table, visited.seen.at[at].set(True, mode="drop"))
    return visited


def averaged(alg: Algorithm, after: int) -> Algorithm:
    """An algorithm that keeps the mean of the posteriors of the steps from `after` on, for
    `Fit.average`.

    Args:
      alg: the algorithm.
      after: the first step that counts.

    Raises:
      ValueError: `after` is below 0, or the state does not hold the globals as they are
          (`vijax.topics.by_words`).

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
        require_integers(0, after=self.after)

    def init(self, alg: Algorithm, key: PRNGKeyArray, batch: Any, hyper: Any) -> State:
        state = alg.init(key, batch, hyper)
        return state.with_memory(self.name, tree.scale(0.0, _bare(state.posterior)))

    def step(
        self, alg: Algorithm, key: PRNGKeyArray, state: State, batch: Any
    ) -> tuple[State, Info]:
        mean = self.memory(state)
        new, info = alg.step(key, state, batch)
        count = jnp.maximum(state.step - self.after + 1, 1).astype(state.step_size.dtype)
        return new.with_memory(self.name, tree.mix(1.0 / count, mean, _bare(new.posterior))), info


def _bare(q: Product) -> Product:
    """The natural parameters without their context: a kernel is as large as all else, and the
    posterior has it."""
    return q.with_context(dict.fromkeys(q))

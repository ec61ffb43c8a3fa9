"""Wrappers with a memory beside the state: the locals of all groups (`warm`), the mean of the
posteriors (`averaged`).

**Warm starts.** If an E-step climbs to a fixed point, most of its rounds in a later epoch repeat
those of the epoch before, because the globals have moved little since. So the state keeps the
locals of all N groups, a batch names its groups (`Minibatch.rows`), and the E-step begins at their
last locals. A group without locals begins at the model's start."""

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


class Visits(NamedTuple):
    """The last locals of every group, N leading; and a mask of the groups that have any."""

    local: PyTree
    seen: Bool[Array, " N"]


def warm(alg: Algorithm) -> Algorithm:
    """An algorithm whose E-step begins, for each group, at the end of its last visit.

    The state then holds the locals of all N groups: for LDA N x K numbers. It is for models whose
    E-step climbs to a fixed point: topics by `mean_field` or `cvb0`, correlated topics, factorial
    HMMs and other energies with coupled locals. benchmarks/README.md says how much it saves.

    Raises:
      ValueError: the E-step of the model has no start, or the algorithm remembers messages of parts
        of the data; by `init`, the first batch does not know N and its rows.
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
        spec = alg.spec
        has_start = spec.model.locals.start is not None
        expected = "a model whose E-step climbs to a fixed point"
        remedy = "Leave warm (algorithm.warm_starts) out: its E-step is a closed form."
        require(has_start, "warm", expected, "one that has no start", remedy)
        can_continue = getattr(spec.estep, "goes_on", False)
        expected = "an E-step that can begin anywhere"
        remedy = (
            "Use vijax.estep.mean_field() or vijax.estep.cvb0(), or leave warm "
            "(algorithm.warm_starts) out."
        )
        require(can_continue, "warm", expected, repr(spec.estep), remedy)

    def init(self, alg: Algorithm, key: PRNGKeyArray, batch: Any, hyper: Any) -> State:
        state = alg.init(key, batch, hyper)
        visits = first_visits(alg.spec.model, state.hyper, batch)
        return state._replace(local=None).with_memory(self.name, visits)

    def step(
        self, alg: Algorithm, key: PRNGKeyArray, state: State, batch: Any
    ) -> tuple[State, Info]:
        """See `Wrapper`. If the step is taken, the new locals of the batch are written row by
        row."""
        visits = self.memory(state)
        start = starts(alg.spec.model, state.hyper, visits, batch)
        new, info = alg.step(key, state._replace(local=start), batch)
        visits = add_visit(visits, batch, new.local, info.result == Result.OK)
        return new._replace(local=None).with_memory(self.name, visits), info

    def describe_loss(self, memory: Visits) -> str:
        return "locals of the groups that were seen" if np.any(np.asarray(memory.seen)) else ""


def first_visits(model: Model, hyper: Hyper, batch: Minibatch | None) -> Visits:
    """The memory for all groups before the first step. Raises ValueError if the batch does not know
    N and its rows."""
    knows_rows = (
        isinstance(batch, Minibatch)
        and batch.rows is not None
        and isinstance(batch.num_groups, float | int | np.number)
    )
    expected = "the first minibatch, with N and its rows, for warm starts"
    remedy = "vijax.fit gives them; in a loop of your own Minibatch(data, N, rows=...)."
    require(knows_rows, "batch", expected, "none, or without", remedy)
    assert batch is not None
    assert model.locals.start is not None
    total = int(batch.num_groups)  # type: ignore[arg-type]
    like = jax.eval_shape(model.locals.start, hyper, batch)
    if isinstance(batch.rows, tuple):  # documents of several lengths have locals of one shape
        like = like[0]
    table = jax.tree.map(lambda x: jnp.zeros((total, *x.shape[1:]), x.dtype), like)
    return Visits(table, jnp.zeros(total, bool))


def starts(model: Model, hyper: Hyper, visits: Visits, batch: Minibatch) -> PyTree:
    """Locals at which the E-step of a batch begins. Raises ValueError at a batch without rows."""
    has_rows = isinstance(batch, Minibatch) and batch.rows is not None
    expected = "which groups it holds, for warm starts"
    require(has_rows, "batch", expected, "none", "Give Minibatch(rows=).")
    assert model.locals.start is not None
    cold = model.locals.start(hyper, batch)

    def start(rows: Array, cold: PyTree) -> PyTree:
        seen = visits.seen.at[rows].get(mode="fill", fill_value=False)
        last = jax.tree.map(lambda table: table.at[rows].get(mode="clip"), visits.local)
        select = lambda x, y: jnp.where(seen.reshape(-1, *(1,) * (x.ndim - 1)), x, y)
        return jax.tree.map(select, last, cold)

    if isinstance(batch.rows, tuple):
        return tuple(start(rows, local) for rows, local in zip(batch.rows, cold, strict=True))
    return start(batch.rows, cold)


def add_visit(visits: Visits, batch: Minibatch, local: PyTree, ok: Bool[Array, ""]) -> Visits:
    """The memory with the locals of a batch, if the step was taken. Padding, whose rows are N, is
    dropped."""
    pairs = [(batch.rows, local)]
    if isinstance(batch.rows, tuple):
        pairs = list(zip(batch.rows, local, strict=True))
    for rows, new in pairs:
        index = jnp.where(ok, jnp.asarray(rows), visits.seen.size)
        put = lambda table, x, index=index: table.at[index].set(x, mode="drop")
        table = jax.tree.map(put, visits.local, new)
        visits = Visits(table, visits.seen.at[index].set(True, mode="drop"))
    return visits


def averaged(alg: Algorithm, after: int) -> Algorithm:
    """An algorithm that keeps the mean of the posteriors of the steps from `after` on, for
    `Fit.average`.

    Args:
      alg: the algorithm.
      after: the first step that counts.

    Raises:
      ValueError: `after` is below 0, or the state stores the globals in another form
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
        return state.with_memory(self.name, tree.scale(0.0, _without_context(state.posterior)))

    def step(
        self, alg: Algorithm, key: PRNGKeyArray, state: State, batch: Any
    ) -> tuple[State, Info]:
        mean = self.memory(state)
        new, info = alg.step(key, state, batch)
        count = jnp.maximum(state.step - self.after + 1, 1).astype(state.step_size.dtype)
        mean = tree.mix(1.0 / count, mean, _without_context(new.posterior))
        return new.with_memory(self.name, mean), info


def _without_context(q: Product) -> Product:
    """The natural parameters alone. A context, such as a kernel, may be as large as all else, and
    the posterior has it."""
    return q.with_context(dict.fromkeys(q))

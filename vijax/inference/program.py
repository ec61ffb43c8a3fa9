"""The functions of an algorithm as programs compile them: batches are read, keys are fused, LAPACK is
guarded, small selections stand one after the other.

None of it changes a number; the step itself is `vijax.inference.step`. It is done here and not in
the loop of `vijax.fit`, because anybody may compile `Algorithm.step`."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from vijax import tree
from vijax.checks import require
from vijax.contract.batch import Minibatch, one_group
from vijax.contract.intake import cast_data
from vijax.contract.model import Hyper
from vijax.inference.bound import add_context
from vijax.inference.spec import Spec
from vijax.inference.state import Info, State, check_state
from vijax.inference.step import Proposal, count_step, initial_state, propose
from vijax.xla import by_value, ordering
from vijax.xla.lapack import guard_lapack
from vijax.xla.random_bits import fused_key

GIVE_SIZE = (
    "Wrap the data, Minibatch(data, num_groups=N), or the algorithm: vijax.part_of(alg, N), or "
    "vijax.whole(alg) where the data are all there are. The rows take num_groups=N."
)
DEAL = (
    "vijax.data.minibatches(corpus, batch_size, seed) deals batches of documents; vijax.fit deals "
    "them by itself."
)


@dataclasses.dataclass(frozen=True)
class SpecFunction:
    """A function of an algorithm. Equal choices for one model share one object, also after
    pickling."""

    spec: Spec

    def __reduce__(self) -> tuple:
        return build_function, (type(self), self.spec)

    def _batch(self, batch: Any) -> Minibatch:
        """The batch as the model reads it. A model for given data fills in their N, because the
        batch may hold only some of the groups."""
        model = self.spec.model
        form = model.form
        total = None if form.num_groups is None else float(form.num_groups)
        if not isinstance(batch, Minibatch):
            knows_size = form.one_group or total is not None
            expected = "a vijax.Minibatch, which knows the size N of the whole data set"
            require(knows_size, "batch", expected, "bare data", GIVE_SIZE)
            batch = Minibatch(one_group(batch) if form.one_group else batch, total)
        reader = getattr(batch.data, "read_by", None)
        remedy = f"They are for {reader}."
        expected = "data as the model reads them"
        require(reader is None, "batch", expected, type(batch.data).__name__, remedy)
        if form.documents is not None:
            actual = type(batch.data).__name__
            if hasattr(batch.data, "shape"):
                actual = f"an array of shape {jnp.shape(batch.data)}"
            is_tuple = isinstance(batch.data, tuple | list)
            require(is_tuple, "batch", "a tuple of vijax.Documents", actual, DEAL)
        size = total if batch.num_groups is None else batch.num_groups
        return batch._replace(data=cast_data(model, batch.data), num_groups=size)


def build_function(kind: type[SpecFunction], spec: Spec) -> Any:
    """The one function of this kind for these choices."""
    return by_value.intern(spec.model, kind(spec))


class Init(SpecFunction):
    """`Algorithm.init`."""

    def __call__(self, key: PRNGKeyArray, batch: Any = None, hyper: Hyper | None = None) -> State:
        spec, model = self.spec, self.spec.model
        batch = None if batch is None else self._batch(batch)
        hyper = tree.as_arrays({**model.hyper, **(hyper or {})})
        posterior = model.init(hyper, key, spec.start(hyper), batch)
        return initial_state(spec, hyper, add_context(model, hyper, posterior))


class Step(SpecFunction):
    """`Algorithm.step`."""

    def __call__(self, key: PRNGKeyArray, state: State, batch: Any) -> tuple[State, Info]:
        return guard_lapack(self._step)(key, state, batch)

    def _step(self, key: PRNGKeyArray, state: State, batch: Any) -> tuple[State, Info]:
        check_state(key, state, State)
        key = fused_key(key)
        batch = self._batch(batch)
        prepared = state.posterior.prepare(self.spec.penalty_every == 1)
        state = state._replace(posterior=prepared)
        proposal = propose(self.spec, key, state, batch)
        return _accept(state, proposal), proposal.info


def _accept(state: State, proposal: Proposal) -> State:
    """The proposed state where it is `ok`, else the one before."""
    # The new state is written over the old one, once nobody reads that any more.
    ok = ordering.await_numbers(proposal.ok, proposal.penalty, proposal.info.retractions)
    # The memory of wrappers stays as it was: it may be large, and is neither copied nor compared.
    accepted = ordering.select(
        ok, proposal.state._replace(beside={}), state._replace(beside={})
    )._replace(beside=state.beside)
    ok = ordering.delay(ok, accepted.posterior)
    return count_step(state, accepted, proposal.penalty, ok)

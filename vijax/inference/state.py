"""What a step hands on and what it tells: state, diagnostics, and the counts that every algorithm keeps alike."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from vijax.checks import require
from vijax.contract.model import Hyper
from vijax.families import Product
from vijax.inference.stopping import Watch, watch


class Result(enum.IntEnum):
    """What became of a step."""

    OK = 0
    SKIPPED = 1  # a value or gradient that is not finite; the last good state was kept


class State(NamedTuple):
    """What the next step needs.

    Attributes:
      posterior: q(beta; lambda), by variable name.
      memory: what the updates of the globals remember, by name (`vijax.update`).
      hyper: the model's hyperparameters as they stand.
      opt_state: of the optimiser of the learnt hyperparameters.
      step_size: rho of the last step, or where backtracking starts next.
      penalty: the objective's penalty when it was last evaluated.
      local: the locals of full-data algorithms whose E-step goes on from where it was (`Model.locals.carried`), else
        None.
      messages: the messages of the parts of the data, of algorithms that remember them (`vijax.memoized`), else None.
      step: t, counted from 0.
      bad_steps: steps skipped in a row.
      num_skipped: steps skipped since step 0.
      checked: the objective at the last three steps that are multiples of `vijax.inference.stopping.CHECK_EVERY`, the
        latest last; NaN before. `vijax.fit` fills it in, and
      watch: averages of a noisy objective (`vijax.inference.stopping`), where it is to stop by them.
      data: which data it is fitted to (`vijax.fitting.fingerprint`), as `vijax.fit` notes it; zeros where nobody has.
      beside: what wrappers keep (`vijax.inference.wrappers.wrapper`), by their names.
    """

    posterior: Product
    memory: dict[str, PyTree]
    hyper: Hyper
    opt_state: PyTree
    step_size: Float[Array, ""]
    penalty: Float[Array, ""]
    local: PyTree
    messages: PyTree
    step: Int[Array, ""]
    bad_steps: Int[Array, ""]
    num_skipped: Int[Array, ""]
    checked: Float[Array, 3]
    watch: Watch
    data: Any
    beside: dict[str, PyTree]

    def with_beside(self, name: str, memory: PyTree) -> State:
        """With the memory of a wrapper."""
        return self._replace(beside={**self.beside, name: memory})


class Info(NamedTuple):
    """Diagnostics of a step, all of the state *before* it.

    Attributes:
      bound: (N_t/S) sum of the groups' bounds, plus what couples the globals. The objective, `elbo`, is this minus the
        penalty.
      local_elbo: sum of the batch's bounds, unscaled; of `vijax.memoized` where it looked, ahead of the globals.
      per_group: the bounds group by group, there, in the layout of the batch.
      num_groups: S, groups in the batch.
      penalty: KL(q || prior); minus the log prior at a point for MAP; 0 for maximum likelihood. As of the last step
        that `compose(penalty_every=...)` had it evaluated.
      step_size: rho_t, or beta_t; after backtracking, the smallest of any block.
      retractions: natural parameters brought back into their domain, and steps that the E-step cut back for theirs;
        0 of a skipped step.
      backtracks: trials of a smaller step.
      non_finite: entries of the objective's value and of its gradient (messages of the globals, learnt
        hyperparameters) that are infinite or NaN; any at all, and the step is skipped.
      bad_group: the first group of the batch whose bound is not finite, by its place in the batch, or its site where
        the batch says which it is; -1 if there is none, or the batch is of documents.
      bad_variable: the first global, by its place among the posterior's names, whose message is not finite; -1 if there
        is none.
      result: a `Result` code.
      said: what the model says beside (`LocalElbo.said`), numbers by name. Of models of documents `num_words`, the
        tokens in the batch; under `vijax.topics.by_words(active=...)` also `left_out`, the share of them that a first
        round gave to topics which the step then left out, and `active_topics`, how many topics documents were let use,
        on average.
    """

    bound: Float[Array, ""]
    local_elbo: Float[Array, ""]
    per_group: PyTree
    num_groups: Float[Array, ""]
    penalty: Float[Array, ""]
    step_size: Float[Array, ""]
    retractions: Int[Array, ""]
    backtracks: Int[Array, ""]
    non_finite: Int[Array, ""]
    bad_group: Int[Array, ""]
    bad_variable: Int[Array, ""]
    result: Int[Array, ""]
    said: dict[str, Float[Array, ""]]

    @property
    def elbo(self) -> Float[Array, ""]:
        """The objective, which is maximised. Exact for mean field on full data, else an unbiased estimate; under an
        E-step that samples, `vijax.estep.gibbs` says of what."""
        return self.bound - self.penalty


# --- counting ---------------------------------------------------------------------------------------------------
def fresh_counts(dtype: Any) -> dict[str, Any]:
    """What a state counts, at step 0."""
    zeros = {name: jnp.zeros((), jnp.int32) for name in ("step", "bad_steps", "num_skipped")}
    none = jnp.zeros(4, jnp.uint32)
    return {**zeros, "checked": jnp.full(3, jnp.nan, dtype), "watch": watch(dtype=dtype), "data": none, "beside": {}}


def counted(ok: Bool[Array, ""], old: Any, new: Any) -> Any:
    """The new state, with the step counted."""
    return new._replace(
        step=old.step + 1,
        bad_steps=jnp.where(ok, 0, old.bad_steps + 1),
        num_skipped=old.num_skipped + jnp.where(ok, 0, 1),
    )


def check_state(key: Any, state: Any, kind: type) -> None:
    """Raises ValueError where arguments of a step are not what they should be, the first two swapped above all."""
    swapped = isinstance(key, kind)
    expected = f"(key, state, batch), state a {kind.__name__} as alg.init gives it"
    got = "state and key swapped" if swapped else type(state).__name__
    require(isinstance(state, kind) and not swapped, "step", expected, got)

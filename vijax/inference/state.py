"""The state that a step hands on, and its diagnostics."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from vijax.checks import require
from vijax.contract.model import Hyper
from vijax.families import Product
from vijax.inference.stopping import Watch


class Result(enum.IntEnum):
    """The outcome of a step."""

    OK = 0
    SKIPPED = 1  # a value or gradient that is not finite; the last good state was kept


class State(NamedTuple):
    """All that the next step needs.

    Attributes:
      posterior: q(beta; lambda), by variable name.
      memory: memory of the updates of the globals, by name (`vijax.update`).
      hyper: the model's hyperparameters as they stand.
      opt_state: state of the optimiser of the points that are learnt.
      step_size: rho of the last step, or where backtracking starts next.
      penalty: the objective's penalty when it was last evaluated.
      local: the locals of full-data algorithms whose E-step goes on from where it was
        (`Model.locals.carried`), else None.
      messages: the messages of the parts of the data, where the algorithm remembers them
          (`vijax.memoized`), else None.
      step: t, counted from 0.
      bad_steps: steps skipped in a row.
      num_skipped: steps skipped since step 0.
      checked: the objective at the last three steps that are multiples of
        `vijax.inference.stopping.CHECK_EVERY`, the latest last; +inf before. `vijax.fit` fills it
        in.
      watch: averages of a noisy objective (`vijax.inference.stopping`). `vijax.fit` fills them in
        where it is to stop by them.
      data: mark of the data (`vijax.fitting.fingerprint`), which `vijax.fit` notes; zeros in a loop
          of your own.
      beside: memory of the wrappers (`vijax.inference.wrappers.wrapper`), by their names.
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
        """The state with the memory of a wrapper."""
        return self._replace(beside={**self.beside, name: memory})


class Info(NamedTuple):
    """Diagnostics of a step, all of the state *before* it.

    Attributes:
      bound: (N_t/S) sum of the groups' bounds, plus the term that couples the globals. The
        objective, `elbo`, is this minus the penalty.
      local_elbo: sum of the batch's bounds, unscaled; under `vijax.memoized` at globals ahead of
          those of the state.
      per_group: the same bounds group by group, in the layout of the batch.
      num_groups: S, groups in the batch.
      penalty: KL(q || prior); minus the log prior at a point for MAP; 0 for maximum likelihood. It
        is the value of the last step at which `compose(penalty_every=...)` had it evaluated.
      step_size: rho_t, or beta_t; after backtracking, the smallest of any block.
      retractions: natural parameters brought back into their domain, and steps that the E-step cut
        back for theirs; 0 of a skipped step.
      backtracks: trials of a smaller step.
      non_finite: entries of the objective's value and of its gradient (messages of the globals,
        learnt hyperparameters) that are infinite or NaN; any at all, and the step is skipped.
      bad_group: the first group of the batch whose bound is not finite, by its place in the batch,
        or its site where the batch says which it is; -1 if there is none, or the batch is of
        documents.
      bad_variable: the first global, by its place among the posterior's names, whose message is not
        finite; -1 if there is none.
      result: a `Result` code.
      said: further numbers of the model by name (`LocalElbo.said`). Models of documents give
        `num_words`, the tokens in the batch; under `vijax.topics.by_words(active=...)` also
        `left_out`, the share of them that a first round gave to topics which the step then left
        out, and `active_topics`, how many topics documents were let use, on average.
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
        """The objective, which is maximised. Exact for mean field on full data, else an unbiased
        estimate; under an E-step that samples, `vijax.estep.gibbs` says of what."""
        return self.bound - self.penalty


def bad_variables(places: Int[np.ndarray, " steps"], names: Sequence[str]) -> list[str]:
    """The globals that steps name in `Info.bad_variable`, each once.

    >>> bad_variables(np.array([-1, 1, 1, -1]), ["topics", "rate"])
    ['rate']
    """
    return [names[place] for place in np.unique(places) if place >= 0]


def check_state(key: Any, state: Any, kind: type) -> None:
    """Raises ValueError where arguments of a step are not what they should be, the first two
    swapped above all."""
    swapped = isinstance(key, kind)
    expected = f"(key, state, batch), state a {kind.__name__} as alg.init gives it"
    got = "state and key swapped" if swapped else type(state).__name__
    require(isinstance(state, kind) and not swapped, "step", expected, got)

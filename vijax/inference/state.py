"""`State`, which a step takes and returns; `Info`, the diagnostics of a step."""

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
      hyper: the present hyperparameters of the model.
      opt_state: state of the optimiser of the learnt points.
      step_size: rho of the last step; under backtracking, the first size of the next step.
      penalty: the objective's penalty when it was last evaluated.
      local: the locals, for full-data algorithms whose E-step continues from them
        (`Model.locals.carried`); else None.
      messages: the message of each part of the data, if the algorithm remembers them
        (`vijax.memoized`); else None.
      step: t, counted from 0.
      bad_steps: steps skipped in a row.
      num_skipped: steps skipped since step 0.
      checked: the objective at the last three steps that are multiples of
        `vijax.inference.stopping.CHECK_EVERY`, the latest last; +inf before. `vijax.fit` sets it.
      watch: averages of a noisy objective (`vijax.inference.stopping`). `vijax.fit` sets them if it
        stops by them.
      data: mark of the data (`vijax.fitting.fingerprint`), set by `vijax.fit`; zeros in a loop of
        your own.
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

    def with_memory(self, name: str, memory: PyTree) -> State:
        """The state with a new memory of the wrapper of this name."""
        return self._replace(beside={**self.beside, name: memory})


class Info(NamedTuple):
    """Diagnostics of a step, all of the state *before* it.

    Attributes:
      bound: (N_t/S) sum of the groups' bounds, plus the term that couples the globals. The
        objective, `elbo`, is the bound minus the penalty.
      local_elbo: sum of the batch's bounds, unscaled; under `vijax.memoized` at globals ahead of
        those of the state.
      per_group: the same bounds group by group, in the layout of the batch.
      num_groups: S, groups in the batch.
      penalty: KL(q || prior); for MAP, minus the log prior at the point; for maximum likelihood, 0.
        With `compose(penalty_every=...)` it is the last evaluated value.
      step_size: rho_t, or beta_t; after backtracking, the smallest of any block.
      retractions: number of natural parameters brought back into their domain, plus E-step steps
        cut back for their domain; 0 in a skipped step.
      backtracks: number of trials of a smaller step.
      non_finite: number of entries of the objective and of its gradient (messages of the globals,
        learnt hyperparameters) that are infinite or NaN. If there is any, the step is skipped.
      bad_group: index in the batch of the first group whose bound is not finite; its site, if the
        batch gives sites. -1 if there is none, or the batch is of documents.
      bad_variable: index among the posterior's names of the first global whose message is not
        finite; -1 if there is none.
      result: a `Result` code.
      said: further numbers of the model by name (`LocalElbo.said`). Models of documents give
        `num_words`, the number of tokens in the batch. Under `vijax.topics.by_words(active=...)`
        they also give `left_out`, the share of tokens that a first round gave to topics which the
        step left out, and `active_topics`, the average number of topics allowed to a document.
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
        """The objective, which is maximised. It is exact for mean field on full data, and an
        unbiased estimate otherwise. For E-steps that sample, see `vijax.estep.gibbs`."""
        return self.bound - self.penalty


def bad_variables(places: Int[np.ndarray, " steps"], names: Sequence[str]) -> list[str]:
    """The globals in `Info.bad_variable` of several steps, without repetition.

    >>> bad_variables(np.array([-1, 1, 1, -1]), ["topics", "rate"])
    ['rate']
    """
    return [names[place] for place in np.unique(places) if place >= 0]


def check_state(key: Any, state: Any, kind: type) -> None:
    """Raises ValueError unless `state` is of this kind. State and key swapped is the likely
    mistake."""
    is_swapped = isinstance(key, kind)
    expected = f"(key, state, batch), state a {kind.__name__} as alg.init gives it"
    problem = "state and key swapped" if is_swapped else type(state).__name__
    require(isinstance(state, kind) and not is_swapped, "step", expected, problem)

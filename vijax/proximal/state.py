"""Choices, state and diagnostics of proximal-gradient steps on sites."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxtyping import Array, Float, Int, PyTree

from vijax import describe
from vijax.expectation import Expectation
from vijax.model import Hyper
from vijax.models.predictors import PredictorModel
from vijax.sites import Sites
from vijax.step_size import Schedule, backtracking
from vijax.update import Update


class Spec(NamedTuple):
    """The choices a proximal-gradient algorithm is composed of."""

    model: PredictorModel
    expectation: Expectation
    update: Update
    step_size: Schedule | backtracking | None
    memory: bool
    inner_steps: int
    mean: str
    learn: tuple[str, ...]
    penalty_every: int
    average_after: int | None

    def __repr__(self) -> str:
        return describe.of_spec(self)


class PGState(NamedTuple):
    """What the next step needs.

    Attributes:
      posterior: the sites (a, g), natural parameters of q relative to the prior.
      average: their running mean since the step that `average_after` names; None without averaging.
      prior: p(z) at the present hyperparameters, computed once while they stand.
      hyper: hyperparameters as they stand.
      opt_state: of the optimiser of the learnt hyperparameters.
      step_size: rho of the last step: where backtracking starts.
      penalty: KL(q || p) when it was last evaluated.
      step: t, counted from 0.
      bad_steps, num_skipped, checked: as of `vijax.State`.
    """

    posterior: Sites
    average: Sites | None
    prior: Any
    hyper: Hyper
    opt_state: PyTree
    step_size: Float[Array, ""]
    penalty: Float[Array, ""]
    step: Int[Array, ""]
    bad_steps: Int[Array, ""]
    num_skipped: Int[Array, ""]
    checked: Float[Array, 2]


class PGInfo(NamedTuple):
    """Diagnostics of a step, all of the state *before* it.

    Attributes:
      elbo: the objective, maximised; exact on full data with an exact expectation, else an estimate.
      local_elbo: sum of E_q[log p(y_n | z_n)] over the batch, unscaled.
      per_group: its terms.
      num_groups: S, sites in the batch.
      penalty: KL(q || p), as of the last step that `penalty_every` had it evaluated.
      step_size: rho of the step, after backtracking.
      retractions: sites whose message would have left the domain and was left out.
      backtracks: trials of a smaller step.
      non_finite: entries of the batch's expectations, of their derivatives and of the gradient in learnt
        hyperparameters that are infinite or NaN; any at all, and the step is skipped.
      bad_site: the first site of the batch whose expectation is not finite; -1 if none.
      result: a `vijax.Result` code.
    """

    elbo: Float[Array, ""]
    local_elbo: Float[Array, ""]
    per_group: Float[Array, " batch"]
    num_groups: Float[Array, ""]
    penalty: Float[Array, ""]
    step_size: Float[Array, ""]
    retractions: Int[Array, ""]
    backtracks: Int[Array, ""]
    non_finite: Int[Array, ""]
    bad_site: Int[Array, ""]
    result: Int[Array, ""]

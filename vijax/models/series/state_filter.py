"""Filtering: probabilities of the present state of a hidden Markov model, one row after another, as
they come.

    p(z_t | y_1..t)  is proportional to  p(z_t | y_1..t-1) p(y_t | z_t),
    p(y_t | y_1..t-1) = sum_z p(z | y_1..t-1) p(y_t | z),
    p(z_t+1 | y_1..t) = sum_z p(z | y_1..t) p(z_t+1 | z),

with the point estimates that `Fit.score` takes: posterior means of the chain and predictive
densities of the emissions. The log densities of the rows of a sequence add up to its score."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import logsumexp
from jaxtyping import Array, Bool, Float, Int

from vijax.checks import require
from vijax.contract.model import Estimates
from vijax.models.emission import Emission
from vijax.models.series.missing_cells import check_row
from vijax.models.series.sequences import read_steps
from vijax.tree import register


class FilterState(NamedTuple):
    """The knowledge of a sequence after its first rows.

    Attributes:
      probs: probabilities of the state of the last row, given all rows so far, (K,); before the
        first row those of the first state.
      next_probs: probabilities of the state of the next row, (K,).
      log_density: log p(last row | rows before it), 0 for a row of which nothing was seen; about
        -1e20 for a row with a known state that no path has there, after which the probabilities
        say nothing; NaN, as all that follows, for a row that cannot be (inside of `jit`; else it
        is an error).
      log_prob: log p(all rows so far).
      num_rows: number of rows so far.
    """

    probs: Float[Array, " K"]
    next_probs: Float[Array, " K"]
    log_density: Float[Array, ""]
    log_prob: Float[Array, ""]
    num_rows: Int[Array, ""]


@register
@dataclasses.dataclass(frozen=True)
class StateFilter:
    """`init` and `step`, pure functions for `jit`, `scan` and `vmap`: of a row nothing is kept but
    the state. It is a pytree, so that a compiled program takes any filter of the same model.

    Attributes:
      initial: probabilities of the first state, (K,).
      transition: probabilities of the next state (columns) given each (rows), (K, K).
      components: the law, or the point, of the parameters of the emissions.
      emission: the observation model.
    """

    initial: Float[Array, " K"]
    transition: Float[Array, "K K"]
    components: Any
    emission: Emission = dataclasses.field(metadata={"static": True})

    @classmethod
    def from_estimates(cls, emission: Emission, hyper: Any, estimates: Estimates) -> StateFilter:
        """The filter at the estimates of a fit (`vijax.Fit.estimates`)."""
        initial, transition = (estimates[name].mean() for name in ("initial", "transition"))
        return cls(initial, transition, estimates["components"], emission)

    def init(self) -> FilterState:
        """The state before the first row."""
        zero = jnp.zeros((), self.initial.dtype)
        count = jnp.zeros((), jnp.int32)
        return FilterState(self.initial, self.initial, zero, zero, count)

    def step(self, state: FilterState, row: Any) -> FilterState:
        """The state after one more row.

        Args:
          state: the state after the rows before.
          row: (D,). A row of NaN was not seen. Single cells may be NaN if the emission is
            `vijax.models.emission.incomplete`; else such a row counts as not seen, with a warning.

        Raises:
          ValueError: another shape, or values that the emission cannot have. Inside of `jit`, where
            values are not at hand, infinite cells and labels that number no state give NaN.
        """
        row = jnp.asarray(row, self.initial.dtype)
        shape = self.emission.example.shape
        require(row.shape == shape, "row", f"one row of shape {shape}", f"shape {row.shape}")
        if not isinstance(row, jax.core.Tracer):
            check_row(self.emission, np.asarray(row))
        can_be = self._can_be(row)
        row, is_seen = read_steps(self.emission.takes_missing, row)
        fits = self.emission.log_predictive(self.components, row)
        fits = jnp.where(is_seen, fits, 0.0)
        scores = jnp.log(state.next_probs) + jnp.where(can_be, fits, jnp.nan)
        # Rounding of probabilities is no density.
        log_density = jnp.where(is_seen | ~can_be, logsumexp(scores), 0.0)
        probs = jax.nn.softmax(scores)
        return FilterState(
            probs,
            jnp.einsum("i,ij->j", probs, self.transition, precision="highest"),
            log_density,
            state.log_prob + log_density,
            state.num_rows + 1,
        )

    def _can_be(self, row: Float[Array, " C"]) -> Bool[Array, ""]:
        """False for a row with an infinite cell, or whose label is no number of a state."""
        is_finite = ~jnp.isinf(row).any()
        if not self.emission.has_labels:
            return is_finite
        is_state = (row[-1] == jnp.arange(len(self.initial), dtype=row.dtype)).any()
        return is_finite & (is_state | jnp.isnan(row[-1]))

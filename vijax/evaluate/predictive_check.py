"""Posterior predictive checks: could the fitted model have made data with this statistic?"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.checks import require
from vijax.contract.model import num_arguments
from vijax.xla.frozen import snapshot


class PredictiveCheck(NamedTuple):
    """A statistic of the data beside its posterior predictive distribution.

    Attributes:
      observed: statistic of the data, (*shape); if it reads the globals, at each draw of these,
          (draws, *shape).
      replicated: statistic of replicated data, (draws, *shape).
      p_value: share of the draws whose statistic is at least the observed one, (*shape). Near 0 or
        1 the model does not make such data.
      name: name of the statistic.
    """

    observed: Float[np.ndarray, ...]
    replicated: Float[np.ndarray, "draws ..."]
    p_value: Float[np.ndarray, ...]
    name: str = "statistic"

    @property
    def reads_globals(self) -> bool:
        """True where the statistic reads the globals."""
        return self.observed.ndim == self.replicated.ndim

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Central interval of the statistic of replicated data."""
        require(0 < level < 1, "level", "a probability between 0 and 1", level)
        low, high = np.quantile(self.replicated, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
        return low, high

    def plot(self) -> Any:
        """A picture, see `vijax.plots.predictive_check`."""
        from vijax.evaluate.plots import predictive_check

        return predictive_check(self)

    def _repr_png_(self) -> bytes | None:
        """The picture that a notebook shows."""
        try:
            figure = self.plot()
        except ImportError:  # without Matplotlib the numbers are shown
            return None
        picture = io.BytesIO()
        figure.savefig(picture, format="png")
        return picture.getvalue()

    def __str__(self) -> str:
        if np.ndim(self.p_value):
            extreme = int(np.sum((self.p_value < 0.025) | (self.p_value > 0.975)))
            return (
                f"{self.name}: {extreme} of {self.p_value.size} entries with a p-value below 0.025 "
                "or above 0.975"
            )
        low, high = self.interval()
        observed = f"{np.mean(self.observed):.4g}" + (" on average" if self.reads_globals else "")
        return (
            f"{self.name}: {observed}; replicated {low:.4g} to {high:.4g} (95 %); p-value "
            f"{float(self.p_value):.3f}"
        )


def predictive_check(
    fit: Any,
    statistic: Callable[..., Any],
    data: Any,
    *,
    key: PRNGKeyArray,
    num_draws: int = 1000,
    groups: Literal["new", "same"] = "same",
    name: str = "",
) -> PredictiveCheck:
    """Compares a statistic of the data with those of data that the fit makes (Gelman, Meng and
    Stern 1996; Gabry et al. 2019).

    Args:
      fit: fit of any model that draws data (`Fit.predictive`).
      statistic: a function made of functions of jax.numpy: `statistic(y)` of one data set in the
        form of `Fit.predictive`, a number or an array of them; or `statistic(y, values)`, which
        also reads the globals by name, such as a sum of squared residuals (a discrepancy). Entries
        that are missing in the data, and padding, are NaN in both: use jnp.nanmean and its like.
      data: as `vijax.fit` takes them; for Gaussian processes and GLMs `model.data`, or a pair
          (inputs, y).
      key: random key of the draws.
      num_draws: number of data sets. A p-value has a standard error of sqrt(p (1 - p) / num_draws).
      groups: "same", the groups of the data once more, at their own locals; or "new", groups like
        them, which also checks the population.
      name: name of the statistic in texts and pictures; the function's name if empty.

    Returns:
      A `PredictiveCheck`: `print(check)`, `check.p_value`, `check.plot()`; a notebook shows its
      picture.

    Raises:
      ValueError: see `Fit.predictive`; a statistic that is not finite.

    A Poisson model of counts that vary more than it can:

    >>> import vijax as vi
    >>> y = np.random.default_rng(0).negative_binomial(1, 0.2, size=(200, 1)).astype(float)
    >>> model = vi.models.mixture(vi.models.emission.poisson(1, dim=1))
    >>> fit = vi.fit(vi.cavi(model), y, num_steps=3, key=jax.random.key(0))
    >>> print(predictive_check(fit, jnp.var, y, key=jax.random.key(1)).p_value)
    0.0
    """
    from vijax.data.schema.named_columns import in_order_of
    from vijax.predict.predictive import draw_data, observed_data

    require(callable(statistic), "statistic", "a function of the data", type(statistic).__name__)
    data = in_order_of(fit.columns, data)
    seen = observed_data(fit, data)
    reads = num_arguments(statistic) > 1
    pairs = draw_data(
        fit, key, num_draws, data, groups, _Compared(snapshot(statistic), reads), seen
    )
    replicated, here = jax.tree.map(np.asarray, pairs)
    found = here if reads else here[0]
    for what, numbers in (("the data", found), ("replicated data", replicated)):
        remedy = "Missing entries and padding are NaN: use jnp.nanmean, jnp.nanmax and their like."
        require(np.isfinite(numbers), "statistic", f"finite numbers of {what}", numbers, remedy)
    p_value = np.mean(replicated >= here, axis=0)
    return PredictiveCheck(
        found, replicated, p_value, name or getattr(statistic, "__name__", "statistic")
    )


@dataclasses.dataclass(frozen=True)
class _Compared:
    """The statistic of replicated data, without entries that the data lack, and the statistic of
    the data."""

    statistic: Callable[..., Any]
    reads_globals: bool

    def __call__(self, y: PyTree, values: Any, seen: PyTree) -> tuple[Array, Array]:
        masked = jax.tree.map(lambda new, old: jnp.where(jnp.isnan(old), old, new), y, seen)
        more = (values,) if self.reads_globals else ()
        return jnp.asarray(self.statistic(masked, *more), float), jnp.asarray(
            self.statistic(seen, *more), float
        )

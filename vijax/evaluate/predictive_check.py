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
    """A statistic of the data and its posterior predictive distribution.

    Attributes:
      observed: statistic of the data, (*shape); if it reads the globals, the statistic at each draw
          of the globals, (draws, *shape).
      replicated: statistic of replicated data, (draws, *shape).
      p_value: share of the draws whose statistic is at least that of the data, (*shape). Near 0 or
        1 the model does not generate data like these.
      name: name of the statistic.
    """

    observed: Float[np.ndarray, ...]
    replicated: Float[np.ndarray, "draws ..."]
    p_value: Float[np.ndarray, ...]
    name: str = "statistic"

    @property
    def reads_globals(self) -> bool:
        """True if the statistic reads the globals."""
        return self.observed.ndim == self.replicated.ndim

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Central interval of the statistic of replicated data."""
        require(0 < level < 1, "level", "a probability between 0 and 1", level)
        low, high = np.quantile(self.replicated, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
        return low, high

    def plot(self) -> Any:
        """A picture; see `vijax.plots.predictive_check`."""
        from vijax.evaluate.plots import predictive_check

        return predictive_check(self)

    def _repr_png_(self) -> bytes | None:
        """The picture that a notebook shows."""
        try:
            figure = self.plot()
        except ImportError:  # without Matplotlib a notebook shows the numbers
            return None
        picture = io.BytesIO()
        figure.savefig(picture, format="png")
        return picture.getvalue()

    def __str__(self) -> str:
        if np.ndim(self.p_value):
            extreme = int(np.sum((self.p_value < 0.05) | (self.p_value > 0.95)))
            entries = f"{self.name}: {extreme} of {self.p_value.size} entries"
            return f"{entries} with a p-value below 0.05 or above 0.95"
        low, high = self.interval()
        observed = f"{np.mean(self.observed):.4g}"
        if self.reads_globals:
            observed += " on average"
        replicated = f"replicated {low:.4g} to {high:.4g} (90 %)"
        return f"{self.name}: {observed}; {replicated}; p-value {float(self.p_value):.3f}"


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
    """Compares a statistic of the data with the statistic of data that the fit generates (Gelman,
    Meng and Stern 1996; Gabry et al. 2019).

    Args:
      fit: fit of any model that draws data (`Fit.predictive`).
      statistic: a function that uses jax.numpy and returns a number or an array of numbers:
        `statistic(y)` of one data set in the form of `Fit.predictive`; or `statistic(y, values)`,
        which also reads the globals by name, such as a sum of squared residuals (a discrepancy).
        Missing entries of the data, and padding, are NaN in both: use functions like jnp.nanmean.
      data: as `vijax.fit` takes them; for Gaussian processes and GLMs `model.data`, or a pair
          (inputs, y).
      key: random key of the draws.
      num_draws: number of data sets. A p-value has a standard error of sqrt(p (1 - p) / num_draws).
      groups: "same", new data of the groups of the data, with their locals; or "new", new groups,
        which also checks the population.
      name: name of the statistic in texts and pictures; if empty, the name of the function.

    Returns:
      A `PredictiveCheck`: `print(check)`, `check.p_value`, `check.plot()`; a notebook shows its
      picture.

    Raises:
      ValueError: as for `Fit.predictive`, or a statistic that is not finite.

    A Poisson model of counts that vary more than Poisson counts:

    >>> import vijax as vi
    >>> y = np.random.default_rng(0).negative_binomial(1, 0.2, size=(200, 1)).astype(float)
    >>> model = vi.models.mixture(vi.models.emission.poisson(1, dim=1))
    >>> fit = vi.fit(vi.cavi(model), y, num_steps=3, key=jax.random.key(0))
    >>> print(predictive_check(fit, jnp.var, y, key=jax.random.key(1)).p_value)
    0.0
    """
    from vijax.data.schema.named_columns import order_by_names
    from vijax.predict.predictive import draw_data, observed_data

    require(callable(statistic), "statistic", "a function of the data", type(statistic).__name__)
    data = order_by_names(fit.columns, data)
    observations = observed_data(fit, data)
    reads_globals = num_arguments(statistic) > 1
    read = _StatisticPair(snapshot(statistic), reads_globals)
    pairs = draw_data(fit, key, num_draws, data, groups, read, observations)
    replicated, observed = jax.tree.map(np.asarray, pairs)
    p_value = np.mean(replicated >= observed, axis=0)
    if not reads_globals:
        observed = observed[0]
    remedy = "Missing entries and padding are NaN: use jnp.nanmean, jnp.nanmax and their like."
    for source, numbers in (("the data", observed), ("replicated data", replicated)):
        require(np.isfinite(numbers), "statistic", f"finite numbers of {source}", numbers, remedy)
    name = name or getattr(statistic, "__name__", "statistic")
    return PredictiveCheck(observed, replicated, p_value, name)


@dataclasses.dataclass(frozen=True)
class _StatisticPair:
    """Reads a draw as two numbers: the statistic of the replicated data, without the entries that
    the data lack, and the statistic of the data."""

    statistic: Callable[..., Any]
    reads_globals: bool

    def __call__(self, y: PyTree, values: Any, observations: PyTree) -> tuple[Array, Array]:
        keep_missing = lambda new, old: jnp.where(jnp.isnan(old), old, new)
        y = jax.tree.map(keep_missing, y, observations)
        arguments = (values,) if self.reads_globals else ()
        replicated = jnp.asarray(self.statistic(y, *arguments), float)
        return replicated, jnp.asarray(self.statistic(observations, *arguments), float)

"""Tables drawn from a run: for each kind of model, how to draw, and how draws become rows of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from vijax.app.kinds.listing import Drawing, Seen
from vijax.app.kinds.tables import design, padded_sequences, values
from vijax.app.rows.by_row import checked, rows_of_steps


def of_rows(arrange: Any = values, is_scaled: Any = lambda settings: True) -> Drawing:
    """The drawing of models of rows: all columns.

    Args:
      arrange: (table, [model]) -> rows as the model reads them.
      is_scaled: see `Drawing`.
    """

    def draw(seen: Seen, table: Any, key: PRNGKeyArray, num_draws: int, groups: Any) -> np.ndarray:
        like = checked(seen, arrange(table, seen.settings))
        return np.asarray(seen.fit.predictive(key, num_draws, like, groups=groups))

    return Drawing(draw, is_scaled=is_scaled)


def _targets(seen: Seen, table: Any, key: PRNGKeyArray, num_draws: int, groups: Any) -> np.ndarray:
    del groups  # a row is a group of its own, without locals
    inputs = design(table, seen.settings)
    return np.asarray(seen.fit.predictive(key, num_draws, inputs))[..., None]


def _steps(seen: Seen, table: Any, key: PRNGKeyArray, num_draws: int, groups: Any) -> np.ndarray:
    y, mask = checked(seen, padded_sequences(table))
    draws = np.asarray(seen.fit.predictive(key, num_draws, (y, mask), groups=groups))[:, mask]
    placed: Float[np.ndarray, "draws N D"] = np.empty_like(draws)
    placed[:, rows_of_steps(table)] = draws
    return placed


ROWS = of_rows()
"""For mixtures and factors: all columns."""
TARGETS = Drawing(_targets, of_target=True)
"""For regressions: the target, given the columns."""
SEQUENCES = Drawing(_steps, of_steps=True)
"""For models of sequences: all columns of each step."""


def new_rows(seen: Seen, key: PRNGKeyArray, num_draws: int, sizes: Any) -> tuple[np.ndarray, dict[str, Any]]:
    """New rows, and the columns beside them: `sizes` is a number of rows, or the lengths of sequences."""
    draws = np.asarray(seen.fit.predictive(key, num_draws, sizes))
    if draws.ndim == 3:
        return draws, {"row": np.arange(draws.shape[1])}
    lengths = np.asarray(sizes)
    mask = np.arange(draws.shape[2]) < lengths[:, None]
    sequence, step = np.nonzero(mask)
    return draws[:, mask], {"sequence": sequence, "step": step}


def rows_ahead(
    seen: Seen, table: Any, key: PRNGKeyArray, num_draws: int, num_steps: int
) -> tuple[np.ndarray, dict[str, Any]]:
    """The next steps of each sequence, and the columns beside them."""
    y, mask = checked(seen, padded_sequences(table))
    draws = np.asarray(seen.fit.forecast(key, num_draws, (y, mask), num_steps))
    steps = np.tile(np.arange(1, num_steps + 1), len(y))
    names = {} if table.groups is None else {table.group: np.repeat(np.array(table.group_names, object), num_steps)}
    return draws.reshape(num_draws, -1, draws.shape[-1]), {**names, "ahead": steps}

"""Models row by row: results in blocks of one size (programs compile once); draws; scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray, PyTree

from vijax.app.rows.times import times_ahead
from vijax.app.sources.listing import Drawing, FittedRun, RowResults, Tell
from vijax.app.sources.tables import design, padded_sequences, values
from vijax.data.tables.table import Table
from vijax.evaluate.score import ratio_estimate
from vijax.fitting.result import Fit
from vijax.numerals import number_and_noun, with_error
from vijax.predict.questions import group_bounds

BLOCK = 16_384
"""Rows per block."""
STEPS = 65_536
"""Steps of sequences per block, padding included."""


def check_data(run: FittedRun, data: Any) -> Any:
    """New data that are possible for the model; ValueError names the first row that is not."""
    check = run.model.form.check
    if check is not None:
        check(data)
    return data


def read_in_blocks(
    read: Callable[[Any], RowResults], data: Any, tell: Tell, size: int = BLOCK
) -> RowResults:
    """The results of `read` for arrays with one leading axis, block by block.

    The last block is filled up with rows from the start, whose results are dropped.

    >>> read_in_blocks(lambda x: {"twice": 2 * x}, np.arange(5), lambda done: None, size=2)
    {'twice': array([0, 2, 4, 6, 8])}
    """
    number = len(jax.tree.leaves(data)[0])
    size = min(size, number)
    parts = []
    for start in range(0, number, size):
        rows = np.arange(start, start + size) % number
        results = read(jax.tree.map(lambda x, rows=rows: x[rows], data))
        stop = min(start + size, number)
        parts.append({name: np.asarray(values)[: stop - start] for name, values in results.items()})
        tell(stop)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def read_sequences_in_blocks(
    read: Callable[[Any], RowResults], table: Table, data: Any, tell: Tell
) -> RowResults:
    """The results of `read` for each step of padded sequences, `data` = (y, mask), in the order of
    the rows of their table. `read` gets some of the sequences at a time."""
    mask = data[1]
    ends = np.cumsum(mask.sum(axis=1))
    tell_rows = lambda done: tell(int(ends[done - 1]))
    results = read_in_blocks(read, data, tell_rows, max(1, STEPS // max(mask.shape[1], 1)))
    return {name: values[mask][step_places(table)] for name, values in results.items()}


def step_places(table: Table) -> np.ndarray:
    """The place of each row among the steps of all sequences, in the order of `Table.sequences`."""
    return np.argsort(table.time_order())


def local_moments(
    local: str, name: str, arrange: Any = values
) -> Callable[[FittedRun, Any, Tell], RowResults]:
    """The `transform` of a model of rows: mean (`name`) and standard deviation (sd) of a local."""

    def transform(run: FittedRun, table: Any, tell: Tell) -> RowResults:
        def read(x: np.ndarray) -> RowResults:
            q = run.fit.locals(x, key=run.key)[local]
            return {name: np.asarray(q.mean()), "sd": np.asarray(q.std())}

        return read_in_blocks(read, check_data(run, arrange(table, run.settings)), tell)

    return transform


# --- draws ----------------------------------------------------------------------------------------
def rows_drawing(arrange: Any = values, is_scaled: Any = lambda settings: True) -> Drawing:
    """Drawings of models of rows: all columns. For the arguments see `Listing` and `Drawing`."""

    def draw(
        run: FittedRun, table: Any, key: PRNGKeyArray, num_draws: int, groups: Any
    ) -> np.ndarray:
        like = check_data(run, arrange(table, run.settings))
        return np.asarray(run.fit.predictive(key, num_draws, like, groups=groups))

    return Drawing(draw, is_scaled=is_scaled)


def _targets(
    run: FittedRun, table: Any, key: PRNGKeyArray, num_draws: int, groups: Any
) -> np.ndarray:
    # Each row is a group without locals, so `groups` makes no difference.
    return np.asarray(run.fit.predictive(key, num_draws, design(table, run.settings)))[..., None]


def sequences_drawing(
    arrange: Any = padded_sequences, is_scaled: Any = lambda settings: True
) -> Drawing:
    """Drawings of models of sequences: all columns of each step."""

    def draw(
        run: FittedRun, table: Any, key: PRNGKeyArray, num_draws: int, groups: Any
    ) -> np.ndarray:
        y, mask = check_data(run, arrange(table, run.settings))
        draws = np.asarray(run.fit.predictive(key, num_draws, (y, mask), groups=groups))[:, mask]
        return draws[:, step_places(table)]

    return Drawing(draw, of_steps=True, is_scaled=is_scaled)


ROWS = rows_drawing()
"""For mixtures and factors: all columns."""
TARGETS = Drawing(_targets, of_target=True)
"""For regressions: the target, given the columns."""
SEQUENCES = sequences_drawing()
"""For models of sequences: all columns of each step."""


def new_rows(
    run: FittedRun, key: PRNGKeyArray, num_draws: int, sizes: Any
) -> tuple[np.ndarray, dict[str, Any]]:
    """New rows, with the columns beside them: `sizes` is a number of rows, or sequence lengths."""
    draws = np.asarray(run.fit.predictive(key, num_draws, sizes))
    if draws.ndim == 3:
        return draws, {"row": np.arange(draws.shape[1])}
    mask = np.arange(draws.shape[2]) < np.asarray(sizes)[:, None]
    sequence, step = np.nonzero(mask)
    return draws[:, mask], {"sequence": sequence, "step": step}


def rows_ahead(
    run: FittedRun, table: Any, data: Any, key: PRNGKeyArray, num_draws: int, num_steps: int
) -> tuple[np.ndarray, dict[str, Any]]:
    """The next steps of each sequence of a table (`data` for the model), and the columns beside."""
    y, mask = check_data(run, data)
    draws = np.asarray(run.fit.forecast(key, num_draws, (y, mask), num_steps))
    steps = np.tile(np.arange(1, num_steps + 1), len(y))
    beside: dict[str, Any] = {}
    if table.groups is not None:
        beside[table.group] = np.repeat(np.array(table.group_names, object), num_steps)
    beside["ahead"] = steps
    beside |= times_ahead(table, num_steps)
    return draws.reshape(num_draws, -1, draws.shape[-1]), beside


# --- scores ---------------------------------------------------------------------------------------
class RowScore(NamedTuple):
    """Log predictive density of held-out data, nats.

    Attributes:
      mean: mean per row (step of a sequence, entry).
      standard_error: standard error of `mean`.
      number: number of rows.
      per: name of a row.
      remarks: further facts, such as errors.
      parts: the log density of each row (or group of rows), and its number of rows.

    >>> print(RowScore.of([-1.0, -3.0], per="row", remarks="1 error"))
    -2.000 ± 1.000 nats per row (2 rows; 1 error)
    """

    mean: float
    standard_error: float
    number: int
    per: str
    remarks: str = ""
    parts: tuple[np.ndarray, np.ndarray] = (np.zeros(0), np.zeros(0))

    @classmethod
    def of(cls, log_densities: Any, per: str, remarks: str = "", sizes: Any = None) -> RowScore:
        """The score of rows from their log densities; or of groups of rows with these sizes."""
        totals: Float[np.ndarray, " n"] = np.asarray(log_densities, np.float64)
        sizes = np.ones(len(totals)) if sizes is None else np.asarray(sizes, np.float64)
        return cls(*ratio_estimate(totals, sizes), int(sizes.sum()), per, remarks, (totals, sizes))

    def __str__(self) -> str:
        remarks = number_and_noun(self.number, self.per)
        if self.remarks:
            remarks += f"; {self.remarks}"
        if not np.isfinite(self.standard_error):
            remarks += "; all in one group, so that its error is not known"
        score = with_error(self.mean, self.standard_error)
        return f"{score} nats per {self.per} ({remarks})"


def sequences(number: int) -> str:
    """The number of sequences, in words.

    >>> sequences(1), sequences(5)
    ('1 sequence', '5 sequences')
    """
    return number_and_noun(number, "sequence")


def bounds(fit: Fit, data: PyTree, key: Any) -> Float[np.ndarray, " groups"]:
    """Bounds on the log densities of held-out groups."""
    return group_bounds(fit.alg.spec, fit.state.hyper, fit.posterior, data, key)

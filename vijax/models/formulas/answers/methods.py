"""The answers of a `Glmm`, as methods."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from jaxtyping import PRNGKeyArray

from vijax.checks import require
from vijax.models.formulas.answers import by_group, questions, variance
from vijax.models.formulas.answers.grid import choose_rows
from vijax.models.formulas.answers.means import Groups, Scale
from vijax.models.formulas.answers.questions import Request
from vijax.models.formulas.answers.table import AnswerTable, Kind
from vijax.models.formulas.draws import Draws
from vijax.xla import keys
from vijax.xla.precision import matching_precision

Method = TypeVar("Method", bound=Callable)


def use_precision_of_fit(method: Method) -> Method:
    """The method, made to compute in the precision of its fit, not in the present precision."""

    @functools.wraps(method)
    def call(self: Any, fit: Any, *args: Any, **kwargs: Any) -> Any:
        with matching_precision(getattr(getattr(fit, "state", None), "posterior", None)):
            return method(self, fit, *args, **kwargs)

    return call  # type: ignore[return-value]


def _to_draws(model: Any, fit: Any, key: PRNGKeyArray, num_draws: int) -> Draws:
    """Draws of a fit; draws themselves stay."""
    if isinstance(fit, Draws):
        return fit
    return model.draws(fit, key, num_draws)


def _draws_and_key(
    model: Any, fit: Any, key: PRNGKeyArray, num_draws: int
) -> tuple[Draws, PRNGKeyArray]:
    """Draws of a fit, and the key of effects of groups that training does not have."""
    key_draws, key_new = keys.split(key)
    return _to_draws(model, fit, key_draws, num_draws), key_new


class Answers:
    """Answers in the units of the response, from draws of a fit of this model.

    All take the fit (or draws of it, by `draws`), `key=` (of the draws), `num_draws=` and `level=`
    (the probability of the intervals), and return an `AnswerTable`, which prints, and whose
    `to_frame()` is a table of pandas. Further arguments in common:

    newdata: rows. None and "rows" take those of training, by their weights; "typical" one row of
      means and most frequent levels; "balanced" all combinations of levels, with numbers at their
      means; or a table.
    at: values by column, {"x": [1, 2], "h": "b"}. All combinations of them; other columns have
      typical values, or, if `newdata` is given too, those of its rows.
    by: a column or several: averages within their values. Columns that the formula does not read
      need `newdata`.
    average: False for an answer at each row. None averages over rows of data, and over a grid where
      `by` is given.
    groups: "same" takes the effects of the group of each row, "new" integrates over the law of
      groups, "zero" leaves effects out. None is "same" where the rows name their groups, else
      "new". The table states it.

    scale: "response" (means; probabilities of categories and of successes), or "link".

    Source: Arel-Bundock, Greifer and Heiss 2024, "How to interpret statistical models using
    marginaleffects for R and Python", Journal of Statistical Software 111(9), sections 2 to 4.
    """

    @use_precision_of_fit
    def predictions(
        self: Any,
        fit: Any,
        *,
        key: PRNGKeyArray,
        newdata: Any = None,
        at: Mapping[str, Any] | None = None,
        by: str | Sequence[str] | None = None,
        average: bool | None = None,
        groups: Groups | None = None,
        scale: Scale = "response",
        level: float = 0.9,
        num_draws: int = 1000,
    ) -> AnswerTable:
        """Means of the response, averaged over rows or at representative values; `Answers`
        describes the arguments.

        >>> import jax, numpy as np, vijax as vi
        >>> x = np.linspace(-1, 1, 40)
        >>> y = 1 + 2 * x + np.sin(50 * x)
        >>> model = vi.glmm("y ~ x", {"y": y, "x": x})
        >>> fit = vi.auto(model, key=jax.random.key(0))
        >>> table = model.predictions(fit, key=jax.random.key(1), at={"x": [0, 1]})
        >>> table.labels["x"].tolist(), table.mean.round(0).tolist()
        ([0.0, 1.0], [1.0, 3.0])
        """
        request = Request(newdata, at, by, average, groups, scale, level)
        draws, key_new = _draws_and_key(self, fit, key, num_draws)
        return questions.predictions(self, draws, key_new, request)

    @use_precision_of_fit
    def comparisons(
        self: Any,
        fit: Any,
        columns: str | Sequence[str] | Mapping[str, Any] | None = None,
        *,
        key: PRNGKeyArray,
        kind: Kind = "difference",
        newdata: Any = None,
        at: Mapping[str, Any] | None = None,
        by: str | Sequence[str] | None = None,
        average: bool | None = None,
        groups: Groups | None = None,
        scale: Scale = "response",
        level: float = 0.9,
        num_draws: int = 1000,
    ) -> AnswerTable:
        """Comparisons of the mean response between values of columns, all else equal.

        Args:
          fit: fit of this model.
          columns: a column, several, or a change by column; None takes all of the terms. Numbers:
            {"x": 5} is five more, {"x": "sd"} one standard deviation more, {"x": (1, 2)} from 1 to
            2; without a change one more, and from 0 to 1 where there are no other values. Levels:
            {"h": "base"} compares with the base level (as without a change), "pairwise" all pairs,
            "sequential" each with the one before, ("a", "b") goes from a to b.
          key: random key of the draws.
          kind: "difference"; "ratio"; "lift", a ratio less one; "odds_ratio" of probabilities;
            "log_ratio", "log_odds_ratio". Averaged ratios are ratios of averages.
          newdata: see `Answers`, as for all others.
          at: values of columns.
          by: columns of averages.
          average: False for an answer at each row.
          groups: treatment of the effects of groups.
          scale: "response" or "link".
          level: probability of the intervals.
          num_draws: number of draws.
        """
        request = Request(newdata, at, by, average, groups, scale, level)
        draws, key_new = _draws_and_key(self, fit, key, num_draws)
        return questions.comparisons(self, draws, key_new, request, columns, kind)

    @use_precision_of_fit
    def slopes(
        self: Any,
        fit: Any,
        columns: str | Sequence[str] | None = None,
        *,
        key: PRNGKeyArray,
        newdata: Any = None,
        at: Mapping[str, Any] | None = None,
        by: str | Sequence[str] | None = None,
        average: bool | None = None,
        groups: Groups | None = None,
        scale: Scale = "response",
        level: float = 0.9,
        num_draws: int = 1000,
    ) -> AnswerTable:
        """Derivatives of the mean response by columns of numbers (None: all of the terms), averaged
        over rows or at representative values; `Answers` describes the arguments. They are central
        differences; where a term jumps they say nothing."""
        request = Request(newdata, at, by, average, groups, scale, level)
        draws, key_new = _draws_and_key(self, fit, key, num_draws)
        return questions.slopes(self, draws, key_new, request, columns)

    @use_precision_of_fit
    def marginal_means(
        self: Any,
        fit: Any,
        columns: str | Sequence[str],
        *,
        key: PRNGKeyArray,
        newdata: Any = "balanced",
        at: Mapping[str, Any] | None = None,
        groups: Groups | None = None,
        scale: Scale = "response",
        level: float = 0.9,
        num_draws: int = 1000,
    ) -> AnswerTable:
        """Means by levels of columns, over a balanced grid of the levels of all others (Searle,
        Speed and Milliken 1980); numbers are at their means. With rows as `newdata` all rows are
        set to each level, so that levels are compared on equal rows; None is the rows of training,
        or typical rows where `at` has values. `predictions(by=)` has the means of rows as they are.
        `pairwise()` of the table has the contrasts. `scale="link"` with `groups="zero"` has the
        numbers of emmeans before it transforms them back."""
        newdata = choose_rows(newdata, at)
        at = questions.all_levels(self, columns, newdata, at)
        request = Request(newdata, at, columns, None, groups, scale, level)
        draws, key_new = _draws_and_key(self, fit, key, num_draws)
        return questions.predictions(self, draws, key_new, request)

    @use_precision_of_fit
    def explained_variance(
        self: Any, fit: Any, *, key: PRNGKeyArray, level: float = 0.9, num_draws: int = 1000
    ) -> AnswerTable:
        """Shares of variance with intervals: R2 marginal (of the common effects) and conditional
        (with those of groups), ICC, also by factor (Nakagawa and Schielzeth 2013), and the Bayesian
        R2 (Gelman, Goodrich, Gabry and Vehtari 2019), which is conditional. The former are on the
        scale of the link, without offsets; they are not defined for shares, beta-binomial,
        zero-inflated binomial and hurdle laws of counts, nor behind a logarithm where a parameter
        has a formula. The latter is on the scale of the response, and not defined for categories.
        ValueError for known standard errors without a sigma, `se(y, s)`."""
        return variance.explain(self, _to_draws(self, fit, key, num_draws), level)

    @use_precision_of_fit
    def effects_by_group(
        self: Any,
        fit: Any,
        *,
        key: PRNGKeyArray,
        total: bool = False,
        level: float = 0.9,
        num_draws: int = 1000,
    ) -> AnswerTable:
        """Effects of all groups, largest first: best predictors with intervals, their numbers of
        rows, and how far each is shrunk. `total` adds the common coefficient of the same column, as
        `coef` of lme4. ValueError for a formula without groups."""
        has_groups = bool(self.design.factors)
        require(has_groups, "formula", "effects of groups, (1 | g)", repr(self.design.formula))
        return by_group.effects_table(self, _to_draws(self, fit, key, num_draws), total, level)

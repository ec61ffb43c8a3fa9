"""Covariates of documents: columns of a formula, standardised, and the group of each document."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from vijax.checks import require
from vijax.data.corpora.corpus import Corpus
from vijax.data.schema.labels import Labels, Levels
from vijax.data.schema.number_arrays import require_same_index
from vijax.data.schema.typed_columns import typed_table
from vijax.models.formulas import formula as formulas
from vijax.spreads import spread_or_one


@dataclasses.dataclass(frozen=True, eq=False)
class Covariates:
    """The columns of the formula of prevalence and the groups of the content column, for the rows
    of training.

    Attributes:
      design: the formula as read.
      centre: subtracted from the columns.
      scale: divisor of the columns: in the model they have mean 0 and standard deviation 1.
      content: the column of groups, or None.
      levels: the groups; None without content.
    """

    design: formulas.Design
    centre: Float[np.ndarray, " P"]
    scale: Float[np.ndarray, " P"]
    content: str | None
    levels: Levels | None

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups; () without content."""
        return () if self.levels is None else self.levels.names

    @classmethod
    def read(cls, prevalence: str, content: str | None, table: Any) -> Covariates:
        """The covariates of a table. ValueError for a formula or column that cannot be read."""
        design = read_terms(prevalence, table)
        levels = None if content is None else _labels(table, content).levels()
        if levels is not None:
            enough = len(levels.names) > 1
            require(enough, "content", "a column of two groups or more", list(levels.names))
        return cls(design, *_standards(design), content, levels)

    @functools.cached_property
    def mark(self) -> str:
        """A text that identifies these covariates: a hash of columns, levels, centre and scale."""
        categories = self.design.common.categories.items()
        levels = [
            (str(node), category.levels, category.contrast.matrix.tolist())
            for node, category in categories
        ]
        learnt = [
            self.design.labels,
            levels,
            self.centre.tolist(),
            self.scale.tolist(),
            self.content,
            self.levels,
        ]
        return hashlib.blake2b(repr(learnt).encode(), digest_size=16).hexdigest()

    def attach(self, corpus: Corpus, table: Any) -> Corpus:
        """Documents with their covariates; the group is the last column. ValueError as by
        `vijax.models.Stm.described`."""
        check_rows(corpus, table)
        columns = (self.design.read_rows(table).x - self.centre) / self.scale
        if self.content is not None and self.levels is not None:
            labels = _labels(table, self.content)
            codes = self.levels.find_codes(labels)
            new = sorted(set(labels.texts()[codes < 0].tolist()))
            expected = f"groups of {self.content!r} that training has ({', '.join(self.groups)})"
            require(not new, "table", expected, new)
            columns = np.column_stack([columns, codes])
        return dataclasses.replace(corpus, covariates=columns, described_by=self.mark)


def read_terms(formula: str, table: Any, argument: str = "prevalence") -> formulas.Design:
    """The design of a formula of covariates and a table. ValueError if it has a response, group
    effects or an offset."""
    is_one = isinstance(formula, str) and formula.strip().startswith("~")
    require(is_one, argument, "~ terms", repr(formula))
    design = formulas.read(formula, table, argument=argument)
    remedy = "Write g for the effects of groups."
    require(not design.factors, argument, "no bars", repr(formula), remedy)
    offsets = [str(offset) for offset in design.common.offsets]
    expected = "no offset, which shares of topics do not have"
    require(not offsets, argument, expected, offsets, "Write the column itself.")
    steps = [columns.label for columns in design.common.steps]
    steps += [smooth.label for smooth in design.common.smooths]
    expected = "columns, whose effects on topics are linear"
    require(not steps, argument, expected, steps, "Write C(x), or bs(x, df=4).")
    require(len(design.labels) > 0, argument, "an intercept or a term", repr(formula))
    return design


BY_PLACE = "set_index(corpus.index)"
"""The call that gives a table the index of the documents, if rows agree by position."""


def check_rows(corpus: Corpus, table: Any) -> None:
    """Raises ValueError unless the table has a row for each document."""
    rows = len(typed_table(table))
    remedy = "Empty documents are kept by vijax.data.read: its rows are those of the table."
    expected = f"{corpus.num_documents} rows, one a document"
    require(rows == corpus.num_documents, "table", expected, rows, remedy)
    check_index(corpus, table)


def check_index(corpus: Corpus, table: Any) -> None:
    """Raises ValueError if the table, or a column of a dict, has another index than the corpus."""
    require_same_index(corpus, "table", table, "corpus", BY_PLACE)
    if isinstance(table, Mapping):
        for name, column in table.items():
            require_same_index(corpus, f"table[{name!r}]", column, "corpus")


def _standards(design: formulas.Design) -> tuple[Float[np.ndarray, " P"], Float[np.ndarray, " P"]]:
    """Means and standard deviations of the columns; 0 and 1 for the intercept. Without an intercept
    no column is centred."""
    x = design.rows.x
    has_intercept = "Intercept" in design.labels
    is_one = np.array([label == "Intercept" for label in design.labels])
    spread = x.std(0) if has_intercept else np.sqrt((x**2).mean(0))
    scale = np.where(is_one, 1.0, spread)
    centre = np.where(is_one | (not has_intercept), 0.0, x.mean(0))
    return centre, spread_or_one(scale, centre)


def _labels(table: Any, column: str) -> Labels:
    """The groups of a column; ValueError if a group is missing."""
    rows = typed_table(table, (column,))
    expected = f"a column of the table ({', '.join(rows.columns)})"
    require(column in rows, "content", expected, column)
    labels = rows.column("content", column).labels()
    missing = np.flatnonzero(labels.missing)
    actual = f"none in {rows.list_rows(missing.tolist())}"
    require(not len(missing), "table", f"a group in each row of {column!r}", actual)
    return labels

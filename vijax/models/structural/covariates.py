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
    """Columns and groups that the formula of prevalence and the column of content make of the rows
    of training.

    Attributes:
      design: the formula as read.
      centre: what is subtracted from its columns.
      scale: what they are divided by: the model sees columns of mean 0 and standard deviation 1.
      content: the column of groups, or None.
      levels: the groups; None without.
    """

    design: formulas.Design
    centre: Float[np.ndarray, " P"]
    scale: Float[np.ndarray, " P"]
    content: str | None
    levels: Levels | None

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups; empty without."""
        return () if self.levels is None else self.levels.names

    @classmethod
    def read(cls, prevalence: str, content: str | None, table: Any) -> Covariates:
        """Those of a table. Raises ValueError on a formula or column that cannot be read."""
        design = read_terms(prevalence, table)
        levels = None if content is None else _labels(table, content).levels()
        enough = levels is None or len(levels.names) > 1
        require(
            enough,
            "content",
            "a column of two groups or more",
            list(levels.names if levels else ()),
        )
        return cls(design, *_standards(design), content, levels)

    @functools.cached_property
    def mark(self) -> str:
        """A text by which these covariates are known again: of their columns, levels, and the
        numbers of training."""
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
        """Documents with their covariates, the group last. Raises ValueError as
        `vijax.models.Stm.described` does."""
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
    """A formula of covariates and a table, read. Raises ValueError where it has a response or group
    effects."""
    is_one = isinstance(formula, str) and formula.strip().startswith("~")
    require(is_one, argument, "~ terms", repr(formula))
    design = formulas.read(formula, table, argument=argument)
    remedy = "Write g for the effects of groups."
    require(not design.factors, argument, "no bars", repr(formula), remedy)
    offsets = [str(offset) for offset in design.common.offsets]
    require(
        not offsets,
        argument,
        "no offset, which shares of topics do not have",
        offsets,
        "Write the column itself.",
    )
    require(len(design.labels) > 0, argument, "an intercept or a term", repr(formula))
    return design


BY_PLACE = "set_index(corpus.index)"
"""The call that gives a table the index of documents: its rows are theirs by place."""


def check_rows(corpus: Corpus, table: Any) -> None:
    """Raises ValueError unless the table has a row for each document."""
    rows = len(typed_table(table))
    remedy = "Empty documents are kept by vijax.data.read: its rows are those of the table."
    require(
        rows == corpus.num_documents,
        "table",
        f"{corpus.num_documents} rows, one a document",
        rows,
        remedy,
    )
    check_index(corpus, table)


def check_index(corpus: Corpus, table: Any) -> None:
    """Raises ValueError where the table, or a column of a dict, names its rows otherwise than the
    corpus does."""
    require_same_index(corpus, "table", table, "corpus", BY_PLACE)
    if isinstance(table, Mapping):
        for name, column in table.items():
            require_same_index(corpus, f"table[{name!r}]", column, "corpus")


def _standards(design: formulas.Design) -> tuple[Float[np.ndarray, " P"], Float[np.ndarray, " P"]]:
    """Means and standard deviations of the columns; 0 and 1 of the intercept. Without an intercept
    none is centred."""
    x, has_intercept = design.rows.x, "Intercept" in design.labels
    is_one = np.array([label == "Intercept" for label in design.labels])
    scale = np.where(is_one, 1.0, x.std(0) if has_intercept else np.sqrt((x**2).mean(0)))
    centre = np.where(is_one | (not has_intercept), 0.0, x.mean(0))
    return centre, spread_or_one(scale, centre)


def _labels(table: Any, column: str) -> Labels:
    """The groups of a column, none of which is missing."""
    rows = typed_table(table, (column,))
    expected = f"a column of the table ({', '.join(rows.columns)})"
    require(column in rows, "content", expected, column)
    labels = rows.column("content", column).labels()
    missing = np.flatnonzero(labels.missing)
    actual = f"none in {rows.list_rows(missing.tolist())}"
    require(not len(missing), "table", f"a group in each row of {column!r}", actual)
    return labels

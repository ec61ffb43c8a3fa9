"""Covariates of documents: columns of a formula, standardised, and the group of each document."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from vijax.checks import require
from vijax.data.corpora.corpus import Corpus
from vijax.models.formulas import formula as formulas


@dataclasses.dataclass(frozen=True, eq=False)
class Covariates:
    """Columns and groups that the formula of prevalence and the column of content make of the rows of training.

    Attributes:
      design: the formula as read.
      centre: what is subtracted from its columns.
      scale: what they are divided by: the model sees columns of mean 0 and standard deviation 1.
      content: the column of groups, or None.
      groups: names of the groups; empty without.
    """

    design: formulas.Design
    centre: Float[np.ndarray, " P"]
    scale: Float[np.ndarray, " P"]
    content: str | None
    groups: tuple[str, ...]

    @classmethod
    def read(cls, prevalence: str, content: str | None, table: Any) -> Covariates:
        """Those of a table. Raises ValueError on a formula or column that cannot be read."""
        design = one_sided(prevalence, table)
        groups = () if content is None else tuple(sorted(set(_names(table, content))))
        require(content is None or len(groups) > 1, "content", "a column of two groups or more", list(groups))
        return cls(design, *_standards(design), content, groups)

    def of(self, corpus: Corpus, table: Any) -> Corpus:
        """Documents with their covariates, the group last. Raises ValueError as `vijax.models.Stm.described` does."""
        check_rows(corpus, table)
        found = (self.design.rows_of(table).x - self.centre) / self.scale
        if self.content is not None:
            places = {name: i for i, name in enumerate(self.groups)}
            names = _names(table, self.content)
            new = sorted(set(names) - set(places))
            require(not new, "table", f"groups of {self.content!r} that training has ({', '.join(self.groups)})", new)
            found = np.column_stack([found, [places[name] for name in names]])
        return dataclasses.replace(corpus, covariates=found)


def one_sided(formula: str, table: Any) -> formulas.Design:
    """A formula of covariates and a table, read. Raises ValueError where it has a response or group effects."""
    require(isinstance(formula, str) and formula.strip().startswith("~"), "prevalence", "~ terms", repr(formula))
    frame = formulas.frame_of(table)
    design = formulas.read(f"of_topics {formula.strip()}", frame.assign(of_topics=0.0))
    remedy = "Write g for the effects of groups."
    require(not design.factors, "prevalence", "no bars", repr(formula), remedy)
    require(len(design.labels) > 0, "prevalence", "an intercept or a term", repr(formula))
    return design


def check_rows(corpus: Corpus, table: Any) -> None:
    """Raises ValueError unless the table has a row for each document."""
    rows = len(formulas.frame_of(table))
    remedy = "Empty documents are kept by vijax.data.read: its rows are those of the table."
    require(rows == corpus.num_documents, "table", f"{corpus.num_documents} rows, one a document", rows, remedy)


def _standards(design: formulas.Design) -> tuple[Float[np.ndarray, " P"], Float[np.ndarray, " P"]]:
    """Means and standard deviations of the columns; 0 and 1 of the intercept. Without an intercept none is centred."""
    x, has_intercept = design.rows.x, "Intercept" in design.labels
    is_one = np.array([label == "Intercept" for label in design.labels])
    scale = np.where(is_one, 1.0, x.std(0) if has_intercept else np.sqrt((x**2).mean(0)))
    return np.where(is_one | (not has_intercept), 0.0, x.mean(0)), np.where(scale > 0, scale, 1.0)


def _names(table: Any, column: str) -> list[str]:
    frame = formulas.frame_of(table)
    require(column in frame, "content", f"a column of the table ({', '.join(map(str, frame.columns))})", column)
    require(not frame[column].isna().any(), "table", f"a group in each row of {column!r}", "missing values")
    return [str(name) for name in frame[column].to_numpy()]

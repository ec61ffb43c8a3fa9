"""Short fits of the rows of the registry, in the precision that users have. Each is made once."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import numpy as np

import vijax as vi
from tests.models.registry import Case, TableCase

FIT_KEY = jax.random.key(0)


class Fitted(NamedTuple):
    """A fit with the model and the data that it was made of; the data of a `TableCase` are its
    table."""

    case: Any
    model: Any
    data: Any
    fit: Any

    def asked(self, data: Any = None, fit: Any = None) -> Any:
        """What the fit says of its groups, or of other ones: arrays with groups leading."""
        data, fit = (self.data if data is None else data), (self.fit if fit is None else fit)
        if isinstance(self.case, TableCase):
            return numbers(self.case.ask(self.model, fit, data))
        return numbers({name: ask(fit, data) for name, ask in self.case.asks.items()})


def numbers(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)


def fit_of(case: Case | TableCase, data: Any = None, model: Any = None, **settings: Any) -> Fitted:
    """A fit of the row's own data or of others."""
    is_table = isinstance(case, TableCase)
    data = (case.table if is_table else case.data) if data is None else data
    if model is None:
        model = case.make(data, None) if is_table else case.make()
    algorithm = getattr(vi, case.algorithm)(model, **case.choices)
    read = model.data if is_table else data
    settings = {"num_steps": case.steps, "key": FIT_KEY, **settings}
    return Fitted(case, model, data, vi.fit(algorithm, read, **settings))


@functools.cache
def fitted(case: Case | TableCase) -> Fitted:
    """The fit of the row's own data."""
    return fit_of(case)


def taken_rows(data: Any, rows: Any) -> Any:
    """These groups of a corpus, a table or arrays."""
    if isinstance(data, vi.data.Corpus):
        return vi.data.Corpus.from_counts(
            data.to_scipy().toarray().astype(int)[rows], data.vocabulary
        )
    return jax.tree.map(lambda x: x[rows], data)


def assert_same(got: Any, wanted: Any, what: str = "") -> None:
    """Equal bit for bit."""
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    for (path, a), b in zip(jax.tree.leaves_with_path(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(
            np.asarray(a), np.asarray(b), err_msg=f"{what}{jax.tree_util.keystr(path)}"
        )

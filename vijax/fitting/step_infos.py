"""The infos of the steps of a chunk, stored so that this costs little."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from vijax.inference.state import Info

Kind = tuple[tuple[int, ...], np.dtype]


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True)
class InfoTables:
    """Infos of many steps: numbers of one shape and dtype share a table. A small step is some
    dozens of calls of a fraction of a microsecond each, and a separate array for each number would
    make it a fifth slower; and few arrays come to the host sooner than many.

    >>> tables = InfoTables.empty(5, {"a": 1.0, "b": 2, "c": 3.0})
    >>> tables = tables.with_row(4, {"a": 7.0, "b": 8, "c": 9.0})
    >>> {name: np.asarray(column).tolist()[-2:] for name, column in tables.infos().items()}
    {'a': [0.0, 7.0], 'b': [0, 8], 'c': [0.0, 9.0]}
    """

    tables: tuple[Any, ...]  # one for each kind, of shape (steps, number of this kind, *shape)
    kinds: tuple[Kind, ...]  # kind of each leaf of an `Info`
    structure: Any  # tree structure of an `Info`

    @classmethod
    def empty(cls, length: int, info: Any) -> Self:
        """Tables with `length` rows of zeros for infos like this one."""
        leaves, structure = jax.tree.flatten(info)
        kinds = tuple((np.shape(leaf), np.dtype(jnp.result_type(leaf))) for leaf in leaves)
        tables = (
            jnp.zeros((length, kinds.count((shape, dtype)), *shape), dtype)
            for shape, dtype in dict.fromkeys(kinds)
        )
        return cls(tuple(tables), kinds, structure)

    def with_row(self, i: Int[Array, ""] | int, info: Any) -> Self:
        """The tables with this info in row i."""
        rows: dict[Kind, list[Any]] = {kind: [] for kind in self.kinds}
        for leaf, kind in zip(jax.tree.leaves(info), self.kinds, strict=True):
            rows[kind].append(leaf)
        tables = (
            table.at[i].set(jnp.stack(row))
            for table, row in zip(self.tables, rows.values(), strict=True)
        )
        return dataclasses.replace(self, tables=tuple(tables))

    def infos(self) -> Info:
        """Each number along a leading axis of steps; views, where the tables are NumPy arrays."""
        tables = dict(zip(dict.fromkeys(self.kinds), self.tables, strict=True))
        columns = {kind: iter(range(table.shape[1])) for kind, table in tables.items()}
        return jax.tree.unflatten(
            self.structure, [tables[kind][:, next(columns[kind])] for kind in self.kinds]
        )

    def tree_flatten(self) -> tuple[tuple, tuple]:
        """The tables are its children."""
        return (self.tables,), (self.kinds, self.structure)

    @classmethod
    def tree_unflatten(cls, static: tuple, children: Any) -> Self:
        """See `tree_flatten`."""
        return cls(*children, *static)

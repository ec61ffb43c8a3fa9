"""The row-by-row form of each family of tables."""

from __future__ import annotations

from typing import Any

from vijax.families.base import Family
from vijax.families.by_row import StoredByRow
from vijax.families.discrete.by_word import DirichletByWord
from vijax.families.discrete.dirichlet import Dirichlet
from vijax.families.scalar.gamma import Gamma
from vijax.families.scalar.gamma_by_row import GammaByRow

STORES: dict[type[Family], Any] = {Dirichlet: DirichletByWord, Gamma: GammaByRow}
"""The families that may be stored row by row: topics are Dirichlets, and items of factorisations
gammas."""


def store_by_row(q: Family, *base: Any) -> StoredByRow:
    """A table stored row by row; `base` are the parameters of its prior that the store reads
    (`DocumentForm.by_word`).

    >>> import jax.numpy as jnp
    >>> type(store_by_row(Dirichlet(jnp.ones((2, 5))), jnp.asarray(0.5))).__name__
    'DirichletByWord'
    """
    return STORES[type(q)].from_law(q, *base)

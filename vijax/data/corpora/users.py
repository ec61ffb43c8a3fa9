"""Users and the items that they took, as a corpus: users are its documents, and items their
words."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import numpy as np
import scipy.sparse

from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.count_tables import are_counts, corpus_of_counts
from vijax.data.corpora.wording import OF_USERS, Wording


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Users(Corpus):
    """Users by items. Unlike documents, users may all be empty: a model can still say what to
    recommend, from what it knows about them besides, or from what it expects of anybody.

    >>> Users.from_counts([[0, 0], [2, 1]], titles=["ann", "bob"])
    Users(2 users, 2 items, 3 counts)
    >>> Users.from_counts([[0, 0]]).num_tokens
    0
    """

    wording: ClassVar[Wording] = OF_USERS
    may_be_empty: ClassVar[bool] = True

    @property
    def plain_kind(self) -> type[Corpus]:
        """`Users`, which may all be empty."""
        return Users


def to_users(users: Any) -> Any:
    """Rows of counts, dense or sparse, as `Users`; anything else unchanged."""
    if isinstance(users, list):
        users = np.asarray(users)
    is_array = (
        isinstance(users, np.ndarray | jax.Array) and users.ndim == 2 and users.dtype != object
    )
    if is_array or scipy.sparse.issparse(users):
        return Users.from_counts(users, where="users")
    if are_counts(users):
        return corpus_of_counts(users, Users, "users")
    return users

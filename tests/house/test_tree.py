"""Dataclasses as pytrees: children, static fields, and structures that tell classes apart."""

import dataclasses

import jax
import numpy as np
import pytest

import vijax as vi
from vijax.tree import register


@register
@dataclasses.dataclass(frozen=True)
class Other:
    """As many fields as `Documents`, of the same kinds."""

    a: object
    b: object
    c: object
    size: int = dataclasses.field(metadata={"static": True})


ARRAYS = np.arange(4).reshape(2, 2), np.ones((2, 2)), np.ones(2)


def test_documents_come_back_with_their_static_field():
    docs = vi.Documents(*ARRAYS, max_tokens=3)
    leaves, structure = jax.tree.flatten(docs)
    assert len(leaves) == 3
    back = jax.tree.unflatten(structure, leaves)
    assert back.max_tokens == 3
    np.testing.assert_array_equal(back.words, docs.words)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(docs)]
    assert paths == [".words", ".counts", ".weights"]


@pytest.mark.parametrize(
    "unlike", [Other(*ARRAYS, 3), vi.Documents(*ARRAYS, 4)], ids=["class", "static"]
)
def test_a_structure_is_of_one_class_and_one_size(unlike):
    docs = vi.Documents(*ARRAYS, max_tokens=3)
    assert jax.tree.structure(docs) != jax.tree.structure(unlike)
    with pytest.raises(ValueError, match=r"(?i)mismatch|different|expected"):
        jax.tree.map(np.add, docs, unlike)

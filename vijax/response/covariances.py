"""Covariances of named quantities."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PyTree

from vijax.checks import require


class Covariances(NamedTuple):
    """Covariances of all entries of some quantities.

    Attributes:
      means: expectations under q, a tree.
      matrix: (M, M), in the order of `names`.
      names: names of the M entries: "w[0]", "w[1]", "scale".
    """

    means: PyTree
    matrix: Float[np.ndarray, "M M"]
    names: list[str]

    @property
    def sds(self) -> PyTree:
        """Standard deviations, in the tree and shapes of `means`."""
        return self._shaped(np.sqrt(np.diag(self.matrix)))

    def of(self, one: Any, other: Any = None) -> Float[np.ndarray, "m n"]:
        """Returns the block of one quantity, or of two, by their keys in `means`.

        Raises:
          ValueError: there is no such key.
        """
        return self.matrix[np.ix_(self._places(one), self._places(one if other is None else other))]

    def _places(self, name: Any) -> Float[np.ndarray, " m"]:
        known = isinstance(self.means, dict) and name in self.means
        require(
            known,
            "name",
            f"one of {list(self.means) if isinstance(self.means, dict) else 'a dict'}",
            repr(name),
        )
        return np.concatenate(
            [np.ravel(x) for x in jax.tree.leaves(self._shaped(np.arange(len(self.names)))[name])]
        )

    def _shaped(self, flat: np.ndarray) -> PyTree:
        leaves = jax.tree.leaves(self.means)
        ends = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]
        parts = [
            part.reshape(np.shape(leaf))
            for part, leaf in zip(np.split(flat, ends), leaves, strict=True)
        ]
        return jax.tree.unflatten(jax.tree.structure(self.means), parts)


def covariances(means: PyTree, matrix: Float[np.ndarray, "M M"]) -> Covariances:
    """Returns covariances with names, symmetric to the last digit.

    Raises:
      ValueError: the matrix is no covariance.

    >>> found = covariances({"w": np.zeros(2), "b": 1.0}, np.diag([4.0, 9.0, 16.0]))
    >>> found.names, found.sds["b"], found.of("w").tolist()
    (['b', 'w[0]', 'w[1]'], array(2.), [[9.0, 0.0], [0.0, 16.0]])
    """
    means = jax.tree.map(np.asarray, means)
    matrix = 0.5 * (matrix + matrix.T)
    remedy = "The fit is at no maximum of its bound: run it to convergence, or from another start."
    least = (
        np.linalg.eigvalsh(_scaled(matrix)).min(initial=0.0)
        if np.isfinite(matrix).all()
        else -np.inf
    )
    require(
        least > -1e-3,
        "fit",
        "one whose linear response is a covariance",
        f"an eigenvalue of {least:.3g}",
        remedy,
    )
    return Covariances(means, matrix, _names(means))


def _scaled(matrix: np.ndarray) -> np.ndarray:
    """Returns a matrix scaled to correlations, negative variances kept as they are."""
    scale = np.sqrt(np.abs(np.diag(matrix)))
    scale = np.where(scale > 0, scale, 1.0)
    return matrix / scale / scale[:, None]


def _names(means: PyTree) -> list[str]:
    paths, _ = jax.tree_util.tree_flatten_with_path(means)
    names = []
    for path, leaf in paths:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        places = (
            ["[" + ", ".join(map(str, i)) + "]" for i in np.ndindex(leaf.shape)]
            if leaf.shape
            else [""]
        )
        names += [name + place for place in places]
    return names

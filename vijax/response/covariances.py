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
      means: expectations under q, a tree of arrays.
      matrix: the covariances, (M, M), in the order of `names`.
      names: names of the M entries, such as "w[0]", "w[1]", "scale".
    """

    means: PyTree
    matrix: Float[np.ndarray, "M M"]
    names: list[str]

    @property
    def sds(self) -> PyTree:
        """Standard deviations, as a tree with the shapes of `means`."""
        return self._unflatten(np.sqrt(np.diag(self.matrix)))

    def of(self, one: Any, other: Any = None) -> Float[np.ndarray, "m n"]:
        """Returns the block of one quantity, or of two, by their keys in `means`.

        Raises:
          ValueError: the key is unknown.
        """
        rows = self._places(one)
        columns = rows if other is None else self._places(other)
        return self.matrix[np.ix_(rows, columns)]

    def _places(self, name: Any) -> Float[np.ndarray, " m"]:
        """The indices of the entries of one quantity."""
        is_dict = isinstance(self.means, dict)
        names = list(self.means) if is_dict else "a dict"
        require(is_dict and name in self.means, "name", f"one of {names}", repr(name))
        places = self._unflatten(np.arange(len(self.names)))[name]
        return np.concatenate([np.ravel(x) for x in jax.tree.leaves(places)])

    def _unflatten(self, flat: np.ndarray) -> PyTree:
        """The entries as a tree with the shapes of `means`."""
        leaves = jax.tree.leaves(self.means)
        ends = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]
        pairs = zip(np.split(flat, ends), leaves, strict=True)
        parts = [part.reshape(np.shape(leaf)) for part, leaf in pairs]
        return jax.tree.unflatten(jax.tree.structure(self.means), parts)


def covariances(means: PyTree, matrix: Float[np.ndarray, "M M"]) -> Covariances:
    """Returns covariances with names, exactly symmetric.

    Raises:
      ValueError: the matrix is not a covariance.

    >>> result = covariances({"w": np.zeros(2), "b": 1.0}, np.diag([4.0, 9.0, 16.0]))
    >>> result.names, result.sds["b"], result.of("w").tolist()
    (['b', 'w[0]', 'w[1]'], array(2.), [[9.0, 0.0], [0.0, 16.0]])
    """
    means = jax.tree.map(np.asarray, means)
    matrix = 0.5 * (matrix + matrix.T)
    smallest = -np.inf
    if np.isfinite(matrix).all():
        smallest = np.linalg.eigvalsh(_as_correlations(matrix)).min(initial=0.0)
    expected = "one whose linear response is a covariance"
    remedy = "The fit is at no maximum of its bound: run it to convergence, or from another start."
    require(smallest > -1e-3, "fit", expected, f"an eigenvalue of {smallest:.3g}", remedy)
    return Covariances(means, matrix, _names(means))


def _as_correlations(matrix: np.ndarray) -> np.ndarray:
    """Returns a matrix scaled to correlations; negative variances become -1."""
    scale = np.sqrt(np.abs(np.diag(matrix)))
    scale = np.where(scale > 0, scale, 1.0)
    return matrix / scale / scale[:, None]


def _names(means: PyTree) -> list[str]:
    """The names of all entries."""
    paths, _ = jax.tree_util.tree_flatten_with_path(means)
    names = []
    for path, leaf in paths:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        places = [""]
        if leaf.shape:
            places = ["[" + ", ".join(map(str, i)) + "]" for i in np.ndindex(leaf.shape)]
        names += [name + place for place in places]
    return names

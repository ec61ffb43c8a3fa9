"""Clusters that lie on a curve, and the networks that learn it."""

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

Layers = list[tuple[jax.Array, jax.Array]]


class Bent(NamedTuple):
    """Points of the plane, float32, and the cluster that each is of."""

    points: np.ndarray
    labels: np.ndarray


def bent_clusters(num: int = 600) -> Bent:
    """Three normal clusters on a line, bent by a sine, with noise of 0.1."""
    rng = np.random.default_rng(0)
    labels = rng.choice(3, num, p=[0.5, 0.3, 0.2])
    u = rng.normal(np.array([-3.0, 0.0, 3.0])[labels], 0.5)
    return Bent(np.float32(np.c_[u, 2 * np.sin(1.2 * u)] + 0.1 * rng.normal(size=(num, 2))), labels)


def perceptron(key: Any, sizes: list[int]) -> Layers:
    """Weights and shifts of layers of these sizes."""
    keys = jax.random.split(key, len(sizes) - 1)
    pairs = itertools.pairwise(sizes)
    return [
        (jax.random.normal(k, s) / np.sqrt(s[0]), jnp.zeros(s[1]))
        for k, s in zip(keys, pairs, strict=True)
    ]


def network(layers: Layers, h: Any) -> Any:
    """What they return, with tanh between them."""
    for w, b in layers[:-1]:
        h = jnp.tanh(h @ w + b)
    return h @ layers[-1][0] + layers[-1][1]

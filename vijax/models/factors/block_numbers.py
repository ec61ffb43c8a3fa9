"""Which block is which: the blocks of a graph are numbered as those of other graphs, or of a fit.

Clustering finds blocks without numbers. Mean field changes single nodes, so it does not exchange
whole blocks. A graph whose blocks begin with other numbers than the rates have would end at a wrong
fixed point: its nodes in another order would be other blocks, and rates of several graphs would be
averages over blocks that have nothing in common.

With A_kl edges and P_kl pairs between blocks k and l of a graph, and n_k nodes, the numbering is a
permutation s with

    sum_kl A_kl per_edge[s_k, s_l] + P_kl per_pair[s_k, s_l] + sum_k n_k log_weight[s_k]

as large as exchanges of two numbers make it, from each of some first permutations: from all of them
where they are few."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

FEW = 120
"""Permutations up to which all are tried."""
STARTS = 20
"""First permutations of more blocks."""


class Sums(NamedTuple):
    """Counts that tell of the blocks of a graph: edges and pairs between them, and their numbers of
    nodes."""

    links: Float[Array, "K K"]
    pairs: Float[Array, "K K"]
    nodes: Float[Array, " K"]


class Logs(NamedTuple):
    """The terms that an edge, a pair and a node add to the energy, by the numbers of their
    blocks."""

    per_edge: Float[Array, "K K"]
    per_pair: Float[Array, "K K"]
    per_node: Float[Array, " K"]


def numbered(sums: Sums, logs: Logs) -> Int[Array, " K"]:
    """The number of each block of the graph."""
    size = len(sums.nodes)
    if size == 1:
        return jnp.zeros(1, jnp.int32)
    firsts = jnp.asarray(_firsts(size))
    if math.factorial(size) <= FEW:
        energies = jax.vmap(lambda numbers: _energy(sums, logs, numbers))(firsts)
        return firsts[jnp.argmax(energies)]
    firsts = jnp.concatenate([_by_edges(sums, logs)[None], firsts])
    numbers, energies = jax.lax.map(lambda first: _climbed(sums, logs, first), firsts)
    return numbers[jnp.argmax(energies)]


def renumbered(z: Float[Array, "N K"], numbers: Int[Array, " K"]) -> Float[Array, "N K"]:
    """Columns of z at the places that are their numbers."""
    return jnp.zeros_like(z).at[:, numbers].set(z)


def _energy(sums: Sums, logs: Logs, numbers: Int[Array, " K"]) -> Float[Array, ""]:
    between = numbers[:, None], numbers[None, :]
    edges = jnp.vdot(sums.links, logs.per_edge[between]) + jnp.vdot(
        sums.pairs, logs.per_pair[between]
    )
    return edges + jnp.vdot(sums.nodes, logs.per_node[numbers])


def _firsts(size: int) -> Int[np.ndarray, "starts K"]:
    """All permutations where they are few; else some, always the same ones."""
    if math.factorial(size) <= FEW:
        return np.array(list(itertools.permutations(range(size))), np.int32)
    rng = np.random.default_rng(0)
    return np.array(
        [np.arange(size), *(rng.permutation(size) for _ in range(STARTS - 1))], np.int32
    )


def _by_edges(sums: Sums, logs: Logs) -> Int[Array, " K"]:
    """Blocks of many edges a pair have the numbers of which an edge within adds much."""
    density = jnp.diagonal(sums.links) / jnp.maximum(jnp.diagonal(sums.pairs), 1.0)
    return (
        jnp.zeros(len(density), jnp.int32)
        .at[jnp.argsort(density)]
        .set(jnp.argsort(jnp.diagonal(logs.per_edge)).astype(jnp.int32))
    )


def _climbed(
    sums: Sums, logs: Logs, first: Int[Array, " K"]
) -> tuple[Int[Array, " K"], Float[Array, ""]]:
    """The numbers after the best exchange of two, again and again while that gains."""
    size = len(first)
    left, right = map(jnp.asarray, np.triu_indices(size, 1))
    exchanged = lambda numbers, i, j: numbers.at[i].set(numbers[j]).at[j].set(numbers[i])

    def after(numbers: Int[Array, " K"]) -> tuple[Int[Array, " K"], Float[Array, ""]]:
        one = lambda pair: _energy(sums, logs, exchanged(numbers, *pair))
        energies = jax.lax.map(one, (left, right), batch_size=64)
        best = jnp.argmax(energies)
        return exchanged(numbers, left[best], right[best]), energies[best]

    def body(carry: tuple) -> tuple:
        numbers, energy, _, turn = carry
        other, gained = after(numbers)
        is_better = gained > energy
        return (
            jnp.where(is_better, other, numbers),
            jnp.maximum(energy, gained),
            is_better,
            turn + 1,
        )

    start = first, _energy(sums, logs, first), jnp.array(True), 0
    numbers, energy, _, _ = jax.lax.while_loop(
        lambda carry: carry[2] & (carry[3] < 4 * size), body, start
    )
    return numbers, energy

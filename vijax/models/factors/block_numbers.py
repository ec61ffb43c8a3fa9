"""Block numbers of a graph that agree with other graphs or with a fit.

Clustering finds blocks without numbers, and mean field changes single nodes, so that it never
exchanges two blocks. If the blocks of a graph started with other numbers than in the rates, they
would end at a wrong fixed point: the blocks would depend on the order of the nodes, and rates of
several graphs would be averages over unrelated blocks.

With A_kl edges and P_kl pairs between blocks k and l of a graph, and n_k nodes, the numbering is a
permutation s with

    sum_kl A_kl per_edge[s_k, s_l] + P_kl per_pair[s_k, s_l] + sum_k n_k log_weight[s_k]

maximised by exchanges of two numbers from several first permutations. If there are few
permutations, all are tried."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

MOST_PERMUTATIONS = 120
"""Most permutations that are all tried."""
STARTS = 20
"""First permutations for more blocks."""


class Sums(NamedTuple):
    """Counts of the blocks of a graph: edges and pairs between them, and nodes."""

    links: Float[Array, "K K"]
    pairs: Float[Array, "K K"]
    nodes: Float[Array, " K"]


class Logs(NamedTuple):
    """The terms of an edge, a pair and a node in the energy, by block number."""

    per_edge: Float[Array, "K K"]
    per_pair: Float[Array, "K K"]
    per_node: Float[Array, " K"]


def number_blocks(sums: Sums, logs: Logs) -> Int[Array, " K"]:
    """The number of each block of the graph."""
    size = len(sums.nodes)
    if size == 1:
        return jnp.zeros(1, jnp.int32)
    firsts = jnp.asarray(_firsts(size))
    if math.factorial(size) <= MOST_PERMUTATIONS:
        energies = jax.vmap(lambda numbers: _energy(sums, logs, numbers))(firsts)
        return firsts[jnp.argmax(energies)]
    firsts = jnp.concatenate([_density_order(sums, logs)[None], firsts])
    numbers, energies = jax.lax.map(lambda first: _climb(sums, logs, first), firsts)
    return numbers[jnp.argmax(energies)]


def permute_columns(z: Float[Array, "N K"], numbers: Int[Array, " K"]) -> Float[Array, "N K"]:
    """z with column k moved to column `numbers[k]`."""
    return jnp.zeros_like(z).at[:, numbers].set(z)


def _energy(sums: Sums, logs: Logs, numbers: Int[Array, " K"]) -> Float[Array, ""]:
    between = numbers[:, None], numbers[None, :]
    edges = jnp.vdot(sums.links, logs.per_edge[between]) + jnp.vdot(
        sums.pairs, logs.per_pair[between]
    )
    return edges + jnp.vdot(sums.nodes, logs.per_node[numbers])


def _firsts(size: int) -> Int[np.ndarray, "starts K"]:
    """All permutations if they are few; else some with a fixed seed."""
    if math.factorial(size) <= MOST_PERMUTATIONS:
        return np.array(list(itertools.permutations(range(size))), np.int32)
    rng = np.random.default_rng(0)
    return np.array(
        [np.arange(size), *(rng.permutation(size) for _ in range(STARTS - 1))], np.int32
    )


def _density_order(sums: Sums, logs: Logs) -> Int[Array, " K"]:
    """Numbers that match dense blocks with large energies of an edge inside the block."""
    density = jnp.diagonal(sums.links) / jnp.maximum(jnp.diagonal(sums.pairs), 1.0)
    by_energy = jnp.argsort(jnp.diagonal(logs.per_edge)).astype(jnp.int32)
    return jnp.zeros(len(density), jnp.int32).at[jnp.argsort(density)].set(by_energy)


def _climb(
    sums: Sums, logs: Logs, first: Int[Array, " K"]
) -> tuple[Int[Array, " K"], Float[Array, ""]]:
    """The numbers after best exchanges of two, repeated while the energy rises; and the energy."""
    size = len(first)
    first_blocks, second_blocks = map(jnp.asarray, np.triu_indices(size, 1))
    exchange = lambda numbers, i, j: numbers.at[i].set(numbers[j]).at[j].set(numbers[i])

    def best_exchange(numbers: Int[Array, " K"]) -> tuple[Int[Array, " K"], Float[Array, ""]]:
        energy_after = lambda pair: _energy(sums, logs, exchange(numbers, *pair))
        energies = jax.lax.map(energy_after, (first_blocks, second_blocks), batch_size=64)
        best = jnp.argmax(energies)
        return exchange(numbers, first_blocks[best], second_blocks[best]), energies[best]

    def body(carry: tuple) -> tuple:
        numbers, energy, _, turn = carry
        new_numbers, new_energy = best_exchange(numbers)
        is_better = new_energy > energy
        return (
            jnp.where(is_better, new_numbers, numbers),
            jnp.maximum(energy, new_energy),
            is_better,
            turn + 1,
        )

    start = first, _energy(sums, logs, first), jnp.array(True), 0
    numbers, energy, _, _ = jax.lax.while_loop(
        lambda carry: carry[2] & (carry[3] < 4 * size), body, start
    )
    return numbers, energy

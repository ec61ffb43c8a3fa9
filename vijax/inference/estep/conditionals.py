"""E-steps of models written as energies, from the complete conditionals of the locals of one group.

The locals come in blocks; variables of one block do not depend on each other. With one block its
conditional is the exact posterior of the locals given the globals, and nothing iterates. A plate of
coupled entries (such as the blocks of a graph's nodes) is a variable whose entries, along its first
axis, depend on each other: they are visited one after the other."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.contract.estep import EStep
from vijax.families import Family

Factors = dict[str, Family]
Stats = dict[str, Any]


class Conditionals(NamedTuple):
    """The locals of one group, as an inference problem."""

    start: Factors  # start of an iteration, by name
    # (names, statistics of all locals) -> the complete conditionals of these names
    condition: Callable[[tuple[str, ...], Stats], Factors]
    blocks: tuple[tuple[str, ...], ...]  # names that can be updated at once, in order
    plates: tuple[str, ...] = ()  # names whose entries are coupled with each other

    @property
    def is_coupled(self) -> bool:
        """True if any local depends on another."""
        return len(self.blocks) > 1 or bool(self.plates)

    def split(self, block: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The plates of a block, and the names of its other locals."""
        plates = tuple(name for name in block if name in self.plates)
        return plates, tuple(name for name in block if name not in plates)


class OfConditionals(EStep, abc.ABC):
    """An E-step for the locals of an energy, from their complete conditionals."""

    @abc.abstractmethod
    def conditionals(self, problem: Conditionals, key: PRNGKeyArray) -> InferredLocals:
        """Infers the locals of one group."""


class InferredLocals(NamedTuple):
    """The result of an E-step for the locals of one group. The bound of the model is the mean of
    its energy over `states`, plus `gap`."""

    # A family for each local, by name: the factors of q; for a sampler, the conditionals of its
    # last sweep
    factors: Factors
    # Statistics of all locals by name, with a leading axis of states. Mean field has one state, the
    # mean statistics; Gibbs the draws of each sweep after the burn-in. Draws of coupled locals are
    # not averaged: a product of means is no mean of products
    states: Stats
    # Mean over states of sum_z A(l) - <l, t(z)>, with l the natural parameters of the factor of z:
    # minus the log density of z without its base measure
    gap: Float[Array, ""]


def coordinate_ascent(problem: Conditionals, max_iters: int, tol: float) -> InferredLocals:
    """Mean field by blocks (Blei, Kucukelbir and McAuliffe 2017, Algorithm 1): each conditional at
    the others' mean statistics, until a sweep moves no statistic by more than `tol` of its
    scale."""
    if not problem.is_coupled:
        factors, _ = _sweep(problem, problem.start, _means(problem.start))
        return _mean_field_result(factors)

    def body(carry: Any) -> Any:
        factors, _, iteration = carry
        before = _means(factors)
        factors, means = _sweep(problem, factors, before)
        # The maximum of no numbers is 0: sequences of one step have no transitions.
        largest = lambda a: jnp.max(jnp.abs(a), initial=0.0)
        gaps = jax.tree.map(lambda a, b: largest(a - b) / (1e-6 + largest(b)), before, means)
        return factors, jnp.max(jnp.array(jax.tree.leaves(gaps))), iteration + 1

    factors, _, _ = jax.lax.while_loop(
        lambda carry: (carry[1] > tol) & (carry[2] < max_iters),
        body,
        (problem.start, jnp.array(jnp.inf), 0),
    )
    return _mean_field_result(factors)


def fixed_sweeps(problem: Conditionals, num_sweeps: int) -> InferredLocals:
    """Mean field by blocks in a fixed number of sweeps, so that derivatives pass through them."""
    body = lambda carry, _: (_sweep(problem, *carry), None)
    start = dict(problem.start), _means(problem.start)
    (factors, _), _ = jax.lax.scan(body, start, length=num_sweeps if problem.is_coupled else 1)
    return _mean_field_result(factors)


def gibbs_sweeps(
    problem: Conditionals, key: PRNGKeyArray, num_sweeps: int, burn_in: int
) -> InferredLocals:
    """Draws of the locals, block after block from their complete conditionals, in `num_sweeps`
    sweeps after `burn_in` others. A single block needs no burn-in, because its draws are
    independent.

    The bound estimates the following quantity. Let a sweep start at z' and end at z. It draws block
    b from K_b, the conditional of this block given the blocks already drawn and the later blocks of
    z', and K(z | z') is the product of the K_b. The share of a sweep in the bound is

        log p(y, z | beta) - log K(z | z')  =  E(t(z)) + sum_b A(l_b) - <l_b, t(z_b)>

    (log h cancels). Its mean given z' is the evidence lower bound of the guide K(. | z'). So in
    expectation the bound is below the log evidence after any number of sweeps, from any start; a
    transition of the chain is the guide, as in Salimans, Kingma and Welling 2015. With one block, K
    is the exact posterior, and the bound is log p(y | beta) for any draw. At stationarity the mean
    is

        log p(y | beta) - H(z) + sum_b H(z_b | z_-b),

    and the sum of erasure entropies is at most H(z) (Verdu and Weissman 2008; Han's inequality).
    Only E(t(z)) is differentiated: by Fisher's identity its mean gradient under the posterior is
    the gradient of log p(y | beta). Before stationarity it is the mean gradient under the law of
    the ends of sweeps, hence `burn_in`."""
    if not problem.is_coupled:
        return _independent_draws(problem, key, num_sweeps)
    draws = _draws(problem.start, jax.random.fold_in(key, 2**31 - 1))

    def body(i: Array, carry: Any) -> Any:
        factors, draws, states, gap = carry
        factors, draws, new_gap = _gibbs_sweep(problem, factors, draws, jax.random.fold_in(key, i))
        # Sweeps of the burn-in go to the first slot, which the first sweep after it overwrites.
        slot = jnp.maximum(i - burn_in, 0)
        put = lambda s, d: jax.lax.dynamic_update_index_in_dim(s, d, slot, 0)
        states = jax.tree.map(put, states, draws)
        return factors, draws, states, gap + jnp.where(i >= burn_in, new_gap / num_sweeps, 0.0)

    states = jax.tree.map(lambda d: jnp.zeros((num_sweeps, *d.shape), d.dtype), draws)
    start = dict(problem.start), draws, states, jnp.zeros_like(_gap(problem.start, draws))
    factors, _, states, gap = jax.lax.fori_loop(0, burn_in + num_sweeps, body, start)
    return InferredLocals(factors, states, gap)


def _independent_draws(problem: Conditionals, key: PRNGKeyArray, num_sweeps: int) -> InferredLocals:
    """Draws of a single block from the exact posterior. The energy is affine in all statistics
    together, so the mean of the draws is as good a state as the draws."""
    factors, _ = _sweep(problem, problem.start, _means(problem.start))

    def add(i: Array, total: Stats) -> Stats:
        draws = _draws(factors, jax.random.fold_in(key, i))
        return jax.tree.map(lambda t, d: t + d / num_sweeps, total, draws)

    zeros = jax.tree.map(jnp.zeros_like, jax.eval_shape(lambda: _draws(factors, key)))
    mean = jax.lax.fori_loop(0, num_sweeps, add, zeros)
    return InferredLocals(factors, jax.tree.map(lambda t: t[None], mean), _gap(factors, mean))


def _sweep(problem: Conditionals, factors: Factors, means: Stats) -> tuple[Factors, Stats]:
    """Updates every block once, at the current mean statistics of the others."""
    factors, means = dict(factors), dict(means)
    for block in problem.blocks:
        plates, names = problem.split(block)
        for plate in plates:
            factors, means = _update_entries(
                problem, plate, factors, means, lambda q, i: q.expected_stats()
            )
        if names:
            new = problem.condition(names, means)
            factors.update(new)
            means.update(_means(new))
    return factors, means


def _update_entries(
    problem: Conditionals,
    plate: str,
    factors: Factors,
    stats: Stats,
    choose: Callable[[Family, Array], Any],
) -> tuple[Factors, Stats]:
    """Updates the entries of a plate in turn: the conditional of an entry given the present state
    of all others, and its statistics `choose(conditional, index)`."""
    set_entry = lambda array, i, entry: jax.tree.map(lambda x, e: x.at[i].set(e), array, entry)

    def visit(i: Array, carry: tuple[Family, Any]) -> tuple[Family, Any]:
        factor, plate_stats = carry
        conditional = problem.condition((plate,), {**stats, plate: plate_stats})[plate]
        q = jax.tree.map(lambda x: x[i], conditional)
        return set_entry(factor, i, q), set_entry(plate_stats, i, choose(q, i))

    size = jax.tree.leaves(factors[plate])[0].shape[0]
    factor, plate_stats = jax.lax.fori_loop(0, size, visit, (factors[plate], stats[plate]))
    return {**factors, plate: factor}, {**stats, plate: plate_stats}


def _gibbs_sweep(
    problem: Conditionals, factors: Factors, draws: Stats, key: PRNGKeyArray
) -> tuple[Factors, Stats, Float[Array, ""]]:
    """Draws every block once, given the present state of the others. Returns the factors, the
    draws, and their gap."""
    factors, draws, gaps = dict(factors), dict(draws), []
    for i, block in enumerate(problem.blocks):
        key_block = jax.random.fold_in(key, i)
        plates, names = problem.split(block)
        for j, plate in enumerate(plates):
            key_plate = jax.random.fold_in(key_block, 2**30 + j)
            draw = lambda q, i, key=key_plate: q.sample_stats(jax.random.fold_in(key, i))
            factors, draws = _update_entries(problem, plate, factors, draws, draw)
            gaps.append(_gap({plate: factors[plate]}, {plate: draws[plate]}))
        if names:
            new = problem.condition(names, draws)
            new_draws = _draws(new, key_block)
            gaps.append(_gap(new, new_draws))
            factors.update(new)
            draws.update(new_draws)
    return factors, draws, functools.reduce(jnp.add, gaps)


def _mean_field_result(factors: Factors) -> InferredLocals:
    """The result of mean field with these factors."""
    means = _means(factors)
    gaps = [jnp.sum(q.negative_conjugate(means[name])) for name, q in factors.items()]
    return InferredLocals(factors, jax.tree.map(lambda t: t[None], means), sum(gaps, jnp.zeros(())))


def _means(factors: Mapping[str, Family]) -> Stats:
    return {name: q.expected_stats() for name, q in factors.items()}


def _draws(factors: Mapping[str, Family], key: PRNGKeyArray) -> Stats:
    keys = jax.random.split(key, max(len(factors), 1))
    return {name: q.sample_stats(k) for (name, q), k in zip(factors.items(), keys, strict=False)}


def _gap(factors: Mapping[str, Family], stats: Stats) -> Float[Array, ""]:
    """sum_z A(l) - <l, t>."""
    gaps = [jnp.sum(q.log_normalizer() - q.dot(stats[name])) for name, q in factors.items()]
    return functools.reduce(jnp.add, gaps) if gaps else jnp.zeros(())

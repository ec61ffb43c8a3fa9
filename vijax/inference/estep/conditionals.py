"""E-steps of models written as energies: the local variables of one group, known by their complete
conditionals.

The locals come in blocks, in each of which no variable depends on another. With one block its
conditional is the exact posterior of the locals given the globals, and nothing iterates. A plate of
coupled entries (the blocks of a graph's nodes) is a variable whose entries, along its first axis,
depend on each other: they are visited one after the other."""

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
    """The locals of one group."""

    start: Factors  # start of an iteration, by name
    # (names, statistics of all locals) -> the complete conditionals of those names
    given: Callable[[tuple[str, ...], Stats], Factors]
    blocks: tuple[tuple[str, ...], ...]  # names that can be updated at once, in order
    plates: tuple[str, ...] = ()  # names whose entries are coupled among themselves

    @property
    def coupled(self) -> bool:
        """True where any local depends on another."""
        return len(self.blocks) > 1 or bool(self.plates)

    def split(self, block: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The plates of a block, and its other names."""
        plates = tuple(name for name in block if name in self.plates)
        return plates, tuple(name for name in block if name not in plates)


class OfConditionals(EStep, abc.ABC):
    """An E-step for the locals of an energy, from their complete conditionals."""

    @abc.abstractmethod
    def conditionals(self, problem: Conditionals, key: PRNGKeyArray) -> Inferred:
        """Infers the locals of one group."""


class Inferred(NamedTuple):
    """The result of an E-step for the locals of one group: the model's bound is the mean of its
    energy over `states`, plus `gap`."""

    # A family for each local, by name: the factors of q, or for a sampler the conditionals of its
    # last sweep
    factors: Factors
    # Statistics of all locals by name, with a leading axis of states. One state, the mean
    # statistics, under mean field; under Gibbs the draws of each sweep that is kept. They are not
    # averaged where locals are coupled: a product of means is no mean of products
    states: Stats
    # Mean over states of sum_z A(l) - <l, t(z)>, l the natural parameters of the factor that z
    # comes from: minus the log density of z, its base measure left out
    gap: Float[Array, ""]


def coordinate_ascent(problem: Conditionals, max_iters: int, tol: float) -> Inferred:
    """Mean field by blocks (Blei, Kucukelbir and McAuliffe 2017, Algorithm 1): each conditional at
    the others' mean statistics, until a sweep moves no statistic by more than `tol` of its
    scale."""
    if not problem.coupled:
        factors, _ = _sweep(problem, problem.start, _means(problem.start))
        return _at_means(factors)

    def body(carry: Any) -> Any:
        factors, _, iteration = carry
        old = _means(factors)
        factors, means = _sweep(problem, factors, old)
        largest = lambda a: jnp.max(
            jnp.abs(a), initial=0.0
        )  # of none too: sequences of one step have no transitions
        gaps = jax.tree.map(lambda a, b: largest(a - b) / (1e-6 + largest(b)), old, means)
        return factors, jnp.max(jnp.array(jax.tree.leaves(gaps))), iteration + 1

    factors, _, _ = jax.lax.while_loop(
        lambda carry: (carry[1] > tol) & (carry[2] < max_iters),
        body,
        (problem.start, jnp.array(jnp.inf), 0),
    )
    return _at_means(factors)


def fixed_sweeps(problem: Conditionals, num_sweeps: int) -> Inferred:
    """Mean field by blocks, a fixed number of sweeps, so that derivatives pass through them."""
    body = lambda carry, _: (_sweep(problem, *carry), None)
    start = dict(problem.start), _means(problem.start)
    (factors, _), _ = jax.lax.scan(body, start, length=num_sweeps if problem.coupled else 1)
    return _at_means(factors)


def gibbs_sweeps(
    problem: Conditionals, key: PRNGKeyArray, num_sweeps: int, burn_in: int
) -> Inferred:
    """Draws of the locals, block after block from their complete conditionals: `num_sweeps` sweeps,
    after `burn_in` others, which a single block does not need because its draws are independent.

    The bound is an estimate of the following quantity. Let a sweep start at z' and end at z; it
    draws block b from K_b, its conditional given the blocks already drawn and the blocks of z' that
    are still to come, and K(z | z') is the product of the K_b. A sweep's share of the bound is

        log p(y, z | beta) - log K(z | z')  =  E(t(z)) + sum_b A(l_b) - <l_b, t(z_b)>

    (log h cancels). Its mean given z' is the evidence lower bound of the guide K(. | z'), so that
    the bound is below the log evidence in expectation after any number of sweeps, from any start
    (as in Salimans, Kingma and Welling 2015, a transition of the chain is the guide). With one
    block, K is the exact posterior, and the bound is log p(y | beta) for any draw. At stationarity
    the mean is

        log p(y | beta) - H(z) + sum_b H(z_b | z_-b),

    and the sum of erasure entropies is at most H(z) (Verdu and Weissman 2008; Han's inequality).
    Only E(t(z)) is differentiated: by Fisher's identity its mean gradient under the posterior is
    the gradient of log p(y | beta). Before stationarity it is the mean gradient under the law of
    the sweeps' ends, hence `burn_in`."""
    if not problem.coupled:
        return _independent_draws(problem, key, num_sweeps)
    draws = _draws(problem.start, jax.random.fold_in(key, 2**31 - 1))

    def body(i: Array, carry: Any) -> Any:
        factors, draws, states, gap = carry
        factors, draws, new_gap = _drawn_sweep(problem, factors, draws, jax.random.fold_in(key, i))
        # Sweeps of the burn-in are put in the first slot, where the first sweep kept replaces them.
        place = jnp.maximum(i - burn_in, 0)
        states = jax.tree.map(
            lambda s, d: jax.lax.dynamic_update_index_in_dim(s, d, place, 0), states, draws
        )
        return factors, draws, states, gap + jnp.where(i >= burn_in, new_gap / num_sweeps, 0.0)

    states = jax.tree.map(lambda d: jnp.zeros((num_sweeps, *d.shape), d.dtype), draws)
    start = dict(problem.start), draws, states, jnp.zeros_like(_gap(problem.start, draws))
    factors, _, states, gap = jax.lax.fori_loop(0, burn_in + num_sweeps, body, start)
    return Inferred(factors, states, gap)


def _independent_draws(problem: Conditionals, key: PRNGKeyArray, num_sweeps: int) -> Inferred:
    """Draws of a single block from the exact posterior. Its energy is affine in all statistics
    together, so that the mean of the draws is as good a state as the draws."""
    factors, _ = _sweep(problem, problem.start, _means(problem.start))

    def add(i: Array, total: Stats) -> Stats:
        return jax.tree.map(
            lambda t, d: t + d / num_sweeps, total, _draws(factors, jax.random.fold_in(key, i))
        )

    zeros = jax.tree.map(jnp.zeros_like, jax.eval_shape(lambda: _draws(factors, key)))
    mean = jax.lax.fori_loop(0, num_sweeps, add, zeros)
    return Inferred(factors, jax.tree.map(lambda t: t[None], mean), _gap(factors, mean))


def _sweep(problem: Conditionals, factors: Factors, means: Stats) -> tuple[Factors, Stats]:
    """Updates every block once, at the current mean statistics of the others."""
    factors, means = dict(factors), dict(means)
    for block in problem.blocks:
        plates, rest = problem.split(block)
        for plate in plates:
            factors, means = _entry_by_entry(
                problem, plate, factors, means, lambda q, i: q.expected_stats()
            )
        if rest:
            new = problem.given(rest, means)
            factors.update(new)
            means.update(_means(new))
    return factors, means


def _entry_by_entry(
    problem: Conditionals,
    plate: str,
    factors: Factors,
    stats: Stats,
    taken: Callable[[Family, Array], Any],
) -> tuple[Factors, Stats]:
    """Updates the entries of a plate in turn: the conditional of each given all others as they then
    are, and the statistics that `taken` returns for it (given the conditional and the number of the
    entry)."""
    set_entry = lambda whole, i, entry: jax.tree.map(lambda x, e: x.at[i].set(e), whole, entry)

    def visit(i: Array, carry: tuple[Family, Any]) -> tuple[Family, Any]:
        factor, own = carry
        whole = problem.given((plate,), {**stats, plate: own})[plate]
        q = jax.tree.map(lambda x: x[i], whole)
        return set_entry(factor, i, q), set_entry(own, i, taken(q, i))

    size = jax.tree.leaves(factors[plate])[0].shape[0]
    factor, own = jax.lax.fori_loop(0, size, visit, (factors[plate], stats[plate]))
    return {**factors, plate: factor}, {**stats, plate: own}


def _drawn_sweep(
    problem: Conditionals, factors: Factors, draws: Stats, key: PRNGKeyArray
) -> tuple[Factors, Stats, Float[Array, ""]]:
    """Draws every block once, given the current state of the others; also returns the gap of draws
    and factors."""
    factors, draws, gaps = dict(factors), dict(draws), []
    for i, block in enumerate(problem.blocks):
        key_block = jax.random.fold_in(key, i)
        plates, rest = problem.split(block)
        for j, plate in enumerate(plates):
            key_plate = jax.random.fold_in(key_block, 2**30 + j)
            draw = lambda q, i, key=key_plate: q.sample_stats(jax.random.fold_in(key, i))
            factors, draws = _entry_by_entry(problem, plate, factors, draws, draw)
            gaps.append(_gap({plate: factors[plate]}, {plate: draws[plate]}))
        if rest:
            new = problem.given(rest, draws)
            drawn = _draws(new, key_block)
            gaps.append(_gap(new, drawn))
            factors.update(new)
            draws.update(drawn)
    return factors, draws, functools.reduce(jnp.add, gaps)


def _at_means(factors: Factors) -> Inferred:
    means = _means(factors)
    gaps = [jnp.sum(q.negative_conjugate(means[name])) for name, q in factors.items()]
    return Inferred(factors, jax.tree.map(lambda t: t[None], means), sum(gaps, jnp.zeros(())))


def _means(factors: Mapping[str, Family]) -> Stats:
    return {name: q.expected_stats() for name, q in factors.items()}


def _draws(factors: Mapping[str, Family], key: PRNGKeyArray) -> Stats:
    keys = jax.random.split(key, max(len(factors), 1))
    return {name: q.sample_stats(k) for (name, q), k in zip(factors.items(), keys, strict=False)}


def _gap(factors: Mapping[str, Family], stats: Stats) -> Float[Array, ""]:
    """sum_z A(l) - <l, t>."""
    gaps = [jnp.sum(q.log_normalizer() - q.dot(stats[name])) for name, q in factors.items()]
    return functools.reduce(jnp.add, gaps) if gaps else jnp.zeros(())

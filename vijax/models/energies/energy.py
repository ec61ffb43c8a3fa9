"""Energies, and the bound of groups of data that follows from one; `energy_model.py`, which makes
them, has the mathematics."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.checks import require
from vijax.contract.batch import Minibatch, fill_padding, weighted_sum
from vijax.contract.model import Hyper, LocalElbo, Model
from vijax.families import Family, Product
from vijax.inference.estep import Conditionals
from vijax.models.energies.discrete import PENALTY, Affine, penalise
from vijax.models.energies.energy_checks import mean_statistics, zeros
from vijax.models.energies.examples import check_finite, check_groups
from vijax.xla.chunks import groups_per_chunk, merge_chunks, split_chunks, sum_over_chunks

NOT_LINEAR = "not_linear"
"""The name among `Model.queries` of the reason why an energy is not linear in the statistics of its
globals, so that conditionals of the globals are no members of their families."""
EnergyFn = Callable[..., Float[Array, ""]]
Stats = Mapping[str, Any]


class Shapes(NamedTuple):
    """Shapes of one group and of the statistics of the globals, as at the checks of an energy."""

    example: PyTree
    stats: PyTree


@dataclasses.dataclass(frozen=True, eq=False)
class Energy:
    """The arguments of `energy_model`, checked.

    Attributes:
      possible: (stats, group, hyper) -> scalar, the energy of possible events.
      impossible: (stats, group, hyper) -> scalar, the number of impossible events; None for an
          energy without impossible events.
      prior: hyper -> prior of the globals. Hierarchical globals have a reference as prior, which
          `prior_fn` subtracts.
      prior_fn: (stats, hyper) -> scalar, terms of globals alone; None without such terms.
      locals: group -> templates of its local families, by name.
      shapes: shapes of the example and of the statistics of the globals.
      global_blocks, local_blocks: names that may be updated at once, in order.
      plates: locals whose entries are coupled to each other.
      start: group -> the start of E-steps, by name of local; None takes the templates.
      any_size: True if groups may have other sizes than the example.
      blind: names of locals whose conditionals under the prior do not depend on the data; None if
          this was not checked.
    """

    possible: Callable[[Stats, PyTree, Hyper], Float[Array, ""]]
    impossible: Callable[[Stats, PyTree, Hyper], Float[Array, ""]] | None
    prior: Callable[[Hyper], Product]
    prior_fn: Callable[[Stats, Hyper], Float[Array, ""]] | None
    locals: Callable[[PyTree], dict[str, Family]]
    shapes: Shapes
    global_blocks: tuple[tuple[str, ...], ...]
    local_blocks: tuple[tuple[str, ...], ...]
    plates: tuple[str, ...] = ()
    start: Callable[[PyTree], Mapping[str, Family]] | None = None
    any_size: bool = False
    blind: tuple[str, ...] | None = None

    @property
    def has_coupled_locals(self) -> bool:
        """True if the E-step iterates."""
        return len(self.local_blocks) > 1 or bool(self.plates)

    def conditionals(
        self, block: Sequence[str], stats: Stats, group: PyTree, hyper: Hyper
    ) -> dict[str, Family]:
        """The complete conditionals of these locals, given the statistics of all other
        variables."""
        part = {name: stats[name] for name in block}
        slopes = lambda f: jax.grad(lambda part: f({**stats, **part}, group, hyper))(part)
        counts = None if self.impossible is None else slopes(self.impossible)
        families = self.locals(group)
        templates = {name: families[name] for name in block}
        return self.members(templates, slopes(self.possible), counts)

    def fn(self, stats: Stats, group: PyTree, hyper: Hyper) -> Float[Array, ""]:
        """The energy at some statistics, plus the negative `PENALTY` for each impossible event."""
        energy = self.possible(stats, group, hyper)
        if self.impossible is None:
            return energy
        return energy + PENALTY * self.impossible(stats, group, hyper)

    def affine(
        self, stats: Stats, group: PyTree, hyper: Hyper, templates: Mapping[str, Family]
    ) -> list[Affine]:
        """The energy, and the number of impossible events if they can occur, as functions of locals
        that are not coupled. `stats` has the statistics of all other variables."""
        functions = [self.possible]
        if self.impossible is not None:
            functions.append(self.impossible)
        zero = zero_stats(templates)
        linearise = lambda f: jax.value_and_grad(lambda local: f({**stats, **local}, group, hyper))
        return [Affine(*linearise(f)(zero)) for f in functions]

    def members(
        self, templates: Mapping[str, Family], naturals: Stats, counts: Stats | None
    ) -> dict[str, Family]:
        """The families with these natural parameters; impossible values get probability zero."""
        if counts is None:
            return {name: q.with_naturals(naturals[name]) for name, q in templates.items()}
        return {name: penalise(q, naturals[name], counts[name]) for name, q in templates.items()}

    def check_groups(self, data: PyTree, hyper: Hyper) -> None:
        """Raises ValueError unless data are groups like the example. Only shapes are read, so that
        data may be traced."""

        def energy_at_zero(group: PyTree) -> Float[Array, ""]:
            stats = {**zeros(self.shapes.stats), **zero_stats(self.locals(group))}
            return self.fn(stats, group, hyper)

        check_groups(self.shapes.example, data, energy_at_zero, self.locals, self.any_size)

    def check_values(self, data: PyTree, hyper: Hyper) -> None:
        """Raises ValueError for data that are not finite and at which the energy is not finite."""

        def is_finite(group: PyTree) -> bool:
            stats = {**self.prior(hyper).expected_stats(), **mean_statistics(self.locals(group))}
            return bool(jnp.isfinite(self.fn(stats, group, hyper)))

        check_finite(data, is_finite)


def model_energy(model: Model) -> Energy:
    """The energy of a model; ValueError if the model has a bound of its own."""
    has_energy = "energy" in model.queries
    require(
        has_energy, "model", "one made by vijax.energy_model", "a model with a bound of its own"
    )
    return model.queries["energy"]


def local_elbo(
    spec: Energy, hyper: Hyper, stats: Stats, batch: Minibatch, key: PRNGKeyArray, estep: Any
) -> LocalElbo:
    """The bound of each group, with its locals found by the E-step and held constant."""
    spec.check_groups(batch.data, hyper)
    size = jax.tree.leaves(batch.data)[0].shape[0]
    weights = jnp.ones(size)
    data = jax.tree.map(jnp.asarray, batch.data)
    if batch.weights is not None:
        weights = jnp.asarray(batch.weights, jnp.result_type(float))
        data = fill_padding(data, weights)
    batch = batch._replace(data=data)
    start = batch.local
    if start is None:
        start = initial_locals(spec, batch)
    groups = (batch.data, start, jax.random.split(key, size))
    bound: Callable[..., Any] = _independent_locals
    if spec.has_coupled_locals:
        bound = _coupled_locals
    bound_of_group = lambda shared, group: bound(spec, *shared, *group, estep)

    def chunk_bound(shared: tuple[Hyper, Stats], chunk: PyTree) -> tuple[Float[Array, ""], PyTree]:
        weights, groups = chunk
        per_group, local = jax.vmap(lambda group: bound_of_group(shared, group))(groups)
        return weighted_sum(weights, per_group), (per_group, local)

    shared = dict(hyper), dict(stats)
    chunk_size = groups_per_chunk(bound_of_group, shared, jax.tree.map(lambda x: x[0], groups))
    if size <= chunk_size:
        total, aux = chunk_bound(shared, (weights, groups))
    else:
        chunks = (
            split_chunks(weights, chunk_size),
            split_chunks(groups, chunk_size, repeat_last=True),
        )
        total, aux = sum_over_chunks(chunk_bound, shared, chunks)
        aux = merge_chunks(aux, size)
    per_group, local = jax.lax.stop_gradient(aux)
    return LocalElbo(total, jnp.sum(weights), per_group, local)


def _independent_locals(
    spec: Energy,
    hyper: Hyper,
    stats: Stats,
    group: PyTree,
    start: Any,
    key: PRNGKeyArray,
    estep: Any,
) -> tuple[Float[Array, ""], Any]:
    """Bound of one group whose energy is affine in all its locals together, E = E_0 + <l, t(z)>.
    One evaluation gives E_0 and l, and both are differentiated, so that nothing is computed
    twice."""
    templates = spec.locals(group)
    energy, *count = spec.affine(stats, group, hyper, templates)
    fixed = jax.lax.stop_gradient([energy.slopes, *(c.slopes for c in count)])
    exact = spec.members(templates, fixed[0], fixed[1] if count else None)
    problem = Conditionals(start, lambda block, local: exact, spec.local_blocks)
    inferred = jax.lax.stop_gradient(estep.conditionals(problem, key))
    means = jax.tree.map(lambda t: jnp.mean(t, 0), inferred.states)
    bound = energy.evaluate(means) + inferred.gap
    return sum((PENALTY * c.evaluate(means) for c in count), bound), inferred.factors


def zero_stats(families: Mapping[str, Family]) -> dict[str, Any]:
    """Statistics of zero, at which an affine energy is its constant; only shapes are computed."""
    return zeros(jax.eval_shape(lambda: mean_statistics(families)))


def _coupled_locals(
    spec: Energy,
    hyper: Hyper,
    stats: Stats,
    group: PyTree,
    start: Any,
    key: PRNGKeyArray,
    estep: Any,
) -> tuple[Float[Array, ""], Any]:
    """Bound of one group whose locals depend on each other: the mean of E over the states that the
    E-step found."""
    fixed_hyper, fixed_stats = jax.lax.stop_gradient((dict(hyper), dict(stats)))
    conditionals = lambda block, local: spec.conditionals(
        block, {**fixed_stats, **local}, group, fixed_hyper
    )
    problem = Conditionals(start, conditionals, spec.local_blocks, spec.plates)
    inferred = jax.lax.stop_gradient(estep.conditionals(problem, key))
    energies = jax.vmap(lambda local: spec.fn({**stats, **local}, group, hyper))(inferred.states)
    return jnp.mean(energies) + inferred.gap, inferred.factors


def initial_locals(spec: Energy, batch: Minibatch) -> dict[str, Family]:
    """The start of the E-step of every group."""
    start = spec.start or spec.locals
    return jax.vmap(lambda group: dict(start(group)), out_axes=0)(batch.data)

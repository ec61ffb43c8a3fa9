"""The log joint density of an energy model, with locals summed or integrated out exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from vijax import tree
from vijax.checks import require
from vijax.contract.intake import cast_data
from vijax.contract.model import Hyper, Model
from vijax.models.energies.discrete import PENALTY
from vijax.models.energies.energy import Energy, model_energy

Values = dict[str, Any]


def log_joint(
    model: Model, data: PyTree, sampled: Sequence[str] = (), hyper: Hyper | None = None
) -> Callable[[Values, Values], Float[Array, ""]]:
    """Returns the function (values of the globals, values of the sampled locals of each group) ->
    log p(data, values).

    The other locals are integrated out. This is exact if they form one block given the sampled
    locals: with l their natural parameters, log sum exp(<l, t(z)>) h(z) = A(l).

    Args:
      model: a model from `vijax.energy_model`.
      data: arrays with one leading axis of groups.
      sampled: names of the locals that are arguments.
      hyper: hyperparameters, such as those that a fit has learnt; None: those of the model.

    Raises:
      ValueError: the model is not an energy, a name is not one of its locals, or the other locals
        do not form one block or are coupled.

    >>> import vijax as vi
    >>> coin = vi.energy_model(
    ...     globals={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)},
    ...     energy=lambda s, y: y * s["bias"].log + (1 - y) * s["bias"].log1m, example=0.0)
    >>> density = log_joint(coin, jnp.array([1.0, 1.0, 0.0]))
    >>> print(f"{jnp.exp(density({'bias': jnp.array(0.5)}, {})):.4f}")
    0.1250
    """
    spec = model_energy(model)
    names = [name for block in spec.local_blocks for name in block]
    require(set(sampled) <= set(names), "sampled", f"names among the locals {names}", list(sampled))
    num_blocks = sum(not set(block) <= set(sampled) for block in spec.local_blocks)
    expected = "all but one block of the locals"
    remedy = "Name the locals to sample, so that the others do not depend on each other."
    require(num_blocks <= 1, "sampled", expected, list(sampled), remedy)
    plates = [name for name in spec.plates if name not in sampled]
    expected = "locals that can be summed out, or are sampled"
    require(not plates, "model", expected, f"the coupled plates {plates}", remedy)
    hyper = tree.as_arrays(model.hyper if hyper is None else hyper)
    spec.check_groups(data, hyper)
    data = jax.tree.map(jnp.asarray, cast_data(model, data))

    def density(values: Values, local: Values) -> Float[Array, ""]:
        prior = spec.prior(hyper)
        stats = prior.stats(values)
        groups = jax.vmap(lambda y, z: _group(spec, hyper, stats, y, z))(data, local)
        coupling = 0.0 if spec.prior_fn is None else spec.prior_fn(stats, hyper)
        return prior.log_prob(values) + coupling + jnp.sum(groups)

    return density


def _group(
    spec: Energy, hyper: Hyper, stats: Any, group: PyTree, sampled: Values
) -> Float[Array, ""]:
    """log p(y, sampled locals | globals) of one group."""
    templates = spec.locals(group)
    sampled_stats = {name: templates[name].stats(value) for name, value in sampled.items()}
    integrated = {name: q for name, q in templates.items() if name not in sampled}
    energy, *count = spec.affine({**stats, **sampled_stats}, group, hyper, integrated)
    factors = spec.members(integrated, energy.slopes, count[0].slopes if count else None)
    terms = [jnp.sum(templates[name].log_base_measure(t)) for name, t in sampled_stats.items()]
    if not count:
        value = sum(terms, energy.value)
        return sum((jnp.sum(q.log_normalizer()) for q in factors.values()), value)
    # This sum as mean energy plus entropy, without a term as large as the penalty.
    means = {name: q.expected_stats() for name, q in factors.items()}
    terms += [jnp.sum(q.log_normalizer() - q.dot(means[name])) for name, q in factors.items()]
    return sum(terms, energy.evaluate(means) + PENALTY * count[0].evaluate(means))

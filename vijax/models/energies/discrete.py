"""Discrete locals of an energy: events of probability zero, and groups of joint locals.

Impossible events: minus infinity cannot be a term of an energy, because 0 times -inf is NaN. So the
model has two multilinear functions, the energy E of possible events and the number C of impossible
events:

    log p(y_n, z_n | beta) = E    where C = 0,    -inf    where C > 0.

The expectation of C under q is C at the mean statistics, a sum of products of probabilities. It is
zero exactly if q gives no impossible event any weight. Each event costs `PENALTY` in the natural
parameters, so that a probability underflows to exactly zero; the bound adds PENALTY times C, which
is then PENALTY times 0. E and C are not added before C is known to be zero, because the sum would
lose E in float32.

Joint locals (generalised mean field): a group of discrete locals z_1, ..., z_m becomes one
categorical variable whose classes are their joint values a. The energy in its statistics, the
one-hot r of a, is sum_a r_a E(t(z_1 = a_1), ..., t(z_m = a_m)):  linear in r whatever E is, so that
the engine treats it like any other local. With all locals in one group the E-step is exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from vijax.checks import require
from vijax.families import Bernoulli, Categorical, Family

PENALTY = -1e20
"""Nats of an impossible event: more than any data can outweigh, while 1e18 events are finite in
float32."""

Stats = Mapping[str, Any]


class Affine(NamedTuple):
    """An affine function of the statistics of locals that are not coupled: value + <slopes,
    t(z)>."""

    value: Float[Array, ""]  # the function at statistics of zero
    slopes: dict[str, Any]  # its gradient, by name of local

    def evaluate(self, stats: Stats) -> Float[Array, ""]:
        """The value at statistics of the locals."""
        terms = jax.tree.map(jnp.vdot, self.slopes, dict(stats))
        return self.value + sum(jax.tree.leaves(terms))


def penalise(template: Any, natural: Any, count: Any) -> Any:
    """The member of the template's family with natural parameters natural + PENALTY count, which
    are the gradients of the energy and of the number of impossible events.

    For a categorical the smallest count of any class is subtracted first, which changes no
    probability. If all classes are impossible under q of the others, the classes with the fewest
    impossible events keep their natural parameters, and coordinate ascent moves towards possible
    values."""
    if isinstance(template, Categorical):
        count = jax.tree.map(_excess_counts, count)
    leaves = zip(jax.tree.leaves(natural), jax.tree.leaves(count), strict=True)
    return template.with_naturals([n + PENALTY * c for n, c in leaves])


def _excess_counts(count: Float[Array, "*batch K"]) -> Float[Array, "*batch K"]:
    """Counts less the smallest count; differences by rounding are set to zero, because times the
    penalty they would outweigh everything."""
    gap = count - jnp.min(count, axis=-1, keepdims=True)
    return jnp.where(gap > 1e-6 * jnp.max(jnp.abs(count), axis=-1, keepdims=True), gap, 0.0)


_MOST_VALUES = 4096


def joint_name(names: Sequence[str]) -> str:
    """The name of the variable that stands for a group.

    >>> joint_name(("z1", "z2"))
    'z1, z2'
    """
    return ", ".join(names)


def keep_joint(
    fn: Callable[..., Float[Array, ""]],
    locals_: Callable[[PyTree], dict[str, Family]],
    groups: Sequence[Sequence[str]],
    example: PyTree,
) -> tuple[Callable[..., Float[Array, ""]], Callable[[PyTree], dict[str, Family]]]:
    """An energy and its locals with each group of names as one categorical, named
    `joint_name(names)`. Its classes are the joint values; the value of the last name runs fastest.

    Raises:
      ValueError: a name that is not a local or is in two groups, a local that is not discrete, or
        more joint values than can be enumerated.
    """
    families = locals_(example)
    names = [name for group in groups for name in group]
    require(
        set(names) <= set(families),
        "joint",
        f"names among the locals {list(families)}",
        sorted(set(names) - set(families)),
    )
    require(len(names) == len(set(names)), "joint", "each name in one group at most", names)
    tables = {
        tuple(group): _joint_values({name: families[name] for name in group}) for group in groups
    }

    def joint_fn(stats: Mapping[str, Any], *rest: Any) -> Float[Array, ""]:
        energy, stats_by_name = fn, dict(stats)
        for group, values in tables.items():
            energy = _average(
                energy, families, values, stats_by_name.pop(joint_name(group)).one_hot
            )
        return energy(stats_by_name, *rest)

    def joint_locals(data: PyTree) -> dict[str, Family]:
        q = locals_(data)
        single = {name: factor for name, factor in q.items() if name not in names}
        return {joint_name(group): _start(q, values) for group, values in tables.items()} | single

    return joint_fn, joint_locals


def _average(
    fn: Callable, families: Mapping[str, Family], values: dict[str, np.ndarray], weights: Array
) -> Callable:
    """(stats, *rest) -> sum_a weights_a fn at the statistics of joint value a."""

    def average(stats: Mapping[str, Any], *rest: Any) -> Float[Array, ""]:
        value = lambda a: fn(
            {**stats, **{name: families[name].stats(x) for name, x in a.items()}}, *rest
        )
        return jnp.vdot(weights, jax.vmap(value)(values))

    return average


def _start(q: Mapping[str, Family], values: dict[str, np.ndarray]) -> Categorical:
    """The joint law of independent factors."""
    log_prob = lambda a: sum((jnp.sum(q[name].log_prob(x)) for name, x in a.items()), jnp.zeros(()))
    return Categorical(jax.vmap(log_prob)(values))


def _joint_values(families: Mapping[str, Family]) -> dict[str, np.ndarray]:
    """All joint values, by name, along a leading axis; the value of the last name runs fastest."""
    supports = []
    for name, q in families.items():
        discrete = isinstance(q, Categorical | Bernoulli)
        require(
            discrete, "joint", "categorical or Bernoulli locals", f"{name!r}, a {type(q).__name__}"
        )
        count = q.num_classes if isinstance(q, Categorical) else 2
        size = int(np.prod(q.batch_shape))
        require(
            count**size <= _MOST_VALUES,
            "joint",
            f"at most {_MOST_VALUES} joint values",
            f"{count}^{size} of {name!r}",
        )
        values = np.array(list(itertools.product(range(count), repeat=size)))
        supports.append(values.reshape(-1, *q.batch_shape))
    total = int(np.prod([len(s) for s in supports]))
    remedy = "Keep fewer variables together."
    require(
        total <= _MOST_VALUES,
        "joint",
        f"at most {_MOST_VALUES} joint values",
        f"{total} of {list(families)}",
        remedy,
    )
    index = np.indices([len(s) for s in supports]).reshape(len(supports), -1)
    return {name: s[i] for name, s, i in zip(families, supports, index, strict=True)}

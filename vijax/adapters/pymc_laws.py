"""The laws of the variables of a PyMC model given others, from which `vijax.auto` takes its
coordinates.

Laws are of value variables, which PyMC's own transforms make real: a variable with another
transform than its distribution brings has none here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from vijax.adapters import laws
from vijax.adapters.pymc_programs import minibatches, program_of
from vijax.contract.variables import Law
from vijax.extras import require_extra
from vijax.models.energies.coordinates import Visit, Walk

Shape = tuple[int, ...]

REAL: dict[str, Callable[..., Law]] = {
    "NormalRV": laws.normal,
    "StudentTRV": laws.student,
    "LaplaceRV": laws.laplace,
    "LogisticRV": laws.logistic,
    "CauchyRV": laws.cauchy,
    "GumbelRV": laws.gumbel,
}
"""Laws from parameters in PyTensor's order, by the name of its operation."""
POSITIVE: dict[str, Callable[..., Law]] = {
    "LogNormalRV": laws.normal,
    "HalfNormalRV": lambda zero, scale: laws.half_normal(scale),
    "HalfCauchyRV": lambda *given: laws.half_cauchy(given[-1]),  # before PyMC 6 with a zero as well
    "HalfStudentTRV": laws.half_student,
    "ExponentialRV": laws.exponential,
    "GammaRV": laws.gamma,
    "InvGammaRV": laws.inverse_gamma,
    "WeibullBetaRV": laws.weibull,
}
UNIT: dict[str, Callable[..., Law]] = {"BetaRV": laws.beta, "BetaClippedRV": laws.beta}
ZERO_SUM: dict[str, Callable[..., Law]] = {
    "ZeroSumNormalRV": lambda scale, shape: laws.normal(0.0, scale)
}
"""The coordinates of a normal with sum zero are a rotation of it: independent, and of the same
scale."""
ENTRIES = {
    "NoneType": REAL,
    "LogTransform": POSITIVE,
    "LogOddsTransform": UNIT,
    "ZeroSumTransform": ZERO_SUM,
}
"""Laws of entries that do not depend on each other, by PyMC's transform."""


class Parts(NamedTuple):
    """The law of a variable: graphs of parameters, and the law as a function of the variable's
    shape and of their values."""

    parameters: list[Any]
    law: Callable[..., Law]


class Read(NamedTuple):
    """The law of a variable that depends on others.

    Attributes:
      name: of the value variable.
      shape: its shape.
      parts: its law.
      parents: names of the value variables that it reads.
    """

    name: str
    shape: Shape
    parts: Parts
    parents: frozenset[str]


class Level:
    """Variables whose laws depend on those of lower levels alone."""

    def __init__(self, reads: Sequence[Read], inputs: Sequence[Any]):
        parents = frozenset().union(*(one.parents for one in reads))
        read = [one for one in inputs if one.name in parents]
        self.names = tuple(one.name for one in reads)
        self._reads = reads
        self._parents = [one.name for one in read]
        self._program = program_of(read, [x for one in reads for x in one.parts.parameters])

    def laws(self, values: Mapping[str, Any]) -> dict[str, Law]:
        """The laws at values of other variables."""
        parameters = iter(self._program(*(values[name] for name in self._parents)))
        given = [[next(parameters) for _ in one.parts.parameters] for one in self._reads]
        return {
            one.name: one.parts.law(one.shape, *own)
            for one, own in zip(self._reads, given, strict=True)
        }


def hierarchy_of(
    model: Any, inputs: Sequence[Any], start: Mapping[str, Any]
) -> tuple[Walk, tuple[tuple[str, ...], ...]]:
    """A walk through the variables, and the names of those whose law depends on others, by depth.

    Args:
      model: a PyMC model.
      inputs: its value variables.
      start: values of them, for their shapes.
    """
    levels = _levels(_reads(model, start), inputs)
    with_law = {name for level in levels for name in level.names}
    without = [one.name for one in inputs if one.name not in with_law]

    def walk(visit: Visit) -> None:
        values = {name: visit(name, None) for name in without}
        for level in levels:
            values |= {name: visit(name, law) for name, law in level.laws(values).items()}

    return walk, tuple(level.names for level in levels)


def _levels(reads: Sequence[Read], inputs: Sequence[Any]) -> list[Level]:
    levels = []
    left = list(reads)
    while left:
        waiting = {one.name for one in left}
        levels.append(Level([one for one in left if not one.parents & waiting], inputs))
        left = [one for one in left if one.parents & waiting]
    return levels


def _reads(model: Any, start: Mapping[str, Any]) -> list[Read]:
    """The laws that depend on other variables."""
    ancestors = require_extra("pytensor.graph.traversal", "pymc").ancestors
    names = {value: value.name for value in model.value_vars}
    reads = []
    for variable in model.free_RVs:
        parts = parts_of(variable, model.rvs_to_transforms[variable])
        if parts is None:
            continue
        parameters = model.replace_rvs_by_values(parts.parameters)
        parents = frozenset(names[x] for x in ancestors(parameters) if x in names)
        if parents and not minibatches(parameters):
            name = names[model.rvs_to_values[variable]]
            reads.append(Read(name, np.shape(start[name]), Parts(parameters, parts.law), parents))
    return reads


def parts_of(variable: Any, transform: Any) -> Parts | None:
    """The law of the values of a random variable under a transform; None where it is not known."""
    node = variable.owner
    kind, by_kind = type(node.op).__name__, ENTRIES.get(type(transform).__name__, {})
    if kind in by_kind:
        law = by_kind[kind]
        return Parts(_parameters(node), lambda shape, *given: _of_shape(law(*given), shape))
    of_vectors = VECTORS.get(kind) if transform is None else None
    return None if of_vectors is None else of_vectors(node)


def _parameters(node: Any) -> list[Any]:
    return list(node.op.dist_params(node))


def _of_shape(law: Law, shape: Shape) -> Law:
    """The law of entries of this shape."""
    return Law(jnp.broadcast_to(law.loc, shape), jnp.broadcast_to(law.scale, shape))


def _of_vectors(law: Law, shape: Shape) -> Law:
    """The law of vectors along the last axis of this shape."""
    return Law(jnp.broadcast_to(law.loc, shape), jnp.broadcast_to(law.scale, (*shape, shape[-1])))


# --- vectors --------------------------------------------------------------------------------------
def _normal(node: Any) -> Parts:
    loc, covariance = _parameters(node)
    return Parts(
        [loc, _factor(covariance)], lambda shape, *given: _of_vectors(laws.normal(*given), shape)
    )


def _student(node: Any) -> Parts:
    df, loc, matrix = _parameters(node)
    law = laws.multivariate_student
    return Parts([df, loc, _factor(matrix)], lambda shape, *given: _of_vectors(law(*given), shape))


def _factor(matrix: Any) -> Any:
    """The lower factor, which PyTensor finds where the matrix was made of one."""
    return require_extra("pytensor.tensor", "pymc").linalg.cholesky(matrix)


def _walk(node: Any) -> Parts | None:
    """A random walk, whose first value and steps have laws of their own; they have time before
    other axes."""
    first, steps = (_steps(x) for x in node.inputs[:2])
    if first is None or steps is None:
        return None
    count = len(first.parameters)

    def law(shape: Shape, *given: Any) -> Law:
        *batch, length = shape
        one = first.law((1, *batch), *given[:count])
        others = steps.law((length - 1, *batch), *given[count:])
        both = [
            jnp.moveaxis(jnp.concatenate(parts), 0, -1) for parts in zip(one, others, strict=True)
        ]
        return _of_vectors(laws.sums(Law(*both)), shape)

    return Parts([*first.parameters, *steps.parameters], law)


def _steps(variable: Any) -> Parts | None:
    """The law of steps that are independent and real."""
    is_known = variable.owner is not None and type(variable.owner.op).__name__ in REAL
    return parts_of(variable, None) if is_known else None


def _autoregression(node: Any) -> Parts | None:
    weights, scale, start = node.inputs[:3]
    first = _steps(start)
    if first is None:
        return None
    lags, has_constant = node.op.ar_order, node.op.constant_term

    def law(shape: Shape, weights: Any, scale: Any, *given: Any) -> Law:
        *batch, length = shape
        begin = first.law((*batch, lags), *given)
        constant, own = (weights[..., :1], weights[..., 1:]) if has_constant else (0.0, weights)
        later = (*batch, length - lags)
        noise = Law(
            jnp.broadcast_to(constant, later),
            jnp.broadcast_to(jnp.asarray(scale)[..., None], later),
        )
        both = [jnp.concatenate(parts, -1) for parts in zip(begin, noise, strict=True)]
        return _of_vectors(
            laws.autoregression(jnp.broadcast_to(own, (*batch, lags)), Law(*both)), shape
        )

    return Parts([weights, scale, *first.parameters], law)


def _field(node: Any) -> Parts | None:
    loc, adjacency, correlation, precision, *_ = _parameters(node)
    is_sparse = not isinstance(
        adjacency.type, require_extra("pytensor.tensor.type", "pymc").TensorType
    )
    if is_sparse and not hasattr(adjacency, "data"):
        return None
    if is_sparse:
        adjacency = require_extra("pytensor.tensor", "pymc").constant(adjacency.data.toarray())

    def law(shape: Shape, loc: Any, adjacency: Any, *given: Any) -> Law:
        square = jnp.reshape(adjacency, adjacency.shape[-2:])
        return _of_vectors(laws.field(loc, square, *(jnp.reshape(x, ()) for x in given)), shape)

    return Parts([loc, adjacency, correlation, precision], law)


def _intrinsic_field(node: Any) -> Parts:
    law = laws.intrinsic_field
    return Parts(_parameters(node), lambda shape, *given: _of_vectors(law(*given), shape))


VECTORS: dict[str, Callable[[Any], Parts | None]] = {
    "MvNormalRV": _normal,
    "MvStudentTRV": _student,
    "RandomWalkRV": _walk,
    "AutoRegressiveRV": _autoregression,
    "CARRV": _field,
    "ICARRV": _intrinsic_field,
}
"""Laws whose entries along the last axis depend on each other."""

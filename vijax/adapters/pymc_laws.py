"""The conditional laws of the variables of a PyMC model given other variables; `vijax.auto` chooses
its coordinates by them.

They are laws of value variables, which PyMC's transforms make real. A variable whose transform is
not the one of its distribution has no law here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from vijax.adapters import laws
from vijax.adapters.pymc_programs import compile_graph, minibatches
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
    "HalfCauchyRV": lambda *values: laws.half_cauchy(values[-1]),  # before PyMC 6 also a zero
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
"""The coordinates of a normal with sum zero are its rotation: independent, with the same scale."""
ENTRIES = {
    "NoneType": REAL,
    "LogTransform": POSITIVE,
    "LogOddsTransform": UNIT,
    "ZeroSumTransform": ZERO_SUM,
}
"""Laws of independent entries, by PyMC's transform."""


class LawGraph(NamedTuple):
    """The law of a variable.

    Attributes:
      parameters: PyTensor graphs of its parameters.
      law: the law as a function of the variable's shape and the values of the parameters.
    """

    parameters: list[Any]
    law: Callable[..., Law]


class Child(NamedTuple):
    """A variable whose law depends on other variables.

    Attributes:
      name: name of the value variable.
      shape: its shape.
      graph: its law.
      parents: names of the value variables that its law reads.
    """

    name: str
    shape: Shape
    graph: LawGraph
    parents: frozenset[str]


class Level:
    """Variables whose laws depend only on variables of lower levels."""

    def __init__(self, children: Sequence[Child], inputs: Sequence[Any]):
        parent_names = frozenset().union(*(child.parents for child in children))
        parents = [variable for variable in inputs if variable.name in parent_names]
        parameters = [x for child in children for x in child.graph.parameters]
        self.names = tuple(child.name for child in children)
        self._children = children
        self._parents = [variable.name for variable in parents]
        self._program = compile_graph(parents, parameters)

    def laws(self, values: Mapping[str, Any]) -> dict[str, Law]:
        """The laws at values of other variables."""
        parameters = iter(self._program(*(values[name] for name in self._parents)))
        laws = {}
        for child in self._children:
            child_parameters = [next(parameters) for _ in child.graph.parameters]
            laws[child.name] = child.graph.law(child.shape, *child_parameters)
        return laws


def read_hierarchy(
    model: Any, inputs: Sequence[Any], start: Mapping[str, Any]
) -> tuple[Walk, tuple[tuple[str, ...], ...]]:
    """A walk through the variables, and the names of variables whose law depends on others, by
    depth.

    Args:
      model: a PyMC model.
      inputs: its value variables.
      start: values of them, for their shapes.
    """
    levels = _levels(_children(model, start), inputs)
    with_law = {name for level in levels for name in level.names}
    without_law = [variable.name for variable in inputs if variable.name not in with_law]

    def walk(visit: Visit) -> None:
        values = {name: visit(name, None) for name in without_law}
        for level in levels:
            values |= {name: visit(name, law) for name, law in level.laws(values).items()}

    return walk, tuple(level.names for level in levels)


def children_names(model: Any, start: Mapping[str, Any], names: Sequence[str]) -> set[str]:
    """Names of the variables whose known laws depend on some of these."""
    return {child.name for child in _children(model, start) if child.parents & set(names)}


def _levels(children: Sequence[Child], inputs: Sequence[Any]) -> list[Level]:
    """The children in levels, each after the levels of its parents."""
    levels = []
    while children:
        names = {child.name for child in children}
        levels.append(Level([child for child in children if not child.parents & names], inputs))
        children = [child for child in children if child.parents & names]
    return levels


def _children(model: Any, start: Mapping[str, Any]) -> list[Child]:
    """The variables whose laws are known and depend on other variables."""
    ancestors = require_extra("pytensor.graph.traversal", "pymc").ancestors
    names = {value: value.name for value in model.value_vars}
    children = []
    for variable in model.free_RVs:
        graph = read_law(variable, model.rvs_to_transforms[variable])
        if graph is None:
            continue
        parameters = model.replace_rvs_by_values(graph.parameters)
        parents = frozenset(names[x] for x in ancestors(parameters) if x in names)
        if parents and not minibatches(parameters):
            name = names[model.rvs_to_values[variable]]
            graph = LawGraph(parameters, graph.law)
            children.append(Child(name, np.shape(start[name]), graph, parents))
    return children


def read_law(variable: Any, transform: Any) -> LawGraph | None:
    """The law of the values of a random variable under a transform; None if it is not known."""
    node = variable.owner
    kind = type(node.op).__name__
    entry_laws = ENTRIES.get(type(transform).__name__, {})
    if kind in entry_laws:
        law = entry_laws[kind]
        return LawGraph(_parameters(node), lambda shape, *values: _entries(law(*values), shape))
    if transform is None and kind in VECTORS:
        return VECTORS[kind](node)
    return None


def _parameters(node: Any) -> list[Any]:
    return list(node.op.dist_params(node))


def _entries(law: Law, shape: Shape) -> Law:
    """The law of independent entries of this shape."""
    return Law(jnp.broadcast_to(law.loc, shape), jnp.broadcast_to(law.scale, shape))


def _vectors(law: Law, shape: Shape) -> Law:
    """The law of vectors along the last axis of this shape."""
    return Law(jnp.broadcast_to(law.loc, shape), jnp.broadcast_to(law.scale, (*shape, shape[-1])))


# --- vectors --------------------------------------------------------------------------------------
def _vector_graph(parameters: list[Any], law: Callable[..., Law]) -> LawGraph:
    """The law of vectors, from a law of the parameters' values."""
    return LawGraph(parameters, lambda shape, *values: _vectors(law(*values), shape))


def _normal(node: Any) -> LawGraph:
    loc, covariance = _parameters(node)
    return _vector_graph([loc, _factor(covariance)], laws.normal)


def _student(node: Any) -> LawGraph:
    df, loc, matrix = _parameters(node)
    return _vector_graph([df, loc, _factor(matrix)], laws.multivariate_student)


def _factor(matrix: Any) -> Any:
    """The lower factor; PyTensor recovers the one that the matrix was made of."""
    return require_extra("pytensor.tensor", "pymc").linalg.cholesky(matrix)


def _walk(node: Any) -> LawGraph | None:
    """A random walk: its first value and its steps have laws with time as the first axis."""
    first, steps = (_independent_law(variable) for variable in node.inputs[:2])
    if first is None or steps is None:
        return None
    num_first = len(first.parameters)

    def law(shape: Shape, *values: Any) -> Law:
        *batch, length = shape
        first_law = first.law((1, *batch), *values[:num_first])
        steps_law = steps.law((length - 1, *batch), *values[num_first:])
        join = lambda a, b: jnp.moveaxis(jnp.concatenate([a, b]), 0, -1)
        loc = join(first_law.loc, steps_law.loc)
        scale = join(first_law.scale, steps_law.scale)
        return _vectors(laws.sums(Law(loc, scale)), shape)

    return LawGraph([*first.parameters, *steps.parameters], law)


def _independent_law(variable: Any) -> LawGraph | None:
    """The law of a real variable with independent entries; None if it is not known."""
    is_known = variable.owner is not None and type(variable.owner.op).__name__ in REAL
    return read_law(variable, None) if is_known else None


def _autoregression(node: Any) -> LawGraph | None:
    weights, scale, start = node.inputs[:3]
    first = _independent_law(start)
    if first is None:
        return None
    lags = node.op.ar_order
    has_constant = node.op.constant_term

    def law(shape: Shape, weights: Any, scale: Any, *values: Any) -> Law:
        *batch, length = shape
        first_law = first.law((*batch, lags), *values)
        constant = weights[..., :1] if has_constant else 0.0
        lag_weights = weights[..., 1:] if has_constant else weights
        noise_shape = (*batch, length - lags)
        noise_loc = jnp.broadcast_to(constant, noise_shape)
        noise_scale = jnp.broadcast_to(jnp.asarray(scale)[..., None], noise_shape)
        loc = jnp.concatenate([first_law.loc, noise_loc], -1)
        scales = jnp.concatenate([first_law.scale, noise_scale], -1)
        lag_weights = jnp.broadcast_to(lag_weights, (*batch, lags))
        return _vectors(laws.autoregression(lag_weights, Law(loc, scales)), shape)

    return LawGraph([weights, scale, *first.parameters], law)


def _field(node: Any) -> LawGraph | None:
    loc, adjacency, correlation, precision, *_ = _parameters(node)
    dense = require_extra("pytensor.tensor.type", "pymc").TensorType
    is_sparse = not isinstance(adjacency.type, dense)
    if is_sparse and not hasattr(adjacency, "data"):
        return None
    if is_sparse:
        adjacency = require_extra("pytensor.tensor", "pymc").constant(adjacency.data.toarray())

    def law(shape: Shape, loc: Any, adjacency: Any, *values: Any) -> Law:
        square = jnp.reshape(adjacency, adjacency.shape[-2:])
        scalars = [jnp.reshape(x, ()) for x in values]
        return _vectors(laws.field(loc, square, *scalars), shape)

    return LawGraph([loc, adjacency, correlation, precision], law)


def _intrinsic_field(node: Any) -> LawGraph:
    return _vector_graph(_parameters(node), laws.intrinsic_field)


VECTORS: dict[str, Callable[[Any], LawGraph | None]] = {
    "MvNormalRV": _normal,
    "MvStudentTRV": _student,
    "RandomWalkRV": _walk,
    "AutoRegressiveRV": _autoregression,
    "CARRV": _field,
    "ICARRV": _intrinsic_field,
}
"""Laws whose entries along the last axis depend on each other."""

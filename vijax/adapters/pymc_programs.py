"""PyTensor's graphs as functions of JAX arrays."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vijax.checks import require
from vijax.extras import require_extra
from vijax.xla.compiler import quick_jit


def minibatches(outputs: Sequence[Any]) -> set[Any]:
    """The nodes of `pymc.Minibatch` that the outputs read."""
    minibatch = require_extra("pymc.data", "pymc").MinibatchOp
    ancestors = require_extra("pytensor.graph.traversal", "pymc").ancestors(outputs)
    nodes = {variable.owner for variable in ancestors if variable.owner is not None}
    return {node for node in nodes if isinstance(node.op, minibatch)}


def compile_graph(inputs: Sequence[Any], outputs: Sequence[Any]) -> Callable[..., list[Any]]:
    """PyTensor's graph as a function of JAX arrays, without checks of parameters, which JAX cannot
    raise."""
    graph = require_extra("pytensor.graph.fg", "pymc")
    checks = require_extra("pytensor.raise_op", "pymc")
    outputs = _with_constants(outputs)
    fgraph = graph.FunctionGraph(inputs=list(inputs), outputs=outputs, clone=True)
    for node in fgraph.toposort():
        if isinstance(node.op, checks.CheckAndRaise):
            fgraph.replace(node.outputs[0], node.inputs[0], import_missing=True)
    require_extra("pytensor.compile.mode", "pymc").JAX.optimizer.rewrite(fgraph)
    try:
        jax_program = _load_funcify()(fgraph)
    except NotImplementedError as error:
        operation = str(error).rpartition(": ")[2].strip().partition("\n")[0]
        expected = "operations that PyTensor can translate to JAX"
        remedy = "Write it by others, or fit the model by pymc.sample, which needs no translation."
        require(False, "model", expected, f"{operation}, for which it has none", remedy)

    def program(*values: Any) -> list[Any]:
        with warnings.catch_warnings():  # constants are doubles, which JAX makes floats without x64
            warnings.filterwarnings("ignore", message="Explicitly requested dtype")
            return [jnp.asarray(x, jnp.result_type(float)) for x in jax_program(*values)]

    return program


def compile_density(
    inputs: Sequence[Any], output: Any, start: Sequence[Any], rows: Sequence[Any] = ()
) -> Callable[..., Any]:
    """A log density as a function of JAX arrays, with PyTensor's own gradient in the inputs if it
    can be translated: JAX's gradient of the translation may be NaN where branches are.

    Args:
      inputs: the variables.
      output: the graph of the log density.
      start: values of all inputs, at which the gradient is tried.
      rows: further inputs, in which no gradient is needed.
    """
    plain = compile_graph([*inputs, *rows], [output])
    density = lambda *values: plain(*values)[0]
    count = len(inputs)
    try:
        (graph,) = _with_constants([output])
        grad = require_extra("pytensor.gradient", "pymc").grad
        slopes = grad(graph, list(inputs), disconnected_inputs="ignore")
        program = compile_graph([*inputs, *rows], [graph, *slopes])
        arrays = [jnp.asarray(x) for x in start]
        by_pytensor = quick_jit(program)(*arrays)[1:]
    except Exception:  # an operation without a gradient, or whose gradient JAX lacks
        return density
    if not all(np.isfinite(x).all() for x in by_pytensor):
        by_jax = quick_jit(jax.grad(density, range(count)))(*arrays)
        if all(np.isfinite(x).all() for x in by_jax):
            return density
    return _with_slopes(program, count)


def _with_slopes(program: Callable[..., list[Any]], count: int) -> Callable[..., Any]:
    """The first result of a program, with its other results as derivatives in the first inputs."""

    @jax.custom_jvp
    def density(values: tuple[Any, ...], rows: tuple[Any, ...]) -> Any:
        return program(*values, *rows)[0]

    @density.defjvp
    def slope(primals: Any, tangents: Any) -> Any:
        values, rows = primals
        value, *slopes = program(*values, *rows)
        terms = [jnp.sum(x * tangent) for x, tangent in zip(slopes, tangents[0], strict=True)]
        return value, sum(terms, jnp.zeros_like(value))

    return lambda *values: density(values[:count], values[count:])


def _with_constants(outputs: Sequence[Any]) -> list[Any]:
    """The outputs with data (`pymc.Data`) as constants."""
    tensor = require_extra("pytensor.tensor", "pymc")
    shared = require_extra("pytensor.compile.sharedvalue", "pymc").SharedVariable
    inputs = require_extra("pytensor.graph.traversal", "pymc").graph_inputs(outputs)
    is_data = lambda x: isinstance(x, shared) and hasattr(x.type, "shape")
    constants = {x: tensor.constant(x.get_value()) for x in inputs if is_data(x)}
    return require_extra("pytensor.graph.replace", "pymc").clone_replace(list(outputs), constants)


def _load_funcify() -> Callable[..., Any]:
    """PyTensor's translation to JAX. Its first import sets JAX's precision for the process; this
    restores it, in a new thread, where the caller's `enable_x64` does not hold."""
    functions: list[Callable[..., Any]] = []

    def load() -> None:
        x64 = jax.config.jax_enable_x64  # type: ignore[attr-defined]
        functions.append(require_extra("pytensor.link.jax.dispatch", "pymc").jax_funcify)
        jax.config.update("jax_enable_x64", x64)

    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
    if not functions:
        require_extra("pytensor.link.jax.dispatch", "pymc")  # raises the error in this thread
    return functions[0]

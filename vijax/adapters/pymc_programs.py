"""PyTensor's graphs as functions of JAX arrays."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from vijax.extras import require_extra


def minibatches(outputs: Sequence[Any]) -> set[Any]:
    """The nodes of `pymc.Minibatch` that these read."""
    is_one = require_extra("pymc.data", "pymc").MinibatchOp
    ancestors = require_extra("pytensor.graph.traversal", "pymc").ancestors(outputs)
    return {x.owner for x in ancestors if x.owner is not None and isinstance(x.owner.op, is_one)}


def program_of(inputs: Sequence[Any], outputs: Sequence[Any]) -> Callable[..., list[Any]]:
    """PyTensor's graph as a function of JAX arrays. Checks of parameters, which JAX cannot raise,
    are left out."""
    graph, checks = (require_extra(f"pytensor.{name}", "pymc") for name in ("graph.fg", "raise_op"))
    fgraph = graph.FunctionGraph(inputs=list(inputs), outputs=_with_constants(outputs), clone=True)
    for node in fgraph.toposort():
        if isinstance(node.op, checks.CheckAndRaise):
            fgraph.replace(node.outputs[0], node.inputs[0], import_missing=True)
    require_extra("pytensor.compile.mode", "pymc").JAX.optimizer.rewrite(fgraph)
    theirs = _funcify()(fgraph)

    def program(*values: Any) -> list[Any]:
        with warnings.catch_warnings():  # constants are doubles, which JAX makes floats without x64
            warnings.filterwarnings("ignore", message="Explicitly requested dtype")
            return [jnp.asarray(x, jnp.result_type(float)) for x in theirs(*values)]

    return program


def _with_constants(outputs: Sequence[Any]) -> list[Any]:
    """The outputs with data (`pymc.Data`) as constants."""
    tensor = require_extra("pytensor.tensor", "pymc")
    shared = require_extra("pytensor.compile.sharedvalue", "pymc").SharedVariable
    inputs = require_extra("pytensor.graph.traversal", "pymc").graph_inputs(outputs)
    is_data = lambda x: isinstance(x, shared) and hasattr(x.type, "shape")
    constants = {x: tensor.constant(x.get_value()) for x in inputs if is_data(x)}
    return require_extra("pytensor.graph.replace", "pymc").clone_replace(list(outputs), constants)


def _funcify() -> Callable[..., Any]:
    """PyTensor's translation to JAX. Its first import sets JAX's precision for the whole process,
    which is put back; in a thread of its own, where no `enable_x64` of the caller's holds."""
    loaded: list[Callable[..., Any]] = []

    def load() -> None:
        was = jax.config.jax_enable_x64  # type: ignore[attr-defined]
        loaded.append(require_extra("pytensor.link.jax.dispatch", "pymc").jax_funcify)
        jax.config.update("jax_enable_x64", was)

    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
    if not loaded:
        require_extra("pytensor.link.jax.dispatch", "pymc")  # raises the error here
    return loaded[0]

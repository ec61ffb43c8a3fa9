"""A check that a density of another library reads no entry beyond its variables: JAX takes the
nearest one in silence."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import checkify

from vijax.checks import require
from vijax.xla.compiler import quick_jit


def check_indices(log_density: Callable[[Any], Any], values: Mapping[str, Any]) -> None:
    """Raises ValueError at an index beyond an array in a log density; warns where JAX cannot check
    it.

    >>> import jax.numpy as jnp
    >>> check_indices(lambda v: v["x"][jnp.array([0, 3])].sum(), {"x": jnp.zeros(3)})
    Traceback (most recent call last):
    ...
    ValueError: model: expected indices within arrays, got out-of-bounds indexing for array ...
    """
    floats = {name: jnp.asarray(x, jnp.result_type(float)) for name, x in values.items()}
    if "gather[" not in str(jax.make_jaxpr(log_density)(floats)):
        return
    program = checkify.checkify(log_density, errors=checkify.index_checks)
    try:
        report, _ = quick_jit(program)(floats)
    except Exception as error:  # of an operation that checkify does not know
        text = f"model: whether indices are within their arrays was not checked: {error}"
        warnings.warn(text, UserWarning, stacklevel=3)
        return
    message = report.get() or ""
    actual = message.partition("(`check`")[0].strip(" .\n")
    remedy = "JAX takes another entry in silence. Count codes from 0, and give an entry for each."
    require(not message, "model", "indices within arrays", actual, remedy)

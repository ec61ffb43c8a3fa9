"""A guard for factorisations of stacks of matrices, which lock up jaxlib 0.10 and 0.11.0 on a CPU.

There a call of LAPACK on a stack (Cholesky, a triangular solve, ...) is cut up for the threads of
XLA's pool, and waits on one of these threads until the others have done it. A program that has as
many such calls side by side as the pool has threads, one for each core, waits for ever: each thread
waits, and none works. A stack is cut up only if its work is more than some 200,000 operations.
(jaxlib 0.9 does not cut stacks up, nor do versions after 0.11.0: it gains nothing.)

So a program of vijax's own hands LAPACK smaller stacks, one after the other: `guard_lapack` finds the
calls in the traced program, after differentiation and `vmap`, and puts a loop over parts of the
stack in the place of each large one. The numbers are the same, matrix by matrix. Nothing of the
process is changed: no thread, no variable, no flag."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
from jax.custom_batching import sequential_vmap
from jax.extend.core import ClosedJaxpr, Jaxpr
from jaxtyping import Array

from vijax.xla.chunks import merge_chunks, split_chunks

MOST_WORK = 200_000
"""Operations on a stack that jaxlib leaves in one piece."""
OPERATIONS = {
    "cholesky": 1,
    "triangular_solve": 1,
    "lu": 1,
    **dict.fromkeys(
        ("geqrf", "geqp3", "qr", "householder_product", "ormqr", "tridiagonal", "hessenberg"), 10
    ),
    **dict.fromkeys(("eigh", "eig", "svd", "schur"), 10),
}
"""JAX's calls of LAPACK, with an upper limit of what jaxlib counts for an n x m matrix, in units of
n m max(n, m)."""


def is_needed(version: str) -> bool:
    """True for the versions of jaxlib that lock up.

    >>> [version for version in ("0.9.2", "0.10.0", "0.10.2", "0.11.0", "0.11.1") if is_needed(version)]
    ['0.10.0', '0.10.2', '0.11.0']
    """
    return version.startswith("0.10.") or version == "0.11.0"


def guard_lapack(fn: Callable) -> Callable:
    """The same function; where it is traced for a CPU, LAPACK is given stacks so small that none is
    cut up."""
    if not is_needed(jaxlib.__version__):
        return fn

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = jax.tree.flatten((args, kwargs))
        traced = [i for i, x in enumerate(leaves) if isinstance(x, jax.core.Tracer)]
        if not traced or jax.default_backend() != "cpu":
            return fn(*args, **kwargs)

        given = [leaves[i] for i in traced]
        fixed = {i: x for i, x in enumerate(leaves) if i not in traced}

        def of_traced(*given: Any) -> Any:
            known = fixed | dict(zip(traced, given, strict=True))
            args, kwargs = jax.tree.unflatten(structure, [known[i] for i in range(len(known))])
            return fn(*args, **kwargs)

        program = jax.jit(of_traced)
        found = program.trace(*given)
        if not _has_large(found.jaxpr.jaxpr):
            return program(*given)  # traced already
        small = _without_large(found.jaxpr)
        return jax.tree.unflatten(
            jax.tree.structure(found.out_info),
            jax.core.eval_jaxpr(small.jaxpr, small.consts, *given),
        )

    if isinstance(fn, functools.partial):
        call.__name__ = fn.func.__name__  # the program's, too
    return call


# --- which calls are cut up -----------------------------------------------------------------------
def _is_large(equation: Any) -> bool:
    return equation.primitive.name in OPERATIONS and math.prod(_stack(equation)) > _most_at_once(
        equation
    )


def _stack(equation: Any) -> tuple[int, ...]:
    """Axes of the stack of an equation; () where it is none of LAPACK."""
    return equation.invars[0].aval.shape[:-2] if equation.primitive.name in OPERATIONS else ()


def _most_at_once(equation: Any) -> int:
    """The number of matrices that jaxlib surely leaves in one piece; a single one always is."""
    if not _stack(equation):
        return 1
    rank = len(_stack(equation))
    shapes = [x.aval.shape[rank:] for x in (*equation.invars, *equation.outvars)]
    work = max(math.prod(shape) * max(shape) for shape in shapes if len(shape) == 2)
    complex_too = 3 if jnp.iscomplexobj(equation.invars[0].aval) else 1
    return max(1, MOST_WORK // max(1, OPERATIONS[equation.primitive.name] * complex_too * work))


def _has_large(jaxpr: Jaxpr) -> bool:
    """True where an equation, also of an inner program, is a call that may be cut up. jax traces an
    inner program once for many calls and many programs."""
    if (known := _known.get(jaxpr)) is None:
        known = _known[jaxpr] = any(
            _is_large(e) or any(map(_has_large, jaxprs_in_params(e.params))) for e in jaxpr.eqns
        )
    return known


_known: weakref.WeakKeyDictionary[Jaxpr, bool] = weakref.WeakKeyDictionary()


def jaxprs_in_params(params: Mapping[str, Any]) -> Iterator[Jaxpr]:
    """The inner programs of an equation (`jax.extend.core` has this function from jax 0.8 on
    only)."""
    return _jaxprs_among(params.values())


def _jaxprs_among(values: Iterable[Any]) -> Iterator[Jaxpr]:
    for x in values:
        if isinstance(x, tuple | list):
            yield from _jaxprs_among(x)
        elif isinstance(x, Jaxpr | ClosedJaxpr):
            yield x.jaxpr if isinstance(x, ClosedJaxpr) else x


# --- the program without them ---------------------------------------------------------------------
def _without_large(x: Any) -> Any:
    """A program with loops in the place of large calls; anything else, such as a number, as it
    is."""
    if isinstance(x, tuple | list):
        return jax.tree.map(_without_large, x)
    if isinstance(x, ClosedJaxpr):
        return ClosedJaxpr(_without_large(x.jaxpr), x.consts)
    if not isinstance(x, Jaxpr) or not _has_large(x):
        return x
    return x.replace(eqns=[_by_parts(e) if _is_large(e) else _changed_inside(e) for e in x.eqns])


def _changed_inside(equation: Any) -> Any:
    return equation.replace(params={name: _without_large(x) for name, x in equation.params.items()})


def _by_parts(equation: Any) -> Any:
    """A call on parts of the stack, one after the other; under another `vmap` again. Its derivative
    is the ordinary call's."""
    stack, primitive = _stack(equation), equation.primitive
    size = math.prod(stack)

    def ordinary(*given: Array) -> tuple[Array, ...]:
        found = primitive.bind(*given, **equation.params)
        return tuple(found) if primitive.multiple_results else (found,)

    @sequential_vmap
    def in_turn(*given: Array) -> tuple[Array, ...]:
        flat = tuple(x.reshape(size, *x.shape[len(stack) :]) for x in given)
        parts = split_chunks(flat, _most_at_once(equation), repeat_last=True)
        found = merge_chunks(jax.lax.map(lambda part: ordinary(*part), parts), size)
        return tuple(x.reshape(*stack, *x.shape[1:]) for x in found)

    whole = jax.custom_jvp(in_turn)
    whole.defjvp(lambda primals, tangents: jax.jvp(ordinary, primals, tangents))
    (call,) = jax.make_jaxpr(jax.jit(whole))(*(x.aval for x in equation.invars)).eqns
    return call.replace(invars=equation.invars, outvars=equation.outvars)

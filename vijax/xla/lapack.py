"""A guard for factorisations of stacks of matrices, with which jaxlib 0.10 and 0.11.0 can hang on a
CPU.

In these versions a call of LAPACK on a stack (Cholesky, a triangular solve, ...) is cut up for the
threads of XLA's pool, and one of these threads waits until the others have done it. The pool has
one thread for each core. If a program has as many of these calls side by side as threads, every
thread waits for ever. A stack is cut up only if its work is more than some 200,000 operations.
(jaxlib 0.9 does not cut stacks up, nor do versions after 0.11.0: it gains nothing.)

So a program of vijax gives LAPACK smaller stacks, one after the other. `guard_lapack` finds the
calls in the traced program, after differentiation and `vmap`, and replaces each large one by a loop
over parts of the stack. The numbers are the same, matrix by matrix. Nothing else in the process is
changed: no thread, no variable, no flag."""

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
"""Operations on a stack up to which jaxlib leaves it in one piece."""
OPERATIONS = {
    "cholesky": 1,
    "triangular_solve": 1,
    "lu": 1,
    **dict.fromkeys(
        ("geqrf", "geqp3", "qr", "householder_product", "ormqr", "tridiagonal", "hessenberg"), 10
    ),
    **dict.fromkeys(("eigh", "eig", "svd", "schur"), 10),
}
"""JAX's calls of LAPACK, with an upper limit of the operations that jaxlib counts for an n x m
matrix, in units of n m max(n, m)."""


def is_needed(version: str) -> bool:
    """True for the versions of jaxlib that can hang.

    >>> [version for version in ("0.9.2", "0.10.0", "0.10.2", "0.11.0", "0.11.1") if is_needed(version)]
    ['0.10.0', '0.10.2', '0.11.0']
    """
    return version.startswith("0.10.") or version == "0.11.0"


def guard_lapack(fn: Callable) -> Callable:
    """The same function, but on a CPU LAPACK's calls get stacks too small to be cut up."""
    if not is_needed(jaxlib.__version__):
        return fn

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = jax.tree.flatten((args, kwargs))
        traced = [i for i, x in enumerate(leaves) if isinstance(x, jax.core.Tracer)]
        if not traced or jax.default_backend() != "cpu":
            return fn(*args, **kwargs)

        tracers = [leaves[i] for i in traced]
        fixed = {i: x for i, x in enumerate(leaves) if i not in traced}

        def call_with_tracers(*tracers: Any) -> Any:
            by_place = fixed | dict(zip(traced, tracers, strict=True))
            filled = [by_place[i] for i in range(len(by_place))]
            args, kwargs = jax.tree.unflatten(structure, filled)
            return fn(*args, **kwargs)

        program = jax.jit(call_with_tracers)
        trace = program.trace(*tracers)
        if not _has_large(trace.jaxpr.jaxpr):
            return program(*tracers)  # it is traced already
        small = _replace_large(trace.jaxpr)
        results = jax.core.eval_jaxpr(small.jaxpr, small.consts, *tracers)
        return jax.tree.unflatten(jax.tree.structure(trace.out_info), results)

    if isinstance(fn, functools.partial):
        call.__name__ = fn.func.__name__  # the name of the program, too
    return call


# --- the calls that are cut up --------------------------------------------------------------------
def _is_large(equation: Any) -> bool:
    if equation.primitive.name not in OPERATIONS:
        return False
    return math.prod(_stack(equation)) > _most_at_once(equation)


def _stack(equation: Any) -> tuple[int, ...]:
    """The axes of the stack of a call of LAPACK; () for other equations."""
    return equation.invars[0].aval.shape[:-2] if equation.primitive.name in OPERATIONS else ()


def _most_at_once(equation: Any) -> int:
    """The number of matrices that jaxlib surely leaves in one piece; a single one always is."""
    if not _stack(equation):
        return 1
    rank = len(_stack(equation))
    shapes = [x.aval.shape[rank:] for x in (*equation.invars, *equation.outvars)]
    work = max(math.prod(shape) * max(shape) for shape in shapes if len(shape) == 2)
    complex_factor = 3 if jnp.iscomplexobj(equation.invars[0].aval) else 1
    operations = OPERATIONS[equation.primitive.name] * complex_factor * work
    return max(1, MOST_WORK // max(1, operations))


def _has_large(jaxpr: Jaxpr) -> bool:
    """True if an equation, also of an inner program, is a call that may be cut up. Answers are
    remembered, for JAX traces an inner program once for many calls and many programs."""
    answer = _answers.get(jaxpr)
    if answer is None:
        answer = any(
            _is_large(e) or any(map(_has_large, jaxprs_in_params(e.params))) for e in jaxpr.eqns
        )
        _answers[jaxpr] = answer
    return answer


_answers: weakref.WeakKeyDictionary[Jaxpr, bool] = weakref.WeakKeyDictionary()


def jaxprs_in_params(params: Mapping[str, Any]) -> Iterator[Jaxpr]:
    """The inner programs of an equation. (`jax.extend.core` has this function only from jax
    0.8.)"""
    return _find_jaxprs(params.values())


def _find_jaxprs(values: Iterable[Any]) -> Iterator[Jaxpr]:
    for x in values:
        if isinstance(x, tuple | list):
            yield from _find_jaxprs(x)
        elif isinstance(x, Jaxpr | ClosedJaxpr):
            yield x.jaxpr if isinstance(x, ClosedJaxpr) else x


# --- the program without these calls --------------------------------------------------------------
def _replace_large(x: Any) -> Any:
    """A program with loops in the place of large calls; anything else unchanged."""
    if isinstance(x, tuple | list):
        return jax.tree.map(_replace_large, x)
    if isinstance(x, ClosedJaxpr):
        return ClosedJaxpr(_replace_large(x.jaxpr), x.consts)
    if not isinstance(x, Jaxpr) or not _has_large(x):
        return x
    return x.replace(eqns=[_loop(e) if _is_large(e) else _replace_inner(e) for e in x.eqns])


def _replace_inner(equation: Any) -> Any:
    return equation.replace(params={name: _replace_large(x) for name, x in equation.params.items()})


def _loop(equation: Any) -> Any:
    """A call on parts of the stack, one after the other, and again so under another `vmap`. Its
    derivative is the ordinary call's."""
    stack = _stack(equation)
    primitive = equation.primitive
    size = math.prod(stack)

    def ordinary(*arrays: Array) -> tuple[Array, ...]:
        results = primitive.bind(*arrays, **equation.params)
        return tuple(results) if primitive.multiple_results else (results,)

    @sequential_vmap
    def part_by_part(*arrays: Array) -> tuple[Array, ...]:
        flat = tuple(x.reshape(size, *x.shape[len(stack) :]) for x in arrays)
        parts = split_chunks(flat, _most_at_once(equation), repeat_last=True)
        results = merge_chunks(jax.lax.map(lambda part: ordinary(*part), parts), size)
        return tuple(x.reshape(*stack, *x.shape[1:]) for x in results)

    loop = jax.custom_jvp(part_by_part)
    loop.defjvp(lambda primals, tangents: jax.jvp(ordinary, primals, tangents))
    (call,) = jax.make_jaxpr(jax.jit(loop))(*(x.aval for x in equation.invars)).eqns
    return call.replace(invars=equation.invars, outvars=equation.outvars)

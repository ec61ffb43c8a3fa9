"""Options for XLA's CPU compiler. Compilation is most of a first fit, and most of it gains nothing.

There are three kinds of programs. *Steps* run many times: optimisation level 2, without fusion
emitters, compiles in half the time and a fifth of the memory, and runs as fast. (Level 1 is no
quicker, and with AVX-512 LLVM cannot select instructions for some programs, such as `vijax.map` of
2 topics of 8 words: it ends the process.) *Training* is steps that update large arrays in place, as
for networks. Without fusion emitters these are slow (an autoencoder of 183,000 weights takes 2.5 in
place of 2.0 ms a step), so they have them, for .7 s more of compilation. *Quick* programs run once:
level 0, and in one piece, because splitting a program into up to 32 parts for as many threads costs
a tenth to a third of its compilation. A program that runs once on data of any size is quick if it
is little work. Accelerators get no options, and no compiler gets an option that it does not know.
The user's own settings in XLA_FLAGS are kept."""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import jax
import jax.numpy as jnp  # noqa: F401  # for the examples
import numpy as np

from vijax.xla.lapack import guard_lapack

STEP = {"xla_backend_optimization_level": 2, "xla_cpu_use_fusion_emitters": False}
TRAINING = {"xla_backend_optimization_level": 2}
QUICK = STEP | {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_parallel_codegen_split_count": 1,
}
LARGE = 1 << 20
"""Numbers, times the work on each, above which running a program once costs more than compiling."""


def step_jit(fn: Callable, **more: Any) -> Callable:
    """`jax.jit` for functions that run many times."""
    return _Program(fn, STEP, more)


def training_jit(fn: Callable, **more: Any) -> Callable:
    """`jax.jit` for functions that run many times and update large arrays in place."""
    return _Program(fn, TRAINING, more)


def quick_jit(fn: Callable, **more: Any) -> Callable:
    """`jax.jit` for functions that run once, if compiling costs more than running.

    >>> print(quick_jit(lambda x: x + 1)(2))
    3
    """
    return _Program(fn, QUICK, more)


def once_jit(fn: Callable, work: Callable[..., int] | None = None, **more: Any) -> Callable:
    """`jax.jit` for functions that run once, on data of any size: quick if there is little work.

    Args:
      fn: the function.
      work: (arguments) -> the amount of work, in the unit of `LARGE`; None counts the numbers in
          the arguments.
      more: further arguments of `jax.jit`.

    >>> print(once_jit(jnp.sum)(np.arange(3)))
    3
    """
    quick = quick_jit(fn, **more)
    step = step_jit(fn, **more)

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        size = (work or count_numbers)(*args, **kwargs)
        return (quick if size < LARGE else step)(*args, **kwargs)

    return call


def count_numbers(*args: Any, **kwargs: Any) -> int:
    """The number of all numbers in the arguments."""
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves((args, kwargs)))


class _Program:
    """A jitted function. Its options are found at the first call: JAX may start after import."""

    def __init__(self, fn: Callable, options: Mapping[str, Any], more: dict[str, Any]):
        functools.update_wrapper(self, fn, updated=())
        self._fn = guard_lapack(fn)
        self._options = options
        self._more = more

    @functools.cached_property
    def _program(self) -> Callable:
        return jax.jit(self._fn, compiler_options=usable_options(self._options), **self._more)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((args, kwargs))):
            # Part of the user's program, with its options
            return jax.jit(self._fn, **self._more)(*args, **kwargs)
        with escape_trace():  # constants alone are no part of a program that is being traced
            return self._program(*args, **kwargs)


def escape_trace() -> contextlib.AbstractContextManager:
    """A context in which constants stay numbers, even while a program is traced. (They would become
    a part of it.)"""
    is_traced = isinstance(jax.device_put(_device_zero()), jax.core.Tracer)
    return jax.ensure_compile_time_eval() if is_traced else contextlib.nullcontext()


@functools.cache
def _device_zero() -> jax.Array:
    """A number on the device. To use this one takes a tenth of the time of a new one."""
    with jax.ensure_compile_time_eval():
        return jax.device_put(np.int32(0))


def usable_options(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The options that this process can use; None if there are none."""
    if jax.default_backend() != "cpu":
        return None
    unset = unset_options(options, os.environ.get("XLA_FLAGS", ""))
    if not _is_known(*unset.items()):
        unset = {name: value for name, value in unset.items() if _is_known((name, value))}
    return unset or None


def unset_options(options: Mapping[str, Any], flags: str) -> dict[str, Any]:
    """The options that the user's flags do not mention.

    >>> unset_options({"xla_a": 1, "xla_b": 2}, "--xla_b=3 --xla_c")
    {'xla_a': 1}
    """
    names = {flag.lstrip("-").partition("=")[0] for flag in flags.split()}
    return {name: value for name, value in options.items() if name not in names}


@functools.cache
def _is_known(*options: tuple[str, Any]) -> bool:
    """True if this version of XLA knows the options, by a trial compilation."""
    try:
        jax.jit(_nothing).lower().compile(dict(options))
    except Exception:  # its type differs between versions; the option is left out in any case
        return False
    return True


def _nothing() -> int:
    return 0


# --- programs that are freed with their owners ----------------------------------------------------
_programs: weakref.WeakKeyDictionary[Any, dict[Hashable, Any]] = weakref.WeakKeyDictionary()


def cached_program(owner: Any, name: Hashable, make: Callable[[weakref.ref], Any]) -> Any:
    """The result of `make` for this owner, made once and freed with it: so a process that fits a
    thousand algorithms in turn keeps the programs of one. `make` gets a weak reference to the
    owner, so that the owner can be freed; the owner is alive whenever the program is called.

    >>> double = lambda x: 2 * x
    >>> program = cached_program(double, "twice", lambda double: quick_jit(lambda x: double()(double()(x))))
    >>> print(program(3))
    12
    """
    programs = _programs.setdefault(owner, {})
    if name not in programs:
        programs[name] = make(weakref.ref(owner))
    return programs[name]

"""E-steps of mixed membership and gamma draws as machine code: XLA's computations on a CPU, 1.5 to
6 times as fast.

A document's E-step is a loop over its words until it converges. XLA runs it on chunks of documents,
each until the slowest has converged, and its loops over words and topics are not the fastest
possible. `kernels.cc` does the same in C++, document by document; for mean field and CVB0 with the
bound and its gradient in the topics, so that no array (documents, words, topics) of a batch is ever
written. `normals.cc` has the E-step of logistic-normal topics with its bound. `pairs.cc` chooses
the active topics of documents; `gammas.cc` has the draws of `vijax.families.numeric.pathwise`.

Installing vijax compiles these files where there is a C++ compiler (`hatch_build.py`). Without one,
on other devices than CPUs, and under VIJAX_NATIVE=0, XLA computes the same numbers up to rounding.
`jax.export` for CPUs refuses programs that call these kernels: set VIJAX_NATIVE=0 before a step is
traced for it."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

LIBRARY = Path(__file__).with_name("esteps.so")
SWITCH = "VIJAX_NATIVE"
OF_NUMBERS = (
    *("cvb0", "mean_field", "gibbs", "choose", "cvb0_step", "mean_field_step"),
    *("logistic_normal", "logistic_normal_step"),
)
NAMES = (
    *(f"{name}_{dtype}" for name in OF_NUMBERS for dtype in ("float32", "float64")),
    "distinct_int32",
    "gamma_offsets_float32",
)
OF_SEVERAL = ("gamma_offsets_float32",)
"""Kernels that `vmap` calls once, with arrays that have one more leading axis."""
Results = Sequence[tuple[int, ...] | jax.ShapeDtypeStruct]


def is_installed() -> bool:
    """True where kernels were compiled, and are not switched off."""
    return os.environ.get(SWITCH, "1") != "0" and LIBRARY.exists()


def is_available() -> bool:
    """True where the kernels also work with this version of JAX.

    >>> is_available() <= is_installed()
    True
    """
    return is_installed() and _registered(LIBRARY)


def missing() -> str:
    """A sentence for users on a CPU without kernels; empty where there are some, or where they are
    switched off."""
    if is_installed() or os.environ.get(SWITCH, "1") == "0" or jax.default_backend() != "cpu":
        return ""
    return (
        "E-steps of topics are not compiled here, and take 2 to 6 times as long. Install vijax "
        "again where there is a "
        f"C++ compiler, or set {SWITCH}=0 to hear no more of it."
    )


@functools.cache
def _registered(library: Path) -> bool:
    """Registers the kernels with XLA, once, and tries one, because the library may be of another
    version of XLA."""
    if not library.exists():
        return False
    try:
        functions = ctypes.CDLL(str(library))
        _check_version(functions.vijax_major(), functions.vijax_minor())
        for name in NAMES:
            jax.ffi.register_ffi_target(
                _target(name), jax.ffi.pycapsule(getattr(functions, name)), platform="cpu"
            )
        _try()
    except Exception as error:
        warnings.warn(
            "The compiled E-steps of vijax do not work here, so XLA computes them, slower "
            f"({error}). Install vijax "
            f"again to compile them anew, or set {SWITCH}=0 to hear no more of it.",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


def _check_version(major: int, minor: int) -> None:
    """Raises RuntimeError where XLA is older than the version compiled for, and would have no CPU
    backend then."""
    header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h").read_text(encoding="utf-8")
    here = dict(re.findall(r"define XLA_FFI_API_(MAJOR|MINOR) (\d+)", header))
    if int(here["MAJOR"]) != major or int(here["MINOR"]) < minor:
        version = f"{here['MAJOR']}.{here['MINOR']}"
        raise RuntimeError(
            f"they are of version {major}.{minor} of XLA's interface, and this jaxlib has {version}"
        )


def _try() -> None:
    """Tries a document of two words and one topic: gamma is alpha plus its number of tokens."""
    with jax.ensure_compile_time_eval(), jax.default_device(jax.local_devices(backend="cpu")[0]):
        given = [np.ones(n, np.float32) for n in ((1, 2, 1), (1, 2), 1, (1, 1))]
        results = _typed([(1, 1), (1, 2, 1)], np.float32)
        found = call("cvb0_float32", results, *given, max_iters=1, tol=0.5)
        if found[0].item() != 3.0:
            raise RuntimeError(f"a gamma of 3 was expected, and {found[0].item()} came")


def run_kernel(
    name: str,
    results: Results,
    otherwise: Callable[..., tuple[Array, ...]],
    *args: Array,
    **settings: int | float,
) -> tuple[Array, ...]:
    """The results of a kernel, where it can be used; else `otherwise(*args)`.

    Args:
      name: name of the kernel.
      results: shapes of the results, with types where these are not the type of the numbers given.
      otherwise: the same computation in JAX.
      *args: its inputs: numbers, ids or words of bits; constants to differentiation.
      **settings: integers and numbers known at compilation.
    """
    numbers = [x for x in args if jnp.issubdtype(x.dtype, jnp.floating)]
    dtype = jnp.result_type(*(numbers or args))
    if f"{name}_{dtype}" not in NAMES:
        return otherwise(*args)
    args = tuple(x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x for x in args)
    kernel = lambda *args: call(f"{name}_{dtype}", _typed(results, dtype), *args, **settings)
    return use_kernel(kernel, otherwise, *args)


def use_kernel(kernel: Callable[..., Any], otherwise: Callable[..., Any], *args: Any) -> Any:
    """`kernel(*args)`, which may use `call`, where kernels can be used; else `otherwise(*args)`, of
    the same type."""
    return (
        jax.lax.platform_dependent(*args, cpu=kernel, default=otherwise)
        if is_available()
        else otherwise(*args)
    )


def call(
    name: str,
    results: Sequence[jax.ShapeDtypeStruct],
    *args: Any,
    aliases: Any = None,
    **settings: int | float,
) -> tuple[Array, ...]:
    """Calls a kernel, whose name ends in the type of numbers; `aliases` says which arguments may
    become results."""
    known = {
        key: np.int64(x) if isinstance(x, int) else np.float64(x) for key, x in settings.items()
    }
    how = "broadcast_all" if name in OF_SEVERAL else "sequential"
    made = jax.ffi.ffi_call(_target(name), results, vmap_method=how, input_output_aliases=aliases)
    return tuple(made(*args, **known))


def _typed(results: Results, dtype: Any) -> tuple[jax.ShapeDtypeStruct, ...]:
    return tuple(
        x if isinstance(x, jax.ShapeDtypeStruct) else jax.ShapeDtypeStruct(x, dtype)
        for x in results
    )


def _target(name: str) -> str:
    return f"vijax_{name}"

"""E-steps of mixed membership and gamma draws as machine code: XLA's computations on a CPU, 1.5 to
6 times as fast.

A document's E-step is a loop over its words until it converges. XLA runs it on chunks of documents,
each until the slowest has converged, and its loops over words and topics are not the fastest
possible. `kernels.cc` does the same in C++, document by document. For mean field and CVB0 it also
computes the bound and its gradient in the topics, so that no array (documents, words, topics) of a
batch is ever written. `normals.cc` has the E-step of logistic-normal topics with its bound.
`pairs.cc` chooses the active topics of documents; `gammas.cc` has the draws of
`vijax.families.numeric.pathwise`.

Installing vijax compiles these files if there is a C++ compiler (`hatch_build.py`). Without one, on
other devices than CPUs, and under VIJAX_NATIVE=0, XLA computes the same numbers up to rounding; of
Gibbs sampling other devices make other draws (`vijax.estep.gibbs`).
`jax.export` for CPUs refuses programs that call these kernels: set VIJAX_NATIVE=0 before such a
step is traced."""

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

from vijax.xla.device import count_parts

LIBRARY = Path(__file__).with_name("esteps.so")
SWITCH = "VIJAX_NATIVE"
FLOAT_KERNELS = (
    *("cvb0", "mean_field", "gibbs", "choose", "cvb0_step", "mean_field_step"),
    *("logistic_normal", "logistic_normal_step"),
)
"""Kernels with a version for each type of numbers."""
NAMES = (
    *(f"{name}_{dtype}" for name in FLOAT_KERNELS for dtype in ("float32", "float64")),
    "distinct_int32",
    "gamma_offsets_float32",
)
BATCHED = ("gamma_offsets_float32",)
"""Kernels that `vmap` calls once, with one more leading axis of the arrays."""
Results = Sequence[tuple[int, ...] | jax.ShapeDtypeStruct]


def is_installed() -> bool:
    """True if kernels were compiled, and are not switched off."""
    return os.environ.get(SWITCH, "1") != "0" and LIBRARY.exists()


def is_available() -> bool:
    """True if the kernels also work with this version of JAX.

    >>> is_available() <= is_installed()
    True
    """
    return is_installed() and _register(LIBRARY)


def missing() -> str:
    """A sentence for users on a CPU without kernels; empty if there are kernels, or if they are
    switched off."""
    if is_installed() or os.environ.get(SWITCH, "1") == "0" or jax.default_backend() != "cpu":
        return ""
    return (
        "E-steps of topics are not compiled here, and take 2 to 6 times as long. Install vijax "
        f"again where there is a C++ compiler, or set {SWITCH}=0 to hear no more of it."
    )


@functools.cache
def _register(library: Path) -> bool:
    """Registers the kernels with XLA, once, and tries one, for the library may be made for another
    version of XLA. True if they work."""
    if not library.exists():
        return False
    try:
        functions = ctypes.CDLL(str(library))
        _check_version(functions.vijax_major(), functions.vijax_minor())
        for name in NAMES:
            capsule = jax.ffi.pycapsule(getattr(functions, name))
            jax.ffi.register_ffi_target(_target(name), capsule, platform="cpu")
        _try_kernel()
    except Exception as error:
        warnings.warn(
            "The compiled E-steps of vijax do not work here, so XLA computes them, slower "
            f"({error}). Install vijax again to compile them anew, or set {SWITCH}=0 to hear no "
            "more of it.",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


def _check_version(major: int, minor: int) -> None:
    """Raises RuntimeError if XLA is older than the version that the kernels were compiled for: it
    would have no CPU backend then."""
    header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h").read_text(encoding="utf-8")
    present = dict(re.findall(r"define XLA_FFI_API_(MAJOR|MINOR) (\d+)", header))
    if int(present["MAJOR"]) != major or int(present["MINOR"]) < minor:
        version = f"{present['MAJOR']}.{present['MINOR']}"
        raise RuntimeError(
            f"they are of version {major}.{minor} of XLA's interface, and this jaxlib has {version}"
        )


def _try_kernel() -> None:
    """Tries a document of two words and one topic: gamma is alpha plus its number of tokens."""
    with jax.ensure_compile_time_eval(), jax.default_device(jax.local_devices(backend="cpu")[0]):
        arrays = [np.ones(n, np.float32) for n in ((1, 2, 1), (1, 2), 1, (1, 1))]
        results = _with_types([(1, 1), (1, 2, 1)], np.float32)
        gamma, _ = call("cvb0_float32", results, *arrays, max_iters=1, tol=0.5)
        if gamma.item() != 3.0:
            raise RuntimeError(f"a gamma of 3 was expected, and {gamma.item()} came")


def run_kernel(
    name: str,
    results: Results,
    otherwise: Callable[..., tuple[Array, ...]],
    *args: Array,
    **settings: int | float,
) -> tuple[Array, ...]:
    """The results of a kernel if it can be used, else `otherwise(*args)`.

    Args:
      name: name of the kernel.
      results: shapes of the results; with types, unless they have the type of the numbers in
          `args`.
      otherwise: the same computation in JAX.
      *args: its inputs: numbers, ids or words of bits; constants to differentiation.
      **settings: integers and numbers known at compilation.
    """
    numbers = [x for x in args if jnp.issubdtype(x.dtype, jnp.floating)]
    dtype = jnp.result_type(*(numbers or args))
    if f"{name}_{dtype}" not in NAMES:
        return otherwise(*args)
    args = tuple(x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x for x in args)

    def kernel(*args: Array) -> tuple[Array, ...]:
        return call(f"{name}_{dtype}", _with_types(results, dtype), *args, **settings)

    return use_kernel(kernel, otherwise, *args)


def use_kernel(kernel: Callable[..., Any], otherwise: Callable[..., Any], *args: Any) -> Any:
    """`kernel(*args)`, which may use `call`, if kernels can be used; else `otherwise(*args)`, with
    results of the same type. Arrays that XLA splits over devices are no arguments of kernels: it
    would gather them."""
    if not is_available() or count_parts() > 1:
        return otherwise(*args)
    return jax.lax.platform_dependent(*args, cpu=kernel, default=otherwise)


def call(
    name: str,
    results: Sequence[jax.ShapeDtypeStruct],
    *args: Any,
    aliases: Any = None,
    **settings: int | float,
) -> tuple[Array, ...]:
    """Calls a kernel, whose name ends in the type of numbers; `aliases` says which arguments may
    become results."""
    attributes = {
        key: np.int64(x) if isinstance(x, int) else np.float64(x) for key, x in settings.items()
    }
    vmap_method = "broadcast_all" if name in BATCHED else "sequential"
    kernel = jax.ffi.ffi_call(
        _target(name), results, vmap_method=vmap_method, input_output_aliases=aliases
    )
    return tuple(kernel(*args, **attributes))


def _with_types(results: Results, dtype: Any) -> tuple[jax.ShapeDtypeStruct, ...]:
    return tuple(
        x if isinstance(x, jax.ShapeDtypeStruct) else jax.ShapeDtypeStruct(x, dtype)
        for x in results
    )


def _target(name: str) -> str:
    return f"vijax_{name}"

"""Settings for the XLA runtime that must be in the environment before it starts.

In jaxlib 0.10 batched LAPACK calls (Cholesky, triangular solves of stacks of matrices) wait for helpers from the same
pool of threads that they run on: if as many of them run side by side as it has threads, one for each core, they
deadlock. jaxlib 0.8 and 0.9 do not. Two settings together prevent it: a scheduler that rarely runs two calls side by
side (not enough on its own: around a loop it does), and a pool larger than their number (not enough on its own: a step
may hold dozens).

XLA reads both from the environment: the pool's size when the first device is asked for, the scheduler when the first
program is compiled. So `import vijax` sets two variables, XLA_FLAGS and PJRT_NPROC, and removes them after the first
compilation, which JAX announces to listeners (`jax.monitoring`). Programs that are started later inherit nothing;
programs started between the import and the first computation inherit them. An import does not start a backend itself,
so that `jax.distributed.initialize` and the choice of a platform may still follow it. An import after JAX has started
comes too late: it changes nothing and warns. Settings of the user's own stand.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, MutableMapping
from typing import Any

import jax
import jaxlib

FLAG = "xla_cpu_enable_concurrency_optimized_scheduler"
SPARE_THREADS = 16  # more than the LAPACK calls that a step runs side by side, with the scheduler above
COMPILED = "/jax/core/compile/backend_compile_duration"  # the event after which XLA has read both


def needed(environ: MutableMapping[str, str], jaxlib_version: str, num_cores: int) -> dict[str, str]:
    """The variables that keep this version of jaxlib from locking up, except those that the user has set.

    >>> needed({"XLA_FLAGS": "--xla_a=1"}, "0.9.2", num_cores=2)
    {}
    >>> for name, value in needed({"XLA_FLAGS": "--xla_a=1"}, "0.10.2", num_cores=2).items():
    ...     print(f"{name}: {value}")
    XLA_FLAGS: --xla_a=1 --xla_cpu_enable_concurrency_optimized_scheduler=false
    PJRT_NPROC: 18
    """
    if not jaxlib_version.startswith("0.10."):
        return {}
    flags = environ.get("XLA_FLAGS", "")
    ours = {} if FLAG in flags else {"XLA_FLAGS": f"{flags} {_OURS}".strip()}
    pool = {} if "NPROC" in environ or "PJRT_NPROC" in environ else {"PJRT_NPROC": str(num_cores + SPARE_THREADS)}
    return ours | pool


_OURS = f"--{FLAG}=false"


def lend(environ: MutableMapping[str, str], variables: dict[str, str]) -> Callable[[], None]:
    """Sets variables; returns the function that takes them back, which leaves alone what others have set meanwhile.

    >>> environ = {"XLA_FLAGS": "--xla_a=1"}
    >>> take_back = lend(environ, needed(environ, "0.10.2", num_cores=2))
    >>> environ["XLA_FLAGS"] += " --xla_b=2"
    >>> take_back()
    >>> environ
    {'XLA_FLAGS': '--xla_a=1 --xla_b=2'}
    """
    had_flags = "XLA_FLAGS" in environ
    environ.update(variables)

    def take_back() -> None:
        if "XLA_FLAGS" in variables and _OURS in environ.get("XLA_FLAGS", ""):
            environ["XLA_FLAGS"] = " ".join(flag for flag in environ["XLA_FLAGS"].split() if flag != _OURS)
            if not environ["XLA_FLAGS"] and not had_flags:
                del environ["XLA_FLAGS"]
        if "PJRT_NPROC" in variables and environ.get("PJRT_NPROC") == variables["PJRT_NPROC"]:
            del environ["PJRT_NPROC"]

    return take_back


def has_started() -> bool:
    """True where JAX has a backend already. The number of CPU devices can be set only before, so an attempt to set it
    tells; it changes nothing, and starts no backend."""
    number = jax.config.jax_num_cpu_devices  # type: ignore[attr-defined]
    try:
        jax.config.update("jax_num_cpu_devices", number + 1)
    except RuntimeError:
        return True
    jax.config.update("jax_num_cpu_devices", number)
    return False


def prepare() -> None:
    """Lends XLA its settings until the first compilation, once, at `import vijax`; warns if JAX has already started."""
    variables = needed(os.environ, jaxlib.__version__, os.cpu_count() or 1)
    if not variables:
        return
    if has_started():
        if jax.default_backend() == "cpu":
            settings = " ".join(f"{name}='{value}'" for name, value in variables.items())
            warnings.warn(
                f"vijax was imported after JAX had started. With jaxlib {jaxlib.__version__} on a CPU, factorisations "
                "of stacks of matrices (full covariances) may then wait for ever. Import vijax before the first "
                f"computation, or start Python with {settings}.",
                RuntimeWarning,
                stacklevel=4,
            )
        return
    take_back = lend(os.environ, variables)

    def after_compilation(event: str, duration_secs: float, **_: Any) -> None:
        if event == COMPILED:
            take_back()

    jax.monitoring.register_event_duration_secs_listener(after_compilation)


prepare()

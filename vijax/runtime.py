"""What the XLA runtime must be told before it starts, while it needs to be.

In jaxlib 0.10 batched LAPACK calls (Cholesky, triangular solves of stacks of matrices) wait for helpers from the very
pool of threads that they run on: as many of them side by side as it has threads, one for each core, wait for ever.
jaxlib 0.8 and 0.9 are free of it. Two settings together keep away from it: a scheduler that rarely runs two calls side
by side (not enough on its own: around a loop it does), and a pool larger than their number (not enough on its own: a
step may hold dozens). XLA reads the one when the first computation is compiled and the other when the first device is
asked for, so import vijax before that.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

import jaxlib

FLAG = "xla_cpu_enable_concurrency_optimized_scheduler"
SPARE_THREADS = 16  # more than a step has LAPACK calls side by side, with the scheduler above


def prepare(environ: MutableMapping[str, str], jaxlib_version: str, num_cores: int) -> None:
    """Sets what keeps this version of jaxlib from locking up; choices of the user's stand.

    >>> environ = {"XLA_FLAGS": "--xla_a=1"}
    >>> prepare(environ, "0.9.2", num_cores=2)
    >>> environ
    {'XLA_FLAGS': '--xla_a=1'}
    >>> prepare(environ, "0.10.2", num_cores=2)
    >>> print(*(f"{name}: {value}" for name, value in environ.items()), sep="\\n")
    XLA_FLAGS: --xla_a=1 --xla_cpu_enable_concurrency_optimized_scheduler=false
    PJRT_NPROC: 18
    """
    if not jaxlib_version.startswith("0.10."):
        return
    flags = environ.get("XLA_FLAGS", "")
    if FLAG not in flags:
        environ["XLA_FLAGS"] = f"{flags} --{FLAG}=false".strip()
    if "NPROC" not in environ:
        environ.setdefault("PJRT_NPROC", str(num_cores + SPARE_THREADS))


prepare(os.environ, jaxlib.__version__, os.cpu_count() or 1)

"""What the XLA runtime must be told before it starts, while it needs to be.

In jaxlib 0.10 batched LAPACK calls (Cholesky, triangular solves of stacks of matrices) wait for helpers from the very
pool of threads that they run on. Two such calls side by side on a machine of two cores wait for ever; on larger ones
as many as there are cores. jaxlib 0.8 and 0.9 are free of it. One call after the other is safe, which is what the
scheduler does with this flag; XLA reads it when the first computation is compiled, so import vijax before that.
"""

from __future__ import annotations

import os

import jaxlib

FLAG = "xla_cpu_enable_concurrency_optimized_scheduler"


def safe_xla_flags(flags: str, jaxlib_version: str) -> str:
    """The flags with the one that keeps this version of jaxlib from locking up; a choice of the user's stands.

    >>> safe_xla_flags("--xla_a=1", "0.10.2")
    '--xla_a=1 --xla_cpu_enable_concurrency_optimized_scheduler=false'
    >>> safe_xla_flags("", "0.9.2")
    ''
    """
    affected = jaxlib_version.startswith("0.10.") and FLAG not in flags
    return f"{flags} --{FLAG}=false".strip() if affected else flags


def prepare() -> None:
    """Sets XLA_FLAGS of this process, where that is needed."""
    flags = safe_xla_flags(os.environ.get("XLA_FLAGS", ""), jaxlib.__version__)
    if flags:
        os.environ["XLA_FLAGS"] = flags


prepare()

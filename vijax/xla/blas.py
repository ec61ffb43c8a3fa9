"""A setting for SciPy's BLAS, made before it is loaded: its idle threads sleep.

XLA's factorisations on a CPU are LAPACK's, which JAX takes from SciPy. SciPy's OpenBLAS shares a
call among threads even if the matrices are small. Between calls these threads spin for some tens of
milliseconds, on the cores that the rest of a step needs (190 ms of CPU for 15 ms of work). OpenBLAS
reads the spinning time when it is loaded. So `import vijax` loads it, and sets the variable only
while it does: programs that are started later do not inherit it. The user's own setting is kept. If
SciPy's OpenBLAS has been loaded before, this comes too late, and changes nothing."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

VARIABLE = "OPENBLAS_THREAD_TIMEOUT"
SHORTEST = "4"  # spin for 2^4 cycles


def load(environ: MutableMapping[str, str]) -> None:
    """Loads SciPy's OpenBLAS with threads that sleep when idle."""
    is_unset = VARIABLE not in environ
    if is_unset:
        environ[VARIABLE] = SHORTEST
    try:
        import scipy.special  # noqa: F401  # of the modules that load it, the quickest to import
    finally:
        if is_unset:
            del environ[VARIABLE]


load(os.environ)

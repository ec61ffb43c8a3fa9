"""How hard XLA optimises the tests' programs, and where they are kept: most of what the fast suite
costs is compiling what runs once."""

import functools
import os
import re
from pathlib import Path

import jax
import jaxlib
import pytest

QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    # cutting a program up for many cores costs a fifth of compiling it
    "xla_cpu_parallel_codegen_split_count": 1,
}
DEFAULT = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
    "xla_cpu_parallel_codegen_split_count": 32,
}
VERSION = tuple(map(int, re.findall(r"\d+", jaxlib.__version__)[:2]))
if VERSION <= (0, 10):  # XLA aborts on a flag it does not know
    QUICK["xla_cpu_use_fusion_emitters"] = False
    DEFAULT["xla_cpu_use_fusion_emitters"] = True

ALONE = "--xla_cpu_multi_thread_eigen=false"
"""No threads within a matrix product: there are as many test processes as cores. (The lock-up that
`vijax.xla.lapack` guards against comes with this flag too.)"""

XLA_FLAGS = " ".join([ALONE, *(f"--{name}={str(value).lower()}" for name, value in QUICK.items())])

optimized_jit = functools.partial(jax.jit, compiler_options=DEFAULT)
"""`jax.jit` as users have it, whatever the flags: for a test of what XLA's optimiser makes of a
program."""

MOST_KEPT = 1e9
"""Bytes of compiled programs kept from run to run; one run of all tests writes about a tenth of
it."""


def keep_programs(config: pytest.Config) -> None:
    """A persistent compilation cache beside pytest's own, shared by the test processes, by the
    commands that tests start, and by the next run. A JAX_COMPILATION_CACHE_DIR of the user's is
    left as it is (test processes find that of the first here); JAX_ENABLE_COMPILATION_CACHE=0 has
    everything compiled again."""
    # Two processes may write one program: whoever reads it half written says so, and compiles it.
    config.addinivalue_line(
        "filterwarnings", "ignore:Error (reading|writing) persistent compilation cache entry"
    )
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or not hasattr(config, "cache"):
        return
    folder = config.cache.mkdir("jax")
    forget_oldest(folder, MOST_KEPT)
    settings = {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for name, value in settings.items():
        os.environ[name.upper()] = str(
            value
        )  # for processes to come; this one has read its environment
        jax.config.update(name, value)


def forget_oldest(folder: Path, most: float) -> None:
    """Removes files, those written first, until at most so many bytes are left. (jax's own bound
    looks at every file whenever it writes one.)"""
    files = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in folder.iterdir())
    excess = sum(size for _, size, _ in files) - most
    for _, size, path in files:
        if excess <= 0:
            break
        path.unlink(missing_ok=True)
        excess -= size

"""How hard XLA optimises the tests' programs: most of what the fast suite costs is compiling what runs once."""

import functools
import re

import jax
import jaxlib

QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
DEFAULT = {"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False}
if tuple(map(int, re.findall(r"\d+", jaxlib.__version__)[:2])) <= (0, 10):  # XLA aborts on a flag it does not know
    QUICK["xla_cpu_use_fusion_emitters"] = False
    DEFAULT["xla_cpu_use_fusion_emitters"] = True

XLA_FLAGS = " ".join(f"--{name}={str(value).lower()}" for name, value in QUICK.items())

optimized_jit = functools.partial(jax.jit, compiler_options=DEFAULT)
"""`jax.jit` as users have it, whatever the flags: for a test of what XLA's optimiser makes of a program."""

"""Compilation of programs and its caches; gathers, random bits and native kernels.

All work-arounds for JAX and XLA are in this folder, and only here. Nothing in it knows a model."""

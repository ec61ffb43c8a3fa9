"""Compilation of programs and its caches; gathers, random bits and native kernels.

Everything that works around JAX or XLA is in this folder and nowhere else. Nothing in it knows a
model."""

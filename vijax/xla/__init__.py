"""How programs are compiled, cached and kept small; gathers, random bits and native kernels.

What JAX or XLA should do by itself, and does not yet, is here and nowhere else. Nothing here knows a model.
"""

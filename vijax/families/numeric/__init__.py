"""Numerics that families share: special functions, pathwise derivatives, quasi-random points."""

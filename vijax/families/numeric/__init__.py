"""Numerics that families share: special functions, pathwise derivatives, quasi-random points.

Functions of numbers and arrays, tested against many digits; no families.
"""

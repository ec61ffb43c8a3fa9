"""Mixtures: finite ones of any family, and Dirichlet-process mixtures.

Laws of the components are in `emission`; mixtures in time are in `series`.
"""

"""Families of single numbers: normal, gamma, beta, Poisson and their like."""

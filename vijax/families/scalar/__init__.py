"""Families of single numbers, such as normal, gamma, beta and Poisson.

A law has one number and comes in batches. Vectors whose entries depend on each other are in
`vector`."""

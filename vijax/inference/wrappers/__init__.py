"""Wrappers of an algorithm: steps by words and devices, warm starts, averages; what stands beside
the step.

A wrapper takes an algorithm and returns one, and leaves the step as it is. Wrappers that only bags
of words need are in `vijax.topics`."""

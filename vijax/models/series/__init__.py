"""Models of sequences: hidden Markov models, factorial and autoregressive ones, linear-Gaussian state spaces, switching
ones."""

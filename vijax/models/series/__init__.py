"""Models of sequences: hidden Markov models, factorial ones, linear-Gaussian state spaces."""

"""Families of categories and of probabilities: categorical, multinomial, Dirichlet and its stored forms."""

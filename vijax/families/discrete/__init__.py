"""Families of categories and of probabilities: categorical, multinomial, Dirichlet and its stored
forms.

Laws whose values are counted, and laws of their probabilities. Tables over many words are stored
here too."""

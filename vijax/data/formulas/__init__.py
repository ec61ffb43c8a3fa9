"""Formulas such as `y ~ x * h + (x | g)`: a closed grammar, and design columns from typed columns.

A formula is data. It is parsed to its last letter or refused; it can name columns, numbers,
operators and listed functions, and nothing in it is ever run. Laws, priors and densities are in
`vijax.models.formulas`."""

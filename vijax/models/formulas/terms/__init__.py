"""Terms of a formula beyond columns: rows that lack a cell, coefficients that the data do not tell
apart, posteriors that are improper.

Columns of terms are computed in `vijax.data.formulas`; densities are in the folder above."""

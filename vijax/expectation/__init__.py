"""E_{N(m, v)}[log p(y | z)] with its derivatives in m and v: exact, by quadrature, by Monte Carlo, or bounded."""

from vijax.expectation.base import Expectation
from vijax.expectation.jaakkola_jordan import jaakkola_jordan
from vijax.expectation.monte_carlo import bonnet_price, reparameterised, score_function
from vijax.expectation.quadrature import exact, expect, gauss_hermite, quadrature

__all__ = [
    "Expectation",
    "bonnet_price",
    "exact",
    "expect",
    "gauss_hermite",
    "jaakkola_jordan",
    "quadrature",
    "reparameterised",
    "score_function",
]

"""E_{N(m, v)}[log p(y | z)] with its derivatives in m and v: exact, by quadrature, by Monte Carlo, or bounded."""

from vijax.inference.expectation.base import Expectation
from vijax.inference.expectation.jaakkola_jordan import jaakkola_jordan
from vijax.inference.expectation.monte_carlo import bonnet_price, reparameterised, score_function
from vijax.inference.expectation.quadrature import exact, expect, gauss_hermite, quadrature
from vijax.inference.expectation.vector import VectorExpectation, VectorMoments, bohning, vector_monte_carlo
from vijax.inference.expectation.vector_points import blei_lafferty, delta_method, laplace

__all__ = [
    "Expectation",
    "VectorExpectation",
    "VectorMoments",
    "blei_lafferty",
    "bohning",
    "bonnet_price",
    "delta_method",
    "exact",
    "expect",
    "gauss_hermite",
    "jaakkola_jordan",
    "laplace",
    "quadrature",
    "reparameterised",
    "score_function",
    "vector_monte_carlo",
]

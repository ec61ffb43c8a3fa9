"""E_{N(m, v)}[log p(y | z)] with its derivatives in m and v: exact, by quadrature, by Monte Carlo,
or a bound.

Each is for one predictor and one observation. The laws p(y | z) themselves are in `likelihood`.
"""

from vijax.inference.expectation.scalar import Expectation as Expectation
from vijax.inference.expectation.scalar import bonnet_price as bonnet_price
from vijax.inference.expectation.scalar import exact as exact
from vijax.inference.expectation.scalar import expect as expect
from vijax.inference.expectation.scalar import gauss_hermite as gauss_hermite
from vijax.inference.expectation.scalar import jaakkola_jordan as jaakkola_jordan
from vijax.inference.expectation.scalar import quadrature as quadrature
from vijax.inference.expectation.scalar import reparameterised as reparameterised
from vijax.inference.expectation.scalar import score_function as score_function
from vijax.inference.expectation.vector import VectorExpectation as VectorExpectation
from vijax.inference.expectation.vector import VectorMoments as VectorMoments
from vijax.inference.expectation.vector import blei_lafferty as blei_lafferty
from vijax.inference.expectation.vector import bohning as bohning
from vijax.inference.expectation.vector import delta_method as delta_method
from vijax.inference.expectation.vector import laplace as laplace
from vijax.inference.expectation.vector import vector_monte_carlo as vector_monte_carlo

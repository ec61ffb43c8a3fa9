"""A property of the units of a regression by a formula, on units that hypothesis makes up: the same
point of the unknowns says the same of the data."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import vijax as vi

RNG = np.random.default_rng(0)
TABLE = {"y": RNG.normal(2.0, 3.0, 40), "x": RNG.normal(-1.0, 2.0, 40), "z": RNG.normal(size=40)}
POWERS = st.floats(-4, 4)
POINT = np.array([0.3, -0.7, 1.1])


def coefficients(table):
    """Those at a point of the unknowns, in the units of the data, by `Units`' equation."""
    units = vi.glmm("y ~ x + z", table).density_form.units
    return np.array(units.location) + np.array(units.sizes) * (np.array(units.turn) @ POINT)


@settings(max_examples=20, deadline=None)
@given(POWERS, POWERS)
def test_units_of_columns_change_the_coefficients_and_no_prediction(power_of_y, power_of_x):
    of_y = 10.0**power_of_y
    of_x = 10.0**power_of_x
    other = TABLE | {"y": of_y * TABLE["y"], "x": of_x * TABLE["x"]}
    expected = coefficients(TABLE) * of_y / np.array([1.0, of_x, 1.0])
    np.testing.assert_allclose(coefficients(other), expected, rtol=1e-6)

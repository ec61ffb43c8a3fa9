"""Laws of units, on every row of the registry whose data are measured numbers: what another unit,
and another zero, do to its fit. It is measured, not declared: a row that says that its model does
not follow must show it. Models whose priors are placed by the data follow.

A fit that follows says the same of the groups, and its bound loses the logarithm of the unit for
each number."""

import jax
import numpy as np
import pytest

import vijax as vi
from tests.models.registry import KEY, REAL, ROWS, STATES, on
from tests.models.short_fits import FIT_KEY, fit_of, fitted
from vijax.models import emission

UNIT, ZERO = 10.0, 30.0
LEAST = 0.02
"""Nats by which bounds differ, at the least, that are said not to follow: of float32 a hundredth is
lost."""
OF_RESPONSES = ("ard_regression", "hierarchical_linear_regression")
"""Of these the response is measured, the second array of the data; of the others the first."""
SIGNS = ("hierarchical_probit_regression", "multilevel_logistic_regression")
"""Of these the inputs are measured, whose units the bound does not count."""
MEASURED = [case for case in ROWS if case.numbers == "real"]


def in_other_units(case, unit, zero):
    """The data with a x + b in the place of each measured number, and how many these are; padding
    stays 0."""
    leaves, structure = jax.tree.flatten(case.data)
    place = 1 if case.covers in OF_RESPONSES else 0
    x = leaves[place]
    leaves[place] = np.where(x == 0, 0.0, unit * x + zero)
    count = 0 if case.covers in SIGNS else int(np.sum((x != 0) & ~np.isnan(x)))
    return jax.tree.unflatten(structure, leaves), count


def apart(case, unit, zero):
    """By how many nats the bound of a fit in other units is not that of the fit."""
    data, count = in_other_units(case, unit, zero)
    wanted = fitted(case).fit.trace["elbo"][-1] - count * np.log(unit)
    return abs(float(fit_of(case, data).fit.trace["elbo"][-1] - wanted))


@on(MEASURED)
@pytest.mark.parametrize(("unit", "zero"), [(UNIT, 0.0), (1.0, ZERO)], ids=["unit", "zero"])
def test_what_is_said_not_to_follow_does_not(case, unit, zero):
    """If it does, the registry should say so."""
    assert isinstance(case.scale, str)
    assert apart(case, unit, zero) > LEAST


PLACED = {
    "full": (emission.full_gaussian, UNIT),
    "tied": (emission.tied_gaussian, UNIT),
    "diagonal": (emission.diagonal_gaussian, UNIT),
    "spherical": (emission.spherical_gaussian, UNIT),
    "unit": (emission.unit_gaussian, 1.0),  # its variance is one
}


def placed_fit(make, data):
    model = vi.models.mixture(emission.placed(make, STATES, data), concentration=1.5)
    fit = vi.fit(vi.cavi(model), data, num_steps=6, key=FIT_KEY)
    return float(fit.trace["elbo"][-1]), np.asarray(fit.locals(data, key=KEY)["z"].probs)


@pytest.mark.parametrize("name", PLACED)
def test_placed_priors_follow_unit_and_zero(name):
    make, unit = PLACED[name]
    bound, shares = placed_fit(make, REAL)
    other, same = placed_fit(make, unit * REAL + ZERO)
    # Starts go by content, which has a unit: the components may come in another order.
    order = [int(np.argmin(np.abs(same - column[:, None]).sum(0))) for column in shares.T]
    assert sorted(order) == list(range(STATES))
    np.testing.assert_allclose(same[:, order], shares, atol=2e-3)
    np.testing.assert_allclose(other, bound - REAL.size * np.log(unit), atol=0.05)

"""What rounding loses of a law is told in units of that law, against NumPy."""

import numpy as np

from vijax.families import construction


def test_the_loss_of_a_mean_is_counted_in_standard_deviations():
    """sqrt(d' P d) of an error d of the mean, whatever the correlations; P d is what the location is off by."""
    precision, error = np.array([[4.0, -3.8], [-3.8, 9.0]]), np.array([0.3, -0.1])
    mean = np.array([1.0, 2.0])
    lost = construction.lost_mean(precision @ (mean + error), precision, mean)
    np.testing.assert_allclose(lost, np.sqrt(error @ precision @ error), rtol=1e-12)

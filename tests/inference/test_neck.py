"""The normal where curvatures differ by more than digits, as up the neck of a funnel."""

import numpy as np

from vijax.automatic import gaussian
from vijax.lbfgs import Mode


class Neck:
    """Curvatures one and 1e18, turned by an angle."""

    epsilon = 2e-16

    def slopes(self, x):
        turn = np.array([[0.6, -0.8], [0.8, 0.6]])
        hessian = turn @ np.diag([1.0, 1e18]) @ turn.T
        return -0.5 * np.einsum("ni,ij,nj->n", x, hessian, x), -x @ hessian


def test_it_is_a_normal():
    q, _ = gaussian.laplace(Neck(), Mode(np.zeros(2), 0.0, np.array([1.0, 1.0])))
    assert np.all(np.isfinite(q.scale))
    assert np.all(np.diag(q.scale) > 0)

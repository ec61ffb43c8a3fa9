"""Constraints against the bijectors of TensorFlow Probability, their Jacobians, and the supports
they say they have."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tests.naming import naming
from tests.optional import tfp_adapter
from vijax import constrain
from vijax.constrain.scalars import next_to

RNG = np.random.default_rng(0)
LOWER = np.tril_indices(3)
BELOW = np.tril_indices(3, -1)
CORRELATED = [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, -0.6, 0.8]]

# the constraint, a point, arrays outside, and what of a point its density is with respect to
CASES = {
    "real": (constrain.real(), [-2.0, 0.0, 1e9], [[0.0, np.inf], [np.nan, 1.0]], lambda x: x),
    "positive": (constrain.positive(), [1e-6, 1.0, 1e9], [[1.0, 0.0], [np.inf, 1.0]], lambda x: x),
    "above": (constrain.above(-1.5), [-1.4, 0.0, 7.0], [[-1.5, 2.0], [-2.0, 0.0]], lambda x: x),
    "below": (
        constrain.below(2.0),
        [-9.0, 1.0, 1.9],
        [[2.0, 1.0], [1.0, 3.0], [-np.inf, 0.0]],
        lambda x: x,
    ),
    "interval": (
        constrain.interval(-1.0, 3.0),
        [-0.999, 0.5, 2.999],
        [[0.0, 3.0], [-1.0, 0.0]],
        lambda x: x,
    ),
    "unit_interval": (
        constrain.unit_interval(),
        [1e-4, 0.5, 0.7],
        [[0.0, 0.5], [0.5, 1.0]],
        lambda x: x,
    ),
    "simplex": (
        constrain.simplex(),
        [0.2, 0.1, 0.7],
        [[0.2, 0.0, 0.8], [0.2, 0.2, 0.5]],
        lambda x: x[:-1],
    ),
    "ordered": (
        constrain.ordered(),
        [-2.0, 1.0, 1.5],
        [[0.0, 0.0, 1.0], [0.0, 1.0, 0.5]],
        lambda x: x,
    ),
    "positive_definite": (
        constrain.positive_definite(),
        [[2.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 3.0]],
        [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.5], [0.4, 1.0]], [[0.0, 0.0], [0.0, 0.0]]],
        lambda x: x[LOWER],
    ),
    "correlation_cholesky": (
        constrain.correlation_cholesky(),
        CORRELATED,
        [[[1.0, 0.0], [0.6, -0.8]], [[1.0, 0.1], [0.6, 0.8]], [[1.0, 0.0], [0.5, 0.8]]],
        lambda x: x[BELOW],
    ),
}
EVERY = pytest.mark.parametrize("name", CASES)


@functools.partial(jax.jit, static_argnums=0)
def there(constraint, free):
    return constraint.point(free), constraint.log_det(free)


@functools.partial(jax.jit, static_argnums=0)
def back(constraint, x):
    return constraint.free(x), constraint.holds(x)


@functools.partial(jax.jit, static_argnums=(0, 1))
def jacobian(constraint, entries, free):
    return jax.jacfwd(lambda f: entries(constraint.point(f)))(free)


@EVERY
def test_a_point_comes_back_and_its_log_determinant_is_that_of_the_jacobian(name):
    """In float64, by forward differentiation of one event."""
    constraint, x, _, entries = CASES[name]
    with jax.enable_x64(True):
        free, held = back(constraint, np.array(x))
        assert np.all(held)
        assert free.shape == constraint.free_shape(np.shape(x))
        point, log_det = there(constraint, free)
        np.testing.assert_allclose(point, x, rtol=1e-12, atol=1e-15)
        want = np.linalg.slogdet(jacobian(constraint, entries, free))[1]
        np.testing.assert_allclose(log_det, want, rtol=1e-10, atol=1e-12)


@EVERY
def test_supports(name):
    constraint, _, outside, _ = CASES[name]
    for bad in map(np.float32, outside):
        _, held = back(constraint, bad)
        assert held.shape == bad.shape
        assert not np.all(held)


@EVERY
def test_any_numbers_stand_for_points_of_a_batch(name):
    """Leading axes: the log determinants add up; in float32, and under jit."""
    constraint, x, _, _ = CASES[name]
    free = RNG.normal(size=(4, *constraint.free_shape(np.shape(x)))).astype(np.float32)
    point, log_det = there(constraint, free)
    assert point.shape == (4, *np.shape(x))
    assert log_det.shape == ()
    assert log_det.dtype == point.dtype == jnp.float32
    again, held = back(constraint, point)
    assert np.all(held)
    # A Cholesky factor in float32 is known as well as its matrix is conditioned.
    conditioned = np.linalg.cond(point).max() if name == "positive_definite" else 0.0
    np.testing.assert_allclose(again, free, atol=2e-5 + conditioned * np.finfo(np.float32).eps)
    np.testing.assert_allclose(log_det, sum(there(constraint, f)[1] for f in free), rtol=1e-5)


@EVERY
def test_float32_is_right_and_differentiable_far_out(name):
    """At coordinates of plus and minus 30, log determinants are those of float64 and all
    derivatives finite."""
    constraint, x, _, _ = CASES[name]
    count = int(np.prod(constraint.free_shape(np.shape(x))))
    slopes = jax.jit(jax.grad(lambda f: jnp.sum(constraint.point(f)) + constraint.log_det(f)))
    for signs in (np.ones(count), -np.ones(count), (-1.0) ** np.arange(count)):
        free = 30.0 * signs
        point, log_det = there(constraint, np.float32(free))
        assert np.all(np.isfinite(point))
        assert np.all(np.isfinite(slopes(np.float32(free))))
        with jax.enable_x64(True):
            np.testing.assert_allclose(log_det, there(constraint, free)[1], rtol=1e-6)


@pytest.mark.parametrize(
    "name", ["positive", "above", "below", "interval", "unit_interval", "simplex"]
)
def test_rounding_puts_no_point_on_the_boundary(name):
    """1 + exp(-30), and sigmoid(30), are 1 in float32."""
    constraint = CASES[name][0]
    for free in np.float32([[-30.0, 30.0, 17.0], [30.0, -30.0, -17.0]]):
        assert np.all(back(constraint, there(constraint, free)[0])[1])


def bijectors():
    tfp = tfp_adapter().tfp
    tfb = tfp.bijectors
    chain = tfb.Chain(
        [tfb.CholeskyOuterProduct(), tfb.FillScaleTriL(diag_bijector=tfb.Exp(), diag_shift=None)]
    )
    return {
        "real": tfb.Identity(),
        "positive": tfb.Exp(),
        "above": tfb.Chain([tfb.Shift(-1.5), tfb.Exp()]),
        "below": tfb.Chain([tfb.Shift(2.0), tfb.Scale(-1.0), tfb.Exp()]),
        "interval": tfb.Sigmoid(-1.0, 3.0),
        "unit_interval": tfb.Sigmoid(),
        "simplex": tfb.SoftmaxCentered(),
        "ordered": tfb.Ascending(),
        "positive_definite": chain,
        "correlation_cholesky": tfb.CorrelationCholesky(),
    }


@pytest.mark.filterwarnings("ignore")
@EVERY
def test_points_and_log_determinants_are_tfps(name):
    """TFP's triangles are filled in another order, so that its own coordinates of the point are
    taken; its simplex has the area of the simplex itself, sqrt(K) times that of the first K - 1
    coordinates."""
    bijector = bijectors()[name]
    constraint, x, _, _ = CASES[name]
    free = np.linspace(-1.0, 1.5, *constraint.free_shape(np.shape(x)), dtype=np.float32)
    point, log_det = there(constraint, free)

    @jax.jit
    def compute(point):
        free = bijector.inverse(point)
        return free, bijector.forward(free), bijector.forward_log_det_jacobian(free, event_ndims=1)

    theirs, again, want = compute(point)
    np.testing.assert_allclose(np.sort(theirs), free, atol=1e-5)
    np.testing.assert_allclose(again, point, atol=1e-5)
    area = 0.5 * np.log(3) if name == "simplex" else 0.0
    np.testing.assert_allclose(log_det, want - area, rtol=1e-5, atol=1e-6)


def test_densities_of_transformed_laws_integrate_to_one():
    """Quadrature over the free coordinates of Beta(2, 3) and of a Gamma(2.5) above 1."""
    free = np.linspace(-25.0, 25.0, 1001)
    laws = (
        (constrain.unit_interval(), stats.beta(2, 3)),
        (constrain.above(1.0), stats.gamma(2.5, loc=1.0)),
    )
    with jax.enable_x64(True):
        for constraint, law in laws:
            point, log_det = jax.jit(jax.vmap(functools.partial(there, constraint)))(free)
            np.testing.assert_allclose(
                np.trapezoid(np.exp(law.logpdf(point) + log_det), free), 1.0, rtol=1e-8
            )


@pytest.mark.parametrize(
    ("constraint", "shape", "message"),
    [
        (
            constrain.simplex(),
            (3, 1),
            r"x: expected a last axis of at least 2 entries, got shape \(3, 1\)",
        ),
        (constrain.simplex(), (), r"x: expected a last axis of at least 2 entries, got shape \(\)"),
        (constrain.ordered(), (), r"x: expected a last axis of at least 1 entry, got shape \(\)"),
        (
            constrain.positive_definite(),
            (2, 3),
            r"x: expected square matrices in the last two axes, got shape \(2, 3",
        ),
        (
            constrain.correlation_cholesky(),
            (3,),
            r"x: expected square matrices in the last two axes, got shape \(3,",
        ),
    ],
)
def test_shapes_that_cannot_be_are_refused(constraint, shape, message):
    for call in (
        constraint.free_shape,
        lambda s: constraint.free(jnp.ones(s)),
        lambda s: constraint.holds(jnp.ones(s)),
    ):
        with pytest.raises(ValueError, match=message):
            call(shape)


@pytest.mark.parametrize("method", ["point", "log_det"])
@pytest.mark.parametrize(
    ("constraint", "free", "message"),
    [
        (
            constrain.simplex(),
            np.ones((2, 0)),
            r"free: expected a last axis of at least 1 entry, got shape \(2, 0\)",
        ),
        (constrain.ordered(), np.ones(()), r"free: expected a last axis of at least 1 entry"),
        (
            constrain.positive_definite(),
            np.ones(4),
            r"free: expected a last axis of D \(D \+ 1\) / 2 entries, got .*4",
        ),
        (
            constrain.positive_definite(),
            np.ones(0),
            r"free: expected a last axis of D \(D \+ 1\) / 2 entries",
        ),
        (
            constrain.correlation_cholesky(),
            np.ones(2),
            r"free: expected a last axis of D \(D - 1\) / 2 entries",
        ),
        (
            constrain.correlation_cholesky(),
            np.ones(()),
            r"free: expected a last axis of D \(D - 1\) / 2 entries",
        ),
    ],
)
def test_coordinates_of_no_point_are_refused(constraint, free, message, method):
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(getattr(constraint, method), free)


def test_bounds_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=naming("high:", "low=1.0")):
        constrain.interval(1.0, 1.0)
    with pytest.raises(ValueError, match=naming("low:", "-inf", "For")):
        constrain.interval(-np.inf, 1.0)
    with pytest.raises(ValueError, match=r"low: expected a finite number, got nan"):
        constrain.above(np.nan)
    with pytest.raises(ValueError, match=r"high: expected a finite number, got inf"):
        constrain.below(np.inf)
    with pytest.raises(ValueError, match=naming("high:", "float32", "low=1.0")):
        constrain.interval(1.0, 1.0 + 1e-12).point(jnp.zeros(()))


def test_they_are_equal_by_value():
    assert constrain.unit_interval() == constrain.interval(0.0, 1.0)
    assert constrain.above(1.0) == constrain.above(1.0) != constrain.above(2.0)
    assert constrain.above(0.0) != constrain.positive()
    assert {constrain.ordered(): 1}[constrain.ordered()] == 1
    assert repr(constrain.below(2.0)) == "below(high=2.0)"


def test_one_by_one_correlations_have_no_coordinates():
    factor = constrain.correlation_cholesky()
    assert factor.free_shape((5, 1, 1)) == (5, 0)
    np.testing.assert_array_equal(factor.point(jnp.zeros((5, 0))), np.ones((5, 1, 1)))
    assert factor.log_det(jnp.zeros((5, 0))) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_next_to_zero_is_a_number_that_is_not_flushed_to_it(dtype):
    for sign in (1, -1):
        near = next_to(0.0, sign, dtype)
        assert near == sign * np.finfo(dtype).tiny
        assert near.dtype == dtype
        assert next_to(3.0, sign, dtype) == np.nextafter(dtype(3.0), dtype(sign * np.inf))

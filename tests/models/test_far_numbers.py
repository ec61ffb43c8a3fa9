"""Regressions of numbers far from zero, of columns whose mean is large beside their spread, and of
any unit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from vijax.models.formulas import priors
from vijax.models.formulas.effects import crossed_normal, integrals
from vijax.xla.precision import enable_x64

RNG = np.random.default_rng(4)
N = 40
TABLE = {
    "x": RNG.normal(size=N),
    "g": np.arange(N) % 5,
    "h": np.arange(N) % 4,
    "y": RNG.normal(size=N),
}


@pytest.mark.parametrize("size", [1.0, 1e4])
def test_the_normal_integral_keeps_its_digits_far_out(size):
    """r of 35 sizes in one direction that effects explain: as a difference of squares float32 lost
    1e8 nats there, so that a search found a mode of rounding (columns of mean 5 and sd 1e-4)."""
    b, sigma = np.full((11, 1), size), 0.07
    r = 35.0 * size + 0.4 * RNG.normal(size=11)
    effect = b[:, 0] @ r / (b[:, 0] @ b[:, 0] + sigma**2)
    squares = np.sum((r - b[:, 0] * effect) ** 2) / sigma**2 + effect**2
    log_det = 22 * np.log(sigma) + np.log1p(b[:, 0] @ b[:, 0] / sigma**2)
    exact = -0.5 * (11 * np.log(2 * np.pi) + log_det + squares)
    if size == 1.0:
        assert exact == pytest.approx(
            stats.multivariate_normal.logpdf(r, cov=sigma**2 * np.eye(11) + b @ b.T)
        )
    narrow = [jnp.asarray(x, jnp.float32) for x in (r, b, sigma, 11.0)]
    assert float(integrals.normal_integral(*narrow)) == pytest.approx(exact, rel=2e-2)


def test_several_factors_have_no_mode_of_rounding():
    """The bound of squares that nothing explains holds exactly where rounding exceeds it by far."""
    model = vi.glmm("y ~ x + (1 | g) + (1 | h)", TABLE)
    as_read = lambda x: jnp.asarray(x, None if x.dtype.kind == "i" else jnp.float32)
    sums = {name: as_read(values[0]) for name, values in model.data.items()}
    one = jnp.ones((1, 1), jnp.float32)
    scales = lambda size: crossed_normal.Scales([one * size, one], (5, 4), jnp.float32(0.07))
    near = crossed_normal.log_integral(sums, jnp.zeros(2, jnp.float32), scales(1.0))
    far = crossed_normal.log_integral(sums, jnp.asarray([3e5, 0.0], jnp.float32), scales(1e4))
    assert float(far) < float(near)


def test_what_nothing_explains_is_that_of_least_squares():
    model = vi.glmm("y ~ x + (1 | g) + (1 | h)", TABLE, weights=1 + np.arange(N) % 2)
    columns = np.c_[np.ones(N), TABLE["x"], np.eye(5)[TABLE["g"]], np.eye(4)[TABLE["h"]]]
    root = np.sqrt(model.weights)
    left = (
        root * TABLE["y"]
        - (root[:, None] * columns) @ np.linalg.lstsq(root[:, None] * columns, root * TABLE["y"])[0]
    )
    wanted = np.sum(left**2) / model.density_form.units.size**2
    assert wanted * (1 - 2 * crossed_normal.SLACK) < float(model.data["least"][0]) < wanted


@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e25])
@pytest.mark.parametrize(
    ("law", "reference"),
    [
        (("normal", 0.5), lambda x, s: stats.norm(0.5 * s, s).logpdf(x)),
        (("student_t", 3.0, 0.5), lambda x, s: stats.t(3, 0.5 * s, s).logpdf(x)),
        (("half_normal",), lambda x, s: stats.halfnorm(scale=s).logpdf(x)),
        (("half_student_t", 4.0), lambda x, s: np.log(2) + stats.t(4, 0, s).logpdf(x)),
        (("half_cauchy",), lambda x, s: stats.halfcauchy(scale=s).logpdf(x)),
    ],
)
def test_priors_of_any_unit_are_densities_in_float32(law, reference, scale):
    name, *numbers = law
    numbers = [0.5 * scale if number == 0.5 else number for number in numbers]
    value = priors.log_prob((name, *numbers, scale), jnp.float32(1.3 * scale))
    np.testing.assert_allclose(value, reference(1.3 * scale, scale), rtol=1e-5)


@pytest.mark.parametrize(
    ("more", "family", "said"),
    [
        (
            {"y": TABLE["y"] * 1e300},
            None,
            r"sizes up to 1e\+30 and spreads between 1e-18 and 1e\+18, got y, of size",
        ),
        ({"y": TABLE["y"] * 1e-300}, None, "got y, of size .*e-300 and spread .*another unit of y"),
        ({"x": TABLE["x"] * 1e60}, None, "spreads between .*, got x, of size"),
        ({"y": 1e300 * (1 + np.arange(N))}, "poisson", "spreads between .*, got y"),
    ],
)
def test_sizes_that_floats_cannot_hold_are_said(more, family, said):
    with pytest.raises(ValueError, match=said):
        vi.glmm("y ~ x", {**TABLE, **more}, family)


@pytest.mark.filterwarnings("ignore::vijax.models.formulas.terms.by_prior.OnlyPriorWarning")
def test_nanoseconds_and_constants_are_of_fair_size():
    """1.7e18 nanoseconds of some years, and a constant, whose spread is rounding alone."""
    table = {**TABLE, "x": 1.7e18 + 1e15 * TABLE["x"], "c": np.full(N, 0.1)}
    assert vi.glmm("y ~ x + c", table).design.labels == ("Intercept", "x", "c")


def test_coefficients_far_from_zero_are_drawn_in_float64():
    """y near 2,020,000: in float32 the intercepts of a summary stepped by 1/8."""
    model = vi.glmm("y ~ x", {**TABLE, "y": TABLE["y"] + 2_020_000})
    fit = vi.fit(vi.ngvi(model), num_steps=2, key=jax.random.key(0))
    draws = fit.sample(jax.random.key(1), 200)
    assert draws["Intercept"].dtype == np.float64
    assert len(np.unique(draws["Intercept"])) == 200
    assert np.abs(8 * draws["Intercept"] % 1 - 0.5).min() < 0.4
    table = fit.summary(num_draws=200)
    assert abs(8 * table.mean[table.names.index("Intercept")] % 1) > 1e-6
    own = model.draws(fit, jax.random.key(1), 200).named
    assert own["Intercept"].std() == pytest.approx(draws["Intercept"].std(), rel=0.3)


def test_a_fit_in_float64_predicts_alike_without():
    with enable_x64(True):
        model = vi.glmm("y ~ x + (1 | g)", TABLE)
        fit = vi.fit(vi.ngvi(model), num_steps=2, key=jax.random.key(0))
        inside = fit.predict({"x": [0.5], "g": [99]}, key=jax.random.key(1))
    outside = fit.predict({"x": [0.5], "g": [99]}, key=jax.random.key(1))
    assert outside.mean == inside.mean
    assert outside.highest == inside.highest

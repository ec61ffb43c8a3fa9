"""Gaussian processes hsgp(x): their functions against the covariances that they stand for, densities
against dense normal laws, fits against quadrature over the exact process."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import vijax as vi
from tests.naming import check_names, naming
from vijax.data.formulas.hilbert_gp import COVARIANCES
from vijax.models.formulas import form as forms
from vijax.models.formulas import formula

RNG = np.random.default_rng(3)
SIZE = 60
X = np.sort(RNG.uniform(2, 12, SIZE))
Z = RNG.normal(size=SIZE)
H = np.array(list("ab"))[np.arange(SIZE) % 2]
G = np.array(list("pqrst"))[RNG.integers(0, 5, SIZE)]
CURVE = 3 + 1.5 * np.sin(1.1 * X)
TABLE = {
    "y": CURVE + 0.4 * RNG.normal(size=SIZE),
    "x": X,
    "z": Z,
    "h": H,
    "g": G,
    "yes": (RNG.uniform(size=SIZE) < special.expit(CURVE - 3)).astype(int),
}


def exact_covariances(covariance, scaled):
    """Covariances by Bessel functions, of points in units of their length scales."""
    r = np.linalg.norm(scaled[:, None] - scaled, axis=-1)
    nu = COVARIANCES[covariance]
    if np.isinf(nu):
        return np.exp(-0.5 * r**2)
    far = np.sqrt(2 * nu) * np.where(r > 0, r, 1e-8)
    return 2 ** (1 - nu) / special.gamma(nu) * far**nu * special.kv(nu, far)


def spectrum_of(covariance, frequencies, lengths):
    """Variances of coefficients by the spectral density in the units of the columns."""
    frequencies, lengths = np.atleast_2d(frequencies), np.asarray(lengths, float)
    dim = frequencies.shape[1]
    squares = np.sum((frequencies * lengths) ** 2, 1)
    volume = np.prod(np.broadcast_to(lengths, (dim,)))
    nu = COVARIANCES[covariance]
    if np.isinf(nu):
        return volume * (2 * np.pi) ** (dim / 2) * np.exp(-squares / 2)
    law = stats.multivariate_t(np.zeros(dim), df=2 * nu)  # a Matern spectrum is a t density
    roots = np.c_[np.sqrt(squares), np.zeros((len(squares), dim - 1))]
    return volume * (2 * np.pi) ** dim * law.pdf(roots)


# --- functions ------------------------------------------------------------------------------------
@pytest.mark.parametrize("covariance", list(COVARIANCES))
@pytest.mark.parametrize(("columns", "iso"), [("x", True), ("x, z", True), ("x, z", False)])
def test_many_functions_have_the_covariances_of_the_process(covariance, columns, iso):
    text = f"y ~ hsgp({columns}, m=22, c=2.5, cov='{covariance}', iso={iso})"
    design = formula.read(text, TABLE)
    (block,) = design.common.smooth_blocks()
    points = np.column_stack([TABLE[name] for name in columns.split(", ")])
    lengths = np.array([2.5, 1.2])[: 1 if iso else points.shape[1]]
    if points.shape[1] == 2 and iso:
        lengths = np.array([1.9])
    roots = block.kernel.root_spectrum(lengths / block.kernel.unit, np)
    ours = design.rows.smooths[0] * roots
    error = np.abs(ours @ ours.T - exact_covariances(covariance, points / lengths)).max()
    assert error < {"ExpQuad": 0.02, "Matern52": 0.02, "Matern32": 0.05}[covariance]
    told = block.kernel.error(lengths / block.kernel.unit)  # at other points, with the corners
    assert 0.5 * error < told < 0.1


def test_levels_share_a_covariance_or_have_their_own():
    whole = formula.read("y ~ hsgp(x, m=6, c=2)", TABLE).rows.smooths[0]
    shared = formula.read("y ~ hsgp(x, by=h, m=6, c=2)", TABLE)
    (block,) = shared.common.smooth_blocks()
    assert (block.label, block.size, shared.labels) == ("hsgp(x):h", 12, ("Intercept",))
    for place, level in enumerate("ab"):
        part = shared.rows.smooths[0][:, 6 * place : 6 * place + 6]
        np.testing.assert_array_equal(part, whole * (level == H)[:, None])
    own = formula.read("y ~ hsgp(x, by=h, m=6, c=2, share_cov=False)", TABLE)
    assert [block.label for block in own.common.smooth_blocks()] == ["hsgp(x):h[a]", "hsgp(x):h[b]"]


# --- the density ----------------------------------------------------------------------------------
FORMULAS = [
    ("y ~ hsgp(x, m=12, c=2)", ["hsgp(x)"]),
    ("y ~ z + hsgp(x, by=h, m=8, c=1.5, cov='Matern52') + (1 | g)", ["hsgp(x):h"]),
    (
        "y ~ hsgp(x, by=h, m=7, L=9, share_cov=False, cov='Matern32') + (1 | g) + (1 | h)",
        ["hsgp(x):h[a]", "hsgp(x):h[b]"],
    ),
    ("y ~ hsgp(x, z, m=[6, 4], c=[2, 1.5], iso=False)", ["hsgp(x, z)"]),
]


@pytest.mark.parametrize(("text", "processes"), FORMULAS)
def test_densities_are_normal_with_the_covariances_of_the_process(text, processes):
    """The log density with its prior and Jacobian, so that units are right too."""
    model = vi.glmm(text, TABLE)
    z = np.random.default_rng(0).normal(size=model.free.variables.dim) * 0.3
    values = jax.jit(model.free.values_at)(jnp.asarray(z))
    form = model.density_form
    program = lambda v, d: (
        form.named(v),
        jnp.sum(jax.vmap(lambda r: forms.log_lik(form, v, r))(d)),
        forms.log_prior(form, v),
    )
    named, log_lik, log_prior = jax.jit(program)(values, model.data)
    named = {name: float(x) for name, x in named.items()}
    rows, term = model.design.rows, model.design.common.smooths[0]
    cov = named["sigma"] ** 2 * np.eye(SIZE)
    for name, columns in zip(processes, rows.smooths, strict=True):
        kernel = model.design.kernels[name]
        lengths = [named[length] for length in kernel.length_names(name)]
        frequencies = np.array(kernel.frequencies) / kernel.unit
        raw = columns / kernel.unit ** (frequencies.shape[1] / 2)  # phi in the units of columns
        sds = named[f"{name}_sigma"]
        variances = np.tile(spectrum_of(kernel.covariance, frequencies, lengths), kernel.copies)
        cov += sds**2 * (raw * variances) @ raw.T
    for factor, groups in zip(model.design.factors, rows.groups, strict=True):
        cov += named[f"1|{factor.name}_sigma"] ** 2 * (groups[:, None] == groups)
    mean = rows.x @ [named[label] for label in model.design.labels]
    expected = stats.multivariate_normal(mean, cov).logpdf(TABLE["y"])
    constant = -SIZE * np.log(form.units.size)
    np.testing.assert_allclose(float(log_lik) + constant, expected, rtol=1e-3)
    assert term.kernel is not None
    priors = 0.0
    for name, (kind, *numbers) in model.priors.items():
        x = named[name]
        if name == "Intercept":
            at_centre = np.array(form.centre) * [named[label] for label in model.design.labels]
            x += at_centre[1:].sum()
        law = {
            "normal": lambda mean, sd: stats.norm(mean, sd),
            "half_normal": lambda sd: stats.halfnorm(0, sd),
            "half_student_t": lambda df, s: stats.t(df, 0, s),
            "lognormal": lambda median, sd: stats.lognorm(sd, 0, median),
        }[kind](*numbers)
        priors += law.logpdf(x) + np.log(2) * (kind == "half_student_t")
    units = sum(
        np.log(form.units.size) * (not name.endswith("_ell") and "_ell[" not in name)
        for name in model.priors
    )
    units += sum(np.log(k.unit) * k.num_lengths for k in model.design.kernels.values())
    own = model.design.labels
    turn = np.linalg.slogdet(np.array(form.units.turn).reshape(len(own), len(own)))[1]
    expected = priors + units + turn + constant
    np.testing.assert_allclose(float(log_prior), expected, atol=1e-2)


# --- the fit --------------------------------------------------------------------------------------
def exact_posterior(model, cells=(15, 15, 9)):
    """Moments of log sd, log length and log sigma, and of the curve, by quadrature over the exact
    process; the intercept is integrated out."""
    mean, sd = model.priors["Intercept"][1:]
    (_, sd_scale), (_, median, log_sd) = (
        model.priors[f"hsgp(x)_{name}"] for name in ("sigma", "ell")
    )
    _, df, scale = model.priors["sigma"]
    grids = [
        np.linspace(np.log(0.4), np.log(9), cells[0]),
        np.linspace(np.log(0.35), np.log(5), cells[1]),
        np.linspace(np.log(0.27), np.log(0.62), cells[2]),
    ]
    logs, log_weights, curves, variances = [], [], [], []
    for log_length in grids[1]:
        kernel = exact_covariances("ExpQuad", X[:, None] / np.exp(log_length))
        for log_scale in grids[0]:
            signal = np.exp(2 * log_scale) * kernel + sd**2
            for log_noise in grids[2]:
                cov = signal + np.exp(2 * log_noise) * np.eye(SIZE)
                gap = TABLE["y"] - mean
                law = stats.multivariate_normal(np.zeros(SIZE), cov)
                weight = law.logpdf(gap) + log_scale + log_length + log_noise
                weight += stats.halfnorm(0, sd_scale).logpdf(np.exp(log_scale))
                weight += stats.lognorm(log_sd, 0, median).logpdf(np.exp(log_length))
                weight += stats.t(df, 0, scale).logpdf(np.exp(log_noise))
                logs.append([log_scale, log_length, log_noise])
                log_weights.append(weight)
                gain = np.linalg.solve(cov, np.c_[gap, signal])
                curves.append(mean + signal @ gain[:, 0])
                variances.append(np.diag(signal - signal @ gain[:, 1:]))
    weights = np.exp(np.array(log_weights) - max(log_weights))
    weights /= weights.sum()
    logs, curves, variances = map(np.array, (logs, curves, variances))
    middle = weights @ curves
    spread = np.sqrt(weights @ (variances + (curves - middle) ** 2))
    moments = weights @ logs, np.sqrt(weights @ (logs - weights @ logs) ** 2)
    return moments, (middle, spread)


@pytest.mark.slow
def test_a_fit_is_near_the_posterior_of_the_exact_process():
    model = vi.glmm("y ~ hsgp(x)", TABLE)
    fit = vi.auto(model, key=jax.random.key(0), richer=True)
    assert fit.report.usable
    assert "hsgp(x): " not in fit.report.verdict
    (means, sds), (curve, spread) = exact_posterior(model)
    draws = model.draws(fit, jax.random.key(1), 4000)
    names = ["hsgp(x)_sigma", "hsgp(x)_ell", "sigma"]
    logs = np.log(np.stack([draws.named[name] for name in names], 1))
    np.testing.assert_allclose((logs.mean(0) - means) / sds, 0, atol=0.12)
    np.testing.assert_allclose(logs.std(0) / sds, 1, atol=0.1)
    eta = model.predictors(draws)
    np.testing.assert_allclose((eta.mean(0) - curve) / spread, 0, atol=0.12)
    np.testing.assert_allclose(eta.std(0) / spread, 1, atol=0.1)


@pytest.mark.slow
def test_yes_or_no_is_near_quadrature_over_the_length_scale():
    """Expectation propagation is no part: effects by importance sampling about Laplace's normal,
    sd and length scale on a grid, the intercept among the effects."""
    model = vi.glmm("yes ~ hsgp(x, m=15, c=2)", TABLE, "bernoulli")
    fit = vi.auto(model, key=jax.random.key(0))
    draws = model.draws(fit, jax.random.key(1), 4000)
    (columns,), kernel = model.design.rows.smooths, model.design.kernels["hsgp(x)"]
    rng = np.random.default_rng(0)
    sign = 2 * TABLE["yes"] - 1
    x = np.c_[np.ones(SIZE), columns]
    _, mean, sd = model.priors["Intercept"]
    prior = model.priors["hsgp(x)_sigma"][1], *model.priors["hsgp(x)_ell"][1:]
    logs, weights = [], []
    for log_scale in np.linspace(-5, 2.6, 24):
        for log_length in np.linspace(-2, 3.2, 24):
            roots = kernel.root_spectrum(np.array([np.exp(log_length) / kernel.unit]), np)
            sds = np.r_[sd, np.exp(log_scale) * np.maximum(roots, 1e-9)]
            scaled, u = x * sds, np.zeros(x.shape[1])
            for _ in range(30):
                p = special.expit(mean + scaled @ u)
                curvature = scaled.T @ ((p * (1 - p))[:, None] * scaled) + np.eye(len(u))
                u = u + np.linalg.solve(curvature, scaled.T @ (TABLE["yes"] - p) - u)
            noise = rng.normal(size=(400, len(u)))
            factor = np.linalg.cholesky(curvature)
            v = u + np.linalg.solve(factor.T, noise.T).T
            joint = -np.logaddexp(0, -sign * (mean + v @ scaled.T)).sum(1) - 0.5 * (v**2).sum(1)
            ratios = joint + 0.5 * (noise**2).sum(1)
            weight = special.logsumexp(ratios) - np.log(np.diag(factor)).sum()
            weight += stats.halfnorm(0, prior[0]).logpdf(np.exp(log_scale)) + log_scale
            weight += stats.norm(np.log(prior[1]), prior[2]).logpdf(log_length)
            logs.append([log_scale, log_length])
            weights.append(weight)
    weights = np.exp(np.array(weights) - max(weights))
    weights, logs = weights / weights.sum(), np.array(logs)
    means = weights @ logs
    sds = np.sqrt(weights @ (logs - means) ** 2)
    names = ["hsgp(x)_sigma", "hsgp(x)_ell"]
    ours = np.log(np.stack([draws.named[name] for name in names], 1))
    np.testing.assert_allclose((ours.mean(0) - means) / sds, 0, atol=0.15)
    np.testing.assert_allclose(ours.std(0) / sds, 1, atol=0.15)


@pytest.mark.slow
def test_too_few_functions_and_narrow_boxes_are_told():
    model = vi.glmm("y ~ hsgp(x, m=7, c=1.2)", TABLE)
    fit = vi.auto(model, key=jax.random.key(0), max_gradients=400)
    check_names(fit.report.verdict, "hsgp(x)", "m=", "c=")
    text = fit.report.verdict.partition("hsgp(x)")[2]
    m = int(text.partition("m=")[2].partition(",")[0])
    wider = vi.glmm(f"y ~ hsgp(x, m={m + 5}, c=2)", TABLE)
    again = vi.auto(wider, key=jax.random.key(0), max_gradients=400)
    assert "hsgp(x): " not in again.report.verdict


# --- rows -----------------------------------------------------------------------------------------
def test_later_rows_have_the_functions_of_training_and_those_outside_are_refused():
    design = formula.read("y ~ hsgp(x, by=h, m=9, c=1.5)", TABLE)
    order = RNG.permutation(SIZE)[:20]
    part = design.read_rows({name: column[order] for name, column in TABLE.items()})
    np.testing.assert_array_equal(part.smooths[0], design.rows.smooths[0][order])
    assert part.notes == ()
    beyond = design.read_rows({"x": [12.5, 5.0], "h": ["a", "b"]})
    check_names(beyond.notes[0], "hsgp(x)", "x")
    with pytest.raises(ValueError, match=naming("table:", "hsgp(x)", "30", "c=")):
        design.read_rows({"x": [5.0, 30.0], "h": ["a", "b"]})
    with pytest.raises(ValueError, match=naming("table:", "h", "c")):
        design.read_rows({"x": [5.0], "h": ["c"]})


@pytest.mark.slow
def test_a_saved_fit_draws_the_same_functions():
    model = vi.glmm("y ~ hsgp(x, by=h, m=6, c=2)", TABLE)
    fit = vi.auto(model, key=jax.random.key(0), max_gradients=300)
    loaded = pickle.loads(pickle.dumps(fit))
    table = {"x": [3.0, 5.0], "h": ["a", "b"]}
    first, second = (one.predict(table, key=jax.random.key(1)).mean for one in (fit, loaded))
    np.testing.assert_allclose(first, second, rtol=1e-6)
    draws = model.draws(fit, jax.random.key(1), 20)
    curves = {curve.name: curve for curve in model.smooth_curves(draws)}
    assert list(curves) == ["hsgp(x):h[a]", "hsgp(x):h[b]"]
    curve = curves["hsgp(x):h[b]"]
    eta = model.predictors(draws, {"x": curve.x, "h": ["b"] * len(curve.x)})
    expected = eta - draws.named["Intercept"][:, None]
    np.testing.assert_allclose(curve.values, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("y ~ hsgp(x, c=1)", ("formula:", "c", "half range")),
        ("y ~ hsgp(x, c=2, L=9)", ("formula:", "L")),
        ("y ~ hsgp(x, L=3)", ("formula:", "L", "half range")),
        ("y ~ hsgp(x, m=0)", ("formula:", "1", "500")),
        ("y ~ hsgp(x, m=2.5)", ("formula:", "2.5")),
        ("y ~ hsgp(x, z, m=[10, 60])", ("formula:", "600", "500")),
        ("y ~ hsgp(x, z, m=[10, 6, 3])", ("formula:", "[10, 6, 3]")),
        ("y ~ hsgp(x, cov='exp')", ("formula:", "'ExpQuad'", "'Matern32'", "'exp'")),
        ("y ~ hsgp(x, by=z)", ("formula:", "by=C(z)")),
        ("y ~ hsgp(x, scale=False)", ("formula:", "scale", "units of the column")),
        ("y ~ hsgp(x, k=5)", ("formula:", "k=5", "m=")),
        ("y ~ hsgp(h)", ("formula:", "'h'")),
        ("y ~ hsgp(x):h", ("formula:", "hsgp(x)", "term of its own")),
        ("y ~ (hsgp(x) | g)", ("formula:", "hsgp(x)")),
        ("y ~ hsgp(one)", ("formula:", "one")),
        ("y ~ hsgp(x) + hsgp(x, m=9)", ("formula:", "hsgp(x)")),
        ("y ~ hsgp(x, by=h, iso=1)", ("formula:", "True", "False")),
    ],
)
def test_other_processes_are_refused(text, names):
    with pytest.raises(ValueError, match=naming(*names)):
        vi.glmm(text, {**TABLE, "one": np.ones(SIZE)})


def test_a_length_scale_needs_a_prior():
    with pytest.raises(ValueError, match=naming("priors:", "hsgp(x)_ell", '("lognormal", 1, 0.8)')):
        vi.glmm("y ~ hsgp(x)", TABLE, priors={"hsgp(x)_ell": ("half_flat",)})
    given = {"hsgp(x)_ell": ("inverse_gamma", 3, 20)}
    assert vi.glmm("y ~ hsgp(x)", TABLE, priors=given).priors["hsgp(x)_ell"] == (
        "inverse_gamma",
        3.0,
        20.0,
    )

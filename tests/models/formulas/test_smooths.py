"""Penalised smooth terms: their columns against radial kernels and penalties that are computed
otherwise, densities against dense normal laws and a Laplace approximation in NumPy, fits against
restricted maximum likelihood with dense matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import interpolate, optimize, stats

import vijax as vi
from tests.naming import naming
from vijax.models.formulas import form as forms
from vijax.models.formulas import formula
from vijax.models.structural.covariates import read_terms

RNG = np.random.default_rng(5)
SIZE = 90
X = np.sort(RNG.uniform(0, 10, SIZE))
Z = RNG.normal(size=SIZE)
G = np.array(list("pqrstu"))[RNG.integers(0, 6, SIZE)]
H = np.array(list("ab"))[np.arange(SIZE) % 2]
CURVE = np.sin(X) + 0.2 * X
TABLE = {
    "y": CURVE + 0.3 * RNG.normal(size=SIZE),
    "x": X,
    "z": Z,
    "g": G,
    "h": H,
    "count": RNG.poisson(np.exp(0.5 + 0.5 * CURVE)),
    "k": np.arange(SIZE) % 3,
}


# --- columns --------------------------------------------------------------------------------------
def contrasts_of(*columns):
    """Directions that are orthogonal to columns."""
    table = np.column_stack(columns)
    return np.linalg.qr(table, mode="complete")[0][:, table.shape[1] :]


def bends_of(text, table=TABLE):
    return formula.read(text, table).rows.smooths


def assert_same_law(columns, kernel, contrasts):
    """The variances of contrasts are equal up to one factor, which is that of the sd."""
    ours = contrasts.T @ columns @ columns.T @ contrasts
    theirs = contrasts.T @ kernel @ contrasts
    np.testing.assert_allclose(ours / np.trace(ours), theirs / np.trace(theirs), atol=1e-10)


def test_thin_plate_splines_with_all_functions_are_smoothing_splines():
    """The law of a cubic smoothing spline has the generalised covariance |x - x'|^3 (Wahba 1990)."""
    (columns,) = bends_of(f"y ~ s(x, k={SIZE})")
    assert columns.shape == (SIZE, SIZE - 2)
    assert_same_law(columns, np.abs(X[:, None] - X) ** 3, contrasts_of(np.ones(SIZE), X))
    np.testing.assert_allclose(np.mean(np.sum(columns**2, 1)), 1)


def test_thin_plate_splines_keep_the_largest_functions():
    """Wood 2003, section 3: f = U D c with T' U c = 0 and penalty c' D c, whatever basis of c."""
    kernel = np.abs(X[:, None] - X) ** 3
    values, vectors = np.linalg.eigh(kernel)
    largest = np.argsort(-np.abs(values))[:9]
    u, d = vectors[:, largest], np.diag(values[largest])
    basis = contrasts_of(u.T @ np.c_[np.ones(SIZE), X])
    law = u @ d @ basis @ np.linalg.inv(basis.T @ d @ basis) @ basis.T @ d @ u.T
    (columns,) = bends_of("y ~ s(x, k=9)")
    assert columns.shape == (SIZE, 7)
    assert_same_law(columns, law, contrasts_of(np.ones(SIZE), X))


def test_thin_plate_splines_of_two_columns_have_their_radial_function():
    (columns,) = bends_of(f"y ~ s(x, z, k={SIZE})")
    points = np.c_[X, Z]
    r = np.linalg.norm(points[:, None] - points, axis=2)
    kernel = r**2 * np.log(np.where(r > 0, r, 1))
    assert_same_law(columns, kernel, contrasts_of(np.ones(SIZE), X, Z))


def test_cubic_splines_are_natural_splines_of_their_knots():
    """A natural spline is a + b x + sum of c_j |x - knot_j|^3 with the penalty c' |knots|^3 c."""
    knots = np.quantile(X, np.linspace(0, 1, 7))
    basis = contrasts_of(np.ones(7), knots)
    raw = np.abs(X[:, None] - knots) ** 3 @ basis
    penalty = basis.T @ np.abs(knots[:, None] - knots) ** 3 @ basis
    (columns,) = bends_of("y ~ s(x, k=7, bs='cr')")
    assert columns.shape == (SIZE, 5)
    law = raw @ np.linalg.inv(penalty) @ raw.T
    assert_same_law(columns, law, contrasts_of(np.ones(SIZE), X))


def test_cyclic_splines_are_periodic_and_their_penalty_is_that_of_bends():
    """The penalty by a sum of squared second differences on a fine grid."""
    knots = np.quantile(np.r_[0, X, 10], np.linspace(0, 1, 8))
    values = np.eye(8)[:, :-1]
    values[-1, 0] = 1
    splines = interpolate.CubicSpline(knots, values, bc_type="periodic")
    fine = np.linspace(0, 10, 20_001)
    bends = np.diff(splines(fine), 2, axis=0) / (fine[1] - fine[0]) ** 2
    penalty = bends.T @ bends * (fine[1] - fine[0])
    basis = contrasts_of(np.ones(7))  # of values at knots, less the constant
    raw = splines(X) @ basis
    law = raw @ np.linalg.inv(basis.T @ penalty @ basis) @ raw.T
    design = formula.read("y ~ s(x, k=8, bs='cc', knots=[0, 10])", TABLE)
    columns, contrasts = design.rows.smooths[0], contrasts_of(np.ones(SIZE))
    ours = contrasts.T @ columns @ columns.T @ contrasts
    theirs = contrasts.T @ law @ contrasts
    np.testing.assert_allclose(ours / np.trace(ours), theirs / np.trace(theirs), atol=1e-5)
    assert design.labels == ("Intercept",)
    (later,) = design.read_rows({"x": [0.0, 10.0, 23.0, 3.0]}).smooths
    np.testing.assert_allclose(later[0], later[1], atol=1e-12)
    np.testing.assert_allclose(later[2], later[3], atol=1e-12)


def test_tensor_products_have_the_law_of_products_of_natural_splines():
    """In t2(x, z) the three blocks are products of the bends and straight parts of the margins."""
    design = formula.read("y ~ t2(x, z, k=5)", TABLE)
    assert design.labels == ("Intercept", *(f"t2(x, z)_{i}" for i in (1, 2, 3)))
    sizes = [block.size for block in design.common.smooth_blocks()]
    assert sizes == [6, 6, 9]
    laws = []
    for column in (X, Z):
        knots = np.quantile(column, np.linspace(0, 1, 5))
        basis = contrasts_of(np.ones(5), knots)
        raw = np.abs(column[:, None] - knots) ** 3 @ basis
        penalty = basis.T @ np.abs(knots[:, None] - knots) ** 3 @ basis
        line = np.c_[np.ones(SIZE), column]
        bends = raw @ np.linalg.inv(np.linalg.cholesky(penalty)).T
        bends = bends - line @ np.linalg.lstsq(line, bends, rcond=None)[0]
        straight = np.c_[np.ones(SIZE), (column - knots[[0, -1]].mean()) / np.ptp(knots)]
        laws.append((bends @ bends.T, straight @ straight.T))
    contrasts = contrasts_of(np.ones(SIZE), X, Z, X * Z)
    (bend_x, line_x), (bend_z, line_z) = laws
    products = (bend_x * line_z, line_x * bend_z, bend_x * bend_z)
    for columns, law in zip(design.rows.smooths, products, strict=True):
        assert_same_law(columns, law, contrasts)


# --- the density ----------------------------------------------------------------------------------
def named_and_log_lik(model, seed=0):
    values = jax.jit(model.free.values_at)(
        jnp.asarray(np.random.default_rng(seed).normal(size=model.free.variables.dim) * 0.3)
    )
    form = model.density_form
    program = lambda v, d: (
        form.named(v),
        jnp.sum(jax.vmap(lambda r: forms.log_lik(form, v, r))(d)),
    )
    named, log_lik = jax.jit(program)(values, model.data)
    constant = -SIZE * np.log(form.units.size)  # the density is in units of size one
    return {name: float(x) for name, x in named.items()}, float(log_lik) + constant


@pytest.mark.parametrize(
    "text",
    [
        "y ~ s(x)",
        "y ~ s(x) + s(z, k=5) + (1 | g)",
        "y ~ h + s(x, by=h, k=6) + (z | g)",
        "y ~ t2(x, z) + (1 | g) + (1 | h)",
        "y ~ 0 + s(x, bs='cc', knots=[0, 10])",
    ],
)
def test_densities_are_normal_with_the_covariance_of_all_effects(text):
    model = vi.glmm(text, TABLE)
    named, log_lik = named_and_log_lik(model)
    rows = model.design.rows
    mean = rows.x @ [named[label] for label in model.design.labels]
    cov = named["sigma"] ** 2 * np.eye(SIZE)
    for block, x in zip(model.design.common.smooth_blocks(), rows.smooths, strict=True):
        cov += named[f"sds({block.label})"] ** 2 * x @ x.T
    for factor, z, groups in zip(model.design.factors, rows.z, rows.groups, strict=True):
        sds = [named[f"{label}|{factor.name}_sigma"] for label in factor.labels]
        own = np.diag(np.square(sds))
        if len(sds) == 2:
            own[0, 1] = own[1, 0] = named[f"corr(1, z|{factor.name})"] * np.prod(sds)
        cov += (z @ own @ z.T) * (groups[:, None] == groups)
    expected = stats.multivariate_normal(mean, cov).logpdf(TABLE["y"])
    np.testing.assert_allclose(log_lik, expected, rtol=1e-3)


def laplace_of_counts(eta, columns, cov):
    """The log of the integral of Poisson laws over u ~ N(0, cov), by Newton's method in NumPy."""
    y, u = TABLE["count"], np.zeros(len(cov))
    precision = np.linalg.inv(cov)
    for _ in range(100):
        mean = np.exp(eta + columns @ u)
        curvature = columns.T @ (mean[:, None] * columns) + precision
        u = u + np.linalg.solve(curvature, columns.T @ (y - mean) - precision @ u)
    log_joint = stats.poisson.logpmf(y, np.exp(eta + columns @ u)).sum()
    log_joint += stats.multivariate_normal(np.zeros(len(u)), cov).logpdf(u)
    return log_joint + 0.5 * len(u) * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(curvature)[1]


@pytest.mark.parametrize("text", ["count ~ s(x)", "count ~ s(x, k=6) + (1 | g)"])
def test_other_laws_are_integrated_by_laplace(text):
    model = vi.glmm(text, TABLE, "poisson")
    named, log_lik = named_and_log_lik(model)
    rows = model.design.rows
    columns, variances = [rows.smooths[0]], [named["sds(s(x))"] ** 2] * rows.smooths[0].shape[1]
    if model.design.factors:
        columns.append(np.eye(6)[rows.groups[0]])
        variances += [named["1|g_sigma"] ** 2] * 6
    eta = rows.x @ [named[label] for label in model.design.labels]
    expected = laplace_of_counts(eta, np.column_stack(columns), np.diag(variances))
    np.testing.assert_allclose(log_lik, expected, rtol=1e-4)


def test_each_category_has_a_function_of_its_own():
    """In one dense matrix for both predictors, again by Newton's method."""
    model = vi.glmm("k ~ s(x, k=5)", TABLE, "categorical")
    assert model.names[-2:] == ["sds(s(x))[1]", "sds(s(x))[2]"]
    named, log_lik = named_and_log_lik(model)
    rows, y = model.design.rows, TABLE["k"]
    x, columns = rows.x, rows.smooths[0]
    q = columns.shape[1]
    eta = np.stack(
        [x @ [named[f"{label}[{c}]"] for label in model.design.labels] for c in (1, 2)], 1
    )
    sds = np.repeat([named["sds(s(x))[1]"], named["sds(s(x))[2]"]], q)
    u, hot = np.zeros(2 * q), np.eye(3)[y][:, 1:]
    for _ in range(100):
        logits = np.c_[np.zeros(SIZE), eta + columns @ u.reshape(2, q).T]
        p = np.exp(logits - np.logaddexp.reduce(logits, 1)[:, None])[:, 1:]
        w = p[:, :, None] * (np.eye(2) - p[:, None])
        curvature = np.einsum("nq,ncd,nr->cqdr", columns, w, columns).reshape(2 * q, 2 * q)
        curvature += np.diag(sds**-2)
        slope = ((hot - p).T @ columns).ravel() - u / sds**2
        u = u + np.linalg.solve(curvature, slope)
    logits = np.c_[np.zeros(SIZE), eta + columns @ u.reshape(2, q).T]
    log_joint = (logits - np.logaddexp.reduce(logits, 1)[:, None])[np.arange(SIZE), y].sum()
    log_joint += stats.norm.logpdf(u, 0, sds).sum() + q * np.log(2 * np.pi)
    expected = log_joint - 0.5 * np.linalg.slogdet(curvature)[1]
    form = model.density_form
    np.testing.assert_allclose(log_lik, expected, rtol=1e-4)
    assert form.units.size == 1


# --- the fit --------------------------------------------------------------------------------------
def restricted_fit(kernel, straight, y):
    """(sd of the kernel, sigma, fitted curve, effective degrees of freedom) by restricted maximum
    likelihood, of contrasts without the straight columns."""
    contrasts = contrasts_of(straight)
    own = contrasts.T @ kernel @ contrasts

    def loss(logs):
        sd, sigma = np.exp(logs)
        cov = sd**2 * own + sigma**2 * np.eye(len(own))
        return -stats.multivariate_normal(np.zeros(len(own)), cov).logpdf(contrasts.T @ y)

    sd, sigma = np.exp(optimize.minimize(loss, [0.0, -1.0], method="Nelder-Mead").x)
    cov = sd**2 * own + sigma**2 * np.eye(len(own))
    # Fitted values are y less sigma^2 times the part of cov^-1 y that straight columns leave.
    leave = sigma**2 * contrasts @ np.linalg.solve(cov, contrasts.T)
    return sd, sigma, y - leave @ y, SIZE - np.trace(leave)


def test_a_fit_is_near_that_of_restricted_maximum_likelihood():
    """Of a cubic smoothing spline, whose kernel is radial; and a quarter of a standard deviation of
    the posterior is as near as flat and weak priors come."""
    model = vi.glmm("y ~ s(x, k=40)", TABLE)
    columns = model.design.rows.smooths[0]
    straight = np.c_[np.ones(SIZE), X]
    kernel = np.abs(X[:, None] - X) ** 3
    contrasts = contrasts_of(straight)
    size = np.trace(contrasts.T @ kernel @ contrasts)
    unit = np.trace(contrasts.T @ columns @ columns.T @ contrasts) / size
    sd, sigma, curve, freedom = restricted_fit(unit * kernel, straight, TABLE["y"])
    fit = vi.auto(model, key=jax.random.key(0), richer=True)
    draws = model.draws(fit, jax.random.key(1), 2000)
    logs = np.log(draws.named["sds(s(x))"])
    assert abs(logs.mean() - np.log(sd)) < 0.5 * logs.std()
    assert abs(np.median(draws.named["sigma"]) / sigma - 1) < 0.03
    eta = model.row_predictors(draws, model.design.rows, None)
    assert np.max(np.abs(eta.mean(0) - curve) / eta.std(0)) < 0.25
    ours = []
    for a, b in zip(draws.named["sds(s(x))"][:200], draws.named["sigma"][:200], strict=True):
        own = contrasts.T @ columns @ columns.T @ contrasts * a**2
        ours.append(SIZE - b**2 * np.trace(np.linalg.inv(own + b**2 * np.eye(len(own)))))
    assert abs(np.mean(ours) - freedom) < 0.5 * np.std(ours)


# --- rows -----------------------------------------------------------------------------------------
def test_later_rows_have_the_basis_of_training_and_those_beyond_are_told():
    for text in ("y ~ s(x)", "y ~ s(x, z, k=20)", "y ~ t2(x, z)", "y ~ s(x, bs='cr')"):
        design = formula.read(text, TABLE)
        order = RNG.permutation(SIZE)[:20]
        part = design.read_rows({name: column[order] for name, column in TABLE.items()})
        for later, training in zip(part.smooths, design.rows.smooths, strict=True):
            np.testing.assert_allclose(later, training[order], atol=1e-10)
        assert part.notes == ()
    design = formula.read("y ~ s(x, bs='cr')", TABLE)
    beyond = design.read_rows({"x": [11.0, 12.0, 13.0]})
    assert beyond.notes[0].startswith("3 rows of s(x) lie beyond training (x from ")
    assert "goes on straight" in beyond.notes[0]
    np.testing.assert_allclose(np.diff(beyond.smooths[0], 2, axis=0), 0, atol=1e-10)
    thin = formula.read("y ~ s(x)", TABLE).read_rows({"x": [11.0, 12.0, 13.0]}).smooths[0]
    np.testing.assert_allclose(np.diff(thin, 2, axis=0), 0, atol=1e-9)


def test_functions_by_a_column():
    """Levels have a function each, of one basis; numbers multiply it, with the constant."""
    whole = formula.read("y ~ s(x, k=6)", TABLE)
    design = formula.read("y ~ h + s(x, by=h, k=6)", TABLE)
    assert design.labels == ("Intercept", "h[b]", "s(x):h[a]_1", "s(x):h[b]_1")
    for place, level in enumerate("ab"):
        expected = whole.rows.smooths[0] * (level == H)[:, None]
        np.testing.assert_array_equal(design.rows.smooths[place], expected)
    times = formula.read("y ~ s(x, by=z, k=6)", TABLE)
    assert times.labels == ("Intercept", "s(x):z_1", "s(x):z_2")
    np.testing.assert_array_equal(times.rows.x[:, 1], Z)
    np.testing.assert_array_equal(times.rows.smooths[0], whole.rows.smooths[0] * Z[:, None])
    numbers = formula.read("y ~ s(x, by=C(k), k=6)", TABLE)
    assert [block.label for block in numbers.common.smooth_blocks()] == [
        f"s(x):C(k)[{level}]" for level in (0, 1, 2)
    ]
    with pytest.raises(ValueError, match="levels of 'h' that training has"):
        design.read_rows({"x": [1.0], "h": ["c"]})


def test_predictors_are_sums_of_columns_and_draws():
    model = vi.glmm("y ~ s(x, k=6) + (1 | g)", TABLE)
    fit = vi.auto(model, key=jax.random.key(0), max_gradients=400)
    draws = model.draws(fit, jax.random.key(1), 30)
    table = {"x": [1.0, 4.0], "g": ["p", "new"]}
    rows = model.design.read_rows(table)
    expected = np.stack([draws.named[label] for label in model.design.labels], 1) @ rows.x.T
    expected += draws.smooths["s(x)"][..., 0] @ rows.smooths[0].T
    np.testing.assert_allclose(model.common_predictors(draws, rows)[..., 0], expected, rtol=1e-5)
    eta = model.predictors(draws, table, jax.random.key(2))
    place = model.design.factors[0].levels.index("p")
    effect = draws.effects["g"][:, place, 0]
    np.testing.assert_allclose(eta[:, 0], expected[:, 0] + effect, rtol=1e-5)
    (curve,) = model.smooth_curves(draws)
    at_ends = model.design.read_rows({"x": curve.x, "g": ["p"] * len(curve.x)})
    whole = model.common_predictors(draws, at_ends)[..., 0]
    whole = whole - draws.named["Intercept"][:, None]
    np.testing.assert_allclose(curve.values, whole, rtol=1e-5, atol=1e-5)
    weights = model.group_effects(fit, jnp.zeros((3, model.free.variables.dim)), jax.random.key(3))
    assert weights.values["s(x)_weights"].shape == (3, 4)
    again = model.replicated(fit, jax.random.key(4), 200)
    assert abs(again.mean() - TABLE["y"].mean()) < 0.2
    new = fit.predictive(jax.random.key(5), 50, model.data, groups="new")
    assert np.corrcoef(np.mean(new, 0), CURVE)[0, 1] > 0.9  # the function stays that of training


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("y ~ s(x):z", r"s\(x\) as a term of its own, got s\(x\):z. Write s\(x, by=z\)"),
        ("y ~ h * s(x)", "as a term of its own"),
        ("y ~ (s(x) | g)", r"columns to the left of a bar, got 's\(x\)'. Write s\(x, by=g\)"),
        ("y ~ s(x) + s(x, k=5)", "smooth terms once, got"),
        ("y ~ s(g)", "a column of numbers, 'g'"),
        ("y ~ s(x, k=200)", "k up to the number of distinct values, got 200, of 90"),
        ("y ~ s(x, k=2)", "a whole number from 3 to 500"),
        ("y ~ s(x, sp=1)", r"s\(x, ..., k=, bs=, by=, knots=\), got sp=1"),
        ("y ~ s(x, bs='gp')", "bs= one of 'tp', 'cr', 'cc', got 'gp'"),
        ("y ~ s(x, z, bs='cc')", "bs= one of 'tp', got 'cc'"),
        ("y ~ s(x, knots=[1, 2])", "knots= for bs=.cc. alone"),
        ("y ~ s(x, bs='cc', knots=[1, 2])", "two ends about the values"),
        ("y ~ s(month, bs='cc')", r"knots=\[low, high\], the ends .* Write knots=\[1, 13\]"),
        ("y ~ s(one)", "different values of one, got one value"),
        ("y ~ s()", r"s\(x, ..., k="),
        ("y ~ t2(x)", "It takes 2 to 3 columns"),
        ("y ~ s(x, by=x + z)", "by=column|between arguments"),
        ("y ~ log(s(x))", "functions of numbers inside of arithmetic"),
    ],
)
def test_other_smooth_terms_are_refused(text, said):
    table = {**TABLE, "one": np.ones(SIZE), "month": 1 + np.arange(SIZE) % 12}
    with pytest.raises(ValueError, match=said):
        vi.glmm(text, table)


def test_topics_have_no_smooth_terms():
    with pytest.raises(ValueError, match=naming("prevalence:", "columns")):
        read_terms("~ s(x)", TABLE)


def test_parameters_of_the_law_have_smooth_terms_too():
    """sigma ~ s(x): by Newton's method in NumPy, as the log likelihood of sigma is not quadratic."""
    model = vi.glmm("y ~ s(x, k=5)", TABLE, formulas=["sigma ~ s(x, k=4)"])
    assert model.names[-2:] == ["sds(s(x))", "sds(sigma_s(x))"]
    named, log_lik = named_and_log_lik(model)
    rows, y = model.design.rows, TABLE["y"]
    mean_part, sigma_part = rows.smooths
    q = mean_part.shape[1]
    labels = np.array(model.design.labels)
    beta = np.array([named[label] for label in labels])
    slots = np.array(model.design.slots)
    eta = [rows.x[:, slots == slot] @ beta[slots == slot] for slot in (0, 1)]
    sds = np.repeat([named["sds(s(x))"], named["sds(sigma_s(x))"]], [q, sigma_part.shape[1]])

    def log_joint(u):
        mean = eta[0] + mean_part @ u[:q]
        sigma = np.exp(eta[1] + sigma_part @ u[q:])
        return stats.norm(mean, sigma).logpdf(y).sum() + stats.norm(0, sds).logpdf(u).sum()

    with jax.enable_x64(True):
        loss = lambda u: (
            -(
                jnp.sum(
                    -0.5
                    * ((y - eta[0] - mean_part @ u[:q]) * jnp.exp(-eta[1] - sigma_part @ u[q:]))
                    ** 2
                    - eta[1]
                    - sigma_part @ u[q:]
                )
                - 0.5 * jnp.sum((u / sds) ** 2)
            )
        )
        found = optimize.minimize(
            jax.jit(loss), np.zeros(len(sds)), jac=jax.jit(jax.grad(loss)), method="BFGS", tol=1e-8
        )
        curvature = np.asarray(jax.hessian(loss)(found.x))
    expected = log_joint(found.x) + 0.5 * len(sds) * np.log(2 * np.pi)
    expected -= 0.5 * np.linalg.slogdet(curvature)[1]
    np.testing.assert_allclose(log_lik, expected, rtol=1e-3)
    draws = model.draws(
        vi.fit(vi.ngvi(model), model.data, num_steps=2, key=jax.random.key(0)), jax.random.key(1), 5
    )
    assert [curve.name for curve in model.smooth_curves(draws)] == ["s(x)", "sigma_s(x)"]


def test_cutpoints_beside_a_smooth_term_are_those_of_its_predictor():
    """Ordered categories, by BFGS and a Hessian of finite differences."""
    model = vi.glmm("k ~ s(x, k=5)", TABLE, "cumulative")
    named, log_lik = named_and_log_lik(model)
    rows, columns = model.design.rows, model.design.rows.smooths[0]
    cuts = np.array([-np.inf, named["threshold[0]"], named["threshold[1]"], np.inf])
    straight = rows.x[:, 0] * named["s(x)_1"]
    sd, y = named["sds(s(x))"], TABLE["k"]

    def loss(u):
        eta = straight + columns @ u
        each = stats.logistic.cdf(cuts[y + 1] - eta) - stats.logistic.cdf(cuts[y] - eta)
        return -np.log(each).sum() - stats.norm(0, sd).logpdf(u).sum()

    size = columns.shape[1]
    mode = optimize.minimize(loss, np.zeros(size), method="BFGS").x
    step = 1e-4 * np.eye(size)
    curvature = np.array(
        [
            [
                (loss(mode + a + b) - loss(mode + a - b) - loss(mode - a + b) + loss(mode - a - b))
                for b in step
            ]
            for a in step
        ]
    ) / (4 * 1e-8)
    expected = -loss(mode) + 0.5 * size * np.log(2 * np.pi)
    expected -= 0.5 * np.linalg.slogdet(curvature)[1]
    np.testing.assert_allclose(log_lik, expected, rtol=1e-4)

"""Regressions by a formula: against dense normal algebra, quadrature and lme4's published fits."""

import dataclasses
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import integrate, optimize, special, stats

import vijax as vi
from tests.models.mixed_tables import CATTLE, SLEEP
from tests.naming import naming
from tests.programs import compiled, names_since
from vijax.models.formulas import form as forms
from vijax.models.formulas import formula, priors
from vijax.models.formulas.effects import integrals
from vijax.models.formulas.form.correlations import correlation_factor
from vijax.models.formulas.glmm import ClassFamily, Family
from vijax.models.formulas.laws import LAWS

RNG = np.random.default_rng(0)
TABLE = {
    "y": RNG.normal(size=24),
    "count": RNG.poisson(3.0, 24),
    "label": RNG.choice(["no", "yes"], 24),
    "x": RNG.normal(size=24),
    "g": np.repeat(["a", "b", "c", "d"], 6),
    "one": np.repeat(["a", "b"], [20, 4]),
    "h": np.tile(["u", "v", "w"], 8),
}


# --- formulas -------------------------------------------------------------------------------------
def test_a_formula_is_read_as_lme4_reads_it():
    design = formula.read("y ~ x * h + offset(x) + (x | g) + (x || g:h)", TABLE)
    assert design.labels == ("Intercept", "x", "h[v]", "h[w]", "x:h[v]", "x:h[w]")
    assert design.categorical == (False, False, True, True, False, False)
    np.testing.assert_array_equal(design.rows.offset, TABLE["x"])
    second, first = design.factors  # that with the most effects comes first
    assert (first.name, first.labels, first.blocks, first.levels) == (
        "g",
        ("1", "x"),
        (2,),
        ("a", "b", "c", "d"),
    )
    assert (second.name, second.blocks, second.levels[:2]) == ("g:h", (1, 1), ("a:u", "a:v"))
    np.testing.assert_array_equal(design.rows.z[1], np.stack([np.ones(24), TABLE["x"]], 1))
    new = design.read_rows({"x": [2.0], "h": ["w"], "g": ["e"]})
    assert new.x.tolist() == [[1, 2, 0, 1, 0, 2]]
    assert [int(g[0]) for g in new.groups] == [-1, -1]


def test_missing_values_are_told_by_column_and_row_as_the_user_counts_them(tmp_path):
    holes = {
        "x": np.where(np.arange(24) < 7, np.nan, TABLE["x"]),
        "h": np.where(np.arange(24) == 9, None, TABLE["h"]),
    }
    said = (
        r"table: expected values in all columns of the formula, got none of 'x' in rows 0, 1, 2, "
        r"3, 4, ... \(7 such\), "
        r"counted from 0 and none of 'h' in row 9 \(1 such\), counted from 0\. "
        r".*table.dropna\(subset=\['x', 'h'\]\)"
    )
    for text in ("y ~ np.log(x**2) * h", "y ~ 1 + (x | g:h)"):
        with pytest.raises(ValueError, match=said):
            vi.glmm(text, TABLE | holes)
        with pytest.raises(ValueError, match=said):
            formula.read(text, TABLE).read_rows(TABLE | holes)
    assert formula.read("y ~ h", TABLE | {"x": holes["x"]}).labels == ("Intercept", "h[v]", "h[w]")
    assert formula.read("x ~ h", TABLE).read_rows({"x": [np.nan], "h": ["v"]}).x.tolist() == [
        [1, 1, 0]
    ]
    with pytest.raises(ValueError, match="none of 'x' in rows 0"):
        formula.read("x ~ 1", TABLE).response_and_trials(holes)
    (path := tmp_path / "holes.csv").write_text('y,h\n1,a\n2,\n"3",b\n4,NA\n5,a\n')
    with (
        pytest.raises(ValueError, match=naming("'h'", "3", "5", "2")),
        pytest.warns(
            UserWarning,
            match=naming("'h'", "'NA'", "1 cell"),
        ),
    ):
        vi.glmm("y ~ h", str(path))


def test_splines_keep_their_knots_in_new_rows():
    design = formula.read("y ~ bs(x, df=4)", TABLE)
    np.testing.assert_allclose(design.read_rows({"x": TABLE["x"][:3]}).x, design.rows.x[:3])


@pytest.mark.filterwarnings("ignore::vijax.models.formulas.terms.by_prior.OnlyPriorWarning")
def test_columns_of_one_name_and_dates_are_named():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE).rename(columns={"count": "x"})
    for text in ("y ~ x", "y ~ label + (1 | x)"):
        with pytest.raises(ValueError, match=naming("formula:", "['x']", "Rename")):
            vi.glmm(text, frame)
    assert len(vi.glmm("y ~ label", frame).names) == 3  # x is not read
    days = np.arange(24).astype("datetime64[D]")
    with pytest.raises(ValueError, match=r"dates in \['day'\]. Make them numbers"):
        vi.glmm("y ~ x + day", {**TABLE, "day": days})
    assert len(vi.glmm("y ~ x + (1 | day)", {**TABLE, "day": days}).design.factors[0].levels) == 24


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        ("y ~ x + x | g", {}, "bars in parentheses"),
        (
            "y ~ x + counts",
            {},
            r"formula: .* a column 'counts' in the table, got columns .*Did you mean 'count'\?",
        ),
        ("y ~ np.log(zz)", {}, "'zz' in the table, got columns"),
        ("y ~ x + (1 | k)", {}, "a column 'k'"),
        ("y ~ x", {"weights": "lbel"}, "weights: .*Did you mean 'label'"),
        (
            "h ~ x",
            {"family": "categorical", "base": "z"},
            r"base: expected a category of h: \['u', 'v', 'w'\]",
        ),
        ("y ~ x", {"base": "u"}, 'base: expected None, but for family "categorical"'),
        ("one ~ x + 1", {"family": "categorical", "priors": {"x": ("normal", 0, 1)}}, r"'x\[b\]'"),
        ("y", {}, "response ~ terms"),
        ("y ~ x + (1 | g) + (x | g)", {}, "each effect of g once"),
        ("y ~ x", {"family": "normal"}, 'Did you mean "gaussian"?'),
        ("y ~ x", {"family": "poisson"}, 'counts 0, 1, 2, ... for "poisson"'),
        ("h ~ x", {"family": "bernoulli"}, "two categories"),
        ("p(count, count) ~ x", {"family": "poisson"}, '"binomial" for successes'),
        ("y ~ x", {"priors": {"z": ("normal", 0, 1)}}, r"one of \['Intercept', 'x', 'sigma'\]"),
        ("y ~ x", {"priors": {"x": ("half_normal", 1)}}, r"for 'x' \(normal, mean, sd\)"),
        ("y ~ x", {"weights": [1.0]}, "one for each of the 24 rows"),
        ("y ~ x", {"weights": np.zeros(24)}, "a row of positive weight"),
        (
            "y ~ bs(x, df=4) + (1 | one)",
            {},
            "numbers, padding included.*Groups are padded to the largest",
        ),
    ],
)
def test_errors_say_what_is_wrong(text, more, said, monkeypatch):
    monkeypatch.setattr("vijax.models.formulas.rows_by_group.MOST_NUMBERS", 150)
    with pytest.raises(ValueError, match=said):
        vi.glmm(text, TABLE, **more)


# --- integrals ------------------------------------------------------------------------------------
B, A = RNG.normal(size=(6, 2)), RNG.normal(size=6)


def test_the_normal_integral_is_that_of_a_dense_covariance():
    y, sigma = RNG.normal(size=6), 0.7
    with jax.enable_x64(True):
        got = jax.jit(integrals.normal_integral)(y - A, B, sigma, 6.0)
        mean, factor = jax.jit(integrals.law_of_normal)(y - A, B, sigma)
    dense = stats.multivariate_normal(A, sigma**2 * np.eye(6) + B @ B.T)
    np.testing.assert_allclose(got, dense.logpdf(y), rtol=1e-10)
    precision = np.eye(2) + B.T @ B / sigma**2
    np.testing.assert_allclose(np.asarray(factor) @ np.asarray(factor).T, precision, rtol=1e-10)
    np.testing.assert_allclose(
        mean, np.linalg.solve(precision, B.T @ (y - A) / sigma**2), rtol=1e-10
    )


def of_labels(y, eta):
    return y * eta - jax.nn.softplus(eta)


def test_quadrature_over_effects_is_the_integral_and_its_gradient():
    """Of two effects, against a dense grid; and the derivative against differences, with one node
    too."""
    y = np.array([1.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    t = np.linspace(-7, 7, 281)
    v = np.stack(np.meshgrid(t, t), -1).reshape(-1, 2)
    for scale, least in ((1.0, 1e-4), (2.5, 5e-3)):
        eta = A + scale * v @ B.T
        inside = np.sum(y * eta - np.logaddexp(0, eta), 1) + stats.norm.logpdf(v).sum(1)
        exact = special.logsumexp(inside) + 2 * np.log(t[1] - t[0])
        with jax.enable_x64(True):
            value = jax.jit(
                lambda s, y: integrals.quadrature(
                    of_labels, y, jnp.asarray(A), s * jnp.asarray(B), 7
                )
            )
            assert abs(value(scale, y) - exact) < least
    with jax.enable_x64(True):
        for nodes in (1, 5):
            of = lambda s, n=nodes: integrals.quadrature(
                of_labels, y, s * jnp.asarray(A), s * jnp.asarray(B), n
            )
            both = jax.jit(jax.value_and_grad(of))
            difference = (both(1.0 + 1e-4)[0] - both(1.0 - 1e-4)[0]) / 2e-4
            np.testing.assert_allclose(both(1.0)[1], difference, rtol=1e-6)


# --- priors and density ---------------------------------------------------------------------------
def test_priors_are_those_of_bambi():
    """Numbers that Bambi 0.17.2 prints for these formulas."""
    design = formula.read("reaction ~ days + (days | subject)", SLEEP)
    known = priors.weak_priors(design, LAWS["gaussian"], np.ones(len(design.y)))
    wanted = {
        "Intercept": ("normal", 298.5079, 261.0092),
        "days": ("normal", 0.0, 48.8915),
        "1|subject_sigma": ("half_normal", 261.0092),
        "days|subject_sigma": ("half_normal", 48.8915),
        "sigma": ("half_student_t", 4.0, 56.1721),
    }
    for name, prior in wanted.items():
        assert known[name][0] == prior[0]
        np.testing.assert_allclose(known[name][1:], prior[1:], rtol=1e-5)


@pytest.mark.parametrize("size", [2, 3])
def test_the_prior_of_correlations_is_a_density(size):
    """Of triangular factors: against the integral of its kernel over rows inside balls, one row
    after the other."""
    eta, total = 1.7, 0.0
    for i in range(1, size):
        power = size - i - 1 + 2 * eta - 2
        radius = lambda r, power=power, i=i: (1 - r**2) ** (power / 2) * r ** (i - 1)
        area = 2 * np.pi ** (i / 2) / special.gamma(i / 2)
        total += np.log(area * integrate.quad(radius, 0, 1)[0])
    np.testing.assert_allclose(priors.log_prob(("lkj", eta), jnp.eye(size)), -total, rtol=1e-5)


def test_coordinates_of_correlations_have_the_jacobian_that_they_say():
    x = jnp.asarray(RNG.normal(size=3))
    below = jax.jit(lambda x: correlation_factor(x, 3)[0][np.tril_indices(3, -1)])
    factor, log_det = jax.jit(lambda x: correlation_factor(x, 3))(x)
    np.testing.assert_allclose(np.diagonal(factor @ factor.T), 1, rtol=1e-6)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(jax.jacobian(below)(x))[1], rtol=1e-5)


def test_the_density_is_that_of_the_named_unknowns():
    """At random values: dense normal algebra in the units of the data, priors of SciPy, the
    Jacobian of the units."""
    table = {**TABLE, "y": 50 + 7 * TABLE["y"], "x": 300 + 20 * TABLE["x"]}
    with jax.enable_x64(True):
        model = vi.glmm("y ~ x + (x | g)", table)
        form, known = model.density_form, model.priors
        x = jnp.asarray(RNG.normal(size=model.free.variables.dim) * 0.3)
        values = jax.jit(model.free.values_at)(x)
        both = jax.jit(
            lambda v, d: (
                forms.log_prior(form, v),
                jnp.sum(jax.vmap(lambda r: forms.log_lik(form, v, r))(d)),
            )
        )
        log_prior, log_lik = both(values, model.data)
        named = {name: float(value) for name, value in jax.jit(form.named)(values).items()}
        rho = named.pop("corr(1, x|g)")
        flat, back = ravel_pytree(values)
        whole = lambda f: jnp.stack(list(form.named(back(f)).values()))
        jacobian = np.linalg.slogdet(np.asarray(jax.jit(jax.jacobian(whole))(flat)))[1]
    sds = np.array([named["1|g_sigma"], named["x|g_sigma"]])
    cov = np.outer(sds, sds) * np.array([[1, rho], [rho, 1]])
    total = 0.0
    for g in "abcd":
        own = table["g"] == g
        z = np.stack([np.ones(6), table["x"][own]], 1)
        law = stats.multivariate_normal(
            z @ [named["Intercept"], named["x"]], z @ cov @ z.T + named["sigma"] ** 2 * np.eye(6)
        )
        total += law.logpdf(table["y"][own])
    at_centre = named["Intercept"] + named["x"] * table["x"].mean()
    prior = stats.norm(*known["Intercept"][1:]).logpdf(at_centre) + stats.norm(
        *known["x"][1:]
    ).logpdf(named["x"])
    prior += sum(
        stats.halfnorm(scale=known[f"{a}|g_sigma"][1]).logpdf(named[f"{a}|g_sigma"]) for a in "1x"
    )
    nu, scale = known["sigma"][1:]
    prior += (
        np.log(2) + stats.t(nu, scale=scale).logpdf(named["sigma"]) - np.log(2)
    )  # rho: 1 / 2 on (-1, 1)
    np.testing.assert_allclose(log_prior + log_lik, total + prior + jacobian, rtol=1e-9)


TWICE = np.array([1, 2, 3] * 8)


def numbers_of(form):
    """All numbers of a form, one after the other, and all else."""
    flat = jax.tree.leaves(dataclasses.astuple(form))
    return [x for x in flat if isinstance(x, float)], [x for x in flat if not isinstance(x, float)]


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("y ~ x * h + (x | g)", "gaussian"),
        ("y ~ x + h + (1 | g) + (1 | one)", "t"),
        ("label ~ x + h + offset(y) + (1 | g)", "bernoulli"),
        ("count ~ x + offset(y) + (x || g)", "poisson"),
        ("count ~ x + h", "cumulative"),
        ("h ~ x + (x | g)", "categorical"),
    ],
)
def test_a_row_of_weight_two_is_two_rows_in_priors_and_units_too(text, family):
    repeated = {name: np.repeat(np.asarray(column), TWICE) for name, column in TABLE.items()}
    one, two = vi.glmm(text, TABLE, family, weights=TWICE), vi.glmm(text, repeated, family)
    (found, names), (right, others) = numbers_of(one.density_form), numbers_of(two.density_form)
    assert names == others
    np.testing.assert_allclose(found, right, rtol=1e-9, atol=1e-12)
    alone, _ = numbers_of(vi.glmm(text, TABLE, family).density_form)
    assert np.max(np.abs(np.array(found) - alone)) > 0.01
    if family == "gaussian":  # its data are factors of squares
        gram = lambda data: np.einsum(
            "gnd,gne->gde", *2 * [np.concatenate([data["z0"], data["x"]], 2)]
        )
        np.testing.assert_allclose(gram(one.data), gram(two.data), rtol=1e-9, atol=1e-9)
        assert one.data["count"].sum() == two.data["count"].sum() == TWICE.sum()
    else:
        assert one.data["weight"].sum() == two.data["weight"].sum() == TWICE.sum()


@pytest.mark.parametrize("family", ["gaussian", "t"])
@pytest.mark.parametrize(
    "columns",
    [
        {"y": 3 * TABLE["x"] - 5},
        {"y": np.ones(24)},
        {"y": TABLE["x"], "x": TABLE["x"] + 1e3},
    ],
    ids=["line", "constant", "far"],
)
def test_columns_that_give_the_response_exactly_leave_sigma_no_posterior(family, columns):
    with pytest.raises(
        ValueError,
        match=naming("table:", "got y,", "Leave out the column"),
    ):
        vi.glmm("y ~ x", TABLE | columns, family)
    vi.glmm("y ~ x", TABLE | columns | {"y": columns["y"] + 1e-6 * TABLE["y"]}, family)


GROUPED = {
    "own": ("y ~ x + (1 | g)", lambda g, h, x: g**2 + x),
    "slopes": ("y ~ (x | g)", lambda g, h, x: g**2 * x),
    "crossed": ("y ~ 1 + (1 | g) + (1 | h)", lambda g, h, x: g**2 + np.exp(h)),
}


@pytest.mark.parametrize("family", ["gaussian", "t"])
@pytest.mark.parametrize("name", GROUPED)
def test_groups_that_give_the_response_exactly_leave_sigma_no_posterior(name, family):
    """With columns Z of rank r < N the likelihood of y in their span, given spreads of groups, is
    of the order sigma^-(N - r) at zero, by the r squared lengths that stay and the N - r that go:
    no prior that is positive there has a posterior."""
    text, of = GROUPED[name]
    g, h, x = np.arange(300) // 30, np.arange(300) % 30 // 10, TABLE["x"][np.arange(300) % 24]
    table = {"y": of(g, h, x), "x": x, "g": g, "h": h}
    with pytest.raises(
        ValueError, match="a response that columns and groups do not give exactly, got y, which"
    ):
        vi.glmm(text, table, family)
    vi.glmm(
        text, table | {"y": table["y"] + 1e-6 * (np.arange(300) == 299)}, family
    )  # in the group looked at last
    vi.glmm(
        text,
        table | {"y": table["y"] + 1e-6 * (np.arange(300) == 299), "g": np.arange(300)[::-1] // 30},
        family,
    )


@pytest.mark.filterwarnings("ignore::vijax.models.formulas.terms.by_prior.OnlyPriorWarning")
@pytest.mark.parametrize("number", [4, 24])
def test_groups_leave_sigma_a_posterior_where_their_rank_is_the_number_of_rows(number):
    """And by scipy the likelihood of 24 rows in so many groups is of the order sigma^-(24 - rank)
    near zero."""
    g = np.arange(24) % number
    y, z = np.sqrt(g) - 2.0, np.eye(number)[g]
    low, high = (
        stats.multivariate_normal(None, z @ z.T + s**2 * np.eye(24)).logpdf(y) for s in (1e-4, 1e-3)
    )
    assert abs((low - high) / np.log(10) - (24 - number)) < 1e-3
    of_model = lambda: vi.glmm("y ~ 0 + (1 | g)", {"y": y, "g": g})
    if number == 24:
        assert of_model().names == ["1|g_sigma", "sigma"]
    else:
        with pytest.raises(ValueError, match="columns and groups do not give exactly"):
            of_model()


@pytest.mark.filterwarnings("ignore::vijax.models.formulas.terms.by_prior.OnlyPriorWarning")
def test_as_many_columns_as_rows_have_a_posterior_and_so_have_columns_that_depend_on_each_other():
    """Priors of the coefficients hold them: the posterior of sigma is proper with as many rows as
    columns."""
    assert vi.glmm("y ~ x", {"y": [1.0, 3.0], "x": [0.0, 2.0]}).names == ["Intercept", "x", "sigma"]
    one = vi.glmm(
        "y ~ x + z", {"y": [2.0], "x": [0.0], "z": [2.0]}
    )  # its only response has no spread
    assert np.isfinite(one.density_form.units.turn).all()


def test_equal_regressions_are_equal():
    one, other = (vi.glmm("y ~ x + (1 | g)", TABLE) for _ in range(2))
    assert one.density_form == other.density_form
    assert hash(one.density_form) == hash(other.density_form)
    assert one.free is other.free
    assert dataclasses.replace(one.density_form, nodes=3) != other.density_form


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("y ~ 0 + (1 | g)", "gaussian"),
        ("count ~ x + offset(x)", "poisson"),
        ("label ~ 1", "bernoulli"),
    ],
)
def test_formulas_without_some_of_the_parts(text, family):
    model = vi.glmm(text, TABLE, family=family, weights=np.arange(1, 25))
    x = jax.ShapeDtypeStruct((model.free.variables.dim,), jnp.float32)
    found = jax.eval_shape(lambda x: model.free.log_liks_at(x, model.data), x)
    assert found.shape == {"y ~ 0 + (1 | g)": (4,)}.get(text, (24,))
    assert list(model.priors) == model.names


def test_several_factors_are_a_dense_covariance_for_a_normal_law():
    """Crossed and nested, with slopes: exact, and its gradient that of differences. Effects given
    all else are those of dense algebra, on average."""
    with jax.enable_x64(True):
        model = vi.glmm("y ~ x + (x | g) + (1 | g:h)", TABLE)
        form, data = model.density_form, {name: jnp.asarray(x) for name, x in model.data.items()}
        of = jax.jit(
            lambda x: forms.log_lik(
                form, model.free.values_at(x), {name: one[0] for name, one in data.items()}
            )
        )
        x = jnp.asarray(RNG.normal(size=model.free.variables.dim) * 0.4)
        values = jax.jit(model.free.values_at)(x)
        got, named = of(x), {name: float(one) for name, one in jax.jit(form.named)(values).items()}
        along = jnp.asarray(RNG.normal(size=x.size))
        slope = jax.jit(jax.grad(of))(x) @ along
        np.testing.assert_allclose(
            slope, (of(x + 1e-5 * along) - of(x - 1e-5 * along)) / 2e-5, rtol=1e-6
        )
        keys = jax.random.split(jax.random.key(0), 4000)
        effects = jax.jit(
            lambda keys: jax.lax.map(lambda key: forms.draw_effects(form, values, data, key), keys)
        )(keys)
    sds = np.array([named["1|g_sigma"], named["x|g_sigma"]])
    rho = named["corr(1, x|g)"]
    names = TABLE["g"], np.char.add(TABLE["g"], TABLE["h"])
    first, second = (np.unique(own, return_inverse=True)[1] for own in names)
    z = np.zeros((24, 20))
    z[np.arange(24), 2 * first], z[np.arange(24), 2 * first + 1], z[np.arange(24), 8 + second] = (
        1,
        TABLE["x"],
        1,
    )
    prior = np.kron(np.eye(4), np.outer(sds, sds) * [[1, rho], [rho, 1]])
    prior = np.block(
        [[prior, np.zeros((8, 12))], [np.zeros((12, 8)), named["1|g:h_sigma"] ** 2 * np.eye(12)]]
    )
    cov = z @ prior @ z.T + named["sigma"] ** 2 * np.eye(24)
    mean = named["Intercept"] + named["x"] * TABLE["x"]
    scaled = float(got) - 24 * np.log(form.units.size)
    np.testing.assert_allclose(
        scaled, stats.multivariate_normal(mean, cov).logpdf(TABLE["y"]), rtol=1e-9
    )
    gain = prior @ z.T @ np.linalg.inv(cov)
    by_name = dict(zip([factor.name for factor in model.design.factors], effects, strict=True))
    drawn = np.concatenate(
        [np.asarray(by_name[name]).reshape(4000, -1) for name in ("g", "g:h")], 1
    )
    exact = prior - gain @ z @ prior
    error = np.sqrt(np.diag(exact) / 4000)
    assert np.all(np.abs(drawn.mean(0) - gain @ (TABLE["y"] - mean)) < 5 * error)
    np.testing.assert_allclose(np.cov(drawn.T), exact, atol=0.12 * np.diag(exact).max())


def test_several_factors_of_counts_are_laplace_and_their_gradient():
    """Against SciPy's search for the mode and a dense Hessian, and differences of these."""
    with jax.enable_x64(True):
        model = vi.glmm("count ~ x + (1 | g) + (1 | h)", TABLE, family="poisson")
        form, data = model.density_form, {name: jnp.asarray(x)[0] for name, x in model.data.items()}
        of = jax.jit(
            jax.value_and_grad(lambda x: forms.log_lik(form, model.free.values_at(x), data))
        )
        at = RNG.normal(size=model.free.variables.dim) * 0.3
        value, slope = of(jnp.asarray(at))
        named = jax.jit(lambda x: form.named(model.free.values_at(x)))
        z = np.concatenate([np.unique(TABLE[name], return_inverse=True)[1][:, None] == np.arange(k) for name, k in
                            (("g", 4), ("h", 3))], 1)  # fmt: skip

        def dense(x):
            found = {name: float(one) for name, one in named(jnp.asarray(x)).items()}
            turned = z * np.repeat([found["1|g_sigma"], found["1|h_sigma"]], [4, 3])
            eta = lambda v: found["Intercept"] + found["x"] * TABLE["x"] + turned @ v
            log_p = lambda v: (
                np.sum(stats.poisson.logpmf(TABLE["count"], np.exp(eta(v))))
                + stats.norm.logpdf(v).sum()
            )
            up = lambda v: turned.T @ (TABLE["count"] - np.exp(eta(v))) - v
            v = optimize.minimize(
                lambda v: -log_p(v), np.zeros(7), jac=lambda v: -up(v), tol=1e-12
            ).x
            precision = np.eye(7) + turned.T @ (turned * np.exp(eta(v))[:, None])
            return log_p(v) + 3.5 * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(precision)[1]

        np.testing.assert_allclose(value, dense(at), rtol=1e-8)
        along = RNG.normal(size=at.size)
        difference = (dense(at + 1e-4 * along) - dense(at - 1e-4 * along)) / 2e-4
        np.testing.assert_allclose(slope @ along, difference, rtol=1e-5)


# --- fits: dear by compilation --------------------------------------------------------------------
def check_arviz(fit, g, y):
    """Effects of groups stand beside the unknowns of the same draws: of a normal law they are
    normal given these, with mean (sum of residuals) / (n + sigma^2 / tau^2)."""
    pytest.importorskip("arviz")
    posterior = fit.to_arviz(jax.random.key(4), 4000)["posterior"]
    effects = posterior["1|g"]
    assert effects.dims == ("chain", "draw", "g__factor_dim")
    assert effects["g__factor_dim"].values.tolist() == [str(k) for k in range(6)]
    mean, tau, sigma = (posterior[name].values[0] for name in ("Intercept", "1|g_sigma", "sigma"))
    sums = np.stack([y[g == k].sum() - 5 * mean for k in range(6)], 1)
    precision = 5 / sigma**2 + 1 / tau**2
    scaled = (effects.values[0] - sums / sigma[:, None] ** 2 / precision[:, None]) * np.sqrt(
        precision
    )[:, None]
    assert np.abs(scaled.mean(0)).max() < 0.08  # five standard errors
    np.testing.assert_allclose(scaled.std(0), 1.0, atol=0.06)


def test_a_fit_has_the_exact_moments_of_spreads_and_predicts():
    """Few groups, whose spread is hardly known: against a grid over both deviations, all else
    integrated out."""
    rng = np.random.default_rng(1)
    g = np.repeat(np.arange(6), 5)
    y = 20 + 3 * rng.normal(size=6)[g] + 4 * rng.normal(size=30)
    model = vi.glmm("y ~ 1 + (1 | g)", {"y": y, "g": g})
    fit = vi.auto(model, model.data, key=jax.random.key(0), richer=True)
    table = fit.summary(num_draws=20_000)
    found = dict(zip(table.names, zip(table.mean, table.sd, strict=True), strict=True))
    priors_of = model.priors
    tau, sigma = np.exp(np.linspace(-4, 4, 161)), np.exp(np.linspace(0.3, 2.6, 61))
    _, mean, sd = priors_of["Intercept"]
    same, ones = g[:, None] == g, np.ones((30, 30))
    at = lambda t, s: stats.multivariate_normal(
        np.full(30, mean), s**2 * np.eye(30) + t**2 * same + sd**2 * ones
    )
    log_p = np.array([[at(t, s).logpdf(y) for s in sigma] for t in tau])
    log_p += (
        stats.halfnorm(scale=priors_of["1|g_sigma"][1]).logpdf(tau)[:, None] + np.log(tau)[:, None]
    )
    log_p += (stats.t(4, scale=priors_of["sigma"][2]).logpdf(sigma) + np.log(sigma))[None]
    weight = np.exp(log_p - special.logsumexp(log_p))
    for name, values, own in (("1|g_sigma", tau, weight.sum(1)), ("sigma", sigma, weight.sum(0))):
        exact = values @ own
        spread = np.sqrt((values - exact) ** 2 @ own)
        assert abs(found[name][0] - exact) < 0.1 * spread, name
        assert abs(found[name][1] / spread - 1) < 0.1, name
    check_arviz(fit, g, y)
    seen = fit.predict({"g": [0, 99]}, key=jax.random.key(1))
    assert seen.sd[1] > 1.5 * seen.sd[0]  # nothing is known of group 99
    assert np.all((seen.lowest < seen.low) & (seen.high < seen.highest))
    before = compiled()
    fit.predict({"g": [0, 99]}, key=jax.random.key(5))
    assert names_since(before) == []
    elpd = vi.trust.loo(model.log_lik(fit, jax.random.key(2)))
    assert 2 < elpd.p_eff < 8
    check_replicated(model, fit, y, tau, sigma, weight)


def check_replicated(model, fit, y, tau, sigma, weight):
    """Responses of the groups once more, and of new groups: moments by hand, given both
    deviations."""
    t, s = tau[:, None] ** 2, sigma[None] ** 2
    of_group = t + s / 5  # of the mean of five rows
    _, prior_mean, prior_sd = model.priors["Intercept"]
    precision = 6 / of_group + 1 / prior_sd**2
    center = (y.sum() / 5 / of_group + prior_mean / prior_sd**2) / precision
    of_center = (
        np.sum(weight / precision) + np.sum(weight * center**2) - np.sum(weight * center) ** 2
    )
    means = y.reshape(6, 5).mean(1)
    seen = [np.sum(weight * (center + t / of_group * (own - center))) for own in means]
    same = model.replicated(fit, jax.random.key(3), 4000)
    np.testing.assert_allclose(same.reshape(-1, 6, 5).mean((0, 2)), seen, atol=0.15)
    new = np.cov(np.asarray(fit.predictive(jax.random.key(4), 20_000, model.data)).T)
    blocks = np.kron(np.eye(6), np.ones((5, 5))) > 0
    spread = of_center + np.sum(weight * t)
    np.testing.assert_allclose(np.diagonal(new).mean(), spread + np.sum(weight * s), rtol=0.1)
    np.testing.assert_allclose(new[blocks & ~np.eye(30, dtype=bool)].mean(), spread, rtol=0.2)
    np.testing.assert_allclose(new[~blocks].mean(), of_center, rtol=0.2)
    check = vi.evaluate.predictive_check(fit, jnp.std, model.data, key=jax.random.key(5))
    assert 0.2 < check.p_value < 0.8
    assert np.allclose(check.observed, y.std())
    others = jax.tree.map(lambda x: x + 1, model.data)
    with pytest.raises(ValueError, match=naming("data:", "model.data", "fit.predict")):
        vi.evaluate.predictive_check(fit, jnp.std, others, key=jax.random.key(5))


def test_a_law_that_does_not_vary_enough_is_found():
    """Counts of a negative binomial law, as if they were of a Poisson law; and by their own law."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=150)
    y = rng.negative_binomial(1, 1 / (1 + np.exp(1 + 0.3 * x)))
    for family, low, high in (("poisson", 0.0, 0.001), ("negativebinomial", 0.05, 0.95)):
        model = vi.glmm("y ~ x", {"y": y, "x": x}, family=family)
        fit = vi.auto(model, model.data, key=jax.random.key(0))
        check = vi.evaluate.predictive_check(fit, jnp.var, model.data, key=jax.random.key(1))
        assert low <= check.p_value <= high, family


def best_linear_predictors(table, beta, sds, correlation, sigma):
    """Effects (subjects, 2) given coefficients and spreads: G Z' (Z G Z' + sigma^2)^-1 residual."""
    days, response = (np.asarray(table[name], float) for name in ("days", "reaction"))
    effect_cov = np.outer(sds, sds) * [[1, correlation], [correlation, 1]]
    predictors = []
    for subject in sorted(set(table["subject"])):
        own = np.asarray(table["subject"]) == subject
        design = np.column_stack([np.ones(own.sum()), days[own]])
        covariance = design @ effect_cov @ design.T + sigma**2 * np.eye(own.sum())
        residual = response[own] - design @ beta
        predictors.append(effect_cov @ design.T @ np.linalg.solve(covariance, residual))
    return np.array(predictors)


def test_published_fits():
    """lme4's estimates by maximum likelihood (Bates et al. 2015, section 1.1; the help page of
    cbpp): where data are many, posterior means of coefficients lie near them, within the width of
    the priors."""
    model = vi.glmm("reaction ~ days + (days | subject)", SLEEP)
    fit = vi.auto(model, key=jax.random.key(0))
    table = fit.summary()
    found = dict(zip(table.names, zip(table.mean, table.sd, strict=True), strict=True))
    assert fit.usable
    for name, wanted in {"Intercept": 251.405, "days": 10.467, "sigma": 25.592}.items():
        assert abs(found[name][0] - wanted) < 0.3 * found[name][1], name
    for name, wanted in {
        "1|subject_sigma": 24.741,
        "days|subject_sigma": 5.922,
        "corr(1, days|subject)": 0.066,
    }.items():
        assert abs(found[name][0] - wanted) < 0.6 * found[name][1], name  # means of skewed laws
    effects = model.draws(fit, jax.random.key(1), 500).effects["subject"]
    predictors = best_linear_predictors(SLEEP, [251.405, 10.467], [24.741, 5.922], 0.066, 25.592)
    np.testing.assert_allclose(predictors[0], [2.26, 9.20], atol=0.01)  # lme4's, of subject 308
    assert np.all(np.abs(effects.mean(0) - predictors) < 0.35 * effects.std(0))
    flat = dict.fromkeys(("period[b]", "period[c]", "period[d]", "Intercept"), ("normal", 0, 100))
    model = vi.glmm(
        "p(incidence, size) ~ period + (1 | herd)", CATTLE, family="binomial", priors=flat
    )
    fit = vi.auto(model, model.data, key=jax.random.key(0))
    table = fit.summary()
    found = dict(zip(table.names, zip(table.mean, table.sd, strict=True), strict=True))
    wanted = {
        "Intercept": (-1.398, 0.231),
        "period[b]": (-0.992, 0.303),
        "period[d]": (-1.580, 0.422),
    }
    for name, (mean, error) in wanted.items():
        assert abs(found[name][0] - mean) < 0.4 * error, name
        assert abs(found[name][1] / error - 1) < 0.25, name


@pytest.mark.slow
def test_groups_may_be_read_some_at_a_time():
    """A tenth of the groups a step, as a million rows want it: beside `vi.auto`, which reads
    all."""
    rng = np.random.default_rng(0)
    g, x = np.repeat(np.arange(200), 15), rng.normal(size=3000)
    eta = 0.3 + 0.8 * x + 0.7 * rng.normal(size=200)[g]
    y = (rng.random(3000) < special.expit(eta)).astype(int)
    model = vi.glmm("y ~ x + (1 | g)", {"y": y, "x": x, "g": g}, family="bernoulli")
    whole = vi.auto(model, key=jax.random.key(0)).summary()
    parts = vi.fit(vi.ngvi(model), batch_size=20, num_steps=600, key=jax.random.key(1)).summary()
    assert parts.names == whole.names
    np.testing.assert_allclose((parts.mean - whole.mean) / whole.sd, 0, atol=0.1)
    np.testing.assert_allclose(parts.sd, whole.sd, rtol=0.05)


# --- families of counts with zeros of their own, and of ordered categories ------------------------
ETA, COUNTS = np.linspace(-2, 2, 5), np.arange(40.0)


def scipy_counts(name):
    """The law, its parameters, and its exact probabilities of counts and its means."""
    kind, _, plain_name = name.rpartition("_")
    law, mean = LAWS[name], np.exp(ETA)[:, None]
    plain = (
        stats.poisson(mean) if plain_name == "poisson" else stats.nbinom(1.5, 1.5 / (1.5 + mean))
    )
    some = plain.sf(0) if kind == "hurdle" else 1.0
    of_counts = plain.pmf(COUNTS) / some * ((COUNTS > 0) | (kind != "hurdle"))
    aux = {name: x for name, x in {"psi": 0.6, "alpha": 1.5}.items() if name in law.aux}
    return law, aux, 0.6 * of_counts + 0.4 * (COUNTS == 0), (0.6 * plain.mean() / some)[:, 0]


def test_families_are_the_laws():
    assert set(get_args(Family)) == set(LAWS)
    classes = {name for name, law in LAWS.items() if law.categories}
    assert set(get_args(ClassFamily)) == classes - {"multinomial"}  # of which a row has many


WITH_ZEROS = [
    f"{kind}_{counts}"
    for kind in ("zero_inflated", "hurdle")
    for counts in ("poisson", "negativebinomial")
]


@pytest.mark.parametrize("name", WITH_ZEROS)
def test_counts_with_zeros_are_those_of_scipy(name):
    law, aux, wanted, mean = scipy_counts(name)
    got = jax.jit(lambda y, z: law.log_prob(aux, 1.0, y, z))(COUNTS[None], ETA[:, None])
    np.testing.assert_allclose(got, np.log(wanted), rtol=2e-5, atol=2e-5)
    one = {name: np.array([x]) for name, x in aux.items()}
    np.testing.assert_allclose(law.mean(one, ETA[None])[0], mean, rtol=1e-5)


@pytest.mark.parametrize("psi", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", WITH_ZEROS)
def test_counts_with_zeros_have_densities_and_slopes_far_out(name, psi):
    """Where e^z is no float32, or next to nothing, and psi 0 or 1: a number, or minus infinity of
    what cannot be."""
    law = LAWS[name]
    aux = {name: x for name, x in {"psi": psi, "alpha": 1.5}.items() if name in law.aux}
    z, y = np.float32([-120, -60, 60, 120]), np.float32([0, 1, 30])[:, None]
    each = jax.value_and_grad(lambda z, y: law.log_prob(aux, 1.0, y, z))
    value, slope = jax.jit(jnp.vectorize(each))(z, y)
    never = np.broadcast_to(
        (y > 0) & (psi == 0) | (y == 0) & (psi == 1) & name.startswith("hurdle"), value.shape
    )
    assert np.all(np.isneginf(value[never]))
    assert np.all(np.isfinite(value[~never]))
    assert np.all(np.isfinite(slope))


@pytest.mark.parametrize("name", WITH_ZEROS)
def test_draws_of_counts_with_zeros_have_their_law(name):
    law, aux, wanted, _ = scipy_counts(name)
    draw = jax.jit(lambda key, z: law.likelihood(aux, 1.0).sample(key, z))(
        jax.random.key(0), jnp.repeat(ETA, 20_000)
    )
    shares = (
        np.stack(
            [np.bincount(x.astype(int), minlength=40)[:40] for x in np.asarray(draw).reshape(5, -1)]
        )
        / 20_000
    )
    assert np.all(np.abs(shares - wanted) < 5 * np.sqrt(wanted / 20_000) + 1e-4)


def test_ordered_categories_are_differences_of_logistic_laws():
    """The density of a table with text in the order of a column of pandas, against SciPy at the
    named unknowns."""
    pandas = pytest.importorskip("pandas")
    order = ["low", "middle", "high"]
    kind = pandas.CategoricalDtype(order, ordered=True)
    column = pandas.Series(np.array(order)[RNG.integers(3, size=24)]).astype(kind)
    frame = pandas.DataFrame({"rating": column, "x": 5 + TABLE["x"], "h": TABLE["h"]})
    model = vi.glmm("rating ~ x + h", frame, family="cumulative")
    assert model.names == ["x", "h[v]", "h[w]", "threshold[0]", "threshold[1]"]
    assert model.design.levels == tuple(order)
    np.testing.assert_array_equal(model.design.response_and_trials(frame)[0], column.cat.codes)
    with pytest.raises(ValueError, match="categories of rating that training has"):
        model.design.response_and_trials({"rating": ["none"]})
    values = jax.jit(model.free.values_at)(
        jnp.asarray(RNG.normal(size=model.free.variables.dim) * 0.4)
    )
    form = model.density_form
    named, log_lik = jax.jit(
        lambda v, d: (form.named(v), jnp.sum(jax.vmap(lambda r: forms.log_lik(form, v, r))(d)))
    )(values, model.data)
    cuts = np.array([-np.inf, named["threshold[0]"], named["threshold[1]"], np.inf])
    eta = model.design.rows.x @ [float(named[label]) for label in model.design.labels]
    each = np.diff(stats.logistic.cdf(cuts - eta[:, None]))
    np.testing.assert_allclose(
        log_lik, np.log(each[np.arange(24), column.cat.codes]).sum(), rtol=1e-4
    )
    aux = {name: np.asarray(x)[None] for name, x in form.law_parameters(named).items()}
    np.testing.assert_allclose(model.law.mean(aux, eta[None])[0], each, atol=1e-5)
    draw = jax.jit(model.law.likelihood(form.law_parameters(named), 1.0).sample)
    shares = np.asarray(draw(jax.random.key(0), jnp.tile(jnp.float32(eta), (4000, 1))))[
        ..., None
    ] == np.arange(3)
    np.testing.assert_allclose(shares.mean(0), each, atol=0.04)


def test_predictions_of_ordered_categories_are_probabilities():
    """Dear by compilation: with groups, ones that training has not seen too."""
    rng = np.random.default_rng(2)
    g, x = np.repeat(np.arange(10), 20), rng.normal(size=200)
    y = np.searchsorted([-1, 1], x + 0.7 * rng.normal(size=10)[g] + rng.logistic(size=200))
    model = vi.glmm("y ~ x + (1 | g)", {"y": y, "x": x, "g": g}, family="cumulative")
    fit = vi.auto(model, model.data, key=jax.random.key(0))
    seen = fit.predict({"x": [0.0, 9.0], "g": [0, 99]}, key=jax.random.key(1))
    np.testing.assert_allclose(seen.mean.sum(1), 1, rtol=1e-5)
    assert seen.mean[1, 2] > 0.9
    assert seen.highest.tolist() == [2, 2]
    assert abs(model.replicated(fit, jax.random.key(2)).mean() - y.mean()) < 0.1
    assert model.log_lik(fit, jax.random.key(3), 50).shape == (50, 200)


def test_effects_whose_correlations_nobody_can_fit_are_refused():
    """200 of them took minutes before a first word."""
    table = {"y": np.arange(300.0), "x": np.linspace(0, 1, 300), "g": np.arange(300) % 20}
    with pytest.raises(
        ValueError, match=r"at most 64 effects .*, got 201, which have 20,100 correlations"
    ):
        vi.glmm("y ~ (bs(x, df=200) | g)", table)
    assert max(formula.read("y ~ (bs(x, df=200) || g)", table).factors[0].blocks) == 1

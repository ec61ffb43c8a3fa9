"""`priors="flat"`: modes against maximum likelihood by lme4 and glm of R 4.2.2, posteriors against
least squares, and improper posteriors refused by the names of their coefficients."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import optimize

import vijax as vi
from tests.models.mixed_tables import CATTLE, SLEEP
from tests.naming import naming
from vijax.app.cli import main
from vijax.models.formulas.form import log_lik, log_prior
from vijax.models.formulas.terms.proper import find_direction
from vijax.xla.precision import enable_x64

RNG = np.random.default_rng(3)
N = 60
X = RNG.normal(size=N)
Z = RNG.normal(size=N)
H = np.array(list("abc"))[np.arange(N) % 3]
YES = (X + RNG.normal(size=N) > 0).astype(float)
COUNTS = RNG.poisson(3.0, N)


def mode(make):
    """The unknowns by name where likelihood times prior, as densities of these, are largest: by
    SciPy, in float64."""
    with enable_x64(True):
        model = make()
        form = model.density_form
        data = {name: jnp.asarray(x) for name, x in model.data.items()}
        shapes = {name: jnp.zeros(space.shape) for name, space in form.variables().items()}
        start, unravel = ravel_pytree(shapes)

        def values(z):
            is_positive = lambda name: name.startswith(("_sds.", "_others.sigma"))
            return {n: jnp.exp(x) if is_positive(n) else x for n, x in unravel(z).items()}

        def loss(z):
            by_group = jax.vmap(lambda rows: log_lik(form, values(z), rows))(data)
            return -jnp.sum(by_group) - log_prior(form, values(z))

        slopes = jax.jit(jax.value_and_grad(loss))
        best = optimize.minimize(slopes, np.asarray(start), jac=True, method="BFGS")
        return {name: float(x) for name, x in form.named(values(jnp.asarray(best.x))).items()}


def test_the_mode_on_sleepstudy_is_that_of_lmer():
    """lmer(Reaction ~ Days + (Days || Subject), REML = FALSE)."""
    sds = {"1|subject_sigma": ("half_flat",), "days|subject_sigma": ("half_flat",)}
    formula = "reaction ~ days + (days || subject)"
    top = mode(lambda: vi.glmm(formula, SLEEP, priors={"*": "flat", **sds}))
    by_lmer = {
        "Intercept": 251.405105,
        "days": 10.467286,
        "1|subject_sigma": 24.1715879,
        "days|subject_sigma": 5.7993662,
        "sigma": 25.5561230,
    }
    np.testing.assert_allclose([top[name] for name in by_lmer], [*by_lmer.values()], rtol=1e-4)


def test_the_mode_on_cattle_is_that_of_glmer_and_glm():
    """glmer(cbind(k, n - k) ~ period + (1 | herd), nAGQ = 25), and glm without herds. The weak prior
    of the sd of herds moves it in the third digit."""
    formula = "p(incidence, size) ~ C(period) + (1 | herd)"
    flat = {"*": "flat", "1|herd_sigma": ("half_flat",)}
    top = mode(lambda: vi.glmm(formula, CATTLE, priors=flat, nodes=25))
    by_glmer = [-1.39922373, -0.99140888, -1.12780959, -1.57948095, 0.64751991]
    np.testing.assert_allclose([*top.values()], by_glmer, rtol=1e-4)
    top = mode(lambda: vi.glmm(formula, CATTLE, priors="flat", nodes=25))
    np.testing.assert_allclose([*top.values()], by_glmer, rtol=1e-2)
    top = mode(lambda: vi.glmm("p(incidence, size) ~ C(period)", CATTLE, priors="flat"))
    by_glm = [-1.2690235, -1.1707627, -1.3014053, -1.7822786]
    np.testing.assert_allclose([*top.values()], by_glm, rtol=1e-5)


def test_the_posterior_of_a_normal_law_is_that_of_least_squares():
    """Coefficients have Student's law with N - p - 1 degrees of freedom, for sigma is flat."""
    y = 1 + 2 * X + RNG.normal(size=N)
    model = vi.glmm("y ~ x", {"y": y, "x": X}, priors="flat")
    fit = vi.auto(model, key=jax.random.key(0), richer=True)
    columns = np.column_stack([np.ones(N), X])
    beta, squares, *_ = np.linalg.lstsq(columns, y, rcond=None)
    degrees = N - 3
    scale = squares[0] / degrees * np.linalg.inv(columns.T @ columns)
    sds = np.sqrt(np.diag(scale) * degrees / (degrees - 2))
    summary = fit.summary()
    assert "can be used" in fit.verdict
    np.testing.assert_allclose((summary.mean[:2] - beta) / sds, 0, atol=0.05)
    np.testing.assert_allclose(summary.sd[:2], sds, rtol=0.05)
    influence = vi.trust.prior_influence(fit, key=jax.random.key(1))
    assert not influence.influences
    assert not influence.unchecked


def by_values(form):
    """Values of the unknowns of a form at random, and the unknowns by name."""
    rng = np.random.default_rng(1)
    values = {}
    for name, space in form.variables().items():
        x = jnp.asarray(0.5 + 0.3 * rng.random(space.shape))
        values[name] = x
    return values, {name: float(x) for name, x in form.named(values).items()}


# --- improper posteriors --------------------------------------------------------------------------
IMPROPER = {
    "a copied column": ("y ~ x + z", {"y": Z, "x": X, "z": 2 * X + 1}, "gaussian", ["x", "z"]),
    "separation": ("y ~ x", {"y": (X > 0.1) * 1.0, "x": X}, "bernoulli", ["x"]),
    "a level of zeros": ("y ~ h", {"y": YES * (H != "c"), "h": H}, "bernoulli", ["h[c]"]),
    "a level without counts": ("y ~ h", {"y": COUNTS * (H != "c"), "h": H}, "poisson", ["h[c]"]),
    "ordered": ("y ~ x", {"y": np.digitize(X, [-1, 0]), "x": X}, "cumulative", ["threshold[0]"]),
    "named": ("y ~ x", {"y": np.digitize(X, [-1, 0]), "x": X}, "categorical", ["x[2]"]),
    "ones of a hurdle": (
        "y ~ h",
        {"y": np.where(H == "c", 1, COUNTS), "h": H},
        "hurdle_poisson",
        ["h[c]"],
    ),
    "an endless law": ("y ~ x", {"y": np.exp(Z), "x": X}, "wald", ["wald"]),
    "truncation": ("truncated(y, lb=-9) ~ x", {"y": Z, "x": X}, "gaussian", ["truncated"]),
    "two rows": ("y ~ x", {"y": [1.0, 2.0], "x": [0.0, 1.0]}, "gaussian", ["sigma"]),
}


@pytest.mark.parametrize("name", IMPROPER)
@pytest.mark.filterwarnings("ignore:formula:UserWarning")
def test_improper_posteriors_are_refused_by_name(name):
    """Under the usual priors all of them are fitted."""
    formula, table, family, culprits = IMPROPER[name]
    vi.glmm(formula, table, family)
    with pytest.raises(ValueError, match=naming("priors:", *culprits)):
        vi.glmm(formula, table, family, priors="flat")


PROPER = {
    "zeros by chance": ("y ~ h", {"y": YES, "h": H}, "bernoulli"),
    "ordered": ("y ~ x", {"y": np.digitize(X + Z, [-1, 0]), "x": X}, "cumulative"),
    "named": ("y ~ x", {"y": np.digitize(X + Z, [-1, 0]), "x": X}, "categorical"),
    "zeros that another law makes": (
        "y ~ h",
        {"y": np.maximum(COUNTS - 2, 0), "h": H},
        "zero_inflated_poisson",
    ),
}


def test_a_flat_sigma_needs_rows_whose_likelihood_falls_as_it_grows():
    """With eta = sigma u, rows beyond a bound keep their likelihood as sigma grows, so that two
    rows and a flat intercept leave sigma^(1 - 2), whose integral has no end; three have one. The
    likelihood of a row truncated on both sides tends to one over the width."""
    for exact, is_proper in ((2, False), (3, True)):
        status = ["none"] * exact + ["right"] * 8
        table = {"y": Z[: exact + 8], "status": status}
        make = lambda table=table: vi.glmm("censored(y, status) ~ 1", table, priors="flat")
        if is_proper:
            make()
            continue
        with pytest.raises(ValueError, match=naming("priors:", "sigma", "got 2")):
            make()
    table, flat = {"y": np.clip(Z, -1, 1), "x": X}, {"sigma": ("half_flat",)}
    vi.glmm("truncated(y, lb=-2) ~ x", table, priors=flat)
    with pytest.raises(ValueError, match=naming("priors:", "sigma", "got 0")):
        vi.glmm("truncated(y, -2, 2) ~ x", table, priors=flat)


@pytest.mark.parametrize("name", PROPER)
def test_proper_posteriors_are_not_refused(name):
    formula, table, family = PROPER[name]
    model = vi.glmm(formula, table, family, priors="flat")
    assert model.priors[model.design.coefficients[-1]] == ("flat",)


def test_the_remedy_of_separation_works():
    table = {"y": (X > 0.1) * 1.0, "x": X}
    priors = {"*": "flat", "x": ("normal", 0, 2.5)}
    model = vi.glmm("y ~ x", table, "bernoulli", priors=priors)
    assert dict(model.priors) == {"Intercept": ("flat",), "x": ("normal", 0.0, 2.5)}
    assert "can be used" in vi.auto(model, key=jax.random.key(0)).verdict


def test_a_direction_of_separation_agrees_with_enumeration():
    """Of two columns all directions of a circle are tried."""
    angles = np.linspace(0, 2 * np.pi, 20001)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(60):
        cone = rng.normal(0.5, 1.0, (5, 2))
        exists = bool(np.any(np.all(cone @ circle >= -1e-9, 0)))
        assert (find_direction(cone) is not None) == exists
        seen.add(exists)
    assert seen == {True, False}


def test_a_flat_sd_needs_groups_whose_responses_differ():
    table = {"y": Z, "x": X, "g": np.arange(N) % 3, "two": np.arange(N) % 2}
    sd = lambda name: {"*": "flat", f"1|{name}_sigma": ("half_flat",)}
    vi.glmm("y ~ x + (1 | g)", table, priors=sd("g"))
    with pytest.raises(ValueError, match=naming("priors:", "3", "two", "2")):
        vi.glmm("y ~ x + (1 | two)", table, priors=sd("two"))
    between = {**table, "w": (table["g"] == 1) * 1.0}  # one number for each group
    with pytest.raises(ValueError, match=naming("priors:", "4", "1|g_sigma")):
        vi.glmm("y ~ x + w + (1 | g)", between, priors=sd("g"))
    zeros = {**table, "y": YES * (table["g"] > 0)}  # the effects of one group have no lower end
    with pytest.raises(ValueError, match=naming("priors:", "1|g_sigma")):
        vi.glmm("y ~ x + (1 | g)", zeros, "bernoulli", priors=sd("g"))


def test_a_flat_sd_of_many_responses_is_judged_by_the_rows_of_each():
    """Without one missing cell a column would differ within a group, and not be between groups."""
    table = {"x": np.repeat([0.0, 1.0, 3.0], 6), "g": np.repeat(list("abc"), 6)}
    table["x"][5] = 9.0
    y = Z[:18, None].copy()
    y[5] = np.nan
    priors = {"*": "flat", "1|g_sigma": ("half_flat",)}
    with pytest.raises(ValueError, match=naming("responses:", "4", "1|g_sigma", "3")):
        vi.glmm.many("~ x + (1 | g)", table, y, key=jax.random.key(0), priors=priors)


def test_other_words_and_laws_are_refused():
    table = {"y": Z, "x": X}
    with pytest.raises(ValueError, match=naming("priors:", "flat", "wide")):
        vi.glmm("y ~ x", table, priors={"*": "wide"})
    with pytest.raises(ValueError, match=naming("priors:", "list", "flat")):
        vi.glmm("y ~ x", table, priors=["flat"])
    with pytest.raises(ValueError, match=naming("priors:", "x", "half_flat")):
        vi.glmm("y ~ x", table, priors={"x": ("half_flat",)})
    with pytest.raises(ValueError, match=naming("priors:", "x", "flat")):
        vi.glmm("y ~ x", table, priors={"x": ("flat", 1)})


# --- where its siblings are -----------------------------------------------------------------------
def test_many_responses_with_flat_priors():
    """Least squares; a response of zeros has no proper posterior, and says so."""
    y = np.column_stack([YES, np.zeros(N), YES[::-1]])
    fits = vi.glmm.many(
        "~ x", {"x": X}, y, key=jax.random.key(0), family="bernoulli", priors="flat"
    )
    assert [bool(text) for text in fits.obstacles] == [False, True, False]
    assert "improper" in fits.obstacles[1]
    one = vi.auto(fits.model(fits.responses[0]), key=jax.random.key(0)).summary()
    np.testing.assert_allclose(fits.mean[0], one.mean, atol=0.1 * one.sd.max())


def test_flat_priors_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [f"{a},{b},{c}" for a, b, c in zip(Z + X, X, np.arange(N) % 6, strict=True)]
    Path("d.csv").write_text("\n".join(["y,x,g", *rows]) + "\n")
    own = ["model.formula=y ~ x + (1 | g)", 'model.priors=["flat", "1|g_sigma: half_flat"]']
    arguments = ["fit", "glmm", "--data", "d.csv", "--out", "run"]
    assert main([*arguments, "--set", *own, "data.held_out=0", "model.num_draws=200"]) == 0
    assert "No prior moved" in capsys.readouterr().out
    run = vi.load("run")
    assert run.fit.alg.spec.model.queries["predict"].__self__.priors["x"] == ("flat",)
    assert main(["effects", "run", "--ask", "priors"]) == 0

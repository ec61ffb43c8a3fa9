"""Many responses on one design: estimates against closed forms, single fits and quadrature; rates
of false signs against the truth."""

import dataclasses
import pathlib
from contextlib import nullcontext

import jax
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from tests.naming import check_names, naming
from vijax.automatic.many.across import across, list_rates

KEY = jax.random.key(0)
RNG = np.random.default_rng(3)
GROUPS = np.arange(48) % 8
TABLE = {
    "x": RNG.normal(size=48),
    "h": np.array(list("ab"))[(np.arange(48) // 8) % 2],
    "g": GROUPS,
    "depth": np.exp(RNG.normal(size=48)),
}
IS_B = TABLE["h"] == "b"


def test_estimates_and_tails_are_those_of_the_t_law():
    """Under flat priors of coefficients and sigma the marginal posteriors are Student's, with N - p
    - 1 degrees of freedom (Gelman et al. 2013, Bayesian Data Analysis, section 14.2, for a density
    of sigma that is constant)."""
    x = np.stack([np.ones(48), TABLE["x"]], 1)
    sizes = np.linspace(0, 0.8, 9)
    y = 3 + sizes * TABLE["x"][:, None] + RNG.normal(size=(48, 9))
    wide = ("normal", 0, 1e5)
    priors = {"Intercept": wide, "x": wide, "sigma": ("half_normal", 1e5)}
    fits = vi.glmm.many("~ x", TABLE, y, key=KEY, priors=priors)
    beta, squares, *_ = np.linalg.lstsq(x, y, rcond=None)
    degrees = 48 - 3
    scale = np.sqrt(squares / degrees * np.linalg.inv(x.T @ x)[1, 1])
    law = stats.t(degrees, beta[1], scale)
    table = fits.table("x")
    assert np.abs(table.mean - beta[1]).max() < 0.02 * scale.min()
    np.testing.assert_allclose(table.sd, law.std(), rtol=0.03)
    np.testing.assert_allclose(table.low, law.ppf(0.05), atol=0.06 * scale.max())
    tail = np.minimum(law.cdf(0), law.sf(0))
    assert tail.min() < 1e-5
    np.testing.assert_allclose(np.log(table.tail), np.log(tail), rtol=0.08, atol=0.05)
    assert fits.usable.all()
    assert "9 of 9 fits can be used" in fits.verdict


def counts():
    effects = RNG.normal(size=(8, 3)) * 0.5
    eta = 1 + np.array([0.0, 0.7, -0.7]) * IS_B[:, None] + effects[GROUPS]
    return RNG.poisson(np.exp(eta) * TABLE["depth"][:, None]).astype(float)


@pytest.mark.slow
def test_estimates_with_groups_are_those_of_quadrature():
    """Over the intercept, the slope, log sd and each group's effect, in NumPy alone."""
    y = counts()[:, :1]
    fits = vi.glmm.many("~ h + (1 | g) + offset(log(depth))", TABLE, y, key=KEY, family="poisson")
    intercepts, slopes = np.linspace(-1, 3, 41), np.linspace(-0.6, 1.2, 31)
    log_sds, levels = np.linspace(-4, 1.5, 56), np.linspace(-3, 5, 401)
    a, log_sd = (x.ravel() for x in np.meshgrid(intercepts, log_sds, indexing="ij"))
    law_of_groups = stats.norm(a, np.exp(log_sd)).pdf(levels[:, None])
    log_post = np.zeros((len(slopes), len(a)))
    for group in range(8):
        log_lik = np.zeros((len(slopes), len(levels)))
        for is_b in (False, True):
            rows = (group == GROUPS) & (is_b == IS_B)
            eta = levels + slopes[:, None] * is_b
            log_lik += y[rows, 0].sum() * eta - TABLE["depth"][rows].sum() * np.exp(eta)
        log_post += np.log(np.exp(log_lik - log_lik.max()) @ law_of_groups + 1e-300)
    log_post = log_post.ravel()
    b, a, log_sd = np.repeat(slopes, len(a)), np.tile(a, 31), np.tile(log_sd, 31)
    priors = fits.model("0").priors
    centre = a + 0.5 * b
    log_post += stats.norm(*priors["Intercept"][1:]).logpdf(centre)
    log_post += stats.norm(*priors["h[b]"][1:]).logpdf(b)
    log_post += stats.halfnorm(0, priors["1|g_sigma"][1]).logpdf(np.exp(log_sd)) + log_sd
    weights = np.exp(log_post - log_post.max())
    weights /= weights.sum()
    for name, values in (("Intercept", a), ("h[b]", b), ("1|g_sigma", np.exp(log_sd))):
        k = fits.names.index(name)
        mean = weights @ values
        sd = np.sqrt(weights @ (values - mean) ** 2)
        assert abs(fits.mean[0, k] - mean) < 0.05 * sd, name
        assert abs(np.log(fits.sd[0, k] / sd)) < 0.06, name


@pytest.mark.slow
@pytest.mark.parametrize("formula", ["~ h + x + (x | g)", "~ s(x, k=5) + h"])
def test_estimates_are_those_of_single_fits(formula):
    """Single fits say that sds of few groups come out up to a fifth too small."""
    y = np.log1p(counts()) + RNG.normal(size=(48, 3))
    fits = vi.glmm.many(formula, TABLE, y, key=KEY)
    for i, name in enumerate(fits.responses):
        single = vi.auto(fits.model(name), key=KEY, richer=True).summary()
        for j, unknown in enumerate(single.names):
            k = fits.names.index(unknown)
            assert abs(fits.mean[i, k] - single.mean[j]) < 0.12 * single.sd[j], unknown
            assert abs(np.log(fits.sd[i, k] / single.sd[j])) < 0.22, unknown


@pytest.fixture(scope="module")
def gaps():
    y = IS_B[:, None] * np.array([1.0, 0.0]) + RNG.normal(size=(48, 2))
    y[5, 1] = y[17, 1] = np.nan
    return y


def test_a_missing_cell_leaves_its_row_out_of_one_response(gaps):
    fits = vi.glmm.many("~ h + (1 | g)", TABLE, {"a": gaps[:, 0], "b": gaps[:, 1]}, key=KEY)
    kept = ~np.isnan(gaps[:, 1])
    rows = {name: values[kept] for name, values in TABLE.items()}
    alone = vi.glmm.many("~ h + (1 | g)", rows, gaps[kept], key=KEY)
    np.testing.assert_allclose(fits.mean[1], alone.mean[1], rtol=1e-4, atol=1e-5)
    assert len(fits.model("b").data["y"]) == 8
    full = vi.glmm.many("~ h + (1 | g)", TABLE, gaps[:, :1], key=KEY)
    np.testing.assert_allclose(fits.mean[0], full.mean[0], rtol=1e-4, atol=1e-5)


def test_a_row_of_weight_two_is_two_rows(gaps):
    weights = 1.0 + (np.arange(48) < 10)
    copies = np.repeat(np.arange(48), weights.astype(int))
    rows = {name: values[copies] for name, values in TABLE.items()}
    y = gaps[:, :1]
    weighed = vi.glmm.many("~ h + (1 | g)", TABLE, y, key=KEY, weights=weights)
    written = vi.glmm.many("~ h + (1 | g)", rows, y[copies], key=KEY)
    np.testing.assert_allclose(weighed.mean, written.mean, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(weighed.sd, written.sd, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gaussian", "t"])
def test_precisions_are_those_of_a_regression_of_its_own(gaps, tmp_path: pathlib.Path, family):
    """Of each response, saved too, and beside rows of weight zero."""
    table = {**TABLE, "w": 0.3 + np.arange(48) % 5}
    options = {"key": KEY, "family": family, "weights": np.where(np.arange(48) == 5, 0.0, 1.0)}
    fits = vi.glmm.many("~ x + h", table, gaps, precisions="w", **options)
    plain = vi.glmm.many("~ x + h", table, gaps, **options)
    given = vi.glmm.many("~ x + h", TABLE, gaps, precisions=table["w"], **options)
    np.testing.assert_allclose(given.mean, fits.mean, rtol=1e-9)
    assert np.abs((plain.mean - fits.mean) / fits.sd).max() > 0.2
    place = fits.names.index("x")
    for r, name in enumerate(fits.responses[:2]):
        seen = ~np.isnan(gaps[:, r]) & (options["weights"] > 0)
        rows = {column: values[seen] for column, values in table.items()} | {"y": gaps[seen, r]}
        single = vi.glmm("y ~ x + h", rows, family, precisions="w")
        alone = vi.auto(single, key=KEY)
        draws = single.draws(alone, KEY, 4000).named["x"]
        np.testing.assert_allclose(fits.mean[r, place], draws.mean(), atol=0.15 * draws.std())
        np.testing.assert_allclose(fits.sd[r, place], draws.std(), rtol=0.1)
        if family == "gaussian":
            x = np.c_[np.ones(seen.sum()), rows["x"], rows["h"] == np.unique(TABLE["h"])[1]]
            curvature = x.T @ (rows["w"][:, None] * x)
            least = np.linalg.solve(curvature, x.T @ (rows["w"] * rows["y"]))
            assert abs(fits.mean[r, place] - least[1]) < 0.15 * fits.sd[r, place]
        own = fits.model(name)
        np.testing.assert_array_equal(own.design.facts["precision"], rows["w"])
    fits.save(tmp_path / "fits.npz")
    loaded = vi.glmm.many.load(tmp_path / "fits.npz", table, gaps)
    np.testing.assert_array_equal(loaded.precisions, table["w"])
    first, second = (one.model(fits.responses[1]) for one in (fits, loaded))
    assert second.design.precisions == "w"
    np.testing.assert_array_equal(first.design.facts["precision"], second.design.facts["precision"])


def test_precisions_that_cannot_be_are_refused(gaps):
    refused = [
        ({"precisions": np.zeros(48)}, ("precisions:", "0", "weights=")),
        ({"precisions": "nothing"}, ("precisions:", "'nothing'")),
        ({"precisions": np.ones(3)}, ("precisions:", "48", "(3,)")),
        ({"precisions": np.ones(48), "family": "gamma"}, ("precisions:", "'gamma'")),
    ]
    for options, names in refused:
        with pytest.raises(ValueError, match=naming(*names)):
            vi.glmm.many("~ x", TABLE, np.abs(gaps) + 0.1, key=KEY, **options)


@pytest.mark.slow
def test_a_row_of_weight_zero_is_as_one_that_is_not_there(gaps, tmp_path: pathlib.Path):
    """It has a level and a group of its own, and its x would move the mean of `scale(x)`."""
    table = {name: values.astype(object) for name, values in TABLE.items()}
    table["h"][0], table["g"][0], table["x"][0] = "c", 8, 1000.0
    y, weights = gaps.copy(), np.ones(48)
    y[0], weights[0], weights[10:14] = 500.0, 0.0, 2.0
    rows = {name: values[1:] for name, values in TABLE.items()}
    formula = "~ scale(x) + h + (1 | g)"
    weighed = vi.glmm.many(formula, table, y, key=KEY, weights=weights)
    without = vi.glmm.many(formula, rows, y[1:], key=KEY, weights=weights[1:])
    assert weighed.names == without.names
    np.testing.assert_allclose(weighed.mean, without.mean, rtol=1e-9)
    single = vi.glmm("y ~ scale(x) + h + (1 | g)", {**table, "y": y[:, 0]}, weights=weights)
    assert weighed.model("0").priors == single.priors

    weighed.save(tmp_path / "fits.npz")
    loaded = vi.glmm.many.load(tmp_path / "fits.npz", table)
    np.testing.assert_allclose(loaded.predictors(rows), without.predictors(rows), rtol=1e-9)
    with pytest.raises(ValueError, match="the 48 rows of training, got 47 rows"):
        vi.glmm.many.load(tmp_path / "fits.npz", rows)


def test_fits_are_saved_and_answer_for_new_rows(gaps, tmp_path: pathlib.Path):
    fits = vi.glmm.many("~ h + x + offset(depth)", TABLE, gaps[:, :1], key=KEY)
    path = tmp_path / "fits.npz"
    fits.save(path)
    loaded = vi.glmm.many.load(path, TABLE)
    for field in dataclasses.fields(fits):
        if field.name not in ("make_model", "read_columns"):
            assert np.array_equal(getattr(fits, field.name), getattr(loaded, field.name))
    assert repr(loaded.table("x")) == repr(fits.table("x"))
    new = {"h": ["b", "a"], "x": [0.3, -1.0], "depth": [0.0, 2.0]}
    x = np.array([[1, 1, 0.3], [1, 0, -1.0]])
    mean, sd = loaded.predictors(new)
    np.testing.assert_allclose(mean[0], x @ fits.mean[0, :3] + [0, 2])
    np.testing.assert_allclose(sd[0] ** 2, np.diag(x @ fits.covariance[0, :3, :3] @ x.T))
    with pytest.raises(ValueError, match="fits with their table"):
        vi.glmm.many.load(path).predictors(new)
    with pytest.raises(ValueError, match=r"load\(path, table, responses\)"):
        loaded.model("0")
    (tmp_path / "other.npz").write_bytes(b"")
    np.savez(tmp_path / "other.npz", y=np.zeros(2))
    with pytest.raises(ValueError, match="expected fits of"):
        vi.glmm.many.load(tmp_path / "other.npz")


def test_rates_of_false_signs_hold():
    """Of 3,000 coefficients two thirds are zero: a sign that is given to a zero is wrong."""
    truth = np.where(np.arange(3000) < 2000, 0.0, 1.5 * RNG.normal(size=3000))
    error = np.exp(0.5 * RNG.normal(size=3000))
    estimate = truth + error * RNG.normal(size=3000)
    law = across(estimate, error)
    listed = list_rates(law.false_sign)
    for rate in (0.05, 0.2):
        chosen = listed <= rate
        wrong = np.sign(estimate[chosen]) != np.sign(truth[chosen])
        assert chosen.sum() > 100
        assert wrong.mean() < rate + 3 * np.sqrt(rate / chosen.sum())
        assert wrong.mean() > 0.3 * rate  # a list that is far surer than it says is too short
    assert abs(law.zeros - 2 / 3) < 0.12
    # Shrunk estimates are nearer to the truth.
    assert ((law.mean - truth) ** 2).mean() < 0.7 * ((estimate - truth) ** 2).mean()


def test_the_posterior_under_the_common_law_is_that_of_a_sum():
    """Against a sum over a grid of coefficients, with the law as it was found."""
    estimate, error = RNG.normal(size=50) * 2, np.full(50, 0.7)
    law = across(estimate, error)
    grid = np.linspace(-12, 12, 24001)
    density = law.shares @ stats.norm.pdf(grid, 0, law.spreads[:, None])
    width = grid[1] - grid[0]
    for i in range(0, 50, 10):
        likelihood = stats.norm.pdf(estimate[i], grid, error[i])
        at_zero = law.zeros * stats.norm.pdf(estimate[i], 0, error[i])
        total = at_zero + width * (density * likelihood).sum()
        mean = width * (grid * density * likelihood).sum() / total
        below = width * ((density * likelihood)[grid < 0]).sum() / total
        above = width * ((density * likelihood)[grid > 0]).sum() / total
        assert abs(law.mean[i] - mean) < 2e-3
        assert abs(law.false_sign[i] - at_zero / total - min(below, above)) < 2e-3


def test_responses_without_a_fit_are_told(gaps):
    y = {"a": gaps[:, 0], "flat": np.ones(48), "none": np.full(48, np.nan), "x2": 2 * TABLE["x"]}
    fits = vi.glmm.many("~ x", TABLE, y, key=KEY)
    check_names(fits.verdict, "Not fitted:", "x2")
    assert "columns and groups give it exactly" in fits.response_verdict("x2")
    assert "can be used" in fits.response_verdict("a")
    assert np.isnan(fits.mean[1:]).all()
    assert fits.table("x").sure_signs(0.5)[:1] in (["a"], [])
    assert np.isnan(fits.table("x").columns()["of list"][-3:]).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"formula": "y ~ x"}, "without a response"),
        ({"responses": np.zeros((47, 2))}, r"an array \(48, R\)"),
        ({"responses": {"a": np.zeros(47)}}, "columns of 48 rows.*transpose"),
        ({"responses": {"a": ["u"] * 48}}, "numbers in 'a', got 'u'"),
        ({"responses": {"a": ["1.5", "2"] * 24}}, r"got text.*asarray\(responses\['a'\], float\)"),
        ({"weights": ["1", "2"] * 24}, "weights: expected numbers, got text"),
        ({"formula": "~ x + _response"}, "columns \\['x', 'h', 'g', 'depth'\\]"),
        ({"table": {**TABLE, "x": np.r_[np.nan, TABLE["x"][1:]]}}, 'missing="drop"'),
        ({"responses": np.full((48, 1), 1e300)}, r"up to 1e\+140.*got 1e\+300"),
        ({"responses": np.full((48, 1), np.inf)}, "infinite, of '0' in row 0"),
        ({"responses": np.full((48, 1), -1.0), "family": "poisson"}, "The response is 0"),
        ({"responses": np.ones((48, 1))}, "one that can be fitted, got none"),
        ({"family": "categorical"}, "family"),
        ({"priors": {"zz": ("normal", 0, 1)}}, "priors: expected one of"),
    ],
)
def test_wrong_inputs_are_named(change, said):
    given = {"formula": "~ x", "table": TABLE, "responses": RNG.normal(size=(48, 2)), "key": KEY}
    with pytest.raises(ValueError, match=said):
        vi.glmm.many(**{**given, **change})


def test_an_unknown_name_is_told(gaps):
    fits = vi.glmm.many("~ x", TABLE, gaps[:, :1], key=KEY)
    with pytest.raises(ValueError, match="name: expected a coefficient"):
        fits.table("sigma")
    with pytest.raises(ValueError, match="response: expected the name"):
        fits.model("zz")


@pytest.mark.parametrize(
    "name",
    ["0", *(pytest.param(n, marks=pytest.mark.slow) for n in ("response", "y", "_response"))],
)
def test_no_name_of_a_column_is_taken_by_a_response(gaps, name):
    plain = vi.glmm.many("~ x", {"x": TABLE["x"]}, gaps, key=KEY)
    column = {name: TABLE["x"]}
    fits = vi.glmm.many(f"~ `{name}`", column, gaps, key=KEY)
    np.testing.assert_array_equal(fits.mean, plain.mean)
    np.testing.assert_array_equal(fits.model("0").design.rows.x, plain.model("0").design.rows.x)
    np.testing.assert_array_equal(fits.model("0").design.y, gaps[:, 0])


@pytest.mark.parametrize(
    "formula",
    [
        pytest.param("~ scale(x) + h + (1 | g)", marks=pytest.mark.slow),
        "~ bs(x, df=4)",
        pytest.param("~ s(x, k=4)", marks=pytest.mark.slow),
    ],
)
def test_the_model_of_a_response_has_the_design_of_all(formula):
    """The response lacks the upper half of x, one group and one level."""
    order = np.argsort(TABLE["x"])
    table = {name: values[order] for name, values in TABLE.items()}
    table["h"] = np.where(np.arange(48) < 40, "a", "b")
    y = RNG.normal(size=(48, 1))
    y[(np.arange(48) >= 30) | (table["g"] == 7)] = np.nan
    full = vi.glmm.many(formula, table, RNG.normal(size=(48, 1)), key=KEY).model("0").design
    fits = vi.glmm.many(formula, table, y, key=KEY)
    with pytest.warns(UserWarning, match="constant") if "h" in formula else nullcontext():
        design = fits.model("0").design
    has_cell = ~np.isnan(y[:, 0])
    np.testing.assert_array_equal(design.rows.common, full.rows.common[has_cell])
    assert design.labels == full.labels
    assert [factor.levels for factor in design.factors] == [f.levels for f in full.factors]


@pytest.mark.slow
def test_fits_of_the_model_of_a_response_are_those_of_many():
    """It lacks cells of x above its mean, and a group; its answers name the level it lacks."""
    y = 1 + TABLE["x"] + 0.3 * RNG.normal(size=48)
    is_known = (TABLE["x"] < 0.5) & (TABLE["g"] != 7)
    table = {**TABLE, "h": np.where(TABLE["g"] == 7, "b", "a")}
    responses = np.where(is_known, y, np.nan)[:, None]
    fits = vi.glmm.many("~ scale(x) + h + (1 | g)", table, responses, key=KEY)
    with pytest.warns(UserWarning, match="constant"):
        model = fits.model("0")
    alone = vi.auto(model, key=KEY)
    summary = alone.summary()
    for j, name in enumerate(summary.names[:2]):
        k = fits.names.index(name)
        assert abs(fits.mean[0, k] - summary.mean[j]) < 0.12 * fits.sd[0, k], name
    answers = model.predictions(alone, key=KEY, newdata="balanced")
    assert answers.labels["h"].tolist() == ["a", "b"]
    sds = dict(zip(answers.labels["h"].tolist(), answers.sd.tolist(), strict=True))
    assert sds["b"] > 2 * sds["a"]  # only its prior tells the level that the response lacks


def test_only_the_table_of_training_is_taken(gaps, tmp_path: pathlib.Path):
    """Written as text too: numbers as text, groups as numbers."""
    y = {"a": gaps[:, 0], "b": gaps[:, 1]}
    priors = {"x": ("normal", 0, 2)}
    fits = vi.glmm.many("~ x + h + (1 | g)", TABLE, y, key=KEY, priors=priors)
    path = tmp_path / "fits.npz"
    fits.save(path)
    for name, other in (("x", TABLE["x"] * 10 + 5), ("g", GROUPS + 1), ("h", TABLE["h"][::-1])):
        with pytest.raises(ValueError, match=rf"other cells in \['{name}'\]"):
            vi.glmm.many.load(path, {**TABLE, name: other})
    with pytest.raises(ValueError, match="the responses of training"):
        vi.glmm.many.load(path, TABLE, {"a": gaps[:, 0], "b": gaps[:, 0]})
    with pytest.raises(ValueError, match="the responses of training"):
        vi.glmm.many.load(path, TABLE, {"b": gaps[:, 0], "a": gaps[:, 1]})
    with pytest.raises(ValueError, match="table: expected the table of training"):
        vi.glmm.many.load(path, None, y)
    written = tmp_path / "table.csv"
    lines = [
        f"{x!r},{h},{g}" for x, h, g in zip(TABLE["x"].tolist(), TABLE["h"], GROUPS, strict=True)
    ]
    written.write_text("\n".join(["x,h,g", *lines]))
    loaded = vi.glmm.many.load(path, str(written), y)
    model, same = loaded.model("b"), fits.model("b")
    assert model.priors == same.priors
    assert model.priors["x"] == ("normal", 0.0, 2.0)
    np.testing.assert_array_equal(model.design.rows.x, same.design.rows.x)


@pytest.fixture(scope="module")
def saved(gaps, tmp_path_factory):
    path = tmp_path_factory.mktemp("many") / "fits.npz"
    vi.glmm.many("~ x + (1 | g)", TABLE, gaps, key=KEY).save(path)
    return path


ARRAYS = (
    *("mean", "sd", "low", "high", "below", "above", "covariance", "khat", "effective"),
    *("responses", "names", "coefficients", "obstacles"),
)


@pytest.mark.parametrize("name", ARRAYS)
def test_a_file_that_was_cut_is_refused(saved, tmp_path: pathlib.Path, name):
    with np.load(saved) as arrays:
        contents = {key: arrays[key] for key in arrays.files}
    changed = [contents[name][:-1], contents[name][..., None], contents[name].astype(object)]
    if contents[name].ndim > 1:
        changed.append(contents[name][:, :-1])
    if name == "coefficients":
        changed = [np.array(["Intercept", "z"]), contents[name][:, None]]
    for array in [*changed, None]:
        other = {key: value for key, value in contents.items() if key != name}
        if array is not None:
            other[name] = array
        np.savez(tmp_path / "cut.npz", **other)
        with pytest.raises(ValueError, match=r"path: expected fits of vijax\.glmm\.many"):
            vi.glmm.many.load(tmp_path / "cut.npz")


@pytest.mark.parametrize(
    "change", [b"", b"{", b'{"format": "vijax many 2"}', b'{"format": "vijax many 4"}', b"[1]"]
)
def test_a_file_of_another_version_is_refused(saved, tmp_path: pathlib.Path, change):
    with np.load(saved) as arrays:
        contents = {key: arrays[key] for key in arrays.files}
    np.savez(tmp_path / "o.npz", **contents | {"about": np.array(change.decode())})
    with pytest.raises(ValueError, match=r"path: expected fits of vijax\.glmm\.many"):
        vi.glmm.many.load(tmp_path / "o.npz")
    (tmp_path / "cut.npz").write_bytes(saved.read_bytes()[:-900])
    with pytest.raises(ValueError, match=r"path: expected fits of vijax\.glmm\.many"):
        vi.glmm.many.load(tmp_path / "cut.npz")


@pytest.mark.slow
def test_rows_that_lack_a_cell_are_left_out_on_request(gaps, tmp_path: pathlib.Path):
    table = {name: values.astype(object) for name, values in TABLE.items()}
    table["x"][3], table["h"][20] = None, None
    weights = np.where(np.arange(48) < 20, 2.0, 1.0)
    table["w"] = weights.astype(object)
    table["w"][30] = None
    kept = np.setdiff1d(np.arange(48), [3, 20, 30])
    rows = {name: values[kept] for name, values in table.items()}
    with pytest.warns(UserWarning, match="3 of 48 rows lack a cell.*'x' 1, 'h' 1, 'w' 1"):
        fits = vi.glmm.many("~ scale(x) + h", table, gaps, key=KEY, missing="drop", weights="w")
    whole = vi.glmm.many("~ scale(x) + h", rows, gaps[kept], key=KEY, weights="w")
    np.testing.assert_allclose(fits.mean, whole.mean, rtol=1e-9)
    assert "3 of 48 rows" in fits.verdict
    fits.save(tmp_path / "fits.npz")
    loaded = vi.glmm.many.load(tmp_path / "fits.npz", table, gaps)
    assert loaded.left_out == fits.left_out
    assert loaded.model("1").priors == fits.model("1").priors
    np.testing.assert_allclose(loaded.predictors(rows), whole.predictors(rows), rtol=1e-9)


def test_masked_cells_are_missing(gaps):
    """The number beneath a mask is far from the others."""
    is_masked = np.isnan(gaps)
    masked = np.ma.masked_array(np.where(is_masked, 1e6, gaps), is_masked)
    fits = vi.glmm.many("~ x", TABLE, masked, key=KEY)
    plain = vi.glmm.many("~ x", TABLE, gaps, key=KEY)
    np.testing.assert_array_equal(fits.mean, plain.mean)


def test_new_rows_are_read_by_the_columns_of_training(gaps):
    """Text that says numbers is numbers there, as from a file; other text is refused."""
    fits = vi.glmm.many("~ x", TABLE, gaps, key=KEY)
    numbers = fits.predictors({"x": [1.5]})
    np.testing.assert_array_equal(fits.predictors({"x": ["1.5"]}), numbers)
    with pytest.raises(ValueError, match=naming("table:", "'high'", "'x'")):
        fits.predictors({"x": ["high"]})

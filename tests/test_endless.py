"""Improper densities under rows of steps: the bound grows without limit, and the fit says along what."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import vijax as vi
from vijax.automatic.endless import _target, runs_away
from vijax.batch import Minibatch
from vijax.loader import ArrayLoader

KEY = jax.random.key(0)
NAMES = {"x": vi.free(), "y": vi.free()}
ROWS = {"advi": 2000, "bbvi": 2000, "ngvi": 400}
SEPARABLE = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)


def fitted(row, density, data=None, variables=NAMES, **parts):
    model = vi.density(variables, density, **parts)
    return vi.fit(getattr(vi, row)(model), data, num_steps=ROWS[row], key=KEY, throw=False)


@pytest.mark.parametrize("row", ROWS)
def test_a_variable_without_a_prior_is_named(row):
    fit = fitted(row, lambda v: norm.logpdf(v["y"]) + 0.0 * v["x"])
    assert fit.status is vi.Status.UNBOUNDED
    assert not fit.report.usable
    assert fit.verdict.startswith("Do not use this fit: the bound grows without limit along x. ")


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize(
    "prior",
    [
        lambda x: -0.5 * (x / 1e9) ** 2,
        lambda x: -jnp.log1p((x / 1e3 - 1) ** 2),
        lambda x: norm.logpdf(x, 40.0, 0.1),
        lambda x: -jnp.abs(x) / 1e4,
    ],
)
def test_a_wide_or_a_distant_prior_is_proper(row, prior):
    fit = fitted(row, lambda v: norm.logpdf(v["y"]) + prior(v["x"]))
    assert fit.status is vi.Status.FINISHED
    assert fit.report is None


def test_it_is_an_error_unless_asked_for():
    model = vi.density(NAMES, lambda v: norm.logpdf(v["y"]) + 0.0 * v["x"])
    with pytest.raises(vi.DivergedError, match=r"grows without limit along x.*proper prior") as error:
        vi.fit(vi.ngvi(model), num_steps=400, key=KEY)
    assert error.value.fit.status is vi.Status.UNBOUNDED


def test_what_no_coordinate_shows():
    """Only the sum is known; labels that a line separates, whose weights go on for ever."""
    assert fitted("ngvi", lambda v: norm.logpdf(v["x"] + v["y"])).status is vi.Status.UNBOUNDED
    lik = lambda v, row: row[1] * (row[0] @ v["w"]) - jax.nn.softplus(row[0] @ v["w"])
    data = (SEPARABLE, (SEPARABLE[:, 0] > 0).astype(np.float32))
    parts = {"log_lik": lik, "variables": {"w": vi.free(2)}, "data": data}
    assert fitted("ngvi", None, log_prior=lambda v: 0.0 * v["w"][0], **parts).status is vi.Status.UNBOUNDED
    prior = lambda v: norm.logpdf(v["w"], 0, 100.0).sum()
    assert fitted("ngvi", None, log_prior=prior, **parts).status is vi.Status.FINISHED


def test_a_sum_of_a_wide_prior_is_proper():
    wide = lambda v: norm.logpdf(v["x"] + v["y"]) + norm.logpdf(v["x"], 0, 1e4)
    assert fitted("ngvi", wide).status is vi.Status.FINISHED


def test_a_bound_that_is_infinite_is_no_limit():
    assert fitted("ngvi", lambda v: v["x"] ** 2 + norm.logpdf(v["y"])).status is vi.Status.UNBOUNDED


# --- free variables in an energy ------------------------------------------------------------------------------------
Y = np.random.default_rng(1).normal(1.0, 2.0, 60).astype(np.float32)
GAMMA = vi.Gamma.from_shape_rate(1.0, 1.0)


def energy_of(**free):
    """Normal data about a free mean, with a precision that has a conjugate prior."""
    energy = lambda s, y: 0.5 * (s["precision"].log - s["precision"].value * (y - s["mean"]) ** 2)
    return vi.energy_model(globals={**free, "precision": GAMMA}, energy=energy, example=0.0)


def of_energy(model, data=Y, **more):
    return vi.fit(vi.svi(model), data, num_steps=800, key=KEY, throw=False, **more)


@pytest.mark.parametrize("more", [{}, {"batch_size": 10}, {"restarts": 3}], ids=str)
def test_a_free_variable_of_an_energy_without_a_prior_is_named(more):
    fit = of_energy(energy_of(mean=vi.free(), idle=vi.free()), **more)
    assert fit.status is vi.Status.UNBOUNDED
    assert "grows without limit along idle. " in fit.verdict


def test_one_that_the_data_or_a_wide_prior_know_is_proper():
    wide = vi.free(log_prior=lambda x: -0.5 * (x / 1e6) ** 2)
    fit = of_energy(energy_of(mean=vi.free(), idle=wide))
    assert fit.status is vi.Status.FINISHED
    far = of_energy(energy_of(mean=vi.free()), Y + 500.0)
    assert far.status is vi.Status.FINISHED
    np.testing.assert_allclose(far.posterior["free"].mean(), [Y.mean() + 500], atol=0.5)


def test_locals_of_an_energy_are_found_anew_on_the_way():
    """Two clusters: a shift of both means that their conjugate priors do not know, and one that they do."""
    normal = vi.Normal.from_mean_variance(np.zeros(2), 100.0)
    data = np.concatenate([Y - 20.0, Y + 20.0])
    for shift, status in ((vi.free(), vi.Status.FINISHED), (vi.free(2), vi.Status.UNBOUNDED)):

        def energy(s, y):
            by = jnp.sum(jnp.atleast_1d(s["shift"])[:1])
            logits = -0.125 * ((y - by) ** 2 - 2 * (y - by) * s["mu"].value + s["mu"].square)
            return jnp.sum(s["z"].one_hot * (logits - np.log(2)))

        model = vi.energy_model(
            globals={"shift": shift, "mu": normal},
            locals={"z": vi.Categorical.from_probs(np.full(2, 0.5))},
            energy=energy,
            example=0.0,
        )
        assert of_energy(model, data).status is status


def test_auto_says_so_of_an_energy():
    fit = vi.auto(energy_of(mean=vi.free(), idle=vi.free()), Y, key=KEY)
    assert fit.status is vi.Status.UNBOUNDED
    assert fit.verdict.startswith("Do not use this fit: the bound grows without limit along idle. ")
    assert "restart_elbo" not in fit.trace


# --- minibatches ------------------------------------------------------------------------------------------------------
def balanced(surplus):
    """A prior that grows by as much curvature as the 61 rows take back, but for the surplus: proper where that is below
    zero, by all of the rows alone."""
    lik = lambda v, y: -0.5 * (v["x"] - y) ** 2
    return vi.density({"x": vi.free()}, log_prior=lambda v: 0.5 * (61 + surplus) * v["x"] ** 2, log_lik=lik)


ROWS_61 = np.zeros(61, np.float32)


@pytest.mark.parametrize("surplus", [-1.0, 1.0])
@pytest.mark.parametrize("size", [61, 31, 20, 9, 1])
def test_of_a_minibatch_the_groups_count_as_all_of_them(size, surplus):
    """Every batch of a pass, padded or not, tells what all rows tell."""
    model, q = balanced(surplus), vi.guides.full_rank().at(jnp.full(1, 300.0), 20.0)
    for batch in ArrayLoader(ROWS_61, size, seed=0).batches(0, -(-61 // size)):
        names = runs_away(model, {}, q, batch, KEY)
        assert names == (["x"] if surplus > 0 else []), (size, batch.weights)


@pytest.mark.parametrize("weights", [None, [1, 1, 1, 0, 0], [0, 1, 0, 1, 1]])
@pytest.mark.parametrize("num_groups", [None, 61.0])
def test_padding_of_a_batch_is_no_group_and_its_numbers_are_not_read(weights, num_groups):
    """The total at any place is the prior and N / S times what the groups add; without N they are all there is."""
    rows = np.arange(5, dtype=np.float32)
    seen = rows if weights is None else np.where(weights, rows, 1e30)
    batch = Minibatch(seen, num_groups, None if weights is None else np.float32(weights))
    kept = rows[np.array(weights or [1] * 5, bool)]
    places = np.array([[0.0], [2.0], [-7.0]])
    liks = -0.5 * (places - kept) ** 2
    scale = 1.0 if num_groups is None else num_groups / len(kept)
    expected = 30.5 * places[:, 0] ** 2 + scale * liks.sum(1)
    np.testing.assert_allclose(_target(balanced(0.0), batch).values(places), expected, rtol=1e-5)

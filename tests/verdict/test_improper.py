"""Improper densities: a verdict, and of fits by steps an error, that names the variables."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import vijax as vi
from tests.programs import compiled
from vijax.contract.batch import Minibatch
from vijax.data.loader import ArrayLoader
from vijax.verdict.improper import ASKED, batch_target, growing_variables

KEY = jax.random.key(0)
NAMES = {"x": vi.free(), "y": vi.free()}
ROWS = {"advi": 2000, "bbvi": 2000, "ngvi": 400}
SEPARABLE = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)
UNBOUNDED, FINISHED = vi.Status.UNBOUNDED, vi.Status.FINISHED
# by name, and how fits of them end: most are of a standard normal y, and an x beside it
DENSITIES = {
    "no prior": (lambda v: norm.logpdf(v["y"]) + 0.0 * v["x"], UNBOUNDED),
    "wide": (lambda v: norm.logpdf(v["y"]) - 0.5 * (v["x"] / 1e9) ** 2, FINISHED),
    "heavy tails": (lambda v: norm.logpdf(v["y"]) - jnp.log1p((v["x"] / 1e3 - 1) ** 2), FINISHED),
    "far away": (lambda v: norm.logpdf(v["y"]) + norm.logpdf(v["x"], 40.0, 0.1), FINISHED),
    "two exponentials": (lambda v: norm.logpdf(v["y"]) - jnp.abs(v["x"]) / 1e4, FINISHED),
    "a sum": (lambda v: norm.logpdf(v["x"] + v["y"]), UNBOUNDED),
    "a sum, and a wide prior": (
        lambda v: norm.logpdf(v["x"] + v["y"]) + norm.logpdf(v["x"], 0, 1e4),
        FINISHED,
    ),
    "infinite": (lambda v: v["x"] ** 2 + norm.logpdf(v["y"]), UNBOUNDED),
}
ALONE = ["no prior", "wide", "heavy tails", "far away", "two exponentials"]
"""Those that every row is asked of."""


@functools.cache
def algorithm(row):
    """Of the density whose number is the data: so all share a program."""
    which = lambda v, number: jax.lax.switch(
        number, [density for density, _ in DENSITIES.values()], v
    )
    return getattr(vi, row)(vi.density(NAMES, which))


@pytest.mark.parametrize(
    ("row", "name"),
    [(row, name) for row in ROWS for name in (DENSITIES if row == "ngvi" else ALONE)],
)
def test_of_an_improper_density_it_is_said_and_of_no_other(row, name):
    number = np.int32(list(DENSITIES).index(name))
    fit = vi.fit(algorithm(row), number, num_steps=ROWS[row], key=KEY, throw=False)
    assert fit.status is DENSITIES[name][1]
    assert (fit.report is None) == (fit.status is FINISHED)
    assert fit.report is None or not fit.report.usable
    if name == "no prior":
        assert fit.verdict.startswith(
            "Do not use this fit: the bound grows without limit along x. "
        )


def test_it_is_an_error_unless_asked_for():
    with pytest.raises(
        vi.DivergedError, match=r"grows without limit along x.*proper prior"
    ) as error:
        vi.fit(
            algorithm("ngvi"),
            np.int32(list(DENSITIES).index("no prior")),
            num_steps=ROWS["ngvi"],
            key=KEY,
        )
    assert error.value.fit.status is UNBOUNDED


def test_labels_that_a_line_separates():
    """Their weights go on for ever, but for a prior."""
    lik = lambda v, row: row[1] * (row[0] @ v["w"]) - jax.nn.softplus(row[0] @ v["w"])
    data = (SEPARABLE, (SEPARABLE[:, 0] > 0).astype(np.float32))
    flat, wide = lambda v: 0.0 * v["w"][0], lambda v: norm.logpdf(v["w"], 0, 100.0).sum()
    for prior, status in ((flat, UNBOUNDED), (wide, FINISHED)):
        model = vi.density({"w": vi.free(2)}, log_prior=prior, log_lik=lik)
        assert vi.fit(vi.ngvi(model), data, num_steps=400, key=KEY, throw=False).status is status


# --- free variables in an energy ------------------------------------------------------------------
Y = np.random.default_rng(1).normal(1.0, 2.0, 60).astype(np.float32)
GAMMA = vi.Gamma.from_shape_rate(1.0, 1.0)


FREE, WIDE = vi.free(), vi.free(log_prior=lambda x: -0.5 * (x / 1e6) ** 2)


@functools.cache
def of_energy(idle=FREE):
    """Normal data about a free mean, with a precision that has a conjugate prior; beside them what
    no datum knows."""
    energy = lambda s, y: 0.5 * (s["precision"].log - s["precision"].value * (y - s["mean"]) ** 2)
    return vi.energy_model(
        globals={"mean": vi.free(), "idle": idle, "precision": GAMMA}, energy=energy, example=0.0
    )


@functools.cache
def by_svi(idle=FREE):
    return vi.svi(of_energy(idle))


def fitted(alg, data=Y, **more):
    return vi.fit(alg, data, num_steps=800, key=KEY, throw=False, **more)


@pytest.mark.parametrize("more", [{}, {"batch_size": 10}, {"restarts": 3}], ids=str)
def test_a_free_variable_of_an_energy_without_a_prior_is_named(more):
    fit = fitted(by_svi(), **more)
    assert fit.status is UNBOUNDED
    assert "grows without limit along idle. " in fit.verdict


def test_another_fit_of_an_energy_compiles_nothing():
    """Whether it runs away is asked by the programs of the first."""
    fits, counts = [], []
    for data in (Y, Y + 1, Y):
        fits.append(fitted(vi.svi(of_energy()), data))
        counts.append(compiled())
    assert counts[1] == counts[2] == counts[0] > 0
    assert [fit.status for fit in fits] == [UNBOUNDED] * 3
    means = [fit.posterior["free"].mean()[1] for fit in fits]
    np.testing.assert_allclose(np.diff(means), [1, -1], atol=0.1)


def test_one_that_the_data_or_a_wide_prior_know_is_proper():
    for offset in (0.0, 500.0):  # of the mean, which comes after "idle"
        fit = fitted(by_svi(WIDE), Y + np.float32(offset))
        assert fit.status is FINISHED
        np.testing.assert_allclose(fit.posterior["free"].mean()[1], Y.mean() + offset, atol=0.5)


def test_locals_of_an_energy_are_found_anew_on_the_way():
    """Two clusters, and a shift of both means that their conjugate priors know; beside it a number
    that nothing knows, unless every row says a little of it."""

    def energy(s, row):
        y, (by, idle) = row[0], s["shift"]
        logits = -0.125 * ((y - by) ** 2 - 2 * (y - by) * s["mu"].value + s["mu"].square)
        return jnp.sum(s["z"].one_hot * (logits - np.log(2))) - 0.5 * row[1] * idle**2

    model = vi.energy_model(
        globals={"shift": vi.free(2), "mu": vi.Normal.from_mean_variance(np.zeros(2), 100.0)},
        locals={"z": vi.Categorical.from_probs(np.full(2, 0.5))},
        energy=energy,
        example=np.zeros(2),
    )
    y, alg = np.concatenate([Y - 20, Y + 20]), vi.svi(model)
    for known, status in ((1e-6, FINISHED), (0.0, UNBOUNDED)):
        assert fitted(alg, np.stack([y, np.full_like(y, known)], 1)).status is status


def test_auto_says_so_of_an_energy():
    fit = vi.auto(of_energy(), Y, key=KEY)
    assert fit.status is UNBOUNDED
    assert fit.verdict.startswith("Do not use this fit: the bound grows without limit along idle. ")
    assert "restart_elbo" not in fit.trace


# --- minibatches ----------------------------------------------------------------------------------
@functools.cache
def balanced(surplus):
    """A prior that grows by as much curvature as the 61 rows take back, but for the surplus: proper
    where that is below zero, by all of the rows alone."""
    lik = lambda v, y: -0.5 * (v["x"] - y) ** 2
    return vi.density(
        {"x": vi.free()}, log_prior=lambda v: 0.5 * (61 + surplus) * v["x"] ** 2, log_lik=lik
    )


ROWS_61 = np.zeros(61, np.float32)


@pytest.mark.parametrize("surplus", [-1.0, 1.0])
@pytest.mark.parametrize("size", [61, 20, 1])
def test_of_a_minibatch_the_groups_count_as_all_of_them(size, surplus):
    """Every batch of a pass, padded or not, tells what all rows tell."""
    model, q = balanced(surplus), vi.guides.full_rank().member(jnp.full(1, 300.0), 20.0)
    x = q.sample(KEY, (ASKED,))
    for batch in ArrayLoader(ROWS_61, size, seed=0).batches(0, -(-61 // size)):
        names = growing_variables(model.free, x, batch)
        assert names == (["x"] if surplus > 0 else []), (size, batch.weights)


@pytest.mark.parametrize("weights", [None, [1, 1, 1, 0, 0], [0, 1, 0, 1, 1]])
@pytest.mark.parametrize("num_groups", [None, 61.0])
def test_padding_of_a_batch_is_no_group_and_its_numbers_are_not_read(weights, num_groups):
    """The total at any place is the prior and N / S times what the groups add; without N they are
    all there is."""
    rows = np.arange(5, dtype=np.float32)
    seen = rows if weights is None else np.where(weights, rows, 1e30)
    batch = Minibatch(seen, num_groups, None if weights is None else np.float32(weights))
    kept = rows[np.array(weights or [1] * 5, bool)]
    places = np.array([[0.0], [2.0], [-7.0]])
    liks = -0.5 * (places - kept) ** 2
    scale = 1.0 if num_groups is None else num_groups / len(kept)
    expected = 30.5 * places[:, 0] ** 2 + scale * liks.sum(1)
    np.testing.assert_allclose(
        batch_target(balanced(0.0).free, batch).values(places), expected, rtol=1e-5
    )


# --- by vijax.auto and vijax.dadvi ----------------------------------------------------------------
SEVERAL = {"x": vi.free(), "y": vi.free(3)}
METHODS = {"auto": vi.auto, "dadvi": vi.dadvi}


def proper(v):
    return norm.logpdf(v["x"]) + norm.logpdf(v["y"]).sum()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "density",
    [lambda v: norm.logpdf(v["x"]), lambda v: proper(v) + v["x"] ** 2],
    ids=["flat", "growing"],
)
def test_an_improper_one_must_not_be_used(method, density):
    fit = METHODS[method](vi.density(SEVERAL, density), key=KEY)
    assert fit.verdict.startswith("Do not use this fit: the bound grows without limit")
    assert not fit.report.usable
    assert fit.status is not vi.Status.CONVERGED


def test_proper_ones_are_not_taken_for_such():
    """A gradient that is zero at some starts, or a part that is no number at some, is none of
    this."""
    kinked = lambda v: proper(v) - jax.nn.relu(v["x"]) - jnp.where(v["x"] > 1.9, jnp.nan, 0.0) * 0.0
    for density in (
        lambda v: proper(v) - jax.nn.relu(v["x"]),
        kinked,
        lambda v: 1e6 + 1e4 * proper(v),
    ):
        assert vi.auto(vi.density(SEVERAL, density), key=KEY).report.usable

"""Joint draws of discrete sites against the probabilities of all their values."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

import vijax as vi
from tests.adapters.test_numpyro_discrete import CASES, POINT, Y, mixture, normals
from tests.naming import naming
from vijax.adapters.discrete.joint_draws import draw_sites, turns_of_sites
from vijax.adapters.numpyro_handlers import longest_history

numpyro = pytest.importorskip("numpyro")
pytest.importorskip("funsor", reason="needs funsor: pip install funsor")
scan = pytest.importorskip("numpyro.contrib.control_flow").scan
dist = numpyro.distributions
DRAWS = 4000


def draws_at(model, point):
    """Many draws of the discrete sites at one value of the continuous ones."""
    enumeration = vi.from_numpyro(model).queries["discrete draws"].args[0]
    values = {name: jnp.asarray(point[name], float) for name in enumeration.sample_names}
    keys = jax.random.split(jax.random.key(0), DRAWS)
    draw = lambda key: draw_sites(enumeration, values, key)
    return enumeration, jax.tree.map(np.asarray, jax.jit(jax.vmap(draw))(keys))


def check_frequencies(draws, log_joint, shape, count):
    """Chi square over all joint values; it fails by chance once in a million."""
    size = int(np.prod(shape))
    places = np.array(list(itertools.product(range(count), repeat=size))).reshape(-1, *shape)
    log_p = np.asarray(jax.vmap(log_joint)(jnp.asarray(places)), np.float64)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    codes = draws.reshape(DRAWS, -1).astype(int) @ count ** np.arange(size)[::-1]
    seen = np.bincount(codes, minlength=len(p))
    is_large = DRAWS * p > 5
    expected = np.append(DRAWS * p[is_large], max(DRAWS * p[~is_large].sum(), 1e-9))
    found = np.append(seen[is_large], seen[~is_large].sum())
    assert found[-1] <= expected[-1] + 6 * np.sqrt(expected[-1]) + 6
    terms = (found[:-1] - expected[:-1]) ** 2 / expected[:-1]
    assert terms.sum() < chi2(is_large.sum()).ppf(1 - 1e-6)


def sticky():
    """A chain whose steps depend strongly on each other."""
    means = normals("means", 2)

    def step(last, y):
        z = numpyro.sample("z", dist.Bernoulli(jnp.where(last == 1, 0.9, 0.1)))
        numpyro.sample("y", dist.Normal(means[z], 3.0), obs=y)
        return z, None

    scan(step, 0, Y)


def sticky_joint(z):
    last = jnp.concatenate([jnp.zeros(1, int), z[:-1]])
    moves = jnp.log(jnp.where(z == last, 0.9, 0.1))
    return (moves - 0.5 * ((Y - POINT["means"][z]) / 3) ** 2).sum()


def test_steps_of_a_chain_are_drawn_given_each_other():
    _, draws = draws_at(sticky, POINT)
    check_frequencies(draws["z"], sticky_joint, (5,), 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_joint_draws_have_the_probabilities_of_all_values(name):
    model, joint, shape, count = CASES[name]
    _, draws = draws_at(model, POINT)
    z = draws["z"] if name != "loop" else np.stack([draws[f"z{i}"] for i in range(5)], -1)
    z = z - 3 * (name == "from three")
    check_frequencies(z, lambda places: joint(POINT, places), shape, count)
    if name == "mixture":
        np.testing.assert_allclose(draws["centre"], np.asarray(POINT["means"])[z])


def longer(history=2):
    """A chain whose state depends on the two before it."""
    means = normals("means", 2)

    def step(carry, y):
        before, last = carry
        chance = jnp.where(before == last, 0.85, 0.3)
        z = numpyro.sample("z", dist.Bernoulli(jnp.where(last == 1, chance, 1 - chance)))
        numpyro.sample("y", dist.Normal(means[z], 1.0), obs=y)
        return (last, z), None

    scan(step, (0, 0), Y, history=history)


def longer_joint(z):
    last = jnp.concatenate([jnp.zeros(1, int), z[:-1]])
    before = jnp.concatenate([jnp.zeros(2, int), z[:-2]])
    chance = jnp.where(before == last, 0.85, 0.3)
    chance = jnp.where(last == 1, chance, 1 - chance)
    rows = -0.5 * (Y - POINT["means"][z]) ** 2
    return (jnp.log(jnp.where(z == 1, chance, 1 - chance)) + rows).sum()


@pytest.mark.slow
def test_steps_of_a_longer_history_are_drawn_one_by_one():
    enumeration, draws = draws_at(longer, POINT)
    assert longest_history(longer) == 2
    assert turns_of_sites(enumeration)["z"].sum(1).tolist() == [1] * 5
    check_frequencies(draws["z"], longer_joint, (5,), 2)


@pytest.mark.slow
def test_a_class_of_all_rows_is_drawn_before_the_rows():
    def story():
        means = normals("means", 2)
        with numpyro.plate("rows", 5):
            z = numpyro.sample("z", dist.Bernoulli(0.4))
        kind = numpyro.sample("kind", dist.Bernoulli(0.3))
        with numpyro.plate("rows", 5):
            numpyro.sample("y", dist.Normal(means[z] * (1 + kind), 1.0), obs=Y)

    _, draws = draws_at(story, POINT)

    def joint(places):
        kind, z = places[0], places[1:]
        rows = -0.5 * (Y - POINT["means"][z] * (1 + kind)) ** 2
        rows = rows + jnp.log(jnp.where(z == 1, 0.4, 0.6))
        return rows.sum() + jnp.log(jnp.where(kind == 1, 0.3, 0.7))

    check_frequencies(np.c_[draws["kind"], draws["z"]], joint, (6,), 2)


def test_draws_of_a_fit_have_all_sites():
    fit = vi.fit(vi.ngvi(vi.from_numpyro(mixture)), key=jax.random.key(0), num_steps=30)
    assert "vijax.adapters.sample_discrete(fit, key)" in fit.verdict
    draws = vi.adapters.sample_discrete(fit, jax.random.key(1), 100)
    assert sorted(draws) == ["centre", "distance", "means", "share", "z"]
    rows = np.arange(100)[:, None]
    np.testing.assert_array_equal(draws["centre"], draws["means"][rows, draws["z"].astype(int)])
    again = vi.adapters.sample_discrete(fit, jax.random.key(1), 100)
    np.testing.assert_array_equal(draws["z"], again["z"])
    with pytest.raises(ValueError, match=naming("num_draws:")):
        vi.adapters.sample_discrete(fit, jax.random.key(1), 0)
    plain = vi.fit(
        vi.ngvi(vi.density({"x": vi.free()}, lambda v: -(v["x"] ** 2))),
        key=jax.random.key(0),
        num_steps=2,
    )
    with pytest.raises(ValueError, match=naming("fit:", "fit.sample")):
        vi.adapters.sample_discrete(plain, jax.random.key(1))

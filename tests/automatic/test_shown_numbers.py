"""The numbers of a density that verdicts speak of."""

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi
from tests.programs import compiled, names_since
from vijax.models.energies.shown_numbers import BLOCK, MOST, shown_numbers


def density(derived, **more):
    made = vi.density(
        {"_a": vi.free(2), "_b": vi.free((), "positive"), **more}, _quadratic, derived=derived
    )
    return made.log_density


def _quadratic(v):
    return -0.5 * jnp.sum(v["_a"] ** 2) - v["_b"] ** 2


def of_all(v):
    large = {"mu": jnp.ones(MOST + 1) * v["_b"], "fixed": 1e6 + 1e-3 * v["_b"]}
    return {"b": {"twice": 2 * v["_b"]}, "turned": v["_a"][::-1], **large}


def test_numbers_are_those_that_a_density_derives():
    """Of any number of points by one program; not those that are rounded away, nor very many."""
    of, x = density(of_all), np.random.default_rng(0).normal(size=(BLOCK + 5, 3))
    names, found = shown_numbers(of, x)
    assert names == ["b.twice", "turned[0]", "turned[1]"]
    np.testing.assert_allclose(
        found, np.stack([2 * np.exp(x[:, 2]), x[:, 1], x[:, 0]], 1), rtol=1e-5
    )
    before = compiled()
    shown_numbers(of, x[:7])
    assert names_since(before) == []


def test_variables_of_a_user_keep_their_numbers():
    of = density(lambda v: {"total": jnp.sum(v["_a"]) + v["x"]}, x=vi.free())
    x = 1e6 + np.random.default_rng(1).normal(size=(9, 4))
    names, found = shown_numbers(of, x * [1e-6, 1e-6, 1e-6, 1])
    assert names == ["x"]  # the total varies by less than can be told apart
    np.testing.assert_array_equal(found[:, 0], x[:, 3])
    alone = density(lambda v: {"constant": jnp.ones(())})
    assert shown_numbers(alone, np.ones((3, 3)) * [[1], [2], [3]])[0] == ["_a[0]", "_a[1]", "_b"]


def test_a_verdict_names_what_is_derived():
    """The posterior of `tilt` has heavy tails, and q has none: it is off in `spread`, not in a
    variable of another name."""
    names = {"_tilt": vi.free(), "_level": vi.free()}
    law = lambda v: -0.5 * v["_level"] ** 2 - 2 * jnp.log1p(v["_tilt"] ** 2 / 3)
    model = vi.density(
        names, law, derived=lambda v: {"spread": v["_tilt"], "level": 3 * v["_level"]}
    )
    fit = vi.auto(model, key=jax.random.key(0), richer=False)
    assert fit.report.off.log_sd.at == "spread"
    assert "(spread)" in fit.verdict
    assert "_tilt" not in fit.verdict

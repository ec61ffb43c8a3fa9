"""Tests of the floor under covariances of Gaussian components, which `em` keeps to."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from vijax.update import floored

import vijax as vi

KINDS = {
    "diagonal": vi.models.emission.diagonal_gaussian,
    "full": vi.models.emission.full_gaussian,
    "spherical": vi.models.emission.spherical_gaussian,
}


def two_clusters() -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.normal(size=(60, 2)) + 6 * rng.integers(2, size=(60, 1))).astype(np.float32)


def fitted(kind: str, data: np.ndarray, size: int, **more) -> vi.Fit:
    model = vi.models.mixture(KINDS[kind](size, 2))
    return vi.fit(vi.em(model, **more), data, key=jax.random.key(0), num_steps=40)


def as_matrices(kind: str, x: np.ndarray) -> np.ndarray:
    """Diagonals, full matrices or multiples of the identity, as matrices 2 x 2."""
    x = np.asarray(x, np.float64)
    return x if kind == "full" else np.eye(2) * (x if kind == "spherical" else x[..., None, :])


@pytest.mark.parametrize("kind", KINDS)
def test_floor_never_binds_on_data_without_collapse(kind):
    third = 15 + np.random.default_rng(1).normal(
        size=(12, 2)
    )  # as many rows and components as below: one program
    data = np.concatenate([two_clusters(), third]).astype(np.float32)
    with_floor, without = (
        fitted(kind, data, 3, **more) for more in ({}, {"update": vi.update.kl()})
    )
    for a, b in zip(
        *(jax.tree.leaves(f.state.posterior) for f in (with_floor, without)), strict=True
    ):
        assert np.array_equal(a, b)
    assert np.array_equal(with_floor.trace["elbo"], without.trace["elbo"])
    assert "narrow" not in with_floor.verdict


@pytest.mark.parametrize("kind", KINDS)
def test_component_on_nearly_equal_rows_stops_at_the_floor(kind):
    spread = 1e-3 * np.random.default_rng(1).normal(size=(12, 2))
    fit = fitted(kind, np.concatenate([two_clusters(), 15.0 + spread]).astype(np.float32), 3)
    floor = as_matrices(kind, fit.state.memory["components"])
    precision = jax.jit(lambda q: q.mode().precision)(fit.posterior["components"])
    found = np.linalg.inv(as_matrices(kind, precision))
    least = np.linalg.eigvals(np.linalg.solve(floor, found)).real.min(-1)
    assert np.sort(least)[0] == pytest.approx(1.0, abs=0.02)
    assert np.sort(least)[1] > 100
    assert np.all(
        np.diff(fit.trace["elbo"][1:]) > -1e-3
    )  # the start may be narrower than the floor
    assert "1 of 3 components are as narrow as em allows" in fit.verdict


def test_floor_is_a_share_of_the_average_covariance_and_the_maximum_clips_eigenvalues():
    rates = jnp.stack([jnp.diag(jnp.array(d)) for d in ([4.0, 4.0], [2.0, 1e-5])])
    q = vi.NormalWishart.from_parameters(
        np.zeros((2, 2)), [10.0, 10.0], [11.0, 11.0], jnp.linalg.inv(rates)
    )
    memory, (new, _) = jax.jit(
        lambda q: (floored(0.01).init(q), floored(0.01).propose(q, q, 1.0, floored(0.01).init(q)))
    )(q)
    counts = 9.0  # a scatter over the count is the covariance at the mode: degrees + 1 - D - 1
    np.testing.assert_allclose(memory, 0.01 * np.diag([6.0, 4.0]) / (2 * counts), rtol=1e-4)
    precision_at_mode = jax.jit(lambda q: q.mode().precision)
    old, precision = (np.asarray(precision_at_mode(x)) for x in (q, new))
    np.testing.assert_allclose(np.linalg.inv(old[1])[0, 0], 2.0 / counts, rtol=1e-4)
    np.testing.assert_allclose(
        np.linalg.inv(precision[1]), np.diag([2.0 / counts, memory[1, 1]]), rtol=1e-3, atol=1e-8
    )
    assert np.array_equal(precision[0], old[0])


def test_floor_holds_in_each_of_several_restarts():
    data = np.concatenate([two_clusters(), np.full((12, 2), 15.0)]).astype(np.float32)
    model = vi.models.mixture(vi.models.emission.full_gaussian(3, 2))
    fit = vi.fit(vi.em(model), data, key=jax.random.key(0), num_steps=20, restarts=3)
    found = np.linalg.inv(np.asarray(fit.posterior["components"].mode().precision, np.float64))
    floor = np.asarray(fit.state.memory["components"], np.float64)
    least = np.linalg.eigvals(np.linalg.solve(floor, found)).real.min()
    assert least == pytest.approx(1.0, abs=0.02)


def test_one_component_and_other_families_have_no_floor():
    one = vi.models.emission.diagonal_gaussian(1, 2).prior
    tied = vi.models.emission.tied_gaussian(3, 2).prior
    for q in (one, tied, vi.Gamma.from_shape_rate(jnp.ones(3), 1.0)):
        assert floored().init(q) == ()
        assert floored().propose(q, q, 0.5, ())[1] == ()
        assert floored().remark(q, ()) == ""


def test_share_must_be_positive():
    with pytest.raises(ValueError, match="share"):
        floored(0.0)

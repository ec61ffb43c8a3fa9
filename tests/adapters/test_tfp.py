"""Families against TensorFlow Probability, conversions both ways, and the errors of a broken
installation."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import FAMILIES, Case
from tests.naming import naming
from tests.optional import tfp_adapter
from vijax.families import Categorical, Normal, Product

tfp = tfp_adapter()

pytestmark = pytest.mark.filterwarnings("ignore")
CONVERTIBLE = [
    case for case in FAMILIES if not case.extreme and isinstance(case.build(), tfp.FAMILIES)
]
CASES = pytest.mark.parametrize("case", CONVERTIBLE, ids=lambda case: case.name)
SIMPLE = pytest.mark.parametrize(
    "case", [case for case in CONVERTIBLE if case.name != "product"], ids=lambda case: case.name
)


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def draw(case: Case, q):
    """A float32 draw (compiling the float64 sampler would take longer than all of the rest)."""
    with jax.enable_x64(False):
        x = np.asarray(case.build().sample(jax.random.key(0)))
    return x if getattr(q, "discrete", False) else x.astype(np.float64)


@SIMPLE
def test_log_prob_entropy_kl_and_mean_are_tfps(case: Case, x64) -> None:
    q = case.build()
    p = jax.tree.map(lambda leaf: jnp.roll(leaf, 1, axis=0), q)
    x = draw(case, q)
    x = x / x.sum(-1, keepdims=True) if case.name == "dirichlet" else x

    @jax.jit
    def both(q, p, x):
        theirs, theirs_p = tfp.to_tfp(q), tfp.to_tfp(p)
        ours = [q.log_prob(x), q.entropy(), q.kl(p)]
        return ours, [theirs.log_prob(x), theirs.entropy(), tfp.tfd.kl_divergence(theirs, theirs_p)]

    ours, theirs = both(q, p, x)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)
    if not isinstance(q, Categorical):
        np.testing.assert_allclose(q.mean(), tfp.to_tfp(q).mean(), rtol=1e-9)


@CASES
def test_conversion_there_and_back(case: Case, x64) -> None:
    q = case.build()
    again = tfp.from_tfp(tfp.to_tfp(q))
    assert jax.tree.structure(again) == jax.tree.structure(q)
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(q), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("batch_ndim", [0, 1])
def test_a_product_is_a_joint_distribution(batch_ndim: int) -> None:
    q = Product(
        {
            "a": Normal.from_mean_variance([0.0, 1.0], 2.0),
            "b": Categorical.from_probs([[0.3, 0.7], [0.5, 0.5]]),
        },
        batch_ndim,
    )
    x = {"a": jnp.array([0.5, -1.0]), "b": jnp.array([1, 0])}
    joint = tfp.to_tfp(q)
    np.testing.assert_allclose(joint.log_prob(x), q.log_prob(x), rtol=1e-6)
    assert tfp.from_tfp(joint).batch_ndim == batch_ndim


def test_other_parameterisations_convert() -> None:
    tfd = tfp.tfd
    assert tfp.from_tfp(tfd.Gamma(2.0, log_rate=0.0)).rate == 1
    np.testing.assert_allclose(
        tfp.from_tfp(tfd.Categorical(probs=[0.2, 0.8])).probs, [0.2, 0.8], rtol=1e-6
    )
    np.testing.assert_allclose(tfp.from_tfp(tfd.Bernoulli(probs=0.2)).probs, 0.2, rtol=1e-6)
    diagonal = tfp.from_tfp(tfd.MultivariateNormalDiag(loc=[1.0, 2.0], scale_diag=[1.0, 3.0]))
    np.testing.assert_allclose(jnp.diag(diagonal.cov), [1.0, 9.0], rtol=1e-6)


def test_unknown_types_are_named() -> None:
    assert len(CONVERTIBLE) >= len(tfp.FAMILIES) >= 8
    with pytest.raises(ValueError, match=naming("distribution:", "Gamma", "Cauchy")):
        tfp.from_tfp(tfp.tfd.Cauchy(0.0, 1.0))
    with pytest.raises(ValueError, match=naming("q:", "Gamma")):
        tfp.to_tfp(1.0)
    dependent = tfp.tfd.JointDistributionNamed(
        {"a": tfp.tfd.Normal(0.0, 1.0), "b": lambda a: tfp.tfd.Normal(a, 1.0)}
    )
    with pytest.raises(
        ValueError, match=r"expected independent parts, got functions of others for \['b'\]"
    ):
        tfp.from_tfp(dependent)


def pretend(monkeypatch, installed: dict[str, str]) -> None:
    def version(wheel: str) -> str:
        if wheel not in installed:
            raise importlib.metadata.PackageNotFoundError(wheel)
        return installed[wheel]

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_a_stable_wheel_beside_the_nightly_is_an_error(monkeypatch) -> None:
    pretend(monkeypatch, {"tensorflow-probability": "0.25.0", "tfp-nightly": "0.26.0.dev1"})
    with pytest.raises(ImportError, match="both installed") as error:
        tfp.load()
    assert str(error.value).endswith(
        "pip uninstall -y tensorflow-probability tfp-nightly && pip install tfp-nightly"
    )


def test_a_wheel_that_does_not_import_is_an_error(monkeypatch) -> None:
    pretend(monkeypatch, {"tensorflow-probability": "0.25.0"})
    monkeypatch.setitem(sys.modules, "tensorflow_probability.substrates.jax", None)
    with pytest.raises(ImportError, match=naming("-probability", "0.25.0", "JAX")) as error:
        tfp.load()
    assert tfp.REPAIR in str(error.value)


def test_a_missing_wheel_is_named(monkeypatch) -> None:
    pretend(monkeypatch, {})
    with pytest.raises(ImportError, match=r"pip install tfp-nightly \(in a clone"):
        tfp.load()


def test_a_stable_wheel_that_imports_is_welcome(monkeypatch) -> None:
    pretend(monkeypatch, {"tensorflow-probability": "0.99.0"})
    assert tfp.load() is tfp.tfp

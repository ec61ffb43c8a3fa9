"""TensorFlow Probability: the one module that imports it, and conversions to and from its
distributions.

The wheel that works with current JAX is `tfp-nightly`. It shares the namespace
`tensorflow_probability` with the stable wheel `tensorflow-probability`, which does not import with
this JAX and shadows or corrupts it when both are installed: importing this module then raises an
ImportError that says how to mend it."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax.numpy as jnp

from vijax.extras import missing, require_extra
from vijax.families import (
    Bernoulli,
    Beta,
    Categorical,
    Dirichlet,
    Family,
    Gamma,
    MultivariateNormal,
    Normal,
    Product,
)

REPAIR = "pip uninstall -y tensorflow-probability tfp-nightly && pip install tfp-nightly"


def _version(wheel: str) -> str | None:
    try:
        return importlib.metadata.version(wheel)
    except importlib.metadata.PackageNotFoundError:
        return None


def load() -> ModuleType:
    """Imports `tensorflow_probability.substrates.jax`.

    Raises:
      ImportError: it is not installed, the stable wheel is installed beside the nightly one, or it
        does not import with this JAX; the message holds the command that mends it.
    """
    stable, nightly = _version("tensorflow-probability"), _version("tfp-nightly")
    if stable and nightly:
        found = (
            f"tensorflow-probability {stable} and tfp-nightly {nightly} are both installed, in "
            "one namespace"
        )
        raise ImportError(
            f"{found}, so that parts of the one overwrite the other. To mend it: {REPAIR}"
        )
    if not stable and not nightly:
        raise ImportError(missing("TensorFlow Probability", "tfp-nightly", "tfp"))
    try:
        return require_extra("tensorflow_probability.substrates.jax", "tfp")
    except (
        Exception
    ) as error:  # an incompatible wheel fails with AttributeError as often as with ImportError
        wheel = f"tensorflow-probability {stable}" if stable else f"tfp-nightly {nightly}"
        raise ImportError(
            f"{wheel} does not import with this JAX ({error}). To mend it: {REPAIR}"
        ) from error


tfp = load()
tfd = tfp.distributions


def to_tfp(q: Family) -> Any:
    """The TFP distribution of a family; for a `Product`, a joint distribution by name.

    Raises:
      ValueError: there is no conversion for this type.

    >>> d = to_tfp(Normal.from_mean_variance(1.0, 4.0))
    >>> print(type(d).__name__, d.loc, d.scale)
    Normal 1.0 2.0
    """
    for family, _, forward, _ in _TABLE:
        if isinstance(q, family):
            return forward(q)
    raise ValueError(f"q: expected {_known(0)}, got {type(q).__name__}.")


def from_tfp(distribution: Any) -> Family:
    """The family of a TFP distribution: the inverse of `to_tfp`.

    A joint distribution must be by name, of independent parts.

    Raises:
      ValueError: there is no conversion for this type.

    >>> from_tfp(tfd.Gamma(concentration=2.0, rate=3.0)).rate.item()
    3.0
    """
    for _, type_, _, backward in _TABLE:
        if isinstance(distribution, type_):
            return backward(distribution)
    raise ValueError(f"distribution: expected {_known(1)}, got {type(distribution).__name__}.")


def _known(column: int) -> str:
    return "one of " + ", ".join(row[column].__name__ for row in _TABLE)


def _to_joint(q: Product) -> Any:
    """A joint distribution; batch axes that a product sums over become event axes."""

    def part(factor: Family) -> Any:
        summed = len(factor.batch_shape) - q.batch_ndim
        return tfd.Independent(to_tfp(factor), summed) if summed else to_tfp(factor)

    return tfd.JointDistributionNamed({name: part(q[name]) for name in q}, batch_ndims=q.batch_ndim)


def _from_joint(joint: Any) -> Product:
    parts = joint.model
    dependent = [name for name, part in parts.items() if not isinstance(part, tfd.Distribution)]
    if dependent:
        raise ValueError(
            f"distribution: expected independent parts, got functions of others for {dependent}."
        )
    plain = {
        name: p.distribution if isinstance(p, tfd.Independent) else p for name, p in parts.items()
    }
    return Product(
        {name: from_tfp(p) for name, p in plain.items()}, batch_ndim=len(joint.batch_shape)
    )


Row = tuple[type[Family], type, Callable[[Any], Any], Callable[[Any], Any]]

_TABLE: tuple[Row, ...] = (
    (
        Gamma,
        tfd.Gamma,
        lambda q: tfd.Gamma(concentration=q.shape, rate=q.rate),
        lambda d: Gamma.from_shape_rate(
            d.concentration, jnp.exp(d.log_rate) if d.rate is None else d.rate
        ),
    ),
    (
        Beta,
        tfd.Beta,
        lambda q: tfd.Beta(concentration1=q.alpha, concentration0=q.beta),
        lambda d: Beta.from_alpha_beta(d.concentration1, d.concentration0),
    ),
    (
        Dirichlet,
        tfd.Dirichlet,
        lambda q: tfd.Dirichlet(q.concentration),
        lambda d: Dirichlet.from_concentration(d.concentration),
    ),
    (
        Normal,
        tfd.Normal,
        lambda q: tfd.Normal(loc=q.mean(), scale=jnp.sqrt(q.variance())),
        lambda d: Normal.from_mean_variance(d.mean(), d.variance()),
    ),
    (
        MultivariateNormal,
        tfd.MultivariateNormalLinearOperator,
        lambda q: tfd.MultivariateNormalTriL(loc=q.mean(), scale_tril=jnp.linalg.cholesky(q.cov)),
        lambda d: MultivariateNormal.from_mean_cov(d.mean(), d.covariance()),
    ),
    (
        Categorical,
        tfd.Categorical,
        lambda q: tfd.Categorical(logits=q.logits),
        lambda d: Categorical.from_logits(d.logits_parameter()),
    ),
    (
        Bernoulli,
        tfd.Bernoulli,
        lambda q: tfd.Bernoulli(logits=q.logit),
        lambda d: Bernoulli.from_logit(d.logits_parameter()),
    ),
    (Product, tfd.JointDistributionNamed, _to_joint, _from_joint),
)

FAMILIES = tuple(row[0] for row in _TABLE)
"""The families that `to_tfp` converts."""

"""TensorFlow Probability: the only module that imports it, and conversions to and from its
distributions.

The wheel that works with current JAX is `tfp-nightly`. It shares the namespace
`tensorflow_probability` with the stable wheel `tensorflow-probability`. The stable wheel does not
import with this JAX, and shadows or corrupts the nightly wheel if both are installed: importing
this module then raises an ImportError with the remedy."""

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
        does not import with this JAX; the message has the command that mends it.
    """
    stable = _version("tensorflow-probability")
    nightly = _version("tfp-nightly")
    if stable and nightly:
        raise ImportError(
            f"tensorflow-probability {stable} and tfp-nightly {nightly} are both installed, in one "
            f"namespace, so that parts of the one overwrite the other. To mend it: {REPAIR}"
        )
    if not stable and not nightly:
        raise ImportError(missing("TensorFlow Probability", "tfp-nightly", "tfp"))
    try:
        return require_extra("tensorflow_probability.substrates.jax", "tfp")
    except Exception as error:
        # An incompatible wheel fails with AttributeError as often as with ImportError.
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
    raise ValueError(f"q: expected {_type_names(0)}, got {type(q).__name__}.")


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
    expected = _type_names(1)
    raise ValueError(f"distribution: expected {expected}, got {type(distribution).__name__}.")


def _type_names(column: int) -> str:
    """The types that can be converted, in words: families (column 0) or distributions (1)."""
    return "one of " + ", ".join(row[column].__name__ for row in _TABLE)


def _to_joint(q: Product) -> Any:
    """A joint distribution; batch axes that a product sums over become event axes."""

    def part(factor: Family) -> Any:
        event_ndim = len(factor.batch_shape) - q.batch_ndim
        return tfd.Independent(to_tfp(factor), event_ndim) if event_ndim else to_tfp(factor)

    return tfd.JointDistributionNamed({name: part(q[name]) for name in q}, batch_ndims=q.batch_ndim)


def _from_joint(joint: Any) -> Product:
    parts = joint.model
    dependent = [name for name, part in parts.items() if not isinstance(part, tfd.Distribution)]
    if dependent:
        raise ValueError(
            f"distribution: expected independent parts, got functions of others for {dependent}."
        )
    factors = {}
    for name, part in parts.items():
        is_wrapper = isinstance(part, tfd.Independent)
        factors[name] = from_tfp(part.distribution if is_wrapper else part)
    return Product(factors, batch_ndim=len(joint.batch_shape))


def _rate(gamma: Any) -> Any:
    return jnp.exp(gamma.log_rate) if gamma.rate is None else gamma.rate


Row = tuple[type[Family], type, Callable[[Any], Any], Callable[[Any], Any]]

_TABLE: tuple[Row, ...] = (
    (
        Gamma,
        tfd.Gamma,
        lambda q: tfd.Gamma(concentration=q.shape, rate=q.rate),
        lambda d: Gamma.from_shape_rate(d.concentration, _rate(d)),
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

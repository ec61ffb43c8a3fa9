"""Joint distributions of TensorFlow Probability, with some parts observed, as models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from vijax import constrain
from vijax.adapters.variables import VariableFacts, free_variables, interval_constraint
from vijax.checks import require
from vijax.constrain import Constraint
from vijax.constrain.scalars import HalfLine
from vijax.contract.model import Model
from vijax.inference.guides import Guide
from vijax.models.energies.density import density, with_prior

RUNS = 3
"""Draws of the joint from which its parts are read."""


def from_tfp(
    joint: Any, observed: Mapping[str, Any] | None = None, *, guide: Guide | None = None
) -> Model:
    """A model from a joint distribution of TensorFlow Probability's JAX substrate: parts without
    observed values are unknown.

    The supports of the unknown parts come from TFP's event space bijectors.
    (`vijax.adapters.tfp.from_tfp` does something else: it returns the family of one distribution.)

    Args:
      joint: `JointDistributionNamed`, `JointDistributionSequential` or
        `JointDistributionCoroutine`, also the `AutoBatched` ones, whose parts have names. Its log
        density must be one number: put `Independent` or `Sample` around a part that is an array, or
        take an `AutoBatched` joint.
      observed: values by name.
      guide: family of q (`vijax.guides`); None is `full_rank()`.

    Returns:
      A density of the unknown parts, for `vijax.auto` and every algorithm that fits densities. It
      has its data: `vijax.auto(model, key=key)`.

    Raises:
      ValueError: `joint` is no joint; `observed` has a name that is no part, or all parts; the log
        density is an array; a part is discrete, or a joint itself, or has a support that vijax
        lacks or that changes with other parts.
      ImportError: TensorFlow Probability is not installed.

    A normal mean and four observations (Dillon et al. 2017 describe the library):

    >>> import jax, pytest, vijax as vi
    >>> tfd = pytest.importorskip("tensorflow_probability.substrates.jax").distributions
    >>> joint = tfd.JointDistributionNamedAutoBatched(
    ...     {"mean": tfd.Normal(0.0, 10.0), "y": lambda mean: tfd.Sample(tfd.Normal(mean, 1.0), 4)})
    >>> model = vi.from_tfp(joint, {"y": [1.0, 2.0, 3.0, 4.0]})
    >>> fit = vi.auto(model, key=jax.random.key(0))
    >>> print(f"{fit.sample(jax.random.key(1), 4000)['mean'].mean():.1f}")
    2.5
    """
    from vijax.adapters.tfp import tfd

    is_joint = isinstance(joint, tfd.JointDistribution)
    expected = "a joint distribution of TensorFlow Probability"
    require(is_joint, "joint", expected, type(joint).__name__)
    dtypes = _parts(joint, joint.dtype)
    observed = observed or {}
    unknown = [name for name in observed if name not in dtypes]
    require(not unknown, "observed", f"names among {list(dtypes)}", unknown)
    data = {name: _cast(name, value, dtypes[name]) for name, value in observed.items()}
    runs = [_run(joint, data, jax.random.key(i)) for i in range(RUNS)]
    variables = free_variables("joint", runs)

    def cast(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: jnp.asarray(value, dtypes[name]) for name, value in values.items()}

    def log_density(values: Mapping[str, Any]) -> Any:
        total = joint.log_prob(**cast(values), **data)
        is_number = jnp.shape(total) == ()
        actual = f"an array of shape {jnp.shape(total)}"
        remedy = (
            "Put tfd.Independent or tfd.Sample around parts that are arrays, or take an "
            "AutoBatched joint."
        )
        require(is_number, "joint", "a log density that is one number", actual, remedy)
        return jnp.asarray(total, jnp.result_type(float))

    def log_prior(values: Mapping[str, Any]) -> Any:
        terms = _parts(joint, joint.log_prob_parts(**cast(values), **data))
        return jnp.asarray(sum(jnp.sum(terms[name]) for name in values), jnp.result_type(float))

    return with_prior(density(variables, log_density, guide=guide), log_prior)


def _parts(joint: Any, structure: Any) -> dict[str, Any]:
    """The results of a joint's method, by name of the part."""
    if isinstance(structure, Mapping):
        return dict(structure)
    names = getattr(structure, "_fields", None) or [name for name, _ in joint.resolve_graph()]
    return dict(zip(names, structure, strict=True))


def _cast(name: str, value: Any, dtype: Any) -> Array:
    """An observed value in its distribution's type. Raises ValueError if this changes the value."""
    array = np.asarray(value)
    cast = array.astype(dtype)
    is_same = np.issubdtype(cast.dtype, np.floating) or np.array_equal(cast, array)
    require(is_same, f"observed: {name!r}", f"values of {cast.dtype}", array)
    return jnp.asarray(cast)


def _run(joint: Any, data: Mapping[str, Array], key: PRNGKeyArray) -> dict[str, VariableFacts]:
    """The facts that a draw shows of the unknown parts."""
    from vijax.adapters.tfp import tfd

    distributions, values = (_parts(joint, x) for x in joint.sample_distributions(seed=key, **data))
    for name, part in distributions.items():
        is_single = not isinstance(part, tfd.JointDistribution)
        argument = f"joint: {name!r}"
        remedy = "Name its parts in the joint itself."
        require(is_single, argument, "a distribution of one array", type(part).__name__, remedy)
    unknown = [name for name in values if name not in data]
    return {name: _part_facts(distributions[name], values[name]) for name in unknown}


def _part_facts(part: Any, value: Array) -> VariableFacts:
    bijector = part.experimental_default_event_space_bijector()
    text = f"that of {part.name}, by the bijector {getattr(bijector, 'name', None)}"
    return VariableFacts(value.shape, value.dtype, support(bijector), text)


FACTOR = "lower triangles of positive diagonal"
"""An intermediate set of bijectors onto the positive definite matrices; no constraint of vijax."""
Set = Constraint | str | None


def support(bijector: Any) -> Constraint | None:
    """The constraint whose set is the image of all real numbers under the bijector, or None.

    >>> import pytest
    >>> tfb = pytest.importorskip("tensorflow_probability.substrates.jax").bijectors
    >>> support(tfb.Chain([tfb.Shift(2.0), tfb.Scale(-3.0), tfb.Exp()]))
    below(high=2.0)
    """
    image = _image(bijector, constrain.real())
    return image if isinstance(image, Constraint) else None


def _image(bijector: Any, domain: Set) -> Set:
    """The image of a set under a bijector; None if it is not known."""
    rule = _RULES.get(type(bijector).__name__)
    return None if rule is None or domain is None else rule(bijector, domain)


Rule = Callable[[Any, Set], Set]
"""A function from a bijector and a set to the image of the set."""


def _chain_image(chain: Any, domain: Set) -> Set:
    for part in reversed(chain.bijectors):
        domain = _image(part, domain)
    return domain


def _rule(image: Callable[[Any], Set], needed: Set = constrain.real()) -> Rule:  # noqa: B008
    """The rule of a bijector for one domain: `image` of the bijector there, None elsewhere."""
    return lambda bijector, domain: image(bijector) if domain == needed else None


def _affine_image(domain: Set, shift: Any, scale: Any) -> Set:
    """The image under x -> shift + scale x."""
    scales = np.asarray(scale, float)
    if isinstance(domain, constrain.real):
        return domain if np.all(scales != 0) else None
    if not (np.all(scales > 0) or np.all(scales < 0)):
        return None
    is_reversed = bool(np.all(scales < 0))
    if isinstance(domain, HalfLine):
        end = shift + scales * domain.end
        is_above = (domain.sign > 0) != is_reversed
        return interval_constraint(low=end) if is_above else interval_constraint(high=end)
    if isinstance(domain, constrain.interval):
        ends = shift + scales * domain.low, shift + scales * domain.high
        return interval_constraint(*(ends[::-1] if is_reversed else ends))
    return None


def _scale_image(bijector: Any, domain: Set) -> Set:
    scale = bijector.scale
    if scale is None:
        scale = np.exp(np.asarray(bijector.log_scale, float))
    return _affine_image(domain, 0.0, scale)


def _softplus_image(bijector: Any) -> Set:
    return interval_constraint(0.0 if bijector.low is None else bijector.low)


def _sigmoid_image(bijector: Any) -> Set:
    low = 0.0 if bijector.low is None else bijector.low
    high = 1.0 if bijector.high is None else bijector.high
    return interval_constraint(low, high)


def _inverse_image(invert: Any, domain: Set) -> Set:
    """The image under the inverse of a known bijector: logarithms, logits, and `Ordered`, which
    maps to real numbers."""
    inner = invert.bijector
    if type(inner).__name__ == "Ordered":
        return constrain.ordered() if domain == constrain.real() else None
    return constrain.real() if _image(inner, constrain.real()) == domain else None


_RULES: dict[str, Rule] = {
    "Identity": lambda bijector, domain: domain,
    "Chain": _chain_image,
    "_DefaultSampleBijector": lambda bijector, domain: _image(bijector.bijector, domain),
    "Invert": _inverse_image,
    "Shift": lambda bijector, domain: _affine_image(domain, np.asarray(bijector.shift, float), 1.0),
    "Scale": _scale_image,
    "Exp": _rule(lambda bijector: constrain.positive()),
    "Softplus": _rule(_softplus_image),
    "Reciprocal": _rule(lambda bijector: constrain.positive(), constrain.positive()),
    "Sigmoid": _rule(_sigmoid_image),
    "SoftmaxCentered": _rule(lambda bijector: constrain.simplex()),
    "IteratedSigmoidCentered": _rule(lambda bijector: constrain.simplex()),
    "Ascending": _rule(lambda bijector: constrain.ordered()),
    "CorrelationCholesky": _rule(lambda bijector: constrain.correlation_cholesky()),
    "FillScaleTriL": _rule(lambda bijector: FACTOR),
    "TransformDiagonal": _rule(lambda bijector: FACTOR, FACTOR),
    "CholeskyOuterProduct": _rule(lambda bijector: constrain.positive_definite(), FACTOR),
}
"""The rules, by type of the bijector."""

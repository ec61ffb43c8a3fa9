"""Joint distributions of TensorFlow Probability, with some parts observed, as models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from vijax import constrain
from vijax.adapters.found import Found, free_variables, interval_of
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
    """A model from a joint distribution of TensorFlow Probability's JAX substrate: parts not
    observed are unknown.

    TFP's event space bijectors tell the supports of the unknown parts.
    (`vijax.adapters.tfp.from_tfp` is something else: the family of one distribution.)

    Args:
      joint: `JointDistributionNamed`, `JointDistributionSequential` or
        `JointDistributionCoroutine`, also the `AutoBatched` ones; its parts are known by their
        names. Its log density must be one number: `Independent` or `Sample` around a part that is
        an array, or an `AutoBatched` joint.
      observed: values by name.
      guide: family of q (`vijax.guides`); None is `full_rank()`.

    Returns:
      A density of the other parts, for `vijax.auto` and every algorithm that fits densities. It has
      its data: `vijax.auto(model, key=key)`.

    Raises:
      ValueError: `joint` is no joint; `observed` names an unknown part, or all parts; the log
        density is an array; a part is discrete, or a joint itself, or its support is none of
        vijax's or changes with other parts.
      ImportError: TensorFlow Probability is not installed.

    A normal mean and four observations (Dillon et al. 2017 describe the library):

    >>> import jax, pytest, vijax as vi
    >>> tfd = pytest.importorskip("vijax.adapters.tfp").tfd
    >>> joint = tfd.JointDistributionNamedAutoBatched(
    ...     {"mean": tfd.Normal(0.0, 10.0), "y": lambda mean: tfd.Sample(tfd.Normal(mean, 1.0), 4)})
    >>> model = vi.from_tfp(joint, {"y": [1.0, 2.0, 3.0, 4.0]})
    >>> fit = vi.auto(model, key=jax.random.key(0))
    >>> print(f"{fit.sample(jax.random.key(1), 4000)['mean'].mean():.1f}")
    2.5
    """
    from vijax.adapters.tfp import tfd

    is_joint = isinstance(joint, tfd.JointDistribution)
    require(
        is_joint, "joint", "a joint distribution of TensorFlow Probability", type(joint).__name__
    )
    dtypes = _parts(joint, joint.dtype)
    unknown = [name for name in observed or {} if name not in dtypes]
    require(not unknown, "observed", f"names among {list(dtypes)}", unknown)
    seen = {name: _typed(name, value, dtypes[name]) for name, value in (observed or {}).items()}
    variables = free_variables("joint", [_run(joint, seen, jax.random.key(i)) for i in range(RUNS)])

    def log_density(values: Mapping[str, Any]) -> Any:
        typed = {name: jnp.asarray(value, dtypes[name]) for name, value in values.items()}
        total = joint.log_prob(**typed, **seen)
        remedy = (
            "Put tfd.Independent or tfd.Sample around parts that are arrays, or take an "
            "AutoBatched joint."
        )
        got = f"an array of shape {jnp.shape(total)}"
        require(jnp.shape(total) == (), "joint", "a log density that is one number", got, remedy)
        return jnp.asarray(total, jnp.result_type(float))

    def log_prior(values: Mapping[str, Any]) -> Any:
        typed = {name: jnp.asarray(value, dtypes[name]) for name, value in values.items()}
        terms = _parts(joint, joint.log_prob_parts(**typed, **seen))
        return jnp.asarray(sum(jnp.sum(terms[name]) for name in values), jnp.result_type(float))

    return with_prior(density(variables, log_density, guide=guide), log_prior)


def _parts(joint: Any, structure: Any) -> dict[str, Any]:
    """The results of a joint's method for each of its parts, by name."""
    if isinstance(structure, Mapping):
        return dict(structure)
    names = getattr(structure, "_fields", None) or [name for name, _ in joint.resolve_graph()]
    return dict(zip(names, structure, strict=True))


def _typed(name: str, value: Any, dtype: Any) -> Array:
    """An observed value in its distribution's type; raises ValueError where this would change
    it."""
    given = np.asarray(value)
    typed = given.astype(dtype)
    same = np.issubdtype(typed.dtype, np.floating) or np.array_equal(typed, given)
    require(same, f"observed: {name!r}", f"values of {typed.dtype}", given)
    return jnp.asarray(typed)


def _run(joint: Any, seen: Mapping[str, Array], key: PRNGKeyArray) -> dict[str, Found]:
    """The facts that a draw shows of the parts that are not observed."""
    from vijax.adapters.tfp import tfd

    distributions, values = (_parts(joint, x) for x in joint.sample_distributions(seed=key, **seen))
    for name, part in distributions.items():
        nested = isinstance(part, tfd.JointDistribution)
        remedy = "Name its parts in the joint itself."
        require(
            not nested,
            f"joint: {name!r}",
            "a distribution of one array",
            type(part).__name__,
            remedy,
        )
    return {
        name: _found(distributions[name], value)
        for name, value in values.items()
        if name not in seen
    }


def _found(part: Any, value: Array) -> Found:
    bijector = part.experimental_default_event_space_bijector()
    said = f"that of {part.name}, by the bijector {getattr(bijector, 'name', None)}"
    return Found(value.shape, value.dtype, support(bijector), said)


FACTOR = "lower triangles of positive diagonal"
"""A set on the way to the positive definite matrices, which is no constraint of ours."""
Set = Constraint | str | None


def support(bijector: Any) -> Constraint | None:
    """The constraint whose set the bijector maps all real numbers onto; None where there is none.

    >>> import pytest
    >>> tfb = pytest.importorskip("vijax.adapters.tfp").tfp.bijectors
    >>> support(tfb.Chain([tfb.Shift(2.0), tfb.Scale(-3.0), tfb.Exp()]))
    below(high=2.0)
    """
    found = _image(bijector, constrain.real())
    return found if isinstance(found, Constraint) else None


def _image(bijector: Any, of: Set) -> Set:
    """The image of a set under a bijector; None where not known."""
    rule = _RULES.get(type(bijector).__name__)
    return None if rule is None or of is None else rule(bijector, of)


def _chain(chain: Any, of: Set) -> Set:
    for part in reversed(chain.bijectors):
        of = _image(part, of)
    return of


def _onto(made: Callable[[Any], Set], needed: Set = constrain.real()) -> Callable[[Any, Set], Set]:  # noqa: B008
    """The rule of a bijector for one set only."""
    return lambda bijector, of: made(bijector) if of == needed else None


def _moved(of: Set, shift: Any, scale: Any) -> Set:
    """shift + scale x."""
    scales = np.asarray(scale, float)
    if isinstance(of, constrain.real):
        return of if np.all(scales != 0) else None
    if not (np.all(scales > 0) or np.all(scales < 0)):
        return None
    down = bool(np.all(scales < 0))
    if isinstance(of, HalfLine):
        end = shift + scales * of.end
        return interval_of(low=end) if (of.sign > 0) != down else interval_of(high=end)
    if isinstance(of, constrain.interval):
        ends = shift + scales * of.low, shift + scales * of.high
        return interval_of(*(ends[::-1] if down else ends))
    return None


def _inverted(invert: Any, of: Set) -> Set:
    """Inverses of known bijectors: logarithms, logits, and `Ordered`, which maps to real
    numbers."""
    inner = invert.bijector
    if type(inner).__name__ == "Ordered":
        return constrain.ordered() if of == constrain.real() else None
    return constrain.real() if _image(inner, constrain.real()) == of else None


_RULES: dict[str, Callable[[Any, Set], Set]] = {
    "Identity": lambda bijector, of: of,
    "Chain": _chain,
    "_DefaultSampleBijector": lambda bijector, of: _image(bijector.bijector, of),
    "Invert": _inverted,
    "Shift": lambda bijector, of: _moved(of, np.asarray(bijector.shift, float), 1.0),
    "Scale": lambda bijector, of: _moved(
        of,
        0.0,
        bijector.scale
        if bijector.scale is not None
        else np.exp(np.asarray(bijector.log_scale, float)),
    ),
    "Exp": _onto(lambda bijector: constrain.positive()),
    "Softplus": _onto(lambda bijector: interval_of(0.0 if bijector.low is None else bijector.low)),
    "Reciprocal": _onto(lambda bijector: constrain.positive(), constrain.positive()),
    "Sigmoid": _onto(
        lambda b: interval_of(0.0 if b.low is None else b.low, 1.0 if b.high is None else b.high)
    ),
    "SoftmaxCentered": _onto(lambda bijector: constrain.simplex()),
    "IteratedSigmoidCentered": _onto(lambda bijector: constrain.simplex()),
    "Ascending": _onto(lambda bijector: constrain.ordered()),
    "CorrelationCholesky": _onto(lambda bijector: constrain.correlation_cholesky()),
    "FillScaleTriL": _onto(lambda bijector: FACTOR),
    "TransformDiagonal": _onto(lambda bijector: FACTOR, FACTOR),
    "CholeskyOuterProduct": _onto(lambda bijector: constrain.positive_definite(), FACTOR),
}
"""The rules, by the bijector's type."""

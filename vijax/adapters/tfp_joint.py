"""Joint distributions of TensorFlow Probability, with some parts observed, as models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from vijax.adapters.found import Found, free_variables
from vijax.adapters.tfp_supports import support
from vijax.checks import require
from vijax.contract.model import Model
from vijax.inference.guides import Guide
from vijax.models.energies.density import density

RUNS = 3
"""Draws of the joint that show what its parts are."""


def from_tfp(joint: Any, observed: Mapping[str, Any] | None = None, *, guide: Guide | None = None) -> Model:
    """A model from a joint distribution of TensorFlow Probability's JAX substrate: parts not observed are unknown.

    The supports of the unknown parts are those of TFP's event space bijectors. (`vijax.adapters.tfp.from_tfp` is
    something else: the family of one distribution.)

    Args:
      joint: `JointDistributionNamed`, `JointDistributionSequential` or `JointDistributionCoroutine`, also the
        `AutoBatched` ones; its parts are known by their names. Its log density must be one number: `Independent` or
        `Sample` around a part that is an array, or an `AutoBatched` joint.
      observed: values by name.
      guide: family of q (`vijax.guides`); None is `full_rank()`.

    Returns:
      A density of the other parts, for `vijax.auto` and every algorithm that fits densities. It has its data:
      `vijax.auto(model, key=key)`.

    Raises:
      ValueError: `joint` is no joint; `observed` names an unknown part, or all parts; the log density is an array; a
        part is discrete, or a joint itself, or its support is none of vijax's or changes with other parts.
      ImportError: TensorFlow Probability is not installed.

    A normal mean, of which four numbers are seen (Dillon et al. 2017 describe the library):

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
    require(is_joint, "joint", "a joint distribution of TensorFlow Probability", type(joint).__name__)
    dtypes = _parts(joint, joint.dtype)
    unknown = [name for name in observed or {} if name not in dtypes]
    require(not unknown, "observed", f"names among {list(dtypes)}", unknown)
    seen = {name: _typed(name, value, dtypes[name]) for name, value in (observed or {}).items()}
    variables = free_variables("joint", [_run(joint, seen, jax.random.key(i)) for i in range(RUNS)])

    def log_density(values: Mapping[str, Any]) -> Any:
        typed = {name: jnp.asarray(value, dtypes[name]) for name, value in values.items()}
        total = joint.log_prob(**typed, **seen)
        remedy = "Put tfd.Independent or tfd.Sample around parts that are arrays, or take an AutoBatched joint."
        got = f"an array of shape {jnp.shape(total)}"
        require(jnp.shape(total) == (), "joint", "a log density that is one number", got, remedy)
        return jnp.asarray(total, jnp.result_type(float))

    return density(variables, log_density, guide=guide)


def _parts(joint: Any, structure: Any) -> dict[str, Any]:
    """The results of a joint's method for each of its parts, by name."""
    if isinstance(structure, Mapping):
        return dict(structure)
    names = getattr(structure, "_fields", None) or [name for name, _ in joint.resolve_graph()]
    return dict(zip(names, structure, strict=True))


def _typed(name: str, value: Any, dtype: Any) -> Array:
    """An observed value in its distribution's type; raises ValueError where this would change it."""
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
        require(not nested, f"joint: {name!r}", "a distribution of one array", type(part).__name__, remedy)
    return {name: _found(distributions[name], value) for name, value in values.items() if name not in seen}


def _found(part: Any, value: Array) -> Found:
    bijector = part.experimental_default_event_space_bijector()
    said = f"that of {part.name}, by the bijector {getattr(bijector, 'name', None)}"
    return Found(value.shape, value.dtype, support(bijector), said)

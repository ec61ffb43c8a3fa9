"""Responses drawn from a Gaussian process or a GLM, at its own sites or at new inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require
from vijax.contract.queries import Generative, Values, is_size
from vijax.tree import as_arrays
from vijax.xla.compiler import quick_jit

Z = "z"
"""The name of the predictors among the globals."""
SITES = frozenset({"site", "y"})


class Joint(NamedTuple):
    """A normal law by its mean and a root of its covariance, which may be singular."""

    predictors: Float[Array, " T"]
    root: Float[Array, "T dim"]

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "*shape T"]:
        """Draws."""
        noise = jax.random.normal(key, (*shape, self.root.shape[1]), self.predictors.dtype)
        return self.predictors + noise @ self.root.T

    def mode(self) -> Float[Array, " T"]:
        """The mean."""
        return self.predictors


class NewInputs(NamedTuple):
    """Inputs at which responses are drawn, other than sites."""

    inputs: Any


def of_predictors(
    likelihood: Callable[[Any, Mapping[str, Any]], Any],
    rows: Callable[[Any], Any],
    new: Callable[[Any, Any], tuple[Any, Array]],
    own: Callable[[Any, Any], Float[Array, "T T"]] | None,
    others: Mapping[str, Any],
    draws: bool,
) -> Generative | None:
    """The `Generative` of a model of Gaussian predictors, which draws responses.

    Args:
      likelihood: (hyper, statistics of the other globals) -> p(y | z).
      rows: inputs -> arrays, on the host: what `new` reads.
      new: (hyper, rows) -> the argument of `Prior.predict`, and the variance that no feature explains.
      own: (hyper, inputs) -> prior covariance of the predictors, where features do not explain all of it; else None.
      others: priors of the other globals.
      draws: True where the likelihood can draw.
    """
    if not draws:
        return None

    @quick_jit
    def at_new(q: Any, hyper: Any, rows: Any, prior_cov: Array | None) -> Joint:
        return Joint(*q.prior.predict_jointly(q.condition(), new(hyper, rows)[0], prior_cov))

    def globals_(hyper: Any, posterior: Any, layout: Any) -> dict[str, Any]:
        q = posterior[Z]
        rest = {name: law for name, law in posterior.items() if name != Z}
        if not isinstance(layout, NewInputs):
            return {Z: _at_sites(q, layout), **rest}
        hyper = as_arrays(hyper if q.hyper is None else q.hyper)
        prior_cov = None if own is None else own(hyper, layout.inputs)
        return {Z: at_new(q, hyper, rows(layout.inputs), prior_cov), **rest}

    def data(hyper: Any, values: Values, local: Values, layout: Any, key: PRNGKeyArray) -> Array:
        stats = {name: law.stats(values[name]) for name, law in others.items()}
        return likelihood(hyper, stats).sample(key, values[Z])

    return Generative(_layout, data, observed=_observed, globals=globals_)


@quick_jit
def _at_sites(q: Any, rows: Array) -> Joint:
    return Joint(*q.prior.joint(q.condition(), rows))


def _layout(like: Any) -> Any:
    """The layout of draws: rows of sites from `model.data`; the inputs from a pair (inputs, y), or as given."""
    remedy = "Of the data that it was fitted to: like=model.data."
    require(not is_size(like), "like", "inputs, or a pair (inputs, y)", like, remedy)
    if isinstance(like, dict) and set(like) == SITES:
        return jnp.asarray(like["site"])
    inputs = like[0] if _is_pair(like) else like
    return NewInputs(inputs)


def _is_pair(like: Any) -> bool:
    return isinstance(like, tuple | list) and len(like) == 2


def _observed(layout: Any, like: Any) -> Array:
    known = _is_pair(like) or isinstance(like, dict)
    require(known, "data", "a pair (inputs, y), or model.data", type(like).__name__)
    return jnp.asarray(like["y"] if isinstance(like, dict) else np.asarray(like[1]), jnp.result_type(float))

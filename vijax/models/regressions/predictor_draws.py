"""Responses of a Gaussian process or a GLM: draws at its sites or at new inputs, and expectations
with intervals."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Array, Float, PRNGKeyArray
from scipy import special

from vijax.checks import require
from vijax.contract.queries import Generative, Values, is_size
from vijax.inference.expectation.scalar import expect
from vijax.inference.likelihood import Likelihood
from vijax.models.regressions.measure import NOISE, Measure
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

    def outward(self, measure: Measure, place: Any) -> Joint:
        """The law of the predictors in units of y."""
        place = jnp.asarray(place, self.predictors.dtype)
        return Joint(place + measure.unit * self.predictors, measure.unit * self.root)


class NewInputs(NamedTuple):
    """Inputs at which responses are drawn, other than sites."""

    inputs: Any


def predictor_generative(
    likelihood: Callable[[Any, Mapping[str, Any]], Any],
    rows: Callable[[Any], Any],
    new: Callable[[Any, Any], tuple[Any, Array]],
    own: Callable[[Any, Any], Float[Array, "T T"]] | None,
    others: Mapping[str, Any],
    draws: bool,
    measure: Measure | None = None,
) -> Generative | None:
    """The `Generative` of a model of Gaussian predictors, which draws responses.

    The functions are arguments of `vijax.models.regressions.predictors.predictors`; `draws` is True
    if the likelihood can draw."""
    if not draws:
        return None

    @quick_jit
    def law_of_new(q: Any, hyper: Any, rows: Any, prior_cov: Array | None) -> Joint:
        return Joint(*q.prior.predict_jointly(q.condition(), new(hyper, rows)[0], prior_cov))

    def globals_(hyper: Any, posterior: Any, layout: Any) -> dict[str, Any]:
        q = posterior[Z]
        other_laws = {name: law for name, law in posterior.items() if name != Z}
        if not isinstance(layout, NewInputs):
            law_of_rows = _law_of_sites(q, layout)
            if measure is not None:
                law_of_rows = law_of_rows.outward(measure, measure.at_sites[layout])
            return {Z: law_of_rows, **other_laws}
        hyper = as_arrays(hyper if q.hyper is None else q.hyper)
        prior_cov = None if own is None else own(hyper, layout.inputs)
        law_of_inputs = law_of_new(q, hyper, rows(layout.inputs), prior_cov)
        if measure is not None:
            law_of_inputs = law_of_inputs.outward(measure, measure.offset(layout.inputs))
        return {Z: law_of_inputs, **other_laws}

    def data(hyper: Any, values: Values, local: Values, layout: Any, key: PRNGKeyArray) -> Array:
        stats = {name: law.stats(values[name]) for name, law in others.items()}
        law = likelihood(hyper, stats) if measure is None else measure.noise.law(stats[NOISE], 1.0)
        return law.sample(key, values[Z])

    def observations(layout: Any, like: Any) -> Array:
        y = _observations(layout, like)
        if measure is None or not isinstance(like, dict):
            return y
        return jnp.asarray(measure.at_sites[layout] + measure.unit * np.asarray(y), y.dtype)

    return Generative(_layout, data, observed=observations, globals=globals_)


@quick_jit
def _law_of_sites(q: Any, rows: Array) -> Joint:
    return Joint(*q.prior.joint(q.condition(), rows))


def _layout(like: Any) -> Any:
    """The layout of draws: rows of sites for `model.data`, else inputs, also from a pair (inputs,
    y)."""
    remedy = "For the data that the model was fitted to: like=model.data."
    require(not is_size(like), "like", "inputs, or a pair (inputs, y)", like, remedy)
    if isinstance(like, dict) and set(like) == SITES:
        return jnp.asarray(like["site"])
    inputs = like[0] if _is_pair(like) else like
    return NewInputs(inputs)


def _is_pair(like: Any) -> bool:
    return isinstance(like, tuple | list) and len(like) == 2


def _observations(layout: Any, like: Any) -> Array:
    has_responses = _is_pair(like) or isinstance(like, dict)
    require(has_responses, "data", "a pair (inputs, y), or model.data", type(like).__name__)
    return jnp.asarray(
        like["y"] if isinstance(like, dict) else np.asarray(like[1]), jnp.result_type(float)
    )


NUM_LEVELS = 100
"""Equally likely values of z over which the law of y is averaged: levels are then right to half a
per cent."""
NUM_HALVINGS = 50
NUM_DOUBLINGS = 100


class Response(NamedTuple):
    """Predictions.

    Attributes:
      mean: E[y]; for labels -1 and +1 the probability of +1.
      low, high: ends of the central interval of y; for labels, of the posterior of this
          probability.
    """

    mean: Float[Array, " N"]
    low: Float[Array, " N"]
    high: Float[Array, " N"]


def response(likelihood: Likelihood, mean: Any, variance: Any, level: float = 0.95) -> Response:
    """Expectations and central intervals of y for z ~ N(mean, variance) and y ~ p(y | z).

    The interval includes the uncertainty of z and of y given z. For labels, which are not
    quantities, it is an interval of the probability of +1.

    Args:
      likelihood: one that knows its mean (all of `vijax.likelihood` with one predictor do).
      mean: mean of z, (N,).
      variance: variance of z, (N,).
      level: probability of the interval.

    Raises:
      ValueError: a level outside of 0 to 1; a likelihood that does not know its mean.

    >>> import vijax as vi
    >>> found = response(vi.likelihood.gaussian(3.0), np.zeros(1), np.ones(1))
    >>> print([f"{float(x[0]):.2f}" for x in (found.low, found.high)])
    ['-3.92', '3.92']
    """
    require(0 < level < 1, "level", "a probability between 0 and 1", level)
    remedy = "model.law(fit.posterior) is the law that was learnt."
    require(
        likelihood.noise is None, "likelihood", "one whose noise is known", likelihood.name, remedy
    )
    knows = likelihood.mean is not None
    require(
        knows, "likelihood", "one that knows its mean", likelihood.name, "Give it mean= and cdf=."
    )
    m, v = (jnp.asarray(x, jnp.result_type(float)) for x in (mean, variance))
    middle = _mean_response(likelihood, m, v)
    tails = 0.5 * (1 - level), 0.5 * (1 + level)
    if likelihood.cdf is None:
        return Response(middle, *(likelihood.mean(m + jnp.sqrt(v) * ndtri(tail)) for tail in tails))  # type: ignore[misc]
    return Response(
        middle, *(_quantile(likelihood, m, v, jnp.asarray(tail, m.dtype)) for tail in tails)
    )


@functools.partial(jax.jit, static_argnums=0)
def _mean_response(likelihood: Likelihood, m: Array, v: Array) -> Float[Array, " N"]:
    mean: Any = likelihood.mean
    return expect(lambda y, z: mean(z), likelihood, jnp.ones_like(m), m, v)


@functools.partial(jax.jit, static_argnums=0)
def _quantile(likelihood: Likelihood, m: Array, v: Array, level: Array) -> Float[Array, " N"]:
    """The least y with P(Y <= y) >= level, by bisection; for counts a whole number."""
    cdf: Any = likelihood.cdf
    z = m[:, None] + jnp.sqrt(v)[:, None] * jnp.asarray(_standard_values(), m.dtype)
    below = lambda y: jnp.mean(cdf(y[:, None], z), axis=1) < level
    start: Any = likelihood.mean(m)  # type: ignore[misc]
    low = _beyond(start, lambda y: ~below(y), -1.0)
    high = _beyond(start, below, 1.0)

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        under = below(middle)
        return jnp.where(under, middle, low), jnp.where(under, high, middle)

    return jax.lax.fori_loop(0, NUM_HALVINGS, halve, (low, high))[1]


def _standard_values() -> Float[np.ndarray, " levels"]:
    """Quantiles of the standard normal, scaled to variance one."""
    values = special.ndtri((np.arange(NUM_LEVELS) + 0.5) / NUM_LEVELS)
    return values / values.std()


def _beyond(start: Array, is_inside: Any, sign: float) -> Array:
    """A point at which `is_inside` is false, by steps that double."""

    def go(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        y, step, count = carry
        is_in = is_inside(y)
        return jnp.where(is_in, y + sign * step, y), 2 * step, count + 1

    def is_inside_somewhere(carry: tuple[Array, Array, Array]) -> Array:
        return jnp.any(is_inside(carry[0])) & (carry[2] < NUM_DOUBLINGS)

    first = (start, 0.1 * (1 + jnp.abs(start)), jnp.asarray(0))
    return jax.lax.while_loop(is_inside_somewhere, go, first)[0]

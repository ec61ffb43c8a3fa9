"""Collapsed Gibbs sampling of mixtures (Neal 2000, algorithm 3; Hoffman and Blei 2015, section
4.2): it draws one label at a time,

    p(z_n = k | other z, y)  in proportion to  (concentration_k + n_k) p(y_n | the other y_m with z_m = k),

with weights and components integrated out. With concentration alpha / K this is the finite
approximation to a Dirichlet-process mixture."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.checks import require, require_integers
from vijax.evaluate.tokens import check_alpha
from vijax.families import Dirichlet, Family
from vijax.families.point import log_predictive
from vijax.models.emission import Emission, LogLikelihood, LogPredictive
from vijax.xla.lapack import guard_lapack


class CollapsedMixture(NamedTuple):
    """The result of `collapsed_gibbs_mixture`.

    Attributes:
      labels: component of each observation after each sweep.
      log_joint: log p(y, z) after each sweep.
      weights, components: their exact conditionals given the last labels; `.mean()` is the
          posterior mean.
    """

    labels: Int[Array, "sweeps N"]
    log_joint: Float[Array, " sweeps"]
    weights: Dirichlet
    components: Family


def collapsed_gibbs_mixture(
    emission: Emission, y: Any, *, concentration: Any, num_sweeps: int, key: PRNGKeyArray
) -> CollapsedMixture:
    """Collapsed Gibbs sampling of a mixture, exact for every emission: a reference for
    `vijax.models.mixture`.

    The first sweep draws each label given the labels before it; the states after it are a Markov
    chain with p(z | y) as its stationary distribution. `jax.vmap` over keys runs several chains.

    Args:
      emission: the observation model of the components (`vijax.models.emission`).
      y: observations, (N, D).
      concentration: concentration of the Dirichlet prior of the weights, positive: a scalar or one
          per component.
      num_sweeps: number of draws of each label.
      key: random key of the draws.

    Raises:
      ValueError: a concentration or a number of sweeps out of range, data outside the support, or
        an emission whose components share parameters.

    >>> from vijax.models.emission import bernoulli
    >>> y = jnp.array([[1.0, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
    >>> run = collapsed_gibbs_mixture(bernoulli(5, 4), y, concentration=0.1, num_sweeps=50, key=jax.random.key(0))
    >>> run.labels.shape, bool(run.labels[-1, 0] == run.labels[-1, 2])
    ((50, 4), True)
    """
    require_integers(num_sweeps=num_sweeps)
    are_separate = emission.shared_by is None
    expected = "components that share no parameters"
    require(are_separate, "emission", expected, "tied_gaussian", "Use vijax.reference.gibbs.")
    is_complete = not emission.takes_missing
    remedy = "Remove rows with missing cells."
    require(is_complete, "emission", "rows without missing cells", "incomplete(...)", remedy)
    concentration = check_alpha(concentration, emission.num_components, "concentration")
    emission.check(y)
    prior = jax.tree.map(jnp.asarray, emission.prior)
    y = jnp.asarray(y, jax.tree.leaves(prior)[0].dtype)
    likelihoods = emission.log_likelihood, emission.predictive
    return _chain(*likelihoods, num_sweeps, prior, y, concentration, key)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
@guard_lapack
def _chain(
    log_likelihood: LogLikelihood,
    predictive: LogPredictive | None,
    num_sweeps: int,
    prior: Family,
    y: Float[Array, "N D"],
    concentration: Float[Array, " K"],
    key: PRNGKeyArray,
) -> CollapsedMixture:
    predict = predictive or functools.partial(log_predictive, log_likelihood)
    zeros = jax.tree.map(jnp.zeros_like, prior.expected_stats())
    size = concentration.shape[0]

    def message(y: Float[Array, " D"]) -> Any:
        """The natural parameters that an observation adds to a component, the same for all."""
        naturals = jax.grad(lambda stats: jnp.sum(log_likelihood(stats, y)))(zeros)
        return jax.tree.map(lambda x: x[0], naturals)

    etas = prior.with_naturals(jax.vmap(message)(y))
    constant = jnp.sum(jax.vmap(lambda y: log_likelihood(zeros, y)[0])(y))

    def conditional(labels: Int[Array, " N"]) -> tuple[Float[Array, " K"], Family]:
        """Conditionals of weights and components given labels; label K means no component."""
        add = lambda lam, eta: lam.at[labels].add(eta, mode="drop")
        return concentration.at[labels].add(1.0, mode="drop"), jax.tree.map(add, prior, etas)

    def draw(tables: tuple, row: tuple) -> tuple[tuple, Array]:
        y, eta, label, key = row
        counts, q = _move(tables, label, eta, -1.0)
        new = jax.random.categorical(key, jnp.log(counts) + predict(q, y)).astype(jnp.int32)
        return _move((counts, q), new, eta, 1.0), new

    def sweep(labels: Int[Array, " N"], key: PRNGKeyArray) -> tuple[Array, tuple]:
        # Tables are recomputed, so that rounding does not add up over sweeps.
        rows = y, etas, labels, jax.random.split(key, len(y))
        (counts, q), labels = jax.lax.scan(draw, conditional(labels), rows)
        prior_normalizer = Dirichlet(concentration).log_normalizer()
        log_prob_labels = Dirichlet(counts).log_normalizer() - prior_normalizer
        log_prob_data = jnp.sum(q.log_normalizer() - prior.log_normalizer()) + constant
        return labels, (labels, log_prob_labels + log_prob_data)

    start = jnp.full(len(y), size, jnp.int32)
    last, (labels, log_joint) = jax.lax.scan(sweep, start, jax.random.split(key, num_sweeps))
    counts, q = conditional(last)
    return CollapsedMixture(labels, log_joint, Dirichlet(counts), q)


def _move(
    tables: tuple, label: Int[Array, ""], eta: Family, sign: float
) -> tuple[Float[Array, " K"], Family]:
    """The tables after an observation joins (+1) or leaves (-1) a component."""
    counts, q = tables
    move = lambda lam, eta: lam.at[label].add(sign * eta, mode="drop")
    return counts.at[label].add(sign, mode="drop"), jax.tree.map(move, q, eta)

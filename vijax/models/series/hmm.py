"""Hidden Markov models with any emission, over sequences of unequal length (Pei 2019, section on
HMMs).

    initial ~ Dirichlet,  rows of transition ~ Dirichlet,  z_1 ~ initial,  z_t | z_{t-1} ~
    transition[z_{t-1}], y_t | z_t = k ~ emission with parameters beta_k

A sequence is a group; its path of states is one local variable, kept joint: q(z) is a Markov chain
whose potentials are the statistics' gradient, its normaliser the forward recursion, its expected
statistics forward-backward. `em` is Baum-Welch; with a Gibbs E-step paths are drawn by forward
filtering and backward sampling."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from vijax.arguments import NotNegative, Positive, check_arguments
from vijax.contract import init as starts
from vijax.contract.expected import expecting, steps
from vijax.contract.model import Estimates, Model
from vijax.contract.room import COPIES, require_room
from vijax.families import Dirichlet, MarkovChain, MarkovChainStats, Product
from vijax.families.chain import chains
from vijax.models.emission import Emission, check_emission
from vijax.models.emission.base import prior_expectation
from vijax.models.energies.energy import energy_model
from vijax.models.series.sequences import check_pair, check_values, hidden_markov, score_of
from vijax.tree import to_device
from vijax.xla.by_value import cache_by_value
from vijax.xla.compiler import once_jit


@cache_by_value
@check_arguments
def hmm(
    emission: Emission | None = None,
    initial_concentration: Positive = 1.0,
    transition_concentration: Positive = 1.0,
    stickiness: NotNegative = 0.0,
    init: starts.Init | None = None,
    prior_as_point: bool = False,
    **others: Any,
) -> Model:
    """A hidden Markov model with K = `emission.num_components` states.

    Priors of Gaussian emissions are about zero and of scale one: for other columns make the
    emission by `vijax.models.emission.placed`, or bring them to mean 0 and deviation 1.

    Args:
      emission: the observation model of the states (`vijax.models.emission`).
      initial_concentration: concentration of the Dirichlet prior of the first state.
      transition_concentration: concentration of the Dirichlet priors of the next state given each.
      stickiness: number added to the concentration of staying in a state.
      init: the start; by default states by k-means++ on the observations.
      prior_as_point: see `vijax.energy_model`.

    Returns:
      A `Model` with globals `initial`, `transition` and `components`. Data: a pair (y, mask) of
      shapes (N, T, D) and (N, T), the mask true on the steps that exist, which come first (see
      `vijax.models.pad`). A step with a NaN was not seen: the chain goes through it, and its other
      numbers are not read. (`arhmm`, `slds` and `state_space` read the numbers that are there.)
      `fit.locals(data, key=key)["z"]` are the laws of the paths: `.mode()` Viterbi's, `.probs`
      smoothed probabilities.

    Raises:
      TypeError: no emission, or an argument of the emission given to the model.
      ValueError: a concentration that is not positive.

    >>> import vijax as vi
    >>> y = jnp.concatenate([jnp.zeros((20, 1)), jnp.full((15, 1), 9.0), jnp.zeros((5, 1))])
    >>> data = vi.models.pad([y, y[10:]])
    >>> fit = vi.fit(vi.cavi(hmm(vi.models.emission.unit_gaussian(2, 1))), data, num_steps=20, key=jax.random.key(0))
    >>> print(jnp.sort(fit.posterior["components"].mean()[:, 0]).round(1))
    [0. 9.]
    """
    emission = check_emission(emission, others)
    size, log_likelihood = emission.num_components, emission.log_likelihood
    require_room("emission", f"{size:,} states", COPIES * size**2)  # of transitions
    rows = transition_concentration * np.ones((size, size)) + stickiness * np.eye(size)

    def energy(
        stats: Any, group: tuple[Float[Array, "T D"], Bool[Array, " T"]]
    ) -> Float[Array, ""]:
        y, seen = seen_steps(group[0])
        fits = jax.vmap(lambda y: log_likelihood(stats["components"], y))(y)
        fits = jnp.where(seen[:, None], fits, 0.0)
        z = stats["z"]
        chain = z.initial @ stats["initial"].log + jnp.vdot(z.transition, stats["transition"].log)
        return chain + jnp.vdot(z.unary, fits)

    def locals_(group: tuple[Array, Array]) -> dict[str, Any]:
        y, mask = group
        dtype = jnp.result_type(float)
        zeros = (
            to_device(np.zeros(shape, dtype)) for shape in ((size,), (size, size), (len(y), size))
        )
        return {"z": MarkovChain(*zeros).with_context(jnp.asarray(mask, bool))}

    made = energy_model(
        globals={
            "initial": Dirichlet.from_concentration(initial_concentration * np.ones(size)),
            "transition": Dirichlet.from_concentration(rows),
            "components": emission.prior,
        },
        locals=locals_,
        energy=energy,
        example=(np.stack([emission.example, emission.example]), np.array([True, True])),
        init=init or states_by_kmeans(size),
        check_data=lambda data: _check(emission, data),
        score=lambda hyper, q, data, key: score(emission, q, data),
        prior_as_point=prior_as_point,
        generative=hidden_markov(emission, lambda data: _check(emission, data)),
    )
    made = dataclasses.replace(made, form=dataclasses.replace(made.form, enough=require_seen))
    return expecting(made, prior_expectation(emission, steps))


@cache_by_value
def states_by_kmeans(num_states: int, num_iters: int = 100) -> starts.Init:
    """The start: each step in the state of the nearest centre, by k-means++ on the observations of
    all sequences."""

    def start(key: PRNGKeyArray, context: starts.Context) -> Product:
        y, mask = map(jnp.asarray, context.data().data)
        mask = mask & context.counts()[:, None]
        y, seen = seen_steps(y)
        points = y.reshape(-1, y.shape[-1]).astype(jnp.result_type(float))
        weights = (mask & seen).reshape(-1).astype(points.dtype)
        labels = starts.nearest_labels(key, points, weights, num_states, num_iters).reshape(
            mask.shape
        )
        stats = jax.vmap(lambda z, m: chains.chain_stats(z, num_states, True, m, points.dtype))(
            labels, mask
        )
        return context.conditional({"z": MarkovChainStats(*stats)})

    return start


def score(emission: Emission, q: Estimates, data: PyTree) -> Any:
    """Held-out log probability of sequences at the posterior mean of the chain and the predictive
    densities of the emissions (after EM and MAP at the point that they found): nats per step, with
    its standard error over sequences."""
    _check(emission, data)
    return score_of(functools.partial(_log_densities, emission), q, data)


def _work(emission: Emission, q: Estimates, y: Array, mask: Array) -> int:
    return int(y.size * jax.tree.leaves(q["transition"])[0].size)  # K^2 for each number


@functools.partial(once_jit, work=_work, static_argnums=0)
def _log_densities(emission: Emission, q: Estimates, y: Array, mask: Array) -> Float[Array, " N"]:
    """log p(y_n) at the mean chain and the predictive densities, sequence by sequence."""
    initial, transition = (jnp.log(q[name].mean()) for name in ("initial", "transition"))
    emit = jax.vmap(lambda y: emission.log_predictive(q["components"], y))
    y, seen = seen_steps(y)
    log_density = lambda y, seen: jnp.where(seen[:, None], emit(y), 0.0)
    return jax.vmap(
        lambda y, s, m: chains.chain_log_normalizer(initial, transition, log_density(y, s), m)
    )(y, seen, mask)


def seen_steps(y: Array) -> tuple[Array, Bool[Array, "*batch T"]]:
    """The steps, zero where one lacks a number, and a mask of those that lack none."""
    if not jnp.issubdtype(y.dtype, jnp.floating):
        return y, jnp.ones(y.shape[:-1], bool)
    seen = ~jnp.isnan(y).any(axis=-1)
    return jnp.where(seen[..., None], y, 0.0), seen


def _check(emission: Emission, data: PyTree) -> None:
    y, mask = check_pair(data)
    check_values(np.isinf(y), y, mask, "finite numbers, or NaN for a step that was not seen")
    seen = mask & ~np.isnan(y).any(axis=-1)
    if seen.any():
        emission.check(y[seen])
    else:
        emission.check(np.zeros_like(y[mask]))  # the number of columns


def require_seen(data: PyTree) -> None:
    """Raises ValueError where no step was seen: nothing would be fitted."""
    y, mask = check_pair(data)
    if np.isnan(y[mask]).any(axis=-1).all():
        check_values(np.isnan(y), y, mask, "a step without NaN")

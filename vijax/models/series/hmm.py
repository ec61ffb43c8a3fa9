"""Hidden Markov models with any emission, over sequences of unequal length (Pei 2019, section on
HMMs).

    initial ~ Dirichlet,  rows of transition ~ Dirichlet,
    z_1 ~ initial,  z_t | z_{t-1} ~ transition[z_{t-1}],
    y_t | z_t = k ~ emission with parameters beta_k

A sequence is a group; its path of states is one joint local variable. q(z) is a Markov chain whose
potentials are the gradient of the energy in its statistics. Its normaliser is computed by the
forward recursion, its expected statistics by forward-backward. `em` is Baum-Welch; with a Gibbs
E-step paths are drawn by forward filtering and backward sampling."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from vijax.arguments import NotNegative, Positive, check_arguments
from vijax.contract import init as inits
from vijax.contract.expected import expecting, steps
from vijax.contract.model import Estimates, Model
from vijax.contract.room import COPIES, require_room
from vijax.families import MarkovChain, MarkovChainStats, Product
from vijax.families.chain import chains
from vijax.models.emission import Emission, check_emission
from vijax.models.emission.base import prior_expectation
from vijax.models.emission.missing import require_cells
from vijax.models.energies.energy import NOT_LINEAR
from vijax.models.energies.energy_model import Structure, ready_model
from vijax.models.series.known_chain import (
    KnownChain,
    equal_parts,
    known_chain,
    nearest_to_known,
    renumber,
    require_possible,
)
from vijax.models.series.missing_cells import observed_columns, reads_missing, warn_of_partial
from vijax.models.series.sequences import (
    check_pair,
    check_values,
    hidden_markov,
    observed_steps,
    read_steps,
    score_sequences,
)
from vijax.models.series.state_filter import StateFilter
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
    init: inits.Init | None = None,
    prior_as_point: bool = False,
    starts: Any | str | None = None,
    transitions: Any | tuple[str, ...] | None = None,
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
      starts: probabilities of the first state that are known, (K,): 0 for a state in which no
        sequence begins, NaN or None for a probability that is learnt. Or booleans, true for states
        that are possible; or a text with ? for what is learnt, as in "? 0 0".
      transitions: probabilities of the next state (columns) given each (rows) that are known, in
        the same way, (K, K) or a text for each state: ["? ? 0", "0 ? ?", "0 0 1"] or
        `np.triu(np.ones((3, 3), bool))` for left-right models.

    Returns:
      A `Model` with globals `initial`, `transition` and `components`. Data: a pair (y, mask) of
      shapes (N, T, D) and (N, T), the mask true on the steps that exist, which come first (see
      `vijax.models.pad`). A step of NaN is unobserved: the chain runs through it. Cells may be
      missing (NaN) if the emission is `vijax.models.emission.incomplete`: then a step has the
      marginal density of its other cells. With another emission these are not read, as a warning
      says.
      `fit.locals(data, key=key)["z"]` are the laws of the paths: `.mode()` Viterbi's, `.probs`
      smoothed probabilities.

    Raises:
      TypeError: no emission, or an argument of the emission given to the model.
      ValueError: a concentration that is not positive; known probabilities that do not sum to one.

    >>> import vijax as vi
    >>> y = jnp.concatenate([jnp.zeros((20, 1)), jnp.full((15, 1), 9.0), jnp.zeros((5, 1))])
    >>> data = vi.models.pad([y, y[10:]])
    >>> fit = vi.fit(vi.cavi(hmm(vi.models.emission.unit_gaussian(2, 1))), data, num_steps=20, key=jax.random.key(0))
    >>> print(jnp.sort(fit.posterior["components"].mean()[:, 0]).round(1))
    [0. 9.]
    """
    emission = check_emission(emission, others, labels=True)
    # Programs close over what they read of the emission and not over its prior: models of other
    # priors share them.
    size, log_likelihood = emission.num_components, emission.log_likelihood
    takes_missing = emission.takes_missing
    require_room("emission", f"{size:,} states", COPIES * size**2)  # of transitions
    rows = transition_concentration * np.ones((size, size)) + stickiness * np.eye(size)
    chain = known_chain(size, starts, transitions)

    def energy(
        stats: Any, group: tuple[Float[Array, "T D"], Bool[Array, " T"]]
    ) -> Float[Array, ""]:
        y, is_observed = read_steps(takes_missing, group[0])
        fits = jax.vmap(lambda y: log_likelihood(stats["components"], y))(y)
        fits = jnp.where(is_observed[:, None], fits, 0.0)
        z = stats["z"]
        moves = z.initial @ stats["initial"].log + jnp.vdot(z.transition, stats["transition"].log)
        return moves + jnp.vdot(z.unary, fits)

    def locals_(group: tuple[Array, Array]) -> dict[str, Any]:
        y, mask = group
        dtype = jnp.result_type(float)
        zeros = (
            to_device(np.zeros(shape, dtype)) for shape in ((size,), (size, size), (len(y), size))
        )
        return {"z": MarkovChain(*zeros).with_context(jnp.asarray(mask, bool))}

    plain_model = ready_model(
        globals={
            **chain.prior(initial_concentration * np.ones(size), rows),
            "components": emission.prior,
        },
        locals=locals_,
        energy=energy,
        example=(np.stack([emission.example, emission.example]), np.array([True, True])),
        init=init or states_by_kmeans(emission, chain=chain),
        check_data=lambda data: _check(emission, data, chain),
        score=lambda hyper, q, data, key: score(emission, q, data, chain),
        structure=Structure(impossible=chain.impossible()),
        prior_as_point=prior_as_point,
        generative=hidden_markov(emission, lambda data: _check(emission, data)),
    )
    answer = functools.partial(StateFilter.from_estimates, emission)
    queries = {**plain_model.queries, "filter": answer}
    if not emission.is_linear:
        queries[NOT_LINEAR] = "one whose missing cells depend on the others"
    enough = functools.partial(_require_enough, emission)
    plain_model = dataclasses.replace(
        plain_model,
        form=dataclasses.replace(plain_model.form, enough=enough),
        shrinks=("components",),
        queries=queries,
    )
    return expecting(plain_model, prior_expectation(emission, steps))


@cache_by_value
def states_by_kmeans(emission: Emission, chain: KnownChain, num_iters: int = 100) -> inits.Init:
    """The start: states by k-means++ on the observations of all sequences, in which means of columns
    stand for missing cells that the emission has a law for. With zeros in the chain they have
    numbers that make few impossible transitions; in a left-right model they are equal parts of the
    sequences. Where states are known, the others are those of the nearest mean."""
    num_states, has_labels = emission.num_components, emission.has_labels
    takes_missing = (emission.unlabelled or emission).takes_missing

    def start(key: PRNGKeyArray, context: inits.Context) -> Product:
        y, mask = map(jnp.asarray, context.data().data)
        mask = mask & context.counts()[:, None]
        states = None
        if has_labels:
            y, states = y[..., :-1], y[..., -1]
        if takes_missing:
            y, is_observed = _fill_cells(y, mask)
        else:
            y, is_observed = observed_steps(y)
        points = y.reshape(-1, y.shape[-1]).astype(jnp.result_type(float))
        weights = (mask & is_observed).reshape(-1).astype(points.dtype)
        labels = inits.nearest_labels(key, points, weights, num_states, num_iters)
        labels = labels.reshape(mask.shape)
        if chain.goes_right:
            labels = equal_parts(mask, num_states)
        elif chain.has_zeros or states is not None:
            labels = renumber(labels, mask, chain, states)
        if states is not None:
            labels = nearest_to_known(labels, y, mask & is_observed, states, num_states)
        chain_stats = lambda z, m: chains.chain_stats(z, num_states, True, m, points.dtype)
        stats = jax.vmap(chain_stats)(labels, mask)
        return context.conditional({"z": MarkovChainStats(*stats)})

    return start


def score(emission: Emission, q: Estimates, data: PyTree, chain: KnownChain | None = None) -> Any:
    """Held-out log probability of sequences at the posterior mean of the chain, with predictive
    densities of the emissions (after EM and MAP at the point estimate): nats per step, with a
    standard error over sequences."""
    _check(emission, data, chain)
    return score_sequences(functools.partial(_log_densities, emission), q, data)


def _work(emission: Emission, q: Estimates, y: Array, mask: Array) -> int:
    return int(y.size * jax.tree.leaves(q["transition"])[0].size)  # K^2 for each number


@functools.partial(once_jit, work=_work, static_argnums=0)
def _log_densities(emission: Emission, q: Estimates, y: Array, mask: Array) -> Float[Array, " N"]:
    """log p(y_n) at the mean chain and the predictive densities, sequence by sequence."""
    initial, transition = (jnp.log(q[name].mean()) for name in ("initial", "transition"))
    emit = jax.vmap(lambda y: emission.log_predictive(q["components"], y))
    y, is_observed = read_steps(emission.takes_missing, y)
    log_density = lambda y, is_observed: jnp.where(is_observed[:, None], emit(y), 0.0)
    return jax.vmap(
        lambda y, s, m: chains.chain_log_normalizer(initial, transition, log_density(y, s), m)
    )(y, is_observed, mask)


def _fill_cells(
    y: Float[Array, "N T D"], mask: Bool[Array, "N T"]
) -> tuple[Float[Array, "N T D"], Bool[Array, "N T"]]:
    """The steps with means of columns in place of missing cells, and the mask of those with a
    cell."""
    rows = inits.fill_cells(y.reshape(-1, y.shape[-1]), mask.reshape(-1))
    return rows.reshape(y.shape), mask & ~jnp.isnan(y).all(axis=-1)


def _check(emission: Emission, data: PyTree, chain: KnownChain | None = None) -> None:
    y, mask = check_pair(data)
    check_values(np.isinf(y), y, mask, "finite numbers, or NaN for a step that was not seen")
    warn_of_partial(emission, y[mask], "data")
    is_lacking = np.isnan(y).any(axis=-1)
    if emission.takes_missing:
        is_lacking = np.isnan(y).all(axis=-1)
    is_observed = mask & ~is_lacking
    if is_observed.any():
        emission.check(y[is_observed])
    else:
        emission.check(np.zeros_like(y[mask]))  # the number of columns
    if emission.has_labels and chain is not None and chain.has_zeros:
        require_possible(chain, y[..., -1], mask)


def _require_enough(emission: Emission, data: PyTree) -> None:
    """Raises ValueError if no step, or no cell of a column, is observed."""
    y, mask = check_pair(data)
    if reads_missing(emission):
        require_cells(observed_columns(emission, y[mask]))
    else:
        require_observations((observed_columns(emission, y), mask))


def require_observations(data: PyTree) -> None:
    """Raises ValueError if no step is observed: nothing would be fitted."""
    y, mask = check_pair(data)
    if np.isnan(y[mask]).any(axis=-1).all():
        check_values(np.isnan(y), y, mask, "a step without NaN")

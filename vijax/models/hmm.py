"""Hidden Markov models with any emission, over sequences of unequal length (seed 003, section on HMMs).

    initial ~ Dirichlet,  rows of transition ~ Dirichlet,  z_1 ~ initial,  z_t | z_{t-1} ~ transition[z_{t-1}],
    y_t | z_t = k ~ emission with parameters beta_k

A sequence is a group; its path of states is one local variable, kept joint: q(z) is a Markov chain whose potentials
are the statistics' gradient, its normaliser the forward recursion, its expected statistics forward-backward. `em` is
Baum-Welch; with a Gibbs E-step paths are drawn by forward filtering and backward sampling.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from vijax import init as starts
from vijax import tree
from vijax.families import Dirichlet, MarkovChainStats, Product, chains
from vijax.families.base import require
from vijax.model import Model
from vijax.models.emission import Emission, log_predictive
from vijax.models.energy import energy_model


@tree.register
@dataclasses.dataclass(frozen=True)
class Path:
    """q of the states of one sequence: a `MarkovChain` with a mask, padded steps of which count nowhere."""

    potentials: MarkovChainStats
    mask: Bool[Array, " T"]

    def with_naturals(self, leaves: PyTree) -> Path:
        """Other potentials, the same mask."""
        return Path(MarkovChainStats(*jax.tree.leaves(leaves)), self.mask)

    def log_normalizer(self) -> Float[Array, ""]:
        """Log of the sum over paths."""
        return chains.chain_log_normalizer(*self.potentials, self.mask)

    def dot(self, stats: MarkovChainStats) -> Float[Array, ""]:
        """Potentials times statistics."""
        return sum((jnp.vdot(a, b) for a, b in zip(self.potentials, stats, strict=True)), jnp.zeros(()))

    def expected_stats(self) -> MarkovChainStats:
        """Smoothed marginals of states and pairs."""
        initial, transition, unary = self.potentials
        gradient = jax.grad(chains.chain_log_normalizer, argnums=(0, 1, 2))
        return MarkovChainStats(*gradient(initial, transition, unary, self.mask))

    def sample(self, key: PRNGKeyArray) -> Int[Array, " T"]:
        """A path; 0 on padded steps."""
        return chains.chain_sample(key, *self.potentials, self.mask)

    def stats(self, path: Int[Array, " T"]) -> MarkovChainStats:
        """Statistics of a path."""
        size = self.potentials.initial.shape[-1]
        return MarkovChainStats(*chains.chain_stats(path, size, True, self.mask, self.potentials.initial.dtype))

    def sample_stats(self, key: PRNGKeyArray) -> MarkovChainStats:
        """Statistics of a draw."""
        return self.stats(self.sample(key))

    def mode(self) -> Int[Array, " T"]:
        """The likeliest path (Viterbi)."""
        return chains.chain_mode(*self.potentials, self.mask)

    @property
    def probs(self) -> Float[Array, "T K"]:
        """Smoothed probabilities of the states."""
        return self.expected_stats().unary


def hmm(
    emission: Emission,
    initial_concentration: float = 1.0,
    transition_concentration: float = 1.0,
    stickiness: float = 0.0,
    init: starts.Init | None = None,
) -> Model:
    """A hidden Markov model with K = `emission.num_components` states.

    Args:
      emission: what states emit (`vijax.models.emission`).
      initial_concentration: of the Dirichlet prior of the first state.
      transition_concentration: of those of the next state given each.
      stickiness: added to the concentration of staying where one is.
      init: states by k-means++ on the observations by default.

    Returns:
      A `Model` with globals `initial`, `transition` and `components`. Data: a pair (y, mask) of shapes (N, T, D) and
      (N, T), the mask true on the steps that exist, which come first (see `pad`). `fit.locals(data, key=key)["z"]` is
      the path's law: `jax.vmap(lambda z: z.mode())` of it is Viterbi's, `z.probs` smoothed probabilities.

    Raises:
      ValueError: a concentration that is not positive.

    >>> import vijax as vi
    >>> y = jnp.concatenate([jnp.zeros((20, 1)), jnp.full((15, 1), 9.0), jnp.zeros((5, 1))])
    >>> data = pad([y, y[10:]])
    >>> fit = vi.fit(vi.cavi(hmm(vi.models.emission.unit_gaussian(2, 1))), data, num_steps=20, key=jax.random.key(0))
    >>> print(jnp.sort(fit.posterior["components"].mean()[:, 0]).round(1))
    [0. 9.]
    """
    size = emission.num_components
    given = {"initial_concentration": initial_concentration, "transition_concentration": transition_concentration}
    for name, value in given.items():
        require(value > 0, name, "a positive number", value)
    require(stickiness >= 0, "stickiness", "a number >= 0", stickiness)
    rows = transition_concentration * jnp.ones((size, size)) + stickiness * jnp.eye(size)

    def energy(stats: Any, group: tuple[Float[Array, "T D"], Bool[Array, " T"]]) -> Float[Array, ""]:
        y, _ = group
        fits = jax.vmap(lambda y: emission.log_likelihood(stats["components"], y))(y)
        z = stats["z"]
        chain = z.initial @ stats["initial"].log + jnp.vdot(z.transition, stats["transition"].log)
        return chain + jnp.vdot(z.unary, fits)

    def locals_(group: tuple[Array, Array]) -> dict[str, Any]:
        y, mask = group
        dtype = jnp.result_type(float)
        zeros = jnp.zeros(size, dtype), jnp.zeros((size, size), dtype), jnp.zeros((len(y), size), dtype)
        return {"z": Path(MarkovChainStats(*zeros), jnp.asarray(mask, bool))}

    return energy_model(
        globals={
            "initial": Dirichlet.from_concentration(jnp.full(size, initial_concentration)),
            "transition": Dirichlet.from_concentration(rows),
            "components": emission.prior,
        },
        locals=locals_,
        energy=energy,
        example=(jnp.stack([emission.example, emission.example]), jnp.array([True, True])),
        init=init or states_by_kmeans(size),
        check_data=lambda data: _check(emission, data),
        score=lambda hyper, q, data, key: score(emission, q, data),
    )


def states_by_kmeans(num_states: int, num_iters: int = 10) -> starts.Init:
    """Each step in the state of the nearest centre: k-means++ on the observations of all sequences."""

    def start(key: PRNGKeyArray, context: starts.Context) -> Product:
        y, mask = map(jnp.asarray, context.data().data)
        points = y.reshape(-1, y.shape[-1]).astype(jnp.result_type(float))
        weights = mask.reshape(-1).astype(points.dtype)
        labels = starts.nearest_labels(key, points, weights, num_states, num_iters).reshape(mask.shape)
        stats = jax.vmap(lambda z, m: chains.chain_stats(z, num_states, True, m, points.dtype))(labels, mask)
        return context.implied_by({"z": MarkovChainStats(*stats)})

    return start


def pad(sequences: Any) -> tuple[Float[np.ndarray, "N T D"], Bool[np.ndarray, "N T"]]:
    """Sequences of unequal length, arrays (T_n, D), as one array and the mask of its steps.

    Raises:
      ValueError: there is no sequence, or they are not of one width.

    >>> y, mask = pad([np.zeros((2, 1)), np.ones((3, 1))])
    >>> y.shape, mask.tolist()
    ((2, 3, 1), [[True, True, False], [True, True, True]])
    """
    rows = [np.atleast_2d(np.asarray(s)) if np.size(s) else np.asarray(s) for s in sequences]
    widths = {row.shape[1] for row in rows if row.ndim == 2}
    require(len(widths) == 1, "sequences", "arrays (T, D) of one width D", f"widths {sorted(widths)}")
    steps = np.array([row.shape[0] if row.ndim == 2 else 0 for row in rows])
    mask = np.arange(max(steps.max(), 1)) < steps[:, None]
    y = np.zeros((*mask.shape, widths.pop()), np.result_type(*rows, np.float32))
    for n, row in enumerate(rows):
        y[n, : steps[n]] = row
    return y, mask


def score(emission: Emission, q: Product, data: PyTree) -> Any:
    """Held-out log probability of sequences at the posterior mean of the chain and the predictive densities of the
    emissions: nats per step, with its standard error over sequences."""
    from vijax.evaluate import Score

    _check(emission, data)
    y, mask = map(np.asarray, data)
    with jax.enable_x64(True):
        q = jax.tree.map(lambda x: jnp.asarray(np.asarray(x), jnp.float64), q)
        densities = _log_densities(emission.log_likelihood, q, jnp.asarray(y, jnp.float64), jnp.asarray(mask))
    return Score.of(np.asarray(densities), mask.sum(axis=1))


@functools.partial(jax.jit, static_argnums=0)
def _log_densities(log_likelihood: Any, q: Product, y: Array, mask: Array) -> Float[Array, " N"]:
    """log p(y_n) at the mean chain and the predictive densities, sequence by sequence."""
    initial, transition = (jnp.log(q[name].mean()) for name in ("initial", "transition"))
    emit = jax.vmap(lambda y: log_predictive(log_likelihood, q["components"], y))
    return jax.vmap(lambda y, m: chains.chain_log_normalizer(initial, transition, emit(y), m))(y, mask)


def _check(emission: Emission, data: PyTree) -> None:
    pair = isinstance(data, tuple) and len(data) == 2
    require(pair, "data", "a pair (y, mask)", type(data).__name__, "See vijax.models.pad.")
    y, mask = map(np.asarray, data)
    fits = y.ndim == 3 and mask.shape == y.shape[:2]
    require(fits, "data", "y of shape (N, T, D) and mask of shape (N, T)", f"{y.shape} and {mask.shape}")
    first = np.all(np.diff(mask.astype(int), axis=1) <= 0)
    require(first, "data", "masks true on the first steps of each sequence", "gaps", "See vijax.models.pad.")
    require(mask.any(), "data", "at least one step", "sequences that are all empty")
    emission.check(y[mask])

"""The computations of a structured autoencoder for one group, which is an observation or a
sequence: locals, bound and importance ratios."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.checks import require
from vijax.contract.model import Hyper
from vijax.families import Family
from vijax.inference.estep.conditionals import Conditionals, fixed_sweeps
from vijax.inference.estep.networks import Structured
from vijax.models.energies.energy import Energy
from vijax.models.networks.autoencoder import Network, as_network
from vijax.models.networks.observed import Observed

Potentials = tuple[Array, ...]
"""Natural parameters, one array for each statistic of the latent."""


@dataclasses.dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a structured autoencoder."""

    surrogate: Energy  # the conjugate model, whose groups hold potentials
    latent: str  # name of the local that the decoder reads
    encode: Callable[[PyTree, PyTree], Any]  # (params, x) -> a group of the surrogate
    decode: Callable[[PyTree, Array], Any]  # (params, latent) -> the input of the likelihood
    observed: Observed  # the likelihood of one observation
    # (params of the decoder, latent, x) -> log p(x | latent)
    fits: Callable[[PyTree, Array, PyTree], Float[Array, ""]]
    # group -> the group without potentials
    silent: Callable[[Any], Any] = lambda group: jax.tree.map(jnp.zeros_like, group)

    def infer(self, estep: Structured, stats: PyTree, group: Any) -> tuple[dict[str, Family], Any]:
        """q of one group's locals, and E_q[energy] plus entropies."""
        energy = self.surrogate
        shared = stats if estep.through_globals else jax.lax.stop_gradient(stats)
        conditionals = lambda block, local: energy.conditionals(
            block, {**shared, **local}, group, {}
        )
        begin = dict((energy.start or energy.locals)(group))
        inferred = fixed_sweeps(
            Conditionals(begin, conditionals, energy.local_blocks), estep.num_sweeps
        )
        means = jax.tree.map(lambda t: t[0], inferred.states)
        return inferred.factors, energy.fn(
            {**stats, **means}, self.silent(group), {}
        ) + inferred.gap

    def ratios(
        self,
        estep: Structured,
        points: Hyper,
        stats: PyTree,
        q: Family,
        draws: Float[Array, draws * latent],
        group: Any,
        x: PyTree,
    ) -> Float[Array, " draws"]:
        """log p(x, u | globals) - log q(u) at draws u of the latent. The other locals have their
        optimal q given u: they are summed over exactly if they do not depend on each other, else by
        a bound."""
        energy = self.surrogate
        shared = stats if estep.through_globals else jax.lax.stop_gradient(stats)
        begin = dict((energy.start or energy.locals)(group))
        begin.pop(self.latent)
        blocks = [
            tuple(name for name in block if name != self.latent) for block in energy.local_blocks
        ]

        def ratio(u: Array) -> Float[Array, ""]:
            latent_stats = {self.latent: q.stats(u)}
            conditionals = lambda block, local: energy.conditionals(
                block, {**shared, **latent_stats, **local}, group, {}
            )
            problem = Conditionals(begin, conditionals, tuple(block for block in blocks if block))
            inferred = fixed_sweeps(problem, estep.num_sweeps)
            means = jax.tree.map(lambda t: t[0], inferred.states)
            log_joint = (
                energy.fn({**stats, **means, **latent_stats}, self.silent(group), {}) + inferred.gap
            )
            # Without the base measure, which the energy leaves out too.
            minus_log_q = jnp.sum(q.log_normalizer() - q.dot(latent_stats[self.latent]))
            return log_joint + minus_log_q + self.fits(points["decoder"], u, x)

        return jax.vmap(ratio)(draws)

    def bound(
        self, estep: Structured, points: Hyper, stats: PyTree, key: PRNGKeyArray, x: PyTree
    ) -> tuple[Float[Array, ""], dict[str, Family]]:
        """The bound of one group, and q of its locals."""
        group = self.encode(points["encoder"], x)
        factors, local_bound = self.infer(estep, stats, group)
        draws = factors[self.latent].sample(key, (estep.num_samples,))
        if estep.objective is not None:
            ratios = self.ratios(estep, points, stats, factors[self.latent], draws, group, x)
            return estep.objective.bound(ratios), factors
        fits = jax.vmap(lambda u: self.fits(points["decoder"], u, x))(draws)
        return local_bound + jnp.mean(fits), factors


def as_potentials(encoder: Network) -> Network:
    """An encoder of `vijax.models.vae` as an encoder of `vijax.models.svae`, for a `Normal` latent:
    it turns (mean, log sd) into the potentials of this normal.

    So a structured autoencoder can start from the networks of a plain one::

        plain = vi.fit(vi.aevb(vae), x, num_epochs=5, batch_size=128, key=key).state.hyper
        model = vi.models.svae(..., encoder=vi.models.as_potentials((encode, plain["encoder"])),
                               decoder=(decode, plain["decoder"]))

    Args:
      encoder: (apply, params); `apply(params, x)` of one observation returns (mean, log sd), each
          of shape (K,).

    Returns:
      (apply, params) with the same params.

    >>> apply, params = as_potentials((lambda w, x: (w * x, jnp.zeros(1)), jnp.ones(1)))
    >>> [part.tolist() for part in apply(params, jnp.array([3.0]))]
    [[3.0], [-0.5]]
    """
    encode, params = as_network("encoder", encoder)

    def apply(params: PyTree, x: Array) -> tuple[Array, Array]:
        mean, log_sd = encode(params, x)
        precision = jnp.exp(-2.0 * log_sd)
        return precision * mean, -0.5 * precision

    return apply, params


def check_potentials(potentials: Any, like: Potentials) -> Potentials:
    """The potentials as a tuple; ValueError unless there is one for each natural parameter, with
    its shape."""
    leaves = tuple(tree.parameters(potentials))
    shapes = [tuple(leaf.shape) for leaf in like]
    actual = [jnp.shape(leaf) for leaf in leaves]
    remedy = "One for each natural parameter."
    require(actual == shapes, "encoder", f"potentials of shapes {shapes}", actual, remedy)
    return leaves

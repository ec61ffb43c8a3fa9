"""The computations of a structured autoencoder for one observation: its locals, its bound, its importance ratios."""

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
from vijax.families import Categorical, Family
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

    surrogate: Energy  # the conjugate model, whose groups are potentials
    latent: str  # name of the local that the decoder reads
    encode: Callable[[PyTree, Array], Any]  # (params, x) -> potentials
    decode: Callable[[PyTree, Array], Any]  # (params, latent) -> the output that the likelihood reads
    observed: Observed  # the likelihood

    def potentials(self, encoder: PyTree, x: Array) -> Potentials:
        """The encoder's potentials for one observation, their shapes checked."""
        return _potentials(self.encode(encoder, x), self.surrogate.shown.example)

    def latent_of(self, stats: PyTree, key_class: PRNGKeyArray, key_latent: PRNGKeyArray) -> Array:
        """A draw of the latent given statistics of the globals.

        log p(class) = E(u, class) - log p(u | class) at any u (candidate's formula; here at 0), up to a constant: its
        conditional is known for every class.
        """
        energy = self.surrogate
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), energy.shown.example)  # no potentials
        templates = dict(energy.locals(nothing))
        zero = {self.latent: templates[self.latent].stats(jnp.zeros_like(templates[self.latent].mean()))}
        latent = lambda local: energy.conditionals((self.latent,), {**stats, **local}, nothing, {})[self.latent]
        others = [name for name in templates if name != self.latent]
        if not others:
            return latent(zero).sample(key_latent)
        kind = templates[others[0]]
        known = len(others) == 1 and isinstance(kind, Categorical) and kind.batch_shape == ()
        remedy = "For other models draw the latents yourself, and use model.decoded(fit, latents)."
        require(known, "generate", "a model whose other local is one class", f"the locals {sorted(templates)}", remedy)
        assert isinstance(kind, Categorical)

        def log_prob(one_hot: Array) -> Float[Array, ""]:
            local = {others[0]: kind.stats(jnp.argmax(one_hot)), **zero}
            q = latent(local)
            return energy.fn({**stats, **local}, nothing, {}) + jnp.sum(q.log_normalizer() - q.dot(zero[self.latent]))

        classes = jnp.eye(kind.probs.shape[-1])
        drawn = jax.random.categorical(key_class, jax.vmap(log_prob)(classes))
        return latent({others[0]: kind.stats(drawn), **zero}).sample(key_latent)

    def infer(self, estep: Structured, stats: PyTree, potentials: Potentials) -> tuple[dict[str, Family], Any]:
        """q of one observation's locals, and E_q[energy] plus entropies."""
        energy = self.surrogate
        held = stats if estep.through_globals else jax.lax.stop_gradient(stats)
        given = lambda block, local: energy.conditionals(block, {**held, **local}, potentials, {})
        begin = dict((energy.start or energy.locals)(potentials))
        found = fixed_sweeps(Conditionals(begin, given, energy.local_blocks), estep.num_sweeps)
        means = jax.tree.map(lambda t: t[0], found.states)
        nothing = jax.tree.map(jnp.zeros_like, potentials)
        return found.factors, energy.fn({**stats, **means}, nothing, {}) + found.gap

    def ratios(
        self,
        estep: Structured,
        points: Hyper,
        stats: PyTree,
        q: Family,
        draws: Float[Array, draws * latent],
        potentials: Potentials,
        x: Array,
    ) -> Float[Array, " draws"]:
        """log p(x, u | globals) - log q(u) at draws u of the latent. The other locals are at their best given each u:
        summed over exactly where they do not depend on each other, else by a bound."""
        energy = self.surrogate
        held = stats if estep.through_globals else jax.lax.stop_gradient(stats)
        begin = dict((energy.start or energy.locals)(potentials))
        begin.pop(self.latent)
        blocks = [tuple(name for name in block if name != self.latent) for block in energy.local_blocks]
        nothing = jax.tree.map(jnp.zeros_like, potentials)

        def one(u: Array) -> Float[Array, ""]:
            here = {self.latent: q.stats(u)}
            given = lambda block, local: energy.conditionals(block, {**held, **here, **local}, potentials, {})
            problem = Conditionals(begin, given, tuple(block for block in blocks if block))
            found = fixed_sweeps(problem, estep.num_sweeps)
            means = jax.tree.map(lambda t: t[0], found.states)
            inside = energy.fn({**stats, **means, **here}, nothing, {}) + found.gap
            own = jnp.sum(q.log_normalizer() - q.dot(here[self.latent]))  # - log q(u), without its base measure
            return inside + own + self.observed.log_prob(self.decode(points["decoder"], u), x)

        return jax.vmap(one)(draws)

    def bound(
        self, estep: Structured, points: Hyper, stats: PyTree, key: PRNGKeyArray, x: Array
    ) -> tuple[Float[Array, ""], dict[str, Family]]:
        """The bound of one observation, and q of its locals."""
        potentials = self.potentials(points["encoder"], x)
        factors, inside = self.infer(estep, stats, potentials)
        draws = factors[self.latent].sample(key, (estep.num_samples,))
        if estep.objective is not None:
            ratios = self.ratios(estep, points, stats, factors[self.latent], draws, potentials, x)
            return estep.objective.bound(ratios), factors
        fits = jax.vmap(lambda u: self.observed.log_prob(self.decode(points["decoder"], u), x))(draws)
        return inside + jnp.mean(fits), factors


def as_potentials(encoder: Network) -> Network:
    """An encoder of `vijax.models.vae` as one of `vijax.models.svae`, for a latent that is a `Normal`: it turns (mean,
    log sd) into the potentials of this normal.

    So a structured autoencoder can begin at the networks of a plain one::

        plain = vi.fit(vi.aevb(vae), x, num_epochs=5, batch_size=128, key=key).state.hyper
        model = vi.models.svae(..., encoder=vi.models.as_potentials((encode, plain["encoder"])),
                               decoder=(decode, plain["decoder"]))

    Args:
      encoder: (apply, params); `apply(params, x)` of one observation returns (mean, log sd), each of shape (K,).

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


def _potentials(said: Any, like: Potentials) -> Potentials:
    """One potential for each natural parameter, of its shape."""
    leaves = tuple(tree.parameters(said))
    shapes = [tuple(leaf.shape) for leaf in like]
    got = [jnp.shape(leaf) for leaf in leaves]
    require(got == shapes, "encoder", f"potentials of shapes {shapes}", got, "One for each natural parameter.")
    return leaves

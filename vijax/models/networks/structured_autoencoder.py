"""The structured variational autoencoder (Johnson, Duvenaud, Wiltschko, Datta and Adams 2016): a
conjugate model of the latents, with networks between latents and data.

    beta ~ conjugate priors,   z_n, u_n | beta ~ exp energy,   x_n | u_n ~ p(x | decoder(u_n))

The encoder gives potentials psi(x_n) on the statistics of the latent u_n, conjugate to it. q of the
locals is then computed as in a model without networks, by coordinate ascent on  E_q[energy] + <psi,
E_q[t(u)]> + entropies. The bound is

    E_q[energy] + entropies + E_q(u)[log p(x | decoder(u))].

The conjugate model is an `energy_model` whose data are the potentials.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.checks import require, require_integers
from vijax.contract import init as starts
from vijax.contract.batch import DataForm
from vijax.contract.model import Hyper, Model
from vijax.contract.queries import Generative
from vijax.families import Categorical, Family, MultivariateNormal, Normal, Product
from vijax.inference.estep.networks import structured
from vijax.models.energies.energy import model_energy
from vijax.models.energies.energy_model import Structure, energy_model
from vijax.models.networks.autoencoder import Network, as_network, observations_like
from vijax.models.networks.between_networks import BetweenNetworks, model_between_networks
from vijax.models.networks.observed import Observed
from vijax.models.networks.structured_parts import Parts, Potentials, check_potentials
from vijax.xla.by_value import cache_by_value
from vijax.xla.compiler import cached_program, step_jit


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StructuredAutoencoder(BetweenNetworks):
    """A structured variational autoencoder; made by `svae`."""

    def generate(self, fit: Any, key: PRNGKeyArray, num_draws: int) -> Array:
        """E[x | decoder(latent)] at draws of the latent from the fitted model: the globals are
        drawn from their posterior, then the class, then the latent given both.

        Raises:
          ValueError: `num_draws` below 1; locals other than the latent and one class.
        """
        require_integers(num_draws=num_draws)
        program = cached_program(
            self, ("generate", num_draws), lambda of: step_jit(_generating(of, num_draws))
        )
        return self.decoded(fit, program(fit.posterior, key))


def _generating(of: weakref.ref[StructuredAutoencoder], num_draws: int) -> Callable[..., Array]:
    def draw(posterior: Product, key: PRNGKeyArray) -> Array:
        model: Any = of()
        key_globals, key_class, key_latent = jax.random.split(key, 3)
        stats = dict(posterior.sample_stats(key_globals))
        return draw_latent(model.parts, stats, key_class, key_latent)

    return lambda posterior, key: jax.vmap(draw, (None, 0))(
        posterior, jax.random.split(key, num_draws)
    )


@cache_by_value
def svae(
    *,
    globals: Mapping[str, Family],
    locals: Mapping[str, Family],
    energy: Callable[[Mapping[str, Any]], Float[Array, ""]],
    latent: str,
    encoder: Network,
    decoder: Network,
    observed: Observed,
    init: starts.Init | None = None,
) -> StructuredAutoencoder:
    """A structured variational autoencoder of any conjugate model of one observation's locals and
    any two networks.

    Args:
      globals: conjugate priors of the globals, by name.
      locals: families of one observation's locals, by name. Coordinate ascent starts at them, with
        the potentials added to the latent. Each is one block: entries of one local may not depend
        on each other.
      energy: (stats) -> log p(locals | globals) less base measures of one observation, as in
        `vijax.energy_model` without the data.
      latent: the local that the decoder reads: a `Normal` of shape (K,) or a `MultivariateNormal`
          of dimension K.
      encoder: (apply, params); `apply(params, x)` of one observation returns the potentials on the
        latent's statistics, one array for each natural parameter of its family: for a normal a pair
        (h, -J / 2), each of shape (K,), for a multivariate one (h, -J / 2) of shapes (K,), (K, K).
        Keep J positive: let a network give m and log J, and return (J m, -J / 2). With classes,
        start from the networks of a plain `vae` after some passes over the data
        (`vijax.models.as_potentials`): random networks do not separate the classes, and most
        classes stay empty.
      decoder: (apply, params); `apply(params, u)` of one latent of shape (K,) returns the output
          that `observed` reads.
      observed: p(x | output), from `vijax.models.networks.observed`.
      init: the start of the globals (`vijax.init`), with the potentials of the encoder as data; by
        default k-means++ on the potentials if there is a class, else the prior.

    Returns:
      A `Model`, for `vijax.aevb` (natural gradients for the globals, Adam for the networks) with
      `vijax.estep.structured()`. `fit.locals(x, key=key)` are the q of an observation's locals by
      name, `model.bound(fit, x, key=key)`, `model.reconstruct(fit, x)`, `model.decoded(fit,
      latents)`, `model.generate(fit, key, n)`.

    Raises:
      ValueError: a global that is not a family; a latent that is not a local or not normal;
        potentials of other shapes; a network that is not a pair; an energy that is not multilinear.

    A linear factor whose precision is inferred beside the networks:

    >>> import jax, jax.numpy as jnp, numpy as np, vijax as vi
    >>> energy = lambda s: 0.5 * jnp.sum(s["scale"].log - s["scale"].value * s["u"].square - jnp.log(2 * jnp.pi))
    >>> encode = lambda w, x: (x @ w, -jnp.ones(1))
    >>> model = vi.models.svae(
    ...     globals={"scale": vi.Gamma.from_shape_rate(1.0, 1.0)},
    ...     locals={"u": vi.Normal.from_mean_variance(np.zeros(1), 1.0)},
    ...     energy=energy, latent="u", encoder=(encode, 0.1 * jnp.ones((3, 1))),
    ...     decoder=(lambda w, u: u @ w, 0.1 * jnp.ones((1, 3))), observed=vi.models.observed.gaussian(sd=0.5))
    >>> x = np.random.default_rng(0).normal(size=(64, 1)) @ np.ones((1, 3))
    >>> fit = vi.fit(vi.aevb(model, learning_rate=0.01), x, num_steps=300, key=jax.random.key(0))
    >>> bool(np.abs(model.reconstruct(fit, x) - x).mean() < 0.2)
    True
    """
    for name, q in globals.items():
        remedy = "Free and hierarchical globals belong to vijax.energy_model."
        is_family = isinstance(q, Family)
        expected = "a conjugate family"
        require(is_family, f"globals[{name!r}]", expected, type(q).__name__, remedy)
    require(latent in locals, "latent", f"one of the locals {sorted(locals)}", repr(latent))
    template = locals[latent]
    is_normal = isinstance(template, Normal | MultivariateNormal)
    require(is_normal, "latent", "a Normal or MultivariateNormal", type(template).__name__)
    encode, encoder_params = as_network("encoder", encoder)
    decode, decoder_params = as_network("decoder", decoder)
    conjugate = _surrogate(globals, locals, energy, latent, init)
    like = tuple(tree.parameters(template))
    parts = Parts(
        model_energy(conjugate),
        latent,
        lambda params, x: check_potentials(encode(params, x), like),
        decode,
        observed,
        lambda params, u, x: observed.log_prob(decode(params, u), x),
    )
    points = {"encoder": encoder_params, "decoder": decoder_params}
    form = DataForm(observed.check, "number")
    generative = _generative(parts, globals)
    return model_between_networks(
        StructuredAutoencoder, parts, conjugate, points, structured(), form, generative
    )


def _generative(parts: Parts, globals: Mapping[str, Family]) -> Generative:
    """Draws of observations from latents of the fitted model, or from q of the latents of
    observations."""

    def local(hyper: Hyper, values: Any, x: Array, key: PRNGKeyArray) -> dict[str, Array]:
        stats = {name: q.stats(values[name]) for name, q in globals.items()}
        row_keys = jax.random.split(key, (2, x.shape[0]))
        return {
            parts.latent: jax.vmap(lambda a, b: draw_latent(parts, stats, a, b))(
                row_keys[0], row_keys[1]
            )
        }

    def data(hyper: Hyper, values: Any, local: Any, x: Array, key: PRNGKeyArray) -> Array:
        draw = lambda key, u: parts.observed.sample(key, parts.decode(hyper["decoder"], u))
        return jax.vmap(draw)(jax.random.split(key, x.shape[0]), local[parts.latent])

    known_families = lambda stats, local: {parts.latent: local[parts.latent]}
    return Generative(observations_like(parts.observed), data, local, found=known_families)


def draw_latent(
    parts: Parts, stats: PyTree, key_class: PRNGKeyArray, key_latent: PRNGKeyArray
) -> Array:
    """A draw of the latent given statistics of the globals.

    Up to a constant, log p(class) = E(u, class) - log p(u | class) at any u (candidate's formula,
    here at 0), since the conditional is known for every class."""
    energy = parts.surrogate
    # A group without potentials.
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), energy.shapes.example)
    templates = dict(energy.locals(nothing))
    zero = {
        parts.latent: templates[parts.latent].stats(jnp.zeros_like(templates[parts.latent].mean()))
    }
    latent = lambda local: energy.conditionals((parts.latent,), {**stats, **local}, nothing, {})[
        parts.latent
    ]
    other_names = [name for name in templates if name != parts.latent]
    if not other_names:
        return latent(zero).sample(key_latent)
    kind = templates[other_names[0]]
    has_one_class = (
        len(other_names) == 1 and isinstance(kind, Categorical) and kind.batch_shape == ()
    )
    remedy = "For other models draw the latents yourself, and use model.decoded(fit, latents)."
    require(
        has_one_class,
        "generate",
        "a model whose other local is one class",
        f"the locals {sorted(templates)}",
        remedy,
    )
    assert isinstance(kind, Categorical)

    def log_prob(one_hot: Array) -> Float[Array, ""]:
        local = {other_names[0]: kind.stats(jnp.argmax(one_hot)), **zero}
        q = latent(local)
        return energy.fn({**stats, **local}, nothing, {}) + jnp.sum(
            q.log_normalizer() - q.dot(zero[parts.latent])
        )

    classes = jnp.eye(kind.probs.shape[-1])
    number = jax.random.categorical(key_class, jax.vmap(log_prob)(classes))
    return latent({other_names[0]: kind.stats(number), **zero}).sample(key_latent)


def _surrogate(
    globals: Mapping[str, Family],
    locals: Mapping[str, Family],
    energy: Callable[[Mapping[str, Any]], Float[Array, ""]],
    latent: str,
    init: starts.Init | None,
) -> Model:
    """The conjugate model whose data are potentials. Its E-steps start at the locals, with the
    potentials added to the latent."""
    template = locals[latent]

    def total(stats: Mapping[str, Any], potentials: Potentials) -> Float[Array, ""]:
        return energy(stats) + jnp.sum(template.with_naturals(potentials).dot(stats[latent]))

    def start(potentials: Potentials) -> dict[str, Family]:
        return {**locals, latent: tree.add(template, template.with_naturals(potentials))}

    has_class = any(isinstance(q, Categorical) for q in locals.values())
    return energy_model(
        globals=globals,
        locals=locals,
        energy=total,
        example=tuple(jnp.zeros_like(leaf) for leaf in tree.parameters(template)),
        structure=Structure(start=start),
        init=init or (starts.kmeans_plus_plus() if has_class else starts.prior()),
    )

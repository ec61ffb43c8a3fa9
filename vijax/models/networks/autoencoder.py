"""The variational autoencoder (Kingma and Welling 2014): a decoder network as likelihood, an
encoder as E-step.

    z_n ~ N(0, I),   x_n | z_n ~ p(x | decoder(z_n)),   q(z_n) = N(mean, sd^2) by encoder(x_n)

Both networks are points, learnt by an optimiser of the bound; or the decoder's weights are free
variables with a posterior (fully Bayesian, appendix F of the paper)."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import constrain
from vijax.arguments import Size, check_arguments
from vijax.checks import require, require_arrays, require_integers
from vijax.contract.batch import DataForm, Minibatch, fill_padding, weighted_sum
from vijax.contract.intake import cast_data
from vijax.contract.model import Hyper, LocalElbo, LocalsPlan, Model
from vijax.contract.objective import importance_weighted
from vijax.contract.queries import Generative, answers, is_size
from vijax.contract.room import limit_sizes
from vijax.contract.variables import Variables, free
from vijax.families import Normal, Product
from vijax.inference.estep.networks import Amortised, amortised
from vijax.inference.guides import Z, mean_field
from vijax.models.energies.free_part import FreePart
from vijax.models.networks.observed import Observed
from vijax.xla.by_value import cache_by_value
from vijax.xla.compiler import cached_program, step_jit
from vijax.xla.content_keys import distinct_row_keys, row_codes, row_keys

Network = tuple[Callable[[PyTree, Array], Any], PyTree]
"""(apply, params): `apply(params, x)` takes one input."""
START = 0.05
"""Standard deviation of the posterior of a decoder's weights at the start."""
REFINING = 0.1
"""Step size of a semi-amortised refinement, in standard deviations."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Autoencoder(Model):
    """A variational autoencoder; made by `vae`."""

    encode: Callable[[PyTree, Array], Any]  # (params, x) -> mean and log standard deviation of q(z)
    decode: Callable[[PyTree, Array], Any]  # (params, z) -> the output that the likelihood reads
    observed: Observed  # the likelihood
    latent_dim: int  # K

    def reconstruct(self, fit: Any, data: Any) -> Array:
        """E[x | decoder(mean of q(z))] of each observation, at the weights' posterior mean."""
        return cached_program(self, "reconstruct", _reconstructing)(
            *self._networks(fit), cast_data(self, data)
        )

    def generate(self, fit: Any, key: PRNGKeyArray, num_draws: int) -> Array:
        """E[x | decoder(z)] at draws z ~ N(0, I)."""
        require_integers(num_draws=num_draws)
        z = jax.random.normal(key, (num_draws, self.latent_dim))
        return cached_program(self, "decode", _decoding)(self._networks(fit)[1], z)

    def bound(
        self, fit: Any, data: Any, *, key: PRNGKeyArray, num_samples: int = 1
    ) -> Float[np.ndarray, " N"]:
        """The bound on log p(x) of each observation, in nats. With several draws it is the tighter
        importance-weighted bound (Burda, Grosse and Salakhutdinov 2016, eq. 8), which tends to log
        p(x)."""
        require_integers(num_samples=num_samples)
        x = cast_data(self, data)
        program = cached_program(
            self, ("bound", num_samples), lambda of: _bounding(of, num_samples)
        )
        return np.asarray(program(*self._networks(fit), row_keys(key, row_codes(x)), x))

    def _networks(self, fit: Any) -> tuple[PyTree, PyTree]:
        encoder = fit.state.hyper["encoder"]
        if self.free is None:
            return encoder, fit.state.hyper["decoder"]
        return encoder, self.free.variables.values(fit.posterior[Z].mean())[0]["decoder"]


def _reconstructing(of: weakref.ref[Autoencoder]) -> Callable[..., Array]:
    def reconstruct(encoder: PyTree, decoder: PyTree, x: Array) -> Array:
        model: Any = of()
        return model.observed.mean(model.decode(decoder, model.encode(encoder, x)[0]))

    return step_jit(jax.vmap(reconstruct, (None, None, 0)))


def _decoding(of: weakref.ref[Autoencoder]) -> Callable[..., Array]:
    def decode(decoder: PyTree, z: Array) -> Array:
        model: Any = of()
        return model.observed.mean(model.decode(decoder, z))

    return step_jit(jax.vmap(decode, (None, 0)))


def _bounding(of: weakref.ref[Autoencoder], num_samples: int) -> Callable[..., Array]:
    def bound(encoder: PyTree, decoder: PyTree, key: PRNGKeyArray, x: Array) -> Float[Array, ""]:
        model: Any = of()
        mean, log_sd = model.encode(encoder, x)
        draw = lambda key: mean + jnp.exp(log_sd) * jax.random.normal(key, mean.shape, mean.dtype)
        fits = lambda z: model.observed.log_prob(model.decode(decoder, z), x)
        if num_samples == 1:
            return fits(draw(key)) - _kl(mean, log_sd)

        def ratio(key: PRNGKeyArray) -> Float[Array, ""]:
            z = draw(key)
            return fits(z) + _log_ratio(z, mean, log_sd)

        return importance_weighted().bound(
            jax.lax.map(ratio, jax.random.split(key, num_samples), batch_size=16)
        )

    def bounds(
        encoder: PyTree, decoder: PyTree, keys: PRNGKeyArray, x: Array
    ) -> Float[Array, " N"]:
        return jax.lax.map(lambda a: bound(encoder, decoder, *a), (keys, x), batch_size=64)

    return step_jit(bounds)


def _kl(mean: Array, log_sd: Array) -> Float[Array, ""]:
    """KL(N(mean, sd^2) || N(0, 1)), eq. 10 of the paper."""
    return 0.5 * jnp.sum(mean**2 + jnp.exp(2 * log_sd) - 1 - 2 * log_sd)


def _log_ratio(z: Array, mean: Array, log_sd: Array) -> Float[Array, ""]:
    """log p(z) - log q(z)."""
    return jnp.sum(0.5 * ((z - mean) * jnp.exp(-log_sd)) ** 2 + log_sd - 0.5 * z**2)


@cache_by_value
@limit_sizes
@check_arguments
def vae(
    encoder: Network, decoder: Network, observed: Observed, latent_dim: Size, bayesian: bool = False
) -> Autoencoder:
    """A variational autoencoder of any two networks.

    Args:
      encoder: (apply, params); `apply(params, x)` of one observation returns mean and log standard
        deviation of q(z), each of shape (K,).
      decoder: (apply, params); `apply(params, z)` of one z of shape (K,) returns the output that
          `observed` reads.
      observed: p(x | output), from `vijax.models.networks.observed`: `bernoulli()`, `gaussian()`,
          `categorical(K)`.
      latent_dim: K, latent variables of a row.
      bayesian: True gives the decoder's weights a posterior, with priors N(0, 1), instead of a
          point.

    Returns:
      A `Model`, for `vijax.aevb`. `model.bound(fit, data, key=key)`, `model.reconstruct(fit,
      data)`, `model.generate(fit, key, n)`; `fit.locals(data, key=key)` are the q(z) of data, as
      normals.

    Raises:
      ValueError: a network that is not a pair, or whose output has another shape.

    >>> import jax, jax.numpy as jnp, numpy as np, vijax as vi
    >>> linear = lambda w, x: x @ w
    >>> encode = lambda w, x: (x @ w, jnp.full(1, -1.0))
    >>> model = vae((encode, 0.1 * jnp.ones((3, 1))), (linear, 0.1 * jnp.ones((1, 3))),
    ...             vi.models.observed.gaussian(sd=0.1), latent_dim=1)
    >>> x = np.random.default_rng(0).normal(size=(64, 1)) @ np.ones((1, 3))
    >>> fit = vi.fit(vi.aevb(model, learning_rate=0.01), x, num_steps=300, key=jax.random.key(0))
    >>> bool(np.abs(model.reconstruct(fit, x) - x).mean() < 0.1)
    True
    """
    encode, encoder_params = as_network("encoder", encoder)
    decode, decoder_params = as_network("decoder", decoder)
    latent = jax.ShapeDtypeStruct((latent_dim,), jnp.result_type(float))
    jax.eval_shape(decode, decoder_params, latent)  # a wrong decoder raises here
    weights = _weights(decoder_params) if bayesian else None
    points = {"encoder": encoder_params}
    if not bayesian:
        points["decoder"] = decoder_params

    def local_elbo(
        hyper: Hyper, stats: PyTree, batch: Minibatch, key: PRNGKeyArray, estep: Any
    ) -> LocalElbo:
        data = batch.data
        if batch.weights is not None:
            data = fill_padding(data, jnp.asarray(batch.weights))
        data = jnp.asarray(data)
        params = hyper["decoder"] if weights is None else weights.read(stats)["decoder"]
        draws = (estep.refinements + 1, estep.num_samples, latent_dim)
        noise = jax.vmap(lambda row_key: jax.random.normal(row_key, draws, jnp.result_type(float)))(
            distinct_row_keys(key, data, batch.weights)
        )
        bound_of_row = lambda noise, x: _bound(
            estep, encode, decode, observed, hyper["encoder"], params, noise, x
        )
        bounds, local = jax.vmap(bound_of_row)(noise, data)
        counts = jnp.ones_like(bounds)
        if batch.weights is not None:
            counts = jnp.asarray(batch.weights, bounds.dtype)
        constant = jax.lax.stop_gradient((bounds, local))
        return LocalElbo(weighted_sum(counts, bounds), jnp.sum(counts), *constant)

    def start(key: PRNGKeyArray | None) -> Product:
        if weights is None:
            return Product.empty()
        mean = weights.variables.coordinates({"decoder": decoder_params})
        return Product({Z: weights.guide.member(mean, START)})

    return Autoencoder(
        hyper=points,
        prior=lambda hyper: start(None),
        local_elbo=local_elbo,
        init=lambda hyper, key, prior, batch: start(key),
        estep=amortised(),
        global_elbo=None if weights is None else lambda hyper, stats: weights.log_prior(stats),
        form=DataForm(observed.check, "number"),
        constraints=dict.fromkeys(points, constrain.real()),
        free=weights,
        locals=LocalsPlan(solved_by=Amortised),
        queries=answers(_generative(decode, observed, latent_dim)),
        encode=encode,
        decode=decode,
        observed=observed,
        latent_dim=latent_dim,
    )


def _generative(decode: Callable, observed: Observed, latent_dim: int) -> Generative:
    """Draws of observations from z ~ N(0, I), or from q(z) of observations."""

    def local(hyper: Hyper, values: Any, x: Any, key: PRNGKeyArray) -> dict[str, Array]:
        return {"z": jax.random.normal(key, (num_rows(x), latent_dim))}

    def data(hyper: Hyper, values: Any, local: Any, x: Any, key: PRNGKeyArray) -> Array:
        params = {**hyper, **values}["decoder"]
        draw = lambda key, z: observed.sample(key, decode(params, z))
        return jax.vmap(draw)(jax.random.split(key, num_rows(x)), local["z"])

    return Generative(observations_like(observed), data, local)


def observations_like(observed: Observed) -> Callable[[Any], Any]:
    """The layout of observations: only their number, since the networks determine their shape."""

    def layout(like: Any) -> Array:
        if is_size(like):
            require_integers(like=int(like))
            return jnp.zeros(int(like))
        observed.check(like)
        return jnp.asarray(like, jnp.result_type(float))

    return layout


def num_rows(x: Any) -> int:
    """The number of rows of a layout."""
    return int(x.shape[0])


def _bound(
    estep: Amortised,
    encode: Callable,
    decode: Callable,
    observed: Observed,
    encoder: PyTree,
    decoder: PyTree,
    noise: Float[Array, "rounds draws K"],
    x: Array,
) -> tuple[Float[Array, ""], dict[str, Normal]]:
    """The bound of one observation, and q(z)."""
    latent_dim = noise.shape[-1]
    moments = encode(encoder, x)
    is_pair = isinstance(moments, tuple | list) and len(moments) == 2
    require(is_pair, "encoder", "a pair (mean, log sd)", type(moments).__name__)
    expected = f"outputs of shape ({latent_dim},)"
    for part in moments:
        require(jnp.shape(part) == (latent_dim,), "encoder", expected, jnp.shape(part))

    closed = estep.closed_kl and estep.objective is None

    def bound_of_draws(mean: Array, log_sd: Array, noise: Array) -> Float[Array, ""]:
        def one(noise: Array) -> Float[Array, ""]:
            z = mean + jnp.exp(log_sd) * noise
            fits = observed.log_prob(decode(decoder, z), x)
            if closed:
                return fits
            return fits + _log_ratio(z, mean, log_sd)

        draws = jax.vmap(one)(noise)
        if estep.objective is not None:
            return estep.objective.bound(draws)
        if closed:
            return jnp.mean(draws) - _kl(mean, log_sd)
        return jnp.mean(draws)

    mean, log_sd = moments
    # Natural-gradient ascent in the mean, plain gradient ascent in log sd.
    for i in range(estep.refinements):
        fixed = jax.lax.stop_gradient((mean, log_sd))
        slopes = jax.lax.stop_gradient(jax.grad(bound_of_draws, (0, 1))(*fixed, noise[i + 1]))
        mean = mean + REFINING * jnp.exp(2 * fixed[1]) * slopes[0]
        log_sd = log_sd + REFINING * slopes[1]
    precision = jnp.exp(-2 * log_sd)
    return bound_of_draws(mean, log_sd, noise[0]), {"z": Normal(precision * mean, -0.5 * precision)}


def as_network(argument: str, network: Any) -> Network:
    """The pair (apply, params), with the parameters as arrays; ValueError if it is not a pair."""
    is_pair = isinstance(network, tuple) and len(network) == 2 and callable(network[0])
    remedy = (
        "For Equinox: eqx.partition; for Flax NNX: nnx.split (see the documentation of vijax.aevb)."
    )
    require(is_pair, argument, "a pair (apply, params)", type(network).__name__, remedy)
    require_arrays(f"params of {argument}", network[1])
    return network[0], jax.tree.map(jnp.asarray, network[1])


def _weights(params: PyTree) -> FreePart:
    """The weights as free variables with standard normal priors."""
    shaped = jax.tree.map(lambda x: free(jnp.shape(x), log_prior=norm.logpdf), params)
    return FreePart(Variables.from_tree({"decoder": shaped}), mean_field(), is_proper=True)

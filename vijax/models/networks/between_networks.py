"""A conjugate model between two networks: the common part of structured autoencoders of
observations and of sequences."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import constrain
from vijax.checks import require_integers
from vijax.contract.batch import DataForm, Minibatch, fill_padding, weighted_sum
from vijax.contract.estep import EStep
from vijax.contract.intake import cast_data
from vijax.contract.model import Hyper, LocalElbo, LocalsPlan, Model
from vijax.contract.objective import importance_weighted
from vijax.contract.queries import Generative, answers
from vijax.families import Product
from vijax.inference.estep.networks import Structured
from vijax.models.networks.structured_parts import Parts
from vijax.predict.questions import infer, read_bounds
from vijax.xla.compiler import cached_program, step_jit
from vijax.xla.content_keys import distinct_row_keys


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BetweenNetworks(Model):
    """A conjugate model of latents between an encoder and a decoder."""

    parts: Parts  # networks, likelihood and surrogate model

    def reconstruct(self, fit: Any, data: Any) -> Array:
        """E[x | decoder(mean of q(latent))] of each observation."""
        local = fit.locals(data, key=jax.random.key(0))  # no draw is made with this key
        return self.decoded(fit, local[self.parts.latent].mean())

    def decoded(self, fit: Any, latents: Any) -> Array:
        """E[x | decoder(latent)] for each latent; the last axis of `latents` is that of one
        latent."""
        latents = jnp.asarray(latents)
        flat = latents.reshape(-1, latents.shape[-1])
        outputs = cached_program(self, "decode", _decoding)(fit.state.hyper["decoder"], flat)
        return outputs.reshape(*latents.shape[:-1], *outputs.shape[1:])

    def bound(
        self, fit: Any, data: Any, *, key: PRNGKeyArray, num_samples: int = 1
    ) -> Float[np.ndarray, " N"]:
        """The bound on E_q(beta)[log p(x | beta)] of each observation or sequence, in nats, by a
        draw of its latent. For a bound on the evidence, sum it over the data and subtract the KL of
        the globals from their prior. With several draws it is the tighter importance-weighted bound
        (Burda, Grosse and Salakhutdinov 2016, eq. 8), which tends to

            log int p(x | u) exp E_q(beta)[log p(u | beta)] du,

        with the other locals summed over. This is a lower bound too, by Hoelder's inequality, and
        equals log p(x | beta) if the globals are known. If the other locals depend on each other,
        the limit is lower."""
        require_integers(num_samples=num_samples)
        spec = fit.alg.spec
        estep = dataclasses.replace(spec.estep or self.estep, num_samples=num_samples)
        if num_samples > 1:
            estep = dataclasses.replace(estep, objective=importance_weighted())
        spec = spec._replace(estep=estep)
        batch = Minibatch(cast_data(self, data), None)
        return np.asarray(infer(read_bounds, spec, fit.state.hyper, fit.posterior, batch, key))


Kind = TypeVar("Kind", bound=BetweenNetworks)


def model_between_networks(
    kind: type[Kind],
    parts: Parts,
    conjugate: Model,
    points: Hyper,
    estep: EStep,
    form: DataForm,
    generative: Generative,
) -> Kind:
    """The model of these parts.

    Args:
      kind: the class of the model.
      parts: its parts; their surrogate is the energy of `conjugate`.
      conjugate: the model of the latents, whose data are the outputs of the encoder.
      points: parameters of the networks, as `encoder` and `decoder`.
      estep: the default E-step.
      form: the form of the data.
      generative: draws of data.
    """

    def read_data(batch: Minibatch) -> PyTree:
        data = batch.data
        if batch.weights is not None:
            data = fill_padding(data, jnp.asarray(batch.weights))
        return jax.tree.map(jnp.asarray, data)

    def local_elbo(
        hyper: Hyper, stats: PyTree, batch: Minibatch, key: PRNGKeyArray, estep: Any
    ) -> LocalElbo:
        data = read_data(batch)
        keys = distinct_row_keys(key, data, batch.weights)
        bound = lambda key, x: parts.bound(estep, hyper, dict(stats), key, x)
        bounds, local = jax.vmap(bound)(keys, data)
        counts = jnp.ones_like(bounds)
        if batch.weights is not None:
            counts = jnp.asarray(batch.weights, bounds.dtype)
        constant = jax.lax.stop_gradient((bounds, local))
        return LocalElbo(weighted_sum(counts, bounds), jnp.sum(counts), *constant)

    def begin(hyper: Hyper, key: PRNGKeyArray, prior: Product, batch: Minibatch | None) -> Product:
        if batch is not None:
            encode = lambda x: parts.encode(hyper["encoder"], x)
            batch = batch._replace(data=jax.vmap(encode)(read_data(batch)))
        return conjugate.init({}, key, prior, batch)

    return kind(
        hyper=points,
        prior=lambda hyper: conjugate.prior({}),
        local_elbo=local_elbo,
        init=begin,
        estep=estep,
        blocks=conjugate.blocks,
        form=form,
        constraints=dict.fromkeys(points, constrain.real()),
        locals=LocalsPlan(solved_by=Structured),
        queries=answers(generative),
        parts=parts,
    )


def _decoding(of: weakref.ref[BetweenNetworks]) -> Callable[..., Array]:
    def decode(decoder: PyTree, latent: Array) -> Array:
        model: Any = of()
        return model.parts.observed.mean(model.parts.decode(decoder, latent))

    return step_jit(jax.vmap(decode, (None, 0)))

"""Variational autoencoders on the command line."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from vijax import models
from vijax.app.kinds import networks
from vijax.app.kinds.listing import Data, Found, Seen, Tell
from vijax.app.kinds.networks import AmortisedAlgorithm
from vijax.app.page.blocks import Block, Table
from vijax.app.rows.by_row import checked, in_blocks
from vijax.app.settings.options import built, model_section

Settings = model_section(
    models.vae, "variational autoencoder", without=("bayesian",), latent_dim=10, **networks.own_settings()
)


def build(settings: Any, data: Data) -> Any:
    """The model."""
    networks.check_rows(settings, data)
    encoder, decoder, observed = networks.networks(settings, len(data.names), mean_and_log_sd)
    return built(settings, data, encoder=encoder, decoder=decoder, observed=observed)


def mean_and_log_sd(mean: Array, log_sd: Array) -> tuple[Array, Array]:
    """Of q(z): as the encoder says them."""
    return mean, log_sd


def describe(seen: Seen) -> list[Block]:
    """Networks; which latents are used; rows rebuilt, new ones, and the latents in the plane."""
    model: Any = seen.fit.alg.spec.model
    x, classes, names = networks.seen_rows(seen)
    q = seen.fit.locals(x, key=seen.key)["z"]
    mean = np.asarray(q.mean(), float)
    shown = [networks.size_table(seen), _used(mean, np.asarray(q.variance(), float)), networks.rebuilt(seen, x)]
    if seen.settings.image:
        keys = jax.random.split(seen.key, 2)
        rows = [np.asarray(model.generate(seen.fit, key, networks.NUM_SHOWN)) for key in keys]
        shown.append(networks.images(seen, "New images", ["", ""], rows, "What the decoder makes of draws of N(0, I)."))
    plane = networks.plane_of_latents(mean, classes, seen.data.train.target, names)
    return [*shown, *([plane] if plane else [])]


def _used(mean: np.ndarray, variance: np.ndarray) -> Table:
    """KL(q(z_k) || N(0, 1)) of each latent, averaged over rows: near zero of one that says nothing."""
    kl = 0.5 * (mean**2 + variance - 1 - np.log(variance)).mean(axis=0)
    order = np.argsort(-kl)
    rows = [[int(k) + 1, float(kl[k]), float(mean[:, k].std())] for k in order]
    return Table("Latents by what they say", ["latent", "nats a row", "sd of means"], rows)


def transform(seen: Seen, table: Any, tell: Tell) -> Found:
    """The latent variables of each row, with their standard deviations."""

    def read(x: np.ndarray) -> Found:
        q = seen.fit.locals(x, key=seen.key)["z"]
        return {"latent": np.asarray(q.mean()), "sd": np.asarray(q.std())}

    return in_blocks(read, checked(seen, networks.arrange(table, seen.settings)), tell)


LISTING = networks.network_model(Settings, AmortisedAlgorithm, describe, build, transform)

"""Digits by a mixture of ten classes behind two networks, beside the plain autoencoder: a table of
`free.py`.

Ten latent variables, else as there. "Classes used" are those that are the likeliest of any test
image; purity is the share of test images that are of the digit most frequent in their class. No
label is seen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import vijax as vi
from vijax.app.catalogue.autoencoders import mixture, potentials
from vijax.app.catalogue.parts.networks import Halves, Perceptron, first_layers
from vijax.families import NormalGamma

HEAD = ["model", "networks begin", "passes", "bound, test", "classes used", "purity", "CPU s"]
LATENT, HIDDEN, CLASSES, FIRST = 10, 400, 10, 5


def rows(folder: Path, seed: int) -> Iterator[list[str]]:
    """A row a fit."""
    with np.load(folder / "usps.npz") as file:
        x, label, is_test = (
            (file["X_milli"] > 0).astype(np.float32),
            file["label"].astype(int),
            file["is_test"],
        )
    net = Perceptron("tanh")
    nets = (
        first_layers([256, HIDDEN, 2 * LATENT], (seed, 0)),
        first_layers([LATENT, HIDDEN, 256], (seed, 1)),
    )
    encoder = Halves(net, lambda mean, log_sd: (mean, log_sd))
    plain = vi.models.vae(
        (encoder, nets[0]), (net, nets[1]), vi.models.observed.bernoulli(), latent_dim=LATENT
    )

    def fitted(
        name: str, begin: str, model: Any, passes: int, before: int = 0
    ) -> tuple[Any, list[str]]:
        began = time.process_time()
        alg = vi.aevb(model, learning_rate=1e-3)
        fit = vi.fit(alg, x[~is_test], num_epochs=passes, batch_size=128, key=jax.random.key(seed))
        bound = model.bound(fit, x[is_test], key=jax.random.key(1)).mean()
        shown = ["", ""]
        if "weights" in fit.posterior:
            found = np.asarray(fit.locals(x[is_test], key=jax.random.key(0))["z"].probs).argmax(1)
            right = sum(np.bincount(label[is_test][found == k]).max() for k in np.unique(found))
            shown = [str(len(np.unique(found))), f"{right / len(found):.2f}"]
        seconds = f"{time.process_time() - began:.1f}"
        return fit, [name, begin, str(before + passes), f"{bound:.2f}", *shown, seconds]

    half, row = fitted("`vae`", "at random", plain, FIRST)
    yield row
    for passes in (2 * FIRST, 4 * FIRST):
        yield fitted("`vae`", "at random", plain, passes)[1]
    random = _structured((Halves(net, potentials), nets[0]), (net, nets[1]))
    learnt = half.state.hyper
    begun = _structured(
        vi.models.as_potentials((encoder, learnt["encoder"])), (net, learnt["decoder"])
    )
    for passes in (2 * FIRST, 4 * FIRST):
        yield fitted("`svae`", "at random", random, passes)[1]
        yield fitted("`svae`", f"as `vae` after {FIRST} passes", begun, passes - FIRST, FIRST)[1]


def _structured(encoder: Any, decoder: Any) -> Any:
    shape = CLASSES, LATENT
    return vi.models.svae(
        globals={
            "weights": vi.Dirichlet.from_concentration(np.ones(CLASSES)),
            "components": NormalGamma.from_parameters(np.zeros(shape), 0.1, 2.0, 1.0),
        },
        locals={
            "z": vi.Categorical.from_logits(np.zeros(CLASSES)),
            "u": vi.Normal.from_mean_variance(np.zeros(LATENT), 10.0),
        },
        energy=mixture,
        latent="u",
        encoder=encoder,
        decoder=decoder,
        observed=vi.models.observed.bernoulli(),
    )

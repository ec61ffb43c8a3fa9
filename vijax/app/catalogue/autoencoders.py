"""Autoencoders on the command line: variational; structured, with a mixture between two networks;
and of sequences, with linear dynamics between them, which may switch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax import models
from vijax.app.catalogue import hmm, state_space, switching
from vijax.app.catalogue.parts import networks
from vijax.app.catalogue.parts.networks import AmortisedAlgorithm, StructuredAlgorithm
from vijax.app.drawing import views
from vijax.app.drawing.blocks import NINETY, Block, Curves, Table
from vijax.app.rows.by_row import (
    RowScore,
    check_data,
    local_moments,
    read_in_blocks,
    read_sequences_in_blocks,
    sequences,
)
from vijax.app.rows.forecasts import forecasts
from vijax.app.settings.options import build_from_section, model_section
from vijax.app.settings.typed_toml import setting
from vijax.app.settings.units import log_scales, table_units
from vijax.app.sources.listing import Data, FittedRun, RowResults, Tell
from vijax.app.sources.tables import sequence_sums
from vijax.arguments import POSITIVE, integer
from vijax.families import Categorical, Dirichlet, Normal, NormalGamma

Settings = model_section(
    models.vae,
    "variational autoencoder",
    without=("bayesian",),
    latent_dim=10,
    **networks.own_settings(),
)


def build(settings: Any, data: Data) -> Any:
    """The model."""
    networks.check_rows(settings, data)
    encoder, decoder, observed = networks.networks(settings, len(data.names), mean_and_log_sd)
    return build_from_section(settings, data, encoder=encoder, decoder=decoder, observed=observed)


def mean_and_log_sd(mean: Array, log_sd: Array) -> tuple[Array, Array]:
    """The encoder's output: mean and log standard deviation of q(z)."""
    return mean, log_sd


def describe(run: FittedRun) -> list[Block]:
    """Networks; use of the latents; reconstructed rows, new ones, and the latents in the plane."""
    x, classes, names = networks.rows_to_show(run)
    q = run.fit.locals(x, key=run.key)["z"]
    mean = np.asarray(q.mean(), float)
    variance = np.asarray(q.variance(), float)
    # KL to N(0, 1): near zero for an unused latent.
    kl = 0.5 * (mean**2 + variance - 1 - np.log(variance)).mean(axis=0)
    latents = [[int(k) + 1, float(kl[k]), float(mean[:, k].std())] for k in np.argsort(-kl)]
    page_blocks = [
        networks.size_table(run),
        Table("Latents by what they say", ["latent", "nats a row", "sd of means"], latents),
        networks.reconstructions(run, x),
    ]
    if run.settings.image:
        keys = jax.random.split(run.key, 2)
        rows = [np.asarray(run.model.generate(run.fit, key, networks.NUM_SHOWN)) for key in keys]
        note = "What the decoder makes of draws of N(0, I)."
        page_blocks.append(networks.images(run, "New images", ["", ""], rows, note))
    plane = networks.plane_of_latents(mean, classes, run.data.train.target, names)
    if plane:
        page_blocks.append(plane)
    return page_blocks


transform = local_moments("z", "latent", networks.arrange)
LISTING = networks.network_model(Settings, AmortisedAlgorithm, describe, build, transform)


# --- structured autoencoders ----------------------------------------------------------------------
SHARPNESS = 2.0
"""Added to the encoder's log precision, so that its first answers have weight."""
WIDE = 10.0
"""Variance of a latent at the start of coordinate ascent."""


StructuredSettings = model_section(
    models.svae,
    "structured autoencoder: a mixture between two networks",
    without=("latent",),
    num_components=setting(5, "K, components of the mixture of latents", integer()),
    latent_dim=setting(2, "latent variables of a row", integer()),
    concentration=setting(
        1.0, "prior concentration of the weights; below 1 unused components empty", POSITIVE
    ),
    **networks.own_settings(),
)


def structured_build(settings: Any, data: Data) -> Any:
    """The model: components of independent normals, normal-gamma a priori."""
    networks.check_rows(settings, data)
    encoder, decoder, observed = networks.networks(settings, len(data.names), potentials)
    shape = settings.num_components, settings.latent_dim
    return models.svae(
        globals={
            "weights": Dirichlet.from_concentration(np.full(shape[0], settings.concentration)),
            "components": NormalGamma.from_parameters(np.zeros(shape), 0.1, 2.0, 1.0),
        },
        locals={
            "z": Categorical.from_logits(np.zeros(shape[0])),
            "u": Normal.from_mean_variance(np.zeros(shape[1]), WIDE),
        },
        energy=mixture,
        latent="u",
        encoder=encoder,
        decoder=decoder,
        observed=observed,
    )


def mixture(s: Mapping[str, Any]) -> Float[Array, ""]:
    """log p(z, u | weights, components): z ~ weights, u ~ N(mean_z, 1 / precision_z)."""
    c = s["components"]
    u = s["u"]
    fit = 0.5 * (c.log_precision - c.precision_times_square - jnp.log(2 * jnp.pi))
    fit += c.precision_times_mean * u.value - 0.5 * c.precision * u.square
    return jnp.vdot(s["z"].one_hot, s["weights"].log + jnp.sum(fit, -1))


def potentials(mean: Array, log_precision: Array) -> tuple[Array, Array]:
    """(J m, -J / 2) on the statistics u and u^2."""
    precision = jnp.exp(log_precision + SHARPNESS)
    return precision * mean, -0.5 * precision


def structured_describe(run: FittedRun) -> list[Block]:
    """Networks; components; reconstructed rows; rows and latents by component."""
    x, _, _ = networks.rows_to_show(run)
    local = run.fit.locals(x, key=run.key)
    labels = np.asarray(local["z"].probs).argmax(1)
    latents = np.asarray(local["u"].mean(), float)
    page_blocks: list[Block] = [
        networks.size_table(run),
        _components(run, labels),
        networks.reconstructions(run, x),
    ]
    if run.settings.image:
        new_images = [np.asarray(run.model.generate(run.fit, run.key, networks.NUM_SHOWN))]
        order = np.argsort(-np.asarray(run.point("weights"), float))[: networks.NUM_SHOWN]
        means = np.asarray(run.point("components").mean)[order]
        decoded = [np.asarray(run.model.decoded(run.fit, means))]
        note = "What the decoder makes of their means."
        page_blocks.append(networks.images(run, "Components as images", [""], decoded, note))
        note = "What the decoder makes of draws of the mixture."
        page_blocks.append(networks.images(run, "New images", [""], new_images, note))
    if x.shape[1] >= 2:
        points = table_units(run.data.train).points(x)
        note = "Rows by their component."
        page_blocks.append(views.scatter("Clusters", points, run.data.names, labels, note=note))
    plane = networks.plane_of_latents(latents, labels, "component")
    if plane:
        page_blocks.append(plane)
    return page_blocks


def _components(run: FittedRun, labels: np.ndarray) -> Table:
    """A table of components, largest first: weights, means and deviations."""
    weights = np.asarray(run.point("weights"), float)
    components = run.point("components")
    mean = np.asarray(components.mean, float)
    sd = 1 / np.sqrt(np.asarray(components.precision, float))
    names = [f"latent {i + 1}" for i in range(run.settings.latent_dim)]
    header = ["", "weight", "rows shown", *names, *(f"sd {name}" for name in names)]
    counts = np.bincount(labels, minlength=len(weights))
    order = np.argsort(-weights)
    rows = [
        [int(k), float(weights[k]), int(counts[k]), *map(float, (*mean[k], *sd[k]))] for k in order
    ]
    return Table("Components", header, rows, "Of the latents.")


def structured_transform(run: FittedRun, table: Any, tell: Tell) -> RowResults:
    """The likeliest component of each row, the probabilities of all, and its latent variables with
    their deviations."""

    def read(x: np.ndarray) -> RowResults:
        local = run.fit.locals(x, key=run.key)
        probs = np.asarray(local["z"].probs)
        u = local["u"]
        latent = {"latent": np.asarray(u.mean()), "sd": np.asarray(u.std())}
        return {"component": probs.argmax(axis=1), "probability": probs, **latent}

    return read_in_blocks(read, check_data(run, networks.arrange(table, run.settings)), tell)


STRUCTURED = networks.network_model(
    StructuredSettings,
    StructuredAlgorithm,
    structured_describe,
    structured_build,
    structured_transform,
    "component",
)


# --- autoencoders of sequences --------------------------------------------------------------------
DynamicSettings = model_section(
    models.dynamic_svae,
    "autoencoder of sequences: a linear dynamical system, which may switch, between two networks",
    without=("num_inputs",),
    latent_dim=4,
    **networks.own_settings(),
)


def dynamic_build(settings: Any, data: Data) -> Any:
    """The model."""
    networks.check_rows(settings, data)
    encoder, decoder, observed = networks.networks(settings, len(data.names), potentials)
    return build_from_section(settings, data, encoder=encoder, decoder=decoder, observed=observed)


def dynamic_score(run: FittedRun) -> RowScore:
    """A tight bound on log p of each held-out sequence, per step, in the units of the data."""
    table = run.data.test
    draws = run.settings.test_draws
    y, mask = networks.arrange_sequences(table, run.settings)
    bound = np.asarray(
        run.model.bound(run.fit, (y, mask), key=run.key, num_samples=draws), np.float64
    )
    scales = sequence_sums(table, log_scales(table)) if networks.is_scaled(run.settings) else 0.0
    remarks = f"a bound by {draws} importance-weighted draws; {sequences(len(bound))}"
    return RowScore.of(bound - scales, "step", remarks, mask.sum(axis=1))


def dynamic_describe(run: FittedRun) -> list[Block]:
    """Networks; laws of motion; the path of the first sequence, rebuilt steps, and forecasts."""
    settings = run.settings
    can_switch = settings.num_states > 1
    y, mask = networks.arrange_sequences(run.data.train, settings)
    local = run.fit.locals((y, mask), key=run.key)
    paths = np.where(mask, np.asarray(hmm.likeliest_paths(local["z"])), -1)
    axes = [f"path {q + 1}" for q in range(settings.latent_dim)]
    rows = [*(f"{axis}, before" for axis in axes), "constant"]
    states, transitions, dynamics = switching.motion_blocks(run, axes, rows, paths, False)
    law_of_motion: list[Block] = [states, transitions, dynamics]
    if not can_switch:
        header = ["", *states.header[3:]]
        row = ["", *states.rows[0][3:]]
        law_of_motion = [states._replace(title="Motion", header=header, rows=[row]), dynamics]
    decoded = np.asarray(run.model.decoded(run.fit, local["x"].mean()), float)
    names = run.data.train.group_names or ("all",)
    page_blocks = [
        networks.size_table(run),
        *law_of_motion,
        _path(f"Path of sequence {names[0]}", axes, local["x"], int(mask[0].sum())),
        *_reconstructed_steps_blocks(run, (y, mask), decoded),
    ]
    if can_switch:
        page_blocks.append(hmm.strips("Likeliest paths", names, paths))
    return page_blocks


def _path(title: str, axes: list[str], x: Any, steps: int) -> Curves:
    """The smoothed path of the first sequence."""
    mean, cov = (part[0, :steps] for part in state_space.moments(x))
    sd = state_space.deviations(cov)
    note = "Smoothed, with 90 % intervals; up to a linear map."
    return Curves(
        title,
        "step",
        axes,
        np.arange(steps),
        mean.T,
        (mean - NINETY * sd).T,
        (mean + NINETY * sd).T,
        note,
    )


def _reconstructed_steps_blocks(
    run: FittedRun, data: tuple[np.ndarray, np.ndarray], decoded: np.ndarray
) -> list[Block]:
    """The decoder's reconstruction of smoothed paths, and the next steps: images of the first
    sequence, or errors by column and forecasts."""
    y, mask = data
    if run.settings.image:
        end = int(mask[0].sum())
        steps = views.spread_rows(end, networks.NUM_SHOWN)
        sequence = y[:1, :end], mask[:1, :end]
        draws = np.asarray(run.fit.forecast(run.key, 100, sequence, networks.NUM_SHOWN))
        pairs = [y[0, steps], decoded[0, steps]]
        note = "Of the first sequence, and what the decoder makes of its path."
        next_note = "Expected images of the next steps."
        return [
            networks.images(run, "Reconstructions", ["data", "rebuilt"], pairs, note),
            networks.images(run, "What follows", [""], [draws.mean(0)[0]], next_note),
        ]
    is_known = mask[..., None] & np.isfinite(y)
    error, spread = [], []
    for d in range(y.shape[2]):
        residuals = (decoded - y)[..., d][is_known[..., d]]
        error.append(float(np.sqrt(np.mean(residuals**2))))
        spread.append(float(np.std(y[..., d][is_known[..., d]])))
    units = table_units(run.data.train).spread
    columns = zip(run.data.names, units(spread), units(error), strict=True)
    rows = [[name, *row] for name, *row in columns]
    note = "Root mean square difference of a step and what the decoder makes of the smoothed path."
    return [
        Table("Reconstructions", ["", "sd of the data", "error"], rows, note),
        *forecasts(run, data, networks.is_scaled(run.settings)),
    ]


def dynamic_transform(run: FittedRun, table: Any, tell: Tell) -> RowResults:
    """The expected columns of each step given the whole sequence, also for missing cells; the
    smoothed path, with its deviations; with several laws of motion the likeliest, and the
    probabilities of all."""

    def read(data: Any) -> RowResults:
        local = run.fit.locals(data, key=run.key)
        mean, cov = state_space.moments(local["x"])
        results = {"expected": np.asarray(run.model.decoded(run.fit, mean)), "path": mean}
        results["path_sd"] = state_space.deviations(cov)
        if run.settings.num_states > 1:
            results |= {
                "state": np.asarray(hmm.likeliest_paths(local["z"])),
                "probability": np.asarray(local["z"].probs),
            }
        return results

    data = check_data(run, networks.arrange_sequences(table, run.settings))
    results = read_sequences_in_blocks(read, table, data, tell)
    if networks.is_scaled(run.settings):
        expected = table_units(table).points(results["expected"])
    else:
        expected = np.asarray(results["expected"])
    return results | {"expected": expected}


DYNAMIC = networks.network_model_of_sequences(
    DynamicSettings,
    StructuredAlgorithm,
    dynamic_describe,
    dynamic_build,
    dynamic_transform,
    dynamic_score,
)

"""Shared parts of models of networks: perceptrons, laws of rows, algorithms, images."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from vijax import free_algorithms, models
from vijax.app.drawing import views
from vijax.app.drawing.blocks import Block, Images, Scatter, Table
from vijax.app.rows.by_row import RowScore, rows_drawing, sequences_drawing
from vijax.app.settings.options import (
    argument_setting,
    chooser,
    constructor_settings,
    make_option,
    section_class,
)
from vijax.app.settings.typed_toml import ConfigError, Entry, section, setting
from vijax.app.settings.units import log_scales, table_units
from vijax.app.sources.listing import Data, FittedRun, Listing
from vijax.app.sources.tables import TABLES, padded_sequences, values
from vijax.arguments import Argument, Limit, integer, read_arguments
from vijax.contract import objective
from vijax.data.tables.table import Manner
from vijax.data.tables.table import Table as Rows
from vijax.inference import estep
from vijax.inference.compose import Algorithm
from vijax.models.networks.autoencoder import Network
from vijax.models.networks.observed import Observed

NUM_SHOWN = 12
"""Number of images in a row of pictures."""


# --- [model.networks] -----------------------------------------------------------------------------
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "softplus": jax.nn.softplus,
}


@dataclasses.dataclass(frozen=True)
class NetworksConfig:
    """[model.networks]: two perceptrons; the decoder has the layers of the encoder in reverse."""

    hidden: tuple[int, ...] = setting(
        (200,),
        "units of each hidden layer",
        Limit(lambda sizes: all(n >= 1 for n in sizes), "units of at least 1"),
    )
    activation: Literal["tanh", "relu", "softplus"] = setting("tanh", "between the layers")
    seed: int = setting(0, "seed of the first weights", integer(0))


@dataclasses.dataclass(frozen=True)
class Perceptron:
    """Layers with an activation between them: `apply(layers, h)` of one input."""

    activation: str

    def __call__(self, layers: Sequence[Mapping[str, Array]], h: Array) -> Array:
        """The output, of the size of the last layer, for an input of the size of the first."""
        for layer in layers[:-1]:
            h = ACTIVATIONS[self.activation](h @ layer["weights"] + layer["shifts"])
        return h @ layers[-1]["weights"] + layers[-1]["shifts"]


def first_layers(sizes: Sequence[int], seed: Sequence[int]) -> list[dict[str, np.ndarray]]:
    """First weights: normal, of variance 1 / inputs. Smaller ones in the last layer would give
    nearly the same output for all rows, and the mixture of a structured autoencoder begins at
    clusters of the outputs."""
    rng = np.random.default_rng(list(seed))
    dtype = jnp.result_type(float)
    found = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        weights = rng.normal(size=(fan_in, fan_out)) / np.sqrt(fan_in)
        found.append({"weights": weights.astype(dtype), "shifts": np.zeros(fan_out, dtype)})
    return found


@dataclasses.dataclass(frozen=True)
class Halves:
    """A network whose output is split in two vectors of one length, and a function of both."""

    net: Perceptron
    read: Callable[[Array, Array], Any]

    def __call__(self, layers: Any, x: Array) -> Any:
        """The result of `read` for the halves."""
        return self.read(*jnp.split(self.net(layers, x), 2))


@dataclasses.dataclass(frozen=True)
class WithNoise:
    """A network whose outputs are means, with one log standard deviation for all as a parameter."""

    net: Perceptron

    def __call__(self, params: Any, z: Array) -> tuple[Array, Array]:
        """Means and the log standard deviation."""
        return self.net(params["layers"], z), params["log_sd"]


def networks(
    settings: Any, num_columns: int, read: Callable[[Array, Array], Any]
) -> tuple[Network, Network, Observed]:
    """Encoder, decoder and likelihood of the settings [model]. `read` interprets the two halves of
    the encoder's output, each of length `latent_dim`."""
    sizes = settings.networks
    net = Perceptron(sizes.activation)
    law = make_option(settings.observed)
    down = first_layers([num_columns, *sizes.hidden, 2 * settings.latent_dim], (sizes.seed, 0))
    up: Any = first_layers([settings.latent_dim, *sizes.hidden[::-1], num_columns], (sizes.seed, 1))
    decode: Callable[..., Any] = net
    if learns_noise(settings):
        decode, up = WithNoise(net), {"layers": up, "log_sd": np.zeros((), jnp.result_type(float))}
    return (Halves(net, read), down), (decode, up), law


def learns_noise(settings: Any) -> bool:
    """True if the decoder has the standard deviation of the noise as a parameter."""
    return settings.observed.name == "gaussian" and settings.observed.sd is None


# --- [model.observed] -----------------------------------------------------------------------------
THRESHOLD = Argument(
    float, None, "entries above it count as 1; unset: they are 0 and 1 already", None
)
ObservedConfig = chooser(
    "[model.observed]: the law of a row given the decoder's output.",
    "gaussian",
    "real entries, or entries 0 and 1",
    gaussian=models.observed.gaussian,
    bernoulli=(lambda threshold=None: models.observed.bernoulli(), {"threshold": THRESHOLD}),
)


def own_settings() -> dict[str, Any]:
    """Settings [model] that models of networks share."""
    return {
        "image": (
            tuple[int, ...],
            setting((), "height and width, where a row is an image: for pictures"),
        ),
        "test_draws": setting(
            100, "draws of the importance-weighted bound that scores held-out rows", integer()
        ),
        "networks": section(NetworksConfig),
        "observed": section(ObservedConfig),
    }


def arrange(table: Rows, settings: Any) -> np.ndarray:
    """Rows as the networks read them, (N, D); zeros and ones for Bernoulli entries."""
    return _cut(values(table), settings)


def arrange_sequences(table: Rows, settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """Sequences as the networks read them, (y, mask), as from `vijax.models.pad`."""
    y, mask = padded_sequences(table)
    return _cut(y, settings), mask


def _cut(x: np.ndarray, settings: Any) -> np.ndarray:
    threshold = settings.observed.threshold
    if threshold is None:
        return x
    return np.where(np.isnan(x), x, x > threshold).astype(x.dtype)


def check_rows(settings: Any, data: Data) -> None:
    """Raises a `ConfigError` on rows that do not have the size of the image, or are not zeros and
    ones for a Bernoulli law."""
    num_columns = len(data.names)
    image = settings.image
    if image and int(np.prod(image)) != num_columns:
        raise ConfigError(
            f"model.image: expected height and width of {num_columns} columns in all, got "
            f"{list(image)}, which are "
            f"{int(np.prod(image))}; choose the columns of the image with data.columns, name one "
            "that is no part of it "
            'as data.target, or say that rows are no images: --set "model.image=[]"'
        )
    if settings.observed.name != "bernoulli":
        return
    for x in (arrange(part, settings) for part in data.parts):
        bad = np.argwhere((x != 0) & (x != 1) & ~np.isnan(x))
        if len(bad):
            row, column = bad[0]
            raise ConfigError(
                "model.observed.threshold: expected entries 0 and 1 for a Bernoulli law, got "
                f"{x[row, column]:g} in column {data.names[column]!r}; set "
                "model.observed.threshold (entries above it count as 1), or "
                "model.observed.name=gaussian"
            )


def check(config: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` on settings that do not go together; a target colours the pictures."""
    if config.data.group is not None:
        origin = entries["model.name"].origin
        raise ConfigError(
            f"{origin}: data.group: {config.model.name} reads rows one by one, not groups of them"
        )
    check_of_sequences(config, entries)


def check_of_sequences(config: Any, entries: Mapping[str, Entry]) -> None:
    """As `check`, for rows that are steps of sequences, the groups of the table."""
    if config.data.hold_out == "entries":
        origin = entries["model.name"].origin
        raise ConfigError(
            f'{origin}: data.hold_out: expected "rows" for {config.model.name}, which reads whole '
            "rows"
        )
    if config.fit.restarts > 1:
        remedy = "runs from other starts differ in model.networks.seed"
        raise ConfigError(
            f"{entries['fit.restarts'].origin}: fit.restarts: expected 1 for networks; {remedy}"
        )
    if config.model.image and len(config.model.image) != 2:
        image = list(config.model.image)
        raise ConfigError(
            f"{entries['model.image'].origin}: model.image: expected [height, width], got {image}"
        )


SOURCE = TABLES._replace(check=check)


def manner(settings: Any) -> Manner | None:
    """Standardisation of columns: only for a Gaussian law with learnt noise, and not for images."""
    if learns_noise(settings) and not settings.image:
        return "each"
    return None


def network_model(
    settings: Any, algorithm: Any, describe: Any, build: Any, transform: Any, predicts: str = ""
) -> Listing:
    """The listing of a model of networks; arguments as for `Listing`."""
    return Listing(
        settings,
        SOURCE,
        algorithm,
        describe,
        arrange,
        score,
        build,
        target=lambda settings: "real",
        transform=transform,
        predicts=predicts,
        drawing=DRAWING,
        manner=manner,
    )


def network_model_of_sequences(
    settings: Any, algorithm: Any, describe: Any, build: Any, transform: Any, score: Any
) -> Listing:
    """The listing of a model of networks for sequences."""
    return Listing(
        settings,
        TABLES._replace(check=check_of_sequences),
        algorithm,
        describe,
        arrange_sequences,
        score,
        build,
        unit="sequence",
        per="sequence",
        wants_group=True,
        in_time=True,
        missing=True,
        transform=transform,
        predicts="expected",
        drawing=DRAWING_SEQUENCES,
        manner=manner,
    )


# --- [algorithm] ----------------------------------------------------------------------------------
ORDER = read_arguments(objective.renyi)["alpha"]._replace(default=None)


def renyi_option(make: Callable[..., Any]) -> tuple[Callable[..., Any], dict[str, Argument]]:
    """An option that takes the order of a Renyi bound for the objective of a constructor."""

    def make_option_estep(alpha: float | None = None, **settings: Any) -> Any:
        return make(objective=None if alpha is None else objective.renyi(alpha), **settings)

    return make_option_estep, {**constructor_settings(make), "alpha": ORDER}


AmortisedEstep = chooser(
    "[algorithm.estep]: how the encoder's answer becomes a bound.",
    "amortised",
    "by the encoder alone",
    amortised=renyi_option(estep.amortised),
)
StructuredEstep = chooser(
    "[algorithm.estep]: coordinate ascent on the latents' own model, differentiated.",
    "structured",
    "coordinate ascent from the encoder's potentials",
    structured=renyi_option(estep.structured),
)


def _aevb(doc: str, meaning: str, estep: Any) -> Any:
    name = (Literal["aevb"], setting("aevb", meaning))
    rate = argument_setting(
        free_algorithms.aevb, "learning_rate", prefix="rate ", suffix=", for the networks"
    )
    return section_class(doc, name=name, learning_rate=rate, estep=section(estep))


GLOBALS_TOO = "Adam on the networks, natural gradients for the conjugate globals"
AmortisedAlgorithm = _aevb("[algorithm] of `vae`.", "Adam on the bound", AmortisedEstep)
StructuredAlgorithm = _aevb("[algorithm] of `svae`.", GLOBALS_TOO, StructuredEstep)


def algorithm(model: Any, config: Any, learn: tuple[str, ...]) -> Algorithm:
    """The algorithm that [algorithm] describes."""
    estep = make_option(config.estep)
    if getattr(model.estep, "num_sweeps", None) == 1:  # uncoupled locals need no more
        estep = dataclasses.replace(estep, num_sweeps=1)
    return free_algorithms.aevb(model, learning_rate=config.learning_rate, estep=estep)


def is_scaled(settings: Any) -> bool:
    """True if draws are in units of standardised columns."""
    return settings.observed.name == "gaussian"


DRAWING = rows_drawing(arrange, is_scaled)
DRAWING_SEQUENCES = sequences_drawing(arrange_sequences, is_scaled)


# --- the page -------------------------------------------------------------------------------------
def score(run: FittedRun) -> RowScore:
    """A tight bound on log p of each held-out row, in the units of the data."""
    draws = run.settings.test_draws
    x = arrange(run.data.test, run.settings)
    bound = run.model.bound(run.fit, x, key=run.key, num_samples=draws)
    scales = log_scales(run.data.test) if is_scaled(run.settings) else 0.0
    remark = f"a bound by {draws} importance-weighted draws"
    return RowScore.of(np.asarray(bound) - scales, "row", remark)


def size_table(run: FittedRun) -> Table:
    """The networks by their layers, and the noise if it is learnt."""
    settings = run.settings
    num_columns = len(run.data.names)
    hyper = run.fit.state.hyper
    hidden = settings.networks.hidden
    sizes = {
        "encoder": [num_columns, *hidden, 2 * settings.latent_dim],
        "decoder": [settings.latent_dim, *hidden[::-1], num_columns],
    }
    count = lambda name: sum(int(np.size(leaf)) for leaf in jax.tree.leaves(hyper[name]))
    rows = [
        [name, "-".join(map(str, layers)), f"{count(name):,}"] for name, layers in sizes.items()
    ]
    if learns_noise(settings):
        rows.append(["sd of the noise", f"{float(np.exp(hyper['decoder']['log_sd'])):.4g}", ""])
    return Table("Networks", ["", "units", "parameters"], rows)


def reconstructions(run: FittedRun, x: np.ndarray) -> Block:
    """Rows rebuilt by the decoder: as images, or else the error of each column."""
    if run.settings.image:
        rows = x[views.spread_rows(len(x), NUM_SHOWN)]
        pairs = [rows, np.asarray(run.model.reconstruct(run.fit, rows))]
        note = "Rows of the data, and what encoder and decoder make of them."
        return images(run, "Reconstructions", ["data", "rebuilt"], pairs, note)
    residuals = np.asarray(run.model.reconstruct(run.fit, x), float) - x
    error = np.sqrt(np.mean(residuals**2, axis=0))
    sds, errors = map(table_units(run.data.train).spread, (x.std(0), error))
    numbers = zip(run.data.names, sds, errors, strict=True)
    columns = [[name, float(sd), float(miss)] for name, sd, miss in numbers]
    note = "Root mean square difference of a row and what encoder and decoder make of it."
    return Table("Reconstructions", ["", "sd of the data", "error"], columns, note)


def images(
    run: FittedRun, title: str, labels: Sequence[str], rows: Sequence[Any], note: str
) -> Images:
    """Rows of images, of the shape in the settings."""
    height, width = run.settings.image
    pixels = [[np.round(np.asarray(image, float).ravel(), 3) for image in row] for row in rows]
    return Images(title, labels, pixels, height, width, note)


def rows_to_show(run: FittedRun) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Rows to show (held-out ones if there are any), their classes by a target column of few
    values, and the names of the classes."""
    part = run.data.train if run.data.test is None else run.data.test
    x = arrange(part, run.settings)
    rows = views.spread_rows(len(x))
    class_values, codes = np.unique([0] if part.y is None else part.y, return_inverse=True)
    if part.y is None or len(class_values) > 20:
        return x[rows], np.zeros(len(rows), int), []
    return x[rows], codes[rows], [f"{value:g}" for value in class_values]


def plane_of_latents(
    mean: np.ndarray, classes: np.ndarray, target: str | None, class_names: Sequence[str] = ()
) -> Scatter | None:
    """Means of q(latent) in the plane; None for a single latent."""
    if mean.shape[1] < 2:
        return None
    colours = f", coloured by {target}" if target else ""
    names = [f"latent {i + 1}" for i in range(mean.shape[1])]
    note = f"The mean of each row's latents{colours}."
    return views.scatter("Latents", mean, names, classes, note=note, names=class_names)

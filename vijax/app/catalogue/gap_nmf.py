"""Gamma-process Poisson matrix factorisation on the command line."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np

from vijax import models
from vijax.app.kinds.listing import Data, Found, Listing, Seen, Tell
from vijax.app.kinds.tables import TABLES, values
from vijax.app.page.blocks import Block, Heat, Table
from vijax.app.rows.by_row import checked, in_blocks
from vijax.app.rows.drawing import ROWS
from vijax.app.rows.scores import RowScore
from vijax.app.settings.sections import EnergyAlgorithm
from vijax.app.settings.typed_toml import POSITIVE, at_least, setting

ACTIVE_SHARE = 1e-3
"""Of all that is explained: components below it count as switched off."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """[model]: the generative story."""

    name: Literal["gap_nmf"] = setting("gap_nmf", "gamma-process Poisson matrix factorisation of counts (GaP-KL-NMF)")
    num_components: int = setting(50, "K, more than are needed", at_least(1))
    a: float = setting(0.25, "shape and rate of the dictionary's entries; below 1 spectra are sparse", POSITIVE)
    b: float = setting(0.2, "shape and rate of the activations", POSITIVE)
    alpha: float = setting(1.0, "shape of the gamma process", POSITIVE)
    c: float = setting(1.0, "1 / c is about the mean of the data", POSITIVE)
    init: Literal["columns", "flat"] = setting(
        "columns", "where spectra start: at those of rows of data, or nearly flat"
    )


def build(settings: Settings, data: Data) -> Any:
    """The model."""
    hyper = {name: getattr(settings, name) for name in ("a", "b", "alpha", "c")}
    return models.gap_nmf(len(data.names), settings.num_components, init=settings.init, **hyper)


def score(seen: Seen) -> RowScore:
    """Bound on the log probability of held-out rows."""
    return RowScore.of(seen.fit.score(values(seen.data.test), key=seen.key).log_densities, "row", "a bound")


def describe(seen: Seen) -> list[Block]:
    """How much each component explains, and what it consists of."""
    dictionary, gains = (np.asarray(seen.point(name), float) for name in ("dictionary", "gains"))
    explained = gains * dictionary.sum(axis=0)
    share = explained / max(float(explained.sum()), 1e-300)
    order = [int(k) for k in np.argsort(-share, kind="stable") if share[k] > ACTIVE_SHARE]
    columns, spectra = list(seen.data.names), dictionary / np.maximum(dictionary.sum(axis=0), 1e-300)
    rows = [[k, 100 * float(share[k]), columns[int(spectra[:, k].argmax())]] for k in order]
    title = f"{len(order)} components of {len(gains)} are in use"
    return [
        Table(title, ["", "per cent", "peak"], rows),
        Heat("Dictionary", [str(k) for k in order], columns, spectra[:, order].T, "What each component consists of."),
    ]


def transform(seen: Seen, table: Any, tell: Tell) -> Found:
    """How active each component is in each row, with standard deviations."""

    def read(y: np.ndarray) -> Found:
        q = seen.fit.locals(y, key=seen.key)["activations"]
        return {"activation": np.asarray(q.mean()), "sd": np.asarray(q.std())}

    return in_blocks(read, checked(seen, values(table)), tell)


LISTING = Listing(Settings, TABLES, EnergyAlgorithm, build, describe, values, score, transform=transform, drawing=ROWS)

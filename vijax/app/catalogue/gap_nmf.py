"""Gamma-process Poisson matrix factorisation on the command line."""

from __future__ import annotations

import numpy as np

from vijax import models
from vijax.app.drawing.blocks import Block, Heat, Table
from vijax.app.rows.by_row import ROWS, RowScore, local_moments
from vijax.app.settings.options import model_section
from vijax.app.settings.sections import EnergyAlgorithm
from vijax.app.sources.listing import FittedRun, Listing
from vijax.app.sources.tables import TABLES, values

ACTIVE_SHARE = 1e-3
"""The share of the total below which a component is switched off."""

Settings = model_section(
    models.gap_nmf,
    "gamma-process Poisson matrix factorisation of counts (GaP-KL-NMF)",
    width="num_rows",
    num_components=50,
)


def score(run: FittedRun) -> RowScore:
    """Bound on the log probability of held-out rows."""
    row_score = run.fit.score(values(run.data.test), key=run.key)
    return RowScore.of(row_score.log_densities, "row", "a bound")


def describe(run: FittedRun) -> list[Block]:
    """The share that each component explains, and its parts."""
    dictionary, gains = (np.asarray(run.point(name), float) for name in ("dictionary", "gains"))
    explained = gains * dictionary.sum(axis=0)
    share = explained / max(float(explained.sum()), 1e-300)
    order = [int(k) for k in np.argsort(-share, kind="stable") if share[k] > ACTIVE_SHARE]
    columns = list(run.data.names)
    spectra = dictionary / np.maximum(dictionary.sum(axis=0), 1e-300)
    rows = [[k, 100 * float(share[k]), columns[int(spectra[:, k].argmax())]] for k in order]
    title = f"{len(order)} components of {len(gains)} are in use"
    return [
        Table(title, ["", "per cent", "peak"], rows),
        Heat(
            "Dictionary",
            [str(k) for k in order],
            columns,
            spectra[:, order].T,
            "What each component consists of.",
        ),
    ]


transform = local_moments("activations", "activation")
LISTING = Listing(
    Settings, TABLES, EnergyAlgorithm, describe, values, score, transform=transform, drawing=ROWS
)

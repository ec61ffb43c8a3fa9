"""Factorial hidden Markov models on the command line."""

from __future__ import annotations

from typing import Any

import numpy as np

from vijax import models
from vijax.app.catalogue.hmm import STAYING, likeliest_paths
from vijax.app.kinds.listing import Found, Seen, Tell
from vijax.app.kinds.tables import by_sequence, padded_sequences, sequence_model
from vijax.app.page.blocks import Block, Heat, Strips, Table
from vijax.app.rows.by_row import checked, in_blocks_of_sequences
from vijax.app.rows.drawing import SEQUENCES
from vijax.app.rows.scores import RowScore, bounds, sequences
from vijax.app.settings.options import model_section
from vijax.app.settings.units import log_scales, units_of

MOST_SHOWN = 6
"""Sequences whose states are drawn."""


Settings = model_section(
    models.factorial_hmm, "hidden Markov model of several chains", width="dim", num_chains=2, num_states=2
)


def score(seen: Seen) -> RowScore:
    """Bound on the log density of held-out sequences, per step, in the units of the data."""
    y, mask = padded_sequences(seen.data.test)
    found = bounds(seen.fit, (y, mask), seen.key) - by_sequence(seen.data.test, log_scales(seen.data.test))
    return RowScore.of(found, "step", f"a bound; {sequences(len(found))}", mask.sum(axis=1))


def describe(seen: Seen) -> list[Block]:
    """What the states of each chain add, how long they last, and the likeliest path of each chain."""
    settings, columns = seen.settings, list(seen.data.names)
    point = seen.point("contributions")
    added = np.asarray(point.coefficients, float).T.reshape(settings.num_chains, settings.num_states, len(columns))
    transition = np.asarray(seen.point("transition"), float)
    units = units_of(seen.data.train)
    noise = units.spread(1 / np.sqrt(np.maximum(np.asarray(point.precision, float), 1e-30)))
    y, mask = padded_sequences(seen.data.train)
    paths = seen.fit.locals((y, mask), key=seen.key)
    blocks: list[Block] = []
    for m in range(settings.num_chains):
        rows = [f"chain {m + 1}, state {k}" for k in range(settings.num_states)]
        stay = 1 / np.maximum(1 - np.diag(transition[m]), 1e-6)
        centred = units.spread(added[m] - added[m].mean(axis=0))  # a constant may move from chain to chain
        table = [
            [row, float(steps), *map(float, values)] for row, steps, values in zip(rows, stay, centred, strict=True)
        ]
        blocks.append(Table(f"Chain {m + 1}: what a state adds", ["", "steps at a time", *columns], table))
    blocks.append(Table("Noise", ["", "deviation"], list(zip(columns, noise, strict=True))))
    for m in range(settings.num_chains):
        states = np.asarray(likeliest_paths(paths[f"z{m + 1}"]))
        shown = np.where(mask, states, -1)[:MOST_SHOWN]
        names = (seen.data.train.group_names or ("all",))[:MOST_SHOWN]
        blocks.append(Strips(f"Chain {m + 1}: likeliest paths", names, shown, "A colour a state."))
        states_of = [str(k) for k in range(settings.num_states)]
        blocks.append(Heat(f"Chain {m + 1}: transitions", states_of, states_of, transition[m], STAYING, True))
    return blocks


def transform(seen: Seen, table: Any, tell: Tell) -> Found:
    """Of each chain the state of each step on its likeliest path, and the probabilities of all its states."""
    names = [f"z{m + 1}" for m in range(seen.settings.num_chains)]

    def read(data: Any) -> Found:
        local = seen.fit.locals(data, key=seen.key)
        states = np.stack([np.asarray(likeliest_paths(local[name])) for name in names], axis=-1)
        probs = {f"probability_of_chain_{m}": np.asarray(local[name].probs) for m, name in enumerate(names)}
        return {"state_of_chain": states, **probs}

    data = checked(seen, padded_sequences(table))
    return in_blocks_of_sequences(read, table, data, tell)


LISTING = sequence_model(Settings, describe, score, transform=transform, predicts="state_of_chain", drawing=SEQUENCES)

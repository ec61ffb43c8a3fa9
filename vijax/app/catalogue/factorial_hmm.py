"""Factorial hidden Markov models on the command line."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np

from vijax import models
from vijax.app.catalogue.hmm import STAYING, likeliest_paths
from vijax.app.kinds.listing import Data, Found, Seen, Tell
from vijax.app.kinds.tables import by_sequence, padded_sequences, sequence_model
from vijax.app.page.blocks import Block, Heat, Strips, Table
from vijax.app.rows.by_row import checked, in_blocks_of_sequences
from vijax.app.rows.drawing import SEQUENCES
from vijax.app.rows.scores import RowScore, bounds, sequences
from vijax.app.settings.typed_toml import POSITIVE, at_least, setting
from vijax.app.settings.units import log_scales, units_of

MOST_SHOWN = 6
"""Sequences whose states are drawn."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """[model]: the generative story."""

    name: Literal["factorial_hmm"] = setting("factorial_hmm", "hidden Markov model of several chains")
    num_chains: int = setting(2, "M, how many chains", at_least(1))
    num_states: int = setting(2, "K, states of each", at_least(1))
    initial_concentration: float = setting(1.0, "of the Dirichlet priors of first states", POSITIVE)
    transition_concentration: float = setting(1.0, "of those of next states", POSITIVE)
    stickiness: float = setting(0.0, "added to the concentration of staying", at_least(0))
    strength: float = setting(0.01, "prior precision of contributions: how many observations it is worth", POSITIVE)
    shape: float = setting(1.0, "of the gamma prior of the noise precisions", POSITIVE)
    rate: float = setting(1.0, "its rate; data of another scale than one want another", POSITIVE)


def build(settings: Settings, data: Data) -> Any:
    """The model."""
    given = dataclasses.asdict(settings)
    return models.factorial_hmm(len(data.names), **{name: value for name, value in given.items() if name != "name"})


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


LISTING = sequence_model(
    Settings, build, describe, score, transform=transform, predicts="state_of_chain", drawing=SEQUENCES
)

"""Small tables drawn from known models, so that every configuration runs without a download.

A generator is a function (rng, number of rows) -> columns by name, and a row of `GENERATORS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vijax.data.synthetic import bernoulli_mixture, spectrogram

Columns = dict[str, np.ndarray]


class Generator(NamedTuple):
    """A function that draws a table, its default number of rows, and its meaning."""

    draw: Callable[[np.random.Generator, int], Columns]
    num_rows: int
    meaning: str


def clusters(rng: np.random.Generator, num_rows: int) -> Columns:
    """Five bivariate Gaussians of unequal sizes, shapes and orientations."""
    means = np.array([[-6.0, 0.0], [0.0, 5.0], [5.0, 1.0], [1.0, -4.0], [-3.0, -5.0]])
    angles = np.array([0.3, 1.2, -0.5, 0.0, 0.8])
    spreads = np.array([[1.6, 0.4], [1.2, 0.5], [0.9, 0.9], [2.0, 0.3], [0.6, 0.6]])
    z = rng.choice(5, num_rows, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    noise = spreads[z] * rng.normal(size=(num_rows, 2))
    cos = np.cos(angles[z])
    sin = np.sin(angles[z])
    turned = np.stack(
        [cos * noise[:, 0] - sin * noise[:, 1], sin * noise[:, 0] + cos * noise[:, 1]], axis=1
    )
    return _columns(means[z] + turned)


def line(rng: np.random.Generator, num_rows: int) -> Columns:
    """Points on a line from four Gaussians of variance 1."""
    means = np.array([-8.0, -2.0, 2.0, 7.0])
    centres = means[rng.choice(4, num_rows, p=[0.2, 0.3, 0.1, 0.4])]
    return {"value": centres + rng.normal(size=num_rows)}


def counts(rng: np.random.Generator, num_rows: int) -> Columns:
    """Counts in six columns from four Poisson profiles, as spike counts of neurons in four
    conditions."""
    rates = np.array(
        [[12, 3, 1, 1, 6, 2], [2, 10, 4, 1, 1, 8], [1, 1, 9, 15, 2, 2], [5, 5, 5, 5, 5, 0.5]]
    )
    return _columns(rng.poisson(rates[rng.integers(4, size=num_rows)]).astype(float), "count")


def binary(rng: np.random.Generator, num_rows: int) -> Columns:
    """Sixteen binary columns from six patterns, each bit flipped with probability 0.1."""
    patterns = np.random.default_rng(5).random((6, 16)) < 0.5
    bits = patterns[rng.integers(6, size=num_rows)] ^ (rng.random((num_rows, 16)) < 0.1)
    return _columns(bits.astype(float), "bit")


def sequences(rng: np.random.Generator, num_rows: int) -> Columns:
    """Sequences of 30 to 90 steps of a hidden Markov model with three sticky states and two
    columns."""
    transition = np.array([[0.92, 0.06, 0.02], [0.04, 0.9, 0.06], [0.1, 0.02, 0.88]])
    means = np.array([[-2.0, 0.0], [1.0, 2.5], [2.5, -1.5]])
    lengths = rng.integers(30, 91, num_rows)  # more than enough
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), num_rows)) + 1]
    states = np.concatenate([_path(rng, transition, int(length)) for length in lengths])[:num_rows]
    values = means[states] + 0.8 * rng.normal(size=(num_rows, 2))
    number = np.repeat(np.arange(len(lengths)), lengths)[:num_rows].astype(float)
    return _columns(values) | {"sequence": number}


def _path(rng: np.random.Generator, transition: np.ndarray, length: int) -> np.ndarray:
    states = np.zeros(length, int)
    states[0] = rng.integers(len(transition))
    for t in range(1, length):
        states[t] = rng.choice(len(transition), p=transition[states[t - 1]])
    return states


def oscillations(rng: np.random.Generator, num_rows: int) -> Columns:
    """Sequences of 50 to 100 steps: two damped oscillators (24 and 9 steps a turn) that four
    columns see, with noise; a twentieth of the values is missing."""
    turns = [
        0.995 * np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
        for a in (2 * np.pi / 24, 2 * np.pi / 9)
    ]
    dynamics = np.zeros((4, 4))
    loadings = np.random.default_rng(13).normal(size=(4, 4))
    dynamics[:2, :2], dynamics[2:, 2:] = turns
    number, lengths = _lengths(rng, num_rows)
    starts = set(np.cumsum(lengths[:-1]).tolist()) | {0}
    state = np.zeros(4)
    states = np.zeros((num_rows, 4))
    for t in range(num_rows):
        state = rng.normal(size=4) if t in starts else dynamics @ state + 0.15 * rng.normal(size=4)
        states[t] = state
    y = 1.0 + states @ loadings.T + 0.3 * rng.normal(size=(num_rows, 4))
    return _columns(np.where(rng.random(y.shape) < 0.05, np.nan, y), "y") | {"sequence": number}


def switches(rng: np.random.Generator, num_rows: int) -> Columns:
    """Sequences of 50 to 100 steps of three columns, to which two chains contribute: one of three
    states that stays long, one of two that does not."""
    slow = np.array([[0.97, 0.02, 0.01], [0.01, 0.97, 0.02], [0.02, 0.01, 0.97]])
    fast = np.array([[0.8, 0.2], [0.2, 0.8]])
    first = np.array([[-3.0, 0.0, 1.0], [0.0, 3.0, -1.0], [3.0, -2.0, 0.0]])
    second = np.array([[-1.0, 1.0, 1.5], [1.0, -1.0, -1.5]])
    number, lengths = _lengths(rng, num_rows)
    a, b = (np.concatenate([_path(rng, chain, int(n)) for n in lengths]) for chain in (slow, fast))
    y = first[a] + second[b] + 0.4 * rng.normal(size=(num_rows, 3))
    return _columns(y, "y") | {"sequence": number}


def laps(rng: np.random.Generator, num_rows: int) -> Columns:
    """Sequences of 100 to 200 positions on a track of two straights and two bends, run at four
    speeds; and the part of the track that each position is on (Linderman et al. 2017, section 5.1,
    after their code)."""
    starts = np.cumsum(rng.integers(100, 201, num_rows))
    number = np.searchsorted(starts, np.arange(num_rows), side="right")
    right_turn, left_turn = (
        np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]])
        for a in (np.pi / 24, np.pi / 48)
    )
    centre = np.array([2.0, 0.0])
    along = np.array([0.1, 0.0])
    state = np.zeros(2)
    rows = np.zeros((num_rows, 2))
    parts = np.zeros(num_rows)
    for t in range(num_rows):
        if t == 0 or number[t] != number[t - 1]:
            state = rng.uniform([-1.5, 0.8], [1.5, 1.2]) * rng.choice([1, -1], 2)
        elif state[0] > 2:
            parts[t], state = 0, centre + right_turn @ (state - centre)
        elif state[0] < -2:
            parts[t], state = 1, -centre + left_turn @ (state + centre)
        else:
            parts[t], state = (2, state + along) if state[1] > 0 else (3, state - 2 * along)
        state = state + 0.01 * rng.normal(size=2)
        rows[t] = state
        if t and number[t] == number[t - 1]:
            continue
        if state[0] > 2:
            parts[t] = 0
        elif state[0] < -2:
            parts[t] = 1
        elif state[1] > 0:
            parts[t] = 2
        else:
            parts[t] = 3
    return _columns(rows) | {"part": parts, "sequence": number.astype(float)}


def _lengths(rng: np.random.Generator, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The sequence of each row, and the lengths of sequences, 50 to 100 steps but for the last."""
    lengths = rng.integers(50, 101, num_rows)
    ends = np.cumsum(lengths)
    lengths = lengths[: int(np.searchsorted(ends, num_rows)) + 1]
    lengths[-1] -= int(lengths.sum()) - num_rows
    return np.repeat(np.arange(len(lengths)), lengths).astype(float), lengths


def schools(rng: np.random.Generator, num_rows: int) -> Columns:
    """Scores of pupils in 40 schools of unequal size: intercepts vary about 1, slopes about 0.8,
    noise of 1."""
    school, x, predictor = _draw_groups(rng, num_rows)
    return {"x": x, "school": school, "score": predictor + rng.normal(size=num_rows)}


def clinics(rng: np.random.Generator, num_rows: int) -> Columns:
    """Outcomes of patients in 40 clinics of unequal size: the log odds of recovery rise with the
    dose, by 0.8 on average, and clinics differ."""
    clinic, dose, predictor = _draw_groups(rng, num_rows)
    recovered = rng.random(num_rows) < 1 / (1 + np.exp(-predictor))
    return {
        "dose": dose,
        "clinic": clinic,
        "outcome": np.where(recovered, "recovered", "ill").astype(object),
    }


def _draw_groups(
    rng: np.random.Generator, num_rows: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups, a column, and the predictor intercept + slope x, which vary from group to group."""
    groups = np.sort(rng.choice(40, num_rows, p=rng.dirichlet(np.full(40, 3.0))))
    x = rng.normal(size=num_rows)
    coefficients = rng.normal([1.0, 0.8], [0.8, 0.4], size=(40, 2))
    return groups.astype(float), x, coefficients[groups, 0] + coefficients[groups, 1] * x


def speech(rng: np.random.Generator, num_rows: int) -> Columns:
    """Frames of a speech-like spectrogram in whole quanta: twelve spectra of harmonics under
    formants, 65 frequencies (`vijax.data.synthetic.spectrogram`)."""
    seed = int(rng.integers(2**31))
    y, _ = spectrogram(num_rows, num_components=12, num_frequencies=65, seed=seed)
    return _columns(y.astype(float), "frequency")


def profiles(rng: np.random.Generator, num_rows: int) -> Columns:
    """A hundred binary columns from the finite approximation to a Dirichlet-process mixture, K =
    100, alpha = 20 (Hoffman and Blei 2015, section 4.2)."""
    y, _ = bernoulli_mixture(num_rows, seed=int(rng.integers(2**31)))
    return _columns(y.astype(float), "bit")


def factors(rng: np.random.Generator, num_rows: int) -> Columns:
    """Ten columns that three factors explain, and noise."""
    loadings = np.random.default_rng(7).normal(size=(3, 10))
    scores = rng.normal(size=(num_rows, 3))
    return _columns(1.0 + scores @ loadings + 0.5 * rng.normal(size=(num_rows, 10)))


def ratings(rng: np.random.Generator, num_rows: int) -> Columns:
    """Ratings of 40 items by each row's user, three quarters of them missing: three tastes, an
    item's appeal, noise."""
    items = np.random.default_rng(11).normal(size=(3, 40))
    full = (
        3.5
        + 0.7 * items[0]
        + rng.normal(size=(num_rows, 3)) @ items * 0.6
        + 0.4 * rng.normal(size=(num_rows, 40))
    )
    return _columns(np.where(rng.random(full.shape) < 0.25, full, np.nan), "item")


def regression(rng: np.random.Generator, num_rows: int) -> Columns:
    """Ten columns and a target that only three of them bear on (2, -1 and 0.5), with noise of
    deviation 0.5."""
    x = rng.normal(size=(num_rows, 10))
    y = 2 * x[:, 0] - x[:, 3] + 0.5 * x[:, 7] + 1.0 + 0.5 * rng.normal(size=num_rows)
    return _columns(x) | {"y": y}


def rings(rng: np.random.Generator, num_rows: int) -> Columns:
    """Two classes in the plane that no line parts: an inner disc and a ring about it,
    overlapping."""
    inner = rng.random(num_rows) < 0.5
    radius = np.where(inner, 0.8, 2.2) + 0.45 * rng.normal(size=num_rows)
    angle = rng.uniform(0, 2 * np.pi, num_rows)
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return _columns(x) | {"class": np.where(inner, "inside", "outside").astype(object)}


def rate(rng: np.random.Generator, num_rows: int) -> Columns:
    """Counts along a line whose Poisson rate rises and falls, exp(1 + sin 2t + t/5)."""
    t = np.sort(rng.uniform(-4, 4, num_rows))
    return {"t": t, "count": rng.poisson(np.exp(1 + np.sin(2 * t) + 0.2 * t)).astype(float)}


def bent(rng: np.random.Generator, num_rows: int) -> Columns:
    """Points of the plane in three normal clusters on a line that a sine bends, with noise of
    0.1."""
    u = rng.normal(np.array([-3.0, 0.0, 3.0])[rng.choice(3, num_rows, p=[0.5, 0.3, 0.2])], 0.5)
    return _columns(np.c_[u, 2 * np.sin(1.2 * u)] + 0.1 * rng.normal(size=(num_rows, 2)))


def dots(rng: np.random.Generator, num_rows: int) -> Columns:
    """Sequences of 50 images of 20 pixels: a dot that goes to and fro at constant speed, noise 0.05
    (Johnson et al. 2016)."""
    sequence = np.arange(num_rows) // 50
    step = np.arange(num_rows) % 50
    phase = rng.uniform(0, 2, sequence.max() + 1)[sequence] + 0.1 * step
    place = 0.15 + 0.7 * np.abs(phase % 2 - 1)
    images = np.exp(-0.5 * ((np.linspace(0, 1, 20) - place[:, None]) / 0.08) ** 2)
    pixels = images + 0.05 * rng.normal(size=images.shape)
    return _columns(pixels, "pixel") | {"sequence": sequence.astype(float)}


def links(rng: np.random.Generator, num_rows: int) -> Columns:
    """Edges of a graph of three circles of friends and a fourth group, whose members know people of
    all circles and hardly each other."""
    size = max(60, math.ceil(2 * math.sqrt(num_rows)))
    block = np.arange(size) * 4 // size
    rates = np.array(
        [
            [0.5, 0.02, 0.02, 0.3],
            [0.02, 0.4, 0.02, 0.3],
            [0.02, 0.02, 0.3, 0.3],
            [0.3, 0.3, 0.3, 0.02],
        ]
    )
    first, second = np.triu_indices(size, 1)
    chance = rates[block[first], block[second]]
    edges = rng.choice(len(first), num_rows, replace=False, p=chance / chance.sum())
    names = np.array([f"{'abcd'[k]}{i + 1:02d}" for i, k in enumerate(block)], object)
    return {"source": names[first[edges]], "target": names[second[edges]]}


def _columns(x: np.ndarray, name: str = "x") -> Columns:
    return {f"{name}{i + 1}": column for i, column in enumerate(x.T)}


GENERATORS: dict[str, Generator] = {
    draw.__name__: Generator(draw, num_rows, (draw.__doc__ or "").strip())
    for draw, num_rows in {
        clusters: 1000,
        line: 500,
        counts: 800,
        binary: 800,
        sequences: 3000,
        oscillations: 1500,
        switches: 1500,
        laps: 3000,
        schools: 1200,
        clinics: 2000,
        speech: 600,
        profiles: 1000,
        factors: 500,
        ratings: 400,
        regression: 300,
        rings: 300,
        rate: 150,
        bent: 600,
        dots: 5000,
        links: 400,
    }.items()
}
"""The generators by name: `path = "synthetic:clusters"`."""

"""What `tests/scale/test_mesh.py` fits on meshes: every row of the algorithms' table, on models of
every kind, with data that no number of devices divides."""

import functools
from typing import Any, NamedTuple

import jax
import numpy as np

import vijax as vi
from tests import axis_cases
from tests.axis_cases import FAST, HALF, density, hierarchy, mixture, mixture_at_random

N, STEPS = 43, 20
RNG = np.random.default_rng(1)
Y = RNG.normal(np.repeat([-3.0, 0.0, 4.0], [15, 14, 14])[:, None], 1.0, (N, 2))
COUNTS = RNG.poisson(0.15 * RNG.gamma(0.3, 3.0, (N, 40)))
COUNTS[:, 0] += 1  # no empty document
SEQUENCES = (RNG.normal(size=(N, 5, 2)), np.arange(5) < RNG.integers(2, 6, (N, 1)))
GROUPS = (
    RNG.normal(size=(N, 3, 2)),
    RNG.normal(size=(N, 3)),
    np.arange(3) < RNG.integers(1, 4, (N, 1)),
)
SIGNED = (GROUPS[0], np.where(GROUPS[1] > 0, 1.0, -1.0), GROUPS[2])
X = np.linspace(0.0, 3.0, N)
LABELS = np.where(np.sin(3 * X) > 0, 1.0, -1.0)
SITES = {"site": np.arange(N, dtype=np.int32), "y": LABELS}
SAMPLED = vi.expectation.bonnet_price(num_samples=5)
FEW, THIRD = {"batch_size": 10}, {"batch_size": 15}
AT_HALF = {"step_size": HALF}


class Case(NamedTuple):
    """Attributes:
    make: makes the algorithm.
    data: what is fitted.
    settings: of the fit.
    draws: locals are drawn, so that the fit without a mesh has other noise.
    """

    make: Any
    data: Any
    settings: dict[str, Any] | None = None
    draws: bool = False


def lda():
    return vi.models.lda(4, 40, alpha=0.3, eta=0.2)


def sites():
    return vi.models.gp(
        X, LABELS, axis_cases.rbf, vi.likelihood.bernoulli_logit(), jitter=1e-3, inducing=X[::6]
    )


def of(row, make, **choices):
    """Makes the algorithm, in the precision of the moment."""
    return functools.partial(_made, row, make, choices)


def _made(row, make, choices):
    return row(make(), **choices)


def by_words(model, **choices):
    return vi.topics.by_words(vi.svi(model, **choices))


def warm(model):
    return vi.warm(vi.svi(model))


GIBBS = vi.estep.gibbs(num_sweeps=3, burn_in=1)
CASES = {
    # Topics, on all words and by words.
    "lda by cavi": Case(of(vi.cavi, lda), COUNTS),
    "lda by em": Case(of(vi.em, lda), COUNTS),
    "lda by map": Case(of(vi.map, lda), COUNTS),
    "lda by svi": Case(of(vi.svi, lda, learn=("alpha",)), COUNTS, FEW),
    "lda by svi, by words": Case(of(by_words, lda), COUNTS, FEW),
    "lda by svi, warm": Case(of(lambda model: vi.averaged(warm(model), 5), lda), COUNTS, FEW),
    "lda by svi, warm and by words": Case(
        of(lambda model: vi.topics.by_words(warm(model)), lda), COUNTS, FEW
    ),
    "lda by svi, gibbs": Case(of(vi.svi, lda, estep=GIBBS), COUNTS, FEW, True),
    "lda by svi, gibbs, by words": Case(of(by_words, lda, estep=GIBBS), COUNTS, FEW, True),
    "lda by ssvi": Case(of(vi.ssvi, lda), COUNTS, FEW),
    "lda by ssvi_a": Case(of(vi.ssvi_a, lda), COUNTS, FEW),
    "lda by ssvi_a, by words": Case(
        of(lambda model: vi.topics.by_words(vi.ssvi_a(model)), lda), COUNTS, FEW
    ),
    "lda by sgrld, gibbs": Case(of(vi.sgrld, lda, estep=GIBBS), COUNTS, FEW, True),
    "lda by svi, a message of 8 MB": Case(
        of(vi.svi, lambda: vi.models.lda(100, 10_000)), COUNTS, FEW
    ),
    "lda by memoized": Case(of(vi.memoized, lda, num_parts=4), COUNTS),
    "ctm by cavi": Case(of(vi.cavi, lambda: vi.models.ctm(3, 40)), COUNTS, None, True),
    # Mixtures, chains, hierarchies.
    # Starts that end apart: of equal ends rounding would choose one, with other labels.
    "mixture by cavi": Case(of(vi.cavi, mixture_at_random), Y, {"restarts": 3, "num_steps": 4}),
    "mixture by em": Case(of(vi.em, axis_cases.wisharts), Y),
    "mixture by memoized": Case(
        of(vi.memoized, mixture_at_random, num_parts=4), Y, {"restarts": 3, "num_steps": 8}
    ),
    "mixture by memoized, alone": Case(of(vi.memoized, mixture, num_parts=4), Y),
    "mixture by svi": Case(
        of(lambda model: vi.averaged(vi.svi(model), 5), mixture), Y, FEW | {"tol": 1e-3}
    ),
    "mixture by ssvi": Case(of(vi.ssvi, mixture, **AT_HALF), Y, THIRD),
    "mixture, backtracking": Case(of(vi.cavi, mixture, step_size=vi.step_size.backtracking()), Y),
    "hmm by cavi": Case(of(vi.cavi, axis_cases.hmm), SEQUENCES),
    "hmm by svi": Case(of(vi.svi, axis_cases.hmm), SEQUENCES, FEW),
    "hierarchy by map": Case(of(vi.map, hierarchy), Y),
    "hierarchy by pg_svi": Case(of(vi.pg_svi, hierarchy), Y, FEW),
    "groups by cavi": Case(of(vi.cavi, axis_cases.in_groups), GROUPS),
    "groups by svi": Case(of(vi.svi, axis_cases.in_groups), GROUPS, FEW),
    "locals that go on by cavi": Case(of(vi.cavi, axis_cases.coupled_locals), SIGNED),
    "locals by svi, warm": Case(of(warm, axis_cases.coupled_locals), SIGNED, FEW),
    "locals by svi, gibbs": Case(
        of(vi.svi, axis_cases.coupled_locals, estep=GIBBS), SIGNED, FEW, True
    ),
    # Sites.
    "gp by pg_svi": Case(of(vi.pg_svi, sites), SITES),
    "gp by pg_svi, memory": Case(of(vi.pg_svi, sites, memory=True), SITES, FEW),
    "gp by pg_svi, inner steps": Case(of(vi.pg_svi, sites, memory=True, inner_steps=3), SITES, FEW),
    "gp by pg_svi, a share": Case(of(vi.pg_svi, sites), SITES, FEW),
    "gp by pg_svi, drawn": Case(
        of(vi.pg_svi, sites, expectation=SAMPLED, **AT_HALF), SITES, FEW, True
    ),
    # Free variables.
    "density by ngvi": Case(of(vi.ngvi, density), Y, THIRD),
    "density by bam": Case(of(vi.bam, density), Y),
    "density by advi": Case(of(vi.advi, density, optimizer=FAST), Y, FEW),
    "density by bbvi": Case(of(vi.bbvi, density, optimizer=FAST), Y, FEW),
    "autoencoder by aevb": Case(
        of(vi.aevb, lambda: axis_cases.autoencoder(False), learning_rate=0.05), Y, FEW, True
    ),
    "autoencoder with weights by aevb": Case(
        of(vi.aevb, lambda: axis_cases.autoencoder(True), learning_rate=0.05), Y, None, True
    ),
}


def fitted(name, num_devices, **more):
    """The fit of a case on a mesh; without one for None."""
    case = CASES[name]
    mesh = None if num_devices is None else vi.scale.mesh(num_devices)
    settings = {"num_steps": STEPS, "throw": False} | (case.settings or {}) | more
    return vi.fit(case.make(), case.data, key=jax.random.key(1), mesh=mesh, **settings)


def apart(one, other):
    """The largest difference of two fits' states and objectives, relative to the largest number of
    each array."""
    kept = lambda fit: (fit.state._replace(watch=None, checked=None), fit.trace["elbo"])
    pairs = zip(jax.tree.leaves_with_path(kept(one)), jax.tree.leaves(kept(other)), strict=True)
    return max(
        (_distance(a, b), jax.tree_util.keystr(path)) for (path, a), b in pairs if np.size(a)
    )


def _distance(a, b):
    a, b = np.asarray(a, float), np.asarray(b, float)
    if a.shape != b.shape:
        return np.inf
    return float(np.max(np.abs(a - b)) / (np.max(np.abs(a)) or 1.0))


def report(names, counts=(2, 8)):
    """A line for each case: the largest difference of fits on meshes from that on one device; where
    they draw, on a mesh of one."""
    for name in names:
        first = fitted(name, 1 if CASES[name].draws else None)
        worst = max(apart(first, fitted(name, count)) for count in counts)
        print(f"{worst[0]:.1e} {name}, {worst[1]}", flush=True)

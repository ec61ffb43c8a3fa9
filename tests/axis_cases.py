"""What `tests/inference/test_axis.py` runs over an axis: every row of the algorithms' table, on
tiny models of every kind."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import vijax as vi

N = 40.0
"""Groups of which a batch holds sixteen."""
HALF = vi.step_size.constant(0.5)
RNG = np.random.default_rng(0)
Y = RNG.normal(np.repeat([-3.0, 0.0, 4.0, 1.0], 4)[:, None], 1.0, (16, 2))
COUNTED = np.float32(np.arange(16) < 13)
X = np.linspace(0.0, 3.0, 16)
LABELS = np.where(np.sin(3 * X) > 0, 1.0, -1.0)
SEQUENCES = (RNG.normal(size=(16, 5, 2)), np.arange(5) < RNG.integers(2, 6, (16, 1)))
ROWS = (
    RNG.normal(size=(16, 3, 2)),
    RNG.normal(size=(16, 3)),
    np.arange(3) < RNG.integers(1, 4, (16, 1)),
)


class Case(NamedTuple):
    """Attributes:
    row: makes the algorithm, of a model and choices.
    make: makes the model, in the precision of the moment.
    batches: of a run, one after the other and from the start again.
    choices: of the row.
    draws_locals: the E-step draws, by a key of each group.
    """

    row: Any
    make: Callable[[], vi.Model]
    batches: tuple[vi.Minibatch, ...]
    choices: dict[str, Any]
    draws_locals: bool = False


# --- models ---------------------------------------------------------------------------------------
def hierarchy():
    """y_n ~ N(mean, I), mean ~ N(0, 1 / tau), tau ~ gamma: a term couples the two globals, which no
    group has."""

    def energy(s, y):
        return -0.5 * jnp.sum(y**2 - 2 * y * s["mean"].value + s["mean"].square)

    def coupling(s, hyper):
        scaled = hyper["ridge"] * s["tau"].value * s["mean"].square
        return 0.5 * jnp.sum(jnp.log(hyper["ridge"]) + s["tau"].log - scaled)

    return vi.energy_model(
        globals={
            "tau": vi.Gamma.from_shape_rate(2.0, 1.0),
            "mean": vi.conditional(vi.Normal.from_mean_variance(jnp.zeros(2), 1.0)),
        },
        energy=lambda s, y, hyper: energy(s, y),
        prior_energy=coupling,
        hyper={"ridge": 1.5},
        example=np.zeros(2),
    )


def in_groups():
    """A hierarchy by groups, whose coefficients are locals of one population."""
    return vi.models.hierarchical_linear_regression(2)


def density():
    """A mean and a scale, of a density by groups."""
    norm = jax.scipy.stats.norm
    return vi.density(
        {"mean": vi.free(2), "scale": vi.free(support="positive")},
        log_prior=lambda v: norm.logpdf(v["mean"], 0, 3).sum() - v["scale"],
        log_lik=lambda v, y: norm.logpdf(y, v["mean"], v["scale"]).sum(),
    )


def free_beside_conjugate():
    """y ~ N(tanh(w x + shift), 1 / tau): w free under a prior with a point of its own, tau
    conjugate."""

    def energy(s, y, hyper):
        gap = y[1] - jnp.tanh(s["w"] * y[0] + hyper["shift"])
        return 0.5 * (s["tau"].log - s["tau"].value * gap**2)

    return vi.energy_model(
        globals={"w": vi.free(), "tau": vi.Gamma.from_shape_rate(2.0, 1.0)},
        energy=energy,
        prior_energy=lambda s, hyper: (
            0.5 * (jnp.log(hyper["ridge"]) - hyper["ridge"] * s["w"] ** 2)
        ),
        hyper={"ridge": 2.0},
        points={"shift": jnp.asarray(0.1)},
        example=np.zeros(2),
    )


def coupled_locals():
    """Locals that depend on each other, of a hierarchy: the E-step of a group goes on from where it
    was."""
    return vi.models.hierarchical_probit_regression(2)


def autoencoder(bayesian):
    encode = lambda w, x: (x @ w, jnp.full(1, -1.0, x.dtype))
    weights = 0.3 * jnp.ones((2, 1)), 0.3 * jnp.ones((1, 2))
    observed = vi.models.observed.gaussian(sd=0.5)
    decode = lambda w, z: z @ w
    return vi.models.vae(
        (encode, weights[0]), (decode, weights[1]), observed, latent_dim=1, bayesian=bayesian
    )


def documents(num_docs):
    rng = np.random.default_rng(1)
    words = np.stack([rng.choice(12, 6, replace=False) for _ in range(num_docs)]).astype(np.int32)
    counts = rng.integers(1, 4, words.shape).astype(np.float32)
    return vi.Documents(words, counts, np.ones(num_docs, np.float32), max_tokens=18)


def rbf(a, b):
    return jnp.exp(-0.5 * (a[:, None] - b[None, :]) ** 2)


def mixture():
    return vi.models.mixture(vi.models.emission.unit_gaussian(3, dim=2))


def mixture_at_random():
    """Starts that differ; those of k-means++ all end at one optimum here."""
    random = vi.init.random_responsibilities()
    return vi.models.mixture(vi.models.emission.unit_gaussian(3, dim=2), init=random)


def wisharts():
    return vi.models.mixture(vi.models.emission.full_gaussian(3, dim=2))


def hmm():
    return vi.models.hmm(vi.models.emission.unit_gaussian(2, dim=2))


def lda():
    return vi.models.lda(3, 12, alpha=0.3, eta=0.2)


def gp(kernel=rbf):
    inducing = X[::3]
    return vi.models.gp(
        X, LABELS, kernel, vi.likelihood.bernoulli_logit(), jitter=1e-3, inducing=inducing
    )


# --- cases ----------------------------------------------------------------------------------------
BATCH = (vi.Minibatch(Y, N),)
PADDED = (vi.Minibatch(Y, N, COUNTED),)
PARTS = tuple(vi.Minibatch(Y[8 * i : 8 * i + 8], 16.0, part=i) for i in range(2))
DOCUMENTS = (vi.Minibatch((documents(16),), N),)
SITES = (vi.Minibatch({"site": np.arange(16, dtype=np.int32), "y": LABELS}, 16.0),)
PADDED_SITES = (SITES[0]._replace(weights=COUNTED),)
PAIRS = (vi.Minibatch(np.stack([X, LABELS], 1), N),)
GROUPS = (vi.Minibatch(ROWS, N),)
SIGNED = (vi.Minibatch((ROWS[0], np.where(ROWS[1] > 0, 1.0, -1.0), ROWS[2]), 16.0),)
COUNTS = (vi.Minibatch(RNG.poisson(3.0, (16, 4)), 16.0),)
TRIES = vi.step_size.backtracking()
FAST = optax.adam(0.05)

CASES = {
    # Conjugate models.
    "mixture by cavi": Case(vi.cavi, wisharts, BATCH, {}),
    "mixture by svi, padded": Case(vi.svi, mixture, PADDED, {}),
    "mixture by ssvi": Case(vi.ssvi, mixture, BATCH, {"step_size": HALF}),
    "mixture by em": Case(vi.em, mixture, BATCH, {}),
    "mixture by memoized": Case(vi.memoized, mixture, PARTS, {"num_parts": 2}),
    "mixture, backtracking": Case(vi.cavi, mixture, BATCH, {"step_size": TRIES}),
    "lda, mean field": Case(vi.svi, lda, DOCUMENTS, {"step_size": HALF, "learn": ("alpha",)}),
    "lda, cvb0": Case(vi.svi, lda, DOCUMENTS, {"step_size": HALF, "estep": vi.estep.cvb0()}),
    "lda, gibbs": Case(
        vi.svi,
        lda,
        DOCUMENTS,
        {"step_size": HALF, "estep": vi.estep.gibbs(num_sweeps=3, burn_in=1)},
        True,
    ),
    "lda by ssvi_a": Case(vi.ssvi_a, lda, DOCUMENTS, {"step_size": HALF}),
    "lda by sgrld": Case(vi.sgrld, lda, DOCUMENTS, {"step_size": HALF}),
    "gap_nmf by cavi": Case(vi.cavi, lambda: vi.models.gap_nmf(4, num_components=3), COUNTS, {}),
    "hmm": Case(vi.svi, hmm, (vi.Minibatch(SEQUENCES, N),), {"step_size": HALF}),
    # Gaussian predictors.
    "gp": Case(vi.pg_svi, gp, SITES, {"step_size": HALF}),
    "gp, backtracking": Case(vi.pg_svi, gp, SITES, {}),
    "gp, memory": Case(vi.pg_svi, gp, SITES, {"step_size": HALF, "memory": True}),
    "gp, inner steps": Case(
        vi.pg_svi, gp, SITES, {"step_size": HALF, "memory": True, "inner_steps": 3}
    ),
    "gp, padded": Case(vi.pg_svi, gp, PADDED_SITES, {"step_size": HALF, "memory": True}),
    "gp, padded, without memory": Case(vi.pg_svi, gp, PADDED_SITES, {"step_size": HALF}),
    "gp, learnt": Case(vi.pg_svi, lambda: gp("rbf"), SITES, {"learn": ("scale", "length")}),
    # A term that couples the globals.
    "hierarchy by map": Case(vi.map, hierarchy, PADDED, {}),
    "hierarchy by cavi": Case(vi.cavi, hierarchy, BATCH, {}),
    "hierarchy by cavi, learnt": Case(vi.cavi, hierarchy, BATCH, {"learn": ("ridge",)}),
    "hierarchy, backtracking": Case(vi.cavi, hierarchy, BATCH, {"step_size": TRIES}),
    "hierarchy by memoized": Case(vi.memoized, hierarchy, PARTS, {"num_parts": 2}),
    "hierarchy by svi": Case(lambda model: vi.averaged(vi.svi(model), 1), hierarchy, PADDED, {}),
    "hierarchy by ssvi": Case(vi.ssvi, hierarchy, BATCH, {"step_size": HALF}),
    "hierarchy by ssvi_a": Case(vi.ssvi_a, hierarchy, BATCH, {"step_size": HALF}),
    "hierarchy by pg_svi": Case(vi.pg_svi, hierarchy, BATCH, {}),
    "hierarchy by descent": Case(vi.svi, hierarchy, BATCH, {"update": vi.update.descend(FAST)}),
    "groups by cavi": Case(vi.cavi, in_groups, GROUPS, {}),
    "groups by svi": Case(vi.svi, in_groups, GROUPS, {}),
    "locals found anew by svi": Case(vi.svi, coupled_locals, SIGNED, {}),
    "locals that go on by cavi": Case(vi.cavi, coupled_locals, SIGNED, {}),
    # Free variables.
    "density by ngvi": Case(vi.ngvi, density, PADDED, {}),
    "density by bam": Case(vi.bam, density, BATCH, {}),
    "density by advi": Case(vi.advi, density, PADDED, {"optimizer": FAST}),
    "density by advi, weighted": Case(
        vi.advi, density, BATCH, {"num_samples": 4, "objective": vi.objective.importance_weighted()}
    ),
    "density by advi, low rank": Case(vi.advi, density, BATCH, {"guide": vi.guides.low_rank(1)}),
    "density by advi, mixture": Case(vi.advi, density, BATCH, {"guide": vi.guides.mixture(2)}),
    "density by bbvi": Case(vi.bbvi, density, BATCH, {"optimizer": FAST}),
    "density by pg_svi": Case(vi.pg_svi, density, BATCH, {"update": vi.update.within(1.0)}),
    "free and conjugate by svi": Case(
        vi.svi, free_beside_conjugate, PAIRS, {"learn": ("ridge", "shift")}
    ),
    "free and conjugate by aevb": Case(
        vi.aevb, free_beside_conjugate, PAIRS, {"learning_rate": 0.05}
    ),
    "autoencoder by aevb": Case(
        vi.aevb, lambda: autoencoder(False), PADDED, {"learning_rate": 0.05}, True
    ),
    "autoencoder with weights by aevb": Case(
        vi.aevb, lambda: autoencoder(True), BATCH, {"learning_rate": 0.05}, True
    ),
}


# --- the two ways ---------------------------------------------------------------------------------
def cut(data, count):
    """A leading axis of so many pieces before that of the groups."""
    return jax.tree.map(lambda x: jnp.reshape(x, (count, -1, *jnp.shape(x)[1:])), data)


def joined(pieces):
    return jax.tree.map(lambda x: jnp.reshape(x, (-1, *jnp.shape(x)[2:])), pieces)


def pieces_of(batch, count):
    """A batch in pieces, and where `vmap` finds their axis."""
    weights = None if batch.weights is None else cut(batch.weights, count)
    axes = vi.Minibatch(0, None, None if weights is None else 0)
    return batch._replace(data=cut(batch.data, count), weights=weights), axes


def by_group(model):
    """The model whose bound of a batch is the sum of those of its groups, each by a key of its
    own."""

    def local_elbo(hyper, stats, batch, key, estep):
        count = jax.tree.leaves(batch.data)[0].shape[0]
        key = (
            key if model.form.documents is None else jax.random.fold_in(key, 0)
        )  # of documents of one length
        pieces, axes = pieces_of(batch, count)
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(count))
        one = lambda batch, key: model.local_elbo(hyper, stats, batch, key, estep)
        said = jax.vmap(one, in_axes=(axes, 0))(pieces, keys)
        return jax.tree.map(lambda x: jnp.sum(x, 0), said._replace(per_group=None, local=None))

    return dataclasses.replace(model, local_elbo=local_elbo)


def by_vmap(step, batch, count):
    """The groups, and locals of a state, in parts along an axis that `vmap` names; what every part
    returns."""

    def split(key, state, batch):
        pieces, axes = pieces_of(batch, count)
        kept = jax.tree.map(lambda _: None, state)._replace(
            local=None if state.local is None else 0
        )
        state = state._replace(local=cut(state.local, count))
        return jax.vmap(step, in_axes=(None, kept, axes), axis_name="data", axis_size=count)(
            key, state, pieces
        )

    return split


def by_devices(step, batch, count):
    """The groups, and locals of a state, on so many devices; what every device returns."""
    P, batched = jax.sharding.PartitionSpec, jax.sharding.PartitionSpec("data")
    mesh = jax.sharding.Mesh(
        np.array(jax.devices()[:count]), ("data",), axis_types=(jax.sharding.AxisType.Auto,)
    )
    specs = vi.Minibatch(batched, P(), None if batch.weights is None else batched, part=P())

    def run(key, state, batch):
        return jax.tree.map(lambda x: x[None], step(key, state, batch))

    def split(key, state, batch):
        kept = jax.tree.map(lambda _: P(), state)._replace(local=batched)
        each = jax.shard_map(
            run, mesh=mesh, in_specs=(P(), kept, specs), out_specs=batched, check_vma=False
        )
        return each(key, state, batch)

    return split


def differences(name, split, counts, steps=3):
    """What differs between a run with the batch whole and one with it in parts, by 1e-5: a line for
    each number of devices and each leaf, on any of them."""
    row, make, batches, choices, draws_locals = CASES[name]
    model = make()
    keys = jax.random.split(jax.random.key(0), steps)
    parts = vi.over_axis(row(model, **choices), "data")
    start = jax.jit(parts.init)(keys[0], batches[0])

    def run(step, joined):
        state, step = start, jax.jit(step)
        for t in range(steps):
            told = step(keys[t], state, batches[t % len(batches)])
            state = joined(told[0])
        return told

    alone = lambda model: run(row(model, **choices).step, lambda state: state)
    found, whole = [], alone(by_group(model) if draws_locals else model)
    for count in counts:
        first = lambda state: jax.tree.map(lambda x: x[0], state)._replace(
            local=joined(state.local)
        )
        apart = run(split(parts.step, batches[0], count), first)
        found += [
            f"{name} on {count}: {line}" for line in _unlike(whole, apart, batches[0].weights)
        ]
    return found


def _unlike(whole, apart, weights):
    """Where a state and what is reported differ; of locals and bounds by group each device has its
    part, and padding is anything."""
    known = lambda told: (told[0]._replace(local=None), told[1]._replace(per_group=None))
    for (path, a), b in zip(
        jax.tree.leaves_with_path(known(whole)), jax.tree.leaves(known(apart)), strict=True
    ):
        if not np.allclose(
            b, np.broadcast_to(a, np.shape(b)), rtol=1e-5, atol=1e-8, equal_nan=True
        ):
            yield f"{jax.tree_util.keystr(path)} is {np.asarray(b).tolist()}, for {np.asarray(a).tolist()}"
    if whole[1].per_group is None:
        return
    each = (whole[0].local, whole[1].per_group), joined((apart[0].local, apart[1].per_group))
    counts = slice(None) if weights is None else np.flatnonzero(weights)
    for a, b in zip(*map(jax.tree.leaves, each), strict=True):
        if not np.allclose(b[counts], a[counts], rtol=1e-5, atol=1e-8):
            yield f"locals or bounds by group are {np.asarray(b).tolist()}, for {np.asarray(a).tolist()}"

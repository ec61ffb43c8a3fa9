"""A batch split over a mesh axis is the batch whole: by `vmap` with a named axis here, on eight devices of a process of
its own, and every row's step lowers for accelerators that are not there."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from vijax.axis import Axis

KEY, DEVICES = jax.random.key(0), 8
RNG = np.random.default_rng(0)
Y = np.float32(RNG.normal(np.repeat([-3.0, 0.0, 4.0, 1.0], 4)[:, None], 1.0, (16, 2)))
N = 40.0
HALF = vi.step_size.constant(0.5)


def documents(num_docs):
    words = np.stack([RNG.choice(12, 6, replace=False) for _ in range(num_docs)]).astype(np.int32)
    counts = RNG.integers(1, 4, words.shape).astype(np.float32)
    return vi.Documents(words, counts, np.ones(num_docs, np.float32), max_tokens=18)


def rbf(a, b):
    return jnp.exp(-0.5 * (a[:, None] - b[None, :]) ** 2)


X = np.linspace(0.0, 3.0, 16, dtype=np.float32)
LABELS = np.where(np.sin(3 * X) > 0, 1.0, -1.0).astype(np.float32)
GP = vi.models.gp(X, LABELS, rbf, vi.likelihood.bernoulli_logit(), jitter=1e-3, inducing=X[::3])
NAMED = vi.models.gp(X, LABELS, "rbf", vi.likelihood.bernoulli_logit(), jitter=1e-3, inducing=X[::3])
SITES = {"site": np.arange(16, dtype=np.int32), "y": LABELS}
LDA = vi.models.lda(3, 12, alpha=0.3, eta=0.2)
DOCS = vi.Minibatch((documents(16),), N)
MIXTURE = vi.models.mixture(vi.models.emission.unit_gaussian(3, dim=2))
WISHARTS = vi.models.mixture(vi.models.emission.full_gaussian(3, dim=2))
HMM = vi.models.hmm(vi.models.emission.unit_gaussian(2, dim=2))
SEQUENCES = (np.float32(RNG.normal(size=(16, 5, 2))), np.arange(5) < RNG.integers(2, 6, (16, 1)))

CASES = {
    "mixture by cavi": (vi.cavi, WISHARTS, vi.Minibatch(Y, N), {}),
    "mixture by svi, padded": (vi.svi, MIXTURE, vi.Minibatch(Y, N, np.float32(np.arange(16) < 13)), {}),
    "mixture by ssvi": (vi.ssvi, MIXTURE, vi.Minibatch(Y, N), {"step_size": HALF}),
    "mixture by em": (vi.em, MIXTURE, vi.Minibatch(Y, N), {}),
    "mixture, backtracking": (vi.cavi, MIXTURE, vi.Minibatch(Y, N), {"step_size": vi.step_size.backtracking()}),
    "lda, mean field": (vi.svi, LDA, DOCS, {"step_size": HALF, "learn": ("alpha",)}),
    "lda, cvb0": (vi.svi, LDA, DOCS, {"step_size": HALF, "estep": vi.estep.cvb0()}),
    "lda by ssvi_a": (vi.ssvi_a, LDA, DOCS, {"step_size": HALF}),
    "hmm": (vi.svi, HMM, vi.Minibatch(SEQUENCES, N), {"step_size": HALF}),
    "gp": (vi.pg_svi, GP, vi.Minibatch(SITES, 16.0), {"step_size": HALF}),
    "gp, memory": (vi.pg_svi, GP, vi.Minibatch(SITES, 16.0), {"step_size": HALF, "memory": True}),
    "gp, learnt": (vi.pg_svi, NAMED, vi.Minibatch(SITES, 16.0), {"learn": ("scale", "length")}),
}


def compared(name, split, steps=3):
    """Numbers of the state and of what is reported, with the batch whole and split."""
    row, model, batch, choices = CASES[name]
    alone, parts = row(model, **choices), row(model, axis="data", **choices)
    state = other = jax.jit(alone.init)(KEY, batch)
    step, stepped = jax.jit(alone.step), jax.jit(split(parts.step, batch))
    for t in range(steps):
        state, info = step(jax.random.fold_in(KEY, t), state, batch)
        other, told = stepped(jax.random.fold_in(KEY, t), other, batch)
    pick = lambda state, info: (state.posterior, state.hyper, info.elbo, info.local_elbo, info.num_groups)
    return jax.tree.leaves(pick(state, info)), jax.tree.leaves(pick(other, told))


def by_vmap(step, batch):
    """The groups in eight parts along an axis that `vmap` names."""
    cut = lambda x: jnp.reshape(x, (DEVICES, -1, *jnp.shape(x)[1:]))

    def split(key, state, batch):
        axes = vi.Minibatch(0, None, None if batch.weights is None else 0)
        pieces = batch._replace(data=jax.tree.map(cut, batch.data))
        if batch.weights is not None:
            pieces = pieces._replace(weights=cut(batch.weights))
        run = jax.vmap(step, in_axes=(None, None, axes), axis_name="data")
        return jax.tree.map(lambda x: x[0], run(key, state, pieces))

    return split


def by_devices(step, batch):
    """The groups on eight devices."""
    P = jax.sharding.PartitionSpec
    mesh = jax.make_mesh((DEVICES,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    specs = vi.Minibatch(P("data"), P(), None if batch.weights is None else P("data"))

    def run(key, state, batch):
        state, info = step(key, state, batch)
        return state, info._replace(per_group=None)

    return jax.shard_map(run, mesh=mesh, in_specs=(P(), P(), specs), out_specs=P(), check_vma=False)


def check(name, split):
    alone, parts = compared(name, split)
    for a, b in zip(alone, parts, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["mixture by svi, padded", "gp, memory"])
def test_a_step_on_parts_is_the_step_on_the_whole(name):
    """In this process; `test_eight_devices` has all cases."""
    check(name, by_vmap)


def test_draws_of_the_locals_differ_between_devices(monkeypatch):
    """And with one key for all, eight times the same documents say what they say once."""
    keys = jax.vmap(Axis("data").key, in_axes=None, axis_size=DEVICES, axis_name="data")(KEY)
    assert len(np.unique(jax.random.key_data(keys), axis=0)) == DEVICES
    monkeypatch.setattr(Axis, "key", lambda self, key: key)
    gibbs = vi.estep.gibbs(num_sweeps=3, burn_in=1)
    docs = documents(2)
    alone = vi.svi(LDA, step_size=HALF, estep=gibbs)
    state = alone.init(KEY)
    new, info = jax.jit(alone.step)(KEY, state, vi.Minibatch((docs,), N))
    parts = vi.svi(LDA, step_size=HALF, estep=gibbs, axis="data")
    repeated = vi.Minibatch(jax.tree.map(lambda x: jnp.stack([x] * DEVICES), (docs,)), N)
    run = jax.jit(jax.vmap(parts.step, in_axes=(None, None, vi.Minibatch(0, None)), axis_name="data"))
    split, told = run(KEY, state, repeated)
    np.testing.assert_allclose(
        split.posterior["topics"].concentration[0], new.posterior["topics"].concentration, rtol=1e-4
    )
    np.testing.assert_allclose(told.elbo[0], info.elbo, rtol=1e-4)


def test_the_group_that_is_not_finite_is_found_in_its_part():
    """Row 11 of 16 is the second of the sixth device."""
    coin = vi.model(
        prior={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)},
        local_elbo=lambda s, y, key: (jnp.log(y) * s["bias"].log, None),
    )
    alg = vi.svi(coin, axis="data")
    y = jnp.ones(16).at[11].set(-1.0)
    _, info = jax.jit(by_vmap(alg.step, vi.Minibatch(y, N)))(KEY, alg.init(KEY), vi.Minibatch(y, N))
    assert int(info.bad_group) == 11
    assert int(info.result) == vi.Result.SKIPPED


def test_inner_steps_are_refused():
    with pytest.raises(ValueError, match=r"^update: expected one that needs no more than the message"):
        vi.pg_svi(GP, memory=True, inner_steps=3, axis="data")


def test_eight_devices():
    """Each case under `shard_map`, in a process with as many devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
    code = "from tests.test_axis import *\nfor name in CASES: check(name, by_devices)\nprint(jax.device_count())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.stdout.split() == [str(DEVICES)], done.stderr[-2000:]


# Draws of Wishart matrices have primitives of their own; the axis has no part in them.
LOWERED = CASES | {"mixture of Wisharts by ssvi": (vi.ssvi, WISHARTS, vi.Minibatch(Y, N), {"step_size": HALF})}


@pytest.mark.parametrize("name", LOWERED)
def test_every_step_lowers_for_an_accelerator(name):
    """For both kinds at once: a primitive without a rule for one of them is an error, and the step is traced once."""
    row, model, batch, choices = LOWERED[name]
    alg = row(model, **choices)
    state = jax.eval_shape(alg.init, KEY, batch)
    platforms = ("cuda", "tpu")
    exported = jax.export.export(jax.jit(alg.step), platforms=platforms)(KEY, state, batch)
    assert exported.platforms == platforms

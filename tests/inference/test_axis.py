"""A batch split over a mesh axis is the batch whole, on any number of devices: by `vmap` with a
named axis here, and on devices of a process of its own. Every row's step lowers for accelerators
that are not there."""

import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests import axis_cases
from tests.axis_cases import CASES, Case, by_vmap, differences
from tests.naming import naming
from vijax import algorithms

KEY, DEVICES = jax.random.key(0), 8
CHEAP = [
    "mixture by em",
    "gp, memory",
    "hierarchy by map",
    "hierarchy by memoized",
    "density by bbvi",
    "autoencoder by aevb",
]
"""One of each kind."""


@pytest.mark.parametrize("name", CHEAP)
def test_a_step_on_parts_is_the_step_on_the_whole(name):
    """In this process; `test_devices` has all cases, and other numbers of devices."""
    with jax.enable_x64(True):
        assert differences(name, by_vmap, (2,)) == []


@pytest.mark.parametrize("name", CASES)
def test_devices(name):
    """Under `shard_map` on one, two and eight of them, in a process that has as many."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
    code = (
        f"from tests.axis_cases import *; print(jax.device_count(), differences({name!r}, "
        "by_devices, (1, 2, 8)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_ENABLE_X64": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.stdout.strip() == f"{DEVICES} []", done.stderr[-2000:]


def test_every_row_has_a_case():
    """Those that the table of `vijax.algorithms` names."""
    rows = re.findall(r"^\| `(\w+)` \|", algorithms.__doc__, re.MULTILINE)
    assert len(rows) > 10
    assert {getattr(vi, row) for row in rows} <= {case.row for case in CASES.values()}


NOISY = vi.model(
    prior={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)},
    local_elbo=lambda s, y, key: (y + jax.random.normal(key, y.shape), None),
)
"""A bound whose groups say nothing but what they draw."""


@pytest.mark.parametrize("rows", [None, np.arange(16, dtype=np.int32)[::-1].copy()])
def test_each_group_draws_by_its_row_on_any_number_of_devices(rows):
    """By the row that the batch says, else by its place: no two draw alike, and none otherwise on
    more devices."""
    alg, batch = vi.over_axis(vi.svi(NOISY), "data"), vi.Minibatch(np.zeros(16), 20.0, rows=rows)
    step = lambda key, state, data, rows: (
        alg.step(key, state, batch._replace(data=data, rows=rows))[1].per_group
    )
    drawn, state = {}, jax.jit(alg.init)(KEY)
    for count in (1, 2, 8):
        data, places = (
            axis_cases.cut(batch.data, count),
            None if rows is None else axis_cases.cut(rows, count),
        )
        along = jax.jit(
            jax.vmap(step, (None, None, 0, None if rows is None else 0), axis_name="data")
        )
        drawn[count] = np.ravel(along(KEY, state, data, places))
    assert np.array_equal(drawn[1], drawn[2])
    assert np.array_equal(drawn[1], drawn[8])
    assert len(np.unique(drawn[1])) == 16


def test_the_group_that_is_not_finite_is_found_in_its_part():
    """Row 11 of 16 is the second of the sixth device; padding, here of every other device, is
    none."""
    coin = vi.model(
        prior={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)},
        local_elbo=lambda s, y, key: (jnp.log(y) * s["bias"].log, None),
    )
    alg = vi.over_axis(vi.svi(coin), "data")
    batch = vi.Minibatch(np.ones(16), 20.0, np.where(np.arange(16) % 4 == 2, 0.0, 1.0))
    state, step = alg.init(KEY), jax.jit(by_vmap(alg.step, batch, DEVICES))
    for bad in [(), (11,), (3, 11), (0, 15)]:
        y = np.ones(16)
        y[list(bad)] = -1.0
        _, info = step(KEY, state, batch._replace(data=y))
        assert set(info.bad_group.tolist()) == {min(bad, default=-1)}
        assert set(info.result.tolist()) == {vi.Result.SKIPPED if bad else vi.Result.OK}


def test_the_site_that_is_not_finite_is_found_on_its_device():
    """By its number, not by its place; one in padding is none."""
    alg = vi.over_axis(vi.pg_svi(axis_cases.gp(), step_size=axis_cases.HALF, memory=True), "data")
    sites, y = np.arange(16, dtype=np.int32)[::-1].copy(), axis_cases.LABELS.copy()
    y[[3, 14]] = np.nan
    batch = vi.Minibatch({"site": sites, "y": y}, 16.0, axis_cases.COUNTED)
    _, info = jax.jit(by_vmap(alg.step, batch, 4))(KEY, alg.init(KEY), batch)
    assert set(info.bad_group.tolist()) == {12}


# --- what is refused ------------------------------------------------------------------------------
WHOLE = vi.density(
    {"x": vi.free()}, lambda v, y: -0.5 * jnp.sum((y - v["x"]) ** 2) - 0.5 * v["x"] ** 2
)
REFUSED = {
    "data that are one group": (
        lambda: vi.over_axis(vi.ngvi(WHOLE), "data"),
        r"^alg: expected a model whose data are groups, got one whose data are one group\. Write "
        r".*log_lik",
    ),
    "a density without data": (
        lambda: vi.over_axis(
            vi.advi(vi.density({"x": vi.free()}, lambda v: -0.5 * v["x"] ** 2)), "data"
        ),
        r"^alg: expected a model whose data are groups",
    ),
    "warm starts": (
        lambda: vi.warm(vi.over_axis(vi.svi(axis_cases.lda()), "data")),
        r"^warm: expected an algorithm without over_axis, got OverAxis\(axis='data'\)",
    ),
    "lazy steps": (
        lambda: vi.topics.by_words(vi.over_axis(vi.svi(axis_cases.lda()), "data")),
        r"^by_words: expected an algorithm without over_axis",
    ),
    "no name": (
        lambda: vi.over_axis(vi.svi(axis_cases.mixture()), 0),
        r"^name: expected the name of a mesh axis, got 0\.",
    ),
    "a fit": (
        lambda: vi.fit(
            vi.over_axis(vi.svi(axis_cases.mixture()), "data"), axis_cases.Y, num_steps=1, key=KEY
        ),
        r"^alg: expected an algorithm whose step takes a whole batch, got .*axis='data'.*shard_map",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_in_parts_is_refused(name):
    make, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        make()


def test_locals_of_all_groups_beside_a_part_of_them_are_refused():
    row, make, (batch,), choices, _ = CASES["locals that go on by cavi"]
    alg = vi.over_axis(row(make(), **choices), "data")
    state = jax.eval_shape(alg.init, KEY, batch._replace(num_groups=None))
    assert jax.tree.leaves(state.local)[0].shape[0] == 16
    half = jax.tree.map(lambda x: x[:8], batch.data)
    step = lambda key, state, data: alg.step(key, state, batch._replace(data=data))
    along = jax.vmap(step, in_axes=(None, None, None), axis_name="data", axis_size=2)
    with pytest.raises(
        ValueError,
        match=naming("state:", "8 groups", "State.local", "16"),
    ):
        jax.eval_shape(along, KEY, state, half)


# Draws of Wishart matrices have primitives of their own; the axis has no part in them.
LOWERED = CASES | {
    "mixture of Wisharts by ssvi": Case(
        vi.ssvi, axis_cases.wisharts, axis_cases.BATCH, {"step_size": axis_cases.HALF}
    )
}


@pytest.mark.parametrize("name", LOWERED)
def test_every_step_lowers_for_an_accelerator(name):
    """For both kinds at once: a primitive without a rule for one of them is an error, and the step
    is traced once."""
    row, make, (batch, *_), choices, _ = LOWERED[name]
    alg = row(make(), **choices)
    state = jax.eval_shape(alg.init, KEY, batch)
    platforms = ("cuda", "tpu")
    exported = jax.export.export(jax.jit(alg.step), platforms=platforms)(KEY, state, batch)
    assert exported.platforms == platforms


BY_WORDS = {
    "svi": lambda model: vi.topics.by_words(vi.svi(model)),
    "svi, gibbs": lambda model: vi.topics.by_words(
        vi.svi(model, estep=vi.estep.gibbs(num_sweeps=2, burn_in=1))
    ),
    "ssvi_a, active topics": lambda model: vi.topics.by_words(vi.ssvi_a(model), active=2),
}


@pytest.mark.parametrize("name", BY_WORDS)
def test_every_step_by_words_lowers_for_an_accelerator(name):
    alg = BY_WORDS[name](axis_cases.lda())
    vocab_size = alg.spec.model.form.documents.vocab_size
    batch = vi.topics.renumbered(axis_cases.DOCUMENTS[0], vocab_size)
    state = jax.eval_shape(alg.init, KEY, batch)
    exported = jax.export.export(jax.jit(alg.step), platforms=("cuda", "tpu"))(KEY, state, batch)
    assert exported.platforms == ("cuda", "tpu")

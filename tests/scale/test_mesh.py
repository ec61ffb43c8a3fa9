"""A fit on a mesh is the fit on one device, on any number of devices, which a process of its own
has here."""

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
from tests.mesh_cases import CASES, COUNTS, Y, lda
from tests.naming import check_names
from vijax import algorithms
from vijax.scale.place import PaddedLoader, choose_placement, pad_batch

KEY, DEVICES = jax.random.key(0), 8


def process_of(code, x64=True, flags="", **environment):
    """A process with as many devices, which has ended well."""
    flags = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES} "
        f"{flags}"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"from tests.mesh_cases import *\n{code}"],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_ENABLE_X64": str(int(x64)), **environment},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def on_devices(code, *settings, **environment):
    """What such a process prints."""
    return process_of(code, *settings, **environment).stdout


def differences(names, x64=True):
    """The largest difference of each of these cases on meshes, by its name."""
    lines = [line.split(" ", 1) for line in on_devices(f"report({names!r})", x64).splitlines()]
    return {name: float(distance) for distance, name in lines}


@pytest.mark.parametrize("x64", [True, False])
@pytest.mark.parametrize("kind", sorted({name.split()[0] for name in CASES}))
def test_a_fit_is_that_of_one_device(kind, x64):
    """After twenty steps, state and objective; of 43 groups, which no number of devices divides."""
    names = [name for name in CASES if name.split()[0] == kind]
    found = differences(names, x64)
    assert len(found) == len(names)
    assert max(found.values()) < (1e-10 if x64 else 1e-4), found


def test_every_row_has_a_case():
    rows = set(re.findall(r"^\| `(\w+)` \|", algorithms.__doc__, re.MULTILINE)) - {"auto", "dadvi"}
    assert rows <= {case.make.args[0].__name__ for case in CASES.values()}


EIGHT = """
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
fit = fitted("mixture by svi", 8)
one = fitted("mixture by svi", None)
print(apart(one, fit)[0], len({d for x in jax.tree.leaves(fit.state) for d in x.devices()}))
coin = vi.model({"p": vi.Beta.from_alpha_beta(1.0, 1.0)}, lambda s, y, key: (y * (s["p"].log - s["p"].log1m), None))
mesh = Mesh(np.array(jax.devices()), ("data",), axis_types=(AxisType.Auto,))
data = jax.device_put(np.ones(8), NamedSharding(mesh, PartitionSpec("data")))
vi.fit(vi.cavi(coin), data, num_steps=1, key=jax.random.key(0))
"""


def test_on_eight_devices():
    """The cheapest of the cases, with a limit to its steps; the result lies on one device. A fit
    without a mesh of data that lie on all of them says that it uses one."""
    done = process_of(EIGHT)
    distance, devices = done.stdout.split()
    assert float(distance) < 1e-10
    assert int(devices) == 1
    check_names(done.stderr, "data:", "8", "vijax.fit")
    assert "vijax.fit(..., mesh=vijax.scale.mesh(8))" in done.stderr


GOING_ON = """
import tempfile
folder, name = tempfile.mkdtemp(), {name!r}
half = lambda p: p.step == 10 and bool(vi.checkpoint.save(folder, p.step, p.whole))
first = fitted(name, 8, callbacks=[half], steps_per_chunk=10)
found = vi.checkpoint.latest(folder, like=first.state)
for devices in (2, None):
    rest = fitted(name, devices, state=found.tree)
    print(first.state.step, apart(fitted(name, devices)._replace(trace=rest.trace), rest)[0])
"""


@pytest.mark.parametrize(
    "name", ["lda by svi, warm", "locals that go on by cavi", "mixture by memoized, alone"]
)
def test_a_fit_goes_on_on_another_number_of_devices(name):
    """From a checkpoint, which is of no number of devices: on two of them, and on one without a
    mesh."""
    for line in on_devices(GOING_ON.format(name=name)).splitlines():
        step, distance = line.split()
        assert int(step) == 10
        assert float(distance) < 1e-10


SPLIT = """
from vijax.scale.place import choose_placement
case = CASES["lda by svi, warm"]
alg = case.make()
state = vi.fit(alg, COUNTS[:40], key=jax.random.key(0), num_steps=1, batch_size=10).state
where = choose_placement(vi.scale.mesh(8), state)
there = where.put_state(state)
shapes = lambda x: {s.data.shape[0] for s in x.addressable_shards}
print(shapes(there.beside["warm"].local), shapes(there.posterior["topics"].concentration))
state = fitted("lda by memoized", None).state
where = choose_placement(vi.scale.mesh(8), state)
there = where.put_state(state)
again = where.put_state(there)
sizes = [{s.data.shape for s in x["topics"].concentration.addressable_shards} for x in again.messages[::3]]
plain = where.plain_state(again).messages
print(*sizes, all(map(np.array_equal, jax.tree.leaves(state.messages), jax.tree.leaves(plain))))
"""


def test_warm_starts_and_messages_of_parts_are_split_and_topics_are_whole():
    """Of four parts each device keeps 20 of the 4 x 40 entries of a message, and of the globals at
    its last visit."""
    warm, parts = on_devices(SPLIT).splitlines()
    assert warm == "{5} {4}"
    assert parts == "{(4, 20)} {(4, 20)} True"


ONCE = """
import logging
jax.config.update("jax_log_compiles", True)
class Count(logging.Handler):
    found = 0
    def emit(self, record):
        Count.found += "Compiling jit(_chunk)" in record.getMessage()
logging.getLogger("jax").addHandler(Count())
fitted({name!r}, 8, steps_per_chunk=5)
print(Count.found)
"""


@pytest.mark.parametrize("name", ["lda by svi, warm and by words", "locals that go on by cavi"])
def test_chunks_share_a_program(name):
    assert on_devices(ONCE.format(name=name)).split()[-1] == "1"


TOLD = re.compile(
    r" (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?:-start)?\("
)
SENT = {
    "lda by svi, by words": {"all-reduce"},
    "hmm by cavi": {"all-reduce"},
    "autoencoder by aevb": {"all-reduce"},
    "gp by pg_svi, memory": {"all-reduce", "all-gather"},  # the numbers of the sites
    "lda by memoized": {"all-reduce", "all-gather"},  # slices of messages
}


@pytest.mark.parametrize("name", SENT)
def test_sums_are_all_that_devices_tell_each_other(name, tmp_path):
    """In the whole program of a chunk: no data are gathered."""
    flags = f"--xla_dump_to={tmp_path} --xla_dump_hlo_module_re=.*chunk.*"
    on_devices(f"fitted({name!r}, 8)", flags=flags, JAX_ENABLE_COMPILATION_CACHE="0")
    (program,) = tmp_path.glob("*chunk*after_optimizations.txt")
    assert set(TOLD.findall(program.read_text())) == SENT[name]


FOR_CUDA = """
case = CASES[{name!r}]
from vijax.data.loader import as_loader
from vijax.scale.place import pad_batch
alg = case.make()
batch = pad_batch(next(iter(as_loader(case.data, alg.spec.model, 16, 0).batches(0, 1))), 8)
alg, key = vi.scale.on_mesh(alg, vi.scale.mesh(8)), jax.random.key(0)
lowered = jax.jit(alg.step).trace(key, jax.eval_shape(alg.init, key, batch), batch).lower(lowering_platforms=("cuda",))
print("vijax_" in lowered.as_text(), "callback" in lowered.as_text())
"""


@pytest.mark.parametrize("name", ["lda by svi", "lda by svi, gibbs", "autoencoder by aevb"])
def test_a_step_on_a_mesh_lowers_for_an_accelerator(name):
    """It calls neither the host nor a kernel that is for CPUs."""
    assert on_devices(FOR_CUDA.format(name=name), x64=False).strip() == "False False"


# --- in this process ------------------------------------------------------------------------------
def test_a_mesh_of_one_device_is_that_device():
    alg, settings = vi.cavi(axis_cases.mixture()), {"key": KEY, "num_steps": 3, "restarts": 2}
    one, other = (vi.fit(alg, Y, mesh=mesh, **settings) for mesh in (None, vi.scale.mesh(1)))
    assert other.alg is alg
    np.testing.assert_allclose(other.trace["restart_elbo"], one.trace["restart_elbo"], rtol=1e-6)


def test_padding_weighs_nothing_and_comes_last():
    batch = vi.Minibatch(
        {"x": np.arange(6.0).reshape(3, 2)}, np.float32(9), rows=np.array([4, 0, 8])
    )
    more = pad_batch(batch, 4)
    assert more.data["x"].tolist() == [[0, 1], [2, 3], [4, 5], [0, 1]]
    assert (more.weights.tolist(), more.rows.tolist()) == ([1, 1, 1, 0], [4, 0, 8, 9])
    assert pad_batch(batch, 3) is batch
    known = batch._replace(weights=np.array([1.0, 1.0, 0.0]))
    assert pad_batch(known, 2).weights.tolist() == [1, 1, 0, 0]
    total = 2**24 + 1  # float32 rounds it to 2**24, which is a row
    many = batch._replace(num_groups=np.float32(total))
    assert pad_batch(many, 4).rows[3] >= total


def test_padding_of_documents_has_no_words():
    batch = next(
        iter(vi.data.minibatches(vi.data.Corpus.from_counts(COUNTS), 10, seed=0, num_buckets=2))
    )
    own = vi.topics.renumbered(batch, 40)
    for some in (batch, own):
        more = pad_batch(some, 8)
        for docs, before, rows in zip(more.data, some.data, more.rows, strict=True):
            size = len(before.weights)
            assert len(docs.weights) % 8 == 0
            assert not docs.counts[size:].any()
            assert not docs.weights[size:].any()
            assert np.all(rows[size:] == len(COUNTS))
            assert np.array_equal(docs.counts[:size], before.counts)
    assert np.array_equal(pad_batch(own, 8).data.words, own.data.words)


def test_a_padded_loader_is_the_loader_in_all_else():
    class Loader:
        num_groups, steps_per_epoch, num_words = 3, 1, None

        def batches(self, start, stop):
            return iter([vi.Minibatch(np.ones(3), np.float32(3))] * (stop - start))

    loader = PaddedLoader(Loader(), 2)
    assert (loader.num_groups, loader.steps_per_epoch) == (3, 1)
    assert [len(batch.data) for batch in loader.batches(0, 2)] == [4, 4]


def test_locals_of_several_lengths_keep_their_number():
    """Those of documents: padded where they lie, and without padding once the fit ends."""
    state = (
        vi.ngvi(axis_cases.density()).init(KEY)._replace(local=(jnp.ones((3, 2)), (jnp.ones(5),)))
    )
    where = choose_placement(vi.scale.mesh(1), state)
    assert where.rows == (3, 5)
    longer = where.put_state(state)._replace(local=(jnp.ones((4, 2)), (jnp.ones(8),)))
    assert jax.tree.map(jnp.shape, where.plain_state(longer).local) == ((3, 2), ((5,),))


def test_without_a_mesh_nothing_is_moved():
    state = object()
    where = choose_placement(None, state)
    assert where.put_state(state) is where.plain_state(state) is state


WHOLE = vi.density(
    {"x": vi.free()}, lambda v, y: -0.5 * jnp.sum((y - v["x"]) ** 2) - 0.5 * v["x"] ** 2
)
REFUSED = {
    "no mesh": (
        vi.cavi(axis_cases.mixture()),
        lambda: 8,
        r"^mesh: expected a jax\.sharding\.Mesh, got int\. Take ",
    ),
    "data that are one group": (
        vi.ngvi(WHOLE),
        lambda: vi.scale.mesh(1),
        r"^mesh: expected a model whose data are groups.*Write the density by groups",
    ),
    "active topics": (
        vi.topics.by_words(vi.svi(lda()), active=2),
        lambda: vi.scale.mesh(1),
        r"^mesh: expected steps that may use all topics, got active=2",
    ),
    "steps that are split already": (
        vi.over_axis(vi.svi(axis_cases.mixture()), "data"),
        lambda: vi.scale.mesh(1),
        r"^alg: expected an algorithm whose step takes a whole batch.*give mesh=",
    ),
    "devices that are not there": (
        None,
        lambda: vi.scale.mesh(1000),
        r"^devices: expected at most the \d+ of this process, got 1000\. On a CPU set XLA_FLAGS",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_mesh_cannot_do_is_refused(name):
    alg, mesh, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        vi.fit(alg, Y, num_steps=1, key=KEY, mesh=mesh())


TWO_AXES = """
for shape in ((2, 4), (1, 8), (8, 1)):
    try:
        print(vi.scale.on_mesh(vi.cavi(mixture()), jax.make_mesh(shape, ("data", "model"))).wrappers[0].axis)
    except ValueError as error:
        print(error)
"""


def test_a_mesh_has_one_axis_of_several_devices():
    assert [line[:34] for line in on_devices(TWO_AXES).splitlines()] == [
        "mesh: expected one axis with more ",
        "model",
        "data",
    ]

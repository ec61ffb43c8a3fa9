"""Data that lie on the device: the batches are those of the host, bit for bit, and so are fits; and
chunks that are queued before the last is read."""

import dataclasses
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from tests.scale.test_mesh import on_devices
from vijax.data.loader import ArrayLoader, as_loader
from vijax.data.table_batches import table_batches
from vijax.fitting import chunks as chunks_module
from vijax.fitting import fit as fit_module
from vijax.scale import device_data
from vijax.scale.place import OneDevice

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(203, 3)).astype(np.float32)
CORPUS = vi.data.lda_corpus(211, 5, 60, 20.0)[0]
MIXTURE = vi.models.mixture(vi.models.emission.diagonal_gaussian(2, dim=3))
TOPICS = vi.models.lda(3, 60)
BY_COLUMN = vi.model(
    prior=vi.Product({"mean": vi.Normal.from_mean_variance(jnp.zeros(5), jnp.ones(5))}),
    local_elbo=lambda s, data, key: (
        data["x"].sum() * s["mean"].value[data["i"]] - 0.5 * s["mean"].square[data["i"]],
        None,
    ),
)
MIXED = {"x": (X * 40).astype(np.int8), "i": np.arange(203) % 5}


def require_equal(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def require_equal_batches(loader, monkeypatch):
    """Steps of two passes, from the middle of the first; tables are put by small pieces."""
    monkeypatch.setenv(device_data.SWITCH, "0.5")
    monkeypatch.setattr(device_data, "PIECE", 500)
    monkeypatch.setattr(device_data, "_state_bytes", lambda state: 0)
    steps = 2 * loader.steps_per_epoch
    on_device = device_data.put_data(loader, OneDevice(), None, steps)
    picks = on_device.picks(3, steps)
    for batch in loader.batches(3, steps):
        one = jax.tree.map(lambda x: np.asarray(x)[None], next(picks))
        ours = jax.tree.map(lambda x: x[0], on_device.batches(one))
        require_equal(jax.device_put(batch), ours)
    assert next(picks, None) is None
    num_bytes = sum(x.nbytes for x in jax.tree.leaves(on_device.tables))
    assert num_bytes == on_device.source.num_bytes
    return on_device, num_bytes


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("parts", [None, 7])
@pytest.mark.parametrize(
    ("data", "model", "row_bytes"),
    [(X, MIXTURE, 12), (X.astype(np.float64), MIXTURE, 12), (MIXED, BY_COLUMN, 3 + 4)],
    ids=["float32", "float64", "bytes and indices"],
)
def test_batches_of_rows_are_those_of_the_host(data, model, row_bytes, parts, x64, monkeypatch):
    with jax.enable_x64(x64):
        loader = as_loader(data, model, None if parts else 20, 0, parts)
        _, num_bytes = require_equal_batches(loader, monkeypatch)
    is_wide = x64 and model is MIXTURE
    assert num_bytes == 203 * row_bytes * (1 + is_wide)


@pytest.mark.parametrize("parts", [None, 7])
def test_batches_of_documents_are_those_of_the_host(parts, monkeypatch):
    """In tables of a byte for a count, and for a word, of which there are 60."""
    loader = as_loader(CORPUS, TOPICS, None if parts else 20, 0, parts)
    on_device, _ = require_equal_batches(loader, monkeypatch)
    kinds = {x.dtype.name for x in jax.tree.leaves(on_device.tables)}
    assert kinds == {"uint8"}


def test_counts_and_covariates_have_the_room_that_they_need(monkeypatch):
    counts = np.random.default_rng(0).poisson(300.0, (60, 9))
    corpus = dataclasses.replace(vi.data.Corpus.from_counts(counts), covariates=X[:60])
    on_device, _ = require_equal_batches(as_loader(corpus, vi.models.lda(3, 9), 7, 0), monkeypatch)
    kinds = [x.dtype.name for x in jax.tree.leaves(on_device.tables)]
    assert kinds[:3] == ["uint8", "uint16", "float32"]


def write_rows(folder):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").table({name: X[:, i] for i, name in enumerate("abc")})
    parquet.write_table(table, folder / "rows.parquet", row_group_size=40)


def write_documents(folder):
    parquet = pytest.importorskip("pyarrow.parquet")
    ids, counts = [], []
    for first, stop in zip(CORPUS.indptr[:-1], CORPUS.indptr[1:], strict=True):
        ids.append(CORPUS.indices[first:stop].tolist())
        counts.append(CORPUS.counts[first:stop].tolist())
    table = pytest.importorskip("pyarrow").table({"ids": ids, "counts": counts})
    parquet.write_table(table, folder / "0.parquet", row_group_size=30)


@pytest.mark.parametrize("parts", [None, 7])
@pytest.mark.parametrize("held_bytes", [1000, 1 << 20])
def test_batches_from_files_are_those_of_the_host(held_bytes, parts, tmp_path, monkeypatch):
    """The files are read once, also where the host may not hold them."""
    write_rows(tmp_path)
    table = vi.data.rows(tmp_path, held_bytes=held_bytes)
    size = None if parts else 20
    require_equal_batches(as_loader(table, MIXTURE, size, 0, parts), monkeypatch)


@pytest.mark.parametrize("parts", [None, 7])
@pytest.mark.parametrize("held_bytes", [4000, 1 << 20])
def test_batches_from_shards_are_those_of_the_host(held_bytes, parts, tmp_path, monkeypatch):
    write_documents(tmp_path)
    documents = vi.data.shards(tmp_path, held_bytes=held_bytes)
    model = vi.models.lda(3, documents.vocab_size)
    size = None if parts else 20
    require_equal_batches(as_loader(documents, model, size, 0, parts), monkeypatch)


FITS = {
    "mixture": (vi.svi(MIXTURE), X, {"batch_size": 20}),
    "restarts": (vi.svi(MIXTURE), X, {"batch_size": 20, "restarts": 2}),
    "warm starts": (vi.warm(vi.svi(TOPICS)), CORPUS, {"batch_size": 50}),
    "parts": (vi.memoized(TOPICS, 4), CORPUS, {}),
    "until it has converged": (vi.svi(MIXTURE), X, {"batch_size": 40, "tol": 0.1}),
}


def fit_of(name, share, monkeypatch, **more):
    monkeypatch.setenv(device_data.SWITCH, share)
    alg, data, settings = FITS[name]
    return vi.fit(alg, data, key=KEY, **{"num_steps": 40} | settings | more)


@pytest.mark.parametrize("name", FITS)
def test_a_fit_is_that_of_the_host_bit_for_bit(name, monkeypatch):
    ours = fit_of(name, "0.5", monkeypatch)
    host = fit_of(name, "0", monkeypatch)
    assert ours.data_place.startswith("The data lie on the device (")
    assert ours.data_place in repr(ours)
    assert host.data_place == ""
    require_equal(ours.state, host.state)
    assert ours.trace.keys() == host.trace.keys()
    for column, numbers in ours.trace.items():
        np.testing.assert_array_equal(numbers, host.trace[column])


@pytest.mark.parametrize(("before", "after"), [("0.5", "0.5"), ("0", "0.5"), ("0.5", "0")])
def test_a_run_goes_on_bit_for_bit_wherever_its_data_lie(before, after, monkeypatch):
    """Within a pass. (The second part is a pass or longer, or its data stay on the host.)"""
    whole = fit_of("mixture", "0", monkeypatch)
    first = fit_of("mixture", before, monkeypatch, num_steps=27)
    second = fit_of("mixture", after, monkeypatch, state=first.state)
    assert bool(second.data_place) == (after == "0.5")
    require_equal(whole.state, second.state)


def test_a_callback_is_told_where_the_data_lie(monkeypatch):
    said = []
    fit_of("mixture", "0.5", monkeypatch, callbacks=[lambda p: said.append(p.data_place)])
    assert set(said) == {said[0]}
    assert "2,436 bytes" in said[0]


# --- what is not put there ------------------------------------------------------------------------
class Other(ArrayLoader):
    """A loader with batches of its own."""

    def batches(self, start, stop):
        even = np.arange(20) % 2
        return (
            batch._replace(weights=even[: len(batch.weights)])
            for batch in super().batches(start, stop)
        )


def test_on_a_cpu_nothing_changes_unless_it_is_said(monkeypatch):
    monkeypatch.delenv(device_data.SWITCH, raising=False)
    assert vi.fit(vi.svi(MIXTURE), X, key=KEY, num_steps=20, batch_size=20).data_place == ""


@pytest.mark.parametrize("number", ["-1", "1", "1.5", "nan", "much"])
def test_a_share_that_is_none_is_refused(number, monkeypatch):
    with pytest.raises(ValueError, match=naming("VIJAX_DATA_SHARE:", "0")):
        fit_of("mixture", number, monkeypatch)


def test_data_that_take_more_than_their_share_stay_on_the_host(monkeypatch):
    """A step needs memory too, 15 times that of its state."""
    needed = X.nbytes
    state_bytes = device_data._state_bytes(fit_of("mixture", "0", monkeypatch).state)
    for free, is_there in ((2 * needed, False), (2 * needed + 15 * state_bytes, True)):
        monkeypatch.setattr(device_data, "_free_bytes", lambda devices, free=free: free)
        assert bool(fit_of("mixture", "0.5", monkeypatch).data_place) == is_there


def test_what_is_read_less_than_once_and_what_is_no_table_stays_on_the_host(monkeypatch):
    assert fit_of("mixture", "0.5", monkeypatch, num_steps=10).data_place == ""
    assert fit_of("mixture", "0.5", monkeypatch, num_steps=11).data_place != ""
    assert vi.fit(vi.cavi(MIXTURE), X, key=KEY, num_steps=20).data_place == ""
    batches = vi.data.stream([X[:100], X[100:200]], 200, shuffled=True)
    assert vi.fit(vi.svi(MIXTURE), batches, key=KEY, num_steps=20).data_place == ""
    assert table_batches(Other(X, 20, 0)) is None
    heavy = vi.fit(vi.svi(MIXTURE), Other(X, 20, 0), key=KEY, num_steps=20)
    light = vi.fit(vi.svi(MIXTURE), ArrayLoader(X, 20, 0), key=KEY, num_steps=20)
    assert heavy.data_place == ""
    assert heavy.trace["elbo"][0] != light.trace["elbo"][0]


ON_A_MESH = """
os_environ = __import__("os").environ
from vijax.scale import device_data
found = []
for mesh in (vi.scale.mesh(), vi.scale.mesh(data=2, topics=4)):
    for data, alg in ((Y, vi.svi(mixture())), (COUNTS, vi.warm(vi.svi(lda())))):
        if mesh.size != mesh.devices.shape[0] and data is Y:
            continue
        fits = []
        for share in ("0", "0.5"):
            os_environ[device_data.SWITCH] = share
            fits.append(vi.fit(alg, data, key=jax.random.key(0), num_steps=12, batch_size=10, mesh=mesh))
        same = [np.array_equal(a, b) for a, b in zip(*(jax.tree.leaves(f.state) for f in fits))]
        found.append([all(same), fits[1].data_place[:34], fits[0].data_place])
programs = device_data.gather_program.cache_info().currsize
print(found, programs)
"""


@pytest.mark.slow
def test_on_several_devices_batches_are_gathered_where_they_are_used():
    text = on_devices(ON_A_MESH)
    assert text.count("True, 'The data lie on each of 8 devices ', ''") == 3, text


NOTHING_SENT = """
from jax.sharding import NamedSharding, PartitionSpec as P
from vijax.scale.device_data import gather_program
from vijax.scale.place import choose_placement
from vijax.data.table_batches import GatherRows, Picks
run = vi.svi(lda()).init(jax.random.key(0))
placement = choose_placement(vi.scale.mesh(), run)
table = jax.device_put(np.ones((1000, 3), np.float32), placement.table_place)
picks = placement.put_picks(Picks(np.ones((2, 15), np.int32), np.ones((2, 15), np.int32)), 1000)
program = gather_program(GatherRows(), placement.batch_places)._program
text = program.lower([table], picks, np.int32(1000)).compile().as_text()
print([word for word in ("all-gather", "all-reduce", "collective", "all-to-all") if word in text])
"""


@pytest.mark.slow
def test_devices_send_each_other_nothing_for_a_batch():
    assert on_devices(NOTHING_SENT).strip() == "[]"


# --- chunks that are queued -----------------------------------------------------------------------
def calls_of(monkeypatch, **more):
    """The order in which chunks are given to the device, and read."""
    calls = []
    advance, finish = fit_module.run_chunk, chunks_module.Chunks._finish

    def give(*given, **settings):
        calls.append("give")
        return advance(*given, **settings)

    def read(self, running):
        calls.append("read")
        return finish(self, running)

    monkeypatch.setattr(fit_module, "run_chunk", give)
    monkeypatch.setattr(chunks_module.Chunks, "_finish", read)
    settings = {"num_steps": 15, "batch_size": 20, "steps_per_chunk": 5} | more
    fit = vi.fit(vi.svi(MIXTURE), X, key=KEY, **settings)
    return calls, fit


def test_the_next_chunk_is_queued_before_the_last_is_read(monkeypatch):
    calls, fit = calls_of(monkeypatch)
    assert calls == ["give", "give", "read", "give", "read", "read"]
    assert fit.trace["step"].tolist() == list(range(15))


@pytest.mark.parametrize("more", [{"callbacks": [lambda p: None]}, {"tol": 1e-9}])
def test_where_somebody_looks_between_chunks_none_is_queued(more, monkeypatch):
    calls, _ = calls_of(monkeypatch, **more)
    assert calls == ["give", "read"] * 3


def test_ctrl_c_counts_the_chunk_that_was_queued(monkeypatch):
    finish = chunks_module.Chunks._finish

    def read(self, running):
        if self.step == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return finish(self, running)

    monkeypatch.setattr(chunks_module.Chunks, "_finish", read)
    fit = vi.fit(vi.svi(MIXTURE), X, key=KEY, num_steps=50, batch_size=20, steps_per_chunk=5)
    monkeypatch.setattr(chunks_module.Chunks, "_finish", finish)
    assert fit.status is vi.Status.INTERRUPTED
    assert int(fit.state.step) == len(fit.trace["elbo"]) == 10
    rest = vi.fit(vi.svi(MIXTURE), X, key=KEY, num_steps=50, batch_size=20, state=fit.state)
    whole = vi.fit(vi.svi(MIXTURE), X, key=KEY, num_steps=50, batch_size=20)
    require_equal(rest.state, whole.state)


BAD = vi.density(
    {"x": vi.free(1)},
    log_prior=lambda v: -0.5 * jnp.sum(v["x"] ** 2),
    log_lik=lambda v, y: jnp.log(y - 100 * v["x"][0]),
)


@pytest.mark.filterwarnings("ignore::vijax.fitting.status.SkippedStepsWarning")
@pytest.mark.parametrize("chunk", [1, 7, 10, None])
def test_no_step_is_taken_after_a_run_of_bad_ones(chunk):
    """The chunk that was queued takes none."""
    settings = {"num_steps": 60, "batch_size": 20, "throw": False, "steps_per_chunk": chunk}
    queued = vi.fit(vi.advi(BAD), X[:, 0], key=KEY, **settings)
    looked_at = vi.fit(vi.advi(BAD), X[:, 0], key=KEY, callbacks=[lambda p: None], **settings)
    assert queued.status is looked_at.status is vi.Status.DIVERGED
    assert int(queued.state.step) == int(looked_at.state.step) == len(queued.trace["elbo"]) == 10
    require_equal(queued.state, looked_at.state)

"""A fit of several processes is the fit of one; where one of them is lost, the others say which,
and end."""

import json
import os
import signal
import time

import jax
import numpy as np
import pytest

import vijax as vi
from tests.naming import check_names, naming
from tests.process_cases import ends, in_python, vijax, wait_for, write_documents, write_inputs
from vijax.scale import watch
from vijax.scale.watch import Sighting, Sign, Watch, find_lost, update_sightings

FITS = """
import jax, json, os
jax.config.update("jax_enable_x64", True)
import vijax as vi
vi.scale.initialize(f"127.0.0.1:{port}", count, k)
from tests.mesh_cases import *

def on_one(case):
    one = jax.sharding.Mesh(np.array(jax.local_devices()[:1]), ("data",)) if case.draws else None
    return fit_of(case, one)

def fit_of(case, mesh):
    settings = {"num_steps": STEPS, "throw": False} | (case.settings or {})
    return vi.fit(case.make(), case.data, key=jax.random.key(1), mesh=mesh, **settings)

"""


def told(code, count, **environment):
    """What process 0 prints in its last line, as JSON, once all have ended well."""
    found = ends(in_python(FITS + code, count, **environment))
    assert [code for code, *_ in found] == [0] * count, found[0][2][-2000:] + found[-1][2][-2000:]
    return json.loads(found[0][1].splitlines()[-1])


TWO = """
case, sizes = CASES["mixture by svi"], []
from vijax.data.loader import ArrayLoader
plain = ArrayLoader._batch
ArrayLoader._batch = lambda self, *given: (found := plain(self, *given), sizes.append(len(found.rows)))[0]
fit = fit_of(case, vi.scale.mesh())
said = [sizes[-1]]
said += [apart(on_one(case), fit)[0] if k == 0 else None, vi.scale.mesh().size]
try:
    vi.fit(case.make(), case.data, key=jax.random.key(k), num_steps=2, batch_size=10, mesh=vi.scale.mesh())
except ValueError as error:
    said.append(str(error))
print(json.dumps(said))
"""


def test_two_processes_make_the_fit_of_one():
    """In float64; each reads its half of nine rows, padded; and where they are given other keys,
    they say so."""
    size, distance, devices, refused = told(TWO, 2)
    assert size == 5
    assert distance < 1e-10
    assert devices == 2
    assert refused.startswith(
        "fit: expected the same arguments and data in every process, got another key in process 1"
    )


SEVERAL = """
found = {}
for name in json.loads(os.environ["NAMES"]):
    found[name] = apart(on_one(CASES[name]), fit_of(CASES[name], vi.scale.mesh()))[0]
print(json.dumps(found))
"""


SOME = [
    "lda by svi, warm and by words",
    "lda by svi, a message of 8 MB",
    "mixture by cavi",
    "gp by pg_svi, memory",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", [SOME, ["locals that go on by cavi", "locals by svi, gibbs", "autoencoder by aevb"]]
)
def test_rows_and_models_on_two_processes(names):
    """Also with restarts, with tables that lie with their rows, and with draws of locals."""
    found = told(SEVERAL, 2, NAMES=json.dumps(names))
    assert max(found.values()) < 1e-10, found


BY_TOPIC = """
from tests.topic_cases import *
alg = algorithm(os.environ["NAME"], lazy=True)
settings = {}
if os.environ["NAME"] == "lda":
    alg = vi.warm(alg)
    settings = {"restarts": 2}
both = fit(alg, vi.scale.mesh(data=1, topics=2), **settings)
one = fit(alg, jax.sharding.Mesh(np.array(jax.local_devices()[:1]), ("data",)), **settings)
places = [x.sharding.mesh.devices.size for x in tables(both.state) if any(x.sharding.spec)]
print(json.dumps([apart(one, both)[0], places]))
"""
TWO_DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lda", "hpf"])
def test_topics_are_split_in_each_of_two_processes(name):
    """Two parts of the batch by two of the topics; `lda` with restarts and warm starts. The tables
    of the result stay on the two devices of a process."""
    distance, places = told(BY_TOPIC, 2, NAME=name, **TWO_DEVICES)
    assert distance < 1e-10
    assert set(places) == {2}


FROM_CHECKPOINT = """
from tests.topic_cases import *
alg = algorithm("lda", lazy=False)
folder = os.environ["FOLDER"]
keep = lambda p: p.step == 4 and k == 0 and vi.checkpoint.save(folder, p.step, p.whole) and None
mesh = vi.scale.mesh(data=1, topics=2)
whole = fit(alg, mesh)
fit(alg, mesh, callbacks=[keep], steps_per_chunk=4)
vi.scale.processes.any_process(False)  # until process 0 has written
kept = vi.checkpoint.latest(folder, like=whole.state)
names = sorted(path.name for path in kept.path.with_suffix(".rows").iterdir())
ends = [apart(whole._replace(trace=end.trace), end)[0] for end in
        (fit(alg, at, state=kept.tree) for at in (mesh, None))]
print(json.dumps([names, max(ends)]))
"""


@pytest.mark.slow
def test_a_checkpoint_of_two_processes_is_by_topics(tmp_path):
    """A file for each part; two processes, and one without a mesh, go on from it."""
    names, distance = told(FROM_CHECKPOINT, 2, FOLDER=str(tmp_path), **TWO_DEVICES)
    assert [name.partition("-")[2] for name in names] == ["000000000000.npz", "000000000004.npz"]
    assert distance < 1e-10


TABLE = """
from vijax.data.streams.row_loader import RowLoader
sizes, plain = [], RowLoader._rows_to_read
RowLoader._rows_to_read = lambda self, rows: (read := plain(self, rows), sizes.append(read[1]))[0]
model = vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1))
table = vi.data.rows(os.environ["TABLE"], columns=["x"], held_bytes=4000)
settings = {"num_steps": 20, "batch_size": 51, "key": jax.random.key(1)}
fit = vi.fit(vi.svi(model), table, mesh=vi.scale.mesh(), **settings)
read = sorted(set(sizes))
one = vi.fit(vi.svi(model), table, **settings)
print(json.dumps([read, sizes[-1], apart(one, fit)[0]]))
"""


@pytest.mark.slow
def test_a_table_in_parquet_files_on_two_processes(tmp_path):
    """Each reads its half of a batch; all of one for the start alone."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    y = np.random.default_rng(0).normal(size=1000) + 4 * (np.arange(1000) % 2)
    parquet.write_table(arrow.table({"x": y}), tmp_path / "rows.parquet", row_group_size=100)
    read, alone, distance = told(TABLE, 2, TABLE=str(tmp_path))
    assert read == [25, 50]
    assert alone == 50
    assert distance < 1e-10


DOCUMENTS = """
from vijax.data.streams.documents import Shards
sizes, plain = [], Shards.read
Shards.read = lambda self, rows: (sizes.append(len(rows)), plain(self, rows))[1]
documents = vi.data.shards(os.environ["SHARDS"], held_bytes=20_000)
alg = vi.svi(vi.models.lda(3, documents.vocab_size))
settings = {"num_steps": 12, "batch_size": 40, "key": jax.random.key(1)}
fit = vi.fit(alg, documents, mesh=vi.scale.mesh(), **settings)
read = sizes[-1]
one = vi.fit(alg, documents, **settings)
print(json.dumps([read, sizes[-1], apart(one, fit)[0]]))
"""


STREAMS = """
x = np.random.default_rng(0).normal(size=(200, 2)) + 4.0 * (np.arange(200) % 2)[:, None]
model = vi.models.mixture(vi.models.emission.unit_gaussian(1, dim=2))
alg = vi.svi(model, step_size=vi.step_size.robbins_monro(kappa=1.0))  # the first step forgets the start
whole = [x[i : i + 50] for i in range(0, 200, 50)]
mine = [np.concatenate([some[k::2], some[:1]])[: 25 - (i == 3)] for i, some in enumerate(whole)]
settings = {"num_steps": 8, "key": jax.random.key(1), "mesh": vi.scale.mesh()}
said = []
try:
    vi.fit(alg, vi.data.stream(mine, 200, shuffled=True), **settings)
except ValueError as error:
    said.append(str(error))
try:
    vi.fit(alg, vi.data.own_part(mine, 200, shuffled=True), **settings | {"mesh": None})
except ValueError as error:
    said.append(str(error))
try:
    vi.fit(alg, vi.data.own_part(mine if k == 0 else [x[:20]], 200, shuffled=True), **settings)
except ValueError as error:
    said.append(str(error))
same = vi.fit(alg, vi.data.stream(whole, 200, shuffled=True), **settings)
said += [same.trace["num_groups"].tolist()]
parts = vi.fit(alg, vi.data.own_part(mine, 200, shuffled=True), **settings)
said += [parts.trace["num_groups"].tolist()]
one = vi.fit(alg, vi.data.stream(whole[:3] + [whole[3][:48]], 200, shuffled=True), **settings | {"mesh": None})
leaves = lambda fit: jax.tree.leaves(fit.posterior)
said += [max(float(np.max(np.abs(a - b))) for a, b in zip(leaves(one), leaves(parts)))]
print(json.dumps(said))
"""


@pytest.mark.slow
def test_own_parts_of_a_stream_are_said_and_are_all_used():
    """Two processes with 25 rows each a step, of which one is short once: refused where unsaid;
    else all are used, as by one process that has them all."""
    unsaid, alone, unlike, same, parts, distance = told(STREAMS, 2)
    assert "another first batch in process 1" in unsaid
    assert "vijax.data.own_part(source, N)" in unsaid
    assert alone.startswith("mesh: expected the devices of all 2 processes")
    assert "another first batch in process 1" in unlike
    assert same == [50.0] * 8
    assert parts == [50.0, 50.0, 50.0, 48.0] * 2
    assert distance < 1e-9


@pytest.mark.slow
def test_documents_in_shards_on_two_processes(tmp_path):
    """Each reads its half of a batch, of each length."""
    parquet = pytest.importorskip("pyarrow.parquet")
    counts = vi.data.lda_corpus(400, 5, 50, 60.0)[0].to_scipy().toarray()
    ids = [np.flatnonzero(row).tolist() for row in counts]
    table = {
        "ids": ids,
        "counts": [row[found].tolist() for row, found in zip(counts, ids, strict=True)],
    }
    parquet.write_table(
        pytest.importorskip("pyarrow").table(table), tmp_path / "0.parquet", row_group_size=90
    )
    read, alone, distance = told(DOCUMENTS, 2, SHARDS=str(tmp_path))
    assert read == pytest.approx(alone / 2, rel=0.2)
    assert distance < 1e-10


@pytest.mark.slow
def test_a_message_of_32_mb_between_devices_of_two_processes():
    """More than 4 MiB for each of four devices, where gloo's sums of scattered parts were wrong."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    large = (
        "CASES['large'] = Case(of(vi.svi, lambda: vi.models.lda(100, 40_000)), COUNTS, FEW | "
        "{'num_steps': 3})"
    )
    found = told(f"{large}\n{SEVERAL}", 2, NAMES='["large"]', XLA_FLAGS=flags)
    assert max(found.values()) < 1e-10, found


@pytest.mark.slow
def test_four_processes_of_two_devices():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    found = told(SEVERAL, 4, NAMES='["mixture by svi"]', XLA_FLAGS=flags)
    assert max(found.values()) < 1e-10, found


TABLES = """
from pathlib import Path
from vijax.scale import arrays
arrays.PIECE = 256  # bytes
name, folder = os.environ["NAME"], Path(os.environ["FOLDERS"].split()[k])
given = CASES[name].settings or {}
with_more = lambda **more: CASES[name]._replace(settings=given | more)
keep = lambda p: vi.checkpoint.save(folder, p.step, p.whole) and None
fit = fit_of(with_more(callbacks=[keep], steps_per_chunk=STEPS // 2), vi.scale.mesh())
middle, end = (f"step_{step:08d}.npz" for step in (STEPS // 2, STEPS))
found, read = [], lambda path: vi.checkpoint.load(path, fit.state).tree
distance = lambda other: apart(fit, other._replace(trace=fit.trace))[0]
if k == 0:
    state = read(folder / end)
    found += [sum(type(x).__name__ == "StoredRows" for x in jax.tree.leaves(state))]
    found += [distance(fit._replace(state=jax.tree.map(lambda x: x[:] if hasattr(x, "folder") else x, state)))]
    found += [distance(fit_of(with_more(state=read(folder / middle)), None))]
if len(set(os.environ["FOLDERS"].split())) == 1:
    found += [distance(fit_of(with_more(state=read(folder / middle)), vi.scale.mesh()))]
print(json.dumps(found))
"""
ROWS = [("lda by svi, warm", 2), ("locals that go on by cavi", 4)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tables"), ROWS)
def test_tables_by_row_are_written_by_who_has_them_and_read_by_who_wants_them(
    name, tables, tmp_path
):
    """Warm starts and locals of 43 groups, which do not divide: bit for bit; one process goes on,
    and two."""
    stored, bits, alone, both = told(TABLES, 2, NAME=name, FOLDERS=f"{tmp_path} {tmp_path}")
    assert (stored, bits) == (tables, 0.0)
    assert max(alone, both) < 1e-10
    blocks = sorted(path.name for path in (tmp_path / "step_00000020.rows").iterdir())
    assert len(blocks) > 2
    starts = [int(name[:-4].split("-")[1]) for name in blocks]
    assert {0, 22} <= set(starts)  # of each process
    assert max(starts) < 43


@pytest.mark.slow
def test_where_the_folder_is_not_shared_process_0_gathers_the_tables(tmp_path):
    stored, bits, alone = told(
        TABLES, 2, NAME=ROWS[0][0], FOLDERS=f"{tmp_path}/own {tmp_path}/elsewhere"
    )
    assert (stored, bits) == (0, 0.0)
    assert alone < 1e-10
    assert not (tmp_path / "elsewhere").exists()


# --- the command line -----------------------------------------------------------------------------
LONG = 150


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("inputs"), LONG)


def posterior(run):
    with np.load(run / "posterior.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


def require_near(one, other):
    assert one.keys() == other.keys()
    for name, x in one.items():
        np.testing.assert_allclose(
            other[name], x, rtol=1e-4, atol=1e-4 * np.abs(x).max(), err_msg=name
        )


@pytest.fixture(scope="module")
def unbroken(config):
    """The posterior of the run of one process."""
    run = config.parent / "unbroken"
    ((code, _, errors),) = ends(vijax(["fit", config, "--out", run], 1))
    assert code == 0, errors
    return posterior(run)


def begun(config, run, count=2):
    """A run that has saved something."""
    team = vijax(["fit", config, "--out", run], count)
    wait_for(lambda: any(run.glob("checkpoints/*.npz")), team)
    return team


def require_goes_on(run, count, unbroken, unit="rows"):
    found = ends(vijax(["resume", run], count))
    assert [code for code, *_ in found] == [0] * count, found
    assert "Going on with" in found[0][2]
    assert f"{unit}/s" in found[0][1] + found[0][2]
    for _, said, errors in found[1:]:
        assert said == ""
        assert f"{unit}/s" not in errors
    require_near(unbroken, posterior(run))
    assert not (run / "processes").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "victim", "then"), [("KILL", 0, 1), ("KILL", 1, 3), ("STOP", 0, 2)]
)
def test_a_lost_process_is_named_and_the_run_goes_on(
    number, victim, then, config, unbroken, tmp_path
):
    """On another number of processes, to the same end."""
    run, rng = tmp_path / "run", np.random.default_rng(victim)
    team = begun(config, run)
    time.sleep(rng.uniform(0.0, 1.0))
    lost_one, (other,) = team[victim], [team[1 - victim]]
    lost_one.send_signal(getattr(signal, f"SIG{number}"))
    ((code, _, errors),) = ends([other], 60)
    lost_one.kill()
    lost_one.communicate()
    assert code == watch.LOST, errors
    assert f"vijax: process {victim} (host " in errors
    assert f"pid {lost_one.pid}) is lost: it has given no sign of life" in errors
    assert f"vijax resume {run} --distributed --coordinator" in errors
    require_goes_on(run, then, unbroken)


@pytest.mark.slow
def test_sigterm_to_one_ends_all_and_all_is_saved(config, unbroken, tmp_path):
    run = tmp_path / "run"
    team = begun(config, run)
    team[1].send_signal(signal.SIGTERM)
    found = ends(team, 30)
    assert [code for code, *_ in found] == [130, 130], found
    assert f"vijax resume {run}" in found[0][1]
    require_goes_on(run, 2, unbroken)


@pytest.mark.slow
def test_a_run_with_warm_starts_goes_on_from_the_rows_that_each_saved(tmp_path):
    config, run = write_documents(tmp_path, LONG // 3), tmp_path / "run"
    ((code, _, errors),) = ends(vijax(["fit", config, "--out", tmp_path / "one"], 1))
    assert code == 0, errors
    team = begun(config, run)
    team[1].send_signal(signal.SIGTERM)
    assert [code for code, *_ in ends(team, 30)] == [130, 130]
    saved = {path.stem for path in run.glob("checkpoints/*.npz")}
    assert {path.stem for path in run.glob("checkpoints/*.rows")} == saved
    assert len(list(run.glob(f"checkpoints/{max(saved)}.rows/*"))) == 4  # two tables, two processes
    require_goes_on(run, 3, posterior(tmp_path / "one"), "docs")


@pytest.mark.slow
def test_what_one_process_cannot_begin_none_does(config, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "mine.txt").write_text("")
    found = ends(vijax(["fit", config, "--out", run], 2), 60)
    assert [code for code, *_ in found] == [2, 2], found
    assert f"vijax: {run} exists" in found[0][2]
    assert f"vijax: process 0 of 2: {run} exists" in found[1][2]


BEGINS = """
import os, pathlib, signal, time
from vijax.scale import watch
watch.SILENT_S = 3.0
from vijax.app.folder.team import Team
team = Team(f"127.0.0.1:{port}", count, k, near=pathlib.Path(os.environ["NEAR"]))
print(len(list(pathlib.Path(os.environ["NEAR"]).glob(".vijax-*"))), flush=True)
if k == 1:
    os.kill(os.getpid(), signal.SIGKILL)
team.do(lambda: time.sleep(60))
"""


@pytest.mark.slow
def test_a_process_lost_before_the_first_step_is_named(tmp_path):
    team = in_python(BEGINS, 3, NEAR=str(tmp_path))
    found = ends(team, 60)
    assert [code for code, *_ in found] == [watch.LOST, -signal.SIGKILL, watch.LOST], found
    for k in (0, 2):
        assert found[k][1].splitlines()[-1] == "1"
        assert "vijax: process 1 (host " in found[k][2]
        assert f"pid {team[1].pid}) is lost" in found[k][2]
        assert "Start all of them again" in found[k][2]


@pytest.mark.slow
def test_processes_that_never_come_are_waited_for_as_long_as_is_said(config, tmp_path):
    run = ["fit", config, "--out", tmp_path / "run", "--initialization-timeout", 4]
    begun = time.monotonic()
    one, other = vijax(run, 2)
    other.kill()
    other.communicate()
    ((code, _, errors),) = ends([one], 60)
    assert code == watch.LOST, errors
    check_names(errors, "vijax:", "4", "127.0.0.1")
    assert time.monotonic() - begun < 30


# --- the watch ------------------------------------------------------------------------------------
HERE, THERE, THIRD = (Sign(k, f"host{k}", 10 + k) for k in range(3))


def test_a_silent_process_is_lost_by_the_readers_clock():
    seen = update_sightings({}, {0: HERE, 1: THERE}, 100.0)
    seen = update_sightings(seen, {0: HERE._replace(signs=2), 1: THERE._replace(signs=2)}, 101.0)
    assert find_lost(seen, 0, 101.0 + watch.SILENT_S) is None
    seen = update_sightings(seen, {0: HERE._replace(signs=3), 1: THERE._replace(signs=2)}, 122.0)
    assert find_lost(seen, 0, 122.0) == (
        1,
        "process 1 (host host1, pid 11) is lost: it has given no sign of life for 21 s",
    )


def test_a_process_that_ended_is_not_blamed_for_the_one_it_lost():
    """All name the first: also one that hears of it from another, and not the one that was thought
    lost."""
    ended = THERE._replace(fault="process 2 (host host2, pid 12) is lost", because_of=2)
    seen = {k: Sighting(sign, 0.0, 0.0) for k, sign in enumerate((HERE, ended, THIRD))}
    assert find_lost(seen, 0, 1.0) == (2, ended.fault)
    assert find_lost(seen, 2, 1.0) == (
        1,
        f"process 1 (host host1, pid 11) went on without this one: {ended.fault}",
    )
    failed = seen | {1: Sighting(THERE._replace(fault="no such file"), 0.0, 0.0)}
    assert find_lost(failed, 0, 1.0) == (1, "process 1 (host host1, pid 11) ended: no such file")


def test_a_process_that_lives_and_keeps_the_others_waiting_is_stuck():
    signs = lambda n, entered: {
        0: HERE._replace(signs=n, entered=9),
        1: THERE._replace(signs=n, entered=entered),
    }
    seen, now = update_sightings({}, signs(0, 9), 0.0), 0.0
    seen = update_sightings(
        seen, {0: HERE._replace(signs=1, entered=10), 1: THERE._replace(signs=1, entered=9)}, 1.0
    )
    for n in range(2, 400):
        now = float(n)
        seen = update_sightings(
            seen,
            {0: HERE._replace(signs=n, entered=10), 1: THERE._replace(signs=n, entered=9)},
            now,
        )
        if find_lost(seen, 0, now):
            break
    assert now == pytest.approx(1.0 + watch.STUCK_S, abs=1.5)
    check_names(find_lost(seen, 0, now)[1], "host1", "11")


def test_who_keeps_the_others_waiting_is_named(tmp_path):
    one = Watch(tmp_path, 0, 3, str, print)
    assert one.slowest() == ""
    between = lambda *seconds: {
        k: THIRD._replace(process=k, between_s=s) for k, s in enumerate(seconds)
    }
    one._sightings = update_sightings({}, between(3.0, 3.4, 3.9), 0.0)
    assert one.slowest() == ""
    one._sightings = update_sightings({}, between(3.0, 9.4, 4.0), 0.0)
    assert one.slowest() == "waited 6 s for process 1"


def test_a_watch_says_who_is_lost_and_how_to_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "EVERY_S", 0.01)
    monkeypatch.setattr(watch, "SILENT_S", 0.2)
    said, left = [], []
    one = Watch(tmp_path, 0, 2, lambda: "Go on: vijax resume RUN.", said.append, left.append)
    Watch(tmp_path, 1, 2, str, said.append, left.append).write()
    one.begin()
    wait_for(lambda: left, [])
    assert left == [watch.LOST]
    assert said[0].startswith("vijax: process 1 (host ")
    assert said[0].endswith("Go on: vijax resume RUN.")
    assert one.signs()[0].because_of == 1


def test_a_damaged_or_missing_sign_is_no_sign(tmp_path):
    one = Watch(tmp_path, 0, 3, str, print)
    one.begin()
    one.write()
    (tmp_path / "1.json").write_text('{"process": 1, "ho')
    assert one.signs().keys() == {0}
    one.end()
    assert [path.name for path in tmp_path.iterdir()] == ["1.json"]


def test_the_processes_of_no_cluster_are_asked_for(monkeypatch):
    def initialize(coordinator, *others, **more):
        raise ValueError("Number of processes must be defined.")

    monkeypatch.setattr(jax.distributed, "initialize", initialize)
    with pytest.raises(
        ValueError,
        match=naming("coordinator:", "JAX", "num_processes=2"),
    ):
        vi.scale.initialize(num_processes=2)


WRONG = [
    "10.0.0.1",
    "host",
    "host:",
    ":1234",
    "host:port",
    "host:0",
    "host:65536",
    "::1",
    "::1:1234",
    "",
    "a:1:2",
]


@pytest.mark.parametrize("address", WRONG)
def test_an_address_without_a_port_is_refused_before_jax_reads_it(address, monkeypatch):
    """JAX ended with an IndexError."""
    monkeypatch.setattr(
        jax.distributed, "initialize", lambda *_, **__: pytest.fail("JAX was asked")
    )
    with pytest.raises(
        ValueError,
        match=naming("coordinator:", "HOST", "PORT", "10.0.0.1", "1234"),
    ):
        vi.scale.initialize(address, 2, 0)
    monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", address or "host")
    with pytest.raises(ValueError, match=naming("JAX_COORDINATOR_ADDRESS:", "address")):
        vi.scale.initialize(num_processes=2, process_id=0)


@pytest.mark.parametrize("address", ["10.0.0.1:1234", "host.example:65535", "[::1]:1234"])
def test_addresses_with_a_port_are_taken(address, monkeypatch):
    asked = []
    monkeypatch.setattr(jax.distributed, "initialize", lambda *given, **more: asked.append(given))
    vi.scale.initialize(address, 2, 0)
    assert asked == [(address, 2, 0)]


@pytest.mark.parametrize("command", [["fit", "lda"], ["resume", "runs/lda-1"]])
@pytest.mark.parametrize(
    "option", [["--coordinator", "h:1"], ["--num-processes", "2"], ["--process-id", "0"]]
)
def test_an_option_of_several_processes_needs_the_word_that_there_are_several(
    command, option, capsys
):
    """Alone it was passed over."""
    pytest.importorskip("tyro")
    from vijax.app.cli import main

    assert main([*command, *option]) == 2
    assert f"{option[0]}: expected --distributed beside it" in capsys.readouterr().err

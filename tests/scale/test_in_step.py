"""Processes agree before each chunk: on its steps, on its batches, and that no source failed. Here
they are threads."""

import threading

import jax
import numpy as np
import pytest
from jax.errors import JaxRuntimeError
from jax.experimental import multihost_utils

import vijax as vi
from tests.naming import check_names, naming
from tests.process_cases import ends, in_python
from vijax.contract.batch import Minibatch
from vijax.data.streams.stream import Stream, StreamLoader
from vijax.scale import in_step as steps
from vijax.scale.in_step import Rules, announce_batches, require_alike_streams, synchronize
from vijax.scale.lost import ProcessLostError, fail_together, name_lost_process

CHUNK, TOTAL = 4, 20


@pytest.fixture
def together(monkeypatch):
    """Runs a function of the number of a process in as many threads; gives what each returned or
    raised."""

    def run(function, count=2):
        barrier, own, heard, found = (
            threading.Barrier(count, timeout=20),
            threading.local(),
            [None] * count,
            {},
        )

        def gather(tree):
            heard[own.number] = tree
            barrier.wait()
            all_of_them = jax.tree.map(lambda *xs: np.stack(xs), *heard)
            barrier.wait()
            return all_of_them

        def work(number):
            own.number = number
            try:
                found[number] = function(number)
            except Exception as error:
                found[number] = error

        monkeypatch.setattr(multihost_utils, "process_allgather", gather)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return [found[number] for number in range(count)]

    return run


def chunks(batches, is_same):
    """What a fit's thread that reads ahead gives: chunks of `CHUNK` steps, the last one shorter."""
    for step in range(0, TOTAL, CHUNK):
        read = []
        for batch in batches[step : step + CHUNK]:
            if isinstance(batch, Exception):
                raise batch
            read.append(Minibatch(np.asarray(batch, float), None))
        told = announce_batches(read, step, CHUNK, is_same)
        if read:
            yield read, len(read), told


def steps_of(together, sources, is_same=False, says_end=True):
    """The numbers of steps that each process takes, chunk by chunk, or what it raises."""
    rules = Rules(CHUNK, TOTAL, is_same, says_end)
    take = lambda k: [count for _, count, _ in synchronize(chunks(sources[k], is_same), 0, rules)]
    return together(take, len(sources))


BATCH = np.zeros(3)


@pytest.mark.parametrize(
    ("one", "other", "expected"), [(10, 6, [4, 2]), (6, 10, [4, 2]), (8, 4, [4]), (4, 3, [3])]
)
def test_all_end_where_the_first_does_and_say_both_numbers(
    together, monkeypatch, one, other, expected
):
    """They waited for ever."""
    said = []
    monkeypatch.setattr(steps.warnings, "warn", lambda text, **_: said.append(text))
    assert steps_of(together, [[BATCH] * one, [BATCH] * other]) == [expected, expected]
    first, last = sorted([(one, 0), (other, 1)])
    text = (
        f"data: the source of process {first[1]} ended after {first[0]} of 20 steps, that of "
        f"process {last[1]} after"
    )
    assert len(said) == 2
    assert all(each.startswith(text) for each in said), said
    assert f"ends after {first[0]}. " in said[0]


def test_an_end_at_one_step_is_said_as_of_one_process(together, monkeypatch):
    said = []
    monkeypatch.setattr(steps.warnings, "warn", lambda text, **_: said.append(text))
    assert steps_of(together, [[BATCH] * 6] * 3) == [[4, 2]] * 3
    assert said[0].startswith(
        "data: the source ended after 6 of 20 steps, and so does the fit. For more, give a"
    )
    assert steps_of(together, [[BATCH] * 6] * 2, says_end=False) == [[4, 2]] * 2
    assert len(said) == 3
    assert steps_of(together, [[BATCH] * 20] * 2)[0] == [4] * 5


def test_batches_that_differ_later_are_named_by_the_step(together):
    """Only the first was compared."""
    other = [BATCH] * 6 + [BATCH + 1] * 4
    for found in steps_of(together, [[BATCH] * 10, other], is_same=True):
        assert isinstance(found, ValueError)
        assert str(found).startswith(
            "data: expected the same batches in every process, got another batch of step 6 in "
            "process 1 than in process"
        )
        assert "vijax.data.own_part(source, N)" in str(found)
    assert (
        steps_of(together, [[BATCH] * 20, [BATCH + 1] * 20])[0] == [4] * 5
    )  # of own parts the form alone counts
    longer = [BATCH] * 5 + [np.zeros(4)] * 15
    (found, _) = steps_of(together, [[BATCH] * 20, longer])
    assert (
        "batches of one size and form in every process, got another batch of step 5 in process 1"
        in str(found)
    )


def test_where_one_source_fails_the_others_say_which_and_why(together):
    """They said that a sum of JAX failed, or waited."""
    fault = RuntimeError("disk gone")
    well, failed, _ = steps_of(together, [[BATCH] * 20, [BATCH] * 5 + [fault], [BATCH] * 20])
    assert failed is fault
    assert isinstance(well, ProcessLostError)
    assert (
        "process 1 failed and the fit ends in all of them. Its own messages say why: "
        "RuntimeError: disk gone" in str(well)
    )


def test_what_one_cannot_begin_none_does(together):
    def begin(number):
        with fail_together(True):
            if number == 1:
                raise ValueError("no such file")

    well, failed = together(begin)
    assert isinstance(well, ProcessLostError)
    assert "ValueError: no such file" in str(well)
    assert str(failed) == "no such file"
    with fail_together(False):
        pass


NATIVE = "UNKNOWN: Gloo all-reduce failed: Connection closed by peer"


@pytest.mark.parametrize("error", [JaxRuntimeError(NATIVE), ValueError(NATIVE)])
def test_a_sum_that_fails_is_another_process_that_is_lost(error):
    with (
        pytest.raises(
            ProcessLostError,
            match=r"another process was lost .*messages of that process say why.*Gloo",
        ),
        name_lost_process(True),
    ):
        raise error
    for is_shared, other in (
        (False, error),
        (True, JaxRuntimeError("RESOURCE_EXHAUSTED: 4 GB")),
        (True, KeyError(1)),
    ):
        with pytest.raises(type(other)) as kept, name_lost_process(is_shared):
            raise other
        assert kept.value is other


def loader_of(names=(("a", "b"),), num_groups=200.0, forget=0.0):
    model = vi.models.mixture(vi.models.emission.unit_gaussian(1, dim=2))
    loader = StreamLoader(Stream(iter, num_groups, forget, is_part=True), model)
    loader._named.leaf_columns = names
    return loader


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"num_groups": 100.0},
            "num_groups: expected the same number in every process, got 100.0 in process 1 and "
            "200.0",
        ),
        (
            {"forget": 0.1},
            "forget: expected the same share in every process, got 0.1 in process 1 and 0.0 in "
            "process 0",
        ),
        (
            {"names": (("b", "a"),)},
            "got the columns 'b', 'a' in process 1 and the columns 'a', 'b' in process 0.",
        ),
        ({"names": (None,)}, "got no names in process 1 and the columns 'a', 'b' in process 0."),
        (
            {"names": (tuple(f"x{i}" for i in range(99)), None)},
            "and 89 more and no names in process 1",
        ),
    ],
)
def test_what_is_said_of_streams_is_compared_with_the_numbers_and_names(together, other, message):
    first = Minibatch(BATCH, None)
    loaders = [loader_of(), loader_of(**other)]
    for found in together(lambda k: require_alike_streams(loaders[k], first, True)):
        assert message in str(found)


def test_names_of_jax_and_of_nobody_are_refused_before_jax_is_asked():
    with pytest.raises(
        ValueError, match=naming("coordinator_address:", "Give", "coordinator=HOST", "PORT")
    ):
        vi.scale.initialize(coordinator_address="127.0.0.1:1234", num_processes=1, process_id=0)
    with pytest.raises(
        ValueError, match=naming("colour:", "jax.distributed.initialize", "num_proc")
    ):
        vi.scale.initialize("127.0.0.1:1234", 1, 0, colour="red")


TWO = """
import warnings
import jax, numpy as np, pandas
import vijax as vi
vi.scale.initialize(f"127.0.0.1:{port}", count, k)
rows = np.random.default_rng(0).normal(size=(200, 2)) + 4.0 * (np.arange(200) % 2)[:, None]
alg = vi.svi(vi.models.mixture(vi.models.emission.unit_gaussian(1, dim=2)))
mine = [rows[i : i + 20][k::2] for i in range(0, 200, 20)]

def tell(source):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            fit = vi.fit(alg, source, num_steps=12, key=jax.random.key(1), mesh=vi.scale.mesh())
            print("told:", len(fit.trace["elbo"]), *(str(x.message) for x in said), flush=True)
        except Exception as error:
            print("told:", type(error).__name__, error, flush=True)

def failing():
    yield from mine[:5]
    if k == 1:
        raise RuntimeError("disk gone")
    yield from mine[5:]

tell(vi.data.own_part((batch for batch in mine[: 10 - 4 * k]), 200, shuffled=True))
tell(vi.data.own_part(failing(), 200, shuffled=True))
tables = [pandas.DataFrame(x, columns=list(["ab", "ba"][k])) for x in mine]
tell(vi.data.own_part(tables, 200, shuffled=True))
tell(vi.data.stream([x if i < 6 else x + k for i, x in enumerate(np.split(rows, 10))], 200, shuffled=True))
"""


def test_two_processes_end_together_and_say_why():
    """One that has fewer batches, one whose source fails, other names of columns, and batches that
    differ later."""
    found = ends(in_python(TWO, 2), 120)
    assert [code for code, *_ in found] == [0, 0], found[0][2][-2000:] + found[1][2][-2000:]
    told = [
        [line[6:] for line in said.splitlines() if line.startswith("told: ")]
        for _, said, _ in found
    ]
    (ended, failed, named, differ), (ended_too, fault, *_) = told
    assert ended == ended_too
    assert ended.startswith(
        "6 data: the source of process 1 ended after 6 of 12 steps, that of process 0 after 10"
    )
    assert failed.startswith(
        "ProcessLostError data: expected batches from every process, but process 1 failed"
    )
    assert fault == "RuntimeError disk gone"
    check_names(named, "'b'", "'a'", "1", "0")
    assert "another batch of step 6 in process 1 than in process 0" in differ

"""Batches from elsewhere: what a fit takes of them, how it goes on, how it ends, what N is."""

import itertools
import operator
import subprocess
import sys
import warnings

import jax
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.data.loader import as_loader

COIN = vi.model(
    prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
    local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
)
KEY = jax.random.key(0)
AVERAGE = vi.svi(COIN, step_size=vi.step_size.robbins_monro(kappa=1.0))


def tosses(step):
    """The batch of a step, a function of it alone."""
    return (np.random.default_rng([7, step]).random(50) < 0.3).astype(float)


class Source:
    """A source of the two names that `vijax.fit` asks for."""

    num_groups = 200

    def batches(self, start_step):
        return map(tosses, itertools.count(start_step))


def fit(source, num_steps=20, alg=AVERAGE, **more):
    return vi.fit(alg, source, key=KEY, num_steps=num_steps, **more)


def total(run):
    q = run.posterior["bias"]
    return float(q.alpha + q.beta) - 2


def test_a_source_is_two_names_and_a_run_goes_on_bit_for_bit():
    with pytest.warns(UserWarning, match="trusted"):
        whole = fit(Source())
    source = vi.data.stream(Source(), shuffled=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        in_two = fit(source, state=fit(source, 7).state)
    jax.tree.map(np.testing.assert_array_equal, whole.state, in_two.state)
    expected = 1 + 200 * np.mean([tosses(step) for step in range(20)])
    assert float(whole.posterior["bias"].alpha) == pytest.approx(expected, rel=1e-5)
    assert whole.trace["num_groups"].tolist() == [50.0] * 20


def test_an_iterable_is_read_again_and_a_generator_ends_the_fit():
    batches = [tosses(step) for step in range(4)]
    again = fit(vi.data.stream(batches, 200, shuffled=True), 8)
    once = fit(vi.data.stream(batches, 200, shuffled=True), 4)
    assert int(again.state.step) == 8
    assert float(again.posterior["bias"].alpha) == pytest.approx(
        float(once.posterior["bias"].alpha), rel=1e-5
    )
    with pytest.warns(UserWarning, match="ended after 4 of 8 steps"):
        short = fit(vi.data.stream((b for b in batches), 200, shuffled=True), 8)
    jax.tree.map(np.testing.assert_array_equal, short.posterior, once.posterior)
    with pytest.raises(vi.data.DataError, match="one batch or more"):
        fit(vi.data.stream(iter(()), shuffled=True), 8)


def test_n_is_what_came_so_far_and_forgotten_at_its_rate():
    count = lambda loader, start=0: [float(b.num_groups) for b in loader.batches(start, 6)]
    grows = as_loader(vi.data.stream(Source().batches, shuffled=True), COIN, None, 0)
    assert count(grows) == [50, 100, 150, 200, 250, 300]
    assert count(grows, 3) == [200, 250, 300]
    forgets = as_loader(vi.data.stream(Source().batches, forget=0.2), COIN, None, 0)
    expected = [50 * sum(0.8**j for j in range(t + 1)) for t in range(6)]
    assert count(forgets) == pytest.approx(expected)
    assert count(forgets, 3) == pytest.approx(expected[3:])


def test_steps_of_the_forgetting_rate_are_streaming_variational_bayes():
    """eta + sum_j (1 - rho)^(t - j) m_j, by hand: the message of a batch of a conjugate model is
    its counts."""
    rho, steps = 0.2, 30
    alg = vi.svi(COIN, step_size=vi.step_size.constant(rho))
    run = fit(vi.data.stream(Source().batches, 50 / rho, shuffled=True), steps, alg)
    heads = sum((1 - rho) ** (steps - 1 - j) * tosses(j).sum() for j in range(steps))
    assert float(run.posterior["bias"].alpha) == pytest.approx(
        1 + heads, rel=0.01
    )  # 0.8^30 of the start is left
    assert total(run) == pytest.approx(50 / rho, rel=0.01)


def test_a_coin_that_changes_is_followed_by_a_stream_that_forgets():
    def batches(start):
        bias = lambda step: 0.2 if step < 100 else 0.7
        return (
            (np.random.default_rng(step).random(50) < bias(step)) * 1.0
            for step in itertools.count(start)
        )

    alg = vi.svi(COIN, step_size=vi.step_size.constant(0.05))
    follows = fit(vi.data.stream(batches, forget=0.05), 200, alg)
    stays = fit(vi.data.stream(batches, shuffled=True), 200)
    assert abs(float(follows.posterior["bias"].mean()) - 0.7) < 0.06  # 4 sds of 1,000 tosses
    assert (
        abs(float(stays.posterior["bias"].mean()) - 0.575) < 0.03
    )  # batch j weighs j / 200: N was less when it came
    assert total(follows) == pytest.approx(50 / 0.05, rel=0.01)


def test_what_does_not_fit_is_said():
    stream = lambda *batches: vi.data.stream(list(batches), 100, shuffled=True)
    with pytest.raises(vi.data.DataError, match="batch of step 0: data: expected finite"):
        fit(stream(np.array([0.0, np.nan])))
    with pytest.raises(vi.data.DataError, match="batch of step 1: expected arrays as in the first"):
        fit(stream(np.zeros(2), np.zeros((2, 1))))
    with pytest.raises(ValueError, match="num_steps in its place"):
        vi.fit(AVERAGE, vi.data.stream(Source().batches, shuffled=True), key=KEY, num_epochs=1)
    with pytest.raises(vi.data.DataError, match="forget"):
        vi.data.stream([], forget=1.0)
    with pytest.raises(vi.data.DataError, match="num_groups"):
        vi.data.stream([], 0)
    with pytest.raises(vi.data.DataError, match="an iterable, or a function"):
        vi.data.stream(3)


def counts_of(batch, vocab_size):
    """The documents of a batch as a matrix of counts."""
    (documents,) = batch.data
    found = np.zeros((len(documents.words), vocab_size))
    np.add.at(found, (np.arange(len(found))[:, None], documents.words), documents.counts)
    return found


def test_batches_of_documents_are_what_read_reads():
    counts = np.random.default_rng(0).poisson(0.4, (60, 12)) + np.eye(60, 12, dtype=int)
    loader = as_loader(vi.data.stream([counts], 600, shuffled=True), vi.models.lda(3, 12), None, 0)
    (batch,) = loader.batches(0, 1)
    assert np.array_equal(counts_of(batch, 12), counts)
    assert float(batch.num_groups) == 600
    with pytest.raises(vi.data.DataError, match="11 words, as the model has"):
        list(
            as_loader(
                vi.data.stream([counts], shuffled=True), vi.models.lda(3, 11), None, 0
            ).batches(0, 1)
        )


def test_arrow_batches_of_documents_are_as_in_shards():
    """Words in any order, one of them twice, and a document without words."""
    arrow = pytest.importorskip("pyarrow")
    ids, counts = [[4, 1], [], [2, 2, 0], [5]], [[1, 3], [], [2, 1, 1], [7]]
    dense = np.zeros((4, 6))
    dense[0, [1, 4]], dense[2, [0, 2]], dense[3, 5] = (3, 1), (1, 3), 7

    def batch(ids, counts, kind=arrow.list_):
        columns = [arrow.array(column, kind(arrow.int32())) for column in (ids, counts)]
        return arrow.record_batch(
            [*columns, arrow.array(["a"] * len(ids))], ["ids", "counts", "title"]
        )

    def load(item, vocab_size=6):
        source = vi.data.stream([item], 99, shuffled=True)
        return counts_of(
            next(as_loader(source, vi.models.lda(2, vocab_size), None, 0).batches(0, 1)), vocab_size
        )

    one = batch(ids, counts)
    assert np.array_equal(load(one), dense)
    assert np.array_equal(load(one.slice(1)), dense[1:])
    assert np.array_equal(load(batch(ids, counts, arrow.large_list)), dense)
    assert np.array_equal(
        load(arrow.Table.from_batches([one.slice(0, 0), one.slice(0, 3), one.slice(3)])), dense
    )
    with pytest.raises(vi.data.DataError, match="batch of step 0: expected word ids from 0 to 4"):
        load(one, 5)
    with pytest.raises(
        vi.data.DataError, match="step 0, row 5: expected as many ids as counts, got 1 ids and 2"
    ):
        load(arrow.Table.from_batches([one, batch([[1]], [[1, 2]])]))
    with pytest.raises(vi.data.DataError, match=naming("0, column", "'counts'", "2")):
        load(batch([[1], [2]], [[1], None]))
    with pytest.raises(vi.data.DataError, match="one document or more"):
        load(one.slice(0, 0))


def test_arrow_batches_of_rows_are_matrices_and_their_columns_vectors():
    arrow = pytest.importorskip("pyarrow")
    a, y = np.arange(50.0), tosses(0)
    table = arrow.table({"a": a, "b": -a, "y": y})
    (batch,) = table.to_batches()
    pair = vi.model(
        COIN.prior, local_elbo=lambda s, xy, key: COIN.local_elbo(s, xy[0].sum(1) * xy[1], key)
    )
    for item in (table, batch, table.slice(0, 20)):
        source = vi.data.stream([(item.select(["a", "b"]), item["y"])], 200, shuffled=True)
        x, vector = next(as_loader(source, pair, None, 0).batches(0, 1)).data
        assert np.array_equal(x, np.stack([a, -a], 1)[: len(vector)])
        assert np.array_equal(vector, y[: item.num_rows].astype(np.float32))
    plain, of_arrow = (fit(vi.data.stream([y], 200, shuffled=True), 4) for y in (y, batch["y"]))
    jax.tree.map(np.testing.assert_array_equal, plain.state, of_arrow.state)
    with pytest.raises(vi.data.DataError, match=r"batch of step 0: data: expected finite"):
        fit(vi.data.stream([arrow.table({"y": [0.0, None]})], 200, shuffled=True))


def test_topics_that_change_half_way_are_followed():
    """Three topics of ten words each, of which five are others from batch 60 on. What a fit that
    does not forget has kept of the old topics is known: the documents before weigh a quarter
    (`vijax.data.stream`)."""
    words = lambda first, number: (
        np.kron(np.eye(3), np.ones(number)) @ np.eye(3 * number, 45, first)
    )
    blocks = words(0, 10) / 10
    changed = (np.tile(np.repeat([0, 1], 5), 9)[:45] * words(0, 10) + words(30, 5)) / 10

    def batches(start):
        for step in itertools.count(start):
            rng = np.random.default_rng([1, step])
            shares = rng.dirichlet(np.full(3, 0.1), 100)
            yield rng.poisson(40 * shares @ (blocks if step < 60 else changed))

    def distance(source, **how):
        alg = vi.svi(vi.models.lda(3, 45, alpha=0.1), **how)
        found = fit(source, 120, alg).posterior["topics"].mean()
        return max(np.abs(np.asarray(found) - topic).sum(1).min() for topic in changed)

    follows = distance(vi.data.stream(batches, forget=0.1), step_size=vi.step_size.constant(0.1))
    stays = distance(
        vi.data.stream(batches, shuffled=True), step_size=vi.step_size.robbins_monro(kappa=1.0)
    )
    assert follows < 0.05
    assert abs(stays - 0.25) < 0.05


def test_grain_is_a_source():
    grain = pytest.importorskip("grain")
    values = (np.arange(400) % 4 == 0).astype(float)
    dataset = grain.MapDataset.source(values).shuffle(seed=3).repeat().batch(50)

    class OfGrain:
        num_groups = 400

        def batches(self, start_step):
            return (dataset[step] for step in itertools.count(start_step))

    source = vi.data.stream(OfGrain(), shuffled=True)
    whole, in_two = fit(source, 16), fit(source, 16, state=fit(source, 5).state)
    jax.tree.map(np.testing.assert_array_equal, whole.state, in_two.state)
    assert float(whole.posterior["bias"].alpha) == pytest.approx(101, rel=1e-4)


def test_a_loader_of_pytorch_is_an_iterable():
    torch = pytest.importorskip("torch")
    values = torch.arange(400) % 4 == 0
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(values.float()), batch_size=50, shuffle=True
    )
    run = fit(vi.data.stream(map(operator.itemgetter(0), loader), 400, shuffled=True), 8)
    assert float(run.posterior["bias"].alpha) == pytest.approx(101, rel=1e-4)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_hundred_thousand_steps_hold_memory_descriptors_and_threads():
    """What grows is the trace: 50 bytes a step."""
    code = """
import itertools, os, threading
import jax, jax.numpy as jnp, numpy as np
import vijax as vi
mean = vi.model(
    prior=vi.Product({"mean": vi.Normal.from_mean_variance(jnp.zeros(10), 1.0)}),
    local_elbo=lambda s, y, key: ((y * s["mean"].value - 0.5 * s["mean"].square).sum(-1), None),
)
def batches(step):
    return (np.random.default_rng(i).normal(1.0, 1.0, (32, 10)).astype(np.float32) for i in itertools.count(step))
def look(p):
    if p.step // 20_000 > len(marks):
        resident = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS"))
        marks.append((int(resident), len(os.listdir("/proc/self/fd")), threading.active_count()))
marks = []
source = vi.data.stream(batches, forget=0.001)
vi.fit(vi.svi(mean), source, key=jax.random.key(0), num_steps=100_000, callbacks=[look])
print(*np.ravel(marks))
"""
    result = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    resident, descriptors, threads = np.array(result.stdout.split(), int).reshape(-1, 3).T
    assert len(resident) == 5
    assert resident[-1] - resident[0] < 10 * 1024
    assert len(set(descriptors)) == 1
    assert len(set(threads)) == 1

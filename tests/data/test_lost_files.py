"""A file that is lost or cut short while a fit reads it: one sentence names it, and with the file
back the fit goes on from its checkpoint to the end of the unbroken run."""

import jax
import numpy as np
import pytest

import vijax as vi
from vijax.data import DataError
from vijax.fitting import checkpoint

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

V = 30
COIN = vi.model(
    prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
    local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
)
KINDS = {
    "documents": (vi.svi(vi.models.lda(2, V)), vi.data.shards),
    "rows": (vi.svi(COIN), vi.data.rows),
}


def write(file, kind, i, number=100):
    """A file of 100 groups in row groups of 40, or of the first of them; whole at once, for a fit
    reads ahead."""
    rng = np.random.default_rng(i)
    if kind == "rows":
        table = arrow.table({"y": (rng.random(100) < 0.3).astype(float)})
    else:
        counts = rng.poisson(0.5, (100, V)) + np.eye(100, V, dtype=int)
        ids = [np.flatnonzero(row) for row in counts]
        of = [row[found].tolist() for row, found in zip(counts, ids, strict=True)]
        table = arrow.table({"ids": [found.tolist() for found in ids], "counts": of})
    beside = file.with_suffix(".new")
    parquet.write_table(table.slice(0, number), beside, row_group_size=40)
    beside.replace(file)


DAMAGE = {
    "lost": (lambda file, kind: file.unlink(), "expected a whole Parquet file, got .*No such file"),
    "cut": (
        lambda file, kind: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
        "expected a whole Parquet file, got an unreadable one",
    ),
    "shorter": (
        lambda file, kind: write(file, kind, 1, 50),
        r"expected [24]0 rows in row group [12], as when it was opened first, got 1?0\. To mend "
        r"it: put back the file",
    ),
}


@pytest.fixture(scope="module", params=KINDS)
def unbroken(request, tmp_path_factory):
    """Which data; their folder; a fit of them; what the whole fit comes to. A fit holds one step,
    and reads at most three chunks of two steps ahead: after the first chunk it reads all files
    again."""
    folder, (alg, of) = tmp_path_factory.mktemp(request.param), KINDS[request.param]
    for i in range(4):
        write(folder / f"part-{i}.parquet", request.param, i)
    columns = ("y",) if request.param == "rows" else ()
    how = {"key": jax.random.key(0), "num_steps": 20, "batch_size": 40, "steps_per_chunk": 2}
    fit = lambda **more: vi.fit(alg, of(folder, *columns, held_bytes=1000), **how, **more)
    return request.param, folder, fit, fit().state


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_file_that_is_lost_in_the_middle_is_named_and_the_fit_goes_on(unbroken, damage, tmp_path):
    (kind, folder, fit, end), (damaged, said) = unbroken, DAMAGE[damage]
    file = folder / "part-1.parquet"

    def lose(progress):
        if progress.step == 2:
            checkpoint.save(tmp_path, progress.step, progress.state)
            damaged(file, kind)

    with pytest.raises(DataError, match=f"part-1.parquet: {said}") as error:
        fit(callbacks=[lose])
    assert "\n" not in str(error.value)
    write(file, kind, 1)
    state = checkpoint.latest(tmp_path, end).tree
    assert int(state.step) == 2
    jax.tree.map(np.testing.assert_array_equal, fit(state=state).state, end)

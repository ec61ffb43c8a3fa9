"""Times and memory of `vijax prepare` and of fits to rows and documents in Parquet files, each in a
process of its own.

python benchmarks/shards.py
"""

import itertools
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

DOCUMENTS, ROWS = 50_000, 500_000


def texts(number):
    """Documents of 100 words, drawn from 20,000 with Zipf's frequencies."""
    words = np.array(
        [
            "".join(letters)
            for letters in itertools.islice(itertools.product("abcdefghijkl", repeat=4), 20_000)
        ]
    )
    shares = 1 / np.arange(1, len(words) + 1)
    rng = np.random.default_rng(0)
    for first in range(0, number, 1000):
        ids = rng.choice(len(words), (1000, 100), p=shares / shares.sum())
        yield from ((f"{first + i}", " ".join(words[row])) for i, row in enumerate(ids))


def prepare(number, workers):
    from vijax.data import prepare

    with tempfile.TemporaryDirectory() as folder:
        pool = ProcessPoolExecutor(workers, get_context("spawn")) if workers > 1 else None
        prepare(texts(number), Path(folder, "out"), executor=pool, shard_characters=2**21)
        if pool is not None:
            pool.shutdown()


def rows(number, held):
    import jax
    import jax.numpy as jnp
    import pyarrow
    import pyarrow.parquet

    import vijax as vi

    with tempfile.TemporaryDirectory() as folder:
        for i in range(number // 100_000):
            values = np.random.default_rng(i).normal(size=(100_000, 10)).astype(np.float32)
            table = pyarrow.table({f"x{j}": values[:, j] for j in range(10)})
            pyarrow.parquet.write_table(
                table, f"{folder}/part-{i:03}.parquet", row_group_size=20_000
            )
        model = vi.model(
            prior=vi.Product({"mean": vi.Normal.from_mean_variance(jnp.zeros(10), 1.0)}),
            local_elbo=lambda s, y, key: (
                (y * s["mean"].value - 0.5 * s["mean"].square).sum(-1),
                None,
            ),
        )
        begun = time.perf_counter()
        table = vi.data.rows(folder, held_bytes=held)
        vi.fit(vi.svi(model), table, key=jax.random.key(0), num_epochs=1, batch_size=1000)
        return time.perf_counter() - begun


def documents(number, held):
    import jax
    import pyarrow
    import pyarrow.parquet

    import vijax as vi

    with tempfile.TemporaryDirectory() as folder:
        for i in range(number // 50_000):
            rng = np.random.default_rng(i)
            ids = np.sort(rng.integers(0, 100, (50_000, 50)) + 100 * np.arange(50), 1).astype(
                np.int32
            )
            offsets = np.arange(0, ids.size + 1, 50, dtype=np.int32)
            lists = (
                pyarrow.ListArray.from_arrays(offsets, x.ravel()) for x in (ids, np.ones_like(ids))
            )
            table = pyarrow.table(dict(zip(("ids", "counts"), lists, strict=True)))
            pyarrow.parquet.write_table(
                table, f"{folder}/part-{i:03}.parquet", row_group_size=10_000
            )
        begun = time.perf_counter()
        shards = vi.data.shards(folder, held_bytes=held)
        alg = vi.svi(vi.models.lda(10, shards.vocab_size))
        vi.fit(alg, shards, key=jax.random.key(0), num_epochs=1, batch_size=1000)
        return time.perf_counter() - begun


if __name__ == "__main__" and len(sys.argv) == 1:
    print("| what | wall s | CPU s | largest process, MB |")
    print("|---|---|---|---|")
    jobs = [("prepare", n, w) for w in (1, 2, 4) for n in (DOCUMENTS, 2 * DOCUMENTS)]
    jobs += [("prepare", 4 * DOCUMENTS, 1), ("documents", 400_000, 2**23)]
    jobs += [("rows", n, held) for n in (ROWS, 2 * ROWS) for held in (2**23, 2**28)]
    jobs += [("documents", n, held) for n in (100_000, 200_000) for held in (2**23, 2**28)]
    for job in jobs:
        print(
            subprocess.run(
                [sys.executable, __file__, *map(str, job)],
                check=True,
                capture_output=True,
                text=True,
            ).stdout,
            end="",
            flush=True,
        )
elif __name__ == "__main__":
    what, number, how = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    begun = time.perf_counter()
    fitted = {"prepare": prepare, "rows": rows, "documents": documents}[what](number, how)
    wall = time.perf_counter() - begun if fitted is None else fitted
    used = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu, most = sum(u.ru_utime + u.ru_stime for u in used), max(u.ru_maxrss for u in used) / 1024
    by = (
        f"documents, {how} worker{'s' * (how > 1)}"
        if what == "prepare"
        else f"{what}, {how / 2**20:g} MB held"
    )
    print(f"| {what}: {number:,} {by} | {wall:.1f} | {cpu:.1f} | {most:.0f} |")

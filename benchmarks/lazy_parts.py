"""Where the time of a step by words goes, beside what it cannot do without, and beside tomotopy on
the same documents.

    python benchmarks/lazy_parts.py [--words 20000] [--topics 100] [--batch 256] [--peer PYTHON]

Documents have 30 words by Zipf's law (`lazy.documents`). Each part is a program of its own on the
arrays of one batch, on one thread; least CPU milliseconds of some ten calls. `--peer` is a Python
that has tomotopy: its sweeps run in a process of their own between the parts' first and second
half."""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
import jax
import jax.numpy as jnp
import numpy as np
from lazy import KEY, documents

import vijax as vi
from vijax.families.numeric.pathwise import sample_offset
from vijax.models.documents.likelihoods import likelihood_table
from vijax.topics.own_words import OwnWords, _view_columns
from vijax.xla.compiler import STEP, usable_options

SWEEPS = """
import sys, time, numpy as np, tomotopy
indptr, indices, counts = (np.load(sys.argv[1])[k] for k in ("indptr", "indices", "counts"))
lda = tomotopy.LDAModel(k=int(sys.argv[2]), alpha=0.1, eta=0.1, seed=1)
lda.optim_interval = 0
for a, b in zip(indptr[:-1], indptr[1:]):
    lda.add_doc(np.repeat(indices[a:b], counts[a:b]).astype(str).tolist())
lda.train(20, workers=1)
begin = time.process_time()
lda.train(60, workers=1)
print((len(indptr) - 1) * 60 / (time.process_time() - begin))
"""


def least(fn: Callable[..., Any], *args: Any) -> float:
    """CPU milliseconds of a call of its program."""
    program = jax.jit(fn).lower(*args).compile(usable_options(STEP))
    jax.block_until_ready(program(*args))
    seconds = []
    for _ in range(12):
        begin = time.process_time()
        jax.block_until_ready(program(*args))
        seconds.append(time.process_time() - begin)
    return 1e3 * min(seconds)


def in_scan(alg: Any, state: Any, batch: Any, steps: int = 20) -> float:
    """CPU milliseconds of a step of a loop, in which the state is changed in place."""
    loop = lambda state: jax.lax.scan(lambda s, i: (alg.step(jax.random.fold_in(KEY, i), s, batch)[0], None), state,
                                      jnp.arange(steps))[0]  # fmt: skip
    return least(loop, state) / steps


def rate_of_tomotopy(python: str, corpus: Any, topics: int) -> float:
    """Documents a CPU second."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/corpus.npz"
        np.savez(
            path,
            indptr=corpus.indptr,
            indices=corpus.indices,
            counts=np.asarray(corpus.counts, int),
        )
        done = subprocess.run(
            [python, "-c", SWEEPS, path, str(topics)], check=True, stdout=subprocess.PIPE, text=True
        )
    return float(done.stdout)


def main() -> None:
    """Prints a table."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--words", type=int, default=20_000)
    p.add_argument("--topics", type=int, default=100)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--peer")
    a = p.parse_args()
    corpus = documents(a.words, 10 * a.batch)
    model = vi.models.lda(a.topics, a.words, 0.1, 0.1)
    rows: dict[str, Any] = {}

    def lazy(row: Any, estep: Any, **more: Any) -> Any:
        return vi.topics.by_words(row(model, estep=estep), penalty_every=10**6)

    alg = lazy(vi.ssvi_a, vi.estep.cvb0())
    fit = vi.fit(alg, corpus, key=KEY, num_epochs=3, batch_size=a.batch)
    inner = next(iter(vi.data.minibatches(corpus, a.batch, 0)))
    words = len(np.unique(np.concatenate([d.words[d.counts > 0] for d in inner.data])))
    batch = vi.topics.renumbered(inner, vocab_size=a.words, size=words)
    batch = jax.tree.map(jnp.asarray, batch)
    own, state = (
        OwnWords(batch.data.words, batch.data.documents),
        jax.tree.map(jnp.asarray, fit.state),
    )
    pairs = int(sum(jnp.sum(d.counts > 0) for d in own.documents))
    print(f"{words} words, {pairs} pairs, K = {a.topics}, batches of {a.batch}")

    rows["step, ssvi_a, CVB0"] = in_scan(alg, state, batch)
    rows["the same, one iteration of each document"] = in_scan(
        lazy(vi.ssvi_a, vi.estep.cvb0(max_iters=1)), state, batch
    )
    rows["step, svi, CVB0"] = in_scan(lazy(vi.svi, vi.estep.cvb0()), state, batch)
    peer = [rate_of_tomotopy(a.peer, corpus, a.topics)] if a.peer else []

    seen = _view_columns(model, state, own).state
    columns = seen.posterior["topics"]
    rows["rows gathered"] = least(lambda s: _view_columns(model, s, own).state.posterior, state)
    rows["gammas drawn"] = least(lambda q: sample_offset(KEY, q.concentration, ()), columns)
    rows["gammas, divided by their sums, logarithms"] = least(
        lambda q: q.sample_stats(KEY), columns
    )
    rows["digammas, in place of gammas (svi)"] = least(lambda q: q.expected_stats(), columns)
    stats = {**seen.posterior.expected_stats(), "topics": columns.sample_stats(KEY)}
    rows["table of the words' likelihoods"] = least(
        lambda s: likelihood_table(s)[0], stats["topics"]
    )
    data = vi.Minibatch(own.documents, batch.num_groups)

    def bound(estep: Any) -> Any:
        total = lambda stats: model.local_elbo(seen.hyper, stats, data, KEY, estep).total
        return least(jax.value_and_grad(total), stats)

    rows["bound and gradient, with E-step and table"] = bound(vi.estep.cvb0())
    rows["E-step, bound and gradient, one iteration"] = bound(vi.estep.cvb0(max_iters=1))
    moved = lambda s, c: s.posterior["topics"].with_columns(
        own.words, c, jnp.float32(0.9), jnp.bool_(True)
    )
    program = jax.jit(moved, donate_argnums=0).lower(state, columns).compile(usable_options(STEP))
    times = []
    for _ in range(12):
        given = jax.block_until_ready(jax.tree.map(jnp.copy, state))
        begin = time.process_time()
        jax.block_until_ready(program(given, columns))
        times.append(time.process_time() - begin)
    rows["rows put back"] = 1e3 * min(times)
    rows["one copy of the batch's rows"] = least(lambda c: c + 1.0, columns.concentration)
    peer += [rate_of_tomotopy(a.peer, corpus, a.topics)] if a.peer else []
    rows["step, ssvi_a, CVB0, again"] = in_scan(alg, state, batch)
    for name, spent in rows.items():
        print(f"| {name.strip()} | {spent:.2f} |")
    for rate in peer:
        print(
            f"tomotopy: {rate:,.0f} documents a second; a quarter of it is "
            f"{4e3 * a.batch / rate:.2f} ms a batch"
        )


if __name__ == "__main__":
    main()

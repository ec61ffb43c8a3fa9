"""CPU time per document of every E-step with its message (the gradient in the topics), on batches
of 256 documents.

    XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1" python
    benchmarks/esteps.py

Documents are those of the Associated Press corpus where `$VIJAX_DATA/ap.npz` or
`../shared/data/ap.npz` exists (2,246 documents, 134 different words and 194 tokens on average),
else synthetic ones of the same lengths. Topics are those of a few passes of mean-field SVI, since
random topics need other numbers of iterations than learnt ones. Times are CPU seconds of the
process, compilation excluded."""

from __future__ import annotations

import argparse
import functools
import os
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np

from vijax.contract.batch import Documents
from vijax.data.buckets import length_buckets
from vijax.families.numeric.special import digamma
from vijax.inference import estep
from vijax.xla.chunks import split_chunks
from vijax.xla.gather import sum_over_rows


def load_corpus(seed=0):
    """indptr, indices, counts of AP, or of a synthetic corpus like it."""
    for folder in (os.environ.get("VIJAX_DATA", ""), "../shared/data"):
        path = pathlib.Path(folder) / "ap.npz"
        if folder and path.exists():
            with np.load(path) as file:
                return file["indptr"], file["indices"], file["counts"]
    return synthetic_corpus(np.random.default_rng(seed))


def synthetic_corpus(rng, num_docs=2246, vocab_size=10473, num_topics=100, mean_tokens=194):
    """Documents of an LDA model whose words are Zipf distributed, of log-normal lengths."""
    popularity = 1 / (10 + np.arange(vocab_size))
    topics = rng.gamma(0.1, size=(num_topics, vocab_size)) * popularity
    topics /= topics.sum(axis=1, keepdims=True)
    rows = []
    for length in np.maximum(
        1, mean_tokens * np.exp(0.6 * rng.normal(size=num_docs) - 0.18)
    ).astype(int):
        mixed = rng.dirichlet(np.full(num_topics, 0.1)) @ topics
        rows.append(
            np.unique(
                rng.choice(vocab_size, size=length, p=mixed / mixed.sum()), return_counts=True
            )
        )
    indptr = np.concatenate([[0], np.cumsum([len(words) for words, _ in rows])])
    return indptr, np.concatenate([w for w, _ in rows]), np.concatenate([c for _, c in rows])


def make_batches(corpus, batch_size, num_buckets=6, seed=0):
    """Batches, each a tuple of one `Documents` per length bucket; all batches have the same
    shapes."""
    indptr, _, counts = corpus
    lengths = np.diff(indptr)
    tokens = np.add.reduceat(counts, indptr[:-1])
    num_batches = len(lengths) // batch_size
    rng = np.random.default_rng(seed)
    batches = [[] for _ in range(num_batches)]
    for bucket in length_buckets(lengths, tokens, num_buckets, num_batches):
        for batch, part in zip(
            batches, np.array_split(rng.permutation(bucket.rows), num_batches), strict=True
        ):
            size = -(-len(bucket.rows) // num_batches)
            batch.append(pad_documents(corpus, part, size, bucket.slots, bucket.max_tokens))
    return [tuple(batch) for batch in batches]


def pad_documents(corpus, rows, size, slots, max_tokens):
    indptr, indices, counts = corpus
    words, number = np.zeros((size, slots), np.int32), np.zeros((size, slots), np.float32)
    for row, d in enumerate(rows):
        place = slice(indptr[d], indptr[d + 1])
        words[row, : place.stop - place.start] = indices[place]
        number[row, : place.stop - place.start] = counts[place]
    return Documents(words, number, np.arange(size) < len(rows), max_tokens)


def chunk_energy(step, rows, alpha, docs, key):
    """An energy whose gradient in the rows is the message of the E-step over the rows: expected
    counts / likelihood."""
    fixed, alpha = jax.lax.stop_gradient((rows, alpha))
    local = jax.lax.stop_gradient(
        step.mixed_membership(fixed, docs.counts, alpha, key, docs.max_tokens)
    )
    if local.token_topics is not None:
        return jnp.sum(local.token_topics / fixed * rows), local.gamma
    weights = digamma(local.gamma)
    weights = jnp.exp(weights - jnp.max(weights, axis=1, keepdims=True))
    return jnp.sum(docs.counts * jnp.log(jnp.einsum("dnk,dk->dn", rows, weights))), local.gamma


def messages(step, log_topics, alpha, batch, key, chunk_rule=None):
    """The expected counts (V, K) of a batch of documents; and what else one step of SVI needs."""
    table = jnp.exp(jnp.maximum(log_topics - jnp.max(log_topics, axis=1, keepdims=True), -69.0))
    chunk_rule = chunk_rule or step.docs_per_chunk
    chunks = [split_chunks(d, chunk_rule(d.words.shape[1], alpha.size)) for d in batch]
    energy = functools.partial(chunk_energy, step)
    total = lambda table: sum_over_rows(energy, table, alpha, chunks, key)
    (_, gammas), grad = jax.value_and_grad(total, has_aux=True)(table)
    return table * grad, gammas


def learn_topics(batches, num_docs, vocab_size, num_topics, alpha, eta, passes, batch_size):
    """E log topics, (V, K), after some passes of mean-field SVI."""
    step = jax.jit(functools.partial(messages, estep.mean_field()))
    posterior = jnp.asarray(
        np.random.default_rng(0).gamma(100.0, 0.01, (vocab_size, num_topics)), jnp.float32
    )
    for t, batch in enumerate(b for _ in range(passes) for b in batches):
        rate = (1.0 + t) ** -0.75
        counts, _ = step(
            digamma(posterior) - digamma(posterior.sum(0)), alpha, batch, jax.random.key(t)
        )
        posterior = (1 - rate) * posterior + rate * (eta + num_docs / batch_size * counts)
    return digamma(posterior) - digamma(posterior.sum(0))


def cpu_time_per_document(step, log_topics, alpha, batches, repeats, chunk_rule=None):
    run = jax.jit(functools.partial(messages, step, chunk_rule=chunk_rule))
    jax.block_until_ready(run(log_topics, alpha, batches[0], jax.random.key(0)))
    times = []
    for r in range(repeats):
        start = time.process_time()
        for i, batch in enumerate(batches):
            jax.block_until_ready(run(log_topics, alpha, batch, jax.random.key(r * 1000 + i)))
        times.append(time.process_time() - start)
    return min(times) / sum(d.weights.sum() for batch in batches for d in batch)


ESTEPS = {
    "mean_field()": estep.mean_field(),
    "mean_field(tol=1e-2)": estep.mean_field(tol=1e-2),
    "mean_field(max_iters=20)": estep.mean_field(max_iters=20),
    "cvb0()": estep.cvb0(),
    "cvb0(tol=1e-2)": estep.cvb0(tol=1e-2),
    "cvb0(max_iters=20)": estep.cvb0(max_iters=20),
    "gibbs()": estep.gibbs(),
    "gibbs(num_sweeps=1, burn_in=4)": estep.gibbs(num_sweeps=1, burn_in=4),
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--eta", type=float, default=0.1)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="only E-steps whose name holds this text")
    args = parser.parse_args()

    corpus = load_corpus()
    vocab_size = int(corpus[1].max()) + 1
    batches = make_batches(corpus, args.batch_size)
    alpha = jnp.full(args.topics, args.alpha)
    num_docs = len(corpus[0]) - 1
    print(
        f"{num_docs} documents, batches: {[d.words.shape for d in batches[0]]}, V={vocab_size}, "
        f"K={args.topics}"
    )
    for passes in (0, args.passes):
        topics = learn_topics(
            batches, num_docs, vocab_size, args.topics, alpha, args.eta, passes, args.batch_size
        )
        for name, step in ESTEPS.items():
            if args.only in name:
                seconds = cpu_time_per_document(step, topics, alpha, batches, args.repeats)
                print(
                    f"topics of {passes} passes  {name:34s} {1e6 * seconds:8.0f} us CPU per "
                    "document",
                    flush=True,
                )


if __name__ == "__main__":
    main()

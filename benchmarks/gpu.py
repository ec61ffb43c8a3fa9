"""vijax on one GPU: E-steps beside the limit from bytes, steps of nine rows, and peers. Wall time.

    python benchmarks/gpu.py limits esteps steps fits peers [--most 65536]

Documents are synthetic (`vijax.data.synthetic.lda_corpus`: 8,000 words, 100 tokens a document);
they lie on the device before the clock starts, but in `fits`, which is `vijax.fit` from arrays on
the host. Every time is a median of several runs that wait for the device; compiling is not in it.
It was not run on a GPU yet: see `results_scale.md`."""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi
from vijax import data
from vijax.data import synthetic
from vijax.xla.chunks import split_chunks

VOCABULARY, LENGTH, ROUNDS = 8_000, 100.0, 20
BATCHES = (1_024, 4_096, 16_384, 65_536)


def timed(run: Callable[[], Any], repeats: int = 5) -> float:
    """Median seconds of a run, after a first that compiles."""
    jax.block_until_ready(run())
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(run())
        found.append(time.perf_counter() - began)
    return statistics.median(found)


# --- what the device can do -----------------------------------------------------------------------
def bandwidth() -> float:
    """Bytes a second, read and written, of a sum of two large arrays."""
    size = 2**28 if jax.default_backend() != "cpu" else 2**24
    x, add = jnp.ones(size), jax.jit(lambda x: x + 1.0)
    return 8 * size / timed(lambda: add(x))


def limits(a: argparse.Namespace) -> None:
    n = 8_192 if jax.default_backend() != "cpu" else 1_024
    x = jax.random.normal(jax.random.key(0), (n, n))
    product = jax.jit(functools.partial(jnp.matmul, precision="highest"))
    flops = 2 * n**3 / timed(lambda: product(x, x))
    print(f"device: {jax.devices()[0].device_kind}, jax {jax.__version__}")
    print(
        f"a sum moves {1e-12 * bandwidth():.2f} TB/s; a product of float32: {1e-12 * flops:.1f} "
        "TFLOP/s"
    )


# --- topics ---------------------------------------------------------------------------------------
@functools.cache
def documents(num_topics: int, most: int) -> data.Corpus:
    return synthetic.lda_corpus(
        most, num_topics, VOCABULARY, LENGTH, alpha=5 / num_topics, eta=0.02
    )[0]


def lda(num_topics: int) -> vi.Model:
    return vi.models.lda(num_topics, VOCABULARY, alpha=5 / num_topics, eta=0.02)


def batches(a: argparse.Namespace) -> Iterator[tuple[int, int, vi.Minibatch]]:
    """Numbers of topics and of documents, and a batch on the device."""
    for num_topics in a.topics:
        for size in (size for size in BATCHES if size <= a.most):
            stream = data.minibatches(documents(num_topics, a.most), size, 0)
            yield num_topics, size, jax.device_put(next(iter(stream)))


ESTEPS = {
    "mean field": vi.estep.mean_field(max_iters=ROUNDS, tol=1e-30),
    "CVB0": vi.estep.cvb0(max_iters=ROUNDS, tol=1e-30),
    "Gibbs": vi.estep.gibbs(num_sweeps=ROUNDS // 2, burn_in=ROUNDS // 2),
}


def esteps(a: argparse.Namespace) -> None:
    """Rounds of E-steps alone: the locals of a batch at fixed topics. The limit is of two reads of
    a row of K numbers for each pair of a document and a word in each round."""
    speed = bandwidth()
    table(
        "K",
        "documents",
        "E-step",
        "pairs x rounds a second",
        "documents a second",
        "share of the limit from bytes",
    )
    for num_topics, size, batch in batches(a):
        pairs = sum(int(np.count_nonzero(docs.counts)) for docs in batch.data)
        for name, estep in ESTEPS.items():
            with said_where_it_fails(f"{name}, {num_topics}, {size}"):
                seconds = of_estep(estep, num_topics, batch)
                rate = ROUNDS * pairs / seconds
                row(
                    num_topics,
                    size,
                    name,
                    f"{rate:.2e}",
                    f"{size / seconds:,.0f}",
                    f"{rate * 8 * num_topics / speed:.2f}",
                )


def of_estep(estep: Any, num_topics: int, batch: vi.Minibatch) -> float:
    alpha = jnp.full(num_topics, 5 / num_topics)

    @jax.jit
    def run(topics: Any, groups: Any, key: Any) -> Any:
        def locals_of(docs: vi.Documents) -> Any:
            return estep.mixed_membership(
                topics[docs.words], docs.counts, alpha, key, docs.max_tokens
            ).gamma

        cut = lambda docs: split_chunks(docs, estep.docs_per_chunk(docs.words.shape[1], num_topics))
        return [jax.lax.map(locals_of, cut(docs)) for docs in groups]

    topics = (
        jax.random.dirichlet(jax.random.key(1), jnp.full(VOCABULARY, 0.02), (num_topics,)).T + 1e-6
    )
    return timed(lambda: run(topics, batch.data, jax.random.key(0)))


ROWS: dict[str, Callable[[vi.Model], vi.Algorithm]] = {
    "`svi`, mean field": vi.svi,
    "`svi`, CVB0": functools.partial(vi.svi, estep=vi.estep.cvb0()),
    "`svi`, Gibbs": functools.partial(vi.svi, estep=vi.estep.gibbs()),
    "`ssvi`, Gibbs": functools.partial(vi.ssvi, estep=vi.estep.gibbs()),
    "`ssvi_a`, CVB0": functools.partial(vi.ssvi_a, estep=vi.estep.cvb0()),
    "`ssvi_a`, Gibbs": functools.partial(vi.ssvi_a, estep=vi.estep.gibbs()),
    "`sgrld`, Gibbs": functools.partial(vi.sgrld, estep=vi.estep.gibbs()),
    "`em`": vi.em,
    "`pg_svi`": vi.pg_svi,
}


def steps(a: argparse.Namespace) -> None:
    """Whole steps, the documents of one batch again and again, after 20 of them."""
    table("K", "documents", "row", "documents a second", "ms a step")
    for num_topics, size, batch in batches(a):
        for name, make in ROWS.items():
            with said_where_it_fails(f"{name}, {num_topics}, {size}"):
                seconds = of_steps(make(lda(num_topics)), batch)
                row(num_topics, size, name, f"{size / seconds:,.0f}", f"{1e3 * seconds:.2f}")


def of_steps(alg: vi.Algorithm, batch: vi.Minibatch, count: int = 5) -> float:
    step = jax.jit(lambda key, state, batch: alg.step(key, state, batch)[0], donate_argnums=1)
    kept = {"state": jax.jit(alg.init)(jax.random.key(0), batch)}

    def run(count: int = count) -> Any:
        for i in range(count):
            kept["state"] = step(jax.random.key(i), kept["state"], batch)
        return kept["state"].step

    run(20 - count)
    return timed(run) / count


def fits(a: argparse.Namespace) -> None:
    """`vijax.fit`, one pass, from the host, after a first pass that compiles."""
    table("K", "documents a step", "row", "documents a second")
    for num_topics in a.topics:
        corpus = documents(num_topics, a.most)
        for name in ("`svi`, mean field", "`ssvi_a`, CVB0"):
            fit = functools.partial(
                vi.fit, ROWS[name](lda(num_topics)), corpus, key=jax.random.key(0), num_epochs=1
            )
            for size in (size for size in BATCHES if 4 * size <= a.most):
                with said_where_it_fails(f"{name}, {num_topics}, {size}"):
                    seconds = timed(functools.partial(of_state, fit, size), 1)
                    row(num_topics, size, name, f"{corpus.num_documents / seconds:,.0f}")


def of_state(fit: Callable[..., vi.Fit], size: int) -> Any:
    return fit(batch_size=size).state


def table(*names: str) -> None:
    row(*names)
    row(*["---"] * len(names))


def row(*cells: Any) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


# --- peers ----------------------------------------------------------------------------------------
STEPS, LATENT, HIDDEN, PIXELS, COLUMNS = 1_000, 50, 400, 784, 100


def scanned(step: Callable[[Any], Any], state: Any) -> Callable[[], Any]:
    run = jax.jit(lambda s: jax.lax.scan(lambda s, _: (step(s), None), s, None, length=STEPS)[0])
    return lambda: run(state)


def by_vijax(alg: vi.Algorithm, x: Any) -> Callable[[], Any]:
    batch, key = vi.Minibatch(x, None), jax.random.key(0)
    return scanned(
        lambda s: alg.step(jax.random.fold_in(key, s.step), s, batch)[0],
        jax.jit(alg.init)(key, batch),
    )


def by_numpyro(model: Any, guide: Any, rate: float, *given: Any) -> Callable[[], Any]:
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.optim import Adam

    svi = SVI(model, guide, Adam(rate), Trace_ELBO())
    return scanned(lambda s: svi.update(s, *given)[0], svi.init(jax.random.key(0), *given))


def dense(weights: list[Any], x: Any) -> Any:
    (a, b), (c, d) = weights
    return jnp.tanh(x @ a + b) @ c + d


def layers(sizes: list[int]) -> list[Any]:
    keys = jax.random.split(jax.random.key(0), len(sizes) - 1)
    pairs = zip(keys, itertools.pairwise(sizes), strict=True)
    return [(jax.random.normal(key, (m, n)) / m**0.5, jnp.zeros(n)) for key, (m, n) in pairs]


def autoencoder_ours(rows: int) -> Callable[[], Any]:
    halves = lambda weights, x: tuple(jnp.split(dense(weights, x), 2, axis=-1))
    encoder, decoder = (
        (halves, layers([PIXELS, HIDDEN, 2 * LATENT])),
        (dense, layers([LATENT, HIDDEN, PIXELS])),
    )
    model = vi.models.vae(encoder, decoder, vi.models.observed.bernoulli(), latent_dim=LATENT)
    return by_vijax(vi.aevb(model, learning_rate=1e-3), pixels(rows))


def autoencoder_numpyro(rows: int) -> Callable[[], Any]:
    import numpyro
    from numpyro import distributions as dist

    def weights(name: str, sizes: list[int]) -> Any:
        return numpyro.param(name, layers(sizes))

    def model(x: Any) -> None:
        decoder = weights("decoder", [LATENT, HIDDEN, PIXELS])
        with numpyro.plate("rows", len(x)):
            z = numpyro.sample("z", dist.Normal(0, 1).expand([LATENT]).to_event(1))
            numpyro.sample("x", dist.Bernoulli(logits=dense(decoder, z)).to_event(1), obs=x)

    def guide(x: Any) -> None:
        mean, log_sd = jnp.split(
            dense(weights("encoder", [PIXELS, HIDDEN, 2 * LATENT]), x), 2, axis=-1
        )
        with numpyro.plate("rows", len(x)):
            numpyro.sample("z", dist.Normal(mean, jnp.exp(log_sd)).to_event(1))

    return by_numpyro(model, guide, 1e-3, pixels(rows))


def autoencoder_by_hand(rows: int) -> Callable[[], Any]:
    import optax

    x, adam, key = pixels(rows), optax.adam(1e-3), jax.random.key(0)
    start = layers([PIXELS, HIDDEN, 2 * LATENT]), layers([LATENT, HIDDEN, PIXELS])

    def loss(weights: Any, key: Any) -> Any:
        mean, log_sd = jnp.split(dense(weights[0], x), 2, axis=-1)
        z = mean + jnp.exp(log_sd) * jax.random.normal(key, mean.shape)
        logits = dense(weights[1], z)
        penalty = 0.5 * jnp.sum(mean**2 + jnp.exp(2 * log_sd) - 1 - 2 * log_sd, -1)
        return jnp.mean(penalty - jnp.sum(x * logits - jax.nn.softplus(logits), -1))

    def step(state: Any) -> Any:
        weights, memory, t = state
        change, memory = adam.update(
            jax.grad(loss)(weights, jax.random.fold_in(key, t)), memory, weights
        )
        return optax.apply_updates(weights, change), memory, t + 1

    return scanned(step, (start, adam.init(start), jnp.int32(0)))


def pixels(rows: int) -> Any:
    return jnp.asarray(np.random.default_rng(0).random((rows, PIXELS)) < 0.3, jnp.float32)


def design(rows: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, COLUMNS)).astype(np.float32)
    y = rng.random(rows) < 1 / (1 + np.exp(-x @ rng.normal(size=COLUMNS) / 5))
    return jnp.asarray(x), jnp.asarray(y, jnp.float32)


def regression(rows: int) -> tuple[Any, Any]:
    x, y = design(rows)
    norm = jax.scipy.stats.norm
    model = vi.density(
        {"w": vi.free(COLUMNS)},
        log_prior=lambda v: jnp.sum(norm.logpdf(v["w"])),
        log_lik=lambda v, row: row["y"] * (row["x"] @ v["w"]) - jax.nn.softplus(row["x"] @ v["w"]),
    )
    return model, {"x": x, "y": y}


def regression_ours(full: bool, rows: int) -> Callable[[], Any]:
    model, given = regression(rows)
    return by_vijax(vi.advi(model, guide=vi.guides.full_rank() if full else None), given)


def regression_numpyro(full: bool, rows: int) -> Callable[[], Any]:
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import autoguide

    x, y = design(rows)

    def model() -> None:
        w = numpyro.sample("w", dist.Normal(0, 1).expand([COLUMNS]).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=x @ w).to_event(1), obs=y)

    guide = (autoguide.AutoMultivariateNormal if full else autoguide.AutoNormal)(model)
    return by_numpyro(model, guide, 0.01)


def auto_ours(rows: int) -> Callable[[], Any]:
    model, given = regression(rows)
    return lambda: vi.auto(model, given, key=jax.random.key(0)).state


def process(side: str, rows: int) -> Callable[[], Any]:
    import peers_gp_size

    return {"ours": peers_gp_size.step_ours, "gpjax": peers_gp_size.step_gpjax}[side](rows, 200)[0]


PEERS: dict[str, tuple[dict[str, Callable[[int], Any]], int, tuple[int, ...]]] = {
    "autoencoder of 784-400-50, rows": (
        {
            "vijax `aevb`": autoencoder_ours,
            "NumPyro": autoencoder_numpyro,
            "by hand, optax": autoencoder_by_hand,
        },
        STEPS,
        (128, 4_096),
    ),
    "logistic regression of 100 columns, independent normals, rows": (
        {
            "vijax `advi`": functools.partial(regression_ours, False),
            "NumPyro": functools.partial(regression_numpyro, False),
        },
        STEPS,
        (1_000, 100_000),
    ),
    "the same, full covariance, rows": (
        {
            "vijax `advi`": functools.partial(regression_ours, True),
            "NumPyro": functools.partial(regression_numpyro, True),
        },
        STEPS,
        (1_000, 100_000),
    ),
    "the same, `vijax.auto` whole, rows": ({"vijax": auto_ours}, 1, (1_000, 100_000)),
    "Gaussian process, 200 inducing inputs, rows": (
        {
            "vijax `pg_svi`": functools.partial(process, "ours"),
            "GPJax, Adam": functools.partial(process, "gpjax"),
        },
        1,
        (20_000, 200_000),
    ),
}


def peers(a: argparse.Namespace) -> None:
    table("step", "side", "us a step")
    for name, (sides, count, sizes) in PEERS.items():
        for size in sizes:
            for side, make in sides.items():
                with said_where_it_fails(f"{name} {size}, {side}"):
                    row(f"{name}: {size:,}", side, f"{1e6 * timed(make(size)) / count:,.1f}")


@contextlib.contextmanager
def said_where_it_fails(name: str) -> Iterator[None]:
    """A row that fails is printed as such, and the others go on."""
    try:
        yield
    except Exception as error:  # of any peer
        last = str(error).strip().splitlines() or [repr(error)]
        print(f"FAILED {name}: {type(error).__name__}: {last[0][:200]}", flush=True)


SECTIONS: dict[str, Callable[[argparse.Namespace], None]] = {
    "limits": limits,
    "esteps": esteps,
    "steps": steps,
    "fits": fits,
    "peers": peers,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--most", type=int, default=65_536, help="documents of the largest batch")
    parser.add_argument("--topics", type=int, nargs="+", default=[100, 1_000])
    a = parser.parse_args()
    for name in a.sections:
        began = time.perf_counter()
        print(f"\n## {name}\n", flush=True)
        SECTIONS[name](a)
        print(f"({name}: {time.perf_counter() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()

"""vijax on one GPU in a quarter of an hour: what it does in a second, beside the limit from bytes and
operations. Wall time.

    python benchmarks/gpu.py --out OUT                     # all sections, in the order of their worth
    python benchmarks/gpu.py --out OUT fits steps --minutes 8
    JAX_PLATFORMS=cpu python benchmarks/gpu.py --out OUT --toy    # small sizes, to see that it runs

Each section is a process of its own that ends within four minutes: it begins no case for which less
than `SPARE_S` is left, and is ended where a case takes longer. Figures are written as they come, a
line of JSON each (OUT/figures.jsonl) and a row of a table (OUT/figures.md). Compiled programs stay in
OUT/cache: a second run begins with them. Documents are synthetic (`vijax.data.synthetic.lda_corpus`:
8,000 words, 100 tokens a document). Times are medians of runs that wait for the device; compiling
is not in them.

Limits are computed here: a step takes at least the bytes that it has to move at the speed that
`limits` measured, and its operations at the rate of a product of float32. Of topics they are counted
(`topic_bytes`), of other models taken from XLA's own count of a compiled step, which counts the body
of a loop once. Data that stay in a cache between steps may be faster than their limit.

It was run on a CPU at toy size only: no GPU was at hand."""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi
from vijax import data
from vijax.data import synthetic
from vijax.data.loader import CorpusLoader
from vijax.data.table_batches import table_batches
from vijax.scale import device_data
from vijax.topics.own_words import OwnWordsLoader

SECTION_S = 240
"""Seconds after which a section is ended."""
SPARE_S = 40
"""Seconds that must be left where a case begins: some compile for 15."""
LENGTH = 100.0
ROUNDS = 15.6
"""Rounds of mean field that a document takes on average (docs/scaling.md)."""
GIBBS_READINGS = 2.0 * 10 + 2.0 * 10
"""Times that ten sweeps, and ten rounds before them, read the likelihoods of a document's words."""
PASSES = 12
"""Times that an update has to read or write all K x V numbers, at the least."""


class Sizes:
    """Sizes of all sections: those of a GPU, or toys."""

    def __init__(self, is_toy: bool):
        self.vocabulary = 200 if is_toy else 8_000
        self.documents = 512 if is_toy else 131_072
        self.topics = (5,) if is_toy else (100, 1_000)
        self.batches = (64,) if is_toy else (16_384, 4_096, 1_024)
        self.wide_vocabulary = 2_000 if is_toy else 100_000
        self.wide_topics = (5,) if is_toy else (1_000, 10_000)
        self.rows = 1_000 if is_toy else 1_000_000
        self.inducing = 20 if is_toy else 500
        self.peer_steps = 5 if is_toy else 1_000
        self.auto_steps = 50 if is_toy else 10_000
        self.product = 256 if is_toy else 8_192
        self.sum = 2**20 if is_toy else 2**28


class Run:
    """A section that runs: its sizes, its time, and where its figures go."""

    def __init__(self, section: str, out: Path, is_toy: bool, seconds: float):
        self.section = section
        self.out = out
        self.sizes = Sizes(is_toy)
        self.end = time.monotonic() + seconds
        self.spare_s = 0.0 if is_toy else SPARE_S

    def write(self, case: str, **figures: Any) -> None:
        """A line of figures, at once."""
        line = {"section": self.section, "case": case} | figures
        with (self.out / "figures.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        text = ", ".join(f"{name.replace('_', ' ')} {_shown(x)}" for name, x in figures.items())
        with (self.out / "figures.md").open("a") as file:
            file.write(f"| {self.section} | {case} | {text} |\n")
        print(f"{self.section}: {case}: {text}", flush=True)

    def case(self, name: str, measure: Callable[[], dict[str, Any]]) -> None:
        """Measures, if there is time; a case that fails is written as such, and the others go on."""
        if time.monotonic() > self.end - self.spare_s:
            self.write(name, left_out="no time was left")
            return
        begin = time.monotonic()
        try:
            figures = measure()
        except Exception as error:  # of any peer
            last = str(error).strip().splitlines() or [repr(error)]
            self.write(name, failed=f"{type(error).__name__}: {last[0][:200]}")
            return
        self.write(name, **figures, with_compiling_s=round(time.monotonic() - begin, 1))


def _shown(x: Any) -> str:
    if isinstance(x, float):
        return f"{x:,.4g}"
    if isinstance(x, int):
        return f"{x:,}"
    return str(x)


def timed(run: Callable[[], Any], repeats: int = 5) -> float:
    """Median seconds of a run, after a first that compiles."""
    jax.block_until_ready(run())
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(run())
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


# --- what the device can do -----------------------------------------------------------------------
def limits(run: Run) -> None:
    size, n = run.sizes.sum, run.sizes.product
    x, add = jnp.ones(size), jax.jit(lambda x: x + 1.0)
    square = jax.random.normal(jax.random.key(0), (n, n))
    product = jax.jit(functools.partial(jnp.matmul, precision="highest"))
    stats = jax.devices()[0].memory_stats() or {}
    run.write(
        "device",
        kind=jax.devices()[0].device_kind,
        jax=jax.__version__,
        memory_bytes=int(stats.get("bytes_limit", 0)),
    )
    speed = 8 * size / timed(lambda: add(x))
    rate = 2 * n**3 / timed(lambda: product(square, square))
    (run.out / "speed.json").write_text(json.dumps([speed, rate]))
    run.write("speed", bytes_a_s=speed, operations_a_s=rate)


def limit_s(run: Run, num_bytes: float, operations: float = 0.0) -> float:
    """Seconds below which nothing with so many bytes and operations can be."""
    speed, rate = json.loads((run.out / "speed.json").read_text())
    return max(num_bytes / speed, operations / rate)


def compiled_figures(run: Run, step: Any, *given: Any) -> dict[str, Any]:
    """Memory and limit of a compiled step, by XLA."""
    program = step.lower(*given).compile()
    memory = program.memory_analysis()
    cost = program.cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost or {}
    figures: dict[str, Any] = {}
    if memory is not None:
        figures["temporary_bytes"] = int(memory.temp_size_in_bytes)
        figures["argument_bytes"] = int(memory.argument_size_in_bytes)
    if "bytes accessed" in cost:
        least = limit_s(run, cost["bytes accessed"], cost.get("flops", 0.0))
        figures["limit_by_xla_ms"] = 1e3 * least
    return figures


# --- topics ---------------------------------------------------------------------------------------
@functools.cache
def documents(num_topics: int, number: int, vocabulary: int) -> data.Corpus:
    return synthetic.lda_corpus(
        number, num_topics, vocabulary, LENGTH, alpha=5 / num_topics, eta=0.02
    )[0]


def lda(num_topics: int, vocabulary: int) -> vi.Model:
    return vi.models.lda(num_topics, vocabulary, alpha=5 / num_topics, eta=0.02)


AT_ONCE = vi.estep.gibbs(tokens="at_once")
ROWS: dict[str, Callable[[vi.Model], vi.Algorithm]] = {
    "svi, mean field": vi.svi,
    "ssvi_a, CVB0": functools.partial(vi.ssvi_a, estep=vi.estep.cvb0()),
    "svi, Gibbs": functools.partial(vi.svi, estep=AT_ONCE),
    "ssvi_a, Gibbs": functools.partial(vi.ssvi_a, estep=AT_ONCE),
    "ssvi, Gibbs": functools.partial(vi.ssvi, estep=AT_ONCE),
    "svi, Gibbs in turn": functools.partial(vi.svi, estep=vi.estep.gibbs(tokens="in_turn")),
    "em": vi.em,
}


def topic_bytes(
    batch: Any, num_topics: int, vocabulary: int, readings: float = 2 * ROUNDS
) -> float:
    """Bytes that a step has to move: K numbers of each pair of a document and a word at each reading
    (twice in each round of mean field), and all topics in the update."""
    groups = batch.data
    pairs = sum(int(np.count_nonzero(np.asarray(docs.counts))) for docs in groups)
    return 4.0 * num_topics * (readings * pairs + PASSES * vocabulary)


def of_steps(run: Run, alg: vi.Algorithm, batch: Any, size: int, least: float) -> dict[str, Any]:
    """Steps on one batch again and again, after 20 of them; it lies on the device."""
    batch = jax.device_put(batch)
    step = jax.jit(lambda key, state, batch: alg.step(key, state, batch)[0], donate_argnums=1)
    kept = {"state": jax.jit(alg.init)(jax.random.key(0), batch)}

    def steps(count: int = 5) -> Any:
        for i in range(count):
            kept["state"] = step(jax.random.key(i), kept["state"], batch)
        return kept["state"].step

    steps(15)
    seconds = timed(steps) / 5
    figures = compiled_figures(run, step, jax.random.key(0), kept["state"], batch)
    figures.pop("limit_by_xla_ms", None)  # loops are counted once
    return {
        "documents_a_s": size / seconds,
        "ms": 1e3 * seconds,
        "limit_ms": 1e3 * least,
        "share_of_limit": least / seconds,
    } | figures


def measure_steps(
    run: Run, names: tuple[str, ...], batches: tuple[int, ...], readings: float = 2 * ROUNDS
) -> None:
    sizes = run.sizes
    for num_topics, size, name in itertools.product(sizes.topics, batches, names):

        def measure(num_topics: int = num_topics, size: int = size, name: str = name) -> Any:
            corpus = documents(num_topics, max(sizes.batches), sizes.vocabulary)
            batch = next(iter(data.minibatches(corpus, size, 0)))
            least = limit_s(run, topic_bytes(batch, num_topics, sizes.vocabulary, readings))
            return of_steps(run, ROWS[name](lda(num_topics, sizes.vocabulary)), batch, size, least)

        run.case(f"{name}, K={num_topics}, {size} documents a step", measure)


def steps(run: Run) -> None:
    """Whole steps, with memory."""
    measure_steps(run, ("svi, mean field", "ssvi_a, CVB0"), run.sizes.batches)
    measure_steps(run, ("em",), run.sizes.batches[:1])


def draws(run: Run) -> None:
    """E-steps that draw, all tokens of a document at once; and one row in turn, as CPUs draw."""
    names = "svi, Gibbs", "ssvi_a, Gibbs", "ssvi, Gibbs"
    measure_steps(run, names, run.sizes.batches[-1:], GIBBS_READINGS)
    measure_steps(run, ("svi, Gibbs in turn",), run.sizes.batches[-1:], GIBBS_READINGS)


def fits(run: Run) -> None:
    """`vijax.fit`, two passes after one that compiles, with the data on the device and on the host;
    and what the host alone deals."""
    sizes = run.sizes
    for num_topics, size in itertools.product(sizes.topics, sizes.batches):
        corpus = documents(num_topics, sizes.documents, sizes.vocabulary)
        for name, share in itertools.product(("svi, mean field", "ssvi_a, CVB0"), ("0.5", "0")):

            def measure(
                corpus: Any = corpus,
                size: int = size,
                name: str = name,
                share: str = share,
                num_topics: int = num_topics,
            ) -> Any:
                return of_fit(
                    run, ROWS[name](lda(num_topics, sizes.vocabulary)), corpus, size, share
                )

            place = {"0.5": "data on the device", "0": "from the host"}[share]
            run.case(f"{name}, K={num_topics}, {size} documents a step, {place}", measure)
    corpus = documents(sizes.topics[0], sizes.documents, sizes.vocabulary)
    for size in sizes.batches:
        run.case(
            f"loader alone, {size} documents a step", functools.partial(of_loader, corpus, size)
        )


def of_fit(
    run: Run, alg: vi.Algorithm, corpus: data.Corpus, size: int, share: str
) -> dict[str, Any]:
    os.environ[device_data.SWITCH] = share
    key = jax.random.key(0)
    begin = vi.fit(alg, corpus, key=key, num_epochs=1, batch_size=size)
    before = time.perf_counter()
    whole = vi.fit(alg, corpus, key=key, num_epochs=3, batch_size=size, state=begin.state)
    jax.block_until_ready(whole.state.step)
    seconds = time.perf_counter() - before
    stats = jax.devices()[0].memory_stats() or {}
    return {
        "documents_a_s": 2 * corpus.num_documents / seconds,
        "place": whole.data_place or "host",
        "peak_bytes_so_far": int(stats.get("peak_bytes_in_use", 0)),
    }


def of_loader(corpus: data.Corpus, size: int) -> dict[str, Any]:
    """Documents a second of the host's thread."""
    loader = CorpusLoader(corpus, size, 0)
    count = loader.steps_per_epoch
    source = table_batches(loader)
    assert source is not None
    ways = {
        "batches": lambda: list(map(_touch, loader.batches(0, count))),
        "by_words": lambda: list(
            map(_touch, OwnWordsLoader(loader, corpus.vocab_size).batches(0, count))
        ),
        "places": lambda: list(map(_touch, source.picks(0, count))),
    }
    return {f"{name}_a_s": corpus.num_documents / timed(way, 3) for name, way in ways.items()}


def _touch(batch: Any) -> int:
    return len(jax.tree.leaves(batch))


def words(run: Run) -> None:
    """Steps by words, of a wide vocabulary, beside steps on all words; documents lie on the device."""
    sizes = run.sizes
    vocabulary, size = sizes.wide_vocabulary, sizes.batches[-1]
    for num_topics, name in itertools.product(
        sizes.wide_topics, ("svi, mean field", "ssvi_a, CVB0")
    ):
        for is_own in (True, False):

            def measure(
                num_topics: int = num_topics, name: str = name, is_own: bool = is_own
            ) -> Any:
                corpus = documents(sizes.topics[0], 4 * size, vocabulary)
                loader: Any = CorpusLoader(corpus, size, 0)
                alg = ROWS[name](lda(num_topics, vocabulary))
                (batch,) = loader.batches(0, 1)
                num_rows = vocabulary
                if is_own:
                    alg = vi.topics.by_words(alg)
                    (batch,) = OwnWordsLoader(loader, vocabulary).batches(0, 1)
                    num_rows = len(batch.data.words)
                    batch = jax.device_put(batch)
                counted = batch._replace(data=tuple(batch.data))
                least = limit_s(run, topic_bytes(counted, num_topics, num_rows))
                return of_steps(run, alg, batch, size, least)

            kind = "by words" if is_own else "all words"
            run.case(f"{name}, {kind}, K={num_topics}, V={vocabulary}", measure)


# --- other models ---------------------------------------------------------------------------------
def of_model(run: Run, alg: vi.Algorithm, x: Any) -> dict[str, Any]:
    """Steps on all data, one after the other, in one program."""
    batch, key = vi.Minibatch(jax.device_put(x), None), jax.random.key(0)
    state = jax.jit(alg.init)(key, batch)
    step = jax.jit(
        lambda state, batch: alg.step(jax.random.fold_in(key, state.step), state, batch)[0]
    )
    figures = compiled_figures(run, step, state, batch)
    count = 20
    several = jax.jit(
        lambda s, batch: jax.lax.fori_loop(
            0, count, lambda _, s: alg.step(jax.random.fold_in(key, s.step), s, batch)[0], s
        )
    )
    seconds = timed(lambda: several(state, batch)) / count
    rows = np.shape(jax.tree.leaves(x)[0])[0]
    return {"us_a_step": 1e6 * seconds, "groups_a_s": rows / seconds} | figures


def models(run: Run) -> None:
    rng, n = np.random.default_rng(0), run.sizes.rows
    m = max(100, n // 100)
    x = rng.normal(size=(n, 16)).astype(np.float32) + 4 * rng.integers(0, 4, (n, 1))
    sequences = rng.normal(size=(m, 100, 8)).astype(np.float32), np.ones((m, 100), bool)
    inputs = rng.normal(size=m).astype(np.float32)
    labels = np.where(np.sin(3 * inputs) > 0, 1.0, -1.0).astype(np.float32)
    emission = vi.models.emission

    def rbf(a: Any, b: Any) -> Any:
        return jnp.exp(-0.5 * (a[:, None] - b[None, :]) ** 2)

    def process() -> Any:
        likelihood = vi.likelihood.bernoulli_logit()
        chosen = inputs[: run.sizes.inducing]
        model = vi.models.gp(inputs, labels, rbf, likelihood, jitter=1e-2, inducing=chosen)
        return of_model(run, vi.pg_svi(model), model.data)

    mixture = vi.models.mixture(emission.diagonal_gaussian(10, dim=16))
    full = vi.models.mixture(emission.full_gaussian(10, dim=16))
    chain = vi.models.hmm(emission.diagonal_gaussian(10, dim=8))
    run.case(f"mixture of 10, {n} rows of 16, cavi", lambda: of_model(run, vi.cavi(mixture), x))
    run.case("the same, full covariances", lambda: of_model(run, vi.cavi(full), x))
    run.case(f"hmm of 10, {m} sequences of 100", lambda: of_model(run, vi.svi(chain), sequences))
    run.case(f"pg_svi, {m} rows, {run.sizes.inducing} inducing inputs", process)


def topics(run: Run) -> None:
    """Tables as large as one device holds: the step by words, and its memory."""
    sizes = run.sizes
    size, vocabulary = sizes.batches[-1], sizes.wide_vocabulary
    for num_topics in (*sizes.wide_topics, 2 * sizes.wide_topics[-1]):

        def measure(num_topics: int = num_topics) -> Any:
            corpus = documents(sizes.topics[0], 4 * size, vocabulary)
            loader: Any = OwnWordsLoader(CorpusLoader(corpus, size, 0), vocabulary)
            (batch,) = loader.batches(0, 1)
            counted = batch._replace(data=tuple(batch.data))
            least = limit_s(run, topic_bytes(counted, num_topics, len(batch.data.words)))
            alg = vi.topics.by_words(vi.svi(lda(num_topics, vocabulary)))
            return of_steps(run, alg, batch, size, least)

        run.case(f"svi by words, K={num_topics}, V={vocabulary}", measure)


# --- peers ----------------------------------------------------------------------------------------
LATENT, HIDDEN, PIXELS, COLUMNS = 50, 400, 784, 100
STEPS = 1_000


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


def autoencoder_flax(rows: int) -> Callable[[], Any]:
    """The same step as `autoencoder_by_hand`, its networks in flax.linen."""
    import optax
    from flax import linen

    class Network(linen.Module):
        sizes: tuple[int, int]

        @linen.compact
        def __call__(self, x: Any) -> Any:
            return linen.Dense(self.sizes[1])(jnp.tanh(linen.Dense(self.sizes[0])(x)))

    x, adam, key = pixels(rows), optax.adam(1e-3), jax.random.key(0)
    encoder, decoder = Network((HIDDEN, 2 * LATENT)), Network((HIDDEN, PIXELS))
    start = encoder.init(key, x), decoder.init(key, jnp.zeros((rows, LATENT)))

    def loss(weights: Any, key: Any) -> Any:
        mean, log_sd = jnp.split(encoder.apply(weights[0], x), 2, axis=-1)
        z = mean + jnp.exp(log_sd) * jax.random.normal(key, mean.shape)
        logits = decoder.apply(weights[1], z)
        penalty = 0.5 * jnp.sum(mean**2 + jnp.exp(2 * log_sd) - 1 - 2 * log_sd, -1)
        return jnp.mean(penalty - jnp.sum(x * logits - jax.nn.softplus(logits), -1))

    def step(state: Any) -> Any:
        weights, memory, t = state
        gradient = jax.grad(loss)(weights, jax.random.fold_in(key, t))
        change, memory = adam.update(gradient, memory, weights)
        return optax.apply_updates(weights, change), memory, t + 1

    return scanned(step, (start, adam.init(start), jnp.int32(0)))


class Work(NamedTuple):
    """What a step has to do at the least."""

    num_bytes: float
    operations: float


ADAM_PASSES = 7
"""Readings and writings of all weights by Adam: a gradient, two averages and the weights, which are
read, and all but the gradient written."""


def autoencoder_work(rows: int) -> Work:
    """Products forwards and twice backwards; pixels once, and weights as Adam reads them."""
    weights = HIDDEN * (PIXELS + 2 * LATENT) + HIDDEN * (LATENT + PIXELS)
    return Work(4.0 * (rows * PIXELS + ADAM_PASSES * weights), 6.0 * rows * weights)


def regression_work(rows: int) -> Work:
    """The columns are read forwards and backwards."""
    return Work(8.0 * rows * COLUMNS, 4.0 * rows * COLUMNS)


PEERS: dict[str, tuple[dict[str, Callable[[int], Any]], Callable[[int], Work], tuple[int, int]]] = {
    "autoencoder of 784-400-50": (
        {
            "vijax aevb": autoencoder_ours,
            "NumPyro": autoencoder_numpyro,
            "flax and optax": autoencoder_flax,
            "by hand, optax": autoencoder_by_hand,
        },
        autoencoder_work,
        (4_096, 128),
    ),
    "logistic regression of 100 columns, independent normals": (
        {
            "vijax advi": functools.partial(regression_ours, False),
            "NumPyro": functools.partial(regression_numpyro, False),
        },
        regression_work,
        (100_000, 1_000),
    ),
    "the same, full covariance": (
        {
            "vijax advi": functools.partial(regression_ours, True),
            "NumPyro": functools.partial(regression_numpyro, True),
        },
        regression_work,
        (100_000, 1_000),
    ),
}


def peers(run: Run) -> None:
    """A thousand steps in one program, on one batch."""
    global STEPS
    STEPS = run.sizes.peer_steps
    for i, (name, (sides, work, sizes)) in itertools.product(range(2), PEERS.items()):
        rows = min(sizes[i], run.sizes.rows)
        for side, make in sides.items():

            def measure(make: Any = make, rows: int = rows, work: Any = work) -> Any:
                seconds = timed(make(rows), 3) / STEPS
                least = limit_s(run, *work(rows))
                share = least / seconds
                return {
                    "us_a_step": 1e6 * seconds,
                    "limit_us": 1e6 * least,
                    "share_of_limit": share,
                }

            run.case(f"{name}, {rows} rows, {side}", measure)


def auto(run: Run) -> None:
    """Whole fits of a logistic regression of 100 columns with full covariance: `vijax.auto` with its
    judgement, and NumPyro's guide by as many steps as it is usually given. The limit of `auto` is
    one evaluation of the density at each of the draws by which q was judged; that of NumPyro's is
    all its steps."""
    global STEPS
    STEPS = run.sizes.auto_steps
    for rows in (1_000, 100_000):
        rows = min(rows, run.sizes.rows)
        run.case(f"vijax.auto, {rows} rows", functools.partial(of_auto, run, rows))

        def measure(rows: int = rows) -> Any:
            seconds = timed(regression_numpyro(True, rows), 1)
            return {"s": seconds, "limit_s": STEPS * limit_s(run, *regression_work(rows))}

        run.case(f"NumPyro, {STEPS} steps, {rows} rows", measure)


def of_auto(run: Run, rows: int) -> dict[str, Any]:
    """Seconds of the first fit, of a second one, and what the verdict says."""
    model, given = regression(rows)
    seconds = []
    for seed in (0, 1):
        begin = time.perf_counter()
        fit = vi.auto(model, given, key=jax.random.key(seed))
        jax.block_until_ready(fit.state)
        seconds.append(time.perf_counter() - begin)
    judged = re.search(r"importance weights of ([\d,]+) draws", str(fit.verdict))
    num_draws = int(judged[1].replace(",", "")) if judged else 0
    least = limit_s(run, 4.0 * rows * COLUMNS, 2.0 * num_draws * rows * COLUMNS)
    return {
        "first_s": seconds[0],
        "s": seconds[1],
        "limit_s": least,
        "khat": float(fit.khat),
        "draws": num_draws,
    }


# --- sections -------------------------------------------------------------------------------------
SECTIONS: dict[str, Callable[[Run], None]] = {
    "limits": limits,
    "fits": fits,
    "steps": steps,
    "words": words,
    "draws": draws,
    "models": models,
    "peers": peers,
    "auto": auto,
    "topics": topics,
}


def run_section(a: argparse.Namespace) -> None:
    """The one section of this process."""
    jax.config.update("jax_compilation_cache_dir", str((a.out / "cache").resolve()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    (name,) = a.sections
    run = Run(name, a.out, a.toy, a.minutes * 60)
    SECTIONS[name](run)
    stats = jax.devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" in stats:
        run.write("whole section", peak_bytes=int(stats["peak_bytes_in_use"]))


def run_sections(a: argparse.Namespace) -> None:
    """Each section in a process of its own, until the time is over."""
    end = time.monotonic() + 60 * a.minutes
    for name in a.sections:
        left = min(SECTION_S, end - time.monotonic())
        if left < SPARE_S:
            print(f"{name}: not begun: no time was left", flush=True)
            continue
        more = ["--toy"] if a.toy else []
        command = [
            sys.executable,
            __file__,
            name,
            "--out",
            a.out,
            "--minutes",
            left / 60,
            "--alone",
        ]
        begin = time.monotonic()
        try:
            end_code = subprocess.run(
                [*map(str, command), *more], timeout=left, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            end_code = "ended after its time"
        print(f"({name}: {time.monotonic() - begin:.0f} s, exit {end_code})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)}; none: all")
    parser.add_argument("--out", type=Path, required=True, help="folder of figures and programs")
    parser.add_argument("--minutes", type=float, default=14.0, help="for all sections")
    parser.add_argument("--toy", action="store_true", help="small sizes")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    a = parser.parse_args()
    unknown = set(a.sections) - SECTIONS.keys()
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}: {', '.join(SECTIONS)}")
    a.sections = a.sections or list(SECTIONS)
    a.out.mkdir(parents=True, exist_ok=True)
    if a.alone:
        run_section(a)
    else:
        run_sections(a)


if __name__ == "__main__":
    main()

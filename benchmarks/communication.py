"""What devices tell each other at a step, read from compiled programs, and a model of its cost up
to 1,000 devices.

    python benchmarks/communication.py

Eight devices of one CPU stand for any eight: collectives and bytes are a matter of the program.
Nothing is run."""

import collections
import itertools
import math
import os
import re
from typing import NamedTuple

DEVICES = 8
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import vijax as vi  # noqa: E402
from vijax.scale.place import choose_placement  # noqa: E402

KINDS = "all-reduce", "all-gather", "reduce-scatter", "collective-permute", "all-to-all"
BYTES = {"f64": 8, "f32": 4, "s64": 8, "s32": 4, "u32": 4, "pred": 1, "bf16": 2}
GROUPS, WORDS_A_DOCUMENT = 256, 128


# --- what is told ---------------------------------------------------------------------------------
def collectives(program: str) -> list[tuple[str, int]]:
    """Kind and bytes of each collective of a compiled program."""
    found = []
    for line in program.splitlines():
        said = re.match(rf"\s*(?:ROOT )?\S+ = (.*?) ({'|'.join(KINDS)})(?:-start)?\(", line)
        if said:
            arrays = re.findall(rf"({'|'.join(BYTES)})\[([\d,]*)\]", said[1])
            found.append(
                (
                    said[2],
                    sum(
                        BYTES[d] * math.prod(int(n) for n in shape.split(",") if n)
                        for d, shape in arrays
                    ),
                )
            )
    return found


def compiled(alg: vi.Algorithm, batch: vi.Minibatch, num_devices: int = DEVICES) -> object:
    """The compiled step of an algorithm on a mesh, of shapes alone."""
    mesh, key = vi.scale.mesh(num_devices), jax.random.key(0)
    if alg.spec.messages.num_parts is not None:  # whose messages vijax.fit splits
        state = alg.init(key, batch)
        where = choose_placement(mesh, state)
        alg, state = where.adapt_algorithm(alg, None), where.put_state(state)
        return jax.jit(alg.step, donate_argnums=1).lower(key, state, batch).compile()
    alg = vi.scale.on_mesh(alg, mesh)
    shapes = lambda tree: jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(np.shape(x), jnp.result_type(x)), tree
    )
    state = jax.eval_shape(lambda: alg.init(key, batch))
    axis, there = mesh.axis_names[0], jax.sharding.PartitionSpec
    whole, split = (jax.sharding.NamedSharding(mesh, there(*axes)) for axes in ((), (axis,)))
    data = vi.topics.OwnWords(whole, split) if isinstance(batch.data, vi.topics.OwnWords) else split
    states = jax.tree.map(lambda _: whole, state)
    states = states._replace(local=jax.tree.map(lambda _: split, state.local))
    prefix = vi.Minibatch(data, whole, split, split, whole, split)
    step = jax.jit(alg.step, in_shardings=(whole, states, prefix), donate_argnums=1)
    return step.lower(key, state, shapes(batch)).compile()


def documents(vocab_size: int) -> tuple:
    shape = GROUPS, WORDS_A_DOCUMENT
    words = np.random.default_rng(0).integers(0, vocab_size, shape).astype(np.int32)
    return (
        vi.Documents(
            words, np.ones(shape, np.float32), np.ones(GROUPS, np.float32), 2 * WORDS_A_DOCUMENT
        ),
    )


def of_documents(vocab_size: int) -> vi.Minibatch:
    rows = (np.arange(GROUPS, dtype=np.int32),)
    return vi.Minibatch(documents(vocab_size), np.float32(1e6), rows=rows)


def by_words(vocab_size: int) -> vi.Minibatch:
    return vi.topics.renumbered(of_documents(vocab_size), vocab_size)


def vae() -> vi.Model:
    def network(sizes, last):
        weights = [0.1 * jnp.ones((m, n)) for m, n in itertools.pairwise(sizes)]

        def apply(weights, x):
            for w in weights[:-1]:
                x = jnp.tanh(x @ w)
            return last(x @ weights[-1])

        return apply, weights

    halves = lambda x: (x[:20], x[20:])
    encoder, decoder = network((784, 400, 40), halves), network((20, 400, 784), lambda x: x)
    return vi.models.vae(encoder, decoder, vi.models.observed.bernoulli(), latent_dim=20)


def lda(num_topics: int, vocab_size: int) -> vi.Model:
    return vi.models.lda(num_topics, vocab_size)


def cases() -> dict:
    rng = np.random.default_rng(0)
    rows = lambda *shape: vi.Minibatch(
        rng.normal(size=(GROUPS, *shape)).astype(np.float32), np.float32(1e6)
    )
    mixture = vi.models.mixture(vi.models.emission.full_gaussian(30, dim=64))
    hmm = vi.models.hmm(vi.models.emission.diagonal_gaussian(10, dim=20))
    sequences = vi.Minibatch((rows(50, 20).data, np.ones((GROUPS, 50), bool)), np.float32(1e6))
    groups = vi.models.hierarchical_linear_regression(10)
    of_groups = vi.Minibatch(
        (rows(20, 10).data, rows(20).data, np.ones((GROUPS, 20), bool)), np.float32(1e6)
    )
    x = np.linspace(0.1, 1, 4096, dtype=np.float32)
    gp = vi.models.gp(
        x, np.sign(np.sin(9 * x)), "rbf", vi.likelihood.bernoulli_logit(), inducing=x[::64]
    )
    sites = vi.Minibatch(jax.tree.map(lambda x: np.asarray(x)[:GROUPS], gp.data), np.float32(4096))
    norm = jax.scipy.stats.norm
    prior = lambda v: norm.logpdf(v["w"]).sum()
    density = vi.density(
        {"w": vi.free(100)}, log_prior=prior, log_lik=lambda v, y: jax.nn.log_sigmoid(v["w"] @ y)
    )
    part = of_documents(8_000)._replace(part=np.int32(0))
    return {
        "`svi` of `lda`, K = 100, V = 8,000": (vi.svi(lda(100, 8_000)), of_documents(8_000)),
        "the same, by words": (vi.topics.by_words(vi.svi(lda(100, 8_000))), by_words(8_000)),
        "`svi` of `lda`, K = 2,000, V = 100,000": (
            vi.svi(lda(2_000, 100_000)),
            of_documents(100_000),
        ),
        "the same, by words ": (vi.topics.by_words(vi.svi(lda(2_000, 100_000))), by_words(100_000)),
        "`memoized` of `lda`, K = 100, V = 8,000": (
            vi.memoized(lda(100, 8_000), num_parts=4),
            part,
        ),
        "`svi` of a mixture, 30 full Gaussians in 64 columns": (vi.svi(mixture), rows(64)),
        "`svi` of an HMM, 10 states, 20 columns": (vi.svi(hmm), sequences),
        "`svi` of a hierarchical regression, 10 columns": (vi.svi(groups), of_groups),
        "`pg_svi` with memory, 4,096 sites, 64 inducing inputs": (
            vi.pg_svi(gp, memory=True),
            sites,
        ),
        "`advi` of a density of 100 variables": (vi.advi(density), rows(100)),
        "`ngvi` of the same": (vi.ngvi(density), rows(100)),
        "`aevb` of an autoencoder of 784-400-20": (vi.aevb(vae()), rows(784)),
    }


def told() -> None:
    print(
        "| step | all-reduces | of more than 1 kB | bytes | other collectives "
        "|\n|---|---|---|---|---|"
    )
    for name, (alg, batch) in cases().items():
        found = collectives(compiled(alg, batch).as_text())
        sums = [size for kind, size in found if kind == "all-reduce"]
        others = collections.Counter(kind for kind, _ in found if kind != "all-reduce")
        other_bytes = sum(size for kind, size in found if kind != "all-reduce")
        more = ", ".join(f"{n} {kind}" for kind, n in others.items()) + (
            f" of {other_bytes:,}" if others else "none"
        )
        large = sum(size > 1024 for size in sums)
        print(f"| {name} | {len(sums)} | {large} | {sum(sums):,} | {more} |", flush=True)


# --- what it costs --------------------------------------------------------------------------------
class Link(NamedTuple):
    """Bytes a second each way, and seconds of a message, of devices in one node and of the nodes
    among each other.

    Attributes:
      name: in words.
      node: devices in a node.
      inside: bytes a second between devices of a node.
      between: bytes a second of a whole node.
      latency: seconds of a message inside a node, and between nodes.
    """

    name: str
    node: int
    inside: float
    between: float
    latency: tuple[float, float]

    def seconds(self, size: float, devices: int) -> float:
        """An all-reduce: rings inside the nodes and among them, and a tree for the latency."""
        inside, nodes = min(devices, self.node), max(1, math.ceil(devices / self.node))
        ring = lambda n, speed: 2 * (n - 1) / n * size / speed
        waits = 2 * math.log2(inside) * self.latency[0] + 2 * math.log2(nodes) * self.latency[1]
        return ring(inside, self.inside) + ring(nodes, self.between) + waits


LINKS = (
    Link("NVLink, 450 GB/s", 1024, 450e9, 450e9, (5e-6, 5e-6)),
    Link("nodes of 8 by NVLink, 100 Gbit/s a node", 8, 450e9, 12.5e9, (5e-6, 30e-6)),
)
MEMORY, ROUNDS, PASSES = 3e12, 20, 18
"""Bytes a second of the memory of an H100; rounds of mean field of a document; readings and
writings of all K x V numbers at a step. A document's round reads the rows of its words, and no
more: the least that it can take."""


def of_a_document(num_topics: int) -> float:
    """Seconds of its E-step, by the bytes it reads."""
    return ROUNDS * WORDS_A_DOCUMENT * num_topics * 4 / MEMORY


def modelled(num_topics: int, vocab_size: int) -> None:
    size, document = 4.0 * num_topics * vocab_size, of_a_document(num_topics)
    update = PASSES * size / MEMORY
    for link in LINKS:
        for devices in (2, 8, 64, 1000):
            sums = link.seconds(size, devices)
            even = (sums + update) / document
            cells = [f"{1e3 * sums:.2f}", f"{sums / document:,.0f}", f"{even:,.0f}"]
            for batch in (8_192, 65_536, 1_048_576):
                one = batch * document + update
                many = batch / devices * document + update + sums
                cells.append(f"{one / many:.1f}")
            print(
                f"| {num_topics:,} x {vocab_size:,} | {link.name} | {devices:,} | "
                f"{' | '.join(cells)} |"
            )


def memory(num_topics: int, vocab_size: int, lazy: bool) -> float:
    """Bytes of one device for each of the K x V numbers, during a step."""
    batch, alg = of_documents(vocab_size), vi.svi(lda(num_topics, vocab_size))
    if lazy:
        batch, alg = by_words(vocab_size), vi.topics.by_words(alg)
    found = compiled(alg, batch).memory_analysis()
    used = found.temp_size_in_bytes + found.argument_size_in_bytes
    return (used + found.output_size_in_bytes - found.alias_size_in_bytes) / (
        num_topics * vocab_size
    )


if __name__ == "__main__":
    told()
    print(
        "\n| K x V | devices are joined by | devices | sum of messages, ms | documents a device "
        "that take as long | "
        "with the update | times as fast, 8,192 documents | 65,536 | 1,048,576 "
        "|\n|---|---|---|---|---|---|---|---|---|"
    )
    for shape in ((100, 8_000), (2_000, 100_000)):
        modelled(*shape)
    for lazy in (False, True):
        each = memory(2_000, 100_000, lazy)
        name = "by words" if lazy else "all words"
        print(f"\n{name}: {each:.1f} bytes a number, {80e9 / each:.2g} in 80 GB")

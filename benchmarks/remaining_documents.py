"""Mean field of a large chunk of documents without the compiled kernels, as on an accelerator: all
documents until the slowest is finished, and those that are left.

    VIJAX_NATIVE=0 python benchmarks/remaining_documents.py [documents] [topics]

Rounds of work are rounds of a document, also of one that waits for others. Times are seconds of the
clock, compilation excluded."""

import os
import sys
import time
from unittest import mock

os.environ["VIJAX_NATIVE"] = "0"

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi
from vijax.contract import estep as contract
from vijax.inference.estep.mixed_membership import ascend, cold

SLOTS = 32


def make_documents(num_docs: int, num_topics: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Likelihoods and counts of documents of few topics each, of log-normal lengths; and alpha."""
    rng = np.random.default_rng(0)
    likelihood = rng.gamma(0.1, size=(num_docs, SLOTS, num_topics)).astype(np.float32)
    likelihood = np.maximum(likelihood / likelihood.max(2, keepdims=True), 1e-30)
    lengths = rng.lognormal(2.7, 0.6, num_docs).clip(2, SLOTS).astype(int)
    counts = rng.geometric(0.6, (num_docs, SLOTS)) * (np.arange(SLOTS) < lengths[:, None])
    alpha = np.full(num_topics, 0.1, np.float32)
    return jnp.asarray(likelihood), jnp.asarray(counts, jnp.float32), jnp.asarray(alpha)


def count_rounds(likelihood: jax.Array, counts: jax.Array, alpha: jax.Array) -> np.ndarray:
    """The rounds of each document until it is finished."""
    improve = lambda carry, data: (ascend(carry[0], *data, alpha), carry[1] + 1)
    start = cold(counts, alpha), jnp.zeros(len(counts), jnp.int32)
    gamma_of = lambda carry: carry[0]
    data = likelihood, counts
    run = jax.jit(
        lambda: contract.iterate_by_document(improve, start, gamma_of, counts, 100, 1e-3, data)[1]
    )
    return np.asarray(run())


def work(rounds: np.ndarray, fewest: int) -> int:
    """Rounds of work of a chunk that shrinks from `fewest` documents on."""
    size, total = len(rounds), 0
    for i in range(int(rounds.max())):
        active = int((rounds > i).sum())
        while size >= fewest and active <= size // 2:
            size //= 2
        total += size
    return total


def seconds(fewest: int, *arrays: jax.Array) -> tuple[float, np.ndarray]:
    """The least of three times, and gamma."""
    with mock.patch.object(contract, "FEWEST", fewest):
        infer = jax.jit(
            lambda x, c, a: vi.estep.mean_field().mixed_membership(x, c, a, None, 64)[0]
        )
        gamma = infer(*arrays).block_until_ready()
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            infer(*arrays).block_until_ready()
            times.append(time.perf_counter() - begin)
        assert infer._cache_size() == 1
    return min(times), np.asarray(gamma)


def main() -> None:
    sizes = [int(x) for x in sys.argv[1:]] or [10_000, 50]
    arrays = make_documents(*sizes)
    rounds = count_rounds(*arrays)
    print(f"rounds of a document: mean {rounds.mean():.1f}, most {rounds.max()}")
    print("| chunk | documents a second | rounds of work |\n|---|---|---|")
    gammas = []
    for name, fewest in (("until the slowest", 1 << 30), ("those that are left", contract.FEWEST)):
        time_s, gamma = seconds(fewest, *arrays)
        gammas.append(gamma)
        print(f"| {name} | {sizes[0] / time_s:,.0f} | {work(rounds, fewest):,} |")
    print(f"largest difference of gamma: {np.abs(gammas[0] - gammas[1]).max():.1e}")


if __name__ == "__main__":
    main()

"""What XLA's threads are worth: fits with as many as it takes, and with one (`PJRT_NPROC=1`).

    python benchmarks/threads.py

Wall and CPU seconds of a second fit, in a process of its own each, on an otherwise idle machine
with few cores. The last row is no fit: two products and a Cholesky factor of a matrix of 1,500
rows, five times."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np


def clusters(rng: np.random.Generator, size: int, count: int, dim: int) -> np.ndarray:
    centres = rng.normal(0, 3, (count, dim))
    return (centres[rng.integers(count, size=size)] + rng.normal(size=(size, dim))).astype(
        np.float32
    )


def regression(rng, vi):
    import jax.numpy as jnp

    x = rng.normal(size=(1605, 124)).astype(np.float32)
    y = (rng.random(1605) < 1 / (1 + np.exp(-x[:, 0]))).astype(np.float32)

    def log_density(v, data):
        z = data["x"] @ v["w"]
        return jnp.sum(data["y"] * z - jnp.logaddexp(0, z)) - 0.5 * jnp.sum(v["w"] ** 2)

    return (
        vi.advi(vi.density({"w": vi.free(124)}, log_density)),
        {"x": x, "y": y},
        {"num_steps": 5000},
    )


def topics(rng, vi):
    corpus = vi.data.synthetic.lda_corpus(
        2000, num_topics=50, vocab_size=8000, document_length=150.0
    )[0]
    return vi.svi(vi.models.lda(100, 8000)), corpus, {"num_epochs": 4, "batch_size": 256}


def correlated_topics(rng, vi):
    corpus = vi.data.synthetic.lda_corpus(1000, num_topics=20, vocab_size=1000)[0]
    return vi.svi(vi.models.ctm(20, 1000)), corpus, {"num_epochs": 2, "batch_size": 256}


def mixture(rng, vi):
    model = vi.models.mixture(vi.models.emission.full_gaussian(30, 8))
    return vi.cavi(model), clusters(rng, 20_000, 30, 8), {"num_steps": 20}


def chains(rng, vi):
    model = vi.models.hmm(vi.models.emission.diagonal_gaussian(10, 2))
    return (
        vi.cavi(model),
        vi.models.pad([rng.normal(size=(200, 2)) for _ in range(50)]),
        {"num_steps": 30},
    )


def process(rng, vi):
    x = rng.normal(size=(600, 5))
    y = np.sign(x[:, 0] + 0.3 * rng.normal(size=600))
    model = vi.models.gp(
        x, y, "rbf", vi.likelihood.bernoulli_logit(), hyper={"scale": 1.0, "length": 1.0}
    )
    return vi.pg_svi(model), model.data, {"num_steps": 20}


FITS = {
    "logistic regression of 1,605 rows, `advi`, 5,000 steps": regression,
    "LDA, 2,000 documents, 100 topics, `svi`": topics,
    "correlated topics, 1,000 documents, 20 topics": correlated_topics,
    "mixture of 30 full covariances, 20,000 points, `cavi`": mixture,
    "hidden Markov model, 50 sequences of 200 steps": chains,
    "GP classification, 600 points, `pg_svi`": process,
}
ALGEBRA = "products and a Cholesky factor, 1,500 rows"


def seconds(name: str) -> tuple[float, float]:
    """Wall and CPU seconds of the second run, in this process."""
    import jax
    import jax.numpy as jnp

    import vijax as vi

    if name == ALGEBRA:
        a = jnp.asarray(np.random.default_rng(0).normal(size=(1500, 1500)).astype(np.float32))
        f = jax.jit(lambda a: jnp.linalg.cholesky(a @ a.T + 1500 * jnp.eye(1500)) @ a)
        run: Any = lambda: [jax.block_until_ready(f(a)) for _ in range(5)]
    else:
        alg, data, arguments = FITS[name](np.random.default_rng(0), vi)
        run = lambda: vi.fit(alg, data, key=jax.random.key(0), **arguments)
    run()
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - cpu


def measured(name: str, threads: dict[str, str]) -> str:
    environment = {
        k: v for k, v in os.environ.items() if k not in ("PJRT_NPROC", "NPROC")
    } | threads
    command = [sys.executable, __file__, "--inside", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    wall, cpu = map(float, done.stdout.split()[-2:])
    return f"{wall:.2f}, {cpu:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    inside = parser.parse_args().inside
    if inside:
        print(*seconds(inside))
        return
    print("| wall, CPU seconds | XLA's threads | one |\n|---|---|---|")
    for name in [*FITS, ALGEBRA]:
        print(
            f"| {name} | {measured(name, {})} | {measured(name, {'PJRT_NPROC': '1'})} |", flush=True
        )


if __name__ == "__main__":
    main()

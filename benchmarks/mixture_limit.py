"""The time of a step of a Gaussian mixture, beside the matrix products that it cannot do without,
and scikit-learn.

    export XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    OMP_NUM_THREADS=1 python benchmarks/mixture_limit.py [--rows 10000] [--dim 64] [--components 10] [--x64]

CPU milliseconds, medians of nine. "pass" is one pass over the rows with its gradient, in chunks, by
XLA alone: with whole matrices, with halves of the symmetric matrices (3/4 of the operations), and
with the products of pairs of columns written out once (half of them)."""

import argparse
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.mixture import GaussianMixture

import vijax as vi
from vijax.contract.batch import Minibatch
from vijax.models import emission, mixture

CHUNK = 500


def milliseconds(program, repeats=9):
    jax.block_until_ready(program())
    times = []
    for _ in range(repeats):
        begun = time.process_time()
        jax.block_until_ready(program())
        times.append(time.process_time() - begun)
    return f"{1e3 * float(np.median(times)):6.1f} ms"


def whole(parameters, y):
    precision, linear = parameters
    return linear @ y - 0.5 * (y @ precision) @ y


def halves(parameters, y):
    precision, linear = parameters
    half = len(y) // 2
    first, last = y[:half], y[half:]
    corner = precision[:, half:, :half] + precision[:, :half, half:].swapaxes(1, 2)
    squares = (first @ precision[:, :half, :half]) @ first + (last @ corner) @ first
    return linear @ y - 0.5 * (squares + (last @ precision[:, half:, half:]) @ last)


def pairs(parameters, y):
    precision, linear = parameters
    row, column = np.tril_indices(len(y))
    twice = precision + precision.swapaxes(1, 2)
    weights = twice[:, row, column] * np.where(row == column, 0.5, 1.0).astype(y.dtype)
    return linear @ y - 0.5 * weights @ (y[row] * y[column])


def one_pass(density):
    """Value and gradient of the log likelihood, summed over chunks of rows."""

    def total(parameters, rows):
        logs = jax.vmap(lambda y: density(parameters, y))(rows)
        return jnp.sum(jax.nn.logsumexp(logs, -1))

    def run(parameters, y):
        chunks = y[: len(y) // CHUNK * CHUNK].reshape(-1, CHUNK, y.shape[1])
        zeros = jax.tree.map(jnp.zeros_like, (jnp.zeros((), y.dtype), parameters))
        add = lambda sums, rows: (
            jax.tree.map(jnp.add, sums, jax.value_and_grad(total)(parameters, rows)),
            None,
        )
        return jax.lax.scan(add, zeros, chunks)[0]

    return jax.jit(run)


def main(given):
    jax.config.update("jax_enable_x64", given.x64)
    rng = np.random.default_rng(0)
    size, dim = given.components, given.dim
    shape = np.eye(dim) + 0.1 * rng.normal(size=(dim, dim))
    centres = 2 * rng.normal(size=(size, dim))
    y = centres[rng.integers(0, size, given.rows)] + rng.normal(size=(given.rows, dim)) @ shape
    rows = jnp.asarray(y, float)

    for name in ("em", "cavi"):
        alg = getattr(vi, name)(mixture(emission.placed(emission.full_gaussian, size, y)))
        batch = Minibatch(rows, None)
        state, step = jax.jit(alg.init)(jax.random.key(0), batch), jax.jit(alg.step)
        for _ in range(3):
            state, _ = step(jax.random.key(1), state, batch)
        run = lambda step=step, state=state: step(jax.random.key(1), state, batch)
        print(f"vijax, a step of {name:32}", milliseconds(run))

    factors = jnp.asarray(rng.normal(size=(dim, size * dim)), float)
    weighted = jnp.asarray(rng.normal(size=(size * dim, CHUNK)), float)
    parts = rows[: len(rows) // CHUNK * CHUNK].reshape(-1, CHUNK, dim)
    forth = jax.jit(lambda x, f: jax.lax.map(lambda part: jnp.sum(part @ f), x))
    back = jax.jit(lambda x, w: jnp.sum(jax.lax.map(lambda part: jnp.sum(w @ part), x)))
    print(
        "one product, rows by dim x components dim   ", milliseconds(lambda: forth(parts, factors))
    )
    print(
        "the product of the moments, its transpose   ", milliseconds(lambda: back(parts, weighted))
    )

    precision = jnp.asarray(np.stack([np.eye(dim)] * size), float)
    parameters = precision, jnp.asarray(centres, float)
    for density in (whole, halves, pairs):
        program = one_pass(density)
        run = lambda program=program: program(parameters, rows)
        print(f"pass, {density.__name__:38}", milliseconds(run))

    warnings.simplefilter("ignore")
    for dtype in ("float64", "float32"):
        x = y.astype(dtype)
        peer = GaussianMixture(size, max_iter=1, init_params="random", random_state=0).fit(x)
        run = lambda peer=peer, x=x: peer._m_step(x, peer._e_step(x)[1])
        print(f"scikit-learn, a step, {dtype:22}", milliseconds(run))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--components", type=int, default=10)
    parser.add_argument("--x64", action="store_true")
    main(parser.parse_args())

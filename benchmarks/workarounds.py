"""What each work-around for XLA on CPUs buys today: CPU seconds of steps with it, and without.

    python benchmarks/workarounds.py [--pairs 15]

Both programs are compiled first; then they run in turn, in one process, and the ratio without :
with is taken pair by pair (median and quartiles). Of settings that a process is started with, pairs
of processes. The tests that fail when one of them buys nothing any more are in
tests/xla/test_workarounds.py."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

Run = Callable[[], Any]


class Plain(NamedTuple):
    """In the place of `vijax.fitting.step_infos.InfoTables`: a column for each number that steps tell."""

    columns: Any

    @classmethod
    def empty(cls, length: int, info: Any) -> Plain:
        import jax
        import jax.numpy as jnp

        return cls(jax.tree.map(lambda x: jnp.zeros((length, *x.shape), x.dtype), info))

    def with_row(self, i: Any, info: Any) -> Plain:
        import jax

        return Plain(jax.tree.map(lambda column, x: column.at[i].set(x), self.columns, info))

    def infos(self) -> Any:
        return self.columns


@contextlib.contextmanager
def without(name: str) -> Iterator[None]:
    """What is traced inside has no such work-around."""
    from vijax import tree

    same = lambda key: key
    patches = {
        "generator": [
            ("vijax.inference.compose.fused_key", same),
            ("vijax.fitting.loop.fused_key", same),
        ],
        "ordering": [
            ("vijax.xla.ordering.select", tree.select),
            ("vijax.xla.ordering.delay", lambda condition, done: condition),
        ],
        "told": [("vijax.fitting.loop.InfoTables", Plain)],
    }
    patches["both"] = patches["generator"] + patches["ordering"]
    with contextlib.ExitStack() as stack:
        for target, other in patches.get(name, []):
            stack.enter_context(mock.patch(target, other))
        yield


def coin() -> tuple[Any, Any]:
    import vijax as vi

    model = vi.model(
        vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
        lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )
    return vi.svi(model), np.ones(32, np.float32)


def mixture() -> tuple[Any, Any]:
    import vijax as vi

    y = np.random.default_rng(0).normal(size=(64, 2)).astype(np.float32)
    return vi.svi(vi.models.mixture(vi.models.emission.diagonal_gaussian(3, 2))), y


def regression() -> tuple[Any, Any]:
    import jax.numpy as jnp

    import vijax as vi

    rng = np.random.default_rng(0)
    x = rng.normal(size=(256, 16)).astype(np.float32)
    y = (rng.random(256) < 1 / (1 + np.exp(-x[:, 0]))).astype(np.float32)

    def log_density(v: Any, data: Any) -> Any:
        z = data["x"] @ v["w"]
        return jnp.sum(data["y"] * z - jnp.logaddexp(0, z)) - 0.5 * jnp.sum(v["w"] ** 2)

    return vi.advi(vi.density({"w": vi.free(16)}, log_density)), {"x": x, "y": y}


SMALL = {
    "a coin, 32 tosses, `svi`": coin,
    "a mixture, 64 x 2, `svi`": mixture,
    "a regression, 256 x 16, `advi`": regression,
}
STEPS = 2000


def chunk(make: Callable[[], tuple[Any, Any]], left_out: str) -> Run:
    """Runs `STEPS` small steps of `vijax.fit`, in a program without some work-around."""
    import jax

    from vijax.contract.batch import Minibatch
    from vijax.fitting import loop
    from vijax.xla.compiler import step_jit

    alg, data = make()
    key = jax.random.key(0)
    batch = Minibatch(data, None)
    state = jax.device_put(alg.init(key, batch))
    batches = jax.device_put(jax.tree.map(lambda x: np.asarray(x)[None], batch))
    program = step_jit(partial(loop._chunk, lambda: alg.step), static_argnums=(0, 6))
    ends = np.int32(STEPS), False, np.int32(10)
    run = lambda: jax.block_until_ready(program(STEPS, key, {}, state, batches, *ends))
    with without(left_out):
        run()
    return run


def whole_fit(make: Callable[[], tuple[Any, Any]], left_out: str) -> Run:
    """Runs `vijax.fit` for as many steps, with what the host does of each chunk."""
    import jax

    import vijax as vi

    alg, data = make()
    alg = alg._replace(step=partial(alg.step))  # another function: another program
    run = lambda: vi.fit(alg, data, key=jax.random.key(0), num_steps=10 * STEPS)
    with without(left_out):
        run()
    return run


def pairs(with_it: Run, without_it: Run, count: int) -> tuple[float, np.ndarray]:
    """CPU seconds with it, the median, and the ratios without : with of pairs that take turns to be
    first."""
    seconds = np.zeros((count, 2))
    for i in range(count):
        for j in (0, 1) if i % 2 else (1, 0):
            began = time.process_time()
            (with_it, without_it)[j]()
            seconds[i, j] = time.process_time() - began
    return float(np.median(seconds[:, 0])), seconds[:, 1] / seconds[:, 0]


def row(name: str, where: str, unit: str, found: tuple[float, np.ndarray]) -> None:
    low, middle, high = np.quantile(found[1], [0.25, 0.5, 0.75])
    print(f"| `{name}` | {where} | {unit} | {middle:.2f} ({low:.2f} to {high:.2f}) |", flush=True)


def small_steps(count: int) -> None:
    for where, make in SMALL.items():
        with_all = chunk(make, "")
        for name in ("generator", "ordering", "both"):
            found = pairs(with_all, chunk(make, name), count)
            row(name, where, f"{1e6 * found[0] / STEPS:.1f} us a step", found)
        found = pairs(whole_fit(make, ""), whole_fit(make, "told"), count)
        row("told", f"{where}, `vijax.fit`", f"{1e5 * found[0] / STEPS:.1f} us a step", found)


def unrolled(count: int) -> None:
    """Threefry inside its consumer, beside `jax.random.bits`: the words that a sweep of Gibbs
    sampling turns into uniform numbers."""
    import jax
    import jax.numpy as jnp

    from vijax.xla.threefry import threefry2x32

    key, size = jax.random.key(0), 200_000
    words = jax.random.key_data(key)
    counters = jnp.arange(size // 2, dtype=jnp.uint32)
    as_uniform = lambda bits: jnp.sum((bits >> 9).astype(jnp.float32))
    ours = jax.jit(
        lambda: sum(map(as_uniform, threefry2x32(words[0], words[1], counters, counters)))
    )
    theirs = jax.jit(lambda: as_uniform(jax.random.bits(key, (size,))))
    runs = [lambda f=f: [jax.block_until_ready(f()) for _ in range(50)] for f in (ours, theirs)]
    for run in runs:
        run()
    found = pairs(*runs, count)
    row("threefry", f"{size:,} words, summed", f"{1e6 * found[0] / 50:.0f} us", found)


COVARIANCES = """
import time, numpy as np
import vijax as vi, jax
y = np.random.default_rng(0).normal(size=(5000, 32)).astype(np.float32)
alg = vi.cavi(vi.models.mixture(vi.models.emission.full_gaussian(10, 32)))
state, step = alg.init(jax.random.key(0), y), jax.jit(alg.step)
jax.block_until_ready(step(jax.random.key(0), state, y))
began = time.process_time()
for _ in range(20):
    state, _ = jax.block_until_ready(step(jax.random.key(0), state, y))
print(time.process_time() - began)
"""
DEFAULT_TIMEOUT = "26"
"""OpenBLAS's own."""


def in_process(environment: dict[str, str]) -> float:
    command = [sys.executable, "-c", COVARIANCES]
    return float(
        subprocess.run(
            command, env=os.environ | environment, capture_output=True, text=True, check=True
        ).stdout
    )


def processes(count: int) -> None:
    seconds = np.array(
        [
            [in_process({}), in_process({"OPENBLAS_THREAD_TIMEOUT": DEFAULT_TIMEOUT})]
            for _ in range(count)
        ]
    )
    found = float(np.median(seconds[:, 0])), seconds[:, 1] / seconds[:, 0]
    row(
        "blas",
        "a mixture, 5,000 x 32, full covariances, `cavi`",
        f"{1e3 * found[0] / 20:.0f} ms a step",
        found,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=15)
    count = parser.parse_args().pairs
    print("| work-around | program | CPU time with it | without : with |\n|---|---|---|---|")
    small_steps(count)
    unrolled(count)
    processes(max(3, count // 5))


if __name__ == "__main__":
    main()

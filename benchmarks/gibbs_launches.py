"""Gibbs sampling of the topics of documents on accelerators: operations of a sweep, CPU seconds and
the error of few sweeps, of tokens in turn and at once.

    XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1" \\
        python benchmarks/gibbs_launches.py [documents] [words] [topics]

Operations are the instructions of the program without compiled kernels, compiled for the CPU, each
as often as its loop runs: what a GPU would have to launch, if its compiler fused as this one does.
Those that move no numbers (tuples, bitcasts, constants) are not counted. The error is the root mean
square of that of gamma beside 4,000 sweeps; seconds are those of the process."""

import functools
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi

FREE = ("parameter", "get-tuple-element", "tuple", "bitcast", "constant")
FEW = 2, 4
"""Sweeps of two programs: their difference is that of the sweeps alone."""


class Operations(NamedTuple):
    """Operations of a program: those of a sweep, and those beside the sweeps."""

    by_sweep: float
    beside: float


def infer(tokens: str, num_sweeps: int, burn_in: int, most: int) -> Callable[..., Any]:
    """The E-step of likelihoods, counts, alpha and a key; documents have at most `most` tokens."""
    step = vi.estep.gibbs(num_sweeps, burn_in, tokens)
    return jax.jit(lambda x, counts, alpha, key: step.mixed_membership(x, counts, alpha, key, most))


def operations(tokens: str, docs: int, slots: int, topics: int) -> Operations:
    """Operations of a sweep over documents of so many tokens, without compiled kernels."""
    given = jnp.ones((docs, slots, topics)), jnp.ones((docs, slots)), jnp.ones(topics)
    with mock.patch.dict(os.environ, {"VIJAX_NATIVE": "0"}):
        lowered = [infer(tokens, n, 0, slots).lower(*given, jax.random.key(0)) for n in FEW]
        few, more = (count(program.compile().as_text(), slots) for program in lowered)
    by_sweep = (more - few) / (FEW[1] - FEW[0])
    return Operations(by_sweep, few - FEW[0] * by_sweep)


def count(text: str, unknown: int) -> int:
    """Operations of a compiled program; loops of unknown length run `unknown` times."""
    bodies: dict[str, list[str]] = {}
    entry = name = ""
    for line in text.splitlines():
        head = re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\{\s*$", line)
        if head:
            name = head[2]
            bodies[name] = []
            entry = name if head[1] else entry
        elif name and " = " in line:
            bodies[name].append(line)

    @functools.cache
    def of(name: str) -> int:
        return sum(map(of_line, bodies[name]))

    def of_line(line: str) -> int:
        kind = re.search(r"= (?:\(.*?\)|\S+) ([\w\-]+)\(", re.sub(r"/\*.*?\*/", "", line))[1]
        called = re.findall(r"(?:body|condition|to_apply)=%?([\w.\-]+)", line)
        if kind == "while":
            trips = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
            return (int(trips[1]) if trips else unknown) * sum(map(of, called))
        if kind == "call":
            return sum(map(of, called))
        return int(kind not in FREE)

    return of(entry)


def documents(docs: int, slots: int, topics: int) -> tuple[Any, ...]:
    """Likelihoods of the words of documents that have few topics, one token of each, and alpha."""
    rng = np.random.default_rng(0)
    words = rng.dirichlet(np.full(5000, 0.05), topics).T
    mixed = rng.dirichlet(np.full(topics, 0.1), docs) @ words.T
    drawn = [rng.choice(len(words), slots, p=p / p.sum()) for p in mixed]
    likelihood = words[np.stack(drawn)] + 1e-6
    likelihood = jnp.asarray(likelihood / likelihood.max(2, keepdims=True), jnp.float32)
    return likelihood, jnp.ones((docs, slots)), jnp.full(topics, 0.1)


def seconds(run: Callable[..., Any], *given: Any) -> float:
    """The least CPU seconds of three calls."""
    jax.block_until_ready(run(*given, jax.random.key(0)))
    times = []
    for i in range(3):
        begin = time.process_time()
        jax.block_until_ready(run(*given, jax.random.key(i)))
        times.append(time.process_time() - begin)
    return min(times)


def main() -> None:
    docs, slots, topics = [int(x) for x in sys.argv[1:]] or [256, 128, 100]
    given = documents(docs, slots, topics)
    truth = np.mean(
        [infer("in_turn", 2000, 200, slots)(*given, jax.random.key(i))[0] for i in (1, 2)], 0
    )
    print("| tokens | operations of a sweep | beside | CPU us a document | error of gamma |")
    print("|---|---|---|---|---|")
    for tokens, switch in (("in_turn", "1"), ("in_turn", "0"), ("at_once", "0")):
        with mock.patch.dict(os.environ, {"VIJAX_NATIVE": switch}):
            run = infer(tokens, 5, 5, slots)
            cost = 1e6 * seconds(run, *given) / docs
            drawn = [run(*given, jax.random.key(i)).gamma for i in range(10, 20)]
        error = np.sqrt(np.mean((np.stack(drawn) - truth) ** 2))
        counted = (
            "one | "
            if switch == "1"
            else "{:,.0f} | {:,.0f}".format(*operations(tokens, docs, slots, topics))
        )
        name = tokens.replace("_", " ") + (", compiled kernel" if switch == "1" else "")
        print(f"| {name} | {counted} | {cost:,.0f} | {error:.2f} |", flush=True)


if __name__ == "__main__":
    main()

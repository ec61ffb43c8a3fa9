"""What a first fit costs: import, model, 20 steps and score, each in a process of its own, nothing
compiled before.

    python benchmarks/cold_start.py [names] [--repeats 3] [--programs]

CPU seconds (user and system, all threads; least and median), programs compiled, and the largest
resident memory. `--programs` lists what was compiled, dearest first. A persistent compilation cache
of the user's is not read; Python keeps its byte code, as it does for users."""

from __future__ import annotations

import argparse
import collections
import json
import os
import resource
import statistics
import subprocess
import sys
import time

NUM_STEPS = 20


def mixture(rng, vi):
    y = rng.normal(size=(200, 2)) + 4 * rng.integers(3, size=(200, 1))
    return vi.cavi(vi.models.mixture(vi.models.emission.diagonal_gaussian(3, 2))), y, {}


def mixture_em(rng, vi):
    y = rng.normal(size=(200, 2)) + 4 * rng.integers(3, size=(200, 1))
    return vi.em(vi.models.mixture(vi.models.emission.diagonal_gaussian(3, 2))), y, {}


def mixture_restarts(rng, vi):
    return *mixture(rng, vi)[:2], {"restarts": 5}


def mixture_full(rng, vi):
    y = rng.normal(size=(200, 2)) + 4 * rng.integers(3, size=(200, 1))
    return vi.cavi(vi.models.mixture(vi.models.emission.full_gaussian(3, 2))), y, {}


def hmm(rng, vi):
    states = [np_repeat(rng, length) for length in rng.integers(30, 61, size=5)]
    data = vi.models.pad([4.0 * z[:, None] + rng.normal(size=(len(z), 2)) for z in states])
    return vi.cavi(vi.models.hmm(vi.models.emission.diagonal_gaussian(3, 2))), data, {}


def np_repeat(rng, length):
    return rng.integers(3, size=length).repeat(5)[:length]


def corpus():
    from vijax.data import synthetic

    return synthetic.lda_corpus(200, num_topics=5, vocab_size=100)[0]


def lda_svi(rng, vi):
    return vi.svi(vi.models.lda(5, 100)), corpus(), {"batch_size": 50}


def lda_ssvi_a_cvb0(rng, vi):
    return vi.ssvi_a(vi.models.lda(5, 100), estep=vi.estep.cvb0()), corpus(), {"batch_size": 50}


def ctm_em(rng, vi):
    estep = vi.estep.proximal_gradient(
        vi.expectation.vector_monte_carlo(8, antithetic=True, matched=True)
    )
    return vi.em(vi.models.ctm(5, 100, num_samples=16, estep=estep)), corpus(), {"transform": True}


def ctm_300(rng, vi):
    """300 documents of 80 words, K = 10, 50 steps: beside tomotopy's CTModel in
    results_speed.md."""
    from vijax.data import synthetic

    documents, _ = synthetic.lda_corpus(300, num_topics=10, vocab_size=500, document_length=80.0)
    return (
        vi.em(vi.models.ctm(10, 500)),
        documents,
        {"transform": True, "score": False, "num_steps": 50},
    )


def gp_pg_svi(rng, vi):
    x = rng.uniform(0, 10, size=60)
    y = rng.poisson(2 + x % 3)
    model = vi.models.gp(
        x, y, "rbf", vi.likelihood.poisson_log(), hyper={"scale": 1.0, "length": 1.0}
    )
    return vi.pg_svi(model), model.data, {"score": False}


def hierarchical(rng, vi):
    x, labels = rng.normal(size=(200, 2)), rng.integers(10, size=200)
    y = x @ rng.normal(size=2) + 0.1 * rng.normal(size=200)
    data = vi.models.group_rows(x, y, labels)
    return vi.cavi(vi.models.hierarchical_linear_regression(2)), data, {"score": False}


SCRIPTS = {f.__name__: f for f in (mixture, mixture_em, mixture_restarts, mixture_full, hmm, lda_svi, lda_ssvi_a_cvb0,
                                   ctm_em, ctm_300, gp_pg_svi, hierarchical)}  # fmt: skip


def run(name: str) -> dict:
    """One script, in this process: what it cost from the process' start on."""
    import jax
    import numpy as np

    import vijax as vi

    compiled: list[tuple[str, float]] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **more: (
            compiled.append((str(more.get("fun_name", "?")), seconds))
            if event == "/jax/core/compile/backend_compile_duration"
            else None
        )
    )
    phases = {"import": time.process_time()}
    alg, data, wanted = SCRIPTS[name](np.random.default_rng(0), vi)
    phases["model"] = time.process_time()
    transform, score = wanted.pop("transform", False), wanted.pop("score", True)
    fit = vi.fit(alg, data, key=jax.random.key(0), **{"num_steps": NUM_STEPS} | wanted)
    phases["fit"] = time.process_time()
    said = {"elbo": float(fit.trace["elbo"][-1])}
    if transform:
        said["share"] = float(fit.transform(data, key=jax.random.key(1))[0, 0])
        phases["transform"] = time.process_time()
    if score:
        said["score"] = float(fit.score(data, key=jax.random.key(2)).mean)
        phases["score"] = time.process_time()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    spent = {k: b - a for (k, b), a in zip(phases.items(), [0.0, *phases.values()], strict=False)}
    return {
        "cpu": time.process_time(),
        "phases": spent,
        "programs": compiled,
        "memory": memory,
        **said,
    }


def fresh(name: str) -> dict:
    """The same in a new process."""
    left_out = ("JAX_COMPILATION_CACHE_DIR", "PYTHONDONTWRITEBYTECODE")
    environment = {k: v for k, v in os.environ.items() if k not in left_out}
    command = [sys.executable, __file__, "--inside", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def show(name: str, runs: list[dict], programs: bool) -> None:
    times, memory = [run["cpu"] for run in runs], statistics.median(run["memory"] for run in runs)
    cpu = f"{min(times):.1f}, {statistics.median(times):.1f}"
    phases = ", ".join(f"{k} {v:.1f}" for k, v in runs[0]["phases"].items())
    found = ", ".join(f"{k} {runs[0][k]:.6g}" for k in ("elbo", "share", "score") if k in runs[0])
    print(
        f"| {name} | {cpu} | {len(runs[0]['programs'])} | {memory:.0f} | {phases} | {found} |",
        flush=True,
    )
    if programs:
        by_name = collections.defaultdict(list)
        for program, seconds in runs[0]["programs"]:
            by_name[program].append(seconds)
        for program, seconds in sorted(by_name.items(), key=lambda item: -sum(item[1])):
            print(f"    {sum(seconds):7.3f} s  {len(seconds):3} x {program}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(SCRIPTS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--programs", action="store_true")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        print(json.dumps(run(arguments.inside)))
        sys.exit()
    print(
        "| script | CPU s | programs | MB | its phases, first run | its numbers "
        "|\n|---|---|---|---|---|---|"
    )
    for name in arguments.names:
        show(name, [fresh(name) for _ in range(arguments.repeats)], arguments.programs)

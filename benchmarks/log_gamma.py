"""CPU time per element of log-gamma draws, their derivative and V, against jax.random and TFP, in
one run on one core.

    taskset -c 0 python benchmarks/log_gamma.py            # all; about 3 minutes, most of it TFP
    taskset -c 0 python benchmarks/log_gamma.py --no-peers

Times are medians of process CPU time, so other load on the machine disturbs little; on several
cores they still add up all threads. Shapes: constants, and the "LDA mix" of 100 topics by 8000
words, 0.1 plus a heavy tail."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from vijax.families import Dirichlet, DirichletStats
from vijax.families.numeric import special
from vijax.families.numeric.pathwise import elasticity_minus_one, sample_offset

TOPICS, WORDS = 100, 8000


def nanoseconds(f: Callable, *args, repeats: int = 15, budget: float = 20.0) -> float:
    """Median CPU time of the compiled call, in ns per element of the mix."""
    compiled = jax.jit(f).lower(*args).compile()
    jax.block_until_ready(compiled(*args))
    times, start = [], time.perf_counter()
    while len(times) < repeats and (not times or time.perf_counter() - start < budget):
        begin = time.process_time()
        jax.block_until_ready(compiled(*args))
        times.append(time.process_time() - begin)
    return float(np.median(times)) / (TOPICS * WORDS) * 1e9


def lda_mix(seed: int = 0) -> np.ndarray:
    """Concentrations of topics after some training: 0.1 plus a heavy tail of counts."""
    return 0.1 + 100 * np.random.default_rng(seed).gamma(0.05, 20.0, (TOPICS, WORDS))


def draw_with_derivative(key: jax.Array, a: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jax.jvp(lambda a: sample_offset(key, a), (a,), (jnp.ones_like(a),))


def v_step(key: jax.Array, a: jax.Array, eta: jax.Array) -> Dirichlet:
    return Dirichlet(a).pathwise_sample(key)[1](DirichletStats(eta))


def tfp_draw_with_derivative(key: jax.Array, a: jax.Array) -> tuple[jax.Array, jax.Array]:
    from tensorflow_probability.substrates import jax as tfp

    draw = lambda a: tfp.distributions.ExpGamma(a, rate=1.0).sample(seed=key)
    return jax.jvp(draw, (a,), (jnp.ones_like(a),))


def jax_draw_with_derivative(key: jax.Array, a: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jax.jvp(lambda a: jax.random.loggamma(key, a), (a,), (jnp.ones_like(a),))


def report(name: str, value: float, note: str = "") -> None:
    print(f"{name:58s} {value:9.2f} ns per element  {note}", flush=True)


def ours(key: jax.Array) -> float:
    rng, mix = np.random.default_rng(1), lda_mix()
    for a in (0.01, 0.1, 1.0, 10.0, 1e5):
        constant = jnp.full(mix.shape, a, jnp.float32)
        report(f"draw, shape {a:g}", nanoseconds(sample_offset, key, constant))
        report(f"draw + derivative, shape {a:g}", nanoseconds(draw_with_derivative, key, constant))
    a, eta = jnp.asarray(mix, jnp.float32), jnp.asarray(rng.poisson(mix * 0.05), jnp.float32)
    offset = jax.jit(sample_offset)(key, a)
    report("draw, LDA mix", nanoseconds(sample_offset, key, a))
    report("derivative alone, LDA mix", nanoseconds(elasticity_minus_one, a, offset))
    both = nanoseconds(draw_with_derivative, key, a)
    report("draw + derivative, LDA mix", both)
    step = nanoseconds(v_step, key, a, eta)
    report("whole V step, LDA mix", step, f"{step * TOPICS * WORDS / 1e6:.1f} ms")
    report("expected_stats, LDA mix", nanoseconds(lambda a: Dirichlet(a).expected_stats(), a))
    report(
        "kl to a constant prior, LDA mix",
        nanoseconds(lambda a: Dirichlet(a).kl(Dirichlet(jnp.full_like(a, 0.1))), a),
    )
    report(
        "log_gamma, LDA mix",
        nanoseconds(special.log_gamma, a),
        f"lax.lgamma {nanoseconds(jax.lax.lgamma, a):.2f}",
    )
    report(
        "digamma, LDA mix",
        nanoseconds(special.digamma, a),
        f"lax.digamma {nanoseconds(jax.lax.digamma, a):.2f}",
    )
    bits = lambda key, a: jax.random.bits(key, (2, *a.shape), jnp.uint32)
    report("two words per element by jax.random.bits, alone", nanoseconds(bits, key, a))
    return both


def peers(key: jax.Array, both: float) -> None:
    a = jnp.asarray(lda_mix(), jnp.float32)
    other = nanoseconds(tfp_draw_with_derivative, key, a)
    report("TFP ExpGamma draw + derivative, LDA mix", other, f"{other / both:.0f} times ours")
    other = nanoseconds(jax_draw_with_derivative, key, a)
    report(
        "jax.random.loggamma draw + derivative, LDA mix", other, f"{other / both:.0f} times ours"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--no-peers", action="store_true", help="leave out jax.random.loggamma and TFP"
    )
    arguments = parser.parse_args()
    key = jax.random.key(0)
    both = ours(key)
    if not arguments.no_peers:
        peers(key, both)


if __name__ == "__main__":
    main()

"""`vijax.auto` on nine posteriors of posteriordb: one setting, held against long NUTS runs.

    python benchmarks/quality/posteriors.py [--float32] [--seeds 3] [--only eight_schools hmm]
    python benchmarks/quality/posteriors.py --peer numpyro

Reads data and reference numbers from the folder posteriordb of the one named by VIJAX_DATA. Errors
are of the means and sds of 40,000 draws, the worst over all of a posterior's numbers; those of the
reference are near 0.01 sd. CPU seconds are of one fit with all that it compiles, and of one more.
Of several seeds: from the lowest to the highest; the largest standard error of an ELBO; the first
seconds of the first. The gap is a lower bound on KL(q || p), in nats. The peer is stochastic
gradients by Adam, 10,000 steps of one draw, on the same density of the same coordinates, from its
own start."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from posterior_models import POSTERIORS, Errors, Posterior, errors, load

import vijax as vi
from vijax.verdict.target import Target

DRAWS, STEPS, RATE = 40_000, 10_000, 0.01
ERRORS = ["mean error / sd", "at", "log sd ratio"]
OURS = ["posterior", "D", "ended", "gradients", "ELBO", *ERRORS, "gap", "k-hat", "CPU s"]
PEERS = ["posterior", "D", "guide", "gradients", "ELBO", *ERRORS, "CPU s"]


def timed(go: Callable[[], Any]) -> tuple[Any, float]:
    """A result, and the CPU seconds that it took."""
    started = time.process_time()
    result = go()
    return result, time.process_time() - started


def ours(name: str, seeds: int) -> Iterator[list[str]]:
    """A row of what is kept by default; and where that is a mixture, one of the best normal
    alone."""
    posterior = load(name)
    by_default = [_fitted(posterior, seed, None) for seed in range(seeds)]
    yield _row(name, posterior, by_default)
    if any(fit.report.other is not None for fit, *_ in by_default):
        alone = [_fitted(posterior, seed, False) for seed in range(seeds)]
        yield _row(f"{name}, `richer=False`", posterior, alone)


def _fitted(
    posterior: Posterior, seed: int, richer: bool | None
) -> tuple[Any, Errors, float, float]:
    """A fit, its errors, and the CPU seconds of the first and of a second one."""
    run = lambda: vi.auto(posterior.model, posterior.data, key=jax.random.key(seed), richer=richer)
    (fit, first), (_, again) = timed(run), timed(run)
    return fit, errors(posterior, fit.sample(jax.random.key(100 + seed), DRAWS)), first, again


def _row(
    name: str, posterior: Posterior, found: list[tuple[Any, Errors, float, float]]
) -> list[str]:
    fits, off = [fit for fit, *_ in found], [off for _, off, *_ in found]
    ended = [str(fit.outcome) for fit in fits]
    worst = max(off, key=lambda e: e.mean)
    return [
        name, str(posterior.model.free.variables.dim),
        "; ".join(f"{word} ({ended.count(word)} of {len(fits)})" for word in sorted(set(ended))),
        spread([fit.report.num_gradients for fit in fits], ",.0f"),
        f"{spread([fit.elbo.value for fit in fits], '.3f')} ± "
        f"{max(fit.elbo.standard_error for fit in fits):.3f}",
        spread([e.mean for e in off], ".3f"), worst.at, spread([e.log_sd for e in off], ".3f"),
        spread([fit.report.gap for fit in fits], ".2f"), spread([fit.khat for fit in fits], ".2f"),
        f"{found[0][2]:.1f}; {spread([again for *_, again in found], '.1f')}",
    ]  # fmt: skip


def spread(values: list[float], form: str) -> str:
    """From the lowest to the highest.

    >>> spread([0.21, 0.18, 0.2], ".1f"), spread([1.0, 2.0], ".0f")
    ('0.2', '1 to 2')
    """
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def peers(name: str, seeds: int) -> Iterator[list[str]]:
    for seed in range(seeds):
        yield from _of_peer(name, seed)


def _of_peer(name: str, seed: int) -> Iterator[list[str]]:
    from numpyro.infer import SVI, Trace_ELBO, autoguide
    from numpyro.optim import Adam

    posterior = load(name)
    model = in_numpyro(posterior)
    for kind in ("AutoNormal", "AutoMultivariateNormal"):
        guide = getattr(autoguide, kind)(model)
        svi = SVI(model, guide, Adam(RATE), Trace_ELBO())
        run = lambda: svi.run(jax.random.key(seed), STEPS, progress_bar=False)
        result, seconds = timed(lambda: jax.block_until_ready(run().params))
        elbo = -Trace_ELBO(num_particles=4096).loss(jax.random.key(1), result, model, guide)
        x = guide.sample_posterior(jax.random.key(2), result, sample_shape=(DRAWS,))["x"]
        off = errors(posterior, posterior.model.free.values({}, {"free": x}))
        yield [
            name, str(posterior.model.free.variables.dim), kind, str(STEPS), f"{float(elbo):.3f}",
            f"{off.mean:.3f}", off.at, f"{off.log_sd:.3f}", f"{seconds:.1f}",
        ]  # fmt: skip


def in_numpyro(posterior: Posterior) -> Callable[[], None]:
    """The same density of the same free coordinates, as NumPyro's models are written."""
    import numpyro
    from numpyro.distributions import ImproperUniform, constraints

    density = posterior.model
    groups = jax.tree.map(jnp.asarray, Target.from_data(density, posterior.data).groups)

    def model() -> None:
        x = numpyro.sample(
            "x", ImproperUniform(constraints.real, (), (density.free.variables.dim,))
        )
        numpyro.factor(
            "log_density",
            density.free.log_prior_at(x) + jnp.sum(density.free.log_liks_at(x, groups)),
        )

    return model


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--float32", action="store_true", help="in place of float64")
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--only", nargs="+", choices=POSTERIORS, default=list(POSTERIORS))
    p.add_argument("--peer", choices=["numpyro"])
    a = p.parse_args()
    jax.config.update("jax_enable_x64", not a.float32)
    rows, head = (peers, PEERS) if a.peer else (ours, OURS)
    print(
        f"jax {jax.__version__}, {np.dtype(jnp.result_type(float))}\n\n| {' | '.join(head)} "
        f"|\n|{'---|' * len(head)}"
    )
    for name in a.only:
        for row in rows(name, a.seeds):
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()

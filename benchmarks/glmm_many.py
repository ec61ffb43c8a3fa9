"""Many responses on one design: `vijax.glmm.many` beside a loop of single fits and statsmodels.

    python benchmarks/glmm_many.py [number of responses]

Expression of genes in 60 samples of 12 donors under two treatments: `~ treat + x + (1 | donor)`,
normal. One thread, CPU seconds with all compilation. statsmodels, where it is installed, fits
`MixedLM` by REML; single fits are `vijax.auto`. Both take the first genes alone, and are scaled."""

# ruff: noqa: E402
import os
import sys
import time
import warnings

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"

import jax
import numpy as np

import vijax as vi

KEY = jax.random.key(0)
SINGLE, PEER = 8, 100
"""Responses that are fitted alone, and by statsmodels."""


def make(number):
    """Samples, genes and the true effects; seven of eight are zero."""
    rng = np.random.default_rng(0)
    donor = np.arange(60) % 12
    table = {
        "treat": np.array(list("ab"))[(np.arange(60) // 12) % 2],
        "x": rng.normal(size=60),
        "donor": donor,
    }
    truth = np.where(rng.random(number) < 0.875, 0.0, rng.normal(size=number))
    noise = np.exp(0.5 * rng.normal(size=number))
    y = truth * (table["treat"] == "b")[:, None] + rng.normal(size=(12, number))[donor]
    return table, y + noise * rng.normal(size=(60, number)), truth


def cpu_seconds(function):
    """CPU seconds of a call, and its value."""
    start = time.process_time()
    value = function()
    return time.process_time() - start, value


def single_fits(fits):
    """The summaries of the first responses, fitted alone."""
    return [
        vi.auto(fits.model(name), key=KEY, richer=True).summary()
        for name in fits.responses[:SINGLE]
    ]


def peer_fits(table, y):
    """Coefficients and standard errors of the treatment by statsmodels' REML."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    x = np.stack([np.ones(60), table["treat"] == "b", table["x"]], 1)
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for column in y.T[:PEER]:
            result = MixedLM(column, x, table["donor"]).fit()
            rows.append((result.fe_params[1], result.bse_fe[1]))
    return np.array(rows)


def main(number):
    """Prints the table."""
    table, y, truth = make(number)
    run = lambda: vi.glmm.many("~ treat + x + (1 | donor)", table, y, key=KEY)
    cold, fits = cpu_seconds(run)
    again, _ = cpu_seconds(run)
    print(fits.verdict)
    print(f"many: {number:,} responses, cold {cold:.1f}, again {again:.1f} CPU s")
    alone, summaries = cpu_seconds(lambda: single_fits(fits))
    print(f"single fits: {alone / SINGLE * number:,.0f} CPU s ({alone / SINGLE:.2f} each)")
    k = fits.names.index("treat[b]")
    apart, ratios = [], []
    for i, summary in enumerate(summaries):
        for j, name in enumerate(summary.names):
            place = fits.names.index(name)
            apart.append(abs(fits.mean[i, place] - summary.mean[j]) / summary.sd[j])
            ratios.append(fits.sd[i, place] / summary.sd[j] - 1)
    print(f"  means apart up to {max(apart):.3f} sd, sds {min(ratios):+.3f} to {max(ratios):+.3f}")
    signs = fits.table("treat[b]")
    for rate in (0.01, 0.05, 0.2):
        chosen = [fits.responses.index(name) for name in signs.sure_signs(rate)]
        wrong = np.sign(fits.mean[chosen, k]) != np.sign(truth[chosen])
        print(f"  at {rate}: {len(chosen)} chosen, {wrong.mean():.3f} with the wrong sign")
    try:
        seconds, peer = cpu_seconds(lambda: peer_fits(table, y))
    except ImportError:
        return
    print(f"statsmodels: {seconds / PEER * number:,.0f} CPU s ({seconds / PEER:.3f} each)")
    gaps = np.abs(fits.mean[:PEER, k] - peer[:, 0]) / peer[:, 1]
    print(f"  estimates apart up to {gaps.max():.3f} standard errors")
    print(f"  sd over standard error {np.median(fits.sd[:PEER, k] / peer[:, 1]):.3f} (median)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)

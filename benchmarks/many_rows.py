"""A logistic regression of many rows by `vijax.auto`, held against Newton's steps in float64
(NumPy).

    python benchmarks/many_rows.py [--rows 1000000] [--columns 20]

Prints CPU seconds of the first fit, of the second, and of Newton; how far means are from the mode,
in standard deviations, and sds from those of the curvature there, as log ratios; and the verdict.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

import vijax as vi


def timed(go: Callable[[], Any]) -> tuple[Any, float]:
    """A result, and the CPU seconds that it took."""
    started = time.process_time()
    result = go()
    return result, time.process_time() - started


def newton(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mode, and the covariance by the curvature there."""
    mode, wide = np.zeros(x.shape[1]), x.astype(np.float64)
    for _ in range(8):
        p = 1 / (1 + np.exp(-wide @ mode))
        precision = (wide * (p * (1 - p))[:, None]).T @ wide + np.eye(len(mode)) / 4
        mode = mode + np.linalg.solve(precision, wide.T @ (y - p) - mode / 4)
    return mode, np.linalg.inv(precision)


def main() -> None:
    """Prints the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(given.rows, given.columns)).astype(np.float32)
    slopes = 0.5 * rng.normal(size=given.columns)
    y = (rng.uniform(size=given.rows) < 1 / (1 + np.exp(-x @ slopes))).astype(np.float32)

    def log_lik(v: Any, row: Any) -> Any:
        logit = row[0] @ v["slopes"]
        return row[1] * logit - jnp.logaddexp(0.0, logit)

    prior = lambda v: jnp.sum(norm.logpdf(v["slopes"], 0, 2.0))
    model = vi.density({"slopes": vi.free(given.columns)}, log_prior=prior, log_lik=log_lik)
    fits = [timed(lambda: vi.auto(model, (x, y), key=jax.random.key(0))) for _ in range(2)]
    (mode, cov), of_newton = timed(lambda: newton(x, y))
    fit, frame, sds = fits[1][0], fits[1][0].state.hyper["frame"], np.sqrt(np.diag(cov))
    scale = np.asarray(frame.scale, np.float64)
    print(f"CPU s: first {fits[0][1]:.1f}, again {fits[1][1]:.1f}, Newton {of_newton:.1f}")
    print(f"means off by {np.abs((frame.shift - mode) / sds).max():.3f} sd", end=", ")
    print(f"log sds by {np.abs(np.log(np.sqrt((scale**2).sum(1)) / sds)).max():.5f}")
    print(f"{fit.report.num_gradients} gradients. {fit.verdict}")


if __name__ == "__main__":
    main()

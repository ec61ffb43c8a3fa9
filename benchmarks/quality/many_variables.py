"""Beyond 300 variables: directions of dependence beside independent normals, for the table of
`free.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

import vijax as vi
from vijax.automatic import low_rank
from vijax.automatic.curvature import normal

HEAD = [
    "posterior",
    "variables",
    "directions",
    "ELBO",
    "gap, nats",
    "gradients",
    "log sd ratio, rms",
]
DIM = 500


class Posterior(NamedTuple):
    """A model with its data; and the exact precision, where it is known."""

    model: Any
    data: Any
    precision: np.ndarray | None


def factors(folder: Path) -> Posterior:
    """A normal with five common factors."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(DIM, 5))
    precision = np.linalg.inv(np.eye(DIM) + shared @ shared.T)
    held = jnp.asarray(precision, jnp.float32)
    return Posterior(
        vi.density({"w": vi.free(DIM)}, lambda v: -0.5 * v["w"] @ held @ v["w"]), None, precision
    )


def regression(rows: int, share: float) -> Posterior:
    """Linear, of columns whose common factor has a share of their variance."""
    rng = np.random.default_rng(0)
    x = np.sqrt(share) * rng.normal(size=(rows, 1)) + np.sqrt(1 - share) * rng.normal(
        size=(rows, DIM)
    )
    y = x @ rng.normal(size=DIM) / np.sqrt(DIM) + rng.normal(size=rows)
    model = vi.density(
        {"w": vi.free(DIM)},
        log_prior=lambda v: norm.logpdf(v["w"]).sum(),
        log_lik=lambda v, row: norm.logpdf(row[1], row[0] @ v["w"], 1.0),
    )
    return Posterior(model, (x.astype(np.float32), y.astype(np.float32)), np.eye(DIM) + x.T @ x)


def digits(folder: Path) -> Posterior:
    """Softmax regression."""
    with np.load(folder / "usps.npz") as file:
        rows = np.flatnonzero(~file["is_test"])[:2000]
        x, label = (
            file["X_milli"][rows].astype(np.float32) / 1000,
            file["label"][rows].astype(np.int32),
        )
    model = vi.density(
        {"w": vi.free((10, 256)), "b": vi.free(10)},
        log_prior=lambda v: norm.logpdf(v["w"]).sum() + norm.logpdf(v["b"]).sum(),
        log_lik=lambda v, row: jax.nn.log_softmax(v["w"] @ row[0] + v["b"])[row[1]],
    )
    return Posterior(model, (x - x.mean(0), label), None)


POSTERIORS: dict[str, Callable[[Path], Posterior]] = {
    "normal with five factors": factors,
    "regression, 2,000 rows": lambda folder: regression(2000, 0.5),
    "regression, 100 rows": lambda folder: regression(100, 0.0),
    "softmax regression of digits": digits,
}


def rows(folder: Path, seed: int) -> Iterator[list[str]]:
    """Three rows a posterior: independent normals, with directions, and of full covariance, which
    is the default."""
    usual = low_rank.ROUNDS, normal.MOST_DIM
    for name, make in POSTERIORS.items():
        for low_rank.ROUNDS, normal.MOST_DIM in ((0, 0), (usual[0], 0), usual):
            yield row(name, make(folder), seed)
    low_rank.ROUNDS, normal.MOST_DIM = usual


def row(name: str, posterior: Posterior, seed: int) -> list[str]:
    """One fit."""
    fit = vi.auto(posterior.model, posterior.data, key=jax.random.key(seed))
    frame = fit.state.hyper["frame"]
    kind = "full" if np.ndim(frame.scale) == 2 else str(int(np.sum(np.asarray(frame.stretch) != 1)))
    ratio = ""
    if posterior.precision is not None:
        sds = np.sqrt(np.diag(np.linalg.inv(posterior.precision)))
        draws = np.asarray(fit.sample(jax.random.key(seed + 1), 4000)["w"], np.float64)
        ratio = f"{np.sqrt(np.mean(np.log(draws.std(0) / sds) ** 2)):.2f}"
    report = fit.report
    size = f"{posterior.model.free.variables.dim:,}"
    return [
        name,
        size,
        kind,
        str(report.elbo),
        f"{report.gap:.2f}",
        f"{report.num_gradients:,}",
        ratio,
    ]

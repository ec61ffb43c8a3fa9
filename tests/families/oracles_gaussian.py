"""Rows of the law of tests/families/test_float32.py for families that hold a matrix, or a rate
beside a location.

What float32 natural parameters hold of these depends on condition numbers (of correlations: units
do not matter) and on how far from zero locations lie; the members are spread over what the
docstrings promise. Beyond, constructors raise: `WIDER` has members there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.families.oracles import (
    Member,
    Oracle,
    Rng,
    gamma_entropy,
    gamma_kl,
    gamma_log_prob,
    log_uniform,
    mp,
    total,
)
from vijax.families import (
    InverseWishart,
    MultivariateNormal,
    MultivariateNormalGamma,
    Normal,
    NormalGamma,
    NormalsWishart,
    NormalWishart,
    Wishart,
)

DIM = 3


# --- members --------------------------------------------------------------------------------------
def matrices(rng: Rng, size: int, condition: Any) -> np.ndarray:
    """Of correlations with about such a condition number, in units from 1e-2 to 1e2 by
    coordinate."""
    vectors = np.linalg.qr(rng.normal(size=(size, DIM, DIM)))[0]
    values = np.reshape(condition, (-1, 1)) ** -np.linspace(0, 1, DIM)
    units = log_uniform(1e-2, 1e2, DIM)(rng, size)
    return (
        units[:, :, None]
        * np.einsum("nij,nj,nkj->nik", vectors, values, vectors)
        * units[:, None, :]
    )


def offset(rng: Rng, factor: np.ndarray, spreads: np.ndarray) -> np.ndarray:
    """So many standard deviations away in a random direction, the covariance being factor
    factor'."""
    direction = rng.normal(size=factor.shape[:-1])
    direction *= (spreads / np.linalg.norm(direction, axis=-1))[:, None]
    return np.einsum("nij,nj->ni", factor, direction)


def scattered(rng: Rng, matrix: np.ndarray, amount: Any) -> np.ndarray:
    """Matrices that differ by about so much, relatively, in every direction."""
    change = np.tril(rng.uniform(-1, 1, matrix.shape)) * np.reshape(amount, (-1, 1, 1))
    root = np.linalg.cholesky(np.float64(matrix)) @ (np.eye(DIM) + change)
    return root @ root.swapaxes(-1, -2)


def normals(condition: float, spreads: float) -> Callable[[Rng, int], Member]:
    def members(rng: Rng, size: int) -> Member:
        condition_of = log_uniform(1, condition)(rng, size)
        cov = matrices(rng, size, condition_of)
        far = log_uniform(1e-2, spreads)(rng, size) / condition_of
        return {"mean": offset(rng, np.linalg.cholesky(cov), far), "cov": cov}

    return members


def near_normals(rng: Rng, q: Member) -> Member:
    root = np.linalg.cholesky(np.float64(q["cov"]))
    return {
        "mean": q["mean"] + offset(rng, root, np.full(len(root), 0.03)),
        "cov": scattered(rng, q["cov"], 1e-3),
    }


def wisharts(condition: float) -> Callable[[Rng, int], Member]:
    def members(rng: Rng, size: int) -> Member:
        degrees = DIM - 1 + log_uniform(0.1, 1e4)(rng, size)
        condition_of = 1 + (condition - 1) * log_uniform(1e-3, 1)(rng, size) / np.sqrt(1 + degrees)
        return {"degrees": degrees, "scale": matrices(rng, size, condition_of)}

    return members


def near_wisharts(rng: Rng, q: Member) -> Member:
    return {"degrees": q["degrees"] * (1 + 1e-3), "scale": scattered(rng, q["scale"], 1e-3)}


def normal_wisharts(rng: Rng, size: int) -> Member:
    """(location / spread of the location)^2 up to 2500 / (condition number * sqrt(degrees))."""
    q, strength = wisharts(1e3)(rng, size), log_uniform(1e-4, 1e4)(rng, size)
    factor = (
        np.linalg.inv(np.linalg.cholesky(q["scale"])).swapaxes(-1, -2)
        / np.sqrt(strength)[:, None, None]
    )
    far = log_uniform(1e-2, 50)(rng, size) / np.sqrt(
        condition_numbers(q["scale"]) * np.sqrt(1 + q["degrees"])
    )
    return {"location": offset(rng, factor, far), "strength": strength, **q}


def normals_wisharts(rng: Rng, size: int) -> Member:
    """Two means, each as of the normal-Wishart."""
    one = normal_wisharts(rng, size)
    turned = one["location"] * rng.choice([-0.5, 0.5], size)[:, None]
    both = {
        "location": np.stack([one["location"], turned], 1),
        "strength": np.stack([one["strength"]] * 2, 1),
    }
    return {**one, **both}


def condition_numbers(matrix: np.ndarray) -> np.ndarray:
    """Of the correlations."""
    units = np.sqrt(np.diagonal(matrix, axis1=-2, axis2=-1))
    return np.linalg.cond(matrix / (units[:, :, None] * units[:, None, :]))


def near_normal_wisharts(rng: Rng, q: Member) -> Member:
    change = {
        name: q[name] * (1 + 1e-3 * rng.uniform(-1, 1, q[name].shape))
        for name in ("location", "strength")
    }
    return {**change, **near_wisharts(rng, q)}


def normal_gammas(rng: Rng, size: int) -> Member:
    strength, shape, rate = (
        log_uniform(low, high)(rng, size) for low, high in ((1e-4, 1e4), (1e-2, 1e3), (1e-4, 1e4))
    )
    far = log_uniform(1e-2, 50)(rng, size) * rng.choice([-1, 1], size) / (1 + shape) ** 0.25
    return {
        "location": far * np.sqrt(rate / strength),
        "strength": strength,
        "shape": shape,
        "rate": rate,
    }


def coefficients(rng: Rng, size: int) -> Member:
    q = normal_gammas(rng, size)
    condition = log_uniform(1, 1e4)(rng, size)
    strength = matrices(rng, size, condition)
    factor = (
        np.linalg.inv(np.linalg.cholesky(strength)).swapaxes(-1, -2)
        * np.sqrt(q["rate"])[:, None, None]
    )
    far = log_uniform(1e-2, 50)(rng, size) / np.sqrt(condition * np.sqrt(1 + q["shape"]))
    return {**q, "location": offset(rng, factor, far), "strength": strength}


def near_coefficients(rng: Rng, q: Member) -> Member:
    change = {
        name: q[name] * (1 + 1e-3 * rng.uniform(-1, 1, q[name].shape))
        for name in ("location", "shape", "rate")
    }
    return {**change, "strength": scattered(rng, q["strength"], 1e-3)}


# --- values ---------------------------------------------------------------------------------------
def normal_values(rng: Rng, q: Member) -> np.ndarray:
    root = np.linalg.cholesky(np.float64(q["cov"]))
    return q["mean"] + offset(rng, root, np.full(len(root), 2.0))


def wishart_values(rng: Rng, q: Member) -> np.ndarray:
    degrees = np.float64(q["degrees"])
    return scattered(rng, degrees[:, None, None] * q["scale"], 2 / np.sqrt(4 + degrees))


def inverse_values(rng: Rng, q: Member) -> np.ndarray:
    """The condition number of their ratio to the scale times that of the scale up to 3e3."""
    degrees, scale = np.float64(q["degrees"]), np.float64(q["scale"])
    middle = scale / degrees[:, None, None]
    x = scattered(rng, middle, 2 / np.sqrt(4 + degrees))
    root = np.linalg.inv(np.linalg.cholesky(scale))
    held = np.linalg.cond(root @ x @ root.swapaxes(-1, -2)) * condition_numbers(scale) <= 3e3
    return np.where(held[:, None, None], x, middle)


def normal_wishart_values(rng: Rng, q: Member) -> tuple:
    precision = wishart_values(rng, q)
    factor = np.linalg.inv(np.linalg.cholesky(precision)).swapaxes(-1, -2)
    return q["location"] + offset(rng, factor, 2 / np.sqrt(np.float64(q["strength"]))), precision


def normals_wishart_values(rng: Rng, q: Member) -> tuple:
    precision = wishart_values(rng, q)
    factor = np.linalg.inv(np.linalg.cholesky(precision)).swapaxes(-1, -2)
    moved = [offset(rng, factor, 2 / np.sqrt(np.float64(q["strength"][:, j]))) for j in range(2)]
    return q["location"] + np.stack(moved, 1), precision


def precisions(rng: Rng, q: Member) -> np.ndarray:
    return np.maximum(rng.gamma(np.float64(q["shape"])), 1e-20) / q["rate"]


def normal_gamma_values(rng: Rng, q: Member) -> tuple:
    tau = precisions(rng, q)
    return q["location"] + rng.normal(size=tau.shape) / np.sqrt(q["strength"] * tau), tau


def coefficient_values(rng: Rng, q: Member) -> tuple:
    tau = precisions(rng, q)
    factor = np.linalg.inv(np.linalg.cholesky(np.float64(q["strength"]))).swapaxes(-1, -2)
    return q["location"] + offset(rng, factor, 2 / np.sqrt(tau)), tau


# --- formulas -------------------------------------------------------------------------------------
def form(vector: list, matrix: Any) -> Any:
    column = mp.matrix(vector)
    return (column.T * mp.matrix(matrix) * column)[0]


def minus(x: list, y: list) -> list:
    return [a - b for a, b in zip(x, y, strict=True)]


def trace(matrix: Any) -> Any:
    return total(matrix[i, i] for i in range(matrix.rows))


def log_det(matrix: Any) -> Any:
    return mp.log(mp.det(mp.matrix(matrix)))


def inverse(matrix: Any) -> Any:
    return mp.matrix(matrix) ** -1


def normal_divergence(cov: Any, precision: Any, shift: list) -> Any:
    """Of N(m, cov) from N(m', precision^-1)."""
    ratio = mp.matrix(precision) * mp.matrix(cov)
    return (trace(ratio) - DIM - log_det(ratio) + form(shift, precision)) / 2


def normal_log_prob(shift: list, precision: Any) -> Any:
    return (log_det(precision) - DIM * mp.log(2 * mp.pi) - form(shift, precision)) / 2


def normal_kl(q: Member, p: Member) -> Any:
    return normal_divergence(q["cov"], inverse(p["cov"]), minus(q["mean"], p["mean"]))


def scalars(rng: Rng, size: int) -> Member:
    variance = log_uniform(1e-4, 1e8)(rng, size)
    spreads = rng.choice([-1.0, 1.0], size) * log_uniform(1e-2, 1e3)(rng, size)
    return {"mean": spreads * np.sqrt(variance), "variance": variance}


def near_scalars(rng: Rng, q: Member) -> Member:
    sd = np.sqrt(np.float64(q["variance"]))
    return {
        "mean": q["mean"] + 0.03 * sd,
        "variance": q["variance"] * (1 + 1e-3 * rng.uniform(-1, 1, len(sd))),
    }


def scalar_values(rng: Rng, q: Member) -> np.ndarray:
    return q["mean"] + np.sqrt(q["variance"]) * rng.normal(size=len(q["mean"]))


def scalar_kl(q: Member, p: Member) -> Any:
    ratio = q["variance"] / p["variance"]
    return (ratio - 1 - mp.log(ratio) + (q["mean"] - p["mean"]) ** 2 / p["variance"]) / 2


def wishart_parts(q: Member) -> tuple:
    """n, P, A, E[X] and E[log|X|]."""
    n, scale = q["degrees"] / 2, mp.matrix(q["scale"])
    shapes = [n - mp.mpf(i) / 2 for i in range(DIM)]
    log_rate = -log_det(scale) - DIM * mp.log(2)
    level = (
        total(map(mp.loggamma, shapes)) + mp.mpf(DIM * (DIM - 1)) / 4 * mp.log(mp.pi) - n * log_rate
    )
    return n, inverse(scale) / 2, level, 2 * n * scale, total(map(mp.digamma, shapes)) - log_rate


def wishart_kl(q: Member, p: Member) -> Any:
    n, rate, level, mean, mean_log = wishart_parts(q)
    n2, rate2, level2, _, _ = wishart_parts(p)
    return (n - n2) * mean_log - trace((rate - rate2) * mean) - level + level2


def wishart_entropy(q: Member) -> Any:
    n, _, level, _, mean_log = wishart_parts(q)
    return level + n * DIM - (n - mp.mpf(DIM + 1) / 2) * mean_log


def wishart_log_prob(x: Any, q: Member) -> Any:
    n, rate, level, _, _ = wishart_parts(q)
    return (n - mp.mpf(DIM + 1) / 2) * log_det(x) - trace(rate * mp.matrix(x)) - level


def of_inverse(q: Member) -> Member:
    return {"degrees": q["degrees"], "scale": inverse(q["scale"])}


def inverse_wishart_entropy(q: Member) -> Any:
    return wishart_entropy(of_inverse(q)) - (DIM + 1) * wishart_parts(of_inverse(q))[-1]


def normal_wishart_kl(q: Member, p: Member) -> Any:
    mean, shift = wishart_parts(q)[3], minus(q["location"], p["location"])
    ratio = p["strength"] / q["strength"]
    of_mean = DIM * (ratio - 1 - mp.log(ratio)) + p["strength"] * form(shift, mean)
    return wishart_kl(q, p) + of_mean / 2


def normal_wishart_entropy(q: Member) -> Any:
    mean_log = DIM * mp.log(q["strength"]) + wishart_parts(q)[-1]
    return wishart_entropy(q) + (DIM * (1 + mp.log(2 * mp.pi)) - mean_log) / 2


def normal_wishart_log_prob(x: Any, q: Member) -> Any:
    mean, precision = x
    return wishart_log_prob(precision, q) + normal_log_prob(
        minus(mean, q["location"]), q["strength"] * mp.matrix(precision)
    )


def one_mean(q: Member, j: int) -> Member:
    return {**q, "location": q["location"][j], "strength": q["strength"][j]}


def normals_wishart_kl(q: Member, p: Member) -> Any:
    return total(normal_wishart_kl(one_mean(q, j), one_mean(p, j)) for j in range(2)) - wishart_kl(
        q, p
    )


def normals_wishart_entropy(q: Member) -> Any:
    return total(normal_wishart_entropy(one_mean(q, j)) for j in range(2)) - wishart_entropy(q)


def normals_wishart_log_prob(x: Any, q: Member) -> Any:
    means, precision = x
    each = [normal_wishart_log_prob((means[j], precision), one_mean(q, j)) for j in range(2)]
    return total(each) - wishart_log_prob(precision, q)


def normal_gamma_kl(q: Member, p: Member) -> Any:
    ratio, tau = p["strength"] / q["strength"], q["shape"] / q["rate"]
    shift = p["strength"] * tau * (q["location"] - p["location"]) ** 2
    return gamma_kl(q, p) + (ratio - 1 - mp.log(ratio) + shift) / 2


def mean_log_precision(q: Member) -> Any:
    return mp.digamma(q["shape"]) - mp.log(q["rate"])


def normal_gamma_entropy(q: Member) -> Any:
    return (
        gamma_entropy(q)
        + (1 + mp.log(2 * mp.pi) - mp.log(q["strength"]) - mean_log_precision(q)) / 2
    )


def normal_gamma_log_prob(x: Any, q: Member) -> Any:
    mean, tau = x
    precision = q["strength"] * tau
    of_mean = (mp.log(precision / (2 * mp.pi)) - precision * (mean - q["location"]) ** 2) / 2
    return gamma_log_prob(tau, q) + of_mean


def coefficients_kl(q: Member, p: Member) -> Any:
    shift = form(minus(q["location"], p["location"]), p["strength"]) * q["shape"] / q["rate"]
    of_w = normal_divergence(inverse(q["strength"]), p["strength"], [mp.mpf(0)] * DIM)
    return gamma_kl(q, p) + of_w + shift / 2


def coefficients_entropy(q: Member) -> Any:
    of_w = DIM * (1 + mp.log(2 * mp.pi) - mean_log_precision(q)) - log_det(q["strength"])
    return gamma_entropy(q) + of_w / 2


def coefficients_log_prob(x: Any, q: Member) -> Any:
    w, tau = x
    return gamma_log_prob(tau, q) + normal_log_prob(
        minus(w, q["location"]), tau * mp.matrix(q["strength"])
    )


GAUSSIAN: dict[str, Oracle] = {
    "normal": Oracle(
        Normal.from_mean_variance,
        "variance from 1e-4 to 1e8, |mean| up to 1e3 standard deviations",
        members=scalars,
        values=scalar_values,
        kl=scalar_kl,
        entropy=lambda q: (1 + mp.log(2 * mp.pi * q["variance"])) / 2,
        log_prob=lambda x, q: (
            -(mp.log(2 * mp.pi * q["variance"]) + (x - q["mean"]) ** 2 / q["variance"]) / 2
        ),
        near=near_scalars,
    ),
    "multivariate_normal": Oracle(
        MultivariateNormal.from_mean_cov,
        "condition number of the correlations, and |mean| / sd times it, up to 3e3",
        members=normals(3e3, 3e3),
        values=normal_values,
        kl=normal_kl,
        entropy=lambda q: (DIM * (1 + mp.log(2 * mp.pi)) + log_det(q["cov"])) / 2,
        log_prob=lambda x, q: normal_log_prob(minus(x, q["mean"]), inverse(q["cov"])),
        near=near_normals,
    ),
    "wishart": Oracle(
        Wishart.from_degrees_scale,
        "degrees up to 1e4, condition number of the scale's correlations times sqrt(degrees) up "
        "to 3e3",
        members=wisharts(3e3),
        values=wishart_values,
        kl=wishart_kl,
        entropy=wishart_entropy,
        log_prob=wishart_log_prob,
        near=near_wisharts,
    ),
    "inverse_wishart": Oracle(
        InverseWishart.from_degrees_scale,
        "as of the Wishart; densities where the condition number of the ratio of value and scale, "
        "times that of the "
        "scale's correlations, is up to 3e3",
        members=wisharts(3e3),
        values=inverse_values,
        kl=lambda q, p: wishart_kl(of_inverse(q), of_inverse(p)),
        entropy=inverse_wishart_entropy,
        log_prob=lambda x, q: wishart_log_prob(inverse(x), of_inverse(q)) - (DIM + 1) * log_det(x),
        near=near_wisharts,
    ),
    "normal_wishart": Oracle(
        NormalWishart.from_parameters,
        "as of the Wishart, up to 1e3; strength from 1e-4 to 1e4, |location| in its own spreads "
        "up to 50 over the root "
        "of the condition number times sqrt(degrees)",
        members=normal_wisharts,
        values=normal_wishart_values,
        kl=normal_wishart_kl,
        entropy=normal_wishart_entropy,
        log_prob=normal_wishart_log_prob,
        near=near_normal_wisharts,
    ),
    "normals_wishart": Oracle(
        NormalsWishart.from_parameters,
        "as of the normal-Wishart, of two means",
        members=normals_wisharts,
        values=normals_wishart_values,
        kl=normals_wishart_kl,
        entropy=normals_wishart_entropy,
        log_prob=normals_wishart_log_prob,
        near=near_normal_wisharts,
    ),
    "normal_gamma": Oracle(
        NormalGamma.from_parameters,
        "strength and rate from 1e-4 to 1e4, shape from 1e-2 to 1e3, |location| up to 50 (1 + "
        "shape)^-1/4 "
        "sqrt(rate / strength)",
        members=normal_gammas,
        values=normal_gamma_values,
        kl=normal_gamma_kl,
        entropy=normal_gamma_entropy,
        log_prob=normal_gamma_log_prob,
    ),
    "multivariate_normal_gamma": Oracle(
        MultivariateNormalGamma.from_parameters,
        "condition number of the strength's correlations up to 1e4, shape, rate and |location| in "
        "spreads as of the "
        "normal-gamma, the latter over the root of the condition number",
        members=coefficients,
        values=coefficient_values,
        kl=coefficients_kl,
        entropy=coefficients_entropy,
        log_prob=coefficients_log_prob,
        near=near_coefficients,
    ),
}


def wider(name: str, members: Callable[[Rng, int], Member]) -> Oracle:
    return dataclasses.replace(GAUSSIAN[name], members=members)


def far_off(members: Callable[[Rng, int], Member], name: str) -> Callable[[Rng, int], Member]:
    """The same with locations up to 1e4 times as far."""

    def moved(rng: Rng, size: int) -> Member:
        q = members(rng, size)
        by = log_uniform(1, 1e4)(rng, size)
        return {**q, name: np.einsum("n...,n->n...", q[name], by)}

    return moved


WIDER = {
    "multivariate_normal": wider("multivariate_normal", normals(1e6, 1e6)),
    "wishart": wider("wishart", wisharts(1e7)),
    "normal_wishart": wider("normal_wishart", far_off(normal_wisharts, "location")),
    "normals_wishart": wider("normals_wishart", far_off(normals_wisharts, "location")),
    "normal_gamma": wider("normal_gamma", far_off(normal_gammas, "location")),
    "multivariate_normal_gamma": wider(
        "multivariate_normal_gamma", far_off(coefficients, "location")
    ),
}
"""Members of which many are beyond what float32 holds."""

"""Fits every polynomial of `vijax/families/numeric/coefficients.py` and of
`vijax/xla/native/coefficients.h`, and writes them.

It needs scipy and mpmath, and takes seconds.

    python benchmarks/fit_coefficients.py            # prints each fit's largest error, rewrites the tables
    python benchmarks/fit_coefficients.py --dry-run  # prints only

Each fit is a weighted minimax fit by iteratively reweighted least squares in a Chebyshev basis,
converted to the monomials that Horner's rule wants. All variables lie in [-1, 1] or [0, 1], so the
monomials do no harm in float32."""

from __future__ import annotations

import argparse
from pathlib import Path

import mpmath
import numpy as np
import scipy.special
from numpy.polynomial import chebyshev, polynomial

TABLES = Path(__file__).parents[1] / "vijax" / "families" / "coefficients.py"
OF_KERNELS = Path(__file__).parents[1] / "vijax" / "native" / "coefficients.h"


# --- the fitter -----------------------------------------------------------------------------------
def minimax(
    basis: np.ndarray, target: np.ndarray, weight: np.ndarray, sweeps: int = 60
) -> tuple[np.ndarray, float]:
    """Coefficients that nearly minimise max |weight (basis c - target)|, and that maximum (Lawson's
    algorithm)."""
    emphasis = np.ones_like(target)
    best_coefficients, best = np.zeros(basis.shape[1]), np.inf
    for _ in range(sweeps):
        w = weight * np.sqrt(emphasis)
        c = np.linalg.lstsq(basis * w[:, None], target * w, rcond=1e-16)[0]
        error = np.abs((basis @ c - target) * weight)
        if error.max() < best:
            best_coefficients, best = c, error.max()
        emphasis *= (error / error.max()) ** 0.7 + 1e-3
        emphasis /= emphasis.mean()
    return best_coefficients, best


def fit_on_unit_interval(
    y: np.ndarray, f: np.ndarray, degree: int, lead: int = 0, weight: np.ndarray | None = None
):
    """Monomial coefficients p of f(y) ~ y^lead p(y) on [0, 1]."""
    basis = chebyshev.chebvander(2 * y - 1, degree) * y[:, None] ** lead
    c, error = minimax(basis, f, np.ones_like(f) if weight is None else weight)
    return compose_affine(chebyshev.cheb2poly(c), -1.0, 2.0), error


def compose_affine(p: np.ndarray, shift: float, scale: float) -> np.ndarray:
    """Coefficients of p(shift + scale y) in y."""
    total, power = np.zeros(1), np.ones(1)
    for c in p:
        total, power = (
            polynomial.polyadd(total, c * power),
            polynomial.polymul(power, [shift, scale]),
        )
    return total


# --- special functions: remainders after the logarithms, in y = 1 / (1 + x) -----------------------
def special_function_tables() -> dict[str, tuple[np.ndarray, float]]:
    y = np.sort(
        np.r_[
            0.5 - 0.5 * np.cos(np.pi * (np.arange(400) + 0.5) / 400),
            10.0 ** np.linspace(-6, -2, 60),
        ]
    )
    x = [(1 - mpmath.mpf(float(t))) / mpmath.mpf(float(t)) for t in y]
    half, log_two_pi = mpmath.mpf("0.5"), mpmath.log(2 * mpmath.pi)
    values = lambda f: np.array([float(f(v)) for v in x])

    stirling = values(
        lambda v: mpmath.loggamma(1 + v) - (v + half) * (mpmath.log(v + half) - 1) - log_two_pi / 2
    )
    digamma = values(lambda v: mpmath.digamma(1 + v) - mpmath.log(v + half))
    gap = values(
        lambda v: (
            mpmath.loggamma(1 + v) + 1 + v * (1 - mpmath.digamma(1 + v)) - mpmath.log(v + half) / 2
        )
    )
    trigamma = values(lambda v: (1 - v * mpmath.psi(1, 1 + v)) * (1 + v))
    return {
        "LOG_GAMMA": fit_on_unit_interval(y, stirling, degree=5, lead=1),
        "DIGAMMA": fit_on_unit_interval(y, digamma, degree=6, lead=2),
        "LEGENDRE_GAP": fit_on_unit_interval(y, gap, degree=8),
        "TRIGAMMA": fit_on_unit_interval(y, trigamma, degree=8),
    }


# --- the normal quantile: n = u P(x), u = 1 - 2p, w = -log(1 - u^2), x = sqrt(2 + w) mapped to [-1,
NORMAL_RANGE = (2.0**0.5, 4.8)  # of sqrt(2 + w), for p down to 2^-33


def normal_table(degree: int = 13) -> tuple[np.ndarray, float]:
    low, high = NORMAL_RANGE
    v = low + (high - low) * np.sort(
        np.r_[np.linspace(1e-4, 1, 3000), 0.5 - 0.5 * np.cos(np.linspace(0.03, np.pi, 2000))]
    )
    w = v**2 - 2
    u = np.sqrt(-np.expm1(-w))
    tail = np.exp(-w) / (2 * (1 + u))
    ratio = -scipy.special.ndtri(tail) / u
    c, error = minimax(
        chebyshev.chebvander(2 * (v - low) / (high - low) - 1, degree), ratio, 1 / ratio
    )
    return chebyshev.cheb2poly(c), error


# --- the elasticity G = a d log x / d a of a gamma quantile ---------------------------------------
def quadrature_derivative(a: np.ndarray, log_x: np.ndarray) -> np.ndarray:
    """d log x / d a at fixed quantile, by the trapezium rule in a doubly exponential variable
    (float64)."""
    tau = np.arange(-4.2, 4.3, 0.03)
    nodes = np.exp(tau - np.exp(-tau))
    weights = nodes * (1 + np.exp(-tau)) * 0.03
    x, gap = np.exp(log_x), log_x - scipy.special.digamma(a)
    side = np.where(
        gap < 0, -1.0, 1.0
    )  # integrate the tail on the quantile's own side: no cancellation
    scale = np.minimum(
        1 / np.maximum(np.sqrt(np.maximum(a, x)), np.abs(a - x)), 1 / np.sqrt(np.maximum(a, 1e-3))
    )
    s = scale[:, None] * nodes
    with np.errstate(over="ignore", invalid="ignore"):
        y = side[:, None] * s
        f = np.exp(a[:, None] * y - x[:, None] * np.expm1(np.minimum(y, 700))) * (
            np.abs(gap)[:, None] + s
        )
    return (np.where(np.isfinite(f), f, 0.0) @ weights) * scale


def elasticity(a: np.ndarray, log_x: np.ndarray) -> np.ndarray:
    """G(a, x): direct above the mean of log x, by the recurrence G = x g(a + 1) + psi(a + 1) - log
    x below it."""
    psi = scipy.special.digamma(a + 1)
    shifted = np.exp(log_x) * quadrature_derivative(a + 1, np.maximum(log_x, -600)) + psi - log_x
    direct = a * quadrature_derivative(a, np.maximum(log_x, -600))
    return np.where(log_x < psi, shifted, direct)


def log_quantile(a: float, p: float) -> float:
    """Lower quantile in log space, by the leading term of the distribution function where it
    underflows."""
    leading = (np.log(p) + scipy.special.gammaln(a + 1)) / a
    return leading if leading < -40 else float(np.log(scipy.special.gammaincinv(a, p)))


def elasticity_grid(shapes: int = 84, quantiles: int = 70) -> tuple[np.ndarray, np.ndarray]:
    """(shape, log x) pairs between the quantiles 1e-9 and 1 - 1e-10, dense at both ends of each
    axis."""
    chebyshev_points = lambda n: 0.5 - 0.5 * np.cos(np.pi * np.arange(n) / (n - 1))
    s = np.r_[
        (chebyshev_points(shapes + 2))[1:-1],
        1 - 10 ** np.linspace(-6, -2.5, 12) * 6,
        10 ** np.linspace(-7, -3, 30) * 6,
    ]
    a_values = np.maximum((2 / 3) / s - 2 / 3, 1e-6)
    a, log_x = [], []
    for a_value in a_values:
        low = max(log_quantile(a_value, 1e-9), -60.0)
        high = (
            float(np.log(scipy.special.gammainccinv(a_value, 1e-10)))
            if a_value > 1e-5
            else np.log(15.0)
        )
        high = max(high, np.log(3.0)) if a_value < 0.1 else high
        d = a_value + 2 / 3
        v_low, v_high = np.exp((low - np.log(d)) / 3), np.exp((high - np.log(d)) / 3)
        v = v_low + (v_high - v_low) * chebyshev_points(quantiles)
        a.append(np.full(quantiles, a_value))
        log_x.append(np.log(d) + 3 * np.log(v))
    return np.concatenate(a), np.concatenate(log_x)


def logarithm_table(degree: int = 7) -> tuple[np.ndarray, float]:
    """(log(1 + f) - f + f^2 / 2) / f^3 for |f| <= 1/3, weighted by f^2: what is then the relative
    error of log(1 + f). A compiler has no vector logarithm to offer."""
    f = np.cos(np.pi * (np.arange(400) + 0.5) / 400) / 3
    values = np.array(
        [
            float((mpmath.log1p(mpmath.mpf(v)) - v + mpmath.mpf(v) ** 2 / 2) / mpmath.mpf(v) ** 3)
            for v in f
        ]
    )
    c, error = minimax(chebyshev.chebvander(3 * f, degree), values, f**2)
    return compose_affine(chebyshev.cheb2poly(c), 0.0, 3.0), error


ELASTICITY_RADIUS = 1.9


LINEAR_IN_T, LINEAR_IN_S = 1.5, -0.25  # dK/dt and dK/ds at t = s = 0, from Stirling's series


def elasticity_table(
    i_max: int = 16, j_max: int = 6, total: float = 1.2
) -> tuple[np.ndarray, float]:
    """K(t, s) - 1 = G + L - 1 with t = exp(L / 3) - 1, s = (2/3) / d, as coefficients of s^j x^i, x
    = t / 1.9.

    Its constant and linear terms are pinned to their exact values, and the error weighted by sqrt(1
    + a) / G, so that w g - 1, which is of size 1 / sqrt(a), is right to a relative error that does
    not grow with a."""
    a, log_x = elasticity_grid()
    g = elasticity(a, log_x)
    d = a + 2 / 3
    offset = log_x - np.log(d)
    t, s = np.expm1(offset / 3), (2 / 3) / d
    x = t / ELASTICITY_RADIUS
    terms = [
        (i, j)
        for i in range(i_max + 1)
        for j in range(j_max + 1)
        if i + j > 1 and i / i_max + j / j_max <= total
    ]
    columns = [
        polynomial.polyval(x, in_x) * polynomial.polyval(s, in_s)
        for in_x, in_s in map(basis_term, terms)
    ]
    target = g + offset - 1 - LINEAR_IN_T * t - LINEAR_IN_S * s
    c, error = minimax(np.stack(columns, 1), target, np.sqrt(1 + a) / g, sweeps=40)

    table = np.zeros((j_max + 1, i_max + 1))
    table[0, 1], table[1, 0] = LINEAR_IN_T * ELASTICITY_RADIUS, LINEAR_IN_S
    for term, value in zip(terms, c, strict=True):
        in_x, in_s = basis_term(term)
        table[: len(in_s), : len(in_x)] += value * np.outer(in_s, in_x)
    return table, error


def basis_term(term: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Monomial coefficients in x and in s of a product of Chebyshev-like factors without constant
    or linear terms."""
    i, j = term
    in_x = chebyshev.cheb2poly(np.eye(i + 1)[i])
    in_s = compose_affine(chebyshev.cheb2poly(np.eye(max(j, 1))[-1]), -1.0, 2.0)
    if j == 0:
        in_x[:2] = 0.0
    if j > 0:
        in_s = polynomial.polymul([0.0, 1.0], in_s)
    if i == 0:
        in_s[:2] = 0.0
    return in_x, in_s


# --- writing --------------------------------------------------------------------------------------
HEADER = '''"""Polynomial tables of `special.py` and `pathwise.py`: constant term first.

Written by `benchmarks/fit_coefficients.py`, which says what each table approximates and how well; do not edit.
"""

# fmt: off
'''


def literal(name: str, table: np.ndarray) -> str:
    row = lambda r: "(" + ", ".join(f"{c:.10g}" for c in r) + ")"
    if table.ndim == 1:
        return f"{name} = {wrap(row(table), used=len(name) + 3)}\n"
    rows = [
        "    " + wrap(row(np.trim_zeros(np.where(np.abs(r) > 1e-12, r, 0.0), "b")), indent=5)
        for r in table
    ]
    return f"{name} = (\n" + ",\n".join(rows) + ",\n)\n"


OF_KERNELS_HEADER = """// Polynomials of gammas.cc: constant term first.
//
// Written by benchmarks/fit_coefficients.py, which says what each table approximates and how well; do not edit.
#pragma once

"""


def literal_of_kernels(name: str, table: np.ndarray) -> str:
    numbers = ", ".join(f"{c:.10g}f" for c in table)
    return f"constexpr float {name}[] = {{\n    {wrap(numbers)}}};\n"


def wrap(text: str, indent: int = 4, used: int = 0, width: int = 116) -> str:
    """Broken at spaces; `used` columns of the first line are taken."""
    lines, line = [], ""
    for word in text.split(" "):
        if len(line) + len(word) + (indent if lines else max(indent, used)) > width:
            lines, line = [*lines, line.rstrip()], ""
        line += word + " "
    return ("\n" + " " * indent).join([*lines, line.rstrip()])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the errors without rewriting the tables"
    )
    arguments = parser.parse_args()
    mpmath.mp.dps = 40
    normal, logarithm = normal_table(), logarithm_table()
    tables = special_function_tables() | {
        "NORMAL_QUANTILE": normal,
        "ELASTICITY": elasticity_table(),
    }
    of_kernels = {"NORMAL_QUANTILE": normal, "LOGARITHM": logarithm}
    for name, (table, error) in (tables | of_kernels).items():
        print(
            f"{name:16s} {table.size:3d} coefficients, largest {np.abs(table).max():.3g}, "
            f"weighted error {error:.1e}"
        )
    if not arguments.dry_run:
        TABLES.write_text(
            HEADER + "".join(literal(name, table) for name, (table, _) in tables.items())
        )
        written = "".join(
            literal_of_kernels(name, table) for name, (table, _) in of_kernels.items()
        )
        OF_KERNELS.write_text(OF_KERNELS_HEADER + written)


if __name__ == "__main__":
    main()

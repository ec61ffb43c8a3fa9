"""The registry of likelihoods: one row each, with its derivatives by hand and in SciPy. Every row's
density, expectations, support and settings are checked
(tests/inference/likelihood/test_likelihood.py and
tests/inference/expectation/test_expectation.py)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from vijax.inference import likelihood

LOG_SIGMA = special.log_expit
SIGMA = special.expit
CUTS = np.array([-1.5, 0.2, 2.0])
NU, S, R, K, S2 = 4.0, 0.7, 2.5, 3.5, 0.3


class Row(NamedTuple):
    make: Callable[[], likelihood.Likelihood]
    observations: Sequence[float]
    by_hand: Callable[[Any, Any], tuple[Any, Any, Any]]
    """(y, z) -> (l, l', l'')."""
    bends: Callable[[Any], list]
    """Where l bends."""
    outside: tuple[Sequence[float], str]
    """Observations of which one is out of place, and what is said of it."""
    variances: Sequence[float] = 10.0 ** np.arange(-6, 7, 3)
    """Of the predictor; small where E[l] grows exponentially with it."""
    invalid: tuple[tuple[Callable[[], Any], str], ...] = ()
    """Settings that are refused, and the argument that is named."""


def logit(y, z):
    return LOG_SIGMA(y * z), y * SIGMA(-y * z), -SIGMA(z) * SIGMA(-z)


def probit(y, z):
    value = special.log_ndtr(y * z)
    t = -y * z
    ratio = np.sqrt(2 / np.pi) / special.erfcx(t / np.sqrt(2))
    far = np.maximum(t, 300)
    gap = np.where(
        t > 300, 1 / far - 2 / far**3 + 10 / far**5, ratio - t
    )  # the difference would cancel
    return value, y * ratio, -ratio * gap


def ordinal(y, z):
    a, b = np.concatenate([[-np.inf], CUTS, [np.inf]])[[y, y + 1]]
    value = LOG_SIGMA(b - z) + LOG_SIGMA(z - a) + np.log(-np.expm1(a - b))
    p, q = SIGMA(b - z), SIGMA(z - a)
    return value, (1 - q) - (1 - p), -p * (1 - p) - q * (1 - q)


def poisson(y, z):
    return stats.poisson.logpmf(y, np.exp(z)), y - np.exp(z), -np.exp(z)


def negative_binomial(y, z):
    p = SIGMA(z - np.log(R))
    value = y * LOG_SIGMA(z - np.log(R)) + R * LOG_SIGMA(np.log(R) - z)
    value += special.gammaln(y + R) - special.gammaln(R) - special.gammaln(y + 1)
    return value, y - (y + R) * p, -(y + R) * p * (1 - p)


def gaussian(y, z):
    return stats.norm.logpdf(y, z, np.sqrt(S2)), (y - z) / S2, -1 / S2


def gamma(y, z):
    return (
        stats.gamma.logpdf(y, K, scale=np.exp(z) / K),
        K * (y * np.exp(-z) - 1),
        -K * y * np.exp(-z),
    )


def student(y, z):
    u = (z - y) / S
    return (
        stats.t.logpdf(y, NU, z, S),
        -(NU + 1) * u / (NU + u**2) / S,
        -(NU + 1) * (NU - u**2) / (NU + u**2) ** 2 / S**2,
    )


LIKELIHOODS = {
    "bernoulli_logit": Row(
        likelihood.bernoulli_logit,
        [1, -1],
        logit,
        lambda y: [0.0],
        ([1, -1, 0], r"y: bernoulli_logit expects labels -1 or \+1 .*2\*y - 1.*, got 0 at site 2"),
    ),
    "bernoulli_probit": Row(
        likelihood.bernoulli_probit, [1, -1], probit, lambda y: [0.0], ([2, -1], "got 2 at site 0")
    ),
    "ordinal_logit": Row(
        functools.partial(likelihood.ordinal_logit, CUTS),
        [0, 2, 3],
        ordinal,
        lambda y: list(CUTS),
        ([0, 3, 4], "classes 0, ..., 3, got 4 at site 2"),
        invalid=((lambda: likelihood.ordinal_logit([1.0, 1.0]), "cutpoints"),),
    ),
    "poisson_log": Row(
        likelihood.poisson_log,
        [0, 3],
        poisson,
        lambda y: [],
        ([1.0, -1.0], "counts 0, 1, 2, .*got -1.0 at site 1"),
        variances=[1e-6, 1e-2, 4.0],
    ),
    "negative_binomial": Row(
        functools.partial(likelihood.negative_binomial, R),
        [0, 7],
        negative_binomial,
        lambda y: [np.log(R)],
        ([1.0, 1.5], "got 1.5 at site 1"),
        invalid=((lambda: likelihood.negative_binomial(0.0), "dispersion"),),
    ),
    "gaussian": Row(
        functools.partial(likelihood.gaussian, S2),
        [-0.4, 3.0],
        gaussian,
        lambda y: [],
        ([np.inf, 1.0], "finite numbers, got inf at site 0"),
        invalid=((lambda: likelihood.gaussian(-1.0), "variance"),),
    ),
    "gamma_log": Row(
        functools.partial(likelihood.gamma_log, K),
        [0.3, 4.0],
        gamma,
        lambda y: [np.log(y)],
        ([1.0, 0.0], "positive finite numbers, got 0.0 at site 1"),
        variances=[1e-6, 1e-2, 4.0],
        invalid=((lambda: likelihood.gamma_log(0.0), "shape"),),
    ),
    "student_t": Row(
        functools.partial(likelihood.student_t, NU, S),
        [-0.4, 3.0],
        student,
        lambda y: [y],
        ([1.0, np.nan], "finite numbers, got nan at site 1"),
        invalid=(
            (lambda: likelihood.student_t(-1.0, 1.0), "degrees"),
            (lambda: likelihood.student_t(1.0, 0.0), "scale"),
        ),
    ),
}

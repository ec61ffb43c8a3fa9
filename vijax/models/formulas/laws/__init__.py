"""Laws of a response given its predictor, by the names that Bambi and brms have for them.

`LAWS` lists them. Each is in the module of its kind: counts, amounts, shares, classes, angles.
"""

from __future__ import annotations

import numpy as np

from vijax.checks import require
from vijax.inference import likelihood
from vijax.models.formulas.laws import tails
from vijax.models.formulas.laws.amounts import (
    exponential,
    gamma,
    hurdle_gamma_mean,
    hurdle_lognormal_mean,
    lognormal,
    lognormal_mean,
    or_zero,
    wald,
    weibull,
)
from vijax.models.formulas.laws.angles import are_angles, mean_vector, von_mises
from vijax.models.formulas.laws.classes import (
    bernoulli,
    binomial,
    categorical,
    multinomial,
    named_probabilities,
    ordered_probabilities,
    stopping,
    stopping_probabilities,
)
from vijax.models.formulas.laws.counts import (
    are_counts,
    hurdle,
    inflated_mean,
    mean_of_hurdle,
    negative_binomial,
    poisson,
    with_zeros,
)
from vijax.models.formulas.laws.law import Aux, Law
from vijax.models.formulas.laws.quantiles import asymmetric_laplace, asymmetric_laplace_tails
from vijax.models.formulas.laws.shares import (
    beta,
    beta_binomial,
    inflated_share,
    zero_inflated_binomial,
)

__all__ = ["LAWS", "SUPPORTS", "Aux", "Law", "find_law"]

_COUNTS = "counts 0, 1, 2, ..."
_SUCCESSES = "successes among trials, p(successes, trials) in the formula"
_POSITIVE = "positive numbers"
_AMOUNTS = "numbers that are not negative"
_NOT_ZERO = "the mean of {} where it is not zero"


def _are_successes(y: np.ndarray, trials: np.ndarray) -> np.ndarray:
    return are_counts(y, trials) & (y <= trials)


def _are_positive(y: np.ndarray, trials: np.ndarray) -> np.ndarray:
    return y > 0


def _are_amounts(y: np.ndarray, trials: np.ndarray) -> np.ndarray:
    return y >= 0


LAWS = {
    law.name: law
    for law in (
        Law(
            "gaussian",
            "identity",
            ("sigma",),
            "finite numbers",
            lambda y, n: np.isfinite(y),
            lambda aux, n: likelihood.gaussian(aux["sigma"] ** 2),
            is_location_scale=True,
            tails=tails.normal,
        ),
        Law(
            "t",
            "identity",
            ("sigma", "nu"),
            "finite numbers",
            lambda y, n: np.isfinite(y),
            lambda aux, n: likelihood.student_t(aux["nu"], aux["sigma"]),
            is_location_scale=True,
            tails=tails.student_t,
        ),
        Law(
            "bernoulli",
            "logit",
            (),
            "0 and 1, or two categories",
            lambda y, n: np.isin(y, (0, 1)),
            bernoulli,
        ),
        Law(
            "binomial",
            "logit",
            (),
            _SUCCESSES,
            _are_successes,
            binomial,
            takes_trials=True,
        ),
        Law("poisson", "log", (), _COUNTS, are_counts, poisson, tails=tails.poisson),
        Law(
            "negativebinomial",
            "log",
            ("alpha",),
            _COUNTS,
            are_counts,
            negative_binomial,
            tails=tails.negative_binomial,
        ),
        Law(
            "zero_inflated_poisson",
            "log",
            ("psi",),
            _COUNTS,
            are_counts,
            with_zeros(poisson),
            mean_function=inflated_mean,
        ),
        Law(
            "zero_inflated_negativebinomial",
            "log",
            ("alpha", "psi"),
            _COUNTS,
            are_counts,
            with_zeros(negative_binomial),
            mean_function=inflated_mean,
        ),
        Law(
            "hurdle_poisson",
            "log",
            ("psi",),
            _COUNTS,
            are_counts,
            hurdle(poisson),
            mean_function=mean_of_hurdle,
            is_cut=True,
        ),
        Law(
            "hurdle_negativebinomial",
            "log",
            ("alpha", "psi"),
            _COUNTS,
            are_counts,
            hurdle(negative_binomial),
            mean_function=mean_of_hurdle,
            is_cut=True,
        ),
        Law(
            "cumulative",
            "logit",
            ("threshold",),
            "two ordered categories or more",
            lambda y, n: are_counts(y, n) & (y.max() > 0),
            lambda aux, n: likelihood.ordinal_logit(aux["threshold"]),
            mean_function=ordered_probabilities,
            categories="ordered",
        ),
        Law(
            "sratio",
            "logit",
            ("threshold",),
            "two ordered categories or more",
            lambda y, n: are_counts(y, n) & (y.max() > 0),
            stopping,
            mean_function=stopping_probabilities,
            categories="ordered",
        ),
        Law(
            "categorical",
            "softmax",
            (),
            "two categories or more",
            lambda y, n: are_counts(y, n) & (y.max() > 0),
            categorical,
            mean_function=named_probabilities,
            categories="named",
        ),
        Law(
            "multinomial",
            "softmax",
            (),
            "counts by category, c(y1, y2, ...) in the formula",
            lambda y, n: y >= 0,
            multinomial,
            mean_function=named_probabilities,
            categories="named",
            takes_trials=True,
        ),
        Law(
            "gamma",
            "log",
            ("alpha",),
            _POSITIVE,
            _are_positive,
            gamma,
            tails=tails.gamma,
        ),
        Law(
            "beta",
            "logit",
            ("kappa",),
            "numbers inside (0, 1)",
            lambda y, n: (y > 0) & (y < 1),
            beta,
        ),
        Law(
            "beta_binomial",
            "logit",
            ("kappa",),
            _SUCCESSES,
            _are_successes,
            beta_binomial,
            takes_trials=True,
        ),
        Law(
            "zero_inflated_binomial",
            "logit",
            ("psi",),
            _SUCCESSES,
            _are_successes,
            zero_inflated_binomial,
            mean_function=inflated_share,
            takes_trials=True,
        ),
        Law(
            "zero_inflated_beta",
            "logit",
            ("kappa", "psi"),
            "numbers from 0 to below 1",
            lambda y, n: (y >= 0) & (y < 1),
            or_zero(beta),
            mean_function=inflated_share,
            location=_NOT_ZERO,
        ),
        Law(
            "exponential",
            "log",
            (),
            _POSITIVE,
            _are_positive,
            exponential,
            tails=tails.exponential,
        ),
        Law("weibull", "log", ("alpha",), _POSITIVE, _are_positive, weibull, tails=tails.weibull),
        Law("wald", "log", ("lam",), _POSITIVE, _are_positive, wald),
        Law(
            "lognormal",
            "log",
            ("sigma",),
            _POSITIVE,
            _are_positive,
            lognormal,
            mean_function=lognormal_mean,
            tails=tails.lognormal,
            location="the median of {}",
        ),
        Law(
            "vonmises",
            "tan_half",
            ("kappa",),
            "angles in radians from -pi to pi (degrees: numpy.deg2rad; others: "
            "numpy.angle(numpy.exp(1j * y)))",
            are_angles,
            von_mises,
            mean_function=mean_vector,
            location="the mean direction of {}",
        ),
        Law(
            "asymmetriclaplace",
            "identity",
            ("sigma",),
            "finite numbers",
            lambda y, n: np.isfinite(y),
            asymmetric_laplace,
            is_location_scale=True,
            tails=asymmetric_laplace_tails,
        ).with_quantile(0.5),
        Law(
            "hurdle_gamma",
            "log",
            ("alpha", "psi"),
            _AMOUNTS,
            _are_amounts,
            or_zero(gamma),
            mean_function=hurdle_gamma_mean,
            location=_NOT_ZERO,
        ),
        Law(
            "hurdle_lognormal",
            "log",
            ("sigma", "psi"),
            _AMOUNTS,
            _are_amounts,
            or_zero(lognormal),
            mean_function=hurdle_lognormal_mean,
            location="the median of {} where it is not zero",
        ),
    )
}
"""The laws by name. `sigma`: the standard deviation; of the logarithm in lognormal laws. `nu`:
degrees of freedom. `alpha`: r of counts with variance m + m^2 / r; the shape of gamma and Weibull
laws. `kappa`: the precision of the beta law, the concentration of angles. `lam`: the inverse
Gaussian has variance m^3 / lam. `psi`: the probability that a row is of the plain law
(zero-inflated), or that it is not zero (hurdle). `threshold`: the cutpoints of ordered
categories."""
QUANTILE_LAW = "asymmetriclaplace"
SUPPORTS = {"psi": "unit interval", "threshold": "ordered"}
"""Supports of parameters that are not positive numbers."""


def find_law(family: str, quantile: float | None = None) -> Law:
    """The law of a family; `quantile` is that of a quantile regression, None for its median.

    Raises:
      ValueError: a quantile of another family, or none inside (0, 1).

    >>> find_law("asymmetriclaplace", 0.9).location
    'the 0.9 quantile of {}'
    """
    law = LAWS[family]
    if quantile is None:
        return law
    expected = f'None, but for family "{QUANTILE_LAW}"'
    require(law.name == QUANTILE_LAW, "quantile", expected, quantile)
    is_inside = isinstance(quantile, float | int | np.number) and 0 < quantile < 1
    require(is_inside, "quantile", "a number inside (0, 1)", repr(quantile))
    return law.with_quantile(float(quantile))

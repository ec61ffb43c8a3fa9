"""Linear models and Gaussian processes behind the estimators. Their inputs are points of the model,
so that one program serves all data of about one size: rows of padding have features of zero, and no
effect."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from vijax.algorithms import pg_svi
from vijax.contract.model import Hyper
from vijax.families.base import as_float
from vijax.fitting.result import Fit
from vijax.inference import likelihood as likelihoods
from vijax.inference.expectation import exact
from vijax.inference.learning import learn
from vijax.inference.likelihood import Likelihood, bernoulli_logit
from vijax.inference.sites import FeatureForm, Prior
from vijax.models.regressions.kernels import find_kernel
from vijax.models.regressions.predictors import Predictors, predictors
from vijax.sklearn.parts.base import apply_by_row, size_with_padding
from vijax.sklearn.parts.rows import RowFit, fit_rows
from vijax.xla.by_value import cache_by_value

JITTER = 1e-6
"""Jitter on the diagonal of kernels, for a scale of about one."""


# --- observations ---------------------------------------------------------------------------------
class ObservationKind(NamedTuple):
    """One kind of observation."""

    make: Callable[[Mapping[str, Any]], Likelihood]  # hyperparameters -> p(y | z)
    start: Mapping[
        str, float
    ]  # the hyperparameters of its own that are learnt, with their first values
    # (m, v, hyperparameters) -> mean and variance of y where z ~ N(m, v)
    moments: Callable[[np.ndarray, np.ndarray, Mapping[str, float]], tuple[np.ndarray, np.ndarray]]
    is_real: bool  # y may be any number, and is measured in units of its spread


def _normal_moments(extra: Callable[[Mapping[str, float]], float]) -> Any:
    return lambda m, v, hyper: (m, v + extra(hyper))


def _rate_moments(extra: Callable[[np.ndarray, Mapping[str, float]], np.ndarray]) -> Any:
    """Moments for a mean e^z: E[e^z], its variance, and `extra`, E[variance of y given z] as a
    function of E[e^2z]."""

    def moments(
        m: np.ndarray, v: np.ndarray, hyper: Mapping[str, float]
    ) -> tuple[np.ndarray, np.ndarray]:
        mean, second = np.exp(m + 0.5 * v), np.exp(2 * m + 2 * v)
        return mean, second - mean**2 + extra(mean, second, hyper)  # type: ignore[call-arg]

    return moments


Observation = Literal["gaussian", "student_t", "poisson", "negative_binomial", "gamma"]
OBSERVATIONS: dict[str, ObservationKind] = {
    "gaussian": ObservationKind(
        lambda h: likelihoods.gaussian(h["noise"]),
        {"noise": 0.1},
        _normal_moments(lambda h: h["noise"]),
        True,
    ),
    "student_t": ObservationKind(
        lambda h: likelihoods.student_t(4.0, h["noise"]),
        {"noise": 0.3},
        _normal_moments(lambda h: 2.0 * h["noise"] ** 2),  # nu / (nu - 2) at nu = 4
        True,
    ),
    "poisson": ObservationKind(
        lambda h: likelihoods.poisson_log(),
        {},
        _rate_moments(lambda m, s, h: m),  # type: ignore[arg-type, misc]
        False,
    ),
    "negative_binomial": ObservationKind(
        lambda h: likelihoods.negative_binomial(h["dispersion"]),
        {"dispersion": 5.0},
        _rate_moments(lambda m, s, h: m + s / h["dispersion"]),  # type: ignore[arg-type, misc]
        False,
    ),
    "gamma": ObservationKind(
        lambda h: likelihoods.gamma_log(h["shape"]),
        {"shape": 2.0},
        _rate_moments(lambda m, s, h: s / h["shape"]),  # type: ignore[arg-type, misc]
        False,
    ),
}
"""The registry of `likelihood=` of the regressors."""


# --- models ---------------------------------------------------------------------------------------
class Inputs(NamedTuple):
    """The inputs of training, padded."""

    x: np.ndarray  # (N, D), with rows of zeros at the end
    real: np.ndarray  # 1 for a row, 0 for padding

    @classmethod
    def from_rows(cls, x: np.ndarray) -> Inputs:
        """Inputs padded with zeros."""
        size = size_with_padding(len(x))
        return cls(
            np.pad(x, [(0, size - len(x)), (0, 0)]), (np.arange(size) < len(x)).astype(float)
        )


@cache_by_value
def linear_model(num_sites: int, dim: int, observed: str) -> Predictors:
    """z = X w, w ~ N(0, prior_scale^2 I), of `OBSERVATIONS` or "bernoulli"."""
    scaled = lambda hyper, x: jnp.asarray(hyper["prior_scale"]) * jnp.asarray(x)
    return _model(
        num_sites,
        dim,
        observed,
        {"prior_scale": 1.0},
        lambda hyper: FeatureForm(scaled(hyper, hyper["inputs"].x * hyper["inputs"].real[:, None])),
        lambda hyper, new: (scaled(hyper, new), jnp.zeros(len(new))),
    )


@cache_by_value
def process(num_sites: int, dim: int, observed: str, kernel: Any, lengths: int) -> Predictors:
    """z ~ GP(0, kernel), of `OBSERVATIONS` or "bernoulli"; one length for all columns, or one for
    each."""
    kernel_of: Any = find_kernel(kernel) if isinstance(kernel, str) else lambda hyper: kernel
    hyper = (
        {"scale": 1.0, "length": np.ones(lengths) if lengths > 1 else 1.0}
        if isinstance(kernel, str)
        else {}
    )

    def factor(hyper: Hyper) -> Float[Array, "N N"]:
        x, real = hyper["inputs"]
        matrix = kernel_of(hyper)(x, x) * jnp.outer(real, real)
        return jnp.linalg.cholesky(matrix + jnp.diag(JITTER * real + 1.0 - real))

    def prior(hyper: Hyper) -> Prior:
        return FeatureForm(factor(hyper) * hyper["inputs"].real[:, None])

    def new(hyper: Hyper, new: Any) -> tuple[Any, Array]:
        (x, real), k = hyper["inputs"], kernel_of(hyper)
        known = solve_triangular(factor(hyper), k(x, new) * real[:, None], lower=True).T
        variance = jax.vmap(lambda one: k(one[None], one[None])[0, 0])(new)
        return known, jnp.maximum(variance - jnp.sum(known**2, 1), 0.0)

    own = lambda hyper, inputs: kernel_of(hyper)(inputs, inputs)
    return _model(num_sites, dim, observed, hyper, prior, new, own)


def _model(
    num_sites: int, dim: int, observed: str, hyper: dict, prior: Any, new: Any, own_of: Any = None
) -> Predictors:
    own = {} if observed == "bernoulli" else OBSERVATIONS[observed].start
    inputs = Inputs(np.zeros((num_sites, dim)), np.zeros(num_sites))

    def likelihood(hyper: Hyper, stats: Any) -> Likelihood:
        return bernoulli_logit() if observed == "bernoulli" else OBSERVATIONS[observed].make(hyper)

    return predictors(
        prior,
        likelihood,
        np.ones(num_sites),
        as_float,
        new,
        exact(),
        {**hyper, **own, "inputs": inputs},  # type: ignore[arg-type]
        own=own_of,
    )


WAIT = 5
"""Steps of the predictors alone, before hyperparameters move. At the prior their gradients are
hundreds of times as large as later, and Adam, which divides by the gradients of the last thousand
steps, would hardly move then."""


class _Waiting(NamedTuple):
    """The number of steps, and the state of Adam."""

    steps: Array
    adam: Any


@dataclasses.dataclass(frozen=True)
class _Init:
    """The start of Adam at a rate; unlike optax's own function it pickles, and equals another of
    the same rate."""

    rate: float

    def __call__(self, params: Any) -> Any:
        return _Waiting(jnp.zeros((), jnp.int32), optax.adam(self.rate).init(params))


@dataclasses.dataclass(frozen=True)
class _Update:
    """Adam from step `WAIT` on; it sees nothing of the steps before. See `_Init`."""

    rate: float

    def __call__(self, updates: Any, state: Any, params: Any = None) -> Any:
        moves, adam = optax.adam(self.rate).update(updates, state.adam, params)
        has_begun = state.steps >= WAIT
        moves = jax.tree.map(lambda x: jnp.where(has_begun, x, 0.0), moves)
        adam = jax.tree.map(lambda new, old: jnp.where(has_begun, new, old), adam, state.adam)
        return moves, _Waiting(state.steps + 1, adam)


def fit_predictors(
    model: Predictors,
    x: np.ndarray,
    y: np.ndarray,
    start: dict[str, Any],
    learnt: tuple[str, ...],
    key: Any,
    max_iter: int,
    tol: float,
    learning_rate: float,
    weights: np.ndarray | None = None,
) -> RowFit:
    """Fits the model to rows, which count by their weights: proximal-gradient steps, and gradient
    steps in the learnt hyperparameters."""
    adam = optax.GradientTransformation(_Init(learning_rate), _Update(learning_rate))
    more: Any = {"learn": learn(*learnt, optimizer=adam)} if learnt else {}
    data = {"site": np.arange(len(y), dtype=np.int32), "y": np.asarray(y, np.float64)}
    hyper = {name: np.asarray(value, np.float64) for name, value in start.items()} | {
        "inputs": Inputs.from_rows(x)
    }
    return fit_rows(
        pg_svi(model, **more),
        data,
        key,
        max_iter,
        tol,
        hyper=hyper,
        by_gradient=bool(learnt),
        weights=weights,
    )


def learnt_values(fit: Fit) -> dict[str, Any]:
    """The hyperparameters that the fit has learnt."""
    return {name: np.array(x) for name, x in fit.state.hyper.items() if name != "inputs"}


def predict_moments(fit: Fit, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the predictors of new inputs."""
    both = apply_by_row(lambda x: jnp.stack(_predict(fit, x), 1), x)
    return both[:, 0], both[:, 1]


def positive_probability(fit: Fit, x: np.ndarray) -> np.ndarray:
    """p(y = +1) of new inputs."""
    model: Any = fit.alg.spec.model
    return apply_by_row(
        lambda x: model.predictive(fit.posterior, x, np.ones(len(x)), fit.state.hyper), x
    )


def log_densities(fit: Fit, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """log p(y) of new observations."""
    model: Any = fit.alg.spec.model
    density = lambda data: model.predictive(fit.posterior, data[0], data[1], fit.state.hyper)
    return np.log(np.maximum(apply_by_row(density, (x, y)), 1e-300))


def _predict(fit: Fit, x: np.ndarray) -> tuple[Array, Array]:
    model: Any = fit.alg.spec.model
    return model.predict(fit.posterior, jnp.asarray(x), fit.state.hyper)

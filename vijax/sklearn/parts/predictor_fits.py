"""Linear models and Gaussian processes behind the estimators.

Their inputs are points of the model, so that one program serves all data of about one size. Rows of
padding have features of zero, and no effect."""

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
"""Number added to the diagonal of kernels, for a scale of about one."""


# --- observations ---------------------------------------------------------------------------------
class ObservationKind(NamedTuple):
    """One kind of observation."""

    make: Callable[[Mapping[str, Any]], Likelihood]  # hyperparameters -> p(y | z)
    start: Mapping[str, float]  # its own learnt hyperparameters, with their first values
    # (m, v, hyperparameters) -> mean and variance of y for z ~ N(m, v)
    moments: Callable[[np.ndarray, np.ndarray, Mapping[str, float]], tuple[np.ndarray, np.ndarray]]
    is_real: bool  # y may be any number, and is scaled by its spread


def _normal_moments(extra: Callable[[Mapping[str, float]], float]) -> Any:
    """Moments for a mean z; `extra` is the variance of y given z."""
    return lambda m, v, hyper: (m, v + extra(hyper))


def _rate_moments(extra: Callable[[np.ndarray, Mapping[str, float]], np.ndarray]) -> Any:
    """Moments for a mean e^z: E[e^z], its variance, and `extra`, E[variance of y given z] as a
    function of E[e^2z]."""

    def moments(
        m: np.ndarray, v: np.ndarray, hyper: Mapping[str, float]
    ) -> tuple[np.ndarray, np.ndarray]:
        mean = np.exp(m + 0.5 * v)
        second = np.exp(2 * m + 2 * v)
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
"""The kinds of observations by the name in `likelihood=` of the regressors."""


# --- models ---------------------------------------------------------------------------------------
class Inputs(NamedTuple):
    """The inputs of training, padded."""

    x: np.ndarray  # (N, D), with rows of zeros at the end
    real: np.ndarray  # 1 for a row, 0 for padding

    @classmethod
    def from_rows(cls, x: np.ndarray) -> Inputs:
        """Inputs padded with zeros."""
        size = size_with_padding(len(x))
        padded = np.pad(x, [(0, size - len(x)), (0, 0)])
        return cls(padded, (np.arange(size) < len(x)).astype(float))


@cache_by_value
def linear_model(num_sites: int, dim: int, observed: str) -> Predictors:
    """z = X w, w ~ N(0, prior_scale^2 I); observed by one of `OBSERVATIONS` or "bernoulli"."""

    def scale(hyper: Hyper, x: Any) -> Array:
        return jnp.asarray(hyper["prior_scale"]) * jnp.asarray(x)

    def prior(hyper: Hyper) -> Prior:
        inputs = hyper["inputs"]
        return FeatureForm(scale(hyper, inputs.x * inputs.real[:, None]))

    def new(hyper: Hyper, x: Any) -> tuple[Any, Array]:
        return scale(hyper, x), jnp.zeros(len(x))

    return _model(num_sites, dim, observed, {"prior_scale": 1.0}, prior, new)


@cache_by_value
def process(num_sites: int, dim: int, observed: str, kernel: Any, lengths: int) -> Predictors:
    """z ~ GP(0, kernel), with an observation of `OBSERVATIONS` or "bernoulli"; one length for all
    columns, or one for each."""
    make_kernel: Any = lambda hyper: kernel
    hyper: dict[str, Any] = {}
    if isinstance(kernel, str):
        make_kernel = find_kernel(kernel)
        hyper = {"scale": 1.0, "length": np.ones(lengths) if lengths > 1 else 1.0}

    def factor(hyper: Hyper) -> Float[Array, "N N"]:
        x, real = hyper["inputs"]
        matrix = make_kernel(hyper)(x, x) * jnp.outer(real, real)
        return jnp.linalg.cholesky(matrix + jnp.diag(JITTER * real + 1.0 - real))

    def prior(hyper: Hyper) -> Prior:
        return FeatureForm(factor(hyper) * hyper["inputs"].real[:, None])

    def new(hyper: Hyper, new: Any) -> tuple[Any, Array]:
        x, real = hyper["inputs"]
        k = make_kernel(hyper)
        features = solve_triangular(factor(hyper), k(x, new) * real[:, None], lower=True).T
        variance = jax.vmap(lambda row: k(row[None], row[None])[0, 0])(new)
        return features, jnp.maximum(variance - jnp.sum(features**2, 1), 0.0)

    def new_covariance(hyper: Hyper, inputs: Any) -> Array:
        return make_kernel(hyper)(inputs, inputs)

    return _model(num_sites, dim, observed, hyper, prior, new, new_covariance)


def _model(
    num_sites: int,
    dim: int,
    observed: str,
    hyper: dict,
    prior: Any,
    new: Any,
    new_covariance: Any = None,
) -> Predictors:
    observed_hyper = {} if observed == "bernoulli" else OBSERVATIONS[observed].start
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
        {**hyper, **observed_hyper, "inputs": inputs},  # type: ignore[arg-type]
        own=new_covariance,
    )


WAIT = 5
"""Steps of the predictors alone, before hyperparameters move. At the prior the gradients of
hyperparameters are hundreds of times as large as later, and Adam, which divides by the gradients of
the last thousand steps, would then hardly move."""


class _Waiting(NamedTuple):
    """The number of steps, and the state of Adam."""

    steps: Array
    adam: Any


@dataclasses.dataclass(frozen=True)
class _Init:
    """The start of Adam at a rate. Unlike optax's own function it can be pickled, and equals
    another one with the same rate."""

    rate: float

    def __call__(self, params: Any) -> Any:
        return _Waiting(jnp.zeros((), jnp.int32), optax.adam(self.rate).init(params))


@dataclasses.dataclass(frozen=True)
class _Update:
    """Adam from step `WAIT` on, without the gradients of earlier steps. See `_Init`."""

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
    """Fits the model by proximal-gradient steps, and hyperparameters by gradient steps."""
    options: Any = {}
    if learnt:
        adam = optax.GradientTransformation(_Init(learning_rate), _Update(learning_rate))
        options["learn"] = learn(*learnt, optimizer=adam)
    data = {"site": np.arange(len(y), dtype=np.int32), "y": np.asarray(y, np.float64)}
    hyper: dict[str, Any] = {name: np.asarray(x, np.float64) for name, x in start.items()}
    hyper["inputs"] = Inputs.from_rows(x)
    return fit_rows(
        pg_svi(model, **options),
        data,
        key,
        max_iter,
        tol,
        hyper=hyper,
        by_gradient=bool(learnt),
        weights=weights,
    )


def learnt_values(fit: Fit) -> dict[str, Any]:
    """The hyperparameters of a fit, without its inputs."""
    return {name: np.array(x) for name, x in fit.state.hyper.items() if name != "inputs"}


def predict_moments(fit: Fit, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the predictors at new inputs."""
    moments = apply_by_row(lambda x: jnp.stack(_predict(fit, x), 1), x)
    return moments[:, 0], moments[:, 1]


def positive_probability(fit: Fit, x: np.ndarray) -> np.ndarray:
    """p(y = +1) at new inputs."""
    model: Any = fit.alg.spec.model

    def probability(x: Any) -> Any:
        return model.predictive(fit.posterior, x, np.ones(len(x)), fit.state.hyper)

    return apply_by_row(probability, x)


def log_densities(fit: Fit, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """log p(y) of new observations."""
    model: Any = fit.alg.spec.model

    def density(data: tuple[Any, Any]) -> Any:
        return model.predictive(fit.posterior, *data, fit.state.hyper)

    return np.log(np.maximum(apply_by_row(density, (x, y)), 1e-300))


def _predict(fit: Fit, x: np.ndarray) -> tuple[Array, Array]:
    model: Any = fit.alg.spec.model
    return model.predict(fit.posterior, jnp.asarray(x), fit.state.hyper)

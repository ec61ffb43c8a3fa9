"""Finite mixtures of any exponential family (Blei, Kucukelbir and McAuliffe 2017, sections 2, 3 and
appendix B; Pei 2019, sections 2 and 9).

weights ~ Dirichlet(concentration),  z_n ~ weights,  y_n | z_n = k ~ emission with parameters beta_k

Dirichlet-process mixtures by stick breaking, truncated in either of two ways (Pei 2019, section on
DPMM):

    v_k ~ Beta(1, concentration),  pi_k = v_k prod_{j<k} (1 - v_j),  z_n ~ pi,  y_n | z_n = k ~ emission, beta_k

"finite" (Blei and Jordan 2006): q(v_T = 1) = 1, without components beyond T. "tied" (Kurihara,
Welling and Vlassis 2007): beyond T the posterior is the prior, q(v_k, beta_k) = p(v_k, beta_k).
With s_nk = E log pi_k + E log p(y_n | beta_k), every k > T has s_nk = s_n,T+1 + (k - T - 1) E_p
log(1 - v), a geometric series, so that the tail is one class of weight

    log sum_{k>T} exp s_nk = s_n,T+1 - log(1 - exp E_p log(1 - v)).

The update of v_k, alpha + sum_n q(z_n = k) and beta + sum_n q(z_n > k), is the gradient of this
weight. Tied families are nested: the optimal bound cannot fall as T grows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.arguments import Positive, Positives, check_arguments
from vijax.checks import require
from vijax.contract import init as starts
from vijax.contract.expected import expecting, rows
from vijax.contract.model import Estimates, Hyper, Model
from vijax.contract.queries import Generative, rows_like
from vijax.families import Categorical, Dirichlet
from vijax.families.base import as_float
from vijax.families.construction import numpy_or_jax
from vijax.families.discrete import stick_breaking
from vijax.models.emission import Emission, check_emission
from vijax.models.emission.base import prior_expectation
from vijax.models.emission.missing import require_cells
from vijax.models.energies.energy import NOT_LINEAR
from vijax.models.energies.energy_model import ready_model
from vijax.xla.by_value import cache_by_value


@cache_by_value
@check_arguments
def mixture(
    emission: Emission | None = None,
    concentration: Positives = 1.0,
    init: starts.Init | None = None,
    weights: Any = None,
    prior_as_point: bool = False,
    **others: Any,
) -> Model:
    """A mixture with K = `emission.num_components` components.

    Priors of Gaussian emissions are about zero and of scale one: for other columns make the
    emission by `vijax.models.emission.placed`, or bring them to mean 0 and deviation 1.

    Args:
      emission: the observation model of the components (`vijax.models.emission`).
      concentration: prior concentration of the weights; below 1 unused components empty. A scalar
          or shape (K,).
      init: `vijax.init.kmeans_plus_plus()` by default; `near_symmetric()` and
        `random_responsibilities()` find other optima.
      weights: known weights of the components, K probabilities or 1 / K for all;
        `concentration` then has no effect. `mixture(emission.unit_gaussian(K, dim=1), weights=1 /
        K)` under `cavi` is Algorithm 2 of Blei, Kucukelbir and McAuliffe 2017.
      prior_as_point: see `vijax.energy_model`.

    Returns:
      A `Model` with globals `weights` (unless they are known) and `components`; data of shape
      (N, D), in which cells may be missing (NaN) if the emission is
      `vijax.models.emission.incomplete`; `fit.score(y, key=key)` is the held-out log predictive
      density, `fit.locals(y, key=key)["z"].probs` are the responsibilities.

    Raises:
      TypeError: no emission, or an argument of the emission given to the model.
      ValueError: a concentration that is not positive or of the wrong shape; weights that are no
          probabilities.

    >>> import jax, vijax as vi
    >>> y = jnp.array([[-5.0], [-4.0], [-4.5], [3.0], [3.5]])
    >>> model = mixture(vi.models.emission.unit_gaussian(2, dim=1))
    >>> fit = vi.fit(vi.cavi(model), y, num_steps=30, key=jax.random.key(0))
    >>> print(jnp.sort(fit.posterior["components"].mean()[:, 0]).round(1))
    [-4.5  3.2]
    """
    emission = check_emission(emission, others)
    size = emission.num_components
    concentration = as_float(concentration, "concentration")
    expected = f"a scalar or shape ({size},)"
    require(concentration.shape in ((), (size,)), "concentration", expected, concentration.shape)
    xp, concentration = numpy_or_jax(concentration)
    prior = Dirichlet.from_concentration(xp.broadcast_to(concentration, (size,)))
    known_weights = None if weights is None else _probabilities(weights, size)
    # Not the emission itself: programs then do not depend on its prior.
    log_likelihood = emission.log_likelihood

    def energy(stats: Any, y: Array) -> Float[Array, ""]:
        log_weights = stats["weights"].log if known_weights is None else jnp.log(known_weights)
        return stats["z"].one_hot @ (log_weights + log_likelihood(stats["components"], y))

    globals = {"components": emission.prior}
    if known_weights is None:
        globals["weights"] = prior
    plain_model = ready_model(
        globals=globals,
        locals={"z": Categorical.from_logits(np.zeros(size))},
        energy=energy,
        example=emission.example,
        init=init or starts.kmeans_plus_plus(),
        check_data=emission.check,
        score=lambda hyper, q, data, key: score(emission, q, data, known_weights),
        prior_as_point=prior_as_point,
        generative=generative(
            emission,
            lambda hyper, values: values["weights"] if known_weights is None else known_weights,
        ),
    )
    return _expecting_rows(plain_model, emission)


def _expecting_rows(model: Model, emission: Emission) -> Model:
    """The model with what its emission expects of rows."""
    if emission.takes_missing:
        form = dataclasses.replace(model.form, enough=require_cells)
        queries = dict(model.queries)
        if not emission.is_linear:
            queries[NOT_LINEAR] = "one whose missing cells depend on the others"
        model = dataclasses.replace(model, form=form, queries=queries)
    return expecting(model, prior_expectation(emission, rows))


def generative(
    emission: Emission, weights: Callable[[Any, Any], Float[Array, " K"]]
) -> Generative | None:
    """Draws of rows of a mixture of K components; None if the emission cannot be drawn."""
    draw = emission.sample
    if draw is None:
        return None

    def local(hyper: Any, values: Any, y: Array, key: PRNGKeyArray) -> dict[str, Array]:
        return {"z": jax.random.categorical(key, jnp.log(weights(hyper, values)), shape=(len(y),))}

    def data(
        hyper: Any, values: Any, local: Any, y: Array, key: PRNGKeyArray
    ) -> Float[Array, "N D"]:
        draw_row = lambda k, y, key: draw(values["components"], k, y, key)
        return jax.vmap(draw_row)(local["z"], y, jax.random.split(key, len(y)))

    reason = "whose rows have totals of their own" if emission.has_totals else ""
    return Generative(rows_like(emission.check, emission.example, reason), data, local)


def _probabilities(weights: Any, size: int) -> Float[Array, " K"]:
    weights = as_float(weights, "weights")
    require(
        weights.shape in ((), (size,)), "weights", f"a scalar or shape ({size},)", weights.shape
    )
    xp, weights = numpy_or_jax(weights)
    weights = xp.broadcast_to(weights, (size,))
    require(
        xp.all(weights > 0) & (xp.abs(xp.sum(weights) - 1) < 1e-5),
        "weights",
        "positive, of sum 1",
        weights,
    )
    return jnp.asarray(weights / xp.sum(weights))


def score(
    emission: Emission, q: Estimates, data: PyTree, weights: Float[Array, " K"] | None = None
) -> Any:
    """Mean held-out log predictive density, log sum_k E[pi_k] E[p(y | beta_k)]. Blei, Kucukelbir
    and McAuliffe 2017, eq. 36, approximates it by p(y | E[beta_k]), which
    `log_predictive_density(..., plug_in=True)` gives."""
    from vijax.evaluate import log_predictive_density

    return log_predictive_density(
        emission, q["components"], q["weights"].mean() if weights is None else weights, data
    )


@cache_by_value
@check_arguments
def dp_mixture(
    emission: Emission | None = None,
    concentration: Positive = 1.0,
    truncation: Literal["finite", "tied"] = "finite",
    init: starts.Init | None = None,
    prior_as_point: bool = False,
    **others: Any,
) -> Model:
    """A Dirichlet-process mixture truncated at T = `emission.num_components` components.

    Priors of Gaussian emissions are about zero and of scale one: for other columns make the
    emission by `vijax.models.emission.placed`, or bring them to mean 0 and deviation 1.

    Args:
      emission: the observation model of the components (`vijax.models.emission`).
      concentration: concentration c of the process, which expects about c log(1 + N / c)
        components. A hyperparameter of the model: `learn=("concentration",)` learns it.
      truncation: finite: the last stick takes all (Blei and Jordan); tied: the prior beyond T
          (Kurihara et al.).
      init: `vijax.init.kmeans_plus_plus()` by default.
      prior_as_point: see `vijax.energy_model`.

    Returns:
      A `Model` with globals `sticks` (T - 1, or T of them) and `components`.

    Raises:
      TypeError: no emission, or an argument of the emission given to the model.
      ValueError: finite truncation at one component, or tied truncation of components that share
          parameters.

    >>> import jax, vijax as vi
    >>> y = jnp.array([[-5.0], [-4.0], [-4.5], [3.0], [3.5]])
    >>> model = dp_mixture(vi.models.emission.unit_gaussian(6, dim=1), truncation="tied")
    >>> fit = vi.fit(vi.cavi(model), y, num_steps=50, key=jax.random.key(0))
    >>> fit.posterior["sticks"].batch_shape
    (6,)
    """
    emission = check_emission(emission, others)
    size, tied = emission.num_components, truncation == "tied"
    remedy = 'Take truncation="finite".'
    shares_nothing = emission.shared_by is None or not tied
    expected = "components that share nothing, for tied truncation"
    require(shares_nothing, "emission", expected, "tied_gaussian", remedy)
    require(tied or size > 1, "emission", "at least two components for finite truncation", size)

    num_sticks = size if tied else size - 1
    log_likelihood = emission.log_likelihood
    tail_prior = emission.prior if tied else None

    def energy(stats: Any, y: Array, hyper: Hyper) -> Float[Array, ""]:
        weights = stick_breaking.log_weights(stats["sticks"])
        fit = log_likelihood(stats["components"], y)
        if tail_prior is not None:
            stick = stick_breaking.dirichlet_process(hyper["concentration"], 1).expected_stats()
            tail = stick_breaking.log_weight_of_the_rest(weights[-1:], stick)
            weights = jnp.concatenate([weights[:-1], tail])
            fit = jnp.concatenate([fit, log_likelihood(tail_prior.expected_stats(), y)[:1]])
        return stats["z"].one_hot @ (weights + fit)

    plain_model = ready_model(
        globals={
            "components": emission.prior,
            "sticks": lambda hyper: stick_breaking.dirichlet_process(
                hyper["concentration"], num_sticks
            ),
        },
        locals={"z": Categorical.from_logits(np.zeros(size + tied))},
        energy=energy,
        example=emission.example,
        hyper={"concentration": as_float(concentration)},
        init=init or starts.kmeans_plus_plus(),
        check_data=emission.check,
        score=lambda hyper, q, data, key: score_of_process(emission, q, data),
        prior_as_point=prior_as_point,
        generative=_generative_of_process(emission, tied),
    )
    return _expecting_rows(plain_model, emission)


def _generative_of_process(emission: Emission, tied: bool) -> Generative | None:
    """Draws as in a finite mixture; with a tied truncation each row of the tail draws a component
    from the prior."""
    weights = lambda hyper, values: stick_breaking.weights(values["sticks"])
    finite, draw = generative(emission, weights), emission.sample
    if finite is None or draw is None or not tied:
        return finite

    def data(
        hyper: Any, values: Any, local: Any, y: Array, key: PRNGKeyArray
    ) -> Float[Array, "N D"]:
        def draw_row(k: Array, y: Array, key: PRNGKeyArray) -> Float[Array, " D"]:
            key, key_tail = jax.random.split(key)
            tail = jax.tree.map(lambda x: x[:1], emission.prior).sample(key_tail)
            components = jax.tree.map(
                lambda a, b: jnp.concatenate([a, b]), values["components"], tail
            )
            return draw(components, k, y, key)

        return jax.vmap(draw_row)(local["z"], y, jax.random.split(key, len(y)))

    return dataclasses.replace(finite, data=data)


def score_of_process(emission: Emission, q: Estimates, data: PyTree) -> Any:
    """Mean held-out log predictive density; components of a tied tail are drawn from the prior."""
    from vijax.evaluate import log_predictive_density

    sticks: Any = q["sticks"]
    weights = stick_breaking.mean_weights(sticks)
    tail = []
    if len(weights) > emission.num_components:
        tail = [jax.tree.map(lambda x: x[:1], emission.prior)]
    return log_predictive_density(emission, [q["components"], *tail], weights, data)

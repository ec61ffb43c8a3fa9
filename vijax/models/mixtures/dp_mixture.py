"""Dirichlet-process mixtures by stick breaking, truncated in either of two ways (Pei 2019, section on DPMM).

    v_k ~ Beta(1, concentration),  pi_k = v_k prod_{j<k} (1 - v_j),  z_n ~ pi,  y_n | z_n = k ~ emission, beta_k

"finite" (Blei and Jordan 2006): q(v_T = 1) = 1, no component beyond T. "tied" (Kurihara, Welling and Vlassis 2007):
beyond T the posterior is the prior, q(v_k, beta_k) = p(v_k, beta_k). With s_nk = E log pi_k + E log p(y_n | beta_k),
every k > T has s_nk = s_n,T+1 + (k - T - 1) E_p log(1 - v), a geometric series, so that the tail is one class of weight

    log sum_{k>T} exp s_nk = s_n,T+1 - log(1 - exp E_p log(1 - v)).

The update of v_k, alpha + sum_n q(z_n = k) and beta + sum_n q(z_n > k), is its gradient. Tied families are nested: the
optimal bound cannot fall as T grows.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.arguments import Positive, checked
from vijax.checks import require
from vijax.contract import init as starts
from vijax.contract.model import Estimates, Hyper, Model
from vijax.contract.queries import Generative
from vijax.families import Categorical
from vijax.families.base import as_float
from vijax.families.discrete import stick_breaking
from vijax.models.emission import Emission, check_emission
from vijax.models.energies.energy import energy_model
from vijax.models.mixtures.mixture import generative
from vijax.xla.by_value import by_value


@by_value
@checked
def dp_mixture(
    emission: Emission | None = None,
    concentration: Positive = 1.0,
    truncation: Literal["finite", "tied"] = "finite",
    init: starts.Init | None = None,
    prior_as_point: bool = False,
    **others: Any,
) -> Model:
    """A Dirichlet-process mixture truncated at T = `emission.num_components` components.

    Args:
      emission: the observation model of the components (`vijax.models.emission`).
      concentration: concentration of the process; it expects about that times log(1 + N / that) components. A
        hyperparameter of the model: `learn=("concentration",)` learns it.
      truncation: finite: the last stick takes all (Blei and Jordan); tied: the prior beyond T (Kurihara et al.).
      init: `vijax.init.kmeans_plus_plus()` by default.
      prior_as_point: see `vijax.energy_model`.

    Returns:
      A `Model` with globals `sticks` (T - 1, or T of them) and `components`.

    Raises:
      TypeError: no emission, or an argument of the emission given to the model.
      ValueError: an unknown truncation, a concentration that is not positive, finite truncation at one component, or
        tied truncation of components that share parameters.

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
    alone = emission.shared_by is None or not tied
    require(alone, "emission", "components that share nothing, for tied truncation", "tied_gaussian", remedy)
    require(tied or size > 1, "emission", "at least two components for finite truncation", size)

    def globals_(hyper: Hyper) -> dict[str, Any]:
        sticks = stick_breaking.dirichlet_process(hyper["concentration"], size if tied else size - 1)
        return {"components": emission.prior, "sticks": sticks}

    def energy(stats: Any, y: Array, hyper: Hyper) -> Float[Array, ""]:
        weights = stick_breaking.log_weights(stats["sticks"])
        fit = emission.log_likelihood(stats["components"], y)
        if tied:
            stick = stick_breaking.dirichlet_process(hyper["concentration"], 1).expected_stats()
            rest = stick_breaking.log_weight_of_the_rest(weights[-1:], stick)
            weights = jnp.concatenate([weights[:-1], rest])
            fit = jnp.concatenate([fit, emission.log_likelihood(emission.prior.expected_stats(), y)[:1]])
        return stats["z"].one_hot @ (weights + fit)

    return energy_model(
        globals=globals_,
        locals={"z": Categorical.from_logits(np.zeros(size + tied))},
        energy=energy,
        example=emission.example,
        hyper={"concentration": as_float(concentration)},
        init=init or starts.kmeans_plus_plus(),
        check_data=emission.check,
        score=lambda hyper, q, data, key: score(emission, q, data),
        prior_as_point=prior_as_point,
        generative=_generative(emission, tied),
    )


def _generative(emission: Emission, tied: bool) -> Generative | None:
    """Draws as in a finite mixture; with a tied truncation each row of the tail has a prior component of its own."""
    weights = lambda hyper, values: stick_breaking.weights(values["sticks"])
    how, draw = generative(emission, weights), emission.sample
    if how is None or draw is None or not tied:
        return how

    def data(hyper: Any, values: Any, local: Any, y: Array, key: PRNGKeyArray) -> Float[Array, "N D"]:
        def one(k: Array, y: Array, key: PRNGKeyArray) -> Float[Array, " D"]:
            key, key_tail = jax.random.split(key)
            tail = jax.tree.map(lambda x: x[:1], emission.prior).sample(key_tail)
            components = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), values["components"], tail)
            return draw(components, k, y, key)

        return jax.vmap(one)(local["z"], y, jax.random.split(key, len(y)))

    return dataclasses.replace(how, data=data)


def score(emission: Emission, q: Estimates, data: PyTree) -> Any:
    """Mean held-out log predictive density; components of a tied tail are drawn from the prior."""
    from vijax.evaluate import log_predictive_density

    sticks: Any = q["sticks"]
    weights = stick_breaking.mean_weights(sticks)
    tail = [jax.tree.map(lambda x: x[:1], emission.prior)] if len(weights) > emission.num_components else []
    return log_predictive_density(emission, [q["components"], *tail], weights, data)

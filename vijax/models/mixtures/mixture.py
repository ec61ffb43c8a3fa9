"""Finite mixtures of any exponential family (Blei, Kucukelbir and McAuliffe 2017, sections 2, 3 and appendix B; Pei
2019, sections 2 and 9).

weights ~ Dirichlet(concentration),  z_n ~ weights,  y_n | z_n = k ~ emission with parameters beta_k
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.arguments import Positives, checked
from vijax.checks import require
from vijax.contract import init as starts
from vijax.contract.model import Estimates, Model
from vijax.contract.queries import Generative, rows_like
from vijax.families import Categorical, Dirichlet
from vijax.families.base import as_float
from vijax.families.construction import on_host
from vijax.models.emission import Emission, check_emission
from vijax.models.energies.energy import energy_model
from vijax.xla.by_value import by_value


@by_value
@checked
def mixture(
    emission: Emission | None = None,
    concentration: Positives = 1.0,
    init: starts.Init | None = None,
    weights: Any = None,
    prior_as_point: bool = False,
    **others: Any,
) -> Model:
    """A mixture with K = `emission.num_components` components.

    Args:
      emission: the observation model of the components (`vijax.models.emission`).
      concentration: prior concentration of the weights; below 1 unused components empty. A scalar or shape (K,).
      init: `vijax.init.kmeans_plus_plus()` by default; `near_symmetric()` and `random_responsibilities()` find other
        optima.
      weights: weights of the components where they are known, K probabilities or 1 / K for all; `concentration` then
        has no effect. `mixture(emission.unit_gaussian(K, dim=1), weights=1 / K)` under `cavi` is Algorithm 2 of Blei,
        Kucukelbir and McAuliffe 2017.
      prior_as_point: see `vijax.energy_model`.

    Returns:
      A `Model` with globals `weights` (where they are not known) and `components`; data of shape (N, D);
      `fit.score(y, key=key)` is the held-out log predictive density (of which Blei, Kucukelbir and McAuliffe 2017, eq.
      36 is an approximation), `fit.locals(y, key=key)["z"].probs` are the responsibilities.

    Raises:
      TypeError: no emission, or an argument of the emission given to the model.
      ValueError: a concentration that is not positive or of the wrong shape; weights that are no probabilities.

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
    require(concentration.shape in ((), (size,)), "concentration", f"a scalar or shape ({size},)", concentration.shape)
    xp, concentration = on_host(concentration)
    prior = Dirichlet.from_concentration(xp.broadcast_to(concentration, (size,)))
    known = None if weights is None else _probabilities(weights, size)

    def energy(stats: Any, y: Array) -> Float[Array, ""]:
        log_weights = stats["weights"].log if known is None else jnp.log(known)
        return stats["z"].one_hot @ (log_weights + emission.log_likelihood(stats["components"], y))

    return energy_model(
        globals={"components": emission.prior, **({"weights": prior} if known is None else {})},
        locals={"z": Categorical.from_logits(np.zeros(size))},
        energy=energy,
        example=emission.example,
        init=init or starts.kmeans_plus_plus(),
        check_data=emission.check,
        score=lambda hyper, q, data, key: score(emission, q, data, known),
        prior_as_point=prior_as_point,
        generative=generative(emission, lambda hyper, values: values["weights"] if known is None else known),
    )


def generative(emission: Emission, weights: Callable[[Any, Any], Float[Array, " K"]]) -> Generative | None:
    """Draws rows of a mixture of K components; None where the emission has no method to draw."""
    draw = emission.sample
    if draw is None:
        return None

    def local(hyper: Any, values: Any, y: Array, key: PRNGKeyArray) -> dict[str, Array]:
        return {"z": jax.random.categorical(key, jnp.log(weights(hyper, values)), shape=(len(y),))}

    def data(hyper: Any, values: Any, local: Any, y: Array, key: PRNGKeyArray) -> Float[Array, "N D"]:
        one = lambda k, y, key: draw(values["components"], k, y, key)
        return jax.vmap(one)(local["z"], y, jax.random.split(key, len(y)))

    reason = "whose rows have totals of their own" if emission.has_totals else ""
    return Generative(rows_like(emission.check, emission.example, reason), data, local)


def _probabilities(weights: Any, size: int) -> Float[Array, " K"]:
    weights = as_float(weights, "weights")
    require(weights.shape in ((), (size,)), "weights", f"a scalar or shape ({size},)", weights.shape)
    xp, weights = on_host(weights)
    weights = xp.broadcast_to(weights, (size,))
    require(xp.all(weights > 0) & (xp.abs(xp.sum(weights) - 1) < 1e-5), "weights", "positive, of sum 1", weights)
    return jnp.asarray(weights / xp.sum(weights))


def score(emission: Emission, q: Estimates, data: PyTree, weights: Float[Array, " K"] | None = None) -> Any:
    """Mean held-out log predictive density, log sum_k E[pi_k] E[p(y | beta_k)]. Blei, Kucukelbir and McAuliffe 2017,
    eq. 36, approximates it by p(y | E[beta_k]), which `log_predictive_density(..., plug_in=True)` gives."""
    from vijax.evaluate import log_predictive_density

    return log_predictive_density(emission, q["components"], q["weights"].mean() if weights is None else weights, data)

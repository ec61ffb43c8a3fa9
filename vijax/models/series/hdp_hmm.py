"""Sticky hidden Markov models of a hierarchical Dirichlet process with learnt top weights, by
direct assignment (Fox, Sudderth, Jordan and Willsky 2011; Hughes, Stephenson and Sudderth 2015).

    v_k ~ Beta(1, gamma), v_K = 1,   beta_k = v_k prod_{j<k} (1 - v_j),
    row k of transition ~ Dirichlet(x_k),  x_kl = alpha beta_l + kappa [k = l] + FLOOR,
    initial ~ Dirichlet(alpha beta + FLOOR),  z and y as in `vijax.models.hmm`.

The posterior is q(v) q(pi | v) q(z), with each row q(pi_k | v) = Dirichlet(x_k(v) + n_k), n_kl the
expected number of transitions. With f(x, n) = log Gamma(x + n) - log Gamma(x), and as A = sum_l
x_kl does not depend on v, a row adds

    E_q(v) [log Gamma(A) - log Gamma(A + N_k) + sum_l f(x_kl, n_kl)].

At u = log beta_l its terms are evaluated at E u, as in `vijax.models.hdp`. For n >= 1, f is convex
in u: its slope is

    y (psi(x + n) - psi(x)) = integral over s > 0 of e^-s G(s / y) ds,   G(t) = e^{-ct} (1 - e^{-nt}) / (1 - e^-t),

with y = alpha beta, x = y + c, and G decreasing in t, so that the slope increases in y. Jensen's
inequality then gives a lower bound. For 0 < n < 1 we have f = log x - log(x + n) + g, where g = log
Gamma(1 + x + n) - log Gamma(1 + x) is convex in u, and the second derivative of the other terms is
above -1/4. So the evidence is at least the reported bound less an eighth of the sum of Var log
beta_l over pairs with 0 < n < 1, which are transitions used less than once. Pairs with n = 0 lose
nothing.

In the engine q of a row is a Dirichlet of concentrations c. Since sum_l x_kl = A, for any s

    E log p(pi_k | v) = log Gamma(A) - A s + sum_l E[x_kl (l_kl + s) - log Gamma(x_kl)] - sum_l l_kl,  l = E log pi_k.

At s = psi(C), C = sum_l c_l, and c = x + n, this plus the entropy of the row equals the bound
above; at other c it is lower, since this c is optimal. The slope in u is the number of tables y
(psi(c) - psi(x)), which is the message to v. For rows that are draws or points, s = psi(A) gives
log p(pi_k | v) and its slope."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.arguments import NotNegative, Positive, check_arguments
from vijax.checks import require
from vijax.contract import init as starts
from vijax.contract.batch import Minibatch
from vijax.contract.model import Hyper, Model, PriorFunctions
from vijax.families import Product
from vijax.families.discrete import stick_breaking
from vijax.families.numeric.special import digamma, log_gamma, trigamma
from vijax.models.emission import Emission, check_emission
from vijax.models.series.hmm import hmm
from vijax.xla.by_value import cache_by_value

FLOOR = 1e-3
"""Concentration that every transition has at least: float32 has no digits for smaller ones in rows
of states not in use."""
TOTALS = -7.0, {4: 13.8, 8: 25.0}
"""Logarithms between which the total concentration of a row is searched. The upper one is by bytes
of
a number: larger totals look like a point at this precision."""


@cache_by_value
@check_arguments
def hdp_hmm(
    emission: Emission | None = None,
    alpha: Positive = 1.0,
    gamma: Positive = 1.0,
    stickiness: NotNegative = 0.0,
    init: starts.Init | None = None,
    **others: Any,
) -> Model:
    """A sticky hidden Markov model of a hierarchical Dirichlet process, truncated at K =
    `emission.num_components`.

    Priors of Gaussian emissions are about zero and of scale one: for other columns make the
    emission by `vijax.models.emission.placed`, or bring them to mean 0 and deviation 1.

    Args:
      emission: the observation model of the states (`vijax.models.emission`).
      alpha: concentration of transitions about the weights at the top; small: few states follow
          each.
      gamma: concentration of the weights at the top; small: few states in all.
      stickiness: kappa, number added to the concentration of staying in a state.
      init: the start; by default states by k-means++ on the observations.

    Returns:
      A `Model` with globals `sticks`, a Beta of shape (K - 1,), `initial`, `transition` and
      `components`, and hyperparameters `alpha`, `gamma` and `stickiness`.
      `vijax.families.discrete.stick_breaking.mean_weights(sticks)` are the weights of the states.
      Data and queries are those of `vijax.models.hmm`; `vijax.grow` finds the number of states.
      `vijax.map` refuses it: the modes of rows with concentrations that small are at zero, and have
      no information on the weights.

    Raises:
      TypeError: no emission, or an argument of the emission given to the model.
      ValueError: a concentration that is not positive, a negative stickiness, fewer than two
          states.

    >>> import vijax as vi
    >>> y = jnp.concatenate([jnp.zeros((20, 1)), jnp.full((15, 1), 9.0), jnp.zeros((5, 1))])
    >>> data = vi.models.pad([y, y[10:]])
    >>> model = hdp_hmm(vi.models.emission.unit_gaussian(2, 1), stickiness=2.0)
    >>> fit = vi.fit(vi.cavi(model), data, num_steps=20, key=jax.random.key(0))
    >>> print(jnp.sort(fit.posterior["components"].mean()[:, 0]).round(1))
    [0. 9.]
    """
    emission = check_emission(emission, others, labels=True)
    size = emission.num_components
    require(size > 1, "emission", "at least two components", size)
    rows = hmm(emission, FLOOR, FLOOR, float(stickiness), init)
    rows_prior: Any = rows.prior({})
    reference = {
        name: np.asarray(rows_prior[name].concentration) for name in ("initial", "transition")
    }

    def start(hyper: Hyper, key: PRNGKeyArray, prior: Product, batch: Minibatch | None) -> Product:
        chain_prior = Product({name: q for name, q in prior.items() if name != "sticks"})
        sticks: Any = prior["sticks"]
        even = stick_breaking.nearly_even(sticks, size)
        return Product({**rows.init(hyper, key, chain_prior, batch), "sticks": even})

    sticks = lambda hyper: stick_breaking.dirichlet_process(hyper["gamma"], size - 1)
    hyperparameters = {"alpha": alpha, "gamma": gamma, "stickiness": stickiness}
    return dataclasses.replace(
        rows,
        hyper={name: jnp.asarray(x, float) for name, x in hyperparameters.items()},
        prior=PriorFunctions.from_priors({**rows.prior({}), "sticks": sticks}),
        init=start,
        global_elbo=lambda hyper, stats: _rows_bound(reference, hyper, stats),
        without_mode=("sticks", "initial", "transition"),
        blocks=(("initial", "transition", "components"), ("sticks",)),
    )


def _rows_bound(reference: dict[str, np.ndarray], hyper: Hyper, stats: Any) -> Float[Array, ""]:
    """log p(initial, transition | v) less the log densities of their reference priors."""
    log_beta = stick_breaking.log_weights(stats["sticks"])
    mean = hyper["alpha"] * jnp.exp(log_beta) + FLOOR
    first = _row_bound(
        hyper["alpha"], mean, stats["initial"].log, jnp.asarray(reference["initial"], mean.dtype)
    )
    staying = hyper["stickiness"] * jnp.eye(len(mean), dtype=mean.dtype)
    total = hyper["alpha"] + hyper["stickiness"]
    old_concentrations = jnp.asarray(reference["transition"], mean.dtype)
    bounds = jax.vmap(_row_bound, (None, 0, 0, 0))(
        total, mean[None] + staying, stats["transition"].log, old_concentrations
    )
    return first + jnp.sum(bounds)


def _row_bound(
    total: Float[Array, ""],
    x: Float[Array, " K"],
    log: Float[Array, " K"],
    reference: Float[Array, " K"],
) -> Float[Array, ""]:
    """The bound of E log p(pi_k | v) less the log density of Dirichlet(reference)."""
    total = total + FLOOR * x.size
    total_of_q = find_total(log)
    shift = jax.lax.stop_gradient(digamma(jnp.where(jnp.isinf(total_of_q), total, total_of_q)))
    log_density = log_gamma(total) - total * shift + jnp.sum(x * (log + shift) - log_gamma(x))
    return (
        log_density
        - jnp.vdot(reference, log)
        + jnp.sum(log_gamma(reference))
        - log_gamma(jnp.sum(reference))
    )


def find_total(log: Float[Array, " K"]) -> Float[Array, ""]:
    """The sum of the concentrations of a Dirichlet, from its E log pi.

    At a sum C the concentrations are psi^-1(log + psi(C)), and their sum rises more slowly than C,
    so that bisection finds C. It is infinite if no Dirichlet has this E log pi, as for a draw or a
    point pi.

    >>> c = jnp.array([0.2, 3.0, 40.0])
    >>> print(find_total(digamma(c) - digamma(43.2)).round(1), find_total(jnp.log(c / 43.2)))
    43.2 inf
    """
    first, last = TOTALS[0], TOTALS[1][log.dtype.itemsize]

    def sum_less_total(at: Array) -> Array:
        return jnp.sum(_inverse_digamma(log + digamma(jnp.exp(at)))) - jnp.exp(at)

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        above = sum_less_total(middle) > 0
        return jnp.where(above, middle, low), jnp.where(above, high, middle)

    ends = jax.lax.fori_loop(
        0, 40, halve, tuple(jnp.full((), end, log.dtype) for end in (first, last))
    )
    return jnp.where(sum_less_total(jnp.asarray(last, log.dtype)) > 0, jnp.inf, jnp.exp(ends[0]))


def _inverse_digamma(y: Float[Array, " K"]) -> Float[Array, " K"]:
    """psi^-1, by Newton's method (Minka 2000, appendix C)."""
    x = jnp.where(y >= -2.22, jnp.exp(jnp.minimum(y, 60.0)) + 0.5, -1.0 / (y + 0.5772157))
    for _ in range(5):
        x = x - (digamma(x) - y) / trigamma(x)
    return x

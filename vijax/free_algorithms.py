"""The algorithms of free variables and of networks (`vijax.algorithms` has the table), each a row
of arguments to `vijax.inference.compose.compose`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import optax

from vijax.arguments import Positive, Size
from vijax.checks import require
from vijax.contract.model import Model
from vijax.contract.objective import check_objective, renyi
from vijax.contract.per_variable import per_variable
from vijax.inference import guides
from vijax.inference.compatibility import check_model
from vijax.inference.compose import Algorithm
from vijax.inference.estimator import (
    Estimator,
    batch_and_match,
    least_squares,
    mean_field,
    reparameterised,
    score_function,
    weighted,
)
from vijax.inference.guides import Guide
from vijax.inference.learning import Learn, learn
from vijax.inference.step_size import Schedule, by_odds, constant, robbins_monro
from vijax.inference.update import Update, descend, kl, within
from vijax.models.energies.density import require_log_density, with_guide
from vijax.row import row

KINDS: Mapping[str, type] = {"estimator": Estimator, "update": Update}


def ngvi(
    model: Model,
    *,
    guide: Guide | None = None,
    num_samples: Size = 32,
    nats: Positive = 1.0,
    step_size: Schedule | None = None,
    **choices: Any,
) -> Algorithm:
    """Natural-gradient variational inference of a log density, by least squares of scores on draws
    (Salimans and Knowles 2013; trust regions as in Arenz et al. 2023).

    For minibatches, and for loops of your own; on all the data `vijax.auto` needs no choices. The
    default schedule is (t + 10)^-0.6.

    Args:
      model: with free variables (`vijax.density`).
      guide: family of q (`vijax.guides`); None is the model's own.
      num_samples: draws a step. `vijax.estimator.least_squares` says how many are exact on normal
          targets.
      nats: the furthest that a step may go.
      step_size: rho_t.
      **choices: the other arguments of `compose`.

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> model = vi.density({"x": vi.free(2)}, lambda v: -0.5 * jnp.sum((v["x"] - 3.0) ** 2))
    >>> fit = vi.fit(ngvi(model), num_steps=300, key=jax.random.key(0))
    >>> print(fit.posterior["free"].mean().round(2), round(float(fit.posterior["free"].cov[0, 0]), 2))
    [3. 3.] 1.0
    """
    model = _guided(model, guide)
    _choose(choices, "estimator", least_squares(num_samples=num_samples))
    schedule = step_size or robbins_monro(offset=10.0, kappa=0.6)
    _check_said_once(model, choices, "update", nats=None if nats == 1 else nats)
    _choose(choices, "update", within(nats))
    return row(model, {"name": "ngvi", "step_size": schedule}, choices)


def bam(
    model: Model,
    *,
    num_samples: int = 32,
    nats: float | None = None,
    step_size: Schedule | None = None,
    **choices: Any,
) -> Algorithm:
    """Batch and match (Cai et al. 2024): a normal of full covariance whose scores match those of
    the density.

    On a normal posterior there is nothing to tune, and it arrives in few steps. Its aim is another
    than the evidence lower bound: where the posterior is not normal it ends elsewhere than `ngvi`,
    and its sds may be far off (by half on eight schools); from a start that is tens of standard
    deviations away it may never arrive. There use `ngvi` or `vijax.auto`, or `nats`. Each step
    takes all the data.

    Args:
      model: a density (`vijax.density`).
      num_samples: draws a step, B.
      nats: the furthest that a step may go; None takes every step whole, as the paper does. Scores
        far from the posterior say little of it, and whole steps may leap from side to side there:
        on the posterior "wells" they end 650 sds off, with 10 nats 0.003
        (benchmarks/results_posteriors.md).
      step_size: rho_t; None is `vijax.step_size.by_odds(10 B D)` for D coordinates: ten times the
        weights of the paper, with which posteriors of scales far from one took hundreds of steps
        more.
      **choices: the other arguments of `compose`.

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> precision = jnp.array([[2.0, 0.9], [0.9, 1.0]])
    >>> model = vi.density({"x": vi.free(2)}, lambda v: -0.5 * (v["x"] - 3.0) @ precision @ (v["x"] - 3.0))
    >>> fit = vi.fit(bam(model), num_steps=50, key=jax.random.key(0))
    >>> print(fit.posterior["free"].mean().round(2), fit.posterior["free"].precision.round(2)[0])
    [3. 3.] [2.  0.9]
    """
    check_model(model)
    dim = require_log_density(model, "Use vijax.ngvi.").variables.dim
    model = _guided(model, guides.full_rank())
    _choose(choices, "estimator", batch_and_match(num_samples=num_samples))
    schedule = step_size or by_odds(10.0 * num_samples * dim)
    _check_said_once(model, choices, "update", nats=nats)
    _choose(choices, "update", kl() if nats is None else within(nats))
    return row(model, {"name": "bam", "step_size": schedule}, choices)


def advi(
    model: Model,
    *,
    guide: Guide | None = None,
    num_samples: Size = 1,
    objective: renyi | None = None,
    optimizer: optax.GradientTransformation | None = None,
    **choices: Any,
) -> Algorithm:
    """Automatic differentiation variational inference (Kucukelbir et al. 2017): reparameterised
    gradients, an optimiser of optax on mean and log standard deviation.

    Args:
      model: with free variables (`vijax.density`).
      guide: family of q; None is `vijax.guides.mean_field()`. `full_rank()` and `block()` are moved
        by mean and triangle. With `vijax.guides.low_rank(rank)` thousands of variables keep their
        strongest dependences; with `vijax.guides.mixture(components)` q may have any shape.
      num_samples: draws a step.
      objective: an objective of several draws (`vijax.objective`) in the place of the evidence
        lower bound: with `importance_weighted()` q is made to serve as a proposal, and covers more.
        See `vijax.estimator.weighted`.
      optimizer: None is Adam at rate 0.01. The right rate depends on the scales of the posterior.
      **choices: the other arguments of `compose`.

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> model = vi.density({"x": vi.free(2)}, lambda v: -0.5 * jnp.sum((v["x"] - 3.0) ** 2))
    >>> fit = vi.fit(advi(model, num_samples=16), num_steps=1000, key=jax.random.key(0))
    >>> print(fit.posterior["free"].mean().round(0), fit.posterior["free"].variance().round(0))
    [3. 3.] [1. 1.]
    """
    guide = guide.for_optimisers() if isinstance(guide, Guide) else guide
    model = _guided(model, guide, guides.mean_field())
    check_objective(objective)
    plain = reparameterised(
        num_samples=num_samples, sticking=isinstance(guide, Guide) and guide.sticks
    )
    _check_said_once(model, choices, "estimator", objective=objective)
    _check_said_once(model, choices, "update", optimizer=optimizer)
    _choose(choices, "estimator", plain if objective is None else weighted(num_samples, objective))
    _choose(choices, "update", descend(optimizer))
    return row(model, {"name": "advi", "step_size": constant()}, choices)


def bbvi(
    model: Model,
    *,
    guide: Guide | None = None,
    num_samples: Size = 64,
    optimizer: optax.GradientTransformation | None = None,
    **choices: Any,
) -> Algorithm:
    """Black-box variational inference (Ranganath, Gerrish and Blei 2014): the score function with a
    leave-one-out baseline. For densities without a derivative; where there is one, `ngvi` and
    `advi` have far less noise.

    Args:
      model: with free variables (`vijax.density`).
      guide: family of q; None is `vijax.guides.mean_field()`.
      num_samples: draws a step. At least two.
      optimizer: None is Adam at rate 0.01.
      **choices: the other arguments of `compose`.

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> model = vi.density({"x": vi.free()}, lambda v: -jnp.abs(jnp.floor(v["x"]) - 3.0))  # no slope anywhere
    >>> fit = vi.fit(bbvi(model), num_steps=1000, key=jax.random.key(0))
    >>> print(fit.posterior["free"].mean().round(0))
    [4.]
    """
    model = _guided(model, guide, guides.mean_field())
    _check_said_once(model, choices, "update", optimizer=optimizer)
    _choose(choices, "estimator", score_function(num_samples=num_samples))
    _choose(choices, "update", descend(optimizer))
    return row(model, {"name": "bbvi", "step_size": constant()}, choices)


def aevb(
    model: Model,
    *,
    learning_rate: Positive = 1e-3,
    optimizer: optax.GradientTransformation | None = None,
    estep: Any = None,
    **choices: Any,
) -> Algorithm:
    """Auto-encoding variational Bayes (Kingma and Welling 2014, Algorithm 1): networks learnt by an
    optimiser of optax on the bound, whose locals an encoder gives. Conjugate globals beside them
    take natural-gradient steps of (t + 10)^-0.6.

    A network is a pair (apply, params). With Equinox: `params, static = eqx.partition(net,
    eqx.is_inexact_array)` and `apply = lambda params, x: eqx.combine(params, static)(x)`; with Flax
    NNX: `graph, params = nnx.split(net)` and `apply = lambda params, x: nnx.merge(graph,
    params)(x)`.

    Args:
      model: `vijax.models.vae`, `svae`, `dynamic_svae`, or any model with points; all of its points
        are learnt, unless `learn` says which.
      learning_rate: the rate of Adam.
      optimizer: an optimiser of optax in the place of Adam.
      estep: `vijax.estep.amortised(num_samples, closed_kl, refinements, objective)` of `vae`,
        `vijax.estep.structured(num_sweeps, num_samples, objective=)` of `svae` and `dynamic_svae`;
        None is the model's. With `objective=vijax.objective.importance_weighted()` and some draws
        it is importance-weighted (Burda et al. 2016).
      **choices: the other arguments of `compose`.

    Points on a line, (z, -2 z), whose slopes the decoder finds:

    >>> import jax, jax.numpy as jnp, numpy as np, vijax as vi
    >>> encode = lambda w, x: (x @ w, jnp.full(1, -2.0))
    >>> model = vi.models.vae((encode, 0.1 * jnp.ones((2, 1))), (lambda w, z: z @ w, 0.1 * jnp.ones((1, 2))),
    ...                       vi.models.observed.gaussian(sd=0.1), latent_dim=1)
    >>> x = np.random.default_rng(0).normal(size=(100, 1)) @ np.array([[1.0, -2.0]])
    >>> fit = vi.fit(aevb(model, learning_rate=0.01), x, num_steps=500, key=jax.random.key(0))
    >>> (first, second), = fit.state.hyper["decoder"]
    >>> print((second / first).round(1))
    -2.0
    """
    check_model(model)
    require(bool(model.hyper), "model", "one with points to learn (networks)", "one without")
    chosen = optimizer or optax.adam(learning_rate)
    conjugate = set(jax.eval_shape(model.prior, dict(model.hyper))) - set(model.free_names)
    drawn, moved = reparameterised(num_samples=1), descend(chosen)
    of_free: Any = functools.partial(dict.fromkeys, model.free_names)
    _choose(choices, "estimator", mean_field() if conjugate else drawn, of_free(drawn))
    _choose(choices, "update", kl() if conjugate else moved, of_free(moved))
    schedule = robbins_monro(offset=10.0, kappa=0.6) if conjugate else constant()
    learnt = choices.pop("learn", tuple(model.hyper))
    learnt = learnt if isinstance(learnt, Learn) else learn(*learnt, optimizer=chosen)
    return row(
        model, {"name": "aevb", "learn": learnt, "step_size": schedule, "estep": estep}, choices
    )


def _choose(
    choices: dict[str, Any], name: str, default: Any, of_free: Mapping[str, Any] | None = None
) -> None:
    """Completes the user's choice of estimators or updates by the row's own (`of_free` by name, and
    `default`); a choice for all variables stays as given."""
    given = choices.get(name)
    given = {**(of_free or {}), **(given or {})} if isinstance(given, Mapping | None) else given
    choices[name] = per_variable(name, given, default, KINDS[name], f"vijax.{name}")


def _check_said_once(model: Model, choices: Mapping[str, Any], name: str, **short: Any) -> None:
    """Raises ValueError where a choice leaves its short form nothing to say."""
    given = choices.get(name)
    left = set(jax.eval_shape(model.prior, dict(model.hyper))) - set(
        given if isinstance(given, Mapping) else ()
    )
    for argument, value in short.items():
        both = value is not None and given is not None and not (isinstance(given, Mapping) and left)
        require(
            not both,
            argument,
            f"none beside {name}",
            "both",
            f"Leave one out: {name} says it of every global.",
        )


def _guided(model: Any, guide: Guide | None, default: Guide | None = None) -> Model:
    """The model with this family of q, or for a density the row's default; ValueError without free
    variables."""
    check_model(model)
    remedy = "For conjugate globals use vijax.cavi, vijax.svi or vijax.ssvi."
    require(
        model.free is not None,
        "model",
        "one with free variables (vijax.density)",
        "one without",
        remedy,
    )
    require(guide is None or isinstance(guide, Guide), "guide", "one of vijax.guides", repr(guide))
    if model.log_density is not None:
        chosen = guide or default
        return model if chosen is None else with_guide(model, chosen)
    require(
        guide is None,
        "guide",
        "none for an energy",
        repr(guide),
        "Give it to vijax.energy_model(guide=...).",
    )
    return model

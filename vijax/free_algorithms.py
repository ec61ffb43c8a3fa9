"""The algorithms of free variables and of networks (`vijax.algorithms` has the table), each a row
of arguments to `vijax.inference.compose.compose`."""

from __future__ import annotations

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

    Use it for minibatches and in loops of your own; on all the data `vijax.auto` needs no choices.
    The default schedule is (t + 10)^-0.6.

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
    model = _set_guide(model, guide)
    _complete(choices, "estimator", least_squares(num_samples=num_samples))
    schedule = step_size or robbins_monro(offset=10.0, kappa=0.6)
    _check_once(model, choices, "update", nats=None if nats == 1 else nats)
    _complete(choices, "update", within(nats))
    return row(model, {"name": "ngvi", "step_size": schedule}, choices)


def bam(
    model: Model,
    *,
    num_samples: int = 32,
    nats: float | None = None,
    step_size: Schedule | None = None,
    **choices: Any,
) -> Algorithm:
    """Batch and match (Cai et al. 2024): a normal of full covariance whose scores match the scores
    of the density.

    On a normal posterior it needs no tuning, and few steps. It does not maximise the evidence lower
    bound: if the posterior is not normal it ends elsewhere than `ngvi`, and its sds may be far off
    (by half on eight schools); from a start that is tens of standard deviations away it may never
    arrive. Then use `ngvi` or `vijax.auto`, or give `nats`. Each step takes all the data.

    Args:
      model: a density (`vijax.density`).
      num_samples: draws a step, B.
      nats: the furthest that a step may go; None takes every step whole, as the paper does. Scores
        far from the posterior say little about it, and whole steps may leap from side to side: on
        the posterior "wells" they end 650 sds off, with 10 nats 0.003
        (benchmarks/results_posteriors.md).
      step_size: rho_t; None is `vijax.step_size.by_odds(10 B D)` for D coordinates: ten times the
        weights of the paper. With the paper's weights, posteriors with scales far from one took
        hundreds of steps more.
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
    model = _set_guide(model, guides.full_rank())
    _complete(choices, "estimator", batch_and_match(num_samples=num_samples))
    schedule = step_size or by_odds(10.0 * num_samples * dim)
    _check_once(model, choices, "update", nats=nats)
    _complete(choices, "update", kl() if nats is None else within(nats))
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
      guide: family of q; None is `vijax.guides.mean_field()`. Steps move the mean and the triangle
        of `full_rank()` and `block()`. With `vijax.guides.low_rank(rank)` thousands of variables
        keep their strongest dependences; with `vijax.guides.mixture(components)` q may have any
        shape.
      num_samples: draws a step.
      objective: an objective of several draws (`vijax.objective`) in the place of the evidence
        lower bound: with `importance_weighted()` q becomes a better proposal, and covers more. See
        `vijax.estimator.weighted`.
      optimizer: None is Adam at rate 0.01. The right rate depends on the scales of the posterior.
      **choices: the other arguments of `compose`.

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> model = vi.density({"x": vi.free(2)}, lambda v: -0.5 * jnp.sum((v["x"] - 3.0) ** 2))
    >>> fit = vi.fit(advi(model, num_samples=16), num_steps=1000, key=jax.random.key(0))
    >>> print(fit.posterior["free"].mean().round(0), fit.posterior["free"].variance().round(0))
    [3. 3.] [1. 1.]
    """
    if isinstance(guide, Guide):
        guide = guide.optimiser_form()
    model = _set_guide(model, guide, guides.mean_field())
    check_objective(objective)
    sticks = isinstance(guide, Guide) and guide.sticks
    estimator: Estimator = reparameterised(num_samples=num_samples, sticking=sticks)
    if objective is not None:
        estimator = weighted(num_samples, objective)
    _check_once(model, choices, "estimator", objective=objective)
    _check_once(model, choices, "update", optimizer=optimizer)
    _complete(choices, "estimator", estimator)
    _complete(choices, "update", descend(optimizer))
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
    leave-one-out baseline. Use it for densities without a derivative; with a derivative `ngvi` and
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
    model = _set_guide(model, guide, guides.mean_field())
    _check_once(model, choices, "update", optimizer=optimizer)
    _complete(choices, "estimator", score_function(num_samples=num_samples))
    _complete(choices, "update", descend(optimizer))
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
    optimiser of optax on the bound, with the locals of an encoder. Conjugate globals beside them
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
    optimizer = optimizer or optax.adam(learning_rate)
    conjugate = set(jax.eval_shape(model.prior, dict(model.hyper))) - set(model.free_names)
    estimator: Estimator = reparameterised(num_samples=1)
    update: Update = descend(optimizer)
    free_estimators = dict.fromkeys(model.free_names, estimator)
    free_updates = dict.fromkeys(model.free_names, update)
    _complete(choices, "estimator", mean_field() if conjugate else estimator, free_estimators)
    _complete(choices, "update", kl() if conjugate else update, free_updates)
    schedule: Schedule = constant()
    if conjugate:
        schedule = robbins_monro(offset=10.0, kappa=0.6)
    learnt = choices.pop("learn", tuple(model.hyper))
    if not isinstance(learnt, Learn):
        learnt = learn(*learnt, optimizer=optimizer)
    defaults = {"name": "aevb", "learn": learnt, "step_size": schedule, "estep": estep}
    return row(model, defaults, choices)


def _complete(
    choices: dict[str, Any], name: str, default: Any, named: Mapping[str, Any] | None = None
) -> None:
    """Completes the user's choice of estimators or updates (`name`) by the row's own: `named` for
    some variables, `default` for the others. A choice for all variables stays as it is."""
    choice = choices.get(name)
    if isinstance(choice, Mapping | None):
        choice = {**(named or {}), **(choice or {})}
    choices[name] = per_variable(name, choice, default, KINDS[name], f"vijax.{name}")


def _check_once(model: Model, choices: Mapping[str, Any], name: str, **short: Any) -> None:
    """Raises ValueError if the choice `name` for all globals leaves a short form no effect."""
    choice = choices.get(name)
    variables = set(jax.eval_shape(model.prior, dict(model.hyper)))
    is_partial = isinstance(choice, Mapping) and bool(variables - set(choice))
    remedy = f"Leave one out: {name} says it of every global."
    for argument, value in short.items():
        is_twice = value is not None and choice is not None and not is_partial
        require(not is_twice, argument, f"none beside {name}", "both", remedy)


def _set_guide(model: Any, guide: Guide | None, default: Guide | None = None) -> Model:
    """The model with this family of q; a density without one gets the row's default.

    Raises:
      ValueError: a model without free variables, or a guide for an energy.
    """
    check_model(model)
    expected = "one with free variables (vijax.density)"
    remedy = "For conjugate globals use vijax.cavi, vijax.svi or vijax.ssvi."
    require(model.free is not None, "model", expected, "one without", remedy)
    require(guide is None or isinstance(guide, Guide), "guide", "one of vijax.guides", repr(guide))
    if model.log_density is not None:
        guide = guide or default
        return model if guide is None else with_guide(model, guide)
    remedy = "Give it to vijax.energy_model(structure=vijax.Structure(guide=...))."
    require(guide is None, "guide", "none for an energy", repr(guide), remedy)
    return model

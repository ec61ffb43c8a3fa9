"""NumPyro models as log densities of free variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from vijax import constrain
from vijax.adapters.numpyro_data import (
    check_missing_as_unknown,
    check_observations,
    missing_arguments,
    require_run,
)
from vijax.adapters.numpyro_laws import find_levels, make_walk
from vijax.adapters.reuse import reuse_model
from vijax.adapters.variables import VariableFacts, free_variables, interval_constraint
from vijax.checks import require
from vijax.constrain import Constraint
from vijax.contract.model import Model
from vijax.extras import require_extra
from vijax.models.energies.density import density, with_hierarchy, with_prior
from vijax.xla.frozen import snapshot

RUNS = 3
"""Runs of the model from which its sites are read."""
Values = Mapping[str, Any]


def from_numpyro(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Model:
    """A model from a NumPyro model with its data.

    Continuous sites without `obs` are the variables, in the supports of their distributions. `obs`
    sites, `numpyro.factor` and handlers that scale or mask count as in NumPyro. Funsor sums out
    discrete sites; each axis of their batches must then be a plate, and they are not among the
    draws of `fit.sample`. Sites of `numpyro.deterministic` are among these draws, and so are the
    variables that a reparameterisation replaced, except in models with discrete sites.
    `vijax.auto(model, key=key)` fits it: the model holds the data, and reads all of them at every
    step.

    Args:
      model: a function that calls `numpyro.sample`, or a handler around one.
      *args: arguments of the model, data among them.
      **kwargs: keyword arguments of the model.

    Returns:
      A density of the continuous sites, for `vijax.auto` and every algorithm that fits densities.

    Raises:
      ValueError: nothing is unknown, or only discrete sites are; data that are missing, or outside
        of the support of their site; `obs_mask`; a plate takes a subsample; a site is a
        `numpyro.param`; a support is none of vijax's, or changes with other sites' values; a
        discrete site has too many values, or batches without plates.
      ImportError: NumPyro is not installed; for discrete sites, funsor.

    A normal mean and four observations (Phan, Pradhan and Jankowiak 2019 describe the library):

    >>> import jax, jax.numpy as jnp, pytest, vijax as vi
    >>> numpyro = pytest.importorskip("numpyro")
    >>> from numpyro.distributions import Normal
    >>> def story(y):
    ...     mean = numpyro.sample("mean", Normal(0, 10))
    ...     with numpyro.plate("N", len(y)):
    ...         numpyro.sample("y", Normal(mean, 1), obs=y)
    >>> fit = vi.auto(vi.from_numpyro(story, jnp.array([1.0, 2.0, 3.0, 4.0])), key=jax.random.key(0))
    >>> print(f"{fit.sample(jax.random.key(1), 4000)['mean'].mean():.1f}")
    2.5
    """
    require(callable(model), "model", "a function that calls numpyro.sample", type(model).__name__)
    model = snapshot(model)
    bound = _bind(model, args, kwargs)
    missing = missing_arguments(model, args, kwargs)
    try:
        runs = [run(bound, jax.random.key(i)) for i in range(RUNS)]
    except ValueError as error:
        require_run(error, missing)
        raise
    for sites in runs:
        check_kinds(sites)
        check_missing_as_unknown(sites)
    check_observations(runs, missing)
    _check_some_continuous(runs[0])
    variables = free_variables("model", [continuous(sites) for sites in runs])
    values = {name: runs[0][name]["value"] for name in variables}
    # Two models of one density may differ in their sites, and so in their levels.
    kinds = [(name, site["type"], type(site.get("fn")).__name__) for name, site in runs[0].items()]
    facts = (variables, kinds)
    if discrete(runs[0]):
        check_enumerable(runs[0])
        marginal = _marginal_density(bound, runs[0])
        return reuse_model(marginal, [], values, facts, lambda: density(variables, marginal))
    joint = _joint_density(bound)
    derived = _deterministic_values(bound, deterministic(runs[0]))
    prior = _prior_density(bound, list(variables))

    def make() -> Model:
        model = with_prior(density(variables, joint, derived=derived), prior)
        sites_at = lambda changes: _substitute_and_run(bound, {**values, **changes})
        levels = find_levels(sites_at, runs, list(latent(runs[0])))
        return with_hierarchy(model, make_walk(bound, levels), levels) if levels else model

    return reuse_model(joint, [prior, derived], values, facts, make)


def _bind(model: Callable[..., Any], args: tuple, kwargs: Mapping[str, Any]) -> Callable[[], Any]:
    """The model with its arguments, copied for each precision: if JAX has read a NumPy array in
    float32, it takes the array for float32 ever after."""
    first_x64 = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    args, kwargs = jax.tree.map(_widen, (args, kwargs))
    arguments = {first_x64: (args, kwargs)}

    def bound() -> Any:
        x64 = jax.config.jax_enable_x64  # type: ignore[attr-defined]
        if x64 not in arguments:
            arguments[x64] = jax.tree.map(
                lambda x: x.copy() if isinstance(x, np.ndarray) else x, (args, kwargs)
            )
        x64_args, x64_kwargs = arguments[x64]
        return model(*x64_args, **x64_kwargs)

    return bound


def _widen(x: Any) -> Any:
    """Small integers as int32: the square of a pixel of uint8 would be wrong in its own type."""
    is_small = isinstance(x, np.ndarray) and x.dtype.kind in "iu" and x.dtype.itemsize < 4
    if is_small:
        return x.astype(np.int32)
    return x


def _substitute_and_run(model: Callable[[], Any], values: Values) -> Sites:
    """All sites at these values of the unknown ones."""
    handlers = require_extra("numpyro.handlers", "numpyro")
    return handlers.trace(handlers.substitute(model, data=dict(values))).get_trace()


def _check_some_continuous(sites: Sites) -> None:
    """Raises ValueError where all unknowns are discrete: summed out, they leave nothing to fit."""
    require(
        bool(continuous(sites)) or not discrete(sites),
        "model",
        "a continuous unknown, whose posterior is fitted",
        f"discrete ones alone, {discrete(sites)}",
        "They are summed out, and no fit is needed: numpyro.contrib.funsor.infer_discrete(model, "
        "first_available_dim=-1, temperature=1, rng_key=key) draws them from their exact "
        "posterior.",
    )


def _joint_density(model: Callable[[], Any]) -> Callable[[Values], Any]:
    """The log density of a model without discrete unknowns. There is no random key: a site without
    a value raises an error."""
    log_density = require_extra("numpyro.infer.util", "numpyro").log_density
    return lambda values: jnp.asarray(log_density(model, (), {}, dict(values))[0], float)


def _prior_density(model: Callable[[], Any], names: list[str]) -> Callable[[Values], Any]:
    """The log density of the unknown sites alone."""
    util = require_extra("numpyro.infer.util", "numpyro")

    def log_prior(values: Values) -> Any:
        terms, _ = util.compute_log_probs(model, (), {}, dict(values))
        return jnp.asarray(sum(terms[name] for name in names), float)

    return log_prior


def _marginal_density(model: Callable[[], Any], sites: Sites) -> Callable[[Values], Any]:
    """The log density with discrete unknowns summed out (Obermeyer et al. 2019)."""
    require_extra("funsor", "numpyro")
    funsor = require_extra("numpyro.contrib.funsor", "numpyro")
    model = funsor.enum(funsor.config_enumerate(model), first_axis(sites))
    return lambda values: jnp.asarray(funsor.log_density(model, (), {}, dict(values))[0], float)


def _deterministic_values(
    model: Callable[[], Any], names: list[str]
) -> Callable[[Values], dict[str, Any]] | None:
    """The deterministic sites, as functions of the values."""
    if not names:
        return None

    def evaluate(values: Values) -> dict[str, Any]:
        sites = _substitute_and_run(model, values)
        return {name: jnp.asarray(sites[name]["value"]) for name in names}

    return evaluate


Sites = Mapping[str, Mapping[str, Any]]
MOST_VALUES = 1000
"""Values of a discrete site that are summed over."""
NO_SUBSAMPLE = (
    "Give the full plate, with all the data. For minibatches write the model by "
    "vijax.density(log_prior=, log_lik=), which scales the likelihood of a batch and not the prior."
)


def run(model: Callable[[], Any], key: PRNGKeyArray) -> Sites:
    """All sites of one run, with unknowns at random values of their support. They are not drawn
    from the prior, which may be improper."""
    handlers = require_extra("numpyro.handlers", "numpyro")
    initial = require_extra("numpyro.infer", "numpyro").init_to_uniform
    model = handlers.substitute(handlers.seed(model, key), substitute_fn=initial)
    return handlers.trace(model).get_trace()


def latent(sites: Sites) -> dict[str, Mapping[str, Any]]:
    """The sites that are neither observed nor factors."""
    return {
        name: site
        for name, site in sites.items()
        if site["type"] == "sample" and not site["is_observed"]
    }


def continuous(sites: Sites) -> dict[str, VariableFacts]:
    """The facts that a run shows of the continuous unknowns."""
    return {
        name: _site_facts(site)
        for name, site in latent(sites).items()
        if not site["fn"].support.is_discrete
    }


def discrete(sites: Sites) -> list[str]:
    """Names of the discrete unknowns."""
    return [name for name, site in latent(sites).items() if site["fn"].support.is_discrete]


def deterministic(sites: Sites) -> list[str]:
    """Names of the sites that the model declares as functions of its unknowns."""
    return [name for name, site in sites.items() if site["type"] == "deterministic"]


def check_kinds(sites: Sites) -> None:
    """Raises ValueError naming a site that cannot be in a density of free variables."""
    for name, site in sites.items():
        kind = site["type"]
        argument = f"model: {kind} {name!r}"
        has_prior = kind not in ("param", "mutable")
        remedy = "Give it a prior: numpyro.sample in place of numpyro.param."
        require(has_prior, argument, "a variable with a prior", f"a {kind}", remedy)
        if kind == "plate":
            size, sample_size = site["args"]
            is_full = sample_size in (None, size)
            actual = f"a subsample of {sample_size}"
            require(is_full, argument, f"all of {size}", actual, NO_SUBSAMPLE)


def check_enumerable(sites: Sites) -> None:
    """Raises ValueError naming a site that keeps the discrete unknowns from being summed out."""
    for name in discrete(sites):
        fn = sites[name]["fn"]
        argument = f"model: discrete site {name!r}"
        is_finite = fn.has_enumerate_support
        actual = f"those of {type(fn).__name__}"
        remedy = "Sum it out by hand, and add the result by numpyro.factor."
        require(is_finite, argument, "finitely many values", actual, remedy)
        count = len(fn.enumerate_support(expand=False))
        require(count <= MOST_VALUES, argument, f"at most {MOST_VALUES} values", count, remedy)
    for name, site in sites.items():
        if site["type"] == "sample":
            _check_plates(name, site)


def _check_plates(name: str, site: Mapping[str, Any]) -> None:
    """Raises ValueError where plates do not declare every axis of a batch: values of other axes
    would be summed out together."""
    shape = site["fn"].batch_shape
    plate_axes = {frame.dim for frame in site["cond_indep_stack"]}
    if "_scan_current_index" in site["infer"]:
        plate_axes.add(-len(shape))  # numpyro.contrib.control_flow.scan puts the steps first
    has_plates = all(shape[axis] <= 1 or axis in plate_axes for axis in range(-len(shape), 0))
    argument = f"model: site {name!r}"
    actual = f"a batch of shape {shape} without"
    remedy = (
        "To sum out discrete sites, put it into numpyro.plate, or make its axes one event by "
        ".to_event()."
    )
    require(has_plates, argument, "plates for its batch", actual, remedy)


def _site_facts(site: Mapping[str, Any]) -> VariableFacts:
    constraint = site["fn"].support
    kind = type(getattr(site["fn"], "base_dist", site["fn"])).__name__
    return VariableFacts(
        shape=jnp.shape(site["value"]),
        dtype=jnp.result_type(site["value"]),
        support=support(constraint),
        support_text=f"{constraint} of {kind}",
    )


def first_axis(sites: Sites) -> int:
    """The axis before those of all plates, for the values of a discrete site."""
    ranks = [len(site["fn"].batch_shape) for site in sites.values() if site["type"] == "sample"]
    dims = [-frame.dim for site in sites.values() for frame in site.get("cond_indep_stack", ())]
    return -1 - max([*ranks, *dims], default=0)


def support(constraint: Any) -> Constraint | None:
    """Our constraint with the same set up to its boundary; None if there is none.

    >>> import pytest
    >>> constraints = pytest.importorskip("numpyro.distributions").constraints
    >>> support(constraints.independent(constraints.less_than(2.0), 1))
    below(high=2.0)
    """
    constraints = require_extra("numpyro.distributions", "numpyro").constraints
    while isinstance(constraint, constraints.independent):
        constraint = constraint.base_constraint
    fixed: list[tuple[Any, Constraint]] = [
        (constraints.real, constrain.real()),
        (constraints.simplex, constrain.simplex()),
        (constraints.ordered_vector, constrain.ordered()),
        (constraints.positive_definite, constrain.positive_definite()),
        (constraints.corr_cholesky, constrain.correlation_cholesky()),
    ]
    for theirs, ours in fixed:
        if type(constraint) is type(theirs):
            return ours
    if isinstance(constraint, constraints.interval):
        return interval_constraint(constraint.lower_bound, constraint.upper_bound)
    if isinstance(constraint, constraints.greater_than):
        return interval_constraint(constraint.lower_bound)
    if isinstance(constraint, constraints.less_than):
        return interval_constraint(high=constraint.upper_bound)
    return None

"""The sites of a NumPyro model, as a run shows them: unknowns with their supports, and checks of
what is no density."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from vijax import constrain
from vijax.adapters.variables import VariableFacts, interval_constraint
from vijax.checks import require
from vijax.constrain import Constraint
from vijax.extras import require_extra

Sites = Mapping[str, Mapping[str, Any]]
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


def is_in_scan(site: Mapping[str, Any]) -> bool:
    """True for a site in a step of `numpyro.contrib.control_flow.scan`."""
    return "_scan_current_index" in site["infer"]


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


def _site_facts(site: Mapping[str, Any]) -> VariableFacts:
    constraint = site["fn"].support
    kind = type(getattr(site["fn"], "base_dist", site["fn"])).__name__
    return VariableFacts(
        shape=jnp.shape(site["value"]),
        dtype=jnp.result_type(site["value"]),
        support=support(constraint),
        support_text=f"{constraint} of {kind}",
    )


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

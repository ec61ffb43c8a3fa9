"""Sites of a NumPyro model as its runs show them, and refusals of sites that no density of free variables can have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from vijax.adapters.found import Found
from vijax.adapters.numpyro_supports import support
from vijax.checks import require
from vijax.extras import require_extra

Sites = Mapping[str, Mapping[str, Any]]
MOST_VALUES = 1000
"""Values of a discrete site that are summed over."""
NO_SUBSAMPLE = (
    "Give the full plate, with all the data. For minibatches write the model by vijax.density(log_prior=, log_lik=), "
    "which scales the likelihood of a batch and not the prior."
)


def run(model: Callable[[], Any], key: PRNGKeyArray) -> Sites:
    """All sites of one run, unknown ones at random values of their support: improper priors have no draws."""
    handlers = require_extra("numpyro.handlers", "numpyro")
    initial = require_extra("numpyro.infer", "numpyro").init_to_uniform
    placed = handlers.substitute(handlers.seed(model, key), substitute_fn=initial)
    return handlers.trace(placed).get_trace()


def latent(sites: Sites) -> dict[str, Mapping[str, Any]]:
    """The sites that are neither observed nor factors."""
    return {name: site for name, site in sites.items() if site["type"] == "sample" and not site["is_observed"]}


def continuous(sites: Sites) -> dict[str, Found]:
    """The facts that a run shows of the continuous unknowns."""
    return {name: _found(site) for name, site in latent(sites).items() if not _is_discrete(site)}


def discrete(sites: Sites) -> list[str]:
    """Names of the discrete unknowns."""
    return [name for name, site in latent(sites).items() if _is_discrete(site)]


def deterministic(sites: Sites) -> list[str]:
    """Names of the sites that the model declares as functions of its unknowns."""
    return [name for name, site in sites.items() if site["type"] == "deterministic"]


def check_kinds(sites: Sites) -> None:
    """Raises ValueError naming a site that cannot be in a density of free variables."""
    for name, site in sites.items():
        kind, argument = site["type"], f"model: {site['type']} {name!r}"
        remedy = "Give it a prior: numpyro.sample in place of numpyro.param."
        require(kind not in ("param", "mutable"), argument, "a variable with a prior", f"a {kind}", remedy)
        if kind == "plate":
            size, drawn = site["args"]
            require(drawn in (None, size), argument, f"all of {size}", f"a subsample of {drawn}", NO_SUBSAMPLE)


def check_enumerable(sites: Sites) -> None:
    """Raises ValueError naming a site because of which the discrete unknowns cannot be summed out."""
    for name in discrete(sites):
        fn, argument = sites[name]["fn"], f"model: discrete site {name!r}"
        remedy = "Sum it out by hand, and add the result by numpyro.factor."
        require(fn.has_enumerate_support, argument, "finitely many values", f"those of {type(fn).__name__}", remedy)
        count = len(fn.enumerate_support(expand=False))
        require(count <= MOST_VALUES, argument, f"at most {MOST_VALUES} values", count, remedy)
    for name, site in sites.items():
        if site["type"] == "sample":
            _check_plates(name, site)


def _check_plates(name: str, site: Mapping[str, Any]) -> None:
    """Checks that plates declare every axis of a batch: values of other axes would be summed out together."""
    shape = site["fn"].batch_shape
    declared = {frame.dim for frame in site["cond_indep_stack"]}
    if "_scan_current_index" in site["infer"]:  # numpyro.contrib.control_flow.scan puts the steps first
        declared.add(-len(shape))
    free = [axis for axis in range(-len(shape), 0) if shape[axis] > 1 and axis not in declared]
    remedy = "To sum out discrete sites, put it into numpyro.plate, or make its axes one event by .to_event()."
    require(not free, f"model: site {name!r}", "plates for its batch", f"a batch of shape {shape} without", remedy)


def _is_discrete(site: Mapping[str, Any]) -> bool:
    return bool(site["fn"].support.is_discrete)


def _found(site: Mapping[str, Any]) -> Found:
    of = site["fn"].support
    return Found(jnp.shape(site["value"]), jnp.result_type(site["value"]), support(of), f"{of} of {_kind(site['fn'])}")


def _kind(fn: Any) -> str:
    return type(getattr(fn, "base_dist", fn)).__name__


def first_axis(sites: Sites) -> int:
    """The axis left of all plates, for values that are summed over."""
    ranks = [len(site["fn"].batch_shape) for site in sites.values() if site["type"] == "sample"]
    dims = [-frame.dim for site in sites.values() for frame in site.get("cond_indep_stack", ())]
    return -1 - max([*ranks, *dims], default=0)

"""NumPyro models as log densities of free variables."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from vijax.adapters import numpyro_sites as sites_of
from vijax.adapters.found import free_variables
from vijax.adapters.numpyro_sites import Sites
from vijax.checks import require
from vijax.contract.model import Model
from vijax.extras import require_extra
from vijax.models.energies.density import density

RUNS = 3
"""Runs of the model that show what its sites are."""
Values = Mapping[str, Any]


def from_numpyro(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Model:
    """A model from a NumPyro model with its data.

    Continuous sites without `obs` are the variables, in the supports of their distributions. `obs` sites,
    `numpyro.factor` and handlers that scale or mask count as in NumPyro. Funsor sums out discrete sites; each axis of
    their batches must then be a plate, and they are not among the draws of `fit.sample`. Sites of
    `numpyro.deterministic` are among these draws, and so are the variables that a reparameterisation replaced, except
    in models with discrete sites. `vijax.auto(model, key=key)` fits it: the model holds the data, always read whole.

    Args:
      model: a function that calls `numpyro.sample`, or a handler around one.
      *args: arguments of the model, data among them.
      **kwargs: keyword arguments of the model.

    Returns:
      A density of the continuous sites, for `vijax.auto` and every algorithm that fits densities.

    Raises:
      ValueError: nothing is unknown; a plate takes a subsample; a site is a `numpyro.param`; a support is none of
        vijax's, or changes with other sites' values; a discrete site has too many values, or batches without plates.
      ImportError: NumPyro is not installed; for discrete sites, funsor.

    A normal mean, of which four numbers are seen (Phan, Pradhan and Jankowiak 2019 describe the library):

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
    bound = functools.partial(model, *args, **kwargs)
    runs = [sites_of.run(bound, jax.random.key(i)) for i in range(RUNS)]
    for sites in runs:
        sites_of.check_kinds(sites)
    variables = free_variables("model", [sites_of.continuous(sites) for sites in runs])
    if sites_of.discrete(runs[0]):
        sites_of.check_enumerable(runs[0])
        return density(variables, _summed(bound, runs[0]))
    return density(variables, _plain(bound), derived=_derived(bound, sites_of.deterministic(runs[0])))


def _plain(model: Callable[[], Any]) -> Callable[[Values], Any]:
    """The log density of a model without discrete unknowns. There is no random key: a site left out raises an error."""
    log_density = require_extra("numpyro.infer.util", "numpyro").log_density
    return lambda values: _one_number(log_density(model, (), {}, dict(values))[0])


def _summed(model: Callable[[], Any], sites: Sites) -> Callable[[Values], Any]:
    """The log density with discrete unknowns summed out (Obermeyer et al. 2019)."""
    require_extra("funsor", "numpyro")
    theirs = require_extra("numpyro.contrib.funsor", "numpyro")
    each = theirs.enum(theirs.config_enumerate(model), sites_of.first_axis(sites))
    return lambda values: _one_number(theirs.log_density(each, (), {}, dict(values))[0])


def _one_number(total: Any) -> Any:
    return jnp.asarray(total, jnp.result_type(float))


def _derived(model: Callable[[], Any], names: list[str]) -> Callable[[Values], dict[str, Any]] | None:
    """The deterministic sites, as functions of the values."""
    if not names:
        return None
    handlers = require_extra("numpyro.handlers", "numpyro")

    def derived(values: Values) -> dict[str, Any]:
        sites = handlers.trace(handlers.substitute(model, data=dict(values))).get_trace()
        return {name: jnp.asarray(sites[name]["value"]) for name in names}

    return derived

"""NumPyro models as log densities of free variables."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vijax.adapters.conjugate.marginal import AllValues, Marginal, PlaceholderFunction, describe
from vijax.adapters.conjugate.search import find_plan
from vijax.adapters.discrete.joint_draws import draw_all_sites
from vijax.adapters.indices import check_indices
from vijax.adapters.numpyro_data import (
    blame_arguments,
    check_missing_as_unknown,
    check_observations,
    missing_arguments,
    odd_arguments,
    read_arguments,
    require_run,
)
from vijax.adapters.numpyro_discrete import Enumeration, discrete_posterior, shorten
from vijax.adapters.numpyro_laws import find_levels, make_walk, varying_laws
from vijax.adapters.numpyro_sites import (
    Sites,
    check_kinds,
    continuous,
    deterministic,
    discrete,
    run,
)
from vijax.adapters.reuse import reuse_model
from vijax.adapters.variables import free_variables
from vijax.checks import require, traceable
from vijax.contract.model import Model
from vijax.contract.variables import Free
from vijax.extras import require_extra
from vijax.models.energies.density import density, with_hierarchy, with_prior, with_source
from vijax.xla import by_value
from vijax.xla.compiler import quick_jit
from vijax.xla.frozen import snapshot

RUNS = 3
"""Runs of the model from which its sites are read."""
SUMMED_OUT = (
    "Summed out: {names}; fit.locals(None, key=key) gives the posterior probabilities, and "
    "vijax.adapters.sample_discrete(fit, key) draws them jointly."
)
Values = Mapping[str, Any]


def from_numpyro(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Model:
    """A model from a NumPyro model with its data.

    Continuous sites without `obs` are the variables, in the supports of their distributions. `obs`
    sites, `numpyro.factor` and handlers that scale or mask count as in NumPyro. Sites of
    `numpyro.deterministic` are among the draws of `fit.sample`, and so are the variables that a
    reparameterisation replaced.

    Discrete sites of finitely many values are summed out by Funsor, in plates, in chains (`scan` or
    `markov`) and alone; `fit.verdict` names them, and `fit.locals(None, key=key)["z"].probs` are
    the posterior probabilities of `z`, its values along the last axis. They are not among the draws
    of `fit.sample`, nor is a deterministic site that depends on them:
    `vijax.adapters.sample_discrete(fit, key)` draws all of them jointly.

    Of continuous sites whose law depends on other sites, those whose integral has a closed form
    given all others are integrated out: effects of groups, rates and walks in normal, Poisson and
    binomial data (beta, gamma, inverse gamma and normal laws, also in blocks). `fit.verdict` names
    them, and `fit.sample` draws them from their law given the others. This needs the data as
    arguments of the model, not as variables of its module.

    Columns of tables, lists of numbers and masked arrays among the arguments come to the model as
    arrays. A fit can be pickled where the model is a function of a module.

    `vijax.auto(model, key=key)` fits it: the model holds the data, and reads all of them at every
    step.

    Args:
      model: a function that calls `numpyro.sample`, or a handler around one.
      *args: arguments of the model, data among them.
      **kwargs: keyword arguments of the model.

    Returns:
      A density of the continuous sites, for `vijax.auto` and every algorithm that fits densities.

    Raises:
      ValueError: nothing is unknown, or only discrete sites are; JAX cannot trace the model; an
        index beyond an array; a table or dates among the arguments; data that are missing, or
        outside of the support of their site; `obs_mask`; a plate takes a subsample; a site is a
        `numpyro.param`; a support is none of vijax's, or changes with other sites' values; a
        discrete site has too many values, batches without plates, a scale or a mask, or is used in
        such a way that its sum is another density than the model's.
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
    args, kwargs = read_arguments(model, args, kwargs)
    recipe = (model, args, kwargs)
    odd = odd_arguments(model, args, kwargs)
    bound = _bind(snapshot(model), args, kwargs)
    runs = _run_and_check(bound, odd, missing_arguments(model, args, kwargs))
    _check_some_continuous(runs[0])
    variables = free_variables("model", [continuous(sites) for sites in runs])
    values = {name: runs[0][name]["value"] for name in variables}
    # Two models of one density may differ in their sites, and so in their levels.
    kinds = [(name, site["type"], type(site.get("fn")).__name__) for name, site in runs[0].items()]
    facts = (variables, kinds)
    plain = _plain_density(bound, runs[0])
    with blame_arguments(odd), traceable("model"):
        jax.eval_shape(plain, values)
    if discrete(runs[0]):
        enumeration = Enumeration.from_sites(bound, runs[0])
        parts = _Parts.from_enumeration(enumeration, values)
    else:
        parts = _Parts(bound, runs, _joint_density(bound), deterministic(runs[0]), list(variables))
    derived = _deterministic_values(parts.model, parts.derived_names)
    prior = _prior_density(parts.model, list(variables))

    def make() -> Model:
        # A model that is equal to an earlier one was checked with it.
        check_indices(plain, values)
        parts.check(values)
        return _make(parts, variables, prior, derived)

    new_model = reuse_model(parts.joint, [prior, derived], values, facts, make)
    return by_value.pickle_as_call(new_model, _from_recipe, *recipe)


def _make(
    parts: _Parts,
    variables: Mapping[str, Free],
    prior: Callable[[Values], Any],
    derived: Callable[[Values], dict[str, Any]] | None,
) -> Model:
    """The model of the density, without the unknowns that can be integrated out."""
    runs = [{name: sites[name]["value"] for name in variables} for sites in parts.runs]
    sites_at = lambda changes: _substitute_and_run(parts.model, {**runs[0], **changes})
    levels = find_levels(sites_at, parts.runs, parts.law_names)
    walk = make_walk(parts.model, levels)

    def are_parents(names: Sequence[str]) -> bool:
        changed = sites_at({name: runs[1][name] for name in names})
        return bool(
            varying_laws(
                [parts.runs[0], changed], [name for name in variables if name not in names]
            )
        )

    plan = find_plan(parts.joint, variables, levels, are_parents, runs)
    queries = dict(parts.queries)
    if plan is None:
        model = with_prior(density(variables, parts.joint, derived=derived), prior)
    else:
        variables = plan.remaining(variables)
        marginal = Marginal(plan, parts.joint)
        prior = PlaceholderFunction(plan, _prior_density(parts.model, list(variables)))
        new_density = density(variables, marginal, derived=AllValues(marginal, derived))
        model = with_prior(new_density, prior)
        levels, walk = plan.remaining_levels(levels), plan.walk(walk)
        queries["summed out"] = f"{queries.get('summed out', '')} {describe(plan.names)}".strip()
    if levels:
        model = with_hierarchy(model, walk, levels)
    return with_source(model, "NumPyro", queries)


def _run_and_check(
    bound: Callable[[], Any], odd: Sequence[str], missing: Sequence[str]
) -> list[Sites]:
    """The sites of a model with its arguments in several runs.

    Args:
      bound: the model with its arguments.
      odd: sentences on arguments that JAX does not take.
      missing: sentences on arguments with missing values.

    Raises:
      ValueError: it does not run; a site is in no density; observations are missing or impossible.
    """
    try:
        with blame_arguments(odd):
            runs = [run(bound, jax.random.key(i)) for i in range(RUNS)]
    except ValueError as error:
        require_run(error, missing)
        raise
    for sites in runs:
        check_kinds(sites)
        check_missing_as_unknown(sites)
    with blame_arguments(odd):
        check_observations(runs, missing)
    return runs


def _from_recipe(model: Callable[..., Any], args: Any, kwargs: Any) -> Model:
    """The model of `from_numpyro`, made again from a pickle."""
    return from_numpyro(model, *args, **kwargs)


def _plain_density(model: Callable[[], Any], sites: Sites) -> Callable[[Values], Any]:
    """The log density of the continuous unknowns, where discrete sites have the values of a run."""
    discrete_values = {name: sites[name]["value"] for name in discrete(sites)}
    joint = _joint_density(model)
    return lambda values: joint({**values, **discrete_values})


def discrete_probabilities(
    model: Callable[..., Any], *args: Any, **kwargs: Any
) -> dict[str, np.ndarray]:
    """The exact posterior probabilities of the discrete sites of a NumPyro model in which nothing
    else is unknown: by name, the values of a site along the last axis. The model, its arguments and
    errors are as for `from_numpyro`.

    >>> import pytest
    >>> numpyro = pytest.importorskip("numpyro")
    >>> funsor = pytest.importorskip("funsor")
    >>> def story(y):
    ...     face = numpyro.sample("face", numpyro.distributions.Bernoulli(0.5))
    ...     numpyro.sample("y", numpyro.distributions.Normal(face, 1.0), obs=y)
    >>> print(discrete_probabilities(story, 0.5)["face"])
    [0.5 0.5]
    """
    require(callable(model), "model", "a function that calls numpyro.sample", type(model).__name__)
    args, kwargs = read_arguments(model, args, kwargs)
    bound = _bind(model, args, kwargs)
    odd = odd_arguments(model, args, kwargs)
    sites, *_ = _run_and_check(bound, odd, missing_arguments(model, args, kwargs))
    names = list(continuous(sites))
    remedy = "vijax.auto(vijax.from_numpyro(model, *args), key=key) fits it."
    require(not names, "model", "discrete unknowns alone", f"continuous ones, {names}", remedy)
    remedy = "Everything is observed: nothing is left to infer."
    require(bool(discrete(sites)), "model", "discrete unknowns", "none", remedy)
    enumeration = Enumeration.from_sites(bound, sites)
    enumeration.check({})
    return jax.tree.map(np.asarray, quick_jit(enumeration.probabilities)({}))


class _Parts(NamedTuple):
    """The parts of a density.

    Attributes:
      model: the model, with discrete sites observed.
      runs: its sites in several runs.
      joint: its log density, discrete sites summed out.
      derived_names: names of deterministic sites that are functions of continuous ones alone.
      law_names: names of the sites whose laws depend on continuous ones alone.
      queries: answers of the model on its discrete sites, by question.
      check: raises ValueError at values of continuous sites if the sum over discrete ones is wrong.
    """

    model: Callable[[], Any]
    runs: list[Sites]
    joint: Callable[[Values], Any]
    derived_names: list[str]
    law_names: list[str]
    queries: Mapping[str, Any] = MappingProxyType({})
    check: Callable[[Values], None] = lambda values: None

    @classmethod
    def from_enumeration(cls, enumeration: Enumeration, values: Values) -> _Parts:
        """The parts of a model with discrete sites."""
        model = enumeration.condition()
        runs = [run(model, jax.random.key(i)) for i in range(RUNS)]
        variations = [
            _substitute_and_run(enumeration.condition(places), values)
            for places in enumeration.trials()
        ]
        first = variations[0]
        is_fixed = lambda name: all(
            np.array_equal(first[name]["value"], sites[name]["value"]) for sites in variations
        )
        derived_names = [name for name in deterministic(first) if is_fixed(name)]
        with_several = varying_laws(variations, list(values))
        law_names = [name for name in values if name not in with_several]
        names = list(enumeration.supports)
        queries = {
            "summed out": SUMMED_OUT.format(names=shorten(names)),
            "locals": functools.partial(discrete_posterior, enumeration),
            "discrete draws": functools.partial(draw_all_sites, enumeration),
        }
        density = enumeration.log_density
        return cls(model, runs, density, derived_names, law_names, queries, enumeration.check)


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
        "No fit is needed: vijax.adapters.discrete_probabilities(model, *args) returns their exact "
        "posterior probabilities.",
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

"""Draws of a fit as ArviZ keeps them. ArviZ itself is imported when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from vijax.checks import require, require_integers
from vijax.contract.model import Model
from vijax.extras import require_extra
from vijax.inference.guides import Z
from vijax.predict.predictive import coordinates, drawn, observed
from vijax.verdict.target import Target
from vijax.xla import keys
from vijax.xla.compiler import cached_program, quick_jit

Named = dict[str, np.ndarray]


def to_arviz(
    fit: Any,
    key: PRNGKeyArray,
    num_draws: int = 1000,
    *,
    data: Any = None,
    predictive_of: Any = None,
) -> Any:
    """See `vijax.Fit.to_arviz`."""
    require_integers(num_draws=num_draws)
    arviz = load()
    model, axes = fit.alg.spec.model, {}
    if model.log_density is not None:
        draws, stats = draws_of_density(fit, model, key, num_draws, data)
        if "beside" in model.queries:
            z = coordinates(fit.posterior[Z], key, num_draws)  # those of `draws_of_density`
            beside = model.queries["beside"](fit, z, keys.fold_in(key, 2))
            draws, axes = draws | beside.values, {"dims": beside.dims, "coords": beside.coords}
    else:
        got = "data for a model in conjugate form"
        require(data is None, "data", "None", got, "Only densities (vijax.density) have lp and lq.")
        draws, stats = fit.sample(key, num_draws), {}
    groups = {"posterior": _one_chain(_by_path(draws)), "sample_stats": _one_chain(stats)}
    if predictive_of is not None:
        made, seen = replicated(fit, keys.fold_in(key, 1), num_draws, predictive_of)
        groups |= {"posterior_predictive": _one_chain(made), "observed_data": seen}
    given = {name: group for name, group in groups.items() if group}
    is_tree = (
        int(arviz.__version__.partition(".")[0]) >= 1
    )  # from 1.0 on it keeps groups in an xarray.DataTree
    tree = arviz.from_dict(given, **axes) if is_tree else arviz.from_dict(**given, **axes)
    for name in given:
        tree[name].attrs.update(_attributes(fit))
    return tree


def replicated(fit: Any, key: PRNGKeyArray, num_draws: int, data: Any) -> tuple[Named, Named]:
    """Replicated data and the data, by name: "y" where they are one array."""
    named = lambda x: _by_path(x if isinstance(x, dict) else {"y": x})
    return named(drawn(fit, key, num_draws, data, "same")), named(observed(fit, data))


def load() -> Any:
    """Imports ArviZ."""
    try:
        return require_extra("arviz", "arviz")
    except (
        FileNotFoundError
    ):  # 0.23 loses a file where two processes first import it on one day; the second time works
        return require_extra("arviz", "arviz")


def draws_of_density(
    fit: Any, model: Model, key: PRNGKeyArray, num_draws: int, data: Any
) -> tuple[dict, Named]:
    """Draws of the variables, with known log p and log q at their free coordinates."""
    q, density = fit.posterior[Z], model.log_density
    z = coordinates(q, key, num_draws)
    program = cached_program(density, "draws for ArviZ", lambda of: quick_jit(_at(of)))
    x, log_q, values = program(fit.state.hyper, q, z)
    stats = {"lq": np.asarray(log_q, np.float64)}
    if not density.reads_data or data is not None:
        stats["lp"] = Target.of(model, data).values(np.asarray(x))
    return values, stats


def _at(of: Callable[[], Any]) -> Callable[..., Any]:
    """A program of draws of q: their free coordinates, log q of these, and their values."""

    def at(hyper: Any, q: Any, z: Any) -> Any:
        density, log_q = of(), q.log_prob(z)
        log_q = log_q if log_q.ndim == 1 else jnp.sum(log_q, -1)  # over independent coordinates
        log_q = log_q - jax.vmap(lambda z: density.log_volume(hyper, z))(z)
        values = density.visible(density.values(hyper, {Z: z}))
        return jax.vmap(lambda z: density.point(hyper, z))(z), log_q, values

    return at


def _by_path(draws: Mapping[str, PyTree]) -> Named:
    """The arrays of trees, each by the name of its tree and its place in it."""
    paths, _ = jax.tree_util.tree_flatten_with_path(dict(draws))
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(x) for path, x in paths
    }


def _one_chain(draws: Named) -> Named:
    return {name: x[None] for name, x in draws.items()}


def _attributes(fit: Any) -> dict[str, Any]:
    from vijax import __version__

    said = {
        "inference_library": "vijax",
        "inference_library_version": __version__,
        "algorithm": fit.alg.spec.name,
    }
    if fit.report is None:
        return said
    report = fit.report
    bound = {
        "elbo": report.elbo.value,
        "elbo_standard_error": report.elbo.standard_error,
        "gap": report.gap,
    }
    return {**said, "verdict": report.verdict, "khat": report.khat, **bound}

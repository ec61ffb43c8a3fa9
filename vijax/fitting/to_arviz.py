"""Draws of a fit in ArviZ's form. ArviZ is imported at the first use."""

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
from vijax.predict.predictive import draw_coordinates, draw_data, observed_data
from vijax.verdict.target import Target
from vijax.xla import keys
from vijax.xla.compiler import cached_program, quick_jit

Arrays = dict[str, np.ndarray]


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
    model = fit.alg.spec.model
    axes: dict[str, Any] = {}
    if model.log_density is not None:
        draws, stats = draws_of_density(fit, model, key, num_draws, data)
        if "beside" in model.queries:
            z = draw_coordinates(fit.posterior[Z], key, num_draws)  # as in `draws_of_density`
            beside = model.queries["beside"](fit, z, keys.fold_in(key, 2))
            draws = draws | beside.values
            axes = {"dims": beside.dims, "coords": beside.coords}
    else:
        require(
            data is None,
            "data",
            "None",
            "data for a model in conjugate form",
            "Only densities (vijax.density) have lp and lq.",
        )
        draws = fit.sample(key, num_draws)
        stats = {}
    groups = {"posterior": _one_chain(_flatten(draws)), "sample_stats": _one_chain(stats)}
    if predictive_of is not None:
        replicates, data = replicate(fit, keys.fold_in(key, 1), num_draws, predictive_of)
        groups |= {"posterior_predictive": _one_chain(replicates), "observed_data": data}
    groups = {name: group for name, group in groups.items() if group}
    has_trees = int(arviz.__version__.partition(".")[0]) >= 1  # then groups are an xarray.DataTree
    tree = arviz.from_dict(groups, **axes) if has_trees else arviz.from_dict(**groups, **axes)
    for name in groups:
        tree[name].attrs.update(_attributes(fit))
    return tree


def replicate(fit: Any, key: PRNGKeyArray, num_draws: int, data: Any) -> tuple[Arrays, Arrays]:
    """Replicated data and the data, by name: "y" where they are one array."""
    flatten = lambda x: _flatten(x if isinstance(x, dict) else {"y": x})
    return flatten(draw_data(fit, key, num_draws, data, "same")), flatten(observed_data(fit, data))


def load() -> Any:
    """Imports ArviZ."""
    try:
        return require_extra("arviz", "arviz")
    except FileNotFoundError:
        # 0.23 loses a file if two processes first import it on one day; the second import works.
        return require_extra("arviz", "arviz")


def draws_of_density(
    fit: Any, model: Model, key: PRNGKeyArray, num_draws: int, data: Any
) -> tuple[dict, Arrays]:
    """Draws of the variables, and log p (if it is known) and log q of their free coordinates."""
    q = fit.posterior[Z]
    density = model.log_density
    z = draw_coordinates(q, key, num_draws)
    program = cached_program(
        density, "draws for ArviZ", lambda density_ref: quick_jit(_bind(density_ref))
    )
    x, log_q, values = program(fit.state.hyper, q, z)
    stats = {"lq": np.asarray(log_q, np.float64)}
    if not density.reads_data or data is not None:
        stats["lp"] = Target.from_data(model, data).values(np.asarray(x))
    return values, stats


def _bind(density_ref: Callable[[], Any]) -> Callable[..., Any]:
    """A program of draws of q: their free coordinates, log q of these, and their values."""

    def evaluate(hyper: Any, q: Any, z: Any) -> Any:
        density = density_ref()
        log_q = q.log_prob(z)
        log_q = log_q if log_q.ndim == 1 else jnp.sum(log_q, -1)  # over independent coordinates
        log_q = log_q - jax.vmap(lambda z: density.log_volume(hyper, z))(z)
        values = density.visible(density.values(hyper, {Z: z}))
        return jax.vmap(lambda z: density.point(hyper, z))(z), log_q, values

    return evaluate


def _flatten(draws: Mapping[str, PyTree]) -> Arrays:
    """The arrays of trees, each named `tree.place`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(dict(draws))
    name = lambda path: jax.tree_util.keystr(path, simple=True, separator=".")
    return {name(path): np.asarray(leaf) for path, leaf in leaves}


def _one_chain(draws: Arrays) -> Arrays:
    return {name: x[None] for name, x in draws.items()}


def _attributes(fit: Any) -> dict[str, Any]:
    from vijax import __version__

    attributes = {
        "inference_library": "vijax",
        "inference_library_version": __version__,
        "algorithm": fit.alg.spec.name,
    }
    if fit.report is None:
        return attributes
    report = fit.report
    return {
        **attributes,
        "verdict": report.verdict,
        "khat": report.khat,
        "elbo": report.elbo.value,
        "elbo_standard_error": report.elbo.standard_error,
        "gap": report.gap,
    }

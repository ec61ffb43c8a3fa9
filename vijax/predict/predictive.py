"""Draws from what was fitted: of globals, of locals, and of data (the posterior predictive
distribution)."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from vijax.checks import check_key, require, require_integers
from vijax.contract.batch import Minibatch
from vijax.contract.intake import cast_data
from vijax.contract.model import Hyper, LocalElbo, Model
from vijax.contract.queries import Generative, is_size, is_sizes
from vijax.families import Family, Product
from vijax.inference.spec import Spec
from vijax.predict.questions import infer, infer_documents
from vijax.xla import keys
from vijax.xla.compiler import cached_program, count_numbers, quick_jit, step_jit
from vijax.xla.memory import total_memory
from vijax.xla.precision import enable_x64

Groups = Literal["new", "same"]
Read = Callable[[PyTree, dict[str, Any], Any], Any]
"""(data, values of the globals, a further argument) -> the part of a draw that is kept; equal ones
are compiled once."""
AT_ONCE = 1 << 20
"""Numbers of the draws that are made at once."""


def whole(data: PyTree, values: dict[str, Any], given: None) -> PyTree:
    """The data themselves."""
    return data


def draw_globals(
    spec: Spec, hyper: Hyper, posterior: Product, key: PRNGKeyArray, num_draws: int
) -> dict[str, Any]:
    """Values of the globals by name, draws leading; of points the same value each time."""
    points = tuple(name for name in posterior if spec.is_point(name))
    is_traced = isinstance(
        key, jax.core.Tracer
    )  # within a program of the caller's, which has one precision
    if getattr(getattr(spec.model.free, "derived", None), "in_float64", False) and not is_traced:
        return _draw_wide_globals(spec.model, num_draws, points, hyper, posterior, key)
    make = lambda of: quick_jit(
        lambda *given: _shown(of(), _values(of(), *given)), static_argnums=(0, 1)
    )
    return cached_program(spec.model, "draws", make)(num_draws, points, hyper, posterior, key)


def _draw_wide_globals(
    model: Model,
    num_draws: int,
    points: tuple[str, ...],
    hyper: Hyper,
    posterior: Product,
    key: PRNGKeyArray,
) -> dict[str, np.ndarray]:
    """The same draws, whose values are computed in float64 where they are derived so: far from
    zero, and of columns far from zero, float32 keeps too few digits of them."""
    draw = cached_program(
        model, "coordinates", lambda of: quick_jit(_draws_of, static_argnums=(0, 1))
    )
    drawn = draw(num_draws, points, posterior, key)
    with enable_x64(True):
        make = lambda of: quick_jit(
            lambda hyper, drawn: of().free.visible(dict(of().free.values(hyper, drawn)))
        )
        values = cached_program(model, "values in float64", make)(*map(_in_float64, (hyper, drawn)))
        return jax.tree.map(np.asarray, values)


def _in_float64(values: PyTree) -> PyTree:
    wide = lambda x: np.asarray(x, np.float64) if jnp.issubdtype(x.dtype, jnp.floating) else x
    return jax.tree.map(wide, values)


def draw_coordinates(q: Family, key: PRNGKeyArray, num_draws: int) -> Any:
    """Draws of a guide's coordinates, (num_draws, D)."""
    return _coordinates(q, key, num_draws)


@functools.partial(quick_jit, static_argnums=2)
def _coordinates(q: Family, key: PRNGKeyArray, num_draws: int) -> Any:
    return q.sample(key, (num_draws,))


def draw_locals(factors: PyTree, key: PRNGKeyArray, num_draws: int) -> dict[str, Any]:
    """Values of each local by name: draws leading, then groups. Raises ValueError: they are no
    families by name."""
    if not isinstance(factors, dict) or not all(isinstance(q, Family) for q in factors.values()):
        raise ValueError(
            "locals_of: expected a model whose locals are families by name (vijax.energy_model, "
            "and the ready models made by it), got one whose locals are arrays of its own. See "
            "fit.locals(data, key=key)."
        )
    keys = dict(zip(factors, jax.random.split(key, len(factors)), strict=True))
    return {name: q.sample(keys[name], (num_draws,)) for name, q in factors.items()}


def draw_data(
    fit: Any,
    key: PRNGKeyArray,
    num_draws: int,
    like: Any,
    groups: Groups = "new",
    read: Read = whole,
    given: Any = None,
    ahead: int = 0,
) -> Any:
    """Data drawn from a fit, draws leading, or the parts of them that `read` keeps. See
    `Fit.predictive`, and for steps `ahead` `Fit.forecast`."""
    check_key(key, "It is the first argument.")
    require_integers(num_draws=num_draws)
    require(groups in ("new", "same"), "groups", '"new" or "same"', repr(groups))
    model, state = fit.alg.spec.model, fit.state
    how: Generative = model.answer("predictive")
    like = _read(fit, like)
    layout = how.layout(like)
    key_found, key_draws = jax.random.split(key)
    local = (
        _found(fit, how, like, key_found) if groups == "same" and how.locals is not None else None
    )
    points = tuple(name for name in fit.posterior if fit.alg.spec.is_point(name))
    q, posterior = how.globals, fit.posterior
    laws, sizes = (posterior, layout) if q is None else (q(state.hyper, posterior, layout), None)
    arguments = (state.hyper, laws, sizes, local, given, key_draws)
    make = lambda of: step_jit(_bind(of, read, ahead), static_argnums=(0, 1))
    program = cached_program(model, ("predictive", read, ahead), make)
    _check_memory(jax.eval_shape(lambda *a: program(points, 1, *a), *arguments), num_draws)
    return program(points, num_draws, *arguments)


def forecast(fit: Any, key: PRNGKeyArray, num_draws: int, data: Any, num_steps: int) -> Any:
    """Draws of the steps that follow sequences. See `Fit.forecast`."""
    require_integers(num_steps=num_steps)
    fit.alg.spec.model.answer("forecast")
    require(
        not is_size(data) and not is_sizes(data),
        "data",
        "sequences (y, mask)",
        data,
        "See vijax.models.pad.",
    )
    return draw_data(fit, key, num_draws, data, "same", ahead=num_steps)


def observed_data(fit: Any, data: Any) -> PyTree:
    """Data in the form of draws, to compare draws with."""
    model = fit.alg.spec.model
    how, data = model.answer("predictive"), _read(fit, data)
    return how.observed(how.layout(data), data)


def _read(fit: Any, like: Any) -> Any:
    """Data as the model reads them: documents over the words of the fit; sizes and inputs of
    predictors as they are."""
    model = fit.alg.spec.model
    are_sizes = is_size(like) or (model.answer("predictive").from_sizes and is_sizes(like))
    if are_sizes or model.by_entry is not None:
        return like
    return cast_data(model, like) if model.form.documents is None else fit.in_words(like, "like")


def _bind(of: weakref.ref[Model], read: Read, ahead: int) -> Callable[..., Any]:
    def draw(points, num_draws, hyper, laws, layout, local, given, key):
        model = of()
        how = model.answer("predictive")

        def one(key: PRNGKeyArray) -> Any:
            key_globals, key_locals, key_data = jax.random.split(key, 3)
            values = jax.tree.map(
                lambda x: x[0], _values(model, 1, points, hyper, laws, key_globals)
            )
            inside, where = _locals(how, hyper, values, layout, local, key_locals), layout
            if ahead:
                inside, where = how.ahead(
                    hyper, values, inside, layout, ahead, keys.fold_in(key_locals, 1)
                )
            return read(
                how.data(hyper, values, inside, where, key_data), _shown(model, values), given
            )

        sizes = [count_numbers(jax.eval_shape(one, key)), count_numbers(layout, local)]
        return _map(one, jax.random.split(key, num_draws), AT_ONCE // max(*sizes, 1))

    return draw


def _map(one: Callable[[PRNGKeyArray], Any], keys: PRNGKeyArray, at_once: int) -> Any:
    """`one` of each key, some at once; the last of them made up to as many, so that it is compiled
    once."""
    num_draws = len(keys)
    if num_draws <= at_once:
        return jax.vmap(one)(keys)
    width = max(at_once, 1)
    filled = keys[jnp.arange(-(-num_draws // width) * width) % num_draws]
    return jax.tree.map(lambda x: x[:num_draws], jax.lax.map(one, filled, batch_size=width))


def _values(
    model: Any,
    num_draws: int,
    points: tuple[str, ...],
    hyper: Hyper,
    laws: Mapping[str, Any],
    key: PRNGKeyArray,
) -> dict[str, Any]:
    """Draws of the globals, as the model's user calls them, and what is not shown."""
    drawn = _draws_of(num_draws, points, laws, key)
    return drawn if model.free is None else dict(model.free.values(hyper, drawn))


def _draws_of(
    num_draws: int, points: tuple[str, ...], laws: Mapping[str, Any], key: PRNGKeyArray
) -> dict[str, Any]:
    """Draws of the globals by name; of points the same each time."""
    each = dict(zip(laws, jax.random.split(key, max(len(laws), 1)), strict=False))
    repeated = lambda x: jnp.broadcast_to(x, (num_draws, *jnp.shape(x)))
    one = lambda name, q: (
        jax.tree.map(repeated, q.mode()) if name in points else q.sample(each[name], (num_draws,))
    )
    return {name: one(name, law) for name, law in laws.items()}


def _shown(model: Any, values: dict[str, Any]) -> dict[str, Any]:
    return values if model.free is None else model.free.visible(values)


def _locals(
    how: Generative, hyper: Hyper, values: Any, layout: PyTree, local: Any, key: PRNGKeyArray
) -> Any:
    if local is None:
        return {} if how.locals is None else how.locals(hyper, values, layout, key)
    each = jax.random.split(key, len(local))
    return {name: q.sample(k) for (name, q), k in zip(local.items(), each, strict=True)}


def _found(fit: Any, how: Generative, like: Any, key: PRNGKeyArray) -> Any:
    """Families of the locals of data, by name."""
    spec, state = fit.alg.spec, fit.state
    if spec.model.form.documents is not None:
        from vijax.data import read

        found = infer_documents(_families, spec, state.hyper, fit.posterior, read(like), key)
        return jax.tree.map(jnp.asarray, found)
    require(not isinstance(like, int | np.integer), "like", 'data, for groups="same"', like)
    return infer(_families, spec, state.hyper, fit.posterior, Minibatch(like, None), key)


def _families(model: Model, stats: PyTree, said: LocalElbo, key: PRNGKeyArray) -> Any:
    found = model.answer("predictive").found
    return (
        found(stats, said.local)
        if model.form.documents is None
        else [found(stats, x) for x in said.local]
    )


def _check_memory(one: PyTree, num_draws: int) -> None:
    """Raises ValueError before an allocation that cannot succeed."""
    size = sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(one)) * num_draws
    there = 0.5 * total_memory()
    remedy = (
        "Take fewer draws or rows, or vijax.evaluate.predictive_check, which keeps a statistic of "
        "each draw alone."
    )
    require(
        size <= there,
        "num_draws",
        f"draws that fit in {there / 1e9:.3g} GB",
        f"{size / 1e9:.3g} GB",
        remedy,
    )

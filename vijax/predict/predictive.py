"""Draws from a fit: of globals, of locals, and of data (the posterior predictive distribution)."""

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
"""(data, values of the globals, a further argument) -> the part of a draw that is returned; equal
functions are compiled once."""
AT_ONCE = 1 << 20
"""Numbers in the draws that are made at once."""


def keep_data(data: PyTree, values: dict[str, Any], argument: None) -> PyTree:
    """The `Read` that returns all data of a draw."""
    return data


def draw_globals(
    spec: Spec, hyper: Hyper, posterior: Product, key: PRNGKeyArray, num_draws: int
) -> dict[str, Any]:
    """Draws of the globals by name, with the draws as first axis; points are repeated."""
    points = tuple(name for name in posterior if spec.is_point(name))
    is_traced = isinstance(key, jax.core.Tracer)  # then the program of the caller has one precision
    if getattr(getattr(spec.model.free, "derived", None), "in_float64", False) and not is_traced:
        return _draw_wide_globals(spec.model, num_draws, points, hyper, posterior, key)

    def bind(model_ref: weakref.ref[Model]) -> Callable[..., Any]:
        draw = lambda *args: _visible(model_ref(), _values(model_ref(), *args))
        return quick_jit(draw, static_argnums=(0, 1))

    draws = cached_program(spec.model, "draws", bind)(num_draws, points, hyper, posterior, key)
    if is_traced or not _has_lost_values(spec.model, draws):
        return draws
    wide = _draw_wide_globals(spec.model, num_draws, points, hyper, posterior, key)
    return jax.tree.map(lambda x, held: np.asarray(x, held.dtype), wide, draws)


def _has_lost_values(model: Model, draws: dict[str, Any]) -> bool:
    """True where float32 has no number for a value that is derived from the variables, such as the
    factor of a covariance: float64 may have one."""
    has_derived = getattr(model.free, "derived", None) is not None
    if not has_derived or jnp.result_type(float) == jnp.float64:
        return False
    return any(not np.isfinite(x).all() for x in jax.tree.leaves(draws))


def _draw_wide_globals(
    model: Model,
    num_draws: int,
    points: tuple[str, ...],
    hyper: Hyper,
    posterior: Product,
    key: PRNGKeyArray,
) -> dict[str, np.ndarray]:
    """The draws of `draw_globals`, for models whose values are derived in float64: float32 keeps
    too few digits of values far from zero, and of values from columns far from zero."""
    bind_draw = lambda _: quick_jit(_draw_coordinates_by_name, static_argnums=(0, 1))
    draw = cached_program(model, "coordinates", bind_draw)
    draws = draw(num_draws, points, posterior, key)

    def bind(model_ref: weakref.ref[Model]) -> Callable[..., Any]:
        def values(hyper: Hyper, draws: dict[str, Any]) -> dict[str, Any]:
            free: Any = model_ref().free  # type: ignore[union-attr]
            return free.visible(dict(free.values(hyper, draws)))

        return quick_jit(values)

    with enable_x64(True):
        program = cached_program(model, "values in float64", bind)
        return jax.tree.map(np.asarray, program(_as_float64(hyper), _as_float64(draws)))


def _as_float64(values: PyTree) -> PyTree:
    """The values, floats as NumPy arrays in float64."""
    is_float = lambda x: jnp.issubdtype(x.dtype, jnp.floating)
    return jax.tree.map(lambda x: np.asarray(x, np.float64) if is_float(x) else x, values)


def draw_coordinates(q: Family, key: PRNGKeyArray, num_draws: int) -> Any:
    """Draws of the coordinates of a guide, (num_draws, D)."""
    return _coordinates(q, key, num_draws)


@functools.partial(quick_jit, static_argnums=2)
def _coordinates(q: Family, key: PRNGKeyArray, num_draws: int) -> Any:
    return q.sample(key, (num_draws,))


def draw_locals(factors: PyTree, key: PRNGKeyArray, num_draws: int) -> dict[str, Any]:
    """Draws of each local by name, (draws, groups, ...); ValueError unless the factors are families
    by name."""
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
    read: Read = keep_data,
    argument: Any = None,
    ahead: int = 0,
) -> Any:
    """Data drawn from a fit, with the draws as first axis.

    Args:
      fit: the fit.
      key: random key.
      num_draws: number of draws.
      like: data that give the sizes and inputs; see `Fit.predictive`.
      groups: "same" for the groups of `like`, with their locals, or "new".
      read: the part of a draw to return.
      argument: the further argument of `read`.
      ahead: number of steps after the sequences; see `Fit.forecast`.
    """
    check_key(key, "It is the first argument.")
    require_integers(num_draws=num_draws)
    require(groups in ("new", "same"), "groups", '"new" or "same"', repr(groups))
    model, state = fit.alg.spec.model, fit.state
    generative: Generative = model.answer("predictive")
    like = _read(fit, like)
    layout = generative.layout(like)
    key_locals, key_draws = jax.random.split(key)
    local = None
    if groups == "same" and generative.locals is not None:
        local = _infer_locals(fit, generative, like, key_locals)
    points = tuple(name for name in fit.posterior if fit.alg.spec.is_point(name))
    laws = fit.posterior
    if generative.globals is not None:
        laws = generative.globals(state.hyper, laws, layout)
        layout = None
    arguments = (state.hyper, laws, layout, local, argument, key_draws)
    bind = lambda model_ref: step_jit(_bind(model_ref, read, ahead), static_argnums=(0, 1))
    program = cached_program(model, ("predictive", read, ahead), bind)
    shapes = jax.eval_shape(lambda *args: program(points, 1, *args), *arguments)
    _check_memory(shapes, num_draws)
    return program(points, num_draws, *arguments)


def forecast(fit: Any, key: PRNGKeyArray, num_draws: int, data: Any, num_steps: int) -> Any:
    """Draws of the steps after sequences; see `Fit.forecast`."""
    require_integers(num_steps=num_steps)
    fit.alg.spec.model.answer("forecast")
    are_sequences = not is_size(data) and not is_sizes(data)
    require(are_sequences, "data", "sequences (y, mask)", data, "See vijax.models.pad.")
    return draw_data(fit, key, num_draws, data, "same", ahead=num_steps)


def observed_data(fit: Any, data: Any) -> PyTree:
    """Data in the form of draws, to compare them with draws."""
    generative = fit.alg.spec.model.answer("predictive")
    data = _read(fit, data)
    return generative.observed(generative.layout(data), data)


def _read(fit: Any, like: Any) -> Any:
    """Data as the model reads them: documents over the words of the fit; sizes and inputs of
    predictors unchanged."""
    model = fit.alg.spec.model
    are_sizes = is_size(like) or (model.answer("predictive").from_sizes and is_sizes(like))
    if are_sizes or model.by_entry is not None:
        return like
    if model.form.documents is not None:
        return fit.in_words(like, "like")
    return cast_data(model, like)


def _bind(model_ref: weakref.ref[Model], read: Read, ahead: int) -> Callable[..., Any]:
    def draw(points, num_draws, hyper, laws, layout, local, argument, key):
        model = model_ref()
        generative = model.answer("predictive")

        def draw_once(key: PRNGKeyArray) -> Any:
            key_globals, key_locals, key_data = jax.random.split(key, 3)
            values = _values(model, 1, points, hyper, laws, key_globals)
            values = jax.tree.map(lambda x: x[0], values)
            locals_ = _draw_locals(generative, hyper, values, layout, local, key_locals)
            data_layout = layout
            if ahead:
                key_ahead = keys.fold_in(key_locals, 1)
                locals_, data_layout = generative.ahead(
                    hyper, values, locals_, layout, ahead, key_ahead
                )
            data = generative.data(hyper, values, locals_, data_layout, key_data)
            return read(data, _visible(model, values), argument)

        sizes = [count_numbers(jax.eval_shape(draw_once, key)), count_numbers(layout, local)]
        at_once = AT_ONCE // max(*sizes, 1)
        return _map_keys(draw_once, jax.random.split(key, num_draws), at_once)

    return draw


def _map_keys(f: Callable[[PRNGKeyArray], Any], keys: PRNGKeyArray, at_once: int) -> Any:
    """f(key) for all keys, `at_once` keys at a time. Keys are repeated to fill the last batch, so
    that all batches have one shape."""
    num_draws = len(keys)
    if num_draws <= at_once:
        return jax.vmap(f)(keys)
    width = max(at_once, 1)
    padded = keys[jnp.arange(-(-num_draws // width) * width) % num_draws]
    return jax.tree.map(lambda x: x[:num_draws], jax.lax.map(f, padded, batch_size=width))


def _values(
    model: Any,
    num_draws: int,
    points: tuple[str, ...],
    hyper: Hyper,
    laws: Mapping[str, Any],
    key: PRNGKeyArray,
) -> dict[str, Any]:
    """Draws of the globals by the names of the user, and of hidden values."""
    draws = _draw_coordinates_by_name(num_draws, points, laws, key)
    return draws if model.free is None else dict(model.free.values(hyper, draws))


def _draw_coordinates_by_name(
    num_draws: int, points: tuple[str, ...], laws: Mapping[str, Any], key: PRNGKeyArray
) -> dict[str, Any]:
    """Draws of the coordinates of the globals by name; points are repeated."""
    law_keys = dict(zip(laws, jax.random.split(key, max(len(laws), 1)), strict=False))
    repeat = lambda x: jnp.broadcast_to(x, (num_draws, *jnp.shape(x)))
    draws = {}
    for name, q in laws.items():
        if name in points:
            draws[name] = jax.tree.map(repeat, q.mode())
        else:
            draws[name] = q.sample(law_keys[name], (num_draws,))
    return draws


def _visible(model: Any, values: dict[str, Any]) -> dict[str, Any]:
    """The values without the hidden ones."""
    return values if model.free is None else model.free.visible(values)


def _draw_locals(
    generative: Generative,
    hyper: Hyper,
    values: Any,
    layout: PyTree,
    local: Any,
    key: PRNGKeyArray,
) -> Any:
    """Draws of the locals by name: from the families `local`, or from the model if None."""
    if local is not None:
        local_keys = jax.random.split(key, len(local))
        pairs = zip(local.items(), local_keys, strict=True)
        return {name: q.sample(local_key) for (name, q), local_key in pairs}
    if generative.locals is None:
        return {}
    return generative.locals(hyper, values, layout, key)


def _infer_locals(fit: Any, generative: Generative, like: Any, key: PRNGKeyArray) -> Any:
    """The families of the locals of data, by name."""
    spec, hyper = fit.alg.spec, fit.state.hyper
    if spec.model.form.documents is not None:
        from vijax.data import read

        families = infer_documents(_families, spec, hyper, fit.posterior, read(like), key)
        return jax.tree.map(jnp.asarray, families)
    require(not isinstance(like, int | np.integer), "like", 'data, for groups="same"', like)
    return infer(_families, spec, hyper, fit.posterior, Minibatch(like, None), key)


def _families(model: Model, stats: PyTree, elbo: LocalElbo, key: PRNGKeyArray) -> Any:
    """The families of the locals; for documents a list with those of each length bucket."""
    as_families = model.answer("predictive").found
    if model.form.documents is None:
        return as_families(stats, elbo.local)
    return [as_families(stats, local) for local in elbo.local]


def _check_memory(draw: PyTree, num_draws: int) -> None:
    """ValueError if the draws need more than half of the memory."""
    size = sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(draw)) * num_draws
    limit = 0.5 * total_memory()
    alternative = "vijax.evaluate.predictive_check, which keeps a statistic of each draw alone"
    remedy = f"Take fewer draws or rows, or {alternative}."
    expected = f"draws that fit in {limit / 1e9:.3g} GB"
    require(size <= limit, "num_draws", expected, f"{size / 1e9:.3g} GB", remedy)

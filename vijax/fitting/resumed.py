"""The state that a fit resumes from. It keeps the posterior, and drops what it remembers of other
data.

A state may remember messages of the parts of the data (`vijax.memoized`), locals of their rows
(`Model.locals.carried`, warm starts), where the sites of Gaussian predictors are, and how far the
objective has converged. With other data, or other parts, all of these are wrong, and many steps do
not correct them."""

from __future__ import annotations

import operator
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from vijax import tree
from vijax.checks import require
from vijax.contract.model import Hyper, Model
from vijax.data.loader import Loader
from vijax.fitting.fingerprint import UNKNOWN, Mark, mark
from vijax.fitting.restarts import Many, update_runs
from vijax.fitting.start import copy_state, start
from vijax.fitting.status import ForgottenWarning
from vijax.inference.bound import add_context
from vijax.inference.compose import Algorithm
from vijax.inference.spec import Spec
from vijax.inference.state import State
from vijax.inference.stopping import UNSEEN
from vijax.inference.wrappers.sized import takes_all
from vijax.inference.wrappers.wrapper import Wrapper
from vijax.tree import to_device
from vijax.xla.compiler import cached_program, quick_jit

ROUNDING = 1e-4
"""The largest relative difference between a kernel and the same kernel from another program."""


HYPER = operator.attrgetter("hyper")


def first_state(
    alg: Algorithm, loader: Loader, key: PRNGKeyArray, hyper: Hyper, constants: Hyper
) -> Any:
    """The state of step 0, with the fingerprint of its data."""
    state = start(alg, loader, key, hyper, constants)
    return _with_mark(state, mark(loader, alg.spec, _first_run(state, HYPER)).numbers)


def resume_state(
    alg: Algorithm, loader: Loader, key: PRNGKeyArray, hyper: Hyper, constants: Hyper, state: Any
) -> Any:
    """A copy of a state to resume from, which steps may consume; the caller keeps the original.

    Raises:
      ValueError: it has sites of another number of observations, or was fitted to other words or
          columns.

    Warns:
      ForgottenWarning: messages, locals or a kernel that it remembers are not of these data.
    """
    spec = alg.spec
    state = _with_contexts(spec.model, copy_state(state))
    state = update_runs(state, lambda runs: runs._replace(beside=_known_memories(alg, runs.beside)))
    data_mark = mark(loader, spec, _first_run(state, HYPER))
    run = _first_run(state)
    is_same = data_mark.matches(np.asarray(run.data))
    _check_data(alg, data_mark, np.asarray(run.data), is_same)
    if not is_same:
        state = _drop_objectives(state)
    is_usable = is_same and _has_memory_of_this(alg, loader, run)
    if not is_usable and _remembers(alg, loader, run):
        _warn_of_forgetting(alg, run, is_same)
        new_runs = _runs(start(alg, loader, key, hyper, constants))
        state = update_runs(state, lambda runs: _with_new_memory(alg, runs, new_runs))
    return _with_mark(state, data_mark.numbers)


def _check_data(alg: Algorithm, data_mark: Mark, stored: np.ndarray, is_same: bool) -> None:
    """Raises ValueError where the data are others, and the numbers of a state would be read as
    numbers of these data: of other words, other columns, or another formula."""
    _check_words(alg, data_mark, stored)
    is_known = not np.array_equal(stored, UNKNOWN)
    has_others = is_known and not is_same and alg.spec.model.form.in_units_of_given
    require(
        not has_others,
        "state",
        "one of this model",
        "one of another formula or table",
        "Its numbers are in units of its own formula and table: leave state out.",
    )


def _check_words(alg: Algorithm, data_mark: Mark, stored: np.ndarray) -> None:
    """Raises ValueError where a state was fitted to other words or columns, or by other
    covariates."""
    if not data_mark.is_of_other_words(stored):
        return
    form = alg.spec.model.form.documents
    if form is None:
        raise ValueError(
            "state: expected one that was fitted to the columns of this table, in their order, got "
            "one of others. Give the table with the columns that it was fitted to, as its "
            "fit.columns has them."
        )
    documents, words, _ = form.names
    if form.described_by:
        raise ValueError(
            "state: expected one of this model, got one of another formula, of other training rows "
            f"or of other {words}. Its coefficients are in units of its own columns: leave state "
            "out, or take the model of the fit whose state this is."
        )
    raise ValueError(
        f"state: expected one that was fitted to the {words} of these {documents}, in their order, "
        f"got one of others. Give the {documents} over its {words}: fit.in_words({documents}) of "
        "the fit whose state this is, or vijax.data.with_vocabulary(corpus, words)."
    )


def _known_memories(alg: Algorithm, beside: dict[str, Any]) -> dict[str, Any]:
    """The memories that belong to this algorithm's wrappers."""
    names = {wrapper.name for wrapper in alg.wrappers}
    return {name: memory for name, memory in beside.items() if name in names}


def _group_wrappers(alg: Algorithm) -> dict[str, Wrapper]:
    """The wrappers that remember single groups of the data."""
    return {wrapper.name: wrapper for wrapper in alg.wrappers if wrapper.of_groups}


def _with_new_memory(alg: Algorithm, runs: State, new_runs: State) -> State:
    """A state with the messages, locals and memories by group of a new state."""
    memories = {name: new_runs.beside[name] for name in _group_wrappers(alg)}
    return runs._replace(
        messages=new_runs.messages, local=new_runs.local, beside={**runs.beside, **memories}
    )


def _runs(state: Any) -> State:
    """A single run's state, or the stacked states of several."""
    return state.states if isinstance(state, Many) else state


def _first_run(state: Any, part: Callable[[State], Any] = lambda run: run) -> Any:
    """The state of a single run, or of the first of several; or a part of it."""
    leaves = part(_runs(state))
    if isinstance(state, Many):
        return jax.tree.map(lambda leaf: np.asarray(leaf)[0], leaves)
    return leaves


def _with_mark(state: Any, mark: np.ndarray) -> Any:
    """The state with this mark of its data, in every run."""
    shape = (*np.shape(_runs(state).step), *mark.shape)
    return update_runs(
        state, lambda runs: runs._replace(data=to_device(np.broadcast_to(mark, shape)))
    )


def _drop_objectives(state: Any) -> Any:
    """The state without objectives of other data, which decide on convergence and the best of
    several runs."""
    if isinstance(state, Many):
        state = state._replace(recent=jnp.full_like(state.recent, UNSEEN))

    def forget(runs: State) -> State:
        # A watch without a window is replaced by a new one.
        watch = runs.watch._replace(window=jnp.zeros_like(runs.watch.window))
        return runs._replace(checked=jnp.full_like(runs.checked, UNSEEN), watch=watch)

    return update_runs(state, forget)


# --- messages of parts, locals of rows ------------------------------------------------------------
def _keeps_locals(alg: Algorithm, loader: Loader) -> bool:
    """True where coordinate ascent carries all locals from step to step."""
    model = alg.spec.model
    carries = takes_all(alg) and model.locals.carried and model.locals.start is not None
    return carries and loader.steps_per_epoch == 1 and not _group_wrappers(alg)


def _remembers(alg: Algorithm, loader: Loader, state: State) -> bool:
    """True where a state remembers, or will remember, single parts or rows of the data."""
    return (
        state.messages is not None
        or state.local is not None
        or alg.spec.messages.num_parts is not None
        or bool(_group_wrappers(alg))
        or _keeps_locals(alg, loader)
    )


def _has_memory_of_this(alg: Algorithm, loader: Loader, state: State) -> bool:
    """True where a state remembers what this algorithm remembers, and nothing else."""
    if not alg.spec.messages.accepts(alg.spec, state.messages):
        return False
    if not set(_group_wrappers(alg)) <= set(state.beside):
        return False
    return (state.local is not None) == _keeps_locals(alg, loader)


def _warn_of_forgetting(alg: Algorithm, state: State, is_same: bool) -> None:
    """Warns of memory that is dropped, if the algorithm would have used it."""
    memory = _dropped_memory(alg, state, is_same)
    if not memory:
        return
    warnings.warn(
        f"state: expected one that goes with this fit, got {memory}, {_reason(alg.spec, state)}. "
        "They are begun anew, and the fit goes on from the posterior. If you do not want this, "
        "give the data and settings that the state was fitted with.",
        ForgottenWarning,
        stacklevel=5,
    )


def _dropped_memory(alg: Algorithm, state: State, is_same: bool) -> str:
    """The memory that is dropped, in words; "" where the algorithm would not have used any."""
    parts = state.messages
    if (
        alg.spec.messages.num_parts is not None
        and parts is not None
        and np.any(np.asarray(parts.groups) > 0)
    ):
        return f"messages of {len(parts.constant)} parts of the data"
    if is_same:
        return ""
    for name, wrapper in _group_wrappers(alg).items():
        memory = wrapper.describe_loss(state.beside[name]) if name in state.beside else ""
        if memory:
            return memory
    if state.local is not None and takes_all(alg) and int(state.step) > 0:
        return "locals of all groups"
    return ""


def _reason(spec: Spec, state: State) -> str:
    """The reason why memory is dropped, in words."""
    if np.array_equal(state.data, UNKNOWN):
        return "which does not name its data (vijax.fit records them)"
    num_parts = spec.messages.num_parts
    if (
        num_parts is not None
        and state.messages is not None
        and len(state.messages.constant) != num_parts
    ):
        return f"which are now cut into {num_parts}"
    fixed = " or hyperparameters" if num_parts is not None else ""
    return f"of other data, or by another E-step{fixed}"


# --- sites of Gaussian predictors -----------------------------------------------------------------
def _with_contexts(model: Model, state: Any) -> Any:
    """The state with the kernels that belong to this model and to the state's hyperparameters.
    Raises ValueError: it has another number of sites."""
    if model.by_entry is None:
        return state
    _check_sites(model, _first_run(state))
    is_many = isinstance(state, Many)
    program = cached_program(
        model, ("context", is_many), lambda model_ref: quick_jit(_bind(model_ref, is_many))
    )
    posterior = program(_runs(state)._replace(local=None, beside={}))
    if _is_near(_contexts(posterior), _contexts(_runs(state).posterior)):
        return state  # to the last digit, so that a run in two parts is a run in one
    warnings.warn(
        "state: expected one that goes with this fit, got kernels or features of other inputs or "
        "hyperparameters than those of the model. They are computed anew, and the fit goes on from "
        "the sites. If you do not want this, give the model that the state was fitted with.",
        ForgottenWarning,
        stacklevel=5,
    )
    return update_runs(state, lambda runs: runs._replace(posterior=posterior))


def _check_sites(model: Model, state: State) -> None:
    """Raises ValueError where a state has sites of another number of observations."""
    for name, q in jax.eval_shape(model.prior, state.hyper).items():
        shapes = [jnp.shape(x) for x in tree.parameters(q)]
        state_shapes = [jnp.shape(x) for x in tree.parameters(state.posterior[name])]
        require(
            shapes == state_shapes,
            "state",
            f"{name!r} of shapes {shapes}, as of this model",
            f"shapes {state_shapes}",
            "It belongs to its own observations: leave state out, or make the model of those.",
        )


def _bind(model_ref: weakref.ref[Model], is_many: bool) -> Callable[[State], Any]:
    """A program that computes the kernels of a posterior, for one run or several."""

    def compute_contexts(states: State) -> Any:
        model: Any = model_ref()
        of_run = lambda state: add_context(model, state.hyper, state.posterior)
        return (jax.vmap(of_run) if is_many else of_run)(states)

    return compute_contexts


def _contexts(posterior: Any) -> list[Any]:
    """The arrays of all contexts (kernels, features) in a posterior."""
    leaves = jax.tree.leaves(posterior, is_leaf=tree.is_context)
    return jax.tree.leaves([leaf.value for leaf in leaves if tree.is_context(leaf)])


def _is_near(first: list[Any], second: list[Any]) -> bool:
    """True where two lists of arrays are equal up to rounding. Matrices A are compared by A A^T v
    for a vector v: the triangular factor of a nearly singular kernel is far less certain than the
    kernel."""
    if len(first) != len(second):
        return False
    return all(_is_near_array(_product(a), _product(b)) for a, b in zip(first, second, strict=True))


def _product(array: Any) -> np.ndarray:
    """A A^T v of a matrix (or of a stack of them), v a fixed vector; a vector as it is."""
    array = np.asarray(array, float)
    if array.ndim < 2:
        return array
    vector = np.cos(np.arange(array.shape[-2]))
    return np.einsum("...nd,...d->...n", array, np.einsum("...nd,n->...d", array, vector))


def _is_near_array(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape:
        return False
    difference = np.max(np.abs(a - b), initial=0)
    return bool(difference <= ROUNDING * np.max(np.abs(a), initial=0))

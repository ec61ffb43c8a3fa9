"""The state that a fit goes on from. Its memory of other data is begun anew; its posterior stays.

A state may remember messages of the parts of the data (`vijax.memoized`), locals of their rows
(`Model.locals.carried`, warm starts), where the sites of Gaussian predictors are, and how far the
objective has converged. All of that is wrong, and much of it for good, once the data are others, or
are cut otherwise."""

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
from vijax.fitting.restarts import Many, in_runs
from vijax.fitting.start import copied, start
from vijax.fitting.status import ForgottenWarning
from vijax.inference.bound import add_context
from vijax.inference.compose import Algorithm, State
from vijax.inference.spec import Spec
from vijax.inference.stopping import UNSEEN
from vijax.inference.wrappers.sized import takes_all
from vijax.inference.wrappers.wrapper import Wrapper
from vijax.tree import to_device
from vijax.xla.compiler import cached_program, quick_jit

ROUNDING = 1e-4
"""The largest relative difference between a kernel and the same kernel from another program."""


HYPER = operator.attrgetter("hyper")


def begun(alg: Algorithm, loader: Loader, key: PRNGKeyArray, hyper: Hyper, more: Hyper) -> Any:
    """The state of step 0, with the fingerprint of its data."""
    state = start(alg, loader, key, hyper, more)
    return _marked(state, mark(loader, alg.spec, _first(state, HYPER)).stored)


def gone_on(
    alg: Algorithm, loader: Loader, key: PRNGKeyArray, hyper: Hyper, more: Hyper, state: Any
) -> Any:
    """A state to go on from, to be consumed; the caller's stays as it is.

    Raises:
      ValueError: it has sites of another number of observations, or was fitted to other words or
          columns.

    Warns:
      ForgottenWarning: messages, locals or a kernel that it remembers are not of these data.
    """
    spec, own = alg.spec, _in_context(alg.spec.model, copied(state))
    own = in_runs(own, lambda runs: runs._replace(beside=_of_wrappers(alg, runs.beside)))
    now, alone = mark(loader, spec, _first(own, HYPER)), _first(own)
    is_same = alone.data is not None and now.is_of(np.asarray(alone.data))
    if alone.data is not None:
        _check_words(alg, now, np.asarray(alone.data))
        is_known = not np.array_equal(alone.data, UNKNOWN)
        has_others = is_known and not is_same and spec.model.form.in_units_of_given
        remedy = "Its numbers are in units of its own formula and table: leave state out."
        require(
            not has_others, "state", "one of this model", "one of another formula or table", remedy
        )
    if not is_same:
        own = _unjudged(own)
    if not (is_same and _is_of_this(alg, loader, alone)) and _remembers(alg, loader, alone):
        _warn(alg, alone, is_same)
        fresh = _runs(start(alg, loader, key, hyper, more))
        anew = {name: fresh.beside[name] for name in _of_groups(alg)}
        beside = lambda runs: {**runs.beside, **anew}
        own = in_runs(
            own, lambda r: r._replace(messages=fresh.messages, local=fresh.local, beside=beside(r))
        )
    return _marked(own, now.stored)


def _check_words(alg: Algorithm, now: Mark, stored: np.ndarray) -> None:
    """Raises ValueError where a state was fitted to other words or columns, or by other covariates:
    its numbers would be taken for those of new ones."""
    form = alg.spec.model.form.documents
    documents, words, _ = ("rows", "columns", "") if form is None else form.names
    if now.is_of_other_words(stored):
        if form is None:
            raise ValueError(
                "state: expected one that was fitted to the columns of this table, in their "
                "order, got one of others. "
                "Give the table with the columns that it was fitted to, as its fit.columns has "
                "them."
            )
        if form.described_by:
            raise ValueError(
                "state: expected one of this model, got one of another formula, of other "
                "training rows or of other "
                f"{words}. Its coefficients are in units of its own columns: leave state out, or "
                "take the model of the "
                "fit whose state this is."
            )
        raise ValueError(
            f"state: expected one that was fitted to the {words} of these {documents}, in their "
            "order, got one of "
            f"others. Give the {documents} over its {words}: fit.in_words({documents}) of the fit "
            "whose state this is, "
            "or vijax.data.with_vocabulary(corpus, words)."
        )


def _of_wrappers(alg: Algorithm, beside: dict[str, Any]) -> dict[str, Any]:
    """The memories that this algorithm's wrappers go on from."""
    names = {own.name for own in alg.wrappers}
    return {name: memory for name, memory in beside.items() if name in names}


def _of_groups(alg: Algorithm) -> dict[str, Wrapper]:
    """The wrappers whose memory is of single groups of the data."""
    return {own.name: own for own in alg.wrappers if own.of_groups}


def _runs(state: Any) -> State:
    """A single run's state, or the stacked states of several."""
    return state.states if isinstance(state, Many) else state


def _first(state: Any, of: Callable[[State], Any] = lambda run: run) -> Any:
    """A part of a single run's state, or of the state of the first of several."""
    mine = of(_runs(state))
    return jax.tree.map(lambda x: np.asarray(x)[0], mine) if isinstance(state, Many) else mine


def _marked(state: Any, mark: np.ndarray) -> Any:
    runs = np.shape(_runs(state).step)
    return in_runs(
        state,
        lambda states: states._replace(data=to_device(np.broadcast_to(mark, (*runs, *mark.shape)))),
    )


def _unjudged(state: Any) -> Any:
    """The state without objectives of other data, which decide on convergence and the best of
    several runs."""
    state = (
        state._replace(recent=jnp.full_like(state.recent, UNSEEN))
        if isinstance(state, Many)
        else state
    )
    none = lambda runs: runs.watch._replace(
        window=jnp.zeros_like(runs.watch.window)
    )  # which begins it anew
    return in_runs(
        state, lambda r: r._replace(checked=jnp.full_like(r.checked, UNSEEN), watch=none(r))
    )


# --- messages of parts, locals of rows ------------------------------------------------------------
def _keeps_locals(alg: Algorithm, loader: Loader) -> bool:
    """True where coordinate ascent carries all locals from step to step."""
    model = alg.spec.model
    carries = takes_all(alg) and model.locals.carried and model.locals.start is not None
    return carries and loader.steps_per_epoch == 1 and not _of_groups(alg)


def _remembers(alg: Algorithm, loader: Loader, state: State) -> bool:
    """True where a state remembers, or will remember, anything of single parts or rows."""
    has = state.messages is not None or state.local is not None
    return (
        has
        or alg.spec.messages.num_parts is not None
        or bool(_of_groups(alg))
        or _keeps_locals(alg, loader)
    )


def _is_of_this(alg: Algorithm, loader: Loader, state: State) -> bool:
    """True where the memory of a state is of the kind that the algorithm has."""
    if not alg.spec.messages.accepts(alg.spec, state.messages):
        return False
    if not set(_of_groups(alg)) <= set(state.beside):
        return False
    return (state.local is not None) == _keeps_locals(alg, loader)


def _warn(alg: Algorithm, state: State, is_same: bool) -> None:
    """Warns of what is forgotten, if the algorithm would have used it."""
    spec, parts, local = alg.spec, state.messages, state.local
    of_groups = [
        own.lost(state.beside[name])
        for name, own in _of_groups(alg).items()
        if name in state.beside
    ]
    if (
        spec.messages.num_parts is not None
        and parts is not None
        and np.any(np.asarray(parts.groups) > 0)
    ):
        lost = f"messages of {len(parts.constant)} parts of the data"
    elif not is_same and any(of_groups):
        lost = next(filter(None, of_groups))
    elif not is_same and local is not None and takes_all(alg) and int(state.step) > 0:
        lost = "locals of all groups"
    else:
        return
    warnings.warn(
        f"state: expected one that goes with this fit, got {lost}, {_why(spec, state)}. They are "
        "begun anew, and the "
        "fit goes on from the posterior. If you do not want this, give the data and settings that "
        "the state was fitted "
        "with.",
        ForgottenWarning,
        stacklevel=4,
    )


def _why(spec: Spec, state: State) -> str:
    if state.data is None or np.array_equal(state.data, UNKNOWN):
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
def _in_context(model: Model, state: Any) -> Any:
    """The state with the kernels that belong to this model and to the state's hyperparameters.
    Raises ValueError: it has another number of sites."""
    if model.by_entry is None:
        return state
    alone = _first(state)
    for name, q in jax.eval_shape(model.prior, alone.hyper).items():
        own, given = (
            [jnp.shape(x) for x in tree.parameters(p)] for p in (q, alone.posterior[name])
        )
        remedy = "It belongs to its own observations: leave state out, or make the model of those."
        require(
            own == given,
            "state",
            f"{name!r} of shapes {own}, as of this model",
            f"shapes {given}",
            remedy,
        )
    anew = cached_program(
        model,
        ("context", isinstance(state, Many)),
        lambda of: quick_jit(_bind(of, isinstance(state, Many))),
    )
    fresh = anew(_runs(state)._replace(local=None, beside={}))
    if _is_near(_contexts(fresh), _contexts(_runs(state).posterior)):
        return state  # to the last digit, so that a run in two parts is a run in one
    warnings.warn(
        "state: expected one that goes with this fit, got kernels or features of other inputs or "
        "hyperparameters than "
        "those of the model. They are computed anew, and the fit goes on from the sites. If you "
        "do not want this, give "
        "the model that the state was fitted with.",
        ForgottenWarning,
        stacklevel=4,
    )
    return in_runs(state, lambda runs: runs._replace(posterior=fresh))


def _bind(of: weakref.ref[Model], many: bool) -> Callable[[State], Any]:
    def anew(states: State) -> Any:
        model: Any = of()
        one = lambda state: add_context(model, state.hyper, state.posterior)
        return (jax.vmap(one) if many else one)(states)

    return anew


def _contexts(posterior: Any) -> list[Any]:
    flat = jax.tree.leaves(posterior, is_leaf=tree.is_context)
    return jax.tree.leaves([x.value for x in flat if tree.is_context(x)])


def _is_near(first: list[Any], second: list[Any]) -> bool:
    """True where matrices are close in their products with a vector and in those of their
    transposes: the triangle of a kernel that is nearly singular is far less certain than the
    kernel."""

    def seen(x: Any) -> np.ndarray:
        x = np.asarray(x, float)
        if x.ndim < 2:
            return x
        vector = np.cos(np.arange(x.shape[-2]))
        return np.einsum("...nd,...d->...n", x, np.einsum("...nd,n->...d", x, vector))

    def near(a: np.ndarray, b: np.ndarray) -> bool:
        return a.shape == b.shape and bool(
            np.max(np.abs(a - b), initial=0) <= ROUNDING * np.max(np.abs(a), initial=0)
        )

    return len(first) == len(second) and all(
        near(seen(a), seen(b)) for a, b in zip(first, second, strict=True)
    )

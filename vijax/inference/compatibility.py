"""Checks of the arguments of `compose` and of the algorithms: choices that do not go together, or
not with the model, are errors."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import jax

from vijax import tree
from vijax.checks import require, require_integers
from vijax.contract.model import Model
from vijax.contract.per_variable import PerVariable
from vijax.families.construction import is_proper
from vijax.inference.estep import CVB0, Amortised, Gibbs, MeanField, ProximalGradient, Structured
from vijax.inference.estimand import Estimand, free_form, mode
from vijax.inference.estimator import (
    batch_and_match,
    least_squares,
    mean_field,
    reparameterised,
    score_function,
    weighted,
)
from vijax.inference.update import Update, descend, kl, within

Make = TypeVar("Make", bound=Callable)


def check_model(model: Any) -> None:
    """Raises ValueError unless `model` is a `vijax.Model`."""
    require(isinstance(model, Model), "model", "a vijax.Model", type(model).__name__)


def check_no_sites(**arguments: Any) -> None:
    """Raises ValueError at arguments of `pg_svi` that only models of Gaussian predictors take. Each
    argument is a pair: its value, and its default."""
    for name, (value, default) in arguments.items():
        require(value == default, name, "it left out for a model that has no sites", value)


def check_sites(update: Any, memory: bool, inner_steps: int, mean: str) -> None:
    """Raises ValueError at arguments of `pg_svi` that do not go together."""
    require(mean in ("current", "exact"), "mean", "'current' or 'exact'", mean)
    require(not (memory and mean == "exact"), "mean", "'current' where memory=True", mean)
    require_integers(inner_steps=inner_steps)
    updates = _list_updates(update)
    is_proximal = all(isinstance(x, Update) and x.size != "none" for x in updates)
    require(is_proximal, "update", "a proximal step of vijax.update", repr(update))
    is_plain = update is None or update == kl()
    expected = "kl(), or none, where mean='exact'"
    require(mean == "current" or is_plain, "update", expected, repr(update))
    serves = inner_steps == 1 or (memory and is_plain)
    require(serves, "inner_steps", "1, unless memory=True and update=kl()", inner_steps)


def _list_updates(update: Any) -> list[Any]:
    """All updates in an argument: a dict by name, one update, or None."""
    if isinstance(update, Mapping):
        return list(update.values())
    return [] if update is None else [update]


def split_by_entry(model: Model) -> tuple[list[str], list[str]]:
    """Names of the globals that a batch reads by entry, and names of the others. Both are empty
    where the model reads none by entry."""
    if model.by_entry is None:
        return [], []
    by_entry = list(jax.eval_shape(model.by_entry.context, dict(model.hyper)))
    names = jax.eval_shape(model.prior, dict(model.hyper))
    return by_entry, [name for name in names if name not in by_entry]


def check_memory(memory: bool, estimator: Any, step_size: Any, others: list[str]) -> None:
    """Raises ValueError if `pg_svi(memory=True)` is impossible, or would not converge."""
    is_alone = not memory or estimator is None
    expected = "none beside memory=True, which is one"
    require(is_alone, "estimator", expected, repr(estimator))
    converges = not memory or step_size is not None or not others
    expected = f"one, for the messages of {others} are not remembered"
    remedy = (
        "Give a decreasing step_size, such as vijax.step_size.robbins_monro(), or leave memory out."
    )
    require(converges, "step_size", expected, "none", remedy)


def check_site_choices(
    model: Model, estimands: PerVariable[Estimand], estimators: PerVariable[Any]
) -> None:
    """Raises ValueError if a point, or a message by draws, is asked of the predictors of a GP or
    GLM."""
    remedy = "Their marginals are known: use vijax.pg_svi, or leave it out for 'z'."
    for name in split_by_entry(model)[0]:
        estimand, estimator = estimands.choice(name), estimators.choice(name)
        expected = f"a distribution of {name!r}, Gaussian predictors"
        require(not estimand.is_point, "estimand", expected, estimand, remedy)
        expected = f"mean_field() for {name!r}, Gaussian predictors"
        require(isinstance(estimator, mean_field), "estimator", expected, estimator, remedy)


def fill_defaults(
    model: Model,
    estimands: PerVariable[Estimand],
    estimators: PerVariable[Any],
    updates: PerVariable[Any],
) -> tuple[PerVariable[Estimand], PerVariable[Any], PerVariable[Update]]:
    """The choices, with defaults filled in.

    Free variables get a distribution of any form, least squares of scores and steps of at most one
    nat; or pathwise gradients and an optimiser, if their guide has no natural parameters. Other
    globals get mean field and natural gradients.

    Raises:
      ValueError: a point is sought of free variables, or an estimator or update cannot serve them.
    """
    families = jax.eval_shape(model.prior, dict(model.hyper)) if model.free_names else {}
    others = set(families) - set(model.free_names)
    for name in model.free_names:
        _check_estimand_of_free(name, estimands.choice(name))
        q = families[name]
        estimands = estimands.replace(name, free_form())
        if estimators.choice(name) is None:
            estimators = estimators.replace(name, _default_estimator(q))
        if updates.choice(name) is None:
            updates = updates.replace(name, within(1.0) if q.exponential else descend())
        _check_choices_of_free(name, q, estimators.choice(name), updates.choice(name), others)
    return estimands, _with_default(estimators, mean_field()), _with_default(updates, kl())


def _default_estimator(q: Any) -> Any:
    """The estimator for free variables whose guide is q."""
    if q.exponential:
        return least_squares()
    return reparameterised(sticking=not q.closed_entropy)


def _with_default(choices: PerVariable[Any], default: Any) -> PerVariable[Any]:
    """The choices, with `default` for the globals without a choice."""
    if choices.default is not None:
        return choices
    return PerVariable(default, choices.named)


def _check_estimand_of_free(name: str, estimand: Estimand) -> None:
    """Raises ValueError if a point is sought of free variables."""
    expected = f"a distribution of {name!r}, free variables"
    remedy = (
        "Free variables have no conjugate prior: vijax.auto, vijax.ngvi and vijax.advi find a "
        "distribution."
    )
    require(not estimand.is_point, "estimand", expected, repr(estimand), remedy)


def _check_choices_of_free(
    name: str, q: Any, estimator: Any, update: Any, others: Collection[str]
) -> None:
    """Raises ValueError at an estimator of free variables that reads mean statistics. If the guide
    has no natural parameters, only pathwise gradients and an optimiser pass."""
    expected = f"one that draws {name!r}, such as vijax.estimator.least_squares()"
    remedy = ""
    if others:
        remedy = f"It may serve the others, {sorted(others)}: give it for these by name."
    require(isinstance(estimator, SERVE_FREE), "estimator", expected, repr(estimator), remedy)
    if q.exponential:
        return
    kind = type(q).__name__
    remedy = f"A {kind} is no exponential family: vijax.advi fits it, by pathwise gradients."
    expected = f"vijax.estimator.reparameterised() or weighted() for {name!r}"
    is_pathwise = isinstance(estimator, reparameterised | weighted)
    require(is_pathwise, "estimator", expected, repr(estimator), remedy)
    has_entropy = q.closed_entropy or isinstance(estimator, weighted) or estimator.sticking
    entropy_remedy = (
        f"The entropy of a {kind} has no closed form, but is in the gradients of its draws."
    )
    expected = f"sticking=True for {name!r}"
    require(has_entropy, "estimator", expected, repr(estimator), entropy_remedy)
    inner = update.update if isinstance(update, within) else update
    expected = f"vijax.update.descend(optimizer) for {name!r}"
    require(isinstance(inner, descend), "update", expected, repr(update), remedy)


SERVE_FREE = (batch_and_match, least_squares, reparameterised, score_function, weighted)
"""Estimators that evaluate a bound at draws and assume nothing about it."""


def check_weighted_globals(model: Model, estimators: PerVariable[Any]) -> None:
    """Raises ValueError if draws of another global than a free variable are weighted: its prior is
    not in the bound."""
    if not any(isinstance(choice, weighted) for choice in estimators.choices()):
        return
    globals_ = set(jax.eval_shape(model.prior, dict(model.hyper)))
    names = [
        name
        for name in sorted(globals_ - set(model.free_names))
        if isinstance(estimators.choice(name), weighted)
    ]
    remedy = (
        "Give it by name, for the free variables alone: estimator={'free': "
        "vijax.estimator.weighted()}."
    )
    require(not names, "estimator", "weighted() for free variables", names, remedy)


def check_estep(model: Model, estep: Any) -> None:
    """Raises ValueError at an E-step that is not of the kind that the model reads."""
    if estep is None:
        return
    if model.by_entry is not None:
        expected = "an expectation such as vijax.expectation.exact()"
        require(callable(estep), "estep", expected, repr(estep))
        return
    expected = "an E-step such as vijax.estep.mean_field() or vijax.estep.gibbs()"
    remedy = "Call it: it makes the E-step." if callable(estep) else ""
    is_estep = not isinstance(estep, str) and not callable(estep)
    require(is_estep, "estep", expected, repr(estep), remedy)
    solver = model.locals.solved_by
    if solver is not None:
        names = [name for name, kind in ESTEPS.items() if issubclass(kind, solver)]
        calls = " or ".join(f"vijax.estep.{name}()" for name in names)
        expected = f"one for this model's locals, {calls}"
        require(isinstance(estep, solver), "estep", expected, repr(estep))


ESTEPS = {
    "amortised": Amortised,
    "mean_field": MeanField,
    "cvb0": CVB0,
    "gibbs": Gibbs,
    "proximal_gradient": ProximalGradient,
    "structured": Structured,
}
"""E-steps, by the functions that make them."""


def refuse_unknown(said_otherwise: Mapping[str, str]) -> Callable[[Make], Make]:
    """Decorates a function that makes an algorithm: an argument that it does not have is an error
    of `check_names`."""

    def decorate(make: Make) -> Make:
        parameters = list(inspect.signature(make).parameters)

        @functools.wraps(make)
        def call(*args: Any, **choices: Any) -> Any:
            check_names(choices, parameters, said_otherwise)
            return make(*args, **choices)

        return call  # type: ignore[return-value]

    return decorate


def check_names(
    names: Iterable[str], parameters: Collection[str], said_otherwise: Mapping[str, str]
) -> None:
    """Raises TypeError at an unknown argument, with the nearest parameter; at one that is
    `said_otherwise`, with the way to write it."""
    for name in names:
        if name in parameters:
            continue
        if name in said_otherwise:
            remedy = said_otherwise[name]
            raise TypeError(f"{name}: an algorithm takes no such argument. {remedy}")
        nearest = difflib.get_close_matches(name, parameters, n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        choices = ", ".join(sorted({*parameters} - {"model", "name"}))
        raise TypeError(f"{name}: an algorithm takes no such argument.{hint} It takes: {choices}.")


def check_blocks(model: Model, blocks: Any) -> None:
    """Raises ValueError unless the blocks hold each global once."""
    names = sorted(jax.eval_shape(model.prior, dict(model.hyper)))
    is_listed = isinstance(blocks, Sequence)
    is_listed = is_listed and not any(isinstance(block, str) for block in blocks)
    is_once = is_listed and sorted(name for block in blocks for name in block) == names
    require(is_once, "blocks", f"tuples of names in which each of {names} is once", blocks)


def check_estimands(model: Model, estimands: PerVariable[Estimand]) -> None:
    """Raises ValueError at an estimand that forgets a prior which the model needs for a unique
    answer, or that asks for a mode which says nothing."""
    at_mode = [name for name in model.without_mode if isinstance(estimands.choice(name), mode)]
    expected = f"a distribution of {list(model.without_mode)}, whose modes are at the edge"
    use_distribution = "Use vijax.cavi or vijax.svi."
    require(not at_mode, "estimand", expected, f"mode() of {at_mode}", use_distribution)
    use_prior = "Use vijax.map."
    if model.without_mode:
        use_prior = use_distribution
    forgets = any(choice.forgets_prior for choice in estimands.choices())
    is_hierarchical = model.global_elbo is not None
    expected = "one that keeps the priors of a hierarchical model"
    remedy = f"Without their priors the upper globals have no data. {use_prior}"
    require(not (forgets and is_hierarchical), "estimand", expected, estimands, remedy)
    if not (model.needs_prior and forgets):
        return
    priors = model.prior(tree.as_arrays(model.hyper))
    improper = [
        name
        for name in model.needs_prior
        if not is_proper(estimands.choice(name).prior(priors[name]))
    ]
    expected = f"one that keeps the priors of {list(model.needs_prior)}"
    remedy = f"The likelihood has no one maximum in them. {use_prior}"
    require(not improper, "estimand", expected, estimands, remedy)

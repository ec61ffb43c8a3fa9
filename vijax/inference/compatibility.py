"""Checks of `compose` and its rows: choices that do not go together, or not with the model, are
refused."""

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
    """Raises ValueError where `model` is no `vijax.Model`."""
    require(isinstance(model, Model), "model", "a vijax.Model", type(model).__name__)


def check_no_sites(**given: Any) -> None:
    """Raises ValueError at arguments of `pg_svi` that are for models of Gaussian predictors
    alone."""
    for name, (value, unset) in given.items():
        require(value == unset, name, "it left out for a model that has no sites", value)


def check_sites(update: Any, memory: bool, inner_steps: int, mean: str) -> None:
    """Raises ValueError at arguments of `pg_svi` that do not go together."""
    require(mean in ("current", "exact"), "mean", "'current' or 'exact'", mean)
    require(not (memory and mean == "exact"), "mean", "'current' where memory=True", mean)
    require_integers(inner_steps=inner_steps)
    given = (
        list(update.values()) if isinstance(update, Mapping) else [] if update is None else [update]
    )
    proximal = all(isinstance(one, Update) and one.size != "none" for one in given)
    require(proximal, "update", "a proximal step of vijax.update", repr(update))
    plain = update is None or update == kl()
    require(mean == "current" or plain, "update", "kl(), or none, where mean='exact'", repr(update))
    require(
        inner_steps == 1 or (memory and plain),
        "inner_steps",
        "1, unless memory=True and update=kl()",
        inner_steps,
    )


def split_by_entry(model: Model) -> tuple[list[str], list[str]]:
    """Names of the globals of which batches read some entries, and of the others."""
    if model.by_entry is None:
        return [], []
    names = list(jax.eval_shape(model.by_entry.context, dict(model.hyper)))
    return names, [
        name for name in jax.eval_shape(model.prior, dict(model.hyper)) if name not in names
    ]


def check_memory(memory: bool, estimator: Any, step_size: Any, others: list[str]) -> None:
    """Raises ValueError where `pg_svi(memory=True)` cannot be, or would not converge."""
    require(
        not memory or estimator is None,
        "estimator",
        "none beside memory=True, which is one",
        repr(estimator),
    )
    remedy = (
        "Give a decreasing step_size, such as vijax.step_size.robbins_monro(), or leave memory out."
    )
    settled = not memory or step_size is not None or not others
    require(
        settled,
        "step_size",
        f"one, for the messages of {others} are not remembered",
        "none",
        remedy,
    )


def check_site_choices(
    model: Model, estimands: PerVariable[Estimand], estimators: PerVariable[Any]
) -> None:
    """Raises ValueError where a point is sought of the predictors of a GP or GLM, or their message
    by draws."""
    remedy = "Their marginals are known: use vijax.pg_svi, or leave it out for 'z'."
    for name in split_by_entry(model)[0]:
        point = estimands.choice(name).is_point
        require(
            not point,
            "estimand",
            f"a distribution of {name!r}, Gaussian predictors",
            estimands.choice(name),
            remedy,
        )
        plain = isinstance(estimators.choice(name), mean_field)
        require(
            plain,
            "estimator",
            f"mean_field() for {name!r}, Gaussian predictors",
            estimators.choice(name),
            remedy,
        )


def of_free(
    model: Model,
    estimands: PerVariable[Estimand],
    estimators: PerVariable[Any],
    updates: PerVariable[Any],
) -> tuple[PerVariable[Estimand], PerVariable[Any], PerVariable[Update]]:
    """The choices, with defaults. Free variables get a distribution of any form, least squares of
    scores and steps of at most one nat; or pathwise gradients and an optimiser, where their guide
    has no natural parameters. Other globals get mean field and natural gradients. Raises
    ValueError: a point is sought of free variables, or an estimator or update is given that cannot
    serve them."""
    families = jax.eval_shape(model.prior, dict(model.hyper)) if model.free_names else {}
    for name in model.free_names:
        sought, q = estimands.choice(name), families[name]
        remedy = (
            "Free variables have no conjugate prior: vijax.auto, vijax.ngvi and vijax.advi find a "
            "distribution."
        )
        require(
            not sought.is_point,
            "estimand",
            f"a distribution of {name!r}, free variables",
            repr(sought),
            remedy,
        )
        estimands = estimands.replace(name, free_form())
        if estimators.choice(name) is None:
            own = (
                least_squares() if q.exponential else reparameterised(sticking=not q.closed_entropy)
            )
            estimators = estimators.replace(name, own)
        if updates.choice(name) is None:
            updates = updates.replace(name, within(1.0) if q.exponential else descend())
        _check_of_free(
            name,
            q,
            estimators.choice(name),
            updates.choice(name),
            set(families) - set(model.free_names),
        )
    filled = lambda chosen, usual: (
        PerVariable(usual, chosen.named) if chosen.default is None else chosen
    )
    return estimands, filled(estimators, mean_field()), filled(updates, kl())


def _check_of_free(name: str, q: Any, estimator: Any, update: Any, others: Collection[str]) -> None:
    """Raises ValueError at an estimator of free variables that reads mean statistics. Where their
    guide has no natural parameters, it does so at all but pathwise gradients and an optimiser."""
    expected = f"one that draws {name!r}, such as vijax.estimator.least_squares()"
    remedy = (
        f"It may serve the others, {sorted(others)}: give it for these by name." if others else ""
    )
    require(isinstance(estimator, SERVE_FREE), "estimator", expected, repr(estimator), remedy)
    if q.exponential:
        return
    remedy = (
        f"A {type(q).__name__} is no exponential family: vijax.advi fits it, by pathwise gradients."
    )
    expected = f"vijax.estimator.reparameterised() or weighted() for {name!r}"
    require(
        isinstance(estimator, reparameterised | weighted),
        "estimator",
        expected,
        repr(estimator),
        remedy,
    )
    through = q.closed_entropy or isinstance(estimator, weighted) or estimator.sticking
    entropy = (
        f"The entropy of a {type(q).__name__} has no closed form, but is in the gradients of its "
        "draws."
    )
    require(through, "estimator", f"sticking=True for {name!r}", repr(estimator), entropy)
    moves = update.update if isinstance(update, within) else update
    expected = f"vijax.update.descend(optimizer) for {name!r}"
    require(isinstance(moves, descend), "update", expected, repr(update), remedy)


SERVE_FREE = (batch_and_match, least_squares, reparameterised, score_function, weighted)
"""Estimators that evaluate a bound at draws and assume nothing of it."""


def check_weighted(model: Model, estimators: PerVariable[Any]) -> None:
    """Raises ValueError where draws of another global than a free variable are to be weighted: its
    prior is not in the bound."""
    if not any(isinstance(choice, weighted) for choice in estimators.choices()):
        return
    others = sorted(set(jax.eval_shape(model.prior, dict(model.hyper))) - set(model.free_names))
    names = [name for name in others if isinstance(estimators.choice(name), weighted)]
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
        require(
            callable(estep),
            "estep",
            "an expectation such as vijax.expectation.exact()",
            repr(estep),
        )
        return
    ours = "vijax.estep.mean_field() or vijax.estep.gibbs()"
    remedy = "Call it: it makes the E-step." if callable(estep) else ""
    known = not isinstance(estep, str) and not callable(estep)
    require(known, "estep", f"an E-step such as {ours}", repr(estep), remedy)
    if model.locals.solved_by is not None:
        serving = [
            name for name, kind in ESTEPS.items() if issubclass(kind, model.locals.solved_by)
        ]
        expected = " or ".join(f"vijax.estep.{name}()" for name in serving)
        serves = isinstance(estep, model.locals.solved_by)
        require(serves, "estep", f"one for this model's locals, {expected}", repr(estep))


ESTEPS = {
    "amortised": Amortised,
    "mean_field": MeanField,
    "cvb0": CVB0,
    "gibbs": Gibbs,
    "proximal_gradient": ProximalGradient,
    "structured": Structured,
}
"""E-steps, by the functions that make them."""


def arguments_named(moved: Mapping[str, str]) -> Callable[[Make], Make]:
    """Decorates a function that makes an algorithm: arguments that it does not have are refused by
    `check_names`."""

    def decorate(make: Make) -> Make:
        known = list(inspect.signature(make).parameters)

        @functools.wraps(make)
        def one(*args: Any, **choices: Any) -> Any:
            check_names(choices, known, moved)
            return make(*args, **choices)

        return one  # type: ignore[return-value]

    return decorate


def check_names(given: Iterable[str], known: Collection[str], moved: Mapping[str, str]) -> None:
    """Raises TypeError at an unknown argument, with the nearest known one; at one of an earlier
    release, with the way to write it now (`moved`)."""
    for name in given:
        if name in known:
            continue
        if name in moved:
            raise TypeError(f"{name}: an algorithm takes no such argument any more. {moved[name]}")
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        names = ", ".join(sorted({*known} - {"model", "name"}))
        raise TypeError(f"{name}: an algorithm takes no such argument.{hint} It takes: {names}.")


def check_blocks(model: Model, blocks: Any) -> None:
    """Raises ValueError where blocks of globals do not hold each of them once."""
    names = sorted(jax.eval_shape(model.prior, dict(model.hyper)))
    listed = isinstance(blocks, Sequence) and not any(isinstance(block, str) for block in blocks)
    once = listed and sorted(name for block in blocks for name in block) == names
    require(once, "blocks", f"tuples of names in which each of {names} is once", blocks)


def check_estimands(model: Model, estimands: PerVariable[Estimand]) -> None:
    """Raises ValueError where an estimand forgets priors without which the model has no unique
    answer, or asks for a mode that says nothing."""
    at_mode = [name for name in model.without_mode if isinstance(estimands.choice(name), mode)]
    expected = f"a distribution of {list(model.without_mode)}, whose modes are at the edge"
    require(
        not at_mode, "estimand", expected, f"mode() of {at_mode}", "Use vijax.cavi or vijax.svi."
    )
    forgetful = any(choice.forgets_prior for choice in estimands.choices())
    hierarchical = forgetful and model.global_elbo is not None
    remedy = "Without their priors the upper globals have no data: use map."
    require(
        not hierarchical,
        "estimand",
        "one that keeps the priors of a hierarchical model",
        estimands,
        remedy,
    )
    if not (model.needs_prior and forgetful):
        return
    priors = model.prior(tree.as_arrays(model.hyper))
    lost = [
        name
        for name in model.needs_prior
        if not is_proper(estimands.choice(name).prior(priors[name]))
    ]
    remedy = "The likelihood has no one maximum in them: use map."
    require(
        not lost,
        "estimand",
        f"one that keeps the priors of {list(model.needs_prior)}",
        estimands,
        remedy,
    )

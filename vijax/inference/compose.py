"""One step, composed of choices for each global: estimand, estimator, update; and of an E-step and
step sizes.

    lambda <- update(lambda, eta + (N_t / S) sum_n m_n)

`compose` is the only place where an algorithm is built. The algorithms of the literature are calls
of it with named arguments (`vijax.algorithms`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from jaxtyping import PRNGKeyArray

from vijax.checks import require, require_integers
from vijax.contract import describe
from vijax.contract.model import Model
from vijax.contract.per_variable import PerVariable, check_names, per_variable
from vijax.inference import compatibility
from vijax.inference.estimand import Estimand, distribution
from vijax.inference.estimator import Estimator
from vijax.inference.learning import Learn, check_learnt
from vijax.inference.messages import Messages, scaled
from vijax.inference.program import Init, Step, build_function
from vijax.inference.spec import Blocks, Spec, StepSize
from vijax.inference.state import Info, State
from vijax.inference.step_size import Ramp, backtracking, by_share, check_schedule, no_ramp
from vijax.inference.update import Update

ByName = Mapping[str, Any] | PerVariable[Any]
SAID_OTHERWISE = {
    "num_groups": "Wrap the algorithm: vijax.part_of(alg, N). The rows, as vijax.svi, take it.",
    "full_data": "Wrap the algorithm: vijax.whole(alg).",
    "average_after": "Wrap the algorithm: vijax.averaged(alg, after).",
    "warm_starts": "Wrap the algorithm: vijax.warm(alg).",
    "lazy": "Wrap the algorithm: vijax.topics.by_words(alg), or vijax.topics.all_words(alg) for "
    "lazy=False.",
    "active_topics": "Wrap the algorithm: vijax.topics.by_words(alg, active=...).",
    "left_out": "Wrap the algorithm: vijax.topics.by_words(alg, active=..., left_out=...).",
    "axis": "Wrap the algorithm: vijax.over_axis(alg, name).",
    "points": "Give estimand={'x': vijax.estimand.mode()} for each global 'x' of which only the "
    "mode is found.",
    "num_parts": "Give messages=vijax.messages.by_part(n), or take vijax.memoized(model, n).",
}
"""Names that are no arguments of an algorithm, though they might be, and what to write: most are
settings of the command line."""


class Algorithm(NamedTuple):
    """A pure algorithm: jit, scan, vmap or shard its functions as you like.

    Attributes:
      init: (key, batch=None, hyper=None) -> `State`. The batch (as in `step`) is needed by models
        whose start depends on data. Values of points in `hyper` replace those of the model.
      step: (key, state, batch) -> (`State`, `Info`). The batch is a `Minibatch`, or bare data if
        the algorithm takes the whole set (`vijax.whole`) or knows N (`vijax.part_of`).
      spec: its choices.
      wrappers: its wrappers (`vijax.inference.wrappers.wrapper`), the innermost first.
    """

    init: Callable[..., State]
    step: Callable[[PRNGKeyArray, State, Any], tuple[State, Info]]
    spec: Spec
    wrappers: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return describe.algorithm_text(self)


@compatibility.refuse_unknown(SAID_OTHERWISE)
def compose(
    model: Model,
    *,
    estimand: Estimand | ByName | None = None,
    estimator: Estimator | ByName | None = None,
    update: Update | ByName | None = None,
    step_size: StepSize,
    estep: Any = None,
    ramp: Ramp | None = None,
    learn: Learn | Sequence[str] = (),
    messages: Messages | None = None,
    blocks: Blocks | None = None,
    penalty_every: int | None = None,
    name: str = "compose",
) -> Algorithm:
    """An algorithm for a model, from one choice for each part of the step.

    Estimand, estimator and update are chosen once for all globals, or for some by name:
    `update={"topics": vi.update.kl(), "rate": vi.update.descend(optax.adam(0.01))}`.

    Args:
      model: the model.
      estimand: the aim for a global (`vijax.estimand`). None, and a global that a dict does not
        name, is a distribution.
      estimator: how the natural gradient of the local bound is estimated (`vijax.estimator`). None
        is `mean_field()`, and for free variables `least_squares()`.
      update: how a global moves (`vijax.update`). None is `kl()`, the natural-gradient step, and
        for free variables `within(1.0)`. Free variables whose guide is no exponential family get
        `reparameterised()` and `descend()`.
      step_size: rho_t, or beta_t for updates that read a beta (`vijax.step_size`); or
        `vijax.step_size.backtracking()`, for full data.
      estep: how the model treats its local variables (`vijax.estep`). None is the model's default.
      ramp: N_t (`vijax.step_size`). None is N.
      learn: names of `model.hyper` to learn, by gradient steps on the objective in free
        coordinates: logarithms, unless `model.constraints` says otherwise. A step to infinity, or
        of a positive point to zero, is skipped. The steps are Adam's at rate 0.01;
        `vijax.learn("alpha", optimizer=...)` names another optimiser of optax.
      messages: how the message of a batch becomes the message of all data (`vijax.messages`). None
        scales it up; `by_part(n)` remembers a message for each of n parts of the data
        (`vijax.memoized` says more).
      blocks: names of the globals in groups. The groups are updated one after the other, each at
        the latest values of the others, as coordinate ascent must where the joint density couples
        them (`model.blocks`). None updates all at once.
      penalty_every: number of steps between evaluations of the penalty of the reported objective.
        No step needs the penalty, and for a large posterior it costs as much as drawing from it.
        None is every step; so is any number if points are learnt.
      name: name of the algorithm.

    Raises:
      TypeError: an argument that `compose` does not have; the message says what to write.
      ValueError: `model` is no `vijax.Model`; a choice is not of its kind, or for a name that is no
        global; `estep` is not of the kind that the model reads; `step_size` is no schedule; `learn`
        names no point of the model, or a point that does not satisfy its constraint; `blocks` are
        not all the globals; `penalty_every` is below 1; draws or a point are asked of the
        predictors of a GP or GLM; maximum likelihood is asked of a model whose globals have priors
        that depend on each other, or of globals that it does not determine (`Model.needs_prior`).
    """
    compatibility.check_model(model)
    estep = model.estep if estep is None else estep
    compatibility.check_estep(model, estep)
    choices = _choose_by_global(model, estimand, estimator, update)
    _check_sizes(step_size, choices.update, penalty_every)
    learnt = _points_to_learn(model, learn)
    _check_messages(messages)
    if blocks is not None and blocks != model.blocks:
        compatibility.check_blocks(model, blocks)
    spec = Spec(
        name=name,
        model=model,
        estimand=choices.estimand,
        estimator=choices.estimator,
        update=choices.update,
        estep=estep,
        step_size=step_size,
        ramp=ramp or no_ramp(),
        learn=learnt.names,
        optimizer=learnt.optimizer,
        blocks=None if blocks is None else tuple(map(tuple, blocks)),
        penalty_every=1 if learnt.names else penalty_every or 1,
        messages=scaled() if messages is None else messages,
    )
    spec.messages.check(spec)
    return build_algorithm(spec)


class _Choices(NamedTuple):
    """Estimand, estimator and update of each global."""

    estimand: PerVariable[Estimand]
    estimator: PerVariable[Estimator]
    update: PerVariable[Update]


def _choose_by_global(model: Model, estimand: Any, estimator: Any, update: Any) -> _Choices:
    """The choices that were given, and the usual ones for all other globals."""
    estimands = per_variable("estimand", estimand, distribution(), Estimand, "vijax.estimand")
    estimators = per_variable("estimator", estimator, None, Estimator, "vijax.estimator")
    updates = per_variable("update", update, None, Update, "vijax.update")
    _check_global_names(model, estimand=estimands, estimator=estimators, update=updates)
    compatibility.check_weighted_globals(model, estimators)
    choices = _Choices(*compatibility.fill_defaults(model, estimands, estimators, updates))
    compatibility.check_estimands(model, choices.estimand)
    compatibility.check_site_choices(model, choices.estimand, choices.estimator)
    return choices


def _check_sizes(step_size: Any, updates: PerVariable[Update], penalty_every: int | None) -> None:
    """Raises ValueError at a schedule that the updates cannot read, and at intervals below 1."""
    if not isinstance(step_size, backtracking | by_share):
        check_schedule(step_size, {choice.size for choice in updates.choices()})
    require_integers(penalty_every=1 if penalty_every is None else penalty_every)


def _points_to_learn(model: Model, learn: Learn | Sequence[str]) -> Learn:
    """The points that are learnt, and their optimiser."""
    learnt = learn if isinstance(learn, Learn) else Learn(tuple(learn))
    check_learnt(model, learnt.names)
    return learnt


def _check_messages(messages: Any) -> None:
    """Raises ValueError at what is no rule for the messages of batches."""
    is_rule = isinstance(messages, Messages | None)
    require(is_rule, "messages", "one of vijax.messages, such as by_part(10)", repr(messages))


def _check_global_names(model: Model, **choices: PerVariable[Any]) -> None:
    """Raises ValueError at a choice, given by argument, for a name that is no global."""
    if not any(choice.named for choice in choices.values()):
        return
    globals_ = list(jax.eval_shape(model.prior, dict(model.hyper)))
    for argument, choice in choices.items():
        check_names(argument, choice, globals_)


def build_algorithm(spec: Spec) -> Algorithm:
    """The algorithm of choices that were checked."""
    return Algorithm(build_function(Init, spec), build_function(Step, spec), spec)

"""One step, composed of choices made for each global: E-step, estimand, estimator, update, step size.

    lambda <- update(lambda, eta + (N_t / S) sum_n m_n)

`compose` is the only place where an algorithm is built; the names of the literature are rows of arguments to it
(`vijax.algorithms`).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from vijax import by_value, describe, safeguard, tree
from vijax.batch import Minibatch, as_minibatch, is_whole
from vijax.choices import check_estep, check_estimands, check_model, check_names, check_parts
from vijax.estimand import Estimand, distribution
from vijax.estimator import Estimator, Reads, at_point, mean_field
from vijax.estimator.joint import NOTHING, Message, estimate, value
from vijax.families import Product
from vijax.families.base import require, require_integers
from vijax.families.domain import is_proper
from vijax.model import Hyper, LocalElbo, Model
from vijax.parts import Parts, recall, unvisited
from vijax.per_variable import PerVariable, check_known, per_variable
from vijax.state import Info, Result, State, check_state, counted, fresh_counts
from vijax.step_size import Ramp, Schedule, backtracking, by_share, check_schedule, no_ramp
from vijax.update import Update, kl, retract

ByName = Mapping[str, Any] | PerVariable[Any]
StepSize = Schedule | backtracking | by_share


class Spec(NamedTuple):
    """The choices an algorithm is composed of, for whoever wants to read them."""

    name: str
    model: Model
    estimand: PerVariable[Estimand]
    estimator: PerVariable[Estimator]
    update: PerVariable[Update]
    estep: Any
    step_size: StepSize
    ramp: Ramp
    learn: tuple[str, ...]
    penalty_every: int
    num_groups: float | None
    full_data: bool
    sequential: bool
    num_parts: int | None
    average_after: int | None

    def __repr__(self) -> str:
        return describe.of_spec(self)

    def is_point(self, name: str) -> bool:
        """Whether of a global only a point is found."""
        return self.estimand.of(name).is_point

    def prior(self, hyper: Hyper) -> Product:
        """Towards which a step pulls."""
        prior = self.model.prior(hyper)
        return prior.replace({name: self.estimand.of(name).prior(p) for name, p in prior.items()})

    def start(self, hyper: Hyper) -> Product:
        """What the model takes for the prior where it starts."""
        prior = self.model.prior(hyper)
        return prior.replace({name: self.estimand.of(name).start(p) for name, p in prior.items()})

    def penalty(self, posterior: Product, hyper: Hyper) -> Float[Array, ""]:
        """What the objective subtracts from the bound of the data."""
        prior = self.model.prior(hyper)
        terms = [self.estimand.of(name).penalty(q, prior[name]) for name, q in posterior.items()]
        return functools.reduce(jnp.add, terms)

    def point(self, posterior: Product, reads: Mapping[str, Reads] = NOTHING) -> dict[str, Any]:
        """Statistics at which the model is evaluated without noise, of some globals of some entries alone."""
        point = lambda name, q: q.entries(reads[name].rows) if name in reads else self.estimand.of(name).point(q)
        return {name: point(name, q) for name, q in posterior.items()}

    def estimators(self, names: Any) -> dict[str, Estimator]:
        """How the message of each global is estimated: at a point where no more is sought."""
        rule = lambda name: at_point(self.estimand.of(name)) if self.is_point(name) else self.estimator.of(name)
        return {name: rule(name) for name in names}


class Algorithm(NamedTuple):
    """A pure algorithm: jit, scan, vmap or shard its functions as you like.

    Attributes:
      init: (key, batch=None) -> `State`; the batch (as in `step`) is needed by models whose start depends on data.
      step: (key, state, batch) -> (`State`, `Info`); batch is a `Minibatch`, or bare data where the algorithm takes
        the whole set or was told `num_groups`.
      spec: the choices it is made of.
    """

    init: Callable[..., State]
    step: Callable[[PRNGKeyArray, State, Any], tuple[State, Info]]
    spec: Spec

    def __repr__(self) -> str:
        return describe.of_algorithm(self)


def compose(
    model: Model,
    *,
    estimand: Estimand | ByName | None = None,
    estimator: Estimator | ByName | None = None,
    update: Update | ByName | None = None,
    step_size: StepSize,
    estep: Any = None,
    ramp: Ramp | None = None,
    learn: tuple[str, ...] = (),
    hyper_optimizer: optax.GradientTransformation | None = None,
    penalty_every: int = 1,
    num_groups: float | None = None,
    full_data: bool = False,
    sequential: bool = False,
    num_parts: int | None = None,
    average_after: int | None = None,
    name: str = "compose",
    **unknown: Any,
) -> Algorithm:
    """Any algorithm of the design.

    What is sought of a global, how its message is estimated and how it moves are chosen once for all globals, or for
    some by name: `update={"topics": vi.update.kl(), "rate": vi.update.descend(optax.adam(0.01))}`.

    Args:
      model: what is inferred.
      estimand: what is sought (`vijax.estimand`); None, and globals that a dict does not name, a distribution.
      estimator: how the natural gradient of the local bound is estimated (`vijax.estimator`); None is `mean_field()`.
      update: how a global moves (`vijax.update`); None is `kl()`, the natural-gradient step.
      step_size: rho_t, or beta_t where the updates read that (`vijax.step_size`); or `vijax.step_size.backtracking()`,
        for full data.
      estep: how the model treats its local variables (`vijax.estep`); None takes the model's default.
      ramp: N_t (`vijax.step_size`); None is N.
      learn: names of `model.hyper` to learn, by gradient steps on the objective in their logarithms.
      hyper_optimizer: the optax optimiser of those steps; None is Adam at rate 0.01.
      penalty_every: evaluate the penalty of the reported objective every so many steps: no step needs it, and for a
        large posterior it costs as much as drawing from it. Every step where hyperparameters are learnt.
      num_groups: N, needed only to hand `step` bare data that are part of a larger set.
      full_data: bare data given to `step` are the whole set.
      sequential: update the model's blocks of globals one after the other, each at the others' latest values, as
        coordinate ascent must where the joint density couples them; otherwise a step updates all at once.
      num_parts: remember a message for each of so many parts of the data (`vijax.memoized`, which says more).
      average_after: keep the mean of the posteriors of the steps from this one on, in `state.average`.
      name: what the algorithm is called.
      **unknown: nothing; names that are none of the above are errors that say which are.

    Raises:
      TypeError: an argument that there is not.
      ValueError: `model` is no `vijax.Model`, a choice is not of its kind or for a name that is no global, `estep` is
        not of the kind that the model reads, `step_size` is no schedule, `learn` names what is no hyperparameter of the
        model, `penalty_every` is below 1, or maximum likelihood is asked of a model whose globals have priors that
        depend on each other, or of globals that it does not determine (`Model.needs_prior`).
    """
    check_names(unknown, set(inspect.signature(compose).parameters) - {"unknown", "name"})
    check_model(model)
    check_estep(model, estep)
    estimands = per_variable("estimand", estimand, distribution(), Estimand, "vijax.estimand")
    estimators = per_variable("estimator", estimator, mean_field(), Estimator, "vijax.estimator")
    updates = per_variable("update", update, kl(), Update, "vijax.update")
    _check_variables(model, estimand=estimands, estimator=estimators, update=updates)
    if not isinstance(step_size, backtracking | by_share):
        check_schedule(step_size, {choice.size for choice in updates.choices()})
    require_integers(penalty_every=penalty_every)
    require_integers(0, average_after=0 if average_after is None else average_after)
    check_estimands(model, estimands)
    strange = sorted(set(learn) - set(model.hyper))
    if strange:
        raise ValueError(f"learn: expected names among {sorted(model.hyper)}, got {strange}.")
    spec = Spec(
        name=name,
        model=model,
        estimand=estimands,
        estimator=estimators,
        update=updates,
        estep=model.estep if estep is None else estep,
        step_size=step_size,
        ramp=ramp or no_ramp(),
        learn=tuple(learn),
        penalty_every=1 if learn else penalty_every,
        num_groups=num_groups,
        full_data=full_data,
        sequential=sequential,
        num_parts=num_parts,
        average_after=average_after,
    )
    check_parts(spec)
    optimizer = hyper_optimizer or ADAM
    init, step = by_value.of(model, _Init(spec, optimizer)), by_value.of(model, _Step(spec, optimizer))
    return Algorithm(init, step, spec)


ADAM = optax.adam(0.01)
"""The default optimiser of hyperparameters: one object, for optimisers are equal to themselves alone."""


def _check_variables(model: Model, **chosen: PerVariable) -> None:
    """ValueError at choices for what is no global; the model's prior is looked at only where there may be any."""
    if any(choice.named for choice in chosen.values()):
        names = list(jax.eval_shape(model.prior, dict(model.hyper)))
        for argument, choice in chosen.items():
            check_known(argument, choice, names)


@dataclasses.dataclass(frozen=True)
class _Init:
    """`Algorithm.init`. Equal to another one of equal choices."""

    spec: Spec
    optimizer: optax.GradientTransformation

    def __call__(self, key: PRNGKeyArray, batch: Any = None) -> State:
        spec, model = self.spec, self.spec.model
        batch = None if batch is None else as_minibatch(batch, spec.num_groups, spec.full_data)
        hyper = {name: jnp.asarray(value) for name, value in model.hyper.items()}
        posterior = _in_context(model, hyper, model.init(hyper, key, spec.start(hyper), batch))
        dtype = jax.tree.leaves(posterior)[0].dtype
        # Locals of other groups would be no start: they are carried only where every batch is the same, the whole set.
        start = model.init_local if spec.full_data and batch is not None else None
        start = start if start is not None and is_whole(batch) else None
        return State(
            posterior=posterior,
            memory={name: spec.update.of(name).init(q) for name, q in posterior.items()},
            hyper=hyper,
            opt_state=self.optimizer.init(log_hyper(hyper, spec.learn)),
            step_size=jnp.zeros((), dtype),
            penalty=jnp.zeros((), dtype),
            local=None if start is None else start(hyper, batch),
            average=None if spec.average_after is None else tree.scale(0.0, posterior),
            parts=None if spec.num_parts is None else unvisited(posterior, spec.num_parts),
            **fresh_counts(dtype),
        )


@dataclasses.dataclass(frozen=True)
class _Step:
    """`Algorithm.step`. Equal to another one of equal choices."""

    spec: Spec
    optimizer: optax.GradientTransformation

    def __call__(self, key: PRNGKeyArray, state: State, batch: Any) -> tuple[State, Info]:
        check_state(key, state, State)
        spec = self.spec
        batch = as_minibatch(batch, spec.num_groups, spec.full_data)
        state = state._replace(posterior=state.posterior.prepared(spec.penalty_every == 1))
        theta = log_hyper(state.hyper, spec.learn)
        moved = _move(spec, key, state, batch, theta)
        penalty, penalty_grad = _penalty(spec, state, theta)
        if spec.learn and spec.model.context is not None:
            theta_grad = _gradient_through_context(spec, key, state, batch, theta)
        else:
            theta_grad = tree.subtract(moved.message.theta_grad, penalty_grad)
        hyper, opt_state = ascend_hyper(self.optimizer, theta_grad, theta, state)
        if spec.learn:  # the posterior follows a prior that changed
            moved = moved._replace(posterior=_in_context(spec.model, hyper, moved.posterior))
        non_finite = moved.non_finite + tree.count_non_finite((moved.message.value, theta_grad))
        ok = (non_finite == 0) & tree.all_finite((moved.posterior, hyper))
        info = _info(moved, penalty, non_finite, ok, _first_bad(moved.message.aux, batch, _reads(spec, state, batch)))
        new = _advance(ok, state, moved, hyper, opt_state)
        new = new._replace(penalty=penalty, average=_averaged(spec, state, new.posterior))
        return counted(ok, state, new), info


class _Moved(NamedTuple):
    """Where a step led, before it is accepted; `message` is the first block's, of the state as it was."""

    posterior: Product
    memory: PyTree
    local: PyTree
    parts: Any
    message: Message
    step_size: Float[Array, ""]
    next_size: Float[Array, ""]
    retractions: Int[Array, ""]
    backtracks: Int[Array, ""]
    non_finite: Int[Array, ""]


class _Trial(NamedTuple):
    """Where a step of some size leads."""

    posterior: Product
    memory: PyTree
    retractions: Int[Array, ""]


def _move(spec: Spec, key: PRNGKeyArray, state: State, batch: Minibatch, theta: PyTree) -> _Moved:
    """The step, block after block of the globals."""
    prior, reads, rule = spec.prior(state.hyper), _reads(spec, state, batch), _rule(spec, batch)
    estimators = spec.estimators(state.posterior)
    rho = _first_size(rule, state)
    damped = jnp.minimum(rho, 1)  # of a beta, what it leaves of the old posterior is nothing
    posterior, memory, local, parts = state.posterior, dict(state.memory), state.local, state.parts
    messages, blocks, none = [], [], jnp.zeros((), jnp.int32)
    non_finite = none
    for block in _blocks(spec, posterior):
        key, key_global, key_local = jax.random.split(key, 3)
        bound = _scaled_bound(spec, state, batch._replace(local=local), key_local)
        message = estimate(estimators, block, key_global, posterior, prior, damped, bound, theta, reads)
        non_finite = non_finite + tree.count_non_finite(message.natural)
        if spec.num_parts is not None:
            excess = tree.subtract(posterior.only(block), prior.only(block))
            parts, message = _of_all_parts(spec, state, batch, parts, posterior, excess, message)

        def step(
            size: Array,
            q: Product = posterior,
            old: PyTree = memory,
            message: Message = message,
            bound: Callable = bound,
        ) -> _Trial:
            again = Again(spec, q, reads, lambda stats: bound(stats, theta)[0])
            return _trial(spec, q, prior, message.natural, size, old, again)

        def objective(q: Product, key: PRNGKeyArray = key_global, bound: Callable = bound) -> Float[Array, ""]:
            q = q.prepared()
            return value(estimators, key, q, prior, damped, bound, theta, reads) - spec.penalty(q, state.hyper)

        trial, size, refused = _sized(rule, step, objective, _Trial(posterior, memory, none), rho)
        posterior, memory = trial.posterior, trial.memory
        local = None if local is None else message.aux.local
        messages.append(message)
        blocks.append((trial.retractions, refused, size))
    retractions, backtracks = (functools.reduce(jnp.add, [b[i] for b in blocks]) for i in (0, 1))
    used = functools.reduce(jnp.minimum, [b[2] for b in blocks])
    after = safeguard.next_rho(rule, used, backtracks) if isinstance(rule, backtracking) else used
    return _Moved(posterior, memory, local, parts, messages[0], used, after, retractions, backtracks, non_finite)


def _of_all_parts(
    spec: Spec, state: State, batch: Minibatch, parts: Parts, q: Product, excess: Product, message: Message
) -> tuple[Parts, Message]:
    """The message of all the data, from that of one part and those remembered of the others. The term that couples the
    globals belongs to no part, and is computed anew at every step."""
    stats, said, coupling = spec.point(q), message.aux, spec.model.global_elbo
    total = said.num_groups if batch.num_groups is None else jnp.asarray(batch.num_groups, said.total.dtype)
    remedy = f"Give Minibatch(data, N, weights, part=i), i from 0 to {spec.num_parts} - 1; vijax.fit does."
    require(batch.part is not None, "batch", "which part of the data it is", "none", remedy)
    index = jnp.asarray(batch.part, jnp.int32)
    at_once = spec.model.blocks is None or len(spec.model.blocks) == 1
    seen = recall(
        parts, index, message.natural, excess, message.value, stats, said.num_groups, total, at_once, _is_exact(spec)
    )
    natural, value = seen.natural, seen.value
    if coupling is not None:
        once, slope = jax.value_and_grad(lambda part: coupling(state.hyper, {**stats, **part}))(
            {name: stats[name] for name in natural}
        )
        natural, value = tree.add(natural, natural.with_naturals(slope)), value + once
    return seen.parts, message._replace(natural=natural, value=value)


def _is_exact(spec: Spec) -> bool:
    """Whether what is remembered of a part is a lower bound of it at any globals."""
    return spec.model.is_linear and getattr(spec.estep, "is_ascent", False)


def _rule(spec: Spec, batch: Minibatch) -> Schedule | backtracking:
    """How sizes are found, by the share of the data that a batch can hold: a matter of shapes."""
    if not isinstance(spec.step_size, by_share):
        return spec.step_size
    total, remedy = spec.model.num_groups, "Give a schedule."
    require(total is not None, "step_size", "a rule for a model that fits data of any size", "by_share(...)", remedy)
    return spec.step_size.of(jnp.shape(jax.tree.leaves(batch.data)[0])[0] / (total or 1))


def _first_size(rule: Schedule | backtracking, state: State) -> Float[Array, ""]:
    """What the schedule says, in the precision of the state: a float32 state stays one under x64."""
    if isinstance(rule, backtracking):
        return safeguard.first_rho(rule, state.step_size, state.step)
    return jnp.asarray(rule(state.step), state.step_size.dtype)


def _sized(
    rule: Schedule | backtracking,
    step: Callable[[Array], _Trial],
    objective: Callable[[Product], Array],
    stay: _Trial,
    rho: Array,
) -> tuple[_Trial, Float[Array, ""], Int[Array, ""]]:
    """The step at the size that the rule finds, that size, and how many trials it refused."""
    if not isinstance(rule, backtracking):
        return step(rho), rho, jnp.zeros((), jnp.int32)
    start = objective(stay.posterior)

    def serves(trial: _Trial) -> Bool[Array, ""]:
        near = True if rule.max_nats is None else trial.posterior.kl(stay.posterior) <= rule.max_nats
        return safeguard.no_lower(objective(trial.posterior), start) & near

    return safeguard.backtrack(step, serves, stay, rho, rule)


class Again(NamedTuple):
    """The bound, for updates that ask for its gradient anew (`Update.asks_again`).

    Attributes:
      spec: the choices.
      q: where the globals stand.
      reads: of which of their entries the batch reads.
      bound: stats -> the scaled bound.
    """

    spec: Spec
    q: Product
    reads: Mapping[str, Reads]
    bound: Callable[[Any], Array]

    def slope(self, name: str) -> Callable[[Any], Any]:
        """statistics of one global -> gradient in them of the batch's bound, unscaled."""
        stats, scale = self.spec.point(self.q, self.reads), self.reads[name].scale
        return jax.grad(lambda s: self.bound({**stats, name: s}) / scale)


def _trial(
    spec: Spec, q: Product, prior: Product, natural: Product, size: Array, memory: PyTree, again: Again
) -> _Trial:
    """The globals that have a message, moved by their updates and kept inside the domain."""
    old, base = q.only(natural), prior.only(natural)
    new, kept, targets = {}, dict(memory), {}
    for name, message in natural.items():
        update, target = spec.update.of(name), tree.add(old[name].with_naturals(base[name]), message)
        if update.asks_again:
            target = new[name] = _asked_again(update, old[name], again, name, size)
        else:
            new[name], kept[name] = update.propose(old[name], target, size, memory[name])
        targets[name] = target
    moved = retract(old.replace(new), old, _retreat(spec, old, base, old.replace(targets)), size)
    return _Trial(q.replace(moved.posterior), kept, moved.retractions)


def _asked_again(update: Any, q: Any, again: Again, name: str, size: Array) -> Any:
    """Where an update of several steps leads."""
    remedy = "It is for the sites of Gaussian predictors."
    require(name in again.reads, "update", f"one that can move a {type(q).__name__}", repr(update), remedy)
    return update.propose_from(q, again.reads[name], again.slope(name), size)


def _retreat(spec: Spec, old: Product, base: Product, targets: Product) -> Product:
    """The prior, or what the family knows better; of globals whose prior is flat, which is no place to retreat to,
    where they are: under maximum likelihood an empty class stays."""
    base = base.retreat(targets)
    lost = [name for name in old if spec.estimand.of(name).is_flat]
    return base.replace({name: tree.select(is_proper(base[name]), base[name], old[name]) for name in lost})


def _blocks(spec: Spec, posterior: Product) -> tuple[tuple[str, ...], ...]:
    blocks = spec.model.blocks
    return blocks if spec.sequential and blocks is not None else (tuple(posterior),)


def _scaled_bound(spec: Spec, state: State, batch: Minibatch, key: PRNGKeyArray) -> Callable:
    """(stats, theta) -> (N_t / S) l, and what the model said."""

    def bound(stats: PyTree, theta: PyTree) -> tuple[Float[Array, ""], LocalElbo]:
        hyper = {**state.hyper, **jax.tree.map(jnp.exp, theta)}
        said = spec.model.local_elbo(hyper, stats, batch, key, spec.estep)
        if spec.num_parts is not None:  # what it remembers of all parts is put together later
            return said.total, said
        total = said.num_groups if batch.num_groups is None else jnp.asarray(batch.num_groups, said.total.dtype)
        # A batch of padding alone says nothing, rather than 0/0.
        scale = spec.ramp(state.step, total, said.num_groups) / jnp.maximum(said.num_groups, 1)
        coupling = spec.model.global_elbo
        return scale * said.total + (0.0 if coupling is None else coupling(hyper, stats)), said

    return bound


def _reads(spec: Spec, state: State, batch: Minibatch) -> dict[str, Reads]:
    """Of which entries of the globals the batch reads."""
    if spec.model.reads is None:
        return {}
    dtype, found = state.step_size.dtype, {}
    for name, rows in spec.model.reads(batch).items():
        weights = jnp.ones(rows.shape, dtype) if batch.weights is None else jnp.asarray(batch.weights, dtype)
        count = jnp.maximum(jnp.sum(weights), 1)
        total = count if batch.num_groups is None else jnp.asarray(batch.num_groups, dtype)
        found[name] = Reads(rows, weights, spec.ramp(state.step, total, count) / count)
    return found


def _in_context(model: Model, hyper: Hyper, posterior: Product) -> Product:
    """The posterior with the context that belongs to these hyperparameters."""
    return posterior if model.context is None else posterior.with_context(model.context(hyper))


def _gradient_through_context(spec: Spec, key: PRNGKeyArray, state: State, batch: Minibatch, theta: PyTree) -> PyTree:
    """The objective's gradient in the learnt hyperparameters at fixed natural parameters, where these are relative to
    a context that depends on them."""
    estimators, reads = spec.estimators(state.posterior), _reads(spec, state, batch)
    key_global, key_local = jax.random.split(key)
    bound = _scaled_bound(spec, state, batch, key_local)

    def objective(theta: PyTree) -> Float[Array, ""]:
        hyper = {**state.hyper, **jax.tree.map(jnp.exp, theta)}
        q, rho = _in_context(spec.model, hyper, state.posterior), jnp.ones((), state.step_size.dtype)
        q = q.prepared()
        said = value(estimators, key_global, q, spec.prior(hyper), rho, bound, theta, reads)
        return said - spec.penalty(q, hyper)

    return jax.grad(objective)(theta)


def _averaged(spec: Spec, state: State, posterior: Product) -> Product | None:
    """The running mean of the posteriors, in natural parameters."""
    if spec.average_after is None:
        return None
    count = jnp.maximum(state.step - spec.average_after + 1, 1).astype(state.step_size.dtype)
    return tree.mix(1.0 / count, posterior.with_naturals(state.average), posterior)


def _first_bad(said: LocalElbo, batch: Minibatch, reads: Mapping[str, Reads]) -> Int[Array, ""]:
    """The first group whose bound is not finite, or -1."""
    none = jnp.full((), -1, jnp.int32)
    if not isinstance(said.per_group, jax.Array) or said.per_group.ndim != 1:
        return none
    bad = ~jnp.isfinite(said.per_group)
    if batch.weights is not None:
        bad = bad & (jnp.asarray(batch.weights) > 0)
    place = jnp.argmax(bad).astype(jnp.int32)
    rows = [some.rows for some in reads.values() if some.rows.shape == bad.shape]
    return jnp.where(jnp.any(bad), rows[0][place].astype(jnp.int32) if rows else place, none)


def _penalty(spec: Spec, state: State, theta: PyTree) -> tuple[Float[Array, ""], PyTree]:
    """What the objective subtracts, and its gradient in the learnt hyperparameters."""

    def penalty(theta: PyTree) -> Float[Array, ""]:
        return spec.penalty(state.posterior, {**state.hyper, **jax.tree.map(jnp.exp, theta)})

    if spec.penalty_every == 1:
        return jax.value_and_grad(penalty)(theta)
    due = state.step % spec.penalty_every == 0
    return jax.lax.cond(due, lambda: penalty(theta), lambda: state.penalty), theta


def log_hyper(hyper: Hyper, names: tuple[str, ...]) -> dict[str, Array]:
    """Logarithms of the hyperparameters named: what is learnt."""
    return {name: jnp.log(hyper[name]) for name in names}


def ascend_hyper(
    optimizer: optax.GradientTransformation, ascent: PyTree, theta: PyTree, state: State
) -> tuple[Hyper, PyTree]:
    """One ascent step on the objective in the logarithms of the learnt hyperparameters."""
    updates, opt_state = optimizer.update(tree.scale(-1.0, ascent), state.opt_state, theta)
    learnt = jax.tree.map(jnp.exp, optax.apply_updates(theta, updates))
    return {**state.hyper, **learnt}, opt_state


def _advance(ok: Bool[Array, ""], state: State, moved: _Moved, hyper: Hyper, opt_state: PyTree) -> State:
    """The new state, or the last good one."""
    new = state._replace(
        posterior=moved.posterior,
        memory=moved.memory,
        hyper=hyper,
        opt_state=opt_state,
        local=moved.local,
        parts=moved.parts,
        step_size=moved.next_size,
    )
    return tree.select(ok, new, state)


def _info(moved: _Moved, penalty: Array, non_finite: Array, ok: Array, bad_group: Array) -> Info:
    said: LocalElbo = moved.message.aux
    retractions = moved.retractions if said.retractions is None else moved.retractions + said.retractions
    return Info(
        elbo=moved.message.value - penalty,
        local_elbo=said.total,
        per_group=said.per_group,
        num_groups=said.num_groups,
        penalty=penalty,
        step_size=moved.step_size,
        retractions=jnp.where(ok, retractions, 0),
        backtracks=moved.backtracks,
        non_finite=non_finite,
        bad_group=bad_group,
        result=jnp.where(ok, Result.OK, Result.SKIPPED),
        num_words=said.num_words,
    )

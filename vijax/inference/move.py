"""The move of the globals in one step, block after block: estimate the message, update, keep inside
the domain."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from vijax import tree
from vijax.checks import require
from vijax.contract.batch import Minibatch
from vijax.families import Family, Product
from vijax.families.construction import is_proper
from vijax.inference.bound import batch_reads, scaled_bound
from vijax.inference.estimator import Reads
from vijax.inference.estimator.base import Estimator, Message, estimate, value
from vijax.inference.messages import Globals
from vijax.inference.spec import Spec
from vijax.inference.state import State
from vijax.inference.step_size import Schedule, backtracking, by_share, no_lower
from vijax.inference.update import Retraction, retract
from vijax.xla.chunks import block_length, sum_blocks


class StepResult(NamedTuple):
    """The end of a step, before it is accepted.

    Attributes:
      message: the message of the first block, with the bound of the state before the step.
      step_size: the smallest size of any block.
      next_size: the size that the next step's search begins with.
      non_finite: number of entries of all messages that are not finite.
      bad_variable: index of the first global whose message is not finite; -1 if none.
      is_finite: True if all globals that moved are finite.
    """

    posterior: Product
    memory: PyTree
    local: PyTree
    messages: PyTree
    message: Message
    step_size: Float[Array, ""]
    next_size: Float[Array, ""]
    retractions: Int[Array, ""]
    backtracks: Int[Array, ""]
    non_finite: Int[Array, ""]
    bad_variable: Int[Array, ""]
    is_finite: Bool[Array, ""]


class Trial(NamedTuple):
    """The end of a step of some size; `is_finite` is True if the globals that moved are finite."""

    posterior: Product
    memory: PyTree
    retractions: Int[Array, ""]
    is_finite: Bool[Array, ""]


class _Setting(NamedTuple):
    """The part of a step that is the same for all blocks; `damped` is rho, at most 1."""

    spec: Spec
    state: State
    theta: PyTree
    prior: Product
    reads: Mapping[str, Reads]
    estimators: Mapping[str, Estimator]
    rule: Schedule | backtracking
    rho: Float[Array, ""]
    damped: Float[Array, ""]


class _Progress(NamedTuple):
    """The part of the state that changes from block to block; `messages` are those remembered."""

    posterior: Product
    memory: PyTree
    messages: PyTree
    local: PyTree
    non_finite: Int[Array, ""]
    bad_variable: Any


class _BlockMove(NamedTuple):
    """The message of one block, and how far it moved."""

    message: Message
    size: Float[Array, ""]
    retractions: Int[Array, ""]
    backtracks: Int[Array, ""]
    is_finite: Bool[Array, ""]


def move(
    spec: Spec, key: PRNGKeyArray, state: State, batch: Minibatch, theta: PyTree
) -> StepResult:
    """The result of a step: all blocks of globals, each moved at the others' latest values."""
    setting = _setting(spec, state, batch, theta)
    progress = _Progress(
        posterior=state.posterior,
        memory=dict(state.memory),
        messages=state.messages,
        local=state.local,
        non_finite=jnp.zeros((), jnp.int32),
        bad_variable=np.int32(-1),
    )
    moves = []
    for block in spec.blocks or (tuple(state.posterior),):
        key, key_global, key_local = jax.random.split(key, 3)
        progress, block_move = _move_block(setting, progress, block, batch, key_global, key_local)
        moves.append(block_move)
    retractions = functools.reduce(jnp.add, [block.retractions for block in moves])
    backtracks = functools.reduce(jnp.add, [block.backtracks for block in moves])
    is_finite = functools.reduce(jnp.logical_and, [block.is_finite for block in moves])
    size = functools.reduce(jnp.minimum, [block.size for block in moves])
    next_size = size
    if isinstance(setting.rule, backtracking):
        next_size = setting.rule.next(size, backtracks)
    return StepResult(
        posterior=progress.posterior,
        memory=progress.memory,
        local=progress.local,
        messages=progress.messages,
        message=moves[0].message,
        step_size=size,
        next_size=next_size,
        retractions=retractions,
        backtracks=backtracks,
        non_finite=progress.non_finite,
        bad_variable=jnp.asarray(progress.bad_variable),
        is_finite=is_finite,
    )


def _setting(spec: Spec, state: State, batch: Minibatch, theta: PyTree) -> _Setting:
    """The setting of a step. Raises ValueError if posterior and prior differ in family."""
    prior = spec.prior(state.hyper)
    reads = batch_reads(spec, state, batch)
    rule = _step_rule(spec, batch)
    _check_families(state.posterior, prior)
    estimators = spec.estimators(state.posterior)
    if isinstance(rule, backtracking):
        rho = rule.first(state.step_size, state.step)
    else:  # in the precision of the state: a float32 state stays one under x64
        rho = jnp.asarray(rule(state.step), state.step_size.dtype)
    # A step of beta above 1 leaves nothing of the old posterior, as rho = 1 does.
    damped = jnp.minimum(rho, 1)
    return _Setting(spec, state, theta, prior, reads, estimators, rule, rho, damped)


def _move_block(
    setting: _Setting,
    progress: _Progress,
    block: Sequence[str],
    batch: Minibatch,
    key_global: PRNGKeyArray,
    key_local: PRNGKeyArray,
) -> tuple[_Progress, _BlockMove]:
    """The progress after one block of globals has moved, and its move."""
    spec, state, theta, prior, reads, estimators, rule, rho, damped = setting
    q = progress.posterior
    bound = scaled_bound(spec, state, batch._replace(local=progress.local), key_local)
    lookahead = spec.messages.look(spec, state.messages, batch, q)
    message = estimate(estimators, block, key_global, lookahead, prior, damped, bound, theta, reads)
    non_finite = progress.non_finite + tree.count_non_finite(message.natural)
    bad = _first_not_finite(progress.bad_variable, message.natural, list(q))
    globals_ = Globals(q, lookahead, prior, state.hyper)
    remembered, message = spec.messages.all(spec, progress.messages, batch, globals_, message)

    def step(size: Array) -> Trial:
        slopes = BoundSlopes(spec, q, reads, lambda stats: bound(stats, theta)[0])
        return _trial(setting, q, message.natural, size, progress.memory, slopes)

    def objective(q: Product) -> Float[Array, ""]:
        q = q.prepare()
        data_term = value(estimators, key_global, q, prior, damped, bound, theta, reads)
        return data_term - spec.penalty(q, state.hyper, progress.memory)

    stay = Trial(q, progress.memory, jnp.zeros((), jnp.int32), jnp.array(True))
    trial, size, backtracks = _search_size(rule, step, objective, stay, rho)
    local = None if progress.local is None else message.aux.local
    progress = _Progress(trial.posterior, trial.memory, remembered, local, non_finite, bad)
    block_move = _BlockMove(message, size, trial.retractions, backtracks, trial.is_finite)
    return progress, block_move


def _first_not_finite(bad: Any, messages: Product, names: Sequence[str]) -> Int[Array, ""]:
    """Index in `names` of the first message that is not finite; `bad` if an earlier block had one;
    -1 if there is none."""
    for name, message in messages.items():
        is_new = (bad < 0) & (tree.count_non_finite(message) > 0)
        bad = jnp.where(is_new, jnp.int32(names.index(name)), bad)
    return jnp.asarray(bad)


def _check_families(posterior: Product, prior: Product) -> None:
    """Raises ValueError at a state with a global that is not of the family of its prior."""
    for name, q in posterior.items():
        expected = f"a {type(prior[name]).__name__} of {name!r}, as its prior is"
        remedy = (
            "Begin by alg.init, or convert it: state._replace(posterior=state.posterior.plain())."
        )
        require(type(q) is type(prior[name]), "state", expected, f"a {type(q).__name__}", remedy)


def _step_rule(spec: Spec, batch: Minibatch) -> Schedule | backtracking:
    """The rule for step sizes. Under `by_share` it depends on the share of the data in a batch,
    which is known from shapes."""
    if not isinstance(spec.step_size, by_share):
        return spec.step_size
    total = spec.model.form.num_groups
    expected = "a rule for a model that fits data of any size"
    remedy = "Give a schedule."
    require(total is not None, "step_size", expected, repr(spec.step_size), remedy)
    size = jnp.shape(jax.tree.leaves(batch.data)[0])[0]
    return spec.step_size.choose(size / (total or 1))


def _search_size(
    rule: Schedule | backtracking,
    step: Callable[[Array], Trial],
    objective: Callable[[Product], Array],
    stay: Trial,
    rho: Array,
) -> tuple[Trial, Float[Array, ""], Int[Array, ""]]:
    """The step at the size that the rule finds, that size, and the number of trials it refused."""
    if not isinstance(rule, backtracking):
        return step(rho), rho, jnp.zeros((), jnp.int32)
    start = objective(stay.posterior)

    def serves(trial: Trial) -> Bool[Array, ""]:
        is_near: Any = True
        if rule.max_nats is not None:
            is_near = trial.posterior.kl(stay.posterior) <= rule.max_nats
        return no_lower(objective(trial.posterior), start) & is_near

    return rule.search(step, serves, stay, rho)


_Updates = Callable[[Product, Product, Product], tuple[Retraction, PyTree]]
"""(globals, their priors, their messages) -> the globals after their updates, and the memory."""


class BoundSlopes(NamedTuple):
    """Gradients of the bound at the present globals, for updates that evaluate it several times
    (`Update.asks_again`).

    Attributes:
      reads: the entries of globals that the batch reads.
      bound: stats -> the scaled bound.
    """

    spec: Spec
    q: Product
    reads: Mapping[str, Reads]
    bound: Callable[[Any], Array]

    def slope(self, name: str) -> Callable[[Any], Any]:
        """A function: statistics of one global -> gradient of the batch's unscaled bound in
        them."""
        stats, scale = self.spec.point(self.q, self.reads), self.reads[name].scale
        return jax.grad(lambda s: self.bound({**stats, name: s}) / scale)


def _trial(
    setting: _Setting,
    q: Product,
    natural: Product,
    size: Array,
    memory: PyTree,
    slopes: BoundSlopes,
) -> Trial:
    """The globals after a step of this size: those with a message are updated, and brought back
    into their domain."""
    update = functools.partial(_update, setting.spec, size, memory, slopes)
    old = q.only(natural)
    retraction, memory = update(old, setting.prior.only(natural), natural)
    checks = _check(setting, update, old, natural, retraction)
    posterior = q.replace(retraction.posterior)
    return Trial(posterior, memory, checks.retractions, checks.non_finite == 0)


def _update(
    spec: Spec,
    size: Array,
    memory: PyTree,
    slopes: BoundSlopes,
    old: Product,
    base: Product,
    natural: Product,
) -> tuple[Retraction, PyTree]:
    """The globals `old` after their updates, inside their domain; `base` are their priors."""
    proposals: dict[str, Any] = {}
    targets: dict[str, Any] = {}
    memory = dict(memory)
    for name, message in natural.items():
        update: Any = spec.update.choice(name)
        target = tree.add(old[name].with_naturals(base[name]), message)
        if update.asks_again:
            expected = f"one that can move a {type(old[name]).__name__}"
            remedy = "It is for the sites of Gaussian predictors."
            require(name in slopes.reads, "update", expected, repr(update), remedy)
            reads, slope = slopes.reads[name], slopes.slope(name)
            target = update.propose_from(old[name], reads, slope, size)
            proposals[name] = target
        else:
            proposal = update.propose(old[name], target, size, memory[name])
            proposals[name], memory[name] = proposal
        targets[name] = target
    safe = _safe_globals(spec, old, base, old.replace(targets))
    return retract(old.replace(proposals), old, safe, size), memory


class _Checks(NamedTuple):
    """Numbers of parameters that were brought back into the domain, and that are not finite."""

    retractions: Int[Array, ""]
    non_finite: Int[Array, ""]


def _check(
    setting: _Setting, update: _Updates, old: Product, natural: Product, retraction: Retraction
) -> _Checks:
    """The checks of the globals after their updates, which are `retraction`.

    Large tables are updated once more, block by block, for their checks alone: else XLA would write
    a table of proposals, one of masks, and one of new globals that are not yet accepted."""
    tables = [name for name in natural if _is_table(setting.spec, name, old[name])]
    if not tables:
        return _count_bad(retraction)

    def check(old: Product, base: Product, natural: Product) -> _Checks:
        return _count_bad(update(old, base, natural)[0])

    def check_table(name: str) -> _Checks:
        part = old.only([name])

        def check_block(x: Array, base: Array, message: Array) -> _Checks:
            return check(*(part.with_naturals([block]) for block in (x, base, message)))

        (x,), (message,) = tree.parameters(part), tree.parameters(natural.only([name]))
        base = lambda: tree.parameters(setting.spec.prior(setting.state.hyper)[name])[0]
        axis: Any = old[name].block_axis
        return sum_blocks(check_block, (axis, axis, axis), x, base, message)

    small = [name for name in natural if name not in tables]
    checks = [check_table(name) for name in tables]
    if small:
        checks.append(check(*(q.only(small) for q in (old, setting.prior, natural))))
    return _Checks(*(functools.reduce(jnp.add, numbers) for numbers in zip(*checks, strict=True)))


def _count_bad(retraction: Retraction) -> _Checks:
    """The checks of globals that were updated as a whole."""
    return _Checks(retraction.retractions, tree.count_non_finite(retraction.posterior))


def _is_table(spec: Spec, name: str, q: Family) -> bool:
    """True if a global is a table of several blocks, whose numbers move each by itself."""
    axis = q.block_axis
    if axis is None or not spec.update.choice(name).by_number:
        return False
    (x,) = tree.parameters(q)
    return block_length(x.shape, axis) < x.shape[axis]


def _safe_globals(spec: Spec, old: Product, base: Product, targets: Product) -> Product:
    """The members that proposals outside the domain retreat towards: the prior, or a better member
    that the family knows.

    If the prior is flat, the global keeps its present value: so an empty class stays as it is under
    maximum likelihood."""
    base = base.retreat(targets)
    flat = [name for name in old if spec.estimand.choice(name).is_flat]
    safe = {name: tree.select(is_proper(base[name]), base[name], old[name]) for name in flat}
    return base.replace(safe)

"""Where a step leads: the globals moved, block after block, and kept inside their domains."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from vijax import tree
from vijax.checks import require
from vijax.contract.batch import Minibatch
from vijax.families import Product
from vijax.families.construction import is_proper
from vijax.inference import non_finite as first_non_finite
from vijax.inference import safeguard
from vijax.inference.bound import reads_of, scaled_bound
from vijax.inference.estimator import Reads
from vijax.inference.estimator.joint import Message, estimate, value
from vijax.inference.messages import At
from vijax.inference.spec import Spec
from vijax.inference.state import State
from vijax.inference.step_size import Schedule, backtracking, by_share
from vijax.inference.update import retract


class Moved(NamedTuple):
    """Where a step led, before it is accepted; `message` is the first block's, of the state as it was."""

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


class Trial(NamedTuple):
    """Where a step of some size leads."""

    posterior: Product
    memory: PyTree
    retractions: Int[Array, ""]


def move(spec: Spec, key: PRNGKeyArray, state: State, batch: Minibatch, theta: PyTree) -> Moved:
    """The step, block after block of the globals."""
    prior, reads, rule = spec.prior(state.hyper), reads_of(spec, state, batch), _rule(spec, batch)
    _check_families(state.posterior, prior)
    estimators = spec.estimators(state.posterior)
    rho = _first_size(rule, state)
    damped = jnp.minimum(rho, 1)  # of a beta, what it leaves of the old posterior is nothing
    posterior, memory, remembered, local = state.posterior, dict(state.memory), state.messages, state.local
    messages, blocks, none = [], [], jnp.zeros((), jnp.int32)
    non_finite = none
    bad: Any = first_non_finite.NONE
    for block in spec.blocks or (tuple(posterior),):
        key, key_global, key_local = jax.random.split(key, 3)
        bound = scaled_bound(spec, state, batch._replace(local=local), key_local)
        there = spec.messages.look(spec, state.messages, batch, posterior)
        message = estimate(estimators, block, key_global, there, prior, damped, bound, theta, reads)
        non_finite = non_finite + tree.count_non_finite(message.natural)
        bad = first_non_finite.first_of(bad, message.natural, list(posterior))
        at = At(posterior, there, prior, state.hyper)
        remembered, message = spec.messages.all(spec, remembered, batch, at, message)

        def step(
            size: Array,
            q: Product = posterior,
            old: PyTree = memory,
            message: Message = message,
            bound: Callable = bound,
        ) -> Trial:
            again = Again(spec, q, reads, lambda stats: bound(stats, theta)[0])
            return _trial(spec, q, prior, message.natural, size, old, again)

        def objective(q: Product, key: PRNGKeyArray = key_global, bound: Callable = bound) -> Float[Array, ""]:
            q = q.prepared()
            said = value(estimators, key, q, prior, damped, bound, theta, reads)
            return said - spec.penalty(q, state.hyper)

        trial, size, refused = _sized(rule, step, objective, Trial(posterior, memory, none), rho)
        posterior, memory = trial.posterior, trial.memory
        local = None if local is None else message.aux.local
        messages.append(message)
        blocks.append((trial.retractions, refused, size))
    retractions, backtracks = (functools.reduce(jnp.add, [b[i] for b in blocks]) for i in (0, 1))
    used = functools.reduce(jnp.minimum, [b[2] for b in blocks])
    after = safeguard.next_rho(rule, used, backtracks) if isinstance(rule, backtracking) else used
    return Moved(
        posterior,
        memory,
        local,
        remembered,
        messages[0],
        used,
        after,
        retractions,
        backtracks,
        non_finite,
        jnp.asarray(bad),
    )


def _check_families(posterior: Product, prior: Product) -> None:
    """Raises ValueError at a state in which a global is not of the family of its prior."""
    for name, q in posterior.items():
        expected = f"a {type(prior[name]).__name__} of {name!r}, as its prior is"
        remedy = "Begin by alg.init, or convert it: state._replace(posterior=state.posterior.plain())."
        require(type(q) is type(prior[name]), "state", expected, f"a {type(q).__name__}", remedy)


def _rule(spec: Spec, batch: Minibatch) -> Schedule | backtracking:
    """How sizes are found, by the share of the data that a batch can hold: a matter of shapes."""
    if not isinstance(spec.step_size, by_share):
        return spec.step_size
    total, remedy = spec.model.form.num_groups, "Give a schedule."
    require(
        total is not None, "step_size", "a rule for a model that fits data of any size", repr(spec.step_size), remedy
    )
    here = jnp.shape(jax.tree.leaves(batch.data)[0])[0]
    return spec.step_size.of(here / (total or 1))


def _first_size(rule: Schedule | backtracking, state: State) -> Float[Array, ""]:
    """What the schedule says, in the precision of the state: a float32 state stays one under x64."""
    if isinstance(rule, backtracking):
        return safeguard.first_rho(rule, state.step_size, state.step)
    return jnp.asarray(rule(state.step), state.step_size.dtype)


def _sized(
    rule: Schedule | backtracking,
    step: Callable[[Array], Trial],
    objective: Callable[[Product], Array],
    stay: Trial,
    rho: Array,
) -> tuple[Trial, Float[Array, ""], Int[Array, ""]]:
    """The step at the size that the rule finds, that size, and how many trials it refused."""
    if not isinstance(rule, backtracking):
        return step(rho), rho, jnp.zeros((), jnp.int32)
    start = objective(stay.posterior)

    def serves(trial: Trial) -> Bool[Array, ""]:
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
) -> Trial:
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
    return Trial(q.replace(moved.posterior), kept, moved.retractions)


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

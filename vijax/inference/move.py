"""The move of a step: the globals, block after block, each by its update and kept inside its
domain."""

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
from vijax.families import Product
from vijax.families.construction import is_proper
from vijax.inference.bound import batch_reads, scaled_bound
from vijax.inference.estimator import Reads
from vijax.inference.estimator.base import Message, estimate, value
from vijax.inference.messages import At
from vijax.inference.spec import Spec
from vijax.inference.state import State
from vijax.inference.step_size import Schedule, backtracking, by_share, no_lower
from vijax.inference.update import retract


class Moved(NamedTuple):
    """The end of a step, before it is accepted; `message` is the first block's, of the state as it
    was."""

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
    """The end of a step of some size."""

    posterior: Product
    memory: PyTree
    retractions: Int[Array, ""]


def move(spec: Spec, key: PRNGKeyArray, state: State, batch: Minibatch, theta: PyTree) -> Moved:
    """The step, block after block of the globals."""
    prior, reads, rule = (
        spec.prior(state.hyper),
        batch_reads(spec, state, batch),
        _rule(spec, batch),
    )
    _check_families(state.posterior, prior)
    estimators = spec.estimators(state.posterior)
    if isinstance(rule, backtracking):
        rho = rule.first(state.step_size, state.step)
    else:  # in the precision of the state: a float32 state stays one under x64
        rho = jnp.asarray(rule(state.step), state.step_size.dtype)
    damped = jnp.minimum(rho, 1)  # of a beta, what it leaves of the old posterior is nothing
    posterior, memory, remembered, local = (
        state.posterior,
        dict(state.memory),
        state.messages,
        state.local,
    )
    messages, blocks, none = [], [], jnp.zeros((), jnp.int32)
    non_finite = none
    bad: Any = np.int32(-1)
    for block in spec.blocks or (tuple(posterior),):
        key, key_global, key_local = jax.random.split(key, 3)
        bound = scaled_bound(spec, state, batch._replace(local=local), key_local)
        there = spec.messages.look(spec, state.messages, batch, posterior)
        message = estimate(estimators, block, key_global, there, prior, damped, bound, theta, reads)
        non_finite = non_finite + tree.count_non_finite(message.natural)
        bad = _first_not_finite(bad, message.natural, list(posterior))
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

        def objective(
            q: Product, key: PRNGKeyArray = key_global, bound: Callable = bound
        ) -> Float[Array, ""]:
            q = q.prepare()
            said = value(estimators, key, q, prior, damped, bound, theta, reads)
            return said - spec.penalty(q, state.hyper)

        trial, size, refused = _sized(rule, step, objective, Trial(posterior, memory, none), rho)
        posterior, memory = trial.posterior, trial.memory
        local = None if local is None else message.aux.local
        messages.append(message)
        blocks.append((trial.retractions, refused, size))
    retractions, backtracks = (functools.reduce(jnp.add, [b[i] for b in blocks]) for i in (0, 1))
    used = functools.reduce(jnp.minimum, [b[2] for b in blocks])
    after = rule.next(used, backtracks) if isinstance(rule, backtracking) else used
    counts = retractions, backtracks, non_finite, jnp.asarray(bad)
    return Moved(posterior, memory, local, remembered, messages[0], used, after, *counts)


def _first_not_finite(known: Any, messages: Product, names: Sequence[str]) -> Int[Array, ""]:
    """The place that is known; else that of the first of these messages with an entry that is not
    finite; else -1."""
    for name, message in messages.items():
        is_new = (known < 0) & (tree.count_non_finite(message) > 0)
        known = jnp.where(is_new, jnp.int32(names.index(name)), known)
    return jnp.asarray(known)


def _check_families(posterior: Product, prior: Product) -> None:
    """Raises ValueError at a state in which a global is not of the family of its prior."""
    for name, q in posterior.items():
        expected = f"a {type(prior[name]).__name__} of {name!r}, as its prior is"
        remedy = (
            "Begin by alg.init, or convert it: state._replace(posterior=state.posterior.plain())."
        )
        require(type(q) is type(prior[name]), "state", expected, f"a {type(q).__name__}", remedy)


def _rule(spec: Spec, batch: Minibatch) -> Schedule | backtracking:
    """The rule for step sizes, by the share of the data that a batch can hold: a matter of
    shapes."""
    if not isinstance(spec.step_size, by_share):
        return spec.step_size
    total, remedy = spec.model.form.num_groups, "Give a schedule."
    expected = "a rule for a model that fits data of any size"
    require(total is not None, "step_size", expected, repr(spec.step_size), remedy)
    here = jnp.shape(jax.tree.leaves(batch.data)[0])[0]
    return spec.step_size.of(here / (total or 1))


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
        near = (
            True if rule.max_nats is None else trial.posterior.kl(stay.posterior) <= rule.max_nats
        )
        return no_lower(objective(trial.posterior), start) & near

    return rule.search(step, serves, stay, rho)


class Again(NamedTuple):
    """The bound (stats -> its scaled value) where the globals stand, for updates that ask for its
    gradient anew (`Update.asks_again`); `reads` says which of their entries the batch reads."""

    spec: Spec
    q: Product
    reads: Mapping[str, Reads]
    bound: Callable[[Any], Array]

    def slope(self, name: str) -> Callable[[Any], Any]:
        """A function of the statistics of one global: the gradient in them of the batch's bound,
        unscaled."""
        stats, scale = self.spec.point(self.q, self.reads), self.reads[name].scale
        return jax.grad(lambda s: self.bound({**stats, name: s}) / scale)


def _trial(
    spec: Spec,
    q: Product,
    prior: Product,
    natural: Product,
    size: Array,
    memory: PyTree,
    again: Again,
) -> Trial:
    """The globals that have a message, moved by their updates and kept inside the domain."""
    old, base = q.only(natural), prior.only(natural)
    new, kept, targets = {}, dict(memory), {}
    for name, message in natural.items():
        update: Any = spec.update.choice(name)
        target = tree.add(old[name].with_naturals(base[name]), message)
        if update.asks_again:
            remedy, expected = (
                "It is for the sites of Gaussian predictors.",
                f"one that can move a {type(q[name]).__name__}",
            )
            require(name in again.reads, "update", expected, repr(update), remedy)
            target = new[name] = update.propose_from(
                old[name], again.reads[name], again.slope(name), size
            )
        else:
            new[name], kept[name] = update.propose(old[name], target, size, memory[name])
        targets[name] = target
    moved = retract(old.replace(new), old, _retreat(spec, old, base, old.replace(targets)), size)
    return Trial(q.replace(moved.posterior), kept, moved.retractions)


def _retreat(spec: Spec, old: Product, base: Product, targets: Product) -> Product:
    """The prior, or a better member that the family knows. Globals whose prior is flat, which is no
    place to retreat to, retreat to where they are: under maximum likelihood an empty class
    stays."""
    base = base.retreat(targets)
    lost = [name for name in old if spec.estimand.choice(name).is_flat]
    return base.replace(
        {name: tree.select(is_proper(base[name]), base[name], old[name]) for name in lost}
    )

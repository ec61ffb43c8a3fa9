"""One step, composed of independent choices: E-step, message, geometry, step size.

    lambda <- prox_rho(lambda, eta + (N_t / S) sum_n m_n)

`compose` is the only place where an algorithm is built; the names of the literature are rows of arguments to it
(`vijax.algorithms`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from vijax import describe, tree
from vijax import geometry as geometries
from vijax.batch import Minibatch, as_minibatch, is_whole
from vijax.choices import check_estep, check_message, check_model, check_names
from vijax.families import Product
from vijax.families.base import require_integers
from vijax.families.domain import is_proper
from vijax.message import Message, MessageRule
from vijax.model import Hyper, LocalElbo, Model
from vijax.state import Info, Result, State, check_state, counted, fresh_counts
from vijax.step_size import Ramp, Schedule, check_schedule, no_ramp


class Spec(NamedTuple):
    """The choices an algorithm is composed of, for whoever wants to read them."""

    model: Model
    message: MessageRule
    estep: Any
    geometry: geometries.Geometry
    step_size: Schedule
    ramp: Ramp
    learn: tuple[str, ...]
    penalty_every: int
    num_groups: float | None
    full_data: bool
    sequential: bool

    def __repr__(self) -> str:
        return describe.of_spec(self)


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
    message: MessageRule,
    step_size: Schedule,
    estep: Any = None,
    geometry: geometries.Geometry = geometries.kl,
    ramp: Ramp | None = None,
    learn: tuple[str, ...] = (),
    hyper_optimizer: optax.GradientTransformation | None = None,
    penalty_every: int = 1,
    num_groups: float | None = None,
    full_data: bool = False,
    sequential: bool = False,
    **unknown: Any,
) -> Algorithm:
    """Any algorithm of the design.

    Args:
      model: what is inferred.
      message: how the natural gradient of the local bound is estimated (`vijax.message`).
      step_size: rho_t (`vijax.step_size`).
      estep: how the model treats its local variables (`vijax.estep`); None takes the model's default.
      geometry: the proximal step (`vijax.geometry`).
      ramp: N_t (`vijax.step_size`); None is N.
      learn: names of `model.hyper` to learn, by gradient steps on the objective in their logarithms.
      hyper_optimizer: the optax optimiser of those steps; None is Adam at rate 0.01.
      penalty_every: evaluate the penalty of the reported objective every so many steps: no step needs it, and for a
        large posterior it costs as much as drawing from it. Every step where hyperparameters are learnt.
      num_groups: N, needed only to hand `step` bare data that are part of a larger set.
      full_data: bare data given to `step` are the whole set.
      sequential: update the model's blocks of globals one after the other, each at the others' latest values, as
        coordinate ascent must where the joint density couples them; otherwise a step updates all at once.
      **unknown: nothing; names that are none of the above are errors that say which are.

    Raises:
      TypeError: an argument that there is not.
      ValueError: `model` is no `vijax.Model`, `estep` is not of the kind that it reads, `step_size` is no schedule,
        `learn` names what is no hyperparameter of the model, `penalty_every` is below 1, or maximum likelihood is asked
        of a model whose globals have priors that depend on each other, or of globals that it does not determine
        (`Model.needs_prior`).
    """
    check_names(unknown, set(inspect.signature(compose).parameters) - {"unknown", "message"})
    check_model(model)
    check_estep(model, estep)
    check_schedule(step_size, geometries.takes_beta(geometry))
    require_integers(penalty_every=penalty_every)
    check_message(model, message)
    strange = sorted(set(learn) - set(model.hyper))
    if strange:
        raise ValueError(f"learn: expected names among {sorted(model.hyper)}, got {strange}.")
    estep = model.estep if estep is None else estep
    every = 1 if learn else penalty_every
    spec = Spec(
        model=model,
        message=message,
        estep=estep,
        geometry=geometry,
        step_size=step_size,
        ramp=ramp or no_ramp(),
        learn=tuple(learn),
        penalty_every=every,
        num_groups=num_groups,
        full_data=full_data,
        sequential=sequential,
    )
    optimizer = hyper_optimizer or optax.adam(0.01)
    return Algorithm(_init(spec, optimizer), _step(spec, optimizer), spec)


def _init(spec: Spec, optimizer: optax.GradientTransformation) -> Callable[..., State]:
    def init(key: PRNGKeyArray, batch: Any = None) -> State:
        model = spec.model
        batch = None if batch is None else as_minibatch(batch, spec.num_groups, spec.full_data)
        hyper = {name: jnp.asarray(value) for name, value in model.hyper.items()}
        posterior = model.init(hyper, key, spec.message.prior(model.prior(hyper)), batch)
        # Locals of other groups would be no start: they are carried only where every batch is the same, the whole set.
        start = model.init_local if spec.full_data and batch is not None else None
        start = start if start is not None and is_whole(batch) else None
        return State(
            posterior=posterior,
            hyper=hyper,
            opt_state=optimizer.init(log_hyper(hyper, spec.learn)),
            penalty=jnp.zeros((), jax.tree.leaves(posterior)[0].dtype),
            local=None if start is None else start(hyper, batch),
            **fresh_counts(jax.tree.leaves(posterior)[0].dtype),
        )

    return init


def _step(spec: Spec, optimizer: optax.GradientTransformation) -> Callable[..., tuple[State, Info]]:
    def step(key: PRNGKeyArray, state: State, batch: Any) -> tuple[State, Info]:
        check_state(key, state, State)
        batch = as_minibatch(batch, spec.num_groups, spec.full_data)
        theta = log_hyper(state.hyper, spec.learn)
        prior = spec.message.prior(spec.model.prior(state.hyper))
        rho = jnp.asarray(spec.step_size(state.step), state.penalty.dtype)  # a float32 state stays one under x64
        moved = _move(spec, key, state, batch, prior, rho, theta)
        penalty, penalty_grad = _penalty(spec, state, theta)
        theta_grad = tree.subtract(moved.message.theta_grad, penalty_grad)
        hyper, opt_state = ascend_hyper(optimizer, theta_grad, theta, state)
        non_finite = moved.non_finite + tree.count_non_finite((moved.message.value, theta_grad))
        ok = (non_finite == 0) & tree.all_finite((moved.posterior, hyper))
        info = _info(moved, penalty, rho, non_finite, ok)
        new = _advance(ok, state, moved.posterior, moved.local, hyper, opt_state)
        return counted(ok, state, new._replace(penalty=penalty)), info

    return step


class _Moved(NamedTuple):
    """Where a step led, before it is accepted; `message` is the first block's, of the state as it was."""

    posterior: Product
    local: PyTree
    message: Message
    retractions: Int[Array, ""]
    non_finite: Int[Array, ""]


def _move(
    spec: Spec, key: PRNGKeyArray, state: State, batch: Minibatch, prior: Product, rho: Array, theta: PyTree
) -> _Moved:
    """The proximal step, block after block of the globals."""
    posterior, local, messages, moves = state.posterior, state.local, [], []
    damped = jnp.minimum(rho, 1)  # of a beta, what it leaves of the old posterior is nothing
    non_finite = jnp.zeros((), jnp.int32)
    for block in _blocks(spec, posterior):
        key, key_global, key_local = jax.random.split(key, 3)
        bound = _scaled_bound(spec, state, batch._replace(local=local), key_local)
        message = spec.message.estimate(key_global, posterior, prior, damped, bound, theta)
        old, base, own = posterior.only(block), prior.only(block), message.natural.only(block)
        proposal = spec.geometry(old, tree.add(base, own), rho)
        moved = geometries.retract(proposal, old, _retreat(spec, old, base), rho)
        posterior = posterior.replace(moved.posterior)
        local = None if local is None else message.aux.local
        messages.append(message)
        moves.append(moved.retractions)
        non_finite = non_finite + tree.count_non_finite(own)
    return _Moved(posterior, local, messages[0], functools.reduce(jnp.add, moves), non_finite)


def _retreat(spec: Spec, old: Product, base: Product) -> Product:
    """The prior; of globals whose prior is flat, which is no place to retreat to, where they are: under maximum
    likelihood an empty class stays."""
    if not spec.message.forgets_prior:
        return base
    return Product({name: tree.select(is_proper(base[name]), base[name], q) for name, q in old.items()})


def _blocks(spec: Spec, posterior: Product) -> tuple[tuple[str, ...], ...]:
    blocks = spec.model.blocks
    return blocks if spec.sequential and blocks is not None else (tuple(posterior),)


def _scaled_bound(spec: Spec, state: State, batch: Minibatch, key: PRNGKeyArray) -> Callable:
    """(stats, theta) -> (N_t / S) l, and what the model said."""

    def bound(stats: PyTree, theta: PyTree) -> tuple[Float[Array, ""], LocalElbo]:
        hyper = {**state.hyper, **jax.tree.map(jnp.exp, theta)}
        said = spec.model.local_elbo(hyper, stats, batch, key, spec.estep)
        total = said.num_groups if batch.num_groups is None else jnp.asarray(batch.num_groups, said.total.dtype)
        # A batch of padding alone says nothing, rather than 0/0.
        scale = spec.ramp(state.step, total, said.num_groups) / jnp.maximum(said.num_groups, 1)
        coupling = spec.model.global_elbo
        return scale * said.total + (0.0 if coupling is None else coupling(hyper, stats)), said

    return bound


def _penalty(spec: Spec, state: State, theta: PyTree) -> tuple[Float[Array, ""], PyTree]:
    """What the objective subtracts, and its gradient in the learnt hyperparameters."""

    def penalty(theta: PyTree) -> Float[Array, ""]:
        hyper = {**state.hyper, **jax.tree.map(jnp.exp, theta)}
        return spec.message.penalty(state.posterior, spec.model.prior(hyper))

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


def _advance(
    ok: Bool[Array, ""], state: State, posterior: Product, local: PyTree, hyper: Hyper, opt_state: PyTree
) -> State:
    """The new state, or the last good one."""
    posterior, local, hyper, opt_state = tree.select(
        ok, (posterior, local, hyper, opt_state), (state.posterior, state.local, state.hyper, state.opt_state)
    )
    return state._replace(posterior=posterior, hyper=hyper, opt_state=opt_state, local=local)


def _info(moved: _Moved, penalty: Array, rho: Array, non_finite: Array, ok: Array) -> Info:
    message, retractions = moved.message, moved.retractions
    said: LocalElbo = message.aux
    retractions = retractions if said.retractions is None else retractions + said.retractions
    return Info(
        elbo=message.value - penalty,
        local_elbo=said.total,
        per_group=said.per_group,
        num_groups=said.num_groups,
        penalty=penalty,
        step_size=rho,
        retractions=jnp.where(ok, retractions, 0),
        non_finite=non_finite,
        result=jnp.where(ok, Result.OK, Result.SKIPPED),
        num_words=said.num_words,
    )

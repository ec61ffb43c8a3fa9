"""One step, composed of choices for each global: estimand, estimator, update; and of an E-step and
step sizes.

    lambda <- update(lambda, eta + (N_t / S) sum_n m_n)

`compose` is the only place where an algorithm is built. The algorithms of the literature are calls
of it with named arguments (`vijax.algorithms`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from vijax import tree
from vijax.checks import require, require_integers
from vijax.contract import describe
from vijax.contract.batch import Minibatch, one_group
from vijax.contract.intake import cast_data
from vijax.contract.model import Hyper, LocalElbo, Model
from vijax.contract.per_variable import PerVariable, check_names, per_variable
from vijax.families import Product
from vijax.inference import compatibility
from vijax.inference.bound import add_context, batch_reads, first_bad, gradient_through_context
from vijax.inference.estimand import Estimand, distribution
from vijax.inference.estimator import Estimator
from vijax.inference.learning import Learn, ascend, check_learnt, evaluate_penalty, free_points
from vijax.inference.messages import Messages, scaled
from vijax.inference.move import StepResult, move
from vijax.inference.spec import Blocks, Spec, StepSize
from vijax.inference.state import Info, Result, State, check_state
from vijax.inference.step_size import Ramp, backtracking, by_share, check_schedule, no_ramp
from vijax.inference.stopping import UNSEEN, watch
from vijax.inference.update import Update
from vijax.inference.update.descend import ADAM
from vijax.xla import by_value, ordering
from vijax.xla.lapack import guard_lapack
from vijax.xla.random_bits import fused_key

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
GIVE_SIZE = (
    "Wrap the data, Minibatch(data, num_groups=N), or the algorithm: vijax.part_of(alg, N), or "
    "vijax.whole(alg) where the data are all there are. The rows take num_groups=N."
)
DEAL = (
    "vijax.data.minibatches(corpus, batch_size, seed) deals batches of documents; vijax.fit deals "
    "them by itself."
)


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
    estimands = per_variable("estimand", estimand, distribution(), Estimand, "vijax.estimand")
    estimators = per_variable("estimator", estimator, None, Estimator, "vijax.estimator")
    updates = per_variable("update", update, None, Update, "vijax.update")
    _check_global_names(model, estimand=estimands, estimator=estimators, update=updates)
    compatibility.check_weighted_globals(model, estimators)
    estimands, estimators, updates = compatibility.fill_defaults(
        model, estimands, estimators, updates
    )
    if not isinstance(step_size, backtracking | by_share):
        check_schedule(step_size, {choice.size for choice in updates.choices()})
    require_integers(penalty_every=1 if penalty_every is None else penalty_every)
    compatibility.check_estimands(model, estimands)
    compatibility.check_site_choices(model, estimands, estimators)
    learnt = learn if isinstance(learn, Learn) else Learn(tuple(learn))
    check_learnt(model, learnt.names)
    is_rule = isinstance(messages, Messages | None)
    require(is_rule, "messages", "one of vijax.messages, such as by_part(10)", repr(messages))
    if blocks is not None and blocks != model.blocks:
        compatibility.check_blocks(model, blocks)
    spec = Spec(
        name=name,
        model=model,
        estimand=estimands,
        estimator=estimators,
        update=updates,
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


def _check_global_names(model: Model, **choices: PerVariable[Any]) -> None:
    """Raises ValueError at a choice, given by argument, for a name that is no global."""
    if not any(choice.named for choice in choices.values()):
        return
    globals_ = list(jax.eval_shape(model.prior, dict(model.hyper)))
    for argument, choice in choices.items():
        check_names(argument, choice, globals_)


def build_algorithm(spec: Spec) -> Algorithm:
    """The algorithm of choices that were checked."""
    return Algorithm(_build_function(_Init, spec), _build_function(_Step, spec), spec)


@dataclasses.dataclass(frozen=True)
class _SpecFunction:
    """A function of an algorithm. Equal choices for one model share one object, also after
    pickling."""

    spec: Spec

    def __reduce__(self) -> tuple:
        return _build_function, (type(self), self.spec)

    def _batch(self, batch: Any) -> Minibatch:
        """The batch as the model reads it. A model for given data fills in their N, because the
        batch may hold only some of the groups."""
        model = self.spec.model
        form = model.form
        total = None if form.num_groups is None else float(form.num_groups)
        if not isinstance(batch, Minibatch):
            knows_size = form.one_group or total is not None
            expected = "a vijax.Minibatch, which knows the size N of the whole data set"
            require(knows_size, "batch", expected, "bare data", GIVE_SIZE)
            batch = Minibatch(one_group(batch) if form.one_group else batch, total)
        reader = getattr(batch.data, "read_by", None)
        remedy = f"They are for {reader}."
        expected = "data as the model reads them"
        require(reader is None, "batch", expected, type(batch.data).__name__, remedy)
        if form.documents is not None:
            actual = type(batch.data).__name__
            if hasattr(batch.data, "shape"):
                actual = f"an array of shape {jnp.shape(batch.data)}"
            is_tuple = isinstance(batch.data, tuple | list)
            require(is_tuple, "batch", "a tuple of vijax.Documents", actual, DEAL)
        size = total if batch.num_groups is None else batch.num_groups
        return batch._replace(data=cast_data(model, batch.data), num_groups=size)


def _build_function(kind: type[_SpecFunction], spec: Spec) -> Any:
    return by_value.intern(spec.model, kind(spec))


class _Init(_SpecFunction):
    """`Algorithm.init`."""

    def __call__(self, key: PRNGKeyArray, batch: Any = None, hyper: Hyper | None = None) -> State:
        spec, model = self.spec, self.spec.model
        batch = None if batch is None else self._batch(batch)
        hyper = tree.as_arrays({**model.hyper, **(hyper or {})})
        posterior = model.init(hyper, key, spec.start(hyper), batch)
        return initial_state(spec, hyper, add_context(model, hyper, posterior))


def initial_state(spec: Spec, hyper: Hyper, posterior: Product) -> State:
    """The state of step 0 at a posterior. All its memories are empty."""
    dtype = jnp.result_type(*jax.tree.leaves(posterior)[:1] or [float])
    return State(
        posterior=posterior,
        memory={name: spec.update.choice(name).init(q) for name, q in posterior.items()},
        hyper=hyper,
        opt_state=(spec.optimizer or ADAM).init(free_points(spec.model, hyper, spec.learn)),
        step_size=jnp.zeros((), dtype),
        penalty=jnp.zeros((), dtype),
        local=None,
        messages=spec.messages.init(spec, posterior),
        step=jnp.zeros((), jnp.int32),
        bad_steps=jnp.zeros((), jnp.int32),
        num_skipped=jnp.zeros((), jnp.int32),
        checked=jnp.full(3, UNSEEN, dtype),
        watch=watch(dtype=dtype),
        data=jnp.zeros(4, jnp.uint32),
        beside={},
    )


class _Step(_SpecFunction):
    """`Algorithm.step`."""

    def __call__(self, key: PRNGKeyArray, state: State, batch: Any) -> tuple[State, Info]:
        return guard_lapack(self._step)(key, state, batch)

    def _step(self, key: PRNGKeyArray, state: State, batch: Any) -> tuple[State, Info]:
        check_state(key, state, State)
        spec, key = self.spec, fused_key(key)
        batch = self._batch(batch)
        state = state._replace(posterior=state.posterior.prepare(spec.penalty_every == 1))
        theta = free_points(spec.model, state.hyper, spec.learn)
        result = move(spec, key, state, batch, theta)
        penalty, penalty_grad = evaluate_penalty(spec, state, theta)
        if spec.learn and spec.model.by_entry is not None:
            theta_grad = gradient_through_context(spec, key, state, batch, theta)
        else:
            theta_grad = tree.subtract(result.message.theta_grad, penalty_grad)
        hyper, opt_state, too_far = ascend(spec, theta_grad, theta, state)
        if spec.learn:  # the context follows the hyperparameters
            result = result._replace(posterior=add_context(spec.model, hyper, result.posterior))
        non_finite = result.non_finite + tree.count_non_finite((result.message.value, theta_grad))
        ok = (non_finite == 0) & ~too_far & tree.all_finite((result.posterior, hyper))
        reads = batch_reads(spec, state, batch)
        bad_group = first_bad(result.message.aux.per_group, batch.weights, reads)
        info = _info(result, penalty, non_finite, bad_group, ok)
        new = _advance(ok, state, result, hyper, opt_state)
        ok = ordering.delay(ok, new.posterior)
        new = new._replace(
            penalty=penalty,
            step=state.step + 1,
            bad_steps=jnp.where(ok, 0, state.bad_steps + 1),
            num_skipped=state.num_skipped + jnp.where(ok, 0, 1),
        )
        return new, info


def _info(
    result: StepResult,
    penalty: Float[Array, ""],
    non_finite: Int[Array, ""],
    bad_group: Int[Array, ""],
    ok: Bool[Array, ""],
) -> Info:
    """The diagnostics of a step."""
    local_elbo: LocalElbo = result.message.aux
    retractions = result.retractions
    if local_elbo.retractions is not None:
        retractions = retractions + local_elbo.retractions
    return Info(
        bound=result.message.value,
        local_elbo=local_elbo.total,
        per_group=local_elbo.per_group,
        num_groups=local_elbo.num_groups,
        penalty=penalty,
        step_size=result.step_size,
        retractions=jnp.where(ok, retractions, 0),
        backtracks=result.backtracks,
        non_finite=non_finite,
        bad_group=bad_group,
        bad_variable=result.bad_variable,
        result=jnp.where(ok, Result.OK, Result.SKIPPED),
        said=local_elbo.said or {},
    )


def _advance(
    ok: Bool[Array, ""], state: State, result: StepResult, hyper: Hyper, opt_state: PyTree
) -> State:
    """The new state if the step is `ok`, else the old one."""
    new = state._replace(
        posterior=result.posterior,
        memory=result.memory,
        hyper=hyper,
        opt_state=opt_state,
        local=result.local,
        messages=result.messages,
        step_size=result.next_size,
    )
    # The memory of wrappers stays as it was: it may be large, and is neither copied nor compared.
    selected = ordering.select(ok, new._replace(beside={}), state._replace(beside={}))
    return selected._replace(beside=state.beside)

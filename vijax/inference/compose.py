"""One step, composed of choices made for each global: E-step, estimand, estimator, update, step size.

    lambda <- update(lambda, eta + (N_t / S) sum_n m_n)

`compose` is the only place where an algorithm is built; the names of the literature are rows of arguments to it
(`vijax.algorithms`).
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.checks import require_integers
from vijax.contract import describe
from vijax.contract.batch import Minibatch, as_minibatch, is_whole, one_group
from vijax.contract.intake import taken
from vijax.contract.model import Hyper, LocalElbo, Model
from vijax.contract.per_variable import PerVariable, check_known, per_variable
from vijax.families import Product
from vijax.inference import lazy as by_words
from vijax.inference.axis import Axis
from vijax.inference.bound import first_bad, in_context, reads_of
from vijax.inference.choices import (
    check_axis,
    check_estep,
    check_estimands,
    check_model,
    check_names,
    check_of_sites,
    check_parts,
    check_weighted,
    of_free,
)
from vijax.inference.estimand import Estimand, distribution
from vijax.inference.estimator import Estimator
from vijax.inference.lazy import check_lazy
from vijax.inference.learning import ascend, gradient_through_context, penalty_of
from vijax.inference.move import Moved, move
from vijax.inference.parts import unvisited
from vijax.inference.points import check_learnt, free_points
from vijax.inference.spec import Spec, StepSize
from vijax.inference.state import Info, Result, State, check_state, counted, fresh_counts
from vijax.inference.step_size import Ramp, backtracking, by_share, check_schedule, no_ramp
from vijax.inference.update import Update
from vijax.inference.update.descend import ADAM
from vijax.inference.visit import looks_ahead
from vijax.inference.warm import Visited, check_warm, remembered
from vijax.inference.warm import unvisited as unvisited_groups
from vijax.xla import by_value, in_turn
from vijax.xla.generator import in_one_piece

ByName = Mapping[str, Any] | PerVariable[Any]


class Algorithm(NamedTuple):
    """A pure algorithm: jit, scan, vmap or shard its functions as you like.

    Attributes:
      init: (key, batch=None, hyper=None) -> `State`; the batch (as in `step`) is needed by models whose start depends
        on data; values of points in `hyper` stand in the place of the model's own.
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
    penalty_every: int | None = None,
    num_groups: float | None = None,
    full_data: bool = False,
    sequential: bool = False,
    num_parts: int | None = None,
    average_after: int | None = None,
    warm_starts: bool = False,
    lazy: bool = False,
    active_topics: int | None = None,
    left_out: float = 0.0,
    axis: str | None = None,
    name: str = "compose",
    **unknown: Any,
) -> Algorithm:
    """Any algorithm of the design.

    What is sought of a global, how its message is estimated and how it moves are chosen once for all globals, or for
    some by name: `update={"topics": vi.update.kl(), "rate": vi.update.descend(optax.adam(0.01))}`.

    Args:
      model: what is inferred.
      estimand: what is sought (`vijax.estimand`); None, and globals that a dict does not name, a distribution.
      estimator: how the natural gradient of the local bound is estimated (`vijax.estimator`); None is `mean_field()`,
        of free variables `least_squares()`.
      update: how a global moves (`vijax.update`); None is `kl()`, the natural-gradient step, of free variables
        `within(1.0)`. Free variables whose guide is no exponential family have `reparameterised()` and `descend()`.
      step_size: rho_t, or beta_t where the updates read that (`vijax.step_size`); or `vijax.step_size.backtracking()`,
        for full data.
      estep: how the model treats its local variables (`vijax.estep`); None takes the model's default.
      ramp: N_t (`vijax.step_size`); None is N.
      learn: names of `model.hyper` to learn, by gradient steps on the objective in free coordinates: logarithms, unless
        `model.constraints` says otherwise. A step to infinity, or of a positive point to zero, is skipped.
      hyper_optimizer: the optax optimiser of those steps, which sees a dict of them by name, so that
        `optax.multi_transform` can tell them apart; None is Adam at rate 0.01.
      penalty_every: evaluate the penalty of the reported objective every so many steps: no step needs it, and for a
        large posterior it costs as much as drawing from it. None is every step; of a lazy algorithm about once a pass
        over the data, which `vijax.inference.lazy` bounds by its cost. Every step where hyperparameters are learnt,
        unless it is lazy.
      num_groups: N, needed only to hand `step` bare data that are part of a larger set.
      full_data: bare data given to `step` are the whole set.
      sequential: update the model's blocks of globals one after the other, each at the others' latest values, as
        coordinate ascent must where the joint density couples them; otherwise a step updates all at once.
      num_parts: remember a message for each of so many parts of the data (`vijax.memoized`, which says more).
      average_after: keep the mean of the posteriors of the steps from this one on, for `Fit.average`.
      warm_starts: begin the E-step of each group where it ended when the group was last seen. The state then holds the
        locals of all N groups, of LDA N x K numbers. For models whose E-step climbs to a fixed point: topics by
        `mean_field` or `cvb0`, correlated topics, factorial HMMs and other energies with coupled locals. What it saves
        is in benchmarks/README.md.
      lazy: take steps whose cost is that of the batch's own words, not of all V: exactly the same steps, for topics
        (`lda`, `ctm`, `simple_mixture`) by `svi`, and the same in law by `ssvi_a`. Worth it where a batch holds less
        than half of the vocabulary; figures are in benchmarks/README.md. Batches must say which words they hold, as
        those of `vijax.fit` do (`vijax.inference.lazy.renumbered`). The state keeps a
        `vijax.families.discrete.by_word.DirichletByWord`.
      active_topics: with `lazy`, hold each document of `lda` to so many topics at a step (Hughes and Sudderth 2016):
        those to which a first round at the mean topics gives most of its words. Draws and messages are then of the
        pairs of its words and these alone; the first round alone looks at all topics. Exact where it is K.
        `Info.left_out` says what share of the words that first round gave to other topics.
      left_out: with `active_topics`, no document uses more of these than leave this share of its words to others by
        that first round, which spreads words widely: 0.5 is no small share. 0: all of them. `Info.active_topics` says
        how many topics documents used.
      axis: name of the mesh axis over which the groups of a batch are split, where `step` runs inside `jax.shard_map`:
        key and state whole on every device, the batch split, N given (`Minibatch.num_groups`). The step sums values,
        gradients or messages, and counts over it. What it returns is the same on every device, but for
        `Info.per_group` and locals, which are each device's own: where a state has locals, `State.local` is split as
        the batch is. Start outside, `init(key, batch)` on the whole batch: a start may depend on the data. E-steps that
        draw locals draw others on each device, so that their noise depends on the number of devices.
      name: what the algorithm is called.
      **unknown: nothing; names that are none of the above are errors that say which are.

    Raises:
      TypeError: an argument that there is not.
      ValueError: `model` is no `vijax.Model`, a choice is not of its kind or for a name that is no global, `estep` is
        not of the kind that the model reads, `step_size` is no schedule, `learn` names what is no point of the model or
        does not satisfy its constraint, `penalty_every` is below 1, `average_after` below 0, draws or a point are asked
        of the predictors of a GP or GLM, `warm_starts` of a model or E-step that has nothing to go on from, or beside
        `num_parts` or `axis`, `lazy` where a step would move all words, an update of several steps or a model whose
        data are one group is given with `axis`, or maximum likelihood is asked of a model whose globals have priors
        that depend on each other, or of globals that it does not determine (`Model.needs_prior`).
    """
    check_names(unknown, set(inspect.signature(compose).parameters) - {"unknown", "name"})
    check_model(model)
    check_estep(model, model.estep if estep is None else estep)
    estimands = per_variable("estimand", estimand, distribution(), Estimand, "vijax.estimand")
    estimators = per_variable("estimator", estimator, None, Estimator, "vijax.estimator")
    updates = per_variable("update", update, None, Update, "vijax.update")
    _check_variables(model, estimand=estimands, estimator=estimators, update=updates)
    check_weighted(model, estimators)
    estimands, estimators, updates = of_free(model, estimands, estimators, updates)
    if not isinstance(step_size, backtracking | by_share):
        check_schedule(step_size, {choice.size for choice in updates.choices()})
    require_integers(penalty_every=1 if penalty_every is None else penalty_every)
    require_integers(0, average_after=0 if average_after is None else average_after)
    check_estimands(model, estimands)
    check_of_sites(model, estimands, estimators)
    check_learnt(model, learn)
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
        penalty_every=penalty_every if lazy else 1 if learn else penalty_every or 1,
        num_groups=num_groups,
        full_data=full_data,
        sequential=sequential,
        num_parts=num_parts,
        average_after=average_after,
        warm_starts=warm_starts,
        lazy=lazy,
        active_topics=active_topics,
        left_out=left_out,
        axis=Axis(axis),
    )
    check_parts(spec)
    check_axis(spec)
    check_warm(spec)
    check_lazy(spec)
    init, step = (_of_choices(kind, spec, hyper_optimizer) for kind in (_Init, _Step))
    return Algorithm(init, step, spec)


def _check_variables(model: Model, **chosen: PerVariable) -> None:
    """ValueError at choices for what is no global; the model's prior is looked at only where there may be any."""
    if any(choice.named for choice in chosen.values()):
        names = list(jax.eval_shape(model.prior, dict(model.hyper)))
        for argument, choice in chosen.items():
            check_known(argument, choice, names)


@dataclasses.dataclass(frozen=True)
class _OfChoices:
    """A function of an algorithm. Of one model and equal choices there is one, also where it comes out of a pickle."""

    spec: Spec
    optimizer: optax.GradientTransformation | None

    def __reduce__(self) -> tuple:
        return _of_choices, (type(self), self.spec, self.optimizer)

    def _batch(self, batch: Any) -> Minibatch:
        """Of known size where the model knows N: some of its groups are not all of them."""
        if self.spec.model.form.one_group and not isinstance(batch, Minibatch):
            return Minibatch(taken(self.spec.model, one_group(batch)), None)
        given = as_minibatch(batch, self.spec.num_groups, self.spec.full_data)
        given = given._replace(data=taken(self.spec.model, given.data))
        known = given.num_groups is not None or self.spec.model.form.num_groups is None
        return given if known else given._replace(num_groups=float(self.spec.model.form.num_groups or 0))


def _of_choices(kind: type[_OfChoices], spec: Spec, optimizer: optax.GradientTransformation | None) -> Any:
    return by_value.of(spec.model, kind(spec, optimizer))


class _Init(_OfChoices):
    """`Algorithm.init`."""

    def __call__(self, key: PRNGKeyArray, batch: Any = None, hyper: Hyper | None = None) -> State:
        spec, model = self.spec, self.spec.model
        batch = None if batch is None else by_words.of_all_words(self._batch(batch))
        hyper = tree.as_arrays({**model.hyper, **(hyper or {})})
        posterior = in_context(model, hyper, model.init(hyper, key, spec.start(hyper), batch))
        dtype = jnp.result_type(*jax.tree.leaves(posterior)[:1] or [float])
        # Locals of other groups would be no start: they are carried only where every batch is the same, the whole set.
        whole = spec.full_data and batch is not None and is_whole(batch)
        return State(
            posterior=by_words.stored(spec, hyper, posterior) if spec.lazy else posterior,
            memory={name: spec.update.of(name).init(q) for name, q in posterior.items()},
            hyper=hyper,
            opt_state=(self.optimizer or ADAM).init(free_points(model, hyper, spec.learn)),
            step_size=jnp.zeros((), dtype),
            penalty=jnp.zeros((), dtype),
            local=_locals(spec, hyper, batch, whole),
            average=None if spec.average_after is None else tree.scale(0.0, _bare(posterior)),
            parts=None if spec.num_parts is None else unvisited(posterior, spec.num_parts, looks_ahead(spec)),
            **fresh_counts(dtype),
        )


def _locals(spec: Spec, hyper: Hyper, batch: Minibatch | None, is_all: bool) -> PyTree:
    """What the state keeps of locals."""
    if spec.warm_starts:
        return unvisited_groups(spec, hyper, batch)
    begin = spec.model.locals.start if spec.model.locals.carried else None
    return begin(hyper, batch) if begin is not None and batch is not None and is_all else None


class _Step(_OfChoices):
    """`Algorithm.step`."""

    def __call__(self, key: PRNGKeyArray, state: State, batch: Any) -> tuple[State, Info]:
        check_state(key, state, State)
        spec, key = self.spec, in_one_piece(key)
        batch = self._batch(batch)
        by_words.check_seen(spec, state, batch)
        spec.axis.check_local(state.local, batch.data)
        if not spec.lazy:
            return self._taken(key, state, batch)
        penalty, whole = by_words.penalty(spec, state, batch)
        seen = by_words.of_batch(spec, whole, batch)
        new, info = self._taken(key, seen.state, seen.batch, penalty)
        return by_words.put_back(spec, whole, new, info, seen), info

    def _taken(
        self, key: PRNGKeyArray, state: State, batch: Minibatch, known: Float[Array, ""] | None = None
    ) -> tuple[State, Info]:
        """The step, of a state that a batch sees all of; `known` is the penalty where it sees but a part."""
        spec = self.spec
        state = state._replace(posterior=state.posterior.prepared(spec.penalty_every == 1))
        theta = free_points(spec.model, state.hyper, spec.learn)
        moved = move(spec, key, state, batch, theta)
        penalty, penalty_grad = penalty_of(spec, state, theta)
        penalty = penalty if known is None else known
        if spec.learn and spec.model.by_entry is not None:
            theta_grad = gradient_through_context(spec, key, state, batch, theta)
        else:
            theta_grad = tree.subtract(moved.message.theta_grad, penalty_grad)
        hyper, opt_state, too_far = ascend(spec, self.optimizer or ADAM, theta_grad, theta, state)
        if spec.learn:  # the posterior follows a prior that changed
            moved = moved._replace(posterior=in_context(spec.model, hyper, moved.posterior))
        non_finite = moved.non_finite + tree.count_non_finite((moved.message.value, theta_grad))
        ok = (non_finite == 0) & ~too_far & tree.all_finite((moved.posterior, hyper))
        bad_group = first_bad(spec, moved.message.aux, batch, reads_of(spec, state, batch))
        info = _info(moved, penalty, non_finite, ok, bad_group)
        new = _advance(ok, state, moved, hyper, opt_state)
        if spec.warm_starts:  # row by row: the table of all groups is neither copied nor compared
            new = new._replace(local=remembered(state.local, batch, moved.local, ok))
        new = new._replace(penalty=penalty, average=_averaged(spec, state, new.posterior))
        return counted(in_turn.after(ok, new.posterior), state, new), info


def _averaged(spec: Spec, state: State, posterior: Product) -> Product | None:
    """The running mean of the posteriors, in natural parameters."""
    if spec.average_after is None:
        return None
    count = jnp.maximum(state.step - spec.average_after + 1, 1).astype(state.step_size.dtype)
    return tree.mix(1.0 / count, state.average, _bare(posterior))


def _bare(q: Product) -> Product:
    """Without its context, of which the posterior's own is enough: a kernel is as large as all else."""
    return q.with_context(dict.fromkeys(q))


def _advance(ok: Bool[Array, ""], state: State, moved: Moved, hyper: Hyper, opt_state: PyTree) -> State:
    """The new state, or the last good one."""
    visited = isinstance(state.local, Visited)
    new = state._replace(
        posterior=moved.posterior,
        memory=moved.memory,
        hyper=hyper,
        opt_state=opt_state,
        local=None if visited else moved.local,
        parts=moved.parts,
        step_size=moved.next_size,
    )
    return in_turn.select(ok, new, state._replace(local=None) if visited else state)


def _info(moved: Moved, penalty: Array, non_finite: Array, ok: Array, bad_group: Array) -> Info:
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
        bad_variable=moved.bad_variable,
        result=jnp.where(ok, Result.OK, Result.SKIPPED),
        num_words=said.num_words,
        left_out=said.left_out,
        active_topics=said.active_topics,
    )

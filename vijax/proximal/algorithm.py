"""Proximal-gradient SVI: natural-gradient steps in closed form for models that are not conjugate (Khan et al. 2016, eq.
9).

    lambda <- argmin <grad f_hat(lambda_t), lambda> + h(lambda) + D(lambda || lambda_t) / beta,   -ELBO = f + h

f = -E_q[log p(y | z)] is linearised in the mean parameters, from an expectation that is exact, sampled or bounded, on
all data or a minibatch; h = KL(q || p) is kept. With D = KL the step is (1 - rho) lambda + rho (prior + message),
rho = beta / (1 + beta), for sites simply (1 - rho) (a, g) + rho message.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from vijax import safeguard, tree
from vijax.algorithm import Algorithm, ascend_hyper, compose, log_hyper
from vijax.estimator import Estimator, reparameterised
from vijax.expectation import Expectation
from vijax.families.base import require, require_integers
from vijax.likelihood import Likelihood, Moments
from vijax.model import Hyper, Model
from vijax.models.predictors import PredictorModel
from vijax.per_variable import per_variable
from vijax.proximal import objective
from vijax.proximal.batch import Batch, as_batch
from vijax.proximal.messages import count_non_finite, first_bad
from vijax.proximal.moves import mover
from vijax.proximal.retraction import Trial
from vijax.proximal.state import PGInfo, PGState, Spec
from vijax.sites import Factor, Prior, Sites
from vijax.state import Result, check_state, counted, fresh_counts
from vijax.step_size import Schedule, backtracking, check_schedule, constant, robbins_monro
from vijax.update import Update, kl


def pg_svi(
    model: PredictorModel | Model,
    *,
    expectation: Expectation | None = None,
    update: Update | None = None,
    step_size: Schedule | backtracking | None = None,
    memory: bool = False,
    inner_steps: int = 1,
    mean: str = "current",
    learn: tuple[str, ...] = (),
    hyper_optimizer: optax.GradientTransformation | None = None,
    penalty_every: int = 1,
    average_after: int | None = None,
    **choices: Any,
) -> Algorithm:
    """Proximal-gradient SVI (Khan et al. 2016, eq. 9, 19; appendices D and E).

    Args:
      model: of Gaussian predictors (`vijax.models.gp`, `glm`), whose posterior is prior plus sites; or any
        `vijax.Model`, whose message is then that of `vijax.estimator.reparameterised`.
      expectation: E_q[log p(y | z)] and its derivatives (`vijax.expectation`); None takes the model's own.
      update: how q moves (`vijax.update`): a proximal step in some divergence D; None is `kl()`.
      step_size: rho_t (`vijax.step_size`, `proximal(beta)` for a given beta), or `backtracking()`, the default on
        full data, whose steps never lower the ELBO. With minibatches the default moves the batch's sites a third of the
        way to their messages: rho = 1/3 with `memory`, else (S/N)/3, decaying as (1 + passes)^-0.6.
      memory: keep every site's last message and replace those of the batch, instead of estimating all of them from the
        batch; the noise then vanishes at the optimum, and large steps with small batches converge.
      inner_steps: with `memory`, how many steps of size rho to take on the batch's sites, the others held, before the
        whole posterior is factorised again (`vijax.proximal.block`). Measured on GP classification with batches
        of 5, a gap of 1e-3 after 3 or 4 passes, where full-data steps take 9 (ionosphere) and 28 (sonar).
      mean: "current" linearises f in the mean parameters (natural gradient); "exact" in (m, V), the exact-m form of
        appendix D, which has the same fixed points and is undamped while the sites are weak.
      learn: names of `model.hyper` to learn, by gradient steps on the bound in their logarithms.
      hyper_optimizer: the optax optimiser of those steps; None is Adam at rate 0.01.
      penalty_every: evaluate KL(q || p) for the reported ELBO every so many steps; with small batches it costs more
        than the step. Every step where hyperparameters are learnt.
      average_after: keep the mean of the sites of the steps from this one on, in `state.average`.
      **choices: for a `vijax.Model`, the other arguments of `compose`.

    Returns:
      An `Algorithm` whose `step` is pure and reads `model.data`, or a `Minibatch` of its rows. Posterior: `Sites`.

    Raises:
      ValueError: an argument that makes no sense; at a step, a batch of the wrong size.

    >>> import numpy as np, vijax as vi
    >>> x, y = np.linspace(-2.0, 2.0, 9)[:, None], np.sign(np.linspace(-2.0, 2.0, 9) + 0.1)
    >>> model = vi.models.glm(x, y, vi.likelihood.bernoulli_logit())
    >>> fit = vi.fit(vi.pg_svi(model), model.data, num_steps=20, key=jax.random.key(0))
    >>> bool(np.all(np.diff(fit.trace["elbo"]) > -1e-5))
    True
    """
    if isinstance(model, Model):
        own: dict[str, tuple[Any, Any]] = {
            "expectation": (expectation, None),
            "memory": (memory, False),
            "inner_steps": (inner_steps, 1),
            "mean": (mean, "current"),
            "average_after": (average_after, None),
        }
        for name, (given, unset) in own.items():
            require(given == unset, name, "it left out for a vijax.Model, which has no sites", given)
        return compose(
            model,
            estimator=per_variable(
                "estimator", choices.pop("estimator", None), reparameterised(), Estimator, "vijax.estimator"
            ),
            update=update,
            step_size=step_size or robbins_monro(),
            learn=learn,
            hyper_optimizer=hyper_optimizer,
            penalty_every=penalty_every,
            **{"name": "pg_svi", **choices},
        )
    require(isinstance(model, PredictorModel), "model", "a vijax.Model, gp or glm", type(model).__name__)
    known = [name for name in inspect.signature(pg_svi).parameters if name not in ("model", "choices")]
    require(not choices, ", ".join(choices), f"one of pg_svi's arguments for gp and glm, {known}", "another name")
    require(mean in ("current", "exact"), "mean", "'current' or 'exact'", mean)
    require(not (memory and mean == "exact"), "mean", "'current' where memory=True", mean)
    require_integers(inner_steps=inner_steps)
    moves = update or kl()
    require(
        isinstance(moves, Update) and moves.size != "none", "update", "a proximal step of vijax.update", repr(moves)
    )
    plain = memory and moves == kl()
    require(inner_steps == 1 or plain, "inner_steps", "1, unless memory=True with KL divergence", inner_steps)
    if step_size is not None and not isinstance(step_size, backtracking):
        check_schedule(step_size, {moves.size})
    require_integers(penalty_every=penalty_every)
    require(set(learn) <= set(model.hyper), "learn", f"names among {sorted(model.hyper)}", learn)
    spec = Spec(
        model,
        expectation or model.expectation,
        moves,
        step_size,
        memory,
        inner_steps,
        mean,
        tuple(learn),
        1 if learn else penalty_every,
        average_after,
    )
    optimizer = hyper_optimizer or optax.adam(0.01)
    return Algorithm(_init(spec, optimizer), _step(spec, optimizer), spec)  # type: ignore[arg-type]


def _init(spec: Spec, optimizer: optax.GradientTransformation) -> Callable[..., PGState]:
    def init(key: PRNGKeyArray, batch: Any = None) -> PGState:
        """q = p: all sites zero. Neither argument matters."""
        del key, batch
        hyper = {name: jnp.asarray(value) for name, value in spec.model.hyper.items()}
        prior = spec.model.prior(hyper)
        dtype = jnp.result_type(jax.tree.leaves(prior)[-1])  # in every form an array of floats comes last
        zero = jnp.zeros((), dtype)
        n = spec.model.num_sites
        average = None if spec.average_after is None else Sites.zeros(n, dtype)
        return PGState(
            posterior=Sites.zeros(n, dtype),
            average=average,
            prior=prior,
            hyper=hyper,
            opt_state=optimizer.init(log_hyper(hyper, spec.learn)),
            step_size=zero,
            penalty=zero,
            **fresh_counts(dtype),
        )

    return init


def _step(spec: Spec, optimizer: optax.GradientTransformation) -> Callable[..., tuple[PGState, PGInfo]]:
    def step(key: PRNGKeyArray, state: PGState, batch: Any) -> tuple[PGState, PGInfo]:
        check_state(key, state, PGState)
        batch = as_batch(batch, spec.model, state.posterior.linear.dtype)
        factor = state.prior.condition(state.posterior)
        moments, m = _moments(spec, state.hyper, state.prior, factor, batch, key)
        move = mover(spec, state, batch, factor, moments, m, key)
        trial, backtracks, next_rho = _sized(spec, state, batch, key, move)
        penalty = objective.penalty(spec, state, factor)
        learnt = _learnt(spec, optimizer, state, batch, key)
        # A safeguard refuses every trial of a NaN message and stays: the moments tell, not where the step led.
        non_finite = count_non_finite(batch, moments) + learnt.non_finite
        ok = (non_finite == 0) & tree.all_finite((trial.sites, penalty, learnt.hyper, learnt.prior))
        info = _info(batch, moments, penalty, trial, backtracks, non_finite, ok)
        next_rho = jnp.where(ok, next_rho, state.step_size)
        new = _advance(spec, state, ok, trial, learnt)
        return counted(ok, state, new._replace(step_size=next_rho, penalty=penalty)), info

    return step


def _moments(
    spec: Spec, hyper: Hyper, prior: Prior, factor: Factor, batch: Batch, key: PRNGKeyArray
) -> tuple[Moments, Array]:
    """Of the batch's sites, and the means at which they were taken."""
    m, v = prior.marginals(factor, batch.rows)
    lik: Likelihood = spec.model.likelihood(hyper)
    return spec.expectation(lik, batch.y, m, v, key), m


def _sized(
    spec: Spec, state: PGState, batch: Batch, key: PRNGKeyArray, move: Callable[[Array], Trial]
) -> tuple[Trial, Array, Array]:
    """The step at the size the rule finds; how many trials it refused; where its next search starts."""
    rule = spec.step_size or _default_rule(spec, batch)
    if not isinstance(rule, backtracking):
        rho = jnp.asarray(rule(state.step), state.step_size.dtype)
        return move(rho), jnp.int32(0), rho
    bound = lambda sites: objective.objective(spec, state.hyper, state.prior, sites, batch, key)
    start, first = bound(state.posterior), safeguard.first_rho(rule, state.step_size, state.step)
    serves = lambda trial: safeguard.no_lower(bound(trial.sites), start)
    stay = Trial(state.posterior, first, jnp.int32(0))
    trial, rho, refused = safeguard.backtrack(move, serves, stay, first, rule)
    return trial._replace(rho=rho), refused, safeguard.next_rho(rule, rho, refused)


def _default_rule(spec: Spec, batch: Batch) -> Schedule | backtracking:
    """By whether the batch can be all of the data, and by what a step does with it."""
    part = len(batch.rows) / spec.model.num_sites
    if part >= 1:
        return backtracking()
    if spec.memory:
        return constant(1 / 3)
    return lambda t: part / 3 * (1.0 + part * t) ** -0.6


_LEARNT = ("hyper", "opt_state", "prior")


class _Learnt(NamedTuple):
    """Hyperparameters after a step on them, with what follows from them."""

    hyper: Hyper
    opt_state: PyTree
    prior: Any
    non_finite: Int[Array, ""]


def _learnt(
    spec: Spec, optimizer: optax.GradientTransformation, state: PGState, batch: Batch, key: PRNGKeyArray
) -> _Learnt:
    """One ascent step in the logarithms of the learnt hyperparameters, at fixed sites."""
    if not spec.learn:
        return _Learnt(state.hyper, state.opt_state, state.prior, jnp.zeros((), jnp.int32))
    theta = log_hyper(state.hyper, spec.learn)

    def bound(theta: PyTree) -> Float[Array, ""]:
        hyper = {**state.hyper, **jax.tree.map(jnp.exp, theta)}
        return objective.objective(spec, hyper, spec.model.prior(hyper), state.posterior, batch, key)

    slope = jax.grad(bound)(theta)
    hyper, opt_state = ascend_hyper(optimizer, slope, theta, state)  # type: ignore[arg-type]
    return _Learnt(hyper, opt_state, spec.model.prior(hyper), tree.count_non_finite(slope))


def _advance(spec: Spec, state: PGState, ok: Array, trial: Trial, learnt: _Learnt) -> PGState:
    """The new state, or the last good one."""
    if spec.learn:
        learnt = tree.select(ok, learnt, learnt._replace(**{name: getattr(state, name) for name in _LEARNT}))
    sites = tree.select(ok, trial.sites, state.posterior)
    average = state.average
    if spec.average_after is not None:
        count = jnp.maximum(state.step - spec.average_after + 1, 1)
        average = tree.mix(1.0 / count.astype(trial.rho.dtype), average, sites)
    return state._replace(
        posterior=sites,
        average=average,
        prior=learnt.prior,
        hyper=learnt.hyper,
        opt_state=learnt.opt_state,
    )


def _info(
    batch: Batch,
    moments: Moments,
    penalty: Array,
    trial: Trial,
    backtracks: Array,
    non_finite: Array,
    ok: Array,
) -> PGInfo:
    local = objective.local(batch, moments)
    return PGInfo(
        elbo=batch.scale * local - penalty,
        local_elbo=local,
        per_group=moments.value,
        num_groups=jnp.sum(batch.weights),
        penalty=penalty,
        step_size=trial.rho,
        retractions=jnp.where(ok, trial.retractions, 0),
        backtracks=backtracks,
        non_finite=non_finite,
        bad_site=first_bad(batch, moments),
        result=jnp.where(ok, Result.OK, Result.SKIPPED),
    )

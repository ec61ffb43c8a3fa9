"""The algorithms by their names in the literature, each a row of arguments to
`vijax.inference.compose.compose`.

| name | estimand | estimator | step size | data |
|---|---|---|---|---|
| `em` | maximum likelihood | at the point | 1 | full, or minibatches with a schedule (online EM) |
| `map` | posterior mode | at the point | 1 | likewise |
| `cavi` | distribution | mean field | 1 | full |
| `memoized` | distribution | mean field | 1 | parts, each with a message remembered |
| `svi` | distribution | mean field | Robbins-Monro | minibatches |
| `ssvi_a` | distribution | at a draw, V = I | Robbins-Monro | minibatches |
| `ssvi` | distribution | at a draw, V (damped) | Robbins-Monro | minibatches |
| `sgrld` | draws of a Markov chain | Langevin dynamics | a/2 (1 + t/b)^-c | minibatches |
| `bam` | distribution of free variables | batch and match of scores | by odds | any density |
| `ngvi` | distribution of free variables | least squares of scores | Robbins-Monro, at most a nat | any |
| `advi` | distribution of free variables | reparameterised | an optax optimiser's | any |
| `bbvi` | distribution of free variables | score function | an optax optimiser's | any |
| `aevb` | points (networks), or distributions of their weights | reparameterised | an optax optimiser's | any |
| `pg_svi` | distribution | mean field, of Gaussian predictors; else reparameterised | backtracking | any |

Each takes the keyword arguments of `compose`. `estimand`, `estimator` and `update` may be given for
some globals by name; the other globals keep the row's own choice. The stochastic algorithms report
an estimate of the ELBO anyway, and evaluate its KL term at every tenth step; by words about once a
pass. `num_groups=N` stands for `vijax.part_of(alg, N)`. `em`, `map`, `cavi` and `pg_svi` take bare
data as the whole data set (`vijax.whole`) unless N is given. More is said by wrappers:

| wrapper | an algorithm |
|---|---|
| `vijax.part_of(alg, N)`, `vijax.whole(alg)` | to which bare data are some of N groups, or all data |
| `vijax.averaged(alg, t)` | that keeps the mean of the posteriors from step t on |
| `vijax.warm(alg)` | whose E-step begins, for each group, where its last one ended |
| `vijax.topics.by_words(alg, active, left_out)` | whose steps cost the words of their batch |
| `vijax.topics.all_words(alg)` | whose steps move all words |
| `vijax.over_axis(alg, "data")` | whose batch is split over the devices of a mesh axis |

Without `by_words` and `all_words`, `vijax.fit` decides whether `svi` and `ssvi_a` go by words
(`vijax.topics.decision.choose_steps`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from vijax.arguments import Size
from vijax.checks import require
from vijax.contract.model import Model
from vijax.contract.per_variable import PerVariable, per_variable
from vijax.families import Dirichlet
from vijax.inference.compatibility import (
    check_memory,
    check_model,
    check_no_sites,
    check_sites,
    split_by_entry,
)
from vijax.inference.compose import Algorithm
from vijax.inference.estimand import Estimand, distribution, draw, maximum_likelihood, mode
from vijax.inference.estimator import Estimator, langevin, mean_field, reparameterised
from vijax.inference.estimator import ssvi as through_v
from vijax.inference.estimator import ssvi_a as at_draw
from vijax.inference.expectation import Expectation
from vijax.inference.messages import by_part
from vijax.inference.spec import StepSize
from vijax.inference.step_size import (
    Ramp,
    Schedule,
    backtracking,
    by_share,
    constant,
    ramp,
    robbins_monro,
    third_of_the_way,
)
from vijax.inference.update import Update, block, exact_mean, floored, reflected, shrinkage
from vijax.inference.update.floor import GAUSSIAN
from vijax.row import full_row, row
from vijax.topics.own_words import USUAL_PENALTY_EVERY


def em(
    model: Model, *, estep: Any = None, step_size: Schedule | None = None, **choices: Any
) -> Algorithm:
    """Expectation maximisation: maximum likelihood in the globals, whose priors are ignored (Pei
    2019, section 2).

    Step size 1 on full data never decreases the bound; with minibatches give a decreasing
    `step_size` (online EM). Models with symmetric components must not start at the prior: see the
    model's `init`.

    The likelihood of Gaussian components grows without limit as one narrows onto a few
    observations, so their covariances have a floor: a thousandth of the average covariance within
    components at the start (`vijax.update.floored`). If all components stay wider, the fit is the
    same as without a floor, bit for bit; `fit.verdict` says if some do not.

    States of hidden Markov models often have few rows, and these are alike: there the average is
    worth D + 2 rows of each state with D columns (3 for variances), a penalty that the objective
    has and that vanishes as rows grow (`vijax.update.shrinkage`). `update=vijax.update.kl()` is
    plain maximum likelihood, without floor or penalty.

    `fit.estimates[name].mean()` is the estimate; `fit.posterior[name]` is the conjugate law that
    has it as its mode, and another mean."""
    choices["estimand"] = _estimand(choices, maximum_likelihood())
    prior = model.prior(dict(model.hyper)) if isinstance(model, Model) else {}
    shrinks = getattr(model, "shrinks", ())
    gaussians = [name for name, q in prior.items() if isinstance(q, GAUSSIAN)]
    updates: dict[str, Update] = {name: floored() for name in gaussians}
    updates |= {name: shrinkage() for name in gaussians if name in shrinks}
    choices.setdefault("update", updates)
    return _full("em", model, choices, estep=estep, step_size=step_size or constant())


def map(
    model: Model, *, estep: Any = None, step_size: Schedule | None = None, **choices: Any
) -> Algorithm:
    """Variational EM to the posterior mode of the globals (Hoffman and Blei 2015, section 2.5)."""
    choices["estimand"] = _estimand(choices, mode())
    return _full("map", model, choices, estep=estep, step_size=step_size or constant())


def cavi(
    model: Model,
    *,
    estep: Any = None,
    step_size: Schedule | None = None,
    **choices: Any,
) -> Algorithm:
    """Coordinate-ascent mean-field variational inference (Blei, Kucukelbir and McAuliffe 2017,
    Algorithm 1): step size 1 on full data.

    With `estimand={"x": vijax.estimand.mode()}` only the posterior mode of x is found (variational
    EM), not a distribution.

    Args:
      model: the model.
      estep: treatment of local variables (`vijax.estep`); None takes the model's own.
      step_size: rho_t; 1 never decreases the ELBO.
      **choices: the other arguments of `compose`.
    """
    choices["estimand"] = _estimand(choices, distribution())
    return _full("cavi", model, choices, estep=estep, step_size=step_size or constant())


def memoized(
    model: Model,
    num_parts: int | None = None,
    *,
    estep: Any = None,
    **choices: Any,
) -> Algorithm:
    """Incremental coordinate ascent (Neal and Hinton 1998; memoized variational inference of Hughes
    and Sudderth 2013).

    The data are cut once into parts, and a step visits one: it replaces the message of this part
    and keeps the others (see `vijax.messages.by_part`). So there is no step size, and every step
    uses all the data. Its fixed points are those of `cavi`; with the modes of all globals
    (`estimand=vijax.estimand.mode()`) it is incremental EM. It takes about a quarter of the passes
    if `cavi` takes many, the globals can be updated at once and the E-step ascends.

    From the second pass on `fit.trace["elbo"]` is the bound of all the data, exactly. It does not
    fall under mean-field E-steps if the globals can be updated at once (`model.blocks` is None or
    has one block): mixtures, topic models, hidden Markov models. If the density couples the
    globals, the bound of a part is that of its last visit. Under E-steps that sample, and under
    `cvb0`, the bound is an estimate. For a hand-written `vijax.model` it assumes that `local_elbo`
    is linear in the statistics at fixed locals; otherwise the fixed points are still right, but the
    reported bound is not.

    A fit can be resumed from its state with any key, for the data alone decide how they are cut.
    With other data, another E-step or another `num_parts` all messages start at zero, as a
    `vijax.ForgottenWarning` says, and the posterior stays.

    Args:
      model: the model.
      num_parts: number of parts. `vijax.fit` cuts the data into them, at random but always alike,
        and takes no `batch_size`. The state holds the natural parameters of the globals `num_parts`
        times, and twice that if locals are found ahead.
      estep: as for `cavi`.
      **choices: the other arguments of `compose`.

    Raises:
      ValueError: a log density, `learn`, an estimator that draws, or parts that the data cannot be
          cut into.

    >>> import jax, numpy as np, vijax as vi
    >>> y = np.concatenate([np.random.default_rng(0).normal(m, 1.0, (50, 1)) for m in (-4.0, 4.0)])
    >>> model = vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1))
    >>> fit = vi.fit(memoized(model, num_parts=5), y, num_epochs=6, key=jax.random.key(0))
    >>> print(np.sort(np.asarray(fit.posterior["components"].mean())[:, 0]).round(0))
    [-4.  4.]
    """
    expected = "a model with conjugate variables, whose messages can be remembered"
    remedy = "Nothing of a density is conjugate: use vijax.auto, vijax.ngvi or vijax.advi."
    is_density = getattr(model, "log_density", None) is not None
    require(not is_density, "model", expected, "a log density (vijax.density)", remedy)
    expected = "the number of parts that data are cut into"
    remedy = "Such as vijax.memoized(model, num_parts=10)."
    require(num_parts is not None, "num_parts", expected, "none", remedy)
    assert num_parts is not None
    choices["estimand"] = _estimand(choices, distribution())
    defaults = {
        "name": "memoized",
        "blocks": model.blocks,
        "step_size": constant(),
        "messages": by_part(num_parts),
        "estep": estep,
    }
    return row(model, defaults, choices)


def svi(
    model: Model,
    *,
    estep: Any = None,
    step_size: Schedule | None = None,
    **choices: Any,
) -> Algorithm:
    """Stochastic variational inference: mean-field natural gradients from minibatches (Blei,
    Kucukelbir and McAuliffe 2017, Algorithm 3).

    The default schedule is (t + 10)^-0.6, by measurement (`benchmarks/quality/schedules.py`)."""
    choices["estimand"] = _estimand(choices, distribution())
    schedule = step_size or robbins_monro(offset=10.0, kappa=0.6)
    return _stochastic("svi", model, choices, estep=estep, step_size=schedule)


def ssvi_a(
    model: Model,
    *,
    estep: Any = None,
    step_size: Schedule | None = None,
    **choices: Any,
) -> Algorithm:
    """Structured SVI with V approximated by the identity (Hoffman and Blei 2015, eq. 10).

    The default schedule is (t + 1)^-0.6: SSVI-A needs hundreds of updates and keeps improving while
    steps are large. On full data it wants one that holds rho near 1 first (`hold_then_decay`)."""
    choices["estimand"] = _estimand(choices, distribution())
    choices["estimator"] = _estimator(choices, at_draw(), model)
    schedule = step_size or robbins_monro(kappa=0.6)
    return _stochastic("ssvi_a", model, choices, estep=estep, step_size=schedule)


def ssvi(
    model: Model,
    *,
    estep: Any = None,
    step_size: Schedule | None = None,
    damping: float = 0.3,
    control_variate: bool = True,
    sweeps_of_ramp: float = 0.0,
    **choices: Any,
) -> Algorithm:
    """Structured SVI (Hoffman and Blei 2015, Algorithm 1): restores the dependence between globals
    and locals.

    Args:
      model: the model.
      estep: as for `cavi`.
      step_size: rho_t; by default (t + 1)^-0.6, as for SSVI-A.
      damping: tau in (1 - tau_t) I + tau_t V, tau_t = tau (1 - rho_t); see `vijax.estimator.ssvi`.
        Only tau = 1 tends to the maximum of the structured ELBO as steps decrease, but its noise
        outweighs the bias that it removes (0.08 nats per word on AP after 35 passes). For tau < 1
        the fixed point lies between those of SSVI-A and SSVI.
      control_variate: eq. (9); less noise, same expectation.
      sweeps_of_ramp: N_t = min(t, N) reaches N after this many passes (Algorithm 1); 0 switches the
          ramp off.
      **choices: the other arguments of `compose`.
    """
    choices["estimand"] = _estimand(choices, distribution())
    estimator = through_v(damping=damping, control_variate=control_variate)
    choices["estimator"] = _estimator(choices, estimator, model)
    growth: Ramp | None = ramp(sweeps_of_ramp) if sweeps_of_ramp else None
    choices.setdefault("ramp", growth)
    schedule = step_size or robbins_monro(kappa=0.6)
    return _stochastic("ssvi", model, choices, estep=estep, step_size=schedule)


def sgrld(
    model: Model, *, estep: Any = None, step_size: Schedule | None = None, **choices: Any
) -> Algorithm:
    """Stochastic gradient Riemannian Langevin dynamics of Dirichlet globals, topics above all
    (Patterson and Teh 2013, section 4): a Markov chain that draws from the posterior as steps
    decrease.

    The state holds theta in place of concentrations: topics times gamma variables of total mass
    sum(eta). So `fit.posterior["topics"].mean()` is the present draw of the topics, and
    `fit.sample` repeats this one point. The draws along the chain have the spread of the posterior.
    The average of theta over steps, normalised, tends to the posterior mean of the topics
    (`vijax.averaged(alg, t)`, `fit.average`), because topics and the mass of theta are independent. The
    reported objective is the bound of the log joint density at the draw. Under
    `vijax.estep.gibbs()`, the E-step of the paper, the chain draws from the posterior; under a
    mean-field E-step it draws from the law that the bound implies.

    Args:
      model: a model whose globals are all Dirichlet.
      estep: as for `cavi`.
      step_size: rho_t = epsilon_t / 2; by default a (1 + t/b)^-c with a = 0.01, b = 1000, c = 0.55,
        as in the authors' program.
      **choices: the other arguments of `compose`.

    Raises:
      ValueError: a global that is no Dirichlet, or a step size that is searched.

    >>> import jax, numpy as np, vijax as vi
    >>> coins = vi.model(
    ...     prior={"p": vi.Dirichlet.from_concentration([2.0, 1.0])},
    ...     local_elbo=lambda s, y, key: (y @ s["p"].log, None),
    ... )
    >>> size = vi.step_size.constant(0.1)
    >>> alg = vi.averaged(vi.sgrld(coins, num_groups=4, step_size=size), after=100)
    >>> fit = vi.fit(alg, np.eye(2)[[0, 0, 1, 0]], num_steps=4000, batch_size=4, key=jax.random.key(0))
    >>> bool(abs(fit.average["p"].mean()[0] - 5 / 7) < 0.05)
    True
    """
    check_model(model)
    prior = jax.eval_shape(model.prior, dict(model.hyper))
    unsuited = {name: type(q).__name__ for name, q in prior.items() if not isinstance(q, Dirichlet)}
    expected = "one whose globals are all Dirichlet"
    require(not unsuited, "model", expected, unsuited, "Use vijax.ssvi, or vijax.svi.")
    is_schedule = not isinstance(step_size, backtracking | by_share)
    expected = "a schedule, such as vijax.step_size.robbins_monro()"
    require(is_schedule, "step_size", expected, repr(step_size))
    choices.setdefault("estimand", draw())
    choices.setdefault("estimator", langevin())
    choices.setdefault("update", reflected())
    schedule = step_size or robbins_monro(scale=0.01 * 1000**0.55, offset=1000.0, kappa=0.55)
    return _stochastic("sgrld", model, choices, estep=estep, step_size=schedule)


def pg_svi(
    model: Model,
    *,
    expectation: Expectation | None = None,
    update: Update | Mapping[str, Update] | None = None,
    step_size: StepSize | None = None,
    memory: bool = False,
    inner_steps: Size = 1,
    mean: str = "current",
    **choices: Any,
) -> Algorithm:
    """Proximal-gradient SVI: natural-gradient steps in closed form for models that are not
    conjugate (Khan et al. 2016, eq. 9 and 19; appendices D and E).

        lambda <- argmin <grad f_hat(lambda_t), lambda> + h(lambda) + D(lambda || lambda_t) / beta,   -ELBO = f + h

    f = -E_q[log p(y | z)] is linearised in the mean parameters, from an expectation that is exact,
    sampled or bounded, on all data or a minibatch; h = KL(q || p) is kept. With D = KL the step is
    (1 - rho) lambda + rho (prior + message), rho = beta / (1 + beta). For sites it is (1 - rho) (a,
    g) + rho message.

    Args:
      model: one of Gaussian predictors (`vijax.models.gp`, `glm`), whose posterior is prior plus
        sites; or any other, whose message is then that of `vijax.estimator.reparameterised`.
      expectation: E_q[log p(y | z)] and its derivatives (`vijax.expectation`); None takes the
          model's own.
      update: the rule by which q moves (`vijax.update`): a proximal step in some divergence D; None
          is `kl()`.
      step_size: rho_t (`vijax.step_size`, `proximal(beta)` for a given beta), or `backtracking()`,
        the default on full data, whose steps never lower the ELBO. With minibatches the default
        moves the batch's sites a third of the way to their messages: rho = 1/3 with `memory`, else
        (S/N)/3, decaying as (1 + passes)^-0.6.
      memory: keep every site's last message: large steps with small batches then converge. A step
        replaces the messages of the batch, instead of estimating all messages from the batch; so
        the noise vanishes at the optimum. Globals beside the sites have no memory: they need a
        decreasing `step_size`.
      inner_steps: with memory, steps on the batch's sites before all is factorised again. They have
        size rho, and leave the other sites as they are (`vijax.update.block`).
      mean: linearise f in the mean parameters, or in (m, V) with m exact. "current" is the natural
        gradient; "exact", the exact-m form of appendix D, has the same fixed points and is undamped
        while the sites are weak.
      **choices: the other arguments of `compose`, such as `learn`.

    Raises:
      ValueError: an argument that makes no sense; at a step, a batch of the wrong size.

    >>> import jax, numpy as np, vijax as vi
    >>> x, y = np.linspace(-2.0, 2.0, 9)[:, None], np.sign(np.linspace(-2.0, 2.0, 9) + 0.1)
    >>> model = vi.models.glm(x, y, vi.likelihood.bernoulli_logit())
    >>> fit = vi.fit(vi.pg_svi(model), model.data, num_steps=20, key=jax.random.key(0))
    >>> bool(np.all(np.diff(fit.trace["elbo"]) > -1e-5))
    True
    """
    check_model(model)
    if model.by_entry is None:
        check_no_sites(
            expectation=(expectation, None),
            memory=(memory, False),
            inner_steps=(inner_steps, 1),
            mean=(mean, "current"),
        )
        choices["estimator"] = _estimator(choices, reparameterised())
        schedule = step_size or robbins_monro()
        return row(model, {"name": "pg_svi", "update": update, "step_size": schedule}, choices)
    site_names, dense_names = split_by_entry(model)
    check_sites(update, memory, inner_steps, mean)
    check_memory(memory, choices.get("estimator"), step_size, dense_names)
    expected = "it left out: expectation= says how a site is treated"
    require("estep" not in choices, "estep", expected, "it")
    choices["estimator"] = _estimator(choices, mean_field(memory=memory))
    site_update = _site_update(inner_steps, mean)
    defaults = {
        "name": "pg_svi",
        "estep": expectation,
        "update": update if site_update is None else dict.fromkeys(site_names, site_update),
        "step_size": step_size or by_share(backtracking(), a_third if memory else third_of_the_way),
    }
    return full_row(model, defaults, choices)


def _site_update(inner_steps: int, mean: str) -> Update | None:
    """The update of sites that `inner_steps` or `mean` asks for; None if neither does."""
    if inner_steps > 1:
        return block(inner_steps)
    return exact_mean() if mean == "exact" else None


def a_third(share: float) -> Schedule:
    """Step size 1/3 for any share of the data: with memory, messages are not scaled by it."""
    return constant(1 / 3)


def _estimand(choices: Mapping[str, Any], default: Estimand) -> PerVariable[Estimand]:
    """The user's estimands, completed by the row's own."""
    estimand = choices.get("estimand")
    return per_variable("estimand", estimand, default, Estimand, "vijax.estimand")


def _estimator(
    choices: Mapping[str, Any], default: Estimator, model: Model | None = None
) -> PerVariable[Any]:
    """The user's estimators, completed by the row's own (`default`). With a `model` its free
    variables, which `default` cannot serve, keep the model's own."""
    estimator = choices.get("estimator")
    estimators = per_variable("estimator", estimator, default, Estimator, "vijax.estimator")
    if model is None or not isinstance(estimator, Mapping | None):
        return estimators
    named = {**dict.fromkeys(model.free_names), **dict(estimators.named)}
    return PerVariable(default, tuple(sorted(named.items())))


def _full(name: str, model: Model, choices: dict[str, Any], **defaults: Any) -> Algorithm:
    """Coordinate ascent."""
    shared = {"name": name, "blocks": model.blocks}
    return full_row(model, {**shared, **defaults}, choices)


def _stochastic(name: str, model: Model, choices: dict[str, Any], **defaults: Any) -> Algorithm:
    shared = {"name": name, "penalty_every": USUAL_PENALTY_EVERY}
    return row(model, {**shared, **defaults}, choices)

"""Linear response: posterior covariances from how a mean-field fit moves when the log joint is
tilted.

*Conjugate models* (Giordano, Broderick and Jordan 2018, eq. 14). The fixed point of coordinate
ascent is lambda = eta + m(mu(lambda)), m the message. Tilt the log joint by <e, t(beta)>, so that
eta becomes eta + e. With F = d mu / d lambda and M = d m / d mu,

    d lambda / d e = I + M F d lambda / d e,    Cov[t] = d mu / d e = F (I - M F)^-1 = (I - F M)^-1 F.

M is the derivative of the message with the locals at their optimum for every mu, not held fixed.
Where the locals are independent given the globals their optimum has a closed form and can be put
into the bound, L(s) = sum_n E_n(s, 0) + A(grad_z E_n(s)), a function of s alone: its gradient is
the message, and M its Hessian. Differences check that M is the derivative of the engine's own
message, with its locals optimised anew.

*Log densities* (Giordano, Ingram and Broderick 2024), by independent normals on fixed draws. With
eta = (means, log standard deviations) at the maximum of f, the ELBO on draws x_k(eta), and G the
derivative of mean_k g(values at x_k) in eta,

    Cov[g] = G (-hess f)^-1 G'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.automatic.dadvi import SETTLED, NotAMaximumError, OnDraws, newton, solver, unit_noise
from vijax.checks import require, require_integers
from vijax.contract.batch import Minibatch
from vijax.contract.model import Model
from vijax.data.loader import all_groups
from vijax.families import Normal, Product
from vijax.fitting.result import Fit
from vijax.inference.guides import Z
from vijax.inference.spec import Spec
from vijax.models.energies.density import Frame, read_frame
from vijax.models.energies.energy import Energy
from vijax.response.covariances import Covariances, covariances
from vijax.verdict import limits
from vijax.verdict.target import Target
from vijax.xla import keys
from vijax.xla.compiler import quick_jit


def linear_response(
    fit: Fit,
    data: Any = None,
    *,
    of: Callable[[Any], Any] | None = None,
    key: PRNGKeyArray | None = None,
    num_draws: int = 32,
) -> Covariances:
    """Returns posterior covariances from a mean-field fit (Giordano, Broderick and Jordan 2018,
    "Covariances, robustness, and variational Bayes", eq. 14).

    The covariance of g and h is the derivative of E[g] when h is added to the log joint. Mean field
    gets the mean of most tilted posteriors right, though not their variances, and so this
    derivative too: on a normal target it is the exact covariance, while q's is too small. It is as
    good as the means: modes that q misses stay missed.

    Args:
      fit: fit of a log density with independent normals (`vijax.dadvi`, or `vijax.advi` and others
        with `vijax.guides.mean_field()`), or of a conjugate model by `vijax.cavi`, run to
        convergence.
      data: the data of the fit.
      of: the quantities whose covariances are sought. For a density, a function of the values by
        name; None is the values themselves. For a conjugate model, a function from q to
        expectations under it; None is `lambda q: q.mean()`, and `lambda q: q.expected_stats()`
        gives the sufficient statistics.
      key: random key of fixed draws, for fits of densities other than `vijax.dadvi`.
      num_draws: number of these draws.

    Returns:
      `Covariances`: `.matrix` of all entries, `.names`, `.sds` by name, `.of("w")` a block. Up to
      200 coordinates the Hessian is formed; beyond, each entry costs a linear system by conjugate
      gradients, so let `of` pick a few.

    Raises:
      ValueError: a fit that is no fixed point, a full covariance, points, free variables beside
        conjugate ones, locals that depend on each other or are found by iteration, more than 3,000
        natural parameters.

    A posterior of correlated coefficients, whose exact standard deviations are 1.18 (mean field
    says 0.71):

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> precision = jnp.array([[2.0, 1.6], [1.6, 2.0]])
    >>> model = vi.density({"x": vi.free(2)}, lambda v: -0.5 * (v["x"] - 3) @ precision @ (v["x"] - 3))
    >>> fit = vi.dadvi(model, key=jax.random.key(0))
    >>> print(fit.sample(jax.random.key(1), 4000)["x"].std(0).round(1), linear_response(fit).sds["x"].round(2))
    [0.7 0.7] [1.18 1.18]
    """
    require(isinstance(fit, Fit), "fit", "what a fit returned", type(fit).__name__)
    require_integers(2, num_draws=num_draws)
    model = fit.alg.spec.model
    if model.log_density is not None:
        return of_draws(fit, model, data, of, key, num_draws)
    return of_conjugate(fit, data, of)


# --- conjugate models -----------------------------------------------------------------------------
STEP, SLACK = 0.1, 0.05
"""The length in standard deviations of the differences that check M, and the share that may stay
unexplained."""
MOST = 3000  # natural parameters up to which a dense matrix of them is formed
AT_ONCE = 16
SERVED = (
    "conjugate models without locals, or with locals that are independent given the globals (no "
    "`impossible`)"
)

Bound = Callable[[PyTree], Float[Array, ""]]


def of_conjugate(fit: Fit, data: Any, of: Callable | None) -> Covariances:
    """Returns the covariances of a conjugate model (see `vijax.linear_response`)."""
    spec, q = fit.alg.spec, fit.posterior
    _check(spec, q)
    groups, hyper = all_groups(data, spec.model), fit.state.hyper
    prior, batch = spec.prior(hyper), Minibatch(jax.tree.map(jnp.asarray, groups), None)
    own, closed = _engine_bound(spec, hyper, batch), _closed_bound(spec, hyper, batch)
    mean = of or (lambda q: q.mean())
    message = quick_jit(lambda q: q.with_naturals(jax.grad(own)(q.expected_stats())))
    _check_settled(q, tree.add(prior, message(q)))
    change, means = quick_jit(lambda q: _change_of_message(closed, q))(q), quick_jit(mean)(q)
    fisher, pushed = (
        np.asarray(x, np.float64) for x in quick_jit(lambda q: (_fisher(q), _pushed(q, mean)))(q)
    )
    change = np.asarray(change, np.float64)
    _check_change(q, message, fisher, change)
    response = np.linalg.solve(np.eye(len(fisher)) - fisher @ change, fisher)
    return covariances(means, pushed @ response @ pushed.T)


def _change_of_message(bound: Bound, q: Product) -> Float[Array, "P P"]:
    """Returns M, computed in batches of columns."""
    flat, unravel = ravel_pytree(q.expected_stats())
    slope = jax.grad(lambda s: bound(unravel(s)))
    column = lambda v: jax.jvp(slope, (flat,), (v,))[1]
    return jax.lax.map(column, jnp.eye(flat.size, dtype=flat.dtype), batch_size=AT_ONCE)


def _fisher(q: Product) -> Float[Array, "P P"]:
    flat, unravel = ravel_pytree(q)
    column = lambda v: ravel_pytree(q.fisher_product(unravel(v)))[0]
    return jax.vmap(column)(jnp.eye(flat.size, dtype=flat.dtype))


def _pushed(q: Product, mean: Callable) -> Float[Array, "M P"]:
    """Returns K = (d E_q[g] / d lambda) F^-1, the derivative of the expectations in mu."""
    flat, unravel = ravel_pytree(q)
    slopes = jax.jacrev(lambda v: ravel_pytree(mean(unravel(v)))[0])(flat)
    return jax.vmap(lambda row: ravel_pytree(q.fisher_solve(q.as_stats(unravel(row))))[0])(slopes)


# --- bounds as functions of the globals' statistics -----------------------------------------------
def _engine_bound(spec: Spec, hyper: Any, batch: Minibatch) -> Bound:
    """Returns the bound that the engine differentiates: locals optimised, and held."""
    model, key = spec.model, jax.random.key(0)
    return lambda stats: (
        model.local_elbo(hyper, stats, batch, key, spec.estep).total + _coupling(spec, hyper, stats)
    )


def _closed_bound(spec: Spec, hyper: Any, batch: Minibatch) -> Bound:
    """Returns the bound as a function of the statistics alone: of an energy with its optimal locals
    put in."""
    energy: Energy | None = spec.model.queries.get("energy")
    if energy is None:
        return _engine_bound(spec, hyper, batch)

    def total(stats: PyTree) -> Float[Array, ""]:
        each = jax.vmap(lambda group: _group_bound(energy, stats, group, hyper))(batch.data)
        return jnp.sum(each) + _coupling(spec, hyper, stats)

    return total


def _coupling(spec: Spec, hyper: Any, stats: PyTree) -> Any:
    return 0.0 if spec.model.global_elbo is None else spec.model.global_elbo(hyper, stats)


def _group_bound(energy: Energy, stats: PyTree, group: PyTree, hyper: Any) -> Float[Array, ""]:
    """Returns E_0 + A(l) of an energy E_0 + <l, t(z)>."""
    templates = energy.locals(group)
    if not templates:
        return energy.fn(stats, group, hyper)
    (affine,) = energy.affine(stats, group, hyper, templates)
    exact = energy.members(templates, affine.slopes, None)
    return affine.value + sum(jnp.sum(q.log_normalizer()) for q in exact.values())


# --- checks of a conjugate fit --------------------------------------------------------------------
def _check(spec: Spec, q: Product) -> None:
    model, energy = spec.model, spec.model.queries.get("energy")
    remedy = "Use vijax.auto or a sampler for the covariances of others."
    require(
        model.by_entry is None,
        "fit",
        SERVED,
        "one of Gaussian predictors",
        "Its covariance is q's own.",
    )
    require(model.free is None, "fit", SERVED, "one with free variables", remedy)
    require(
        model.form.documents is None,
        "fit",
        SERVED,
        "a model of documents, whose locals are iterated",
        remedy,
    )
    points = [name for name in q if spec.is_point(name)]
    require(
        not points,
        "fit",
        "a distribution of every global",
        f"points of {points}",
        "Fit them with vijax.cavi.",
    )
    if energy is not None:
        require(
            not energy.has_coupled_locals, "fit", SERVED, "locals that depend on each other", remedy
        )
        require(
            energy.impossible is None, "fit", SERVED, "an energy with impossible events", remedy
        )
    size = sum(leaf.size for leaf in tree.parameters(q))
    require(
        size <= MOST,
        "fit",
        f"at most {MOST} natural parameters",
        size,
        "Its matrix would not be held.",
    )


def _check_settled(q: Product, target: Product) -> None:
    gap = tree.subtract(target, q)
    nats = 0.5 * float(quick_jit(lambda q, gap: gap.dot(q.fisher_product(gap)))(q, gap))
    got = f"one that a further step would move by {nats:.2g} nats"
    require(
        abs(nats) < limits.FIXED,
        "fit",
        "a fixed point of coordinate ascent",
        got,
        "Run more steps of vijax.cavi.",
    )


def _check_change(q: Product, message: Callable, fisher: np.ndarray, change: np.ndarray) -> None:
    """Compares M with differences of the engine's messages, in a random direction of length `STEP`
    in the metric of q: so near, natural parameters stay in their domain."""
    flat = lambda x: np.asarray(ravel_pytree(x)[0], np.float64)
    length = lambda v: float(np.sqrt(max(v @ fisher @ v, 0.0)))
    w, v = np.linalg.eigh(fisher)
    kept = w > 1e-6 * w.max()
    noise = np.random.default_rng(0).normal(size=kept.sum())
    direction = v[:, kept] @ (STEP * noise / np.linalg.norm(noise) / np.sqrt(w[kept]))
    at, unravel = flat(q), ravel_pytree(q)[1]
    ends = [
        message(unravel(jnp.asarray(at + sign * direction, jnp.result_type(float))))
        for sign in (0.5, -0.5)
    ]
    found, ours = flat(ends[0]) - flat(ends[1]), change @ fisher @ direction
    rounding = 4 * float(jnp.finfo(jnp.result_type(float)).eps) * length(np.abs(flat(ends[0])))
    gap = length(found - ours)
    allowed = SLACK * (length(found) + length(ours)) + 0.02 * STEP / np.sqrt(len(noise)) + rounding
    got = (
        f"one whose message does not change as its bound says: off by {gap / STEP:.2g} of a change "
        "of q"
    )
    remedy = (
        "Locals found by iteration, behind jax.lax.stop_gradient, are not served: write it as an "
        "energy."
    )
    require(gap <= allowed, "fit", SERVED, got, remedy)


# --- log densities, on fixed draws ----------------------------------------------------------------


def of_draws(
    fit: Fit, model: Model, data: Any, of: Callable | None, key: PRNGKeyArray | None, num_draws: int
) -> Covariances:
    """Returns the covariances of a log density (see `vijax.linear_response`)."""
    q: Any = fit.posterior[Z]
    remedy = "A full covariance is q's own: fit.sample, or fit.posterior['free'].cov."
    require(
        isinstance(q, Normal),
        "fit",
        "one with the guide vijax.guides.mean_field()",
        type(q).__name__,
        remedy,
    )
    _check_frame(read_frame(fit.state.hyper))
    noise = _noise(fit, q, key, num_draws)
    objective = OnDraws(Target.from_data(model, data), noise)
    start = _free(q, read_frame(fit.state.hyper))
    top = newton(objective, start)
    remedy = "Run it longer, or fit with vijax.dadvi(model, data, key=key)."
    got = f"one from which a step still promises {top.promised:.2g} nats on fixed draws"
    require(top.promised < SETTLED, "fit", "one at a maximum of its bound", got, remedy)
    moved = float(
        np.max(np.abs(top.point - start)[: objective.dim] / np.exp(start[objective.dim :]))
    )
    got = f"one from which that of these data and draws is {moved:.2g} sd away"
    is_near = moved < limits.OFF_OPTIMUM
    require(
        is_near, "fit", "one near the maximum of its bound", got, "Give the data that were fitted."
    )
    means, pushed = _expectations(model, of or (lambda values: values), top.point, noise)
    try:
        solve = solver(objective, top.point)
        solved = np.stack([solve(row) for row in pushed])
    except NotAMaximumError as error:
        require(
            False,
            "fit",
            "one at a maximum of its bound",
            f"one away from a maximum: {error}",
            remedy,
        )
    return covariances(means, pushed @ solved.T)


def _check_frame(frame: Frame | None) -> None:
    """Raises ValueError where q has directions of dependence: only independent normals are
    corrected."""
    directed = (
        frame is not None
        and frame.stretch is not None
        and bool(np.any(np.asarray(frame.stretch) != 1))
    )
    remedy = (
        "Fit with vijax.dadvi(model, data, key=key); or draw from this one, which has "
        "covariances: fit.sample."
    )
    require(
        not directed,
        "fit",
        "one of independent normals",
        "one with directions of dependence",
        remedy,
    )
    is_placed = (
        frame is not None and frame.reference is not None and not frame.reference.is_identity
    )
    require(
        not is_placed, "fit", "one of free coordinates", "one of coordinates of a hierarchy", remedy
    )


def _free(q: Normal, frame: Frame | None) -> Float[np.ndarray, " 2D"]:
    """Returns means and log standard deviations of the free coordinates."""
    mean, log_sd = (
        np.asarray(q.mean(), np.float64),
        0.5 * np.log(np.asarray(q.variance(), np.float64)),
    )
    if frame is None:
        return np.concatenate([mean, log_sd])
    shift, scale = np.asarray(frame.shift, np.float64), np.asarray(frame.scale, np.float64)
    return np.concatenate([shift + scale * mean, np.log(scale) + log_sd])


def _noise(
    fit: Fit, q: Normal, key: PRNGKeyArray | None, num_draws: int
) -> Float[np.ndarray, "draws D"]:
    """Returns the noise of the fit where it was on fixed draws, else fresh noise."""
    own = getattr(fit.report, "noise", np.zeros((0, 0)))
    if len(own):
        return own
    remedy = (
        "Fits by vijax.dadvi have draws of their own; of others give linear_response(fit, data, "
        "key=...)."
    )
    require(key is not None, "key", "a key of fixed draws", "none", remedy)
    assert key is not None
    return unit_noise(num_draws, q.batch_shape[0], keys.seed(key))


def _expectations(
    model: Model, of: Callable, point: np.ndarray, noise: np.ndarray
) -> tuple[PyTree, Float[np.ndarray, "M 2D"]]:
    """Returns means of the quantities over the draws, and their derivatives in the means and log
    standard deviations."""

    def mean(eta: Array, noise: Array) -> PyTree:
        center, log_sd = jnp.split(eta, 2)
        draws = center[None] + jnp.exp(log_sd)[None] * noise
        return jax.tree.map(
            lambda x: jnp.mean(x, 0), jax.vmap(lambda z: of(model.log_density.values_at(z)))(draws)
        )

    at = jnp.asarray(point, jnp.result_type(float)), jnp.asarray(noise, jnp.result_type(float))
    slopes = jax.jacrev(lambda eta, noise: ravel_pytree(mean(eta, noise))[0])
    found, pushed = quick_jit(lambda eta, noise: (mean(eta, noise), slopes(eta, noise)))(*at)
    return found, np.asarray(pushed, np.float64)

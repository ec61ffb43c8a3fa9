"""Linear response: posterior covariances from the change of a mean-field fit when the log joint is
tilted.

*Conjugate models* (Giordano, Broderick and Jordan 2018, eq. 14). The fixed point of coordinate
ascent is lambda = eta + m(mu(lambda)), m the message. Tilt the log joint by <e, t(beta)>: eta
becomes eta + e. With F = d mu / d lambda and M = d m / d mu,

    d lambda / d e = I + M F d lambda / d e,    Cov[t] = d mu / d e = F (I - M F)^-1 = (I - F M)^-1 F.

M is the derivative of the message with the locals at their optimum for every mu, not held fixed. If
the locals are independent given the globals, their optimum has a closed form. Inserted into the
bound it gives L(s) = sum_n E_n(s, 0) + A(grad_z E_n(s)), a function of s: its gradient is the
message, and its Hessian M. Finite differences check that M is the derivative of the message that
the engine computes with reoptimised locals.

*Log densities* (Giordano, Ingram and Broderick 2024), by independent normals on fixed draws. With
eta = (means, log standard deviations) at the maximum of f, the ELBO on draws x_k(eta), and G the
derivative of mean_k g(values at x_k) in eta,

    Cov[g] = G (-hess f)^-1 G'."""

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
    is wrong about variances, but right about the means of most tilted posteriors, and so about this
    derivative: for a normal target it is the exact covariance, while that of q is too small. The
    covariances are as good as the means: they do not know modes that q misses.

    Args:
      fit: fit of a log density with independent normals (`vijax.dadvi`, or `vijax.advi` and others
        with `vijax.guides.mean_field()`), or of a conjugate model by `vijax.cavi`, run to
        convergence.
      data: the data of the fit.
      of: the quantities whose covariances are returned. For a density, a function of the values by
        name; None means the values themselves. For a conjugate model, a function from q to
        expectations under q; None means `lambda q: q.mean()`, and `lambda q: q.expected_stats()`
        gives the sufficient statistics.
      key: random key of fixed draws, for fits of densities by other algorithms than `vijax.dadvi`.
      num_draws: number of these draws.

    Returns:
      `Covariances`: `.matrix` of all entries, `.names`, `.sds` by name, `.of("w")` a block. Up to
      200 coordinates the Hessian is formed; beyond, each entry costs a linear system by conjugate
      gradients, so let `of` select a few.

    Raises:
      ValueError: a fit that is not at a fixed point, a full covariance, points, free variables
        beside conjugate ones, locals that depend on each other or are iterated, or more than 3,000
        natural parameters.

    A posterior of correlated coefficients, whose exact standard deviations are 1.18, where mean
    field gives 0.71:

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
        return density_covariances(fit, model, data, of, key, num_draws)
    return conjugate_covariances(fit, data, of)


# --- conjugate models -----------------------------------------------------------------------------
STEP = 0.1
"""Length, in standard deviations, of the differences that check M."""
SLACK = 0.05
"""Share of these differences that M may leave unexplained."""
MOST = 3000
"""Largest number of natural parameters, because a dense matrix of them is formed."""
AT_ONCE = 16
"""Columns of M that are computed at once."""
_INDEPENDENT = "locals that are independent given the globals (no `impossible`)"
SERVED = f"conjugate models without locals, or with {_INDEPENDENT}"

Bound = Callable[[PyTree], Float[Array, ""]]


def conjugate_covariances(fit: Fit, data: Any, of: Callable | None) -> Covariances:
    """Returns the covariances of a conjugate model (see `vijax.linear_response`)."""
    spec, q = fit.alg.spec, fit.posterior
    _check_model(spec, q)
    hyper = fit.state.hyper
    groups = jax.tree.map(jnp.asarray, all_groups(data, spec.model))
    batch = Minibatch(groups, None)
    prior = spec.prior(hyper)
    engine_bound = _engine_bound(spec, hyper, batch)
    closed_bound = _closed_bound(spec, hyper, batch)
    mean = of or (lambda q: q.mean())
    message = quick_jit(lambda q: q.with_naturals(jax.grad(engine_bound)(q.expected_stats())))
    _check_fixed_point(q, tree.add(prior, message(q)))
    change = quick_jit(lambda q: _message_derivative(closed_bound, q))(q)
    means = quick_jit(mean)(q)
    slopes = quick_jit(lambda q: (_fisher(q), _mean_slopes(q, mean)))(q)
    fisher, mean_slopes = (np.asarray(x, np.float64) for x in slopes)
    change = np.asarray(change, np.float64)
    _check_change(q, message, fisher, change)
    response = np.linalg.solve(np.eye(len(fisher)) - fisher @ change, fisher)
    return covariances(means, mean_slopes @ response @ mean_slopes.T)


def _message_derivative(bound: Bound, q: Product) -> Float[Array, "P P"]:
    """Returns M, computed in batches of columns."""
    flat, unravel = ravel_pytree(q.expected_stats())
    slope = jax.grad(lambda s: bound(unravel(s)))
    column = lambda v: jax.jvp(slope, (flat,), (v,))[1]
    return jax.lax.map(column, jnp.eye(flat.size, dtype=flat.dtype), batch_size=AT_ONCE)


def _fisher(q: Product) -> Float[Array, "P P"]:
    flat, unravel = ravel_pytree(q)
    column = lambda v: ravel_pytree(q.fisher_product(unravel(v)))[0]
    return jax.vmap(column)(jnp.eye(flat.size, dtype=flat.dtype))


def _mean_slopes(q: Product, mean: Callable) -> Float[Array, "M P"]:
    """Returns K = (d E_q[g] / d lambda) F^-1, the derivative of the expectations in mu."""
    flat, unravel = ravel_pytree(q)
    slopes = jax.jacrev(lambda v: ravel_pytree(mean(unravel(v)))[0])(flat)
    return jax.vmap(lambda row: ravel_pytree(q.fisher_solve(q.as_stats(unravel(row))))[0])(slopes)


# --- bounds as functions of the statistics of the globals -----------------------------------------
def _engine_bound(spec: Spec, hyper: Any, batch: Minibatch) -> Bound:
    """Returns the bound that the engine differentiates, with optimised locals held fixed."""
    model, key = spec.model, jax.random.key(0)

    def total(stats: PyTree) -> Float[Array, ""]:
        elbo = model.local_elbo(hyper, stats, batch, key, spec.estep).total
        return elbo + _coupling(spec, hyper, stats)

    return total


def _closed_bound(spec: Spec, hyper: Any, batch: Minibatch) -> Bound:
    """Returns the bound as a function of the statistics of the globals; for an energy with the
    optimal locals inserted."""
    energy: Energy | None = spec.model.queries.get("energy")
    if energy is None:
        return _engine_bound(spec, hyper, batch)

    def total(stats: PyTree) -> Float[Array, ""]:
        bounds = jax.vmap(lambda group: _group_bound(energy, stats, group, hyper))(batch.data)
        return jnp.sum(bounds) + _coupling(spec, hyper, stats)

    return total


def _coupling(spec: Spec, hyper: Any, stats: PyTree) -> Any:
    """The term of the bound that couples the globals."""
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
def _check_model(spec: Spec, q: Product) -> None:
    """ValueError unless linear response serves the model, with distributions of all globals."""
    model, energy = spec.model, spec.model.queries.get("energy")
    is_linear = model.by_entry is None
    remedy = "Its covariance is q's own."
    require(is_linear, "fit", SERVED, "one of Gaussian predictors", remedy)
    remedy = "Use vijax.auto or a sampler for the covariances of others."
    require(model.free is None, "fit", SERVED, "one with free variables", remedy)
    documents = "a model of documents, whose locals are iterated"
    require(model.form.documents is None, "fit", SERVED, documents, remedy)
    points = [name for name in q if spec.is_point(name)]
    expected = "a distribution of every global"
    require(not points, "fit", expected, f"points of {points}", "Fit them with vijax.cavi.")
    if energy is not None:
        coupled = "locals that depend on each other"
        require(not energy.has_coupled_locals, "fit", SERVED, coupled, remedy)
        impossible = "an energy with impossible events"
        require(energy.impossible is None, "fit", SERVED, impossible, remedy)
    size = sum(leaf.size for leaf in tree.parameters(q))
    expected = f"at most {MOST} natural parameters"
    require(size <= MOST, "fit", expected, size, "Its matrix would not be held.")


def _check_fixed_point(q: Product, target: Product) -> None:
    """ValueError if a further step of coordinate ascent would change q."""
    gap = tree.subtract(target, q)
    nats = 0.5 * float(quick_jit(lambda q, gap: gap.dot(q.fisher_product(gap)))(q, gap))
    expected = "a fixed point of coordinate ascent"
    actual = f"one that a further step would move by {nats:.2g} nats"
    is_fixed = abs(nats) < limits.FIXED
    require(is_fixed, "fit", expected, actual, "Run more steps of vijax.cavi.")


def _check_change(q: Product, message: Callable, fisher: np.ndarray, change: np.ndarray) -> None:
    """Compares M with differences of the messages of the engine, in a random direction of length
    `STEP` in the metric of q; within this length natural parameters stay in their domain."""
    flat = lambda x: np.asarray(ravel_pytree(x)[0], np.float64)
    length = lambda v: float(np.sqrt(max(v @ fisher @ v, 0.0)))
    dtype = jnp.result_type(float)
    w, v = np.linalg.eigh(fisher)
    is_regular = w > 1e-6 * w.max()
    noise = np.random.default_rng(0).normal(size=is_regular.sum())
    scaled = STEP * noise / np.linalg.norm(noise) / np.sqrt(w[is_regular])
    direction = v[:, is_regular] @ scaled
    centre, unravel = flat(q), ravel_pytree(q)[1]
    messages = [
        flat(message(unravel(jnp.asarray(centre + sign * direction, dtype))))
        for sign in (0.5, -0.5)
    ]
    difference = messages[0] - messages[1]
    prediction = change @ fisher @ direction
    rounding = 4 * float(jnp.finfo(dtype).eps) * length(np.abs(messages[0]))
    gap = length(difference - prediction)
    slack = SLACK * (length(difference) + length(prediction))
    allowed = slack + 0.02 * STEP / np.sqrt(len(noise)) + rounding
    mismatch = "one whose message does not change as its bound says"
    actual = f"{mismatch}: off by {gap / STEP:.2g} of a change of q"
    iterated = "Locals found by iteration, behind jax.lax.stop_gradient, are not served"
    require(gap <= allowed, "fit", SERVED, actual, f"{iterated}: write it as an energy.")


# --- log densities, on fixed draws ----------------------------------------------------------------
def density_covariances(
    fit: Fit, model: Model, data: Any, of: Callable | None, key: PRNGKeyArray | None, num_draws: int
) -> Covariances:
    """Returns the covariances of a log density (see `vijax.linear_response`)."""
    q: Any = fit.posterior[Z]
    remedy = "A full covariance is q's own: fit.sample, or fit.posterior['free'].cov."
    expected = "one with the guide vijax.guides.mean_field()"
    require(isinstance(q, Normal), "fit", expected, type(q).__name__, remedy)
    frame = read_frame(fit.state.hyper)
    _check_frame(frame)
    noise = _noise(fit, q, key, num_draws)
    objective = OnDraws(Target.from_data(model, data), noise)
    optimum = _find_optimum(objective, _free(q, frame))
    means, slopes = _expectations(model, of or (lambda values: values), optimum, noise)
    try:
        solve = solver(objective, optimum)
        responses = np.stack([solve(row) for row in slopes])
    except NotAMaximumError as error:
        actual = f"one away from a maximum: {error}"
        require(False, "fit", "one at a maximum of its bound", actual, LONGER)
    return covariances(means, slopes @ responses.T)


LONGER = "Run it longer, or fit with vijax.dadvi(model, data, key=key)."


def _find_optimum(objective: OnDraws, start: np.ndarray) -> np.ndarray:
    """Returns the maximum of the ELBO on fixed draws; ValueError if none is near the fit."""
    top = newton(objective, start)
    actual = f"one from which a step still promises {top.promise:.2g} nats on fixed draws"
    require(top.promise < SETTLED, "fit", "one at a maximum of its bound", actual, LONGER)
    sds = np.exp(start[objective.dim :])
    distance = float(np.max(np.abs(top.point - start)[: objective.dim] / sds))
    actual = f"one from which that of these data and draws is {distance:.2g} sd away"
    is_near = distance < limits.OFF_OPTIMUM
    remedy = "Give the data that were fitted."
    require(is_near, "fit", "one near the maximum of its bound", actual, remedy)
    return top.point


def _check_frame(frame: Frame | None) -> None:
    """ValueError unless q is independent normals of free coordinates."""
    if frame is None:
        return
    draws = "draw from this one, which has covariances: fit.sample"
    remedy = f"Fit with vijax.dadvi(model, data, key=key); or {draws}."
    has_directions = frame.stretch is not None and bool(np.any(np.asarray(frame.stretch) != 1))
    actual = "one with directions of dependence"
    require(not has_directions, "fit", "one of independent normals", actual, remedy)
    is_hierarchy = frame.reference is not None and not frame.reference.is_identity
    actual = "one of coordinates of a hierarchy"
    require(not is_hierarchy, "fit", "one of free coordinates", actual, remedy)


def _free(q: Normal, frame: Frame | None) -> Float[np.ndarray, " 2D"]:
    """Returns means and log standard deviations of the free coordinates."""
    mean = np.asarray(q.mean(), np.float64)
    log_sd = 0.5 * np.log(np.asarray(q.variance(), np.float64))
    if frame is None:
        return np.concatenate([mean, log_sd])
    shift = np.asarray(frame.shift, np.float64)
    scale = np.asarray(frame.scale, np.float64)
    return np.concatenate([shift + scale * mean, np.log(scale) + log_sd])


def _noise(
    fit: Fit, q: Normal, key: PRNGKeyArray | None, num_draws: int
) -> Float[np.ndarray, "draws D"]:
    """Returns the noise of a fit on fixed draws; for other fits new noise."""
    noise = getattr(fit.report, "noise", np.zeros((0, 0)))
    if len(noise):
        return noise
    call = "linear_response(fit, data, key=...)"
    remedy = f"Fits by vijax.dadvi have draws of their own; of others give {call}."
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
        values = jax.vmap(lambda z: of(model.log_density.values_at(z)))(draws)
        return jax.tree.map(lambda x: jnp.mean(x, 0), values)

    dtype = jnp.result_type(float)
    derivative = jax.jacrev(lambda eta, noise: ravel_pytree(mean(eta, noise))[0])
    program = quick_jit(lambda eta, noise: (mean(eta, noise), derivative(eta, noise)))
    means, slopes = program(jnp.asarray(point, dtype), jnp.asarray(noise, dtype))
    return means, np.asarray(slopes, np.float64)

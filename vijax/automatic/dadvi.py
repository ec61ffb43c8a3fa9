"""`vijax.dadvi`: deterministic automatic differentiation variational inference (Giordano, Ingram
and Broderick 2024).

Independent normals are fitted to a log density on fixed draws. With draws x_k = m + s e_k of fixed
noise e_k, and l = log s, the ELBO is a smooth function of means and log standard deviations,

    f(m, l) = mean_k log p(x_k) + sum l.

L-BFGS climbs it, and Newton's steps find its maximum: by a dense factor of minus the Hessian up to
some hundreds of coordinates, beyond that by conjugate gradients on Hessian-vector products (Nocedal
and Wright 2006, algorithms 5.3 and 7.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
from jaxtyping import Float, PRNGKeyArray
from scipy import linalg

from vijax import lbfgs
from vijax.arguments import integer
from vijax.automatic.as_fits import as_fit
from vijax.automatic.assessment import assess, with_verdict
from vijax.automatic.density_checks import exchanges
from vijax.automatic.gaussian import Gaussian, draw_noise
from vijax.automatic.modes import SearchResult, find_modes, with_bounds
from vijax.automatic.trust_region import Stage, Watcher, check_stage
from vijax.checks import check_key, require, require_integers, require_on_host
from vijax.contract.model import Model
from vijax.data.schema.named_columns import find_names
from vijax.fitting.fit_arguments import check_process
from vijax.fitting.interrupt import interrupt_flag
from vijax.fitting.result import Fit
from vijax.inference.compatibility import check_model
from vijax.lbfgs import Mode, maximise, never
from vijax.models.energies.density import require_log_density
from vijax.verdict import limits
from vijax.verdict.report import Ended
from vijax.verdict.target import Target
from vijax.xla import keys

NUM_STARTS = 16
MAX_STEPS = 1000
MOST_DENSE = 200  # D up to which the Hessian is formed
ENOUGH, SETTLED = 1e-8, 1e-4
"""Newton's steps end where a further step promises fewer nats than `ENOUGH`. If rounding prevents
that, an end that promises less than `SETTLED` counts as the maximum."""
TOL = 1e-6  # residual at which conjugate gradients end, relative to the right-hand side


def dadvi(
    model: Model,
    data: Any = None,
    *,
    key: PRNGKeyArray,
    num_draws: Annotated[int, integer(2)] = 30,
    stage: Stage | None = None,
) -> Fit:
    """Fits independent normals in free coordinates to a log density, on draws with fixed noise: a
    deterministic problem, solved by L-BFGS from the best of several modes, and then by Newton's
    steps (Giordano, Ingram and Broderick 2024, "Black box variational inference with a
    deterministic objective"). There is no learning rate, and the end is an optimum, so that
    `vijax.linear_response(fit, data)` can correct its variances.

    How many draws? If variables are weakly correlated, tens of draws are enough for any number of
    variables. If they are strongly correlated, there must be more draws than variables, because the
    sds adapt to chance correlations of the noise: with one common factor in 100 features sds were
    half too large with 32 draws, right with 512. With too few draws, their bound is far above
    `fit.elbo`, which is on fresh draws, and `fit.verdict` says so. The covariances of
    `vijax.linear_response` suffer less: in this example they were right to 4 % with 32 draws.

    Args:
      model: a log density (`vijax.density`), whatever its guide.
      data: the data that the model reads; None for a density that reads none.
      key: random key of starts and draws.
      num_draws: number of fixed draws, scrambled Sobol points with their mirror images, rounded up
          to a power of two.
      stage: `fit.report.stage` of a fit with the same arguments that Ctrl-C stopped: the fit
        resumes there, without searching for modes again, and ends as if it had never been stopped,
        bit for bit.

    After Ctrl-C the best so far is returned; its verdict says "Stopped early". A second Ctrl-C
    stops at once.

    Returns:
      A `Fit`, with `fit.report`, `fit.verdict` and `fit.khat` as `vijax.auto` gives them.

    Raises:
      ValueError: another model, fewer than two draws, a density that is finite at no start.

    Means and variances of a correlated normal. The variances of the fit are conditional, the
    corrected ones are right:

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> precision = jnp.array([[2.0, 1.2], [1.2, 1.0]])
    >>> model = vi.density({"x": vi.free(2)}, lambda v: -0.5 * (v["x"] - 3) @ precision @ (v["x"] - 3))
    >>> fit = vi.dadvi(model, key=jax.random.key(0))
    >>> draws = fit.sample(jax.random.key(1), 4000)["x"]
    >>> print(draws.mean(0).round(1), draws.std(0).round(1), vi.linear_response(fit).sds["x"].round(1))
    [3. 3.] [0.7 1. ] [1.3 1.9]
    """
    check_model(model)
    check_process()
    require_on_host("vijax.dadvi", data, key, model.hyper, model.form.given)
    check_key(key)
    require_integers(2, num_draws=num_draws)
    density = require_log_density(model, "Use vijax.auto.")
    target = Target.from_data(model, data)
    seed = keys.seed(key)
    check_stage(stage, target.dim, NUM_STARTS, False, density.hierarchy is not None)
    with interrupt_flag() as asked:
        watcher = Watcher(asked, stage)
        candidates = watcher.find_modes(
            target, lambda: find_modes(target, seed, NUM_STARTS, asked.is_set), NUM_STARTS
        )
        if len(candidates) > 1:
            candidates, _ = with_bounds(target, candidates, seed)
        start = candidates[int(np.argmax([x.elbo for x in candidates]))].mode
        noise = unit_noise(num_draws, target.dim, seed)
        objective = OnDraws(target, noise)
        plain = climb(objective, start, MAX_STEPS, stopped=asked.is_set)
        point = np.concatenate([plain.mean, np.log(plain.scale)])
        maximum = newton(objective, point, stopped=asked.is_set)
    end = Ended.INTERRUPTED if asked.is_set() else Ended.UNSOLVED
    if maximum.promise < SETTLED:
        end = Ended.CONVERGED
    q = as_gaussian(maximum.point, maximum.value, end)
    search = SearchResult(candidates, exchanges(target, start.x, q.sds, seed), NUM_STARTS)
    report = assess(model, target, q, search, seed)._replace(noise=noise)
    report = report._replace(stage=watcher.stage if q.ended is Ended.INTERRUPTED else None)
    excess = q.elbo - report.elbo.value
    limit = limits.TOO_FEW_DRAWS + limits.SURE * report.elbo.standard_error
    if q.ended is Ended.CONVERGED and excess > limit:
        q = q._replace(ended=Ended.TOO_FEW)
        report = with_verdict(report, q)
    return as_fit(model, q, report, key)._replace(columns=find_names(data))


# --- the objective --------------------------------------------------------------------------------
def unit_noise(num_draws: int, dim: int, seed: int) -> Float[np.ndarray, "draws D"]:
    """Fixed noise with mean zero and variance one, exactly, in every coordinate."""
    noise = draw_noise(num_draws, dim, [seed, 0])
    return noise / np.sqrt((noise**2).mean(0))


class OnDraws:
    """f as a function of points (m, l) of length 2D, up to a constant; `noise` is e, (draws, D)."""

    def __init__(self, target: Target, noise: Float[np.ndarray, "draws D"]):
        self.dim = target.dim
        self.noise = noise
        self._target = target

    def slopes(self, points: Float[np.ndarray, "points 2D"]) -> tuple[np.ndarray, np.ndarray]:
        """Values and gradients; a value is -inf where a draw has no density."""
        pairs = [self._slope(point) for point in points]
        return np.array([value for value, _ in pairs]), np.stack([slope for _, slope in pairs])

    def rounding(self, value: float) -> float:
        """The rounding error of a value in the working precision."""
        return 4 * self._target.epsilon * max(abs(value), 1.0)

    def hessian(self, point: Float[np.ndarray, " 2D"]) -> Float[np.ndarray, "2D 2D"]:
        """All second derivatives, at a cost of D^2 numbers a draw."""
        x, offsets, slopes = self._draws(point)
        blocks = np.zeros((2, 2, self.dim, self.dim))
        for hessian, offset in zip(self._target.hessians(x), offsets, strict=True):
            mixed = hessian * offset
            blocks += np.array([[hessian, mixed], [mixed.T, offset[:, None] * mixed]])
        blocks /= len(x)
        blocks[1, 1] += np.diag((slopes * offsets).mean(0))
        return np.block([[blocks[0, 0], blocks[0, 1]], [blocks[1, 0], blocks[1, 1]]])

    def product(
        self, point: Float[np.ndarray, " 2D"]
    ) -> Callable[[np.ndarray], Float[np.ndarray, " 2D"]]:
        """The function v -> Hessian v at a point; it costs one Hessian-vector product of log p for
        each draw."""
        x, offsets, slopes = self._draws(point)
        diagonal = (slopes * offsets).mean(0)

        def product(v: np.ndarray) -> Float[np.ndarray, " 2D"]:
            v_mean, v_log_sd = np.split(v, 2)
            products = self._target.products(x, v_mean + offsets * v_log_sd)
            log_sd_part = (products * offsets).mean(0) + diagonal * v_log_sd
            return np.concatenate([products.mean(0), log_sd_part])

        return product

    def scales(self, point: Float[np.ndarray, " 2D"]) -> Float[np.ndarray, " 2D"]:
        """Rough standard deviations of the solution, by the Hessian of a normal with this
        variance."""
        return np.concatenate([np.exp(point[self.dim :]), np.full(self.dim, np.sqrt(0.5))])

    def _slope(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient at a point."""
        mean, log_sd = np.split(point, 2)
        if log_sd.max() > limits.WIDEST:
            return -np.inf, np.zeros_like(point)
        offsets = np.exp(log_sd) * self.noise
        values, slopes = self._target.slopes(mean + offsets)
        is_finite = np.isfinite(values).all()
        with np.errstate(over="ignore", invalid="ignore"):  # a search may be far out
            log_sd_slope = (slopes * offsets).mean(0) + 1
        value = values.mean() + log_sd.sum() if is_finite else -np.inf
        return value, np.concatenate([slopes.mean(0), log_sd_slope])

    def _draws(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x, s e, and the gradients at x."""
        mean, log_sd = np.split(point, 2)
        offsets = np.exp(log_sd) * self.noise
        return mean + offsets, offsets, self._target.slopes(mean + offsets)[1]


def as_gaussian(
    point: Float[np.ndarray, " 2D"], value: float, ended: Ended = Ended.SPENT
) -> Gaussian:
    """The normals with these means and log standard deviations; the ELBO with its constant."""
    mean, log_sd = np.split(point, 2)
    elbo = float(value + 0.5 * len(mean) * np.log(2 * np.pi * np.e))
    return Gaussian(mean, np.exp(log_sd), elbo, ended, (elbo,))


# --- the maximum ----------------------------------------------------------------------------------
def climb(
    objective: OnDraws,
    start: Mode,
    max_steps: int,
    enough: float = lbfgs.ENOUGH,
    stopped: Callable[[], bool] = never,
) -> Gaussian:
    """The best independent normals on fixed draws, by L-BFGS."""
    point = np.concatenate([start.x, np.log(np.clip(start.sds, 1e-6, 1.0))])
    ends = maximise(objective.slopes, point[None], max_steps, enough, stopped)
    remedy = "Give variables narrower priors, or supports that exclude what is impossible."
    expected = "a finite one at draws around its mode"
    require(bool(ends), "log_density", expected, "one that is not", remedy)
    return as_gaussian(ends[0].x, ends[0].value)


class NotAMaximumError(ValueError):
    """The Hessian is not negative definite here."""


def solver(
    objective: OnDraws, point: Float[np.ndarray, " 2D"]
) -> Callable[[np.ndarray], np.ndarray]:
    """The function b -> x with (-Hessian) x = b. Raises NotAMaximumError: the Hessian is not
    negative definite; conjugate gradients notice it only in the directions they take."""
    if objective.dim > MOST_DENSE:
        product, scales = objective.product(point), objective.scales(point)
        return lambda b: _conjugate_gradients(lambda v: -product(v), b, scales)
    hessian = objective.hessian(point)
    try:
        factor = linalg.cho_factor(-0.5 * (hessian + hessian.T))
    except (linalg.LinAlgError, ValueError) as error:
        raise NotAMaximumError(str(error)) from error
    return lambda b: linalg.cho_solve(factor, b)


def _conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray], b: np.ndarray, scales: np.ndarray
) -> Float[np.ndarray, " 2D"]:
    """Solves product(x) = b, preconditioned by rough standard deviations of the solution."""
    x = np.zeros_like(b)
    residual = scales * b
    direction = residual
    size = float(residual @ residual)
    goal = TOL**2 * size
    for _ in range(4 * len(b)):
        if size <= goal:
            break
        image = scales * product(scales * direction)
        curvature = float(direction @ image)
        if not curvature > 0:
            raise NotAMaximumError(f"curvature {curvature} in a direction")
        x = x + size / curvature * direction
        residual = residual - size / curvature * image
        new_size = float(residual @ residual)
        direction = residual + new_size / size * direction
        size = new_size
    return scales * x


class Maximum(NamedTuple):
    """The end of Newton's steps."""

    point: Float[np.ndarray, " 2D"]  # (2D,)
    value: float  # of the function there
    # Nats that a further step promises; infinite where the Hessian is not negative definite
    promise: float


def newton(
    objective: OnDraws,
    point: Float[np.ndarray, " 2D"],
    max_steps: int = 10,
    stopped: Callable[[], bool] = never,
) -> Maximum:
    """The maximum near a point, by Newton's steps, halved where the value would fall, until only
    rounding is left or `stopped` returns True."""
    (value,), (slope,) = objective.slopes(point[None])
    promise = np.inf
    for _ in range(max_steps):
        if stopped():
            break
        try:
            step = solver(objective, point)(slope)
        except NotAMaximumError:
            return Maximum(point, float(value), np.inf)
        last_promise = promise
        promise = 0.5 * float(slope @ step)
        if promise < ENOUGH or (last_promise < SETTLED and promise > 0.5 * last_promise):
            break
        for size in 0.5 ** np.arange(8):
            (new_value,), (new_slope,) = objective.slopes(point[None] + size * step)
            if new_value >= value - objective.rounding(value):
                break
        else:
            break
        point = point + size * step
        value = new_value
        slope = new_slope
    return Maximum(point, float(value), promise)

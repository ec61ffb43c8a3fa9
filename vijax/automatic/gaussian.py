"""A normal on the host, in float64: draws, density, and natural-gradient steps from scores at its
draws."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import linalg, special

from vijax.inference.estimator.scores import regression
from vijax.lbfgs import Mode
from vijax.models.energies.bend import Bend
from vijax.models.energies.density import Frame, LogDensity
from vijax.models.energies.reference import Reference
from vijax.tree import to_device
from vijax.verdict.report import Ended
from vijax.verdict.target import Target

FEW = 50
"""Variables up to which triangular systems are solved as general ones."""


class Gaussian(NamedTuple):
    """N(mean, scale scale')."""

    mean: Float[np.ndarray, " D"]
    scale: Float[np.ndarray, "D D"]  # lower triangle (D, D), or standard deviations (D,)
    elbo: float  # on the draws of the fit; the normaliser of a normal included
    ended: Ended = Ended.SPENT  # why the fit stopped
    trace: tuple[float, ...] = ()  # ELBO after each step taken
    # error of the means by the noise of the draws, in posterior standard deviations, the worst
    error: float = 0.0
    # Orthonormal columns (D, r) along which q is wider or narrower than `scale`
    # (`vijax.automatic.low_rank`), zero for a stretch of 1; None for other normals
    directions: Float[np.ndarray, "D r"] | None = None
    # Width of q along each direction, in units of `scale`, (r,); None for other normals
    stretch: Float[np.ndarray, " r"] | None = None
    reference: Reference | None = None  # reference of the hierarchy whose coordinates it is in
    bend: Bend | None = None  # bend of these coordinates

    @property
    def is_full(self) -> bool:
        """True for a full covariance."""
        return self.scale.ndim == 2

    def from_noise(self, noise: Float[np.ndarray, "draws D"]) -> Float[np.ndarray, "draws D"]:
        """Draws from standard normal noise."""
        if self.is_full:
            return self.mean + noise @ self.scale.T
        return self.mean + self.apply_stretch(noise) * self.scale

    def apply_stretch(
        self, x: Float[np.ndarray, "*shape D"], power: float = 1.0
    ) -> Float[np.ndarray, "*shape D"]:
        """Vectors, longer along the directions by a power of the stretch."""
        if self.directions is None or self.stretch is None:
            return x
        return x + ((x @ self.directions) * (self.stretch**power - 1)) @ self.directions.T

    @property
    def sds(self) -> Float[np.ndarray, " D"]:
        """Standard deviations."""
        if self.is_full:
            return np.sqrt((self.scale**2).sum(1))
        if self.directions is None or self.stretch is None:
            return self.scale
        return self.scale * np.sqrt(1 + self.directions**2 @ (self.stretch**2 - 1))

    @property
    def num_directions(self) -> int:
        """Number of directions with a stretch other than 1."""
        return 0 if self.stretch is None else int((self.stretch != 1).sum())

    def draw(
        self, size: int, seed: Any
    ) -> tuple[Float[np.ndarray, "draws D"], Float[np.ndarray, " draws"]]:
        """Draws, from `draw_noise`, and log q there."""
        noise = draw_noise(size, len(self.mean), seed)
        return self.from_noise(noise), self.log_density(noise)

    def frame(self, density: LogDensity) -> Frame:
        """The coordinates of a density in which it is N(0, I)."""
        dtype = jnp.result_type(float)
        put = lambda part: to_device(np.asarray(part, dtype))
        parts = {
            "shift": self.mean,
            "scale": self.scale,
            "directions": self.directions,
            "stretch": self.stretch,
        }
        frame = Frame(**{name: put(part) for name, part in parts.items() if part is not None})
        if self.is_full:
            bend = self.bend or Bend.none(len(self.mean))
            frame = frame._replace(bend=jax.tree.map(put, bend))
        if density.hierarchy is None:
            return frame
        reference = self.reference or Reference.identity(len(self.mean))
        return frame._replace(reference=jax.tree.map(put, reference))

    def entropy(self) -> float:
        """The entropy in nats."""
        scales = np.diag(self.scale) if self.is_full else self.scale
        log_stretch = 0.0 if self.stretch is None else np.log(self.stretch).sum()
        constant = 0.5 * len(self.mean) * np.log(2 * np.pi * np.e)
        return float(np.log(scales).sum() + log_stretch + constant)

    def log_density(self, noise: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """log q at the points `from_noise(noise)`."""
        return 0.5 * (noise.shape[1] - (noise**2).sum(1)) - self.entropy()

    def log_prob(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """log q(x)."""
        return self.log_density(self.whiten(x))

    def whiten(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, "points D"]:
        """The noise of these points, the inverse of `from_noise`."""
        gap = x - self.mean
        if self.is_full and len(self.mean) <= FEW:  # SciPy's triangular solver has a larger set-up
            return np.linalg.solve(self.scale, gap.T).T
        if self.is_full:
            return linalg.solve_triangular(self.scale, gap.T, lower=True).T
        return self.apply_stretch(gap / self.scale, -1.0)

    def distance(self, x: Float[np.ndarray, " D"]) -> float:
        """The squared distance from the mean, in standard deviations."""
        return float((self.whiten(x[None]) ** 2).sum())

    def has_near(self, x: Float[np.ndarray, " D"]) -> bool:
        """True for a point as near to the mean as draws are."""
        return is_near(self.distance(x), len(x))


def is_near(distance: float, dim: int) -> bool:
    """True for a squared distance, in standard deviations, that draws of `dim` variables have."""
    return distance < dim + 6 * float(np.sqrt(2 * dim))


def draw_noise(size: int, dim: int, seed: Any) -> Float[np.ndarray, "draws D"]:
    """Antithetic scrambled Sobol normals: at least `size`, the next power of two."""
    from scipy.stats import qmc  # its import takes as long as JAX's

    pairs = max(int(np.ceil(np.log2(max(size, 2)))) - 1, 0)
    uniform = qmc.Sobol(dim, rng=np.random.default_rng(seed)).random_base2(pairs)
    half = special.ndtri(np.clip(uniform, 1e-9, 1 - 1e-9))
    return np.concatenate([half, -half])


# --- the normal at a mode -------------------------------------------------------------------------
def laplace(target: Target, mode: Mode, widest: float = 2.0) -> tuple[Gaussian, float]:
    """The normal at a mode with its curvature, by central differences of the gradient; and the
    nats that Newton's step promises, few where the search arrived.

    No coordinate's standard deviation is above `widest`: where the density is flat the whole step
    would lead astray."""
    dim = len(mode.x)
    width = 0.1 if target.epsilon > 1e-10 else 1e-3
    steps = width * np.minimum(mode.sds, widest)
    _, slopes = target.slopes(np.concatenate([mode.x + np.diag(steps), mode.x - np.diag(steps)]))
    hessian = (slopes[:dim] - slopes[dim:]) / (2 * steps[:, None])
    units = 1 / np.sqrt(np.maximum(np.abs(np.diag(hessian)), 1 / widest**2))
    w, v = np.linalg.eigh(-0.5 * (hessian + hessian.T) * units * units[:, None])
    # Up the neck of a funnel curvatures differ by more than digits hold.
    curvatures = np.maximum(np.abs(w), 1e-10 * np.abs(w).max())
    precision = (v * curvatures) @ v.T + np.diag((units / widest) ** 2)
    scale = units[:, None] * root_of_inverse(precision)
    whitened = 0.5 * (slopes[:dim] + slopes[dim:]).mean(0) @ scale
    return Gaussian(mode.x, scale, -np.inf), 0.5 * float(whitened @ whitened)


def root_of_inverse(precision: np.ndarray) -> Float[np.ndarray, "D D"]:
    """The lower triangle L with L L' the inverse of a positive definite matrix."""
    flipped = np.linalg.cholesky(precision[::-1, ::-1])  # precision = U U', U upper: then L = U'^-1
    return linalg.solve_triangular(flipped[::-1, ::-1].T, np.eye(len(precision)), lower=True)


# --- steps ----------------------------------------------------------------------------------------
class Regression(NamedTuple):
    """The step by a regression of scores at draws, and the noise in it."""

    slope: Float[np.ndarray, " D"]  # a, (D,)
    curvature: Float[np.ndarray, "D D"]  # B, (D, D)
    sds: Float[np.ndarray, " D"]  # standard errors of a, in posterior standard deviations, (D,)
    # Length of a whole step by noise alone: half the squared errors of the means, and a quarter of
    # the squared errors of the D^2 curvatures
    nats: float


def regress_scores(
    noise: Float[np.ndarray, "draws D"], scores: Float[np.ndarray, "draws D"]
) -> Regression:
    """Regresses scores on noise whose second half is minus the first.

    The even part of the residuals is the same at both draws of a pair, and disturbs only the means;
    the odd part disturbs only the curvatures. So pairs count, not draws."""
    slope, curvature = regression(noise, scores, diagonal=False, xp=np)
    residuals = scores - slope + noise @ curvature
    pairs = len(noise) // 2
    dim = noise.shape[1]
    even = 0.5 * (residuals[:pairs] + residuals[pairs:])
    odd = 0.5 * (residuals[:pairs] - residuals[pairs:])
    slope_variance = (even**2).sum(0) / max(pairs - 1, 1) / pairs
    curvature_variance = (odd**2).sum(0) / max(pairs - dim, 1) / pairs
    nats = float(0.5 * slope_variance.sum() + 0.25 * dim * curvature_variance.sum())
    return Regression(slope, curvature, np.sqrt(slope_variance), nats)


class Evaluation(NamedTuple):
    """A normal evaluated on draws."""

    q: Gaussian  # the normal
    elbo: float  # its ELBO on these draws, up to a constant
    regression: Regression  # the step by the scores
    size: float  # largest value of the log density; rounding is relative to it
    # a lower bound on KL(q || p): log of the mean importance ratio, less the mean of its logarithm
    gap: float


def evaluate(target: Target, q: Gaussian, noise: Float[np.ndarray, "draws D"]) -> Evaluation:
    """Computes ELBO and step. Draws at which the density is zero make the ELBO -inf, and have no
    slope.

    In the frame of q, log p is about  c + a' e - e' B e / 2  by the scores. The error of its mean
    over draws, which comes from their second moments, is subtracted. So the ELBO of a normal target
    is exact, as its steps are, and steps raise the ELBO but for what is not normal."""
    values, slopes = target.slopes(q.from_noise(noise))
    size = float(np.abs(values[np.isfinite(values)]).max(initial=1.0))
    natural_step = regress_scores(noise, slopes @ q.scale)
    moments = noise.T @ noise / len(noise) - np.eye(len(natural_step.slope))
    error = float(
        natural_step.slope @ noise.mean(0) - 0.5 * (natural_step.curvature * moments).sum()
    )
    ratios = values + 0.5 * (noise**2).sum(1)
    gap = 0.0
    if np.isfinite(ratios).all():  # zeros of p at draws say nothing about its shape
        gap = float(special.logsumexp(ratios) - np.log(len(ratios)) - ratios.mean())
    return Evaluation(q, float(values.mean()) - error + q.entropy(), natural_step, size, gap)


class Step(NamedTuple):
    """A natural-gradient step inside a trust region."""

    to: Gaussian  # the normal after it
    nats: float  # KL(to || q)
    # False where the radius or the cone of positive definite matrices made it shorter
    is_whole: bool


def lower_factor(root: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "D D"]:
    """The lower factor of R R', computed without the product, in which rounding would lose a
    direction a hundred million times as narrow as another.

    >>> lower_factor(np.diag([1e9, -1e-9])).diagonal().tolist()
    [1000000000.0, 1e-09]
    """
    upper = np.asarray(np.linalg.qr(root.T, mode="r"))
    return upper.T * np.where(np.diagonal(upper) < 0, -1.0, 1.0)


def step(
    q: Gaussian, slope: np.ndarray, curvature: np.ndarray, radius: float, rho: float = 1.0
) -> Step:
    """Takes the KL step towards the normal of the regression, as far as the radius and the cone
    allow.

    In the frame of q:  W = I + rho (B - I),   shift = rho W^-1 a,   covariance W^-1."""
    eye = np.eye(len(slope))
    whole_rho = rho
    for _ in range(200):
        w, v = np.linalg.eigh(eye + rho * (curvature - eye))
        if w.min() > 0.1:
            shift = rho * (v @ ((v.T @ slope) / w))
            nats = 0.5 * float((1 / w - 1 + np.log(w)).sum() + shift @ shift)
            if nats <= radius:
                break
        rho *= 0.6
    scale = lower_factor(q.scale @ (v / np.sqrt(w)))
    return Step(q._replace(mean=q.mean + q.scale @ shift, scale=scale), nats, rho == whole_rho)

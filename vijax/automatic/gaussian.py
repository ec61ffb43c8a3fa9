"""A normal on the host, in float64: draws, density, and the natural-gradient step that scores at
its draws ask for."""

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
"""Variables up to which systems are solved as if they had no triangle."""


class Gaussian(NamedTuple):
    """N(mean, scale scale')."""

    mean: Float[np.ndarray, " D"]
    scale: Float[np.ndarray, "D D"]  # lower triangle (D, D), or standard deviations (D,)
    elbo: float  # on the draws of the fit; the normaliser of a normal included
    ended: Ended = Ended.SPENT  # why the fit stopped
    trace: tuple[float, ...] = ()  # ELBO after each step taken
    # error of the means by the noise of the draws, in posterior standard deviations, the worst
    error: float = 0.0
    # Orthonormal columns (D, r) along which q is wider or narrower than `scale` says
    # (`vijax.automatic.low_rank`), those of a stretch of 1 zero; None of other normals
    directions: Float[np.ndarray, "D r"] | None = None
    # How much wider q is along each direction, in units of `scale`, (r,); None of other normals
    stretch: Float[np.ndarray, " r"] | None = None
    reference: Reference | None = None  # of the coordinates of a hierarchy that it is a normal of
    bend: Bend | None = None  # of the coordinates, before those of the hierarchy

    @property
    def is_full(self) -> bool:
        """True of a full covariance."""
        return self.scale.ndim == 2

    def from_noise(self, noise: Float[np.ndarray, "draws D"]) -> Float[np.ndarray, "draws D"]:
        """Returns draws, from standard normal noise."""
        return self.mean + (
            noise @ self.scale.T if self.is_full else self.apply_stretch(noise) * self.scale
        )

    def apply_stretch(
        self, x: Float[np.ndarray, "*shape D"], power: float = 1.0
    ) -> Float[np.ndarray, "*shape D"]:
        """Returns vectors made longer along the directions, by a power of the stretch."""
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
        """Returns draws, made of `draw_noise`, and log q there."""
        noise = draw_noise(size, len(self.mean), seed)
        return self.from_noise(noise), self.log_density(noise)

    def frame(self, density: LogDensity) -> Frame:
        """Returns the coordinates of a density in which it is N(0, I)."""
        dtype = jnp.result_type(float)
        more = {
            name: getattr(self, name)
            for name in ("directions", "stretch")
            if getattr(self, name) is not None
        }
        own = {"shift": self.mean, "scale": self.scale, **more}
        of_device = lambda part: to_device(np.asarray(part, dtype))
        frame = Frame(**{name: of_device(part) for name, part in own.items()})
        if self.is_full:
            frame = frame._replace(
                bend=jax.tree.map(of_device, self.bend or Bend.none(len(self.mean)))
            )
        if density.hierarchy is None:
            return frame
        reference = self.reference or Reference.identity(len(self.mean))
        return frame._replace(reference=jax.tree.map(of_device, reference))

    def entropy(self) -> float:
        """Returns the entropy in nats."""
        scales = np.diag(self.scale) if self.is_full else self.scale
        more = 0.0 if self.stretch is None else np.log(self.stretch).sum()
        return float(np.log(scales).sum() + more + 0.5 * len(self.mean) * np.log(2 * np.pi * np.e))

    def log_density(self, noise: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """Returns log q at the points that this noise leads to."""
        return 0.5 * (noise.shape[1] - (noise**2).sum(1)) - self.entropy()

    def log_prob(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """Returns log q(x)."""
        return self.log_density(self.whiten(x))

    def whiten(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, "points D"]:
        """Returns the noise that leads to these points."""
        gap = x - self.mean
        if (
            self.is_full and len(self.mean) <= FEW
        ):  # SciPy's for triangles costs more before it begins
            return np.linalg.solve(self.scale, gap.T).T
        if self.is_full:
            return linalg.solve_triangular(self.scale, gap.T, lower=True).T
        return self.apply_stretch(gap / self.scale, -1.0)

    def distance(self, x: Float[np.ndarray, " D"]) -> float:
        """Returns the squared distance from the mean, in standard deviations."""
        return float((self.whiten(x[None]) ** 2).sum())

    def has_near(self, x: Float[np.ndarray, " D"]) -> bool:
        """Says whether a point is as near to the mean as draws are."""
        return is_near(self.distance(x), len(x))


def is_near(distance: float, dim: int) -> bool:
    """Says whether a squared distance, in standard deviations, is one of draws of so many
    variables."""
    return distance < dim + 6 * float(np.sqrt(2 * dim))


def draw_noise(size: int, dim: int, seed: Any) -> Float[np.ndarray, "draws D"]:
    """Returns antithetic scrambled Sobol normals: at least `size`, the next power of two."""
    from scipy.stats import qmc  # here, because it takes as long to import as JAX itself

    pairs = max(int(np.ceil(np.log2(max(size, 2)))) - 1, 0)
    uniform = qmc.Sobol(dim, rng=np.random.default_rng(seed)).random_base2(pairs)
    half = special.ndtri(np.clip(uniform, 1e-9, 1 - 1e-9))
    return np.concatenate([half, -half])


# --- the normal at a mode -------------------------------------------------------------------------
def laplace(target: Target, mode: Mode, widest: float = 2.0) -> tuple[Gaussian, float]:
    """Returns the normal at a mode with the curvature there, by central differences of the
    gradient; and the nats by which Newton's step promises more, few where the search arrived.

    No coordinate's standard deviation is above `widest`: where the density is flat the whole step
    would lead astray."""
    dim, width = len(mode.x), 0.1 if target.epsilon > 1e-10 else 1e-3
    steps = width * np.minimum(mode.sds, widest)
    _, slopes = target.slopes(np.concatenate([mode.x + np.diag(steps), mode.x - np.diag(steps)]))
    hessian = (slopes[:dim] - slopes[dim:]) / (2 * steps[:, None])
    units = 1 / np.sqrt(np.maximum(np.abs(np.diag(hessian)), 1 / widest**2))
    w, v = np.linalg.eigh(-0.5 * (hessian + hessian.T) * units * units[:, None])
    curved = np.maximum(
        np.abs(w), 1e-10 * np.abs(w).max()
    )  # up the neck of a funnel they differ by more than digits
    precision = (v * curved) @ v.T + np.diag((units / widest) ** 2)
    scale = units[:, None] * root_of_inverse(precision)
    whitened = 0.5 * (slopes[:dim] + slopes[dim:]).mean(0) @ scale
    return Gaussian(mode.x, scale, -np.inf), 0.5 * float(whitened @ whitened)


def root_of_inverse(precision: np.ndarray) -> Float[np.ndarray, "D D"]:
    """Returns the lower triangle L with L L' the inverse of a positive definite matrix."""
    flipped = np.linalg.cholesky(precision[::-1, ::-1])  # precision = U U', U upper: then L = U'^-1
    return linalg.solve_triangular(flipped[::-1, ::-1].T, np.eye(len(precision)), lower=True)


# --- steps ----------------------------------------------------------------------------------------
class Regression(NamedTuple):
    """The step that scores at draws ask for, and the noise in it."""

    slope: Float[np.ndarray, " D"]  # a, (D,)
    curvature: Float[np.ndarray, "D D"]  # B, (D, D)
    sds: Float[np.ndarray, " D"]  # standard errors of a, in posterior standard deviations, (D,)
    # Length of a whole step that is made by the noise alone: half the squared errors of the means,
    # and a quarter of the squared errors of the D^2 curvatures
    nats: float


def regress_scores(
    noise: Float[np.ndarray, "draws D"], scores: Float[np.ndarray, "draws D"]
) -> Regression:
    """Regresses scores on noise whose second half is minus the first.

    The even part of the residuals is the same at both draws of a pair, and disturbs the means
    alone; the odd part disturbs the curvatures alone. So pairs count, not draws."""
    slope, curvature = regression(noise, scores, diagonal=False, xp=np)
    left = scores - slope + noise @ curvature
    pairs, dim = len(noise) // 2, noise.shape[1]
    even, odd = 0.5 * (left[:pairs] + left[pairs:]), 0.5 * (left[:pairs] - left[pairs:])
    of_slope = (even**2).sum(0) / max(pairs - 1, 1) / pairs
    of_curvature = (odd**2).sum(0) / max(pairs - dim, 1) / pairs
    return Regression(
        slope,
        curvature,
        np.sqrt(of_slope),
        float(0.5 * of_slope.sum() + 0.25 * dim * of_curvature.sum()),
    )


class Evaluation(NamedTuple):
    """A normal evaluated on draws."""

    at: Gaussian  # the normal
    elbo: float  # its ELBO on these draws, up to a constant
    asked: Regression  # the step that the scores ask for
    size: float  # largest value of the log density, of which rounding is a share
    # a lower bound on KL(q || p): log of the mean importance ratio, less the mean of its logarithm
    gap: float


def evaluate(target: Target, q: Gaussian, noise: Float[np.ndarray, "draws D"]) -> Evaluation:
    """Computes ELBO and step. Draws at which the density is zero make the ELBO -inf, and push
    nowhere.

    In the frame of q the scores say that log p is about  c + a' e - e' B e / 2,  whose mean over draws is wrong by the
    amount that their second moments are off: it is subtracted. So the ELBO of a normal target is exact, as its steps
    are, and the ELBO rises where the steps lead, but for what is not normal."""
    values, slopes = target.slopes(q.from_noise(noise))
    size = float(np.abs(values[np.isfinite(values)]).max(initial=1.0))
    asked = regress_scores(noise, slopes @ q.scale)
    moments = noise.T @ noise / len(noise) - np.eye(len(asked.slope))
    off = float(asked.slope @ noise.mean(0) - 0.5 * (asked.curvature * moments).sum())
    ratios = values + 0.5 * (noise**2).sum(1)
    known = bool(np.isfinite(ratios).all())  # zeros of p at draws say nothing of its shape
    gap = float(special.logsumexp(ratios) - np.log(len(ratios)) - ratios.mean()) if known else 0.0
    return Evaluation(q, float(values.mean()) - off + q.entropy(), asked, size, gap)


class Step(NamedTuple):
    """A natural-gradient step inside a trust region."""

    to: Gaussian  # where it leads
    nats: float  # KL(to || q)
    # false where the radius or the cone of positive definite matrices made it shorter than was
    # asked
    is_whole: bool


def lower_factor(root: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "D D"]:
    """The lower factor of R R'. It is found without the product, in which a direction a hundred
    million times as narrow as another would be lost in rounding.

    >>> lower_factor(np.diag([1e9, -1e-9])).diagonal().tolist()
    [1000000000.0, 1e-09]
    """
    upper = np.asarray(np.linalg.qr(root.T, mode="r"))
    return upper.T * np.where(np.diagonal(upper) < 0, -1.0, 1.0)


def step(
    q: Gaussian, slope: np.ndarray, curvature: np.ndarray, radius: float, rho: float = 1.0
) -> Step:
    """Takes the KL step towards the normal that the regression describes, as far as the radius and
    the cone allow.

    In the frame of q:  W = I + rho (B - I),   shift = rho W^-1 a,   covariance W^-1."""
    eye, asked = np.eye(len(slope)), rho
    for _ in range(200):
        w, v = np.linalg.eigh(eye + rho * (curvature - eye))
        if w.min() > 0.1:
            shift = rho * (v @ ((v.T @ slope) / w))
            nats = 0.5 * float((1 / w - 1 + np.log(w)).sum() + shift @ shift)
            if nats <= radius:
                break
        rho *= 0.6
    scale = lower_factor(q.scale @ (v / np.sqrt(w)))
    return Step(q._replace(mean=q.mean + q.scale @ shift, scale=scale), nats, rho == asked)

"""The registry: one row per family and regime; every law of tests/families/test_laws.py runs on
every row."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import typing
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.special import log_ndtr
from scipy import stats as sps

from tests.recipes import run_skeleton
from vijax import checks
from vijax.families import (
    Bernoulli,
    Beta,
    Categorical,
    Dirichlet,
    Family,
    Gamma,
    InverseGamma,
    InverseWishart,
    LinearGaussianChain,
    MarkovChain,
    MatrixNormalWishart,
    Multinomial,
    MultivariateNormal,
    MultivariateNormalGamma,
    Normal,
    NormalGamma,
    NormalsWishart,
    NormalWishart,
    Poisson,
    PolyaGamma,
    Product,
    TruncatedNormal,
    Wishart,
    base,
)
from vijax.families.construction import constructor

Recipe = run_skeleton(
    "How to add a family",
    {**vars(typing), **vars(base), "constructor": constructor, "require": checks.require},
)["Exponential"]
"""The family that docs/extending.md writes down."""


@dataclasses.dataclass(frozen=True, eq=False)  # hashed by identity
class Case:
    """A batch of members of one family (one leading batch axis), and what is known of them from
    elsewhere."""

    name: str
    constructor: Callable[..., Family]
    params: Mapping[str, Any]
    """Arguments of the constructor, float64; properties of the same names must give them back."""
    reference: Callable[..., Any] | None = None
    """SciPy's frozen distribution for one member, from the constructor's arguments."""
    reference_entropy: bool = True
    """Whether that distribution's entropy is right."""
    moment: tuple[Callable, Callable] | None = None
    """f(x) of one value and E_q[f(x)] of one member: a closed form that no family uses."""
    support: str | None = None
    """'real', 'positive' or 'unit' where log_prob can be integrated by quadrature."""
    values: Any = None
    """All values of a discrete x (of an unbounded one, all that have a probability), with a batch
    axis of length 1."""
    has_flat: bool = True
    """Whether some member is constant in x; `flat` raises NotImplementedError elsewhere."""
    invalid: tuple[tuple[Callable[..., Family], Mapping[str, Any], str], ...] = ()
    """Constructor, arguments, and the argument that the ValueError must name."""
    outside: tuple[tuple[Any, ...], ...] = ()
    """Leaves of one member outside the domain."""
    gauge: Callable[[Any, Any], Any] = lambda q, v: v
    """Removes from natural parameters the directions in which F is zero."""
    peaked: Callable[[Any], Any] = lambda q: True
    """Which members have a bounded density, hence a mode that nothing exceeds."""
    optimise: bool = False
    """Compile the draws of V with optimisation: without it XLA's CPU backend (jaxlib 0.10.2) never
    returns."""
    extreme: bool = False
    """Finite, and right in float64; too ill-conditioned for float32 Fisher solves and for
    quadrature."""

    def build(self) -> Family:
        """The family, in the working precision; made once."""
        return built(self, bool(jax.config.jax_enable_x64))

    def members(self) -> list[dict[str, Any]]:
        """The constructor's arguments of each member of the batch."""
        size = jax.tree.leaves(self.params)[0].shape[0]
        return [{name: value[i] for name, value in self.params.items()} for i in range(size)]


@functools.cache
def built(case: Case, double: bool) -> Family:
    # A test may ask for it in a function that is traced. Elsewhere jax 0.7 cannot run a mapped scan
    # in this way.
    traced = isinstance(jax.numpy.zeros(()) + 0.0, jax.core.Tracer)
    with jax.ensure_compile_time_eval() if traced else contextlib.nullcontext():
        return case.constructor(**case.params)


def array(*values: Any) -> np.ndarray:
    return np.array(values, np.float64)


def spd(seed: int, size: int, dim: int) -> np.ndarray:
    """Positive definite matrices."""
    root = np.random.default_rng(seed).normal(size=(size, dim, dim))
    return root @ root.swapaxes(-1, -2) + 0.3 * np.eye(dim)


def symmetrised(q: Family, v: Family) -> Family:
    """A direction in which every leaf that is a square matrix is symmetric."""
    is_square = lambda x, n: n == 2 and x.shape[-1] == x.shape[-2]
    leaves = zip(jax.tree.leaves(v), v.event_ndims, strict=True)
    return v.with_naturals(
        [0.5 * (x + jnp.swapaxes(x, -1, -2)) if is_square(x, n) else x for x, n in leaves]
    )


def centred(q: Categorical, v: Categorical) -> Categorical:
    return Categorical(v.logits - jnp.sum(q.probs * v.logits, -1, keepdims=True))


def compositions(total: int, parts: int) -> np.ndarray:
    """All tuples of `parts` counts that sum to `total`."""
    counts = np.stack(np.meshgrid(*[np.arange(total + 1)] * parts, indexing="ij"), -1).reshape(
        -1, parts
    )
    return counts[counts.sum(-1) == total]


def paths(num_states: int, num_steps: int) -> np.ndarray:
    """All sequences of states."""
    grid = np.meshgrid(*[np.arange(num_states)] * num_steps, indexing="ij")
    return np.stack(grid, -1).reshape(-1, num_steps)


def in_range_of_fisher(q: Family, v: Family) -> Family:
    """The part of v that F does not map to zero, by the eigenvectors of the Hessian of A."""

    def one(q: Family, v: Family) -> Family:
        vector, unravel = ravel_pytree(q)
        values, vectors = jnp.linalg.eigh(
            jax.hessian(lambda x: unravel(x).log_normalizer())(vector)
        )
        kept = jnp.where(values > 1e-5, 1.0, 0.0)
        return unravel(vectors @ (kept * (vectors.T @ ravel_pytree(v)[0])))

    return jax.jit(jax.vmap(one))(q, v)


def potentials(
    seed: int, size: int, scale: float, **shapes: tuple[int, ...]
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: scale * rng.normal(size=(size, *shape)) for name, shape in shapes.items()}


def gaussian_potentials(seed: int, size: int, steps: int, dim: int) -> dict[str, np.ndarray]:
    """Diagonal blocks that outweigh the couplings."""
    out = potentials(seed, size, 0.5, linear=(steps, dim), coupling=(steps - 1, dim, dim))
    blocks = spd(seed, size * steps, dim).reshape(size, steps, dim, dim)
    return {**out, "negative_half_precision": -0.5 * (blocks + 3 * np.eye(dim))}


def discrete(probs: np.ndarray) -> Any:
    return sps.rv_discrete(values=(np.arange(len(probs)), probs))


def product(**parts: Mapping[str, Any]) -> Product:
    """A shared batch axis, a factor with a further one, and one with redundant parameters."""
    factors = {
        "levels": Normal.from_mean_variance(**parts["levels"]),
        "weights": MultivariateNormal.from_mean_cov(**parts["weights"]),
    }
    return Product(factors, batch_ndim=1)


def tilted_gamma(law: Gamma, strength: Any, location: Any) -> Any:
    """E[exp(-tau (1 + mu + mu^2 / 2))]: a Gaussian integral over mu, then a gamma's over tau."""
    k, m = strength, location
    exponent = 1 + 0.5 * (k * m**2 - (k * m - 1) ** 2 / (k + 1))
    return jnp.sqrt(k / (k + 1)) * (law.rate / (law.rate + exponent)) ** law.shape


NAN = float("nan")
EYE = np.eye(2)
CHAIN = {
    "linear": np.zeros((3, 2)),
    "negative_half_precision": np.broadcast_to(-0.5 * EYE, (3, 2, 2)),
    "coupling": np.zeros((2, 2, 2)),
}
DYNAMICS = {
    "initial_mean": np.zeros(2),
    "initial_cov": EYE,
    "transition": EYE,
    "noise_cov": EYE,
    "num_steps": 3,
}


def end_to_end_variance(q: LinearGaussianChain) -> Any:
    """Var(x_{1,1} + x_{3,2}), by the dense joint precision of three steps."""
    rows = [[jnp.zeros((2, 2))] * 3 for _ in range(3)]
    for t in range(3):
        rows[t][t] = -(q.negative_half_precision[t] + q.negative_half_precision[t].T)
    for t in range(2):
        rows[t][t + 1], rows[t + 1][t] = -q.coupling[t], -q.coupling[t].T
    a = jnp.array([1.0, 0, 0, 0, 0, 1.0])
    return a @ jnp.linalg.solve(jnp.block(rows), a)


GAMMA = {
    "constructor": Gamma.from_shape_rate,
    "reference": lambda shape, rate: sps.gamma(shape, scale=1 / rate),
    "peaked": lambda q: q.shape >= 1,
    "moment": (lambda x: jnp.exp(-x), lambda q: (q.rate / (q.rate + 1)) ** q.shape),
}
BETA = {  # its draws are those of a Dirichlet of two, whose moment is checked
    "constructor": Beta.from_alpha_beta,
    "reference": lambda alpha, beta: sps.beta(alpha, beta),
    "peaked": lambda q: (q.alpha >= 1) & (q.beta >= 1),
}
DIRICHLET = {
    "constructor": Dirichlet.from_concentration,
    "reference": lambda concentration: sps.dirichlet(concentration),
    "peaked": lambda q: jnp.all(q.concentration >= 1, -1),
    "moment": (
        lambda x: x[0] ** 2,
        lambda q: (
            q.concentration[0]
            * (q.concentration[0] + 1)
            / (jnp.sum(q.concentration) * (jnp.sum(q.concentration) + 1))
        ),
    ),
}
NORMAL = {
    "constructor": Normal.from_mean_variance,
    "reference": lambda mean, variance: sps.norm(mean, np.sqrt(variance)),
    "moment": (jnp.cos, lambda q: jnp.exp(-q.variance() / 2) * jnp.cos(q.mean())),
}
MULTIVARIATE_NORMAL = {
    "constructor": MultivariateNormal.from_mean_cov,
    "reference": lambda mean, cov: sps.multivariate_normal(mean, cov),
    "moment": (
        lambda x: jnp.cos(jnp.sum(x)),
        lambda q: jnp.exp(-jnp.sum(q.cov) / 2) * jnp.cos(jnp.sum(q.mean())),
    ),
    "gauge": symmetrised,
}

INVERSE_GAMMA = {
    "constructor": InverseGamma.from_shape_scale,
    "reference": lambda shape, scale: sps.invgamma(shape, scale=scale),
    "moment": (lambda x: jnp.exp(-1 / x), lambda q: (q.scale / (q.scale + 1)) ** q.shape),
}
NORMAL_GAMMA = {
    "constructor": NormalGamma.from_parameters,
    "peaked": lambda q: q.shape >= 0.5,
    "moment": (  # exp<v, t(x)>, whose mean is exp(A(lambda + v) - A(lambda))
        lambda x: jnp.exp(-x.precision * (1 + x.mean + 0.5 * x.mean**2)),
        lambda q: tilted_gamma(q.precision_law(), q.strength, q.location),
    ),
}
WISHART = {
    "constructor": Wishart.from_degrees_scale,
    "reference": lambda degrees, scale: sps.wishart(degrees, scale),
    "peaked": lambda q: q.degrees >= q.dim + 1,
    "moment": (
        lambda x: jnp.exp(-0.5 * jnp.sum(x)),
        lambda q: (1 + jnp.sum(q.scale)) ** (-q.half_degrees),
    ),
    "gauge": symmetrised,
}
INVERSE_WISHART = {
    "constructor": InverseWishart.from_degrees_scale,
    "reference": lambda degrees, scale: sps.invwishart(degrees, scale),
    "reference_entropy": False,  # SciPy 1.17 adds (D + 1) log 2 where D > 1
    "moment": (
        lambda x: jnp.exp(-0.5 * jnp.linalg.inv(x)[0, 0]),
        lambda q: (1 + jnp.linalg.inv(q.scale)[0, 0]) ** (0.5 * -q.degrees),
    ),
    "gauge": symmetrised,
}
NORMAL_WISHART = {
    "constructor": NormalWishart.from_parameters,
    "peaked": lambda q: q.degrees >= q.dim,
    "gauge": symmetrised,
}

NORMALS_WISHART = {
    "constructor": NormalsWishart.from_parameters,
    "peaked": lambda q: q.degrees > q.dim + 1 - q.num_means,
    "gauge": symmetrised,
}
TRUNCATED_NORMAL = {
    "constructor": TruncatedNormal.from_mean_variance,
    "reference_entropy": False,  # SciPy's is NaN for an infinite end
    "reference": lambda location, spread: sps.truncnorm(
        -location / spread**0.5, np.inf, location, spread**0.5
    ),
    "moment": (
        lambda x: jnp.exp(-x),
        lambda q: jnp.exp(
            0.5 * q.spread
            - q.location
            + log_ndtr((q.location - q.spread) / jnp.sqrt(q.spread))
            - log_ndtr(q.location / jnp.sqrt(q.spread))
        ),
    ),
}


def polya_gamma(b: int) -> dict[str, Any]:
    """Of a Laplace transform, (cosh(c / 2) / cosh(sqrt(c^2 / 4 + s / 2)))^b at s = 1."""
    log_cosh = lambda x: jnp.logaddexp(x, -x)
    return {
        "constructor": lambda c: PolyaGamma.from_b_c(b, c),
        "has_flat": False,
        "moment": (
            lambda x: jnp.exp(-x),
            lambda q: jnp.exp(b * (log_cosh(q.c / 2) - log_cosh(jnp.sqrt(q.c**2 / 4 + 0.5)))),
        ),
    }


FAMILIES = [
    Case(
        "gamma",
        params={"shape": array(0.7, 2.0, 30.0), "rate": array(3.0, 0.5, 20.0)},
        support="positive",
        invalid=(
            (Gamma.from_shape_rate, {"shape": 0.0, "rate": 1.0}, "shape"),
            (Gamma.from_shape_rate, {"shape": 1.0, "rate": -1.0}, "rate"),
            (Gamma.from_shape_rate, {"shape": NAN, "rate": 1.0}, "shape"),
        ),
        outside=((-1.0, -1.0), (0.0, -1.0), (1.0, 0.0), (1.0, 2.0)),
        **GAMMA,
    ),
    Case(
        "gamma_extreme",
        params={"shape": array(1e-3, 0.02, 1e6), "rate": array(1.0, 1e4, 1e-3)},
        extreme=True,
        **GAMMA,
    ),
    Case(
        "beta",
        params={"alpha": array(0.8, 2.0, 40.0), "beta": array(0.6, 5.0, 7.0)},
        support="unit",
        invalid=(
            (Beta.from_alpha_beta, {"alpha": -1.0, "beta": 1.0}, "alpha"),
            (Beta.from_alpha_beta, {"alpha": 1.0, "beta": 0.0}, "beta"),
        ),
        outside=((-1.0, 1.0), (1.0, 0.0)),
        **BETA,
    ),
    Case(
        "beta_extreme",
        params={"alpha": array(0.01, 1e5, 0.05), "beta": array(0.02, 1e6, 1e4)},
        extreme=True,
        **BETA,
    ),
    Case(
        "dirichlet",
        params={
            "concentration": array(
                [0.5, 1.0, 2.0, 7.0], [30.0, 0.9, 0.3, 1.5], [1.0, 1.0, 1.0, 1.0]
            )
        },
        invalid=(
            (Dirichlet.from_concentration, {"concentration": [1.0, 0.0]}, "concentration"),
            (Dirichlet.from_concentration, {"concentration": 1.0}, "concentration"),
            (Dirichlet.from_concentration, {"concentration": [1.0, NAN]}, "concentration"),
        ),
        outside=(([1.0, 1.0, -0.5, 1.0],), ([1.0, 0.0, 1.0, 1.0],)),
        **DIRICHLET,
    ),
    Case(
        "dirichlet_extreme",
        params={
            "concentration": array(
                [0.01, 0.01, 0.01, 0.001], [1e7, 1e-2, 1.0, 50.0], [1e-2, 1e4, 1e4, 1e5]
            )
        },
        extreme=True,
        **DIRICHLET,
    ),
    Case(
        "normal",
        params={"mean": array(-2.0, 0.0, 3.0), "variance": array(0.3, 1.0, 4.0)},
        support="real",
        invalid=(
            (Normal.from_mean_variance, {"mean": 0.0, "variance": 0.0}, "variance"),
            (Normal.from_mean_variance, {"mean": NAN, "variance": 1.0}, "mean"),
            (Normal.from_mean_variance, {"mean": 0.0, "variance": [1.0, -1.0]}, "variance"),
        ),
        outside=((0.0, 0.0), (0.0, 1.0), (0.0, -float("inf"))),
        **NORMAL,
    ),
    Case(
        "normal_extreme",
        params={"mean": array(-100.0, 0.0, 1e-3), "variance": array(1e-4, 1e8, 1e-8)},
        extreme=True,
        **NORMAL,
    ),
    Case(
        "multivariate_normal",
        params={"mean": array([1.0, -0.5, 0.3], [0.0, 2.0, -1.0]), "cov": spd(0, 2, 3)},
        invalid=(
            (
                MultivariateNormal.from_mean_cov,
                {"mean": [0.0, 0.0], "cov": [[1.0, 2.0], [2.0, 1.0]]},
                "cov",
            ),
            (
                MultivariateNormal.from_mean_cov,
                {"mean": [0.0, 0.0], "cov": [[1.0, 0.5], [0.0, 1.0]]},
                "cov",
            ),
            (MultivariateNormal.from_mean_cov, {"mean": [0.0, NAN], "cov": np.eye(2)}, "mean"),
            (MultivariateNormal.from_mean_cov, {"mean": [0.0, 0.0, 0.0], "cov": np.eye(2)}, "cov"),
            (
                MultivariateNormal.from_mean_precision,
                {"mean": [0.0, 0.0], "precision": -np.eye(2)},
                "precision",
            ),
            (
                MultivariateNormal.from_mean_precision,
                {"mean": [0.0], "precision": [[NAN]]},
                "precision",
            ),
        ),
        outside=(
            ([0.0, 0.0, 0.0], np.diag([-1.0, -1.0, 0.1])),
            ([0.0, 0.0, 0.0], np.zeros((3, 3))),
        ),
        **MULTIVARIATE_NORMAL,
    ),
    Case(
        "multivariate_normal_extreme",
        params={
            "mean": array([10.0, 0.0, -10.0], [0.0, 0.0, 0.0]),
            "cov": np.stack([np.diag([1e-4, 1.0, 1e2]) + 1e-5, 1e-6 * (np.eye(3) + 0.99)]),
        },
        extreme=True,
        **MULTIVARIATE_NORMAL,
    ),
    Case(
        "categorical",
        constructor=Categorical.from_probs,
        params={"probs": array([0.1, 0.2, 0.7], [1 / 3, 1 / 3, 1 / 3], [0.6, 0.39, 0.01])},
        reference=discrete,
        values=np.arange(3)[:, None],
        gauge=centred,
        invalid=(
            (Categorical.from_probs, {"probs": [0.5, 0.6]}, "probs"),
            (Categorical.from_probs, {"probs": [1.5, -0.5]}, "probs"),
            (Categorical.from_probs, {"probs": 1.0}, "probs"),
            (Categorical.from_logits, {"logits": [0.0, -float("inf")]}, "logits"),
        ),
        outside=(([0.0, NAN, 0.0],), ([0.0, -float("inf"), 0.0],)),
    ),
    Case(
        "categorical_extreme",
        constructor=Categorical.from_logits,
        params={"logits": array([1e4, 0.0, -1e4], [-500.0, 0.0, 0.0], [0.0, 0.0, -80.0])},
        gauge=centred,
        extreme=True,
    ),
    Case(
        "bernoulli",
        constructor=Bernoulli.from_probs,
        params={"probs": array(0.2, 0.5, 0.99)},
        reference=lambda probs: sps.bernoulli(probs),
        values=np.arange(2)[:, None],
        invalid=(
            (Bernoulli.from_probs, {"probs": 1.5}, "probs"),
            (Bernoulli.from_probs, {"probs": NAN}, "probs"),
            (Bernoulli.from_logit, {"logit": float("inf")}, "logit"),
        ),
        outside=((NAN,), (float("inf"),)),
    ),
    Case(
        "bernoulli_extreme",
        constructor=Bernoulli.from_logit,
        params={"logit": array(-1e4, 60.0, -40.0)},
        extreme=True,
    ),
    Case(
        "inverse_gamma",
        params={"shape": array(1.7, 3.0, 30.0), "scale": array(3.0, 0.5, 20.0)},
        support="positive",
        invalid=(
            (InverseGamma.from_shape_scale, {"shape": 0.0, "scale": 1.0}, "shape"),
            (InverseGamma.from_shape_scale, {"shape": 1.0, "scale": NAN}, "scale"),
        ),
        outside=((1.0, -1.0), (-1.0, 0.0)),
        **INVERSE_GAMMA,
    ),
    Case(
        "inverse_gamma_extreme",
        params={"shape": array(1.02, 1e6, 40.0), "scale": array(1e-4, 1e4, 1e6)},
        extreme=True,
        **INVERSE_GAMMA,
    ),
    Case(
        "normal_gamma",
        params={
            "location": array(-1.0, 0.3, 2.0),
            "strength": array(0.5, 3.0, 1.0),
            "shape": array(0.8, 2.0, 30.0),
            "rate": array(3.0, 0.5, 20.0),
        },
        invalid=tuple(
            (
                NormalGamma.from_parameters,
                {**dict.fromkeys(("location", "strength", "shape", "rate"), 1.0), name: bad},
                name,
            )
            for name, bad in (
                ("location", NAN),
                ("strength", 0.0),
                ("shape", -1.0),
                ("rate", float("inf")),
            )
        ),
        outside=((0.0, 0.0, -1.0, 1.0), (2.0, -0.5, -1.0, 1.0), (0.0, -0.5, -1.0, 0.0)),
        **NORMAL_GAMMA,
    ),
    Case(
        "normal_gamma_extreme",
        params={
            "location": array(3.0, 0.0, -1.0),
            "strength": array(1e5, 1e-4, 1e-2),
            "shape": array(1e5, 0.05, 1e3),
            "rate": array(1e5, 10.0, 1e6),
        },
        extreme=True,
        **{**NORMAL_GAMMA, "moment": None},
    ),
    Case(
        "wishart",
        params={"degrees": array(4.5, 30.0), "scale": spd(2, 2, 3) / 5},
        invalid=(
            (Wishart.from_degrees_scale, {"degrees": 1.0, "scale": np.eye(2)}, "degrees"),
            (
                Wishart.from_degrees_scale,
                {"degrees": 3.0, "scale": [[1.0, 2.0], [2.0, 1.0]]},
                "scale",
            ),
            (Wishart.from_degrees_scale, {"degrees": 3.0, "scale": 1.0}, "scale"),
        ),
        outside=((-np.eye(3), 1.0), (np.eye(3), 3.0), (np.zeros((3, 3)), 3.0)),
        **WISHART,
    ),
    Case(
        "wishart_extreme",
        params={
            "degrees": array(2.01, 1e5),
            "scale": np.stack([np.diag([1e-3, 1.0, 1e2]) + 1e-4, 1e-4 * (np.eye(3) + 0.9)]),
        },
        extreme=True,
        **{
            **WISHART,
            "reference": None,
        },  # SciPy refuses draws that are singular when rounded to float32
    ),
    Case(
        "inverse_wishart",
        params={"degrees": array(6.0, 30.0), "scale": spd(3, 2, 3)},
        invalid=(
            (InverseWishart.from_degrees_scale, {"degrees": 1.0, "scale": np.eye(2)}, "degrees"),
            (
                InverseWishart.from_degrees_scale,
                {"degrees": 3.0, "scale": [[1.0, 0.5], [0.0, 1.0]]},
                "scale",
            ),
        ),
        outside=((-np.eye(3), -1.0), (np.eye(3), -3.0)),
        **INVERSE_WISHART,
    ),
    Case(
        "multivariate_normal_gamma",
        constructor=MultivariateNormalGamma.from_parameters,
        params={
            "location": array([1.0, -0.5, 0.3], [0.0, 2.0, -1.0]),
            "strength": spd(5, 2, 3),
            "shape": array(0.8, 6.0),
            "rate": array(2.0, 3.0),
        },
        peaked=lambda q: q.shape + 0.5 * q.dim >= 1,
        gauge=symmetrised,
        invalid=tuple(
            (
                MultivariateNormalGamma.from_parameters,
                {
                    "location": [0.0, 0.0],
                    "strength": np.eye(2),
                    "shape": 1.0,
                    "rate": 1.0,
                    name: bad,
                },
                name,
            )
            for name, bad in (
                ("location", [NAN, 0.0]),
                ("location", [0.0] * 3),
                ("strength", -np.eye(2)),
                ("shape", 0.0),
                ("rate", -1.0),
            )
        ),
        outside=(
            (np.zeros(3), np.eye(3), -1.0, 1.0),
            (np.zeros(3), -np.eye(3), 0.0, 1.0),
            (np.zeros(3), -np.eye(3), -1.0, 0.0),
        ),
    ),
    Case(
        "matrix_normal_wishart",
        constructor=MatrixNormalWishart.from_parameters,
        params={
            "location": np.stack(
                [
                    array([1.0, -0.5], [0.0, 2.0], [-1.0, 0.3]),
                    array([0.2, 0.1], [1.0, 0.0], [0.0, -0.7]),
                ]
            ),
            "strength": spd(6, 2, 3),
            "degrees": array(3.5, 30.0),
            "scale": spd(5, 2, 2) / 5,
        },
        peaked=lambda q: q.degrees > q.dim + 1 - q.num_rows,
        gauge=symmetrised,
        invalid=tuple(
            (
                MatrixNormalWishart.from_parameters,
                {
                    "location": np.zeros((3, 2)),
                    "strength": np.eye(3),
                    "degrees": 3.0,
                    "scale": np.eye(2),
                    name: bad,
                },
                name,
            )
            for name, bad in (
                ("location", np.full((3, 2), NAN)),
                ("location", np.zeros((2, 2))),
                ("strength", -np.eye(3)),
                ("degrees", 1.0),
                ("scale", -np.eye(2)),
            )
        ),
        outside=(
            (np.zeros((3, 2)), -np.eye(3), -np.eye(2), 0.4),
            (np.zeros((3, 2)), np.eye(3), -np.eye(2), 3.0),
            (np.full((3, 2), 3.0), -np.eye(3), -np.eye(2), 3.0),
        ),
    ),
    Case(
        "normal_wishart",
        params={
            "location": array([1.0, -0.5, 0.3], [0.0, 2.0, -1.0]),
            "strength": array(0.7, 5.0),
            "degrees": array(4.5, 30.0),
            "scale": spd(4, 2, 3) / 5,
        },
        invalid=tuple(
            (
                NormalWishart.from_parameters,
                {
                    "location": [0.0, 0.0],
                    "strength": 1.0,
                    "degrees": 3.0,
                    "scale": np.eye(2),
                    name: bad,
                },
                name,
            )
            for name, bad in (
                ("location", [NAN, 0.0]),
                ("location", [0.0] * 3),
                ("strength", 0.0),
                ("degrees", 1.0),
                ("scale", -np.eye(2)),
            )
        ),
        outside=(
            (np.zeros(3), -np.eye(3), -1.0, 0.9),
            (np.zeros(3), -np.eye(3), 0.0, 3.0),
            (np.full(3, 3.0), -np.eye(3), -1.0, 3.0),
        ),
        **NORMAL_WISHART,
    ),
    Case(
        "normal_wishart_extreme",
        params={
            "location": array([1.0, -0.5, 0.3], [0.0, 0.0, 1e-3]),
            "strength": array(1e-2, 1e5),
            "degrees": array(2.5, 1e5),
            "scale": np.stack([np.diag([1e-2, 1.0, 10.0]) + 1e-3, 1e-4 * (np.eye(3) + 0.9)]),
        },
        extreme=True,
        **NORMAL_WISHART,
    ),
    Case(
        "normals_wishart",
        params={
            "location": np.stack(
                [
                    array([1.0, -0.5], [0.0, 2.0], [-1.0, 0.3]),
                    array([0.2, 0.1], [1.0, 0.0], [0.0, -0.7]),
                ]
            ),
            "strength": array([0.7, 5.0, 1.0], [2.0, 0.4, 9.0]),
            "degrees": array(3.5, 30.0),
            "scale": spd(5, 2, 2) / 5,
        },
        invalid=tuple(
            (
                NormalsWishart.from_parameters,
                {
                    "location": np.zeros((3, 2)),
                    "strength": np.ones(3),
                    "degrees": 3.0,
                    "scale": np.eye(2),
                    name: bad,
                },
                name,
            )
            for name, bad in (
                ("location", np.full((3, 2), NAN)),
                ("location", [0.0, 0.0]),
                ("strength", [1.0, 0.0, 1.0]),
                ("degrees", 1.0),
                ("scale", -np.eye(2)),
            )
        ),
        outside=(
            (np.zeros((3, 2)), -np.eye(2), -np.ones(3), 0.4),
            (np.zeros((3, 2)), -np.eye(2), array(-1.0, 0.0, -1.0), 3.0),
            (np.full((3, 2), 3.0), -np.eye(2), -np.ones(3), 3.0),
        ),
        **NORMALS_WISHART,
    ),
    Case(
        "normals_wishart_extreme",
        params={
            "location": np.stack(
                [
                    array([1.0, -0.5], [0.0, 2.0], [-1.0, 0.3]),
                    array([0.0, 1e-3], [1e-3, 0.0], [0.0, 0.0]),
                ]
            ),
            "strength": array([1e-2, 1.0, 3.0], [1e5, 1e3, 1e4]),
            "degrees": array(1.5, 1e5),
            "scale": np.stack([np.diag([1e-2, 1.0]) + 1e-3, 1e-4 * (np.eye(2) + 0.9)]),
        },
        extreme=True,
        **NORMALS_WISHART,
    ),
    Case(
        "poisson",
        constructor=Poisson.from_rate,
        params={"rate": array(0.01, 1.7, 60.0)},
        reference=lambda rate: sps.poisson(rate),
        values=np.arange(250)[:, None],
        has_flat=False,
        invalid=(
            (Poisson.from_rate, {"rate": 0.0}, "rate"),
            (Poisson.from_rate, {"rate": NAN}, "rate"),
            (Poisson.from_log_rate, {"log_rate": float("inf")}, "log_rate"),
        ),
        outside=((NAN,), (float("inf"),)),
    ),
    Case(
        "poisson_extreme",
        constructor=Poisson.from_rate,
        params={"rate": array(1e-6, 1e4, 1e6)},
        has_flat=False,
        extreme=True,
    ),
    Case(
        "multinomial",
        constructor=lambda probs: Multinomial.from_probs(probs, 5),
        params={"probs": array([0.1, 0.2, 0.7], [1 / 3, 1 / 3, 1 / 3], [0.6, 0.39, 0.01])},
        reference=lambda probs: sps.multinomial(5, probs),
        values=compositions(5, 3)[:, None],
        gauge=lambda q, v: dataclasses.replace(v, logits=centred(q, v).logits),
        has_flat=False,
        invalid=(
            (Multinomial.from_probs, {"probs": [0.5, 0.6], "total": 3}, "probs"),
            (Multinomial.from_probs, {"probs": [0.5, 0.5], "total": -1}, "total"),
            (Multinomial.from_logits, {"logits": [0.0, 0.0], "total": 1.5}, "total"),
            (Multinomial.from_logits, {"logits": [0.0, NAN], "total": 1}, "logits"),
        ),
        outside=(([0.0, NAN, 0.0],), ([0.0, -float("inf"), 0.0],)),
    ),
    Case(
        "multinomial_extreme",
        constructor=lambda logits: Multinomial.from_logits(logits, 100_000),
        params={"logits": array([0.0, -1.0, -3.0], [-20.0, 0.0, 0.0], [0.0, 0.0, -80.0])},
        gauge=lambda q, v: dataclasses.replace(v, logits=centred(q, v).logits),
        has_flat=False,
        extreme=True,
    ),
    Case(
        "markov_chain",
        constructor=MarkovChain.from_potentials,
        params=potentials(5, 2, 1.0, initial=(3,), transition=(3, 3), unary=(4, 3)),
        values=paths(3, 4)[:, None],
        gauge=in_range_of_fisher,
        invalid=(
            (
                MarkovChain.from_potentials,
                {"initial": [0.0, NAN], "transition": EYE, "unary": EYE},
                "initial",
            ),
            (
                MarkovChain.from_potentials,
                {"initial": [0.0, 0.0], "transition": EYE[:1], "unary": EYE},
                "transition",
            ),
            (
                MarkovChain.from_potentials,
                {"initial": [0.0, 0.0], "transition": EYE, "unary": EYE[0]},
                "unary",
            ),
            (
                MarkovChain.from_probs,
                {"initial": [1.0, 0.0], "transition": EYE, "num_steps": 0},
                "num_steps",
            ),
            (
                MarkovChain.from_probs,
                {"initial": [1.0, 0.0], "transition": EYE + 1, "num_steps": 1},
                "probs",
            ),
        ),
        outside=((np.full(3, NAN), np.zeros((3, 3)), np.zeros((4, 3))),),
    ),
    Case(
        "markov_chain_extreme",
        constructor=MarkovChain.from_potentials,
        params=potentials(6, 2, 30.0, initial=(3,), transition=(3, 3), unary=(4, 3)),
        gauge=in_range_of_fisher,
        extreme=True,
    ),
    Case(
        "markov_chain_by_step",
        constructor=MarkovChain.from_potentials,
        params=potentials(7, 2, 1.0, initial=(2,), transition=(2, 2, 2), unary=(3, 2)),
        values=paths(2, 3)[:, None],
        gauge=in_range_of_fisher,
    ),
    Case(
        "linear_gaussian_chain",
        constructor=LinearGaussianChain.from_potentials,
        params=gaussian_potentials(8, 2, 3, 2),
        optimise=True,
        moment=(
            lambda x: jnp.cos(x[0, 0] + x[2, 1]),
            lambda q: (
                jnp.exp(-0.5 * end_to_end_variance(q)) * jnp.cos(q.mean()[0, 0] + q.mean()[2, 1])
            ),
        ),
        gauge=lambda q, v: dataclasses.replace(
            v,
            negative_half_precision=0.5
            * (v.negative_half_precision + v.negative_half_precision.swapaxes(-1, -2)),
        ),
        invalid=(
            (
                LinearGaussianChain.from_potentials,
                {**CHAIN, "linear": np.full((3, 2), NAN)},
                "linear",
            ),
            (
                LinearGaussianChain.from_potentials,
                {**CHAIN, "coupling": np.zeros((3, 2, 2))},
                "coupling",
            ),
            (
                LinearGaussianChain.from_potentials,
                {**CHAIN, "coupling": np.ones((2, 2, 2))},
                "negative_half_precision",
            ),
            (LinearGaussianChain.from_dynamics, {**DYNAMICS, "num_steps": 0}, "num_steps"),
            (LinearGaussianChain.from_dynamics, {**DYNAMICS, "noise_cov": -EYE}, "noise_cov"),
            (LinearGaussianChain.from_dynamics, {**DYNAMICS, "transition": [[1.0]]}, "transition"),
        ),
        outside=((np.zeros((3, 2)), np.zeros((3, 2, 2)), np.zeros((2, 2, 2))),),
    ),
    Case(
        "truncated_normal",
        params={"location": array(-2.0, 0.3, 3.0), "spread": array(0.5, 1.0, 4.0)},
        support="positive",
        invalid=(
            (TruncatedNormal.from_mean_variance, {"location": 0.0, "spread": 0.0}, "spread"),
            (TruncatedNormal.from_mean_variance, {"location": NAN, "spread": 1.0}, "location"),
        ),
        outside=((0.0, 0.0), (0.0, 1.0), (0.0, -float("inf"))),
        **TRUNCATED_NORMAL,
    ),
    Case(
        "truncated_normal_extreme",
        params={"location": array(-40.0, 40.0, -10.0), "spread": array(1.0, 1.0, 0.01)},
        extreme=True,
        **{**TRUNCATED_NORMAL, "reference": None},  # SciPy has no such tails
    ),
    Case(
        "polya_gamma",
        params={"c": array(0.2, 1.5, 12.0)},
        support="positive",
        invalid=(
            (PolyaGamma.from_b_c, {"b": 0, "c": 1.0}, "b"),
            (PolyaGamma.from_b_c, {"b": 1.5, "c": 1.0}, "b"),
            (PolyaGamma.from_b_c, {"b": 1, "c": NAN}, "c"),
            (PolyaGamma.from_b_c, {"b": 1, "c": 1e30}, "c"),
        ),
        outside=((1.0,), (NAN,), (-float("inf"),)),
        **polya_gamma(1),
    ),
    Case(
        "polya_gamma_extreme", params={"c": array(1e-3, 100.0, 1e4)}, extreme=True, **polya_gamma(2)
    ),
    Case(
        "recipe",
        constructor=Recipe.from_rate,
        params={"rate": array(0.5, 2.0)},
        reference=lambda rate: sps.expon(scale=1 / rate),
        support="positive",
        moment=(lambda x: jnp.cos(x), lambda q: q.rate**2 / (1 + q.rate**2)),
        invalid=(
            (Recipe.from_rate, {"rate": -1.0}, "rate"),
            (Recipe.from_rate, {"rate": NAN}, "rate"),
        ),
        outside=((0.0,), (1.0,)),
    ),
    Case(
        "product",
        constructor=product,
        params={
            "levels": {
                "mean": array([0.5, 1.0], [2.0, -7.0]),
                "variance": array([3.0, 0.9], [0.3, 1.5]),
            },
            "weights": {"mean": array([1.0, -0.5], [0.0, 2.0]), "cov": spd(1, 2, 2)},
        },
        gauge=lambda q, v: Product(
            {**v, "weights": symmetrised(q["weights"], v["weights"])}, v.batch_ndim
        ),
    ),
]

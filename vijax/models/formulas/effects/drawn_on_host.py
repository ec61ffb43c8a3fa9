"""Draws of the effects of several factors given the data, at many draws of the other unknowns.

With H = I + Lambda Z' W Z Lambda, the effects in units of their sds are N(H^-1 g, H^-1). A draw is
the solution of H v = g + n with n ~ N(0, H), n = e + Lambda Z' W^1/2 f, and standard normal e and f
for each effect and row (Papandreou and Yuille 2010): H need not be factored for each draw. The
first factor is eliminated. The Schur complement K of the others differs little between draws: it is
solved by conjugate gradients, preconditioned by its factor at the mean of the draws, in float64 up
to `TOLERANCE`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float
from scipy import linalg

from vijax.models.formulas.effects.on_host import HostSums

TOLERANCE, MOST_PASSES = 1e-6, 60
"""Conjugate gradients stop where the residual is this share of the right-hand side, in the norm of
the preconditioner, or after so many passes."""
AT_ONCE = 1 << 23
"""Draws times rows, or times the blocks of the first factor, that are computed at once."""


class Unknowns(NamedTuple):
    """The other unknowns at draws, in units of size one.

    Attributes:
      coefficients: b, (S, p).
      sigma: the sd of errors, (S,).
      ratios: sds of effects divided by sigma, (S, P); the first factor comes first.
    """

    coefficients: Float[np.ndarray, "S p"]
    sigma: Float[np.ndarray, " S"]
    ratios: Float[np.ndarray, "S P"]

    def part(self, draws: slice) -> Unknowns:
        """Some of the draws."""
        return Unknowns(*(x[draws] for x in self))


def draw(
    sums: HostSums,
    effects: Sequence[sp.csr_array],
    weights: Float[np.ndarray, " N"],
    at: Unknowns,
    seed: int,
) -> tuple[Float[np.ndarray, "S J d"], Float[np.ndarray, "S R"]]:
    """Effects of the first factor and of the others, in units of their sds.

    Args:
      sums: the sums over rows.
      effects: Z of each factor, by row.
      weights: weights of the rows.
      at: the other unknowns.
      seed: seed of the draws.
    """
    rng = np.random.default_rng(seed)
    first = effects[0].T.tocsr()
    others = sp.hstack(effects[1:], "csr").T.tocsr()
    precondition = _preconditioner(sums, at.ratios.mean(0))
    size = max(1, AT_ONCE // max(len(weights), sums.own.shape[0] * sums.own.shape[1] ** 2))
    parts = []
    for start in range(0, len(at.sigma), size):
        unknowns = at.part(slice(start, start + size))
        count = len(unknowns.sigma)
        noise = np.stack([rng.standard_normal(len(weights)) for _ in range(count)], 1)
        noise = noise * np.sqrt(weights)[:, None]
        noise_first = rng.standard_normal((count, first.shape[0]))
        noise_others = rng.standard_normal((count, others.shape[0]))
        parts.append(
            _Draws(sums, unknowns).solve(
                (first @ noise).T,
                (others @ noise).T,
                (noise_first, noise_others),
                precondition,
            )
        )
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))  # type: ignore[return-value]


def _preconditioner(sums: HostSums, ratios: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """x -> K^-1 x for each row of x, at these ratios."""
    factor = sums.factorise(ratios)
    return lambda x: linalg.cho_solve((factor, True), x.T, check_finite=False).T


class _Draws:
    """H at some draws of the other unknowns."""

    def __init__(self, sums: HostSums, at: Unknowns):
        d = sums.own.shape[1]
        self._sums = sums
        self._at = at
        self._first = at.ratios[:, None, :d]
        self._rest = at.ratios[:, sums.places]
        blocks = np.eye(d) + self._first[..., None] * sums.own * self._first[:, :, None, :]
        self._inverse = 1 / blocks if d == 1 else np.linalg.inv(blocks)

    def solve(
        self,
        of_first: Float[np.ndarray, "S Jd"],
        of_rest: Float[np.ndarray, "S R"],
        effect_noise: tuple[np.ndarray, np.ndarray],
        precondition: Callable[[np.ndarray], np.ndarray],
    ) -> tuple[Float[np.ndarray, "S J d"], Float[np.ndarray, "S R"]]:
        """H^-1 (g + n), for the first factor and the others.

        Args:
          of_first: Z' W^1/2 f of the first factor.
          of_rest: Z' W^1/2 f of the others.
          effect_noise: e of the first factor, (S, J d), and of the others, (S, R).
          precondition: x -> K^-1 x, roughly.
        """
        sums, at = self._sums, self._at
        count = len(at.sigma)
        groups, d, _ = sums.own.shape
        c = np.concatenate([-at.coefficients, np.ones((count, 1))], 1) / at.sigma[:, None]
        first = np.einsum("jdp,sp->sjd", sums.of_first, c) + of_first.reshape(count, groups, d)
        first = effect_noise[0].reshape(first.shape) + self._first * first
        right = effect_noise[1] + self._rest * (c @ sums.of_rest.T + of_rest)
        reduced_right = right - self._rest * self._across_times(
            self._first * self._solve_blocks(first)
        )
        others = self._conjugate_gradients(reduced_right, precondition)
        explained = (sums.across @ (self._rest * others).T).T.reshape(first.shape)
        return self._solve_blocks(first - self._first * explained), others

    def _solve_blocks(self, x: Float[np.ndarray, "S J d"]) -> Float[np.ndarray, "S J d"]:
        """block^-1 x for the blocks of the first factor."""
        return np.einsum("sjde,sje->sjd", self._inverse, x)

    def _across_times(self, x: Float[np.ndarray, "S J d"]) -> Float[np.ndarray, "S R"]:
        """across' x."""
        return (self._sums.across.T @ x.reshape(len(x), -1).T).T

    def _product(self, x: Float[np.ndarray, "S R"]) -> Float[np.ndarray, "S R"]:
        """K x."""
        scaled = self._rest * x
        across_product = (self._sums.across @ scaled.T).T.reshape(len(x), *self._sums.own.shape[:2])
        explained = self._across_times(
            self._first * self._solve_blocks(self._first * across_product)
        )
        return x + self._rest * ((self._sums.rest @ scaled.T).T - explained)

    def _conjugate_gradients(
        self, right: Float[np.ndarray, "S R"], precondition: Callable[[np.ndarray], np.ndarray]
    ) -> Float[np.ndarray, "S R"]:
        """K^-1 times each row. Rows that do not converge are solved by the factor of their K."""
        x = np.zeros_like(right)
        residual = right
        direction = solved = precondition(residual)
        size = np.sum(residual * solved, 1)
        goal = TOLERANCE**2 * size
        for _ in range(MOST_PASSES):
            if (size <= goal).all():
                return x
            product = self._product(direction)
            step = size / np.maximum(np.sum(direction * product, 1), np.finfo(float).tiny)
            x = x + step[:, None] * direction
            residual = residual - step[:, None] * product
            solved = precondition(residual)
            last_size, size = size, np.sum(residual * solved, 1)
            factor = size / np.maximum(last_size, np.finfo(float).tiny)
            direction = solved + factor[:, None] * direction
        for i in np.flatnonzero(size > goal):
            x[i] = _preconditioner(self._sums, self._at.ratios[i])(right[i][None])[0]
        return x

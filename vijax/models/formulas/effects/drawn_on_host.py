"""Effects of the groups of several factors, drawn given the data, at many draws of the other
unknowns at once.

With H = I + Lambda Z' W Z Lambda the effects in units of their sds are N(H^-1 g, H^-1). A draw is
the solution of H v = g + n, n ~ N(0, H), and n = e + Lambda Z' W^1/2 f of standard normal e and f,
one for each effect and row (Papandreou and Yuille 2010): no factor of H is needed at each draw. The
first factor leaves by elimination; the Schur complement K of the rest, which differs little from
draw to draw, is solved by conjugate gradients that are preconditioned by its factor at the mean of
the draws, to float64's digits but for `TOLERANCE`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float
from scipy import linalg

from vijax.models.formulas.effects.on_host import HostSums

TOLERANCE, MOST_PASSES = 1e-6, 60
"""Share of the right-hand side that conjugate gradients leave, in the norm of the preconditioner;
and their passes."""
AT_ONCE = 1 << 23
"""Numbers of rows, or of effects of the first factor, of the draws that are made at once."""


class Unknowns(NamedTuple):
    """The other unknowns at draws, in units of size one.

    Attributes:
      coefficients: b, (S, p).
      sigma: the sd of errors, (S,).
      ratios: sds of effects by sigma, those of the first factor first, (S, P).
    """

    coefficients: Float[np.ndarray, "S p"]
    sigma: Float[np.ndarray, " S"]
    ratios: Float[np.ndarray, "S P"]

    def part(self, some: slice) -> Unknowns:
        """Some of the draws."""
        return Unknowns(*(x[some] for x in self))


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
      effects: Z of each factor, of rows.
      weights: of the rows.
      at: the other unknowns.
      seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    first, rest = effects[0].T.tocsr(), sp.hstack(effects[1:], "csr").T.tocsr()
    solved = _preconditioner(sums, at.ratios.mean(0))
    size = max(1, AT_ONCE // max(len(weights), sums.own.shape[0] * sums.own.shape[1] ** 2))
    parts = []
    for start in range(0, len(at.sigma), size):
        some = at.part(slice(start, start + size))
        count = len(some.sigma)
        noise = (
            np.stack([rng.standard_normal(len(weights)) for _ in range(count)], 1)
            * np.sqrt(weights)[:, None]
        )
        own = (
            rng.standard_normal((count, first.shape[0])),
            rng.standard_normal((count, rest.shape[0])),
        )
        parts.append(_Draws(sums, some).solve((first @ noise).T, (rest @ noise).T, own, solved))
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))  # type: ignore[return-value]


def _preconditioner(sums: HostSums, ratios: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """x -> K^-1 x of each row of x, at these ratios."""
    factor = sums.factorise(ratios)
    return lambda x: linalg.cho_solve((factor, True), x.T, check_finite=False).T


class _Draws:
    """H at some draws."""

    def __init__(self, sums: HostSums, at: Unknowns):
        d = sums.own.shape[1]
        self._sums, self._at = sums, at
        self._first, self._rest = at.ratios[:, None, :d], at.ratios[:, sums.places]
        blocks = np.eye(d) + self._first[..., None] * sums.own * self._first[:, :, None, :]
        self._inverse = 1 / blocks if d == 1 else np.linalg.inv(blocks)

    def solve(
        self,
        of_first: Float[np.ndarray, "S Jd"],
        of_rest: Float[np.ndarray, "S R"],
        own: tuple[np.ndarray, np.ndarray],
        precondition: Callable[[np.ndarray], np.ndarray],
    ) -> tuple[Float[np.ndarray, "S J d"], Float[np.ndarray, "S R"]]:
        """H^-1 (g + n), with Z' W^1/2 f of both parts, and e of both."""
        sums, at = self._sums, self._at
        count = len(at.sigma)
        groups, d, _ = sums.own.shape
        c = np.concatenate([-at.coefficients, np.ones((count, 1))], 1) / at.sigma[:, None]
        first = np.einsum("jdp,sp->sjd", sums.of_first, c) + of_first.reshape(count, groups, d)
        first = own[0].reshape(first.shape) + self._first * first
        rest = own[1] + self._rest * (c @ sums.of_rest.T + of_rest)
        left = rest - self._rest * self._across_times(self._first * self._solve_blocks(first))
        others = self._conjugate_gradients(left, precondition)
        met = (sums.across @ (self._rest * others).T).T.reshape(first.shape)
        return self._solve_blocks(first - self._first * met), others

    def _solve_blocks(self, x: Float[np.ndarray, "S J d"]) -> Float[np.ndarray, "S J d"]:
        """The blocks of the first factor, solved."""
        return np.einsum("sjde,sje->sjd", self._inverse, x)

    def _across_times(self, x: Float[np.ndarray, "S J d"]) -> Float[np.ndarray, "S R"]:
        """across' x."""
        return (self._sums.across.T @ x.reshape(len(x), -1).T).T

    def _product(self, x: Float[np.ndarray, "S R"]) -> Float[np.ndarray, "S R"]:
        """K x."""
        scaled = self._rest * x
        met = (self._sums.across @ scaled.T).T.reshape(len(x), *self._sums.own.shape[:2])
        explained = self._across_times(self._first * self._solve_blocks(self._first * met))
        return x + self._rest * ((self._sums.rest @ scaled.T).T - explained)

    def _conjugate_gradients(
        self, right: Float[np.ndarray, "S R"], precondition: Callable[[np.ndarray], np.ndarray]
    ) -> Float[np.ndarray, "S R"]:
        """K^-1 times each row; rows that do not arrive are solved by a factor of their own."""
        x, left = np.zeros_like(right), right
        direction = solved = precondition(left)
        size = np.sum(left * solved, 1)
        goal = TOLERANCE**2 * size
        for _ in range(MOST_PASSES):
            if (size <= goal).all():
                return x
            pushed = self._product(direction)
            step = size / np.maximum(np.sum(direction * pushed, 1), np.finfo(float).tiny)
            x = x + step[:, None] * direction
            left = left - step[:, None] * pushed
            solved = precondition(left)
            before, size = size, np.sum(left * solved, 1)
            direction = (
                solved + (size / np.maximum(before, np.finfo(float).tiny))[:, None] * direction
            )
        for i in np.flatnonzero(size > goal):
            x[i] = _preconditioner(self._sums, self._at.ratios[i])(right[i][None])[0]
        return x

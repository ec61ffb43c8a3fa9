"""Dirichlet distributions over points of the simplex of which some entries are fixed: impossible
ones are zero, others have a given probability.

With F the set of the other, free entries and s = 1 - sum of the fixed ones, x_F / s is
Dirichlet(c_F). The statistic is log x on all entries, a constant on the fixed ones, so that an
energy reads log x as of a plain Dirichlet:

    A = log B(c_F) + sum_{v in F} c_v log s + sum_{v not in F} c_v log x_v,
    mu_v = psi(c_v) - psi(C) + log s in F, else log x_v,    C = sum_{v in F} c_v.

Natural parameters of fixed entries have no effect on the law: messages may add to them, and they
then hold expected counts. All numbers of the free entries are those of a Dirichlet whose other
concentrations are too small to count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import (
    as_float,
    context_field,
    family,
    positive_and_finite,
)
from vijax.families.discrete.dirichlet import (
    Concentrations,
    Dirichlet,
    DirichletStats,
    dirichlet_divergence,
    expected_log,
    floored_log,
)
from vijax.families.numeric import special
from vijax.families.numeric.pathwise import log_gamma_from_offset, sample_offset

FREE = -1.0
"""The entry of `fixed` where x is free."""
NEGLIGIBLE = 1e-20
"""Concentration that stands for fixed entries in formulas of the free ones."""
ROUNDING = 1e-6


@family
class PartialDirichlet(Concentrations):
    """A Dirichlet over the entries of a point of the simplex that are not fixed.

    log h(x) = log(share) - sum of log(x) over free entries;  t = (log(x),);  natural parameters
    (concentration,).

    >>> q = PartialDirichlet.from_concentration([2.0, 2.0, 1.0], [FREE, FREE, 0.5])
    >>> q.mean().tolist()
    [0.25, 0.25, 0.5]
    """

    concentration: Float[Array, "*batch v"]
    fixed: Float[Array, "*batch v"] = context_field()

    Stats: ClassVar[type[tuple]] = DirichletStats
    event_ndims: ClassVar[tuple[int, ...]] = (1,)

    @classmethod
    def from_concentration(cls, concentration: Any, fixed: Any) -> Self:
        """Laws of these concentrations; `fixed` has the fixed entries, and -1 for free ones.

        Raises:
          ValueError: concentrations that are not positive and finite; fixed entries that are no
            probabilities, or leave nothing for free ones, or something where there are none.
        """
        c, entries = as_float(concentration), as_float(fixed)
        fits = c.ndim >= 1 and c.shape == entries.shape
        require(fits, "fixed", f"the shape {c.shape} of the concentrations", entries.shape)
        require(positive_and_finite(c), "concentration", "positive finite numbers", c)
        is_free = entries == FREE
        require(
            is_free | ((entries >= 0) & (entries <= 1)),
            "fixed",
            "probabilities, or -1 for free",
            entries,
        )
        total = np.sum(np.where(is_free, 0.0, entries), axis=-1)
        has_free = np.any(is_free, axis=-1)
        fits = np.where(has_free, total < 1 - ROUNDING, np.abs(total - 1) <= ROUNDING)
        require(
            fits, "fixed", "probabilities that leave a rest for the free entries alone", entries
        )
        return cls(c, entries)

    @property
    def is_free(self) -> Bool[Array, "*batch v"]:
        """True for free entries."""
        return self.fixed < 0

    @property
    def share(self) -> Float[Array, "*batch 1"]:
        """s, the probability of the free entries together; 1 if there are none."""
        total = jnp.sum(jnp.where(self.is_free, 0.0, self.fixed), axis=-1, keepdims=True)
        return jnp.where(jnp.any(self.is_free, axis=-1, keepdims=True), 1.0 - total, 1.0)

    def log_normalizer(self) -> Float[Array, "*batch"]:
        c, law = self.concentration, self._free_law().concentration
        logs = c * self._constants()
        terms = special.legendre_gap(law) + law * expected_log(law)
        total = jnp.sum(jnp.where(self.is_free, law, 0.0), axis=-1)
        free = jnp.sum(jnp.where(self.is_free, terms, 0.0), axis=-1)
        has_free = total > 0
        gap = jnp.where(has_free, special.legendre_gap(jnp.where(has_free, total, 1.0)), 0.0)
        return free - gap + jnp.sum(logs, axis=-1)

    def stats(self, x: Float[Array, "*batch v"]) -> DirichletStats:
        return DirichletStats(jnp.where(self.is_free, floored_log(x), floored_log(self.fixed)))

    def log_base_measure(self, stats: DirichletStats) -> Float[Array, "*batch"]:
        free = jnp.sum(jnp.where(self.is_free, stats.log, 0.0), axis=-1)
        return jnp.log(self.share[..., 0]) - free

    def mean(self) -> Float[Array, "*batch v"]:
        return self._point(self._free_law().mean())

    def variance(self) -> Float[Array, "*batch v"]:
        """Variances; zero for fixed entries."""
        return jnp.where(self.is_free, self.share**2 * self._free_law().variance(), 0.0)

    def mode(self) -> Float[Array, "*batch v"]:
        """The mode of the free entries, as `Dirichlet.mode` has it."""
        excess = jnp.where(self.is_free, jnp.maximum(self.concentration - 1.0, 0.0), 0.0)
        total = jnp.sum(excess, axis=-1, keepdims=True)
        count = jnp.maximum(jnp.sum(self.is_free, axis=-1, keepdims=True), 1)
        share = jnp.minimum(excess / jnp.where(total > 0, total, 1.0), 1.0)
        return self._point(jnp.where(total > 0, share, (1.0 / count).astype(share.dtype)))

    def expected_stats(self) -> DirichletStats:
        log = expected_log(self._free_law().concentration)
        return DirichletStats(jnp.where(self.is_free, log, 0.0) + self._constants())

    def entropy(self) -> Float[Array, "*batch"]:
        c = self._free_law().concentration
        total = jnp.sum(c, axis=-1, keepdims=True)
        terms = special.legendre_gap(c) + special.digamma(c) - special.digamma(total)
        free = jnp.sum(jnp.where(self.is_free, terms, 0.0), axis=-1)
        count = jnp.sum(self.is_free, axis=-1)
        volume = (count - 1) * jnp.log(self.share[..., 0])
        entropy = free - special.legendre_gap(total[..., 0]) + volume
        return jnp.where(count > 1, entropy, 0.0)

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """KL(self || other), for laws with the same fixed entries."""
        laws = self._free_law(), self.with_naturals(other)._free_law()
        return dirichlet_divergence(*(law.concentration for law in laws))

    def log_prob(self, x: Float[Array, "*batch v"]) -> Float[Array, "*batch"]:
        """log q of x; -inf if a fixed entry differs by more than 1e-4. At x_v = 0 it is the limit,
        infinite for c_v < 1."""
        x = as_float(x)
        c = self.concentration
        power = jnp.where(self.is_free & (c != 1.0), (c - 1.0) * jnp.log(x), 0.0)
        value = jnp.sum(power, axis=-1) + jnp.log(self.share[..., 0]) - self._free_normalizer()
        is_known = jnp.all(self.is_free | (jnp.abs(x - self.fixed) <= 1e-4), axis=-1)
        return jnp.where(is_known, value, -jnp.inf)

    def fisher_solve(self, cotangent: DirichletStats) -> Self:
        free = jnp.where(self.is_free, cotangent.log, 0.0)
        solved = self._free_law().fisher_solve(DirichletStats(free)).concentration
        return self.with_naturals([jnp.where(self.is_free, solved, 0.0)])

    def sample(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> Float[Array, "*shape_batch v"]:
        """x ~ q; fixed entries are exact."""
        log = self.sample_stats(key, shape).log
        return jnp.where(self.is_free, jnp.exp(log), self.fixed)

    def sample_stats(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> DirichletStats:
        c = jnp.broadcast_to(self.concentration, (*shape, *self.concentration.shape))
        log_gamma = log_gamma_from_offset(c, sample_offset(key, c))
        free = jnp.where(self.is_free, log_gamma, -jnp.inf)
        # Without a free entry the sum would be of nothing.
        has_free = jnp.any(self.is_free, axis=-1, keepdims=True)
        total = jax.nn.logsumexp(jnp.where(has_free, free, 0.0), axis=-1, keepdims=True)
        return DirichletStats(jnp.where(self.is_free, log_gamma - total, 0.0) + self._constants())

    def pathwise_sample(
        self, key: PRNGKeyArray
    ) -> tuple[DirichletStats, Callable[[DirichletStats], Self]]:
        """log x of a draw, and V of the Dirichlet of the free entries; fixed ones do not move."""
        stats, free_product = self._free_law().pathwise_sample(key)
        log = jnp.where(self.is_free, stats.log, 0.0) + self._constants()

        def v(eta: DirichletStats):
            step = free_product(DirichletStats(jnp.where(self.is_free, eta.log, 0.0)))
            return self.with_naturals([jnp.where(self.is_free, step.concentration, 0.0)])

        return DirichletStats(log), v

    def _free_law(self) -> Dirichlet:
        """The Dirichlet of the free entries, x / s; the others do not count."""
        return Dirichlet(jnp.where(self.is_free, self.concentration, NEGLIGIBLE))

    def _free_normalizer(self) -> Float[Array, "*batch"]:
        fixed = jnp.where(self.is_free, 0.0, self.concentration * self._constants())
        return self.log_normalizer() - jnp.sum(fixed, axis=-1)

    def _constants(self) -> Float[Array, "*batch v"]:
        """log s for free entries, log x for fixed ones."""
        return jnp.where(self.is_free, jnp.log(self.share), floored_log(self.fixed))

    def _point(self, share: Float[Array, "*batch v"]) -> Float[Array, "*batch v"]:
        return jnp.where(self.is_free, self.share * share, self.fixed)

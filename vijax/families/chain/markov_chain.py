"""A chain of T discrete states as one family: q(z) = exp{<initial, first> + <transition, pairs> +
<unary, states> - A}.

A is the forward recursion and its gradient the posterior marginals (`vijax.families.chain.chains`).
Sequences of unequal lengths are padded to T steps; `mask` (*batch, T) is true on the steps that
exist, which come first. Padded steps have no effect, whatever their potentials are."""

from __future__ import annotations

import functools
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jax.scipy.sparse.linalg import cg
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from vijax import tree
from vijax.checks import require
from vijax.families.base import Family, as_floats, context_field, domain_mask, family, map_batch
from vijax.families.chain import chains
from vijax.families.discrete.categorical import Categorical, complements

Mask = Bool[Array, "*batch T"] | None


class MarkovChainStats(NamedTuple):
    """t(z): the one-hot first state, counts of pairs (summed over time if the transition is
    shared), and one-hot states."""

    initial: Float[Array, "*batch K"]
    transition: Float[Array, "*batch_steps K K"]
    unary: Float[Array, "*batch T K"]


@family
class MarkovChain(Family):
    """A Markov chain over K states for T steps; its natural parameters are log potentials, event
    axes last.

    log h(x) = 0;  t = (one_hot(x[0]), pairs(x), one_hot(x));  natural parameters (initial, transition, unary).

    `transition` is (*batch, T-1, K, K), or (*batch, K, K), shared by all steps, with the pair
    counts as its statistic. Potentials are redundant, because a constant may move from one to
    another: they need not be normalised, F is singular, and `fisher_solve` returns the shortest
    solution.

    >>> q = MarkovChain.from_probs([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], num_steps=3)
    >>> print(q.mode(), f"{q.mean()[2, 0]:.3f} {q.log_prob(jnp.array([0, 0, 1])):.4f}")
    [0 0 0] 0.585 -3.1011
    >>> print(q.with_context(jnp.array([True, True, False])).probs[:, 0].round(2))
    [0.5  0.55 0.  ]
    """

    initial: Float[Array, "*batch K"]
    transition: Float[Array, "*batch_steps K K"]
    unary: Float[Array, "*batch T K"]
    mask: Mask = context_field()

    Stats: ClassVar[type[tuple]] = MarkovChainStats
    discrete: ClassVar[bool] = True

    @classmethod
    def from_potentials(cls, initial: Any, transition: Any, unary: Any) -> Self:
        """Chains from log potentials of shapes (*batch, K), (*batch, K, K) or (*batch, T-1, K, K),
        and (*batch, T, K).

        Raises:
          ValueError: shapes that do not fit, or entries that are not finite.
        """
        initial, transition, unary = as_floats(initial, transition, unary)
        require(initial.ndim >= 1, "initial", "shape (*batch, K)", f"shape {initial.shape}")
        *batch, k = initial.shape
        fits = (
            unary.ndim == len(batch) + 2
            and unary.shape[:-2] == tuple(batch)
            and unary.shape[-1] == k
            and unary.size
        )
        require(fits, "unary", f"shape {(*batch, 'T', k)}", f"shape {unary.shape}")
        shapes = ((*batch, k, k), (*batch, unary.shape[-2] - 1, k, k))
        expected = f"shape {shapes[0]} or {shapes[1]}"
        require(transition.shape in shapes, "transition", expected, transition.shape)
        for name, value in (("initial", initial), ("transition", transition), ("unary", unary)):
            remedy = "For impossible transitions use a large negative number."
            require(jnp.isfinite(value), name, "finite log potentials", value, remedy)
        return cls(initial, transition, unary)

    @classmethod
    def from_probs(cls, initial: Any, transition: Any, num_steps: int) -> Self:
        """Chains from the probabilities of the first state (*batch, K), and of the next state given
        each state (*batch, K, K), the same at every step; the unary potentials are zero.

        Raises:
          ValueError: probabilities that do not sum to one.
        """
        require(num_steps >= 1, "num_steps", "a positive integer", num_steps)
        first = Categorical.from_probs(initial).logits
        step = Categorical.from_probs(transition).logits
        *batch, k = first.shape
        return cls.from_potentials(first, step, jnp.zeros((*batch, num_steps, k), first.dtype))

    @property
    def event_ndims(self) -> tuple[int, ...]:  # type: ignore[override]
        """Trailing event axes of each natural parameter."""
        return 1, 2 if self.is_shared else 3, 2

    @property
    def is_shared(self) -> bool:
        """True if all steps share one transition potential."""
        return jnp.ndim(self.transition) == jnp.ndim(self.initial) + 1

    @property
    def num_states(self) -> int:
        """K."""
        return self.initial.shape[-1]

    @property
    def num_steps(self) -> int:
        """T."""
        return self.unary.shape[-2]

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A by the forward recursion, O(T K^2), sequential in the steps."""
        return self._map_chains(chains.chain_log_normalizer)

    def expected_stats(self) -> MarkovChainStats:
        return MarkovChainStats(*self._map_chains(chains.chain_marginals))

    def stats(self, x: Int[Array, "*batch T"]) -> MarkovChainStats:
        dtype = self.initial.dtype
        stats = chains.chain_stats(x, self.num_states, self.is_shared, self.mask, dtype)
        return MarkovChainStats(*stats)

    def sample(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> Int[Array, "*shape_batch T"]:
        """Paths by forward filtering and backward sampling."""
        batch_ndim = len(self.batch_shape)
        keys = jax.random.split(key, self.batch_shape)
        draw = functools.partial(chains.chain_sample, shape=shape)
        paths = map_batch(draw, batch_ndim)(keys, *self._potentials(), self.mask)
        leading = tuple(range(batch_ndim))
        trailing = tuple(range(len(shape), len(shape) + batch_ndim))
        return jnp.moveaxis(paths, leading, trailing)

    def mean(self) -> Float[Array, "*batch T K"]:
        return self.expected_stats().unary

    @property
    def probs(self) -> Float[Array, "*batch T K"]:
        """The marginal probabilities of the states, as `mean` returns them."""
        return self.mean()

    def variance(self) -> Float[Array, "*batch T K"]:
        """p (1 - p), the variances of the one-hot states; states have no quantiles."""
        return self.mean() * complements(self.mean())

    def mode(self) -> Int[Array, "*batch T"]:
        """The most probable path (Viterbi)."""
        return self._map_chains(chains.chain_mode)

    def in_domain(self) -> Self:
        pairs = zip(self._potentials(), self.event_ndims, strict=True)
        finite = [jnp.all(jnp.isfinite(x), tuple(range(-n, 0))) for x, n in pairs]
        return domain_mask(finite[0] & finite[1] & finite[2], self)

    def entropy(self) -> Float[Array, "*batch"]:
        """-E[log q] by a recursion of positive terms."""
        return self._map_chains(chains.chain_entropy)

    def fisher_solve(self, cotangent: MarkovChainStats) -> Self:
        """The shortest solution of F x = g by conjugate gradients, with products F v of O(T K^2)
        each and without the matrix F. Any part of g outside the range of F is ignored."""

        def solve_one(q: Self, g: MarkovChainStats) -> Self:
            product = lambda v: list(q.fisher_product(q.with_naturals(v)))
            size = sum(x.size for x in tree.parameters(q))
            tolerance = 100 * float(jnp.finfo(q.initial.dtype).eps)
            solution, _ = cg(product, list(g), tol=tolerance, maxiter=size)
            return q.with_naturals(solution)

        return map_batch(solve_one, len(self.batch_shape))(self, cotangent)

    def _potentials(self) -> tuple[Array, Array, Array]:
        return self.initial, self.transition, self.unary

    def _map_chains(self, f: Any) -> Any:
        return map_batch(f, len(self.batch_shape))(*self._potentials(), self.mask)

"""A chain of T discrete states as one family: q(z) = exp{<initial, first> + <transition, pairs> +
<unary, states> - A}.

A is the forward recursion and its gradient the posterior marginals (`vijax.families.chain.chains`).
Sequences of unequal lengths are padded to T steps; `mask` (*batch, T) is true on the steps that
exist, which come first. Padded steps have no effect, whatever their potentials hold."""

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
    """t(z): one-hot first state, counts of pairs (summed over time where the transition is shared),
    one-hot states."""

    initial: Float[Array, "*batch K"]
    transition: Float[Array, "*batch_steps K K"]
    unary: Float[Array, "*batch T K"]


@family
class MarkovChain(Family):
    """A Markov chain over K states for T steps, natural parameters its log potentials; event axes
    last.

    log h(x) = 0;  t = (one_hot(x[0]), pairs(x), one_hot(x));  natural parameters (initial, transition, unary).

    `transition` is (*batch, K, K), shared by all steps, its statistic the pair counts, or (*batch,
    T-1, K, K). Potentials are redundant (a constant may move from one to another): they need not be
    normalised, F is singular, and `fisher_solve` returns the shortest solution.

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
        batch, k = initial.shape[:-1], initial.shape[-1]
        fits = (
            unary.ndim == len(batch) + 2
            and unary.shape[:-2] == batch
            and unary.shape[-1] == k
            and unary.size
        )
        require(fits, "unary", f"shape {(*batch, 'T', k)}", f"shape {unary.shape}")
        shapes = ((*batch, k, k), (*batch, unary.shape[-2] - 1, k, k))
        require(
            transition.shape in shapes,
            "transition",
            f"shape {shapes[0]} or {shapes[1]}",
            transition.shape,
        )
        for name, value in (("initial", initial), ("transition", transition), ("unary", unary)):
            remedy = "For impossible transitions use a large negative number."
            require(jnp.isfinite(value), name, "finite log potentials", value, remedy)
        return cls(initial, transition, unary)

    @classmethod
    def from_probs(cls, initial: Any, transition: Any, num_steps: int) -> Self:
        """Chains from probabilities of the first state (*batch, K) and of the next one given each
        (*batch, K, K), the same at every step, without further potentials.

        Raises:
          ValueError: they do not sum to one.
        """
        require(num_steps >= 1, "num_steps", "a positive integer", num_steps)
        first, step = (
            Categorical.from_probs(initial).logits,
            Categorical.from_probs(transition).logits,
        )
        return cls.from_potentials(
            first, step, jnp.zeros((*first.shape[:-1], num_steps, first.shape[-1]), first.dtype)
        )

    @property
    def event_ndims(self) -> tuple[int, ...]:  # type: ignore[override]
        """Trailing event axes of each natural parameter."""
        return 1, 2 if self.shared else 3, 2

    @property
    def shared(self) -> bool:
        """True where one transition potential serves all steps."""
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
        """A, by the forward recursion: one step after another, O(T K^2)."""
        return self._each(chains.chain_log_normalizer)

    def expected_stats(self) -> MarkovChainStats:
        return MarkovChainStats(*self._each(chains.chain_marginals))

    def stats(self, x: Int[Array, "*batch T"]) -> MarkovChainStats:
        return MarkovChainStats(
            *chains.chain_stats(x, self.num_states, self.shared, self.mask, self.initial.dtype)
        )

    def sample(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> Int[Array, "*shape_batch T"]:
        """Paths, by forward filtering and backward sampling."""
        keys = jax.random.split(key, self.batch_shape)
        draw = functools.partial(chains.chain_sample, shape=shape)
        paths = map_batch(draw, len(self.batch_shape))(keys, *self._potentials(), self.mask)
        axes = (
            tuple(range(len(self.batch_shape))),
            tuple(range(len(shape), len(shape) + len(self.batch_shape))),
        )
        return jnp.moveaxis(paths, *axes)

    def mean(self) -> Float[Array, "*batch T K"]:
        return self.expected_stats().unary

    @property
    def probs(self) -> Float[Array, "*batch T K"]:
        """The marginal probabilities of the states, as `mean` returns them."""
        return self.mean()

    def variance(self) -> Float[Array, "*batch T K"]:
        """p (1 - p), the variances of the one-hot states. States have no order, and so no
        quantiles."""
        return self.mean() * complements(self.mean())

    def mode(self) -> Int[Array, "*batch T"]:
        """The most probable path (Viterbi)."""
        return self._each(chains.chain_mode)

    def in_domain(self) -> Self:
        pairs = zip(self._potentials(), self.event_ndims, strict=True)
        finite = [jnp.all(jnp.isfinite(x), tuple(range(-n, 0))) for x, n in pairs]
        return domain_mask(finite[0] & finite[1] & finite[2], self)

    def entropy(self) -> Float[Array, "*batch"]:
        """-E[log q], by a recursion of positive terms."""
        return self._each(chains.chain_entropy)

    def fisher_solve(self, cotangent: MarkovChainStats) -> Self:
        """The shortest solution of F x = g, by conjugate gradients on products with F, O(T K^2)
        each, without F itself. The part of g outside the range of F is not solved for."""

        def solve_one(q: Self, g: MarkovChainStats) -> Self:
            product = lambda v: list(q.fisher_product(q.with_naturals(v)))
            size = sum(x.size for x in tree.parameters(q))
            found = cg(
                product, list(g), tol=100 * float(jnp.finfo(q.initial.dtype).eps), maxiter=size
            )[0]
            return q.with_naturals(found)

        return map_batch(solve_one, len(self.batch_shape))(self, cotangent)

    def _potentials(self) -> tuple[Array, Array, Array]:
        return self.initial, self.transition, self.unary

    def _each(self, f: Any) -> Any:
        return map_batch(f, len(self.batch_shape))(*self._potentials(), self.mask)

"""A mapping of named, independent families that is itself a family: q(x) = prod_i q_i(x_i; lambda_i).

The sufficient statistics are a dictionary of the factors' statistics, and so are values, means and modes; the
natural parameters are again a `Product`. Everything is delegated: what a factor has in closed form is never
recomputed here. Blei, Kucukelbir and McAuliffe 2017, section 4.1.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.checks import require
from vijax.families.base import Family

P = TypeVar("P", bound="Product")


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass(frozen=True, eq=False)
class Product(Family, Mapping[str, Family]):
    """Independent families by name, in alphabetical order (as JAX orders dictionaries).

    Args:
      factors: the families by name. Their batch axes may differ.
      batch_ndim: number of leading batch axes that factors share and scalars keep; a factor's further batch axes
        are
        independent copies of it, over which log-normalisers, entropies and the like are summed. With the default 0
        these are scalars.

    Raises:
      ValueError: there is no factor, a factor is no family, or its batch axes do not start with the shared ones.
      KeyError: on `q[name]` of an unknown name; the message names the nearest known one.

    >>> from vijax.families import Dirichlet, Normal
    >>> q = Product({"topics": Dirichlet.from_concentration([[1.0, 2.0], [3.0, 1.0]]),
    ...              "bias": Normal.from_mean_variance(0.5, 2.0)})
    >>> list(q), q.batch_shape, q.entropy().shape
    (['bias', 'topics'], (), ())
    >>> print(q.mean()["bias"], q["topics"].batch_shape)
    0.5 (2,)
    """

    factors: Mapping[str, Family]
    batch_ndim: int = 0

    def __post_init__(self) -> None:
        require(
            isinstance(self.factors, Mapping) and self.factors, "factors", "a mapping of named families", self.factors
        )
        for name, q in self.factors.items():
            require(isinstance(name, str), "factors", "names that are strings", repr(name))
            require(isinstance(q, Family), f"factors[{name!r}]", "a family (vijax.families)", type(q).__name__)
        object.__setattr__(self, "factors", {name: self.factors[name] for name in sorted(self.factors)})
        shared = {q.batch_shape[: self.batch_ndim] for q in self.values()}
        ok = len(shared) == 1 and all(len(s) == self.batch_ndim for s in shared)
        shapes = {name: q.batch_shape for name, q in self.items()}
        require(ok, "factors", f"batch shapes that agree in their first {self.batch_ndim} axes", shapes)

    @classmethod
    def empty(cls) -> Self:
        """A product without factors: the globals of a model in which only points are sought."""
        return _rebuild(cls, {}, 0)

    # --- the mapping and the pytree ---------------------------------------------------------------------------
    def __getitem__(self, name: str) -> Family:
        if name not in self.factors:
            raise KeyError(unknown_name(name, self.factors))
        return self.factors[name]

    def __contains__(self, name: object) -> bool:
        return name in self.factors

    def __iter__(self) -> Iterator[str]:
        return iter(self.factors)

    def __len__(self) -> int:
        return len(self.factors)

    def tree_flatten_with_keys(self) -> tuple[tuple, tuple]:
        """The factors are the children; names and `batch_ndim` are static."""
        children = tuple((jax.tree_util.DictKey(name), q) for name, q in self.factors.items())
        return children, (tuple(self.factors), self.batch_ndim)

    @classmethod
    def tree_unflatten(cls, static: tuple, children: Any) -> Self:
        """Rebuilds without validation: JAX puts placeholders at the leaves."""
        names, batch_ndim = static
        return _rebuild(cls, dict(zip(names, children, strict=True)), batch_ndim)

    def only(self, names: Iterable[str]) -> Self:
        """The product of the factors named."""
        return self._like({name: self[name] for name in sorted(names)})

    def replace(self, other: Mapping[str, Family]) -> Self:
        """This product with its factors of these names replaced by those of `other`."""
        require(set(other) <= set(self), "other", f"names among {list(self)}", list(other))
        return self._like({name: other.get(name, q) for name, q in self.items()})

    # --- what a family must say -------------------------------------------------------------------------------
    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A(lambda) = sum_i A_i(lambda_i)."""
        return self._total(lambda q: q.log_normalizer())

    def stats(self, x: Mapping[str, Any]) -> dict[str, tuple]:
        """Each factor's statistics of its own value."""
        return self._map(lambda q, value: q.stats(value), x=x)

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> dict[str, Any]:
        """One independent draw per factor."""
        return self._map(lambda q, k: q.sample(k, shape), key=self._keys(key))

    def mean(self) -> dict[str, Any]:
        """Each factor's mean."""
        return self._map(lambda q: q.mean())

    def marginal_laws(self) -> dict[str, Any]:
        """Each factor's laws."""
        return self._map(lambda q: q.marginal_laws())

    def variance(self) -> dict[str, Any]:
        """Each factor's variances."""
        return self._map(lambda q: q.variance())

    def mode(self) -> dict[str, Any]:
        """Each factor's mode."""
        return self._map(lambda q: q.mode())

    def in_domain(self) -> Self:
        """Each factor's own mask: one bad factor leaves the others valid."""
        return self._like(self._map(lambda q: q.in_domain()))

    def flat(self) -> Self:
        """Each factor's flat density."""
        return self._like(self._map(lambda q: q.flat()))

    # --- what follows from it, factor by factor ---------------------------------------------------------------
    @property
    def event_ndims(self) -> tuple[int, ...]:  # type: ignore[override]
        """Trailing axes, per leaf, that belong to one event of the product."""
        return tuple(jnp.ndim(leaf) - self.batch_ndim for leaf in tree.parameters(self))

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shared leading batch axes."""
        return next(iter(self.values())).batch_shape[: self.batch_ndim] if self.factors else ()

    def as_stats(self, leaves: PyTree) -> dict[str, tuple]:
        """Any tree with one leaf per natural parameter, as a dictionary of statistics."""
        return self._map(lambda q, part: q.as_stats(part), leaves=self.with_naturals(leaves))

    def dot(self, stats: Mapping[str, tuple]) -> Float[Array, "*batch"]:
        """Sum of <lambda_i, stats_i>."""
        return self._total(lambda q, t: q.dot(t), stats=stats)

    def log_base_measure(self, stats: Mapping[str, tuple]) -> Float[Array, "*batch"]:
        """Sum of the factors' log h_i."""
        return self._total(lambda q, t: q.log_base_measure(t), stats=stats)

    def expected_log_base_measure(self) -> Float[Array, "*batch"]:
        """Sum of the factors' E[log h_i]."""
        return self._total(lambda q: q.expected_log_base_measure())

    def expected_stats(self) -> dict[str, tuple]:
        """Each factor's mean parameters."""
        return self._map(lambda q: q.expected_stats())

    def sample_stats(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> dict[str, tuple]:
        """Each factor's statistics of an independent draw, the draw that `sample` makes with this key."""
        return self._map(lambda q, k: q.sample_stats(k, shape), key=self._keys(key))

    def log_prob(self, x: Mapping[str, Any]) -> Float[Array, "*batch"]:
        """Sum of log q_i(x_i)."""
        return self._total(lambda q, value: q.log_prob(value), x=x)

    def entropy(self) -> Float[Array, "*batch"]:
        """Sum of the factors' entropies."""
        return self._total(lambda q: q.entropy())

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """Sum of KL(q_i || other_i)."""
        return self._total(lambda q, p: q.kl(p), other=other)

    def kl_to_prior(self, prior: Self) -> Float[Array, "*batch"]:
        """Sum of the factors' own `kl_to_prior`."""
        return self._total(lambda q, p: q.kl_to_prior(p), prior=prior)

    def plain(self) -> Self:
        """Each factor's own."""
        return self._like(self._map(lambda q: q.plain()))

    def prepared(self, means: bool = True) -> Self:
        """Each factor's own `prepared`."""
        return self._like(self._map(lambda q: q.prepared(means)))

    def retreat(self, target: Self) -> Self:
        """Each factor's own `retreat`."""
        return self._like(self._map(lambda q, t: q.retreat(t), target=target))

    def with_context(self, context: Mapping[str, Any]) -> Self:
        """The factors named in their contexts, the others as they are."""
        require(set(context) <= set(self), "context", f"names among {list(self)}", list(context))
        return self.replace({name: self[name].with_context(value) for name, value in context.items()})

    def fisher_product(self, tangent: Self) -> dict[str, tuple]:
        """F is block diagonal: one product per factor."""
        return self._map(lambda q, v: q.fisher_product(v), tangent=tangent)

    def fisher_solve(self, cotangent: Mapping[str, tuple]) -> Self:
        """F is block diagonal: one solve per factor."""
        return self._like(self._map(lambda q, g: q.fisher_solve(g), cotangent=cotangent))

    def pathwise_sample(self, key: PRNGKeyArray) -> tuple[dict[str, tuple], Callable[[Mapping[str, tuple]], Self]]:
        """A draw's statistics and V, block diagonal: each factor applies its own."""
        draws = self._map(lambda q, k: q.pathwise_sample(k), key=self._keys(key))

        def v_product(eta: Mapping[str, tuple]) -> Any:
            return self._like(self._map(lambda q, draw, part: draw[1](part), draws=draws, eta=eta))

        return {name: t for name, (t, _) in draws.items()}, v_product

    # --- plumbing ---------------------------------------------------------------------------------------------
    def _keys(self, key: PRNGKeyArray) -> dict[str, PRNGKeyArray]:
        return dict(zip(self, jax.random.split(key, len(self)), strict=True))

    def _map(self, f: Callable, **trees: Mapping[str, Any]) -> dict[str, Any]:
        """f(factor, *parts) by name; a tree that lacks a name or has one too many is an error naming it."""
        for argument, parts in trees.items():
            require(set(parts) == set(self), argument, f"the names {list(self)}", list(parts))
        return {name: f(q, *(parts[name] for parts in trees.values())) for name, q in self.items()}

    def _total(self, f: Callable, **trees: Mapping[str, Any]) -> Float[Array, "*batch"]:
        """The sum over factors of a term per batch element, each summed over the batch axes that are not shared."""
        terms = self._map(f, **trees)
        extra = {name: len(q.batch_shape) - self.batch_ndim for name, q in self.items()}
        sums = [jnp.sum(terms[name], tuple(range(-n, 0))) for name, n in extra.items()]
        return functools.reduce(jnp.add, sums) if sums else jnp.zeros(())

    def _like(self, factors: dict[str, Family]) -> Self:
        return _rebuild(type(self), factors, self.batch_ndim)


def _rebuild(cls: type[P], factors: dict[str, Any], batch_ndim: int) -> P:
    """A product of parts known to be in order, such as JAX's placeholders."""
    q = object.__new__(cls)
    object.__setattr__(q, "factors", factors)
    object.__setattr__(q, "batch_ndim", batch_ndim)
    return q


def unknown_name(name: object, known: Mapping[str, Any]) -> str:
    """Message for an unknown name, with the nearest known one."""
    nearest = difflib.get_close_matches(str(name), list(known), n=1)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return f"no factor named {name!r}; the names are {list(known)}.{hint}"

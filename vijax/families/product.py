"""A mapping of named, independent families that is itself a family: q(x) = prod_i q_i(x_i;
lambda_i).

Statistics, values, means and modes are dictionaries of those of the factors; natural parameters are
again a `Product`; log-normalisers, entropies and divergences are sums. Blei, Kucukelbir and
McAuliffe 2017, section 4.1."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.checks import require
from vijax.families.base import Family

P = TypeVar("P", bound="Product")


def _of_factors(name: str, joined: Callable[[Any, dict[str, Any]], Any]) -> Callable[..., Any]:
    """A method of all factors. Its argument, if any, is a mapping with a value for each; `joined`
    joins the results."""
    signature = inspect.signature(getattr(Family, name))

    @functools.wraps(getattr(Family, name), updated=())  # not the mark of abstract methods
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        _, *given = signature.bind(self, *args, **kwargs).arguments.items()
        return joined(self, self._map(lambda q, *parts: getattr(q, name)(*parts), **dict(given)))

    return method


def _by_name(q: Product, found: dict[str, Any]) -> dict[str, Any]:
    return found


def _as_product(q: Product, found: dict[str, Any]) -> Product:
    return q._like(found)


def _total(q: Product, terms: dict[str, Any]) -> Float[Array, "*batch"]:
    """The sum over factors of a term per batch element, each summed over the batch axes that are
    not shared."""
    extra = {name: len(factor.batch_shape) - q.batch_ndim for name, factor in q.items()}
    sums = [jnp.sum(terms[name], tuple(range(-n, 0))) for name, n in extra.items()]
    return functools.reduce(jnp.add, sums) if sums else jnp.zeros(())


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass(frozen=True, eq=False)
class Product(Family, Mapping[str, Family]):
    """Independent families by name, in alphabetical order (as JAX orders dictionaries).

    Args:
      factors: the families by name. Their batch axes may differ.
      batch_ndim: number of leading batch axes that factors share and scalars keep. A factor's
        further batch axes are independent copies of it, over which log-normalisers, entropies and
        the like are summed; with the default 0 these are scalars.

    Raises:
      ValueError: there is no factor, a factor is no family, or its batch axes do not start with the
          shared ones.
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
        named = isinstance(self.factors, Mapping) and self.factors
        require(named, "factors", "a mapping of named families", self.factors)
        for name, q in self.factors.items():
            require(isinstance(name, str), "factors", "names that are strings", repr(name))
            require(
                isinstance(q, Family),
                f"factors[{name!r}]",
                "a family (vijax.families)",
                type(q).__name__,
            )
        object.__setattr__(
            self, "factors", {name: self.factors[name] for name in sorted(self.factors)}
        )
        shared = {q.batch_shape[: self.batch_ndim] for q in self.values()}
        ok = len(shared) == 1 and all(len(s) == self.batch_ndim for s in shared)
        shapes = {name: q.batch_shape for name, q in self.items()}
        require(
            ok, "factors", f"batch shapes that agree in their first {self.batch_ndim} axes", shapes
        )

    @classmethod
    def empty(cls) -> Self:
        """A product without factors: the globals of a model in which only points are sought."""
        return _rebuild(cls, {}, 0)

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

    stats = _of_factors("stats", _by_name)
    mean = _of_factors("mean", _by_name)
    marginal_laws = _of_factors("marginal_laws", _by_name)
    variance = _of_factors("variance", _by_name)
    mode = _of_factors("mode", _by_name)
    expected_stats = _of_factors("expected_stats", _by_name)
    fisher_product = _of_factors("fisher_product", _by_name)  # F is block diagonal
    in_domain = _of_factors("in_domain", _as_product)  # one bad factor leaves the others valid
    flat = _of_factors("flat", _as_product)
    plain = _of_factors("plain", _as_product)
    retreat = _of_factors("retreat", _as_product)
    fisher_solve = _of_factors("fisher_solve", _as_product)
    log_normalizer = _of_factors("log_normalizer", _total)
    dot = _of_factors("dot", _total)
    log_base_measure = _of_factors("log_base_measure", _total)
    expected_log_base_measure = _of_factors("expected_log_base_measure", _total)
    log_prob = _of_factors("log_prob", _total)
    entropy = _of_factors("entropy", _total)
    kl = _of_factors("kl", _total)
    kl_to_prior = _of_factors("kl_to_prior", _total)

    def prepare(self, means: bool = True) -> Self:
        return self._like(self._map(lambda q: q.prepare(means)))

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> dict[str, Any]:
        return self._map(lambda q, k: q.sample(k, shape), key=self._keys(key))

    def sample_stats(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> dict[str, tuple]:
        """Each factor's statistics of an independent draw, the draw that `sample` makes with this
        key."""
        return self._map(lambda q, k: q.sample_stats(k, shape), key=self._keys(key))

    def pathwise_sample(
        self, key: PRNGKeyArray
    ) -> tuple[dict[str, tuple], Callable[[Mapping[str, tuple]], Self]]:
        """A draw's statistics and V, block diagonal: each factor applies its own."""
        draws = self._map(lambda q, k: q.pathwise_sample(k), key=self._keys(key))

        def v_product(eta: Mapping[str, tuple]) -> Any:
            return self._like(self._map(lambda q, draw, part: draw[1](part), draws=draws, eta=eta))

        return {name: t for name, (t, _) in draws.items()}, v_product

    @property
    def event_ndims(self) -> tuple[int, ...]:  # type: ignore[override]
        """Trailing axes, per leaf, that belong to one event of the product."""
        return tuple(jnp.ndim(leaf) - self.batch_ndim for leaf in tree.parameters(self))

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shared leading batch axes."""
        return next(iter(self.values())).batch_shape[: self.batch_ndim] if self.factors else ()

    def as_stats(self, leaves: PyTree) -> dict[str, tuple]:
        return self._map(lambda q, part: q.as_stats(part), leaves=self.with_naturals(leaves))

    def with_context(self, context: Mapping[str, Any]) -> Self:
        """The factors named in their contexts, the others as they are."""
        require(set(context) <= set(self), "context", f"names among {list(self)}", list(context))
        return self.replace(
            {name: self[name].with_context(value) for name, value in context.items()}
        )

    def _keys(self, key: PRNGKeyArray) -> dict[str, PRNGKeyArray]:
        return dict(zip(self, jax.random.split(key, len(self)), strict=True))

    def _map(self, f: Callable, **trees: Mapping[str, Any]) -> dict[str, Any]:
        """f(factor, *parts) by name; a tree that lacks a name or has one too many is an error
        naming it."""
        for argument, parts in trees.items():
            require(set(parts) == set(self), argument, f"the names {list(self)}", list(parts))
        return {name: f(q, *(parts[name] for parts in trees.values())) for name, q in self.items()}

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

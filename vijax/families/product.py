"""A mapping of named independent families that is itself a family: q(x) = prod_i q_i(x_i;
lambda_i).

Statistics, values, means and modes are dictionaries by factor; natural parameters are again a
`Product`; log-normalisers, entropies and divergences are sums. Blei, Kucukelbir and McAuliffe 2017,
section 4.1."""

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


def _each_factor(name: str, join: Callable[[Any, dict[str, Any]], Any]) -> Callable[..., Any]:
    """A method that calls `name` of each factor and returns `join(q, results)`. Its argument, if
    any, is a mapping with a value for each factor."""
    signature = inspect.signature(getattr(Family, name))

    @functools.wraps(getattr(Family, name), updated=())  # not the mark of abstract methods
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        _, *arguments = signature.bind(self, *args, **kwargs).arguments.items()
        results = self._map(lambda q, *parts: getattr(q, name)(*parts), **dict(arguments))
        return join(self, results)

    return method


def _as_dict(q: Product, results: dict[str, Any]) -> dict[str, Any]:
    return results


def _as_product(q: Product, results: dict[str, Any]) -> Product:
    return q._like(results)


def _total(q: Product, terms: dict[str, Any]) -> Float[Array, "*batch"]:
    """The sum of the terms over factors, and over the batch axes that the factors do not share."""
    extra = {name: len(factor.batch_shape) - q.batch_ndim for name, factor in q.items()}
    sums = [jnp.sum(terms[name], tuple(range(-n, 0))) for name, n in extra.items()]
    return functools.reduce(jnp.add, sums) if sums else jnp.zeros(())


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass(frozen=True, eq=False)
class Product(Family, Mapping[str, Family]):
    """Independent families by name, in alphabetical order (as JAX orders dictionaries).

    Args:
      factors: the families by name. Their batch axes may differ.
      batch_ndim: number of leading batch axes that all factors share; log-normalisers, entropies
        and divergences keep these axes and are summed over all further ones. With the default 0
        they are scalars.

    Raises:
      ValueError: no factor, a factor that is not a family, or batch axes that do not start with the
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
        is_mapping = isinstance(self.factors, Mapping) and self.factors
        require(is_mapping, "factors", "a mapping of named families", self.factors)
        for name, q in self.factors.items():
            require(isinstance(name, str), "factors", "names that are strings", repr(name))
            kind = type(q).__name__
            is_family = isinstance(q, Family)
            require(is_family, f"factors[{name!r}]", "a family (vijax.families)", kind)
        ordered = {name: self.factors[name] for name in sorted(self.factors)}
        object.__setattr__(self, "factors", ordered)
        self._require_shared_axes()

    def _require_shared_axes(self) -> None:
        shared = {q.batch_shape[: self.batch_ndim] for q in self.values()}
        ok = len(shared) == 1 and all(len(shape) == self.batch_ndim for shape in shared)
        expected = f"batch shapes that agree in their first {self.batch_ndim} axes"
        require(ok, "factors", expected, {name: q.batch_shape for name, q in self.items()})

    @classmethod
    def empty(cls) -> Self:
        """A product without factors: the globals of a model that estimates only points."""
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
        """The product of these children; not validated, because JAX passes placeholders."""
        names, batch_ndim = static
        return _rebuild(cls, dict(zip(names, children, strict=True)), batch_ndim)

    def only(self, names: Iterable[str]) -> Self:
        """The product of the factors of these names."""
        return self._like({name: self[name] for name in sorted(names)})

    def replace(self, other: Mapping[str, Family]) -> Self:
        """This product with its factors of these names replaced by those of `other`."""
        require(set(other) <= set(self), "other", f"names among {list(self)}", list(other))
        return self._like({name: other.get(name, q) for name, q in self.items()})

    stats = _each_factor("stats", _as_dict)
    mean = _each_factor("mean", _as_dict)
    marginal_laws = _each_factor("marginal_laws", _as_dict)
    variance = _each_factor("variance", _as_dict)
    mode = _each_factor("mode", _as_dict)
    expected_stats = _each_factor("expected_stats", _as_dict)
    fisher_product = _each_factor("fisher_product", _as_dict)  # F is block diagonal
    in_domain = _each_factor("in_domain", _as_product)  # a bad factor leaves the others valid
    flat = _each_factor("flat", _as_product)
    plain = _each_factor("plain", _as_product)
    retreat = _each_factor("retreat", _as_product)
    fisher_solve = _each_factor("fisher_solve", _as_product)
    log_normalizer = _each_factor("log_normalizer", _total)
    dot = _each_factor("dot", _total)
    log_base_measure = _each_factor("log_base_measure", _total)
    expected_log_base_measure = _each_factor("expected_log_base_measure", _total)
    log_prob = _each_factor("log_prob", _total)
    entropy = _each_factor("entropy", _total)
    kl = _each_factor("kl", _total)
    kl_to_prior = _each_factor("kl_to_prior", _total)

    def prepare(self, means: bool = True) -> Self:
        return self._like(self._map(lambda q: q.prepare(means)))

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> dict[str, Any]:
        return self._map(lambda q, k: q.sample(k, shape), key=self._keys(key))

    def sample_stats(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> dict[str, tuple]:
        """Statistics of the draw that `sample` makes with this key."""
        return self._map(lambda q, k: q.sample_stats(k, shape), key=self._keys(key))

    def pathwise_sample(
        self, key: PRNGKeyArray
    ) -> tuple[dict[str, tuple], Callable[[Mapping[str, tuple]], Self]]:
        """A draw's statistics and V, which is block diagonal: each factor has its V."""
        draws = self._map(lambda q, k: q.pathwise_sample(k), key=self._keys(key))
        stats = {name: t for name, (t, _) in draws.items()}
        maps = {name: v for name, (_, v) in draws.items()}

        def v_product(eta: Mapping[str, tuple]) -> Any:
            return self._like(self._map(lambda q, v, part: v(part), draws=maps, eta=eta))

        return stats, v_product

    @property
    def event_ndims(self) -> tuple[int, ...]:  # type: ignore[override]
        """Trailing axes, per leaf, that belong to one event of the product."""
        return tuple(jnp.ndim(leaf) - self.batch_ndim for leaf in tree.parameters(self))

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shared leading batch axes."""
        if not self.factors:
            return ()
        return next(iter(self.values())).batch_shape[: self.batch_ndim]

    def as_stats(self, leaves: PyTree) -> dict[str, tuple]:
        return self._map(lambda q, part: q.as_stats(part), leaves=self.with_naturals(leaves))

    def with_context(self, context: Mapping[str, Any]) -> Self:
        """This product with the factors of these names in their contexts."""
        require(set(context) <= set(self), "context", f"names among {list(self)}", list(context))
        changes = {name: self[name].with_context(value) for name, value in context.items()}
        return self.replace(changes)

    def _keys(self, key: PRNGKeyArray) -> dict[str, PRNGKeyArray]:
        return dict(zip(self, jax.random.split(key, len(self)), strict=True))

    def _map(self, f: Callable, **trees: Mapping[str, Any]) -> dict[str, Any]:
        """f(factor, *parts) by name; ValueError naming the tree if it has other names."""
        for argument, parts in trees.items():
            require(set(parts) == set(self), argument, f"the names {list(self)}", list(parts))
        return {name: f(q, *(parts[name] for parts in trees.values())) for name, q in self.items()}

    def _like(self, factors: dict[str, Family]) -> Self:
        return _rebuild(type(self), factors, self.batch_ndim)


def _rebuild(cls: type[P], factors: dict[str, Any], batch_ndim: int) -> P:
    """A product without validation: of factors in alphabetical order, or JAX's placeholders."""
    q = object.__new__(cls)
    object.__setattr__(q, "factors", factors)
    object.__setattr__(q, "batch_ndim", batch_ndim)
    return q


def unknown_name(name: object, factors: Mapping[str, Any]) -> str:
    """Message for an unknown name, with the nearest name."""
    nearest = difflib.get_close_matches(str(name), list(factors), n=1)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return f"no factor named {name!r}; the names are {list(factors)}.{hint}"

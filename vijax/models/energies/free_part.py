"""Free variables in an energy: it reads their values instead of statistics, and need not be linear
in them. Together they are one more global, a vector of coordinates, whose density is a term of the
energy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.contract.batch import Minibatch
from vijax.contract.model import Hyper, Model
from vijax.contract.variables import Free, FreeVariables, Variables
from vijax.families import Family, Product
from vijax.inference.guides import Guide, Z
from vijax.xla import by_value

START = 0.1
"""Standard deviation of q at the start, and of its random first means: networks must not begin with
zero weights."""


@dataclasses.dataclass(frozen=True)
class FreePart(FreeVariables):
    """The free variables of an energy or a network."""

    variables: Variables  # the free variables
    guide: Guide  # the family of q
    # True if their prior is known to be proper, so that no bound grows without limit along them
    is_proper: bool = False

    def family(self, key: PRNGKeyArray | None = None) -> Family:
        """The start of q, with random means; with means of zero without a key."""
        mean = jnp.zeros(self.variables.dim, jnp.result_type(float))
        if key is not None:
            mean = START * jax.random.normal(key, mean.shape, mean.dtype)
        return self.guide.assign(self.variables.places).member(mean, START)

    def read(self, stats: Mapping[str, Any]) -> dict[str, Any]:
        """Statistics of conjugate variables and values of free variables, by name."""
        return {**_others(stats), **self.variables.values(stats[Z].value)[0]}

    def bind_random_values(self, fn: Callable | None) -> Callable | None:
        """A function of statistics and values as a function of statistics alone, at random values:
        for checks of the conjugate variables."""
        if fn is None:
            return None
        shape, dtype = (self.variables.dim,), jnp.result_type(float)
        x = jax.random.uniform(jax.random.key(0), shape, dtype, -2.0, 2.0)
        return lambda stats, *rest: fn({**stats, **self.variables.values(x)[0]}, *rest)

    def reads(self, fn: Callable | None) -> Any:
        """A function of statistics and values as a function of statistics alone."""
        if fn is None:
            return None
        return lambda stats, *rest: fn(self.read(stats), *rest)

    def log_prior(self, stats: Mapping[str, Any]) -> Float[Array, ""]:
        """Log prior of the coordinates: the priors of the variables and the Jacobian."""
        return self.variables.log_prior(stats[Z].value)

    def values(self, hyper: Mapping[str, Any], draws: Mapping[str, Any]) -> dict[str, Any]:
        """Draws by the names that the user gave."""
        return {**_others(draws), **jax.vmap(lambda x: self.variables.values(x)[0])(draws[Z])}

    def given_others(
        self, model: Model, hyper: Hyper, posterior: Product, key: PRNGKeyArray
    ) -> tuple[GivenOthers, tuple[Others]] | None:
        """The bound as a function of the free variables, and its other arguments."""
        if self.is_proper:
            return None
        bound = by_value.intern(model, GivenOthers(model, self.variables))
        return bound, (Others(hyper, posterior, key),)

    def start_in_words(self) -> str:
        """The start of a fit by steps, in words."""
        return (
            "Free variables start near zero in free coordinates: shift and scale them so that "
            "zero is plausible."
        )


class Others(NamedTuple):
    """The arguments of the bound of an energy beside free coordinates and data."""

    hyper: Hyper  # hyperparameters
    posterior: Product  # q of all globals
    key: PRNGKeyArray  # random key of E-steps that draw

    def stats(self, x: Float[Array, " D"]) -> dict[str, Any]:
        """Statistics of the globals, with the free ones at x."""
        means = {name: q.expected_stats() for name, q in _others(self.posterior).items()}
        return {**means, Z: self.posterior[Z].stats(x)}


@dataclasses.dataclass(frozen=True)
class GivenOthers:
    """The bound of an energy as a function of its free coordinates: q of the conjugate globals is
    fixed, q of the locals is found by the E-step. There is one object for each model, so that its
    programs serve every fit (`vijax.xla.by_value.intern`)."""

    model: Model  # the energy
    variables: Variables  # the variables that have these coordinates
    reads_data: ClassVar[bool] = True
    has_groups: ClassVar[bool] = False  # all groups have one bound together
    prior_part: ClassVar[None] = None

    def log_prior_at(self, x: Float[Array, " D"], others: Others) -> Float[Array, ""]:
        """Terms of the globals alone."""
        global_elbo = self.model.global_elbo
        if global_elbo is None:
            return jnp.zeros((), x.dtype)
        return global_elbo(others.hyper, others.stats(x))

    prior_part_at = log_prior_at

    def log_liks_at(self, x: Float[Array, " D"], data: Any, others: Others) -> Float[Array, " 1"]:
        """The bound of all groups."""
        batch = Minibatch(data, None)
        model = self.model
        bound = model.local_elbo(others.hyper, others.stats(x), batch, others.key, model.estep)
        return bound.total[None]


def _others(named: Mapping[str, Any]) -> dict[str, Any]:
    return {name: x for name, x in named.items() if name != Z}


def split(globals_: Mapping[str, Any], guide: Guide) -> tuple[dict[str, Any], FreePart | None]:
    """The conjugate globals, and the free globals."""
    free = {name: x for name, x in globals_.items() if _is_free(x)}
    conjugate = {name: x for name, x in globals_.items() if name not in free}
    return conjugate, FreePart(Variables.from_tree(free), guide) if free else None


def _is_free(x: Any) -> bool:
    leaves = jax.tree.leaves(x, is_leaf=lambda leaf: isinstance(leaf, Free))
    return any(isinstance(leaf, Free) for leaf in leaves)

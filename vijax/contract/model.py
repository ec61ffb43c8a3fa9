"""A model: global priors, and the local bound as a differentiable function of the globals'
sufficient statistics.

For a group of observations y_n with local variables z_n, `local_elbo` is

    l_n(s) = max over q(z_n) of  E[log p(y_n, z_n | beta) - log q(z_n)]  <=  log p(y_n | beta),

a function of s = t(beta), with the optimised locals held constant. By the envelope theorem its
gradient in s is the expected sufficient statistic of the group: the message of every algorithm
(Hoffman and Blei 2015, eq. 4 to 6)."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from vijax import tree
from vijax.checks import require, require_arrays
from vijax.constrain import Constraint
from vijax.contract import describe
from vijax.contract.array_checks import check_arrays
from vijax.contract.batch import ANY_FORM, DataForm, Minibatch, fill_padding, weighted_sum
from vijax.contract.estep import EStep
from vijax.contract.queries import QUESTIONS, answers, user_generative
from vijax.contract.variables import FreeVariables, Z
from vijax.families import Family, Point, Product
from vijax.families.construction import require_proper
from vijax.xla.by_value import Remade, cache_while_used

Hyper = Mapping[str, Any]
Estimates = Mapping[str, Family | Point]
"""The laws or point estimates of the globals, by name (`Fit.estimates`)."""


class LocalElbo(NamedTuple):
    """The bound of a minibatch.

    Attributes:
      total: sum of the groups' bounds, differentiable in the statistics and the hyperparameters.
        Under an E-step that samples it is an estimate (`vijax.estep.gibbs`), and its gradient an
        estimate of the message.
      num_groups: S, the number of groups in the minibatch, without padding.
      per_group: the bound of each group, in the layout of the batch; constants.
      local: the optimised local variables; constants.
      said: more numbers to report, by name, in `Info.said` and the trace.
      retractions: number of steps that the E-step cut back to keep locals in their domain; None if
        it never does.
    """

    total: Float[Array, ""]
    num_groups: Float[Array, ""]
    per_group: PyTree
    local: PyTree
    said: dict[str, Float[Array, ""]] | None = None
    retractions: Int[Array, ""] | None = None


PRIOR = "<prior>"
"""The name, among the hyperparameters of a program, of priors that depend on no hyperparameter
(`vijax.contract.general`)."""


@dataclasses.dataclass(frozen=True, eq=False)
class PriorFunctions:
    """A function: hyper -> the priors of the globals.

    Attributes:
      prior: the priors that depend on no hyperparameter, by name. In programs `hyper[PRIOR]`
        replaces them.
      functions: for each global, hyper -> its prior, or None if it is in `prior`.
    """

    prior: dict[str, Any]
    functions: dict[str, Any]

    @classmethod
    def from_priors(cls, priors: Mapping[str, Any]) -> PriorFunctions:
        """From priors, and functions of the hyperparameters to priors, by name."""
        constants = {name: prior for name, prior in priors.items() if not callable(prior)}
        functions = {name: prior if callable(prior) else None for name, prior in priors.items()}
        return cls(constants, functions)

    def __call__(self, hyper: Hyper) -> Product:
        """The priors at these hyperparameters."""
        constants = hyper.get(PRIOR, self.prior)
        priors = {
            name: constants[name] if function is None else function(hyper)
            for name, function in self.functions.items()
        }
        return Product(priors) if priors else Product.empty()


LocalElboFn = Callable[[Hyper, PyTree, Minibatch, PRNGKeyArray, Any], LocalElbo]


@dataclasses.dataclass(frozen=True, eq=False)
class LocalsPlan:
    """The way that a model finds its locals."""

    # (hyper, minibatch) -> the start of the E-step, in the layout of `LocalElbo.local`; None if the
    # E-step chooses it. Groups with earlier locals start at `Minibatch.local` instead
    start: Callable[[Hyper, Minibatch], PyTree] | None = None
    # True if full-data algorithms carry the locals in their state, so that coordinate ascent never
    # loses ground. Otherwise each step starts again, except under `vijax.warm`
    carried: bool = False
    # The kind of E-step that solves for the locals; None if any kind does
    solved_by: type[EStep] | None = None
    # True if, at fixed locals, `local_elbo` is linear in the statistics of globals that are updated
    # at once, or convex in them, so that its tangents are lower bounds. Then the locals of
    # coordinate ascent at some globals give a lower bound at any others, which `vijax.memoized`
    # needs. False is always safe
    is_linear: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class ByEntry:
    """The globals of which a batch reads only some entries, such as the predictors of a Gaussian
    process at the sites of the batch."""

    # hyper -> the context of their families (a kernel), by name. It is computed at the start and
    # when hyperparameters change, and kept in the posterior; `Model.prior` has no context
    context: Callable[[Hyper], Mapping[str, Any]]
    # minibatch -> the entries that the batch reads, by name. `local_elbo` gets only the statistics
    # of these entries, by the method `entries` of the family
    reads: Callable[[Minibatch], Mapping[str, Int[Array, " entries"]]]


# Hashed by identity, so that jitted functions may take one.
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Model(Remade):
    """A model in the form that every algorithm reads. A hand-written model sets the first four
    fields.

    Attributes:
      hyper: points beside the globals, by name: hyperparameters, or pytrees such as the weights of
        a network; fixed, or learnt by gradient steps in free coordinates.
      prior: hyper -> the prior of the globals, in the family of the posterior.
      local_elbo: (hyper, stats, minibatch, key, estep) -> `LocalElbo`.
      init: (hyper, key, prior, minibatch) -> the starting posterior. The minibatch is None if
        `Algorithm.init` got no data; a model whose start depends on data then raises an error.
      estep: the default E-step, an argument of `local_elbo`; None if the model has only one.
      constraints: constraints of the points, by name (`vijax.constrain`); points without one are
        positive.
      global_elbo: (hyper, stats) -> the part of the objective that couples globals (hierarchical
        priors); else None.
      blocks: names of the globals in groups that can be updated at once, in the order of coordinate
        ascent; None for all at once.
      needs_prior: names of globals that data of any size leave undetermined, so that maximum
        likelihood is refused.
      without_mode: names of globals whose posterior mode says nothing, so that a point is refused.
      shrinks: names of globals that are Gaussian components whose covariances `em` shrinks towards
        their average, unless another update is given.
      locals: the way to find the locals of its groups; by default `local_elbo` finds them.
      by_entry: the globals of which a batch reads only some entries; else None.
      free: its free variables; None if every global has a prior of its family.
      form: the form of its data; by default arrays of any kind, with one leading axis of groups.
      queries: its answers to questions that only some fits answer, by name
        (`vijax.contract.queries.QUESTIONS`).
    """

    hyper: Hyper
    prior: Callable[[Hyper], Product]
    local_elbo: LocalElboFn
    init: Callable[[Hyper, PRNGKeyArray, Product, Minibatch | None], Product]
    estep: Any = None
    constraints: Mapping[str, Constraint] | None = None
    global_elbo: Callable[[Hyper, PyTree], Float[Array, ""]] | None = None
    blocks: tuple[tuple[str, ...], ...] | None = None
    needs_prior: tuple[str, ...] = ()
    without_mode: tuple[str, ...] = ()
    shrinks: tuple[str, ...] = ()
    locals: LocalsPlan = LocalsPlan()
    by_entry: ByEntry | None = None
    free: FreeVariables | None = None
    form: DataForm = ANY_FORM
    queries: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def free_names(self) -> tuple[str, ...]:
        """Names of the globals of free variables: one, or none at all."""
        return () if self.free is None else (Z,)

    @property
    def log_density(self) -> Any:
        """The log density of a model whose variables are all free; None for other models."""
        return self.free if self.free is not None and self.free.is_all else None

    def answer(self, question: str) -> Any:
        """The answer to a question, from `queries`; ValueError if there is none."""
        if question not in self.queries:
            raise self.cannot_answer(question)
        return self.queries[question]

    def cannot_answer(self, question: str) -> ValueError:
        """The error for a question without an answer. It names the questions that this model
        answers, and the remedy."""
        default = "answers it", "Give it an answer: dataclasses.replace(queries=...)."
        needs, remedy = QUESTIONS.get(question, default)
        answers = ", ".join(name for name in QUESTIONS if name in self.queries)
        return ValueError(
            f"{question}: expected a model that {needs}, got one that does not. It can be asked "
            f"for: {answers or 'nothing of this kind'}. {remedy}"
        )

    def __repr__(self) -> str:
        return describe.model_text(self)


@cache_while_used
def model(
    prior: Mapping[str, Family] | Callable[[Hyper], Mapping[str, Family]],
    local_elbo: Callable[..., tuple[Float[Array, " groups"], PyTree]],
    init: Callable[[PRNGKeyArray, Product], Product] | None = None,
    hyper: Hyper | None = None,
    constraints: Mapping[str, Constraint] | None = None,
    sample: Callable[[Mapping[str, Any], PyTree, PRNGKeyArray], PyTree] | None = None,
) -> Model:
    """A model from a hand-written local bound (level 3 of the design).

    Args:
      prior: priors of the globals by name (a `Product`, or a dict), or a function of `hyper` that
        returns them.
      local_elbo: (stats, data, key) -> (bound of each group, shape (S,); locals); with a fourth
        argument, (stats, data, key, hyper). Integers and booleans among the data come as floats,
        unless it indexes with them (`vijax.contract.intake`). Take `jax.lax.stop_gradient` of
        locals found by iteration; a maximum in closed form (a logsumexp) may be differentiated.
        Locals from a network in `hyper` are differentiated too: that is how it learns.
      init: (key, prior) -> starting posterior; by default the prior, which suits models without
        symmetric components.
      hyper: points that `prior` and `local_elbo` read, by name: hyperparameters, or pytrees such as
        the weights of a network. `compose(learn=...)` learns them.
      constraints: constraints of points, by name: `vijax.constrain.real()` for a network. Other
        points are positive.
      sample: (values of the globals by name, group, key) -> a group of the same form, drawn given
        these values, for `Fit.predictive`.

    Raises:
      ValueError: a prior that is no mapping of families, or is improper; when used, a `local_elbo`
        that does not return such a pair.

    >>> import vijax as vi
    >>> coin = vi.model(
    ...     prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
    ...     local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    ... )
    >>> alg = vi.cavi(coin)
    >>> state = alg.init(jax.random.key(0))
    >>> state, info = alg.step(jax.random.key(1), state, jnp.array([1.0, 1.0, 0.0, 1.0]))
    >>> float(state.posterior["bias"].alpha), float(state.posterior["bias"].beta)
    (4.0, 2.0)
    """

    for name, value in (hyper or {}).items():
        require_arrays(f"hyper[{name!r}]", value)
    reads_hyper = num_arguments(local_elbo) > 3
    has_default = not reads_hyper and "hyper" in inspect.signature(local_elbo).parameters
    expected = "a parameter `hyper` without a default"
    remedy = "Write (stats, data, key, hyper): a parameter with a default is not given them."
    require(not has_default, "local_elbo", expected, "one with a default", remedy)

    def bound(
        hyper: Hyper, stats: PyTree, batch: Minibatch, key: PRNGKeyArray, estep: Any
    ) -> LocalElbo:
        data = batch.data
        if batch.weights is not None:
            data = fill_padding(data, jnp.asarray(batch.weights))
        arguments = (stats, data, key, hyper) if reads_hyper else (stats, data, key)
        per_group, local = _check_pair(local_elbo(*arguments))
        weights = jnp.ones_like(per_group)
        if batch.weights is not None:
            weights = jnp.asarray(batch.weights, per_group.dtype)
        fits = weights.shape == per_group.shape
        expected = f"a bound of each of the {weights.size} groups"
        require(fits, "local_elbo", expected, f"shape {per_group.shape}")
        constant = jax.lax.stop_gradient((per_group, local))
        return LocalElbo(weighted_sum(weights, per_group), jnp.sum(weights), *constant)

    return Model(
        hyper=dict(hyper or {}),
        prior=_prior_function(prior, dict(hyper or {})),
        local_elbo=bound,
        init=lambda hyper, key, prior, batch: prior if init is None else init(key, prior),
        constraints=constraints,
        queries=answers(user_generative(sample, None, check_arrays)),
    )


def num_arguments(function: Callable) -> int:
    """The number of positional arguments that a function requires; parameters with a default do not
    count.

    >>> num_arguments(lambda x, data, scale=2.0: scale * x * data)
    2
    """
    count = 0
    for parameter in inspect.signature(function).parameters.values():
        is_positional = parameter.kind in (
            parameter.POSITIONAL_ONLY,
            parameter.POSITIONAL_OR_KEYWORD,
        )
        count += is_positional and parameter.default is parameter.empty
    return count


def _check_pair(result: Any) -> tuple[Float[Array, " groups"], PyTree]:
    """The result of a hand-written bound. ValueError if it is no pair (bounds, locals)."""
    expected = "a pair (bounds, locals)"
    remedy = (
        "Return (bounds, None) where there are no locals, and one bound for each group, not their "
        "sum."
    )
    is_pair = isinstance(result, tuple) and len(result) == 2
    require(is_pair, "local_elbo", expected, _describe_result(result), remedy)
    shape = jnp.shape(result[0])
    require(len(shape) == 1, "local_elbo", "bounds of shape (groups,)", f"shape {shape}", remedy)
    return result


def _describe_result(result: Any) -> str:
    """The kind of a result, in words."""
    if isinstance(result, tuple):
        return f"a tuple of {len(result)}"
    if isinstance(result, jax.Array):
        return f"one array of shape {jnp.shape(result)}"
    return type(result).__name__


def _prior_function(prior: Any, hyper: Hyper) -> Callable[[Hyper], Product]:
    """A function: hyper -> the prior, a `Product`. The prior is checked once, at `hyper`."""
    first = _as_product(prior(tree.as_arrays(hyper)) if callable(prior) else prior)
    is_mapping = isinstance(first, Mapping)
    require(is_mapping, "prior", "a mapping of named families", type(first).__name__)
    require_proper("prior", first)
    if callable(prior):
        return lambda hyper: _as_product(prior(hyper))
    return PriorFunctions.from_priors(first)


def _as_product(priors: Any) -> Any:
    """A mapping of families as a `Product`; anything else unchanged."""
    if isinstance(priors, Mapping) and not isinstance(priors, Product):
        return Product(priors)
    return priors

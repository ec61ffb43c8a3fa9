"""A model: global priors, and the local bound as a differentiable function of the globals'
sufficient statistics.

For a group of observations y_n with local variables z_n, `local_elbo` is

    l_n(s) = max over q(z_n) of  E[log p(y_n, z_n | beta) - log q(z_n)]  <=  log p(y_n | beta),

written in s = t(beta), its optimised locals held constant. By the envelope theorem its gradient in
s is the expected sufficient statistic of the group: the message of every algorithm (Hoffman and
Blei 2015, eq. 4 to 6)."""

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
from vijax.contract.queries import QUESTIONS, answers, given_by_user
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
      per_group: the bounds, group by group, in the layout of the batch; constants.
      local: the optimised local variables; constants.
      said: more numbers to report, by name, in `Info.said` and the trace.
      retractions: the number of steps that the E-step cut back to keep locals in their domain;
          None: it never cuts.
    """

    total: Float[Array, ""]
    num_groups: Float[Array, ""]
    per_group: PyTree
    local: PyTree
    said: dict[str, Float[Array, ""]] | None = None
    retractions: Int[Array, ""] | None = None


PRIOR = "<prior>"
"""The name under which programs are given priors that depend on no hyperparameter
(`vijax.contract.general`)."""


@dataclasses.dataclass(frozen=True, eq=False)
class PriorFunctions:
    """hyper -> the priors of the globals.

    Attributes:
      prior: those that depend on no hyperparameter; in programs `hyper` holds them, under the name
          `PRIOR`.
      functions: for each global None, or hyper -> its prior.
    """

    prior: dict[str, Any]
    functions: dict[str, Any]

    @classmethod
    def from_priors(cls, priors: Mapping[str, Any]) -> PriorFunctions:
        """From priors, or functions from hyperparameters to them, by name."""
        functions = {name: prior if callable(prior) else None for name, prior in priors.items()}
        return cls(
            {name: prior for name, prior in priors.items() if not callable(prior)}, functions
        )

    def __call__(self, hyper: Hyper) -> Product:
        """The priors."""
        known = hyper.get(PRIOR, self.prior)
        named = {
            name: known[name] if of is None else of(hyper) for name, of in self.functions.items()
        }
        return Product(named) if named else Product.empty()


LocalElboFn = Callable[[Hyper, PyTree, Minibatch, PRNGKeyArray, Any], LocalElbo]


@dataclasses.dataclass(frozen=True, eq=False)
class LocalsPlan:
    """The way in which a model finds its locals."""

    # (hyper, minibatch) -> the start of the E-step, in the layout of `LocalElbo.local`; None where
    # the E-step chooses. Groups that were seen before start at `Minibatch.local`
    start: Callable[[Hyper, Minibatch], PyTree] | None = None
    # True where full-data algorithms carry the locals in their state, so that coordinate ascent
    # never loses ground; else each step finds them afresh, except under `vijax.warm`
    carried: bool = False
    solved_by: type[EStep] | None = (
        None  # the kind of E-step that solves for them; None where any will do
    )
    # True where, at fixed locals, `local_elbo` is linear in the statistics of globals that are
    # updated at once, or convex in them, so that its tangents are lower bounds. Then the locals
    # that coordinate ascent found for some globals give a lower bound for any others, and
    # `vijax.memoized` relies on this. False is always safe
    is_linear: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class ByEntry:
    """Globals of which a batch reads some entries: the predictors of a Gaussian process at its
    sites."""

    # hyper -> the context of their families (a kernel) by name. It is computed at the start and
    # where hyperparameters change, and kept in the posterior; `Model.prior` has no context
    context: Callable[[Hyper], Mapping[str, Any]]
    # minibatch -> the entries that the batch reads, by name. `local_elbo` is given the statistics
    # of these entries only, as the family's `entries`
    reads: Callable[[Minibatch], Mapping[str, Int[Array, " entries"]]]


@dataclasses.dataclass(
    frozen=True, eq=False, repr=False
)  # hashed by identity, so that jitted functions may take one
class Model(Remade):
    """A model in the form that every algorithm reads. A hand-written model fills the first four
    fields.

    Attributes:
      hyper: points beside the globals, by name: hyperparameters, or pytrees such as the weights of
        a network; fixed, or learnt by gradient steps in free coordinates.
      prior: hyper -> the prior of the globals, in the family of the posterior.
      local_elbo: (hyper, stats, minibatch, key, estep) -> `LocalElbo`.
      init: (hyper, key, prior, minibatch) -> the starting posterior. The minibatch is None where
        the caller of `Algorithm.init` gave no data; a model whose start depends on data raises an
        error then.
      estep: the default E-step, handed to `local_elbo`; None where the model has only one.
      constraints: constraints of the points, by name (`vijax.constrain`); points without one are
          positive.
      global_elbo: (hyper, stats) -> the part of the objective that couples globals (hierarchical
          priors), or None.
      blocks: the globals' names in groups that can be updated at once, in the order of coordinate
        ascent; None: all at once.
      needs_prior: names of globals that data of any size leave undetermined, so that maximum
          likelihood is refused.
      without_mode: names of globals whose posterior mode says nothing, so that a point of them is
          refused.
      locals: the way in which it finds the locals of its groups; by default `local_elbo` finds them
          by itself.
      by_entry: the globals of which a batch reads some entries only; else None.
      free: its free variables; None where every global has a prior of its family.
      form: the form of its data; by default arrays of any kind, with one leading axis of groups.
      queries: its answers to questions that not every fit answers, by name
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
    locals: LocalsPlan = LocalsPlan()
    by_entry: ByEntry | None = None
    free: FreeVariables | None = None
    form: DataForm = ANY_FORM
    queries: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def free_names(self) -> tuple[str, ...]:
        """Names of the globals of free variables: one, or none."""
        return () if self.free is None else (Z,)

    @property
    def log_density(self) -> Any:
        """The log density of a model whose variables are all free; None of other models."""
        return self.free if self.free is not None and self.free.is_all else None

    def answer(self, question: str) -> Any:
        """The answer to a question, from `queries`; ValueError where there is none."""
        if question not in self.queries:
            raise self.cannot_answer(question)
        return self.queries[question]

    def cannot_answer(self, question: str) -> ValueError:
        """The error that names the question, the questions that this model answers, and the
        remedy."""
        needs, remedy = QUESTIONS.get(
            question, ("answers it", "Give it an answer: dataclasses.replace(queries=...).")
        )
        known = (
            ", ".join(name for name in QUESTIONS if name in self.queries) or "nothing of this kind"
        )
        return ValueError(
            f"{question}: expected a model that {needs}, got one that does not. It can be asked "
            f"for: {known}. {remedy}"
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
      prior: the globals' priors by name (a `Product`, or a dict), or a function from `hyper` to
          them.
      local_elbo: (stats, data, key) -> (bound of each group, shape (S,); locals); with a fourth
        argument, (stats, data, key, hyper). Integers and booleans among the data come as floats,
        unless it indexes with them (`vijax.contract.intake`). Take `jax.lax.stop_gradient` of
        locals found by iteration; a maximum in closed form (a logsumexp) may be differentiated as
        it is. Locals that a network in `hyper` gives are differentiated too: that is how it learns.
      init: (key, prior) -> starting posterior; by default the prior itself, which suits models
        without symmetric components.
      hyper: points that `prior` and `local_elbo` read, by name: hyperparameters, or pytrees such as
        the weights of a network. `compose(learn=...)` learns them.
      constraints: constraints of points, by name: `vijax.constrain.real()` for a network. Other
          points are positive.
      sample: (values of the globals by name, group, key) -> a group like it drawn given them, for
          `Fit.predictive`.

    Raises:
      ValueError: a prior that is no mapping of families, or is improper; when used, a `local_elbo`
          without such a pair.

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
    remedy = "Write (stats, data, key, hyper): a parameter with a default is not given them."
    with_default = not reads_hyper and "hyper" in inspect.signature(local_elbo).parameters
    require(
        not with_default,
        "local_elbo",
        "a parameter `hyper` without a default",
        "one with a default",
        remedy,
    )

    def bound(
        hyper: Hyper, stats: PyTree, batch: Minibatch, key: PRNGKeyArray, estep: Any
    ) -> LocalElbo:
        data = (
            batch.data
            if batch.weights is None
            else fill_padding(batch.data, jnp.asarray(batch.weights))
        )
        per_group, local = _pair(local_elbo(stats, data, key, *([hyper] if reads_hyper else [])))
        weights = (
            jnp.ones_like(per_group)
            if batch.weights is None
            else jnp.asarray(batch.weights, per_group.dtype)
        )
        expected = f"a bound of each of the {weights.size} groups"
        require(
            weights.shape == per_group.shape, "local_elbo", expected, f"shape {per_group.shape}"
        )
        constant = jax.lax.stop_gradient((per_group, local))
        return LocalElbo(weighted_sum(weights, per_group), jnp.sum(weights), *constant)

    return Model(
        hyper=dict(hyper or {}),
        prior=_prior(prior, dict(hyper or {})),
        local_elbo=bound,
        init=lambda hyper, key, prior, batch: prior if init is None else init(key, prior),
        constraints=constraints,
        queries=answers(given_by_user(sample, None, check_arrays)),
    )


def num_arguments(function: Callable) -> int:
    """The number of arguments that a function must be given by position; parameters with a default
    do not count.

    >>> num_arguments(lambda x, data, scale=2.0: scale * x * data)
    2
    """
    given = inspect.signature(function).parameters.values()
    required = [
        p
        for p in given
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return len(required)


def _pair(said: Any) -> tuple[Float[Array, " groups"], PyTree]:
    """The result of a hand-written bound, checked."""
    remedy = (
        "Return (bounds, None) where there are no locals, and one bound for each group, not their "
        "sum."
    )
    kind = (
        f"one array of shape {jnp.shape(said)}"
        if isinstance(said, jax.Array)
        else type(said).__name__
    )
    got = f"a tuple of {len(said)}" if isinstance(said, tuple) else kind
    require(
        isinstance(said, tuple) and len(said) == 2,
        "local_elbo",
        "a pair (bounds, locals)",
        got,
        remedy,
    )
    shape = jnp.shape(said[0])
    require(len(shape) == 1, "local_elbo", "bounds of shape (groups,)", f"shape {shape}", remedy)
    return said


def _prior(prior: Any, hyper: Hyper) -> Callable[[Hyper], Product]:
    """hyper -> the prior, as a `Product`; checked once, at `hyper`."""
    product = lambda made: (
        Product(made) if isinstance(made, Mapping) and not isinstance(made, Product) else made
    )
    made = product(prior(tree.as_arrays(hyper)) if callable(prior) else prior)
    require(isinstance(made, Mapping), "prior", "a mapping of named families", type(made).__name__)
    require_proper("prior", made)
    return (
        (lambda hyper: product(prior(hyper)))
        if callable(prior)
        else PriorFunctions.from_priors(made)
    )

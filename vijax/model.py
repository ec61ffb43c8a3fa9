"""A model: global priors, and the local bound as a differentiable function of the globals' sufficient statistics.

For a group of observations y_n with local variables z_n, `local_elbo` is

    l_n(s) = max over q(z_n) of  E[log p(y_n, z_n | beta) - log q(z_n)]  <=  log p(y_n | beta),

written in s = t(beta), its optimised locals held constant. By the envelope theorem its gradient in s is the expected
sufficient statistic of the group: the message of every algorithm (DESIGN section 1; seed 000, eq. 4 to 6).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from vijax import describe
from vijax.batch import Minibatch
from vijax.families import Family, Point, Product

Hyper = Mapping[str, Array]
Estimates = Mapping[str, Family | Point]
"""What is known of the globals, by name (`Fit.estimates`)."""


class LocalElbo(NamedTuple):
    """What a model says of a minibatch.

    Attributes:
      total: sum of the groups' bounds; differentiable in the statistics and the hyperparameters.
      num_groups: S, how many groups the minibatch holds (padding excluded).
      per_group: the bounds, group by group, in the layout of the batch; constants.
      local: the optimised local variables; constants.
      num_words: tokens in the minibatch, where the groups are documents.
      retractions: how often the E-step cut a step back to keep locals in their domain; None of those that never do.
    """

    total: Float[Array, ""]
    num_groups: Float[Array, ""]
    per_group: PyTree
    local: PyTree
    num_words: Float[Array, ""] | None = None
    retractions: Int[Array, ""] | None = None


LocalElboFn = Callable[[Hyper, PyTree, Minibatch, PRNGKeyArray, Any], LocalElbo]


@dataclasses.dataclass(frozen=True, eq=False)  # hashed by identity, so that jitted functions may take one
class Model:
    """A model in the form every algorithm reads.

    Attributes:
      hyper: positive hyperparameters by name; fixed, or learnt by gradient steps on their logarithms.
      prior: hyper -> the prior of the globals, natural parameters of the posterior's very family.
      local_elbo: (hyper, stats, minibatch, key, estep) -> `LocalElbo`.
      init: (hyper, key, prior, minibatch) -> where the posterior starts. The minibatch is None where the caller of
        `Algorithm.init` gave no data; models whose start depends on the data say so.
      global_elbo: (hyper, stats) -> the part of the objective that couples globals (hierarchical priors), or None.
      blocks: the globals' names in groups that can be updated at once, in the order of coordinate ascent; None: all
        at once.
      init_local: (hyper, minibatch) -> where the E-step starts on full data, carried in the state from then on, so
        that coordinate ascent never loses ground; None where locals are found afresh at each step.
      check_data: raises ValueError on arrays of data that cannot be, naming row and column; `vijax.fit` calls it, once.
        None: every number must be finite. One of your own may let NaN stand for missing values.
      energy: the `vijax.models.energy.Energy` that the model was made from, where it was.
      estep: the default E-step, handed to `local_elbo`; None where the model has only one.
      reads_documents: its data are bags of words, which any text reader of `vijax.data` supplies.
      vocab_size: V of a model of documents: the ids of their words are below it.
      score: (hyper, `Fit.estimates`, data, key) -> held-out score, where the field has one better than the bound.
      needs_prior: names of globals that data of any size leave undetermined, so that maximum likelihood is refused.
      shares: (stats, locals of one length bucket, key) -> expected topic shares of its documents, of topic models.
    """

    hyper: Hyper
    prior: Callable[[Hyper], Product]
    local_elbo: LocalElboFn
    init: Callable[[Hyper, PRNGKeyArray, Product, Minibatch | None], Product]
    estep: Any = None
    reads_documents: bool = False
    vocab_size: int | None = None
    score: Callable[[Hyper, Estimates, Any, PRNGKeyArray], Any] | None = None
    global_elbo: Callable[[Hyper, PyTree], Float[Array, ""]] | None = None
    blocks: tuple[tuple[str, ...], ...] | None = None
    init_local: Callable[[Hyper, Minibatch], PyTree] | None = None
    energy: Any = None
    check_data: Callable[[PyTree], None] | None = None
    shares: Callable[[PyTree, PyTree, PRNGKeyArray], Float[Array, "docs K"]] | None = None
    needs_prior: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return describe.of_model(self)


def model(
    prior: Product | Callable[[Hyper], Product],
    local_elbo: Callable[[PyTree, PyTree, PRNGKeyArray], tuple[Float[Array, " groups"], PyTree]],
    init: Callable[[PRNGKeyArray, Product], Product] | None = None,
    hyper: Hyper | None = None,
) -> Model:
    """A model from a hand-written local bound (level 3 of the design).

    Args:
      prior: the globals' prior, or a function from `hyper` to it.
      local_elbo: (stats, data, key) -> (bound of each group, shape (S,); locals). Take `jax.lax.stop_gradient` of
        locals found by iteration; a maximum in closed form (a logsumexp) may be differentiated as it is.
      init: (key, prior) -> starting posterior; by default the prior itself, which suits models without symmetric
        components.
      hyper: positive hyperparameters that `prior` reads.

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

    def bound(hyper: Hyper, stats: PyTree, batch: Minibatch, key: PRNGKeyArray, estep: Any) -> LocalElbo:
        del hyper, estep
        per_group, local = local_elbo(stats, batch.data, key)
        weights = jnp.ones_like(per_group) if batch.weights is None else batch.weights
        constant = jax.lax.stop_gradient((per_group, local))
        return LocalElbo(jnp.sum(weights * per_group), jnp.sum(weights), *constant)

    return Model(
        hyper=dict(hyper or {}),
        prior=prior if callable(prior) else lambda _: prior,
        local_elbo=bound,
        init=lambda hyper, key, prior, batch: prior if init is None else init(key, prior),
    )

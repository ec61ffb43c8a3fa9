"""Starting posteriors. The results of mixture models depend on the start, so it is a choice, made
by name.

An `Init` is a function (key, context) -> posterior. All but `prior` read data: they choose locals,
and start at the globals that these imply, lambda = eta + (N/S) sum_n grad E."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, UInt32

from vijax import tree
from vijax.arguments import Count, Positive, check_arguments
from vijax.checks import require
from vijax.contract.batch import Minibatch, fill_padding, weighted_sum
from vijax.families import Categorical, Family, Product
from vijax.xla.by_value import cache_by_value
from vijax.xla.content_keys import exact_row_codes, row_keys


class Context(NamedTuple):
    """The model, hyperparameters and data of a start."""

    energy: Any  # the model's `vijax.models.energies.energy.Energy`
    hyper: Any
    prior: Product  # of the globals, flat for maximum likelihood
    batch: Minibatch | None

    def data(self) -> Minibatch:
        """The data, with a row that counts in the place of padding.

        Raises:
          ValueError: there are no data.
        """
        if self.batch is None:
            raise ValueError(
                "batch: this model's start depends on the data: expected them as alg.init(key, "
                "batch), got none. "
                "vijax.fit gives them; or choose init=vijax.init.prior()."
            )
        if self.batch.weights is None:
            return self.batch
        return self.batch._replace(
            data=fill_padding(self.batch.data, jnp.asarray(self.batch.weights))
        )

    def weights(self) -> Float[Array, " groups"]:
        """Weights of the groups of `data`."""
        batch = self.data()
        return (
            jnp.ones(len(jax.tree.leaves(batch.data)[0]))
            if batch.weights is None
            else jnp.asarray(batch.weights)
        )

    def counts(self) -> Bool[Array, " groups"]:
        """True for the groups of `data` that are no padding."""
        return self.weights() > 0

    def vectors(self) -> Float[Array, "groups D"]:
        """The first array of every group, flattened."""
        first = lambda group: jnp.ravel(jax.tree.leaves(group)[0])
        return jax.vmap(first)(jax.tree.map(jnp.asarray, self.data().data))

    def templates(self) -> dict[str, Family]:
        """The local families of one group."""
        return self.energy.locals(jax.tree.map(lambda x: jnp.asarray(x[0]), self.data().data))

    def start_stats(self) -> PyTree:
        """Mean statistics of the locals of every group where E-steps start."""
        begin = self.energy.start or self.energy.locals
        means = lambda group: {name: q.expected_stats() for name, q in begin(group).items()}
        return jax.vmap(means)(jax.tree.map(jnp.asarray, self.data().data))

    def conditional(self, local_stats: PyTree) -> Product:
        """The conditional of the globals, given statistics of the locals of every group. The proper
        prior stands in where maximum likelihood has no law, as for an empty class."""
        batch = self.data()
        proper = self.energy.prior(self.hyper)
        stats = {name: q.expected_stats() for name, q in proper.items()}
        weights = self.weights()

        def total(stats: PyTree) -> Float[Array, ""]:
            each = jax.vmap(lambda y, z: self.energy.fn({**stats, **z}, y, self.hyper))(
                batch.data, local_stats
            )
            return weighted_sum(jnp.asarray(weights, each.dtype), each)

        scale = 1.0 if batch.num_groups is None else batch.num_groups / jnp.sum(weights)
        message = tree.scale(scale, proper.with_naturals(jax.grad(total)(stats)))
        if self.energy.prior_fn is not None:
            coupling = jax.grad(lambda s: self.energy.prior_fn(s, self.hyper))(stats)
            message = tree.add(message, proper.with_naturals(coupling))
        implied = tree.add(self.prior, message)
        return jax.tree.map(jnp.where, implied.in_domain(), implied, tree.add(proper, message))


Init = Callable[[PRNGKeyArray, Context], Product]


@cache_by_value
def prior() -> Init:
    """The prior: for models whose components cannot be exchanged."""
    # Not context.prior: for maximum likelihood that is flat and has no mode.
    return lambda key, context: context.energy.prior(context.hyper)


@cache_by_value
def implied() -> Init:
    """The globals that the locals imply where E-steps start (`energy_model(start=...)`); no key is
    used."""
    return lambda key, context: context.conditional(context.start_stats())


@cache_by_value
def drawn(names: tuple[str, ...] | None = None) -> Init:
    """Locals drawn from the law where E-steps start, by what each group holds, wherever it stands;
    the others at its mean. It tells apart what the prior holds equal: classes that can be
    exchanged, factors about zero.

    Args:
      names: the locals that are drawn; None: all.

    Raises:
      ValueError: when used, a name that no local has.
    """

    def start(key: PRNGKeyArray, context: Context) -> Product:
        data = jax.tree.map(jnp.asarray, context.data().data)
        stats, begin = context.start_stats(), context.energy.start or context.energy.locals
        chosen = tuple(stats) if names is None else names
        strange = sorted(set(chosen) - set(stats))
        require(not strange, "names", f"names among the locals {sorted(stats)}", strange)
        codes = exact_row_codes(data)
        for name, own in zip(chosen, jax.random.split(key, len(chosen)), strict=True):
            draw = lambda group, key, name=name: begin(group)[name].sample_stats(key)
            stats = {**stats, name: jax.vmap(draw)(data, row_keys(own, codes))}
        return context.conditional(stats)

    return start


@cache_by_value
@check_arguments
def random_responsibilities(concentration: Positive = 1.0) -> Init:
    """Classes of each group drawn from a symmetric Dirichlet, by what the group holds, wherever it
    stands: equal groups have equal classes. When used, ValueError where the model has no
    categorical local.

    Args:
      concentration: concentration of the symmetric Dirichlet, positive: 1 is diverse, 100
          near-symmetric.
    """

    def start(key: PRNGKeyArray, context: Context) -> Product:
        size = len(jax.tree.leaves(context.data().data)[0])

        def draw(q: Family, key: PRNGKeyArray) -> Any:
            if not isinstance(q, Categorical):
                return jax.tree.map(
                    lambda x: jnp.broadcast_to(x, (size, *x.shape)), q.expected_stats()
                )
            draw_one = lambda own: jax.random.loggamma(own, concentration, q.logits.shape)
            weights = jax.vmap(draw_one)(row_keys(key, codes))
            return jax.vmap(lambda w: Categorical(w).expected_stats())(weights)

        _the_class(context)
        codes = exact_row_codes(context.data().data)
        templates = context.templates()
        keys = jax.random.split(key, len(templates))
        return context.conditional(
            {name: draw(q, k) for (name, q), k in zip(templates.items(), keys, strict=True)}
        )

    return start


@cache_by_value
def near_symmetric() -> Init:
    """Classes of each group drawn from a symmetric Dirichlet(100): all components are nearly
    alike."""
    return random_responsibilities(100.0)


@cache_by_value
@check_arguments
def kmeans_plus_plus(
    features: Callable[[PyTree], Array] | None = None, num_iters: Count = 100
) -> Init:
    """Each group wholly in the class of the nearest centre: k-means++ seeds (Arthur and
    Vassilvitskii 2007), each the best of some that are drawn, then rounds of Lloyd's algorithm
    until no group changes class. When used, ValueError where the model has no categorical local.

    Args:
      features: group -> vector in which distances are taken; by default its first array, flattened.
      num_iters: the largest number of rounds of Lloyd's algorithm, not negative.
    """

    def start(key: PRNGKeyArray, context: Context) -> Product:
        name, q = _the_class(context)
        data = jax.tree.map(jnp.asarray, context.data().data)
        points = (jax.vmap(features)(data) if features else context.vectors()).astype(
            jnp.result_type(float)
        )
        codes = exact_row_codes(context.vectors() if features is None else points)
        labels = nearest_labels(key, points, context.weights(), q.num_classes, num_iters, codes)
        return context.conditional({**context.start_stats(), name: q.stats(labels)})

    return start


@cache_by_value
def nearest(centres: Any) -> Init:
    """Each group wholly in the class of the nearest of K given centres; no key is used.

    Raises:
      ValueError: centres that are no array (K, D), or another number of them than of classes.
    """
    given = np.asarray(centres)
    require(given.ndim == 2, "centres", "an array of shape (K, D)", f"shape {given.shape}")

    def start(key: PRNGKeyArray, context: Context) -> Product:
        name, q = _the_class(context)
        require(len(given) == q.num_classes, "centres", f"{q.num_classes} of them", len(given))
        dtype = jnp.result_type(float)
        labels = _closest(context.vectors().astype(dtype), jnp.asarray(given, dtype))
        return context.conditional({**context.start_stats(), name: q.stats(labels)})

    return start


def nearest_labels(
    key: PRNGKeyArray,
    points: Float[Array, "N D"],
    weights: Float[Array, " N"],
    num_classes: int,
    num_iters: int,
    codes: UInt32[Array, " N"] | None = None,
) -> Int[Array, " N"]:
    """Labels of the nearest centre after k-means++ seeding and at most `num_iters` rounds of
    Lloyd's algorithm. Seeds are drawn by the `codes` of points (`vijax.xla.content_keys`; None:
    those of the points) and by their weights: the order of points does not count, and one of weight
    2 is the same as two."""
    codes = exact_row_codes(points) if codes is None else codes
    weights = weights.astype(points.dtype)
    # About their mean, where distances by norms and products lose no digits.
    points = points - (weights @ points / jnp.sum(weights))[None]
    seeds = _seeds(key, points, weights, num_classes, jnp.argsort(codes))

    def lloyd(carry: tuple) -> tuple:
        centres, labels, _, i = carry
        members = jax.nn.one_hot(labels, num_classes, dtype=points.dtype) * weights[:, None]
        sizes = jnp.sum(members, 0)[:, None]
        centres = jnp.where(sizes > 0, members.T @ points / jnp.maximum(sizes, 1), centres)
        new = _closest(points, centres)
        return centres, new, jnp.any((new != labels) & (weights > 0)), i + 1

    unsettled = lambda carry: carry[2] & (carry[3] < num_iters)
    start = seeds, _closest(points, seeds), jnp.array(True), 0
    return jax.lax.while_loop(unsettled, lloyd, start)[1]


def _seeds(
    key: PRNGKeyArray,
    points: Float[Array, "N D"],
    weights: Float[Array, " N"],
    num_classes: int,
    order: Int[Array, " N"],
) -> Float[Array, "K D"]:
    """Centres drawn one after the other in proportion to the squared distance from the earlier
    ones: the best of a few draws, which leaves the least distance."""
    keys, norms = jax.random.split(key, num_classes), jnp.sum(points**2, 1)
    first = points[_drawn(keys[0], weights, order, ())]
    centres = jnp.zeros((num_classes, points.shape[1]), points.dtype).at[0].set(first)
    trials = 2 + int(math.log(num_classes))
    tiny = float(np.finfo(np.float32).tiny)  # points all alike: any is as good a centre

    def seed(k: Int[Array, ""], carry: tuple) -> tuple:
        centres, distances = carry
        drawn = _drawn(keys[k], distances * weights, order, (trials,))
        squares = norms[drawn][:, None] + norms[None] - 2 * points[drawn] @ points.T
        left = jnp.minimum(distances[None], jnp.maximum(squares, 0.0) + tiny)
        best = jnp.argmin(left @ weights)
        return centres.at[k].set(points[drawn[best]]), left[best]

    return jax.lax.fori_loop(
        1, num_classes, seed, (centres, jnp.sum((points - first[None]) ** 2, 1) + tiny)
    )[0]


def _drawn(
    key: PRNGKeyArray, chances: Float[Array, " N"], order: Int[Array, " N"], shape: tuple[int, ...]
) -> Int[Array, ...]:
    """Places drawn in proportion to their chances, laid out in this order: as many numbers are
    drawn as places are asked for, so that neither padding nor the number of rows counts."""
    ends = jnp.cumsum(chances[order])
    at = jax.random.uniform(key, shape, chances.dtype) * ends[-1]
    within = jnp.searchsorted(ends, at, side="right")
    last = jnp.max(jnp.where(chances[order] > 0, jnp.arange(len(order)), 0))
    return order[jnp.minimum(within, last)]


def _closest(points: Float[Array, "N D"], centres: Float[Array, "K D"]) -> Int[Array, " N"]:
    """argmin_k |x - c_k|^2, the norm of x left out."""
    return jnp.argmin(jnp.sum(centres**2, 1)[None] - 2 * points @ centres.T, axis=1)


def _the_class(context: Context) -> tuple[str, Categorical]:
    """The name of the first categorical local, and its law in the first group."""
    templates = context.templates()
    classes = [(name, q) for name, q in templates.items() if isinstance(q, Categorical)]
    found = {name: type(q).__name__ for name, q in templates.items()}
    require(
        bool(classes),
        "init",
        "a model with a categorical local",
        f"locals {found}",
        "Use vijax.init.prior().",
    )
    return classes[0]

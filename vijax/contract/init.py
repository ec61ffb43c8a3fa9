"""Starting posteriors. The results of mixture models depend on the start, so it is a choice.

An `Init` is a function (key, context) -> posterior. All but `prior` read data: they choose locals,
and start at the globals implied by them, lambda = eta + (N/S) sum_n grad E."""

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
    prior: Product  # the prior of the globals; flat for maximum likelihood
    batch: Minibatch | None

    def data(self) -> Minibatch:
        """The data, with padding replaced by a row that counts. ValueError if there are no
        data."""
        if self.batch is None:
            raise ValueError(
                "batch: this model's start depends on the data: expected them as alg.init(key, "
                "batch), got none. vijax.fit gives them; or choose init=vijax.init.prior()."
            )
        if self.batch.weights is None:
            return self.batch
        data = fill_padding(self.batch.data, jnp.asarray(self.batch.weights))
        return self.batch._replace(data=data)

    def weights(self) -> Float[Array, " groups"]:
        """Weights of the groups of `data`."""
        batch = self.data()
        if batch.weights is None:
            return jnp.ones(len(jax.tree.leaves(batch.data)[0]))
        return jnp.asarray(batch.weights)

    def counts(self) -> Bool[Array, " groups"]:
        """True for the groups of `data` that are no padding."""
        return self.weights() > 0

    def vectors(self) -> Float[Array, "groups D"]:
        """The first array of every group, flattened; missing numbers are means of their columns."""
        first = lambda group: jnp.ravel(jax.tree.leaves(group)[0])
        vectors = jax.vmap(first)(jax.tree.map(jnp.asarray, self.data().data))
        if not jnp.issubdtype(vectors.dtype, jnp.floating):
            return vectors
        return fill_cells(vectors, self.weights())

    def templates(self) -> dict[str, Family]:
        """The local families of one group."""
        return self.energy.locals(jax.tree.map(lambda x: jnp.asarray(x[0]), self.data().data))

    def start_stats(self) -> PyTree:
        """Mean statistics of the locals of every group at the start of E-steps."""
        begin = self.energy.start or self.energy.locals
        means = lambda group: {name: q.expected_stats() for name, q in begin(group).items()}
        return jax.vmap(means)(jax.tree.map(jnp.asarray, self.data().data))

    def conditional(self, local_stats: PyTree) -> Product:
        """The conditional of the globals, given statistics of the locals of every group. If maximum
        likelihood has no law, as for an empty class, the proper prior is used."""
        batch = self.data()
        proper = self.energy.prior(self.hyper)
        stats = {name: q.expected_stats() for name, q in proper.items()}
        weights = self.weights()

        def total(stats: PyTree) -> Float[Array, ""]:
            energy = lambda y, z: self.energy.fn({**stats, **z}, y, self.hyper)
            energies = jax.vmap(energy)(batch.data, local_stats)
            return weighted_sum(jnp.asarray(weights, energies.dtype), energies)

        scale = 1.0 if batch.num_groups is None else batch.num_groups / jnp.sum(weights)
        message = tree.scale(scale, proper.with_naturals(jax.grad(total)(stats)))
        if self.energy.prior_fn is not None:
            coupling = jax.grad(lambda s: self.energy.prior_fn(s, self.hyper))(stats)
            message = tree.add(message, proper.with_naturals(coupling))
        law = tree.add(self.prior, message)
        return jax.tree.map(jnp.where, law.in_domain(), law, tree.add(proper, message))


def fill_cells(rows: Float[Array, "N D"], weights: Float[Array, " N"]) -> Float[Array, "N D"]:
    """The rows with weighted means of their columns in place of missing cells.

    >>> print(fill_cells(jnp.array([[1.0], [3.0], [jnp.nan]]), jnp.array([1.0, 3.0, 1.0])).T)
    [[1.  3.  2.5]]
    """
    is_there = ~jnp.isnan(rows)
    weights = weights.astype(rows.dtype)
    totals = weights @ jnp.where(is_there, rows, 0.0)
    means = totals / jnp.maximum(weights @ is_there.astype(rows.dtype), 1e-30)
    return jnp.where(is_there, rows, means)


Init = Callable[[PRNGKeyArray, Context], Product]


@cache_by_value
def prior() -> Init:
    """The prior, for models whose components cannot be exchanged."""
    # Not context.prior, which for maximum likelihood is flat and has no mode.
    return lambda key, context: context.energy.prior(context.hyper)


@cache_by_value
def implied() -> Init:
    """The globals implied by the locals at the start of E-steps (`vijax.Structure(start=)`); no key
    is used."""
    return lambda key, context: context.conditional(context.start_stats())


@cache_by_value
def local_draws(names: tuple[str, ...] | None = None) -> Init:
    """Locals drawn from the laws at the start of E-steps; other locals at the means of these laws.

    The draw of a group depends on its content, not on its index. It separates components that are
    equal under the prior: classes that can be exchanged, factors about zero.

    Args:
      names: the locals to draw; None is all.

    Raises:
      ValueError: when used, a name that no local has.
    """

    def start(key: PRNGKeyArray, context: Context) -> Product:
        data = jax.tree.map(jnp.asarray, context.data().data)
        stats = context.start_stats()
        begin = context.energy.start or context.energy.locals
        to_draw = tuple(stats) if names is None else names
        strange = sorted(set(to_draw) - set(stats))
        require(not strange, "names", f"names among the locals {sorted(stats)}", strange)
        codes = exact_row_codes(data)
        for name, name_key in zip(to_draw, jax.random.split(key, len(to_draw)), strict=True):
            draw = lambda group, key, name=name: begin(group)[name].sample_stats(key)
            stats = {**stats, name: jax.vmap(draw)(data, row_keys(name_key, codes))}
        return context.conditional(stats)

    return start


@cache_by_value
@check_arguments
def random_responsibilities(concentration: Positive = 1.0) -> Init:
    """Class probabilities of each group drawn from a symmetric Dirichlet. They depend on its
    content, not on its index: equal groups have equal classes. When used, ValueError if the model
    has no categorical local.

    Args:
      concentration: concentration of the symmetric Dirichlet, positive: 1 is diverse, 100
        near-symmetric.
    """

    def start(key: PRNGKeyArray, context: Context) -> Product:
        size = len(jax.tree.leaves(context.data().data)[0])

        def draw(q: Family, key: PRNGKeyArray) -> Any:
            if not isinstance(q, Categorical):
                repeat = lambda x: jnp.broadcast_to(x, (size, *x.shape))
                return jax.tree.map(repeat, q.expected_stats())
            draw_weights = lambda key: jax.random.loggamma(key, concentration, q.logits.shape)
            weights = jax.vmap(draw_weights)(row_keys(key, codes))
            return jax.vmap(lambda w: Categorical(w).expected_stats())(weights)

        _find_class(context)
        codes = exact_row_codes(context.data().data)
        templates = context.templates()
        keys = jax.random.split(key, len(templates))
        stats = {name: draw(q, k) for (name, q), k in zip(templates.items(), keys, strict=True)}
        return context.conditional(stats)

    return start


@cache_by_value
def near_symmetric() -> Init:
    """Class probabilities of each group from a symmetric Dirichlet(100): all components are nearly
    equal."""
    return random_responsibilities(100.0)


@cache_by_value
@check_arguments
def kmeans_plus_plus(
    features: Callable[[PyTree], Array] | None = None, num_iters: Count = 100
) -> Init:
    """Each group entirely in the class of its nearest centre. The centres are k-means++ seeds
    (Arthur and Vassilvitskii 2007), each the best of several draws, after rounds of Lloyd's
    algorithm until no group changes class. When used, ValueError if the model has no categorical
    local.

    Args:
      features: group -> vector for distances; by default its first array, flattened.
      num_iters: largest number of rounds of Lloyd's algorithm, not negative.
    """

    def start(key: PRNGKeyArray, context: Context) -> Product:
        name, q = _find_class(context)
        data = jax.tree.map(jnp.asarray, context.data().data)
        vectors = jax.vmap(features)(data) if features else context.vectors()
        points = vectors.astype(jnp.result_type(float))
        codes = exact_row_codes(context.vectors() if features is None else points)
        labels = nearest_labels(key, points, context.weights(), q.num_classes, num_iters, codes)
        return context.conditional({**context.start_stats(), name: q.stats(labels)})

    return start


@cache_by_value
def nearest(centres: Any) -> Init:
    """Each group entirely in the class of the nearest of K given centres; no key is used.

    Raises:
      ValueError: centres that are no array (K, D), or not as many as classes.
    """
    rows = np.asarray(centres)
    require(rows.ndim == 2, "centres", "an array of shape (K, D)", f"shape {rows.shape}")

    def start(key: PRNGKeyArray, context: Context) -> Product:
        name, q = _find_class(context)
        require(len(rows) == q.num_classes, "centres", f"{q.num_classes} of them", len(rows))
        dtype = jnp.result_type(float)
        labels = _closest(context.vectors().astype(dtype), jnp.asarray(rows, dtype))
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
    Lloyd's algorithm.

    Seeds depend on the `codes` of points (`vijax.xla.content_keys`; None computes them from the
    points) and on their weights: the order of points does not matter, and a point of weight 2
    counts as two points."""
    codes = exact_row_codes(points) if codes is None else codes
    weights = weights.astype(points.dtype)
    # Distances by norms and products lose no digits if the mean is zero.
    points = points - (weights @ points / jnp.sum(weights))[None]
    seeds = _seeds(key, points, weights, num_classes, jnp.argsort(codes))

    def lloyd(carry: tuple) -> tuple:
        centres, labels, _, i = carry
        members = jax.nn.one_hot(labels, num_classes, dtype=points.dtype) * weights[:, None]
        sizes = jnp.sum(members, 0)[:, None]
        centres = jnp.where(sizes > 0, members.T @ points / jnp.maximum(sizes, 1), centres)
        new = _closest(points, centres)
        return centres, new, jnp.any((new != labels) & (weights > 0)), i + 1

    goes_on = lambda carry: carry[2] & (carry[3] < num_iters)
    start = seeds, _closest(points, seeds), jnp.array(True), 0
    return jax.lax.while_loop(goes_on, lloyd, start)[1]


def _seeds(
    key: PRNGKeyArray,
    points: Float[Array, "N D"],
    weights: Float[Array, " N"],
    num_classes: int,
    order: Int[Array, " N"],
) -> Float[Array, "K D"]:
    """Centres drawn in turn with probabilities proportional to the squared distance from the
    earlier ones. Each is the best of a few draws: the one that leaves the smallest distances."""
    keys, norms = jax.random.split(key, num_classes), jnp.sum(points**2, 1)
    first = points[_draw_indices(keys[0], weights, order, ())]
    centres = jnp.zeros((num_classes, points.shape[1]), points.dtype).at[0].set(first)
    trials = 2 + int(math.log(num_classes))
    tiny = float(np.finfo(np.float32).tiny)  # if all points are equal, any is a centre

    def seed(k: Int[Array, ""], carry: tuple) -> tuple:
        centres, distances = carry
        candidates = _draw_indices(keys[k], distances * weights, order, (trials,))
        products = 2 * points[candidates] @ points.T
        squares = norms[candidates][:, None] + norms[None] - products
        remaining = jnp.minimum(distances[None], jnp.maximum(squares, 0.0) + tiny)
        best = jnp.argmin(remaining @ weights)
        return centres.at[k].set(points[candidates[best]]), remaining[best]

    distances = jnp.sum((points - first[None]) ** 2, 1) + tiny
    return jax.lax.fori_loop(1, num_classes, seed, (centres, distances))[0]


def _draw_indices(
    key: PRNGKeyArray, chances: Float[Array, " N"], order: Int[Array, " N"], shape: tuple[int, ...]
) -> Int[Array, ...]:
    """Indices drawn in proportion to their chances, which are accumulated in this order. It draws
    one random number for each result, so neither padding nor the number of rows matters."""
    ends = jnp.cumsum(chances[order])
    target = jax.random.uniform(key, shape, chances.dtype) * ends[-1]
    index = jnp.searchsorted(ends, target, side="right")
    last = jnp.max(jnp.where(chances[order] > 0, jnp.arange(len(order)), 0))
    return order[jnp.minimum(index, last)]


def _closest(points: Float[Array, "N D"], centres: Float[Array, "K D"]) -> Int[Array, " N"]:
    """argmin_k |x - c_k|^2, without the norm of x."""
    return jnp.argmin(jnp.sum(centres**2, 1)[None] - 2 * points @ centres.T, axis=1)


def _find_class(context: Context) -> tuple[str, Categorical]:
    """The name of the first categorical local, and its law in the first group. ValueError if there
    is none."""
    templates = context.templates()
    classes = [(name, q) for name, q in templates.items() if isinstance(q, Categorical)]
    kinds = {name: type(q).__name__ for name, q in templates.items()}
    expected = "a model with a categorical local"
    remedy = "Use vijax.init.prior()."
    require(bool(classes), "init", expected, f"locals {kinds}", remedy)
    return classes[0]

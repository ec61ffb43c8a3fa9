"""Hierarchical Poisson factorisation of items taken by users (Gopalan, Hofman and Blei 2015,
section 2).

    xi_u ~ Gamma(a', a'/b'),   theta_uk ~ Gamma(a, xi_u)          users: the groups, theta and xi are local
    eta_i ~ Gamma(c', c'/d'),  beta_ik ~ Gamma(c, eta_i)          items: global
    y_ui ~ Poisson(theta_u . beta_i)

With q(theta), q(xi) gammas and the shares of each count over components in closed form, the bound
of a user is

    l_u(s) = sum_i [y_ui log sum_k exp(E log theta_uk + log beta_ik) - log y_ui!]
             - sum_k E[theta_uk] sum_i beta_ik
             - E KL(q(theta_u) || Gamma(a, xi_u)) - KL(q(xi_u) || Gamma(a', a'/b')).

The first sum runs over the items that the user took; the zeros of all others are in sum_i beta_ik,
which is computed once a step. So users are documents, items are their words, and a step costs
(nonzero counts + items) x K.

The prior of beta given eta couples two globals: p(beta | eta) is Gamma(c, d') times a factor, which
is a term of `global_elbo`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.arguments import Count, Positive, Size, check_arguments
from vijax.checks import require, require_integers
from vijax.constrain import Constraint, real
from vijax.contract.batch import DataForm, DocumentForm, Documents, Minibatch
from vijax.contract.estep import repeat_by_document
from vijax.contract.model import Estimates, Hyper, LocalElbo, LocalsPlan, Model
from vijax.contract.queries import Generative, answers, is_size
from vijax.contract.room import limit_sizes
from vijax.data import document_batches, in_order, read
from vijax.data.corpora.users import to_users
from vijax.data.schema.same_rows import require_one_index
from vijax.evaluate.ranking import Ranking, hide, ranked, ranking
from vijax.families import Gamma, Product
from vijax.families.base import as_float
from vijax.families.numeric import special
from vijax.families.scalar.gamma import GammaStats
from vijax.families.scalar.gamma_by_row import GammaRows, GammaRowsStats
from vijax.families.scalar.poisson import poisson_values
from vijax.inference import estep as esteps
from vijax.inference.estep.mixed_membership import MeanField
from vijax.xla import keys
from vijax.xla.by_value import cache_by_value
from vijax.xla.chunks import merge_chunks, split_chunks
from vijax.xla.compiler import step_jit
from vijax.xla.gather import sum_over_rows

AT_A_TIME = 4096
"""Users whose weights are computed at once."""


@cache_by_value
@limit_sizes
@check_arguments
def hpf(
    num_components: Size,
    num_items: Size,
    a: Positive = 0.3,
    user_shape: Positive = 0.3,
    user_rate: Positive = 1.0,
    c: Positive = 0.3,
    item_shape: Positive = 0.3,
    item_rate: Positive = 1.0,
    feedback: Literal["counts", "implicit"] = "counts",
    features: Any = None,
    num_covariates: Count = 0,
    estep: MeanField | None = None,
) -> Model:
    """Hierarchical Poisson factorisation: what users take, and what to recommend to them.

    Args:
      num_components: K, kinds of taste.
      num_items: V, number of items.
      a: shape of a user's weights theta; small: few tastes each.
      user_shape: a', shape of the users' rates xi; small: users differ much in how many items they
          take.
      user_rate: b', prior mean of xi.
      c: shape of an item's weights beta; small: few tastes each.
      item_shape: c', shape of the items' rates eta; small: popularity differs much.
      item_rate: d', prior mean of eta.
      feedback: "counts": plays, stars, purchases as they are; "implicit": 1 for each item that was
          taken.
      features: features of items, (V, D), with mean 0: beta_ik ~ Gamma(c, eta_i exp(-f_i . w_k)),
        log linear in the prior mean. `learn=("feature_weights",)` of an algorithm learns w. New
        items then have a law before anybody took them (`vijax.models.new_items`).
      num_covariates: number of covariates of each user, with mean 0: theta_uk ~ Gamma(a, xi_u
        exp(-g_u . v_k)). Data are then made by `vijax.models.with_covariates(users, g)`, and
        `learn=("user_weights",)` of an algorithm learns v: it improves the law of users with few or
        no items.
      estep: `vijax.estep.mean_field`; at most 30 rounds by default. With
          `vijax.warm(alg)` 5 rounds suffice.

    Returns:
      A `Model` with globals `items` (beta, (V, K)) and `item_rates` (eta, (V,)). Data: users by
      items, as documents by words: a SciPy sparse matrix, or all that `vijax.data.read` reads.
      `fit.predict(users)` has the users' weights, `vijax.models.recommend(fit, users)` what they
      would take next, `fit.score(users)` the ranking of hidden items.

    Raises:
      ValueError: a size below 1, a number that is not positive, features of another shape.

    >>> import vijax as vi
    >>> taken = np.kron(np.eye(2, dtype=int), np.ones((5, 4), int))  # two tastes
    >>> taken[0, 3] = 0
    >>> fit = vi.fit(vi.cavi(hpf(2, 8)), taken, num_steps=30, key=jax.random.key(0))
    >>> vi.models.recommend(fit, taken[:1], 1).items.tolist()
    [[3]]
    """
    settings = {"a": a, "user_shape": user_shape, "user_rate": user_rate}
    settings |= {"c": c, "item_shape": item_shape, "item_rate": item_rate}
    hyper: dict[str, Any] = {name: as_float(value) for name, value in settings.items()}
    for name, value in hyper.items():
        require(value.shape == (), name, "one number", settings[name])
    feature_table = None
    if features is not None:
        feature_table = as_float(features, "features")
        fits = feature_table.ndim == 2 and feature_table.shape[0] == num_items
        require(
            fits, "features", f"shape ({num_items}, D), a row for each item", feature_table.shape
        )
        require(bool(jnp.all(jnp.isfinite(feature_table))), "features", "finite numbers", features)
        hyper["feature_weights"] = jnp.zeros((feature_table.shape[1], num_components))
    if num_covariates:
        hyper["user_weights"] = jnp.zeros((int(num_covariates), int(num_components)))
    shape, clipped = (int(num_items), int(num_components)), feedback == "implicit"
    free: dict[str, Constraint] = {
        name: real() for name in ("feature_weights", "user_weights") if name in hyper
    }
    estep = estep or esteps.mean_field(max_iters=30, tol=1e-3)
    by_word = {}
    if features is None:
        by_word["items"] = ("c", "item_rate")
    return Model(
        hyper,
        functools.partial(_prior, shape),
        functools.partial(_local_elbo, clipped),
        _start,
        estep,
        free or None,
        functools.partial(_rates_term, feature_table),
        blocks=(("items",), ("item_rates",)),
        locals=LocalsPlan(functools.partial(_cold, shape[1]), solved_by=MeanField, is_linear=True),
        form=DataForm(
            documents=DocumentForm(shape[0], by_word, names=("users", "items", "num_items"))
        ),
        queries=answers(
            None if num_covariates else _generative(shape, clipped),
            score=functools.partial(_score, clipped, estep),
            predict=functools.partial(_weights, clipped, estep),
        ),
    )


def _prior(shape: tuple[int, int], hyper: Hyper) -> Product:
    items = hyper["c"]
    # The law of the rows of a batch (`vijax.topics.by_words`) is returned as it is.
    if not isinstance(items, GammaRows):
        items = Gamma(hyper["c"] * jnp.ones(shape), -hyper["item_rate"] * jnp.ones(shape))
    rate = hyper["item_shape"] / hyper["item_rate"]
    return Product({"items": items, "item_rates": _gamma(hyper["item_shape"], rate, shape[:1])})


def _gamma(shape: Any, rate: Any, batch: tuple[int, ...]) -> Gamma:
    return Gamma(jnp.broadcast_to(shape, batch), -jnp.broadcast_to(rate, batch))


def _rates_term(features: Array | None, hyper: Hyper, stats: Any) -> Float[Array, ""]:
    """log p(beta | eta) less the log density of the prior Gamma(c, d')."""
    items, rates = stats["items"], stats["item_rates"]
    shape, base = hyper["c"], hyper["item_rate"]
    if features is None:
        columns = jnp.shape(items.log)[1]
        if isinstance(shape, GammaRows):
            shape = shape.sums.prior_shape
        log_ratio = jnp.sum(rates.log - jnp.log(base))
        excess = jnp.vdot(rates.value - base, _sums(items).by_row, precision="highest")
        return columns * shape * log_ratio - excess
    slope = jnp.matmul(features, hyper["feature_weights"], precision="highest")
    log_rate = rates.log[:, None] - slope
    rate = rates.value[:, None] * jnp.exp(-slope)
    return jnp.sum(shape * (log_rate - jnp.log(base)) - (rate - base) * items.value)


def _sums(items: GammaStats | GammaRowsStats) -> GammaRowsStats:
    """The statistics of items as sums over all of them and over components."""
    if isinstance(items, GammaRowsStats):
        return items
    return GammaRowsStats(items.log, jnp.sum(items.value, axis=0), jnp.sum(items.value, axis=1))


def _start(hyper: Hyper, key: PRNGKeyArray, prior: Product, batch: Minibatch | None) -> Product:
    """Items by their counts in the first batch, with noise to separate the components."""
    num_items, num_components = prior["items"].batch_shape
    counts, users = jnp.ones(num_items), float(num_items)
    if batch is not None:
        count_items = lambda docs: (
            jnp.zeros(num_items).at[docs.words].add(docs.counts * docs.weights[:, None])
        )
        counts = counts + sum(count_items(docs) for docs in batch.data)
        users = 1.0 + sum(jnp.sum(docs.weights) for docs in batch.data)  # type: ignore[assignment]
    mean = counts / users
    level = jnp.sqrt(jnp.mean(mean) / num_components)  # theta and beta then have the same size
    noise = jnp.exp(jax.random.normal(key, (num_items, num_components)) / 2)
    value = level * (mean / jnp.mean(mean))[:, None] * noise
    shape = 1.0 + hyper["c"]  # the first message depends on the means alone, up to a constant
    items = Gamma(jnp.full_like(value, shape), -shape / value)
    rates_shape = hyper["item_shape"] + num_components * hyper["c"]
    rate = hyper["item_shape"] / hyper["item_rate"] + jnp.sum(value, axis=1)
    return Product({"items": items, "item_rates": _gamma(rates_shape, rate, (num_items,))})


# --- the users ------------------------------------------------------------------------------------
Users = dict[str, Gamma]
"""q of theta, "weights" (users, K), and of xi, "rates" (users,)."""


class _Chunk(NamedTuple):
    """Users and the start of their E-step, in one pytree for `sum_over_rows`."""

    documents: Documents
    start: Users

    @property
    def words(self) -> Array:
        """Item ids, by which the rows are looked up."""
        return self.documents.words


def _cold(num_components: int, hyper: Hyper, batch: Minibatch) -> tuple[Users, ...]:
    return tuple(_cold_users(num_components, hyper, docs) for docs in batch.data)


def _cold_users(num_components: int, hyper: Hyper, docs: Documents) -> Users:
    """The counts of each user divided evenly over components, at the prior means of rates."""
    share = jnp.sum(jnp.asarray(docs.counts, float), axis=1, keepdims=True) / num_components
    shape = jnp.broadcast_to(hyper["a"] + share, (share.shape[0], num_components))
    rate = (hyper["user_shape"] + num_components * hyper["a"]) / hyper["user_rate"]
    rates = _gamma(hyper["user_shape"] + num_components * hyper["a"], rate, (share.shape[0],))
    return {
        "weights": Gamma(shape, jnp.broadcast_to(-hyper["user_rate"], shape.shape)),
        "rates": rates,
    }


def _local_elbo(
    clipped: bool, hyper: Hyper, stats: Any, batch: Minibatch, key: PRNGKeyArray, estep: MeanField
) -> LocalElbo:
    items = _sums(stats["items"])
    # The largest entry of each row is 1: draws of log beta may be anywhere.
    log_scale = jax.lax.stop_gradient(jnp.max(items.log, axis=1))
    table = jnp.exp(items.log - log_scale[:, None])
    data = tuple(_read_counts(docs, clipped) for docs in batch.data)
    starts = batch.local or _cold(table.shape[1], hyper, batch)
    user_hyper = {
        name: jnp.asarray(hyper[name], table.dtype) for name in ("a", "user_shape", "user_rate")
    }
    shared = {"emitted": items.by_column, **user_hyper}
    if "user_weights" in hyper:
        shared["user_weights"] = hyper["user_weights"]
    _check_covariates(data, shared)
    size = lambda docs: estep.docs_per_chunk(docs.words.shape[1], table.shape[1])
    chunks = [split_chunks(_Chunk(d, s), size(d)) for d, s in zip(data, starts, strict=True)]
    total, aux = sum_over_rows(functools.partial(_chunk_bound, estep), table, shared, chunks, key)
    sizes = [docs.weights.shape[0] for docs in data]
    bounds, users = zip(
        *(merge_chunks(part, size) for part, size in zip(aux, sizes, strict=True)), strict=True
    )
    corrections = [
        jnp.sum(docs.counts * log_scale[docs.words] - gammaln(docs.counts + 1), axis=1)
        for docs in data
    ]
    total += sum(jnp.vdot(docs.weights, r) for docs, r in zip(data, corrections, strict=True))
    per_group = tuple(
        jax.lax.stop_gradient(bound + r) for bound, r in zip(bounds, corrections, strict=True)
    )
    num_users = jnp.sum(jnp.array([jnp.sum(docs.weights) for docs in data]))
    infos = {"num_words": jnp.sum(jnp.array([jnp.sum(docs.counts) for docs in data]))}
    return LocalElbo(total, num_users, per_group, users, said=infos)


def _read_counts(docs: Documents, clipped: bool) -> Documents:
    counts = jnp.asarray(docs.counts, jnp.result_type(float))
    if clipped:
        counts = jnp.minimum(counts, 1.0)
    covariates = None if docs.covariates is None else jnp.asarray(docs.covariates, counts.dtype)
    weights = jnp.asarray(docs.weights, counts.dtype)
    return Documents(
        jnp.asarray(docs.words), counts, weights, docs.max_tokens, covariates=covariates
    )


def _check_covariates(data: Sequence[Documents], shared: Any) -> None:
    """Raises ValueError unless users have as many covariates as the model reads."""
    width = shared["user_weights"].shape[0] if "user_weights" in shared else 0
    for docs in data:
        actual = 0 if docs.covariates is None else docs.covariates.shape[1]
        remedy = "Pass vijax.models.with_covariates(users, numbers), and num_covariates to hpf."
        require(actual == width, "users", f"users with {width} covariates", actual, remedy)


def _tilt(shared: Any, docs: Documents) -> Float[Array, "D K"]:
    """exp(-g . v), the factor of covariates in the rates of users' weights; 1 without
    covariates."""
    if docs.covariates is None:
        return jnp.ones((1, 1), docs.counts.dtype)
    return jnp.exp(-jnp.matmul(docs.covariates, shared["user_weights"], precision="highest"))


def _chunk_bound(
    estep: MeanField, rows: Float[Array, "D n K"], shared: Any, chunk: _Chunk, key: PRNGKeyArray
) -> tuple[Float[Array, ""], tuple[Array, Users]]:
    """Total bound of a chunk of users, differentiable in rows and `shared`; and the bound and the
    locals of each user."""
    docs = chunk.documents
    tilt = _tilt(shared, docs)
    q = jax.lax.stop_gradient(_ascend(estep, rows, shared, tilt, docs.counts, chunk.start))
    theta, xi = q["weights"].expected_stats(), q["rates"].expected_stats()
    weight, largest = _scaled_exp(theta.log)
    mixed = jnp.where(docs.counts > 0, _mix_rates(rows, weight), 1.0)
    per_user = jnp.sum(docs.counts * (jnp.log(mixed) + largest), axis=1) - jnp.sum(
        theta.value * shared["emitted"], 1
    )
    at_mean = _gamma(shared["a"], xi.value[:, None] * tilt, theta.log.shape)
    per_user -= jnp.sum(q["weights"].kl(at_mean), axis=1)
    per_user -= theta.log.shape[1] * shared["a"] * (jnp.log(xi.value) - xi.log)
    prior = _gamma(shared["user_shape"], shared["user_shape"] / shared["user_rate"], xi.log.shape)
    per_user -= q["rates"].kl(prior)
    return jnp.vdot(docs.weights, per_user), (per_user, q)


def _ascend(
    estep: MeanField,
    rows: Float[Array, "D n K"],
    shared: Any,
    tilt: Float[Array, "D K"],
    counts: Float[Array, "D n"],
    start: Users,
) -> Users:
    """q of users by coordinate ascent in the shares of counts, theta and xi (Gopalan, Hofman and
    Blei 2015, figure 4)."""
    rows, shared, tilt = jax.lax.stop_gradient((rows, shared, tilt))
    shape_of_rates = shared["user_shape"] + rows.shape[2] * shared["a"]
    # Rows that pad a chunk are zeros, which are not parameters of a gamma.
    positive = lambda x: jnp.where(x == 0, 1.0, jnp.abs(x))

    def improve(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        shape, rate, rate_of_rates = state
        weight, _ = _scaled_exp(special.digamma(shape) - jnp.log(rate))
        ratio = counts / jnp.where(counts > 0, _mix_rates(rows, weight), 1.0)
        shape = shared["a"] + weight * jnp.einsum("dnk,dn->dk", rows, ratio, precision="highest")
        rate = (shape_of_rates / rate_of_rates)[:, None] * tilt + shared["emitted"]
        prior_rate = shared["user_shape"] / shared["user_rate"]
        return shape, rate, prior_rate + jnp.sum(tilt * shape / rate, axis=1)

    def has_converged(new_state: Any, old_state: Any) -> Array:
        is_close = jnp.mean(jnp.abs(new_state[0] - old_state[0]), axis=1) <= estep.tol
        return is_close & (jnp.abs(new_state[2] - old_state[2]) <= estep.tol * old_state[2])

    begin = (
        positive(start["weights"].shape),
        positive(start["weights"].negative_rate),
        positive(start["rates"].negative_rate),
    )
    everybody = jnp.ones(counts.shape[0], bool)
    ascent = repeat_by_document(improve, begin, has_converged, everybody, estep.max_iters)
    shape, rate, rate_of_rates = ascent
    rates = _gamma(shape_of_rates, rate_of_rates, rate_of_rates.shape)
    return {"weights": Gamma(shape, -rate), "rates": rates}


def _mix_rates(rows: Float[Array, "D n K"], weight: Float[Array, "D K"]) -> Float[Array, "D n"]:
    floor = jnp.finfo(rows.dtype).tiny
    return jnp.maximum(jnp.einsum("dnk,dk->dn", rows, weight, precision="highest"), floor)


def _scaled_exp(x: Float[Array, "D K"]) -> tuple[Float[Array, "D K"], Float[Array, "D 1"]]:
    """exp(x) divided by the largest entry of each row, and the logarithm of this entry."""
    largest = jnp.max(x, axis=1, keepdims=True)
    return jnp.exp(x - largest), largest


# --- draws ----------------------------------------------------------------------------------------
def _generative(shape: tuple[int, int], clipped: bool) -> Generative:
    """Draws of users by items, for a number of users or for the users of some rows."""
    num_items, num_components = shape

    def layout(like: Any) -> Array:
        if is_size(like):
            require_integers(like=int(like))
            return jnp.zeros(int(like))
        corpus = read(like)
        require(
            corpus.vocab_size == num_items, "like", f"users of {num_items} items", corpus.vocab_size
        )
        return jnp.zeros(corpus.num_documents)

    def local(hyper: Any, values: Any, users: Array, key: PRNGKeyArray) -> dict[str, Array]:
        key, key_rates = jax.random.split(key)
        prior = _gamma(hyper["user_shape"], hyper["user_shape"] / hyper["user_rate"], users.shape)
        rates = prior.sample(key_rates)
        return {
            "weights": _gamma(hyper["a"], rates[:, None], (*users.shape, num_components)).sample(
                key
            ),
            "rates": rates,
        }

    def data(
        hyper: Any, values: Any, local: Any, users: Array, key: PRNGKeyArray
    ) -> Float[Array, "users V"]:
        rates = jnp.matmul(local["weights"], values["items"].T, precision="highest")
        counts = poisson_values(key, rates).astype(rates.dtype)
        return jnp.minimum(counts, 1.0) if clipped else counts

    observed = lambda users, rows: jnp.asarray(read(rows).to_scipy().toarray(), users.dtype)
    return Generative(layout, data, local, observed)


# --- queries of a fit -----------------------------------------------------------------------------
class Recommendations(NamedTuple):
    """Items for each user, best first, and their expected counts.

    Attributes:
      items: item ids, indices in `fit.vocabulary`; -1 if a user has fewer than n items left.
      counts: expected counts theta . beta; -inf for items -1.
    """

    items: Int[np.ndarray, "users n"]
    counts: Float[np.ndarray, "users n"]


def recommend(fit: Any, users: Any, n: int = 10, taken: bool = False) -> Recommendations:
    """The items that users would take next.

    Args:
      fit: a fit of `hpf`.
      users: counts of users: rows (users, items), sparse or dense, or one row, or what
        `vijax.data.read` reads. They need not be users of the training set: their weights are
        computed from these rows at the items of the fit. Named items (`fit.vocabulary`) may have
        any order; unknown ones are left out, with a warning. Rows without names have the items of
        the fit in their order.
      n: number of items for each user.
      taken: True keeps the items that a user has taken; by default they are left out.

    Raises:
      ValueError: another model, another number of items, n below 1 or above the number of items.
    """
    rows = _read_users(fit, users)
    weights = fit.predict(rows)
    return Recommendations(
        *ranked(weights, fit.estimates["items"].mean(), None if taken else rows, n)
    )


def new_items(fit: Any, features: Any) -> Gamma:
    """The law of beta of items that nobody took yet, (items, K), from their features: the prior at
    the learnt weights, with the eta of an item of average popularity."""
    weights = fit.state.hyper["feature_weights"]
    slope = jnp.matmul(as_float(features, "features"), weights, precision="highest")
    rate = jnp.mean(fit.estimates["item_rates"].mean())
    return Gamma(jnp.broadcast_to(fit.state.hyper["c"], slope.shape), -rate * jnp.exp(-slope))


def with_covariates(users: Any, covariates: Any) -> Any:
    """Users by items, as `vijax.data.read` reads them, with covariates for `hpf(num_covariates=)`.

    Args:
      users: counts of users by items.
      covariates: (users, D), with mean 0.

    Raises:
      ValueError: other rows than users, or numbers that are not finite.

    >>> with_covariates(np.eye(2, dtype=int), [[0.5], [-0.5]]).covariates.shape
    (2, 1)
    """
    require_one_index({"users": users, "covariates": covariates})
    return dataclasses.replace(read(to_users(users)), covariates=np.asarray(covariates))


def _read_users(fit: Any, users: Any) -> Any:
    """Users by items, sparse, over the items of a fit."""
    require(
        "items" in fit.posterior,
        "fit",
        "a fit of vijax.models.hpf",
        f"one of {', '.join(fit.posterior)}",
    )
    is_row = isinstance(users, np.ndarray | jax.Array | list) and np.ndim(users) == 1
    rows = to_users(np.asarray(users)[None] if is_row else users)
    return _rows(fit.in_words(rows, "users"), fit.posterior)


def _rows(users: Any, posterior: Any) -> Any:
    """Users by items, sparse, checked."""
    require(
        "items" in posterior, "fit", "a fit of vijax.models.hpf", f"one of {', '.join(posterior)}"
    )
    corpus, num_items = read(to_users(users)), posterior["items"].batch_shape[0]
    remedy = "Give rows of counts over the items of training, in their order."
    require(
        corpus.vocab_size == num_items, "users", f"{num_items} items", corpus.vocab_size, remedy
    )
    return corpus


def _weights(clipped: bool, estep: MeanField, fit: Any, users: Any) -> Float[np.ndarray, "users K"]:
    """E[theta] of users, in their order, from their counts."""
    stats = {name: q.expected_stats() for name, q in fit.estimates.items()}
    return _user_weights(clipped, estep, fit.state.hyper, stats, _read_users(fit, users))


def _user_weights(
    clipped: bool, estep: MeanField, hyper: Hyper, stats: Any, corpus: Any
) -> Float[np.ndarray, "users K"]:
    parts, places = [], []
    for batch, rows in document_batches(corpus, AT_A_TIME):
        elbo = _bound(clipped, hyper, stats, batch, jax.random.key(0), estep)
        parts += [np.asarray(q["weights"].mean()) for q in elbo.local]
        places.append(rows)
    return in_order(np.concatenate(parts), np.concatenate(places))


_bound = step_jit(_local_elbo, static_argnames=("clipped", "estep"))


def _score(
    clipped: bool,
    estep: MeanField,
    hyper: Hyper,
    posterior: Estimates,
    data: Any,
    key: PRNGKeyArray,
) -> Ranking:
    """Ranking of a hidden fifth of each user's items, chosen by the key: NDCG and recall at 20."""
    corpus = _rows(data, posterior)
    given_items, hidden = hide(corpus.to_scipy(), seed=keys.seed(key))
    stats = {name: q.expected_stats() for name, q in posterior.items()}
    given_users = dataclasses.replace(_rows(given_items, posterior), covariates=corpus.covariates)
    users = _user_weights(clipped, estep, hyper, stats, given_users)
    return ranking(users, posterior["items"].mean(), given_items, hidden)

"""Gamma-process Poisson matrix factorisation, GaP-KL-NMF (Hoffman and Blei 2015, section 4.3, eq.
12).

    W_fk ~ Gamma(a, a),   theta_k ~ Gamma(alpha / K, alpha c),   H_kt ~ Gamma(b, b),
    Y_ft ~ Poisson(sum_k theta_k W_fk H_kt)

Columns of Y are the groups, H_t is local, W and theta are global. Y_ft = sum_k z_ftk splits into
independent Poisson counts: given the totals they are multinomial, and q(z_ft) is maximised in
closed form. With q(h) = Gamma(b + n, b + r), where r_k = theta_k sum_f W_fk is the emission of a
unit of h_k and n_k = sum_f E[z_fk], the bound of a column is

    l(s) = sum_f [y_f log sum_k exp(log theta_k + log W_fk + E log h_k) - log y_f!]
           - r' E[h] - KL(q(h) || Gamma(b, b)).

The bound and its gradient are products of matrices, as in the multiplicative updates of KL-NMF; no
array has an entry for every (f, t, k)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from vijax.arguments import Positive, Size, check_arguments
from vijax.checks import require
from vijax.contract.batch import DataForm, Minibatch, fill_padding
from vijax.contract.estep import iterate_by_document
from vijax.contract.model import Estimates, Hyper, LocalElbo, LocalsPlan, Model
from vijax.contract.queries import Generative, answers, rows_like
from vijax.contract.room import limit_sizes
from vijax.families import Gamma, Product
from vijax.families.base import as_float
from vijax.families.numeric import special
from vijax.families.scalar.poisson import poisson_values
from vijax.inference import estep as esteps
from vijax.inference.estep.mixed_membership import MeanField
from vijax.models.emission import checker, is_count
from vijax.xla.by_value import cache_by_value
from vijax.xla.compiler import step_jit

Init = Callable[[PRNGKeyArray, Product], Product]


@cache_by_value
@limit_sizes
@check_arguments
def gap_nmf(
    num_rows: Size,
    num_components: Size,
    a: Positive = 0.25,
    b: Positive = 0.2,
    alpha: Positive = 1.0,
    c: Positive = 1.0,
    estep: MeanField | None = None,
    init: Literal["columns", "flat"] | Init = "columns",
) -> Model:
    """GaP-KL-NMF: the spectra behind a matrix of counts (a magnitude spectrogram in whole quanta).

    Args:
      num_rows: F, frequencies.
      num_components: K, more than are needed. Theta of unused components goes to zero.
      a: shape (and rate) of the dictionary's entries; below 1 spectra are sparse.
      b: shape (and rate) of the activations.
      alpha: shape of the gamma process.
      c: 1 / c should be about the mean of the data. It is the prior mean of sum_k theta_k.
      estep: `vijax.estep.mean_field`; at most 50 rounds by default, because minibatches start their
        activations cold. Full-data algorithms continue from the last activations, for which 5
        rounds a step are better. SSVI-A draws other spectra at each step, and may need 20 from flat
        spectra.
      init: start of the spectra: "columns" takes rows of the data that are nearest to a single
        component (the key chooses among them), "flat" nearly flat spectra. Gains explain the mean
        of the data in both. Or (key, prior) -> your own start, such as another fit. The start
        matters more than the algorithm: of 50 speech-like spectra behind 1000 frames mean field
        finds 36 from flat spectra and 48 from columns.

    Returns:
      A `Model` with globals `dictionary` (W, shape (F, K)) and `gains` (theta, shape (K,)). Data:
      an array of counts (T, F), whose rows are the columns of Y. `fit.locals(y,
      key=key)["activations"]` is q(H), shape (T, K); `fit.score(y, key=key)` the held-out bound,
      nats per column, at the posterior means of W and theta.

    >>> import vijax as vi
    >>> spectra = np.array([[9.0, 9.0, 0.0, 0.0], [0.0, 0.0, 9.0, 9.0]])
    >>> y = np.random.default_rng(0).poisson(np.random.default_rng(1).gamma(1.0, size=(60, 2)) @ spectra)
    >>> fit = vi.fit(vi.cavi(gap_nmf(4, num_components=3)), y, num_steps=50, key=jax.random.key(0))
    >>> fit.posterior["dictionary"].mean().shape, fit.locals(y, key=jax.random.key(0))["activations"].mean().shape
    ((4, 3), (60, 3))
    """
    settings = {"a": a, "b": b, "alpha": alpha, "c": c}
    hyper = {name: as_float(value) for name, value in settings.items()}
    for name, value in hyper.items():
        require(value.shape == (), name, "one number", settings[name])

    def prior(hyper: Hyper) -> Product:
        shape = hyper["a"] * jnp.ones((num_rows, num_components))
        ones = jnp.ones(num_components)
        gains = Gamma(hyper["alpha"] / num_components * ones, -hyper["alpha"] * hyper["c"] * ones)
        return Product({"dictionary": Gamma(shape, -shape), "gains": gains})

    if callable(init):
        start: Any = lambda hyper, key, prior, batch: init(key, prior)
    else:
        start = _STARTS[init]
    rows = rows_like(_checker(num_rows), np.zeros(num_rows))
    start_locals = lambda hyper, batch: _initial_locals(hyper, _counts(batch), num_components)
    return Model(
        hyper=hyper,
        prior=prior,
        local_elbo=_local_elbo,
        init=start,
        estep=estep or esteps.mean_field(max_iters=50, tol=1e-3),
        blocks=(("dictionary",), ("gains",)),
        locals=LocalsPlan(start_locals, True, MeanField),
        form=DataForm(_checker(num_rows), "number"),
        queries=answers(Generative(rows, _draw_counts, _draw_activations), score=_score),
    )


def _draw_activations(hyper: Hyper, values: Any, y: Array, key: PRNGKeyArray) -> dict[str, Array]:
    shape = (len(y), len(values["gains"]))
    return {"activations": jax.random.gamma(key, hyper["b"], shape, y.dtype) / hyper["b"]}


def _draw_counts(
    hyper: Hyper, values: Any, local: Any, y: Array, key: PRNGKeyArray
) -> Float[Array, "T F"]:
    rates = _product(local["activations"] * values["gains"][None], values["dictionary"].T)
    return poisson_values(key, rates).astype(y.dtype)


def _flat(hyper: Hyper, key: PRNGKeyArray, prior: Product, batch: Minibatch | None) -> Product:
    """Spectra that are nearly flat."""
    return _around(hyper, key, jnp.ones(_shape(prior)), batch)


def _columns(hyper: Hyper, key: PRNGKeyArray, prior: Product, batch: Minibatch | None) -> Product:
    """Spectra of columns that are nearest to a single component, with a fifth spread evenly; flat
    spectra without data."""
    if batch is None:
        return _flat(hyper, key, prior, batch)
    key, key_rows = jax.random.split(key)
    y = _counts(batch)
    spectra = y[corner_rows(key_rows, y, _weights(batch, y), _shape(prior)[1])].T
    mean = jnp.mean(spectra, axis=0, keepdims=True)
    spectra = jnp.where(mean > 0, spectra / jnp.where(mean > 0, mean, 1.0), 1.0)
    return _around(hyper, key, 0.8 * spectra + 0.2, batch)


_STARTS = {"columns": _columns, "flat": _flat}


def _around(
    hyper: Hyper, key: PRNGKeyArray, spectra: Float[Array, "F K"], batch: Minibatch | None
) -> Product:
    """Gammas about spectra of mean 1, with noise to separate equal spectra; and gains whose sum is
    the mean of the data (without data the prior mean)."""
    if batch is None:
        total = 1.0 / hyper["c"]
    else:
        y = _counts(batch)
        weights = _weights(batch, y)
        total = jnp.maximum(weights @ jnp.mean(y, 1) / jnp.sum(weights), 1e-3)
    dictionary = 100.0 * spectra * jnp.exp(jax.random.normal(key, spectra.shape) / 10)
    gains = jnp.full(spectra.shape[1], 100.0)
    return Product(
        {
            "dictionary": Gamma(dictionary, jnp.full_like(dictionary, -100.0)),
            "gains": Gamma(gains, -gains * spectra.shape[1] / total),
        }
    )


def _shape(prior: Product) -> tuple[int, int]:
    """(F, K)."""
    rows, components = prior["dictionary"].batch_shape
    return rows, components


def _counts(batch: Minibatch) -> Float[Array, "T F"]:
    """The counts; padding is replaced by columns that count."""
    data = batch.data
    if batch.weights is not None:
        data = fill_padding(data, jnp.asarray(batch.weights))
    return jnp.asarray(data, float)


def _weights(batch: Minibatch, y: Float[Array, "T F"]) -> Float[Array, " T"]:
    if batch.weights is None:
        return jnp.ones(len(y))
    return jnp.asarray(batch.weights, y.dtype)


def _initial_locals(hyper: Hyper, y: Float[Array, "T F"], num_components: int) -> dict[str, Gamma]:
    """The start of the locals: the counts of each column, divided evenly over components."""
    y, b = jnp.asarray(y, float), jnp.asarray(hyper["b"], float)
    share = jnp.broadcast_to(
        jnp.sum(y, 1, keepdims=True) / num_components, (len(y), num_components)
    )
    return {"activations": Gamma(b + share, jnp.full_like(share, -b))}


def _local_elbo(
    hyper: Hyper, stats: Any, batch: Minibatch, key: PRNGKeyArray, estep: Any
) -> LocalElbo:
    dictionary, gains = stats["dictionary"], stats["gains"]
    y, b = _counts(batch), jnp.asarray(hyper["b"], float)
    emitted = gains.value * jnp.sum(dictionary.value, axis=0)
    # The largest entry of each row is 1: draws of log W and log theta may be anywhere.
    log_table = dictionary.log + gains.log[None]
    log_scale = jax.lax.stop_gradient(jnp.max(log_table, axis=1))
    table = jnp.exp(log_table - log_scale[:, None])

    start = _initial_locals(hyper, y, gains.log.shape[0]) if batch.local is None else batch.local
    fixed = jax.lax.stop_gradient((table, emitted, b))
    q = jax.lax.stop_gradient(_activations(estep, y, start["activations"], *fixed))
    h = q.expected_stats()
    weights, largest = _scaled_exp(h.log)
    rate = jnp.maximum(_product(weights, table.T), jnp.finfo(y.dtype).tiny)
    log_rate = jnp.log(rate) + largest + log_scale[None]
    prior = jax.tree.map(lambda x: jnp.broadcast_to(x, q.shape.shape), Gamma(b, -b))
    per_group = (
        jnp.sum(y * log_rate - gammaln(y + 1), axis=1) - _product(h.value, emitted[:, None])[:, 0]
    )
    per_group -= jnp.sum(q.kl(prior), axis=1)
    of = jnp.ones_like(per_group)
    if batch.weights is not None:
        of = jnp.asarray(batch.weights, y.dtype)
    fixed_bounds = jax.lax.stop_gradient(per_group)
    return LocalElbo(jnp.vdot(of, per_group), jnp.sum(of), fixed_bounds, {"activations": q})


def _activations(
    estep: MeanField,
    y: Float[Array, "T F"],
    start: Gamma,
    table: Float[Array, "F K"],
    emitted: Float[Array, " K"],
    b: Float[Array, ""],
) -> Gamma:
    """q(H) by coordinate ascent: n_tk = e_tk sum_f W_fk y_tf / (sum_j W_fj e_tj), e = exp E[log
    h]."""
    rate = b + emitted

    def allocate(counts: Float[Array, "T K"]) -> Float[Array, "T K"]:
        weights, _ = _scaled_exp(special.digamma(b + counts) - jnp.log(rate)[None])
        total = jnp.maximum(_product(weights, table.T), jnp.finfo(y.dtype).tiny)
        return weights * _product(y / total, table)

    counts = jnp.maximum(start.shape - b, 0.0)
    counts = iterate_by_document(allocate, counts, lambda n: n, y, estep.max_iters, estep.tol)
    return Gamma(b + counts, -jnp.broadcast_to(rate, counts.shape))


def _scaled_exp(x: Float[Array, "T K"]) -> tuple[Float[Array, "T K"], Float[Array, "T 1"]]:
    """exp(x) divided by the largest entry of each row, and the logarithm of this entry."""
    largest = jnp.max(x, axis=1, keepdims=True)
    return jnp.exp(x - largest), largest


def _product(a: Float[Array, "m n"], b: Float[Array, "n p"]) -> Float[Array, "m p"]:
    return jnp.matmul(a, b, precision="highest")


def _score(hyper: Hyper, posterior: Estimates, data: PyTree, key: PRNGKeyArray) -> Any:
    """Lower bound on the log probability of held-out columns at the posterior means, nats per
    column."""
    from vijax.evaluate.score import HeldOut

    _checker(posterior["dictionary"].mean().shape[0])(data)
    stats = {name: q.stats(q.mean()) for name, q in posterior.items()}
    elbo = _bound(
        hyper, stats, Minibatch(jnp.asarray(data), None), key, estep=esteps.mean_field(200, 1e-4)
    )
    return HeldOut.of(np.asarray(elbo.per_group, np.float64))


_bound = step_jit(_local_elbo, static_argnames="estep")


def _checker(num_rows: int) -> Callable[[PyTree], None]:
    return checker(
        num_rows, is_count, "counts 0, 1, 2, ... (round a magnitude to a number of quanta)"
    )


_UNPREFERRED = 0.5


def corner_rows(
    key: PRNGKeyArray, y: Float[Array, "T F"], weights: Float[Array, " T"], num_rows: int
) -> Int[Array, " K"]:
    """Indices of `num_rows` rows of y, by successive projections.

    Args:
      key: half of the rows, drawn by it, are preferred (the squared lengths of the others count
        half), so that another key finds other rows if many are equally good.
      y: counts.
      weights: 0 in padding, which is chosen only if nothing else is left.
      num_rows: number of rows; beyond the rank of y, rows repeat.

    >>> pure = jnp.array([[8.0, 0, 1, 0], [0, 9, 0, 0], [1, 0, 0, 8]])
    >>> mixed = jnp.array([[1.0, 0.3, 0.3], [0.3, 1.0, 0.3], [0.3, 0.3, 1.0]]) @ pure / 1.6
    >>> rows = corner_rows(jax.random.key(0), jnp.concatenate([mixed, pure]), jnp.ones(6), 3)
    >>> sorted(rows.tolist())
    [3, 4, 5]
    """
    total = jnp.sum(y, axis=1, keepdims=True)
    is_counted = (weights > 0)[:, None]
    x = jnp.where(is_counted, y / jnp.sqrt(jnp.maximum(total, 1.0)), 0.0)
    preferred = jnp.where(jax.random.bernoulli(key, 0.5, (len(y),)), 1.0, _UNPREFERRED)
    tiny = jnp.finfo(x.dtype).tiny

    def choose(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        rows, residual = carry
        squares = jnp.sum(residual**2, axis=1)
        row = jnp.argmax(squares * preferred).astype(jnp.int32)
        edge = residual[row] / jnp.sqrt(jnp.maximum(squares[row], tiny))
        along = jnp.matmul(residual, edge, precision="highest")
        return rows.at[k].set(row), residual - along[:, None] * edge[None]

    return jax.lax.fori_loop(0, num_rows, choose, (jnp.zeros(num_rows, jnp.int32), x))[0]

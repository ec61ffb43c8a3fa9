"""The stochastic block model of a graph: nodes in K blocks, edges whose law depends on the blocks
of their two ends (Holland, Laskey and Leinhardt 1983; variational inference: Daudin, Picard and
Robin 2008; Latouche, Birmele and Ambroise 2012).

    pi ~ Dirichlet(concentration),   z_i ~ pi,   i = 1..N
    Bernoulli:  y_ij ~ Bernoulli(B_{z_i z_j}),  B_kl ~ Beta(a, b)
    Poisson:    y_ij ~ Poisson(B_{z_i z_j}),    B_kl ~ Gamma(a, b)

over pairs i < j with B symmetric, or over all ordered pairs. All z_i depend on each other through
the edges: z is a plate of coupled entries, which mean field visits one by one. With A_kl = sum_ij
z_ik y_ij z_jl and P_kl = sum_ij z_ik z_jl over observed pairs, the energy of the edges is  <A, log
B> + <P - A, log(1 - B)>,  or  <A, log B> - <P, B>.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.arguments import Positive, Size, check_arguments
from vijax.checks import require
from vijax.contract import init as starts
from vijax.contract.batch import Minibatch, fill_padding
from vijax.contract.model import Hyper, LocalElbo, Model
from vijax.contract.queries import Generative, is_sizes
from vijax.contract.room import limit_sizes
from vijax.families import Beta, Categorical, Dirichlet, Gamma, Product
from vijax.families.scalar.poisson import poisson_values
from vijax.models.energies.energy_model import Structure, ready_model
from vijax.models.factors.block_numbers import Logs, Sums, number_blocks, permute_columns
from vijax.xla.by_value import cache_by_value
from vijax.xla.compiler import quick_jit

_RUNS = 20
"""Runs of k-means."""
_SURE = 3.0
"""Log odds of the block of a node at the start: far from even, and small enough to change."""


@cache_by_value
@limit_sizes
@check_arguments
def stochastic_block_model(
    num_blocks: Size,
    edges: Literal["bernoulli", "poisson"] = "bernoulli",
    directed: bool = False,
    concentration: Positive = 1.0,
    a: Positive = 1.0,
    b: Positive = 1.0,
) -> Model:
    """A stochastic block model.

    Args:
      num_blocks: K, number of blocks.
      edges: bernoulli: an edge or none; poisson: counts.
      directed: True for graphs in which edges have a direction: the matrix need not be symmetric.
      concentration: prior concentration of the blocks' weights.
      a: first parameter of the Beta(a, b) prior of the probability of an edge between two blocks,
        or of the Gamma(a, b) prior of its rate.
      b: second parameter of the same prior.

    Returns:
      A `Model` with globals `weights` (K,) and `rates`, shape (K, K), or (K (K + 1) / 2,) for an
      undirected graph, which `rates_matrix` turns into a matrix. Data: graphs, shape (graphs, N,
      N), a single graph as `y[None]`; the diagonal is ignored, NaN marks unobserved pairs.
      `fit.locals(y, key=key)["z"].probs` are the blocks, shape (graphs, N, K). The start is
      spectral, so that all restarts are equal. Block numbers agree between graphs, also new ones. A
      sweep over the nodes costs N gradients, O(N^3 K) in all.

    >>> import vijax as vi
    >>> y = np.kron(np.eye(2), np.ones((6, 6)))
    >>> y[0, 11] = y[11, 0] = 1.0
    >>> fit = vi.fit(vi.cavi(stochastic_block_model(2)), y[None], num_steps=10, key=jax.random.key(0))
    >>> print(np.sort(np.bincount(fit.locals(y[None], key=jax.random.key(0))["z"].mode()[0])))
    [6 6]
    """
    places = _places(num_blocks, directed)
    sizes: tuple[int, ...] = (num_blocks, num_blocks)
    if not directed:
        sizes = (num_blocks * (num_blocks + 1) // 2,)
    shape = np.ones(sizes)
    make: Any = Beta.from_alpha_beta if edges == "bernoulli" else Gamma.from_shape_rate

    def energy(s: Any, y: Float[Array, "N N"]) -> Float[Array, ""]:
        observed, y = _pairs(y, directed)
        z = s["z"].one_hot
        pairs, links = z.T @ observed @ z, z.T @ y @ z
        log_rates = s["rates"].log[places]
        if edges == "bernoulli":
            fit = jnp.vdot(links, log_rates) + jnp.vdot(pairs - links, s["rates"].log1m[places])
        else:
            fit = jnp.vdot(links, log_rates) - jnp.vdot(pairs, s["rates"].value[places])
            fit -= jnp.sum(jax.scipy.special.gammaln(jnp.maximum(y, 0.0) + 1.0))
        return fit + jnp.sum(z @ s["weights"].log)

    plain_model = ready_model(
        globals={
            "weights": Dirichlet.from_concentration(concentration * np.ones(num_blocks)),
            "rates": make(a * shape, b * shape),
        },
        locals=lambda y: {
            "z": Categorical(jnp.zeros((y.shape[0], num_blocks), jnp.result_type(float)))
        },
        structure=Structure(
            start=lambda y: {"z": _spectral_start(y, num_blocks, directed)}, plates=["z"]
        ),
        energy=energy,
        example=np.zeros((4, 4)),
        init=_implied_start(num_blocks, edges, directed),
        check_data=lambda data: _check(data, edges, directed),
        generative=_generative(edges, directed, places),
    )

    def local_elbo(
        hyper: Hyper, stats: Any, batch: Minibatch, key: PRNGKeyArray, estep: Any
    ) -> LocalElbo:
        """The bound; cold E-steps start in blocks that are numbered as in the rates."""
        if batch.local is None:
            logs = _expected_logs(jax.lax.stop_gradient(stats), edges, places)
            begin = lambda y: _number_like(
                logs, _spectral_start(y, num_blocks, directed), y, directed
            )
            batch = batch._replace(local={"z": jax.vmap(begin)(_graphs(batch))})
        return plain_model.local_elbo(hyper, stats, batch, key, estep)

    begin = lambda hyper, batch: {"z": _start_alike(_graphs(batch), num_blocks, edges, directed)}
    return dataclasses.replace(
        plain_model,
        local_elbo=local_elbo,
        locals=dataclasses.replace(plain_model.locals, start=begin),
    )


def _generative(edges: str, directed: bool, places: Any) -> Generative:
    """Draws of complete graphs, with zeros on the diagonal."""

    def layout(like: Any) -> Float[Array, "graphs N N"]:
        if is_sizes(like):
            is_one_size = len(set(map(int, like))) == 1 and int(like[0]) >= 2
            require(is_one_size, "like", "graphs of one number of nodes, 2 or more", like)
            return jnp.zeros((len(like), int(like[0]), int(like[0])))
        _check(like, edges, directed)
        return jnp.asarray(like, jnp.result_type(float))

    def local(hyper: Any, values: Any, y: Array, key: PRNGKeyArray) -> dict[str, Array]:
        return {"z": jax.random.categorical(key, jnp.log(values["weights"]), shape=y.shape[:2])}

    def data(
        hyper: Any, values: Any, local: Any, y: Array, key: PRNGKeyArray
    ) -> Float[Array, "graphs N N"]:
        z = local["z"]
        rates = values["rates"][places][z[:, :, None], z[:, None, :]]
        draw = jax.random.bernoulli if edges == "bernoulli" else poisson_values
        return _off_diagonal(draw(key, rates).astype(y.dtype), directed)

    return Generative(layout, data, local, lambda layout, data: _off_diagonal(layout, directed))


def _off_diagonal(y: Float[Array, "graphs N N"], directed: bool) -> Float[Array, "graphs N N"]:
    """A graph without its diagonal; for an undirected graph the upper half in both halves."""
    upper = jnp.triu(y, 1)
    return upper + (jnp.tril(y, -1) if directed else upper.swapaxes(1, 2))


def rates_matrix(rates: Any) -> Float[Array, "K K"]:
    """The matrix of rates between blocks, from `rates` of an undirected model, a number for each
    pair k <= l.

    >>> print(rates_matrix(jnp.array([0.1, 0.2, 0.3])))
    [[0.1 0.2]
     [0.2 0.3]]
    """
    rates = jnp.asarray(rates)
    num_blocks = int((np.sqrt(8 * rates.shape[0] + 1) - 1) / 2)
    if rates.ndim == 1:
        return rates[_places(num_blocks, False)]
    return rates


def _places(num_blocks: int, directed: bool) -> Any:
    """The index in `rates` of each pair of blocks k, l."""
    if directed:
        return slice(None)
    places = np.zeros((num_blocks,) * 2, np.int32)
    rows, columns = np.triu_indices(num_blocks)
    places[rows, columns] = places[columns, rows] = np.arange(len(rows))
    return places


def _pairs(
    y: Float[Array, "N N"], directed: bool
) -> tuple[Float[Array, "N N"], Float[Array, "N N"]]:
    """Weights of the pairs, 1 if observed, else 0; and their edges."""
    y = jnp.asarray(y, jnp.result_type(float))
    size = y.shape[0]
    is_pair = jnp.triu(jnp.ones((size, size), bool), 1)
    if directed:
        is_pair = ~jnp.eye(size, dtype=bool)
    is_pair &= ~jnp.isnan(y)
    return is_pair.astype(y.dtype), jnp.where(is_pair, y, 0.0)


# --- the start ------------------------------------------------------------------------------------
def _graphs(batch: Minibatch) -> Float[Array, "graphs N N"]:
    """The graphs of a batch; padding is replaced by a graph that counts."""
    data = jnp.asarray(batch.data, jnp.result_type(float))
    if batch.weights is None:
        return data
    return fill_padding(data, jnp.asarray(batch.weights))


@cache_by_value
def _implied_start(num_blocks: int, edges: str, directed: bool) -> starts.Init:
    """The globals implied by the first blocks; no key is used."""

    def start(key: PRNGKeyArray, context: starts.Context) -> Product:
        y = jnp.asarray(context.data().data, jnp.result_type(float))
        return context.conditional(
            {"z": _start_alike(y, num_blocks, edges, directed).expected_stats()}
        )

    return start


def _start_alike(
    y: Float[Array, "graphs N N"], num_blocks: int, edges: str, directed: bool
) -> Categorical:
    """The spectral starts of several graphs, with blocks numbered as in the first graph."""
    start = jax.vmap(lambda y: _spectral_start(y, num_blocks, directed))(y)
    sums = _sums(jax.tree.map(lambda x: x[0], start), y[0], directed)
    logs = _empirical_logs(sums, edges)
    return jax.vmap(lambda q, y: _number_like(logs, q, y, directed))(start, y)


def _number_like(logs: Logs, q: Categorical, y: Float[Array, "N N"], directed: bool) -> Categorical:
    """The start of a graph, with blocks numbered as in these logarithms."""
    return Categorical(permute_columns(q.logits, number_blocks(_sums(q, y, directed), logs)))


def _sums(q: Categorical, y: Float[Array, "N N"], directed: bool) -> Sums:
    """Edges and pairs between the blocks of a graph; for an undirected graph half in either
    order."""
    observed, edges = _pairs(y, directed)
    z = jax.nn.one_hot(jnp.argmax(q.logits, -1), q.logits.shape[-1], dtype=edges.dtype)
    links, pairs = z.T @ edges @ z, z.T @ observed @ z
    even = lambda table: table if directed else 0.5 * (table + table.T)
    return Sums(even(links), even(pairs), jnp.sum(z, 0))


def _empirical_logs(sums: Sums, edges: str) -> Logs:
    """The logarithms at the empirical rates of a graph, a little inside their range."""
    rates = (sums.links + 0.5) / (sums.pairs + 1.0)
    weights = jnp.log((sums.nodes + 0.5) / jnp.sum(sums.nodes + 0.5))
    if edges == "bernoulli":
        return Logs(jnp.log(rates) - jnp.log1p(-rates), jnp.log1p(-rates), weights)
    return Logs(jnp.log(rates), -rates, weights)


def _expected_logs(stats: Any, edges: str, places: Any) -> Logs:
    """The expected logarithms at the statistics of the globals."""
    log_rates = stats["rates"].log[places]
    if edges == "bernoulli":
        log1m = stats["rates"].log1m[places]
        return Logs(log_rates - log1m, log1m, stats["weights"].log)
    return Logs(log_rates, -stats["rates"].value[places], stats["weights"].log)


def _spectral_start(y: Float[Array, "N N"], num_blocks: int, directed: bool) -> Categorical:
    """q of the blocks of `_spectral_labels`, with log odds `_SURE`."""
    labels = _spectral_labels(jnp.asarray(y, jnp.result_type(float)), num_blocks, directed)
    return Categorical(_SURE * jax.nn.one_hot(labels, num_blocks, dtype=jnp.result_type(float)))


@functools.partial(quick_jit, static_argnums=(1, 2))
def _spectral_labels(y: Float[Array, "N N"], num_blocks: int, directed: bool) -> Int[Array, " N"]:
    """Blocks by k-means on the leading singular vectors of the graph, normalised by regularised
    degrees (Qin and Rohe 2013): the best of `_RUNS` runs with fixed seeds."""
    y = jnp.where(jnp.isnan(y) | jnp.eye(y.shape[0], dtype=bool), 0.0, y)
    out, into = jnp.sum(y, 1), jnp.sum(y, 0)
    mean = jnp.mean(out) + 1e-6
    left_vectors, _, right_vectors = jnp.linalg.svd(
        y / jnp.sqrt((out + mean)[:, None] * (into + mean))
    )
    points = left_vectors[:, :num_blocks]
    if directed:
        points = jnp.concatenate([points, right_vectors[:num_blocks].T], axis=1)
    run = lambda key: starts.nearest_labels(key, points, jnp.ones(len(y), y.dtype), num_blocks, 20)
    labels = jax.lax.map(run, jax.random.split(jax.random.key(0), _RUNS))
    spreads = jax.vmap(lambda z: _spread(points, z, num_blocks))(labels)
    return _renumber_by_appearance(labels[jnp.argmin(spreads)], num_blocks)


def _renumber_by_appearance(labels: Int[Array, " N"], num_blocks: int) -> Int[Array, " N"]:
    """The same blocks, numbered in the order of their first nodes, so that programs with different
    rounding agree."""
    is_member = labels[:, None] == jnp.arange(num_blocks)
    first = jnp.where(jnp.any(is_member, 0), jnp.argmax(is_member, 0), len(labels))
    return jnp.argsort(jnp.argsort(first))[labels]


def _spread(
    points: Float[Array, "N D"], labels: Int[Array, " N"], num_blocks: int
) -> Float[Array, ""]:
    """The sum of squares within blocks."""
    members = jax.nn.one_hot(labels, num_blocks, dtype=points.dtype)
    centres = members.T @ points / jnp.maximum(jnp.sum(members, 0), 1.0)[:, None]
    return jnp.sum((points - centres[labels]) ** 2)


def _check(data: Any, edges: str, directed: bool) -> None:
    """Raises ValueError unless data are graphs of this kind; it names the first bad entry."""
    y = np.asarray(data, np.float64)
    is_square = y.ndim == 3 and y.shape[1] == y.shape[2] and y.shape[1] >= 2
    require(
        is_square,
        "data",
        "graphs of shape (graphs, N, N), N >= 2",
        f"shape {y.shape}",
        "A single one is y[None].",
    )
    off = ~np.eye(y.shape[1], dtype=bool)
    is_observed = ~np.isnan(y)
    if edges == "bernoulli":
        valid = np.isin(y, (0.0, 1.0))
        expected = "edges that are 0 or 1"
    else:
        valid = (y >= 0) & (y == np.round(y)) & np.isfinite(y)
        expected = "counts"
    bad = _first(is_observed & off & ~valid)
    require(
        bad is None, "data", f"{expected} (NaN: not observed)", f"{y[bad]} at {bad}" if bad else ""
    )
    if not directed:
        is_symmetric = (y == y.swapaxes(1, 2)) | (~is_observed & ~is_observed.swapaxes(1, 2))
        bad = _first(off & ~is_symmetric)
        remedy = "Use directed=True, or symmetrise the graph."
        require(
            bad is None,
            "data",
            "symmetric matrices",
            f"unequal entries at {bad} and across",
            remedy,
        )


def _first(mask: np.ndarray) -> tuple[int, ...] | None:
    """The index of the first true entry."""
    places: Int[np.ndarray, "n 3"] = np.argwhere(mask)
    if len(places):
        return tuple(map(int, places[0]))
    return None

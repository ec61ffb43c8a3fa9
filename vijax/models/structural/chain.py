"""A Gibbs chain of the structural topic model that starts at q: shares of documents with the
uncertainty of topics, coefficients and covariance.

Draws of shares at fixed coefficients G are too narrow, because their regression returns the G that
they were drawn with. If a share f of the information is missing (short documents), the variance of
effects is I^-1 / (1 - f), where I is the information of known shares; composition at fixed G gives
I^-1 (1 + f) (Rubin 1987, chapter 4). A chain that draws G given the shares and the shares given G
adds all powers of f. One sweep:

    z_d | G, L, beta, words:  Metropolis-Hastings from N(z; G' x_d, L^-1) exp(h_d z - z' S_d z / 2), q's own sites
    topic of each word | z, beta;     beta | topics of words;     G, L | z, their conjugate conditionals

The topics of words are drawn after z, whose conditional sums them out (Tanner and Wong 1987; van
Dyk and Park 2008)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.data.corpora.corpus import Corpus
from vijax.families import MatrixNormalWishart, Product
from vijax.families.vector.matrices import solve
from vijax.models.structural.group_words import conditional, word_table
from vijax.xla.compiler import step_jit

BLOCK = 1 << 16
"""Words whose topics are drawn at once."""


class Sites(NamedTuple):
    """Factors of q(z) that replace the words of each document, exp(linear z - z' precision z / 2);
    and the mean of q."""

    mean: Float[Array, "docs K"]
    linear: Float[Array, "docs K"]
    precision: Float[Array, "docs K K"]


class Words(NamedTuple):
    """Words of all documents, in blocks: the document, the word id (in the table by group), and the
    count."""

    document: Int[Array, "blocks B"]
    word: Int[Array, "blocks B"]
    times: Float[Array, "blocks B"]


class Documents(NamedTuple):
    """Data of a chain: covariates, sites, pairs of document and word, and all tokens."""

    x: Float[Array, "docs J"]
    sites: Sites
    pairs: Words
    tokens: Words


SWEEPS_PER_DRAW = 3
"""Sweeps from one draw to the next."""


def chain_documents(
    corpus: Corpus,
    groups: int,
    logits: Any,
    mean: Float[np.ndarray, "docs K"],
    site: Float[np.ndarray, "docs K K"],
) -> Documents:
    """The documents of a corpus with covariates. q(z_d) has the means `mean`, and `site` are its
    precisions beyond the prior's; `logits` are the statistics of coefficients and precision at
    which q was computed."""
    document = np.repeat(np.arange(corpus.num_documents), np.diff(corpus.indptr))
    covariates: Any = corpus.covariates
    x = covariates[:, :-1] if groups else covariates
    group = covariates[:, -1].astype(int) if groups else np.zeros(len(x), int)
    word = np.asarray(corpus.indices) + corpus.vocab_size * group[document]
    counts = np.asarray(corpus.counts)
    tokens = _blocks(np.repeat(document, counts), np.repeat(word, counts), np.ones(counts.sum()))
    natural = np.einsum("dkl,dl->dk", np.asarray(logits.precision) + site, mean)
    linear = natural - x @ np.asarray(logits.coefficients_times_precision)
    floats = lambda part: jnp.asarray(part, jnp.result_type(float))
    sites = Sites(floats(mean), floats(linear), floats(site))
    return Documents(floats(x), sites, _blocks(document, word, counts), tokens)


def _blocks(document: np.ndarray, word: np.ndarray, times: np.ndarray) -> Words:
    # Powers of two, so that few sizes are compiled.
    size = min(BLOCK, 1 << max(len(word) - 1, 0).bit_length())
    missing = -len(word) % size
    blocks = lambda x, kind: jnp.asarray(np.pad(x, (0, missing)).reshape(-1, size), kind)
    return Words(
        blocks(document, jnp.int32), blocks(word, jnp.int32), blocks(times, jnp.result_type(float))
    )


def draw_chain(
    groups: int,
    prior: Product,
    stats: Any,
    documents: Documents,
    key: PRNGKeyArray,
    before: int,
    number: int,
    callback: Callable[[int, int], None] | None = None,
) -> tuple[Float[np.ndarray, "S docs K"], float]:
    """Draws of the shares from one chain, and the share of accepted proposals of z.

    Args:
      groups: number of groups of words; 0 if words do not differ.
      prior: prior of the globals.
      stats: statistics of a draw of all globals, at which the chain starts.
      documents: all documents.
      key: random key.
      before: sweeps before the first draw.
      number: number of draws.
      callback: called with the number of finished sweeps and the number of all sweeps.
    """
    state = (stats, documents.sites.mean, jnp.zeros(()))
    shares = []
    total = before + SWEEPS_PER_DRAW * number
    for num_sweeps in range(
        before % SWEEPS_PER_DRAW or SWEEPS_PER_DRAW, total + 1, SWEEPS_PER_DRAW
    ):
        state = _run_sweeps(
            groups, prior, documents, state, key, max(num_sweeps - SWEEPS_PER_DRAW, 0), num_sweeps
        )
        # Else sweeps would be reported, and could not be interrupted, before they have run.
        jax.block_until_ready(state)
        if num_sweeps > before:
            shares.append(np.asarray(jax.nn.softmax(state[1])))
        if callback is not None:
            callback(num_sweeps, total)
    return np.stack(shares), float(state[2]) / total


@functools.partial(step_jit, static_argnums=(0,))
def _run_sweeps(
    groups: int,
    prior: Product,
    documents: Documents,
    state: Any,
    key: PRNGKeyArray,
    first: Any,
    end: Any,
) -> Any:
    """The state after the sweeps `first` to `end` - 1."""
    at = lambda i, state: sweep(groups, prior, documents, state, jax.random.fold_in(key, i))
    return jax.lax.fori_loop(first, end, at, state)


def sweep(groups: int, prior: Product, documents: Documents, state: Any, key: PRNGKeyArray) -> Any:
    """One sweep of a state: statistics of the globals, z, and the sum of the shares of accepted
    proposals."""
    stats, z, accepted = state
    key_z, key_topics, key_own, key_words = jax.random.split(key, 4)
    table = word_table(groups, stats)
    z, is_accepted = _move(stats["logits"], documents, table, z, key_z)
    counts = _topics_of_words(documents.tokens, table, z, key_topics)
    laws = conditional(groups, prior, stats, counts, key_own)
    laws["logits"] = given_z(prior["logits"], documents.x, z)
    return drawn_stats(laws, key_words), z, accepted + jnp.mean(is_accepted)


def drawn_stats(laws: Mapping[str, Any], key: PRNGKeyArray) -> dict[str, Any]:
    """Statistics of a draw of each law."""
    keys = dict(zip(sorted(laws), jax.random.split(key, len(laws)), strict=True))
    return {name: law.sample_stats(keys[name]) for name, law in laws.items()}


def given_z(
    prior: Any, x: Float[Array, "docs J"], z: Float[Array, "docs K"]
) -> MatrixNormalWishart:
    """The law of coefficients and precision given all z: prior and messages (x z', -x x' / 2, -z z'
    / 2, 1/2)."""
    product = functools.partial(jnp.matmul, precision="highest")
    message = product(x.T, z), -0.5 * product(x.T, x), -0.5 * product(z.T, z), 0.5 * len(z)
    sums = (a + b for a, b in zip(jax.tree.leaves(prior), message, strict=True))
    return MatrixNormalWishart(*sums)


def _move(
    logits: Any,
    documents: Documents,
    table: Float[Array, "W K"],
    z: Float[Array, "docs K"],
    key: PRNGKeyArray,
) -> tuple[Float[Array, "docs K"], Any]:
    """z after a Metropolis-Hastings step whose proposal is the prior times q's site; and a mask of
    the accepted proposals."""
    key_noise, key_accept = jax.random.split(key)
    sites = documents.sites
    prior_linear = jnp.matmul(documents.x, logits.coefficients_times_precision, precision="highest")
    linear = prior_linear + sites.linear
    factor = jnp.linalg.cholesky(logits.precision[None] + sites.precision)
    noise = jax.random.normal(key_noise, z.shape, z.dtype)
    at = lambda b, trans: solve(factor, b[..., None], trans=trans)[..., 0]
    proposal = at(at(linear, 0) + noise, 1)
    excess = functools.partial(_excess, documents, table)
    log_u = jnp.log(jax.random.uniform(key_accept, z.shape[:1], z.dtype))
    accepted = log_u < excess(proposal) - excess(z)
    return jnp.where(accepted[:, None], proposal, z), accepted


def _excess(
    documents: Documents, table: Float[Array, "W K"], z: Float[Array, "docs K"]
) -> Float[Array, " docs"]:
    """Log likelihood of the words of each document less the log of its site."""
    sites, shares = documents.sites, jax.nn.softmax(z)
    words = jnp.exp(table)

    def add(total: Array, block: Words) -> Any:
        chance = jnp.sum(shares[block.document] * words[block.word], 1)
        sums = jnp.where(block.times > 0, block.times * jnp.log(jnp.maximum(chance, 1e-37)), 0.0)
        return total.at[block.document].add(sums), None

    sums, _ = jax.lax.scan(add, jnp.zeros_like(z[:, 0]), documents.pairs)
    site = jnp.sum(sites.linear * z, 1) - 0.5 * jnp.einsum(
        "dk,dkl,dl->d", z, sites.precision, z, precision="highest"
    )
    return sums - site


def _topics_of_words(
    tokens: Words, table: Float[Array, "W K"], z: Float[Array, "docs K"], key: PRNGKeyArray
) -> Float[Array, "W K"]:
    """Counts of words by topic, after a draw of the topic of every word."""
    shares, words = jax.nn.softmax(z), jnp.exp(table)
    topics = table.shape[1]

    def add(total: Array, block_and_key: Any) -> Any:
        block, key = block_and_key
        below = jnp.cumsum(shares[block.document] * words[block.word], 1)
        u = jax.random.uniform(key, below.shape[:1], below.dtype) * below[:, -1]
        topic = jnp.minimum(jnp.sum(below <= u[:, None], 1), topics - 1)
        return total.at[block.word * topics + topic].add(block.times), None

    keys = jax.random.split(key, len(tokens.times))
    return jax.lax.scan(add, jnp.zeros(table.size, z.dtype), (tokens, keys))[0].reshape(table.shape)

"""Plates of coupled locals and the stochastic block model: enumeration, and coordinate ascent
written in NumPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln, digamma, gammaln, logsumexp

import vijax as vi
from tests.naming import naming
from vijax.models.factors.block_numbers import Logs, Sums, number_blocks
from vijax.models.factors.stochastic_block_model import rates_matrix, stochastic_block_model
from vijax.reference import gibbs
from vijax.reference.log_joint import log_joint

KEY = jax.random.key(0)
KINDS = [("bernoulli", False), ("bernoulli", True), ("poisson", False), ("poisson", True)]


def graph(seed, size, num_blocks, inside, outside, edges="bernoulli", directed=False):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, num_blocks, size)
    rates = np.where(z[:, None] == z, inside, outside)
    y = (
        (rng.uniform(size=rates.shape) < rates) * 1.0
        if edges == "bernoulli"
        else rng.poisson(rates) * 1.0
    )
    y = y if directed else np.triu(y, 1) + np.triu(y, 1).T
    return y.astype(np.float32), z


def counted(y, directed):
    return (
        ~np.eye(len(y), dtype=bool)
        & ~np.isnan(y)
        & (True if directed else np.triu(np.ones(y.shape, bool)))
    )


class Reference:
    """Mean field of the model in NumPy: Latouche, Birmele and Ambroise 2012, section 3, entry by
    entry."""

    def __init__(self, y, q, edges, directed):
        self.y, self.q, self.edges, self.directed = np.float64(y), np.float64(q), edges, directed
        self.pairs = counted(y, directed)

    def sums(self):
        """Of pairs and of edges between blocks, (K, K), those of k, l and l, k together where that
        is one parameter."""
        known = np.where(self.pairs, np.nan_to_num(self.y), 0.0)
        tables = [self.q.T @ x @ self.q for x in (self.pairs * 1.0, known)]
        if not self.directed:
            tables = [t + t.T - np.diag(np.diag(t)) for t in tables]
        return tables

    def globals(self):
        pairs, links = self.sums()
        rest = pairs - links if self.edges == "bernoulli" else pairs
        return 1 + self.q.sum(0), 1 + links, 1 + rest

    def logs(self):
        """E log pi, and what an edge and a pair add."""
        weights, a, b = self.globals()
        log_pi = digamma(weights) - digamma(weights.sum())
        if self.edges == "bernoulli":
            log1m = digamma(b) - digamma(a + b)
            return log_pi, digamma(a) - digamma(a + b) - log1m, log1m
        return log_pi, digamma(a) - np.log(b), -a / b

    def sweep(self, logs):
        """Every node given all others."""
        log_pi, per_edge, per_pair = logs
        known = np.where(self.pairs, np.nan_to_num(self.y), 0.0)
        for i in range(len(self.y)):
            out = self.q.T @ known[i], self.q.T @ self.pairs[i]
            into = self.q.T @ known[:, i], self.q.T @ self.pairs[:, i]
            score = (
                log_pi
                + per_edge @ out[0]
                + per_pair @ out[1]
                + per_edge.T @ into[0]
                + per_pair.T @ into[1]
            )
            self.q[i] = np.exp(score - logsumexp(score))

    def bound(self):
        """At the best globals, which is  log of a ratio of normalisers, and the entropy of q(z)."""
        weights, a, b = self.globals()
        size = len(weights)
        value = gammaln(weights).sum() - gammaln(weights.sum()) + gammaln(size)
        kept = (
            np.ones((size, size), bool) if self.directed else np.triu(np.ones((size, size), bool))
        )
        if self.edges == "bernoulli":
            value += betaln(a, b)[kept].sum()
        else:
            value += (gammaln(a) - a * np.log(b))[kept].sum()
            value -= gammaln(np.where(self.pairs, np.nan_to_num(self.y), 0.0) + 1).sum()
        return value - np.sum(self.q * np.log(np.maximum(self.q, 1e-300)))


@pytest.mark.parametrize(("edges", "directed"), KINDS)
def test_the_fixed_point_is_that_of_numpy_and_below_the_evidence(edges, directed):
    """Five nodes with a missing pair: the evidence is a sum over 2^5 blocks, in which all else is
    integrated out."""
    y, _ = graph(3, 5, 2, 0.8, 0.3, edges, directed)
    y[0, 3] = y[3, 0] = np.nan
    model = stochastic_block_model(2, edges, directed)
    fit = vi.fit(
        vi.cavi(model, estep=vi.estep.mean_field(500, 1e-6)), y[None], num_steps=100, key=KEY
    )
    q = np.asarray(fit.locals(y[None], key=KEY)["z"].probs[0])
    own = Reference(y, model.queries["energy"].start(y)["z"].probs, edges, directed)
    bounds = []
    for _ in range(300):
        own.sweep(own.logs())
        bounds.append(own.bound())
    assert np.all(np.diff(bounds) > -1e-9)
    assert np.all(np.diff(fit.trace["elbo"]) > -1e-4)
    numbered = (
        own.q if np.abs(q - own.q).max() < 0.1 else own.q[:, ::-1]
    )  # blocks may be exchanged on the way
    np.testing.assert_allclose(q, numbered, atol=2e-3)
    np.testing.assert_allclose(fit.trace["elbo"][-1], own.bound(), rtol=1e-5)
    labels = itertools.product((0, 1), repeat=5)
    evidence = logsumexp(
        [Reference(y, np.eye(2)[list(z)], edges, directed).bound() for z in labels]
    )
    assert own.bound() < evidence


COUPLINGS = np.triu(np.random.default_rng(5).normal(size=(6, 6)), 1)
FIELDS = np.random.default_rng(6).normal(size=6)
STATES = np.array(list(itertools.product((0.0, 1.0), repeat=6)))
EVIDENCE = logsumexp(STATES @ FIELDS + np.einsum("si,ij,sj->s", STATES, COUPLINGS, STATES))


def ising(diagonal=0.0, plates=("x",), joint=()):
    """A Boltzmann machine of six units, its couplings times a global at 1."""

    def energy(s, y):
        x = s["x"].value
        return FIELDS @ x + s["m"].value * (x @ COUPLINGS @ x + diagonal * jnp.sum(x**2)) + 0.0 * y

    return vi.energy_model(
        globals={"m": vi.Normal.from_mean_variance(1.0, 1.0)},
        locals={"x": vi.Bernoulli.from_probs(np.linspace(0.3, 0.6, 6))},
        structure=vi.Structure(plates=plates, joint=joint),
        energy=energy,
        example=0.0,
    )


def test_mean_field_of_a_boltzmann_machine_is_coordinate_ascent():
    """After one sweep, and at the end; the message too."""
    there = lambda estep: vi.at(ising(), {"m": 1.0}, estep=estep)
    q = np.linspace(0.3, 0.6, 6)
    both = COUPLINGS + COUPLINGS.T
    log_odds = lambda q: np.log(q) - np.log1p(-q)
    bound = lambda q: FIELDS @ q + q @ COUPLINGS @ q - q @ np.log(q) - (1 - q) @ np.log1p(-q)
    old = -np.inf
    for sweeps in range(1, 400):
        for i in range(6):
            q[i] = 1 / (1 + np.exp(-FIELDS[i] - both[i] @ q))
        assert bound(q) > old - 1e-12
        old = bound(q)
        if sweeps == 1:
            one = there(vi.estep.mean_field(1)).locals(jnp.zeros(1), key=KEY)["x"]
            np.testing.assert_allclose(one.logit[0], log_odds(q), rtol=1e-4, atol=1e-5)
    end = there(vi.estep.mean_field(400, 1e-6))
    np.testing.assert_allclose(end.locals(jnp.zeros(1), key=KEY)["x"].probs[0], q, atol=1e-4)
    np.testing.assert_allclose(end.per_group(jnp.zeros(1), key=KEY)[0], bound(q), rtol=1e-5)
    assert bound(q) < EVIDENCE
    at = lambda m: vi.at(ising(), {"m": m}, estep=vi.estep.mean_field(400, 1e-6)).log_likelihood(
        jnp.zeros(1), key=KEY
    )
    np.testing.assert_allclose(jax.grad(at)(1.0), q @ COUPLINGS @ q, rtol=1e-3)


@pytest.mark.slow
def test_gibbs_of_a_boltzmann_machine():
    """Its bound is below the evidence on average, and its message the mean of the coupled terms, by
    enumeration."""
    stats = ising().prior({}).stats({"m": jnp.float32(1.0)})
    batch = vi.Minibatch(jnp.zeros(400), None)
    bound = lambda stats: ising().local_elbo({}, stats, batch, KEY, vi.estep.gibbs(50, 20))
    said, message = jax.value_and_grad(
        lambda s: (lambda b: (b.total, b.per_group))(bound(s)), has_aux=True
    )(stats)
    values = np.asarray(said[1], np.float64)
    assert values.mean() < EVIDENCE + 6 * values.std() / 20
    assert values.mean() > EVIDENCE - 2.0
    law = np.exp(STATES @ FIELDS + np.einsum("si,ij,sj->s", STATES, COUPLINGS, STATES) - EVIDENCE)
    exact = law @ np.einsum("si,ij,sj->s", STATES, COUPLINGS, STATES)
    np.testing.assert_allclose(message["m"].value / 400, exact, atol=0.1)


def test_plates_are_checked():
    with pytest.raises(ValueError, match=naming("'x'", "vijax.Structure")):
        ising(plates=())
    with pytest.raises(ValueError, match=r"not linear in stats\['x'\]\.value"):
        ising(diagonal=1.0)
    with pytest.raises(ValueError, match=naming("plates:", "'x'", "'w'")):
        ising(plates=["w"])
    with pytest.raises(ValueError, match=naming("plates:", "`joint`")):
        ising(joint=[["x"]])
    with pytest.raises(ValueError, match=r"^model: .*coupled plates \['x'\]"):
        log_joint(ising(), jnp.zeros(1))
    with pytest.raises(ValueError, match=r"^model: .*coupled plates \['x'\]"):
        gibbs(ising(), jnp.zeros(1), key=KEY, num_samples=1)


def test_graphs_are_checked():
    bernoulli, directed, poisson = (
        stochastic_block_model(2, *kind) for kind in (KINDS[0], KINDS[1], KINDS[2])
    )
    y = np.zeros((1, 4, 4))
    y[0, 1, 2] = 1.0
    for model, data, message in (
        (bernoulli, y, r"symmetric matrices, got unequal entries at \(0, 1, 2\)"),
        (directed, 2 * y, r"edges that are 0 or 1 .*got 2\.0 at \(0, 1, 2\)"),
        (poisson, -y - y.swapaxes(1, 2), r"counts .*got -1\.0 at \(0, 1, 2\)"),
        (directed, y[0], r"graphs of shape \(graphs, N, N\).*y\[None\]"),
    ):
        with pytest.raises(ValueError, match="^data: expected " + message):
            model.form.check(data)
    directed.form.check(np.where(y == 1, np.nan, y))
    with pytest.raises(ValueError, match=r"^edges: expected"):
        stochastic_block_model(2, "normal")


@pytest.mark.slow
@pytest.mark.parametrize(("edges", "directed"), KINDS)
def test_planted_blocks_of_200_nodes_are_found(edges, directed):
    """All of them, and their rates; the bound never falls."""
    inside, outside = (0.3, 0.05) if edges == "bernoulli" else (0.8, 0.2)
    y, z = graph(0, 200, 4, inside, outside, edges, directed)
    fit = vi.fit(
        vi.cavi(stochastic_block_model(4, edges, directed)), y[None], num_steps=30, key=KEY
    )
    found = np.asarray(fit.locals(y[None], key=KEY)["z"].mode()[0])
    table = np.array([[np.sum((z == k) & (found == j)) for j in range(4)] for k in range(4)])
    assert np.all(np.sort(table, 1)[:, :3] == 0)  # a permutation: the adjusted Rand index is 1
    assert np.all(np.diff(fit.trace["elbo"]) > -2e-6 * abs(fit.trace["elbo"][0]))
    rates = np.asarray(rates_matrix(fit.posterior["rates"].mean()))
    np.testing.assert_allclose(np.diag(rates), inside, rtol=0.15)
    np.testing.assert_allclose(rates[~np.eye(4, dtype=bool)], outside, rtol=0.35)


# --- the numbers of blocks ------------------------------------------------------------------------
UNEVEN = np.array([[0.8, 0.1, 0.05], [0.1, 0.6, 0.1], [0.05, 0.1, 0.4]])


def uneven_graph():
    """Three blocks of twelve nodes, each as dense as no other."""
    blocks = np.repeat(np.arange(3), 12)
    edges = np.random.default_rng(0).random((36, 36)) < UNEVEN[blocks][:, blocks]
    return (np.triu(edges, 1) + np.triu(edges, 1).T).astype(float)


def test_nodes_in_another_order_are_in_the_same_blocks():
    """Of a fit that has not seen the graph in this order: its blocks have the numbers of the fit's
    rates."""
    y = uneven_graph()
    fit = vi.fit(vi.cavi(stochastic_block_model(3)), y[None], num_steps=20, key=KEY)
    blocks = np.asarray(fit.locals(y[None], key=KEY)["z"].mode()[0])
    assert len(set(blocks)) == 3
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(36)
        other = fit.locals(y[order][:, order][None], key=KEY)["z"].mode()[0]
        np.testing.assert_array_equal(other, blocks[order])


def test_blocks_of_several_graphs_have_the_same_numbers():
    """One graph twice, its nodes in two orders: the rates are those of one of them."""
    y = uneven_graph()
    order = np.random.default_rng(1).permutation(36)
    graphs = np.stack([y, y[order][:, order]])
    one, two = (
        vi.fit(vi.cavi(stochastic_block_model(3)), g, num_steps=40, key=KEY)
        for g in (graphs[:1], graphs)
    )
    blocks = np.asarray(two.locals(graphs, key=KEY)["z"].mode())
    np.testing.assert_array_equal(blocks[1], blocks[0][order])
    own, both = (
        np.sort(np.diagonal(rates_matrix(fit.posterior["rates"].mean()))) for fit in (one, two)
    )
    np.testing.assert_allclose(both, own, atol=0.02)


@pytest.mark.parametrize("size", [3, 9])
def test_numbers_of_blocks_are_found_again(size):
    """Of all permutations, and of too many to try them all."""
    rng = np.random.default_rng(size)
    rates, order = rng.uniform(0.05, 0.95, (size, size)), rng.permutation(size)
    logs = Logs(np.log(rates / (1 - rates)), np.log1p(-rates), np.zeros(size))
    pairs = np.full((size, size), 100.0)
    sums = Sums(100.0 * rates[order][:, order], pairs, np.full(size, 10.0))
    np.testing.assert_array_equal(jax.jit(number_blocks)(sums, logs), order)

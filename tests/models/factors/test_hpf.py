"""Hierarchical Poisson factorisation: Gopalan, Hofman and Blei's coordinate updates in NumPy, the
bound by all its terms, features, minibatches, recommendations, wrong input."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.special import gammaln, psi

import vijax as vi
import vijax.sklearn as vs
from vijax.families.scalar.gamma_by_row import GammaByRow
from vijax.models import hpf, new_items, recommend

K, ITEMS, USERS = 3, 12, 20
GIVEN = {
    "a": 0.4,
    "user_shape": 0.7,
    "user_rate": 1.3,
    "c": 0.5,
    "item_shape": 0.9,
    "item_rate": 0.8,
}
RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(RNG.gamma(0.3, 3.0, (USERS, K)) @ RNG.gamma(0.3, 3.0, (K, ITEMS)))
COUNTS[4] = 0
COUNTS[5, 2] = 3000


class ByHand:
    """The paper's algorithm 1 in float64, dense, with the responsibilities of all entries
    formed."""

    def __init__(self, items, rates):
        g = GIVEN
        self.beta = [np.asarray(items.shape), np.asarray(items.rate)]
        self.eta = [np.asarray(rates.shape), np.asarray(rates.rate)]
        self.theta = [
            g["a"] + COUNTS.sum(1, keepdims=True) / K * np.ones((USERS, K)),
            np.full((USERS, K), g["user_rate"]),
        ]
        kappa = g["user_shape"] + K * g["a"]
        self.xi = [np.full(USERS, kappa), np.full(USERS, kappa / g["user_rate"])]

    def shares(self):
        log = [psi(shape) - np.log(rate) for shape, rate in (self.theta, self.beta)]
        weight = np.exp(log[0][:, None, :] + log[1][None, :, :])
        return weight / weight.sum(2, keepdims=True)

    def users(self):
        g, phi = GIVEN, self.shares()
        shape = g["a"] + np.einsum("ui,uik->uk", COUNTS, phi)
        rate = (self.xi[0] / self.xi[1])[:, None] + (self.beta[0] / self.beta[1]).sum(0)
        self.theta = [shape, rate]
        self.xi[1] = g["user_shape"] / g["user_rate"] + (shape / rate).sum(1)

    def items(self):
        g, phi = GIVEN, self.shares()
        rate = (self.eta[0] / self.eta[1])[:, None] + (self.theta[0] / self.theta[1]).sum(0)
        self.beta = [g["c"] + np.einsum("ui,uik->ik", COUNTS, phi), rate]

    def rates(self):
        shape = np.full(ITEMS, GIVEN["item_shape"] + K * GIVEN["c"])
        self.eta = [
            shape,
            GIVEN["item_shape"] / GIVEN["item_rate"] + (self.beta[0] / self.beta[1]).sum(1),
        ]

    def elbo(self):
        """E[log p] - E[log q], term by term, over all entries of the matrix."""
        g, phi = GIVEN, self.shares()
        of = lambda shape, rate: (psi(shape) - np.log(rate), shape / rate)
        (log_t, t), (log_b, b), (log_x, x), (log_e, e) = (
            of(*q) for q in (self.theta, self.beta, self.xi, self.eta)
        )
        log_prior = lambda shape, log_rate, rate, log, value: np.sum(
            shape * log_rate - gammaln(shape) + (shape - 1) * log - rate * value
        )
        total = np.sum(
            COUNTS[..., None] * phi * (log_t[:, None] + log_b[None] - np.log(phi))
        ) - np.sum(gammaln(COUNTS + 1))
        total -= np.sum(t @ b.T)
        total += log_prior(g["a"], log_x[:, None], x[:, None], log_t, t)
        total += log_prior(g["c"], log_e[:, None], e[:, None], log_b, b)
        for name, log, value in (("user", log_x, x), ("item", log_e, e)):
            rate = g[f"{name}_shape"] / g[f"{name}_rate"]
            total += log_prior(g[f"{name}_shape"], np.log(rate), rate, log, value)
        return total + sum(
            stats.gamma.entropy(s, scale=1 / r).sum()
            for s, r in (self.theta, self.beta, self.xi, self.eta)
        )


def agree(q, found):
    np.testing.assert_allclose(np.asarray(q.shape), found[0], rtol=1e-9)
    np.testing.assert_allclose(np.asarray(q.rate), found[1], rtol=1e-9)


def test_twenty_sweeps_are_those_of_the_paper():
    with jax.enable_x64(True):
        model = hpf(K, ITEMS, estep=vi.estep.mean_field(1, 1e-12), **GIVEN)
        alg = vi.warm(vi.cavi(model))
        batch, rows = vi.data.full_batch(vi.data.read(COUNTS), num_buckets=1)
        assert rows.tolist() == list(range(USERS))
        state = alg.init(jax.random.key(1), batch)
        hand = ByHand(state.posterior["items"], state.posterior["item_rates"])
        step = jax.jit(alg.step)
        for sweep in range(20):
            state, info = step(jax.random.key(0), state, batch)
            hand.users()
            elbo = hand.elbo()
            np.testing.assert_allclose(
                info.bound - info.penalty, elbo, rtol=1e-10, err_msg=str(sweep)
            )
            hand.items()
            hand.users()
            hand.rates()
        agree(state.posterior["items"], hand.beta)
        agree(state.posterior["item_rates"], hand.eta)
        users = state.beside["warm"].local
        agree(users["weights"], hand.theta)
        agree(users["rates"], hand.xi)


def stats_at(items, rates):
    gamma = vi.Gamma.from_shape_rate(jnp.ones(()), 1.0)
    return {"items": gamma.stats(jnp.asarray(items)), "item_rates": gamma.stats(jnp.asarray(rates))}


def said_of(model, stats, counts):
    batch = vi.data.full_batch(vi.data.read(counts), num_buckets=1)[0]
    return jax.jit(said, static_argnums=0)(model, stats, batch)


def said(model, stats, batch):
    return model.local_elbo(model.hyper, stats, batch, jax.random.key(0), model.estep)


def test_prior_of_items_given_their_rates_and_features():
    """At any values the prior and the term that couples it are SciPy's densities."""
    with jax.enable_x64(True):
        items, rates = RNG.gamma(1.0, size=(ITEMS, K)) + 0.1, RNG.gamma(1.0, size=ITEMS) + 0.1
        features, slopes = RNG.normal(size=(ITEMS, 2)), RNG.normal(size=(2, K))
        of_rates = stats.gamma.logpdf(rates, 0.9, scale=0.8 / 0.9).sum()
        for model, tilt in (
            (hpf(K, ITEMS, **GIVEN), 0.0),
            (hpf(K, ITEMS, features=features, **GIVEN), features @ slopes),
        ):
            hyper = {**model.hyper, "feature_weights": jnp.asarray(slopes)}

            @jax.jit
            def of_globals(values, hyper, model=model):
                prior = model.prior(hyper)
                own = sum(jnp.sum(prior[name].log_prob(x)) for name, x in values.items())
                return own + model.global_elbo(
                    hyper, stats_at(values["items"], values["item_rates"])
                )

            found = of_globals({"items": items, "item_rates": rates}, hyper)
            wanted = (
                stats.gamma.logpdf(items, 0.5, scale=np.exp(tilt) / rates[:, None]).sum() + of_rates
            )
            np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_bound_of_a_user_is_below_the_evidence_and_near():
    """The evidence of one user and one component, by quadrature over theta and xi."""
    with jax.enable_x64(True):
        given = {"a": 2.0, "user_shape": 3.0, "user_rate": 1.5}
        items = np.array([[0.3], [1.1], [0.7]])
        model = hpf(1, 3, estep=vi.estep.mean_field(300, 1e-12), **given)
        for counts in ([[4, 0, 1], [1, 0, 1]], [[0, 0, 0], [1, 0, 1]]):  # of one shape: one program
            bound = said_of(model, stats_at(items, np.ones(3)), np.array(counts)).per_group[0][0]
            x, t = np.exp(np.linspace(-8, 4, 700))[:, None], np.exp(np.linspace(-9, 4, 700))[None]
            joint = stats.gamma.pdf(x, 3.0, scale=1.5 / 3.0) * stats.gamma.pdf(t, 2.0, scale=1 / x)
            joint = joint * np.prod(
                [stats.poisson.pmf(y, t * b) for y, b in zip(counts[0], items[:, 0], strict=True)],
                axis=0,
            )
            evidence = np.log(np.trapezoid(np.trapezoid(joint * t * x, dx=13 / 699), dx=12 / 699))
            assert evidence - 0.15 < bound < evidence


def test_implicit_feedback_reads_no_counts():
    values = stats_at(RNG.gamma(1.0, size=(ITEMS, K)), np.ones(ITEMS))
    implicit = said_of(hpf(K, ITEMS, feedback="implicit"), values, COUNTS)
    ones = said_of(hpf(K, ITEMS), values, np.minimum(COUNTS, 1))
    np.testing.assert_allclose(implicit.per_group[0], ones.per_group[0], rtol=1e-6)


def planted(users=300, items=60, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    theta, beta = rng.gamma(0.3, 1.0, (users, 4)), rng.gamma(0.3, 1.0, (items, 4))
    return sp.csr_matrix(rng.poisson(scale * theta @ beta.T))


def test_recommendations_are_those_of_the_expected_counts():
    counts = planted(120, 30, scale=3.0)
    model = hpf(4, 30)
    fit = vi.fit(vi.cavi(model), counts, num_steps=40, key=jax.random.key(0))
    assert np.all(np.diff(fit.trace["elbo"]) > -1e-2)
    weights = fit.predict(counts)
    expected = weights @ np.asarray(fit.posterior["items"].mean()).T
    np.testing.assert_allclose(expected.sum(), counts.sum(), rtol=0.1)
    found = recommend(fit, counts, 5)
    expected[counts.toarray() > 0] = -np.inf
    np.testing.assert_array_equal(found.items[:, 0], expected.argmax(1))
    np.testing.assert_allclose(found.counts[:, 0], expected.max(1), rtol=1e-5)
    one = recommend(fit, counts[7].toarray()[0], 5)
    np.testing.assert_array_equal(one.items[0], found.items[7])
    assert recommend(fit, counts, 30, taken=True).items.min() == 0
    assert not set(found.items[0]) & set(counts[0].indices)
    known, popular = (
        fit.score(counts, key=jax.random.key(1)),
        np.asarray(counts.sum(0)).reshape(-1, 1),
    )
    kept, hidden = vi.evaluate.hide(counts)
    assert known.mean > vi.evaluate.ranking(np.ones((120, 1)), popular, kept, hidden).mean
    ours = vs.PoissonFactorization(4, feedback="counts", max_iter=40, random_state=0).fit(counts)
    assert ours.score(kept, hidden=hidden) > 0.9 * known.mean
    assert ours.score(counts) > 0.9 * known.mean
    assert not set(ours.recommend(counts, 3)[0]) & set(counts[0].indices)
    for users, n, message in (
        (np.ones((2, 31), int), 5, "users: expected 30 items"),
        (counts, 31, "n: expected at most the 30 items"),
        (counts, 0, "n: expected"),
    ):
        with pytest.raises(ValueError, match=message):
            recommend(fit, users, n)


def test_steps_by_items_are_the_dense_ones():
    """In float64, with items that no batch has for many steps; steps so large that the scale is
    folded on the way."""
    counts = planted(60, 80)
    with jax.enable_x64(True):

        def fit(wrap):
            alg = vi.svi(hpf(3, 80), penalty_every=1, step_size=vi.step_size.constant(0.9))
            return vi.fit(wrap(alg), counts, batch_size=6, num_steps=20, key=jax.random.key(0))

        dense, lazy = fit(vi.topics.all_words), fit(vi.topics.by_words)
        assert isinstance(lazy.state.posterior["items"], GammaByRow)
        for name in ("items", "item_rates"):
            for a, b in zip(
                jax.tree.leaves(dense.posterior[name]),
                jax.tree.leaves(lazy.posterior[name]),
                strict=True,
            ):
                np.testing.assert_allclose(b, a, rtol=1e-12)
        np.testing.assert_allclose(lazy.trace["elbo"], dense.trace["elbo"], rtol=1e-12)


def test_covariates_of_a_user_change_the_scale_of_the_weights():
    """theta ~ Gamma(a, xi t) is theta t ~ Gamma(a, xi): a user with tilts t at items beta is one at
    items beta / t, and is bounded alike."""
    with jax.enable_x64(True):
        items = RNG.gamma(1.0, size=(ITEMS, K)) + 0.1
        estep, at = vi.estep.mean_field(300, 1e-12), jnp.asarray([0.5, -0.25, 1.0])
        model = hpf(K, ITEMS, num_covariates=1, estep=estep, **GIVEN)
        users = vi.models.with_covariates(COUNTS[:2], [[1.0], [0.0]])
        batch = vi.data.full_batch(users, num_buckets=1)[0]

        def bound(weights, items):
            hyper = {**model.hyper, "user_weights": weights[None]}
            found = model.local_elbo(
                hyper, stats_at(items, np.ones(ITEMS)), batch, jax.random.key(0), estep
            )
            return found.per_group[0], found.total

        ask = jax.jit(jax.value_and_grad(lambda *x: bound(*x)[::-1], has_aux=True))
        (_, tilted), slope = ask(at, jnp.asarray(items))
        (_, plain), _ = ask(jnp.zeros(K), jnp.asarray(items * np.exp(at)))
        first = int(np.flatnonzero(batch.data[0].covariates[:, 0])[0])
        np.testing.assert_allclose(tilted[first], plain[first], rtol=1e-9)
        (_, other), _ = ask(jnp.zeros(K), jnp.asarray(items))
        np.testing.assert_allclose(tilted[1 - first], other[1 - first], rtol=1e-12)
        for k in range(K):
            up, down = (ask(at + e * np.eye(K)[k], jnp.asarray(items))[0][0] for e in (1e-5, -1e-5))
            np.testing.assert_allclose(slope[k], (up - down) / 2e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_covariates_serve_users_who_took_nothing(seed: int):
    """Two kinds of users, told apart by a number; 200 of them in training. Numbers of other users
    do not serve."""
    rng = np.random.default_rng(seed)
    kind = np.arange(400) % 2
    numbers = np.stack([kind - 0.5, rng.normal(size=400)], 1)
    means = np.where(np.eye(2)[kind] > 0, 2.0, 0.1)
    items = rng.gamma(0.3, 0.3, (2, 60))
    counts = rng.poisson(means * rng.gamma(2.0, 0.5, (400, 1)) @ items)
    # The first row is of training: users who all took nothing are refused.
    new, zeros = np.r_[0, 200:400], np.zeros((200, 60), int)
    nothing, hidden = (
        sp.csr_array(np.r_[counts[:1], zeros]),
        sp.csr_array(np.r_[zeros[:1], counts[200:]]),
    )
    rank = lambda weights, items: vi.evaluate.ranking(weights, items, nothing, hidden).mean
    found = {"by the truth": rank(means[new], items.T)}
    for name, x in (("shuffled", numbers[rng.permutation(400)]), ("own", numbers), ("none", None)):
        users = lambda c, at, x=x: (
            vi.data.read(c) if x is None else vi.models.with_covariates(c, x[at])
        )
        learn = {} if x is None else {"learn": vi.learn("user_weights", optimizer=optax.adam(0.05))}
        alg = vi.cavi(hpf(2, 60, num_covariates=0 if x is None else 2), **learn)
        fit = vi.fit(alg, users(counts[:200], slice(200)), num_steps=150, key=jax.random.key(0))
        found[name] = rank(fit.predict(users(nothing, new)), fit.posterior["items"].mean())
    half = (found["none"] + found["by the truth"]) / 2
    assert found["none"] < half < found["own"] < found["by the truth"]
    assert found["shuffled"] < half
    assert np.isfinite(fit.score(users(counts[:200], slice(200)), key=jax.random.key(0)).mean)


@pytest.mark.slow
def test_minibatches_reach_the_bound_of_all_data():
    counts = planted(2000, 100)
    full = vi.fit(vi.cavi(hpf(4, 100)), counts, num_steps=300, key=jax.random.key(0))
    whole = vi.data.full_batch(vi.data.read(counts))[0]
    (_, info), found = jax.jit(full.alg.step)(jax.random.key(0), full.state, whole), []
    for seed in range(3):
        small = vi.fit(
            vi.svi(hpf(4, 100)), counts, num_steps=600, batch_size=250, key=jax.random.key(seed)
        )
        _, at = jax.jit(full.alg.step)(
            jax.random.key(0), full.state._replace(posterior=small.posterior), whole
        )
        found.append(float(at.bound - at.penalty))
    best = float(info.bound - info.penalty)
    assert max(found) > best - 0.005 * abs(best)


@pytest.mark.slow
def test_weights_of_features_are_found_and_serve_new_items():
    rng = np.random.default_rng(0)
    kind = np.arange(200) % 2
    features = np.stack([kind - 0.5, rng.normal(size=200)], 1)
    theta = np.repeat([[2.0, 0.1], [0.1, 2.0]], 200, axis=0)
    beta = rng.gamma(0.5, 0.2, (200, 2)) * np.where(np.eye(2)[kind] > 0, 1.8, 0.05)
    counts = sp.csr_matrix(rng.poisson(theta @ beta.T))
    fit = vi.fit(
        vi.cavi(hpf(2, 200, features=features), learn=("feature_weights",)),
        counts,
        num_steps=300,
        key=jax.random.key(0),
    )
    law = new_items(fit, np.array([[0.5, 0.0], [-0.5, 0.0]])).mean()
    chosen = np.asarray(
        fit.predict(counts)[[0, 200]] @ law.T
    )  # of a user of each kind, items of each
    assert chosen[0].argmax() != chosen[1].argmax()
    assert np.all(chosen.max(1) > 3 * chosen.min(1))


WRONG = {
    "num_items": lambda: hpf(3, 0),
    "a: ": lambda: hpf(3, 4, a=0.0),
    "users: expected users with 2 covariates, got 0": lambda: vi.fit(
        vi.cavi(hpf(3, ITEMS, num_covariates=2)), COUNTS, num_steps=1, key=jax.random.key(0)
    ),
    "feedback: ": lambda: hpf(3, 4, feedback="stars"),
    r"features: expected shape \(4, D\)": lambda: hpf(3, 4, features=np.ones((5, 2))),
    "features: expected finite": lambda: hpf(3, 4, features=np.full((4, 2), np.nan)),
    "estimand: expected one that keeps the priors of a hierarchical": lambda: vi.em(hpf(3, 4)),
    "by_words: expected a model of documents with tables": lambda: vi.topics.by_words(
        vi.svi(hpf(3, 4, features=np.ones((4, 1))))
    ),
    r"by_words: expected mean_field\(\) for 'items'": lambda: vi.topics.by_words(
        vi.ssvi_a(hpf(3, 4))
    ),
    "by_words: expected a step of all globals at once": lambda: vi.topics.by_words(
        vi.cavi(hpf(3, 4))
    ),
    "by_words: expected fixed": lambda: vi.topics.by_words(vi.svi(hpf(3, 4), learn=("item_rate",))),
    "fit: expected a fit of": lambda: recommend(
        types.SimpleNamespace(posterior={"topics": None}), COUNTS
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_input_is_named(message):
    with pytest.raises(ValueError, match=message):
        WRONG[message]()


def test_locals_of_a_sparse_matrix_are_those_of_the_paper():
    """The users' laws at the items of a fit are a fixed point of the paper's updates."""
    with jax.enable_x64(True):
        model = hpf(K, ITEMS, **GIVEN, estep=vi.estep.mean_field(max_iters=3000, tol=1e-12))
        fit = vi.fit(vi.cavi(model), COUNTS, num_steps=3, key=jax.random.key(1))
        q = fit.locals(sp.csr_array(COUNTS), key=jax.random.key(0))
        by_hand = ByHand(fit.posterior["items"], fit.posterior["item_rates"])
        for _ in range(3000):
            by_hand.users()
        np.testing.assert_allclose(q["weights"].shape, by_hand.theta[0], rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(q["weights"].rate, by_hand.theta[1], rtol=1e-5)
        np.testing.assert_allclose(q["rates"].rate, by_hand.xi[1], rtol=1e-5)
        np.testing.assert_allclose(fit.predict(COUNTS), q["weights"].mean(), rtol=1e-6)


@pytest.mark.slow
def test_the_settings_of_the_page_rank_as_all_users_at_once():
    """Thirty steps a pass; a coarse E-step too. Far above popularity, level with cavi."""
    rng = np.random.default_rng(2)
    tastes, kinds = rng.gamma(0.15, 4.0, (900, 6)), rng.gamma(0.15, 0.5, (6, 200))
    kept, hidden = vi.evaluate.hide(sp.csr_array(rng.poisson(tastes @ kinds)))
    popular = np.asarray(kept.sum(0), float).reshape(-1, 1)
    recall = {"popularity": vi.evaluate.ranking(np.ones((900, 1)), popular, kept, hidden).recall}
    coarse = vi.estep.mean_field(max_iters=5, tol=1e-2)
    for name, estep, settings in (
        ("cavi", None, {"num_steps": 100}),
        ("svi", None, {"num_epochs": 20, "batch_size": 50}),
        ("coarse", coarse, {"num_epochs": 20, "batch_size": 50}),
    ):
        model = hpf(8, 200, feedback="implicit", estep=estep)
        alg = vi.cavi(model) if name == "cavi" else vi.svi(model)
        fit = vi.fit(alg, kept, key=jax.random.key(0), **settings)
        items = np.asarray(fit.posterior["items"].mean())
        recall[name] = vi.evaluate.ranking(fit.predict(kept), items, kept, hidden).recall
    assert recall["cavi"] > 1.3 * recall["popularity"]
    for name in ("svi", "coarse"):
        assert recall[name] > 0.95 * recall["cavi"]

"""GaP-KL-NMF: evidence by quadrature, messages from the conditionals derived by hand, behaviour at
its edges."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

import vijax as vi
from tests.naming import naming
from vijax.contract.batch import Minibatch
from vijax.data import synthetic

RNG = np.random.default_rng(0)
PARTS = np.array([[9.0, 8.0, 0.1, 0.1], [0.1, 0.1, 7.0, 9.0]])
SMALL = RNG.poisson(RNG.gamma(0.3, 1 / 0.3, (60, 2)) @ PARTS).astype(np.float32)
NODES, LOG_WEIGHTS = (lambda x: (x, np.log(x[1] - x[0])))(
    np.linspace(-60.0, 12.0, 1200)
)  # trapezium in a logarithm


def negative_binomial(y, rate, b):
    """log p(y | rate) with y ~ Poisson(rate h), h ~ Gamma(b, b) integrated out."""
    binomial = gammaln(b + y) - gammaln(b) - gammaln(y + 1)
    return binomial + b * np.log(b / (b + rate)) + y * np.log(rate / (b + rate))


def stats_of(dictionary, gains):
    dictionary, gains = jnp.asarray(dictionary), jnp.asarray(gains)
    gamma = vi.Gamma.from_shape_rate(jnp.ones_like(dictionary), 1.0)
    return {"dictionary": gamma.stats(dictionary), "gains": gamma.stats(gains)}


@functools.partial(jax.jit, static_argnums=(0, 1))
def said_of(model, estep, stats, y, weights=None):
    hyper = {name: jnp.asarray(value) for name, value in model.hyper.items()}
    return model.local_elbo(hyper, stats, Minibatch(y, None, weights), jax.random.key(0), estep)


EXACT = vi.estep.mean_field(500, 1e-12)


def test_elbo_of_one_entry():
    """F = T = K = 1. The evidence: h by its conjugate integral, W and theta on a grid of their
    logarithms. The bound: its definition, with SciPy's densities. Mean field cannot say that only
    the product of the three is known."""
    with jax.enable_x64(True):
        alg = vi.cavi(vi.models.gap_nmf(1, 1, a=0.8, b=0.6, alpha=1.5, c=0.2, estep=EXACT))
        priors = [stats.gamma(a, scale=1 / r) for a, r in ((0.8, 0.8), (1.5, 0.3), (0.6, 0.6))]
        w, theta = (p.logpdf(np.exp(NODES)) + NODES for p in priors[:2])  # dx = x d log x
        for y, most in ((0, 0.4), (3, 1.5), (40, 3.0)):
            data = np.array([[float(y)]])
            fit = vi.fit(alg, data, num_steps=100, key=jax.random.key(0))
            joint = negative_binomial(y, np.exp(NODES[:, None] + NODES), 0.6) + w[:, None] + theta
            evidence = logsumexp(joint) + 2 * LOG_WEIGHTS
            assert evidence - most < fit.trace["elbo"][-1] < evidence
            found = (*fit.posterior.values(), fit.state.local["activations"])
            factors = [stats.gamma(q.shape.item(), scale=1 / q.rate.item()) for q in found]
            elbo = (
                y * sum(q.expect(np.log) for q in factors)
                - np.prod([q.mean() for q in factors])
                - gammaln(y + 1)
            )
            elbo += sum(
                q.expect(p.logpdf) + q.entropy() for p, q in zip(priors, factors, strict=True)
            )
            np.testing.assert_allclose(fit.trace["elbo"][-1], elbo, rtol=1e-5)


def test_bound_is_exact_with_one_component_and_a_bound_with_two():
    with jax.enable_x64(True):
        y = np.array([[2.0, 0.0, 5.0], [0.0, 0.0, 0.0], [30.0, 1.0, 2.0]])
        w = np.array([[0.7], [0.1], [2.0]])
        said = said_of(vi.models.gap_nmf(3, 1, b=0.6), EXACT, stats_of(w, np.array([1.3])), y)
        rate, total = 1.3 * w.sum(), y.sum(1)
        # Given their total, counts of one component are multinomial.
        shares = stats.multinomial.logpmf(y, total.astype(int), w[:, 0] / w.sum())
        np.testing.assert_allclose(
            said.per_group, negative_binomial(total, rate, 0.6) + shares, rtol=1e-9
        )

        w = np.array([[0.7, 0.2], [0.1, 1.0], [2.0, 0.3]])
        said = said_of(vi.models.gap_nmf(3, 2, b=0.6), EXACT, stats_of(w, np.array([1.3, 0.8])), y)
        h = np.exp(NODES)
        log_prior = stats.gamma(0.6, scale=1 / 0.6).logpdf(h) + NODES
        joint = log_prior[:, None] + log_prior
        exact = []
        for row in y:
            terms = joint.copy()
            for f, count in enumerate(row):
                terms += stats.poisson.logpmf(count, 1.3 * w[f, 0] * h[:, None] + 0.8 * w[f, 1] * h)
            exact.append(logsumexp(terms) + 2 * LOG_WEIGHTS)
        gap = np.array(exact) - np.asarray(said.per_group)
        assert np.all(gap > -1e-6)
        assert np.all(gap < 0.5)
        np.testing.assert_allclose(gap[1], 0.0, atol=1e-6)  # nothing to allocate


def test_messages_are_the_conditionals_derived_by_hand():
    """q(W_fk): shape a + sum_t y_tf phi_tfk, rate a + theta_k sum_t E h_tk; q(theta_k): shape alpha
    / K + sum_tf y phi, rate alpha c + sum_f W_fk sum_t E h_tk."""
    with jax.enable_x64(True):
        model = vi.models.gap_nmf(4, 3)
        w, theta, y = RNG.gamma(1.0, size=(4, 3)), RNG.gamma(1.0, size=3), SMALL[:5].astype(float)
        at = stats_of(w, theta)

        def total(stats):
            said = said_of(model, EXACT, stats, y)
            return said.total, said

        gradient, said = jax.grad(total, has_aux=True)(at)
        h = said.local["activations"].expected_stats()
        phi = theta * w * np.exp(np.asarray(h.log))[:, None, :]
        phi /= phi.sum(-1, keepdims=True)
        counts, mean = np.einsum("tf,tfk->fk", y, phi), np.asarray(h.value).sum(0)
        np.testing.assert_allclose(gradient["dictionary"].log, counts, rtol=1e-9)
        np.testing.assert_allclose(
            gradient["dictionary"].value, -np.outer(np.ones(4), theta * mean), rtol=1e-9
        )
        np.testing.assert_allclose(gradient["gains"].log, counts.sum(0), rtol=1e-9)
        np.testing.assert_allclose(gradient["gains"].value, -w.sum(0) * mean, rtol=1e-9)
        # The E-step has converged: q(H) is the conditional given its own allocations.
        shape = 0.2 + np.einsum("tf,tfk->tk", y, phi)
        np.testing.assert_allclose(said.local["activations"].shape, shape, rtol=1e-6)


MODEL = vi.models.gap_nmf(4, 4)
HOLD = vi.step_size.hold_then_decay(50)
ALGORITHMS = {
    "cavi": vi.cavi(MODEL),
    "em": vi.em(vi.models.gap_nmf(4, 2)),  # nothing keeps it from using all there are
    "map": vi.map(MODEL),
    "svi": vi.svi(MODEL),
    "ssvi_a": vi.whole(vi.ssvi_a(MODEL, step_size=HOLD)),
    "ssvi": vi.whole(vi.ssvi(MODEL, step_size=HOLD)),
}


@functools.lru_cache
def fitted(name):
    whole = {"num_epochs": 60, "batch_size": 20} if name == "svi" else {"num_steps": 150}
    with jax.enable_x64(name == "cavi"):
        return vi.fit(ALGORITHMS[name], SMALL.astype(float), key=jax.random.key(1), **whole)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_finds_the_two_spectra(name):
    fit = fitted(name)
    with jax.enable_x64(name == "cavi"):
        point = fit.alg.spec.point(fit.posterior)
    found = np.asarray(point["dictionary"].value) * np.asarray(point["gains"].value)
    found = found[:, found.std(0) > 0]  # at the mode a component that is not needed is zero
    best = [
        max(np.corrcoef(part, found[:, k])[0, 1] for k in range(found.shape[1])) for part in PARTS
    ]
    assert min(best) > 0.98
    assert np.all(np.isfinite(fit.trace["elbo"]))


def test_coordinate_ascent_never_loses_ground():
    fit = fitted("cavi")
    assert np.all(np.diff(fit.trace["elbo"]) >= -1e-9 * np.abs(fit.trace["elbo"][1:]))
    shapes = np.asarray(fit.posterior["gains"].shape)
    np.testing.assert_allclose(
        shapes.sum() - 1.0, SMALL.sum(), rtol=1e-9
    )  # every count has a component


@functools.cache
def bound_and_message(x64):
    """Compiled once: the bounds and the message of 257 x 1000 data, K = 50."""
    with jax.enable_x64(x64):
        model, y = vi.models.gap_nmf(257, 50), jnp.asarray(LARGE, float)
        estep = vi.estep.mean_field(3, 1e-3)

        def total(stats):
            said = said_of(model, estep, stats, y)
            return said.total, said.per_group

        return jax.jit(jax.grad(total, has_aux=True))


LARGE = synthetic.spectrogram(num_frames=1000, seed=3)[0]


@pytest.mark.parametrize("where", ["start", "draw"])
def test_single_precision_at_realistic_scale(where):
    """At the start's means and at a draw from the prior, whose log theta reach -300: float32
    against float64."""
    model = vi.models.gap_nmf(257, 50)
    if where == "start":
        at = vi.cavi(model).init(jax.random.key(0), LARGE).posterior.expected_stats()
    else:
        at = model.prior(model.hyper).sample_stats(jax.random.key(2))
    results = {}
    for x64 in (False, True):
        with jax.enable_x64(x64):
            results[x64] = jax.tree.map(
                np.asarray,
                bound_and_message(x64)(
                    jax.tree.map(lambda x: jnp.asarray(np.asarray(x), float), at)
                ),
            )
    (low, low_bounds), (high, high_bounds) = results[False], results[True]
    np.testing.assert_allclose(low_bounds, high_bounds, rtol=2e-5)
    for a, b in zip(jax.tree.leaves(low), jax.tree.leaves(high), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-4 * np.abs(b).max())


@pytest.mark.parametrize("name", ["cavi", "map", "ssvi_a"])
def test_columns_and_rows_of_zeros(name):
    y = SMALL.copy()
    y[:2], y[:, 3] = 0, 0
    for data in (y, np.zeros_like(y)):
        with jax.enable_x64(name == "cavi"):
            fit = vi.fit(ALGORITHMS[name], data.astype(float), num_steps=20, key=jax.random.key(0))
        assert np.all(np.isfinite(fit.trace["elbo"]))
        assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(fit.posterior))
    np.testing.assert_allclose(
        fit.posterior["gains"].shape, 1 / 4, rtol=1e-5
    )  # nothing seen: the prior's


def test_padding_counts_for_nothing():
    at = stats_of(RNG.gamma(1.0, size=(4, 4)), RNG.gamma(1.0, size=4))
    weights = jnp.array([1.0, 1.0, 1.0, 0.0, 0.0])
    padded = said_of(MODEL, MODEL.estep, at, SMALL[:5], weights)
    other = said_of(MODEL, MODEL.estep, at, np.concatenate([SMALL[:3], 9 * SMALL[5:7]]), weights)
    np.testing.assert_allclose(padded.total, other.total, rtol=1e-6)
    assert padded.num_groups == 3


def test_score_is_the_bound_at_the_posterior_means():
    fit = fitted("map")
    held = fit.score(SMALL[50:], key=jax.random.key(1))
    flat = RNG.permuted(SMALL[50:], axis=1)  # the same counts at other frequencies
    assert held.log_densities.shape == (10,)
    assert held.mean > fit.score(flat, key=jax.random.key(1)).mean + 1


def test_a_start_of_ones_own():
    spectra = vi.Gamma.from_shape_rate(100 * PARTS.T, 100.0)
    start = vi.Product({"dictionary": spectra, "gains": vi.Gamma.from_shape_rate([9.0, 9.0], 9.0)})
    model = vi.models.gap_nmf(4, 2, init=lambda key, prior: start)
    found = jax.jit(vi.cavi(model).init)(jax.random.key(0), SMALL).posterior
    np.testing.assert_array_equal(found["dictionary"].mean(), spectra.mean())


def test_starts_explain_the_mean_of_the_data_and_columns_are_spectra_of_columns():
    for init in ("columns", "flat"):
        alg = vi.cavi(vi.models.gap_nmf(4, 4, init=init))
        q = jax.jit(alg.init)(jax.random.key(0), SMALL).posterior
        np.testing.assert_allclose(q["gains"].mean().sum(), SMALL.mean(), rtol=1e-5)
        spectra = np.asarray(q["dictionary"].mean())
        at_rest = alg.init(jax.random.key(0)).posterior["dictionary"].mean()  # no data: flat
        assert abs(np.asarray(at_rest) - 1).max() < 0.4
        if init == "flat":
            assert abs(spectra - 1).max() < 0.4
        else:
            total = np.maximum(SMALL.mean(1, keepdims=True), 1)
            near = abs(np.log(spectra.T[:, None] / (0.8 * SMALL / total + 0.2))).max(-1).min(1)
            assert near.max() < 0.4  # noise of a tenth, to tell equal ones apart


@pytest.mark.slow
def test_columns_find_what_flat_spectra_merge():
    """Fifteen speech-like spectra behind 300 frames; what is found correlates above 0.9 with a
    component."""
    y, truth = synthetic.spectrogram(300, num_components=15, num_frequencies=65, seed=0)
    found = {}
    for init in ("columns", "flat"):
        model = vi.models.gap_nmf(65, 15, init=init, estep=vi.estep.mean_field(5, 1e-3))
        q = vi.fit(
            vi.cavi(model), y.astype(np.float32), num_steps=100, key=jax.random.key(0)
        ).posterior
        correlations = np.corrcoef(truth.dictionary.T, np.asarray(q["dictionary"].mean()).T)[
            :15, 15:
        ]
        found[init] = int(np.sum(correlations.max(1) > 0.9))
    assert found["columns"] == 15
    assert found["flat"] < 15


def test_speech_like_spectra():
    y, truth = synthetic.spectrogram(400, num_components=6, scale=0.5, seed=2)
    np.testing.assert_allclose(truth.dictionary.mean(0), 1.0)
    assert truth.dictionary.min() > 0
    expected = 0.5 * truth.activations @ truth.dictionary.T
    assert abs(np.mean(y - expected)) < 5 * np.sqrt(expected.mean() / y.size)
    assert np.median(truth.dictionary) < 0.5  # peaks over a floor


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([[1.0, 0, -2, 0]], r"counts 0, 1, 2, .* got -2.0 in row 0, column 2"),
        ([[1.0, 0, 0, 0], [0, 0.5, 0, 0]], r"counts .* got 0.5 in row 1, column 1"),
        ([[1.0, np.nan, 0, 0]], r"counts .* got nan in row 0, column 1"),
        ([[1.0, 0, 0]], r"shape \(N, 4\), got shape \(1, 3\)"),
    ],
)
def test_bad_data_is_named(y, message):
    with pytest.raises(ValueError, match=message):
        vi.fit(ALGORITHMS["cavi"], np.array(y), num_steps=1, key=jax.random.key(0))


@pytest.mark.parametrize(
    "change", [{"num_rows": 0}, {"num_components": 1.5}, {"a": 0.0}, {"b": np.nan}, {"alpha": -1.0}]
)
def test_bad_arguments_are_named(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        vi.models.gap_nmf(**({"num_rows": 4, "num_components": 2} | change))


def test_a_start_of_no_known_name_is_refused():
    with pytest.raises(ValueError, match=naming("init:", '"columns"', '"flat"')):
        vi.models.gap_nmf(4, 2, init="rows")


def test_an_estep_of_another_kind_is_refused():
    with pytest.raises(
        ValueError, match=r"expected one for this model's locals, vijax.estep.mean_field\(\), got"
    ):
        vi.cavi(MODEL, estep=vi.estep.gibbs())

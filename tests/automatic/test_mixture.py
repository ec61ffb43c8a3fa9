"""The mixture that `vijax.auto` fits where one normal is not enough: against quadrature and exact
mixtures."""

import pickle
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm
from scipy import stats

import vijax as vi
from tests.naming import naming
from vijax.automatic import mixture
from vijax.automatic.auto import Misfit, rivalry
from vijax.automatic.gaussian import Gaussian
from vijax.automatic.mixture import Bank, Mixture
from vijax.automatic.modes import Candidate
from vijax.automatic.trust_region import Run
from vijax.fitting import checkpoint
from vijax.lbfgs import Mode
from vijax.verdict.report import Ended
from vijax.verdict.target import Target

KEY = jax.random.key(0)
PARTS = (
    Gaussian(np.array([1.0, -1.0]), np.array([[1.0, 0.0], [0.5, 0.7]]), 0.0),
    Gaussian(np.array([-2.0, 0.5]), np.array([[0.4, 0.0], [0.1, 1.2]]), 0.0),
)
MIXTURE = Mixture(np.array([0.3, 0.7]), PARTS)


def mean_of(q):
    return q.weights @ np.stack([part.mean for part in q.parts])


def exact(x):
    each = [
        stats.multivariate_normal(part.mean, part.scale @ part.scale.T).pdf(x) for part in PARTS
    ]
    return 0.3 * each[0] + 0.7 * each[1]


class Known:
    """As `vijax.verdict.target.Target`: the log density of `MIXTURE`, plus a constant."""

    epsilon, dim = 1e-16, 2

    def __init__(self):
        self.num_gradients = 0

    def slopes(self, x):
        self.num_gradients += len(x)
        return np.log(exact(x)) + 5.0, MIXTURE.scores(x)


# --- the whole ------------------------------------------------------------------------------------
def two_modes(v):
    return jnp.logaddexp(
        jnp.log(0.3) + norm.logpdf(v["x"], -1.5, 0.2), jnp.log(0.7) + norm.logpdf(v["x"], 2.0, 0.5)
    )


def test_modes_of_a_weight_each_have_a_component(tmp_path):
    model = vi.density({"x": vi.free()}, two_modes)
    fit = vi.auto(model, key=KEY)
    assert fit.elbo.value == pytest.approx(0.0, abs=0.002)  # the log evidence, exactly
    assert fit.report.other.value == pytest.approx(np.log(0.7), abs=0.02)
    assert len(fit.modes) == 2
    assert "A mixture of 2 normals was kept" in fit.verdict
    assert "another mode" not in fit.verdict
    draws = np.asarray(fit.sample(jax.random.key(1), 20_000)["x"], np.float64)
    assert np.mean(draws < 0) == pytest.approx(0.3, abs=5 * 0.0033)
    assert draws.mean() == pytest.approx(0.95, abs=0.07)
    assert fit.report.num_gradients <= 6000
    same = vi.auto(model, key=KEY)
    np.testing.assert_array_equal(*(f.posterior["free"].center for f in (fit, same)))
    # As any fit it is saved, read, pickled and gone on with.
    checkpoint.save(tmp_path, 1, fit.state)
    state = checkpoint.latest(tmp_path, like=jax.eval_shape(fit.alg.init, KEY)).tree
    again = pickle.loads(pickle.dumps(fit.alg))
    on = vi.fit(again, num_steps=20, key=KEY, state=state)
    np.testing.assert_allclose(on.posterior["free"].mean(), fit.posterior["free"].mean(), atol=0.1)


def test_a_bent_posterior_against_quadrature():
    """y = x^2 + noise, x standard normal: means (0, 1), variances 1 and 2.25, log evidence 0."""
    banana = lambda v: norm.logpdf(v["x"]) + norm.logpdf(v["y"], v["x"] ** 2, 0.5)
    model = vi.density({"x": vi.free(), "y": vi.free()}, banana)
    alone, fit = (vi.auto(model, key=KEY, richer=choice) for choice in (False, None))
    assert alone.elbo.value < -0.5
    assert alone.report.other is None
    assert fit.elbo.value > -0.05
    draws = {
        name: np.asarray(x, np.float64) for name, x in fit.sample(jax.random.key(1), 20_000).items()
    }
    assert draws["x"].mean() == pytest.approx(0.0, abs=0.1)
    assert draws["y"].mean() == pytest.approx(1.0, abs=0.1)
    assert draws["x"].std() == pytest.approx(1.0, abs=0.1)
    assert 1.2 < draws["y"].std() < 1.5 + 0.05  # normals have not the tail of a square
    assert fit.report.num_gradients <= 6000


def test_of_a_normal_none_is_kept():
    model = vi.density({"x": vi.free(2)}, lambda v: -0.5 * jnp.sum((v["x"] - 1.0) ** 2))
    plain, asked = (vi.auto(model, key=KEY, richer=choice) for choice in (None, True))
    assert "mixture" not in plain.verdict
    assert "tried and not kept" in asked.verdict
    assert asked.alg.spec.name == plain.alg.spec.name == "ngvi"
    assert asked.report.num_gradients > plain.report.num_gradients
    assert asked.report.other.value <= asked.elbo.value + 0.01


def test_a_limit_of_gradients_is_one_of_both():
    model = vi.density({"x": vi.free()}, two_modes)
    some = vi.auto(model, key=KEY, max_gradients=600)
    assert some.report.num_gradients <= 600
    assert (
        "The mixture stopped at the limit of 600 gradients, with too few to settle." in some.verdict
    )
    none = vi.auto(model, key=KEY, max_gradients=300)
    assert "A mixture of normals was not tried" in none.verdict
    assert none.alg.spec.name == "ngvi"


FUNNEL = vi.density(
    {"v": vi.free(), "x": vi.free(5)},
    lambda v: norm.logpdf(v["v"]) + norm.logpdf(v["x"], 0.0, jnp.exp(v["v"])).sum(),
)


def test_the_gradients_asked_for_are_not_exceeded_where_searches_have_no_end():
    """Up the neck of a funnel the density grows without limit: searches took more than the
    whole."""
    for limit in (1500, None):
        fit = vi.auto(FUNNEL, key=KEY, max_gradients=limit)
        # Without a limit the normal has 3,000 and the mixture 3,000 of its own.
        assert fit.report.num_gradients <= (limit or 6000)
        assert fit.elbo.value > (-1.0 if limit else -0.7)  # the best normal: -1.7


def test_what_more_gradients_buy_is_said():
    fit = vi.auto(FUNNEL, key=KEY, max_gradients=4000)
    said = re.search(
        r"the limit of 4,000 gradients, where its bound still rose by (\d\.\d+) nats in a thousand",
        fit.verdict,
    )
    more = vi.auto(FUNNEL, key=KEY, max_gradients=5000)
    assert said, fit.verdict
    assert more.elbo.value - fit.elbo.value < 2 * float(said[1]) + 0.05


def test_a_normal_that_will_not_do_is_left_early():
    """Less noise of it is worth nothing; one that will do is taken to its end."""
    misfit = Misfit(2, None)
    alone, beside = (lambda q: False), (lambda q: True)
    asks = lambda q, gap: misfit.detect(alone, q, gap)
    q = Gaussian(np.zeros(2), np.eye(2), 0.0)
    assert not asks(q, 0.01)
    assert asks(q, 0.2)
    assert misfit.is_detected
    assert not Misfit(2, False).detect(beside, q, 9.0)
    assert not Misfit(51, None).detect(beside, q, 9.0)
    assert Misfit(2, None).detect(beside, q, 0.0)


@pytest.mark.parametrize(("elbo", "is_rival"), [(-1.0, True), (-9.0, False)])
def test_a_normal_has_rivals_where_other_modes_weigh_as_much(elbo, is_rival):
    two = lambda v: jnp.logaddexp(
        -0.5 * jnp.sum(v["x"] ** 2), elbo - 0.5 * jnp.sum((v["x"] - 8.0) ** 2)
    )
    target = Target.from_data(vi.density({"x": vi.free(2)}, two), None)
    here, other = Mode(np.zeros(2), 0.0, np.ones(2)), Mode(np.full(2, 8.0), elbo, np.ones(2))
    has = rivalry(target, [Candidate(here, 7, 0.0), Candidate(other, 1, elbo)], 0)
    assert has(Gaussian(np.zeros(2), np.eye(2), 0.0)) is is_rival


def test_what_cannot_be_is_refused():
    model = vi.density(
        {"x": vi.free()},
        log_prior=lambda v: -(v["x"] ** 2),
        log_lik=lambda v, y: -((y - v["x"]) ** 2),
    )
    with pytest.raises(ValueError, match=naming("richer:", "True", "False", "None", "3")):
        vi.auto(model, np.ones(10), key=KEY, richer=3)
    with pytest.raises(
        ValueError, match=naming("richer:", "False", "True", "vijax.guides.mixture")
    ):
        vi.auto(model, np.ones(10), key=KEY, richer=True, batch_size=5)
    wide = vi.density({"x": vi.free(301)}, lambda v: -jnp.sum(v["x"] ** 2))
    with pytest.raises(
        ValueError, match=naming("richer:", "False", "300", "True", "guides.mixture")
    ):
        vi.auto(wide, key=KEY, richer=True)
    coin = vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
        local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )
    with pytest.raises(
        ValueError, match=naming("richer:", "log density", "got True", "Leave it out")
    ):
        vi.auto(coin, np.ones(10, np.float32), key=KEY, richer=True)


# --- the parts ------------------------------------------------------------------------------------
def test_density_scores_and_draws():
    x = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_allclose(MIXTURE.log_prob(x), np.log(exact(x)), rtol=1e-10)
    for i, step in enumerate(1e-6 * np.eye(2)):
        slope = np.log(exact(x + step) / exact(x - step)) / 2e-6
        np.testing.assert_allclose(MIXTURE.scores(x)[:, i], slope, rtol=1e-6)
    draws, log_q = MIXTURE.draw(20_000, [0])
    np.testing.assert_allclose(draws.mean(0), mean_of(MIXTURE), atol=0.05)
    np.testing.assert_allclose(log_q, np.log(exact(draws)), rtol=1e-8)


def test_in_a_frame_it_is_the_same_density():
    frame = Gaussian(np.array([0.3, 0.2]), np.array([[2.0, 0.0], [0.4, 0.5]]), 0.0)
    z = np.random.default_rng(1).normal(size=(4, 2))
    inside = MIXTURE.to_frame(frame).log_prob(z.astype(np.float32))
    np.testing.assert_allclose(
        inside, np.log(exact(frame.from_noise(z))) + np.log(2.0 * 0.5), rtol=1e-4, atol=1e-4
    )


def test_draws_of_other_steps_count_by_their_density():
    """Means under a component, from the draws of two others, of which there are not equally
    many."""
    rng = np.random.default_rng(2)
    wide = Gaussian(np.zeros(2), 2 * np.eye(2), 0.0)
    bank = Bank.empty(2)
    for part, count in ((wide, 40_000), (PARTS[0], 10_000), (wide, 10_000)):
        x = part.from_noise(rng.normal(size=(count, 2)))
        bank = bank.with_draws(part, x, x[:, 0], x)
    both = Mixture(np.array([5, 1]) / 6, (wide, PARTS[0]))
    np.testing.assert_allclose(bank.log_prob, both.log_prob(bank.x), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(bank.values, bank.slopes[:, 0])
    weights = np.exp(MIXTURE.log_densities(bank.x)[1] - bank.log_prob) / len(bank.x)
    assert weights.sum() == pytest.approx(1.0, abs=0.05)
    np.testing.assert_allclose(weights @ bank.x, PARTS[1].mean, atol=0.1)


def test_a_component_is_drawn_from_where_its_draws_are_too_few():
    """Two of the same place share all draws; one elsewhere wants its own."""
    near = Gaussian(np.zeros(2), np.eye(2), 0.0)
    far = near._replace(mean=np.array([9.0, 0.0]))
    target, size = Known(), mixture.draws_per_part(2)
    walk = mixture._Walk(Run(target, 10_000), Mixture(np.full(3, 1 / 3), (near, near, far)), 0)
    for _ in range(2 * mixture.WANTED):
        assert walk.draw()
    known = walk._effective_draws()
    assert np.all(known >= mixture.WANTED * size - 1e-6)
    assert known[0] == pytest.approx(known[1])
    before = target.num_gradients
    assert walk.draw()  # all are known well: one takes its turn
    assert target.num_gradients == before + size


def test_an_exact_mixture_is_found_from_its_best_normal():
    """With log evidence 5."""
    mean = mean_of(MIXTURE)
    cov = sum(
        w * (p.scale @ p.scale.T + np.outer(p.mean - mean, p.mean - mean))
        for w, p in zip(MIXTURE.weights, PARTS, strict=True)
    )
    target = Known()
    found = mixture.fit(Run(target, 3000), Gaussian(mean, np.linalg.cholesky(cov), 0.0), [], seed=0)
    assert target.num_gradients <= 3000
    x, log_q = found.draw(20_000, [1])
    ratios = np.log(exact(x)) + 5.0 - log_q
    assert ratios.mean() > 5.0 - 0.02
    assert found.ended in (Ended.CONVERGED, Ended.SPENT)
    np.testing.assert_allclose(mean_of(found), mean, atol=0.05)
    assert abs(found.weights.sum() - 1) < 1e-12

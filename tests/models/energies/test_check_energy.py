"""`check_energy`: an energy against the log density of textbooks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln
from jax.scipy.stats import gamma, norm, poisson

import vijax as vi
from tests.naming import naming
from vijax.models import emission

KEY = jax.random.key(0)
COUNTS = np.array([0.0, 3.0, 7.0])


def rates(own):
    """z ~ Gamma(2, b), y ~ Poisson(z); `own` is the term of z."""

    def energy(s, y):
        return own(s["b"], s["z"]) + y * s["z"].log - s["z"].value - gammaln(y + 1)

    prior = vi.Gamma.from_shape_rate(2.0, 1.0)
    return vi.energy_model(
        globals={"b": prior}, locals={"z": prior}, energy=energy, example=np.uint8(0)
    )


def textbook(v, y):
    return gamma.logpdf(v["z"], 2.0, scale=1 / v["b"]) + poisson.logpmf(y, v["z"])


def right(b, z):
    return 2.0 * (b.log + z.log) - b.value * z.value


def test_an_energy_of_statistics_agrees_with_the_textbook():
    vi.check_energy(rates(right), textbook, COUNTS, key=KEY)
    vi.check_energy(rates(right), textbook, COUNTS.astype(np.uint8), key=KEY)


def test_the_textbook_density_of_a_local_is_one_base_measure_too_much():
    """(shape - 1) log z: fitted, b is far off. (Measured: 2.04 and 86.7 for a true 2.)"""
    model = rates(lambda b, z: right(b, z) - z.log)
    with pytest.raises(ValueError, match=naming("energy:", "'z'")):
        vi.check_energy(model, textbook, COUNTS, key=KEY)
    y = np.random.default_rng(0).poisson(np.random.default_rng(1).gamma(2.0, 0.5, 2000))
    mean, wrong = [
        vi.fit(vi.cavi(rates(own)), y, num_steps=200, key=KEY).posterior["b"].mean()
        for own in (right, lambda b, z: right(b, z) - z.log)
    ]
    np.testing.assert_allclose(mean, 2.0, atol=0.1)
    assert wrong > 10


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (
            lambda b, z: right(b, z) - 1.5,
            r"larger by -1\.5 nats .* The difference is the same everywhere: the bound is off",
        ),
        (lambda b, z: right(b, z) + 0.1 * z.value, r"Compare it term by term"),
        (lambda b, z: right(b, z) + b.log, r"Compare it term by term"),
    ],
)
def test_other_differences_are_told_apart(own, message):
    with pytest.raises(ValueError, match=message):
        vi.check_energy(rates(own), textbook, COUNTS, key=KEY)


def test_locals_of_a_known_law_have_a_term_of_their_own():
    """By `energy_term`, beside free variables and hyperparameters."""
    own = lambda hyper: vi.Gamma.from_shape_rate(3.0, hyper["rate"])

    def model(term):
        return vi.energy_model(
            globals={"shift": vi.free(log_prior=norm.logpdf)},
            locals={"z": vi.Gamma.from_shape_rate(jnp.full(2, 3.0), 1.0)},
            hyper={"rate": 1.5},
            energy=lambda s, y, h: (
                jnp.sum(term(own(h), s["z"])) - jnp.sum(s["z"].value) * s["shift"] ** 2
            ),
            example=0.0,
        )

    def density(v, y):
        return jnp.sum(gamma.logpdf(v["z"], 3.0, scale=1 / 1.5)) - jnp.sum(v["z"]) * v["shift"] ** 2

    vi.check_energy(model(lambda q, t: q.energy_term(t)), density, COUNTS, key=KEY)
    with pytest.raises(ValueError, match="It has the base measure of 'z'"):
        vi.check_energy(model(lambda q, t: q.log_prob_of_stats(t)), density, COUNTS, key=KEY)


def test_ready_models_are_what_their_pages_say():
    """A mixture and factor analysis, by densities that share no code with them."""
    y = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    mixture = vi.models.mixture(emission.unit_gaussian(2, 3))
    vi.check_energy(
        mixture,
        lambda v, y: (
            jnp.log(v["weights"][v["z"]]) + jnp.sum(norm.logpdf(y, v["components"][v["z"]]))
        ),
        y,
        key=KEY,
    )

    def factors(v, y):
        mean = v["loadings"][:, :-1] @ v["x"] + v["loadings"][:, -1]
        return jnp.sum(norm.logpdf(v["x"])) + jnp.sum(norm.logpdf(y, mean, v["noise"] ** -0.5))

    vi.check_energy(vi.models.factor_analysis(3, 2), factors, y, key=KEY)


def test_impossible_events_have_no_density():
    allowed = np.array([True, False, True])

    def model(allowed):
        return vi.energy_model(
            globals={"m": vi.Normal.from_mean_variance(0.0, 1.0)},
            locals={"z": vi.Categorical.from_probs(np.full(3, 1 / 3))},
            energy=lambda s, y: y * s["m"].value - jnp.log(2.0),
            structure=vi.Structure(impossible=lambda s, y: s["z"].one_hot @ (1.0 - allowed)),
            example=1.0,
        )

    density = lambda v, y: jnp.where(
        jnp.asarray(allowed)[v["z"]], y * v["m"] - jnp.log(2.0), -jnp.inf
    )
    vi.check_energy(model(allowed), density, COUNTS, key=KEY, num_draws=8)
    with pytest.raises(ValueError, match=naming("impossible:", "log_density")):
        vi.check_energy(model(~allowed), density, COUNTS, key=KEY, num_draws=8)


def test_what_is_no_energy_or_no_number_is_refused():
    model = vi.density({"x": vi.free()}, lambda v: -(v["x"] ** 2))
    with pytest.raises(ValueError, match=naming("model:", "vijax.energy_model")):
        vi.check_energy(model, textbook, COUNTS, key=KEY)
    with pytest.raises(ValueError, match=naming("log_density:", "2")):
        vi.check_energy(rates(right), lambda v, y: jnp.zeros(2), COUNTS, key=KEY)

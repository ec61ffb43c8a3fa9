"""Discrete sites of NumPyro models that are summed out: densities, slopes and posterior
probabilities against sums over all values by hand, in float64."""

import functools
import itertools
import pickle
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp
from jax.scipy.stats import bernoulli, norm

import vijax as vi
from tests.naming import check_names, naming

numpyro = pytest.importorskip("numpyro")
pytest.importorskip("funsor", reason="needs funsor: pip install funsor")
scan = pytest.importorskip("numpyro.contrib.control_flow").scan
markov = pytest.importorskip("numpyro.contrib.funsor").markov
dist = numpyro.distributions

KEY = jax.random.key(0)
Y = np.array([0.5, -1.0, 2.5, 0.1, 1.9])
FACES = np.array([1, 0, 0, 1, 1])
COUNTS = np.array([0, 2, 0, 1, 0])
GROUPS = np.array([0, 0, 1, 1, 1])


def normals(name, count):
    return numpyro.sample(name, dist.Normal(0, 2).expand([count]).to_event(1))


def log_prior(means, share=None):
    log_share = 0.0 if share is None else jax.scipy.stats.beta.logpdf(share, 2.0, 3.0)
    return norm.logpdf(means, 0, 2).sum() + log_share


# --- models, and the log density of one value of all discrete sites -------------------------------
def mixture():
    share = numpyro.sample("share", dist.Beta(2.0, 3.0))
    means = normals("means", 2)
    numpyro.deterministic("distance", means[1] - means[0])
    with numpyro.plate("rows", 5):
        z = numpyro.sample("z", dist.Bernoulli(share))
        centre = numpyro.deterministic("centre", means[z])
        numpyro.sample("y", dist.Normal(centre, 1.0), obs=Y)


def mixture_joint(v, z):
    rows = bernoulli.logpmf(z, v["share"]) + norm.logpdf(Y, v["means"][z], 1.0)
    return log_prior(v["means"], v["share"]) + rows.sum()


def without_plates():
    share = numpyro.sample("share", dist.Beta(2.0, 3.0))
    means = numpyro.sample("means", dist.Normal(0, 2).expand([2]))
    z = numpyro.sample("z", dist.Bernoulli(share).expand([5]))
    numpyro.sample("y", dist.Normal(means[z], 1.0), obs=Y)


def alone():
    share = numpyro.sample("share", dist.Beta(2.0, 3.0))
    means = normals("means", 2)
    z = numpyro.sample("z", dist.Bernoulli(share))
    numpyro.sample("y", dist.Normal(means[z], 1.0), obs=Y)


def alone_joint(v, z):
    rows = norm.logpdf(Y, v["means"][z], 1.0).sum()
    return log_prior(v["means"], v["share"]) + bernoulli.logpmf(z, v["share"]) + rows


def chain(reverse=False):
    """Two states; one chance of a change is unknown."""
    share = numpyro.sample("share", dist.Beta(2.0, 3.0))
    means = normals("means", 2)

    def step(state, y):
        state = numpyro.sample("z", dist.Bernoulli(jnp.where(state == 1, share, 0.2)))
        numpyro.sample("y", dist.Normal(means[state], 1.0), obs=y)
        return state, None

    scan(step, 0, Y, reverse=reverse)


def chain_joint(v, z):
    before = jnp.concatenate([jnp.zeros(1, int), z[:-1]])
    moves = bernoulli.logpmf(z, jnp.where(before == 1, v["share"], 0.2)).sum()
    rows = norm.logpdf(Y, v["means"][z], 1.0).sum()
    return log_prior(v["means"], v["share"]) + moves + rows


def loop():
    """The same chain as a loop, whose sites have a name each."""
    share = numpyro.sample("share", dist.Beta(2.0, 3.0))
    means = normals("means", 2)
    state = 0
    for i in markov(range(5)):
        state = numpyro.sample(f"z{i}", dist.Bernoulli(jnp.where(state == 1, share, 0.2)))
        numpyro.sample(f"y{i}", dist.Normal(means[state], 1.0), obs=Y[i])


def capture():
    """Animals that were perhaps never there; seen so many times of three."""
    share = numpyro.sample("share", dist.Beta(2.0, 3.0))
    chance = numpyro.sample("chance", dist.Beta(1.0, 1.0))
    with numpyro.plate("animals", 5):
        z = numpyro.sample("z", dist.Bernoulli(share))
        numpyro.sample("y", dist.Binomial(3, z * chance), obs=COUNTS)


def capture_joint(v, z):
    p = v["chance"]
    ways = jnp.array([1.0, 3.0, 3.0, 1.0])[COUNTS]
    present = jnp.log(ways) + COUNTS * jnp.log(p) + (3 - COUNTS) * jnp.log1p(-p)
    absent = jnp.where(COUNTS == 0, 0.0, -1e30)
    rows = bernoulli.logpmf(z, v["share"]) + jnp.where(z == 1, present, absent)
    return jax.scipy.stats.beta.logpdf(v["share"], 2.0, 3.0) + rows.sum()


def covariate():
    """A binary covariate that is missing in two of five rows."""
    share = numpyro.sample("share", dist.Beta(2.0, 3.0))
    means = normals("means", 2)
    is_missing = np.array([False, True, False, True, False])
    with numpyro.plate("complete", 3):
        numpyro.sample("x", dist.Bernoulli(share), obs=FACES[~is_missing])
        law = dist.Normal(means[0] + means[1] * FACES[~is_missing], 0.5)
        numpyro.sample("y", law, obs=Y[~is_missing])
    with numpyro.plate("incomplete", 2):
        x = numpyro.sample("z", dist.Bernoulli(share))
        law = dist.Normal(means[0] + means[1] * x, 0.5)
        numpyro.sample("y missing", law, obs=Y[is_missing])


def covariate_joint(v, z):
    x = jnp.asarray(FACES).at[jnp.array([1, 3])].set(z)
    rows = bernoulli.logpmf(x, v["share"]) + norm.logpdf(Y, v["means"][0] + v["means"][1] * x, 0.5)
    return log_prior(v["means"], v["share"]) + rows.sum()


def of_groups():
    """A class of each group, whose rows are one event."""
    share = numpyro.sample("share", dist.Beta(2.0, 3.0))
    means = normals("means", 2)
    mask = np.array([[True, True, False], [True, True, True]])
    rows = np.array([[0.5, -1.0, 0.0], [2.5, 0.1, 1.9]])
    with numpyro.plate("groups", 2):
        z = numpyro.sample("z", dist.Bernoulli(share))
        law = dist.Normal(means[z][..., None], 1.0).expand_by([]).mask(mask).to_event(1)
        numpyro.sample("y", law, obs=rows)


def of_groups_joint(v, z):
    rows = norm.logpdf(Y, v["means"][z[GROUPS]], 1.0)
    return log_prior(v["means"], v["share"]) + bernoulli.logpmf(z, v["share"]).sum() + rows.sum()


def from_three():
    """A law that does not begin at zero: NumPyro alone would sum over 0, 1 and 2."""
    means = normals("means", 2)
    with numpyro.plate("rows", 5):
        z = numpyro.sample("z", dist.DiscreteUniform(3, 5))
        numpyro.sample("y", dist.Normal(means[0] + means[1] * (z - 4), 1.0), obs=Y)


def from_three_joint(v, z):
    rows = norm.logpdf(Y, v["means"][0] + v["means"][1] * (z - 1), 1.0) - jnp.log(3.0)
    return log_prior(v["means"]) + rows.sum()


CASES = {  # model, density of one value of all discrete sites, their shape, number of values
    "mixture": (mixture, mixture_joint, (5,), 2),
    "without plates": (without_plates, mixture_joint, (5,), 2),
    "alone": (alone, alone_joint, (), 2),
    "chain": (chain, chain_joint, (5,), 2),
    "loop": (loop, chain_joint, (5,), 2),
    "capture": (capture, capture_joint, (5,), 2),
    "covariate": (covariate, covariate_joint, (2,), 2),
    "groups": (of_groups, of_groups_joint, (2,), 2),
    "from three": (from_three, from_three_joint, (5,), 3),
}
POINT = {"share": 0.3, "means": jnp.array([-0.7, 1.4]), "chance": 0.6}


FEW = ("mixture", "chain", "capture", "without plates")


@pytest.mark.parametrize(
    "name", [x if x in FEW else pytest.param(x, marks=pytest.mark.slow) for x in CASES]
)
def test_densities_slopes_and_probabilities_are_sums_over_all_values(name):
    model, joint, shape, count = CASES[name]
    size = int(np.prod(shape))
    with jax.enable_x64(True):
        ours = vi.from_numpyro(model)
        v = {x: jnp.asarray(POINT[x], float) for x in ours.log_density.variables.names}
        places = np.array(list(itertools.product(range(count), repeat=size))).reshape(-1, *shape)
        terms = lambda v: jax.vmap(lambda z: joint(v, z))(jnp.asarray(places))
        exact, slopes = jax.jit(jax.value_and_grad(lambda v: logsumexp(terms(v))))(v)
        value, ours_slopes = jax.jit(jax.value_and_grad(ours.log_density.log_prior))(v)
        weights = np.asarray(jnp.exp(terms(v) - exact))
        probabilities = ours.queries["locals"].args[0].probabilities(v)
    assert float(value) == pytest.approx(float(exact), rel=1e-10)
    for x, slope in slopes.items():
        np.testing.assert_allclose(ours_slopes[x], slope, rtol=1e-9, atol=1e-10)
    one_hot = places[..., None] == np.arange(count)
    by_hand = np.tensordot(weights, one_hot, 1)
    if name == "loop":
        probabilities = {"z": np.stack([probabilities[f"z{i}"] for i in range(5)])}
    np.testing.assert_allclose(probabilities["z"], by_hand, atol=1e-10)


def test_a_fit_names_what_was_summed_out_and_answers_for_it():
    """Probabilities are averages over the draws; deterministic sites that do not depend on classes
    are among the draws."""
    model = vi.from_numpyro(mixture)
    fit = vi.auto(model, key=KEY, richer=False, num_starts=4)
    check_names(fit.verdict, "Summed out:", "'z'", "fit.locals", "None", "key=key")
    draws = fit.sample(jax.random.key(1), 2000)
    assert sorted(draws) == ["distance", "means", "share"]
    np.testing.assert_allclose(draws["distance"], draws["means"][:, 1] - draws["means"][:, 0])
    log_odds = np.log(draws["share"] / (1 - draws["share"]))[:, None]
    log_liks = norm.logpdf(Y[:, None], draws["means"][:, None], 1.0)
    exact = 1 / (1 + np.exp(-log_odds - log_liks[..., 1] + log_liks[..., 0]))
    probs = fit.locals(None, key=jax.random.key(2))["z"].probs
    np.testing.assert_allclose(probs[:, 1], exact.mean(0), atol=0.08)
    np.testing.assert_allclose(probs.sum(-1), 1.0, atol=1e-5)
    copy = pickle.loads(pickle.dumps(fit))
    np.testing.assert_array_equal(copy.locals(None, key=jax.random.key(2))["z"].probs, probs)
    with pytest.raises(ValueError, match=naming("data:", "None")):
        fit.locals(Y, key=KEY)


def test_hierarchies_and_priors_are_read_beside_discrete_sites():
    def story():
        mean = numpyro.sample("mean", dist.Normal(3, 5))
        spread = numpyro.sample("spread", dist.HalfNormal(1.0))
        with numpyro.plate("rows", 5):
            effect = numpyro.sample("effect", dist.Normal(mean, spread))
            is_far = numpyro.sample("is_far", dist.Bernoulli(0.1))
            jump = numpyro.sample("jump", dist.Normal(3.0 * is_far, spread))
            # A normal law would have an integral over the effects in closed form.
            numpyro.sample("y", dist.StudentT(4.0, effect + jump, 1.0), obs=Y)

    density = vi.from_numpyro(story).log_density
    assert density.hierarchy.levels == (("effect",),)  # the law of `jump` depends on `is_far`
    assert density.prior_part is not None


def by_rows():
    """NumPyro sums over another model, in silence."""
    means = normals("means", 2)
    with numpyro.plate("groups", 2):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
    with numpyro.plate("rows", 5):
        numpyro.sample("y", dist.Normal(means[z[GROUPS]], 1.0), obs=Y)


def told(law, batch=False):
    def model():
        rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
        with numpyro.plate("rows", 2):
            n = numpyro.sample("n", law(rate))
            numpyro.sample("y", dist.Normal(0.1 * (n if batch is False else 0.0), 1.0), obs=Y[:2])

    return model


def under(**setting):
    """A mixture whose rows are scaled or masked: the sum over z is of powers."""
    ((name, value),) = setting.items()

    def model():
        mean = numpyro.sample("mean", dist.Normal(0, 3))
        handler = getattr(numpyro.handlers, name)
        with numpyro.plate("rows", 2), handler(**{name: value}):
            z = numpyro.sample("z", dist.Bernoulli(0.3))
            numpyro.sample("y", dist.Normal(mean + 2 * z, 1.0), obs=Y[:2])

    return model


def scale_in_steps():
    """A chain of which each step has a scale by data."""

    def step(state, y):
        with numpyro.handlers.scale(scale=jnp.abs(y)):
            state = numpyro.sample("z", dist.Bernoulli(0.2))
        return state, None

    numpyro.sample("mean", dist.Normal(0, 1))
    scan(step, 0, Y)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (by_rows, r"discrete sites 'z': expected a sum over their values, got .*z\[group\]"),
        (told(dist.Poisson), "site 'n': expected finitely many values, got those of Poisson.*Cat"),
        (
            told(lambda rate: dist.Bernoulli(0.5).expand([2, 3]).to_event(1), True),
            r"site 'n': expected values that are numbers, got vectors .*without \.to_event\(\)",
        ),
        (under(scale=np.array([2.0, 1.0])), "'z' without numpyro.handlers.scale or mask, got one"),
        (
            under(mask=np.array([True, False])),
            "'z' without numpyro.handlers.scale or mask, got one",
        ),
        (scale_in_steps, "'z' without numpyro.handlers.scale or mask, got one under it"),
        (functools.partial(chain, True), "expected steps from the first to the last"),
        (
            told(lambda rate: dist.Binomial(np.array([2, 3]), 0.5)),
            "site 'n': expected the same values in all rows, got those of Binomial",
        ),
    ],
    ids=[
        "by rows",
        "unbounded",
        "vectors",
        "scaled",
        "masked",
        "scaled steps",
        "backwards",
        "several supports",
    ],
)
def test_what_cannot_be_summed_out_is_refused_by_name(model, said):
    with pytest.raises(ValueError, match=said):
        vi.from_numpyro(model)


def test_values_of_a_scan_begin_at_zero():
    def model():
        mean = numpyro.sample("mean", dist.Normal(0, 1))

        def step(state, y):
            state = numpyro.sample("z", dist.DiscreteUniform(2, 3))
            numpyro.sample("y", dist.Normal(mean * state, 1.0), obs=y)
            return state, None

        scan(step, 2, Y)

    with pytest.raises(ValueError, match=naming("'z'", "0", "1", "2")):
        vi.from_numpyro(model)


def test_without_funsor_the_error_says_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "funsor", None)
    with pytest.raises(
        ImportError, match=r"discrete sites 'z' are summed out by funsor.*pip install"
    ):
        vi.from_numpyro(mixture)


def test_discrete_unknowns_alone_have_exact_probabilities():
    def story(y):
        a = numpyro.sample("a", dist.Categorical(jnp.array([0.2, 0.3, 0.5])))
        with numpyro.plate("rows", 5):
            b = numpyro.sample("b", dist.Bernoulli(0.4))
            numpyro.sample("y", dist.Normal(a - 2.0 * b, 1.0), obs=y)

    with pytest.raises(ValueError, match=r"discrete ones alone.*discrete_probabilities"):
        vi.from_numpyro(story, Y)
    probabilities = vi.adapters.discrete_probabilities(story, Y)
    joint = np.array([0.2, 0.3, 0.5])[:, None, None] ** np.array([1.0, 0, 0, 0, 0])[:, None]
    joint = (
        joint
        * np.array([0.6, 0.4])
        * norm.pdf(Y[:, None], np.arange(3.0)[:, None, None] - 2.0 * np.arange(2), 1.0)
    )
    a = joint.sum(-1).prod(-1)
    np.testing.assert_allclose(probabilities["a"], a / a.sum(), rtol=1e-5)
    b = np.einsum("a,anb->nb", a / a.sum(), joint / joint.sum(-1, keepdims=True))
    np.testing.assert_allclose(probabilities["b"], b, rtol=1e-5)
    with pytest.raises(ValueError, match=r"observed site 'y': expected numbers"):
        vi.adapters.discrete_probabilities(story, np.where(Y > 2, np.nan, Y))
    with pytest.raises(ValueError, match=r"discrete unknowns alone, got continuous ones, \['share"):
        vi.adapters.discrete_probabilities(mixture)

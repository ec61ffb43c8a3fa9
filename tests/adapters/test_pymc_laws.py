"""The laws of PyMC's distributions, against its own draws; and the hierarchy of a model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import betabinom, expon, norm

import vijax as vi

pymc = pytest.importorskip("pymc", reason="needs PyMC: pip install pymc")

from pymc.distributions import transforms  # noqa: E402

from vijax.adapters.pymc_laws import ENTRIES, VECTORS, read_hierarchy  # noqa: E402
from vijax.adapters.pymc_programs import compile_graph  # noqa: E402
from vijax.models.energies.reference import Reference  # noqa: E402

GRID = np.linspace(-60.0, 60.0, 12_001)
N = len(GRID)
ENTRYWISE = {
    "LogNormalRV": lambda u: pymc.LogNormal("x", 0.3 * u, 0.7, shape=N),
    "HalfNormalRV": lambda u: pymc.HalfNormal("x", 2.0 * u, shape=N),
    "HalfCauchyRV": lambda u: pymc.HalfCauchy("x", 2.0 * u, shape=N),
    "HalfStudentTRV": lambda u: pymc.HalfStudentT("x", 5.0, 2.0 * u, shape=N),
    "ExponentialRV": lambda u: pymc.Exponential("x", 3.0 * u, shape=N),
    "GammaRV": lambda u: pymc.Gamma("x", 3.0, 2.0 * u, shape=N),
    "InvGammaRV": lambda u: pymc.InverseGamma("x", 3.0, 2.0 * u, shape=N),
    "WeibullBetaRV": lambda u: pymc.Weibull("x", 2.0, 3.0 * u, shape=N),
    "BetaRV": lambda u: pymc.Beta("x", 2.0, 3.0 * u, shape=N),
    "StudentTRV": lambda u: pymc.StudentT("x", 7.0, mu=1.0, sigma=2.0 * u, shape=N),
    "LaplaceRV": lambda u: pymc.Laplace("x", 1.0, 2.0 * u, shape=N),
    "LogisticRV": lambda u: pymc.Logistic("x", 1.0, 2.0 * u, shape=N),
    "GumbelRV": lambda u: pymc.Gumbel("x", 1.0, 2.0 * u, shape=N),
}
NEIGHBOURS = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])
FACTOR = np.array([[1.4, 0.0], [0.4, 0.9]])
NORMAL = {
    "NormalRV": lambda u: pymc.Normal("x", 1.0, 2.0 * u, shape=3),
    "ZeroSumNormalRV": lambda u: pymc.ZeroSumNormal("x", u, shape=(2, 4)),
    "MvNormalRV": lambda u: pymc.MvNormal("x", np.arange(2.0), chol=FACTOR * u, shape=(3, 2)),
    "covariance": lambda u: pymc.MvNormal("x", np.arange(2.0), cov=FACTOR @ FACTOR.T * u),
    "RandomWalkRV": lambda u: pymc.GaussianRandomWalk(
        "x", np.array([0.3, -0.2]), 0.5 * u, init_dist=pymc.Normal.dist(1.0, 2.0), shape=(2, 4)
    ),
    "AutoRegressiveRV": lambda u: pymc.AR(
        "x",
        [0.1, 0.6, -0.3],
        0.5 * u,
        constant=True,
        init_dist=pymc.Normal.dist(1.0, 2.0),
        shape=(2, 5),
    ),
    "CARRV": lambda u: pymc.CAR("x", np.ones(3), NEIGHBOURS * 1.0, 0.5, 2.0 * u),
    "ICARRV": lambda u: pymc.ICAR("x", NEIGHBOURS, sigma=2.0 * u, zero_sum_stdev=0.1),
}


def law_at(build, u=1.0):
    """The law of `x` at a value of `u`; PyMC's log density of each entry or vector of x; and the
    model."""
    with pymc.Model() as model:
        build(pymc.Exponential("u", 1.0))
    with jax.enable_x64(True):
        inputs, start = model.value_vars, model.initial_point(0)
        walk, levels = read_hierarchy(model, inputs, start)
        laws, values = {}, {**start, "u_log__": np.log(u)}

        def visit(name, law):
            laws[name] = law
            return jnp.asarray(values[name], float)

        walk(visit)
        name = model.rvs_to_values[model["x"]].name
        assert levels == ((name,),)
        program = compile_graph(inputs, model.logp(vars=[model["x"]], sum=False))

        def log_density(x):
            with jax.enable_x64(True):
                return np.asarray(program(*({**values, name: x}[one.name] for one in inputs))[0])

        return jax.tree.map(np.asarray, laws[name]), log_density, model


def test_every_law_has_a_case():
    kinds = {*VECTORS, *(name for kinds in ENTRIES.values() for name in kinds)}
    others = {"CauchyRV", "MvStudentTRV", "BetaClippedRV"}
    assert kinds == ({*ENTRYWISE, *NORMAL} - {"covariance"}) | others


@pytest.mark.parametrize("name", ENTRYWISE)
def test_mean_and_sd_are_those_of_the_value_variables(name):
    law, log_density, model = law_at(ENTRYWISE[name])
    assert type(model["x"].owner.op).__name__ in (name, "BetaClippedRV")
    weight = np.exp(log_density(GRID))
    weight /= weight.sum()
    mean = weight @ GRID
    np.testing.assert_allclose(law.loc, mean, rtol=1e-3)
    np.testing.assert_allclose(law.scale, np.sqrt(weight @ (GRID - mean) ** 2), rtol=1e-3)


@pytest.mark.parametrize("name", NORMAL)
def test_normal_laws_are_pymcs_own_densities(name):
    """Up to a constant: that of an intrinsic field changes with its scale in vijax, where it is
    normalised."""
    rng = np.random.default_rng(0)
    apart = []
    for u in (1.0, 0.4):
        law, log_density, _ = law_at(NORMAL[name], u)
        for _ in range(3):
            x = law.loc + rng.normal(size=law.loc.shape)
            apart.append(log_density(x).sum() - log_normal(law, x))
    same = [apart[:3], apart[3:]] if name == "ICARRV" else [apart]
    for part in same:
        np.testing.assert_allclose(part, part[0], rtol=1e-6, atol=1e-6)


def log_normal(law, x):
    if law.scale.ndim == x.ndim:
        return norm.logpdf(x, law.loc, law.scale).sum()
    noise = np.linalg.solve(law.scale, (x - law.loc)[..., None])
    return (
        norm.logpdf(noise).sum() - np.log(np.abs(np.diagonal(law.scale, axis1=-2, axis2=-1))).sum()
    )


def test_vectors_of_students_have_their_covariance():
    build = lambda u: pymc.MvStudentT("x", 9.0, mu=np.arange(2.0), chol=FACTOR * u)
    law, *_ = law_at(build)
    np.testing.assert_allclose(law.loc, np.arange(2.0))
    np.testing.assert_allclose(law.scale @ law.scale.T, FACTOR @ FACTOR.T * 9 / 7)


@pytest.mark.parametrize(
    "build",
    [
        lambda u: pymc.Normal(
            "x", 0, u, shape=3, transform=transforms.ordered, initval=np.arange(3)
        ),
        lambda u: pymc.Exponential("x", u, transform=transforms.Interval(0, None)),
        lambda u: pymc.TruncatedNormal("x", 0, u, lower=0),
        lambda u: pymc.Dirichlet("x", u * np.ones(3)),
        lambda u: pymc.MvGaussianRandomWalk(
            "x",
            np.zeros(2),
            chol=FACTOR * u,
            init_dist=pymc.MvNormal.dist(np.zeros(2), np.eye(2)),
            shape=(4, 2),
        ),
        lambda u: pymc.Normal("x", 0, 1, shape=3),
    ],
)
def test_what_has_no_law_stays_as_it_is(build):
    """Under another transform the law would be of other numbers; and a law that reads no other
    variable is none."""
    with pymc.Model() as model:
        build(pymc.Exponential("u", 1.0))
    assert read_hierarchy(model, model.value_vars, model.initial_point(0))[1] == ()


def regions():
    mean = pymc.Normal("mean", 0, 5)
    spreads = pymc.HalfNormal("spreads", 1.0, shape=2)
    region = pymc.Normal("region", mean, spreads[0], dims="regions")
    of_county = pymc.Deterministic("of_county", region[np.arange(6) // 2])
    county = pymc.Normal("county", of_county, spreads[1], shape=6)
    rate = pymc.Gamma("rate", 2.0, pymc.math.exp(mean), shape=4)
    pymc.Normal("pair", rate.sum(), 1.0, shape=(4, 2))
    pymc.Normal("y", county, 1.0, observed=np.arange(6.0))


def test_laws_given_others_are_read_off_the_model():
    with pymc.Model(coords={"regions": ["a", "b", "c"]}) as model:
        regions()
    own = vi.from_pymc(model).log_density
    assert own.hierarchy.levels == (("region", "rate_log__"), ("county", "pair"))
    values = own.values_at(jnp.linspace(-1.0, 1.0, own.variables.dim))
    laws = {}

    def visit(name, law):
        laws[name] = law
        return values[name]

    own.hierarchy.walk(visit)
    assert laws["mean"] is None
    assert laws["spreads_log__"] is None
    spreads = jnp.exp(values["spreads_log__"])
    np.testing.assert_allclose(laws["county"].loc, values["region"][jnp.arange(6) // 2], rtol=1e-5)
    np.testing.assert_allclose(laws["county"].scale, np.full(6, spreads[1]), rtol=1e-5)
    np.testing.assert_allclose(laws["region"].scale, np.full(3, spreads[0]), rtol=1e-5)
    np.testing.assert_allclose(
        laws["pair"].loc, np.full((4, 2), jnp.exp(values["rate_log__"]).sum()), rtol=1e-5
    )
    np.testing.assert_allclose(
        laws["rate_log__"].loc,
        np.full(4, float(jax.scipy.special.digamma(2.0) - values["mean"])),
        rtol=1e-4,
    )


def test_shares_are_integrated_out():
    n, hits = np.array([5, 8, 20, 44]), np.array([0, 3, 2, 9])
    with pymc.Model() as model:
        a, b = pymc.Exponential("a", 0.2), pymc.Exponential("b", 0.2)
        share = pymc.Beta("share", a, b, shape=4)
        pymc.Deterministic("odds", share / (1 - share))
        pymc.Binomial("y", n, share, observed=hits)
    new_model = vi.from_pymc(model)
    assert new_model.queries["summed out"].startswith("Integrated out: 'share';")
    density = new_model.log_density
    assert density.variables.names == ["a_log__", "b_log__"]
    for log_a, log_b in [(0.3, 1.2), (-1.0, 2.0), (2.0, 3.0)]:
        a, b = np.exp([log_a, log_b])
        exact = betabinom(n, a, b).logpmf(hits).sum() + expon(scale=5).logpdf([a, b]).sum()
        values = {"a_log__": jnp.float32(log_a), "b_log__": jnp.float32(log_b)}
        np.testing.assert_allclose(density.log_prior(values), exact + log_a + log_b, rtol=1e-5)
        drawn = density.derived(values)
        assert set(drawn) == {"a", "b", "share_logodds__", "share", "odds"}
        np.testing.assert_allclose(drawn["odds"], np.exp(drawn["share_logodds__"]), rtol=1e-4)
    kept = vi.from_pymc(model, integrate=False).log_density.variables.names
    assert kept == ["a_log__", "b_log__", "share_logodds__"]
    with pytest.raises(ValueError, match="integrate"):
        vi.from_pymc(model, integrate="no")


def test_laws_are_those_of_the_same_model_in_numpyro(monkeypatch):
    monkeypatch.setattr("vijax.adapters.numpyro_model.find_plan", lambda *_: None)
    numpyro = pytest.importorskip("numpyro")
    dist = numpyro.distributions

    def theirs():
        mean = numpyro.sample("mean", dist.Normal(0, 5))
        spreads = numpyro.sample("spreads", dist.HalfNormal(1.0).expand([2]).to_event(1))
        with numpyro.plate("regions", 3):
            region = numpyro.sample("region", dist.Normal(mean, spreads[0]))
        with numpyro.plate("counties", 6):
            county = numpyro.sample(
                "county", dist.StudentT(4.0, region[jnp.arange(6) // 2], spreads[1])
            )
        numpyro.sample("walk", dist.GaussianRandomWalk(spreads[0], 4))
        numpyro.sample("y", dist.Normal(county, 1.0), obs=jnp.arange(6.0))

    with pymc.Model() as model:
        mean, spreads = pymc.Normal("mean", 0, 5), pymc.HalfNormal("spreads", 1.0, shape=2)
        region = pymc.Normal("region", mean, spreads[0], shape=3)
        county = pymc.StudentT(
            "county", 4.0, mu=region[np.arange(6) // 2], sigma=spreads[1], shape=6
        )
        first = pymc.Normal.dist(0, spreads[0])
        pymc.GaussianRandomWalk("walk", sigma=spreads[0], init_dist=first, shape=4)
        pymc.Normal("y", county, 1.0, observed=np.arange(6.0))
    ours = vi.from_pymc(model, integrate=False).log_density
    other = vi.from_numpyro(theirs).log_density
    assert [set(level) for level in ours.hierarchy.levels] == [
        set(level) for level in other.hierarchy.levels
    ]
    rng = np.random.default_rng(0)
    free = {name: rng.normal(size=n) for name, n in (("region", 3), ("county", 6), ("walk", 4))}
    free |= {"mean": np.array([0.4]), "spreads": rng.normal(size=2)}
    placed = []
    for own in (ours, other):
        z = np.zeros(own.variables.dim, np.float32)
        for name, rows in own.variables.places.items():
            z[rows] = free[name.removesuffix("_log__")]
        reference = Reference.constant(
            np.full(own.variables.dim, 0.3), np.full(own.variables.dim, 2.0)
        )
        there = own.hierarchy.to_free(reference, z)
        x = {
            name.removesuffix("_log__"): np.asarray(there.free)[r]
            for name, r in own.variables.places.items()
        }
        placed.append((x, float(there.log_volume), float(own.log_prior_at(there.free))))
    (one, volume, log_density), (two, volume_2, log_density_2) = placed
    for name, x in one.items():
        np.testing.assert_allclose(x, two[name], rtol=1e-4, atol=1e-5)
    assert volume == pytest.approx(volume_2, rel=1e-4)
    assert log_density == pytest.approx(log_density_2, rel=1e-4)


def counties(number=85):
    """Means of counties and their errors, as radon in Minnesota."""
    rng = np.random.default_rng(100)
    houses = np.ceil(np.exp(rng.normal(1.4, 1.1, number))).clip(1, 120)
    error = 0.76 / np.sqrt(houses)
    return 1.3 + 0.33 * rng.normal(size=number) + error * rng.normal(size=number), error


EFFECTS, ERRORS = (
    np.array([28.0, 8, -3, 7, -1, 1, 18, 12]),
    np.array([15.0, 10, 16, 11, 9, 11, 10, 18]),
)


@pytest.mark.parametrize(
    ("data", "width", "name", "value"),
    [(counties(), 10.0, "spread", np.exp), ((EFFECTS, ERRORS), 5.0, "spread_log__", np.array)],
    ids=["counties", "schools"],
)
def test_centred_groups_are_right_by_default(data, width, name, value):
    """Mean and spread, or its logarithm, beside quadrature."""
    y, error = data
    with pymc.Model() as model:
        spread = pymc.HalfNormal("spread", width)
        pymc.Normal(
            "y",
            pymc.Normal("group", pymc.Normal("mean", 0, width), spread, shape=len(y)),
            error,
            observed=y,
        )
    fit = vi.auto(vi.from_pymc(model), key=jax.random.key(0))
    draws = fit.sample(jax.random.key(1), 20_000)
    seen = np.stack([np.asarray(draws[one], float) for one in ("mean", name)], 1)
    mean, sd = exact(y, error, width, value)
    assert np.abs((seen.mean(0) - mean) / sd).max() < 0.06
    assert np.abs(np.log(seen.std(0) / sd)).max() < 0.1


def exact(y, error, width, value):
    """Posterior means and sds of the mean and a function of the logarithm of the spread."""
    logs = np.linspace(-9, 4, 4000)
    variance = error**2 + np.exp(2 * logs)[:, None]
    precision = (1 / variance).sum(1) + width**-2
    mean = (y / variance).sum(1) / precision
    log_p = -0.5 * (np.log(variance) + y**2 / variance).sum(1) + 0.5 * precision * mean**2
    log_p += -0.5 * np.log(precision) + logs - 0.5 * np.exp(2 * logs) / width**2
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    spread = value(logs)
    first = np.array([weight @ mean, weight @ spread])
    second = np.array([weight @ (mean**2 + 1 / precision), weight @ spread**2])
    return first, np.sqrt(second - first**2)

"""Data in any type of numbers: what a model reads of them is the same, or they are refused."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import vijax as vi
from tests.naming import naming
from vijax import reference
from vijax.data.loader import as_loader
from vijax.models import emission
from vijax.models.energies.energy_model import ready_model

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (20, 3))  # squares and sums wrap in uint8, squares in int16
BITS = RNG.integers(0, 2, (20, 3))
LABELS = np.where(np.arange(20) % 3, 1, -1)
MASK = np.arange(5) < np.array([5, 3, 4])[:, None]
SERIES = RNG.integers(0, 256, (3, 5, 2))
GRAPH = np.triu(RNG.integers(0, 200, (6, 6)), 1)
GRAPH = GRAPH + GRAPH.T
GROUP = np.array([0, 1, 2, 1, 0] * 4)
TYPES = (np.uint8, np.int16, np.int64)
NORMAL, GAMMA = vi.Normal.from_mean_variance(0.0, 1e4), vi.Gamma.from_shape_rate(2.0, 1.0)


def linear(w, x):
    return x @ w


def vae(observed):
    network = (lambda w, x: (x @ w, jnp.zeros(2)), np.full((3, 2), 1e-3, np.float32))
    return vi.models.vae(network, (linear, np.ones((2, 3), np.float32)), observed, 2)


def svae():
    def energy(s):
        m, u = s["mean"], s["u"]
        return jnp.sum(m.value * u.value - 0.5 * (m.square + u.square) - 0.5 * jnp.log(2 * jnp.pi))

    return vi.models.svae(
        globals={"mean": vi.Normal.from_mean_variance(np.zeros(2), 1.0)},
        locals={"u": vi.Normal.from_mean_variance(np.zeros(2), 1.0)},
        energy=energy,
        latent="u",
        encoder=(lambda w, x: (x @ w, jnp.zeros(2)), np.full((3, 2), 1e-3, np.float32)),
        decoder=(linear, np.ones((2, 3), np.float32)),
        observed=vi.models.observed.gaussian(1.0),
    )


def dynamic_svae():
    encoder = (lambda w, x: (x @ w, -jnp.ones(2)), np.full((2, 2), 1e-3, np.float32))
    return vi.models.dynamic_svae(
        2, encoder, (linear, np.eye(2, dtype=np.float32)), vi.models.observed.gaussian(1.0)
    )


def squares(s, y):
    return 1e-4 * y**2 * s["m"].value - 0.5 * s["m"].square


def energy(example):
    score = lambda hyper, q, y, key: float(np.sum(np.asarray(y) ** 2, dtype=np.float64))
    return lambda: ready_model(globals={"m": NORMAL}, energy=squares, example=example, score=score)


def by_table():
    """An energy that reads one array as a number and one as an index."""
    fits = lambda s, d: d["n"] * d["n"] * s["rate"].log[d["k"]] - d["n"] * s["rate"].value[d["k"]]
    rates = vi.Gamma.from_shape_rate(jnp.ones(3), 1.0)
    return vi.energy_model(
        globals={"rate": rates}, energy=fits, example={"n": np.uint8(3), "k": np.uint8(1)}
    )


def lik(v, y):
    return -0.5 * (y**2 - 2 * y * v["m"] + v["m"] ** 2) / v["s"] ** 2 - jnp.log(v["s"])


def density():
    variables = {"m": vi.free(), "s": vi.free(support="positive")}
    return vi.density(
        variables, log_prior=lambda v: -0.5e-6 * v["m"] ** 2 - 0.01 * v["s"], log_lik=lik
    )


def whole_density():
    log_p = lambda v, y: jnp.sum(lik(v, y)) - 0.5e-6 * v["m"] ** 2 - 0.01 * v["s"]
    return vi.density({"m": vi.free(), "s": vi.free(support="positive")}, log_p)


def density_by_table():
    def fits(v, d):
        return -0.5 * (d["n"] ** 2 - v["m"][d["k"]]) ** 2 * 1e-6

    return vi.density({"m": vi.free(3)}, log_prior=lambda v: -jnp.sum(v["m"] ** 2), log_lik=fits)


def coin():
    bound = lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m - 1e-9 * y**2, None)
    return vi.model({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}, bound)


MODELS = vi.models
PAIR = lambda as_: (as_(SERIES), MASK)
TRIPLE = lambda y: (
    lambda as_: (as_(np.stack([SERIES[..., 0]] * 2, -1)), y if y is LABELS else as_(y), MASK)
)
ROWS = lambda as_: as_(PIXELS)
SIGNS = np.where(SERIES[..., 1] > 100, 1.0, -1.0)
CASES = {
    "mixture: unit": (lambda: MODELS.mixture(emission.unit_gaussian(2, 3)), ROWS),
    "mixture: full": (lambda: MODELS.mixture(emission.full_gaussian(2, 3)), ROWS),
    "mixture: poisson": (lambda: MODELS.mixture(emission.poisson(2, 3)), ROWS),
    "mixture: words": (lambda: MODELS.mixture(emission.categorical(2, 3)), ROWS),
    "mixture: bernoulli": (lambda: MODELS.mixture(emission.bernoulli(2, 3)), lambda as_: as_(BITS)),
    "dp_mixture": (lambda: MODELS.dp_mixture(emission.diagonal_gaussian(2, 3)), ROWS),
    "factor_analysis": (lambda: MODELS.factor_analysis(3, 1), ROWS),
    "ard_regression": (
        lambda: MODELS.ard_regression(2),
        lambda as_: (as_(PIXELS[:, :2]), as_(PIXELS[:, 2])),
    ),
    "gap_nmf": (lambda: MODELS.gap_nmf(3, 2), ROWS),
    "hmm": (lambda: MODELS.hmm(emission.diagonal_gaussian(2, 2)), PAIR),
    "factorial_hmm": (lambda: MODELS.factorial_hmm(2, 2, 2), PAIR),
    "arhmm": (lambda: MODELS.arhmm(2, 2), PAIR),
    "recurrent_slds": (lambda: MODELS.recurrent_slds(2, 2, 1), PAIR),
    "slds": (lambda: MODELS.slds(2, 2, 1), PAIR),
    "linear_gaussian_state_space": (lambda: MODELS.linear_gaussian_state_space(2, 1), PAIR),
    "hierarchical_linear_regression": (
        lambda: MODELS.hierarchical_linear_regression(2),
        TRIPLE(SERIES[..., 1]),
    ),
    "hierarchical_probit_regression": (
        lambda: MODELS.hierarchical_probit_regression(2),
        lambda as_: (as_(np.stack([SERIES[..., 0]] * 2, -1)), SIGNS, MASK),
    ),
    "multilevel_logistic_regression": (
        lambda: MODELS.multilevel_logistic_regression(2),
        lambda as_: (as_(np.stack([SERIES[..., 0]] * 2, -1)), SIGNS, as_(MASK)),
    ),
    "stochastic_block_model": (
        lambda: MODELS.stochastic_block_model(2, edges="poisson"),
        lambda as_: as_(
            np.triu(PIXELS[:6, [0, 1, 2, 0, 1, 2]], 1)
            + np.triu(PIXELS[:6, [0, 1, 2, 0, 1, 2]], 1).T
        )[None],
    ),
    "lda": (lambda: MODELS.lda(2, 3), ROWS),
    "hpf": (lambda: MODELS.hpf(2, 3), ROWS),
    "hdp": (lambda: MODELS.hdp(2, 3), ROWS),
    "hdp_hmm": (lambda: MODELS.hdp_hmm(MODELS.emission.unit_gaussian(2, 2)), PAIR),
    "ctm": (lambda: MODELS.ctm(2, 3), ROWS),
    "simple_mixture": (lambda: MODELS.simple_mixture(2, 3), ROWS),
    "plsa": (lambda: MODELS.plsa(2, 20, 3), lambda as_: MODELS.plsa_entries(as_(PIXELS))),
    "vae": (lambda: vae(MODELS.observed.gaussian(1.0)), ROWS),
    "vae: bernoulli": (lambda: vae(MODELS.observed.bernoulli()), lambda as_: as_(BITS)),
    "svae": (svae, ROWS),
    "dynamic_svae": (dynamic_svae, PAIR),
    "energy of a float": (energy(0.0), lambda as_: as_(PIXELS[:, 0])),
    "energy of an integer": (energy(np.uint8(7)), lambda as_: as_(PIXELS[:, 0])),
    "energy of a boolean": (energy(True), lambda as_: as_(BITS[:, 0])),
    "energy by table": (by_table, lambda as_: {"n": as_(PIXELS[:, 0]), "k": as_(GROUP)}),
    "density": (density, lambda as_: as_(PIXELS[:, 0])),
    "whole density": (whole_density, lambda as_: as_(PIXELS[:, 0])),
    "density by table": (
        density_by_table,
        lambda as_: {"n": as_(PIXELS[:, 0]), "k": GROUP.astype(np.int8)},
    ),
    "bound of one's own": (coin, lambda as_: as_(BITS[:, 0])),
}
each_case = pytest.mark.parametrize("name", CASES)
NO_FIT = {"gp", "glm", "logistic_regression"}  # which hold their data: below
NO_MODELS = {
    "Glmm",
    "Stm",
    "Predictors",
    "as_potentials",
    "emission",
    "group_names",
    "group_rows",
    "observed",
    "pad",
    "plsa_entries",
    "population",
}
NO_MODELS |= {"Dtm", "Slices", "SliceWarning"}
NO_MODELS |= {"dtm"}  # which reads its documents as they are: tests/models/test_laws_numbers.py
NO_MODELS |= {"after_slds", "rates_matrix", "response", "recommend", "new_items", "with_covariates"}


def types_of(data):
    """Of bits, booleans too."""
    whole = all(
        np.isin(x, (0, 1)).all()
        for x in jax.tree.leaves(data(lambda x: x))
        if isinstance(x, np.ndarray)
    )
    return (*TYPES, bool) if whole else TYPES


def test_every_ready_model_is_here():
    assert {name.partition(":")[0] for name in CASES} >= set(vi.models.__all__) - NO_MODELS - NO_FIT


@each_case
def test_a_batch_is_the_same_whatever_the_type_of_the_data(name):
    make, data = CASES[name]
    model = make()
    batch = lambda dtype: next(
        iter(as_loader(data(lambda x: np.asarray(x, dtype)), model, None, 0).batches(0, 1))
    )
    floats = batch(np.float32)
    for dtype in types_of(data):
        for one, other in zip(jax.tree.leaves(batch(dtype)), jax.tree.leaves(floats), strict=True):
            assert np.asarray(one).dtype == np.asarray(other).dtype, dtype
            np.testing.assert_array_equal(one, other, err_msg=str(dtype))


def fitted(model, data):
    row = vi.advi if model.free else vi.aevb if "encoder" in model.hyper else vi.svi
    return vi.fit(row(model), data, num_steps=3, key=KEY)


def answers(fit, data):
    """Its posterior, and what it says of data."""
    model = fit.alg.spec.model
    found = {"posterior": fit.state.posterior, "hyper": fit.state.hyper}
    if "score" in model.queries:
        score = fit.score(data, key=KEY)
        found["score"] = np.asarray(score if isinstance(score, float) else score.mean)
    if "transform" in model.queries:
        found["transform"] = fit.transform(data, key=KEY)
    elif model.form.documents is None:
        found["locals"] = fit.locals(data, key=KEY)
    if hasattr(model, "bound"):
        found["bound"] = model.bound(fit, data, key=KEY)
    return found


@each_case
def test_a_fit_is_the_same_whatever_the_type_of_the_data(name):
    make, data = CASES[name]
    model = make()

    def found(dtype):
        own = data(lambda x: np.asarray(x, dtype))
        return answers(fitted(model, own), own)

    floats = found(np.float32)
    for dtype in types_of(data):
        for one, other in zip(jax.tree.leaves(found(dtype)), jax.tree.leaves(floats), strict=True):
            np.testing.assert_array_equal(one, other, err_msg=str(dtype))


@pytest.mark.parametrize(
    "make", [lambda **y: vi.models.gp(X, kernel="rbf", **y), lambda **y: vi.models.glm(X, **y)]
)
def test_observations_of_predictors_are_the_same_whatever_their_type(make):
    """The data are the model's own; of counts, whose squares and sums wrap."""
    counts = PIXELS[:, 0]
    models = [
        make(y=np.asarray(counts, dtype), likelihood=squared) for dtype in (np.float32, *TYPES)
    ]
    for model in models:
        assert (model.y.dtype, model.form.kinds) == (np.float32, models[0].form.kinds)
        np.testing.assert_array_equal(model.y, counts)
    model = models[1]
    predictive = lambda dtype: model.predictive(model.posterior(), X, counts.astype(dtype))
    found, expected = jax.jit(lambda: (predictive(np.uint8), predictive(np.float32)))()
    np.testing.assert_array_equal(found, expected)


X = RNG.normal(size=(20, 2)).astype(np.float32)


def squared(y, z):
    return -1e-5 * (y**2 - 2 * y * z + z**2)


def test_observations_that_are_indices_stay_integers():
    levels = jnp.array([0.0, 1.0, 5.0])
    own = lambda y, z: -((levels[y] - z) ** 2)
    model = vi.models.glm(X, GROUP.astype(np.uint8), own)
    assert model.y.dtype == np.int32
    assert model.form.kinds == {"site": "index", "y": "index"}


def test_a_sparse_design_of_small_integers_does_not_wrap():
    """Neither where one place has two entries, nor in products of rows."""
    dense = RNG.integers(0, 256, (6, 8))
    half = scipy.sparse.coo_array(dense.astype(np.uint8))
    twice = scipy.sparse.coo_array(
        (np.tile(half.data, 2), (np.tile(half.row, 2), np.tile(half.col, 2))), shape=(6, 8)
    )
    for form in ("weights", "kernel"):
        model = vi.models.glm(twice, LABELS[:6], vi.likelihood.gaussian(1.0), 0.01, form=form)
        expected = 0.01**2 * np.sum((2 * dense) ** 2, 1)
        found = jax.jit(lambda model=model: model.posterior().marginals().variance)()
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_sparse_counts_of_small_integers_do_not_wrap():
    entries = (np.full(2, 200, np.uint8), (np.zeros(2, int), np.ones(2, int)))
    twice = scipy.sparse.coo_array(entries, shape=(1, 3))
    assert vi.models.plsa_entries(twice)[2].tolist() == [400.0]
    assert vi.data.Corpus.from_counts(twice).num_tokens == 400


# --- every door -----------------------------------------------------------------------------------
def predictive_sample(v, y, key):
    return y**2  # of the group that it was given


@pytest.fixture(scope="module")
def made():
    """One of each for all types of data, as their programs are one."""
    model = energy(np.uint8(1))()
    alg = vi.cavi(model)
    density = vi.density(
        {"m": vi.free()},
        log_prior=lambda v: -(v["m"] ** 2),
        log_lik=lambda v, y: -1e-6 * y**2 * v["m"] ** 2,
        sample=predictive_sample,
    )
    return SimpleNamespace(
        model=model,
        cavi=alg,
        svi=vi.svi(model),
        state=alg.init(KEY),
        jitted=jax.jit(alg.step),
        fit=vi.fit(alg, PIXELS[:, 0].astype(np.float32), num_steps=1, key=KEY),
        at=vi.at(model, AT),
        density=density,
        advi=vi.advi(density),
    )


AT = {"m": jnp.array(3.0)}
# what each function that takes data makes of them; a step has them as they are, or traced
DOORS = {
    "fit": lambda on, data: vi.fit(on.cavi, data, num_steps=1, key=KEY).posterior,
    "restarts": lambda on, data: vi.fit(on.cavi, data, num_steps=1, key=KEY, restarts=2).posterior,
    "minibatches": lambda on, data: (
        vi.fit(on.svi, data, num_steps=3, batch_size=5, key=KEY).posterior
    ),
    "loader": lambda on, data: vi.fit(on.svi, OfMyOwn(data), num_steps=3, key=KEY).posterior,
    "auto": lambda on, data: vi.auto(on.model, data, key=KEY).posterior,
    "step": lambda on, data: jax.jit(lambda: on.cavi.step(KEY, on.state, data)[0].posterior)(),
    "jitted step": lambda on, data: on.jitted(KEY, on.state, data)[0].posterior,
    "batch": lambda on, data: jax.jit(
        lambda: on.cavi.step(KEY, on.state, vi.Minibatch(data, 20.0))[0].posterior
    )(),
    "at": lambda on, data: on.at.log_likelihood(data, key=KEY),
    "at a batch": lambda on, data: on.at.log_likelihood(vi.Minibatch(data, 20.0), key=KEY),
    "locals": lambda on, data: on.fit.locals(data, key=KEY),
    "log_joint": lambda on, data: reference.log_joint(on.model, data)(AT, {}),
    "gibbs": lambda on, data: reference.gibbs(on.model, data, key=KEY, num_samples=3),
    "score": lambda on, data: on.fit.score(data, key=KEY),
    "score of a density": lambda on, data: (
        vi.fit(on.advi, data, num_steps=1, key=KEY).score(data, key=KEY).mean
    ),
    "predictive": lambda on, data: vi.fit(on.advi, data, num_steps=1, key=KEY).predictive(
        KEY, 2, data
    ),
    "dadvi": lambda on, data: vi.dadvi(on.density, data, key=KEY).posterior,
}


class OfMyOwn:
    """A loader of a user's own."""

    num_words = None
    steps_per_epoch = 4
    num_groups = 20

    def __init__(self, data):
        self.data = data

    def batches(self, start, stop):
        for step in range(start, stop):
            rows = slice(5 * (step % 4), 5 * (step % 4) + 5)
            yield vi.Minibatch(self.data[rows], np.float32(20), np.ones(5, np.float32))


@pytest.mark.filterwarnings("ignore:restarts")  # its start draws nothing
@pytest.mark.parametrize("door", DOORS)
def test_every_door_reads_integers_as_numbers(door, made):
    floats = DOORS[door](made, PIXELS[:, 0].astype(np.float32))
    for dtype in (np.uint8, np.int64):
        found = DOORS[door](made, PIXELS[:, 0].astype(dtype))
        # Batches of one's own loader become floats within the program, which is another one for
        # each type and rounds in another order: half a digit of float32.
        rounding = 2e-7 if door == "loader" else 0
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(floats), strict=True):
            np.testing.assert_allclose(one, other, rtol=rounding, err_msg=str(dtype))


# --- what does not fit ----------------------------------------------------------------------------
CENTS = 3_000_000_000 + 10_000_000 * np.arange(-5, 5)


def test_integers_beyond_32_bits_are_numbers():
    """JAX alone reads 3e9 as -1.3e9."""
    alg = vi.cavi(wide())
    for dtype in (np.int64, np.uint64, np.uint32):
        fit = vi.fit(alg, CENTS.astype(dtype), num_steps=1, key=KEY)
        np.testing.assert_allclose(fit.posterior["m"].mean(), CENTS.mean(), rtol=1e-6)
    fit = vi.auto(density_of_cents(), CENTS, key=KEY)
    np.testing.assert_allclose(fit.sample(KEY, 100)["m"].mean(), CENTS.mean() / 1e9, rtol=1e-6)


def wide():
    prior = vi.Normal.from_mean_variance(0.0, 1e30)
    fits = lambda s, y: y * s["m"].value - 0.5 * s["m"].square
    return vi.energy_model(globals={"m": prior}, energy=fits, example=CENTS[0])


def pairs():
    prior = vi.Normal.from_mean_variance(np.zeros(2), 1.0)
    fits = lambda s, y: jnp.sum(y * s["m"].value - 0.5 * s["m"].square)
    return vi.energy_model(globals={"m": prior}, energy=fits, example=np.zeros(2))


def density_of_cents():
    fits = lambda v, y: -0.5e8 * (y / 1e9 - v["m"]) ** 2
    return vi.density({"m": vi.free()}, log_prior=lambda v: -1e-6 * v["m"] ** 2, log_lik=fits)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_numbers_whose_differences_float32_loses_are_refused(dtype):
    data = np.stack([np.arange(9), 3_000_000_000 + np.arange(9)], 1).astype(dtype)
    message = (
        r"^data: .* near 3e\+09 in column 1, of standard deviation 2.58, that it rounds by up to "
        r"8\. Subtract"
    )
    with pytest.raises(ValueError, match=message):
        vi.fit(vi.cavi(pairs()), data, num_steps=1, key=KEY)
    with pytest.raises(ValueError, match=naming("data:", "float32")):
        vi.fit(vi.cavi(wide()), 1e39 * np.ones(3), num_steps=1, key=KEY)
    with jax.enable_x64(True):
        mean = vi.fit(vi.cavi(pairs()), data, num_steps=1, key=KEY).posterior["m"].mean()
        assert mean.dtype == np.float64
        np.testing.assert_allclose(mean, data.sum(0) / 10, rtol=1e-15)


def test_what_is_no_index_or_mask_is_refused():
    model = by_table()
    data = {"n": np.ones(4), "k": np.array([0, 1, 2, 1])}
    for k, message in (
        (
            np.array([0.0, 0.5, 1.0, 2.0]),
            r"expected whole numbers .* got \[0\.0, 0\.5, 1\.0, 2\.0\]\. The model uses",
        ),
        (np.array([0, 1, 2, 2**40]), r"expected whole numbers from -2147483648 to 2147483647, got"),
    ):
        with pytest.raises(ValueError, match=r"^data\['k'\]: " + message):
            vi.fit(vi.cavi(model), {**data, "k": k}, num_steps=1, key=KEY)
    with pytest.raises(ValueError, match=naming("data:", "1", "0", "2")):
        vi.fit(vi.cavi(energy(True)()), np.array([0, 2, 1]), num_steps=1, key=KEY)


def test_a_loader_whose_integers_jax_would_wrap_is_refused():
    with pytest.raises(ValueError, match=naming("data:", "-2147483648", "2147483647")):
        vi.fit(vi.svi(wide()), OfMyOwn(np.tile(CENTS, 2)), num_steps=1, key=KEY)


def test_a_mask_may_come_as_ones_and_zeros():
    """~mask of integers would be -1 - mask, which is true."""
    left_out = lambda s, d: jnp.where(~d["mask"], 0.0, d["y"] * s["m"].value - 0.5 * s["m"].square)
    model = vi.energy_model(
        globals={"m": NORMAL}, energy=left_out, example={"y": 0.0, "mask": True}
    )
    mask = np.array([1, 0, 1, 1])
    fits = [
        vi.fit(
            vi.cavi(model), {"y": np.arange(4.0), "mask": mask.astype(dtype)}, num_steps=1, key=KEY
        )
        for dtype in (bool, np.uint8, np.int64, np.float32)
    ]
    for fit in fits:
        np.testing.assert_allclose(fit.posterior["m"].mean(), 5.0 / (3 + 1e-4), rtol=1e-6)

"""A fit goes on from any state with any data: what the state remembers of others is begun anew, and
nothing it says is of them."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from tests.naming import naming
from vijax.automatic import by_steps
from vijax.data import Corpus
from vijax.data.loader import ArrayLoader, CorpusLoader, as_loader
from vijax.fitting import checkpoint
from vijax.fitting import fingerprint as fingerprints
from vijax.fitting.fingerprint import fingerprint

KEY, OTHER = jax.random.key(0), jax.random.key(1)


def clusters(seed, n=60):
    rng = np.random.default_rng(seed)
    middles = np.array([[-8.0, 0.0], [0.0, 8.0], [8.0, 0.0]])[rng.integers(3, size=n)]
    return (middles + 2.0 * rng.normal(size=(n, 2))).astype(np.float32)


Y = clusters(0)
MIXTURE = vi.models.mixture(vi.models.emission.diagonal_gaussian(3, 2), concentration=1.0)
SIX = vi.memoized(MIXTURE, 6)


@jax.jit
def bound_of(q, y, weights):
    """That of `cavi` at q: every local found afresh."""
    said = MIXTURE.local_elbo(
        {}, q.expected_stats(), vi.Minibatch(y, None, weights), KEY, MIXTURE.estep
    )
    return said.total - q.kl(MIXTURE.prior({}))


def check_bound(fit, y, rtol=1e-5):
    weights = np.float32(np.arange(60) < len(y))
    np.testing.assert_allclose(
        fit.trace["elbo"][-1], bound_of(fit.posterior, np.resize(y, (60, 2)), weights), rtol=rtol
    )


@pytest.fixture(scope="module")
def begun():
    """Two passes, far from the end."""
    return vi.fit(SIX, Y, num_epochs=2, key=KEY)


@dataclasses.dataclass(frozen=True)
class Own:
    """A loader of somebody's own: consecutive rows are a part."""

    data: np.ndarray
    num_groups: int = 60
    num_words: None = None
    steps_per_epoch: int = 6
    is_fixed: bool = True

    def batches(self, start, stop):
        for step in range(start, stop):
            rows = slice(10 * (step % 6), 10 * (step % 6) + 10)
            yield vi.Minibatch(
                self.data[rows], np.float32(60), np.ones(10, np.float32), part=np.int32(step % 6)
            )


def again(state, tmp_path):
    """Out of a file."""
    return checkpoint.load(checkpoint.save(tmp_path, 12, state), state).tree


GONE_ON = {  # the state, the algorithm, the data, the key, and what is said of it
    "the same": (lambda s, _: s, SIX, Y, KEY, None),
    "another key": (lambda s, _: s, SIX, Y, OTHER, None),
    "out of a file": (again, SIX, Y, OTHER, None),
    "doubles": (lambda s, _: s, SIX, Y.astype(float), OTHER, None),
    "other data": (lambda s, _: s, SIX, clusters(7), KEY, "6 parts of the data, of other data, or "
                                                          "by another E-step"),
    "other data out of a file": (again, SIX, clusters(7), OTHER, "6 parts of the data, of other "
                                                                 "data"),
    "rows in another order": (lambda s, _: s, SIX, Y[::-1], KEY, "of other data"),
    "one number": (lambda s, _: s, SIX, np.r_[Y[:-1], Y[-1:] + 0.5], KEY, "of other data"),
    "fewer rows": (lambda s, _: s, SIX, Y[:58], KEY, "of other data"),
    "other hyperparameters": (
        lambda s, _: s._replace(hyper={**s.hyper, "note": jnp.ones(())}), SIX, Y, KEY, "or "
                                                                                       "hyperparameters",
    ),
    "another number of parts": (
        lambda s, _: s, vi.memoized(MIXTURE, 5), Y, KEY, "6 parts of the data, which are now cut "
                                                         "into 5",
    ),
    "a loader of one's own": (lambda s, _: s, SIX, Own(Y), KEY, "6 parts of the data, of other "
                                                                "data"),
    "a loop of one's own": (
        lambda s, _: s._replace(data=jnp.zeros_like(s.data)), SIX, Y, KEY, "which does not name "
                                                                           "its data",
    ),
    "no messages": (lambda s, _: s._replace(messages=None), SIX, Y, KEY, None),
}  # fmt: skip


@pytest.mark.parametrize("name", GONE_ON)
def test_the_bound_is_that_of_coordinate_ascent_however_a_fit_went_on(name, begun, tmp_path):
    """It may lie below while q moves, for locals lag behind, and never above; in the end it is the
    same."""
    make, alg, data, key, told = GONE_ON[name]
    state = make(begun.state, tmp_path)
    before = jax.tree.map(np.asarray, state.posterior)
    run = lambda: vi.fit(alg, data, num_epochs=32, key=key, state=state)
    if told is None:
        fit = run()
    else:
        with pytest.warns(vi.ForgottenWarning, match=re.escape(told)) as warned:
            fit = run()
        assert warned[0].filename == __file__
    check_bound(fit, data.data if isinstance(data, Own) else data)
    for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(state.posterior), strict=True):
        np.testing.assert_array_equal(a, b)  # the caller's is his


def test_a_file_of_an_earlier_version_is_refused_in_a_sentence(begun, tmp_path):
    path = checkpoint.save(tmp_path, 12, begun.state._replace(data=None))
    expected = (
        r"of another version of vijax: \.data should be uint32 .* and is absent\. Fit again, or "
        r"go on with the version"
    )
    with pytest.raises(checkpoint.CheckpointError, match=expected):
        checkpoint.load(path, begun.state)


def test_a_fit_that_goes_on_keeps_its_posterior(begun):
    """One visit after the messages of other data were forgotten: a sixth of them are new, q the
    other five sixths."""
    with pytest.warns(vi.ForgottenWarning):
        fit = vi.fit(SIX, clusters(7), num_steps=13, key=KEY, state=begun.state)
    assert sorted(np.asarray(fit.state.messages.groups)) == [0, 0, 0, 0, 0, 10]
    old, new = (fit_.posterior["weights"].concentration.sum() for fit_ in (begun, fit))
    np.testing.assert_allclose(new, old, rtol=1e-5)
    gap = np.abs(fit.posterior["weights"].concentration - begun.posterior["weights"].concentration)
    assert 0 < gap.max() < 10.1


def test_what_auto_hands_out_goes_on_by_its_own_words(monkeypatch):
    monkeypatch.setattr(by_steps, "SMALL", 50)
    monkeypatch.setattr(by_steps, "PART", 10)
    fit = vi.auto(MIXTURE, Y, key=KEY)
    assert fit.alg is not SIX
    assert fit.alg.spec == SIX.spec
    check_bound(vi.fit(fit.alg, Y, key=OTHER, state=fit.state, num_epochs=40), Y)


@pytest.mark.filterwarnings("ignore:restarts. all:vijax.fitting.restarts.EqualStartsWarning")
@pytest.mark.parametrize("seemed_best", [0, 1])
def test_runs_side_by_side_go_on_with_other_data(seemed_best):
    """The best is chosen by what they reach there."""
    kept, data = [], clusters(7)
    keep = lambda seen: kept.append(jax.tree.map(np.array, seen.whole))
    vi.fit(SIX, Y, num_epochs=2, key=KEY, restarts=2, callbacks=[keep])
    before = np.where(np.arange(2)[:, None] == seemed_best, np.float32(1e6), kept[-1].recent)
    apart = lambda x: (
        x * np.array([1, 2], x.dtype).reshape(2, *[1] * (x.ndim - 1))
    )  # they had come to one end
    states = kept[-1].states._replace(posterior=jax.tree.map(apart, kept[-1].states.posterior))
    state = kept[-1]._replace(recent=before, states=states)
    with pytest.warns(vi.ForgottenWarning, match="6 parts of the data, of other data"):
        fit = vi.fit(SIX, data, num_steps=14, key=OTHER, restarts=2, state=state)
    ends = fit.trace["restart_elbo"].mean(0)  # of two steps
    assert abs(ends[0] - ends[1]) > 1e-3
    np.testing.assert_allclose(fit.trace["elbo"].mean(), ends.max(), rtol=1e-6)
    check_bound(vi.fit(SIX, data, num_epochs=40, key=OTHER, state=fit.state), data)


def hierarchy(num_effects=1):
    """Effects whose precision is not known: a term of the globals alone, in two blocks; of one
    effect it is known."""
    globals_ = {
        "effect": vi.conditional(
            vi.Normal.from_mean_variance(np.zeros(num_effects, np.float32), 1.0)
        )
    }
    if num_effects > 1:
        globals_["precision"] = vi.Gamma.from_shape_rate(2.0, 3.0)

    def prior_energy(s):
        log, value = (
            (s["precision"].log, s["precision"].value) if num_effects > 1 else (jnp.log(0.7), 0.7)
        )
        return 0.5 * jnp.sum(log - value * s["effect"].square - jnp.log(2 * jnp.pi))

    def energy(s, y):
        return -0.5 * jnp.sum(
            s["effect"].square - 2 * y * s["effect"].value + y**2 + jnp.log(2 * jnp.pi)
        )

    example = np.zeros(num_effects, np.float32)
    return vi.energy_model(
        globals=globals_, energy=energy, prior_energy=prior_energy, example=example
    )


@pytest.mark.parametrize("num_effects", [1, 3])
def test_what_couples_the_globals_counts_once_however_many_parts_there_are(num_effects):
    """Of a hierarchy the bound and the end of coordinate ascent; of one effect the evidence, by
    hand."""
    rng = np.random.default_rng(0)
    data = [np.float32(rng.normal(m, 1.0, (12, num_effects))) for m in (2.0, -1.0)]
    model = hierarchy(num_effects)
    fit = vi.fit(vi.memoized(model, 4), data[0], num_epochs=3, key=KEY)
    with pytest.warns(vi.ForgottenWarning):
        fit = vi.fit(vi.memoized(model, 4), data[1], num_epochs=23, key=OTHER, state=fit.state)
    whole = vi.fit(vi.cavi(model), data[1], num_steps=50, key=KEY)
    np.testing.assert_allclose(fit.trace["elbo"][-1], whole.trace["elbo"][-1], rtol=1e-6)
    for a, b in zip(jax.tree.leaves(fit.posterior), jax.tree.leaves(whole.posterior), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    if num_effects == 1:
        y = data[1][:, 0].astype(float)
        evidence = stats.multivariate_normal(np.zeros(12), np.eye(12) + 1 / 0.7).logpdf(y)
        np.testing.assert_allclose(fit.trace["elbo"][-1], evidence, rtol=1e-6)


ROWS = np.random.default_rng(1).normal(size=(12, 2)).astype(np.float32)
COUNTS = np.random.default_rng(2).poisson(2.0, (12, 5)) + np.eye(12, 5, dtype=int)
SEQUENCES = vi.models.pad([ROWS[3 * i : 3 * i + 3 + i] for i in range(4)])
GROUPS = vi.models.group_rows(
    np.tile(ROWS, (2, 1)), np.tile(ROWS[:, 0] - ROWS[:, 1], 2), np.arange(24) % 4
)
SIGNED = vi.models.group_rows(
    np.tile(ROWS, (2, 1)), np.sign(np.tile(ROWS[:, 0], 2)), np.arange(24) % 4
)
SURE = vi.estep.mean_field(200, 1e-8)
# of each model that has an exact E-step, or one that finds its one optimum: the model, data,
# tolerance
READY = {
    "mixture": (lambda: vi.models.mixture(vi.models.emission.full_gaussian(2, 2)), ROWS, 1e-5),
    "dp_mixture": (
        lambda: vi.models.dp_mixture(vi.models.emission.unit_gaussian(3, dim=2)),
        ROWS,
        1e-5,
    ),
    "hmm": (lambda: vi.models.hmm(vi.models.emission.diagonal_gaussian(2, 2)), SEQUENCES, 1e-5),
    "arhmm": (lambda: vi.models.arhmm(2, 2), SEQUENCES, 1e-4),
    "linear_gaussian_state_space": (
        lambda: vi.models.linear_gaussian_state_space(2, 1),
        SEQUENCES,
        1e-4,
    ),
    "lda": (lambda: vi.models.lda(2, 5, alpha=1.0, estep=SURE), COUNTS, 1e-4),
    "hdp": (lambda: vi.models.hdp(2, 5, estep=SURE), COUNTS, 1e-4),
    "hdp_hmm": (lambda: vi.models.hdp_hmm(vi.models.emission.full_gaussian(2, 2)), SEQUENCES, 1e-4),
    "simple_mixture": (lambda: vi.models.simple_mixture(2, 5), COUNTS, 1e-5),
    "gap_nmf": (lambda: vi.models.gap_nmf(5, 2, estep=SURE), COUNTS, 1e-4),
    "factor_analysis": (lambda: vi.models.factor_analysis(2, 1), ROWS, 1e-4),
    "ard_regression": (lambda: vi.models.ard_regression(2), (ROWS, ROWS[:, 0]), 1e-4),
    "hierarchical_linear_regression": (
        lambda: vi.models.hierarchical_linear_regression(2),
        GROUPS,
        1e-4,
    ),
    "hierarchical_probit_regression": (
        lambda: vi.models.hierarchical_probit_regression(2),
        SIGNED,
        1e-4,
    ),
    "multilevel_logistic_regression": (
        lambda: vi.models.multilevel_logistic_regression(2),
        SIGNED,
        1e-4,
    ),
}
SLOW = {
    "lda",
    "hdp",
    "gap_nmf",
    "factor_analysis",
    "hierarchical_probit_regression",
    "multilevel_logistic_regression",
}
OTHERS = {
    "ctm": "its E-step samples: the bound is an estimate",
    "recurrent_slds": "coupled chains have several optima, as below",
    "slds": "coupled chains have several optima, as below",
    "factorial_hmm": "coupled chains have several optima, of which those remembered may be better",
    "gp": "refused", "glm": "refused", "logistic_regression": "refused", "vae": "points", "svae": "points",
    "dynamic_svae": "points",
    "dtm": "made for its documents",
    "hpf": "refused", "plsa": "made for given rows", "stochastic_block_model": "one graph",
}  # fmt: skip


def test_every_ready_model_has_a_row_or_a_reason():
    no_models = {
        "Glmm",
        "Dtm",
        "Slices",
        "SliceWarning",
        "Stm",
        "Predictors",
        "emission",
        "group_names",
        "group_rows",
        "observed",
        "pad",
        "plsa_entries",
        "population",
        "rates_matrix",
    }
    assert READY.keys() | OTHERS.keys() == set(vi.models.__all__) - no_models - {
        "response",
        "after_slds",
        "with_covariates",
        "as_potentials",
        "recommend",
        "new_items",
    }


@pytest.mark.parametrize("name", READY)
def test_of_every_model_the_bound_is_that_of_coordinate_ascent(name):
    """After other data of as many groups, and after another number of parts and another key."""
    make, data, rtol = READY[name]
    passes = 300 if name in SLOW else 80
    model, total = make(), len(jax.tree.leaves(data)[0])
    other = jax.tree.map(lambda x: np.asarray(x)[np.arange(total) * 3 % total // 2], data)
    alg, cavi = vi.memoized(model, 2), vi.cavi(model)
    step = jax.jit(cavi.step)

    def check(fit, data):
        whole = next(iter(as_loader(data, model, None, 0).batches(0, 1)))
        state = jax.jit(cavi.init)(KEY, whole)._replace(posterior=fit.posterior)
        np.testing.assert_allclose(
            fit.trace["elbo"][-1], step(KEY, state, whole)[1].elbo, rtol=rtol
        )

    fit = vi.fit(alg, data, num_epochs=2, key=KEY)
    with pytest.warns(vi.ForgottenWarning, match="other data"):
        fit = vi.fit(alg, other, num_epochs=passes, key=KEY, state=fit.state)
    check(fit, other)
    with pytest.warns(vi.ForgottenWarning, match="now cut into 4"):
        fit = vi.fit(vi.memoized(model, 4), data, num_steps=6 * passes, key=OTHER, state=fit.state)
    check(fit, data)


# --- what else states remember of data ------------------------------------------------------------
def test_a_run_that_has_converged_has_not_on_other_data():
    """It took no step there, and was called converged."""
    coin = vi.model(
        {"bias": vi.Beta.from_alpha_beta(1.0, 1.0)},
        lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )
    run = lambda y, **more: vi.fit(
        vi.cavi(coin), np.float32(y), num_steps=1000, key=KEY, tol=1e-6, **more
    )
    first = run([1, 1, 0, 1])
    assert first.status is vi.Status.CONVERGED
    again = run([1, 1, 0, 1], state=first.state)
    assert again.trace == {}
    other = run([0, 0, 0, 1], state=first.state)
    assert other.status is vi.Status.CONVERGED
    assert int(other.state.step) >= int(first.state.step) + 100
    np.testing.assert_allclose(other.posterior["bias"].mean(), 2 / 6, rtol=1e-6)


def test_nor_have_averages_of_a_noisy_objective():
    model = vi.model(
        {"m": vi.Normal.from_mean_variance(0.0, 9.0)},
        lambda s, y, key: (y * s["m"].value - 0.5 * s["m"].square, None),
    )
    run = lambda y, **more: vi.fit(
        vi.svi(model), np.float32(y), num_steps=4000, batch_size=4, key=KEY, tol=1e-2, **more
    )
    y = np.random.default_rng(0).normal(5.0, 0.1, 40)
    first = run(y)
    assert first.status is vi.Status.CONVERGED
    assert run(y, state=first.state).trace == {}
    assert len(run(-y, state=first.state).trace["elbo"]) >= 160


@functools.cache
def coupled():
    """Two coupled locals, whose E-step takes one round a step and goes on where it was."""

    def energy(s, y):
        z1, z2 = s["z1"].value, s["z2"].value
        return s["rate"].log - s["rate"].value * y * (1 + 3 * z1 * z2) + 2 * z1 * z2 + z1 - 0.3 * z2

    half = vi.Bernoulli.from_probs(0.5)
    prior = {"rate": vi.Gamma.from_shape_rate(2.0, 1.0)}
    return vi.energy_model(
        globals=prior,
        locals={"z1": half, "z2": half},
        energy=energy,
        example=1.0,
        estep=vi.estep.mean_field(1),
    )


GAMMAS = np.random.default_rng(0).gamma(1.0, 1.0, 40).astype(np.float32)


@pytest.mark.parametrize("rows", [40, 31])
def test_locals_of_other_data_are_begun_anew(rows):
    """As they begin at that posterior; of fewer rows too."""
    alg, other = vi.cavi(coupled()), (5 * GAMMAS[::-1])[:rows]
    first = vi.fit(alg, GAMMAS, num_steps=7, key=KEY)
    with pytest.warns(
        vi.ForgottenWarning, match="locals of all groups, of other data, or by another E-step"
    ):
        fit = vi.fit(alg, other, num_steps=12, key=KEY, state=first.state)
    fresh = vi.fit(alg, other, num_steps=1, key=KEY).alg.init(KEY, vi.Minibatch(other, None))
    fresh = vi.fit(
        alg, other, num_steps=5, key=KEY, state=fresh._replace(posterior=first.posterior)
    )
    np.testing.assert_allclose(fit.trace["elbo"], fresh.trace["elbo"], rtol=1e-6)


def test_groups_of_other_data_were_not_seen():
    alg = vi.warm(vi.svi(coupled()))
    first = vi.fit(alg, GAMMAS, num_epochs=1, batch_size=10, key=KEY)
    assert np.all(first.state.beside["warm"].seen)
    with pytest.warns(
        vi.ForgottenWarning, match="locals of the groups that were seen, of other data"
    ):
        fit = vi.fit(alg, GAMMAS[:30], num_steps=5, batch_size=10, key=KEY, state=first.state)
    assert np.sum(fit.state.beside["warm"].seen) == 10
    assert fit.state.beside["warm"].seen.shape == (30,)


@functools.cache
def inputs(scale=1.0, num=12):
    x = scale * X[:num]
    return vi.models.gp(x, np.sin(2 * X[:num]), "rbf", vi.likelihood.gaussian(0.3), jitter=1e-4)


X = np.linspace(-3.0, 3.0, 12)


def test_sites_go_on_with_the_kernel_of_their_model():
    """That of other inputs stayed, for good."""
    first = vi.fit(vi.pg_svi(inputs()), inputs().data, num_steps=5, key=KEY)
    there = inputs(-0.4)
    with pytest.warns(
        vi.ForgottenWarning, match="kernels or features of other inputs or hyperparameters"
    ):
        fit = vi.fit(vi.pg_svi(there), there.data, num_steps=25, key=KEY, state=first.state)
    fresh = vi.fit(vi.pg_svi(there), there.data, num_steps=25, key=KEY)
    np.testing.assert_allclose(fit.trace["elbo"][-1], fresh.trace["elbo"][-1], rtol=1e-4)
    longer = first.state._replace(
        hyper={**first.state.hyper, "length": 3.0 * first.state.hyper["length"]}
    )
    with pytest.warns(vi.ForgottenWarning, match="kernels or features"):
        fit = vi.fit(vi.pg_svi(inputs()), inputs().data, num_steps=25, key=KEY, state=longer)
    fresh = vi.fit(
        vi.pg_svi(inputs()),
        inputs().data,
        num_steps=25,
        key=KEY,
        hyper={"length": longer.hyper["length"]},
    )
    np.testing.assert_allclose(fit.trace["elbo"][-1], fresh.trace["elbo"][-1], rtol=1e-4)
    fewer = inputs(num=9)
    with pytest.raises(
        ValueError,
        match=naming("state:", "'z'", "9", "12"),
    ):
        vi.fit(vi.pg_svi(fewer), fewer.data, num_steps=25, key=KEY, state=first.state)


# --- fingerprints ---------------------------------------------------------------------------------
def mark(data, spec=SIX.spec, seed=0, size=None, hyper=()):
    return fingerprint(
        as_loader(data, spec.model, size, seed, spec.messages.num_parts), spec, hyper
    ).tolist()


def test_a_fingerprint_is_of_the_data_and_how_they_are_cut():
    svi = vi.svi(MIXTURE).spec
    assert mark(Y) == mark(jnp.asarray(Y), seed=5) == mark(Y.astype(float))
    assert mark(Y, svi, size=7) == mark(Y, svi, seed=5, size=20)
    changed = Y.copy()
    changed[17, 1] = np.nextafter(changed[17, 1], 9)
    others = [
        mark(Y, vi.memoized(MIXTURE, 5).spec),
        mark(Y[::-1]),
        mark(changed),
        mark(Y[:-1]),
        mark(Y, hyper=1.0),
    ]
    assert len({tuple(x) for x in [mark(Y), *others]}) == 6
    with jax.enable_x64(True):
        assert mark(Y.astype(float)) != mark(Y)


def test_of_large_data_under_minibatches_a_sample_is_read(monkeypatch):
    """Evenly spread blocks, to both ends; all of it where every step reads all, or a part is
    remembered."""
    monkeypatch.setattr(fingerprints, "BLOCK", 16)
    monkeypatch.setattr(fingerprints, "SAMPLE", 64)
    data = np.zeros(1000, np.float32)  # 250 blocks of 4, of which 4 are read
    changed = lambda at: np.where(np.arange(1000) == at, np.float32(1), data)
    spec = vi.svi(MIXTURE).spec
    of = lambda x, size, spec=spec, fixed=False: fingerprint(
        ArrayLoader(x, size, 0, is_fixed=fixed), spec, {}
    ).tolist()
    seen = [at for at in range(1000) if of(changed(at), 100) != of(data, 100)]
    np.testing.assert_array_equal(
        seen, [0, 1, 2, 3, *range(332, 336), *range(664, 668), *range(996, 1000)]
    )
    for at in (500, 999):
        assert of(changed(at), 1000) != of(data, 1000)
        assert of(changed(at), 10, SIX.spec, True) != of(data, 10, SIX.spec, True)


def test_parts_do_not_depend_on_the_key_and_are_a_mix_of_the_data():
    corpus = Corpus.from_counts(np.random.default_rng(2).poisson(0.7, (23, 12)))
    rows_of = lambda loader: {
        int(b.part): jax.tree.leaves(b.rows) for b in loader.batches(0, loader.steps_per_epoch)
    }
    for make in (
        lambda seed: ArrayLoader(Y, 10, seed, is_fixed=True),
        lambda seed: CorpusLoader(corpus, 23 / 5, seed, True),
    ):
        first, second = rows_of(make(0)), rows_of(make(9))
        assert list(first) != list(second)  # visited in another order
        for part, rows in first.items():
            for a, b in zip(rows, second[part], strict=True):
                np.testing.assert_array_equal(a, b)
    thirds = np.array(
        [
            np.histogram(rows[0], [0, 20, 40, 60])[0]
            for rows in rows_of(ArrayLoader(Y, 10, 0, is_fixed=True)).values()
        ]
    )
    assert thirds.max() <= 6  # of 10: sorted data would come in blocks otherwise


@pytest.mark.parametrize(("num", "parts"), [(7, 3), (23, 5), (11, 11)])
def test_documents_are_cut_into_the_number_asked_for(num, parts):
    """Of 7 documents by 3, twice 3 would be 2.33 batches, which is 2."""
    corpus = Corpus.from_counts(
        np.random.default_rng(0).poisson(1.0, (num, 6)) + np.eye(num, 6, dtype=int)
    )
    loader = as_loader(corpus, vi.models.lda(2, 6), None, 0, num_parts=parts)
    assert loader.steps_per_epoch == parts
    rows = np.concatenate([np.concatenate(b.rows) for b in loader.batches(0, parts)])
    assert sorted(rows[rows < num]) == list(range(num))

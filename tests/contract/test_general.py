"""Hyperparameters and priors are arguments of programs: a fit with others compiles nothing, and is
that of its own."""

import jax
import numpy as np
import pytest

import vijax as vi
from tests import programs
from vijax.contract.general import general
from vijax.data import synthetic

RNG = np.random.default_rng(0)
Y = RNG.normal(size=(24, 2)).astype(np.float32)
SIGNS = np.sign(Y[:, 0])
COUNTS = RNG.poisson(3, size=(24, 3)).astype(float)
CORPUS = synthetic.lda_corpus(num_documents=20, num_topics=2, vocab_size=12, seed=0)[0]
SEQUENCES = vi.models.pad([Y[:12], Y[12:]])
GRAPH = np.triu(RNG.uniform(size=(1, 6, 6)) < 0.4, 1).astype(float)
GROUPS = [vi.models.group_rows(Y, y, np.repeat(np.arange(4), 6)) for y in (Y[:, 1], SIGNS)]
SITES = {"site": np.arange(24, dtype=np.int32), "y": SIGNS}
m, e = vi.models, vi.models.emission
# a row, a number -> a model whose every hyperparameter is made of it, data, arguments of the fit
MODELS = {
    "lda": (vi.cavi, lambda h: m.lda(2, 12, alpha=h, eta=h), CORPUS, {}),
    "lda by words": (vi.svi, lambda h: m.lda(2, 12, alpha=h, eta=h), CORPUS, {"batch_size": 5}),
    "restarts": (vi.cavi, lambda h: m.lda(2, 12, alpha=h, eta=h), CORPUS, {"restarts": 2}),
    "ctm": (vi.cavi, lambda h: m.ctm(2, 12, eta=h), CORPUS, {}),
    "simple mixture": (vi.cavi, lambda h: m.simple_mixture(2, 12, alpha=h, eta=h), CORPUS, {}),
    "plsa": (
        vi.map,
        lambda h: m.plsa(2, 24, 3, alpha=1 + h, eta=1 + h),
        m.plsa_entries(COUNTS),
        {},
    ),
    "gap": (vi.cavi, lambda h: m.gap_nmf(3, 2, a=h, b=h, alpha=h, c=h), COUNTS, {}),
    "mixture": (
        vi.cavi,
        lambda h: m.mixture(e.diagonal_gaussian(2, 2, 0, h, h, h), concentration=h),
        Y,
        {},
    ),
    "restarts of a mixture": (
        vi.cavi,
        lambda h: m.mixture(e.poisson(2, 3, h, h)),
        COUNTS,
        {"restarts": 2},
    ),
    "full": (
        vi.cavi,
        lambda h: m.mixture(e.full_gaussian(2, 2, 0, h, 3 + h), concentration=h),
        Y,
        {},
    ),
    "dp": (vi.cavi, lambda h: m.dp_mixture(e.unit_gaussian(3, 2, 0, h), concentration=h), Y, {}),
    "tied dp": (
        vi.cavi,
        lambda h: m.dp_mixture(e.unit_gaussian(3, 2), h, truncation="tied"),
        Y,
        {},
    ),
    "hmm": (
        vi.cavi,
        lambda h: m.hmm(e.unit_gaussian(2, 2, 0, h), h, h, stickiness=h),
        SEQUENCES,
        {},
    ),
    "factorial": (vi.cavi, lambda h: m.factorial_hmm(2, 2, 2, stickiness=h, rate=h), SEQUENCES, {}),
    "state space": (vi.cavi, lambda h: m.linear_gaussian_state_space(2, 1, h, h, h), SEQUENCES, {}),
    "factors": (vi.cavi, lambda h: m.factor_analysis(2, 1, shape=h, rate=h), Y, {}),
    "blocks": (
        vi.cavi,
        lambda h: m.stochastic_block_model(2, a=h, b=h, concentration=h),
        GRAPH + GRAPH.mT,
        {},
    ),
    "ard": (vi.cavi, lambda h: m.ard_regression(2, h, h, h, h), (Y, SIGNS), {}),
    "linear groups": (
        vi.cavi,
        lambda h: m.hierarchical_linear_regression(2, shape=h, rate=h, strength=h),
        GROUPS[0],
        {},
    ),
    "probit groups": (
        vi.cavi,
        lambda h: m.hierarchical_probit_regression(2, strength=h),
        GROUPS[1],
        {},
    ),
    "logistic groups": (
        vi.cavi,
        lambda h: m.multilevel_logistic_regression(2, strength=h),
        GROUPS[1],
        {},
    ),
    "logistic": (vi.pg_svi, lambda h: m.logistic_regression(Y, SIGNS, prior_scale=h), SITES, {}),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_with_other_hyperparameters_compiles_nothing(name):
    row, make, data, more = MODELS[name]
    fit = lambda h: vi.fit(row(make(h)), data, key=jax.random.key(0), num_steps=3, **more)
    first, before = fit(0.5), programs.compiled()
    again = fit(0.8)
    assert programs.names_since(before) == []
    assert again.alg.spec.model is make(0.8)
    assert set(again.state.hyper) == set(make(0.8).hyper)
    assert again.trace["elbo"][-1] != first.trace["elbo"][-1]


@pytest.mark.parametrize("name", ["mixture", "hmm", "ard", "gap"])
def test_it_is_the_fit_of_its_own_hyperparameters(name):
    """As by steps outside of `vijax.fit`, which share nothing."""
    row, make, data, _ = MODELS[name]
    vi.fit(row(make(0.5)), data, key=jax.random.key(0), num_steps=2)
    fit = vi.fit(row(make(0.8)), data, key=jax.random.key(0), num_steps=2)
    state = vi.fit(row(make(0.8)), data, key=jax.random.key(0), num_steps=1).state
    batch = vi.Minibatch(data, len(jax.tree.leaves(data)[0]))
    _, info = jax.jit(row(make(0.8)).step)(jax.random.key(1), state, batch)
    np.testing.assert_allclose(info.elbo, fit.trace["elbo"][1], rtol=1e-5)


def test_programs_read_no_hyperparameter_of_their_model():
    model = general(m.mixture(e.unit_gaussian(2, 2)))
    assert (
        model
        is general(m.mixture(e.unit_gaussian(2, 2, variance=3.0)))
        is not general(m.mixture(e.poisson(2, 2)))
    )
    with pytest.raises(KeyError):
        model.prior({})
    assert isinstance(general(m.lda(2, 12)).hyper["alpha"], jax.ShapeDtypeStruct)


def test_functions_of_a_user_are_equal_to_themselves_alone():
    """One that is defined again may read other things, as in a cell of a notebook that is run
    again."""
    code = "def bound(s, y, key): return scale * (y * s['p'].log + (1 - y) * s['p'].log1m), None"
    found = []
    for scale in (1.0, 2.0):
        exec(code, names := {"scale": scale})
        model = vi.model(
            {"p": vi.Beta.from_alpha_beta(1.0, 1.0)}, names["bound"], hyper={"unused": 1.0}
        )
        fit = vi.fit(vi.cavi(model), np.ones(3), key=jax.random.key(0), num_steps=1)
        found.append(float(fit.posterior["p"].alpha))
    assert found == [4.0, 7.0]

"""What `vijax.fit`, `compose` and the results refuse: each error names the argument and the
remedy."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.contract.batch import DataForm
from vijax.contract.model import LocalsPlan
from vijax.data.loader import as_loader

KEY = jax.random.key(0)
Y = np.array([1.0, 1.0, 0.0, 1.0], np.float32)
COIN = vi.model(
    prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
    local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
)
X, Y_GLM = np.arange(3.0)[:, None], np.array([0.0, 3.0, 1.0])
GLM = vi.models.glm(X, Y_GLM, vi.likelihood.gaussian(1.0))
SIZE = vi.step_size.constant()


def mixture():
    return vi.models.mixture(vi.models.emission.unit_gaussian(2, 1))


def fit(alg=None, data=Y, **more):
    return vi.fit(
        vi.svi(COIN) if alg is None else alg, data, **({"key": KEY, "num_steps": 2} | more)
    )


CASES = [
    # numbers and keys
    (lambda: fit(num_steps=2.5), ValueError, "^num_steps: expected an integer >= 1, got 2.5"),
    (
        lambda: fit(num_steps=2**31),
        ValueError,
        "expected 1 to 2147483647 steps, got 2147483648",
    ),
    (lambda: fit(num_steps="3"), ValueError, "^num_steps: expected an integer >= 1, got '3'"),
    (lambda: fit(num_steps=None, num_epochs=1e308), ValueError, "expected 1 to 2147483647 steps"),
    (
        lambda: fit(num_steps=None, num_epochs=np.inf),
        ValueError,
        r"^num_epochs: expected a positive number",
    ),
    (
        lambda: fit(key=0),
        ValueError,
        r"^key: expected a random key such as jax\.random\.key\(0\), got 0",
    ),
    # what is no model, no E-step, no likelihood
    (lambda: vi.svi(vi.svi(COIN)), ValueError, r"^model: expected a vijax\.Model, got Algorithm"),
    (
        lambda: vi.ssvi(GLM),
        ValueError,
        r"^estimator: expected mean_field\(\) for 'z', Gaussian predictors, got ssvi.* use "
        r"vijax\.pg_svi",
    ),
    (
        lambda: vi.memoized(GLM, 3),
        ValueError,
        r"^model: expected one whose messages are of whole batches, got sites",
    ),
    (
        lambda: vi.at(GLM, {"z": X[:, 0]}),
        ValueError,
        r"^model: expected a model whose globals have densities",
    ),
    (
        lambda: vi.map(GLM),
        ValueError,
        r"^estimand: expected a distribution of 'z', Gaussian predictors, got mode\(\).* use "
        r"vijax\.pg_svi",
    ),
    (
        lambda: vi.pg_svi(vi.svi(COIN)),
        ValueError,
        r"^model: expected a vijax\.Model, got Algorithm",
    ),
    (
        lambda: vi.cavi(COIN, estep="cvb0"),
        ValueError,
        r"^estep: expected an E-step such as .*, got 'cvb0'",
    ),
    (
        lambda: vi.cavi(COIN, estep=vi.estep.gibbs),
        ValueError,
        r"^estep: .*Call it: it makes the E-step",
    ),
    (
        lambda: vi.cavi(mixture(), estep=vi.estep.cvb0()),
        ValueError,
        r"^estep: expected one for this model's locals, vijax\.estep\.mean_field\(\) or "
        r"vijax\.estep\.gibbs\(\)",
    ),
    (
        lambda: vi.models.glm(np.ones((2, 1)), np.ones(2), "poisson"),
        TypeError,
        r"^likelihood: .*poisson_log\(.* got 'poisson'",
    ),
    # names
    (
        lambda: vi.svi(COIN, penalty_evry=3),
        TypeError,
        "penalty_evry: .*Did you mean 'penalty_every'",
    ),
    (
        lambda: vi.cavi(COIN, lr=0.1),
        TypeError,
        "lr: an algorithm takes no such argument.* step_size",
    ),
    (
        lambda: vi.pg_svi(GLM, lr=0.1),
        TypeError,
        "^lr: an algorithm takes no such argument.* step_size",
    ),
    (
        lambda: vi.fit(
            vi.pg_svi(GLM), {"site": np.arange(3) + 1, "y": Y_GLM}, key=KEY, num_steps=1
        ),
        ValueError,
        r"^batch: expected sites from 0 to 2, got \[1, 2, 3\]",
    ),
    (
        lambda: vi.fit(
            vi.pg_svi(GLM), {"site": np.arange(2), "y": Y_GLM[:2]}, key=KEY, num_steps=1
        ),
        ValueError,
        r"^data: expected all 3 groups that the model was made for, as model\.data is, got 2\. "
        r".*batch_size",
    ),
    (
        lambda: vi.fit(vi.pg_svi(GLM), {"x": Y_GLM}, key=KEY, num_steps=1),
        ValueError,
        r"^data: expected none, or model\.data \(the arrays site, y\), got the arrays x\. .* "
        r"leave them out",
    ),
    (
        lambda: vi.pg_svi(GLM, memory=True, estimator=vi.estimator.mean_field()),
        ValueError,
        "^estimator: expected none",
    ),
    # arguments of pg_svi that a model without sites has no use for
    (
        lambda: vi.pg_svi(COIN, memory=True),
        ValueError,
        r"^memory: expected it left out for a model that has no sites",
    ),
    (lambda: vi.pg_svi(COIN, mean="nonsense"), ValueError, "^mean: expected it left out"),
    (lambda: vi.pg_svi(COIN, inner_steps=2), ValueError, "^inner_steps: expected it left out"),
    (
        lambda: vi.averaged(vi.compose(COIN, step_size=SIZE), after=-1),
        ValueError,
        "^after: expected an integer >= 0",
    ),
    (
        lambda: vi.compose(COIN, step_size=SIZE, penalty_evry=3),
        TypeError,
        "penalty_evry: .*Did you mean 'penalty_every'",
    ),
    # names that are no arguments, and what to write
    (
        lambda: vi.compose(COIN, step_size=SIZE, average_after=3),
        TypeError,
        r"^average_after: .* no such argument\. Wrap the algorithm: vijax\.averaged\(alg, after\)",
    ),
    (
        lambda: vi.compose(COIN, step_size=SIZE, num_groups=3),
        TypeError,
        r"^num_groups: .*vijax\.part_of\(alg, N\)\. The rows, as vijax\.svi, take it",
    ),
    (lambda: vi.svi(COIN, full_data=True), TypeError, r"^full_data: .*vijax\.whole\(alg\)"),
    (lambda: vi.map(COIN, warm_starts=True), TypeError, r"^warm_starts: .*vijax\.warm\(alg\)"),
    (
        lambda: vi.ssvi_a(COIN, lazy=False),
        TypeError,
        r"^lazy: .*vijax\.topics\.by_words\(alg\), or vijax\.topics\.all_words\(alg\) for lazy=False",
    ),
    (
        lambda: vi.svi(COIN, active_topics=3),
        TypeError,
        r"^active_topics: .*vijax\.topics\.by_words\(alg, active=\.\.\.\)",
    ),
    (
        lambda: vi.svi(COIN, left_out=0.1),
        TypeError,
        r"^left_out: .*vijax\.topics\.by_words\(alg, active=\.\.\., left_out=\.\.\.\)",
    ),
    (
        lambda: vi.pg_svi(COIN, axis="data"),
        TypeError,
        r"^axis: .*vijax\.over_axis\(alg, name\)",
    ),
    (
        lambda: vi.cavi(COIN, points=["bias"]),
        TypeError,
        r"^points: .*estimand=\{'x': vijax\.estimand\.mode\(\)\}",
    ),
    (
        lambda: vi.em(COIN, num_parts=3),
        TypeError,
        r"^num_parts: .*messages=vijax\.messages\.by_part\(n\), or take vijax\.memoized\(model, n\)",
    ),
    (
        lambda: vi.cavi(COIN, blocks=(("bias",), ("bias",))),
        ValueError,
        r"^blocks: expected tuples of names in which each of \['bias'\] is once",
    ),
    (lambda: vi.svi(COIN, messages=3), ValueError, r"^messages: expected one of vijax\.messages"),
    (lambda: vi.pg_svi(GLM, estep=None), ValueError, "^estep: expected it left out: expectation="),
    (
        lambda: vi.pg_svi(COIN, expectation=vi.expectation.exact()),
        ValueError,
        "^expectation: expected it left out",
    ),
    (
        lambda: vi.pg_svi(COIN, penalty_every=0),
        ValueError,
        "^penalty_every: expected an integer >= 1",
    ),
]


@pytest.mark.parametrize(("wrong", "error", "message"), CASES, ids=[case[2][:30] for case in CASES])
def test_errors_name_the_argument_and_the_remedy(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()


def test_pg_svi_hands_on_what_a_model_reads():
    assert vi.pg_svi(COIN, penalty_every=7).spec.penalty_every == 7


def test_key_and_state_swapped_are_told():
    for alg in (vi.svi(COIN, num_groups=4), vi.pg_svi(GLM)):
        state = alg.init(KEY)
        with pytest.raises(
            ValueError, match=r"^step: expected \(key, state, batch\).*state and key swapped"
        ):
            alg.step(state, KEY, Y)


def test_results_of_gaussian_predictors_say_where_to_look():
    result = vi.fit(vi.pg_svi(GLM), GLM.data, key=KEY, num_steps=2)
    assert result.estimates["z"] is result.posterior["z"]
    np.testing.assert_allclose(
        result.estimates["z"].mean(), GLM.predict(result.posterior, X)[0], rtol=1e-5
    )
    with pytest.raises(ValueError, match=r"^locals: .*fit\.predict\(inputs\)"):
        result.locals(np.ones((2, 1)), key=KEY)
    density = np.log(GLM.predictive(result.posterior, X, Y_GLM))
    np.testing.assert_allclose(result.score((X, Y_GLM), key=KEY).mean, density.mean(), rtol=1e-5)
    with pytest.raises(ValueError, match=r"^data: expected a pair \(inputs, y\)"):
        result.score(X, key=KEY)
    with pytest.raises(ValueError, match=r"^topics: "):
        result.topics(["a"])


# --- minibatches ----------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [vi.em, vi.map, vi.cavi])
def test_steps_of_size_one_need_all_the_data(make):
    for steps in (1, 40):
        with pytest.raises(ValueError, match=naming("batch_size:", "vijax.svi(model)")):
            fit(make(COIN), num_steps=steps, batch_size=1)
    fit(make(COIN), batch_size=4)


def test_online_em_on_minibatches_finds_the_share_of_heads():
    y = (np.arange(100) % 4 != 0).astype(np.float32)
    alg = vi.em(COIN, step_size=vi.step_size.robbins_monro(kappa=0.9))
    result = fit(alg, y, num_steps=400, batch_size=10)
    np.testing.assert_allclose(result.posterior["bias"].mode(), 0.75, atol=0.02)


def test_locals_are_carried_only_between_steps_on_the_same_groups():
    model = dataclasses.replace(
        COIN, locals=LocalsPlan(lambda hyper, batch: jnp.zeros(len(batch.data)), carried=True)
    )
    start = vi.em(model, step_size=vi.step_size.robbins_monro()).init
    part, padded = (
        vi.Minibatch(Y[:2], 4.0),
        vi.Minibatch(np.append(Y, 0), 4.0, np.array([1, 1, 1, 1, 0.0])),
    )
    assert start(KEY, part).local is None
    assert jax.jit(start)(KEY, part).local is None  # N is traced, and may be anything
    for whole in (Y, vi.Minibatch(Y, 4.0), padded):
        assert start(KEY, whole).local is not None


# --- data -----------------------------------------------------------------------------------------
BAD = np.ones((4, 3))
BAD[2, 1] = np.nan


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            BAD,
            r"^data: expected finite numbers, got nan in row 2, column 1, counted from 0 \(1 such",
        ),
        (
            {"x": np.ones(4), "y": np.array([0, 1, -np.inf, np.inf])},
            r"^data\['y'\]: .* got -inf in row 2, .*\(2 such",
        ),
        ((Y, BAD[None].repeat(4, 0)), r"^data\[1\]: .* row 0, column \(2, 1\)"),
        (
            np.array(["a", "b"]),
            "^data: expected an array of numbers, got <U1 values such as .*Code categories",
        ),
        (np.array([None, 1.0]), "^data: expected an array of numbers, got object"),
        (
            [1.0, 0.0, 1.0],
            r"^data: expected arrays, got a list of numbers\. Pass numpy\.asarray\(data\)",
        ),
        (np.zeros((0, 2)), r"^data: expected at least one row, got an array of shape \(0, 2\)"),
        (
            (Y, Y[:2]),
            r"^data: expected arrays of one common length, got data\[0\] of 4, data\[1\] of 2",
        ),
        ({}, "^data: expected an array of numbers, got dict without any"),
    ],
)
def test_data_that_cannot_be_are_named(data, message):
    with pytest.raises(ValueError, match=message):
        as_loader(data, COIN, None, 0)


def test_strings_and_empty_arrays_are_named_before_a_models_own_check():
    def own(data):
        raise AssertionError

    for data in (np.array(["a"]), np.zeros((0, 2)), [1.0]):
        with pytest.raises(ValueError, match=r"^data: expected"):
            as_loader(data, dataclasses.replace(COIN, form=DataForm(own)), None, 0)


def test_a_check_of_the_models_own_may_let_nan_stand_for_missing():
    model = dataclasses.replace(COIN, form=DataForm(lambda data: None))
    assert as_loader(BAD, model, None, 0).num_groups == 4
    assert as_loader({"i": np.arange(3), "b": np.array([True] * 3)}, COIN, None, 0).num_groups == 3

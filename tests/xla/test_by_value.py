"""What is made again with equal settings compiles nothing anew."""

import copy
import dataclasses
import gc
import pickle
import subprocess
import sys
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

import vijax as vi
from tests.programs import compiled
from vijax.contract.general import general
from vijax.data import synthetic
from vijax.xla.by_value import KEPT, kept_with, structure_key

KEY = jax.random.key(0)
Y = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)
CORPUS = synthetic.lda_corpus(num_documents=20, num_topics=2, vocab_size=12, seed=0)[0]


def mixture():
    emission = vi.models.emission.diagonal_gaussian(2, 2, rate=np.ones(2))
    return vi.models.mixture(emission, concentration=1.0, init=vi.init.kmeans_plus_plus())


GLM_DATA = {"site": np.arange(9, dtype=np.int32), "y": np.sign(Y[:9, 0])}
CASES = {
    "mixture": (mixture, lambda model: vi.cavi(model, step_size=vi.step_size.constant(0.9)), Y, {}),
    "lda": (
        lambda: vi.models.lda(2, 12, alpha=0.1, estep=vi.estep.cvb0()),
        lambda model: vi.ssvi(model, damping=0.5, learn=("alpha",)),
        CORPUS,
        {"batch_size": 10},
    ),
    "glm": (
        lambda: glm(),
        lambda model: vi.pg_svi(model, step_size=vi.step_size.constant(0.5)),
        GLM_DATA,
        {},
    ),
}


def glm():
    cheap = vi.expectation.gauss_hermite(5)
    return vi.models.glm(
        Y[:9], np.sign(Y[:9, 0]), vi.likelihood.bernoulli_logit(), expectation=cheap
    )


@pytest.mark.parametrize("name", CASES)
def test_a_rebuilt_model_compiles_nothing(name):
    make, algorithm, data, arguments = CASES[name]
    run = lambda: vi.fit(algorithm(make()), data, num_steps=3, key=KEY, **arguments)
    first, before = run(), compiled()
    assert before > 0
    again = run()
    assert compiled() == before
    assert again.alg.step is first.alg.step
    for a, b in zip(jax.tree.leaves(first.state), jax.tree.leaves(again.state), strict=True):
        np.testing.assert_array_equal(a, b)


def test_sets_of_nearly_one_size_share_a_program():
    """61 rows of 64; the padding changes nothing but the rounding of sums."""
    y = np.random.default_rng(1).normal(size=(62, 2)).astype(np.float32)
    run = lambda size: vi.fit(vi.cavi(mixture()), y[:size], num_steps=4, key=KEY)
    one, before = run(61), compiled()
    two = run(62)
    assert compiled() == before
    assert one.trace["num_groups"].tolist() == [61.0] * 4
    assert two.trace["num_groups"].tolist() == [62.0] * 4
    alg = vi.cavi(mixture())
    start = vi.fit(alg, y[:61], num_steps=1, key=KEY).state
    state, _ = alg.step(KEY, start, vi.Minibatch(y[:61], None))
    padded = vi.fit(alg, y[:61], num_steps=2, key=KEY, state=start).posterior
    for a, b in zip(jax.tree.leaves(padded), jax.tree.leaves(state.posterior), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-4)


MADE = {
    "mixture": lambda: vi.cavi(mixture(), update=vi.update.within(0.5)),
    "lda": lambda: vi.ssvi(vi.models.lda(2, 12, estep=vi.estep.cvb0()), learn=("alpha",)),
    "ctm": lambda: vi.svi(vi.models.ctm(2, 12)),
    "hmm": lambda: vi.memoized(vi.models.hmm(vi.models.emission.poisson(2, 1)), 3),
    "glm": lambda: vi.pg_svi(glm(), expectation=vi.expectation.bonnet_price(8), memory=True),
}


@pytest.mark.parametrize("name", MADE)
def test_models_and_algorithms_pickle(name):
    """In this process to the very same objects; in another one they are made again."""
    alg = MADE[name]()
    again = pickle.loads(pickle.dumps(alg))
    assert again.spec.model is alg.spec.model
    assert again.step is alg.step
    assert again.init is alg.init


def test_another_process_makes_them_again(tmp_path):
    path = tmp_path / "algorithms"
    path.write_bytes(pickle.dumps([make() for make in MADE.values()]))
    code = f"import pickle, pathlib; print(pickle.loads(pathlib.Path({str(path)!r}).read_bytes()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == [*str([make() for make in MADE.values()]).split("\n"), ""]


def test_other_settings_are_other_models():
    assert mixture() is mixture()
    emission = vi.models.emission.diagonal_gaussian
    assert emission(2, 2, rate=np.ones(2)) is not emission(2, 2, rate=np.full(2, 2.0))
    assert vi.models.lda(2, 12) is vi.models.lda(num_topics=2, vocab_size=12)
    assert vi.models.lda(2, 12) is not vi.models.lda(2, 13)
    with jax.enable_x64(True):
        other = mixture()
        assert other is mixture()
    assert other is not mixture()
    with pytest.raises(TypeError, match="unexpected keyword argument 'topics'"):
        vi.models.lda(topics=3)


def coin():
    return vi.model(
        prior={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)},
        local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )


def test_an_algorithm_of_a_model_of_ones_own_is_one_as_long_as_the_model_lives():
    model = coin()
    assert vi.svi(model).step is vi.svi(model).step
    assert (
        vi.svi(model).step
        is not vi.svi(model, step_size=vi.step_size.robbins_monro(kappa=0.6)).step
    )
    tuned = vi.svi(model, update=vi.update.within(0.5))
    assert tuned.step is vi.svi(model, update=vi.update.within(0.5)).step
    adam = optax.adam(0.1)
    assert (
        vi.cavi(model, update=vi.update.descend(adam)).step
        is vi.cavi(model, update=vi.update.descend(adam)).step
    )
    step = weakref.ref(vi.cavi(model).step)
    del model, tuned
    gc.collect()
    assert step() is None


def bias_of_a_coin(s, y, key):
    return y * s["bias"].log + (1 - y) * s["bias"].log1m, None


def test_what_is_kept_with_a_model_is_no_part_of_it():
    model = vi.model({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}, bias_of_a_coin)
    fields = {name: id(value) for name, value in vars(model).items()}
    key = structure_key(model)
    assert general(model) is general(model)
    assert vi.svi(model).step is vi.svi(model).step
    kept = kept_with(model)
    assert general in kept
    assert len(kept) > 1
    assert {name: id(value) for name, value in vars(model).items() if name != KEPT} == fields
    assert structure_key(model) == key
    other = dataclasses.replace(model)  # which no call makes again
    assert kept_with(other) == {}
    general(other)
    assert kept_with(copy.copy(other)) == {}


def test_the_algorithms_of_a_model_asked_for_last_are_kept():
    """Eight of them: each is an init and a step, and those do not count together."""
    model = coin()
    make = lambda kappa: vi.svi(model, step_size=vi.step_size.robbins_monro(kappa=kappa)).step
    kappas = np.linspace(0.6, 0.9, 8)
    steps = [make(kappa) for kappa in kappas]
    assert make(kappas[0]) is steps[0]  # and is now the last one asked for
    make(0.95)
    assert make(kappas[0]) is steps[0]
    assert make(kappas[2]) is steps[2]
    assert make(kappas[1]) is not steps[1]


def test_settings_without_a_hash_make_an_algorithm_all_the_same():
    schedule = vi.step_size.proximal(jnp.float32(1.0))
    alg = vi.cavi(coin(), step_size=schedule)
    _, info = alg.step(KEY, alg.init(KEY), jnp.array([1.0, 0.0, 1.0]))
    np.testing.assert_allclose(info.step_size, 0.5)


def test_few_models_are_kept():
    models = [weakref.ref(vi.models.lda(2, 20 + i)) for i in range(100)]
    gc.collect()
    assert sum(ref() is not None for ref in models) <= 8


def test_what_is_made_within_a_program_outlives_it():
    """Its constants are numbers, and no part of the program that was traced when it was first asked
    for."""
    degrees = 4.25  # asked for nowhere else

    @jax.jit
    def within(z):
        return vi.likelihood.student_t(degrees, 1.0).log_prob(jnp.array(0.5), z)

    inside, outside = within(jnp.array(1.5)), vi.likelihood.student_t(degrees, 1.0)
    assert float(outside.width) == pytest.approx(degrees**0.5, rel=1e-6)
    assert float(inside) == pytest.approx(stats.t.logpdf(0.5, degrees, 1.5), rel=1e-6)

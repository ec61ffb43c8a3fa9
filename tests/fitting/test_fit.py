"""The loop: what an interrupt does."""

import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from tests.programs import compiled
from vijax.data import Corpus
from vijax.data.loader import as_loader
from vijax.fitting.interrupt import FINISHING

COIN = vi.model(
    prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
    local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
)


def fit(callback):
    alg = vi.cavi(COIN)
    return vi.fit(
        alg,
        jnp.ones(3),
        key=jax.random.key(0),
        num_steps=100,
        steps_per_chunk=1,
        callbacks=(callback,),
    )


def test_a_step_is_traced_once_for_any_number_of_chunks():
    """Most of what a first fit costs beside compiling."""
    alg, traced = vi.cavi(COIN), []

    def step(key, state, batch):
        traced.append(None)
        return alg.step(key, state, batch)

    for num_steps in (7, 9):
        vi.fit(
            alg._replace(step=step),
            jnp.ones(3),
            key=jax.random.key(0),
            num_steps=num_steps,
            steps_per_chunk=3,
        )
    assert len(traced) == 1


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_is_answered_at_once_and_ends_with_the_chunk(capfd):
    """The callback is between chunks: the next one, the third, is the one that is finished."""
    said = []

    def interrupt(seen):
        if seen.step == 2:
            signal.raise_signal(signal.SIGINT)
            said.append(capfd.readouterr().err)

    result = fit(interrupt)
    assert said == [FINISHING + "\n"]
    assert capfd.readouterr().err == ""
    assert result.status is vi.Status.INTERRUPTED
    assert int(result.state.step) == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("interruptible")
def test_a_second_interrupt_stops_at_once(capfd):
    def interrupt(seen):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit(interrupt)
    assert capfd.readouterr().err == FINISHING + "\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# --- what cannot be fitted ------------------------------------------------------------------------
CORPUS = Corpus.from_counts(np.ones((4, 6), int))


@pytest.mark.parametrize(
    ("vocab_size", "arguments", "choices", "message"),
    [
        (
            5,
            {},
            {},
            r"data: expected words numbered below the model's vocab_size=5, got documents over 6 "
            r"words",
        ),
        (6, {"batch_size": 2.5}, {}, r"batch_size: expected an integer from 1 to the 4 groups"),
        (6, {}, {"estep": "gibs"}, r"estep: expected an E-step such as .*, got 'gibs'"),
        (6, {}, {"estep": vi.estep.gibbs}, r"estep: expected .*\. Call it: it makes the E-step"),
    ],
)
def test_what_cannot_be_fitted_is_named(vocab_size, arguments, choices, message):
    given = {"batch_size": 2} | arguments
    with pytest.raises(ValueError, match=message):
        vi.fit(
            vi.svi(vi.models.lda(2, vocab_size), **choices),
            CORPUS,
            key=jax.random.key(0),
            num_steps=1,
            **given,
        )


def test_a_corpus_of_fewer_words_than_the_model_warns():
    """Its other words would take their share of every topic, and nothing would be said."""
    said = r"documents over 6 words for a model of vocab_size=9: 3 of the model's words never occur"
    with pytest.warns(UserWarning, match=said):
        as_loader(CORPUS, vi.models.lda(2, 9), None, 0)


def test_messages_of_other_counts_call_them_by_their_names():
    """Users who take items are no documents of words."""
    with pytest.raises(ValueError, match=naming("num_items=5", "6 items")):
        as_loader(CORPUS, vi.models.hpf(2, 5), None, 0)
    fit = vi.fit(vi.cavi(vi.models.hpf(2, 6)), CORPUS, key=jax.random.key(0), num_steps=1)
    assert "fit.score(users, key=key)" in fit.verdict


@pytest.mark.parametrize(
    ("make", "steps"),
    [
        (vi.svi, 2),
        (vi.ssvi_a, 4),
        (vi.cavi, 1),
        (lambda model: vi.svi(model, step_size=vi.step_size.constant()), 1),
        (lambda model: vi.memoized(model, 3), 3),
    ],
)
def test_many_documents_are_taken_in_usual_batches(make, steps):
    """1,024 short documents: half of them for svi, 256 for other algorithms of many small steps,
    all for the rest."""
    counts = np.random.default_rng(0).integers(1, 3, (1024, 2))
    fit = vi.fit(make(vi.models.lda(2, 2)), counts, num_epochs=1, key=jax.random.key(0))
    assert len(fit.trace["elbo"]) == steps


def test_a_run_that_a_callback_stops_leaves_the_precision_as_it_was():
    """The thread that puts data on the device has it in a context of its own, which is left
    there."""
    with jax.enable_x64(True):
        fit(lambda progress: True)
        assert jax.config.jax_enable_x64


def test_other_values_of_points_are_fitted_by_the_same_programs():
    """Those of a model made with them, and nothing is compiled."""
    y = np.array([[-5.0], [-4.0], [3.0], [3.5]])
    wide, narrow = (vi.models.emission.unit_gaussian(2, dim=1, variance=v) for v in (100.0, 0.1))
    model = vi.models.mixture(wide, init=vi.init.nearest([[-4.0], [3.0]]), prior_as_point=True)
    run = lambda alg, **more: vi.fit(alg, y, num_steps=5, key=jax.random.key(0), **more)
    run(vi.cavi(model), hyper={"prior": model.hyper["prior"]})
    before = compiled()
    other = {
        "prior": vi.Product(
            {"components": narrow.prior, "weights": vi.Dirichlet.from_concentration(np.ones(2))}
        )
    }
    found = run(vi.cavi(model), hyper=other)
    assert compiled() == before
    alone = run(vi.cavi(vi.models.mixture(narrow, init=vi.init.nearest([[-4.0], [3.0]]))))
    np.testing.assert_allclose(
        found.posterior["components"].mean(), alone.posterior["components"].mean(), rtol=1e-6
    )
    with pytest.raises(ValueError, match=naming("hyper:", "'prior'", "'priors'")):
        run(vi.cavi(model), hyper={"priors": other["prior"]})
    with pytest.raises(ValueError, match=naming("hyper['prior']:", "values")):
        run(vi.cavi(model), hyper={"prior": 1.0})

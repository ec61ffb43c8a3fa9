"""What may be asked of a fit: the answers that its model has, and what is said where it has
none."""

import dataclasses
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.programs import compiled
from vijax.contract.queries import QUESTIONS

KEY = jax.random.key(0)
TOSSES = np.array([1.0, 1.0, 0.0, 1.0], np.float32)
PRIOR = vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)})


def fitted(model, data=TOSSES, row=vi.cavi):
    return vi.fit(row(model), data, num_steps=1, key=KEY)


def bound(hyper, stats, batch, key, estep):
    each = jnp.asarray(batch.weights) * (
        batch.data * stats["bias"].log + (1 - batch.data) * stats["bias"].log1m
    )
    return vi.LocalElbo(jnp.sum(each), jnp.sum(batch.weights), each, None)


def test_a_hand_written_model_fills_four_of_its_fields():
    model = vi.Model({}, lambda hyper: PRIOR, bound, lambda hyper, key, prior, batch: prior)
    q = fitted(model).posterior["bias"]
    assert (float(q.alpha), float(q.beta)) == (4.0, 2.0)
    assert len(dataclasses.fields(vi.Model)) == 16
    assert not model.queries


ASKED = {
    "score": lambda fit: fit.score(TOSSES, key=KEY),
    "transform": lambda fit: fit.transform([[1, 2]], key=KEY),
    "predictive": lambda fit: fit.predictive(KEY, 3, TOSSES),
    "forecast": lambda fit: fit.forecast(KEY, 3, TOSSES, 2),
    "filter": lambda fit: fit.filter(),
    "predict": lambda fit: fit.predict(TOSSES),
    "topics": lambda fit: fit.topics(["a", "b"]),
}


@pytest.mark.parametrize("question", ASKED)
def test_what_a_model_cannot_answer_names_the_question_what_it_can_and_the_remedy(question):
    coin = fitted(vi.Model({}, lambda hyper: PRIOR, bound, lambda hyper, key, prior, batch: prior))
    needs, remedy = QUESTIONS[question]
    can = "It can be asked for: nothing of this kind."
    said = f"{question}: expected a model that {needs}, got one that does not. {can} {remedy}"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        ASKED[question](coin)


def test_it_says_what_the_model_can_be_asked_for():
    glm = vi.models.glm(np.eye(4), np.ones(4), vi.likelihood.gaussian(1.0))
    fit = fitted(glm, glm.data, vi.pg_svi)
    with pytest.raises(
        ValueError,
        match=r"^locals: .* can be asked for: score, predictive, predict\. The posterior",
    ):
        fit.locals(glm.data, key=KEY)
    for ours, theirs in zip(
        fit.predict(np.eye(4)), glm.predict(fit.posterior, np.eye(4)), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    sequences = vi.models.hmm(vi.models.emission.unit_gaussian(2, dim=1))
    assert list(sequences.queries) == [
        "predictive",
        "forecast",
        "score",
        "energy",
        "filter",
        "expected",
    ]
    with pytest.raises(
        ValueError, match=r"^transform: .* can be asked for: score, predictive, forecast, filter\. "
    ):
        sequences.answer("transform")


def test_a_score_reads_indices_as_indices():
    """Groups that say by an integer which of two means is theirs."""
    log_lik = lambda v, group: (
        -0.5 * (group["y"] - v["mean"][group["of"]]) ** 2 - 0.5 * np.log(2 * np.pi)
    )
    prior = lambda v: -0.5 * jnp.sum((v["mean"] - jnp.array([-5.0, 5.0])) ** 2) * 1e6
    fit = fitted(
        vi.density({"mean": vi.free(2)}, log_prior=prior, log_lik=log_lik),
        {"y": np.zeros(2, np.float32), "of": np.arange(2)},
        lambda model: vi.ngvi(model, nats=1e9, step_size=vi.step_size.constant(1.0)),
    )
    found = fit.score(
        {"y": np.array([-5.0, 5.0, 6.0], np.float32), "of": np.array([0, 1, 1])}, key=KEY
    )
    np.testing.assert_allclose(
        found.log_densities, -0.5 * np.log(2 * np.pi) - np.array([0, 0, 0.5]), atol=0.02
    )


def test_no_file_asks_of_what_class_a_model_is():
    """What a model is, is what it says of itself."""
    asks = re.compile(
        r"isinstance\([^)]*\b(Predictors|LogDensity|FreePart|Autoencoder|StructuredAutoencoder)\b"
    )
    files = sorted(Path(vi.__file__).parent.rglob("*.py"))
    assert len(files) > 300
    assert not [path.name for path in files if asks.search(path.read_text(encoding="utf-8"))]


def test_other_documents_of_about_these_lengths_compile_nothing():
    fit = fitted(vi.models.lda(2, 4), [[1, 2, 0, 3], [0, 1, 4, 0]])
    one = fit.transform([[1, 2, 0, 3]], key=KEY)
    count = compiled()
    more = fit.transform([[0, 1, 0, 1], [1, 2, 0, 3], [5, 0, 2, 0]], key=KEY)
    assert compiled() == count
    np.testing.assert_allclose(more[1], one[0], rtol=1e-5)

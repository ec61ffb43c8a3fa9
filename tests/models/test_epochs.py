"""The corner of N/S and weights: the messages of an epoch's minibatches average to the full data's
message.

With S_b groups of N in batch b, sum_b (S_b / N) [eta + (N / S_b) sum_{n in b} m_n] = eta + sum_n
m_n, whatever the model, the E-step and the message, once the globals' draw is the same. N is not
divisible by S, so one batch has padding, and all batches are laid out alike, so that one compiled
program serves them all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from vijax.contract.batch import Minibatch
from vijax.data import full_batch, synthetic
from vijax.models import emission

RNG = np.random.default_rng(3)
N = 7
BATCHES = np.array(
    [[0, 3, 5], [6, 1, 4], [2, 2, 2]]
)  # the last holds one group twice more, as padding
WEIGHTS = np.array([[1.0, 1, 1], [1, 1, 1], [1, 0, 0]])
SIZES = WEIGHTS.sum(1)

POINTS = RNG.normal(size=(N, 2)) + 3 * np.sign(RNG.normal(size=(N, 1)))
SEQUENCES = (RNG.normal(size=(N, 4, 2)), np.arange(4) < RNG.integers(2, 5, size=(N, 1)))
ROWS = vi.models.group_rows(
    np.c_[np.ones(20), RNG.normal(size=20)],
    np.sign(RNG.normal(size=20)),
    np.r_[np.arange(N), RNG.integers(0, N, 13)],
)
COUNTS = RNG.poisson(4.0, size=(N, 5)).astype(float)
EVERY = ("cavi", "map", "ssvi", "ssvi_a")


def coin():
    return vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(2.0, 3.0)}),
        local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )


CASES = {  # a model, data of N groups, algorithms of the fast suite
    "hand-written": (coin, (POINTS[:, 0] > 0).astype(float), (*EVERY, "em", "score_function")),
    "mixture": (
        lambda: vi.models.mixture(emission.full_gaussian(2, 2), 1.5),
        POINTS,
        ("cavi", "em"),
    ),
    "dp_mixture": (
        lambda: vi.models.dp_mixture(emission.poisson(3, 5), truncation="tied"),
        COUNTS,
        ("ssvi_a",),
    ),
    "hmm": (lambda: vi.models.hmm(emission.unit_gaussian(2, 2)), SEQUENCES, ("map",)),
    "factorial_hmm": (lambda: vi.models.factorial_hmm(2, 2, 2), SEQUENCES, ("cavi",)),
    "state_space": (lambda: vi.models.linear_gaussian_state_space(2, 1), SEQUENCES, ()),
    "factor_analysis": (lambda: vi.models.factor_analysis(2, 1), POINTS, ("ssvi",)),
    "gap_nmf": (lambda: vi.models.gap_nmf(5, 2, init="flat"), COUNTS, ()),
    "ard_regression": (
        lambda: vi.models.ard_regression(2),
        (POINTS, POINTS @ [1.0, -2.0]),
        ("cavi", "ssvi_a"),
    ),
    "linear": (lambda: vi.models.hierarchical_linear_regression(2), ROWS, ("cavi",)),
    "probit": (lambda: vi.models.hierarchical_probit_regression(2, "diagonal"), ROWS, ()),
    "logistic": (lambda: vi.models.multilevel_logistic_regression(2, "diagonal"), ROWS, ()),
    "plsa": (
        lambda: vi.models.plsa(2, 3, 4, "joint"),
        (np.arange(N) % 3, np.arange(N) % 4, 1.0 + np.arange(N)),
        ("em",),
    ),
}
DOCUMENTS = {
    "lda": (lambda: vi.models.lda(2, 6), ("cavi", "ssvi")),
    "lda cvb0": (lambda: vi.models.lda(2, 6, estep=vi.estep.cvb0()), ("ssvi_a",)),
    "hdp": (lambda: vi.models.hdp(2, 6), ()),
    "simple_mixture": (lambda: vi.models.simple_mixture(2, 6), ("cavi",)),
    "ctm": (lambda: vi.models.ctm(2, 6, num_samples=8), ()),
}


def row_of_algorithm(name, model):
    """All at step size one half, for which V is damped by half too."""
    step_size = vi.step_size.constant(0.5)
    if name == "score_function":
        return vi.part_of(
            vi.compose(model, estimator=vi.estimator.score_function(4), step_size=step_size), N
        )
    choices = {"blocks": None, "num_groups": N, "penalty_every": 1}
    return getattr(vi, name)(model, step_size=step_size, **choices)


def parts_of_arrays(data):
    """The minibatches of an epoch, stacked, and the whole set in the same layout of N rows and
    padding."""
    rows = np.pad(BATCHES, ((0, 0), (0, N - 3)))
    weights = np.pad(WEIGHTS, ((0, 0), (0, N - 3)))
    rows, weights = np.vstack([rows, np.arange(N)]), np.vstack([weights, np.ones(N)])
    return Minibatch(
        jax.tree.map(lambda x: np.asarray(x)[rows], data), np.full(4, float(N)), weights
    )


def parts_of_documents():
    """The same of documents: those of other batches are made padding."""
    corpus, _ = synthetic.lda_corpus(
        num_documents=N, num_topics=2, vocab_size=6, document_length=12.0, seed=0
    )
    batch, order = full_batch(corpus, num_buckets=2)
    batch_of = np.empty(N, int)
    batch_of[BATCHES[WEIGHTS > 0]] = np.repeat(np.arange(3), SIZES.astype(int))
    keep = np.vstack([batch_of[order] == b for b in range(3)] + [np.ones(N, bool)])
    data, first = [], 0
    for docs in batch.data:
        kept = keep[:, first : (first := first + len(docs.weights))]
        copies = jax.tree.map(lambda x: np.repeat(np.asarray(x)[None], 4, 0), docs)
        counts = np.where(kept[..., None], copies.counts, 0.0)
        data.append(vi.Documents(copies.words, counts, kept * 1.0, docs.max_tokens))
    return Minibatch(tuple(data), np.full(4, float(N)))


def check(model, algorithm, parts):
    alg = row_of_algorithm(algorithm, model)
    whole = jax.tree.map(lambda x: jnp.asarray(x[3]), parts)

    step = jax.jit(lambda key, state: jax.vmap(lambda batch: alg.step(key, state, batch))(parts))
    moved, _ = step(jax.random.key(1), jax.jit(alg.init)(jax.random.key(0), whole))
    state = jax.tree.map(lambda x: x[3], moved)  # away from the start
    steps = (step(jax.random.key(seed), state) for seed in range(1, 30))
    # A step that left the domain is not that of its message: of a draw, another one.
    stepped, info = next(
        ((new, info) for new, info in steps if not np.any(info.retractions)), (None, None)
    )
    assert info is not None, "every draw leaves the domain"
    assert not np.any(info.result)
    shares, spread = np.r_[SIZES, 0.0] / N, 0.0
    for old, new in zip(
        jax.tree.leaves(state.posterior), jax.tree.leaves(stepped.posterior), strict=True
    ):
        target = 2 * np.asarray(new) - np.asarray(old)  # prior and message, at step size one half
        scale = 1 + np.abs(target[3]).max()
        np.testing.assert_allclose(
            np.tensordot(shares, target, 1), target[3], atol=1e-9 * scale, rtol=1e-9
        )
        spread = max(spread, np.abs(target[:3] - target[3]).max())
    assert spread > 1e-2  # the batches differ, so the law is not empty
    np.testing.assert_array_equal(info.num_groups, [*SIZES, N])
    np.testing.assert_allclose(np.dot(shares, info.elbo), info.elbo[3], rtol=1e-9)
    np.testing.assert_allclose(info.local_elbo[:3].sum(), info.local_elbo[3], rtol=1e-9)


def cases(table, algorithms_at):
    for name, row in table.items():
        for algorithm in EVERY:
            fast = algorithm in row[algorithms_at]
            yield pytest.param(name, algorithm, marks=[] if fast else pytest.mark.slow)
        for algorithm in row[algorithms_at]:
            if algorithm not in EVERY:
                yield pytest.param(name, algorithm)


@pytest.mark.parametrize(("name", "algorithm"), cases(CASES, 2))
def test_minibatches_average_to_the_full_data(name, algorithm):
    make, data, _ = CASES[name]
    with jax.enable_x64(True):
        check(make(), algorithm, parts_of_arrays(data))


@pytest.mark.parametrize(("name", "algorithm"), cases(DOCUMENTS, 1))
def test_minibatches_of_documents_average_to_all_documents(name, algorithm):
    with jax.enable_x64(True):
        check(DOCUMENTS[name][0](), algorithm, parts_of_documents())

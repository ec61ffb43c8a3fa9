"""Topics that move in time beside tomotopy's DTModel, on simulated documents: held-out score and
the words that are found, by CPU seconds (`pip install tomotopy`).

    python benchmarks/dtm.py

Both are scored by the document completion of vijax with the words of the slice of each document."""

import time

import jax
import numpy as np
from scipy.optimize import linear_sum_assignment

import vijax as vi
from vijax.evaluate.completion import grouped_completion

TOPICS, SLICES, WORDS, DOCUMENTS, STEP = 10, 10, 1000, 3000, 0.15
ALPHA, KEY = 0.1, jax.random.key(0)


def simulate() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts, slices, and probabilities of words."""
    rng = np.random.default_rng(0)
    steps = np.sqrt(STEP) * rng.normal(size=(TOPICS, SLICES, WORDS))
    steps[:, 0] = np.log(rng.gamma(0.1, 1.0, (TOPICS, WORDS)) + 1e-4)
    weights = np.exp(steps.cumsum(1))
    words = weights / weights.sum(-1, keepdims=True)
    index = rng.integers(0, SLICES, DOCUMENTS)
    shares = rng.dirichlet(np.full(TOPICS, 0.2), DOCUMENTS)
    mixed = np.einsum("dk,kdv->dv", shares, words[:, index])
    return rng.multinomial(80, mixed), index, words


def report(name: str, seconds: float, found: np.ndarray, held_out, index, truth) -> None:
    by_slice = np.moveaxis(found, 1, 0) + 1e-12
    by_slice = by_slice / by_slice.sum(-1, keepdims=True)
    score = grouped_completion([(by_slice, ALPHA)], held_out, index, KEY)
    costs = 0.5 * np.abs(found[:, None] - truth[None]).sum(-1).mean(-1)
    distance = costs[linear_sum_assignment(costs)].mean()
    print(f"| {name} | {seconds:.1f} | {score.mean:.4f} | {distance:.3f} |", flush=True)


def main() -> None:
    counts, index, truth = simulate()
    train, test = slice(0, 2600), slice(2600, None)
    vocabulary = [f"w{v}" for v in range(WORDS)]
    corpus, held_out = (
        vi.data.Corpus.from_counts(counts[rows], vocabulary) for rows in (train, test)
    )
    print("| method | CPU s | held out, nats per word | total variation |\n|---|---|---|---|")
    for steps in (20, 60):
        model = vi.dtm(TOPICS, corpus, index[train], alpha=ALPHA, drift=STEP)
        start = time.process_time()
        fit = vi.fit(vi.cavi(model), model.data, num_steps=steps, key=KEY)
        words = model.words(fit).mean
        report(
            f"vijax, cavi, {steps} steps",
            time.process_time() - start,
            words,
            held_out,
            index[test],
            truth,
        )
    still = vi.models.lda(TOPICS, WORDS, alpha=ALPHA)
    start = time.process_time()
    fit = vi.fit(vi.cavi(still), corpus, num_steps=60, key=KEY)
    words = np.repeat(np.asarray(fit.posterior["topics"].mean())[:, None], SLICES, 1)
    report(
        "vijax.models.lda, 60 steps",
        time.process_time() - start,
        words,
        held_out,
        index[test],
        truth,
    )
    for settings in RATES:
        tomotopy_chain(
            settings, counts[train], index[train], vocabulary, held_out, index[test], truth
        )


RATES: list[dict[str, float]] = [{}, {"phi_var": STEP, "lr_a": 0.1}]
"""Settings of tomotopy: its defaults, and the true variance of steps with larger steps."""
MOST_SWEEPS = 8_000
RISE = 0.002
"""Nats a word: a chain whose own score rises by less in twice its sweeps has stopped rising."""


def tomotopy_chain(settings, counts, index, vocabulary, held_out, test_index, truth) -> None:
    """A chain with twice the sweeps until its own score, nats per word of training, stops rising."""
    import tomotopy

    start = time.process_time()
    chain = tomotopy.DTModel(k=TOPICS, t=SLICES, seed=1, **settings)
    for row, t in zip(counts, index, strict=True):
        chain.add_doc(np.repeat(vocabulary, row).tolist(), timepoint=int(t))
    total, before = 250, -np.inf
    while True:
        chain.train(total - chain.global_step, workers=1)
        places = {word: i for i, word in enumerate(chain.used_vocabs)}
        order = [places.get(word, -1) for word in vocabulary]
        found = np.array(
            [[chain.get_topic_word_dist(k, t) for t in range(SLICES)] for k in range(TOPICS)]
        )
        found = np.concatenate([found, np.zeros((TOPICS, SLICES, 1))], -1)[:, :, order]
        name = f"tomotopy {settings or 'as it is'}, {total} sweeps, own {chain.ll_per_word:.3f}"
        report(name, time.process_time() - start, found, held_out, test_index, truth)
        if chain.ll_per_word - before < RISE or total >= MOST_SWEEPS:
            return
        before, total = chain.ll_per_word, 2 * total


if __name__ == "__main__":
    main()

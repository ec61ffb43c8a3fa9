"""Answers about little data come from programs that compile quickly, about much from fast ones: the
same answers."""

import jax
import numpy as np

import vijax as vi
from vijax.data import Corpus
from vijax.predict import questions


def test_the_size_of_all_documents_chooses_the_program(monkeypatch):
    corpus = Corpus.from_counts(np.random.default_rng(0).integers(0, 3, size=(6, 5)))
    fit = vi.fit(vi.svi(vi.models.lda(2, 5)), corpus, key=jax.random.key(0), num_steps=1)
    made, ask = [], lambda: fit.transform(corpus, key=jax.random.key(1), batch_size=2)
    for name in ("quick_jit", "step_jit"):
        compiled = getattr(questions, name)
        noted = lambda fn, name=name, compiled=compiled, **more: (
            made.append(name),
            compiled(fn, **more),
        )[1]
        monkeypatch.setattr(questions, name, noted)
    few = ask()
    monkeypatch.setattr(questions, "FEW", len(corpus.indices))  # of three batches, each smaller
    many = ask()
    assert made == ["quick_jit", "step_jit"]
    np.testing.assert_allclose(few, many, rtol=1e-5)

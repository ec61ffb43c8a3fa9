"""Topics of a library's documentation

Six topics of the docstrings of scikit-learn and SciPy, the words by which they differ most, and the
tree that joins first what differs least.
"""

import inspect

import jax
import matplotlib.pyplot as plt
import numpy as np
from scipy import linalg, optimize, signal, stats
from sklearn import cluster, linear_model, metrics, preprocessing

import vijax as vi

texts = []
for module in (linalg, optimize, signal, stats, cluster, linear_model, metrics, preprocessing):
    members = [getattr(module, name) for name in module.__all__]
    texts += [text for text in map(inspect.getdoc, members) if text and len(text) > 300]
corpus = vi.data.read(texts)
model = vi.models.lda(6, corpus.vocab_size, eta=0.1)
fit = vi.fit(vi.svi(model), corpus, num_epochs=40, key=jax.random.key(0))
topics = np.asarray(fit.posterior["topics"].mean())
shares = fit.transform(corpus, key=jax.random.key(1)).mean(0)
leading = np.argsort(-vi.evaluate.word_scores(topics), axis=1)[:, :6]
labels = [", ".join(corpus.vocabulary[v] for v in row[:3]) for row in leading]
print(vi.topics.topic_tree(topics, shares).text(labels))

figure, axes = plt.subplots(2, 3, figsize=(6, 4), layout="constrained")
for ax, row, topic, share in zip(axes.flat, leading, topics, shares, strict=True):
    ax.barh([corpus.vocabulary[v] for v in row[::-1]], topic[row[::-1]])
    ax.set_title(f"{share:.0%} of all words", fontsize=9)
    ax.tick_params(labelsize=7)
    ax.xaxis.set_major_formatter("{x:.1%}")
    ax.locator_params(axis="x", nbins=3)

# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Topics three ways: SVI, SSVI-A and SSVI on latent Dirichlet allocation
#
# One model, one step, three messages. We draw a corpus from known topics that are hard to tell apart, fit it by each from
# several seeds, and see who finds them.

# %% tags=["hide-cell"] jupyter={"source_hidden": true}
# Where vijax is not installed (on Colab, say), upload its wheel, or a zip or a clone of its repository, beside this notebook.
# This cell then installs vijax and what it lacks, and replaces nothing that is there. It says which device computes.
import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path

EXTRAS = "cli"
spec = importlib.util.find_spec("vijax")
if spec is None or spec.origin is None:  # not installed; a folder of that name does not count
    clones = [folder for folder in (Path(".."), Path("vijax"), Path(".")) if (folder / "vijax/app/cli.py").is_file()]
    found = [*sorted(Path(".").glob("vijax*.whl")), *sorted(Path(".").glob("vijax*.zip")), *clones]
    if not found:
        raise ImportError("vijax is not installed: put its wheel, or a zip or a clone of its repository, here")
    there = {d.name.lower(): d.version for d in importlib.metadata.distributions() if d.name}
    fixed = Path("keep-installed.txt")  # the GPU's plugin fits one version of jax only, so nothing may be replaced
    names = [n for n in there if n in {"jax", "jaxlib", "numpy", "scipy", "scikit-learn"} or n.startswith("jax-")]
    fixed.write_text("\n".join(f"{name}=={there[name]}" for name in names))
    wanted = f"vijax-vi[{EXTRAS}] @ {found[0].resolve().as_uri()}"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "-c", str(fixed), wanted], check=True)
    importlib.invalidate_caches()

from vijax.xla.device import device_in_use

print(device_in_use())

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment

import vijax as vi
from vijax.data import synthetic

# %% [markdown]
# ## A corpus whose topics we know, and that is not easy
#
# 30 topics over 800 words, 1,500 short documents. There are many wrong ways to divide the words among so many topics, and an
# algorithm may end in one of them.

# %%
NUM_TOPICS, VOCAB_SIZE = 30, 800
corpus, truth = synthetic.lda_corpus(
    num_documents=1500,
    num_topics=NUM_TOPICS,
    vocab_size=VOCAB_SIZE,
    document_length=60,
    alpha=0.05,
    eta=0.05,
    seed=0,
)
train, test = corpus.split(held_out=0.1, seed=0)
train

# %% [markdown]
# ## Three rows of one table
#
# The E-step is the same for all (CVB0); only the *message* differs: the gradient of the local bound at the expected statistics
# (SVI), at a sample of the topics (SSVI-A), or that times the quantile Jacobian V (SSVI). The two that sample keep the
# dependence between topics and documents that SVI leaves out.
#
# One run proves nothing: each algorithm runs from three seeds.

# %%
NAMES, SEEDS = ("svi", "ssvi_a", "ssvi"), range(3)
model = vi.models.lda(num_topics=NUM_TOPICS, vocab_size=VOCAB_SIZE, alpha=0.05, eta=0.05, estep=vi.estep.cvb0())
fits, scores = {}, {}
for name in NAMES:
    algorithm = getattr(vi, name)(model)
    fits[name] = [vi.fit(algorithm, train, num_epochs=8, batch_size=100, key=jax.random.key(seed)) for seed in SEEDS]
    scores[name] = np.array([fit.score(test, key=jax.random.key(1)).mean for fit in fits[name]])
    print(f"{name:7s} {scores[name].mean():.3f} ± {scores[name].std(ddof=1):.3f} nats a held-out word (over seeds)")

# %% [markdown]
# ## How near to the truth?
#
# Topics come in no order, so we match each with its nearest true one (total variation distance: 0 is equal, 1 is disjoint).


# %%
def matched_distance(found: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Total variation distance of each true topic from the topic matched to it."""
    distance = 0.5 * np.abs(found[:, None] - true[None]).sum(-1)
    rows, columns = linear_sum_assignment(distance)
    return np.sort(distance[rows, columns])


true_topics = np.asarray(truth.topics)
distances = {
    name: np.array([matched_distance(np.asarray(fit.posterior["topics"].mean()), true_topics) for fit in fits[name]])
    for name in NAMES
}
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5), constrained_layout=True)
for i, name in enumerate(NAMES):
    left.errorbar([i], scores[name].mean(), scores[name].std(ddof=1), marker="o", capsize=4)
    left.plot([i] * len(SEEDS), scores[name], "k.", markersize=4)
    of_topics = distances[name]
    right.plot(of_topics.mean(0), label=f"{name}: {np.mean(of_topics < 0.4) * NUM_TOPICS:.0f} of {NUM_TOPICS} found")
    right.fill_between(range(NUM_TOPICS), of_topics.min(0), of_topics.max(0), alpha=0.2)
left.set(xticks=range(3), xticklabels=NAMES, ylabel="nats a word", title="Held-out score; dots are seeds")
right.set(xlabel="topic, best first", ylabel="distance from the truth", title="What is found; bands are seeds")
right.legend()
plt.show()

# %% [markdown]
# SVI misses topics that both structured algorithms find, and predicts held-out words worse, from every seed. On easy data
# (few topics, long documents) all three end in the same place; then SVI is as good.

# %% [markdown]
# ## Real text
#
# Articles of the Associated Press (2,246 documents, the example of LDA-C), if the environment variable `VIJAX_DATA` names a
# folder that has them; else the documentation of the Python packages that are installed here. Fifty topics, the same steps,
# two seeds. Now no one knows the true topics. What can be measured: how well held-out words are predicted, and *coherence*
# (NPMI): whether the ten leading words of a topic occur in the same documents.


# %%
def real_text() -> vi.data.Corpus:
    """The Associated Press, or docstrings where it is not there."""
    try:
        return vi.data.load_bag_of_words("ap")
    except ValueError:
        return vi.data.read("docstrings")


train_text, test_text = real_text().split(held_out=0.1, seed=0)
seen_words = np.flatnonzero(train_text.word_counts())
train_text, test_text = (vi.data.select_words(part, seen_words) for part in (train_text, test_text))
text_model = vi.models.lda(50, train_text.vocab_size, alpha=0.1, eta=0.1, estep=vi.estep.cvb0())
print(train_text)
text_fits, text_scores, coherence = {}, {}, {}
for name in NAMES:
    algorithm = getattr(vi, name)(text_model)
    runs = [vi.fit(algorithm, train_text, num_epochs=12, batch_size=128, key=jax.random.key(seed)) for seed in range(2)]
    topics = [np.asarray(fit.posterior["topics"].mean()) for fit in runs]
    text_fits[name] = runs[0]
    text_scores[name] = [fit.score(test_text, key=jax.random.key(1)) for fit in runs]
    coherence[name] = np.array([vi.evaluate.npmi(probs, train_text).mean for probs in topics])
    print(f"{name:7s}", " and ".join(f"{score.mean:.3f}" for score in text_scores[name]), end=" nats a held-out word; ")
    print("coherence", " and ".join(f"{value:.2f}" for value in coherence[name]))

# %% [markdown]
# SVI is behind on both. It averages the logarithms of the topics' words: a word of little weight in a topic gets next to
# none, so small topics lose their words and stay at the prior. The structured algorithms draw the topics instead, and such
# topics survive. The largest five topics of each, and how many of the fifty have more than a tenth of an even share:

# %%
for name, fit in text_fits.items():
    concentration = np.asarray(fit.posterior["topics"].concentration)
    size = (concentration - 0.1).clip(0).sum(axis=1)
    print(f"{name}: {np.sum(size > 0.1 * size.mean())} of 50 topics in use")
    words = fit.topics(train_text.vocabulary, num_words=8)
    for k in np.argsort(-size)[:5]:
        print(f"   {100 * size[k] / size.sum():4.1f} %  {' '.join(words[k])}")

# %% [markdown]
# Is the difference larger than chance? Scores are paired: each algorithm predicts the same halves of the same documents.

# %%
for name in ("ssvi_a", "ssvi"):
    difference = vi.evaluate.paired_difference(text_scores[name][0], text_scores["svi"][0])
    print(f"{name} - svi: {difference}")

# %% [markdown]
# ## New documents
#
# Shares of topics of documents that were not seen; and documents that the fit would write, here of ten and of fifty words.

# %%
fit = fits["ssvi_a"][0]
proportions = fit.transform(test, key=jax.random.key(2))
print(proportions.shape, proportions.sum(axis=1).round(3)[:3])
new = fit.predictive(jax.random.key(3), 100, like=[10, 50])
print("a hundred times two documents:", new.shape, np.asarray(new.sum(-1))[0])

# %% [markdown]
# Next: [mixtures](mixtures.ipynb), a model from its log joint. Your own text: `vijax fit lda --data reviews.csv`.

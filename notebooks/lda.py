# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Topics three ways: SVI, SSVI-A and SSVI on latent Dirichlet allocation
#
# One model, one step, three messages. We draw a corpus from known topics, fit it three times, and see who finds them.
# If vijax is not installed (on Colab, say), clone or upload its repository into a folder `vijax` beside this notebook: the
# next cell installs it from there (`pip install -e ".[cli]"`). Where it is installed, that cell does nothing.

# %%
import importlib.util
import subprocess
import sys
from pathlib import Path

spec = importlib.util.find_spec("vijax")
if spec is None or spec.origin is None:  # not installed; a folder of that name does not count
    clones = [folder for folder in (Path(".."), Path("vijax"), Path(".")) if (folder / "vijax/cli.py").is_file()]
    if not clones:
        raise ImportError("vijax is not installed: clone (or upload) its repository into a folder vijax beside this")
    clone = clones[0].resolve()
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "-e", f"{clone}[cli]"], check=True)
    sys.path.insert(0, str(clone))  # this Python has started: it does not look for new installations
    importlib.invalidate_caches()

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment

import vijax as vi
from vijax.data import synthetic

# %% [markdown]
# ## A corpus whose topics we know

# %%
NUM_TOPICS, VOCAB_SIZE = 10, 200
corpus, truth = synthetic.lda_corpus(
    num_documents=1000,
    num_topics=NUM_TOPICS,
    vocab_size=VOCAB_SIZE,
    document_length=80,
    alpha=0.1,
    eta=0.1,
    seed=0,
)
train, test = corpus.split(held_out=0.1, seed=0)
train

# %% [markdown]
# ## Three rows of one table
#
# The E-step is Gibbs sampling of each document's topic assignments; only the *message* differs: the gradient of the local
# bound at the expected statistics (SVI), at a sample of the topics (SSVI-A), or that times the quantile Jacobian V (SSVI).

# %%
model = vi.models.lda(num_topics=NUM_TOPICS, vocab_size=VOCAB_SIZE, alpha=0.1, eta=0.1)
estep = vi.estep.gibbs(num_sweeps=5)
fits = {}
for name in ("svi", "ssvi_a", "ssvi"):
    algorithm = getattr(vi, name)(model, estep=estep)
    fits[name] = vi.fit(algorithm, train, num_epochs=8, batch_size=100, key=jax.random.key(0))
    print(f"{name:7s} {fits[name].score(test, key=jax.random.key(1))}   {fits[name].status}")

# %% [markdown]
# ## How near to the truth?
#
# Topics come in no order, so we match each with its nearest true one (total variation distance).


# %%
def matched_distance(found: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Total variation distance of each true topic from the topic matched to it."""
    distance = 0.5 * np.abs(found[:, None] - true[None]).sum(-1)
    rows, columns = linear_sum_assignment(distance)
    return np.sort(distance[rows, columns])


true_topics = np.asarray(truth.topics)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5))
for name, fit in fits.items():
    left.plot(fit.trace["step"], fit.trace["elbo"] / train.num_tokens, label=name)
    distances = matched_distance(np.asarray(fit.posterior["topics"].mean()), true_topics)
    right.plot(distances, marker="o", label=f"{name}, mean {distances.mean():.2f}")
left.set(xlabel="step", ylabel="ELBO per word (estimate)", title="What is maximised")
right.set(xlabel="topic, best first", ylabel="distance from the truth", title="What is found")
left.legend()
right.legend()
figure.tight_layout()

# %% [markdown]
# ## New documents

# %%
proportions = fits["ssvi_a"].transform(test, key=jax.random.key(2))
print(proportions.shape, proportions.sum(axis=1).round(3)[:3])

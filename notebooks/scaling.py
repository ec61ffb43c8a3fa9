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
# # Scaling: minibatches, words, files and devices
#
# What to do when there are many documents, many words, data larger than memory, or several devices. Each section is a change
# of an argument, and measures what it changes.

# %% tags=["hide-cell"] jupyter={"source_hidden": true}
# Where vijax is not installed (on Colab, say), upload its wheel, or a zip or a clone of its repository, beside this notebook.
# This cell then installs vijax and what it lacks, and replaces nothing that is there. It says which device computes.
import importlib.metadata
import importlib.util
import os
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

# Two devices, for the last section.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"

from vijax.xla.device import device_in_use

print(device_in_use())

# %%
import tempfile
import time

import jax
import matplotlib.pyplot as plt
import numpy as np

import vijax as vi
from vijax.data import Corpus, synthetic

# %% [markdown]
# ## Minibatches: a pass is many steps
#
# Coordinate ascent reads all documents before it changes the topics once. Stochastic variational inference changes them
# after each batch. Both see every document as often; the curve is the bound on a held-out score against passes.

# %%
corpus, _ = synthetic.lda_corpus(num_documents=2000, num_topics=10, vocab_size=500, document_length=60, seed=0)
train, test = corpus.split(held_out=0.1, seed=0)
model = vi.models.lda(num_topics=10, vocab_size=500, alpha=0.1, eta=0.1, estep=vi.estep.cvb0())


def curve(alg, batch_size, passes=4):
    scores, state = [], None
    for done in range(1, passes + 1):
        fit = vi.fit(alg, train, num_epochs=done, batch_size=batch_size, key=jax.random.key(0), state=state)
        state = fit.state
        scores.append(fit.score(test, key=jax.random.key(1)).mean)
    return scores


figure, ax = plt.subplots(figsize=(6, 3), constrained_layout=True)
ends = {}
for name, alg, batch_size in (("all documents", vi.cavi(model), None), ("batches of 100", vi.svi(model), 100)):
    ends[name] = curve(alg, batch_size)
    ax.plot(range(1, 5), ends[name], marker="o", label=name)
ax.set(xlabel="passes over the data", ylabel="held-out score, nats a word")
ax.legend()
plt.show()

# %% [markdown]
# ## Many words: lazy steps
#
# A batch holds few of all words. By words a step costs what the words of its batch cost, whatever the vocabulary; the numbers
# it computes are the same. `vi.fit` goes by words where that pays, unless a wrapper says which steps to take.

# %%
wide, _ = synthetic.lda_corpus(
    num_documents=400, num_topics=20, vocab_size=50_000, document_length=60, eta=0.01, seed=0
)
big = vi.models.lda(num_topics=20, vocab_size=50_000, alpha=0.1, eta=0.01, estep=vi.estep.cvb0(max_iters=10))
means = []
for name, wrap in (("all words", vi.topics.all_words), ("by words", vi.topics.by_words)):
    alg = wrap(vi.svi(big))
    state = vi.fit(alg, wide, num_steps=8, batch_size=50, key=jax.random.key(0)).state  # compiles, and settles
    start = time.perf_counter()
    fit = vi.fit(alg, wide, num_steps=24, batch_size=50, key=jax.random.key(0), state=state)
    print(f"{name:9}: {1000 * (time.perf_counter() - start) / 16:6.1f} ms a step")
    means.append(np.asarray(fit.posterior["topics"].mean()))
print("largest difference of a probability:", np.abs(means[1] - means[0]).max())

# %% [markdown]
# ## Larger than memory: files that are read as they are needed
#
# A corpus on disk is memory-mapped: a fit reads the documents of its batch. Generators write there directly, and
# `Corpus.open` opens a folder again.

# %%
folder = tempfile.TemporaryDirectory()
synthetic.lda_corpus(num_documents=8_000, num_topics=10, vocab_size=500, document_length=60, seed=1, folder=folder.name)
mapped = Corpus.open(folder.name)
size = sum(file.stat().st_size for file in Path(folder.name).rglob("*") if file.is_file())
print(f"{mapped.num_documents:,} documents, {size / 1e6:.0f} MB on disk, mapped: {mapped.mapped}")
start = time.perf_counter()
fit = vi.fit(vi.svi(model), mapped, num_epochs=1, batch_size=500, key=jax.random.key(0))
print(f"one pass: {mapped.num_documents / (time.perf_counter() - start):,.0f} documents a second, compilation included")

# %% [markdown]
# ## No step size: memoized coordinate ascent
#
# The data are cut into parts whose messages are remembered. Every step replaces one message, so that batches need no step
# size, and the bound of the whole never falls.

# %%
y = np.concatenate([np.random.default_rng(0).normal(m, 1.0, size=(20_000, 1)) for m in (-6, 0, 6)]).astype("f4")
y = np.random.default_rng(1).permutation(y)
mixture = vi.models.mixture(vi.models.emission.diagonal_gaussian(3, dim=1))
parts = vi.fit(vi.memoized(mixture, num_parts=20), y, num_epochs=3, key=jax.random.key(0))
print("three passes:", np.sort(np.asarray(parts.posterior["components"].mean().mean)[:, 0]).round(2))

# %% [markdown]
# ## Several devices
#
# Put the rows of a batch on several devices, and the compiled step does the rest: each device works on its own rows, and
# messages are summed, which is the only communication. (Inside `jax.shard_map`, take `vi.over_axis(alg, "data")`.) Here the
# two devices are two threads of one processor, so that nothing gets faster.

# %%
mesh = jax.make_mesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
sharded = jax.device_put(y, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data")))
alg = vi.cavi(mixture)
state = alg.init(jax.random.key(0), sharded)
step = jax.jit(alg.step)
for i in range(5):
    state, info = step(jax.random.key(i), state, sharded)
alone = alg.init(jax.random.key(0), y)
for i in range(5):
    alone, one = step(jax.random.key(i), alone, y)
print(f"{len(jax.devices())} devices: bound {float(info.elbo):.2f}; one device: {float(one.elbo):.2f}")

# %%
folder.cleanup()

# %% [markdown]
# Next: [own_parts](own_parts.ipynb), what is not there yet.

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
# # Who writes about what: topics with covariates
#
# 800 posts of two parties over twelve weeks of a campaign. Which topics does each party write about, how does that change, and
# do they use other words for the same topic? `vi.stm` is the structural topic model (Roberts, Stewart and Airoldi 2016), for
# which social scientists use R's package stm. The posts are made here, so we know the truth.

# %% tags=["hide-cell"] jupyter={"source_hidden": true}
# Where vijax is not installed (on Colab, say), upload its wheel, or a zip or a clone of its repository, beside this notebook.
# This cell then installs vijax and what it lacks, and replaces nothing that is there. It says which device computes.
import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path

EXTRAS = "cli,sklearn"
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
import pandas as pd
from scipy.special import softmax

import vijax as vi

THEMES = {
    "economy": "jobs taxes budget growth wages trade markets debt prices banks factory workers income deficit spending",
    "health": "doctors hospital insurance patients medicine nurses care clinics disease coverage drugs treatment costs premium surgery",
    "war": "troops army iraq soldiers peace weapons allies security borders military veterans bombs conflict forces treaty",
    "court": "judge justice law rights court trial lawyers ruling appeal constitution crime police evidence jury verdict",
}
OWN = {"L": {"health": "public reform universal"}, "R": {"health": "private choice mandate"}}
COMMON = "people country today time party candidate campaign speech voters news state year question plan house"


def words_of(theme, party):
    """Words of a theme, each half as frequent as the one before it by rank; a tenth are common ones."""
    words = THEMES[theme].split() + OWN[party].get(theme, "").split() + COMMON.split()
    own = len(words) - len(COMMON.split())
    weights = np.concatenate([1 / np.arange(2, own + 2), np.full(len(COMMON.split()), 0.03)])
    return words, weights / weights.sum()


rng = np.random.default_rng(0)
names = list(THEMES)
rows = []
for _ in range(800):
    party, week = rng.choice(["L", "R"]), rng.uniform(0, 12)
    is_right = party == "R"
    mean = [0.3 - 0.5 * is_right, 0.6 - 0.9 * is_right, -0.9 + 0.16 * week, 0.2 * is_right]
    share = softmax(rng.multivariate_normal(mean, 0.6 * np.eye(4)))
    theme = rng.choice(names, size=rng.poisson(60) + 10, p=share)
    text = " ".join(rng.choice(words_of(t, party)[0], p=words_of(t, party)[1]) for t in theme)
    rows.append({"text": text, "party": party, "week": week, **dict(zip(names, share, strict=True))})
table = pd.DataFrame(rows)
corpus = vi.data.read(table, column="text", text=vi.data.TextSettings(max_df=1.0))  # also words of most posts
print(corpus)
print(table.text[0][:80], "...")

# %% [markdown]
# ## How many topics
# Posts are held out to score each number. Topics should also be coherent (their words occur together) and exclusive (other
# topics lack them). From four on, of which the posts are made, the score grows by less than its error.

# %%
make = lambda k, documents, rows: vi.stm(k, documents, rows, "~ party * week", eta=0.1, num_samples=16)
found = vi.trust.search_k(make, [2, 3, 4, 6], corpus, table, key=jax.random.key(0), num_steps=25)
print(found)

# %% [markdown]
# ## The fit
# The shares of topics depend on party, week and how the two go together. Words of a topic may differ between parties: each word
# is from the words that both use or, with a probability that is learnt, from the party's own.

# %%
model = vi.stm(4, corpus, table, "~ party * week", content="party", eta=0.1)
fit = vi.fit(vi.cavi(model), model.data, num_steps=60, key=jax.random.key(0))
words, vocabulary = model.words(fit), np.array(corpus.vocabulary)
scores = vi.evaluate.frex(words.mean(0))
for k in range(4):
    print(k, *vocabulary[np.argsort(-scores[k])[:8]])

# %% [markdown]
# Words that are frequent and exclusive (FREX) name the topics. Where do parties differ? By the ratio of their probabilities
# (only on health do they have words of their own here; of other topics chance alone makes the order):

# %%
for k in range(4):
    frequent = np.flatnonzero(words[:, k].max(0) > 0.015)
    ratio = np.log(words[1, k, frequent] / words[0, k, frequent])
    order = frequent[np.argsort(ratio)]
    print(k, "left:", *vocabulary[order[:3]], "  right:", *vocabulary[order[-3:]])

# %% [markdown]
# ## Effects
# Draws of each post's shares are regressed on the covariates, and pooled: intervals carry how uncertain the shares are.

# %%
effects = model.effects(fit, "~ party + week", key=jax.random.key(1))
print(effects)

# %% [markdown]
# The interaction, as lines. Dots are the true shares, averaged over the posts of a week.

# %%
matched = [
    int(np.argmax(np.corrcoef(fit.transform(model.data, key=jax.random.key(2)).T, table[n])[-1, :-1])) for n in names
]
effects = model.effects(fit, key=jax.random.key(1))
weeks = np.linspace(0, 12, 25)
fig, axes = plt.subplots(1, 4, figsize=(11, 2.8), sharey=True)
for party, colour in (("L", "tab:blue"), ("R", "tab:red")):
    line = effects.at({"party": [party] * 25, "week": weeks})
    mine = table[table.party == party]
    truth = mine.groupby(mine.week.round())[names].mean()
    for ax, name, k in zip(axes, names, matched, strict=True):
        ax.plot(weeks, line.mean[k], color=colour, label=party)
        ax.fill_between(weeks, line.low[k], line.high[k], color=colour, alpha=0.2)
        ax.plot(truth.index, truth[name], ".", color=colour)
        ax.set(title=name, xlabel="week")
axes[0].set_ylabel("share, with 90 % interval")
axes[0].legend()
plt.show()

# %% [markdown]
# The difference between parties in the last week:

# %%
gap = effects.difference({"party": ["R"], "week": [12]}, {"party": ["L"], "week": [12]})
for name, k in zip(names, matched, strict=True):
    print(f"{name:8} {gap.mean[k, 0]:+.2f}, between {gap.low[k, 0]:+.2f} and {gap.high[k, 0]:+.2f}")

# %% [markdown]
# ## Posts to read
# The posts with the largest share of each topic, and which topics come together in posts: shares sum to one, so that most
# correlations are negative, and pairs at the top avoid each other least.

# %%
for k, rows in enumerate(model.find_thoughts(fit, key=jax.random.key(3), number=1)):
    print(k, table.text[int(rows[0])][:90], "...")
for i, j, correlation in vi.topics.linked(fit.transform(model.data, key=jax.random.key(2)), least=-1.0):
    print(f"topics {i} and {j}: shares correlated by {correlation:+.2f}")

# %% [markdown]
# ## New posts
# Their covariates are part of what is known about them.

# %%
new = pd.DataFrame({"text": ["judge and jury", "judge and jury"], "party": ["L", "R"], "week": [6.0, 6.0]})
described = model.described(vi.data.read(new, column="text", vocabulary=corpus.vocabulary), new)
print(fit.transform(described, key=jax.random.key(4)).round(2))
